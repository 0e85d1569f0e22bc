//! The rows of FT.AGGREGATE: what an index knows of the documents that a query finds, by steps of bounded
//! length.
//!
//! A few documents come in the order in which the index has come to know them, as in RediSearch; many come as
//! they are found, so that none waits for all. Between two steps no partition is locked. A row names its
//! document by a number, and a document that has changed since is gone.

use std::sync::Arc;
use std::time::Duration;

use martlet_base::hash::hash_bytes;

use crate::Error;
use crate::aggregate::batch::{Batch, Dictionary};
use crate::aggregate::expression::Slot;
use crate::aggregate::pipeline::{Input, InputSource, Options, Pipeline, Property, Role, Schema};
use crate::aggregate::request::Aggregate;
use crate::aggregate::value::Value;
use crate::exec::profile::Profile;
use crate::exec::{DistanceField, Distances, Evaluation, Found, Match, Scores};
use crate::index::DocId;
use crate::index::bits::Bits;
use crate::index::partition::Partition;
use crate::index::sortables::{Cell, Code};
use crate::index::whole::Index;
use crate::number;
use crate::schema::{Definition, Field, FieldKind, Source};
use crate::searching::{Context, Filters, plan};

/// Up to so many documents are put into order.
const ORDERED_MAX: usize = if cfg!(test) { 500 } else { 10_000 };
/// The most texts of a partition's field for which a dictionary is made.
const CODES_MAX: usize = 1 << 16;
/// The bits of a row's number that name its document in a partition.
const ID_BITS: u32 = 48;
/// Texts that are kept for rows with the same.
const KEPT_TEXTS: usize = 256;
/// The longest text that is kept.
const KEPT_TEXT_BYTES: usize = 64;

/// Limits of an aggregation, and its chance.
#[derive(Copy, Clone, Debug)]
pub struct Means {
    /// MAXAGGREGATERESULTS
    pub results_max: u64,
    /// Bytes that rows, groups and results may take.
    pub memory_max_bytes: usize,
    /// The seed of RANDOM_SAMPLE.
    pub seed: u64,
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct Aggregating {
    index: Arc<Index>,
    evaluation: Evaluation,
    found: Vec<Row>,
    /// How many of them have become rows.
    passed: usize,
    /// Documents of a window that are to become rows.
    window: Option<Window>,
    ids: Vec<DocId>,
    /// Nothing has become a row yet: there may be few, to be put into order.
    is_ordering: bool,
    columns: Vec<(Slot, Origin)>,
    coded: Vec<CodedColumn>,
    /// Scores are parts of the greatest one: all rows are waited for.
    is_normalised: bool,
    terms_slot: Option<Slot>,
}

/// A document that was found.
#[derive(Debug)]
struct Row {
    sequence: u64,
    document: u64,
    score: f64,
    distances: Distances,
    terms: Vec<Box<[u8]>>,
}

/// Documents that were found, from an id on.
#[derive(Debug)]
struct Window {
    partition: usize,
    found: Bits,
    next: DocId,
}

/// A sortable field whose values a row names by a dictionary.
#[derive(Debug)]
struct CodedColumn {
    slot: Slot,
    place: usize,
    dictionary: Arc<Dictionary>,
    /// The partition whose codes the dictionary has. An evaluation finds no document that came since it began
    /// there, so that a code which is given again is not met.
    of: Option<usize>,
}

/// Where a row's value comes from.
#[derive(Copy, Clone, Debug)]
enum Origin {
    Score,
    /// The distance at a place.
    Distance(usize),
    /// The numbers of a field.
    Number(usize),
    /// The value of a document at a place among those that are kept with it.
    Kept(usize),
}

/// The fields of an index as properties.
pub struct Fields<'a>(pub &'a Definition);

impl Schema for Fields<'_> {
    fn property(&self, name: &[u8]) -> Option<Property> {
        let field = self.0.fields.iter().find(|field| *field.name == *name)?;
        let has_numbers = has_one_number(self.0, field);
        Some(Property { path: field.identifier.clone(), is_sortable: field.sortable, has_numbers })
    }
}

