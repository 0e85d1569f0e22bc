//! The end of the server, by SHUTDOWN or by a signal: the data is saved if that is asked for, and nothing
//! runs after that.

use std::sync::atomic::Ordering;

use crate::config::{Config, ShutdownFlags};
use crate::persistence::aof::Phase;
use crate::persistence::{settings, temp_files};
use crate::process::{ShutdownSignal, exit_at_once};
use crate::shared::{Mail, Shared};
use crate::worker::Worker;
use martlet_persistence::save::SaveFailed;

/// Ends the server on a signal, as the configuration says; at once, without saving, on SIGINT while it is
/// ending because of another signal.
pub fn on_signal(shared: &'static Shared, signal: ShutdownSignal) {
    let ends_already = shared.is_asked_to_stop.swap(true, Ordering::SeqCst);
    if ends_already && signal == ShutdownSignal::Interrupt {
        tracing::warn!("You insist... exiting now.");
        let _nothing_is_begun =
            temp_files::remove_own(&*shared.persistence.disk, &settings(&shared.config.snapshot()));
        exit_at_once();
    }
    if shared.persistence.is_loading() {
        tracing::warn!("Received shutdown signal during loading, exiting now.");
        shared.stop();
        return;
    }
    match signal {
        ShutdownSignal::Interrupt => tracing::warn!("Received SIGINT scheduling shutdown..."),
        ShutdownSignal::Terminate => tracing::warn!("Received SIGTERM scheduling shutdown..."),
    }
    let end = move |worker: &mut Worker| {
        let config = worker.config();
        let flags = match signal {
            ShutdownSignal::Interrupt => config.shutdown_on_sigint,
            ShutdownSignal::Terminate => config.shutdown_on_sigterm,
        };
        if worker.shut_down(flags).is_err() {
            tracing::warn!("Errors trying to shut down the server. Check the logs for more information.");
            worker.shared.is_asked_to_stop.store(false, Ordering::SeqCst);
        }
    };
    shared.send(0, Mail::Run(Box::new(end)));
}

/// Whether the data is to be saved.
fn saves(config: &Config, flags: ShutdownFlags) -> bool {
    flags.save || (!flags.nosave && !config.save.0.is_empty())
}

impl Worker {
    /// Ends the server: its threads leave their loops after what they are doing. Nothing may be held.
    ///
    /// # Errors
    /// The data was to be saved and could not be, and `flags` do not force the end: the server goes on.
    pub fn shut_down(&mut self, flags: ShutdownFlags) -> Result<(), SaveFailed> {
        tracing::warn!("User requested shutdown...");
        let facts = self.shared.persistence.log.facts();
        if facts.phase == Phase::Starting && facts.rewrite.is_some() {
            // What was loaded the next time would be what an earlier file holds, or nothing.
            if !flags.force {
                tracing::warn!("Writing initial AOF, can't exit.");
                return Err(SaveFailed);
            }
            tracing::warn!("Writing initial AOF. Exit anyway.");
        }
        let background = &self.shared.persistence.background;
        if background.cancel() {
            tracing::warn!("There is a save in the background. It is cancelled.");
            // It passes the gate for each slice, in which this thread must not be meanwhile.
            self.leave();
            background.wait();
            self.enter();
        }
        let log = &self.shared.persistence.log;
        if log.cancel_rewrite() {
            tracing::warn!("There is a rewrite of the AOF in the background. It is cancelled.");
            self.leave();
            log.wait_for_rewrite();
            self.enter();
        }
        // Who does not want the data saved does not wait for a script without end, either.
        self.shared.scripts.is_ending.store(flags.nosave, Ordering::Relaxed);
        let result = self.alone(|worker| {
            // One that has begun since then would take the name of the file that is written here.
            worker.shared.persistence.background.cancel();
            if worker.shared.persistence.log.facts().phase != Phase::Off {
                tracing::info!("Calling fsync() on the AOF file.");
                if worker.shared.storage().finish_log().is_err() {
                    tracing::warn!("The AOF file cannot be forced to disk.");
                    if !flags.force {
                        return Err(SaveFailed);
                    }
                }
            }
            let saves = saves(worker.config(), flags) && !worker.shared.persistence.is_loading();
            if saves {
                tracing::info!("Saving the final RDB snapshot before exiting.");
            }
            if saves && worker.save().is_err() {
                if !flags.force {
                    tracing::warn!("Error trying to save the DB, can't exit.");
                    return Err(SaveFailed);
                }
                tracing::warn!("Error trying to save the DB. Exit anyway.");
            }
            worker.shared.stop();
            Ok(())
        });
        self.shared.scripts.is_ending.store(false, Ordering::Relaxed);
        result
    }
}

#[cfg(test)]
mod tests {
    use martlet_engine::Keys;
    use martlet_keyspace::{ExpiryChange, Key};

    use super::*;
    use crate::config::ConfigStore;
    use crate::registry::Registry;

    fn set(keys: &mut Keys, value: &[u8]) {
        keys.set_str(&Key::new(b"key"), value, ExpiryChange::Clear);
    }

    #[test]
    fn a_save_that_began_at_the_last_moment_does_not_replace_the_last_one() {
        let directory = tempfile::tempdir().unwrap();
        let config = Config { dir: directory.path().into(), ..Config::default() };
        let registry = Box::leak(Box::new(Registry::new(&[]).unwrap()));
        let shared = Shared::new(ConfigStore::new(config.clone()), registry, 2, None).unwrap();
        let shared: &'static Shared = Box::leak(Box::new(shared));
        shared.storage().start_threads().unwrap();
        let mut worker = Worker::new(shared, 0);
        worker.alone(|worker| set(&mut worker.keys, b"before the cut"));
        worker.leave();
        let (closed, is_closed) = std::sync::mpsc::channel();
        let turns = || shared.threads[0].turns.load(Ordering::Relaxed);
        let at_rest = turns();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut other = Worker::new(shared, 1);
                shared.engine.gate.closed(|alone| {
                    closed.send(()).unwrap();
                    // Until the first worker has looked and waits for the gate.
                    while turns() == at_rest {
                        std::thread::yield_now();
                    }
                    other.keys.lock_all_shards(alone);
                    assert!(other.start_background_save());
                    set(&mut other.keys, b"behind the cut");
                    other.keys.release();
                });
            });
            is_closed.recv().unwrap();
            worker.shut_down(ShutdownFlags { save: true, ..ShutdownFlags::default() }).unwrap();
        });
        worker.leave();
        shared.persistence.background.wait();
        let file = std::fs::read(settings(&config).rdb_path()).unwrap();
        assert!(file.windows(14).any(|text| text == b"behind the cut"));
    }
}
