//! FT.AGGREGATE over keys: the rows of an index through a pipeline, in steps between which others run, and
//! the values that rows have of their documents.
//!
//! The index and the keys are looked at one after the other. A row whose document has changed or gone since
//! it was found goes, too.

use std::sync::Arc;

use martlet_search::Error;
use martlet_search::aggregate::batch::Batch;
use martlet_search::aggregate::pipeline::{Input, Pipeline, Progress, Shown, SlotOf, Source as Rows};
use martlet_search::aggregate::request::Aggregate;
use martlet_search::aggregating::{Aggregating, Means};
use martlet_search::searching::Context;

use crate::access::Access;
use crate::index::KeyIndex;
use crate::row_values::{Keys, RowValues};

/// Rows of one step: with values from keys it takes some hundred microseconds.
const STEP_ROWS: usize = 512;

/// See the [module docs](self).
#[derive(Debug)]
pub struct Aggregation {
    index: Arc<KeyIndex>,
    request: Aggregate,
    aggregating: Aggregating,
    pipeline: Pipeline,
    values: RowValues,
    failure: Option<Error>,
    is_partial: bool,
}

impl Aggregation {
    /// An aggregation that has not begun.
    ///
    /// # Errors
    /// Those of [`Aggregating::new`].
    pub fn new(
        index: Arc<KeyIndex>,
        request: Aggregate,
        context: Context,
        means: Means,
    ) -> Result<Aggregation, Error> {
        let (aggregating, pipeline) = Aggregating::new(Arc::clone(index.index()), &request, context, means)?;
        let values = RowValues::new(&index.index().rules().definition, request.query.dialect);
        Ok(Aggregation { index, request, aggregating, pipeline, values, failure: None, is_partial: false })
    }

    /// Whether a step may take long.
    pub fn has_long_steps(&self) -> bool {
        self.aggregating.has_long_steps()
    }

    /// A step towards `wanted` rows; whether they are there, or all that there are. After
    /// [`Access::gave_up`] nothing of the aggregation is of use.
    pub fn step(&mut self, access: &mut Access<'_>, now_ms: i64, wanted: usize) -> bool {
        let Aggregation { aggregating, values, pipeline, .. } = self;
        let mut source = KeyRows { aggregating, values, access, now_ms };
        match pipeline.step(&mut source, wanted, STEP_ROWS) {
            Ok(progress) => progress != Progress::Working,
            Err(error) => {
                self.failure = Some(error);
                true
            }
        }
    }

    /// Ends the search with the documents found so far.
    pub fn end_early(&mut self) {
        self.is_partial = true;
        self.pipeline.end_early();
    }

    /// The request.
    pub fn request(&self) -> &Aggregate {
        &self.request
    }

    /// The index.
    pub fn index(&self) -> &Arc<KeyIndex> {
        &self.index
    }

    /// Whether it looks at keys, and not at the index alone.
    pub fn looks_at_keys(&self) -> bool {
        self.pipeline.has_loads()
    }

    /// Bytes that its rows take.
    pub fn bytes(&self) -> usize {
        self.pipeline.bytes()
    }

    /// How many rows are ready.
    pub fn ready(&self) -> usize {
        self.pipeline.ready()
    }

    /// The error at which it ended; the rows that are ready came before it.
    pub fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// Whether it was ended early since the last call.
    pub fn take_is_partial(&mut self) -> bool {
        std::mem::take(&mut self.is_partial)
    }

    /// See [`Pipeline::take_total`].
    pub fn take_total(&mut self, most: usize) -> u64 {
        self.pipeline.take_total(most)
    }

    /// See [`Pipeline::take`].
    pub fn take(&mut self, most: usize, show: impl FnMut(Shown<'_>)) {
        self.pipeline.take(most, show);
    }
}

/// Where the pipeline's rows come from, for one step.
struct KeyRows<'a, 'k> {
    aggregating: &'a mut Aggregating,
    values: &'a mut RowValues,
    access: &'a mut Access<'k>,
    now_ms: i64,
}

impl Rows for KeyRows<'_, '_> {
    fn fill(&mut self, batch: &mut Batch, most: usize) -> Result<bool, Error> {
        Ok(self.aggregating.fill(batch, most))
    }

    fn load(&mut self, inputs: &[Input], all: Option<SlotOf<'_>>, batch: &mut Batch) -> Result<(), Error> {
        let documents: Vec<u64> = (0..batch.len()).map(|row| batch.document(row)).collect();
        let mut keys = Keys::default();
        self.aggregating.keys(&documents, |key| keys.push(key));
        self.values.load(inputs, all, batch, &keys, (self.access, self.now_ms));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
