//! I/O backends: io_uring and epoll behind one trait.
//!
//! One backend belongs to one I/O thread. The thread's loop is `poll`, run what arrived, `send` once per
//! connection that has replies, `poll` again. A backend knows sockets and bytes, never commands. What always
//! holds: buffers given to [`Backend::send`] leave in order and come back, whole, through [`Sink::sent`];
//! nothing is reported for a token after [`Backend::close`] of it. A connection moves from one thread to
//! another by [`Backend::release`] here and [`Backend::adopt`] there; bytes that arrive in between wait in
//! the socket.

mod accept;
mod buffer;
mod choose;
mod epoll;
mod listen;
mod outgoing;
mod tls;
mod uring;
mod waker;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

pub use buffer::Buffer;
pub use choose::{Choice, Kind, choose, probe};
pub use epoll::Epoll;
pub use listen::{begin_connect, listen_tcp, listen_tcp_beside, listen_unix, set_keepalive, set_nodelay};
pub use rustls;
pub use tls::{Tls, alternative_uri, common_name};
pub use uring::Uring;
pub use waker::Waker;

/// A connection's place in its thread's tables, chosen by the server and unique among the thread's live
/// connections.
///
/// The low 32 bits are an index: backends keep an array by it, so it must be dense (reuse freed indexes). The
/// high 32 bits are a generation that distinguishes successive users of the index.
#[derive(Copy, Clone, Eq, PartialEq, Hash, Debug, PartialOrd, Ord)]
pub struct Token(pub u64);

impl Token {
    /// The token of `index` in its `generation`.
    #[inline]
    pub const fn new(index: u32, generation: u32) -> Token {
        Token((generation as u64) << 32 | index as u64)
    }

    /// The dense index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as u32 as usize
    }

    /// The generation of the index.
    #[inline]
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Bytes that have arrived on a connection.
#[derive(Copy, Clone, Debug)]
pub struct Arrival<'a> {
    /// The connection.
    pub token: Token,
    /// What arrived; never empty.
    pub data: &'a [u8],
}

impl Arrival<'_> {
    /// The bytes that are announced together at most, and of how many connections.
    const AHEAD_BYTES: usize = 8 << 10;
    const AHEAD: usize = 16;
    const NONE: Arrival<'static> = Arrival { token: Token(u64::MAX), data: &[] };
}

/// The sockets of one I/O thread.
///
/// Calls on a token that is not adopted, or is closed already, do nothing. A backend is used by one thread,
/// the first one that calls anything but [`Backend::waker`].
pub trait Backend {
    /// `io_uring` or `epoll`, as INFO shows it.
    fn name(&self) -> &'static str;

    /// Accepts from `listener` until [`Backend::unlisten`]; each accepted socket arrives at
    /// [`Sink::accepted`] with `tag`. When accepting fails (out of descriptors, say) the backend pauses
    /// briefly and tries again.
    ///
    /// # Errors
    /// The kernel's, when the descriptor cannot be watched.
    fn listen(&mut self, listener: OwnedFd, tag: u32) -> io::Result<()>;

    /// Stops accepting on every listener with `tag` and closes it. Sockets accepted before may still arrive.
    fn unlisten(&mut self, tag: u32);

    /// Takes a connected stream socket and starts to receive from it.
    ///
    /// # Errors
    /// The kernel's; `AlreadyExists` when the token's index is in use. The socket is closed then.
    fn adopt(&mut self, socket: OwnedFd, token: Token) -> io::Result<()>;

