//! The pipeline of FT.AGGREGATE: stages that rows pass in batches.
//!
//! A step does no more work than its budget of rows allows. Between steps a pipeline borrows nothing and has
//! no lock. The memory of its stages and results is limited; a request beyond the limit fails.

use super::batch::Batch;
use super::expression::{Program, Row, Scratch, Slot};
use super::measure::{Began, Measured};
use super::plan::{self, Plan};
use super::request::Aggregate;
use super::rows::{self, Reading};
use super::stage::Stage;
use super::value::Value;
use crate::Error;

pub use super::measure::Processor;
pub use super::split::Role;
pub use super::stage::{Input, InputSource, Options, Property, Schema};

/// The most rows of a batch.
const BATCH_ROWS: usize = 1024;

/// Finds the slot of a property.
pub type SlotOf<'a> = &'a dyn Fn(&[u8]) -> Option<Slot>;

/// Rows of an index.
pub trait Source {
    /// Adds at most `most` rows, with the values of [`Pipeline::scanned`]. Returns whether there may be
    /// others; a batch without any is no end.
    ///
    /// # Errors
    ///
    /// The query failed.
    fn fill(&mut self, batch: &mut Batch, most: usize) -> Result<bool, Error>;

    /// Fills the inputs of each row from its document, and removes rows whose document is gone. With `all` it
    /// adds every field: to the slot that `slot_of` has for it, else as an extra field.
    ///
    /// # Errors
    ///
    /// A document cannot be read.
    fn load(&mut self, inputs: &[Input], all: Option<SlotOf<'_>>, batch: &mut Batch) -> Result<(), Error>;
}

/// Where a pipeline is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Phase {
    Reading,
    /// The blocking stage of this index lets its rows go.
    Draining(usize),
    Done,
}

/// The state after a step.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The budget is spent.
    Working,
    /// As many rows as were wanted are there.
    Ready,
    /// All rows are there.
    Done,
}

/// The pipeline.
#[derive(Debug)]
pub struct Pipeline {
    plan: Plan,
    phase: Phase,
    batch: Batch,
    results: Batch,
    /// Results that have been taken.
    taken: usize,
    results_bytes: usize,
    /// The error at which the pipeline ended, until it has been returned.
    failure: Option<Error>,
    scratch: Scratch,
    memory_max_bytes: usize,
    total: u64,
    /// How many rows all parts have read, where they hand on some of them.
    total_of_parts: Option<u64>,
    /// The slots that are wanted of a part's rows; none: all.
    wanted: Option<Vec<Slot>>,
    counted: Counted,
    measured: Option<Box<Measured>>,
}

/// How many rows of the source there were up to each result, where results come while rows are read. With a
/// stage that waits for all rows there is one count, of the rows or groups.
#[derive(Debug, Default)]
struct Counted {
    is_by_result: bool,
    /// The documents of the batch that is under way, and the rows before it.
    documents: Vec<u64>,
    before: u64,
    of_results: Vec<u64>,
    /// Rows that are a part of former totals.
    told: u64,
}

impl Counted {
    fn begin(&mut self, batch: &Batch, before: u64) {
        if self.is_by_result {
            self.documents.clear();
            self.documents.extend((0..batch.len()).map(|row| batch.document(row)));
            self.before = before;
        }
    }

    /// Rows of the batch that have become results, in their order.
    fn add(&mut self, batch: &Batch) {
        if self.is_by_result {
            let mut documents = self.documents.iter();
            for row in 0..batch.len() {
                documents.find(|document| **document == batch.document(row));
                let passed = self.documents.len() - documents.len();
                self.of_results.push(self.before + passed as u64);
            }
        }
    }
}

impl Pipeline {
    /// The pipeline of a request over an index.
    ///
    /// # Errors
    ///
    /// RediSearch's, for properties that there are not, expressions and reducers.
    pub fn new(request: &Aggregate, schema: &dyn Schema, options: &Options) -> Result<Pipeline, Error> {
        Pipeline::of(Role::Whole, request, schema, options)
    }

