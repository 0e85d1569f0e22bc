//! The files' view of the server ([`Host`]), and what of their work needs a worker.
//!
//! Invariant: the files go by the configuration that was published last.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use martlet_base::sync::lock;
use martlet_cluster::machine::Cluster;
use martlet_engine::Touch;
use martlet_journal::aof::SyncPolicy;
use martlet_persistence::aof::PendingFlush;
use martlet_persistence::load::StreamPlace;
use martlet_persistence::save::SaveFailed;
use martlet_persistence::{
    Commands, Condition, Due, Host, KeptAccess, Resolved, Settings, Storage, StreamName,
};
pub use martlet_persistence::{Persistence, aof, load, start, temp_files};
use martlet_protocol::request::Args;
use martlet_values::file::SlotImport;

use crate::checks::names_command;
use crate::cluster::ClusterNode;
use crate::config::{
    AppendFsync, Config, MaxmemoryPolicy, PropagationErrorBehavior, REDIS_VERSION, RdbVersionCheck, SavePoint,
};
use crate::registry::{Registry, Run};
use crate::shared::Shared;
use crate::slow_path::SlowPathReason;
use crate::worker::Worker;

/// The settings of the last configuration that the files asked for.
#[derive(Default)]
pub struct LastSettings(Mutex<Option<(Arc<Config>, Arc<Settings>)>>);

fn save_point(SavePoint { seconds, changes }: SavePoint) -> martlet_persistence::SavePoint {
    martlet_persistence::SavePoint { seconds, changes }
}

/// What of a configuration matters to files.
pub fn settings(config: &Config) -> Settings {
    Settings {
        server_version: REDIS_VERSION,
        handlers: crate::settings::from_config(config),
        dir: config.dir.clone(),
        dbfilename: config.dbfilename.clone(),
        save: config.save.0.iter().map(|&point| save_point(point)).collect(),
        stop_writes_on_bgsave_error: config.stop_writes_on_bgsave_error,
        rdbcompression: config.rdbcompression,
        rdbchecksum: config.rdbchecksum,
        rdb_version: config.rdb_version.number(),
        reads_any_version: config.rdb_version_check == RdbVersionCheck::Relaxed,
        kept_access: match config.maxmemory_policy {
            MaxmemoryPolicy::AllkeysLru
            | MaxmemoryPolicy::VolatileLru
            | MaxmemoryPolicy::AllkeysLrm
            | MaxmemoryPolicy::VolatileLrm => KeptAccess::Idle,
            MaxmemoryPolicy::AllkeysLfu | MaxmemoryPolicy::VolatileLfu => KeptAccess::Frequency,
            _ => KeptAccess::Nothing,
        },
        panics_on_failed_command: config.propagation_error_behavior == PropagationErrorBehavior::Panic,
        replica_lazy_flush: config.replica_lazy_flush,
        rdb_save_incremental_fsync: config.rdb_save_incremental_fsync,
        rdb_key_save_delay_us: config.rdb_key_save_delay_us,
        key_load_delay_us: config.key_load_delay_us,
        appendonly: config.appendonly,
        appendfsync: match config.appendfsync {
            AppendFsync::Always => SyncPolicy::Always,
            AppendFsync::Everysec => SyncPolicy::EverySecond,
            AppendFsync::No => SyncPolicy::Never,
        },
        no_appendfsync_on_rewrite: config.no_appendfsync_on_rewrite,
        appenddirname: config.appenddirname.clone(),
        appendfilename: config.appendfilename.clone(),
        aof_timestamp_enabled: config.aof_timestamp_enabled,
        aof_use_rdb_preamble: config.aof_use_rdb_preamble,
        aof_load_truncated: config.aof_load_truncated,
        aof_disable_auto_gc: config.aof_disable_auto_gc,
        aof_rewrite_incremental_fsync: config.aof_rewrite_incremental_fsync,
        auto_aof_rewrite_percentage: config.auto_aof_rewrite_percentage,
        auto_aof_rewrite_min_size_bytes: config.auto_aof_rewrite_min_size_bytes,
    }
}

impl Commands for Registry {
    fn resolve(&self, args: &Args<'_>) -> Option<Resolved> {
        let entry = Registry::resolve(self, args)?;
        let handler = if let Run::Data(handler) = entry.run { Some(handler) } else { None };
        let lacks_subcommand = !names_command(entry, args);
        Some(Resolved { spec: entry.spec, handler, single_key: entry.single_key, lacks_subcommand })
    }
}

impl Host for Shared {
    fn settings(&self) -> Arc<Settings> {
        let config = self.config.snapshot();
        let mut last = lock(&self.last_settings.0);
        match &*last {
            Some((of, settings)) if Arc::ptr_eq(of, &config) => settings.clone(),
            _ => {
                let settings = Arc::new(settings(&config));
                *last = Some((config, settings.clone()));
                settings
            }
        }
    }