impl Aggregating {
    /// An aggregation that has not begun, and the pipeline that its rows are for.
    ///
    /// # Errors
    /// RediSearch's, for the query first and then for properties and expressions.
    pub fn new(
        index: Arc<Index>,
        request: &Aggregate,
        context: Context,
        means: Means,
        role: Role,
    ) -> Result<(Aggregating, Pipeline), Error> {
        let rules = index.rules();
        let (planned, scorer) = plan(&rules, &request.query, Filters::default(), &context)?;
        let distances = planned.distance_fields();
        let options = Options {
            loads_names: rules.definition.source == Source::Hash,
            yielded: distances.iter().map(|field| field.name.clone()).collect(),
            results_max: means.results_max,
            memory_max_bytes: means.memory_max_bytes,
            seed: means.seed,
        };
        let pipeline = Pipeline::of(role, request, &Fields(&rules.definition), &options)?;
        let origin = |input: &Input| Some((input.slot, origin(&rules.definition, input, &distances)?));
        let terms_slot = pipeline.terms_slot();
        let wants_scores = request.add_scores || request.with_scores || terms_slot.is_some();
        let scores = wants_scores.then(|| Scores {
            scorer,
            payload: request.query.payload.clone(),
            explain: false,
            with_terms: terms_slot.is_some(),
            by_texts: false,
        });
        let columns: Vec<(Slot, Origin)> = pipeline.scanned().iter().filter_map(origin).collect();
        let coded = |column: &(Slot, Origin)| match *column {
            (slot, Origin::Kept(place)) if pipeline.coded().contains(&slot) => {
                Some(CodedColumn { slot, place, dictionary: Arc::default(), of: None })
            }
            _ => None,
        };
        let aggregating = Aggregating {
            coded: columns.iter().filter_map(coded).collect(),
            columns,
            evaluation: Evaluation::new(Arc::clone(&index), planned, scores)?.among_keys(context.key_filter),
            index,
            found: Vec::new(),
            passed: 0,
            window: None,
            ids: Vec::new(),
            is_ordering: true,
            is_normalised: wants_scores && scorer.is_normalised(),
            terms_slot,
        };
        Ok((aggregating, pipeline))
    }

    /// See [`Evaluation::has_long_steps`].
    pub fn has_long_steps(&self) -> bool {
        self.evaluation.has_long_steps()
    }

    /// The parts of the query, whose evaluation took `time` and found `found` documents.
    pub fn profile(&self, limited: bool, time: Duration, found: u64) -> Profile {
        self.evaluation.profile(limited, time, found)
    }

