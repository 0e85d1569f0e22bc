//! Parameters of a query: `PARAMS`, and the places of a tree that take their values.

use super::ast::{Circle, Kind, Near, Node, Pending, Target, Unit};
use super::escape::folded;
use crate::Error;
use crate::number::{parse_c, parse_c_integer};
use std::collections::HashMap;

/// The values that a query's text names with a dollar.
#[derive(Clone, Debug, Default)]
pub struct Params(HashMap<Vec<u8>, Vec<u8>>);

impl Params {
    /// No parameters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one, whose name is new.
    pub fn insert(&mut self, name: &[u8], value: &[u8]) -> Result<(), Error> {
        if self.0.contains_key(name) {
            return Err(Error::new(format!("Duplicate parameter `{}`", show(name))));
        }
        self.0.insert(name.to_vec(), value.to_vec());
        Ok(())
    }

    /// The value of the one of this name.
    pub fn get(&self, name: &[u8]) -> Result<&[u8], Error> {
        let value = self.0.get(name).map(|value| &**value);
        value.ok_or_else(|| Error::new(format!("No such parameter `{}`", show(name))))
    }
}

fn show(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Gives every node of a tree the values that it waits for.
pub(super) fn resolve(node: &mut Node, params: &Params) -> Result<(), Error> {
    let pending = std::mem::take(&mut node.pending);
    let is_option = |pending: &&Pending| matches!(pending.target, Target::Option(_));
    for pending in pending.iter().filter(|pending| !is_option(pending)) {
        fill(node, pending, params)?;
    }
    for pending in pending.iter().filter(is_option) {
        fill(node, pending, params)?;
    }
    node.children_mut().iter_mut().try_for_each(|child| resolve(child, params))
}

fn fill(node: &mut Node, pending: &Pending, params: &Params) -> Result<(), Error> {
    let value = params.get(&pending.name)?;
    match &mut node.kind {
        Kind::Term(term) if pending.target == Target::ExactText => term.text = value.into(),
        Kind::Term(term) => {
            term.text = folded(value).into();
            node.verbatim |= parse_c(value).is_some();
        }
        Kind::Affix(affix) if pending.target == Target::ExactText => affix.text = value.into(),
        Kind::Affix(affix) => affix.text = folded(value).into(),
        Kind::Fuzzy(fuzzy) => fuzzy.text = folded(value).into(),
        Kind::Wildcard(pattern) => *pattern = value.into(),
        Kind::Shape(shape) => shape.text = value.into(),
        Kind::Numeric(range) => match pending.target {
            Target::Min => range.min = number(value, pending)?,
            Target::Max => range.max = number(value, pending)?,
            Target::RangeMin => range.min = range_end(value, pending, true)?,
            _ => range.max = range_end(value, pending, false)?,
        },
        Kind::Geo(circle) => match pending.target {
            Target::Longitude => circle.longitude = number(value, pending)?,
            Target::Latitude => circle.latitude = number(value, pending)?,
            Target::Radius => circle.radius = number(value, pending)?,
            _ => circle.unit = Unit::parse(value),
        },
        Kind::Vector(query) => match pending.target {
            Target::Vector => query.vector = value.into(),
            Target::Count => {
                let count = parse_c_integer(value).and_then(|count| u64::try_from(count).ok());
                query.near = Near::Nearest(count.ok_or_else(|| invalid_number(value, pending))?);
            }
            Target::Distance => query.near = Near::Within(number(value, pending)?),
            Target::DistanceField => query.distance_field = Some(value.into()),
            Target::Option(place) => {
                if let Some((_, option)) = query.options.get_mut(place) {
                    *option = value.into();
                }
            }
            _ => {}
        },
        _ => {}
    }
    Ok(())
}

fn invalid_number(value: &[u8], pending: &Pending) -> Error {
    let (value, name) = (show(value), show(&pending.name));
    Error::new(format!("Invalid numeric value ({value}) for parameter `{name}`"))
}

fn number(value: &[u8], pending: &Pending) -> Result<f64, Error> {
    let number = parse_c(value).ok_or_else(|| invalid_number(value, pending))?;
    Ok(if pending.is_negative { -number } else { number })
}

/// An end of a range, of which infinity is only the outer one.
fn range_end(value: &[u8], pending: &Pending, is_min: bool) -> Result<f64, Error> {
    // The parenthesis of an excluded end belongs to the query, but RediSearch passes over it here.
    let text = value.strip_prefix(b"(").unwrap_or(value);
    let unsigned = text.strip_prefix(b"+").unwrap_or(text);
    let names_outer = match is_min == pending.is_negative {
        true => unsigned.eq_ignore_ascii_case(b"inf"),
        false => text.eq_ignore_ascii_case(b"-inf"),
    };
    if names_outer {
        return Ok(if is_min { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    let number = parse_c(text).filter(|number| !number.is_infinite());
    let number = number.ok_or_else(|| {
        let end = if is_min { "lower" } else { "upper" };
        Error::new(format!("Bad {end} range: {}", show(text)))
    })?;
    Ok(if pending.is_negative { -number } else { number })
}

/// Whether a circle is one on the globe.
pub(super) fn check_circle(circle: &Circle) -> Result<(), Error> {
    if circle.unit.is_none() {
        return Err(Error::new("Invalid GeoFilter unit"));
    }
    if circle.latitude.abs() > 90.0 || circle.longitude.abs() > 180.0 {
        return Err(Error::new("Invalid GeoFilter lat/lon"));
    }
    if circle.radius <= 0.0 {
        return Err(Error::new("Invalid GeoFilter radius"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_value() {
        let mut params = Params::new();
        params.insert(b"a", b"1").expect("the first");
        assert_eq!(params.insert(b"a", b"2").expect_err("twice").text(), "Duplicate parameter `a`");
        assert_eq!(params.get(b"a"), Ok(&b"1"[..]));
        assert_eq!(params.get(b"b").expect_err("none").text(), "No such parameter `b`");
    }
}
