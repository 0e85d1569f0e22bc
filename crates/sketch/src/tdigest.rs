//! `TDigest`: the merging t-digest of TDIGEST.*: centroids, each a mean and a weight.
//!
//! Values are appended with weight 1; when the centroids are `6 * compression + 10` but one, they are sorted
//! and neighbours merged. Most queries merge first, too, so they take the digest mutably and their answers
//! depend on when it was asked, as Redis' do. Doubles are added and multiplied in RedisBloom's order: answers
//! are equal to the digit.
//!
//! The centroids are one block that clones share: merging rewrites all of them, so smaller pieces would save
//! nothing.
//!
//! Invariant: there are as many means as weights, at most the capacity; the first `merged` are merged ones.

mod query;
mod saved;
mod sort;
#[cfg(test)]
mod tests;

use triomphe::Arc;

use crate::debris::Debris;
use crate::pages::arc_bytes;
pub use saved::TYPE;

/// Why a digest cannot be made, added to or asked. It prints Redis' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TDigestError {
    /// The compression is below 1.
    #[error("ERR T-Digest: compression parameter needs to be a positive integer")]
    Compression,
    /// The centroids of this compression would not be countable with 32 bits.
    #[error("ERR T-Digest: allocation failed")]
    Memory,
    /// A value is not a number.
    #[error("ERR T-Digest: error parsing val parameter")]
    NotANumber,
    /// A value is infinite.
    #[error("ERR T-Digest: val parameter needs to be a finite number")]
    Infinite,
    /// The sum of weights would not be countable, or there are more centroids than can be merged.
    #[error("ERR T-Digest: overflow detected")]
    Overflow,
    /// A quantile is not in [0, 1].
    #[error("ERR T-Digest: quantile should be in [0,1]")]
    Quantile,
    /// A rank is negative.
    #[error("ERR T-Digest: rank needs to be non negative")]
    Rank,
    /// A cut is not in [0, 1].
    #[error("ERR T-Digest: low_cut_percentile and high_cut_percentile should be in [0,1]")]
    Cut,
    /// The lower cut is not below the higher one.
    #[error("ERR T-Digest: low_cut_percentile should be lower than high_cut_percentile")]
    CutOrder,
}

/// What TDIGEST.INFO answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// The compression.
    pub compression: i64,
    /// Centroids that fit.
    pub capacity: i64,
    /// Centroids that were merged.
    pub merged_nodes: i64,
    /// Values that were not.
    pub unmerged_nodes: i64,
    /// The merged centroids' weight.
    pub merged_weight: i64,
    /// The other values' weight.
    pub unmerged_weight: i64,
    /// Values that were added.
    pub observations: i64,
    /// How often centroids were merged.
    pub total_compressions: i64,
    /// Bytes that Redis' digest takes.
    pub redis_bytes: i64,
}

#[derive(Clone, Default)]
struct Nodes {
    means: Vec<f64>,
    weights: Vec<i64>,
}

/// See the [module docs](self).
#[derive(Clone)]
pub struct TDigest {
    compression: i64,
    min: f64,
    max: f64,
    /// Merged centroids, at the front.
    merged: usize,
    merged_weight: i64,
    unmerged_weight: i64,
    total_compressions: i64,
    nodes: Arc<Nodes>,
}

/// Centroids that fit a digest of this compression.
fn capacity(compression: i64) -> Option<usize> {
    let capacity = compression.checked_mul(6)?.checked_add(10)?;
    i32::try_from(capacity).ok().map(|capacity| capacity as usize)
}

impl TDigest {
    /// The compression by default.
    pub const COMPRESSION: i64 = 100;

    /// An empty digest (TDIGEST.CREATE). It takes memory as centroids come.
    ///
    /// # Errors
    /// [`TDigestError::Compression`] or [`TDigestError::Memory`].
    pub fn new(compression: i64) -> Result<TDigest, TDigestError> {
        if compression <= 0 {
            return Err(TDigestError::Compression);
        }
        capacity(compression).ok_or(TDigestError::Memory)?;
        Ok(TDigest {
            compression,
            min: f64::MAX,
            max: f64::MIN,
            merged: 0,
            merged_weight: 0,
            unmerged_weight: 0,
            total_compressions: 0,
            nodes: Arc::new(Nodes::default()),
        })
    }

    /// Forgets all values (TDIGEST.RESET).
    pub fn reset(&mut self) {
        let nodes = Arc::new(Nodes::default());
        let (min, max) = (f64::MAX, f64::MIN);
        *self = TDigest {
            compression: self.compression,
            min,
            max,
            merged: 0,
            merged_weight: 0,
            unmerged_weight: 0,
            total_compressions: 0,
            nodes,
        };
    }

    fn capacity(&self) -> usize {
        capacity(self.compression).unwrap_or(0)
    }

    /// The values that were added, as a weight.
    pub fn size(&self) -> i64 {
        self.merged_weight.wrapping_add(self.unmerged_weight)
    }

    /// The compression.
    pub fn compression(&self) -> i64 {
        self.compression
    }

    /// How often centroids were merged: whether an operation has merged some.
    pub fn total_compressions(&self) -> i64 {
        self.total_compressions
    }

