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
#[cfg(any(test, feature = "testing"))]
pub mod differential;
mod door;
pub mod flags;
pub mod host;
mod interpreter;
mod json;
pub mod library;
mod memory;
mod native;
mod output;
mod random;
mod sandbox;
mod stack;
mod structs;
mod translation;

pub use api::{Product, Version};
pub use context::{Compiled, Registered};
pub use flags::ScriptFlags;
pub use host::{Called, DebugInput, Host, LogLevel, Verdict};
pub use interpreter::{Engine, Inputs, Interpreter, Run, ScriptError};
pub use martlet_bytecode::Unsupported;
pub use native::RunPath;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod hostile_tests;
