//! State of a thread's pushes to clients: the client whose change runs, changed keys that wait to be
//! broadcast, a receiver's full mailbox.

use std::collections::BTreeMap;

use crate::tracking::table::Notice;

/// See the [module docs](self).
#[derive(Default)]
pub(crate) struct PushState {
    /// The tracking client whose request runs; 0 if none does.
    origin: u64,
    /// Changed keys that are broadcast at the end of the loop, each with its `origin`, or 0 if that was not
    /// always the same.
    broadcasts: BTreeMap<Vec<u8>, u64>,
    /// The tracking client whose request is about to run, and notices for it that precede the reply.
    collected: Option<(u64, Vec<Notice>)>,
    /// A message published now waits in a mailbox that has too much.
    is_flooding: bool,
}

impl PushState {
    /// The tracking client whose request runs; 0 if none does.
    pub fn origin(&self) -> u64 {
        self.origin
    }

    /// A request of this tracking client runs now, or none (0); which one did before.
    pub fn set_origin(&mut self, client: u64) -> u64 {
        std::mem::replace(&mut self.origin, client)
    }

    /// Keeps this client's notices, until they are taken.
    pub fn collect_notices(&mut self, client: u64) {
        self.collected = Some((client, Vec::new()));
    }

    /// Keeps the notice, if those of this client are collected; whether it did.
    pub fn collect(&mut self, client: u64, notice: &Notice) -> bool {
        let Some((_, notices)) = self.collected.as_mut().filter(|collected| collected.0 == client) else {
            return false;
        };
        notices.push(notice.clone());
        true
    }

    /// Ends the collection, and returns it.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.collected.take().map(|collected| collected.1).unwrap_or_default()
    }

    /// Has a changed key broadcast at the end of the turn.
    pub fn broadcast(&mut self, key: &[u8], origin: u64) {
        let change = self.broadcasts.entry(key.to_vec()).or_insert(origin);
        if *change != origin {
            *change = 0;
        }
    }

    /// Whether keys are to be broadcast.
    pub fn has_broadcasts(&self) -> bool {
        !self.broadcasts.is_empty()
    }

    /// Takes the keys that are to be broadcast.
    pub fn take_broadcasts(&mut self) -> BTreeMap<Vec<u8>, u64> {
        std::mem::take(&mut self.broadcasts)
    }

    /// Takes note of whether a message waits in a mailbox that has too much.
    pub fn note_flood(&mut self, is_flooding: bool) {
        self.is_flooding |= is_flooding;
    }

    /// Whether one does, since this was asked last.
    pub fn take_flood(&mut self) -> bool {
        std::mem::take(&mut self.is_flooding)
    }
}
