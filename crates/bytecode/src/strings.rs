//! `string.*`, as far as no pattern is involved; Lua's own functions do the rest.

use crate::arguments::{ARGUMENT, Results};
use crate::library::{Builtin, LuaFunction};
use crate::machine::Run;
use crate::number;
use crate::stop::{Reason, Stop};
use crate::value::Value;

/// Comparisons of bytes that one search may take.
const FIND_STEPS_MAX: usize = 1 << 20;
/// Bytes of a string that `string.rep` makes here.
const REPEATED_MAX_BYTES: usize = 1 << 20;
/// Characters that mean something in a pattern.
const SPECIALS: &[u8] = b"^$*+?.([%-";

/// A place in a string of `len` bytes, from its end if negative.
fn position(place: i64, len: i64) -> i64 {
    let place = if place < 0 { place.saturating_add(len + 1) } else { place };
    place.max(0)
}

impl Run<'_> {
    pub(crate) fn string_function(&mut self, function: Builtin, at: usize, argc: usize) -> Results {
        match function {
            Builtin::Sub => self.sub(at, argc),
            Builtin::Len => {
                let text = self.text(self.at(at + 1))?;
                self.answer(at, Value::Number(f64::from(text.len)))
            }
            Builtin::Lower => self.mapped(at, |bytes| bytes.make_ascii_lowercase()),
            Builtin::Upper => self.mapped(at, |bytes| bytes.make_ascii_uppercase()),
            Builtin::Reverse => self.mapped(at, |bytes| bytes.reverse()),
            Builtin::Rep => self.repeat(at, argc),
            Builtin::Byte => self.bytes(at, argc),
            Builtin::Char => self.characters(at, argc),
            Builtin::Find => self.find(at, argc),
            Builtin::Format => self.format(at, argc),
            _ => Err(ARGUMENT),
        }
    }

    fn sub(&mut self, at: usize, argc: usize) -> Results {
        let text = self.text(self.at(at + 1))?;
        let len = i64::from(text.len);
        if argc < 2 {
            return Err(ARGUMENT);
        }
        let start = position(number::to_integer(self.number(self.at(at + 2))?), len).max(1);
        let end = position(self.integer_or(at, argc, 3, -1)?, len).min(len);
        let part = match start <= end {
            true => self.texts.part(text, start as usize - 1, end as usize),
            false => self.texts.push(b""),
        };
        self.answer(at, Value::Text(part))
    }

    fn mapped(&mut self, at: usize, map: impl FnOnce(&mut [u8])) -> Results {
        let text = self.text(self.at(at + 1))?;
        let start = self.texts.arena.len();
        self.texts.append(text);
        map(&mut self.texts.arena[start..]);
        self.check_memory()?;
        let text = self.texts.since(start);
        self.answer(at, Value::Text(text))
    }

    fn repeat(&mut self, at: usize, argc: usize) -> Results {
        let text = self.text(self.at(at + 1))?;
        if self.argument(at, argc, 2).is_nil() {
            return Err(ARGUMENT);
        }
        let count = usize::try_from(self.int_or(at, argc, 2, 0)?).unwrap_or(0);
        if count.saturating_mul(text.len as usize) > REPEATED_MAX_BYTES {
            return Err(Stop::Leave(Reason::Memory));
        }
        let start = self.texts.arena.len();
        if text.len > 0 {
            (0..count).for_each(|_| self.texts.append(text));
        }
        self.check_memory()?;
        let text = self.texts.since(start);
        self.answer(at, Value::Text(text))
    }

    fn bytes(&mut self, at: usize, argc: usize) -> Results {
        let text = self.text(self.at(at + 1))?;
        let len = i64::from(text.len);
        let start = position(self.integer_or(at, argc, 2, 1)?, len);
        let end = position(self.integer_or(at, argc, 3, start)?, len).min(len);
        let start = start.max(1);
        if start > end {
            return Ok(0);
        }
        let count = (end - start + 1) as usize;
        if count > crate::machine::VALUES_MAX {
            return Err(Stop::Leave(Reason::Memory));
        }
        self.reserve(at + count);
        for place in 0..count {
            let byte = self.texts.bytes(text)[start as usize - 1 + place];
            self.put(at + place, Value::Number(f64::from(byte)));
        }
        Ok(count)
    }

    fn characters(&mut self, at: usize, argc: usize) -> Results {
        let start = self.texts.arena.len();
        for place in at + 1..=at + argc {
            let code = number::to_integer(self.number(self.at(place))?) as i32;
            self.texts.arena.push(u8::try_from(code).map_err(|_| ARGUMENT)?);
        }
        let text = self.texts.since(start);
        self.answer(at, Value::Text(text))
    }

    /// Finds a plain text. A search that may take long is Lua's, which can be ended.
    fn find(&mut self, at: usize, argc: usize) -> Results {
        const FIND: LuaFunction = LuaFunction { table: "string", name: "find" };
        let text = self.text(self.at(at + 1))?;
        let wanted = self.text(self.argument(at, argc, 2))?;
        let len = i64::from(text.len);
        let start = (position(self.integer_or(at, argc, 3, 1)?, len) - 1).clamp(0, len) as usize;
        let is_plain = self.argument(at, argc, 4).is_true();
        let wanted = self.texts.bytes(wanted);
        // A pattern of C's ends at its first zero.
        if !is_plain && wanted.iter().any(|byte| *byte == 0 || SPECIALS.contains(byte)) {
            return self.lua_function(FIND, at, argc);
        }
        let rest = &self.texts.bytes(text)[start..];
        if rest.len().saturating_mul(wanted.len()) > FIND_STEPS_MAX {
            return self.lua_function(FIND, at, argc);
        }
        let found = match wanted {
            [] => Some(0),
            [first, ..] => {
                let last = (rest.len() + 1).saturating_sub(wanted.len());
                (0..last).find(|place| rest[*place] == *first && rest[*place..].starts_with(wanted))
            }
        };
        let Some(found) = found else { return self.answer(at, Value::Nil) };
        let begin = start + found + 1;
        let end = begin + wanted.len() - 1;
        self.put(at, Value::Number(begin as f64));
        self.put(at + 1, Value::Number(end as f64));
        Ok(2)
    }

    /// `string.format`, of plain `%s`, `%d` and `%%`.
    fn format(&mut self, at: usize, argc: usize) -> Results {
        const FORMAT: LuaFunction = LuaFunction { table: "string", name: "format" };
        let format = self.text(self.at(at + 1))?;
        let start = self.texts.arena.len();
        let (mut place, mut argument) = (0, 1);
        while let Some(&byte) = self.texts.bytes(format).get(place) {
            let kind = self.texts.bytes(format).get(place + 1).copied();
            if byte != b'%' {
                self.texts.arena.push(byte);
                place += 1;
                continue;
            }
            place += 2;
            if kind == Some(b'%') {
                self.texts.arena.push(b'%');
                continue;
            }
            argument += 1;
            if argument > argc || !self.format_plainly(kind, self.at(at + argument))? {
                return self.lua_function(FORMAT, at, argc);
            }
        }
        self.check_memory()?;
        let text = self.texts.since(start);
        self.answer(at, Value::Text(text))
    }

    /// Appends an argument of `string.format`; false if it is not that plain.
    fn format_plainly(&mut self, kind: Option<u8>, value: Value) -> Result<bool, Stop> {
        match kind {
            Some(b's') => match value {
                Value::Text(text) if self.texts.bytes(text).contains(&0) => return Ok(false),
                value => self.append(value)?,
            },
            Some(b'd') => {
                let integer = number::to_integer(self.number(value)?) as f64;
                if integer.abs() >= 1e14 {
                    return Ok(false);
                }
                // Without the sign of a zero.
                number::push_text(&mut self.texts.arena, integer + 0.0)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}
