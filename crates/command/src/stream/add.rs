//! XADD and XTRIM. Their records name the new id, and the outcome of trimming whole nodes.

use martlet_base::number::{NumberBuffer, format_i64};
use martlet_engine::Keys;
use martlet_spec::{Acl, Command, Cursor, Error, Flags, Group, KeyFlags, KeyPart, Outcome, Tip, command};
use martlet_types::element::Element;
use martlet_types::stream::{Id, NODE_BYTES_MAX, References, Stream, Trim};

use super::delete::take_references;
use super::idempotency::{Named, count_duplicate};
use super::{IdText, is_from_primary, last_id, note, parse_id, parse_id_or_star, write_id};
use crate::Handler;
use crate::context::{Context, Settings};

/// How to trim.
#[derive(Clone, Copy)]
struct Trimming {
    trim: Trim,
    is_approximate: bool,
    references: References,
    /// Most entries to remove; 0 for all.
    limit: u64,
    /// The argument that is MAXLEN or MINID, and that of the threshold.
    words: (usize, usize),
    /// Where LIMIT stands.
    limit_word: Option<usize>,
}

/// Options of XADD and XTRIM as they come.
#[derive(Default)]
struct Options {
    trim: Option<(Trim, bool, (usize, usize))>,
    references: Option<References>,
    limit: u64,
    limit_word: Option<usize>,
    no_create: bool,
}

impl Options {
    /// Takes an option, if one comes next.
    fn take(&mut self, rest: &mut Cursor<'_>) -> Result<bool, Error> {
        let at = rest.index();
        let by_len = rest.option("MAXLEN", 1);
        if by_len || rest.option("MINID", 1) {
            if self.trim.is_some() {
                return Err(Error::Fixed(
                    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
                ));
            }
            let is_approximate = rest.option("~", 1);
            if !is_approximate {
                rest.option("=", 1);
            }
            let value = rest.index();
            let trim = if by_len {
                let max = u64::try_from(rest.int()?);
                Trim::MaxLen(max.map_err(|_| Error::Fixed("ERR The MAXLEN argument must be >= 0."))?)
            } else {
                Trim::MinId(parse_id(rest.value()?, 0)?)
            };
            self.trim = Some((trim, is_approximate, (at, value)));
        } else if rest.option("LIMIT", 1) {
            let limit = u64::try_from(rest.int()?);
            self.limit = limit.map_err(|_| Error::Fixed("ERR The LIMIT argument must be >= 0."))?;
            self.limit_word = Some(at);
        } else if self.references.is_none() {
            self.references = take_references(rest);
            return Ok(self.references.is_some());
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// How to trim, if at all; `is_needed` for XTRIM. The primary has found out how far a limit reaches.
    fn finish(
        self,
        settings: &Settings,
        is_needed: bool,
        is_from_primary: bool,
    ) -> Result<Option<Trimming>, Error> {
        if self.trim.is_none() && self.limit > 0 {
            return Err(Error::Fixed(
                "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
            ));
        }
        if self.trim.is_none() && is_needed {
            return Err(Error::Fixed("ERR syntax error, XTRIM must be called with a trimming strategy"));
        }
        if self.limit_word.is_some() && !is_from_primary && !matches!(self.trim, Some((_, true, _))) {
            return Err(Error::Fixed("ERR syntax error, LIMIT cannot be used without the special ~ option"));
        }
        Ok(self.trim.map(|(trim, is_approximate, words)| {
            let limit = match self.limit_word {
                _ if is_from_primary => 0,
                Some(_) => self.limit,
                None if is_approximate => default_limit(settings),
                None => 0,
            };
            let references = self.references.unwrap_or_default();
            Trimming { trim, is_approximate, references, limit, words, limit_word: self.limit_word }
        }))
    }
}

/// Entries that go at most where approximate trimming names no limit: those of 100 nodes.
fn default_limit(settings: &Settings) -> u64 {
    match settings.stream_limits.node_max_entries.saturating_mul(100) {
        0 => 10_000,
        limit => limit.min(1_000_000),
    }
}

/// The record in place of the requested trimming: a strategy and a threshold that, not being approximate,
/// have the same outcome.
struct Trimmed {
    strategy: &'static str,
    threshold: Vec<u8>,
}

impl Trimming {
    /// Removes entries; how many, and what to record if that is not the request.
    fn run(&self, stream: &mut Stream) -> (u64, Option<Trimmed>) {
        let min_id = |id| Trimmed { strategy: "MINID", threshold: IdText::new(id).as_ref().to_vec() };
        if self.references != References::Keep {
            // Which entries MAXLEN goes through depends on nodes and on what had to stay.
            let (removed, end) = stream.trim_by_references(self.trim, self.limit, self.references);
            return (removed, Some(min_id(end)));
        }
        let removed = stream.log_mut().trim(self.trim, self.is_approximate, self.limit);
        let trimmed = self.is_approximate.then(|| match self.trim {
            Trim::MaxLen(_) => {
                let threshold = format_i64(stream.len() as i64, &mut NumberBuffer::new()).to_vec();
                Trimmed { strategy: "MAXLEN", threshold }
            }
            Trim::MinId(_) => min_id(if stream.is_empty() { Id::MAX } else { stream.log().first_id() }),
        });
        (removed, trimmed)
    }
}

/// Records the request with other words in some places, and without LIMIT.
fn record_as(ctx: &mut Context<'_>, trimming: Option<(&Trimming, Trimmed)>, id: Option<(usize, IdText)>) {
    let args = ctx.args;
    ctx.keys.effects.replace(ctx.keys.db(), || {
        let mut words: Vec<Vec<u8>> = args.iter().map(<[u8]>::to_vec).collect();
        if let Some((at, id)) = id {
            words[at] = id.as_ref().to_vec();
        }
        if let Some((trimming, Trimmed { strategy, threshold })) = trimming {
            let (at, value) = trimming.words;
            words[at] = strategy.as_bytes().to_vec();
            words[at + 1] = b"=".to_vec();
            words[value] = threshold;
            if let Some(at) = trimming.limit_word {
                words.drain(at..at + 2);
            }
        }
        words
    });
}

pub(super) static XADD: Command<Handler> = command("xadd", -5, xadd as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))])
    .acl(Acl::STREAM)
    .syntax(
        "key:k0 ?NOMKSTREAM^6.2.0 ?condition(KEEPREF|DELREF|ACKED) \
         ?idmp(idmpauto-with-pid=IDMPAUTO|idmp-with-pid-iid=IDMP(pid iid)) ?trim(strategy(MAXLEN|MINID^6.2.0) \
         ?operator(equal:x==|approximately:x=~) threshold ?count:i=LIMIT^6.2.0) \
         id-selector(auto-id:x=*|id) *data(field value)",
    )
    .doc(
        Group::Stream,
        "5.0.0",
        "O(log N), N being the number of entries; with trimming O(M) besides, M being that of those removed",
        "Appends an entry to a stream and returns its id. Creates the key if it is not there.",
    )
    .history(&[
        ("6.2.0", "Options `NOMKSTREAM`, `MINID` and `LIMIT`."),
        ("7.0.0", "An id of the form `<ms>-*`."),
        ("8.2.0", "Options `KEEPREF`, `DELREF` and `ACKED`."),
        ("8.6.0", "Options `IDMP` and `IDMPAUTO`."),
    ])
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

