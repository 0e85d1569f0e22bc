//! A reply in parts, as they arrive: what prints or looks at replies of any length without holding them.
//!
//! Invariant: memory is bounded by the longest line and the deepest nesting, not by the reply. A reply may be
//! cut anywhere between two chunks.

use crate::resp::Reply;

/// Longest line that is kept while it waits for its end: an error, a status, a number.
const LINE_MAX_BYTES: usize = 64 << 20;
/// Deepest nesting that is followed.
const DEPTH_MAX: usize = 512;

/// Aggregates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// `*`
    Array,
    /// `~`
    Set,
    /// `%`; its elements are keys and values in turn.
    Map,
    /// `>`
    Push,
    /// `|`, in front of the reply that it belongs to; its elements are keys and values in turn.
    Attribute,
}

/// Strings with a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// `$`
    Bulk,
    /// `=`, without its format.
    Verbatim([u8; 3]),
    /// `!`
    Error,
}

/// Nulls, which RESP2 has two of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Null {
    /// `_`
    Plain,
    /// `$-1`
    Bulk,
    /// `*-1`
    Array,
}

/// One part of a reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part<'a> {
    /// `+text`
    Simple(&'a [u8]),
    /// `-text`
    Error(&'a [u8]),
    /// `:n`
    Int(i64),
    /// `,x`, as its text.
    Double(&'a [u8]),
    /// `(n`, as its text.
    BigNumber(&'a [u8]),
    /// `#t` or `#f`
    Bool(bool),
    /// A null of any kind.
    Null(Null),
    /// A string begins; [`Part::Bytes`] follow, in any number, then [`Part::EndText`].
    Text(Text, u64),
    /// Some of a string's bytes, never none.
    Bytes(&'a [u8]),
    /// A string ends.
    EndText,
    /// An aggregate begins, with this number of elements; a map's keys and values count one each.
    Open(Aggregate, u64),
    /// An aggregate ends.
    Close(Aggregate),
}

/// The bytes are not RESP. The texts are those of Redis' clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartsError {
    /// A reply begins with an unknown byte.
    #[error("Protocol error, got {} as reply type byte", printable(*.0))]
    Type(u8),
    /// A number is malformed.
    #[error("Bad integer value")]
    Integer,
    /// A length is malformed.
    #[error("Bad bulk string length")]
    Length,
    /// A count of elements is malformed.
    #[error("Multi-bulk length out of range")]
    Count,
    /// A boolean is neither `t` nor `f`.
    #[error("Bad bool value")]
    Bool,
    /// A verbatim string has no format.
    #[error("Verbatim string 4 bytes of content type are missing or incorrectly encoded.")]
    Verbatim,
    /// A string is longer than it said.
    #[error("Protocol error, a string does not end where it should")]
    End,
    /// A line is too long, or its end is not CRLF.
    #[error("Protocol error, a line does not end")]
    Line,
    /// Nested too deep.
    #[error("Protocol error, replies nested deeper than {DEPTH_MAX}")]
    Depth,
}

fn printable(byte: u8) -> String {
    match byte {
        b'"' => r#""\"""#.into(),
        b'\\' => r#""\\""#.into(),
        b'\n' => r#""\n""#.into(),
        b'\r' => r#""\r""#.into(),
        b'\t' => r#""\t""#.into(),
        0x20..=0x7e => format!("\"{}\"", char::from(byte)),
        _ => format!("\"\\x{byte:02x}\""),
    }
}

/// How far a call of [`PartReader::feed`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fed {
    /// Bytes that were consumed.
    pub used_bytes: usize,
    /// Whether a whole reply has been given; else all bytes are consumed.
    pub is_whole: bool,
}

/// An aggregate under way.
struct Frame {
    kind: Aggregate,
    elements_left: u64,
}

/// The kind of the next bytes.
#[derive(Clone, Copy)]
enum State {
    /// A line with a type byte.
    Line,
    /// The four bytes of a verbatim string's format, followed by this number of bytes.
    Format(u64),
    /// Bytes of a string that are still to come.
    Bytes(u64),
    /// The CRLF after a string.
    Crlf,
}

/// Turns bytes into parts; remembers where it stands between two chunks.
pub struct PartReader {
    state: State,
    frames: Vec<Frame>,
    /// The beginning of a line, a format or a CRLF that the last chunk cut.
    cut: Vec<u8>,
}

impl Default for PartReader {
    fn default() -> Self {
        PartReader { state: State::Line, frames: Vec::new(), cut: Vec::new() }
    }
}

impl PartReader {
    /// Whether it is between two replies.
    pub fn is_between(&self) -> bool {
        self.frames.is_empty() && self.cut.is_empty() && matches!(self.state, State::Line)
    }

    /// Consumes bytes up to the end of a reply, or all, and gives their parts to `sink`.
    pub fn feed(&mut self, data: &[u8], mut sink: impl FnMut(Part)) -> Result<Fed, PartsError> {
        let mut rest = data;
        while !rest.is_empty() {
            let is_whole = self.step(&mut rest, &mut sink)?;
            if is_whole {
                return Ok(Fed { used_bytes: data.len() - rest.len(), is_whole });
            }
        }
        Ok(Fed { used_bytes: data.len(), is_whole: false })
    }

    /// Consumes one line or a part of one string; returns whether a reply is complete.
    fn step(&mut self, rest: &mut &[u8], sink: &mut impl FnMut(Part)) -> Result<bool, PartsError> {
        match self.state {
            State::Line => match self.take_line(rest)? {
                Some(line) => self.line(&line, sink),
                None => Ok(false),
            },
            State::Format(after) => match self.take(rest, 4) {
                Some(format) => {
                    let [a, b, c, b':'] = *format else { return Err(PartsError::Verbatim) };
                    sink(Part::Text(Text::Verbatim([a, b, c]), after));
                    self.state = if after == 0 { State::Crlf } else { State::Bytes(after) };
                    Ok(false)
                }
                None => Ok(false),
            },
            State::Bytes(left) => {
                let taken = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
                let (bytes, tail) = rest.split_at(taken);
                *rest = tail;
                sink(Part::Bytes(bytes));
                let left = left - taken as u64;
                self.state = if left == 0 { State::Crlf } else { State::Bytes(left) };
                Ok(false)
            }
            State::Crlf => match self.take(rest, 2) {
                Some(end) if *end == *b"\r\n" => {
                    self.state = State::Line;
                    sink(Part::EndText);
                    Ok(self.finish_element(sink))
                }
                Some(_) => Err(PartsError::End),
                None => Ok(false),
            },
        }
    }

    /// The next line without its end, when it is there.
    fn take_line<'a>(
        &mut self,
        rest: &mut &'a [u8],
    ) -> Result<Option<std::borrow::Cow<'a, [u8]>>, PartsError> {
        let Some(end) = memchr::memchr(b'\n', rest) else {
            if self.cut.len() + rest.len() > LINE_MAX_BYTES {
                return Err(PartsError::Line);
            }
            self.cut.extend_from_slice(rest);
            *rest = &[];
            return Ok(None);
        };
        let (line, tail) = rest.split_at(end + 1);
        *rest = tail;
        if self.cut.is_empty() {
            return line.strip_suffix(b"\r\n").map(|line| Some(line.into())).ok_or(PartsError::Line);
        }
        let mut whole = std::mem::take(&mut self.cut);
        whole.extend_from_slice(line);
        let Some(length) = whole.strip_suffix(b"\r\n").map(<[u8]>::len) else { return Err(PartsError::Line) };
        whole.truncate(length);
        Ok(Some(whole.into()))
    }

    /// Exactly `count` bytes, when they are there.
    fn take<'a>(&mut self, rest: &mut &'a [u8], count: usize) -> Option<std::borrow::Cow<'a, [u8]>> {
        let wanted = count - self.cut.len();
        let (bytes, tail) = rest.split_at(wanted.min(rest.len()));
        *rest = tail;
        if self.cut.is_empty() && bytes.len() == count {
            return Some(bytes.into());
        }
        self.cut.extend_from_slice(bytes);
        (self.cut.len() == count).then(|| std::mem::take(&mut self.cut).into())
    }

    /// Acts on one whole line.
    fn line(&mut self, line: &[u8], sink: &mut impl FnMut(Part)) -> Result<bool, PartsError> {
        let Some((&kind, body)) = line.split_first() else { return Err(PartsError::Type(b'\r')) };
        match kind {
            b'+' => sink(Part::Simple(body)),
            b'-' => sink(Part::Error(body)),
            b',' => sink(Part::Double(body)),
            b'(' => sink(Part::BigNumber(body)),
            b':' => sink(Part::Int(integer(body)?)),
            b'_' => sink(Part::Null(Null::Plain)),
            b'#' => sink(Part::Bool(match body {
                b"t" => true,
                b"f" => false,
                _ => return Err(PartsError::Bool),
            })),
            b'$' | b'=' | b'!' => return self.text(kind, body, sink),
            b'*' | b'~' | b'%' | b'>' | b'|' => return self.open(kind, body, sink),
            other => return Err(PartsError::Type(other)),
        }
        Ok(self.finish_element(sink))
    }

    fn text(&mut self, kind: u8, body: &[u8], sink: &mut impl FnMut(Part)) -> Result<bool, PartsError> {
        let length = integer(body).map_err(|_| PartsError::Length)?;
        if length == -1 && kind != b'!' {
            sink(Part::Null(Null::Bulk));
            return Ok(self.finish_element(sink));
        }
        let length = u64::try_from(length).map_err(|_| PartsError::Length)?;
        if kind == b'=' {
            self.state = State::Format(length.checked_sub(4).ok_or(PartsError::Verbatim)?);
            return Ok(false);
        }
        sink(Part::Text(if kind == b'!' { Text::Error } else { Text::Bulk }, length));
        self.state = if length == 0 { State::Crlf } else { State::Bytes(length) };
        Ok(false)
    }

    fn open(&mut self, kind: u8, body: &[u8], sink: &mut impl FnMut(Part)) -> Result<bool, PartsError> {
        let count = integer(body).map_err(|_| PartsError::Count)?;
        if count == -1 {
            sink(Part::Null(Null::Array));
            return Ok(self.finish_element(sink));
        }
        let count = u64::try_from(count).map_err(|_| PartsError::Count)?;
        let (kind, count) = match kind {
            b'~' => (Aggregate::Set, count),
            b'>' => (Aggregate::Push, count),
            b'%' => (Aggregate::Map, count.checked_mul(2).ok_or(PartsError::Count)?),
            b'|' => (Aggregate::Attribute, count.checked_mul(2).ok_or(PartsError::Count)?),
            _ => (Aggregate::Array, count),
        };
        if self.frames.len() >= DEPTH_MAX {
            return Err(PartsError::Depth);
        }
        sink(Part::Open(kind, count));
        self.frames.push(Frame { kind, elements_left: count });
        Ok(self.close_full(sink))
    }

    /// Counts an element, and closes the aggregates that it completes; returns whether the reply is complete.
    fn finish_element(&mut self, sink: &mut impl FnMut(Part)) -> bool {
        let Some(frame) = self.frames.last_mut() else { return true };
        frame.elements_left -= 1;
        self.close_full(sink)
    }

    fn close_full(&mut self, sink: &mut impl FnMut(Part)) -> bool {
        while let Some(Frame { kind, elements_left: 0 }) = self.frames.last() {
            let kind = *kind;
            self.frames.pop();
            sink(Part::Close(kind));
            // An attribute is not an element: the reply that it belongs to is still to come.
            if kind == Aggregate::Attribute {
                return false;
            }
            match self.frames.last_mut() {
                Some(frame) => frame.elements_left -= 1,
                None => return true,
            }
        }
        false
    }
}

