//! `cjson.encode` and `cjson.decode`, with the settings that scripts begin with.

use crate::arguments::{ARGUMENT, Results};
use crate::machine::Run;
use crate::number;
use crate::stop::Stop;
use crate::table::Key;
use crate::value::{Text, Value};

/// Tables within tables.
const DEPTH_MAX: usize = 64;

impl Run<'_> {
    pub(crate) fn encode(&mut self, at: usize, argc: usize) -> Results {
        if argc != 1 || !self.has_plain_json {
            return Err(ARGUMENT);
        }
        let start = self.texts.arena.len();
        self.write_json(self.at(at + 1), 0)?;
        let text = self.texts.since(start);
        self.answer(at, Value::Text(text))
    }

    fn write_json(&mut self, value: Value, depth: usize) -> Result<(), Stop> {
        match value {
            Value::Nil | Value::Null => self.texts.arena.extend_from_slice(b"null"),
            Value::Boolean(true) => self.texts.arena.extend_from_slice(b"true"),
            Value::Boolean(false) => self.texts.arena.extend_from_slice(b"false"),
            Value::Number(number) if number.is_finite() => {
                number::push_text(&mut self.texts.arena, number)?;
            }
            Value::Text(text) => self.write_json_text(text),
            Value::Table(table) if depth < DEPTH_MAX => match self.json_array(table)? {
                0 => self.write_json_object(table, depth)?,
                len => self.write_json_array(table, len, depth)?,
            },
            _ => return Err(ARGUMENT),
        }
        self.check_memory()
    }

    fn write_json_array(&mut self, table: u32, len: i32, depth: usize) -> Result<(), Stop> {
        for index in 1..=len {
            self.texts.arena.push(if index == 1 { b'[' } else { b',' });
            let value = self.machine.tables.at(table).get_index(index, &self.texts)?;
            self.write_json(value, depth + 1)?;
        }
        self.texts.arena.push(b']');
        Ok(())
    }

    fn write_json_object(&mut self, table: u32, depth: usize) -> Result<(), Stop> {
        self.texts.arena.push(b'{');
        let mut key = Value::Nil;
        loop {
            let is_first = key.is_nil();
            let next = self.machine.tables.at(table).next(Key::new(key, &self.texts), &self.texts)?;
            let Some((name, value)) = next else { break };
            if !is_first {
                self.texts.arena.push(b',');
            }
            match name {
                Value::Text(text) => self.write_json_text(text),
                Value::Number(number) if number.is_finite() => {
                    self.texts.arena.push(b'"');
                    number::push_text(&mut self.texts.arena, number)?;
                    self.texts.arena.push(b'"');
                }
                _ => return Err(ARGUMENT),
            }
            self.texts.arena.push(b':');
            self.write_json(value, depth + 1)?;
            key = name;
        }
        self.texts.arena.push(b'}');
        Ok(())
    }

    /// The highest index of a table that is an array; 0 for another, or an empty one.
    fn json_array(&self, table: u32) -> Result<i32, Stop> {
        /// Up to this index an array may have any number of holes, beyond it as many as it has elements.
        const SPARSE_SAFE: f64 = 10.0;
        let table = self.machine.tables.at(table);
        let (mut highest, mut items, mut key) = (0f64, 0f64, Value::Nil);
        while let Some((name, _)) = table.next(Key::new(key, &self.texts), &self.texts)? {
            let Value::Number(index) = name else { return Ok(0) };
            if index.floor() != index || index < 1.0 {
                return Ok(0);
            }
            highest = highest.max(index);
            items += 1.0;
            key = name;
        }
        if highest > items * 2.0 && highest > SPARSE_SAFE {
            return Err(ARGUMENT);
        }
        Ok(highest as i32)
    }

    fn write_json_text(&mut self, text: Text) {
        self.texts.arena.push(b'"');
        let mut from = 0;
        for at in 0..text.len as usize {
            let byte = self.texts.bytes(text)[at];
            let escape: &[u8] = match byte {
                b'"' => b"\\\"",
                b'\\' => b"\\\\",
                b'/' => b"\\/",
                0x08 => b"\\b",
                b'\t' => b"\\t",
                b'\n' => b"\\n",
                0x0c => b"\\f",
                b'\r' => b"\\r",
                0..0x20 | 0x7f => b"",
                _ => continue,
            };
            self.texts.append_part(text, from, at);
            match escape {
                b"" => self.texts.arena.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                escape => self.texts.arena.extend_from_slice(escape),
            }
            from = at + 1;
        }
        self.texts.append_part(text, from, text.len as usize);
        self.texts.arena.push(b'"');
    }

    pub(crate) fn decode(&mut self, at: usize, argc: usize) -> Results {
        if argc != 1 || !self.has_plain_json {
            return Err(ARGUMENT);
        }
        let text = self.text(self.at(at + 1))?;
        let document = self.texts.bytes(text).to_vec();
        // Lua has its own opinion of zeros.
        if document.contains(&0) {
            return Err(ARGUMENT);
        }
        let mut reader = JsonReader { text: &document, at: 0 };
        let value = self.read_json(&mut reader, 0)?;
        reader.skip_blanks();
        if reader.at < document.len() {
            return Err(ARGUMENT);
        }
        self.answer(at, value)
    }

    fn read_json(&mut self, reader: &mut JsonReader<'_>, depth: usize) -> Result<Value, Stop> {
        if depth > DEPTH_MAX {
            return Err(ARGUMENT);
        }
        self.check_memory()?;
        reader.skip_blanks();
        match reader.text.get(reader.at).copied() {
            Some(b'{') => self.read_json_object(reader, depth),
            Some(b'[') => self.read_json_array(reader, depth),
            Some(b'"') => self.read_json_text(reader).map(Value::Text),
            Some(b'-' | b'0'..=b'9') => reader.number().map(Value::Number).ok_or(ARGUMENT),
            Some(b't') if reader.takes(b"true") => Ok(Value::Boolean(true)),
            Some(b'f') if reader.takes(b"false") => Ok(Value::Boolean(false)),
            Some(b'n') if reader.takes(b"null") => Ok(Value::Null),
            _ => Err(ARGUMENT),
        }
    }

    fn read_json_array(&mut self, reader: &mut JsonReader<'_>, depth: usize) -> Result<Value, Stop> {
        let table = Value::Table(self.machine.tables.add(0, 0)?);
        reader.at += 1;
        if reader.takes_byte(b']') {
            return Ok(table);
        }
        for index in 1.. {
            let value = self.read_json(reader, depth + 1)?;
            self.set_field(table, Key { value: Value::Number(f64::from(index)), hash: 0 }, value)?;
            if reader.takes_byte(b']') {
                break;
            }
            if !reader.takes_byte(b',') {
                return Err(ARGUMENT);
            }
        }
        Ok(table)
    }

    fn read_json_object(&mut self, reader: &mut JsonReader<'_>, depth: usize) -> Result<Value, Stop> {
        let table = Value::Table(self.machine.tables.add(0, 0)?);
        reader.at += 1;
        if reader.takes_byte(b'}') {
            return Ok(table);
        }
        loop {
            reader.skip_blanks();
            let name = Value::Text(self.read_json_text(reader)?);
            if !reader.takes_byte(b':') {
                return Err(ARGUMENT);
            }
            let value = self.read_json(reader, depth + 1)?;
            self.set_field(table, Key::new(name, &self.texts), value)?;
            if reader.takes_byte(b'}') {
                return Ok(table);
            }
            if !reader.takes_byte(b',') {
                return Err(ARGUMENT);
            }
        }
    }

    fn read_json_text(&mut self, reader: &mut JsonReader<'_>) -> Result<Text, Stop> {
        if reader.text.get(reader.at) != Some(&b'"') {
            return Err(ARGUMENT);
        }
        reader.at += 1;
        let start = self.texts.arena.len();
        loop {
            let rest = &reader.text[reader.at..];
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).ok_or(ARGUMENT)?;
            self.texts.arena.extend_from_slice(&rest[..plain]);
            reader.at += plain + 1;
            if rest[plain] == b'"' {
                return Ok(self.texts.since(start));
            }
            let escaped = *rest.get(plain + 1).ok_or(ARGUMENT)?;
            reader.at += 1;
            let byte = match escaped {
                b'"' | b'\\' | b'/' => escaped,
                b'b' => 0x08,
                b't' => b'\t',
                b'n' => b'\n',
                b'f' => 0x0c,
                b'r' => b'\r',
                b'u' => {
                    let character = reader.unicode().ok_or(ARGUMENT)?;
                    let mut buffer = [0; 4];
                    self.texts.arena.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
                    continue;
                }
                _ => return Err(ARGUMENT),
            };
            self.texts.arena.push(byte);
        }
    }
}

