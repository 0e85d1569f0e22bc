//! The epoll backend: one `epoll_wait` per loop, one `recv` per readable connection, `send` at once.
//!
//! Connections are watched edge-triggered, which spares the kernel a second look at each ready socket per
//! wait. What keeps edges from being lost: a `recv` that fills the buffer, or comes with a hang-up, puts its
//! connection on the `ready` list, which is read again by the next poll; a pause remembers that an edge came.
//! Writability is watched only while a send is blocked. Listeners are level-triggered.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use crate::accept::{ACCEPT_BACKOFF, is_passing};
use crate::listen::{gather, output_idle, unread_bytes};
use crate::outgoing::Outgoing;
use crate::{Backend, Buffer, Sink, Token, Waker};

use epoll::EventFlags;

/// Events taken per wait.
const EVENTS: usize = 256;
/// Most bytes of one `recv`; every connection of the thread reads through the same buffer.
const RECV_BYTES: usize = 64 << 10;
/// Connections taken from one listener before connections are served again.
const ACCEPTS_PER_POLL: usize = 64;

/// An index that no token has, in the event data of other descriptors.
const SPECIAL: u64 = u32::MAX as u64;
const WAKER_DATA: u64 = u64::MAX;

struct Connection {
    token: Token,
    socket: OwnedFd,
    outgoing: Outgoing,
    /// Writability is watched: the kernel took less than it was given.
    blocked: bool,
    /// Nothing can be sent any more.
    send_failed: bool,
    paused: bool,
    /// An edge came that has not been read to its end.
    readable: bool,
    /// `readable`, and on the ready list.
    queued: bool,
    /// Nothing more will be received; the sink knows.
    ended: bool,
}

struct Listener {
    socket: OwnedFd,
    tag: u32,
    watched: bool,
}

/// The epoll backend, see [`Backend`].
pub struct Epoll {
    epoll: OwnedFd,
    waker: Waker,
    connections: Vec<Option<Connection>>,
    listeners: Vec<Option<Listener>>,
    accept_again_at: Option<Instant>,
    /// Connections to read without an event.
    ready: Vec<Token>,
    /// Sends that ended since the last poll.
    done: Vec<(Token, Buffer, Result<(), Errno>)>,
    /// A failed send is in `done`, which must not wait for the end of a sleep.
    failed: bool,
    /// Connections to hand over in the next poll.
    leaving: Vec<Token>,
    buffer: Box<[u8]>,
}

