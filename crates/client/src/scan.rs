//! Counts replies in a byte stream without building them: the load tester's reading side.
//! A scanner remembers where it stands between two chunks, so a reply may be cut anywhere;
//! it allocates only for the text of an error or of a line that a chunk's end has cut.

/// Longest reply line that is kept while it waits for its end; a longer one is malformed.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// The kind of a complete reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// Any reply but an error or a null.
    Value,
    /// A null reply (`$-1`, `*-1`, `_`): a miss, for a read.
    Null,
    /// An error reply.
    Error,
}

/// Receives the scanner's findings, in order.
pub trait ReplySink {
    /// A top-level reply is complete; `text` is the message without type byte when it is an error, else
    /// empty.
    fn reply(&mut self, kind: ReplyKind, text: &[u8]);
}

/// The bytes are not RESP.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed reply: {0}")]
pub struct MalformedReply(String);

/// The state between two chunks of one connection.
#[derive(Default)]
pub struct ReplyScanner {
    /// Bytes of a bulk payload, its line end included, that are still to come.
    skip_bytes: usize,
    /// Elements of the current aggregate that are still to come; 0 between two replies.
    elements_left: u64,
    /// The aggregate in progress is a push or an attribute, which answers no request.
    out_of_band: bool,
    /// The current top-level reply is an error of the bulk kind.
    bulk_error: bool,
    /// The beginning of a line that the last chunk cut.
    line: Vec<u8>,
}

impl ReplyScanner {
    /// Forgets everything: for a new connection in the same place.
    pub fn reset(&mut self) {
        *self = ReplyScanner::default();
    }

    /// Scans one chunk and reports each reply that it completes to `sink`.
    #[inline]
    pub fn feed(&mut self, data: &[u8], sink: &mut impl ReplySink) -> Result<(), MalformedReply> {
        let mut rest = data;
        if self.skip_bytes == 0 && self.elements_left == 0 && self.line.is_empty() {
            while let Some(tail) = rest.strip_prefix(b"+OK\r\n") {
                sink.reply(ReplyKind::Value, b"");
                rest = tail;
            }
        }
        while !rest.is_empty() {
            rest = self.step(rest, sink)?;
        }
        Ok(())
    }

    /// Consumes one line or a part of one payload.
    fn step<'a>(&mut self, data: &'a [u8], sink: &mut impl ReplySink) -> Result<&'a [u8], MalformedReply> {
        if self.skip_bytes > 0 {
            let taken = self.skip_bytes.min(data.len());
            self.skip_bytes -= taken;
            if self.skip_bytes == 0 {
                let kind = if self.bulk_error { ReplyKind::Error } else { ReplyKind::Value };
                let text: &[u8] = if self.bulk_error { b"bulk error" } else { b"" };
                self.bulk_error = false;
                self.finish_element(kind, text, sink);
            }
            return Ok(data.get(taken..).unwrap_or_default());
        }
        let Some(end) = memchr::memchr(b'\n', data) else {
            if self.line.len() + data.len() > MAX_LINE_BYTES {
                return Err(MalformedReply("a line does not end".into()));
            }
            self.line.extend_from_slice(data);
            return Ok(&[]);
        };
        let (line, rest) = data.split_at(end + 1);
        if self.line.is_empty() {
            self.take_line(line, sink)?;
        } else {
            let mut whole = std::mem::take(&mut self.line);
            whole.extend_from_slice(line);
            self.take_line(&whole, sink)?;
        }
        Ok(rest)
    }

    /// Acts on one whole line, its end included.
    fn take_line(&mut self, line: &[u8], sink: &mut impl ReplySink) -> Result<(), MalformedReply> {
        let (Some(&kind), Some(body)) = (line.first(), line.get(1..line.len().saturating_sub(2))) else {
            return Err(malformed(line));
        };
        if !line.ends_with(b"\r\n") {
            return Err(malformed(line));
        }
        match kind {
            b'+' | b':' | b'#' | b',' | b'(' => self.finish_element(ReplyKind::Value, b"", sink),
            b'_' => self.finish_element(ReplyKind::Null, b"", sink),
            b'-' => self.finish_element(ReplyKind::Error, body, sink),
            b'$' | b'=' | b'!' => match length(body, line)? {
                None => self.finish_element(ReplyKind::Null, b"", sink),
                Some(len) => {
                    self.bulk_error = kind == b'!' && self.elements_left == 0;
                    self.skip_bytes = usize::try_from(len).map_err(|_| malformed(line))?.saturating_add(2);
                }
            },
            b'*' | b'~' => self.aggregate(length(body, line)?, 1, sink),
            b'%' => self.aggregate(length(body, line)?, 2, sink),
            b'>' | b'|' => {
                let factor = if kind == b'|' { 2 } else { 1 };
                let count = length(body, line)?.unwrap_or(0).saturating_mul(factor);
                if self.elements_left == 0 {
                    self.out_of_band = count > 0;
                    self.elements_left = count;
                } else {
                    // An attribute inside an aggregate adds its own elements and is not one itself.
                    self.elements_left = self.elements_left.saturating_add(count);
                }
            }
            _ => return Err(malformed(line)),
        }
        Ok(())
    }

    /// Opens an aggregate of `count` entries with `factor` elements each.
    fn aggregate(&mut self, count: Option<u64>, factor: u64, sink: &mut impl ReplySink) {
        match count {
            None => self.finish_element(ReplyKind::Null, b"", sink),
            Some(0) => self.finish_element(ReplyKind::Value, b"", sink),
            Some(count) => {
                let inner = count.saturating_mul(factor);
                // Itself an element of the outer aggregate, if there is one: its elements take its place.
                self.elements_left = self.elements_left.saturating_sub(1).saturating_add(inner);
            }
        }
    }

    #[inline]
    fn finish_element(&mut self, kind: ReplyKind, text: &[u8], sink: &mut impl ReplySink) {
        match self.elements_left {
            0 => sink.reply(kind, text),
            1 => {
                self.elements_left = 0;
                if !std::mem::take(&mut self.out_of_band) {
                    sink.reply(ReplyKind::Value, b"");
                }
            }
            _ => self.elements_left -= 1,
        }
    }
}

