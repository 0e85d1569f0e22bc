//! A node's state of slots that leave or come all at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use martlet_base::random::Random;
use martlet_base::sync::lock;
use martlet_cluster::slot_migration::{JobId, Limits, SlotMigrations};

use super::link::ExportLink;
use crate::clients::ClientInfo;
use crate::config::Config;

/// See the [module docs](self).
pub struct Migrations {
    pub(in crate::cluster) machine: Mutex<SlotMigrations>,
    /// Something is under way, or to be done.
    pub(in crate::cluster) is_active: AtomicBool,
    pub(super) exports: Mutex<BTreeMap<JobId, Arc<ExportLink>>>,
    pub(super) imports: Mutex<BTreeMap<JobId, Arc<ClientInfo>>>,
    /// An export has writes wait.
    pub(super) holds_writes: AtomicBool,
    /// Bytes that exports have sent.
    pub exported_bytes: AtomicU64,
    /// Bytes that imports which are over have got.
    pub(super) imported_bytes: AtomicU64,
}

/// Limits of migrations from the configuration.
pub(in crate::cluster) fn limits(config: &Config) -> Limits {
    Limits {
        silence_s: i64::from(config.repl_timeout_s),
        failover_ms: i64::from(config.cluster_manual_failover_timeout_ms),
        log_max: config.cluster_slot_migration_log_max_len as usize,
    }
}

impl Migrations {
    pub(in crate::cluster) fn new(config: &Config, is_primary: bool) -> Migrations {
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

/// A connection's part of an import.
#[derive(Clone, Copy, Debug)]
pub struct Import {
    /// Which.
    pub job: JobId,
    /// The request that began it has been answered; nothing is from then on.
    pub is_established: bool,
}
