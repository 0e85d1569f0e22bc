//! A collection that is being changed in its database.

use std::ops::{Deref, DerefMut};

use super::Db;
use crate::due::DueClock;
use crate::entry::RawEntry;
use crate::value::Object;
use crate::view::Detached;

/// A collection of a database to be changed; when this ends, its size is recounted and the index brought up
/// to date.
pub struct ObjectMut<'a, T: Object> {
    object: &'a mut T,
    entry: RawEntry,
    /// Where it is noted that a part of the collection is due earlier.
    clock: Option<&'a DueClock>,
    old: usize,
    db: &'a mut Db,
}

impl<'a, T: Object> ObjectMut<'a, T> {
    #[inline]
    pub(crate) fn new(object: &'a mut T, entry: RawEntry, db: &'a mut Db) -> Self {
        ObjectMut { old: object.element_count(), object, entry, clock: None, db }
    }

    /// Number of keys of the collection's database in its shard.
    #[inline]
    pub fn database_len(&self) -> usize {
        self.db.len()
    }

    /// The same with the clock of the collection's shard.
    #[inline]
    pub fn with_clock(self, clock: &'a DueClock) -> Self {
        let mut object = self;
        object.clock = Some(clock);
        object
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
        if T::HAS_FACTS
            && !self.object.is_indexed()
            && self.db.reindex(self.entry)
            && let (Some(clock), Some(at_ms)) = (self.clock, self.db.take_fresh_due_ms())
        {
            clock.note(at_ms);
        }
    }
}

impl Detached {
    /// The entry's collection for changes, if it is a `T`.
    ///
    /// # Safety
    /// The entry is one of `db`, which has not been changed since it was detached.
    #[inline]
    pub unsafe fn object_mut<'a, T: Object>(self, db: &'a mut Db) -> Option<ObjectMut<'a, T>> {
        self.raw().object::<T>().map(|object| ObjectMut::new(object, self.raw(), db))
    }
}
