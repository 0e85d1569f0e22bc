//! Commands that are typed or come from a pipe, a line each, and what the shell itself understands of them.
//!
//! Invariant: a lost connection ends no shell; the next command makes another one.

use crate::connection::plain;
use crate::format::Output;
use crate::interrupt;
use crate::session::{Failure, Session};
use crate::settings::Settings;
use martlet_protocol::quote;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::time::{Duration, Instant};

/// From here on a command's time is shown.
const SHOWN_TIME: Duration = Duration::from_millis(500);
/// Longest line that is read.
const LINE_MAX_BYTES: usize = 1 << 30;

/// What a line leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Another line.
    Line,
    /// The end, with this status.
    End(i32),
}

/// Understands lines.
pub struct Shell<'a> {
    pub session: Session<'a>,
}

impl<'a> Shell<'a> {
    /// A shell, which tries to connect at once; that it cannot is said, and is no end.
    pub fn new(settings: &'a Settings) -> Shell<'a> {
        let mut session = Session::new(settings);
        session.is_interactive = true;
        if let Err(failure) = session.connect() {
            eprintln!("{failure}");
        }
        Shell { session }
    }

    /// Does what a line says.
    pub fn line(&mut self, line: &[u8]) -> Next {
        let Some(words) = quote::split(line) else {
            println!("Invalid argument(s)");
            return Next::Line;
        };
        let (repeat, words) = match split_repeat(&words) {
            Ok(split) => split,
            Err(message) => {
                println!("{message}");
                return Next::Line;
            }
        };
        let Some(first) = words.first() else { return Next::Line };
        let is = |name: &str| first.eq_ignore_ascii_case(name.as_bytes());
        if is("quit") || is("exit") {
            return Next::End(0);
        }
        match words {
            [_, host, port] if is("connect") => self.connect(host, port),
            [_] if is("clear") => print!("\x1b[H\x1b[2J"),
            [_] if is("restart") => println!("Use 'restart' only in Lua debugging mode."),
            words => return self.command(words, repeat),
        }
        Next::Line
    }

    fn connect(&mut self, host: &[u8], port: &[u8]) {
        let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
        let (Ok(host), Some(port)) = (std::str::from_utf8(host), port) else {
            println!("Invalid server port.");
            return;
        };
        self.session.turn_to(host.into(), port);
        if let Err(failure) = self.session.connect() {
            eprintln!("{failure}");
        }
    }

    fn command(&mut self, words: &[Vec<u8>], repeat: i64) -> Next {
        let begun = Instant::now();
        match self.session.run(words, repeat) {
            Ok(()) => {}
            Err(Failure::Exit(status)) => return Next::End(status),
            Err(Failure::Lost(lost)) if lost.is_interrupt() => self.session.disconnect(),
            Err(failure) => eprintln!("{failure}"),
        }
        interrupt::take();
        let took = begun.elapsed();
        if took >= SHOWN_TIME && self.session.style.output == Output::Standard {
            println!("({:.2}s)", took.as_secs_f64());
        }
        Next::Line
    }

    /// Prints messages until somebody types, presses Ctrl-C (which ends the subscriptions) or the server is
    /// gone.
    fn show_messages(&mut self, input: &Input) {
        let shows_hint = self.session.style.output != Output::Raw
            && (io::stdout().is_terminal() || crate::pretends_terminal());
        while self.session.is_subscribed {
            let outcome = self.wait_for_message(input, shows_hint);
            match outcome {
                Ok(true) => {}
                Ok(false) => return,
                Err(failure) => {
                    eprintln!("{failure}");
                    self.session.disconnect();
                    return;
                }
            }
        }
    }

    /// Prints one message; false when somebody types instead.
    fn wait_for_message(&mut self, input: &Input, shows_hint: bool) -> Result<bool, Failure> {
        let Some(connection) = self.session.connection() else { return Ok(false) };
        if !connection.has_received() {
            if input.has_buffered() {
                return Ok(false);
            }
            if shows_hint {
                show("Reading messages... (press Ctrl-C to quit or any key to type command)\r");
            }
            let stdin = io::stdin();
            let mut ready = [PollFd::new(connection, PollFlags::IN), PollFd::new(&stdin, PollFlags::IN)];
            let polled = poll(&mut ready, None);
            let (has_message, has_input) = (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
            if shows_hint {
                show("\x1b[K");
            }
            if polled.is_err() || interrupt::take() {
                self.session.connect()?;
                return Ok(false);
            }
            if !has_message {
                return Ok(!has_input);
            }
        }
        self.session.print_reply(false).map(|_| true)
    }
}

fn show(text: &str) {
    print!("{text}");
    // Whoever reads it is gone: the next write tells.
    let _ = io::stdout().flush();
}

/// A number before a command says how often it runs.
fn split_repeat(words: &[Vec<u8>]) -> Result<(i64, &[Vec<u8>]), &'static str> {
    let [first, rest @ ..] = words else { return Ok((1, words)) };
    let digits = first.strip_prefix(b"-").or(first.strip_prefix(b"+")).unwrap_or(first);
    if rest.is_empty() || digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Ok((1, words));
    }
    let number = std::str::from_utf8(first).ok().and_then(|number| number.parse().ok());
    match number {
        Some(number @ 1..) => Ok((number, rest)),
        _ => Err("Invalid redis-cli repeat command option value."),
    }
}

/// Lines of standard input.
struct Input(BufReader<io::Stdin>);

impl Input {
    fn has_buffered(&self) -> bool {
        !self.0.buffer().is_empty()
    }

    /// The next line without its end; `None` after the last one.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        loop {
            match io::Read::take(&mut self.0, LINE_MAX_BYTES as u64).read_until(b'\n', &mut line) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
                Ok(0) if line.is_empty() => return Ok(None),
                Ok(_) => break,
            }
        }
        if line.ends_with(b"\n") {
            line.pop();
        }
        Ok(Some(line))
    }
}

/// Runs the commands of standard input; gives the exit status.
pub fn run(settings: &Settings) -> Result<i32, String> {
    interrupt::catch();
    let mut shell = Shell::new(settings);
    let mut input = Input(BufReader::new(io::stdin()));
    loop {
        let line = input.next().map_err(|error| format!("Reading from standard input: {}", plain(&error)))?;
        let Some(line) = line else { return Ok(0) };
        if let Next::End(status) = shell.line(&line) {
            return Ok(status);
        }
        // Who reads the output waits for it.
        let _ = io::stdout().flush();
        shell.show_messages(&input);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_before_a_command_repeats_it() {
        let words = |line: &str| quote::split(line.as_bytes()).expect("words");
        let three = words("3 ping");
        assert_eq!(split_repeat(&three), Ok((3, &three[1..])));
        for plain in ["ping 3", "3", "3a ping", ""] {
            let words = words(plain);
            assert_eq!(split_repeat(&words), Ok((1, words.as_slice())), "{plain}");
        }
        for bad in ["0 ping", "-1 ping", "99999999999999999999 ping"] {
            assert!(split_repeat(&words(bad)).is_err(), "{bad}");
        }
    }
}
