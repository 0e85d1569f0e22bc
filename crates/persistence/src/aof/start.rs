//! Opening the append-only file for writing, once its content has been loaded.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_base::sync::lock;
use martlet_engine::{Keys, Outside};
use martlet_journal::aof::FileInfo;

use martlet_base::disk::{Disk, error_text, remnant};

use super::{LastIncrement, Order, Phase, files, follow_journal, rewrite, writer};
use crate::Storage;
use crate::save::{self, Cut, Header};
use crate::settings::Settings;

/// Begins to record effects, in the last file of commands or in a new one; before that, the whole data set
/// becomes the base if there is none. Called outside the gate, before the first client is served.
///
/// # Errors
/// The disk's refusal, as a line for the log.
pub fn open(storage: Storage, outside: &Outside, keys: &mut Keys, settings: &Settings) -> Result<(), String> {
    let (log, disk) = (&storage.persistence.log, storage.persistence.disk.get(outside));
    let failed = |what: &str, error: &io::Error| format!("{what}: {}", error_text(error));
    let directory = settings.aof_directory();
    disk.create_directory(&directory).map_err(|error| {
        failed(&format!("Can't open or create append-only dir {}", settings.appenddirname.display()), &error)
    })?;
    let mut listed = lock(&log.listed);
    let loaded = listed.manifest.clone();
    let manifest = &mut listed.manifest;
    if manifest.is_empty() {
        let cut = keys.alone(|keys| {
            let totals = save::totals(keys, settings.handlers.databases);
            Cut::make(storage, keys, Header::of_base(storage, settings, &totals), totals, false)
        });
        let base = manifest.new_base(&settings.aof_name(), settings.aof_use_rdb_preamble);
        tracing::info!("Creating AOF base file {} on server start", base.name);
        set_aside(disk, &files::path(settings, &base))?;
        rewrite::write_base(storage, outside, settings, &base, &cut)
            .and_then(|new| new.publish())
            .map_err(|error| failed("Can't create the AOF base file", &error))?;
    }
    let left = manifest.increments.last().cloned();
    let is_new = left.is_none();
    let last = left.unwrap_or_else(|| {
        let new = manifest.new_increment(&settings.aof_name());
        tracing::info!("Creating AOF incr file {} on server start", new.name);
        new
    });
    let path = files::path(settings, &last);
    // No list names a file that already has this name: either a crash came between its naming and its
    // listing, and the file is empty, or the list is lost.
    if is_new {
        set_aside(disk, &path)?;
    }
    let file = if is_new { disk.create(&path) } else { disk.append(&path) };
    let file =
        file.map_err(|error| failed(&format!("Can't open the append-only file {}", last.name), &error))?;
    let listing = match *manifest == loaded {
        // Before anything is written that only this list knows of.
        true => disk.sync_directory(&directory),
        false => files::write_manifest(disk, settings, manifest),
    };
    listing.map_err(|error| failed("Can't write the AOF manifest", &error))?;
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |facts| facts.len());
    let of = |file: &FileInfo| size(&files::path(settings, file));
    let (total, last_bytes): (u64, u64) = (manifest.files().map(of).sum(), size(&path));
    log.current_bytes.store(total, Ordering::Relaxed);
    log.base_bytes.store(manifest.base.as_ref().map_or(0, of), Ordering::Relaxed);
    writer::start(storage).map_err(|error| failed("Can't start the thread for the AOF", &error))?;
    let from = storage.engine.gate.closed(|_| {
        let from = storage.engine.journal.cut_file();
        log.order(Order::Switch { from, file, bytes: last_bytes, earlier_bytes: Some(total - last_bytes) });
        // By the present settings: `appendfsync` may have been changed while data was loaded.
        follow_journal(&storage.engine.journal, &storage.host.settings());
        from.position
    });
    // The thread may be asleep already, and its recorded sizes are without this file.
    storage.engine.journal.nudge();
    files::remove_history(disk, settings, manifest);
    let begins = (last_bytes == 0).then_some(from);
    listed.last = begins.map(|from| LastIncrement { number: last.number, begins: Some(from) });
    lock(&log.facts).phase = Phase::On;
    Ok(())
}

/// Renames a file with content that has the name of a new one: no list names it, but no operator has removed
/// it.
fn set_aside(disk: &Arc<dyn Disk>, path: &Path) -> Result<(), String> {
    let name = path.display();
    let kept = remnant::set_aside(disk.as_ref(), path).map_err(|error| {
        format!("Can't rename {name}, which no AOF manifest lists: {}", error_text(&error))
    })?;
    if let Some(kept) = kept {
        tracing::warn!(
            "{name} is in the way of a new AOF file, and no manifest lists it: kept as {}",
            kept.display()
        );
    }
    Ok(())
}
