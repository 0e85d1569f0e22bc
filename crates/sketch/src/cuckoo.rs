//! `Cuckoo`: the scaling cuckoo filter of CF.*: filters of buckets of one-byte fingerprints.
//!
//! An item's fingerprint may be in two buckets of each filter. When both are full in all, fingerprints of the
//! newest filter are moved to their other bucket until one finds room; if none does, the moves are undone and
//! a filter is added that is `expansion` times as large.
//!
//! Invariant: there is a filter; all have buckets of `bucket_size` slots, a power of two of them, and none
//! has fewer than the one before it.

mod dump;
mod filter;
mod saved;
#[cfg(test)]
mod tests;

use martlet_base::prefetch::PrefetchQueue;

use crate::TABLE_MAX_BYTES;
use crate::debris::Debris;
use crate::hash::murmur2_64;
use filter::{Filter, Fingerprint};
pub use saved::TYPE;

/// Items whose buckets are prefetched together.
const BATCH: usize = 16;
/// Buckets of a filter (RedisBloom: `CF_MAX_NUM_BUCKETS`).
const BUCKETS_MAX: u64 = 0x00ff_ffff_ffff_ffff;
/// Filters, whose number has 16 bits.
const FILTERS_MAX: usize = u16::MAX as usize;

/// Why a filter cannot be made, changed or loaded. It prints Redis' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CuckooError {
    /// The capacity is below two buckets or above [`Options::CAPACITY_MAX`].
    #[error("Capacity must be in the range [2 * BUCKETSIZE, 1073741824]")]
    Capacity,
    /// The bucket size is 0 or above 255.
    #[error("BUCKETSIZE: value must be in the range [1, 255]")]
    BucketSize,
    /// There are no iterations, or above 65535.
    #[error("MAXITERATIONS: value must be in the range [1, 65535]")]
    MaxIterations,
    /// The expansion is above 32768.
    #[error("EXPANSION: value must be in the range [0, 32768]")]
    Expansion,
    /// The table would be above [`crate::TABLE_MAX_BYTES`].
    #[error("ERR Insufficient memory to create filter")]
    CreateMemory,
    /// The number of filters is at its limit: no item is added.
    #[error("Maximum expansions reached")]
    Expansions,
    /// No room, and the filter does not expand.
    #[error("Filter is full")]
    Full,
    /// No room, and no further filter can be made.
    #[error("ERR Insufficient memory")]
    Memory,
    /// LOADCHUNK at position 1: not as long as a header.
    #[error("Invalid header")]
    HeaderLength,
    /// LOADCHUNK at position 1: a header that makes no filter.
    #[error("Couldn't create filter!")]
    Header,
    /// LOADCHUNK: the chunk is outside the filters.
    #[error("Couldn't load chunk!")]
    Chunk,
}

/// What CF.RESERVE says of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Items that the first filter has room for, about.
    pub capacity: i64,
    /// Fingerprints of a bucket.
    pub bucket_size: i64,
    /// Fingerprints that are moved before a filter counts as full.
    pub max_iterations: i64,
    /// The size of each further filter beside the one before it, rounded up to a power of two; 0 for none.
    pub expansion: i64,
}

impl Default for Options {
    /// The values of `cf-initial-size`, `cf-bucket-size`, `cf-max-iterations` and `cf-expansion-factor` by
    /// default.
    fn default() -> Options {
        Options { capacity: 1024, bucket_size: 2, max_iterations: 20, expansion: 1 }
    }
}

impl Options {
    /// Largest capacity (`cf-initial-size`).
    pub const CAPACITY_MAX: i64 = 1 << 30;
}

/// What CF.INFO and CF.DEBUG answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Bytes that Redis' filter takes.
    pub redis_bytes: u64,
    /// Buckets of the first filter.
    pub buckets: u64,
    /// Number of filters.
    pub filters: u64,
    /// Items in the filter.
    pub items: u64,
    /// Items that were deleted since the last compaction.
    pub deletes: u64,
    /// Fingerprints of a bucket.
    pub bucket_size: u16,
    /// The size of each further filter beside the one before it.
    pub expansion: u16,
    /// Fingerprints that are moved before a filter counts as full.
    pub max_iterations: u16,
}

/// See the [module docs](self).
#[derive(Clone)]
pub struct Cuckoo {
    buckets: u64,
    items: u64,
    deletes: u64,
    bucket_size: u8,
    max_iterations: u16,
    expansion: u16,
    filters: Vec<Filter>,
}

