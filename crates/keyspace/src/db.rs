//! One database within one shard: look up, store, delete, expire.
//!
//! Invariant: the expiry index holds exactly the pairs (expiry, mark of the hash) of the entries that have an
//! expiry.

mod due;
mod object_mut;

use martlet_base::hash::{hash_key, slot_bounds, slot_in};
use martlet_base::limits::STRING_INLINE_MAX_BYTES;
use martlet_base::number::{NumberBuffer, decimal_len};
use martlet_base::prefetch::{PrefetchQueue, ProbeStep, Progress};
use martlet_types::hash::Hash;
use martlet_types::list::List;
use martlet_types::set::Set;
use martlet_types::zset::ZSet;
use triomphe::Arc;

use crate::due::{Dues, Versions};
use crate::entry::{NewStr, Overwritten, RawEntry, Store};
use crate::expiry::{ExpiryIndex, Pair, mark};
use crate::module::{ModuleValue, ValueIndexes};
use crate::sizes::{Sizes, bin};
use crate::table::{ORDERS, Plan, Spot, Table, order};
use crate::value::{Collection, Kind, Object, Value};
use crate::view::Entry;
pub use object_mut::ObjectMut;

/// A key with its hash.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// The key's bytes.
    pub bytes: &'a [u8],
    /// [`key_hash`] of them.
    pub hash: u64,
}

impl<'a> Key<'a> {
    /// Hashes `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Key<'a> {
        Key { bytes, hash: key_hash(bytes) }
    }

    /// When [`Db::walk`] comes to the key, below [`crate::ORDERS`].
    #[inline]
    pub fn order(&self) -> u64 {
        order(self.hash)
    }

    /// The shard that the key lives in, below `SHARD_COUNT`.
    #[inline]
    pub fn shard(&self) -> usize {
        shard_of(self.hash)
    }
}

/// The hash of a key, from which its shard and its place follow: the only way to compute it.
#[inline]
pub fn key_hash(name: &[u8]) -> u64 {
    hash_key(name)
}

/// The shard that a key of this hash lives in, below `SHARD_COUNT`.
#[inline]
pub fn shard_of(hash: u64) -> usize {
    hash as usize & (martlet_base::limits::SHARD_COUNT - 1)
}

/// The orders ([`Key::order`]) of the first and of the last key that a slot can have.
fn slot_orders(slot: u16) -> (u64, u64) {
    let (first, last) = slot_bounds(slot);
    (order(first), order(last))
}

/// What storing a string does to the key's expiry.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ExpiryChange {
    /// A key that expires still does, at the same time.
    Keep,
    /// The key does not expire any more.
    Clear,
    /// The key expires at this time, Unix milliseconds.
    At(i64),
}

/// What [`Db::access`] met.
pub enum Access<'a> {
    /// No such key.
    Absent,
    /// A key whose time has come.
    Expired,
    /// The key's entry.
    Live(Entry<'a>),
}

/// What [`Db::delete_live`] met.
pub enum DeletedLive {
    /// No such key.
    Absent,
    /// A key whose time has come, which stays.
    Expired,
    /// The key, which is gone; with its value if that is the caller's to free.
    Deleted(Option<Value>),
}

/// The keys of one database in one shard.
// The table comes first, so that it shares a cache line with the shard's lock.
#[repr(C)]
pub struct Db {
    pub(crate) table: Table,
    expiries: ExpiryIndex,
    /// See the module `due`; there once a part of a value had a time.
    dues: Option<Box<Dues>>,
    /// There once the first key was; apart, so that a shard fits into its two cache lines.
    pub(crate) figures: Option<Box<Figures>>,
}

/// Counters of a database's keys.
#[derive(Default)]
pub(crate) struct Figures {
    /// Keys that have an expiry.
    expiring: usize,
    sizes: Sizes,
    versions: Versions,
    indexes: ValueIndexes,
}

impl Default for Db {
    fn default() -> Self {
        Db { table: Table::new(), expiries: ExpiryIndex::default(), dues: None, figures: None }
    }
}

impl Db {
    /// Number of keys, expired ones included that have not been touched since.
    #[inline]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// Number of keys that have an expiry.
    pub fn expiring_len(&self) -> usize {
        self.figures.as_ref().map_or(0, |figures| figures.expiring)
    }

    /// How large the keys are; `None` when there have never been any.
    pub fn sizes(&self) -> Option<&Sizes> {
        self.figures.as_ref().map(|figures| &figures.sizes)
    }

