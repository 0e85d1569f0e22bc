//! `Pages`: an array of fixed length whose slots start as zero, in copy-on-write pages.
//!
//! A clone shares everything and costs the same for any length. A write copies one page, and once per
//! snapshot the branch above it and the root: 256 and `length / (256 * N)` pointers. A page that was never
//! written is not allocated, so an array that is reserved and empty costs its root only.
//!
//! An array of one page at most is a single block of exactly its length, without the tree.
//!
//! Invariant: `heap_bytes` is the sum of the requested allocations; memory that clones share counts in each
//! of them.

use std::ops::Range;

use martlet_base::prefetch::{CACHE_LINE_BYTES, PrefetchQueue, prefetch};
use triomphe::Arc;

use crate::debris::{Debris, Part};

/// Size of a page's slots in bytes: a page and its reference count fill 8 KiB, a size class of the allocator.
pub(crate) const PAGE_BYTES: usize = 8192 - 8;
/// Tables up to this size stay in the processor's caches: asking for their lines ahead costs more than it
/// saves.
pub(crate) const CACHED_MAX_BYTES: u64 = 4 << 20;
/// Pages below a branch.
const FANOUT: usize = 256;

type Page<T, const N: usize> = Option<Arc<[T; N]>>;

/// See the [module docs](self). `N` is the number of slots of a page.
#[derive(Clone)]
pub(crate) struct Pages<T, const N: usize> {
    len: u64,
    heap_bytes: usize,
    root: Root<T, N>,
}

#[derive(Clone)]
enum Root<T, const N: usize> {
    Small(Option<Arc<[T]>>),
    Large(Arc<Vec<Option<Arc<Branch<T, N>>>>>),
}

#[derive(Clone)]
struct Branch<T, const N: usize> {
    pages: [Page<T, N>; FANOUT],
}

/// Consecutive slots of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run<'a, T> {
    /// This number of slots that are zero.
    Zeros(usize),
    /// These slots.
    Slots(&'a [T]),
}

/// Bytes of an `Arc` of a value of `bytes` bytes: the reference count comes first.
pub(crate) const fn arc_bytes(bytes: usize) -> usize {
    (size_of::<usize>() + bytes).next_multiple_of(size_of::<usize>())
}

/// The page and the slot in it.
#[inline]
fn split<const N: usize>(index: u64) -> (usize, usize) {
    ((index / N as u64) as usize, (index % N as u64) as usize)
}

impl<T: Clone + Default + PartialEq, const N: usize> Pages<T, N> {
    /// An array of `len` slots. The caller has checked the length against a limit.
    pub fn zeroed(len: u64) -> Self {
        if len <= N as u64 {
            return Pages { len, heap_bytes: 0, root: Root::Small(None) };
        }
        let branches = len.div_ceil((N * FANOUT) as u64) as usize;
        let root: Vec<_> = vec![None; branches];
        let heap_bytes =
            arc_bytes(size_of::<Vec<usize>>()) + root.capacity() * size_of::<Option<Arc<Branch<T, N>>>>();
        Pages { len, heap_bytes, root: Root::Large(Arc::new(root)) }
    }

    /// Number of slots.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bytes that the array's blocks were allocated with, those that clones share included.
    pub fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    /// The slot at an index; `None` if its page was never written, so that the slot is zero.
    #[inline]
    pub fn get(&self, index: u64) -> Option<&T> {
        match &self.root {
            Root::Small(page) => page.as_ref()?.get(index as usize),
            Root::Large(root) => {
                let (page, slot) = split::<N>(index);
                let branch = root.get(page / FANOUT)?.as_ref()?;
                Some(&branch.pages[page % FANOUT].as_ref()?[slot])
            }
        }
    }

    /// The slot at an index below [`Pages::len`], to be written.
    #[inline]
    pub fn get_mut(&mut self, index: u64) -> &mut T {
        let (page, slot) = split::<N>(index);
        &mut self.page_mut(page)[slot]
    }

    /// A page as a slice that no clone shares; an array of one page has no more slots than it is long.
    #[inline]
    fn page_mut(&mut self, page: usize) -> &mut [T] {
        match &mut self.root {
            Root::Small(block) => {
                let len = self.len as usize;
                let heap_bytes = &mut self.heap_bytes;
                let block = block.get_or_insert_with(|| {
                    *heap_bytes += arc_bytes(len * size_of::<T>());
                    std::iter::repeat_n(T::default(), len).collect()
                });
                unique(block)
            }
            Root::Large(root) => {
                let heap_bytes = &mut self.heap_bytes;
                let branch = Arc::make_mut(root)[page / FANOUT].get_or_insert_with(|| {
                    *heap_bytes += arc_bytes(size_of::<Branch<T, N>>());
                    Arc::new(Branch { pages: [const { None }; FANOUT] })
                });
                let page = Arc::make_mut(branch).pages[page % FANOUT].get_or_insert_with(|| {
                    *heap_bytes += arc_bytes(size_of::<[T; N]>());
                    Arc::new(std::array::from_fn(|_| T::default()))
                });
                let page: &mut [T; N] = Arc::make_mut(page);
                page
            }
        }
    }

