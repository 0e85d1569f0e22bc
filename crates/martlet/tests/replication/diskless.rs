//! `repl-diskless-load`: a snapshot that is loaded as it comes. A complete one takes the data set's place at
//! once, an incomplete one changes nothing with `swapdb`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering;

use martlet_client::blocking::Client;
use martlet_testkit::server::Server;

use super::replica::{Proxy, ask, assert_equal, field, follow, ours, peer, with_client, write_something};
use super::{Stopped, has_peer, info, start_ours, wait_until};

pub const FOREIGN: &str = "0123456789abcdef0123456789abcdef01234567";
/// A primary's answers up to PSYNC.
const HANDSHAKE: &[u8] = b"+PONG\r\n+OK\r\n+OK\r\n+OK\r\n";

/// Starts a primary with these options.
type Start = fn(&[&str]) -> (Server, Client);

/// Both kinds of primaries, if they are there.
fn starts() -> &'static [Start] {
    if has_peer() { &[peer, ours] } else { &[ours] }
}

/// Large values of one and small values of every type.
fn fill(primary: &mut Client) {
    for round in 0..40 {
        write_something(primary, round);
    }
    ask(primary, "SETRANGE large 3000000 end");
    ask(primary, "DEBUG POPULATE 5000 key 100");
}

/// Each way to load from each way to send, from both kinds of primaries.
#[test]
fn what_comes_over_the_network_is_the_primarys_data_set() {
    let starts = starts();
    for start in starts {
        for diskless in ["yes", "no"] {
            let (server, mut primary) = start(&["--repl-diskless-sync", diskless]);
            fill(&mut primary);
            let library = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
            primary.command(&["FUNCTION", "LOAD", library]).unwrap();
            for load in ["on-empty-db", "flush-before-load", "swapdb"] {
                let (own, mut replica) = ours(&["--repl-diskless-load", load, "--appendonly", "yes"]);
                if load != "on-empty-db" {
                    ask(&mut replica, "SET gone 1");
                    ask(&mut replica, "PEXPIRE gone 10000000");
                }
                follow(&mut replica, server.address().port());
                assert!(own.logged(" to parser", 1) > 0, "{load}\n{}", own.log());
                assert_eq!(ask(&mut replica, "EXISTS gone"), "0");
                write_something(&mut primary, 50);
                assert_equal(&mut primary, &mut replica);
                assert!(info(&own, "async_loading") == "0" && info(&own, "loading") == "0");
                assert_eq!(ask(&mut replica, "FUNCTION LIST").matches("library_name l").count(), 1);
                // The append-only file restarts with the loaded data.
                wait_until("a rewrite", || info(&own, "aof_rewrite_in_progress") == "0");
                let digest = ask(&mut replica, "DEBUG DIGEST");
                assert_eq!(ask(&mut replica, "DEBUG LOADAOF"), "OK", "{}", own.log());
                assert_eq!(ask(&mut replica, "DEBUG DIGEST"), digest);
            }
        }
    }
}

#[test]
fn a_data_set_that_is_there_is_replaced_from_a_file_where_only_an_empty_one_may_be_otherwise() {
    let (server, mut primary) = ours(&[]);
    fill(&mut primary);
    let (own, mut replica) = ours(&["--repl-diskless-load", "on-empty-db"]);
    ask(&mut replica, "SET gone 1");
    follow(&mut replica, server.address().port());
    assert_equal(&mut primary, &mut replica);
    assert!(own.logged(" to disk", 1) > 0, "{}", own.log());
}

