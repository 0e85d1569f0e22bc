//! XREAD and XREADGROUP: new entries of several streams, for which a client may wait; and entries that other
//! consumers have had for too long, which XREADGROUP claims first on request.
//!
//! A client that waits has its request run again when one of the keys has changed, so `$` is replaced by its
//! id as soon as it waits. One that would claim is served by time, too: its wait has the time at which there
//! will be an entry. XREADGROUP's changes are recorded as XCLAIM and XGROUP.

use martlet_base::number::parse_i64;
use martlet_engine::Awaited;
use martlet_keyspace::{Key, Object};
use martlet_protocol::reply::Reply;
use martlet_spec::{
    Acl, Begin, Command, Cursor, Error, Find, Flags, Group, KeyFlags, KeyPart, Outcome, command,
};
use martlet_types::stream::{self as types, Entry, Id, Log, Pending, Stream};

use super::claim::{Claimed, record_claims, record_consumer, record_progress};
use super::group::no_key_or_group;
use super::note_unwatched;
use super::{IdText, parse_id, write_entry, write_fields, write_id};
use crate::Handler;
use crate::context::{Block, Context, TimeoutReply, Wait};

const COMPLEXITY: &str = "O(M) for each stream, M being the number of entries returned";

/// From which entry on a stream is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Behind this one.
    After(Id),
    /// Behind the last one that the group has got.
    New,
}

/// The request.
struct Request<'a> {
    /// Most entries of each stream.
    count: Option<u64>,
    /// Most entries of all streams.
    max_count: Option<u64>,
    /// From this many bytes of reply on no further entry is begun.
    max_bytes: Option<usize>,
    /// Entries that other consumers have had for this long are claimed.
    claim_idle_ms: Option<i64>,
    /// When to give up waiting; `None` not to wait.
    deadline_ms: Option<Option<i64>>,
    /// Group and consumer.
    reader: Option<(&'a [u8], &'a [u8])>,
    no_ack: bool,
    /// The argument that is the first key.
    first: usize,
    streams: usize,
}

/// A timeout in milliseconds as a deadline.
fn deadline_ms(timeout: &[u8], now_ms: i64) -> Result<Option<i64>, Error> {
    const BAD: Error = Error::Fixed("ERR timeout is not an integer or out of range");
    let timeout_ms = parse_i64(timeout).ok_or(BAD)?;
    if timeout_ms < 0 {
        return Err(Error::Fixed("ERR timeout is negative"));
    }
    let deadline = timeout_ms.checked_add(now_ms);
    let deadline = deadline.ok_or(Error::Fixed("ERR timeout is out of range"))?;
    Ok((timeout_ms > 0).then_some(deadline))
}

