//! AGGREGATION: samples become rows of buckets, with the empty ones between them under EMPTY.
//!
//! Empty buckets have rows between samples, and at the range's ends only where the series goes on beyond:
//! never before its first sample, nor after its last. A run of them is a state, so that a run of a billion
//! buckets also comes in slices.

use super::{AggregationOptions, BucketTimestamp, Progress, RangeOptions, Rows};
use crate::aggregate::{Accumulator, Aggregator};
use crate::chunk::Batch;
use crate::sample::Sample;
use crate::series::Series;
use crate::twa::{self, Neighbours};

/// The bucket that samples fall into.
#[derive(Copy, Clone, Debug)]
struct Current {
    start: u64,
    end: u64,
}

/// Empty buckets whose rows are not written yet.
struct Gap {
    next: u64,
    remaining: u64,
    before: Neighbours,
    after: Neighbours,
}

/// The state of one aggregation.
pub(super) struct Aggregation {
    options: AggregationOptions,
    accumulators: Vec<Accumulator>,
    /// Of each accumulator, whether a sample of the bucket counts.
    is_valid: Vec<bool>,
    has_twa: bool,
    is_reverse: bool,
    current: Option<Current>,
    gap: Option<Gap>,
    /// Whether the empty buckets before the first sample have been dealt with.
    is_begun: bool,
    /// Whether the last bucket is written.
    is_finished: bool,
}

impl Aggregation {
    pub fn new(options: AggregationOptions, range: &RangeOptions) -> Aggregation {
        let is_reverse = range.is_reverse;
        let new = |aggregator: &Aggregator| Accumulator::new(*aggregator, is_reverse);
        Aggregation {
            accumulators: options.aggregators.iter().map(new).collect(),
            is_valid: vec![false; options.aggregators.len()],
            has_twa: options.aggregators.contains(&Aggregator::Twa),
            is_reverse,
            current: None,
            gap: None,
            is_begun: false,
            is_finished: false,
            options,
        }
    }

    /// Whether samples between two times, both included, all fall into the current bucket, and their times
    /// between do not matter.
    pub fn takes_whole(&self, first: u64, last: u64) -> bool {
        self.current.is_some_and(|current| first >= current.start && last < current.end) && !self.has_twa
    }

    /// Adds decoded values of the current bucket, of which only the first and the last timestamp are set.
    /// False if there is NaN among them, and nothing was added.
    pub fn add_whole(&mut self, batch: &mut Batch) -> bool {
        let len = batch.len;
        if batch.values[..len].iter().fold(false, |has_nan, value| has_nan | value.is_nan()) {
            return false;
        }
        if self.is_reverse {
            batch.values[..len].reverse();
            batch.timestamps.swap(0, len - 1);
        }
        self.add_run(&batch.timestamps[..len], &batch.values[..len]);
        true
    }

    /// Adds samples in the order of the range: the timestamp of the one at which it had to stop, since empty
    /// buckets must be told first.
    pub fn feed(
        &mut self,
        series: &Series,
        range: &RangeOptions,
        timestamps: &[u64],
        values: &[f64],
        progress: &mut Progress,
        rows: &mut Rows,
    ) -> Option<u64> {
        let (mut timestamps, mut values) = (timestamps, values);
        let has_nan = values.iter().fold(false, |has_nan, value| has_nan | value.is_nan());
        while let (Some(timestamp), Some(value)) = (timestamps.first(), values.first()) {
            let sample = Sample { timestamp: *timestamp, value: *value };
            if !self.enter(series, range, sample, progress, rows) {
                return Some(*timestamp);
            }
            let Some(current) = self.current else { return Some(*timestamp) };
            let len = match self.is_reverse {
                false => first_at(timestamps, current.end),
                true => timestamps.partition_point(|timestamp| *timestamp >= current.start),
            };
            let len = len.max(1);
            let (run, rest) = timestamps.split_at(len);
            let (run_values, rest_values) = values.split_at(len.min(values.len()));
            if has_nan {
                for (timestamp, value) in run.iter().zip(run_values) {
                    self.add_sample(Sample { timestamp: *timestamp, value: *value });
                }
            } else {
                self.add_run(run, run_values);
            }
            (timestamps, values) = (rest, rest_values);
        }
        None
    }

    fn add_run(&mut self, timestamps: &[u64], values: &[f64]) {
        for (accumulator, is_valid) in self.accumulators.iter_mut().zip(&mut self.is_valid) {
            if accumulator.aggregator() != Aggregator::CountNan {
                accumulator.add_run(timestamps, values);
                *is_valid = true;
            }
        }
    }

