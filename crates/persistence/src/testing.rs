//! A server without clients, for the tests of this crate.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use martlet_base::clock::Clock;
use martlet_base::disk::{Disk, GatedDisk};
use martlet_base::random::Random;
use martlet_base::sync::lock;
use martlet_command::{
    Command, Context, Control, Handler, LibraryChange, Outcome, Settings as HandlerSettings, command,
};
use martlet_engine::{Engine, Keys, Touch};
use martlet_journal::aof::SyncPolicy;
use martlet_protocol::request::Args;
use martlet_values::file::SlotImport;

use crate::host::StreamPlace;
use crate::{
    Commands, Condition, Definition, Host, KeptAccess, Libraries, NUMBERS_PER_THREAD, Persistence, Publish,
    Resolved, SavePoint, Settings, Storage, StreamName,
};

/// As the server has it.
static SELECT: Command<Handler> = command("select", 2, nothing as Handler).control(Control::SelectDatabase);

fn nothing(_: &mut Context<'_>) -> Outcome {
    Ok(())
}

/// The tests' server.
pub(crate) struct TestHost {
    settings: Mutex<Arc<Settings>>,
    /// The conditions that hold.
    pub conditions: Mutex<Vec<Condition>>,
    is_stopping: AtomicBool,
    /// The libraries that there are.
    pub libraries: TestLibraries,
    /// The commands that have made indexes.
    pub definitions: Mutex<Vec<Definition>>,
}

impl TestHost {
    /// Changes the settings.
    pub fn set(&self, change: impl FnOnce(&mut Settings)) {
        change(Arc::make_mut(&mut *lock(&self.settings)));
    }
}

/// The commands that work on keys, and SELECT.
struct DataCommands;

impl Commands for DataCommands {
    fn resolve(&self, args: &Args<'_>) -> Option<Resolved> {
        let families = martlet_command::FAMILIES.iter().flat_map(|family| family.iter());
        let mut commands = families.copied().chain([&SELECT]);
        let command =
            commands.find(|command| args.at(0).eq_ignore_ascii_case(command.spec.name.as_bytes()))?;
        let spec = &command.spec;
        let (single_key, lacks_subcommand) = (spec.single_key(), false);
        Some(Resolved { spec, handler: command.handler, single_key, lacks_subcommand })
    }
}

/// Libraries that are what their code says, whatever that is.
#[derive(Default)]
pub(crate) struct TestLibraries(Mutex<Vec<Arc<[u8]>>>);

impl Libraries for TestLibraries {
    fn clear(&self) {
        lock(&self.0).clear();
    }

    fn codes(&self) -> Vec<Arc<[u8]>> {
        lock(&self.0).clone()
    }

    fn add(&self, code: &[u8], _: bool) -> Result<(), String> {
        lock(&self.0).push(code.into());
        Ok(())
    }

    fn prepare(&'static self, codes: &[Arc<[u8]>]) -> Result<Publish, String> {
        let codes = codes.to_vec();
        Ok(Box::new(move || *lock(&self.0) = codes))
    }

    fn replay(&self, _: LibraryChange, args: &Args<'_>) -> Result<(), String> {
        self.add(args.at(2), false)
    }
}

impl Host for TestHost {
    fn settings(&self) -> Arc<Settings> {
        lock(&self.settings).clone()
    }

    fn commands(&self) -> &'static dyn Commands {
        &DataCommands
    }

    fn libraries(&self) -> &dyn Libraries {
        &self.libraries
    }

    fn touch(&self, unix_ms: i64) -> Touch {
        Touch::Lru((unix_ms / 1000) as u32 & 0xff_ffff)
    }

    fn stream(&self) -> Option<StreamName> {
        Some(StreamName { id: "0123456789abcdef0123456789abcdef01234567".into(), db: 0 })
    }

    fn take_place(&self, _: StreamPlace) {}

    fn imports(&self) -> Vec<SlotImport> {
        Vec::new()
    }

    fn open_slots(&self) -> Option<String> {
        None
    }

    fn take_imports(&self, _: &[SlotImport]) {}

    fn replay_import(&self, _: &Args<'_>) -> Result<(), String> {
        Ok(())
    }

    fn definitions(&self) -> Vec<Definition> {
        lock(&self.definitions).clone()
    }

    fn take_definitions(&self, definitions: &[Definition]) {
        *lock(&self.definitions) = definitions.to_vec();
    }

    fn replay_definition(&self, args: &Args<'_>) -> Result<(), String> {
        let words: Vec<&[u8]> = args.iter().collect();
        lock(&self.definitions).push(words.join(&b' ').into());
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    fn begin_thread(&self) {}

    fn note(&self, condition: Condition, holds: bool) {
        let mut conditions = lock(&self.conditions);
        assert_eq!(conditions.contains(&condition), !holds, "{condition:?} is told twice");
        conditions.retain(|&other| other != condition);
        conditions.extend(holds.then_some(condition));
    }

    fn note_journal(&self, _: bool) {}

    fn disk_went_on(&self) {}
}

/// A server that is set so.
pub(crate) fn server(
    settings: Settings,
    threads: usize,
    disk: Arc<dyn Disk>,
) -> (Storage, &'static TestHost) {
    let engine: &'static Engine = Box::leak(Box::new(Engine::new(threads * NUMBERS_PER_THREAD).unwrap()));
    let mut persistence = Persistence::new(Clock::real(), threads);
    persistence.disk = GatedDisk::new(disk);
    let host: &'static TestHost = Box::leak(Box::new(TestHost {
        settings: Mutex::new(Arc::new(settings)),
        conditions: Mutex::default(),
        is_stopping: AtomicBool::new(false),
        libraries: TestLibraries::default(),
        definitions: Mutex::default(),
    }));
    (Storage { engine, persistence: Box::leak(Box::new(persistence)), host }, host)
}

/// The first thread's keys.
pub(crate) fn keys(storage: Storage) -> Keys {
    Keys::new(storage.engine, 0, Random::seeded(1))
}

/// Redis' defaults, with files in this directory.
pub(crate) fn settings(dir: &Path) -> Settings {
    Settings {
        server_version: "7.0.15",
        handlers: HandlerSettings::default(),
        dir: dir.into(),
        dbfilename: "dump.rdb".into(),
        save: [(3600, 1), (300, 100), (60, 10_000)]
            .map(|(seconds, changes)| SavePoint { seconds, changes })
            .into(),
        stop_writes_on_bgsave_error: true,
        rdbcompression: true,
        codec: None,
        rdbchecksum: true,
        rdb_version: None,
        reads_any_version: false,
        kept_access: KeptAccess::Nothing,
        rdb_save_incremental_fsync: true,
        panics_on_failed_command: false,
        replica_lazy_flush: false,
        rdb_key_save_delay_us: 0,
        key_load_delay_us: 0,
        appendonly: false,
        appendfsync: SyncPolicy::EverySecond,
        no_appendfsync_on_rewrite: false,
        appenddirname: "appendonlydir".into(),
        appendfilename: "appendonly.aof".into(),
        aof_timestamp_enabled: false,
        aof_use_rdb_preamble: true,
        aof_load_truncated: true,
        aof_corrupt_tail_max_bytes: 0,
        aof_disable_auto_gc: false,
        aof_rewrite_incremental_fsync: true,
        auto_aof_rewrite_percentage: 100,
        auto_aof_rewrite_min_size_bytes: 64 << 20,
    }
}
