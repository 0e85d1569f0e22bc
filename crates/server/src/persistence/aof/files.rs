//! The directory with the files, and the manifest that lists them.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use martlet_base::disk::Disk;
use martlet_journal::aof::{FileInfo, FileKind, Manifest};
use std::sync::Arc;

use crate::config::{Config, error_text};
use crate::persistence::file::NewFile;

/// The directory of the files.
pub fn directory(config: &Config) -> PathBuf {
    config.dir.join(&config.appenddirname)
}

/// What the files' names begin with.
pub fn name(config: &Config) -> String {
    config.appendfilename.to_string_lossy().into_owned()
}

/// The path of a file.
pub fn path(config: &Config, file: &FileInfo) -> PathBuf {
    directory(config).join(&file.name)
}

/// The path of the manifest.
pub fn manifest_path(config: &Config) -> PathBuf {
    directory(config).join(format!("{}.manifest", name(config)))
}

/// What a file of commands is called until the first base is there.
pub fn temporary_increment(config: &Config) -> String {
    format!("temp-{}.incr", name(config))
}

/// What a manifest is called until it is whole and on disk.
pub fn temporary_manifest(config: &Config) -> String {
    format!("temp-{}.manifest", name(config))
}

/// Reads the manifest; an empty one if there is none.
///
/// # Errors
/// Why it cannot be read, as a line for the log.
pub fn read_manifest(config: &Config) -> Result<Manifest, String> {
    let path = manifest_path(config);
    match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Manifest::default()),
        Err(error) => Err(format!(
            "Fatal error: can't open the AOF manifest file {} for reading: {}",
            path.display(),
            error_text(&error)
        )),
        Ok(text) => Manifest::parse(&text).map_err(|error| {
            format!("Reading the manifest file, at line {}: '{}'. {}", error.line, error.text, error.reason)
        }),
    }
}

/// Replaces the manifest on disk.
///
/// # Errors
/// When the disk refuses; the old one is still there, unless only the directory could not be forced to disk.
pub fn write_manifest(disk: &Arc<dyn Disk>, config: &Config, manifest: &Manifest) -> io::Result<()> {
    let text = manifest.to_text();
    if Manifest::parse(&text).as_ref() != Ok(manifest) {
        // A name that is near the file system's limit and has to be quoted makes a line that nobody reads.
        return Err(io::Error::new(io::ErrorKind::InvalidFilename, "the AOF's file names are too long"));
    }
    let name = format!("{}.manifest", name(config));
    let temporary = temporary_manifest(config);
    let mut file = NewFile::create(disk.clone(), &directory(config), Path::new(&name), &temporary, false)?;
    file.write_all(text.as_bytes())?;
    file.sync()?.publish()
}

/// Removes a file; whether it is gone.
fn remove(disk: &Arc<dyn Disk>, config: &Config, file: &FileInfo) -> bool {
    match disk.remove(&path(config, file)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!("Cannot remove {}: {}", file.name, error_text(&error));
            false
        }
        _ => true,
    }
}

/// Removes files that were made for a list that could not be written. One that the list on disk names all the
/// same becomes history of `manifest`, the list that holds: it goes when another has been written. Their
/// names are not given again before.
pub fn abandon(disk: &Arc<dyn Disk>, config: &Config, manifest: &mut Manifest, made: Vec<FileInfo>) {
    let on_disk = read_manifest(config);
    let is_named = |file: &FileInfo| {
        !on_disk.as_ref().is_ok_and(|list| list.files().all(|listed| listed.name != file.name))
    };
    let left = made.into_iter().filter(|file| is_named(file) || !remove(disk, config, file));
    manifest.history.extend(left.map(|file| FileInfo { kind: FileKind::History, ..file }));
}

/// Removes the files that the manifest lists as history, and takes those out of it that are gone.
pub fn remove_history(disk: &Arc<dyn Disk>, config: &Config, manifest: &mut Manifest) {
    if config.aof_disable_auto_gc || manifest.history.is_empty() {
        return;
    }
    manifest.history.retain(|file| {
        tracing::info!("Removing the history file {} in the background", file.name);
        !remove(disk, config, file)
    });
    // Should it fail, they are listed as history, which is not loaded.
    if let Err(error) = write_manifest(disk, config, manifest) {
        tracing::warn!("Cannot write the AOF manifest: {}", error_text(&error));
    }
}
