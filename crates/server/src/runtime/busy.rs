//! A thread's work for its other clients while the script of one of them runs for longer than
//! `busy-reply-threshold`, and the work that it postpones until the script's end.
//!
//! Scripts run between polls, when the backend is at hand. From time to time a busy one lets its thread take
//! a turn of the loop: input is read, and answered with BUSY but for the few commands that may run in that
//! time; connections are accepted; output leaves.
//!
//! Invariant: the thread is [`GateState::Excluded`] during such a turn. It touches no shard, as the script
//! has locked some of them or stands behind the closed gate, and it has another [`Keys`] than the script.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use martlet_command::Error;
use martlet_engine::{Keys, View, Waiter, WatchFlag};
use martlet_keyspace::Key;
use martlet_net::{Backend, Buffer, Token};
use martlet_script::Engine;

use super::outbox::Action;
use super::{GateState, Worker};
use crate::config::ShutdownFlags;
use crate::connection::{Connection, Watched};
use crate::migration::state::MigrationStep;
use crate::runtime::Mail;
use crate::scripting::facts::busy;
use crate::slow_path::SlowPathReason;

/// Nothing more is received for the script's own client while so much waits for the script's end.
const WAITING_BYTES_MAX: usize = 256 * 1024;

/// How long a turn lasts at most that is taken while something waits for a busy script.
const WAIT: Duration = Duration::from_millis(20);

/// A worker's backend.
#[derive(Default)]
pub(super) enum BackendPlace {
    /// Absent: the worker is not an I/O thread's.
    #[default]
    None,
    /// Available.
    AtHand(Box<dyn Backend + Send>),
    /// In use.
    Taken,
}

/// The backend's report of the client whose script is busy.
enum Report {
    Received(Vec<u8>),
    Sent(Buffer, io::Result<()>),
    Closed(Option<io::Error>),
}

/// The client whose script is busy: its connection is in use.
pub(super) struct ScriptClient {
    token: Token,
    reports: Vec<Report>,
    waiting_bytes: usize,
    is_paused: bool,
}

/// The remaining work of a client that has gone, or continues.
enum Unhook {
    Waiter(Vec<u8>, Arc<Waiter>),
    Watch(Watched, Arc<WatchFlag>),
}

/// Work that waits until no script is busy.
#[derive(Default)]
pub(super) struct Postponed {
    /// Requests of other threads.
    pub mail: VecDeque<Mail>,
    /// Keys whose watchers and waiters are to be removed from their shards.
    hooks: Vec<Unhook>,
    /// Steps of MIGRATEs whose keys' shards a busy script has.
    migrations: Vec<MigrationStep>,
    /// SHUTDOWN NOSAVE.
    pub shutdown: Option<ShutdownFlags>,
}

impl Worker {
    /// Lets `work` use the backend, if it is at hand.
    pub(super) fn with_backend<R>(
        &mut self,
        work: impl FnOnce(&mut Worker, &mut dyn Backend) -> R,
    ) -> Option<R> {
        match std::mem::replace(&mut self.backend, BackendPlace::Taken) {
            BackendPlace::AtHand(mut backend) => {
                let result = work(self, &mut *backend);
                self.backend = BackendPlace::AtHand(backend);
                Some(result)
            }
            other => {
                self.backend = other;
                None
            }
        }
    }

    /// Whether a script must not begin: the thread polls, and could serve no other client in that time.
    pub(crate) fn is_polling(&self) -> bool {
        matches!(self.backend, BackendPlace::Taken)
    }

    /// Whether the thread must not touch shards, since a script is busy.
    #[inline]
    pub(crate) fn is_excluded(&self) -> bool {
        matches!(self.gate_state, GateState::Excluded)
    }

    /// A busy script keeps the gate closed: requests of this thread are refused until it leaves.
    #[cold]
    pub(super) fn exclude_from_gate(&mut self) -> GateState {
        self.shared.slow_path_reasons.hold(SlowPathReason::ScriptBusy);
        GateState::Excluded
    }

    /// Ends that.
    #[cold]
    pub(super) fn return_to_gate(&mut self) {
        self.shared.slow_path_reasons.release(SlowPathReason::ScriptBusy);
    }

    /// Takes a turn for the thread's clients while something waits for a busy script; false, at once, if the
    /// backend is not at hand.
    pub(super) fn wait_for_script(&mut self) -> bool {
        let turn = self.with_backend(|worker, backend| {
            worker.leave();
            worker.gate_state = worker.exclude_from_gate();
            let result = worker.poll_while_script_runs(None, WAIT, backend);
            worker.leave();
            result
        });
        match turn {
            Some(Ok(())) => true,
            Some(Err(error)) => self.end_for(error),
            None => false,
        }
    }

    /// Ends the server since the backend is broken.
    fn end_for(&mut self, error: io::Error) -> bool {
        self.backend_failure = Some(error);
        self.shared.stop();
        false
    }

