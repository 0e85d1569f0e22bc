//! The request parser: multi-bulk and inline commands from any fragmentation of the input.
//!
//! Arguments are spans into the caller's buffer; nothing is copied or allocated per request. A request that
//! is not complete yet leaves its progress in a [`Partial`], so that bytes are looked at once however they
//! arrive.

use martlet_base::limits::INLINE_MAX_BYTES;
use thiserror::Error;
use triomphe::Arc;

use crate::long::LongArguments;
use crate::quote;

/// Where an argument lies in its buffer, in bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset past the last byte.
    pub end: u32,
}

impl Span {
    /// The start of all that lie in no buffer; their end is a long argument's number.
    const APART: u32 = u32::MAX;

    const fn apart(number: usize) -> Span {
        Span { start: Span::APART, end: number as u32 }
    }

    const fn is_apart(self) -> bool {
        self.start == Span::APART
    }

    /// The same bytes, where the buffer begins `by` later.
    fn back(self, by: u32) -> Span {
        if self.is_apart() { self } else { Span { start: self.start - by, end: self.end - by } }
    }

    /// The same bytes, where the buffer begins `by` sooner.
    fn forth(self, by: u32) -> Span {
        if self.is_apart() { self } else { Span { start: self.start + by, end: self.end + by } }
    }
}

/// Bytes of a line with a number: kind, digits, CR LF.
const fn line_bytes(number: usize) -> usize {
    let digits = match number.checked_ilog10() {
        Some(log) => log as usize + 1,
        None => 1,
    };
    1 + digits + 2
}

/// The arguments of one request: spans over the buffer that they were parsed from, and the long ones that lie
/// apart.
#[derive(Copy, Clone)]
pub struct Args<'a> {
    buffer: &'a [u8],
    spans: &'a [Span],
    long: Option<&'a LongArguments>,
}

impl<'a> Args<'a> {
    /// The arguments that `spans` mark in `buffer`.
    pub fn new(buffer: &'a [u8], spans: &'a [Span]) -> Args<'a> {
        Args { buffer, spans, long: None }
    }

    /// With those that were received apart; see [`Partial::take_long`].
    pub fn with_long(self, long: Option<&'a LongArguments>) -> Args<'a> {
        Args { long, ..self }
    }

    #[inline]
    fn bytes(&self, span: Span) -> Option<&'a [u8]> {
        match self.buffer.get(span.start as usize..span.end as usize) {
            None => self.bytes_apart(span),
            bytes => bytes,
        }
    }

    #[cold]
    fn bytes_apart(&self, span: Span) -> Option<&'a [u8]> {
        self.long_argument(span).map(|bytes| bytes.as_slice())
    }

    fn long_argument(&self, span: Span) -> Option<&'a Arc<Vec<u8>>> {
        self.long.filter(|_| span.is_apart())?.get(span.end as usize)
    }

    /// The argument at `index`, if it has a buffer of its own, which may be kept.
    #[inline]
    pub fn shared(&self, index: usize) -> Option<&'a Arc<Vec<u8>>> {
        self.long?;
        self.long_argument(*self.spans.get(index)?)
    }

    /// How many there are, the command's name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether the request has no arguments.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The argument at `index`, if there is one.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.bytes(*self.spans.get(index)?)
    }

    /// The argument at `index`; empty when out of range (arity is checked before handlers run).
    #[inline]
    pub fn at(&self, index: usize) -> &'a [u8] {
        self.get(index).unwrap_or(&[])
    }

    /// The arguments from `first` on.
    pub fn from(&self, first: usize) -> Args<'a> {
        Args { spans: self.spans.get(first..).unwrap_or(&[]), ..*self }
    }

    /// The first `count` arguments, or as many as there are.
    pub fn first(&self, count: usize) -> Args<'a> {
        Args { spans: self.spans.get(..count).unwrap_or(self.spans), ..*self }
    }

    /// Whether one of the arguments from `first` on is this word, in any case of letters.
    pub fn has_word(&self, first: usize, word: &[u8]) -> bool {
        (first..self.len()).any(|index| self.at(index).eq_ignore_ascii_case(word))
    }

    /// All arguments in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator + use<'a> {
        let args = *self;
        self.spans.iter().map(move |span| args.bytes(*span).unwrap_or(&[]))
    }

    /// Bytes of the request as an array of bulk strings.
    pub fn encoded_bytes(&self) -> usize {
        let bulk = |argument: &[u8]| line_bytes(argument.len()) + argument.len() + 2;
        line_bytes(self.len()) + self.iter().map(bulk).sum::<usize>()
    }

    /// A bound on [`Args::encoded_bytes`] that costs nothing to tell.
    #[inline]
    pub fn encoded_bytes_at_most(&self) -> usize {
        const LINE_MAX_BYTES: usize = line_bytes(u32::MAX as usize);
        if self.long.is_some() {
            return usize::MAX;
        }
        let (Some(first), Some(last)) = (self.spans.first(), self.spans.last()) else {
            return LINE_MAX_BYTES;
        };
        let extent = last.end.saturating_sub(first.start) as usize;
        extent + LINE_MAX_BYTES + self.spans.len() * (LINE_MAX_BYTES + 2)
    }

    /// The bytes of the request as they were received, if that was as the canonical array of these arguments.
    pub fn encoded(&self) -> Option<&'a [u8]> {
        let line = line_bytes;
        if self.long.is_some() {
            return None;
        }
        let (first, last) = (self.spans.first()?, self.spans.last()?);
        let len = |span: &Span| (span.end - span.start) as usize;
        let begin = (first.start as usize).checked_sub(line(self.spans.len()) + line(len(first)))?;
        let bytes = self.buffer.get(begin..last.end as usize + 2)?;
        let mut at = begin + line(self.spans.len());
        // What ends a line or an argument is skipped unread by the parser.
        let is_end = |at: usize| self.buffer[at - 2..at] == *b"\r\n";
        let is_canonical = bytes[0] == b'*'
            && is_end(at)
            && self.spans.iter().all(|span| {
                let start = at + line(len(span));
                at = span.end as usize + 2;
                start == span.start as usize && is_end(start) && is_end(at)
            });
        is_canonical.then_some(bytes)
    }

    /// A copy that owns its bytes, and takes no more memory than they do, for requests that outlive their
    /// buffer (MULTI, blocked clients).
    pub fn to_owned(&self) -> OwnedArgs {
        let bytes = self.iter().map(<[u8]>::len).sum();
        let mut owned =
            OwnedArgs { buffer: Vec::with_capacity(bytes), spans: Vec::with_capacity(self.len()) };
        self.iter().for_each(|argument| owned.push(argument));
        owned
    }
}

