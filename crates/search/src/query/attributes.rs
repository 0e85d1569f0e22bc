//! Attributes of a node: `=>{$weight: 2; $slop: 1; …}`.

use super::ast::{Kind as NodeKind, Node, VectorQuery};
use crate::Error;
use crate::number::{parse_c, parse_c_integer};
use std::borrow::Cow;

/// A name and its value, as the query or a parameter has it. The name is checked when it is applied.
pub(super) struct Attribute<'q> {
    pub name: &'q [u8],
    pub value: Cow<'q, [u8]>,
}

/// Gives a node its attributes, of which one that is repeated has its last value.
pub(super) fn apply(node: &mut Node, attributes: &[Attribute<'_>]) -> Result<(), Error> {
    attributes.iter().try_for_each(|attribute| apply_one(node, attribute))
}

fn apply_one(node: &mut Node, attribute: &Attribute<'_>) -> Result<(), Error> {
    let (name, value) = (attribute.name, &*attribute.value);
    let invalid = || {
        let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        Error::new(format!("Invalid value ({value}) for `{name}`"))
    };
    if value.is_empty() {
        return Err(invalid());
    }
    match name.to_ascii_lowercase().as_slice() {
        b"slop" => {
            let slop = parse_c_integer(value).filter(|slop| *slop >= -1).ok_or_else(invalid)?;
            node.attributes.slop = u32::try_from(slop.min(i64::from(i32::MAX))).ok();
        }
        b"inorder" => node.attributes.in_order = Some(parse_boolean(value).ok_or_else(invalid)?),
        b"weight" => {
            let weight = parse_c(value).filter(|weight| *weight >= 0.0).ok_or_else(invalid)?;
            node.attributes.weight = weight;
        }
        b"phonetic" => node.attributes.phonetic = Some(parse_boolean(value).ok_or_else(invalid)?),
        lower => match &mut node.kind {
            NodeKind::Vector(query) => apply_to_vector(query, lower, name, value)?,
            _ => return Err(unknown(name)),
        },
    }
    Ok(())
}

fn apply_to_vector(query: &mut VectorQuery, lower: &[u8], name: &[u8], value: &[u8]) -> Result<(), Error> {
    match lower {
        b"yield_distance_as" => query.yielded = Some(value.into()),
        b"ef_runtime" | b"epsilon" | b"hybrid_policy" | b"batch_size" => {
            query.options.push((name.into(), value.into()));
        }
        _ => return Err(unknown(name)),
    }
    Ok(())
}

fn unknown(name: &[u8]) -> Error {
    Error::new(format!("Invalid attribute {}", String::from_utf8_lossy(name)))
}

fn parse_boolean(value: &[u8]) -> Option<bool> {
    match value.to_ascii_lowercase().as_slice() {
        b"true" | b"1" => Some(true),
        b"false" | b"0" => Some(false),
        _ => None,
    }
}
