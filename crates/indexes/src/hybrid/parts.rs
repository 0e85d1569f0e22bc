//! FT.HYBRID over several servers: a server's documents of either list, and the fused rows of all servers.
//!
//! A part is a batch of rows with the key, the score by text, the likeness of the vector, the values from the
//! index, and the values that LOAD reads. It has as many documents of either list as the whole may have.

use martlet_search::Error;
use martlet_search::aggregate::batch::Batch;
use martlet_search::aggregate::pipeline::{Input, InputSource, Pipeline, SlotOf, Source};
use martlet_search::aggregate::rows::{self, Reading};
use martlet_search::aggregate::value::Value;
use martlet_search::hybrid::{Fused, HybridHit, PartHit, fuse_parts};
use martlet_search::schema::Source as DocumentSource;

use super::{EndedIn, HybridRun, Names, ROWS, is_of_document, sorted_value};
use crate::access::Access;
use crate::row_values::Keys;

/// The slots of the key and the scores.
const KEY_SLOT: usize = 0;
const SEARCH_SLOT: usize = 1;
const VECTOR_SLOT: usize = 2;
/// The first slot of other values.
const VALUES: usize = 3;

/// What the rows of a part have, in this order, behind the key and the scores.
#[derive(Debug)]
struct Columns {
    /// What the index keeps.
    sorted: Vec<Input>,
    /// What is read from documents.
    loaded: Vec<Input>,
    /// Whether every field of a document is read.
    has_all: bool,
}

impl Columns {
    fn of(pipeline: &Pipeline) -> Columns {
        let is_sorted = |input: &&Input| input.source == InputSource::Sorted;
        let sorted: Vec<Input> = pipeline.scanned().iter().filter(is_sorted).cloned().collect();
        let (mut loaded, has_all) = pipeline.loaded();
        loaded.retain(is_of_document);
        for (slot, input) in (VALUES + sorted.len()..).zip(&mut loaded) {
            input.slot = slot;
        }
        Columns { sorted, loaded, has_all }
    }

    fn width(&self) -> usize {
        VALUES + self.sorted.len() + self.loaded.len()
    }
}

/// A server's part of a run.
#[derive(Debug)]
pub struct HybridPart {
    run: HybridRun,
    columns: Columns,
    batch: Batch,
    hits: Vec<HybridHit>,
    /// How many of them have become rows.
    at: usize,
}

impl HybridPart {
    /// The part of a run that has not begun.
    pub fn new(run: HybridRun) -> HybridPart {
        let columns = Columns::of(&run.pipeline);
        HybridPart { batch: Batch::new(columns.width()), columns, run, hits: Vec::new(), at: 0 }
    }

    /// See [`HybridRun::has_long_steps`].
    pub fn has_long_steps(&self) -> bool {
        self.run.has_long_steps()
    }

    /// A step; whether the part has come to its end. After [`Access::gave_up`] nothing of it is of use.
    pub fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        if let Some(searching) = &mut self.run.searching {
            if searching.step() {
                self.begin_rows();
            }
            return false;
        }
        self.load(access, now_ms);
        self.at == self.hits.len()
    }

    /// Ends the searches with the documents found so far; rows are loaded no further.
    pub fn end_early(&mut self) {
        self.run.results.ended_in = Some(self.run.place());
        self.begin_rows();
    }

    fn begin_rows(&mut self) {
        match self.run.searching.take() {
            Some(searching) => self.hits = searching.into_hits(),
            None => self.hits.truncate(self.at),
        }
    }

    /// Makes rows of some documents.
    fn load(&mut self, access: &mut Access<'_>, now_ms: i64) {
        let mut some = Batch::new(self.columns.width());
        let mut keys = Keys::default();
        for HybridHit { hit, scores } in self.hits.iter().skip(self.at).take(ROWS) {
            let sorted = self.columns.sorted.iter().map(|input| sorted_value(&self.run.index, hit, input));
            let known = [
                Some(Value::from(&*hit.key)),
                scores.search.map(Value::Number),
                scores.vector.map(Value::Number),
            ];
            let row = some.push(0);
            row.iter_mut().zip(known.into_iter().chain(sorted)).for_each(|(place, value)| *place = value);
            keys.push(Some(&hit.key));
        }
        self.at += some.len();
        // The asking server has the slots of names.
        let no_slot: SlotOf<'_> = &|_| None;
        let all = self.columns.has_all.then_some(no_slot);
        self.run.rows.values.load(&self.columns.loaded, all, &mut some, &keys, (access, now_ms));
        self.batch.append(&mut some);
    }

    /// The rows of a part that has come to its end, for [`HybridRun::take_parts`].
    ///
    /// # Errors
    /// They take too many bytes.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let place = match self.run.results.ended_in {
            None => 0,
            Some(EndedIn::Search) => 1,
            Some(EndedIn::Vectors) => 2,
            Some(EndedIn::Pipeline) => 3,
        };
        rows::encode(&self.batch, 0, place, place > 0, None)
    }
}

/// The fused rows of several servers.
#[derive(Debug)]
pub(super) struct PartRows {
    columns: Columns,
    /// The rows of all parts.
    batch: Batch,
    /// The fused list, by places in the batch.
    fused: Vec<Fused<usize>>,
    at: usize,
    scanned: Vec<Input>,
    /// Fields that LOAD * has filled are not read again, as of hashes.
    keeps: bool,
    has_all: bool,
}

