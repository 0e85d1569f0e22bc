//! The listening sockets of an io_uring backend, and the pause after accepting failed.

use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use io_uring::types::Fd;
use io_uring::{cqueue, opcode};
use rustix::io::Errno;

use super::ring::Ring;
use super::{Kind, Tag, cancel, close_queued};
use crate::Sink;
use crate::accept::{ACCEPT_BACKOFF, is_passing};

struct Listener {
    /// -1: free.
    fd: RawFd,
    tag: u32,
    epoch: u32,
    armed: bool,
}

/// See the module.
#[derive(Default)]
pub struct Listeners {
    listeners: Vec<Listener>,
    /// A listener is not armed, though it should be.
    disarmed: bool,
    again_at: Option<Instant>,
}

impl Listeners {
    /// Starts accepting from `listener`.
    pub fn add(&mut self, ring: &mut Ring, listener: OwnedFd, tag: u32) {
        let index = self.listeners.iter().position(|listener| listener.fd < 0).unwrap_or_else(|| {
            self.listeners.push(Listener { fd: -1, tag, epoch: 0, armed: false });
            self.listeners.len() - 1
        });
        if let Some(slot) = self.listeners.get_mut(index) {
            *slot = Listener { fd: listener.into_raw_fd(), tag, epoch: slot.epoch + 1, armed: false };
            slot.arm(ring, index);
        }
    }

    /// Stops accepting from the listeners with `tag` and closes them.
    pub fn remove(&mut self, ring: &mut Ring, tag: u32) {
        for (index, listener) in self.listeners.iter_mut().enumerate() {
            if listener.tag == tag && listener.fd >= 0 {
                listener.close(ring, index);
            }
        }
    }

    /// Closes all of them.
    pub fn clear(&mut self, ring: &mut Ring) {
        for (index, listener) in self.listeners.iter_mut().enumerate() {
            if listener.fd >= 0 {
                listener.close(ring, index);
            }
        }
    }

    /// The longest sleep of the next poll; arms listeners that need it.
    pub fn sleep_limit(&mut self, ring: &mut Ring, timeout: Option<Duration>) -> Option<Duration> {
        if !self.disarmed {
            return timeout;
        }
        let rest = self
            .again_at
            .map_or(Duration::ZERO, |at| at.saturating_duration_since(martlet_base::clock::monotonic()));
        if !rest.is_zero() {
            return Some(timeout.map_or(rest, |timeout| timeout.min(rest)));
        }
        self.again_at = None;
        self.disarmed = false;
        for (index, listener) in self.listeners.iter_mut().enumerate() {
            if listener.fd >= 0 && !listener.armed {
                listener.arm(ring, index);
            }
        }
        timeout
    }

    /// A socket was accepted, or accepting failed.
    pub fn completed(&mut self, tag: Tag, completion: &cqueue::Entry, sink: &mut dyn Sink) {
        let result = completion.result();
        let socket = accepted(completion);
        let Some(listener) = self.listeners.get_mut(tag.index as usize) else { return };
        if listener.fd < 0 || listener.epoch & Tag::EPOCH_MASK != tag.epoch {
            return;
        }
        if !cqueue::more(completion.flags()) {
            listener.armed = false;
            self.disarmed = true;
        }
        match socket {
            Some(socket) => sink.accepted(listener.tag, socket),
            None if is_passing(Errno::from_raw_os_error(-result)) => {}
            None => self.again_at = Some(martlet_base::clock::monotonic() + ACCEPT_BACKOFF),
        }
    }
}

/// The socket in an accept's completion, which must be looked at once only.
pub fn accepted(completion: &cqueue::Entry) -> Option<OwnedFd> {
    let is_accept = Tag::unpack(completion.user_data()).kind == Kind::Accept;
    // SAFETY: an accept's result that is not negative is a descriptor that the kernel made for this
    // completion.
    (is_accept && completion.result() >= 0).then(|| unsafe { OwnedFd::from_raw_fd(completion.result()) })
}

impl Listener {
    fn operation(&self, index: usize) -> Tag {
        Tag { kind: Kind::Accept, epoch: self.epoch & Tag::EPOCH_MASK, index: index as u32 }
    }

    fn arm(&mut self, ring: &mut Ring, index: usize) {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let accept = opcode::AcceptMulti::new(Fd(self.fd)).flags(flags).build();
        // SAFETY: a multishot accept points to no memory.
        unsafe { ring.push(&accept.user_data(self.operation(index).pack())) };
        self.armed = true;
    }

    fn close(&mut self, ring: &mut Ring, index: usize) {
        if self.armed {
            cancel(ring, self.operation(index));
        }
        close_queued(ring, self.fd);
        self.fd = -1;
        self.armed = false;
    }
}
