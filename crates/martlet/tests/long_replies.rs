//! Long values on their way to clients: not copied for each, and as they were when they were asked for.

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;
use std::path::Path;

const VALUE_BYTES: usize = 8 << 20;

/// A field of INFO.
fn info(client: &mut Client, section: &str, field: &str) -> String {
    let reply = client.command(&["INFO", section]).unwrap();
    let text = String::from_utf8_lossy(reply.text().unwrap()).into_owned();
    let start = format!("{field}:");
    text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default().to_owned()
}

#[test]
fn a_long_value_is_sent_as_it_was_and_stored_once() {
    for backend in ["auto", "epoll"] {
        let arguments = ["server", "--io-threads", "1", "--io-backend", backend];
        let server = Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &arguments).unwrap();
        let mut other = Client::connect(server.address()).unwrap();
        let value: Vec<u8> = (0..VALUE_BYTES).map(|at| (at * 7 / 5) as u8).collect();
        other.command(&[b"SET".as_slice(), b"long", &value]).unwrap();
        other.command(&["SET", "short", "value"]).unwrap();
        let used = |client: &mut Client| info(client, "memory", "used_memory").parse::<usize>().unwrap();
        let before = used(&mut other);

        // They ask and do not read.
        let mut readers = [(); 4].map(|()| Client::connect(server.address()).unwrap());
        for reader in &mut readers {
            for request in ["MULTI", "GET long", "MGET short long none", "GET short", "EXEC", "GET long"] {
                reader.send(&request.split(' ').collect::<Vec<_>>()).unwrap();
            }
        }
        while !info(&mut other, "commandstats", "cmdstat_get").starts_with("calls=12,") {
            std::thread::yield_now();
        }
        let grown = used(&mut other).saturating_sub(before);
        assert!(grown < VALUE_BYTES / 2, "{backend}: {grown} bytes more for 12 replies of {VALUE_BYTES}");

        other.command(&["SETRANGE", "long", "0", "changed"]).unwrap();
        other.command(&["DEL", "short"]).unwrap();
        let bulk = |bytes: &[u8]| Reply::Bulk(bytes.to_vec());
        for reader in &mut readers {
            for _ in 0..4 {
                reader.read_reply().unwrap();
            }
            let several = Reply::Array(vec![bulk(b"value"), bulk(&value), Reply::NullBulk]);
            let expected = Reply::Array(vec![bulk(&value), several, bulk(b"value")]);
            assert!(reader.read_reply().unwrap() == expected, "{backend}: EXEC");
            assert!(reader.read_reply().unwrap() == bulk(&value), "{backend}: GET");
            assert_eq!(reader.command(&["GETRANGE", "long", "0", "6"]).unwrap(), bulk(b"changed"));
        }
        other.command(&["DEL", "long"]).unwrap();
    }
}
