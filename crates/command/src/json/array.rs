//! JSON.ARRAPPEND, ARRINDEX, ARRINSERT, ARRLEN, ARRPOP, ARRTRIM.

use martlet_json::document::Document;
use martlet_json::error::Error as JsonError;
use martlet_json::ops::{self, Answer, Found};
use martlet_json::path::Path;
use martlet_json::text::{Layout, parse, to_text};
use martlet_json::value::{Node, Value};
use martlet_protocol::reply::Reply;
use martlet_spec::{Command, Error, Flags, KeyPart, Outcome, command};

use super::format::{self, Format};
use super::read::{Malformed, lengths};
use super::{
    CHANGED, DOCUMENT, FILLS, GROUP, Lost, NO_KEY, PathArgument, READ, READS, WRITES, answer, fault, integer,
    read, update, utf8, values,
};
use crate::Handler;
use crate::context::Context;

/// Changes arrays at a path, and replies their lengths.
fn update_arrays(
    ctx: &mut Context<'_>,
    argument: PathArgument,
    event: &'static str,
    edit: impl FnOnce(&mut Document, &Path) -> Result<Answer<usize>, JsonError>,
) -> Outcome {
    let key = ctx.key(1);
    let lengths = update(ctx.keys, &key, event, |document| {
        let lengths = edit(document, &argument.path()?).map_err(fault)?;
        let has_result = lengths.has_result();
        Ok((lengths, has_result))
    })?;
    answer(ctx.reply, lengths, Reply::count);
    Ok(())
}

pub(super) static ARRAPPEND: Command<Handler> = command("json.arrappend", -4, arrappend as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, CHANGED)])
    .member(DOCUMENT)
    .acl(WRITES)
    .syntax("key:k0 path *value")
    .doc(
        GROUP,
        "1.0.0",
        "O(N), N being the number of values, or for paths to several arrays the size of the document",
        "Appends values to the arrays at a path of a JSON document.",
    );

fn arrappend(ctx: &mut Context<'_>) -> Outcome {
    let (argument, values) = (PathArgument::new(ctx.arg(2))?, values(ctx, 3)?);
    update_arrays(ctx, argument, "json.arrappend", |document, path| ops::arr_append(document, path, &values))
}

pub(super) static ARRINDEX: Command<Handler> = command("json.arrindex", -4, arrindex as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, READ)])
    .member(DOCUMENT)
    .acl(READS)
    .syntax("key:k0 path value ?range(start:i ?stop:i)")
    .doc(
        GROUP,
        "1.0.0",
        "O(N), N being the size of the arrays",
        "Returns the first index of a value in the arrays at a path of a JSON document.",
    );

fn arrindex(ctx: &mut Context<'_>) -> Outcome {
    let (argument, text) = (PathArgument::new(ctx.arg(2))?, utf8(ctx.arg(3))?);
    let start = if ctx.argc() > 4 { integer(ctx, 4)? } else { 0 };
    let stop = if ctx.argc() > 5 { integer(ctx, 5)? } else { 0 };
    if ctx.argc() > 6 {
        return Err(Error::Arity("json.arrindex"));
    }
    let value = parse(text.as_bytes(), None).map_err(|error| fault(error.for_argument()))?;
    let key = ctx.key(1);
    let given = ctx.arg(2);
    let Context { keys, reply, .. } = ctx;
    let Some(document) = read(keys, &key)? else {
        return Err(fault(JsonError::NoPath(String::from_utf8_lossy(given).into_owned())));
    };
    let path = argument.path()?;
    let found = ops::arr_index(document, &path, &value, start, stop).map_err(fault)?;
    answer(reply, found, |reply, found| match found {
        Found::Index(index) => reply.count(index),
        Found::Nowhere => reply.int(-1),
    });
    Ok(())
}

pub(super) static ARRINSERT: Command<Handler> = command("json.arrinsert", -5, arrinsert as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, CHANGED)])
    .member(DOCUMENT)
    .acl(WRITES)
    .syntax("key:k0 path index:i *value")
    .doc(
        GROUP,
        "1.0.0",
        "O(N), N being the size of the array, or for paths to several arrays that of the document",
        "Inserts values before an index of the arrays at a path of a JSON document.",
    );

fn arrinsert(ctx: &mut Context<'_>) -> Outcome {
    let argument = PathArgument::new(ctx.arg(2))?;
    let (index, values) = (integer(ctx, 3)?, values(ctx, 4)?);
    update_arrays(ctx, argument, "json.arrinsert", |document, path| {
        ops::arr_insert(document, path, index, &values)
    })
}

