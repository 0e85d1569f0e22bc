//! Messages and questions of the cluster manager, in redis-cli's colours.

use std::fmt::{self, Arguments};
use std::io::{self, Write};

/// The escape sequences that begin and end a message.
const BOLD: &str = "\x1b[29;1m";
const RED: &str = "\x1b[31;1m";
const GREEN: &str = "\x1b[32;1m";
const YELLOW: &str = "\x1b[33;1m";
const RESET: &str = "\x1b[0m";

/// Prints progress on standard output. Messages bring their line's end.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    has_colours: bool,
}

impl Log {
    /// As redis-cli decides: by the terminal's name alone, also to a pipe.
    pub fn new() -> Log {
        let is_xterm = std::env::var("TERM").is_ok_and(|name| name.contains("xterm"));
        Log { has_colours: is_xterm && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
    }

    fn say(self, colour: &str, text: Arguments) {
        match self.has_colours {
            true => print!("{colour}{text}{RESET}"),
            false => print!("{text}"),
        }
    }

    pub fn info(self, text: Arguments) {
        self.say(BOLD, text);
    }

    pub fn warning(self, text: Arguments) {
        self.say(YELLOW, text);
    }

    pub fn error(self, text: Arguments) {
        self.say(RED, text);
    }

    pub fn ok(self, text: Arguments) {
        self.say(GREEN, text);
    }
}

/// Shows an incomplete line.
pub fn flush() {
    // A standard output that is gone ends the program by its signal.
    let _ = io::stdout().flush();
}

/// Shows a question and reads a line, byte by byte, so that the input behind it is left for the next
/// question; `None` at the end of the input.
pub fn ask(question: impl fmt::Display) -> Option<String> {
    print!("{question}");
    flush();
    let (mut line, mut byte) = (Vec::new(), [0]);
    loop {
        match rustix::io::read(io::stdin(), &mut byte) {
            Ok(1) if byte == *b"\n" => break,
            Ok(1) => line.push(byte[0]),
            Err(rustix::io::Errno::INTR) => {}
            _ if line.is_empty() => return None,
            _ => break,
        }
    }
    Some(String::from_utf8_lossy(&line).trim_end_matches('\r').to_string())
}

/// Whether the answer is `yes`.
pub fn confirm(question: &str) -> bool {
    ask(format_args!("{question} (type 'yes' to accept): ")).as_deref() == Some("yes")
}
