//! Tasks: slot migrations that their targets begin, as in Redis 8.4 and later. There is one at a time.
//!
//! ```text
//!  import (target)                                migrate (source)
//!  connect, AUTH, SYNCSLOTS CONF NODE-ID ───────▶
//!  SYNCSLOTS SYNC id ranges ────────────────────▶ WaitRdbChannel
//!                ◀────────── +RDBCHANNELSYNCSLOTS
//!  second connection: SYNCSLOTS RDBCHANNEL id ──▶ WaitBgsaveStart
//!  AccumulateBuffer ◀──── +SLOTSSNAPSHOT, its keys, SNAPSHOT-EOF; SendBulkAndStream
//!                ◀── changes, by the first connection; SendStream
//!  StreamingBuffer, WaitStreamEof: ACK offset ──▶ few are missing: Handoff, writes wait
//!  Takeover ◀─────────── the last ones, STREAM-EOF; StreamEof
//!  Completed                                      Completed once the bus reports it
//! ```
//!
//! Invariants as for jobs; STREAM-EOF is the source's consent.

use martlet_base::slot_ranges::SlotRanges;

use super::parse::check_import;
use super::{Action, Job, JobId, Message, Operation, SlotMigrations, State, Step, Task};
use crate::id::NodeId;
use crate::machine::{Cluster, CommandError, Time};

/// Between a failed attempt and the next.
const RETRY_MS: i64 = 1_000;
const UNKNOWN_CHANNEL: &str = "Another migration task is already in progress";

