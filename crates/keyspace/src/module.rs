//! Values of types that the keyspace does not list itself, as Redis' modules have them: a value is a pointer
//! to an object that says what its type is.
//!
//! Invariant: an object is reached by its own type only; every other request for it finds none.

use std::any::Any;
use std::fmt::Debug;

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
pub struct ModuleValue(Box<Box<dyn ModuleObject>>);

impl ModuleValue {
    /// A value of this object.
    pub fn new(object: impl ModuleObject) -> ModuleValue {
        ModuleValue(Box::new(Box::new(object)))
    }

    /// The object of whichever type.
    pub fn object(&self) -> &dyn ModuleObject {
        &**self.0
    }

    /// The object, if it is a `T`.
    #[inline]
    pub fn get<T: ModuleObject>(&self) -> Option<&T> {
        let object: &dyn Any = &**self.0;
        object.downcast_ref()
    }

    /// The object for changes, if it is a `T`.
    #[inline]
    pub fn get_mut<T: ModuleObject>(&mut self) -> Option<&mut T> {
        let object: &mut dyn Any = &mut **self.0;
        object.downcast_mut()
    }
}

impl Clone for ModuleValue {
    fn clone(&self) -> ModuleValue {
        ModuleValue(Box::new(self.object().clone_object()))
    }
}
