//! `TopK`: HeavyKeeper, the sketch of TOPK.*: `depth` rows of `width` buckets, and a heap of the `k` items
//! with the highest counts.
//!
//! A bucket has one item's fingerprint and count. Each item that meets a bucket of another one decays its
//! count by chance, `decay` to the power of the count, and takes it over at zero. The heap is RedisBloom's
//! array, the lowest count first, so that equal histories give equal orders. It is three arrays, as a search
//! reads fingerprints only and a sift reads counts only.
//!
//! Invariant: the table has `width * depth` buckets, each array of the heap `k` slots.

#[cfg(test)]
mod tests;

use martlet_base::prefetch::PrefetchQueue;
use triomphe::Arc;

use crate::debris::Debris;
use crate::field::{DecodeError, FieldSink, FieldSource, ModuleType, load_slots, narrow, save_slots};
use crate::hash::{each_row, murmur2_32};
use crate::packed::Packed;
use crate::pages::{CACHED_MAX_BYTES, PAGE_BYTES, Pages, arc_bytes};
use crate::{ROWS_MAX, TABLE_MAX_BYTES};

/// The type's name, and the version that is written.
pub const TYPE: ModuleType = ModuleType { name: "TopK-TYPE", version: 0 };
/// The highest increment of TOPK.INCRBY.
pub const INCREMENT_MAX: i64 = 100_000;

/// The seed of fingerprints; a row's number is the seed of its column.
const PRINT_SEED: u32 = 1919;
/// Counts whose chance to decay is in a table.
const CHANCES: usize = 256;
/// Bytes of a heap's slot in RedisBloom: fingerprint (4), length (4), pointer (8), count (4), nothing (4).
const HEAP_SLOT_BYTES: usize = 24;
/// The pointer in a heap's slot.
const DRAWS: std::ops::Range<usize> = 8..16;

/// Why a sketch cannot be made or counted in. It prints Redis' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopKError {
    /// k is 0 or above 4,294,967,295.
    #[error("TopK: invalid k")]
    K,
    /// The width is 0 or above 4,294,967,295.
    #[error("TopK: invalid width")]
    Width,
    /// The depth is 0 or above 4,294,967,295.
    #[error("TopK: invalid depth")]
    Depth,
    /// The decay is not above 0 and at most 1.
    #[error("TopK: invalid decay value. must be '<= 1' & '> 0'")]
    Decay,
    /// The table or the heap would be above [`crate::TABLE_MAX_BYTES`], or there are more than 2^32 buckets
    /// or [`crate::ROWS_MAX`] rows.
    #[error("ERR Insufficient memory to create topk data structure")]
    Memory,
    /// The increment is negative or above [`INCREMENT_MAX`].
    #[error(
        "TopK: increment must be an integer greater or equal to 0                            and smaller or \
         equal to 100,000"
    )]
    Increment,
}

/// What TOPK.RESERVE says of a sketch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Items that are listed.
    pub k: i64,
    /// Buckets in a row.
    pub width: i64,
    /// Rows.
    pub depth: i64,
    /// The chance that a count of 1 decays.
    pub decay: f64,
}

impl Options {
    /// The options of TOPK.RESERVE with nothing but `k`.
    pub fn with_k(k: i64) -> Options {
        Options { k, width: 8, depth: 7, decay: 0.9 }
    }
}

/// A bucket of the table.
#[derive(Clone, Copy, Default, PartialEq)]
struct Bucket {
    print: u32,
    count: u32,
}

/// An item in the heap; none in a slot that was never taken.
type HeapItem = Option<Arc<[u8]>>;

