//! Wires the layers: configuration, connections, sessions, introspection.

pub mod config;
pub mod logging;
pub mod process;
pub mod startup;