    /// Adds values (TDIGEST.ADD).
    ///
    /// # Errors
    /// [`TDigestError::NotANumber`] or [`TDigestError::Infinite`], and nothing has changed; or
    /// [`TDigestError::Overflow`], and the values before the one that is too much were added.
    pub fn add_all(&mut self, values: &[f64]) -> Result<(), TDigestError> {
        for value in values {
            if value.is_nan() {
                return Err(TDigestError::NotANumber);
            }
            if value.is_infinite() {
                return Err(TDigestError::Infinite);
            }
        }
        values.iter().try_for_each(|value| self.add(*value, 1))
    }

    /// Adds a mean that is not infinite, with a weight that is not negative.
    #[inline]
    fn add(&mut self, mean: f64, weight: i64) -> Result<(), TDigestError> {
        let capacity = self.capacity();
        if self.nodes.means.len() + 1 >= capacity {
            self.compress();
        }
        let overflow = TDigestError::Overflow;
        if self.nodes.means.len() >= capacity {
            return Err(overflow);
        }
        let unmerged_weight = self.unmerged_weight.checked_add(weight).ok_or(overflow)?;
        unmerged_weight.checked_add(self.merged_weight).ok_or(overflow)?;
        if mean < self.min {
            self.min = mean;
        }
        if mean > self.max {
            self.max = mean;
        }
        let nodes = Arc::make_mut(&mut self.nodes);
        nodes.push(mean, weight, capacity);
        self.unmerged_weight = unmerged_weight;
        Ok(())
    }

    /// Adds another digest's centroids (one source of TDIGEST.MERGE). Both are compressed first, as Redis
    /// does: the source keeps its values, but its centroids may be merged.
    ///
    /// # Errors
    /// [`TDigestError::Overflow`]; the centroids before the one that is too much were added.
    pub fn absorb(&mut self, source: &mut TDigest) -> Result<(), TDigestError> {
        self.compress();
        source.compress();
        let nodes = source.nodes.clone();
        nodes.means.iter().zip(&nodes.weights).try_for_each(|(mean, weight)| self.add(*mean, *weight))
    }

    /// Sorts the centroids and merges neighbours while the scale function lets them, if there are values that
    /// were not merged. A single value is left as it is, which Redis 8.10 does as well.
    ///
    /// RedisBloom also looks for infinite intermediate results here and in `add`: none of them can be with
    /// weights of 64 bits.
    pub fn compress(&mut self) {
        if self.nodes.means.len() == self.merged {
            return;
        }
        let total = self.merged_weight as f64 + self.unmerged_weight as f64;
        let nodes = Arc::make_mut(&mut self.nodes);
        sort::sort(&mut nodes.means, &mut nodes.weights, self.merged);
        if total <= 1.0 {
            return;
        }
        let normalizer = self.compression as f64 / (2.0 * std::f64::consts::PI * total * total.ln());
        self.merged = nodes.merge_neighbours(total, normalizer);
        self.merged_weight = total as i64;
        self.unmerged_weight = 0;
        self.total_compressions = self.total_compressions.wrapping_add(1);
    }

    /// What TDIGEST.INFO answers.
    pub fn info(&self) -> Info {
        let capacity = self.capacity() as i64;
        Info {
            compression: self.compression,
            capacity,
            merged_nodes: self.merged as i64,
            unmerged_nodes: (self.nodes.means.len() - self.merged) as i64,
            merged_weight: self.merged_weight,
            unmerged_weight: self.unmerged_weight,
            observations: self.size(),
            total_compressions: self.total_compressions,
            // sizeof(td_histogram) and two arrays.
            redis_bytes: 80 + 16 * capacity,
        }
    }

    /// Bytes that the digest's blocks were allocated with, those that clones share included.
    pub fn heap_bytes(&self) -> usize {
        let Nodes { means, weights } = &*self.nodes;
        arc_bytes(size_of::<Nodes>()) + (means.capacity() + weights.capacity()) * 8
    }

    /// A digest is two blocks, which are freed at once.
    pub fn into_debris(self, _: &mut Debris) {}
}

impl Nodes {
    /// Appends a centroid; the arrays double until they are as long as the digest's capacity.
    #[inline]
    fn push(&mut self, mean: f64, weight: i64, capacity: usize) {
        let len = self.means.len();
        if len == self.means.capacity() || len == self.weights.capacity() {
            let more = (len.max(8)).min(capacity - len);
            self.means.reserve_exact(more);
            self.weights.reserve_exact(more);
        }
        self.means.push(mean);
        self.weights.push(weight);
    }

    /// Merges sorted neighbours; how many are left.
    fn merge_neighbours(&mut self, total: f64, normalizer: f64) -> usize {
        let Nodes { means, weights } = self;
        let mut current = 0;
        let mut before = 0.0;
        for next in 1..means.len() {
            let proposed = weights[current] as f64 + weights[next] as f64;
            let z = proposed * normalizer;
            let q0 = before / total;
            let q2 = (before + proposed) / total;
            if z <= q0 * (1.0 - q0) && z <= q2 * (1.0 - q2) {
                weights[current] = weights[current].wrapping_add(weights[next]);
                let delta = means[next] - means[current];
                means[current] += (delta * weights[next] as f64) / weights[current] as f64;
            } else {
                before += weights[current] as f64;
                current += 1;
                weights[current] = weights[next];
                means[current] = means[next];
            }
        }
        means.truncate(current + 1);
        weights.truncate(current + 1);
        current + 1
    }
}
