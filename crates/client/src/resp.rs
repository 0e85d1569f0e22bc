//! Replies as values: one decoder for RESP2 and RESP3 that keeps every distinction the wire makes
//! (the two nulls of RESP2, the text of a double), so that a test can compare replies to the byte.

use std::fmt;

/// Deepest nesting that the decoder follows; a reply nested deeper is refused rather than risking the stack.
const MAX_DEPTH: usize = 64;
/// Most elements for which room is reserved before they have arrived.
const MAX_RESERVED_ELEMENTS: usize = 1024;

/// One reply of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `+text`
    Simple(Vec<u8>),
    /// `-text`
    Error(Vec<u8>),
    /// `:n`
    Int(i64),
    /// `$n`
    Bulk(Vec<u8>),
    /// `$-1`, RESP2's missing string.
    NullBulk,
    /// `*-1`, RESP2's missing array.
    NullArray,
    /// `_`, RESP3's null.
    Null,
    /// `*n`
    Array(Vec<Reply>),
    /// `%n`, in the order of arrival.
    Map(Vec<(Reply, Reply)>),
    /// `~n`
    Set(Vec<Reply>),
    /// `>n`
    Push(Vec<Reply>),
    /// `,x`, as its text.
    Double(Vec<u8>),
    /// `#t` or `#f`
    Bool(bool),
    /// `(n`, as its text.
    BigNumber(Vec<u8>),
    /// `=n`, the three-letter format and the text.
    Verbatim([u8; 3], Vec<u8>),
    /// `|n`, attributes and the reply that they belong to.
    Attributed(Vec<(Reply, Reply)>, Box<Reply>),
}

/// Bytes that no server speaking RESP sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The reason.
    pub reason: &'static str,
    /// How many bytes into the reply.
    pub offset: usize,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid reply at byte {}: {}", self.offset, self.reason)
    }
}

impl std::error::Error for DecodeError {}

/// The first reply in `buffer` and its length in bytes, or `None` when it is not whole yet.
pub fn decode(buffer: &[u8]) -> Result<Option<(Reply, usize)>, DecodeError> {
    let mut cursor = Cursor { buffer, at: 0 };
    Ok(cursor.reply(0)?.map(|reply| (reply, cursor.at)))
}

