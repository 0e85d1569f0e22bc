//! JSON.SET, MSET, MERGE, DEL, FORGET, CLEAR.

use std::collections::HashMap;

use martlet_engine::{EventClass, Keys};
use martlet_json::document::Document;
use martlet_json::error::Error as JsonError;
use martlet_json::ops::{self, Condition, Deleted, Outcome as Written};
use martlet_json::path::Path;
use martlet_json::text::parse;
use martlet_json::value::{FloatKind, Value};
use martlet_keyspace::Key;
use martlet_spec::{Command, Cursor, Error, Flags, KeyPart, Outcome, command};
use martlet_values::Json;

use super::{
    CHANGED, DELETED, DOCUMENT, FILLS, GROUP, Lost, PathArgument, SMALL_BYTES, WRITES, WRONG_KEY, discard,
    fault, module_value, store, update, utf8,
};
use crate::Handler;
use crate::context::Context;

pub(super) static SET: Command<Handler> = command("json.set", -4, set as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, CHANGED)])
    .member(DOCUMENT)
    .acl(WRITES)
    .syntax("key:k0 path value ?condition(nx:x|xx:x) ?fpha=FPHA(bf16:x|fp16:x|fp32:x|fp64:x)")
    .doc(
        GROUP,
        "1.0.0",
        "O(M+N), M being the size of the replaced values and N that of the new one",
        "Sets the values at a path of a JSON document, or creates the document.",
    );

/// What follows JSON.SET's value.
#[derive(Default)]
struct SetOptions {
    condition: Condition,
    floats: Option<FloatKind>,
}

impl SetOptions {
    fn parse(mut rest: Cursor<'_>) -> Result<SetOptions, Error> {
        let mut options = SetOptions::default();
        while rest.left() > 0 {
            if rest.is_at("FORMAT") {
                format(&mut rest, "json.set")?;
            } else if rest.word("FPHA") {
                let kind = utf8(rest.value().map_err(|_| Error::Arity("json.set"))?)?;
                let known = FloatKind::parse(kind.as_bytes());
                options.floats = Some(known.ok_or(Error::Fixed("ERR invalid FPHA type"))?);
            } else if options.condition == Condition::Always {
                let conditions = [("NX", Condition::Missing), ("XX", Condition::Present)];
                options.condition = rest.one_of(&conditions).ok_or(Error::Syntax)?;
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(options)
    }
}

/// Takes FORMAT and its value, which changes nothing: both names mean JSON text.
fn format(rest: &mut Cursor<'_>, name: &'static str) -> Outcome {
    rest.skip(1);
    match rest.value().map_err(|_| Error::Arity(name))? {
        b"JSON" | b"STRING" => Ok(()),
        _ => Err(Error::Fixed("ERR wrong format")),
    }
}

fn set(ctx: &mut Context<'_>) -> Outcome {
    let argument = PathArgument::new(ctx.arg(2))?;
    let options = SetOptions::parse(ctx.rest(4))?;
    let key = ctx.key(1);
    let text = ctx.arg(3);
    let Some(mut json) = ctx.keys.write::<Json>(&key).map_err(|_| WRONG_KEY)? else {
        let value = parse(text, options.floats).map_err(fault)?;
        if options.condition == Condition::Present {
            ctx.reply.null();
        } else {
            create(ctx.keys, &key, argument, value, "json.set")?;
            ctx.reply.ok();
        }
        return Ok(());
    };
    let replaces = argument.is_root() && options.condition != Condition::Missing;
    let is_rewritten =
        replaces && options.floats.is_none() && json.0.heap_bytes() <= SMALL_BYTES && json.0.rewrite(text);
    let (mut replaced, mut lost) = (None, Lost(Vec::new()));
    let written = if is_rewritten {
        Written { changed: true, complete: true }
    } else {
        let value = parse(text, options.floats).map_err(fault)?;
        let path = argument.path()?;
        if replaces {
            let document = Document::new(value).map_err(fault)?;
            replaced = Some(std::mem::replace(&mut json.0, document));
            Written { changed: true, complete: true }
        } else {
            lost = Lost::at(&json.0, &path);
            ops::set(&mut json.0, &path, value, options.condition).map_err(fault)?
        }
    };
    drop(json);
    lost.free(ctx.keys);
    if let Some(document) = replaced {
        discard(ctx.keys, document);
    }
    if written.changed {
        ctx.keys.changed(&key, EventClass::MODULE, "json.set");
    }
    ok_or_null(ctx, written.complete);
    Ok(())
}

fn ok_or_null(ctx: &mut Context<'_>, is_ok: bool) {
    if is_ok { ctx.reply.ok() } else { ctx.reply.null() }
}

/// Creates a document at a key that is not there.
fn create(
    keys: &mut Keys,
    key: &Key<'_>,
    argument: PathArgument,
    value: Value,
    event: &'static str,
) -> Outcome {
    let document = new_document(argument, value)?;
    keys.set_value(key, module_value(document), None);
    keys.changed(key, EventClass::MODULE, event);
    Ok(())
}

/// The document of a value; a path that is malformed is not the root.
fn new_document(argument: PathArgument, value: Value) -> Result<Document, Error> {
    let path = argument.path.map_err(|_| fault(JsonError::NewAtRoot))?;
    ops::create(&path, value).map_err(fault)
}

pub(super) static MSET: Command<Handler> = command("json.mset", -4, mset as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::range(1, -1, 3, CHANGED)])
    .acl(WRITES)
    .syntax("*triplet(key:k0 path value)")
    .doc(
        GROUP,
        "2.6.0",
        "O(K*(M+N)), K being the number of keys, M the size of replaced values and N that of new ones",
        "Sets values at paths of several JSON documents at once.",
    );

/// A key of JSON.MSET: its document as it will be once all triplets have succeeded.
struct Draft<'a> {
    key: Key<'a>,
    document: Option<Document>,
    was_there: bool,
    has_changed: bool,
}

