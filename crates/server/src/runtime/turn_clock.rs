//! A thread's time between two readings of the clocks: the begin of its turn, the wall clock there, and the
//! time that stands still for a transaction or a script.

use martlet_base::clock::Clock;

/// See the [module docs](self). Raw readings are those of [`Clock::raw`].
#[derive(Default)]
pub(crate) struct TurnClock {
    /// The wall clock, Unix microseconds, and the raw reading at the same instant, as of this loop's first
    /// work.
    anchor: (i64, u64),
    /// TIME's value in the running transaction or script, Unix microseconds.
    frozen_us: i64,
    /// When this turn of the loop began: a raw reading, once it did something.
    began: Option<u64>,
}

impl TurnClock {
    /// Both clocks at this instant.
    pub fn anchor(&self) -> (i64, u64) {
        self.anchor
    }

    /// Takes note of both clocks at one instant.
    pub fn set_anchor(&mut self, anchor: (i64, u64)) {
        self.anchor = anchor;
    }

    /// The wall clock at a raw reading, Unix microseconds, without reading a clock.
    pub fn us_at(&self, clock: &Clock, raw: u64) -> i64 {
        let (wall_us, anchored) = self.anchor;
        wall_us + (clock.elapsed_ns(anchored, raw) / 1_000) as i64
    }

    /// The time that stands still, Unix microseconds.
    pub fn frozen_us(&self) -> i64 {
        self.frozen_us
    }

    /// Lets time stand still here.
    pub fn freeze_at(&mut self, us: i64) {
        self.frozen_us = us;
    }

    /// When the turn began, if it has done something.
    pub fn began(&self) -> Option<u64> {
        self.began
    }

    /// The turn has done something, at this raw reading if it is the first.
    pub fn begin(&mut self, raw: u64) {
        self.began.get_or_insert(raw);
    }

    /// The next turn has done nothing yet.
    pub fn end(&mut self) {
        self.began = None;
    }
}
