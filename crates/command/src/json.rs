//! JSON documents, as Redis' module ReJSON has them: what the family's commands share. Commands that read
//! are in `read`, those that set, merge and delete in `write`, those of numbers, strings and booleans in
//! `scalar`, those of arrays in `array`; `format` writes values as replies, `paths` keeps parsed paths.
//!
//! Invariant: a command's texts are parsed before a key is changed. A malformed path or document is an error
//! only where ReJSON comes to it: behind a missing key, or a key of another type.

mod array;
mod format;
mod paths;
mod read;
mod scalar;
#[cfg(test)]
mod tests;
mod write;

use martlet_engine::{EventClass, Keys};
use martlet_json::document::Document;
use martlet_json::error::Error as JsonError;
use martlet_json::ops::{self, Answer};
use martlet_json::path::Path;
use martlet_json::value::{Array, Node, Value, View};
use martlet_keyspace::{Key, ModuleValue};
use martlet_protocol::reply::Reply;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, Outcome, module};
use martlet_values::Json;

use crate::Handler;
use crate::context::Context;

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[
    &array::ARRAPPEND,
    &array::ARRINDEX,
    &array::ARRINSERT,
    &array::ARRLEN,
    &array::ARRPOP,
    &array::ARRTRIM,
    &write::CLEAR,
    &read::DEBUG,
    &write::DEL,
    &write::FORGET,
    &read::GET,
    &write::MERGE,
    &read::MGET,
    &write::MSET,
    &scalar::NUMINCRBY,
    &scalar::NUMMULTBY,
    &scalar::NUMPOWBY,
    &read::OBJKEYS,
    &read::OBJLEN,
    &read::RESP,
    &write::SET,
    &scalar::STRAPPEND,
    &read::STRLEN,
    &scalar::TOGGLE,
    &read::TYPE,
];

const GROUP: Group = Group::Module(&module::JSON);
const READS: Acl = Acl::READ.with(Acl::JSON);
const WRITES: Acl = Acl::WRITE.with(Acl::JSON);
const FILLS: Flags = Flags::WRITE.with(Flags::DENYOOM);
const READ: KeyFlags = KeyFlags::RO.with(KeyFlags::ACCESS);
const CHANGED: KeyFlags = KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE);
const DELETED: KeyFlags = KeyFlags::RW.with(KeyFlags::DELETE);

/// The argument for which memory is asked ahead: the key, since every command reads the document's root.
const DOCUMENT: usize = 1;

/// A key of another type, in the words of Redis' interface for modules in Rust.
const WRONG_KEY: Error = Error::Fixed("Existing key has wrong Redis type");
const NO_KEY: Error = Error::Fixed("ERR could not perform this operation on a key that doesn't exist");
const NO_INTEGER: Error = Error::Fixed("Couldn't parse as integer");

/// The reply to a fault of a document, a path or a text.
fn fault(error: JsonError) -> Error {
    Error::Text(error.to_string())
}

/// An argument that ReJSON reads as text before it does anything else.
fn utf8(argument: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(argument).map_err(|_| fault(JsonError::NotUtf8))
}

/// A path argument: parsed, and possibly malformed.
struct PathArgument {
    path: Result<Path, JsonError>,
    is_legacy: bool,
}

impl PathArgument {
    /// The path in an argument.
    fn new(argument: &[u8]) -> Result<PathArgument, Error> {
        let text = utf8(argument)?;
        let path = paths::parse(argument);
        let is_legacy = path.as_ref().map_or_else(|_| !Path::is_jsonpath(text), Path::is_legacy);
        Ok(PathArgument { path, is_legacy })
    }

    /// The root, in the legacy dialect.
    fn root() -> PathArgument {
        PathArgument { path: Ok(Path::root()), is_legacy: true }
    }

    /// The path in the argument at `index`; the root if it is left out.
    fn at(ctx: &Context<'_>, index: usize) -> Result<PathArgument, Error> {
        ctx.args.get(index).map_or_else(|| Ok(PathArgument::root()), PathArgument::new)
    }

    /// Whether it is the root, well-formed.
    fn is_root(&self) -> bool {
        self.path.as_ref().is_ok_and(Path::is_root)
    }

    /// The path.
    fn path(self) -> Result<Path, Error> {
        self.path.map_err(fault)
    }
}

/// The document at a key, for a command that reads.
fn read<'k>(keys: &'k mut Keys, key: &Key<'_>) -> Result<Option<&'k Document>, Error> {
    let json = keys.read::<Json>(key).map_err(|_| WRONG_KEY)?;
    Ok(json.map(|json| &json.0))
}

