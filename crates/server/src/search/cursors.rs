//! Cursors: aggregations whose rows are read in parts. A cursor that is being read is its reader's.
//!
//! Invariant: an index has at most as many cursors as may be, and one that is not read for its time ends.
//! What a cursor holds is bounded as an aggregation is; it has no lock and no shard.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use martlet_base::random::Random;
use martlet_base::sync::lock;
use martlet_indexes::{Aggregation, KeyIndex};

use super::rows::Shape;

/// The greatest id; as RediSearch's, ids fit into 31 bits.
const ID_MAX: u64 = 1 << 31;

/// An aggregation that goes on.
#[derive(Debug)]
pub struct Cursor {
    /// The aggregation.
    pub aggregation: Aggregation,
    /// Rows of a reply.
    pub count: usize,
    /// For how long it stays without being read, milliseconds.
    pub idle_ms: i64,
    /// How its rows are shown.
    pub shape: Shape,
}

/// Numbers of cursors, for FT.INFO.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that are not being read.
    pub idle: usize,
    /// All.
    pub total: usize,
}

#[derive(Debug)]
struct Place {
    index: Arc<KeyIndex>,
    ends_ms: i64,
    /// `None` while it is read.
    cursor: Option<Cursor>,
}

/// See the [module docs](self).
#[derive(Debug, Default)]
pub struct Cursors(Mutex<HashMap<u64, Place>>);

/// Why there is no such cursor.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TooMany;

impl Cursors {
    /// Reserves an id for a cursor that is about to be read the first time.
    ///
    /// # Errors
    /// The index has as many as may be.
    pub fn reserve(&self, index: &Arc<KeyIndex>, most: usize, now_ms: i64) -> Result<u64, TooMany> {
        let mut places = lock(&self.0);
        end_idle(&mut places, now_ms);
        if places.values().filter(|place| Arc::ptr_eq(place.index.index(), index.index())).count() >= most {
            return Err(TooMany);
        }
        let mut random = Random::from_entropy();
        let id = loop {
            let id = 1 + random.below(ID_MAX - 1);
            if !places.contains_key(&id) {
                break id;
            }
        };
        places.insert(id, Place { index: Arc::clone(index), ends_ms: i64::MAX, cursor: None });
        Ok(id)
    }

    /// Takes a cursor of an index to read it; `None` if there is none, or another client reads it.
    pub fn take(&self, index: &KeyIndex, id: u64, now_ms: i64) -> Option<Cursor> {
        let mut places = lock(&self.0);
        end_idle(&mut places, now_ms);
        let place = places.get_mut(&id).filter(|place| Arc::ptr_eq(place.index.index(), index.index()))?;
        place.ends_ms = i64::MAX;
        place.cursor.take()
    }

    /// Gives a cursor back that was read, unless it has been deleted meanwhile.
    pub fn put_back(&self, id: u64, cursor: Cursor, now_ms: i64) {
        if let Some(place) = lock(&self.0).get_mut(&id) {
            place.ends_ms = now_ms.saturating_add(cursor.idle_ms);
            place.cursor = Some(cursor);
        }
    }

    /// Ends a cursor; whether there was one of the index.
    pub fn remove(&self, index: &KeyIndex, id: u64) -> bool {
        let mut places = lock(&self.0);
        let is_there = places.get(&id).is_some_and(|place| Arc::ptr_eq(place.index.index(), index.index()));
        is_there && places.remove(&id).is_some()
    }

    /// Ends the cursors whose time is over, and those of indexes that are not `wanted` any more; how many.
    pub fn end_idle(&self, now_ms: i64, is_wanted: impl Fn(&KeyIndex) -> bool) -> usize {
        let mut places = lock(&self.0);
        if places.is_empty() {
            return 0;
        }
        let before = places.len();
        end_idle(&mut places, now_ms);
        places.retain(|_, place| place.cursor.is_none() || is_wanted(&place.index));
        before - places.len()
    }

    /// How many cursors there are.
    pub fn total(&self) -> Counts {
        let places = lock(&self.0);
        Counts { idle: places.values().filter(|place| place.cursor.is_some()).count(), total: places.len() }
    }

    /// How many cursors there are: in all, and of an index.
    pub fn counts(&self, index: &KeyIndex) -> (Counts, Counts) {
        let places = lock(&self.0);
        let count = |is_counted: &dyn Fn(&Place) -> bool| Counts {
            idle: places.values().filter(|place| is_counted(place) && place.cursor.is_some()).count(),
            total: places.values().filter(|place| is_counted(place)).count(),
        };
        (count(&|_| true), count(&|place| Arc::ptr_eq(place.index.index(), index.index())))
    }
}

fn end_idle(places: &mut HashMap<u64, Place>, now_ms: i64) {
    places.retain(|_, place| place.cursor.is_none() || place.ends_ms > now_ms);
}
