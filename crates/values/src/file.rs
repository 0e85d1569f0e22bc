//! Whole RDB files: a header, opcodes and records, and a checksum at the end.
//!
//! ```text
//! "REDIS" | version: 4 digits | (FA name text)… | (FE db | FB keys expiring | record…)… | FF | CRC-64 of all before: 8
//! record: [FC expiry: 8] [F8 idle seconds | F9 frequency: 1] type: 1 | key | value
//! ```
//! `VALKEY` and three digits may stand in place of the first two: then types and opcodes from 22 to 243 have
//! other meanings. Behind an envelope all of it is compressed (`martlet_rdb::envelope`). A checksum of 0
//! means that there is none.

pub mod chunks;
mod import;
pub mod split;

use std::io::{Read, Write};

use martlet_base::copy;

use martlet_keyspace::{Object, Value, ValueRef};
use martlet_rdb::crc64::{crc64, followed_by_zeros};
use martlet_rdb::envelope;
use martlet_rdb::input::{Input, InputExt};
use martlet_rdb::module::{copy_items, read_id};
use martlet_rdb::{Error, Owner, Sink, read_bytes, read_plain_length, write_bytes, write_length};
use martlet_types::hash::Hash;

use crate::form::VERSION_REDIS_LAST;
use crate::hash::template::{LISTPACK_BY_NUMBER, STRINGS_BY_NUMBER, Templates};
use crate::payload::{LIBRARY, LIBRARY_PRE_GA, reads_version};
use crate::{Form, Limits, VERSION_VALKEY, ValueType, encoded_byte, write_value_of};
use import::SLOT_IMPORT;
pub use import::SlotImport;

/// Redis 8.12: the key that follows is not evicted (BLESS).
const KEY_KEPT: u8 = 241;
/// In Redis' versions, a template for the names of hashes' fields: number | count | name …
const HASH_TEMPLATE: u8 = 242;
/// In Valkey's versions, a command that was run while the file was written without a fork.
const UPDATE: u8 = 242;
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

/// Whether a file that begins with these bytes, at least five, is an RDB file and not one of commands.
pub fn has_signature(start: &[u8]) -> bool {
    start.starts_with(b"REDIS") || start.starts_with(b"VALKE") || start.starts_with(envelope::MAGIC)
}

/// Whether the file that begins with these [`START_BYTES`] is of a version that is read.
///
/// # Errors
/// As the reader of the file would say it.
pub fn check_start(mut start: &[u8], any_version: bool) -> Result<(), Error> {
    if start.starts_with(envelope::MAGIC) {
        return envelope::check(start.get(..envelope::ENVELOPE_BYTES).ok_or(Error::Truncated)?);
    }
    read_version(&mut start, any_version).map(|_| ())
}

