//! ARINFO's facts about an array: the layout that Redis would have after the same history.
//!
//! There an array is slices of `slice-size` indexes, each of which is sparse (sorted pairs of offset and
//! value) or dense (a window of places), under a directory that is flat up to 2,048 slices and in blocks of
//! as many above. Elements are not held in that way here, so only the outlines are kept: 24 bytes for each
//! slice.
//!
//! Invariant: a slice is here exactly if it has elements, with their number; a dense one's window holds all
//! of their offsets; once an array has been in blocks it stays so.

use crate::ordered::OrderedMap;

/// Slices that a flat directory can name, and of a block.
const BLOCK_SLICES: u64 = 2048;
/// The least window of a dense slice.
const WINDOW_MIN: u32 = 8;
/// Pairs that a sparse slice has room for at first.
const SPARSE_CAPACITY_FIRST: u32 = 4;

/// When slices change their form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayLimits {
    /// Indexes of a slice of an array that is created: a power of two, from 256 to 65,536
    /// (`array-slice-size`).
    pub slice_size: u32,
    /// Elements up to which a slice is sparse (`array-sparse-kmax`).
    pub sparse_max: u32,
    /// Elements down to which a slice becomes sparse again (`array-sparse-kmin`).
    pub sparse_min: u32,
}

impl Default for ArrayLimits {
    fn default() -> ArrayLimits {
        ArrayLimits { slice_size: 4096, sparse_max: 10, sparse_min: 5 }
    }
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Sparse { capacity: u32 },
    Dense { start: u32, window: u32 },
}

#[derive(Clone, Copy, Debug)]
struct Slice {
    count: u32,
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Directory {
    Flat { len: u64 },
    Blocks { capacity: u64, used: u64 },
}

/// See the [module docs](self).
#[derive(Clone, Debug)]
pub(super) struct Layout {
    slice_bits: u32,
    slices: OrderedMap<u64, Slice>,
    directory: Directory,
}

/// ARINFO's facts of constant time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Slices with elements.
    pub slices: u64,
    /// Places of the directory, or of its list of blocks.
    pub directory_size: u64,
    /// Blocks of the directory; 0 while it is flat.
    pub blocks: u64,
    /// Indexes of a slice.
    pub slice_size: u32,
}

/// ARINFO's facts about all slices together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SliceTotals {
    /// Dense slices.
    pub dense: u64,
    /// Places in their windows.
    pub dense_places: u64,
    /// Elements in them.
    pub dense_elements: u64,
    /// Sparse slices.
    pub sparse: u64,
    /// Pairs that they have room for.
    pub sparse_capacity: u64,
}

/// First and last offset of a slice's elements, given the slice's first and last index.
pub(super) type Bounds<'a> = &'a dyn Fn(u64, u64) -> (u64, u64);

impl Layout {
    pub fn new(slice_size: u32) -> Layout {
        Layout {
            slice_bits: slice_size.trailing_zeros(),
            slices: OrderedMap::new(),
            directory: Directory::Flat { len: 0 },
        }
    }

    pub fn heap_bytes(&self) -> usize {
        self.slices.heap_bytes()
    }

    pub fn slice_size(&self) -> u32 {
        1 << self.slice_bits
    }

    pub fn info(&self) -> Info {
        let (directory_size, blocks) = match self.directory {
            Directory::Flat { len } => (len, 0),
            Directory::Blocks { capacity, used } => (capacity, used),
        };
        Info { slices: self.slices.len() as u64, directory_size, blocks, slice_size: self.slice_size() }
    }

    pub fn totals(&self) -> SliceTotals {
        let mut totals = SliceTotals::default();
        for (_, slice) in self.slices.iter() {
            match slice.form {
                Form::Dense { window, .. } => {
                    totals.dense += 1;
                    totals.dense_places += u64::from(window);
                    totals.dense_elements += u64::from(slice.count);
                }
                Form::Sparse { capacity } => {
                    totals.sparse += 1;
                    totals.sparse_capacity += u64::from(capacity);
                }
            }
        }
        totals
    }

    pub fn slice_of(&self, index: u64) -> u64 {
        index >> self.slice_bits
    }

