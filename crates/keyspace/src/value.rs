//! Values of keys: the owned [`Value`], the typed [`Object`]s that live inside entries, and views of strings.
//!
//! The list of object types stands once, in the `objects!` call below; kinds, names and the raw moves follow
//! from it.

use martlet_base::number::{NumberBuffer, format_i64, parse_i64};
use martlet_types::hash::NO_EXPIRY;
use martlet_types::stream::Features;
use triomphe::Arc;

use crate::module::{ModuleObject, ModuleValue};
use crate::version::{
    VERSION_ARRAYS, VERSION_IDEMPOTENCY, VERSION_MODULES, VERSION_OLDEST, VERSION_PATH_HASHES,
    VERSION_RELEASED, VERSION_STREAMS, VERSION_TIMED, VERSION_TIMED_MEMBERS,
};

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

/// A value's facts for its database's index.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// When a part of it is next due, Unix milliseconds.
    pub due_ms: Option<i64>,
    /// The oldest version of the RDB format that can hold it.
    pub version: u16,
    /// Stands for the indexed part of the value ([`ModuleObject::index_stamp`]); 0 if there is none.
    pub stamp: u64,
}

impl Facts {
    /// Those of a value that has nothing to be indexed but these.
    const fn new(due_ms: Option<i64>, version: u16) -> Facts {
        Facts { due_ms, version, stamp: 0 }
    }
}

/// A type other than strings that can live in an entry.
pub trait Object: Sized {
    /// The kind that an entry has which holds this type.
    const KIND: Kind;
    /// Its facts change with the value.
    const HAS_FACTS: bool = false;
    /// The facts that the index is to have of it.
    fn facts(&self) -> Facts {
        Facts::new(None, self.lowest_version())
    }
    /// The facts that the index has of it, if it is in a table.
    fn indexed_facts(&self) -> Facts {
        self.facts()
    }
    /// Whether the index has what it is to have; false also where only a look at the entry can tell.
    #[inline]
    fn is_indexed(&self) -> bool {
        self.facts() == self.indexed_facts()
    }
    /// Records which facts the index has of it: those of now, or none.
    fn record_facts(&mut self, _facts: Option<Facts>) {}
    /// Number of elements; a collection without any does not stay in the keyspace, unless it is a stream or
    /// a path hash.
    fn element_count(&self) -> usize;
    /// What OBJECT ENCODING answers.
    fn encoding(&self) -> &'static str;
    /// Bytes of all that it has allocated.
    fn heap_bytes(&self) -> usize;
    /// How many allocations freeing it takes, roughly.
    fn free_effort(&self) -> usize {
        self.element_count()
    }
    /// The oldest version of the RDB format that can hold it.
    fn lowest_version(&self) -> u16 {
        VERSION_OLDEST
    }
    /// The owned form.
    fn into_value(self) -> Value;
    /// The object at `place`; `None` if it is of another type of the same kind.
    ///
    /// # Safety
    /// `place` holds an object of [`Object::KIND`], which does not change for as long as 'a.
    #[inline]
    unsafe fn at<'a>(place: *const u8) -> Option<&'a Self> {
        // SAFETY: a kind of one type says the type; the caller vouches for the rest.
        Some(unsafe { &*place.cast::<Self>() })
    }
    /// As [`Object::at`], for changes.
    ///
    /// # Safety
    /// `place` holds an object of [`Object::KIND`], and nothing else reads or changes it for as long as 'a.
    #[inline]
    unsafe fn at_mut<'a>(place: *mut u8) -> Option<&'a mut Self> {
        // SAFETY: a kind of one type says the type; the caller vouches for the rest.
        Some(unsafe { &mut *place.cast::<Self>() })
    }
}

/// A type of which an empty object exists, with which a key begins.
pub trait Collection: Object {
    /// An empty collection in its smallest encoding.
    fn empty() -> Self;
}

