//! FT.AGGREGATE over keys: the rows of the index pass a pipeline, which has documents read where it needs more
//! of them than the index keeps. Between steps nothing is locked.

use std::sync::Arc;

use martlet_search::Error;
use martlet_search::aggregate::batch::Batch;
use martlet_search::aggregate::pipeline::{Input, Options, Pipeline, Progress, Shown, SlotOf, Source};
use martlet_search::aggregate::request::Aggregate;
use martlet_search::aggregating::{Aggregating, Planned};
use martlet_search::searching::Context;

use crate::access::Access;
use crate::index::KeyIndex;
use crate::row_values::{Fields, RowValues};

/// Rows that a step reads or moves.
const ROWS: usize = 256;

/// See the [module docs](self).
#[derive(Debug)]
pub struct Aggregation {
    pipeline: Pipeline,
    rows: Aggregating,
    index: Arc<KeyIndex>,
    values: RowValues,
    /// The number of rows, once it is known.
    total: Option<u64>,
    is_done: bool,
}

impl Aggregation {
    /// An aggregation that has not begun. `options` has no names that the query yields.
    ///
    /// # Errors
    /// RediSearch's.
    pub fn new(
        index: Arc<KeyIndex>,
        request: &Aggregate,
        context: Context,
        options: Options,
    ) -> Result<Aggregation, Error> {
        let planned = Planned::new(Arc::clone(index.index()), request, context)?;
        let rules = index.index().rules();
        let options = Options { yielded: planned.yielded.clone(), ..options };
        let pipeline = Pipeline::new(request, &Fields(&rules.definition), &options)?;
        let values = RowValues::new(&rules, request.query.dialect);
        Ok(Aggregation {
            rows: planned.begin(&pipeline),
            pipeline,
            index,
            values,
            total: None,
            is_done: false,
        })
    }

    /// A step towards `wanted` rows; whether they are there, or all are. After [`Access::gave_up`] nothing of
    /// the aggregation is of use.
    ///
    /// # Errors
    /// An expression, or a limit; the aggregation has ended.
    pub fn step(&mut self, access: &mut Access<'_>, now_ms: i64, wanted: usize) -> Result<bool, Error> {
        // As in RediSearch, rows are counted up to the first that leaves the pipeline.
        let counts = self.total.is_none() && !self.pipeline.is_blocking();
        let mut source = Rows { rows: &mut self.rows, values: &self.values, access, now_ms };
        let mut progress = Progress::Working;
        if counts || source.rows.is_gathering() {
            for _ in 0..ROWS {
                let gathers = source.rows.is_gathering();
                progress = self.pipeline.step(&mut source, if counts { 1 } else { wanted }, 1)?;
                if gathers || progress != Progress::Working {
                    break;
                }
            }
        } else {
            progress = self.pipeline.step(&mut source, wanted, ROWS)?;
        }
        if self.total.is_none() && progress != Progress::Working {
            self.total = Some(self.pipeline.total());
        }
        self.is_done = progress == Progress::Done;
        Ok(self.is_done || progress == Progress::Ready && self.pipeline.ready() >= wanted)
    }

    /// The number of rows as replies show it.
    pub fn total(&self) -> u64 {
        self.total.unwrap_or_else(|| self.pipeline.total())
    }

    /// Whether no further row comes.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// How many rows are there.
    pub fn ready(&self) -> usize {
        self.pipeline.ready()
    }

    /// Up to `most` of the rows that are there, for `show`; they are given up.
    pub fn take(&mut self, most: usize, show: impl FnMut(Shown<'_>)) {
        self.pipeline.take(most, show);
    }

    /// The error that has ended the aggregation after some rows.
    pub fn warning(&self) -> Option<&Error> {
        self.pipeline.warning()
    }

    /// Whether rows have scores.
    pub fn has_scores(&self) -> bool {
        self.pipeline.score_slot().is_some()
    }

    /// The index.
    pub fn index(&self) -> &Arc<KeyIndex> {
        &self.index
    }
}

/// The rows of the index with a thread's access to the keys.
struct Rows<'a, 'k> {
    rows: &'a mut Aggregating,
    values: &'a RowValues,
    access: &'a mut Access<'k>,
    now_ms: i64,
}

impl Source for Rows<'_, '_> {
    fn fill(&mut self, batch: &mut Batch, most: usize) -> Result<bool, Error> {
        Ok(self.rows.fill(batch, most))
    }

    fn load(&mut self, inputs: &[Input], all: Option<SlotOf<'_>>, batch: &mut Batch) -> Result<(), Error> {
        let readings = self.values.readings(inputs);
        let mut kept = Vec::with_capacity(batch.len());
        for row in 0..batch.len() {
            let filled = self.rows.key(batch.document(row)).and_then(|key| {
                self.access.with_key(&key, self.now_ms, |entry| {
                    self.values.fill(&key, entry, self.now_ms, &readings, all, (batch, row))
                })
            });
            kept.push(filled == Some(true));
        }
        batch.retain(|row| kept.get(row) == Some(&true));
        Ok(())
    }
}
