//! One file read by several threads: an idle one takes the next batch of whole records, and decodes it
//! without any lock.
//!
//! Under the file's lock records are only passed over; a record too large for a batch, and every other item,
//! is read at once. Invariant: batches are in the file's order, every fault is met by a [`BatchReader`] or by
//! the splitter, each at its offset, and no batch is longer than [`BATCH_MAX_BYTES`].

use std::io::Read;

use martlet_base::prefetch::prefetch;
use martlet_keyspace::Value;
use martlet_rdb::crc64::{crc64, followed_by_zeros};
use martlet_rdb::envelope::Unpacked;
use martlet_rdb::input::{FileInput, Input, InputExt, UNKNOWN_LEN};
use martlet_rdb::{Error, skip_bytes, take_bytes};

use super::{FileError, Item, Memory, ReadOptions, Record, State, Step};
use super::{read_prefix, read_step, read_version};
use crate::{Limits, ValueType};

/// Bytes of a batch, about: of small keys some ten for each shard, and no more than the processor's caches
/// hold.
const BATCH_BYTES: usize = 1 << 18;
/// A record beyond this is read under the lock.
const BATCH_MAX_BYTES: usize = 1 << 20;

/// No record is shorter: its kind, the lengths of key and value, and what lies behind a length of 0 in a
/// value.
const RECORD_MIN_BYTES: u64 = 3;

/// Announcements beyond this number are dropped if no thread asks for them.
const MAX_ANNOUNCED: usize = 1024;

/// The next work of a thread.
#[derive(Debug)]
pub enum Piece {
    /// Records to be decoded with a [`BatchReader`].
    Batch(Batch),
    /// An item that was read already, and the offset behind it.
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
}

/// A value of a batch.
#[derive(Clone, Debug)]
pub enum Decoded<'a> {
    /// A string.
    Text(&'a [u8]),
    /// Anything else, or a string that was not in a batch.
    Value(Value),
    /// An empty collection, which is no key.
    Nothing,
}

/// The checksums at the end of a file.
#[derive(Clone, Copy, Debug)]
struct Sums {
    /// The checksum of the splitter's own reading, as if zeros followed to the end of the file.
    read: u64,
    /// As the file has it.
    stored: u64,
    /// Bytes of the file behind the summed part.
    behind: u64,
}

/// The file that is shared; a lock guards it.
pub struct Splitter<R: Read> {
    input: FileInput<Unpacked<R>>,
    version: u16,
    options: ReadOptions,
    state: State,
    memory: Memory,
    has_ended: bool,
    sums: Option<Sums>,
    /// See [`Splitter::take_announced`].
    announced: Vec<(u64, u64)>,
    /// Keys that may still be announced: no record is shorter than [`RECORD_MIN_BYTES`].
    room: u64,
    /// Up to here there is no record.
    bare_until: u64,
}

impl<R: Read> Splitter<R> {
    /// Begins with a file of `len` bytes, or of [`UNKNOWN_LEN`].
    ///
    /// # Errors
    /// [`FileError`], for the header.
    pub fn new(file: R, len: u64, options: ReadOptions) -> Result<Splitter<R>, FileError> {
        let file = Unpacked::open(file).map_err(|error| FileError { error, offset: 0 })?;
        let len = if file.is_packed() { UNKNOWN_LEN } else { len };
        let mut input = FileInput::new(file, len, options.verify);
        let version = read_version(&mut input, options.any_version);
        let version = version.map_err(|error| FileError { error, offset: input.offset() })?;
        let (state, memory) = (State::default(), Memory::default());
        // Nothing is reserved for the announcements of a file of unknown length.
        let room = if len == UNKNOWN_LEN { 0 } else { len / RECORD_MIN_BYTES };
        let (has_ended, sums, announced) = (false, None, Vec::new());
        Ok(Splitter {
            input,
            version,
            options,
            state,
            memory,
            has_ended,
            sums,
            announced,
            room,
            bare_until: 0,
        })
    }

    /// The version of the format that the file is of.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Bytes read so far, batches that were handed out included; at the end, the bytes of the snapshot.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// Bytes of the source read so far: other than [`Splitter::offset`] if that is compressed.
    pub fn source_offset(&self) -> u64 {
        self.input.file().packed_bytes().unwrap_or_else(|| self.input.offset())
    }

    /// Databases that were begun since this was asked last, and how many keys the file says they have: in all
    /// databases together no more than it has room for.
    pub fn take_announced(&mut self) -> impl Iterator<Item = (u64, u64)> {
        self.announced.drain(..)
    }

