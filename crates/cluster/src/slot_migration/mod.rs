//! Atomic slot migration as in Valkey 9: both ends of it, and the log of past jobs, without sockets, keys or
//! clocks. Events are inputs and actions are outputs, in order.
//!
//! ```text
//!  export (source)                              import (target)
//!  connect, AUTH, SYNCSLOTS ESTABLISH ────────▶ accepted; the slots' keys are hidden here
//!  ACK ───────────────────────────────────────▶ ReceivingSnapshot
//!  Snapshotting: keys, SNAPSHOT-EOF ──────────▶ WaitingForPaused
//!  Replicating: changes ──────────────────────▶
//!               ◀───────────────── REQUEST-PAUSE
//!  Paused: the last changes, PAUSED ──────────▶ FailoverRequested
//!               ◀────────────── REQUEST-FAILOVER
//!  ExportGranted: FAILOVER-GRANTED ───────────▶ ImportGranted: takes the slots, Success
//!  Success once the bus reports it ◀ ─ ─ ─ ─ ─ ─
//! ```
//!
//! Invariant: before the source has consented the target does not take the slots, and from its consent until
//! the bus names their owner, or the pause is over, the source accepts no write. An import that does not
//! succeed leaves no key of its slots.

mod job;
mod message;
mod parse;
mod pull;
mod task;

use std::collections::VecDeque;

use martlet_base::random::Random;

use crate::id::NodeId;
use crate::machine::{CommandError, Time};
pub use job::{Job, JobId, Operation, State};
pub use message::Message;
pub use parse::{Establish, Finish, Request, parse_establish, parse_finish, parse_requests};
pub use task::{Step, Task};

/// Between two signs of life.
const ACK_PERIOD_MS: i64 = 1_000;
/// Least time after its consent in which the source accepts no write.
const GRANT_MS: i64 = 2_000;
/// The last part of the errors about a connection that has ended.
const LOST_TARGET: &str = "Connection lost to target. Check CLUSTER GETSLOTMIGRATIONS on the target node for more \
                           information.";
const LOST_SOURCE: &str = "Connection lost to source. Check CLUSTER GETSLOTMIGRATIONS on the source node for more \
                           information.";
const UNEXPECTED: &str = "Unexpected state machine transition";
const NOT_MINE: &str = "Slots are no longer owned by myself";

/// An action for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect to the target; then [`SlotMigrations::connected`] and so on, or [`SlotMigrations::fail`].
    Connect(JobId),
    /// Delete keys of slots that are not this node's yet, and have replicas and the append-only file hear of
    /// the import.
    Mark(JobId),
    /// Connect to the source, and ask it for the slots; then [`SlotMigrations::reached`] and so on.
    Pull(JobId),
    /// Another attempt of the task is due: [`SlotMigrations::retry`].
    Retry,
    /// Say this to the other end, after all that was said or sent before.
    Send(JobId, Message),
    /// Make a cut of the slots unless another is under way: [`SlotMigrations::snapshot_begun`].
    Snapshot(JobId),
    /// Pause writes if few changes are left: [`SlotMigrations::paused`].
    TryPause(JobId),
    /// Resume writes, unless [`SlotMigrations::holds_writes`] again.
    Resume,
    /// Take the slots; all that the source had is here.
    TakeSlots(JobId),
    /// Delete the keys of slots that are not this node's: [`SlotMigrations::cleaned`].
    CleanUp(JobId),
    /// Other slots' keys are to be hidden than before: [`SlotMigrations::importing`].
    Hide,
    /// Tell replicas and the append-only file how an import has ended.
    TellEnd {
        /// Its name.
        name: NodeId,
        /// It has succeeded.
        is_success: bool,
        /// Why not.
        message: Option<String>,
    },
    /// End the connection, which is not this job's any more.
    Close(JobId),
    /// A line for the log.
    Log {
        /// An operator should look at it.
        is_warning: bool,
        /// The line.
        text: String,
    },
}

