//! Ranges of samples: TS.RANGE, TS.REVRANGE, TS.READ and the series of TS.MRANGE, in slices.
//!
//! A [`RangeQuery`] owns its state and borrows the series only while it [`step`](RangeQuery::step)s, so
//! that the caller may do other work between two steps. A step decodes about as many samples as its budget
//! allows.
//!
//! Invariant: rows come in order of time, or all in the opposite order.

mod buckets;
pub mod merge;
#[cfg(test)]
mod tests;

use crate::aggregate::Aggregator;
use crate::chunk::Batch;
use crate::error::Error;
use crate::rule::Buckets;
use crate::sample::Sample;
use crate::series::Series;
use crate::store::Part;
use buckets::Aggregation;

/// Most timestamps of FILTER_BY_TS; Redis takes no more.
pub const FILTER_TIMESTAMPS_MAX: usize = 128;

/// The moment of a bucket that its row has.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum BucketTimestamp {
    /// Where it begins (`-`, `start`).
    #[default]
    Start,
    /// Its middle (`~`, `mid`).
    Mid,
    /// Where it ends (`+`, `end`).
    End,
}

impl BucketTimestamp {
    /// The moment of a name in any case.
    pub fn from_name(name: &[u8]) -> Option<BucketTimestamp> {
        let is = |names: [&str; 2]| names.iter().any(|other| other.as_bytes().eq_ignore_ascii_case(name));
        match () {
            () if is(["start", "-"]) => Some(BucketTimestamp::Start),
            () if is(["mid", "~"]) => Some(BucketTimestamp::Mid),
            () if is(["end", "+"]) => Some(BucketTimestamp::End),
            () => None,
        }
    }
}

/// The alignment of buckets.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// Time 0.
    #[default]
    Zero,
    /// The range's start.
    Start,
    /// The range's end.
    End,
    /// A time.
    At(u64),
}

impl Align {
    /// The time in a range.
    pub fn timestamp(self, from: u64, to: u64) -> u64 {
        match self {
            Align::Zero => 0,
            Align::Start => from,
            Align::End => to,
            Align::At(timestamp) => timestamp,
        }
    }
}

/// AGGREGATION and its options.
#[derive(Clone, Debug)]
pub struct AggregationOptions {
    /// At least one.
    pub aggregators: Vec<Aggregator>,
    /// The buckets, aligned.
    pub buckets: Buckets,
    /// BUCKETTIMESTAMP.
    pub timestamp: BucketTimestamp,
    /// EMPTY: whether buckets without samples have rows, between those with some.
    pub has_empty: bool,
}

impl AggregationOptions {
    /// Buckets of `duration` milliseconds over a range.
    pub fn new(
        aggregators: Vec<Aggregator>,
        duration: u64,
        align: Align,
        from: u64,
        to: u64,
    ) -> Result<AggregationOptions, Error> {
        let buckets = Buckets::new(duration, align.timestamp(from, to))?;
        Ok(AggregationOptions { aggregators, buckets, timestamp: BucketTimestamp::Start, has_empty: false })
    }
}

/// The requested samples of a series.
#[derive(Clone, Debug)]
pub struct RangeOptions {
    /// The first timestamp.
    pub from: u64,
    /// The last timestamp.
    pub to: u64,
    /// From the last sample to the first.
    pub is_reverse: bool,
    /// FILTER_BY_TS.
    timestamps: Option<Vec<u64>>,
    /// FILTER_BY_VALUE: the smallest and the greatest value.
    pub values: Option<(f64, f64)>,
    /// Most rows.
    pub count: Option<u64>,
    /// AGGREGATION.
    pub aggregation: Option<AggregationOptions>,
}

impl RangeOptions {
    /// All samples of a span, in order.
    pub fn new(from: u64, to: u64) -> RangeOptions {
        RangeOptions {
            from,
            to,
            is_reverse: false,
            timestamps: None,
            values: None,
            count: None,
            aggregation: None,
        }
    }

    /// Only samples at these timestamps, of which the first [`FILTER_TIMESTAMPS_MAX`] count.
    pub fn set_timestamps(&mut self, timestamps: &[u64]) {
        let mut timestamps = timestamps[..timestamps.len().min(FILTER_TIMESTAMPS_MAX)].to_vec();
        timestamps.sort_unstable();
        timestamps.dedup();
        self.timestamps = Some(timestamps);
    }