impl SlotMigrations {
    /// All tasks: that under way first, then those that have ended, the newest first.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.task.iter().chain(&self.archive)
    }

    /// How many tasks are under way.
    pub fn active_tasks(&self) -> usize {
        self.task.iter().filter(|task| task.is_active()).count()
    }

    fn task_of(&mut self, id: JobId) -> Option<&mut Task> {
        self.task.as_mut().filter(|task| task.job == Some(id))
    }

    /// Notes how far an attempt is.
    pub fn reached(&mut self, id: JobId, step: Step) {
        if let Some(task) = self.task_of(id) {
            task.step = step;
        }
    }

    /// Notes how far an attempt's connection for the snapshot is.
    pub fn channel_reached(&mut self, id: JobId, step: Step) {
        if let Some(task) = self.task_of(id) {
            task.channel = step;
        }
    }

    /// Makes room for another task.
    fn replace_failed(&mut self, now: Time, why: &str) -> bool {
        let is_failed = |task: &Task| task.step == Step::Failed;
        if self.task.as_ref().is_some_and(is_failed) {
            self.cancel_task(now, why);
        }
        self.task.is_none() && !self.is_active()
    }

    // ---- the target ----

    /// MIGRATION IMPORT: slots of another node come here. Returns the task's id.
    ///
    /// # Errors
    /// Why not; nothing has changed.
    pub fn import_slots(
        &mut self,
        now: Time,
        cluster: &Cluster,
        ranges: SlotRanges,
    ) -> Result<NodeId, CommandError> {
        let source = check_import(cluster, &ranges)?;
        let me = cluster.myself().id;
        if source == me {
            return Err(CommandError("this node is already the owner of the slot range".into()));
        }
        if !self.replace_failed(now, "new import requested") {
            return Err(CommandError("another ASM task is already in progress".into()));
        }
        let id = NodeId::random(&mut self.random);
        let mut task = Task::new(now, id, Operation::Import, (source, me));
        task.ranges = ranges;
        self.task = Some(task);
        self.begin_import(now);
        Ok(id)
    }

    fn begin_import(&mut self, now: Time) {
        let Some(task) = &self.task else { return };
        let (id, nodes, ranges) = (task.id, (task.source, task.target), task.ranges.clone());
        let job = self.import(now, id, Some(nodes), ranges);
        if let Some(at) = self.at(job) {
            self.jobs[at].is_attempt = true;
        }
        if let Some(task) = &mut self.task {
            task.begin(now, job, Step::Connecting);
        }
        self.actions.push(Action::Mark(job));
        self.actions.push(Action::Pull(job));
    }

    /// Another attempt of the import, as [`Action::Retry`] asked for, if the slots still come from one node.
    pub fn retry(&mut self, now: Time, cluster: &Cluster) {
        let is_due = |task: &Task| task.step == Step::Failed && task.operation == Operation::Import;
        let Some(task) = self.task.as_ref().filter(|task| is_due(task)) else { return };
        let (ranges, me) = (task.ranges.clone(), cluster.myself().id);
        match check_import(cluster, &ranges) {
            Err(error) => drop(self.cancel_task(now, &error.0)),
            Ok(source) if source == me => drop(self.cancel_task(now, "slots owned by myself now")),
            Ok(source) => {
                if let Some(task) = &mut self.task {
                    task.retries += 1;
                    task.source = source;
                }
                self.begin_import(now);
            }
        }
    }

    /// The source begins to send the snapshot.
    pub fn snapshot_comes(&mut self, now: Time, id: JobId) {
        if self.advance(now, id, State::WaitingForAck, State::ReceivingSnapshot) {
            self.reached(id, Step::AccumulateBuffer);
            self.channel_reached(id, Step::RdbChannelTransfer);
        }
    }

    /// [`Message::SnapshotEof`] or [`Message::StreamEof`] of a task's source.
    pub(super) fn hear_source(&mut self, now: Time, id: JobId, message: Message) {
        let Some(at) = self.current(id) else { return };
        match (message, self.jobs[at].state) {
            (Message::SnapshotEof, State::ReceivingSnapshot) => {
                self.step(now, at, State::WaitingForPaused);
                self.reached(id, Step::StreamingBuffer);
                self.channel_reached(id, Step::Completed);
            }
            (Message::StreamEof, State::WaitingForPaused) => {
                self.reached(id, Step::Takeover);
                self.jobs[at].requested_ms = now.mono_ms;
                self.step(now, at, State::ImportGranted);
                self.try_takeover(now, at);
            }
            _ => self.fail_at(now, at, super::UNEXPECTED),
        }
    }

    /// Whether the source's snapshot has been applied, and only changes follow.
    pub fn has_snapshot(&self, id: JobId) -> bool {
        self.job(id).is_some_and(|job| job.state == State::WaitingForPaused)
    }

    // ---- the source ----

    /// SYNCSLOTS SYNC: another node asks for slots of this one.
    ///
    /// # Errors
    /// Why it does not get them; nothing has changed.
    pub fn give_slots(
        &mut self,
        now: Time,
        cluster: &Cluster,
        id: NodeId,
        target: NodeId,
        ranges: SlotRanges,
    ) -> Result<JobId, CommandError> {
        let me = cluster.myself().id;
        if check_import(cluster, &ranges)? != me {
            return Err(CommandError("This node is not the owner of the slots".into()));
        }
        let known = cluster.find(target.as_bytes()).filter(|key| cluster.node(*key).is_primary());
        if known.is_none() {
            return Err(CommandError(format!("Destination node {target} is not a master")));
        }
        let is_same = |task: &Task| {
            let is_it = task.id == id && task.operation == Operation::Export && task.step == Step::Failed;
            is_it && task.ranges == ranges && task.target == target
        };
        if self.task.as_ref().is_some_and(is_same) && !self.is_active() {
            self.task.iter_mut().for_each(|task| task.retries += 1);
        } else if self.replace_failed(now, "new migration requested") {
            self.task = Some(Task::new(now, id, Operation::Export, (me, target)));
        } else {
            return Err(CommandError("Another ASM task is already in progress".into()));
        }
        let job = self.next_id();
        let mut attempt = Job::new(job, Operation::Export, State::Connecting, id, now);
        (attempt.nodes, attempt.ranges, attempt.is_attempt) = (Some((me, target)), ranges.clone(), true);
        let text = format!("Slot migration asked for by the target: {}", attempt.description());
        self.jobs.push_front(attempt);
        self.log(false, text);
        if let Some(task) = &mut self.task {
            task.ranges = ranges;
            task.begin(now, job, Step::WaitRdbChannel);
        }
        Ok(job)
    }

    /// SYNCSLOTS RDBCHANNEL: the target has made the connection for the snapshot.
    ///
    /// # Errors
    /// It is not expected.
    pub fn open_channel(&mut self, now: Time, id: NodeId) -> Result<JobId, CommandError> {
        let Some(task) = &mut self.task else {
            return Err(CommandError("No slot migration task in progress".into()));
        };
        let is_expected = task.id == id && task.step == Step::WaitRdbChannel;
        let Some(job) = task.job.filter(|_| is_expected) else {
            return Err(CommandError(UNKNOWN_CHANNEL.into()));
        };
        (task.step, task.channel) = (Step::WaitBgsaveStart, Step::WaitBgsaveStart);
        self.advance(now, job, State::Connecting, State::WaitingToSnapshot);
        self.actions.push(Action::Snapshot(job));
        Ok(job)
    }

    /// The target has given a sign of life.
    pub fn target_lives(&mut self, now: Time, id: JobId) {
        if let Some(at) = self.current(id) {
            self.jobs[at].acked_s = now.unix_ms / 1_000;
        }
    }

    /// The target has applied some of the changes; `has_drained` if it has applied all that it had kept.
    pub fn target_acked(&mut self, now: Time, id: JobId, has_drained: bool) {
        self.target_lives(now, id);
        let Some(at) = self.current(id) else { return };
        if let Some(task) = self.task_of(id).filter(|_| has_drained) {
            task.drained_ms.get_or_insert(now.mono_ms);
        }
        if matches!(self.jobs[at].state, State::Snapshotting | State::Replicating) {
            self.snapshot_sent(now, id);
            self.actions.push(Action::TryPause(id));
        }
    }

    /// The thread of an export is about to send STREAM-EOF, after the last change; whether it may. From then
    /// on the target may have the slots.
    pub fn consents(&mut self, now: Time, id: JobId) -> bool {
        let Some(at) = self.current(id).filter(|at| self.jobs[*at].state == State::Paused) else {
            return false;
        };
        if self.jobs[at].paused_until_ms.is_none_or(|until_ms| until_ms <= now.mono_ms) {
            return false;
        }
        self.step(now, at, State::ExportGranted);
        self.reached(id, Step::StreamEof);
        true
    }

    /// Fails an export whose target has applied its kept changes and still lags too far behind.
    pub(super) fn check_drain(&mut self, now: Time, at: usize) {
        let (id, state) = (self.jobs[at].id, self.jobs[at].state);
        let limit_ms = self.limits.drain_ms;
        let is_behind = matches!(state, State::Replicating | State::WaitingToPause);
        let Some(task) = self.task_of(id).filter(|_| is_behind) else { return };
        let Some(drained_ms) = task.drained_ms else { return };
        if now.mono_ms - drained_ms > limit_ms.max(2 * (drained_ms - task.snapshot_ms)) {
            self.fail_at(now, at, "Sync buffer drain timeout");
        }
    }

    // ---- both ----

    /// An attempt has reached a state that a task has a word for.
    pub(super) fn note_state(&mut self, now: Time, at: usize) {
        let (id, state) = (self.jobs[at].id, self.jobs[at].state);
        let Some(task) = self.task_of(id).filter(|task| task.operation == Operation::Export) else { return };
        match state {
            State::Snapshotting => {
                (task.step, task.channel) = (Step::SendBulkAndStream, Step::RdbChannelTransfer);
                task.snapshot_ms = now.mono_ms;
            }
            State::Replicating => (task.step, task.channel) = (Step::SendStream, Step::Completed),
            State::Paused => {
                task.step = Step::Handoff;
                task.paused_ms = now.unix_ms;
            }
            _ => {}
        }
    }

    /// An attempt ends.
    pub(super) fn note_end(&mut self, now: Time, id: JobId, state: State, why: Option<&str>) {
        let Some(task) = self.task_of(id) else { return };
        match state {
            State::Success => {
                task.error.clear();
                self.archive_task(now, Step::Completed);
            }
            State::Cancelled => {
                task.set_error(why.unwrap_or_default());
                self.archive_task(now, Step::Canceled);
            }
            _ => {
                task.set_error(why.unwrap_or_default());
                (task.step, task.due_ms) = (Step::Failed, now.mono_ms + RETRY_MS);
            }
        }
    }

    fn archive_task(&mut self, now: Time, step: Step) {
        let Some(mut task) = self.task.take() else { return };
        (task.step, task.ended_ms) = (step, now.unix_ms);
        self.archive.push_front(task);
        self.archive.truncate(self.limits.archive_max);
    }

    /// Ends the task; whether that was possible: a node that got the consent may have the slots already.
    pub(super) fn cancel_task(&mut self, now: Time, why: &str) -> bool {
        let text = format!("Cancelled due to {why}");
        let Some(task) = &self.task else { return false };
        match task.job.and_then(|id| self.current(id)) {
            Some(at) if self.jobs[at].state == State::ExportGranted => return false,
            Some(at) => self.end(now, at, State::Cancelled, Some(text)),
            None => {
                self.task.iter_mut().for_each(|task| task.set_error(&text));
                self.archive_task(now, Step::Canceled);
            }
        }
        true
    }

    /// MIGRATION CANCEL, of the task with this id or of any; how many were.
    pub fn cancel_tasks(&mut self, now: Time, id: Option<&[u8]>) -> usize {
        let is_meant = |task: &Task| id.is_none_or(|id| task.id.as_bytes() == id);
        let is_meant = self.task.as_ref().is_some_and(is_meant);
        usize::from(is_meant && self.cancel_task(now, "user request"))
    }

    /// Asks for another attempt once it is due and the last one has left nothing behind.
    pub(super) fn tick_task(&mut self, now: Time) {
        let is_over = |id: JobId| self.job(id).is_none_or(|job| job.state.is_finished());
        let is_due = |task: &Task| {
            let is_failed = task.step == Step::Failed && task.operation == Operation::Import;
            is_failed && now.mono_ms >= task.due_ms && task.job.is_none_or(is_over)
        };
        if self.task.as_ref().is_some_and(is_due) {
            self.actions.push(Action::Retry);
        }
        self.archive.truncate(self.limits.archive_max);
    }
}

#[cfg(test)]
mod tests;
