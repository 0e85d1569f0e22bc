//! A collection in one word: a pointer whose low three bits, which alignment leaves free, say what it points
//! to.
//!
//! An enum of pointers takes two words, and a key's entry holds its collection inline: the second word would
//! be the difference between two size classes of the allocator for most small collections. Here each kind of
//! pointer keeps its tag in it at all times, so any of them can be borrowed in place, for reading and for
//! writing.
//!
//! Invariant: a word that [`one_word`] made has the tag of exactly one of its forms and is a valid value of
//! it. All code that relies on it is in this file.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use triomphe::Arc;

/// The bits of a word that are the tag.
pub(crate) const TAG_MASK: usize = 7;

/// A type that is one pointer.
///
/// # Safety
/// `Self` is a transparent wrapper of a pointer whose low three bits are `TAG` in every value.
pub(crate) unsafe trait Tagged {
    const TAG: usize;
}

/// `pointer`, aligned to eight, with its tag.
#[inline(always)]
pub(crate) fn tag<T>(pointer: NonNull<T>, tag: usize) -> NonNull<u8> {
    debug_assert!(tag <= TAG_MASK && pointer.addr().get() & TAG_MASK == 0);
    // SAFETY: an aligned address does not wrap around by its low bits; the result is not followed as it is.
    unsafe { NonNull::new_unchecked(pointer.cast::<u8>().as_ptr().wrapping_add(tag)) }
}

/// The argument of [`tag`].
#[inline(always)]
pub(crate) fn untag<T>(word: NonNull<u8>, tag: usize) -> NonNull<T> {
    // SAFETY: the pointer that `tag` was given was not null.
    unsafe { NonNull::new_unchecked(word.as_ptr().wrapping_sub(tag)) }.cast()
}

/// A `Box` with a tag.
#[repr(transparent)]
pub(crate) struct TaggedBox<T, const TAG: usize> {
    word: NonNull<u8>,
    owns: PhantomData<T>,
}

// SAFETY: the word is a pointer with its tag.
unsafe impl<T, const TAG: usize> Tagged for TaggedBox<T, TAG> {
    const TAG: usize = TAG;
}

// SAFETY: as a `Box` of the same.
unsafe impl<T: Send, const TAG: usize> Send for TaggedBox<T, TAG> {}
// SAFETY: the same holds for sharing.
unsafe impl<T: Sync, const TAG: usize> Sync for TaggedBox<T, TAG> {}

impl<T, const TAG: usize> TaggedBox<T, TAG> {
    pub fn new(value: T) -> TaggedBox<T, TAG> {
        const { assert!(align_of::<T>() > TAG_MASK) };
        let pointer = NonNull::from(Box::leak(Box::new(value)));
        TaggedBox { word: tag(pointer, TAG), owns: PhantomData }
    }
}

impl<T, const TAG: usize> Deref for TaggedBox<T, TAG> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the pointer is that of a box that this value owns.
        unsafe { untag::<T>(self.word, TAG).as_ref() }
    }
}

impl<T, const TAG: usize> DerefMut for TaggedBox<T, TAG> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and access is exclusive.
        unsafe { untag::<T>(self.word, TAG).as_mut() }
    }
}

impl<T, const TAG: usize> Drop for TaggedBox<T, TAG> {
    fn drop(&mut self) {
        // SAFETY: the pointer is that of a leaked box, and this is its last use.
        drop(unsafe { Box::from_raw(untag::<T>(self.word, TAG).as_ptr()) });
    }
}

impl<T: Clone, const TAG: usize> Clone for TaggedBox<T, TAG> {
    fn clone(&self) -> Self {
        TaggedBox::new(T::clone(self))
    }
}

/// An `Arc` with a tag.
#[repr(transparent)]
pub(crate) struct TaggedArc<T, const TAG: usize> {
    word: NonNull<u8>,
    owns: PhantomData<Arc<T>>,
}

