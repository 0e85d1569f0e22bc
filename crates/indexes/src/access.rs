//! A thread's access to indexed keys, one shard at a time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use martlet_engine::Keys;
use martlet_keyspace::{Db, Entry, Key};

/// The database whose keys are indexed.
pub(crate) const DB: usize = 0;

/// See the [module docs](self). No shard is locked between calls, unless all are.
pub struct Access<'a> {
    /// The thread's view of the keys.
    pub keys: &'a mut Keys,
    /// The thread's number at the gate if it is outside, and enters for each call. A thread that is inside
    /// serves clients, and must not wait while a script is busy: it gives up, and [`Keys::gave_up`] is set.
    pub outside: Option<usize>,
}

impl Access<'_> {
    /// Runs `work` on a shard's keys, which are locked for it; `None` if the thread gave up.
    pub(crate) fn with_shard<R>(&mut self, shard: usize, work: impl FnOnce(&Db) -> R) -> Option<R> {
        let work = |keys: &mut Keys| work(keys.shard(shard).keys.db(DB));
        let Some(thread) = self.outside else { return self.keys.visit_shard(shard, work) };
        let gate = &self.keys.engine().gate;
        gate.enter(thread);
        let result = catch_unwind(AssertUnwindSafe(|| self.keys.with_shard(shard, work)));
        if result.is_err() {
            // Nothing was changed. Other threads must not wait for this one.
            self.keys.abandon();
        }
        gate.leave(thread);
        Some(result.unwrap_or_else(|panic| resume_unwind(panic)))
    }

    /// Runs `work` on a key's entry, if the key is there and has not expired; its shard is locked. `None`
    /// also if the thread gave up.
    pub(crate) fn with_key<R>(
        &mut self,
        name: &[u8],
        now_ms: i64,
        work: impl FnOnce(&Entry<'_>) -> R,
    ) -> Option<R> {
        let key = Key::new(name);
        self.with_shard(key.shard(), |db| {
            let entry = db.get(&key).filter(|entry| entry.expiry_ms().is_none_or(|at_ms| at_ms > now_ms));
            entry.map(|entry| work(&entry))
        })?
    }

    /// Whether the thread gave up. Its results are incomplete then.
    pub fn gave_up(&self) -> bool {
        self.keys.gave_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Store;

    #[test]
    fn a_panic_leaves_no_shard_locked_and_the_gate_open() {
        let mut store = Store::new("i SCHEMA t TEXT");
        store.set("a", &[("t", "hello")]);
        let mut access = Access { keys: &mut store.keys, outside: Some(0) };
        let panicked = catch_unwind(AssertUnwindSafe(|| access.with_key(b"a", 1, |_| panic!("in a test"))));
        assert!(panicked.is_err());
        assert_eq!(access.with_key(b"a", 1, |_| 5), Some(5), "the shard can be locked again");
        // Closes the gate, for which nothing may be inside.
        store.keys.alone(|keys| assert!(keys.lookup(&Key::new(b"a")).is_some()));
    }
}
