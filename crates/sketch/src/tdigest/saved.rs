//! The digest's saved form: RDB's `TDIS-TYPE`.

use super::{Nodes, TDigest, capacity};
use crate::field::{DecodeError, FieldSink, FieldSource, ModuleType};
use triomphe::Arc;

/// The type's name, and the version that is written.
pub const TYPE: ModuleType = ModuleType { name: "TDIS-TYPE", version: 0 };

/// From here on a double does not have every integer.
const EXACT_MAX: f64 = (1_u64 << 53) as f64;

impl TDigest {
    /// Saves the digest, compressed. Redis compresses the one in memory when it is dumped, which the caller
    /// does with [`TDigest::compress`] if it matters when centroids are merged.
    pub fn encode(&self, sink: &mut dyn FieldSink) {
        let mut digest = self.clone();
        digest.compress();
        sink.double(digest.compression as f64);
        sink.double(digest.min);
        sink.double(digest.max);
        sink.signed(digest.capacity() as i64);
        sink.signed(digest.merged as i64);
        sink.signed((digest.nodes.means.len() - digest.merged) as i64);
        sink.signed(digest.total_compressions);
        sink.double(digest.merged_weight as f64);
        sink.double(digest.unmerged_weight as f64);
        digest.nodes.means.iter().take(digest.merged).for_each(|mean| sink.double(*mean));
        digest.nodes.weights.iter().take(digest.merged).for_each(|weight| sink.double(*weight as f64));
    }

    /// Reads a digest that was saved in this version.
    ///
    /// A digest of one value is saved as one centroid that is not merged, without the centroid. The value is
    /// both the lowest and the highest one, so it is restored here; Redis loses it.
    ///
    /// # Errors
    /// If the fields are no digest.
    pub fn decode(version: u16, source: &mut dyn FieldSource) -> Result<TDigest, DecodeError> {
        if version > TYPE.version {
            return Err(DecodeError::Version);
        }
        let compression = source.double()?;
        let is_integer =
            compression >= 1.0 && compression.fract() == 0.0 && compression <= f64::from(i32::MAX);
        let compression = if is_integer { compression as i64 } else { 0 };
        let mut digest = TDigest::new(compression).map_err(|_| DecodeError::Range("the compression"))?;
        digest.min = source.double()?;
        digest.max = source.double()?;
        let (saved_capacity, merged) = (source.signed()?, source.signed()?);
        let unmerged = source.signed()?;
        digest.total_compressions = source.signed()?;
        let (merged_weight, unmerged_weight) = (source.double()?, source.double()?);
        let capacity = capacity(compression).unwrap_or(0);
        let merged = usize::try_from(merged).ok().filter(|merged| *merged <= capacity);
        let merged = merged.ok_or(DecodeError::Range("the number of centroids"))?;
        if saved_capacity != capacity as i64 {
            return Err(DecodeError::Range("the capacity"));
        }
        let mut nodes = Nodes::default();
        for _ in 0..merged {
            nodes.means.push(source.double()?);
        }
        let mut total = 0_i64;
        for _ in 0..merged {
            let weight = source.double()?;
            if !(weight >= 1.0 && weight < i64::MAX as f64 && weight.fract() == 0.0) {
                return Err(DecodeError::Range("a weight"));
            }
            total = total.checked_add(weight as i64).ok_or(DecodeError::Range("a weight"))?;
            nodes.weights.push(weight as i64);
        }
        if total as f64 != merged_weight && merged_weight < EXACT_MAX {
            return Err(DecodeError::Range("the weight"));
        }
        match (merged, unmerged, unmerged_weight) {
            (_, 0, 0.0) => {}
            (0, 1, 1.0) if digest.min == digest.max => {
                nodes.means.push(digest.min);
                nodes.weights.push(1);
                digest.unmerged_weight = 1;
            }
            _ => return Err(DecodeError::Range("the values that are not merged")),
        }
        nodes.means.shrink_to_fit();
        nodes.weights.shrink_to_fit();
        digest.merged = merged;
        digest.merged_weight = total;
        digest.nodes = Arc::new(nodes);
        Ok(digest)
    }
}
