//! The file that holds the process id.

use std::path::Path;

/// Default file of the process id of a server in the background.
const DEFAULT_PIDFILE: &str = "/var/run/redis.pid";

/// The file that holds the process id; it goes when this is dropped.
#[derive(Debug)]
pub struct PidFile {
    _file: martlet_base::background::PidFile,
}

impl PidFile {
    /// Writes the file when one is configured or the process is in the background. A failure is logged, and
    /// no reason not to start.
    pub fn create(configured: Option<&Path>, is_background: bool) -> Option<Self> {
        let default = is_background.then_some(Path::new(DEFAULT_PIDFILE));
        match martlet_base::background::PidFile::write(configured.or(default)?) {
            Ok(file) => Some(Self { _file: file }),
            Err(error) => {
                tracing::warn!("Failed to write PID file: {}", martlet_base::disk::error_text(&error));
                None
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        tracing::info!("Removing the pid file.");
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
