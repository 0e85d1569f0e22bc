//! The keyspace as it was at one instant, read while it changes.
//!
//! At the cut, behind the closed gate, every database of every shard is *pending*. A [`Walk`](crate::Walk)
//! takes the entries of pending databases, segment by segment, under their shard's lock. A thread that
//! changes a key which the walk has not reached saves its old content first, and marks the key, so that the
//! walk passes over it. Invariant: a key of the cut is handed out once, as it was then, and no other key is;
//! but a key or field whose time has come since may be missing.
//!
//! Without a snapshot a change pays for one test of a flag that is not written to.

mod held;
mod pins;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use martlet_base::number::NumberBuffer;
use martlet_base::prefetch::PrefetchQueue;
use martlet_base::sync::lock;
use martlet_keyspace::{Db, Entry, Key, ORDERS, Shard, StrValue, Value};

use crate::names::NamePart;
use crate::shards::ShardSet;
pub use held::HeldBytes;
pub(crate) use held::{Account, Change};
use held::{SharedBytes, estimate};
use pins::{Pin, Pins};

/// Keys that are taken under one hold of a shard's lock, about: some microseconds.
const SLICE_KEYS: usize = 64;

/// How long a walk runs before it lets other threads run while it holds nothing. The kernel lets a thread
/// that has just begun run for longer than that (1.4 ms with two cores), so that other threads do not take
/// its place while it holds a shard.
pub(crate) const REST_INTERVAL: Duration = Duration::from_micros(700);

/// The content of a key at the cut.
#[derive(Copy, Clone, Debug)]
pub enum SavedValue<'a> {
    /// A string.
    Str(StrValue<'a>),
    /// Anything else, or a string that was too long to copy.
    Shared(&'a Value),
}

/// A key at the cut.
#[derive(Copy, Clone, Debug)]
pub struct SavedKey<'a> {
    /// Its database.
    pub db: usize,
    /// Its name.
    pub key: &'a [u8],
    /// When it expires, Unix milliseconds.
    pub expiry_ms: Option<i64>,
    /// Its 24 bits of access information.
    pub lru: u32,
    /// Its value.
    pub value: SavedValue<'a>,
}

#[derive(Debug)]
enum StoredValue {
    Int(i64),
    /// This number of bytes of the text, behind the key.
    Bytes(usize),
    Shared(Value),
    Pinned(Arc<Pin>),
}

#[derive(Debug)]
struct Stored {
    db: usize,
    key_len: usize,
    expiry_ms: Option<i64>,
    lru: u32,
    value: StoredValue,
    /// What of the value has left the keyspace, if a writer saved it. Dropped after the value.
    held: Option<Arc<SharedBytes>>,
}

/// Keys that were taken out of a snapshot: names and short strings copied, the rest shared.
#[derive(Debug, Default)]
pub struct SavedKeys {
    keys: Vec<Stored>,
    text: Vec<u8>,
    /// The same of the values that a walk has taken.
    taken: Option<Arc<SharedBytes>>,
    /// The two buffers.
    held: HeldBytes,
}

impl SavedKeys {
    /// Long strings are pinned if there are `pins`.
    fn push(&mut self, db: usize, entry: &Entry<'_>, pins: Option<&Pins>) {
        self.text.extend_from_slice(entry.key());
        let value = match entry.str() {
            Some(StrValue::Int(number)) => StoredValue::Int(number),
            Some(StrValue::Bytes(bytes)) if bytes.len() <= martlet_base::limits::STRING_INLINE_MAX_BYTES => {
                martlet_base::copy::extend(&mut self.text, bytes);
                StoredValue::Bytes(bytes.len())
            }
            _ => match pins.and_then(|pins| pins.pin(entry)) {
                Some(pin) => StoredValue::Pinned(pin),
                None => StoredValue::Shared(entry.value()),
            },
        };
        let (expiry_ms, lru) = (entry.expiry_ms(), entry.lru());
        self.keys.push(Stored { db, key_len: entry.key().len(), expiry_ms, lru, value, held: None });
    }

