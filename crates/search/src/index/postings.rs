//! The documents of a term, or of a tag, ascending by id: frequency, fields and positions in each.
//!
//! ```text
//! sealed block: first id, last id, count │ widths: 3, form of masks: 1 │ ids less the first: 128 × w bits
//!               │ frequencies less 1 │ lengths of positions │ masks │ positions
//! tail:         distance from the entry before, frequency, mask, length of positions, positions; … (varints)
//! ```
//!
//! A block has up to 128 entries; it has fewer only where ids are more than 2^32 apart. What a layout leaves
//! out is not there.

use bitpacking::{BitPacker as _, BitPacker4x};

use martlet_base::prefetch::prefetch;

use super::DocId;
use super::bits::Bits;
use super::varint::{put, put_wide, take, take_wide};

/// So many documents that are wanted are looked for in a block one by one.
const FEW: u32 = 6;
/// Entries of a block.
const BLOCK: usize = BitPacker4x::BLOCK_LEN;
/// Bytes before a block's ids: the widths of ids, frequencies and lengths, the form of masks.
const HEAD: usize = 4;
/// All entries have one mask, which follows the packed numbers.
const MASK_ONE: u8 = 1;
/// Each entry has its mask.
const MASK_EACH: u8 = 2;

/// The parts of an entry that are kept beside its id.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How often the term stands in the document.
    pub frequencies: bool,
    /// In which fields.
    pub fields: bool,
    /// At which positions.
    pub positions: bool,
}

impl Layout {
    /// Ids alone.
    pub const IDS: Layout = Layout { frequencies: false, fields: false, positions: false };
}

/// One document of a term.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The document.
    pub doc: DocId,
    /// How often the term stands in it; 1 where that is not kept.
    pub frequency: u32,
    /// A bit for each text field that has it; all where that is not kept.
    pub mask: u128,
    /// Where, for [`positions`]; empty where that is not kept.
    pub positions: &'a [u8],
}

/// The positions of an entry, ascending.
pub fn positions(mut bytes: &[u8]) -> impl Iterator<Item = u32> {
    let mut last = 0u32;
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        last = last.wrapping_add(take(&mut bytes) as u32);
        Some(last)
    })
}

/// Appends positions, ascending, in the form of [`Entry::positions`].
pub fn encode_positions(out: &mut Vec<u8>, positions: &[u32]) {
    let mut last = 0;
    for &position in positions {
        put(out, u64::from(position.wrapping_sub(last)));
        last = position;
    }
}

#[derive(Debug)]
struct Block {
    first: DocId,
    last: DocId,
    count: u8,
    data: Box<[u8]>,
}

/// See the [module docs](self).
#[derive(Debug, Default)]
pub struct Postings {
    blocks: Vec<Block>,
    tail: Vec<u8>,
    /// The first id of the tail, and the last of all.
    tail_first: DocId,
    last: DocId,
    len: u32,
    tail_len: u8,
}

impl Postings {
    /// Entries, those of dead documents included.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The last document.
    pub fn last(&self) -> Option<DocId> {
        (self.len > 0).then_some(self.last)
    }

    /// Blocks, the open one included.
    pub fn blocks(&self) -> usize {
        self.blocks.len() + usize::from(self.tail_len > 0)
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
            + self.blocks.iter().map(|block| block.data.len()).sum::<usize>()
            + self.tail.capacity()
    }

    /// Asks for the memory that the next [`Postings::push`] writes to.
    pub fn prefetch_tail(&self) {
        prefetch(self.tail.as_ptr().wrapping_add(self.tail.len()));
    }

    /// Appends a document, whose id is above all others.
    pub fn push(&mut self, layout: Layout, entry: Entry<'_>) {
        debug_assert!(self.len == 0 || entry.doc > self.last);
        if usize::from(self.tail_len) == BLOCK
            || self.tail_len > 0 && entry.doc - self.tail_first >= u64::from(u32::MAX) - BLOCK as u64
        {
            self.seal(layout);
        }
        if self.tail_len == 0 {
            self.tail_first = entry.doc;
            self.last = entry.doc;
        }
        put(&mut self.tail, entry.doc - self.last);
        if layout.frequencies {
            put(&mut self.tail, u64::from(entry.frequency));
        }
        if layout.fields {
            put_wide(&mut self.tail, entry.mask);
        }
        if layout.positions {
            put(&mut self.tail, entry.positions.len() as u64);
            self.tail.extend_from_slice(entry.positions);
        }
        self.last = entry.doc;
        self.len += 1;
        self.tail_len += 1;
    }

