//! Raw: strings as they are, delimiters between.

use super::{Place, Places, Printer};
use martlet_client::parts::{Part, Text};

/// Prints a reply raw.
pub struct Raw<'a> {
    between: &'a [u8],
    after: &'a [u8],
    places: Places,
    is_error: bool,
}

impl<'a> Raw<'a> {
    /// With the separator of elements and the text after the reply.
    pub fn new(between: &'a [u8], after: &'a [u8]) -> Raw<'a> {
        Raw { between, after, places: Places::default(), is_error: false }
    }
}

impl Printer for Raw<'_> {
    fn part(&mut self, part: Part, out: &mut Vec<u8>) {
        match self.places.next(&part) {
            Some(Place::Further(_)) => out.extend_from_slice(self.between),
            Some(Place::Value) => out.push(b' '),
            _ => {}
        }
        match part {
            Part::Simple(text) | Part::Double(text) | Part::BigNumber(text) | Part::Bytes(text) => {
                out.extend_from_slice(text);
            }
            Part::Error(text) => {
                out.extend_from_slice(text);
                out.push(b'\n');
            }
            Part::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Part::Bool(value) => out.extend_from_slice(if value { b"(true)" } else { b"(false)" }),
            Part::Text(kind, _) => self.is_error = kind == Text::Error,
            Part::EndText if self.is_error => out.push(b'\n'),
            Part::Null(_) | Part::EndText | Part::Open(..) | Part::Close(_) => {}
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.after);
    }
}