macro_rules! objects {
    ($($variant:ident = $number:literal, $type:ty, $name:literal;)*) => {
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

            /// Whether a database keeps facts of such values.
            #[inline]
            pub(crate) fn has_facts(self) -> bool {
                const WITHOUT: u32 = 1 << Kind::String as u32 | 1 << Kind::List as u32 | 1 << Kind::ZSet as u32;
                1 << (self as u32) & WITHOUT == 0
            }

            /// The name that TYPE answers; of a module's value its type has one of its own.
            pub fn name(self) -> &'static str {
                match self {
                    Kind::String => "string",
                    $(Kind::$variant => $name,)*
                }
            }

            /// The kind with this TYPE name, in any case of letters; modules' types have names of their own.
            pub fn from_name(name: &[u8]) -> Option<Kind> {
                let all = [Kind::String, $(Kind::$variant),*];
                let named = all.into_iter().find(|kind| name.eq_ignore_ascii_case(kind.name().as_bytes()));
                named.filter(|kind| *kind != Kind::Module)
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
                    $(Value::$variant(object) => object.free_effort(),)*
                }
            }

            /// The value where it lies.
            pub fn view(&self) -> ValueRef<'_> {
                match self {
                    Value::Int(number) => ValueRef::Str(StrValue::Int(*number)),
                    Value::Str { bytes, .. } => ValueRef::Str(StrValue::Bytes(bytes)),
                    $(Value::$variant(object) => ValueRef::Object(ObjectRef::of_listed(object)),)*
                }
            }
        }

        $(
            const _: () = assert!(size_of::<$type>() <= OBJECT_BYTES && align_of::<$type>() <= 8);
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

        /// What an object says of itself.
        ///
        /// # Safety
        /// `place` holds an object of `kind`, which does not change during the call.
        #[inline]
        pub(crate) unsafe fn object_facts_now(kind: Kind, place: *mut u8) -> Facts {
            match kind {
                // SAFETY: the caller vouches for the type.
                $(Kind::$variant => Object::facts(unsafe { &*place.cast::<$type>() }),)*
                Kind::String => unreachable!("{place:p}: strings are not objects"),
            }
        }

        /// The facts that the index has of an object.
        ///
        /// # Safety
        /// As [`object_facts_now`].
        #[inline]
        pub(crate) unsafe fn object_facts_indexed(kind: Kind, place: *mut u8) -> Facts {
            match kind {
                // SAFETY: the caller vouches for the type.
                $(Kind::$variant => unsafe { &*place.cast::<$type>() }.indexed_facts(),)*
                Kind::String => unreachable!("{place:p}: strings are not objects"),
            }
        }

        /// See [`Object::record_facts`].
        ///
        /// # Safety
        /// `place` holds an object of `kind`, and nothing else reads or changes it during the call.
        pub(crate) unsafe fn record_object_facts(kind: Kind, place: *mut u8, facts: Option<Facts>) {
            match kind {
                // SAFETY: the caller vouches for the type.
                $(Kind::$variant => unsafe { &mut *place.cast::<$type>() }.record_facts(facts),)*
                Kind::String => unreachable!("{place:p}: strings are not objects"),
            }
        }

        impl ObjectRef<'_> {
            /// The oldest version of the RDB format that can hold it.
            pub fn lowest_version(&self) -> u16 {
                match self.kind {
                    $(Kind::$variant => self.get::<$type>().map_or(VERSION_OLDEST, Object::lowest_version),)*
                    Kind::String => VERSION_OLDEST,
                }
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
    List = 1, martlet_types::list::List, "list";
    Set = 2, martlet_types::set::Set, "set";
    ZSet = 3, martlet_types::zset::ZSet, "zset";
    Hash = 4, martlet_types::hash::Hash, "hash";
    Module = 5, ModuleValue, "module";
    Stream = 6, martlet_types::stream::Stream, "stream";
    Array = 8, martlet_types::array::Array, "array";
    PathHash = 9, martlet_types::path_hash::PathHash, "pathhash";
}

macro_rules! collections {
    ($($variant:ident, $type:ty $({ $($facts:tt)* })?;)*) => {
        $(
            impl Object for $type {
                const KIND: Kind = Kind::$variant;
                fn element_count(&self) -> usize { self.len() }
                fn encoding(&self) -> &'static str { self.encoding() }
                fn heap_bytes(&self) -> usize { self.heap_bytes() }
                $($($facts)*)?
                fn into_value(self) -> Value { Value::$variant(self) }
            }

            impl Collection for $type {
                fn empty() -> Self { <$type>::new() }
            }
        )*
    };
}

/// The facts of a collection whose first part expires then, which versions from `since` on hold.
#[inline]
fn timed(next_ms: i64, since: u16) -> Facts {
    match next_ms {
        NO_EXPIRY => Facts::new(None, VERSION_OLDEST),
        due_ms => Facts::new(Some(due_ms), since),
    }
}

/// The facts of a stream with these features.
fn of_features(features: Features) -> Facts {
    let version = match features {
        Features { has_released: true, .. } => VERSION_RELEASED,
        Features { has_idempotency: true, .. } => VERSION_IDEMPOTENCY,
        _ => VERSION_STREAMS,
    };
    Facts::new(features.record_expiry_ms, version)
}

collections! {
    List, martlet_types::list::List;
    Set, martlet_types::set::Set {
        const HAS_FACTS: bool = true;
        fn lowest_version(&self) -> u16 {
            self.facts().version
        }
        fn facts(&self) -> Facts {
            timed(self.next_expiry_ms(), VERSION_TIMED_MEMBERS)
        }
        fn indexed_facts(&self) -> Facts {
            timed(self.indexed_expiry_ms(), VERSION_TIMED_MEMBERS)
        }
        #[inline]
        fn is_indexed(&self) -> bool {
            self.indexed_expiry_ms() == self.next_expiry_ms()
        }
        fn record_facts(&mut self, facts: Option<Facts>) {
            self.set_indexed_expiry_ms(facts.and_then(|facts| facts.due_ms).unwrap_or(NO_EXPIRY));
        }
    };
    ZSet, martlet_types::zset::ZSet;
    Hash, martlet_types::hash::Hash {
        const HAS_FACTS: bool = true;
        fn lowest_version(&self) -> u16 {
            if self.next_expiry_ms() == NO_EXPIRY { VERSION_OLDEST } else { VERSION_TIMED }
        }
        fn facts(&self) -> Facts {
            timed(self.next_expiry_ms(), VERSION_TIMED)
        }
        fn indexed_facts(&self) -> Facts {
            timed(self.indexed_expiry_ms(), VERSION_TIMED)
        }
        #[inline]
        fn is_indexed(&self) -> bool {
            self.indexed_expiry_ms() == self.next_expiry_ms()
        }
        fn record_facts(&mut self, facts: Option<Facts>) {
            self.set_indexed_expiry_ms(facts.and_then(|facts| facts.due_ms).unwrap_or(NO_EXPIRY));
        }
    };
    Stream, martlet_types::stream::Stream {
        const HAS_FACTS: bool = true;
        fn lowest_version(&self) -> u16 {
            of_features(self.features()).version
        }
        fn facts(&self) -> Facts {
            of_features(self.features())
        }
        fn indexed_facts(&self) -> Facts {
            of_features(self.indexed())
        }
        #[inline]
        fn is_indexed(&self) -> bool {
            self.is_indexed()
        }
        fn record_facts(&mut self, facts: Option<Facts>) {
            self.set_indexed(if facts.is_some() { self.features() } else { Features::default() });
        }
    };
    Array, martlet_types::array::Array {
        fn lowest_version(&self) -> u16 {
            VERSION_ARRAYS
        }
    };
    PathHash, martlet_types::path_hash::PathHash {
        fn free_effort(&self) -> usize {
            self.free_effort()
        }
        fn lowest_version(&self) -> u16 {
            VERSION_PATH_HASHES
        }
    };
}

/// OBJECT ENCODING's answer for values of modules.
const ENCODING: &str = "raw";

impl Object for ModuleValue {
    const KIND: Kind = Kind::Module;
    const HAS_FACTS: bool = true;

    fn facts(&self) -> Facts {
        let object = self.object();
        Facts { due_ms: object.due_ms(), version: VERSION_MODULES, stamp: object.index_stamp() }
    }

    fn indexed_facts(&self) -> Facts {
        Facts { due_ms: self.indexed_due_ms(), version: VERSION_MODULES, stamp: self.indexed_stamp() }
    }

    fn record_facts(&mut self, facts: Option<Facts>) {
        self.set_indexed(facts.and_then(|facts| facts.due_ms), facts.map_or(0, |facts| facts.stamp));
    }

    fn element_count(&self) -> usize {
        self.object().element_count()
    }

    fn encoding(&self) -> &'static str {
        ENCODING
    }

    fn heap_bytes(&self) -> usize {
        let object = self.object();
        ModuleValue::HEAD_BYTES + self.indexed_bytes() + size_of_val(object) + object.heap_bytes()
    }

    fn free_effort(&self) -> usize {
        self.object().free_effort()
    }

    fn lowest_version(&self) -> u16 {
        VERSION_MODULES
    }

    fn into_value(self) -> Value {
        Value::Module(self)
    }
}

