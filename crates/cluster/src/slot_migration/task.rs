//! A slot migration as Redis 8.4 and later have it (CLUSTER MIGRATION): a task, which its target begins and
//! tries again until it succeeds or is cancelled. Each attempt is a [`super::Job`], to which the safety of
//! keys and writes is left; a task has Redis' words for how far it is.

use super::job::ranges_text;
use super::{JobId, Operation};
use crate::id::NodeId;
use crate::machine::Time;

/// How far a task or one of its connections is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Not begun.
    None,
    /// Both: a connection is being made.
    Connecting,
    /// Both: the source has been sent the cluster's secret.
    AuthReply,
    /// An operator has ended it.
    Canceled,
    /// The attempt has failed; a target begins another.
    Failed,
    /// The slots are the target's.
    Completed,
    /// Target: the source has been sent this node's id.
    HandshakeReply,
    /// Target: the source is not ready, and is asked again.
    SendSyncslots,
    /// Target: the source has been asked for the slots.
    SyncslotsReply,
    /// Target: the connection for the snapshot is being made.
    InitRdbChannel,
    /// Target: the snapshot arrives, and changes are kept.
    AccumulateBuffer,
    /// Target: the kept changes are applied.
    StreamingBuffer,
    /// Target: changes are applied as they come.
    WaitStreamEof,
    /// Target: it takes the slots.
    Takeover,
    /// Source: the connection for the snapshot is awaited.
    WaitRdbChannel,
    /// Source: the snapshot has not begun.
    WaitBgsaveStart,
    /// Source: snapshot and changes are sent.
    SendBulkAndStream,
    /// Source: changes are sent.
    SendStream,
    /// Source: writes wait, and the last changes are sent.
    Handoff,
    /// Source: the target may take the slots.
    StreamEof,
    /// Channel: the source has been asked for the snapshot.
    RdbChannelReply,
    /// Channel: the snapshot is under way.
    RdbChannelTransfer,
}

impl Step {
    /// The name that clients see.
    pub fn name(self) -> &'static str {
        match self {
            Step::None => "none",
            Step::Connecting => "connecting",
            Step::AuthReply => "auth-reply",
            Step::Canceled => "canceled",
            Step::Failed => "failed",
            Step::Completed => "completed",
            Step::HandshakeReply => "handshake-reply",
            Step::SendSyncslots => "send-syncslots",
            Step::SyncslotsReply => "syncslots-reply",
            Step::InitRdbChannel => "init-rdbchannel",
            Step::AccumulateBuffer => "accumulate-buffer",
            Step::StreamingBuffer => "streaming-buffer",
            Step::WaitStreamEof => "wait-stream-eof",
            Step::Takeover => "takeover",
            Step::WaitRdbChannel => "wait-rdbchannel",
            Step::WaitBgsaveStart => "wait-bgsave-start",
            Step::SendBulkAndStream => "send-bulk-and-stream",
            Step::SendStream => "send-stream",
            Step::Handoff => "handoff",
            Step::StreamEof => "stream-eof",
            Step::RdbChannelReply => "rdbchannel-reply",
            Step::RdbChannelTransfer => "rdbchannel-transfer",
        }
    }
}

/// See the [module docs](self).
#[derive(Clone, Debug)]
pub struct Task {
    /// By which both ends know it.
    pub id: NodeId,
    /// Which end this is.
    pub operation: Operation,
    /// The slots, first and last of each range.
    pub ranges: Vec<(u16, u16)>,
    /// Their present owner.
    pub source: NodeId,
    /// Their next one.
    pub target: NodeId,
    /// How far it is.
    pub step: Step,
    /// How far the connection for the snapshot is.
    pub channel: Step,
    /// Why the last attempt has failed; empty if none has.
    pub error: String,
    /// Attempts after the first.
    pub retries: u64,
    /// Unix milliseconds.
    pub created_ms: i64,
    /// Of the latest attempt, Unix milliseconds; -1 before the first.
    pub started_ms: i64,
    /// When it was completed or cancelled, Unix milliseconds; -1 before that.
    pub ended_ms: i64,
    /// When writes began to wait, Unix milliseconds; 0 if they did not.
    pub paused_ms: i64,
    /// The attempt under way.
    pub(super) job: Option<JobId>,
    /// When another attempt is due, monotonic milliseconds.
    pub(super) due_ms: i64,
    /// When the snapshot began, monotonic milliseconds.
    pub(super) snapshot_ms: i64,
    /// When the target had applied what it had kept, monotonic milliseconds.
    pub(super) drained_ms: Option<i64>,
}

impl Task {
    pub(super) fn new(now: Time, id: NodeId, operation: Operation, nodes: (NodeId, NodeId)) -> Task {
        Task {
            id,
            operation,
            ranges: Vec::new(),
            source: nodes.0,
            target: nodes.1,
            step: Step::None,
            channel: Step::None,
            error: String::new(),
            retries: 0,
            created_ms: now.unix_ms,
            started_ms: -1,
            ended_ms: -1,
            paused_ms: 0,
            job: None,
            due_ms: 0,
            snapshot_ms: 0,
            drained_ms: None,
        }
    }

    /// Begins an attempt.
    pub(super) fn begin(&mut self, now: Time, job: JobId, step: Step) {
        (self.job, self.step, self.channel) = (Some(job), step, Step::None);
        (self.started_ms, self.paused_ms, self.drained_ms) = (now.unix_ms, 0, None);
    }

    /// Records why an attempt has failed.
    pub(super) fn set_error(&mut self, why: &str) {
        let (step, channel) = (self.step.name(), self.channel.name());
        self.error = format!("{why} (state: {step}, rdb_channel_state: {channel})");
    }

    /// The ranges in the form that clients see.
    pub fn ranges_text(&self) -> String {
        ranges_text(&self.ranges)
    }

    /// How long writes waited, in milliseconds; 0 if they did not or it is not completed.
    pub fn write_pause_ms(&self) -> i64 {
        let is_completed = self.operation == Operation::Export && self.step == Step::Completed;
        if is_completed { self.ended_ms - self.paused_ms } else { 0 }
    }

    /// Whether it is under way; a source's that has failed waits for the target's next attempt.
    pub fn is_active(&self) -> bool {
        self.operation == Operation::Import || self.step != Step::Failed
    }
}