    fn add_sample(&mut self, sample: Sample) {
        for (accumulator, is_valid) in self.accumulators.iter_mut().zip(&mut self.is_valid) {
            if accumulator.aggregator().takes(sample.value) {
                accumulator.add(sample);
                *is_valid = true;
            }
        }
    }

    /// Makes the bucket of a sample the current one, once what comes before it has been told.
    fn enter(
        &mut self,
        series: &Series,
        range: &RangeOptions,
        sample: Sample,
        progress: &mut Progress,
        rows: &mut Rows,
    ) -> bool {
        let timestamp = sample.timestamp;
        if let Some(current) = self.current {
            if (current.start..current.end).contains(&timestamp) {
                return true;
            }
            let last = self.leave(series, range, Some(sample), progress, rows);
            if self.options.has_empty {
                self.gap = self.gap_between(series, range, current, timestamp);
            }
            if !self.drain(series, range, progress, rows) {
                // The sample comes again, as the first one of its bucket.
                self.begin_after(range, timestamp, last);
                self.current = None;
                return false;
            }
            self.begin_after(range, timestamp, last);
            return true;
        }
        if !self.is_begun {
            self.is_begun = true;
            let (start, end) = self.options.buckets.span(timestamp);
            if self.options.has_empty {
                self.gap = self.leading_gap(series, range, timestamp);
                if !self.drain(series, range, progress, rows) {
                    self.is_begun = true;
                    self.prepare_first(series, range, timestamp, start, end);
                    return false;
                }
            }
            self.prepare_first(series, range, timestamp, start, end);
        }
        let (start, end) = self.options.buckets.span(timestamp);
        self.current = Some(Current { start, end });
        true
    }

    /// The edges of a bucket as a time-weighted mean sees it: cut to the range at both ends for the first
    /// bucket, at the far end for the others.
    fn prepare_first(&mut self, series: &Series, range: &RangeOptions, timestamp: u64, start: u64, end: u64) {
        if !self.has_twa {
            return;
        }
        let before = match self.is_reverse {
            false => timestamp.checked_sub(1).map(|before| (0, before)),
            true => timestamp.checked_add(1).map(|after| (after, u64::MAX)),
        };
        let neighbour =
            before.and_then(|(from, to)| neighbours(series, range, from, to, !self.is_reverse)[0]);
        for twa in self.accumulators.iter_mut().filter_map(Accumulator::twa_mut) {
            twa.set_edges(start.max(range.from), end.min(range.to));
            neighbour.into_iter().for_each(|neighbour| twa.set_before(neighbour));
        }
    }

    /// Begins the bucket of a sample after another one, whose last sample is known.
    fn begin_after(&mut self, range: &RangeOptions, timestamp: u64, last: Option<Sample>) {
        let (start, end) = self.options.buckets.span(timestamp);
        self.current = Some(Current { start, end });
        for twa in self.accumulators.iter_mut().filter_map(Accumulator::twa_mut) {
            last.into_iter().for_each(|last| twa.set_before(last));
            match self.is_reverse {
                false => twa.set_edges(start, end.min(range.to)),
                true => twa.set_edges(start.max(range.from), end),
            }
        }
    }

    /// Writes the current bucket, of which `next` is the first sample beyond: its last sample, if it has any
    /// that a time-weighted mean counts.
    fn leave(
        &mut self,
        series: &Series,
        range: &RangeOptions,
        next: Option<Sample>,
        progress: &mut Progress,
        rows: &mut Rows,
    ) -> Option<Sample> {
        let current = self.current?;
        let mut last = None;
        for (accumulator, is_valid) in self.accumulators.iter_mut().zip(&self.is_valid) {
            if let Some(twa) = accumulator.twa_mut() {
                if let Some(next) = next.filter(|next| !next.value.is_nan()) {
                    last = is_valid.then(|| twa.last_sample());
                    twa.set_after(next);
                } else {
                    last = is_valid.then(|| twa.last_sample());
                }
            }
        }
        let is_told = self.options.has_empty || self.is_valid.contains(&true);
        if is_told && progress.takes_row() {
            progress.spend(1);
            rows.timestamps.push(self.timestamp_of(current.start));
            let empty_twa = || {
                let from = current.start.max(range.from);
                let to = current.end.min(range.to);
                let before = from.checked_sub(1).map(|before| neighbours(series, range, 0, before, true));
                let after = neighbours(series, range, to, u64::MAX, false);
                twa::empty_value(from, to, &before.unwrap_or_default(), &after)
            };
            for (accumulator, is_valid) in self.accumulators.iter().zip(&self.is_valid) {
                rows.values.push(match (is_valid, accumulator.aggregator()) {
                    (true, _) => accumulator.value(),
                    (false, Aggregator::Twa) => empty_twa(),
                    (false, _) => accumulator.empty_value(),
                });
            }
        }
        self.accumulators.iter_mut().for_each(Accumulator::reset);
        self.is_valid.fill(false);
        last
    }

