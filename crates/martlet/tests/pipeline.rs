//! A pipeline that a client writes faster than the server runs it: nothing is lost, nothing is closed, and
//! waiting input in the server stays bounded.

use martlet_testkit::server::Server;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::time::Duration;

/// Requests of one pipeline: small ones, so that as many as one receive takes in need many slices to run.
const REQUESTS: usize = 600_000;
const REQUEST: &[u8] = b"PING\r\n";
const REPLY: &[u8] = b"+PONG\r\n";

#[test]
fn a_pipeline_longer_than_the_query_buffer_is_answered_whole() {
    for backend in ["auto", "epoll"] {
        let arguments =
            ["server", "--io-threads", "1", "--io-backend", backend, "--client-query-buffer-limit", "1mb"];
        let server = Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &arguments).unwrap();
        let mut reader = TcpStream::connect(server.address()).unwrap();
        let mut writer = reader.try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            let written = writer.write_all(&REQUEST.repeat(REQUESTS));
            // The peer's end is noticed only after all of it has run.
            written.and_then(|()| writer.shutdown(Shutdown::Write))
        });
        let mut replies = Vec::new();
        let read = reader.read_to_end(&mut replies);
        let sent = sender.join().unwrap();
        assert!(sent.is_ok() && read.is_ok(), "{backend}: {sent:?} {read:?}\n{}", server.log());
        assert_eq!(replies.len(), REPLY.len() * REQUESTS, "{backend}");
        assert!(replies.chunks(REPLY.len()).all(|reply| reply == REPLY), "{backend}");
    }
}

#[test]
fn time_goes_on_within_a_pipeline() {
    for backend in ["auto", "epoll"] {
        let arguments = ["server", "--io-backend", backend, "--enable-debug-command", "yes"];
        let server = Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &arguments).unwrap();
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(b"DEBUG SET-ACTIVE-EXPIRE 0\r\nSETRANGE long 67108864 x\r\n").unwrap();
        stream.read_exact(&mut [0; b"+OK\r\n:67108865\r\n".len()]).unwrap();
        // In one piece, so that all of it is read ahead; counting takes longer than the key lives.
        stream.write_all(b"SET k v PX 1\r\nBITCOUNT long\r\nGET k\r\nQUIT\r\n").unwrap();
        let mut replies = String::new();
        stream.read_to_string(&mut replies).unwrap();
        assert_eq!(replies, "+OK\r\n:4\r\n$-1\r\n+OK\r\n", "{backend}");
    }
}

/// The peer's end is noticed while its requests still run: the keys that the last of them waits for must not
/// be taken for a client that is gone.
#[test]
fn who_is_gone_by_the_time_it_would_wait_does_not_wait() {
    for backend in ["auto", "epoll"] {
        let server = Server::start(
            Path::new(env!("CARGO_BIN_EXE_martlet")),
            &["server", "--io-threads", "1", "--io-backend", backend],
        )
        .unwrap();
        for attempt in 0..10 {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            stream.write_all(&REQUEST.repeat(6000)).unwrap();
            stream.write_all(b"BLPOP queue 0\r\n").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut replies = Vec::new();
            stream.read_to_end(&mut replies).unwrap_or_else(|error| {
                panic!("{backend}, {attempt}: the connection stays: {error}\n{}", server.log())
            });
            // A client whose end is noticed only once it waits gets nothing more.
            assert!(replies.len() <= REPLY.len() * 6000, "{backend}, {attempt}");
        }
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(b"RPUSH queue a\r\nLLEN queue\r\nQUIT\r\n").unwrap();
        let mut replies = String::new();
        stream.read_to_string(&mut replies).unwrap();
        assert_eq!(replies, ":1\r\n:1\r\n+OK\r\n", "{backend}");
    }
}
