//! Ends a backend's sleep from another thread, at one system call per sleep.
//!
//! The protocol is in `state`. Only the first wake of a sleep costs a system call, and a wake of a thread
//! that is awake costs one atomic exchange. The owner never reads the descriptor: both backends watch it
//! edge-triggered.

mod state;

/// What `state` is built on; its tests build it on loom's instead.
mod atomic {
    pub use std::sync::atomic::{AtomicU32, Ordering};
}

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use state::State;

enum Signal {
    Eventfd(OwnedFd),
    Function(Box<dyn Fn() + Send + Sync>),
}

struct Shared {
    state: State,
    signal: Signal,
}

/// Ends its backend's sleep, from any thread; cheap when the backend's thread is awake.
///
/// The caller's writes before [`Waker::wake`] are visible to the owner when it receives `woken`.
#[derive(Clone)]
pub struct Waker(Arc<Shared>);

impl Waker {
    /// A waker whose sleeper is signalled by `signal`: for a backend that sleeps on something else than a
    /// descriptor.
    pub fn from_fn(signal: impl Fn() + Send + Sync + 'static) -> Waker {
        Waker(Arc::new(Shared { state: State::new(), signal: Signal::Function(Box::new(signal)) }))
    }

    /// A waker that writes to an eventfd, see [`Waker::descriptor`].
    pub(crate) fn with_eventfd() -> io::Result<Waker> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker(Arc::new(Shared { state: State::new(), signal: Signal::Eventfd(fd) })))
    }

    /// Wakes the owner: its present sleep ends, or its next one does not begin, and it receives `woken` once.
    pub fn wake(&self) {
        if self.0.state.notify() {
            self.signal();
        }
    }

    #[cold]
    fn signal(&self) {
        match &self.0.signal {
            // Only a counter near 2^64 can make this fail, and then the descriptor is readable anyway.
            Signal::Eventfd(fd) => drop(rustix::io::write(fd, &1u64.to_ne_bytes())),
            Signal::Function(signal) => signal(),
        }
    }

    /// For the owner, before it sleeps. False: it was woken already and must not sleep.
    pub fn fall_asleep(&self) -> bool {
        self.0.state.fall_asleep()
    }

    /// For the owner, after its sleep or instead of one. True: it was woken since the last call.
    pub fn wake_up(&self) -> bool {
        self.0.state.wake_up()
    }

    /// The eventfd to watch, edge-triggered.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.0.signal {
            Signal::Eventfd(fd) => Some(fd.as_fd()),
            Signal::Function(_) => None,
        }
    }
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Waker").field(&self.0.state).finish()
    }
}

#[cfg(test)]
mod tests;