impl<T: ModuleObject> Object for T {
    const KIND: Kind = Kind::Module;
    const HAS_FACTS: bool = true;

    // The value around the object knows.
    fn is_indexed(&self) -> bool {
        false
    }

    fn element_count(&self) -> usize {
        ModuleObject::element_count(self)
    }

    fn encoding(&self) -> &'static str {
        ENCODING
    }

    fn heap_bytes(&self) -> usize {
        ModuleObject::heap_bytes(self)
    }

    fn lowest_version(&self) -> u16 {
        VERSION_MODULES
    }

    fn into_value(self) -> Value {
        Value::Module(ModuleValue::new(self))
    }

    #[inline]
    unsafe fn at<'a>(place: *const u8) -> Option<&'a T> {
        // SAFETY: the caller vouches for an object of this kind, which is a `ModuleValue` for all such types.
        unsafe { &*place.cast::<ModuleValue>() }.get()
    }

    #[inline]
    unsafe fn at_mut<'a>(place: *mut u8) -> Option<&'a mut T> {
        // SAFETY: as in `at`.
        unsafe { &mut *place.cast::<ModuleValue>() }.get_mut()
    }
}

impl ModuleValue {
    /// The value where it lies.
    pub fn view(&self) -> ValueRef<'_> {
        ValueRef::Object(ObjectRef::of_listed(self))
    }
}

