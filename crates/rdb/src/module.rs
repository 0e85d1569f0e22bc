//! Values of Redis' modules: an id, and items that each say what they are, so that a reader who does not know
//! the type can still pass over them, or keep them.
//!
//! ```text
//! id: a length of 64 bits | (kind: length | item)… | 0
//! kind 1, 2: a length, signed or not    3: a float of 4 bytes    4: a double of 8    5: a string
//! id:  nine characters of 6 bits, the first highest | version of the type's encoding: 10 bits
//! ```

use std::borrow::Cow;

use crate::Error;
use crate::input::{Input, InputExt};
use crate::sink::{Owner, Sink};
use crate::string::{Length, read_bytes, read_length, read_plain_length, write_bytes, write_length};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Characters of a type's name.
pub const NAME_CHARACTERS: usize = 9;
const VERSION_BITS: u32 = 10;

/// Strings in pieces up to this length may spell a number.
const SHORT_MAX_BYTES: u64 = 64;
/// Strings in pieces up to this length are compressed.
pub const PACKED_MAX_BYTES: u64 = 16 << 20;

const END: u64 = 0;
const SIGNED: u64 = 1;
const UNSIGNED: u64 = 2;
const FLOAT: u64 = 3;
const DOUBLE: u64 = 4;
const STRING: u64 = 5;

/// A module's type with the version of its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleId(pub u64);

impl ModuleId {
    /// The id of a type of this name; characters that no name has count as the first of the alphabet.
    pub const fn new(name: &[u8; NAME_CHARACTERS], version: u16) -> ModuleId {
        let (mut id, mut at) = (0u64, 0);
        while at < NAME_CHARACTERS {
            let (mut place, mut code) = (0, 0);
            while place < ALPHABET.len() {
                if ALPHABET[place] == name[at] {
                    code = place as u64;
                }
                place += 1;
            }
            id = id << 6 | code;
            at += 1;
        }
        ModuleId(id << VERSION_BITS | version as u64)
    }

    /// The type's name, nine characters.
    pub fn name(self) -> String {
        let code = |at: usize| (self.0 >> (VERSION_BITS as usize + 6 * (NAME_CHARACTERS - 1 - at))) & 63;
        (0..NAME_CHARACTERS)
            .filter_map(|at| ALPHABET.get(code(at) as usize))
            .map(|&byte| char::from(byte))
            .collect()
    }

    /// Whether both ids have the name of one type.
    pub fn is_same_type(self, other: ModuleId) -> bool {
        self.0 >> VERSION_BITS == other.0 >> VERSION_BITS
    }

    /// The id of the same type with another version of the encoding.
    pub const fn of_version(self, version: u16) -> ModuleId {
        ModuleId(self.0 >> VERSION_BITS << VERSION_BITS | version as u64)
    }

    /// The version of the type's encoding.
    pub fn version(self) -> u16 {
        (self.0 & ((1 << VERSION_BITS) - 1)) as u16
    }
}

/// Reads the id in front of a value's items.
///
/// # Errors
/// [`Error`].
pub fn read_id(input: &mut (impl Input + ?Sized)) -> Result<ModuleId, Error> {
    read_plain_length(input).map(ModuleId)
}

/// Copies all items up to the end, and that, as they are; every length in its shortest form.
///
/// # Errors
/// [`Error`].
pub fn copy_items(input: &mut (impl Input + ?Sized), out: &mut Vec<u8>) -> Result<(), Error> {
    loop {
        let kind = read_plain_length(input)?;
        write_length(out, kind);
        match kind {
            END => return Ok(()),
            SIGNED | UNSIGNED => write_length(out, read_plain_length(input)?),
            FLOAT => out.put(&input.array::<4>()?),
            DOUBLE => out.put(&input.array::<8>()?),
            STRING => copy_bytes(input, out)?,
            _ => return Err(Error::Corrupt("unknown item in a module's value")),
        }
    }
}

/// Copies a string as it is encoded.
fn copy_bytes(input: &mut (impl Input + ?Sized), out: &mut Vec<u8>) -> Result<(), Error> {
    const SPECIAL: u8 = 0xc0;
    let len = match read_length(input)? {
        Length::Plain(len) => {
            let len = input.count(len)?;
            write_length(out, len as u64);
            len
        }
        Length::Special(number @ 0..=2) => {
            out.put(&[SPECIAL | number]);
            1 << number
        }
        Length::Special(3) => {
            let (packed, len) = (read_plain_length(input)?, read_plain_length(input)?);
            let packed = input.count(packed)?;
            out.put(&[SPECIAL | 3]);
            write_length(out, packed as u64);
            write_length(out, len);
            packed
        }
        Length::Special(_) => return Err(Error::Corrupt("unknown string encoding")),
    };
    out.put(input.take(len)?);
    Ok(())
}

