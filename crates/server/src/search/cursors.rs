//! Cursors: aggregations between two reads of their clients.
//!
//! A cursor belongs to an index and ends with it, or when it has been idle for too long. It holds no lock.
//! While a client reads it, it is that client's: others do not find it. The number of an index's cursors and
//! the memory of all are limited.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use martlet_base::random::Random;
use martlet_base::sync::lock;
use martlet_command::Error;
use martlet_indexes::{Aggregation, Catalogue, KeyIndex};
use martlet_search::index::whole::Index;

/// Bytes that the rows of all idle cursors may take.
const MEMORY_MAX: usize = 1 << 30;
/// The most cursors of which is known that their indexes have gone.
const ORPHANS_MAX: usize = 1024;
/// Ids are below, as in RediSearch.
const ID_END: u64 = 1 << 31;

/// Open cursors, for FT.INFO.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct CursorCounts {
    /// Of all indexes, those that no client reads at present.
    pub global_idle: usize,
    /// Of all indexes.
    pub global_total: usize,
    /// Of the index.
    pub index_total: usize,
}

/// See the [module docs](self).
#[derive(Debug, Default)]
pub struct Cursors {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    by_id: HashMap<u64, Cursor>,
    /// How many each index has, by its address; a cursor keeps the index's memory from another use.
    of_indexes: HashMap<usize, usize>,
    idle: usize,
    bytes: usize,
    /// Cursors whose indexes have gone while they were idle, and when they would have ended.
    orphans: HashMap<u64, i64>,
    random: Option<Random>,
}

#[derive(Debug)]
struct Cursor {
    index: Arc<KeyIndex>,
    state: State,
}

#[derive(Debug)]
enum State {
    Idle(Box<Idle>),
    /// A client reads it; it may have been deleted meanwhile.
    Taken,
}

#[derive(Debug)]
struct Idle {
    aggregation: Aggregation,
    terms: Terms,
    ends_ms: i64,
    bytes: usize,
}

/// How a cursor is read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Rows of a read, unless it says otherwise.
    pub count: usize,
    /// For how long the cursor may be idle, milliseconds.
    pub idle_ms: u32,
}

/// The place of a cursor that a client reads. Dropped, the cursor ends.
#[derive(Debug)]
pub struct Lease {
    cursors: Arc<Cursors>,
    id: u64,
    terms: Terms,
    is_left: bool,
}

fn address(index: &Arc<Index>) -> usize {
    Arc::as_ptr(index) as usize
}

impl Open {
    /// Takes a cursor out, for its memory to be freed without the lock.
    fn remove(&mut self, id: u64) -> Option<Cursor> {
        let cursor = self.by_id.remove(&id)?;
        if let State::Idle(idle) = &cursor.state {
            self.idle -= 1;
            self.bytes -= idle.bytes;
        }
        let index = address(cursor.index.index());
        if let Some(count) = self.of_indexes.get_mut(&index) {
            *count -= 1;
            if *count == 0 {
                self.of_indexes.remove(&index);
            }
        }
        Some(cursor)
    }

    fn new_id(&mut self) -> u64 {
        let random = self.random.get_or_insert_with(Random::from_entropy);
        loop {
            let id = 1 + random.below(ID_END - 1);
            if !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }
}

impl Cursors {
    /// The place of a new cursor.
    ///
    /// # Errors
    /// The index has as many as it may have.
    pub fn open(self: &Arc<Self>, index: &Arc<KeyIndex>, most: usize, terms: Terms) -> Result<Lease, Error> {
        let mut open = lock(&self.open);
        let count = open.of_indexes.entry(address(index.index())).or_default();
        if *count >= most {
            return Err(Error::Fixed("Too many cursors allocated for index"));
        }
        *count += 1;
        let id = open.new_id();
        open.by_id.insert(id, Cursor { index: Arc::clone(index), state: State::Taken });
        Ok(Lease { cursors: Arc::clone(self), id, terms, is_left: false })
    }

    /// The index of a cursor that is idle; one that has been so for too long ends.
    pub fn index_of(&self, id: u64, now_ms: i64) -> Option<Arc<KeyIndex>> {
        let mut open = lock(&self.open);
        let cursor = open.by_id.get(&id)?;
        let State::Idle(idle) = &cursor.state else { return None };
        if idle.ends_ms > now_ms {
            return Some(Arc::clone(&cursor.index));
        }
        let ended = open.remove(id);
        drop(open);
        drop(ended);
        None
    }