impl<'a> Draft<'a> {
    fn new(keys: &mut Keys, key: Key<'a>) -> Result<Draft<'a>, Error> {
        let present = keys.lookup_write(&key).map(|entry| entry.object::<Json>().ok_or(WRONG_KEY));
        let document = present.transpose()?.map(|json| json.0.clone());
        Ok(Draft { was_there: document.is_some(), key, document, has_changed: false })
    }

    /// Sets a value. Only a document that was there before the request has other places than the root.
    fn set(&mut self, argument: PathArgument, value: Result<Value, JsonError>) -> Result<Written, Error> {
        let is_root = argument.path.as_ref().is_ok_and(Path::is_root);
        if !is_root && !self.was_there {
            return Err(fault(JsonError::NewAtRoot));
        }
        let path = argument.path()?;
        let value = value.map_err(fault)?;
        let written = match &mut self.document {
            Some(document) if !is_root => {
                ops::set(document, &path, value, Condition::Always).map_err(fault)?
            }
            document => {
                *document = Some(Document::new(value).map_err(fault)?);
                Written { changed: true, complete: true }
            }
        };
        self.has_changed |= written.changed;
        Ok(written)
    }
}

fn mset(ctx: &mut Context<'_>) -> Outcome {
    if ctx.argc() % 3 != 1 {
        return Err(Error::Arity("json.mset"));
    }
    let mut drafts: Vec<Draft<'_>> = Vec::new();
    let mut by_key: HashMap<&[u8], usize> = HashMap::new();
    let (mut changed, mut is_complete) = (Vec::new(), true);
    for at in (1..ctx.argc()).step_by(3) {
        let (key, argument) = (ctx.key(at), PathArgument::new(ctx.arg(at + 1))?);
        let value = parse(ctx.arg(at + 2), None);
        let index = *by_key.entry(key.bytes).or_insert(drafts.len());
        if index == drafts.len() {
            drafts.push(Draft::new(ctx.keys, key)?);
        }
        let Some(draft) = drafts.get_mut(index) else { continue };
        let written = draft.set(argument, value)?;
        is_complete &= written.complete;
        changed.extend(written.changed.then_some(key));
    }
    for Draft { key, document, has_changed, .. } in drafts {
        if let Some(document) = document.filter(|_| has_changed) {
            store(ctx.keys, &key, document);
        }
    }
    for key in &changed {
        ctx.keys.signal(key);
        ctx.keys.effects.event(EventClass::MODULE, "json.mset", ctx.keys.db(), key.bytes);
    }
    ctx.keys.dirty += u64::from(!changed.is_empty());
    ok_or_null(ctx, is_complete);
    Ok(())
}

pub(super) static MERGE: Command<Handler> = command("json.merge", -4, merge as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, CHANGED)])
    .member(DOCUMENT)
    .acl(WRITES)
    .syntax("key:k0 path value")
    .doc(
        GROUP,
        "2.6.0",
        "O(M+N), M being the size of the values at the path and N that of the merged one",
        "Merges a value into those at a path of a JSON document, or creates the document.",
    );