    /// The pipeline of a part of a request; rows go by [`Pipeline::encode`] from one to the other.
    ///
    /// # Errors
    ///
    /// As [`Pipeline::new`].
    pub fn of(
        role: Role,
        request: &Aggregate,
        schema: &dyn Schema,
        options: &Options,
    ) -> Result<Pipeline, Error> {
        let whole = plan::build(request, schema, options)?;
        let wanted = if role == Role::Part { whole.wanted_by_group() } else { None };
        let plan = whole.of(role);
        let is_by_result = !plan.stages.iter().any(Stage::is_blocking);
        let width = plan.sections.last().map_or(0, |section| section.names.len());
        Ok(Pipeline {
            // A part's own groups are wanted whole.
            wanted: wanted.filter(|_| plan.sections.len() == 1),
            total_of_parts: None,
            plan,
            phase: Phase::Reading,
            batch: Batch::default(),
            results: Batch::new(width),
            taken: 0,
            results_bytes: 0,
            failure: None,
            scratch: Scratch::default(),
            memory_max_bytes: options.memory_max_bytes,
            total: 0,
            counted: Counted { is_by_result, ..Counted::default() },
            measured: None,
        })
    }

    /// Measures the stages from now on.
    pub fn measure(&mut self) {
        self.measured = Some(Box::new(Measured::new(self.plan.stages.len())));
    }

    /// The steps to the rows with what was measured; `of_source` has those between the index and the stages.
    pub fn processors(&self, of_source: &[&str]) -> Vec<Processor> {
        let of = |measured: &Measured| measured.processors(&self.plan.stages, of_source);
        self.measured.as_deref().map(of).unwrap_or_default()
    }

    /// What rows must have when the source adds them.
    pub fn scanned(&self) -> &[Input] {
        &self.plan.scanned
    }

    /// The slots whose values the source may add by a dictionary; see [`Batch::encode`].
    pub fn coded(&self) -> &[Slot] {
        match self.plan.stages.first() {
            Some(Stage::Group(grouper)) => grouper.slots(),
            _ => &[],
        }
    }

    /// The most properties that a row has on its way, but for those of LOAD *.
    pub fn width_max(&self) -> usize {
        self.plan.sections.iter().map(|section| section.names.len()).max().unwrap_or(0)
    }

    /// The slot for the terms of the query that a document matched, an array; none: they are not wanted.
    pub fn terms_slot(&self) -> Option<Slot> {
        self.plan.terms_slot
    }

    /// The total of a reply with `most` of the rows that are ready, as RediSearch counts: the rows of the
    /// source up to the first one, or all rows or groups where a stage waits for them; each counts once. To
    /// be asked for before the rows are taken.
    pub fn take_total(&mut self, most: usize) -> u64 {
        let Counted { is_by_result, of_results, told, .. } = &mut self.counted;
        let end = self.results.len().min(self.taken.saturating_add(most));
        let results = of_results.get(self.taken..end).unwrap_or_default();
        match (*is_by_result, results) {
            (true, [first, .., last]) => first.saturating_sub(std::mem::replace(told, *last)),
            (true, [only]) => only.saturating_sub(std::mem::replace(told, *only)),
            _ => self.total.saturating_sub(std::mem::replace(told, self.total)),
        }
    }

    /// What rows are given of their documents, each path once, and whether that is every field.
    pub fn loaded(&self) -> (Vec<Input>, bool) {
        let (mut inputs, mut has_all) = (Vec::<Input>::new(), false);
        for stage in &self.plan.stages {
            let (Stage::Load { inputs: more, all } | Stage::LoadAside { inputs: more, all }) = stage else {
                continue;
            };
            has_all |= all;
            for input in more {
                if !inputs.iter().any(|known| known.path == input.path) {
                    inputs.push(input.clone());
                }
            }
        }
        (inputs, has_all)
    }

    /// Whether rows are loaded from their documents.
    pub fn has_loads(&self) -> bool {
        self.plan.stages.iter().any(|stage| matches!(stage, Stage::Load { .. } | Stage::LoadAside { .. }))
    }

    /// Bytes that the rows, groups and results take.
    pub fn bytes(&self) -> usize {
        let kept = |stage: &Stage| match stage {
            Stage::Group(grouper) => grouper.bytes(),
            Stage::Sort(sorter) => sorter.bytes(),
            _ => 0,
        };
        self.results_bytes + self.plan.stages.iter().map(kept).sum::<usize>()
    }

    /// Reads no further rows: the results are those of the rows that there are.
    pub fn end_early(&mut self) {
        if self.phase == Phase::Reading {
            self.phase = self.next_phase(0);
        }
    }

