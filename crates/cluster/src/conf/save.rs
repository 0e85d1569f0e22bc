//! `nodes.conf` on disk.

use super::{Conf, ConfError};
use martlet_base::disk::{Disk, error_text};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("loading the cluster node config from {}: {}", .0.display(), error_text(.1))]
    Io(PathBuf, io::Error),
    /// It is malformed.
    #[error("corrupted cluster config file {}: {}", .0.display(), .1)]
    Malformed(PathBuf, ConfError),
}

/// Reads the file; `None` when it is absent or empty.
///
/// # Errors
/// The file cannot be read, or is malformed.
pub fn load(path: &Path) -> Result<Option<Conf>, LoadError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LoadError::Io(path.into(), error)),
    };
    if text.is_empty() {
        return Ok(None);
    }
    Conf::parse(&text).map(Some).map_err(|error| LoadError::Malformed(path.into(), error))
}

/// Opens a file that is there and locks it as Redis does (`flock`), until it is closed; `None` if that cannot
/// be had at once.
pub fn lock(path: &Path) -> Option<File> {
    let file = File::options().append(true).open(path).ok()?;
    file.try_lock().ok()?;
    Some(file)
}

/// Replaces the file by a new one, completely or not at all. With `is_synced` it has reached the disk when
/// this returns. `prepare` gets the new file's path once that is written and before it takes its place.
///
/// # Errors
/// The disk's error; the old file is still there, unless only the last sync failed.
pub fn save(
    disk: &dyn Disk,
    path: &Path,
    text: &str,
    is_synced: bool,
    prepare: impl FnOnce(&Path),
) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".tmp-{}", std::process::id()));
    let temporary = path.with_file_name(name);
    let outcome = disk.create(&temporary).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        if is_synced { file.sync_data() } else { Ok(()) }
    });
    let outcome = outcome.and_then(|()| {
        prepare(&temporary);
        disk.rename(&temporary, path)
    });
    if let Err(error) = outcome {
        let _ = disk.remove(&temporary);
        return Err(error);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if is_synced { disk.sync_directory(folder.unwrap_or(Path::new("."))) } else { Ok(()) }
}