    #[inline]
    pub(crate) fn figures_mut(&mut self) -> &mut Figures {
        self.figures.get_or_insert_default()
    }

    /// Counts a key of this type whose size has changed.
    #[inline]
    pub(crate) fn resized(&mut self, kind: Kind, old: usize, new: usize) {
        if bin(old) != bin(new) {
            self.figures_mut().sizes.resize(kind, old, new);
        }
    }

    /// When the next key expires.
    pub fn next_expiry_ms(&self) -> Option<i64> {
        self.expiries.next_ms()
    }

    /// Milliseconds left over the next `sample` expiring keys, and how many those are; for INFO's avg_ttl.
    pub fn ttl_sum_ms(&self, now_ms: i64, sample: usize) -> (u128, usize) {
        self.expiries.ttl_sum_ms(now_ms, sample)
    }

    /// Bytes of the table itself, entries apart.
    pub fn table_heap_bytes(&self) -> usize {
        self.table.heap_bytes()
    }

    /// Makes room for the keys of a plan, if there have been none yet.
    pub fn reserve(&mut self, plan: &Plan) {
        self.table.reserve(plan);
    }

    /// Queues the lines that hold the key's bucket.
    pub fn queue_place(&self, hash: u64, queue: &mut PrefetchQueue) {
        self.table.queue_place(hash, queue);
    }

    /// Queues the key's bucket.
    #[inline]
    pub fn queue_bucket(&self, hash: u64, queue: &mut PrefetchQueue) {
        self.table.queue_bucket(hash, queue);
    }

    /// Queues the key's entry, whose bucket should be there by now.
    #[inline]
    pub fn queue_entry(&self, hash: u64, queue: &mut PrefetchQueue) {
        self.table.queue_entry(hash, queue);
    }

    /// One probe step for a name in the collection that the key with this hash holds. Keys are not compared:
    /// an entry that shares the key's tag by chance costs unneeded lines.
    #[inline]
    pub fn queue_member(&self, hash: u64, probe: ProbeStep, queue: &mut PrefetchQueue) -> Progress {
        let Some(spot) = self.table.find(hash, |_| true) else { return Progress::Done };
        let entry = self.table.entry(spot);
        let progress = match entry.kind() {
            Kind::Set => entry.object::<Set>().map(|set| set.queue_probe(probe, queue)),
            Kind::Hash => entry.object::<Hash>().map(|hash| hash.queue_probe(probe, queue)),
            Kind::ZSet => entry.object::<ZSet>().map(|zset| zset.queue_probe(probe, queue)),
            Kind::List => entry.object::<List>().map(|list| list.queue_probe(probe, queue)),
            Kind::Module => entry.object::<ModuleValue>().map(|value| value.queue_probe(probe, queue)),
            _ => None,
        };
        progress.unwrap_or(Progress::Done)
    }

    #[inline]
    pub(crate) fn spot(&self, key: &Key<'_>) -> Option<Spot> {
        self.table.find(key.hash, |entry| entry.key_is(key.bytes))
    }

