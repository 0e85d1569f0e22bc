//! Keys that clients have cached: recorded when they are read, invalidated once when they change.

use std::sync::atomic::Ordering;

use martlet_base::limits::SHARD_COUNT;
use martlet_keyspace::Key;

use super::Keys;
use crate::effects::{Cause, Invalidation};

impl Keys {
    /// Remembers that a client caches a key of a locked shard.
    pub fn remember_cached(&mut self, key: &Key<'_>, client: u64) {
        let (is_new_key, is_new) = self.hooks_mut(key).cache(key.bytes, client);
        let totals = &self.engine.tracking;
        totals.keys.fetch_add(usize::from(is_new_key), Ordering::Relaxed);
        totals.items.fetch_add(usize::from(is_new), Ordering::Relaxed);
    }

    /// Notes that clients that cache a changed key are to be notified.
    pub(super) fn invalidate_cached(&mut self, key: &Key<'_>, cause: Cause) {
        let hooks = self.hooks_mut(key);
        let broadcast = hooks.is_broadcast();
        let clients = hooks.take_cached(key.bytes);
        if let Some(clients) = &clients {
            self.engine.tracking.removed(1, clients.len());
        }
        if broadcast || clients.is_some() {
            let clients = clients.unwrap_or_default();
            self.effects.invalidate(Invalidation { key: key.bytes.to_vec(), clients, broadcast, cause });
        }
    }

    /// Drops some cached key of a locked shard and notifies its clients; false without one.
    pub fn evict_cached(&mut self, shard: usize) -> bool {
        let hooks = &mut self.shard_mut(shard).hooks;
        let Some(key) = hooks.any_cached().map(<[u8]>::to_vec) else { return false };
        let clients = hooks.take_cached(&key).unwrap_or_default();
        self.engine.tracking.removed(1, clients.len());
        self.effects.invalidate(Invalidation { key, clients, broadcast: false, cause: Cause::Eviction });
        true
    }

    /// Forgets all keys that clients cache: a database was emptied. All shards are held.
    pub(super) fn forget_cached(&mut self) {
        if self.engine.tracking.keys.load(Ordering::Relaxed) > 0 {
            for shard in 0..SHARD_COUNT {
                let (keys, items) = self.shard_mut(shard).hooks.clear_cached();
                self.engine.tracking.removed(keys, items);
            }
        }
        self.effects.flushed();
    }

    /// Begins or ends telling of every change; takes one shard at a time unless all are held.
    pub fn broadcast_changes(&mut self, on: bool) {
        for shard in 0..SHARD_COUNT {
            self.with_shard(shard, |keys| keys.shard_mut(shard).hooks.set_broadcast(on));
        }
    }
}

#[cfg(test)]
mod tests {
    use martlet_base::random::Random;
    use martlet_keyspace::ExpiryChange;

    use super::*;
    use crate::engine::Engine;
    use martlet_spec::EventClass;

    fn keys() -> Keys {
        let engine: &'static Engine = Box::leak(Box::new(Engine::new(1).unwrap()));
        let mut keys = Keys::new(engine, 0, Random::from_entropy());
        keys.engine().gate.closed(|alone| keys.lock_all_shards(alone));
        keys
    }

    fn set(keys: &mut Keys, name: &[u8]) -> Vec<Invalidation> {
        let key = Key::new(name);
        keys.set_str(&key, b"v", ExpiryChange::Clear);
        keys.changed(&key, EventClass::STRING, "set");
        keys.effects.take_news().invalidations
    }

    fn totals(keys: &Keys) -> (usize, usize) {
        let totals = &keys.engine().tracking;
        (totals.keys.load(Ordering::Relaxed), totals.items.load(Ordering::Relaxed))
    }

    #[test]
    fn those_who_cache_a_key_are_told_once() {
        let mut keys = keys();
        for client in [7, 3, 7] {
            keys.remember_cached(&Key::new(b"a"), client);
        }
        assert_eq!(totals(&keys), (1, 2));
        let told =
            Invalidation { key: b"a".to_vec(), clients: vec![3, 7], broadcast: false, cause: Cause::Command };
        assert_eq!(set(&mut keys, b"a"), [told]);
        assert_eq!((set(&mut keys, b"a"), totals(&keys)), (vec![], (0, 0)));
        assert!(keys.hooks_mut(&Key::new(b"a")).is_empty());
    }

    #[test]
    fn a_flush_forgets_all_and_says_so() {
        let mut keys = keys();
        keys.remember_cached(&Key::new(b"a"), 1);
        keys.remember_cached(&Key::new(b"b"), 1);
        keys.flush(Some(3), false);
        assert_eq!(totals(&keys), (0, 0));
        let news = keys.effects.take_news();
        assert!(news.flushed && news.invalidations.is_empty());
    }

    #[test]
    fn an_evicted_key_is_told_of_but_not_broadcast() {
        let mut keys = keys();
        let key = Key::new(b"a");
        keys.broadcast_changes(true);
        keys.remember_cached(&key, 1);
        assert!(keys.evict_cached(key.shard()) && !keys.evict_cached(key.shard()));
        let told =
            Invalidation { key: b"a".to_vec(), clients: vec![1], broadcast: false, cause: Cause::Eviction };
        assert_eq!(keys.effects.take_news().invalidations, [told]);
        assert!(set(&mut keys, b"b")[0].broadcast);
        keys.broadcast_changes(false);
        assert!(set(&mut keys, b"b").is_empty() && keys.hooks_mut(&key).is_empty());
    }
}