/// A value that is read where it lies.
#[derive(Copy, Clone, Debug)]
pub enum ValueRef<'a> {
    /// A string.
    Str(StrValue<'a>),
    /// Any other type.
    Object(ObjectRef<'a>),
}

impl ValueRef<'_> {
    /// The value's type.
    pub fn kind(&self) -> Kind {
        match self {
            ValueRef::Str(_) => Kind::String,
            ValueRef::Object(object) => object.kind,
        }
    }
}

impl<'a> From<StrValue<'a>> for ValueRef<'a> {
    fn from(text: StrValue<'a>) -> ValueRef<'a> {
        ValueRef::Str(text)
    }
}

impl<'a> ValueRef<'a> {
    /// The name that TYPE answers.
    pub fn type_name(&self) -> &'a str {
        match self {
            ValueRef::Str(_) => Kind::String.name(),
            ValueRef::Object(object) => {
                let module = object.get::<ModuleValue>();
                module.map_or_else(|| object.kind.name(), |value| value.object().type_name())
            }
        }
    }

    /// The oldest version of the RDB format that can hold it.
    pub fn lowest_version(&self) -> u16 {
        match self {
            ValueRef::Str(_) => VERSION_OLDEST,
            ValueRef::Object(object) => object.lowest_version(),
        }
    }
}

/// An object that is read where it lies.
#[derive(Copy, Clone, Debug)]
pub struct ObjectRef<'a> {
    kind: Kind,
    place: *const u8,
    owner: std::marker::PhantomData<&'a u8>,
}

impl<'a> ObjectRef<'a> {
    /// The object of a type for which the kind alone stands.
    pub(crate) fn of_listed<T: Object>(object: &'a T) -> ObjectRef<'a> {
        let place = std::ptr::from_ref(object).cast();
        ObjectRef { kind: T::KIND, place, owner: std::marker::PhantomData }
    }

    /// # Safety
    /// `place` holds an object of `kind`, which does not change for as long as 'a.
    pub(crate) unsafe fn new(kind: Kind, place: *const u8) -> ObjectRef<'a> {
        ObjectRef { kind, place, owner: std::marker::PhantomData }
    }

    /// The object's kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The object, if it is a `T`.
    #[inline]
    pub fn get<T: Object>(&self) -> Option<&'a T> {
        // SAFETY: an object of this kind is there, which does not change for as long as 'a.
        if self.kind == T::KIND { unsafe { T::at(self.place) } } else { None }
    }
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
