//! One slot migration as its end of it sees it, and the words that Valkey has for how far it is.

use std::fmt::Write;

use crate::id::NodeId;
use crate::machine::Time;

/// How far a migration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Import: the source has not heard yet that it was accepted.
    WaitingForAck,
    /// Import: the keys of the cut arrive.
    ReceivingSnapshot,
    /// Import: the changes since arrive, until the source pauses writes.
    WaitingForPaused,
    /// Import: all is here, and the source is asked for its consent.
    FailoverRequested,
    /// Import: the source has consented.
    ImportGranted,
    /// Import: the received keys are being deleted.
    CleaningUp,
    /// Import: it is this node's primary's, or was when the files were written.
    OccurringOnPrimary,
    /// Export.
    Connecting,
    /// Export.
    SendingAuth,
    /// Export.
    ReadingAuthResponse,
    /// Export.
    SendingEstablish,
    /// Export.
    ReadingEstablishResponse,
    /// Export: another snapshot is being written.
    WaitingToSnapshot,
    /// Export: the keys of the cut are sent.
    Snapshotting,
    /// Export: the changes since are sent.
    Replicating,
    /// Export: changes follow, until few enough are left to pause writers for them.
    WaitingToPause,
    /// Export: writes are paused.
    Paused,
    /// Export: the target may take the slots.
    ExportGranted,
    /// It has failed, and left nothing behind.
    Failed,
    /// An operator has ended it.
    Cancelled,
    /// The slots are the target's.
    Success,
}

impl State {
    /// The name that clients see.
    pub fn name(self) -> &'static str {
        match self {
            State::WaitingForAck => "waiting-for-ack",
            State::ReceivingSnapshot => "receiving-snapshot",
            State::WaitingForPaused => "waiting-for-paused",
            State::FailoverRequested => "failover-requested",
            State::CleaningUp => "cleaning-up",
            State::OccurringOnPrimary => "occurring-on-primary",
            State::Connecting => "connecting",
            State::SendingAuth => "sending-auth-command",
            State::ReadingAuthResponse => "reading-auth-response",
            State::SendingEstablish => "sending-establish-command",
            State::ReadingEstablishResponse => "reading-establish-response",
            State::WaitingToSnapshot => "waiting-to-snapshot",
            State::Snapshotting => "snapshotting",
            State::Replicating => "replicating",
            State::WaitingToPause => "waiting-to-pause",
            State::Paused => "failover-paused",
            State::ImportGranted | State::ExportGranted => "failover-granted",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
            State::Success => "success",
        }
    }

    /// It is over, and nothing is left to be done.
    pub fn is_finished(self) -> bool {
        matches!(self, State::Failed | State::Cancelled | State::Success)
    }

    /// It may still succeed.
    pub fn is_in_progress(self) -> bool {
        self != State::CleaningUp && !self.is_finished()
    }

    /// Whether the other end waits for signs of life, and may be sent some.
    pub(super) fn sends_acks(self) -> bool {
        use State::{
            ImportGranted, Paused, ReceivingSnapshot, Replicating, WaitingForPaused, WaitingToPause,
        };
        matches!(self, ReceivingSnapshot | WaitingForPaused | ImportGranted | Replicating)
            || matches!(self, WaitingToPause | Paused | State::FailoverRequested | State::WaitingToSnapshot)
    }
}

/// Which end this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The slots leave.
    Export,
    /// The slots come.
    Import,
}

/// By which a job is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub u64);

/// See the [module docs](self).
#[derive(Clone, Debug)]
pub struct Job {
    /// By which it is known here.
    pub id: JobId,
    /// By which both ends and their replicas know it.
    pub name: NodeId,
    /// Which end this is.
    pub operation: Operation,
    /// How far it is.
    pub state: State,
    /// From where and to where; not known of one that is only followed.
    pub nodes: Option<(NodeId, NodeId)>,
    /// The slots, first and last of each range.
    pub ranges: Vec<(u16, u16)>,
    /// Unix seconds.
    pub created_s: i64,
    /// When the state changed, Unix seconds.
    pub updated_s: i64,
    /// When the other end gave a sign of life, Unix seconds.
    pub acked_s: i64,
    /// Why it has failed.
    pub message: Option<String>,
    /// An attempt of a task of Redis' kind.
    pub is_attempt: bool,
    /// End of the pause of writes, monotonic milliseconds.
    pub(super) paused_until_ms: Option<i64>,
    /// When the source was asked for its consent, monotonic milliseconds.
    pub(super) requested_ms: i64,
    /// When the other end was sent a sign of life, monotonic milliseconds.
    pub(super) told_ms: i64,
}

/// Ranges in the form that clients see.
pub(super) fn ranges_text(ranges: &[(u16, u16)]) -> String {
    let mut text = String::new();
    for (first, last) in ranges {
        let blank = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{blank}{first}-{last}");
    }
    text
}

impl Job {
    pub(super) fn new(id: JobId, operation: Operation, state: State, name: NodeId, now: Time) -> Job {
        let now_s = now.unix_ms / 1_000;
        Job {
            id,
            name,
            operation,
            state,
            nodes: None,
            ranges: Vec::new(),
            created_s: now_s,
            updated_s: now_s,
            acked_s: now_s,
            message: None,
            is_attempt: false,
            paused_until_ms: None,
            requested_ms: 0,
            told_ms: now.mono_ms,
        }
    }

    /// Whether it is another node's affair, which is only followed here.
    pub fn is_tracking_only(&self) -> bool {
        self.nodes.is_none()
    }

    /// Whether a slot is one of its.
    pub fn has_slot(&self, slot: u16) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }

    /// All its slots.
    pub fn slots(&self) -> impl Iterator<Item = u16> + '_ {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// The owner of all its slots, if that is one node.
    pub(super) fn only_owner(&self, owner: impl Fn(u16) -> Option<NodeId>) -> Option<NodeId> {
        let mut owners = self.slots().map(owner);
        let first = owners.next().flatten();
        first.filter(|_| owners.all(|other| other == first))
    }

    /// The ranges in the form that clients see.
    pub fn ranges_text(&self) -> String {
        ranges_text(&self.ranges)
    }

    /// As the log names it.
    pub fn description(&self) -> String {
        let (operation, role) = match self.operation {
            Operation::Export => ("export", "target_node"),
            Operation::Import => ("import", "source_node"),
        };
        let other = self.nodes.map(|(source, target)| match self.operation {
            Operation::Export => target,
            Operation::Import => source,
        });
        let other = other.as_ref().map_or("unknown", NodeId::as_str);
        let (name, slots) = (self.name, self.ranges_text());
        format!("{{name: {name}, operation: {operation}, {role}_id: {other}, slots: {slots}}}")
    }
}
