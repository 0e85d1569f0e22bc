//! Rows of a part of the documents as bytes, for the pipeline of all parts: `total:u64 partial:u8 width:u32
//! rows:u32`, then the rows. A row is its values in the order of slots, then the number of its fields without
//! slots and these. Numbers are little-endian.
//!
//! The bytes may come from anywhere: lengths are checked, and values are nested as deep as a request can nest
//! them and no deeper.

use super::batch::Batch;
use super::expression::Slot;
use super::request::MAX_STEPS;
use super::value::{PathValue, Value};
use crate::Error;
use std::sync::Arc;

/// The most bytes of the rows of a part.
const BYTES_MAX: usize = 256 << 20;
/// Arrays in arrays: each step of a request may wrap a value once.
const DEPTH_MAX: usize = MAX_STEPS + 1;

const NONE: u8 = 0;
const NULL: u8 = 1;
const NUMBER: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const PATH: u8 = 5;

/// The rows of a batch from `from` on. Of rows whose slots are not all `wanted` the others stay empty.
///
/// # Errors
///
/// They take too many bytes.
pub fn encode(
    batch: &Batch,
    from: usize,
    total: u64,
    is_partial: bool,
    wanted: Option<&[Slot]>,
) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    out.extend_from_slice(&total.to_le_bytes());
    out.push(u8::from(is_partial));
    put_length(&mut out, batch.width());
    put_length(&mut out, batch.len().saturating_sub(from));
    for row in from..batch.len() {
        for slot in 0..batch.width() {
            let value = batch.value(row, slot).filter(|_| wanted.is_none_or(|wanted| wanted.contains(&slot)));
            match value {
                Some(value) => put_value(&mut out, value),
                None => out.push(NONE),
            }
        }
        let extra = if wanted.is_none() { batch.extra(row) } else { &[] };
        put_length(&mut out, extra.len());
        for (name, value) in extra {
            put_bytes(&mut out, name);
            put_value(&mut out, value);
        }
        if out.len() > BYTES_MAX {
            return Err(Error::new("The rows of a node take more bytes than it may send"));
        }
    }
    Ok(out)
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    // All that there may be is far below.
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(NULL),
        Value::Number(number) => {
            out.push(NUMBER);
            out.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        Value::Text(text) => {
            out.push(TEXT);
            put_bytes(out, text);
        }
        Value::Array(values) => {
            out.push(ARRAY);
            put_length(out, values.len());
            values.iter().for_each(|value| put_value(out, value));
        }
        Value::Path(path) => {
            out.push(PATH);
            put_value(out, &path.first);
            put_bytes(out, &path.text);
        }
    }
}

/// The rows of a part, read one after the other.
#[derive(Debug)]
pub struct Reading {
    bytes: Vec<u8>,
    at: usize,
    total: u64,
    is_partial: bool,
    width: usize,
    /// Rows that have not been read.
    left: usize,
}

impl Reading {
    /// The rows of these bytes; `None` if they do not begin as rows do.
    pub fn new(bytes: Vec<u8>) -> Option<Reading> {
        let mut reader = Reader { bytes: &bytes, at: 0 };
        let total = u64::from_le_bytes(reader.array()?);
        let is_partial = reader.byte()? != 0;
        let width = u32::from_le_bytes(reader.array()?) as usize;
        let left = reader.length()?;
        let at = reader.at;
        Some(Reading { bytes, at, total, is_partial, width, left })
    }

