//! Clients that wait for a change of a key: WATCHing clients and blocked ones. One table per shard, under its
//! lock.

use std::any::Any;
use std::collections::VecDeque;
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use hashbrown::hash_map::Entry;
use hashbrown::{Equivalent, HashMap, HashSet};
use martlet_keyspace::{Kind, key_hash};

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

/// One client's interest in one key.
#[derive(Debug)]
pub struct Watcher {
    flag: Arc<WatchFlag>,
    /// The key had expired when it was watched: that it is deleted changes nothing for the client.
    was_expired: AtomicBool,
}

impl Watcher {
    /// The key was changed; `is_there` says whether it exists now.
    fn changed(&self, is_there: bool) {
        if is_there || !self.was_expired.swap(false, Ordering::Relaxed) {
            self.flag.raise();
        }
    }

    /// The key is there where it was not.
    pub fn created(&self) {
        self.changed(true);
    }

    /// The key was deleted with its whole database.
    pub fn flushed(&self) {
        self.changed(false);
    }

    /// The database was exchanged for another: whether the key was there, and whether the one that takes its
    /// place, if there is one, has expired.
    pub fn exchanged(&self, was_there: bool, replaced_by_expired: Option<bool>) {
        match (self.was_expired.load(Ordering::Relaxed), replaced_by_expired) {
            (true, None) => self.was_expired.store(false, Ordering::Relaxed),
            (true, Some(true)) => {}
            (false, Some(true)) if !was_there => self.was_expired.store(true, Ordering::Relaxed),
            (false, None) if !was_there => {}
            _ => self.flag.raise(),
        }
    }
}

/// The value that a blocked client waits for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// A value of this type, which its request takes something from.
    pub kind: Kind,
    /// Its request is run also for a key that holds another type or nothing, which ends the wait.
    pub until_removed: bool,
}

impl Awaited {
    /// Whether the request is to be run for a key that holds a value of this type, or none.
    pub fn is_met_by(self, kind: Option<Kind>) -> bool {
        self.until_removed || kind == Some(self.kind)
    }
}

/// No thread is serving it.
const WAITING: u8 = 0;
/// A thread runs its request to see whether it can be served.
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
    /// The value that it waits for; `None` if it waits for no key.
    pub awaited: Option<Awaited>,
    /// Later waiters have higher numbers, and so each queue is sorted by them.
    number: u64,
    /// [`WAITING`], [`SERVING`] or [`ENDED`].
    state: AtomicU8,
    /// The server's data to run the request for it.
    pub request: Box<dyn Any + Send + Sync>,
}

