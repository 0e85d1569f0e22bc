//! XCLAIM and XAUTOCLAIM: entries that one consumer has not acknowledged become another's.
//!
//! They are recorded as an XCLAIM for each entry, with all of its decisions, so that replaying it gives the
//! same at any time. One whose entry is gone removes its pending record.

use martlet_base::number::parse_i64;
use martlet_engine::Keys;
use martlet_protocol::reply::Reply;
use martlet_spec::{
    self as spec, Acl, Command, Cursor, Error, Flags, KeyFlags, KeyPart, Outcome, Tip, command,
};
use martlet_types::stream::{Group, Id, Log, Pending, Stream};

use super::group::no_key_or_group;
use super::note_unwatched;
use super::{IdText, parse_id, parse_start, write_entry, write_id};
use crate::Handler;
use crate::context::Context;

/// An entry that became a consumer's, to be recorded.
pub(super) struct Claimed {
    pub id: Id,
    pub pending: Pending,
    /// The group's last id then.
    pub last_id: Id,
}

/// Records that entries became a consumer's.
pub(super) fn record_claims(
    keys: &mut Keys,
    key: &[u8],
    group: &[u8],
    claims: impl IntoIterator<Item = (Vec<u8>, Claimed)>,
) {
    for (consumer, Claimed { id, pending, last_id }) in claims {
        if pending.consumer.is_none() {
            // A released entry that is gone has no former consumer to report.
            let id = IdText::new(id);
            keys.effects.replace(keys.db(), || [b"XACK", key, group, id.as_ref()]);
            continue;
        }
        keys.effects.replace(keys.db(), || {
            let number = |number: String| number.into_bytes();
            [
                b"XCLAIM".to_vec(),
                key.to_vec(),
                group.to_vec(),
                consumer,
                b"0".to_vec(),
                IdText::new(id).as_ref().to_vec(),
                b"TIME".to_vec(),
                number(pending.delivered_ms.to_string()),
                b"RETRYCOUNT".to_vec(),
                number(pending.deliveries.to_string()),
                b"FORCE".to_vec(),
                b"JUSTID".to_vec(),
                b"LASTID".to_vec(),
                IdText::new(last_id).as_ref().to_vec(),
            ]
        });
    }
}

/// Records how far a group has read.
pub(super) fn record_progress(keys: &mut Keys, key: &[u8], group: &[u8], last_id: Id, read: Option<u64>) {
    keys.effects.replace(keys.db(), || {
        let read = read.map_or_else(|| "-1".to_string(), |read| read.to_string());
        let id = IdText::new(last_id).as_ref().to_vec();
        let command = [b"XGROUP".to_vec(), b"SETID".to_vec(), key.to_vec(), group.to_vec(), id];
        command.into_iter().chain([b"ENTRIESREAD".to_vec(), read.into_bytes()])
    });
}

/// Records that a group has another consumer.
pub(super) fn record_consumer(keys: &mut Keys, key: &[u8], group: &[u8], consumer: &[u8]) {
    keys.effects.replace(keys.db(), || [b"XGROUP", &b"CREATECONSUMER"[..], key, group, consumer]);
}

/// How entries are claimed.
struct Terms {
    idle_min_ms: i64,
    delivered_ms: i64,
    deliveries: Option<u64>,
    /// Also entries that are not pending.
    force: bool,
    /// Only ids are answered, and the count of deliveries stays.
    just_id: bool,
}

/// What becomes of an entry that is asked for.
enum Claim {
    /// It is another's business, or was delivered too lately.
    Left,
    /// It is pending, but is no entry any more, and is not pending from now on.
    Gone(Claimed),
    Taken(Claimed),
}

impl Terms {
    fn claim(&self, log: &Log, group: &mut Group, id: Id, consumer: u32, now_ms: i64) -> Claim {
        let before = group.pending(id).copied();
        let last_id = group.last_id;
        if !log.contains(id) {
            return match group.acknowledge(id) {
                Some(pending) => Claim::Gone(Claimed { id, pending, last_id }),
                None => Claim::Left,
            };
        }
        let is_left = match before {
            None => !self.force,
            Some(before) => {
                let idle_ms = before.idle_ms(now_ms);
                self.idle_min_ms > 0 && idle_ms.is_some_and(|idle_ms| idle_ms < self.idle_min_ms)
            }
        };
        if is_left {
            return Claim::Left;
        }
        // An entry made pending here counts as delivered once before.
        let mut pending = before.unwrap_or(Pending { consumer: None, delivered_ms: 0, deliveries: 1 });
        let again = if self.just_id { pending.deliveries } else { pending.delivered_again() };
        pending.deliveries = self.deliveries.unwrap_or(again);
        (pending.consumer, pending.delivered_ms) = (Some(consumer), self.delivered_ms);
        group.set_pending(id, pending);
        Claim::Taken(Claimed { id, pending, last_id })
    }

