//! The times of a history: nanoseconds since it began, alike for all of its clients.

use std::time::Instant;

use super::Span;

/// The time since a history began.
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    pub fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    pub fn span_since(&self, began_ns: u64) -> Span {
        Span { began_ns, ended_ns: self.now_ns() }
    }
}