impl Epoll {
    /// A backend without sockets.
    ///
    /// # Errors
    /// The kernel's, of `epoll_create1` and `eventfd`.
    pub fn new() -> io::Result<Epoll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let waker = Waker::with_eventfd()?;
        if let Some(fd) = waker.descriptor() {
            let data = epoll::EventData::new_u64(WAKER_DATA);
            epoll::add(&epoll, fd, data, EventFlags::IN | EventFlags::ET)?;
        }
        Ok(Epoll {
            epoll,
            waker,
            connections: Vec::new(),
            listeners: Vec::new(),
            accept_again_at: None,
            ready: Vec::new(),
            done: Vec::new(),
            failed: false,
            leaving: Vec::new(),
            buffer: vec![0; RECV_BYTES].into_boxed_slice(),
        })
    }

    fn report_done(&mut self, sink: &mut dyn Sink) {
        self.failed = false;
        for (token, buffer, result) in self.done.drain(..) {
            let live = self
                .connections
                .get(token.index())
                .is_some_and(|slot| slot.as_ref().is_some_and(|c| c.token == token));
            if live {
                sink.sent(token, buffer, result.map_err(io::Error::from));
            }
        }
    }

    /// Hands over connections that are asked for. Bytes that were not read yet wait for the next backend.
    fn hand_over(&mut self, sink: &mut dyn Sink) {
        for token in std::mem::take(&mut self.leaving) {
            let can_leave = |connection: &Connection| {
                !connection.paused
                    && !connection.ended
                    && !connection.send_failed
                    && connection.outgoing.is_idle()
            };
            let is_asked_for = self.connection(token).is_some_and(|connection| can_leave(connection));
            if is_asked_for
                && let Some(slot) = self.connections.get_mut(token.index())
                && let Some(connection) = slot.take()
            {
                // Another epoll set is about to watch it.
                let _ = epoll::delete(&self.epoll, &connection.socket);
                sink.released(token, connection.socket);
            }
        }
    }

    /// How long this poll may sleep.
    fn sleep_limit(&mut self, timeout: Option<Duration>) -> io::Result<Option<Duration>> {
        if self.failed || !self.ready.is_empty() || !self.leaving.is_empty() {
            return Ok(Some(Duration::ZERO));
        }
        let Some(at) = self.accept_again_at else { return Ok(timeout) };
        let rest = at.saturating_duration_since(martlet_base::clock::monotonic());
        if rest.is_zero() {
            self.accept_again_at = None;
            for index in 0..self.listeners.len() {
                self.watch_listener(index)?;
            }
            return Ok(timeout);
        }
        Ok(Some(timeout.map_or(rest, |timeout| timeout.min(rest))))
    }

    fn watch_listener(&mut self, index: usize) -> io::Result<()> {
        let Some(Some(listener)) = self.listeners.get_mut(index) else { return Ok(()) };
        if !listener.watched {
            let data = epoll::EventData::new_u64((index as u64) << 32 | SPECIAL);
            epoll::add(&self.epoll, &listener.socket, data, EventFlags::IN | EventFlags::EXCLUSIVE)?;
            listener.watched = true;
        }
        Ok(())
    }

    fn accept(&mut self, index: usize, sink: &mut dyn Sink) {
        let Some(Some(listener)) = self.listeners.get_mut(index) else { return };
        for _ in 0..ACCEPTS_PER_POLL {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::accept_with(&listener.socket, flags) {
                Ok(socket) => sink.accepted(listener.tag, socket),
                Err(Errno::AGAIN) => return,
                Err(errno) if is_passing(errno) => {}
                Err(_) => {
                    listener.watched = epoll::delete(&self.epoll, &listener.socket).is_err();
                    self.accept_again_at = Some(martlet_base::clock::monotonic() + ACCEPT_BACKOFF);
                    return;
                }
            }
        }
    }

    fn connection(&mut self, token: Token) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(token.index())?.as_mut()?;
        (connection.token == token).then_some(connection)
    }

    fn handle(&mut self, event: epoll::Event, sink: &mut dyn Sink) {
        let data = event.data.u64();
        if data & SPECIAL == SPECIAL {
            if data != WAKER_DATA {
                self.accept((data >> 32) as usize, sink);
            }
            return;
        }
        let flags = event.flags;
        let hangup = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        if flags.contains(EventFlags::IN) || hangup {
            self.receive(Token(data), hangup, sink);
        }
        if flags.contains(EventFlags::OUT) || hangup {
            self.unblock(Token(data), sink);
        }
    }

    fn receive(&mut self, token: Token, hangup: bool, sink: &mut dyn Sink) {
        let Some(Some(connection)) = self.connections.get_mut(token.index()) else { return };
        if connection.token != token || connection.ended {
            return;
        }
        connection.readable = true;
        if connection.paused || connection.queued {
            return;
        }
        let received = loop {
            match rustix::net::recv(&connection.socket, &mut *self.buffer, RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                Ok((_, count)) => break Ok(count),
                Err(errno) => break Err(errno),
            }
        };
        match received {
            Ok(0) => {
                connection.ended = true;
                sink.closed(token, None);
            }
            Ok(count) => {
                if hangup || count >= self.buffer.len() {
                    connection.queued = true;
                    self.ready.push(token);
                } else {
                    connection.readable = false;
                }
                sink.received(token, self.buffer.get(..count).unwrap_or_default());
            }
            Err(Errno::AGAIN) => connection.readable = false,
            Err(errno) => {
                connection.ended = true;
                sink.closed(token, Some(errno.into()));
            }
        }
    }

    /// Reads what an edge left over, each connection once.
    fn receive_ready(&mut self, sink: &mut dyn Sink) {
        for token in std::mem::take(&mut self.ready) {
            if let Some(connection) = self.connection(token) {
                connection.queued = false;
                // A hang-up must be read up to its end, whatever a short read says.
                self.receive(token, true, sink);
            }
        }
    }

    /// Continues a blocked send.
    fn unblock(&mut self, token: Token, sink: &mut dyn Sink) {
        let Some(Some(connection)) = self.connections.get_mut(token.index()) else { return };
        if connection.token != token || !connection.blocked {
            return;
        }
        loop {
            match connection.write() {
                Ok(true) => {}
                Ok(false) => return,
                Err(errno) => {
                    connection.send_failed = true;
                    while let Some(buffer) = connection.outgoing.pop() {
                        sink.sent(token, buffer, Err(errno.into()));
                    }
                    break;
                }
            }
            if let Some(buffer) = connection.outgoing.pop() {
                sink.sent(token, buffer, Ok(()));
            }
            if connection.outgoing.is_idle() {
                break;
            }
        }
        connection.blocked = false;
        // A failure leaves writability watched, which costs nothing: edges on a dead connection are few.
        let _ = connection.watch(&self.epoll, EventFlags::empty());
    }
}

impl Connection {
    fn watch(&self, epoll: &OwnedFd, more: EventFlags) -> Result<(), Errno> {
        epoll::modify(epoll, &self.socket, epoll::EventData::new_u64(self.token.0), RECEIVING | more)
    }

    /// Writes the buffer under way until it is done (true) or the kernel takes no more (false).
    fn write(&mut self) -> Result<bool, Errno> {
        loop {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.socket, self.outgoing.unwritten(), flags) {
                Ok(count) if self.outgoing.advance(count) => return Ok(true),
                // Short: the next attempt says `AGAIN` and makes the kernel report writability.
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
    }
}

const RECEIVING: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

impl Backend for Epoll {
    fn name(&self) -> &'static str {
        "epoll"
    }