impl<'a> Request<'a> {
    fn parse(ctx: &Context<'a>, for_group: bool) -> Result<Request<'a>, Error> {
        let none = Request {
            count: None,
            max_count: None,
            max_bytes: None,
            claim_idle_ms: None,
            deadline_ms: None,
            reader: None,
            no_ack: false,
            first: 0,
            streams: 0,
        };
        let (mut request, mut rest) = (none, ctx.rest(1));
        loop {
            if rest.option("BLOCK", 1) {
                request.deadline_ms = Some(deadline_ms(rest.value()?, ctx.keys.now_ms())?);
            } else if rest.option("COUNT", 1) {
                request.count = u64::try_from(rest.int()?).ok().filter(|&count| count > 0);
            } else if rest.option("MAXCOUNT", 1) {
                request.max_count = Some(positive(rest.int()?, "ERR MAXCOUNT must be a positive integer")?);
            } else if rest.option("MAXSIZE", 1) {
                let max = positive(rest.int()?, "ERR MAXSIZE must be a positive integer")?;
                request.max_bytes = Some(usize::try_from(max).unwrap_or(usize::MAX));
            } else if rest.option("CLAIM", 1) {
                if !for_group {
                    return Err(only_for_groups("CLAIM"));
                }
                request.claim_idle_ms = Some(claim_idle_ms(rest.value()?)?);
            } else if rest.option("STREAMS", 1) {
                if rest.left() % 2 == 1 {
                    return Err(unbalanced(for_group));
                }
                (request.first, request.streams) = (rest.index(), rest.left() / 2);
                break;
            } else if rest.option("GROUP", 2) {
                if !for_group {
                    return Err(only_for_groups("GROUP"));
                }
                request.reader = Some((rest.value()?, rest.value()?));
            } else if rest.word("NOACK") {
                if !for_group {
                    return Err(only_for_groups("NOACK"));
                }
                request.no_ack = true;
            } else {
                break rest.finish()?;
            }
        }
        if request.streams == 0 {
            return Err(Error::Syntax);
        }
        if for_group && request.reader.is_none() {
            return Err(Error::Fixed("ERR Missing GROUP option for XREADGROUP"));
        }
        if request.max_count.is_some_and(|max| request.count.is_some_and(|count| count > max)) {
            return Err(Error::Fixed("ERR MAXCOUNT must be greater than or equal to COUNT"));
        }
        Ok(request)
    }

    /// Where each stream is to be read from; its key and type, and its group, are looked at before the id.
    fn positions(&self, ctx: &mut Context<'a>) -> Result<Vec<Position>, Error> {
        let keys = self.first..self.first + self.streams;
        keys.map(|at| {
            let (key, text) = (ctx.key(at), ctx.arg(at + self.streams));
            let stream = ctx.keys.read::<Stream>(&key)?;
            if let Some((group, _)) = self.reader
                && stream.is_none_or(|stream| stream.group(group).is_none())
            {
                return Err(no_key_or_group(key.bytes, group, " in XREADGROUP with GROUP option"));
            }
            position(text, stream.map(Stream::log), self.reader.is_some())
        })
        .collect()
    }
}

fn positive(number: i64, error: &'static str) -> Result<u64, Error> {
    u64::try_from(number).ok().filter(|&number| number > 0).ok_or(Error::Fixed(error))
}

fn claim_idle_ms(text: &[u8]) -> Result<i64, Error> {
    const BAD: Error = Error::Fixed("ERR min-idle-time is not an integer or out of range");
    let idle_ms = parse_i64(text).ok_or(BAD)?;
    if idle_ms < 0 {
        return Err(Error::Fixed("ERR min-idle-time must be a positive integer"));
    }
    Ok(idle_ms)
}

fn unbalanced(for_group: bool) -> Error {
    let (command, what) = if for_group { ("xreadgroup", "ID or '>'") } else { ("xread", "ID, '+', or '$'") };
    Error::Text(format!(
        "ERR Unbalanced '{command}' list of streams: for each stream key an {what} must be specified."
    ))
}

fn only_for_groups(option: &str) -> Error {
    Error::Text(format!("ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."))
}

fn position(text: &[u8], log: Option<&Log>, for_group: bool) -> Result<Position, Error> {
    let meaningless = |id: &str| {
        Err(Error::Text(format!(
            "ERR The {id} ID is meaningless in the context of XREADGROUP: you want to read the history of this \
             consumer by specifying a proper ID, or use the > ID to get new messages. The {id} ID would just return \
             an empty result set."
        )))
    };
    let last_id = log.map_or(Id::MIN, Log::last_id);
    match text {
        b"$" if for_group => meaningless("$"),
        b"+" if for_group => meaningless("+"),
        b"$" => Ok(Position::After(last_id)),
        b"+" => {
            let last = log.and_then(Log::last_entry).and_then(|entry| entry.id.previous());
            Ok(Position::After(last.unwrap_or(last_id)))
        }
        b">" if for_group => Ok(Position::New),
        b">" => Err(Error::Fixed(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> \
             option.",
        )),
        _ => parse_id(text, 0).map(Position::After),
    }
}

/// The entries behind an id, if there are any.
fn entries_after(log: &Log, id: Id) -> Option<impl Iterator<Item = Entry<'_>>> {
    let start = id.next().filter(|_| id < log.last_id())?;
    let mut entries = log.range(start, Id::MAX).peekable();
    entries.peek().is_some().then_some(entries)
}

