//! State of clients that cache keys: their options, the prefixes, their notices.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use hashbrown::HashMap;
use martlet_base::sync::lock;

use crate::clients::ClientInfo;

pub use martlet_spec::tracking::TrackingOptions as Options;

/// A client that tracks keys.
pub struct Tracker {
    pub(super) info: Arc<ClientInfo>,
    /// Its options.
    pub options: Options,
}

/// A client's own state of tracking.
pub struct TrackingState {
    /// As others see it.
    pub tracker: Arc<Tracker>,
    /// Prefixes under BCAST, sorted.
    pub prefixes: Vec<Vec<u8>>,
    /// CLIENT CACHING was called for the next command.
    pub caching: bool,
}

/// A notice for one client.
#[derive(Clone, Debug)]
pub enum Notice {
    /// These keys have changed: an array, or a null for all keys, as RESP has it.
    Invalidate(Arc<Vec<u8>>),
    /// As above, in the place of another client.
    Redirected(Arc<Vec<u8>>),
    /// The client that gets its notices is gone.
    RedirectionBroken(u64),
}

/// All clients that track.
#[derive(Default)]
pub struct Tracking {
    pub(super) trackers: RwLock<HashMap<u64, Arc<Tracker>>>,
    /// Prefixes, with the ids of the clients that asked for them.
    pub(super) prefixes: Mutex<BTreeMap<Vec<u8>, Vec<u64>>>,
    /// Clients that track.
    pub count: AtomicUsize,
    /// The shards tell of every change.
    pub(super) is_broadcast: AtomicBool,
}

impl Tracking {
    pub(super) fn trackers(&self) -> RwLockReadGuard<'_, HashMap<u64, Arc<Tracker>>> {
        self.trackers.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, id: u64) -> Option<Arc<Tracker>> {
        self.trackers().get(&id).cloned()
    }

    pub(super) fn set(&self, id: u64, tracker: Option<Arc<Tracker>>) {
        let mut trackers = self.trackers.write().unwrap_or_else(PoisonError::into_inner);
        match tracker {
            Some(tracker) => trackers.insert(id, tracker),
            None => trackers.remove(&id),
        };
        self.count.store(trackers.len(), Ordering::Relaxed);
    }

    /// Number of prefixes that are broadcast.
    pub fn prefix_count(&self) -> usize {
        lock(&self.prefixes).len()
    }
}
