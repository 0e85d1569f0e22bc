//! Replication: the server's state as a primary and as a replica.
//!
//! The rules are `martlet_replication`'s, which knows no thread and no socket; here they meet both.
//!
//! Invariant: a replication id and an offset name one state of the data set. A change of the data set other
//! than by the stream takes a new id first.

mod cron;
pub mod failover;
pub mod failover_state;
pub(crate) mod feed;
mod good_replicas;
pub mod link;
pub mod offset;
pub mod pause;
pub mod primary;
pub mod replica;
pub mod resume;
pub mod source;
pub mod state;
mod sync;
pub mod sync_replicas;
