//! The word, whose three low bits are a tag for the rest. All `unsafe` of the crate is in this file.
//!
//! ```text
//!     tag   rest of the word
//!      0    pointer to Arc<Number>
//!      1    integer of 61 bits
//!      2    byte 0: length or constant, above the tag; bytes 1 to 7: the text
//!      3    the upper 61 bits of a double whose low three are zero
//!      4    pointer to ThinArc<(), u8>: text
//!      5    pointer to ThinArc<(), Value>: array of 1 to SMALL_MAX values
//!      6    pointer to ThinArc<(), Member>: object of 1 to SMALL_MAX members
//!      7    pointer to Arc<Big>
//! ```
//!
//! Invariant: a word with a pointer's tag is one counted reference to a block of that type; text is UTF-8.

use super::{Big, Number, SMALL_MAX};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use triomphe::{Arc, ThinArc};

const TAG_MASK: usize = 7;
const TAG_NUMBER: usize = 0;
const TAG_INT: usize = 1;
const TAG_SHORT: usize = 2;
const TAG_DOUBLE: usize = 3;
const TAG_TEXT: usize = 4;
const TAG_LIST: usize = 5;
const TAG_MAP: usize = 6;
const TAG_BIG: usize = 7;

/// The longest text inside the word.
const SHORT_MAX: usize = 7;
/// Values of a short word's byte 0 (above the tag) that are no length.
const NULL: usize = 8;
const FALSE: usize = 9;
const TRUE: usize = 10;
const EMPTY_ARRAY: usize = 11;
const EMPTY_OBJECT: usize = 12;

const _: () = assert!(size_of::<usize>() == 8 && cfg!(target_endian = "little"), "the word's layout");

/// See the module `value`. Cloning is O(1).
#[repr(transparent)]
pub struct Value(NonNull<c_void>);

/// A member of an object.
#[derive(Clone)]
pub struct Member {
    pub(crate) name: Value,
    pub(crate) value: Value,
}

/// The bytes that the allocator takes for a request of `bytes`.
pub(super) fn allocated(bytes: usize) -> usize {
    martlet_types::size_class::allocated_bytes(bytes)
}

// SAFETY: a `Value` is plain bits or a counted reference whose count is atomic; contents are `Send` and
// `Sync`.
unsafe impl Send for Value {}
// SAFETY: a shared reference gives no way to change the contents.
unsafe impl Sync for Value {}

