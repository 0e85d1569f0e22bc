//! Values as the keyspace holds them, to be encoded and decoded.
//!
//! Invariant: nothing is copied for encoding; decoding moves.

use martlet_keyspace::{Entry, StrValue, Value as Stored};
use martlet_types::element::Element;

use crate::decode::Value;
use crate::encode::Source;

/// What an entry holds, to be encoded.
pub fn source_of<'a>(entry: &Entry<'a>) -> Option<Source<'a>> {
    let string = entry.str().map(Source::from);
    string
        .or_else(|| entry.object().map(Source::List))
        .or_else(|| entry.object().map(Source::Set))
        .or_else(|| entry.object().map(Source::ZSet))
        .or_else(|| entry.object().map(Source::Hash))
        .or_else(|| entry.object().map(Source::Stream))
        .or_else(|| entry.object().map(Source::Array))
}

impl<'a> From<StrValue<'a>> for Source<'a> {
    fn from(text: StrValue<'a>) -> Source<'a> {
        match text {
            StrValue::Int(int) => Source::String(Element::Int(int)),
            StrValue::Bytes(bytes) => Source::String(Element::Bytes(bytes)),
        }
    }
}

impl<'a> From<&'a Stored> for Source<'a> {
    fn from(value: &'a Stored) -> Source<'a> {
        match value {
            Stored::Int(int) => Source::String(Element::Int(*int)),
            Stored::Str { bytes, .. } => Source::String(Element::Bytes(bytes)),
            Stored::List(list) => Source::List(list),
            Stored::Set(set) => Source::Set(set),
            Stored::ZSet(zset) => Source::ZSet(zset),
            Stored::Hash(hash) => Source::Hash(hash),
            Stored::Stream(stream) => Source::Stream(stream),
            Stored::Array(array) => Source::Array(array),
        }
    }
}

impl From<Value> for Stored {
    fn from(decoded: Value) -> Stored {
        match decoded {
            Value::String(bytes) => Stored::from_vec(bytes),
            Value::List(list) => Stored::List(list),
            Value::Set(set) => Stored::Set(set),
            Value::ZSet(zset) => Stored::ZSet(zset),
            Value::Hash(hash) => Stored::Hash(hash),
            Value::Stream(stream) => Stored::Stream(stream),
            Value::Array(array) => Stored::Array(array),
        }
    }
}