    fn timestamp_of(&self, start: u64) -> u64 {
        let duration = self.options.buckets.duration();
        match self.options.timestamp {
            BucketTimestamp::Start => start,
            BucketTimestamp::Mid => start.saturating_add(duration / 2),
            BucketTimestamp::End => start.saturating_add(duration),
        }
    }

    /// Where the bucket of a time begins; none where it begins before 0, which ends a run of empty buckets.
    fn start_of(&self, timestamp: u64) -> Option<u64> {
        u64::try_from(self.options.buckets.start(timestamp)).ok()
    }

    /// The empty buckets between the current one and that of a sample.
    fn gap_between(
        &mut self,
        series: &Series,
        range: &RangeOptions,
        current: Current,
        timestamp: u64,
    ) -> Option<Gap> {
        let duration = self.options.buckets.duration();
        let (start, end) = self.options.buckets.span(timestamp);
        match self.is_reverse {
            false => self.gap(series, range, current.end, start.checked_sub(duration)?, false),
            true => self.gap(series, range, end, current.start.checked_sub(duration)?, false),
        }
    }

    /// The empty buckets from the range's beginning to the first sample.
    fn leading_gap(&mut self, series: &Series, range: &RangeOptions, timestamp: u64) -> Option<Gap> {
        let duration = self.options.buckets.duration();
        let (start, end) = self.options.buckets.span(timestamp);
        match self.is_reverse {
            false => self.gap(series, range, self.start_of(range.from)?, start.checked_sub(duration)?, true),
            true => self.gap(series, range, end, self.start_of(range.to)?, true),
        }
    }

    /// The empty buckets from the last bucket to the range's end.
    fn trailing_gap(&mut self, series: &Series, range: &RangeOptions, current: Current) -> Option<Gap> {
        let duration = self.options.buckets.duration();
        let start = self.start_of(current.start)?;
        match self.is_reverse {
            false => self.gap(series, range, start.checked_add(duration)?, self.start_of(range.to)?, true),
            true => self.gap(series, range, self.start_of(range.from)?, start.checked_sub(duration)?, true),
        }
    }

    /// The empty buckets from the one that begins at `low` to the one that begins at `high`. At the range's
    /// ends there are none unless the series has samples on both sides.
    fn gap(
        &mut self,
        series: &Series,
        range: &RangeOptions,
        low: u64,
        high: u64,
        is_edge: bool,
    ) -> Option<Gap> {
        let distance = high.checked_sub(low)?;
        let duration = self.options.buckets.duration();
        let next = if self.is_reverse { low + distance / duration * duration } else { low };
        let (mut before, mut after) = Default::default();
        if is_edge || self.has_twa {
            let at = next.max(range.from);
            let last = at.checked_sub(1);
            before = last.map(|last| neighbours(series, range, 0, last, true)).unwrap_or_default();
            after = neighbours(series, range, at, u64::MAX, false);
            if is_edge && (before[0].is_none() || after[0].is_none()) {
                return None;
            }
        }
        let older = || neighbours(series, range, 0, low.checked_sub(1)?, true)[0];
        for accumulator in &mut self.accumulators {
            let is_due = self.is_reverse || accumulator.lacks_carry();
            if accumulator.aggregator() == Aggregator::Last && is_due {
                accumulator.carry(older());
            }
        }
        Some(Gap { next, remaining: distance / duration + 1, before, after })
    }

    /// Writes empty buckets: true when none are left.
    pub fn drain(
        &mut self,
        _series: &Series,
        range: &RangeOptions,
        progress: &mut Progress,
        rows: &mut Rows,
    ) -> bool {
        let Some(mut gap) = self.gap.take() else { return true };
        let duration = self.options.buckets.duration();
        while gap.remaining > 0 {
            if progress.is_spent() {
                self.gap = Some(gap);
                return false;
            }
            progress.takes_row();
            progress.spend(1);
            rows.timestamps.push(self.timestamp_of(gap.next));
            let from = gap.next.max(range.from);
            let to = gap.next.saturating_add(duration).min(range.to);
            for accumulator in &self.accumulators {
                rows.values.push(match accumulator.aggregator() {
                    Aggregator::Twa => twa::empty_value(from, to, &gap.before, &gap.after),
                    _ => accumulator.empty_value(),
                });
            }
            gap.remaining -= 1;
            gap.next = match self.is_reverse {
                false => gap.next.saturating_add(duration),
                true => gap.next.saturating_sub(duration),
            };
        }
        true
    }

