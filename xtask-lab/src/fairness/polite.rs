//! Clients that send one GET at a time, and how long each reply takes.

use martlet_client::blocking::Client;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const CLIENTS: usize = 4;
const REQUEST: &[u8] = b"*2\r\n$3\r\nGET\r\n$6\r\npolite\r\n";
const REPLY: &[u8] = b"$5\r\nvalue\r\n";
/// A longer wait counts as this long.
const LIMIT: Duration = Duration::from_secs(20);

/// Stores the data that they ask for.
pub fn prepare(client: &mut Client) -> io::Result<()> {
    client.command(&["SET", "polite", "value"]).map(drop)
}

/// All waits of the clients' requests that were sent within `span`, in microseconds.
pub fn waits_within(address: SocketAddr, span: Duration) -> io::Result<Vec<u32>> {
    let end = Instant::now() + span;
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(move || waits_until(address, end))).collect();
        let mut all = Vec::new();
        for client in clients {
            all.extend(client.join().map_err(|_| io::Error::other("a polite client died"))??);
        }
        Ok(all)
    })
}

fn waits_until(address: SocketAddr, end: Instant) -> io::Result<Vec<u32>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut waits = Vec::new();
    loop {
        let sent = Instant::now();
        if sent >= end {
            return Ok(waits);
        }
        stream.write_all(REQUEST)?;
        let mut reply = [0; REPLY.len()];
        match stream.read_exact(&mut reply) {
            Ok(()) if reply == REPLY => waits.push(sent.elapsed().as_micros() as u32),
            Ok(()) => return Err(io::Error::other(format!("GET's reply: {}", reply.escape_ascii()))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                waits.push(LIMIT.as_micros() as u32);
                return Ok(waits);
            }
            Err(error) => return Err(error),
        }
    }
}
