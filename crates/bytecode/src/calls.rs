//! `redis.*`: calls of commands, and the values that their replies become.

use martlet_base::number::parse_i64;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::{Args, Span};
use sha1::{Digest, Sha1};

use crate::machine::{Recorded, Run};
use crate::number;
use crate::server::{Called, LogLevel};
use crate::stop::{Reason, Stop};
use crate::table::Key;
use crate::value::{Source, Text, Value};

/// Replies nest no deeper here.
const NESTED_MAX: usize = 16;

/// What an error reply's text becomes: with a code, and on one line.
pub fn error_reply_text(text: &[u8]) -> Vec<u8> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    // A text without a space is no code with a message.
    let (code, message) = match text.iter().position(|&byte| byte == b' ') {
        Some(at) => text.split_at(at + 1),
        None => (b"ERR ".as_slice(), text),
    };
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = message.iter().position(|byte| !is_end(byte)).unwrap_or(message.len());
    let end = message.iter().rposition(|byte| !is_end(byte)).map_or(start, |last| last + 1);
    [code, &message[start..end]].concat()
}

impl Run<'_> {
    /// `redis.call`, or `redis.pcall`; `wanted` as in a call's operation.
    pub fn redis_call(&mut self, at: usize, argc: usize, is_pcall: bool, wanted: u16) -> Result<usize, Stop> {
        let reply = self.run_command(at, argc)?;
        let is_error = self.texts.arena.get(reply) == Some(&b'-');
        if is_error && !is_pcall {
            return Err(if self.is_protected() { Stop::Leave(Reason::Error) } else { Stop::Raised });
        }
        // Most effects need no reply.
        if wanted == 1 {
            return Ok(0);
        }
        let mut place = reply;
        let value = self.reply_value(&mut place, 0)?;
        self.put(at, value);
        Ok(1)
    }

    /// Runs the command that the arguments are; where its reply begins in the arena.
    fn run_command(&mut self, at: usize, argc: usize) -> Result<usize, Stop> {
        if argc == 0 {
            return Err(Stop::Leave(Reason::Error));
        }
        self.take_arguments(at, argc)?;
        let start = self.texts.arena.len();
        let mut reply = Reply::new(std::mem::take(&mut self.texts.arena), false);
        reply.set_limit(start + self.reply_max_bytes);
        let machine = &mut *self.machine;
        let args = Args::new(&machine.arguments, &machine.spans);
        let called = self.server.call(&args, &mut reply);
        let is_full = reply.is_full();
        self.texts.arena = reply.into_bytes();
        if called == Called::Abandon {
            return Err(Stop::Abandoned);
        }
        machine.recorded.push(Recorded {
            start: start as u32,
            end: self.texts.arena.len() as u32,
            called,
            is_full,
            arguments: argc as u32,
            argument_bytes: machine.arguments.len() as u32,
        });
        if is_full {
            return Err(Stop::Leave(Reason::Memory));
        }
        self.check_memory()?;
        Ok(start)
    }

    fn take_arguments(&mut self, at: usize, argc: usize) -> Result<(), Stop> {
        let mut arguments = std::mem::take(&mut self.machine.arguments);
        let mut spans = std::mem::take(&mut self.machine.spans);
        arguments.clear();
        spans.clear();
        let mut fits = true;
        for place in at + 1..=at + argc {
            let start = arguments.len();
            match self.at(place) {
                Value::Text(text) => martlet_base::copy::extend(&mut arguments, self.texts.bytes(text)),
                Value::Number(number) => number::push_argument(&mut arguments, number),
                _ => fits = false,
            }
            spans.push(Span { start: start as u32, end: arguments.len() as u32 });
        }
        fits &= arguments.len() < self.reply_max_bytes;
        self.machine.arguments = arguments;
        self.machine.spans = spans;
        if fits { Ok(()) } else { Err(Stop::Leave(Reason::Argument)) }
    }

    /// The rest of the line at this place of the arena, which is then behind it.
    #[inline]
    fn reply_line(&self, place: &mut usize) -> Option<Text> {
        let rest = self.texts.arena.get(*place..)?;
        let len = rest.iter().position(|&byte| byte == b'\r')?;
        let text = Text { source: Source::Arena, start: *place as u32, len: len as u32 };
        *place += len + 2;
        Some(text)
    }

    /// The value of the reply at this place of the arena, which is then behind it.
    fn reply_value(&mut self, place: &mut usize, depth: usize) -> Result<Value, Stop> {
        const MALFORMED: Stop = Stop::Leave(Reason::Reply);
        let kind = *self.texts.arena.get(*place).ok_or(MALFORMED)?;
        *place += 1;
        let line = self.reply_line(place).ok_or(MALFORMED)?;
        let number = || parse_i64(self.texts.bytes(line)).ok_or(MALFORMED);
        match kind {
            b':' => Ok(Value::Number(number()? as f64)),
            b'$' => {
                let Ok(len) = usize::try_from(number()?) else { return Ok(Value::Boolean(false)) };
                let text = Text { source: Source::Arena, start: *place as u32, len: len as u32 };
                *place += len + 2;
                if *place > self.texts.arena.len() { Err(MALFORMED) } else { Ok(Value::Text(text)) }
            }
            b'*' => {
                let Ok(len) = usize::try_from(number()?) else { return Ok(Value::Boolean(false)) };
                if depth == NESTED_MAX {
                    return Err(MALFORMED);
                }
                let table = self.machine.tables.add(len, 0)?;
                for index in 0..len {
                    let value = self.reply_value(place, depth + 1)?;
                    self.machine.tables.at_mut(table).0.fill(index, value);
                }
                Ok(Value::Table(table))
            }
            b'+' => Ok(Value::Table(self.named(b"ok", line)?)),
            b'-' => {
                let table = Value::Table(self.named(b"err", line)?);
                self.set_named(table, b"ignore_error_stats_update", Value::Boolean(true))?;
                Ok(table)
            }
            _ => Err(MALFORMED),
        }
    }

    fn set_named(&mut self, table: Value, name: &[u8], value: Value) -> Result<(), Stop> {
        let name = self.texts.push(name);
        self.set_field(table, Key::new(Value::Text(name), &self.texts), value)
    }

    /// The only argument, a string.
    fn only_text(&self, at: usize, argc: usize) -> Result<Text, Stop> {
        match self.at(at + 1) {
            Value::Text(text) if argc == 1 => Ok(text),
            _ => Err(Stop::Leave(Reason::Argument)),
        }
    }

    /// `redis.error_reply`
    pub fn error_reply(&mut self, at: usize, argc: usize) -> Result<usize, Stop> {
        let text = self.only_text(at, argc)?;
        let text = error_reply_text(self.texts.bytes(text));
        let text = self.texts.push(&text);
        let table = self.named(b"err", text)?;
        self.put(at, Value::Table(table));
        Ok(1)
    }

    /// `redis.status_reply`
    pub fn status_reply(&mut self, at: usize, argc: usize) -> Result<usize, Stop> {
        let text = self.only_text(at, argc)?;
        let table = self.named(b"ok", text)?;
        self.put(at, Value::Table(table));
        Ok(1)
    }

    /// `redis.sha1hex`
    pub fn sha1hex(&mut self, at: usize, argc: usize) -> Result<usize, Stop> {
        if argc != 1 {
            return Err(Stop::Leave(Reason::Argument));
        }
        let text = match self.at(at + 1) {
            value @ (Value::Text(_) | Value::Number(_)) => self.text(value)?,
            _ => self.texts.push(b""),
        };
        let digest = Sha1::digest(self.texts.bytes(text));
        let text = self.texts.push(format!("{digest:x}").as_bytes());
        self.put(at, Value::Text(text));
        Ok(1)
    }

    /// `redis.log`: the line is written at once, and not again if Lua runs the script.
    pub fn log(&mut self, at: usize, argc: usize) -> Result<usize, Stop> {
        if argc < 2 {
            return Err(Stop::Leave(Reason::Argument));
        }
        let level = number::to_integer(self.number(self.at(at + 1))?);
        let level = LogLevel::of(level).ok_or(Stop::Leave(Reason::Argument))?;
        let start = self.texts.arena.len();
        for place in at + 2..=at + argc {
            let part = self.at(place);
            if matches!(part, Value::Text(_) | Value::Number(_)) {
                if self.texts.arena.len() > start {
                    self.texts.arena.push(b' ');
                }
                self.append(part)?;
            }
        }
        let line = self.texts.since(start);
        self.server.log(level, self.texts.bytes(line));
        self.machine.logged += 1;
        self.check_memory()?;
        Ok(0)
    }
}
