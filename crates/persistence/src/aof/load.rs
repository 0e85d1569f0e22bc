//! Reading the append-only file: at the start, and for DEBUG LOADAOF.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::Ordering;

use martlet_base::sync::lock;
use martlet_engine::{Gate, Keys, Outside};
use martlet_journal::aof::{CommandError, CommandReader, FileInfo, FileKind, Item, Manifest};
use martlet_values::file::has_signature;

use super::files;
use super::replay::{AHEAD, Alone, Refusal, Replay, of_host};
use crate::Storage;
use crate::load as rdb;
use crate::settings::Settings;
use martlet_base::disk::{error_text, remnant};

/// Commands after which a thread that loads lets others close the gate.
const SLICE_COMMANDS: u64 = 1024;
/// This many failing commands of a file are logged one by one.
const FAILURES_LOGGED: u64 = 10;

/// Loading has ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum LoadedLog {
    /// All of it is there; perhaps without an incomplete end, which has been cut off.
    Whole,
    /// There are no files.
    Missing,
    /// The server was stopped in that time.
    Interrupted,
}

/// The work that loading does in between: lets others close the gate, and returns whether to continue.
pub type Pause<'a> = dyn FnMut() -> bool + 'a;

/// Loads the files that the manifest lists. `keys` holds all shards, or none. A single file under the old
/// name in `dir` is moved into the directory before.
///
/// # Errors
/// Why the data is not available, as a line for the log; a part may have been loaded.
pub fn load(
    storage: Storage,
    outside: &Outside,
    keys: &mut Keys,
    settings: &Settings,
    alone: &mut Alone<'_>,
    pause: &mut Pause<'_>,
) -> Result<LoadedLog, String> {
    // A rewrite that ends in that time, as it may under DEBUG LOADAOF, would replace the list and remove
    // files of it.
    let mut listed = lock(&storage.persistence.log.listed);
    let mut manifest = files::read_manifest(settings)?;
    upgrade(storage, outside, settings, &mut manifest)?;
    listed.manifest = manifest.clone();
    if manifest.is_empty() {
        return Ok(LoadedLog::Missing);
    }
    let (mut total, mut last) = (0, None);
    for file in manifest.files() {
        let facts = std::fs::metadata(files::path(settings, file)).map_err(|error| {
            format!("Unable to obtain the AOF file {} length. stat: {}", file.name, error_text(&error))
        })?;
        total += facts.len();
        // A rewrite lists its file of commands before the one before it is closed: only this one's end can be
        // missing.
        if last.is_none() || facts.len() > 0 {
            last = Some(file);
        }
    }
    storage.persistence.load.total_bytes.store(total, Ordering::Relaxed);
    storage.persistence.load.read_bytes.store(0, Ordering::Relaxed);
    let mut loading = Loading { storage, outside, settings, keys, alone, pause, before: 0 };
    for file in manifest.files() {
        let began_us = storage.now_us();
        let is_last = last == Some(file);
        if !loading.file(file, is_last)? {
            return Ok(LoadedLog::Interrupted);
        }
        let kind = if file.kind == FileKind::Base { "base" } else { "incr" };
        let seconds = (storage.now_us() - began_us) as f64 / 1e6;
        tracing::info!("DB loaded from {kind} file {}: {seconds:.3} seconds", file.name);
        loading.before = storage.persistence.load.read_bytes.load(Ordering::Relaxed);
    }
    Ok(LoadedLog::Whole)
}

/// Takes the single file of versions before 7 into the directory, as the base.
fn upgrade(
    storage: Storage,
    outside: &Outside,
    settings: &Settings,
    manifest: &mut Manifest,
) -> Result<(), String> {
    let old = settings.dir.join(&settings.appendfilename);
    let name = settings.aof_name();
    let is_listed =
        manifest.increments.is_empty() && manifest.base.as_ref().is_some_and(|base| base.name == name);
    let base = FileInfo { name: name.clone(), number: 1, kind: FileKind::Base };
    let new = files::path(settings, &base);
    if !old.is_file() || !(manifest.is_empty() || is_listed && !new.exists()) {
        return Ok(());
    }
    let disk = storage.persistence.disk.get(outside);
    let directory = settings.aof_directory();
    disk.create_directory(&directory).map_err(|error| {
        format!(
            "Can't open or create append-only dir {}: {}",
            settings.appenddirname.display(),
            error_text(&error)
        )
    })?;
    manifest.base = Some(base);
    files::write_manifest(disk, settings, manifest)
        .map_err(|error| format!("Can't write the AOF manifest: {}", error_text(&error)))?;
    let moved = disk.rename(&old, &new).and_then(|()| disk.sync_directory(&directory));
    moved.map_err(|error| {
        let directory = settings.appenddirname.display();
        format!("Error trying to move the old AOF file {name} into dir {directory}: {}", error_text(&error))
    })?;
    tracing::info!(
        "Successfully migrated an old-style AOF file ({name}) into the AOF directory ({}).",
        settings.appenddirname.display()
    );
    Ok(())
}

/// Where in which file.
fn place(info: &FileInfo, offset: u64) -> String {
    format!("the append only file {} at offset {offset}", info.name)
}