// SAFETY: the word is a pointer with its tag.
unsafe impl<T, const TAG: usize> Tagged for TaggedArc<T, TAG> {
    const TAG: usize = TAG;
}

// SAFETY: as an `Arc` of the same.
unsafe impl<T: Send + Sync, const TAG: usize> Send for TaggedArc<T, TAG> {}
// SAFETY: the same holds for a shared value.
unsafe impl<T: Send + Sync, const TAG: usize> Sync for TaggedArc<T, TAG> {}

impl<T, const TAG: usize> TaggedArc<T, TAG> {
    pub fn new(value: T) -> TaggedArc<T, TAG> {
        TaggedArc::from_arc(Arc::new(value))
    }

    fn from_arc(arc: Arc<T>) -> TaggedArc<T, TAG> {
        const { assert!(align_of::<T>() > TAG_MASK) };
        // SAFETY: an Arc's pointer is not null.
        let pointer = unsafe { NonNull::new_unchecked(Arc::into_raw(arc).cast_mut()) };
        TaggedArc { word: tag(pointer, TAG), owns: PhantomData }
    }

    /// The value if it is not shared.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: the pointer came from `Arc::into_raw` and stays owned by this value: the Arc made here is
        // not dropped.
        let mut arc = std::mem::ManuallyDrop::new(unsafe { Arc::from_raw(self.pointer()) });
        let value: *mut T = Arc::get_mut(&mut arc)?;
        // SAFETY: access is exclusive, as `get_mut` says, for as long as `self` is borrowed.
        Some(unsafe { &mut *value })
    }

    #[inline(always)]
    fn pointer(&self) -> *const T {
        untag::<T>(self.word, TAG).as_ptr()
    }
}

impl<T: Clone, const TAG: usize> TaggedArc<T, TAG> {
    /// The value, after it was copied if it is shared.
    #[inline]
    pub fn make_mut(&mut self) -> &mut T {
        // SAFETY: as in `get_mut`.
        let arc = std::mem::ManuallyDrop::new(unsafe { Arc::from_raw(self.pointer()) });
        if !arc.is_unique() {
            *self = TaggedArc::new(T::clone(&arc));
        }
        // SAFETY: the value is not shared, and access is exclusive.
        unsafe { untag::<T>(self.word, TAG).as_mut() }
    }
}

impl<T, const TAG: usize> Deref for TaggedArc<T, TAG> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the value lives while this reference to it is counted.
        unsafe { untag::<T>(self.word, TAG).as_ref() }
    }
}

