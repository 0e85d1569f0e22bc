//! The journal: one ordered record of the effects of all writes, and the append-only file that it is written
//! to.
//!
//! A command appends its effects while its keys are locked ([`Journal::append`]), so that records of one key
//! lie in the order of its changes. A thread that wants more takes the records out in their order; the
//! commands that Redis replays are made of them once, in blocks that all readers share ([`stream`]).

pub mod aof;
mod journal;
mod record;
mod ring;
pub mod stream;

pub use journal::{Follower, Journal};
pub use record::{Effect, Mark, Pending, REPLICAS, effects, encode, encode_request};
pub use ring::Position;
