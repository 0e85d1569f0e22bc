//! What COMMAND and COMMAND DOCS tell of each command, compared with a real redis-server 7.0, if that is the
//! one installed: arity, flags, categories, tips, keys, versions, and the arguments without their names.
//!
//! Invariant: every difference is in [`DIFFERENCES`] with its reason, and every line there is a difference.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::peers;
use martlet_testkit::server::Server;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");
const PEER: &str = "redis-server";
/// The version that [`DIFFERENCES`] are to.
const PEER_VERSION: &str = "v=7.0.";

/// Fields of commands that differ, with the reason: Martlet's are those of Redis 8.
const DIFFERENCES: &[(&str, &[&str], &str)] = &[
    ("arity", &["command|getkeys", "command|getkeysandflags"], "commands without arguments since 7.2"),
    ("arity", &["zrank", "zrevrank"], "WITHSCORE, 7.2"),
    ("arity", &["cluster|replicate"], "NO ONE, Valkey 9"),
    ("history", &["acl|log", "client|kill", "client|list"], "7.2 and later"),
    ("history", &["georadius_ro", "georadiusbymember", "georadiusbymember_ro"], "completed in 7.2"),
    ("history", &["xinfo|consumers", "xinfo|stream", "zrank", "zrevrank"], "7.2"),
    ("history", &["xadd", "xtrim"], "KEEPREF, DELREF and ACKED, 8.2; IDMP, 8.6"),
    ("history", &["xread", "xreadgroup"], "CLAIM, 8.4; MAXCOUNT and MAXSIZE, 8.10"),
    ("history", &["geosearch", "geosearchstore"], "BYPOLYGON, Valkey 9"),
    ("history", &["set"], "IFEQ and its kin, 8.4"),
    ("history", &["cluster|setslot"], "tells replicas first, Valkey 8"),
    ("history", &["cluster|replicate"], "NO ONE, Valkey 9"),
    ("history", &["zinter", "zinterstore", "zunion", "zunionstore"], "COUNT, 8.8"),
    (
        "flags",
        &["blmove", "blpop", "brpop", "brpoplpush", "bzpopmax", "bzpopmin", "wait"],
        "scripts may call them since 7.2: they do not wait there",
    ),
    ("flags", &["cluster|shards", "cluster|slots"], "allowed while data is loaded since 7.2"),
    ("categories", &["wait"], "it blocks, as 7.2 says"),
    ("since", &["client|pause"], "7.2 says it as a version that was released"),
    (
        "doc_flags",
        &["psetex", "quit", "setex", "setnx"],
        "deprecated in 7.2, some of them with an older version",
    ),
    ("deprecated_since", &["psetex", "quit", "setex", "setnx"], "as above"),
    (
        "tips",
        &["acl|deluser", "acl|save", "acl|setuser", "client|setname", "config|resetstat", "config|rewrite"],
        "to all nodes since 7.2",
    ),
    ("tips", &["latency|reset", "msetnx", "randomkey", "scan"], "corrected in 7.2"),
    ("keys", &["sinterstore"], "overwrites its destination, as 7.2 says"),
    ("arguments", &["bgsave"], "CANCEL, Valkey 8.1"),
    ("arguments", &["client|kill", "hscan"], "MAXAGE and NOVALUES, 7.4"),
    ("arguments", &["zrank", "zrevrank"], "WITHSCORE, 7.2"),
    ("arguments", &["zscan"], "NOSCORES, Valkey 9"),
    ("arguments", &["geosearch", "geosearchstore"], "BYPOLYGON, Valkey 9"),
    ("arguments", &["set"], "IFEQ and its kin, 8.4"),
    ("arguments", &["cluster|setslot"], "TIMEOUT, Valkey 8"),
    ("arguments", &["cluster|replicate"], "NO ONE, Valkey 9"),
    ("arguments", &["zinter", "zinterstore", "zunion", "zunionstore"], "COUNT, 8.8"),
    ("arguments", &["xadd", "xtrim"], "KEEPREF, DELREF and ACKED, 8.2; IDMP, 8.6"),
    ("arguments", &["xread", "xreadgroup"], "CLAIM, 8.4; MAXCOUNT and MAXSIZE, 8.10"),
    ("arguments", &["command|getkeys", "command|getkeysandflags"], "untold before 7.2"),
    ("arguments", &["geohash", "geopos", "pfmerge"], "what may be left out is optional since 7.2"),
    ("arguments", &["bitop", "client|list", "config|get", "module|loadex"], "told in more detail since 7.2"),
    ("arguments", &["georadius", "georadiusbymember", "migrate"], "one of several since 7.2"),
    ("arguments", &["psubscribe", "xinfo|stream"], "blocks of one argument are none since 7.2"),
];

/// Facts about a command: fields with their values.
type Facts = BTreeMap<&'static str, String>;

/// A map as RESP2 has it.
fn pairs(reply: &Reply) -> BTreeMap<String, &Reply> {
    let items = reply.items().unwrap_or_default();
    items.chunks_exact(2).map(|pair| (text(&pair[0]), &pair[1])).collect()
}

fn text(reply: &Reply) -> String {
    match reply.integer() {
        Some(number) => number.to_string(),
        None => String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned(),
    }
}

