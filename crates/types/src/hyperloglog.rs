//! HyperLogLog: how many different elements were added, estimated from 16,384 registers with a standard error
//! of 0.81 %.
//!
//! A HyperLogLog is a string, in Redis' layout to the byte, so these functions work on the string's bytes:
//!
//! ```text
//! ┌────────┬──────────┬───┬─────────────────────┬───────────┐
//! │ "HYLL" │ encoding │ 0 │ cached cardinality  │ registers │
//! │   4    │    1     │ 3 │          8          │           │
//! └────────┴──────────┴───┴─────────────────────┴───────────┘
//! ```
//!
//! The cardinality is little-endian; its highest bit says that registers have changed since.
//!
//! Dense (encoding 0) registers are six bits each, the lowest bits of each byte first. Sparse ones
//! ([`sparse`]) are runs of equal registers. A sparse HyperLogLog becomes dense when a register is above 32
//! or its bytes are more than `hll-sparse-max-bytes`, and never sparse again.
//!
//! Invariant: bytes that a client may have changed are checked wherever they are read; nothing here relies on
//! them.

mod sparse;
#[cfg(test)]
mod tests;

pub use sparse::Run;

use std::ops::RangeInclusive;

/// Bits of an element's hash that choose its register.
const INDEX_BITS: u32 = 14;
/// Number of registers.
pub const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of an element's hash that are left: the highest value of a register is one more.
const PATTERN_BITS: u32 = u64::BITS - INDEX_BITS;
const REGISTER_BITS: usize = 6;
const REGISTER_MAX: u8 = (1 << REGISTER_BITS) - 1;
const HEADER_BYTES: usize = 16;
/// Length of a dense HyperLogLog, in bytes.
pub const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * REGISTER_BITS / 8;
const MAGIC: &[u8; 4] = b"HYLL";
const ENCODING_AT: usize = 4;
const CACHE: RangeInclusive<usize> = 8..=15;
const STALE_BIT: u8 = 0x80;
/// The seed of the elements' hash.
const SEED: u64 = 0xadc8_3b19;

/// The registers are not as long as they must be.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// How the registers are written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Six bits each.
    Dense,
    /// Runs of equal ones.
    Sparse,
}

/// The register of an element, and the value that it is to have at least.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Index of the register.
    pub index: usize,
    /// Length of the pattern `0…01` at the hash's low end, 1 to 51.
    pub value: u8,
}

impl Observation {
    /// What an element contributes.
    #[inline]
    pub fn of(element: &[u8]) -> Observation {
        let hash = murmur_hash_64a(element, SEED);
        let index = hash as usize & (REGISTERS - 1);
        let pattern = hash >> INDEX_BITS | 1 << PATTERN_BITS;
        Observation { index, value: pattern.trailing_zeros() as u8 + 1 }
    }
}

/// MurmurHash2 in its 64-bit form for 64-bit machines, with words read as little-endian ones.
fn murmur_hash_64a(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> R;
        hash = (hash ^ word.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let word = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        hash = (hash ^ word).wrapping_mul(M);
    }
    hash = (hash ^ hash >> R).wrapping_mul(M);
    hash ^ hash >> R
}

/// An empty HyperLogLog, which is sparse.
pub fn empty() -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    bytes[ENCODING_AT] = 1;
    sparse::push_zeros(&mut bytes, REGISTERS);
    bytes
}

/// The encoding of a string that is a HyperLogLog by its header and length; `None` for any other string.
#[inline]
pub fn encoding(bytes: &[u8]) -> Option<Encoding> {
    if !bytes.starts_with(MAGIC) || bytes.len() < HEADER_BYTES {
        return None;
    }
    match bytes[ENCODING_AT] {
        0 if bytes.len() == DENSE_BYTES => Some(Encoding::Dense),
        1 => Some(Encoding::Sparse),
        _ => None,
    }
}

/// The cardinality that was counted last, unless registers have changed since.
pub fn cached_count(bytes: &[u8]) -> Option<u64> {
    let count = u64::from_le_bytes(*bytes.get(CACHE)?.as_array()?);
    (count >> 63 == 0).then_some(count)
}

