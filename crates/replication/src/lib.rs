//! The rules by which replication is right or wrong, without sockets, threads, files or a clock.
//!
//! The server asks them, and so do the servers of the seeded simulation (`./x sim replication`).

pub mod acks;
pub mod failover;
pub mod history;
pub mod pauses;
