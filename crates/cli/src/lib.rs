//! `martlet cli`, also by the names redis-cli and valkey-cli: their command lines, modes and output, and a
//! prompt with hints from the server's own documentation.
//!
//! Invariant: it knows a server by the wire alone; nothing it holds grows with a reply.

mod cluster;
mod cluster_settings;
mod command;
mod command_docs;
mod connection;
mod debugger;
mod docs;
mod eval;
mod format;
mod help;
mod hint;
mod history;
mod interrupt;
mod line;
mod modes;
mod options;
mod pager;
mod password;
mod prompt;
mod session;
mod settings;
mod shell;

use options::Parsed;
use settings::{AS_REDIS_CLI, Settings};
use std::ffi::OsString;
use std::io::IsTerminal;

/// Runs the tool with the arguments that follow its name; returns the exit status. `program` is the name that
/// it was called by.
pub fn main(program: &str, arguments: &[OsString]) -> i32 {
    end_with_reader();
    match options::parse(arguments, to_terminal()) {
        Ok(Parsed::Run(mut settings)) => {
            settings.manager.is_valkey = program.ends_with("valkey-cli");
            run(*settings)
        }
        Ok(Parsed::Help) => {
            print!("{}", options::help(program));
            0
        }
        Ok(Parsed::Version) => {
            println!("redis-cli {AS_REDIS_CLI} (Martlet {})", env!("CARGO_PKG_VERSION"));
            0
        }
        Err(message) => {
            eprintln!("{message}");
            1
        }
    }
}

/// Whether output is for people.
fn to_terminal() -> bool {
    std::io::stdout().is_terminal() || pretends_terminal()
}

/// Redis' own tests of redis-cli ask for a terminal's output over a pipe.
fn pretends_terminal() -> bool {
    std::env::var_os("FAKETTY").is_some()
}

/// Lets the program end, as others do, when the reader of its output is gone.
pub fn end_with_reader() {
    // SAFETY: a system call that installs no handler; sockets are written to without this signal.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

fn run(mut settings: Settings) -> i32 {
    if let Err(message) = find_password(&mut settings) {
        eprintln!("{message}");
        return 1;
    }
    command::run(&settings)
}

/// Completes the password from the terminal or the environment.
fn find_password(settings: &mut Settings) -> Result<(), String> {
    if settings.password.is_some() && settings.warns_of_password {
        eprintln!(
            "Warning: Using a password with '-a' or '-u' option on the command line interface may not be safe."
        );
    }
    if settings.asks_password {
        settings.password = Some(ask_password("Please input password: ")?);
    } else if settings.password.is_none() {
        use std::os::unix::ffi::OsStringExt;
        settings.password = std::env::var_os("REDISCLI_AUTH").map(OsString::into_vec);
    }
    if settings.manager.asks_from_password {
        settings.manager.from_password = Some(ask_password("Please input import source node password: ")?);
    }
    settings.manager.is_confirmed |= std::env::var_os("REDISCLI_CLUSTER_YES").is_some_and(|yes| yes == "1");
    Ok(())
}

/// Reads a line from the terminal, which shows a star for each letter.
fn ask_password(question: &str) -> Result<Vec<u8>, String> {
    password::ask(question)
        .map_err(|error| format!("Cannot read the password: {}", connection::plain(&error)))
}
