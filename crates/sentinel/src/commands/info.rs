//! INFO: the sections that a Sentinel has.

use std::fmt::Write as _;

use martlet_spec::{Acl, Flags, Group, Outcome, Tip, command};

use super::core::Core;
use super::{Call, Handler, REDIS_VERSION, SentinelCommand};
use crate::instance::Flags as States;

/// The family.
pub static COMMANDS: &[&SentinelCommand] = &[&INFO];

static INFO: SentinelCommand = command("info", -1, info as Handler)
    .flags(Flags::LOADING.with(Flags::STALE))
    .acl(Acl::DANGEROUS)
    .syntax("?*section")
    .doc(
        Group::Server,
        "1.0.0",
        "O(N) for N primaries",
        "Returns the state of the Sentinel and of the watched primaries.",
    )
    .history(&[("7.0.0", "Takes several sections.")])
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

/// Writes a section.
type Section = fn(&Core, &mut String);

/// In INFO's order.
const SECTIONS: [(&str, Section); 5] =
    [("server", server), ("clients", clients), ("stats", stats), ("cpu", cpu), ("sentinel", sentinel)];

fn info(call: &mut Call<'_>) -> Outcome {
    let is_named = |name: &str| call.args.has_word(1, name.as_bytes());
    let is_all = call.argc() == 1 || ["all", "default", "everything"].iter().any(|name| is_named(name));
    let mut text = String::new();
    for (name, write) in SECTIONS {
        if is_all || is_named(name) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let title = name.get(..1).map_or(String::new(), str::to_uppercase);
            let title = if name == "cpu" { "CPU".into() } else { title + name.get(1..).unwrap_or_default() };
            let _ = write!(text, "# {title}\r\n");
            write(call.core, &mut text);
        }
    }
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn field(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(text, "{name}:{value}\r\n");
}

fn server(core: &Core, text: &mut String) {
    let facts = &core.facts;
    let uptime_s = (core.now_ms - facts.started_ms).max(0) / 1000;
    field(text, "redis_version", REDIS_VERSION);
    field(text, "martlet_version", env!("CARGO_PKG_VERSION"));
    field(text, "redis_mode", "sentinel");
    field(text, "os", std::env::consts::OS);
    field(text, "arch_bits", usize::BITS);
    field(text, "multiplexing_api", "epoll");
    field(text, "process_id", facts.pid);
    field(text, "run_id", &facts.run_id);
    field(text, "tcp_port", core.sentinel.settings.shown_port());
    field(text, "server_time_usec", core.now_ms * 1000);
    field(text, "uptime_in_seconds", uptime_s);
    field(text, "uptime_in_days", uptime_s / 86_400);
    field(text, "hz", 10);
    field(text, "configured_hz", 10);
    field(text, "executable", facts.executable.display());
    field(text, "config_file", facts.config_file.display());
}

fn clients(core: &Core, text: &mut String) {
    let subscribers = core.sessions.values().filter(|session| session.is_subscriber()).count();
    field(text, "connected_clients", core.sessions.len());
    field(text, "cluster_connections", 0);
    field(text, "maxclients", core.facts.clients_max);
    field(text, "blocked_clients", 0);
    field(text, "pubsub_clients", subscribers);
}

fn stats(core: &Core, text: &mut String) {
    let stats = &core.stats;
    field(text, "total_connections_received", stats.connections);
    field(text, "total_commands_processed", stats.requests);
    field(text, "total_net_input_bytes", stats.input_bytes);
    field(text, "total_net_output_bytes", stats.output_bytes);
    field(text, "rejected_connections", stats.rejected);
    field(text, "total_error_replies", stats.errors);
    let channels: std::collections::BTreeSet<_> =
        core.sessions.values().flat_map(|session| &session.channels).collect();
    let patterns: std::collections::BTreeSet<_> =
        core.sessions.values().flat_map(|session| &session.patterns).collect();
    field(text, "pubsub_channels", channels.len());
    field(text, "pubsub_patterns", patterns.len());
}

fn cpu(core: &Core, text: &mut String) {
    let [system_s, user_s] = (core.facts.cpu_seconds)();
    field(text, "used_cpu_sys", format_args!("{system_s:.6}"));
    field(text, "used_cpu_user", format_args!("{user_s:.6}"));
}

fn sentinel(core: &Core, text: &mut String) {
    let sentinel = &core.sentinel;
    let tilt_ms = sentinel.tilt_since_ms();
    field(text, "sentinel_masters", sentinel.primaries().len());
    field(text, "sentinel_tilt", u8::from(tilt_ms.is_some()));
    field(
        text,
        "sentinel_tilt_since_seconds",
        tilt_ms.map_or(-1, |since_ms| (core.now_ms - since_ms) / 1000),
    );
    field(text, "sentinel_total_tilt", sentinel.tilts());
    field(text, "sentinel_running_scripts", sentinel.scripts().running());
    field(text, "sentinel_scripts_queue_length", sentinel.scripts().jobs().len());
    field(text, "sentinel_simulate_failure_flags", sentinel.simulated.bits());
    for (index, (_, primary)) in sentinel.primaries().enumerate() {
        let status = match primary.flags {
            flags if flags.any(States::OBJECTIVELY_DOWN) => "odown",
            flags if flags.any(States::SUBJECTIVELY_DOWN) => "sdown",
            _ => "ok",
        };
        let _ = write!(
            text,
            "master{index}:name={},status={status},address={}:{},slaves={},sentinels={}\r\n",
            primary.name,
            sentinel.announced(&primary.address),
            primary.address.port,
            primary.replicas.len(),
            primary.sentinels.len() + 1
        );
    }
}
