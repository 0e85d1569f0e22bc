//! Values as replies: JSON.GET's and JSON.ARRPOP's FORMAT, and JSON.RESP.

use martlet_json::text::{Layout, write};
use martlet_json::value::{Node, Number, View};
use martlet_protocol::reply::Reply;
use martlet_spec::Error;

/// The forms of values in RESP3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON text, one for all values of a path.
    String,
    /// JSON text, one for each value.
    Strings,
    /// Scalars as replies, containers and strings as JSON text.
    Expand1,
    /// Every value as a reply.
    Expand,
}

impl Format {
    /// The format of this name.
    pub(super) fn parse(name: &[u8]) -> Result<Format, Error> {
        Ok(match name {
            b"STRING" => Format::String,
            b"STRINGS" => Format::Strings,
            b"EXPAND1" => Format::Expand1,
            b"EXPAND" => Format::Expand,
            _ => return Err(WRONG_FORMAT),
        })
    }

    /// Whether values become replies.
    pub(super) fn expands(self) -> bool {
        matches!(self, Format::Expand1 | Format::Expand)
    }
}

pub(super) const WRONG_FORMAT: Error = Error::Fixed("ERR wrong reply format");
pub(super) const NOT_IN_RESP2: Error = Error::Fixed("ERR FORMAT argument is not supported on RESP2");

/// Writes an expanded value.
pub(super) fn expand(reply: &mut Reply, node: Node<'_>, format: Format, layout: Layout<'_>) {
    match node.view() {
        View::Null => reply.null(),
        View::Bool(value) => reply.bool(value),
        View::Number(value) => number(reply, value),
        _ if format == Format::Expand1 => {
            let mut text = Vec::new();
            write(node, layout, &mut text);
            reply.bulk(&text);
        }
        View::Text(text) => reply.bulk(text.as_bytes()),
        View::Array(array) => {
            reply.array(array.len());
            array.iter().for_each(|element| expand(reply, element, format, layout));
        }
        View::Object(object) => {
            reply.map(object.len());
            for member in object.members() {
                reply.bulk(member.name().as_bytes());
                expand(reply, Node::Value(member.value()), format, layout);
            }
        }
    }
}

/// Writes a number: an integer up to 64 bits with a sign, else a double.
pub(super) fn number(reply: &mut Reply, number: Number) {
    match number {
        Number::Int(value) => reply.int(value),
        other => reply.double(other.as_f64()),
    }
}

/// Writes a value as JSON.RESP does: a container is an array that its opening bracket begins.
pub(super) fn resp(reply: &mut Reply, node: Node<'_>) {
    match node.view() {
        View::Null => reply.null(),
        View::Bool(value) => reply.simple(if value { "true" } else { "false" }),
        View::Number(value) => number(reply, value),
        View::Text(text) => reply.bulk(text.as_bytes()),
        View::Array(array) => {
            reply.array(array.len() + 1);
            reply.simple("[");
            array.iter().for_each(|element| resp(reply, element));
        }
        View::Object(object) => {
            reply.array(2 * object.len() + 1);
            reply.simple("{");
            for member in object.members() {
                reply.bulk(member.name().as_bytes());
                resp(reply, Node::Value(member.value()));
            }
        }
    }
}
