//! Publish and subscribe: SUBSCRIBE and its kin, PUBLISH, PUBSUB.

use std::sync::Arc;

use martlet_command::{Channels, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command, container};
use martlet_journal::{Follower, REPLICAS, encode};

use super::{Call, ServerCommand, ServerHandler};
use crate::pubsub::hub::Kind;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[
    &SUBSCRIBE,
    &UNSUBSCRIBE,
    &PSUBSCRIBE,
    &PUNSUBSCRIBE,
    &SSUBSCRIBE,
    &SUNSUBSCRIBE,
    &PUBLISH,
    &SPUBLISH,
    &PUBSUB,
];

const SUBSCRIBER: Flags =
    Flags::SUBSCRIBED.with(Flags::PUBSUB).with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE);
const PUBLISHER: Flags =
    Flags::PUBSUB.with(Flags::LOADING).with(Flags::STALE).with(Flags::FAST).with(Flags::MAY_REPLICATE);
const QUERY: Flags = Flags::PUBSUB.with(Flags::LOADING).with(Flags::STALE);

static SUBSCRIBE: ServerCommand = command("subscribe", -2, subscribe as ServerHandler)
    .flags(SUBSCRIBER)
    .channels(Channels::All)
    .syntax("*channel")
    .doc(Group::Pubsub, "2.0.0", "O(N) for N channels", "Listens for messages on channels.");

fn subscribe(call: &mut Call<'_>) -> Outcome {
    add_all(call, Kind::Channel, b"subscribe")
}

static PSUBSCRIBE: ServerCommand = command("psubscribe", -2, psubscribe as ServerHandler)
    .flags(SUBSCRIBER)
    .channels(Channels::Patterns)
    .syntax("*pattern:p")
    .doc(
        Group::Pubsub,
        "2.0.0",
        "O(N) for N patterns",
        "Listens for messages on channels that match patterns.",
    );

fn psubscribe(call: &mut Call<'_>) -> Outcome {
    add_all(call, Kind::Pattern, b"psubscribe")
}

static SSUBSCRIBE: ServerCommand = command("ssubscribe", -2, ssubscribe as ServerHandler)
    .flags(SUBSCRIBER)
    .keys(&[KeyPart::range(1, -1, 1, KeyFlags::NOT_KEY)])
    .channels(Channels::All)
    .syntax("*shardchannel")
    .doc(Group::Pubsub, "7.0.0", "O(N) for N shard channels", "Listens for messages on shard channels.");