/// The link ends at many places of the snapshot: the old data is served before, during and afterwards, until
/// all is there.
#[test]
fn a_cut_anywhere_in_a_snapshot_leaves_the_old_data() {
    let starts = starts();
    for (start, diskless) in starts.iter().flat_map(|start| [(start, "yes"), (start, "no")]) {
        let options = ["--repl-diskless-sync", diskless, "--rdbcompression", "no"];
        let (server, mut primary) = start(&options);
        fill(&mut primary);
        let proxy = Proxy::start(server.address());
        let (own, mut replica) = ours(&["--repl-diskless-load", "swapdb"]);
        ask(&mut replica, "SET old 1");
        let digest = ask(&mut replica, "DEBUG DIGEST");
        // The first is within the handshake; the snapshot has some megabytes.
        let mut random: u64 = 7;
        for round in 0..8 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = if round == 0 { 100 } else { 200 + (random >> 33) % 3_000_000 };
            proxy.left.store(at as i64, Ordering::SeqCst);
            ask(&mut replica, &format!("REPLICAOF 127.0.0.1 {}", proxy.port));
            wait_until("the end of the cut link", || proxy.left.load(Ordering::SeqCst) < 0);
            // It would be asked for again, and then come whole.
            wait_until("the end of loading", || ask(&mut replica, "REPLICAOF NO ONE") == "OK");
            assert_eq!(ask(&mut replica, "DEBUG DIGEST"), digest, "cut at {at}\n{}", own.log());
        }
        follow(&mut replica, proxy.port);
        assert_equal(&mut primary, &mut replica);
        assert_eq!(ask(&mut replica, "EXISTS old"), "0");
    }
}

/// A primary that answers the handshake and then sends the given bytes.
pub fn false_primary(replica: &mut Client, said: &[u8]) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    assert_eq!(ask(replica, &format!("REPLICAOF 127.0.0.1 {port}")), "OK");
    let (mut socket, _) = listener.accept().unwrap();
    socket.write_all(HANDSHAKE).unwrap();
    socket.write_all(said).unwrap();
    socket
}

#[test]
fn what_is_no_snapshot_leaves_the_old_data() {
    let (own, mut replica) = ours(&["--repl-diskless-load", "swapdb"]);
    ask(&mut replica, "SET mine 1");
    let full = format!("+FULLRESYNC {FOREIGN} 1\r\n").into_bytes();
    let mark = b"aabbccddeeffaabbccddeeffaabbccddeeffaabb".as_slice();
    let start = [full.as_slice(), b"$EOF:", mark, b"\r\n"].concat();
    let empty = b"REDIS0010\xff\0\0\0\0\0\0\0\0".as_slice();
    let library = b"\xf5\x03bad".as_slice();
    let claims = b"REDIS0010\xfe\x00\xfb\x81\x00\x00\x00\xff\xff\xff\xff\xff\x00\x00\x01k\x81\x00\x00\x00\xff\xff\xff\xff\xff".as_slice();
    for (what, said) in [
        ("no snapshot", [&start, b"REDISxxxx".as_slice()].concat()),
        ("a sized one that is none", [&full, b"$9\r\nREDISxxxx".as_slice()].concat()),
        ("its mark too early", [&start, b"REDIS0010\xfe\x00".as_slice(), mark].concat()),
        ("something between its end and the mark", [&start, empty, b"more", mark].concat()),
        ("something behind its end", [&full, b"$22\r\n".as_slice(), empty, b"more"].concat()),
        ("a false checksum", [&start, &empty[..17], b"\x01", mark].concat()),
        ("a library that is none", [&start, &empty[..9], library, &empty[9..], mark].concat()),
        ("more than there can be", [&start, claims, mark].concat()),
    ] {
        let failures = |own: &Server| own.log().matches("MASTER synchronization DB from socket").count();
        let before = failures(&own);
        let mut socket = false_primary(&mut replica, &said);
        wait_until(what, || failures(&own) > before);
        assert_eq!(ask(&mut replica, "GET mine"), "1", "{what}");
        assert_eq!(ask(&mut replica, "DBSIZE"), "1", "{what}");
        // It is not held on to.
        let _ = socket.read_to_end(&mut Vec::new());
    }
    // A valid one is taken, once the mark has come.
    let mut socket = false_primary(&mut replica, &[&start, empty].concat());
    wait_until("loading", || info(&own, "loading") == "1");
    assert_eq!(field(&mut replica, "master_link_status"), "down");
    socket.write_all(mark).unwrap();
    wait_until("the link", || field(&mut replica, "master_link_status") == "up");
    assert_eq!(ask(&mut replica, "DBSIZE"), "0");
}

