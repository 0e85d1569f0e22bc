//! Where the current `Config` is published, and how a thread follows it without locks.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use martlet_base::disk::error_text;
use martlet_base::publish::{Follower, Published};
use martlet_base::sync::{Outside, lock};

use super::change::Hooks;
use super::rewrite::{AccessLines, Extent, replace_file, rewrite_file};
use super::{Config, ReplicaOf};

/// The one place that holds the current configuration.
#[derive(Debug)]
pub struct ConfigStore {
    current: Published<Config>,
    pub(super) hooks: Hooks,
    file: Option<PathBuf>,
    umask: u32,
    /// Held while a file is replaced: each has one name until it is whole.
    replacing: Mutex<()>,
}

impl ConfigStore {
    /// A store whose first generation is `config`.
    pub fn new(config: Config) -> Arc<Self> {
        Self::with_file(config, None, 0o022)
    }

    /// A store whose configuration came from a file, which CONFIG REWRITE writes with a mode that `umask`
    /// limits.
    pub fn with_file(config: Config, file: Option<PathBuf>, umask: u32) -> Arc<Self> {
        Arc::new(Self {
            current: Published::new(config),
            hooks: Hooks::default(),
            file,
            umask,
            replacing: Mutex::default(),
        })
    }

    /// The configuration file, absolute; none when the server started without.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// CONFIG REWRITE.
    ///
    /// # Errors
    /// The reply, without the leading dash.
    pub fn rewrite(
        &self,
        outside: &Outside,
        access: Option<&AccessLines>,
        extent: Extent,
    ) -> Result<(), String> {
        let file = self.file().ok_or("ERR The server is running without a config file")?;
        let _replacing = lock(&self.replacing);
        let mut config = self.snapshot();
        if config.cluster_enabled {
            // Whose replica a node is, its own file says.
            Arc::make_mut(&mut config).replicaof = ReplicaOf::default();
        }
        rewrite_file(outside, file, &config, access, extent, self.umask).map_err(|error| {
            let why = error_text(&error);
            tracing::warn!("CONFIG REWRITE failed: {why}");
            format!("ERR Rewriting config file: {why}")
        })?;
        tracing::info!("CONFIG REWRITE executed with success.");
        Ok(())
    }

    /// Replaces the content of the file that the current configuration names by that which there is when the
    /// file's turn comes, so that a crash leaves either the old or the new one.
    ///
    /// # Errors
    /// Those of the file system; the old content is still there.
    pub fn replace_file(
        &self,
        outside: &Outside,
        path: impl FnOnce(&Config) -> &Path,
        content: impl FnOnce() -> Vec<u8>,
    ) -> std::io::Result<()> {
        let _replacing = lock(&self.replacing);
        replace_file(outside, path(&self.snapshot()), &content(), 0o644 & !self.umask)
    }

    /// How often a configuration was published; one atomic load.
    pub fn generation(&self) -> u64 {
        self.current.generation()
    }

    /// The current configuration. Takes a lock for an instant: hot paths use a [`ConfigReader`].
    pub fn snapshot(&self) -> Arc<Config> {
        self.current.snapshot()
    }

    /// Makes `config` the current one, past every hook: CONFIG SET goes through [`ConfigStore::set`].
    pub fn publish(&self, config: Config) {
        self.current.publish(config);
    }

    /// A reader for one thread.
    pub fn reader(self: &Arc<Self>) -> ConfigReader {
        ConfigReader { store: Arc::clone(self), follower: Follower::new(&self.current) }
    }
}

/// One thread's view of the configuration: reads are plain field accesses, `refresh` once per loop costs an
/// atomic load.
#[derive(Clone, Debug)]
pub struct ConfigReader {
    store: Arc<ConfigStore>,
    follower: Follower<Config>,
}

impl ConfigReader {
    /// Takes up the newest configuration; true when there was one.
    #[inline]
    pub fn refresh(&mut self) -> bool {
        self.follower.refresh(&self.store.current)
    }

    /// The store that this reader follows.
    pub fn store(&self) -> &Arc<ConfigStore> {
        &self.store
    }

    /// The configuration of the last refresh, to be kept beyond the next one.
    pub fn current(&self) -> &Arc<Config> {
        self.follower.value()
    }
}

impl Deref for ConfigReader {
    type Target = Config;

    #[inline]
    fn deref(&self) -> &Config {
        &self.follower
    }
}