pub(super) static ARRLEN: Command<Handler> = command("json.arrlen", -2, arrlen as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, READ)])
    .member(DOCUMENT)
    .acl(READS)
    .syntax("key:k0 ?path")
    .doc(
        GROUP,
        "1.0.0",
        "O(1) for a path to one value; else O(N), N being the size of the document",
        "Returns the lengths of the arrays at a path of a JSON document.",
    );

fn arrlen(ctx: &mut Context<'_>) -> Outcome {
    lengths(
        ctx,
        Malformed::IsAnError,
        |_| NO_KEY,
        |document, path| ops::arr_len(document, path).map(|lengths| lengths.map(Some)),
    )
}

pub(super) static ARRPOP: Command<Handler> = command("json.arrpop", -2, arrpop as Handler)
    .flags(Flags::WRITE)
    .keys(&[KeyPart::one(1, CHANGED)])
    .member(DOCUMENT)
    .acl(WRITES)
    .syntax("key:k0 ?format=FORMAT(strings:x|expand1:x|expand:x) ?position(path ?index:i)")
    .doc(
        GROUP,
        "1.0.0",
        "O(N), N being the size of the array, or for paths to several arrays that of the document",
        "Removes and returns an element of the arrays at a path of a JSON document.",
    );

/// JSON.ARRPOP's arguments behind the key.
struct PopRequest {
    format: Format,
    path: PathArgument,
    index: i64,
}

impl PopRequest {
    fn parse(ctx: &Context<'_>) -> Result<PopRequest, Error> {
        let mut request = PopRequest { format: Format::Strings, path: PathArgument::root(), index: -1 };
        let mut at = 2;
        // FORMAT alone is a path.
        if ctx.argc() > 3 && ctx.arg(2).eq_ignore_ascii_case(b"FORMAT") {
            request.format = Format::parse(utf8(ctx.arg(3))?.as_bytes())?;
            if request.format == Format::String {
                return Err(format::WRONG_FORMAT);
            }
            if !ctx.reply.is_resp3() {
                return Err(format::NOT_IN_RESP2);
            }
            at = 4;
        }
        if ctx.argc() > at {
            request.path = PathArgument::new(ctx.arg(at))?;
        }
        if ctx.argc() > at + 1 {
            // As in ReJSON, a text that is no integer means the last element.
            request.index = ctx.int(at + 1).unwrap_or(-1);
        }
        Ok(request)
    }
}

fn arrpop(ctx: &mut Context<'_>) -> Outcome {
    let PopRequest { format, path: argument, index } = PopRequest::parse(ctx)?;
    let key = ctx.key(1);
    let Context { keys, reply, .. } = ctx;
    if argument.is_legacy && format.expands() {
        let _: Option<&Document> = read(keys, &key)?;
        return Err(Error::Fixed("Legacy paths are supported only with FORMAT STRINGS"));
    }
    let popped = update(keys, &key, "json.arrpop", |document| {
        let popped = ops::arr_pop(document, &argument.path()?, index).map_err(fault)?;
        let is_changed = match &popped {
            Answer::Legacy(_) => true,
            Answer::Paths(popped) => popped.iter().any(|element| matches!(element, Some(Some(_)))),
        };
        Ok((popped, is_changed))
    })?;
    answer(reply, popped, |reply, element: Option<Value>| match element {
        None => reply.null(),
        Some(element) if format.expands() => {
            format::expand(reply, Node::Value(&element), format, Layout::default());
        }
        Some(element) => reply.bulk(&to_text(Node::Value(&element))),
    });
    Ok(())
}

pub(super) static ARRTRIM: Command<Handler> = command("json.arrtrim", 5, arrtrim as Handler)
    .flags(Flags::WRITE)
    .keys(&[KeyPart::one(1, CHANGED)])
    .member(DOCUMENT)
    .acl(WRITES)
    .syntax("key:k0 path start:i stop:i")
    .doc(
        GROUP,
        "1.0.0",
        "O(N), N being the size of the array, or for paths to several arrays that of the document",
        "Removes all elements outside of a range from the arrays at a path of a JSON document.",
    );

fn arrtrim(ctx: &mut Context<'_>) -> Outcome {
    let argument = PathArgument::new(ctx.arg(2))?;
    let (start, stop) = (integer(ctx, 3)?, integer(ctx, 4)?);
    let mut lost = None;
    update_arrays(ctx, argument, "json.arrtrim", |document, path| {
        lost = Some(Lost::trimmed(document, path, start, stop));
        ops::arr_trim(document, path, start, stop)
    })?;
    lost.into_iter().for_each(|lost| lost.free(ctx.keys));
    Ok(())
}