impl std::fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().map(String::from_utf8_lossy)).finish()
    }
}

/// Arguments with a buffer of their own.
#[derive(Clone, Debug, Default)]
pub struct OwnedArgs {
    buffer: Vec<u8>,
    spans: Vec<Span>,
}

impl OwnedArgs {
    /// Copies `slices` one after another.
    pub fn from_slices<'s>(slices: impl IntoIterator<Item = &'s [u8]>) -> OwnedArgs {
        let mut owned = OwnedArgs::default();
        for slice in slices {
            owned.push(slice);
        }
        owned
    }

    /// Appends one argument.
    pub fn push(&mut self, slice: &[u8]) {
        let start = self.buffer.len() as u32;
        martlet_base::copy::extend(&mut self.buffer, slice);
        self.spans.push(Span { start, end: self.buffer.len() as u32 });
    }

    /// The arguments as a view.
    pub fn view(&self) -> Args<'_> {
        Args::new(&self.buffer, &self.spans)
    }

    /// Bytes held.
    pub fn heap_bytes(&self) -> usize {
        self.buffer.capacity() + self.spans.capacity() * size_of::<Span>()
    }
}

/// Limits of a connection's requests.
#[derive(Copy, Clone, Debug)]
pub struct RequestLimits {
    /// Longest argument, in bytes (`proto-max-bulk-len`).
    pub bulk_max_bytes: i64,
    /// Most arguments.
    pub arguments_max: i64,
    /// The client has yet to authenticate: the two limits above are the small ones and errors say so.
    pub unauthenticated: bool,
}

impl RequestLimits {
    /// Limits of an authenticated client, unless configured otherwise.
    pub const DEFAULT: RequestLimits = RequestLimits {
        bulk_max_bytes: 512 * 1024 * 1024,
        arguments_max: i32::MAX as i64,
        unauthenticated: false,
    };
}

impl Default for RequestLimits {
    fn default() -> Self {
        RequestLimits::DEFAULT
    }
}

