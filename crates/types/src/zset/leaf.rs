//! `Leaf`: up to 64 entries of a sorted set, ordered by score and then by member, in one allocation.
//!
//! ```text
//! | counts | used: bit per slot | … | order: 64 slots by rank | scores: 64 × 8 bytes | cells |
//! ```
//!
//! An entry keeps its slot for as long as the leaf is not rebuilt, so that the hash index can name it; the
//! order of entries is a permutation of slots, and moving an entry in it moves one byte. A cell holds a
//! member: its length in one byte and then its bytes, zeros to the cell's end. All cells of a leaf have the
//! size that its longest member needs, which is in the pointer's tag; a member of more than [`INLINE_MAX`]
//! bytes lies in a separate allocation, and its cell holds its number. So, with a slot known, score and cell
//! are too, and are fetched at once.
//!
//! Invariant: `order[..len]` are exactly the slots whose bit is set in `used`, sorted by entry; the score of
//! a free slot is NaN, so that comparisons over all slots never count it.

use super::shared::{COUNTS_BYTES, Shared};
use crate::size_class::{class_bytes, class_of};
use martlet_base::prefetch::PrefetchQueue;
use std::cmp::Ordering;
use std::ops::Range;
use triomphe::Arc;

/// Most entries of a leaf: the bits of `used`, and what six bits of an index entry can name. Unit tests
/// use small leaves, nodes and chunks, so that small sets have every shape.
pub(super) const LEAF_MAX: usize = if cfg!(test) { 8 } else { 64 };

/// Longest member that is kept in the leaf, in bytes.
const INLINE_MAX: usize = 63;

/// The length byte of a cell whose member lies elsewhere.
const ELSEWHERE: u8 = 0xFF;

/// Words of the largest leaf: a score and eight words of cell for each entry.
const MAX_WORDS: usize = LEAF_MAX * 9;

const FREE: u64 = f64::NAN.to_bits();

/// A leaf's words without an entry: free scores, then zeros.
static EMPTY_WORDS: [u64; MAX_WORDS] = {
    let mut words = [0; MAX_WORDS];
    let mut slot = 0;
    while slot < LEAF_MAX {
        words[slot] = FREE;
        slot += 1;
    }
    words
};

/// A member that does not fit a cell.
type LongMember = Arc<[u8]>;

/// The long members of a leaf by number.
#[derive(Clone, Default)]
struct LongMembers(Vec<Option<LongMember>>);

impl LongMembers {
    fn add(&mut self, member: LongMember) -> u8 {
        let number = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        match self.0.get_mut(number) {
            Some(place) => *place = Some(member),
            None => self.0.push(Some(member)),
        }
        number as u8
    }

    fn get(&self, number: u8) -> Option<&LongMember> {
        self.0.get(usize::from(number)).and_then(Option::as_ref)
    }

    fn heap_bytes(&self) -> usize {
        let members: usize =
            self.0.iter().flatten().map(|member| class_bytes(class_of(member.len() + 8))).sum();
        members + self.0.capacity() * size_of::<Option<LongMember>>() + size_of::<LongMembers>()
    }
}

/// See the module's description.
#[derive(Clone)]
pub(super) struct Leaf(Shared<Header>);

#[derive(Clone)]
struct Header {
    used: u64,
    long: Option<Box<LongMembers>>,
    len: u8,
    capacity: u8,
    order: [u8; LEAF_MAX],
}

/// Bytes of a leaf's allocation without its cells.
const OVERHEAD_BYTES: usize = COUNTS_BYTES + size_of::<Header>() + LEAF_MAX * 8;

#[inline]
fn as_bytes(words: &[u64]) -> &[u8] {
    // SAFETY: the words are initialised, and bytes need no alignment.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words)) }
}

#[inline]
fn as_bytes_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: the same holds, and every pattern of bytes is a word.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), size_of_val(words)) }
}

fn cell_words_for(member_len: usize) -> usize {
    if member_len > INLINE_MAX { 1 } else { (member_len + 1).div_ceil(8) }
}

