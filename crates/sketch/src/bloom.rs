//! `Bloom`: the scaling Bloom filter of BF.*: a chain of links, each with half the error rate of the
//! one before it and `growth` times its capacity.
//!
//! Items go to the newest link; an item is present if any link has all of its bits. A filter that does not
//! scale has one link and refuses items once that is full.
//!
//! Invariant: there is a link; `size` is the sum of the links' sizes.

mod dump;
mod link;
mod saved;
#[cfg(test)]
mod tests;

use martlet_base::prefetch::PrefetchQueue;

use crate::debris::Debris;
use crate::hash::{murmur2_32, murmur2_64};
use link::{ItemHash, Link};
pub use saved::TYPE;

/// Do not round the number of bits up to a power of two (RedisBloom: `BLOOM_OPT_NOROUND`).
const NO_ROUND: u32 = 1;
/// The capacity is the binary logarithm of the number of bits (`BLOOM_OPT_ENTS_IS_BITS`).
const CAPACITY_IS_BITS: u32 = 2;
/// Hash with 64 bits (`BLOOM_OPT_FORCE64`).
const HASH_64: u32 = 4;
/// Do not add links (`BLOOM_OPT_NO_SCALING`).
const NO_SCALING: u32 = 8;

/// Links of a chain. The error rate halves with each, and is zero after fewer.
const LINKS_MAX: usize = 1100;
/// Items whose probes are prefetched together.
const BATCH: usize = 16;

/// Why a filter cannot be made, changed or loaded. It prints Redis' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BloomError {
    /// The error rate is not between 0 and 1.
    #[error("ERR error rate must be in the range (0.000000, 1.000000)")]
    ErrorRate,
    /// The capacity is 0 or above [`Options::CAPACITY_MAX`].
    #[error("ERR capacity must be in the range [1, 1073741824]")]
    Capacity,
    /// The expansion is above [`Options::EXPANSION_MAX`].
    #[error("ERR expansion must be in the range [0, 32768]")]
    Expansion,
    /// NONSCALING and an expansion.
    #[error("Nonscaling filters cannot expand")]
    NonScalingExpansion,
    /// The parameters make no filter.
    #[error("ERR could not create filter")]
    Invalid,
    /// The table would be above [`crate::TABLE_MAX_BYTES`].
    #[error("ERR Insufficient memory to create filter")]
    Memory,
    /// The only link of a filter that does not scale is full.
    #[error("ERR non scaling filter is full")]
    Full,
    /// No further link can be made.
    #[error("ERR problem inserting into filter")]
    Insert,
    /// LOADCHUNK: a header that is wrong, or a position outside the filter.
    #[error("ERR received bad data")]
    BadData,
    /// LOADCHUNK: no link has this position.
    #[error("ERR invalid offset - no link found")]
    NoLink,
    /// LOADCHUNK: the chunk is longer than the rest of its link.
    #[error("ERR invalid chunk - Too big for current filter")]
    ChunkTooBig,
}

/// What BF.RESERVE and BF.INSERT say of a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The share of absent items that are reported as present.
    pub error_rate: f64,
    /// Items that the first link has room for.
    pub capacity: u64,
    /// The capacity of each further link beside the one before it. It is saved even if the filter does not
    /// scale: NONSCALING leaves the default, and an expansion of 0 is 0.
    pub expansion: u32,
    /// Whether links are added when the newest one is full.
    pub is_scaling: bool,
}

impl Default for Options {
    /// The values of `bf-error-rate`, `bf-initial-size` and `bf-expansion-factor` by default.
    fn default() -> Options {
        Options { error_rate: 0.01, capacity: 100, expansion: 2, is_scaling: true }
    }
}

impl Options {
    /// Largest capacity (`bf-initial-size`).
    pub const CAPACITY_MAX: u64 = 1 << 30;
    /// Largest expansion (`bf-expansion-factor`).
    pub const EXPANSION_MAX: u32 = 32768;
    /// A higher error rate is taken for this one (RedisBloom 8: `BF_ERROR_RATE_CAP`).
    pub const ERROR_RATE_CAP: f64 = 0.25;

