//! Hashes.
//!
//! ```text
//!  4  count | (field | value) …
//!  9  a zipmap as string
//! 13  a ziplist of field, value, … as string
//! 16  a listpack of the same as string
//! 22  count | (0 or time | field | value) …, of candidates of Redis 7.4; of Valkey 9: (field | value | time: 8, or -1) …
//! 23  as 25 without the first 8 bytes, of those candidates
//! 24  earliest time: 8 | count | (0, or time - earliest + 1 | field | value) …
//! 25  earliest time: 8 | a listpack of field, value, time or 0, … as string, by time
//! 29  names | a listpack of a number without meaning, value, … as string
//! 31  names | value …
//! 30  a listpack of a template's number, value, … as string; in files only
//! 32  a template's number | value …; in files only
//! names: 0 | a listpack as string, or 1 | count | name …; shorter names first, those of one length in order
//! ```
//! Times are Unix milliseconds.

use martlet_rdb::input::{Input, InputExt};
use martlet_rdb::{Error, Sink, Writer, listpack, read_bytes, read_count, read_plain_length, skip_bytes};
use martlet_rdb::{write_bytes, write_element, write_length, ziplist};
use martlet_spec::data_type::{self, TypeView};
use martlet_types::element::{Element, IntBuffer};
use martlet_types::hash::{Field, FieldExpiry, Hash, HashLimits, NO_EXPIRY};

use crate::batched_insert::BatchedInsert;
use crate::commands::{Commands, number, text};
use crate::descriptor::{DataType, Descriptor, Encoded, RdbType, Requirement};
use crate::digest::Digest;
use crate::export::Export;
use crate::form::{VERSION_LISTPACKS, VERSION_TEMPLATES, VERSION_TIMED, VERSION_VALKEY, write_packed};
use crate::{packed_pairs, times};

pub(crate) mod template;

const STRINGS: u8 = 4;
const ZIPMAP: u8 = 9;
const ZIPLIST: u8 = 13;
const LISTPACK: u8 = 16;
pub(crate) const TIMED_OF_VALKEY: u8 = 22;
const TIMED_LISTPACK_OLD: u8 = 23;
const TIMED: u8 = 24;
const TIMED_LISTPACK: u8 = 25;
const TEMPLATE_LISTPACK: u8 = 29;
const TEMPLATE_STRINGS: u8 = 31;

pub(crate) static DESCRIPTOR: Descriptor = Descriptor::of::<Hash>();