/// Changes the document at a key. `edit` returns its result and whether it has changed the document; with an
/// error it has not.
fn update<T>(
    keys: &mut Keys,
    key: &Key<'_>,
    event: &'static str,
    edit: impl FnOnce(&mut Document) -> Result<(T, bool), Error>,
) -> Result<T, Error> {
    let mut json = keys.write::<Json>(key).map_err(|_| WRONG_KEY)?.ok_or(NO_KEY)?;
    let (result, is_changed) = edit(&mut json.0)?;
    drop(json);
    if is_changed {
        keys.changed(key, EventClass::MODULE, event);
    }
    Ok(result)
}

/// Stores a document, in the place of the one that the key has.
fn store(keys: &mut Keys, key: &Key<'_>, document: Document) {
    let present = keys.write::<Json>(key).ok().flatten();
    match present.map(|mut json| std::mem::replace(&mut json.0, document.clone())) {
        Some(old) => discard(keys, old),
        None => keys.set_value(key, module_value(document), None),
    }
}

/// Heap bytes of a document from which on its lost values are freed in the background.
const LARGE_BYTES: usize = 64 << 10;

/// Values that a large document is about to lose, so that the change itself does not free them.
struct Lost(Vec<Value>);

impl Lost {
    /// The values at a path that the next change replaces or removes.
    fn at(document: &Document, path: &Path) -> Lost {
        if document.heap_bytes() < LARGE_BYTES {
            return Lost(Vec::new());
        }
        let nodes = path.nodes(document.root()).unwrap_or_default();
        Lost(nodes.into_iter().map(Node::to_value).collect())
    }

    /// The values that a merge replaces or removes. What it only changes within is not among them.
    fn merged(document: &Document, path: &Path, patch: &Value) -> Lost {
        let mut lost = Lost(Vec::new());
        if document.heap_bytes() >= LARGE_BYTES {
            let nodes = path.nodes(document.root()).unwrap_or_default();
            nodes.into_iter().for_each(|node| lost.add_merged(node, patch));
        }
        lost
    }

    fn add_merged(&mut self, node: Node<'_>, patch: &Value) {
        let (View::Object(old), View::Object(new)) = (node.view(), patch.view()) else {
            return self.0.push(node.to_value());
        };
        for member in new.members() {
            if let Some(value) = old.get(member.name()) {
                self.add_merged(Node::Value(value), member.value());
            }
        }
    }

    /// The elements that JSON.ARRTRIM removes from the arrays at a path.
    fn trimmed(document: &Document, path: &Path, start: i64, stop: i64) -> Lost {
        if document.heap_bytes() < LARGE_BYTES {
            return Lost(Vec::new());
        }
        let dropped = |node: Node<'_>| match node.view() {
            View::Array(Array::Values(values)) => {
                let kept = ops::kept_range(values.len(), start, stop);
                let dropped = values.iter().enumerate().filter(|(at, _)| !kept.contains(at));
                dropped.map(|(_, value)| value.clone()).collect()
            }
            _ => Vec::new(),
        };
        Lost(path.nodes(document.root()).unwrap_or_default().into_iter().flat_map(dropped).collect())
    }

    fn free(self, keys: &Keys) {
        if !self.0.is_empty() {
            keys.engine().lazy_free.free(1, Box::new(self.0));
        }
    }
}

/// Heap bytes of a document up to which it is freed where it is, without being made a value again.
const SMALL_BYTES: usize = 4 << 10;

/// Frees a document, in the background if it is large.
fn discard(keys: &mut Keys, document: Document) {
    if document.heap_bytes() > SMALL_BYTES {
        keys.discard(Some(module_value(document)));
    }
}

fn module_value(document: Document) -> martlet_keyspace::Value {
    martlet_keyspace::Value::Module(ModuleValue::new(Json(document)))
}

/// Writes a result in the shape of its path's dialect.
fn answer<T>(reply: &mut Reply, answer: Answer<T>, mut write: impl FnMut(&mut Reply, T)) {
    match answer {
        Answer::Legacy(result) => write(reply, result),
        Answer::Paths(results) => {
            reply.array(results.len());
            for result in results {
                match result {
                    Some(result) => write(reply, result),
                    None => reply.null(),
                }
            }
        }
    }
}

/// The JSON texts from the argument at `first` on.
fn values(ctx: &Context<'_>, first: usize) -> Result<Vec<Value>, Error> {
    let texts = (first..ctx.argc()).map(|at| ctx.arg(at));
    texts.map(|text| martlet_json::text::parse(text, None).map_err(fault)).collect()
}

/// The argument at `index` as ReJSON reads integers.
fn integer(ctx: &Context<'_>, index: usize) -> Result<i64, Error> {
    ctx.int(index).map_err(|_| NO_INTEGER)
}

/// Refuses a request with fewer than `least` arguments, for commands whose arity promises less.
fn at_least(ctx: &Context<'_>, least: usize, name: &'static str) -> Outcome {
    if ctx.argc() < least { Err(Error::Arity(name)) } else { Ok(()) }
}