fn integer(text: &[u8]) -> Result<i64, PartsError> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(PartsError::Integer)
}

/// Builds a whole reply from its parts; attributes are left out.
#[derive(Default)]
pub struct ReplyBuilder {
    open: Vec<(Aggregate, Vec<Reply>)>,
    text: Option<(Text, Vec<u8>)>,
    whole: Option<Reply>,
}

/// Most elements, or bytes, for which room is reserved before they have arrived.
const RESERVED_MAX: u64 = 1024;

impl ReplyBuilder {
    /// The reply, once its last part has been added.
    pub fn finish(self) -> Option<Reply> {
        self.whole
    }

    /// Takes the next part.
    pub fn add(&mut self, part: Part) {
        let reply = match part {
            Part::Simple(text) => Reply::Simple(text.to_vec()),
            Part::Error(text) => Reply::Error(text.to_vec()),
            Part::Int(number) => Reply::Int(number),
            Part::Double(text) => Reply::Double(text.to_vec()),
            Part::BigNumber(text) => Reply::BigNumber(text.to_vec()),
            Part::Bool(value) => Reply::Bool(value),
            Part::Null(Null::Plain) => Reply::Null,
            Part::Null(Null::Bulk) => Reply::NullBulk,
            Part::Null(Null::Array) => Reply::NullArray,
            Part::Text(kind, length) => {
                self.text = Some((kind, Vec::with_capacity(length.min(RESERVED_MAX) as usize)));
                return;
            }
            Part::Bytes(bytes) => {
                if let Some((_, text)) = &mut self.text {
                    text.extend_from_slice(bytes);
                }
                return;
            }
            Part::EndText => match self.text.take() {
                Some((Text::Bulk, text)) => Reply::Bulk(text),
                Some((Text::Verbatim(format), text)) => Reply::Verbatim(format, text),
                Some((Text::Error, text)) => Reply::Error(text),
                None => return,
            },
            Part::Open(kind, count) => {
                self.open.push((kind, Vec::with_capacity(count.min(RESERVED_MAX) as usize)));
                return;
            }
            Part::Close(_) => match self.open.pop() {
                Some((Aggregate::Array, items)) => Reply::Array(items),
                Some((Aggregate::Set, items)) => Reply::Set(items),
                Some((Aggregate::Push, items)) => Reply::Push(items),
                Some((Aggregate::Map, items)) => Reply::Map(pairs(items)),
                Some((Aggregate::Attribute, _)) | None => return,
            },
        };
        match self.open.last_mut() {
            Some((_, items)) => items.push(reply),
            None => self.whole = Some(reply),
        }
    }
}

