//! `--cluster`: the cluster manager, as in redis-cli and valkey-cli. It creates clusters, checks and mends
//! them, moves slots, adds and removes nodes.
//!
//! Invariant: a change of a cluster is planned by pure functions ([`plan`]), shown, and then carried out by
//! commands that leave, wherever they are cut off, a state that `fix` mends.

mod atomic;
mod backup;
mod call;
mod check;
mod create;
mod fix;
mod fix_open;
mod help;
mod import;
mod log;
mod membership;
mod moving;
mod node;
mod nodes_reply;
mod plan;
mod rebalance;
mod reshard;
mod slots;
mod topology;
mod words;

use crate::cluster_settings::ClusterSettings;
use crate::settings::Settings;
use log::Log;
use words::Words;

/// Something has failed, and it has been said why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// The result of a step.
type Outcome = Result<(), Failed>;

/// The context of a subcommand.
struct Manager<'a> {
    settings: &'a Settings,
    options: &'a ClusterSettings,
    /// The words behind the subcommand's name.
    arguments: &'a [Vec<u8>],
    words: &'static Words,
    log: Log,
    /// `fix`: the findings of a check are mended.
    fixes: bool,
}

/// How many arguments a subcommand takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arity {
    Any,
    Exactly(usize),
    AtLeast(usize),
}

impl Arity {
    fn allows(self, count: usize) -> bool {
        match self {
            Arity::Any => true,
            Arity::Exactly(number) => count == number,
            Arity::AtLeast(number) => count >= number,
        }
    }
}

/// A subcommand.
struct Subcommand {
    name: &'static str,
    run: fn(&Manager) -> Outcome,
    arity: Arity,
    /// The help's text on arguments, and on options in both dialects.
    arguments: &'static str,
    options: &'static [&'static str],
    valkey_options: &'static [&'static str],
}

const ADDRESS: &str = "<host:port> or <host> <port> - separated by either colon or space";

const fn subcommand(
    name: &'static str,
    run: fn(&Manager) -> Outcome,
    arity: Arity,
    arguments: &'static str,
    options: &'static [&'static str],
    valkey_options: &'static [&'static str],
) -> Subcommand {
    Subcommand { name, run, arity, arguments, options, valkey_options }
}

const SUBCOMMANDS: &[Subcommand] = &[
    subcommand(
        "create",
        create::run,
        Arity::AtLeast(1),
        "host1:port1 ... hostN:portN",
        &["replicas <arg>"],
        &["replicas <arg>"],
    ),
    subcommand(
        "check",
        check::run,
        Arity::AtLeast(1),
        ADDRESS,
        &["search-multiple-owners"],
        &["search-multiple-owners"],
    ),
    subcommand("info", check::info, Arity::AtLeast(1), ADDRESS, &[], &[]),
    subcommand(
        "fix",
        check::run,
        Arity::AtLeast(1),
        ADDRESS,
        &["search-multiple-owners", "fix-with-unreachable-masters"],
        &["search-multiple-owners", "fix-with-unreachable-primaries"],
    ),
    subcommand(
        "reshard",
        reshard::run,
        Arity::AtLeast(1),
        ADDRESS,
        &["from <arg>", "to <arg>", "slots <arg>", "yes", "timeout <arg>", "pipeline <arg>", "replace"],
        &[
            "from <arg>",
            "to <arg>",
            "slots <arg>",
            "yes",
            "timeout <arg>",
            "pipeline <arg>",
            "replace",
            "use-atomic-slot-migration",
        ],
    ),
    subcommand(
        "rebalance",
        rebalance::run,
        Arity::AtLeast(1),
        ADDRESS,
        &[
            "weight <node1=w1...nodeN=wN>",
            "use-empty-masters",
            "timeout <arg>",
            "simulate",
            "pipeline <arg>",
            "threshold <arg>",
            "replace",
        ],
        &[
            "weight <node1=w1...nodeN=wN>",
            "use-empty-primaries",
            "timeout <arg>",
            "simulate",
            "pipeline <arg>",
            "threshold <arg>",
            "replace",
            "use-atomic-slot-migration",
        ],
    ),
    subcommand(
        "add-node",
        membership::add,
        Arity::Exactly(2),
        "new_host:new_port existing_host:existing_port",
        &["slave", "master-id <arg>"],
        &["replica", "primary-id <arg>"],
    ),
    subcommand("del-node", membership::remove, Arity::Exactly(2), "host:port node_id", &[], &[]),
    subcommand(
        "call",
        call::run,
        Arity::AtLeast(2),
        "host:port command arg arg .. arg",
        &["only-masters", "only-replicas"],
        &["only-primaries", "only-replicas"],
    ),
    subcommand("set-timeout", call::set_timeout, Arity::Exactly(2), "host:port milliseconds", &[], &[]),
    subcommand("import", import::run, Arity::Exactly(1), "host:port", IMPORT_OPTIONS, IMPORT_OPTIONS),
    subcommand("backup", backup::run, Arity::Exactly(2), "host:port backup_directory", &[], &[]),
    subcommand("help", help::run, Arity::Any, "", &[], &[]),
];

