//! From a request to the stages of a pipeline: names become slots, expressions programs.
//!
//! Properties belong to sections. The rows of the index are the first one, and each GROUPBY begins another,
//! in which only its own properties are known.

use super::expression::{Expression, Slot};
use super::group::Grouper;
use super::reducers::Kind;
use super::request::{Aggregate, Group, Load, Step};
use super::sort::{Key, Sorter};
use super::stage::{Input, InputSource, Options, Schema, Stage};
use crate::Error;
use crate::request::Arrange;
use crate::schema::MAX_FIELDS;
use std::collections::HashMap;

/// The property that ADDSCORES adds.
pub(super) const SCORE: &[u8] = b"__score";

/// The properties of a section.
#[derive(Debug, Default)]
pub(super) struct Section {
    /// Names by slot; an empty one is hidden.
    pub(super) names: Vec<Box<[u8]>>,
    hidden: Vec<bool>,
    slots: HashMap<Box<[u8]>, Slot>,
}

impl Section {
    /// The slot of a name; an unknown name gets the next slot.
    fn write(&mut self, name: &[u8]) -> Slot {
        if let Some(slot) = self.slots.get(name) {
            return *slot;
        }
        let slot = self.names.len();
        self.names.push(name.into());
        self.hidden.push(false);
        self.slots.insert(name.into(), slot);
        slot
    }

    /// The slot of a name that must be new.
    fn write_once(&mut self, name: &[u8]) -> Result<Slot, Error> {
        if self.slots.contains_key(name) {
            let name = String::from_utf8_lossy(name);
            return Err(Error::new(format!("Property `{name}` specified more than once")));
        }
        Ok(self.write(name))
    }

    /// Slots of which nothing is shown.
    pub(super) fn without_names(width: usize) -> Section {
        let (names, hidden) = (vec![Box::default(); width], vec![true; width]);
        Section { names, hidden, slots: HashMap::new() }
    }

    /// A slot that has no name.
    pub(super) fn hide(&mut self) -> Slot {
        self.names.push(Box::default());
        self.hidden.push(true);
        self.names.len() - 1
    }

    /// The slot of a name.
    pub(super) fn slot_of(&self, name: &[u8]) -> Option<Slot> {
        self.slots.get(name).copied()
    }

    /// Whether a slot is shown in results.
    pub(super) fn is_shown(&self, slot: Slot) -> bool {
        self.hidden.get(slot) == Some(&false)
    }
}

/// The stages of a pipeline and the properties of their rows.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) stages: Vec<Stage>,
    /// The section that each stage's rows belong to when they enter it.
    pub(super) sections_of_stages: Vec<usize>,
    pub(super) sections: Vec<Section>,
    /// The properties of a row from the source.
    pub(super) scanned: Vec<Input>,
    pub(super) terms_slot: Option<Slot>,
    /// The slot of the score, for WITHSCORES.
    pub(super) score_slot: Option<Slot>,
    /// See [`Options::loads_names`].
    pub(super) loads_names: bool,
}

struct Builder<'a> {
    plan: Plan,
    /// The section that names are looked up in; those before it are in the plan.
    section: Section,
    schema: &'a dyn Schema,
    options: &'a Options,
    /// LOAD * has been seen: every field of the schema can be read.
    is_loaded: bool,
    /// Fields that the next stage needs loaded.
    missing: Vec<Input>,
}

/// Builds the stages of a request.
pub(super) fn build(request: &Aggregate, schema: &dyn Schema, options: &Options) -> Result<Plan, Error> {
    let plan = Plan {
        stages: Vec::new(),
        sections_of_stages: Vec::new(),
        sections: Vec::new(),
        scanned: Vec::new(),
        terms_slot: None,
        score_slot: None,
        loads_names: options.loads_names,
    };
    let mut builder =
        Builder { plan, section: Section::default(), schema, options, is_loaded: false, missing: Vec::new() };
    builder.yielded(request)?;
    for step in &request.steps {
        match step {
            Step::Load(load) => builder.load(load)?,
            Step::Group(group) => builder.group(group)?,
            Step::Apply { expression, name } => builder.apply(expression, name)?,
            Step::Filter(expression) => {
                let program = builder.program(expression)?;
                builder.push(Stage::Filter(program));
            }
            Step::Arrange(arrange) => builder.arrange(arrange, request.count_only)?,
        }
    }
    builder.plan.sections.push(builder.section);
    Ok(builder.plan)
}

