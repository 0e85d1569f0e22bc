//! A full sync over two connections (`repl-rdb-channel`): one has the data set, the other the stream.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use martlet_testkit::server::Server;

use super::channels_replica::{peers, start};
use super::replica::{ask, assert_equal, field, ours, write_something};
use super::{PATIENCE, info, run, start_ours, text, wait_until};

/// A primary whose data set exceeds the buffers on the way to a replica that reads nothing.
fn primary() -> Server {
    let primary = start_ours(&["--repl-rdb-channel", "yes", "--rdbcompression", "no", "--save", ""]);
    assert_eq!(text(&run(&primary, "DEBUG POPULATE 40 key 1000000")), "OK");
    primary
}

/// A connection that says `lines`, and the answer to the last.
fn connect(server: &Server, lines: &[&str]) -> (BufReader<TcpStream>, String) {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream);
    let mut answer = String::new();
    for line in lines {
        answer = say(&mut reader, line);
    }
    (reader, answer)
}

/// The answer to a line; empty ones before it do not count.
fn say(connection: &mut BufReader<TcpStream>, line: &str) -> String {
    connection.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    while answer.trim().is_empty() {
        answer.clear();
        assert_ne!(connection.read_line(&mut answer).unwrap(), 0);
    }
    answer.trim().to_owned()
}

/// A replica's two connections, once its data set is on the way; the line that announces that.
fn begin(primary: &Server) -> (BufReader<TcpStream>, BufReader<TcpStream>, String) {
    let (main, answer) =
        connect(primary, &["REPLCONF capa eof capa psync2 capa rdb-channel-repl", "PSYNC ? -1"]);
    let id = answer.strip_prefix("+RDBCHANNELSYNC ").unwrap();
    let names = format!("REPLCONF capa eof rdb-only 1 rdb-channel 1 main-ch-client-id {id}");
    let (channel, answer) = connect(primary, &[&names, "PSYNC ? -1"]);
    assert!(answer.starts_with("+FULLRESYNC "), "{answer}");
    wait_until("the data set is on its way", || state(primary).contains("state=send_bulk_and_stream"));
    (main, channel, answer)
}

fn state(primary: &Server) -> String {
    info(primary, "slave0")
}

/// The stream up to `SET during 1`.
fn read_stream(main: &mut BufReader<TcpStream>) -> Vec<u8> {
    let mut stream = Vec::new();
    while !stream.ends_with(b"during\r\n$1\r\n1\r\n") {
        let mut byte = [0];
        main.read_exact(&mut byte).unwrap();
        stream.extend(byte);
    }
    stream
}

/// The data set ends with its mark, and its connection with it.
fn read_data_set(channel: &mut BufReader<TcpStream>) {
    let mut line = String::new();
    while !line.starts_with("$EOF:") {
        line.clear();
        assert_ne!(channel.read_line(&mut line).unwrap(), 0);
    }
    let mut snapshot = Vec::new();
    channel.read_to_end(&mut snapshot).unwrap();
    assert!(snapshot.starts_with(b"REDIS") && snapshot.ends_with(&line.trim().as_bytes()[5..]));
    assert!(!snapshot.windows(6).any(|bytes| bytes == b"during"));
}

