//! Clients: their sockets, their requests, and the replies that wait for them.
//!
//! Invariant: a session of [`Core`] and a socket here come and go together.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use martlet_protocol::request::{Args, Parsed, Partial, RequestLimits, parse};
use martlet_tls::{ServerConfig, TlsSession};
use rustix::event::epoll::EventFlags;

use super::poller::{Poller, Token};
use super::transport::Transport;
use crate::commands::Core;
use crate::limits::{
    CLIENT_INPUT_MAX_BYTES, CLIENT_OUTPUT_MAX_BYTES, CLIENT_OUTPUT_PAUSE_BYTES, HANDSHAKE_MAX_MS,
    REQUEST_ARGUMENTS_MAX, REQUEST_BULK_MAX_BYTES,
};

const CHUNK_BYTES: usize = 16 * 1024;
/// Connections taken before others get their turn.
const ACCEPTED_AT_ONCE: usize = 100;
const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";
const PROTECTED: &[u8] = b"-DENIED This Sentinel runs in protected mode: no password is set for the default user, and only clients of this machine may connect. Set requirepass, or protected-mode no.\r\n";

/// Where clients connect.
pub(super) struct Listener {
    /// The socket.
    pub socket: TcpListener,
    /// What their connections are accepted with, if with TLS.
    pub tls: Option<Arc<ServerConfig>>,
}

struct Socket {
    transport: Transport,
    input: Vec<u8>,
    partial: Partial,
    watched: EventFlags,
    /// When it came, in milliseconds of the machine's time.
    accepted_ms: i64,
    /// No whole request has come of it yet.
    is_stranger: bool,
}

/// See the [module docs](self).
pub(super) struct Clients {
    listeners: Vec<Listener>,
    sockets: BTreeMap<u64, Socket>,
    next_id: u64,
    is_protected: bool,
    timeout_s: i64,
}

impl Clients {
    pub fn new(
        listeners: Vec<Listener>,
        is_protected: bool,
        timeout_s: i64,
        poller: &Poller,
    ) -> io::Result<Clients> {
        for (index, listener) in listeners.iter().enumerate() {
            listener.socket.set_nonblocking(true)?;
            poller.add(&listener.socket, Token::Listener(index), EventFlags::IN)?;
        }
        Ok(Clients { listeners, sockets: BTreeMap::new(), next_id: 1, is_protected, timeout_s })
    }