/// The id that a new entry asks for: both halves, or the first, or none.
type AskedId = Option<(u64, Option<u64>)>;

/// What an XADD asks for.
struct Addition<'a> {
    /// The id, and the argument that it is.
    id: AskedId,
    at: usize,
    no_create: bool,
    trimming: Option<Trimming>,
    named: Option<Named<'a>>,
}

impl<'a> Addition<'a> {
    fn parse(ctx: &Context<'a>) -> Result<Addition<'a>, Error> {
        let (mut options, mut named, mut rest) = (Options::default(), None, ctx.rest(2));
        loop {
            if rest.peek() == Some(b"*") {
                break;
            } else if rest.word("NOMKSTREAM") {
                options.no_create = true;
            } else if !options.take(&mut rest)? && !Named::take(&mut named, &mut rest)? {
                break;
            }
        }
        let at = rest.index();
        let id: AskedId = match rest.peek() {
            None => return Err(Error::Arity("xadd")),
            Some(b"*") => None,
            Some(id) => Some(parse_id_or_star(id, 0)?),
        };
        let is_from_primary = is_from_primary(ctx.keys);
        if named.is_some() && id.is_some() && !is_from_primary {
            return Err(Error::Fixed(
                "ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs",
            ));
        }
        let no_create = options.no_create;
        let trimming = options.finish(ctx.settings, false, is_from_primary)?;
        let words = ctx.argc() - at - 1;
        if words < 2 || !words.is_multiple_of(2) {
            return Err(Error::Arity("xadd"));
        }
        if id == Some((0, Some(0))) {
            return Err(Error::Fixed("ERR The ID specified in XADD must be greater than 0-0"));
        }
        Ok(Addition { id, at, no_create, trimming, named })
    }
}

fn xadd(ctx: &mut Context<'_>) -> Outcome {
    let Addition { id: asked, at, no_create, trimming, named } = Addition::parse(ctx)?;
    let (key, now_ms) = (ctx.key(1), ctx.keys.now_ms());
    let (args, limits) = (ctx.args, ctx.settings.stream_limits);
    let known_last_id = last_id(ctx.keys, &key)?;
    if known_last_id.is_none() && no_create {
        ctx.reply.null();
        return Ok(());
    }
    let mut made = [0; 16];
    let record = named.map(|named| named.resolve(args, at + 1, &mut made));
    if let Some(record) = record
        && (asked.is_none() || !is_from_primary(ctx.keys))
    {
        let stream = ctx.keys.get(&key).and_then(|entry| entry.object::<Stream>());
        let known = stream.and_then(|stream| record.find(stream, now_ms));
        if known.is_some() || is_from_primary(ctx.keys) {
            write_id(ctx.reply, known.unwrap_or_default());
            return count_duplicate(ctx.keys, &key);
        }
    }
    let fields = (at + 1..args.len())
        .step_by(2)
        .map(move |name| (Element::Bytes(args.at(name)), Element::Bytes(args.at(name + 1))));
    let id = next_id(known_last_id.unwrap_or(Id::MIN), asked, ctx.keys)?;
    let bytes: usize = fields.clone().map(|(name, value)| name.byte_len() + value.byte_len()).sum();
    if bytes > NODE_BYTES_MAX {
        return Err(Error::Fixed("ERR Elements are too large to be stored"));
    }
    let mut stream = ctx.keys.create::<Stream>(&key)?;
    if known_last_id.is_none() {
        stream.set_default_idempotency_limits(ctx.settings.idempotency_limits);
    }
    stream.log_mut().append(id, fields, limits);
    if let Some(record) = record {
        record.insert(&mut stream, id, now_ms);
    }
    let (mut removed, mut trimmed) = (0, None);
    if let Some(trimming) = &trimming {
        let outcome = trimming.run(&mut stream);
        (removed, trimmed) = (outcome.0, outcome.1.map(|trimmed| (trimming, trimmed)));
    }
    drop(stream);
    write_id(ctx.reply, id);
    note(ctx.keys, &key, "xadd");
    if removed > 0 {
        ctx.keys.effects.event(martlet_engine::EventClass::STREAM, "xtrim", ctx.keys.db(), key.bytes);
    }
    let is_whole = matches!(asked, Some((_, Some(_))));
    if !is_whole || trimmed.is_some() {
        record_as(ctx, trimmed, Some((at, IdText::new(id))));
    }
    Ok(())
}

/// The id of an entry that is appended.
fn next_id(last: Id, asked: AskedId, keys: &Keys) -> Result<Id, Error> {
    const EXHAUSTED: Error =
        Error::Fixed("ERR The stream has exhausted the last possible ID, unable to add more items");
    const TOO_LOW: Error =
        Error::Fixed("ERR The ID specified in XADD is equal or smaller than the target stream top item");
    let next = last.next().ok_or(EXHAUSTED)?;
    let id = match asked {
        Some((ms, Some(seq))) => Id { ms, seq },
        Some((ms, None)) if ms == last.ms => Id { ms, seq: last.seq.checked_add(1).ok_or(TOO_LOW)? },
        Some((ms, None)) => Id { ms, seq: 0 },
        None => next.max(Id { ms: keys.now_ms() as u64, seq: 0 }),
    };
    if id > last { Ok(id) } else { Err(TOO_LOW) }
}

pub(super) static XTRIM: Command<Handler> = command("xtrim", -4, xtrim as Handler)
    .flags(Flags::WRITE)
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::DELETE))])
    .acl(Acl::STREAM)
    .syntax(
        "key:k0 trim(strategy(MAXLEN|MINID^6.2.0) ?operator(equal:x==|approximately:x=~) \
         threshold ?count:i=LIMIT^6.2.0 ?condition(KEEPREF|DELREF|ACKED))",
    )
    .doc(
        Group::Stream,
        "5.0.0",
        "O(N), N being the number of entries that are removed",
        "Removes a stream's first entries and returns how many these were.",
    )
    .history(&[
        ("6.2.0", "Options `MINID` and `LIMIT`."),
        ("8.2.0", "Options `KEEPREF`, `DELREF` and `ACKED`."),
    ])
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn xtrim(ctx: &mut Context<'_>) -> Outcome {
    let (mut options, mut rest) = (Options::default(), ctx.rest(2));
    while options.take(&mut rest)? {}
    rest.finish()?;
    let trimming = options.finish(ctx.settings, true, is_from_primary(ctx.keys))?.ok_or(Error::Syntax)?;
    let key = ctx.key(1);
    let Some(mut stream) = ctx.keys.write::<Stream>(&key)? else {
        ctx.reply.int(0);
        return Ok(());
    };
    let (removed, trimmed) = trimming.run(&mut stream);
    drop(stream);
    ctx.reply.count(removed as usize);
    if removed > 0 {
        note(ctx.keys, &key, "xtrim");
        ctx.keys.dirty += removed - 1;
        if let Some(trimmed) = trimmed {
            record_as(ctx, Some((&trimming, trimmed)), None);
        }
    }
    Ok(())
}