/// A length or count; `None` stands for -1.
fn length(body: &[u8], line: &[u8]) -> Result<Option<u64>, MalformedReply> {
    if body == b"-1" {
        return Ok(None);
    }
    if body.is_empty() || body.len() > 18 {
        return Err(malformed(line));
    }
    let mut value = 0u64;
    for &byte in body {
        if !byte.is_ascii_digit() {
            return Err(malformed(line));
        }
        value = value * 10 + u64::from(byte - b'0');
    }
    Ok(Some(value))
}

fn malformed(line: &[u8]) -> MalformedReply {
    let shown = line.get(..line.len().min(64)).unwrap_or_default();
    MalformedReply(String::from_utf8_lossy(shown).trim_end().escape_debug().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Found(Vec<(ReplyKind, Vec<u8>)>);
    impl ReplySink for Found {
        fn reply(&mut self, kind: ReplyKind, text: &[u8]) {
            self.0.push((kind, text.to_vec()));
        }
    }

    fn scan(data: &[u8], cut: usize) -> Vec<(ReplyKind, Vec<u8>)> {
        let mut found = Found::default();
        let mut scanner = ReplyScanner::default();
        for chunk in data.chunks(cut.max(1)) {
            scanner.feed(chunk, &mut found).expect("well-formed");
        }
        found.0
    }

    #[test]
    fn every_kind_counts_once_wherever_it_is_cut() {
        let data = b"+OK\r\n:5\r\n$-1\r\n$3\r\nabc\r\n$0\r\n\r\n*0\r\n*-1\r\n-ERR no\r\n*2\r\n*1\r\n:1\r\n$1\r\nx\r\n\
                     _\r\n#t\r\n,1.5\r\n(12\r\n%1\r\n+a\r\n*1\r\n-e\r\n~1\r\n:1\r\n!5\r\nERR x\r\n=7\r\ntxt:abc\r\n\
                     >2\r\n+invalidate\r\n*1\r\n+k\r\n|1\r\n+ttl\r\n:1\r\n+value\r\n";
        use ReplyKind::{Error, Null, Value};
        let kinds = [
            Value, Value, Null, Value, Value, Value, Null, Error, Value, Null, Value, Value, Value, Value,
            Value, Error, Value, Value,
        ];
        for cut in 1..=data.len() {
            let found = scan(data, cut);
            assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), kinds, "cut at {cut}");
            assert_eq!(found[7].1, b"ERR no");
        }
    }

    #[test]
    fn what_is_not_resp_is_named() {
        let mut found = Found::default();
        for bad in [&b"hello\r\n"[..], b"$x\r\n", b"*99999999999999999999\r\n", b"+OK\n", b"\n"] {
            let error = ReplyScanner::default().feed(bad, &mut found).expect_err("malformed");
            assert!(error.to_string().starts_with("malformed reply"), "{error}");
        }
    }

    proptest! {
        /// The scanner agrees with the decoder of `resp` about how many replies a stream holds.
        #[test]
        fn counts_as_the_decoder(shape in proptest::collection::vec((0u8..6, 0usize..40), 0..30), cut in 1usize..50) {
            let mut data = Vec::new();
            for (kind, size) in &shape {
                match kind {
                    0 => data.extend(format!("+{}\r\n", "x".repeat(*size)).bytes()),
                    1 => data.extend(format!(":{size}\r\n").bytes()),
                    2 => data.extend(format!("${size}\r\n{}\r\n", "\r".repeat(*size)).bytes()),
                    3 => data.extend(format!("*{size}\r\n{}", "$1\r\n\n\r\n".repeat(*size)).bytes()),
                    4 => data.extend(format!("-ERR {}\r\n", "e".repeat(*size)).bytes()),
                    _ => data.extend(b"*2\r\n*2\r\n:1\r\n$-1\r\n*-1\r\n"),
                }
            }
            let (mut rest, mut count) = (&data[..], 0);
            while let Ok(Some((_, used))) = resp::decode(rest) {
                rest = &rest[used..];
                count += 1;
            }
            prop_assert!(rest.is_empty());
            prop_assert_eq!(scan(&data, cut).len(), count);
        }
    }
}
