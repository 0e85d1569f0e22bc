//! Redis 8's sketches: BF.*, CF.*, CMS.*, TOPK.* and TDIGEST.*, a file for each type.
//!
//! The structures are the crate `sketch`'s; here are arguments, keys, replies and records. A sketch is a
//! value of a module in Redis, which notes no key events of these commands, so none are noted here. A request
//! that changes nothing is neither recorded nor a change to watchers.

mod bloom;
mod cms;
mod cuckoo;
pub mod settings;
mod tdigest;
#[cfg(test)]
mod tests;
mod topk;

use martlet_base::number::{parse_f64, parse_i64};
use martlet_engine::Keys;
use martlet_keyspace::{Key, ModuleObject, ModuleValue, Value};
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, module};

use crate::Handler;
use crate::context::Context;
pub use martlet_sketch::{bloom::Options as BloomOptions, cuckoo::Options as CuckooOptions};
pub use settings::SketchSettings;

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[
    &bloom::RESERVE,
    &bloom::ADD,
    &bloom::MADD,
    &bloom::INSERT,
    &bloom::EXISTS,
    &bloom::MEXISTS,
    &bloom::SCANDUMP,
    &bloom::LOADCHUNK,
    &bloom::INFO,
    &bloom::CARD,
    &bloom::DEBUG,
    &cuckoo::RESERVE,
    &cuckoo::ADD,
    &cuckoo::ADDNX,
    &cuckoo::INSERT,
    &cuckoo::INSERTNX,
    &cuckoo::EXISTS,
    &cuckoo::MEXISTS,
    &cuckoo::DEL,
    &cuckoo::COUNT,
    &cuckoo::SCANDUMP,
    &cuckoo::LOADCHUNK,
    &cuckoo::INFO,
    &cuckoo::COMPACT,
    &cuckoo::DEBUG,
    &cms::INITBYDIM,
    &cms::INITBYPROB,
    &cms::INCRBY,
    &cms::QUERY,
    &cms::MERGE,
    &cms::INFO,
    &topk::RESERVE,
    &topk::ADD,
    &topk::INCRBY,
    &topk::QUERY,
    &topk::COUNT,
    &topk::LIST,
    &topk::INFO,
    &tdigest::CREATE,
    &tdigest::RESET,
    &tdigest::ADD,
    &tdigest::MERGE,
    &tdigest::MIN,
    &tdigest::MAX,
    &tdigest::QUANTILE,
    &tdigest::CDF,
    &tdigest::TRIMMED_MEAN,
    &tdigest::RANK,
    &tdigest::REVRANK,
    &tdigest::BYRANK,
    &tdigest::BYREVRANK,
    &tdigest::INFO,
];

const GROUP: Group = Group::Module(&module::SKETCHES);
const WRITES: Acl = Acl::WRITE;
const WRITES_FAST: Acl = Acl::WRITE.with(Acl::FAST);
const READS: Acl = Acl::READ;
const READS_FAST: Acl = Acl::READ.with(Acl::FAST);

const CREATES: KeyFlags = KeyFlags::RW.with(KeyFlags::INSERT);
const UPDATES: KeyFlags = KeyFlags::RW.with(KeyFlags::UPDATE);
const ANSWERS_AND_UPDATES: KeyFlags = UPDATES.with(KeyFlags::ACCESS);
const RO: KeyFlags = KeyFlags::RO.with(KeyFlags::ACCESS);
const FILLS: Flags = Flags::WRITE.with(Flags::DENYOOM);
const ASKS: Flags = Flags::READONLY.with(Flags::FAST);

/// A key that is not there, in the words of filters.
const NOT_FOUND: Error = Error::Fixed("ERR not found");
/// A key that is, in the same.
const EXISTS: Error = Error::Fixed("ERR item exists");

/// An error of a structure, which prints Redis' words.
fn refused(error: impl std::fmt::Display) -> Error {
    Error::Text(error.to_string())
}

