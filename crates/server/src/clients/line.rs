//! A client as a line of CLIENT LIST.

use std::sync::atomic::Ordering::Relaxed;

use martlet_base::clock::Clock;
use martlet_base::sync::lock;
use martlet_command::Presentation;

use super::{ClientInfo, flag};
use crate::registry::Registry;

/// The line, without a line break.
pub fn line(clock: &Clock, registry: &Registry, presentation: Presentation, client: &ClientInfo) -> Vec<u8> {
    let capabilities = capabilities(client);
    // Valkey's place for them.
    let early = if presentation.is_valkey() { format!(" capa={capabilities}") } else { String::new() };
    let now_ms = clock.unix_ms();
    let details = lock(&client.details).clone();
    let (used, capacity) = (client.query_bytes.load(Relaxed), client.query_capacity.load(Relaxed));
    let output = client.output_bytes.load(Relaxed);
    let entries = registry.entries();
    let command = match client.last_command.load(Relaxed) {
        0 => "NULL",
        id => entries.get(id - 1).map_or("NULL", |entry| entry.spec.full_name),
    };
    let seconds = |since_ms: i64| (now_ms - since_ms).max(0) / 1000;
    let mut out =
        format!("id={} addr={} laddr={} fd={} name=", client.id, client.peer, client.local, client.fd)
            .into_bytes();
    out.extend(&details.name);
    out.extend(
        format!(
            " age={} idle={} flags={}{early} db={} sub={} psub={} ssub={} multi={} watch={} qbuf={used} qbuf-free={} argv-mem=0 multi-mem={} rbs=0 rbp=0 obl=0 oll={} omem={output} tot-mem={} events={} cmd={command} user={} redir={} resp={} lib-name=",
            seconds(client.created_ms),
            seconds(client.last_active_ms.load(Relaxed)),
            flags(client),
            client.db.load(Relaxed),
            client.subscriptions[0].load(Relaxed),
            client.subscriptions[1].load(Relaxed),
            client.subscriptions[2].load(Relaxed),
            client.multi.load(Relaxed),
            client.watching.load(Relaxed),
            capacity.saturating_sub(used),
            client.multi_bytes.load(Relaxed),
            usize::from(output > 0),
            client.counted_bytes.load(Relaxed),
            if output > 0 { "rw" } else { "r" },
            String::from_utf8_lossy(&details.user),
            client.redirect.load(Relaxed),
            client.resp.load(Relaxed),
        )
        .bytes(),
    );
    out.extend(&details.lib_name);
    out.extend(b" lib-ver=");
    out.extend(&details.lib_version);
    if !presentation.is_valkey() {
        out.extend(format!(" io-thread={}", client.thread()).bytes());
    }
    out.extend(
        format!(
            " tot-net-in={} tot-net-out={} tot-cmds={}",
            client.net_input_bytes.load(Relaxed),
            client.net_output_bytes.load(Relaxed),
            client.commands.load(Relaxed),
        )
        .bytes(),
    );
    if !presentation.is_valkey() {
        out.extend(format!(" capa={capabilities}").bytes());
    }
    out
}

/// The letters of a client's capabilities (CLIENT CAPA).
pub fn capabilities(client: &ClientInfo) -> &'static str {
    if client.flags.load(Relaxed) & flag::FOLLOWS_REDIRECTS == 0 { "" } else { "r" }
}

/// The letters that stand for a client's state.
pub fn flags(client: &ClientInfo) -> String {
    let bits = client.flags.load(Relaxed);
    let letters = [
        (flag::PRIMARY, 'M'),
        (flag::MONITOR, 'O'),
        (flag::REPLICA, 'S'),
        (flag::RDB_CHANNEL, 'C'),
        (flag::PUBSUB, 'P'),
        (flag::MULTI, 'x'),
        (flag::BLOCKED | flag::POSTPONED, 'b'),
        (flag::TRACKING, 't'),
        (flag::TRACKING_BROKEN, 'R'),
        (flag::TRACKING_BCAST, 'B'),
        (flag::DIRTY_CAS, 'd'),
        (flag::CLOSING, 'c'),
        (flag::READONLY, 'r'),
        (flag::NO_EVICT, 'e'),
        (flag::NO_TOUCH, 'T'),
        (flag::IMPORT_SOURCE, 'I'),
        (flag::SLOT_IMPORT, 'i'),
    ];
    let mut text: String =
        letters.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, letter)| *letter).collect();
    if client.is_unix {
        text.push('U');
    }
    if text.is_empty() {
        text.push('N');
    }
    text
}
