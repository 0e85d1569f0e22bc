//! A small file system that a test can fill up.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file system in memory; unmounted when dropped.
pub struct SmallDisk {
    path: PathBuf,
    bytes: u64,
}

impl SmallDisk {
    /// Mounts one of `bytes` bytes at a directory; `None`, and a line that says so, where that is not
    /// allowed.
    pub fn mount(path: &Path, bytes: u64) -> Option<SmallDisk> {
        match call("mount", &["-t", "tmpfs", "-o", &format!("size={bytes}"), "none"], path) {
            Ok(()) => Some(SmallDisk { path: path.into(), bytes }),
            Err(error) => {
                println!("SKIPPED: a full file system, since none can be mounted here: {error}");
                None
            }
        }
    }

    /// Leaves room for this many bytes.
    ///
    /// # Errors
    /// When it is smaller.
    pub fn leave(&self, bytes: u64) -> io::Result<()> {
        let filler = vec![b'x'; usize::try_from(self.bytes - bytes).map_err(io::Error::other)?];
        fs::write(self.path.join("filler"), filler)
    }

    /// Gives back what [`SmallDisk::leave`] has taken.
    ///
    /// # Errors
    /// When it has not been called.
    pub fn free(&self) -> io::Result<()> {
        fs::remove_file(self.path.join("filler"))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Nothing else can be done about it.
        let _ = call("umount", &["--lazy"], &self.path);
    }
}

fn call(program: &str, arguments: &[&str], place: &Path) -> io::Result<()> {
    let output = Command::new(program).args(arguments).arg(place).stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(io::Error::other(text.trim().to_owned())) }
}
