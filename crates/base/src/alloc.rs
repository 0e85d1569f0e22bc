//! The counting allocator: mimalloc with exact accounting of requested bytes, so that `used_memory` costs no
//! lock.
//!
//! Each thread adds to its own counter; [`used_bytes`] sums them. A block may be freed by another thread than
//! the one that allocated it, so single counters may be negative; the sum is right.

use martlet_mimalloc as ffi;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

/// Counters. The threads that start first, those that serve clients among them, have one each; all that start
/// once these are taken share the last.
const COUNTERS: usize = 256;
const SHARED: usize = COUNTERS - 1;

#[repr(align(128))]
struct Counter(AtomicI64);

static USED: [Counter; COUNTERS] = [const { Counter(AtomicI64::new(0)) }; COUNTERS];
/// Threads that have been given a counter.
static THREADS: AtomicUsize = AtomicUsize::new(0);
const UNASSIGNED: usize = usize::MAX;

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(UNASSIGNED) };
}

#[inline]
fn add(bytes: i64) {
    let index = MINE.try_with(|mine| {
        let mut index = mine.get();
        if index == UNASSIGNED {
            index = THREADS.fetch_add(1, Ordering::Relaxed).min(SHARED);
            mine.set(index);
        }
        index
    });
    let index = index.unwrap_or(SHARED);
    let counter = &USED[index].0;
    if index == SHARED {
        counter.fetch_add(bytes, Ordering::Relaxed);
    } else {
        // Only this thread writes this counter: no locked instruction is needed, however many threads have
        // started.
        counter.store(counter.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }
}

/// Bytes that the calling thread has requested, less those that it has freed, whichever thread requested
/// them: its growth bounds the thread's addition to [`used_bytes`]. Threads that share a counter share this.
#[inline]
pub fn thread_bytes() -> i64 {
    let index = MINE.try_with(Cell::get).unwrap_or(SHARED).min(SHARED);
    USED[index].0.load(Ordering::Relaxed)
}

/// Bytes requested from the allocator and not yet freed, over all threads.
pub fn used_bytes() -> usize {
    let assigned = THREADS.load(Ordering::Relaxed).min(SHARED);
    let counters = USED[..assigned].iter().chain([&USED[SHARED]]);
    counters.map(|counter| counter.0.load(Ordering::Relaxed)).sum::<i64>().max(0) as usize
}

/// Blocks above this size lie by themselves: none of their pages is shared with another block (mimalloc's
/// largest class of shared pages). Once freed they stay resident until they are
/// purged or used for another block.
const LARGE_MIN_BYTES: usize = 64 << 10;
/// Bytes of large blocks that were freed since the start.
static LARGE_FREED: AtomicU64 = AtomicU64::new(0);

#[cold]
fn note_large_free(bytes: usize) {
    LARGE_FREED.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Bytes of blocks above 64 KB that were freed since the start, by any thread. Their growth since the last
/// [`purge`] bounds what these blocks have left resident.
pub fn large_freed_bytes() -> u64 {
    LARGE_FREED.load(Ordering::Relaxed)
}

/// Every block of mimalloc is aligned to a word.
const NATURAL_ALIGN: usize = 8;

/// Whether a plain request gives the alignment. An aligned request would be served from a block larger by the
/// alignment: the next size class for all that are exactly a class's size.
#[inline(always)]
fn is_natural(layout: Layout) -> bool {
    layout.align() <= NATURAL_ALIGN && layout.align() <= layout.size()
}

/// Whether a plain request may give the alignment: mimalloc begins its pages at 128 bytes past a large
/// boundary, so blocks that are whole cache lines mostly lie on them.
#[inline(always)]
fn may_be_natural(layout: Layout) -> bool {
    layout.align() <= 128 && layout.size().is_multiple_of(layout.align())
}

/// An aligned block from `plain`, if the one that it gives happens to be aligned, else from `aligned`.
#[inline]
unsafe fn aligned_block(
    layout: Layout,
    plain: unsafe extern "C" fn(usize) -> *mut std::ffi::c_void,
    aligned: unsafe extern "C" fn(usize, usize) -> *mut std::ffi::c_void,
) -> *mut u8 {
    // SAFETY: the caller keeps GlobalAlloc's contract; a block that is not aligned goes back before anyone
    // sees it.
    unsafe {
        if may_be_natural(layout) {
            let block = plain(layout.size());
            if block.addr().is_multiple_of(layout.align()) {
                return block.cast();
            }
            ffi::mi_free(block);
        }
        aligned(layout.size(), layout.align()).cast()
    }
}

/// The global allocator of every Martlet binary.
pub struct Accounting;

// SAFETY: every call is handed to mimalloc with its size and alignment; the counters never touch the blocks.
unsafe impl GlobalAlloc for Accounting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: the caller keeps GlobalAlloc's contract, which is mimalloc's.
        unsafe {
            if is_natural(layout) {
                ffi::mi_malloc(layout.size()).cast()
            } else {
                aligned_block(layout, ffi::mi_malloc, ffi::mi_malloc_aligned)
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: as in `alloc`.
        unsafe {
            if is_natural(layout) {
                ffi::mi_zalloc(layout.size()).cast()
            } else {
                aligned_block(layout, ffi::mi_zalloc, ffi::mi_zalloc_aligned)
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add(-(layout.size() as i64));
        if layout.size() > LARGE_MIN_BYTES {
            note_large_free(layout.size());
        }
        // SAFETY: as in `alloc`.
        unsafe { ffi::mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size as i64 - layout.size() as i64);
        // SAFETY: as in `alloc`.
        let moved: *mut u8 = unsafe {
            if layout.align() <= NATURAL_ALIGN && layout.align() <= size {
                ffi::mi_realloc(block.cast(), size).cast()
            } else {
                ffi::mi_realloc_aligned(block.cast(), size, layout.align()).cast()
            }
        };
        if layout.size() > LARGE_MIN_BYTES && moved != block {
            note_large_free(layout.size());
        }
        moved
    }
}

/// Gives memory that was freed some time ago (mimalloc's `purge_delay`) back to the system; to be called now
/// and then, since the allocator only looks when it is used.
pub fn purge_old() {
    // SAFETY: as in `purge`. Miri cannot call it, and needs no memory given back.
    #[cfg(not(miri))]
    unsafe {
        ffi::mi_collect(false)
    };
}

/// Gives memory that was freed back to the system: all large blocks and, of smaller ones, what pages hold
/// that no block of is in use, except those that another thread keeps for its next blocks.
pub fn purge() {
    // SAFETY: mi_collect may be called at any time from any thread.
    unsafe { ffi::mi_collect(true) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Held while the sum of the counters is moved.
    static COUNTING: Mutex<()> = Mutex::new(());

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn the_sum_is_right_with_more_threads_than_counters() {
        let _counting = COUNTING.lock();
        let before = used_bytes();
        let count = || {
            (0..1_000).for_each(|_| add(3));
            MINE.get()
        };
        let indexes: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2 * COUNTERS).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().expect("it counts")).collect()
        });
        assert_eq!(used_bytes() - before, 2 * COUNTERS * 3_000);
        let mut own: Vec<usize> = indexes.into_iter().filter(|index| *index != SHARED).collect();
        own.sort_unstable();
        assert!(own.len() < COUNTERS && own.is_sorted_by(|a, b| a < b), "a counter has two writers");
    }

    #[test]
    #[cfg_attr(miri, ignore = "calls the allocator, which is C")]
    fn blocks_are_aligned() {
        let _counting = COUNTING.lock();
        for size in 1..3000 {
            for align in [1, 2, 4, 8, 16, 32, 64, 4096] {
                let layout = Layout::from_size_align(size, align).expect("a valid layout");
                // SAFETY: the size is not zero; each block is freed once, with the layout it has then.
                unsafe {
                    let block = Accounting.alloc(layout);
                    assert_eq!(block.addr() % align, 0, "{size} {align}");
                    let block = Accounting.realloc(block, layout, size * 2);
                    assert_eq!(block.addr() % align, 0, "{size} {align}");
                    Accounting
                        .dealloc(block, Layout::from_size_align(size * 2, align).expect("a valid layout"));
                    let block = Accounting.alloc_zeroed(layout);
                    assert_eq!((block.addr() % align, block.read()), (0, 0), "{size} {align}");
                    Accounting.dealloc(block, layout);
                }
            }
        }
    }
}