fn pairs(items: Vec<Reply>) -> Vec<(Reply, Reply)> {
    let mut items = items.into_iter();
    std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp;
    use proptest::prelude::*;

    /// The first reply, built from chunks of `cut` bytes, and how many bytes it took.
    fn build(data: &[u8], cut: usize) -> Result<(Option<Reply>, usize), PartsError> {
        let (mut reader, mut builder, mut used) = (PartReader::default(), ReplyBuilder::default(), 0);
        for chunk in data.chunks(cut.max(1)) {
            let fed = reader.feed(chunk, |part| builder.add(part))?;
            used += fed.used_bytes;
            if fed.is_whole {
                assert!(reader.is_between());
                break;
            }
        }
        Ok((builder.finish(), used))
    }

    const STREAM: &[u8] =
        b"+OK\r\n:5\r\n$-1\r\n$3\r\nabc\r\n$0\r\n\r\n*0\r\n*-1\r\n-ERR no\r\n*2\r\n*1\r\n:1\r\n$1\r\nx\r\n\
        _\r\n#t\r\n#f\r\n,1.5\r\n(12\r\n%1\r\n+a\r\n*1\r\n-e\r\n~1\r\n:1\r\n=7\r\ntxt:abc\r\n=4\r\ntxt:\r\n\
        >2\r\n+invalidate\r\n*1\r\n+k\r\n*1\r\n%0\r\n:-7\r\n";

    #[test]
    fn every_kind_is_built_as_the_decoder_does_wherever_it_is_cut() {
        for cut in 1..=STREAM.len() {
            let mut rest = STREAM;
            while let Ok(Some((expected, length))) = resp::decode(rest) {
                assert_eq!(build(rest, cut), Ok((Some(expected), length)), "cut at {cut}");
                rest = &rest[length..];
            }
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn attributes_precede_their_reply_and_count_as_none() {
        let data = b"*2\r\n|1\r\n+ttl\r\n:1\r\n+value\r\n+other\r\n";
        for cut in 1..=data.len() {
            let words = ["value", "other"].map(|word| Reply::Simple(word.into()));
            assert_eq!(build(data, cut), Ok((Some(Reply::Array(words.into())), data.len())));
        }
        assert_eq!(build(b"!5\r\nERR x\r\n", 3), Ok((Some(Reply::Error(b"ERR x".to_vec())), 11)));
    }

    #[test]
    fn what_is_not_resp_is_named() {
        for (data, error) in [
            (&b"hello\r\n"[..], PartsError::Type(b'h')),
            (b"$x\r\n", PartsError::Length),
            (b"$-2\r\n", PartsError::Length),
            (b"*99999999999999999999\r\n", PartsError::Count),
            (b"*-2\r\n", PartsError::Count),
            (b":1x\r\n", PartsError::Integer),
            (b"#x\r\n", PartsError::Bool),
            (b"=3\r\nabc\r\n", PartsError::Verbatim),
            (b"=5\r\nabcde\r\n", PartsError::Verbatim),
            (b"$1\r\nabc\r\n", PartsError::End),
            (b"+OK\n", PartsError::Line),
            (b"\r\n", PartsError::Type(b'\r')),
        ] {
            for cut in 1..=data.len() {
                assert_eq!(build(data, cut), Err(error), "{data:?} cut at {cut}");
            }
        }
        assert_eq!(build(&b"*1\r\n".repeat(DEPTH_MAX + 1), 4096), Err(PartsError::Depth));
        assert_eq!(PartsError::Type(0x1b).to_string(), r#"Protocol error, got "\x1b" as reply type byte"#);
    }

    proptest! {
        /// Bytes of any kind give a reply, an error or nothing; the cut does not matter.
        #[test]
        fn nonsense_is_survived_and_cuts_do_not_matter(
            bytes in proptest::collection::vec(proptest::sample::select(&b"*$+-:%~|>_#,(=!019\r\nta"[..]), 0..60),
            cut in 1usize..20,
        ) {
            prop_assert_eq!(build(&bytes, cut), build(&bytes, bytes.len().max(1)));
        }
    }
}
