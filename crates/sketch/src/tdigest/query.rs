//! The queries of a t-digest. Each formula is RedisBloom's, with its operations in the same order.

use super::{Nodes, TDigest, TDigestError};

/// Where an ascending sequence of quantiles has come to: the weight up to half of the centroid.
struct Walk {
    weight: f64,
    node: usize,
}

/// The mean of two values by weight, between them.
fn weighted_average(x1: f64, w1: f64, x2: f64, w2: f64) -> f64 {
    let sorted = |x1: f64, w1: f64, x2: f64, w2: f64| {
        let x = (x1 * w1 + x2 * w2) / (w1 + w2);
        let below = if x < x2 { x } else { x2 };
        if x1 > below { x1 } else { below }
    };
    if x1 <= x2 { sorted(x1, w1, x2, w2) } else { sorted(x2, w2, x1, w1) }
}

/// A number without its fraction, rounded up from above a half.
fn half_round_down(value: f64) -> f64 {
    let whole = value.trunc();
    if (value - whole).abs() <= 0.5 {
        whole
    } else if whole >= 0.0 {
        whole + 1.0
    } else {
        whole - 1.0
    }
}

impl Nodes {
    #[inline]
    fn mean(&self, at: usize) -> f64 {
        self.means.get(at).copied().unwrap_or(f64::NAN)
    }

    #[inline]
    fn weight(&self, at: usize) -> f64 {
        self.weights.get(at).copied().unwrap_or(0) as f64
    }
}

impl TDigest {
    /// The lowest value; NaN without values.
    pub fn min(&self) -> f64 {
        if self.size() > 0 { self.min } else { f64::NAN }
    }

    /// The highest value; NaN without values.
    pub fn max(&self) -> f64 {
        if self.size() > 0 { self.max } else { f64::NAN }
    }

    /// The share of values at or below each of these; NaN without values.
    pub fn cdf(&mut self, values: &[f64]) -> Vec<f64> {
        values.iter().map(|value| self.cdf_of(*value)).collect()
    }

    fn cdf_of(&mut self, value: f64) -> f64 {
        self.compress();
        let count = self.merged;
        if count == 0 {
            return f64::NAN;
        }
        if value < self.min {
            return 0.0;
        }
        if value > self.max {
            return 1.0;
        }
        if count == 1 {
            let width = self.max - self.min;
            return if value - self.min <= width { 0.5 } else { (value - self.min) / width };
        }
        let nodes = &*self.nodes;
        let total = self.merged_weight as f64;
        if value < nodes.mean(0) {
            let width = nodes.mean(0) - self.min;
            return if width > 0.0 && value == self.min {
                0.5 / total
            } else if width > 0.0 {
                (1.0 + (value - self.min) / width * (nodes.weight(0) / 2.0 - 1.0)) / total
            } else {
                0.0
            };
        }
        let (last_mean, last_weight) = (nodes.mean(count - 1), nodes.weight(count - 1));
        if value > last_mean {
            let width = self.max - last_mean;
            return if width > 0.0 && value == self.max {
                1.0 - 0.5 / total
            } else if width > 0.0 {
                1.0 - (1.0 + (self.max - value) / width * (last_weight / 2.0 - 1.0)) / total
            } else {
                1.0
            };
        }
        self.cdf_between(value, count, total)
    }

    /// The cdf of a value between the first and the last centroid.
    fn cdf_between(&self, value: f64, count: usize, total: f64) -> f64 {
        let nodes = &*self.nodes;
        let mut before = 0.0;
        for at in 0..count - 1 {
            let (mean, next_mean) = (nodes.mean(at), nodes.mean(at + 1));
            let (weight, next_weight) = (nodes.weight(at), nodes.weight(at + 1));
            if mean == value {
                let equal = (at..count).take_while(|at| nodes.mean(*at) == value);
                let equal = equal.fold(0.0, |sum, at| sum + nodes.weight(at));
                return (before + equal / 2.0) / total;
            }
            if mean <= value && value < next_mean {
                let between = (weight + next_weight) / 2.0;
                let distance = next_mean - mean;
                if distance.is_nan() || distance <= 0.0 {
                    return (before + between) / total;
                }
                // A single value is exactly at its mean, and takes no part in the interpolation.
                let (left, right) = match (weight == 1.0, next_weight == 1.0) {
                    (true, true) => return (before + 1.0) / total,
                    (true, false) => (0.5, 0.0),
                    (false, true) => (0.0, 0.5),
                    (false, false) => (0.0, 0.0),
                };
                let between = between - left - right;
                let base = before + weight / 2.0 + left;
                return (base + between * (value - mean) / distance) / total;
            }
            before += weight;
        }
        1.0 - 0.5 / total
    }

    /// The values below which these shares of all values are; NaN without values.
    ///
    /// # Errors
    /// [`TDigestError::Quantile`].
    pub fn quantiles(&mut self, quantiles: &[f64]) -> Result<Vec<f64>, TDigestError> {
        if !quantiles.iter().all(|quantile| (0.0..=1.0).contains(quantile)) {
            return Err(TDigestError::Quantile);
        }
        self.compress();
        let mut values = Vec::with_capacity(quantiles.len());
        // An ascending sequence is one walk over the centroids.
        for ascending in quantiles.chunk_by(|left, right| left <= right) {
            let mut walk = Walk { weight: self.nodes.weight(0) / 2.0, node: 0 };
            for quantile in ascending {
                values.push(match self.merged {
                    0 => f64::NAN,
                    1 => self.nodes.mean(0),
                    _ => self.value_at(quantile * self.merged_weight as f64, &mut walk),
                });
            }
        }
        Ok(values)
    }

