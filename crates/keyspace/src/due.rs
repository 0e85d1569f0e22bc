//! What a database keeps of its values beyond their keys: when a part of each is next due, and which versions
//! of the RDB format can hold them.
//!
//! Invariant: between commands [`Dues`] holds exactly the pairs (time, mark of the key's hash) under which
//! the values record that they are indexed, and [`Versions`] counts each value once, under what it records;
//! both are the values' facts as they are. [`ObjectMut`](crate::ObjectMut) sees to that where it ends.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::expiry::{ExpiryIndex, mark};
use crate::value::Kind;
use crate::version::VERSION_OLDEST;

/// When parts of values are due: fields of hashes, members of sets, records of streams, what modules' types
/// have.
#[derive(Debug, Default)]
pub(crate) struct Dues {
    pub(crate) index: ExpiryIndex,
    /// The earliest time that was added since it was taken last.
    fresh_ms: Option<i64>,
}

impl Dues {
    pub(crate) fn change(&mut self, hash: u64, old_ms: Option<i64>, new_ms: Option<i64>) {
        if let Some(at_ms) = old_ms {
            self.index.remove(at_ms, mark(hash));
        }
        if let Some(at_ms) = new_ms {
            self.index.insert(at_ms, mark(hash));
            self.fresh_ms = Some(self.fresh_ms.map_or(at_ms, |fresh_ms| fresh_ms.min(at_ms)));
        }
    }

    pub(crate) fn take_fresh(&mut self) -> Option<i64> {
        self.fresh_ms.take()
    }
}

/// When a shard is next to be looked after, Unix milliseconds; read without the shard's lock, and changed
/// with it.
#[derive(Debug)]
pub struct DueClock(AtomicI64);

impl Default for DueClock {
    fn default() -> DueClock {
        DueClock(AtomicI64::new(i64::MAX))
    }
}

impl DueClock {
    /// Something is due then.
    #[inline]
    pub fn note(&self, at_ms: i64) {
        if at_ms < self.0.load(Ordering::Relaxed) {
            self.0.store(at_ms, Ordering::Relaxed);
        }
    }

    /// Nothing is due before then.
    pub fn set(&self, at_ms: i64) {
        self.0.store(at_ms, Ordering::Relaxed);
    }

    /// The earliest time that was noted.
    #[inline]
    pub fn at_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many values of which kind need which version of the RDB format, if that is not the oldest. There are
/// few of them.
#[derive(Debug, Default)]
pub(crate) struct Versions(Vec<(Kind, u16, usize)>);

impl Versions {
    fn add(&mut self, kind: Kind, version: u16, change: isize) {
        if version == VERSION_OLDEST {
            return;
        }
        let place = self.0.iter().position(|(of, at, _)| (*of, *at) == (kind, version));
        let place = place.unwrap_or_else(|| {
            self.0.push((kind, version, 0));
            self.0.len() - 1
        });
        if let Some((_, _, count)) = self.0.get_mut(place) {
            *count = count.wrapping_add_signed(change);
        }
    }

    pub(crate) fn change(&mut self, kind: Kind, old: Option<u16>, new: Option<u16>) {
        if old != new {
            old.into_iter().for_each(|version| self.add(kind, version, -1));
            new.into_iter().for_each(|version| self.add(kind, version, 1));
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Kind, u16, usize)> {
        self.0.iter().copied().filter(|(_, _, count)| *count > 0)
    }
}
