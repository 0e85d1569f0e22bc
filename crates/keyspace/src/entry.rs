//! An entry: key, metadata and value of one key in a single allocation. All raw layout lives in this file.
//!
//! ```text
//! 0      u32  kind:4 | encoding:4 | lru:24 (seconds, or LFU minutes:16 and counter:8)
//! 4      u8   flags: 1 expiry present, 2 key length is u32, 4 value length is u32
//! 5      u8 or u32  key length
//! …      i64  expiry, Unix milliseconds, if flagged
//! …      key bytes
//! …      value: by encoding
//!          integer   i64
//!          inline    u8 or u32 length, bytes
//!          boxed     pointer to a reference-counted Vec<u8>
//!          object    padding to 8 bytes, then the List, Set, Hash or ZSet itself
//! ```
//! Fields are unaligned but for objects; the allocation is 8-aligned and a multiple of 8 long.
//! Invariant: the size of the allocation is a function of flags, encoding and lengths ([`RawEntry::layout`]).

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use martlet_base::copy;
use martlet_base::limits::{EMBSTR_MAX_BYTES, STRING_INLINE_MAX_BYTES};
use martlet_base::number::decimal_len;
use martlet_base::prefetch::prefetch;
use triomphe::Arc;

use crate::value::{
    Facts, Kind, OBJECT_BYTES, Object, StrValue, Value, drop_object, object_facts_indexed, object_facts_now,
    object_len, read_object, record_object_facts, spelt_number,
};

const HAS_EXPIRY: u8 = 1;
const WIDE_KEY: u8 = 2;
const WIDE_VALUE: u8 = 4;

/// How a string's bytes are stored, and what OBJECT ENCODING says of them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Store {
    /// An i64; `int`.
    Int = 0,
    /// In the entry; `embstr`.
    Embstr = 1,
    /// In the entry; `raw`.
    Raw = 2,
    /// In a separate allocation; `raw`.
    Boxed = 3,
    /// Not a string.
    Object = 4,
}

impl Store {
    fn from_bits(bits: u32) -> Store {
        match bits {
            0 => Store::Int,
            1 => Store::Embstr,
            2 => Store::Raw,
            3 => Store::Boxed,
            _ => Store::Object,
        }
    }
}

