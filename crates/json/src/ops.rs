//! The JSON commands' operations, as functions of a document and parsed arguments.
//!
//! Each either succeeds or leaves the document as it was. Results are typed; the command's layer makes
//! replies of them. A path of the legacy dialect has an [`Answer::Legacy`], a JSONPath one result for each
//! place.

mod array;
mod number;
mod read;
mod write;

pub use array::{Found, arr_append, arr_index, arr_insert, arr_len, arr_pop, arr_trim, kept_range};
pub use number::{NumberOperation, number_operation};
pub use read::{get, get_several, kind, memory_bytes, obj_keys, obj_len, resp, str_len};
pub use write::{Condition, Deleted, Outcome, clear, create, delete, merge, set, str_append, toggle};

use crate::document::Document;
use crate::error::{Error, Result};
use crate::path::{Path, Place, PlaceStep};
use crate::value::{Kind, Node};
use std::cmp::Ordering;

/// A result in the shape of the path's dialect.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<T> {
    /// The one result of a legacy path.
    Legacy(T),
    /// A result for each place of a JSONPath; none where a value of another type stands.
    Paths(Vec<Option<T>>),
}

impl<T> Answer<T> {
    /// Every result as another.
    pub fn map<U>(self, f: impl Fn(T) -> U) -> Answer<U> {
        match self {
            Answer::Legacy(result) => Answer::Legacy(f(result)),
            Answer::Paths(results) => {
                Answer::Paths(results.into_iter().map(|result| result.map(&f)).collect())
            }
        }
    }

    /// Whether there is a result, so that a write has changed something.
    pub fn has_result(&self) -> bool {
        match self {
            Answer::Legacy(_) => true,
            Answer::Paths(results) => results.iter().any(Option::is_some),
        }
    }
}

/// The places of a path, none where `is_right` says no.
fn targets(
    document: &Document,
    path: &Path,
    is_right: impl Fn(Node<'_>) -> bool,
) -> Result<Vec<Option<Place>>> {
    let places = path.places(document.root())?;
    Ok(places.into_iter().map(|(node, place)| is_right(node).then_some(place)).collect())
}

/// Calls `f` with each target, in the order of places or in one that keeps later places valid, and restores
/// the document if one fails. `missing` is a legacy path's error if there is no target.
fn update<T>(
    document: &mut Document,
    path: &Path,
    kind: impl Fn(Node<'_>) -> bool,
    order: Order,
    missing: impl FnOnce() -> Error,
    mut f: impl FnMut(&mut Document, &Place) -> Result<T>,
) -> Result<Answer<T>> {
    let mut targets = targets(document, path, kind)?;
    if targets.len() == 1 {
        // Most paths lead to one place.
        let result = targets.pop().flatten().map(|place| f(document, &place)).transpose()?;
        return match (path.is_legacy(), result) {
            (false, result) => Ok(Answer::Paths(vec![result])),
            (true, Some(result)) => Ok(Answer::Legacy(result)),
            (true, None) => Err(missing()),
        };
    }
    let mut turns: Vec<usize> = (0..targets.len()).filter(|at| targets[*at].is_some()).collect();
    if path.is_legacy() && turns.is_empty() {
        return Err(missing());
    }
    if order == Order::DeepestFirst {
        turns.sort_by(|a, b| match (&targets[*a], &targets[*b]) {
            (Some(a), Some(b)) => mutation_order(a, b),
            _ => Ordering::Equal,
        });
    }
    // One edit fails without having changed anything.
    let backup = (turns.len() > 1).then(|| document.clone());
    let mut results: Vec<Option<T>> = targets.iter().map(|_| None).collect();
    let mut last = None;
    for at in turns {
        let Some(place) = &targets[at] else { continue };
        match f(document, place) {
            Ok(result) => {
                results[at] = Some(result);
                last = Some(at);
            }
            Err(error) => {
                if let Some(backup) = backup {
                    *document = backup;
                }
                return Err(error);
            }
        }
    }
    if !path.is_legacy() {
        return Ok(Answer::Paths(results));
    }
    let last = last.and_then(|at| results.swap_remove(at));
    last.map(Answer::Legacy).ok_or_else(|| Error::NoPath(path.text().to_owned()))
}

/// In which order the places of a path are changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    AsFound,
    DeepestFirst,
}

/// ReJSON's order of changes that move elements: deeper places first, and higher indices before lower ones,
/// so that no change moves a later one's place. The order also decides in which order members remain after a
/// deletion.
fn mutation_order(a: &Place, b: &Place) -> Ordering {
    for (a, b) in a.iter().zip(b) {
        let order = match (index_of(a), index_of(b)) {
            (Some(a), Some(b)) => b.cmp(&a),
            (Some(_), None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
            (None, None) => text_of(a).cmp(text_of(b)),
        };
        if order.is_ne() {
            return order;
        }
    }
    b.len().cmp(&a.len())
}

/// An index, or a name that spells one: ReJSON treats both alike here.
fn index_of(step: &PlaceStep) -> Option<usize> {
    match step {
        PlaceStep::Index(index) => Some(*index),
        PlaceStep::Name(name) => name.as_str().and_then(|name| name.parse().ok()),
    }
}

fn text_of(step: &PlaceStep) -> &str {
    match step {
        PlaceStep::Index(_) => "",
        PlaceStep::Name(name) => name.as_str().unwrap_or_default(),
    }
}

/// Drops places that are in others, and places that occur again, and sorts the rest for changes.
fn outermost(mut places: Vec<Place>) -> Vec<Place> {
    if places.len() < 2 {
        return places;
    }
    places.sort_by(document_order);
    let mut kept: Vec<Place> = Vec::with_capacity(places.len());
    for place in places {
        // All places below one follow it directly.
        if !kept.last().is_some_and(|above| place.starts_with(above)) {
            kept.push(place);
        }
    }
    kept.sort_by(mutation_order);
    kept
}

/// An order in which the places below one follow it directly.
fn document_order(a: &Place, b: &Place) -> Ordering {
    for (a, b) in a.iter().zip(b) {
        let order = match (a, b) {
            (PlaceStep::Index(a), PlaceStep::Index(b)) => a.cmp(b),
            (PlaceStep::Name(a), PlaceStep::Name(b)) => a.as_str().cmp(&b.as_str()),
            (PlaceStep::Index(_), PlaceStep::Name(_)) => Ordering::Less,
            (PlaceStep::Name(_), PlaceStep::Index(_)) => Ordering::Greater,
        };
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

/// The first value at a legacy path.
fn first<'d>(document: &'d Document, path: &'d Path) -> Result<Option<Node<'d>>> {
    Ok(path.nodes(document.root())?.first().copied())
}

/// The error for a value of another type at a legacy path.
fn wrong_type(expected: Kind, found: Node<'_>) -> Error {
    Error::WrongType(expected, found.kind().name().to_owned())
}

#[cfg(test)]
mod tests;
