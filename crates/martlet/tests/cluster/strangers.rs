//! Connections to the bus that say nothing, or half a packet: they keep no node out, and no client.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::{Node, until};

/// Connections of which no packet comes.
const STRANGERS: usize = 600;

/// Whether the other end has closed a connection.
fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut reader = stream;
    match reader.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

#[test]
fn nodes_meet_beside_strangers_that_are_silent_or_slow() {
    for beginning in [&b""[..], b"RCmb\0\0"] {
        let nodes = [Node::ours(&[]), Node::ours(&[])];
        let mut strangers = Vec::new();
        for _ in 0..STRANGERS {
            let mut stream = TcpStream::connect(("127.0.0.1", nodes[0].bus.number())).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
            // It may be closed for a later one already.
            let _ = stream.write_all(beginning);
            strangers.push(stream);
        }
        nodes[1].meet(&nodes[0]);
        let knows = |node: &Node| node.ask(&["CLUSTER", "INFO"]).contains("cluster_known_nodes:2");
        until("the nodes know each other", || nodes.iter().all(knows));
        until("the oldest strangers have gone", || {
            strangers.iter().filter(|stream| !is_closed(stream)).count() <= 256
        });
        // The others are closed by their deadline.
        until("all strangers have gone", || strangers.iter().all(is_closed));
        assert!(nodes.iter().all(knows));
    }
}