/// The configured limits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `repl-timeout`, in seconds.
    pub silence_s: i64,
    /// `cluster-manual-failover-timeout`, in milliseconds.
    pub failover_ms: i64,
    /// `cluster-slot-migration-log-max-len`.
    pub log_max: usize,
    /// `cluster-slot-migration-max-archived-tasks`.
    pub archive_max: usize,
    /// `cluster-slot-migration-write-pause-timeout`, in milliseconds.
    pub pause_ms: i64,
    /// `cluster-slot-migration-sync-buffer-drain-timeout`, in milliseconds.
    pub drain_ms: i64,
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct SlotMigrations {
    /// The newest first.
    jobs: VecDeque<Job>,
    /// The task of Redis' kind that is not over.
    task: Option<Task>,
    /// Tasks that are over, the newest first.
    archive: VecDeque<Task>,
    next: u64,
    random: Random,
    limits: Limits,
    /// Imports that fail are deleted here; a replica leaves that to its primary.
    is_primary: bool,
    /// The step at which a test stops the job.
    held_up: HeldUp,
    actions: Vec<Action>,
}

/// Steps that are not taken for the time being (DEBUG SLOTMIGRATION).
#[derive(Clone, Copy, Debug, Default)]
pub struct HeldUp {
    /// An export does not let writers wait.
    pub pause: bool,
    /// An import does not take the slots.
    pub takeover: bool,
}

impl SlotMigrations {
    /// None yet.
    pub fn new(random: Random, limits: Limits, is_primary: bool) -> SlotMigrations {
        SlotMigrations {
            jobs: VecDeque::new(),
            task: None,
            archive: VecDeque::new(),
            next: 1,
            random,
            limits,
            is_primary,
            held_up: HeldUp::default(),
            actions: Vec::new(),
        }
    }

