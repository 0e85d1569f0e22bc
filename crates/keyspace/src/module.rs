//! Values of types that the keyspace does not list itself, as Redis' modules have them: a value is a pointer
//! to an object that says what its type is.
//!
//! Invariant: an object is reached by its own type only; every other request for it finds none.

use std::any::{Any, TypeId};
use std::fmt::Debug;
use std::ptr::NonNull;

use martlet_base::prefetch::{PrefetchQueue, ProbeStep, Progress};

/// A type whose objects a [`ModuleValue`] can hold. Cloning an object is cheap, and a later change of one of
/// the two leaves the other as it is: a snapshot keeps clones.
pub trait ModuleObject: Any + Debug + Send + Sync + CloneObject {
    /// The name that TYPE answers.
    fn type_name(&self) -> &str;
    /// Number of elements, as the type counts them.
    fn element_count(&self) -> usize;
    /// Bytes of all that the object has allocated.
    fn heap_bytes(&self) -> usize;
    /// How many allocations freeing it takes, roughly.
    fn free_effort(&self) -> usize {
        self.element_count()
    }
    /// Queues the addresses of one probe step; the object's own lines are prefetched by then.
    fn queue_probe(&self, _probe: ProbeStep, _queue: &mut PrefetchQueue) -> Progress {
        Progress::Done
    }
    /// When a part of it is next due, Unix milliseconds.
    fn due_ms(&self) -> Option<i64> {
        None
    }
    /// Removes at most `limit` parts that are due by `now_ms`, and returns how many. Each server does so by
    /// itself: it must not show in any answer that they were still there.
    fn remove_due(&mut self, _now_ms: i64, _limit: usize) -> usize {
        0
    }
    /// Gives up what ties it to other keys, as a copy under another key does.
    fn cut_links(&mut self) {}
    /// A number that changes with the indexed part of the value; 0 if no part is indexed.
    fn index_stamp(&self) -> u64 {
        0
    }
    /// An empty index for values of this type.
    fn new_index(&self) -> Option<Box<dyn ValueIndex>> {
        None
    }
}

/// An index of a database's values of one type, beside its table: it sees each value that enters or leaves.
pub trait ValueIndex: Any + Debug + Send + Sync {
    /// A value has entered, or has changed, under a number that no other value has. Its key has this hash.
    fn insert(&mut self, id: u64, key_hash: u64, object: &dyn ModuleObject);
    /// The value of this number has left.
    fn remove(&mut self, id: u64);
}

/// The indexes of a database, one for each type of which it has held an indexed value.
#[derive(Debug, Default)]
pub(crate) struct ValueIndexes {
    indexes: Vec<(TypeId, Box<dyn ValueIndex>)>,
    last_id: u64,
}

impl ValueIndexes {
    /// The index of this type, if there is one.
    pub(crate) fn get<I: ValueIndex>(&self) -> Option<&I> {
        self.indexes.iter().find_map(|(_, index)| {
            let index: &dyn Any = &**index;
            index.downcast_ref()
        })
    }

    /// Brings the index of the value's type up to date for a value that enters, leaves or has changed:
    /// `is_in` says whether it is in the table afterwards.
    pub(crate) fn change(&mut self, key_hash: u64, value: &mut ModuleValue, is_in: bool) {
        let object = value.object();
        let any: &dyn Any = object;
        let of = any.type_id();
        let is_in = is_in && object.index_stamp() != 0;
        let known = self.indexes.iter().position(|(known, _)| *known == of);
        let place = match (known, is_in) {
            (Some(place), _) => place,
            (None, false) => return,
            (None, true) => {
                let Some(index) = object.new_index() else { return };
                self.indexes.push((of, index));
                self.indexes.len() - 1
            }
        };
        let Some((_, index)) = self.indexes.get_mut(place) else { return };
        if value.index_id() != 0 {
            index.remove(value.index_id());
            value.set_index_id(0);
        }
        if is_in {
            self.last_id += 1;
            index.insert(self.last_id, key_hash, value.object());
            value.set_index_id(self.last_id);
        }
    }
}

/// Cloning behind a pointer; every [`ModuleObject`] that is `Clone` has it.
pub trait CloneObject {
    /// A value of a clone.
    fn clone_object(&self) -> ModuleValue;
}

impl<T: ModuleObject + Clone> CloneObject for T {
    fn clone_object(&self) -> ModuleValue {
        ModuleValue::new(self.clone())
    }
}

/// An object of a type that the keyspace does not list itself: a pointer, which fits into an entry, to one
/// block of the object and what is known of it whatever its type.
pub struct ModuleValue(NonNull<Head>);

/// The block of a value.
// The head is found without knowing the type: it comes first.
#[repr(C)]
struct Cell<T> {
    head: Head,
    object: T,
}

/// The beginning of every value's block.
struct Head {
    object_type: &'static ObjectType,
    /// When a part of it is due, by its database's index; [`NEVER`] if none is.
    indexed_due_ms: i64,
    /// Its place in the index of its type.
    indexed: Option<Box<Indexed>>,
}

/// What stands for a type of objects in a block's head.
struct ObjectType {
    id: TypeId,
    /// The object in the block with this head.
    object: unsafe fn(NonNull<Head>) -> NonNull<dyn ModuleObject>,
    /// Frees the block.
    free: unsafe fn(NonNull<Head>),
}

