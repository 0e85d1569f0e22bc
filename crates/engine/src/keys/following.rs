//! The reports to the follower of the keys; see [`Follower`].

use martlet_keyspace::Key;

use super::Keys;
use crate::follow::Follower;
use crate::snapshot::Observer;

impl Keys {
    /// Notes a key that changes, if the follower wants it.
    #[inline]
    pub(super) fn note_followed(&mut self, key: &Key<'_>) {
        let db = self.view.db;
        let may_want = || self.engine.beginnings.may_have(key.bytes);
        if self.follower().is_some_and(|follower| may_want() && follower.wants(db, key.bytes)) {
            self.followed.note(db, key);
        }
    }

    /// Reports changes to the follower now, rather than when the shards are released: the next command of a
    /// transaction or a script reads what the follower makes of them.
    pub fn report_changes(&mut self) {
        if !self.followed.is_empty() {
            self.end_change();
            self.report_followed();
        }
    }

    /// Reports the keys that the follower wants, while their shards are locked.
    #[cold]
    #[inline(never)]
    pub(super) fn report_followed(&mut self) {
        let mut followed = std::mem::take(&mut self.followed);
        if let Some(follower) = self.engine.followers.get() {
            let now_ms = self.view.now_ms;
            followed.for_each(|db, key| {
                let state = self.engine.state(&self.locked, key.shard());
                follower.changed(db, &key, state.keys.db(db).get(&key), now_ms);
            });
        }
        followed.clear();
        self.followed = followed;
    }

    /// The follower, if it wants keys.
    #[inline]
    pub(super) fn follower(&self) -> Option<&'static dyn Follower> {
        if self.engine.snapshot.has(Observer::Follower) { self.engine.followers.get() } else { None }
    }
}

#[cfg(test)]
mod tests;
