//! CSV: quoted strings with commas between; nested aggregates become one flat line.

use super::{Place, Places, Printer};
use martlet_client::parts::{Part, Text};
use martlet_protocol::quote::{append_escaped, append_quoted};

/// Prints a reply as a line of CSV.
#[derive(Default)]
pub struct Csv {
    places: Places,
}

impl Printer for Csv {
    fn part(&mut self, part: Part, out: &mut Vec<u8>) {
        if let Some(Place::Further(_) | Place::Value) = self.places.next(&part) {
            out.push(b',');
        }
        match part {
            Part::Simple(text) => append_quoted(out, text),
            Part::Error(text) => {
                out.extend_from_slice(b"ERROR,");
                append_quoted(out, text);
            }
            Part::Text(kind, _) => {
                out.extend_from_slice(if kind == Text::Error { b"ERROR,\"" } else { b"\"" });
            }
            Part::Bytes(text) => append_escaped(out, text),
            Part::EndText => out.push(b'"'),
            Part::Double(text) | Part::BigNumber(text) => out.extend_from_slice(text),
            Part::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Part::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
            Part::Null(_) => out.extend_from_slice(b"NULL"),
            Part::Open(..) | Part::Close(_) => {}
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        out.push(b'\n');
    }
}
