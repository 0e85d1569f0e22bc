//! Martlet as a replica of a real redis-server, and of Martlet. Without redis-server these tests say so and
//! pass.
//!
//! Nothing here waits for a time: each step waits until its event has happened.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;

use super::{OURS, Stopped, has_peer, start_ours, start_peer, text, wait_until};

pub fn with_client(server: Server) -> (Server, Client) {
    let client = Client::connect(server.address()).unwrap();
    (server, client)
}

pub fn peer(arguments: &[&str]) -> (Server, Client) {
    with_client(start_peer(arguments))
}

pub fn ours(arguments: &[&str]) -> (Server, Client) {
    with_client(start_ours(&[&["--io-threads", "2"], arguments].concat()))
}

/// The reply as text.
pub fn ask(client: &mut Client, request: &str) -> String {
    let words: Vec<&str> = request.split(' ').collect();
    text(&client.command(&words).unwrap())
}

pub fn field(client: &mut Client, name: &str) -> String {
    let info = ask(client, "INFO replication");
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().to_owned()
}

pub fn follow(replica: &mut Client, port: u16) {
    assert_eq!(ask(replica, &format!("REPLICAOF 127.0.0.1 {port}")), "OK");
    wait_until("the link", || field(replica, "master_link_status") == "up");
}

/// Waits until the replica is as far as the primary and their data are equal. Due keys may expire in that
/// time, from the primary first.
pub fn assert_equal(primary: &mut Client, replica: &mut Client) {
    wait_until("the same place and data", || {
        field(primary, "master_repl_offset") == field(replica, "slave_repl_offset")
            && ask(primary, "DEBUG DIGEST") == ask(replica, "DEBUG DIGEST")
    });
}

/// Commands of every kind; `round` makes them different.
pub fn write_something(primary: &mut Client, round: usize) {
    for request in [
        format!("SET string:{round} {round}"),
        format!("APPEND string:{round} x"),
        format!("SET expiring:{round} v PX 3600000"),
        format!("RPUSH list{round} a b c {round}"),
        "LPOP list0".into(),
        format!("SADD set {round} x y z"),
        "SPOP set".into(),
        format!("ZADD zset {round} m{round}"),
        format!("HSET hash f{round} v"),
        format!("HINCRBYFLOAT hash float 1.{round}"),
        "XADD stream * f v".into(),
        "INCR counter".into(),
        format!("SELECT {}", round % 3),
        format!("PFADD hll {round}"),
        format!("SETBIT bits {round} 1"),
        "SELECT 0".into(),
        format!("COPY list{round} copy{round} DB 2"),
        format!("RENAME copy{round} other{round}"),
    ] {
        ask(primary, &request);
    }
    for request in ["MULTI", "INCR counter", "SELECT 1", "INCR counter", "SELECT 0", "EXEC"] {
        ask(primary, request);
    }
    let script = "redis.call('incr','counter') redis.call('rpush','scripted',ARGV[1]) return 1";
    primary.command(&["EVAL", script, "0", &round.to_string()]).unwrap();
}

#[test]
fn a_snapshot_and_the_stream_behind_it_arrive() {
    if !has_peer() {
        return;
    }
    for diskless in ["yes", "no"] {
        let (server, mut primary) = peer(&["--repl-diskless-sync", diskless]);
        for round in 0..50 {
            write_something(&mut primary, round);
        }
        let (own, mut replica) = ours(&["--appendonly", "yes"]);
        ask(&mut replica, "SET gone 1");
        follow(&mut replica, server.address().port());
        assert_eq!(ask(&mut replica, "EXISTS gone"), "0");
        for round in 50..150 {
            write_something(&mut primary, round);
        }
        assert_equal(&mut primary, &mut replica);
        ask(&mut primary, "FLUSHALL");
        write_something(&mut primary, 1);
        assert_equal(&mut primary, &mut replica);
        // The append-only file has it, too.
        wait_until("a rewrite", || {
            ask(&mut replica, "INFO persistence").contains("aof_rewrite_in_progress:0")
        });
        let digest = ask(&mut replica, "DEBUG DIGEST");
        let loaded = replica.command(&["DEBUG", "LOADAOF"]);
        assert!(matches!(&loaded, Ok(reply) if text(reply) == "OK"), "{loaded:?}\n{}", own.log());
        assert_eq!(ask(&mut replica, "DEBUG DIGEST"), digest);
    }
}

