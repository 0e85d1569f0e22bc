//! The journal: one ordered record of the effects of all writes, and the append-only file that it is written
//! to.
//!
//! Who changes keys appends what it did while it holds them ([`Journal::append`]), so that records of one key
//! lie in the order of its changes. One thread takes the records out in their order and makes the byte stream
//! of them that Redis replays ([`Stream`]).

pub mod aof;
mod journal;
mod record;
mod ring;

pub use journal::{Journal, Mode};
pub use record::{Effect, Mark, Pending, Stream, effects, encode, encode_request};
pub use ring::{Position, Reader, Record};