/// A violation of the protocol; the connection is closed after this error. Texts are Redis'.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProtocolError {
    /// A count of arguments that is not a number, or too large.
    #[error("Protocol error: invalid multibulk length")]
    InvalidMultibulkLength,
    /// More arguments than an unauthenticated client may send.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedMultibulkLength,
    /// A count line without an end.
    #[error("Protocol error: too big mbulk count string")]
    MultibulkCountTooBig,
    /// A length line without an end.
    #[error("Protocol error: too big bulk count string")]
    BulkCountTooBig,
    /// Something else where a bulk string must begin.
    #[error("Protocol error: expected '$', got '{0}'")]
    ExpectedDollar(char),
    /// A length that is not a number, negative or above the limit.
    #[error("Protocol error: invalid bulk length")]
    InvalidBulkLength,
    /// A longer argument than an unauthenticated client may send.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    /// An inline request without an end.
    #[error("Protocol error: too big inline request")]
    InlineTooBig,
    /// An inline request whose quotes do not close.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
}

/// How far an incomplete request has been read; offsets are relative to the request's first byte.
#[derive(Clone, Debug, Default)]
pub struct Partial {
    /// Spans found so far.
    spans: Vec<Span>,
    /// Arguments still to come; 0 when the count line has not been read.
    remaining: i64,
    /// Length of the argument being read, if its length line has been.
    bulk_bytes: Option<usize>,
    /// Bytes read so far; 0 when nothing has been.
    position: usize,
    /// Arguments that are received apart.
    long: Option<Box<LongArguments>>,
}

impl Partial {
    /// Bytes that the request will have at least, counted from its start, without those received apart: the
    /// room that the buffer should have.
    pub fn wanted_bytes(&self) -> usize {
        let awaited = self.bulk_bytes.filter(|_| !self.is_apart());
        self.position + awaited.map_or(0, |n| n + 2)
    }

    /// Whether nothing of a request has been read.
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        self.position == 0 && self.remaining == 0 && self.long.is_none()
    }

    /// Bytes of the request's buffer that have been parsed.
    pub fn parsed_bytes(&self) -> usize {
        self.position
    }

    /// Bytes held besides the buffer.
    pub fn heap_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.long.as_ref().map_or(0, |long| long.heap_bytes())
    }

    /// The length in bytes of the argument that is under way, and how much of the request lies before it.
    pub fn pending(&self) -> Option<(usize, usize)> {
        self.bulk_bytes.map(|len| (len, self.position))
    }

    /// Has the argument under way received into a buffer of its own, of which `present` are all bytes that
    /// are there. Later input belongs to [`Partial::receive`], and none of it to the request's buffer, which
    /// ends where the argument begins.
    pub fn set_apart(&mut self, present: &[u8]) {
        if let Some((len, position)) = self.pending() {
            self.long.get_or_insert_default().begin(position, len);
            self.receive(present);
        }
    }

    /// Whether an argument is received apart just now.
    #[inline]
    pub fn is_apart(&self) -> bool {
        self.long.as_ref().is_some_and(|long| long.is_under_way())
    }

    /// Takes the bytes of the argument that is received apart; the rest belongs to the request's buffer.
    /// Without such an argument all of the input does.
    pub fn receive<'d>(&mut self, data: &'d [u8]) -> &'d [u8] {
        let Some(long) = self.long.as_mut().filter(|long| long.is_under_way()) else { return data };
        let rest = long.receive(data);
        if !long.is_under_way() {
            self.spans.push(Span::apart(long.count() - 1));
            self.bulk_bytes = None;
            self.remaining -= 1;
        }
        rest
    }

    /// Bytes that were received apart.
    pub fn long_bytes(&self) -> usize {
        self.long.as_ref().map_or(0, |long| long.len_bytes())
    }

    /// Those of the request's arguments that lie apart.
    #[inline]
    pub fn long(&self) -> Option<&LongArguments> {
        self.long.as_deref()
    }

    /// Takes the arguments that lie apart out of a request that is complete.
    #[inline]
    pub fn take_long(&mut self) -> Option<Box<LongArguments>> {
        self.long.take()
    }

    /// The request was read to its end; its arguments that lie apart are still to be taken.
    fn forget_progress(&mut self) {
        *self = Partial { long: self.long.take(), ..Partial::default() };
    }

    /// Notes where the reading of the request that begins at `start` stopped.
    fn save(&mut self, progress: &Progress, start: usize) {
        self.remaining = progress.remaining;
        self.bulk_bytes = progress.bulk_bytes;
        self.position = progress.position - start;
    }
}