/// Keeps the cardinality that was counted.
pub fn set_cached_count(bytes: &mut [u8], count: u64) {
    bytes[CACHE].copy_from_slice(&count.to_le_bytes());
}

/// Marks the cardinality as outdated.
pub fn forget_count(bytes: &mut [u8]) {
    bytes[*CACHE.end()] |= STALE_BIT;
}

/// Whether adding this would change a dense HyperLogLog.
#[inline]
pub fn dense_is_below(bytes: &[u8], seen: Observation) -> bool {
    dense_register(&bytes[HEADER_BYTES..], seen.index) < seen.value
}

/// Adds an observation of an element; returns whether a register changed. The bytes are a HyperLogLog by
/// [`encoding`].
///
/// # Errors
/// The runs of a sparse one do not cover the register, or are not those of all registers and it had to become
/// dense; nothing was changed.
#[inline]
pub fn add(bytes: &mut Vec<u8>, seen: Observation, sparse_max_bytes: usize) -> Result<bool, Corrupt> {
    match encoding(bytes) {
        Some(Encoding::Dense) => Ok(dense_add(&mut bytes[HEADER_BYTES..], seen)),
        Some(Encoding::Sparse) => sparse::add(bytes, seen, sparse_max_bytes),
        None => Err(Corrupt),
    }
}

/// Makes a sparse HyperLogLog dense; whether it was sparse.
///
/// # Errors
/// The runs are not those of all registers; nothing was changed.
pub fn make_dense(bytes: &mut Vec<u8>) -> Result<bool, Corrupt> {
    if encoding(bytes).ok_or(Corrupt)? == Encoding::Dense {
        return Ok(false);
    }
    let mut dense = vec![0; DENSE_BYTES];
    let (header, registers) = dense.split_at_mut(HEADER_BYTES);
    for run in sparse::checked_runs(bytes)? {
        run.registers
            .filter(|_| run.value > 0)
            .for_each(|index| set_dense_register(registers, index, run.value));
    }
    header.copy_from_slice(&bytes[..HEADER_BYTES]);
    header[ENCODING_AT] = 0;
    *bytes = dense;
    Ok(true)
}

/// The runs of a sparse HyperLogLog, as they are written.
pub fn runs(bytes: &[u8]) -> impl Iterator<Item = Run> {
    sparse::runs(bytes.get(HEADER_BYTES..).unwrap_or(&[]))
}

/// Whether the runs of a sparse HyperLogLog are those of all registers; a dense one has them all.
pub fn is_whole(bytes: &[u8]) -> bool {
    match encoding(bytes) {
        Some(Encoding::Dense) => true,
        Some(Encoding::Sparse) => sparse::checked_runs(bytes).is_ok(),
        None => false,
    }
}

/// The values of all registers, one byte each.
pub struct Registers([u8; REGISTERS]);

impl Default for Registers {
    fn default() -> Registers {
        Registers([0; REGISTERS])
    }
}

impl Registers {
    /// Raises each register to its value in a HyperLogLog.
    ///
    /// # Errors
    /// The runs of a sparse one are not those of all registers; nothing was changed.
    pub fn merge(&mut self, bytes: &[u8]) -> Result<(), Corrupt> {
        match encoding(bytes).ok_or(Corrupt)? {
            Encoding::Dense => {
                for (values, packed) in dense_groups(bytes).zip(self.0.as_chunks_mut::<4>().0) {
                    values
                        .into_iter()
                        .zip(packed)
                        .for_each(|(value, register)| *register = value.max(*register));
                }
            }
            Encoding::Sparse => {
                for run in sparse::checked_runs(bytes)? {
                    self.0[run.registers]
                        .iter_mut()
                        .for_each(|register| *register = run.value.max(*register));
                }
            }
        }
        Ok(())
    }

    /// Raises a register to an observation of an element.
    #[inline]
    pub fn observe(&mut self, seen: Observation) {
        let register = &mut self.0[seen.index];
        *register = seen.value.max(*register);
    }

    /// Each register's value.
    pub fn values(&self) -> &[u8; REGISTERS] {
        &self.0
    }

