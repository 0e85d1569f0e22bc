//! Time: wall clock in milliseconds or microseconds, and a cheap monotonic clock in nanoseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Where time comes from. Cloning is cheap; clones of a manual clock move together.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    /// The processor's time-stamp counter, and nanoseconds per count as a fraction of 2^32.
    Counter(u64),
    /// The system's monotonic clock, where the counter is not reliable.
    System(quanta::Clock),
    /// Nanoseconds since the Unix epoch, moved by the test or the simulation.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clocks (the processor's time-stamp counter where it is reliable).
    pub fn real() -> Clock {
        let clock = system_clock();
        Clock(match counter_scale(&clock) {
            Some(scale) => Source::Counter(scale),
            None => Source::System(clock),
        })
    }

    /// A clock that stands still until its counter (nanoseconds since the Unix epoch) is changed.
    pub fn manual(unix_ns: Arc<AtomicU64>) -> Clock {
        Clock(Source::Manual(unix_ns))
    }

    /// Microseconds since the Unix epoch.
    pub fn unix_us(&self) -> i64 {
        match &self.0 {
            Source::Counter(_) | Source::System(_) => {
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
            Source::Counter(_) => read_counter(),
            Source::System(clock) => clock.raw(),
            Source::Manual(ns) => ns.load(Ordering::Relaxed),
        }
    }

    /// What raw readings are of, in Redis' words: the processor's counter with its pace, or the system clock.
    pub fn describe(&self) -> String {
        match &self.0 {
            Source::Counter(scale) => {
                format!("X86 TSC @ {:.2} ticks/us", 1_000.0 * (1u64 << 32) as f64 / *scale as f64)
            }
            Source::System(_) | Source::Manual(_) => "POSIX clock_gettime".to_owned(),
        }
    }

    /// Nanoseconds between two raw readings; 0 when they are out of order.
    #[inline]
    pub fn elapsed_ns(&self, start: u64, end: u64) -> u64 {
        match &self.0 {
            Source::Counter(scale) => scaled(end.saturating_sub(start), *scale),
            Source::System(clock) => clock.delta_as_nanos(start, end),
            Source::Manual(_) => end.saturating_sub(start),
        }
    }
}

/// A monotonic instant, for deadlines of threads that wait for the machine (the disk, a socket). What decides
/// something for a client takes its time from a [`Clock`].
pub fn monotonic() -> Instant {
    Instant::now()
}

/// The wall clock, for the lines of a log.
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// The system's clock; Miri cannot run the instructions that it is made with, and gets one that stands still.
fn system_clock() -> quanta::Clock {
    if cfg!(miri) { quanta::Clock::mock().0 } else { quanta::Clock::new() }
}

/// Counts as nanoseconds.
#[inline(always)]
fn scaled(counts: u64, scale: u64) -> u64 {
    ((u128::from(counts) * u128::from(scale)) >> 32) as u64
}

/// The processor's time-stamp counter; 0 on processors without a known one.
#[inline(always)]
fn read_counter() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has the instruction.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    0
}

/// What `quanta` measured the counter's pace to be, if it found the counter reliable.
fn counter_scale(clock: &quanta::Clock) -> Option<u64> {
    let before = read_counter();
    let raw = clock.raw();
    let is_counter = before != 0 && (before..=read_counter()).contains(&raw);
    is_counter.then(|| clock.delta_as_nanos(0, 1 << 32)).filter(|scale| *scale > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_goes_at_the_pace_of_the_systems_clock() {
        let reference = system_clock();
        let Some(scale) = counter_scale(&reference) else { return };
        for counts in [0, 1, 3, 1_000, 1 << 32, 1 << 50] {
            let expected = reference.delta_as_nanos(0, counts);
            let tolerance = 1 + expected / 1_000_000_000;
            assert!(scaled(counts, scale).abs_diff(expected) <= tolerance, "{counts}: {expected}");
        }
    }

    #[test]
    fn readings_out_of_order_are_no_time() {
        let (real, manual) = (Clock::real(), Clock::manual(Arc::default()));
        for clock in [real, manual] {
            assert_eq!((clock.elapsed_ns(5, 4), clock.elapsed_ns(7, 7)), (0, 0));
            let first = clock.raw();
            assert!(clock.raw() >= first);
        }
    }
}