    fn offset_of(&self, index: u64) -> u32 {
        index as u32 & (self.slice_size() - 1)
    }

    /// First and last index of a slice.
    fn span(&self, slice: u64) -> (u64, u64) {
        let first = slice << self.slice_bits;
        (first, first + u64::from(self.slice_size() - 1))
    }

    fn put(&mut self, id: u64, form: Form) {
        if self.slices.insert(id, Slice { count: 0, form }).is_none() {
            self.slice_added(id);
        }
    }

    /// An index that was empty is about to be filled; `bounds` sees the array as it is.
    pub fn add(&mut self, index: u64, limits: ArrayLimits, bounds: Bounds<'_>) {
        let (id, offset, size) = (self.slice_of(index), self.offset_of(index), self.slice_size());
        self.grow_directory(id);
        if self.slices.get(&id).is_none() {
            let form = match limits.sparse_max {
                0 => dense_around(offset, size),
                most => Form::Sparse { capacity: SPARSE_CAPACITY_FIRST.min(most) },
            };
            self.put(id, form);
        }
        let (first, last) = self.span(id);
        let Some(slice) = self.slices.get_mut(&id) else { return };
        if let Form::Sparse { capacity } = &mut slice.form {
            if slice.count >= limits.sparse_max {
                slice.form = dense_over(bounds(first, last), first, size);
            } else if slice.count >= *capacity {
                *capacity = (*capacity * 2).min(limits.sparse_max);
            }
        }
        if let Form::Dense { start, window } = &mut slice.form {
            (*start, *window) = grown_window(*start, *window, offset, size);
        }
        slice.count += 1;
    }

    /// Indexes from `low` to `high` are about to be filled, at least two: slices that will have too many
    /// elements for sparse ones become dense at once. `count_between` counts present elements.
    pub fn prepare(
        &mut self,
        low: u64,
        high: u64,
        limits: ArrayLimits,
        bounds: Bounds<'_>,
        count_between: impl Fn(u64, u64) -> u32,
    ) {
        if limits.sparse_max == 0 {
            return;
        }
        let (size, last_id) = (self.slice_size(), self.slice_of(high));
        self.grow_directory(last_id);
        for id in self.slice_of(low)..=last_id {
            let (first, last) = self.span(id);
            let (from, to) = (low.max(first), high.min(last));
            let filled = (to - from + 1) as u32;
            match self.slices.get(&id).copied() {
                None if filled > limits.sparse_max => self.put(id, dense_around((from - first) as u32, size)),
                Some(Slice { count, form: Form::Sparse { .. } }) => {
                    let fresh = filled - count_between(from, to);
                    if filled > limits.sparse_max || count + fresh > limits.sparse_max {
                        let form = dense_over(bounds(first, last), first, size);
                        self.slices.insert(id, Slice { count, form });
                    }
                }
                _ => {}
            }
        }
    }

    /// Elements of a slice were removed.
    pub fn remove(&mut self, id: u64, removed: u32, limits: ArrayLimits) {
        let Some(slice) = self.slices.get_mut(&id) else { return };
        slice.count -= removed;
        if slice.count == 0 {
            self.slices.remove(&id);
            self.slice_removed(id);
        } else {
            slice.demote(limits);
        }
    }

    /// A removal has ended in this slice, and may have found nothing there.
    pub fn end_of_removal(&mut self, id: u64, limits: ArrayLimits) {
        let mut would = self.slices.get(&id).copied();
        if would.as_mut().is_some_and(|slice| slice.demote(limits))
            && let Some(slice) = self.slices.get_mut(&id)
        {
            slice.demote(limits);
        }
    }

    fn grow_directory(&mut self, id: u64) {
        let Directory::Flat { len } = &mut self.directory else { return };
        if id >= BLOCK_SLICES {
            self.directory = Directory::Blocks { capacity: 4, used: u64::from(!self.slices.is_empty()) };
        } else if id >= *len {
            *len = (id + 1).next_power_of_two();
        }
    }

    /// Whether another slice is in the block of this one.
    fn shares_block(&self, id: u64) -> bool {
        let first = id / BLOCK_SLICES * BLOCK_SLICES;
        let slices = self.slices.iter_from(&first).map(|(id, _)| *id);
        slices.take_while(|other| other / BLOCK_SLICES == id / BLOCK_SLICES).any(|other| other != id)
    }

