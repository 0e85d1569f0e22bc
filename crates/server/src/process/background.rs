//! Going to the background, and the file that holds the process id.

use std::io;
use std::path::{Path, PathBuf};

use super::system;

/// Where a server in the background keeps its process id when it is not told.
const DEFAULT_PIDFILE: &str = "/var/run/redis.pid";

/// Leaves the terminal: the caller goes on in a grandchild that belongs to no session's leader, with its
/// standard streams on `/dev/null`; the process that called exits with status 0. Must run before the first
/// thread.
pub fn daemonize() -> io::Result<()> {
    if !system::fork()? {
        std::process::exit(0);
    }
    rustix::process::setsid()?;
    // A session's leader could acquire a terminal again: its child cannot.
    if !system::fork()? {
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
    /// Writes the file when one is configured or the process is in the background. A failure is logged, and
    /// no reason not to start.
    pub fn create(configured: Option<&Path>, is_background: bool) -> Option<Self> {
        let default = is_background.then_some(Path::new(DEFAULT_PIDFILE));
        let path = std::path::absolute(configured.or(default)?).ok()?;
        match std::fs::write(&path, format!("{}\n", std::process::id())) {
            Ok(()) => Some(Self { path }),
            Err(error) => {
                tracing::warn!("Failed to write PID file: {}", crate::config::error_text(&error));
                None
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        tracing::info!("Removing the pid file.");
        // Somebody may have removed it already; there is nothing left to do about it.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pid_file_lives_as_long_as_its_guard() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.pid");
        let file = PidFile::create(Some(&path), false).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        drop(file);
        assert!(!path.exists());
        assert!(PidFile::create(None, false).is_none());
        assert!(PidFile::create(Some(&directory.path().join("none/x.pid")), true).is_none());
    }
}