/// The power of two at or above a number; 0 for 0.
fn power_of_two(number: u64) -> u64 {
    if number == 0 { 0 } else { number.checked_next_power_of_two().unwrap_or(0) }
}

impl Cuckoo {
    /// An empty filter (CF.RESERVE).
    ///
    /// # Errors
    /// If an option is out of its range or the filter is too large.
    pub fn new(options: Options) -> Result<Cuckoo, CuckooError> {
        let max_iterations = u16::try_from(options.max_iterations).ok().filter(|count| *count > 0);
        let max_iterations = max_iterations.ok_or(CuckooError::MaxIterations)?;
        let bucket_size = u8::try_from(options.bucket_size).ok().filter(|size| *size > 0);
        let bucket_size = bucket_size.ok_or(CuckooError::BucketSize)?;
        let expansion = u16::try_from(options.expansion).ok().filter(|factor| *factor <= 32768);
        let expansion = expansion.ok_or(CuckooError::Expansion)?;
        if !(2 * options.bucket_size..=Options::CAPACITY_MAX).contains(&options.capacity) {
            return Err(CuckooError::Capacity);
        }
        let mut cuckoo = Cuckoo {
            buckets: power_of_two(options.capacity as u64 / u64::from(bucket_size)).max(1),
            items: 0,
            deletes: 0,
            bucket_size,
            max_iterations,
            expansion: power_of_two(u64::from(expansion)) as u16,
            filters: Vec::new(),
        };
        cuckoo.grow().map_err(|_| CuckooError::CreateMemory)?;
        Ok(cuckoo)
    }

    /// Buckets of the filter of this index.
    fn buckets_of(&self, filter: usize) -> Option<u64> {
        let growth = f64::from(self.expansion).powi(filter as i32);
        (growth <= (BUCKETS_MAX / self.buckets) as f64).then(|| self.buckets * growth as u64)
    }

    fn table_bytes(&self) -> u64 {
        self.filters.iter().fold(0, |sum, filter| sum + filter.table.len())
    }

    /// Adds an empty filter.
    fn grow(&mut self) -> Result<(), CuckooError> {
        let buckets = self.buckets_of(self.filters.len()).filter(|buckets| *buckets > 0);
        let bytes = buckets.and_then(|buckets| buckets.checked_mul(u64::from(self.bucket_size)));
        let (Some(buckets), Some(bytes)) = (buckets, bytes) else { return Err(CuckooError::Memory) };
        if self.filters.len() == FILTERS_MAX
            || bytes > TABLE_MAX_BYTES - self.table_bytes().min(TABLE_MAX_BYTES)
        {
            return Err(CuckooError::Memory);
        }
        self.filters.push(Filter::new(buckets, self.bucket_size));
        Ok(())
    }

    /// Refuses items if there are `max` filters (`cf-max-expansions`, 32 by default). A command asks
    /// once, before it adds.
    ///
    /// # Errors
    /// [`CuckooError::Expansions`].
    pub fn check_expansions(&self, max: usize) -> Result<(), CuckooError> {
        if self.filters.len() >= max { Err(CuckooError::Expansions) } else { Ok(()) }
    }

    /// Whether the item may be in the filter.
    pub fn contains(&self, item: &[u8]) -> bool {
        self.contains_print(Fingerprint::of(item))
    }

    #[inline]
    fn contains_print(&self, print: Fingerprint) -> bool {
        self.filters.iter().any(|filter| filter.contains(print))
    }

    /// [`Cuckoo::contains`] of several items, their buckets prefetched together.
    pub fn contains_all(&self, items: &[&[u8]]) -> Vec<bool> {
        let mut results = Vec::with_capacity(items.len());
        for batch in items.chunks(BATCH) {
            let prints = self.prefetch_batch(batch);
            results.extend(prints[..batch.len()].iter().map(|print| self.contains_print(*print)));
        }
        results
    }

    fn prefetch_batch(&self, batch: &[&[u8]]) -> [Fingerprint; BATCH] {
        let mut prints = [Fingerprint::default(); BATCH];
        for (print, item) in prints.iter_mut().zip(batch) {
            *print = Fingerprint::of(item);
            self.filters.iter().rev().take(2).for_each(|filter| filter.prefetch(*print));
        }
        prints
    }

    /// Queues the cache lines that a command about this item will read.
    pub fn queue_probes(&self, item: &[u8], queue: &mut PrefetchQueue) {
        let print = Fingerprint::of(item);
        self.filters.iter().rev().take(2).for_each(|filter| filter.queue(print, queue));
    }