impl DataType for Hash {
    const RDB_TYPES: &'static [RdbType] = &[
        RdbType { byte: STRINGS, since: 6 },
        RdbType { byte: ZIPMAP, since: 6 },
        RdbType { byte: ZIPLIST, since: 6 },
        RdbType { byte: LISTPACK, since: VERSION_LISTPACKS },
        RdbType { byte: TIMED_OF_VALKEY, since: VERSION_TIMED },
        RdbType { byte: TIMED_LISTPACK_OLD, since: VERSION_TIMED },
        RdbType { byte: TIMED, since: VERSION_TIMED },
        RdbType { byte: TIMED_LISTPACK, since: VERSION_TIMED },
        RdbType { byte: TEMPLATE_LISTPACK, since: VERSION_TEMPLATES },
        RdbType { byte: TEMPLATE_STRINGS, since: VERSION_TEMPLATES },
    ];
    const REQUIREMENTS: &'static [Requirement] =
        &[Requirement { version: VERSION_TIMED, in_valkey: true, values: "hashes whose fields expire" }];
    const KEYSIZES: Option<&'static str> = Some("distrib_hashes_items");
    const VIEW: Option<&'static TypeView> = Some(&data_type::HASH);

    fn rdb_type(&self, version: u16) -> u8 {
        match (self.encoding(), self.next_expiry_ms() != NO_EXPIRY) {
            ("hashtable", false) => STRINGS,
            (_, false) if version < VERSION_LISTPACKS => STRINGS,
            (_, false) => LISTPACK,
            (_, true) if version >= VERSION_VALKEY => TIMED_OF_VALKEY,
            ("hashtable", true) => TIMED,
            (_, true) => TIMED_LISTPACK,
        }
    }

    fn write(&self, out: &mut Writer<'_>, byte: u8, compress: bool) {
        match byte {
            LISTPACK => {
                let elements = self.iter().flat_map(|field| [field.name, field.value]);
                write_packed(out, self.packed(), elements, compress);
            }
            TIMED_LISTPACK => write_timed_listpack(out, self, compress),
            TIMED => write_timed(out, self, compress),
            TIMED_OF_VALKEY => write_timed_of_valkey(out, self, compress),
            _ => {
                write_length(out, self.len() as u64);
                for field in self.iter() {
                    write_element(out, field.name, compress);
                    write_element(out, field.value, compress);
                }
            }
        }
    }

    fn read(input: &mut (impl Input + ?Sized), encoded: Encoded<'_>) -> Result<Hash, Error> {
        let (limits, mut scratch) = (encoded.limits.hash, Vec::new());
        match encoded.byte {
            TIMED => {
                let earliest_ms = u64::from_le_bytes(input.array()?);
                of_strings(input, Times::Relative(earliest_ms), limits)
            }
            TIMED_OF_VALKEY if encoded.version >= VERSION_VALKEY => of_strings(input, Times::After, limits),
            TIMED_OF_VALKEY => of_strings(input, Times::Absolute, limits),
            TEMPLATE_LISTPACK | TEMPLATE_STRINGS => {
                let names = template::read_names(input)?;
                template::read_values(input, encoded.byte == TEMPLATE_LISTPACK, &names, limits)
            }
            ZIPMAP => {
                let elements = ziplist::read_zipmap(read_bytes(input, &mut scratch)?)?;
                of_elements(0, elements.into_iter().map(Ok), false, limits)
            }
            ZIPLIST => {
                let ziplist = read_bytes(input, &mut scratch)?;
                let elements = ziplist::read(ziplist, "Hash ziplist integrity check failed.")?;
                of_elements(0, elements.into_iter().map(Ok), false, limits)
            }
            byte @ (LISTPACK | TIMED_LISTPACK | TIMED_LISTPACK_OLD) => {
                if byte == TIMED_LISTPACK {
                    input.array::<8>()?;
                }
                let elements = listpack::read(read_bytes(input, &mut scratch)?)?;
                if byte == LISTPACK
                    && let Some(packed) = packed_pairs::fields(elements.clone(), limits)
                {
                    return Ok(Hash::of_packed(packed));
                }
                of_elements(elements.element_bytes(), elements, byte != LISTPACK, limits)
            }
            _ => of_strings(input, Times::Absent, limits),
        }
    }

    fn skip(input: &mut &[u8], byte: u8, version: u16) -> Result<(), Error> {
        if matches!(byte, TIMED | TIMED_LISTPACK) {
            input.take(8)?;
        }
        if matches!(byte, ZIPMAP | ZIPLIST | LISTPACK | TIMED_LISTPACK | TIMED_LISTPACK_OLD) {
            return skip_bytes(input);
        }
        if matches!(byte, TEMPLATE_LISTPACK | TEMPLATE_STRINGS) {
            return template::skip(input, byte == TEMPLATE_LISTPACK);
        }
        let is_of_valkey = byte == TIMED_OF_VALKEY && version >= VERSION_VALKEY;
        for _ in 0..read_count(input)? {
            if byte == TIMED || byte == TIMED_OF_VALKEY && !is_of_valkey {
                read_plain_length(input)?;
            }
            skip_bytes(input)?;
            skip_bytes(input)?;
            if is_of_valkey {
                input.take(8)?;
            }
        }
        Ok(())
    }

    fn commands(&self, key: &[u8], out: &mut Commands<'_>) {
        out.elements(b"HMSET", key, self.iter().map(|field| [text(field.name), text(field.value)]));
        for field in self.iter().filter(|field| field.expire_at_ms != NO_EXPIRY) {
            let at_ms = number(field.expire_at_ms);
            out.put(&[b"HPEXPIREAT", key, &at_ms, b"FIELDS", b"1", &text(field.name)]);
        }
    }

    fn digest(&self, digest: &mut Digest) {
        for field in self.iter() {
            digest.xor_element(|element| {
                element.mix_element(field.name);
                element.mix_element(field.value);
                if field.expire_at_ms != NO_EXPIRY {
                    element.xor(b"!!hexpire!!");
                }
            });
        }
    }

    fn export(&self, out: &mut Export<'_>) {
        out.array(|out| {
            for field in self.iter() {
                out.array(|out| {
                    out.element(field.name);
                    out.element(field.value);
                    if field.expire_at_ms != NO_EXPIRY {
                        out.int(field.expire_at_ms);
                    }
                });
            }
        });
    }
}

/// Redis keeps the fields of such a listpack in order of time, those without at the end.
fn write_timed_listpack(out: &mut Writer<'_>, hash: &Hash, compress: bool) {
    let mut fields: Vec<Field<'_>> = hash.iter().collect();
    fields.sort_by_key(|field| field.expire_at_ms);
    out.put(&times::earliest_ms(fields.iter().map(|field| field.expire_at_ms)).to_le_bytes());
    let mut listpack = listpack::Writer::new();
    for field in fields {
        listpack.push(field.name);
        listpack.push(field.value);
        listpack.push(times::element(field.expire_at_ms));
    }
    listpack.finish(|bytes| write_bytes(out, bytes, compress));
}

fn write_timed(out: &mut Writer<'_>, hash: &Hash, compress: bool) {
    let earliest_ms = times::earliest_ms(hash.iter().map(|field| field.expire_at_ms));
    out.put(&earliest_ms.to_le_bytes());
    write_length(out, hash.len() as u64);
    for field in hash.iter() {
        write_length(out, times::distance(field.expire_at_ms, earliest_ms));
        write_element(out, field.name, compress);
        write_element(out, field.value, compress);
    }
}

