//! Connections to instances.
//!
//! Invariant: nothing waits for an instance: connecting, sending and receiving advance as its socket allows,
//! and the state machine finds slow ones.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};

use martlet_client::resp::{decode, encode_request};
use martlet_tls::TlsSettings;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::poller::{Poller, Token};
use super::transport::Transport;
use crate::commands::Core;
use crate::limits::{LINK_INPUT_MAX_BYTES, LINK_OUTPUT_MAX_BYTES};
use crate::link::ConnectionId;

const CHUNK_BYTES: usize = 64 * 1024;

struct Peer {
    transport: Transport,
    is_open: bool,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// See the [module docs](self).
pub(super) struct Peers {
    /// The configuration of TLS, if it is used.
    tls: Option<TlsSettings>,
    /// The local address to connect from.
    source: Option<IpAddr>,
    peers: BTreeMap<ConnectionId, Peer>,
}

impl Peers {
    pub fn new(tls: Option<TlsSettings>, source: Option<IpAddr>) -> Peers {
        Peers { tls, source, peers: BTreeMap::new() }
    }

    /// Begins to connect.
    pub fn connect(&mut self, id: ConnectionId, ip: &str, port: u16, core: &mut Core, poller: &Poller) {
        let begun = self.begin(ip, port).and_then(|transport| {
            poller.add(&transport, Token::Peer(id), EventFlags::IN | EventFlags::OUT)?;
            Ok(transport)
        });
        match begun {
            Ok(transport) => {
                let peer = Peer { transport, is_open: false, input: Vec::new(), output: Vec::new() };
                self.peers.insert(id, peer);
            }
            Err(_) => core.sentinel.closed(core.now_ms, id),
        }
    }

    fn begin(&self, ip: &str, port: u16) -> io::Result<Transport> {
        let session = self.tls.as_ref().map(|settings| settings.for_host(ip)?.session()).transpose()?;
        Ok(Transport::new(begin(ip, port, self.source)?, session))
    }

    /// Closes a connection.
    pub fn close(&mut self, id: ConnectionId) {
        self.peers.remove(&id);
    }

    /// Sends a request, or keeps it until it can be sent.
    pub fn send(&mut self, id: ConnectionId, request: &[Vec<u8>], core: &mut Core, poller: &Poller) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        encode_request(request, &mut peer.output);
        let fits = peer.output.len() <= LINK_OUTPUT_MAX_BYTES;
        if !fits || peer.is_open && peer.flush(id, poller).is_err() {
            self.drop(id, core);
        }
    }

    fn drop(&mut self, id: ConnectionId, core: &mut Core) {
        self.peers.remove(&id);
        core.sentinel.closed(core.now_ms, id);
    }

    /// A socket can be read or written.
    pub fn ready(&mut self, id: ConnectionId, flags: EventFlags, core: &mut Core, poller: &Poller) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if !peer.is_open {
            let stream = peer.transport.stream();
            if !matches!(stream.take_error(), Ok(None)) || stream.peer_addr().is_err() {
                return self.drop(id, core);
            }
            peer.is_open = true;
            let local = stream.local_addr().ok().map(|address| address.ip().to_string());
            core.sentinel.connected(core.now_ms, id, local);
        }
        if flags.intersects(EventFlags::OUT) && peer.flush(id, poller).is_err() {
            return self.drop(id, core);
        }
        let is_readable = flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR);
        // The end of a handshake releases waiting output.
        let is_over = is_readable && peer.receive().and_then(|()| peer.flush(id, poller)).is_err();
        // Bytes received before the end still count.
        loop {
            let Some(peer) = self.peers.get_mut(&id) else { return };
            match decode(&peer.input) {
                Ok(Some((reply, length))) => {
                    peer.input.drain(..length);
                    core.sentinel.received(core.now_ms, id, reply);
                }
                Ok(None) if !is_over && peer.input.len() <= LINK_INPUT_MAX_BYTES => return,
                _ => return self.drop(id, core),
            }
        }
    }
}

impl Peer {
    fn flush(&mut self, id: ConnectionId, poller: &Poller) -> io::Result<()> {
        self.transport.send(&mut self.output)?;
        let waits = self.transport.has_to_send(&self.output);
        let more = if waits { EventFlags::OUT } else { EventFlags::empty() };
        poller.change(&self.transport, Token::Peer(id), EventFlags::IN | more);
        Ok(())
    }

    /// Takes a chunk; if there is more, the poller reports it again.
    fn receive(&mut self) -> io::Result<()> {
        self.transport.receive(&mut self.input, &mut [0; CHUNK_BYTES]).map(drop)
    }
}

/// A socket that connects, from the address `source` if that is one of this machine's and of the same family.
fn begin(ip: &str, port: u16, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let ip: IpAddr = ip.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let address = SocketAddr::new(ip, port);
    let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
    if let Some(source) = source {
        let _ = rustix::net::bind(&socket, &SocketAddr::new(source, 0));
    }
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_come_from_the_address_that_is_set_if_it_can_be_had() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for (source, expected) in [
            (None, "127.0.0.1"),
            (Some("127.0.0.31"), "127.0.0.31"),
            (Some("192.0.2.1"), "127.0.0.1"),
            (Some("::1"), "127.0.0.1"),
        ] {
            let source = source.map(|source| source.parse().unwrap());
            let _socket = begin("127.0.0.1", port, source).unwrap();
            let (_, peer) = listener.accept().unwrap();
            assert_eq!(peer.ip().to_string(), expected);
        }
    }
}
