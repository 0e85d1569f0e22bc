//! Going to the background, and the file that holds the process id.

use std::io;
use std::path::{Path, PathBuf};

/// How many threads the process has.
pub fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

/// Splits the process in two; true in the child. The process must have no other thread.
fn fork() -> io::Result<bool> {
    assert_eq!(thread_count(), 1, "fork after a thread was started");
    // SAFETY: there is no other thread that could hold a lock which the child would never see released.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(child == 0),
    }
}

/// Leaves the terminal: the caller continues in a grandchild that belongs to no session's leader, with its
/// standard streams on `/dev/null`; the process that called exits with status 0. Must run before the first
/// thread.
///
/// # Errors
/// Those of the system calls.
pub fn daemonize() -> io::Result<()> {
    if !fork()? {
        std::process::exit(0);
    }
    rustix::process::setsid()?;
    // A session's leader could acquire a terminal again: its child cannot.
    if !fork()? {
        std::process::exit(0);
    }
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// The file that holds the process id; it goes when this is dropped.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the file, by a path that holds in any directory.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(path: &Path) -> io::Result<PidFile> {
        let path = std::path::absolute(path)?;
        std::fs::write(&path, format!("{}\n", std::process::id()))?;
        Ok(PidFile { path })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // The file may have been removed already; there is nothing left to do about it.
        let _ = std::fs::remove_file(&self.path);
    }
}