/// A word's contents, borrowed.
pub(super) enum Word<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(&'a str),
    List(&'a [Value]),
    Map(&'a [Member]),
    Big(&'a Big),
}

impl Value {
    /// `null`.
    pub const NULL: Value = Value::constant(NULL);
    /// `[]`.
    pub const EMPTY_ARRAY: Value = Value::constant(EMPTY_ARRAY);
    /// `{}`.
    pub const EMPTY_OBJECT: Value = Value::constant(EMPTY_OBJECT);

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self.word() {
            Word::Text(text) => Some(text),
            _ => None,
        }
    }

    const fn constant(code: usize) -> Value {
        Value::bits(code << 3 | TAG_SHORT)
    }

    /// A word without a pointer. `bits` has a tag other than zero, so it is not null.
    const fn bits(bits: usize) -> Value {
        match NonNull::new(std::ptr::without_provenance_mut(bits)) {
            Some(word) => Value(word),
            None => panic!("a word's tag is not zero"),
        }
    }

    fn pointer(pointer: *const c_void, tag: usize) -> Value {
        debug_assert!(pointer.addr() & TAG_MASK == 0);
        match NonNull::new(pointer.map_addr(|address| address | tag).cast_mut()) {
            Some(word) => Value(word),
            None => unreachable!("a block's address is not zero"),
        }
    }

    #[inline]
    fn tag(&self) -> usize {
        self.0.addr().get() & TAG_MASK
    }

    #[inline]
    fn address(&self) -> *const c_void {
        self.0.as_ptr().map_addr(|address| address & !TAG_MASK)
    }

    /// Where the value's block is, if it has one.
    pub(crate) fn block(&self) -> Option<*const u8> {
        match self.tag() {
            TAG_INT | TAG_SHORT | TAG_DOUBLE => None,
            _ => Some(self.address().cast()),
        }
    }

    /// A boolean.
    pub fn bool(value: bool) -> Value {
        Value::constant(if value { TRUE } else { FALSE })
    }

    /// A number.
    pub fn number(number: Number) -> Value {
        let with_block = || Value::pointer(Arc::into_raw(Arc::new(number)).cast(), TAG_NUMBER);
        Value::inline_number(number).unwrap_or_else(with_block)
    }

    /// A number that needs no block.
    fn inline_number(number: Number) -> Option<Value> {
        match number {
            Number::Int(value) if value << 3 >> 3 == value => {
                Some(Value::bits((value << 3) as usize | TAG_INT))
            }
            Number::Float(value) if value.to_bits() & TAG_MASK as u64 == 0 => {
                Some(Value::bits(value.to_bits() as usize | TAG_DOUBLE))
            }
            _ => None,
        }
    }

    /// A string.
    pub fn text(text: &str) -> Value {
        let bytes = text.as_bytes();
        if bytes.len() > SHORT_MAX {
            return Value::pointer(ThinArc::from_header_and_slice((), bytes).into_raw().cast(), TAG_TEXT);
        }
        let mut word = [0; 8];
        word[0] = (bytes.len() << 3 | TAG_SHORT) as u8;
        word[1..=bytes.len()].copy_from_slice(bytes);
        Value::bits(usize::from_le_bytes(word))
    }

    /// An array of exact size. `values` are 1 to [`SMALL_MAX`].
    pub(super) fn list(values: impl ExactSizeIterator<Item = Value>) -> Value {
        debug_assert!((1..=SMALL_MAX).contains(&values.len()));
        Value::pointer(ThinArc::from_header_and_iter((), values).into_raw().cast(), TAG_LIST)
    }

    /// An object of exact size. `members` are 1 to [`SMALL_MAX`], of different names.
    pub(super) fn map(members: impl ExactSizeIterator<Item = Member>) -> Value {
        debug_assert!((1..=SMALL_MAX).contains(&members.len()));
        Value::pointer(ThinArc::from_header_and_iter((), members).into_raw().cast(), TAG_MAP)
    }

    pub(super) fn big(big: Big) -> Value {
        Value::pointer(Arc::into_raw(Arc::new(big)).cast(), TAG_BIG)
    }

    /// The block's reference in its own type, not to be dropped.
    ///
    /// # Safety
    /// The word's tag is that of `ThinArc<(), T>`.
    unsafe fn thin<T>(&self) -> ManuallyDrop<ThinArc<(), T>> {
        // SAFETY: the address is what `into_raw` gave, by the caller's promise and the invariant.
        ManuallyDrop::new(unsafe { ThinArc::from_raw(self.address().cast()) })
    }

    /// As [`Value::thin`], for an `Arc<T>`.
    ///
    /// # Safety
    /// The word's tag is that of `Arc<T>`.
    unsafe fn arc<T>(&self) -> ManuallyDrop<Arc<T>> {
        // SAFETY: as in `thin`.
        ManuallyDrop::new(unsafe { Arc::from_raw(self.address().cast()) })
    }

    /// The elements of a thin block.
    ///
    /// # Safety
    /// The word's tag is that of `ThinArc<(), T>`.
    unsafe fn slice<T>(&self) -> &[T] {
        // SAFETY: by the caller's promise.
        let thin = unsafe { self.thin::<T>() };
        let slice: *const [T] = &thin.slice;
        // SAFETY: the block lives as long as `self` counts as a reference to it.
        unsafe { &*slice }
    }

    /// The contents.
    pub(super) fn word(&self) -> Word<'_> {
        let bits = self.0.addr().get();
        match self.tag() {
            TAG_INT => Word::Number(Number::Int((bits as i64) >> 3)),
            TAG_DOUBLE => Word::Number(Number::Float(f64::from_bits((bits & !TAG_MASK) as u64))),
            TAG_SHORT => self.short(),
            TAG_NUMBER => {
                // SAFETY: the block lives as long as `self`, and the tag is that of `Arc<Number>`.
                Word::Number(unsafe { *self.address().cast::<Number>() })
            }
            TAG_TEXT => {
                // SAFETY: the tag is that of a thin block of bytes, which were copied from a `str`.
                Word::Text(unsafe { std::str::from_utf8_unchecked(self.slice()) })
            }
            // SAFETY: the tag is that of a thin block of values.
            TAG_LIST => Word::List(unsafe { self.slice() }),
            // SAFETY: the tag is that of a thin block of members.
            TAG_MAP => Word::Map(unsafe { self.slice() }),
            // SAFETY: the block lives as long as `self`, and the tag is that of `Arc<Big>`.
            _ => Word::Big(unsafe { &*self.address().cast::<Big>() }),
        }
    }

    fn short(&self) -> Word<'_> {
        match (self.0.addr().get() & 0xFF) >> 3 {
            NULL => Word::Null,
            FALSE => Word::Bool(false),
            TRUE => Word::Bool(true),
            EMPTY_ARRAY => Word::List(&[]),
            EMPTY_OBJECT => Word::Map(&[]),
            length => {
                // SAFETY: the word's own bytes, little-endian; a length is at most SHORT_MAX, and the text
                // was copied from a `str`.
                Word::Text(unsafe {
                    let start = std::ptr::from_ref(self).cast::<u8>().add(1);
                    std::str::from_utf8_unchecked(std::slice::from_raw_parts(start, length))
                })
            }
        }
    }

    /// The elements of an array of exact size, unshared; none for every other word.
    pub(super) fn list_mut(&mut self) -> Option<&mut [Value]> {
        if self.tag() != TAG_LIST {
            return None;
        }
        // SAFETY: the tag is that of a thin block of values.
        Some(unsafe { self.thin_mut::<Value>() })
    }

    /// The members of an object of exact size, unshared; none for every other word.
    pub(super) fn map_mut(&mut self) -> Option<&mut [Member]> {
        if self.tag() != TAG_MAP {
            return None;
        }
        // SAFETY: the tag is that of a thin block of members.
        Some(unsafe { self.thin_mut::<Member>() })
    }

    /// The elements of an array of exact size, if no other value shares it.
    pub(super) fn own_list(&mut self) -> Option<&mut [Value]> {
        if self.is_unshared() { self.list_mut() } else { None }
    }

    /// The members of an object of exact size, if no other value shares it.
    pub(super) fn own_map(&mut self) -> Option<&mut [Member]> {
        if self.is_unshared() { self.map_mut() } else { None }
    }

    /// Writes a number that needs a block over one that has its own; whether this is one.
    pub(crate) fn overwrite_number(&mut self, number: Number) -> bool {
        if self.tag() != TAG_NUMBER || Value::inline_number(number).is_some() {
            return false;
        }
        // SAFETY: the tag is that of `Arc<Number>`.
        let mut arc = unsafe { self.arc::<Number>() };
        Arc::get_mut(&mut arc).map(|own| *own = number).is_some()
    }

    /// Writes a text over one of the same length that has a block of its own; whether this is one.
    pub(crate) fn overwrite_text(&mut self, text: &str) -> bool {
        if self.tag() != TAG_TEXT || !self.is_unshared() {
            return false;
        }
        // SAFETY: the tag is that of a thin block of bytes, and what is written is a whole `str`.
        let bytes = unsafe { self.thin_mut::<u8>() };
        let fits = bytes.len() == text.len();
        if fits {
            bytes.copy_from_slice(text.as_bytes());
        }
        fits
    }

    /// The elements of a thin block that no other reference shares.
    ///
    /// # Safety
    /// The word's tag is that of `ThinArc<(), T>`.
    unsafe fn thin_mut<T: Clone>(&mut self) -> &mut [T] {
        // SAFETY: by the caller's promise.
        let mut thin = unsafe { self.thin::<T>() };
        if ThinArc::strong_count(&thin) != 1 {
            let copy = ThinArc::from_header_and_iter((), thin.slice.iter().cloned());
            let tag = self.tag();
            *self = Value::pointer(copy.into_raw().cast(), tag);
            // SAFETY: the copy has the same tag.
            thin = unsafe { self.thin::<T>() };
        }
        let slice: *mut [T] = thin.with_arc_mut(|arc| match Arc::get_mut(arc) {
            Some(body) => std::ptr::from_mut(body.slice_mut()),
            None => unreachable!("a block that was just found or made unshared"),
        });
        // SAFETY: the block lives as long as `self`, which is its only reference and is borrowed exclusively.
        unsafe { &mut *slice }
    }

    /// The big form, unshared; none for every other word.
    pub(super) fn big_mut(&mut self) -> Option<&mut Big> {
        if self.tag() != TAG_BIG {
            return None;
        }
        // SAFETY: the tag is that of `Arc<Big>`.
        let mut arc = unsafe { self.arc::<Big>() };
        if Arc::count(&arc) != 1 {
            let copy = Big::clone(&arc);
            *self = Value::big(copy);
            // SAFETY: the copy has the same tag.
            arc = unsafe { self.arc::<Big>() };
        }
        let big: *mut Big = match Arc::get_mut(&mut arc) {
            Some(big) => big,
            None => unreachable!("a block that was just found or made unshared"),
        };
        // SAFETY: the block lives as long as `self`, which is its only reference and is borrowed exclusively.
        Some(unsafe { &mut *big })
    }

    /// Bytes that the allocator takes for this value's own block; children's blocks and the word apart.
    pub(crate) fn block_bytes(&self) -> usize {
        // A thin block begins with the count of references and the number of elements.
        let thin = |bytes: usize| allocated(2 * size_of::<usize>() + bytes);
        match (self.tag(), self.word()) {
            (TAG_NUMBER, _) => allocated(size_of::<usize>() + size_of::<Number>()),
            (TAG_TEXT, Word::Text(text)) => thin(text.len()),
            (TAG_LIST, Word::List(values)) => thin(size_of_val(values)),
            (TAG_MAP, Word::Map(members)) => thin(size_of_val(members)),
            (TAG_BIG, Word::Big(big)) => big.own_bytes(),
            _ => 0,
        }
    }

    /// Whether no other value shares this one's block, if it has one.
    pub(super) fn is_unshared(&self) -> bool {
        match self.tag() {
            // SAFETY: the tag is that of the type.
            TAG_TEXT => ThinArc::strong_count(&*unsafe { self.thin::<u8>() }) == 1,
            // SAFETY: the tag is that of the type.
            TAG_LIST => ThinArc::strong_count(&*unsafe { self.thin::<Value>() }) == 1,
            // SAFETY: the tag is that of the type.
            TAG_MAP => ThinArc::strong_count(&*unsafe { self.thin::<Member>() }) == 1,
            // SAFETY: the tag is that of the type.
            TAG_BIG => Arc::count(&*unsafe { self.arc::<Big>() }) == 1,
            // SAFETY: the tag is that of the type.
            TAG_NUMBER => Arc::count(&*unsafe { self.arc::<Number>() }) == 1,
            _ => true,
        }
    }

    /// Whether two words are the same bits: equal values, as inline values and shared blocks are.
    pub(crate) fn is_same(&self, other: &Value) -> bool {
        self.0.addr() == other.0.addr()
    }

    /// Whether the text lies in the word itself, so that equal texts are the same bits.
    pub(crate) fn is_inline_text(&self) -> bool {
        self.tag() == TAG_SHORT
    }
}

