//! JSON.SET, MERGE, DEL, CLEAR, TOGGLE, STRAPPEND.

use super::{Answer, Order, outermost, targets, update};
use crate::document::{Document, check_depth, put_member, remove_member};
use crate::error::{Error, Result};
use crate::path::{Last, Path, Place};
use crate::text::{parse, to_text};
use crate::value::{Kind, Node, Number, Value, View, replace};

/// When JSON.SET sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    #[default]
    Always,
    /// NX: where nothing stands.
    Missing,
    /// XX: where a value stands.
    Present,
}

/// The result of JSON.DEL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The whole document is to be removed.
    Document,
    /// The number of removed values.
    Values(usize),
}

/// Places where a value goes.
enum Targets {
    Present(Vec<Place>),
    /// Under a name, in values that may be objects.
    New(Vec<Place>, String),
    None,
}

/// JSON.SET or JSON.MERGE on a document that does not exist.
///
/// # Errors
/// The path is not the root.
pub fn create(path: &Path, value: Value) -> Result<Document> {
    if path.is_root() { Document::new(value) } else { Err(Error::NewAtRoot) }
}

/// JSON.SET on a document that exists. Of places within each other, only the outermost are set. Where nothing
/// stands, a member is added if the path leads to one name in objects that exist. Whether all places were set
/// (JSON.SET answers OK); the document has changed if at least one was.
///
/// # Errors
/// A path that leads to several places, or to an element, where nothing stands; the value would nest too
/// deeply; a limit of paths.
pub fn set(document: &mut Document, path: &Path, value: Value, condition: Condition) -> Result<Outcome> {
    if path.is_root() {
        if condition == Condition::Missing {
            return Ok(Outcome::default());
        }
        *document = Document::new(value)?;
        return Ok(Outcome { changed: true, complete: true });
    }
    let targets = match condition {
        Condition::Missing => new_targets(document, path)?,
        _ => {
            let places = path.places(document.root())?.into_iter().map(|(_, place)| place).collect();
            match outermost(places) {
                places if !places.is_empty() => Targets::Present(places),
                _ if condition == Condition::Present => Targets::None,
                _ => new_targets(document, path)?,
            }
        }
    };
    apply(document, targets, |_, _| value.clone(), value.depth())
}

/// The result of a write with several places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// A value was changed.
    pub changed: bool,
    /// Every place was changed, and there was one.
    pub complete: bool,
}

impl Outcome {
    fn count(places: usize, changed: usize) -> Outcome {
        Outcome { changed: changed > 0, complete: changed > 0 && changed == places }
    }
}

/// The objects to which the path's last name is to be added.
fn new_targets(document: &Document, path: &Path) -> Result<Targets> {
    if path.is_expression() {
        return Err(Error::Expression);
    }
    if !path.is_static() {
        return Err(Error::NotStatic);
    }
    match path.last() {
        None => Err(Error::NoLastKey),
        Some(Last::Name(name)) => {
            let places = path.parents(document.root())?.into_iter().map(|(_, place)| place).collect();
            Ok(Targets::New(places, name.to_owned()))
        }
        Some(Last::Index) if path.nodes(document.root())?.is_empty() => Err(Error::ArrayIndex),
        Some(Last::Index | Last::Other) => Ok(Targets::None),
    }
}

/// Puts the result of `value` in every place.
fn apply(
    document: &mut Document,
    targets: Targets,
    value: impl Fn(&Document, &Place) -> Value,
    depth: usize,
) -> Result<Outcome> {
    let check = |levels: usize| {
        if levels + depth < crate::limits::DEPTH_LIMIT { Ok(()) } else { Err(Error::TooDeep) }
    };
    match targets {
        Targets::None => Ok(Outcome::default()),
        Targets::Present(places) => {
            places.iter().try_for_each(|place| check(place.len()))?;
            let set = places.iter().filter(|place| {
                let value = value(document, place);
                document.set(place, value)
            });
            Ok(Outcome::count(places.len(), set.count()))
        }
        Targets::New(places, name) => {
            places.iter().try_for_each(|place| check(place.len() + 1))?;
            let added = places.iter().filter(|place| {
                let is_free = match document.get(place).map(Node::view) {
                    Some(View::Object(object)) => object.get(&name).is_none(),
                    _ => false,
                };
                let value = value(document, place);
                is_free
                    && document
                        .edit(place, |object, heap| put_member(object, Value::text(&name), value, heap))
                        .unwrap_or(false)
            });
            Ok(Outcome::count(places.len(), added.count()))
        }
    }
}

/// JSON.MERGE on a document that exists, as RFC 7386 at every place; where nothing stands, the value is added
/// as it is. Whether something was merged.
///
/// # Errors
/// As those of [`set`].
pub fn merge(document: &mut Document, path: &Path, patch: &Value) -> Result<bool> {
    let places: Vec<Place> = path.places(document.root())?.into_iter().map(|(_, place)| place).collect();
    if places.is_empty() {
        let targets = new_targets(document, path)?;
        return apply(document, targets, |_, _| patch.clone(), patch.depth()).map(|outcome| outcome.changed);
    }
    places.iter().try_for_each(|place| check_depth(place.len(), patch))?;
    let mut merged = false;
    for place in &places {
        // An element of a typed array has no value to be edited; and an earlier merge may have removed the
        // place.
        let done = document.edit(place, |value, heap| merge_into(value, patch, heap)).is_some();
        merged |= done || (document.get(place).is_some() && document.set(place, merged_with_null(patch)));
    }
    Ok(merged)
}