pub(super) static XREAD: Command<Handler> = command("xread", -4, xread as Handler)
    .flags(Flags::READONLY.with(Flags::BLOCKING))
    .keys(&[KeyPart::new(
        Begin::FirstKeyword("STREAMS", 1),
        Find::Range { last: -1, step: 1, limit: 2 },
        KeyFlags::RO.with(KeyFlags::ACCESS),
    )])
    .find_keys(find_keys)
    .acl(Acl::STREAM)
    .syntax(
        "?count:i=COUNT ?maxcount:i=MAXCOUNT^8.10.0 ?maxsize:i=MAXSIZE^8.10.0 ?milliseconds:i=BLOCK \
         streams=STREAMS(*key:k0 *id)",
    )
    .doc(
        Group::Stream,
        "5.0.0",
        COMPLEXITY,
        "Returns the entries of several streams behind an id each, or waits until there is one.",
    )
    .history(&[("8.10.0", "Options `MAXCOUNT` and `MAXSIZE`.")]);

fn xread(ctx: &mut Context<'_>) -> Outcome {
    let request = Request::parse(ctx, false)?;
    let positions = request.positions(ctx)?;
    let mut answer = Answer::new(&request, ctx.reply);
    for (index, &position) in positions.iter().enumerate() {
        let key = ctx.key(request.first + index);
        if answer.is_full(ctx.reply) {
            break;
        }
        let Some(stream) = ctx.keys.get(&key).and_then(|entry| entry.object::<Stream>()) else { continue };
        let Position::After(id) = position else { continue };
        if let Some(entries) = entries_after(stream.log(), id) {
            answer.begin(ctx.reply, &key);
            for entry in entries {
                write_entry(ctx.reply, entry);
                if !answer.goes_on_after_entry(ctx.reply) {
                    break;
                }
            }
            answer.end(ctx.reply);
        }
    }
    if answer.finish(ctx.reply) {
        return Ok(());
    }
    let resolved = positions.iter().enumerate().filter_map(|(index, &position)| {
        let at = request.first + request.streams + index;
        match position {
            Position::After(id) if ctx.arg(at) == b"$" => Some((at, IdText::new(id).as_ref().to_vec())),
            _ => None,
        }
    });
    let resolved = resolved.collect();
    wait(ctx, &request, resolved, false, None)
}

/// Streams and their entries as they are answered: pairs in an array, or a map.
struct Answer {
    place: Option<martlet_protocol::reply::Deferred>,
    streams: usize,
    /// The place of the stream's entries, and how many there are.
    entries_place: Option<martlet_protocol::reply::Deferred>,
    entries: u64,
    /// Entries of all streams.
    total: u64,
    count: u64,
    max_count: u64,
    /// Where no further entry is begun.
    full_at: usize,
}

impl Answer {
    fn new(request: &Request<'_>, reply: &Reply) -> Answer {
        Answer {
            place: None,
            streams: 0,
            entries_place: None,
            entries: 0,
            total: 0,
            count: request.count.unwrap_or(u64::MAX),
            max_count: request.max_count.unwrap_or(u64::MAX),
            full_at: request.max_bytes.map_or(usize::MAX, |max| max.saturating_add(reply.len())),
        }
    }

    /// Whether no entry of any further stream may be answered: there is always one.
    fn is_full(&self, reply: &Reply) -> bool {
        self.total >= self.max_count || (self.total > 0 && reply.len() >= self.full_at)
    }

    /// Begins a stream.
    fn begin(&mut self, reply: &mut Reply, key: &Key<'_>) {
        if self.place.is_none() {
            self.place = Some(reply.defer());
        }
        self.streams += 1;
        if !reply.is_resp3() {
            reply.array(2);
        }
        reply.bulk(key.bytes);
        self.entries_place = Some(reply.defer());
        self.entries = 0;
    }

    /// Counts an entry of the stream; whether another one may follow.
    fn goes_on_after_entry(&mut self, reply: &Reply) -> bool {
        self.entries += 1;
        self.total += 1;
        self.entries < self.count && !self.is_full(reply) && !reply.is_full()
    }

