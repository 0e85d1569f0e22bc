//! Atomic slot migration: the code that carries out the state machine's actions.
//!
//! The machine stands behind its own lock. Commands, the threads of exports, time and the cluster's table
//! give it inputs; a worker with exclusive access to the data set carries out the actions
//! ([`Worker::follow_migrations`]). An export has a thread ([`export`]), which sees bytes and no keys. An
//! import is an ordinary connection, whose commands run as all others do, on keys that are hidden.
//!
//! Invariant: no thread waits for the network with a lock or inside the gate.

mod actions;
pub(crate) mod export;
mod files;
mod filter;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use martlet_base::random::Random;
use martlet_base::sync::lock;
use martlet_client::resp::encode_request;
use martlet_cluster::machine::Time;
use martlet_cluster::slot_migration::{JobId, Limits, Message, SlotMigrations};

use super::ClusterNode;
use crate::clients::{ClientInfo, flag};
use crate::config::Config;
use crate::connection::Connection;
use crate::shared::{Mail, Shared};
use crate::slow_path::SessionFlags;
use crate::worker::Worker;
use export::ExportLink;

/// See the [module docs](self).
pub(crate) struct Migrations {
    machine: Mutex<SlotMigrations>,
    /// Something is under way, or to be done.
    is_active: AtomicBool,
    exports: Mutex<BTreeMap<JobId, Arc<ExportLink>>>,
    imports: Mutex<BTreeMap<JobId, Arc<ClientInfo>>>,
    /// An export has writes wait.
    holds_writes: AtomicBool,
    /// Bytes that exports have sent.
    pub exported_bytes: AtomicU64,
    /// Bytes that imports which are over have got.
    imported_bytes: AtomicU64,
}

/// Limits of migrations from the configuration.
pub(super) fn limits(config: &Config) -> Limits {
    Limits {
        silence_s: i64::from(config.repl_timeout_s),
        failover_ms: i64::from(config.cluster_manual_failover_timeout_ms),
        log_max: config.cluster_slot_migration_log_max_len as usize,
    }
}

impl Migrations {
    pub(super) fn new(config: &Config, is_primary: bool) -> Migrations {
        Migrations {
            machine: Mutex::new(SlotMigrations::new(Random::from_entropy(), limits(config), is_primary)),
            is_active: AtomicBool::new(false),
            exports: Mutex::default(),
            imports: Mutex::default(),
            holds_writes: AtomicBool::new(false),
            exported_bytes: AtomicU64::new(0),
            imported_bytes: AtomicU64::new(0),
        }
    }

    /// Whether slots leave.
    pub fn has_exports(&self) -> bool {
        self.is_active.load(Ordering::Acquire) && !lock(&self.exports).is_empty()
    }

    /// Whether there is anything to be looked at.
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Acquire)
    }

    /// Notifies exports that there is more of the stream.
    pub fn wake_exports(&self) {
        if self.is_active() {
            lock(&self.exports).values().for_each(|link| link.wake_for_stream());
        }
    }

    /// What imports have got so far, in bytes.
    pub fn imported_bytes(&self) -> u64 {
        let imports = lock(&self.imports);
        let live: u64 = imports.values().map(|client| client.net_input_bytes.load(Ordering::Relaxed)).sum();
        live + self.imported_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the stream that a job has not sent yet, of which not all concern it.
    pub fn unsent_bytes(&self, job: JobId, end: u64) -> u64 {
        let sent = lock(&self.exports).get(&job).map_or(0, |link| link.sent());
        if sent == 0 { 0 } else { end.saturating_sub(sent) }
    }

    /// Whose commands an import gets is another connection from here on.
    pub fn add_import(&self, job: JobId, client: Arc<ClientInfo>) {
        lock(&self.imports).insert(job, client);
    }
}

impl ClusterNode {
    /// Gives the machine an input. [`Worker::follow_migrations`] carries out the actions.
    pub(crate) fn migrate<R>(&self, input: impl FnOnce(&mut SlotMigrations, Time) -> R) -> R {
        let mut machine = lock(&self.migrations.machine);
        let result = input(&mut machine, self.now());
        let is_active = machine.is_active() || machine.has_actions();
        self.migrations.is_active.store(is_active, Ordering::Release);
        result
    }

    /// Gives the machine an input from a thread that does nothing to the data set itself.
    pub(crate) fn migration_event(
        &self,
        shared: &'static Shared,
        input: impl FnOnce(&mut SlotMigrations, Time),
    ) {
        let has_actions = self.migrate(|machine, now| {
            input(machine, now);
            machine.has_actions()
        });
        if has_actions {
            let follow = |worker: &mut Worker| {
                worker.alone(Worker::follow_migrations);
                worker.serve_ready();
            };
            shared.send(0, Mail::Run(Box::new(follow)));
        }
    }

    /// Time passes.
    pub(super) fn migration_tick(&self, shared: &'static Shared) {
        if !self.migrations.is_active() {
            return;
        }
        let imports = lock(&self.migrations.imports).clone();
        let heard_s = |job: JobId| {
            imports.get(&job).map(|client| client.last_active_ms.load(Ordering::Relaxed) / 1_000)
        };
        self.migration_event(shared, |machine, now| machine.tick(now, heard_s));
    }
}

/// A message as it goes over the wire.
pub(super) fn encoded(message: Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_request(&["CLUSTER", "SYNCSLOTS", message.name()], &mut bytes);
    bytes
}

/// A connection's part of an import.
#[derive(Clone, Copy, Debug)]
pub struct Import {
    /// Which.
    pub job: JobId,
    /// The request that began it has been answered; nothing is from then on.
    pub is_established: bool,
}

impl Worker {
    /// Makes a connection that of an import.
    pub(crate) fn become_import(&self, connection: &mut Connection, job: JobId) {
        connection.session.import = Some(Import { job, is_established: false });
        connection.session.flags.set(SessionFlags::IMPORTS_SLOTS, true);
        connection.info.flags.fetch_or(flag::SLOT_IMPORT, Ordering::Relaxed);
        if let Some(node) = self.shared.cluster() {
            node.migrations.add_import(job, connection.info.clone());
        }
    }

    /// Replies to an import's requests are dropped; an error ends the import.
    pub(crate) fn note_imported(&self, connection: &mut Connection, answer: &[u8]) -> bool {
        let Some(import) = &mut connection.session.import else { return false };
        if !std::mem::replace(&mut import.is_established, true) {
            return false;
        }
        let job = import.job;
        if let (Some(b'-'), Some(node)) = (answer.first(), self.shared.cluster()) {
            let text = String::from_utf8_lossy(answer).trim_end().to_owned();
            tracing::warn!("A command of a slot migration's source was answered with '{text}'");
            let is_out_of_memory = answer.starts_with(b"-OOM ");
            node.migration_event(self.shared, |machine, now| match is_out_of_memory {
                true => machine.out_of_memory(now, job),
                false => machine.command_failed(now, job),
            });
        }
        true
    }

    /// An import's connection ends.
    pub(crate) fn stop_importing(&self, connection: &mut Connection) {
        let Some(import) = connection.session.import.take() else { return };
        if let Some(node) = self.shared.cluster() {
            let bytes = connection.info.net_input_bytes.load(Ordering::Relaxed);
            lock(&node.migrations.imports).remove(&import.job);
            node.migrations.imported_bytes.fetch_add(bytes, Ordering::Relaxed);
            node.migration_event(self.shared, |machine, now| machine.lost(now, import.job));
        }
    }
}