    fn slice_added(&mut self, id: u64) {
        let is_alone = !self.shares_block(id);
        if let Directory::Blocks { capacity, used } = &mut self.directory
            && is_alone
        {
            *used += 1;
            if used > capacity {
                *capacity *= 2;
            }
        }
    }

    fn slice_removed(&mut self, id: u64) {
        let is_alone = !self.shares_block(id);
        let highest = self.slices.last().map(|(id, _)| *id);
        match &mut self.directory {
            Directory::Blocks { used, .. } => *used -= u64::from(is_alone),
            Directory::Flat { len } => {
                if let Some(highest) = highest {
                    *len = (highest + 1).next_power_of_two().min(*len);
                }
            }
        }
    }

    /// Panics unless the layout fits the elements.
    #[cfg(test)]
    pub fn check(&self, indexes: &[u64]) {
        let mut counts = std::collections::BTreeMap::<u64, u32>::new();
        for &index in indexes {
            *counts.entry(self.slice_of(index)).or_default() += 1;
            let offset = self.offset_of(index);
            if let Some(Slice { form: Form::Dense { start, window }, .. }) =
                self.slices.get(&self.slice_of(index))
            {
                assert!((*start..start + window).contains(&offset) && start + window <= self.slice_size());
            }
        }
        assert_eq!(
            self.slices.iter().map(|(id, slice)| (*id, slice.count)).collect::<Vec<_>>(),
            Vec::from_iter(counts)
        );
        let blocks: std::collections::BTreeSet<u64> =
            self.slices.iter().map(|(id, _)| id / BLOCK_SLICES).collect();
        match self.directory {
            Directory::Blocks { capacity, used } => {
                assert_eq!(used, blocks.len() as u64);
                assert!(used <= capacity);
            }
            Directory::Flat { len } => assert!(self.slices.last().is_none_or(|(id, _)| *id < len)),
        }
    }
}

impl Slice {
    /// Makes a dense slice sparse if few elements are left and that saves a quarter; whether it did.
    fn demote(&mut self, limits: ArrayLimits) -> bool {
        let ArrayLimits { sparse_max, sparse_min, .. } = limits;
        let Form::Dense { window, .. } = self.form else { return false };
        if sparse_max == 0 || self.count > sparse_min.min(sparse_max) || window == WINDOW_MIN {
            return false;
        }
        // What Redis allocates for either form.
        let header = 32;
        let dense_bytes = header + 8 * u64::from(window);
        let sparse_bytes =
            header + (2 * u64::from(sparse_min)).next_multiple_of(8) + 8 * u64::from(sparse_min);
        if u64::from(window) < 4 * u64::from(sparse_min) || dense_bytes < sparse_bytes * 5 / 4 {
            return false;
        }
        self.form = Form::Sparse { capacity: sparse_min };
        true
    }
}

/// The first window of a dense slice.
fn dense_around(offset: u32, size: u32) -> Form {
    Form::Dense { start: offset.min(size - WINDOW_MIN), window: WINDOW_MIN }
}

/// The window that a sparse slice gets with elements from one index to another.
fn dense_over((low, high): (u64, u64), first: u64, size: u32) -> Form {
    let window = ((high - low + 1) as u32).next_power_of_two().max(WINDOW_MIN).min(size);
    Form::Dense { start: ((low - first) as u32).min(size - window), window }
}

/// Start and size of a window that is to hold `offset` too: it doubles to the right; to the left it leaves
/// room before the present part.
fn grown_window(start: u32, window: u32, offset: u32, size: u32) -> (u32, u32) {
    let end = start + window;
    if offset >= end {
        let mut grown = window;
        while offset >= start + grown && grown < size {
            grown *= 2;
        }
        let grown = grown.min(size);
        (start.min(size - grown), grown)
    } else if offset < start {
        let grown = (end - offset).next_power_of_two().max(WINDOW_MIN).min(size);
        (end.saturating_sub(grown), grown)
    } else {
        (start, window)
    }
}
