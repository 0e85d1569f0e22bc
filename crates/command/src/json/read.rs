//! JSON.GET, MGET, RESP, TYPE, STRLEN, OBJKEYS, OBJLEN, DEBUG.

use martlet_json::document::Document;
use martlet_json::error::Error as JsonError;
use martlet_json::ops::{self, Answer};
use martlet_json::path::{Found, Path};
use martlet_json::text::Layout;
use martlet_json::value::Node;
use martlet_protocol::reply::Reply;
use martlet_spec::{Command, Error, Flags, KeyPart, Outcome, Tip, command};

use super::format::{self, Format};
use super::{DOCUMENT, GROUP, NO_KEY, PathArgument, READ, READS, answer, at_least, fault, read, utf8};
use crate::Handler;
use crate::context::Context;

pub(super) static GET: Command<Handler> = command("json.get", -2, get as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, READ)])
    .member(DOCUMENT)
    .acl(READS)
    .syntax(
        "key:k0 ?indent=INDENT ?newline=NEWLINE ?space=SPACE \
         ?format=FORMAT(string:x|expand1:x|expand:x) ?*path",
    )
    .doc(
        GROUP,
        "1.0.0",
        "O(N), N being the size of the values that the paths lead to",
        "Returns the values at paths of a JSON document as JSON text.",
    );

/// JSON.GET's options and paths. A path that ReJSON finds malformed is an error by itself, and is left out
/// beside others.
struct GetRequest<'a> {
    layout: Layout<'a>,
    format: Format,
    paths: Vec<PathArgument>,
    has_jsonpath: bool,
}

/// The longest of JSON.GET's words; every longer argument is a path.
const WORD_BYTES_MAX: usize = 8;

impl<'a> GetRequest<'a> {
    fn parse(ctx: &Context<'a>) -> Result<GetRequest<'a>, Error> {
        let (layout, paths) = (Layout::default(), Vec::with_capacity(1));
        let mut request = GetRequest { layout, format: Format::String, paths, has_jsonpath: false };
        let mut rest = ctx.rest(2);
        while let Some(argument) = rest.peek() {
            // ReJSON ends at an argument that is not UTF-8.
            let Ok(text) = std::str::from_utf8(argument) else { break };
            rest.skip(1);
            let value = |rest: &mut martlet_spec::Cursor<'a>| {
                let value = rest.value().map_err(|_| Error::Arity("json.get"))?;
                utf8(value).map(str::as_bytes)
            };
            let is = |word: &str| text.eq_ignore_ascii_case(word);
            if text.len() > WORD_BYTES_MAX {
                request.add_path(text)?;
            } else if is("FORMAT") {
                if !ctx.reply.is_resp3() && request.paths.is_empty() {
                    return Err(format::NOT_IN_RESP2);
                }
                request.format = Format::parse(value(&mut rest)?)?;
                if request.format == Format::Strings {
                    return Err(format::WRONG_FORMAT);
                }
            } else if is("INDENT") {
                request.layout.indent = value(&mut rest)?;
            } else if is("NEWLINE") {
                request.layout.newline = value(&mut rest)?;
            } else if is("SPACE") {
                request.layout.space = value(&mut rest)?;
            } else if !is("NOESCAPE") {
                request.add_path(text)?;
            }
        }
        if request.paths.is_empty() {
            request.paths.push(PathArgument::root());
        }
        Ok(request)
    }

    fn add_path(&mut self, text: &str) -> Result<(), Error> {
        let path = PathArgument::new(text.as_bytes())?;
        self.has_jsonpath |= !path.is_legacy;
        self.paths.push(path);
        Ok(())
    }
}

fn get(ctx: &mut Context<'_>) -> Outcome {
    let request = GetRequest::parse(ctx)?;
    let key = ctx.key(1);
    let Context { keys, reply, .. } = ctx;
    let Some(document) = read(keys, &key)? else {
        reply.null();
        return Ok(());
    };
    let GetRequest { layout, format, mut paths, has_jsonpath } = request;
    if reply.is_resp3() && format.expands() {
        let paths: Vec<Path> = paths.into_iter().map(PathArgument::path).collect::<Result<_, _>>()?;
        return expand_paths(reply, document, &paths, format, layout);
    }
    let text = match (paths.len(), paths.pop()) {
        (1, Some(path)) => ops::get(document, &path.path()?, layout),
        (_, last) => {
            let paths: Vec<Path> = paths.into_iter().chain(last).filter_map(|path| path.path.ok()).collect();
            ops::get_several(document, &paths, !has_jsonpath, layout)
        }
    };
    reply.bulk(&text.map_err(fault)?);
    Ok(())
}