/// The argument at an index as an integer, or this error.
fn int(args: &Args<'_>, index: usize, error: &'static str) -> Result<i64, Error> {
    parse_i64(args.at(index)).ok_or(Error::Fixed(error))
}

/// The argument at an index as a number that may be infinite, or this error.
fn float(args: &Args<'_>, index: usize, error: &'static str) -> Result<f64, Error> {
    parse_f64(args.at(index)).filter(|number| !number.is_nan()).ok_or(Error::Fixed(error))
}

/// The first argument from `from` on that is this word, in any case of letters.
fn find_word(args: &Args<'_>, from: usize, word: &str) -> Option<usize> {
    (from..args.len()).find(|index| args.at(*index).eq_ignore_ascii_case(word.as_bytes()))
}

/// The arguments from `from` on.
fn items<'a>(args: &Args<'a>, from: usize) -> Vec<&'a [u8]> {
    args.from(from).iter().collect()
}

/// The keys of a command that merges: the destination in any case, and the sources if their number fits.
/// Redis looks at the destination before it looks at that number.
fn merged_keys(args: &Args<'_>, out: &mut Vec<usize>) -> bool {
    out.push(1);
    let fits = SOURCES.find_in(args, out);
    // A number that does not fit has no sources; the handler refuses it.
    fits || args.len() > 1
}

/// The sources of a command that merges.
const SOURCES: KeyPart = KeyPart::counted(2, RO);

/// Refuses a key that is there: with `of_type` if it holds a `T`, else with `of_others`.
fn refuse_present<T: ModuleObject>(
    keys: &mut Keys,
    key: &Key<'_>,
    of_type: Error,
    of_others: Error,
) -> Result<(), Error> {
    match keys.lookup_write(key).map(|entry| entry.object::<T>().is_some()) {
        None => Ok(()),
        Some(true) => Err(of_type),
        Some(false) => Err(of_others),
    }
}

/// Changes the sketch in a key; `None` if the key is not there.
fn change<T: ModuleObject, R>(
    keys: &mut Keys,
    key: &Key<'_>,
    work: impl FnOnce(&mut T) -> R,
) -> Result<Option<R>, Error> {
    Ok(keys.write::<T>(key)?.map(|mut sketch| work(&mut sketch)))
}

/// Puts a sketch into a key, in place of whatever it holds.
fn put(keys: &mut Keys, key: &Key<'_>, sketch: impl ModuleObject) {
    keys.set_value(key, Value::Module(ModuleValue::new(sketch)), None);
}

/// The same as the change that the request makes.
fn store(keys: &mut Keys, key: &Key<'_>, sketch: impl ModuleObject) {
    put(keys, key, sketch);
    changed(keys, key);
}

/// Counts a change, and notifies watchers and waiters.
fn changed(keys: &mut Keys, key: &Key<'_>) {
    keys.dirty += 1;
    keys.signal(key);
}

/// Writes facts as pairs of name and number, a map in RESP3.
fn facts(reply: &mut Reply, facts: &[(&str, i64)]) {
    reply.map(facts.len());
    for (name, value) in facts {
        reply.simple(name);
        reply.int(*value);
    }
}

/// The records of a request that has created the key with options that are not the defaults of all servers:
/// the command that creates it, then the request. Another server's parameters may differ.
fn record_with_creation(ctx: &mut Context<'_>, create: Vec<Vec<u8>>) {
    let request: Vec<Vec<u8>> = ctx.args.iter().map(<[u8]>::to_vec).collect();
    let db = ctx.keys.db();
    ctx.keys.effects.replace(db, || create);
    ctx.keys.effects.replace(db, || request);
}

/// A number as C's `%g` spells it: six significant digits, without zeros at their end.
fn six_digits(value: f64) -> String {
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let scientific = format!("{value:.5e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(power @ -4..=5) => trimmed(&format!("{value:.*}", (5 - power) as usize)),
        Ok(power) => format!("{}e{}{:02}", trimmed(digits), if power < 0 { '-' } else { '+' }, power.abs()),
        Err(_) => scientific,
    }
}