#[test]
fn a_replica_says_what_it_is_and_writes_nothing() {
    if !has_peer() {
        return;
    }
    let (server, mut primary) = peer(&[]);
    let (_ours, mut replica) = ours(&[]);
    let port = server.address().port();
    follow(&mut replica, port);
    let role = ask(&mut replica, "ROLE");
    assert!(role.starts_with(&format!("slave 127.0.0.1 {port} connected ")), "{role}");
    let refusal = "READONLY You can't write against a read only replica.";
    assert_eq!(ask(&mut replica, "SET k v"), refusal);
    assert!(ask(&mut replica, "CLIENT LIST TYPE master").contains(" flags=M "));
    assert_eq!(
        ask(&mut replica, &format!("REPLICAOF 127.0.0.1 {port}")),
        "OK Already connected to specified master"
    );
    assert_eq!(ask(&mut replica, "REPLICAOF 127.0.0.1 x"), "ERR Invalid master port");
    ask(&mut replica, "MULTI");
    assert_eq!(ask(&mut replica, "SET k v"), refusal);
    assert!(ask(&mut replica, "EXEC").starts_with("EXECABORT"));
    let refused = replica.command(&["EVAL", "return redis.call('set','k','v')", "1", "k"]).unwrap();
    assert!(matches!(refused, Reply::Error(_)));
    ask(&mut primary, "SET k v");
    wait_until("the key", || ask(&mut replica, "GET k") == "v");
    ask(&mut replica, "CONFIG SET replica-serve-stale-data no");
    ask(&mut primary, "DEBUG SLEEP 0");
    drop(server);
    wait_until("the link's end", || ask(&mut replica, "GET k").starts_with("MASTERDOWN"));
    assert_eq!(field(&mut replica, "master_link_status"), "down");
    ask(&mut replica, "CONFIG SET replica-read-only no");
    ask(&mut replica, "CONFIG SET replica-serve-stale-data yes");
    assert_eq!(ask(&mut replica, "SET k w"), "OK");
}

#[test]
fn waiting_readers_subscribers_and_expiry_go_by_the_stream() {
    if !has_peer() {
        return;
    }
    let (server, mut primary) = peer(&[]);
    let (own, mut replica) = ours(&["--notify-keyspace-events", "KEA"]);
    ask(&mut primary, "CONFIG SET hz 1");
    ask(&mut primary, "DEBUG SET-ACTIVE-EXPIRE 0");
    follow(&mut replica, server.address().port());
    let (mut reader, mut subscriber) =
        (Client::connect(own.address()).unwrap(), Client::connect(own.address()).unwrap());
    ask(&mut subscriber, "SUBSCRIBE news __keyevent@0__:lpush");
    subscriber.read_reply().unwrap();
    reader.send(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]).unwrap();
    wait_until("the reader", || ask(&mut replica, "INFO clients").contains("blocked_clients:1"));
    ask(&mut primary, "XADD s 1-1 f v");
    assert!(text(&reader.read_reply().unwrap()).contains("1-1"));
    ask(&mut primary, "LPUSH l x");
    assert_eq!(text(&subscriber.read_reply().unwrap()), "message __keyevent@0__:lpush l");
    ask(&mut primary, "PUBLISH news hello");
    assert_eq!(text(&subscriber.read_reply().unwrap()), "message news hello");
    // Gone for readers, but there until the primary deletes it.
    ask(&mut primary, "SET due v PX 1");
    wait_until("the key", || ask(&mut replica, "DBSIZE") == "3");
    wait_until("the key's time", || ask(&mut replica, "GET due") == "nil");
    assert_eq!(ask(&mut replica, "DBSIZE"), "3");
    wait_until("its time there", || ask(&mut primary, "GET due") == "nil");
    wait_until("the deletion", || ask(&mut replica, "DBSIZE") == "2");
}

