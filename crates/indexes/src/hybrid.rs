//! FT.HYBRID over keys, in steps between which others run: both searches, then the fused rows through a
//! pipeline, which reads their fields from the keys.

use std::sync::Arc;

use martlet_search::Error;
use martlet_search::aggregate::batch::Batch;
use martlet_search::aggregate::pipeline::{Input, InputSource, Options, Pipeline, Progress, SlotOf, Source};
use martlet_search::aggregate::request::{Aggregate, Load, LoadField, Step};
use martlet_search::aggregate::value::Value;
use martlet_search::aggregating::{Fields, value_of_index};
use martlet_search::exec::Hit;
use martlet_search::hybrid::{Fused, Hybrid, HybridHit, HybridSearching};
use martlet_search::request::{Arrange, Format};
use martlet_search::schema::Source as DocumentSource;
use martlet_search::searching::Context;

use crate::access::Access;
use crate::index::KeyIndex;
use crate::row_values::{Keys, RowValues};

mod parts;

pub use parts::HybridPart;
use parts::PartRows;

const KEY: &[u8] = b"__key";
const SCORE: &[u8] = b"__score";
/// Rows that a step passes through the pipeline.
const ROWS: usize = 64;
/// Bytes that the rows and groups of a request may take.
const MEMORY_MAX: usize = 256 << 20;

/// Where a time limit has ended a request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum EndedIn {
    /// The search of texts.
    Search,
    /// The search of vectors.
    Vectors,
    /// The pipeline.
    Pipeline,
}

/// A row of the results: its properties.
pub type HybridRow = Vec<(Box<[u8]>, Value)>;

/// The results of a run.
#[derive(Debug, Default)]
pub struct HybridResults {
    /// How many rows there are without LIMIT.
    pub total: u64,
    /// The rows in order.
    pub rows: Vec<HybridRow>,
    /// Whether a time limit has ended the run, and where.
    pub ended_in: Option<EndedIn>,
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct HybridRun {
    index: Arc<KeyIndex>,
    searching: Option<Box<HybridSearching>>,
    rows: Rows,
    pipeline: Pipeline,
    has_groups: bool,
    /// Properties that each row has, but that the request does not name.
    hidden: Vec<&'static [u8]>,
    timeout_ms: u64,
    results: HybridResults,
    /// The fused rows of several servers, which come in the place of a search.
    parts: Option<PartRows>,
}

/// The fused rows, as a source of the pipeline.
#[derive(Debug)]
struct Rows {
    hits: Vec<HybridHit>,
    at: usize,
    scanned: Vec<Input>,
    names: Names,
    values: RowValues,
}

/// The properties that have scores.
#[derive(Debug)]
struct Names {
    fused: Box<[u8]>,
    search: Option<Box<[u8]>>,
    vector: Option<Box<[u8]>>,
}

impl HybridRun {
    /// A run that has not begun.
    ///
    /// # Errors
    /// RediSearch's, for both queries, and the steps of the tail.
    pub fn new(index: Arc<KeyIndex>, mut request: Hybrid, context: Context) -> Result<HybridRun, Error> {
        let Context { results_max, is_resp3, .. } = context;
        let rules = index.index().rules();
        let definition = &rules.definition;
        request.query.check_format(is_resp3, definition.source == DocumentSource::Json)?;
        if request.query.format == Format::Expand && request.query.dialect < 3 {
            return Err(Error::new("EXPAND format requires dialect 3 or greater"));
        }
        request.combine.window =
            request.combine.window.min(usize::try_from(results_max).unwrap_or(usize::MAX));
        let names = Names {
            fused: request.combine.score_name.clone().unwrap_or_else(|| SCORE.into()),
            search: request.search_score_name.clone(),
            vector: request.vector.score_name.clone(),
        };
        let steps = steps(std::mem::take(&mut request.tail.steps), request.tail.no_sort, &names.fused);
        let hidden = hidden(&steps);
        let has_groups = steps.iter().any(|step| matches!(step, Step::Group(_)));
        let tail = Aggregate {
            query: request.query.clone(),
            steps,
            add_scores: false,
            with_scores: false,
            with_sort_keys: false,
            with_payloads: false,
            no_content: false,
            count_only: request.tail.count_only,
            cursor: None,
        };
        let scores = [Some(&names.fused), names.search.as_ref(), names.vector.as_ref()];
        let yielded = std::iter::once(KEY.into()).chain(scores.into_iter().flatten().cloned()).collect();
        let loads_names = definition.source == DocumentSource::Hash;
        let options = Options { loads_names, yielded, results_max, memory_max_bytes: MEMORY_MAX, seed: 0 };
        let pipeline = Pipeline::new(&tail, &Fields(definition), &options)?;
        let (timeout_ms, dialect) = (request.query.timeout_ms, request.query.dialect);
        let rows = Rows {
            hits: Vec::new(),
            at: 0,
            scanned: pipeline.scanned().to_vec(),
            names,
            values: RowValues::new(definition, dialect),
        };
        let searching = HybridSearching::new(Arc::clone(index.index()), request, &context)?;
        Ok(HybridRun {
            searching: Some(Box::new(searching)),
            rows,
            pipeline,
            has_groups,
            hidden,
            timeout_ms,
            results: HybridResults::default(),
            parts: None,
            index,
        })
    }