    /// Ends a stream.
    fn end(&mut self, reply: &mut Reply) {
        if let Some(place) = self.entries_place.take() {
            reply.close_array(place, self.entries as usize);
        }
    }

    /// Whether there was anything to answer.
    fn finish(self, reply: &mut Reply) -> bool {
        let Some(place) = self.place else { return false };
        if reply.is_resp3() {
            reply.close_map(place, self.streams);
        } else {
            reply.close_array(place, self.streams);
        }
        true
    }
}

/// Waits for a change of the keys, or for a time, if that was asked for, or answers that there is nothing.
fn wait(
    ctx: &mut Context<'_>,
    request: &Request<'_>,
    resolved: Vec<(usize, Vec<u8>)>,
    until_removed: bool,
    again_ms: Option<i64>,
) -> Outcome {
    let on_timeout = TimeoutReply::NullArray;
    let Some(deadline_ms) = request.deadline_ms else {
        on_timeout.write(ctx.reply, |_| (false, 0));
        return Ok(());
    };
    let key_indexes = (request.first..request.first + request.streams).collect();
    let wait = Wait::Keys(key_indexes, Awaited { kind: Stream::KIND, until_removed });
    ctx.block_on(Block { wait, resolved, deadline_ms, again_ms, on_timeout })
}

/// The keys behind STREAMS: the first half of the rest.
fn find_keys(args: &martlet_protocol::request::Args<'_>, out: &mut Vec<usize>) -> bool {
    let mut rest = Cursor::new(*args, 1);
    const OPTIONS: &[(&str, usize)] = &[
        ("BLOCK", 1),
        ("COUNT", 1),
        ("GROUP", 2),
        ("NOACK", 0),
        ("CLAIM", 1),
        ("MAXCOUNT", 1),
        ("MAXSIZE", 1),
    ];
    while let Some(operands) = rest.one_of(OPTIONS) {
        rest.skip(operands);
    }
    if !rest.word("STREAMS") {
        return false;
    }
    let words = rest.left();
    out.extend(rest.index()..rest.index() + words / 2);
    words > 0 && words.is_multiple_of(2)
}

pub(super) static XREADGROUP: Command<Handler> = command("xreadgroup", -7, xreadgroup as Handler)
    .flags(Flags::WRITE.with(Flags::BLOCKING))
    .keys(&[KeyPart::new(
        Begin::FirstKeyword("STREAMS", 4),
        Find::Range { last: -1, step: 1, limit: 2 },
        KeyFlags::RO.with(KeyFlags::ACCESS),
    )])
    .find_keys(find_keys)
    .acl(Acl::STREAM)
    .syntax(
        "group-block=GROUP(group consumer) ?count:i=COUNT ?maxcount:i=MAXCOUNT^8.10.0 \
         ?maxsize:i=MAXSIZE^8.10.0 ?milliseconds:i=BLOCK ?min-idle-time:i=CLAIM ?NOACK \
         streams=STREAMS(*key:k0 *id)",
    )
    .doc(
        Group::Stream,
        "5.0.0",
        COMPLEXITY,
        "Returns the entries of several streams that a group has not got, or those that a consumer has not \
         acknowledged.",
    )
    .history(&[("8.4.0", "Option `CLAIM`."), ("8.10.0", "Options `MAXCOUNT` and `MAXSIZE`.")]);

fn xreadgroup(ctx: &mut Context<'_>) -> Outcome {
    let request = Request::parse(ctx, true)?;
    let positions = request.positions(ctx)?;
    let (mut answer, mut claim_idle_ms) = (Answer::new(&request, ctx.reply), request.claim_idle_ms);
    let mut oldest_ms = None;
    for (index, &position) in positions.iter().enumerate() {
        let key = ctx.key(request.first + index);
        if answer.is_full(ctx.reply) {
            break;
        }
        if position != Position::New {
            // From here on, as in Redis: a reader of history claims nothing.
            claim_idle_ms = None;
        }
        let read = GroupRead { request: &request, key, claim_idle_ms };
        let pending_ms = read.run(ctx, position, &mut answer)?;
        oldest_ms = [oldest_ms, pending_ms].into_iter().flatten().min();
    }
    if answer.finish(ctx.reply) {
        return Ok(());
    }
    let now_ms = ctx.keys.now_ms();
    let again_ms = claim_idle_ms.map(|idle_ms| oldest_ms.unwrap_or(now_ms).saturating_add(idle_ms));
    wait(ctx, &request, Vec::new(), true, again_ms)
}

