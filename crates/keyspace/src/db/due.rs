//! A database's index of what its values say of themselves: see the module [`due`](crate::due).

use super::{Db, key_hash};
use crate::entry::RawEntry;
use crate::expiry::mark;
use crate::module::{ModuleValue, ValueIndex};
use crate::value::{Facts, Kind};
use crate::view::Entry;

impl Db {
    /// When a part of a value is next due, Unix milliseconds.
    pub fn next_due_ms(&self) -> Option<i64> {
        self.dues.as_ref().and_then(|dues| dues.index.next_ms())
    }

    /// The earliest time at which a part of a value is due of those that came since this was asked last.
    #[inline]
    pub fn take_fresh_due_ms(&mut self) -> Option<i64> {
        self.dues.as_mut()?.take_fresh()
    }

    /// How many values of which kind need which version of the RDB format, if that is not the oldest.
    pub fn versions(&self) -> impl Iterator<Item = (Kind, u16, usize)> {
        self.figures.iter().flat_map(|figures| figures.versions.iter())
    }

    /// A key of whose value a part is due by `now_ms`, as far as the index knows, and its kind. It stays in
    /// the index until the value has changed.
    pub fn next_due(&mut self, now_ms: i64) -> Option<(Kind, Vec<u8>)> {
        loop {
            let (at_ms, due_mark) = self.dues.as_mut()?.index.pop_due(now_ms)?;
            let is_due = |entry: RawEntry| {
                entry.indexed_facts().is_some_and(|facts| facts.due_ms == Some(at_ms))
                    && mark(key_hash(entry.key())) == due_mark
            };
            if let Some(spot) = self.table.find_marked(due_mark, is_due) {
                self.dues.as_mut()?.index.insert(at_ms, due_mark);
                let entry = self.table.entry(spot);
                return Some((entry.kind(), entry.key().to_vec()));
            }
        }
    }

    /// Brings the index up to date for an entry of the table whose value may have changed; whether it was
    /// not.
    #[inline]
    pub(crate) fn reindex(&mut self, entry: RawEntry) -> bool {
        match (entry.indexed_facts(), entry.facts()) {
            (Some(old), Some(new)) if old != new => {
                self.change_facts(key_hash(entry.key()), entry, Some(old), Some(new));
                true
            }
            _ => false,
        }
    }

    /// Puts an entry that comes into the table in the index.
    #[inline]
    pub(crate) fn note_facts(&mut self, key_hash: u64, entry: RawEntry) {
        if let Some(facts) = entry.facts() {
            self.change_facts(key_hash, entry, None, Some(facts));
        }
    }

    /// Takes an entry that leaves the table out of the index.
    #[inline]
    pub(crate) fn forget_facts(&mut self, key_hash: u64, entry: RawEntry) {
        if let Some(facts) = entry.indexed_facts() {
            self.change_facts(key_hash, entry, Some(facts), None);
        }
    }

    fn change_facts(&mut self, hash: u64, entry: RawEntry, old: Option<Facts>, new: Option<Facts>) {
        let due = |facts: Option<Facts>| facts.and_then(|facts| facts.due_ms);
        if due(old) != due(new) {
            self.dues.get_or_insert_default().change(hash, due(old), due(new));
        }
        let version = |facts: Option<Facts>| facts.map(|facts| facts.version);
        if version(old) != version(new) {
            self.figures_mut().versions.change(entry.kind(), version(old), version(new));
        }
        let stamp = |facts: Option<Facts>| facts.map_or(0, |facts| facts.stamp);
        if stamp(old) != stamp(new)
            && let Some(value) = entry.object::<ModuleValue>()
        {
            self.figures_mut().indexes.change(hash, value, new.is_some());
        }
        entry.record_facts(new);
    }

    /// The index of this type; `None` if the database has held no such value.
    pub fn index<I: ValueIndex>(&self) -> Option<&I> {
        self.figures.as_ref()?.indexes.get()
    }

    /// The entry whose value an index knows by this number, under its key's hash.
    pub fn indexed(&self, key_hash: u64, id: u64) -> Option<Entry<'_>> {
        let is = |entry: RawEntry| entry.object::<ModuleValue>().is_some_and(|value| value.index_id() == id);
        self.table.find(key_hash, is).map(|spot| Entry::new(self.table.entry(spot)))
    }
}
