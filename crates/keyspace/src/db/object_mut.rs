//! A collection that is being changed in its database.

use std::ops::{Deref, DerefMut};

use super::Db;
use crate::value::Object;
use crate::view::Detached;

/// A collection of a database to be changed; its size is recounted when this ends.
pub struct ObjectMut<'a, T: Object> {
    object: &'a mut T,
    old: usize,
    db: &'a mut Db,
}

impl<'a, T: Object> ObjectMut<'a, T> {
    #[inline]
    pub(crate) fn new(object: &'a mut T, db: &'a mut Db) -> Self {
        ObjectMut { old: object.element_count(), object, db }
    }
}

impl<T: Object> Deref for ObjectMut<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.object
    }
}

impl<T: Object> DerefMut for ObjectMut<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.object
    }
}

impl<T: Object> Drop for ObjectMut<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.db.resized(T::KIND, self.old, self.object.element_count());
    }
}

impl Detached {
    /// The entry's collection for changes, if it is a `T`.
    ///
    /// # Safety
    /// The entry is one of `db`, which has not been changed since it was detached.
    #[inline]
    pub unsafe fn object_mut<'a, T: Object>(self, db: &'a mut Db) -> Option<ObjectMut<'a, T>> {
        self.raw().object::<T>().map(|object| ObjectMut::new(object, db))
    }
}
