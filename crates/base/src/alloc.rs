//! The counting allocator: mimalloc with exact accounting of requested bytes, so that `used_memory` costs no lock.
//!
//! Each thread adds to a counter of its own; [`used_bytes`] sums them. A block may be freed by another thread than
//! the one that allocated it, so single counters may be negative; the sum is right.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// More threads than this share counters (still correct, only contended).
const COUNTERS: usize = 64;

#[repr(align(128))]
struct Counter(AtomicI64);

static USED: [Counter; COUNTERS] = [const { Counter(AtomicI64::new(0)) }; COUNTERS];
static NEXT: AtomicUsize = AtomicUsize::new(0);
const UNASSIGNED: usize = usize::MAX;

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(UNASSIGNED) };
}

#[inline]
fn add(bytes: i64) {
    let index = MINE.try_with(|mine| {
        let mut index = mine.get();
        if index == UNASSIGNED {
            index = NEXT.fetch_add(1, Ordering::Relaxed) % COUNTERS;
            mine.set(index);
        }
        index
    });
    let counter = &USED[index.unwrap_or(0)].0;
    if NEXT.load(Ordering::Relaxed) <= COUNTERS {
        // Only this thread writes this counter: no locked instruction is needed.
        counter.store(counter.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    } else {
        counter.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Bytes requested from the allocator and not yet freed, over all threads.
pub fn used_bytes() -> usize {
    USED.iter().map(|c| c.0.load(Ordering::Relaxed)).sum::<i64>().max(0) as usize
}

/// The global allocator of every Martlet binary.
pub struct Accounting;

// SAFETY: every call is handed to mimalloc unchanged; the counters never touch the blocks.
unsafe impl GlobalAlloc for Accounting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: the caller keeps GlobalAlloc's contract, which is mimalloc's.
        unsafe { mimalloc::MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: as in `alloc`.
        unsafe { mimalloc::MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add(-(layout.size() as i64));
        // SAFETY: as in `alloc`.
        unsafe { mimalloc::MiMalloc.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size as i64 - layout.size() as i64);
        // SAFETY: as in `alloc`.
        unsafe { mimalloc::MiMalloc.realloc(block, layout, size) }
    }
}
