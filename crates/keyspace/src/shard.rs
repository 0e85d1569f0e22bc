//! A shard: its part of every database.

use martlet_base::limits::SHARD_BITS;
use martlet_base::prefetch::prefetch;

use crate::db::Db;
use crate::table::DIRECTORY_BITS;
use crate::view::Entry;

/// Bits of a scan position within a shard; a cursor has the shard's number above them.
pub const SCAN_POSITION_BITS: u32 = DIRECTORY_BITS + 16;
const _: () = assert!(SCAN_POSITION_BITS + SHARD_BITS <= 53, "a cursor must be exact in a double");

/// One shard's part of all databases. Database 0 lies in the shard itself, the others are made when first
/// used.
#[derive(Default)]
#[repr(C)]
pub struct Shard {
    first: Db,
    /// Boxed as a whole, so that a shard fits into its two cache lines.
    others: Option<Box<Others>>,
}

/// Those of the databases 1 and above that have been used, by ascending index: how high an index is costs
/// nothing.
#[derive(Default)]
struct Others(Vec<(usize, Box<Db>)>);

static EMPTY: std::sync::LazyLock<EmptyDb> = std::sync::LazyLock::new(|| EmptyDb(Db::default()));

/// A database that does not change: the content of an unused one.
struct EmptyDb(Db);

// SAFETY: it holds no entries and is only read.
unsafe impl Sync for EmptyDb {}
// SAFETY: the same holds for sending.
unsafe impl Send for EmptyDb {}

impl Shard {
    fn others(&self) -> &[(usize, Box<Db>)] {
        self.others.as_ref().map_or(&[], |others| others.0.as_slice())
    }

    /// Database `index` for reading.
    #[inline]
    pub fn db(&self, index: usize) -> &Db {
        if index == 0 {
            return &self.first;
        }
        let others = self.others();
        match others.binary_search_by_key(&index, |(at, _)| *at) {
            Ok(found) => &others[found].1,
            Err(_) => &EMPTY.0,
        }
    }

    /// Database `index` for changes.
    #[inline]
    pub fn db_mut(&mut self, index: usize) -> &mut Db {
        if index == 0 {
            return &mut self.first;
        }
        self.other_mut(index)
    }

    #[inline(never)]
    fn other_mut(&mut self, index: usize) -> &mut Db {
        let Others(others) = &mut **self.others.get_or_insert_default();
        let place = others.binary_search_by_key(&index, |(at, _)| *at).unwrap_or_else(|place| {
            others.insert(place, (index, Box::default()));
            place
        });
        &mut others[place].1
    }

    /// Exchanges two databases.
    pub fn swap(&mut self, a: usize, b: usize) {
        if a == b {
            return;
        }
        let taken = std::mem::take(self.db_mut(a));
        let other = std::mem::replace(self.db_mut(b), taken);
        *self.db_mut(a) = other;
    }

    /// Databases that there are, with keys or without: their indexes, ascending.
    pub fn made(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::once(0).chain(self.others().iter().map(|(index, _)| *index))
    }

    /// Databases that may hold keys: their indexes, ascending.
    pub fn used(&self) -> impl Iterator<Item = usize> + '_ {
        let others = self.others().iter().filter(|(_, db)| !db.is_empty()).map(|(index, _)| *index);
        (!self.first.is_empty()).then_some(0).into_iter().chain(others)
    }

    /// Asks the processor for the shard's own memory.
    #[inline]
    pub fn prefetch_header(shard: *const Shard) {
        prefetch(shard.cast());
    }

    /// Visits at least `want` entries of a database from `position` on, if there are as many; `None` at the
    /// end of the shard, else the next position.
    pub fn scan(&self, db: usize, position: u64, want: usize, visit: impl FnMut(Entry<'_>)) -> Option<u64> {
        self.db(db).scan(position, want, visit)
    }

    /// As [`Shard::scan`] for the keys of one slot: from position 0, `None` at the end of the slot.
    pub fn scan_slot(
        &self,
        (db, slot): (usize, u16),
        position: u64,
        want: usize,
        visit: impl FnMut(Entry<'_>),
    ) -> Option<u64> {
        self.db(db).scan_slot(slot, position, want, visit)
    }
}

#[cfg(test)]
mod tests {
    use super::Shard;
    use crate::db::{ExpiryChange, Key};

    #[test]
    fn a_high_database_costs_no_more_than_a_low_one() {
        let mut shard = Shard::default();
        let key = Key::new(b"k");
        for index in [999_999, 3, 70_000] {
            shard.db_mut(index).set_str(&key, b"v", ExpiryChange::Clear, 0);
            assert_eq!(shard.db(index).len(), 1);
        }
        assert_eq!(shard.used().collect::<Vec<_>>(), [3, 70_000, 999_999]);
        assert!(shard.others().len() == 3);
        shard.swap(3, 4);
        assert_eq!(shard.used().collect::<Vec<_>>(), [4, 70_000, 999_999]);
        assert!(shard.db(3).is_empty() && shard.db(500_000).is_empty());
    }
}
