//! Compaction rules as data: a series fills another one, bucket by bucket.
//!
//! A rule never touches its destination. Its changes there are [`Effect`]s, which the caller applies
//! with `Series::apply` and records with the write that caused them.
//!
//! Invariant: the accumulator has the samples of the open bucket, if there is one.

use martlet_types::size_class::allocated_bytes;

use crate::aggregate::{Accumulator, Aggregator};
use crate::error::Error;
use crate::sample::Sample;

/// Buckets of one length, one of which begins at the alignment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    duration: u64,
    alignment: u64,
}

impl Buckets {
    /// Buckets of a duration in milliseconds, 1 to `i64::MAX`.
    pub fn new(duration: u64, alignment: u64) -> Result<Buckets, Error> {
        let is_right = (1..=i64::MAX as u64).contains(&duration);
        if is_right { Ok(Buckets { duration, alignment }) } else { Err(Error::BucketDuration) }
    }

    /// Milliseconds of a bucket.
    #[inline]
    pub fn duration(self) -> u64 {
        self.duration
    }

    /// When one of the buckets begins, in milliseconds.
    pub fn alignment(self) -> u64 {
        self.alignment
    }

    /// Where the bucket of a time begins. The first one may begin before 0.
    #[inline]
    pub fn start(self, timestamp: u64) -> i128 {
        let distance = i128::from(timestamp) - i128::from(self.alignment);
        i128::from(timestamp) - distance.rem_euclid(i128::from(self.duration))
    }

    /// Where the bucket of a time begins and where the next one does, times before 0 being 0.
    #[inline]
    pub fn span(self, timestamp: u64) -> (u64, u64) {
        let offset = match timestamp.checked_sub(self.alignment) {
            Some(distance) => distance % self.duration,
            None => {
                let before = (self.alignment - timestamp) % self.duration;
                if before == 0 { 0 } else { self.duration - before }
            }
        };
        let end = (timestamp - offset.min(timestamp)).saturating_add(self.duration);
        // A bucket that begins before 0 is cut there, and ends where it would have.
        let end = end - offset.saturating_sub(timestamp).min(end);
        (timestamp.saturating_sub(offset), end)
    }
}

/// A change of a rule's destination.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A bucket is closed: the sample is added under the policy LAST.
    Close(Sample),
    /// A closed bucket was computed again: the sample is put there, whatever the destination's settings.
    Replace(Sample),
    /// The buckets from the first to the second timestamp have lost all their samples.
    Delete(u64, u64),
    /// The open bucket has lost all its samples. The destination's last sample before this time goes, and its
    /// bucket becomes the open one, by `Series::reopen` of the source.
    Reopen(u64),
}

/// A change, and the series that it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The destination's key.
    pub destination: Box<[u8]>,
    /// The change.
    pub action: Action,
}

/// See the [module docs](self).
#[derive(Clone, Debug)]
pub struct Rule {
    /// The destination's key.
    pub destination: Box<[u8]>,
    pub(crate) buckets: Buckets,
    pub(crate) accumulator: Accumulator,
    /// The beginning of the open bucket; absent before the first sample.
    pub(crate) open: Option<u64>,
    /// Whether any sample of the open bucket counts.
    pub(crate) has_samples: bool,
}

impl Rule {
    /// A rule without an open bucket.
    pub fn new(destination: &[u8], aggregator: Aggregator, buckets: Buckets) -> Rule {
        let accumulator = Accumulator::new(aggregator, false);
        Rule { destination: destination.into(), buckets, accumulator, open: None, has_samples: false }
    }

    /// How buckets become values.
    pub fn aggregator(&self) -> Aggregator {
        self.accumulator.aggregator()
    }

    /// Which buckets it makes.
    pub fn buckets(&self) -> Buckets {
        self.buckets
    }

    /// The open bucket as it stands, for LATEST.
    pub fn latest(&self) -> Option<Sample> {
        self.open.map(|start| Sample::new(start, self.accumulator.value()))
    }

    /// Feeds a sample that is later than all before: the bucket that it closes, if any.
    pub(crate) fn feed(&mut self, sample: Sample) -> Option<Sample> {
        let takes = self.aggregator().takes(sample.value);
        let (start, end) = self.buckets.span(sample.timestamp);
        let open = *self.open.get_or_insert_with(|| {
            if let Some(twa) = self.accumulator.twa_mut() {
                twa.set_edges(start, end);
            }
            start
        });
        let mut closed = None;
        if start > open {
            if let Some(twa) = self.accumulator.twa_mut().filter(|_| takes) {
                twa.set_after(sample);
            }
            let had_samples = self.has_samples;
            closed = had_samples.then(|| Sample::new(open, self.accumulator.value()));
            let last = self.accumulator.twa().map(|twa| twa.last_sample());
            self.accumulator.reset();
            self.has_samples = false;
            if let (Some(twa), Some(last)) = (self.accumulator.twa_mut(), last) {
                twa.set_edges(start, end);
                if had_samples {
                    twa.set_before(last);
                }
            }
            self.open = Some(start);
        }
        if takes {
            self.accumulator.add(sample);
            self.has_samples = true;
        }
        closed
    }

    /// Bytes that the allocator has given, the rule itself apart.
    pub(crate) fn heap_bytes(&self) -> usize {
        allocated_bytes(self.destination.len()) + self.accumulator.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_aligned_and_cut_at_zero() {
        let buckets = |duration, alignment| Buckets::new(duration, alignment).unwrap();
        for (duration, alignment, time, span) in [
            (10, 0, 25, (20, 30)),
            (10, 3, 25, (23, 33)),
            (10, 3, 2, (0, 3)),
            (10, 103, 2, (0, 3)),
            (10, 103, 3, (3, 13)),
            (10, 0, 0, (0, 10)),
            (7, 100, 99, (93, 100)),
            (i64::MAX as u64, 5, 1, (0, 5)),
        ] {
            assert_eq!(buckets(duration, alignment).span(time), span, "{duration} {alignment} {time}");
            let start = buckets(duration, alignment).start(time);
            assert_eq!((start.max(0) as u64, (start + i128::from(duration)) as u64), span);
        }
        assert_eq!(Buckets::new(0, 0), Err(Error::BucketDuration));
    }

    #[test]
    fn buckets_without_samples_that_count_have_a_value() {
        for aggregator in Aggregator::ALL {
            let mut rule = Rule::new(b"d", aggregator, Buckets::new(10, 0).unwrap());
            rule.feed(Sample::new(1, 1.0));
            // NaN opens a bucket, and most aggregators do not count it.
            rule.feed(Sample::new(11, f64::NAN));
            let value = rule.latest().unwrap().value;
            if matches!(aggregator.name(), "avg" | "std.p" | "std.s" | "var.p" | "var.s") {
                assert!(value.is_nan(), "{}: {value}", aggregator.name());
            }
            assert_eq!(rule.feed(Sample::new(21, 2.0)).is_some(), aggregator.takes(f64::NAN));
        }
    }

    #[test]
    fn a_bucket_is_closed_by_the_first_sample_after_it() {
        let mut rule = Rule::new(b"d", Aggregator::Sum, Buckets::new(10, 0).unwrap());
        assert_eq!(rule.latest(), None);
        let fed: Vec<_> = [(1, 1.0), (9, 2.0), (25, 4.0), (41, 8.0)]
            .map(|(timestamp, value)| rule.feed(Sample::new(timestamp, value)))
            .into();
        assert_eq!(fed, [None, None, Some(Sample::new(0, 3.0)), Some(Sample::new(20, 4.0))]);
        assert_eq!(rule.latest(), Some(Sample::new(40, 8.0)));
    }
}
