//! Our server as the primary of real replicas.

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;

use super::{
    Stopped, assert_equal, fill, follow, has_peer, info, run, start_ours, start_peer, text, wait_for_link,
    wait_until,
};

/// The ways to a full sync.
const WAYS: &[&[&str]] = &[
    &["--io-threads", "1"],
    &["--io-threads", "2", "--repl-diskless-sync", "no"],
    &["--io-threads", "2", "--appendonly", "yes", "--io-backend", "epoll"],
];

#[test]
fn a_replica_gets_all_that_there_is_and_all_that_comes() {
    if !has_peer() {
        return;
    }
    for way in WAYS {
        let primary = start_ours(way);
        (0..20).for_each(|round| fill(&primary, round));
        // Longer than any block on the way.
        let long = "x".repeat(5_000_000);
        Client::connect(primary.address()).unwrap().command(&["SET", "long", &long]).unwrap();
        let replicas = [start_peer(&[]), start_peer(&[])];
        replicas.iter().for_each(|replica| follow(replica, primary.address()));
        (20..40).for_each(|round| fill(&primary, round));
        replicas.iter().for_each(wait_for_link);
        (40..60).for_each(|round| fill(&primary, round));
        Client::connect(primary.address()).unwrap().command(&["SET", "longer", &long]).unwrap();
        replicas.iter().for_each(|replica| assert_equal(&primary, replica));
        assert_eq!(info(&primary, "connected_slaves"), "2");
        assert!(info(&primary, "slave0").contains(",state=online,"), "{}", info(&primary, "slave0"));
        assert_eq!(text(&run(&primary, "FLUSHALL")), "OK");
        fill(&primary, 1);
        replicas.iter().for_each(|replica| assert_equal(&primary, replica));
    }
}

#[test]
fn a_replica_that_comes_back_goes_on_where_it_was() {
    if !has_peer() {
        return;
    }
    let primary = start_ours(&["--repl-backlog-size", "1mb"]);
    let replica = start_peer(&[]);
    follow(&replica, primary.address());
    wait_for_link(&replica);
    for round in 0..5 {
        assert_eq!(run(&replica, "CLIENT KILL TYPE master"), Reply::Int(1));
        fill(&primary, round);
        wait_for_link(&replica);
        assert_equal(&primary, &replica);
    }
    assert_eq!((info(&primary, "sync_full"), info(&primary, "sync_partial_ok")), ("1".into(), "5".into()));
    // Its missing bytes are not in the backlog any more.
    let long = "x".repeat(3 << 20);
    run(&replica, "REPLICAOF NO ONE");
    wait_until("the primary has no replica", || info(&primary, "connected_slaves") == "0");
    Client::connect(primary.address()).unwrap().command(&["SET", "long", &long]).unwrap();
    follow(&replica, primary.address());
    wait_for_link(&replica);
    assert_equal(&primary, &replica);
    assert_eq!(info(&primary, "sync_full"), "2");
    // After each time as a primary, it has asked with its own id.
    assert_eq!(info(&primary, "sync_partial_err"), "2");
}

#[test]
fn wait_counts_the_replicas_that_have_a_write() {
    if !has_peer() {
        return;
    }
    let primary = start_ours(&["--io-threads", "2"]);
    let mut client = Client::connect(primary.address()).unwrap();
    let mut ask = |line: &str| client.command(&line.split(' ').collect::<Vec<_>>()).unwrap();
    assert_eq!(ask("WAIT 0 0"), Reply::Int(0));
    assert_eq!(ask("WAIT 1 1"), Reply::Int(0), "its time is up");
    assert_eq!(ask("WAIT x 0"), Reply::Error("ERR value is not an integer or out of range".into()));
    assert_eq!(ask("WAIT 1 -1"), Reply::Error("ERR timeout is negative".into()));
    let (fast, stuck) = (start_peer(&["--appendonly", "yes"]), start_peer(&[]));
    [&fast, &stuck].iter().for_each(|replica| follow(replica, primary.address()));
    [&fast, &stuck].iter().for_each(|replica| wait_for_link(replica));
    ask("SET k 1");
    assert_eq!(ask("WAIT 2 0"), Reply::Int(2));
    let stopped = Stopped::new(stuck.pid());
    ask("SET k 2");
    assert_eq!(ask("WAIT 1 0"), Reply::Int(1));
    assert_eq!(ask("WAIT 2 10"), Reply::Int(1));
    // In a transaction nothing waits.
    ask("MULTI");
    ask("WAIT 2 0");
    assert_eq!(ask("EXEC"), Reply::Array(vec![Reply::Int(1)]));
    let waiting = std::thread::spawn({
        let address = primary.address();
        move || {
            let mut client = Client::connect(address).unwrap();
            client.command(&["SET", "k", "3"]).unwrap();
            client.command(&["WAIT", "2", "0"]).unwrap()
        }
    });
    wait_until("it waits", || info(&primary, "blocked_clients") == "1");
    drop(stopped);
    assert_eq!(waiting.join().unwrap(), Reply::Int(2));
}