/// Outcome of [`parse`].
#[derive(Debug)]
pub enum Parsed {
    /// A request ends at this offset of the buffer. Its spans have been appended; it has no arguments if it
    /// was an empty line or an empty array, which are skipped silently.
    Complete(usize),
    /// The buffer ends before the request does.
    Incomplete,
}

/// Parses one request that begins at `start` of `buffer`, appending its arguments' spans (offsets into
/// `buffer`) to `spans`. Give the `partial` of the last attempt back when more bytes have arrived; it may be
/// a default one.
#[inline]
pub fn parse(
    buffer: &[u8],
    start: usize,
    limits: &RequestLimits,
    partial: &mut Partial,
    spans: &mut Vec<Span>,
) -> Result<Parsed, ProtocolError> {
    if partial.position == 0
        && let Some(end) = parse_common(buffer, start, limits, spans)
    {
        return Ok(Parsed::Complete(end));
    }
    parse_any(buffer, start, limits, partial, spans)
}

/// Parses a request as nearly all are: whole, few arguments, all of them short; the offset of its end. `None`
/// leaves everything as it was.
#[inline(always)]
fn parse_common(buffer: &[u8], start: usize, limits: &RequestLimits, spans: &mut Vec<Span>) -> Option<usize> {
    let (count, mut at) = read_short_number(buffer, start, b'*')?;
    if count > COMMON_ARGUMENTS_MAX || count as i64 > limits.arguments_max {
        return None;
    }
    let first_span = spans.len();
    for _ in 0..count {
        let found = read_short_number(buffer, at, b'$').filter(|(length, begin)| {
            *length as i64 <= limits.bulk_max_bytes && begin + length + 2 <= buffer.len()
        });
        let Some((length, begin)) = found else {
            spans.truncate(first_span);
            return None;
        };
        let end = begin + length;
        spans.push(Span { start: begin as u32, end: end as u32 });
        at = end + 2;
    }
    Some(at)
}

/// Most arguments of what [`parse_common`] takes.
const COMMON_ARGUMENTS_MAX: usize = 8;

/// Reads a positive number of one to three digits behind `kind`, and what ends its line; the number and the
/// offset behind.
#[inline(always)]
fn read_short_number(buffer: &[u8], at: usize, kind: u8) -> Option<(usize, usize)> {
    let bytes: &[u8; 4] = buffer.get(at..)?.first_chunk()?;
    let line = u32::from_le_bytes(*bytes);
    let digit = |index: u32| usize::from(((line >> (8 * index)) as u8).wrapping_sub(b'0'));
    let first = digit(1);
    if line & 0xffff_00ff == u32::from_le_bytes([kind, 0, b'\r', b'\n']) {
        return (1..=9).contains(&first).then_some((first, at + 4));
    }
    let two = first * 10 + digit(2);
    let are_digits = (1..=9).contains(&first) && digit(2) <= 9;
    if line & 0xff00_00ff == u32::from_le_bytes([kind, 0, 0, b'\r']) {
        return are_digits.then_some((two, at + 5));
    }
    let is_three = bytes[0] == kind && are_digits && digit(3) <= 9 && buffer.get(at + 4) == Some(&b'\r');
    is_three.then(|| (two * 10 + digit(3), at + 6))
}

