//! HyperLogLog: strings that estimate how many different elements were added to them.
//!
//! Invariant: a command changes nothing unless every HyperLogLog that it names is whole, or the one addition
//! that it makes finds its register.

#[cfg(test)]
mod tests;

use martlet_engine::{EventClass, Keys};
use martlet_keyspace::{Key, StrValue};
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use martlet_types::hyperloglog::{self, Corrupt, DENSE_BYTES, Encoding, Observation, REGISTERS, Registers};

use crate::Handler;
use crate::context::Context;

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[&PFADD, &PFCOUNT, &PFMERGE, &PFDEBUG, &PFSELFTEST];

const INVALID: Error = Error::Fixed("WRONGTYPE Key is not a valid HyperLogLog string value.");
const CORRUPT: Error = Error::Fixed("INVALIDOBJ Corrupted HLL object detected");

fn corrupt(_: Corrupt) -> Error {
    CORRUPT
}

/// A string that is a HyperLogLog by its header.
fn checked(value: StrValue<'_>) -> Result<(&[u8], Encoding), Error> {
    let StrValue::Bytes(bytes) = value else { return Err(INVALID) };
    hyperloglog::encoding(bytes).map(|encoding| (bytes, encoding)).ok_or(INVALID)
}

/// Changes a HyperLogLog, which is created if absent.
fn update<R>(keys: &mut Keys, key: &Key<'_>, change: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    keys.update_str(key, 0..DENSE_BYTES, |bytes| {
        if bytes.is_empty() {
            *bytes = hyperloglog::empty();
        }
        change(bytes)
    })
}

static PFADD: Command<Handler> = command("pfadd", -2, pfadd as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::INSERT))])
    .acl(Acl::HYPERLOGLOG)
    .syntax("key:k0 ?*element")
    .doc(
        Group::Hyperloglog,
        "2.8.9",
        "O(1) for each element",
        "Adds elements to a HyperLogLog. Creates the key if it is not there.",
    );

fn pfadd(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let elements = ctx.args.from(2);
    let seen = || elements.iter().map(Observation::of);
    let found = ctx.keys.read_str_for_write(&key)?.map(checked).transpose()?;
    let is_new = found.is_none();
    let changes = match found {
        Some((bytes, Encoding::Dense)) if !seen().any(|one| hyperloglog::dense_is_below(bytes, one)) => 0,
        // What an addition misses it has not changed, so one alone needs no look beforehand.
        Some((bytes, _)) if elements.len() > 1 && !hyperloglog::is_whole(bytes) => return Err(CORRUPT),
        _ => {
            let max_bytes = ctx.settings.hll_sparse_max_bytes;
            update(ctx.keys, &key, |bytes| {
                let mut changes = 0;
                for one in seen() {
                    changes += u64::from(hyperloglog::add(bytes, one, max_bytes)?);
                }
                if changes > 0 || is_new {
                    hyperloglog::forget_count(bytes);
                }
                Ok::<u64, Corrupt>(changes)
            })
            .map_err(corrupt)?
        }
    } + u64::from(is_new);
    if changes > 0 {
        ctx.keys.changed(&key, EventClass::STRING, "pfadd");
        ctx.keys.dirty += changes - 1;
    }
    ctx.reply.int(i64::from(changes > 0));
    Ok(())
}

static PFCOUNT: Command<Handler> = command("pfcount", -2, pfcount as Handler)
    .flags(Flags::READONLY.with(Flags::MAY_REPLICATE))
    .keys(&[KeyPart::range(1, -1, 1, KeyFlags::RW.with(KeyFlags::ACCESS))
        .notes("The count is kept in the value, so that it may be written, too.")])
    .acl(Acl::HYPERLOGLOG)
    .syntax("*key:k0")
    .doc(
        Group::Hyperloglog,
        "2.8.9",
        "O(1) for a key whose count is known; else O(N) with a large constant, N being the number of keys",
        "Estimates how many different elements were added to HyperLogLogs.",
    );

fn pfcount(ctx: &mut Context<'_>) -> Outcome {
    let count = if ctx.argc() == 2 { count_one(ctx)? } else { merged(ctx)?.0.count() };
    ctx.reply.int(count as i64);
    Ok(())
}

