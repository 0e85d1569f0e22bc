//! What a command line runs.

use crate::cli::{classic, options::Settings};

/// A seed that no other run is likely to have.
pub fn fresh_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64) ^ (u64::from(std::process::id()) << 40)
}

/// Runs the settings; gives the exit code.
pub fn main(program: &str, settings: &Settings) -> i32 {
    let _ = program;
    classic::main(settings)
}