/// Passes over all items up to the end, and that.
///
/// # Errors
/// [`Error`]; [`Error::Truncated`] if the slice ends within them.
pub fn skip_items(input: &mut &[u8]) -> Result<(), Error> {
    loop {
        match read_plain_length(input)? {
            END => return Ok(()),
            SIGNED | UNSIGNED => read_plain_length(input).map(|_| ())?,
            FLOAT => input.take(4).map(|_| ())?,
            DOUBLE => input.take(8).map(|_| ())?,
            STRING => crate::string::skip_bytes(input)?,
            _ => return Err(Error::Corrupt("unknown item in a module's value")),
        }
    }
}

/// An item of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item<'a> {
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A float.
    Float(f32),
    /// A double.
    Double(f64),
    /// A string.
    String(&'a [u8]),
}

/// Reads items one after the other, each as the kind that it must be.
pub struct ItemReader<'a> {
    input: &'a mut dyn Input,
    scratch: Vec<u8>,
    /// The end was read.
    is_over: bool,
}

const OTHER_KIND: Error = Error::Corrupt("another item than a module's value has there");

impl<'a> ItemReader<'a> {
    /// Reads from `input`, behind the id.
    pub fn new(input: &'a mut dyn Input) -> ItemReader<'a> {
        ItemReader { input, scratch: Vec::new(), is_over: false }
    }

    fn expect(&mut self, kind: u64) -> Result<(), Error> {
        if read_plain_length(self.input)? == kind { Ok(()) } else { Err(OTHER_KIND) }
    }

    /// A signed integer.
    ///
    /// # Errors
    /// [`Error`], also for another kind of item.
    pub fn signed(&mut self) -> Result<i64, Error> {
        self.expect(SIGNED)?;
        read_plain_length(self.input).map(|bits| bits as i64)
    }

    /// An unsigned integer.
    ///
    /// # Errors
    /// As [`ItemReader::signed`].
    pub fn unsigned(&mut self) -> Result<u64, Error> {
        self.expect(UNSIGNED)?;
        read_plain_length(self.input)
    }

    /// A float.
    ///
    /// # Errors
    /// As [`ItemReader::signed`].
    pub fn float(&mut self) -> Result<f32, Error> {
        self.expect(FLOAT)?;
        self.input.array().map(f32::from_le_bytes)
    }

    /// A double.
    ///
    /// # Errors
    /// As [`ItemReader::signed`].
    pub fn double(&mut self) -> Result<f64, Error> {
        self.expect(DOUBLE)?;
        self.input.array().map(f64::from_le_bytes)
    }

    /// A string.
    ///
    /// # Errors
    /// As [`ItemReader::signed`].
    pub fn string(&mut self) -> Result<&[u8], Error> {
        self.expect(STRING)?;
        read_bytes(self.input, &mut self.scratch)
    }

    /// The next item, whatever it is; `None` at the end.
    ///
    /// # Errors
    /// [`Error`].
    pub fn item_or_end(&mut self) -> Result<Option<Item<'_>>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let item = match read_plain_length(self.input)? {
            END => {
                self.is_over = true;
                return Ok(None);
            }
            SIGNED => Item::Signed(read_plain_length(self.input)? as i64),
            UNSIGNED => Item::Unsigned(read_plain_length(self.input)?),
            FLOAT => Item::Float(self.input.array().map(f32::from_le_bytes)?),
            DOUBLE => Item::Double(self.input.array().map(f64::from_le_bytes)?),
            STRING => Item::String(read_bytes(self.input, &mut self.scratch)?),
            _ => return Err(Error::Corrupt("unknown item in a module's value")),
        };
        Ok(Some(item))
    }

    /// The next item, of whichever kind.
    ///
    /// # Errors
    /// As [`ItemReader::signed`], also where the items end.
    pub fn item(&mut self) -> Result<Item<'_>, Error> {
        self.item_or_end()?.ok_or(OTHER_KIND)
    }

    /// Bytes that are left of the whole input: a bound on every count that an item says.
    pub fn remaining(&self) -> u64 {
        self.input.remaining()
    }

    /// The end of the items.
    ///
    /// # Errors
    /// As [`ItemReader::signed`].
    pub fn end(mut self) -> Result<(), Error> {
        if self.is_over { Ok(()) } else { self.expect(END) }
    }
}

/// Writes items one after the other.
pub struct ItemWriter<'a, 'b> {
    out: &'a mut crate::sink::Writer<'b>,
    compress: bool,
}

impl<'a, 'b> ItemWriter<'a, 'b> {
    /// Begins with the id.
    pub fn new(out: &'a mut crate::sink::Writer<'b>, id: ModuleId, compress: bool) -> ItemWriter<'a, 'b> {
        write_length(out, id.0);
        ItemWriter { out, compress }
    }

