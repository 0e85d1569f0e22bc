//! The state of a debugger: where it stops its script, and the lines that wait for its client.

use std::cell::RefCell;

use super::text::{Text, value_text};
use crate::stack::Stack;

/// Most breakpoints of a session.
pub const BREAKPOINTS_MAX: usize = 64;
/// Length at which replies and values are cut unless the client says otherwise, in bytes.
pub const SHOWN_BYTES_DEFAULT: usize = 256;
/// The least length that the client can ask for.
pub const SHOWN_BYTES_MIN: usize = 60;
/// Bytes of a text whatever the client asks for, and of all lines that wait for the next stop.
pub const TEXT_BYTES_MAX: usize = 16 << 20;
/// Lines that wait for the next stop.
pub const LINES_MAX: usize = 100_000;

/// See the [module docs](self).
pub struct Debugger {
    /// The script, line by line.
    pub source: Vec<Vec<u8>>,
    /// The line that runs, from 1 on.
    pub line: i64,
    /// The script stops at its next line, and commands that it calls are shown until then.
    pub steps: bool,
    /// `redis.breakpoint()` was called: the script stops at its next line.
    pub breaks: bool,
    pub breakpoints: Vec<i64>,
    /// Lines for the client.
    pub lines: Vec<Vec<u8>>,
    pub lines_bytes: usize,
    /// Where replies and values are cut, in bytes; 0 for nowhere.
    pub shown_bytes: usize,
    /// The client has been told how to see more, or knows.
    pub has_hinted: bool,
}

/// The place for it in a state's context.
pub type Place = RefCell<Option<Box<Debugger>>>;

impl Debugger {
    /// One that stops at the first line of this script.
    pub fn new(source: &[u8]) -> Debugger {
        let end = source.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
        let lines = source[..end].split(|&byte| byte == b'\n').map(<[u8]>::to_vec);
        Debugger {
            source: if end == 0 { Vec::new() } else { lines.collect() },
            line: 0,
            steps: true,
            breaks: false,
            breakpoints: Vec::new(),
            lines: Vec::new(),
            lines_bytes: 0,
            shown_bytes: SHOWN_BYTES_DEFAULT,
            has_hinted: false,
        }
    }

    /// Adds a line for the client, as far as there is room.
    pub fn say(&mut self, line: impl Into<Vec<u8>>) {
        let line = line.into();
        if self.lines.len() < LINES_MAX && self.lines_bytes + line.len() <= TEXT_BYTES_MAX {
            self.lines_bytes += line.len();
            self.lines.push(line);
        }
    }

    /// Bytes of a text that may be cut which are worth making.
    pub fn wanted_bytes(&self) -> usize {
        if self.shown_bytes > 0 { self.shown_bytes + 1 } else { TEXT_BYTES_MAX }
    }

    /// As [`Debugger::say`]; a line that is too long is cut, which the first time is explained.
    pub fn say_cut(&mut self, mut line: Vec<u8>) {
        if self.shown_bytes == 0 || line.len() <= self.shown_bytes {
            return self.say(line);
        }
        line.truncate(self.shown_bytes);
        line.extend_from_slice(b" ...");
        self.say(line);
        if !std::mem::replace(&mut self.has_hinted, true) {
            self.say("<hint> The above reply was trimmed. Use 'maxlen 0' to disable trimming.");
        }
    }

    /// Adds a line of the source, with marks of the current line and breakpoints.
    pub fn say_source(&mut self, number: i64) {
        let mark = match (self.line == number, self.breakpoints.contains(&number)) {
            (true, true) => "->#",
            (true, false) => "-> ",
            (false, true) => "  #",
            (false, false) => "   ",
        };
        let source = usize::try_from(number - 1).ok().and_then(|index| self.source.get(index));
        let source = source.map_or(b"<out of range source code line>".as_slice(), Vec::as_slice);
        let line = [format!("{mark}{number:<3} ").as_bytes(), source].concat();
        self.say(line);
    }

    /// Adds what the client has evaluated or asked for, which is on top of the stack.
    pub fn say_value(&mut self, stack: &mut Stack<'_>, before: &[u8]) {
        let mut text = Text::new(before, self.wanted_bytes());
        value_text(stack, -1, &mut text);
        self.say_cut(text.into_bytes());
    }

    /// Why the script stops at the line that it has reached, if it does.
    pub fn reason(&self, is_overdue: bool) -> Option<&'static str> {
        if self.breaks {
            Some("redis.breakpoint() called")
        } else if self.breakpoints.contains(&self.line) {
            Some("break point")
        } else if is_overdue {
            Some("timeout reached, infinite loop?")
        } else {
            self.steps.then_some("step over")
        }
    }
}

/// The lines that wait at the end of a session, and its last.
pub fn last_lines(debugger: &mut Debugger) -> Vec<Vec<u8>> {
    let mut lines = std::mem::take(&mut debugger.lines);
    lines.push(b"<endsession>".to_vec());
    lines
}
