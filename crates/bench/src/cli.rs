//! Command lines: ours, redis-benchmark's and resp-benchmark's.

pub mod classic;
pub(crate) mod help;
pub mod options;
pub mod resp;
pub(crate) mod settings;
pub mod target;

use crate::{errln, out, outln, output};
use std::ffi::OsString;

/// Runs `martlet bench` with the arguments that follow the tool's name; gives the exit code. `program` is the
/// name that the tool was called by: `bench`, `redis-benchmark`, `valkey-benchmark` or `resp-benchmark`.
pub fn main(program: &str, arguments: &[OsString]) -> i32 {
    prepare();
    output::exit_code(dispatch(program, arguments))
}

fn dispatch(program: &str, arguments: &[OsString]) -> i32 {
    let tool = arguments.first().and_then(|first| first.to_str());
    let rest = arguments.get(1..).unwrap_or_default();
    match (program, tool) {
        ("resp-benchmark", _) => resp::main(arguments),
        ("bench", Some("resp")) => resp::main(rest),
        ("bench", Some("report")) => crate::report::main(rest),
        ("bench", Some("null")) => texts(rest, crate::null::main),
        ("bench", Some("persistence")) => texts(rest, crate::persistence::main),
        ("bench", Some("calibrate")) => texts(rest, crate::calibrate::main),
        _ => match options::parse(program, arguments) {
            Ok(options::Parsed::Run(settings)) => crate::run::main(program, &settings),
            Ok(options::Parsed::Help) => {
                out!("{}", options::help(program));
                0
            }
            Ok(options::Parsed::Version) => {
                outln!("{program} {}", env!("CARGO_PKG_VERSION"));
                0
            }
            // As redis-benchmark: -h is the host, and alone it asks for the options.
            Err(error) if arguments == ["-h"] => {
                outln!("{error}\n\n{}", options::help(program));
                1
            }
            Err(error) => {
                // Not the whole list: it would push the message off the screen.
                errln!("{error}\n\n{}", options::usage(program));
                1
            }
        },
    }
}

/// Runs a tool whose arguments are text; gives its exit code.
fn texts(arguments: &[OsString], tool: fn(&[String]) -> i32) -> i32 {
    match as_texts(arguments) {
        Ok(arguments) => tool(&arguments),
        Err(error) => {
            errln!("{error}");
            1
        }
    }
}

/// Arguments as text; an error names the first argument that is not UTF-8.
pub fn as_texts(arguments: &[OsString]) -> Result<Vec<String>, String> {
    let text = |argument: &OsString| match argument.to_str() {
        Some(text) => Ok(text.to_string()),
        None => Err(format!("'{}' is not UTF-8", argument.to_string_lossy())),
    };
    arguments.iter().map(text).collect()
}

/// Prepares the process for a load: Ctrl-C ends a run and keeps its figures, and the limit of open files is
/// the system's highest.
pub fn prepare() {
    crate::interrupt::catch_interrupt();
    raise_file_limit();
}

/// Raises the limit of open files as far as the system lets it: each connection is one.
fn raise_file_limit() {
    // SAFETY: plain data passed by pointer to calls that only read or fill it.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