    /// The key whose value is written.
    pub fn owner(&self) -> Owner<'b> {
        self.out.owner()
    }

    /// A signed integer.
    pub fn signed(&mut self, value: i64) {
        write_length(self.out, SIGNED);
        write_length(self.out, value as u64);
    }

    /// An unsigned integer.
    pub fn unsigned(&mut self, value: u64) {
        write_length(self.out, UNSIGNED);
        write_length(self.out, value);
    }

    /// A float.
    pub fn float(&mut self, value: f32) {
        write_length(self.out, FLOAT);
        self.out.put(&value.to_le_bytes());
    }

    /// A double.
    pub fn double(&mut self, value: f64) {
        write_length(self.out, DOUBLE);
        self.out.put(&value.to_le_bytes());
    }

    /// A string.
    pub fn string(&mut self, value: &[u8]) {
        write_length(self.out, STRING);
        write_bytes(self.out, value, self.compress);
    }

    /// A string of `len` bytes that come in pieces; one longer than [`PACKED_MAX_BYTES`] is not compressed,
    /// so that no copy of it is made.
    pub fn string_in_pieces(&mut self, len: u64, pieces: &mut dyn Iterator<Item = Cow<'_, [u8]>>) {
        if len <= SHORT_MAX_BYTES || self.compress && len <= PACKED_MAX_BYTES {
            let mut bytes = Vec::with_capacity(len as usize);
            pieces.for_each(|piece| bytes.extend_from_slice(&piece));
            return self.string(&bytes);
        }
        write_length(self.out, STRING);
        write_length(self.out, len);
        pieces.for_each(|piece| self.out.put(&piece));
    }

    /// The end of the items.
    pub fn end(self) {
        write_length(self.out, END);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::Writer;

    #[test]
    fn ids_are_those_of_redis() {
        // A dump of Redis Stack 7.4 has this id in front of a document.
        let id = ModuleId::new(b"ReJSON-RL", 3);
        assert_eq!(id, ModuleId(0x45e2_5238_df91_2c03));
        assert_eq!((id.name().as_str(), id.version()), ("ReJSON-RL", 3));
        assert!(id.is_same_type(ModuleId::new(b"ReJSON-RL", 4)));
        assert!(!id.is_same_type(ModuleId::new(b"ReJSON-RM", 3)));
        assert_eq!(ModuleId::new(b"AAAAAAAAA", 0), ModuleId(0));
        assert_eq!(ModuleId::new(b"_________", 1023), ModuleId(u64::MAX));
    }

    #[test]
    fn strings_in_pieces_are_those_in_one() {
        for (text, compress) in
            [(&b"70000"[..], true), (&[b'x'; 5000], true), (&[b'x'; 5000], false), (b"", false)]
        {
            let write = |put: &dyn Fn(&mut ItemWriter<'_, '_>)| {
                let mut bytes = Vec::new();
                put(&mut ItemWriter::new(&mut Writer::new(&mut bytes), ModuleId(0), compress));
                bytes
            };
            let pieces = || text.chunks(7).map(Cow::Borrowed);
            let in_pieces = write(&|items| items.string_in_pieces(text.len() as u64, &mut pieces()));
            assert_eq!(in_pieces, write(&|items| items.string(text)));
        }
    }

    #[test]
    fn items_go_round_and_are_copied_and_passed_over() {
        let id = ModuleId::new(b"test-type", 7);
        let mut bytes = Vec::new();
        {
            let mut writer = Writer::new(&mut bytes);
            let mut items = ItemWriter::new(&mut writer, id, true);
            items.signed(-5);
            items.unsigned(1 << 40);
            items.float(1.5);
            items.double(-0.25);
            for text in [&b"text"[..], b"-1000", b"70000", &[b'x'; 100], b""] {
                items.string(text);
            }
            items.end();
        }
        let mut input = bytes.as_slice();
        assert_eq!(read_id(&mut input).unwrap(), id);
        let behind_id = input;
        let mut items = ItemReader::new(&mut input);
        assert_eq!((items.signed(), items.unsigned()), (Ok(-5), Ok(1 << 40)));
        assert_eq!((items.float(), items.double()), (Ok(1.5), Ok(-0.25)));
        for text in [&b"text"[..], b"-1000", b"70000", &[b'x'; 100], b""] {
            assert_eq!(items.string(), Ok(text));
        }
        items.end().unwrap();
        assert!(input.is_empty());

        let mut copy = Vec::new();
        copy_items(&mut { behind_id }, &mut copy).unwrap();
        assert!(copy == behind_id);
        let mut rest = behind_id;
        skip_items(&mut rest).unwrap();
        assert!(rest.is_empty());
        for end in 0..behind_id.len() {
            let mut cut = &behind_id[..end];
            assert_eq!(skip_items(&mut cut), Err(Error::Truncated));
            assert!(copy_items(&mut &behind_id[..end], &mut Vec::new()).is_err());
        }
        assert_eq!(ItemReader::new(&mut { behind_id }).double(), Err(OTHER_KIND));
        assert!(copy_items(&mut &[9u8, 0][..], &mut Vec::new()).is_err());
    }
}
