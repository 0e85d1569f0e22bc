//! Writing a new base while clients are served, and going over to it.
//!
//! ```text
//!   before     base 1, increment 1
//!   cut        base 1, increment 1, increment 2      records from here on go to increment 2
//!   end        base 2,              increment 2      base 1 and increment 1 are history, and removed
//! ```
//!
//! The manifest on disk lists a new increment before anything is written to it, and a new base after all of it is on disk.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use martlet_base::disk::DiskFile;
use martlet_base::random::Random;
use martlet_engine::{Keys, SavedKeys, Walk};
use martlet_journal::Position;
use martlet_journal::aof::{FileInfo, Manifest};

use super::{Facts, Order, Phase, Rewrite, files, mode};
use crate::config::{Config, error_text};
use crate::persistence::file::NewFile;
use crate::persistence::{background, save};
use crate::shared::{Shared, lock};

/// Why a rewrite has not come to its end.
enum Ended {
    /// It was cancelled, or the file was switched off.
    Cancelled,
    /// Another snapshot is being written: it begins when that has ended.
    Waits,
    /// The disk refuses.
    Failed(String),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        Ended::Failed(error_text(&error))
    }
}

/// Begins a rewrite on a thread of its own; none may be under way.
///
/// # Errors
/// When the operating system refuses the thread.
pub fn begin(shared: &'static Shared) -> Result<(), String> {
    let log = &shared.persistence.log;
    let rewrite = Rewrite { began_ms: shared.clock.unix_ms(), is_cancelled: Arc::default() };
    let is_cancelled = rewrite.is_cancelled.clone();
    {
        let mut facts = lock(&log.facts);
        facts.rewrite = Some(rewrite);
        facts.is_scheduled = false;
        facts.rewrites += 1;
    }
    let body = move || {
        martlet_base::thread::give_way();
        run(shared, &is_cancelled);
    };
    let started = std::thread::Builder::new().name("rewrite".into()).spawn(body);
    started.map(drop).map_err(|error| {
        let text = format!("Can't rewrite append only file in background: {}", error_text(&error));
        tracing::warn!("{text}");
        ended(shared, &Err(Ended::Failed(text.clone())));
        text
    })
}

fn run(shared: &'static Shared, is_cancelled: &AtomicBool) {
    tracing::info!("Background append only file rewriting started by pid {}", std::process::id());
    let result = rewrite(shared, is_cancelled);
    match &result {
        Ok(()) => tracing::info!("Background AOF rewrite finished successfully"),
        Err(Ended::Cancelled) => tracing::info!("Background AOF rewrite cancelled"),
        Err(Ended::Waits) => tracing::info!("Background append only file rewriting waits for the save"),
        Err(Ended::Failed(why)) => tracing::warn!("Background AOF rewrite terminated with error: {why}"),
    }
    ended(shared, &result);
}

fn ended(shared: &Shared, result: &Result<(), Ended>) {
    let log = &shared.persistence.log;
    let mut facts = lock(&log.facts);
    let now_ms = shared.clock.unix_ms();
    if let Some(rewrite) = facts.rewrite.take() {
        facts.last_s = Some((now_ms - rewrite.began_ms) / 1000);
    }
    match result {
        Ok(()) => (facts.is_sound, facts.failures) = (true, 0),
        Err(Ended::Waits) => {
            facts.is_scheduled = true;
            facts.rewrites -= 1;
        }
        Err(Ended::Cancelled) => {}
        Err(Ended::Failed(_)) => {
            (facts.is_sound, facts.ended_ms) = (false, now_ms);
            facts.failures += 1;
        }
    }
    drop(facts);
    log.rewrite_ended.notify_all();
}

/// The increment that begins at the cut.
struct Increment {
    info: FileInfo,
    file: Box<dyn DiskFile>,
    /// Its name until its first base is there: it is not listed before, so that what an earlier file holds stays what is loaded.
    temporary: Option<String>,
}

fn rewrite(shared: &'static Shared, is_cancelled: &AtomicBool) -> Result<(), Ended> {
    let config = shared.config.snapshot();
    let disk = &shared.persistence.disk;
    let directory = files::directory(&config);
    disk.create_directory(&directory).map_err(|error| {
        let name = config.appenddirname.display();
        Ended::Failed(format!("Can't open or create append-only dir {name}: {}", error_text(&error)))
    })?;
    let Increment { info, file, temporary } = open_increment(shared, &config)?;
    let result = cut(shared, &config, file).and_then(|(position, totals)| {
        let base = new_base(&lock(&shared.persistence.log.facts), &config).1;
        let new = write_base(shared, &config, &base, &totals, is_cancelled).map_err(|error| {
            if error.kind() == io::ErrorKind::Interrupted { Ended::Cancelled } else { error.into() }
        })?;
        go_over(shared, &config, new, (&info, temporary.as_deref()), position)
    });
    if let (Err(_), Some(name)) = (&result, &temporary) {
        tracing::info!("Removing the temp incr aof file {name} in the background");
        // It may be gone already.
        let _ = disk.remove(&directory.join(name));
    }
    result
}

