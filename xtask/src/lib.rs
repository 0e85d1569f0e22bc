//! The gates behind `./x`, and the means that its two programs share. Invariant: no crate of the server or
//! of its client is linked here, so that a gate starts within seconds of a change; a chore that talks to a
//! server is one of `xtask-lab`.

pub mod changes;
pub mod checks;
pub mod ci;
pub mod crash;
pub mod docs;
pub mod failovers;
pub mod fuzz;
pub mod lab;
pub mod man;
pub mod miri;
pub mod quick;
pub mod run;
pub mod sim;
pub mod tidy;