    /// RediSearch's names for the steps between the index and the pipeline.
    pub fn processors(&self) -> Vec<&'static str> {
        let is_distance = |(_, origin): &(Slot, Origin)| matches!(origin, Origin::Distance(_));
        let steps = [
            (self.columns.iter().any(is_distance), "Metrics Applier"),
            (self.evaluation.has_scores(), "Scorer"),
        ];
        steps.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name).collect()
    }

    /// Adds at most `most` rows, after a step of the search if none is left from the one before. Returns
    /// whether there may be others.
    pub fn fill(&mut self, batch: &mut Batch, most: usize) -> bool {
        if self.is_ordering || self.window.is_none() && self.passed == self.found.len() {
            self.search();
        }
        if self.is_ordering {
            return true;
        }
        if let Some(window) = self.window.take() {
            self.fill_of_window(window, batch, most);
        } else {
            self.fill_of_found(batch, most);
        }
        self.window.is_some() || self.passed < self.found.len() || !self.evaluation.is_done()
    }

    fn fill_of_found(&mut self, batch: &mut Batch, most: usize) {
        let index = Arc::clone(&self.index);
        let end = self.found.len().min(self.passed.saturating_add(most));
        while let Some(first) = self.found.get(self.passed).filter(|_| self.passed < end) {
            let number = partition_of(first.document);
            let Some(partition) = index.partition(number) else { break };
            while let Some(found) = self.found.get(self.passed).filter(|_| self.passed < end) {
                if partition_of(found.document) != number {
                    break;
                }
                add_row(batch, &partition, found, &self.columns, self.terms_slot);
                self.passed += 1;
            }
        }
    }

    /// Adds the next documents of a window, which is kept if it has more.
    fn fill_of_window(&mut self, mut window: Window, batch: &mut Batch, most: usize) {
        let Some(partition) = self.index.partition(window.partition) else { return };
        let ids = &mut self.ids;
        ids.clear();
        ids.extend(window.found.between(window.next, window.found.end() - 1).take(most));
        window.next = ids.last().map_or(window.next, |last| last + 1);
        let documents = partition.documents();
        let has_more = ids.len() == most;
        ids.retain(|id| documents.is_live(*id));
        let (first, number) = (batch.len(), window.partition);
        batch.extend(ids.iter().map(|id| (number as u64) << ID_BITS | id));
        for (slot, origin) in &self.columns {
            // A dictionary is for all rows of a batch.
            let coded = self.coded.iter_mut().find(|coded| coded.slot == *slot && first == 0);
            if coded.is_some_and(|coded| coded.encode(number, &partition, ids, batch)) {
                continue;
            }
            for (row, id) in (first..).zip(ids.iter()) {
                if let Some(place) = batch.row_mut(row).get_mut(*slot) {
                    *place = kept_value(&partition, *id, *origin);
                }
            }
        }
        if has_more {
            self.window = Some(window);
        }
    }

    /// A step of the search.
    fn search(&mut self) {
        if self.passed == self.found.len() {
            self.found.clear();
            self.passed = 0;
        }
        if self.is_ordering {
            let found = &mut self.found;
            self.evaluation.step(&mut |one: Match<'_>| found.push(one.into()));
            let is_enough = self.found.len() > ORDERED_MAX && !self.is_normalised;
            if self.evaluation.is_done() || is_enough {
                self.is_ordering = false;
                if self.is_normalised {
                    normalise(&mut self.found);
                }
                self.found.sort_unstable_by_key(|one| one.sequence);
            }
        } else {
            self.evaluation.step_into(&mut Next { found: &mut self.found, window: &mut self.window });
        }
    }

    /// Calls `each` with the key of each of the documents, in their order; `None` for one that has gone.
    pub fn keys(&self, documents: &[u64], mut each: impl FnMut(Option<&[u8]>)) {
        for of_partition in documents.chunk_by(|one, two| partition_of(*one) == partition_of(*two)) {
            let partition = of_partition.first().and_then(|first| self.index.partition(partition_of(*first)));
            for document in of_partition {
                let known =
                    partition.as_ref().and_then(|partition| partition.documents().get(id_of(*document)));
                each(known.map(|document| &*document.key));
            }
        }
    }
}

impl From<Match<'_>> for Row {
    fn from(found: Match<'_>) -> Row {
        Row {
            sequence: found.rank.sequence,
            document: (found.partition as u64) << ID_BITS | found.id,
            score: found.score,
            distances: found.distances,
            terms: found.notes.terms,
        }
    }
}

/// Where a step's documents go.
struct Next<'a> {
    found: &'a mut Vec<Row>,
    window: &'a mut Option<Window>,
}

impl Found for Next<'_> {
    fn one(&mut self, found: Match<'_>) {
        self.found.push(found.into());
    }

    fn window(&mut self, _: &Partition, partition: usize, found: Bits) {
        *self.window = Some(Window { partition, next: found.base(), found });
    }
}

impl CodedColumn {
    /// Gives the rows of a batch, which are these documents, the field's values by a dictionary. False if the
    /// field has too many texts for one.
    fn encode(&mut self, number: usize, partition: &Partition, ids: &[DocId], batch: &mut Batch) -> bool {
        let documents = partition.documents();
        let Some(texts) = documents.texts(self.place).filter(|texts| texts.codes() <= CODES_MAX) else {
            return false;
        };
        let of = Some(number);
        let dictionary = Arc::make_mut(&mut self.dictionary);
        if self.of != of {
            self.of = of;
            dictionary.number += 1;
            dictionary.values.clear();
        }
        dictionary.values.resize(texts.codes(), Value::Null);
        let mut codes = Vec::with_capacity(ids.len());
        for (row, id) in ids.iter().enumerate() {
            codes.push(match documents.cell(*id, self.place) {
                Cell::Text(code) => {
                    if let (Some(value @ Value::Null), Some(text)) =
                        (dictionary.values.get_mut(code as usize), texts.get(code))
                    {
                        *value = Value::Text(Arc::clone(text));
                    }
                    code
                }
                Cell::Number(number) => {
                    if let Some(place) = batch.row_mut(row).get_mut(self.slot) {
                        *place = Some(Value::Number(number));
                    }
                    Code::MAX
                }
                Cell::Missing => Code::MAX,
            });
        }
        batch.encode(self.slot, Arc::clone(&self.dictionary), codes);
        true
    }
}