impl Waiter {
    /// A waiter that no thread has claimed. Made with the shards of its keys locked, like the queueing that
    /// follows.
    pub fn new(
        thread: usize,
        token: u64,
        db: usize,
        keys: Vec<Vec<u8>>,
        awaited: Option<Awaited>,
        request: Box<dyn Any + Send + Sync>,
    ) -> Arc<Waiter> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let state = AtomicU8::new(WAITING);
        Arc::new(Waiter { thread, token, db, keys, awaited, number, state, request })
    }

    /// See [`Awaited::is_met_by`].
    pub fn is_met_by(&self, kind: Option<Kind>) -> bool {
        self.awaited.is_some_and(|awaited| awaited.is_met_by(kind))
    }

    fn until_removed(&self) -> bool {
        self.awaited.is_some_and(|awaited| awaited.until_removed)
    }

    /// Its place in the order of all waiters; see [`Hooks::waiters`].
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Begins to run the request for it; false when the wait has ended. [`Waiter::serve_end`] must follow.
    /// Both are called with the shards of all its keys held, so that no change of one of them falls between
    /// two servers.
    pub fn serve_begin(&self) -> bool {
        self.state.compare_exchange(WAITING, SERVING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Ends the attempt that [`Waiter::serve_begin`] began: the wait is over, or continues.
    pub fn serve_end(&self, served: bool) {
        self.state.store(if served { ENDED } else { WAITING }, Ordering::Release);
    }

    /// Whether it was served or given up.
    pub fn has_ended(&self) -> bool {
        self.state.load(Ordering::Acquire) == ENDED
    }

    /// Ends the wait (timeout, CLIENT UNBLOCK, disconnection): true for exactly one caller, and never once it
    /// has been served. Waits for a service that is under way, which is short.
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

/// A changed key with blocked clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReadyKey {
    /// Its database.
    pub db: usize,
    /// Its name.
    pub key: Vec<u8>,
}

/// Changed keys with blocked clients: each once, in the order of the changes.
#[derive(Debug, Default)]
pub struct ReadyKeys {
    keys: Vec<ReadyKey>,
    noted: HashSet<ReadyKey, RandomState>,
}

impl ReadyKeys {
    /// Whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Notes one, unless it is noted already.
    pub(crate) fn note(&mut self, db: usize, key: &[u8]) {
        let ready = ReadyKey { db, key: key.to_vec() };
        if self.noted.insert(ready.clone()) {
            self.keys.push(ready);
        }
    }

    /// Puts back what could not be served yet.
    pub fn put_back(&mut self, keys: Vec<ReadyKey>) {
        keys.iter().for_each(|ready| self.note(ready.db, &ready.key));
    }

    /// Takes them; from here on they may be noted again.
    pub fn take(&mut self) -> Vec<ReadyKey> {
        self.noted.clear();
        std::mem::take(&mut self.keys)
    }
}

/// The watchers and waiters of one shard's keys. Most of the time there are none, which is one null pointer.
#[derive(Default)]
pub struct Hooks {
    tables: Option<Box<Tables>>,
}

type Place = (usize, Vec<u8>);

/// A place to be looked up.
#[derive(Hash)]
struct PlaceOf<'k>(usize, &'k [u8]);

impl Equivalent<Place> for PlaceOf<'_> {
    fn equivalent(&self, place: &Place) -> bool {
        self.0 == place.0 && self.1 == place.1.as_slice()
    }
}

/// A superset of the keys in a shard's tables, by their hashes. A write of any other key reads one line of
/// the filter and no table.
///
/// A key that leaves the tables stays in the filter until the filter is built again, which happens when the
/// number of added keys exceeds the number of keys in the tables.
#[derive(Default)]
struct Filter {
    bits: [u64; FILTER_WORDS],
    /// Keys added since the filter was built.
    added: usize,
}

/// A cache line.
const FILTER_WORDS: usize = 8;
/// Least number of added keys before the filter is built again.
const FILTER_ADDED_MIN: usize = 64;

impl Filter {
    #[inline]
    fn place(hash: u64) -> (usize, u64) {
        // The lowest bits are the shard's.
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 61) as usize, 1 << (mixed >> 55 & 63))
    }

    #[inline]
    fn may_have(&self, hash: u64) -> bool {
        let (word, bit) = Filter::place(hash);
        self.bits[word] & bit != 0
    }

    fn add(&mut self, key: &[u8]) {
        let (word, bit) = Filter::place(key_hash(key));
        self.bits[word] |= bit;
        self.added += 1;
    }
}
/// The address of a client's [`WatchFlag`], which lives as long as the watcher does.
type ClientFlag = usize;

fn client_flag(flag: &Arc<WatchFlag>) -> ClientFlag {
    Arc::as_ptr(flag) as ClientFlag
}

#[derive(Default)]
struct Tables {
    /// By place, then by client.
    watchers: HashMap<Place, HashMap<ClientFlag, Watcher>, RandomState>,
    waiters: HashMap<Place, Queue, RandomState>,
    /// Ids of the clients that cache a key, ascending. Caches know no databases.
    cached: HashMap<Vec<u8>, Vec<u64>, RandomState>,
    /// Some client is to be notified of every change.
    is_broadcast: bool,
    filter: Filter,
}