const IMPORT_OPTIONS: &[&str] =
    &["from <arg>", "from-user <arg>", "from-pass <arg>", "from-askpass", "copy", "replace"];

/// Runs a subcommand; gives the exit status.
pub fn run(settings: &Settings, name: &str, arguments: &[Vec<u8>]) -> Result<i32, String> {
    let subcommand = SUBCOMMANDS.iter().find(|subcommand| subcommand.name == name);
    let subcommand = subcommand.ok_or("Unknown --cluster subcommand")?;
    if !subcommand.arity.allows(arguments.len()) {
        return Err("[ERR] Wrong number of arguments for specified --cluster sub command".into());
    }
    let options = &settings.manager;
    let manager = Manager {
        settings,
        options,
        arguments,
        words: if options.is_valkey { &words::VALKEY } else { &words::REDIS },
        log: Log::new(),
        fixes: name == "fix",
    };
    let outcome = (subcommand.run)(&manager);
    log::flush();
    Ok(i32::from(outcome.is_err()))
}

/// Takes `host:port`, also with `@bus-port` behind, apart.
fn host_and_port(text: &str) -> Option<(String, u16)> {
    let place = text.rsplit_once('@').map_or(text, |(place, _)| place);
    let (host, port) = place.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().ok().filter(|port| *port > 0)?;
    (!host.is_empty()).then(|| (host.into(), port))
}

impl Manager<'_> {
    /// Says why nothing is done.
    fn refuse(&self, message: impl std::fmt::Display) -> Outcome {
        log::flush();
        eprintln!("{message}");
        Err(Failed)
    }

    /// An argument that is text.
    fn text_argument(&self, index: usize) -> Result<&str, Failed> {
        let text = self.arguments.get(index).and_then(|word| std::str::from_utf8(word).ok());
        match text {
            Some(text) => Ok(text),
            None => self.refuse("[ERR] Invalid arguments: not UTF-8").map(|()| ""),
        }
    }

    /// The node that `host:port`, or `host` and `port`, name.
    fn given_address(&self, words: &[Vec<u8>]) -> Result<(String, u16), Failed> {
        let texts: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let found = match texts.as_slice() {
            [both] => host_and_port(both),
            [host, port, ..] => host_and_port(&format!("{host}:{port}")),
            [] => None,
        };
        found.ok_or_else(|| {
            eprintln!(
                "[ERR] Invalid arguments: you need to pass either a valid address (ie. 120.0.0.1:7000) or \
                space separated IP and port (ie. 120.0.0.1 7000)"
            );
            Failed
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        let read = |text: &str| host_and_port(text).map(|(host, port)| format!("{host} {port}"));
        assert_eq!(read("127.0.0.1:7000").as_deref(), Some("127.0.0.1 7000"));
        assert_eq!(read("node.example:7000@17000").as_deref(), Some("node.example 7000"));
        assert_eq!(read("::1:7000").as_deref(), Some("::1 7000"));
        assert_eq!(read("[::1]:7000").as_deref(), Some("::1 7000"));
        for text in ["", ":7000", "host", "host:", "host:0", "host:70000", "host:7x"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn every_subcommand_is_in_the_help_once() {
        let help = help::text(&words::REDIS);
        for subcommand in SUBCOMMANDS {
            assert_eq!(help.matches(&format!("\n  {:<15}", subcommand.name)).count(), 1);
        }
    }
}
