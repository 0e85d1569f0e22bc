//! `Twa`: the mean of a bucket weighted by time, that is, the area below the lines between its samples
//! divided by the time that they span; at the bucket's edges the lines to the neighbours beyond are cut.
//!
//! Invariant: the order of additions is that of RedisTimeSeries, in both directions. In reverse, "before" and
//! "start" mean later times throughout.

use crate::sample::{Sample, nan};

/// See the [module docs](self). The fields are those of the saved form.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Twa {
    /// The area so far.
    pub area: f64,
    /// The last sample.
    pub previous: (u64, f64),
    /// The edges at which the bucket is cut, in the order of iteration.
    pub edges: (u64, u64),
    /// Where the area begins.
    pub first: u64,
    /// Where the area ends.
    pub last: u64,
    /// Whether no sample before the bucket is known.
    pub is_first_bucket: bool,
    /// Samples in the bucket.
    pub count: u64,
    /// Whether samples come from the latest to the earliest.
    pub is_reverse: bool,
}

impl Twa {
    /// One that has seen nothing.
    pub fn new(is_reverse: bool) -> Twa {
        Twa { is_first_bucket: true, is_reverse, ..Twa::default() }
    }

    /// Sets the edges, the earlier one first.
    pub fn set_edges(&mut self, low: u64, high: u64) {
        self.edges = if self.is_reverse { (high, low) } else { (low, high) };
    }

    /// The last sample before the bucket.
    pub fn set_before(&mut self, sample: Sample) {
        self.previous = (sample.timestamp, sample.value);
        self.is_first_bucket = false;
    }

    /// The last sample seen.
    pub fn last_sample(&self) -> Sample {
        Sample { timestamp: self.previous.0, value: self.previous.1 }
    }

    /// The previous sample and this one, the earlier one first.
    fn line(&self, sample: Sample) -> ((u64, f64), (u64, f64)) {
        let this = (sample.timestamp, sample.value);
        if self.is_reverse { (this, self.previous) } else { (self.previous, this) }
    }

    /// The line's height at a time between its ends.
    fn height((t1, v1): (u64, f64), (t2, v2): (u64, f64), at: u64) -> f64 {
        v1 + at.wrapping_sub(t1) as f64 * (v2 - v1) / t2.wrapping_sub(t1) as f64
    }

    /// Adds a sample of the bucket.
    pub fn add(&mut self, sample: Sample) {
        let (from, to) = self.line(sample);
        if self.count > 0 {
            self.area += (from.1 + to.1) * to.0.wrapping_sub(from.0) as f64 / 2.0;
        } else if self.is_first_bucket {
            self.first = sample.timestamp;
        } else {
            let edge = self.edges.0;
            self.first = edge;
            let height = Twa::height(from, to, edge);
            self.area += if self.is_reverse {
                (height + from.1) * edge.wrapping_sub(from.0) as f64 / 2.0
            } else {
                (height + to.1) * to.0.wrapping_sub(edge) as f64 / 2.0
            };
        }
        self.last = sample.timestamp;
        self.previous = (sample.timestamp, sample.value);
        self.count += 1;
    }

    /// Adds samples of the bucket that follow one another; the same as [`add`](Twa::add) of each, faster.
    pub fn add_run(&mut self, timestamps: &[u64], values: &[f64]) {
        let mut samples = timestamps.iter().zip(values);
        let Some((timestamp, value)) = samples.next() else { return };
        self.add(Sample { timestamp: *timestamp, value: *value });
        let (mut area, (mut before, mut height)) = (self.area, self.previous);
        for (timestamp, value) in samples {
            let (from, to) = if self.is_reverse { (*timestamp, before) } else { (before, *timestamp) };
            area += (height + value) * to.wrapping_sub(from) as f64 / 2.0;
            (before, height) = (*timestamp, *value);
        }
        let run = timestamps.len().min(values.len()) as u64;
        (self.area, self.previous, self.last) = (area, (before, height), before);
        self.count += run - 1;
    }

    /// The first sample after the bucket: the area reaches the bucket's edge.
    pub fn set_after(&mut self, sample: Sample) {
        let (from, to) = self.line(sample);
        let edge = self.edges.1;
        let height = Twa::height(from, to, edge);
        self.area += if self.is_reverse {
            (height + to.1) * to.0.wrapping_sub(edge) as f64 / 2.0
        } else {
            (height + from.1) * edge.wrapping_sub(from.0) as f64 / 2.0
        };
        self.last = edge;
    }

    /// The mean; of a single moment, the last value.
    pub fn value(&self) -> f64 {
        if self.last == self.first {
            return self.previous.1;
        }
        self.area / (self.last.wrapping_sub(self.first) as i64).unsigned_abs() as f64
    }
}

/// The neighbours of an empty bucket on one side: the nearest sample, and the one beyond it.
pub type Neighbours = [Option<Sample>; 2];

/// The time-weighted mean of a bucket without samples, cut to `from` and `to`: that of the line between its
/// neighbours; with neighbours on one side only, the nearest one's value if the bucket is as close as half
/// the distance of those two, else NaN.
pub fn empty_value(from: u64, to: u64, before: &Neighbours, after: &Neighbours) -> f64 {
    match (before, after) {
        ([Some(before), _], [Some(after), _]) => {
            let rise = after.value - before.value;
            let span = after.timestamp.wrapping_sub(before.timestamp) as f64;
            let height = |at: u64| before.value + at.wrapping_sub(before.timestamp) as f64 * rise / span;
            (height(from) + height(to)) / 2.0
        }
        (_, [Some(near), Some(far)]) => {
            let distance = far.timestamp.wrapping_sub(near.timestamp);
            let is_near = to.wrapping_add(distance / 2) > near.timestamp;
            if is_near { near.value } else { nan() }
        }
        ([Some(near), Some(far)], _) => {
            let distance = near.timestamp.wrapping_sub(far.timestamp);
            let is_near = near.timestamp.wrapping_add(distance / 2) > from;
            if is_near { near.value } else { nan() }
        }
        _ => nan(),
    }
}
