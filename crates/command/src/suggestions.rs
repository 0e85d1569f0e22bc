//! FT.SUGADD, FT.SUGGET, FT.SUGDEL and FT.SUGLEN: dictionaries of suggestions, which complete a text that is
//! being typed.
//!
//! A dictionary is a value of RediSearch's module type `trietype0`, which notes no key events of these
//! commands, so none are noted here. It stays in its key without suggestions, too. A request that changes
//! nothing is neither recorded nor a change to watchers.

#[cfg(test)]
mod tests;

use martlet_base::number::{parse_f64, parse_i64};
use martlet_keyspace::{ModuleValue, Value};
use martlet_protocol::request::Args;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command, module};
use martlet_types::suggestions::{Added, PREFIX_MAX_CHARACTERS, Query, ScoreChange};
use martlet_values::SuggestionDictionary;

use crate::Handler;
use crate::context::Context;

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[&SUGADD, &SUGGET, &SUGDEL, &SUGLEN];

const GROUP: Group = Group::Module(&module::SEARCH);

/// Suggestions that FT.SUGGET returns without MAX.
const MAX_DEFAULT: usize = 5;
/// A prefix has fewer bytes.
const PREFIX_MAX_BYTES: usize = 2 * PREFIX_MAX_CHARACTERS;
/// With TRIM, a suggestion whose score is lower than the best one's by more than this factor is left out.
const TRIM_FACTOR: f64 = 10.0;

static SUGADD: Command<Handler> = command("ft.sugadd", -4, sugadd as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))])
    .acl(Acl::WRITE.with(Acl::SEARCH))
    .syntax("key:k0 string score:d ?INCR ?payload=PAYLOAD")
    .doc(
        GROUP,
        "1.0.0",
        "O(L), L being the length of the text",
        "Adds a text to a dictionary of suggestions, or changes its score. Creates the key if it is not there.",
    );

/// The options of FT.SUGADD.
struct Addition<'a> {
    change: ScoreChange,
    payload: &'a [u8],
}

impl<'a> Addition<'a> {
    fn parse(args: &Args<'a>) -> Result<Addition<'a>, Error> {
        let mut addition = Addition { change: ScoreChange::Replace, payload: b"" };
        let mut at = 4;
        while let Some(word) = args.get(at) {
            at += 1;
            if word.eq_ignore_ascii_case(b"INCR") {
                addition.change = ScoreChange::Increment;
            } else if word.eq_ignore_ascii_case(b"PAYLOAD") {
                let absent = Error::Fixed("Invalid payload: Expected an argument, but none provided");
                addition.payload = args.get(at).ok_or(absent)?;
                at += 1;
            } else {
                return Err(Error::quoting("Unknown argument `", word, "`"));
            }
        }
        Ok(addition)
    }
}

fn sugadd(ctx: &mut Context<'_>) -> Outcome {
    if ctx.argc() > 7 {
        return Err(Error::Arity("ft.sugadd"));
    }
    let (key, text) = (ctx.key(1), ctx.arg(2));
    let Addition { change, payload } = Addition::parse(&ctx.args)?;
    // The type of the value comes before the score, and the score before any change.
    let is_there = ctx.keys.read::<SuggestionDictionary>(&key)?.is_some();
    let score = parse_f64(ctx.arg(3)).ok_or(Error::Fixed("ERR invalid score"))?;
    let not_a_number = |_| Error::Fixed("ERR resulting score is not a number (NaN)");
    let (is_changed, len);
    if is_there && let Some(mut dictionary) = ctx.keys.write::<SuggestionDictionary>(&key)? {
        let added = dictionary.0.add(text, score, change, payload).map_err(not_a_number)?;
        (is_changed, len) = (added != Added::Ignored, dictionary.0.len());
    } else {
        let mut dictionary = SuggestionDictionary::default();
        dictionary.0.add(text, score, change, payload).map_err(not_a_number)?;
        (is_changed, len) = (true, dictionary.0.len());
        ctx.keys.set_value(&key, Value::Module(ModuleValue::new(dictionary)), None);
    }
    if is_changed {
        ctx.keys.dirty += 1;
        ctx.keys.signal(&key);
    }
    ctx.reply.count(len);
    Ok(())
}

static SUGGET: Command<Handler> = command("ft.sugget", -3, sugget as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, KeyFlags::RO.with(KeyFlags::ACCESS))])
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("key:k0 prefix ?FUZZY ?WITHSCORES ?WITHPAYLOADS ?max:i=MAX")
    .doc(
        GROUP,
        "1.0.0",
        "O(L) for the prefix's length L, and O(N) at worst for the N texts that begin with it",
        "Returns the best suggestions for the beginning of a text.",
    );

