//! Whole RDB files: a header, opcodes and records, and a checksum at the end.
//!
//! ```text
//! "REDIS" | version: 4 digits | (FA name text)… | (FE db | FB keys expiring | record…)… | FF | CRC-64 of all before: 8
//! record: [FC expiry: 8] [F8 idle seconds | F9 frequency: 1] type: 1 | key | value
//! ```
//! `VALKEY` and three digits may stand in place of the first two. A checksum of 0 means that there is none.

pub mod chunks;
mod import;
pub mod split;

use std::io::{Read, Write};

use martlet_base::copy;

use martlet_keyspace::{Value, ValueRef};
use martlet_rdb::crc64::{crc64, followed_by_zeros};
use martlet_rdb::input::{Input, InputExt};
use martlet_rdb::module::{copy_items, read_id};
use martlet_rdb::{Error, Sink, read_bytes, read_plain_length, write_bytes, write_length};

use crate::payload::{LIBRARY, LIBRARY_PRE_GA, reads_version};
use crate::{Form, Limits, VERSION_VALKEY, ValueType, encoded_byte, write_value};
use import::SLOT_IMPORT;
pub use import::SlotImport;

/// Redis 8.12: the key that follows is not evicted (BLESS).
const KEY_KEPT: u8 = 241;
/// Redis 8.10: the fields of hashes that follow.
const HASH_TEMPLATE: u8 = 242;
/// What modules keep with the key that follows.
const MODULE_KEY: u8 = 243;
const MODULE_AUX: u8 = 247;
const IDLE: u8 = 248;
const FREQUENCY: u8 = 249;
const AUX: u8 = 250;
const RESIZE: u8 = 251;
const EXPIRY_MS: u8 = 252;
const EXPIRY_S: u8 = 253;
const SELECT: u8 = 254;
const END: u8 = 255;
/// Valkey 9: the number of keys in a cluster slot.
const SLOT_INFO: u8 = 244;

/// The last use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Seconds since it was.
    IdleSeconds(u64),
    /// How often, as LFU counts.
    Frequency(u8),
}

/// A key with its value, expiry and use.
#[derive(Clone, Debug)]
pub struct Record<V, K = Vec<u8>> {
    /// Its database.
    pub db: u64,
    /// Its name.
    pub key: K,
    /// When it expires, Unix milliseconds.
    pub expiry_ms: Option<i64>,
    /// Its use, if the file has it.
    pub access: Option<Access>,
    /// Its value.
    pub value: V,
}

/// An item of a file.
#[derive(Clone, Debug)]
pub enum Item {
    /// Something about the file as a whole.
    Aux {
        /// Its name, such as `redis-ver`.
        name: Vec<u8>,
        /// As text.
        text: Vec<u8>,
    },
    /// The code of a library of functions.
    Library(Vec<u8>),
    /// Slots that were on their way.
    SlotImport(SlotImport),
    /// What a module keeps about the file as a whole. Its content is passed over.
    ModuleAux {
        /// The name of the module's type.
        name: String,
    },
    /// A key.
    Record(Record<Value>),
}

/// How a file is read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Compare the checksum.
    pub verify: bool,
    /// Read versions that are not known, too: they may hold nothing that is unknown.
    pub any_version: bool,
    /// When collections change their encoding.
    pub limits: Limits,
}

/// Why a file was refused, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}, at offset {offset}")]
pub struct FileError {
    /// The fault.
    pub error: Error,
    /// Bytes of the file that were read before.
    pub offset: u64,
}

/// Reads a file of `len` bytes and passes on its items in order, each with the offset that was reached; empty
/// collections are left out, as Redis does.
///
/// # Errors
/// [`FileError`], also when `found` refuses an item; earlier items have been passed on.
pub fn read_file(
    file: impl Read,
    len: u64,
    options: &ReadOptions,
    mut found: impl FnMut(Item, u64) -> Result<(), Error>,
) -> Result<(), FileError> {
    let mut splitter = split::Splitter::new(file, len, options.clone())?;
    while let Some(item) = splitter.next_item()? {
        let offset = splitter.offset();
        found(item, offset).map_err(|error| FileError { error, offset })?;
    }
    splitter.verify(0)
}

/// Bytes that a file begins with, of whichever kind it is.
pub const START_BYTES: usize = 9;

/// Whether the file that begins with these [`START_BYTES`] is of a version that is read.
///
/// # Errors
/// As the reader of the file would say it.
pub fn check_start(mut start: &[u8], any_version: bool) -> Result<(), Error> {
    read_version(&mut start, any_version).map(|_| ())
}

