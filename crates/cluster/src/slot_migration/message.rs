//! The messages between the ends of a slot migration that have no arguments (CLUSTER SYNCSLOTS). Invariant: a
//! message's word is its own in both dialects, Valkey's and Redis'.

/// Messages between the ends (CLUSTER SYNCSLOTS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A sign of life.
    Ack,
    /// The source has sent all keys of the cut.
    SnapshotEof,
    /// The target has them, and asks for an end.
    RequestPause,
    /// Nothing follows this.
    Paused,
    /// The target asks whether it may take the slots.
    RequestFailover,
    /// It may.
    FailoverGranted,
    /// Nothing follows this, and the target may take the slots (Redis).
    StreamEof,
    /// Anything else.
    Unknown,
}

impl Message {
    const ALL: [(Message, &'static str); 7] = [
        (Message::Ack, "ACK"),
        (Message::SnapshotEof, "SNAPSHOT-EOF"),
        (Message::RequestPause, "REQUEST-PAUSE"),
        (Message::Paused, "PAUSED"),
        (Message::RequestFailover, "REQUEST-FAILOVER"),
        (Message::FailoverGranted, "FAILOVER-GRANTED"),
        (Message::StreamEof, "STREAM-EOF"),
    ];

    /// The message of this word.
    pub fn named(word: &[u8]) -> Message {
        let is_it = |(_, name): &&(Message, &str)| name.as_bytes().eq_ignore_ascii_case(word);
        Message::ALL.iter().find(is_it).map_or(Message::Unknown, |(message, _)| *message)
    }

    /// Its word.
    pub fn name(self) -> &'static str {
        Message::ALL.iter().find(|(message, _)| *message == self).map_or("", |(_, name)| name)
    }
}
