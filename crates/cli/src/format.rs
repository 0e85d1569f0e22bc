//! Replies as text: for people, raw, CSV and JSON. Each form takes a reply in parts and needs no more memory
//! for a long one.
//!
//! Invariant: the output is redis-cli's, to the byte. Where redis-cli gives up (big numbers) a number is
//! printed.

mod csv;
mod held;
mod human;
mod json;
mod raw;
mod results;
mod standard;
mod table;

use martlet_client::parts::{Aggregate, Part};
use martlet_client::resp::Reply;

pub use human::{Numbers, readable_bytes};
pub use results::ResultForm;
pub use standard::invalidated;

/// The forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Quoted, numbered and indented, for people.
    Standard,
    /// Strings as they are.
    Raw,
    /// Quoted, with commas between.
    Csv,
    /// JSON, whose strings hold the bytes as they are.
    Json,
    /// JSON whose strings are ASCII.
    QuotedJson,
}

/// Which replies are tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// None.
    None,
    /// Lists of maps, as RESP3 has them.
    Lists,
    /// Lists of maps, and the results of searches.
    All,
}

/// A form and its delimiters.
#[derive(Clone, Debug)]
pub struct Style {
    /// The form.
    pub output: Output,
    /// Raw: between the elements of a reply.
    pub element_delimiter: Vec<u8>,
    /// Raw: after a reply.
    pub reply_delimiter: Vec<u8>,
    /// For people: notes say what durations and sizes come to.
    pub is_human: bool,
    /// For people: which replies are tables.
    pub tables: Tables,
    /// How wide a table can be; for ever without.
    pub width: Option<usize>,
}

/// Expectations about a command's reply.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    /// It is text for people already: it is printed as it is.
    pub is_verbatim: bool,
    /// What its numbers are.
    pub numbers: Numbers,
    /// How it holds the rows of a search.
    pub results: Option<ResultForm>,
}

/// Prints one reply.
pub trait Printer {
    /// Appends a part's printed form.
    fn part(&mut self, part: Part, out: &mut Vec<u8>);
    /// Appends what ends the reply.
    fn end(&mut self, out: &mut Vec<u8>);
}

impl Style {
    /// A form with redis-cli's delimiters.
    pub fn new(output: Output) -> Style {
        Style {
            output,
            element_delimiter: b"\n".into(),
            reply_delimiter: b"\n".into(),
            is_human: false,
            tables: Tables::None,
            width: None,
        }
    }

    /// A printer for the next reply.
    pub fn printer(&self, expected: Expected) -> Box<dyn Printer + '_> {
        match self.output {
            _ if expected.is_verbatim => {
                let raw = Box::new(raw::Raw::new(&self.element_delimiter, b""));
                if self.is_human { Box::new(human::HumanText::new(raw)) } else { raw }
            }
            Output::Standard => self.for_people(expected),
            Output::Raw => Box::new(raw::Raw::new(&self.element_delimiter, &self.reply_delimiter)),
            Output::Csv => Box::new(csv::Csv::default()),
            Output::Json => Box::new(json::Json::new(false)),
            Output::QuotedJson => Box::new(json::Json::new(true)),
        }
    }

    fn for_people(&self, expected: Expected) -> Box<dyn Printer + '_> {
        let Expected { numbers, results, .. } = expected;
        let mut printer: Box<dyn Printer> = Box::new(standard::Standard::default());
        if self.is_human {
            printer = Box::new(human::Human::new(printer, numbers));
        }
        if self.tables != Tables::None {
            let noted = if self.is_human { numbers } else { Numbers::Plain };
            let results = results.filter(|_| self.tables == Tables::All);
            printer = Box::new(table::Table::new(printer, self.width, noted).with_results(results));
        }
        printer
    }

    /// A whole reply as text.
    pub fn text(&self, reply: &Reply) -> Vec<u8> {
        let (mut printer, mut out) = (self.printer(Expected::default()), Vec::new());
        parts_of(reply, &mut |part| printer.part(part, &mut out));
        printer.end(&mut out);
        out
    }
}

/// Gives the parts of a reply that is there as a whole.
pub fn parts_of(reply: &Reply, sink: &mut impl FnMut(Part)) {
    use martlet_client::parts::{Null, Text};
    let text = |sink: &mut dyn FnMut(Part), kind: Text, bytes: &[u8]| {
        sink(Part::Text(kind, bytes.len() as u64));
        if !bytes.is_empty() {
            sink(Part::Bytes(bytes));
        }
        sink(Part::EndText);
    };
    let (kind, items) = match reply {
        Reply::Simple(text) => return sink(Part::Simple(text)),
        Reply::Error(text) => return sink(Part::Error(text)),
        Reply::Int(number) => return sink(Part::Int(*number)),
        Reply::Double(text) => return sink(Part::Double(text)),
        Reply::BigNumber(text) => return sink(Part::BigNumber(text)),
        Reply::Bool(value) => return sink(Part::Bool(*value)),
        Reply::Null => return sink(Part::Null(Null::Plain)),
        Reply::NullBulk => return sink(Part::Null(Null::Bulk)),
        Reply::NullArray => return sink(Part::Null(Null::Array)),
        Reply::Bulk(bytes) => return text(sink, Text::Bulk, bytes),
        Reply::Verbatim(format, bytes) => return text(sink, Text::Verbatim(*format), bytes),
        Reply::Attributed(_, reply) => return parts_of(reply, sink),
        Reply::Map(pairs) => {
            sink(Part::Open(Aggregate::Map, pairs.len() as u64 * 2));
            for (key, value) in pairs {
                parts_of(key, sink);
                parts_of(value, sink);
            }
            return sink(Part::Close(Aggregate::Map));
        }
        Reply::Array(items) => (Aggregate::Array, items),
        Reply::Set(items) => (Aggregate::Set, items),
        Reply::Push(items) => (Aggregate::Push, items),
    };
    sink(Part::Open(kind, items.len() as u64));
    items.iter().for_each(|item| parts_of(item, sink));
    sink(Part::Close(kind));
}

/// Where in its aggregate an element stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It is the reply.
    Top,
    /// The first of an aggregate.
    First(Aggregate),
    /// A further one, not a map's value.
    Further(Aggregate),
    /// A map's value.
    Value,
}

/// Follows the parts of a reply and knows where each element stands.
#[derive(Default)]
struct Places(Vec<(Aggregate, u64)>);

impl Places {
    /// The place of the element that `part` begins; `None` when it begins none.
    fn next(&mut self, part: &Part) -> Option<Place> {
        match part {
            Part::Bytes(_) | Part::EndText => return None,
            Part::Close(_) => {
                self.0.pop();
                return None;
            }
            _ => {}
        }
        let place = match self.0.last_mut() {
            None => Place::Top,
            Some((kind, index)) => {
                *index += 1;
                match (*kind, *index) {
                    (kind, 1) => Place::First(kind),
                    (Aggregate::Map, index) if index % 2 == 0 => Place::Value,
                    (kind, _) => Place::Further(kind),
                }
            }
        };
        if let Part::Open(kind, _) = part {
            self.0.push((*kind, 0));
        }
        Some(place)
    }
}

#[cfg(test)]
mod tests;