/// As [`parse`], for requests of every kind.
#[inline(never)]
fn parse_any(
    buffer: &[u8],
    start: usize,
    limits: &RequestLimits,
    partial: &mut Partial,
    spans: &mut Vec<Span>,
) -> Result<Parsed, ProtocolError> {
    let Some(&first) = buffer.get(start) else { return Ok(Parsed::Incomplete) };
    if first != b'*' {
        return parse_inline(buffer, start, partial, spans);
    }
    if partial.position != 0 {
        return resume(buffer, start, limits, partial, spans);
    }
    let (remaining, position) = match read_number(buffer, start + 1) {
        Number::Value(count, _) if count > limits.arguments_max => {
            return Err(if limits.unauthenticated {
                ProtocolError::UnauthenticatedMultibulkLength
            } else {
                ProtocolError::InvalidMultibulkLength
            });
        }
        Number::Value(count, next) if count <= 0 => return Ok(Parsed::Complete(next)),
        Number::Value(count, next) => (count, next),
        Number::Incomplete if buffer.len() - start > INLINE_MAX_BYTES => {
            return Err(ProtocolError::MultibulkCountTooBig);
        }
        Number::Incomplete => return Ok(Parsed::Incomplete),
        Number::Invalid => return Err(ProtocolError::InvalidMultibulkLength),
    };
    let first_span = spans.len();
    let mut progress = Progress { position, remaining, bulk_bytes: None };
    if read_arguments(buffer, limits, &mut progress, 0, spans)? {
        return Ok(Parsed::Complete(progress.position));
    }
    let shift = start as u32;
    let found = spans.drain(first_span..);
    partial.spans.clear();
    partial.spans.extend(found.map(|span| span.back(shift)));
    partial.save(&progress, start);
    Ok(Parsed::Incomplete)
}

/// Continues a request whose beginning was read before. The spans stay in `partial` until it is complete, so
/// that no attempt costs more than the bytes that arrived since.
#[cold]
fn resume(
    buffer: &[u8],
    start: usize,
    limits: &RequestLimits,
    partial: &mut Partial,
    spans: &mut Vec<Span>,
) -> Result<Parsed, ProtocolError> {
    let mut progress = Progress {
        position: start + partial.position,
        remaining: partial.remaining,
        bulk_bytes: partial.bulk_bytes,
    };
    if !read_arguments(buffer, limits, &mut progress, start, &mut partial.spans)? {
        partial.save(&progress, start);
        return Ok(Parsed::Incomplete);
    }
    let shift = start as u32;
    spans.extend(partial.spans.iter().map(|span| span.forth(shift)));
    partial.forget_progress();
    Ok(Parsed::Complete(progress.position))
}

/// How far a multi-bulk request has been read; the position is an offset into the buffer.
struct Progress {
    position: usize,
    remaining: i64,
    bulk_bytes: Option<usize>,
}

/// Reads arguments until all are there, or until the buffer ends; true for the former. Spans are relative to
/// `origin`.
#[inline(always)]
fn read_arguments(
    buffer: &[u8],
    limits: &RequestLimits,
    progress: &mut Progress,
    origin: usize,
    spans: &mut Vec<Span>,
) -> Result<bool, ProtocolError> {
    while progress.remaining > 0 {
        let length = match progress.bulk_bytes {
            Some(length) => length,
            None => match read_bulk_length(buffer, progress.position, limits)? {
                Some((length, next)) => {
                    progress.position = next;
                    length
                }
                None => return Ok(false),
            },
        };
        let end = progress.position + length;
        if buffer.len() < end + 2 {
            progress.bulk_bytes = Some(length);
            return Ok(false);
        }
        spans.push(Span { start: (progress.position - origin) as u32, end: (end - origin) as u32 });
        progress.position = end + 2;
        progress.bulk_bytes = None;
        progress.remaining -= 1;
    }
    Ok(true)
}

/// Reads `$<length>\r\n` at `position`; `None` when it is not all there.
#[inline]
fn read_bulk_length(
    buffer: &[u8],
    position: usize,
    limits: &RequestLimits,
) -> Result<Option<(usize, usize)>, ProtocolError> {
    match buffer.get(position) {
        None => return Ok(None),
        Some(b'$') => {}
        // The real server looks at the byte only once the line is complete.
        Some(&other) => {
            return match memchr::memchr(b'\r', &buffer[position..]) {
                Some(at) if position + at + 1 < buffer.len() => {
                    Err(ProtocolError::ExpectedDollar(char::from(other)))
                }
                _ if buffer.len() - position > INLINE_MAX_BYTES => Err(ProtocolError::BulkCountTooBig),
                _ => Ok(None),
            };
        }
    }
    match read_number(buffer, position + 1) {
        Number::Value(length, next) => {
            if length < 0 || length > limits.bulk_max_bytes {
                Err(if limits.unauthenticated && length >= 0 {
                    ProtocolError::UnauthenticatedBulkLength
                } else {
                    ProtocolError::InvalidBulkLength
                })
            } else {
                Ok(Some((length as usize, next)))
            }
        }
        Number::Incomplete if buffer.len() - position > INLINE_MAX_BYTES => {
            Err(ProtocolError::BulkCountTooBig)
        }
        Number::Incomplete => Ok(None),
        Number::Invalid => Err(ProtocolError::InvalidBulkLength),
    }
}