/// A document, as far as it has been read.
struct JsonReader<'t> {
    text: &'t [u8],
    at: usize,
}

impl JsonReader<'_> {
    fn skip_blanks(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn takes(&mut self, word: &[u8]) -> bool {
        let takes = self.text[self.at..].starts_with(word);
        self.at += if takes { word.len() } else { 0 };
        takes
    }

    /// Whether this byte is next, behind blanks; it is taken then.
    fn takes_byte(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let takes = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(takes);
        takes
    }

    /// Four hexadecimal digits.
    fn hexadecimal(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        digits.iter().try_fold(0, |sum, &digit| Some(sum << 4 | char::from(digit).to_digit(16)?))
    }

    /// The character of an escape, behind its `u`.
    fn unicode(&mut self) -> Option<char> {
        let first = self.hexadecimal()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first);
        }
        if !self.takes(b"\\u") {
            return None;
        }
        let low = self.hexadecimal()?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
        char::from_u32(((first & 0x3ff) << 10 | low) + 0x10000)
    }

    /// A decimal number as JSON has it.
    fn number(&mut self) -> Option<f64> {
        let is_part = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
        let rest = &self.text[self.at..];
        let text = &rest[..rest.iter().take_while(is_part).count()];
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        let is_plain = match digits {
            [b'0', next, ..] => !next.is_ascii_digit() && !matches!(rest.get(2), Some(b'x' | b'X')),
            [b'0'] => !matches!(rest.get(text.len()), Some(b'x' | b'X')),
            [b'1'..=b'9', ..] => true,
            _ => false,
        };
        let number = std::str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok()?;
        self.at += text.len();
        Some(number)
    }
}
