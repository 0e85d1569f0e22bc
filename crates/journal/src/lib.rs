//! The journal: one ordered record of the effects of all writes, and the append-only file that it is written
//! to.
//!
//! Who changes keys appends what it did while it holds them ([`Journal::append`]), so that records of one key
//! lie in the order of its changes. Whoever wants more takes the records out in their order; the commands
//! that Redis replays are made of them once, in blocks that all readers share ([`stream`]).

pub mod aof;
mod journal;
mod record;
mod ring;
pub mod stream;

pub use journal::{Follower, Journal};
pub use record::{Effect, Mark, Pending, REPLICAS, effects, encode, encode_request};
pub use ring::Position;
