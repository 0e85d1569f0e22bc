//! The steps of a full or partial sync that touch the data set, each on an I/O thread behind the closed gate,
//! and the loading between them.
//!
//! Invariant: a server that has begun to load a snapshot and not ended has no place in any stream.

use std::io::{Cursor, Read};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use martlet_base::disk::error_text;
use martlet_journal::Follower;
use martlet_persistence::load::{Loaded, Source};
use martlet_persistence::{Beside, Definition};
use martlet_values::file::SlotImport;

use super::state::Replica;
use crate::replication::state::random_id;
use crate::runtime::Worker;
use crate::runtime::{Mail, Shared};

/// How often a thread that waits for another looks whether the server ends.
const LOOK: Duration = Duration::from_millis(100);

/// Runs `work` on an I/O thread, behind the closed gate with all shards locked, unless the primary has become
/// another; returns its result.
fn alone<R: Send + 'static>(
    shared: &'static Shared,
    generation: u64,
    work: impl FnOnce(&mut Worker, &Replica) -> R + Send + 'static,
) -> Option<R> {
    let work = move |worker: &mut Worker| {
        let replica = &shared.replication.replica;
        (replica.generation() == generation).then(|| work(worker, replica))
    };
    always_alone(shared, work).flatten()
}

/// As [`alone`], whatever the primary is; `None` when the server ends.
fn always_alone<R: Send + 'static>(
    shared: &'static Shared,
    work: impl FnOnce(&mut Worker) -> R + Send + 'static,
) -> Option<R> {
    let (sender, done) = sync_channel(1);
    let run = move |worker: &mut Worker| {
        let result = worker.alone(work);
        worker.count_changes();
        worker.serve_ready();
        // The waiting thread may have gone, as the server ends.
        let _ = sender.send(result);
    };
    shared.send(shared.thread_count() - 1, Mail::Run(Box::new(run)));
    loop {
        match done.recv_timeout(LOOK) {
            Ok(result) => return Some(result),
            Err(RecvTimeoutError::Timeout) if !shared.stopping.load(Ordering::Relaxed) => {}
            Err(_) => return None,
        }
    }
}

/// The replica that was asked to take over does not: this server is a primary again.
pub fn abort_failover(shared: &'static Shared, generation: u64) {
    let abort = |worker: &mut Worker, _: &Replica| {
        worker.abort_failover("Failover target rejected psync request");
    };
    alone(shared, generation, abort);
}

/// Removes the data set, and has clients get LOADING.
pub fn begin(shared: &'static Shared, generation: u64) -> Option<()> {
    let begin = move |worker: &mut Worker, replica: &Replica| {
        leave_stream(shared, replica);
        let settings = crate::persistence::settings::settings(worker.config());
        shared.storage().begin_replacing(&mut worker.keys, &settings);
    };
    alone(shared, generation, begin)
}

/// Loads a snapshot.
///
/// # Errors
/// Why it cannot be loaded, as a line for the log.
pub fn load(shared: &'static Shared, source: Source) -> Result<Loaded, String> {
    let settings = crate::persistence::settings::settings(&shared.config.snapshot());
    shared.storage().load_received(&settings, source).map_err(|error| error.to_string())
}

/// Lets clients in again after a snapshot was loaded, which is that of the stream's `place`, or was not.
pub fn end(
    shared: &'static Shared,
    generation: u64,
    loaded: Option<Loaded>,
    place: Option<(String, u64)>,
) -> Option<()> {
    let end = move |worker: &mut Worker, replica: &Replica| {
        let is_whole = loaded.is_some();
        let beside_keys = loaded.as_ref().map(BesideKeys::of);
        loaded.into_iter().for_each(|loaded| arrive(worker, replica, &loaded, place.clone()));
        let settings = crate::persistence::settings::settings(worker.config());
        shared.storage().end_replacing(&mut worker.keys, &settings, is_whole);
        beside_keys.iter().for_each(|beside_keys| beside_keys.publish(shared));
        worker.keys.effects.recording = shared.engine.journal.is_on();
    };
    alone(shared, generation, end)
}

/// Whether there is no key.
pub fn is_empty(shared: &'static Shared, generation: u64) -> Option<bool> {
    alone(shared, generation, |worker, _| worker.keys.is_empty())
}

/// Has clients see that data is being loaded while the data set stays, which is served in that time if it is
/// an older state of the loaded one: of the stream with this id.
pub fn begin_beside(shared: &'static Shared, generation: u64, id: Option<String>) -> Option<()> {
    let begin = move |_: &mut Worker, _: &Replica| {
        let history = shared.replication.history();
        let is_older = id.is_some_and(|id| id == history.id()) && history.has_place();
        drop(history);
        shared.storage().begin_loading(is_older);
    };
    alone(shared, generation, begin)
}

/// Loads a snapshot beside the data set.
///
/// # Errors
/// As [`load`].
pub fn load_beside(shared: &'static Shared, source: Source) -> Result<Beside, String> {
    let settings = crate::persistence::settings::settings(&shared.config.snapshot());
    shared.storage().load_beside(&settings, source)
}