#[test]
fn a_promoted_replica_goes_on_and_a_demoted_primary_loads() {
    if !has_peer() {
        return;
    }
    let (server, mut primary) = peer(&[]);
    let (own, mut replica) = ours(&[]);
    write_something(&mut primary, 1);
    follow(&mut replica, server.address().port());
    assert_equal(&mut primary, &mut replica);
    let (id, offset) = (field(&mut primary, "master_replid"), field(&mut primary, "master_repl_offset"));
    assert_eq!(ask(&mut replica, "REPLICAOF NO ONE"), "OK");
    assert_eq!(field(&mut replica, "master_replid2"), id);
    assert_eq!(field(&mut replica, "second_repl_offset"), (offset.parse::<i64>().unwrap() + 1).to_string());
    assert_ne!(field(&mut replica, "master_replid"), id);
    assert_eq!(ask(&mut replica, "SET k v"), "OK");
    // A client that waits to write gets an error, since it cannot any more.
    let mut waiting = Client::connect(own.address()).unwrap();
    waiting.send(&["BLPOP", "none", "0"]).unwrap();
    wait_until("the wait", || ask(&mut replica, "INFO clients").contains("blocked_clients:1"));
    follow(&mut replica, server.address().port());
    assert!(text(&waiting.read_reply().unwrap()).starts_with("UNBLOCKED force unblock"));
    assert_equal(&mut primary, &mut replica);
    assert_eq!(ask(&mut replica, "EXISTS k"), "0");
}

#[test]
fn the_configuration_names_the_primary() {
    if !has_peer() {
        return;
    }
    let (server, mut primary) = peer(&[]);
    ask(&mut primary, "CONFIG SET requirepass secret");
    write_something(&mut primary, 3);
    let port = server.address().port().to_string();
    let (_ours, mut replica) = ours(&["--replicaof", "127.0.0.1", &port, "--masterauth", "secret"]);
    wait_until("the link", || field(&mut replica, "master_link_status") == "up");
    assert_equal(&mut primary, &mut replica);
    assert_eq!(ask(&mut replica, "CONFIG GET replicaof"), format!("replicaof 127.0.0.1 {port}"));
}

/// Passes bytes between a replica and its primary, and cuts the way from the primary after this many.
pub struct Proxy {
    pub port: u16,
    /// Bytes that still pass; below 0 there is no end.
    pub left: Arc<AtomicI64>,
}

