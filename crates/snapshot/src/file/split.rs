//! One file read by several threads: whoever is free takes the next batch of whole records, and decodes it with nothing held.
//!
//! Under the file's lock records are only passed over; what is too large for a batch, and whatever is no record, is read there and then.
//! What always holds: batches are in the file's order, all that is wrong is met by [`read_batch`] or by the splitter, each at its
//! offset, and no batch is longer than [`BATCH_MAX_BYTES`].

use std::io::Read;

use super::{FileError, Item, ReadOptions, Record, State, Step, read_prefix, read_step, read_version};
use crate::Error;
use crate::crc64::{crc64, followed_by_zeros};
use crate::decode::{Limits, Value, read_value};
use crate::input::{FileInput, Input};
use crate::kind::Kind;
use crate::skip::{skip_bytes, skip_value};
use crate::string::{Length, read_bytes, read_length};

/// Bytes of a batch, about.
const BATCH_BYTES: usize = 1 << 17;
/// A record beyond this is read under the lock.
const BATCH_MAX_BYTES: usize = 1 << 20;

/// No record is shorter: its kind, the lengths of key and value, and what lies behind a length of 0 in a value.
const RECORD_MIN_BYTES: u64 = 3;

/// What a thread has to do next.
#[derive(Debug)]
pub enum Piece {
    /// Records to be decoded with [`read_batch`].
    Batch(Batch),
    /// What was read already, and the offset behind it.
    Item(Item, u64),
}

/// Records that a thread has taken; the bytes are in the vector that it gave.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// Where in the file it begins.
    offset: u64,
    db: u64,
    version: u16,
    /// Bytes of the file behind it, if the checksum is wanted.
    behind: Option<u64>,
    /// The largest database that begins in it, and how many keys the file says it has; no more than the file has room for.
    pub coming: Option<(u64, u64)>,
}

/// A value of a batch.
#[derive(Clone, Debug)]
pub enum Decoded<'a> {
    /// A string.
    Text(&'a [u8]),
    /// Anything else, or a string that was not in a batch.
    Value(Value),
}

/// What the end of a file says.
#[derive(Clone, Copy, Debug)]
struct Sums {
    /// Of what the splitter has read, as if zeros followed to the end of the file.
    read: u64,
    /// As the file has it.
    stored: u64,
    /// Bytes of the file behind what is summed.
    behind: u64,
}

/// The file that is shared; a lock guards it.
pub struct Splitter<R> {
    input: FileInput<R>,
    version: u16,
    options: ReadOptions,
    state: State,
    scratch: Vec<u8>,
    has_ended: bool,
    sums: Option<Sums>,
}

impl<R: Read> Splitter<R> {
    /// Begins with a file of `len` bytes.
    ///
    /// # Errors
    /// [`FileError`], for the header.
    pub fn new(file: R, len: u64, options: ReadOptions) -> Result<Splitter<R>, FileError> {
        let mut input = FileInput::new(file, len, options.verify);
        let version = read_version(&mut input, options.any_version);
        let version = version.map_err(|error| FileError { error, offset: input.offset() })?;
        let (state, scratch) = (State::default(), Vec::new());
        Ok(Splitter { input, version, options, state, scratch, has_ended: false, sums: None })
    }

