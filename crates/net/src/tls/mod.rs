//! TLS as an adapter around any backend: the layer below sends and receives records, the layer above sees
//! plain bytes.
//!
//! Connections that were adopted without TLS pass through. Invariant: every buffer from above comes back, in
//! order, once the records that hold its last byte have left; no more than [`AHEAD_BYTES`] of a connection
//! are encrypted ahead of its reader. Output that a poll makes (handshakes, key updates, alerts, the next
//! part of a long reply) is sent when the poll below has returned, since a sink cannot call its backend.

mod name;
mod session;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ServerConfig;

use crate::{Arrival, Backend, Buffer, Sink, Token, Waker};
use session::Session;

pub use name::{alternative_uri, common_name};

/// Encrypted bytes of one connection that may wait for its reader.
const AHEAD_BYTES: usize = 256 << 10;
/// How long a client may take for its handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Buffers for records that are kept for reuse, and their capacity at most.
const POOLED_MAX: usize = 16;
const POOLED_MAX_BYTES: usize = 128 << 10;

/// A backend that can speak TLS, see the [module docs](self).
pub struct Tls<B> {
    inner: B,
    sessions: Sessions,
}

#[derive(Default)]
struct Sessions {
    /// By the token's index; empty until a connection with TLS was adopted.
    slots: Vec<Option<Box<Session>>>,
    live: usize,
    /// Sessions with something to encrypt or to send.
    dirty: Vec<Token>,
    /// Alerts of sessions that have failed.
    farewells: Vec<(Token, Vec<u8>)>,
    /// Buffers that come back without having been sent: empty ones, and those of failed sessions.
    returned: Vec<(Token, Buffer)>,
    /// Handshakes in the order in which their time runs out; those that are over leave when they are first.
    handshakes: VecDeque<(Instant, Token)>,
    pool: Vec<Vec<u8>>,
    /// A part of a long buffer was handed over: the next poll must not sleep, see [`Backend::send`].
    must_hurry: bool,
}

impl Sessions {
    #[inline]
    fn get(&mut self, token: Token) -> Option<&mut Session> {
        let session = self.slots.get_mut(token.index())?.as_deref_mut()?;
        (session.token == token).then_some(session)
    }

    fn mark_dirty(&mut self, token: Token) {
        if let Some(session) = self.get(token)
            && !session.is_dirty
        {
            session.is_dirty = true;
            self.dirty.push(token);
        }
    }

    /// Ends handshakes that take too long; how long until the next one does.
    fn expire(&mut self, now: Instant, sink: &mut dyn Sink) -> Option<Duration> {
        while let Some((deadline, token)) = self.handshakes.front().copied() {
            let is_under_way = self.get(token).is_some_and(|session| session.is_under_way());
            if is_under_way && deadline > now {
                return Some(deadline - now);
            }
            self.handshakes.pop_front();
            if is_under_way && let Some(session) = self.get(token) {
                session.has_ended = true;
                let reason = io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake took too long");
                sink.closed(token, Some(reason));
            }
        }
        None
    }
}

impl<B: Backend> Tls<B> {
    /// The adapter around `inner`.
    pub fn new(inner: B) -> Tls<B> {
        Tls { inner, sessions: Sessions::default() }
    }

    /// The backend below.
    pub fn inner_mut(&mut self) -> &mut B {
        &mut self.inner
    }

    /// Encrypts waiting output and hands it to the backend below.
    fn flush(&mut self) {
        let sessions = &mut self.sessions;
        while let Some(token) = sessions.dirty.pop() {
            let Some(Some(session)) = sessions.slots.get_mut(token.index()) else { continue };
            if session.token != token {
                continue;
            }
            session.is_dirty = false;
            let was_long = session.is_long;
            let mut has_sent = false;
            while session.in_flight_bytes < AHEAD_BYTES
                && let Some(records) = session.encrypt(&mut sessions.pool)
            {
                self.inner.send(token, records.into());
                has_sent = true;
            }
            session.is_long = session.has_waiting();
            sessions.must_hurry |= has_sent && (was_long || session.is_long);
        }
        for (token, alert) in sessions.farewells.drain(..) {
            self.inner.farewell(token, &alert);
        }
    }
}

