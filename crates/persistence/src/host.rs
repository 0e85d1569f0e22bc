//! The files' needs of the server around them.
//!
//! Invariant: nothing here waits for the disk or for a lock that is held during disk calls.

use std::sync::Arc;

use martlet_command::transaction::Resolves;
use martlet_command::{Handler, LibraryChange, Spec};
use martlet_engine::Touch;
use martlet_protocol::request::Args;
use martlet_values::file::SlotImport;

use crate::settings::Settings;

/// What makes the server answer some requests otherwise, as long as it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Data is being loaded.
    Loading,
    /// A save in the background has failed, and so writes are refused.
    SaveFailed,
    /// The append-only file cannot be written, and so writes are refused.
    LogRefused,
}

/// A command of a file.
#[derive(Clone, Copy)]
pub struct Resolved {
    /// Its specification.
    pub spec: &'static Spec,
    /// What runs it, if it is about data.
    pub handler: Option<Handler>,
    /// The argument with its only key, if it has one.
    pub single_key: Option<usize>,
    /// It only holds subcommands, and the called one is unknown.
    pub lacks_subcommand: bool,
}

impl Resolves for Resolved {
    fn spec(&self) -> &'static Spec {
        self.spec
    }
}

/// The commands that a file may have.
pub trait Commands: Send + Sync {
    /// The command or subcommand that the arguments call.
    fn resolve(&self, args: &Args<'_>) -> Option<Resolved>;
}

/// A stream of commands for replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamName {
    /// The replication id, 40 characters.
    pub id: String,
    /// The database that is selected where it has come to.
    pub db: u64,
}

/// A command that makes an index of keys, as a request has it.
pub type Definition = Arc<[u8]>;

/// Lets something be seen that was made ready.
pub type Publish = Box<dyn FnOnce() + Send>;

/// The libraries of functions that belong to the data.
pub trait Libraries: Send + Sync {
    /// Their code.
    fn codes(&self) -> Vec<Arc<[u8]>>;

    /// Removes all.
    fn clear(&self);

    /// Adds one that a file has, or replaces the one of its name if that is allowed. One thread at a time.
    ///
    /// # Errors
    /// Why it cannot be added, as Redis says it.
    fn add(&self, code: &[u8], replaces: bool) -> Result<(), String>;

    /// Checks libraries that are to replace all others; they do once the returned value is called.
    ///
    /// # Errors
    /// Why one cannot be added, in Redis' words.
    fn prepare(&'static self, codes: &[Arc<[u8]>]) -> Result<Publish, String>;

    /// Runs a command of a file that changes them.
    ///
    /// # Errors
    /// As its reply.
    fn replay(&self, change: LibraryChange, args: &Args<'_>) -> Result<(), String>;
}

/// The server, as the files see it.
pub trait Host: Send + Sync {
    /// The present settings.
    fn settings(&self) -> Arc<Settings>;

    /// Its commands.
    fn commands(&self) -> &'static dyn Commands;

    /// Its libraries of functions.
    fn libraries(&self) -> &dyn Libraries;

    /// How accesses to keys are noted at this time, Unix milliseconds.
    fn touch(&self, unix_ms: i64) -> Touch;

    /// The stream of commands for replicas that the data set is a place of, if it is of any; asked for at a
    /// cut.
    fn stream(&self) -> Option<StreamName>;

    /// The data set is that at this place of a stream: no client sees it yet, the gate is closed.
    fn take_place(&self, place: StreamPlace);

    /// Slots whose keys are on their way from another node; asked for at a cut.
    fn imports(&self) -> Vec<SlotImport>;

    /// Slots that move key by key, in Valkey's form for replicas; asked for at a cut.
    fn open_slots(&self) -> Option<String>;

    /// The data set that was loaded from the server's files has keys of incoming slots. No client sees it
    /// yet.
    fn take_imports(&self, imports: &[SlotImport]);

    /// Runs a command of a file about slots that are on their way.
    ///
    /// # Errors
    /// As its reply.
    fn replay_import(&self, args: &Args<'_>) -> Result<(), String>;

    /// The commands that make the indexes of keys, those that others need first; asked for at a cut.
    fn definitions(&self) -> Vec<Definition>;

    /// The data set that was loaded has these indexes, and no others. No client sees it yet.
    fn take_definitions(&self, definitions: &[Definition]);

    /// Runs a command of a file that changes indexes.
    ///
    /// # Errors
    /// As its reply.
    fn replay_definition(&self, args: &Args<'_>) -> Result<(), String>;

    /// Whether the server is stopping.
    fn is_stopping(&self) -> bool;

    /// Called first by each thread that is started here.
    fn begin_thread(&self);

    /// A condition begins or ends; called once for each change.
    fn note(&self, condition: Condition, holds: bool);

    /// The journal has filled up, or has room again; maybe called by a thread that has locked shards.
    fn note_journal(&self, is_full: bool);

    /// The disk has advanced, or no client has to wait for it any more.
    fn disk_went_on(&self);
}

/// Where in a stream of commands a snapshot is, by its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamPlace {
    /// The replication id.
    pub id: String,
    /// Bytes of the stream before it.
    pub offset: u64,
    /// The database that is selected there.
    pub db: u64,
}