    /// The version of the format that the file is of.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Bytes read so far, batches that were handed out included; at the end, what the snapshot takes of the file.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// The next piece, a batch's bytes in `bytes`; `None` at the end, and after an error.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Option<Piece>, FileError> {
        self.guarded(|splitter| {
            loop {
                if let Some(batch) = splitter.next_batch(bytes)? {
                    return Ok(Some(Piece::Batch(batch)));
                }
                match splitter.step()? {
                    Step::Nothing => {}
                    Step::Item(item) => return Ok(Some(Piece::Item(item, splitter.input.offset()))),
                    Step::End => return Ok(None),
                }
            }
        })
    }

    /// The next item, however small; not to be mixed with [`Splitter::next`].
    ///
    /// # Errors
    /// [`FileError`].
    pub fn next_item(&mut self) -> Result<Option<Item>, FileError> {
        self.guarded(|splitter| {
            loop {
                match splitter.step()? {
                    Step::Nothing => {}
                    Step::Item(item) => return Ok(Some(item)),
                    Step::End => return Ok(None),
                }
            }
        })
    }

    /// Compares the checksum, once the end was reached and all batches are read; `batches` is their sums, xor.
    ///
    /// # Errors
    /// [`FileError`] if it is another.
    pub fn verify(&self, batches: u64) -> Result<(), FileError> {
        match self.sums {
            Some(sums)
                if self.options.verify
                    && sums.stored != 0
                    && followed_by_zeros(sums.stored, sums.behind) != sums.read ^ batches =>
            {
                Err(FileError {
                    error: Error::Corrupt("wrong checksum (RDB CRC error)"),
                    offset: self.offset(),
                })
            }
            _ => Ok(()),
        }
    }

    fn guarded<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, FileError> {
        if self.has_ended {
            return Ok(None);
        }
        let result = work(self).map_err(|error| FileError { error, offset: self.input.offset() });
        self.has_ended = !matches!(result, Ok(Some(_)));
        result
    }

    fn step(&mut self) -> Result<Step, Error> {
        let Splitter { input, version, options, state, scratch, .. } = self;
        let step = read_step(input, *version, options, state, scratch)?;
        if let Step::End = step {
            self.end()?;
        }
        Ok(step)
    }

    fn end(&mut self) -> Result<(), Error> {
        const CHECKSUM_SINCE: u16 = 5;
        if self.version >= CHECKSUM_SINCE {
            let (read, behind) = (self.input.sum_as_if_zeros_followed(), self.input.remaining());
            let stored = u64::from_le_bytes(self.input.array()?);
            self.sums = Some(Sums { read, stored, behind });
        }
        Ok(())
    }

    /// The records that lie next in the file, unless something else does or the first is too large.
    fn next_batch(&mut self, bytes: &mut Vec<u8>) -> Result<Option<Batch>, Error> {
        if !self.state.is_between_records() {
            return Ok(None);
        }
        for want in [BATCH_BYTES, BATCH_MAX_BYTES] {
            let window = self.input.window(want)?;
            let measured = measure(window, self.version, self.state.db);
            if measured.len > 0 {
                bytes.clear();
                bytes.extend_from_slice(window.get(..measured.len).ok_or(Error::Truncated)?);
                let (offset, db) = (self.input.offset(), self.state.db);
                // However many it says: no record is shorter than this.
                let most = self.input.remaining() / RECORD_MIN_BYTES;
                let coming = measured.coming.map(|(db, keys)| (db, keys.min(most)));
                self.input.give_away(measured.len);
                self.state.db = measured.db;
                let behind = self.options.verify.then(|| self.input.remaining());
                return Ok(Some(Batch { offset, db, version: self.version, behind, coming }));
            }
            if !measured.is_cut || window.len() < want {
                break;
            }
        }
        Ok(None)
    }
}

/// The whole records that a piece of a file begins with.
struct Measured {
    /// Their bytes.
    len: usize,
    /// The database that is selected behind them.
    db: u64,
    /// Whether it is the piece's end that ends them.
    is_cut: bool,
    /// See [`Batch::coming`].
    coming: Option<(u64, u64)>,
}

fn measure(window: &[u8], version: u16, db: u64) -> Measured {
    let mut rest = window;
    let mut state = State { db, ..State::default() };
    let mut measured = Measured { len: 0, db, is_cut: false, coming: None };
    loop {
        match skip_step(&mut rest, version, &mut state) {
            Ok(true) => {
                (measured.len, measured.db) = (window.len() - rest.len(), state.db);
                if let Some(keys) = state.keys.take()
                    && measured.coming.is_none_or(|(_, most)| keys > most)
                {
                    measured.coming = Some((state.db, keys));
                }
            }
            Ok(false) => {}
            Err(error) => {
                measured.is_cut = error == Error::Truncated;
                return measured;
            }
        }
    }
}

/// Passes over a record, true, or something that may precede one.
fn skip_step(rest: &mut &[u8], version: u16, state: &mut State) -> Result<bool, Error> {
    let byte = rest.byte()?;
    if read_prefix(byte, rest, state)? {
        return Ok(false);
    }
    // Whatever is no record gives an error here, and is met again by who reads it.
    let kind = Kind::from_byte(byte)?;
    skip_bytes(rest)?;
    skip_value(rest, kind, version)?;
    Ok(true)
}