    /// Makes the tail a block.
    fn seal(&mut self, layout: Layout) {
        let count = usize::from(self.tail_len);
        let (mut ids, mut frequencies, mut lengths) = ([0u32; BLOCK], [0u32; BLOCK], [0u32; BLOCK]);
        let mut masks = Vec::new();
        let mut places = Vec::new();
        let mut at = 0;
        self.tail_entries(layout, |entry| {
            ids[at] = (entry.doc - self.tail_first) as u32;
            frequencies[at] = entry.frequency.wrapping_sub(1);
            lengths[at] = entry.positions.len() as u32;
            masks.push(entry.mask);
            places.extend_from_slice(entry.positions);
            at += 1;
        });
        for at in count..BLOCK {
            ids[at] = ids[at - 1] + 1;
        }
        let one_mask = masks.iter().all(|&mask| mask == masks[0]);
        let packer = BitPacker4x::new();
        let widths = [
            packer.num_bits_strictly_sorted(None, &ids),
            if layout.frequencies { packer.num_bits(&frequencies) } else { 0 },
            if layout.positions { packer.num_bits(&lengths) } else { 0 },
        ];
        let form = match (layout.fields, one_mask) {
            (false, _) => 0,
            (true, true) => MASK_ONE,
            (true, false) => MASK_EACH,
        };
        let packed: usize = widths.iter().map(|&width| BitPacker4x::compressed_block_size(width)).sum();
        let mut data = vec![0; HEAD + packed];
        data[..HEAD].copy_from_slice(&[widths[0], widths[1], widths[2], form]);
        let mut end = HEAD;
        end += packer.compress_strictly_sorted(None, &ids, &mut data[end..], widths[0]);
        end += packer.compress(&frequencies, &mut data[end..], widths[1]);
        packer.compress(&lengths, &mut data[end..], widths[2]);
        match form {
            MASK_ONE => put_wide(&mut data, masks[0]),
            MASK_EACH => masks.iter().for_each(|&mask| put_wide(&mut data, mask)),
            _ => {}
        }
        data.extend_from_slice(&places);
        self.blocks.push(Block {
            first: self.tail_first,
            last: self.last,
            count: self.tail_len,
            data: data.into_boxed_slice(),
        });
        self.tail.clear();
        self.tail_len = 0;
    }

    fn tail_entries<'a>(&'a self, layout: Layout, mut each: impl FnMut(Entry<'a>)) {
        let mut rest = self.tail.as_slice();
        let mut doc = self.tail_first;
        for _ in 0..self.tail_len {
            doc += take(&mut rest);
            let frequency = if layout.frequencies { take(&mut rest) as u32 } else { 1 };
            let mask = if layout.fields { take_wide(&mut rest) } else { u128::MAX };
            let length = if layout.positions { take(&mut rest) as usize } else { 0 };
            let (positions, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            rest = behind;
            each(Entry { doc, frequency, mask, positions });
        }
    }

    /// The blocks that reach into the window.
    fn blocks_in(&self, window: &Bits) -> &[Block] {
        let begin = self.blocks.partition_point(|block| block.last < window.base());
        let blocks = &self.blocks[begin..];
        &blocks[..blocks.partition_point(|block| block.first < window.end())]
    }

    fn tail_reaches(&self, window: &Bits) -> bool {
        self.tail_len > 0 && self.tail_first < window.end() && self.last >= window.base()
    }

    /// Adds to `window` the documents in it that have the term in one of the fields of `mask`. Of documents
    /// that are not in `wanted`, if that is given, any may be left out.
    pub fn fill(&self, layout: Layout, mask: u128, wanted: Option<&Bits>, window: &mut Bits) {
        let mut ids = [0; BLOCK];
        for block in self.blocks_in(window) {
            let few = wanted.map(|wanted| (wanted, wanted.count_between(block.first, block.last)));
            if layout.fields && !block.may_have(mask) || few.is_some_and(|(_, count)| count == 0) {
                continue;
            }
            if layout.fields && block.data[3] == MASK_EACH && mask != u128::MAX {
                block.entries(layout, &|_| true, &mut |entry| {
                    if entry.mask & mask != 0 && window.covers(entry.doc) {
                        window.insert(entry.doc);
                    }
                });
                continue;
            }
            let count = block.ids(&mut ids);
            if let Some((wanted, few)) = few
                && few <= FEW
            {
                let mut rest = &ids[..count];
                for doc in wanted.between(block.first, block.last) {
                    let id = (doc - block.first) as u32;
                    rest = &rest[rest.partition_point(|&other| other < id)..];
                    if rest.first() == Some(&id) {
                        window.insert(doc);
                    }
                }
                continue;
            }
            let docs = ids[..count].iter().map(|&id| block.first + u64::from(id));
            if window.covers(block.first) && window.covers(block.last) {
                docs.for_each(|doc| window.insert(doc));
            } else {
                docs.for_each(|doc| {
                    if window.covers(doc) {
                        window.insert(doc);
                    }
                });
            }
        }
        if self.tail_reaches(window) {
            self.tail_entries(layout, |entry| {
                if entry.mask & mask != 0 && window.covers(entry.doc) {
                    window.insert(entry.doc);
                }
            });
        }
    }

    /// Calls `each` with the entries of the documents in `wanted`, ascending.
    pub fn entries<'a>(&'a self, layout: Layout, wanted: &Bits, mut each: impl FnMut(Entry<'a>)) {
        let Some((low, high)) = wanted.bounds() else { return };
        for block in self.blocks_in(wanted) {
            if block.last < low || block.first > high || wanted.count_between(block.first, block.last) == 0 {
                continue;
            }
            block.entries(layout, &|doc| wanted.contains(doc), &mut each);
        }
        if self.tail_reaches(wanted) {
            self.tail_entries(layout, |entry| {
                if wanted.contains(entry.doc) {
                    each(entry);
                }
            });
        }
    }

    /// Calls `each` with every entry, ascending.
    pub fn all<'a>(&'a self, layout: Layout, mut each: impl FnMut(Entry<'a>)) {
        for block in &self.blocks {
            block.entries(layout, &|_| true, &mut each);
        }
        self.tail_entries(layout, each);
    }

    /// Drops the entries of which `live` is false. The others keep their order.
    pub fn retain(&mut self, layout: Layout, live: impl Fn(DocId) -> bool) {
        let old = std::mem::take(self);
        let mut dropped = false;
        old.all(layout, |entry| dropped |= !live(entry.doc));
        if !dropped {
            *self = old;
            return;
        }
        old.all(layout, |entry| {
            if live(entry.doc) {
                self.push(layout, entry);
            }
        });
        self.tail.shrink_to_fit();
        self.blocks.shrink_to_fit();
    }
}

impl Block {
    /// The ids less the first; how many there are.
    fn ids(&self, ids: &mut [u32; BLOCK]) -> usize {
        BitPacker4x::new().decompress_strictly_sorted(None, &self.data[HEAD..], ids, self.data[0]);
        usize::from(self.count)
    }