/// Replaces the data set by the one loaded beside it, which is that of the stream's `place`, and serves
/// clients again; or continues with the old one, if nothing was loaded or the primary has become another.
pub fn end_beside(
    shared: &'static Shared,
    generation: u64,
    beside: Option<Beside>,
    place: Option<(String, u64)>,
) -> Option<()> {
    let end = move |worker: &mut Worker| {
        let replica = &shared.replication.replica;
        let is_current = replica.generation() == generation;
        let beside = beside.filter(|_| is_current);
        let beside_keys = beside.as_ref().map(|beside| BesideKeys::of(&beside.loaded));
        if let Some(beside) = &beside {
            tracing::info!("MASTER <-> REPLICA sync: Swapping active DB with loaded DB");
            leave_stream(shared, replica);
            arrive(worker, replica, &beside.loaded, place);
        }
        let settings = crate::persistence::settings::settings(worker.config());
        shared.storage().end_beside(&mut worker.keys, &settings, beside);
        beside_keys.iter().for_each(|beside_keys| beside_keys.publish(shared));
        worker.keys.effects.recording = shared.engine.journal.is_on();
        is_current.then_some(())
    };
    always_alone(shared, end).flatten()
}

/// Replaces the data set by a small snapshot, before anybody sees anything else: as it would go if one thread
/// did all. Why it cannot be loaded, if that is so, as a line for the log.
pub fn replace(
    shared: &'static Shared,
    generation: u64,
    mut source: Source,
    place: Option<(String, u64)>,
) -> Option<Result<(), String>> {
    // The disk is not waited for behind the gate.
    let mut bytes = Vec::new();
    if let Err(error) = source.reader.read_to_end(&mut bytes) {
        return Some(Err(error_text(&error)));
    }
    let replace = move |worker: &mut Worker, replica: &Replica| {
        leave_stream(shared, replica);
        let source = Source { len: bytes.len() as u64, reader: Box::new(Cursor::new(bytes)), offset: 0 };
        let settings = crate::persistence::settings::settings(worker.config());
        let loaded = shared.storage().replace(&mut worker.keys, &settings, source);
        let result = loaded.map(|loaded| {
            arrive(worker, replica, &loaded, place);
            BesideKeys::of(&loaded).publish(shared);
        });
        worker.keys.effects.recording = shared.engine.journal.is_on();
        result.map_err(|error| error.to_string())
    };
    alone(shared, generation, replace)
}

/// The data set goes: it is no place of any stream until another is there.
fn leave_stream(shared: &Shared, replica: &Replica) {
    if let Some(node) = shared.cluster() {
        node.migrate(|machine, now| machine.loaded(now, "Full resynchronization occurred"));
    }
    shared.replication.history().leave();
    replica.own_keys.clear();
    // They are to get the loaded data, too.
    shared.replication.primary.disconnect_all(shared);
}

/// Parts of a loaded data set besides its keys.
struct BesideKeys {
    imports: Vec<SlotImport>,
    definitions: Vec<Definition>,
}

impl BesideKeys {
    fn of(loaded: &Loaded) -> BesideKeys {
        BesideKeys { imports: loaded.imports.clone(), definitions: loaded.definitions.clone() }
    }

    /// Hides the keys of slots that are on their way to the primary, and defines the indexes. The data set
    /// before it has gone.
    fn publish(&self, shared: &'static Shared) {
        shared.engine.hidden.take_flushed();
        let host = shared.storage().host;
        host.take_imports(&self.imports);
        host.take_definitions(&self.definitions);
    }
}

/// The data set is that of the stream's `place`.
fn arrive(worker: &mut Worker, replica: &Replica, loaded: &Loaded, place: Option<(String, u64)>) {
    let shared = worker.shared;
    // A primary that cannot send its place cannot continue from it either: the id is unknown to all.
    let (id, offset) = place.unwrap_or_else(|| (random_id(&mut worker.keys.random), 0));
    if let (Some(node), Some(slots)) = (shared.cluster(), &loaded.open_slots) {
        node.with(|cluster, now| cluster.take_open_slots(now, slots));
    }
    let db = loaded.place.as_ref().map_or(0, |place| place.db as usize);
    shared.replication.history().arrive(id);
    relay(worker, Some(offset));
    replica.db.store(if db < worker.settings.databases { db } else { 0 }, Ordering::Relaxed);
}

/// Continues the stream where it was left, with a new id if one is given.
pub fn go_on(shared: &'static Shared, generation: u64, id: Option<String>) -> bool {
    let go_on = move |worker: &mut Worker, _: &Replica| {
        let mut history = shared.replication.history();
        let is_renamed = history.go_on(id, shared.applied_offset());
        if is_renamed {
            tracing::info!("Master replication ID changed to {}", history.id());
        }
        drop(history);
        if is_renamed {
            // They learn the new name when they ask again.
            shared.replication.primary.disconnect_all(shared);
        }
        relay(worker, None);
    };
    alone(shared, generation, go_on).is_some()
}

/// Keeps the primary's stream for replicas of this server, from this offset on if it is another.
fn relay(worker: &mut Worker, offset: Option<u64>) {
    let journal = &worker.shared.engine.journal;
    if let Err(error) = journal.open() {
        // The replication offset is the journal's.
        tracing::error!("No memory for the replication stream: {error}");
        return;
    }
    journal.set_backlog(worker.config().repl_backlog_size_bytes);
    journal.follow(Follower::Replicas, true);
    journal.relay(true, offset);
    worker.shared.replication.primary.is_active.store(true, Ordering::Release);
    journal.pump(journal.end());
}