/// Creates the file for what comes after the cut; once it is listed, nothing more is to be done for it.
fn open_increment(shared: &Shared, config: &Config) -> Result<Increment, Ended> {
    let (log, disk) = (&shared.persistence.log, &shared.persistence.disk);
    let mut facts = lock(&log.facts);
    let mut manifest = facts.manifest.clone();
    let info = manifest.new_increment(&files::name(config));
    let failed = |error: io::Error| {
        Ended::Failed(format!("Can't open the append-only file {}: {}", info.name, error_text(&error)))
    };
    if facts.phase == Phase::Starting {
        let name = format!("temp-{}.incr", files::name(config));
        let file = disk.create(&files::directory(config).join(&name)).map_err(failed)?;
        return Ok(Increment { info, file, temporary: Some(name) });
    }
    tracing::info!("Creating AOF incr file {} on background rewrite", info.name);
    let file = disk.create(&files::path(config, &info)).map_err(failed)?;
    files::write_manifest(disk, config, &manifest).map_err(failed)?;
    facts.manifest = manifest;
    Ok(Increment { info, file, temporary: None })
}

/// The instant that the new base is of: behind the closed gate, so that no command is in two files, or in none.
fn cut(
    shared: &'static Shared,
    config: &Config,
    file: Box<dyn DiskFile>,
) -> Result<(Position, Vec<save::Totals>), Ended> {
    let (log, journal) = (&shared.persistence.log, &shared.engine.journal);
    let mut keys = Keys::new(shared.engine, shared.saver(), Random::from_entropy());
    let result = shared.engine.gate.closed(|| {
        if shared.persistence.background.running().is_some() {
            return Err(Ended::Waits);
        }
        let facts = lock(&log.facts);
        if facts.phase == Phase::Off {
            return Err(Ended::Cancelled);
        }
        keys.hold_all();
        let totals = save::totals(&keys, config.databases as usize);
        keys.release();
        shared.engine.snapshot.cut();
        let position = journal.end();
        log.order(Order::Switch { from: position, file: Some((file, 0)) });
        log.closed_bytes.store(log.current_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        if facts.phase == Phase::Starting {
            journal.set_mode(mode(config));
        }
        Ok((position, totals))
    });
    journal.nudge();
    result
}

/// Writes what the keyspace held at the cut, and forces it to disk.
///
/// # Errors
/// The disk's refusal; [`io::ErrorKind::Interrupted`] if it was cancelled.
pub fn write_base(
    shared: &'static Shared,
    config: &Config,
    base: &FileInfo,
    totals: &[save::Totals],
    is_cancelled: &AtomicBool,
) -> io::Result<NewFile> {
    let new = NewFile::create(
        shared.persistence.disk.clone(),
        &files::directory(config),
        Path::new(&base.name),
        &format!("temp-rewriteaof-bg-{}.aof", std::process::id()),
        config.aof_rewrite_incremental_fsync,
    );
    let now_ms = shared.clock.unix_ms();
    let access = save::KeptAccess::of(config);
    let mut file = save::begin(new?, config, totals, now_ms, true);
    for (db, total) in totals.iter().enumerate().filter(|(_, total)| total.keys > 0) {
        file.database(db as u64, total.keys as u64, total.expiring as u64);
    }
    let mut walk = Walk::new(shared.engine, shared.saver());
    let mut taken = SavedKeys::default();
    let is_wanted = || !is_cancelled.load(Ordering::Relaxed);
    let mut is_whole = false;
    while is_wanted() && file.is_sound() && !is_whole {
        is_whole = !walk.take(&mut taken);
        background::write(&mut file, &taken, access, now_ms);
        crate::persistence::delay(shared.config.snapshot().rdb_key_save_delay_us, taken.len(), is_wanted);
    }
    walk.end(&mut taken);
    background::write(&mut file, &taken, access, now_ms);
    drop(taken);
    if !is_wanted() {
        return Err(io::ErrorKind::Interrupted.into());
    }
    file.finish().and_then(NewFile::sync)
}

/// The list with the next base in place of the present one, and that base.
fn new_base(facts: &Facts, config: &Config) -> (Manifest, FileInfo) {
    let mut manifest = facts.manifest.clone();
    let base = manifest.new_base(&files::name(config), config.aof_use_rdb_preamble, facts.spent_bases);
    (manifest, base)
}

/// Makes the new base and what followed it the files that are loaded.
fn go_over(
    shared: &Shared,
    config: &Config,
    new: NewFile,
    (increment, temporary): (&FileInfo, Option<&str>),
    position: Position,
) -> Result<(), Ended> {
    let (log, disk) = (&shared.persistence.log, &shared.persistence.disk);
    let mut facts = lock(&log.facts);
    if facts.phase == Phase::Off {
        return Err(Ended::Cancelled);
    }
    let (mut manifest, base) = new_base(&facts, config);
    if let Some(temporary) = temporary {
        disk.rename(&files::directory(config).join(temporary), &files::path(config, increment))?;
        manifest.increments.push(increment.clone());
    }
    manifest.retire_before(increment);
    // Should the list be on disk although it seems not to be, another base must not take this one's name.
    facts.spent_bases = base.number;
    new.publish()?;
    tracing::info!("Successfully created the AOF base file {}", base.name);
    files::write_manifest(disk, config, &manifest)?;
    let base_bytes = std::fs::metadata(files::path(config, &base)).map_or(0, |facts| facts.len());
    let increment_bytes = std::fs::metadata(files::path(config, increment)).map_or(0, |facts| facts.len());
    log.closed_bytes.store(base_bytes, Ordering::Relaxed);
    log.base_bytes.store(base_bytes + increment_bytes, Ordering::Relaxed);
    log.current_bytes.store(base_bytes + increment_bytes, Ordering::Relaxed);
    log.order(Order::Rewritten(position));
    shared.engine.journal.nudge();
    facts.phase = Phase::On;
    files::remove_history(disk, config, &mut manifest);
    facts.manifest = manifest;
    Ok(())
}
