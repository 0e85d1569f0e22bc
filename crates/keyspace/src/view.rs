//! Views of an entry: for as long as the database is borrowed, or apart from that.

use triomphe::Arc;

use crate::entry::{RawEntry, Store};
use crate::value::{Kind, Object, ObjectRef, StrValue, Value, ValueRef, clone_object, object_facts};

/// A read view of an entry.
#[derive(Copy, Clone)]
pub struct Entry<'a> {
    raw: RawEntry,
    owner: std::marker::PhantomData<&'a RawEntry>,
}

impl<'a> Entry<'a> {
    pub(crate) fn new(raw: RawEntry) -> Entry<'a> {
        Entry { raw, owner: std::marker::PhantomData }
    }

    /// The entry without its borrow, for callers that look it up at one place and use it at another.
    #[inline]
    pub fn detach(self) -> Detached {
        Detached(self.raw)
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        self.raw.key()
    }

    /// The type of the value.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.raw.kind()
    }

    /// The string value; `None` for other kinds.
    #[inline]
    pub fn str(&self) -> Option<StrValue<'a>> {
        self.raw.str_value()
    }

    /// The bytes of a string in a separate allocation, to be held beyond the lock; `None` for short strings,
    /// numbers and other kinds. A later change of the string changes a copy.
    pub fn shared_str(&self) -> Option<Arc<Vec<u8>>> {
        self.raw.with_boxed(|bytes| bytes.clone())
    }

    /// The collection, if it is a `T`.
    #[inline]
    pub fn object<T: Object>(&self) -> Option<&'a T> {
        self.raw.object::<T>().map(|object| &*object)
    }

    /// The value where it lies.
    #[inline]
    pub fn view(&self) -> ValueRef<'a> {
        match self.raw.str_value() {
            Some(text) => ValueRef::Str(text),
            // SAFETY: the kind is that of the entry's object; the borrow of the table forbids changes.
            None => ValueRef::Object(unsafe { ObjectRef::new(self.raw.kind(), self.raw.object_ptr()) }),
        }
    }

    /// The name that TYPE answers.
    pub fn type_name(&self) -> &'a str {
        self.view().type_name()
    }

    /// Bytes of a string, elements of a collection.
    pub fn size(&self) -> usize {
        self.raw.size()
    }

    /// When the key expires, Unix milliseconds.
    #[inline]
    pub fn expiry_ms(&self) -> Option<i64> {
        self.raw.expiry_ms()
    }

    /// The 24 bits of access information (seconds of the LRU clock, or LFU minutes and counter).
    pub fn lru(&self) -> u32 {
        self.raw.meta() >> 8
    }

    /// What OBJECT ENCODING answers.
    pub fn encoding(&self) -> &'static str {
        match self.raw.store() {
            Store::Int => "int",
            Store::Embstr => "embstr",
            Store::Raw | Store::Boxed => "raw",
            Store::Object => self.object_facts().0,
        }
    }

    /// Encoding and allocated bytes of a collection.
    fn object_facts(&self) -> (&'static str, usize) {
        // SAFETY: the kind is that of the entry's object; the borrow of the table forbids changes.
        unsafe { object_facts(self.raw.kind(), self.raw.object_ptr()) }
    }

    /// The value, shared where it can be: long strings by reference, collections copy on write.
    pub fn value(&self) -> Value {
        match self.raw.str_value() {
            Some(StrValue::Int(number)) => Value::Int(number),
            Some(StrValue::Bytes(bytes)) => match self.raw.with_boxed(|boxed| boxed.clone()) {
                Some(bytes) => Value::Str { bytes, raw: true },
                None => Value::Str { bytes: Arc::new(bytes.to_vec()), raw: self.raw.store() == Store::Raw },
            },
            // SAFETY: the kind is that of the entry's object; the borrow of the table forbids changes.
            None => unsafe { clone_object(self.raw.kind(), self.raw.object_ptr()) },
        }
    }

    /// Bytes of the entry's allocation and of all that the value has allocated.
    pub fn heap_bytes(&self) -> usize {
        let value = match self.raw.store() {
            Store::Int | Store::Embstr | Store::Raw => 0,
            Store::Boxed => self.raw.with_boxed(|bytes| bytes.capacity()).unwrap_or(0) + BOX_BYTES,
            Store::Object => self.object_facts().1,
        };
        self.raw.layout_bytes() + value
    }
}

/// Bytes of a long string besides its text: reference count and vector.
const BOX_BYTES: usize = size_of::<Vec<u8>>() + size_of::<usize>();

/// An entry without the borrow that keeps it valid; see [`Entry::detach`].
#[derive(Copy, Clone)]
pub struct Detached(RawEntry);

impl Detached {
    /// The entry again.
    ///
    /// # Safety
    /// The database has not been changed since the entry was detached, and is not changed for as long as 'a.
    #[inline]
    pub unsafe fn attach<'a>(self) -> Entry<'a> {
        Entry::new(self.0)
    }

    pub(crate) fn raw(self) -> RawEntry {
        self.0
    }
}
