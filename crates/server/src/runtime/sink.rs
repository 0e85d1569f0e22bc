//! The worker as its backend's sink: sockets accepted, bytes received, buffers sent, connections ended.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_acl::DEFAULT_USER;
use martlet_net::{Arrival, Buffer, Sink, Token};

use super::{Action, TLS, UNIX, Worker};
use crate::clients::{ClientDetails, ClientInfo, Clients, flag};
use crate::config::Config;
use crate::connection::{Connection, Session, Suspended};
use crate::runtime::Mail;

const PROTECTED: &[u8] = b"-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the same host the server is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the Redis configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Set up an authentication password for the default user. NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside.\r\n";

impl Sink for Worker {
    fn accepted(&mut self, tag: u32, socket: OwnedFd) {
        let shared = self.shared;
        let thread = shared.clients.least_loaded(shared.scaling.active());
        shared.clients.assigned(thread, 1);
        if thread == self.thread {
            let _ = self.adopt(socket, tag);
        } else {
            shared.send(thread, Mail::Adopt { socket, listener: tag });
        }
    }

    fn received(&mut self, token: Token, data: &[u8]) -> bool {
        self.enter();
        if let Some(announced) = &mut self.intake.announced {
            announced.claim(token, data);
        }
        self.stats().net_input_bytes.add(data.len() as u64);
        self.stats().reads_processed.add(1);
        if self.shared.has_mail(self.thread) {
            // Earlier output for a client comes before the answer to its next request.
            self.inbox.note();
            self.read_mail();
        }
        let Some(mut connection) = self.take(token) else {
            self.received_aside(token, data);
            return false;
        };
        let is_kept = connection.is_ready || connection.suspended.is_some() || self.defers(&connection);
        if !connection.closing {
            self.feed(&mut connection, data);
        }
        if let Some(announced) = &mut self.intake.announced {
            announced.end_claim();
        }
        self.finish(connection);
        !is_kept
    }

    fn will_receive(&mut self, arrivals: &[Arrival<'_>]) {
        self.prefetch_arrivals(arrivals);
    }

    fn sent(&mut self, token: Token, buffer: Buffer, result: io::Result<()>) {
        self.stats().writes_processed.add(1);
        let Some(mut connection) = self.take(token) else { return self.sent_aside(token, buffer, result) };
        connection.in_flight.pop();
        if let Buffer::Owned(mut buffer) = buffer {
            buffer.clear();
            self.outbox.keep_buffer(buffer);
        }
        match result {
            Ok(()) => {
                connection.info.output_bytes.store(connection.output_bytes(), Ordering::Relaxed);
                connection.last_active_ms = self.now_ms;
                connection.info.last_active_ms.store(self.now_ms, Ordering::Relaxed);
                self.finish(connection);
            }
            Err(_) => self.drop_connection(connection),
        }
    }

    fn closed(&mut self, token: Token, reason: Option<io::Error>) {
        self.enter();
        let Some(mut connection) = self.take(token) else { return self.closed_aside(token, reason) };
        connection.input_ended = true;
        if connection.is_handshaking
            && let Some(error) = &reason
        {
            let info = &connection.info;
            tracing::warn!(
                "Error accepting a client connection: {error} (addr={} laddr={})",
                info.peer,
                info.local
            );
        }
        let is_migrating = matches!(connection.suspended, Some(Suspended::Migrating { .. }));
        let is_debugging = matches!(connection.suspended, Some(Suspended::Debugging(_)));
        if let Some(Suspended::Debugging(debugged)) = &connection.suspended {
            debugged.input.end();
        }
        let waits = is_migrating
            || is_debugging
            || connection.suspended.is_none() && (connection.output_bytes() > 0 || connection.is_ready);
        if reason.is_none() && waits {
            // The replies to requests before the end still leave.
            connection.closing = !connection.is_ready && !is_migrating && !is_debugging;
            self.finish(connection);
        } else {
            self.drop_connection(connection);
        }
    }

    fn released(&mut self, token: Token, socket: OwnedFd) {
        self.send_connection(token, socket);
    }

    fn secured(&mut self, token: Token, certificate: Option<&[u8]>) {
        self.follow_config();
        let Some(mut connection) = self.take(token) else { return };
        connection.is_handshaking = false;
        if let Some(certificate) = certificate {
            self.log_in_by_certificate(&mut connection, certificate);
        }
        self.put(connection);
    }

    fn woken(&mut self) {
        self.inbox.note();
    }
}

/// Whether `maxclients` is reached, for clients of no priority less `maxclients-reserved`, where there are
/// subnets that have it.
fn has_no_room(clients: &Clients, config: &Config, is_prioritized: bool) -> bool {
    let (count, most) = (clients.count(), config.maxclients as usize);
    if count >= most {
        return true;
    }
    let others = count.saturating_sub(clients.prioritized_count());
    !is_prioritized
        && !config.priority_subnets.is_empty()
        && others >= most.saturating_sub(config.maxclients_reserved as usize)
}

impl Worker {
    /// Takes over an accepted socket.
    pub(crate) fn adopt(&mut self, socket: OwnedFd, listener: u32) -> Option<Token> {
        self.stats().connections_received.add(1);
        let shared = self.shared;
        // A password set before this client connected must hold for it, whichever thread set it.
        self.follow_config();
        let config = self.config.current().clone();
        let is_unix = listener == UNIX;
        let tls = if listener == TLS { shared.tls.current() } else { None };
        if listener == TLS && tls.is_none() {
            // The port was given up after this client came.
            shared.clients.assigned(self.thread, -1);
            return None;
        }
        let is_prioritized = !is_unix
            && !config.priority_subnets.is_empty()
            && crate::address::peer_ip(&socket)
                .is_some_and(|address| config.priority_subnets.contain(address));
        let refusal: Option<&[u8]> = if has_no_room(&shared.clients, &config, is_prioritized) {
            shared.stats.rejected_connections.fetch_add(1, Ordering::Relaxed);
            shared.stats.rejected_prioritized.fetch_add(u64::from(is_prioritized), Ordering::Relaxed);
            Some(b"-ERR max number of clients reached\r\n")
        } else {
            let exposed = config.protected_mode && self.users.default_user().needs_no_password && !is_unix;
            (exposed && !crate::address::is_loopback(&socket)).then_some(PROTECTED)
        };
        if let Some(text) = refusal {
            // A fresh socket's buffer has room; a peer that is gone already needs no message.
            if tls.is_none() {
                let _ = rustix::net::send(&socket, text, rustix::net::SendFlags::NOSIGNAL);
            }
            shared.clients.assigned(self.thread, -1);
            return None;
        }
        if !is_unix {
            let _ = martlet_net::set_nodelay(&socket);
            if config.tcp_keepalive_s > 0 {
                let _ = martlet_net::set_keepalive(&socket, config.tcp_keepalive_s);
            }
        }
        let token = self.connections.reserve();
        let (peer, local) = crate::address::names(&socket, is_unix, &config);
        let mut info = ClientInfo::new(
            shared.clients.next_id(),
            self.thread,
            token,
            (peer, local, is_unix),
            socket.as_raw_fd(),
            shared.clock.unix_ms(),
            ClientDetails { user: DEFAULT_USER.into(), ..ClientDetails::default() },
        );
        info.is_prioritized = is_prioritized;
        let info = Arc::new(info);
        shared.clients.add(info.clone());
        let mut connection = Box::new(Connection::new(token, info, Session::new(&self.users)));
        connection.is_handshaking = tls.is_some();
        self.count_memory(&connection, 0);
        self.connections.put(connection);
        self.outbox.actions.push(match tls {
            Some(config) => Action::AdoptTls(socket, token, config),
            None => Action::Adopt(socket, token),
        });
        Some(token)
    }

