//! Running the commands of a file again.
//!
//! Invariant: nothing expires in this time, whatever the clock says: a key is deleted when the file says so.
//! An incomplete transaction changes nothing.

use std::io::Read;

use martlet_base::prefetch::PrefetchQueue;
use martlet_command::transaction::{Assembler, OutOfPlace, Step};
use martlet_command::{Control, Error, Fieldsets, Flags, LibraryChange, Request, Settings};
use martlet_engine::{Keys, View, in_view};
use martlet_journal::aof::CommandReader;
use martlet_keyspace::key_hash;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;

use crate::{Commands, Host, Resolved};

/// Why a command cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such command, or it takes another number of arguments; the text says which.
    Unknown(String),
    /// It runs a script, whose writes no other record has.
    Script(&'static str),
    /// Its library of functions cannot be loaded: the data set would be incomplete without it.
    Library(String),
    /// It has failed.
    Failed(String),
}

/// Closes the gate around the given work, with all shards locked; the replaying thread holds none.
pub type Alone<'a> = dyn FnMut(&mut Keys, &mut dyn FnMut(&mut Keys)) + 'a;

/// Commands that [`Replay::prefetch`] prefetches together.
pub const AHEAD: usize = 32;

/// Runs a command about data beside the keys; `None` for another.
///
/// # Errors
/// As its reply.
pub type Elsewhere<'a> = &'a dyn Fn(Control, &Args<'_>) -> Option<Result<(), String>>;

/// That of a server.
pub fn of_host(host: &'static dyn Host) -> impl Fn(Control, &Args<'_>) -> Option<Result<(), String>> {
    move |control, args| match control {
        Control::ChangeLibraries(change) => Some(host.libraries().replay(change, args)),
        Control::TrackSlots => Some(host.replay_import(args)),
        Control::ChangeIndexes => Some(host.replay_definition(args)),
        _ => None,
    }
}

/// See the module's page.
pub struct Replay<'a> {
    commands: &'static dyn Commands,
    elsewhere: Elsewhere<'a>,
    settings: &'a Settings,
    db: usize,
    now_ms: i64,
    transactions: Assembler<Resolved>,
    reply: Vec<u8>,
    /// Of the keys of the commands that follow.
    hashes: Vec<u64>,
    prefetches: PrefetchQueue,
}