    /// Takes up another configuration.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.archive.truncate(limits.archive_max);
        self.trim();
    }

    /// Changes which steps are not taken.
    pub fn hold_up(&mut self, change: impl FnOnce(&mut HeldUp)) {
        change(&mut self.held_up);
    }

    /// The actions, in order.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Whether there is anything to be done.
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// All there are, the newest first, those that are over included, and attempts of a task.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter()
    }

    /// One of them.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.iter().find(|job| job.id == id)
    }

    /// Whether anything is to be looked at as time passes.
    pub fn is_active(&self) -> bool {
        self.jobs.iter().any(|job| !job.state.is_finished())
            || self.task.as_ref().is_some_and(Task::is_active)
    }

    fn is_of(&self, operation: Operation, slot: u16) -> bool {
        let is_it = |job: &Job| job.operation == operation && !job.state.is_finished() && job.has_slot(slot);
        self.jobs.iter().any(is_it)
    }

    /// Whether a slot is on its way from here.
    pub fn is_exporting(&self, slot: u16) -> bool {
        self.is_of(Operation::Export, slot)
    }

    /// Whether a slot is on its way to here, so that its keys are hidden.
    pub fn is_importing(&self, slot: u16) -> bool {
        self.is_of(Operation::Import, slot)
    }

    /// Whether slots may be moved key by key.
    ///
    /// # Errors
    /// While some are moved all at once.
    pub fn check_idle(&self) -> Result<(), CommandError> {
        let is_export = |job: &Job| job.operation == Operation::Export && !job.state.is_finished();
        if self.imports().next().is_some() {
            return Err(CommandError("Slot import in progress.".into()));
        }
        if self.jobs.iter().any(is_export) {
            return Err(CommandError("Slot export in progress.".into()));
        }
        Ok(())
    }

    /// Whether an import of this name is under way.
    pub fn knows_import(&self, name: NodeId) -> bool {
        self.imports().any(|job| job.name == name)
    }

    /// All slots whose keys are hidden.
    pub fn importing(&self) -> Vec<u16> {
        self.imports().flat_map(Job::slots).collect()
    }

    fn log(&mut self, is_warning: bool, text: String) {
        self.actions.push(Action::Log { is_warning, text });
    }

    fn at(&self, id: JobId) -> Option<usize> {
        self.jobs.iter().position(|job| job.id == id)
    }

    /// The job if it may still succeed.
    fn current(&self, id: JobId) -> Option<usize> {
        self.at(id).filter(|at| self.jobs[*at].state.is_in_progress())
    }

    fn next_id(&mut self) -> JobId {
        self.next += 1;
        JobId(self.next)
    }

    // ---- beginning ----

    /// MIGRATESLOTS: slots of this node go to another.
    pub fn export(&mut self, now: Time, nodes: (NodeId, NodeId), ranges: Vec<(u16, u16)>) -> JobId {
        let (id, name) = (self.next_id(), NodeId::random(&mut self.random));
        let mut job = Job::new(id, Operation::Export, State::Connecting, name, now);
        (job.nodes, job.ranges) = (Some(nodes), ranges);
        let text =
            format!("Slot migration initiated through CLUSTER MIGRATESLOTS command: {}", job.description());
        self.jobs.push_front(job);
        self.log(false, text);
        self.actions.push(Action::Connect(id));
        id
    }

    /// SYNCSLOTS ESTABLISH: slots of another node come here; without `nodes`, to this node's primary.
    pub fn import(
        &mut self,
        now: Time,
        name: NodeId,
        nodes: Option<(NodeId, NodeId)>,
        ranges: Vec<(u16, u16)>,
    ) -> JobId {
        let id = self.next_id();
        let state = if nodes.is_some() { State::WaitingForAck } else { State::OccurringOnPrimary };
        let mut job = Job::new(id, Operation::Import, state, name, now);
        (job.nodes, job.ranges) = (nodes, ranges);
        let text = format!("New slot import job created: {}.", job.description());
        self.jobs.push_front(job);
        self.log(false, text);
        self.actions.push(Action::Hide);
        id
    }

    /// The data that has been loaded has keys of slots that were on their way here, or to this node's
    /// primary.
    pub fn found(&mut self, now: Time, name: NodeId, ranges: Vec<(u16, u16)>) {
        if !self.knows_import(name) {
            self.import(now, name, None, ranges);
        }
    }

    /// The data set came from files and is complete: a primary deletes keys of unfinished imports, of which
    /// nothing more comes. A replica continues with its primary.
    pub fn restarted(&mut self, now: Time) {
        if self.is_primary {
            let is_found = |job: &Job| job.operation == Operation::Import && job.is_tracking_only();
            self.fail_all(now, "Process restarted", is_found);
        }
    }

    /// Imports that are not over.
    pub fn imports(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(|job| job.operation == Operation::Import && !job.state.is_finished())
    }

    // ---- the export's connection ----

    fn step(&mut self, now: Time, at: usize, state: State) {
        let job = &mut self.jobs[at];
        let text = format!(
            "Slot migration {} state transition: {} -> {}",
            job.description(),
            job.state.name(),
            state.name()
        );
        (job.state, job.updated_s) = (state, now.unix_ms / 1_000);
        self.log(false, text);
        self.note_state(now, at);
    }

    /// Goes from one state to the next; whether it was in the first.
    fn advance(&mut self, now: Time, id: JobId, from: State, to: State) -> bool {
        let Some(at) = self.current(id).filter(|at| self.jobs[*at].state == from) else { return false };
        self.step(now, at, to);
        true
    }

    /// The target takes connections; whether it wants a password.
    pub fn connected(&mut self, now: Time, id: JobId, authenticates: bool) {
        let next = if authenticates { State::SendingAuth } else { State::SendingEstablish };
        self.advance(now, id, State::Connecting, next);
    }

    /// AUTH has been sent.
    pub fn auth_sent(&mut self, now: Time, id: JobId) {
        self.advance(now, id, State::SendingAuth, State::ReadingAuthResponse);
    }

    /// The target has accepted the credentials.
    pub fn authenticated(&mut self, now: Time, id: JobId) {
        self.advance(now, id, State::ReadingAuthResponse, State::SendingEstablish);
    }

    /// ESTABLISH has been sent.
    pub fn establish_sent(&mut self, now: Time, id: JobId) {
        self.advance(now, id, State::SendingEstablish, State::ReadingEstablishResponse);
    }

    /// The target has accepted.
    pub fn established(&mut self, now: Time, id: JobId) {
        if self.advance(now, id, State::ReadingEstablishResponse, State::WaitingToSnapshot) {
            self.send(now, id, Message::Ack);
            self.actions.push(Action::Snapshot(id));
        }
    }

    /// The cut has been made.
    pub fn snapshot_begun(&mut self, now: Time, id: JobId) {
        self.advance(now, id, State::WaitingToSnapshot, State::Snapshotting);
    }

    /// All keys of the cut have been sent.
    pub fn snapshot_sent(&mut self, now: Time, id: JobId) {
        if let Some(at) = self.current(id).filter(|at| self.jobs[*at].is_attempt) {
            self.jobs[at].acked_s = now.unix_ms / 1_000;
        }
        self.advance(now, id, State::Snapshotting, State::Replicating);
    }

    /// Whether writers are not to be let wait yet, though an export wants that.
    pub fn may_not_pause(&self) -> bool {
        self.held_up.pause
    }

    /// Whether writes are paused.
    pub fn holds_writes(&self) -> bool {
        self.jobs.iter().any(|job| job.paused_until_ms.is_some())
    }

    /// Whether writes are paused now, as [`Action::TryPause`] asked for. A job that has ended since does not
    /// want that: see [`SlotMigrations::holds_writes`].
    pub fn paused(&mut self, now: Time, id: JobId, is_paused: bool) {
        let Some(at) = self.current(id) else { return };
        if !matches!(self.jobs[at].state, State::Replicating | State::WaitingToPause) {
            return;
        }
        if is_paused {
            let is_task = self.jobs[at].is_attempt;
            let pause_ms = if is_task { self.limits.pause_ms } else { 2 * self.limits.failover_ms };
            self.jobs[at].paused_until_ms = Some(now.mono_ms.saturating_add(pause_ms));
            self.send(now, id, if is_task { Message::StreamEof } else { Message::Paused });
            self.step(now, at, State::Paused);
        } else if self.jobs[at].state == State::Replicating {
            self.step(now, at, State::WaitingToPause);
        }
    }

    fn send(&mut self, now: Time, id: JobId, message: Message) {
        if let Some(at) = self.at(id) {
            self.jobs[at].told_ms = now.mono_ms;
        }
        self.actions.push(Action::Send(id, message));
    }

    // ---- messages of the other end ----

    /// The other end has said something.
    pub fn hear(&mut self, now: Time, id: JobId, message: Message) {
        let Some(at) = self.current(id) else { return };
        let (operation, state) = (self.jobs[at].operation, self.jobs[at].state);
        if self.jobs[at].is_attempt {
            return self.hear_source(now, id, message);
        }
        match (message, operation, state) {
            (Message::Ack, ..) => {
                self.jobs[at].acked_s = now.unix_ms / 1_000;
                if state == State::WaitingForAck {
                    self.step(now, at, State::ReceivingSnapshot);
                }
            }
            (Message::SnapshotEof, _, State::ReceivingSnapshot) => {
                self.send(now, id, Message::RequestPause);
                self.step(now, at, State::WaitingForPaused);
            }
            (Message::Paused, _, State::WaitingForPaused) => {
                self.send(now, id, Message::RequestFailover);
                self.jobs[at].requested_ms = now.mono_ms;
                self.step(now, at, State::FailoverRequested);
            }
            (Message::FailoverGranted, _, State::FailoverRequested) => {
                self.step(now, at, State::ImportGranted);
                self.try_takeover(now, at);
            }
            (Message::RequestPause, _, State::Snapshotting | State::Replicating) => {
                self.snapshot_sent(now, id);
                self.actions.push(Action::TryPause(id));
            }
            (Message::RequestFailover, _, State::Paused) => self.grant(now, at),
            // The message does not change that the other end may have the slots.
            (_, _, State::ExportGranted) => {}
            (Message::Unknown, ..) => self.fail_at(now, at, "Unknown SYNCSLOTS subcommand used"),
            _ => self.fail_at(now, at, UNEXPECTED),
        }
    }

    /// Takes the slots that the source has consented to give. That is possible for a limited time after the
    /// request: then the source may resume writes.
    fn try_takeover(&mut self, now: Time, at: usize) {
        let job = &self.jobs[at];
        if now.mono_ms - job.requested_ms > GRANT_MS {
            self.fail_at(now, at, "Unpaused before failover completed");
        } else if !self.held_up.takeover {
            self.actions.push(Action::TakeSlots(job.id));
        }
    }

    fn grant(&mut self, now: Time, at: usize) {
        let job = &mut self.jobs[at];
        let until_ms = job.paused_until_ms.unwrap_or(i64::MIN);
        if until_ms < now.mono_ms {
            return self.fail_at(now, at, "Unpaused before failover completed");
        }
        job.paused_until_ms = Some(until_ms.max(now.mono_ms + GRANT_MS));
        let id = job.id;
        self.send(now, id, Message::FailoverGranted);
        self.step(now, at, State::ExportGranted);
    }

    /// The slots of a job that [`Action::TakeSlots`] names; `None` if it has ended since.
    pub fn slots_to_take(&self, id: JobId) -> Option<Vec<u16>> {
        self.current(id).map(|at| self.jobs[at].slots().collect())
    }

    /// [`Action::TakeSlots`] has been done: the slots are this node's.
    pub fn taken(&mut self, now: Time, id: JobId) {
        if let Some(at) = self.current(id) {
            let text = format!(
                "Slot migration {} completed successfully. This node is now the owner of the slots",
                self.jobs[at].description()
            );
            self.log(false, text);
            self.end(now, at, State::Success, None);
        }
    }

    /// The keys of an import that has not succeeded have been deleted.
    pub fn cleaned(&mut self, now: Time, id: JobId) {
        if let Some(at) = self.at(id).filter(|at| self.jobs[*at].state == State::CleaningUp) {
            let message = self.jobs[at].message.clone();
            self.finish(now, at, State::Failed, message);
        }
    }

    /// The connection has ended.
    pub fn lost(&mut self, now: Time, id: JobId) {
        let Some(at) = self.current(id) else { return };
        let job = &self.jobs[at];
        if job.is_tracking_only() || job.state == State::ExportGranted {
            // The target may have taken the slots: the bus will tell, or the pause will be over.
            return;
        }
        let (text, operation) =
            (format!("Slot migration {} connection lost", job.description()), job.operation);
        self.log(false, text);
        let why = match (operation, self.jobs[at].is_attempt) {
            (Operation::Export, true) => "Main and RDB channel clients are disconnected.",
            (Operation::Import, true) => "Main channel - Connection is closed",
            (Operation::Export, false) => LOST_TARGET,
            (Operation::Import, false) => LOST_SOURCE,
        };
        self.fail_at(now, at, why);
    }

    // ---- ending ----

    /// Something about it has failed.
    pub fn fail(&mut self, now: Time, id: JobId, why: &str) {
        if let Some(at) = self.current(id) {
            self.fail_at(now, at, why);
        }
    }

    fn fail_at(&mut self, now: Time, at: usize, why: &str) {
        self.end(now, at, State::Failed, Some(why.to_owned()));
    }

    fn fail_all(&mut self, now: Time, why: &str, concerned: impl Fn(&Job) -> bool) {
        for at in 0..self.jobs.len() {
            if self.jobs[at].state.is_in_progress() && concerned(&self.jobs[at]) {
                self.fail_at(now, at, why);
            }
        }
    }

    /// Ends a job that is in progress: what an import has got so far goes first, if it is this node's affair.
    fn end(&mut self, now: Time, at: usize, state: State, message: Option<String>) {
        let job = &mut self.jobs[at];
        job.message.clone_from(&message);
        let (id, operation, was_tracked) = (job.id, job.operation, job.is_tracking_only());
        if operation == Operation::Export && job.paused_until_ms.take().is_some() {
            self.resume();
        }
        if !was_tracked {
            self.actions.push(Action::Close(id));
        }
        self.note_end(now, id, state, message.as_deref());
        if operation == Operation::Import && self.is_primary && state != State::Success {
            self.step(now, at, State::CleaningUp);
            self.actions.push(Action::CleanUp(id));
        } else {
            self.finish(now, at, state, message);
        }
    }

    fn resume(&mut self) {
        if !self.holds_writes() {
            self.actions.push(Action::Resume);
        }
    }

    fn finish(&mut self, now: Time, at: usize, state: State, message: Option<String>) {
        self.conclude(now, at, state, message.as_deref());
        let job = &self.jobs[at];
        if job.operation == Operation::Import && self.is_primary {
            let (name, is_success) = (job.name, state == State::Success);
            self.actions.push(Action::TellEnd { name, is_success, message });
        }
    }

    /// As [`SlotMigrations::finish`], without a message to the other end.
    fn conclude(&mut self, now: Time, at: usize, state: State, message: Option<&str>) {
        self.step(now, at, state);
        let job = &self.jobs[at];
        let text = format!(
            "Slot migration {} finished. State: {}, Message: {}",
            job.description(),
            state.name(),
            message.unwrap_or("none")
        );
        let operation = job.operation;
        self.log(state == State::Failed, text);
        if operation == Operation::Import {
            self.actions.push(Action::Hide);
        }
    }

    /// CANCELSLOTMIGRATIONS; whether there was anything to cancel.
    pub fn cancel(&mut self, now: Time) -> bool {
        let is_export =
            |job: &Job| job.operation == Operation::Export && job.state.is_in_progress() && !job.is_attempt;
        let any = self.jobs.iter().any(is_export);
        for at in 0..self.jobs.len() {
            // The node that got the consent may have the slots already: a write here would be lost.
            if is_export(&self.jobs[at]) && self.jobs[at].state != State::ExportGranted {
                self.end(now, at, State::Cancelled, None);
            }
        }
        any
    }

    /// All keys have been deleted.
    pub fn flushed(&mut self, now: Time) {
        self.fail_all(now, "Data was flushed", |job| job.state != State::ExportGranted);
    }

    /// An import cannot be gone on with, as there is no memory.
    pub fn out_of_memory(&mut self, now: Time, id: JobId) {
        self.fail(now, id, "Ran out of memory (OOM) during slot import");
    }

    /// A command of the source has failed here.
    pub fn command_failed(&mut self, now: Time, id: JobId) {
        self.fail(
            now,
            id,
            "Failed to process command during slot migration. Check logs for more information",
        );
    }

    /// SYNCSLOTS FINISH, of the primary; whether it is about a job that is known.
    pub fn end_told(&mut self, now: Time, finish: &Finish) -> bool {
        let Some(at) = self.jobs.iter().position(|job| job.name == finish.name) else { return false };
        if !self.jobs[at].state.is_finished() {
            self.jobs[at].message.clone_from(&finish.message);
            self.finish(now, at, finish.state(), finish.message.clone());
        }
        true
    }

    /// The same of a file that is loaded.
    pub fn end_found(&mut self, now: Time, finish: &Finish) {
        let is_it = |job: &Job| job.name == finish.name && job.is_tracking_only() && !job.state.is_finished();
        if let Some(at) = self.jobs.iter().position(is_it) {
            self.jobs[at].message.clone_from(&finish.message);
            self.conclude(now, at, finish.state(), finish.message.as_deref());
        }
    }

    // ---- changes of the cluster ----

    /// Owners of slots have changed, or this node's role: `owner` gives a slot's owner, `myself` this node.
    pub fn follow_table(
        &mut self,
        now: Time,
        myself: NodeId,
        is_primary: bool,
        owner: impl Fn(u16) -> Option<NodeId>,
    ) {
        let was_primary = std::mem::replace(&mut self.is_primary, is_primary);
        if was_primary && !is_primary {
            self.cancel_task(now, "switching to replica");
        }
        if is_primary && !was_primary {
            let is_import = |job: &Job| job.operation == Operation::Import;
            self.fail_all(now, "A failover occurred during slot import", is_import);
        }
        for at in 0..self.jobs.len() {
            let job = &self.jobs[at];
            let Some((source, target)) = job.nodes.filter(|_| job.state.is_in_progress()) else { continue };
            let only = job.only_owner(&owner);
            let (is_mine, id) = (only == Some(myself), job.id);
            match job.operation {
                Operation::Export if job.is_attempt && !is_mine && job.state != State::ExportGranted => {
                    self.cancel_task(now, "slots configuration updated");
                }
                Operation::Export if only == Some(target) => {
                    let text =
                        format!("Slot migration {} slots are now owned by target node.", job.description());
                    self.log(false, text);
                    self.end(now, at, State::Success, None);
                }
                Operation::Export if !is_mine || !is_primary => self.fail_at(now, at, NOT_MINE),
                Operation::Import if !is_primary => {
                    self.jobs[at].nodes = None;
                    self.step(now, at, State::OccurringOnPrimary);
                    self.actions.push(Action::Close(id));
                }
                Operation::Import if job.is_attempt && is_mine => {
                    self.cancel_task(now, "slots configuration updated");
                }
                // The next attempt asks their new owner, if it is one node.
                Operation::Import if job.is_attempt && only != Some(source) => {
                    self.fail_at(now, at, "slots configuration updated");
                }
                Operation::Import if is_mine => {
                    self.fail_at(now, at, "Slots were unexpectedly assigned to myself during import");
                }
                Operation::Import if only != Some(source) => {
                    self.fail_at(now, at, "Slots are no longer owned by source node");
                }
                _ => {}
            }
        }
    }

    /// Another data set has been loaded, from the primary or from files: the followed jobs do not belong to
    /// it.
    pub fn loaded(&mut self, now: Time, why: &str) {
        self.fail_all(now, why, |job| job.operation == Operation::Import);
    }

    /// Time passes. `heard_s` says when the source of an import was heard of last, Unix seconds.
    pub fn tick(&mut self, now: Time, heard_s: impl Fn(JobId) -> Option<i64>) {
        for at in 0..self.jobs.len() {
            let job = &self.jobs[at];
            let (id, state) = (job.id, job.state);
            if !state.is_in_progress() || state == State::OccurringOnPrimary {
                continue;
            }
            let heard = match job.operation {
                Operation::Export => job.acked_s,
                Operation::Import => heard_s(id).unwrap_or(job.acked_s),
            };
            if self.awaits_signs_of_life(job) && now.unix_ms / 1_000 - heard > self.limits.silence_s {
                let text = format!(
                    "Timing out slot migration {} after not receiving ack for too long",
                    job.description()
                );
                self.log(true, text);
                self.fail_at(now, at, "Timed out after too long with no interaction");
                continue;
            }
            let is_pause_over = job.paused_until_ms.is_some_and(|until_ms| until_ms < now.mono_ms);
            match state {
                State::WaitingToSnapshot => self.actions.push(Action::Snapshot(id)),
                State::WaitingToPause => self.actions.push(Action::TryPause(id)),
                // It was held up: else it is over by now.
                State::ImportGranted => self.try_takeover(now, at),
                State::Paused | State::ExportGranted if is_pause_over && job.is_attempt => {
                    self.fail_at(now, at, "Server paused timeout");
                }
                State::Paused if is_pause_over => {
                    self.fail_at(now, at, "Timed out before streaming completed");
                }
                State::ExportGranted if is_pause_over => self.give_up_grant(now, at),
                _ => {}
            }
            self.check_drain(now, at);
            let job = &self.jobs[at];
            if !job.is_attempt && job.state.sends_acks() && now.mono_ms - job.told_ms >= ACK_PERIOD_MS {
                self.send(now, id, Message::Ack);
            }
        }
        self.trim();
        self.tick_task(now);
    }

    /// Whether silence of the other end is a failure. A task's target is silent while the snapshot is sent.
    fn awaits_signs_of_life(&self, job: &Job) -> bool {
        let is_silent = matches!(job.state, State::WaitingToSnapshot | State::Snapshotting);
        job.state != State::ExportGranted && !(job.is_attempt && is_silent)
    }

    fn give_up_grant(&mut self, now: Time, at: usize) {
        let text = format!(
            "Write loss risk! During slot migration {}, new owner did not broadcast ownership before we unpaused \
             ourselves. Any writes we have recorded since unpausing may be lost!",
            self.jobs[at].description()
        );
        self.log(true, text);
        self.fail_at(
            now,
            at,
            "Unpaused before migration completed (migration may have succeeded with lost writes)",
        );
    }

    /// Forgets the oldest that are over, beyond as many as the log may have.
    fn trim(&mut self) {
        self.jobs.retain(|job| !(job.is_attempt && job.state.is_finished()));
        let mut over = self.jobs.len().saturating_sub(self.limits.log_max);
        let mut at = self.jobs.len();
        while over > 0 && at > 0 {
            at -= 1;
            if self.jobs[at].state.is_finished() {
                self.jobs.remove(at);
                over -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
