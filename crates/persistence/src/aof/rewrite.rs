//! Writing a new base while clients are served, and switching to it.
//!
//! ```text
//!   before     base 1, increment 1
//!   cut        base 1, increment 1, increment 2      records from here on go to increment 2
//!   end        base 2,              increment 2      base 1 and increment 1 are history, and removed
//! ```
//!
//! A rewrite that does not come to its end leaves increment 2 in the list; if it is still empty, the next one
//! takes it. The manifest on disk lists a new increment before anything is written to it, and a new base
//! after all of it is on disk.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};

use martlet_base::disk::{Disk, DiskFile, error_text};
use martlet_base::random::Random;
use martlet_base::sync::lock;
use martlet_engine::{Keys, Outside, SavedKeys, Walk};
use martlet_journal::Position;
use martlet_journal::aof::{FileInfo, Manifest};

use super::commands::CommandBase;
use super::{Facts, LastIncrement, Listed, Order, Phase, Rewrite, files, follow_journal};
use crate::file::NewFile;
use crate::save::{self, Cut, Header, write_cut};
use crate::settings::Settings;
use crate::temp_files::{self, Kind};
use crate::{Storage, delay};

/// Why a rewrite has not come to its end.
enum Ended {
    /// It was cancelled, or the file was switched off.
    Cancelled,
    /// Another snapshot is being written: it begins when that has ended.
    Waits,
    /// Something was recorded for the increment that was to be taken up.
    Outrun,
    /// The disk refuses.
    Failed(String),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        Ended::Failed(error_text(&error))
    }
}

/// Begins a rewrite on the thread for that.
///
/// # Errors
/// When one is under way, or the operating system refuses the thread.
pub fn begin(storage: Storage) -> Result<(), String> {
    let log = &storage.persistence.log;
    let order = {
        let mut facts = lock(&log.facts);
        if facts.rewrite.is_some() {
            return Err("Background append only file rewriting already in progress".into());
        }
        note_beginning(storage, &mut facts)
    };
    let mut rewriter = lock(&log.rewriter);
    let sender = match rewriter.as_ref() {
        Some(sender) => Ok(sender),
        None => start_thread(storage).map(|sender| &*rewriter.insert(sender)),
    };
    match sender {
        Ok(sender) => {
            // The thread lives as long as the process.
            let _ = sender.send(order);
            Ok(())
        }
        Err(error) => {
            let text = format!("Can't rewrite append only file in background: {}", error_text(&error));
            tracing::warn!("{text}");
            ended(storage, &order, &Err(Ended::Failed(text.clone())));
            Err(text)
        }
    }
}

/// Starts the thread that rewrites, unless it is there.
///
/// # Errors
/// When the operating system refuses it.
pub fn ensure_thread(storage: Storage) -> io::Result<()> {
    let mut rewriter = lock(&storage.persistence.log.rewriter);
    if rewriter.is_none() {
        *rewriter = Some(start_thread(storage)?);
    }
    Ok(())
}

/// Starts the thread that rewrites.
fn start_thread(storage: Storage) -> io::Result<Sender<Begun>> {
    let (sender, begun) = channel::<Begun>();
    let body = move || {
        martlet_base::thread::use_batch_scheduling();
        storage.host.begin_thread();
        let outside = Outside::of_background_thread();
        for begun in begun {
            let mut next = Some(begun);
            while let Some(begun) = next.take() {
                next = run(storage, &outside, &begun);
            }
        }
    };
    std::thread::Builder::new().name("rewrite".into()).spawn(body)?;
    Ok(sender)
}

/// A rewrite that INFO shows.
pub(super) struct Begun {
    is_cancelled: Arc<AtomicBool>,
    /// The settings at that time: a later change concerns the next.
    settings: Arc<Settings>,
}

/// Notes that a rewrite begins.
fn note_beginning(storage: Storage, facts: &mut Facts) -> Begun {
    let is_cancelled: Arc<AtomicBool> = Arc::default();
    let began_ms = storage.now_ms();
    facts.rewrite = Some(Rewrite { began_ms, is_cancelled: is_cancelled.clone(), is_followed: false });
    facts.is_scheduled = false;
    facts.rewrites += 1;
    Begun { is_cancelled, settings: storage.host.settings() }
}