fn ssubscribe(call: &mut Call<'_>) -> Outcome {
    if call.deny_blocking {
        return Err(Error::Fixed("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    add_all(call, Kind::Shard, b"ssubscribe")
}

fn add_all(call: &mut Call<'_>, kind: Kind, word: &[u8]) -> Outcome {
    for name in call.args.iter().skip(1) {
        call.worker.subscribe(call.connection, kind, name);
        confirm(call, kind, word, Some(name));
    }
    Ok(())
}

/// Confirms a change of the client's subscriptions.
fn confirm(call: &mut Call<'_>, kind: Kind, word: &[u8], name: Option<&[u8]>) {
    let reply = &mut *call.reply;
    reply.push(3);
    reply.bulk(word);
    reply.bulk_or_null(name);
    reply.count(call.connection.subscription_count(kind));
}

static UNSUBSCRIBE: ServerCommand = command("unsubscribe", -1, unsubscribe as ServerHandler)
    .flags(SUBSCRIBER)
    .syntax("?*channel")
    .doc(Group::Pubsub, "2.0.0", "O(N) for N channels", "Stops listening on channels, or on all.");

fn unsubscribe(call: &mut Call<'_>) -> Outcome {
    remove_all(call, Kind::Channel, b"unsubscribe")
}

static PUNSUBSCRIBE: ServerCommand = command("punsubscribe", -1, punsubscribe as ServerHandler)
    .flags(SUBSCRIBER)
    .syntax("?*pattern:p")
    .doc(Group::Pubsub, "2.0.0", "O(N) for N patterns", "Stops listening on patterns, or on all.");

fn punsubscribe(call: &mut Call<'_>) -> Outcome {
    remove_all(call, Kind::Pattern, b"punsubscribe")
}

static SUNSUBSCRIBE: ServerCommand = command("sunsubscribe", -1, sunsubscribe as ServerHandler)
    .flags(SUBSCRIBER)
    .keys(&[KeyPart::range(1, -1, 1, KeyFlags::NOT_KEY)])
    .syntax("?*shardchannel")
    .doc(
        Group::Pubsub,
        "7.0.0",
        "O(N) for N shard channels",
        "Stops listening on shard channels, or on all.",
    );

fn sunsubscribe(call: &mut Call<'_>) -> Outcome {
    remove_all(call, Kind::Shard, b"sunsubscribe")
}

fn remove_all(call: &mut Call<'_>, kind: Kind, word: &[u8]) -> Outcome {
    if call.argc() > 1 {
        for name in call.args.iter().skip(1) {
            call.worker.unsubscribe(call.connection, kind, name);
            confirm(call, kind, word, Some(name));
        }
        return Ok(());
    }
    let names = call.connection.session.subscriptions.as_ref().map(|s| s.of(kind).clone());
    let names: Vec<Arc<[u8]>> = names.into_iter().flatten().collect();
    for name in &names {
        call.worker.unsubscribe(call.connection, kind, name);
        confirm(call, kind, word, Some(name));
    }
    if names.is_empty() {
        confirm(call, kind, word, None);
    }
    Ok(())
}

static PUBLISH: ServerCommand = command("publish", 3, publish as ServerHandler)
    .flags(PUBLISHER)
    .channels(Channels::First)
    .syntax("channel message")
    .doc(
        Group::Pubsub,
        "2.0.0",
        "O(N+M) for N subscribers of the channel and M patterns of all clients",
        "Sends a message to the subscribers of a channel.",
    );

fn publish(call: &mut Call<'_>) -> Outcome {
    send(call, Kind::Channel)
}

static SPUBLISH: ServerCommand = command("spublish", 3, spublish as ServerHandler)
    .flags(PUBLISHER)
    .keys(&[KeyPart::one(1, KeyFlags::NOT_KEY)])
    .channels(Channels::First)
    .syntax("shardchannel message")
    .doc(
        Group::Pubsub,
        "7.0.0",
        "O(N) for N subscribers of the shard channel",
        "Sends a message to the subscribers of a shard channel.",
    );

fn spublish(call: &mut Call<'_>) -> Outcome {
    send(call, Kind::Shard)
}

fn send(call: &mut Call<'_>, kind: Kind) -> Outcome {
    let count = call.worker.publish_to_all(kind, call.arg(1), call.arg(2));
    let journal = &call.worker.shared.engine.journal;
    let is_cluster = call.worker.shared.cluster().is_some();
    if !is_cluster && journal.is_followed_by(Follower::Replicas) && !journal.relays() {
        // Replicas' subscribers get it, too; a cluster's by the bus.
        let mut command = Vec::new();
        let encoded = call.args.encoded().unwrap_or_else(|| {
            encode(&mut command, call.args.iter());
            &command
        });
        journal.append(REPLICAS, encoded);
    }
    call.reply.count(count);
    Ok(())
}

static PUBSUB: ServerCommand = container(
    "pubsub",
    -2,
    &[&CHANNELS, &NUMPAT, &NUMSUB, &SHARDCHANNELS, &SHARDNUMSUB, &HELP],
)
.doc(Group::Pubsub, "2.8.0", "Depends on subcommand", "A container for commands that tell of subscriptions.");

static CHANNELS: ServerCommand = command("pubsub|channels", -2, channels as ServerHandler)
    .flags(QUERY)
    .syntax("?pattern:p")
    .doc(Group::Pubsub, "2.8.0", "O(N) for N channels", "Lists the channels that have subscribers.");

fn channels(call: &mut Call<'_>) -> Outcome {
    list(call, Kind::Channel)
}

static SHARDCHANNELS: ServerCommand = command("pubsub|shardchannels", -2, shardchannels as ServerHandler)
    .flags(QUERY)
    .syntax("?pattern:p")
    .doc(
        Group::Pubsub,
        "7.0.0",
        "O(N) for N shard channels",
        "Lists the shard channels that have subscribers.",
    );

fn shardchannels(call: &mut Call<'_>) -> Outcome {
    list(call, Kind::Shard)
}

fn list(call: &mut Call<'_>, kind: Kind) -> Outcome {
    if call.argc() > 3 {
        return Err(Error::subcommand_syntax(&call.args));
    }
    let names = call.worker.shared.hub.names(kind, call.args.get(2));
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name));
    Ok(())
}

static NUMSUB: ServerCommand = command("pubsub|numsub", -2, numsub as ServerHandler)
    .flags(QUERY)
    .syntax("?*channel")
    .doc(Group::Pubsub, "2.8.0", "O(N) for N channels", "Counts the subscribers of channels.");

fn numsub(call: &mut Call<'_>) -> Outcome {
    count(call, Kind::Channel)
}

static SHARDNUMSUB: ServerCommand = command("pubsub|shardnumsub", -2, shardnumsub as ServerHandler)
    .flags(QUERY)
    .syntax("?*shardchannel")
    .doc(Group::Pubsub, "7.0.0", "O(N) for N shard channels", "Counts the subscribers of shard channels.");

fn shardnumsub(call: &mut Call<'_>) -> Outcome {
    count(call, Kind::Shard)
}

fn count(call: &mut Call<'_>, kind: Kind) -> Outcome {
    call.reply.array((call.argc() - 2) * 2);
    for name in call.args.iter().skip(2) {
        call.reply.bulk(name);
        call.reply.count(call.worker.shared.hub.subscribers(kind, name));
    }
    Ok(())
}

static NUMPAT: ServerCommand = command("pubsub|numpat", 2, numpat as ServerHandler).flags(QUERY).doc(
    Group::Pubsub,
    "2.8.0",
    "O(1)",
    "Counts the patterns that clients are subscribed to.",
);

fn numpat(call: &mut Call<'_>) -> Outcome {
    call.reply.count(call.worker.shared.hub.count(Kind::Pattern));
    Ok(())
}

static HELP: ServerCommand = command("pubsub|help", 2, help as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE))
    .doc(Group::Pubsub, "6.2.0", "O(1)", "Lists the subcommands.");

fn help(call: &mut Call<'_>) -> Outcome {
    super::write_help(call, "PUBSUB");
    Ok(())
}
