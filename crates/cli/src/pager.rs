//! The output of replies: the terminal, or a pager once one is longer than the screen.
//!
//! Invariant: output that waits for the decision is a screen at most; a pager takes a reply as it arrives.

use rustix::termios::tcgetwinsize;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The pager if the environment names none.
const PAGER: &str = "less";
/// How `less` behaves where the environment does not say: it ends at once where one screen is enough, shows
/// colours as colours and leaves the text on the terminal.
const LESS: &str = "FRX";
/// A shell's exit status for a missing program.
const NOT_FOUND: i32 = 127;

/// An output for replies.
#[derive(Default)]
pub struct Pager {
    /// The shell's command; `None` prints everything at once.
    program: Option<OsString>,
    is_paused: bool,
    /// The beginning of the reply.
    held: Vec<u8>,
    rows: usize,
    column: usize,
    child: Option<Child>,
    /// See [`Pager::take_spent`].
    spent: Duration,
}

/// The size of the screen: rows and columns.
fn size() -> (usize, usize) {
    let size = tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
    size.map_or((24, 80), |size| (size.ws_row.into(), size.ws_col.into()))
}

/// How wide a line can be; for ever where the output is no terminal.
pub fn columns() -> Option<usize> {
    io::stdout().is_terminal().then(|| size().1)
}

fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|directory| directory.join(program).is_file())
}

/// The configured pager; an empty PAGER, or `cat`, means none.
fn wanted() -> Option<OsString> {
    match std::env::var_os("PAGER") {
        Some(program) => Some(program).filter(|program| !matches!(program.as_bytes(), b"" | b"cat")),
        None => is_installed(PAGER).then(|| PAGER.into()),
    }
}

impl Pager {
    /// Uses the pager from now on, or none.
    pub fn turn(&mut self, on: bool) {
        self.program = if on { wanted() } else { None };
    }

    /// Prints everything at once for a time: the output has no end.
    pub fn pause(&mut self, pauses: bool) {
        self.is_paused = pauses;
    }

    /// Prints a text that is whole.
    pub fn show(&mut self, text: String) {
        self.write(&mut text.into_bytes());
        self.end();
    }

    /// Time that output has taken since the last call: its reader's time, not the server's.
    pub fn take_spent(&mut self) -> Duration {
        std::mem::take(&mut self.spent)
    }

    /// Takes a reply's printed bytes; `out` is empty afterwards.
    pub fn write(&mut self, out: &mut Vec<u8>) {
        let begun = Instant::now();
        self.put(out);
        self.spent += begun.elapsed();
    }

    fn put(&mut self, out: &mut Vec<u8>) {
        if let Some(child) = &mut self.child {
            let stdin = child.stdin.as_mut();
            if stdin.is_some_and(|stdin| stdin.write_all(out).is_err()) {
                // The reader has seen enough; the rest of the reply is dropped.
                child.stdin = None;
            }
        } else if self.program.is_none() || self.is_paused {
            print(out);
        } else {
            self.hold(out);
        }
        out.clear();
    }

    fn hold(&mut self, out: &[u8]) {
        let (rows, columns) = size();
        self.held.extend_from_slice(out);
        for byte in out {
            self.column += 1;
            if *byte == b'\n' || self.column > columns {
                self.rows += 1;
                self.column = usize::from(*byte != b'\n');
            }
        }
        // The prompt needs a row as well.
        if self.rows >= rows {
            self.start();
        }
    }

    fn start(&mut self) {
        let Some(program) = &self.program else { return };
        let mut command = Command::new("sh");
        command.arg("-c").arg(program).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            command.env("LESS", LESS);
        }
        match command.spawn() {
            Ok(mut child) => {
                if child.stdin.as_mut().is_some_and(|stdin| stdin.write_all(&self.held).is_err()) {
                    child.stdin = None;
                }
                self.child = Some(child);
            }
            Err(_) => self.give_up(),
        }
    }

    fn give_up(&mut self) {
        self.program = None;
        print(&std::mem::take(&mut self.held));
    }

    /// Ends a reply: held output is printed, or the pager's reader is waited for.
    pub fn end(&mut self) {
        let begun = Instant::now();
        match self.child.take() {
            None => print(&self.held),
            Some(mut child) => {
                child.stdin = None;
                if child.wait().is_ok_and(|status| status.code() == Some(NOT_FOUND)) {
                    self.give_up();
                }
            }
        }
        self.held.clear();
        (self.rows, self.column) = (0, 0);
        self.spent += begun.elapsed();
    }
}

/// Prints at once; a reader that is gone ends the program.
fn print(out: &[u8]) {
    let mut stdout = io::stdout().lock();
    if stdout.write_all(out).and_then(|()| stdout.flush()).is_err() {
        std::process::exit(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time of its own that the reader takes at least.
    const READING: Duration = Duration::from_millis(200);

    #[test]
    fn the_time_of_the_reader_is_known() {
        let program = format!("sleep {}; cat > /dev/null", READING.as_secs_f64());
        let mut pager = Pager { program: Some(program.into()), ..Pager::default() };
        // More than a screen, and more than a pipe holds.
        let mut out = b"line\n".repeat(100_000);
        pager.write(&mut out);
        pager.end();
        assert!(pager.take_spent() >= READING);
        assert_eq!(pager.take_spent(), Duration::ZERO);
    }
}