    /// The registers above 0, as what would have to be added to make them so.
    pub fn observations(&self) -> impl Iterator<Item = Observation> {
        let all = self.0.iter().enumerate();
        all.filter(|(_, value)| **value > 0).map(|(index, value)| Observation { index, value: *value })
    }

    /// The estimated cardinality.
    pub fn count(&self) -> u64 {
        let mut histogram = Histogram::default();
        self.0.iter().for_each(|&value| histogram.add(value, 1));
        histogram.estimate()
    }
}

/// The estimated cardinality of a HyperLogLog.
///
/// # Errors
/// The runs of a sparse one are not those of all registers.
pub fn count(bytes: &[u8]) -> Result<u64, Corrupt> {
    let mut histogram = Histogram::default();
    match encoding(bytes).ok_or(Corrupt)? {
        Encoding::Dense => {
            dense_groups(bytes)
                .for_each(|values| values.into_iter().for_each(|value| histogram.add(value, 1)));
        }
        Encoding::Sparse => {
            sparse::checked_runs(bytes)?.for_each(|run| histogram.add(run.value, run.registers.len()));
        }
    }
    Ok(histogram.estimate())
}

/// How many registers have each value.
struct Histogram {
    counts: [u32; REGISTER_MAX as usize + 1],
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: [0; REGISTER_MAX as usize + 1] }
    }
}

impl Histogram {
    #[inline]
    fn add(&mut self, value: u8, registers: usize) {
        self.counts[usize::from(value & REGISTER_MAX)] += registers as u32;
    }

    /// The improved raw estimator of Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog
    /// sketches", arXiv:1702.01284.
    fn estimate(&self) -> u64 {
        /// 1 / (2 ln 2)
        const ALPHA: f64 = 0.721_347_520_444_481_7;
        const HIGHEST: usize = PATTERN_BITS as usize + 1;
        let all = REGISTERS as f64;
        let count = |value: usize| f64::from(self.counts[value]);
        let mut sum = all * tau((all - count(HIGHEST)) / all);
        for value in (1..HIGHEST).rev() {
            sum = (sum + count(value)) * 0.5;
        }
        sum += all * sigma(count(0) / all);
        (ALPHA * all * all / sum).round() as u64
    }
}

/// x + Σ x^(2^k) 2^(k-1), k from 1.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * power;
        power += power;
        if sum == before {
            return sum;
        }
    }
}

/// (1 - x - Σ (1 - x^(2^-k))² 2^-k) / 3, k from 1.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut power, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        power *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * power;
        if sum == before {
            return sum / 3.0;
        }
    }
}

/// The values of a dense HyperLogLog's registers, four together, which take three bytes.
fn dense_groups(bytes: &[u8]) -> impl Iterator<Item = [u8; 4]> {
    bytes[HEADER_BYTES..].as_chunks::<3>().0.iter().map(|&[a, b, c]| {
        let bits = u32::from_le_bytes([a, b, c, 0]);
        [0, 6, 12, 18].map(|shift| (bits >> shift) as u8 & REGISTER_MAX)
    })
}

/// The value of a register among `registers`, all those of a dense HyperLogLog.
#[inline]
fn dense_register(registers: &[u8], index: usize) -> u8 {
    let (byte, shift) = (index * REGISTER_BITS / 8, index * REGISTER_BITS % 8);
    let next = registers.get(byte + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([registers[byte], next]) >> shift) as u8 & REGISTER_MAX
}

/// Sets a register among `registers`, all those of a dense HyperLogLog.
#[inline]
fn set_dense_register(registers: &mut [u8], index: usize, value: u8) {
    let (byte, shift) = (index * REGISTER_BITS / 8, index * REGISTER_BITS % 8);
    let place = |bits: u8| (u16::from(bits) << shift).to_le_bytes();
    let (mask, value) = (place(REGISTER_MAX), place(value));
    for (at, place) in registers[byte..].iter_mut().take(2).enumerate() {
        *place = *place & !mask[at] | value[at];
    }
}

fn dense_add(registers: &mut [u8], seen: Observation) -> bool {
    let is_below = dense_register(registers, seen.index) < seen.value;
    if is_below {
        set_dense_register(registers, seen.index, seen.value);
    }
    is_below
}
