//! What a script's changes have replaced.
//!
//! Invariant: a key's old value is kept before its first change, so that a script which cannot continue
//! leaves nothing but expirations. Long strings and collections are shared until they are changed.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use martlet_journal::Mark;
use martlet_keyspace::{Key, Shard, Value};

/// A key's old value.
pub(crate) struct Old {
    pub(crate) value: Value,
    pub(crate) expiry_ms: Option<i64>,
    pub(crate) lru: u32,
}

/// A table that has had room for more keys is not kept for the next script: emptying it takes as long as it
/// is large.
pub(crate) const KEPT_KEYS_MAX: usize = 1024;

/// A changed key.
pub(crate) struct OldKey {
    /// See [`place`].
    place: u64,
    pub(crate) name: Vec<u8>,
    /// `None` where there was no key.
    pub(crate) old: Option<Old>,
}

/// The changed keys of one database.
pub(crate) type OldKeys = HashTable<OldKey>;

/// A key's place in a table of changed keys: its hash, turned so that keys of one shard, whose lowest bits
/// agree, spread over the table.
fn place(key: &Key<'_>) -> u64 {
    key.hash.rotate_right(16)
}

/// See the [module docs](self). Off unless a script runs that may have to be undone.
#[derive(Default)]
pub(crate) struct Undo {
    begin: Option<Begin>,
    pub(crate) old: Vec<(usize, OldKeys)>,
}

/// What there was when the script began.
#[derive(Copy, Clone)]
pub(crate) struct Begin {
    pub(crate) effects: Mark,
    pub(crate) dirty: u64,
}

impl Undo {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.begin.is_some()
    }

    /// Before a change of a key of a locked shard.
    pub(crate) fn keep(&mut self, shard: &Shard, db: usize, key: &Key<'_>) {
        let at = self.old.iter().position(|(of, _)| *of == db).unwrap_or_else(|| {
            self.old.push((db, OldKeys::default()));
            self.old.len() - 1
        });
        let place = place(key);
        let entry = self.old[at].1.entry(place, |kept| kept.name == key.bytes, |kept| kept.place);
        if let Entry::Vacant(vacant) = entry {
            let old = shard.db(db).get(key).map(|entry| Old {
                value: entry.value(),
                expiry_ms: entry.expiry_ms(),
                lru: entry.lru(),
            });
            vacant.insert(OldKey { place, name: key.bytes.to_vec(), old });
        }
    }

    /// Begins to keep what changes replace.
    pub(crate) fn begin(&mut self, begin: Begin) {
        debug_assert!(!self.is_on());
        self.begin = Some(begin);
    }

    /// Forgets what was kept.
    pub(crate) fn end(&mut self) {
        self.begin = None;
        self.old.retain_mut(|(_, old)| {
            old.clear();
            old.capacity() <= KEPT_KEYS_MAX
        });
    }

    /// Ends it with what was kept, by database; `None` if it is off.
    pub(crate) fn take(&mut self) -> Option<(Begin, Vec<(usize, OldKeys)>)> {
        let begin = self.begin.take()?;
        Some((begin, std::mem::take(&mut self.old)))
    }
}
