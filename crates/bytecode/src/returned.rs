//! The value that a script returns becomes its reply.

use martlet_protocol::reply::Reply;

use crate::machine::Run;
use crate::number::to_integer;
use crate::stop::{Reason, Stop};
use crate::value::Value;

/// Tables within tables.
const DEPTH_MAX: usize = 16;
/// Bytes of a reply that is written here.
const REPLY_MAX_BYTES: usize = 32 << 20;
/// Names of fields that make another reply of a table.
const OTHER_KINDS: [&[u8]; 5] = [b"double", b"big_number", b"verbatim_string", b"map", b"set"];

/// The error with which a script has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The error reply, its code included.
    pub text: Vec<u8>,
    /// A command has answered it: it has been counted.
    pub is_counted: bool,
    /// The line of the script that has raised it; none if the script has returned it.
    pub line: Option<u32>,
}

impl Run<'_> {
    /// The error with which the last call ends the script.
    pub fn raised(&self) -> Failure {
        let recorded = self.machine.recorded.last();
        let reply = recorded.map_or(&[][..], |recorded| &self.texts.arena[recorded.start as usize..]);
        let text = reply.split(|byte| *byte == b'\r').next().unwrap_or_default();
        Failure { text: text[1.min(text.len())..].to_vec(), is_counted: true, line: Some(self.line()) }
    }

    /// Writes the value that the script has returned; the error, if it is one.
    pub(crate) fn write_returned(
        &mut self,
        value: Value,
        reply: &mut Reply,
    ) -> Result<Option<Failure>, Stop> {
        if let Value::Table(table) = value
            && let table = self.machine.tables.at(table)
            && let Value::Text(text) = table.get_name(b"err", &self.texts)
        {
            let is_counted = table.get_name(b"ignore_error_stats_update", &self.texts).is_true();
            let text = self.texts.bytes(text).to_vec();
            return Ok(Some(Failure { text, is_counted, line: None }));
        }
        let end = reply.total_bytes() + REPLY_MAX_BYTES;
        self.write_value(value, reply, end, 0)?;
        Ok(None)
    }

    fn write_value(&self, value: Value, reply: &mut Reply, end: usize, depth: usize) -> Result<(), Stop> {
        match value {
            Value::Text(text) => reply.bulk(self.texts.bytes(text)),
            Value::Boolean(true) => reply.int(1),
            Value::Number(number) => reply.int(to_integer(number)),
            Value::Table(table) => self.write_table(table, reply, end, depth)?,
            Value::Library(_) => return Err(Stop::Leave(Reason::Type)),
            Value::Nil | Value::Boolean(false) | Value::Closure(_) | Value::Function(_) | Value::Null => {
                reply.null();
            }
        }
        if reply.total_bytes() > end { Err(Stop::Leave(Reason::Memory)) } else { Ok(()) }
    }

    fn write_table(&self, number: u32, reply: &mut Reply, end: usize, depth: usize) -> Result<(), Stop> {
        if depth == DEPTH_MAX {
            return Err(Stop::Leave(Reason::Memory));
        }
        let table = self.machine.tables.at(number);
        if !table.has_no_nodes() {
            if let Value::Text(text) = table.get_name(b"err", &self.texts) {
                reply.error(self.texts.bytes(text));
                return Ok(());
            }
            if let Value::Text(text) = table.get_name(b"ok", &self.texts) {
                write_status(reply, self.texts.bytes(text));
                return Ok(());
            }
            if OTHER_KINDS.iter().any(|kind| !table.get_name(kind, &self.texts).is_nil()) {
                return Err(Stop::Leave(Reason::Reply));
            }
        }
        let mut len = 0;
        while !table.get_index(len + 1, &self.texts)?.is_nil() {
            len += 1;
        }
        reply.array(len as usize);
        for index in 1..=len {
            self.write_value(table.get_index(index, &self.texts)?, reply, end, depth + 1)?;
        }
        Ok(())
    }
}

/// A status, on one line; a string of C's ends at its first zero.
fn write_status(reply: &mut Reply, text: &[u8]) {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let raw = reply.raw();
    raw.push(b'+');
    raw.extend(text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
    raw.extend_from_slice(b"\r\n");
}
