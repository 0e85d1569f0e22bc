//! The layout of records, and the stream of commands that they make.
//!
//! ```text
//! one effect:       tag = database            payload = the command, as a RESP array
//! several effects:  tag = BLOCK               payload = ( length 8 │ database 4 │ command )…
//! some not for all: tag = BLOCK | SPLIT       as several; an effect's database has the excluded audience
//! for replicas:     tag = REPLICAS            payload = the command, as a RESP array
//! ```
//!
//! Several effects of one command or transaction are one record, and become a MULTI … EXEC in the stream;
//! several expirations without a command, which nothing holds together, do not.

use std::ops::Range;

use martlet_base::copy;
use martlet_protocol::request::Args;

/// The tag of a record with several effects; databases are below.
const BLOCK: u32 = 1 << 23;
/// Beside [`BLOCK`]: each effect stands for itself.
const LOOSE: u32 = 1;
/// Beside [`BLOCK`]: some effects are not for all readers.
const SPLIT: u32 = 1 << 1;
/// Beside an effect's database: it is not for the file.
const NOT_FILE: u32 = 1 << 31;
/// Beside an effect's database: it is not for replicas.
const NOT_REPLICAS: u32 = 1 << 30;
/// The tag of a command that changes nothing and that only replicas get: PING, REPLCONF GETACK, PUBLISH.
pub const REPLICAS: u32 = 1 << 22;
/// Around the effects of a record that has several.
const BEGIN: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
/// The end of a transaction.
const END: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";
/// Bytes before each effect of those that are put together.
const HEADING: usize = 12;

/// The audience of a part of the stream, and the kind of a reader.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Audience {
    /// All readers.
    All,
    /// The append-only file: annotations of the time, effects that a script sends to it alone.
    File,
    /// Replicas: PING, REPLCONF GETACK, PUBLISH, effects that a script sends to them alone.
    Replicas,
}

impl Audience {
    /// The bits beside the database of an effect for this audience.
    fn bits(audience: Option<Audience>) -> u32 {
        match audience {
            Some(Audience::All) => 0,
            Some(Audience::File) => NOT_REPLICAS,
            Some(Audience::Replicas) => NOT_FILE,
            None => NOT_FILE | NOT_REPLICAS,
        }
    }
}

/// One effect of a record.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Effect<'a> {
    /// The database that it concerns.
    pub db: u32,
    /// The command, a RESP array.
    pub command: &'a [u8],
}

/// Effects that will be one record.
#[derive(Debug, Default)]
pub struct Pending {
    bytes: Vec<u8>,
    count: usize,
    /// Some are of a command, with which all are to happen at once.
    together: bool,
    /// Where those lie that would have happened without a command.
    loose: Vec<Range<usize>>,
    /// The audience that later effects of commands exclude.
    not_for: u32,
    /// Some are not for all readers.
    split: bool,
}

/// How far pending effects had come; see [`Pending::undo_to`].
#[derive(Copy, Clone, Debug)]
pub struct Mark {
    len_bytes: usize,
    count: usize,
    together: bool,
    split: bool,
}

/// A buffer of more bytes is not kept for the next record.
const KEPT_BYTES: usize = 64 << 10;

impl Pending {
    /// Whether there are no effects.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds one of a command, which `write` appends as a RESP array.
    #[inline]
    pub fn push(&mut self, db: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.add(db as u32 | self.not_for, write);
        self.together = true;
        self.split |= self.not_for != 0;
    }

    /// Holds together the effects so far: a command that ends has met all of them.
    #[inline]
    pub fn join(&mut self) {
        self.together |= !self.loose.is_empty();
    }

    /// Sets the audience of later effects of commands; no reader with `None`.
    pub fn set_audience(&mut self, audience: Option<Audience>) {
        self.not_for = Audience::bits(audience);
    }