    /// The options as Redis 8 takes them.
    ///
    /// # Errors
    /// If one is out of its range; the words are those of BF.RESERVE.
    pub fn checked(self) -> Result<Options, BloomError> {
        if !(self.error_rate > 0.0 && self.error_rate < 1.0) {
            return Err(BloomError::ErrorRate);
        }
        if !(1..=Options::CAPACITY_MAX).contains(&self.capacity) {
            return Err(BloomError::Capacity);
        }
        if self.expansion > Options::EXPANSION_MAX {
            return Err(BloomError::Expansion);
        }
        let error_rate = self.error_rate.min(Options::ERROR_RATE_CAP);
        Ok(Options { error_rate, is_scaling: self.is_scaling && self.expansion > 0, ..self })
    }
}

/// What BF.INFO and BF.DEBUG answer of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkInfo {
    /// Bytes of its table.
    pub bytes: u64,
    /// Bits of its table.
    pub bits: u64,
    /// Bits of each item.
    pub hashes: u32,
    /// 64 or 32.
    pub hash_width: u32,
    /// Items that it has room for.
    pub capacity: u64,
    /// Items that it has.
    pub size: u64,
    /// Its error rate.
    pub error_rate: f64,
}

/// See the [module docs](self).
#[derive(Clone)]
pub struct Bloom {
    size: u64,
    options: u32,
    growth: u32,
    links: Vec<Link>,
}

impl Bloom {
    /// An empty filter, as BF.RESERVE makes it; see [`Options::checked`] for the ranges of Redis 8.
    ///
    /// # Errors
    /// [`BloomError::Invalid`] or [`BloomError::Memory`].
    pub fn new(options: Options) -> Result<Bloom, BloomError> {
        let scaling = if options.is_scaling { 0 } else { NO_SCALING };
        let mut bloom = Bloom {
            size: 0,
            options: HASH_64 | NO_ROUND | scaling,
            growth: options.expansion,
            links: Vec::with_capacity(1),
        };
        let tightening = if options.is_scaling { link::ERROR_TIGHTENING } else { 1.0 };
        let link = Link::new(options.capacity, options.error_rate * tightening, bloom.options)?;
        bloom.links.push(link);
        Ok(bloom)
    }

    #[inline]
    fn hash(&self, item: &[u8]) -> ItemHash {
        if self.options & HASH_64 != 0 {
            let first = murmur2_64(item, 0xc6a4_a793_5bd1_e995);
            ItemHash { first, step: murmur2_64(item, first) }
        } else {
            let first = murmur2_32(item, 0x9747_b28c);
            ItemHash { first: u64::from(first), step: u64::from(murmur2_32(item, first)) }
        }
    }

    /// Whether the item may have been added.
    #[inline]
    pub fn contains(&self, item: &[u8]) -> bool {
        self.contains_hash(self.hash(item))
    }

    #[inline]
    fn contains_hash(&self, hash: ItemHash) -> bool {
        self.links.iter().rev().any(|link| link.contains(hash))
    }

    /// Adds an item; whether it was absent.
    ///
    /// # Errors
    /// [`BloomError::Full`] or [`BloomError::Insert`].
    #[inline]
    pub fn add(&mut self, item: &[u8]) -> Result<bool, BloomError> {
        self.add_hash(self.hash(item))
    }

    #[inline]
    fn add_hash(&mut self, hash: ItemHash) -> Result<bool, BloomError> {
        let Some((newest, older)) = self.links.split_last_mut() else { return Err(BloomError::Insert) };
        if older.iter().rev().any(|link| link.contains(hash)) {
            return Ok(false);
        }
        let is_new = if newest.is_full() { self.add_to_full(hash)? } else { newest.add(hash) };
        self.size = self.size.wrapping_add(u64::from(is_new));
        Ok(is_new)
    }

