//! State of a replica: its link to the primary, its offset, its own keys.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::Duration;

use martlet_base::sync::{lock, wait_while_at_most};
use martlet_replication::pauses::Pauses;

use crate::config::Primary;

/// How far the link to the primary has come.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// Not connected, or no longer.
    #[default]
    Connect,
    /// A connection is being opened.
    Connecting,
    /// The handshake.
    Handshake,
    /// A snapshot is being received or loaded.
    Sync,
    /// The stream is being received.
    Connected,
}

impl LinkState {
    /// The word that ROLE has for it.
    pub(super) fn word(self) -> &'static str {
        match self {
            LinkState::Connect => "connect",
            LinkState::Connecting => "connecting",
            LinkState::Handshake => "handshake",
            LinkState::Sync => "sync",
            LinkState::Connected => "connected",
        }
    }
}

/// A snapshot that is being received.
#[derive(Copy, Clone, Debug, Default)]
pub struct Receiving {
    /// Its length, if that was announced.
    pub total_bytes: Option<u64>,
    /// Bytes that have come.
    pub read_bytes: u64,
}

/// What INFO and ROLE tell of the link.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// How far it has come.
    pub state: LinkState,
    /// The primary.
    pub primary: Option<Primary>,
    /// Of which generation that is.
    pub(super) generation: u64,
    /// When the primary was last heard of, Unix milliseconds.
    pub(super) heard_ms: i64,
    /// Since when the link has been down, Unix seconds; `None` if it never was up.
    pub(super) down_since_s: Option<i64>,
    pub(super) receiving: Receiving,
    pub(super) unloadable: Unloadable,
}

/// The data set that came last and could not be loaded.
#[derive(Clone, Debug, Default)]
pub(super) struct Unloadable {
    /// Why; `None` if it could.
    pub(super) why: Option<String>,
    pauses: Pauses,
}

/// See the [module docs](self). One per server.
#[derive(Default)]
pub struct Replica {
    pub(super) status: Mutex<Status>,
    /// Notified when the status' primary changes.
    pub(super) changed: Condvar,
    pub(super) generation: AtomicU64,
    /// See [`Replica::db`].
    pub(super) db: AtomicUsize,
    /// Bytes received of the stream, in its own count.
    pub(super) read_offset: AtomicU64,
    /// The primary wants to know at once how far this server has come.
    pub(super) owes_answer: AtomicBool,
    pub(super) link: Wakeup,
    /// INFO's figures on the stream that waits for a full sync's data set.
    pub gathered: GatheredFigures,
    /// All threads are called to apply together.
    pub(super) calls_all: AtomicBool,
    /// Commands that were applied by all threads.
    pub(super) applied_by_all: AtomicU64,
    /// Keys that clients have written here and that have a time to live.
    pub own_keys: OwnKeys,
}

impl Replica {
    /// Whether all threads are called to apply together.
    #[inline]
    pub fn calls_all(&self) -> bool {
        self.calls_all.load(Ordering::Acquire)
    }

    /// Whether the server copies another one.
    pub fn has_primary(&self) -> bool {
        lock(&self.status).primary.is_some()
    }

    /// Whether the link to the primary is up, if there is one.
    pub fn is_linked(&self) -> bool {
        lock(&self.status).state == LinkState::Connected
    }

    /// What INFO and ROLE tell of the link.
    pub fn status(&self) -> Status {
        lock(&self.status).clone()
    }

    /// The database that is selected where the stream has been applied to.
    pub fn db(&self) -> usize {
        self.db.load(Ordering::Relaxed)
    }

    /// Takes note of a REPLCONF GETACK of the primary.
    pub fn note_question(&self) {
        self.owes_answer.store(true, Ordering::SeqCst);
    }

    /// Sends the primary this server's offset, if it has asked: earlier bytes have been applied.
    pub(super) fn answer(&self) {
        if self.owes_answer.load(Ordering::SeqCst) {
            self.link.wake();
        }
    }

    /// This database is selected where the data set is in the stream.
    pub fn resume(&self, db: usize) {
        self.db.store(db, Ordering::Relaxed);
    }

    /// How long nothing has been heard of the primary, in milliseconds; very long if never anything was.
    pub fn silent_ms(&self, now_ms: i64) -> i64 {
        let status = lock(&self.status);
        match (status.state, status.down_since_s) {
            (LinkState::Connected, _) => (now_ms - status.heard_ms).max(0),
            (_, Some(since_s)) => (now_ms - since_s * 1_000).max(0),
            (_, None) => i64::MAX / 8,
        }
    }

