//! What goes by prefix: the paths that a query begins with (PHLONGEST, PHPREFIXES), and the deletion of all
//! paths that begin with a prefix (PHDELPREFIX).

use std::collections::VecDeque;

use martlet_keyspace::Value;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_spec::{Acl, Command, Error, Flags, Group, Outcome, command};
use martlet_types::hash::Hash;
use martlet_types::path_hash::PathHash;

use super::{RO_ACCESS, RW_DELETE, all_fields, changed, number_from, value_or_null};
use crate::Handler;
use crate::context::Context;

/// What is answered of each path.
enum Values<'a> {
    None,
    All,
    Of(Args<'a>),
}

/// The options of both commands.
struct MatchOptions<'a> {
    /// The path's length in place of the path.
    lengths: bool,
    values: Values<'a>,
    /// Most paths, the longest ones.
    count: Option<usize>,
    /// Longest path.
    max_path_bytes: Option<usize>,
}

impl<'a> MatchOptions<'a> {
    /// Options from the third argument on. Only a command of many paths `is_plural`: its word is LENGTHS, and
    /// it has limits.
    fn parse(ctx: &Context<'a>, is_plural: bool) -> Result<MatchOptions<'a>, Error> {
        let mut options =
            MatchOptions { lengths: false, values: Values::None, count: None, max_path_bytes: None };
        let length: &[u8] = if is_plural { b"LENGTHS" } else { b"LENGTH" };
        let mut at = 3;
        while at < ctx.argc() {
            let is = |word: &[u8]| ctx.arg(at).eq_ignore_ascii_case(word);
            let has_next = at + 1 < ctx.argc();
            if is(length) && !options.lengths {
                options.lengths = true;
                at += 1;
            } else if is(b"WITHVALUES") && matches!(options.values, Values::None) {
                options.values = Values::All;
                at += 1;
            } else if is(b"FIELDS") && has_next && matches!(options.values, Values::None) {
                let count = number_from(ctx.arg(at + 1), 1)?;
                let begin = at + 2;
                if count > ctx.argc() - begin {
                    return Err(Error::Syntax);
                }
                options.values = Values::Of(ctx.args.from(begin).first(count));
                at = begin + count;
            } else if is_plural && is(b"COUNT") && has_next && options.count.is_none() {
                options.count = Some(number_from(ctx.arg(at + 1), 1)?);
                at += 2;
            } else if is_plural && is(b"MAXPATHLEN") && has_next && options.max_path_bytes.is_none() {
                options.max_path_bytes = Some(number_from(ctx.arg(at + 1), 0)?);
                at += 2;
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(options)
    }

    /// Writes a path and what is wanted of its hash.
    fn write(&self, reply: &mut Reply, path: &[u8], hash: &Hash) {
        if !matches!(self.values, Values::None) {
            reply.array(2);
        }
        if self.lengths {
            reply.count(path.len());
        } else {
            reply.bulk(path);
        }
        match &self.values {
            Values::None => {}
            Values::All => all_fields(reply, hash),
            Values::Of(fields) => {
                reply.array(fields.len());
                fields.iter().for_each(|field| value_or_null(reply, Some(hash), field));
            }
        }
    }
}

const BY_QUERY: &str = "O(L+N), L being the length of the query and N the number of values in the reply";

pub(super) static PHLONGEST: Command<Handler> = command("phlongest", -3, phlongest as Handler)
    .flags(Flags::READONLY)
    .keys(RO_ACCESS)
    .acl(Acl::PATHHASH)
    .syntax("key:k0 query ?LENGTH ?values(WITHVALUES|fields=FIELDS(numfields:i *field))")
    .doc(
        Group::PathHash,
        "9.2.0",
        BY_QUERY,
        "Returns the longest path of a path hash that the query begins with, and its fields if asked for.",
    );

fn phlongest(ctx: &mut Context<'_>) -> Outcome {
    let options = MatchOptions::parse(ctx, false)?;
    let (key, query) = (ctx.key(1), ctx.arg(2));
    let Context { keys, reply, .. } = ctx;
    match keys.read::<PathHash>(&key)?.and_then(|paths| paths.longest_prefix(query)) {
        Some((len, hash)) => options.write(reply, query.get(..len).unwrap_or(query), hash),
        None => reply.null(),
    }
    Ok(())
}

pub(super) static PHPREFIXES: Command<Handler> = command("phprefixes", -3, phprefixes as Handler)
    .flags(Flags::READONLY)
    .keys(RO_ACCESS)
    .acl(Acl::PATHHASH)
    .syntax(
        "key:k0 query ?LENGTHS ?values(WITHVALUES|fields=FIELDS(numfields:i *field)) ?count=COUNT:i \
         ?max-path-bytes=MAXPATHLEN:i",
    )
    .doc(
        Group::PathHash,
        "9.2.0",
        BY_QUERY,
        "Returns the paths of a path hash that the query begins with, from the shortest to the longest.",
    );

fn phprefixes(ctx: &mut Context<'_>) -> Outcome {
    let options = MatchOptions::parse(ctx, true)?;
    let (key, query) = (ctx.key(1), ctx.arg(2));
    let Context { keys, reply, .. } = ctx;
    let mut found = VecDeque::new();
    if let Some(paths) = keys.read::<PathHash>(&key)? {
        let most = options.count.unwrap_or(usize::MAX);
        paths.each_prefix(query, |len, hash| {
            let is_wanted = options.max_path_bytes.is_none_or(|max| len <= max);
            if is_wanted {
                if found.len() == most {
                    found.pop_front();
                }
                found.push_back((len, hash));
            }
            is_wanted
        });
    }
    reply.array(found.len());
    for (len, hash) in found {
        options.write(reply, query.get(..len).unwrap_or(query), hash);
    }
    Ok(())
}

pub(super) static PHDELPREFIX: Command<Handler> = command("phdelprefix", 3, phdelprefix as Handler)
    .flags(Flags::WRITE)
    .keys(RW_DELETE)
    .acl(Acl::PATHHASH)
    .syntax("key:k0 prefix")
    .doc(
        Group::PathHash,
        "9.2.0",
        "O(L), L being the length of the prefix",
        "Deletes all paths of a path hash that begin with a prefix. The key stays.",
    );

fn phdelprefix(ctx: &mut Context<'_>) -> Outcome {
    let (key, prefix) = (ctx.key(1), ctx.arg(2));
    let removed = match ctx.keys.write::<PathHash>(&key)? {
        Some(mut paths) => paths.remove_prefix(prefix),
        None => PathHash::new(),
    };
    let count = removed.len();
    ctx.keys.discard(Some(Value::PathHash(removed)));
    if count > 0 {
        changed(ctx.keys, &key, "phdelprefix", count as u64);
    }
    ctx.reply.count(count);
    Ok(())
}