impl Builder<'_> {
    fn is_root(&self) -> bool {
        self.plan.sections.is_empty()
    }

    fn push(&mut self, stage: Stage) {
        self.plan.sections_of_stages.push(self.plan.sections.len());
        self.plan.stages.push(stage);
    }

    /// The properties that the query yields.
    fn yielded(&mut self, request: &Aggregate) -> Result<(), Error> {
        let score: Option<Box<[u8]>> = request.add_scores.then(|| SCORE.into());
        for name in self.options.yielded.iter().chain(&score) {
            if self.schema.property(name).is_some() {
                let name = String::from_utf8_lossy(name);
                return Err(Error::new(format!("Property `{name}` already exists in schema")));
            }
            let slot = self.section.write_once(name)?;
            self.plan.scanned.push(Input {
                slot,
                name: name.clone(),
                path: name.clone(),
                source: InputSource::Query,
            });
        }
        if request.with_scores {
            let known = self.section.slot_of(SCORE);
            let slot = known.unwrap_or_else(|| self.section.hide());
            if known.is_none() {
                let source = InputSource::Query;
                self.plan.scanned.push(Input { slot, name: SCORE.into(), path: SCORE.into(), source });
            }
            self.plan.score_slot = Some(slot);
        }
        Ok(())
    }

    /// The slot of a property that can be read without a further load.
    fn read(&mut self, name: &[u8]) -> Option<Slot> {
        if let Some(slot) = self.section.slots.get(name) {
            return Some(*slot);
        }
        let is_root = self.is_root();
        let property = self.schema.property(name).filter(|_| is_root)?;
        if !property.is_sortable && !self.is_loaded {
            return None;
        }
        let slot = self.section.write(name);
        let source = if self.is_loaded { InputSource::Document } else { InputSource::Sorted };
        let input = Input { slot, name: name.into(), path: property.path, source };
        match self.is_loaded {
            true => self.missing.push(input),
            false => self.plan.scanned.push(input),
        }
        Some(slot)
    }

    /// The slot of a property; a field of the schema is loaded before the next stage.
    fn read_or_load(&mut self, name: &[u8]) -> Option<Slot> {
        if let Some(slot) = self.read(name) {
            return Some(slot);
        }
        let is_root = self.is_root();
        let property = self.schema.property(name).filter(|_| is_root)?;
        let slot = self.section.write(name);
        let input = Input { slot, name: name.into(), path: property.path, source: InputSource::Document };
        self.missing.push(input);
        Some(slot)
    }

    /// Adds a stage that loads the missing fields.
    fn load_missing(&mut self) {
        if !self.missing.is_empty() {
            let inputs = std::mem::take(&mut self.missing);
            self.push(Stage::Load { inputs, all: false });
        }
    }

    fn load(&mut self, load: &Load) -> Result<(), Error> {
        if !self.is_root() {
            return Err(Error::new("LOAD cannot be applied after projectors or reducers"));
        }
        let fields = match load {
            Load::All => {
                self.is_loaded = self.options.loads_names;
                self.push(Stage::Load { inputs: Vec::new(), all: true });
                return Ok(());
            }
            Load::Fields(fields) => fields,
        };
        let mut inputs = Vec::new();
        for field in fields {
            // A name that is there already keeps its value.
            let is_scanned = |input: &Input| input.name == field.name && input.source == InputSource::Sorted;
            let is_known = self.section.slots.contains_key(&field.name);
            if is_known && !self.plan.scanned.iter().any(is_scanned) {
                continue;
            }
            let slot = self.section.write(&field.name);
            // The path of a field of the schema is the schema's.
            let path = self.schema.property(&field.path).map_or(field.path.clone(), |property| property.path);
            inputs.push(Input { slot, name: field.name.clone(), path, source: InputSource::Document });
            if self.section.names.len() > MAX_FIELDS {
                return Err(Error::new(format!("LOAD is limited to {MAX_FIELDS} fields")));
            }
        }
        if !inputs.is_empty() {
            self.push(Stage::Load { inputs, all: false });
        }
        Ok(())
    }

    fn program(&mut self, text: &[u8]) -> Result<super::expression::Program, Error> {
        let expression = Expression::parse(text)?;
        if expression.has_matched_terms() && self.is_root() && self.plan.terms_slot.is_none() {
            self.plan.terms_slot = Some(self.section.hide());
        }
        let program = expression.bind(&mut |name| self.read(name))?;
        self.load_missing();
        Ok(program)
    }

    fn apply(&mut self, text: &[u8], name: &[u8]) -> Result<(), Error> {
        let program = self.program(text)?;
        let slot = self.section.write(name);
        self.push(Stage::Apply { program, slot });
        Ok(())
    }

    fn group(&mut self, group: &Group) -> Result<(), Error> {
        let mut section = Section::default();
        let mut slots = Vec::with_capacity(group.properties.len());
        for name in &group.properties {
            let slot = self
                .read_or_load(name)
                .ok_or_else(|| Error::new(format!("No such property `{}`", String::from_utf8_lossy(name))))?;
            section.write_once(name)?;
            slots.push(slot);
        }
        let mut kinds = Vec::with_capacity(group.reducers.len());
        for reduce in &group.reducers {
            kinds.push(Kind::bind(reduce, &mut |name| self.read_or_load(name))?);
            section.write_once(&reduce.name)?;
        }
        self.load_missing();
        self.read_numbers_of_index(&slots, &kinds);
        let seed = self.options.seed;
        self.push(Stage::Group(Box::new(Grouper::new(slots, kinds, seed))));
        self.plan.sections.push(std::mem::replace(&mut self.section, section));
        Ok(())
    }

    /// Has the index give the numbers that reducers alone see, where the first stage would load them from the
    /// documents.
    fn read_numbers_of_index(&mut self, slots: &[Slot], kinds: &[Kind]) {
        let [Stage::Load { inputs, all: false }] = self.plan.stages.as_mut_slice() else { return };
        let (schema, scanned) = (self.schema, &mut self.plan.scanned);
        inputs.retain(|input| {
            let is_number = schema
                .property(&input.name)
                .is_some_and(|property| property.has_numbers && property.path == input.path);
            let is_reduced =
                kinds.iter().all(|kind| kind.wants_numbers() || !kind.slots().contains(&Some(input.slot)));
            let is_free = is_number && is_reduced && !slots.contains(&input.slot);
            // A field that is sortable is there already, and loaded over it.
            scanned.retain(|known| !is_free || known.slot != input.slot);
            if is_free {
                scanned.push(Input { source: InputSource::Sorted, ..input.clone() });
            }
            !is_free
        });
        if inputs.is_empty() {
            self.plan.stages.clear();
            self.plan.sections_of_stages.clear();
        }
    }

    fn arrange(&mut self, arrange: &Arrange, count_only: bool) -> Result<(), Error> {
        if count_only {
            self.push(Stage::Count);
            return Ok(());
        }
        if let Some(keys) = &arrange.sort {
            let mut bound = Vec::with_capacity(keys.len());
            for key in keys {
                let slot = self.read_or_load(&key.name).ok_or_else(|| {
                    let name = String::from_utf8_lossy(&key.name);
                    Error::new(format!("Property `{name}` not loaded nor in schema"))
                })?;
                bound.push(Key { slot, descending: key.descending });
            }
            self.load_missing();
            let most = usize::try_from(arrange.kept(self.options.results_max)).unwrap_or(usize::MAX);
            self.push(Stage::Sort(Box::new(Sorter::new(bound, most))));
        }
        if arrange.offset > 0 || (arrange.count > 0 && arrange.sort.is_none()) {
            self.push(Stage::Limit { skipped: arrange.offset, left: arrange.count });
        }
        Ok(())
    }
}