    /// Adds one that would have happened without a command.
    #[inline]
    pub fn push_loose(&mut self, db: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.bytes.len();
        self.add(db as u32, write);
        self.loose.push(begin..self.bytes.len());
    }

    #[inline]
    fn add(&mut self, db: u32, write: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&[0; HEADING]);
        write(&mut self.bytes);
        let len = self.bytes.len() - begin - HEADING;
        self.bytes[begin..begin + HEADING].copy_from_slice(&heading(len, db));
        self.count += 1;
    }

    /// How far they have come.
    pub fn mark(&self) -> Mark {
        Mark { len_bytes: self.bytes.len(), count: self.count, together: self.together, split: self.split }
    }

    /// Forgets those that a command has added since: it was undone. The others stay.
    pub fn undo_to(&mut self, mark: Mark) {
        let kept: Vec<Range<usize>> =
            self.loose.iter().filter(|range| range.start >= mark.len_bytes).cloned().collect();
        let before = self.loose.len() - kept.len();
        self.loose.truncate(before);
        let mut len = mark.len_bytes;
        for range in &kept {
            self.bytes.copy_within(range.clone(), len);
            self.loose.push(len..len + range.len());
            len += range.len();
        }
        self.bytes.truncate(len);
        self.count = mark.count + kept.len();
        (self.together, self.split) = (mark.together, mark.split);
    }

    /// The record's tag and payload; `None` if there is nothing to record.
    #[inline]
    pub fn record(&self) -> Option<(u32, &[u8])> {
        match self.count {
            0 => None,
            _ if self.split => self.split_record(),
            1 => {
                let (first, command) = self.bytes.split_first_chunk()?;
                Some((read_heading(first).1, command))
            }
            _ if self.together => Some((BLOCK, &self.bytes)),
            _ => Some((BLOCK | LOOSE, &self.bytes)),
        }
    }

    /// Bytes of the commands that they become in the stream, without SELECT.
    pub fn stream_bytes(&self) -> usize {
        let around = if self.count > 1 && self.together { BEGIN.len() + END.len() } else { 0 };
        self.bytes.len() - self.count * HEADING + around
    }

    #[cold]
    fn split_record(&self) -> Option<(u32, &[u8])> {
        const NOBODY: u32 = NOT_FILE | NOT_REPLICAS;
        let is_for_any = raw_effects(BLOCK, &self.bytes).any(|effect| effect.db & NOBODY != NOBODY);
        let loose = if self.together { 0 } else { LOOSE };
        is_for_any.then_some((BLOCK | SPLIT | loose, &self.bytes))
    }

    /// Forgets them.
    #[inline]
    pub fn clear(&mut self) {
        self.count = 0;
        (self.together, self.split) = (false, false);
        self.loose.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        } else {
            self.bytes.clear();
        }
    }
}

/// The heading of each effect: the length of its command in bytes, which may exceed 4 GB, and its database.
#[inline]
fn heading(len: usize, db: u32) -> [u8; HEADING] {
    let mut heading = [0; HEADING];
    heading[..8].copy_from_slice(&(len as u64).to_le_bytes());
    heading[8..].copy_from_slice(&db.to_le_bytes());
    heading
}

/// The length and the database that [`heading`] wrote.
#[inline]
fn read_heading(heading: &[u8; HEADING]) -> (usize, u32) {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    (number(&heading[..8]) as usize, number(&heading[8..]) as u32)
}