impl Clone for Value {
    #[inline]
    fn clone(&self) -> Value {
        // The counted clone is never dropped: the new word is that reference.
        match self.tag() {
            // SAFETY: the tag is that of the type, in each arm.
            TAG_NUMBER => _ = unsafe { self.arc::<Number>() }.clone(),
            // SAFETY: the tag is that of the type.
            TAG_TEXT => _ = unsafe { self.thin::<u8>() }.clone(),
            // SAFETY: the tag is that of the type.
            TAG_LIST => _ = unsafe { self.thin::<Value>() }.clone(),
            // SAFETY: the tag is that of the type.
            TAG_MAP => _ = unsafe { self.thin::<Member>() }.clone(),
            // SAFETY: the tag is that of the type.
            TAG_BIG => _ = unsafe { self.arc::<Big>() }.clone(),
            _ => {}
        }
        Value(self.0)
    }
}

impl Drop for Value {
    #[inline]
    fn drop(&mut self) {
        match self.tag() {
            // SAFETY: the tag is that of the type in each arm, and this is the reference's last use.
            TAG_NUMBER => drop(ManuallyDrop::into_inner(unsafe { self.arc::<Number>() })),
            // SAFETY: the tag is that of the type.
            TAG_TEXT => drop(ManuallyDrop::into_inner(unsafe { self.thin::<u8>() })),
            // SAFETY: the tag is that of the type.
            TAG_LIST => drop(ManuallyDrop::into_inner(unsafe { self.thin::<Value>() })),
            // SAFETY: the tag is that of the type.
            TAG_MAP => drop(ManuallyDrop::into_inner(unsafe { self.thin::<Member>() })),
            // SAFETY: the tag is that of the type.
            TAG_BIG => drop(ManuallyDrop::into_inner(unsafe { self.arc::<Big>() })),
            _ => {}
        }
    }
}

impl Default for Value {
    fn default() -> Value {
        Value::NULL
    }
}
