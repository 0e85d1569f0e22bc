//! DUMP payloads of module values: fields to bytes and back.

use martlet_rdb::crc64::crc64;
use martlet_tseries::saved::{Field, TYPE_NAME};

const MODULE: u8 = 7;
const RDB_VERSION: u16 = 10;
const CHARACTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn module_id(version: u64) -> u64 {
    let place =
        |byte: u8| CHARACTERS.iter().position(|other| *other == byte).expect("a character of names") as u64;
    TYPE_NAME.bytes().fold(0, |id, byte| id << 6 | place(byte)) << 10 | version
}

fn push_length(bytes: &mut Vec<u8>, length: u64) {
    match length {
        0..64 => bytes.push(length as u8),
        64..16_384 => bytes.extend((length as u16 | 0x4000).to_be_bytes()),
        16_384..=0xffff_ffff => {
            bytes.push(0x80);
            bytes.extend((length as u32).to_be_bytes());
        }
        _ => {
            bytes.push(0x81);
            bytes.extend(length.to_be_bytes());
        }
    }
}

/// The payload of fields in an encoding version.
pub fn write(fields: &[Field], version: u64) -> Vec<u8> {
    let mut bytes = vec![MODULE];
    push_length(&mut bytes, module_id(version));
    for field in fields {
        match field {
            Field::Signed(number) => {
                push_length(&mut bytes, 1);
                push_length(&mut bytes, *number as u64);
            }
            Field::Unsigned(number) => {
                push_length(&mut bytes, 2);
                push_length(&mut bytes, *number);
            }
            Field::Double(number) => {
                push_length(&mut bytes, 4);
                bytes.extend(number.to_le_bytes());
            }
            Field::String(text) => {
                push_length(&mut bytes, 5);
                push_length(&mut bytes, text.len() as u64);
                bytes.extend(text);
            }
        }
    }
    push_length(&mut bytes, 0);
    bytes.extend(RDB_VERSION.to_le_bytes());
    let sum = crc64(0, &bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take(&mut self, count: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken.to_vec()
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    /// A length, or the number of a special encoding.
    fn length(&mut self) -> Result<u64, u8> {
        let first = self.byte();
        Ok(match first >> 6 {
            0 => u64::from(first),
            1 => u64::from(first & 63) << 8 | u64::from(self.byte()),
            2 if first == 0x80 => u64::from(u32::from_be_bytes(self.take(4).try_into().expect("4 bytes"))),
            2 => u64::from_be_bytes(self.take(8).try_into().expect("8 bytes")),
            _ => return Err(first & 63),
        })
    }

    fn string(&mut self) -> Vec<u8> {
        match self.length() {
            Ok(length) => self.take(length as usize),
            Err(0) => i64::from(self.byte() as i8).to_string().into_bytes(),
            Err(1) => i16::from_le_bytes(self.take(2).try_into().expect("2 bytes")).to_string().into_bytes(),
            Err(2) => i32::from_le_bytes(self.take(4).try_into().expect("4 bytes")).to_string().into_bytes(),
            Err(_) => {
                let (packed, length) = (self.length().expect("a length"), self.length().expect("a length"));
                let packed = self.take(packed as usize);
                inflate(&packed, length as usize)
            }
        }
    }
}

/// LZF.
fn inflate(packed: &[u8], length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(length);
    let mut input = Input(packed);
    while !input.0.is_empty() {
        let control = usize::from(input.byte());
        if control < 32 {
            out.extend(input.take(control + 1));
            continue;
        }
        let mut count = control >> 5;
        if count == 7 {
            count += usize::from(input.byte());
        }
        let back = (control & 31) << 8 | usize::from(input.byte());
        for _ in 0..count + 2 {
            out.push(out[out.len() - back - 1]);
        }
    }
    assert_eq!(out.len(), length);
    out
}

/// The fields of a payload, and its encoding version.
pub fn read(payload: &[u8]) -> (Vec<Field>, u64) {
    let mut input = Input(&payload[..payload.len() - 10]);
    assert_eq!(input.byte(), MODULE);
    let id = input.length().expect("an id");
    assert_eq!(id >> 10, module_id(0) >> 10);
    let mut fields = Vec::new();
    loop {
        fields.push(match input.length().expect("a kind") {
            0 => break,
            1 => Field::Signed(input.length().expect("a number") as i64),
            2 => Field::Unsigned(input.length().expect("a number")),
            4 => Field::Double(f64::from_le_bytes(input.take(8).try_into().expect("8 bytes"))),
            5 => Field::String(input.string()),
            kind => panic!("no field is of kind {kind}"),
        });
    }
    assert!(input.0.is_empty());
    (fields, id & 1023)
}
