//! `Shared`: a reference-counted block of a header and words, with three bits in the pointer to it.
//!
//! The bits hold the facts from which a reader computes the place in the block, so that looking costs one
//! cache miss and not two. Invariant: the pointer without its tag is that of one counted reference.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;
use triomphe::{Arc, HeaderSlice, HeaderSliceWithLengthProtected, HeaderWithLength, ThinArc};

/// Tags are below this.
pub(super) const TAGS: usize = 8;

/// Bytes of a block beside header and words: the reference count, and how many words there are.
pub(super) const COUNTS_BYTES: usize = 16;

/// A block that is not shared.
pub(super) type Body<H> = HeaderSliceWithLengthProtected<H, u64>;

/// See the module's description. A clone shares the block.
pub(super) struct Shared<H>(NonNull<c_void>, PhantomData<ThinArc<H, u64>>);

// SAFETY: a `Shared` is a counted reference like the `ThinArc` that it was made of.
unsafe impl<H: Send + Sync> Send for Shared<H> {}
// SAFETY: the same holds for sharing.
unsafe impl<H: Send + Sync> Sync for Shared<H> {}

impl<H> Shared<H> {
    /// A block with these contents; `tag` is below [`TAGS`].
    pub fn new(header: H, words: &[u64], tag: usize) -> Shared<H> {
        Shared::from_arc(ThinArc::from_header_and_slice(header, words), tag)
    }

    fn from_arc(arc: ThinArc<H, u64>, tag: usize) -> Shared<H> {
        const { assert!(align_of::<u64>() >= TAGS) };
        debug_assert!(tag < TAGS);
        let tagged = arc.into_raw().map_addr(|address| address | tag).cast_mut();
        match NonNull::new(tagged) {
            Some(tagged) => Shared(tagged, PhantomData),
            None => unreachable!("a block's address is not zero"),
        }
    }

    /// The tag that the block was made with.
    #[inline]
    pub fn tag(&self) -> usize {
        self.0.addr().get() % TAGS
    }

    /// The reference in its own type, not to be dropped.
    #[inline]
    fn arc(&self) -> ManuallyDrop<ThinArc<H, u64>> {
        let pointer = self.0.as_ptr().map_addr(|address| address & !(TAGS - 1));
        // SAFETY: this is the pointer that `into_raw` gave, and its one reference stays with `self`.
        ManuallyDrop::new(unsafe { ThinArc::from_raw(pointer) })
    }

    #[inline]
    fn block(&self) -> &HeaderSlice<HeaderWithLength<H>, [u64]> {
        let arc = self.arc();
        let block: *const _ = &**arc;
        // SAFETY: the block lives as long as `self` counts as a reference to it.
        unsafe { &*block }
    }

    #[inline]
    pub fn header(&self) -> &H {
        &self.block().header.header
    }

    #[inline]
    pub fn words(&self) -> &[u64] {
        &self.block().slice
    }

    /// Some of the words, without reading how many there are, which lies in another line.
    ///
    /// # Safety
    /// The range lies within [`Shared::words`].
    #[inline]
    pub unsafe fn words_at(&self, range: Range<usize>) -> &[u64] {
        debug_assert!(range.start <= range.end && range.end <= self.words().len());
        // SAFETY: the words of the block lie there, as the caller says.
        unsafe { std::slice::from_raw_parts(self.address(range.start).cast(), range.len()) }
    }

    /// Where the word at `index` is, which may be any number.
    #[inline]
    pub fn address(&self, index: usize) -> *const u8 {
        // The reference count comes first.
        self.start().wrapping_add(size_of::<usize>() + size_of::<HeaderWithLength<H>>() + index * 8)
    }

    /// Asks the processor for the line that holds the word at `index`, which may be any number.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        martlet_base::prefetch::prefetch(self.address(index));
    }

    /// Asks the processor for the first line of the block.
    #[inline]
    pub fn prefetch_header(&self) {
        martlet_base::prefetch::prefetch(self.start());
    }

    #[inline]
    fn start(&self) -> *const u8 {
        self.0.as_ptr().map_addr(|address| address & !(TAGS - 1)).cast::<u8>()
    }
}

impl<H: Clone> Shared<H> {
    /// Calls `f` with the body, which is not shared then.
    #[inline]
    pub fn edit<R>(&mut self, f: impl FnOnce(&mut Body<H>) -> R) -> R {
        if ThinArc::strong_count(&self.arc()) != 1 {
            *self = Shared::new(self.header().clone(), self.words(), self.tag());
        }
        // The closure below never replaces the block, so the pointer stays as it is.
        self.arc().with_arc_mut(|arc| match Arc::get_mut(arc) {
            Some(body) => f(body),
            None => unreachable!("a block that was just found or made unshared"),
        })
    }
}

impl<H> Clone for Shared<H> {
    #[inline]
    fn clone(&self) -> Shared<H> {
        let another = ManuallyDrop::into_inner(self.arc().clone());
        Shared::from_arc(another, self.tag())
    }
}

impl<H> Drop for Shared<H> {
    #[inline]
    fn drop(&mut self) {
        drop(ManuallyDrop::into_inner(self.arc()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_and_contents_survive_sharing_and_editing() {
        for tag in 0..TAGS {
            let mut first = Shared::new(7u32, &[1, 2, 3], tag);
            let second = first.clone();
            first.edit(|body| {
                *body.header_mut() += 1;
                body.slice_mut()[1] = 9;
            });
            first.edit(|body| body.slice_mut()[2] = 8);
            // SAFETY: there are three words.
            assert_eq!(unsafe { first.words_at(1..3) }, &[9, 8]);
            assert_eq!((first.tag(), *first.header(), first.words()), (tag, 8, &[1, 9, 8][..]));
            assert_eq!((second.tag(), *second.header(), second.words()), (tag, 7, &[1, 2, 3][..]));
        }
    }
}
