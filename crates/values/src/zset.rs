//! Sorted sets.
//!
//! ```text
//!  3  count | (string | score as text: its length, 1, which is 253 NaN, 254 +inf, 255 -inf) …
//!  5  count | (string | score: 8) …       highest first, as Redis writes them: a reader inserts at the head
//! 12  a ziplist of member, score, … as string
//! 17  a listpack of the same as string
//! ```

use martlet_base::number::{NumberBuffer, format_f64, format_f64_seventeen, format_f64_shortest, parse_f64};
use martlet_rdb::input::{Input, InputExt};
use martlet_rdb::{Error, Sink, Writer, listpack, read_bytes, read_count, skip_bytes, ziplist};
use martlet_rdb::{write_element, write_length};
use martlet_spec::data_type::{self, TypeView};
use martlet_types::element::{Element, IntBuffer};
use martlet_types::zset::{Added, ZSet, ZSetLimits};

use crate::batched_insert::BatchedInsert;
use crate::commands::{Commands, text};
use crate::descriptor::{DataType, Descriptor, Encoded, RdbType};
use crate::digest::Digest;
use crate::export::Export;
use crate::form::{VERSION_LISTPACKS, write_packed};
use crate::packed_pairs;

const TEXT_SCORES: u8 = 3;
const BINARY_SCORES: u8 = 5;
const ZIPLIST: u8 = 12;
const LISTPACK: u8 = 17;

/// The first version with binary scores: Redis 4.0's.
const VERSION_BINARY_SCORES: u16 = 8;

pub(crate) static DESCRIPTOR: Descriptor = Descriptor::of::<ZSet>();

impl DataType for ZSet {
    const RDB_TYPES: &'static [RdbType] = &[
        RdbType { byte: TEXT_SCORES, since: 6 },
        RdbType { byte: BINARY_SCORES, since: VERSION_BINARY_SCORES },
        RdbType { byte: ZIPLIST, since: 6 },
        RdbType { byte: LISTPACK, since: VERSION_LISTPACKS },
    ];
    const KEYSIZES: Option<&'static str> = Some("distrib_zsets_items");
    const VIEW: Option<&'static TypeView> = Some(&data_type::ZSET);

    fn rdb_type(&self, version: u16) -> u8 {
        if version >= VERSION_LISTPACKS && self.encoding() == "listpack" {
            LISTPACK
        } else if version >= VERSION_BINARY_SCORES {
            BINARY_SCORES
        } else {
            TEXT_SCORES
        }
    }

    fn write(&self, out: &mut Writer<'_>, byte: u8, compress: bool) {
        if byte == LISTPACK {
            return write_packed(out, self.packed(), std::iter::empty(), compress);
        }
        write_length(out, self.len() as u64);
        for entry in self.range(0..usize::MAX, true) {
            write_element(out, entry.member, compress);
            match byte {
                TEXT_SCORES => write_text_score(out, entry.score),
                _ => out.put(&entry.score.to_le_bytes()),
            }
        }
    }

    fn read(input: &mut (impl Input + ?Sized), encoded: Encoded<'_>) -> Result<ZSet, Error> {
        let (limits, mut scratch) = (encoded.limits.zset, Vec::new());
        match encoded.byte {
            ZIPLIST => {
                let ziplist = read_bytes(input, &mut scratch)?;
                let elements = ziplist::read(ziplist, "Zset ziplist integrity check failed.")?;
                of_pairs(0, elements.into_iter().map(Ok), limits)
            }
            LISTPACK => {
                let elements = listpack::read(read_bytes(input, &mut scratch)?)?;
                if let Some(packed) = packed_pairs::scores(elements.clone(), limits) {
                    return Ok(ZSet::of_packed(packed));
                }
                of_pairs(elements.element_bytes(), elements, limits)
            }
            byte => of_strings(input, byte, limits),
        }
    }

    fn skip(input: &mut &[u8], byte: u8, _version: u16) -> Result<(), Error> {
        if matches!(byte, ZIPLIST | LISTPACK) {
            return skip_bytes(input);
        }
        for _ in 0..read_count(input)? {
            skip_bytes(input)?;
            let score_bytes = match byte {
                TEXT_SCORES => Some(input.byte()?).filter(|len| *len < NAN).unwrap_or(0),
                _ => 8,
            };
            input.take(usize::from(score_bytes))?;
        }
        Ok(())
    }

    fn commands(&self, key: &[u8], out: &mut Commands<'_>) {
        let pair = |score: f64, member| {
            [format_f64_seventeen(score, &mut NumberBuffer::new()).to_vec(), text(member)]
        };
        out.elements(b"ZADD", key, self.iter().map(|entry| pair(entry.score, entry.member)));
    }

    fn digest(&self, digest: &mut Digest) {
        for entry in self.iter() {
            digest.xor_element(|element| {
                element.mix_element(entry.member);
                element.mix(format_f64_shortest(entry.score, &mut NumberBuffer::new()));
            });
        }
    }

    fn export(&self, out: &mut Export<'_>) {
        out.array(|out| {
            for entry in self.iter() {
                out.array(|out| {
                    out.element(entry.member);
                    out.float(entry.score);
                });
            }
        });
    }
}