fn read_version(input: &mut impl Input, any: bool) -> Result<u16, Error> {
    let header: [u8; 9] = input.array()?;
    let digits = header.strip_prefix(b"REDIS").or_else(|| header.strip_prefix(b"VALKEY"));
    let digits = digits.ok_or(Error::Corrupt("wrong signature"))?;
    // Other text is version 0, as Redis reads it.
    let version = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    if version > 0 && (any || reads_version(version)) { Ok(version) } else { Err(Error::Version(version)) }
}

/// The file's announcements about the next records.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    db: u64,
    expiry_ms: Option<i64>,
    access: Option<Access>,
    /// How many keys of the database will come.
    keys: Option<u64>,
}

impl State {
    /// Nothing but the database was said of the next record.
    fn is_between_records(self) -> bool {
        self.expiry_ms.is_none() && self.access.is_none()
    }
}

/// One step through a file.
enum Step {
    /// An announcement about later items.
    Nothing,
    Item(Item),
    /// The end, but for the checksum.
    End,
}

/// Reads the announcement of `opcode` about the next records; false for other opcodes.
fn read_prefix(opcode: u8, input: &mut impl Input, state: &mut State) -> Result<bool, Error> {
    match opcode {
        SELECT => state.db = read_plain_length(input)?,
        EXPIRY_MS => state.expiry_ms = Some(i64::from_le_bytes(input.array()?)),
        EXPIRY_S => state.expiry_ms = Some(i64::from(i32::from_le_bytes(input.array()?)) * 1000),
        IDLE => state.access = Some(Access::IdleSeconds(read_plain_length(input)?)),
        FREQUENCY => state.access = Some(Access::Frequency(input.byte()?)),
        RESIZE => {
            state.keys = Some(read_plain_length(input)?);
            read_plain_length(input)?;
        }
        SLOT_INFO => {
            for _ in 0..3 {
                read_plain_length(input)?;
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn read_step(
    input: &mut impl Input,
    version: u16,
    options: &ReadOptions,
    state: &mut State,
    scratch: &mut Vec<u8>,
) -> Result<Step, Error> {
    let byte = input.byte()?;
    if read_prefix(byte, input, state)? {
        return Ok(Step::Nothing);
    }
    match byte {
        AUX => {
            let name = read_bytes(input, scratch)?.to_vec();
            let text = read_bytes(input, scratch)?.to_vec();
            Ok(Step::Item(match SlotImport::of_field(&name, &text) {
                Some(import) => Item::SlotImport(import),
                None => Item::Aux { name, text },
            }))
        }
        SLOT_IMPORT if version >= VERSION_VALKEY => {
            Ok(Step::Item(Item::SlotImport(SlotImport::read(input, scratch)?)))
        }
        LIBRARY => Ok(Step::Item(Item::Library(read_bytes(input, scratch)?.to_vec()))),
        LIBRARY_PRE_GA => Err(Error::Corrupt("Pre-GA function format not supported")),
        MODULE_AUX => {
            let name = read_id(input)?.name();
            copy_items(input, &mut Vec::new())?;
            Ok(Step::Item(Item::ModuleAux { name }))
        }
        MODULE_KEY => Err(Error::Unknown("module")),
        KEY_KEPT => Err(Error::Unknown("protection from eviction")),
        HASH_TEMPLATE => Err(Error::Unknown("hash template")),
        END => Ok(Step::End),
        _ => {
            let value_type = ValueType::from_byte(byte)?;
            let key = read_bytes(input, scratch)?.to_vec();
            let (db, expiry_ms, access) = (state.db, state.expiry_ms.take(), state.access.take());
            match value_type.read(input, version, &options.limits) {
                Ok(value) => Ok(Step::Item(Item::Record(Record { db, key, expiry_ms, access, value }))),
                Err(Error::Empty(_)) => Ok(Step::Nothing),
                Err(error) => Err(error),
            }
        }
    }
}

/// The first version with auxiliary fields and sizes of databases.
const VERSION_AUX: u16 = 7;
/// The first version with a key's use.
const VERSION_ACCESS: u16 = 9;

/// Bytes collected before they are written.
const BUFFER_BYTES: usize = 1 << 16;

/// A file being written. The first error is kept for [`FileWriter::finish`], and nothing is written after it.
pub struct FileWriter<W> {
    file: W,
    buffer: Vec<u8>,
    crc: u64,
    wants_sum: bool,
    form: Form,
    /// The selected database.
    db: Option<u64>,
    result: std::io::Result<()>,
}

impl<W: Write> Sink for FileWriter<W> {
    fn put(&mut self, bytes: &[u8]) {
        copy::extend(&mut self.buffer, bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }
}

impl<W: Write> FileWriter<W> {
    /// Begins a file with auxiliary fields, which versions before 7 do not have.
    pub fn new(file: W, form: Form, aux: &[(&str, &str)], wants_sum: bool) -> FileWriter<W> {
        let mut writer =
            FileWriter { file, buffer: Vec::new(), crc: 0, wants_sum, form, db: None, result: Ok(()) };
        let signature = match form.version {
            VERSION_VALKEY.. => format!("VALKEY{:03}", form.version),
            _ => format!("REDIS{:04}", form.version),
        };
        writer.put(signature.as_bytes());
        for (name, text) in aux.iter().filter(|_| form.version >= VERSION_AUX) {
            writer.put(&[AUX]);
            write_bytes(&mut writer, name.as_bytes(), form.compress);
            write_bytes(&mut writer, text.as_bytes(), form.compress);
        }
        writer
    }

    /// Writes a library of functions, which versions before 10 do not have; databases come after all of them.
    pub fn write_library(&mut self, code: &[u8]) {
        let compress = self.form.compress;
        self.put(&[LIBRARY]);
        write_bytes(self, code, compress);
    }

    /// Writes the mark of slots that are on their way, if the version has an opcode for it; else
    /// [`SlotImport::field`] is among the auxiliary fields.
    pub fn write_import(&mut self, import: &SlotImport) {
        if self.form.version >= VERSION_VALKEY {
            import.write(self);
        }
    }

    /// The next records are of `db`.
    fn select(&mut self, db: u64) {
        let mut selected = self.db;
        select(self, db, &mut selected);
        self.db = selected;
    }

    fn flush(&mut self) {
        if self.wants_sum {
            self.crc = crc64(self.crc, &self.buffer);
        }
        if self.result.is_ok() {
            self.result = self.file.write_all(&self.buffer);
        }
        self.buffer.clear();
    }

    /// Adds a piece that was written elsewhere, and whose checksum is `sum`.
    fn chunk(&mut self, bytes: &[u8], sum: u64) {
        if bytes.is_empty() {
            return;
        }
        self.flush();
        if self.wants_sum {
            self.crc = followed_by_zeros(self.crc, bytes.len() as u64) ^ sum;
        }
        if self.result.is_ok() {
            self.result = self.file.write_all(bytes);
        }
    }

    /// Announces a database with this many keys, some of which expire; its records follow.
    pub fn database(&mut self, db: u64, keys: u64, expiring: u64) {
        if self.form.version < VERSION_AUX {
            return;
        }
        self.db = Some(db);
        self.put(&[SELECT]);
        write_length(self, db);
        self.put(&[RESIZE]);
        write_length(self, keys);
        write_length(self, expiring);
    }

    /// Writes a key; its database is selected if it is another than before.
    pub fn record<K: AsRef<[u8]>>(&mut self, record: &Record<ValueRef<'_>, K>) {
        let (mut db, form) = (self.db, self.form);
        write_record(self, record, &mut db, form);
        self.db = db;
    }

    /// Whether writing still goes well.
    pub fn is_sound(&self) -> bool {
        self.result.is_ok()
    }

    /// Ends the file and gives it back, to be synchronised.
    ///
    /// # Errors
    /// The first that writing met.
    pub fn finish(mut self) -> std::io::Result<W> {
        self.put(&[END]);
        self.flush();
        let sum = if self.wants_sum { self.crc } else { 0 };
        self.buffer.extend(sum.to_le_bytes());
        self.flush();
        self.result.and_then(|()| self.file.flush()).map(|()| self.file)
    }
}

/// Selects `db`, unless it is the last that was, `selected`.
fn select(out: &mut impl Sink, db: u64, selected: &mut Option<u64>) {
    if *selected != Some(db) {
        *selected = Some(db);
        out.put(&[SELECT]);
        write_length(out, db);
    }
}

/// Writes a key; its database is selected if it is another than the last, `selected`.
pub fn write_record<K: AsRef<[u8]>>(
    out: &mut impl Sink,
    record: &Record<ValueRef<'_>, K>,
    selected: &mut Option<u64>,
    form: Form,
) {
    select(out, record.db, selected);
    if let Some(at_ms) = record.expiry_ms {
        out.put(&[EXPIRY_MS]);
        out.put(&at_ms.to_le_bytes());
    }
    match record.access.filter(|_| form.version >= VERSION_ACCESS) {
        Some(Access::IdleSeconds(seconds)) => {
            out.put(&[IDLE]);
            write_length(out, seconds);
        }
        Some(Access::Frequency(count)) => out.put(&[FREQUENCY, count]),
        None => {}
    }
    out.put(&[encoded_byte(record.value, form.version)]);
    write_bytes(out, record.key.as_ref(), form.compress);
    write_value(out, record.value, form);
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&[u8]; 2] =
        [include_bytes!("../tests/redis_7_0.rdb"), include_bytes!("../tests/valkey_8.rdb")];

    const FORM: Form = Form { version: 10, compress: true };

    fn read(bytes: &[u8]) -> Result<Vec<Record<Value>>, FileError> {
        let mut records = Vec::new();
        let options = ReadOptions { verify: true, any_version: false, limits: Limits::default() };
        read_file(bytes, bytes.len() as u64, &options, |item, _| {
            if let Item::Record(record) = item {
                records.push(record);
            }
            Ok(())
        })?;
        Ok(records)
    }

    #[test]
    fn files_of_real_servers_go_round() {
        for bytes in FILES {
            let records = read(bytes).unwrap();
            assert_eq!(records.len(), 21);
            let expiring = records.iter().find(|record| record.key == b"s_text").unwrap();
            assert_eq!(expiring.expiry_ms, Some(4_000_000_000_000));
            assert!(records.iter().any(|record| record.db == 3 && record.key == b"k"));
            let mut writer = FileWriter::new(Vec::new(), FORM, &[("redis-ver", "7.0.15")], true);
            for record in &records {
                let Record { db, ref key, expiry_ms, .. } = *record;
                let access = Some(Access::IdleSeconds(7));
                writer.record(&Record {
                    db,
                    key: key.clone(),
                    expiry_ms,
                    access,
                    value: record.value.view(),
                });
            }
            let again = read(&writer.finish().unwrap()).unwrap();
            for (left, right) in records.iter().zip(&again) {
                assert_eq!((left.db, &left.key, left.expiry_ms), (right.db, &right.key, right.expiry_ms));
                assert_eq!(format!("{:?}", left.value).len(), format!("{:?}", right.value).len());
                assert_eq!(right.access, Some(Access::IdleSeconds(7)));
            }
        }
    }

    #[test]
    fn libraries_go_round_and_those_of_release_candidates_are_refused() {
        let code = b"#!lua name=a\n".repeat(20);
        let mut writer = FileWriter::new(Vec::new(), FORM, &[], true);
        writer.write_library(&code);
        let file = writer.finish().unwrap();
        let options = ReadOptions { verify: true, any_version: false, limits: Limits::default() };
        let mut found = Vec::new();
        read_file(&file[..], file.len() as u64, &options, |item, _| {
            found.push(item);
            Ok(())
        })
        .unwrap();
        assert!(matches!(&found[..], [Item::Library(read)] if *read == code));
        let mut old = file;
        old[9] = LIBRARY_PRE_GA;
        let error = read(&old).unwrap_err().error;
        assert_eq!(error, Error::Corrupt("Pre-GA function format not supported"));
    }

    #[test]
    fn every_version_holds_the_values_and_only_kinds_that_it_has() {
        for bytes in FILES {
            let records = read(bytes).unwrap();
            for version in crate::VERSION_OLDEST..=crate::VERSION_NEWEST {
                let form = Form { version, compress: version % 2 == 0 };
                let mut writer = FileWriter::new(Vec::new(), form, &[("redis-ver", "7.0.15")], true);
                writer.database(0, 20, 1);
                for record in &records {
                    let (value, byte) = (record.value.view(), encoded_byte(record.value.view(), version));
                    assert!(crate::since_version(byte) <= version, "{byte} in {version}");
                    let Record { db, ref key, expiry_ms, .. } = *record;
                    let access = Some(Access::Frequency(9));
                    writer.record(&Record { db, key: key.as_slice(), expiry_ms, access, value });
                }
                let again = read(&writer.finish().unwrap()).unwrap();
                assert_eq!(records.len(), again.len());
                for (left, right) in records.iter().zip(&again) {
                    assert_eq!((left.db, &left.key, left.expiry_ms), (right.db, &right.key, right.expiry_ms));
                    let bytes = |record: &Record<Value>| crate::payload::dump(record.value.view(), false);
                    assert_eq!(bytes(left).len(), bytes(right).len(), "{version}: {left:?}");
                    assert_eq!(right.access.is_some(), version >= VERSION_ACCESS);
                }
            }
        }
    }

    #[test]
    fn every_cut_and_many_flips_are_refused() {
        let [bytes, _] = FILES;
        for end in (0..bytes.len()).step_by(97) {
            let error = read(&bytes[..end]).unwrap_err();
            assert!(error.offset <= end as u64);
        }
        for at in (9..bytes.len()).step_by(101) {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 0x10;
            assert!(read(&damaged).is_err(), "the byte at {at}");
        }
    }

    #[test]
    fn what_cannot_be_held_is_named() {
        let file = b"REDIS0014\x21\x01k";
        let error = read(file).unwrap_err();
        assert_eq!(error.to_string(), "values of type rate limit cannot be held, at offset 10");
        assert_eq!(read(b"REDIS0099").unwrap_err().error, Error::Version(99));
        assert!(read(b"VALKEY080\xff\0\0\0\0\0\0\0\0").unwrap().is_empty());
    }
}