    fn listen(&mut self, listener: OwnedFd, tag: u32) -> io::Result<()> {
        let index = self.listeners.iter().position(Option::is_none).unwrap_or_else(|| {
            self.listeners.push(None);
            self.listeners.len() - 1
        });
        self.listeners[index] = Some(Listener { socket: listener, tag, watched: false });
        self.watch_listener(index).inspect_err(|_| self.listeners[index] = None)
    }

    fn unlisten(&mut self, tag: u32) {
        for slot in &mut self.listeners {
            if let Some(listener) = slot.take_if(|listener| listener.tag == tag) {
                let _ = epoll::delete(&self.epoll, &listener.socket);
            }
        }
    }

    fn adopt(&mut self, socket: OwnedFd, token: Token) -> io::Result<()> {
        let index = token.index();
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, || None);
        }
        let slot = &mut self.connections[index];
        if slot.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(token.0), RECEIVING)?;
        *slot = Some(Connection {
            token,
            socket,
            outgoing: Outgoing::default(),
            blocked: false,
            send_failed: false,
            paused: false,
            readable: false,
            queued: false,
            ended: false,
        });
        Ok(())
    }

    fn send(&mut self, token: Token, buffer: Buffer) {
        let Some(Some(connection)) = self.connections.get_mut(token.index()) else { return };
        if connection.token != token {
            return;
        }
        if buffer.is_empty() {
            return self.done.push((token, buffer, Ok(())));
        }
        if connection.send_failed {
            self.failed = true;
            return self.done.push((token, buffer, Err(Errno::PIPE)));
        }
        if !connection.outgoing.push(buffer) {
            return;
        }
        let result = match connection.write() {
            Ok(true) => Ok(()),
            Ok(false) => match connection.watch(&self.epoll, EventFlags::OUT) {
                Ok(()) => return connection.blocked = true,
                Err(errno) => Err(errno),
            },
            Err(errno) => Err(errno),
        };
        connection.send_failed = result.is_err();
        self.failed |= result.is_err();
        if let Some(buffer) = connection.outgoing.pop() {
            self.done.push((token, buffer, result));
        }
    }

    fn farewell(&mut self, token: Token, bytes: &[u8]) {
        if let Some(connection) = self.connection(token)
            && connection.outgoing.is_idle()
        {
            let _ = rustix::net::send(&connection.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }

    fn output_idle(&mut self, token: Token) -> Option<Duration> {
        self.connection(token).and_then(|connection| output_idle(&connection.socket))
    }

    fn output_mark(&mut self, token: Token) -> Option<u64> {
        let connection = self.connection(token)?;
        Some(connection.outgoing.unwritten().len() as u64 + unread_bytes(&connection.socket)?)
    }

    fn gather(&mut self, token: Token) {
        if let Some(connection) = self.connection(token) {
            gather(&connection.socket);
        }
    }

    fn pause(&mut self, token: Token) {
        if let Some(connection) = self.connection(token) {
            connection.paused = true;
        }
    }

    fn resume(&mut self, token: Token) {
        let Some(connection) = self.connection(token) else { return };
        connection.paused = false;
        if connection.readable && !connection.queued && !connection.ended {
            connection.queued = true;
            self.ready.push(token);
        }
    }

    fn close(&mut self, token: Token) {
        if self.connection(token).is_some() {
            // Dropping the descriptor takes it out of the epoll set.
            self.connections[token.index()] = None;
        }
    }

    fn release(&mut self, token: Token) {
        if self.connection(token).is_some() {
            self.leaving.push(token);
        }
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn poll(&mut self, timeout: Option<Duration>, sink: &mut dyn Sink) -> io::Result<()> {
        let mut limit = self.sleep_limit(timeout)?;
        self.report_done(sink);
        self.hand_over(sink);
        if limit != Some(Duration::ZERO) && !self.waker.fall_asleep() {
            limit = Some(Duration::ZERO);
        }
        let limit = limit.map(whole_milliseconds);
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let waited = match epoll::wait(&self.epoll, &mut events, limit.as_ref()) {
            Ok((ready, _)) => Ok(&*ready),
            Err(Errno::INTR) => Ok(&[][..]),
            Err(errno) => Err(errno),
        };
        if self.waker.wake_up() {
            sink.woken();
        }
        if let Ok(ready) = waited {
            self.receive_ready(sink);
            for event in ready {
                self.handle(*event, sink);
            }
        }
        waited.map(drop).map_err(io::Error::from)
    }
}

/// The timeout rounded up to what plain `epoll_wait` takes; the newer call with nanoseconds is often
/// forbidden by seccomp.
fn whole_milliseconds(timeout: Duration) -> Timespec {
    let milliseconds = timeout.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i64;
    Timespec { tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000 }
}