impl Proxy {
    pub fn start(target: std::net::SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy { port: listener.local_addr().unwrap().port(), left: Arc::new(AtomicI64::new(-1)) };
        let left = proxy.left.clone();
        std::thread::spawn(move || {
            for replica in listener.incoming() {
                let (replica, primary) = (replica.unwrap(), TcpStream::connect(target).unwrap());
                let (mut from, mut to) = (replica.try_clone().unwrap(), primary.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                let left = left.clone();
                std::thread::spawn(move || pass(primary, replica, &left));
            }
        });
        proxy
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, left: &AtomicI64) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let allowed = left.load(Ordering::SeqCst);
        let passed = if allowed < 0 { count } else { count.min(allowed as usize) };
        if to.write_all(&bytes[..passed]).is_err() {
            break;
        }
        if allowed >= 0 {
            left.store(allowed - passed as i64, Ordering::SeqCst);
        }
        if passed < count {
            // The next connection is whole again.
            left.store(-1, Ordering::SeqCst);
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[test]
fn a_cut_anywhere_in_a_transaction_loses_and_doubles_nothing() {
    if !has_peer() {
        return;
    }
    let (server, mut primary) = peer(&["--repl-ping-replica-period", "3600"]);
    let proxy = Proxy::start(server.address());
    let (own, mut replica) = ours(&[]);
    ask(&mut primary, "SET n 0");
    follow(&mut replica, proxy.port);
    ask(&mut primary, "INCR n");
    assert_equal(&mut primary, &mut replica);
    let transaction = |primary: &mut Client| {
        for request in ["MULTI", "INCR n", "RPUSH l x", "EXEC"] {
            ask(primary, request);
        }
    };
    let before: usize = field(&mut primary, "master_repl_offset").parse().unwrap();
    transaction(&mut primary);
    assert_equal(&mut primary, &mut replica);
    let len = field(&mut primary, "master_repl_offset").parse::<usize>().unwrap() - before;
    for at in (0..len).step_by(9) {
        proxy.left.store(at as i64, Ordering::SeqCst);
        transaction(&mut primary);
        // A reader sees all of it or nothing.
        wait_until("the end of the cut link", || proxy.left.load(Ordering::SeqCst) < 0);
        let both = ask(&mut replica, "MULTI") + &ask(&mut replica, "GET n") + &ask(&mut replica, "LLEN l");
        assert_eq!(both, "OKQUEUEDQUEUED");
        let seen = ask(&mut replica, "EXEC");
        let (n, l) = seen.split_once(' ').unwrap();
        assert_eq!(n.parse::<i64>().unwrap(), l.parse::<i64>().unwrap() + 1, "cut at {at}");
        wait_until("the link", || field(&mut replica, "master_link_status") == "up");
        assert_equal(&mut primary, &mut replica);
    }
    assert!(own.logged("Successful partial resynchronization with master.", 1) > 0);
    assert_eq!(own.logged("Full resync from master", 1), 1, "{}", own.log());
}

#[test]
fn a_fake_primary_gets_a_line_in_the_log() {
    let (own, mut replica) = ours(&[]);
    ask(&mut replica, "SET mine 1");
    let handshake: &[u8] = b"+PONG\r\n+OK\r\n+OK\r\n+OK\r\n";
    let id = "0123456789abcdef0123456789abcdef01234567";
    let full = format!("+FULLRESYNC {id} 1\r\n");
    for (sent, expected) in [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "Error reply to PING from master"),
        ([handshake, b"+FULLRESYNC x\r\n"].concat(), "wrong +FULLRESYNC syntax"),
        ([handshake, full.as_bytes(), b"garbage\r\n"].concat(), "Bad protocol from MASTER"),
        ([handshake, full.as_bytes(), b"-no\r\n"].concat(), "MASTER aborted replication with an error: no"),
        ([handshake, full.as_bytes(), b"$9\r\nREDISxxxx"].concat(), "Can't handle RDB format version 0"),
        ([handshake, full.as_bytes(), b"$10\r\nREDIS0010\x63"].concat(), "unknown type of value"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(ask(&mut replica, &format!("REPLICAOF 127.0.0.1 {port}")), "OK");
        let (mut socket, _) = listener.accept().unwrap();
        socket.write_all(&sent).unwrap();
        wait_until(expected, || own.log().contains(expected));
        if expected.starts_with("unknown type") {
            // The loaded part is gone, and so is the data that it should have replaced.
            wait_until("the end of loading", || ask(&mut replica, "DBSIZE") == "0");
        } else {
            assert_eq!(ask(&mut replica, "GET mine"), "1");
        }
        drop(listener);
    }
    assert_eq!(ask(&mut replica, "REPLICAOF NO ONE"), "OK");
    assert_eq!(ask(&mut replica, "SET k v"), "OK");
}

/// A Martlet server with a directory that outlives it, and its client.
pub fn ours_in(directory: &Path, arguments: &[&str]) -> (Server, Client) {
    let options = ["server", "--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"];
    with_client(Server::start_in(directory, Path::new(OURS), &[&options, arguments].concat()).unwrap())
}

#[test]
fn replicas_of_replicas_get_all_and_outlive_who_is_between() {
    let (top, mut primary) = ours(&[]);
    write_something(&mut primary, 0);
    let (middle, mut replica) = ours(&[]);
    follow(&mut replica, top.address().port());
    ask(&mut primary, "SELECT 3");
    ask(&mut primary, "SET where three");
    assert_equal(&mut primary, &mut replica);
    let mut lowest = vec![ours(&[])];
    if has_peer() {
        lowest.push(peer(&[]));
    }
    for (_, client) in &mut lowest {
        follow(client, middle.address().port());
    }
    // No SELECT comes with it: they know from the full sync where it belongs.
    ask(&mut primary, "SET where still-three");
    ask(&mut primary, "SELECT 0");
    for round in 1..50 {
        write_something(&mut primary, round);
    }
    for (_, client) in &mut lowest {
        assert_equal(&mut primary, client);
        assert_eq!(field(client, "master_replid"), field(&mut primary, "master_replid"));
    }
    assert_eq!(field(&mut replica, "connected_slaves"), lowest.len().to_string());
    assert!(ask(&mut replica, "WAIT 1 1").starts_with("ERR WAIT cannot be used with replica instances."));
    // The middle one becomes a primary: the lowest continue from where they are.
    drop(top);
    assert_eq!(ask(&mut replica, "REPLICAOF NO ONE"), "OK");
    for round in 50..60 {
        write_something(&mut replica, round);
    }
    for (_, client) in &mut lowest {
        assert_equal(&mut replica, client);
    }
    assert_eq!(ask(&mut replica, "INFO stats").matches("sync_full:").count(), 1);
    assert!(ask(&mut replica, "INFO stats").contains(&format!("sync_full:{}\r", lowest.len())));
}

#[test]
fn a_restarted_replica_goes_on_where_its_file_ends() {
    let directory = tempfile::tempdir().unwrap();
    let (top, mut primary) = ours(&[]);
    let port = top.address().port().to_string();
    let arguments = ["--replicaof", "127.0.0.1", &port, "--io-threads", "1"];
    let (own, mut replica) = ours_in(directory.path(), &arguments);
    wait_until("the link", || field(&mut replica, "master_link_status") == "up");
    ask(&mut primary, "SELECT 5");
    write_something(&mut primary, 1);
    ask(&mut primary, "SELECT 5");
    ask(&mut primary, "SET due v PX 1");
    assert_equal(&mut primary, &mut replica);
    replica.send(&["SHUTDOWN", "SAVE"]).unwrap();
    assert!(own.wait().unwrap());
    ask(&mut primary, "SET after v");
    let (_own, mut replica) = ours_in(directory.path(), &arguments);
    wait_until("the link", || field(&mut replica, "master_link_status") == "up");
    assert_equal(&mut primary, &mut replica);
    ask(&mut replica, "SELECT 5");
    assert_eq!(ask(&mut replica, "GET after"), "v");
    let stats = ask(&mut primary, "INFO stats");
    assert!(stats.contains("sync_full:1\r") && stats.contains("sync_partial_ok:1\r"), "{stats}");
}

#[test]
fn a_restarted_primary_lets_its_replicas_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let (top, mut primary) = ours_in(directory.path(), &[]);
    let (_own, mut replica) = ours(&[]);
    write_something(&mut primary, 1);
    follow(&mut replica, top.address().port());
    ask(&mut primary, "DEBUG SET-ACTIVE-EXPIRE 0");
    ask(&mut primary, "SET due v PX 1");
    write_something(&mut primary, 2);
    assert_equal(&mut primary, &mut replica);
    let id = field(&mut primary, "master_replid");
    primary.send(&["SHUTDOWN", "SAVE"]).unwrap();
    assert!(top.wait().unwrap());
    let (top, mut primary) = ours_in(directory.path(), &[]);
    assert_eq!(field(&mut primary, "master_replid2"), id);
    follow(&mut replica, top.address().port());
    write_something(&mut primary, 3);
    assert_equal(&mut primary, &mut replica);
    // A key that has expired since is deleted there by the stream.
    wait_until("the deletion", || ask(&mut replica, "DBSIZE") == ask(&mut primary, "DBSIZE"));
    let stats = ask(&mut primary, "INFO stats");
    assert!(stats.contains("sync_full:0\r") && stats.contains("sync_partial_ok:1\r"), "{stats}");
}

#[test]
fn a_failover_changes_roles_and_loses_nothing() {
    let (top, mut primary) = ours(&[]);
    let (own, mut replica) = ours(&[]);
    let mut others = vec![ours(&[])];
    if has_peer() {
        others.push(peer(&[]));
    }
    write_something(&mut primary, 1);
    follow(&mut replica, top.address().port());
    for (_, client) in &mut others {
        follow(client, top.address().port());
    }
    let port = own.address().port();
    for (request, answer) in [
        ("FAILOVER ABORT".into(), "ERR No failover in progress."),
        ("FAILOVER TIMEOUT 0".into(), "ERR FAILOVER timeout must be greater than 0"),
        ("FAILOVER TO 127.0.0.1 1".into(), "ERR FAILOVER target HOST and PORT is not a replica."),
        ("FAILOVER FORCE FORCE".into(), "ERR syntax error"),
        (
            format!("FAILOVER TO 127.0.0.1 {port} FORCE"),
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
        ),
    ] {
        assert_eq!(ask(&mut primary, &request), answer, "{request}");
    }
    assert_eq!(ask(&mut replica, "FAILOVER"), "ERR FAILOVER is not valid when server is a replica.");
    // A client writes all the time: its answered writes are there afterwards.
    let address = top.address();
    let writer = std::thread::spawn(move || {
        let mut client = Client::connect(address).unwrap();
        let mut written = 0;
        loop {
            match client.command(&["INCR", "written"]) {
                Ok(Reply::Int(number)) => written = number,
                refused => return (written, refused.map(|reply| text(&reply)).unwrap_or_default()),
            }
        }
    });
    wait_until("some writes", || ask(&mut primary, "GET written") != "nil");
    assert_eq!(ask(&mut primary, &format!("FAILOVER TO 127.0.0.1 {port} TIMEOUT 60000")), "OK");
    wait_until("the failover", || field(&mut primary, "master_failover_state") == "no-failover");
    let (written, refusal) = writer.join().unwrap();
    assert_eq!(refusal, "READONLY You can't write against a read only replica.");
    assert!(ask(&mut primary, "ROLE").starts_with("slave"));
    assert!(ask(&mut replica, "ROLE").starts_with("master"));
    assert_eq!(ask(&mut replica, "GET written"), written.to_string());
    // The others are still replicas of the old primary, which passes on its input.
    write_something(&mut replica, 2);
    assert_equal(&mut replica, &mut primary);
    for (_, client) in &mut others {
        assert_equal(&mut replica, client);
        assert!(ask(client, "INFO stats").contains("sync_full:0"));
    }
    assert!(ask(&mut replica, "INFO stats").contains("sync_full:0\r"));
}

#[test]
fn a_failover_that_cannot_be_gives_writes_back() {
    let (top, mut primary) = ours(&[]);
    let (own, mut replica) = ours(&[]);
    assert_eq!(ask(&mut primary, "FAILOVER"), "ERR FAILOVER requires connected replicas.");
    follow(&mut replica, top.address().port());
    let stopped = Stopped::new(own.pid());
    ask(&mut primary, "SET k v");
    assert_eq!(ask(&mut primary, "FAILOVER TIMEOUT 100"), "OK");
    assert_eq!(ask(&mut primary, "SET k w"), "OK");
    assert_eq!(field(&mut primary, "master_failover_state"), "no-failover");
    assert!(top.logged("Replica never caught up before timeout", 1) > 0);
    assert_eq!(ask(&mut primary, "FAILOVER"), "OK");
    assert_eq!(ask(&mut primary, "FAILOVER"), "ERR FAILOVER already in progress.");
    let refusal = "ERR REPLICAOF not allowed while failing over.";
    assert_eq!(ask(&mut primary, "REPLICAOF 127.0.0.1 1"), refusal);
    assert_eq!(ask(&mut primary, "FAILOVER ABORT"), "OK");
    assert_eq!(ask(&mut primary, "SET k x"), "OK");
    drop(stopped);
    assert_equal(&mut primary, &mut replica);
}

#[test]
fn a_shutdown_waits_for_what_replicas_lack() {
    let (top, mut primary) = ours(&["--shutdown-timeout", "60"]);
    let (own, mut replica) = ours(&[]);
    follow(&mut replica, top.address().port());
    let stopped = Stopped::new(own.pid());
    ask(&mut primary, "SET k v");
    let mut ending = Client::connect(top.address()).unwrap();
    ending.send(&["SHUTDOWN"]).unwrap();
    wait_until("the wait", || ask(&mut primary, "INFO server").contains("shutdown_in_milliseconds:"));
    assert_eq!(ask(&mut primary, "SHUTDOWN ABORT"), "OK");
    assert_eq!(text(&ending.read_reply().unwrap()), "ERR Errors trying to SHUTDOWN. Check logs.");
    assert_eq!(ask(&mut primary, "SHUTDOWN ABORT"), "ERR No shutdown in progress.");
    assert_eq!(ask(&mut primary, "SET k w"), "OK");
    ending.send(&["SHUTDOWN"]).unwrap();
    wait_until("the wait", || ask(&mut primary, "INFO server").contains("shutdown_in_milliseconds:"));
    drop(stopped);
    let (status, log) = top.end().unwrap();
    assert!(status.success() && log.contains("1 of 1 replicas are in sync when shutting down."), "{log}");
    assert_eq!(ask(&mut replica, "GET k"), "w");
}

#[test]
fn libraries_of_functions_are_part_of_the_data() {
    const LIBRARY: &str = "#!lua name=NAME\nredis.register_function('NAME', function(keys) return redis.call('INCR', keys[1]) end)";
    let library = |name: &str| LIBRARY.replace("NAME", name);
    let load =
        |client: &mut Client, name| text(&client.command(&["FUNCTION", "LOAD", &library(name)]).unwrap());
    let list = |client: &mut Client| ask(client, "FUNCTION LIST WITHCODE");
    let mut pairs = vec![(ours(&[]), ours(&[]))];
    if has_peer() {
        pairs.push((ours(&[]), peer(&[])));
        pairs.push((peer(&[]), ours(&[])));
    }
    for ((server, mut primary), (_own, mut replica)) in pairs {
        assert_eq!(load(&mut replica, "gone"), "gone");
        assert_eq!((load(&mut primary, "one"), load(&mut primary, "two")), ("one".into(), "two".into()));
        follow(&mut replica, server.address().port());
        let sorted = |text: String| {
            let mut words: Vec<_> = text.split("library_name ").map(|of| of.trim().to_owned()).collect();
            words.sort();
            words
        };
        assert_eq!(sorted(list(&mut replica)), sorted(list(&mut primary)));
        assert_eq!(load(&mut primary, "three"), "three");
        assert_eq!(ask(&mut primary, "FUNCTION DELETE one"), "OK");
        assert_eq!(ask(&mut primary, "FCALL three 1 counter"), "1");
        assert_equal(&mut primary, &mut replica);
        let refusal = "READONLY You can't write against a read only replica.";
        assert_eq!(ask(&mut replica, "FCALL three 1 counter"), refusal);
        assert_eq!(sorted(list(&mut replica)), sorted(list(&mut primary)));
        assert!(!list(&mut replica).contains("gone"));
        assert_eq!(ask(&mut primary, "FUNCTION FLUSH"), "OK");
        assert_equal(&mut primary, &mut replica);
        assert_eq!(list(&mut replica), "");
    }
}

#[test]
fn who_can_be_redirected_is_told_the_primary() {
    let (primary, _) = ours(&[]);
    let (server, mut client) = ours(&[]);
    let mut queued = Client::connect(server.address()).unwrap();
    for client in [&mut client, &mut queued] {
        assert_eq!(ask(client, "CLIENT CAPA redirect"), "OK");
    }
    assert_eq!((ask(&mut queued, "MULTI"), ask(&mut queued, "SET key 1")), ("OK".into(), "QUEUED".into()));
    follow(&mut client, primary.address().port());
    let redirect = format!("REDIRECT {}", primary.address());
    assert_eq!(ask(&mut client, "SET key 1"), redirect);
    assert_eq!(ask(&mut client, "GET key"), redirect);
    assert_eq!(ask(&mut client, "READONLY"), "OK");
    assert_eq!(ask(&mut client, "GET key"), "nil");
    // Commands queued before are over.
    assert_eq!(ask(&mut queued, "EXEC"), redirect);
    assert_eq!(ask(&mut queued, "EXEC"), "ERR EXEC without MULTI");
    assert_eq!((ask(&mut queued, "MULTI"), ask(&mut queued, "SET key 1")), ("OK".into(), redirect));
    assert!(ask(&mut queued, "EXEC").starts_with("EXECABORT"));
}

/// What `redis.set_repl` says of the file and of replicas holds for each of them.
#[test]
fn a_script_says_who_gets_its_writes() {
    let (primary, mut client) = ours(&["--appendonly", "yes"]);
    let (_replica, mut copy) = ours(&[]);
    follow(&mut copy, primary.address().port());
    let body = "redis.call('SET', 'all1', 1) \
        redis.set_repl(redis.REPL_AOF) redis.call('SET', 'file', 1) redis.call('INCR', 'file') \
        redis.set_repl(redis.REPL_REPLICA) redis.call('SET', 'replica', 1) \
        redis.set_repl(redis.REPL_SLAVE) redis.call('SET', 'slave', 1) \
        redis.set_repl(redis.REPL_NONE) redis.call('SET', 'none', 1) \
        redis.set_repl(redis.REPL_ALL) redis.call('SELECT', 1) redis.call('SET', 'all2', 1)";
    let alone = "redis.set_repl(redis.REPL_NONE) return redis.call('SET', 'none2', 1)";
    for request in [vec!["EVAL", body, "0"], vec!["EVAL", alone, "0"], vec!["MULTI"], vec!["EVAL", body, "0"]]
    {
        client.command(&request).unwrap();
    }
    assert_eq!(ask(&mut client, "SET plain 1"), "QUEUED");
    client.command(&["EXEC"]).unwrap();
    wait_until("the replica has all that is for it", || {
        field(&mut client, "master_repl_offset") == field(&mut copy, "slave_repl_offset")
    });
    let holds = |client: &mut Client, db: usize| {
        ask(client, &format!("SELECT {db}"));
        let keys = ask(client, "KEYS *");
        let mut keys: Vec<String> = keys.split(' ').map(str::to_owned).collect();
        keys.sort();
        keys.join(" ")
    };
    assert_eq!(holds(&mut client, 0), "all1 file none none2 plain replica slave");
    assert_eq!(holds(&mut copy, 0), "all1 plain replica slave");
    assert_eq!(holds(&mut copy, 1), "all2");
    assert_eq!(ask(&mut client, "DEBUG LOADAOF"), "OK");
    assert_eq!(holds(&mut client, 0), "all1 file plain");
    assert_eq!(holds(&mut client, 1), "all2");
    ask(&mut client, "SELECT 0");
    assert_eq!(ask(&mut client, "GET file"), "2");
}