/// Rewrites; the one that is to follow at once, if one is.
fn run(storage: Storage, outside: &Outside, begun: &Begun) -> Option<Begun> {
    tracing::info!("Background append only file rewriting started by pid {}", std::process::id());
    let result = rewrite(storage, outside, begun);
    match &result {
        Ok(_) => tracing::info!("Background AOF rewrite finished successfully"),
        Err(Ended::Cancelled) => tracing::info!("Background AOF rewrite cancelled"),
        Err(Ended::Waits | Ended::Outrun) => {
            tracing::info!("Background append only file rewriting waits for the save");
        }
        Err(Ended::Failed(why)) => tracing::warn!("Background AOF rewrite terminated with error: {why}"),
    }
    ended(storage, begun, &result)
}

fn ended(storage: Storage, begun: &Begun, result: &Result<Phase, Ended>) -> Option<Begun> {
    let log = &storage.persistence.log;
    let mut facts = lock(&log.facts);
    let now_ms = storage.now_ms();
    let ended = facts.rewrite.take();
    facts.last_s = ended.as_ref().map(|rewrite| (now_ms - rewrite.began_ms) / 1000).or(facts.last_s);
    match result {
        Ok(phase) => {
            (facts.is_sound, facts.failures) = (true, 0);
            // Only if it was this rewrite that records were switched on for: the file may have been switched
            // off, or off and on, since. With the end of the rewrite: a client that waits for the disk finds
            // neither without the other.
            let is_ours = *phase == Phase::Starting && !begun.is_cancelled.load(Ordering::SeqCst);
            if is_ours && facts.phase == Phase::Starting {
                facts.phase = Phase::On;
            }
        }
        Err(Ended::Waits | Ended::Outrun) => {
            facts.is_scheduled = true;
            facts.rewrites -= 1;
        }
        Err(Ended::Cancelled) => {}
        Err(Ended::Failed(_)) => {
            (facts.is_sound, facts.ended_ms) = (false, now_ms);
            facts.failures += 1;
            let minutes = super::held_back_minutes(facts.failures);
            if minutes > 0 {
                tracing::warn!(
                    "Background AOF rewrite has repeatedly failed and triggered the limit, will retry in {minutes} minutes"
                );
            }
        }
    }
    let is_followed = ended.is_some_and(|rewrite| rewrite.is_followed);
    let next = is_followed.then(|| note_beginning(storage, &mut facts));
    note_base(storage, facts.phase, result);
    drop(facts);
    log.rewrite_ended.notify_all();
    if result.is_ok() {
        // The awaited records may be durable for long, and count from now on.
        storage.host.disk_went_on();
    }
    next
}

/// Has writes refused from when the first base could not be written until one is: `appendfsync always` would
/// acknowledge what no file has. The phase is that of now, under the lock of the facts.
fn note_base(storage: Storage, phase: Phase, result: &Result<Phase, Ended>) {
    let log = &storage.persistence.log;
    match result {
        Err(Ended::Failed(why)) if phase == Phase::Starting => {
            log.lacks_base.store(true, Ordering::SeqCst);
            storage.note_log_state(Some(why.clone()));
        }
        Ok(_) if log.lacks_base.swap(false, Ordering::SeqCst) => storage.note_log_state(None),
        _ => {}
    }
}

/// The increment that begins at the cut; there is none while the file is switched off, and only a base is
/// wanted.
struct Increment {
    info: FileInfo,
    /// Its name until its first base is there: it is not listed before, so that an earlier file stays the one
    /// to load.
    temporary: Option<String>,
}

impl Increment {
    /// Removes it after its rewrite has failed, unless it is listed already.
    fn give_up(&self, storage: Storage, outside: &Outside, settings: &Settings) {
        if let Some(name) = &self.temporary {
            tracing::info!("Removing the temp incr aof file {name} in the background");
            // It may be gone already.
            let _ = storage.persistence.disk.get(outside).remove(&settings.aof_directory().join(name));
        }
    }
}