    fn has_filter(&self) -> bool {
        self.timestamps.is_some() || self.values.is_some()
    }

    fn admits(&self, sample: Sample) -> bool {
        let by_time = self.timestamps.as_ref();
        by_time.is_none_or(|timestamps| timestamps.binary_search(&sample.timestamp).is_ok())
            && self.values.is_none_or(|(low, high)| sample.value >= low && sample.value <= high)
    }

    /// Values of a row.
    pub fn width(&self) -> usize {
        self.aggregation.as_ref().map_or(1, |aggregation| aggregation.aggregators.len())
    }
}

/// Rows of timestamps, each with one value or more.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// A timestamp per row.
    pub timestamps: Vec<u64>,
    /// The values of all rows, one row after another.
    pub values: Vec<f64>,
}

impl Rows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.timestamps.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.timestamps.is_empty()
    }

    fn push(&mut self, sample: Sample) {
        self.timestamps.push(sample.timestamp);
        self.values.push(sample.value);
    }

    fn clear(&mut self) {
        self.timestamps.clear();
        self.values.clear();
    }
}

/// See the [module docs](self).
pub struct RangeQuery {
    options: RangeOptions,
    aggregation: Option<Aggregation>,
    /// The open bucket of a series that a rule fills (LATEST), until its row is written.
    latest: Option<Sample>,
    /// The rest of the span.
    from: u64,
    to: u64,
    is_scanned: bool,
    is_done: bool,
    /// Room for a part, once one has been decoded.
    batch: Option<Box<Batch>>,
}

impl RangeQuery {
    /// Begins. `latest` is, under LATEST, the source's [`Series::latest`] for this series.
    pub fn new(options: RangeOptions, latest: Option<Sample>) -> RangeQuery {
        let aggregation = options.aggregation.clone().map(|asked| Aggregation::new(asked, &options));
        let (from, to) = (options.from, options.to);
        let is_scanned = from > to;
        let is_done = options.count == Some(0);
        RangeQuery { options, aggregation, latest, from, to, is_scanned, is_done, batch: None }
    }

    /// The whole answer at once.
    pub fn run(options: RangeOptions, series: &Series, latest: Option<Sample>) -> Rows {
        let mut rows = Rows::default();
        let mut query = RangeQuery::new(options, latest);
        while !query.step(series, usize::MAX, &mut rows) {}
        rows
    }

    /// Reads about `budget` more samples and rows: true when it is done.
    pub fn step(&mut self, series: &Series, budget: usize, rows: &mut Rows) -> bool {
        if !self.is_done {
            let mut progress = Progress { budget: budget.max(1), left: self.options.count };
            self.is_done = self.advance(series, &mut progress, rows);
            self.options.count = progress.left;
            self.is_done |= progress.left == Some(0);
        }
        self.is_done
    }

    /// True when the answer is complete.
    fn advance(&mut self, series: &Series, progress: &mut Progress, rows: &mut Rows) -> bool {
        if !self.drain(series, progress, rows) {
            return false;
        }
        if self.options.is_reverse && !self.feed_latest(series, progress, rows) {
            return false;
        }
        if !self.is_scanned && !self.scan(series, progress, rows) {
            return false;
        }
        if !self.options.is_reverse && !self.feed_latest(series, progress, rows) {
            return false;
        }
        match &mut self.aggregation {
            Some(aggregation) => aggregation.finish(series, &self.options, progress, rows),
            None => true,
        }
    }

    /// Writes the empty buckets that an earlier step has left.
    fn drain(&mut self, series: &Series, progress: &mut Progress, rows: &mut Rows) -> bool {
        let options = &self.options;
        self.aggregation.as_mut().is_none_or(|aggregation| aggregation.drain(series, options, progress, rows))
    }