    /// TIMEOUT, milliseconds; 0 is unlimited.
    pub fn timeout_ms(&self) -> u64 {
        self.timeout_ms
    }

    /// Whether a step may take long.
    pub fn has_long_steps(&self) -> bool {
        self.searching.as_ref().is_some_and(|searching| searching.has_long_steps())
    }

    /// A step; whether the run has come to its end. After [`Access::gave_up`] nothing of it is of use.
    ///
    /// # Errors
    /// An expression, or the limit of memory.
    pub fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> Result<bool, Error> {
        if let Some(searching) = &mut self.searching {
            if searching.step() {
                self.begin_pipeline();
            }
            return Ok(false);
        }
        if self.results.ended_in == Some(EndedIn::Pipeline) {
            return Ok(true);
        }
        let mut source = KeyRows { index: &self.index, rows: &mut self.rows, access, now_ms };
        let progress = self.pipeline.step(&mut source, usize::MAX, ROWS)?;
        Ok(self.is_over(progress))
    }

    /// Takes the rows that are ready at the end of the pipeline.
    fn is_over(&mut self, progress: Progress) -> bool {
        if progress != Progress::Done {
            return false;
        }
        if self.has_groups {
            self.results.total = self.pipeline.take_total(usize::MAX);
        }
        let (rows, hidden) = (&mut self.results.rows, &self.hidden);
        self.pipeline.take(usize::MAX, |row| {
            let shown = row.properties().filter(|(name, _)| !hidden.contains(name));
            rows.push(shown.map(|(name, value)| (name.into(), value.clone())).collect());
        });
        true
    }

    /// Ends the searches with the documents found so far; a pipeline under way returns no rows.
    pub fn end_early(&mut self) {
        self.results.ended_in = Some(self.place());
        self.begin_pipeline();
    }

    /// Where the run is.
    fn place(&self) -> EndedIn {
        match &self.searching {
            None => EndedIn::Pipeline,
            Some(searching) if searching.is_at_vectors() => EndedIn::Vectors,
            Some(_) => EndedIn::Search,
        }
    }

    fn begin_pipeline(&mut self) {
        if let Some(searching) = self.searching.take() {
            self.rows.hits = searching.into_hits();
            self.results.total = self.rows.hits.len() as u64;
        }
    }

    /// The results of a run that has come to its end.
    pub fn into_results(self) -> HybridResults {
        self.results
    }
}

/// The steps of the pipeline: LOAD first, which RediSearch moves before the fusion, and without one the key
/// and the fused score; ten rows without LIMIT.
fn steps(tail: Vec<Step>, no_sort: bool, fused: &[u8]) -> Vec<Step> {
    let (mut steps, rest): (Vec<Step>, Vec<Step>) =
        tail.into_iter().partition(|step| matches!(step, Step::Load(_)));
    if steps.is_empty() {
        let fields = [KEY, fused].map(|name| LoadField { path: name.into(), name: name.into() });
        steps.push(Step::Load(Load::Fields(fields.to_vec())));
    }
    let has_limit = rest.iter().any(|step| matches!(step, Step::Arrange(_)));
    steps.extend(rest);
    if !has_limit && !no_sort {
        let limit = Arrange { count: Arrange::DEFAULT_COUNT, ..Arrange::default() };
        steps.push(Step::Arrange(limit));
    }
    steps
}

/// The properties of every row that results have only where LOAD or a later step names them.
fn hidden(steps: &[Step]) -> Vec<&'static [u8]> {
    let is_named = |wanted: &[u8]| {
        steps.iter().any(|step| match step {
            Step::Load(Load::Fields(fields)) => fields.iter().any(|field| *field.name == *wanted),
            Step::Group(group) => group.properties.iter().any(|name| **name == *wanted),
            Step::Apply { name, .. } => **name == *wanted,
            _ => false,
        })
    };
    [KEY, SCORE].into_iter().filter(|name| !is_named(name)).collect()
}

