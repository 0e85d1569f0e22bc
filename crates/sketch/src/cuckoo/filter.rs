//! One filter of the chain: buckets of fingerprints, 0 where there is none.
//!
//! Invariant: the table has `buckets * bucket_size` slots; `buckets` is a power of two.

use martlet_base::prefetch::PrefetchQueue;

use super::hash;
use crate::pages::{CACHED_MAX_BYTES, PAGE_BYTES, Pages, Run};

/// An item as the filters know it: a byte that is not 0, and two hashes that name its buckets.
#[derive(Clone, Copy, Default)]
pub(super) struct Fingerprint {
    print: u8,
    first: u64,
    second: u64,
}

/// The hash of the other bucket, from the hash of either.
#[inline]
fn other_hash(print: u8, hash: u64) -> u64 {
    hash ^ u64::from(print).wrapping_mul(0x5bd1_e995)
}

impl Fingerprint {
    #[inline]
    pub fn of(item: &[u8]) -> Fingerprint {
        let first = hash(item);
        Fingerprint::at((first % 255 + 1) as u8, first)
    }

    /// A fingerprint of which one hash is known, or one bucket.
    #[inline]
    fn at(print: u8, first: u64) -> Fingerprint {
        Fingerprint { print, first, second: other_hash(print, first) }
    }
}

/// See the [module docs](self).
#[derive(Clone)]
pub(super) struct Filter {
    pub buckets: u64,
    bucket_size: u8,
    pub table: Pages<u8, PAGE_BYTES>,
}

impl Filter {
    pub fn new(buckets: u64, bucket_size: u8) -> Filter {
        Filter { buckets, bucket_size, table: Pages::zeroed(buckets * u64::from(bucket_size)) }
    }

    pub fn with_table(buckets: u64, bucket_size: u8, table: Pages<u8, PAGE_BYTES>) -> Filter {
        Filter { buckets, bucket_size, table }
    }

    /// The first slot of a bucket. RedisBloom computes it with 32 bits, which shows in filters above 4 GiB.
    #[inline]
    fn start(&self, hash: u64) -> u64 {
        u64::from(((hash & (self.buckets - 1)) * u64::from(self.bucket_size)) as u32)
    }

    /// The first slots of an item's buckets.
    #[inline]
    fn starts(&self, item: Fingerprint) -> [u64; 2] {
        [self.start(item.first), self.start(item.second)]
    }

    #[inline]
    fn slots(&self, start: u64) -> impl Iterator<Item = (u64, u8)> {
        (start..start + u64::from(self.bucket_size))
            .map(|slot| (slot, self.table.get(slot).copied().unwrap_or(0)))
    }

    #[inline]
    fn find(&self, start: u64, print: u8) -> Option<u64> {
        self.slots(start).find(|(_, found)| *found == print).map(|(slot, _)| slot)
    }

    #[inline]
    pub fn contains(&self, item: Fingerprint) -> bool {
        self.starts(item).into_iter().any(|start| self.find(start, item.print).is_some())
    }

    /// An item's fingerprints in its two buckets, which may be one and the same.
    pub fn count(&self, item: Fingerprint) -> u64 {
        let starts = self.starts(item).into_iter();
        starts.map(|start| self.slots(start).filter(|(_, found)| *found == item.print).count() as u64).sum()
    }

    #[inline]
    pub fn prefetch(&self, item: Fingerprint) {
        if self.table.len() > CACHED_MAX_BYTES {
            self.starts(item).into_iter().for_each(|start| self.table.prefetch(start));
        }
    }

    pub fn queue(&self, item: Fingerprint, queue: &mut PrefetchQueue) {
        self.starts(item).into_iter().for_each(|start| self.table.queue(start, queue));
    }

    /// Puts a fingerprint into a free slot; whether there was one.
    #[inline]
    pub fn add(&mut self, item: Fingerprint) -> bool {
        self.replace(item, 0, item.print)
    }

    /// Deletes a fingerprint once; whether it was there.
    pub fn delete(&mut self, item: Fingerprint) -> bool {
        self.replace(item, item.print, 0)
    }

    /// Replaces the first slot of an item's buckets that has `old`.
    #[inline]
    fn replace(&mut self, item: Fingerprint, old: u8, new: u8) -> bool {
        let slot = self.starts(item).into_iter().find_map(|start| self.find(start, old));
        slot.into_iter().for_each(|slot| *self.table.get_mut(slot) = new);
        slot.is_some()
    }

    /// Moves fingerprints to their other buckets until one finds a free slot; whether one has. Otherwise they
    /// are all where they were.
    pub fn displace(&mut self, item: Fingerprint, max_iterations: u16) -> bool {
        let size = u64::from(self.bucket_size);
        let mask = self.buckets - 1;
        let (mut print, mut victim) = (item.print, 0);
        let mut bucket = item.first & mask;
        for _ in 0..max_iterations {
            std::mem::swap(self.table.get_mut(bucket * size + victim), &mut print);
            bucket = other_hash(print, bucket) & mask;
            if let Some(slot) = self.find(bucket * size, 0) {
                *self.table.get_mut(slot) = print;
                return true;
            }
            victim = (victim + 1) % size;
        }
        for _ in 0..max_iterations {
            victim = (victim + size - 1) % size;
            bucket = other_hash(print, bucket) & mask;
            std::mem::swap(self.table.get_mut(bucket * size + victim), &mut print);
        }
        false
    }

    /// Moves fingerprints to the first of the older filters that has room; whether this filter is empty then.
    ///
    /// Older filters have no more buckets, so a bucket's number is as good as the hash.
    pub fn relocate(&mut self, older: &mut [Filter]) -> bool {
        let mut is_empty = true;
        for start in (0..self.table.len()).step_by(PAGE_BYTES) {
            let Some(Run::Slots(page)) = self.table.runs(start..start + PAGE_BYTES as u64).next() else {
                continue;
            };
            let page = page.to_vec();
            for (at, print) in (start..).zip(page).filter(|(_, print)| *print != 0) {
                let item = Fingerprint::at(print, at / u64::from(self.bucket_size));
                if older.iter_mut().any(|filter| filter.add(item)) {
                    *self.table.get_mut(at) = 0;
                } else {
                    is_empty = false;
                }
            }
        }
        is_empty
    }
}
