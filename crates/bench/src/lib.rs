//! The load tester: drop-in for redis-benchmark and resp-benchmark, with an honest clock.
//! A plan says what is sent and when, the engine runs it, and everything else is asking for plans or showing results.
//! The crate never links the server.
#![allow(missing_docs, reason = "options and results are named after what they are")]

pub mod calibrate;
pub mod check;
pub mod cli;
pub mod compare;
pub mod control;
pub mod cost;
pub mod demo;
pub mod distribution;
pub mod engine;
pub mod explore;
pub mod latency;
pub mod null;
pub mod own;
pub mod pacing;
pub mod plan;
pub mod replay;
pub mod report;
pub mod run;
pub mod stats;
pub mod template;
pub mod workload;
