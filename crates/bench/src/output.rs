//! Standard output and error of the tools. Invariant: neither a closed pipe nor a full disk ends the process;
//! once standard output cannot be written, what runs ends as by Ctrl-C, and the exit code is not 0.

use crate::interrupt::{output_fails, output_has_failed};
use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// Writes to standard output, all of it at once where `flush` is set. After a failure it does nothing.
pub fn write(text: Arguments<'_>, flush: bool) {
    if output_has_failed() {
        return;
    }
    let mut out = std::io::stdout().lock();
    let written = out.write_fmt(text).and_then(|()| if flush { out.flush() } else { Ok(()) });
    drop(out);
    let Err(error) = written else { return };
    // The reader of a pipe that closes it has all that it wants.
    if output_fails() && error.kind() != ErrorKind::BrokenPipe {
        let text = error.to_string();
        write_error(format_args!("standard output: {}\n", text.split(" (os error").next().unwrap_or(&text)));
    }
}

/// Writes to standard error. Where that fails there is no place left to say so.
pub fn write_error(text: Arguments<'_>) {
    let _ = std::io::stderr().lock().write_fmt(text);
}

/// The exit code of a process that would end with `code`: another than 0 if its output is not complete.
pub fn exit_code(code: i32) -> i32 {
    write(format_args!(""), true);
    if code == 0 && output_has_failed() { 1 } else { code }
}

/// `print!` of these tools.
#[macro_export]
macro_rules! out {
    ($($text:tt)*) => { $crate::output::write(format_args!($($text)*), false) };
}

/// `println!` of these tools.
#[macro_export]
macro_rules! outln {
    () => { $crate::output::write(format_args!("\n"), false) };
    ($($text:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($text)*)), false) };
}

/// `eprintln!` of these tools.
#[macro_export]
macro_rules! errln {
    ($($text:tt)*) => { $crate::output::write_error(format_args!("{}\n", format_args!($($text)*))) };
}