/// Appends the RESP array of these arguments.
pub fn encode<'a>(out: &mut Vec<u8>, args: impl ExactSizeIterator<Item = &'a [u8]>) {
    number_line(out, b'*', args.len());
    for arg in args {
        number_line(out, b'$', arg.len());
        copy::extend(out, arg);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends a request as a RESP array: as it came, if it came as one.
#[inline]
pub fn encode_request(out: &mut Vec<u8>, args: &Args<'_>) {
    match args.encoded() {
        Some(bytes) => copy::extend(out, bytes),
        None => encode(out, args.iter()),
    }
}

fn number_line(out: &mut Vec<u8>, kind: u8, number: usize) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The effects of a record, in order, whomever they are for.
pub fn effects(tag: u32, payload: &[u8]) -> impl Iterator<Item = Effect<'_>> {
    raw_effects(tag, payload).map(|effect| Effect { db: effect.db & !(NOT_FILE | NOT_REPLICAS), ..effect })
}

/// As [`effects`], with the excluded audience beside an effect's database.
fn raw_effects(tag: u32, payload: &[u8]) -> impl Iterator<Item = Effect<'_>> {
    let mut rest = payload;
    let is_block = tag & BLOCK != 0;
    let mut single = (!is_block).then_some(Effect { db: tag, command: payload });
    std::iter::from_fn(move || {
        if !is_block {
            return single.take();
        }
        let (heading, behind) = rest.split_first_chunk()?;
        let (len, db) = read_heading(heading);
        let (command, behind) = behind.split_at_checked(len)?;
        rest = behind;
        Some(Effect { db, command })
    })
}

/// The commands that records make: with SELECT where the database changes, and MULTI and EXEC around effects
/// that belong together.
#[derive(Debug, Default)]
pub struct Commands {
    db: Option<u32>,
    scratch: Vec<u8>,
}

impl Commands {
    /// The next command selects its database, whatever that was before.
    pub fn forget_db(&mut self) {
        self.db = None;
    }

    /// Hands a record's commands to `write`, in pieces. What of an effect is for replicas goes there only if
    /// `for_replicas` says so.
    #[inline]
    pub fn extend(
        &mut self,
        tag: u32,
        payload: &[u8],
        for_replicas: bool,
        write: &mut impl FnMut(Audience, &[u8]),
    ) {
        if tag == REPLICAS {
            write(Audience::Replicas, payload);
        } else if tag & BLOCK == 0 {
            self.select(tag, Audience::All, write);
            write(Audience::All, payload);
        } else if tag & SPLIT == 0 {
            self.extend_block(tag, effects(tag, payload), Audience::All, write);
        } else {
            self.extend_split(tag, payload, for_replicas, write);
        }
    }

    /// Each kind of reader gets its part, with a separate database selected.
    #[cold]
    fn extend_split(
        &mut self,
        tag: u32,
        payload: &[u8],
        for_replicas: bool,
        write: &mut impl FnMut(Audience, &[u8]),
    ) {
        let kinds = [(Audience::File, NOT_FILE), (Audience::Replicas, NOT_REPLICAS)];
        for (audience, bit) in kinds.into_iter().take(1 + usize::from(for_replicas)) {
            self.forget_db();
            let is_for = |effect: &Effect<'_>| effect.db & bit == 0;
            let theirs = || raw_effects(tag, payload).filter(is_for);
            let loose = if theirs().nth(1).is_none() { LOOSE } else { 0 };
            let theirs = theirs().map(|of| Effect { db: of.db & !(NOT_FILE | NOT_REPLICAS), ..of });
            self.extend_block(tag | loose, theirs, audience, write);
        }
        self.forget_db();
    }

