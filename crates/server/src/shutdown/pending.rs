//! A shutdown that waits for replicas to have all writes; writes wait in that time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use martlet_base::sync::lock;
use martlet_engine::Waiter;

use crate::config::ShutdownFlags;
use crate::process::ShutdownSignal;

/// The answer to SHUTDOWN when the server continues.
pub const FAILED: &str = "ERR Errors trying to SHUTDOWN. Check logs.";

/// A shutdown that waits for replicas to have all writes; writes wait in that time.
#[derive(Default)]
pub struct PendingShutdown {
    /// Its deadline, Unix milliseconds; 0 for none.
    until_ms: AtomicI64,
    asked: Mutex<Asked>,
    /// A signal on which the server is to end, and no thread has begun to.
    signal: Mutex<Option<ShutdownSignal>>,
}

/// The request, and its client.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) flags: ShutdownFlags,
    pub(super) waiters: Vec<Arc<Waiter>>,
}

impl PendingShutdown {
    /// Notes a signal on which the server is to end.
    pub fn note_signal(&self, signal: ShutdownSignal) {
        *lock(&self.signal) = Some(signal);
    }

    /// Takes the signal that was noted last, if it has not been taken.
    pub fn take_signal(&self) -> Option<ShutdownSignal> {
        lock(&self.signal).take()
    }

    /// Whether there is one.
    pub fn is_on(&self) -> bool {
        self.until_ms.load(Ordering::Acquire) != 0
    }

    /// Begins one, which waits until `until_ms` at most.
    pub(super) fn begin(&self, flags: ShutdownFlags, until_ms: i64) {
        lock(&self.asked).flags = flags;
        self.until_ms.store(until_ms, Ordering::Release);
    }

    /// Until when it waits at most, Unix milliseconds.
    pub fn until_ms(&self) -> Option<i64> {
        Some(self.until_ms.load(Ordering::Acquire)).filter(|until_ms| *until_ms != 0)
    }

    /// One more client waits for it.
    pub fn add(&self, waiter: Arc<Waiter>) {
        lock(&self.asked).waiters.push(waiter);
    }

    /// Takes the clients that wait without one.
    pub(super) fn take_asked(&self) -> Asked {
        std::mem::take(&mut *lock(&self.asked))
    }

    /// Ends the wait; returns the request, if there was one.
    pub(super) fn take(&self) -> Option<Asked> {
        let mut asked = lock(&self.asked);
        (self.until_ms.swap(0, Ordering::AcqRel) != 0).then(|| std::mem::take(&mut *asked))
    }
}