    /// The key's entry, expired or not.
    #[inline]
    pub fn get(&self, key: &Key<'_>) -> Option<Entry<'_>> {
        self.spot(key).map(|spot| Entry::new(self.table.entry(spot)))
    }

    /// The key's entry for a command at `now_ms`, whose access is noted: `lru` makes the 24 bits from the old
    /// ones.
    #[inline]
    pub fn access(&mut self, key: &Key<'_>, now_ms: i64, lru: impl FnOnce(u32) -> u32) -> Access<'_> {
        let Some(spot) = self.spot(key) else { return Access::Absent };
        let raw = self.table.entry(spot);
        if raw.expiry_ms().is_some_and(|at_ms| at_ms <= now_ms) {
            return Access::Expired;
        }
        let old = raw.meta() >> 8;
        let new = lru(old);
        if new != old {
            raw.set_lru(new);
        }
        Access::Live(Entry::new(raw))
    }

    /// The key's collection for changes; `None` when there is no key or it is no `T`.
    #[inline]
    pub fn object_mut<T: Object>(&mut self, key: &Key<'_>) -> Option<ObjectMut<'_, T>> {
        let spot = self.spot(key)?;
        self.object_at(spot)
    }

    #[inline]
    fn object_at<T: Object>(&mut self, spot: Spot) -> Option<ObjectMut<'_, T>> {
        let entry = self.table.entry(spot);
        entry.object::<T>().map(|object| ObjectMut::new(object, entry, self))
    }

    /// Notes an access: the 24 bits of LRU or LFU information.
    #[inline]
    pub fn touch(&mut self, key: &Key<'_>, lru: impl FnOnce(u32) -> u32) {
        if let Some(spot) = self.spot(key) {
            let raw = self.table.entry(spot);
            let old = raw.meta() >> 8;
            let new = lru(old);
            if new != old {
                raw.set_lru(new);
            }
        }
    }

    /// Stores a string, an integer if it spells one; the old value is returned unless it was a short string,
    /// so that the caller can free it elsewhere.
    #[inline]
    pub fn set_str(&mut self, key: &Key<'_>, bytes: &[u8], expiry: ExpiryChange, lru: u32) -> Option<Value> {
        self.set_new_str(key, NewStr::encode(bytes), expiry, lru)
    }

    /// As [`Db::set_str`], stored as bytes even if they spell an integer, and with `raw` so that OBJECT
    /// ENCODING says so however short they are.
    pub fn set_bytes(
        &mut self,
        key: &Key<'_>,
        bytes: &[u8],
        raw: bool,
        expiry: ExpiryChange,
        lru: u32,
    ) -> Option<Value> {
        self.set_new_str(key, NewStr::Bytes(bytes, raw), expiry, lru)
    }

    /// As [`Db::set_str`]; the value shares the bytes if they are too long to lie in an entry.
    pub fn set_shared(
        &mut self,
        key: &Key<'_>,
        bytes: &Arc<Vec<u8>>,
        expiry: ExpiryChange,
        lru: u32,
    ) -> Option<Value> {
        if bytes.len() <= STRING_INLINE_MAX_BYTES {
            return self.set_str(key, bytes, expiry, lru);
        }
        self.set_new_str(key, NewStr::Shared(bytes), expiry, lru)
    }

    /// Stores an integer.
    pub fn set_int(&mut self, key: &Key<'_>, value: i64, expiry: ExpiryChange, lru: u32) -> Option<Value> {
        self.set_new_str(key, NewStr::Int(value), expiry, lru)
    }

    #[inline]
    fn set_new_str(
        &mut self,
        key: &Key<'_>,
        value: NewStr<'_>,
        expiry: ExpiryChange,
        lru: u32,
    ) -> Option<Value> {
        let Some(spot) = self.spot(key) else {
            let at_ms = match expiry {
                ExpiryChange::At(at_ms) => Some(at_ms),
                _ => None,
            };
            self.insert_raw(key, RawEntry::new_str(key.bytes, value, lru, at_ms));
            return None;
        };
        let old = self.table.entry(spot);
        let expiry_stays = match expiry {
            ExpiryChange::Keep => true,
            ExpiryChange::Clear => !old.expires(),
            ExpiryChange::At(_) => false,
        };
        if expiry_stays {
            match old.overwrite_alike(value, lru) {
                Overwritten::No => {}
                Overwritten::Bytes => return None,
                Overwritten::Number { old, new } => {
                    self.resized(Kind::String, decimal_len(old), decimal_len(new));
                    return None;
                }
            }
        }
        self.set_over(key, spot, value, expiry, lru)
    }

    fn set_over(
        &mut self,
        key: &Key<'_>,
        spot: Spot,
        value: NewStr<'_>,
        expiry: ExpiryChange,
        lru: u32,
    ) -> Option<Value> {
        let old = self.table.entry(spot);
        let old_expiry = old.expiry_ms();
        let new_expiry = match expiry {
            ExpiryChange::Keep => old_expiry,
            ExpiryChange::Clear => None,
            ExpiryChange::At(at_ms) => Some(at_ms),
        };
        if old_expiry != new_expiry {
            self.reindex_expiry(key.hash, old_expiry, new_expiry);
        }
        if let Some(old_size) = old.overwrite_str(value, new_expiry.is_some()) {
            self.resized(Kind::String, old_size, old.size());
            if let Some(at_ms) = new_expiry {
                old.overwrite_expiry(at_ms);
            }
            old.set_lru(lru);
            return None;
        }
        self.forget_facts(key.hash, old);
        self.replace(spot, RawEntry::new_str(key.bytes, value, lru, new_expiry));
        match old.store() {
            Store::Boxed | Store::Object => Some(old.into_value()),
            _ => {
                old.drop_entry();
                None
            }
        }
    }

    /// A string's bytes, to be changed without changing their number (SETBIT, SETRANGE, BITFIELD); the string
    /// is `raw` afterwards. `None` when there is no key or it holds no string, or one that is stored as a
    /// number.
    pub fn str_bytes_mut(&mut self, key: &Key<'_>) -> Option<&mut [u8]> {
        let spot = self.spot(key)?;
        self.table.entry(spot).str_bytes_mut()
    }

    /// Changes a string's bytes in place (APPEND, SETRANGE, SETBIT, BITFIELD): `change` gets them in a
    /// growable vector, empty if there was no key. The result is `raw`; expiry stays. The key must hold a
    /// string or be absent. A long one that is shared is copied with room for `len` bytes.
    pub fn update_str<R>(
        &mut self,
        key: &Key<'_>,
        lru: u32,
        len: usize,
        change: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> R {
        let Some(spot) = self.spot(key) else {
            let mut bytes = Vec::new();
            let result = change(&mut bytes);
            let value = Value::Str { bytes: Arc::new(bytes), raw: true };
            self.insert_raw(key, RawEntry::new_value(key.bytes, value, lru, None));
            return result;
        };
        let entry = self.table.entry(spot);
        let old_size = entry.size();
        let mut change = Some(change);
        let in_place = entry.with_boxed(|arc| {
            if !arc.is_unique() {
                // A copy without room would be copied again as it grows.
                let mut copy = Vec::with_capacity(len.max(arc.len()));
                martlet_base::copy::extend(&mut copy, arc);
                *arc = Arc::new(copy);
            }
            let bytes = Arc::make_mut(arc);
            let result = change.take().map(|change| change(bytes));
            (result, bytes.len() > STRING_INLINE_MAX_BYTES)
        });
        if let Some((Some(result), true)) = in_place {
            entry.set_lru(lru);
            self.resized(Kind::String, old_size, entry.size());
            return result;
        }
        let (mut bytes, result) = match (entry.str_value(), in_place) {
            (Some(value), None) => {
                let mut bytes = value.bytes(&mut NumberBuffer::new()).to_vec();
                let result = change.take().map(|change| change(&mut bytes));
                (bytes, result)
            }
            (Some(value), Some((result, _))) => (value.to_vec(), result),
            (None, _) => (Vec::new(), change.take().map(|change| change(&mut Vec::new()))),
        };
        if bytes.len() > STRING_INLINE_MAX_BYTES && bytes.capacity() > bytes.len() * 2 {
            bytes.shrink_to(bytes.len() * 2);
        }
        let value = Value::Str { bytes: Arc::new(bytes), raw: true };
        let fresh = RawEntry::new_value(key.bytes, value, lru, entry.expiry_ms());
        self.resized(Kind::String, old_size, fresh.size());
        self.table.replace(spot, fresh);
        entry.drop_entry();
        match result {
            Some(result) => result,
            None => unreachable!("the change ran exactly once above"),
        }
    }

    /// Stores a value of any type with an expiry or none; returns the old value.
    pub fn set_value(
        &mut self,
        key: &Key<'_>,
        value: Value,
        expiry_ms: Option<i64>,
        lru: u32,
    ) -> Option<Value> {
        let old = self.remove(key);
        self.insert_raw(key, RawEntry::new_value(key.bytes, value, lru, expiry_ms));
        old
    }

    /// The key's collection, created empty if the key is absent; `None` if it holds another type.
    #[inline]
    pub fn object_or_insert<T: Collection>(&mut self, key: &Key<'_>, lru: u32) -> Option<ObjectMut<'_, T>> {
        let spot = match self.spot(key) {
            Some(spot) => spot,
            None => {
                self.insert_raw(key, RawEntry::new_value(key.bytes, T::empty().into_value(), lru, None));
                self.spot(key)?
            }
        };
        self.object_at(spot)
    }

    fn insert_raw(&mut self, key: &Key<'_>, entry: RawEntry) {
        let figures = self.figures.get_or_insert_default();
        figures.sizes.enter(entry);
        if let Some(at_ms) = entry.expiry_ms() {
            figures.expiring += 1;
            self.expiries.insert(at_ms, mark(key.hash));
        }
        self.note_facts(key.hash, entry);
        self.table.insert(key.hash, entry, &key_hash);
    }

    /// Puts an entry in the place of another, which is the caller's to free.
    fn replace(&mut self, spot: Spot, entry: RawEntry) {
        let old = self.table.entry(spot);
        let sizes = &mut self.figures_mut().sizes;
        sizes.leave(old);
        sizes.enter(entry);
        self.table.replace(spot, entry);
    }

    /// Deletes the key and gives its value.
    pub fn remove(&mut self, key: &Key<'_>) -> Option<Value> {
        let spot = self.spot(key)?;
        Some(self.take(key.hash, spot).into_value())
    }

    /// Deletes the key; its value is dropped here unless freeing it takes more than `effort` steps, in which
    /// case it is given to the caller. `None` when there was no key.
    pub fn delete(&mut self, key: &Key<'_>, effort: usize) -> Option<Option<Value>> {
        let spot = self.spot(key)?;
        let entry = self.take(key.hash, spot);
        Some(drop_or_keep(entry, effort))
    }

    /// As [`Db::delete`] of a key whose time has not come by `due_ms`.
    #[inline]
    pub fn delete_live(&mut self, key: &Key<'_>, due_ms: i64, effort: usize) -> DeletedLive {
        let Some(spot) = self.spot(key) else { return DeletedLive::Absent };
        if self.table.entry(spot).expiry_ms().is_some_and(|at_ms| at_ms <= due_ms) {
            return DeletedLive::Expired;
        }
        let entry = self.take(key.hash, spot);
        DeletedLive::Deleted(drop_or_keep(entry, effort))
    }

    /// Frees the rest of an empty database's table and figures. For eviction, which continues for as long as
    /// memory is above its limit; elsewhere the next key would only allocate it again.
    pub fn free_if_empty(&mut self) {
        if self.is_empty() {
            *self = Db::default();
        }
    }

    fn take(&mut self, hash: u64, spot: Spot) -> RawEntry {
        let entry = self.table.entry(spot);
        if let Some(at_ms) = entry.expiry_ms() {
            self.reindex_expiry(hash, Some(at_ms), None);
        }
        self.forget_facts(hash, entry);
        self.figures_mut().sizes.leave(entry);
        self.table.remove(spot)
    }

    fn reindex_expiry(&mut self, hash: u64, old: Option<i64>, new: Option<i64>) {
        if let Some(at_ms) = old {
            self.expiries.remove(at_ms, mark(hash));
            self.figures_mut().expiring -= 1;
        }
        if let Some(at_ms) = new {
            self.expiries.insert(at_ms, mark(hash));
            self.figures_mut().expiring += 1;
        }
    }

    /// Sets or removes the key's expiry; false when there is no such key.
    pub fn set_expiry(&mut self, key: &Key<'_>, expiry_ms: Option<i64>) -> bool {
        let Some(spot) = self.spot(key) else { return false };
        let entry = self.table.entry(spot);
        let old = entry.expiry_ms();
        if old == expiry_ms {
            return true;
        }
        self.reindex_expiry(key.hash, old, expiry_ms);
        match (old, expiry_ms) {
            (Some(_), Some(at_ms)) => {
                entry.overwrite_expiry(at_ms);
            }
            _ => self.table.replace(spot, entry.rebuild_with_expiry(expiry_ms)),
        }
        true
    }

    /// Takes out one key that is due by `now_ms`, handing its entry and time to `expired` first; its value
    /// is dropped or kept as in [`Db::delete`]. `None` when nothing is due.
    pub fn expire_next(
        &mut self,
        now_ms: i64,
        effort: usize,
        expired: impl FnOnce(Entry<'_>, i64),
    ) -> Option<Option<Value>> {
        loop {
            let pair = self.expiries.first().filter(|(at_ms, _)| *at_ms <= now_ms)?;
            let Some(spot) = self.spot_of_pair(pair) else {
                debug_assert!(false, "an expiry without its key: {pair:?}");
                self.expiries.remove(pair.0, pair.1);
                continue;
            };
            let entry = self.table.entry(spot);
            expired(Entry::new(entry), pair.0);
            let entry = self.take(key_hash(entry.key()), spot);
            return Some(drop_or_keep(entry, effort));
        }
    }

    /// Visits keys in traversal order; see `Table::scan` for positions and the guarantee.
    pub(crate) fn scan(&self, position: u64, want: usize, mut visit: impl FnMut(Entry<'_>)) -> Option<u64> {
        let all = (0, ORDERS - 1);
        self.table.scan(position, want, all, &|_| true, &key_hash, &mut |raw| visit(Entry::new(raw)))
    }

    /// As `Db::scan`, but visits a slot's keys only, where hashes carry slots; position 0 is its begin.
    pub(crate) fn scan_slot(
        &self,
        slot: u16,
        position: u64,
        want: usize,
        mut visit: impl FnMut(Entry<'_>),
    ) -> Option<u64> {
        let is_of_slot = |name: &[u8]| slot_in(key_hash(name)) == slot;
        let visit = &mut |raw| visit(Entry::new(raw));
        self.table.scan(position, want, slot_orders(slot), &is_of_slot, &key_hash, visit)
    }

    /// Visits keys whose order ([`Key::order`]) is `from` or above, some hundred at most; returns the next
    /// order, [`crate::ORDERS`] at the end. However the table changes between calls, a walk from 0 meets each
    /// key that stays in it once.
    pub fn walk(&self, from: u64, mut visit: impl FnMut(Entry<'_>)) -> u64 {
        self.table.walk_segment(from, &key_hash, &mut |raw| visit(Entry::new(raw)))
    }

    /// Queues the keys that [`Db::walk`] from here would visit first; returns the next order.
    pub fn queue_walk(&self, from: u64, queue: &mut PrefetchQueue) -> u64 {
        self.table.queue_segment(from, queue)
    }

    /// Queues the places of [`Db::queue_walk`]'s reads from here.
    pub fn queue_walk_buckets(&self, from: u64, queue: &mut PrefetchQueue) {
        self.table.queue_buckets(from, queue);
    }

    /// Number of keys of a slot, where hashes carry slots. Only keys of segments that have another slot's
    /// keys, too, are looked at.
    pub fn count_slot(&self, slot: u16) -> usize {
        self.table.count_range(slot_orders(slot), &|name: &[u8]| slot_in(key_hash(name)) == slot)
    }

    /// As [`Db::walk`] from an order on, but visits a slot's keys only: begin with `None`, and continue as
    /// long as an order is returned.
    pub fn walk_slot(&self, slot: u16, from: Option<u64>, mut visit: impl FnMut(Entry<'_>)) -> Option<u64> {
        let (first, last) = slot_orders(slot);
        let next = self.walk(from.unwrap_or(first), |entry| {
            if slot_in(key_hash(entry.key())) == slot {
                visit(entry);
            }
        });
        (next <= last).then_some(next)
    }

    /// All entries, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.table.iter().map(Entry::new)
    }

    /// A random entry, chosen with `pick(bound)` in `0..bound`.
    pub fn random(&self, pick: impl FnMut(usize) -> usize) -> Option<Entry<'_>> {
        self.table.random(pick).map(Entry::new)
    }

    /// Visits `most` entries, or all if there are fewer: a random one, chosen as in [`Db::random`], and those
    /// that happen to be stored after it. Costs a fraction of as many random ones.
    pub fn sample(&self, pick: impl FnMut(usize) -> usize, most: usize, mut visit: impl FnMut(Entry<'_>)) {
        self.table.sample(pick, most, &mut |raw| visit(Entry::new(raw)));
    }

    /// Number of keys that have an expiry, or `most` if there are more; takes no longer than for that many.
    pub fn expiring_up_to(&self, most: usize) -> usize {
        self.expiries.len_up_to(most)
    }

    /// A random entry of those that have an expiry, each with the same chance (but that of two keys with one
    /// mark and time one is found); see [`Db::random`].
    pub fn random_expiring(&self, pick: impl FnMut(usize) -> usize) -> Option<Entry<'_>> {
        self.expiries.random(pick).and_then(|pair| self.expiring(pair))
    }

    /// The entry that expires first.
    pub fn first_expiring(&self) -> Option<Entry<'_>> {
        self.expiries.first().and_then(|pair| self.expiring(pair))
    }

    fn expiring(&self, pair: Pair) -> Option<Entry<'_>> {
        self.spot_of_pair(pair).map(|spot| Entry::new(self.table.entry(spot)))
    }

    /// A key with this time and mark: of several any.
    fn spot_of_pair(&self, (at_ms, key_mark): Pair) -> Option<Spot> {
        let is =
            |entry: RawEntry| entry.expiry_ms() == Some(at_ms) && mark(key_hash(entry.key())) == key_mark;
        self.table.find_marked(key_mark, is)
    }

    /// Deletes everything; the old content is given back to be dropped elsewhere.
    pub fn take_all(&mut self) -> Db {
        std::mem::take(self)
    }
}

fn drop_or_keep(entry: RawEntry, effort: usize) -> Option<Value> {
    match entry.store() {
        Store::Int | Store::Embstr | Store::Raw => {
            entry.drop_entry();
            None
        }
        _ => {
            let value = entry.into_value();
            (value.free_effort() > effort).then_some(value)
        }
    }
}
