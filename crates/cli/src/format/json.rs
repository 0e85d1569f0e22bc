//! JSON, in which a map's keys are strings whatever they were.

use super::{Place, Places, Printer};
use martlet_client::parts::{Aggregate, Part, Text};
use martlet_protocol::quote::append_escaped;
use std::io::Write as _;

/// Prints a reply as a line of JSON.
pub struct Json {
    places: Places,
    /// Strings are ASCII.
    quoted: bool,
    /// How many aggregates are open, and at which of these depths one is a map's key, which has quotes.
    depth: usize,
    key_depths: Vec<usize>,
}

impl Json {
    /// With strings of ASCII, or of the bytes as they are.
    pub fn new(quoted: bool) -> Json {
        Json { places: Places::default(), quoted, depth: 0, key_depths: Vec::new() }
    }

    fn escape(&self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.quoted {
            let from = out.len();
            append_escaped(out, bytes);
            double_backslashes(out, from);
            return;
        }
        for &byte in bytes {
            match byte {
                b'\\' | b'"' => out.extend([b'\\', byte]),
                b'\n' => out.extend(b"\\n"),
                0x0c => out.extend(b"\\f"),
                b'\r' => out.extend(b"\\r"),
                b'\t' => out.extend(b"\\t"),
                0x08 => out.extend(b"\\b"),
                0..=0x1f => drop(write!(out, "\\u{byte:04x}")),
                _ => out.push(byte),
            }
        }
    }

    fn string(&self, text: &[u8], out: &mut Vec<u8>) {
        out.push(b'"');
        self.escape(text, out);
        out.push(b'"');
    }

    /// A value other than a string: in quotes where it is a key.
    fn plain(is_key: bool, text: &[u8], out: &mut Vec<u8>) {
        let quotes: &[u8] = if is_key { b"\"" } else { b"" };
        out.extend([quotes, text, quotes].concat());
    }
}

/// Doubles the backslashes from `from` on.
fn double_backslashes(out: &mut Vec<u8>, from: usize) {
    let escaped = out.split_off(from);
    for byte in escaped {
        out.push(byte);
        if byte == b'\\' {
            out.push(byte);
        }
    }
}

impl Printer for Json {
    fn part(&mut self, part: Part, out: &mut Vec<u8>) {
        let place = self.places.next(&part);
        match place {
            Some(Place::Further(_)) => out.push(b','),
            Some(Place::Value) => out.push(b':'),
            _ => {}
        }
        let is_key = matches!(place, Some(Place::First(Aggregate::Map) | Place::Further(Aggregate::Map)));
        match part {
            Part::Simple(text) => self.string(text, out),
            Part::Error(text) => {
                out.extend_from_slice(b"error:");
                self.string(text, out);
            }
            Part::Text(kind, _) => {
                out.extend_from_slice(if kind == Text::Error { b"error:\"" } else { b"\"" });
            }
            Part::Bytes(text) => self.escape(text, out),
            Part::EndText => out.push(b'"'),
            Part::Double(text) | Part::BigNumber(text) => Json::plain(is_key, text, out),
            Part::Int(number) => Json::plain(is_key, number.to_string().as_bytes(), out),
            Part::Bool(value) => Json::plain(is_key, if value { b"true" } else { b"false" }, out),
            Part::Null(_) => Json::plain(is_key, b"null", out),
            Part::Open(kind, _) => {
                if is_key {
                    out.push(b'"');
                    self.key_depths.push(self.depth);
                }
                self.depth += 1;
                out.push(if kind == Aggregate::Map { b'{' } else { b'[' });
            }
            Part::Close(kind) => {
                out.push(if kind == Aggregate::Map { b'}' } else { b']' });
                self.depth -= 1;
                if self.key_depths.last() == Some(&self.depth) {
                    self.key_depths.pop();
                    out.push(b'"');
                }
            }
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        out.push(b'\n');
    }
}
