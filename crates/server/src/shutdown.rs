//! The end of the server, by SHUTDOWN or by a signal: replicas get missing records, the data is saved on
//! request, and nothing runs after that.

pub mod pending;

use std::sync::atomic::Ordering;

use martlet_engine::Outside;
use martlet_journal::REPLICAS;

use crate::config::{Config, ShutdownFlags};
use crate::process::{ShutdownSignal, exit_at_once};
use crate::replication::failover_state::GETACK;
use crate::runtime::Worker;
use crate::runtime::{Mail, Shared};
use crate::waits::WaitEnd;
use martlet_persistence::aof::Phase;
use martlet_persistence::save::SaveFailed;
use pending::Asked;

/// Ends the server on a signal, as the configuration says; at once, without saving, on SIGINT while it is
/// ending because of another signal.
pub fn on_signal(shared: &'static Shared, signal: ShutdownSignal) {
    let ends_already = shared.is_asked_to_stop.swap(true, Ordering::SeqCst);
    if ends_already && signal == ShutdownSignal::Interrupt {
        tracing::warn!("You insist... exiting now.");
        shared.storage().remove_own_files(&Outside::of_background_thread());
        shared.log.get().into_iter().for_each(|log| log.finish());
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
    shared.pending_shutdown.note_signal(signal);
    act_on_signal(shared);
}

/// Has the first thread act on a signal that was noted, if SHUTDOWN ABORT does not come first. While periodic
/// work is paused it waits, as in Redis, which acts on signals there.
pub fn act_on_signal(shared: &'static Shared) {
    shared.send(0, Mail::Run(Box::new(Worker::end_on_signal)));
}

/// Whether the data is to be saved.
fn saves(config: &Config, flags: ShutdownFlags) -> bool {
    flags.save || (!flags.nosave && !config.save.0.is_empty())
}

impl Worker {
    /// Ends the server, or begins to wait for its replicas, or for the end of the thread's busy script;
    /// whether it waits. Nothing may be held.
    ///
    /// # Errors
    /// As [`Worker::shut_down`].
    pub fn begin_shut_down(&mut self, flags: ShutdownFlags) -> Result<bool, SaveFailed> {
        let shared = self.shared;
        if self.has_busy_script() {
            self.end_after_script(flags);
            return Ok(true);
        }
        let timeout_ms = i64::from(self.config().shutdown_timeout_s) * 1000;
        if shared.pending_shutdown.is_on() {
            return Ok(true);
        }
        if flags.now || timeout_ms == 0 || self.has_replicas_in_sync() {
            return self.shut_down(flags).map(|()| false);
        }
        tracing::info!("User requested shutdown, waiting for replicas before shutting down.");
        shared.hold_writes();
        shared.pending_shutdown.begin(flags, self.now_ms + timeout_ms);
        shared.engine.journal.append(REPLICAS, GETACK);
        Ok(true)
    }

    /// Whether every replica has all there is.
    fn has_replicas_in_sync(&self) -> bool {
        let (end, replicas) = (self.shared.replication_offset(), &self.shared.replication.primary);
        replicas.replicas().iter().all(|replica| replica.acked.load(Ordering::Acquire) >= end)
    }

    /// Ends the server once its replicas have all there is, or the time is up. On the first thread.
    pub(crate) fn follow_shutdown(&mut self) {
        let shared = self.shared;
        let Some(until_ms) = shared.pending_shutdown.until_ms() else { return };
        if until_ms > self.now_ms && !self.has_replicas_in_sync() {
            return;
        }
        let Some(asked) = shared.pending_shutdown.take() else { return };
        self.tell_of_replicas();
        let ended = self.shut_down(asked.flags);
        if ended.is_err() {
            self.note_failed_shutdown();
            self.release_shutdown(asked);
        }
    }

    /// Logs which replicas lack something.
    fn tell_of_replicas(&self) {
        let (end, replicas) = (self.shared.replication_offset(), self.shared.replication.primary.replicas());
        let mut in_sync = 0;
        for replica in &replicas {
            let acked = replica.acked.load(Ordering::Acquire);
            if acked >= end {
                in_sync += 1;
                continue;
            }
            tracing::warn!(
                "Lagging replica {} reported offset {} behind master, lag={}, state={}.",
                replica.name(),
                end - acked,
                replica.lag_s(self.now_ms),
                replica.phase().name()
            );
        }
        if !replicas.is_empty() {
            tracing::info!("{in_sync} of {} replicas are in sync when shutting down.", replicas.len());
        }
    }

    fn end_on_signal(&mut self) {
        if self.shared.is_cron_paused.load(Ordering::SeqCst) {
            return;
        }
        let Some(signal) = self.shared.pending_shutdown.take_signal() else { return };
        let config = self.config();
        let flags = match signal {
            ShutdownSignal::Interrupt => config.shutdown_on_sigint,
            ShutdownSignal::Terminate => config.shutdown_on_sigterm,
        };
        self.end_with(flags);
    }

    /// Ends the server, or logs that it cannot.
    pub(crate) fn end_with(&mut self, flags: ShutdownFlags) {
        if self.begin_shut_down(flags).is_err() {
            self.note_failed_shutdown();
            let asked = self.shared.pending_shutdown.take_asked();
            self.tell_waiters(asked);
        }
        self.shared.scripts.is_ending.store(false, Ordering::Relaxed);
    }

    fn note_failed_shutdown(&self) {
        tracing::warn!("Errors trying to shut down the server. Check the logs for more information.");
        self.shared.is_asked_to_stop.store(false, Ordering::SeqCst);
    }

    /// Resumes writes, and answers the waiting clients that the end does not come.
    fn release_shutdown(&self, asked: Asked) {
        self.tell_waiters(asked);
        self.shared.release_writes();
    }

    fn tell_waiters(&self, asked: Asked) {
        for waiter in asked.waiters.into_iter().filter(|waiter| waiter.cancel()) {
            self.shared.send(waiter.thread, Mail::Unblock { waiter, end: WaitEnd::ShutdownFailed });
        }
    }

    /// Ends the wait for replicas, and forgets a signal on which no thread has acted (SHUTDOWN ABORT);
    /// returns whether there was either.
    pub(crate) fn abort_shutdown(&self) -> bool {
        let pending = &self.shared.pending_shutdown;
        let (asked, signal) = (pending.take(), pending.take_signal());
        if asked.is_none() && signal.is_none() {
            return false;
        }
        tracing::info!("Shutdown manually aborted.");
        self.shared.is_asked_to_stop.store(false, Ordering::SeqCst);
        if let Some(asked) = asked {
            self.release_shutdown(asked);
        }
        true
    }

    /// Ends the server: its threads leave their loops after their present work. Nothing may be locked.
    ///
    /// # Errors
    /// The data was to be saved and could not be, and `flags` do not force the end: the server continues.
    pub fn shut_down(&mut self, flags: ShutdownFlags) -> Result<(), SaveFailed> {
        tracing::warn!("User requested shutdown...");
        let facts = self.shared.persistence.log.facts();
        if facts.phase == Phase::Starting && facts.rewrite.is_some() {
            // The next start would load an earlier file, or nothing.
            if !flags.force {
                tracing::warn!("Writing initial AOF, can't exit.");
                return Err(SaveFailed);
            }
            tracing::warn!("Writing initial AOF. Exit anyway.");
        }
        let background = &self.shared.persistence.background;
        if background.cancel() {
            tracing::warn!("There is a save in the background. It is cancelled.");
            // It passes the gate for each slice, in which this thread must not be then.
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
        // An end without a save does not wait for an endless script, either.
        self.shared.scripts.is_ending.store(flags.nosave, Ordering::Relaxed);
        let result = self.alone(|worker| {
            // One that has begun since then would take the name of the file that is written here.
            worker.shared.persistence.background.cancel();
            if worker.shared.persistence.log.facts().phase != Phase::Off {
                tracing::info!("Calling fsync() on the AOF file.");
                if worker.shared.storage().finish_log(&worker.keys.standstill()).is_err() {
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
    use crate::persistence::settings::settings;

    fn set(keys: &mut Keys, value: &[u8]) {
        keys.set_str(&Key::new(b"key"), value, ExpiryChange::Clear);
    }

    #[test]
    fn a_save_that_began_at_the_last_moment_does_not_replace_the_last_one() {
        let directory = tempfile::tempdir().unwrap();
        let config = Config { dir: directory.path().into(), ..Config::default() };
        let registry = Box::leak(Box::new(crate::commands::registry(&[]).unwrap()));
        let shared = Shared::new(ConfigStore::new(config.clone()), registry, 2, None).unwrap();
        let shared: &'static Shared = Box::leak(Box::new(shared));
        shared.storage().start_threads().unwrap();
        let mut worker = Worker::new(shared, 0, &crate::wiring::HOOKS);
        worker.alone(|worker| set(&mut worker.keys, b"before the cut"));
        worker.leave();
        let (closed, is_closed) = std::sync::mpsc::channel();
        let turns = || shared.threads[0].turns.load(Ordering::Relaxed);
        let at_rest = turns();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut other = Worker::new(shared, 1, &crate::wiring::HOOKS);
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
