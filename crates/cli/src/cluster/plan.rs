//! Plans of a cluster's changes, computed without a cluster.
//!
//! Invariant: every function here is pure; slots have one owner before and after.

pub mod balance;
pub mod reshard;
pub mod spread;