/// Clients that are blocked on one key.
#[derive(Default)]
struct Queue {
    /// First come first.
    waiters: VecDeque<Arc<Waiter>>,
    /// How many of them its removal concerns.
    until_removed: usize,
}

impl Queue {
    /// Whether anybody is concerned while the key is there, or is not.
    fn is_concerned(&self, is_there: bool) -> bool {
        is_there || self.until_removed > 0
    }
}

impl Tables {
    fn is_empty(&self) -> bool {
        self.watchers.is_empty() && self.waiters.is_empty() && self.cached.is_empty() && !self.is_broadcast
    }

    /// Adds a key that one of the tables has got.
    fn note(&mut self, key: &[u8]) {
        let held = self.watchers.len() + self.waiters.len() + self.cached.len();
        if self.filter.added < held + FILTER_ADDED_MIN {
            return self.filter.add(key);
        }
        self.filter = Filter::default();
        let places = self.watchers.keys().chain(self.waiters.keys()).map(|(_, key)| key);
        places.chain(self.cached.keys()).for_each(|key| self.filter.add(key));
        self.filter.added = 0;
    }
}

impl Hooks {
    /// Whether there is no watcher and no waiter.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tables.is_none()
    }

    /// Whether a change of a key with this hash may concern a client: the test that every write pays.
    #[inline]
    pub fn may_concern(&self, hash: u64) -> bool {
        self.tables.as_ref().is_some_and(|tables| tables.filter.may_have(hash) || tables.is_broadcast)
    }

    /// Drops the tables once they are empty.
    fn tidy(&mut self) {
        if self.tables.as_ref().is_some_and(|tables| tables.is_empty()) {
            self.tables = None;
        }
    }

    /// Adds a watcher, `was_expired` if the key is there but has expired; false if the client watches the key
    /// already.
    pub fn watch(&mut self, db: usize, key: &[u8], flag: &Arc<WatchFlag>, was_expired: bool) -> bool {
        let tables = self.tables.get_or_insert_default();
        let flags = tables.watchers.entry((db, key.to_vec())).or_default();
        let watcher = || Watcher { flag: flag.clone(), was_expired: AtomicBool::new(was_expired) };
        let is_new = match flags.entry(client_flag(flag)) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(watcher());
                true
            }
        };
        tables.note(key);
        is_new
    }

    /// Whether the key had expired when this client watched it, and nothing has happened to it since.
    pub fn was_expired(&self, db: usize, key: &[u8], flag: &Arc<WatchFlag>) -> bool {
        let watchers = self.tables.as_ref().and_then(|tables| tables.watchers.get(&PlaceOf(db, key)));
        let watcher = watchers.and_then(|watchers| watchers.get(&client_flag(flag)));
        watcher.is_some_and(|watcher| watcher.was_expired.load(Ordering::Relaxed))
    }

    /// Removes a watcher.
    pub fn unwatch(&mut self, db: usize, key: &[u8], flag: &Arc<WatchFlag>) {
        let Some(tables) = &mut self.tables else { return };
        let place = (db, key.to_vec());
        if let Some(flags) = tables.watchers.get_mut(&place) {
            flags.remove(&client_flag(flag));
            if flags.is_empty() {
                tables.watchers.remove(&place);
            }
        }
        self.tidy();
    }

    /// Queues a waiter behind those that are there.
    pub fn block(&mut self, db: usize, key: &[u8], waiter: &Arc<Waiter>) {
        let tables = self.tables.get_or_insert_default();
        let queue = tables.waiters.entry((db, key.to_vec())).or_default();
        // A command may name a key twice.
        let last = queue.waiters.back();
        if last.is_none_or(|last| last.number != waiter.number) {
            debug_assert!(last.is_none_or(|last| last.number < waiter.number));
            queue.until_removed += usize::from(waiter.until_removed());
            queue.waiters.push_back(waiter.clone());
        }
        tables.note(key);
    }

    /// Takes a waiter out of a key's queue.
    pub fn unblock(&mut self, db: usize, key: &[u8], waiter: &Arc<Waiter>) {
        let Some(tables) = &mut self.tables else { return };
        let place = (db, key.to_vec());
        if let Some(queue) = tables.waiters.get_mut(&place) {
            if let Ok(at) = queue.waiters.binary_search_by_key(&waiter.number, |w| w.number) {
                queue.waiters.remove(at);
                queue.until_removed -= usize::from(waiter.until_removed());
            }
            if queue.waiters.is_empty() {
                tables.waiters.remove(&place);
            }
        }
        self.tidy();
    }

    /// The next `most` waiters of a key after the one with the number `after` (0: from the first), first come
    /// first; empty if the key is not there and its removal concerns no waiter.
    pub fn waiters(
        &self,
        db: usize,
        key: &[u8],
        is_there: bool,
        after: u64,
        most: usize,
    ) -> Vec<Arc<Waiter>> {
        let queue = self.tables.as_ref().and_then(|tables| tables.waiters.get(&PlaceOf(db, key)));
        let Some(queue) = queue.filter(|queue| queue.is_concerned(is_there)) else { return Vec::new() };
        let from = queue.waiters.partition_point(|waiter| waiter.number <= after);
        queue.waiters.range(from..).take(most).cloned().collect()
    }

    /// Notifies watchers of a change, after which the key is there or not; true if that concerns a client
    /// that is blocked on the key.
    pub fn changed(&self, db: usize, key: &[u8], is_there: bool) -> bool {
        let Some(tables) = &self.tables else { return false };
        for watcher in tables.watchers.get(&PlaceOf(db, key)).into_iter().flat_map(HashMap::values) {
            watcher.changed(is_there);
        }
        self.concerns_waiters(db, key, is_there)
    }

    /// Whether a client that is blocked on the key is to run its request again.
    pub(crate) fn concerns_waiters(&self, db: usize, key: &[u8], is_there: bool) -> bool {
        let queue = self.tables.as_ref().and_then(|tables| tables.waiters.get(&PlaceOf(db, key)));
        queue.is_some_and(|queue| queue.is_concerned(is_there))
    }

    /// Remembers that a client caches a key: whether the key, and whether the pair, was not known.
    pub(crate) fn cache(&mut self, key: &[u8], client: u64) -> (bool, bool) {
        let tables = self.tables.get_or_insert_default();
        let clients = tables.cached.entry_ref(key).or_default();
        let is_first = clients.is_empty();
        let place = clients.binary_search(&client);
        if let Err(at) = place {
            clients.insert(at, client);
        }
        if is_first {
            tables.note(key);
        }
        (is_first, place.is_err())
    }

    /// The clients that cache a key, which is forgotten.
    pub(crate) fn take_cached(&mut self, key: &[u8]) -> Option<Vec<u64>> {
        let clients = self.tables.as_mut()?.cached.remove(key);
        self.tidy();
        clients
    }

    /// Some key that clients cache.
    pub(crate) fn any_cached(&self) -> Option<&[u8]> {
        self.tables.as_ref()?.cached.keys().next().map(Vec::as_slice)
    }

    /// Forgets all keys that clients cache: how many keys and pairs there were.
    pub(crate) fn clear_cached(&mut self) -> (usize, usize) {
        let Some(tables) = &mut self.tables else { return (0, 0) };
        let cached = std::mem::take(&mut tables.cached);
        self.tidy();
        (cached.len(), cached.values().map(Vec::len).sum())
    }

    /// Whether some client is to be notified of every change.
    pub(crate) fn is_broadcast(&self) -> bool {
        self.tables.as_ref().is_some_and(|tables| tables.is_broadcast)
    }

    /// See [`Hooks::is_broadcast`].
    pub(crate) fn set_broadcast(&mut self, on: bool) {
        if on || self.tables.is_some() {
            self.tables.get_or_insert_default().is_broadcast = on;
        }
        self.tidy();
    }

    /// Watched keys of a database, with the watchers.
    pub fn watched(&self, db: usize) -> impl Iterator<Item = (&[u8], impl Iterator<Item = &Watcher>)> {
        let all = self.tables.iter().flat_map(|tables| tables.watchers.iter());
        let of_db = all.filter(move |((watched_db, _), _)| *watched_db == db);
        of_db.map(|((_, key), flags)| (key.as_slice(), flags.values()))
    }

    /// Keys of a database with blocked clients.
    pub fn blocked_keys(&self, db: usize) -> impl Iterator<Item = &[u8]> {
        let all = self.tables.iter().flat_map(|tables| tables.waiters.keys());
        all.filter(move |(waiting_db, _)| *waiting_db == db).map(|(_, key)| key.as_slice())
    }

    /// Number of keys with blocked clients.
    pub fn blocked_key_count(&self) -> usize {
        self.tables.as_ref().map_or(0, |tables| tables.waiters.len())
    }

    /// Number of keys with clients that are blocked until they are removed, at the latest.
    pub fn blocked_until_removed_count(&self) -> usize {
        let queues = self.tables.iter().flat_map(|tables| tables.waiters.values());
        queues.filter(|queue| queue.until_removed > 0).count()
    }

    /// Number of watched keys.
    pub fn watched_key_count(&self) -> usize {
        self.tables.as_ref().map_or(0, |tables| tables.watchers.len())
    }
}

