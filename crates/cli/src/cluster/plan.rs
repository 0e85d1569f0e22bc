//! What is to be done to a cluster, worked out without one.
//!
//! Invariant: every function here is pure; slots have one owner before and after.

pub mod balance;
pub mod reshard;
pub mod spread;
