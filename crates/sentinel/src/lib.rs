//! Redis Sentinel: Sentinels watch primaries and their replicas, agree on which primary is down, elect one of
//! themselves, and that one has a replica take the primary's place.
//!
//! [`machine`] is all of that as a pure state machine; [`runner`] is the program around it: sockets, clients,
//! the configuration file, scripts.

pub mod address;
pub mod commands;
pub mod config;
pub mod events;
pub mod ids;
pub mod info;
pub mod instance;
pub mod limits;
pub mod link;
pub mod machine;
pub mod runner;
pub mod scripts;
#[cfg(any(test, feature = "simulation"))]
pub mod simulation;
pub mod timing;

pub use runner::main;
