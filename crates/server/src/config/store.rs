//! Where the current `Config` is published, and how a thread follows it without locks.
//!
//! What always holds: the generation rises by one with each publication, after the new `Config` is in place; a reader that
//! sees a generation sees at least that generation's values.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use super::Config;
use super::change::Hooks;

/// The one place that holds the current configuration.
#[derive(Debug)]
pub struct ConfigStore {
    generation: AtomicU64,
    current: RwLock<Arc<Config>>,
    pub(super) hooks: Hooks,
}

impl ConfigStore {
    /// A store whose first generation is `config`.
    pub fn new(config: Config) -> Arc<Self> {
        Arc::new(Self {
            generation: AtomicU64::new(0),
            current: RwLock::new(Arc::new(config)),
            hooks: Hooks::default(),
        })
    }

    /// How often a configuration was published; one atomic load.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The current configuration. Takes a lock for an instant: hot paths use a [`ConfigReader`].
    pub fn snapshot(&self) -> Arc<Config> {
        self.current.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Makes `config` the current one.
    pub fn publish(&self, config: Config) {
        let mut current = self.current.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        *current = Arc::new(config);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// A reader for one thread.
    pub fn reader(self: &Arc<Self>) -> ConfigReader {
        let generation = self.generation();
        ConfigReader { store: Arc::clone(self), generation, config: self.snapshot() }
    }
}

/// One thread's view of the configuration: reads are plain field accesses, `refresh` once per loop costs an atomic load.
#[derive(Clone, Debug)]
pub struct ConfigReader {
    store: Arc<ConfigStore>,
    generation: u64,
    config: Arc<Config>,
}

impl ConfigReader {
    /// Takes up the newest configuration; true when there was one.
    #[inline]
    pub fn refresh(&mut self) -> bool {
        let generation = self.store.generation();
        if generation == self.generation {
            return false;
        }
        self.config = self.store.snapshot();
        self.generation = generation;
        true
    }

    /// The store that this reader follows.
    pub fn store(&self) -> &Arc<ConfigStore> {
        &self.store
    }

    /// The configuration of the last refresh, to be kept beyond the next one.
    pub fn current(&self) -> &Arc<Config> {
        &self.config
    }
}

impl Deref for ConfigReader {
    type Target = Config;

    fn deref(&self) -> &Config {
        &self.config
    }
}