/// What takes a batch's records.
pub trait Records {
    /// Says that records of these keys come next in a database, so that the places they go to can be asked for all at once. Keys that
    /// are not written out may be missing.
    fn coming(&mut self, db: u64, keys: &[&[u8]]);

    /// Takes a record.
    ///
    /// # Errors
    /// Why it is refused.
    fn record(&mut self, record: Record<Decoded<'_>, &[u8]>) -> Result<(), Error>;
}

/// Reads the records of a batch and hands them over in order; empty collections are left out. Returns what it adds to the file's
/// checksum.
///
/// # Errors
/// [`FileError`], also when `records` refuses one; those before it have been handed over.
pub fn read_batch(
    batch: &Batch,
    bytes: &[u8],
    limits: &Limits,
    records: &mut impl Records,
) -> Result<u64, FileError> {
    let mut rest = bytes;
    let mut reader = RecordReader {
        state: State { db: batch.db, ..State::default() },
        version: batch.version,
        limits,
        scratch: Default::default(),
    };
    let mut keys = Vec::with_capacity(GROUP);
    while !rest.is_empty() {
        keys.clear();
        let mut left = look_ahead(rest, reader.version, reader.state, &mut keys, records).max(1);
        while left > 0 && !rest.is_empty() {
            match reader.read(&mut rest, records) {
                Ok(is_record) => left -= usize::from(is_record),
                Err(error) => {
                    let offset = batch.offset + (bytes.len() - rest.len()) as u64;
                    return Err(FileError { error, offset });
                }
            }
        }
    }
    Ok(batch.behind.map_or(0, |behind| followed_by_zeros(crc64(0, bytes), behind)))
}

/// Records that are announced at once.
const GROUP: usize = 32;

/// Announces the next records, up to [`GROUP`], of one database; how many.
fn look_ahead<'b>(
    rest: &'b [u8],
    version: u16,
    mut state: State,
    keys: &mut Vec<&'b [u8]>,
    records: &mut impl Records,
) -> usize {
    let mut rest = rest;
    let mut count = 0;
    let db = loop {
        let db = state.db;
        let mut next = || -> Result<Option<&'b [u8]>, Error> {
            let byte = rest.byte()?;
            if read_prefix(byte, &mut rest, &mut state)? {
                return Ok(None);
            }
            let kind = Kind::from_byte(byte)?;
            let mut key = rest;
            skip_bytes(&mut rest)?;
            let text = match read_length(&mut key)? {
                Length::Plain(len) => key.get(..len as usize),
                Length::Special(_) => None,
            };
            skip_value(&mut rest, kind, version)?;
            Ok(Some(text.unwrap_or_default()))
        };
        match next() {
            Ok(Some(key)) => {
                count += 1;
                keys.push(key);
            }
            Ok(None) if count > 0 && state.db != db => break db,
            Ok(None) => continue,
            // What is wrong is met when it is read.
            Err(_) => break db,
        }
        if count == GROUP {
            break db;
        }
    };
    records.coming(db, keys);
    count
}

/// Reads records from a batch.
struct RecordReader<'l> {
    state: State,
    version: u16,
    limits: &'l Limits,
    scratch: [Vec<u8>; 2],
}

