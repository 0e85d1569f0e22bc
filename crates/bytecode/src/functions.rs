//! Lua's own functions: those without a library, of tables, of numbers and of bits.

use crate::arguments::{ARGUMENT, Results};
use crate::library::{Builtin, LuaFunction};
use crate::machine::{Run, VALUES_MAX};
use crate::number;
use crate::server::Scalar;
use crate::stop::{Reason, Stop};
use crate::table::Key;
use crate::value::Value;

/// Elements that an insertion or a removal moves here. Lua's own, which can be ended, moves more.
const MOVED_MAX: i32 = 1 << 16;

impl Run<'_> {
    pub fn number_of(&mut self, at: usize, argc: usize) -> Results {
        if self.int_or(at, argc, 2, 10)? != 10 {
            return Err(ARGUMENT);
        }
        let value = match self.at(at + 1) {
            value @ Value::Number(_) => value,
            Value::Text(text) => number::parse(self.texts.bytes(text))?.map_or(Value::Nil, Value::Number),
            _ => Value::Nil,
        };
        self.answer(at, value)
    }

    pub fn text_of(&mut self, at: usize) -> Results {
        let value = match self.at(at + 1) {
            value @ Value::Text(_) => value,
            value @ Value::Number(_) => Value::Text(self.text(value)?),
            Value::Boolean(true) => Value::Text(self.texts.push(b"true")),
            Value::Boolean(false) => Value::Text(self.texts.push(b"false")),
            Value::Nil => Value::Text(self.texts.push(b"nil")),
            // An address.
            _ => return Err(ARGUMENT),
        };
        self.answer(at, value)
    }

    pub fn select(&mut self, at: usize, argc: usize) -> Results {
        if let Value::Text(text) = self.at(at + 1)
            && self.texts.bytes(text).first() == Some(&b'#')
        {
            return self.answer(at, Value::Number((argc - 1) as f64));
        }
        let index = i64::from(self.int_or(at, argc, 1, 0)?);
        let first = if index < 0 { argc as i64 + index } else { index.min(argc as i64) };
        if first < 1 {
            return Err(ARGUMENT);
        }
        self.give_arguments(at, first as usize + 1, argc)
    }

    // ---- walks ----

    pub fn pairs(&mut self, function: Builtin, at: usize) -> Results {
        let table = self.at(at + 1);
        if !matches!(table, Value::Table(_)) {
            return Err(ARGUMENT);
        }
        let (next, first) = match function {
            Builtin::Ipairs => (Builtin::IpairsNext, Value::Number(0.0)),
            _ => (Builtin::Next, Value::Nil),
        };
        self.put(at, Value::Function(next));
        self.put(at + 1, table);
        self.put(at + 2, first);
        Ok(3)
    }

    pub fn ipairs_next(&mut self, at: usize, argc: usize) -> Results {
        let index = self.int_or(at, argc, 2, 0)?.wrapping_add(1);
        let value = self.table(self.at(at + 1))?.get_index(index, &self.texts)?;
        if value.is_nil() {
            return Ok(0);
        }
        self.put(at, Value::Number(f64::from(index)));
        self.put(at + 1, value);
        Ok(2)
    }

    pub fn next(&mut self, at: usize, argc: usize) -> Results {
        let key = Key::new(self.argument(at, argc, 2), &self.texts);
        let next = self.table(self.at(at + 1))?.next(key, &self.texts)?;
        let Some((key, value)) = next else { return self.answer(at, Value::Nil) };
        self.put(at, key);
        self.put(at + 1, value);
        Ok(2)
    }

    pub fn raw(&mut self, function: Builtin, at: usize, argc: usize) -> Results {
        let (one, other) = (self.at(at + 1), self.argument(at, argc, 2));
        match (function, argc) {
            (Builtin::RawEqual, 2) => {
                let is = self.texts.are_same(one, other);
                self.answer(at, Value::Boolean(is))
            }
            (Builtin::RawGet, 2) => {
                let value = self.table(one)?.get(Key::new(other, &self.texts), &self.texts)?;
                self.answer(at, value)
            }
            (Builtin::RawSet, 3) => {
                let value = self.at(at + 3);
                self.set_field(one, Key::new(other, &self.texts), value)?;
                self.answer(at, one)
            }
            _ => Err(ARGUMENT),
        }
    }

    pub fn unpack(&mut self, at: usize, argc: usize) -> Results {
        let table = self.at(at + 1);
        let len = self.table(table)?.len(&self.texts)?;
        let first = self.int_or(at, argc, 2, 1)?;
        let last = self.int_or(at, argc, 3, len as i32)?;
        let count = i64::from(last) - i64::from(first) + 1;
        if count <= 0 {
            return Ok(0);
        }
        if count as usize > VALUES_MAX {
            return Err(Stop::Leave(Reason::Memory));
        }
        self.reserve(at + count as usize);
        for (place, index) in (at..).zip(first..=last) {
            let value = self.table(table)?.get_index(index, &self.texts)?;
            self.put(place, value);
        }
        Ok(count as usize)
    }

    // ---- tables ----

    fn set_index(&mut self, table: Value, index: i32, value: Value) -> Result<(), Stop> {
        self.set_field(table, Key { value: Value::Number(f64::from(index)), hash: 0 }, value)
    }

    pub fn insert(&mut self, at: usize, argc: usize) -> Results {
        let table = self.at(at + 1);
        let end = self.table(table)?.len(&self.texts)? as i32 + 1;
        let position = match argc {
            2 => end,
            3 => {
                let position = self.int_or(at, argc, 2, 0)?;
                let is_within = (1..=end).contains(&position) && end - position <= MOVED_MAX;
                if matches!(self.at(at + 2), Value::Nil) || !is_within {
                    return Err(ARGUMENT);
                }
                for index in (position..end).rev() {
                    let moved = self.table(table)?.get_index(index, &self.texts)?;
                    self.set_index(table, index + 1, moved)?;
                }
                position
            }
            _ => return Err(ARGUMENT),
        };
        self.set_index(table, position, self.at(at + argc))?;
        Ok(0)
    }

    pub fn remove(&mut self, at: usize, argc: usize) -> Results {
        let table = self.at(at + 1);
        let end = self.table(table)?.len(&self.texts)? as i32;
        let position = self.int_or(at, argc, 2, end)?;
        if end.saturating_sub(position) > MOVED_MAX {
            return Err(ARGUMENT);
        }
        if !(1..=end).contains(&position) {
            return Ok(0);
        }
        let removed = self.table(table)?.get_index(position, &self.texts)?;
        for index in position..end {
            let moved = self.table(table)?.get_index(index + 1, &self.texts)?;
            self.set_index(table, index, moved)?;
        }
        self.set_index(table, end, Value::Nil)?;
        self.answer(at, removed)
    }

    pub fn concat_table(&mut self, at: usize, argc: usize) -> Results {
        let table = self.at(at + 1);
        let len = self.table(table)?.len(&self.texts)?;
        let separator = match self.argument(at, argc, 2) {
            Value::Nil => self.texts.push(b""),
            value => self.text(value)?,
        };
        let first = self.int_or(at, argc, 3, 1)?;
        let last = self.int_or(at, argc, 4, len as i32)?;
        let start = self.texts.arena.len();
        for index in first..=last {
            let value = self.table(table)?.get_index(index, &self.texts)?;
            self.append(value)?;
            if index < last {
                self.texts.append(separator);
            }
            self.check_memory()?;
        }
        let text = self.texts.since(start);
        self.answer(at, Value::Text(text))
    }

    pub fn table_size(&mut self, function: Builtin, at: usize) -> Results {
        let table = self.table(self.at(at + 1))?;
        if function == Builtin::MaxN && !table.has_no_nodes() {
            return Err(ARGUMENT);
        }
        let size = match function {
            Builtin::GetN => table.len(&self.texts)?,
            _ => table.array().iter().rposition(|value| !value.is_nil()).map_or(0, |last| last + 1),
        };
        self.answer(at, Value::Number(size as f64))
    }

    // ---- numbers ----

    pub fn math(&mut self, function: Builtin, at: usize, argc: usize) -> Results {
        let first = self.number(self.at(at + 1))?;
        let second = || if argc < 2 { Err(ARGUMENT) } else { self.number(self.at(at + 2)) };
        let number = match function {
            Builtin::Abs => first.abs(),
            Builtin::Ceil => first.ceil(),
            Builtin::Floor => first.floor(),
            Builtin::Sqrt => first.sqrt(),
            Builtin::Fmod => first % second()?,
            Builtin::Pow => first.powf(second()?),
            Builtin::Modf if first.is_finite() => {
                let whole = first.trunc();
                self.put(at, Value::Number(whole));
                self.put(at + 1, Value::Number((first - whole).copysign(first)));
                return Ok(2);
            }
            Builtin::Max | Builtin::Min => {
                let mut best = first;
                for argument in 2..=argc {
                    let number = self.number(self.at(at + argument))?;
                    let is_better = if function == Builtin::Max { number > best } else { number < best };
                    best = if is_better { number } else { best };
                }
                best
            }
            _ => return Err(ARGUMENT),
        };
        self.answer(at, Value::Number(number))
    }

    /// An argument's low 32 bits: rounded to an integer, and wrapped.
    fn word(&self, at: usize, argc: usize, index: usize) -> Result<u32, Stop> {
        /// Added to a double below 2^51, it leaves the integer in the mantissa's low bits.
        const SHIFT: f64 = (1u64 << 52) as f64 + (1u64 << 51) as f64;
        Ok((self.number(self.argument(at, argc, index))? + SHIFT).to_bits() as u32)
    }

    pub fn bits(&mut self, function: Builtin, at: usize, argc: usize) -> Results {
        let first = self.word(at, argc, 1)?;
        let shift = || self.word(at, argc, 2).map(|by| by & 31);
        let word = match function {
            Builtin::BitNot => !first,
            Builtin::ToBit => first,
            Builtin::ShiftLeft => first << shift()?,
            Builtin::ShiftRight => first >> shift()?,
            Builtin::ShiftArithmetic => (first as i32 >> shift()?) as u32,
            _ => {
                let mut all = first;
                for index in 2..=argc {
                    let word = self.word(at, argc, index)?;
                    all = match function {
                        Builtin::BitAnd => all & word,
                        Builtin::BitOr => all | word,
                        _ => all ^ word,
                    };
                }
                all
            }
        };
        self.answer(at, Value::Number(f64::from(word as i32)))
    }

    // ---- Lua's state ----

    /// Has a function of Lua's run on texts, numbers and booleans.
    pub fn lua_function(&mut self, function: LuaFunction, at: usize, argc: usize) -> Results {
        let mut args = Vec::with_capacity(argc);
        for place in at + 1..=at + argc {
            args.push(match self.at(place) {
                Value::Nil => Scalar::Nil,
                Value::Boolean(value) => Scalar::Boolean(value),
                Value::Number(number) => Scalar::Number(number),
                Value::Text(text) => Scalar::Text(self.texts.bytes(text).to_vec()),
                _ => return Err(ARGUMENT),
            });
        }
        let results = self.server.lua_function(function, &args).ok_or(ARGUMENT)?;
        if results.len() > VALUES_MAX {
            return Err(Stop::Leave(Reason::Memory));
        }
        self.reserve(at + results.len());
        for (place, result) in (at..).zip(&results) {
            let value = match result {
                Scalar::Nil => Value::Nil,
                Scalar::Boolean(value) => Value::Boolean(*value),
                Scalar::Number(number) => Value::Number(*number),
                Scalar::Text(bytes) => Value::Text(self.texts.push(bytes)),
            };
            self.put(place, value);
        }
        self.check_memory()?;
        Ok(results.len())
    }
}
