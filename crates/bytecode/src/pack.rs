//! `cmsgpack.unpack`.

use crate::arguments::{ARGUMENT, Results};
use crate::machine::{Run, VALUES_MAX};
use crate::stop::Stop;
use crate::table::Key;
use crate::value::{Text, Value};

/// Tables within tables.
const DEPTH_MAX: usize = 32;

/// A text that is being read, and how far.
struct PackReader {
    text: Text,
    at: usize,
}

impl Run<'_> {
    /// Returns all values that a string has.
    pub(crate) fn unpack_message(&mut self, at: usize) -> Results {
        let text = self.text(self.at(at + 1))?;
        let mut reader = PackReader { text, at: 0 };
        let mut count = 0;
        while reader.at < text.len as usize {
            let value = self.read_packed(&mut reader, 0)?;
            if count == VALUES_MAX {
                return Err(ARGUMENT);
            }
            self.reserve(at + count + 1);
            self.put(at + count, value);
            count += 1;
        }
        Ok(count)
    }

    /// Takes an unsigned number of this many bytes.
    fn packed_number(&self, reader: &mut PackReader, len: usize) -> Result<u64, Stop> {
        let bytes = self.texts.bytes(reader.text).get(reader.at..reader.at + len).ok_or(ARGUMENT)?;
        reader.at += len;
        Ok(bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn packed_text(&mut self, reader: &mut PackReader, len: usize) -> Result<Value, Stop> {
        if len > reader.text.len as usize - reader.at {
            return Err(ARGUMENT);
        }
        let text = self.texts.part(reader.text, reader.at, reader.at + len);
        reader.at += len;
        self.check_memory()?;
        Ok(Value::Text(text))
    }

    fn read_packed(&mut self, reader: &mut PackReader, depth: usize) -> Result<Value, Stop> {
        if depth > DEPTH_MAX {
            return Err(ARGUMENT);
        }
        let code = self.packed_number(reader, 1)? as u8;
        let number = match code {
            0x00..=0x7f => f64::from(code),
            0xe0..=0xff => f64::from(code as i8),
            0xa0..=0xbf => return self.packed_text(reader, usize::from(code & 0x1f)),
            0x90..=0x9f => return self.packed_array(reader, usize::from(code & 0xf), depth),
            0x80..=0x8f => return self.packed_map(reader, usize::from(code & 0xf), depth),
            0xc0 => return Ok(Value::Nil),
            0xc2 | 0xc3 => return Ok(Value::Boolean(code == 0xc3)),
            // Beyond 63 bits they wrap.
            0xcc..=0xcf => self.packed_number(reader, 1 << (code - 0xcc))? as i64 as f64,
            0xd0..=0xd3 => {
                let bytes = 1 << (code - 0xd0);
                let unused = 64 - 8 * bytes as u32;
                ((self.packed_number(reader, bytes)? << unused) as i64 >> unused) as f64
            }
            0xca => f64::from(f32::from_bits(self.packed_number(reader, 4)? as u32)),
            0xcb => f64::from_bits(self.packed_number(reader, 8)?),
            0xd9..=0xdb => {
                let len = self.packed_number(reader, 1 << (code - 0xd9))? as usize;
                return self.packed_text(reader, len);
            }
            0xdc | 0xdd => {
                let len = self.packed_number(reader, 2 << (code - 0xdc))? as usize;
                return self.packed_array(reader, len, depth);
            }
            0xde | 0xdf => {
                let len = self.packed_number(reader, 2 << (code - 0xde))? as usize;
                return self.packed_map(reader, len, depth);
            }
            _ => return Err(ARGUMENT),
        };
        Ok(Value::Number(number))
    }

    fn packed_array(&mut self, reader: &mut PackReader, len: usize, depth: usize) -> Result<Value, Stop> {
        // Each element takes a byte at least.
        let table = self.machine.tables.add(len.min(reader.text.len as usize - reader.at), 0)?;
        for index in 0..len {
            let value = self.read_packed(reader, depth + 1)?;
            self.machine.tables.at_mut(table).0.fill(index, value);
        }
        Ok(Value::Table(table))
    }

    fn packed_map(&mut self, reader: &mut PackReader, len: usize, depth: usize) -> Result<Value, Stop> {
        let nodes = len.min(reader.text.len as usize - reader.at);
        let table = Value::Table(self.machine.tables.add(0, nodes)?);
        for _ in 0..len {
            let key = self.read_packed(reader, depth + 1)?;
            let value = self.read_packed(reader, depth + 1)?;
            self.set_field(table, Key::new(key, &self.texts), value)?;
        }
        Ok(table)
    }
}
