//! Many connections on one thread: open, send, and wait for input. A connection has a small number, its slot,
//! that the caller chooses. Each slot owns one output buffer; the buffer is not accessible while it is being
//! sent, and `Handler::sent` gives it back. Two implementations behave alike: io_uring, and epoll where the
//! kernel or a container forbids io_uring.

mod epoll;
mod uring;

pub use epoll::EpollMux;
pub use uring::UringMux;

use crate::address::Address;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// Takes the events of one wait, in the order in which they happened per connection.
pub trait Handler {
    /// The thread has just woken and events follow: the moment to read the clock.
    fn woken(&mut self);
    /// The connection of `slot` is established.
    fn connected(&mut self, slot: usize);
    /// Bytes arrived; they are gone when this returns.
    fn data(&mut self, slot: usize, data: &[u8]);
    /// All that was handed to a `send` that gave false is with the kernel.
    fn sent(&mut self, slot: usize);
    /// The connection is over; `None` when the peer closed it in order. The slot can be opened again.
    fn closed(&mut self, slot: usize, error: Option<io::Error>);
}

/// A set of connections driven by one thread.
pub trait Mux: Sized {
    /// Room for `slots` connections.
    fn new(slots: usize) -> io::Result<Self>;
    /// Starts to connect; `connected` or `closed` follows.
    fn open(&mut self, slot: usize, address: &Address, source: Option<IpAddr>) -> io::Result<()>;
    /// The output buffer of a slot, to be filled or patched; `None` while it is being sent.
    fn buffer(&mut self, slot: usize) -> Option<&mut Vec<u8>>;
    /// Sends the whole output buffer, which keeps its contents. True when no `sent` follows: the kernel has
    /// taken all of it or, without `notify`, the caller will not touch the buffer before the last request in
    /// it has its reply, which proves the same and spares the thread a wake-up.
    fn send(&mut self, slot: usize, notify: bool) -> bool;
    /// Ends a connection without an event; the slot can be opened again at once. The peer hears of it in the
    /// next `wait` at the latest.
    fn close(&mut self, slot: usize);
    /// Hands queued sends to the kernel, sleeps until something happens or `timeout` is over (`None`: no
    /// limit), and passes on all events. A signal ends the sleep early without an error.
    fn wait(&mut self, timeout: Option<Duration>, handler: &mut impl Handler) -> io::Result<()>;
    /// "io_uring" or "epoll", as reports show it.
    fn name(&self) -> &'static str;
}

/// Whether a send failed because the peer has closed: its last bytes may still be unread, so the receiving
/// side, which delivers them first, reports the end.
fn peer_is_gone(error: i32) -> bool {
    matches!(error, libc::EPIPE | libc::ECONNRESET)
}

/// Whether this process may use io_uring as `UringMux` needs it.
pub fn uring_works() -> bool {
    UringMux::new(1).is_ok()
}

#[cfg(test)]
mod tests;