#[cfg(test)]
mod tests {
    use super::{Awaited, Hooks, ReadyKeys, Waiter, WatchFlag};
    use martlet_keyspace::{Kind, key_hash};
    use std::sync::Arc;

    fn waiter_until(keys: &[&[u8]], until_removed: bool) -> Arc<Waiter> {
        let awaited = Awaited { kind: Kind::List, until_removed };
        Waiter::new(0, 0, 0, keys.iter().map(|key| key.to_vec()).collect(), Some(awaited), Box::new(()))
    }

    fn waiter(keys: &[&[u8]]) -> Arc<Waiter> {
        waiter_until(keys, false)
    }

    #[test]
    fn a_request_is_run_for_what_it_can_take_something_from() {
        let (other, same) = (Some(Kind::Hash), Some(Kind::List));
        let met = |waiter: &Waiter| [None, other, same].map(|kind| waiter.is_met_by(kind));
        assert_eq!(met(&waiter(&[b"k"])), [false, false, true]);
        assert_eq!(met(&waiter_until(&[b"k"], true)), [true, true, true]);
        assert_eq!(met(&Waiter::new(0, 0, 0, Vec::new(), None, Box::new(()))), [false, false, false]);
    }

    #[test]
    fn a_removal_concerns_only_those_who_wait_until_then() {
        let mut hooks = Hooks::default();
        let (reads, reads_until_removed) = (waiter(&[b"k"]), waiter_until(&[b"k"], true));
        hooks.block(0, b"k", &reads);
        assert!(hooks.changed(0, b"k", true) && !hooks.changed(0, b"k", false));
        assert!(hooks.waiters(0, b"k", false, 0, 9).is_empty());
        hooks.block(0, b"k", &reads_until_removed);
        assert!(hooks.changed(0, b"k", false) && hooks.blocked_until_removed_count() == 1);
        assert_eq!(hooks.waiters(0, b"k", false, 0, 9).len(), 2);
        hooks.unblock(0, b"k", &reads_until_removed);
        assert!(!hooks.changed(0, b"k", false) && hooks.blocked_until_removed_count() == 0);
    }