    /// Takes an idle cursor for a client to read it.
    pub fn take(self: &Arc<Self>, id: u64) -> Option<(Aggregation, Lease)> {
        let mut open = lock(&self.open);
        let cursor = open.by_id.get_mut(&id)?;
        let idle = match std::mem::replace(&mut cursor.state, State::Taken) {
            State::Idle(idle) => *idle,
            State::Taken => return None,
        };
        open.idle -= 1;
        open.bytes -= idle.bytes;
        let lease = Lease { cursors: Arc::clone(self), id, terms: idle.terms, is_left: false };
        Some((idle.aggregation, lease))
    }

    /// Deletes a cursor; whether there was one. A client that reads it gets its rows and no cursor.
    pub fn delete(&self, id: u64) -> bool {
        let removed = lock(&self.open).remove(id);
        removed.is_some()
    }

    /// Ends the cursors that have been idle for too long, and those of indexes that are not in the catalogue
    /// any more; how many.
    pub fn end_due(&self, catalogue: &Catalogue, now_ms: i64) -> usize {
        let mut open = lock(&self.open);
        open.orphans.retain(|_, ends_ms| *ends_ms > now_ms);
        if open.idle == 0 {
            return 0;
        }
        let is_due = |cursor: &Cursor| match &cursor.state {
            State::Idle(idle) => idle.ends_ms <= now_ms || !is_in(catalogue, &cursor.index),
            State::Taken => false,
        };
        let due: Vec<u64> =
            open.by_id.iter().filter(|(_, cursor)| is_due(cursor)).map(|(id, _)| *id).collect();
        let mut ended = Vec::with_capacity(due.len());
        for id in due {
            let Some(cursor) = open.remove(id) else { continue };
            if let State::Idle(idle) = &cursor.state
                && idle.ends_ms > now_ms
                && open.orphans.len() < ORPHANS_MAX
            {
                open.orphans.insert(id, idle.ends_ms);
            }
            ended.push(cursor);
        }
        drop(open);
        ended.len()
    }

    /// Whether there is a cursor that no client reads.
    pub fn has_idle(&self) -> bool {
        lock(&self.open).idle > 0
    }

    /// Whether a cursor has ended with its index. It is then forgotten.
    pub fn forget_orphan(&self, id: u64) -> bool {
        lock(&self.open).orphans.remove(&id).is_some()
    }

    /// How many cursors there are.
    pub fn counts(&self, index: &KeyIndex) -> CursorCounts {
        let open = lock(&self.open);
        let index_total = open.of_indexes.get(&address(index.index())).copied().unwrap_or(0);
        CursorCounts { global_idle: open.idle, global_total: open.by_id.len(), index_total }
    }

    /// How many cursors no client reads at present, and how many there are.
    pub fn total(&self) -> (usize, usize) {
        let open = lock(&self.open);
        (open.idle, open.by_id.len())
    }
}

/// Whether an index has not been dropped, nor made anew.
pub fn is_in(catalogue: &Catalogue, index: &KeyIndex) -> bool {
    catalogue.find(index.name()).is_some_and(|known| Arc::ptr_eq(known.index(), index.index()))
}

impl Lease {
    /// The rows of a read, unless the read says otherwise.
    pub fn count(&self) -> usize {
        self.terms.count
    }

    /// This and further reads have `count` rows.
    pub fn set_count(&mut self, count: usize) {
        self.terms.count = count;
    }

    /// Leaves the rest of an aggregation for the next read; the cursor's id, or 0 if it was deleted.
    ///
    /// # Errors
    /// The cursors would need too much memory.
    pub fn leave(mut self, aggregation: Aggregation, now_ms: i64) -> Result<u64, Error> {
        let bytes = aggregation.bytes();
        let mut open = lock(&self.cursors.open);
        if open.bytes.saturating_add(bytes) > MEMORY_MAX {
            drop(open);
            return Err(Error::Fixed("The cursors of all indexes need more memory than they may take"));
        }
        let Some(cursor) = open.by_id.get_mut(&self.id) else { return Ok(0) };
        let ends_ms = now_ms.saturating_add(i64::from(self.terms.idle_ms));
        cursor.state = State::Idle(Box::new(Idle { aggregation, terms: self.terms, ends_ms, bytes }));
        open.idle += 1;
        open.bytes += bytes;
        self.is_left = true;
        Ok(self.id)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_left {
            lock(&self.cursors.open).remove(self.id);
        }
    }
}

#[cfg(test)]
mod tests;
