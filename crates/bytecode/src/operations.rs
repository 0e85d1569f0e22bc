//! The loop over a program's operations.
//!
//! Invariant: whatever is not certain to be as in Lua ends the run with [`Stop::Leave`].

use crate::library::{Builtin, Field, Library};
use crate::machine::{Frame, INTERRUPT_OPERATIONS, Run, VALUES_MAX};
use crate::program::{Arithmetic, Op};
use crate::stop::{Reason, Stop};
use crate::table::Key;
use crate::value::{Source, Value};

/// Calls within calls.
const DEPTH_MAX: usize = 150;

impl Run<'_> {
    /// Runs the script, and returns its value.
    pub fn script(&mut self) -> Result<Value, Stop> {
        self.reserve(self.base + usize::from(self.function.max_stack));
        self.clear_registers(0);
        self.operations()
    }

    /// The compiler relies on registers that are `nil` when a function begins.
    #[inline]
    fn clear_registers(&mut self, first: usize) {
        let end = self.base + usize::from(self.function.max_stack);
        self.machine.stack[self.base + first..end].fill(Value::Nil);
    }

    fn operations(&mut self) -> Result<Value, Stop> {
        loop {
            let op = self.function.ops[self.pc];
            self.pc += 1;
            self.ticks -= 1;
            if self.ticks == 0 {
                self.interrupt()?;
            }
            match op {
                Op::Move { a, b } => self.set(a, self.register(b)),
                Op::Constant { a, k } => self.set(a, self.function.constants[k as usize].value),
                Op::Input { a, is_keys, index } => self.input(a, is_keys, index)?,
                Op::LibraryFunction { a, function } => {
                    self.set(a, Value::Function(function));
                    self.pc += 1;
                }
                Op::Call { a, b, c } => {
                    let at = self.base + usize::from(a);
                    let argc = if b == 0 { self.top - at - 1 } else { usize::from(b) - 1 };
                    self.call_value(at, argc, c)?;
                }
                Op::Return { a, b } => {
                    if let Some(value) = self.give_back(self.base + usize::from(a), b)? {
                        return Ok(value);
                    }
                }
                Op::Jump { to } => self.pc = to as usize,
                Op::Equal { wanted, b, c } => {
                    self.spend_on(self.operand(b));
                    let is = self.texts.are_same(self.operand(b), self.operand(c));
                    self.pc += usize::from(is != wanted);
                }
                Op::Less { wanted, b, c } => {
                    self.spend_on(self.operand(b));
                    let is = self.less(self.operand(b), self.operand(c))?;
                    self.pc += usize::from(is != wanted);
                }
                Op::LessOrEqual { wanted, b, c } => {
                    self.spend_on(self.operand(b));
                    let is = self.less_or_equal(self.operand(b), self.operand(c))?;
                    self.pc += usize::from(is != wanted);
                }
                Op::Test { a, wanted } => self.pc += usize::from(self.register(a).is_true() != wanted),
                Op::TestSet { a, b, wanted } => match self.register(b) {
                    value if value.is_true() == wanted => self.set(a, value),
                    _ => self.pc += 1,
                },
                Op::Get { a, b, c } => {
                    self.spend_on(self.operand(c));
                    let value = self.get(self.register(b), self.key(c))?;
                    self.set(a, value);
                }
                Op::Set { a, b, c } => {
                    self.spend_on(self.operand(b));
                    self.set_field(self.register(a), self.key(b), self.operand(c))?;
                }
                Op::ForLoop { a, to } => self.loop_for(a, to)?,
                other => self.value_operation(other)?,
            }
        }
    }

    /// Operations that make a value, but for the most frequent ones.
    fn value_operation(&mut self, op: Op) -> Result<(), Stop> {
        match op {
            Op::Add { a, b, c } => {
                let sum = self.number(self.operand(b))? + self.number(self.operand(c))?;
                self.set(a, Value::Number(sum));
            }
            Op::Subtract { a, b, c } => {
                let difference = self.number(self.operand(b))? - self.number(self.operand(c))?;
                self.set(a, Value::Number(difference));
            }
            Op::Arithmetic { a, b, c, how } => {
                let value = self.arithmetic(how, self.operand(b), self.operand(c))?;
                self.set(a, Value::Number(value));
            }
            Op::Boolean { a, value, skips } => {
                self.set(a, Value::Boolean(value));
                self.pc += usize::from(skips);
            }
            Op::Nil { a, b } => (a..=b).for_each(|register| self.set(register, Value::Nil)),
            Op::Inputs { a, is_keys } => {
                let table = self.inputs(is_keys)?;
                self.set(a, Value::Table(table));
            }
            Op::InputCount { a, is_keys } => self.input_count(a, is_keys)?,
            Op::Library { a, library } => self.set(a, Value::Library(library)),
            Op::Function { a, function } => self.set(a, Value::Function(function)),
            Op::Table { a, array, nodes } => {
                let table = self.machine.tables.add(usize::from(array), usize::from(nodes))?;
                self.set(a, Value::Table(table));
            }
            Op::Method { a, b, c } => {
                let value = self.register(b);
                self.set(a + 1, value);
                let method = self.get(value, self.key(c))?;
                self.set(a, method);
            }
            Op::Negate { a, b } => self.set(a, Value::Number(-self.number(self.register(b))?)),
            Op::Not { a, b } => self.set(a, Value::Boolean(!self.register(b).is_true())),
            Op::Len { a, b } => self.set(a, Value::Number(self.len(self.register(b))? as f64)),
            Op::Concat { a, b, c } => {
                let text = self.concatenate(self.base + usize::from(b), self.base + usize::from(c))?;
                self.set(a, text);
            }
            other => self.other_operation(other)?,
        }
        Ok(())
    }

    /// Operations of loops, constructors and functions.
    fn other_operation(&mut self, op: Op) -> Result<(), Stop> {
        match op {
            Op::ForPrepare { a, to } => self.prepare_for(a, to)?,
            Op::Iterate { a, c } => self.iterate(a, c)?,
            Op::IterateTest { a, to } => {
                let value = self.register(a + 3);
                if !value.is_nil() {
                    self.set(a + 2, value);
                    self.pc = to as usize;
                }
            }
            Op::List { a, b, first } => self.list(a, b, first)?,
            Op::Upvalue { a, b } => self.set(a, self.upvalue(b)),
            Op::SetUpvalue { a, b } => self.set_upvalue(b, self.register(a)),
            Op::Close { a } => self.close(self.base + usize::from(a)),
            Op::Closure { a, site } => self.make_closure(a, site)?,
            Op::Vararg { a, b } => self.varargs(self.base + usize::from(a), b)?,
            _ => return Err(Stop::Leave(Reason::Type)),
        }
        Ok(())
    }

    #[cold]
    fn interrupt(&mut self) -> Result<(), Stop> {
        self.ticks = INTERRUPT_OPERATIONS;
        self.check_memory()?;
        // Lua ends it, in its own words.
        if self.server.may_continue() { Ok(()) } else { Err(Stop::Leave(Reason::Error)) }
    }

    // ---- inputs ----

    fn inputs(&mut self, is_keys: bool) -> Result<u32, Stop> {
        if let Some(table) = if is_keys { self.keys } else { self.argv } {
            return Ok(table);
        }
        let source = if is_keys { Source::Key } else { Source::Argument };
        let count = if is_keys { self.texts.keys.len() } else { self.texts.args.len() };
        let number = self.machine.tables.add(count, 0)?;
        let (table, _) = self.machine.tables.at_mut(number);
        for index in 0..count {
            table.fill(index, self.texts.input(source, index).map_or(Value::Nil, Value::Text));
        }
        *(if is_keys { &mut self.keys } else { &mut self.argv }) = Some(number);
        Ok(number)
    }

    #[inline]
    fn input(&mut self, a: u8, is_keys: bool, index: u32) -> Result<(), Stop> {
        let (source, table) = match is_keys {
            true => (Source::Key, self.keys),
            false => (Source::Argument, self.argv),
        };
        let value = match table {
            None => self.texts.input(source, index as usize - 1).map_or(Value::Nil, Value::Text),
            // The script may have changed it.
            Some(table) => self.machine.tables.at(table).get_index(index as i32, &self.texts)?,
        };
        self.set(a, value);
        self.pc += 1;
        Ok(())
    }

    fn input_count(&mut self, a: u8, is_keys: bool) -> Result<(), Stop> {
        let count = match if is_keys { self.keys } else { self.argv } {
            None if is_keys => self.texts.keys.len(),
            None => self.texts.args.len(),
            Some(table) => self.machine.tables.at(table).len(&self.texts)?,
        };
        self.set(a, Value::Number(count as f64));
        self.pc += 1;
        Ok(())
    }

    fn arithmetic(&self, how: Arithmetic, b: Value, c: Value) -> Result<f64, Stop> {
        let (b, c) = (self.number(b)?, self.number(c)?);
        Ok(match how {
            Arithmetic::Multiply => b * c,
            Arithmetic::Divide => b / c,
            Arithmetic::Modulo => b - (b / c).floor() * c,
            Arithmetic::Power => b.powf(c),
        })
    }

    fn less(&self, one: Value, other: Value) -> Result<bool, Stop> {
        match (one, other) {
            (Value::Number(one), Value::Number(other)) => Ok(one < other),
            (Value::Text(one), Value::Text(other)) => Ok(self.texts.bytes(one) < self.texts.bytes(other)),
            _ => Err(Stop::Leave(Reason::Type)),
        }
    }

    fn less_or_equal(&self, one: Value, other: Value) -> Result<bool, Stop> {
        match (one, other) {
            (Value::Number(one), Value::Number(other)) => Ok(one <= other),
            (Value::Text(one), Value::Text(other)) => Ok(self.texts.bytes(one) <= self.texts.bytes(other)),
            _ => Err(Stop::Leave(Reason::Type)),
        }
    }

    /// The element of a table, or the method of a string.
    #[inline]
    fn get(&self, value: Value, key: Key) -> Result<Value, Stop> {
        match value {
            Value::Table(table) => self.machine.tables.at(table).get(key, &self.texts),
            _ => self.get_field(value, key),
        }
    }

    /// The field of a library or of a string.
    fn get_field(&self, value: Value, key: Key) -> Result<Value, Stop> {
        let library = match value {
            Value::Library(library) => library,
            Value::Text(_) => Library::String,
            _ => return Err(Stop::Leave(Reason::Type)),
        };
        let Value::Text(name) = key.value else { return Err(Stop::Leave(Reason::Type)) };
        match library.field(self.texts.bytes(name)) {
            Some(Field::Function(function)) => Ok(Value::Function(function)),
            Some(Field::Number(number)) => Ok(Value::Number(number)),
            Some(Field::Null) => Ok(Value::Null),
            None => Err(Stop::Leave(Reason::Type)),
        }
    }

    fn concatenate(&mut self, first: usize, last: usize) -> Result<Value, Stop> {
        let start = self.texts.arena.len();
        for place in first..=last {
            self.append(self.at(place))?;
        }
        self.check_memory()?;
        Ok(Value::Text(self.texts.since(start)))
    }

    // ---- calls ----

    /// Calls the value at `at` with the arguments behind it; `wanted` is one more than the number of results
    /// that it must have, or 0 for all.
    #[inline]
    fn call_value(&mut self, at: usize, argc: usize, wanted: u16) -> Result<(), Stop> {
        match self.at(at) {
            Value::Function(Builtin::Pcall) => self.call_protected(at, argc, wanted),
            Value::Function(function) => {
                let count = self.builtin(function, at, argc, wanted)?;
                self.settle(at, count, wanted);
                Ok(())
            }
            Value::Closure(closure) => self.enter(at, argc, wanted, closure, false),
            _ => Err(Stop::Leave(Reason::Type)),
        }
    }

    /// `pcall`: an error within is left to Lua.
    fn call_protected(&mut self, at: usize, argc: usize, wanted: u16) -> Result<(), Stop> {
        if argc == 0 {
            return Err(Stop::Leave(Reason::Argument));
        }
        match self.at(at + 1) {
            Value::Function(Builtin::Pcall) => Err(Stop::Leave(Reason::Argument)),
            Value::Function(function) => {
                self.protected += 1;
                let count = self.builtin(function, at + 1, argc - 1, 0)?;
                self.protected -= 1;
                self.put(at, Value::Boolean(true));
                self.settle(at, count + 1, wanted);
                Ok(())
            }
            Value::Closure(closure) => {
                self.protected += 1;
                self.enter(at + 1, argc - 1, wanted, closure, true)
            }
            _ => Err(Stop::Leave(Reason::Error)),
        }
    }

    /// Gives the caller the number of results that it wants.
    #[inline]
    fn settle(&mut self, at: usize, count: usize, wanted: u16) {
        if wanted == 0 {
            self.top = at + count;
        } else {
            for place in count..usize::from(wanted) - 1 {
                self.machine.stack[at + place] = Value::Nil;
            }
        }
    }

    fn enter(
        &mut self,
        at: usize,
        argc: usize,
        wanted: u16,
        closure: u32,
        is_protected: bool,
    ) -> Result<(), Stop> {
        if self.machine.frames.len() >= DEPTH_MAX || argc > VALUES_MAX {
            return Err(Stop::Leave(Reason::Memory));
        }
        self.machine.frames.push(Frame {
            function: self.number,
            pc: self.pc as u32,
            base: self.base as u32,
            closure: self.closure,
            extra: self.extra as u32,
            at: at as u32,
            wanted,
            is_protected,
        });
        self.closure = closure;
        self.number = self.machine.closures[closure as usize].function;
        self.function = &self.program.functions[self.number as usize];
        let parameters = usize::from(self.function.parameters);
        self.extra = if self.function.is_vararg { argc.saturating_sub(parameters) } else { 0 };
        // Of a function with `...` all arguments stay where they are, and its parameters are copied.
        self.base = if self.function.is_vararg { at + 1 + argc } else { at + 1 };
        self.reserve(self.base + usize::from(self.function.max_stack).max(argc));
        for parameter in 0..parameters {
            let value = if parameter < argc { self.at(at + 1 + parameter) } else { Value::Nil };
            self.put(self.base + parameter, value);
        }
        self.clear_registers(parameters);
        self.pc = 0;
        Ok(())
    }

    /// Returns the values from `from` on to the function's caller; the script's own first one otherwise.
    fn give_back(&mut self, from: usize, b: u16) -> Result<Option<Value>, Stop> {
        let count = if b == 0 { self.top - from } else { usize::from(b) - 1 };
        if self.function.has_captures {
            self.close(self.base);
        }
        let Some(frame) = self.machine.frames.pop() else {
            return Ok(Some(if count > 0 { self.at(from) } else { Value::Nil }));
        };
        let mut at = frame.at as usize;
        let mut given = count;
        self.machine.stack.copy_within(from..from + count, at);
        if frame.is_protected {
            at -= 1;
            given += 1;
            self.put(at, Value::Boolean(true));
            self.protected -= 1;
        }
        self.number = frame.function;
        self.function = &self.program.functions[frame.function as usize];
        self.pc = frame.pc as usize;
        self.base = frame.base as usize;
        self.closure = frame.closure;
        self.extra = frame.extra as usize;
        self.settle(at, given, frame.wanted);
        Ok(None)
    }

    fn varargs(&mut self, at: usize, b: u16) -> Result<(), Stop> {
        let wanted = if b == 0 { self.extra } else { usize::from(b) - 1 };
        let first = self.base - self.extra;
        self.reserve(at + wanted + 1);
        for place in 0..wanted {
            let value = if place < self.extra { self.at(first + place) } else { Value::Nil };
            self.put(at + place, value);
        }
        if b == 0 {
            self.top = at + wanted;
        }
        Ok(())
    }

    // ---- loops ----

    fn prepare_for(&mut self, a: u8, to: u32) -> Result<(), Stop> {
        let start = self.number(self.register(a))?;
        let limit = self.number(self.register(a + 1))?;
        let step = self.number(self.register(a + 2))?;
        self.set(a, Value::Number(start - step));
        self.set(a + 1, Value::Number(limit));
        self.set(a + 2, Value::Number(step));
        self.pc = to as usize;
        Ok(())
    }

    #[inline]
    fn loop_for(&mut self, a: u8, to: u32) -> Result<(), Stop> {
        let (Value::Number(index), Value::Number(limit), Value::Number(step)) =
            (self.register(a), self.register(a + 1), self.register(a + 2))
        else {
            return Err(Stop::Leave(Reason::Type));
        };
        let index = index + step;
        if if step > 0.0 { index <= limit } else { limit <= index } {
            self.pc = to as usize;
            self.set(a, Value::Number(index));
            self.set(a + 3, Value::Number(index));
        }
        Ok(())
    }

    fn iterate(&mut self, a: u8, c: u8) -> Result<(), Stop> {
        let at = self.base + usize::from(a) + 3;
        for part in 0..3 {
            self.put(at + part, self.at(at - 3 + part));
        }
        self.call_value(at, 2, u16::from(c) + 1)
    }

    fn list(&mut self, a: u8, b: u16, first: u32) -> Result<(), Stop> {
        let at = self.base + usize::from(a);
        let count = if b == 0 { self.top - at - 1 } else { usize::from(b) };
        let Value::Table(number) = self.at(at) else { return Err(Stop::Leave(Reason::Type)) };
        let (table, cells) = self.machine.tables.at_mut(number);
        let last = first as usize + count;
        if last > table.array().len() {
            table.resize_array(last, &self.texts, cells)?;
        }
        for place in (0..count).rev() {
            table.fill(first as usize + place, self.machine.stack[at + 1 + place]);
        }
        Ok(())
    }
}
