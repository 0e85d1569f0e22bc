//! Command lines: ours, redis-benchmark's and resp-benchmark's.

pub mod classic;
pub(crate) mod help;
pub mod options;
pub mod resp;
pub(crate) mod settings;
pub mod target;

use std::ffi::OsString;

/// Runs `martlet bench` with the arguments that follow the tool's name; gives the exit code. `program` is the
/// name that the tool was called by: `bench`, `redis-benchmark`, `valkey-benchmark` or `resp-benchmark`.
pub fn main(program: &str, arguments: &[OsString]) -> i32 {
    prepare();
    let arguments: Vec<String> = arguments.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    let first = arguments.first().map(String::as_str);
    match (program, first) {
        ("resp-benchmark", _) => resp::main(&arguments),
        ("bench", Some("resp")) => resp::main(arguments.get(1..).unwrap_or_default()),
        ("bench", Some("report")) => crate::report::main(arguments.get(1..).unwrap_or_default()),
        ("bench", Some("null")) => crate::null::main(arguments.get(1..).unwrap_or_default()),
        ("bench", Some("persistence")) => crate::persistence::main(arguments.get(1..).unwrap_or_default()),
        ("bench", Some("calibrate")) => crate::calibrate::main(arguments.get(1..).unwrap_or_default()),
        _ => match options::parse(program, &arguments) {
            Ok(options::Parsed::Run(settings)) => crate::run::main(program, &settings),
            Ok(options::Parsed::Help) => {
                print!("{}", options::help(program));
                0
            }
            Ok(options::Parsed::Version) => {
                println!("{program} {}", env!("CARGO_PKG_VERSION"));
                0
            }
            Err(error) => {
                // Not the whole list: it would push the message off the screen.
                eprintln!("{error}\n\n{}", options::usage(program));
                1
            }
        },
    }
}

/// Prepares the process for a load: Ctrl-C ends a run and keeps its figures, and the limit of open files is
/// the system's highest.
pub fn prepare() {
    crate::engine::catch_interrupt();
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
