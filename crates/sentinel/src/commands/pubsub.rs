//! Publish and subscribe: clients get events; other Sentinels publish hello messages.

use martlet_base::glob;
use martlet_protocol::reply::Reply;
use martlet_spec::{Channels, Error, Flags, Group, Outcome, command};

use super::{Call, Handler, SentinelCommand, Session, text};
use crate::limits::SUBSCRIPTIONS_MAX;
use crate::machine::HELLO_CHANNEL;

/// The family.
pub static COMMANDS: &[&SentinelCommand] = &[&PSUBSCRIBE, &PUBLISH, &PUNSUBSCRIBE, &SUBSCRIBE, &UNSUBSCRIBE];

const OPEN: Flags =
    Flags::PUBSUB.with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE).with(Flags::SUBSCRIBED);

static SUBSCRIBE: SentinelCommand = command("subscribe", -2, subscribe_command as Handler)
    .flags(OPEN)
    .channels(Channels::All)
    .syntax("*channel")
    .doc(Group::Pubsub, "2.0.0", "O(N) for N channels", "Listens for messages of channels.");

static PSUBSCRIBE: SentinelCommand = command("psubscribe", -2, psubscribe_command as Handler)
    .flags(OPEN)
    .channels(Channels::Patterns)
    .syntax("*pattern")
    .doc(Group::Pubsub, "2.0.0", "O(N) for N patterns", "Listens for messages of channels that match.");

static UNSUBSCRIBE: SentinelCommand = command("unsubscribe", -1, unsubscribe_command as Handler)
    .flags(OPEN)
    .syntax("?*channel")
    .doc(Group::Pubsub, "2.0.0", "O(N) for N channels", "Stops to listen for messages of channels.");

static PUNSUBSCRIBE: SentinelCommand =
    command("punsubscribe", -1, punsubscribe_command as Handler).flags(OPEN).syntax("?*pattern").doc(
        Group::Pubsub,
        "2.0.0",
        "O(N) for N patterns",
        "Stops to listen for messages of channels that match.",
    );

fn subscribe_command(call: &mut Call<'_>) -> Outcome {
    subscribe(call, false)
}

fn psubscribe_command(call: &mut Call<'_>) -> Outcome {
    subscribe(call, true)
}

fn unsubscribe_command(call: &mut Call<'_>) -> Outcome {
    unsubscribe(call, false)
}

fn punsubscribe_command(call: &mut Call<'_>) -> Outcome {
    unsubscribe(call, true)
}

fn confirm(reply: &mut Reply, word: &str, name: Option<&[u8]>, count: usize) {
    reply.push(3);
    reply.bulk(word.as_bytes());
    reply.bulk_or_null(name);
    reply.count(count);
}

fn subscriptions(session: &Session) -> usize {
    session.channels.len() + session.patterns.len()
}

fn subscribe(call: &mut Call<'_>, is_pattern: bool) -> Outcome {
    let word = call.entry.spec.name;
    let args = call.args;
    if subscriptions(call.session()) + args.len() - 1 > SUBSCRIPTIONS_MAX {
        return Err(Error::Fixed("ERR Too many subscriptions"));
    }
    for name in args.iter().skip(1) {
        let session = call.session();
        let set = if is_pattern { &mut session.patterns } else { &mut session.channels };
        set.insert(name.to_vec());
        let count = subscriptions(session);
        confirm(call.reply, word, Some(name), count);
    }
    Ok(())
}

fn unsubscribe(call: &mut Call<'_>, is_pattern: bool) -> Outcome {
    let word = call.entry.spec.name;
    let mut names: Vec<Vec<u8>> = call.args.iter().skip(1).map(<[u8]>::to_vec).collect();
    let session = call.session();
    let set = if is_pattern { &session.patterns } else { &session.channels };
    if names.is_empty() {
        names = set.iter().cloned().collect();
    }
    if names.is_empty() {
        let count = subscriptions(session);
        confirm(call.reply, word, None, count);
    }
    for name in names {
        let session = call.session();
        let set = if is_pattern { &mut session.patterns } else { &mut session.channels };
        set.remove(&name);
        let count = subscriptions(session);
        confirm(call.reply, word, Some(&name), count);
    }
    Ok(())
}

/// Writes a message to a session once for its channel, and once for each pattern that matches.
pub(super) fn deliver(session: &mut Session, channel: &[u8], message: &[u8]) {
    let matching: Vec<_> =
        session.patterns.iter().filter(|pattern| glob::matches(pattern, channel, false)).cloned().collect();
    let mut reply = Reply::new(std::mem::take(&mut session.out), session.is_resp3);
    if session.channels.contains(channel) {
        reply.push(3);
        [b"message", channel, message].into_iter().for_each(|part| reply.bulk(part));
    }
    for pattern in matching {
        reply.push(4);
        [b"pmessage", &pattern[..], channel, message].into_iter().for_each(|part| reply.bulk(part));
    }
    session.out = reply.into_bytes();
}

static PUBLISH: SentinelCommand = command("publish", 3, publish as Handler)
    .flags(Flags::PUBSUB.with(Flags::LOADING).with(Flags::STALE).with(Flags::FAST).with(Flags::MAY_REPLICATE))
    .channels(Channels::First)
    .syntax("channel message")
    .doc(Group::Pubsub, "2.0.0", "O(1)", "Takes a hello message of another Sentinel.");

fn publish(call: &mut Call<'_>) -> Outcome {
    if call.arg(1) != HELLO_CHANNEL.as_bytes() {
        return Err(Error::Fixed("ERR Only HELLO messages are accepted by Sentinel instances."));
    }
    let message = text(call.arg(2));
    call.core.sentinel.receive_hello(call.core.now_ms, &message);
    call.reply.int(1);
    Ok(())
}
