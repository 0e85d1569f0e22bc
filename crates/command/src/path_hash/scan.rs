//! PHSCAN: the paths in order of their bytes, some at a time. Its cursor is the last path shown, in
//! hexadecimal digits behind `1:`, so a walk shows every path that stays for all of it exactly once.

use martlet_spec::{Acl, Command, Error, Flags, Group, Outcome, command};
use martlet_types::path_hash::PathHash;

use super::{RO_ACCESS, all_fields, number_from};
use crate::Handler;
use crate::context::Context;

/// Paths of a call that says nothing about it.
const COUNT: usize = 10;
/// In front of the digits of a cursor.
const MARK: &[u8] = b"1:";

struct ScanOptions<'a> {
    prefix: Option<&'a [u8]>,
    count: usize,
    with_values: bool,
}

impl<'a> ScanOptions<'a> {
    fn parse(ctx: &Context<'a>) -> Result<ScanOptions<'a>, Error> {
        let (mut prefix, mut count, mut with_values) = (None, None, false);
        let mut at = 3;
        while at < ctx.argc() {
            let is = |word: &[u8]| ctx.arg(at).eq_ignore_ascii_case(word);
            let has_next = at + 1 < ctx.argc();
            if is(b"PREFIX") && has_next && prefix.is_none() {
                prefix = Some(ctx.arg(at + 1));
                at += 2;
            } else if is(b"COUNT") && has_next && count.is_none() {
                count = Some(number_from(ctx.arg(at + 1), 1)?);
                at += 2;
            } else if is(b"WITHVALUES") && !with_values {
                with_values = true;
                at += 1;
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(ScanOptions { prefix, count: count.unwrap_or(COUNT), with_values })
    }
}

/// The path behind which a cursor continues; `None` for the beginning.
fn decode(cursor: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    const INVALID: Error = Error::Fixed("ERR invalid cursor");
    if cursor == b"0" {
        return Ok(None);
    }
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let digits = cursor.strip_prefix(MARK).filter(|digits| digits.len().is_multiple_of(2)).ok_or(INVALID)?;
    let bytes = digits.chunks_exact(2).map(|pair| match pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    bytes.collect::<Option<Vec<u8>>>().map(Some).ok_or(INVALID)
}

fn encode(path: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| DIGITS[usize::from(value & 15)];
    MARK.iter().copied().chain(path.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)])).collect()
}

pub(super) static PHSCAN: Command<Handler> = command("phscan", -3, phscan as Handler)
    .flags(Flags::READONLY)
    .keys(RO_ACCESS)
    .acl(Acl::PATHHASH)
    .syntax("key:k0 cursor ?prefix=PREFIX ?count=COUNT:i ?WITHVALUES")
    .doc(
        Group::PathHash,
        "9.2.0",
        "O(L+N), L being the length of the cursor and N the number of paths and values in the reply",
        "Goes through the paths of a path hash in order of their bytes, some at a time.",
    );

fn phscan(ctx: &mut Context<'_>) -> Outcome {
    let options = ScanOptions::parse(ctx)?;
    let last = decode(ctx.arg(2))?;
    let prefix = options.prefix.unwrap_or(b"");
    if last.as_ref().is_some_and(|last| !last.starts_with(prefix)) {
        return Err(Error::Fixed("ERR cursor does not belong to the requested prefix"));
    }
    let key = ctx.key(1);
    let Context { keys, reply, .. } = ctx;
    let none = PathHash::new();
    let all = keys.read::<PathHash>(&key)?.unwrap_or(&none);
    let mut paths = match &last {
        Some(last) => all.paths_after(last),
        None => all.paths_from(prefix),
    };
    let (mut found, mut has_more) = (Vec::new(), false);
    while let Some((path, hash)) = paths.next().filter(|(path, _)| path.starts_with(prefix)) {
        has_more = found.len() == options.count;
        if has_more {
            break;
        }
        found.push((path.to_vec(), hash));
    }
    reply.array(2);
    match found.last().filter(|_| has_more) {
        Some((path, _)) => reply.bulk(&encode(path)),
        None => reply.bulk(b"0"),
    }
    reply.array(found.len());
    for (path, hash) in &found {
        if options.with_values {
            reply.array(2);
        }
        reply.bulk(path);
        if options.with_values {
            all_fields(reply, hash);
        }
    }
    Ok(())
}