fn merge(ctx: &mut Context<'_>) -> Outcome {
    let argument = PathArgument::new(ctx.arg(2))?;
    let mut rest = ctx.rest(4);
    while rest.left() > 0 {
        if !rest.is_at("FORMAT") {
            return Err(Error::Syntax);
        }
        format(&mut rest, "json.merge")?;
    }
    let patch = parse(ctx.arg(3), None);
    let key = ctx.key(1);
    let Some(mut json) = ctx.keys.write::<Json>(&key).map_err(|_| WRONG_KEY)? else {
        create(ctx.keys, &key, argument, patch.map_err(fault)?, "json.merge")?;
        ctx.reply.ok();
        return Ok(());
    };
    let (patch, path) = (patch.map_err(fault)?, argument.path()?);
    let lost = Lost::merged(&json.0, &path, &patch);
    let is_merged = ops::merge(&mut json.0, &path, &patch).map_err(fault)?;
    drop(json);
    lost.free(ctx.keys);
    if is_merged {
        ctx.keys.changed(&key, EventClass::MODULE, "json.merge");
    }
    ok_or_null(ctx, is_merged);
    Ok(())
}

pub(super) static DEL: Command<Handler> = command("json.del", -2, delete as Handler)
    .flags(Flags::WRITE)
    .keys(&[KeyPart::one(1, DELETED)])
    .member(DOCUMENT)
    .acl(WRITES)
    .syntax("key:k0 ?path")
    .doc(
        GROUP,
        "1.0.0",
        "O(N), N being the size of the deleted values, or for paths to several that of the document",
        "Deletes the values at a path of a JSON document, or the document.",
    );

pub(super) static FORGET: Command<Handler> = command("json.forget", -2, delete as Handler)
    .flags(Flags::WRITE)
    .keys(&[KeyPart::one(1, DELETED)])
    .member(DOCUMENT)
    .acl(WRITES)
    .syntax("key:k0 ?path")
    .doc(
        GROUP,
        "1.0.0",
        "O(N), N being the size of the deleted values, or for paths to several that of the document",
        "Deletes the values at a path of a JSON document, or the document; another name of `JSON.DEL`.",
    );

fn delete(ctx: &mut Context<'_>) -> Outcome {
    let (key, argument) = (ctx.key(1), PathArgument::at(ctx, 2)?);
    let Some(mut json) = ctx.keys.write::<Json>(&key).map_err(|_| WRONG_KEY)? else {
        ctx.reply.count(0);
        return Ok(());
    };
    let path = argument.path()?;
    let lost = if path.is_root() { Lost(Vec::new()) } else { Lost::at(&json.0, &path) };
    let deleted = ops::delete(&mut json.0, &path).map_err(fault)?;
    // A document without children goes with its last one, as in Redis 8.
    let (count, is_gone) = match deleted {
        Deleted::Document => (1, true),
        Deleted::Values(count) => (count, count > 0 && json.0.is_empty()),
    };
    drop(json);
    lost.free(ctx.keys);
    if is_gone {
        ctx.keys.delete(&key);
    }
    if count > 0 {
        ctx.keys.changed(&key, EventClass::MODULE, "json.del");
    }
    ctx.reply.count(count);
    Ok(())
}

pub(super) static CLEAR: Command<Handler> = command("json.clear", -2, clear as Handler)
    .flags(Flags::WRITE)
    .keys(&[KeyPart::one(1, CHANGED)])
    .member(DOCUMENT)
    .acl(WRITES)
    .syntax("key:k0 ?path")
    .doc(
        GROUP,
        "2.0.0",
        "O(N), N being the size of the values at the path, or for paths to several that of the document",
        "Empties the arrays and objects at a path of a JSON document and sets its numbers to 0.",
    );

fn clear(ctx: &mut Context<'_>) -> Outcome {
    if ctx.argc() > 3 {
        return Err(Error::Arity("json.clear"));
    }
    let (key, argument) = (ctx.key(1), PathArgument::at(ctx, 2)?);
    let (cleared, lost) = update(ctx.keys, &key, "json.clear", |document| {
        let path = argument.path()?;
        let lost = Lost::at(document, &path);
        let cleared = ops::clear(document, &path).map_err(fault)?;
        Ok(((cleared, lost), cleared > 0))
    })?;
    lost.free(ctx.keys);
    ctx.reply.count(cleared);
    Ok(())
}