#[test]
fn writes_are_refused_while_too_few_replicas_follow() {
    if !has_peer() {
        return;
    }
    let primary = start_ours(&["--min-replicas-to-write", "1"]);
    let refusal = Reply::Error("NOREPLICAS Not enough good replicas to write.".into());
    assert_eq!(run(&primary, "SET k 1"), refusal);
    assert_eq!(text(&run(&primary, "GET k")), "nil");
    let in_script = text(&run(&primary, "EVAL return(redis.call('SET',KEYS[1],'1')) 1 k"));
    assert!(in_script.starts_with("NOREPLICAS Not enough good replicas to write."), "{in_script}");
    let replica = start_peer(&[]);
    follow(&replica, primary.address());
    wait_until("writes are accepted", || text(&run(&primary, "SET k 1")) == "OK");
    assert_eq!(info(&primary, "min_slaves_good_slaves"), "1");
    run(&replica, "REPLICAOF NO ONE");
    wait_until("writes are refused", || run(&primary, "SET k 1") == refusal);
    assert_eq!(text(&run(&primary, "CONFIG SET min-replicas-to-write 0")), "OK");
    assert_eq!(text(&run(&primary, "SET k 1")), "OK");
}

#[test]
fn messages_reach_the_subscribers_of_replicas() {
    if !has_peer() {
        return;
    }
    let (primary, replica) = (start_ours(&[]), start_peer(&[]));
    follow(&replica, primary.address());
    wait_for_link(&replica);
    let mut subscriber = Client::connect(replica.address()).unwrap();
    subscriber.command(&["SUBSCRIBE", "news"]).unwrap();
    run(&primary, "PUBLISH news hello");
    let expected = ["message", "news", "hello"].map(|word| Reply::Bulk(word.as_bytes().to_vec()));
    assert_eq!(subscriber.read_reply().unwrap(), Reply::Array(expected.to_vec()));
}

/// A replica that lies about itself, or asks for unknown data, ends nothing but its own connection.
#[test]
fn a_false_replica_harms_nobody() {
    let primary = start_ours(&["--io-threads", "2"]);
    fill(&primary, 0);
    for line in ["REPLCONF capa", "REPLCONF nonsense 1", "REPLCONF listening-port x", "PSYNC ? x"] {
        assert!(run(&primary, line).is_error(), "{line}");
    }
    // An ACK has no answer, and is ignored from a client that is not a replica.
    let mut client = Client::connect(primary.address()).unwrap();
    client.send(&["REPLCONF", "ACK", "99999999"]).unwrap();
    assert_eq!(text(&client.command(&["PING"]).unwrap()), "PONG");
    let asked = format!("PSYNC {} 5", "a".repeat(40));
    for line in ["SYNC", "PSYNC ? -1", &asked, "PSYNC 0 -9223372036854775808"] {
        let mut client = Client::connect(primary.address()).unwrap();
        assert_eq!(text(&client.command(&["REPLCONF", "capa", "eof", "capa", "psync2"]).unwrap()), "OK");
        client.send(&line.split(' ').collect::<Vec<_>>()).unwrap();
        let begin: &[u8] = if line == "SYNC" { b"$EOF:" } else { b"+FULLRESYNC " };
        let mut reply = client.read_raw(begin.len()).unwrap();
        while reply.starts_with(b"\n") {
            reply.remove(0);
            reply.extend(client.read_raw(1).unwrap());
        }
        assert_eq!(reply, begin, "{line}");
        if line == "PSYNC ? -1" {
            // The stream has no place for a reply.
            client.send_raw(b"XINFO HELP\r\n").unwrap();
            let sent = client.read_to_end().unwrap();
            assert!(!sent.windows(5).any(|bytes| bytes == b"XINFO"));
            let said = "Replica generated a reply to command 'xinfo|help', disconnecting it: ";
            wait_until("its end", || primary.log().contains(said));
            continue;
        }
        // It sends garbage, and goes in the middle of its data set.
        client.send_raw(b"*1\r\n$3\r\nGET\r\nREPLCONF ACK\r\n\x00\xff\r\n*-5\r\n").unwrap();
        drop(client);
    }
    wait_until("they are gone", || info(&primary, "connected_slaves") == "0");
    fill(&primary, 1);
}

