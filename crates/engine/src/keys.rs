//! The view of the keyspace that a command handler gets: the shards of its keys are locked, time stands
//! still.

mod alone;
mod caching;
mod due;
mod following;
mod locking;
pub(crate) mod moment;
pub(crate) mod names;
mod parts;
pub(crate) mod slots;
mod undo;
mod view;

use std::ops::Range;

use martlet_base::limits::SHARD_COUNT;
use martlet_base::random::Random;
use martlet_journal::Position;
use martlet_keyspace::{
    Access, Collection, Db, DeletedLive, Detached, Entry, ExpiryChange, Key, Kind, Object, ObjectMut,
    StrValue, Value,
};
use martlet_spec::EventClass;
use triomphe::Arc;

use crate::counters::Counters;
use crate::effects::{Cause, Effects};
use crate::engine::{Engine, ShardState};
use crate::follow::ChangedKeys;
use crate::hooks::{Hooks, ReadyKeys, Watcher};
use crate::key_counts::NetChanges;
use crate::lazyfree::LazyFree;
use crate::shards::LockedShards;
use crate::snapshot::{Change, Observer};
use crate::touch::Touch;
use crate::undo::Undo;

pub use locking::ShardBusy;
pub use parts::TimedParts;
pub use view::{Expired, View, in_view};

/// The key holds a value of another type.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct WrongType;

impl From<WrongType> for martlet_spec::Error {
    fn from(_: WrongType) -> martlet_spec::Error {
        martlet_spec::Error::WrongType
    }
}

/// See the [module docs](self). One per I/O thread, reused from command to command.
pub struct Keys {
    engine: &'static Engine,
    /// The thread's number.
    thread: usize,
    counters: &'static Counters,
    locked: LockedShards,
    /// See [`Keys::holding`]: waits for a shard with others locked.
    waits_locked: bool,
    /// The change under way of a value that the snapshot shares.
    change: Option<Box<Change>>,
    /// See [`Keys::view`].
    view: View,
    /// See [`Keys::due_ms`].
    due_ms: i64,
    /// Changes made by the command so far.
    pub dirty: u64,
    /// Effects for the journal and for subscribers.
    pub effects: Effects,
    /// The end of the last record that was appended to the journal; its reader sets it to 0.
    pub recorded: Position,
    /// FLUSHALL has run: the last save is to be replaced. Its caller takes note.
    pub flushed_all: bool,
    /// Changed keys with blocked clients.
    pub ready: ReadyKeys,
    /// A shard was left out, since the wait for it might last while a script is busy. The caller of commands
    /// takes note.
    pub gave_up: bool,
    /// See [`Keys::lock_linked`].
    wanted_shards: Vec<usize>,
    /// For random choices.
    pub random: Random,
    /// Changed keys that the follower wants.
    followed: ChangedKeys,
    /// Changes of the numbers of keys, to be published before the shards are unlocked.
    net_changes: NetChanges,
    /// A script's changes.
    pub(crate) undo: Undo,
}

impl Keys {
    /// The view for one thread; nothing is locked yet.
    pub fn new(engine: &'static Engine, thread: usize, random: Random) -> Keys {
        Keys {
            engine,
            thread,
            counters: &engine.counters[thread],
            locked: LockedShards::None,
            waits_locked: false,
            change: None,
            view: View::default(),
            due_ms: 0,
            dirty: 0,
            recorded: 0,
            flushed_all: false,
            effects: Effects::default(),
            ready: ReadyKeys::default(),
            gave_up: false,
            wanted_shards: Vec::new(),
            random,
            followed: ChangedKeys::default(),
            net_changes: NetChanges::default(),
            undo: Undo::default(),
        }
    }

