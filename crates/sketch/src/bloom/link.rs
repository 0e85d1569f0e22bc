//! One filter of the chain: its table of bits, and the formulas that size it.
//!
//! Invariant: `modulus` is not 0 and the table has that many bits.

use martlet_base::prefetch::PrefetchQueue;

use super::{BloomError, CAPACITY_IS_BITS, LinkInfo, NO_ROUND};
use crate::TABLE_MAX_BYTES;
use crate::pages::{CACHED_MAX_BYTES, PAGE_BYTES, Pages};

/// Each link's error rate beside the one before it.
pub(super) const ERROR_TIGHTENING: f64 = 0.5;
/// Bits of an item. The lowest error rate that a double can have needs 1075.
pub(super) const HASHES_MAX: u32 = 1100;

/// RedisBloom's `ln(2)`, three digits short: the number of hashes is computed with it.
#[expect(clippy::approx_constant, reason = "not the nearest double")]
const LN_2: f64 = 0.693147180559945;
/// RedisBloom's `ln(2)^2`.
const LN_2_SQUARED: f64 = 0.480453013918201;

/// What places an item's bits: the first is at `first`, the others `step` apart, modulo 2^64 and then modulo
/// the number of bits.
#[derive(Clone, Copy, Default)]
pub(super) struct ItemHash {
    pub first: u64,
    pub step: u64,
}

/// See the [module docs](self).
#[derive(Clone)]
pub(super) struct Link {
    pub header: Header,
    pub table: Pages<u8, PAGE_BYTES>,
    /// Bits that are used.
    modulus: u64,
    /// 2^64 modulo the modulus.
    wrap: u64,
}

/// The bits of a link that belong to an item.
struct Probes {
    sum: u64,
    step: u64,
    at: u64,
    /// The step modulo the modulus.
    step_at: u64,
    modulus: u64,
    wrap: u64,
    left: u32,
}

impl Iterator for Probes {
    type Item = u64;

    /// The remainder is carried along, which takes a division for the first bit and one for the step; when
    /// the sum wraps at 2^64, so does the remainder.
    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let at = self.at;
        let (sum, wraps) = self.sum.overflowing_add(self.step);
        self.sum = sum;
        self.at += self.step_at;
        if self.at >= self.modulus {
            self.at -= self.modulus;
        }
        if wraps {
            self.at =
                if self.at >= self.wrap { self.at - self.wrap } else { self.at + self.modulus - self.wrap };
        }
        Some(at)
    }
}

/// The saved fields of a link beside its table.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub entries: u64,
    pub error: f64,
    pub bits_per_entry: f64,
    pub hashes: u32,
    /// Binary logarithm of the number of bits that are used; 0 if that is no power of two.
    pub log2_bits: u8,
    /// Bits as they are saved.
    pub bits: u64,
    /// Items in the link.
    pub size: u64,
}

/// Bits that an item needs at this error rate.
fn bits_per_entry(error: f64) -> f64 {
    (error.ln() / LN_2_SQUARED).abs()
}

/// The number of hashes for this number of bits per entry.
pub(super) fn hashes_for(bits_per_entry: f64) -> f64 {
    (LN_2 * bits_per_entry).ceil()
}

/// The exponent of a double, as C's `logb` gives it for positive, normal numbers.
fn exponent(value: f64) -> i64 {
    (value.to_bits() >> 52 & 0x7ff) as i64 - 1023
}

