//! The load tester: drop-in for redis-benchmark and resp-benchmark, with an honest clock. A plan has the
//! requests and their times, the engine runs it, and everything else makes plans or shows results. The crate
//! never links the server.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod calibrate;
mod check;
pub mod cli;
mod compare;
pub mod control;
pub mod cost;
mod demo;
mod distribution;
pub mod engine;
pub mod environment;
mod explore;
mod index;
mod interrupt;
pub mod job;
pub mod latency;
mod live;
mod null;
pub mod output;
mod own;
mod pacing;
mod persistence;
pub mod plan;
pub mod process;
pub mod replay;
pub mod report;
mod run;
pub mod servers;
mod stats;
pub mod template;
pub mod workload;