    /// Works until `wanted` rows are ready, `budget` rows have been read or drained, a batch of the source
    /// was empty, or all is done.
    ///
    /// # Errors
    ///
    /// An expression, the source, or a limit; the pipeline then ends. The rows before it stay ready.
    pub fn step(&mut self, source: &mut dyn Source, wanted: usize, budget: usize) -> Result<Progress, Error> {
        if let Err(error) = self.work(source, wanted, budget) {
            self.phase = Phase::Done;
            self.failure = Some(error);
        }
        if self.ready() >= wanted {
            return Ok(Progress::Ready);
        }
        match self.failure.take() {
            Some(error) => Err(error),
            None if self.phase == Phase::Done => Ok(Progress::Done),
            None => Ok(Progress::Working),
        }
    }

    fn work(&mut self, source: &mut dyn Source, wanted: usize, budget: usize) -> Result<(), Error> {
        let mut left = budget;
        while left > 0 && self.phase != Phase::Done && self.ready() < wanted {
            let most = left.min(BATCH_ROWS);
            let rows = match self.phase {
                Phase::Reading => match self.read(source, most)? {
                    0 => left,
                    rows => rows,
                },
                Phase::Draining(stage) => self.drain(stage, source, most)?,
                Phase::Done => 0,
            };
            left = left.saturating_sub(rows.max(1));
        }
        Ok(())
    }

    fn width(&self, section: usize) -> usize {
        self.plan.sections.get(section).map_or(0, |section| section.names.len())
    }

    /// Reads a batch from the source; how many rows.
    fn read(&mut self, source: &mut dyn Source, most: usize) -> Result<usize, Error> {
        if self.is_satisfied(0) {
            self.phase = self.next_phase(0);
            return Ok(0);
        }
        let mut batch = std::mem::take(&mut self.batch);
        batch.clear(self.width(0));
        let began = Began::now(self.measured.as_deref());
        let has_more = source.fill(&mut batch, most)?;
        let rows = batch.len();
        Measured::add(&mut self.measured, None, began, rows);
        self.counted.begin(&batch, self.total);
        self.total = self.total_of_parts.unwrap_or(self.total + rows as u64);
        self.pass(0, &mut batch, source)?;
        self.batch = batch;
        if !has_more {
            self.phase = self.next_phase(0);
        }
        Ok(rows)
    }

    /// Moves some rows of a blocking stage on; returns the part of the budget that it took.
    fn drain(&mut self, index: usize, source: &mut dyn Source, most: usize) -> Result<usize, Error> {
        if self.is_satisfied(index + 1) {
            self.phase = self.next_phase(index + 1);
            return Ok(0);
        }
        let mut batch = std::mem::take(&mut self.batch);
        let section = self.plan.sections_of_stages.get(index).copied().unwrap_or(0);
        let began = Began::now(self.measured.as_deref());
        let is_empty = match self.plan.stages.get_mut(index) {
            Some(Stage::Group(grouper)) => {
                self.total = grouper.len() as u64;
                batch.clear(self.plan.sections.get(section + 1).map_or(0, |section| section.names.len()));
                grouper.drain(&mut batch, most)
            }
            Some(Stage::Sort(sorter)) => {
                batch.clear(self.plan.sections.get(section).map_or(0, |section| section.names.len()));
                sorter.drain(&mut batch, most)
            }
            _ => true,
        };
        Measured::add(&mut self.measured, Some(index), began, batch.len());
        self.pass(index + 1, &mut batch, source)?;
        self.batch = batch;
        if is_empty {
            self.phase = self.next_phase(index + 1);
        }
        Ok(most)
    }

    /// The next blocking stage from `from` on.
    fn next_phase(&self, from: usize) -> Phase {
        let rest = self.plan.stages.get(from..).unwrap_or_default();
        rest.iter().position(Stage::is_blocking).map_or(Phase::Done, |at| Phase::Draining(from + at))
    }

    /// Whether a LIMIT before the next blocking stage needs no further rows.
    fn is_satisfied(&self, from: usize) -> bool {
        let rest = self.plan.stages.get(from..).unwrap_or_default();
        rest.iter()
            .take_while(|stage| !stage.is_blocking())
            .any(|stage| matches!(stage, Stage::Limit { left: 0, .. }))
    }