/// A snapshot of another stream hides the old data while it comes; one of the same stream does not.
#[test]
fn an_older_state_of_the_same_data_is_served_meanwhile() {
    let (server, mut primary) = ours(&["--repl-backlog-size", "16kb", "--rdbcompression", "no"]);
    let library = "#!lua name=l\nredis.register_function{function_name='f',callback=function() return 1 end,flags={'no-writes'}}";
    primary.command(&["FUNCTION", "LOAD", library]).unwrap();
    ask(&mut primary, "SET k old");
    let (own, mut replica) = ours(&["--repl-diskless-load", "swapdb"]);
    follow(&mut replica, server.address().port());
    assert_equal(&mut primary, &mut replica);
    let mut watcher = Client::connect(own.address()).unwrap();
    ask(&mut watcher, "WATCH k");
    // The replica's connection is cut, and the backlog lacks its next bytes.
    ask(&mut primary, "CONFIG SET repl-diskless-sync-delay 1000 rdb-key-save-delay 500");
    // It does not come back before.
    let stopped = Stopped::new(own.pid());
    ask(&mut primary, "CLIENT KILL TYPE replica");
    ask(&mut primary, "DEBUG POPULATE 4000 filler 5000");
    ask(&mut primary, "SET k new");
    ask(&mut primary, "FUNCTION FLUSH");
    primary.command(&["SET", "large", &"x".repeat(100_000)]).unwrap();
    ask(&mut primary, "DEL large");
    ask(&mut primary, "CONFIG SET repl-diskless-sync-delay 0");
    drop(stopped);
    wait_until("loading", || info(&own, "async_loading") == "1");
    assert_eq!(info(&own, "loading"), "0");
    assert_eq!(ask(&mut replica, "GET k"), "old");
    assert_eq!(ask(&mut replica, "FCALL f 0"), "1");
    assert_eq!(ask(&mut replica, "DBSIZE"), "1");
    for refused in ["BGSAVE", "REPLICAOF NO ONE", "PSYNC ? -1"] {
        assert!(ask(&mut replica, refused).starts_with("LOADING"), "{refused}");
    }
    ask(&mut replica, "CONFIG SET replica-serve-stale-data no");
    assert!(ask(&mut replica, "GET k").starts_with("MASTERDOWN"));
    ask(&mut replica, "CONFIG SET replica-serve-stale-data yes");
    assert!(ask(&mut replica, "CONFIG SET repl-diskless-load disabled").contains("load"));
    ask(&mut primary, "CONFIG SET rdb-key-save-delay 0");
    wait_until("the link", || field(&mut replica, "master_link_status") == "up");
    assert_equal(&mut primary, &mut replica);
    assert_eq!(ask(&mut replica, "GET k"), "new");
    assert!(ask(&mut replica, "FCALL f 0").contains("Function not found"));
    ask(&mut watcher, "MULTI");
    ask(&mut watcher, "GET k");
    assert_eq!(ask(&mut watcher, "EXEC"), "nil");
    // Another stream's: no client is served, and the old data is there again when it breaks off.
    let (other, mut stranger) =
        with_client(start_ours(&["--rdb-key-save-delay", "1000", "--rdbcompression", "no"]));
    ask(&mut stranger, "DEBUG POPULATE 5000 other 5000");
    ask(&mut replica, &format!("REPLICAOF 127.0.0.1 {}", other.address().port()));
    wait_until("loading", || info(&own, "loading") == "1");
    assert!(ask(&mut replica, "GET k").starts_with("LOADING"));
    ask(&mut stranger, "CLIENT KILL TYPE replica");
    wait_until("the end of loading", || info(&own, "loading") == "0");
    assert_eq!(ask(&mut replica, "GET k"), "new");
}
