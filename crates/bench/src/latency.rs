//! Latency histograms: HDR, nanoseconds, three significant digits. A histogram can be written as pairs of
//! value and count and read back without loss, so results of several threads, seconds or machines merge
//! exactly.

use hdrhistogram::Histogram;

/// Values below are counted as this.
pub const LOWEST_NS: u64 = 100;
/// Values above are counted as this: an hour.
pub const HIGHEST_NS: u64 = 3_600_000_000_000;

/// A histogram of latencies in nanoseconds.
#[derive(Clone)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Latencies::new()
    }
}

impl Latencies {
    /// An empty histogram.
    pub fn new() -> Latencies {
        match Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, 3) {
            Ok(histogram) => Latencies(histogram),
            Err(error) => unreachable!("constant bounds are valid: {error}"),
        }
    }

    /// Counts `count` requests that took `ns` each.
    #[inline]
    pub fn record(&mut self, ns: u64, count: u64) {
        self.0.saturating_record_n(ns, count);
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Latencies) {
        // Equal bounds: the addition cannot fail.
        let _ = self.0.add(&other.0);
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Number of requests.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The value that `percent` of all requests do not exceed, in milliseconds; 0 when empty.
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1e6
    }

    /// Mean in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.0.mean() / 1e6
    }

    /// Smallest value in milliseconds; 0 when empty.
    pub fn min_ms(&self) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.min() as f64 / 1e6 }
    }

    /// Largest value in milliseconds.
    pub fn max_ms(&self) -> f64 {
        self.0.max() as f64 / 1e6
    }

    /// Standard deviation in milliseconds.
    pub fn stdev_ms(&self) -> f64 {
        self.0.stdev() / 1e6
    }

    /// All values that occur, in nanoseconds, with their counts, ascending.
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        self.0.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect()
    }

    /// The histogram of such pairs.
    pub fn from_pairs(pairs: &[(u64, u64)]) -> Latencies {
        let mut latencies = Latencies::new();
        for (value, count) in pairs {
            latencies.record(*value, *count);
        }
        latencies
    }

    /// The histogram behind it, for iterations of other kinds.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_thousandth_and_survive_writing() {
        let mut latencies = Latencies::new();
        for value in 1..=100_000u64 {
            latencies.record(value * 1000, 1);
        }
        for (percent, exact) in [(50.0, 50.0), (99.0, 99.0), (99.9, 99.9)] {
            let got = latencies.percentile_ms(percent);
            assert!((got / exact - 1.0).abs() < 0.001, "p{percent}: {got}");
        }
        let copy = Latencies::from_pairs(&latencies.pairs());
        assert_eq!(copy.pairs(), latencies.pairs());
        assert_eq!(copy.count(), 100_000);
    }
}