/// The message about a command that runs a script.
fn script_in(name: &str, place: &str) -> String {
    format!(
        "Command '{name}' in {place} runs a script, which is not done while loading. Let the server that wrote \
         the file rewrite it first (BGREWRITEAOF): then it holds no scripts."
    )
}

/// Why a file's commands cannot be read, as Redis says it.
fn unreadable(error: &CommandError, info: &FileInfo) -> String {
    match error {
        CommandError::Io(error) => {
            let error = error_text(error);
            format!("Unrecoverable error reading the append only file {}: {error}", info.name)
        }
        _ => format!(
            "Bad file format reading the append only file {}: make a backup of your AOF file, then use ./redis-check-aof --fix <filename.manifest>. ({error})",
            info.name
        ),
    }
}

/// The thread's way through the gate.
#[derive(Clone, Copy)]
struct Pass(&'static Gate, usize);

impl Pass {
    fn enter(&self) {
        self.0.enter(self.1);
    }

    fn leave(&self) {
        self.0.leave(self.1);
    }
}

/// A file that is read outside the gate, by a thread that has nothing locked.
struct ReadOutside {
    file: File,
    /// `None` if the thread has closed the gate.
    pass: Option<Pass>,
}

impl Read for ReadOutside {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.pass.iter().for_each(Pass::leave);
        let read = self.file.read(buffer);
        self.pass.iter().for_each(Pass::enter);
        read
    }
}

/// What a file's commands have ended with.
struct Replayed {
    /// The end of the last command that is no part of an incomplete transaction.
    whole: u64,
    /// What follows.
    tail: Tail,
}

/// What follows the last whole command of a file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Tail {
    /// Nothing.
    Empty,
    /// The beginning of a command, or a transaction without its end.
    Torn,
    /// Bytes that are no command, fewer than `aof-load-corrupt-tail-max-size`.
    Corrupt,
}

/// Loading under way.
struct Loading<'a, 'b> {
    storage: Storage,
    outside: &'a Outside,
    settings: &'a Settings,
    keys: &'a mut Keys,
    alone: &'a mut Alone<'b>,
    pause: &'a mut Pause<'b>,
    /// Bytes of the files before this one.
    before: u64,
}

impl Loading<'_, '_> {
    /// Loads one file; false when the server was stopped.
    fn file(&mut self, info: &FileInfo, is_last: bool) -> Result<bool, String> {
        let path = files::path(self.settings, info);
        let open = |error: io::Error| {
            format!(
                "Fatal error: can't open the append log file {} for reading: {}",
                info.name,
                error_text(&error)
            )
        };
        let mut file = File::open(&path).map_err(open)?;
        let len = file.metadata().map_err(open)?.len();
        let mut begin = [0; 5];
        let mut offset = 0;
        if len >= 5 && file.read_exact(&mut begin).is_ok() && has_signature(&begin) {
            match self.rdb(&path, info)? {
                Some(end) => offset = end,
                None => return Ok(false),
            }
        }
        self.note_read(offset);
        file.seek(SeekFrom::Start(offset)).map_err(open)?;
        self.commands(file, offset, &path, info, is_last)
    }

    fn note_read(&self, bytes: u64) {
        self.storage.persistence.load.read_bytes.store(self.before + bytes, Ordering::Relaxed);
    }

    /// Loads the file's RDB part; returns where that ends.
    fn rdb(&mut self, path: &Path, info: &FileInfo) -> Result<Option<u64>, String> {
        let is_old = self.settings.appendfilename == Path::new(&info.name);
        tracing::info!(
            "{}",
            match is_old {
                true => "Reading RDB preamble from AOF file...",
                false => "Reading RDB base file on AOF loading...",
            }
        );
        match rdb::load_base(self.storage, self.outside, self.keys, self.settings, path) {
            Ok(end) => Ok(end),
            Err(error) => {
                tracing::warn!("{}: {error}", path.display());
                Err(format!(
                    "Error reading the RDB {} file {}, AOF loading aborted",
                    if is_old { "preamble of the AOF" } else { "base" },
                    info.name
                ))
            }
        }
    }

    /// Loads the file's commands, inside the gate but while it is read; false when the server was stopped.
    fn commands(
        &mut self,
        file: File,
        offset: u64,
        path: &Path,
        info: &FileInfo,
        is_last: bool,
    ) -> Result<bool, String> {
        let Storage { engine, .. } = self.storage;
        let pass = (!self.keys.has_all_shards()).then(|| Pass(&engine.gate, self.storage.loader(0)));
        // An unknown length is that of no short end.
        let len = file.metadata().map_or(u64::MAX, |metadata| metadata.len());
        let file = ReadOutside { file, pass };
        pass.iter().for_each(Pass::enter);
        let replayed = self.replay(file, offset, len, info);
        pass.iter().for_each(Pass::leave);
        let Some(Replayed { whole, tail }) = replayed? else { return Ok(false) };
        if tail != Tail::Empty {
            self.cut_off(path, info, whole, tail, is_last)?;
        }
        Ok(true)
    }