/// The values at each path, as replies.
fn expand_paths(
    reply: &mut Reply,
    document: &Document,
    paths: &[Path],
    format: Format,
    layout: Layout<'_>,
) -> Outcome {
    reply.array(paths.len());
    for path in paths {
        let mut write_all = |nodes: &mut dyn ExactSizeIterator<Item = Node<'_>>| {
            reply.array(nodes.len());
            nodes.for_each(|node| format::expand(reply, node, format, layout));
        };
        match path.read(document.root()).map_err(fault)? {
            Found::Nodes(nodes) => write_all(&mut nodes.into_iter()),
            Found::Computed(values) => write_all(&mut values.iter().map(Node::Value)),
        }
    }
    Ok(())
}

pub(super) static MGET: Command<Handler> = command("json.mget", -3, mget as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::range(1, -2, 1, READ)])
    .acl(READS)
    .syntax("*key:k0 path")
    .doc(
        GROUP,
        "1.0.0",
        "O(M*N), M being the number of keys and N the size of the values that the path leads to",
        "Returns the values at a path of several JSON documents.",
    );

fn mget(ctx: &mut Context<'_>) -> Outcome {
    let last = ctx.argc() - 1;
    let path = PathArgument::new(ctx.arg(last))?.path;
    ctx.reply.array(last - 1);
    for index in 1..last {
        let key = ctx.key(index);
        let text = match (read(ctx.keys, &key), &path) {
            (Ok(Some(document)), Ok(path)) => ops::get(document, path, Layout::default()).ok(),
            _ => None,
        };
        ctx.reply.bulk_or_null(text.as_deref());
    }
    Ok(())
}

pub(super) static RESP: Command<Handler> = command("json.resp", -2, resp as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, READ)])
    .member(DOCUMENT)
    .acl(READS)
    .syntax("key:k0 ?path")
    .doc(
        GROUP,
        "1.0.0",
        "O(N), N being the size of the values that the path leads to",
        "Returns the values at a path of a JSON document as nested replies.",
    );

fn resp(ctx: &mut Context<'_>) -> Outcome {
    let (key, path) = (ctx.key(1), PathArgument::at(ctx, 2)?);
    let Context { keys, reply, .. } = ctx;
    let Some(document) = read(keys, &key)? else {
        reply.null();
        return Ok(());
    };
    let path = path.path()?;
    let values = ops::resp(document, &path).map_err(fault)?;
    answer(reply, values, |reply, value| format::resp(reply, Node::Value(&value)));
    Ok(())
}

pub(super) static TYPE: Command<Handler> = command("json.type", -2, kind as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, READ)])
    .member(DOCUMENT)
    .acl(READS)
    .syntax("key:k0 ?path")
    .doc(
        GROUP,
        "1.0.0",
        "O(1) for a path to one value; else O(N), N being the size of the document",
        "Returns the types of the values at a path of a JSON document.",
    );

fn kind(ctx: &mut Context<'_>) -> Outcome {
    let (key, path) = (ctx.key(1), PathArgument::at(ctx, 2)?);
    let Context { keys, reply, .. } = ctx;
    let kinds = match read(keys, &key)? {
        None => Answer::Legacy(None),
        // A malformed legacy path leads to nothing.
        Some(_) if path.is_legacy && path.path.is_err() => Answer::Legacy(None),
        Some(document) => ops::kind(document, &path.path()?).map_err(fault)?,
    };
    if reply.is_resp3() {
        reply.array(1);
    }
    answer(reply, kinds, |reply, kind| reply.bulk_or_null(kind.map(|kind| kind.name().as_bytes())));
    Ok(())
}

pub(super) static STRLEN: Command<Handler> = command("json.strlen", -2, strlen as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, READ)])
    .member(DOCUMENT)
    .acl(READS)
    .syntax("key:k0 ?path")
    .doc(
        GROUP,
        "1.0.0",
        "O(1) for a path to one value; else O(N), N being the size of the document",
        "Returns the lengths in bytes of the strings at a path of a JSON document.",
    );

fn strlen(ctx: &mut Context<'_>) -> Outcome {
    lengths(
        ctx,
        Malformed::IsAnError,
        |_| NO_KEY,
        |document, path| ops::str_len(document, path).map(|lengths| lengths.map(Some)),
    )
}

/// What becomes of a malformed legacy path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Malformed {
    IsAnError,
    LeadsNowhere,
}

