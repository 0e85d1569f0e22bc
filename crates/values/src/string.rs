//! Strings: one form in every version.

use martlet_keyspace::{Kind, StrValue, Value, ValueRef};
use martlet_rdb::input::Input;
use martlet_rdb::{Error, read_bytes, skip_bytes, write_element};
use martlet_spec::data_type;
use martlet_types::element::Element;

use crate::descriptor::{Descriptor, RdbType};

/// The byte of strings.
pub(crate) const STRING: u8 = 0;

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    kind: Kind::String,
    rdb_types: &[RdbType { byte: STRING, since: 6 }],
    requirements: &[],
    keysizes: Some("distrib_strings_sizes"),
    view: Some(&data_type::STRING),
    rdb_type: |_, _| STRING,
    write: |value, out, _, compress| {
        if let ValueRef::Str(text) = value {
            write_element(out, element(text), compress);
        }
    },
    read_slice: |input, _| read(input),
    read: |input, _| read(input),
    skip: |input, _, _| skip_bytes(input),
    commands: |value, key, out| {
        if let ValueRef::Str(text) = value {
            out.put(&[b"SET", key, &text.to_vec()]);
        }
    },
    digest: |value, digest| {
        if let ValueRef::Str(text) = value {
            digest.mix_element(element(text));
        }
    },
    export: |value, out| {
        if let ValueRef::Str(text) = value {
            out.element(element(text));
        }
    },
};

/// A string as an element of the format.
pub(crate) fn element(text: StrValue<'_>) -> Element<'_> {
    match text {
        StrValue::Int(int) => Element::Int(int),
        StrValue::Bytes(bytes) => Element::Bytes(bytes),
    }
}

fn read(input: &mut (impl Input + ?Sized)) -> Result<Value, Error> {
    read_bytes(input, &mut Vec::new()).map(|bytes| Value::from_vec(bytes.to_vec()))
}