    /// Takes those that want to connect.
    pub fn accept(&mut self, index: usize, core: &mut Core, poller: &Poller) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(listener) = self.listeners.get(index) else { return };
            let Ok((mut stream, peer)) = listener.socket.accept() else { return };
            let tls = listener.tls.clone();
            self.make_place(core);
            let refusal = self.refusal(peer.ip(), core);
            if stream.set_nonblocking(true).is_err() || refusal.is_some() {
                // A client that expects TLS would not understand it.
                if tls.is_none() {
                    let _ = stream.write(refusal.unwrap_or_default());
                }
                core.stats.rejected += 1;
                continue;
            }
            let Ok(session) = tls.map(TlsSession::accept).transpose() else { continue };
            let _ = stream.set_nodelay(true);
            let id = self.next_id;
            if poller.add(&stream, Token::Client(id), EventFlags::IN).is_err() {
                continue;
            }
            self.next_id += 1;
            let local = stream.local_addr().map(shown).unwrap_or_default();
            core.open(id, shown(peer), local, stream.as_raw_fd());
            let transport = Transport::new(stream, session);
            let socket = Socket {
                transport,
                input: Vec::new(),
                partial: Partial::default(),
                watched: EventFlags::IN,
                accepted_ms: core.now_ms,
                is_stranger: true,
            };
            self.sockets.insert(id, socket);
        }
    }

    /// If there are as many clients as there may be, closes the one that has been there for longest without a
    /// whole request: peers that are silent do not keep other Sentinels away.
    fn make_place(&mut self, core: &mut Core) {
        if self.sockets.len() >= core.facts.clients_max {
            // Numbers rise with time.
            let oldest = self.sockets.iter().find(|(_, socket)| socket.is_stranger).map(|(id, _)| *id);
            oldest.into_iter().for_each(|id| self.remove(id, core));
        }
    }

    fn refusal(&self, peer: IpAddr, core: &Core) -> Option<&'static [u8]> {
        let is_local = peer.to_canonical().is_loopback();
        if self.sockets.len() >= core.facts.clients_max {
            Some(TOO_MANY)
        } else if self.is_protected && !is_local && core.access.users.default_user().needs_no_password {
            Some(PROTECTED)
        } else {
            None
        }
    }

    /// A socket can be read, or is over.
    pub fn ready(&mut self, id: u64, flags: EventFlags, core: &mut Core) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            match socket.receive() {
                Ok(count) => {
                    core.stats.input_bytes += count as u64;
                    if let Some(session) = core.sessions.get_mut(&id) {
                        session.input_bytes += count as u64;
                    }
                }
                Err(_) => return self.remove(id, core),
            }
        }
        self.serve(id, core);
    }

    fn remove(&mut self, id: u64, core: &mut Core) {
        self.sockets.remove(&id);
        core.sessions.remove(&id);
    }

    /// Runs the requests that are there, as long as the client takes the replies.
    fn serve(&mut self, id: u64, core: &mut Core) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        let input = std::mem::take(&mut socket.input);
        let mut at = 0;
        let mut spans = Vec::new();
        while at < input.len() {
            let Some(session) = core.sessions.get_mut(&id) else { break };
            if session.is_closing || session.is_killed || session.out.len() > CLIENT_OUTPUT_PAUSE_BYTES {
                break;
            }
            let limits = match session.is_authenticated {
                true => RequestLimits {
                    bulk_max_bytes: REQUEST_BULK_MAX_BYTES,
                    arguments_max: REQUEST_ARGUMENTS_MAX,
                    unauthenticated: false,
                },
                false => RequestLimits { bulk_max_bytes: 16_384, arguments_max: 10, unauthenticated: true },
            };
            spans.clear();
            match parse(&input, at, &limits, &mut socket.partial, &mut spans) {
                Ok(Parsed::Complete(end)) => {
                    if !spans.is_empty() && core.must_wait(id, &Args::new(&input, &spans)) {
                        break;
                    }
                    at = end;
                    if !spans.is_empty() {
                        socket.is_stranger = false;
                        core.execute(id, Args::new(&input, &spans));
                    }
                }
                Ok(Parsed::Incomplete) => break,
                Err(error) => {
                    session.out.extend_from_slice(format!("-ERR {error}\r\n").as_bytes());
                    session.is_closing = true;
                }
            }
        }
        socket.input = input.get(at..).unwrap_or_default().to_vec();
        if let Some(session) = core.sessions.get_mut(&id) {
            session.pending_bytes = socket.input.len();
            session.is_killed |= socket.input.len() > CLIENT_INPUT_MAX_BYTES;
        }
    }

    /// Sends waiting output, closes sessions that are to be closed, and continues with requests that waited
    /// for that.
    pub fn flush(&mut self, core: &mut Core, poller: &Poller) {
        let ids: Vec<u64> = self.sockets.keys().copied().collect();
        for id in ids {
            let (Some(socket), Some(session)) = (self.sockets.get_mut(&id), core.sessions.get_mut(&id))
            else {
                continue;
            };
            let before = session.out.len();
            let is_gone = session.is_killed
                || before > CLIENT_OUTPUT_MAX_BYTES
                || socket.transport.has_to_send(&session.out)
                    && socket.transport.send(&mut session.out).is_err()
                || session.is_closing && session.out.is_empty() && !socket.transport.has_to_send(&[]);
            let sent = before.saturating_sub(session.out.len()) as u64;
            session.output_bytes += sent;
            core.stats.output_bytes += sent;
            if is_gone {
                self.remove(id, core);
                continue;
            }
            socket.watch(id, &session.out, poller);
            if before > CLIENT_OUTPUT_PAUSE_BYTES && session.out.len() <= CLIENT_OUTPUT_PAUSE_BYTES {
                self.serve(id, core);
            }
        }
    }

    /// Continues with requests that a pause has held.
    pub fn resume(&mut self, core: &mut Core) {
        let ids: Vec<u64> = self.sockets.keys().copied().collect();
        ids.into_iter().for_each(|id| self.serve(id, core));
    }

    /// Closes clients that have been idle for too long; those that wait for messages are not. A handshake of
    /// TLS has a limit of its own.
    pub fn close_idle(&mut self, core: &mut Core) {
        let least_ms = core.now_ms - HANDSHAKE_MAX_MS;
        let is_late = |socket: &Socket| socket.transport.is_handshaking() && socket.accepted_ms < least_ms;
        let late = self.sockets.iter().filter(|(_, socket)| is_late(socket));
        for id in late.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.remove(id, core);
        }
        if self.timeout_s == 0 {
            return;
        }
        let least_ms = core.now_ms - self.timeout_s * 1_000;
        for session in core.sessions.values_mut() {
            session.is_killed |= session.active_ms < least_ms && !session.is_subscriber();
        }
    }
}

/// An address as clients know it: one of IPv4 also where it came to a socket for both.
fn shown(address: SocketAddr) -> String {
    SocketAddr::new(address.ip().to_canonical(), address.port()).to_string()
}

impl Socket {
    fn receive(&mut self) -> io::Result<usize> {
        self.transport.receive(&mut self.input, &mut [0; CHUNK_BYTES])
    }

    /// Watches for the awaited event: room for output, and input unless too much output waits.
    fn watch(&mut self, id: u64, out: &[u8], poller: &Poller) {
        let mut flags = EventFlags::empty();
        if self.transport.has_to_send(out) {
            flags |= EventFlags::OUT;
        }
        if out.len() <= CLIENT_OUTPUT_PAUSE_BYTES {
            flags |= EventFlags::IN;
        }
        if flags != self.watched {
            self.watched = flags;
            poller.change(&self.transport, Token::Client(id), flags);
        }
    }
}