/// How records come to go to an increment.
enum Records {
    /// From the cut on they go to this file.
    Switch(Box<dyn DiskFile>),
    /// They do already, and there were none up to this position.
    Since(Position),
}

fn rewrite(storage: Storage, outside: &Outside, begun: &Begun) -> Result<Phase, Ended> {
    let settings = &begun.settings;
    let disk = storage.persistence.disk.get(outside);
    let directory = settings.aof_directory();
    disk.create_directory(&directory).map_err(|error| {
        let name = settings.appenddirname.display();
        Ended::Failed(format!("Can't open or create append-only dir {name}: {}", error_text(&error)))
    })?;
    if storage.persistence.background.running().is_some() {
        // Looked at again at the cut; then there would be a file for nothing.
        return Err(Ended::Waits);
    }
    let phase = storage.persistence.log.facts().phase;
    let begun = match begin_increment(storage, outside, begun, phase, true) {
        Err(Ended::Outrun) => begin_increment(storage, outside, begun, phase, false),
        begun => begun,
    };
    let (increment, position, cut) = begun?;
    let base = new_base(&lock(&storage.persistence.log.listed), settings).1;
    let written = write_base(storage, outside, settings, &base, &cut).map_err(|error| {
        if error.kind() == io::ErrorKind::Interrupted { Ended::Cancelled } else { error.into() }
    });
    let go_over = |new| go_over(storage, outside, settings, phase, new, (increment.as_ref(), position));
    let result = written.and_then(go_over);
    if let (Err(_), Some(increment)) = (&result, &increment) {
        increment.give_up(storage, outside, settings);
    }
    result
}

/// Makes the cut, from which on records go to an increment of their own; with `takes_up` that is the last
/// one, if it is empty.
fn begin_increment(
    storage: Storage,
    outside: &Outside,
    begun: &Begun,
    phase: Phase,
    takes_up: bool,
) -> Result<(Option<Increment>, Position, Cut), Ended> {
    let settings = &begun.settings;
    let (increment, records) = open_increment(storage, outside, settings, phase, takes_up)?.unzip();
    match (cut(storage, begun, phase, records), increment) {
        (Ok((position, cut)), increment) => {
            if let (Some(increment), Phase::On) = (&increment, phase) {
                let last = LastIncrement { number: increment.info.number, begins: Some(position) };
                lock(&storage.persistence.log.listed).last = Some(last);
            }
            Ok((increment, position, cut))
        }
        (Err(ended), increment) => {
            increment.iter().for_each(|increment| increment.give_up(storage, outside, settings));
            Err(ended)
        }
    }
}

/// Creates the file for the records after the cut, or finds it; once it is listed, it is complete.
fn open_increment(
    storage: Storage,
    outside: &Outside,
    settings: &Settings,
    phase: Phase,
    takes_up: bool,
) -> Result<Option<(Increment, Records)>, Ended> {
    if phase == Phase::Off {
        return Ok(None);
    }
    let disk = storage.persistence.disk.get(outside);
    let mut listed = lock(&storage.persistence.log.listed);
    // One that ended when the file was switched off lacks later effects.
    if takes_up
        && phase == Phase::On
        && let Some(left) = left_increment(storage, outside, settings, &listed)?
    {
        return Ok(Some(left));
    }
    let mut manifest = listed.manifest.clone();
    let info = manifest.new_increment(&settings.aof_name());
    if phase == Phase::Starting {
        let name = settings.temporary_increment();
        let path = settings.aof_directory().join(&name);
        // What an earlier attempt has left may still be written to.
        let file = match disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => disk.create(&path),
        };
        let file = file.map_err(|error| not_opened(&info, &error))?;
        return Ok(Some((Increment { info, temporary: Some(name) }, Records::Switch(file))));
    }
    tracing::info!("Creating AOF incr file {} on background rewrite", info.name);
    let file = disk.create(&files::path(settings, &info)).map_err(|error| not_opened(&info, &error))?;
    if let Err(error) = files::write_manifest(disk, settings, &manifest) {
        let refusal = not_opened(&info, &error);
        files::abandon(disk, settings, &mut listed.manifest, vec![info]);
        return Err(refusal);
    }
    listed.manifest = manifest;
    listed.last = Some(LastIncrement { number: info.number, begins: None });
    Ok(Some((Increment { info, temporary: None }, Records::Switch(file))))
}