/// The most entries that fit the size class of a leaf of `entries`.
fn capacity_for(entries: usize, cell_words: usize) -> usize {
    let block = class_bytes(class_of(OVERHEAD_BYTES + entries * cell_words * 8));
    ((block - OVERHEAD_BYTES) / (cell_words * 8)).min(LEAF_MAX)
}

impl Leaf {
    /// A leaf without entries.
    pub fn empty() -> Leaf {
        Leaf::with_capacity(1, 1)
    }

    /// A leaf with one entry, in slot 0.
    pub fn single(score: f64, member: &[u8]) -> Leaf {
        let mut leaf = Leaf::with_capacity(1, cell_words_for(member.len()));
        leaf.insert(0, score, member);
        leaf
    }

    fn with_capacity(entries: usize, cell_words: usize) -> Leaf {
        let capacity = capacity_for(entries, cell_words);
        let header = Header { used: 0, long: None, len: 0, capacity: capacity as u8, order: [0; LEAF_MAX] };
        Leaf(Shared::new(header, &EMPTY_WORDS[..LEAF_MAX + capacity * cell_words], cell_words - 1))
    }

    #[inline]
    fn header(&self) -> &Header {
        self.0.header()
    }

    #[inline]
    fn words(&self) -> &[u64] {
        self.0.words()
    }

    #[inline]
    fn cell_words(&self) -> usize {
        self.0.tag() + 1
    }

    /// Where the words of the cell in `slot` are.
    #[inline]
    fn cell(&self, slot: usize) -> Range<usize> {
        cell(slot, self.cell_words())
    }

    /// Prefetches the lines that a search by score reads: header and scores.
    #[inline]
    pub fn prefetch_scores(&self) {
        self.0.prefetch_header();
        for word in (0..LEAF_MAX).step_by(8) {
            self.0.prefetch(word);
        }
    }

    /// Queues the score and the cell in `slot`.
    #[inline]
    pub fn queue_cell(&self, slot: usize, queue: &mut PrefetchQueue) {
        queue.add(self.0.address(slot));
        queue.add(self.0.address(self.cell(slot).start));
    }