    /// The engine behind.
    pub fn engine(&self) -> &'static Engine {
        self.engine
    }

    /// This thread's counters.
    pub fn counters(&self) -> &'static Counters {
        self.counters
    }

    /// A locked shard, for reading.
    pub fn shard(&self, shard: usize) -> &ShardState {
        self.engine.state(&self.locked, shard)
    }

    /// A locked shard, for changes that are not those of a command (tests, loading, watching).
    pub fn shard_mut(&mut self, shard: usize) -> &mut ShardState {
        let state = self.engine.state_mut(&mut self.locked, shard);
        self.counters.change.set();
        state
    }

    #[inline]
    fn db_of(&self, key: &Key<'_>) -> &Db {
        self.engine.state(&self.locked, key.shard()).keys.db(self.view.db)
    }

    #[inline]
    pub(crate) fn db_of_mut(&mut self, key: &Key<'_>) -> &mut Db {
        let db = self.view.db;
        self.shard_mut(key.shard()).keys.db_mut(db)
    }

    /// The watchers and waiters of the key's shard.
    pub fn hooks_mut(&mut self, key: &Key<'_>) -> &mut Hooks {
        &mut self.shard_mut(key.shard()).hooks
    }

    // ---- reading ----

    /// The entry as it is, without recording an access; an expired one is treated as absent. Several may be
    /// held at once.
    #[inline]
    pub fn get(&self, key: &Key<'_>) -> Option<Entry<'_>> {
        let due_ms = self.due_ms;
        self.db_of(key).get(key).filter(|entry| entry.expiry_ms().is_none_or(|at_ms| at_ms > due_ms))
    }

    /// The entry for a command that reads: notes the access, counts a hit or miss, deletes it if it has
    /// expired.
    #[inline]
    pub fn lookup(&mut self, key: &Key<'_>) -> Option<Entry<'_>> {
        let Some(found) = self.access(key) else {
            self.counters.keyspace_misses.add(1);
            self.effects.event(EventClass::MISSED, "keymiss", self.view.db, key.bytes);
            return None;
        };
        self.counters.keyspace_hits.add(1);
        // SAFETY: nothing has changed the database since `access` found the entry, and the borrow of `self`,
        // which holds its shard, lasts as long as the entry's.
        Some(unsafe { found.attach() })
    }

    /// As [`Keys::lookup`] without noting the access, for commands that ask about a key rather than for its
    /// value.
    pub fn lookup_quietly(&mut self, key: &Key<'_>) -> Option<Entry<'_>> {
        in_view(self, View { touch: Touch::Nothing, ..self.view }, |keys| {
            keys.lookup(key);
        });
        self.get(key)
    }

    /// As [`Keys::lookup_quietly`] without an event if the key is absent (OBJECT).
    pub fn inspect(&mut self, key: &Key<'_>) -> Option<Entry<'_>> {
        let wanted = self.effects.wanted_events;
        // A deletion of an expired key is published all the same.
        self.effects.wanted_events = wanted & !EventClass::MISSED.0;
        self.lookup_quietly(key);
        self.effects.wanted_events = wanted;
        self.get(key)
    }

    /// The entry for a command that changes it: as [`Keys::lookup`] without counting.
    #[inline]
    pub fn lookup_write(&mut self, key: &Key<'_>) -> Option<Entry<'_>> {
        // SAFETY: as in `lookup`.
        self.access(key).map(|found| unsafe { found.attach() })
    }

    /// The entry if the key is there; notes the access and deletes it if it has expired.
    #[inline]
    fn access(&mut self, key: &Key<'_>) -> Option<Detached> {
        let (due_ms, touch, random) = (self.due_ms, self.view.touch, &mut self.random);
        let db = self.engine.state_mut(&mut self.locked, key.shard()).keys.db_mut(self.view.db);
        match db.access(key, due_ms, |old| touch.next(old, random)) {
            Access::Live(entry) => return Some(entry.detach()),
            Access::Absent => {}
            Access::Expired if self.view.expired == Expired::Keep => {}
            Access::Expired => self.delete_expired(key),
        }
        None
    }

    /// A string for a command that reads.
    #[inline]
    pub fn read_str(&mut self, key: &Key<'_>) -> Result<Option<StrValue<'_>>, WrongType> {
        self.lookup(key).map(|entry| entry.str().ok_or(WrongType)).transpose()
    }

    /// A string for a command that will change it.
    #[inline]
    pub fn read_str_for_write(&mut self, key: &Key<'_>) -> Result<Option<StrValue<'_>>, WrongType> {
        self.lookup_write(key).map(|entry| entry.str().ok_or(WrongType)).transpose()
    }

    /// A collection for a command that reads.
    #[inline]
    pub fn read<T: Object>(&mut self, key: &Key<'_>) -> Result<Option<&T>, WrongType> {
        self.lookup(key).map(|entry| entry.object::<T>().ok_or(WrongType)).transpose()
    }

    /// The type of the value; no access is noted.
    pub fn kind(&self, key: &Key<'_>) -> Option<Kind> {
        self.get(key).map(|entry| entry.kind())
    }

    // ---- changing ----

    /// To be called before a key is changed: a snapshot under way gets the old value, and so does the undo
    /// log of a script; a cut of names gets the name.
    #[inline]
    fn preserve(&mut self, key: &Key<'_>) {
        if self.engine.snapshot.is_observed() || self.undo.is_on() {
            let is_followed = self.engine.beginnings.may_have(key.bytes);
            if is_followed || self.undo.is_on() || self.engine.snapshot.is_observed_by_others() {
                self.preserve_now(key);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn preserve_now(&mut self, key: &Key<'_>) {
        self.counters.change.set();
        self.end_change();
        self.note_followed(key);
        let (state, part) = self.engine.state_and_part(&mut self.locked, key.shard());
        if self.undo.is_on() {
            self.undo.keep(&state.keys, self.view.db, key);
        }
        if self.engine.snapshot.has(Observer::Names) {
            self.engine.names.note(&mut part.names, &state.keys, self.view.db, key);
        }
        if self.engine.snapshot.is_on() {
            let change = self.engine.snapshot.preserve(self.thread, part, &state.keys, self.view.db, key);
            self.change = change.map(Box::new);
        }
    }

    /// Counts what a change has left to the snapshot, while its shard is locked.
    #[cold]
    #[inline(never)]
    fn end_change(&mut self) {
        let Some(change) = self.change.take() else { return };
        let (shard, db) = (change.key().shard(), change.db());
        if self.locked.covers(shard) {
            let state = self.engine.state(&self.locked, shard);
            let entry = state.keys.db(db).get(&change.key());
            change.end(entry);
        }
    }

    /// A collection to change, if the key is there.
    #[inline]
    pub fn write<T: Object>(&mut self, key: &Key<'_>) -> Result<Option<ObjectMut<'_, T>>, WrongType> {
        self.preserve(key);
        let clock = self.engine.due_clock(key.shard());
        let Some(found) = self.access(key) else { return Ok(None) };
        // SAFETY: nothing has changed the database since.
        let object = unsafe { found.object_mut::<T>(self.db_of_mut(key)) };
        object.map(|object| Some(object.with_clock(clock))).ok_or(WrongType)
    }

    /// A collection to change, created empty if the key is absent. The caller puts something into it, or
    /// calls [`Keys::delete_if_empty`].
    #[inline]
    pub fn create<T: Collection>(&mut self, key: &Key<'_>) -> Result<ObjectMut<'_, T>, WrongType> {
        self.preserve(key);
        let clock = self.engine.due_clock(key.shard());
        if let Some(found) = self.access(key) {
            // SAFETY: as in `write`.
            let object = unsafe { found.object_mut::<T>(self.db_of_mut(key)) };
            return object.map(|object| object.with_clock(clock)).ok_or(WrongType);
        }
        self.effects.event(EventClass::NEW, "new", self.view.db, key.bytes);
        let lru = self.view.touch.initial(self.view.now_ms);
        self.counters.change.set();
        let db = self.engine.state_mut(&mut self.locked, key.shard()).keys.db_mut(self.view.db);
        let before = db.len();
        let object = db.object_or_insert::<T>(key, lru).ok_or(WrongType)?;
        self.net_changes.note(self.view.db, before, object.database_len());
        Ok(object.with_clock(clock))
    }

    /// A key's access information after a value is stored: under LFU, and where accesses are not recorded, a
    /// present key keeps its own.
    #[inline]
    fn lru_to_store(&self, key: &Key<'_>) -> u32 {
        match self.view.touch {
            Touch::Lru(clock) | Touch::Lrm(clock) => clock & 0xff_ffff,
            _ => self.lru_of(key),
        }
    }

    #[cold]
    fn lru_of(&self, key: &Key<'_>) -> u32 {
        self.get(key).map_or_else(|| self.view.touch.initial(self.view.now_ms), |entry| entry.lru())
    }

    /// Records the event `new` if the key is not there and a subscriber wants it.
    #[inline]
    fn note_new(&mut self, key: &Key<'_>) {
        if self.effects.wanted_events & EventClass::NEW.0 != 0 && self.get(key).is_none() {
            self.effects.event(EventClass::NEW, "new", self.view.db, key.bytes);
        }
    }

    /// Notes what becomes of the key where a value of this kind replaces whatever it holds.
    #[inline]
    fn note_stored(&mut self, key: &Key<'_>, kind: Kind) {
        const REPLACED: u32 = EventClass::OVERWRITTEN.0 | EventClass::TYPE_CHANGED.0;
        const WANTED: u32 = EventClass::NEW.0 | EventClass::EXPIRED.0 | REPLACED;
        if self.effects.wanted_events & WANTED != 0 {
            self.note_stored_now(key, kind);
        }
    }

    #[cold]
    fn note_stored_now(&mut self, key: &Key<'_>, kind: Kind) {
        self.delete_if_expired(key);
        match self.kind(key) {
            None => self.note_new(key),
            Some(old) => self.note_overwritten(key, old, kind),
        }
    }

    /// Notes that a value of one kind has replaced one of another, or of the same.
    pub fn note_overwritten(&mut self, key: &Key<'_>, old: Kind, new: Kind) {
        self.effects.event(EventClass::OVERWRITTEN, "overwritten", self.view.db, key.bytes);
        if old != new {
            self.effects.event(EventClass::TYPE_CHANGED, "type_changed", self.view.db, key.bytes);
        }
    }

    /// Stores a string whatever the key held, as SET does; an integer if it spells one. This notes the
    /// access, so a key need not be looked up before.
    #[inline]
    pub fn set_str(&mut self, key: &Key<'_>, bytes: &[u8], expiry: ExpiryChange) {
        self.replace_str(key, expiry, |db, lru| db.set_str(key, bytes, expiry, lru));
    }

    /// As [`Keys::set_str`]; a long value shares the bytes.
    pub fn set_shared(&mut self, key: &Key<'_>, bytes: &Arc<Vec<u8>>, expiry: ExpiryChange) {
        self.replace_str(key, expiry, |db, lru| db.set_shared(key, bytes, expiry, lru));
    }

    #[inline(always)]
    fn replace_str(
        &mut self,
        key: &Key<'_>,
        expiry: ExpiryChange,
        set: impl FnOnce(&mut Db, u32) -> Option<Value>,
    ) {
        self.preserve(key);
        self.note_stored(key, Kind::String);
        self.note_expiry(key, expiry);
        if self.view.touch.counts() {
            self.access(key);
        }
        let lru = self.lru_to_store(key);
        let old = self.change_db(key, |db| set(db, lru));
        self.discard(old);
    }

    /// Stores an integer whatever the key held.
    pub fn set_int(&mut self, key: &Key<'_>, value: i64, expiry: ExpiryChange) {
        self.preserve(key);
        self.note_new(key);
        self.note_expiry(key, expiry);
        let lru = self.lru_to_store(key);
        let old = self.change_db(key, |db| db.set_int(key, value, expiry, lru));
        self.discard(old);
    }

    /// Stores a string as bytes even if they spell an integer, whatever the key held; with `raw`, OBJECT
    /// ENCODING says so however short they are.
    pub fn set_bytes(&mut self, key: &Key<'_>, bytes: &[u8], raw: bool, expiry: ExpiryChange) {
        self.preserve(key);
        self.note_new(key);
        self.note_expiry(key, expiry);
        let lru = self.lru_to_store(key);
        let old = self.change_db(key, |db| db.set_bytes(key, bytes, raw, expiry, lru));
        self.discard(old);
    }

    /// Changes bytes of a string without changing their number, of which it touches only these; see
    /// [`Db::str_bytes_mut`]. `None`, and nothing was done, if it has no bytes that can be changed so. Look
    /// the key up first.
    pub fn change_bytes<R>(
        &mut self,
        key: &Key<'_>,
        touched: Range<usize>,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Option<R> {
        self.preserve(key);
        self.change_str(key, &touched, |db| db.str_bytes_mut(key).map(change))
    }

    /// Changes a string's bytes in place, an empty one if the key is absent; see [`Db::update_str`]. Of those
    /// that are there it touches only these, and it does not make them fewer; it makes room for all these.
    /// The key must hold a string or be absent: look it up first.
    pub fn update_str<R>(
        &mut self,
        key: &Key<'_>,
        touched: Range<usize>,
        change: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> R {
        self.preserve(key);
        self.note_new(key);
        let lru = self.lru_to_store(key);
        self.change_str(key, &touched, |db| db.update_str(key, lru, touched.end, change))
    }

    #[inline]
    fn change_str<R>(
        &mut self,
        key: &Key<'_>,
        touched: &Range<usize>,
        change: impl FnOnce(&mut Db) -> R,
    ) -> R {
        self.counters.change.set();
        let (db, snapshot) = (self.view.db, &self.engine.snapshot);
        let shard = &mut self.engine.state_mut(&mut self.locked, key.shard()).keys;
        let before = shard.db(db).len();
        let result = if snapshot.is_on() {
            snapshot.change_str(shard, db, key, touched, change)
        } else {
            change(shard.db_mut(db))
        };
        self.net_changes.note(db, before, shard.db(db).len());
        result
    }

    /// Stores a value of any type; the key's old value is discarded.
    pub fn set_value(&mut self, key: &Key<'_>, value: Value, expiry_ms: Option<i64>) {
        self.preserve(key);
        self.note_stored(key, value.kind());
        let lru = self.lru_to_store(key);
        let old = self.change_db(key, |db| db.set_value(key, value, expiry_ms, lru));
        self.note_value_due(key, expiry_ms);
        self.discard(old);
    }

    /// Notes when a value that has been stored, or a part of it, is due.
    pub(crate) fn note_value_due(&mut self, key: &Key<'_>, expiry_ms: Option<i64>) {
        if let Some(at_ms) = expiry_ms {
            self.engine.note_due(key.shard(), at_ms);
        }
        self.note_fresh_due(key);
    }

    /// Deletes the key; whether it was there. An expired one counts as absent.
    pub fn delete(&mut self, key: &Key<'_>) -> bool {
        if (self.engine.snapshot.is_observed() || self.undo.is_on()) && self.get(key).is_some() {
            self.preserve(key);
        }
        let due_ms = self.due_ms;
        match self.change_db(key, |db| db.delete_live(key, due_ms, LazyFree::EFFORT)) {
            DeletedLive::Deleted(kept) => {
                self.discard(kept);
                true
            }
            DeletedLive::Expired => {
                self.access(key);
                false
            }
            DeletedLive::Absent => false,
        }
    }

    /// Deletes the key if its collection has no elements left; whether it did.
    pub fn delete_if_empty<T: Object>(&mut self, key: &Key<'_>) -> bool {
        let empty = self.get(key).and_then(|entry| entry.object::<T>().map(|o| o.element_count() == 0));
        empty == Some(true) && self.delete(key)
    }

    /// Takes the key out: its value and its expiry. No event is noted.
    pub fn take(&mut self, key: &Key<'_>) -> Option<(Value, Option<i64>)> {
        self.access(key)?;
        self.preserve(key);
        self.change_db(key, |db| {
            let expiry_ms = db.get(key)?.expiry_ms();
            db.remove(key).map(|value| (value, expiry_ms))
        })
    }

    /// Sets the key's 24 bits of access information, as for a key that was renamed or restored.
    pub fn set_lru(&mut self, key: &Key<'_>, lru: u32) {
        self.db_of_mut(key).touch(key, |_| lru);
    }

    /// When the key expires, Unix milliseconds.
    pub fn expiry_ms(&self, key: &Key<'_>) -> Option<i64> {
        self.get(key).and_then(|entry| entry.expiry_ms())
    }

    /// Sets or removes the key's expiry; false if there is no such key.
    pub fn set_expiry(&mut self, key: &Key<'_>, expiry_ms: Option<i64>) -> bool {
        if let Some(at_ms) = expiry_ms {
            self.engine.note_due(key.shard(), at_ms);
        }
        self.preserve(key);
        self.db_of_mut(key).set_expiry(key, expiry_ms)
    }

    #[inline]
    fn note_expiry(&self, key: &Key<'_>, expiry: ExpiryChange) {
        if let ExpiryChange::At(at_ms) = expiry {
            self.engine.note_due(key.shard(), at_ms);
        }
    }

    /// Records that the key was changed: one more change, watchers and waiters notified, an event recorded.
    #[inline]
    pub fn changed(&mut self, key: &Key<'_>, class: EventClass, event: &'static str) {
        self.dirty += 1;
        self.signal(key);
        self.effects.event(class, event, self.view.db, key.bytes);
    }

    /// Notifies watchers and waiters that the key was changed.
    #[inline]
    pub fn signal(&mut self, key: &Key<'_>) {
        if let Touch::Lrm(clock) = self.view.touch {
            self.set_lru(key, clock & 0xff_ffff);
        }
        if self.engine.state(&self.locked, key.shard()).hooks.may_concern(key.hash) {
            self.signal_hooks(key, Cause::Command);
        }
    }

    /// Has clients that are blocked on the key run their requests again, without notifying watchers: their
    /// answers depend on more than the value, such as a group that was destroyed.
    pub fn wake_waiters(&mut self, key: &Key<'_>) {
        let state = self.engine.state(&self.locked, key.shard());
        if state.hooks.may_concern(key.hash) {
            let is_there = state.keys.db(self.view.db).get(key).is_some();
            if state.hooks.concerns_waiters(self.view.db, key.bytes, is_there) {
                self.ready.note(self.view.db, key.bytes);
            }
        }
    }

    /// Notifies watchers and waiters of a change that no client asked for: the time of a key, or of fields in
    /// it, had come, or the key was evicted.
    pub(crate) fn signal_by_server(&mut self, key: &Key<'_>) {
        if self.engine.state(&self.locked, key.shard()).hooks.may_concern(key.hash) {
            self.signal_hooks(key, Cause::Expiry);
        }
    }

    #[cold]
    fn signal_hooks(&mut self, key: &Key<'_>, cause: Cause) {
        let state = self.engine.state(&self.locked, key.shard());
        let is_there = state.keys.db(self.view.db).get(key).is_some();
        if state.hooks.changed(self.view.db, key.bytes, is_there) {
            self.ready.note(self.view.db, key.bytes);
        }
        self.invalidate_cached(key, cause);
    }

    /// Drops a value, in the background if that takes long.
    #[inline]
    pub fn discard(&mut self, value: Option<Value>) {
        if let Some(value) = value
            && value.free_effort() > LazyFree::EFFORT
        {
            self.engine.lazy_free.free(1, Box::new(value));
        }
    }

    // ---- expiring ----

    /// Deletes the key if its time has come (unless expired keys are to be kept); whether it has.
    pub fn delete_if_expired(&mut self, key: &Key<'_>) -> bool {
        let due_ms = self.due_ms;
        let expired =
            self.db_of(key).get(key).is_some_and(|e| e.expiry_ms().is_some_and(|at_ms| at_ms <= due_ms));
        if expired && !self.keeps_expired() {
            self.delete_expired(key);
        }
        expired
    }

    /// As [`Keys::preserve`] of a key whose time has come, which a snapshot does not ask for: a cut of
    /// names shows it where its time had not come then.
    fn note_expiring(&mut self, key: &Key<'_>) {
        self.note_followed(key);
        if self.engine.snapshot.has(Observer::Names) {
            let (state, part) = self.engine.state_and_part(&mut self.locked, key.shard());
            self.engine.names.note(&mut part.names, &state.keys, self.view.db, key);
        }
    }

    #[cold]
    fn delete_expired(&mut self, key: &Key<'_>) {
        self.note_expiring(key);
        let kept = self.change_db(key, |db| db.delete(key, LazyFree::EFFORT));
        self.discard(kept.flatten());
        self.after_expiry(key);
    }

    /// Deletes a key that is given a time in the past. It is recorded as the deletion of an expired one.
    pub fn delete_for_past_time(&mut self, key: &Key<'_>) {
        if !self.delete(key) {
            return;
        }
        if self.effects.deletions.past_times_expire {
            self.counters.expired_keys.add(1);
            self.changed(key, EventClass::EXPIRED, "expired");
        } else {
            self.changed(key, EventClass::GENERIC, "del");
        }
        let word = self.effects.deletions.expiry.command();
        self.effects.replace(self.view.db, || [word, key.bytes]);
    }

    fn after_expiry(&mut self, key: &Key<'_>) {
        self.counters.expired_keys.add(1);
        self.effects.event(EventClass::EXPIRED, "expired", self.view.db, key.bytes);
        self.effects.deleted_by_server(self.view.db, key.bytes, self.effects.deletions.expiry);
        self.signal_by_server(key);
    }

    /// Deletes up to `limit` keys, fields, members and records of streams of a locked shard that are due,
    /// calling `lag` with how late each key and field is, in milliseconds; whether more are due.
    pub fn expire_due(&mut self, shard: usize, limit: usize, mut lag: impl FnMut(i64)) -> bool {
        self.counters.change.set();
        let used: Vec<usize> = self.shard(shard).keys.used().collect();
        let mut left = limit;
        for db in used {
            left -= self.in_db(db, |keys| keys.expire_due_keys(shard, left, &mut lag));
        }
        let keys = &self.shard(shard).keys;
        let times = keys.used().map(|db| keys.db(db)).flat_map(|db| [db.next_expiry_ms(), db.next_due_ms()]);
        let next_ms = times.flatten().min();
        self.engine.set_due(shard, next_ms.unwrap_or(i64::MAX));
        left == 0
    }

    /// As [`Keys::expire_due`] in the run's database; how many.
    fn expire_due_keys(&mut self, shard: usize, limit: usize, lag: &mut impl FnMut(i64)) -> usize {
        let (db, now_ms) = (self.view.db, self.view.now_ms);
        let mut expired = 0;
        while expired < limit {
            let mut name = Vec::new();
            let (engine, observed) = (self.engine, self.engine.snapshot.has(Observer::Names));
            let (state, part) = engine.state_and_part(&mut self.locked, shard);
            let table = state.keys.db_mut(db);
            let Some(kept) = table.expire_next(now_ms, LazyFree::EFFORT, |entry, at_ms| {
                name.extend_from_slice(entry.key());
                if observed {
                    engine.names.note_entry(&mut part.names, db, &entry);
                }
                lag(now_ms - at_ms);
            }) else {
                break;
            };
            self.net_changes.add(db, -1);
            self.discard(kept);
            let key = Key::new(&name);
            self.note_followed(&key);
            self.after_expiry(&key);
            self.counters.expired_keys_unmet.add(1);
            expired += 1;
        }
        expired + self.expire_due_parts(shard, limit - expired, lag)
    }

    // ---- the whole store ----

    /// Empties one database or, with `None`, all; all shards must be held. Returns how many keys there were.
    /// They are freed in the background, and count as lazily freed if `counted`.
    pub fn flush(&mut self, db: Option<usize>, counted: bool) -> usize {
        debug_assert!(self.has_all_shards());
        self.counters.change.set();
        self.engine.hidden.note_flush();
        let mut removed = 0;
        for i in 0..SHARD_COUNT {
            let (state, part) = self.engine.state_and_part(&mut self.locked, i);
            let dbs: Vec<usize> = match db {
                Some(db) => vec![db],
                None => state.keys.used().collect(),
            };
            for db in dbs {
                touch_watched(state, db, |keys, key| keys.get(&Key::new(key)).is_some());
                if state.keys.db(db).is_empty() {
                    continue;
                }
                state.hooks.blocked_keys(db).for_each(|key| self.ready.note(db, key));
                let snapshot = &self.engine.snapshot;
                if snapshot.is_on() {
                    snapshot.follow(part, &state.keys);
                }
                let old = state.keys.db_mut(db).take_all();
                let len = old.len();
                removed += len;
                self.net_changes.note(db, len, 0);
                let old = if snapshot.is_on() { snapshot.keep(part, db, old) } else { Some(old) };
                if let Some(old) = old {
                    self.engine.lazy_free.free(if counted { len } else { 0 }, Box::new(old));
                }
            }
            if db.is_none() {
                self.engine.set_due(i, i64::MAX);
            }
        }
        self.forget_cached();
        if let Some(follower) = self.follower() {
            follower.emptied(db);
        }
        removed
    }

    /// Exchanges two databases; all shards must be held.
    pub fn swap_databases(&mut self, a: usize, b: usize) {
        debug_assert!(self.has_all_shards());
        self.counters.change.set();
        let now_ms = self.view.now_ms;
        for i in 0..SHARD_COUNT {
            let (state, part) = self.engine.state_and_part(&mut self.locked, i);
            if self.engine.snapshot.is_on() {
                self.engine.snapshot.before_swap(part, &state.keys, a, b);
            }
            for (db, other) in [(a, b), (b, a)] {
                for (key, watchers) in state.hooks.watched(db) {
                    let key = Key::new(key);
                    let was_there = state.keys.db(db).get(&key).is_some();
                    let has_expired = |e: Entry<'_>| e.expiry_ms().is_some_and(|at_ms| at_ms <= now_ms);
                    let replaced_by_expired = state.keys.db(other).get(&key).map(has_expired);
                    watchers.for_each(|w| w.exchanged(was_there, replaced_by_expired));
                }
            }
            state.keys.swap(a, b);
            let (new_a, new_b) = (state.keys.db(a).len(), state.keys.db(b).len());
            self.net_changes.note(a, new_b, new_a);
            self.net_changes.note(b, new_a, new_b);
            for db in [a, b] {
                state.hooks.blocked_keys(db).for_each(|key| self.ready.note(db, key));
            }
        }
        if let Some(follower) = self.follower() {
            follower.swapped(a, b);
        }
    }
}

/// Notifies the watchers of a database's keys for which `concerned` holds.
fn touch_watched(state: &ShardState, db: usize, concerned: impl Fn(&Db, &[u8]) -> bool) {
    for (key, flags) in state.hooks.watched(db) {
        if concerned(state.keys.db(db), key) {
            flags.for_each(Watcher::flushed);
        }
    }
}
