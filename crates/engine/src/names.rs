//! The names of a database's keys as they were at one instant, read while the keys change.
//!
//! The **cut** is an instant at which one thread has every shard locked. From then on each shard is
//! *pending* until the cut's owner has come to its end, a slice of about a segment under the shard's lock
//! at a time. A thread that changes a key which the owner has not reached notes first whether the key is
//! there. The owner passes over keys that were noted, and adds those that were there at the end of each
//! shard. Invariant: each key of the cut is visited once, with the type and expiry that it had then, and
//! no other key is.
//!
//! One cut at a time; a thread that wants another waits for its turn. Nothing is copied but names of keys
//! that change beside the walk, each once. The owner stays inside the gate, so that no database is emptied
//! or exchanged in that time. Without a cut a change pays for the one test that it shares with the
//! snapshot's.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use martlet_base::sync::RawLock;
use martlet_keyspace::{Entry, Key, Kind, Shard};

/// A key that a walk has met: as it is, or as it was at the cut.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NamedKey<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// When it expires, Unix milliseconds.
    pub expiry_ms: Option<i64>,
    /// Its type.
    pub kind: Kind,
    /// The name of the type, if a module has it.
    pub module_type: Option<&'a str>,
}

impl<'a> NamedKey<'a> {
    /// The key of an entry.
    pub fn of(entry: &Entry<'a>) -> NamedKey<'a> {
        let kind = entry.kind();
        let module_type = (kind == Kind::Module).then(|| entry.type_name());
        NamedKey { name: entry.key(), expiry_ms: entry.expiry_ms(), kind, module_type }
    }
}

/// A key as a writer found it before its change.
pub(crate) struct Noted {
    expiry_ms: Option<i64>,
    kind: Kind,
    module_type: Option<Box<str>>,
}

impl Noted {
    fn of(entry: &Entry<'_>) -> Noted {
        let NamedKey { expiry_ms, kind, module_type, .. } = NamedKey::of(entry);
        Noted { expiry_ms, kind, module_type: module_type.map(Box::from) }
    }
}

/// A shard's part of the cut; its lock guards it.
#[derive(Default)]
pub(crate) struct NamePart {
    /// The cut that the rest belongs to.
    epoch: u64,
    /// Keys whose order is below have been visited.
    pub(crate) from: u64,
    /// Keys beyond that which have been changed since the cut; `None` if they were absent then.
    pub(crate) changed: HashMap<Box<[u8]>, Option<Noted>>,
}

impl NamePart {
    /// Takes up a new cut.
    pub(crate) fn follow(&mut self, epoch: u64) {
        if self.epoch != epoch {
            *self = NamePart { epoch, ..NamePart::default() };
        }
    }
}

/// The engine's part of the cut under way.
#[derive(Default)]
pub(crate) struct NameCuts {
    /// Whose turn it is to have one.
    pub(crate) turn: RawLock,
    /// Counts them.
    pub(crate) epoch: AtomicU64,
    /// The database of the last.
    pub(crate) db: AtomicUsize,
    /// The first shard that it is of.
    pub(crate) first_shard: AtomicUsize,
}

impl NameCuts {
    /// Before a change of a key of a locked shard.
    pub(crate) fn note(&self, part: &mut NamePart, shard: &Shard, db: usize, key: &Key<'_>) {
        if self.asks_for(part, db, key) {
            part.changed.insert(key.bytes.into(), shard.db(db).get(key).map(|entry| Noted::of(&entry)));
        }
    }

    /// The same of a key that is there.
    pub(crate) fn note_entry(&self, part: &mut NamePart, db: usize, entry: &Entry<'_>) {
        if self.asks_for(part, db, &Key::new(entry.key())) {
            part.changed.insert(entry.key().into(), Some(Noted::of(entry)));
        }
    }

    fn asks_for(&self, part: &mut NamePart, db: usize, key: &Key<'_>) -> bool {
        if db != self.db.load(Ordering::Relaxed) || key.shard() < self.first_shard.load(Ordering::Relaxed) {
            return false;
        }
        part.follow(self.epoch.load(Ordering::Relaxed));
        part.from <= key.order() && !part.changed.contains_key(key.bytes)
    }
}

/// Visits the keys that were there, of those that a shard's writers have noted.
pub(crate) fn visit_noted(part: &mut NamePart, mut visit: impl FnMut(NamedKey<'_>)) {
    for (name, noted) in std::mem::take(&mut part.changed) {
        if let Some(Noted { expiry_ms, kind, module_type }) = noted {
            visit(NamedKey { name: &name, expiry_ms, kind, module_type: module_type.as_deref() });
        }
    }
}
