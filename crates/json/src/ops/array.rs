//! JSON.ARR*.

use super::{Answer, Order, first, update, wrong_type};
use crate::document::{Document, check_depth, measured};
use crate::error::{Error, Result};
use crate::path::{Path, Place};
use crate::value::{Array, Kind, Node, Value, View};

/// Where JSON.ARRINDEX found the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The first index.
    Index(usize),
    /// Nowhere.
    Nowhere,
}

fn array(node: Node<'_>) -> Option<Array<'_>> {
    match node.view() {
        View::Array(array) => Some(array),
        _ => None,
    }
}

fn is_array(node: Node<'_>) -> bool {
    array(node).is_some()
}

/// The array at a place that was found to be one.
fn array_at<'d>(document: &'d Document, path: &Path, place: &Place) -> Result<Array<'d>> {
    let found = document.get(place).and_then(array);
    found.ok_or_else(|| Error::NoPath(path.text().to_owned()))
}

/// JSON.ARRLEN.
///
/// # Errors
/// A legacy path leads to nothing or to no array, or a limit of paths.
pub fn arr_len(document: &Document, path: &Path) -> Result<Answer<usize>> {
    let length = |node| array(node).map(Array::len);
    if !path.is_legacy() {
        return Ok(Answer::Paths(path.nodes(document.root())?.into_iter().map(length).collect()));
    }
    let node = first(document, path)?.ok_or_else(|| Error::NoPath(path.original().to_owned()))?;
    let length = length(node).map(Answer::Legacy);
    length.ok_or_else(|| Error::NoPathOr(path.original().to_owned(), "not an array"))
}

/// JSON.ARRINDEX: where the first element equal to `value` is, from `start` on and before `stop`. Negative
/// ones count from the end; a `stop` of 0 is the end.
///
/// # Errors
/// A legacy path leads to nothing or to no array, or a limit of paths.
pub fn arr_index(
    document: &Document,
    path: &Path,
    value: &Value,
    start: i64,
    stop: i64,
) -> Result<Answer<Found>> {
    let search = |node| array(node).map(|array| search(array, value, start, stop));
    if !path.is_legacy() {
        return Ok(Answer::Paths(path.nodes(document.root())?.into_iter().map(search).collect()));
    }
    let node = first(document, path)?.ok_or_else(|| Error::NoPath(path.text().to_owned()))?;
    search(node).map(Answer::Legacy).ok_or_else(|| wrong_type(Kind::Array, node))
}

fn search(array: Array<'_>, value: &Value, start: i64, stop: i64) -> Found {
    if array.is_empty() {
        return Found::Nowhere;
    }
    let start = clamp(start, array.len());
    let stop = match stop {
        0 => array.len(),
        stop if stop < 0 => from_end(stop, array.len()),
        stop => usize::try_from(stop).unwrap_or(usize::MAX).min(array.len()),
    };
    let mut indices = start..stop;
    let found = indices.find(|index| array.get(*index).is_some_and(|node| node.equals(Node::Value(value))));
    found.map_or(Found::Nowhere, Found::Index)
}

/// A negative index from the end, at least 0.
fn from_end(index: i64, length: usize) -> usize {
    length.saturating_sub(usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX))
}

/// An index within an array that is not empty; those outside are its first or last.
fn clamp(index: i64, length: usize) -> usize {
    match usize::try_from(index) {
        Ok(index) => index.min(length.saturating_sub(1)),
        Err(_) => from_end(index, length),
    }
}

/// Changes each array that a path leads to, those within others first.
fn update_inner_first<T>(
    document: &mut Document,
    path: &Path,
    change: impl FnMut(&mut Document, &Place) -> Result<T>,
) -> Result<Answer<T>> {
    let missing = || Error::NoPathOr(path.text().to_owned(), "not an array");
    update(document, path, is_array, Order::DeepestFirst, missing, change)
}

