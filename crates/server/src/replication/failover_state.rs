//! How far a failover is that the user has asked for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use martlet_base::sync::lock;
use martlet_replication::failover;

pub use martlet_replication::failover::State;

use crate::config::Primary;

/// The question to a replica for its offset.
pub const GETACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

/// The request.
pub type Request = failover::Request<Primary>;

/// See the [module docs](self). One per server.
#[derive(Default)]
pub struct Failover {
    under_way: Mutex<failover::Failover<Primary>>,
    /// It is not [`State::None`].
    is_on: AtomicBool,
}

impl Failover {
    /// How far it is.
    pub fn state(&self) -> State {
        if self.is_on.load(Ordering::Acquire) { lock(&self.under_way).state() } else { State::None }
    }

    /// Whether there is one.
    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Its state machine.
    pub(super) fn under_way(&self) -> MutexGuard<'_, failover::Failover<Primary>> {
        lock(&self.under_way)
    }

    /// Begins one; whether there was none.
    pub fn begin(&self, request: Request) -> bool {
        let mut under_way = lock(&self.under_way);
        let begins = under_way.begin(request);
        if begins {
            self.is_on.store(true, Ordering::Release);
        }
        begins
    }

    /// Ends it, however; returns its state, and its request.
    pub(super) fn end(&self) -> (State, Request) {
        let mut under_way = lock(&self.under_way);
        self.is_on.store(false, Ordering::Release);
        under_way.end()
    }
}
