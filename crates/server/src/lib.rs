//! Wires the layers: configuration, connections, sessions, introspection.

pub mod config;