/// Whether LOAD reads a property from the document.
fn is_of_document(input: &Input) -> bool {
    ![KEY, SCORE].contains(&&*input.path)
}

/// The fused rows with the keys.
struct KeyRows<'a, 'k> {
    index: &'a KeyIndex,
    rows: &'a mut Rows,
    access: &'a mut Access<'k>,
    now_ms: i64,
}

impl KeyRows<'_, '_> {
    /// A value that needs no document.
    fn value(&self, at: usize, input: &Input) -> Option<Value> {
        let HybridHit { hit, scores } = self.rows.hits.get(at)?;
        match input.source {
            InputSource::Query => self.rows.names.value(&input.name, &hit.key, scores),
            InputSource::Document => None,
            InputSource::Sorted => sorted_value(self.index, hit, input),
        }
    }
}

/// The index's own value of a property.
fn sorted_value(index: &KeyIndex, hit: &Hit, input: &Input) -> Option<Value> {
    let rules = index.index().rules();
    let partition = index.index().partition(hit.partition)?;
    value_of_index(&rules.definition, &partition, hit.id, input)
}

impl Names {
    /// The key of a row, or one of its scores.
    fn value<K>(&self, name: &[u8], key: &[u8], scores: &Fused<K>) -> Option<Value> {
        let is = |own: &Option<Box<[u8]>>| own.as_deref() == Some(name);
        if *name == *KEY {
            return Some(Value::from(key));
        }
        if *name == *self.fused {
            return Some(Value::Number(scores.score));
        }
        let score = if is(&self.search) { scores.search } else { scores.vector.filter(|_| is(&self.vector)) };
        score.map(Value::Number)
    }

    /// The property that LOAD finds in a row without its document.
    fn loaded_without_document(&self, path: &[u8]) -> Option<&[u8]> {
        match path {
            KEY => Some(KEY),
            SCORE => Some(&self.fused),
            _ => None,
        }
    }
}

impl Source for KeyRows<'_, '_> {
    fn fill(&mut self, batch: &mut Batch, most: usize) -> Result<bool, Error> {
        let end = self.rows.hits.len().min(self.rows.at + most);
        for at in self.rows.at..end {
            let row = batch.len();
            batch.push(at as u64);
            for input in &self.rows.scanned {
                let value = self.value(at, input);
                if let Some(slot) = batch.row_mut(row).get_mut(input.slot) {
                    *slot = value;
                }
            }
        }
        self.rows.at = end;
        Ok(end < self.rows.hits.len())
    }

    fn load(&mut self, inputs: &[Input], all: Option<SlotOf<'_>>, batch: &mut Batch) -> Result<(), Error> {
        // Under other names than their own.
        for input in inputs {
            let Some(name) = self.rows.names.loaded_without_document(&input.path) else { continue };
            let own = Input { name: name.into(), source: InputSource::Query, ..input.clone() };
            for row in 0..batch.len() {
                let at = usize::try_from(batch.document(row)).unwrap_or(usize::MAX);
                let value = self.value(at, &own);
                if let Some(slot) = batch.row_mut(row).get_mut(input.slot) {
                    *slot = value;
                }
            }
        }
        let mut keys = Keys::default();
        for row in 0..batch.len() {
            let hit = usize::try_from(batch.document(row)).ok().and_then(|at| self.rows.hits.get(at));
            keys.push(hit.map(|hit| &*hit.hit.key));
        }
        let of_documents: Vec<Input> = inputs.iter().filter(|input| is_of_document(input)).cloned().collect();
        self.rows.values.load(&of_documents, all, batch, &keys, (self.access, self.now_ms));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