    /// Passes rows through the stages from `from` on, up to one that keeps them or to the results.
    fn pass(&mut self, from: usize, batch: &mut Batch, source: &mut dyn Source) -> Result<(), Error> {
        let terms_slot = self.plan.terms_slot;
        let mut memory = Memory { left: self.memory_max_bytes };
        let mut failure = None;
        for index in from..self.plan.stages.len() {
            if batch.is_empty() {
                break;
            }
            let section = self.plan.sections_of_stages.get(index).copied().unwrap_or(0);
            let terms_slot = terms_slot.filter(|_| section == 0);
            let Some(stage) = self.plan.stages.get_mut(index) else { break };
            let (began, mut is_absorbed) = (Began::now(self.measured.as_deref()), false);
            match stage {
                Stage::Load { inputs, all } => {
                    let names = self.plan.sections.get(section);
                    let slot_of = |name: &[u8]| names.and_then(|section| section.slot_of(name));
                    source.load(inputs, all.then_some(&slot_of as SlotOf<'_>), batch)?;
                }
                Stage::LoadAside { inputs, all } => {
                    source.load(inputs, all.then_some(&|_: &[u8]| None), batch)?;
                }
                Stage::Place { moves, all, keeps } => {
                    let names = self.plan.sections.get(section).filter(|_| *all);
                    place(moves, *keeps, names, batch);
                }
                Stage::Apply { program, slot } => {
                    let failed = apply(program, *slot, terms_slot, batch, &mut self.scratch, &mut memory);
                    failure = failed.map(|error| (index, error)).or(failure);
                }
                Stage::Filter(program) => {
                    let failed = filter(program, terms_slot, batch, &mut self.scratch);
                    failure = failed.map(|error| (index, error)).or(failure);
                }
                Stage::Group(grouper) => {
                    grouper.absorb(batch)?;
                    is_absorbed = true;
                }
                Stage::Sort(sorter) => {
                    sorter.absorb(batch);
                    is_absorbed = true;
                }
                Stage::Limit { skipped, left } => limit(skipped, left, batch),
                Stage::Count => batch.clear(0),
            }
            let handed_on = if is_absorbed { 0 } else { batch.len() };
            Measured::add(&mut self.measured, Some(index), began, handed_on);
            if is_absorbed {
                return failure.map_or_else(|| self.check_memory(), |(_, error)| Err(error));
            }
        }
        self.results_bytes += batch.bytes();
        self.counted.add(batch);
        self.results.append(batch);
        // A row that a LIMIT does not want is none that can fail.
        match failure.filter(|(index, _)| !self.is_satisfied(index + 1)) {
            Some((_, error)) => Err(error),
            None => self.check_memory(),
        }
    }

    fn check_memory(&self) -> Result<(), Error> {
        if self.bytes() > self.memory_max_bytes { Err(Memory::error()) } else { Ok(()) }
    }

    /// The rows of a part, and how many it has read, for [`Reading`].
    ///
    /// # Errors
    ///
    /// They take too many bytes.
    pub fn encode(&self, is_partial: bool) -> Result<Vec<u8>, Error> {
        rows::encode(&self.results, self.taken, self.total, is_partial, self.wanted.as_deref())
    }

    /// The rows of these parts are to come.
    pub fn count_parts(&mut self, parts: &[Reading]) {
        let totals = parts.iter().map(Reading::total).fold(0, u64::saturating_add);
        // Elsewhere rows, or groups, count as they come.
        if let Some(Stage::Sort(_) | Stage::Count) = self.plan.stages.first() {
            (self.total, self.total_of_parts) = (totals, Some(totals));
        }
    }

    /// How many rows are there.
    pub fn ready(&self) -> usize {
        self.results.len() - self.taken
    }

    /// The first `most` rows that are ready, for `show`: their properties in order, with names. They are
    /// given up.
    pub fn take(&mut self, most: usize, mut show: impl FnMut(Shown<'_>)) {
        let section = self.plan.sections.last();
        let score_slot = self.plan.score_slot.filter(|_| self.plan.sections.len() == 1);
        let end = self.results.len().min(self.taken.saturating_add(most));
        for row in self.taken..end {
            show(Shown { batch: &self.results, row, section, score_slot });
        }
        self.taken = end;
        if self.ready() == 0 {
            (self.taken, self.results_bytes) = (0, 0);
            self.counted.of_results.clear();
            self.results = Batch::new(section.map_or(0, |section| section.names.len()));
        }
    }
}

/// A row of the results.
pub struct Shown<'a> {
    batch: &'a Batch,
    row: usize,
    section: Option<&'a plan::Section>,
    score_slot: Option<Slot>,
}

impl<'a> Shown<'a> {
    /// The number of the row's document; 0 of a group.
    pub fn document(&self) -> u64 {
        self.batch.document(self.row)
    }

    /// The score of the row's document; 0 of a group.
    pub fn score(&self) -> f64 {
        let value =
            self.score_slot.and_then(|slot| self.batch.row(self.row).get(slot)?.as_ref()?.to_number());
        value.unwrap_or(0.0)
    }

    /// The properties that the row has.
    pub fn properties(&self) -> impl Iterator<Item = (&'a [u8], &'a Value)> {
        let (section, values) = (self.section, self.batch.row(self.row));
        let named = values.iter().enumerate().filter_map(move |(slot, value)| {
            let section = section.filter(|section| section.is_shown(slot))?;
            Some((&**section.names.get(slot)?, value.as_ref()?))
        });
        named.chain(self.batch.extra(self.row).iter().map(|(name, value)| (&**name, value)))
    }
}

/// The memory left for values of a batch.
struct Memory {
    left: usize,
}

impl Memory {
    fn take(&mut self, bytes: usize) -> Result<(), Error> {
        self.left = self.left.checked_sub(bytes).ok_or_else(Memory::error)?;
        Ok(())
    }

    fn error() -> Error {
        Error::new("The aggregation needs more memory than it may take")
    }
}

/// A row with the terms that its document matched.
struct RowView<'a> {
    values: &'a [Option<Value>],
    terms_slot: Option<Slot>,
}

impl Row for RowView<'_> {
    fn get(&self, slot: Slot) -> Option<&Value> {
        self.values.get(slot)?.as_ref().map(Value::single)
    }