    /// As [`Backend::adopt`], with TLS on top: the sink sees plain bytes, after [`Sink::secured`].
    ///
    /// # Errors
    /// `Unsupported` by a backend that [`Tls`] does not wrap; otherwise as [`Backend::adopt`].
    fn adopt_tls(&mut self, _: OwnedFd, _: Token, _: &Arc<rustls::ServerConfig>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Writes a few last bytes at once, if nothing is under way before them and the socket has room; else
    /// they are lost. They do not come back. To be followed by [`Backend::close`].
    fn farewell(&mut self, _: Token, _: &[u8]) {}

    /// Has the kernel gather small pieces that are sent there, at the cost of some delay.
    fn gather(&mut self, _: Token) {}

    /// For how long no byte has left a TCP connection, also where a buffer is under way; `None` where the
    /// kernel does not say.
    fn output_idle(&mut self, _: Token) -> Option<Duration> {
        None
    }

    /// A number that changes as the peer of a Unix socket reads, and the kernel takes more of the buffer
    /// under way: for sockets of which [`Backend::output_idle`] knows nothing. `None` for a token that has
    /// none.
    fn output_mark(&mut self, _: Token) -> Option<u64> {
        None
    }

    /// Queues `buffer` behind earlier ones. Any number may be queued; each comes back through [`Sink::sent`],
    /// in order (an empty one possibly sooner).
    ///
    /// A buffer that the kernel takes at once is reported by the next `poll`, but does not by itself end its
    /// sleep; one that had to wait for the reader does. A caller that acts on the end of a send (closes after
    /// a last reply, sends the next piece of a long one) therefore gives that poll a timeout of zero, once.
    fn send(&mut self, token: Token, buffer: Buffer);

    /// Stops receiving; bytes that the backend has received already may still be delivered. While paused, the
    /// peer's close goes unnoticed.
    fn pause(&mut self, token: Token);

    /// Receives again after [`Backend::pause`].
    fn resume(&mut self, token: Token);

    /// Cancels pending operations and closes. Nothing is reported for the token from here on, and its index
    /// may be reused. Buffers that the kernel still reads stay alive until it is done.
    fn close(&mut self, token: Token);

    /// Asks for the socket back, for another thread's backend: a poll hands it over by [`Sink::released`]
    /// once all that was received has been reported. Nothing happens if the connection cannot be given up
    /// then: something is under way to its peer, it is paused, its stream has ended, it speaks TLS.
    fn release(&mut self, _: Token) {}

    /// A handle that ends this backend's sleep in `poll` from any thread.
    fn waker(&self) -> Waker;

    /// Starts queued operations, sleeps until there is something to report, a waker wakes or `timeout` has
    /// passed (`None`: no limit; zero: does not sleep), and reports.
    ///
    /// # Errors
    /// Only when the backend itself is broken; a connection's errors go to the sink.
    fn poll(&mut self, timeout: Option<Duration>, sink: &mut dyn Sink) -> io::Result<()>;
}

/// Where a backend reports to, in the middle of [`Backend::poll`].
pub trait Sink {
    /// A connection was accepted by the listener with `tag`. The socket is non-blocking and close-on-exec.
    fn accepted(&mut self, tag: u32, socket: OwnedFd);

    /// Bytes arrived. `data` is never empty and valid for the call only; a poll may deliver several pieces.
    /// Returns whether they were worked on; false if they were only kept for the connection's next turn, so
    /// that the poll proceeds to other connections at once.
    fn received(&mut self, token: Token, data: &[u8]) -> bool;

    /// These will be reported next, in this order, each by [`Sink::received`]. A hint: ask for what will be
    /// needed then, so that their cache misses overlap.
    fn will_receive(&mut self, _arrivals: &[Arrival<'_>]) {}

    /// A buffer comes back: written whole, or not (then nothing more can be sent on the connection).
    fn sent(&mut self, token: Token, buffer: Buffer, result: io::Result<()>);

    /// Nothing more will be received: the peer ended its stream (`None`) or the connection failed. After
    /// `None`, sending still works, unless a send has failed: the kernel reports a connection's error once,
    /// here or there. The connection stays adopted until [`Backend::close`].
    fn closed(&mut self, token: Token, reason: Option<io::Error>);

    /// The socket of a connection that [`Backend::release`] was asked for. The backend has nothing of it any
    /// more, and its token's index may be reused.
    fn released(&mut self, _token: Token, _socket: OwnedFd) {}

    /// A connection's TLS handshake is done; `certificate` is the client's, verified by the server, as DER.
    fn secured(&mut self, _token: Token, _certificate: Option<&[u8]>) {}

    /// A [`Waker`] was used since the last poll returned.
    fn woken(&mut self);
}