impl ObjectType {
    const fn of<T: ModuleObject>() -> ObjectType {
        ObjectType {
            id: TypeId::of::<T>(),
            object: |head| {
                let cell = head.cast::<Cell<T>>().as_ptr();
                // SAFETY: the head is that of a live `Cell<T>`, by the field's contract; the place inside of
                // it is not null.
                let object: NonNull<T> = unsafe { NonNull::new_unchecked(&raw mut (*cell).object) };
                object
            },
            // SAFETY: as above, and the block came from a box and is not used again.
            free: |head| drop(unsafe { Box::from_raw(head.cast::<Cell<T>>().as_ptr()) }),
        }
    }
}

const NEVER: i64 = i64::MAX;
/// Bytes of a block that are asked for before its type is known: of most types all of it.
const BLOCK_BYTES: usize = 64;

/// A value's place in the index of its type.
#[derive(Debug, Default)]
struct Indexed {
    /// [`ModuleObject::index_stamp`] as the index has it.
    stamp: u64,
    /// The value's number there; 0 if it is not there.
    id: u64,
}

// SAFETY: a value owns its block, whose object is `Send`, and the rest of the head is.
unsafe impl Send for ModuleValue {}
// SAFETY: a shared reference to the value gives shared references to the object only, which is `Sync`.
unsafe impl Sync for ModuleValue {}

impl ModuleValue {
    /// Bytes of a value besides its object.
    pub(crate) const HEAD_BYTES: usize = size_of::<Head>();

    /// A value of this object.
    pub fn new<T: ModuleObject>(object: T) -> ModuleValue {
        let object_type: &'static ObjectType = const { &ObjectType::of::<T>() };
        let head = Head { object_type, indexed_due_ms: NEVER, indexed: None };
        let cell = Box::new(Cell { head, object });
        // The pointer is to the whole block, of which the head is the beginning.
        let cell: NonNull<Cell<T>> = Box::leak(cell).into();
        ModuleValue(cell.cast())
    }

    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: the block lives as long as the value, which is borrowed.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn head_mut(&mut self) -> &mut Head {
        // SAFETY: as in `head`, exclusively.
        unsafe { self.0.as_mut() }
    }

    /// The object of whichever type.
    pub fn object(&self) -> &dyn ModuleObject {
        // SAFETY: the head is that of the value's own block, which lives as long as the borrow.
        unsafe { (self.head().object_type.object)(self.0).as_ref() }
    }

    /// The object of whichever type, for changes.
    pub fn object_mut(&mut self) -> &mut dyn ModuleObject {
        // SAFETY: as in `object`, exclusively.
        unsafe { (self.head().object_type.object)(self.0).as_mut() }
    }

    /// The block, if its object is a `T`.
    #[inline]
    fn cell<T: ModuleObject>(&self) -> Option<NonNull<Cell<T>>> {
        (self.head().object_type.id == TypeId::of::<T>()).then(|| self.0.cast())
    }

    /// The object, if it is a `T`.
    #[inline]
    pub fn get<T: ModuleObject>(&self) -> Option<&T> {
        // SAFETY: the block is of this type, and lives as long as the borrow.
        self.cell::<T>().map(|cell| unsafe { &(*cell.as_ptr()).object })
    }

    /// The object for changes, if it is a `T`.
    #[inline]
    pub fn get_mut<T: ModuleObject>(&mut self) -> Option<&mut T> {
        // SAFETY: as in `get`, exclusively.
        self.cell::<T>().map(|cell| unsafe { &mut (*cell.as_ptr()).object })
    }

    /// Queues one probe step's lines: the block with the object, then what the object has.
    pub(crate) fn queue_probe(&self, probe: ProbeStep, queue: &mut PrefetchQueue) -> Progress {
        match probe.step {
            0 => queue.add_lines(self.0.as_ptr().cast(), BLOCK_BYTES),
            step => return self.object().queue_probe(ProbeStep { step: step - 1, ..probe }, queue),
        }
        Progress::More
    }

    pub(crate) fn indexed_due_ms(&self) -> Option<i64> {
        Some(self.head().indexed_due_ms).filter(|due_ms| *due_ms != NEVER)
    }

    pub(crate) fn indexed_stamp(&self) -> u64 {
        self.head().indexed.as_ref().map_or(0, |indexed| indexed.stamp)
    }

    pub(crate) fn set_indexed(&mut self, due_ms: Option<i64>, stamp: u64) {
        let head = self.head_mut();
        head.indexed_due_ms = due_ms.unwrap_or(NEVER);
        match stamp {
            0 => head.indexed = None,
            stamp => head.indexed.get_or_insert_default().stamp = stamp,
        }
    }

    /// Its number in the index of its type; 0 if that does not have it.
    pub(crate) fn index_id(&self) -> u64 {
        self.head().indexed.as_ref().map_or(0, |indexed| indexed.id)
    }

    /// Bytes of its place in the index of its type.
    pub(crate) fn indexed_bytes(&self) -> usize {
        self.head().indexed.as_ref().map_or(0, |_| size_of::<Indexed>())
    }

    fn set_index_id(&mut self, id: u64) {
        let head = self.head_mut();
        if id != 0 || head.indexed.is_some() {
            head.indexed.get_or_insert_default().id = id;
        }
    }
}

impl Drop for ModuleValue {
    fn drop(&mut self) {
        // SAFETY: the head is that of the value's own block, which came from a box and is not used again.
        unsafe { (self.head().object_type.free)(self.0) }
    }
}

impl Debug for ModuleValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.object().fmt(f)
    }
}

impl Clone for ModuleValue {
    fn clone(&self) -> ModuleValue {
        self.object().clone_object()
    }
}