/// See the [module docs](self).
#[derive(Clone)]
pub struct TopK {
    k: u32,
    width: u32,
    depth: u32,
    decay: f64,
    table: Pages<Bucket, { PAGE_BYTES / 8 }>,
    prints: Pages<u32, { PAGE_BYTES / 4 }>,
    counts: Pages<u32, { PAGE_BYTES / 4 }>,
    items: Pages<HeapItem, { PAGE_BYTES / 16 }>,
    /// Bytes of the items' blocks.
    item_bytes: usize,
    /// The decay to the power of each small count.
    chances: Arc<[f64; CHANCES]>,
    /// The state of the generator that decides which counts decay. It is saved, so that equal histories give
    /// equal sketches: on a replica, after a restart, in a copy.
    draws: Draws,
}

/// SplitMix64 (Steele, Lea and Flood, 2014): 64 bits of state.
#[derive(Clone, Copy, Debug, Default)]
struct Draws(u64);

impl Draws {
    /// A number in `[0, 1)`.
    #[inline]
    fn unit_f64(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn dimension(value: i64, error: TopKError) -> Result<u32, TopKError> {
    u32::try_from(value).ok().filter(|value| *value > 0).ok_or(error)
}

impl TopK {
    /// An empty sketch (TOPK.RESERVE).
    ///
    /// # Errors
    /// If an option is out of its range or the sketch is too large.
    pub fn new(options: Options) -> Result<TopK, TopKError> {
        let k = dimension(options.k, TopKError::K)?;
        let width = dimension(options.width, TopKError::Width)?;
        let depth = dimension(options.depth, TopKError::Depth)?;
        if !(options.decay > 0.0 && options.decay <= 1.0) {
            return Err(TopKError::Decay);
        }
        if u64::from(depth) > ROWS_MAX {
            return Err(TopKError::Memory);
        }
        TopK::empty(k, width, depth, options.decay).ok_or(TopKError::Memory)
    }

    fn empty(k: u32, width: u32, depth: u32, decay: f64) -> Option<TopK> {
        let buckets = width.checked_mul(depth)?;
        if u64::from(k) * HEAP_SLOT_BYTES as u64 > TABLE_MAX_BYTES {
            return None;
        }
        Some(TopK {
            k,
            width,
            depth,
            decay,
            table: Pages::zeroed(u64::from(buckets)),
            prints: Pages::zeroed(u64::from(k)),
            counts: Pages::zeroed(u64::from(k)),
            items: Pages::zeroed(u64::from(k)),
            item_bytes: 0,
            chances: Arc::new(std::array::from_fn(|count| decay.powf(count as f64))),
            draws: Draws::default(),
        })
    }

    /// Calls `visit` with the item's bucket in each row.
    #[inline]
    fn each_slot(item: &[u8], width: u32, depth: u32, mut visit: impl FnMut(u64)) {
        each_row(item, u64::from(depth), |row, hash| visit(row * u64::from(width) + u64::from(hash % width)));
    }

    /// Counts an item `increment` times more; the item that left the list for it, if one did. A slot that no
    /// item has had gives `None`, too.
    pub fn add(&mut self, item: &[u8], increment: u32) -> Option<Arc<[u8]>> {
        let print = murmur2_32(item, PRINT_SEED);
        let least = self.count_at(0);
        let mut count = 0;
        TopK::each_slot(item, self.width, self.depth, |slot| {
            count = count.max(self.add_to_bucket(slot, print, increment));
        });
        if count < least {
            return None;
        }
        if let Some(at) = self.find(item, print) {
            // Not the higher of the two: it may have decayed.
            *self.counts.get_mut(at) = count;
            self.sift_down(at);
            return None;
        }
        let added: Arc<[u8]> = Arc::from(item);
        self.item_bytes += arc_bytes(item.len());
        let expelled = self.items.get_mut(0).replace(added);
        self.item_bytes -= expelled.as_ref().map_or(0, |item| arc_bytes(item.len()));
        *self.counts.get_mut(0) = count;
        *self.prints.get_mut(0) = print;
        self.sift_down(0);
        expelled
    }

    /// The item's count in a bucket then; 0 if the bucket is another item's.
    #[inline]
    fn add_to_bucket(&mut self, slot: u64, print: u32, increment: u32) -> u32 {
        let Bucket { print: owner, count } = self.table.get(slot).copied().unwrap_or_default();
        if count == 0 {
            *self.table.get_mut(slot) = Bucket { print, count: increment };
            return increment;
        }
        if owner == print {
            let count = count.wrapping_add(increment);
            self.table.get_mut(slot).count = count;
            return count;
        }
        let (left, rest) = self.decay(count, increment);
        if left == 0 {
            *self.table.get_mut(slot) = Bucket { print, count: rest };
            return rest;
        }
        if left != count {
            self.table.get_mut(slot).count = left;
        }
        0
    }

    /// Decays a count by chance, up to `chances` times. Returns the count, and if that is 0 the chances left,
    /// the one of the last decay included.
    ///
    /// The number of chances until the next decay is one draw: a draw for each could be 100,000 for a row.
    fn decay(&mut self, mut count: u32, mut chances: u32) -> (u32, u32) {
        while chances > 0 {
            let chance = self.chance(count);
            let missed = if chances == 1 {
                if self.draws.unit_f64() < chance { 0.0 } else { 1.0 }
            } else {
                ((1.0 - self.draws.unit_f64()).ln() / (-chance).ln_1p()).floor()
            };
            // Neither a chance of zero nor one that is not a number decays anything.
            if missed.is_nan() || missed >= f64::from(chances) {
                return (count, 0);
            }
            chances -= missed as u32;
            count -= 1;
            if count == 0 {
                return (0, chances);
            }
            chances -= 1;
        }
        (count, 0)
    }

    /// The chance of a count to decay.
    #[inline]
    fn chance(&self, count: u32) -> f64 {
        let count = count as usize;
        match self.chances.get(count) {
            Some(chance) => *chance,
            None => {
                let last = CHANCES - 1;
                self.chances[last].powf((count / last) as f64) * self.chances[count % last]
            }
        }
    }

    #[inline]
    fn count_at(&self, slot: u64) -> u32 {
        self.counts.get(slot).copied().unwrap_or(0)
    }

    /// The item's slot in the heap.
    fn find(&self, item: &[u8], print: u32) -> Option<u64> {
        for (start, page) in self.prints.pages() {
            // Blocks of eight compare without a branch for each.
            for (block, prints) in page.chunks(8).enumerate() {
                if !prints.iter().fold(false, |found, known| found | (*known == print)) {
                    continue;
                }
                let first = start + 8 * block as u64;
                let slots = (first..).zip(prints).filter(|(_, known)| **known == print);
                for (slot, _) in slots {
                    if slot < self.items.len() && self.item_at(slot).is_some_and(|known| known[..] == *item) {
                        return Some(slot);
                    }
                }
            }
        }
        None
    }

    #[inline]
    fn item_at(&self, slot: u64) -> Option<&Arc<[u8]>> {
        self.items.get(slot)?.as_ref()
    }

    /// Where the child with the lower count is, if there is one: the left one of two equals.
    #[inline]
    fn lower_child(&self, slot: u64) -> Option<u64> {
        let (left, k) = (2 * slot + 1, u64::from(self.k));
        if left >= k {
            return None;
        }
        let right_is_lower = left + 1 < k && self.count_at(left) > self.count_at(left + 1);
        Some(left + u64::from(right_is_lower))
    }

    /// Moves an item down until no child has a lower count; past one of equal count at first, then not, as
    /// RedisBloom does.
    fn sift_down(&mut self, start: u64) {
        let count = self.count_at(start);
        let Some(mut child) = self.lower_child(start).filter(|child| self.count_at(*child) <= count) else {
            return;
        };
        let print = self.prints.get(start).copied().unwrap_or(0);
        let item = self.items.get_mut(start).take();
        let mut at = start;
        loop {
            let moved = self.count_at(child);
            *self.counts.get_mut(at) = moved;
            *self.prints.get_mut(at) = self.prints.get(child).copied().unwrap_or(0);
            let moved = self.item_at(child).is_some().then(|| self.items.get_mut(child).take());
            *self.items.get_mut(at) = moved.flatten();
            at = child;
            match self.lower_child(at).filter(|next| self.count_at(*next) < count) {
                Some(next) => child = next,
                None => break,
            }
        }
        *self.counts.get_mut(at) = count;
        *self.prints.get_mut(at) = print;
        *self.items.get_mut(at) = item;
    }

    /// [`TopK::add`] of several items in order, their buckets prefetched together.
    pub fn add_all(&mut self, items: &[(&[u8], u32)]) -> Vec<Option<Arc<[u8]>>> {
        if self.table.len() * 8 > CACHED_MAX_BYTES {
            for (item, _) in items {
                TopK::each_slot(item, self.width, self.depth, |slot| self.table.prefetch(slot));
            }
        }
        items.iter().map(|(item, increment)| self.add(item, *increment)).collect()
    }

    /// Queues the cache lines that a command about this item will read.
    pub fn queue_probes(&self, item: &[u8], queue: &mut PrefetchQueue) {
        TopK::each_slot(item, self.width, self.depth, |slot| self.table.queue(slot, queue));
    }

    /// An increment of TOPK.INCRBY.
    ///
    /// # Errors
    /// [`TopKError::Increment`].
    pub fn check_increment(increment: i64) -> Result<u32, TopKError> {
        let increment = u32::try_from(increment).ok().filter(|value| i64::from(*value) <= INCREMENT_MAX);
        increment.ok_or(TopKError::Increment)
    }

    /// Whether the item is listed (TOPK.QUERY).
    pub fn contains(&self, item: &[u8]) -> bool {
        self.find(item, murmur2_32(item, PRINT_SEED)).is_some()
    }

    /// The item's count (TOPK.COUNT), which may be far below the real one.
    pub fn count(&self, item: &[u8]) -> u32 {
        let print = murmur2_32(item, PRINT_SEED);
        let least = if self.find(item, print).is_some() { self.count_at(0) } else { 0 };
        let mut count = 0;
        TopK::each_slot(item, self.width, self.depth, |slot| {
            let bucket = self.table.get(slot).copied().unwrap_or_default();
            if bucket.print == print && bucket.count >= least {
                count = count.max(bucket.count);
            }
        });
        count
    }

    /// The items with their counts, highest first (TOPK.LIST).
    pub fn list(&self) -> Vec<(Arc<[u8]>, u32)> {
        let pages = self.counts.pages();
        let slots = pages.flat_map(|(start, page)| (start..).zip(page)).filter(|(_, count)| **count > 0);
        let listed = slots.filter_map(|(slot, count)| Some((self.item_at(slot)?.clone(), *count)));
        let mut listed: Vec<_> = listed.collect();
        listed.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        listed
    }

    /// Items that are listed at most.
    pub fn k(&self) -> u32 {
        self.k
    }

    /// Buckets in a row.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Rows.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The chance that a count of 1 decays.
    pub fn decay_rate(&self) -> f64 {
        self.decay
    }

    /// Bytes that the sketch's blocks were allocated with, those that clones share included.
    pub fn heap_bytes(&self) -> usize {
        let heap = self.prints.heap_bytes() + self.counts.heap_bytes() + self.items.heap_bytes();
        self.table.heap_bytes() + heap + self.item_bytes + arc_bytes(size_of::<[f64; CHANCES]>())
    }

    /// Leaves the table and the heap to be freed in slices.
    pub fn into_debris(self, debris: &mut Debris) {
        self.table.into_debris(debris);
        self.prints.into_debris(debris);
        self.counts.into_debris(debris);
        self.items.into_debris(debris);
    }

    /// Saves the sketch. RedisBloom saves its heap as it is in memory, with pointers that it does not read;
    /// the first has the generator's state here, and the others are zero. It also cuts items at a byte of
    /// zero, which this does not.
    pub fn encode(&self, sink: &mut dyn FieldSink) {
        sink.unsigned(u64::from(self.k));
        sink.unsigned(u64::from(self.width));
        sink.unsigned(u64::from(self.depth));
        sink.double(self.decay);
        save_slots(sink, &self.table, |bucket| {
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&bucket.print.to_le_bytes());
            bytes[4..].copy_from_slice(&bucket.count.to_le_bytes());
            bytes
        });
        let slots = u64::from(self.k);
        let heap = (0..slots).map(|slot| {
            let mut bytes = [0; HEAP_SLOT_BYTES];
            let len = self.item_at(slot).map_or(0, |item| item.len() as u32);
            bytes[..4].copy_from_slice(&self.prints.get(slot).copied().unwrap_or(0).to_le_bytes());
            bytes[4..8].copy_from_slice(&len.to_le_bytes());
            bytes[16..20].copy_from_slice(&self.count_at(slot).to_le_bytes());
            if slot == 0 {
                bytes[DRAWS].copy_from_slice(&self.draws.0.to_le_bytes());
            }
            bytes.to_vec().into()
        });
        sink.string(slots * HEAP_SLOT_BYTES as u64, &mut { heap });
        for slot in 0..slots {
            let item = self.item_at(slot).map_or(&[][..], |item| &item[..]);
            let mut pieces = [item.into(), b"\0"[..].into()].into_iter();
            sink.string(item.len() as u64 + 1, &mut pieces);
        }
    }

    /// Reads a sketch that was saved in this version.
    ///
    /// # Errors
    /// If the fields are no sketch.
    pub fn decode(version: u16, source: &mut dyn FieldSource) -> Result<TopK, DecodeError> {
        if version > TYPE.version {
            return Err(DecodeError::Version);
        }
        let k: u32 = narrow(source.unsigned()?, "k")?;
        let width: u32 = narrow(source.unsigned()?, "the width")?;
        let depth: u32 = narrow(source.unsigned()?, "the depth")?;
        let decay = source.double()?;
        if k == 0 || width == 0 || depth == 0 || !(decay > 0.0 && decay <= 1.0) {
            return Err(DecodeError::Range("the options"));
        }
        let buckets = width.checked_mul(depth).ok_or(DecodeError::Range("the dimensions"))?;
        let table = load_slots(&source.string()?, u64::from(buckets), |bytes: [u8; 8]| {
            let mut packed = Packed(&bytes);
            Bucket { print: packed.u32(), count: packed.u32() }
        })?;
        let mut topk = {
            let heap = source.string()?;
            if heap.len() as u64 != u64::from(k) * HEAP_SLOT_BYTES as u64 {
                return Err(DecodeError::Range("the heap's length"));
            }
            let mut topk = TopK::empty(k, width, depth, decay).ok_or(DecodeError::Range("the dimensions"))?;
            topk.prints = load_slots(&heap, u64::from(k), |slot: [u8; HEAP_SLOT_BYTES]| Packed(&slot).u32())?;
            topk.draws = Draws(heap.get(DRAWS).map_or(0, |bytes| Packed(bytes).u64()));
            topk.counts =
                load_slots(&heap, u64::from(k), |slot: [u8; HEAP_SLOT_BYTES]| Packed(&slot[16..]).u32())?;
            topk
        };
        topk.table = table;
        for slot in 0..u64::from(k) {
            let item = source.string()?;
            let (_, item) = item.split_last().ok_or(DecodeError::Range("an item"))?;
            let is_taken = topk.prints.get(slot).is_some_and(|print| *print != 0);
            if !item.is_empty() || is_taken {
                topk.item_bytes += arc_bytes(item.len());
                *topk.items.get_mut(slot) = Some(Arc::from(item));
            }
        }
        Ok(topk)
    }
}
