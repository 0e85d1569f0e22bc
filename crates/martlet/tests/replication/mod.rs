//! Primaries and replicas as whole processes. The other end is redis-server, if it is installed: whatever the
//! way to it, the data sets are equal key by key once WAIT says so.

mod channels;
mod channels_replica;
mod differential;
mod diskless;
mod failover_pause;
mod faults;
mod formats;
mod parallel_apply;
mod primary;
mod promotion;
mod repl_pause;
mod replica;
mod settings;
mod sync;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::Server;
use martlet_testkit::wait::until as wait_until;
use rustix::process::{Pid, Signal, kill_process};

const OURS: &str = env!("CARGO_BIN_EXE_martlet");
const PEER: &str = "redis-server";
/// A condition that does not come true in this time never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether redis-server is installed; says so if it is not.
fn has_peer() -> bool {
    is_installed(PEER)
}

/// Starts a Martlet server, with DEBUG allowed.
fn start_ours(options: &[&str]) -> Server {
    let mut all = vec!["server", "--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"];
    all.extend(options);
    Server::start(Path::new(OURS), &all).unwrap()
}

/// Starts a redis-server.
fn start_peer(options: &[&str]) -> Server {
    let mut all = vec!["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"];
    all.extend(options);
    Server::start(Path::new(PEER), &all).unwrap()
}

/// A process that stands still as long as this lives.
struct Stopped(Pid);

impl Stopped {
    fn new(id: u32) -> Stopped {
        let process = Pid::from_raw(id as i32).unwrap();
        martlet_testkit::server::stop(process).unwrap();
        Stopped(process)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // It may have ended.
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// The answer to a line of words.
fn run(server: &Server, line: &str) -> Reply {
    let words: Vec<_> = line.split(' ').collect();
    Client::connect(server.address()).unwrap().command(&words).unwrap()
}

/// An answer as text: `nil` for none, words in a row for an array.
fn text(reply: &Reply) -> String {
    match reply {
        Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Int(number) => number.to_string(),
        Reply::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(" "),
        _ => reply.text().map_or("nil".into(), |text| String::from_utf8_lossy(text).into_owned()),
    }
}

/// A field of INFO.
fn info(server: &Server, field: &str) -> String {
    let all = text(&run(server, "INFO everything"));
    let line = all.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_default().to_owned()
}

/// Makes a server follow another.
fn follow(replica: &Server, primary: SocketAddr) {
    let line = format!("REPLICAOF {} {}", primary.ip(), primary.port());
    assert_eq!(text(&run(replica, &line)), "OK");
}

/// Waits until a replica's link is up.
fn wait_for_link(replica: &Server) {
    wait_until("the link is up", || info(replica, "master_link_status") == "up");
}

/// Waits until the replica has everything that the primary has: their data sets are equal. Due keys may
/// expire in that time, from the primary first; a lasting difference is reported.
fn assert_equal(primary: &Server, replica: &Server) {
    let state = |server| (info(server, "master_repl_offset"), text(&run(server, "DEBUG DIGEST")));
    wait_until("both have the same", || state(primary) == state(replica));
}

/// Something of every type, and of every kind of effect.
fn fill(server: &Server, round: usize) {
    let mut client = Client::connect(server.address()).unwrap();
    for line in [
        "SET s{} plain",
        "APPEND s{} more",
        "INCRBYFLOAT f{} 1.25",
        "SETEX soon{} 1000 x",
        "PSETEX gone{} 1 x",
        "GETEX soon{} PERSIST",
        "SETRANGE r{} 100000 end",
        "SETBIT b{} 12345 1",
        "PFADD hll{} a b c",
        "RPUSH l{} a b c d e",
        "LPOP l{} 2",
        "LMOVE l{} l2{} LEFT RIGHT",
        "LINSERT l2{} BEFORE c x",
        "SADD set{} 1 2 3 a",
        "SPOP set{} 2",
        "SMOVE set{} set2{} 1",
        "HSET h{} f 1 g 2",
        "HINCRBY h{} f 5",
        "ZADD z{} 1 a 2 b 3 c",
        "ZINCRBY z{} 10 a",
        "ZPOPMIN z{}",
        "GEOADD geo{} 13.361389 38.115556 P",
        "XADD x{} * f v",
        "XADD x{} 9999999999999-5 f v",
        "XGROUP CREATE x{} g 0",
        "XREADGROUP GROUP g c STREAMS x{} >",
        "XTRIM x{} MAXLEN 1",
        "EXPIRE h{} 1000",
        "RENAME s{} renamed{}",
        "COPY renamed{} copied{}",
        "SORT l2{} ALPHA STORE sorted{}",
        "EVAL redis.call('SET',KEYS[1],'1');redis.call('INCR',KEYS[1]) 1 e{}",
        "MULTI",
        "SET m{} 1",
        "SELECT 3",
        "SET m{} 2",
        "DEL m{}",
        "LPUSH m{} x",
        "SELECT 0",
        "EXEC",
    ] {
        let line = line.replace("{}", &round.to_string());
        let reply = client.command(&line.split(' ').collect::<Vec<_>>()).unwrap();
        assert!(!reply.is_error(), "{line}: {reply:?}");
    }
}