impl Link {
    /// An empty link. `options` are those of the chain.
    pub fn new(entries: u64, error: f64, options: u32) -> Result<Link, BloomError> {
        if entries == 0 || !(error > 0.0 && error < 1.0) {
            return Err(BloomError::Invalid);
        }
        let per_entry = bits_per_entry(error);
        let (mut capacity, mut log2_bits) = (entries, 0);
        let bits;
        if options & CAPACITY_IS_BITS != 0 {
            log2_bits = u8::try_from(entries).ok().filter(|bits| *bits < 64).ok_or(BloomError::Invalid)?;
            bits = 1 << log2_bits;
            capacity = (bits as f64 / per_entry) as u64;
        } else if options & NO_ROUND != 0 {
            bits = ((entries as f64 * per_entry) as u64).max(1);
        } else {
            let wanted = entries as f64 * per_entry;
            let exponent = exponent(wanted);
            if exponent >= 63 {
                return Err(BloomError::Invalid);
            }
            log2_bits = (exponent + 1).max(0) as u8;
            bits = 1 << log2_bits;
            // What rounding up to a power of two has gained is room for further items.
            let gained = (bits as f64 - wanted) as u64;
            capacity = capacity.wrapping_add((gained as f64 / per_entry) as u64);
        }
        let bytes = bits.div_ceil(64) * 8;
        if bytes > TABLE_MAX_BYTES {
            return Err(BloomError::Memory);
        }
        let header = Header {
            entries: capacity,
            error,
            bits_per_entry: per_entry,
            hashes: hashes_for(per_entry) as u32,
            log2_bits,
            bits: bytes * 8,
            size: 0,
        };
        Ok(Link::with_table(header, Pages::zeroed(bytes)))
    }

    /// A link from its parts, which the caller has checked with [`Header::is_sound`].
    pub fn with_table(header: Header, table: Pages<u8, PAGE_BYTES>) -> Link {
        let modulus = if header.log2_bits > 0 { 1 << header.log2_bits } else { header.bits };
        let wrap = ((1_u128 << 64) % u128::from(modulus)) as u64;
        Link { header, table, modulus, wrap }
    }

    /// The link after this one when it is full.
    pub fn next(&self, growth: u32, options: u32) -> Result<Link, BloomError> {
        Link::new(
            self.header.entries.wrapping_mul(u64::from(growth)),
            self.header.error * ERROR_TIGHTENING,
            options,
        )
    }

    #[inline]
    fn probes(&self, hash: ItemHash) -> Probes {
        let modulus = self.modulus;
        let (at, step_at) = if self.header.log2_bits > 0 {
            (hash.first & (modulus - 1), hash.step & (modulus - 1))
        } else {
            (hash.first % modulus, hash.step % modulus)
        };
        Probes {
            sum: hash.first,
            step: hash.step,
            at,
            step_at,
            modulus,
            wrap: self.wrap,
            left: self.header.hashes,
        }
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.header.size >= self.header.entries
    }

    /// Whether all bits of an item are set.
    #[inline]
    pub fn contains(&self, hash: ItemHash) -> bool {
        self.probes(hash).all(|bit| self.table.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 != 0))
    }

    /// Sets all bits of an item; whether one was not.
    ///
    /// The bits are set without a look at each: a branch on one that is not in the cache would keep the
    /// processor from asking for the others.
    #[inline]
    pub fn add(&mut self, hash: ItemHash) -> bool {
        if self.contains(hash) {
            return false;
        }
        for bit in self.probes(hash) {
            *self.table.get_mut(bit / 8) |= 1 << (bit % 8);
        }
        self.header.size = self.header.size.wrapping_add(1);
        true
    }

    #[inline]
    pub fn prefetch(&self, hash: ItemHash) {
        if self.table.len() > CACHED_MAX_BYTES {
            self.probes(hash).for_each(|bit| self.table.prefetch(bit / 8));
        }
    }

    pub fn queue(&self, hash: ItemHash, queue: &mut PrefetchQueue) {
        self.probes(hash).for_each(|bit| self.table.queue(bit / 8, queue));
    }

    pub fn info(&self, hash_width: u32) -> LinkInfo {
        LinkInfo {
            bytes: self.table.len(),
            bits: self.header.bits,
            hashes: self.header.hashes,
            hash_width,
            capacity: self.header.entries,
            size: self.header.size,
            error_rate: self.header.error,
        }
    }
}

impl Header {
    /// Whether the fields agree with each other and with a table of `bytes` bytes, and no operation can run
    /// for longer than a real link's.
    pub fn is_sound(&self, bytes: u64) -> bool {
        let hashes = hashes_for(self.bits_per_entry);
        self.error > 0.0
            && self.error < 1.0
            && self.log2_bits < 64
            && self.bits > 0
            && (self.log2_bits == 0 || self.bits >= 1 << self.log2_bits)
            && bytes <= TABLE_MAX_BYTES
            && self.bits <= bytes * 8
            && (1..=HASHES_MAX).contains(&self.hashes)
            && f64::from(self.hashes) == hashes
    }
}
