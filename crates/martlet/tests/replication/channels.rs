//! A full sync over two connections (`repl-rdb-channel`): one has the data set, the other the stream.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use martlet_testkit::server::Server;

use super::{PATIENCE, info, run, start_ours, text, wait_until};

/// A primary whose data set does not fit into what is on its way to a replica that reads nothing.
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
        reader.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        answer.clear();
        while answer.trim().is_empty() {
            answer.clear();
            assert_ne!(reader.read_line(&mut answer).unwrap(), 0);
        }
    }
    (reader, answer.trim().to_owned())
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

#[test]
fn the_stream_comes_while_the_data_set_does() {
    let primary = primary();
    let (mut main, mut channel, answer) = begin(&primary);
    assert_eq!(info(&primary, "connected_slaves"), "1");
    assert!(text(&run(&primary, "CLIENT LIST")).contains(" flags=SC "));
    run(&primary, "SET during 1");
    let mut stream = Vec::new();
    while !stream.ends_with(b"during\r\n$1\r\n1\r\n") {
        let mut byte = [0];
        main.read_exact(&mut byte).unwrap();
        stream.extend(byte);
    }
    // Nothing of the stream before what was announced, and all from there on.
    assert!(stream.starts_with(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"), "{}", stream.escape_ascii());
    assert!(answer.ends_with(" 0"), "{answer}");
    assert!(state(&primary).contains("state=send_bulk_and_stream"));
    // The data set ends with its mark, and its connection with it.
    let mut line = String::new();
    while !line.starts_with("$EOF:") {
        line.clear();
        assert_ne!(channel.read_line(&mut line).unwrap(), 0);
    }
    let mut snapshot = Vec::new();
    channel.read_to_end(&mut snapshot).unwrap();
    assert!(snapshot.starts_with(b"REDIS") && snapshot.ends_with(&line.trim().as_bytes()[5..]));
    assert!(!snapshot.windows(6).any(|bytes| bytes == b"during"));
    wait_until("the replica follows", || state(&primary).contains("state=online"));
    assert_eq!((info(&primary, "connected_slaves"), info(&primary, "sync_full")), ("1".into(), "1".into()));
    drop(main);
    wait_until("it is gone", || info(&primary, "connected_slaves") == "0");
}

#[test]
fn one_connection_does_not_outlive_the_other() {
    let primary = primary();
    for drops_main in [true, false] {
        let (main, channel, _) = begin(&primary);
        let (dropped, mut left) = if drops_main { (main, channel) } else { (channel, main) };
        drop(dropped);
        let mut rest = Vec::new();
        // It may also end with a reset.
        let _ = left.read_to_end(&mut rest);
        assert!(rest.len() < 40_000_000, "the data set is not whole");
        wait_until("both are gone", || !text(&run(&primary, "CLIENT LIST")).contains(" flags=S"));
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