    /// The answer to requests that do not wait for a busy script.
    pub(crate) fn busy_error(&self) -> Error {
        busy(self.shared.scripts.busy_engine().unwrap_or(Engine::Eval))
    }

    /// Whether the thread's own script is busy.
    pub(crate) fn has_busy_script(&self) -> bool {
        self.script_client.is_some()
    }

    /// Serves the thread's other clients for a turn, while the script of the client at `token` is busy: for
    /// what there is, or until something comes, at most for `wait`. `guest` stands in for the script's keys.
    pub(crate) fn serve_others(&mut self, token: Token, guest: &mut Keys, wait: Duration) {
        self.with_backend(|worker, backend| {
            worker.script_client.get_or_insert_with(|| {
                Box::new(ScriptClient { token, reports: Vec::new(), waiting_bytes: 0, is_paused: false })
            });
            std::mem::swap(&mut worker.keys, guest);
            let place = std::mem::replace(&mut worker.gate_state, GateState::Excluded);
            let messages = worker.scripts.hold(None);
            let origin = worker.pushes.set_origin(0);
            let (mark, anchor) = (worker.mark, worker.turn.anchor());
            worker.refresh_time();
            // For the script, time stands still between two such turns: one that waits for a moment ends.
            let frozen_us = worker.turn.anchor().0;
            if let Err(error) = worker.poll_while_script_runs(Some(token), wait, backend) {
                worker.end_for(error);
            }
            worker.mark = mark;
            worker.turn.set_anchor(anchor);
            worker.turn.freeze_at(frozen_us);
            worker.now_ms = frozen_us / 1_000;
            worker.base_view.now_ms = worker.now_ms;
            worker.pushes.set_origin(origin);
            worker.scripts.hold(messages);
            worker.gate_state = place;
            std::mem::swap(&mut worker.keys, guest);
            worker.keys.see(View { now_ms: worker.now_ms, ..worker.keys.view() });
            // The configuration may have changed since.
            worker.keys.effects.wanted_events = guest.effects.wanted_events;
        });
    }

    /// A turn of the loop in which no key is touched; `token` is that of the client whose script is busy.
    fn poll_while_script_runs(
        &mut self,
        token: Option<Token>,
        wait: Duration,
        backend: &mut dyn Backend,
    ) -> io::Result<()> {
        self.send_but_to(token, backend);
        backend.poll(Some(wait), self)?;
        self.inbox.note_if(self.shared.has_mail(self.thread));
        self.read_mail();
        self.process_ready();
        self.send_but_to(token, backend);
        Ok(())
    }

    /// Hands all output to the backend but that of this client.
    fn send_but_to(&mut self, token: Option<Token>, backend: &mut dyn Backend) {
        self.act(backend);
        let dirty = &mut self.outbox.dirty;
        let own = dirty.iter().position(|of| Some(*of) == token).map(|at| dirty.swap_remove(at));
        self.flush(backend);
        self.outbox.dirty.extend(own);
        self.act(backend);
    }

    /// Whether a connection is not in its place because its client's script is busy.
    pub(super) fn is_aside(&self, token: Token) -> bool {
        self.script_client.as_ref().is_some_and(|script_client| script_client.token == token)
    }

    fn keep_report(&mut self, token: Token, report: impl FnOnce() -> Report) {
        if let Some(script_client) =
            self.script_client.as_mut().filter(|script_client| script_client.token == token)
        {
            script_client.reports.push(report());
        }
    }

    /// Keeps bytes for a connection that is not in its place, if that is why.
    #[cold]
    pub(super) fn received_aside(&mut self, token: Token, data: &[u8]) {
        self.keep_report(token, || Report::Received(data.to_vec()));
        if let Some(script_client) =
            self.script_client.as_mut().filter(|script_client| script_client.token == token)
        {
            script_client.waiting_bytes += data.len();
            if script_client.waiting_bytes > WAITING_BYTES_MAX && !script_client.is_paused {
                script_client.is_paused = true;
                self.outbox.actions.push(Action::Pause(token));
            }
        }
    }

    /// As [`Worker::received_aside`] of a buffer that was sent.
    #[cold]
    pub(super) fn sent_aside(&mut self, token: Token, buffer: Buffer, result: io::Result<()>) {
        self.keep_report(token, || Report::Sent(buffer, result));
    }

    /// As [`Worker::received_aside`] of the end.
    #[cold]
    pub(super) fn closed_aside(&mut self, token: Token, reason: Option<io::Error>) {
        self.keep_report(token, || Report::Closed(reason));
    }

    /// Hands the input of the client with the busy script to `take`; whether that client has closed.
    pub(crate) fn take_input_aside(&mut self, mut take: impl FnMut(&[u8])) -> bool {
        let Some(script_client) = &mut self.script_client else { return false };
        script_client.reports.retain(|report| match report {
            Report::Received(data) => {
                take(data);
                false
            }
            _ => true,
        });
        script_client.waiting_bytes = 0;
        if std::mem::take(&mut script_client.is_paused) {
            self.outbox.actions.push(Action::Resume(script_client.token));
        }
        script_client.reports.iter().any(|report| matches!(report, Report::Closed(_)))
    }

