//! The form for people: quoted strings, numbered elements, indented by the text before them.
//!
//! Only whether a map's value takes several lines is not known from its first part: an aggregate of one
//! element is postponed until it is.

use super::held::Held;
use super::{Place, Places, Printer};
use martlet_client::parts::{Aggregate, Part, Text};
use martlet_client::resp::Reply;
use martlet_protocol::quote::append_escaped;
use std::io::Write as _;

/// An aggregate under way.
struct Frame {
    kind: Aggregate,
    /// Columns before its elements' numbers.
    indent: usize,
    /// Digits of its largest number.
    digits: usize,
    index: u64,
}

/// Prints a reply for people.
#[derive(Default)]
pub struct Standard {
    places: Places,
    frames: Vec<Frame>,
    /// The last output ended a line, which a map's value continues.
    owes_newline: bool,
    text: Option<Text>,
    held: Held,
}

impl Standard {
    /// Prints a part whose map's value, if it begins one, takes several lines or not.
    fn print(&mut self, part: Part, is_multiline: bool, out: &mut Vec<u8>) {
        if let Some(place) = self.places.next(&part) {
            self.begin(place, is_multiline, out);
        }
        match part {
            Part::Simple(text) => out.extend_from_slice(text),
            Part::Error(text) => {
                out.extend_from_slice(b"(error) ");
                out.extend_from_slice(text);
            }
            Part::Int(number) => drop(write!(out, "(integer) {number}")),
            Part::Double(text) => {
                out.extend_from_slice(b"(double) ");
                out.extend_from_slice(text);
            }
            Part::BigNumber(text) => {
                out.extend_from_slice(b"(big number) ");
                out.extend_from_slice(text);
            }
            Part::Bool(value) => out.extend_from_slice(if value { b"(true)" } else { b"(false)" }),
            Part::Null(_) => out.extend_from_slice(b"(nil)"),
            Part::Text(kind, _) => {
                self.text = Some(kind);
                match kind {
                    Text::Bulk => out.push(b'"'),
                    Text::Verbatim(_) => {}
                    Text::Error => out.extend_from_slice(b"(error) "),
                }
                return;
            }
            Part::Bytes(bytes) => {
                match self.text {
                    Some(Text::Bulk) => append_escaped(out, bytes),
                    _ => out.extend_from_slice(bytes),
                }
                return;
            }
            Part::EndText => {
                if self.text.take() == Some(Text::Bulk) {
                    out.push(b'"');
                }
            }
            Part::Open(kind, count) => return self.open(kind, count, out),
            Part::Close(_) => {
                self.frames.pop();
                return;
            }
        }
        self.owes_newline = true;
    }

    /// Prints the text before an element.
    fn begin(&mut self, place: Place, is_multiline: bool, out: &mut Vec<u8>) {
        let Some(frame) = self.frames.last_mut() else { return };
        let owes_newline = std::mem::take(&mut self.owes_newline);
        if place == Place::Value {
            out.extend_from_slice(b" => ");
            if is_multiline {
                out.push(b'\n');
                out.resize(out.len() + frame.indent + frame.digits + 2, b' ');
            }
            return;
        }
        if owes_newline {
            out.push(b'\n');
        }
        if !matches!(place, Place::First(_)) {
            out.resize(out.len() + frame.indent, b' ');
        }
        frame.index += 1;
        let separator = match frame.kind {
            Aggregate::Set => '~',
            Aggregate::Map => '#',
            _ => ')',
        };
        let _ = write!(out, "{:>width$}{separator} ", frame.index, width = frame.digits);
    }

    fn open(&mut self, kind: Aggregate, count: u64, out: &mut Vec<u8>) {
        let indent = self.frames.last().map_or(0, |parent| parent.indent + parent.digits + 2);
        let numbers = if kind == Aggregate::Map { count / 2 } else { count };
        self.frames.push(Frame { kind, indent, digits: numbers.to_string().len(), index: 0 });
        if count == 0 {
            out.extend_from_slice(match kind {
                Aggregate::Map => b"(empty hash)",
                Aggregate::Set => b"(empty set)",
                Aggregate::Push => b"(empty push)",
                _ => b"(empty array)",
            });
            self.owes_newline = true;
        }
    }

    /// Whether the next element is a map's value.
    fn at_value(&self) -> bool {
        self.places.0.last().is_some_and(|(kind, index)| *kind == Aggregate::Map && index % 2 == 1)
    }

    fn release(&mut self, is_multiline: bool, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        let mut first = true;
        held.replay(|part| {
            // Those after the first are nested deeper: they are asked again.
            if std::mem::take(&mut first) {
                self.print(part, is_multiline, out)
            } else {
                self.part(part, out)
            }
        });
    }
}

impl Printer for Standard {
    fn part(&mut self, part: Part, out: &mut Vec<u8>) {
        let begins = !matches!(part, Part::Bytes(_) | Part::EndText | Part::Close(_));
        if self.held.is_empty() && !(begins && self.at_value()) {
            return self.print(part, false, out);
        }
        self.held.push(part);
        if let Some(is_multiline) = self.held.is_multiline() {
            self.release(is_multiline, out);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.owes_newline {
            out.push(b'\n');
        }
    }
}

/// The line for a push that names keys which this client had read and others changed.
pub fn invalidated(push: &Reply) -> Option<Vec<u8>> {
    let Reply::Push(items) = push else { return None };
    let [Reply::Bulk(kind), Reply::Array(keys)] = items.as_slice() else { return None };
    if !kind.starts_with(b"invalidate") {
        return None;
    }
    let mut out = b"-> invalidate: ".to_vec();
    for (index, key) in keys.iter().enumerate() {
        out.extend_from_slice(if index > 0 { b", '" } else { b"'" });
        out.extend_from_slice(key.text().unwrap_or_default());
        out.push(b'\'');
    }
    out.push(b'\n');
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalidated_keys_are_on_one_line() {
        let key = |name: &str| Reply::Bulk(name.into());
        let push = Reply::Push(vec![key("invalidate"), Reply::Array(vec![key("a"), key("b")])]);
        assert_eq!(invalidated(&push), Some(b"-> invalidate: 'a', 'b'\n".to_vec()));
        assert_eq!(invalidated(&Reply::Push(vec![key("invalidate"), Reply::Null])), None);
    }
}