    /// The part of the account of the key that was pushed last, if the keyspace may share its value.
    fn hold_last(&mut self, account: &Arc<Account>) -> Option<Arc<SharedBytes>> {
        let last = self.keys.last_mut().filter(|last| last.value.is_shared())?;
        Some(last.held.insert(SharedBytes::new(account)).clone())
    }

    /// The part of the account of all its values, if the keyspace may share one of them.
    fn hold_taken(&mut self, account: &Arc<Account>) -> Option<Arc<SharedBytes>> {
        let is_shared = self.keys.iter().any(|stored| stored.value.is_shared());
        is_shared.then(|| self.taken.insert(SharedBytes::new(account)).clone())
    }

    /// Counts the buffers as they are now.
    pub(crate) fn recount(&mut self, account: &Arc<Account>) {
        self.held.join(account);
        self.held.set(self.text.capacity() + self.keys.capacity() * size_of::<Stored>());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Takes them out in order.
    pub fn drain(&mut self, mut f: impl FnMut(SavedKey<'_>)) {
        let (mut rest, mut long_bytes) = (self.text.as_slice(), self.held.sibling());
        for stored in self.keys.drain(..) {
            let (key, behind) = rest.split_at(stored.key_len);
            rest = behind;
            let mut long = Vec::new();
            let value = match &stored.value {
                &StoredValue::Int(number) => SavedValue::Str(StrValue::Int(number)),
                &StoredValue::Bytes(len) => {
                    let (bytes, behind) = rest.split_at(len);
                    rest = behind;
                    SavedValue::Str(StrValue::Bytes(bytes))
                }
                StoredValue::Shared(value) => SavedValue::Shared(value),
                StoredValue::Pinned(pin) => {
                    long_bytes.set(pin.len());
                    pin.copy(&mut long);
                    SavedValue::Str(StrValue::Bytes(&long))
                }
            };
            f(SavedKey { db: stored.db, key, expiry_ms: stored.expiry_ms, lru: stored.lru, value });
            drop(long);
            long_bytes.set(0);
        }
        self.taken = None;
        self.text.clear();
    }

    /// Adds what `other` has.
    pub(crate) fn append(&mut self, other: SavedKeys) {
        if self.is_empty() {
            *self = other;
        } else {
            self.keys.extend(other.keys);
            self.text.extend_from_slice(&other.text);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.text.clear();
        self.taken = None;
    }
}

impl StoredValue {
    fn is_shared(&self) -> bool {
        matches!(self, StoredValue::Shared(_) | StoredValue::Pinned(_))
    }
}

/// A database of a shard that the walk has not come to the end of.
pub(crate) struct Pending {
    /// Its number at the cut.
    cut_db: usize,
    /// Its number now; or, if it was emptied as a whole, its old content.
    pub(crate) place: Place,
    /// Keys whose order is below have been taken.
    from: u64,
    /// Keys beyond that which have been saved, or were not there at the cut; with the account of the value
    /// that was saved, until it is written.
    passed_over: HashMap<Box<[u8]>, Weak<SharedBytes>>,
    /// Of those names.
    held: HeldBytes,
}

/// Bytes of a name in `passed_over` besides its text, about: the map is half full.
const PASSED_OVER_BYTES: usize = 2 * size_of::<(Box<[u8]>, Weak<SharedBytes>)>();

pub(crate) enum Place {
    Now(usize),
    Gone(Box<Db>, HeldBytes),
}

/// Values that were taken from a shard and are being written, of which the keyspace may share some.
struct TakenSlice {
    held: Weak<SharedBytes>,
    /// Orders of the keys of a database.
    keys: Vec<(usize, Range<u64>)>,
}

/// A shard's part of the snapshot; its lock guards it.
#[derive(Default)]
pub(crate) struct Part {
    /// The snapshot that `pending` belongs to.
    pub(crate) epoch: u64,
    pub(crate) pending: Vec<Pending>,
    taken: Option<TakenSlice>,
    /// The same of the cut of names.
    pub(crate) names: NamePart,
}

impl Part {
    /// Takes up a new snapshot before the first change after its cut.
    pub(crate) fn follow(&mut self, epoch: u64, shard: &Shard) {
        if self.epoch == epoch {
            return;
        }
        self.epoch = epoch;
        self.pending = shard
            .used()
            .map(|db| Pending {
                cut_db: db,
                place: Place::Now(db),
                from: 0,
                passed_over: HashMap::default(),
                held: HeldBytes::default(),
            })
            .collect();
        self.taken = None;
    }

    /// The account of a key that was taken with the last slice, while that is being written.
    fn taken_with(&self, db: usize, key: &Key<'_>) -> Option<Arc<SharedBytes>> {
        let slice = self.taken.as_ref()?;
        let covers = |(of, orders): &(usize, Range<u64>)| *of == db && orders.contains(&key.order());
        slice.held.upgrade().filter(|_| slice.keys.iter().any(covers))
    }

    fn at(&mut self, db: usize) -> Option<&mut Pending> {
        self.pending.iter_mut().find(|pending| matches!(pending.place, Place::Now(now) if now == db))
    }
}

/// What a change must show what it changes before: readers of the keys as they were at one instant, and what
/// follows the keys.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Observer {
    /// A snapshot.
    Snapshot = 1,
    /// A cut of names.
    Names = 2,
    /// A [`Follower`](crate::Follower) that wants keys.
    Follower = 4,
}

/// The engine's part of the snapshot under way.
#[derive(Default)]
pub struct Snapshot {
    /// What changes have to be shown to: [`Observer`]s, a bit for each. The snapshot's rises behind the
    /// closed gate only, that of names with every shard locked,
    /// that of the follower before it locks the first shard whose keys it reads.
    observers: AtomicU8,
    /// Counts them.
    pub(crate) epoch: AtomicU64,
    /// Keys saved by writers, each in the part of its thread number: only the walk meets it there.
    pub(crate) saved: Box<[CachePadded<Mutex<SavedKeys>>]>,
    /// On a separate line: every change reads the words before it.
    pub(crate) progress: CachePadded<Progress>,
}

/// What changes while a snapshot is walked.
#[derive(Default)]
pub(crate) struct Progress {
    /// The shards that are walked; the others' keys are not asked for.
    wanted: Mutex<Option<ShardSet>>,
    /// The next shard to be walked.
    pub(crate) next_shard: AtomicUsize,
    /// Shards that have been walked.
    pub(crate) walked: AtomicUsize,
    /// Long strings that were taken and not copied yet.
    pub(crate) pins: Pins,
    /// The longest time for which a walk held a shard, nanoseconds: as it passed, and of the thread's
    /// processor time.
    pub(crate) longest_hold: [AtomicU64; 2],
    /// Memory that only the snapshot keeps.
    pub(crate) account: Arc<Account>,
}

impl Snapshot {
    /// Nothing is under way; writers have the numbers `0..threads`.
    pub(crate) fn new(threads: usize) -> Snapshot {
        let saved = (0..threads).map(|_| CachePadded::default()).collect();
        Snapshot { saved, ..Snapshot::default() }
    }

    /// Whether changes must save the old values.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.has(Observer::Snapshot)
    }

    /// Whether there is an observer of this kind.
    #[inline]
    pub(crate) fn has(&self, observer: Observer) -> bool {
        self.observers.load(Ordering::Relaxed) & observer as u8 != 0
    }

    /// Whether there is one beside the follower.
    #[inline]
    pub(crate) fn is_observed_by_others(&self) -> bool {
        self.observers.load(Ordering::Relaxed) & !(Observer::Follower as u8) != 0
    }

    /// Whether there is any.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.observers.load(Ordering::Relaxed) != 0
    }