/// A string on its way into an entry.
#[derive(Copy, Clone, Debug)]
pub(crate) enum NewStr<'a> {
    Int(i64),
    /// The bytes, and whether OBJECT ENCODING must say `raw` however short they are.
    Bytes(&'a [u8], bool),
    /// Bytes that are too long for an entry, to be shared.
    Shared(&'a Arc<Vec<u8>>),
}

impl<'a> NewStr<'a> {
    /// As SET stores it: an integer if the text is one.
    #[inline]
    pub(crate) fn encode(bytes: &'a [u8]) -> NewStr<'a> {
        spelt_number(bytes).map_or(NewStr::Bytes(bytes, false), NewStr::Int)
    }

    #[inline]
    fn store(&self) -> Store {
        match self {
            NewStr::Int(_) => Store::Int,
            NewStr::Bytes(bytes, _) if bytes.len() > STRING_INLINE_MAX_BYTES => Store::Boxed,
            NewStr::Bytes(bytes, raw) if *raw || bytes.len() > EMBSTR_MAX_BYTES => Store::Raw,
            NewStr::Bytes(..) => Store::Embstr,
            NewStr::Shared(_) => Store::Boxed,
        }
    }

    #[inline]
    fn inline_len(&self) -> usize {
        match self {
            NewStr::Int(_) | NewStr::Shared(_) => 0,
            NewStr::Bytes(bytes, _) => bytes.len(),
        }
    }
}

/// What [`RawEntry::overwrite_alike`] did.
pub(crate) enum Overwritten {
    /// Nothing: the entry holds something else.
    No,
    /// As many bytes are there as before.
    Bytes,
    /// A number is there in the place of another.
    Number { old: i64, new: i64 },
}

/// A pointer to an entry's allocation. Owned by exactly one table slot.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) struct RawEntry(NonNull<u8>);

/// Sizes and offsets that follow from an entry's flags and lengths.
struct Shape {
    flags: u8,
    key_len: usize,
    store: Store,
    inline_len: usize,
}

impl Shape {
    #[inline]
    fn expiry_at(&self) -> usize {
        if self.flags & WIDE_KEY == 0 { 6 } else { 9 }
    }

    #[inline]
    fn key_at(&self) -> usize {
        self.expiry_at() + if self.flags & HAS_EXPIRY == 0 { 0 } else { 8 }
    }

    #[inline]
    fn value_at(&self) -> usize {
        let end = self.key_at() + self.key_len;
        if self.store == Store::Object { end.next_multiple_of(8) } else { end }
    }

    #[inline]
    fn total(&self) -> usize {
        let value = match self.store {
            Store::Int | Store::Boxed => 8,
            Store::Embstr | Store::Raw => self.inline_len + if self.flags & WIDE_VALUE == 0 { 1 } else { 4 },
            Store::Object => OBJECT_BYTES,
        };
        (self.value_at() + value).next_multiple_of(8)
    }

    #[inline]
    fn new(key_len: usize, expires: bool, store: Store, inline_len: usize) -> Shape {
        let inline = matches!(store, Store::Embstr | Store::Raw);
        let flags = (if expires { HAS_EXPIRY } else { 0 })
            | (if key_len > 255 { WIDE_KEY } else { 0 })
            | (if inline && inline_len > 255 { WIDE_VALUE } else { 0 });
        Shape { flags, key_len, store, inline_len: if inline { inline_len } else { 0 } }
    }
}

impl RawEntry {
    /// The pointer's bits, below 2^48, for a table slot.
    #[inline]
    pub(crate) fn to_bits(self) -> u64 {
        self.0.as_ptr() as u64
    }

    /// # Safety
    /// `bits` come from [`RawEntry::to_bits`] of an entry that is still allocated.
    #[inline]
    pub(crate) unsafe fn from_bits(bits: u64) -> RawEntry {
        // SAFETY: the caller vouches for a pointer that was not null.
        RawEntry(unsafe { NonNull::new_unchecked(bits as *mut u8) })
    }

    /// Asks for the line that it begins in: kind, access, the beginning of the key.
    #[inline]
    pub(crate) fn prefetch(self) {
        prefetch(self.0.as_ptr());
    }

    #[inline]
    fn read<T: Copy>(self, at: usize) -> T {
        // SAFETY: offsets come from the entry's own shape, so they lie in its allocation; reads are
        // unaligned-safe.
        unsafe { self.0.as_ptr().add(at).cast::<T>().read_unaligned() }
    }

    #[inline]
    fn write<T: Copy>(self, at: usize, value: T) {
        // SAFETY: as in `read`; the owner of the entry has exclusive access when it writes.
        unsafe { self.0.as_ptr().add(at).cast::<T>().write_unaligned(value) }
    }

    #[inline]
    fn flags(self) -> u8 {
        self.read(4)
    }

    #[inline]
    pub(crate) fn meta(self) -> u32 {
        self.read(0)
    }

    #[inline]
    pub(crate) fn set_lru(self, lru: u32) {
        self.write(0, (self.meta() & 0xff) | (lru << 8));
    }

    #[inline]
    pub(crate) fn kind(self) -> Kind {
        Kind::from_bits(self.meta() & 15)
    }

    #[inline]
    pub(crate) fn store(self) -> Store {
        Store::from_bits((self.meta() >> 4) & 15)
    }

    #[inline]
    fn key_len(self) -> usize {
        if self.flags() & WIDE_KEY == 0 {
            usize::from(self.read::<u8>(5))
        } else {
            self.read::<u32>(5) as usize
        }
    }

    #[inline]
    fn shape(self) -> Shape {
        let mut shape =
            Shape { flags: self.flags(), key_len: self.key_len(), store: self.store(), inline_len: 0 };
        if matches!(shape.store, Store::Embstr | Store::Raw) {
            let at = shape.value_at();
            shape.inline_len = if shape.flags & WIDE_VALUE == 0 {
                usize::from(self.read::<u8>(at))
            } else {
                self.read::<u32>(at) as usize
            };
        }
        shape
    }

    /// Bytes of the allocation.
    pub(crate) fn layout_bytes(self) -> usize {
        self.shape().total()
    }

    /// The key.
    #[inline]
    pub(crate) fn key<'a>(self) -> &'a [u8] {
        let at = Shape { flags: self.flags(), key_len: 0, store: Store::Int, inline_len: 0 }.key_at();
        // SAFETY: the key's bytes lie in the allocation and are never changed while it lives; callers bound
        // 'a by a borrow of the table that owns the entry.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(at), self.key_len()) }
    }

    /// Whether the key equals `key`.
    #[inline]
    pub(crate) fn key_is(self, key: &[u8]) -> bool {
        self.key_len() == key.len() && self.key() == key
    }

    /// When the key expires, in Unix milliseconds.
    #[inline]
    pub(crate) fn expiry_ms(self) -> Option<i64> {
        let flags = self.flags();
        (flags & HAS_EXPIRY != 0).then(|| self.read(if flags & WIDE_KEY == 0 { 6 } else { 9 }))
    }

    /// Overwrites the expiry where room for one is reserved; false without room.
    pub(crate) fn overwrite_expiry(self, at_ms: i64) -> bool {
        let flags = self.flags();
        if flags & HAS_EXPIRY == 0 {
            return false;
        }
        self.write(if flags & WIDE_KEY == 0 { 6 } else { 9 }, at_ms);
        true
    }

    /// The string value; `None` for other kinds.
    #[inline]
    pub(crate) fn str_value<'a>(self) -> Option<StrValue<'a>> {
        let shape = self.shape();
        let at = shape.value_at();
        Some(match shape.store {
            Store::Int => StrValue::Int(self.read(at)),
            Store::Embstr | Store::Raw => {
                let from = at + if shape.flags & WIDE_VALUE == 0 { 1 } else { 4 };
                // SAFETY: the shape's bytes lie in the allocation; 'a is bounded by the caller as in `key`.
                StrValue::Bytes(unsafe {
                    std::slice::from_raw_parts(self.0.as_ptr().add(from), shape.inline_len)
                })
            }
            Store::Boxed => {
                let boxed: *const Vec<u8> = self.read(at);
                // SAFETY: the pointer came from Arc::into_raw when the entry was built and is released only
                // with it.
                StrValue::Bytes(unsafe { &*boxed }.as_slice())
            }
            Store::Object => return None,
        })
    }

    /// Bytes of a string, elements of a collection.
    #[inline]
    pub(crate) fn size(self) -> usize {
        match self.str_value() {
            Some(StrValue::Int(number)) => decimal_len(number),
            Some(StrValue::Bytes(bytes)) => bytes.len(),
            // SAFETY: the kind is that of the entry's object; the object does not change during the call.
            None => unsafe { object_len(self.kind(), self.object_at()) },
        }
    }

    /// The boxed string's owner, for changes in place; `None` when the string is not boxed.
    pub(crate) fn with_boxed<R>(self, change: impl FnOnce(&mut Arc<Vec<u8>>) -> R) -> Option<R> {
        if self.store() != Store::Boxed {
            return None;
        }
        let at = self.shape().value_at();
        // SAFETY: the pointer came from Arc::into_raw; the Arc made here is put back below before anyone else
        // looks.
        let mut arc = unsafe { Arc::from_raw(self.read::<*const Vec<u8>>(at)) };
        let result = change(&mut arc);
        self.write(at, Arc::into_raw(arc));
        Some(result)
    }

    /// The string's bytes for changes in place, after which it is `raw`; `None` for numbers and other kinds.
    pub(crate) fn str_bytes_mut<'a>(self) -> Option<&'a mut [u8]> {
        let shape = self.shape();
        let at = shape.value_at();
        match shape.store {
            Store::Embstr | Store::Raw => {
                self.write(0, (self.meta() & 0xffff_ff0f) | ((Store::Raw as u32) << 4));
                let from = at + if shape.flags & WIDE_VALUE == 0 { 1 } else { 4 };
                // SAFETY: the shape's bytes lie in the allocation; callers bound 'a by exclusive access to
                // the table.
                Some(unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr().add(from), shape.inline_len) })
            }
            Store::Boxed => {
                self.with_boxed(|bytes| {
                    Arc::make_mut(bytes);
                });
                let boxed: *mut Vec<u8> = self.read(at);
                // SAFETY: as in `str_value`; `make_mut` left this entry the only owner, and access is
                // exclusive.
                Some(unsafe { &mut *boxed }.as_mut_slice())
            }
            Store::Int | Store::Object => None,
        }
    }

    /// Where the object lies.
    #[inline]
    fn object_at(self) -> *mut u8 {
        // SAFETY: `value_at` is in the allocation and 8-aligned for objects.
        unsafe { self.0.as_ptr().add(self.shape().value_at()) }
    }

    /// The object, if the entry holds a `T`.
    #[inline]
    pub(crate) fn object<'a, T: Object>(self) -> Option<&'a mut T> {
        // SAFETY: the kind says what was written there; callers hand out `&mut` only from exclusive access.
        if self.kind() == T::KIND { unsafe { T::at_mut(self.object_at()) } } else { None }
    }

    /// The value's facts for the database's index; `None` for types without any.
    #[inline]
    pub(crate) fn facts(self) -> Option<Facts> {
        let kind = self.kind();
        // SAFETY: the kind is that of the entry's object, which does not change during the call.
        if kind.has_facts() { Some(unsafe { object_facts_now(kind, self.object_at()) }) } else { None }
    }

    /// The facts that the index has of the value; see [`RawEntry::facts`].
    #[inline]
    pub(crate) fn indexed_facts(self) -> Option<Facts> {
        let kind = self.kind();
        // SAFETY: as in `facts`.
        if kind.has_facts() { Some(unsafe { object_facts_indexed(kind, self.object_at()) }) } else { None }
    }

    /// Has the value record which of its facts the index has: those of now, or none.
    pub(crate) fn record_facts(self, facts: Option<Facts>) {
        // SAFETY: the kind is that of the entry's object; callers change entries only by exclusive access.
        unsafe { record_object_facts(self.kind(), self.object_at(), facts) };
    }

    /// The object's place with its kind; the entry must hold an object.
    pub(crate) fn object_ptr(self) -> *mut u8 {
        debug_assert_eq!(self.store(), Store::Object);
        self.object_at()
    }

    fn allocate(shape: &Shape, key: &[u8], kind: Kind, lru: u32, expiry_ms: Option<i64>) -> RawEntry {
        let total = shape.total();
        // SAFETY: total is at least 8 and 8 is a valid alignment.
        let layout = unsafe { Layout::from_size_align_unchecked(total, 8) };
        // SAFETY: the layout is not empty.
        let block = unsafe { alloc(layout) };
        let Some(block) = NonNull::new(block) else { handle_alloc_error(layout) };
        let entry = RawEntry(block);
        entry.write(0, kind as u32 | ((shape.store as u32) << 4) | (lru << 8));
        entry.write(4, shape.flags);
        if shape.flags & WIDE_KEY == 0 {
            entry.write(5, key.len() as u8);
        } else {
            entry.write(5, key.len() as u32);
        }
        if let Some(at_ms) = expiry_ms {
            entry.write(shape.expiry_at(), at_ms);
        }
        // SAFETY: the key's place in the fresh allocation is `key_at..key_at + key.len()`.
        unsafe { std::ptr::copy_nonoverlapping(key.as_ptr(), block.as_ptr().add(shape.key_at()), key.len()) };
        entry
    }

    /// A new entry that holds a string.
    #[inline]
    pub(crate) fn new_str(key: &[u8], value: NewStr<'_>, lru: u32, expiry_ms: Option<i64>) -> RawEntry {
        let store = value.store();
        let shape = Shape::new(key.len(), expiry_ms.is_some(), store, value.inline_len());
        let entry = RawEntry::allocate(&shape, key, Kind::String, lru, expiry_ms);
        entry.write_str(&shape, value);
        entry
    }

    #[inline]
    fn write_str(self, shape: &Shape, value: NewStr<'_>) {
        let at = shape.value_at();
        match (value, shape.store) {
            (NewStr::Int(number), _) => self.write(at, number),
            (NewStr::Shared(bytes), _) => self.write(at, Arc::into_raw(Arc::clone(bytes))),
            (NewStr::Bytes(bytes, _), Store::Boxed) => {
                self.write(at, Arc::into_raw(Arc::new(copy::to_vec(bytes))));
            }
            (NewStr::Bytes(bytes, _), _) => {
                let from = if shape.flags & WIDE_VALUE == 0 {
                    self.write(at, bytes.len() as u8);
                    at + 1
                } else {
                    self.write(at, bytes.len() as u32);
                    at + 4
                };
                // SAFETY: the shape was made for these bytes, so they fit; source and entry never overlap.
                unsafe { copy::copy(bytes.as_ptr(), self.0.as_ptr().add(from), bytes.len()) };
            }
        }
    }

    /// Writes a number over a number or bytes over as many bytes, and the access information with them; the
    /// expiry stays. What SET and INCR do most, made short.
    #[inline]
    pub(crate) fn overwrite_alike(self, value: NewStr<'_>, lru: u32) -> Overwritten {
        let (meta, flags) = (self.meta(), self.flags());
        let old = Store::from_bits((meta >> 4) & 15);
        let at = Shape { flags, key_len: self.key_len(), store: old, inline_len: 0 }.value_at();
        let mut overwritten = Overwritten::Bytes;
        match (value, old) {
            (NewStr::Int(new), Store::Int) => {
                let old = self.read(at);
                self.write(at, new);
                overwritten = Overwritten::Number { old, new };
            }
            (NewStr::Bytes(bytes, _), Store::Embstr | Store::Raw) => {
                let (len, from) = if flags & WIDE_VALUE == 0 {
                    (usize::from(self.read::<u8>(at)), at + 1)
                } else {
                    (self.read::<u32>(at) as usize, at + 4)
                };
                if len != bytes.len() {
                    return Overwritten::No;
                }
                // SAFETY: the entry's own bytes, as many as the new ones; the two never overlap.
                unsafe { copy::copy(bytes.as_ptr(), self.0.as_ptr().add(from), len) };
            }
            _ => return Overwritten::No,
        }
        self.write(0, (meta & 15) | ((value.store() as u32) << 4) | (lru << 8));
        overwritten
    }

    /// Whether the entry has an expiry.
    #[inline]
    pub(crate) fn expires(self) -> bool {
        self.flags() & HAS_EXPIRY != 0
    }

    /// Writes a string over this entry's string where the new one needs the same allocation, and answers the
    /// old one's size; `None` when it does not.
    #[inline]
    pub(crate) fn overwrite_str(self, value: NewStr<'_>, expires: bool) -> Option<usize> {
        let old = self.shape();
        if matches!(old.store, Store::Boxed | Store::Object) || (old.flags & HAS_EXPIRY != 0) != expires {
            return None;
        }
        let store = value.store();
        let new = Shape::new(old.key_len, expires, store, value.inline_len());
        if store == Store::Boxed || new.total() != old.total() {
            return None;
        }
        let old_size = self.size();
        self.write(0, (self.meta() & 0xffff_ff0f) | ((store as u32) << 4));
        self.write(4, new.flags);
        self.write_str(&new, value);
        Some(old_size)
    }

    /// A new entry that holds `value`, which moves into it.
    pub(crate) fn new_value(key: &[u8], value: Value, lru: u32, expiry_ms: Option<i64>) -> RawEntry {
        match value {
            Value::Int(number) => RawEntry::new_str(key, NewStr::Int(number), lru, expiry_ms),
            Value::Str { bytes, raw } if bytes.len() <= STRING_INLINE_MAX_BYTES => {
                RawEntry::new_str(key, NewStr::Bytes(&bytes, raw), lru, expiry_ms)
            }
            Value::Str { bytes, .. } => {
                let shape = Shape::new(key.len(), expiry_ms.is_some(), Store::Boxed, 0);
                let entry = RawEntry::allocate(&shape, key, Kind::String, lru, expiry_ms);
                entry.write(shape.value_at(), Arc::into_raw(bytes));
                entry
            }
            object => {
                let shape = Shape::new(key.len(), expiry_ms.is_some(), Store::Object, 0);
                let entry = RawEntry::allocate(&shape, key, object.kind(), lru, expiry_ms);
                object.write_object(entry.object_at());
                entry
            }
        }
    }

    /// Frees the allocation and gives the value that was in it.
    pub(crate) fn into_value(self) -> Value {
        let value = match self.str_value() {
            Some(StrValue::Int(number)) => Value::Int(number),
            Some(StrValue::Bytes(bytes)) if self.store() != Store::Boxed => {
                Value::Str { bytes: Arc::new(bytes.to_vec()), raw: self.store() == Store::Raw }
            }
            Some(StrValue::Bytes(_)) => {
                let at = self.shape().value_at();
                // SAFETY: the pointer came from Arc::into_raw and its owner, this entry, ends here.
                Value::Str { bytes: unsafe { Arc::from_raw(self.read::<*const Vec<u8>>(at)) }, raw: true }
            }
            // SAFETY: the kind is that of the written object; the entry is freed below without dropping it.
            None => unsafe { read_object(self.kind(), self.object_at()) },
        };
        self.free_block();
        value
    }

    /// Drops the value and frees the allocation.
    pub(crate) fn drop_entry(self) {
        match self.store() {
            Store::Int | Store::Embstr | Store::Raw => {}
            Store::Boxed => {
                let at = self.shape().value_at();
                // SAFETY: as in `into_value`.
                drop(unsafe { Arc::from_raw(self.read::<*const Vec<u8>>(at)) });
            }
            // SAFETY: as in `into_value`.
            Store::Object => unsafe { drop_object(self.kind(), self.object_at()) },
        }
        self.free_block();
    }

    /// Frees the allocation without dropping the value.
    #[inline]
    pub(crate) fn free_block(self) {
        // SAFETY: every entry was allocated in `allocate` with this layout, a function of its shape.
        unsafe { dealloc(self.0.as_ptr(), Layout::from_size_align_unchecked(self.shape().total(), 8)) };
    }

    /// The same entry with or without an expiry, in a new allocation; this one is freed, the value moves.
    pub(crate) fn rebuild_with_expiry(self, expiry_ms: Option<i64>) -> RawEntry {
        let old = self.shape();
        let shape = Shape::new(old.key_len, expiry_ms.is_some(), old.store, old.inline_len);
        let entry = RawEntry::allocate(&shape, self.key(), self.kind(), self.meta() >> 8, expiry_ms);
        let bytes = match old.store {
            Store::Int | Store::Boxed => 8,
            Store::Embstr | Store::Raw => old.inline_len + if old.flags & WIDE_VALUE == 0 { 1 } else { 4 },
            Store::Object => OBJECT_BYTES,
        };
        // SAFETY: both shapes hold `bytes` value bytes at their `value_at`; the value is moved bit by bit and
        // the old block freed without dropping it.
        unsafe {
            let from = self.0.as_ptr().add(old.value_at());
            std::ptr::copy_nonoverlapping(from, entry.0.as_ptr().add(shape.value_at()), bytes);
        }
        self.free_block();
        entry
    }
}