    /// Rises whenever the primary becomes another, or none.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// The primary's data set cannot be loaded, for this reason, which the log has once; returns how long to
    /// wait before the primary is asked for another.
    pub(super) fn note_unloadable(&self, generation: u64, why: String, from: &str) -> Duration {
        let mut pause = Duration::ZERO;
        self.update(|status| {
            if status.generation != generation {
                return;
            }
            pause = status.unloadable.pauses.grow();
            if status.unloadable.why.as_ref() != Some(&why) {
                tracing::warn!("Internal error in RDB reading: {why}");
                tracing::warn!(
                    "Failed trying to load the MASTER synchronization DB from {from}, check server logs."
                );
                status.unloadable.why = Some(why);
            }
        });
        pause
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Status)) {
        change(&mut lock(&self.status));
    }

    /// The primary to copy, and its generation; `None` while that is about to change.
    pub(super) fn task(&self) -> (u64, Option<Primary>) {
        let status = lock(&self.status);
        let is_current = status.generation == self.generation();
        (status.generation, status.primary.clone().filter(|_| is_current))
    }

    /// Sleeps until the primary of this generation is replaced; at most for this time.
    pub(super) fn sleep(&self, generation: u64, most: Duration) {
        let status = lock(&self.status);
        // The generation itself rises before the primary is another.
        let same = |status: &mut Status| status.generation == generation;
        drop(wait_while_at_most(&self.changed, status, most, same));
    }
}

/// Ends the sleep of the thread.
#[derive(Default)]
pub struct Wakeup {
    pub(super) event: OnceLock<OwnedFd>,
    pub(super) is_started: AtomicBool,
}

impl Wakeup {
    /// Has the thread look for work.
    pub fn wake(&self) {
        if let Some(event) = self.event.get() {
            // It fails only when as many wake it as a counter of 64 bits can tell.
            let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
        }
    }
}

/// INFO's figures on [`Gathered`](super::gathered::Gathered).
#[derive(Default)]
pub struct GatheredFigures {
    /// Bytes of memory that it has.
    pub bytes: AtomicU64,
    /// The most that it ever had.
    pub peak_bytes: AtomicU64,
}

/// A key: when it is due, Unix milliseconds; its database; its name.
type OwnKey = (i64, usize, Box<[u8]>);

/// See the [module docs](self).
#[derive(Default)]
pub struct OwnKeys(Mutex<BTreeSet<OwnKey>>);

impl OwnKeys {
    /// How many there are.
    pub fn count(&self) -> usize {
        lock(&self.0).len()
    }

    /// Forgets all: the server looks after every key now, or none of them is there any more.
    pub fn clear(&self) {
        lock(&self.0).clear();
    }

    pub(super) fn add(&self, at_ms: i64, db: usize, name: &[u8]) {
        lock(&self.0).insert((at_ms, db, name.into()));
    }

    pub(super) fn pop_due(&self, now_ms: i64) -> Option<(usize, Box<[u8]>)> {
        let mut keys = lock(&self.0);
        keys.first().filter(|(at_ms, ..)| *at_ms <= now_ms)?;
        keys.pop_first().map(|(_, db, name)| (db, name))
    }
}

impl Replica {
    /// Bytes of memory that the stream has which has been received during a full sync and waits.
    pub fn gathered_bytes(&self) -> u64 {
        self.gathered.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replace_primary(replica: &Replica, generation: u64, port: u16) {
        replica.update(|status| {
            status.primary = Some(Primary { host: "127.0.0.1".into(), port });
            status.generation = generation;
        });
        replica.changed.notify_all();
    }

    /// The generation rises first, so that work for an older one ends; a look between the two steps neither
    /// copies the old primary in the name of the new generation, nor misses the new one.
    #[test]
    fn who_looks_in_the_middle_of_a_change_learns_of_the_primary() {
        let replica = Replica::default();
        replace_primary(&replica, 0, 1);
        assert_eq!(replica.task().1.map(|primary| primary.port), Some(1));
        replica.generation.fetch_add(1, Ordering::SeqCst);
        let (generation, primary) = replica.task();
        assert_eq!((generation, primary), (0, None));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                replica.sleep(generation, Duration::MAX);
                replica.task()
            });
            replace_primary(&replica, 1, 2);
            let (generation, primary) = waits.join().unwrap();
            assert_eq!((generation, primary.map(|primary| primary.port)), (1, Some(2)));
        });
    }
}
