//! The pipeline of FT.AGGREGATE: stages that rows pass in batches.
//!
//! A step does no more work than its budget of rows allows. Between steps a pipeline borrows nothing and has
//! no lock. The memory of its stages and results is limited; a request beyond the limit fails.

use super::batch::Batch;
use super::expression::{Program, Row, Scratch, Slot};
use super::plan::{self, Plan};
use super::request::Aggregate;
use super::stage::Stage;
use super::value::Value;
use crate::Error;
use std::collections::HashMap;

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
    results_bytes: usize,
    scratch: Scratch,
    memory_max_bytes: usize,
    total: u64,
    warning: Option<Error>,
    /// The names of fields without a slot, numbered in the order in which they have appeared.
    appeared: HashMap<Box<[u8]>, usize>,
}

impl Pipeline {
    /// The pipeline of a request over an index.
    ///
    /// # Errors
    ///
    /// RediSearch's, for properties that there are not, expressions and reducers.
    pub fn new(request: &Aggregate, schema: &dyn Schema, options: &Options) -> Result<Pipeline, Error> {
        let plan = plan::build(request, schema, options)?;
        let width = plan.sections.last().map_or(0, |section| section.names.len());
        Ok(Pipeline {
            plan,
            phase: Phase::Reading,
            batch: Batch::default(),
            results: Batch::new(width),
            results_bytes: 0,
            scratch: Scratch::default(),
            memory_max_bytes: options.memory_max_bytes,
            total: 0,
            warning: None,
            appeared: HashMap::new(),
        })
    }

    /// What rows must have when the source adds them.
    pub fn scanned(&self) -> &[Input] {
        &self.plan.scanned
    }

    /// The slot for the terms of the query that a document matched, an array; none: they are not wanted.
    pub fn terms_slot(&self) -> Option<Slot> {
        self.plan.terms_slot
    }

    /// The slot for a row's score, which replies show beside its properties; none: it is not wanted.
    pub fn score_slot(&self) -> Option<Slot> {
        self.plan.score_slot
    }

    /// How many slots a row of the source has.
    pub fn scanned_width(&self) -> usize {
        self.width(0)
    }

    /// The error that has ended the pipeline after some rows.
    pub fn warning(&self) -> Option<&Error> {
        self.warning.as_ref()
    }

    /// Whether rows go into groups, for which their order is nothing, before they are sorted or leave the pipeline.
    pub fn begins_with_groups(&self) -> bool {
        let is_of_order = |stage: &&Stage| stage.is_blocking() || matches!(stage, Stage::Limit { .. });
        let first = self.plan.stages.iter().find(is_of_order);
        matches!(first, Some(Stage::Group(grouper)) if !grouper.wants_order())
    }

    /// Whether no row leaves the pipeline before all have come to it.
    pub fn is_blocking(&self) -> bool {
        self.plan.stages.iter().any(|stage| stage.is_blocking() || matches!(stage, Stage::Count))
    }

    /// Rows of the source so far, or the groups of the last GROUPBY that is complete.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Works until `wanted` rows are ready, `budget` rows have been read or drained, or all is done.
    ///
    /// # Errors
    ///
    /// An expression, the source, or a limit; the pipeline then ends.
    pub fn step(&mut self, source: &mut dyn Source, wanted: usize, budget: usize) -> Result<Progress, Error> {
        let progress = self.try_step(source, wanted, budget);
        if progress.is_err() {
            self.phase = Phase::Done;
        }
        match progress {
            // As in RediSearch: rows that have left the pipeline are the reply, and the error is a warning.
            Err(error) if !self.results.is_empty() => {
                self.warning = Some(error);
                Ok(Progress::Done)
            }
            progress => progress,
        }
    }

    fn try_step(&mut self, source: &mut dyn Source, wanted: usize, budget: usize) -> Result<Progress, Error> {
        let mut left = budget;
        loop {
            if self.phase == Phase::Done {
                return Ok(Progress::Done);
            }
            if self.results.len() >= wanted {
                return Ok(Progress::Ready);
            }
            if left == 0 {
                return Ok(Progress::Working);
            }
            let most = left.min(BATCH_ROWS);
            let rows = match self.phase {
                Phase::Reading => self.read(source, most)?,
                Phase::Draining(stage) => self.drain(stage, source, most)?,
                Phase::Done => 0,
            };
            left = left.saturating_sub(rows.max(1));
        }
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
        let has_more = source.fill(&mut batch, most)?;
        let rows = batch.len();
        self.total += rows as u64;
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
                return failure.map_or(Ok(()), Err);
            }
            let section = self.plan.sections_of_stages.get(index).copied().unwrap_or(0);
            let terms_slot = terms_slot.filter(|_| section == 0);
            let Some(stage) = self.plan.stages.get_mut(index) else { break };
            match stage {
                Stage::Load { inputs, all } => {
                    let names = self.plan.sections.get(section);
                    let slot_of = |name: &[u8]| names.and_then(|section| section.slot_of(name));
                    source.load(inputs, all.then_some(&slot_of as SlotOf<'_>), batch)?;
                    batch.order_extra(&mut self.appeared);
                }
                Stage::Apply { program, slot } => {
                    let applied = apply(program, *slot, terms_slot, batch, &mut self.scratch, &mut memory);
                    keep_sound(applied, batch, &mut failure);
                }
                Stage::Filter(program) => {
                    let filtered = filter(program, terms_slot, batch, &mut self.scratch);
                    keep_sound(filtered, batch, &mut failure);
                }
                Stage::Group(grouper) => {
                    grouper.absorb(batch)?;
                    self.check_memory()?;
                    return failure.map_or(Ok(()), Err);
                }
                Stage::Sort(sorter) => {
                    sorter.absorb(batch);
                    self.check_memory()?;
                    return failure.map_or(Ok(()), Err);
                }
                Stage::Limit { skipped, left } => limit(skipped, left, batch),
                Stage::Count => batch.clear(0),
            }
        }
        self.results_bytes += batch.bytes();
        self.results.append(batch);
        self.check_memory()?;
        failure.map_or(Ok(()), Err)
    }