fn write_timed_of_valkey(out: &mut Writer<'_>, hash: &Hash, compress: bool) {
    write_length(out, hash.len() as u64);
    for field in hash.iter() {
        write_element(out, field.name, compress);
        write_element(out, field.value, compress);
        let at_ms = if field.expire_at_ms == NO_EXPIRY { -1 } else { field.expire_at_ms };
        out.put(&at_ms.to_le_bytes());
    }
}

/// A hash being read. Nothing counts as expired, or a field that comes twice could go unnoticed.
struct Fields {
    hash: Hash,
    limits: HashLimits,
}

impl Fields {
    /// For `count` fields, as far as that is known.
    fn new(count: usize, limits: HashLimits) -> Fields {
        let mut hash = Hash::new();
        hash.before_growth(count, 0, limits);
        Fields { hash, limits }
    }

    /// For fields and values of about `bytes` bytes, few enough for a listpack.
    fn with_capacity(bytes: usize, limits: HashLimits) -> Fields {
        Fields { hash: Hash::with_capacity(bytes), limits }
    }

    fn add(&mut self, name: &[u8], value: Element<'_>, expiry: FieldExpiry) -> Result<(), Error> {
        if self.hash.set(name, value, expiry, self.limits, i64::MIN) {
            Ok(())
        } else {
            Err(Error::Corrupt("duplicate hash field"))
        }
    }

    fn finish(self) -> Result<Hash, Error> {
        if self.hash.is_empty() { Err(Error::Empty("hash")) } else { Ok(self.hash) }
    }
}

/// How a field that expires then is set.
fn field_expiry(at_ms: i64) -> FieldExpiry {
    if at_ms == NO_EXPIRY { FieldExpiry::Clear } else { FieldExpiry::At(at_ms) }
}

/// The place of the expiry times in a hash of strings.
#[derive(Clone, Copy)]
enum Times {
    /// Without times.
    Absent,
    /// Before each pair, plus this minus one; 0 for none.
    Relative(u64),
    /// Before each pair; 0 for none.
    Absolute,
    /// After each pair, 8 bytes; -1 for none. Valkey 9.
    After,
}

impl Times {
    fn before(self, input: &mut (impl Input + ?Sized)) -> Result<FieldExpiry, Error> {
        let at_ms = match self {
            Times::Absent | Times::After => return Ok(FieldExpiry::Clear),
            Times::Relative(earliest_ms) => times::relative(read_plain_length(input)?, earliest_ms)?,
            Times::Absolute => times::absolute(read_plain_length(input)?)?,
        };
        Ok(field_expiry(at_ms))
    }

    fn after(input: &mut (impl Input + ?Sized)) -> Result<FieldExpiry, Error> {
        match i64::from_le_bytes(input.array()?) {
            -1 => Ok(FieldExpiry::Clear),
            at_ms => times::absolute(u64::try_from(at_ms).unwrap_or(u64::MAX)).map(field_expiry),
        }
    }
}

fn of_strings(input: &mut (impl Input + ?Sized), times: Times, limits: HashLimits) -> Result<Hash, Error> {
    let count = read_count(input)?;
    let mut fields = Fields::new(count, limits);
    let mut scratch = Vec::new();
    let mut pairs = BatchedInsert::new(count);
    for left in (0..count).rev() {
        let mut expiry = times.before(input)?;
        let name_end = pairs.text(read_bytes(input, &mut scratch)?);
        let value_end = pairs.text(read_bytes(input, &mut scratch)?);
        if let Times::After = times {
            expiry = Times::after(input)?;
        }
        pairs.push(name_end, value_end, expiry);
        if left == 0 || pairs.is_full() {
            pairs.add(
                &mut fields,
                |fields, probe, queue| fields.hash.queue_probe(probe, queue),
                |fields, name, value, expiry| fields.add(name, Element::parse(value), expiry),
            )?;
        }
    }
    fields.finish()
}

/// A hash of fields and values, one after another, of about `bytes` bytes, with times after each pair if
/// `timed`.
fn of_elements<'a>(
    bytes: usize,
    mut elements: impl Iterator<Item = Result<Element<'a>, Error>>,
    timed: bool,
    limits: HashLimits,
) -> Result<Hash, Error> {
    const PARTIAL: Error = Error::Corrupt("hash field without value");
    let mut fields = Fields::with_capacity(bytes, limits);
    let mut buffer = IntBuffer::new();
    while let Some(name) = elements.next() {
        let name = name?;
        let value = elements.next().ok_or(PARTIAL)??;
        let expiry = match timed.then(|| elements.next().ok_or(PARTIAL)) {
            None => FieldExpiry::Clear,
            Some(time) => field_expiry(times::of_element(time??)?),
        };
        fields.add(name.as_bytes(&mut buffer), value, expiry)?;
    }
    let mut hash = fields.finish()?;
    if timed && hash.encoding() == "listpack" {
        keep_timed(&mut hash);
    }
    Ok(hash)
}

/// Makes a listpack the kind that has times, as it was where it was written.
fn keep_timed(hash: &mut Hash) {
    let Some(name) = hash.iter().next().map(|field| field.name.to_vec()) else { return };
    hash.set_expiry(&name, i64::MAX - 1);
    hash.set_expiry(&name, NO_EXPIRY);
}
