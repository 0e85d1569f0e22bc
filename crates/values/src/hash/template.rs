//! Hashes of Redis 8.10 whose names of fields are a template, which is stored once for many of them. They are
//! read as hashes like any other.
//!
//! A file has its templates before the keys, each a record of the opcode 242 (`file.rs`), and hashes that
//! name theirs by number; a payload has the names itself. The forms are in the opening of `hash.rs`.
//!
//! Invariant: the names of a template ascend, shorter ones first, so that none comes twice.

use std::collections::HashMap;

use martlet_rdb::input::{Input, InputExt};
use martlet_rdb::{Error, listpack, read_bytes, read_count, read_plain_length, skip_bytes};
use martlet_types::element::{Element, IntBuffer};
use martlet_types::hash::{Hash, HashLimits};

use super::{FieldExpiry, Fields};

/// In a file: a hash as a listpack, its template by number.
pub(crate) const LISTPACK_BY_NUMBER: u8 = 30;
/// In a file: a hash as strings, its template by number.
pub(crate) const STRINGS_BY_NUMBER: u8 = 32;

/// The names are a listpack.
const NAMES_PACKED: u64 = 0;
/// The names are strings.
const NAMES_RAW: u64 = 1;

const NO_NAMES: Error = Error::Corrupt("hash template without fields");
const DISORDER: Error = Error::Corrupt("fields of a hash template are not strictly sorted");
const OTHER_COUNT: Error = Error::Corrupt("as many values as a hash template has no fields");
const NO_NUMBER: Error = Error::Corrupt("number of a hash template that is none");

/// The names of a template's fields.
pub(crate) type Names = Vec<Box<[u8]>>;

/// The templates of a file, by number.
#[derive(Debug, Default)]
pub(crate) struct Templates(HashMap<u64, Names>);

impl Templates {
    /// Reads a template's record, behind its opcode.
    pub(crate) fn read(&mut self, input: &mut (impl Input + ?Sized)) -> Result<(), Error> {
        let number = read_plain_length(input)?;
        let names = read_raw_names(input)?;
        match self.0.insert(number, names) {
            None => Ok(()),
            Some(_) => Err(Error::Corrupt("hash template that comes twice")),
        }
    }

    /// Reads a hash that names its template, in the form of this byte.
    pub(crate) fn read_hash(
        &self,
        input: &mut (impl Input + ?Sized),
        byte: u8,
        limits: HashLimits,
    ) -> Result<Hash, Error> {
        if byte == LISTPACK_BY_NUMBER {
            let mut scratch = Vec::new();
            let values = listpack::read(read_bytes(input, &mut scratch)?)?;
            return of_listpack(values, |number| self.names(number), limits);
        }
        let number = read_plain_length(input)?;
        of_strings(input, self.names(number)?, limits)
    }

    fn names(&self, number: u64) -> Result<&[Box<[u8]>], Error> {
        self.0.get(&number).map(Vec::as_slice).ok_or(Error::Corrupt("hash template that is not there"))
    }
}

/// Reads the names of a hash that has them itself.
pub(super) fn read_names(input: &mut (impl Input + ?Sized)) -> Result<Names, Error> {
    match read_plain_length(input)? {
        NAMES_RAW => read_raw_names(input),
        NAMES_PACKED => {
            let (mut scratch, mut names, mut buffer) = (Vec::new(), Names::new(), IntBuffer::new());
            for name in listpack::read(read_bytes(input, &mut scratch)?)? {
                push(&mut names, name?.as_bytes(&mut buffer))?;
            }
            if names.is_empty() { Err(NO_NAMES) } else { Ok(names) }
        }
        _ => Err(Error::Corrupt("form of a hash template's names")),
    }
}

fn read_raw_names(input: &mut (impl Input + ?Sized)) -> Result<Names, Error> {
    let (mut scratch, mut names) = (Vec::new(), Names::new());
    for _ in 0..read_count(input)? {
        push(&mut names, read_bytes(input, &mut scratch)?)?;
    }
    if names.is_empty() { Err(NO_NAMES) } else { Ok(names) }
}

fn push(names: &mut Names, name: &[u8]) -> Result<(), Error> {
    if names.last().is_some_and(|last| (last.len(), &**last) >= (name.len(), name)) {
        return Err(DISORDER);
    }
    names.push(name.into());
    Ok(())
}

/// Reads the values of a hash with these names, from a listpack or as strings.
pub(super) fn read_values(
    input: &mut (impl Input + ?Sized),
    is_packed: bool,
    names: &[Box<[u8]>],
    limits: HashLimits,
) -> Result<Hash, Error> {
    if is_packed {
        let mut scratch = Vec::new();
        let values = listpack::read(read_bytes(input, &mut scratch)?)?;
        return of_listpack(values, |_| Ok(names), limits);
    }
    of_strings(input, names, limits)
}

/// A hash of a listpack with a template's number in front of the values.
fn of_listpack<'n>(
    mut values: listpack::Reader<'_>,
    names: impl FnOnce(u64) -> Result<&'n [Box<[u8]>], Error>,
    limits: HashLimits,
) -> Result<Hash, Error> {
    let number = values.next().ok_or(NO_NUMBER)??.as_int();
    let names = names(number.and_then(|number| u64::try_from(number).ok()).ok_or(NO_NUMBER)?)?;
    let mut fields = Fields::with_capacity(values.element_bytes(), limits);
    for name in names {
        let value = values.next().ok_or(OTHER_COUNT)??;
        fields.add(name, value, FieldExpiry::Clear)?;
    }
    if values.next().is_some() { Err(OTHER_COUNT) } else { fields.finish() }
}

/// A hash of one string for each name.
fn of_strings(
    input: &mut (impl Input + ?Sized),
    names: &[Box<[u8]>],
    limits: HashLimits,
) -> Result<Hash, Error> {
    input.count(names.len() as u64)?;
    let (mut fields, mut scratch) = (Fields::new(names.len(), limits), Vec::new());
    for name in names {
        let value = Element::parse(read_bytes(input, &mut scratch)?);
        fields.add(name, value, FieldExpiry::Clear)?;
    }
    fields.finish()
}

/// Passes over a hash that has its names itself.
pub(super) fn skip(input: &mut &[u8], is_packed: bool) -> Result<(), Error> {
    let count = match read_plain_length(input)? {
        NAMES_PACKED => {
            // How many values follow is only in the names' listpack.
            let (mut scratch, mut count) = (Vec::new(), 0);
            for name in listpack::read(martlet_rdb::take_bytes(input, &mut scratch)?)? {
                name?;
                count += 1;
            }
            count
        }
        NAMES_RAW => {
            let count = read_count(input)?;
            (0..count).try_for_each(|_| skip_bytes(input))?;
            count
        }
        _ => return Err(Error::Corrupt("form of a hash template's names")),
    };
    let strings = if is_packed { 1 } else { count };
    (0..strings).try_for_each(|_| skip_bytes(input))
}
