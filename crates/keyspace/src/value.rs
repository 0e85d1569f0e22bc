//! Values of keys: the owned [`Value`], the typed [`Object`]s that live inside entries, and views of strings.
//!
//! The list of object types stands once, in the `objects!` call below; kinds, names and the raw moves follow
//! from it.

use martlet_base::number::{NumberBuffer, format_i64, parse_i64};
use triomphe::Arc;

/// Bytes that an entry reserves for an object; each object type fits.
pub(crate) const OBJECT_BYTES: usize = 8;

/// A string value as it is stored.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum StrValue<'a> {
    /// Stored as a number; its text is its canonical decimal form.
    Int(i64),
    /// Stored as bytes.
    Bytes(&'a [u8]),
}

impl<'a> StrValue<'a> {
    /// The bytes, spelt into `buffer` if the value is a number.
    #[inline]
    pub fn bytes<'b>(self, buffer: &'b mut NumberBuffer) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            StrValue::Int(number) => format_i64(number, buffer),
            StrValue::Bytes(bytes) => bytes,
        }
    }

    /// Length of the text in bytes.
    pub fn len(self) -> usize {
        self.bytes(&mut NumberBuffer::new()).len()
    }

    /// Whether the text is empty.
    pub fn is_empty(self) -> bool {
        matches!(self, StrValue::Bytes([]))
    }

    /// A copy of the text.
    pub fn to_vec(self) -> Vec<u8> {
        self.bytes(&mut NumberBuffer::new()).to_vec()
    }
}

/// A collection type that can live in an entry.
pub trait Object: Sized {
    /// The kind that says an entry holds this type.
    const KIND: Kind;
    /// An empty collection in its smallest encoding.
    fn empty() -> Self;
    /// Number of elements; a collection without any does not stay in the keyspace, unless it is a stream.
    fn element_count(&self) -> usize;
    /// What OBJECT ENCODING answers.
    fn encoding(&self) -> &'static str;
    /// Bytes of all that it has allocated.
    fn heap_bytes(&self) -> usize;
    /// The owned form.
    fn into_value(self) -> Value;
}