    /// Where a slot is in memory, if its page exists.
    #[inline]
    fn address(&self, index: u64) -> Option<*const u8> {
        self.get(index).map(|slot| std::ptr::from_ref(slot).cast())
    }

    /// Asks the processor for a slot that will be used soon.
    #[inline]
    pub fn prefetch(&self, index: u64) {
        self.address(index).into_iter().for_each(prefetch);
    }

    /// Queues a slot's cache line, and the line of its page's reference count, which a write reads.
    #[inline]
    pub fn queue(&self, index: u64, queue: &mut PrefetchQueue) {
        let Some(address) = self.address(index) else { return };
        queue.add(address);
        if let Root::Large(_) = self.root {
            let offset = index as usize % N * size_of::<T>() + size_of::<usize>();
            if offset >= CACHE_LINE_BYTES {
                queue.add(address.wrapping_sub(offset));
            }
        }
    }

    /// The slots of a range, page by page; indexes outside the array are left out.
    pub fn runs(&self, range: Range<u64>) -> impl Iterator<Item = Run<'_, T>> {
        let end = range.end.min(self.len);
        let mut at = range.start;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let first = (at % N as u64) as usize;
            let count = (N - first).min((end - at) as usize);
            let run = match self.page_of(at) {
                Some(page) => Run::Slots(&page[first..first + count]),
                None => Run::Zeros(count),
            };
            at += count as u64;
            Some(run)
        })
    }

    fn page_of(&self, index: u64) -> Option<&[T]> {
        match &self.root {
            Root::Small(page) => page.as_deref(),
            Root::Large(root) => {
                let (page, _) = split::<N>(index);
                let branch = root.get(page / FANOUT)?.as_ref()?;
                Some(&branch.pages[page % FANOUT].as_ref()?[..])
            }
        }
    }

    /// Writes slots from an index on; a page that does not exist and would be zero is not made. The caller
    /// has checked that the slots are inside the array.
    pub fn write(&mut self, index: u64, slots: &[T]) {
        let zero = T::default();
        let (mut at, mut rest) = (index, slots);
        while !rest.is_empty() && at < self.len {
            let (page, first) = split::<N>(at);
            let count = (N - first).min(rest.len()).min((self.len - at) as usize);
            let (piece, tail) = rest.split_at(count);
            if self.page_of(at).is_some() || piece.iter().any(|slot| *slot != zero) {
                self.page_mut(page)[first..first + count].clone_from_slice(piece);
            }
            at += count as u64;
            rest = tail;
        }
    }

    /// All pages that exist, each with the index of its first slot; the last may have slots behind the
    /// array's end, which are zero.
    #[inline]
    pub fn pages(&self) -> impl Iterator<Item = (u64, &[T])> {
        let (block, branches) = match &self.root {
            Root::Small(block) => (block.as_deref(), &[][..]),
            Root::Large(root) => (None, &root[..]),
        };
        let branches = branches.iter().enumerate().filter_map(|(at, branch)| Some((at, branch.as_ref()?)));
        let pages = branches.flat_map(|(at, branch)| {
            let pages = branch.pages.iter().enumerate();
            pages.filter_map(move |(page, slots)| {
                Some((((at * FANOUT + page) * N) as u64, &slots.as_ref()?[..]))
            })
        });
        block.map(|slots| (0, slots)).into_iter().chain(pages)
    }
}

impl<T: Send + Sync + 'static, const N: usize> Pages<T, N> {
    /// Leaves the pages to be freed in slices; a block alone is freed at once.
    pub fn into_debris(self, debris: &mut Debris) {
        if let Root::Large(root) = self.root
            && let Ok(branches) = Arc::try_unwrap(root)
        {
            debris.add(Box::new(Leftover { branches, pages: Vec::new() }));
        }
    }
}

/// The slice, after copying it if a clone shares it.
#[inline]
fn unique<T: Clone>(block: &mut Arc<[T]>) -> &mut [T] {
    if !block.is_unique() {
        *block = block.iter().cloned().collect();
    }
    Arc::get_mut(block).expect("a block that no clone shares")
}

/// Branches and pages that wait to be freed.
struct Leftover<T, const N: usize> {
    branches: Vec<Option<Arc<Branch<T, N>>>>,
    pages: Vec<Arc<[T; N]>>,
}

impl<T: Send + Sync + 'static, const N: usize> Part for Leftover<T, N> {
    fn free_one(&mut self) -> bool {
        if self.pages.pop().is_none() {
            let Some(branch) = self.branches.pop() else { return false };
            if let Some(Ok(branch)) = branch.map(Arc::try_unwrap) {
                self.pages.extend(branch.pages.into_iter().flatten());
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
