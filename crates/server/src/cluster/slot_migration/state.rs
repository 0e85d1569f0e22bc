//! A node's state of slots that leave or come all at once.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use martlet_base::random::Random;
use martlet_base::sync::lock;
use martlet_cluster::id::NodeId;
use martlet_cluster::slot_migration::{JobId, Limits, SlotMigrations};

use super::link::{ExportLink, PullLink};
use crate::clients::ClientInfo;
use crate::config::Config;
use crate::replication::feed::FeedWriter;

/// See the [module docs](self).
pub struct Migrations {
    pub(in crate::cluster) machine: Mutex<SlotMigrations>,
    /// Something is under way, or to be done.
    pub(in crate::cluster) is_active: AtomicBool,
    pub(super) exports: Mutex<BTreeMap<JobId, Arc<ExportLink>>>,
    pub(super) imports: Mutex<BTreeMap<JobId, Arc<ClientInfo>>>,
    /// Threads that bring slots which this node has asked for.
    pub(super) pulls: Mutex<BTreeMap<JobId, Arc<PullLink>>>,
    /// Most bytes of changes that such an import has kept while the snapshot came.
    pub(super) kept_peak: AtomicU64,
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
        archive_max: config.cluster_slot_migration_max_archived_tasks as usize,
        pause_ms: i64::try_from(config.cluster_slot_migration_write_pause_timeout_ms).unwrap_or(i64::MAX),
        drain_ms: i64::try_from(config.cluster_slot_migration_sync_buffer_drain_timeout_ms)
            .unwrap_or(i64::MAX),
    }
}

impl Migrations {
    pub(in crate::cluster) fn new(config: &Config, is_primary: bool) -> Migrations {
        Migrations {
            machine: Mutex::new(SlotMigrations::new(Random::from_entropy(), limits(config), is_primary)),
            is_active: AtomicBool::new(false),
            exports: Mutex::default(),
            imports: Mutex::default(),
            pulls: Mutex::default(),
            kept_peak: AtomicU64::new(0),
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

    /// Bytes of changes that imports keep while the snapshot comes, now and at most.
    pub fn kept_bytes(&self) -> (u64, u64) {
        let kept = lock(&self.pulls).values().map(|pull| pull.kept.load(Ordering::Relaxed)).sum();
        (kept, self.kept_peak.load(Ordering::Relaxed).max(kept))
    }

    /// Bytes that wait to be sent to nodes that have asked for slots.
    pub fn waiting_bytes(&self) -> u64 {
        lock(&self.exports).values().map(|link| link.waiting_bytes()).sum()
    }

    /// The thread that brings a job's slots.
    pub fn pull(&self, job: JobId) -> Option<Arc<PullLink>> {
        lock(&self.pulls).get(&job).cloned()
    }

    /// Slots leave for a target that has asked for them by this connection, which is fed by `feed`.
    ///
    /// # Errors
    /// The system has no event left.
    pub fn add_export(&self, job: JobId, client: Arc<ClientInfo>, feed: FeedWriter) -> io::Result<()> {
        let link = ExportLink::of_target(job, client, feed)?;
        lock(&self.exports).insert(job, Arc::new(link));
        Ok(())
    }

    /// The link of an export.
    pub fn export(&self, job: JobId) -> Option<Arc<ExportLink>> {
        lock(&self.exports).get(&job).cloned()
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

/// Another node's connection as a client (AUTH "internal connection").
#[derive(Clone, Copy, Debug, Default)]
pub struct NodePeer {
    /// The node, once it has named itself.
    pub id: Option<NodeId>,
    /// The export that its messages concern.
    pub export: Option<JobId>,
    /// It has the export's snapshot, and no messages.
    pub is_channel: bool,
}

/// A connection's part of an import.
#[derive(Clone, Copy, Debug)]
pub struct Import {
    /// Which.
    pub job: JobId,
    /// The request that began it has been answered; nothing is from then on.
    pub is_established: bool,
}