/// The options of FT.SUGGET.
#[derive(Default)]
struct Options {
    is_fuzzy: bool,
    with_scores: bool,
    with_payloads: bool,
    is_trimmed: bool,
    max: Option<usize>,
}

impl Options {
    fn parse(args: &Args<'_>) -> Result<Options, Error> {
        let mut options = Options::default();
        let mut at = 3;
        while let Some(word) = args.get(at) {
            at += 1;
            let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
            if is(b"FUZZY") {
                options.is_fuzzy = true;
            } else if is(b"WITHSCORES") {
                options.with_scores = true;
            } else if is(b"WITHPAYLOADS") {
                options.with_payloads = true;
            } else if is(b"TRIM") {
                options.is_trimmed = true;
            } else if is(b"MAX") {
                let absent = Error::Fixed("MAX: Expected an argument, but none provided");
                options.max = Some(count(args.get(at).ok_or(absent)?)?);
                at += 1;
            } else if !is(b"OPTIMIZE") {
                // RediSearch takes OPTIMIZE, and does nothing with it.
                return Err(Error::quoting("Unrecognized argument: ", word, ""));
            }
        }
        Ok(options)
    }
}

/// The number of MAX: a positive integer of 32 bits, or a number that is cut to one.
fn count(text: &[u8]) -> Result<usize, Error> {
    const NO_NUMBER: Error = Error::Fixed("MAX: Could not convert argument to expected type");
    const OUT_OF_RANGE: Error = Error::Fixed("MAX: Value is outside acceptable bounds");
    let number = match parse_i64(text) {
        Some(number) => number,
        None => parse_f64(text).filter(|number| *number >= 1.0).ok_or(NO_NUMBER)? as i64,
    };
    let number = u32::try_from(number).ok().filter(|number| *number >= 1);
    number.map(|number| number as usize).ok_or(OUT_OF_RANGE)
}

fn sugget(ctx: &mut Context<'_>) -> Outcome {
    if ctx.argc() > 10 {
        return Err(Error::Arity("ft.sugget"));
    }
    let (key, prefix) = (ctx.key(1), ctx.arg(2));
    if prefix.len() >= PREFIX_MAX_BYTES {
        return Err(Error::Fixed("Invalid query length"));
    }
    let options = Options::parse(&ctx.args)?;
    let Context { keys, reply, .. } = ctx;
    let Some(SuggestionDictionary(dictionary)) = keys.read(&key)? else {
        reply.null();
        return Ok(());
    };
    let query = Query { prefix, is_fuzzy: options.is_fuzzy, max: options.max.unwrap_or(MAX_DEFAULT) };
    let mut found = dictionary.search(query).ok_or(Error::Fixed("Invalid query"))?;
    if options.is_trimmed
        && let Some(best) = found.first().map(|best| f64::from(best.score)).filter(|best| *best > 0.0)
    {
        found.retain(|found| f64::from(found.score) >= best / TRIM_FACTOR);
    }
    let replies = 1 + usize::from(options.with_scores) + usize::from(options.with_payloads);
    reply.array(found.len() * replies);
    for found in &found {
        reply.bulk(&found.text);
        if options.with_scores {
            reply.double(f64::from(found.score));
        }
        if options.with_payloads {
            reply.bulk_or_null(found.payload);
        }
    }
    Ok(())
}

static SUGDEL: Command<Handler> = command("ft.sugdel", 3, sugdel as Handler)
    .flags(Flags::WRITE)
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::DELETE))])
    .acl(Acl::WRITE.with(Acl::SEARCH))
    .syntax("key:k0 string")
    .doc(
        GROUP,
        "1.0.0",
        "O(L), L being the length of the text",
        "Deletes a text from a dictionary of suggestions. The key stays when the last one goes.",
    );

fn sugdel(ctx: &mut Context<'_>) -> Outcome {
    let (key, text) = (ctx.key(1), ctx.arg(2));
    // A clone shares its nodes until one is changed: look first.
    let is_there = ctx
        .keys
        .read::<SuggestionDictionary>(&key)?
        .is_some_and(|dictionary| dictionary.0.get(text).is_some());
    if is_there {
        if let Some(mut dictionary) = ctx.keys.write::<SuggestionDictionary>(&key)? {
            dictionary.0.remove(text);
        }
        ctx.keys.dirty += 1;
        ctx.keys.signal(&key);
    }
    ctx.reply.int(i64::from(is_there));
    Ok(())
}

static SUGLEN: Command<Handler> = command("ft.suglen", 2, suglen as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, KeyFlags::RO)])
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("key:k0")
    .doc(GROUP, "1.0.0", "O(1)", "Returns the number of suggestions in a dictionary.");

fn suglen(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let len = ctx.keys.read::<SuggestionDictionary>(&key)?.map_or(0, |dictionary| dictionary.0.len());
    ctx.reply.count(len);
    Ok(())
}