/// Appends a request in the multi-bulk form.
pub fn encode_request<A: AsRef<[u8]>>(arguments: &[A], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
    for argument in arguments {
        let argument = argument.as_ref();
        out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

struct Cursor<'a> {
    buffer: &'a [u8],
    at: usize,
}

/// `None`: more bytes are needed.
type Step<T> = Result<Option<T>, DecodeError>;

/// Returns early with `Ok(None)` when the bytes are not there yet.
macro_rules! whole {
    ($step:expr) => {
        match $step? {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

impl<'a> Cursor<'a> {
    fn fail<T>(&self, reason: &'static str) -> Step<T> {
        Err(DecodeError { reason, offset: self.at })
    }

    /// The bytes up to the next CRLF, which is consumed too.
    fn line(&mut self) -> Step<&'a [u8]> {
        let rest = self.buffer.get(self.at..).unwrap_or_default();
        let Some(end) = rest.iter().position(|&byte| byte == b'\r') else { return Ok(None) };
        match rest.get(end + 1) {
            None => Ok(None),
            Some(b'\n') => {
                self.at += end + 2;
                Ok(rest.get(..end))
            }
            Some(_) => self.fail("a carriage return without a line feed"),
        }
    }

    fn integer(&mut self) -> Step<i64> {
        let line = whole!(self.line());
        match std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()) {
            Some(number) => Ok(Some(number)),
            None => self.fail("not an integer"),
        }
    }

    fn payload(&mut self, length: usize) -> Step<&'a [u8]> {
        let Some(end) = self.at.checked_add(length).and_then(|end| end.checked_add(2)) else {
            return self.fail("a length that overflows");
        };
        let Some(bytes) = self.buffer.get(self.at..end) else { return Ok(None) };
        let Some(text) = bytes.strip_suffix(b"\r\n") else { return self.fail("a string without its CRLF") };
        self.at = end;
        Ok(Some(text))
    }

    fn reply(&mut self, depth: usize) -> Step<Reply> {
        if depth > MAX_DEPTH {
            return self.fail("nested too deep");
        }
        let Some(&kind) = self.buffer.get(self.at) else { return Ok(None) };
        self.at += 1;
        Ok(Some(match kind {
            b'+' => Reply::Simple(whole!(self.line()).to_vec()),
            b'-' => Reply::Error(whole!(self.line()).to_vec()),
            b',' => Reply::Double(whole!(self.line()).to_vec()),
            b'(' => Reply::BigNumber(whole!(self.line()).to_vec()),
            b':' => Reply::Int(whole!(self.integer())),
            b'_' => match whole!(self.line()) {
                b"" => Reply::Null,
                _ => return self.fail("a null with text"),
            },
            b'#' => match whole!(self.line()) {
                b"t" => Reply::Bool(true),
                b"f" => Reply::Bool(false),
                _ => return self.fail("a boolean that is neither t nor f"),
            },
            b'$' | b'=' => return self.string(kind == b'='),
            b'*' | b'~' | b'>' => return self.sequence(kind, depth),
            b'%' => Reply::Map(whole!(self.pairs(depth))),
            b'|' => {
                let attributes = whole!(self.pairs(depth));
                Reply::Attributed(attributes, Box::new(whole!(self.reply(depth + 1))))
            }
            _ => return self.fail("an unknown reply type"),
        }))
    }

    fn string(&mut self, verbatim: bool) -> Step<Reply> {
        let length = whole!(self.integer());
        if length == -1 && !verbatim {
            return Ok(Some(Reply::NullBulk));
        }
        let Ok(length) = usize::try_from(length) else { return self.fail("a negative length") };
        let text = whole!(self.payload(length));
        if !verbatim {
            return Ok(Some(Reply::Bulk(text.to_vec())));
        }
        match text {
            [a, b, c, b':', text @ ..] => Ok(Some(Reply::Verbatim([*a, *b, *c], text.to_vec()))),
            _ => self.fail("a verbatim string without its format"),
        }
    }

    fn sequence(&mut self, kind: u8, depth: usize) -> Step<Reply> {
        let count = whole!(self.integer());
        if count == -1 && kind == b'*' {
            return Ok(Some(Reply::NullArray));
        }
        let Ok(count) = usize::try_from(count) else { return self.fail("a negative count") };
        let mut items = Vec::with_capacity(count.min(MAX_RESERVED_ELEMENTS));
        for _ in 0..count {
            items.push(whole!(self.reply(depth + 1)));
        }
        Ok(Some(match kind {
            b'~' => Reply::Set(items),
            b'>' => Reply::Push(items),
            _ => Reply::Array(items),
        }))
    }

    fn pairs(&mut self, depth: usize) -> Step<Vec<(Reply, Reply)>> {
        let count = whole!(self.integer());
        let Ok(count) = usize::try_from(count) else { return self.fail("a negative count") };
        let mut pairs = Vec::with_capacity(count.min(MAX_RESERVED_ELEMENTS));
        for _ in 0..count {
            let key = whole!(self.reply(depth + 1));
            pairs.push((key, whole!(self.reply(depth + 1))));
        }
        Ok(Some(pairs))
    }
}

impl Reply {
    /// The bytes of a string reply of any kind, simple strings included.
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Reply::Simple(text) | Reply::Bulk(text) | Reply::Verbatim(_, text) => Some(text),
            Reply::Double(text) | Reply::BigNumber(text) => Some(text),
            _ => None,
        }
    }

    /// The integer, when the reply is one or is a string that spells one.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Reply::Int(number) => Some(*number),
            _ => std::str::from_utf8(self.text()?).ok()?.parse().ok(),
        }
    }

    /// The elements of an array, set or push.
    pub fn items(&self) -> Option<&[Reply]> {
        match self {
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => Some(items),
            _ => None,
        }
    }

    /// Whether the server refused the request.
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[u8] = b"*12\r\n+OK\r\n-ERR no\r\n:-3\r\n$3\r\na\r\n\r\n$-1\r\n*-1\r\n_\r\n,1.5\r\n#t\r\n(123\r\n=7\r\ntxt:abc\r\n\
        %1\r\n$1\r\nk\r\n~1\r\n:1\r\n";

    #[test]
    fn every_type() {
        let (reply, length) = decode(ALL).unwrap().unwrap();
        assert_eq!(length, ALL.len());
        let items = reply.items().unwrap();
        assert_eq!(items[3], Reply::Bulk(b"a\r\n".to_vec()));
        assert_eq!(items[10], Reply::Verbatim(*b"txt", b"abc".to_vec()));
        let set = Reply::Set(vec![Reply::Int(1)]);
        assert_eq!(items[11], Reply::Map(vec![(Reply::Bulk(b"k".to_vec()), set)]));
    }

    #[test]
    fn a_prefix_is_never_a_reply() {
        for end in 0..ALL.len() {
            assert_eq!(decode(&ALL[..end]), Ok(None), "the first {end} bytes");
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        for bytes in
            [&b"!x\r\n"[..], b":x\r\n", b"$-2\r\n", b"*-2\r\n", b"$1\r\nabc", b"#x\r\n", b"=3\r\nabc\r\n"]
        {
            assert!(decode(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
        assert!(decode("*1\r\n".repeat(100).as_bytes()).is_err());
    }

    #[test]
    fn attributes_precede_their_reply() {
        let (reply, _) = decode(b"|1\r\n+ttl\r\n:5\r\n$1\r\nv\r\n").unwrap().unwrap();
        let attributes = vec![(Reply::Simple(b"ttl".to_vec()), Reply::Int(5))];
        assert_eq!(reply, Reply::Attributed(attributes, Box::new(Reply::Bulk(b"v".to_vec()))));
    }

    #[test]
    fn requests_carry_any_bytes() {
        let mut out = Vec::new();
        encode_request(&[&b"GET"[..], b"\r\n"], &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n");
    }
}