    /// The first byte behind the packed numbers.
    fn behind_numbers(&self) -> usize {
        HEAD + self.data[..3].iter().map(|&width| BitPacker4x::compressed_block_size(width)).sum::<usize>()
    }

    /// Whether an entry may stand in one of the fields.
    fn may_have(&self, mask: u128) -> bool {
        self.data[3] != MASK_ONE || take_wide(&mut &self.data[self.behind_numbers()..]) & mask != 0
    }

    /// The entries of the documents that `is_wanted` names.
    #[inline]
    fn entries<'a>(
        &'a self,
        layout: Layout,
        is_wanted: &impl Fn(DocId) -> bool,
        each: &mut impl FnMut(Entry<'a>),
    ) {
        let packer = BitPacker4x::new();
        let (mut ids, mut frequencies, mut lengths) = ([0; BLOCK], [0; BLOCK], [0; BLOCK]);
        let count = self.ids(&mut ids);
        let mut at = HEAD + BitPacker4x::compressed_block_size(self.data[0]);
        at += packer.decompress(&self.data[at..], &mut frequencies, self.data[1]);
        at += packer.decompress(&self.data[at..], &mut lengths, self.data[2]);
        let mut rest = &self.data[at..];
        let masks = match self.data[3] {
            MASK_ONE => Masks::One(take_wide(&mut rest)),
            MASK_EACH => Masks::Each((0..count).map(|_| take_wide(&mut rest)).collect()),
            _ => Masks::One(u128::MAX),
        };
        let mut begin = 0;
        for (at, &id) in ids[..count].iter().enumerate() {
            let end = begin + if layout.positions { lengths[at] as usize } else { 0 };
            let doc = self.first + u64::from(id);
            if is_wanted(doc) {
                let positions = rest.get(begin..end).unwrap_or_default();
                let frequency = if layout.frequencies { frequencies[at].wrapping_add(1) } else { 1 };
                let mask = match &masks {
                    Masks::One(mask) => *mask,
                    Masks::Each(masks) => masks[at],
                };
                each(Entry { doc, frequency, mask, positions });
            }
            begin = end;
        }
    }
}

/// The masks of a block's entries.
enum Masks {
    One(u128),
    Each(Vec<u128>),
}

#[cfg(test)]
mod tests;