/// The count of one HyperLogLog, which keeps it. That is a change of the value, and recorded as one.
fn count_one(ctx: &mut Context<'_>) -> Result<u64, Error> {
    let key = ctx.key(1);
    let Some(value) = ctx.keys.read_str(&key)? else { return Ok(0) };
    let (bytes, _) = checked(value)?;
    if let Some(count) = hyperloglog::cached_count(bytes) {
        return Ok(count);
    }
    let count = hyperloglog::count(bytes).map_err(corrupt)?;
    update(ctx.keys, &key, |bytes| hyperloglog::set_cached_count(bytes, count));
    ctx.keys.signal(&key);
    ctx.keys.dirty += 1;
    Ok(count)
}

/// The registers of all HyperLogLogs named, and whether one of them is dense.
fn merged(ctx: &mut Context<'_>) -> Result<(Box<Registers>, bool), Error> {
    let (mut registers, mut has_dense) = (Box::<Registers>::default(), false);
    for index in 1..ctx.argc() {
        let key = ctx.key(index);
        if let Some(value) = ctx.keys.read_str(&key)? {
            let (bytes, encoding) = checked(value)?;
            has_dense |= encoding == Encoding::Dense;
            registers.merge(bytes).map_err(corrupt)?;
        }
    }
    Ok((registers, has_dense))
}

static PFMERGE: Command<Handler> = command("pfmerge", -2, pfmerge as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[
        KeyPart::one(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::INSERT)),
        KeyPart::range(2, -1, 1, KeyFlags::RO.with(KeyFlags::ACCESS)),
    ])
    .acl(Acl::HYPERLOGLOG)
    .syntax("destkey:k0 ?*sourcekey:k1")
    .doc(
        Group::Hyperloglog,
        "2.8.9",
        "O(N) with a large constant, N being the number of keys",
        "Merges HyperLogLogs into one. Creates the key if it is not there.",
    );

fn pfmerge(ctx: &mut Context<'_>) -> Outcome {
    let (registers, has_dense) = merged(ctx)?;
    let (key, max_bytes) = (ctx.key(1), ctx.settings.hll_sparse_max_bytes);
    ctx.keys.lookup_write(&key);
    update(ctx.keys, &key, |bytes| {
        if has_dense {
            hyperloglog::make_dense(bytes)?;
        }
        for one in registers.observations() {
            hyperloglog::add(bytes, one, max_bytes)?;
        }
        hyperloglog::forget_count(bytes);
        Ok::<(), Corrupt>(())
    })
    .map_err(corrupt)?;
    ctx.keys.changed(&key, EventClass::STRING, "pfadd");
    ctx.reply.ok();
    Ok(())
}

static PFDEBUG: Command<Handler> = command("pfdebug", 3, pfdebug as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM).with(Flags::ADMIN).with(Flags::SYSTEM))
    .keys(&[KeyPart::one(2, KeyFlags::RW.with(KeyFlags::ACCESS))])
    .acl(Acl::HYPERLOGLOG)
    .syntax("subcommand key:k0")
    .doc(Group::Hyperloglog, "2.8.9", "O(1)", "Shows how a HyperLogLog is held.");

fn pfdebug(ctx: &mut Context<'_>) -> Outcome {
    if ctx.args.at(1).eq_ignore_ascii_case(b"simd") {
        return simd(ctx);
    }
    let key = ctx.key(2);
    let Context { keys, reply, args, .. } = ctx;
    let Some(entry) = keys.lookup_write(&key) else {
        return Err(Error::Fixed("ERR The specified key does not exist"));
    };
    let (bytes, encoding) = checked(entry.str().ok_or(Error::WrongType)?)?;
    let is = |word: &str| args.at(1).eq_ignore_ascii_case(word.as_bytes());
    if is("getreg") {
        let mut registers = Box::<Registers>::default();
        registers.merge(bytes).map_err(corrupt)?;
        make_dense(keys, &key)?;
        reply.array(REGISTERS);
        registers.values().iter().for_each(|&value| reply.int(i64::from(value)));
    } else if is("decode") {
        if encoding == Encoding::Dense {
            return Err(Error::Fixed("ERR HLL encoding is not sparse"));
        }
        reply.bulk(decode(bytes).as_bytes());
    } else if is("encoding") {
        reply.simple(if encoding == Encoding::Dense { "dense" } else { "sparse" });
    } else if is("todense") {
        let was_sparse = make_dense(keys, &key)?;
        reply.int(i64::from(was_sparse));
    } else {
        return Err(Error::quoting("ERR Unknown PFDEBUG subcommand '", args.at(1), "'"));
    }
    Ok(())
}

