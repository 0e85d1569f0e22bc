//! The cluster bus: Redis Cluster's protocol as a pure state machine, without sockets, files or clocks.
//!
//! Time and packets go in; packets, writes of `nodes.conf` and decisions come out. The same code runs under a
//! server and in a seeded simulation. See `docs/internals/cluster.md`.

pub mod conf;
pub mod flags;
pub mod id;
pub mod machine;
pub mod node;
pub mod packet;
#[cfg(any(test, feature = "simulation"))]
pub mod simulation;
pub mod slot_migration;
pub mod slots;
pub mod text;
pub mod views;