    /// An observer begins, or ends.
    pub(crate) fn observe(&self, observer: Observer, begins: bool) {
        match begins {
            true => self.observers.fetch_or(observer as u8, Ordering::Relaxed),
            false => self.observers.fetch_and(!(observer as u8), Ordering::Relaxed),
        };
    }

    /// The longest time for which the last walk, or the one under way, has held a shard beside serving
    /// threads, nanoseconds: as it passed, and without the time of other threads on its core.
    pub fn longest_hold_ns(&self) -> [u64; 2] {
        self.progress.longest_hold.each_ref().map(|ns| ns.load(Ordering::Relaxed))
    }

    /// Bytes that only the snapshot under way keeps: old values, names of changed keys, buffers.
    pub fn held_bytes(&self) -> u64 {
        self.progress.account.bytes()
    }

    /// The most of [`Snapshot::held_bytes`] since the last cut.
    pub fn held_peak_bytes(&self) -> u64 {
        self.progress.account.peak()
    }

    /// Counts a buffer of a thread that writes the snapshot.
    pub fn hold(&self, bytes: usize) -> HeldBytes {
        HeldBytes::new(&self.progress.account, bytes)
    }

    /// Begins a snapshot: see [`Keys::cut_snapshot`](crate::Keys::cut_snapshot).
    pub(crate) fn cut(&self, wanted: Option<ShardSet>) {
        *lock(&self.progress.wanted) = wanted;
        self.epoch.fetch_add(1, Ordering::Relaxed);
        self.progress.next_shard.store(0, Ordering::Relaxed);
        self.progress.walked.store(0, Ordering::Relaxed);
        self.progress.longest_hold.iter().for_each(|ns| ns.store(0, Ordering::Relaxed));
        self.progress.account.begin();
        // A change that was under way at the end of the last one may have put its pin back.
        self.progress.pins.clear();
        self.observe(Observer::Snapshot, true);
    }