    /// Puts a connection back after work on it, or ends it if it is done.
    pub(crate) fn finish(&mut self, mut connection: Box<Connection>) {
        self.count_memory(&connection, 0);
        if connection.closing && connection.output_bytes() == 0 {
            self.drop_connection(connection);
            return;
        }
        if connection.closing {
            self.outbox.has_closing = true;
            if connection.info.flags.fetch_or(flag::CLOSING, Ordering::Relaxed) & flag::CLOSING == 0 {
                // A client that reads its last reply finds that nothing more is sent to it.
                self.enter();
                self.abandon_session(&mut connection);
            }
        }
        self.mark_dirty(connection);
    }

    /// Puts a connection back, noting that it has output.
    fn mark_dirty(&mut self, mut connection: Box<Connection>) {
        if !connection.out.is_empty() {
            connection.last_active_ms = self.now_ms;
            self.outbox.note(&mut connection);
        }
        self.put(connection);
    }

    /// Ends a connection at once.
    pub(crate) fn drop_connection(&mut self, mut connection: Box<Connection>) {
        self.enter();
        self.abandon_session(&mut connection);
        let token = connection.token;
        self.uncount_memory(&connection);
        self.shared.clients.remove(connection.info.id);
        self.shared.clients.assigned(self.thread, -1);
        self.outbox.actions.push(Action::Close(token));
        self.connections.release(token);
    }

    /// Ends a connection that the backend has not taken.
    pub(super) fn forget(&mut self, token: Token) {
        if let Some(connection) = self.take(token) {
            self.drop_connection(connection);
        }
    }
}

#[cfg(test)]
impl Worker {
    /// Takes over a socket of a test's client.
    pub(crate) fn adopt_for_test(&mut self, socket: OwnedFd) -> Token {
        let _ = self.adopt(socket, UNIX);
        self.connections.last_mut().expect("it has been adopted").token
    }

    /// Takes the output that a test's client has.
    pub(crate) fn output_for_test(&mut self, token: Token) -> String {
        (0..100).for_each(|_| self.process_ready());
        let mut connection = self.take(token).expect("it is there");
        let text = String::from_utf8_lossy(&std::mem::take(&mut connection.out)).into_owned();
        self.finish(connection);
        text
    }
}
