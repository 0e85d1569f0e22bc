//! Reading: JSON.GET's text, types, lengths, names.

use super::{Answer, first, wrong_type};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::path::{Found, Path};
use crate::text::{Layout, Writer};
use crate::value::{Kind, Node, Value, View};

/// Room for a short value's text.
const TEXT_BYTES: usize = 128;

/// JSON.GET's text for one path: the first value at a legacy one, an array of all at a JSONPath.
///
/// # Errors
/// Nothing stands at a legacy path, or a limit of paths.
pub fn get(document: &Document, path: &Path, layout: Layout<'_>) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(TEXT_BYTES);
    write_at(document, path, path.is_legacy(), path.text(), &mut Writer::new(layout, &mut out))?;
    Ok(out)
}

/// JSON.GET's text for several paths: an object from each path to its values, which are arrays unless all
/// paths of the request are legacy ones (`is_legacy`). Those that cannot be parsed are left out by the
/// caller, as ReJSON does.
///
/// # Errors
/// As those of [`get`].
pub fn get_several(
    document: &Document,
    paths: &[Path],
    is_legacy: bool,
    layout: Layout<'_>,
) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut writer = Writer::new(layout, &mut out);
    writer.open(b'{');
    for (at, path) in paths.iter().enumerate() {
        if paths.iter().take(at).any(|earlier| earlier.original() == path.original()) {
            continue;
        }
        writer.name(path.original());
        write_at(document, path, is_legacy, path.original(), &mut writer)?;
    }
    writer.close(b'}');
    Ok(out)
}

fn write_at(
    document: &Document,
    path: &Path,
    is_legacy: bool,
    shown: &str,
    writer: &mut Writer<'_, '_>,
) -> Result<()> {
    let write_all = |nodes: &mut dyn Iterator<Item = Node<'_>>, writer: &mut Writer<'_, '_>| {
        writer.open(b'[');
        for node in nodes {
            writer.separate();
            writer.value(node);
        }
        writer.close(b']');
    };
    match path.read(document.root())? {
        Found::Computed(values) => write_all(&mut values.iter().map(Node::Value), writer),
        Found::Nodes(nodes) if is_legacy => {
            let node = nodes.first().ok_or_else(|| Error::NoPath(shown.to_owned()))?;
            writer.value(*node);
        }
        Found::Nodes(nodes) => write_all(&mut nodes.into_iter(), writer),
    }
    Ok(())
}

/// JSON.TYPE. A legacy path to nothing has none.
///
/// # Errors
/// A limit of paths.
pub fn kind(document: &Document, path: &Path) -> Result<Answer<Option<Kind>>> {
    if path.is_legacy() {
        return first(document, path).map(|node| Answer::Legacy(node.map(Node::kind)));
    }
    let nodes = path.nodes(document.root())?;
    Ok(Answer::Paths(nodes.into_iter().map(|node| Some(Some(node.kind()))).collect()))
}

/// JSON.RESP: the value at a legacy path, or all of them. The caller shapes the reply.
///
/// # Errors
/// Nothing stands at a legacy path, or a limit of paths.
pub fn resp<'d>(document: &'d Document, path: &'d Path) -> Result<Answer<Value>> {
    let found = match path.read(document.root())? {
        Found::Computed(values) => return Ok(Answer::Paths(values.into_iter().map(Some).collect())),
        Found::Nodes(nodes) => nodes,
    };
    if path.is_legacy() {
        let first = found.first().map(|node| Answer::Legacy(node.to_value()));
        return first.ok_or_else(|| Error::NoPath(path.text().to_owned()));
    }
    Ok(Answer::Paths(found.into_iter().map(|node| Some(node.to_value())).collect()))
}

/// JSON.DEBUG MEMORY: bytes of each value with everything below.
///
/// # Errors
/// Nothing stands at a legacy path, or a limit of paths.
pub fn memory_bytes(document: &Document, path: &Path) -> Result<Answer<usize>> {
    if path.is_root() && path.is_legacy() {
        return Ok(Answer::Legacy(document.heap_bytes() + size_of::<Value>()));
    }
    if path.is_legacy() {
        let first = first(document, path)?.map(|node| Answer::Legacy(node.memory_bytes()));
        return first.ok_or_else(|| Error::NoPath(path.text().to_owned()));
    }
    let nodes = path.nodes(document.root())?;
    Ok(Answer::Paths(nodes.into_iter().map(|node| Some(node.memory_bytes())).collect()))
}

/// JSON.STRLEN, in bytes.
///
/// # Errors
/// A legacy path leads to nothing or to no string, or a limit of paths.
pub fn str_len(document: &Document, path: &Path) -> Result<Answer<usize>> {
    let length = |node: Node<'_>| match node.view() {
        View::Text(text) => Some(text.len()),
        _ => None,
    };
    if !path.is_legacy() {
        return Ok(Answer::Paths(path.nodes(document.root())?.into_iter().map(length).collect()));
    }
    let node = first(document, path)?.ok_or_else(|| Error::NoPath(path.text().to_owned()))?;
    length(node).map(Answer::Legacy).ok_or_else(|| wrong_type(Kind::String, node))
}

/// JSON.OBJLEN. A legacy path to nothing has none.
///
/// # Errors
/// A legacy path leads to no object, or a limit of paths.
pub fn obj_len(document: &Document, path: &Path) -> Result<Answer<Option<usize>>> {
    let length = |node: Node<'_>| match node.view() {
        View::Object(object) => Some(object.len()),
        _ => None,
    };
    if !path.is_legacy() {
        let nodes = path.nodes(document.root())?;
        return Ok(Answer::Paths(nodes.into_iter().map(|node| length(node).map(Some)).collect()));
    }
    let Some(node) = first(document, path)? else { return Ok(Answer::Legacy(None)) };
    length(node).map(|length| Answer::Legacy(Some(length))).ok_or_else(|| wrong_type(Kind::Object, node))
}

/// JSON.OBJKEYS: the names of each object's members, in order. A legacy path to nothing has none.
///
/// # Errors
/// A legacy path leads to no object, or a limit of paths.
pub fn obj_keys<'d>(document: &'d Document, path: &'d Path) -> Result<Answer<Option<Vec<&'d str>>>> {
    let names = |node: Node<'d>| match node.view() {
        View::Object(object) => Some(object.members().iter().map(|member| member.name()).collect()),
        _ => None,
    };
    if !path.is_legacy() {
        let nodes = path.nodes(document.root())?;
        return Ok(Answer::Paths(nodes.into_iter().map(|node| names(node).map(Some)).collect()));
    }
    let Some(node) = first(document, path)? else { return Ok(Answer::Legacy(None)) };
    let names = names(node).map(|names| Answer::Legacy(Some(names)));
    names.ok_or_else(|| Error::NoPathOr(path.text().to_owned(), "not an object"))
}
