//! The files' view of the server ([`Host`]).
//!
//! Invariant: the files go by the configuration that was published last.

pub mod settings;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_base::sync::lock;
use martlet_cluster::machine::Cluster;
use martlet_engine::Touch;
use martlet_persistence::StreamPlace;
use martlet_persistence::{Commands, Condition, Definition, Host, Resolved, Settings, Storage, StreamName};
use martlet_protocol::request::Args;
use martlet_values::file::SlotImport;

use crate::cluster::node::ClusterNode;
use crate::registry::{Registry, Run, names_command};
use crate::replication::resume::resume;
use crate::search::definitions;
use crate::shared::Shared;
use crate::slow_path::SlowPathReason;

impl Commands for Registry {
    fn resolve(&self, args: &Args<'_>) -> Option<Resolved> {
        let entry = Registry::resolve(self, args)?;
        let handler = if let Run::Data(handler) = entry.run { Some(handler) } else { None };
        let lacks_subcommand = !names_command(entry, args);
        Some(Resolved { spec: entry.spec, handler, single_key: entry.single_key, lacks_subcommand })
    }
}

impl<W> Host for Shared<W> {
    fn settings(&self) -> Arc<Settings> {
        let config = self.config.snapshot();
        let mut last = lock(&self.last_settings.0);
        match &*last {
            Some((of, settings)) if Arc::ptr_eq(of, &config) => settings.clone(),
            _ => {
                let settings = Arc::new(settings::settings(&config));
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
        resume(self, &place);
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

    fn definitions(&self) -> Vec<Definition> {
        definitions::texts(self.indexes)
    }

    fn take_definitions(&self, definitions: &[Definition]) {
        definitions::take(self.indexes, definitions, self.index_memory_bytes());
    }

    fn replay_definition(&self, args: &Args<'_>) -> Result<(), String> {
        definitions::replay(self.indexes, args, self.index_memory_bytes())
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

impl<W> Shared<W> {
    /// The memory that indexes go by.
    pub fn index_memory_bytes(&self) -> u64 {
        definitions::memory_bytes(self.config.snapshot().maxmemory_bytes)
    }

    /// The keys with their files.
    pub fn storage(&'static self) -> Storage {
        Storage { engine: self.engine, persistence: &self.persistence, host: self }
    }
}