    fn quantile(&mut self, quantile: f64) -> f64 {
        self.compress();
        if !(0.0..=1.0).contains(&quantile) || self.merged == 0 {
            return f64::NAN;
        }
        if self.merged == 1 {
            return self.nodes.mean(0);
        }
        let index = quantile * self.merged_weight as f64;
        if index < 1.0 {
            return self.min;
        }
        self.value_at(index, &mut Walk { weight: self.nodes.weight(0) / 2.0, node: 0 })
    }

    /// The value at an index of all values in order. There are two centroids at least.
    fn value_at(&self, index: f64, walk: &mut Walk) -> f64 {
        let nodes = &*self.nodes;
        let (first_weight, total) = (nodes.weight(0), self.merged_weight);
        if first_weight > 1.0 && index < first_weight / 2.0 {
            return self.min + (index - 1.0) / (first_weight / 2.0 - 1.0) * (nodes.mean(0) - self.min);
        }
        if index > total.wrapping_sub(1) as f64 {
            return self.max;
        }
        let (last_mean, last_weight) = (nodes.mean(self.merged - 1), nodes.weight(self.merged - 1));
        if last_weight > 1.0 && total as f64 - index <= last_weight / 2.0 {
            return self.max
                - (total as f64 - index - 1.0) / (last_weight / 2.0 - 1.0) * (self.max - last_mean);
        }
        while walk.node < self.merged - 1 {
            let at = walk.node;
            let (weight, next_weight) = (nodes.weight(at), nodes.weight(at + 1));
            let (mean, next_mean) = (nodes.mean(at), nodes.mean(at + 1));
            let between = (weight + next_weight) / 2.0;
            if walk.weight + between > index {
                let mut left = 0.0;
                if weight == 1.0 {
                    if index - walk.weight < 0.5 {
                        return mean;
                    }
                    left = 0.5;
                }
                let mut right = 0.0;
                if next_weight == 1.0 {
                    if walk.weight + between - index <= 0.5 {
                        return next_mean;
                    }
                    right = 0.5;
                }
                let z1 = index - walk.weight - left;
                let z2 = walk.weight + between - index - right;
                return weighted_average(mean, z2, next_mean, z1);
            }
            walk.weight += between;
            walk.node += 1;
        }
        let z1 = index - total as f64 - last_weight / 2.0;
        let z2 = last_weight / 2.0 - z1;
        weighted_average(last_mean, z1, self.max, z2)
    }

    /// How many values are below each of these and half of those that equal it, rounded (TDIGEST.RANK), or
    /// above it (TDIGEST.REVRANK); -1 and the number of values beyond the ends, -2 without values.
    pub fn ranks(&mut self, values: &[f64], is_reverse: bool) -> Vec<i64> {
        let size = self.size() as f64;
        let (min, max) = (self.min, self.max);
        let rank = |value: &f64| {
            if size == 0.0 {
                -2.0
            } else if *value < min {
                if is_reverse { size } else { -1.0 }
            } else if *value > max {
                if is_reverse { -1.0 } else { size }
            } else {
                let below = self.cdf_of(*value) * size;
                if is_reverse { (size - below.round()).round() } else { half_round_down(below) }
            }
        };
        // NaN becomes the lowest integer, as on x86-64 in C.
        let to_integer = |rank: f64| if rank.is_nan() { i64::MIN } else { rank as i64 };
        values.iter().map(rank).map(to_integer).collect()
    }

    /// The values at these ranks, from the lowest (TDIGEST.BYRANK) or the highest (TDIGEST.BYREVRANK);
    /// infinite from the number of values on, NaN without values.
    ///
    /// # Errors
    /// [`TDigestError::Rank`].
    pub fn by_ranks(&mut self, ranks: &[i64], is_reverse: bool) -> Result<Vec<f64>, TDigestError> {
        if ranks.iter().any(|rank| *rank < 0) {
            return Err(TDigestError::Rank);
        }
        let size = self.size() as f64;
        let value = |rank: &i64| {
            let rank = *rank as f64;
            if size == 0.0 {
                f64::NAN
            } else if rank == 0.0 {
                if is_reverse { self.max } else { self.min }
            } else if rank >= size {
                if is_reverse { f64::NEG_INFINITY } else { f64::INFINITY }
            } else {
                self.quantile(if is_reverse { size - rank - 1.0 } else { rank } / size)
            }
        };
        Ok(ranks.iter().map(value).collect())
    }

    /// The mean of the values between two shares of all values; NaN without values.
    ///
    /// # Errors
    /// [`TDigestError::Cut`] or [`TDigestError::CutOrder`].
    pub fn trimmed_mean(&mut self, low: f64, high: f64) -> Result<f64, TDigestError> {
        if !(0.0..=1.0).contains(&low) || !(0.0..=1.0).contains(&high) {
            return Err(TDigestError::Cut);
        }
        if low >= high {
            return Err(TDigestError::CutOrder);
        }
        self.compress();
        match self.merged {
            0 => return Ok(f64::NAN),
            1 => return Ok(self.nodes.mean(0)),
            _ => {}
        }
        let total = self.merged_weight as f64;
        let (first, last) = ((total * low).floor(), (total * high).ceil());
        let least = |left: f64, right: f64| if left < right { left } else { right };
        let from_zero = |value: f64| if 0.0 > value { 0.0 } else { value };
        let (mut done, mut sum, mut count) = (0.0, 0.0, 0.0);
        for at in 0..self.merged {
            let weight = self.nodes.weight(at);
            let mut added = weight;
            added -= least(from_zero(first - done), added);
            added = least(from_zero(last - done), added);
            done += weight;
            sum += self.nodes.mean(at) * added;
            count += added;
            if done >= last {
                break;
            }
        }
        Ok(sum / count)
    }
}