#[test]
fn a_replica_that_asks_for_data_ends_with_a_line_about_the_error() {
    let primary = start_ours(&[]);
    let mut client = ask_for_all(&primary);
    assert!(text(&client.read_reply().unwrap()).starts_with("FULLRESYNC "));
    client.send(&["GET", "key"]).unwrap();
    assert!(!client.read_to_end().unwrap().windows(7).any(|bytes| bytes == b"Replica"));
    let error = "ERR Replica can't interact with the keyspace";
    let said = format!(
        "This master is sending an error to its replica: '{error}' after processing the command 'get'"
    );
    wait_until("a line", || primary.log().contains(&said));
    wait_until("a count", || info(&primary, "unexpected_error_replies") == "1");
}

/// A connection that has sent PSYNC, and the first answer to it.
fn ask_for_all(primary: &Server) -> Client {
    let mut client = Client::connect(primary.address()).unwrap();
    assert_eq!(text(&client.command(&["REPLCONF", "capa", "eof", "capa", "psync2"]).unwrap()), "OK");
    client.send(&["PSYNC", "?", "-1"]).unwrap();
    client
}

#[test]
fn a_replica_whose_file_cannot_be_written_is_told_by_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let gone = directory.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let primary = start_ours(&["--repl-diskless-sync", "no", "--enable-protected-configs", "yes"]);
    assert_eq!(text(&run(&primary, &format!("CONFIG SET dir {}", gone.display()))), "OK");
    std::fs::remove_dir(&gone).unwrap();
    let mut client = ask_for_all(&primary);
    let end = client.read_to_end().unwrap();
    assert!(end.iter().all(|byte| *byte == b'\n'), "{end:?}");
    // The next one finds everything in order.
    assert_eq!(text(&run(&primary, &format!("CONFIG SET dir {}", directory.path().display()))), "OK");
    let begin = ask_for_all(&primary).read_reply().unwrap();
    assert!(text(&begin).starts_with("FULLRESYNC "), "{begin:?}");
}

#[test]
fn a_save_that_takes_longer_than_the_timeout_loses_no_replica() {
    if !has_peer() {
        return;
    }
    let slow = [
        "--io-threads",
        "1",
        "--repl-diskless-sync",
        "no",
        "--repl-timeout",
        "2",
        "--rdb-key-save-delay",
        "1000",
    ];
    let primary = start_ours(&slow);
    let mut client = Client::connect(primary.address()).unwrap();
    assert_eq!(text(&client.command(&["DEBUG", "POPULATE", "6000"]).unwrap()), "OK");
    let replica = start_peer(&["--repl-ping-replica-period", "1"]);
    follow(&replica, primary.address());
    wait_for_link(&replica);
    assert_eq!(info(&primary, "sync_full"), "1");
    assert_equal(&primary, &replica);
}

#[test]
fn an_empty_line_is_a_sign_of_life() {
    let primary = start_ours(&["--repl-timeout", "3"]);
    let mut connections = [ask_for_all(&primary), ask_for_all(&primary)];
    for client in &mut connections {
        assert!(text(&client.read_reply().unwrap()).starts_with("FULLRESYNC "));
    }
    let [mut loading, mut silent] = connections;
    let ended = std::thread::spawn(move || silent.read_to_end().map(|_| ()));
    wait_until("the silent one is ended", || {
        loading.send_raw(b"\n").unwrap();
        ended.is_finished()
    });
    ended.join().unwrap().unwrap();
    assert_eq!(info(&primary, "connected_slaves"), "1");
}