enum Number {
    /// The value and the offset after the line's end.
    Value(i64, usize),
    Incomplete,
    Invalid,
}

/// Reads a decimal number that ends with `\r` and one more byte.
fn read_number(buffer: &[u8], position: usize) -> Number {
    let mut value: i64 = 0;
    let mut at = position;
    while let Some(&byte) = buffer.get(at) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        if at - position >= 18 {
            return read_odd_number(buffer, position);
        }
        value = value * 10 + i64::from(digit);
        at += 1;
    }
    if at > position && buffer.get(at) == Some(&b'\r') {
        let canonical = buffer[position] != b'0' || at == position + 1;
        return match (canonical, at + 1 < buffer.len()) {
            (_, false) => Number::Incomplete,
            (true, true) => Number::Value(value, at + 2),
            (false, true) => Number::Invalid,
        };
    }
    read_odd_number(buffer, position)
}

/// Negative, overlong, malformed or incomplete numbers.
#[cold]
fn read_odd_number(buffer: &[u8], position: usize) -> Number {
    let rest = &buffer[position.min(buffer.len())..];
    let Some(end) = memchr::memchr(b'\r', rest) else { return Number::Incomplete };
    if end + 1 >= rest.len() {
        return Number::Incomplete;
    }
    let text = &rest[..end];
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical =
        !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && (digits[0] != b'0' || text == b"0");
    let value = std::str::from_utf8(text).ok().filter(|_| canonical).and_then(|t| t.parse().ok());
    value.map_or(Number::Invalid, |v| Number::Value(v, position + end + 2))
}

/// An inline request: words on a line, quoted as redis-cli quotes. Unquoted words are spans into `buffer` as
/// they stand; a line with quotes has no spans in `buffer`, so the caller is given [`Parsed::Complete`] with
/// none and finds the words through [`inline_words`].
#[cold]
fn parse_inline(
    buffer: &[u8],
    start: usize,
    partial: &mut Partial,
    spans: &mut Vec<Span>,
) -> Result<Parsed, ProtocolError> {
    let from = start + partial.position;
    let rest = buffer.get(from..).unwrap_or(&[]);
    // As Redis, which looks for the end of a C string: a line end behind a NUL does not count.
    let Some(at) = memchr::memchr2(b'\n', 0, rest).filter(|at| rest[*at] == b'\n') else {
        if buffer.len() - start > INLINE_MAX_BYTES {
            return Err(ProtocolError::InlineTooBig);
        }
        partial.position = memchr::memchr(0, rest).map_or(buffer.len(), |at| from + at) - start;
        return Ok(Parsed::Incomplete);
    };
    partial.forget_progress();
    let end = from + at;
    let mut line_end = end;
    if line_end > start && buffer[line_end - 1] == b'\r' {
        line_end -= 1;
    }
    let line = &buffer[start..line_end];
    if line.iter().any(|b| matches!(b, b'"' | b'\'')) {
        if quote::split(line).is_none() {
            return Err(ProtocolError::UnbalancedQuotes);
        }
        return Ok(Parsed::Complete(end + 1));
    }
    let mut word: Option<usize> = None;
    for (i, byte) in line.iter().enumerate() {
        let is_between = if word.is_some() { quote::ends_word(*byte) } else { quote::is_space(*byte) };
        match (word, is_between) {
            (None, false) => word = Some(i),
            (Some(w), true) => {
                spans.push(Span { start: (start + w) as u32, end: (start + i) as u32 });
                word = None;
            }
            _ => {}
        }
    }
    if let Some(w) = word {
        spans.push(Span { start: (start + w) as u32, end: line_end as u32 });
    }
    Ok(Parsed::Complete(end + 1))
}

/// The words of an inline request with quotes, for a request of which [`parse`] said `Complete` without
/// spans. `None` when the bytes are no such line.
pub fn inline_words(request: &[u8]) -> Option<OwnedArgs> {
    if request.first() == Some(&b'*') {
        return None;
    }
    let line = request.strip_suffix(b"\n").unwrap_or(request);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let words = quote::split(line)?;
    (!words.is_empty()).then(|| OwnedArgs::from_slices(words.iter().map(Vec::as_slice)))
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
