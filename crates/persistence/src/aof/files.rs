//! The directory with the files, and the manifest that lists them.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use martlet_base::disk::{Disk, error_text};
use martlet_journal::aof::{FileInfo, FileKind, Manifest};
use std::sync::Arc;

use crate::file::NewFile;
use crate::settings::Settings;

/// The path of a file.
pub fn path(settings: &Settings, file: &FileInfo) -> PathBuf {
    settings.aof_directory().join(&file.name)
}

/// The path of the manifest.
pub fn manifest_path(settings: &Settings) -> PathBuf {
    settings.aof_directory().join(format!("{}.manifest", settings.aof_name()))
}

/// Reads the manifest; an empty one if absent.
///
/// # Errors
/// Why it cannot be read, as a line for the log.
pub fn read_manifest(settings: &Settings) -> Result<Manifest, String> {
    let path = manifest_path(settings);
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
pub fn write_manifest(disk: &Arc<dyn Disk>, settings: &Settings, manifest: &Manifest) -> io::Result<()> {
    let text = manifest.to_text();
    if Manifest::parse(&text).as_ref() != Ok(manifest) {
        // A name near the file system's limit that has to be quoted makes a line that cannot be read.
        return Err(io::Error::new(io::ErrorKind::InvalidFilename, "the AOF's file names are too long"));
    }
    let name = format!("{}.manifest", settings.aof_name());
    let temporary = settings.temporary_manifest();
    let mut file =
        NewFile::create(disk.clone(), &settings.aof_directory(), Path::new(&name), &temporary, false)?;
    file.write_all(text.as_bytes())?;
    file.sync()?.publish()
}

/// Tests that the directory takes a file and the file takes bytes, and removes it again. A full disk may
/// allow the file and not the bytes.
///
/// # Errors
/// The disk's.
pub fn try_directory(disk: &Arc<dyn Disk>, settings: &Settings) -> io::Result<()> {
    let path = settings.aof_directory().join(settings.temporary_increment());
    let written = disk.create(&path).and_then(|mut file| file.write_all(b"#\n"));
    match disk.remove(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => written.and(Err(error)),
        _ => written,
    }
}

/// Removes a file; whether it is gone.
fn remove(disk: &Arc<dyn Disk>, settings: &Settings, file: &FileInfo) -> bool {
    match disk.remove(&path(settings, file)) {
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
pub fn abandon(disk: &Arc<dyn Disk>, settings: &Settings, manifest: &mut Manifest, made: Vec<FileInfo>) {
    let on_disk = read_manifest(settings);
    let is_named = |file: &FileInfo| {
        !on_disk.as_ref().is_ok_and(|list| list.files().all(|listed| listed.name != file.name))
    };
    let left = made.into_iter().filter(|file| is_named(file) || !remove(disk, settings, file));
    manifest.history.extend(left.map(|file| FileInfo { kind: FileKind::History, ..file }));
}

/// Removes the files that the manifest lists as history, and takes those out of it that are gone.
pub fn remove_history(disk: &Arc<dyn Disk>, settings: &Settings, manifest: &mut Manifest) {
    if settings.aof_disable_auto_gc || manifest.history.is_empty() {
        return;
    }
    manifest.history.retain(|file| {
        tracing::info!("Removing the history file {} in the background", file.name);
        !remove(disk, settings, file)
    });
    // Should it fail, they are listed as history, which is not loaded.
    if let Err(error) = write_manifest(disk, settings, manifest) {
        tracing::warn!("Cannot write the AOF manifest: {}", error_text(&error));
    }
}