/// Elements whose order means nothing.
fn set(reply: Option<&&Reply>) -> String {
    let items = reply.and_then(|reply| reply.items()).unwrap_or_default();
    let sorted: BTreeSet<String> = items.iter().map(text).collect();
    sorted.into_iter().collect::<Vec<_>>().join(" ")
}

/// A reply with all that is in it.
fn whole(reply: &Reply) -> String {
    match reply.items() {
        Some(items) => format!("[{}]", items.iter().map(whole).collect::<Vec<_>>().join(" ")),
        None => text(reply),
    }
}

/// A part of the keys, without its notes.
fn key_part(reply: &Reply) -> String {
    let fields = pairs(reply);
    let place = |name: &str| fields.get(name).map_or_else(String::new, |reply| whole(reply));
    format!("{} {} {}", set(fields.get("flags")), place("begin_search"), place("find_keys"))
}

/// Arguments without their names, which differ from version to version.
fn arguments(reply: Option<&&Reply>) -> String {
    let shown = reply.and_then(|reply| reply.items()).unwrap_or_default().iter().map(|argument| {
        let fields = pairs(argument);
        let told = ["type", "token", "since", "key_spec_index"].map(|name| fields.get(name).map(|r| text(r)));
        let told: Vec<String> = told.into_iter().flatten().collect();
        format!("({} {} {})", told.join(" "), set(fields.get("flags")), arguments(fields.get("arguments")))
    });
    shown.collect()
}

/// Collects COMMAND's facts, subcommands included.
fn collect_info(reply: &Reply, facts: &mut BTreeMap<String, Facts>) {
    for command in reply.items().unwrap_or_default() {
        let [name, arity, flags, first, last, step, categories, tips, keys, subcommands] =
            command.items().unwrap_or_default()
        else {
            panic!("COMMAND tells ten things: {command:?}");
        };
        let keys: Vec<String> = keys.items().unwrap_or_default().iter().map(key_part).collect();
        let told = [
            ("arity", text(arity)),
            ("flags", set(Some(&flags))),
            ("range", [first, last, step].map(text).join(" ")),
            ("categories", set(Some(&categories))),
            ("tips", set(Some(&tips))),
            ("keys", keys.join(", ")),
        ];
        facts.entry(text(name)).or_default().extend(told);
        collect_info(subcommands, facts);
    }
}

/// Collects COMMAND DOCS' facts, subcommands included; the prose is Martlet's own.
fn collect_docs(reply: &Reply, facts: &mut BTreeMap<String, Facts>) {
    for (name, docs) in pairs(reply) {
        let docs = pairs(docs);
        let one = |name: &str| docs.get(name).map_or_else(String::new, |reply| text(reply));
        let history = docs.get("history").and_then(|reply| reply.items()).unwrap_or_default();
        let versions: Vec<String> = history.iter().map(|change| text(&change.items().unwrap()[0])).collect();
        let told = [
            ("since", one("since")),
            ("group", one("group")),
            ("doc_flags", set(docs.get("doc_flags"))),
            ("deprecated_since", one("deprecated_since")),
            ("history", versions.join(" ")),
            ("arguments", arguments(docs.get("arguments"))),
        ];
        facts.entry(name).or_default().extend(told);
        if let Some(subcommands) = docs.get("subcommands") {
            collect_docs(subcommands, facts);
        }
    }
}

/// All of a server's facts about its commands.
fn told_by(program: &str) -> BTreeMap<String, Facts> {
    let directory = tempfile::tempdir().unwrap();
    let mut options = if program == OURS { vec!["server"] } else { vec![] };
    options.extend(["--save", ""]);
    let server = Server::start_in(directory.path(), Path::new(program), &options).unwrap();
    let mut client = Client::connect(server.address()).unwrap();
    let mut facts = BTreeMap::new();
    collect_info(&client.command(&["COMMAND"]).unwrap(), &mut facts);
    collect_docs(&client.command(&["COMMAND", "DOCS"]).unwrap(), &mut facts);
    facts
}

#[test]
fn commands_are_told_as_redis_tells_them() {
    let version = Command::new(PEER).arg("--version").output();
    let version =
        version.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into());
    if !version.contains(PEER_VERSION) {
        return peers::skip("no redis-server 7.0 is installed");
    }
    let (ours, theirs) = (told_by(OURS), told_by(PEER));
    assert!(ours.len() > 300 && theirs.len() > 300, "{} and {} commands", ours.len(), theirs.len());
    let mut expected: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (field, commands, _) in DIFFERENCES {
        expected.extend(commands.iter().map(|command| (*command, *field)));
    }
    let mut findings = Vec::new();
    for (name, our_facts) in &ours {
        for (field, theirs) in theirs.get(name).into_iter().flatten() {
            let ours = &our_facts[field];
            if ours != theirs && !expected.remove(&(name.as_str(), *field)) {
                findings.push(format!("{name}: {field}\n  ours:   {ours}\n  theirs: {theirs}"));
            }
        }
    }
    findings.extend(expected.iter().map(|(name, field)| format!("{name}: {field} is told alike by now")));
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
