//! Size classes of blocks that grow, and the allocator's own.
//!
//! The allocator serves multiples of 8 up to 128, then sixteen sizes to each doubling up to 64 KB
//! (`docs/internals/mimalloc.md`). Of these, a class here is each up to 128, then four to each doubling:
//! compact encodings grow from one class to the next instead of doubling, but not at each insertion, and keep
//! the class (one byte) instead of a capacity. A block that is as large as its class wastes nothing.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Alignment of every block: the low three bits of its address are free for a tag.
pub const BLOCK_ALIGN: usize = 8;

/// The smallest class that holds `bytes`.
#[inline]
pub const fn class_of(bytes: usize) -> u8 {
    if bytes <= 128 {
        return (bytes.div_ceil(8) as u8).saturating_sub(1);
    }
    let top = (bytes - 1).ilog2();
    let quarter = ((bytes - 1) >> (top - 2)) & 3;
    (15 + (top as usize - 7) * 4 + quarter + 1) as u8
}

/// Size in bytes of a block of `class`.
#[inline]
pub const fn class_bytes(class: u8) -> usize {
    match class {
        0..=15 => (class as usize + 1) * 8,
        _ => (32 << ((class - 15) / 4)) * (4 + ((class - 15) % 4) as usize),
    }
}

/// Largest request that the allocator serves from a page with others.
const SHARED_MAX_BYTES: usize = 64 << 10;
/// What it gives for larger ones is a multiple of this.
const LARGE_STEP_BYTES: usize = 4096;

/// The allocator's bytes for a request of `bytes`: used where memory is accounted.
#[inline]
pub const fn allocated_bytes(bytes: usize) -> usize {
    match bytes {
        0..=128 => bytes.next_multiple_of(8),
        129..=SHARED_MAX_BYTES => bytes.next_multiple_of(1 << ((bytes - 1).ilog2() - 4)),
        _ => bytes.next_multiple_of(LARGE_STEP_BYTES),
    }
}

fn layout(class: u8) -> Layout {
    // The size is a class's, far from overflow: classes end at 2^66 only for lengths that no slice can have.
    Layout::from_size_align(class_bytes(class), BLOCK_ALIGN).unwrap_or_else(|_| panic!("block class {class}"))
}

/// A block of `class_bytes(class)` bytes, aligned to [`BLOCK_ALIGN`], contents undefined.
pub(crate) fn allocate(class: u8) -> NonNull<u8> {
    let layout = layout(class);
    // SAFETY: no class has size zero.
    let block = unsafe { alloc(layout) };
    NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Gives a block back.
///
/// # Safety
/// `block` came from [`allocate`] with the same `class` and is not used afterwards.
pub(crate) unsafe fn release(block: NonNull<u8>, class: u8) {
    // SAFETY: same layout as at allocation, by the caller's promise.
    unsafe { dealloc(block.as_ptr(), layout(class)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_sizes_of_the_allocator() {
        assert!((0..64).map(class_bytes).all(|bytes| allocated_bytes(bytes) == bytes));
        let sizes = [1, 8, 129, 136, 257, 1_025, 1_053, 4_097, 65_535, 65_537].map(allocated_bytes);
        assert_eq!(sizes, [8, 8, 136, 136, 272, 1_088, 1_088, 4_352, 65_536, 69_632]);
    }

    #[test]
    fn each_class_is_listed() {
        let sizes: Vec<usize> = (0..25).map(class_bytes).collect();
        assert!(sizes[..16].iter().zip(1..).all(|(bytes, words)| *bytes == words * 8));
        assert_eq!(sizes[16..], [160, 192, 224, 256, 320, 384, 448, 512, 640]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn each_class_is_the_smallest_that_fits() {
        for bytes in 1..100_000 {
            let class = class_of(bytes);
            assert!(class_bytes(class) >= bytes);
            assert!(class == 0 || class_bytes(class - 1) < bytes, "{bytes}");
        }
    }
}