    fn write(&self, reply: &mut Reply, log: &Log, id: Id) {
        match log.range(id, id).next().filter(|_| !self.just_id) {
            Some(entry) => write_entry(reply, entry),
            None => write_id(reply, id),
        }
    }
}

/// Both commands' work on a group: the claiming consumer, and the records.
struct Claimant {
    number: u32,
    is_new: bool,
    /// With the names of the former consumers of entries that are gone.
    records: Vec<(Vec<u8>, Claimed)>,
    taken: u64,
}

impl Claimant {
    fn new(group: &mut Group, name: &[u8], now_ms: i64) -> Claimant {
        let is_new = group.number_of(name).is_none();
        let number = group.add_consumer(name, now_ms);
        if let Some(consumer) = group.consumer_mut(number) {
            consumer.seen_ms = now_ms;
        }
        Claimant { number, is_new, records: Vec::new(), taken: 0 }
    }

    /// Takes an entry if the terms allow it; what became of it.
    fn claim(&mut self, terms: &Terms, log: &Log, group: &mut Group, id: Id, now_ms: i64) -> Option<bool> {
        let (claimed, is_taken) = match terms.claim(log, group, id, self.number, now_ms) {
            Claim::Left => return None,
            Claim::Gone(claimed) => (claimed, false),
            Claim::Taken(claimed) => (claimed, true),
        };
        if is_taken && let Some(consumer) = group.consumer_mut(self.number) {
            consumer.active_ms = now_ms;
        }
        let owner = claimed.pending.consumer.and_then(|number| group.consumer(number));
        self.records.push((owner.map_or_else(Vec::new, |owner| owner.name().to_vec()), claimed));
        self.taken += u64::from(is_taken);
        Some(is_taken)
    }

    /// Records all of it.
    fn finish(self, ctx: &mut Context<'_>, progress: Option<(Id, Option<u64>)>) {
        let (key, group, consumer) = (ctx.key(1), ctx.arg(2), ctx.arg(3));
        if self.is_new {
            record_consumer(ctx.keys, key.bytes, group, consumer);
            note_unwatched(ctx.keys, &key, "xgroup-createconsumer");
        }
        if let Some((last_id, read)) = progress.filter(|_| self.records.is_empty()) {
            ctx.keys.dirty += 1;
            record_progress(ctx.keys, key.bytes, group, last_id, read);
        }
        ctx.keys.dirty += self.records.len() as u64;
        record_claims(ctx.keys, key.bytes, group, self.records);
    }
}

pub(super) static XCLAIM: Command<Handler> = command("xclaim", -6, xclaim as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))])
    .acl(Acl::STREAM)
    .syntax(
        "key:k0 group consumer min-idle-time *id ?ms:i=IDLE ?unix-time-milliseconds:t=TIME \
         ?count:i=RETRYCOUNT ?FORCE ?JUSTID ?lastid=LASTID",
    )
    .doc(
        spec::Group::Stream,
        "5.0.0",
        "O(log N) for each entry, N being the number of those not acknowledged",
        "Makes entries that are not acknowledged another consumer's, as if delivered to it.",
    )
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

/// XCLAIM's arguments behind the group.
struct ClaimRequest {
    ids: Vec<Id>,
    terms: Terms,
    last_id: Id,
}