    /// The rows that the part has read.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether the part was ended early.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Adds at most `most` rows to a batch. Returns whether there are others; `None` if the bytes are no rows
    /// of the batch's width.
    pub fn fill(&mut self, batch: &mut Batch, most: usize) -> Option<bool> {
        let mut reader = Reader { bytes: &self.bytes, at: self.at };
        if self.width != batch.width() && self.left > 0 {
            return None;
        }
        for _ in 0..most.min(self.left) {
            let row = batch.len();
            for place in batch.push(0) {
                *place = reader.optional(DEPTH_MAX)?;
            }
            for _ in 0..reader.length()? {
                let name = Box::from(reader.text()?);
                batch.push_extra(row, name, reader.optional(DEPTH_MAX)??);
            }
            self.left -= 1;
        }
        self.at = reader.at;
        let is_over = self.left == 0;
        (!is_over || self.at == self.bytes.len()).then_some(!is_over)
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// A length; no more is believed than there are bytes.
    fn length(&mut self) -> Option<usize> {
        let length = u32::from_le_bytes(self.array()?) as usize;
        (length <= self.bytes.len()).then_some(length)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    /// A value, or the sign that there is none.
    #[expect(clippy::option_option, reason = "no value is not a fault")]
    fn optional(&mut self, depth: usize) -> Option<Option<Value>> {
        let depth = depth.checked_sub(1)?;
        Some(Some(match self.byte()? {
            NONE => return Some(None),
            NULL => Value::Null,
            NUMBER => Value::Number(f64::from_bits(u64::from_le_bytes(self.array()?))),
            TEXT => Value::from(self.text()?),
            ARRAY => {
                let length = self.length()?;
                let mut values = Vec::new();
                for _ in 0..length {
                    values.push(self.optional(depth)??);
                }
                values.into()
            }
            PATH => {
                let first = self.optional(depth)??;
                if matches!(first, Value::Path(_)) {
                    return None;
                }
                Value::Path(Arc::new(PathValue { first, text: self.text()?.into() }))
            }
            _ => return None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use martlet_base::random::Random;

    use super::*;

    fn value(random: &mut Random, depth: u64) -> Value {
        match random.below(if depth > 3 { 3 } else { 5 }) {
            0 => Value::Null,
            1 => Value::Number(f64::from_bits(random.next_u64())),
            2 => Value::from(&b"a\0\r\n text"[..random.below(9) as usize]),
            3 => {
                let values: Vec<_> = (0..random.below(4)).map(|_| value(random, depth + 1)).collect();
                values.into()
            }
            _ => {
                let first = match value(random, depth + 1) {
                    Value::Path(path) => path.first.clone(),
                    first => first,
                };
                Value::Path(Arc::new(PathValue { first, text: Box::from(b"[1]".as_slice()) }))
            }
        }
    }

    fn batch(random: &mut Random) -> Batch {
        let width = random.below(4) as usize;
        let mut batch = Batch::new(width);
        for row in 0..random.below(20) as usize {
            for place in batch.push(0) {
                *place = (random.below(3) > 0).then(|| value(random, 0));
            }
            if random.below(4) == 0 {
                batch.push_extra(row, Box::from(b"extra".as_slice()), value(random, 0));
            }
        }
        batch
    }

    fn shown(batch: &Batch) -> String {
        (0..batch.len()).map(|row| format!("{:?} {:?}\n", batch.row(row), batch.extra(row))).collect()
    }

    #[test]
    fn rows_arrive_as_they_were() {
        let seed = Random::from_entropy().next_u64();
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        for _ in 0..300 {
            let sent = batch(&mut random);
            let from = random.below(sent.len() as u64 + 1) as usize;
            let bytes = encode(&sent, from, 7, true, None).unwrap();
            let mut reading = Reading::new(bytes.clone()).unwrap();
            assert_eq!((reading.total(), reading.is_partial()), (7, true));
            let mut got = Batch::new(sent.width());
            let most = 1 + random.below(8) as usize;
            while reading.fill(&mut got, most).unwrap() {}
            let expected =
                shown(&sent).lines().skip(from).map(|line| format!("{line}\n")).collect::<String>();
            assert_eq!(shown(&got), expected, "seed {seed}");
            if sent.width() > 1 {
                let bytes = encode(&sent, 0, 7, true, Some(&[1])).unwrap();
                let mut got = Batch::new(sent.width());
                assert_eq!(Reading::new(bytes).unwrap().fill(&mut got, 100), Some(false));
                let of_slot = |batch: &Batch| -> String {
                    (0..batch.len()).map(|row| format!("{:?}", batch.value(row, 1))).collect()
                };
                assert_eq!(of_slot(&got), of_slot(&sent));
                assert!((0..got.len()).all(|row| got.value(row, 0).is_none() && got.extra(row).is_empty()));
            }
        }
    }

    #[test]
    fn bytes_that_are_no_rows_are_refused() {
        let seed = Random::from_entropy().next_u64();
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let read = |bytes: Vec<u8>, width: usize| {
            let mut got = Batch::new(width);
            let mut reading = Reading::new(bytes)?;
            while reading.fill(&mut got, 5)? {}
            Some(got.len())
        };
        for _ in 0..300 {
            let sent = batch(&mut random);
            let bytes = encode(&sent, 0, 7, false, None).unwrap();
            let end = random.below(bytes.len() as u64) as usize;
            assert_eq!(read(bytes[..end].to_vec(), sent.width()), None, "seed {seed}");
            assert_eq!(read([bytes.as_slice(), b"x"].concat(), sent.width()), None);
            if !sent.is_empty() {
                assert_eq!(read(bytes.clone(), sent.width() + 1), None);
            }
            // Whatever bytes there are, reading ends.
            let mut mutated = bytes;
            let at = random.below(mutated.len() as u64) as usize;
            mutated[at] = random.next_u64() as u8;
            let _ = read(mutated, sent.width());
        }
        let deep = [&[0; 8][..], &[0, 1, 0, 0, 0, 1, 0, 0, 0], &[ARRAY, 1, 0, 0, 0].repeat(100_000)].concat();
        assert_eq!(read(deep, 1), None);
    }
}