/// In place of a text's length.
const NAN: u8 = 253;
const INFINITY: u8 = 254;
const NEG_INFINITY: u8 = 255;

const NOT_A_NUMBER: Error = Error::Corrupt("score that is not a number");
const DUPLICATE_ENTRY: Error = Error::Corrupt("duplicate sorted set member");

/// A score before version 8.
fn write_text_score(out: &mut Writer<'_>, score: f64) {
    if score.is_infinite() {
        return out.put(&[if score > 0.0 { INFINITY } else { NEG_INFINITY }]);
    }
    let mut buffer = NumberBuffer::new();
    let text = format_f64(score, &mut buffer);
    // No number takes more than some twenty digits.
    out.put(&[text.len() as u8]);
    out.put(text);
}

fn add_entry(zset: &mut ZSet, member: &[u8], score: f64, limits: ZSetLimits) -> Result<(), Error> {
    if score.is_nan() {
        return Err(NOT_A_NUMBER);
    }
    match zset.insert(member, score, limits) {
        Added::Added => Ok(()),
        _ => Err(DUPLICATE_ENTRY),
    }
}

fn of_strings(input: &mut (impl Input + ?Sized), byte: u8, limits: ZSetLimits) -> Result<ZSet, Error> {
    let count = read_count(input)?;
    let mut scratch = Vec::new();
    let mut zset = ZSet::with_hint(count, 0, limits);
    let mut entries = BatchedInsert::new(count);
    for left in (0..count).rev() {
        let end = entries.text(read_bytes(input, &mut scratch)?);
        let score = match byte {
            BINARY_SCORES => f64::from_le_bytes(input.array()?),
            _ => read_text_score(input)?,
        };
        entries.push(end, end, score);
        if left == 0 || entries.is_full() {
            entries.add(&mut zset, ZSet::queue_probe, |zset, member, _, score| {
                add_entry(zset, member, score, limits)
            })?;
        }
    }
    if zset.is_empty() { Err(Error::Empty("sorted set")) } else { Ok(zset) }
}

/// One byte of length, of which the highest three mean no text, and the text.
fn read_text_score(input: &mut (impl Input + ?Sized)) -> Result<f64, Error> {
    match input.byte()? {
        NEG_INFINITY => Ok(f64::NEG_INFINITY),
        INFINITY => Ok(f64::INFINITY),
        NAN => Ok(f64::NAN),
        len => parse_f64(input.take(usize::from(len))?).ok_or(NOT_A_NUMBER),
    }
}

/// A sorted set of members and scores, one after another, of about `bytes` bytes. Redis writes them in order,
/// but need not have.
fn of_pairs<'a>(
    bytes: usize,
    mut elements: impl Iterator<Item = Result<Element<'a>, Error>>,
    limits: ZSetLimits,
) -> Result<ZSet, Error> {
    let mut zset = ZSet::with_capacity(bytes);
    let mut last: Option<(f64, Element<'a>)> = None;
    let mut buffer = IntBuffer::new();
    while let Some(member) = elements.next() {
        let member = member?;
        let score = elements.next().ok_or(Error::Corrupt("sorted set member without score"))??;
        let score = match score {
            Element::Int(int) => int as f64,
            Element::Bytes(text) => parse_f64(text).unwrap_or(f64::NAN),
        };
        let ascends = last.is_none_or(|(before, above)| before < score || before == score && above < member);
        last = Some((score, member));
        let member = member.as_bytes(&mut buffer);
        if score.is_nan() {
            return Err(NOT_A_NUMBER);
        }
        if !zset.push(member, score, ascends, limits) {
            return Err(DUPLICATE_ENTRY);
        }
    }
    if zset.is_empty() { Err(Error::Empty("sorted set")) } else { Ok(zset) }
}
