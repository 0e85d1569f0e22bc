//! A file of Redis Stack 7.4, whose values are of modules that this server does not know: they are kept,
//! saved, dumped and replicated as they are.

use std::path::Path;
use std::process::Command;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;
use martlet_testkit::wait::until;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");
const FILE: &[u8] = include_bytes!("redis_stack_7_4.rdb");
/// The keys of modules, and the names that TYPE has for them.
const KEYS: [(&str, &str); 7] = [
    ("json", "ReJSON-RL"),
    ("bloom", "MBbloom--"),
    ("cuckoo", "MBbloomCF"),
    ("sketch", "CMSk-TYPE"),
    ("top", "TopK-TYPE"),
    ("digest", "TDIS-TYPE"),
    ("series", "TSDB-TYPE"),
];
/// The types among them that this server has.
const OURS_TOO: [&str; 6] = ["MBbloom--", "MBbloomCF", "CMSk-TYPE", "TopK-TYPE", "TDIS-TYPE", "TSDB-TYPE"];

fn start(directory: &Path, arguments: &[&str]) -> Server {
    let all = [&["server", "--enable-debug-command", "yes"], arguments].concat();
    Server::start_in(directory, Path::new(OURS), &all).unwrap()
}

/// Each key's type, and its value as DUMP shows it.
fn content(server: &Server) -> Vec<(String, Vec<u8>)> {
    let mut client = Client::connect(server.address()).unwrap();
    let mut ask = |words: &[&str]| client.command(words).unwrap().text().unwrap_or_default().to_vec();
    let of_key = |(key, _): &(&str, &str)| {
        let name = String::from_utf8(ask(&["TYPE", key])).unwrap();
        (name, ask(&["DUMP", key]))
    };
    KEYS.iter().map(of_key).collect()
}

#[test]
fn values_of_unknown_modules_survive_restarts_and_reach_replicas() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("dump.rdb"), FILE).unwrap();
    let server = start(directory.path(), &[]);
    let before = content(&server);
    let names: Vec<&str> = before.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, KEYS.map(|(_, name)| name));
    // The type byte, and the bytes as the file has them. Values of types that this server has are no
    // carried values: they are written as this server writes them.
    for (name, payload) in before.iter().filter(|(name, _)| !OURS_TOO.contains(&name.as_str())) {
        let value = &payload[..payload.len() - 10];
        assert!(value[0] == 7 && FILE.windows(value.len() - 1).any(|part| part == &value[1..]), "{name}");
    }
    let left_out = "data of the module type ft_index0 beside its keys, which is left out";
    assert!(server.logged(left_out, 1) > 0, "{}", server.log());
    let mut client = Client::connect(server.address()).unwrap();
    assert_eq!(client.command(&["DBSIZE"]).unwrap().integer(), Some(9));
    assert_eq!(client.command(&["PEXPIRETIME", "bloom"]).unwrap().integer(), Some(4_000_000_000_000));
    let refused = client.command(&["GET", "json"]).unwrap();
    assert!(matches!(&refused, Reply::Error(text) if text.starts_with(b"WRONGTYPE")), "{refused:?}");

    // Reload, a base of commands, and restart from that.
    assert_eq!(client.command(&["DEBUG", "RELOAD"]).unwrap().text(), Some(&b"OK"[..]));
    assert_eq!(content(&server), before);
    for (name, value) in [("aof-use-rdb-preamble", "no"), ("appendonly", "yes")] {
        client.command(&["CONFIG", "SET", name, value]).unwrap();
    }
    let is_written = |client: &mut Client| {
        let info = client.command(&["INFO", "persistence"]).unwrap();
        let info = String::from_utf8(info.text().unwrap().to_vec()).unwrap();
        info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
    };
    until("the append-only file is there", || is_written(&mut client));
    drop(client);
    drop(server);
    let server = start(directory.path(), &["--appendonly", "yes"]);
    assert_eq!(content(&server), before);

    let other = tempfile::tempdir().unwrap();
    let replica = start(other.path(), &["--repl-diskless-sync-delay", "0"]);
    let mut client = Client::connect(replica.address()).unwrap();
    let port = server.address().port().to_string();
    client.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
    until("the replica has the keys", || content(&replica) == before);
}

#[test]
fn tools_read_values_of_unknown_modules() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("stack.rdb");
    std::fs::write(&file, FILE).unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(OURS).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let file = file.to_str().unwrap();
    let report = run(&["check-rdb", file]);
    assert!(
        report.contains("MODULE AUX for: ft_index0") && report.contains("[info] 9 keys read"),
        "{report}"
    );
    let lines = run(&["convert", file, "-", "--json-lines"]);
    assert!(lines.contains(r#""key":"json","type":"ReJSON-RL","expiry_ms":null"#), "{lines}");
    let converted = directory.path().join("converted.rdb");
    run(&["convert", file, converted.to_str().unwrap(), "--rdb-version", "9"]);
    assert!(run(&["check-rdb", converted.to_str().unwrap()]).contains("[info] 9 keys read"));
}
