//! mimalloc 3.3.2, built from `mimalloc-3.3.2/`, as far as the accounting allocator calls it.
//!
//! The sources are mimalloc's own with finer size classes; `docs/internals/mimalloc.md` lists each change.

use std::ffi::c_void;

unsafe extern "C" {
    /// A block of at least `size` bytes, aligned to a word; null without memory.
    pub fn mi_malloc(size: usize) -> *mut c_void;

    /// As [`mi_malloc`], all zero.
    pub fn mi_zalloc(size: usize) -> *mut c_void;

    /// As [`mi_malloc`], aligned to `alignment`, a power of two.
    pub fn mi_malloc_aligned(size: usize, alignment: usize) -> *mut c_void;

    /// As [`mi_malloc_aligned`], all zero.
    pub fn mi_zalloc_aligned(size: usize, alignment: usize) -> *mut c_void;

    /// The block with room for `size` bytes, which may have moved; null without memory, and the block is left
    /// as it was.
    pub fn mi_realloc(block: *mut c_void, size: usize) -> *mut c_void;

    /// As [`mi_realloc`], aligned to `alignment`.
    pub fn mi_realloc_aligned(block: *mut c_void, size: usize, alignment: usize) -> *mut c_void;

    /// Gives a block back; any thread may.
    pub fn mi_free(block: *mut c_void);

    /// Gives unused memory back; all of it if `force`, else the part whose delay has passed.
    pub fn mi_collect(force: bool);

    /// The bytes that a request of `size` bytes takes: its size class.
    pub fn mi_good_size(size: usize) -> usize;

    /// The bytes that a block has, at least those that were requested.
    pub fn mi_usable_size(block: *const c_void) -> usize;
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    /// Largest request that is served from a shared page.
    const SHARED_MAX_BYTES: usize = 64 << 10;

    #[test]
    fn a_class_is_at_most_a_sixteenth_above_a_request() {
        let mut last = 0;
        let mut classes = 0;
        for size in 1..=SHARED_MAX_BYTES {
            // SAFETY: it only computes.
            let class = unsafe { mi_good_size(size) };
            assert!(class >= size && class - size <= (size / 16).max(7), "{size}: {class}");
            classes += usize::from(class != last);
            last = class;
        }
        assert_eq!((classes, last), (160, SHARED_MAX_BYTES));
    }

    #[test]
    fn blocks_keep_their_content_whatever_their_classes() {
        let mut blocks: Vec<(*mut c_void, usize, u8)> = Vec::new();
        let mut state = 42u64;
        for step in 0..300_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = (state >> 33) as usize;
            if random & 1 == 0 || blocks.is_empty() {
                let size = 1 + random % if random & 14 == 0 { 70_000 } else { 400 };
                // SAFETY: both ends are within the block that was just made.
                unsafe {
                    let block = mi_malloc(size);
                    assert!(
                        !block.is_null() && block.addr().is_multiple_of(8),
                        "{size}: {block:?}, step {step}"
                    );
                    assert!(mi_usable_size(block) >= size);
                    let bytes = block.cast::<u8>();
                    bytes.write(step as u8);
                    bytes.add(size - 1).write(step as u8);
                    blocks.push((block, size, step as u8));
                }
            } else {
                let (block, size, mark) = blocks.swap_remove(random % blocks.len());
                // SAFETY: the block is `size` bytes long and is not used afterwards.
                unsafe {
                    let bytes = block.cast::<u8>();
                    assert_eq!((bytes.read(), bytes.add(size - 1).read()), (mark, mark));
                    mi_free(block);
                }
            }
        }
        for (block, ..) in blocks {
            // SAFETY: no other owner is left.
            unsafe { mi_free(block) };
        }
    }
}