    fn announce(&mut self, db: u64, keys: u64) {
        let keys = keys.min(self.room);
        self.room -= keys;
        if keys > 0 && self.announced.len() < MAX_ANNOUNCED {
            self.announced.push((db, keys));
        }
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

    /// Compares the checksum, once the end was reached and all batches are read; `batches` is their sums,
    /// xor.
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
        let Splitter { input, version, options, state, memory, .. } = self;
        let step = read_step(input, *version, options, state, memory)?;
        if let Step::End = step {
            self.end()?;
        }
        if let Some(keys) = self.state.keys.take() {
            self.announce(self.state.db, keys);
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
        // The frame ends with the file, and its own checksums are behind the last byte.
        if self.input.file().is_packed() && !self.input.window(1)?.is_empty() {
            return Err(Error::Corrupt("data behind the end of a compressed file"));
        }
        Ok(())
    }

    /// The records that lie next in the file, unless something else does or the first is too large.
    fn next_batch(&mut self, bytes: &mut Vec<u8>) -> Result<Option<Batch>, Error> {
        if !self.state.is_between_records() || self.input.offset() < self.bare_until {
            return Ok(None);
        }
        for want in [BATCH_BYTES, BATCH_MAX_BYTES] {
            let offset = self.input.offset();
            let window = self.input.window(want)?;
            let measured = measure(window, self.version, self.state.db);
            if measured.len > 0 {
                bytes.clear();
                bytes.extend_from_slice(window.get(..measured.len).ok_or(Error::Truncated)?);
                let db = self.state.db;
                measured.announced.into_iter().for_each(|(db, keys)| self.announce(db, keys));
                self.input.give_away(measured.len);
                self.state.db = measured.db;
                let behind = self.options.verify.then(|| self.input.remaining());
                return Ok(Some(Batch { offset, db, version: self.version, behind }));
            }
            let is_whole = !measured.is_cut || window.len() < want;
            self.bare_until = offset + measured.passed as u64;
            if is_whole {
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
    /// Bytes of them and of what precedes others.
    passed: usize,
    /// See [`Splitter::take_announced`].
    announced: Vec<(u64, u64)>,
}

fn measure(window: &[u8], version: u16, db: u64) -> Measured {
    let mut rest = window;
    let mut state = State { db, ..State::default() };
    let mut measured = Measured { len: 0, db, is_cut: false, passed: 0, announced: Vec::new() };
    let mut announced = 0;
    loop {
        match skip_step(&mut rest, version, &mut state) {
            Ok(is_record) => {
                measured.passed = window.len() - rest.len();
                measured.announced.extend(state.keys.take().map(|keys| (state.db, keys)));
                if is_record {
                    (measured.len, measured.db) = (measured.passed, state.db);
                    announced = measured.announced.len();
                }
            }
            Err(error) => {
                // The bytes behind the last record are read again.
                measured.announced.truncate(announced);
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
    // An item other than a record is an error here, and is met again by its reader.
    let value_type = ValueType::from_byte(byte, version)?;
    skip_bytes(rest)?;
    value_type.skip(rest, version)?;
    Ok(true)
}

/// What takes a batch's records.
pub trait Records {
    /// The mark of a record, made of its key.
    fn mark(&mut self, key: &[u8]) -> u64;

    /// Takes records of one database, which follow each other in the file. Those that are not read are left
    /// out.
    ///
    /// # Errors
    /// What [`Found::read`] gave; of several the first in the file.
    fn take(&mut self, found: &mut Found<'_>) -> Result<(), FileError>;
}

/// A record in a batch, with what else was said of it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// What [`Records::mark`] made of its key.
    pub mark: u64,
    /// Where it begins in the batch.
    at: u32,
}

/// Records of one database that were found in a batch, and are decoded when they are asked for.
pub struct Found<'b> {
    db: u64,
    places: &'b [Place],
    /// Where the batch begins in its file.
    offset: u64,
    bytes: &'b [u8],
    version: u16,
    limits: &'b Limits,
    scratch: &'b mut [Vec<u8>; 2],
}

impl<'b> Found<'b> {
    /// Their database.
    pub fn db(&self) -> u64 {
        self.db
    }

    /// Where they are, in the file's order.
    pub fn places(&self) -> &'b [Place] {
        self.places
    }

    /// Has the processor fetch a record that will be read soon.
    #[inline]
    pub fn prefetch(&self, place: &Place) {
        prefetch(self.bytes.as_ptr().wrapping_add(place.at as usize));
    }

    /// Decodes a record and hands it over.
    ///
    /// # Errors
    /// [`FileError`], also when `take` refuses the record.
    #[inline]
    pub fn read(
        &mut self,
        place: &Place,
        take: impl FnOnce(Record<Decoded<'_>, &[u8]>) -> Result<(), Error>,
    ) -> Result<(), FileError> {
        let mut rest = self.bytes.get(place.at as usize..).unwrap_or_default();
        let result = self.decode(&mut rest, take);
        result.map_err(|error| FileError { error, offset: position(self.offset, self.bytes, rest) })
    }

    #[inline]
    fn decode(
        &mut self,
        rest: &mut &[u8],
        take: impl FnOnce(Record<Decoded<'_>, &[u8]>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let [key, text] = &mut *self.scratch;
        let mut state = State { db: self.db, ..State::default() };
        let value_type = read_value_type(rest, &mut state, self.version)?;
        let key = take_bytes(rest, key)?;
        let value = match value_type.is_string() {
            true => Ok(Decoded::Text(take_bytes(rest, text)?)),
            false => value_type.read_slice(rest, self.version, self.limits).map(Decoded::Value),
        };
        let State { db, expiry_ms, access, .. } = state;
        match value {
            Ok(value) => take(Record { db, key, expiry_ms, access, value }),
            Err(Error::Empty(_)) => take(Record { db, key, expiry_ms, access, value: Decoded::Nothing }),
            Err(error) => Err(error),
        }
    }
}

fn position(offset: u64, bytes: &[u8], rest: &[u8]) -> u64 {
    offset + (bytes.len() - rest.len()) as u64
}

/// Reads what precedes a record, and the form of its value.
#[inline]
fn read_value_type(rest: &mut &[u8], state: &mut State, version: u16) -> Result<ValueType, Error> {
    loop {
        let byte = rest.byte()?;
        // Most records have nothing in front of that.
        match ValueType::from_byte(byte, version) {
            Ok(value_type) => return Ok(value_type),
            Err(error) if !read_prefix(byte, rest, state)? => return Err(error),
            Err(_) => {}
        }
    }
}

/// Reads batches.
#[derive(Debug)]
pub struct BatchReader<'l> {
    limits: &'l Limits,
    scratch: [Vec<u8>; 2],
    places: Vec<Place>,
}

impl<'l> BatchReader<'l> {
    /// With the limits at which collections change their encoding.
    pub fn new(limits: &'l Limits) -> BatchReader<'l> {
        BatchReader { limits, scratch: Default::default(), places: Vec::new() }
    }

    /// Finds the records of a batch and passes them on, one database after the other. Returns the batch's
    /// part of the file's checksum.
    ///
    /// # Errors
    /// [`FileError`]: the first of `records`, or the fault behind the records that were passed on.
    pub fn read(
        &mut self,
        batch: &Batch,
        bytes: &[u8],
        records: &mut impl Records,
    ) -> Result<u64, FileError> {
        let mut rest = bytes;
        let mut state = State { db: batch.db, ..State::default() };
        while !rest.is_empty() {
            self.places.clear();
            let mut ended = Ok(());
            let db = loop {
                let (from, before) = (rest, state);
                match self.find(&mut rest, &mut state, batch, records) {
                    Ok(mark) if self.places.is_empty() || state.db == before.db => {
                        self.places.push(Place { mark, at: (bytes.len() - from.len()) as u32 });
                    }
                    // The next database begins with it.
                    Ok(_) => {
                        (rest, state) = (from, before);
                        break before.db;
                    }
                    Err(error) => {
                        ended = Err(FileError { error, offset: position(batch.offset, bytes, rest) });
                        break before.db;
                    }
                }
                if rest.is_empty() {
                    break state.db;
                }
            };
            let (offset, version, limits) = (batch.offset, batch.version, self.limits);
            let (places, scratch) = (self.places.as_slice(), &mut self.scratch);
            records.take(&mut Found { db, places, offset, bytes, version, limits, scratch })?;
            ended?;
        }
        Ok(batch.behind.map_or(0, |behind| followed_by_zeros(crc64(0, bytes), behind)))
    }

    /// Passes over a record; returns its key's mark.
    #[inline]
    fn find(
        &mut self,
        rest: &mut &[u8],
        state: &mut State,
        batch: &Batch,
        records: &mut impl Records,
    ) -> Result<u64, Error> {
        let value_type = read_value_type(rest, state, batch.version)?;
        let mark = records.mark(take_bytes(rest, &mut self.scratch[0])?);
        value_type.skip(rest, batch.version)?;
        Ok(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{FileWriter, read_file};

    struct Taker<'a> {
        records: &'a mut Vec<String>,
        /// All of a database's are decoded from the last to the first.
        backwards: bool,
    }

    fn sum(key: &[u8]) -> u64 {
        key.iter().fold(7, |sum, &byte| sum * 31 % 1_000_003 + u64::from(byte))
    }

    impl Records for Taker<'_> {
        fn mark(&mut self, key: &[u8]) -> u64 {
            sum(key)
        }

        fn take(&mut self, found: &mut Found<'_>) -> Result<(), FileError> {
            let (mut texts, mut first) = (Vec::new(), Ok(()));
            let mut places: Vec<Place> = found.places().to_vec();
            if self.backwards {
                places.reverse();
            }
            for place in &places {
                let result = found.read(place, |record| {
                    assert_eq!(place.mark, sum(record.key));
                    let value = match &record.value {
                        Decoded::Text(text) => Value::from_bytes(text),
                        Decoded::Value(value) => value.clone(),
                        Decoded::Nothing => return Ok(()),
                    };
                    let Record { db, key, expiry_ms, access, .. } = record;
                    texts.push(format!("{:?}", Record { db, key, expiry_ms, access, value }));
                    Ok(())
                });
                if result.is_err() {
                    first = result;
                    if !self.backwards {
                        break;
                    }
                }
            }
            if self.backwards {
                texts.reverse();
            }
            self.records.append(&mut texts);
            first
        }
    }

    /// Records of a file as text, in order, by batches; whether its length is known makes no difference.
    fn by_batches(bytes: &[u8], backwards: bool) -> Result<Vec<String>, FileError> {
        let known = by_batches_of(bytes, bytes.len() as u64, backwards);
        let unknown = by_batches_of(bytes, UNKNOWN_LEN, backwards);
        assert_eq!(known.as_ref().ok(), unknown.as_ref().ok());
        known
    }

    fn by_batches_of(bytes: &[u8], len: u64, backwards: bool) -> Result<Vec<String>, FileError> {
        let options = ReadOptions { verify: true, any_version: false, limits: Limits::default() };
        let limits = Limits::default();
        let mut reader = BatchReader::new(&limits);
        let mut splitter = Splitter::new(bytes, len, options)?;
        let (mut batch, mut records, mut sums) = (Vec::new(), Vec::new(), 0);
        while let Some(piece) = splitter.next(&mut batch)? {
            match piece {
                Piece::Item(Item::Record(record), _) => {
                    records.push(format!("{:?}", Record { key: record.key.as_slice(), ..with(&record) }));
                }
                Piece::Item(_, _) => {}
                Piece::Batch(taken) => {
                    sums ^= reader.read(&taken, &batch, &mut Taker { records: &mut records, backwards })?;
                }
            }
        }
        assert_eq!(splitter.source_offset(), bytes.len() as u64);
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

    /// A file as Valkey 9.2 compresses it, with each codec.
    fn packed(bytes: &[u8]) -> [Vec<u8>; 2] {
        use std::io::Write;
        let info = lz4_flex::frame::FrameInfo::new().block_checksums(true).content_checksum(true);
        let mut lz4 = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
        lz4.write_all(bytes).unwrap();
        let zstd = ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest);
        [(1, lz4.finish().unwrap()), (2, zstd)]
            .map(|(codec, frame)| [&[b'V', b'C', b'S', 1, codec, 0, 1][..], &frame].concat())
    }

    #[test]
    fn compressed_files_hold_the_same() {
        let recorded: [&[u8]; 2] =
            [include_bytes!("../../tests/redis_7_0.rdb"), include_bytes!("../../tests/valkey_8.rdb")];
        for bytes in recorded {
            for packed in packed(bytes) {
                assert!(packed.len() < bytes.len());
                assert!(
                    by_batches_of(&packed, packed.len() as u64, false).unwrap() == one_by_one(bytes).unwrap()
                );
                assert!(one_by_one(&packed).unwrap() == one_by_one(bytes).unwrap());
                let options = || ReadOptions { verify: true, any_version: false, limits: Limits::default() };
                let mut splitter = Splitter::new(packed.as_slice(), packed.len() as u64, options()).unwrap();
                while splitter.next_item().unwrap().is_some() {}
                assert_eq!(
                    (splitter.offset(), splitter.source_offset()),
                    (bytes.len() as u64, packed.len() as u64)
                );
                for end in (0..packed.len()).step_by(packed.len() / 50) {
                    assert!(one_by_one(&packed[..end]).is_err(), "{end}");
                }
            }
            // The frame holds the file and nothing else; its checksum counts like any other.
            let longer = [bytes, b"*"].concat();
            let [first, second] = packed(&longer);
            let behind = "data behind the end of a compressed file";
            assert!(
                [first, second].iter().all(|file| one_by_one(file).unwrap_err().to_string().contains(behind))
            );
            let mut wrong = bytes.to_vec();
            *wrong.last_mut().unwrap() ^= 1;
            assert!(one_by_one(&packed(&wrong)[0]).unwrap_err().to_string().contains("wrong checksum"));
        }
    }

    /// Databases as they are announced until the file ends, and the number of pieces.
    fn announced(bytes: &[u8]) -> (Vec<(u64, u64)>, usize) {
        let options = ReadOptions { verify: true, any_version: false, limits: Limits::default() };
        let mut splitter = Splitter::new(bytes, bytes.len() as u64, options).unwrap();
        let (mut found, mut batch, mut pieces) = (Vec::new(), Vec::new(), 0);
        while splitter.next(&mut batch).unwrap().is_some() {
            pieces += 1;
            found.extend(splitter.take_announced());
        }
        (found, pieces)
    }

    #[test]
    fn all_databases_are_announced_with_no_more_keys_than_the_file_has_room_for() {
        // Both before any record, as we write it; and each before its own.
        let head = b"REDIS0010\xfe\x00\xfb\x02\x00";
        let ours = [
            &head[..],
            b"\xfe\x09\xfb\x01\x00\xfe\x00\x00\x01a\x01x\x00\x01b\x01x\xfe\x09\x00\x01c\x01x\xff",
            &[0; 8],
        ];
        assert_eq!(announced(&ours.concat()), (vec![(0, 2), (9, 1)], 1));
        let theirs =
            [&head[..], b"\x00\x01a\x01x\x00\x01b\x01x\xfe\x09\xfb\x01\x00\x00\x01c\x01x\xff", &[0; 8]];
        assert_eq!(announced(&theirs.concat()), (vec![(0, 2), (9, 1)], 1));
        // Behind an item other than a record, too; and the last announcement is cut down.
        let liar = [&head[..], b"\xfa\x01a\x01b\xfe\x09\xfb\x3f\x00\x00\x01c\x01x\xff", &[0; 8]].concat();
        let room = liar.len() as u64 / RECORD_MIN_BYTES;
        assert_eq!(announced(&liar), (vec![(0, 2), (9, room - 2)], 2));
    }

    #[test]
    fn a_file_that_announces_and_has_nothing_is_read_once() {
        let mut bytes = b"REDIS0010".to_vec();
        // Reading on for a record at each of them would take minutes.
        bytes.extend(b"\xfe\x00".repeat(2_000_000));
        bytes.extend(b"\x00\x01a\x01x\xff");
        bytes.extend([0; 8]);
        assert_eq!(announced(&bytes).1, 1);
    }

    #[test]
    fn batches_hold_what_the_file_holds() {
        use crate::Form;
        use martlet_keyspace::{StrValue, ValueRef};
        let text: Vec<u8> = (0..1_200_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        let mut writer =
            FileWriter::new(Vec::new(), Form { version: 10, compress: false }, &[("a", "b")], true);
        for i in 0..9_000usize {
            let len = if i == 2_000 { text.len() - i } else { i % 100 };
            let value = ValueRef::Str(StrValue::Bytes(&text[i..i + len]));
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
            for backwards in [false, true] {
                assert!(by_batches(bytes, backwards).unwrap() == one_by_one(bytes).unwrap());
            }
            let step = if bytes.len() > 1 << 20 { bytes.len() / 5 } else { bytes.len() / 40 + 1 };
            for at in (9..bytes.len()).step_by(step) {
                let cut = one_by_one(&bytes[..at]).unwrap_err().to_string();
                let mut damaged = bytes.to_vec();
                damaged[at] ^= 0x10;
                assert!(one_by_one(&damaged).is_err(), "the byte at {at}");
                for backwards in [false, true] {
                    assert_eq!(by_batches(&bytes[..at], backwards).unwrap_err().to_string(), cut);
                    assert!(by_batches(&damaged, backwards).is_err(), "the byte at {at}");
                }
            }
        }
    }
}
