//! The allocator's size classes, and blocks of exactly such sizes.
//!
//! mimalloc, as `.cargo/config.toml` has it built, serves multiples of 8 up to 64, then four classes to each
//! doubling. A block that is as large as its class wastes nothing that a smaller request would have saved, so
//! compact encodings grow from one class to the next instead of doubling, and keep the class (one byte)
//! instead of a capacity.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Alignment of every block: the low three bits of its address are free for a tag.
pub const BLOCK_ALIGN: usize = 8;

/// The smallest class that holds `bytes`.
#[inline]
pub const fn class_of(bytes: usize) -> u8 {
    if bytes <= 64 {
        return (bytes.div_ceil(8) as u8).saturating_sub(1);
    }
    let top = (bytes - 1).ilog2();
    let quarter = ((bytes - 1) >> (top - 2)) & 3;
    (7 + (top as usize - 6) * 4 + quarter + 1) as u8
}

/// Size in bytes of a block of `class`.
#[inline]
pub const fn class_bytes(class: u8) -> usize {
    match class {
        0..=7 => (class as usize + 1) * 8,
        _ => (16 << ((class - 7) / 4)) * (4 + ((class - 7) % 4) as usize),
    }
}

/// The allocator's bytes for a request of `bytes`: used where memory is accounted.
#[inline]
pub const fn allocated_bytes(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { class_bytes(class_of(bytes)) }
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
    fn classes_are_mimallocs() {
        let sizes: Vec<usize> = (0..20).map(class_bytes).collect();
        assert_eq!(
            sizes,
            [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512]
        );
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
