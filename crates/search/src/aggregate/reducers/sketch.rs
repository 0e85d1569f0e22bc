//! The HyperLogLog of COUNT_DISTINCTISH, HLL and HLL_SUM. Hashes, registers and the estimate are
//! RediSearch's: numbers and serialised counters are equal.

use crate::aggregate::value::Value;

/// Bits of a hash that select the register.
const BITS: u8 = 8;
/// Bytes of a serialised counter's header: 32 bits of flags, 8 bits for the width of an index.
const HEADER_BYTES: usize = 5;
/// Where hashes begin.
const SEED: u64 = 0x5f61_767a;

/// FNV-1a of 64 bits.
fn fnv(bytes: &[u8], hash: u64) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn hash_value(value: &Value, hash: u64) -> u64 {
    match value {
        Value::Null => hash.wrapping_add(1),
        Value::Number(number) => fnv(&number.to_le_bytes(), hash),
        Value::Text(text) => fnv(text, hash),
        Value::Path(path) => hash_value(&path.first, hash),
        Value::Array(values) => values.iter().fold(hash, |hash, value| hash_value(value, hash)),
    }
}

/// A counter of distinct values.
#[derive(Clone, Debug, Default)]
pub(super) struct Sketch {
    /// Empty before the first value.
    registers: Vec<u8>,
}

impl Sketch {
    /// Adds a value.
    pub(super) fn add(&mut self, value: &Value) {
        if self.registers.is_empty() {
            self.registers = vec![0; 1 << BITS];
        }
        let hash = hash_value(value, SEED);
        let hash = (hash as u32) ^ ((hash >> 32) as u32);
        let rank = (hash.trailing_zeros() as u8).min(32 - BITS) + 1;
        if let Some(register) = self.registers.get_mut((hash >> (32 - BITS)) as usize) {
            *register = (*register).max(rank);
        }
    }

    /// Adds the values of a serialised counter, if it is one, and of the size of those before it.
    pub(super) fn merge(&mut self, serialised: &[u8]) {
        let Some((header, registers)) = serialised.split_at_checked(HEADER_BYTES) else { return };
        let bits = header.last().copied().unwrap_or_default();
        if !(4..=20).contains(&bits) || registers.len() != 1 << bits {
            return;
        }
        if self.registers.is_empty() {
            self.registers = registers.to_vec();
        } else if self.registers.len() == registers.len() {
            for (ours, theirs) in self.registers.iter_mut().zip(registers) {
                *ours = (*ours).max(*theirs);
            }
        }
    }

    /// The counter as bytes.
    pub(super) fn serialised(&self) -> Value {
        let mut bytes = vec![0, 0, 0, 0, BITS];
        match self.registers.is_empty() {
            true => bytes.resize(HEADER_BYTES + (1 << BITS), 0),
            false => bytes.extend_from_slice(&self.registers),
        }
        Value::Text(bytes.into())
    }

    /// The estimate of how many distinct values have been added.
    pub(super) fn count(&self) -> f64 {
        const TWO_TO_32: f64 = 4_294_967_296.0;
        if self.registers.is_empty() {
            return 0.0;
        }
        let size = self.registers.len() as f64;
        let alpha = match self.registers.len() {
            16 => 0.673,
            32 => 0.697,
            64 => 0.709,
            _ => 0.7213 / (1.0 + 1.079 / size),
        };
        let sum: f64 = self.registers.iter().map(|register| 0.5f64.powi(i32::from(*register))).sum();
        let mut estimate = alpha * size * size / sum;
        if estimate <= 2.5 * size {
            let zeros = self.registers.iter().filter(|register| **register == 0).count();
            if zeros > 0 {
                estimate = size * (size / zeros as f64).ln();
            }
        } else if estimate > TWO_TO_32 / 30.0 {
            estimate = -TWO_TO_32 * (1.0 - estimate / TWO_TO_32).ln();
        }
        estimate.trunc()
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.registers.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_redisearch_and_merge() {
        let (mut whole, mut parts) = (Sketch::default(), Sketch::default());
        for part in 0..4 {
            let mut sketch = Sketch::default();
            for number in 0..500 {
                let value = Value::Number(f64::from(part * 400 + number));
                sketch.add(&value);
                whole.add(&value);
            }
            let Value::Text(bytes) = sketch.serialised() else { panic!("bytes") };
            parts.merge(&bytes);
        }
        assert_eq!(parts.count(), whole.count());
        // RediSearch's hash hardly spreads whole numbers: it has this estimate, too.
        assert_eq!(whole.count(), 112.0);
        parts.merge(b"");
        parts.merge(&[0, 0, 0, 0, 64]);
        parts.merge(&[0, 0, 0, 0, 4]);
        assert_eq!(parts.count(), whole.count());
        assert_eq!(Sketch::default().count(), 0.0);
    }
}