impl<'a> Replay<'a> {
    /// Begins with the first database, at this time.
    pub fn new(
        commands: &'static dyn Commands,
        elsewhere: Elsewhere<'a>,
        settings: &'a Settings,
        now_ms: i64,
    ) -> Replay<'a> {
        Replay {
            commands,
            elsewhere,
            settings,
            db: 0,
            now_ms,
            transactions: Assembler::default(),
            reply: Vec::new(),
            hashes: Vec::new(),
            prefetches: PrefetchQueue::default(),
        }
    }

    /// Lets the cache misses of the keys of the commands that follow overlap.
    pub fn prefetch<R: Read>(&mut self, keys: &Keys, reader: &CommandReader<R>) {
        let (engine, db) = (keys.engine(), self.db);
        self.hashes.clear();
        reader.ahead(AHEAD, |args| {
            let key = self.commands.resolve(args).and_then(|entry| args.get(entry.single_key?));
            self.hashes.extend(key.map(key_hash));
        });
        engine.prefetch_places(db, &self.hashes, &mut self.prefetches);
        let prefetches = &mut self.prefetches;
        let hashes = self.hashes.iter().copied();
        engine.peek_each(hashes, |hash| hash, |shard, hash| shard.db(db).queue_entry(hash, prefetches));
        self.prefetches.issue();
    }

    /// Whether a transaction has begun that has not ended.
    pub fn is_inside_transaction(&self) -> bool {
        self.transactions.is_inside()
    }

    /// Runs a command.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn run(&mut self, keys: &mut Keys, args: &Args<'_>, alone: &mut Alone<'_>) -> Result<(), Refusal> {
        let entry = self.commands.resolve(args);
        let word = |index| args.at(index).escape_ascii();
        let entry = entry.ok_or_else(|| Refusal::Unknown(format!("Unknown command '{}'", word(0))))?;
        if entry.lacks_subcommand {
            return Err(Refusal::Unknown(format!("unknown subcommand '{}' of '{}'", word(1), word(0))));
        }
        if !entry.spec.takes(args.len()) {
            let name = entry.spec.full_name;
            return Err(Refusal::Unknown(format!("wrong number of arguments for '{name}' command")));
        }
        match self.transactions.take(entry, args) {
            // The commands queued so far would be lost silently.
            Err(OutOfPlace::Nested) => {
                return Err(Refusal::Unknown("Unexpected MULTI inside a transaction".into()));
            }
            Err(OutOfPlace::Outside) => {
                let name = entry.spec.full_name.to_ascii_uppercase();
                return Err(Refusal::Failed(format!("ERR {name} without MULTI")));
            }
            Ok(Step::Nothing) => {}
            Ok(Step::Whole(queue)) => {
                for (entry, args) in queue.iter() {
                    self.execute(keys, entry, &args, alone)?;
                }
            }
            Ok(Step::Alone) => self.execute(keys, entry, args, alone)?,
        }
        Ok(())
    }

    fn execute(
        &mut self,
        keys: &mut Keys,
        entry: Resolved,
        args: &Args<'_>,
        alone: &mut Alone<'_>,
    ) -> Result<(), Refusal> {
        let failed = |text: String| Err(Refusal::Failed(format!("'{}': {text}", entry.spec.full_name)));
        if entry.spec.control == Control::SelectDatabase {
            let db = std::str::from_utf8(args.at(1)).ok().and_then(|text| text.parse().ok());
            match db.filter(|&db: &usize| db < self.settings.databases) {
                Some(db) => self.db = db,
                None => return failed("DB index is out of range".into()),
            }
            return Ok(());
        }
        if let Some(replayed) = (self.elsewhere)(entry.spec.control, args) {
            return replayed.or_else(|text| match brings_library(entry.spec.control) {
                true => Err(Refusal::Library(format!("'{}': {text}", entry.spec.full_name))),
                false => failed(text),
            });
        }
        // As Redis up to version 6 on request; by default it writes a script's effects.
        if matches!(entry.spec.control, Control::RunScript(_)) && !entry.spec.flags.has(Flags::READONLY) {
            return Err(Refusal::Script(entry.spec.full_name));
        }
        let changes_data = entry.spec.flags.has(Flags::WRITE) || entry.spec.flags.has(Flags::MAY_REPLICATE);
        let (Some(handler), true) = (entry.handler, changes_data) else {
            // None of the rest changes the data; a reply can be as long as the author of the file likes.
            return Ok(());
        };
        let mut outcome: Result<(), Box<Error>> = Ok(());
        let mut run = |keys: &mut Keys| {
            // Nothing is due, and only times relative to now need the clock.
            let is_relative = entry.spec.relative_time.is_some_and(|is_relative| is_relative(args));
            let now_ms = if is_relative { self.now_ms } else { 0 };
            let view = View { db: self.db, now_ms, ..keys.view().seeing_expired() };
            let mut reply = Reply::new(std::mem::take(&mut self.reply), false);
            let request = Request {
                args: *args,
                settings: self.settings,
                first_key: None,
                reads_any_key: true,
                may_read_key: None,
                deny_blocking: true,
                fieldsets: &mut Fieldsets::default(),
            };
            let run = |keys: &mut Keys| martlet_command::run(handler, keys, view, &mut reply, request);
            outcome = in_view(keys, view, run).map(|_| ());
            self.reply = reply.into_bytes();
            self.reply.clear();
        };
        if keys.has_all_shards() {
            run(keys);
        } else {
            match martlet_command::shards(entry.spec, args) {
                None => alone(keys, &mut run),
                Some(shards) => {
                    keys.lock_shards(shards);
                    run(keys);
                    keys.release();
                }
            }
        }
        keys.ready.take();
        match outcome {
            Ok(()) => Ok(()),
            Err(error) => failed(error.to_string()),
        }
    }
}

/// Whether a command loads libraries of functions: the data set is incomplete without them.
fn brings_library(control: Control) -> bool {
    matches!(control, Control::ChangeLibraries(LibraryChange::Load | LibraryChange::Restore))
}