    #[test]
    fn waiters_are_taken_a_few_at_a_time_and_none_is_passed_over() {
        let mut hooks = Hooks::default();
        let all: Vec<_> = (0..100).map(|_| waiter(&[b"k"])).collect();
        all.iter().for_each(|waiter| hooks.block(0, b"k", waiter));
        hooks.block(0, b"k", &all[99]);
        let first = hooks.waiters(0, b"k", true, 0, 3);
        assert_eq!(first.len(), 3);
        assert!(first.iter().zip(&all).all(|(a, b)| Arc::ptr_eq(a, b)));
        // Some before the place and one after it leave in this time.
        for gone in [0, 2, 3] {
            hooks.unblock(0, b"k", &all[gone]);
        }
        let rest = hooks.waiters(0, b"k", true, first[2].number(), usize::MAX);
        assert_eq!(rest.len(), 96);
        assert!(rest.iter().zip(&all[4..]).all(|(a, b)| Arc::ptr_eq(a, b)));
        all.iter().for_each(|waiter| hooks.unblock(0, b"k", waiter));
        assert!(hooks.is_empty());
    }

    #[test]
    fn keys_that_are_ready_are_taken_once_each_in_their_order() {
        let mut ready = ReadyKeys::default();
        for (db, key) in [(0, b"b"), (0, b"a"), (1, b"b"), (0, b"b"), (0, b"a")] {
            ready.note(db, key);
        }
        let taken: Vec<_> = ready.take().into_iter().map(|ready| (ready.db, ready.key)).collect();
        assert_eq!(taken, [(0, b"b".to_vec()), (0, b"a".to_vec()), (1, b"b".to_vec())]);
        assert!(ready.is_empty());
        ready.note(0, b"b");
        assert_eq!(ready.take().len(), 1);
    }

