//! Opening the append-only file for writing, once what it holds has been loaded.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use martlet_engine::Keys;
use martlet_journal::aof::FileInfo;

use super::{LastIncrement, Order, Phase, files, follow_journal, rewrite, writer};
use crate::config::{Config, error_text};
use crate::persistence::save::{self, Cut, Header};
use crate::shared::{Shared, lock};

/// Begins to record what is done, in the last file of commands or in a new one; before that, everything there
/// is becomes the base if there is none. Called outside the gate, before the first client is served.
///
/// # Errors
/// What the disk refuses, as a line for the log.
pub fn open(shared: &'static Shared, keys: &mut Keys, config: &Config) -> Result<(), String> {
    let (log, disk) = (&shared.persistence.log, &shared.persistence.disk);
    let failed = |what: &str, error: &io::Error| format!("{what}: {}", error_text(error));
    let directory = files::directory(config);
    disk.create_directory(&directory).map_err(|error| {
        failed(&format!("Can't open or create append-only dir {}", config.appenddirname.display()), &error)
    })?;
    let mut listed = lock(&log.listed);
    let loaded = listed.manifest.clone();
    let manifest = &mut listed.manifest;
    if manifest.is_empty() {
        let cut = keys.alone(|keys| {
            let totals = save::totals(keys, config.databases as usize);
            Cut::make(shared, keys, Header::of_base(config, &totals), totals, false)
        });
        let base = manifest.new_base(&files::name(config), config.aof_use_rdb_preamble);
        tracing::info!("Creating AOF base file {} on server start", base.name);
        rewrite::write_base(shared, config, &base, &cut)
            .and_then(|new| new.publish())
            .map_err(|error| failed("Can't create the AOF base file", &error))?;
    }
    let left = manifest.increments.last().cloned();
    let is_new = left.is_none();
    let last = left.unwrap_or_else(|| {
        let new = manifest.new_increment(&files::name(config));
        tracing::info!("Creating AOF incr file {} on server start", new.name);
        new
    });
    let path = files::path(config, &last);
    // What has the name of a new one is not in the list: a crash left it between its naming and its listing.
    let file = if is_new { disk.create(&path) } else { disk.append(&path) };
    let file =
        file.map_err(|error| failed(&format!("Can't open the append-only file {}", last.name), &error))?;
    let listing = match *manifest == loaded {
        // Before anything is written that only this list knows of.
        true => disk.sync_directory(&directory),
        false => files::write_manifest(disk, config, manifest),
    };
    listing.map_err(|error| failed("Can't write the AOF manifest", &error))?;
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |facts| facts.len());
    let of = |file: &FileInfo| size(&files::path(config, file));
    let (total, last_bytes): (u64, u64) = (manifest.files().map(of).sum(), size(&path));
    log.closed_bytes.store(total - last_bytes, Ordering::Relaxed);
    log.current_bytes.store(total, Ordering::Relaxed);
    log.base_bytes.store(manifest.base.as_ref().map_or(0, of), Ordering::Relaxed);
    writer::start(shared).map_err(|error| failed("Can't start the thread for the AOF", &error))?;
    let from = shared.engine.gate.closed(|_| {
        let from = shared.engine.journal.cut_file();
        log.order(Order::Switch { from, file, bytes: last_bytes });
        // By what is set now: `appendfsync` may have been changed while data was loaded.
        follow_journal(&shared.engine.journal, &shared.config.snapshot());
        from.position
    });
    // The thread may be asleep already, and what it has noted of sizes is without this file.
    shared.engine.journal.nudge();
    files::remove_history(disk, config, manifest);
    let begins = (last_bytes == 0).then_some(from);
    listed.last = begins.map(|from| LastIncrement { number: last.number, begins: Some(from) });
    lock(&log.facts).phase = Phase::On;
    Ok(())
}