#[test]
fn the_stream_comes_while_the_data_set_does() {
    let primary = primary();
    let (mut main, mut channel, answer) = begin(&primary);
    assert_eq!(info(&primary, "connected_slaves"), "1");
    assert!(text(&run(&primary, "CLIENT LIST")).contains(" flags=SC "));
    run(&primary, "SET during 1");
    let stream = read_stream(&mut main);
    // Nothing of the stream before the announced offset, and everything from there on.
    assert!(stream.starts_with(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"), "{}", stream.escape_ascii());
    assert!(answer.ends_with(" 0"), "{answer}");
    assert!(state(&primary).contains("state=send_bulk_and_stream"));
    read_data_set(&mut channel);
    wait_until("the replica follows", || state(&primary).contains("state=online"));
    assert_eq!((info(&primary, "connected_slaves"), info(&primary, "sync_full")), ("1".into(), "1".into()));
    drop(main);
    wait_until("it is gone", || info(&primary, "connected_slaves") == "0");
}

/// Drops one connection: the other ends, too, before the data set is whole.
fn end_with(primary: &Server, dropped: BufReader<TcpStream>, mut left: BufReader<TcpStream>) {
    drop(dropped);
    let mut rest = Vec::new();
    // It may also end with a reset.
    let _ = left.read_to_end(&mut rest);
    assert!(rest.len() < 40_000_000, "the data set is not whole");
    wait_until("both are gone", || !text(&run(primary, "CLIENT LIST")).contains(" flags=S"));
}

#[test]
fn one_connection_does_not_outlive_the_other() {
    let primary = primary();
    for drops_main in [true, false] {
        let (main, channel, _) = begin(&primary);
        if drops_main { end_with(&primary, main, channel) } else { end_with(&primary, channel, main) }
    }
}

#[test]
fn a_connection_for_nobodys_data_set_is_refused() {
    let primary = start_ours(&["--repl-rdb-channel", "yes"]);
    let (_, answer) = connect(&primary, &["REPLCONF rdb-channel 1 main-ch-client-id 99999"]);
    assert_eq!(answer, "-ERR Unrecognized RDB client id: 99999");
    run(&primary, "CONFIG SET repl-rdb-channel no");
    let (_, answer) = connect(&primary, &["REPLCONF capa eof capa rdb-channel-repl", "PSYNC ? -1"]);
    assert!(answer.starts_with("+FULLRESYNC "), "{answer}");
}

/// A replica's two connections in Valkey's dialect, once its data set has begun to come; the first also asks
/// for the stream by the given words.
fn begin_in_valkeys_dialect(primary: &Server) -> (BufReader<TcpStream>, BufReader<TcpStream>, [String; 2]) {
    let (main, answer) = connect(primary, &["REPLCONF capa eof capa psync2 capa dual-channel", "PSYNC ? -1"]);
    assert_eq!(answer, "+DUALCHANNELSYNC");
    let introduction = "REPLCONF capa eof rdb-only 1 rdb-channel 1 listening-port 7";
    let (channel, answer) = connect(primary, &[introduction, "SYNC"]);
    let words: Vec<&str> = answer.strip_prefix("$ENDOFF:").unwrap().split(' ').collect();
    let [offset, id, "0", client] = words[..] else { panic!("{answer}") };
    assert_eq!(id, info(primary, "master_replid"));
    let next = offset.parse::<u64>().unwrap() + 1;
    (main, channel, [format!("REPLCONF set-rdb-client-id {client}"), format!("PSYNC {id} {next}")])
}

#[test]
fn in_valkeys_dialect_the_stream_is_asked_for() {
    for asks_late in [false, true] {
        let primary = primary();
        let (mut main, mut channel, [name, psync]) = begin_in_valkeys_dialect(&primary);
        assert_eq!(info(&primary, "replicas_waiting_psync"), "1");
        run(&primary, "SET during 1");
        if asks_late {
            read_data_set(&mut channel);
            // More than the backlog has: it is kept for a replica that has not asked yet.
            run(&primary, "CONFIG SET repl-backlog-size 16kb");
            assert_eq!(text(&run(&primary, "DEBUG POPULATE 1 last 100000")), "OK");
            run(&primary, &format!("SET x {}", "x".repeat(100_000)));
        }
        assert_eq!(say(&mut main, &name), "+OK");
        assert!(say(&mut main, &psync).starts_with("+CONTINUE "), "{}", primary.log());
        assert_eq!(info(&primary, "replicas_waiting_psync"), "0");
        let stream = read_stream(&mut main);
        assert!(stream.starts_with(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"), "{}", stream.escape_ascii());
        if !asks_late {
            assert_eq!(info(&primary, "connected_slaves"), "1");
            assert!(state(&primary).contains("state=send_bulk_and_stream"));
            read_data_set(&mut channel);
        }
        assert!(state(&primary).contains("state=send_bulk_and_stream"), "{}", state(&primary));
        main.get_mut().write_all(b"REPLCONF ACK 1\r\n").unwrap();
        wait_until("the replica follows", || state(&primary).contains("state=online"));
        assert_eq!(
            (info(&primary, "connected_slaves"), info(&primary, "sync_full")),
            ("1".into(), "1".into())
        );
        drop(main);
        wait_until("it is gone", || info(&primary, "connected_slaves") == "0");
    }
}

#[test]
fn in_valkeys_dialect_one_connection_does_not_outlive_the_other() {
    let primary = primary();
    for drops_main in [true, false] {
        let (mut main, channel, [name, psync]) = begin_in_valkeys_dialect(&primary);
        assert_eq!(say(&mut main, &name), "+OK");
        assert!(say(&mut main, &psync).starts_with("+CONTINUE "));
        if drops_main { end_with(&primary, main, channel) } else { end_with(&primary, channel, main) }
    }
    // One that has not asked yet may do so no more.
    let (mut main, channel, [name, _]) = begin_in_valkeys_dialect(&primary);
    drop(channel);
    wait_until("it is kept no more", || info(&primary, "replicas_waiting_psync") == "0");
    let client = name.rsplit(' ').next().unwrap();
    assert_eq!(say(&mut main, &name), format!("-ERR Unrecognized RDB client id {client}"));
    run(&primary, "CONFIG SET repl-rdb-channel no");
    let (_, answer) = connect(&primary, &["REPLCONF capa eof capa dual-channel", "PSYNC ? -1"]);
    assert!(answer.starts_with("+FULLRESYNC "), "{answer}");
}

/// The save of a full sync that no replica is left to take ends, however long it would run.
#[test]
fn a_save_that_is_for_nobody_any_more_ends() {
    let primary = start_ours(&["--rdb-key-save-delay", "100000"]);
    assert_eq!(text(&run(&primary, "DEBUG POPULATE 10000 key 10")), "OK");
    let ask = ["REPLCONF capa eof", "PSYNC ? -1"];
    let (first, answer) = connect(&primary, &ask);
    assert!(answer.starts_with("+FULLRESYNC "), "{answer}");
    let dropped = "Diskless rdb transfer, last replica dropped, killing fork child.";
    assert!(!primary.log().contains(dropped));
    drop(first);
    wait_until("the end of the save", || primary.log().contains(dropped));
    // The next one gets its own.
    run(&primary, "CONFIG SET rdb-key-save-delay 0");
    let (mut second, answer) = connect(&primary, &["REPLCONF capa eof rdb-only 1", "PSYNC ? -1"]);
    assert!(answer.starts_with("+FULLRESYNC "), "{answer}");
    read_data_set(&mut second);
}

#[test]
fn real_replicas_take_it_by_two_connections() {
    for (path, parameter) in peers() {
        for load in ["disabled", "swapdb"] {
            let (server, mut primary) = ours(&["--repl-rdb-channel", "yes"]);
            for round in 0..40 {
                write_something(&mut primary, round);
            }
            ask(&mut primary, "DEBUG POPULATE 2000 key 1000");
            ask(&mut primary, "CONFIG SET rdb-key-save-delay 50000 rdbcompression no");
            let (own, mut replica) = start(&path, parameter, &["--repl-diskless-load", load]);
            ask(&mut replica, &format!("REPLICAOF 127.0.0.1 {}", server.address().port()));
            wait_until("the sync", || state(&server).contains("state=send_bulk_and_stream"));
            for round in 50..60 {
                write_something(&mut primary, round);
            }
            ask(&mut primary, "CONFIG SET rdb-key-save-delay 0");
            assert_equal(&mut primary, &mut replica);
            wait_until("the replica follows", || state(&server).contains("state=online"));
            assert_eq!(info(&server, "sync_full"), "1", "{}", own.log());
            write_something(&mut primary, 70);
            assert_equal(&mut primary, &mut replica);
            // A broken link continues where it was.
            ask(&mut primary, "CLIENT KILL TYPE replica");
            write_something(&mut primary, 71);
            assert_equal(&mut primary, &mut replica);
            assert_eq!(info(&server, "sync_full"), "1", "{}", own.log());
            assert_eq!(field(&mut replica, "master_link_status"), "up");
        }
    }
}
