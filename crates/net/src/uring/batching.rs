//! The number of completions that should end a sleep: more than one, when more are surely about to come.
//!
//! Under load from connections that each wait for a reply, the first request ends the sleep, is answered
//! alone, and its sender is woken for that one reply: both sides then spend more on waking up than on the
//! request. Waiting a little for the next ones cuts the cost of a request and raises the throughput. The
//! controller keeps the wait productive: it asks for the number that has been arriving together, a little
//! more after a row of successes, less after the wait ran out, and none for a growing number of sleeps after
//! a wait that brought too few to be worth it.

use std::time::Duration;

/// The longest wait.
pub const PATIENCE: Duration = Duration::from_micros(20);
/// So few are not worth a timer.
const WORTHWHILE: u32 = 4;
/// Most completions that are wanted, and one per this many connections: the others' requests arrive while the
/// batch is served, so that server and clients work at the same time.
const WANTED_MAX: u32 = 32;
const ONE_OF: u32 = 3;
/// Successes after which one more is wanted.
const ROW: u32 = 4;
/// Sleeps without wait after waits that were not worth it: from the first of a series to the last.
const REST_MIN: u32 = 16;
const REST_MAX: u32 = 1024;

/// The controller.
#[derive(Debug)]
pub struct Batching {
    /// 1: does not wait.
    wanted: u32,
    successes: u32,
    /// Sleeps until it tries again.
    rest: u32,
    next_rest: u32,
}

impl Batching {
    /// Does not wait at first.
    pub const fn new() -> Batching {
        Batching { wanted: 1, successes: 0, rest: REST_MIN, next_rest: REST_MIN }
    }

    /// The number of completions that should end the next sleep, with this number of connections; fewer are
    /// enough after [`PATIENCE`].
    #[inline]
    pub fn wanted(&mut self, connections: u32) -> u32 {
        self.wanted = self.wanted.min(connections / ONE_OF).max(1);
        self.wanted
    }

    /// Learns from a sleep that ended with `arrived` completions.
    #[inline]
    pub fn observe(&mut self, arrived: u32) {
        if self.wanted == 1 {
            self.rest -= 1;
            if self.rest == 0 {
                // Where connections are too few, `wanted` takes it back.
                self.wanted = WORTHWHILE;
                self.successes = 0;
                self.rest = self.next_rest;
            }
        } else if arrived >= self.wanted {
            self.next_rest = REST_MIN;
            self.successes += 1;
            if self.successes == ROW {
                self.successes = 0;
                self.wanted = (self.wanted + 1).min(WANTED_MAX);
            }
        } else if arrived >= WORTHWHILE {
            self.next_rest = REST_MIN;
            self.successes = 0;
            self.wanted = arrived.max(self.wanted - self.wanted / 4);
        } else {
            self.wanted = 1;
            self.rest = self.next_rest;
            self.next_rest = (self.next_rest * 2).min(REST_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs sleeps in which at most `available` connections send in time; returns the wanted number of each.
    fn run(batching: &mut Batching, sleeps: usize, available: u32) -> Vec<u32> {
        let sleep = |_| {
            let wanted = batching.wanted(1000);
            batching.observe(available.min(if wanted == 1 { 1 } else { wanted }));
            wanted
        };
        (0..sleeps).map(sleep).collect()
    }

    #[test]
    fn few_connections_are_hardly_ever_waited_for() {
        let wanted = run(&mut Batching::new(), 100_000, WORTHWHILE - 1);
        let waits = wanted.iter().filter(|wanted| **wanted > 1).count();
        assert!(waits < 100_000 / 1000 + 10, "{waits} waits");
    }

    #[test]
    fn all_connections_together_are_never_waited_for() {
        let mut batching = Batching::new();
        run(&mut batching, 1000, 1000);
        assert_eq!(batching.wanted(50), 16);
        assert_eq!(batching.wanted(4), 1);
    }

    #[test]
    fn many_connections_are_waited_for_up_to_the_limit() {
        let mut batching = Batching::new();
        let wanted = run(&mut batching, 1000, 1000);
        assert_eq!(wanted[0], 1);
        assert_eq!(wanted[999], WANTED_MAX);
        // When they leave, it notices at once.
        batching.observe(2);
        assert_eq!(batching.wanted(1000), 1);
    }

    #[test]
    fn a_middling_number_is_found_and_kept() {
        let mut batching = Batching::new();
        run(&mut batching, 1000, 11);
        let wanted = run(&mut batching, 1000, 11);
        assert!(wanted.iter().all(|wanted| (8..=12).contains(wanted)), "{wanted:?}");
        let in_vain = wanted.iter().filter(|wanted| **wanted == 12).count();
        assert!(in_vain <= 1000 / ROW as usize, "{in_vain} waits ran out");
    }
}
