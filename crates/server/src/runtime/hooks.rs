//! The subsystems' functions that the runtime calls: a table, handed to each worker at start.
//!
//! Invariant: a feature that is off costs no more than the check before its hook is called, which is the
//! runtime's.

use martlet_engine::KeyChanges;
use martlet_net::{Backend, Token};
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;

use super::call::ServerHandler;
use super::{Shared, Worker};
use crate::config::ShutdownFlags;
use crate::connection::Connection;
use crate::migration::state::MigrationStep;
use crate::pubsub::hub::Delivery;
use crate::registry::Entry;
use crate::tracking::table::Notice;

/// See the [module docs](self).
pub struct Hooks {
    /// The handlers of server commands, by their places in the command table.
    pub(crate) handlers: &'static [ServerHandler],
    /// The worker has taken up a configuration.
    pub(crate) configured: fn(&mut Worker),
    /// Keys have changed, whose shards are still locked.
    pub(crate) keys_changed: fn(&mut Worker, KeyChanges),
    /// A tracking client's command has run; its keys are still locked.
    pub(crate) keys_read: fn(&mut Worker, u64, &Entry, &Args<'_>),
    /// A tracking client's request is about to be checked, and keys may have been evicted for it: what it
    /// must know before its reply is appended to that. Nothing is locked.
    pub(crate) tracked_request_begins: fn(&mut Worker, &mut Connection, &mut Reply),
    /// A client's command has run on a replica; its keys are still locked.
    pub(crate) ran_on_replica: fn(&mut Worker, &Entry, &Args<'_>),
    /// A tracking client's request has ended. Nothing is locked.
    pub(crate) tracked_request_ended: fn(&mut Worker, &mut Connection, &Entry),
    /// A request on a replica's connection has ended; before it the reply had this length and total.
    pub(crate) replicas_request_ended: fn(&mut Worker, &mut Connection, &mut Reply, &Entry, (usize, usize)),
    /// A command that brings slots has been answered so; whether the answer is dropped.
    pub(crate) import_answered: fn(&mut Worker, &mut Connection, &[u8]) -> bool,
    /// The connection's session ends.
    pub(crate) before_close: fn(&mut Worker, &mut Connection),
    /// All threads are called to apply the primary's stream together.
    pub(crate) apply_together: fn(&mut Worker),
    /// The server has become a replica: it copies its primary from now on.
    pub(crate) copy_primary: fn(&'static Shared),
    /// A turn of the loop ends in which keys were changed that are broadcast; no output has left yet.
    pub(crate) turn_ended: fn(&mut Worker),
    /// The turn's output has left, on a server with replicas.
    pub(crate) feed_replicas: fn(&mut Worker, &mut dyn Backend),
    /// 100 ms are over, and perhaps a second. Nothing is locked.
    pub(crate) every_100_ms: fn(&mut Worker, bool),
    /// A message for subscribers has come.
    pub(crate) message_arrived: fn(&mut Worker, &Delivery),
    /// A notice has come for the client of this connection and id.
    pub(crate) notice_arrived: fn(&mut Worker, Token, u64, &Notice),
    /// A MIGRATE that was postponed continues.
    pub(crate) migrate: fn(&mut Worker, MigrationStep),
    /// A busy script has ended, after which the server is to.
    pub(crate) shut_down: fn(&mut Worker, ShutdownFlags),
}