    /// How often the item may have been added (CF.COUNT).
    pub fn count(&self, item: &[u8]) -> u64 {
        let print = Fingerprint::of(item);
        self.filters.iter().map(|filter| filter.count(print)).sum()
    }

    /// Adds an item, once more if it is there (CF.ADD).
    ///
    /// # Errors
    /// [`CuckooError::Full`] or [`CuckooError::Memory`].
    pub fn add(&mut self, item: &[u8]) -> Result<(), CuckooError> {
        self.add_print(Fingerprint::of(item))
    }

    /// Adds an item unless it may be there; whether it was added (CF.ADDNX).
    ///
    /// # Errors
    /// [`CuckooError::Full`] or [`CuckooError::Memory`].
    pub fn add_new(&mut self, item: &[u8]) -> Result<bool, CuckooError> {
        let print = Fingerprint::of(item);
        if self.contains_print(print) {
            return Ok(false);
        }
        self.add_print(print).map(|()| true)
    }

    /// Adds items in order, their buckets prefetched together (CF.INSERT, and CF.INSERTNX if `only_new`); for
    /// each, whether it was added.
    pub fn add_all(&mut self, items: &[&[u8]], only_new: bool) -> Vec<Result<bool, CuckooError>> {
        let mut results = Vec::with_capacity(items.len());
        for batch in items.chunks(BATCH) {
            let prints = self.prefetch_batch(batch);
            for print in &prints[..batch.len()] {
                let exists = only_new && self.contains_print(*print);
                results.push(if exists { Ok(false) } else { self.add_print(*print).map(|()| true) });
            }
        }
        results
    }

    fn add_print(&mut self, print: Fingerprint) -> Result<(), CuckooError> {
        let added = self.filters.iter_mut().rev().any(|filter| filter.add(print));
        let added = added
            || self.filters.last_mut().is_some_and(|newest| newest.displace(print, self.max_iterations));
        if !added {
            if self.expansion == 0 {
                return Err(CuckooError::Full);
            }
            self.grow()?;
            if let Some(newest) = self.filters.last_mut() {
                newest.add(print);
            }
        }
        self.items = self.items.wrapping_add(1);
        Ok(())
    }

    /// Deletes an item once; whether it may have been there (CF.DEL).
    pub fn delete(&mut self, item: &[u8]) -> bool {
        let print = Fingerprint::of(item);
        if !self.filters.iter_mut().rev().any(|filter| filter.delete(print)) {
            return false;
        }
        self.items = self.items.wrapping_sub(1);
        self.deletes = self.deletes.wrapping_add(1);
        if self.filters.len() > 1 && self.deletes as f64 > self.items as f64 * 0.1 {
            self.compact_filters(false);
        }
        true
    }

    /// Moves fingerprints to the oldest filters that have room, and frees the newest if it is empty then
    /// (CF.COMPACT).
    pub fn compact(&mut self) {
        self.compact_filters(true);
    }

    fn compact_filters(&mut self, continues: bool) {
        for at in (1..self.filters.len()).rev() {
            let (older, rest) = self.filters.split_at_mut(at);
            let is_empty = rest.first_mut().is_none_or(|filter| filter.relocate(older));
            if is_empty && at + 1 == self.filters.len() {
                self.filters.pop();
            }
            if !is_empty && !continues {
                break;
            }
        }
        self.deletes = 0;
    }

    /// What CF.INFO answers.
    pub fn info(&self) -> Info {
        Info {
            // sizeof(CuckooFilter) and, for each filter, sizeof(SubCF).
            redis_bytes: 40 + 16 * self.filters.len() as u64 + self.table_bytes(),
            buckets: self.buckets,
            filters: self.filters.len() as u64,
            items: self.items,
            deletes: self.deletes,
            bucket_size: u16::from(self.bucket_size),
            expansion: self.expansion,
            max_iterations: self.max_iterations,
        }
    }

    /// Bytes that the filter's blocks were allocated with, those that clones share included.
    pub fn heap_bytes(&self) -> usize {
        let filters = self.filters.capacity() * size_of::<Filter>();
        filters + self.filters.iter().map(|filter| filter.table.heap_bytes()).sum::<usize>()
    }

    /// Leaves the tables to be freed in slices.
    pub fn into_debris(self, debris: &mut Debris) {
        self.filters.into_iter().for_each(|filter| filter.table.into_debris(debris));
    }
}

/// The hash of an item; Redis' seed is 0.
fn hash(item: &[u8]) -> u64 {
    murmur2_64(item, 0)
}
