//! Commands read from a file, one after another, with their places.

use std::io::{self, Read};

use martlet_protocol::request::{Args, Parsed, Partial, RequestLimits, Span, parse};

use super::torn;

/// Bytes read at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Longest line of an annotation, in bytes (Redis: `AOF_ANNOTATION_LINE_MAX_LEN`).
const ANNOTATION_MAX_BYTES: usize = 1024;

/// Longest command, in bytes: places in it take 32 bits.
const COMMAND_MAX_BYTES: usize = u32::MAX as usize;
/// What a file may hold: arguments of any length that a command can have, whatever `proto-max-bulk-len` says
/// now.
const LIMITS: RequestLimits =
    RequestLimits { bulk_max_bytes: COMMAND_MAX_BYTES as i64, ..RequestLimits::DEFAULT };

/// Why a file of commands cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The file ends within a command that begins at this offset, and has nothing wrong up to there: what a
    /// write leaves that a crash has cut short.
    #[error("the file ends within the command at offset {0}")]
    Torn(u64),
    /// The bytes at this offset are not a command.
    #[error("{reason} in the command at offset {offset}")]
    Format {
        /// Where the command begins.
        offset: u64,
        /// The fault.
        reason: String,
    },
    /// The disk refuses.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// An item of a file of commands.
#[derive(Debug)]
pub enum Item<'a> {
    /// A command.
    Command(Args<'a>),
    /// `#TS:`: the next commands ran at this time, Unix seconds.
    Time(i64),
    /// Another line that begins with `#`.
    Comment,
}

/// See the [module docs](self).
pub struct CommandReader<R> {
    file: R,
    buffer: Vec<u8>,
    /// Where the bytes that were not handed over begin in `buffer`.
    start: usize,
    /// The offset in the file of the first byte of `buffer`.
    base: u64,
    partial: Partial,
    spans: Vec<Span>,
    is_at_end: bool,
}

impl<R: Read> CommandReader<R> {
    /// Reads `file`, whose next byte is at `offset`.
    pub fn new(file: R, offset: u64) -> CommandReader<R> {
        CommandReader {
            file,
            buffer: Vec::new(),
            start: 0,
            base: offset,
            partial: Partial::default(),
            spans: Vec::new(),
            is_at_end: false,
        }
    }