/// Replies lengths at a path. Of a missing key they are null, or with a JSONPath the error `no_key`.
pub(super) fn lengths(
    ctx: &mut Context<'_>,
    malformed: Malformed,
    no_key: impl Fn(&Path) -> Error,
    measure: impl Fn(&Document, &Path) -> Result<Answer<Option<usize>>, JsonError>,
) -> Outcome {
    let (key, argument) = (ctx.key(1), PathArgument::at(ctx, 2)?);
    let Context { keys, reply, .. } = ctx;
    let document = read(keys, &key)?;
    let is_nowhere = argument.path.is_err() && malformed == Malformed::LeadsNowhere;
    if argument.is_legacy && (document.is_none() || is_nowhere) {
        reply.null();
        return Ok(());
    }
    let path = argument.path()?;
    let document = document.ok_or_else(|| no_key(&path))?;
    answer(reply, measure(document, &path).map_err(fault)?, |reply, length| match length {
        Some(length) => reply.count(length),
        None => reply.null(),
    });
    Ok(())
}

pub(super) static OBJLEN: Command<Handler> = command("json.objlen", -2, objlen as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, READ)])
    .member(DOCUMENT)
    .acl(READS)
    .syntax("key:k0 ?path")
    .doc(
        GROUP,
        "1.0.0",
        "O(1) for a path to one value; else O(N), N being the size of the document",
        "Returns the numbers of members of the objects at a path of a JSON document.",
    );

fn objlen(ctx: &mut Context<'_>) -> Outcome {
    let no_key = |path: &Path| fault(JsonError::NoPathOr(path.text().to_owned(), "not an object"));
    lengths(ctx, Malformed::LeadsNowhere, no_key, ops::obj_len)
}

pub(super) static OBJKEYS: Command<Handler> = command("json.objkeys", -2, objkeys as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, READ)])
    .member(DOCUMENT)
    .acl(READS)
    .syntax("key:k0 ?path")
    .doc(
        GROUP,
        "1.0.0",
        "O(N), N being the number of the names, or for paths to several values the size of the document",
        "Returns the names of the members of the objects at a path of a JSON document.",
    );

fn objkeys(ctx: &mut Context<'_>) -> Outcome {
    let (key, argument) = (ctx.key(1), PathArgument::at(ctx, 2)?);
    let Context { keys, reply, .. } = ctx;
    let document = read(keys, &key)?;
    if argument.is_legacy && (document.is_none() || argument.path.is_err()) {
        reply.null();
        return Ok(());
    }
    let (document, path) = (document.ok_or(NO_KEY)?, argument.path()?);
    answer(reply, ops::obj_keys(document, &path).map_err(fault)?, |reply, names| match names {
        Some(names) => {
            reply.array(names.len());
            names.into_iter().for_each(|name| reply.bulk(name.as_bytes()));
        }
        None => reply.null(),
    });
    Ok(())
}

pub(super) static DEBUG: Command<Handler> = command("json.debug", -2, debug as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::behind("MEMORY", 1, READ)])
    .acl(READS)
    .syntax("subcommand(memory=MEMORY(key:k0 ?path)|help:x)")
    .doc(
        GROUP,
        "1.0.0",
        "O(N), N being the size of the values that the path leads to",
        "Returns how much memory the values at a path of a JSON document take.",
    )
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn debug(ctx: &mut Context<'_>) -> Outcome {
    let subcommand = utf8(ctx.arg(1))?.to_ascii_uppercase();
    match subcommand.as_str() {
        "MEMORY" => memory(ctx),
        "HELP" => {
            ctx.reply.array(2);
            ctx.reply.bulk(b"MEMORY <key> [path] - reports memory usage");
            ctx.reply.bulk(b"HELP                - this message");
            Ok(())
        }
        _ => Err(Error::Fixed("ERR unknown subcommand - try `JSON.DEBUG HELP`")),
    }
}

fn memory(ctx: &mut Context<'_>) -> Outcome {
    at_least(ctx, 3, "json.debug")?;
    let (key, argument) = (ctx.key(2), PathArgument::at(ctx, 3)?);
    let Context { keys, reply, .. } = ctx;
    match read(keys, &key)? {
        Some(document) => {
            let bytes = ops::memory_bytes(document, &argument.path()?).map_err(fault)?;
            answer(reply, bytes, |reply, bytes| reply.count(bytes));
        }
        None if argument.is_legacy => reply.count(0),
        None => reply.array(0),
    }
    Ok(())
}
