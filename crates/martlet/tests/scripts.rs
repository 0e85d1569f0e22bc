//! Scripts of whole processes: values that they move between keys, declared and not, are neither lost nor
//! seen half done, and the append-only file agrees.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");
const ACCOUNTS: u64 = 40;
const OPENING: i64 = 1000;
const MOVERS: u64 = 6;
const MOVES: usize = 400;

/// Moves an amount over three accounts; KEYS come before ARGV, and any may be left out of KEYS.
const MOVE: &str = "local names = {}
for _, name in ipairs(KEYS) do names[#names + 1] = name end
for _, name in ipairs(ARGV) do names[#names + 1] = name end
local amount = tonumber(table.remove(names))
for at = 1, #names do
  redis.call('DECRBY', names[at], amount)
  redis.call('INCRBY', names[at % #names + 1], amount)
  redis.call('HINCRBY', names[at] .. ':log', 'moves', 1)
end
redis.call('DECRBY', names[1], amount)
redis.call('INCRBY', names[#names], amount)
return amount";

fn start(directory: &Path) -> Server {
    let arguments =
        ["server", "--appendonly", "yes", "--save", "", "--io-threads", "4", "--enable-debug-command", "yes"];
    Server::start_in(directory, Path::new(OURS), &arguments).unwrap()
}

fn connect(server: &Server) -> Client {
    Client::connect(server.address()).unwrap()
}

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned()
}

/// Runs moves of three accounts each, this many of them declared.
fn keep_moving(mut client: Client, random: &mut Random, sha: &str) {
    for _ in 0..MOVES {
        let declared = random.below(4);
        let names: Vec<String> = (0..3).map(|_| format!("account:{}", random.below(ACCOUNTS))).collect();
        let (count, amount) = (declared.to_string(), random.below(50).to_string());
        let mut words = vec!["EVALSHA", sha, &count];
        words.extend(names.iter().map(String::as_str));
        words.push(&amount);
        let reply = client.command(&words).unwrap();
        assert!(reply.integer().is_some(), "{reply:?}");
    }
}

/// The sum that a transaction reads.
fn sum(client: &mut Client) -> i64 {
    client.command(&["MULTI"]).unwrap();
    for account in 0..ACCOUNTS {
        client.command(&["GET", &format!("account:{account}")]).unwrap();
    }
    let Reply::Array(balances) = client.command(&["EXEC"]).unwrap() else { panic!("no array") };
    balances.iter().map(|balance| text(balance).parse::<i64>().unwrap()).sum()
}

fn digest(server: &Server) -> String {
    text(&connect(server).command(&["DEBUG", "DIGEST"]).unwrap())
}

#[test]
fn what_scripts_move_is_conserved_in_memory_and_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = connect(&server);
    for account in 0..ACCOUNTS {
        client.command(&["SET", &format!("account:{account}"), &OPENING.to_string()]).unwrap();
    }
    let sha = text(&client.command(&["SCRIPT", "LOAD", MOVE]).unwrap());
    let total = ACCOUNTS as i64 * OPENING;
    let is_over = AtomicBool::new(false);
    let seed = Random::from_entropy().next_u64();
    println!("seed {seed}");
    std::thread::scope(|scope| {
        let movers: Vec<_> = (0..MOVERS)
            .map(|mover| {
                let (client, sha) = (connect(&server), &sha);
                scope.spawn(move || keep_moving(client, &mut Random::seeded(seed + mover), sha))
            })
            .collect();
        for _ in 0..2 {
            let (mut client, is_over) = (connect(&server), &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(sum(&mut client), total, "seed {seed}");
                }
            });
        }
        let outcomes: Vec<_> = movers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(outcomes.iter().all(Result::is_ok), "seed {seed}");
    });
    assert_eq!(sum(&mut client), total, "seed {seed}");
    let before = digest(&server);
    let _ = client.command(&["SHUTDOWN"]);
    assert!(server.wait().unwrap());
    let server = start(directory.path());
    assert_eq!((digest(&server), sum(&mut connect(&server))), (before, total), "seed {seed}");
}

fn is_error(reply: &Reply, code: &str) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with(code.as_bytes()))
}

/// A server with a client whose script does not end, once another thread's client has learnt of it.
fn start_busy(directory: &Path, script: &str) -> (Server, Client, Client) {
    let arguments = ["server", "--save", "", "--io-threads", "2", "--busy-reply-threshold", "1"];
    let server = Server::start_in(directory, Path::new(OURS), &arguments).unwrap();
    // The second connection belongs to the other thread.
    let (mut looping, mut other) = (connect(&server), connect(&server));
    looping.command(&["PING"]).unwrap();
    looping.send(&["EVAL", script, "1", "k"]).unwrap();
    while !is_error(&other.command(&["GET", "other"]).unwrap(), "BUSY ") {}
    (server, looping, other)
}

#[test]
fn a_script_that_does_not_end_makes_the_server_busy_until_it_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, mut looping, mut other) = start_busy(directory.path(), "while true do end");
    assert!(!is_error(&other.command(&["SCRIPT", "KILL"]).unwrap(), ""));
    let killed = looping.read_reply().unwrap();
    assert!(is_error(&killed, "ERR Script killed by user with SCRIPT KILL..."), "{killed:?}");
    assert!(!is_error(&other.command(&["GET", "k"]).unwrap(), ""));
}

