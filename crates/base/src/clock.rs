//! Time: wall clock in milliseconds or microseconds, and a cheap monotonic clock in nanoseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where time comes from. Cloning is cheap; clones of a manual clock move together.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Real(quanta::Clock),
    /// Nanoseconds since the Unix epoch, moved by the test or the simulation.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clocks (the processor's time-stamp counter where it is reliable).
    pub fn real() -> Clock {
        Clock(Source::Real(quanta::Clock::new()))
    }

    /// A clock that stands still until its counter (nanoseconds since the Unix epoch) is changed.
    pub fn manual(unix_ns: Arc<AtomicU64>) -> Clock {
        Clock(Source::Manual(unix_ns))
    }

    /// Microseconds since the Unix epoch.
    pub fn unix_us(&self) -> i64 {
        match &self.0 {
            Source::Real(_) => {
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64)
            }
            Source::Manual(ns) => (ns.load(Ordering::Relaxed) / 1_000) as i64,
        }
    }

    /// Milliseconds since the Unix epoch.
    pub fn unix_ms(&self) -> i64 {
        self.unix_us() / 1_000
    }

    /// A raw monotonic reading, to be turned into time by [`Clock::elapsed_ns`]; the cheapest there is.
    #[inline]
    pub fn raw(&self) -> u64 {
        match &self.0 {
            Source::Real(clock) => clock.raw(),
            Source::Manual(ns) => ns.load(Ordering::Relaxed),
        }
    }

    /// Nanoseconds between two raw readings; 0 when they are out of order.
    #[inline]
    pub fn elapsed_ns(&self, start: u64, end: u64) -> u64 {
        match &self.0 {
            Source::Real(clock) => clock.delta_as_nanos(start, end),
            Source::Manual(_) => end.saturating_sub(start),
        }
    }
}