    fn check_memory(&self) -> Result<(), Error> {
        let kept = |stage: &Stage| match stage {
            Stage::Group(grouper) => grouper.bytes(),
            Stage::Sort(sorter) => sorter.bytes(),
            _ => 0,
        };
        let bytes = self.results_bytes + self.plan.stages.iter().map(kept).sum::<usize>();
        if bytes > self.memory_max_bytes { Err(Memory::error()) } else { Ok(()) }
    }

    /// How many rows are there.
    pub fn ready(&self) -> usize {
        self.results.len()
    }

    /// Up to `most` of the rows that are there, for `show`: their properties in order, with names. They are
    /// given up.
    pub fn take(&mut self, most: usize, mut show: impl FnMut(Shown<'_>)) {
        let mut all = std::mem::take(&mut self.results);
        let mut batch = Batch::new(self.width(self.plan.sections.len().saturating_sub(1)));
        if most < all.len() {
            batch.take_rows(&mut all, 0, most);
            self.results.clear(batch.width());
            self.results.take_rows(&mut all, most, usize::MAX);
        } else {
            batch = all;
        }
        self.results_bytes = self.results.bytes();
        let section = self.plan.sections.last();
        let (score_slot, is_of_source) = (self.plan.score_slot, self.plan.sections.len() == 1);
        for row in 0..batch.len() {
            show(Shown { batch: &batch, row, section, score_slot, is_of_source });
        }
        if self.results.is_empty() {
            self.results.clear(batch.width());
        }
    }
}

/// A row of the results.
pub struct Shown<'a> {
    batch: &'a Batch,
    row: usize,
    section: Option<&'a plan::Section>,
    score_slot: Option<Slot>,
    is_of_source: bool,
}

impl<'a> Shown<'a> {
    /// The number of the row's document; 0 of a group.
    pub fn document(&self) -> u64 {
        self.batch.document(self.row)
    }

    /// The row's score, if that is wanted; a group has 0.
    pub fn score(&self) -> Option<f64> {
        let slot = self.score_slot?;
        let own = self.batch.row(self.row).get(slot).filter(|_| self.is_of_source);
        Some(own.and_then(Option::as_ref).and_then(Value::to_number).unwrap_or(0.0))
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
        self.values.get(slot)?.as_ref()
    }

    fn matched_terms(&self, most: usize) -> Vec<Value> {
        match self.terms_slot.and_then(|slot| self.get(slot)) {
            Some(Value::Array(terms)) => terms.iter().take(most).cloned().collect(),
            _ => Vec::new(),
        }
    }
}

/// An error, and the row of the batch in which it arose.
type Failed = (usize, Error);

/// Keeps the rows before the one that has failed.
fn keep_sound(result: Result<(), Failed>, batch: &mut Batch, failure: &mut Option<Error>) {
    if let Err((failed, error)) = result {
        batch.retain(|row| row < failed);
        *failure = Some(error);
    }
}

fn apply(
    program: &Program,
    slot: Slot,
    terms_slot: Option<Slot>,
    batch: &mut Batch,
    scratch: &mut Scratch,
    memory: &mut Memory,
) -> Result<(), Failed> {
    for row in 0..batch.len() {
        let value = program.evaluate(&RowView { values: batch.row(row), terms_slot }, scratch);
        let value = value.map_err(|error| (row, error))?;
        memory.take(value.heap_bytes()).map_err(|error| (row, error))?;
        if let Some(place) = batch.row_mut(row).get_mut(slot) {
            *place = Some(value);
        }
    }
    Ok(())
}

fn filter(
    program: &Program,
    terms_slot: Option<Slot>,
    batch: &mut Batch,
    scratch: &mut Scratch,
) -> Result<(), Failed> {
    let mut kept = Vec::with_capacity(batch.len());
    let mut failed = Ok(());
    for row in 0..batch.len() {
        match program.evaluate(&RowView { values: batch.row(row), terms_slot }, scratch) {
            Ok(value) => kept.push(value.is_true()),
            Err(error) => {
                failed = Err((kept.iter().filter(|kept| **kept).count(), error));
                break;
            }
        }
    }
    batch.retain(|row| kept.get(row) == Some(&true));
    failed
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