fn not_opened(file: &FileInfo, error: &io::Error) -> Ended {
    Ended::Failed(format!("Can't open the append-only file {}: {}", file.name, error_text(error)))
}

/// The last increment, if it was made for a rewrite that did not come to its end, and nothing is in it: they
/// must not pile up.
fn left_increment(
    storage: Storage,
    outside: &Outside,
    settings: &Settings,
    listed: &Listed,
) -> Result<Option<(Increment, Records)>, Ended> {
    let [_, .., info] = listed.manifest.increments.as_slice() else { return Ok(None) };
    let records = match &listed.last {
        Some(LastIncrement { number, begins }) if *number == info.number => match *begins {
            None => {
                let file = storage.persistence.disk.get(outside).create(&files::path(settings, info));
                Records::Switch(file.map_err(|error| not_opened(info, &error))?)
            }
            Some(position) if position == storage.engine.journal.end() => Records::Since(position),
            Some(_) => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some((Increment { info: info.clone(), temporary: None }, records)))
}

/// The instant that the new base is of: behind the closed gate, so that no command is in two files, or in
/// none.
fn cut(
    storage: Storage,
    begun: &Begun,
    phase: Phase,
    records: Option<Records>,
) -> Result<(Position, Cut), Ended> {
    let settings = &begun.settings;
    let (log, journal) = (&storage.persistence.log, &storage.engine.journal);
    let mut keys = Keys::new(storage.engine, storage.saver(0), Random::from_entropy());
    let result = storage.engine.gate.closed(|alone| {
        if storage.persistence.background.running().is_some() {
            return Err(Ended::Waits);
        }
        let facts = lock(&log.facts);
        if facts.phase != phase {
            return Err(Ended::Cancelled);
        }
        let position = journal.end();
        if let Some(Records::Since(since)) = records
            && since != position
        {
            return Err(Ended::Outrun);
        }
        keys.lock_all_shards(alone);
        let totals = save::totals(&keys, settings.handlers.databases);
        let mut cut = Cut::make(storage, &keys, Header::of_base(storage, settings, &totals), totals, false);
        keys.release();
        cut.is_cancelled = begun.is_cancelled.clone();
        if let Some(Records::Switch(file)) = records {
            log.order(Order::Switch { from: journal.cut_file(), file, bytes: 0, earlier_bytes: None });
        }
        if phase == Phase::Starting {
            // By the present settings: `appendfsync` may have been changed since the rewrite began.
            follow_journal(journal, &storage.host.settings());
        }
        Ok((position, cut))
    });
    journal.nudge();
    result
}

/// Writes a cut to a new file, and forces it to disk.
///
/// # Errors
/// The disk's refusal; [`io::ErrorKind::Interrupted`] if it was cancelled.
pub fn write_base(
    storage: Storage,
    outside: &Outside,
    settings: &Settings,
    base: &FileInfo,
    cut: &Cut,
) -> io::Result<NewFile> {
    let new = NewFile::create(
        storage.persistence.disk.get(outside).clone(),
        &settings.aof_directory(),
        Path::new(&base.name),
        &temp_files::name(Kind::Base, std::process::id()),
        settings.aof_rewrite_incremental_fsync,
    );
    let new =
        new.inspect_err(|_| Walk::new(storage.engine, storage.saver(0)).end(&mut SavedKeys::default()))?;
    match settings.aof_use_rdb_preamble {
        true => write_cut(storage, new, cut),
        false => write_commands(storage, settings, new, cut),
    }
    .and_then(NewFile::sync)
}

fn write_commands<W: Write>(storage: Storage, settings: &Settings, mut out: W, cut: &Cut) -> io::Result<W> {
    let mut base = CommandBase::default();
    if settings.aof_timestamp_enabled {
        base.bytes.extend_from_slice(format!("#TS:{}\r\n", storage.now_ms() / 1000).as_bytes());
    }
    cut.libraries().iter().for_each(|code| base.write_library(code));
    cut.definitions().iter().for_each(|definition| base.write_definition(definition));
    cut.imports().iter().for_each(|import| base.write_import(import));
    let mut held = storage.engine.snapshot.hold(0);
    walk(storage, cut, |taken| {
        taken.drain(|saved| base.key(&saved));
        held.set(base.bytes.capacity());
        let result = out.write_all(&base.bytes);
        base.bytes.clear();
        result
    })?;
    Ok(out)
}

/// Passes on the keyspace's content at the cut, some keys at a time, until `write` fails.
///
/// # Errors
/// That of `write`; [`io::ErrorKind::Interrupted`] if it was cancelled.
pub(crate) fn walk(
    storage: Storage,
    cut: &Cut,
    mut write: impl FnMut(&mut SavedKeys) -> io::Result<()>,
) -> io::Result<()> {
    let mut walk = Walk::new(storage.engine, storage.saver(0));
    let mut taken = SavedKeys::default();
    let (mut is_whole, mut written) = (false, Ok(()));
    while cut.is_wanted() && written.is_ok() && !is_whole {
        is_whole = !walk.take(&mut taken);
        let count = taken.len();
        written = write(&mut taken);
        delay(|| storage.host.settings().rdb_key_save_delay_us, count, || cut.is_wanted());
    }
    walk.end(&mut taken);
    // Its part may be written after one that was refused, and the refusal must not be forgotten over it.
    written.and_then(|()| write(&mut taken))?;
    if cut.is_wanted() { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
}

/// The list with the next base in place of the present one, and that base.
fn new_base(listed: &Listed, settings: &Settings) -> (Manifest, FileInfo) {
    let mut manifest = listed.manifest.clone();
    let base = manifest.new_base(&settings.aof_name(), settings.aof_use_rdb_preamble);
    (manifest, base)
}

/// Makes the new base and what followed it the files that are loaded; returns the phase that they are for.
fn go_over(
    storage: Storage,
    outside: &Outside,
    settings: &Settings,
    phase: Phase,
    new: NewFile,
    (increment, position): (Option<&Increment>, Position),
) -> Result<Phase, Ended> {
    let (log, disk) = (&storage.persistence.log, storage.persistence.disk.get(outside));
    let mut listed = lock(&log.listed);
    if log.facts().phase != phase {
        return Err(Ended::Cancelled);
    }
    let (mut manifest, base) = new_base(&listed, settings);
    let mut made = Vec::new();
    if let Err(error) = publish(disk, settings, new, increment, &mut manifest, &mut made) {
        files::abandon(disk, settings, &mut listed.manifest, made);
        return Err(error.into());
    }
    tracing::info!("Successfully created the AOF base file {}", base.name);
    let size =
        |file: &FileInfo| std::fs::metadata(files::path(settings, file)).map_or(0, |facts| facts.len());
    let (base_bytes, all_bytes) = (size(&base), manifest.files().map(size).sum());
    log.order(Order::Rewritten { position, base_bytes, all_bytes });
    storage.engine.journal.nudge();
    files::remove_history(disk, settings, &mut manifest);
    listed.manifest = manifest;
    Ok(phase)
}

/// Gives a rewrite's files their names, and replaces the list on disk; `made` has the files that have been
/// named.
fn publish(
    disk: &Arc<dyn Disk>,
    settings: &Settings,
    new: NewFile,
    increment: Option<&Increment>,
    manifest: &mut Manifest,
    made: &mut Vec<FileInfo>,
) -> io::Result<()> {
    if let Some(Increment { info, temporary: Some(temporary) }) = increment {
        disk.rename(&settings.aof_directory().join(temporary), &files::path(settings, info))?;
        made.push(info.clone());
        manifest.increments.push(info.clone());
    }
    manifest.retire_before(increment.map_or(u64::MAX, |increment| increment.info.number));
    made.extend(manifest.base.clone());
    new.publish()?;
    files::write_manifest(disk, settings, manifest)
}
