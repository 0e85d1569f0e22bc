//! DUMP and RESTORE: values as bytes, in the form that Redis reads and writes.

use std::sync::atomic::{AtomicBool, Ordering};

use martlet_engine::{EventClass, Touch};
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, Tip, command};
use martlet_values::Owner;
use martlet_values::payload::{self, Refused};

use crate::Handler;
use crate::context::Context;

pub(super) static DUMP: Command<Handler> = command("dump", 2, dump as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, KeyFlags::RO.with(KeyFlags::ACCESS))])
    .acl(Acl::KEYSPACE)
    .syntax("key:k0")
    .doc(
        Group::Generic,
        "2.6.0",
        "O(N) for the size of the value",
        "Returns the value of a key as bytes that RESTORE takes.",
    )
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn dump(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let compress = ctx.settings.rdb_compression;
    let owner = Owner { key: key.bytes, has_links: false };
    let payload = ctx.keys.lookup(&key).map(|entry| payload::dump_of(owner, entry.view(), compress));
    ctx.reply.bulk_or_null(payload.as_deref());
    Ok(())
}

/// RESTORE's options.
#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
    idle_s: Option<i64>,
    frequency: Option<u8>,
}

/// RESTORE takes payloads with wrong checksums (DEBUG SET-SKIP-CHECKSUM-VALIDATION).
pub static IGNORES_CHECKSUMS: AtomicBool = AtomicBool::new(false);

pub(super) static RESTORE: Command<Handler> = command("restore", -4, restore as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::one(1, KeyFlags::OW.with(KeyFlags::UPDATE))])
    .relative_time_if(|args| args.at(2) != b"0" && !args.has_word(2, b"absttl"))
    .acl(Acl::KEYSPACE.with(Acl::DANGEROUS))
    .syntax(
        "key:k0 ttl:i serialized-value ?REPLACE^3.0.0 ?ABSTTL^5.0.0 ?seconds:i=IDLETIME^5.0.0 \
         ?frequency:i=FREQ^5.0.0",
    )
    .doc(
        Group::Generic,
        "2.6.0",
        "O(N) for the size of the value, O(N*log(N)) for sorted sets",
        "Creates a key from what DUMP returned.",
    )
    .history(&[
        ("3.0.0", "Modifier `REPLACE`."),
        ("5.0.0", "Modifier `ABSTTL`."),
        ("5.0.0", "Options `IDLETIME` and `FREQ`."),
    ]);

pub(super) static RESTORE_ASKING: Command<Handler> = command("restore-asking", -4, restore as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM).with(Flags::ASKING).with(Flags::SYSTEM))
    .keys(RESTORE.spec.keys)
    .relative_time_if(|args| args.at(2) != b"0" && !args.has_word(2, b"absttl"))
    .acl(Acl::KEYSPACE.with(Acl::DANGEROUS))
    .syntax(RESTORE.spec.syntax)
    .doc(Group::Server, "3.0.0", RESTORE.spec.complexity, "RESTORE, as nodes of a cluster send it.")
    .history(RESTORE.spec.history);

fn restore(ctx: &mut Context<'_>) -> Outcome {
    let options = options(ctx)?;
    let key = ctx.key(1);
    if !options.replace && ctx.keys.lookup_write(&key).is_some() {
        return Err(Error::Fixed("BUSYKEY Target key name already exists."));
    }
    let ttl_ms = ctx.int(2)?;
    if ttl_ms < 0 {
        return Err(Error::Fixed("ERR Invalid TTL value, must be >= 0"));
    }
    let limits = ctx.settings.decoding_limits();
    let mut decoded = payload::restore(ctx.arg(3), &limits);
    if decoded.is_err() && IGNORES_CHECKSUMS.load(Ordering::Relaxed) {
        decoded = payload::restore_unsummed(ctx.arg(3), &limits);
    }
    if let Err(Refused::Value(error)) = &decoded {
        ctx.keys.effects.warn(format!("Bad data format in RESTORE of a key: {error}"));
    }
    let value = decoded.map_err(|refused| Error::Text(format!("ERR {refused}")))?;

    let now_ms = ctx.keys.now_ms();
    let expiry_ms = match ttl_ms {
        0 => None,
        at_ms if options.absolute => Some(at_ms),
        ttl_ms => Some(ttl_ms.saturating_add(now_ms)),
    };
    let replaced = if options.replace { ctx.keys.kind(&key) } else { None };
    let deleted = replaced.is_some() && ctx.keys.delete(&key);
    if expiry_ms.is_some_and(|at_ms| ctx.keys.deletes_at_once(at_ms)) {
        if deleted {
            ctx.keys.changed(&key, EventClass::GENERIC, "del");
            let word = ctx.keys.effects.deletions.removal.command();
            ctx.keys.effects.replace(ctx.keys.db(), || [word, key.bytes]);
        }
        ctx.reply.ok();
        return Ok(());
    }
    let new_kind = value.kind();
    ctx.keys.set_value(&key, value, expiry_ms);
    ctx.keys.changed(&key, EventClass::GENERIC, "restore");
    if let Some(replaced) = replaced.filter(|_| deleted) {
        ctx.keys.note_overwritten(&key, replaced, new_kind);
    }
    if let Some(lru) = access(ctx.keys.touch(), now_ms, &options) {
        ctx.keys.set_lru(&key, lru);
    }
    if let Some(at_ms) = expiry_ms.filter(|_| !options.absolute) {
        let args = &ctx.args;
        ctx.keys.effects.replace(ctx.keys.db(), || {
            let mut words: Vec<Vec<u8>> = args.iter().map(<[u8]>::to_vec).collect();
            if let Some(ttl) = words.get_mut(2) {
                *ttl = at_ms.to_string().into_bytes();
            }
            words.push(b"ABSTTL".to_vec());
            words
        });
    }
    ctx.reply.ok();
    Ok(())
}

fn options(ctx: &Context<'_>) -> Result<Options, Error> {
    let (mut options, mut rest) = (Options::default(), ctx.rest(4));
    loop {
        if rest.word("replace") {
            options.replace = true;
        } else if rest.word("absttl") {
            options.absolute = true;
        } else if options.frequency.is_none() && rest.option("idletime", 1) {
            let idle_s = rest.int()?;
            if idle_s < 0 {
                return Err(Error::Fixed("ERR Invalid IDLETIME value, must be >= 0"));
            }
            options.idle_s = Some(idle_s);
        } else if options.idle_s.is_none() && rest.option("freq", 1) {
            let frequency = u8::try_from(rest.int()?);
            let invalid = Error::Fixed("ERR Invalid FREQ value, must be >= 0 and <= 255");
            options.frequency = Some(frequency.map_err(|_| invalid)?);
        } else {
            rest.finish()?;
            return Ok(options);
        }
    }
}

/// The access information that the options ask for, as far as the policy keeps it.
fn access(touch: Touch, now_ms: i64, options: &Options) -> Option<u32> {
    match touch {
        Touch::Lfu { minutes, .. } => {
            options.frequency.map(|count| u32::from(minutes) << 8 | u32::from(count))
        }
        Touch::Lrfu(lrfu) => options.frequency.map(|count| lrfu.with_value(u32::from(count))),
        _ => options.idle_s.map(|idle_s| (now_ms / 1000).wrapping_sub(idle_s) as u32 & 0xff_ffff),
    }
}