impl<T, const TAG: usize> Drop for TaggedArc<T, TAG> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Arc::into_raw`, and this is its last use.
        drop(unsafe { Arc::from_raw(self.pointer()) });
    }
}

impl<T, const TAG: usize> Clone for TaggedArc<T, TAG> {
    fn clone(&self) -> Self {
        // SAFETY: as in `get_mut`.
        let arc = std::mem::ManuallyDrop::new(unsafe { Arc::from_raw(self.pointer()) });
        TaggedArc::from_arc(Arc::clone(&arc))
    }
}

/// Declares a word that holds one of several [`Tagged`] types, and the two enums that its `get` and `get_mut`
/// answer.
macro_rules! one_word {
    ($(#[$doc:meta])* $vis:vis $word:ident, $shared:ident, $exclusive:ident { $($variant:ident($type:ty),)+ }) => {
        $(#[$doc])*
        #[allow(non_snake_case)]
        #[repr(C)]
        $vis union $word {
            bits: usize,
            $($variant: std::mem::ManuallyDrop<$type>,)+
        }

        /// The word borrowed.
        $vis enum $shared<'a> {
            $($variant(&'a $type),)+
        }

        /// The word borrowed exclusively.
        $vis enum $exclusive<'a> {
            $($variant(&'a mut $type),)+
        }

        const _: () = {
            assert!(size_of::<$word>() == size_of::<usize>());
            let tags = [$(<$type as $crate::tagged::Tagged>::TAG,)+];
            let distinct = 0u32 $(| 1 << <$type as $crate::tagged::Tagged>::TAG)+;
            assert!(distinct.count_ones() as usize == tags.len() && distinct <= 0xff);
        };

        impl $word {
            #[inline(always)]
            $vis fn get(&self) -> $shared<'_> {
                // SAFETY: every form's bits may be read as a number, and the tag says which form the word is.
                unsafe {
                    match self.bits & $crate::tagged::TAG_MASK {
                        $(<$type as $crate::tagged::Tagged>::TAG => $shared::$variant(&self.$variant),)+
                        _ => std::hint::unreachable_unchecked(),
                    }
                }
            }

            #[inline(always)]
            $vis fn get_mut(&mut self) -> $exclusive<'_> {
                // SAFETY: as in `get`.
                unsafe {
                    match self.bits & $crate::tagged::TAG_MASK {
                        $(<$type as $crate::tagged::Tagged>::TAG => $exclusive::$variant(&mut self.$variant),)+
                        _ => std::hint::unreachable_unchecked(),
                    }
                }
            }
        }

        $(impl From<$type> for $word {
            #[inline]
            fn from(form: $type) -> $word {
                $word { $variant: std::mem::ManuallyDrop::new(form) }
            }
        })+

        impl Clone for $word {
            fn clone(&self) -> $word {
                match self.get() {
                    $($shared::$variant(form) => $word::from(<$type>::clone(form)),)+
                }
            }
        }

        impl Drop for $word {
            #[inline]
            fn drop(&mut self) {
                match self.get_mut() {
                    // SAFETY: the form is owned by the word, whose last use this is.
                    $($exclusive::$variant(form) => unsafe { std::ptr::drop_in_place(form) },)+
                }
            }
        }
    };
}

pub(crate) use one_word;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::Packed;

    one_word! {
        Word, Form, FormMut {
            Packed(Packed),
            Text(TaggedBox<Vec<u8>, 3>),
            Shared(TaggedArc<Vec<u8>, 5>),
        }
    }

    fn describe(word: &Word) -> (u8, Vec<u8>) {
        match word.get() {
            Form::Packed(packed) => (0, packed.iter().flat_map(|element| element.to_vec()).collect()),
            Form::Text(text) => (1, text.to_vec()),
            Form::Shared(shared) => (2, shared.to_vec()),
        }
    }

    fn push(word: &mut Word, byte: u8) {
        match word.get_mut() {
            FormMut::Packed(packed) => packed.push_back(&[byte][..]),
            FormMut::Text(text) => text.push(byte),
            FormMut::Shared(shared) => shared.make_mut().push(byte),
        }
    }

    #[test]
    fn each_form_is_found_changed_and_copied() {
        let forms: [fn() -> Word; 3] = [
            || Packed::new().into(),
            || TaggedBox::new(Vec::new()).into(),
            || TaggedArc::new(Vec::new()).into(),
        ];
        for (number, new) in forms.iter().enumerate() {
            let mut word = new();
            push(&mut word, b'a');
            let mut copy = word.clone();
            push(&mut copy, b'b');
            push(&mut word, b'c');
            assert_eq!(describe(&word), (number as u8, b"ac".to_vec()));
            assert_eq!(describe(&copy), (number as u8, b"ab".to_vec()));
            for other in forms {
                copy = other();
                push(&mut copy, b'd');
            }
            assert_eq!(describe(&copy), (2, b"d".to_vec()));
        }
    }

    #[test]
    fn a_shared_value_is_not_changed_in_place() {
        let mut arc = TaggedArc::<Vec<u8>, 1>::new(vec![1]);
        assert!(arc.get_mut().is_some());
        let copy = arc.clone();
        assert!(arc.get_mut().is_none());
        arc.make_mut().push(2);
        assert_eq!((&*arc, &*copy), (&vec![1, 2], &vec![1]));
        assert!(arc.get_mut().is_some());
    }
}