    /// Sends a client something while its script is busy, before the reply to the request.
    pub(crate) fn send_aside(&mut self, connection: &mut Connection, bytes: Vec<u8>) {
        let buffer = Buffer::from(bytes);
        connection.in_flight.push(&buffer);
        self.with_backend(|_, backend| backend.send(connection.token, buffer));
    }

    /// Continues with a client whose script was busy: its requests since are its next input.
    pub(super) fn rejoin(&mut self) {
        let Some(script_client) = self.script_client.take() else { return };
        let token = script_client.token;
        if script_client.is_paused {
            self.outbox.actions.push(Action::Resume(token));
        }
        for report in script_client.reports {
            match report {
                Report::Received(data) => {
                    use martlet_net::Sink;
                    let Some(mut connection) = self.take(token) else { continue };
                    // It is not run here.
                    self.mark_ready(&mut connection);
                    self.put(connection);
                    self.received(token, &data);
                }
                Report::Sent(buffer, result) => martlet_net::Sink::sent(self, token, buffer, result),
                Report::Closed(reason) => martlet_net::Sink::closed(self, token, reason),
            }
        }
    }

    /// Whether mail waits until no script is busy: it is for the client whose script is, or touches keys.
    pub(super) fn must_wait(&self, mail: &Mail) -> bool {
        match mail {
            Mail::Recheck | Mail::Run(_) => true,
            Mail::Monitored { token, .. } | Mail::Notice { token, .. } | Mail::Kill { token, .. } => {
                self.is_aside(*token)
            }
            Mail::Message(delivery) => delivery.receivers.iter().any(|one| self.is_aside(one.token)),
            Mail::Adopt { .. }
            | Mail::Move { .. }
            | Mail::Served { .. }
            | Mail::Unblock { .. }
            | Mail::RunAgain { .. } => false,
        }
    }

    /// Ends the thread's busy script, whatever it has done, and then the server.
    pub(crate) fn end_after_script(&mut self, flags: ShutdownFlags) {
        self.shared.scripts.is_ending.store(true, Ordering::Relaxed);
        self.postponed.shutdown = Some(flags);
    }

    /// Takes a waiter out of a key's shard, later if it would have to wait for a busy script.
    pub(crate) fn remove_hook_of_waiter(&mut self, key: &[u8], waiter: &Arc<Waiter>) {
        self.unhook(Unhook::Waiter(key.to_vec(), waiter.clone()));
    }

    /// As [`Worker::remove_hook_of_waiter`] of a watched key; whether it has been done.
    pub(crate) fn remove_hook_of_watch(&mut self, watched: Watched, flag: &Arc<WatchFlag>) -> bool {
        self.unhook(Unhook::Watch(watched, flag.clone()))
    }

    fn unhook(&mut self, what: Unhook) -> bool {
        let name = match &what {
            Unhook::Waiter(key, _) => key,
            Unhook::Watch(watched, _) => &watched.key,
        };
        let key = Key::new(name);
        let is_locked = self.keys.covers(key.shard());
        if !is_locked && (self.is_excluded() || !self.keys.lock_shard_unless_busy(key.shard())) {
            self.postponed.hooks.push(what);
            return false;
        }
        let hooks = self.keys.hooks_mut(&key);
        match &what {
            Unhook::Waiter(key, waiter) => hooks.unblock(waiter.db, key, waiter),
            Unhook::Watch(watched, flag) => hooks.unwatch(watched.db, &watched.key, flag),
        }
        if !is_locked {
            self.keys.release();
        }
        true
    }

    /// Has a MIGRATE continue when no script is busy.
    pub(crate) fn postpone_migration(&mut self, step: MigrationStep) {
        self.postponed.migrations.push(step);
    }

    /// Does the work that has waited for the end of busy scripts.
    pub(super) fn do_postponed(&mut self) {
        if self.shared.engine.has_busy_script() {
            return;
        }
        if !self.postponed.hooks.is_empty() || !self.keys.ready.is_empty() {
            self.enter();
            for what in std::mem::take(&mut self.postponed.hooks) {
                self.unhook(what);
            }
            if !self.is_excluded() {
                self.serve_ready();
            }
        }
        if !self.postponed.migrations.is_empty() {
            self.enter();
            if !self.is_excluded() {
                let steps = std::mem::take(&mut self.postponed.migrations);
                steps.into_iter().for_each(|step| (self.hooks.migrate)(self, step));
            }
        }
        self.inbox.note_if(!self.postponed.mail.is_empty());
        if let Some(flags) = self.postponed.shutdown.take() {
            self.enter();
            (self.hooks.shut_down)(self, flags);
        }
    }
}