fn parse_claim(ctx: &Context<'_>) -> Result<ClaimRequest, Error> {
    let number = |rest: &mut Cursor<'_>, error| rest.at_least(i64::MIN, error);
    let idle_min_ms = number(&mut ctx.rest(4), "ERR Invalid min-idle-time argument for XCLAIM")?;
    let parsed = ctx.args.from(5).iter().map_while(|text| parse_id(text, 0).ok());
    let ids: Vec<Id> = parsed.collect();
    let now_ms = ctx.keys.now_ms();
    let mut terms = Terms { idle_min_ms, delivered_ms: -1, deliveries: None, force: false, just_id: false };
    let (mut last_id, mut rest) = (Id::MIN, ctx.rest(5 + ids.len()));
    while let Some(word) = rest.peek() {
        if rest.word("FORCE") {
            terms.force = true;
        } else if rest.word("JUSTID") {
            terms.just_id = true;
        } else if rest.option("IDLE", 1) {
            let idle_ms = number(&mut rest, "ERR Invalid IDLE option argument for XCLAIM")?;
            terms.delivered_ms = now_ms.wrapping_sub(idle_ms);
        } else if rest.option("TIME", 1) {
            terms.delivered_ms = number(&mut rest, "ERR Invalid TIME option argument for XCLAIM")?;
        } else if rest.option("RETRYCOUNT", 1) {
            let count = number(&mut rest, "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
            terms.deliveries = u64::try_from(count).ok();
        } else if rest.option("LASTID", 1) {
            last_id = parse_id(rest.value()?, 0)?;
        } else {
            return Err(Error::quoting("ERR Unrecognized XCLAIM option '", word, "'"));
        }
    }
    // An invalid time, or one in the future, is ignored: clients compute it by their own clocks. A primary or
    // a file, which run at time 0, know it.
    if terms.delivered_ms < 0 || (terms.delivered_ms > now_ms && !super::is_from_primary(ctx.keys)) {
        terms.delivered_ms = now_ms;
    }
    Ok(ClaimRequest { ids, terms, last_id })
}

fn xclaim(ctx: &mut Context<'_>) -> Outcome {
    let (key, name, consumer, now_ms) = (ctx.key(1), ctx.arg(2), ctx.arg(3), ctx.keys.now_ms());
    if ctx.keys.read::<Stream>(&key)?.and_then(|stream| stream.group(name)).is_none() {
        return Err(no_key_or_group(key.bytes, name, ""));
    }
    let ClaimRequest { ids, terms, last_id } = parse_claim(ctx)?;
    let now_ms = if super::is_from_primary(ctx.keys) { terms.delivered_ms } else { now_ms };
    let Context { keys, reply, .. } = ctx;
    let mut stream = keys.write::<Stream>(&key)?.ok_or(Error::NoSuchKey)?;
    let Some((log, group)) = stream.group_mut(name) else { return Err(Error::NoSuchKey) };
    let progress = (last_id > group.last_id).then(|| {
        group.last_id = last_id;
        (last_id, group.entries_read)
    });
    let mut claimant = Claimant::new(group, consumer, now_ms);
    let place = reply.defer();
    for id in ids {
        if claimant.claim(&terms, log, group, id, now_ms) == Some(true) {
            terms.write(reply, log, id);
        }
    }
    reply.close_array(place, claimant.taken as usize);
    drop(stream);
    claimant.finish(ctx, progress);
    Ok(())
}

pub(super) static XAUTOCLAIM: Command<Handler> = command("xautoclaim", -6, xautoclaim as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::DELETE))])
    .acl(Acl::STREAM)
    .syntax("key:k0 group consumer min-idle-time start ?count:i=COUNT ?JUSTID")
    .doc(
        spec::Group::Stream,
        "6.2.0",
        "O(N), N being the number of entries looked at",
        "Makes entries that were delivered long ago and are not acknowledged another consumer's.",
    )
    .history(&[(
        "7.0.0",
        "A third element, the ids of deleted entries that were removed from the pending ones.",
    )])
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

/// Entries that are looked at for each that is asked for.
const LOOKS_PER_ENTRY: usize = 10;
/// Highest COUNT, so that Redis' room for ids fits a number of bytes.
const COUNT_MAX: i64 = i64::MAX / 16;

fn xautoclaim(ctx: &mut Context<'_>) -> Outcome {
    let mut rest = ctx.rest(4);
    let idle_min_ms = rest.at_least(i64::MIN, "ERR Invalid min-idle-time argument for XAUTOCLAIM")?;
    let start = parse_start(rest.value()?)?;
    let (mut count, mut just_id) = (100, false);
    loop {
        if rest.option("COUNT", 1) {
            let asked = parse_i64(rest.value()?).filter(|asked| (1..=COUNT_MAX).contains(asked));
            count = asked.ok_or(Error::Fixed("ERR COUNT must be > 0"))? as usize;
        } else if rest.word("JUSTID") {
            just_id = true;
        } else {
            break rest.finish()?;
        }
    }
    let (key, name, consumer, now_ms) = (ctx.key(1), ctx.arg(2), ctx.arg(3), ctx.keys.now_ms());
    if ctx.keys.read::<Stream>(&key)?.and_then(|stream| stream.group(name)).is_none() {
        return Err(no_key_or_group(key.bytes, name, ""));
    }
    let terms = Terms { idle_min_ms, delivered_ms: now_ms, deliveries: None, force: false, just_id };
    let Context { keys, reply, .. } = ctx;
    let mut stream = keys.write::<Stream>(&key)?.ok_or(Error::NoSuchKey)?;
    let Some((log, group)) = stream.group_mut(name) else { return Err(Error::NoSuchKey) };
    let mut claimant = Claimant::new(group, consumer, now_ms);
    let looks = count.saturating_mul(LOOKS_PER_ENTRY);
    let ids: Vec<Id> = group.pending_from(start).map(|(id, _)| id).take(looks).collect();
    let (mut gone, mut taken, mut last) = (Vec::new(), Vec::new(), None);
    for id in ids {
        if gone.len() + taken.len() >= count {
            break;
        }
        last = Some(id);
        match claimant.claim(&terms, log, group, id, now_ms) {
            Some(true) => taken.push(id),
            Some(false) => gone.push(id),
            None => {}
        }
    }
    let after = last.map_or(Some(start), Id::next);
    let next = after.and_then(|after| group.pending_from(after).next()).map_or(Id::MIN, |(id, _)| id);
    reply.array(3);
    write_id(reply, next);
    reply.array(taken.len());
    taken.iter().for_each(|&id| terms.write(reply, log, id));
    reply.array(gone.len());
    gone.iter().for_each(|&id| write_id(reply, id));
    drop(stream);
    claimant.finish(ctx, None);
    Ok(())
}