fn normalise(found: &mut [Row]) {
    let greatest = found.iter().map(|row| row.score).fold(0.0, f64::max);
    if greatest > 0.0 {
        found.iter_mut().for_each(|row| row.score /= greatest);
    }
}

fn partition_of(document: u64) -> usize {
    (document >> ID_BITS) as usize
}

fn id_of(document: u64) -> DocId {
    document & ((1 << ID_BITS) - 1)
}

/// Whether a column has the field's numbers, one of a document: a hash has no more.
fn has_one_number(definition: &Definition, field: &Field) -> bool {
    definition.source == Source::Hash && matches!(field.kind, FieldKind::Numeric) && !field.no_index
}

/// Where an input of the pipeline comes from.
fn origin(definition: &Definition, input: &Input, distances: &[DistanceField]) -> Option<Origin> {
    match input.source {
        InputSource::Document => None,
        InputSource::Query => {
            let distance = distances.iter().find(|field| field.name == input.name);
            Some(distance.map_or(Origin::Score, |field| Origin::Distance(field.place)))
        }
        InputSource::Sorted => {
            let at = definition.fields.iter().position(|field| field.name == input.name)?;
            let (before, field) = (definition.fields.get(..at)?, definition.fields.get(at)?);
            if has_one_number(definition, field) {
                return Some(Origin::Number(at));
            }
            Some(Origin::Kept(before.iter().filter(|field| field.sortable).count()))
        }
    }
}

fn add_row(
    batch: &mut Batch,
    partition: &Partition,
    found: &Row,
    columns: &[(Slot, Origin)],
    terms_slot: Option<Slot>,
) {
    let id = id_of(found.document);
    if !partition.documents().is_live(id) {
        return;
    }
    let row = batch.push(found.document);
    for (slot, origin) in columns {
        let value = match *origin {
            Origin::Score => Some(Value::Number(found.score)),
            Origin::Distance(place) => {
                let distance = found.distances.get(place).copied().flatten();
                distance.map(|distance| Value::Number(f64::from(distance)))
            }
            kept => kept_value(partition, id, kept),
        };
        if let Some(place) = row.get_mut(*slot) {
            *place = value;
        }
    }
    if let Some(place) = terms_slot.and_then(|slot| row.get_mut(slot)) {
        let terms: Vec<Value> = found.terms.iter().map(|term| Value::from(&**term)).collect();
        *place = Some(terms.into());
    }
}

/// The value of a property that the index has of a document ([`InputSource::Sorted`]).
pub fn value_of_index(
    definition: &Definition,
    partition: &Partition,
    id: DocId,
    input: &Input,
) -> Option<Value> {
    kept_value(partition, id, origin(definition, input, &[])?)
}

/// What the index keeps of a document.
fn kept_value(partition: &Partition, id: DocId, origin: Origin) -> Option<Value> {
    match origin {
        Origin::Score | Origin::Distance(_) => None,
        Origin::Number(field) => partition.numbers(field)?.get(id).next().map(Value::Number),
        Origin::Kept(place) => match partition.documents().cell(id, place) {
            Cell::Missing => None,
            Cell::Number(number) => Some(Value::Number(number)),
            Cell::Text(code) => partition.documents().texts(place)?.get(code).cloned().map(Value::Text),
        },
    }
}

/// Short texts that were seen last, so that rows with equal ones share them.
#[derive(Debug, Default)]
pub struct Texts(Vec<Option<Arc<[u8]>>>);

impl Texts {
    /// The value of a text.
    pub fn value(&mut self, text: &[u8]) -> Value {
        if text.len() > KEPT_TEXT_BYTES {
            return text.into();
        }
        self.0.resize(KEPT_TEXTS, None);
        let at = hash_bytes(text) as usize % KEPT_TEXTS;
        let Some(kept) = self.0.get_mut(at) else { return text.into() };
        match kept {
            Some(kept) if **kept == *text => Value::Text(Arc::clone(kept)),
            _ => Value::Text(Arc::clone(kept.insert(text.into()))),
        }
    }

    /// The value of a text that is a number if it reads as one.
    pub fn number_or_text(&mut self, text: &[u8]) -> Value {
        number::parse_c(text).map_or_else(|| self.value(text), Value::Number)
    }
}

#[cfg(test)]
mod tests;