    fn matched_terms(&self, most: usize) -> Vec<Value> {
        match self.terms_slot.and_then(|slot| self.get(slot)) {
            Some(Value::Array(terms)) => terms.iter().take(most).cloned().collect(),
            _ => Vec::new(),
        }
    }
}

/// Moves values of rows to the slots where they belong, with `names` also those of fields without a slot.
fn place(moves: &[(Slot, Slot)], keeps: bool, names: Option<&plan::Section>, batch: &mut Batch) {
    for row in 0..batch.len() {
        for (from, to) in moves {
            let values = batch.row_mut(row);
            let value = values.get_mut(*from).and_then(Option::take);
            match values.get_mut(*to) {
                Some(Some(_)) if keeps => {}
                Some(place) => *place = value,
                None => {}
            }
        }
        let Some(names) = names else { continue };
        for (name, value) in batch.take_extra(row) {
            match names.slot_of(&name).and_then(|slot| batch.row_mut(row).get_mut(slot)) {
                Some(place) => *place = Some(value),
                None => batch.push_extra(row, name, value),
            }
        }
    }
}

/// Sets a property of each row; at an error the row and those behind it are removed.
fn apply(
    program: &Program,
    slot: Slot,
    terms_slot: Option<Slot>,
    batch: &mut Batch,
    scratch: &mut Scratch,
    memory: &mut Memory,
) -> Option<Error> {
    let property = program.as_property();
    for row in 0..batch.len() {
        let values = batch.row(row);
        let made = program.evaluate(&RowView { values, terms_slot }, scratch).and_then(|value| {
            // A property alone keeps all values of its path.
            let whole = property.and_then(|slot| values.get(slot)?.clone());
            let value = whole.unwrap_or(value);
            memory.take(value.heap_bytes()).map(|()| value)
        });
        match made {
            Ok(value) => {
                if let Some(place) = batch.row_mut(row).get_mut(slot) {
                    *place = Some(value);
                }
            }
            Err(error) => {
                batch.retain(|kept| kept < row);
                return Some(error);
            }
        }
    }
    None
}

/// Keeps the rows that satisfy an expression; at an error the row and those behind it are removed.
fn filter(
    program: &Program,
    terms_slot: Option<Slot>,
    batch: &mut Batch,
    scratch: &mut Scratch,
) -> Option<Error> {
    let (mut kept, mut failure) = (Vec::with_capacity(batch.len()), None);
    for row in 0..batch.len() {
        let row = RowView { values: batch.row(row), terms_slot };
        match program.evaluate(&row, scratch) {
            Ok(value) => kept.push(value.is_true()),
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    batch.retain(|row| kept.get(row) == Some(&true));
    failure
}

fn limit(skipped: &mut u64, left: &mut u64, batch: &mut Batch) {
    batch.retain(|_| {
        if *skipped > 0 {
            *skipped -= 1;
            return false;
        }
        let is_kept = *left > 0;
        *left = left.saturating_sub(1);
        is_kept
    });
}

#[cfg(test)]
mod tests;