    /// Asks the processor for all of the leaf, as far as most leaves go.
    #[inline]
    pub fn prefetch_all(&self) {
        self.prefetch_scores();
        for word in (LEAF_MAX..LEAF_MAX + LEAF_MAX * 3 / 4 * self.cell_words()).step_by(8) {
            self.0.prefetch(word);
        }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.header().len)
    }

    /// Bytes that the allocator gave for this leaf and its long members.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        let header = self.header();
        let long = header.long.as_ref().map_or(0, |long| long.heap_bytes());
        class_bytes(class_of(OVERHEAD_BYTES + usize::from(header.capacity) * self.cell_words() * 8)) + long
    }

    #[inline]
    pub fn score(&self, slot: usize) -> f64 {
        f64::from_bits(self.words()[slot])
    }

    #[inline]
    pub fn member(&self, slot: usize) -> &[u8] {
        self.member_in(&self.words()[self.cell(slot)])
    }

    /// Score and member of the entry in `slot`, from their two lines alone.
    ///
    /// # Safety
    /// The slot is in use.
    #[inline]
    pub unsafe fn entry_in_use(&self, slot: usize) -> (f64, &[u8]) {
        debug_assert!(self.header().used >> slot & 1 == 1, "slot {slot} is free");
        // SAFETY: a slot in use has a score and a cell.
        let (score, cell) = unsafe { (self.0.words_at(slot..slot + 1), self.0.words_at(self.cell(slot))) };
        (f64::from_bits(score[0]), self.member_in(cell))
    }

    /// The member that a cell of this leaf holds.
    #[inline]
    fn member_in<'a>(&'a self, cell: &'a [u64]) -> &'a [u8] {
        match as_bytes(cell) {
            [ELSEWHERE, number, ..] => {
                let long = self.header().long.as_ref().and_then(|long| long.get(*number));
                long.map_or(&[], |member| &member[..])
            }
            [len, rest @ ..] => rest.get(..usize::from(*len)).unwrap_or(&[]),
            [] => &[],
        }
    }

    /// The slot of the entry at `rank`, which is below [`Leaf::len`].
    #[inline]
    pub fn slot(&self, rank: usize) -> usize {
        usize::from(self.header().order[rank])
    }

    /// Score and member of the entry at `rank`.
    #[inline]
    pub fn entry(&self, rank: usize) -> (f64, &[u8]) {
        let slot = self.slot(rank);
        (self.score(slot), self.member(slot))
    }

    /// The rank of the entry in `slot`.
    #[inline]
    pub fn rank_of(&self, slot: usize) -> usize {
        let order = &self.header().order[..self.len()];
        order.iter().position(|&other| usize::from(other) == slot).unwrap_or(0)
    }

    /// How many entries have a score below `score`, and how many one equal to it.
    #[inline]
    pub fn count_scores(&self, score: f64) -> (usize, usize) {
        let scores = &self.words()[..LEAF_MAX];
        let (mut less, mut equal) = (0u64, 0u64);
        for &bits in scores {
            let other = f64::from_bits(bits);
            less += u64::from(other < score);
            equal += u64::from(other == score);
        }
        (less as usize, equal as usize)
    }

    /// How many entries are before (`score`, `member`).
    #[inline]
    pub fn lower_bound(&self, score: f64, member: &[u8]) -> usize {
        let (less, equal) = self.count_scores(score);
        if equal == 0 {
            return less;
        }
        less + self.partition_members(less..less + equal, |other| other < member)
    }

    /// How many of the entries at `ranks`, which are sorted so, have a member of which `before` is true.
    pub fn partition_members(&self, ranks: Range<usize>, mut before: impl FnMut(&[u8]) -> bool) -> usize {
        self.header().order[ranks].partition_point(|&slot| before(self.member(usize::from(slot))))
    }

    /// Puts an entry at `rank` and returns its slot. The leaf has room by the caller's promise.
    pub fn insert(&mut self, rank: usize, score: f64, member: &[u8]) -> usize {
        let (len, need) = (self.len(), cell_words_for(member.len()));
        debug_assert!(len < LEAF_MAX && rank <= len);
        let capacity = usize::from(self.header().capacity);
        if len == capacity || need > self.cell_words() {
            self.grow((len + 1).max(capacity), need.max(self.cell_words()));
        }
        let cell_words = self.cell_words();
        self.0.edit(|body| {
            let header = body.header_mut();
            let slot = header.used.trailing_ones() as usize;
            header.used |= 1 << slot;
            header.order.copy_within(rank..len, rank + 1);
            header.order[rank] = slot as u8;
            header.len += 1;
            let long = (member.len() > INLINE_MAX)
                .then(|| header.long.get_or_insert_default().add(Arc::from(member)));
            let words = body.slice_mut();
            words[slot] = score.to_bits();
            let cell = as_bytes_mut(&mut words[cell(slot, cell_words)]);
            match long {
                Some(number) => cell[..2].copy_from_slice(&[ELSEWHERE, number]),
                None => {
                    cell[0] = member.len() as u8;
                    cell[1..=member.len()].copy_from_slice(member);
                }
            }
            slot
        })
    }

    /// Moves to a block for `entries` or more; every entry keeps its slot.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, entries: usize, cell_words: usize) {
        let mut bigger = Leaf::with_capacity(entries, cell_words);
        let (old, old_words, words) = (self.header(), self.cell_words(), self.words());
        bigger.0.edit(|body| {
            let header = body.header_mut();
            header.used = old.used;
            header.long.clone_from(&old.long);
            header.len = old.len;
            header.order = old.order;
            let to = body.slice_mut();
            if cell_words == old_words {
                to[..words.len()].copy_from_slice(words);
                return;
            }
            to[..LEAF_MAX].copy_from_slice(&words[..LEAF_MAX]);
            for slot in 0..usize::from(old.capacity) {
                to[cell(slot, cell_words)][..old_words].copy_from_slice(&words[cell(slot, old_words)]);
            }
        });
        *self = bigger;
    }

    /// Gives the entry in `slot` another score that leaves its rank as it is.
    pub fn set_score(&mut self, slot: usize, score: f64) {
        self.0.edit(|body| body.slice_mut()[slot] = score.to_bits());
    }

    /// Removes the entry at `rank`; its slot is free again.
    pub fn remove(&mut self, rank: usize) {
        let cell_words = self.cell_words();
        self.0.edit(|body| {
            let header = body.header_mut();
            let len = usize::from(header.len);
            let slot = usize::from(header.order[rank]);
            header.order.copy_within(rank + 1..len, rank);
            header.used &= !(1 << slot);
            header.len -= 1;
            let words = body.slice_mut();
            words[slot] = FREE;
            let cell = as_bytes_mut(&mut words[cell(slot, cell_words)]);
            let long = (cell[0] == ELSEWHERE).then_some(cell[1]);
            cell.fill(0);
            if let (Some(number), Some(long)) = (long, &mut body.header_mut().long) {
                long.0[usize::from(number)] = None;
            }
        });
    }

    /// A leaf of the entries of `parts`, in that order, in slots 0, 1, 2…
    pub fn collect(parts: &[(&Leaf, Range<usize>)]) -> Leaf {
        let entries =
            || parts.iter().flat_map(|(leaf, ranks)| ranks.clone().map(move |rank| (*leaf, leaf.slot(rank))));
        let len = parts.iter().map(|(_, ranks)| ranks.len()).sum::<usize>();
        let words = |(leaf, slot): (&Leaf, usize)| cell_words_for(leaf.member(slot).len());
        let cell_words = entries().map(words).max().unwrap_or(1);
        // One more than there are, since an entry is about to come.
        let mut packed = Leaf::with_capacity((len + 1).min(LEAF_MAX), cell_words);
        packed.0.edit(|body| {
            let header = body.header_mut();
            header.len = len as u8;
            header.used = u64::MAX.checked_shr(64 - len as u32).unwrap_or(0);
            for slot in 0..len {
                header.order[slot] = slot as u8;
            }
            for (to, (leaf, slot)) in entries().enumerate() {
                let long = leaf
                    .long_member(slot)
                    .map(|member| body.header_mut().long.get_or_insert_default().add(member));
                let words = body.slice_mut();
                words[to] = leaf.words()[slot];
                let cell = &mut words[cell(to, cell_words)];
                match long {
                    Some(number) => as_bytes_mut(cell)[..2].copy_from_slice(&[ELSEWHERE, number]),
                    None => {
                        let from = &leaf.words()[leaf.cell(slot)];
                        let kept = cell_words.min(from.len());
                        cell[..kept].copy_from_slice(&from[..kept]);
                    }
                }
            }
        });
        packed
    }

    fn long_member(&self, slot: usize) -> Option<LongMember> {
        match as_bytes(&self.words()[self.cell(slot)]) {
            [ELSEWHERE, number, ..] => self.header().long.as_ref()?.get(*number).cloned(),
            _ => None,
        }
    }

    /// Order of the entry at `rank` and (`score`, `member`).
    #[inline]
    pub fn compare(&self, rank: usize, score: f64, member: &[u8]) -> Ordering {
        let slot = self.slot(rank);
        compare_scores(self.score(slot), score).then_with(|| self.member(slot).cmp(member))
    }
}

/// Order of scores, none of which is NaN; zero equals minus zero.
#[inline]
pub(super) fn compare_scores(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
}

/// Where the words of the cell in `slot` are, in a leaf whose cells have `cell_words`.
#[inline]
fn cell(slot: usize, cell_words: usize) -> Range<usize> {
    let start = LEAF_MAX + slot * cell_words;
    start..start + cell_words
}