fn read_version(input: &mut impl Input, any: bool) -> Result<u16, Error> {
    let header: [u8; START_BYTES] = input.array()?;
    let (digits, of_any) = match (header.strip_prefix(b"REDIS"), header.strip_prefix(b"VALKEY")) {
        (Some(digits), _) => (digits, 1..=VERSION_REDIS_LAST),
        (_, Some(digits)) => (digits, VERSION_VALKEY..=u16::MAX),
        _ => return Err(Error::Corrupt("wrong signature")),
    };
    // Other text is version 0, as Redis reads it.
    let version = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let is_of_signature = of_any.contains(&version);
    if any && version > *of_any.end() {
        // Its types are Redis' all the same.
        return Ok(VERSION_REDIS_LAST);
    }
    let is_read = is_of_signature && (any || reads_version(version));
    if is_read { Ok(version) } else { Err(Error::Version(version)) }
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

/// What reading a file remembers from item to item.
#[derive(Debug, Default)]
struct Memory {
    scratch: Vec<u8>,
    templates: Templates,
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
    memory: &mut Memory,
) -> Result<Step, Error> {
    let Memory { scratch, templates } = memory;
    let is_valkeys = version >= VERSION_VALKEY;
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
        HASH_TEMPLATE if !is_valkeys => {
            templates.read(input)?;
            Ok(Step::Nothing)
        }
        UPDATE => Err(Error::Corrupt("a command within the file, which was saved without a fork")),
        SLOT_IMPORT if is_valkeys => Ok(Step::Item(Item::SlotImport(SlotImport::read(input, scratch)?))),
        LIBRARY => Ok(Step::Item(Item::Library(read_bytes(input, scratch)?.to_vec()))),
        LIBRARY_PRE_GA => Err(Error::Corrupt("Pre-GA function format not supported")),
        MODULE_AUX => {
            let name = read_id(input)?.name();
            copy_items(input, &mut Vec::new())?;
            Ok(Step::Item(Item::ModuleAux { name }))
        }
        MODULE_KEY => Err(Error::Unknown("module")),
        KEY_KEPT => Err(Error::Unknown("protection from eviction")),
        END => Ok(Step::End),
        _ => {
            let is_by_number = matches!(byte, LISTPACK_BY_NUMBER | STRINGS_BY_NUMBER) && !is_valkeys;
            let value_type = if is_by_number { None } else { Some(ValueType::from_byte(byte, version)?) };
            let key = read_bytes(input, scratch)?.to_vec();
            let (db, expiry_ms, access) = (state.db, state.expiry_ms.take(), state.access.take());
            let value = match value_type {
                Some(value_type) => value_type.read(input, version, &options.limits),
                None => templates.read_hash(input, byte, options.limits.hash).map(Hash::into_value),
            };
            match value {
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
        aux.iter().for_each(|(name, text)| writer.write_aux(name, text.as_bytes()));
        writer
    }

    /// Writes one more auxiliary field, which versions before 7 do not have; databases come after all of
    /// them.
    pub fn write_aux(&mut self, name: &str, text: &[u8]) {
        let Form { version, compress } = self.form;
        if version >= VERSION_AUX {
            self.put(&[AUX]);
            write_bytes(self, name.as_bytes(), compress);
            write_bytes(self, text, compress);
        }
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
    let owner = Owner { key: record.key.as_ref(), has_links: true };
    write_value_of(owner, out, record.value, form);
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
                    assert!(crate::since_version(value, byte) <= version, "{byte} in {version}");
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

    /// A file of these bytes between its signature and its end.
    fn file_of(signature: &[u8], body: &[u8]) -> Vec<u8> {
        [signature, body, &[END], &[0; 8]].concat()
    }

    #[test]
    fn hashes_name_their_templates_by_number() {
        let template = |number: u8, names: &[u8]| [&[HASH_TEMPLATE, number][..], names].concat();
        let (three, two) = (template(3, b"\x02\x01a\x01b"), template(7, b"\x01\x01c"));
        // Listpacks of 3, 1, 2 and of 3, 1.
        let packed = b"\x1e\x01x\x0d\x0d\0\0\0\x03\0\x03\x01\x01\x01\x02\x01\xff".as_slice();
        let short = b"\x1e\x01x\x0b\x0b\0\0\0\x02\0\x03\x01\x01\x01\xff".as_slice();
        let strings = b"\x20\x01y\x07\x03one".as_slice();
        let plain = b"\0\x01z\x01z".as_slice();
        let body = [&three, &two, plain, packed, b"\xfc\0\0\0\0\0\x01\0\0", strings, plain].concat();
        let records = read(&file_of(b"REDIS0015", &body)).unwrap();
        let shown: Vec<_> = records.iter().map(|record| (record.key.as_slice(), record.expiry_ms)).collect();
        let expected: [(&[u8], _); 4] = [(b"z", None), (b"x", None), (b"y", Some(1 << 40)), (b"z", None)];
        assert_eq!(shown, expected);
        let hash = |at: usize| match &records[at].value {
            Value::Hash(hash) => {
                hash.iter().map(|field| (field.name.to_vec(), field.value.to_vec())).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(hash(1), [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())]);
        assert_eq!(hash(2), [(b"c".to_vec(), b"one".to_vec())]);
        let error = |body: &[u8]| read(&file_of(b"REDIS0016", body)).unwrap_err().error.to_string();
        let not_there = "hash template that is not there";
        assert_eq!(error(packed), not_there);
        assert_eq!(error(&[&three, strings].concat()), not_there);
        assert_eq!(error(&[&three[..], &three].concat()), "hash template that comes twice");
        assert_eq!(error(&[&three, short].concat()), "as many values as a hash template has no fields");
        assert_eq!(error(&template(1, b"\0")), "hash template without fields");
        let unsorted = template(1, b"\x02\x01b\x01a");
        assert_eq!(error(&unsorted), "fields of a hash template are not strictly sorted");
    }

    #[test]
    fn versions_and_their_signatures() {
        let string = b"\0\x01k\x01v".as_slice();
        let options = |any_version| ReadOptions { verify: true, any_version, limits: Limits::default() };
        let reads = |signature: &[u8], body: &[u8], any| {
            let bytes = file_of(signature, body);
            read_file(bytes.as_slice(), bytes.len() as u64, &options(any), |_, _| Ok(()))
                .map_err(|of| of.error)
        };
        for signature in [b"REDIS0001", b"REDIS0014", b"REDIS0015", b"REDIS0017", b"VALKEY080", b"VALKEY081"]
        {
            assert_eq!(reads(signature, string, false), Ok(()));
        }
        for (signature, version) in [
            (b"REDIS0018", 18),
            (b"REDIS0080", 80),
            (b"REDIS9999", 9999),
            (b"VALKEY011", 11),
            (b"VALKEY079", 79),
            (b"VALKEY082", 82),
            (b"REDIS000x", 0),
        ] {
            assert_eq!(reads(signature, string, false), Err(Error::Version(version)));
            let any = reads(signature, string, true);
            assert_eq!(any.is_ok(), version > 11 && version != 79, "{version}");
        }
        // Whatever the number, the signature says whose types these are: 22 has its times behind each pair.
        let timed = b"\x16\x01h\x01\x01f\x01v\xff\xff\xff\xff\xff\xff\xff\xff".as_slice();
        assert_eq!(reads(b"VALKEY999", timed, true), Ok(()));
        assert!(reads(b"REDIS9999", timed, true).is_err());
        for (signature, body, refusal) in [
            (
                b"VALKEY081",
                b"\x17\x01k\x01\x01p\0".as_slice(),
                Error::Corrupt("Path hash path with empty payload"),
            ),
            (b"VALKEY081", b"\x1e\x01k", Error::UnknownType(30)),
            (b"REDIS0017", b"\x21\x01k", Error::Unknown("rate limit")),
            (b"VALKEY081", b"\x22\x01k", Error::UnknownType(34)),
            (b"REDIS0017", b"\x24\x01k", Error::UnknownType(36)),
            (b"REDIS0017", b"\xf1\0", Error::Unknown("protection from eviction")),
        ] {
            assert_eq!(reads(signature, body, false), Err(refusal));
        }
        let start = |bytes: &[u8]| check_start(bytes, false);
        assert_eq!((start(b"REDIS0015"), start(b"VCS\x01\x02\0\x01\x28\xb5")), (Ok(()), Ok(())));
        assert_eq!(start(b"REDIS0018"), Err(Error::Version(18)));
        assert!(start(b"VCS\x01\x09\0\x01..").is_err() && start(b"VCS\x01").is_err());
        let update = reads(b"VALKEY081", b"\xf2*1\r\n$4\r\nPING\r\n", false).unwrap_err();
        assert!(update.to_string().starts_with("a command within the file"));
    }
}
