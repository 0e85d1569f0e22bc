//! Values of types that the keyspace does not list itself, as Redis' modules have them: a value is a pointer
//! to an object that says what its type is.
//!
//! Invariant: an object is reached by its own type only; every other request for it finds none.

use std::any::Any;
use std::fmt::Debug;

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
}

/// Cloning behind a pointer; every [`ModuleObject`] that is `Clone` has it.
pub trait CloneObject {
    /// A clone in an allocation of its own.
    fn clone_object(&self) -> Box<dyn ModuleObject>;
}

impl<T: ModuleObject + Clone> CloneObject for T {
    fn clone_object(&self) -> Box<dyn ModuleObject> {
        Box::new(self.clone())
    }
}

/// An object of a type that the keyspace does not list itself. The inner pointer carries the type, the outer
/// one fits into an entry.
#[derive(Debug)]
pub struct ModuleValue(Box<Cell>);

#[derive(Debug)]
struct Cell {
    object: Box<dyn ModuleObject>,
    /// When a part of it is due, by its database's index.
    indexed_due_ms: Option<i64>,
}

impl ModuleValue {
    /// Bytes of a value besides its object.
    pub(crate) const CELL_BYTES: usize = size_of::<Cell>();

    /// A value of this object.
    pub fn new(object: impl ModuleObject) -> ModuleValue {
        ModuleValue::of(Box::new(object))
    }

    fn of(object: Box<dyn ModuleObject>) -> ModuleValue {
        ModuleValue(Box::new(Cell { object, indexed_due_ms: None }))
    }

    /// The object of whichever type.
    pub fn object(&self) -> &dyn ModuleObject {
        &*self.0.object
    }

    /// The object of whichever type, for changes.
    pub fn object_mut(&mut self) -> &mut dyn ModuleObject {
        &mut *self.0.object
    }

    /// The object, if it is a `T`.
    #[inline]
    pub fn get<T: ModuleObject>(&self) -> Option<&T> {
        let object: &dyn Any = &*self.0.object;
        object.downcast_ref()
    }

    /// The object for changes, if it is a `T`.
    #[inline]
    pub fn get_mut<T: ModuleObject>(&mut self) -> Option<&mut T> {
        let object: &mut dyn Any = &mut *self.0.object;
        object.downcast_mut()
    }

    /// Queues one probe step's lines: the cell, then the object, then the blocks of the object.
    pub(crate) fn queue_probe(&self, probe: ProbeStep, queue: &mut PrefetchQueue) -> Progress {
        match probe.step {
            0 => queue.add_lines((&raw const *self.0).cast(), size_of::<Cell>()),
            1 => queue.add_lines((&raw const *self.0.object).cast(), size_of_val(&*self.0.object)),
            step => return self.object().queue_probe(ProbeStep { step: step - 2, ..probe }, queue),
        }
        Progress::More
    }

    pub(crate) fn indexed_due_ms(&self) -> Option<i64> {
        self.0.indexed_due_ms
    }

    pub(crate) fn set_indexed_due_ms(&mut self, due_ms: Option<i64>) {
        self.0.indexed_due_ms = due_ms;
    }
}

impl Clone for ModuleValue {
    fn clone(&self) -> ModuleValue {
        ModuleValue::of(self.object().clone_object())
    }
}