    /// The sample of LATEST is later than all others. True if it has been taken.
    fn feed_latest(&mut self, series: &Series, progress: &mut Progress, rows: &mut Rows) -> bool {
        let options = &self.options;
        let is_due = options.to > series.last_timestamp() && series.source().is_some();
        let Some(latest) = self.latest.filter(|_| is_due) else { return true };
        let is_inside = (options.from.max(series.oldest())..=options.to).contains(&latest.timestamp)
            && options.admits(latest);
        let fed =
            !is_inside || self.feed(series, &[latest.timestamp], &[latest.value], progress, rows).is_none();
        if fed {
            self.latest = None;
        }
        fed
    }

    /// True when the span has been walked.
    fn scan(&mut self, series: &Series, progress: &mut Progress, rows: &mut Rows) -> bool {
        let is_reverse = self.options.is_reverse;
        self.from = self.from.max(series.oldest());
        for part in series.store().scan(self.from, self.to, is_reverse) {
            if progress.is_spent() {
                return false;
            }
            progress.spend(part.len);
            let stopped_at = self.feed_part(series, &part, progress, rows);
            if let Some(timestamp) = stopped_at {
                // This sample is the next one.
                if is_reverse {
                    self.to = timestamp
                } else {
                    self.from = timestamp
                };
                return false;
            }
            let beyond = if is_reverse { part.first.checked_sub(1) } else { part.last.checked_add(1) };
            match beyond {
                Some(beyond) if is_reverse => self.to = beyond,
                Some(beyond) => self.from = beyond,
                None => break,
            }
        }
        self.is_scanned = true;
        true
    }

    /// Feeds the samples of a part that are in the span: the timestamp of the one at which it had to stop.
    fn feed_part(
        &mut self,
        series: &Series,
        part: &Part<'_>,
        progress: &mut Progress,
        rows: &mut Rows,
    ) -> Option<u64> {
        let is_whole = part.first >= self.from && part.last <= self.to;
        let mut batch = self.batch.take().unwrap_or_default();
        if let Some(aggregation) = &mut self.aggregation
            && is_whole
            && !self.options.has_filter()
            && aggregation.takes_whole(part.first, part.last)
        {
            part.decode_values(&mut batch);
            (batch.timestamps[0], batch.timestamps[part.len - 1]) = (part.first, part.last);
            let is_added = aggregation.add_whole(&mut batch);
            if is_added {
                self.batch = Some(batch);
                return None;
            }
        }
        part.decode(&mut batch);
        self.narrow(&mut batch, is_whole);
        let stopped_at =
            self.feed(series, &batch.timestamps[..batch.len], &batch.values[..batch.len], progress, rows);
        self.batch = Some(batch);
        stopped_at
    }

    /// Keeps the samples in the span that pass the filters, in the requested order.
    fn narrow(&self, batch: &mut Batch, is_whole: bool) {
        if !is_whole || self.options.has_filter() {
            let mut kept = 0;
            for index in 0..batch.len {
                let sample = Sample { timestamp: batch.timestamps[index], value: batch.values[index] };
                if (self.from..=self.to).contains(&sample.timestamp) && self.options.admits(sample) {
                    (batch.timestamps[kept], batch.values[kept]) = (sample.timestamp, sample.value);
                    kept += 1;
                }
            }
            batch.len = kept;
        }
        if self.options.is_reverse {
            batch.timestamps[..batch.len].reverse();
            batch.values[..batch.len].reverse();
        }
    }

    fn feed(
        &mut self,
        series: &Series,
        timestamps: &[u64],
        values: &[f64],
        progress: &mut Progress,
        rows: &mut Rows,
    ) -> Option<u64> {
        if let Some(aggregation) = &mut self.aggregation {
            return aggregation.feed(series, &self.options, timestamps, values, progress, rows);
        }
        for (timestamp, value) in timestamps.iter().zip(values) {
            if !progress.takes_row() {
                return Some(*timestamp);
            }
            rows.push(Sample { timestamp: *timestamp, value: *value });
        }
        None
    }
}

/// The rest of a step's budget.
struct Progress {
    budget: usize,
    /// Rows that COUNT still allows.
    left: Option<u64>,
}

impl Progress {
    fn is_spent(&self) -> bool {
        self.budget == 0 || self.left == Some(0)
    }

    fn spend(&mut self, amount: usize) {
        self.budget = self.budget.saturating_sub(amount);
    }

    /// Counts one more row: false if there may be none.
    fn takes_row(&mut self) -> bool {
        match &mut self.left {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }
}
