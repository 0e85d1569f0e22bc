//! JSON text: in by serde_json, whose errors and numbers are ReJSON's (it uses the same parser), out by our
//! own writer.
//!
//! Integers stay integers as far as `i64` and `u64` reach; all others become the nearest double, `-0`
//! included. A number that overflows a double, a lone surrogate and a 128th level of containers are errors.
//! Of two members of one name the last is kept, at the first one's position.

use crate::error::{Error, Result};
use crate::value::{FloatKind, Member, Node, Number, SMALL_MAX, Value, View, are_distinct};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// Room for children of open containers, in a text that may have so many.
const CHILDREN: usize = 16;

/// Parses a JSON text. `floats` is JSON.SET's FPHA.
///
/// # Errors
/// The text is not UTF-8 or no JSON, or an element does not fit FPHA's type.
pub fn parse(text: &[u8], floats: Option<FloatKind>) -> Result<Value> {
    let text = std::str::from_utf8(text).map_err(|_| Error::NotUtf8)?;
    let room = if text.len() < CHILDREN { 0 } else { CHILDREN };
    let (values, members) = (Vec::with_capacity(room), Vec::with_capacity(room));
    let mut builder = Builder { values, members, floats, out_of_range: false };
    let mut parser = serde_json::Deserializer::from_str(text);
    let value = Seed(&mut builder).deserialize(&mut parser);
    match value.and_then(|value| parser.end().map(|()| value)) {
        Ok(value) => Ok(value),
        Err(_) if builder.out_of_range => Err(Error::OutOfRange),
        Err(error) => Err(Error::Syntax(error.to_string())),
    }
}

/// Parses the text of a number, as NUMINCRBY's argument is.
///
/// # Errors
/// The text is no JSON, or JSON of another type.
pub fn parse_number(text: &[u8]) -> Result<Number> {
    let value = parse(text, None).map_err(Error::for_argument)?;
    value.as_number().ok_or(Error::NotANumberArgument)
}

/// The children that have been parsed of all open containers.
struct Builder {
    values: Vec<Value>,
    members: Vec<Member>,
    floats: Option<FloatKind>,
    out_of_range: bool,
}

struct Seed<'b>(&'b mut Builder);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> std::result::Result<Value, D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> std::result::Result<Value, E> {
        Ok(Value::NULL)
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Value, E> {
        Ok(Value::bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<Value, E> {
        Ok(Value::number(Number::Int(value)))
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<Value, E> {
        Ok(Value::number(Number::from_u64(value)))
    }

    fn visit_f64<E>(self, value: f64) -> std::result::Result<Value, E> {
        Ok(Value::number(Number::Float(value)))
    }

    fn visit_str<E>(self, text: &str) -> std::result::Result<Value, E> {
        Ok(Value::text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> std::result::Result<Value, A::Error> {
        let builder = self.0;
        let start = builder.values.len();
        while let Some(value) = elements.next_element_seed(Seed(builder))? {
            builder.values.push(value);
        }
        let Some(kind) = builder.floats else { return Ok(Value::array(builder.values.drain(start..))) };
        Value::float_array(builder.values.split_off(start), kind).map_err(|_| {
            builder.out_of_range = true;
            A::Error::custom("value out of range")
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> std::result::Result<Value, A::Error> {
        let builder = self.0;
        let start = builder.members.len();
        while let Some(name) = members.next_key_seed(Name)? {
            let value = members.next_value_seed(Seed(builder))?;
            builder.members.push(Member::new(name, value));
        }
        let new = builder.members.get(start..).unwrap_or_default();
        let is_distinct = new.len() <= SMALL_MAX && are_distinct(new);
        let members = builder.members.drain(start..);
        Ok(if is_distinct { Value::distinct_object(members) } else { Value::object(members) })
    }
}

/// A member's name.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> std::result::Result<Value, D::Error> {
        parser.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> std::result::Result<Value, E> {
        Ok(Value::text(text))
    }
}

/// JSON.GET's INDENT, NEWLINE and SPACE; none of them by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout<'a> {
    /// Comes once per level before each member and element and each closing bracket.
    pub indent: &'a [u8],
    /// Comes before that.
    pub newline: &'a [u8],
    /// Comes after each colon.
    pub space: &'a [u8],
}

/// Writes JSON text with a layout. Containers are opened and closed by the caller.
pub struct Writer<'a, 'o> {
    layout: Layout<'a>,
    out: &'o mut Vec<u8>,
    level: usize,
    /// Whether the open container has a child.
    has_child: bool,
}

impl<'a, 'o> Writer<'a, 'o> {
    /// A writer that appends to `out`.
    pub fn new(layout: Layout<'a>, out: &'o mut Vec<u8>) -> Writer<'a, 'o> {
        Writer { layout, out, level: 0, has_child: false }
    }

    /// Opens a container.
    pub fn open(&mut self, bracket: u8) {
        self.out.push(bracket);
        self.level += 1;
        self.has_child = false;
    }

    /// Closes a container.
    pub fn close(&mut self, bracket: u8) {
        self.level -= 1;
        if self.has_child {
            self.break_line();
        }
        self.out.push(bracket);
        self.has_child = true;
    }

    fn break_line(&mut self) {
        self.out.extend(self.layout.newline);
        for _ in 0..self.level {
            self.out.extend(self.layout.indent);
        }
    }

    /// Comes before each element, and before each member's name by [`Writer::name`].
    pub fn separate(&mut self) {
        if self.has_child {
            self.out.push(b',');
        }
        self.break_line();
        self.has_child = true;
    }

    /// Begins a member.
    pub fn name(&mut self, name: &str) {
        self.separate();
        write_text(name, self.out);
        self.out.push(b':');
        self.out.extend(self.layout.space);
    }

    /// Writes a whole value.
    pub fn value(&mut self, node: Node<'_>) {
        match node.view() {
            View::Null => self.out.extend(b"null"),
            View::Bool(true) => self.out.extend(b"true"),
            View::Bool(false) => self.out.extend(b"false"),
            View::Number(number) => number.write(self.out),
            View::Text(text) => write_text(text, self.out),
            View::Array(array) => {
                self.open(b'[');
                for index in 0..array.len() {
                    self.separate();
                    if let Err(node) = array.write_number(index, self.out) {
                        self.value(node);
                    }
                }
                self.close(b']');
            }
            View::Object(object) => {
                self.open(b'{');
                for member in object.members() {
                    self.name(member.name());
                    self.value(Node::Value(member.value()));
                }
                self.close(b'}');
            }
        }
    }
}

/// Appends a value's text.
pub fn write(node: Node<'_>, layout: Layout<'_>, out: &mut Vec<u8>) {
    Writer::new(layout, out).value(node);
}

/// A value's text without a layout.
pub fn to_text(node: Node<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    write(node, Layout::default(), &mut out);
    out
}

/// Appends a string in quotes: only quotes, backslashes and control characters are escaped.
fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut written = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if *byte >= b' ' && *byte != b'"' && *byte != b'\\' {
            continue;
        }
        out.extend(&bytes[written..at]);
        written = at + 1;
        match byte {
            b'"' => out.extend(b"\\\""),
            b'\\' => out.extend(b"\\\\"),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0x08 => out.extend(b"\\b"),
            0x0C => out.extend(b"\\f"),
            byte => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend(b"\\u00");
                out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
    }
    out.extend(&bytes[written..]);
    out.push(b'"');
}