    /// Writes the last bucket and the empty ones after it: true when they are written.
    pub fn finish(
        &mut self,
        series: &Series,
        range: &RangeOptions,
        progress: &mut Progress,
        rows: &mut Rows,
    ) -> bool {
        if !self.is_finished {
            self.is_finished = true;
            self.gap = match self.current {
                Some(current) => {
                    self.reach_beyond(series, range);
                    self.leave(series, range, None, progress, rows);
                    self.options.has_empty.then(|| self.trailing_gap(series, range, current)).flatten()
                }
                None if self.options.has_empty => self.whole_gap(series, range),
                None => None,
            };
        }
        self.drain(series, range, progress, rows)
    }

    fn whole_gap(&mut self, series: &Series, range: &RangeOptions) -> Option<Gap> {
        self.gap(series, range, self.start_of(range.from)?, self.start_of(range.to)?, true)
    }

    /// Extends a time-weighted mean to the first sample beyond the range.
    fn reach_beyond(&mut self, series: &Series, range: &RangeOptions) {
        let is_reverse = self.is_reverse;
        for twa in self.accumulators.iter_mut().filter_map(Accumulator::twa_mut) {
            let last = twa.last_sample().timestamp;
            let span = match is_reverse {
                false => last.checked_add(1).map(|from| (from, u64::MAX)),
                true => last.checked_sub(1).map(|to| (0, to)),
            };
            let beyond = span.and_then(|(from, to)| neighbours(series, range, from, to, is_reverse)[0]);
            beyond.into_iter().for_each(|beyond| twa.set_after(beyond));
        }
    }
}

/// How many of the timestamps, which ascend, come before `end`. Where they are about equally far from each
/// other, as they mostly are, their number follows from the distances.
fn first_at(timestamps: &[u64], end: u64) -> usize {
    let (Some(first), Some(last)) = (timestamps.first(), timestamps.last()) else { return 0 };
    if *last < end {
        return timestamps.len();
    }
    let (span, distance) = (last.saturating_sub(*first), end.saturating_sub(*first));
    let steps = timestamps.len() as u64 - 1;
    let guess = distance.checked_mul(steps).map_or(0, |product| product.div_ceil(span.max(1))) as usize;
    let is_before = |at: usize| timestamps.get(at).is_some_and(|timestamp| *timestamp < end);
    if guess > 0 && is_before(guess - 1) && !is_before(guess) {
        return guess;
    }
    timestamps.partition_point(|timestamp| *timestamp < end)
}

/// The two samples of a span that are nearest to its beginning, or to its end, among those that have not
/// expired, pass the filters and are no NaN.
fn neighbours(series: &Series, range: &RangeOptions, from: u64, to: u64, is_reverse: bool) -> Neighbours {
    let from = from.max(series.oldest());
    let mut found = [None; 2];
    let mut batch = Batch::new();
    for part in series.store().scan(from, to, is_reverse) {
        part.decode(&mut batch);
        let is_wanted = |sample: &Sample| {
            (from..=to).contains(&sample.timestamp) && !sample.value.is_nan() && range.admits(*sample)
        };
        let mut put = |sample: Sample| {
            if let Some(slot) = found.iter_mut().find(|slot| slot.is_none()) {
                *slot = Some(sample);
            }
        };
        match is_reverse {
            false => batch.samples().filter(is_wanted).take(2).for_each(&mut put),
            true => batch.samples().rev().filter(is_wanted).take(2).for_each(&mut put),
        }
        if found[1].is_some() {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::first_at;
    use martlet_base::random::Random;

    #[test]
    fn a_guess_is_what_a_search_finds() {
        let seed = 0x6775_6573;
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        for round in 0..20_000 {
            let (count, jitter) = (1 + random.below(128), 1 + random.below([1, 3, 1000][round % 3]));
            let mut timestamp = [0, 1 << 40, u64::MAX - 1_000_000_000][round % 7 % 3];
            let timestamps: Vec<u64> = (0..count)
                .map(|_| {
                    timestamp += 1000 + random.below(jitter);
                    timestamp
                })
                .collect();
            let span = timestamps[timestamps.len() - 1] - timestamps[0];
            let end = timestamps[0].saturating_add(random.below(span + 3000)).saturating_sub(random.below(3));
            assert_eq!(first_at(&timestamps, end), timestamps.partition_point(|time| *time < end));
        }
        assert_eq!(first_at(&[], 5), 0);
        assert_eq!(first_at(&[0, u64::MAX], u64::MAX), 1);
    }
}
