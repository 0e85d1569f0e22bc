//! Dispatch of a parsed command line: the classic tests, Martlet's own runs, or the demonstration.

use crate::cli::{classic, options::Settings};
use crate::{demo, own};

/// Runs the settings; gives the exit code.
pub fn main(program: &str, settings: &Settings) -> i32 {
    if settings.idle {
        return classic::main(settings);
    }
    if settings.is_own() {
        return own::main(settings);
    }
    let nothing_named = !settings.address_given && settings.command.is_empty() && settings.tests.is_none();
    if program == "bench"
        && nothing_named
        && std::net::TcpStream::connect(("127.0.0.1", settings.port)).is_err()
    {
        return demo::main(settings);
    }
    // A command with placeholders is in Martlet's own language.
    if settings.command.iter().any(|word| {
        ["{key ", "{value ", "{rand ", "{range ", "{int ", "{ttl ", "{number ", "{rand_int "]
            .iter()
            .any(|p| memchr::memmem::find(word, p.as_bytes()).is_some())
    }) {
        return own::main(settings);
    }
    classic::main(settings)
}
