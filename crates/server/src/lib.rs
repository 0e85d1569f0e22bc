//! Wires the layers: configuration, connections, sessions, introspection.

mod address;
mod blocking;
mod checks;
pub mod clients;
pub mod commands;
pub mod config;
pub mod connection;
mod dispatch;
pub mod latency;
mod listeners;
pub mod logging;
mod monitor;
pub mod persistence;
pub mod process;
pub mod pubsub;
mod reconfigure;
pub mod registry;
pub mod server;
mod settings;
pub mod shared;
mod shutdown;
pub mod slowlog;
pub mod startup;
pub mod stats;
pub mod tracking;
mod transaction;
pub mod worker;