    pub(crate) fn wants(&self, shard: usize) -> bool {
        lock(&self.progress.wanted).as_ref().is_none_or(|wanted| wanted.contains(shard))
    }

    pub(crate) fn saved_by(&self, writer: usize) -> MutexGuard<'_, SavedKeys> {
        lock(&self.saved[writer])
    }

    /// Before a change of a key of a locked shard, by the thread of this number. The change is to be ended
    /// before the shard is unlocked.
    pub(crate) fn preserve(
        &self,
        writer: usize,
        part: &mut Part,
        shard: &Shard,
        db: usize,
        key: &Key<'_>,
    ) -> Option<Change> {
        part.follow(self.epoch.load(Ordering::Relaxed), shard);
        let entry = shard.db(db).get(key);
        let held = match part.at(db).filter(|pending| pending.from <= key.order()) {
            None => part.taken_with(db, key),
            Some(pending) => match pending.passed_over.get(key.bytes) {
                Some(held) => held.upgrade(),
                None => self.pass_over(writer, pending, key, entry.as_ref()),
            },
        };
        Some(Change::begin(held?, db, &entry?))
    }

    /// Saves what a key holds, and has the walk pass over it.
    fn pass_over(
        &self,
        writer: usize,
        pending: &mut Pending,
        key: &Key<'_>,
        entry: Option<&Entry<'_>>,
    ) -> Option<Arc<SharedBytes>> {
        let account = &self.progress.account;
        let held = entry.and_then(|entry| {
            let mut saved = self.saved_by(writer);
            saved.push(pending.cut_db, entry, Some(&self.progress.pins));
            saved.recount(account);
            saved.hold_last(account)
        });
        pending.passed_over.insert(key.bytes.into(), held.as_ref().map_or_else(Weak::new, Arc::downgrade));
        pending.held.join(account);
        pending.held.add(key.bytes.len() + PASSED_OVER_BYTES);
        held
    }

    /// Runs a change in place of these bytes of a key's string, in a locked shard, that does not make it
    /// shorter. Of a long one that the snapshot has, only the pieces that it touches are copied.
    pub(crate) fn change_str<R>(
        &self,
        shard: &mut Shard,
        db: usize,
        key: &Key<'_>,
        touched: &Range<usize>,
        change: impl FnOnce(&mut Db) -> R,
    ) -> R {
        let pins = &self.progress.pins;
        let pinned = shard.db(db).get(key).and_then(|entry| pins.of(&entry));
        match pinned.as_ref().and_then(|(address, pin)| Some((*address, pin, pin.open(*address, touched)?))) {
            None => change(shard.db_mut(db)),
            Some((address, pin, mut state)) => {
                let seen = |db: &Db| cfg!(debug_assertions).then(|| untouched(db, key, touched, pin.len()));
                let before = seen(shard.db(db));
                let result = change(shard.db_mut(db));
                assert!(before == seen(shard.db(db)), "only what is told is changed");
                pins.put_back(pin, &mut state, address, shard.db(db).get(key));
                result
            }
        }
    }

    /// Before two databases of a locked shard are exchanged.
    pub(crate) fn before_swap(&self, part: &mut Part, shard: &Shard, a: usize, b: usize) {
        part.follow(self.epoch.load(Ordering::Relaxed), shard);
        part.taken = None;
        for pending in &mut part.pending {
            match &mut pending.place {
                Place::Now(now) if *now == a => *now = b,
                Place::Now(now) if *now == b => *now = a,
                Place::Now(_) | Place::Gone(..) => {}
            }
        }
    }

    /// Takes the content of a database of a locked shard, all of which is to be deleted, if the walk has not
    /// come to its end; else returns it.
    pub(crate) fn keep(&self, part: &mut Part, db: usize, content: Db) -> Option<Db> {
        match part.at(db) {
            Some(pending) => {
                let held = self.hold(estimate(&content));
                pending.place = Place::Gone(Box::new(content), held);
                None
            }
            None => Some(content),
        }
    }

    /// To be called before a database of a locked shard is emptied as a whole.
    pub(crate) fn follow(&self, part: &mut Part, shard: &Shard) {
        part.follow(self.epoch.load(Ordering::Relaxed), shard);
    }
}

