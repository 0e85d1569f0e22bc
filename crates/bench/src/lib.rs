//! The load tester: drop-in for redis-benchmark and resp-benchmark, with an honest clock. A plan says what is
//! sent and when, the engine runs it, and everything else is asking for plans or showing results. The crate
//! never links the server.

mod calibrate;
mod check;
pub mod cli;
mod compare;
mod control;
mod cost;
mod demo;
mod distribution;
mod engine;
mod explore;
mod latency;
mod live;
mod null;
mod own;
mod pacing;
mod persistence;
mod plan;
mod replay;
mod report;
mod reproduce;
mod run;
mod stats;
mod template;
mod workload;
