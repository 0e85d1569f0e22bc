//! FT.AGGREGATE over keys: the rows of an index through a pipeline, in steps between which others run, and
//! the values that rows have of their documents.
//!
//! The index and the keys are looked at one after the other. A row whose document has changed or gone since
//! it was found goes, too.

use std::collections::VecDeque;
use std::sync::Arc;

use martlet_search::Error;
use martlet_search::aggregate::batch::Batch;
use martlet_search::aggregate::pipeline::{
    Input, Pipeline, Processor, Progress, Role, Shown, SlotOf, Source as Rows,
};
use martlet_search::aggregate::request::Aggregate;
use martlet_search::aggregate::rows::Reading;
use martlet_search::aggregating::{Aggregating, Means};
use martlet_search::exec::profile::Profile;
use martlet_search::searching::Context;

use crate::access::Access;
use crate::index::KeyIndex;
use crate::row_values::{Keys, RowValues};

/// Rows of one step: with values from keys it takes some hundred microseconds.
const STEP_ROWS: usize = 512;
/// Values of a row up to which a step has all of its rows.
const STEP_WIDTH: usize = 16;

/// How many rows a step handles that has `most` of ordinary ones: fewer where they are wide, because a step's
/// length is bounded by its values.
pub(crate) fn rows_of_step(most: usize, width: usize) -> usize {
    (most * STEP_WIDTH / width.max(STEP_WIDTH)).max(1)
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct Aggregation {
    index: Arc<KeyIndex>,
    request: Aggregate,
    from: From,
    pipeline: Pipeline,
    failure: Option<Error>,
    is_partial: bool,
}

/// Where rows come from.
#[derive(Debug)]
enum From {
    Index(Box<(Aggregating, RowValues)>),
    /// Other servers, which have read their documents.
    Parts(VecDeque<Reading>),
}

impl Aggregation {
    /// An aggregation that has not begun: of this server's documents, of them as a part of those of several
    /// servers, or of the parts, which are to come.
    ///
    /// # Errors
    /// Those of [`Aggregating::new`].
    pub fn new(
        index: Arc<KeyIndex>,
        request: Aggregate,
        context: Context,
        means: Means,
        role: Role,
    ) -> Result<Aggregation, Error> {
        let own = Arc::clone(index.index());
        let (aggregating, pipeline) = Aggregating::new(own, &request, context, means, role)?;
        let from = match role {
            Role::Whole | Role::Part => {
                let values = RowValues::new(&index.index().rules().definition, request.query.dialect);
                From::Index(Box::new((aggregating, values)))
            }
            Role::Rest => From::Parts(VecDeque::new()),
        };
        Ok(Aggregation { index, request, from, pipeline, failure: None, is_partial: false })
    }

    /// Takes the parts.
    pub fn take_parts(&mut self, parts: Vec<Reading>) {
        self.pipeline.count_parts(&parts);
        self.is_partial |= parts.iter().any(Reading::is_partial);
        self.from = From::Parts(parts.into());
    }

    /// The rows of a part, which has come to its end.
    ///
    /// # Errors
    /// They are too many.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        self.pipeline.encode(self.is_partial)
    }

    /// Measures the aggregation from now on.
    pub fn measure(&mut self) {
        self.pipeline.measure();
    }

    /// The steps to the rows of one that was measured.
    pub fn processors(&self) -> Vec<Processor> {
        match &self.from {
            From::Index(from) => self.pipeline.processors(&from.0.processors()),
            From::Parts(_) => self.pipeline.processors(&[]),
        }
    }

    /// The parts of the query of an aggregation that was measured, to be looked at; none if its rows come
    /// from other servers. With `limited` a pattern shows the number of its names.
    pub fn profile(&self, limited: bool) -> Option<Profile> {
        let From::Index(from) = &self.from else { return None };
        let processors = self.pipeline.processors(&[]);
        let index = processors.first()?;
        Some(from.0.profile(limited, index.time, index.rows))
    }

    /// Whether a step may take long.
    pub fn has_long_steps(&self) -> bool {
        matches!(&self.from, From::Index(from) if from.0.has_long_steps())
    }

    /// A step towards `wanted` rows; whether they are there, or all that there are. After
    /// [`Access::gave_up`] nothing of the aggregation is of use.
    pub fn step(&mut self, access: &mut Access<'_>, now_ms: i64, wanted: usize) -> bool {
        let Aggregation { from: From::Index(from), pipeline, .. } = self else {
            return self.step_of_parts(wanted);
        };
        let (aggregating, values) = &mut **from;
        let rows = rows_of_step(STEP_ROWS, pipeline.width_max());
        let progress = pipeline.step(&mut KeyRows { aggregating, values, access, now_ms }, wanted, rows);
        self.is_there(progress)
    }

    /// As [`Aggregation::step`], of an aggregation that has its parts.
    pub fn step_of_parts(&mut self, wanted: usize) -> bool {
        let Aggregation { from: From::Parts(parts), pipeline, .. } = self else { return false };
        let rows = rows_of_step(STEP_ROWS, pipeline.width_max());
        let progress = pipeline.step(&mut PartRows(parts), wanted, rows);
        self.is_there(progress)
    }

    fn is_there(&mut self, progress: Result<Progress, Error>) -> bool {
        match progress {
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
        let parts = match &self.from {
            From::Index(_) => 0,
            From::Parts(parts) => parts.iter().map(Reading::bytes).sum(),
        };
        parts + self.pipeline.bytes()
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

/// The rows of the parts, one part after the other.
struct PartRows<'a>(&'a mut VecDeque<Reading>);

impl Rows for PartRows<'_> {
    fn fill(&mut self, batch: &mut Batch, most: usize) -> Result<bool, Error> {
        let Some(part) = self.0.front_mut() else { return Ok(false) };
        let has_more = part.fill(batch, most);
        if !has_more.ok_or_else(|| Error::new("ERRCLUSTER A node's answer cannot be read"))? {
            self.0.pop_front();
        }
        Ok(!self.0.is_empty())
    }

    /// Parts have loaded all values.
    fn load(&mut self, _: &[Input], _: Option<SlotOf<'_>>, _: &mut Batch) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
