//! Who waits for a change of a key: WATCHing clients and blocked ones. One table per shard, under its lock.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use hashbrown::HashMap;

/// Raised when a watched key has changed; one per client.
#[derive(Debug, Default)]
pub struct WatchFlag(AtomicBool);

impl WatchFlag {
    /// Says that a watched key has changed.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether one has.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Forgets it (EXEC, DISCARD, UNWATCH).
    pub fn clear(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Nobody is serving it.
const WAITING: u8 = 0;
/// Somebody runs its request to see whether it can be served.
const SERVING: u8 = 1;
/// Served or given up.
const ENDED: u8 = 2;

/// A blocked client's place in the queues of its keys.
pub struct Waiter {
    /// The I/O thread that owns the connection.
    pub thread: usize,
    /// The connection in that thread.
    pub token: u64,
    /// The database that the keys are in.
    pub db: usize,
    /// The keys that it waits for.
    pub keys: Vec<Vec<u8>>,
    /// [`WAITING`], [`SERVING`] or [`ENDED`].
    state: AtomicU8,
    /// What the server needs to run the request for it.
    pub request: Box<dyn Any + Send + Sync>,
}

impl Waiter {
    /// A waiter that nobody has claimed.
    pub fn new(
        thread: usize,
        token: u64,
        db: usize,
        keys: Vec<Vec<u8>>,
        request: Box<dyn Any + Send + Sync>,
    ) -> Arc<Waiter> {
        Arc::new(Waiter { thread, token, db, keys, state: AtomicU8::new(WAITING), request })
    }

    /// Begins to run the request for it; false when the wait has ended. [`Waiter::serve_end`] must follow. Both are called
    /// with the shards of all its keys held, so that no change of one of them falls between two servers.
    pub fn serve_begin(&self) -> bool {
        self.state.compare_exchange(WAITING, SERVING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Ends what [`Waiter::serve_begin`] began: the wait is over, or goes on.
    pub fn serve_end(&self, served: bool) {
        self.state.store(if served { ENDED } else { WAITING }, Ordering::Release);
    }

    /// Ends the wait (timeout, CLIENT UNBLOCK, disconnection): true for exactly one caller, and never once it has been
    /// served. Waits for a service that is under way, which is short.
    pub fn cancel(&self) -> bool {
        loop {
            match self.state.compare_exchange(WAITING, ENDED, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(ENDED) => return false,
                Err(_) => std::thread::yield_now(),
            }
        }
    }
}

/// A key that somebody is blocked on and that has changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReadyKey {
    /// Its database.
    pub db: usize,
    /// Its name.
    pub key: Vec<u8>,
}

/// The watchers and waiters of one shard's keys. Nobody watches or waits most of the time, which is one null pointer.
#[derive(Default)]
pub struct Hooks {
    tables: Option<Box<Tables>>,
}

type Place = (usize, Vec<u8>);

#[derive(Default)]
struct Tables {
    watchers: HashMap<Place, Vec<Arc<WatchFlag>>>,
    waiters: HashMap<Place, VecDeque<Arc<Waiter>>>,
}

impl Hooks {
    /// Whether nobody waits for anything: the test that every write pays.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tables.is_none()
    }

    /// Drops the tables once nobody is in them.
    fn tidy(&mut self) {
        if self.tables.as_ref().is_some_and(|t| t.watchers.is_empty() && t.waiters.is_empty()) {
            self.tables = None;
        }
    }

    /// Adds a watcher, once.
    pub fn watch(&mut self, db: usize, key: &[u8], flag: &Arc<WatchFlag>) {
        let flags = self.tables.get_or_insert_default().watchers.entry((db, key.to_vec())).or_default();
        if !flags.iter().any(|f| Arc::ptr_eq(f, flag)) {
            flags.push(flag.clone());
        }
    }

    /// Removes a watcher.
    pub fn unwatch(&mut self, db: usize, key: &[u8], flag: &Arc<WatchFlag>) {
        let Some(tables) = &mut self.tables else { return };
        let place = (db, key.to_vec());
        if let Some(flags) = tables.watchers.get_mut(&place) {
            flags.retain(|f| !Arc::ptr_eq(f, flag));
            if flags.is_empty() {
                tables.watchers.remove(&place);
            }
        }
        self.tidy();
    }

    /// Queues a waiter behind those that are there.
    pub fn block(&mut self, db: usize, key: &[u8], waiter: &Arc<Waiter>) {
        let queue = self.tables.get_or_insert_default().waiters.entry((db, key.to_vec())).or_default();
        if !queue.iter().any(|w| Arc::ptr_eq(w, waiter)) {
            queue.push_back(waiter.clone());
        }
    }

    /// Takes a waiter out of a key's queue.
    pub fn unblock(&mut self, db: usize, key: &[u8], waiter: &Arc<Waiter>) {
        let Some(tables) = &mut self.tables else { return };
        let place = (db, key.to_vec());
        if let Some(queue) = tables.waiters.get_mut(&place) {
            queue.retain(|w| !Arc::ptr_eq(w, waiter));
            if queue.is_empty() {
                tables.waiters.remove(&place);
            }
        }
        self.tidy();
    }

    /// The waiters of a key, first come first.
    pub fn waiters(&self, db: usize, key: &[u8]) -> Vec<Arc<Waiter>> {
        let queue = self.tables.as_ref().and_then(|tables| tables.waiters.get(&(db, key.to_vec())));
        queue.map(|queue| queue.iter().cloned().collect()).unwrap_or_default()
    }

    /// Tells watchers of a change; true if somebody is blocked on the key.
    pub fn changed(&self, db: usize, key: &[u8]) -> bool {
        let Some(tables) = &self.tables else { return false };
        let place = (db, key.to_vec());
        for flag in tables.watchers.get(&place).into_iter().flatten() {
            flag.raise();
        }
        tables.waiters.contains_key(&place)
    }

    /// Keys of a database that somebody watches, with the watchers.
    pub fn watched(&self, db: usize) -> impl Iterator<Item = (&[u8], &[Arc<WatchFlag>])> {
        let all = self.tables.iter().flat_map(|tables| tables.watchers.iter());
        let of_db = all.filter(move |((watched_db, _), _)| *watched_db == db);
        of_db.map(|((_, key), flags)| (key.as_slice(), flags.as_slice()))
    }

    /// Keys of a database that somebody is blocked on.
    pub fn blocked_keys(&self, db: usize) -> impl Iterator<Item = &[u8]> {
        let all = self.tables.iter().flat_map(|tables| tables.waiters.keys());
        all.filter(move |(waiting_db, _)| *waiting_db == db).map(|(_, key)| key.as_slice())
    }

    /// Number of keys that somebody is blocked on.
    pub fn blocked_key_count(&self) -> usize {
        self.tables.as_ref().map_or(0, |tables| tables.waiters.len())
    }

    /// Number of keys that somebody watches.
    pub fn watched_key_count(&self) -> usize {
        self.tables.as_ref().map_or(0, |tables| tables.watchers.len())
    }
}