impl HybridRun {
    /// Takes the parts in the place of a search. `is_late`: another one has not come in time.
    ///
    /// # Errors
    /// The parts are none of this request.
    pub fn take_parts(&mut self, parts: Vec<Reading>, is_late: bool) -> Result<(), Error> {
        let unreadable = || Error::new("ERRCLUSTER A node's answer cannot be read");
        let Some(searching) = self.searching.take() else { return Ok(()) };
        let columns = Columns::of(&self.pipeline);
        let mut batch = Batch::new(columns.width());
        let mut ended_in = is_late.then_some(EndedIn::Search);
        for mut part in parts {
            ended_in = ended_in.or(match part.total() {
                0 => None,
                1 => Some(EndedIn::Search),
                2 => Some(EndedIn::Vectors),
                _ => Some(EndedIn::Pipeline),
            });
            while part.fill(&mut batch, ROWS).ok_or_else(unreadable)? {}
        }
        let hits: Option<Vec<PartHit>> = (0..batch.len()).map(|row| hit(&batch, row)).collect();
        let fused = fuse_parts(searching.request(), &hits.ok_or_else(unreadable)?);
        self.results.total = fused.len() as u64;
        self.results.ended_in = ended_in;
        let keeps = self.index.index().rules().definition.source == DocumentSource::Hash;
        let scanned = self.rows.scanned.clone();
        self.parts = Some(PartRows { columns, batch, fused, at: 0, scanned, keeps, has_all: false });
        Ok(())
    }

    /// As [`HybridRun::step`], of a run that has its parts.
    ///
    /// # Errors
    /// As [`HybridRun::step`].
    pub fn step_of_parts(&mut self) -> Result<bool, Error> {
        let Some(rows) = &mut self.parts else { return Ok(true) };
        let mut source = Fusing { rows, names: &self.rows.names };
        let progress = self.pipeline.step(&mut source, usize::MAX, ROWS)?;
        Ok(self.is_over(progress))
    }
}

/// The document of a part's row.
fn hit(batch: &Batch, row: usize) -> Option<PartHit> {
    let score = |slot| match batch.value(row, slot) {
        None => Some(None),
        Some(Value::Number(number)) => Some(Some(*number)),
        Some(_) => None,
    };
    let key = batch.value(row, KEY_SLOT)?.as_text()?.into();
    Some(PartHit { key, search: score(SEARCH_SLOT)?, vector: score(VECTOR_SLOT)? })
}

/// The rows of all parts as a source of the pipeline.
struct Fusing<'a> {
    rows: &'a mut PartRows,
    names: &'a Names,
}

impl Fusing<'_> {
    /// The fused row of a row that the pipeline has.
    fn fused(&self, document: u64) -> Option<&Fused<usize>> {
        self.rows.fused.get(usize::try_from(document).ok()?)
    }

    fn value_of_query(&self, fused: &Fused<usize>, name: &[u8]) -> Option<Value> {
        let key = self.rows.batch.value(fused.key, KEY_SLOT)?.as_text()?;
        self.names.value(name, key, fused)
    }

    fn loaded_value(&self, fused: &Fused<usize>, input: &Input) -> Option<Value> {
        if let Some(name) = self.names.loaded_without_document(&input.path) {
            return self.value_of_query(fused, name);
        }
        let column = self.rows.columns.loaded.iter().find(|column| column.path == input.path)?;
        self.rows.batch.value(fused.key, column.slot).cloned()
    }
}

impl Source for Fusing<'_> {
    fn fill(&mut self, batch: &mut Batch, most: usize) -> Result<bool, Error> {
        let end = self.rows.fused.len().min(self.rows.at.saturating_add(most));
        for at in self.rows.at..end {
            let row = batch.len();
            batch.push(at as u64);
            let Some(fused) = self.rows.fused.get(at) else { continue };
            let mut sorted = VALUES..;
            for input in &self.rows.scanned {
                let value = match input.source {
                    InputSource::Query => self.value_of_query(fused, &input.name),
                    InputSource::Document => None,
                    InputSource::Sorted => {
                        sorted.next().and_then(|slot| self.rows.batch.value(fused.key, slot)).cloned()
                    }
                };
                if let Some(place) = batch.row_mut(row).get_mut(input.slot) {
                    *place = value;
                }
            }
        }
        self.rows.at = end;
        Ok(end < self.rows.fused.len())
    }

    fn load(&mut self, inputs: &[Input], all: Option<SlotOf<'_>>, batch: &mut Batch) -> Result<(), Error> {
        for row in 0..batch.len() {
            let Some(fused) = self.fused(batch.document(row)) else { continue };
            for input in inputs {
                let value = self.loaded_value(fused, input);
                let keeps = self.rows.keeps && self.rows.has_all && is_of_document(input);
                match batch.row_mut(row).get_mut(input.slot) {
                    Some(Some(_)) if keeps => {}
                    Some(place) => *place = value,
                    None => {}
                }
            }
            let Some(slot_of) = all else { continue };
            for (name, value) in self.rows.batch.extra(fused.key) {
                match slot_of(name).and_then(|slot| batch.row_mut(row).get_mut(slot)) {
                    Some(place) => *place = Some(value.clone()),
                    None => batch.push_extra(row, name.clone(), value.clone()),
                }
            }
        }
        self.rows.has_all |= all.is_some();
        Ok(())
    }
}