    #[test]
    fn a_client_watches_a_key_once() {
        let mut hooks = Hooks::default();
        let flags: Vec<_> = (0..3).map(|_| Arc::new(WatchFlag::default())).collect();
        for flag in flags.iter().chain(&flags) {
            hooks.watch(0, b"k", flag, false);
        }
        hooks.unwatch(0, b"k", &flags[1]);
        hooks.changed(0, b"k", true);
        let raised: Vec<_> = flags.iter().map(|flag| flag.is_raised()).collect();
        assert_eq!(raised, [true, false, true]);
        hooks.unwatch(0, b"k", &flags[0]);
        hooks.unwatch(0, b"k", &flags[2]);
        assert!(hooks.is_empty());
    }

    #[test]
    fn the_filter_has_all_keys_and_few_others() {
        let mut hooks = Hooks::default();
        let flag = Arc::new(WatchFlag::default());
        let name = |number: u32| format!("key:{number}").into_bytes();
        let concerns = |hooks: &Hooks, number| hooks.may_concern(key_hash(&name(number)));
        assert!(!concerns(&hooks, 0));
        let waiters: Vec<_> = (0..3000).map(|number| waiter(&[&name(number)])).collect();
        // A window of twelve keys moves along: without being made again the filter would be full.
        for number in 0..3000_u32 {
            match number % 3 {
                0 => drop(hooks.watch(0, &name(number), &flag, false)),
                1 => hooks.block(0, &name(number), &waiters[number as usize]),
                _ => drop(hooks.cache(&name(number), 7)),
            }
            if let Some(gone) = number.checked_sub(12) {
                match gone % 3 {
                    0 => hooks.unwatch(0, &name(gone), &flag),
                    1 => hooks.unblock(0, &name(gone), &waiters[gone as usize]),
                    _ => drop(hooks.take_cached(&name(gone))),
                }
            }
            for held in number.saturating_sub(11)..=number {
                assert!(concerns(&hooks, held), "key {held} is there");
            }
            let wrong = (10_000..10_200).filter(|other| concerns(&hooks, *other)).count();
            assert!(wrong < 100, "{wrong} of 200 keys that are not there, at {number}");
        }
        hooks.set_broadcast(true);
        assert!((10_000..10_200).all(|other| concerns(&hooks, other)));
    }
}
