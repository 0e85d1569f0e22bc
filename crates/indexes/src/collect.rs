//! Collections: what documents that are gone have left in an index is dropped, a part at a time, and
//! documents of pages that are nearly empty move together.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use martlet_base::sync::lock;

use crate::access::Access;
use crate::index::KeyIndex;

/// Terms of each partition that a turn looks at; the partition is locked.
const TERMS: usize = 256;
/// Documents that move in a turn.
const MOVES: usize = 64;

/// The indexes in which there is something to drop, each once.
#[derive(Debug, Default)]
pub(crate) struct Collections(Mutex<VecDeque<Arc<KeyIndex>>>);

impl Collections {
    /// Notes an index; false if it is noted already.
    pub(crate) fn order(&self, index: &Arc<KeyIndex>) -> bool {
        let is_new = index.begin_collection();
        if is_new {
            lock(&self.0).push_back(Arc::clone(index));
        }
        is_new
    }

    /// A turn at the first index; false if there is none. Those that are not `wanted` any more are left as
    /// they are.
    pub(crate) fn work(
        &self,
        access: &mut Access<'_>,
        now_ms: i64,
        is_wanted: impl Fn(&KeyIndex) -> bool,
    ) -> bool {
        let Some(index) = lock(&self.0).pop_front() else { return false };
        if !is_wanted(&index) {
            return true;
        }
        let has_more = index.index().collect(TERMS) || move_up(&index, access, now_ms);
        if has_more {
            lock(&self.0).push_back(index);
        } else {
            index.end_collection();
        }
        true
    }
}

/// Moves documents of nearly empty pages; whether there may be more of them.
fn move_up(index: &KeyIndex, access: &mut Access<'_>, now_ms: i64) -> bool {
    let keys = index.index().scattered(MOVES);
    let mut moved = 0;
    for key in &keys {
        let is_moved = access.with_key(key, now_ms, |entry| index.move_up(key, entry, now_ms));
        moved += usize::from(is_moved == Some(true));
    }
    // A key whose time has come stays until it is deleted.
    moved > 0 && keys.len() == MOVES
}
