//! The bytes of one entry in a leaf: perhaps an expiry time, then a member (set), or field and value (hash).
//!
//! ```text
//! set:   [0xFF, expiry: 8 bytes] text  hash:  [0xFF, expiry: 8 bytes] text text
//! text:  length 0..=247, bytes  |  248, length: 2 bytes, bytes  |  249, pointer: 8 bytes
//! ```
//!
//! A text above [`INLINE_MAX_BYTES`] lives in a separate allocation, shared by reference count, so that
//! copying a leaf never copies large values. Invariant: an entry is as long as [`NewEntry::size`] said when
//! it was written or shorter, and each pointer in a live entry owns one reference.

use super::{Kind, NO_EXPIRY};
use crate::size_class::allocated_bytes;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use triomphe::ThinArc;

/// The longest text that is stored in the leaf itself.
pub(super) const INLINE_MAX_BYTES: usize = 384;

const LONG: u8 = 0xF8;
const BLOB: u8 = 0xF9;
const TIMED: u8 = 0xFF;
const POINTER_BYTES: usize = 8;
/// Bytes that an expiry time adds to an entry.
pub(super) const TIMED_BYTES: usize = 9;

type Blob = ThinArc<(), u8>;

/// An entry as the table hands it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The member of a set, the field of a hash.
    pub field: &'a [u8],
    /// The field's value; empty in a set.
    pub value: &'a [u8],
    /// When the entry expires, in milliseconds since the Unix epoch; [`NO_EXPIRY`] if it does not.
    pub expire_at_ms: i64,
}

impl Entry<'_> {
    /// Allocator bytes of the texts that live outside the leaf.
    pub(super) fn blob_bytes(&self) -> usize {
        blob_bytes(self.field.len()) + blob_bytes(self.value.len())
    }

    /// The same content, to be written elsewhere.
    pub(super) fn as_new(&self) -> NewEntry<'_> {
        NewEntry { field: self.field, value: self.value, expire_at_ms: self.expire_at_ms }
    }
}

/// An entry to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewEntry<'a> {
    pub field: &'a [u8],
    pub value: &'a [u8],
    pub expire_at_ms: i64,
}

impl NewEntry<'_> {
    /// Encoded length in bytes.
    #[inline]
    pub fn size<K: Kind>(&self) -> usize {
        let mut size = text_size(self.field.len());
        if K::HAS_VALUES {
            size += text_size(self.value.len());
        }
        if self.expire_at_ms != NO_EXPIRY {
            size += TIMED_BYTES;
        }
        size
    }

    /// Number of texts that get an allocation of their own.
    #[inline]
    pub fn blobs(&self) -> u8 {
        u8::from(self.field.len() > INLINE_MAX_BYTES) + u8::from(self.value.len() > INLINE_MAX_BYTES)
    }

    /// Allocator bytes of those.
    #[inline]
    pub fn blob_bytes(&self) -> usize {
        blob_bytes(self.field.len()) + blob_bytes(self.value.len())
    }

    /// Writes the entry.
    ///
    /// # Safety
    /// [`NewEntry::size`] bytes at `at` may be written.
    #[inline]
    pub unsafe fn write<K: Kind>(&self, mut at: *mut u8) {
        // SAFETY: the parts add up to `size`, which the caller promised.
        unsafe {
            if self.expire_at_ms != NO_EXPIRY {
                write_expiry(at, self.expire_at_ms);
                at = at.add(TIMED_BYTES);
            }
            at = write_text(self.field, at);
            if K::HAS_VALUES {
                write_text(self.value, at);
            }
        }
    }
}

/// Writes the expiry time that precedes an entry's texts.
///
/// # Safety
/// [`TIMED_BYTES`] at `at` may be written.
#[inline]
pub(super) unsafe fn write_expiry(at: *mut u8, expire_at_ms: i64) {
    // SAFETY: exactly that many bytes are written.
    unsafe {
        at.write(TIMED);
        at.add(1).cast::<i64>().write_unaligned(expire_at_ms);
    }
}

#[inline]
fn blob_bytes(len: usize) -> usize {
    // A blob's block: reference count, length, bytes.
    if len > INLINE_MAX_BYTES { allocated_bytes(16 + len) } else { 0 }
}

#[inline]
fn text_size(len: usize) -> usize {
    if len < usize::from(LONG) {
        1 + len
    } else if len <= INLINE_MAX_BYTES {
        3 + len
    } else {
        1 + POINTER_BYTES
    }
}

/// Writes a text, returns its end.
///
/// # Safety
/// `text_size(text.len())` bytes at `at` may be written.
#[inline]
unsafe fn write_text(text: &[u8], at: *mut u8) -> *mut u8 {
    let len = text.len();
    // SAFETY: exactly `text_size` bytes are written.
    unsafe {
        let start = if len < usize::from(LONG) {
            at.write(len as u8);
            at.add(1)
        } else if len <= INLINE_MAX_BYTES {
            at.write(LONG);
            at.add(1).cast::<u16>().write_unaligned(len as u16);
            at.add(3)
        } else {
            let blob = Blob::from_header_and_slice((), text);
            at.write(BLOB);
            at.add(1).cast::<*const c_void>().write_unaligned(blob.into_raw());
            return at.add(1 + POINTER_BYTES);
        };
        martlet_base::copy::copy(text.as_ptr(), start, len);
        start.add(len)
    }
}