#[test]
fn shutdown_nosave_ends_a_script_that_has_written_and_does_not_end() {
    let directory = tempfile::tempdir().unwrap();
    let script = "redis.call('SET', KEYS[1], 1) while true do end";
    let (server, _looping, mut other) = start_busy(directory.path(), script);
    assert!(is_error(&other.command(&["SCRIPT", "KILL"]).unwrap(), "UNKILLABLE "));
    other.send(&["SHUTDOWN", "NOSAVE"]).unwrap();
    assert!(server.wait().unwrap());
}

/// Redis' replies; the digest is that of `return 1`.
#[test]
fn scripts_are_found_and_commands_refused_in_the_order_of_a_real_server() {
    const DIGEST: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = connect(&server);
    let mut run = |words: &[&str]| client.command(words).unwrap();
    for name in ["EVALSHA", "EVALSHA_RO"] {
        for digest in ["abc", "", &format!("{DIGEST}0")] {
            for count in ["x", "-1", "5"] {
                let reply = run(&[name, digest, count]);
                assert!(is_error(&reply, "NOSCRIPT No matching script. Please use EVAL."), "{reply:?}");
            }
        }
        assert!(is_error(&run(&[name, DIGEST, "x"]), "ERR value is not an integer or out of range"));
    }
    assert_eq!(run(&["EVAL", "return 1", "0"]), Reply::Int(1));
    let known = run(&["SCRIPT", "EXISTS", &DIGEST.to_uppercase(), DIGEST, "abc"]);
    assert_eq!(known, Reply::Array([1, 1, 0].map(Reply::Int).to_vec()));
    for words in ["'debug', 'sleep', 'x', 'y'", "'debug', 'nosuch'", "'debug', 'object'", "'eval', 'x', '0'"]
    {
        let reply = run(&["EVAL", &format!("return redis.call({words})"), "0"]);
        assert!(is_error(&reply, "ERR This Redis command is not allowed from script"), "{words}: {reply:?}");
    }
    let reply = run(&["EVAL", "return redis.call('debug')", "0"]);
    assert!(is_error(&reply, "ERR Wrong number of args calling Redis command from script"), "{reply:?}");
}

#[test]
fn a_call_that_is_refused_counts_as_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = connect(&server);
    let mut eval = |command: &str, call: &str| {
        let reply = client.command(&[command, &format!("return redis.pcall({call})"), "0"]).unwrap();
        assert!(is_error(&reply, "ERR "), "{call}: {reply:?}");
    };
    for call in ["'config', 'get', 'port'", "'get'", "'subscribe', 'x'", "'debug', 'sleep', '0'"] {
        eval("EVAL", call);
    }
    eval("EVAL_RO", "'set', 'a', '0'");
    // Unknown ones count nowhere, and one that fails when it runs has failed.
    for call in ["'nosuch'", "'config', 'nosuch'", "'incrby', 'a', 'x'"] {
        eval("EVAL", call);
    }
    let info = text(&client.command(&["INFO", "commandstats"]).unwrap());
    let counts = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:")));
        let line = line.unwrap_or_else(|| panic!("{name} in {info}"));
        let part = |name: &str| line.split(',').find_map(|part| part.strip_prefix(name)).unwrap().to_owned();
        (part("rejected_calls="), part("failed_calls="))
    };
    for name in ["config|get", "get", "subscribe", "debug", "set"] {
        assert_eq!(counts(name), ("1".into(), "0".into()), "{name}");
    }
    assert_eq!(counts("incrby"), ("0".into(), "1".into()));
}

#[test]
fn a_limit_that_a_transaction_lifts_holds_for_no_script_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = connect(&server);
    let mut run = |words: &[&str]| client.command(words).unwrap();
    let (plain, flagged) = ("return redis.call('SET', 'a', 1)", "#!lua\nreturn redis.call('SET', 'a', 1)");
    run(&["CONFIG", "SET", "maxmemory", "1"]);
    run(&["MULTI"]);
    run(&["CONFIG", "SET", "maxmemory", "0"]);
    run(&["EVAL", plain, "0"]);
    let Reply::Array(replies) = run(&["EXEC"]) else { panic!("no array") };
    assert_eq!(replies.iter().map(text).collect::<Vec<_>>(), ["OK", "OK"]);
    run(&["CONFIG", "SET", "maxmemory", "1"]);
    run(&["MULTI"]);
    run(&["CONFIG", "SET", "maxmemory", "0"]);
    // One with flags is refused where it is queued, as a command with such flags.
    assert!(is_error(&run(&["EVAL", flagged, "0"]), "OOM "));
    assert!(is_error(&run(&["EXEC"]), "EXECABORT "));
    run(&["CONFIG", "SET", "maxmemory", "0"]);
}

#[test]
fn a_key_that_has_expired_takes_memory_until_it_is_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["server", "--save", "", "--enable-debug-command", "yes"];
    let server =
        Server::start_in(directory.path(), Path::new(env!("CARGO_BIN_EXE_martlet")), &arguments).unwrap();
    let mut client = connect(&server);
    let mut run = |words: &[&str]| client.command(words).unwrap();
    run(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    run(&["SET", "k", "v"]);
    let bytes = run(&["MEMORY", "USAGE", "k"]).integer().unwrap();
    run(&["SET", "k", "v", "PX", "1"]);
    let since = std::time::Instant::now();
    while since.elapsed() < std::time::Duration::from_millis(5) {
        run(&["PING"]);
    }
    let usage = run(&["MEMORY", "USAGE", "k"]).integer();
    assert!(usage.is_some_and(|usage| usage >= bytes), "{usage:?}");
    assert_eq!(run(&["GET", "k"]).text(), None);
    assert_eq!(run(&["MEMORY", "USAGE", "k"]).integer(), None);
}
