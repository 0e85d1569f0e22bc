//! What every other crate may use: clock, disk, randomness, hashing, number text, memory accounting, limits.
//!
//! Nothing here knows of keys, clients or commands. Clock, disk and randomness are passed in so that the
//! same engine runs against real time and in a seeded simulation.

pub mod alloc;
pub mod background;
pub mod clock;
pub mod copy;
pub mod disk;
pub mod glob;
pub mod hash;
pub mod limits;
pub mod number;
pub mod prefetch;
pub mod publish;
pub mod random;
pub mod regex;
pub mod slot;
pub mod sync;
pub mod thread;