impl<B: Backend> Backend for Tls<B> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn listen(&mut self, listener: OwnedFd, tag: u32) -> io::Result<()> {
        self.inner.listen(listener, tag)
    }

    fn unlisten(&mut self, tag: u32) {
        self.inner.unlisten(tag);
    }

    fn adopt(&mut self, socket: OwnedFd, token: Token) -> io::Result<()> {
        self.inner.adopt(socket, token)
    }

    fn adopt_tls(&mut self, socket: OwnedFd, token: Token, config: &Arc<ServerConfig>) -> io::Result<()> {
        let session = Session::new(token, config)?;
        self.inner.adopt(socket, token)?;
        let sessions = &mut self.sessions;
        if sessions.slots.len() <= token.index() {
            sessions.slots.resize_with(token.index() + 1, || None);
        }
        if let Some(slot) = sessions.slots.get_mut(token.index()) {
            *slot = Some(Box::new(session));
        }
        sessions.live += 1;
        let deadline = martlet_base::clock::monotonic() + HANDSHAKE_LIMIT;
        sessions.handshakes.push_back((deadline, token));
        Ok(())
    }

    fn send(&mut self, token: Token, buffer: Buffer) {
        if self.sessions.live == 0 {
            return self.inner.send(token, buffer);
        }
        let Some(session) = self.sessions.get(token) else { return self.inner.send(token, buffer) };
        if buffer.is_empty() || session.has_failed {
            return self.sessions.returned.push((token, buffer));
        }
        session.push(buffer);
        self.sessions.mark_dirty(token);
    }

    fn farewell(&mut self, token: Token, bytes: &[u8]) {
        if self.sessions.get(token).is_none() {
            self.inner.farewell(token, bytes);
        }
    }

    fn output_idle(&mut self, token: Token) -> Option<Duration> {
        self.inner.output_idle(token)
    }

    fn output_mark(&mut self, token: Token) -> Option<u64> {
        self.inner.output_mark(token)
    }

    fn gather(&mut self, token: Token) {
        self.inner.gather(token);
    }

    fn pause(&mut self, token: Token) {
        self.inner.pause(token);
    }

    fn resume(&mut self, token: Token) {
        self.inner.resume(token);
    }

    fn close(&mut self, token: Token) {
        if let Some(session) = self.sessions.get(token) {
            let notify = session.close_notify();
            if let Some(slot) = self.sessions.slots.get_mut(token.index()) {
                *slot = None;
            }
            self.sessions.live -= 1;
            if let Some(notify) = notify {
                self.inner.farewell(token, &notify);
            }
        }
        self.inner.close(token);
    }

    fn release(&mut self, token: Token) {
        if self.sessions.get(token).is_none() {
            self.inner.release(token);
        }
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn poll(&mut self, timeout: Option<Duration>, sink: &mut dyn Sink) -> io::Result<()> {
        if self.sessions.live == 0 {
            return self.inner.poll(timeout, sink);
        }
        let mut timeout = timeout;
        if !self.sessions.handshakes.is_empty() {
            let next = self.sessions.expire(martlet_base::clock::monotonic(), sink);
            timeout = next.map_or(timeout, |next| Some(timeout.map_or(next, |timeout| timeout.min(next))));
        }
        self.flush();
        for (token, buffer) in std::mem::take(&mut self.sessions.returned) {
            if let Some(session) = self.sessions.get(token) {
                let failed = session.has_failed.then(|| io::ErrorKind::BrokenPipe.into());
                sink.sent(token, buffer, failed.map_or(Ok(()), Err));
            }
        }
        if std::mem::take(&mut self.sessions.must_hurry) {
            timeout = Some(Duration::ZERO);
        }
        let result = self.inner.poll(timeout, &mut Decrypting { sink, sessions: &mut self.sessions });
        self.flush();
        result
    }
}

/// The sink of the backend below.
struct Decrypting<'a> {
    sink: &'a mut dyn Sink,
    sessions: &'a mut Sessions,
}

impl Sink for Decrypting<'_> {
    fn accepted(&mut self, tag: u32, socket: OwnedFd) {
        self.sink.accepted(tag, socket);
    }

    fn received(&mut self, token: Token, data: &[u8]) -> bool {
        let Some(session) = self.sessions.get(token) else { return self.sink.received(token, data) };
        let is_worked_on = session.receive(data, self.sink);
        let has_output = session.has_output();
        if let Some(alert) = session.take_alert() {
            self.sessions.farewells.push((token, alert));
        } else if has_output {
            self.sessions.mark_dirty(token);
        }
        is_worked_on
    }

    fn will_receive(&mut self, arrivals: &[Arrival<'_>]) {
        // Records do not show the requests within, and announced bytes must come next.
        let plain = arrivals.iter().take_while(|arrival| self.sessions.get(arrival.token).is_none()).count();
        if let Some(plain @ [_, _, ..]) = arrivals.get(..plain) {
            self.sink.will_receive(plain);
        }
    }

    fn sent(&mut self, token: Token, buffer: Buffer, result: io::Result<()>) {
        let Some(session) = self.sessions.get(token) else { return self.sink.sent(token, buffer, result) };
        session.sent(result, self.sink);
        let has_output = session.has_output();
        if let Buffer::Owned(mut records) = buffer
            && records.capacity() <= POOLED_MAX_BYTES
            && self.sessions.pool.len() < POOLED_MAX
        {
            records.clear();
            self.sessions.pool.push(records);
        }
        if has_output {
            self.sessions.mark_dirty(token);
        }
    }

    fn closed(&mut self, token: Token, reason: Option<io::Error>) {
        match self.sessions.get(token) {
            Some(session) => session.closed(reason, self.sink),
            None => self.sink.closed(token, reason),
        }
    }

    fn released(&mut self, token: Token, socket: OwnedFd) {
        self.sink.released(token, socket);
    }

    fn secured(&mut self, token: Token, certificate: Option<&[u8]>) {
        self.sink.secured(token, certificate);
    }

    fn woken(&mut self) {
        self.sink.woken();
    }
}
