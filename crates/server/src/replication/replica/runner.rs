//! Running the stream's commands in the primary's name.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};

use martlet_base::sync::lock;
use martlet_command::Flags;
use martlet_engine::{View, in_view};
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;

use crate::config::PropagationErrorBehavior;
use crate::connection::Connection;
use crate::registry::{Entry, Run};
use crate::runtime::Worker;
use crate::slow_path::SlowPathReason;

/// Between two lines in the log that say that the disk refuses.
const DISK_LOG_PERIOD_MS: i64 = 10_000;

/// Runs commands for one thread.
pub(super) struct Runner {
    /// In whose name commands run.
    pub connection: Box<Connection>,
    reply: Vec<u8>,
    /// When it was last logged that the disk refuses, Unix milliseconds.
    disk_logged_ms: i64,
}

impl Runner {
    pub fn new(connection: Box<Connection>) -> Runner {
        Runner { connection, reply: Vec::new(), disk_logged_ms: 0 }
    }

    pub fn select(&mut self, worker: &Worker, args: &Args<'_>) {
        let db = std::str::from_utf8(args.at(1)).ok().and_then(|text| text.parse().ok());
        match db.filter(|&db: &usize| db < worker.settings.databases) {
            Some(db) => self.connection.session.db = db,
            None => report_propagation_error(worker, b"ERR DB index is out of range", args),
        }
    }

    /// Runs one command whose keys are locked; `first_key` as for [`Worker::run`].
    pub fn execute(
        &mut self,
        worker: &mut Worker,
        entry: &'static Entry,
        args: &Args<'_>,
        first_key: Option<(usize, u64)>,
        nested: bool,
    ) {
        if entry.spec.flags.has(Flags::WRITE) {
            self.check_disk_state(worker);
        }
        let mut reply = Reply::new(std::mem::take(&mut self.reply), false);
        let is_data = matches!(entry.run, Run::Data(_));
        let mut view = View { db: self.connection.session.db, ..worker.base_view };
        if is_data {
            // Due keys are the primary's to delete.
            view = view.seeing_expired();
            // Only times relative to now need the clock.
            let is_relative = entry.spec.relative_time.is_some_and(|is_relative| is_relative(args));
            view.now_ms = if is_relative { view.now_ms } else { 0 };
        }
        let connection = &mut self.connection;
        in_view(worker, view, |worker| match nested {
            true => worker.run_nested(connection, &mut reply, entry, args, first_key),
            false => worker.run(connection, &mut reply, entry, args, first_key, true),
        });
        if reply.as_bytes().first() == Some(&b'-') {
            report_propagation_error(
                worker,
                reply.as_bytes().trim_ascii().get(1..).unwrap_or_default(),
                args,
            );
        }
        self.reply = reply.into_bytes();
        self.reply.clear();
    }

    /// Ends the process if a write cannot be kept, as the disk refuses (`replica-ignore-disk-write-errors`):
    /// a replica may not refuse it.
    fn check_disk_state(&mut self, worker: &Worker) {
        let reasons = &worker.shared.slow_path_reasons;
        if !reasons.has(SlowPathReason::SaveFailed) && !reasons.has(SlowPathReason::LogRefused) {
            return;
        }
        // On purpose: continuing would lose writes that the primary has acknowledged.
        assert!(
            worker.config().replica_ignore_disk_write_errors,
            "Replica was unable to write command to disk."
        );
        if worker.now_ms > self.disk_logged_ms + DISK_LOG_PERIOD_MS {
            self.disk_logged_ms = worker.now_ms;
            tracing::warn!("Replica is applying a command even though it is unable to write to disk.");
        }
    }

    /// The work after a command once its keys are not locked. Clients that wait for keys are served when
    /// nothing is.
    pub fn after(&mut self, worker: &mut Worker, entry: &'static Entry, args: &Args<'_>) {
        worker.feed_monitors(&self.connection, entry, args);
        if !worker.keys.has_all_shards() {
            worker.after_command(&mut self.connection, entry);
        }
    }
}

/// What each thread runs commands with when all apply.
pub(super) struct Runners(Box<[Mutex<Runner>]>);

impl Runners {
    /// One for each of so many threads.
    pub fn new(threads: usize, connection: impl Fn() -> Box<Connection>) -> Runners {
        Runners((0..threads).map(|_| Mutex::new(Runner::new(connection()))).collect())
    }

    pub fn of(&self, thread: usize) -> MutexGuard<'_, Runner> {
        lock(&self.0[thread])
    }
}

/// Logs that the primary has sent a command that cannot run here, or ends the process for it.
pub(super) fn report_propagation_error(worker: &Worker, error: &[u8], args: &Args<'_>) {
    let (error, name) = (String::from_utf8_lossy(error), String::from_utf8_lossy(args.at(0)).into_owned());
    let name = name.escape_default();
    tracing::warn!(
        "== CRITICAL == This replica is sending an error to its master: '{error}' after processing the command '{name}'"
    );
    worker.shared.stats.unexpected_errors.fetch_add(1, Ordering::Relaxed);
    let config = worker.config();
    let panics = config.propagation_error_behavior != PropagationErrorBehavior::Ignore;
    assert!(
        !(panics && config.replica_read_only),
        "This replica panicked sending an error to its master after processing the command '{name}'"
    );
}