    /// The offset of the first byte that was not handed over.
    pub fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    /// The next command or annotation; `None` at the end of the file.
    ///
    /// # Errors
    /// [`CommandError`]. [`CommandReader::offset`] is then the begin of the unreadable part.
    pub fn read(&mut self) -> Result<Option<Item<'_>>, CommandError> {
        let end = loop {
            match self.find()? {
                Some(end) => break end,
                None if !self.is_at_end => self.fill()?,
                None if self.start == self.buffer.len() => return Ok(None),
                None => return Err(self.end_error()),
            }
        };
        let begin = std::mem::replace(&mut self.start, end);
        if self.buffer[begin] != b'#' {
            return Ok(Some(Item::Command(Args::new(&self.buffer, &self.spans))));
        }
        let line = self.buffer[begin..end].trim_ascii_end();
        let seconds =
            line.strip_prefix(b"#TS:").and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        Ok(Some(seconds.map_or(Item::Comment, Item::Time)))
    }

    /// The error for the bytes at the end of the file with which no command ends.
    fn end_error(&self) -> CommandError {
        let offset = self.offset();
        match torn::check_beginning(&self.buffer[self.start..], &LIMITS) {
            Ok(()) => CommandError::Torn(offset),
            Err(reason) => CommandError::Format { offset, reason },
        }
    }

    /// Shows the next commands, at most `most`, as far as they have come from the file, without handing them
    /// over.
    pub fn ahead(&self, most: usize, mut show: impl FnMut(&Args<'_>)) {
        let (mut spans, mut at) = (Vec::new(), self.start);
        for _ in 0..most {
            spans.clear();
            if self.buffer.get(at) != Some(&b'*') {
                break;
            }
            match parse(&self.buffer, at, &LIMITS, &mut Partial::default(), &mut spans) {
                Ok(Parsed::Complete(end)) if !spans.is_empty() => {
                    show(&Args::new(&self.buffer, &spans));
                    at = end;
                }
                _ => break,
            }
        }
    }

    /// The end in the buffer of what begins at `start`, if all of it is there.
    fn find(&mut self) -> Result<Option<usize>, CommandError> {
        let offset = self.offset();
        let format = |reason: String| CommandError::Format { offset, reason };
        let rest = &self.buffer[self.start..];
        match rest.first() {
            None => Ok(None),
            Some(b'#') => match rest.iter().take(ANNOTATION_MAX_BYTES).position(|&byte| byte == b'\n') {
                Some(at) => Ok(Some(self.start + at + 1)),
                None if rest.len() >= ANNOTATION_MAX_BYTES => Err(format("a line that is too long".into())),
                None => Ok(None),
            },
            Some(b'*') => {
                self.spans.clear();
                match parse(&self.buffer, self.start, &LIMITS, &mut self.partial, &mut self.spans) {
                    Err(error) => Err(format(error.to_string())),
                    Ok(Parsed::Incomplete) if self.buffer.len() >= COMMAND_MAX_BYTES => {
                        Err(format("more than 4 GB".into()))
                    }
                    Ok(Parsed::Incomplete) => Ok(None),
                    Ok(Parsed::Complete(_)) if self.spans.is_empty() => Err(format("no arguments".into())),
                    // The parser passes over what ends an argument.
                    Ok(Parsed::Complete(end)) => match Args::new(&self.buffer, &self.spans).encoded() {
                        Some(_) => Ok(Some(end)),
                        None => {
                            let beginning = torn::check_beginning(&self.buffer[self.start..end], &LIMITS);
                            Err(format(beginning.err().unwrap_or_else(|| "a line without its end".into())))
                        }
                    },
                }
            }
            Some(&other) => {
                Err(format(format!("Expected prefix '*', got: '{}'", char::from(other).escape_default())))
            }
        }
    }

    /// Reads more; sets `is_at_end` at the end.
    fn fill(&mut self) -> Result<(), CommandError> {
        self.buffer.drain(..self.start);
        self.base += self.start as u64;
        self.start = 0;
        // Never more than what is there, whatever a length in the file says.
        let room = COMMAND_MAX_BYTES.saturating_sub(self.buffer.len());
        let most = CHUNK_BYTES.max(self.buffer.len()).min(room) as u64;
        self.is_at_end = self.file.by_ref().take(most).read_to_end(&mut self.buffer)? == 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode;
    use proptest::prelude::*;

    type Command = Vec<Vec<u8>>;

    /// Commands, times, the offset that was reached, and why no further.
    fn read(bytes: &[u8]) -> (Vec<Command>, Vec<i64>, u64, Option<CommandError>) {
        let mut reader = CommandReader::new(bytes, 100);
        let (mut commands, mut times) = (Vec::new(), Vec::new());
        let error = loop {
            match reader.read() {
                Ok(Some(Item::Command(args))) => commands.push(args.iter().map(<[u8]>::to_vec).collect()),
                Ok(Some(Item::Time(seconds))) => times.push(seconds),
                Ok(Some(Item::Comment)) => {}
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        (commands, times, reader.offset() - 100, error)
    }

    #[test]
    fn annotations_are_told_apart() {
        let (commands, times, offset, error) = read(b"#TS:12\r\n*1\r\n$1\r\na\r\n# else\r\n#TS:x\n");
        assert_eq!((commands.len(), times.as_slice(), offset), (1, [12].as_slice(), 33));
        assert!(error.is_none());
        assert!(read(&[b'#'; 2000]).3.is_some());
    }

    #[test]
    fn what_comes_is_seen_ahead_and_then_read() {
        let mut reader =
            CommandReader::new(b"*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n*1\r\n$1\r\nc\r\n".as_slice(), 0);
        assert!(reader.read().unwrap().is_some());
        for most in [0, 1, 2, 3] {
            let mut seen = Vec::new();
            reader.ahead(most, |args| seen.extend_from_slice(args.at(0)));
            assert_eq!(seen, &b"bc"[..most.min(2)]);
        }
        assert!(matches!(reader.read(), Ok(Some(Item::Command(args))) if args.at(0) == b"b"));
    }

    #[test]
    fn what_is_no_command_is_refused_with_its_place() {
        let good = "*1\r\n$1\r\na\r\n";
        for (bad, reason) in [
            ("PING\r\n", "Expected prefix '*', got: 'P' in the command at offset 111"),
            ("*0\r\n", "no arguments in the command at offset 111"),
            ("*-1\r\n", "no arguments in the command at offset 111"),
            ("*1\r\n:1\r\n", "Protocol error: expected '$', got ':' in the command at offset 111"),
            ("*x\r\n", "Protocol error: invalid multibulk length in the command at offset 111"),
            ("*1\r\n$1\r\n", "the file ends within the command at offset 111"),
            ("*1\r\n$600000000\r\na", "the file ends within the command at offset 111"),
            (
                "*1\n",
                "Expected \\r\\n, got: 0a00; do its lines end in LF, as a tool leaves them that converts text? in the command at offset 111",
            ),
            ("*1\r\n$1\r\nabc*1\r\n$1\r\na\r\n", "Expected \\r\\n, got: 6263 in the command at offset 111"),
            ("*1\r\n$1\r\na\n\r*1\r\n$1\r\na\r\n", "Expected \\r\\n, got: 0a0d in the command at offset 111"),
        ] {
            let (commands, _, offset, error) = read(format!("{good}{bad}").as_bytes());
            assert_eq!((commands.len(), offset), (1, 11));
            assert_eq!(error.unwrap().to_string(), reason);
        }
    }

    proptest! {
        #[test]
        fn every_cut_gives_the_commands_before_it(
            commands in proptest::collection::vec(proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 1..4), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = Vec::new();
            let mut ends = vec![0];
            for command in &commands {
                encode(&mut bytes, command.iter().map(Vec::as_slice));
                ends.push(bytes.len());
            }
            let cut = cut.index(bytes.len() + 1);
            let whole = ends.iter().filter(|&&end| end <= cut).count() - 1;
            let (read, _, offset, error) = read(&bytes[..cut]);
            prop_assert_eq!(&read, &commands[..whole]);
            prop_assert_eq!(offset as usize, ends[whole]);
            prop_assert_eq!(error.is_some(), cut != ends[whole]);
        }
    }
}