    /// Adds an item to a further link unless the newest, full one has it.
    #[cold]
    fn add_to_full(&mut self, hash: ItemHash) -> Result<bool, BloomError> {
        let Some(newest) = self.links.last() else { return Err(BloomError::Insert) };
        if newest.contains(hash) {
            return Ok(false);
        }
        if self.options & NO_SCALING != 0 {
            return Err(BloomError::Full);
        }
        if self.links.len() == LINKS_MAX {
            return Err(BloomError::Insert);
        }
        let next = newest.next(self.growth, self.options).map_err(|_| BloomError::Insert)?;
        self.links.push(next);
        Ok(self.links.last_mut().is_some_and(|link| link.add(hash)))
    }

    /// Adds items in order, their probes prefetched together. Ends with the first [`BloomError::Full`], as
    /// BF.MADD does, so there may be fewer results than items.
    pub fn add_all(&mut self, items: &[&[u8]]) -> Vec<Result<bool, BloomError>> {
        let mut results = Vec::with_capacity(items.len());
        for batch in items.chunks(BATCH) {
            let hashes = self.prefetch_batch(batch);
            for hash in &hashes[..batch.len()] {
                let result = self.add_hash(*hash);
                results.push(result);
                if result == Err(BloomError::Full) {
                    return results;
                }
            }
        }
        results
    }

    /// [`Bloom::contains`] of several items, their probes prefetched together.
    pub fn contains_all(&self, items: &[&[u8]]) -> Vec<bool> {
        let mut results = Vec::with_capacity(items.len());
        for batch in items.chunks(BATCH) {
            let hashes = self.prefetch_batch(batch);
            results.extend(hashes[..batch.len()].iter().map(|hash| self.contains_hash(*hash)));
        }
        results
    }

    fn prefetch_batch(&self, batch: &[&[u8]]) -> [ItemHash; BATCH] {
        let mut hashes = [ItemHash::default(); BATCH];
        for (hash, item) in hashes.iter_mut().zip(batch) {
            *hash = self.hash(item);
            self.links.iter().rev().take(2).for_each(|link| link.prefetch(*hash));
        }
        hashes
    }

    /// Queues the cache lines that a command about this item will read.
    pub fn queue_probes(&self, item: &[u8], queue: &mut PrefetchQueue) {
        let hash = self.hash(item);
        self.links.iter().rev().take(2).for_each(|link| link.queue(hash, queue));
    }

    /// Items that were added: what BF.CARD answers.
    pub fn len(&self) -> u64 {
        self.size
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// The sum of the links' capacities.
    pub fn capacity(&self) -> u64 {
        self.links.iter().fold(0, |sum, link| sum.wrapping_add(link.header.entries))
    }

    /// The capacity of each further link beside the one before it; `None` if the filter does not scale.
    pub fn expansion(&self) -> Option<u32> {
        (self.options & NO_SCALING == 0).then_some(self.growth)
    }

    /// The links, oldest first.
    pub fn links(&self) -> impl ExactSizeIterator<Item = LinkInfo> {
        let hash_width = if self.options & HASH_64 != 0 { 64 } else { 32 };
        self.links.iter().map(move |link| link.info(hash_width))
    }

    /// BF.INFO's `Size`: bytes that Redis' filter takes.
    pub fn redis_bytes(&self) -> u64 {
        // sizeof(SBChain) and, for each link, sizeof(SBLink).
        self.links.iter().fold(32, |sum, link| sum + 64 + link.table.len())
    }

    /// Bytes that the filter's blocks were allocated with, those that clones share included.
    pub fn heap_bytes(&self) -> usize {
        let links = self.links.capacity() * size_of::<Link>();
        links + self.links.iter().map(|link| link.table.heap_bytes()).sum::<usize>()
    }

    /// Leaves the tables to be freed in slices.
    pub fn into_debris(self, debris: &mut Debris) {
        self.links.into_iter().for_each(|link| link.table.into_debris(debris));
    }
}
