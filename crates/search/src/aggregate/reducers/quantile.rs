//! A summary of a stream of numbers that answers quantiles, by the method of Cormode, Korn, Muthukrishnan and
//! Srivastava ("Effective Computation of Biased Quantiles over Data Streams", 2005), with the parameters that
//! RediSearch has, so that the answers are equal.

/// The error that is allowed, as a part of the rank.
const EPSILON: f64 = 0.01;

/// A number that stands for those below it. Ranks have the precision that RediSearch gives them.
#[derive(Clone, Copy, Debug)]
struct Sample {
    value: f64,
    /// Ranks that it stands for.
    ranks: f32,
    /// By how much its rank is uncertain.
    spread: f32,
}

/// The summary.
#[derive(Clone, Debug, Default)]
pub(super) struct Quantiles {
    samples: Vec<Sample>,
    buffer: Vec<f64>,
    count: usize,
}

/// The greatest width of a sample at a rank.
fn width_max(rank: f64) -> f64 {
    EPSILON * 2.0 * rank
}

impl Quantiles {
    /// Adds a number; every `resolution` of them are merged into the summary.
    pub(super) fn insert(&mut self, value: f64, resolution: usize) {
        self.buffer.push(value);
        if self.buffer.len() >= resolution {
            self.flush();
            self.compress();
        }
    }

    /// Merges the buffer, both being in order.
    fn flush(&mut self) {
        self.buffer.sort_unstable_by(f64::total_cmp);
        let mut merged = Vec::with_capacity(self.samples.len() + self.buffer.len());
        let mut old = self.samples.iter().peekable();
        let mut rank = 0.0;
        for &value in &self.buffer {
            while let Some(sample) = old.next_if(|sample| sample.value <= value || value.is_nan()) {
                rank += f64::from(sample.ranks);
                merged.push(*sample);
            }
            let spread = match old.peek() {
                Some(_) => (width_max(rank).floor() - 1.0) as f32,
                None => 0.0,
            };
            merged.push(Sample { value, ranks: 1.0, spread });
        }
        merged.extend(old);
        self.samples = merged;
        self.count += self.buffer.len();
        self.buffer.clear();
    }

    /// Joins samples to the one above them while it stays narrow enough.
    fn compress(&mut self) {
        let Some(last) = self.samples.last() else { return };
        let mut rank = self.count as f64 - 1.0 - f64::from(last.ranks);
        let mut kept = vec![*last];
        for sample in self.samples.iter().rev().skip(1) {
            let above = kept.last_mut();
            let is_joined = above
                .as_ref()
                .is_some_and(|above| f64::from(sample.ranks + above.ranks + above.spread) <= width_max(rank));
            match above {
                Some(above) if is_joined => above.ranks += sample.ranks,
                _ => kept.push(*sample),
            }
            rank -= f64::from(sample.ranks);
        }
        kept.reverse();
        self.samples = kept;
    }

    /// The number at a quantile between 0 and 1; 0 without numbers.
    pub(super) fn query(&mut self, quantile: f64) -> f64 {
        if !self.buffer.is_empty() {
            self.flush();
        }
        let mut target = (quantile * self.count as f64).ceil();
        target += (width_max(target) / 2.0).floor();
        let Some(first) = self.samples.first() else { return 0.0 };
        let (mut found, mut rank) = (first.value, 0.0);
        for sample in self.samples.iter().skip(1) {
            if rank + f64::from(sample.ranks) + f64::from(sample.spread) >= target {
                break;
            }
            rank += f64::from(sample.ranks);
            found = sample.value;
        }
        found
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.samples.capacity() * size_of::<Sample>() + self.buffer.capacity() * size_of::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_near_the_true_ones() {
        for count in [1usize, 10, 499, 500, 501, 20_000] {
            let mut quantiles = Quantiles::default();
            // Every number once, in an order that jumps.
            let numbers = (0..count).map(|number| (number * 7919 % count.max(2)) as f64);
            numbers.for_each(|number| quantiles.insert(number, 500));
            for quantile in [0.0, 0.01, 0.5, 0.9, 1.0] {
                let found = quantiles.query(quantile);
                let allowed = (count as f64 * quantile * 0.03).max(2.0);
                assert!((found - count as f64 * quantile).abs() <= allowed, "{count} {quantile}: {found}");
            }
            assert!(quantiles.samples.len() < 2000);
        }
        assert_eq!(Quantiles::default().query(0.5), 0.0);
    }

    /// What RediSearch 2.10.5 answers for the same numbers in the same order.
    #[test]
    fn quantiles_are_those_of_redisearch() {
        for (resolution, expected) in [
            (500, [0.0, 201.0, 1999.0, 10099.0, 18173.0, 19638.0, 19999.0]),
            (100, [0.0, 200.0, 1999.0, 10056.0, 18087.0, 19638.0, 19999.0]),
        ] {
            let mut quantiles = Quantiles::default();
            (0..20_000).for_each(|number| quantiles.insert((number * 7919 % 20_000) as f64, resolution));
            let found = [0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0].map(|quantile| quantiles.query(quantile));
            assert_eq!(found, expected);
        }
    }
}
