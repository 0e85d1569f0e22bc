//! The reply writer: typed answers become RESP2 or RESP3 bytes at the end of a connection's output buffer.

use martlet_base::copy;
use martlet_base::limits::SHARED_REPLY_MIN_BYTES;
use triomphe::Arc;

/// Writes replies in the connection's protocol version.
#[derive(Debug, Default)]
pub struct Reply {
    out: Vec<u8>,
    resp3: bool,
    /// Bytes above which the reply will not be sent; 0 for no limit.
    limit: usize,
    /// A bulk string has been left out, as it would have exceeded the limit.
    is_cut: bool,
    /// Long bulk strings are not copied, see [`Reply::share_long`].
    shares: bool,
    shared: Vec<SharedBulk>,
    shared_bytes: usize,
}

/// The bytes of a bulk string that were not copied into the reply.
#[derive(Clone, Debug)]
pub struct SharedBulk {
    /// They belong before the byte of the buffer at this index.
    pub at: usize,
    /// The bytes.
    pub bytes: Arc<Vec<u8>>,
}

/// A place where an aggregate's header goes once its length is known; see [`Reply::defer`].
#[derive(Copy, Clone, Debug)]
#[must_use]
pub struct Deferred(usize);

impl Reply {
    /// A writer that appends to `out`.
    pub fn new(out: Vec<u8>, resp3: bool) -> Reply {
        Reply { out, resp3, ..Reply::default() }
    }

    /// Whether the connection speaks RESP3.
    pub fn is_resp3(&self) -> bool {
        self.resp3
    }

    /// Sets the number of bytes above which the client is closed without them; 0 for no limit. A bulk string
    /// that would exceed it is left out: a reply that is full in the end ([`Reply::is_full`]) must not be
    /// sent.
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// Whether there is more than the client can get: what makes a reply of any length then stops.
    pub fn is_full(&self) -> bool {
        self.limit != 0 && (self.is_cut || self.total_bytes() > self.limit)
    }

    /// Whether a bulk string of so many bytes is left out, as it would exceed the limit.
    #[inline]
    fn leaves_out(&mut self, bytes: usize) -> bool {
        if self.limit == 0 || self.total_bytes().saturating_add(bytes) <= self.limit {
            return false;
        }
        self.is_cut = true;
        true
    }

    /// Leaves long shared bulk strings out of the buffer. The caller takes them from [`Reply::take_shared`].
    pub fn share_long(&mut self) {
        self.shares = true;
    }

    /// The bulk strings that are not in the buffer, in their order.
    pub fn take_shared(&mut self) -> Vec<SharedBulk> {
        self.shared_bytes = 0;
        std::mem::take(&mut self.shared)
    }

    /// Bytes of the reply, with those that are not in the buffer.
    #[inline]
    pub fn total_bytes(&self) -> usize {
        self.out.len() + self.shared_bytes
    }

    /// Sets the protocol version of later replies (HELLO).
    pub fn set_resp3(&mut self, resp3: bool) {
        self.resp3 = resp3;
    }

    /// Bytes in the buffer so far: a place to go back to.
    #[inline]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Takes back everything after the first `len` bytes (a handler failed half-way, CLIENT REPLY OFF).
    pub fn truncate(&mut self, len: usize) {
        self.out.truncate(len);
        self.is_cut = false;
        // The header of one that stays lies before its place.
        while self.shared.last().is_some_and(|bulk| bulk.at > len) {
            self.shared_bytes -= self.shared.pop().map_or(0, |bulk| bulk.bytes.len());
        }
    }

    /// Puts a whole reply where one begins or ends.
    pub fn insert(&mut self, at: usize, reply: &[u8]) {
        let at = at.min(self.out.len());
        self.out.splice(at..at, reply.iter().copied());
        // A shared string's place lies inside its reply.
        self.shared.iter_mut().filter(|bulk| bulk.at > at).for_each(|bulk| bulk.at += reply.len());
    }