/// The result of a patch on a value other than an object.
fn merged_with_null(patch: &Value) -> Value {
    let mut value = Value::NULL;
    merge_into(&mut value, patch, &mut 0);
    value
}

fn merge_into(value: &mut Value, patch: &Value, heap: &mut isize) {
    let View::Object(members) = patch.view() else { return replace(value, patch.clone(), heap) };
    if !matches!(value.view(), View::Object(_)) {
        replace(value, Value::EMPTY_OBJECT, heap);
    }
    for member in members.members() {
        if matches!(member.value().view(), View::Null) {
            remove_member(value, member.name(), heap);
            continue;
        }
        let before = value.block_bytes() as isize;
        if let Some(slot) = value.member_mut(member.name()) {
            merge_into(slot, member.value(), heap);
            *heap += value.block_bytes() as isize - before;
        } else {
            put_member(value, member.name_value().clone(), merged_with_null(member.value()), heap);
        }
    }
}

/// JSON.DEL. Of places within each other, only the outermost count. The document is to be removed if the path
/// is its root.
///
/// # Errors
/// The path is an expression, or a limit of paths.
pub fn delete(document: &mut Document, path: &Path) -> Result<Deleted> {
    if path.is_root() {
        return Ok(Deleted::Document);
    }
    let places = path.places(document.root())?.into_iter().map(|(_, place)| place).collect();
    let places: Vec<Place> = outermost(places);
    if places.iter().any(Vec::is_empty) {
        return Ok(Deleted::Document);
    }
    Ok(Deleted::Values(places.iter().filter(|place| document.remove(place)).count()))
}

/// JSON.CLEAR: empties containers and sets numbers to 0. How many values changed.
///
/// # Errors
/// The path is an expression, or a limit of paths.
pub fn clear(document: &mut Document, path: &Path) -> Result<usize> {
    let is_clear = |node: Node<'_>| match node.view() {
        View::Array(array) => array.is_empty(),
        View::Object(object) => object.is_empty(),
        View::Number(number) => number.as_f64() == 0.0,
        _ => true,
    };
    let places = targets(document, path, |node| !is_clear(node))?.into_iter().flatten().collect();
    let mut cleared = 0;
    for place in outermost(places) {
        let empty = match document.get(&place).map(Node::kind) {
            Some(Kind::Array) => Value::EMPTY_ARRAY,
            Some(Kind::Object) => Value::EMPTY_OBJECT,
            _ => Value::number(Number::Int(0)),
        };
        cleared += usize::from(document.set(&place, empty));
    }
    Ok(cleared)
}

/// JSON.TOGGLE; the booleans as they are then.
///
/// # Errors
/// A legacy path leads to no boolean, or a limit of paths.
pub fn toggle(document: &mut Document, path: &Path) -> Result<Answer<bool>> {
    update(
        document,
        path,
        |node| matches!(node.view(), View::Bool(_)),
        Order::AsFound,
        || Error::NoPathOr(path.text().to_owned(), "not a bool"),
        |document, place| match document.get(place).map(Node::view) {
            Some(View::Bool(value)) => {
                document.set(place, Value::bool(!value));
                Ok(!value)
            }
            _ => Err(Error::NoPath(path.text().to_owned())),
        },
    )
}

/// JSON.STRAPPEND; returns the lengths in bytes. `suffix` is JSON text; as in ReJSON, it is parsed only if
/// the path leads to a string.
///
/// # Errors
/// A legacy path leads to no string, `suffix` is not a string, or a limit of paths.
pub fn str_append(document: &mut Document, path: &Path, suffix: &[u8]) -> Result<Answer<usize>> {
    let mut parsed: Option<Value> = None;
    update(
        document,
        path,
        |node| matches!(node.view(), View::Text(_)),
        Order::AsFound,
        || Error::NoPathOr(path.text().to_owned(), "not a string"),
        |document, place| {
            let suffix = match &parsed {
                Some(suffix) => suffix,
                None => parsed.insert(parse_suffix(suffix)?),
            };
            match (document.get(place).map(Node::view), suffix.as_str()) {
                (Some(View::Text(text)), Some(suffix)) => {
                    let text = [text, suffix].concat();
                    document.set(place, Value::text(&text));
                    Ok(text.len())
                }
                _ => Err(Error::NoPath(path.text().to_owned())),
            }
        },
    )
}

fn parse_suffix(text: &[u8]) -> Result<Value> {
    let value = parse(text, None).map_err(Error::for_argument)?;
    match value.as_str() {
        Some(_) => Ok(value),
        None => {
            let found = String::from_utf8_lossy(&to_text(Node::Value(&value))).into_owned();
            Err(Error::WrongType(Kind::String, found))
        }
    }
}
