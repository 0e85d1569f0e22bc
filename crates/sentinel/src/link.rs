//! The link to an instance: a connection for commands, and one for hello messages.
//!
//! Invariant: replies come in the order of requests, so the queue of pending ones knows the purpose of each.
//! Replies for an instance that was removed are ignored.

use std::collections::VecDeque;

use crate::ids::InstanceId;
pub use crate::ids::{ConnectionId, LinkId};

/// The purpose of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Nothing: the effects are observed.
    Nothing,
    /// PING.
    Ping,
    /// INFO.
    Info,
    /// PUBLISH of a hello message.
    Publish,
    /// SENTINEL IS-MASTER-DOWN-BY-ADDR.
    PrimaryState,
}

/// A connection that is open, or being opened.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Which.
    pub id: ConnectionId,
    /// When it was begun.
    pub since_ms: i64,
    /// This side's address, once it is open.
    pub local_ip: Option<String>,
    /// Replies that come before those that count: to AUTH and CLIENT SETNAME on the one for messages.
    pub ignored_replies: usize,
}

/// See the [module docs](self).
#[derive(Clone, Debug)]
pub struct Link {
    /// Instances that use it.
    pub users: usize,
    /// A connection is missing.
    pub is_disconnected: bool,
    /// For commands.
    pub command: Option<Connection>,
    /// For hello messages; Sentinels have none.
    pub pubsub: Option<Connection>,
    /// The purposes of the pending replies on `command`.
    pub pending: VecDeque<(InstanceId, Awaited)>,
    /// When a message last came over `pubsub`.
    pub pubsub_activity_ms: i64,
    /// When PING was last answered as it should be.
    pub available_ms: i64,
    /// When the PING was sent that waits for its answer, or the link was made.
    pub active_ping_ms: Option<i64>,
    /// When the last PING was sent.
    pub last_ping_ms: i64,
    /// When PING was last answered, with whatever.
    pub last_pong_ms: i64,
    /// When it was last tried to connect.
    pub last_reconnect_ms: i64,
}

impl Link {
    /// A link without connections. A time to answer begins at once, so that an instance that cannot be
    /// reached at all is found to be down, too.
    pub fn new(now_ms: i64) -> Link {
        Link {
            users: 1,
            is_disconnected: true,
            command: None,
            pubsub: None,
            pending: VecDeque::new(),
            pubsub_activity_ms: 0,
            available_ms: now_ms,
            active_ping_ms: Some(now_ms),
            last_ping_ms: 0,
            last_pong_ms: now_ms,
            last_reconnect_ms: 0,
        }
    }

    /// Starts all times again.
    pub fn reset_times(&mut self, now_ms: i64) {
        self.active_ping_ms = Some(now_ms);
        self.last_ping_ms = 0;
        self.available_ms = now_ms;
        self.last_pong_ms = now_ms;
    }
}