/// The text at `at` and its end.
///
/// # Safety
/// `at` is the start of a text in a live leaf, which outlives `'a`.
#[inline]
unsafe fn read_text<'a>(at: *const u8) -> (&'a [u8], *const u8) {
    // SAFETY: what `write_text` wrote.
    unsafe {
        let code = at.read();
        if code < LONG {
            let len = usize::from(code);
            return (std::slice::from_raw_parts(at.add(1), len), at.add(1 + len));
        }
        if code == LONG {
            let len = usize::from(at.add(1).cast::<u16>().read_unaligned());
            return (std::slice::from_raw_parts(at.add(3), len), at.add(3 + len));
        }
        let blob = blob_at(at);
        let bytes: *const [u8] = &raw const blob.slice;
        (&*bytes, at.add(1 + POINTER_BYTES))
    }
}

/// # Safety
/// `at` is the start of a text with code [`BLOB`] in a live leaf.
unsafe fn blob_at(at: *const u8) -> ManuallyDrop<Blob> {
    // SAFETY: the pointer came from `Blob::into_raw`, and the reference stays with the leaf.
    unsafe { ManuallyDrop::new(Blob::from_raw(at.add(1).cast::<*const c_void>().read_unaligned())) }
}

/// Whether the entry at `at` is that of `field`.
///
/// # Safety
/// `at` is the start of an entry in a live leaf.
#[inline(always)]
pub(super) unsafe fn field_is(mut at: *const u8, field: &[u8]) -> bool {
    // SAFETY: reads what `NewEntry::write` wrote.
    unsafe {
        let code = at.read();
        if code < LONG {
            return usize::from(code) == field.len()
                && std::slice::from_raw_parts(at.add(1), field.len()) == field;
        }
        if code == TIMED {
            at = at.add(TIMED_BYTES);
        }
        read_text(at).0 == field
    }
}

/// The entry at `at` and its encoded length.
///
/// # Safety
/// `at` is the start of an entry in a live leaf of kind `K`, which outlives `'a`.
#[inline]
pub(super) unsafe fn read<'a, K: Kind>(start: *const u8) -> (Entry<'a>, usize) {
    let mut entry = Entry { field: &[], value: &[], expire_at_ms: NO_EXPIRY };
    let mut at = start;
    // SAFETY: reads what `NewEntry::write` wrote.
    unsafe {
        if at.read() == TIMED {
            entry.expire_at_ms = at.add(1).cast::<i64>().read_unaligned();
            at = at.add(TIMED_BYTES);
        }
        (entry.field, at) = read_text(at);
        if K::HAS_VALUES {
            (entry.value, at) = read_text(at);
        }
        (entry, at.offset_from_unsigned(start))
    }
}

/// Whether the entry at `at` has an expiry time.
///
/// # Safety
/// `at` is the start of an entry in a live leaf.
#[inline]
pub(super) unsafe fn is_timed(at: *const u8) -> bool {
    // SAFETY: an entry has at least one byte.
    unsafe { at.read() == TIMED }
}

/// Calls `f` with each of the entry's blobs; `f` decides on the reference.
///
/// # Safety
/// `at` is the start of an entry in a live leaf of kind `K`.
unsafe fn each_blob<K: Kind>(mut at: *const u8, mut f: impl FnMut(ManuallyDrop<Blob>)) {
    // SAFETY: reads what `NewEntry::write` wrote.
    unsafe {
        if is_timed(at) {
            at = at.add(TIMED_BYTES);
        }
        for _ in 0..if K::HAS_VALUES { 2 } else { 1 } {
            // The end is found first: `f` may free the blob.
            let end = read_text(at).1;
            if at.read() == BLOB {
                f(blob_at(at));
            }
            at = end;
        }
    }
}

/// Takes one more reference to each blob of the entry, for a second copy of its bytes.
///
/// # Safety
/// As [`read`]; the copy is released once.
pub(super) unsafe fn retain_blobs<K: Kind>(at: *const u8) {
    // SAFETY: by the caller's promise.
    unsafe { each_blob::<K>(at, |blob| std::mem::forget((*blob).clone())) }
}

/// Gives up the entry's references to its blobs.
///
/// # Safety
/// As [`read`]; the entry is not read afterwards.
pub(super) unsafe fn release_blobs<K: Kind>(at: *const u8) {
    // SAFETY: by the caller's promise the reference is given up once.
    unsafe { each_blob::<K>(at, |blob| drop(ManuallyDrop::into_inner(blob))) }
}
