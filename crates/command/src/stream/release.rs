//! XNACK: consumers give entries back unacknowledged, for others to claim at once.

use martlet_base::number::parse_i64;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use martlet_types::stream::{Id, Pending, Stream};

use super::group::no_key_or_group;
use super::parse_id;
use crate::Handler;
use crate::context::Context;

pub(super) static XNACK: Command<Handler> = command("xnack", -7, xnack as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))])
    .acl(Acl::STREAM)
    .syntax("key:k0 group mode(SILENT|FAIL|FATAL) ids=IDS(numids:i *id) ?count:i=RETRYCOUNT ?FORCE")
    .doc(
        Group::Stream,
        "8.8.0",
        "O(log N) for each entry, N being the number of those not acknowledged",
        "Gives entries back without acknowledging them, so that others can claim them at once.",
    );

/// What becomes of the count of an entry's deliveries.
#[derive(Clone, Copy)]
enum Mode {
    /// The delivery is as if it had not been.
    Silent,
    /// It stays.
    Fail,
    /// It becomes as high as can be.
    Fatal,
}

struct Request {
    mode: Mode,
    ids: Vec<Id>,
    deliveries: Option<u64>,
    /// Also entries that are not pending.
    force: bool,
}

impl Request {
    fn parse(ctx: &Context<'_>) -> Result<Request, Error> {
        let mut rest = ctx.rest(3);
        let mode = rest.one_of(&[("SILENT", Mode::Silent), ("FAIL", Mode::Fail), ("FATAL", Mode::Fatal)]);
        // Redis says it twice that these are errors.
        let mode = mode.ok_or(Error::Fixed("ERR ERR mode must be SILENT, FAIL, or FATAL"))?;
        let (mut span, mut deliveries, mut force) = (None, None, false);
        while let Some(word) = rest.peek() {
            if rest.option("IDS", 1) {
                let count =
                    parse_i64(rest.value()?).filter(|count| (1..=i64::from(i32::MAX)).contains(count));
                let count = count.ok_or(Error::Fixed("ERR numids must be a positive integer"))?;
                const TOO_FEW: Error = Error::Fixed("ERR ERR number of IDs doesn't match numids");
                span = Some(rest.span(count).map_err(|_| TOO_FEW)?);
            } else if rest.word("FORCE") {
                force = true;
            } else if rest.option("RETRYCOUNT", 1) {
                let count = u64::try_from(rest.int()?);
                const NEGATIVE: Error = Error::Fixed("ERR ERR Invalid RETRYCOUNT value, must be >= 0");
                deliveries = Some(count.map_err(|_| NEGATIVE)?);
            } else {
                return Err(Error::quoting("ERR ERR Unrecognized XNACK option '", word, "'"));
            }
        }
        let span = span.ok_or(Error::Fixed("ERR ERR syntax error, expected IDS keyword"))?;
        let ids = span.map(|at| parse_id(ctx.arg(at), 0)).collect::<Result<_, _>>()?;
        Ok(Request { mode, ids, deliveries, force })
    }

    /// The count of deliveries that was `before`.
    fn deliveries(&self, before: u64) -> u64 {
        self.deliveries.unwrap_or(match self.mode {
            Mode::Silent => before.saturating_sub(1),
            Mode::Fail => before,
            Mode::Fatal => i64::MAX as u64,
        })
    }
}

fn xnack(ctx: &mut Context<'_>) -> Outcome {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let stream = ctx.keys.write::<Stream>(&key)?;
    if stream.and_then(|stream| stream.group(name).map(|_| ())).is_none() {
        return Err(no_key_or_group(key.bytes, name, ""));
    }
    let request = Request::parse(ctx)?;
    let Some(mut stream) = ctx.keys.write::<Stream>(&key)? else { return Err(Error::NoSuchKey) };
    stream.expect_released();
    let Some((log, group)) = stream.group_mut(name) else { return Err(Error::NoSuchKey) };
    let mut released = 0;
    for &id in &request.ids {
        let before = match group.pending(id) {
            Some(pending) => pending.deliveries,
            None if request.force && log.contains(id) => 0,
            None => continue,
        };
        let pending = Pending { consumer: None, delivered_ms: 0, deliveries: request.deliveries(before) };
        group.set_pending(id, pending);
        released += 1;
    }
    drop(stream);
    if released > 0 {
        ctx.keys.dirty += released;
        // A client that waits to claim can do so now.
        ctx.keys.signal(&key);
    }
    ctx.reply.count(released as usize);
    Ok(())
}