/// The reading of one stream for a consumer.
struct GroupRead<'a, 'r> {
    request: &'r Request<'a>,
    key: Key<'a>,
    claim_idle_ms: Option<i64>,
}

/// The changes to record.
#[derive(Default)]
struct Changes {
    claims: Vec<(Vec<u8>, Claimed)>,
    /// How far the group has read.
    progress: Option<(Id, Option<u64>)>,
    has_claimed: bool,
}

impl GroupRead<'_, '_> {
    /// Reads the stream for the consumer, which is added if need be. When the entry was delivered that will
    /// be the next to be claimed, if none could be.
    fn run(
        &self,
        ctx: &mut Context<'_>,
        position: Position,
        answer: &mut Answer,
    ) -> Result<Option<i64>, Error> {
        let (key, now_ms) = (&self.key, ctx.keys.now_ms());
        let Some((name, consumer)) = self.request.reader else { return Ok(None) };
        let Context { keys, reply, .. } = ctx;
        let recorded = keys.effects.recording.then_some(consumer);
        let Some(mut stream) = keys.write::<Stream>(key)? else { return Ok(None) };
        let Some((log, group)) = stream.group_mut(name) else { return Ok(None) };
        let is_new = group.number_of(consumer).is_none();
        let number = group.add_consumer(consumer, now_ms);
        if let Some(consumer) = group.consumer_mut(number) {
            consumer.seen_ms = now_ms;
        }
        let changes = Changes::default();
        let mut delivery = Delivery { reply, answer, log, group, number, recorded, now_ms, changes };
        let mut oldest_ms = None;
        match position {
            Position::After(id) => {
                delivery.answer.begin(delivery.reply, key);
                delivery.history(id);
                delivery.answer.end(delivery.reply);
            }
            Position::New => {
                let (claimable, oldest) = delivery.claimable(self.claim_idle_ms);
                oldest_ms = oldest;
                if !claimable.is_empty() || entries_after(log, delivery.group.last_id).is_some() {
                    delivery.answer.begin(delivery.reply, key);
                    if delivery.claim(&claimable) {
                        delivery.deliver(self.request.no_ack, self.claim_idle_ms.is_some());
                    }
                    delivery.answer.end(delivery.reply);
                }
            }
        }
        let Changes { claims, progress, has_claimed } = delivery.changes;
        drop(stream);
        if is_new {
            record_consumer(keys, key.bytes, name, consumer);
            note_unwatched(keys, key, "xgroup-createconsumer");
        }
        if progress.is_some() || has_claimed {
            keys.dirty += 1;
            record_claims(keys, key.bytes, name, claims);
        }
        if let Some((last_id, read)) = progress {
            record_progress(keys, key.bytes, name, last_id, read);
        }
        Ok(oldest_ms)
    }
}

/// Entries of one stream on their way to a consumer.
struct Delivery<'a> {
    reply: &'a mut Reply,
    answer: &'a mut Answer,
    log: &'a Log,
    group: &'a mut types::Group,
    /// The consumer.
    number: u32,
    /// Its name, if its entries are recorded.
    recorded: Option<&'a [u8]>,
    now_ms: i64,
    changes: Changes,
}