/// JSON.ARRAPPEND; the lengths.
///
/// # Errors
/// A legacy path leads to no array, an element would nest too deeply, or a limit of paths.
pub fn arr_append(document: &mut Document, path: &Path, values: &[Value]) -> Result<Answer<usize>> {
    update(
        document,
        path,
        is_array,
        Order::AsFound,
        || Error::NoPathOr(path.original().to_owned(), "not an array"),
        |document, place| {
            let end = array_at(document, path, place)?.len();
            insert(document, path, place, end, values)
        },
    )
}

/// JSON.ARRINSERT before an index, which counts from the end if it is negative; the lengths.
///
/// # Errors
/// A legacy path leads to no array, the index lies outside of one, an element would nest too deeply, or a
/// limit of paths.
pub fn arr_insert(
    document: &mut Document,
    path: &Path,
    index: i64,
    values: &[Value],
) -> Result<Answer<usize>> {
    update_inner_first(document, path, |document, place| {
        let length = array_at(document, path, place)?.len();
        let at = if index < 0 { index.checked_add(length as i64) } else { Some(index) };
        let at = at.and_then(|at| usize::try_from(at).ok()).filter(|at| *at <= length);
        insert(document, path, place, at.ok_or(Error::IndexOutOfBounds)?, values)
    })
}

fn insert(document: &mut Document, path: &Path, place: &Place, at: usize, values: &[Value]) -> Result<usize> {
    values.iter().try_for_each(|value| check_depth(place.len() + 1, value))?;
    let bytes: isize = values.iter().map(Value::all_bytes).sum();
    document.edit(place, |array, heap| {
        measured(array, bytes, heap, |array| array.insert_elements(at, values.to_vec()));
    });
    array_at(document, path, place).map(Array::len)
}

/// JSON.ARRPOP at an index, which counts from the end if it is negative, and is the first or last if it lies
/// outside. The element, or none of an empty array.
///
/// # Errors
/// A legacy path leads to no array, or a limit of paths.
pub fn arr_pop(document: &mut Document, path: &Path, index: i64) -> Result<Answer<Option<Value>>> {
    update_inner_first(document, path, |document, place| {
        let array = array_at(document, path, place)?;
        if array.is_empty() {
            return Ok(None);
        }
        let index = clamp(index, array.len());
        let bytes = match array {
            Array::Values(values) => values.get(index).map_or(0, Value::all_bytes),
            Array::Typed(_) => 0,
        };
        let popped = document
            .edit(place, |array, heap| measured(array, -bytes, heap, |array| array.remove_element(index)));
        Ok(popped.flatten())
    })
}

/// The elements of an array of this length that JSON.ARRTRIM leaves. Negative indexes count from the end.
pub fn kept_range(length: usize, start: i64, stop: i64) -> std::ops::Range<usize> {
    let is_behind = usize::try_from(start).is_ok_and(|start| start >= length);
    let (first, last) = (clamp(start, length), clamp(stop, length));
    if length == 0 || is_behind || first > last { 0..0 } else { first..last + 1 }
}

/// JSON.ARRTRIM to the elements from `start` to `stop`, both included; the lengths. Negative ones count from
/// the end; a `start` behind the end or behind `stop` leaves nothing.
///
/// # Errors
/// A legacy path leads to no array, or a limit of paths.
pub fn arr_trim(document: &mut Document, path: &Path, start: i64, stop: i64) -> Result<Answer<usize>> {
    update_inner_first(document, path, |document, place| {
        let array = array_at(document, path, place)?;
        let length = array.len();
        let range = kept_range(length, start, stop);
        let bytes: isize = match array {
            Array::Values(values) => {
                let dropped = values.iter().enumerate().filter(|(at, _)| !range.contains(at));
                dropped.map(|(_, value)| value.all_bytes()).sum()
            }
            Array::Typed(_) => 0,
        };
        document.edit(place, |array, heap| {
            measured(array, -bytes, heap, |array| array.keep_elements(range));
        });
        array_at(document, path, place).map(Array::len)
    })
}
