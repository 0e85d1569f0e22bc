//! Freeing a large table a few blocks at a time.

use super::node::{Child, Slot};
use super::{Kind, Table};
use std::marker::PhantomData;

/// The rest of a table to be freed; dropping it frees the rest at once.
pub struct Reclaim<K: Kind> {
    pending: Vec<Slot>,
    kind: PhantomData<K>,
}

// SAFETY: it owns references to blocks, as the table did.
unsafe impl<K: Kind> Send for Reclaim<K> {}

impl<K: Kind> Table<K> {
    /// Gives the table up, to be freed in slices.
    pub fn into_reclaim(mut self) -> Reclaim<K> {
        let root = std::mem::replace(&mut self.root, Slot::EMPTY);
        Reclaim { pending: vec![root], kind: PhantomData }
    }
}

impl<K: Kind> Reclaim<K> {
    /// Frees about `leaves` leaves, of up to 16 KiB each; returns whether everything is free.
    pub fn run(&mut self, leaves: usize) -> bool {
        for _ in 0..leaves {
            let Some(slot) = self.pending.pop() else { return true };
            match slot.child() {
                Child::Node(node) => node.release_into(|child| self.pending.push(child)),
                _ => slot.release::<K>(),
            }
        }
        self.pending.is_empty()
    }
}

impl<K: Kind> Drop for Reclaim<K> {
    fn drop(&mut self) {
        while !self.run(usize::MAX) {}
    }
}