/// A key's string without the bytes of a range, of the first `len`.
fn untouched(db: &Db, key: &Key<'_>, range: &Range<usize>, len: usize) -> Vec<u8> {
    let mut buffer = NumberBuffer::new();
    let entry = db.get(key);
    let bytes = entry.as_ref().and_then(Entry::str).map_or(&[][..], |text| text.bytes(&mut buffer));
    let bytes = bytes.get(..len.min(bytes.len())).unwrap_or_default();
    let before = bytes.get(..range.start.min(bytes.len())).unwrap_or_default();
    [before, bytes.get(range.end..).unwrap_or_default()].concat()
}

/// Notes what [`take_slice`] will read first.
pub(crate) fn queue_slice(part: &Part, shard: &Shard, queue: &mut PrefetchQueue) {
    let Some(pending) = part.pending.last() else { return };
    let db = match &pending.place {
        Place::Now(now) => shard.db(*now),
        Place::Gone(content, _) => content,
    };
    let mut from = pending.from;
    while from < ORDERS && queue.len() < 2 * SLICE_KEYS {
        from = db.queue_walk(from, queue);
    }
    // For the slice after this one: reading its buckets would take most of the time that the shard is locked
    // for the prefetch.
    db.queue_walk_buckets(from, queue);
}

/// Takes about [`SLICE_KEYS`] keys of a locked shard; returns whether that was the end of it. Used-up parts
/// go to `finished`, to be dropped when the shard is unlocked.
pub(crate) fn take_slice(
    part: &mut Part,
    shard: &Shard,
    out: &mut SavedKeys,
    pins: Option<&Pins>,
    account: &Arc<Account>,
    finished: &mut Vec<Pending>,
) -> bool {
    let enough = out.len() + SLICE_KEYS;
    let mut keys = Vec::new();
    while let Some(pending) = part.pending.last_mut() {
        let (cut_db, passed_over, first) = (pending.cut_db, &pending.passed_over, pending.from);
        let db = match &pending.place {
            Place::Now(now) => shard.db(*now),
            Place::Gone(content, _) => content,
        };
        while pending.from < ORDERS && out.len() < enough {
            pending.from = db.walk(pending.from, |entry| {
                if passed_over.is_empty() || !passed_over.contains_key(entry.key()) {
                    out.push(cut_db, &entry, pins);
                }
            });
        }
        if let Place::Now(now) = pending.place {
            keys.push((now, first..pending.from));
        }
        if pending.from < ORDERS {
            break;
        }
        finished.extend(part.pending.pop());
    }
    let held = out.hold_taken(account);
    part.taken = held.map(|held| TakenSlice { held: Arc::downgrade(&held), keys });
    part.pending.is_empty()
}

#[cfg(test)]
mod tests;