    fn commands(&self) -> &'static dyn Commands {
        self.registry
    }

    fn libraries(&self) -> &dyn martlet_persistence::Libraries {
        &self.libraries
    }

    fn touch(&self, unix_ms: i64) -> Touch {
        crate::settings::touch(&self.config.snapshot(), unix_ms, self.engine)
    }

    fn stream(&self) -> Option<StreamName> {
        let (journal, replica) = (&self.engine.journal, &self.replication.replica);
        let history = self.replication.history();
        // This server's own records select their database again behind a cut; another's stream does not.
        let (has_place, db) = match journal.relays() {
            true => (history.has_place(), replica.db() as u64),
            false => (true, 0),
        };
        has_place.then(|| StreamName { id: history.id().to_owned(), db })
    }

    fn take_place(&self, place: StreamPlace) {
        crate::replication::resume(self, &place);
    }

    fn imports(&self) -> Vec<SlotImport> {
        self.cluster().map_or_else(Vec::new, ClusterNode::imports)
    }

    fn open_slots(&self) -> Option<String> {
        self.cluster()?.read(Cluster::open_slots_text)
    }

    fn take_imports(&self, imports: &[SlotImport]) {
        if let Some(node) = self.cluster() {
            node.take_imports(&self.engine.hidden, imports);
        }
    }

    fn replay_import(&self, args: &Args<'_>) -> Result<(), String> {
        self.cluster().map_or(Ok(()), |node| node.replay_import(&self.engine.hidden, args))
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    fn begin_thread(&self) {
        crate::process::guard_thread();
    }

    fn note(&self, condition: Condition, holds: bool) {
        let reason = match condition {
            Condition::Loading => SlowPathReason::Loading,
            Condition::SaveFailed => SlowPathReason::SaveFailed,
            Condition::LogRefused => SlowPathReason::LogRefused,
        };
        self.slow_path_reasons.set(reason, holds);
    }

    fn note_journal(&self, is_full: bool) {
        Shared::note_journal(self, is_full);
    }

    fn disk_went_on(&self) {
        self.wake_unconfirmed_output();
    }
}

impl Shared {
    /// The keys with their files.
    pub fn storage(&'static self) -> Storage {
        Storage { engine: self.engine, persistence: &self.persistence, host: self }
    }
}

impl Worker {
    /// Changes of the data set since the start, those of the command that runs now included.
    pub(crate) fn changes(&self) -> u64 {
        self.shared.storage().changes(&self.keys)
    }

    /// See [`Storage::save`]. All shards are held.
    ///
    /// # Errors
    /// As there.
    pub fn save(&mut self) -> Result<(), SaveFailed> {
        self.shared.storage().save(&self.keys.standstill(), &self.keys, &settings(self.config()))
    }

    /// See [`Storage::begin_saving_nothing`]. All shards are locked.
    pub(crate) fn begin_saving_nothing(&mut self) {
        self.empty_file = self.shared.storage().begin_saving_nothing(&self.keys, &settings(self.config()));
    }

    /// See [`Storage::start_background_save`]. All shards are held.
    pub fn start_background_save(&mut self) -> bool {
        self.shared.storage().start_background_save(&self.keys, &settings(self.config()))
    }

    /// Saves in the background if a rule asks for it.
    pub(crate) fn save_by_rule(&mut self) {
        let Some(due) = self.shared.storage().due_save(self.changes()) else { return };
        let is_begun = self.try_alone(Worker::start_background_save).unwrap_or(false);
        if !is_begun && due == Due::Scheduled {
            // Another was faster.
            self.shared.persistence.background.schedule(true);
        }
    }

    /// See [`Storage::follow_appendonly`]. All shards are held.
    ///
    /// # Errors
    /// As there.
    pub fn follow_appendonly(&mut self) -> Result<Option<PendingFlush>, String> {
        let followed = self.shared.storage().follow_appendonly(&settings(self.config()));
        if !self.shared.engine.journal.is_on() {
            // The transaction's earlier effects must not be appended when the file is switched on again.
            self.keys.effects.recording = false;
            self.keys.effects.pending().clear();
        }
        followed
    }

    /// Waits for the flush of an append-only file that has ended. Nothing is locked.
    pub(crate) fn await_flush(&mut self, flush: Option<PendingFlush>) {
        let Some(flush) = flush else { return };
        if !self.outside(|outside| flush.wait(outside)) {
            tracing::warn!("Failed to fsync the AOF file");
        }
    }

    /// See [`Storage::rewrite_by_rule`].
    pub(crate) fn rewrite_by_rule(&mut self) {
        if !self.shared.storage().rewrite_by_rule() {
            return;
        }
        match self.alone(Worker::follow_appendonly) {
            Ok(flush) => self.await_flush(flush),
            Err(why) => tracing::warn!("{why}"),
        }
    }
}

#[cfg(test)]
mod tests;