macro_rules! objects {
    ($($variant:ident = $number:literal, $type:ty, $name:literal, $new:expr;)*) => {
        /// A key's type. The numbers are stored in entries.
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Kind {
            /// Bytes or an integer.
            String = 0,
            $(#[doc = concat!("A ", $name, ".")] $variant = $number,)*
        }

        impl Kind {
            #[inline]
            pub(crate) fn from_bits(bits: u32) -> Kind {
                match bits {
                    $($number => Kind::$variant,)*
                    _ => Kind::String,
                }
            }

            /// The name that TYPE answers.
            pub fn name(self) -> &'static str {
                match self {
                    Kind::String => "string",
                    $(Kind::$variant => $name,)*
                }
            }

            /// The kind with this TYPE name, in any case of letters.
            pub fn from_name(name: &[u8]) -> Option<Kind> {
                if name.eq_ignore_ascii_case(b"string") { return Some(Kind::String); }
                $(if name.eq_ignore_ascii_case($name.as_bytes()) { return Some(Kind::$variant); })*
                None
            }
        }

        /// An owned value. Cloning shares: strings by reference count, collections copy on write.
        #[derive(Clone, Debug)]
        pub enum Value {
            /// A string stored as a number.
            Int(i64),
            /// A string stored as bytes; `raw` when OBJECT ENCODING must not say `embstr`.
            Str {
                /// The text.
                bytes: Arc<Vec<u8>>,
                /// Changed in place once, or long.
                raw: bool,
            },
            $(#[doc = concat!("A ", $name, ".")] $variant($type),)*
        }

        impl Value {
            /// The value's type.
            pub fn kind(&self) -> Kind {
                match self {
                    Value::Int(_) | Value::Str { .. } => Kind::String,
                    $(Value::$variant(_) => Kind::$variant,)*
                }
            }

            /// Moves an object to `place`; strings are not moved this way.
            pub(crate) fn write_object(self, place: *mut u8) {
                match self {
                    // SAFETY: the entry reserves OBJECT_BYTES, 8-aligned, at `place`; see the assertion
                    // below.
                    $(Value::$variant(object) => unsafe { place.cast::<$type>().write(object) },)*
                    Value::Int(_) | Value::Str { .. } => unreachable!("strings are not objects"),
                }
            }

            /// How many allocations freeing this value takes, roughly: what decides whether it is freed in
            /// the background.
            pub fn free_effort(&self) -> usize {
                match self {
                    Value::Int(_) | Value::Str { .. } => 1,
                    $(Value::$variant(object) => object.element_count(),)*
                }
            }
        }

        $(
            const _: () = assert!(size_of::<$type>() <= OBJECT_BYTES && align_of::<$type>() <= 8);

            impl Object for $type {
                const KIND: Kind = Kind::$variant;
                fn empty() -> Self { $new }
                fn element_count(&self) -> usize { self.len() }
                fn encoding(&self) -> &'static str { self.encoding() }
                fn heap_bytes(&self) -> usize { self.heap_bytes() }
                fn into_value(self) -> Value { Value::$variant(self) }
            }
        )*

        /// # Safety
        /// `place` holds an object of `kind`, which the caller forgets afterwards.
        pub(crate) unsafe fn read_object(kind: Kind, place: *mut u8) -> Value {
            match kind {
                // SAFETY: the caller vouches for the type.
                $(Kind::$variant => Value::$variant(unsafe { place.cast::<$type>().read() }),)*
                Kind::String => unreachable!("{place:p}: strings are not objects"),
            }
        }

        /// OBJECT ENCODING's answer for an object, and all of its allocated bytes.
        ///
        /// # Safety
        /// `place` holds an object of `kind`, which does not change during the call.
        pub(crate) unsafe fn object_facts(kind: Kind, place: *mut u8) -> (&'static str, usize) {
            match kind {
                $(Kind::$variant => {
                    // SAFETY: the caller vouches for the type.
                    let object = unsafe { &*place.cast::<$type>() };
                    (object.encoding(), object.heap_bytes())
                })*
                Kind::String => unreachable!("{place:p}: strings are not objects"),
            }
        }

        /// Number of an object's elements.
        ///
        /// # Safety
        /// `place` holds an object of `kind`, which does not change during the call.
        #[inline]
        pub(crate) unsafe fn object_len(kind: Kind, place: *mut u8) -> usize {
            match kind {
                // SAFETY: the caller vouches for the type.
                $(Kind::$variant => unsafe { &*place.cast::<$type>() }.element_count(),)*
                Kind::String => unreachable!("{place:p}: strings are not objects"),
            }
        }

        /// # Safety
        /// As [`read_object`].
        pub(crate) unsafe fn drop_object(kind: Kind, place: *mut u8) {
            // SAFETY: the caller vouches for the type and forgets the place.
            drop(unsafe { read_object(kind, place) });
        }

        /// # Safety
        /// `place` holds an object of `kind`, which does not change during the call.
        pub(crate) unsafe fn clone_object(kind: Kind, place: *mut u8) -> Value {
            match kind {
                // SAFETY: the caller vouches for the type.
                $(Kind::$variant => Value::$variant(unsafe { &*place.cast::<$type>() }.clone()),)*
                Kind::String => unreachable!("{place:p}: strings are not objects"),
            }
        }
    };
}

objects! {
    List = 1, martlet_types::list::List, "list", martlet_types::list::List::new();
    Set = 2, martlet_types::set::Set, "set", martlet_types::set::Set::new();
    ZSet = 3, martlet_types::zset::ZSet, "zset", martlet_types::zset::ZSet::new();
    Hash = 4, martlet_types::hash::Hash, "hash", martlet_types::hash::Hash::new();
    Stream = 6, martlet_types::stream::Stream, "stream", martlet_types::stream::Stream::new();
    Array = 8, martlet_types::array::Array, "array", martlet_types::array::Array::new();
}

impl Value {
    /// A string value of these bytes, stored as a number when they spell one.
    pub fn from_bytes(bytes: &[u8]) -> Value {
        match spelt_number(bytes) {
            Some(number) => Value::Int(number),
            None => Value::Str { bytes: Arc::new(martlet_base::copy::to_vec(bytes)), raw: false },
        }
    }

    /// As [`Value::from_bytes`], without copying a long string.
    pub fn from_vec(bytes: Vec<u8>) -> Value {
        match spelt_number(&bytes) {
            Some(number) => Value::Int(number),
            None => Value::Str { bytes: Arc::new(bytes), raw: false },
        }
    }
}

/// The number that a string is stored as: that of an integer's own spelling.
#[inline]
pub(crate) fn spelt_number(bytes: &[u8]) -> Option<i64> {
    if bytes.len() <= 20 && matches!(bytes.first(), Some(b'0'..=b'9' | b'-')) {
        parse_i64(bytes)
    } else {
        None
    }
}
