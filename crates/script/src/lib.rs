//! Lua 5.1 as scripts of Redis see it: the sandbox, `redis.*`, conversions of replies and values.
//!
//! The crate knows no server: a script's calls go through [`Host`].

mod api;
mod bits;
mod cjson;
mod cmsgpack;
mod context;
mod convert;
mod debugger;
mod door;
pub mod flags;
pub mod host;
mod interpreter;
mod json;
pub mod library;
mod memory;
mod output;
mod random;
mod sandbox;
mod stack;
mod structs;

pub use api::{Product, Version};
pub use context::{Compiled, Registered};
pub use flags::ScriptFlags;
pub use host::{Called, DebugInput, Host, LogLevel, Verdict};
pub use interpreter::{Engine, Inputs, Interpreter, Run, ScriptError};

#[cfg(test)]
mod tests;

#[cfg(test)]
mod hostile_tests;