    /// The bytes written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.out
    }

    /// Ends writing and gives the buffer back.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// The buffer itself, for bytes that are replies already.
    pub fn raw(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A simple string; it must hold no line break.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        self.out.push(b'+');
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// An error, its code included (`ERR …`); line breaks become spaces.
    #[cold]
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        self.out.push(b'-');
        self.out.extend(text.as_ref().iter().map(|&b| if matches!(b, b'\r' | b'\n') { b' ' } else { b }));
        self.out.extend_from_slice(b"\r\n");
    }

    /// An integer.
    #[inline]
    pub fn int(&mut self, value: i64) {
        if let digit @ 0..=9 = value {
            self.out.extend_from_slice(&[b':', b'0' + digit as u8, b'\r', b'\n']);
        } else {
            self.header(b':', value);
        }
    }

    /// An integer from a length or count.
    #[inline]
    pub fn count(&mut self, value: usize) {
        self.int(value as i64);
    }

    /// An integer that may be beyond the signed ones; clients read it as it stands.
    pub fn unsigned(&mut self, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.int(value),
            Err(_) => {
                self.out.push(b':');
                self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// A bulk string.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        if self.leaves_out(bytes.len()) {
            return;
        }
        self.out.reserve(bytes.len() + 16);
        if bytes.len() < 100 {
            let (tens, ones) = (bytes.len() / 10, bytes.len() % 10);
            let head = [b'$', b'0' + tens as u8, b'0' + ones as u8, b'\r', b'\n'];
            if tens == 0 {
                self.out.extend_from_slice(&[b'$', b'0' + ones as u8, b'\r', b'\n']);
            } else {
                self.out.extend_from_slice(&head);
            }
        } else {
            self.header(b'$', bytes.len() as i64);
        }
        copy::extend(&mut self.out, bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A shared bulk string: a long one is not copied if [`Reply::share_long`] was called.
    pub fn bulk_shared(&mut self, bytes: &Arc<Vec<u8>>) {
        if !self.shares || bytes.len() < SHARED_REPLY_MIN_BYTES {
            return self.bulk(bytes);
        }
        if self.leaves_out(bytes.len()) {
            return;
        }
        self.header(b'$', bytes.len() as i64);
        self.shared.push(SharedBulk { at: self.out.len(), bytes: bytes.clone() });
        self.shared_bytes += bytes.len();
        self.out.extend_from_slice(b"\r\n");
    }

    /// A bulk string that spells an integer.
    #[inline]
    pub fn bulk_int(&mut self, value: i64) {
        let mut buffer = itoa::Buffer::new();
        self.bulk(buffer.format(value).as_bytes());
    }

    /// A bulk string, or null if absent.
    #[inline]
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// No value: a null bulk string, or RESP3's null.
    #[inline]
    pub fn null(&mut self) {
        self.out.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// No array: a null array, or RESP3's null.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// The header of an array of `len` replies.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len as i64);
    }

    /// The header of a map of `pairs` pairs; in RESP2 a flat array.
    pub fn map(&mut self, pairs: usize) {
        if self.resp3 { self.header(b'%', pairs as i64) } else { self.header(b'*', 2 * pairs as i64) }
    }

    /// The header of a set; in RESP2 an array.
    pub fn set(&mut self, len: usize) {
        self.header(if self.resp3 { b'~' } else { b'*' }, len as i64);
    }

    /// The header of an out-of-band message; in RESP2 an array.
    pub fn push(&mut self, len: usize) {
        self.header(if self.resp3 { b'>' } else { b'*' }, len as i64);
    }

    /// A boolean; in RESP2 the integer 1 or 0.
    pub fn bool(&mut self, value: bool) {
        match (self.resp3, value) {
            (true, true) => self.out.extend_from_slice(b"#t\r\n"),
            (true, false) => self.out.extend_from_slice(b"#f\r\n"),
            (false, value) => self.int(i64::from(value)),
        }
    }

    /// A double, spelt as Redis spells it; in RESP2 a bulk string.
    pub fn double(&mut self, value: f64) {
        let mut buffer = martlet_base::number::NumberBuffer::new();
        self.double_text(martlet_base::number::format_f64(value, &mut buffer));
    }

    /// A double that is spelt already; in RESP2 a bulk string.
    pub fn double_text(&mut self, text: &[u8]) {
        if self.resp3 {
            self.out.push(b',');
            self.out.extend_from_slice(text);
            self.out.extend_from_slice(b"\r\n");
        } else {
            self.bulk(text);
        }
    }

    /// A number beyond 64 bits, as decimal text; in RESP2 a bulk string.
    pub fn big_number(&mut self, digits: &str) {
        if self.resp3 {
            self.out.push(b'(');
            self.out.extend_from_slice(digits.as_bytes());
            self.out.extend_from_slice(b"\r\n");
        } else {
            self.bulk(digits.as_bytes());
        }
    }

    /// Text with a format of three letters (`txt`, `mkd`); in RESP2 a bulk string.
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        debug_assert_eq!(format.len(), 3);
        if self.resp3 {
            self.header(b'=', text.len() as i64 + 4);
            self.out.extend_from_slice(format.as_bytes());
            self.out.push(b':');
            copy::extend(&mut self.out, text);
            self.out.extend_from_slice(b"\r\n");
        } else {
            self.bulk(text);
        }
    }

    /// The header of `pairs` attributes that go before a reply (RESP3 only; write none in RESP2).
    pub fn attribute(&mut self, pairs: usize) {
        debug_assert!(self.resp3);
        self.header(b'|', pairs as i64);
    }

    /// Notes the place of an aggregate whose length is known only after its elements have been written.
    pub fn defer(&mut self) -> Deferred {
        Deferred(self.out.len())
    }

    /// Puts an array header of `len` elements where [`Reply::defer`] was called.
    pub fn close_array(&mut self, place: Deferred, len: usize) {
        self.close(place, b'*', len as i64);
    }

    /// Puts a set header of `len` elements where [`Reply::defer`] was called.
    pub fn close_set(&mut self, place: Deferred, len: usize) {
        self.close(place, if self.resp3 { b'~' } else { b'*' }, len as i64);
    }

    /// Puts a map header of `pairs` pairs where [`Reply::defer`] was called.
    pub fn close_map(&mut self, place: Deferred, pairs: usize) {
        if self.resp3 {
            self.close(place, b'%', pairs as i64)
        } else {
            self.close(place, b'*', 2 * pairs as i64)
        }
    }

    fn close(&mut self, place: Deferred, kind: u8, len: i64) {
        let end = self.out.len();
        self.header(kind, len);
        let header_bytes = self.out.len() - end;
        self.out[place.0..].rotate_right(header_bytes);
        self.shared.iter_mut().filter(|bulk| bulk.at > place.0).for_each(|bulk| bulk.at += header_bytes);
    }

    #[inline]
    fn header(&mut self, kind: u8, value: i64) {
        if let digit @ 0..=9 = value {
            self.out.extend_from_slice(&[kind, b'0' + digit as u8, b'\r', b'\n']);
            return;
        }
        let mut buffer = itoa::Buffer::new();
        self.out.push(kind);
        self.out.extend_from_slice(buffer.format(value).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(resp3: bool, write: impl FnOnce(&mut Reply)) -> String {
        let mut reply = Reply::new(Vec::new(), resp3);
        write(&mut reply);
        String::from_utf8(reply.into_bytes()).unwrap()
    }

    #[test]
    fn both_versions() {
        let all = |r: &mut Reply| {
            r.map(1);
            r.bulk(b"k");
            r.set(1);
            r.int(-12);
            r.null();
            r.bool(true);
            r.double(1.5);
            r.verbatim("txt", b"hi");
            r.big_number("123");
            r.null_array();
        };
        assert_eq!(
            written(false, all),
            "*2\r\n$1\r\nk\r\n*1\r\n:-12\r\n$-1\r\n:1\r\n$3\r\n1.5\r\n$2\r\nhi\r\n$3\r\n123\r\n*-1\r\n"
        );
        assert_eq!(
            written(true, all),
            "%1\r\n$1\r\nk\r\n~1\r\n:-12\r\n_\r\n#t\r\n,1.5\r\n=6\r\ntxt:hi\r\n(123\r\n_\r\n"
        );
    }

    #[test]
    fn long_bulk_strings_are_shared_on_demand() {
        let long = Arc::new(vec![b'x'; SHARED_REPLY_MIN_BYTES]);
        let copied = written(false, |r| r.bulk_shared(&long));
        assert_eq!(copied.len(), long.len() + 10);
        let mut reply = Reply::new(b"+OK\r\n".to_vec(), false);
        reply.share_long();
        let place = reply.defer();
        reply.bulk_shared(&long);
        reply.bulk_shared(&Arc::new(b"short".to_vec()));
        let begin = reply.len();
        reply.bulk_shared(&long);
        reply.truncate(begin);
        reply.close_array(place, 2);
        assert_eq!(reply.total_bytes(), reply.len() + long.len());
        let [bulk] = &*reply.take_shared() else { panic!("one is left") };
        let bytes = reply.into_bytes();
        assert_eq!(bytes[..bulk.at], *b"+OK\r\n*2\r\n$65536\r\n");
        assert_eq!(bytes[bulk.at..], *b"\r\n$5\r\nshort\r\n");
        assert!(Arc::ptr_eq(&bulk.bytes, &long));
    }

    #[test]
    fn deferred_headers_go_in_front() {
        let text = written(true, |r| {
            r.ok();
            let place = r.defer();
            r.int(1);
            r.int(200);
            r.close_array(place, 2);
            r.error("ERR a\r\nb");
        });
        assert_eq!(text, "+OK\r\n*2\r\n:1\r\n:200\r\n-ERR a  b\r\n");
    }

    #[test]
    fn a_full_reply_grows_no_more_and_what_is_taken_back_makes_room() {
        let mut reply = Reply::default();
        reply.set_limit(1000);
        (0..100).for_each(|_| reply.bulk(&[b'x'; 600]));
        assert!(reply.is_full() && reply.len() <= 1000);
        reply.truncate(0);
        assert!(!reply.is_full());
        reply.bulk(&[b'x'; 2000]);
        assert!(reply.is_full() && reply.is_empty());
        reply.truncate(0);
        reply.bulk(b"x");
        assert_eq!(reply.as_bytes(), b"$1\r\nx\r\n");
    }

    #[test]
    fn bulk_lengths() {
        for len in [0, 9, 10, 99, 100, 1000] {
            let text = written(false, |r| r.bulk(&vec![b'x'; len]));
            assert_eq!(text, format!("${len}\r\n{}\r\n", "x".repeat(len)));
        }
    }
}