    /// Runs the commands of a file of `len` bytes; `None` when the server was stopped.
    fn replay(
        &mut self,
        file: impl Read,
        offset: u64,
        len: u64,
        info: &FileInfo,
    ) -> Result<Option<Replayed>, String> {
        let host = self.storage.host;
        let elsewhere = of_host(host);
        let mut replay =
            Replay::new(host.commands(), &elsewhere, &self.settings.handlers, self.storage.now_ms());
        let mut reader = CommandReader::new(file, offset);
        let (mut commands, mut failures) = (0_u64, 0_u64);
        // The end of the last command that is no part of an incomplete transaction.
        let mut whole = offset;
        let tail = loop {
            let began = reader.offset();
            match reader.read() {
                Ok(Some(Item::Command(args))) => match replay.run(self.keys, &args, self.alone) {
                    Ok(()) => {}
                    Err(Refusal::Unknown(what)) => {
                        return Err(format!("{what} reading {}", place(info, began)));
                    }
                    Err(Refusal::Script(name)) => return Err(script_in(name, &place(info, began))),
                    Err(Refusal::Library(why)) => {
                        return Err(format!(
                            "Failed creating the library, {why}, reading {}",
                            place(info, began)
                        ));
                    }
                    Err(Refusal::Failed(why)) => {
                        failures += 1;
                        self.note_failure(failures, reader.offset(), info, &why);
                    }
                },
                Ok(Some(_)) => {}
                Ok(None) if replay.is_inside_transaction() => break Tail::Torn,
                Ok(None) => break Tail::Empty,
                Err(CommandError::Torn(_)) => break Tail::Torn,
                Err(CommandError::Format { offset, .. })
                    if len.saturating_sub(offset) < self.settings.aof_corrupt_tail_max_bytes =>
                {
                    break Tail::Corrupt;
                }
                Err(error) => return Err(unreadable(&error, info)),
            }
            if !replay.is_inside_transaction() {
                whole = reader.offset();
            }
            if commands.is_multiple_of(AHEAD as u64) {
                replay.prefetch(self.keys, &reader);
            }
            commands += 1;
            if commands.is_multiple_of(SLICE_COMMANDS) {
                self.note_read(whole);
                if !(self.pause)() {
                    return Ok(None);
                }
            }
        };
        self.note_read(reader.offset());
        if failures > 0 {
            tracing::warn!("{failures} commands of {} failed", info.name);
        }
        if replay.is_inside_transaction() {
            tracing::warn!("Revert incomplete MULTI/EXEC transaction in AOF file {}", info.name);
        }
        Ok(Some(Replayed { whole, tail }))
    }

    /// Takes note of a command that has failed, or ends the process for it.
    fn note_failure(&self, failures: u64, at: u64, info: &FileInfo, why: &str) {
        self.storage.persistence.load.failed_commands.fetch_add(1, Ordering::Relaxed);
        if failures <= FAILURES_LOGGED {
            tracing::warn!("A command before offset {at} of {} failed: {why}", info.name);
        }
        // On purpose: `propagation-error-behavior panic` asks for it.
        assert!(
            !self.settings.panics_on_failed_command,
            "This AOF-loading-client panicked sending an error to its server after processing the command {why}"
        );
    }

    /// Removes an incomplete or unreadable end, if that is allowed.
    fn cut_off(
        &self,
        path: &Path,
        info: &FileInfo,
        whole: u64,
        tail: Tail,
        is_last: bool,
    ) -> Result<(), String> {
        let name = &info.name;
        // The bound of an unreadable end is its own permission.
        if tail == Tail::Torn && !self.settings.aof_load_truncated {
            return Err(format!(
                "Unexpected end of file reading the append only file {name}. You can: 1) Make a backup of your AOF file, then use ./redis-check-aof --fix <filename.manifest>. 2) Alternatively you can set the 'aof-load-truncated' configuration option to yes and restart the server."
            ));
        }
        if !is_last {
            return Err(format!("Fatal error: the truncated file is not the last file ({name})"));
        }
        let permission = match tail {
            Tail::Corrupt => {
                tracing::warn!("!!! Warning: corrupt AOF file tail!!!");
                "aof-load-corrupt-tail-max-size"
            }
            Tail::Empty | Tail::Torn => {
                tracing::warn!("!!! Warning: short read while loading the AOF file {name}!!!");
                "aof-load-truncated"
            }
        };
        tracing::warn!("!!! Truncating the AOF {name} at offset {whole} !!!");
        let cut = remnant::cut_off(&**self.storage.persistence.disk.get(self.outside), path, whole)
            .map_err(|error| format!("Error truncating the AOF file {name}: {}", error_text(&error)))?;
        if let Some(kept) = cut.kept {
            tracing::warn!("The bytes cut off the AOF {name} are kept as {}", kept.display());
        }
        if let Some(error) = cut.refusal {
            tracing::warn!("The bytes cut off the AOF {name} cannot be kept: {}", error_text(&error));
        }
        for old in cut.removed {
            tracing::warn!("Removed {}, the oldest of the ends that were cut off {name}", old.display());
        }
        tracing::warn!("AOF {name} loaded anyway because {permission} is enabled");
        Ok(())
    }
}
