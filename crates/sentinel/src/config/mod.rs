//! The configuration file: a Sentinel's directives, and its rewriting.

pub mod load;
pub mod rewrite;
pub mod tls;
mod value;

use std::ffi::OsString;
use std::io;
use std::path::Path;

use martlet_base::disk::{Disk, RealDisk};

/// Puts a text in the place of a file so that, whatever crashes, the file is whole: the old or the new.
///
/// # Errors
/// Those of the file system; the file is as it was, but for a disk that fails at the very last.
pub fn replace_file(path: &Path, text: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = directory.join(name);
    let write = || {
        let mut file = RealDisk.create(&temporary)?;
        if let Ok(metadata) = std::fs::metadata(path) {
            std::fs::set_permissions(&temporary, metadata.permissions())?;
        }
        file.write_all(text)?;
        file.sync_data()?;
        RealDisk.rename(&temporary, path)
    };
    write().inspect_err(|_| {
        let _ = RealDisk.remove(&temporary);
    })?;
    RealDisk.sync_directory(directory)
}
