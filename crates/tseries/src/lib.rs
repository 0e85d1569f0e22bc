//! Time series as RedisTimeSeries has them: chunks of samples, compaction rules, ranges, the index of labels
//! and the saved form; no keys, no clients.
//!
//! A command layer turns arguments into the types here and their results into replies; a policy, a clock and
//! the other series come in as parameters. `docs/internals/tseries.md` has the layouts and the reasons.

pub mod aggregate;
mod block;
pub mod chunk;
pub mod error;
pub mod filter;
pub mod gorilla;
pub mod index;
pub mod policy;
pub mod query;
pub mod rule;
pub mod sample;
pub mod saved;
pub mod series;
pub mod store;
pub mod twa;