/// Redis switches vector code for registers on and off; on processors without it, it answers as is done here,
/// where all registers go the same way.
fn simd(ctx: &mut Context<'_>) -> Outcome {
    if ![b"on".as_slice(), b"off"].iter().any(|word| ctx.args.at(2).eq_ignore_ascii_case(word)) {
        return Err(Error::Fixed("ERR Argument must be ON or OFF"));
    }
    ctx.reply.simple("disabled");
    Ok(())
}

/// Makes a HyperLogLog dense; whether it was sparse.
fn make_dense(keys: &mut Keys, key: &Key<'_>) -> Result<bool, Error> {
    let was_sparse = update(keys, key, hyperloglog::make_dense).map_err(corrupt)?;
    keys.dirty += u64::from(was_sparse);
    Ok(was_sparse)
}

/// The runs of a sparse HyperLogLog as text.
fn decode(bytes: &[u8]) -> String {
    let shown = hyperloglog::runs(bytes).map(|run| match (run.value, run.is_long) {
        (0, false) => format!("z:{}", run.registers.len()),
        (0, true) => format!("Z:{}", run.registers.len()),
        (value, _) => format!("v:{value},{}", run.registers.len()),
    });
    shown.collect::<Vec<_>>().join(" ")
}

static PFSELFTEST: Command<Handler> = command("pfselftest", 1, pfselftest as Handler)
    .flags(Flags::ADMIN.with(Flags::SYSTEM))
    .acl(Acl::HYPERLOGLOG)
    .doc(Group::Hyperloglog, "2.8.9", "O(1)", "Tests HyperLogLog itself.");

/// Elements that the test adds: a power of ten.
const SELF_TEST_ELEMENTS: u64 = 1_000_000;

fn pfselftest(ctx: &mut Context<'_>) -> Outcome {
    let seed = ctx.keys.random.next_u64();
    let failed = |what: String| Err(Error::Text(format!("ERR TESTFAILED {what}")));
    let (mut sparse, mut dense) = (hyperloglog::empty(), hyperloglog::empty());
    hyperloglog::make_dense(&mut dense).map_err(corrupt)?;
    let max_bytes = ctx.settings.hll_sparse_max_bytes;
    let mut checkpoint = 1;
    for number in 1..=SELF_TEST_ELEMENTS {
        let seen = Observation::of(&(number ^ seed).to_le_bytes());
        hyperloglog::add(&mut sparse, seen, max_bytes).map_err(corrupt)?;
        hyperloglog::add(&mut dense, seen, max_bytes).map_err(corrupt)?;
        if number != checkpoint {
            continue;
        }
        let is_sparse = hyperloglog::encoding(&sparse) == Some(Encoding::Sparse);
        if (number as usize) < max_bytes / 2 && !is_sparse {
            return failed("sparse encoding not used".into());
        }
        let count = hyperloglog::count(&dense).map_err(corrupt)?;
        if count != hyperloglog::count(&sparse).map_err(corrupt)? {
            return failed("dense/sparse disagree".into());
        }
        // Six times the standard error; of ten elements two may share a register.
        let allowed = (6.0 * 1.04 / (REGISTERS as f64).sqrt() * number as f64).ceil() as u64;
        let error = count.abs_diff(number);
        if error > if number == 10 { 1 } else { allowed } {
            return failed(format!("Too big error. card:{number} abserr:{error}"));
        }
        checkpoint *= 10;
    }
    ctx.reply.ok();
    Ok(())
}