impl Delivery<'_> {
    /// The entries that the consumer is to claim, as many as may be answered, if a least idle time is given;
    /// and the delivery time of the first of those that it has to leave.
    fn claimable(&mut self, idle_ms: Option<i64>) -> (Vec<(Id, Pending)>, Option<i64>) {
        let Some(idle_ms) = idle_ms else { return (Vec::new(), None) };
        let (log, count) = (self.log, self.answer.count.min(self.answer.max_count - self.answer.total));
        let (mut claimable, mut oldest_ms) = (Vec::new(), None);
        // A pending entry that was deleted stays pending.
        for (id, pending) in self.group.claimable().filter(|(id, _)| log.contains(*id)) {
            if self.now_ms.saturating_sub(pending.delivered_ms) < idle_ms {
                oldest_ms = Some(pending.delivered_ms);
                break;
            }
            claimable.push((id, pending));
            if claimable.len() as u64 == count {
                break;
            }
        }
        (claimable, oldest_ms)
    }

    /// Writes entries that become the consumer's; whether others may follow.
    fn claim(&mut self, claimable: &[(Id, Pending)]) -> bool {
        let last_id = self.group.last_id;
        for &(id, before) in claimable {
            let Some(entry) = self.log.range(id, id).next() else { continue };
            let idle_ms = self.now_ms.saturating_sub(before.delivered_ms).max(0);
            write_timed_entry(self.reply, entry, idle_ms, before.deliveries);
            self.give(id, before.delivered_again(), last_id);
            self.changes.has_claimed = true;
            self.note_active();
            if !self.answer.goes_on_after_entry(self.reply) {
                return false;
            }
        }
        true
    }

    /// Writes entries that the group has not got.
    fn deliver(&mut self, no_ack: bool, is_timed: bool) {
        let Some(entries) = entries_after(self.log, self.group.last_id) else { return };
        if !no_ack {
            self.note_active();
        }
        for entry in entries {
            let id = entry.id;
            if is_timed {
                write_timed_entry(self.reply, entry, 0, 0);
            } else {
                write_entry(self.reply, entry);
            }
            self.group.advance(self.log, id);
            if !no_ack {
                self.give(id, 1, id);
            }
            if !self.answer.goes_on_after_entry(self.reply) {
                break;
            }
        }
        self.changes.progress = Some((self.group.last_id, self.group.entries_read));
    }

    /// Writes the consumer's pending entries; of deleted entries only the ids. Each counts as delivered
    /// again.
    fn history(&mut self, after: Id) {
        let count = self.answer.count.min(self.answer.max_count - self.answer.total);
        let own = after.next().and_then(|start| Some(self.group.consumer(self.number)?.pending_from(start)));
        let ids: Vec<Id> = own.into_iter().flatten().take(count as usize).collect();
        for id in ids {
            match self.log.range(id, id).next() {
                Some(entry) => {
                    write_entry(self.reply, entry);
                    if let Some(pending) = self.group.pending(id).copied() {
                        let deliveries = pending.delivered_again();
                        let delivered_ms = self.now_ms;
                        self.group.set_pending(id, Pending { delivered_ms, deliveries, ..pending });
                    }
                }
                None => {
                    self.reply.array(2);
                    write_id(self.reply, id);
                    self.reply.null_array();
                }
            }
            if !self.answer.goes_on_after_entry(self.reply) {
                break;
            }
        }
    }

    /// Makes an entry the consumer's.
    fn give(&mut self, id: Id, deliveries: u64, last_id: Id) {
        let pending = Pending { consumer: Some(self.number), delivered_ms: self.now_ms, deliveries };
        self.group.set_pending(id, pending);
        if let Some(name) = self.recorded {
            self.changes.claims.push((name.to_vec(), Claimed { id, pending, last_id }));
        }
    }

    fn note_active(&mut self) {
        if let Some(consumer) = self.group.consumer_mut(self.number) {
            consumer.active_ms = self.now_ms;
        }
    }
}

/// An entry with for how long its last consumer had it, and how often it was delivered before.
fn write_timed_entry(reply: &mut Reply, entry: Entry<'_>, idle_ms: i64, deliveries: u64) {
    reply.array(4);
    write_id(reply, entry.id);
    write_fields(reply, entry);
    reply.int(idle_ms);
    reply.int(deliveries as i64);
}