impl RecordReader<'_> {
    /// Reads a record, true, or something that may precede one.
    fn read(&mut self, rest: &mut &[u8], records: &mut impl Records) -> Result<bool, Error> {
        let [key, scratch] = &mut self.scratch;
        let byte = rest.byte()?;
        if read_prefix(byte, rest, &mut self.state)? {
            return Ok(false);
        }
        let kind = Kind::from_byte(byte)?;
        key.clear();
        key.extend_from_slice(read_bytes(rest, scratch)?);
        let State { db, .. } = self.state;
        let (expiry_ms, access) = (self.state.expiry_ms.take(), self.state.access.take());
        let value = match kind {
            Kind::String => Ok(Decoded::Text(read_bytes(rest, scratch)?)),
            _ => read_value(rest, kind, self.version, self.limits).map(Decoded::Value),
        };
        match value {
            Ok(value) => {
                records.record(Record { db, key: key.as_slice(), expiry_ms, access, value }).map(|()| true)
            }
            Err(Error::Empty(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{FileWriter, read_file};

    struct Taker<'a> {
        records: &'a mut Vec<String>,
        announced: Vec<(u64, Vec<u8>)>,
    }

    impl Records for Taker<'_> {
        fn coming(&mut self, db: u64, keys: &[&[u8]]) {
            assert!(self.announced.is_empty() && keys.len() <= GROUP);
            self.announced = keys.iter().rev().map(|key| (db, key.to_vec())).collect();
        }

        fn record(&mut self, record: Record<Decoded<'_>, &[u8]>) -> Result<(), Error> {
            let (db, key) = self.announced.pop().unwrap();
            assert!(db == record.db && (key.is_empty() || key == record.key));
            let value = match &record.value {
                Decoded::Text(text) => Value::String(text.to_vec()),
                Decoded::Value(value) => value.clone(),
            };
            let Record { db, key, expiry_ms, access, .. } = record;
            self.records.push(format!("{:?}", Record { db, key, expiry_ms, access, value }));
            Ok(())
        }
    }

    /// Records of a file as text, in order, by batches.
    fn by_batches(bytes: &[u8]) -> Result<Vec<String>, FileError> {
        let options = ReadOptions { verify: true, any_version: false, limits: Limits::default() };
        let mut splitter = Splitter::new(bytes, bytes.len() as u64, options)?;
        let (mut batch, mut records, mut sums) = (Vec::new(), Vec::new(), 0);
        while let Some(piece) = splitter.next(&mut batch)? {
            match piece {
                Piece::Item(Item::Record(record), _) => {
                    records.push(format!("{:?}", Record { key: record.key.as_slice(), ..with(&record) }));
                }
                Piece::Item(Item::Aux { .. }, _) => {}
                Piece::Batch(taken) => {
                    let mut taker = Taker { records: &mut records, announced: Vec::new() };
                    sums ^= read_batch(&taken, &batch, &Limits::default(), &mut taker)?;
                    assert!(taker.announced.is_empty());
                }
            }
        }
        assert_eq!(splitter.offset(), bytes.len() as u64);
        splitter.verify(sums)?;
        Ok(records)
    }

    fn with(record: &Record<Value>) -> Record<Value, &'static [u8]> {
        let Record { db, expiry_ms, access, ref value, .. } = *record;
        Record { db, key: b"", expiry_ms, access, value: value.clone() }
    }

    fn one_by_one(bytes: &[u8]) -> Result<Vec<String>, FileError> {
        let mut records = Vec::new();
        let options = ReadOptions { verify: true, any_version: false, limits: Limits::default() };
        read_file(bytes, bytes.len() as u64, &options, |item, _| {
            if let Item::Record(record) = item {
                records.push(format!("{:?}", Record { key: record.key.as_slice(), ..with(&record) }));
            }
            Ok(())
        })?;
        Ok(records)
    }

    #[test]
    fn batches_hold_what_the_file_holds() {
        use crate::{Form, Source};
        use martlet_types::element::Element;
        let text: Vec<u8> = (0..1_200_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        let mut writer =
            FileWriter::new(Vec::new(), Form { version: 10, compress: false }, &[("a", "b")], true);
        for i in 0..9_000usize {
            let len = if i == 2_000 { text.len() - i } else { i % 100 };
            let value = Source::String(Element::Bytes(&text[i..i + len]));
            let expiry_ms = (i % 3 == 0).then_some(4_000_000_000_000 + i as i64);
            writer.record(&Record {
                db: (i / 1000) as u64,
                key: i.to_string(),
                expiry_ms,
                access: None,
                value,
            });
        }
        let large = writer.finish().unwrap();
        let recorded: [&[u8]; 2] =
            [include_bytes!("../../tests/redis_7_0.rdb"), include_bytes!("../../tests/valkey_8.rdb")];
        for bytes in recorded.into_iter().chain([large.as_slice()]) {
            assert!(by_batches(bytes).unwrap() == one_by_one(bytes).unwrap());
            let step = if bytes.len() > 1 << 20 { bytes.len() / 5 } else { bytes.len() / 40 + 1 };
            for at in (9..bytes.len()).step_by(step) {
                let cut = by_batches(&bytes[..at]).unwrap_err();
                assert_eq!(cut.to_string(), one_by_one(&bytes[..at]).unwrap_err().to_string());
                let mut damaged = bytes.to_vec();
                damaged[at] ^= 0x10;
                assert!(by_batches(&damaged).is_err() && one_by_one(&damaged).is_err(), "the byte at {at}");
            }
        }
    }
}