    fn extend_block<'a>(
        &mut self,
        tag: u32,
        effects: impl Iterator<Item = Effect<'a>>,
        audience: Audience,
        write: &mut impl FnMut(Audience, &[u8]),
    ) {
        let together = tag & LOOSE == 0;
        if together {
            write(audience, BEGIN);
        }
        for effect in effects {
            self.select(effect.db, audience, write);
            write(audience, effect.command);
        }
        if together {
            write(audience, END);
        }
    }

    #[inline]
    fn select(&mut self, db: u32, audience: Audience, write: &mut impl FnMut(Audience, &[u8])) {
        if self.db != Some(db) {
            self.db = Some(db);
            self.scratch.clear();
            let mut buffer = itoa::Buffer::new();
            let words = [b"SELECT".as_slice(), buffer.format(db).as_bytes()];
            encode(&mut self.scratch, words.into_iter());
            write(audience, &self.scratch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use martlet_protocol::request::{OwnedArgs, Partial, RequestLimits, parse};

    fn push(pending: &mut Pending, db: usize, words: &[&str]) {
        pending.push(db, |out| encode(out, words.iter().map(|word| word.as_bytes())));
    }

    fn text(stream: &mut Commands, pending: &Pending) -> String {
        let mut out = Vec::new();
        let (tag, payload) = pending.record().unwrap();
        stream.extend(tag, payload, true, &mut |audience, bytes| {
            assert_eq!(audience, Audience::All);
            out.extend_from_slice(bytes);
        });
        String::from_utf8(out).unwrap().replace("\r\n", " ")
    }

    #[test]
    fn a_heading_tells_lengths_over_4_gb() {
        for (len, db) in [(0, 0), (1, 15), (u32::MAX as usize, u32::MAX), ((1 << 32) + 7, 3)] {
            assert_eq!(read_heading(&heading(len, db)), (len, db));
        }
    }

    #[test]
    fn the_stream_selects_and_wraps() {
        let (mut pending, mut stream) = (Pending::default(), Commands::default());
        assert!(pending.record().is_none());
        push(&mut pending, 0, &["SET", "k", "1"]);
        assert_eq!(text(&mut stream, &pending), "*2 $6 SELECT $1 0 *3 $3 SET $1 k $1 1 ");
        assert_eq!(text(&mut stream, &pending), "*3 $3 SET $1 k $1 1 ");
        push(&mut pending, 11, &["DEL", "k"]);
        assert_eq!(
            text(&mut stream, &pending),
            "*1 $5 MULTI *3 $3 SET $1 k $1 1 *2 $6 SELECT $2 11 *2 $3 DEL $1 k *1 $4 EXEC "
        );
        pending.clear();
        assert!(pending.is_empty());
        push(&mut pending, 11, &["DEL", "k"]);
        assert_eq!(text(&mut stream, &pending), "*2 $3 DEL $1 k ");
    }

    #[test]
    fn expirations_alone_are_not_wrapped() {
        let (mut pending, mut stream) = (Pending::default(), Commands::default());
        let expire = |pending: &mut Pending, key: &str| {
            pending.push_loose(0, |out| encode(out, ["DEL", key].into_iter().map(str::as_bytes)));
        };
        expire(&mut pending, "a");
        expire(&mut pending, "b");
        assert_eq!(text(&mut stream, &pending), "*2 $6 SELECT $1 0 *2 $3 DEL $1 a *2 $3 DEL $1 b ");
        push(&mut pending, 0, &["SET", "a", "1"]);
        assert_eq!(
            text(&mut stream, &pending),
            "*1 $5 MULTI *2 $3 DEL $1 a *2 $3 DEL $1 b *3 $3 SET $1 a $1 1 *1 $4 EXEC "
        );
        pending.clear();
        expire(&mut pending, "a");
        expire(&mut pending, "b");
        assert_eq!(text(&mut stream, &pending), "*2 $3 DEL $1 a *2 $3 DEL $1 b ");
        pending.join();
        assert_eq!(text(&mut stream, &pending), "*1 $5 MULTI *2 $3 DEL $1 a *2 $3 DEL $1 b *1 $4 EXEC ");
        pending.clear();
        pending.join();
        expire(&mut pending, "a");
        expire(&mut pending, "b");
        assert_eq!(text(&mut stream, &pending), "*2 $3 DEL $1 a *2 $3 DEL $1 b ");
    }

    #[test]
    fn readers_of_each_kind_get_what_is_for_them() {
        let (mut pending, mut stream) = (Pending::default(), Commands::default());
        let told = |stream: &mut Commands, pending: &Pending, for_replicas: bool| {
            let mut told = [String::new(), String::new()];
            let (tag, payload) = pending.record().unwrap();
            stream.extend(tag, payload, for_replicas, &mut |audience, bytes| {
                let text = std::str::from_utf8(bytes).unwrap().replace("\r\n", " ");
                assert_ne!(audience, Audience::All);
                told[usize::from(audience == Audience::Replicas)] += &text;
            });
            told
        };
        let for_them = |pending: &mut Pending, audience, key| {
            pending.set_audience(audience);
            push(pending, 2, &["INCR", key]);
        };
        for_them(&mut pending, None, "n");
        assert!(pending.record().is_none(), "it is for nobody");
        for_them(&mut pending, Some(Audience::File), "f");
        let file = "*2 $6 SELECT $1 2 *2 $4 INCR $1 f ";
        assert_eq!(told(&mut stream, &pending, true), [file, ""]);
        let mark = pending.mark();
        for_them(&mut pending, Some(Audience::Replicas), "r");
        for_them(&mut pending, Some(Audience::All), "a");
        pending.set_audience(None);
        pending.push_loose(2, |out| encode(out, ["DEL", "x"].into_iter().map(str::as_bytes)));
        let rest = "*2 $4 INCR $1 a *2 $3 DEL $1 x *1 $4 EXEC ";
        let both = [
            format!("*1 $5 MULTI *2 $6 SELECT $1 2 *2 $4 INCR $1 f {rest}"),
            format!("*1 $5 MULTI *2 $6 SELECT $1 2 *2 $4 INCR $1 r {rest}"),
        ];
        assert_eq!(told(&mut stream, &pending, true), both);
        assert_eq!(told(&mut stream, &pending, false), [both[0].as_str(), ""]);
        let (tag, payload) = pending.record().unwrap();
        assert!(effects(tag, payload).all(|effect| effect.db == 2));
        pending.undo_to(mark);
        assert_eq!(pending.count, 3, "what was undone is gone, an expiration is not");
        pending.clear();
        pending.set_audience(Some(Audience::All));
        push(&mut pending, 2, &["DEL", "k"]);
        assert_eq!(text(&mut stream, &pending), "*2 $6 SELECT $1 2 *2 $3 DEL $1 k ");
    }

    /// As in Redis, so that a reader of a transaction finds all of it behind MULTI.
    #[test]
    fn a_transaction_selects_its_database_inside() {
        let (mut pending, mut stream) = (Pending::default(), Commands::default());
        push(&mut pending, 9, &["DEL", "a"]);
        push(&mut pending, 9, &["DEL", "b"]);
        assert_eq!(
            text(&mut stream, &pending),
            "*1 $5 MULTI *2 $6 SELECT $1 9 *2 $3 DEL $1 a *2 $3 DEL $1 b *1 $4 EXEC "
        );
    }

    #[test]
    fn requests_are_recorded_as_they_came() {
        let encoded = |args: &Args<'_>| {
            let mut out = Vec::new();
            encode_request(&mut out, args);
            String::from_utf8(out).unwrap()
        };
        for input in [
            "*2\r\n$3\r\nGET\r\n$10\r\n0123456789\r\n",
            "*1\r\n$4\r\nPING\r\n",
            "*2\r\n$1\r\na\r\n$0\r\n\r\n",
        ] {
            let before = format!("*1\r\n$4\r\nPING\r\n{input}rest");
            let mut spans = Vec::new();
            parse(before.as_bytes(), 14, &RequestLimits::default(), &mut Partial::default(), &mut spans)
                .unwrap();
            let args = Args::new(before.as_bytes(), &spans);
            assert_eq!(args.encoded(), Some(input.as_bytes()));
            assert_eq!(encoded(&args), input);
            assert_eq!(encoded(&args.to_owned().view()), input);
        }
        let owned = OwnedArgs::from_slices([b"*2\r\n$1\r\nxxxxxxx".as_slice(), b"y"]);
        assert_eq!(owned.view().encoded(), None);
    }
}
