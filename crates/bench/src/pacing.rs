//! The instants at which requests are due in open loop. They depend on the rate and the seed alone, never on
//! how the server does: a request that could not be sent in time keeps its instant, and its latency runs from
//! there.

use martlet_base::random::Random;

/// A thread's share of the schedule.
pub struct Schedule {
    next_ns: f64,
    gap_ns: f64,
    poisson: Option<Random>,
}

impl Schedule {
    /// `rate` requests per second over `threads` threads, of which this is the `thread`-th; equal gaps are
    /// staggered between threads. Instants count in nanoseconds from the run's start.
    pub fn new(rate: f64, threads: usize, thread: usize, poisson: bool, seed: u64) -> Schedule {
        let gap_ns = 1e9 * threads as f64 / rate;
        let mut random = poisson.then(|| Random::seeded(seed ^ 0x5DEE_CE66 ^ ((thread as u64) << 40)));
        let first = match random.as_mut() {
            Some(random) => exponential(random, gap_ns),
            None => gap_ns * thread as f64 / threads as f64,
        };
        Schedule { next_ns: first, gap_ns, poisson: random }
    }

    /// When the next request is due.
    pub fn peek(&self) -> u64 {
        self.next_ns as u64
    }

    /// Advances to the next request.
    pub fn advance(&mut self) {
        self.next_ns += match self.poisson.as_mut() {
            Some(random) => exponential(random, self.gap_ns),
            None => self.gap_ns,
        };
    }
}

fn exponential(random: &mut Random, mean: f64) -> f64 {
    -(1.0 - random.unit_f64()).ln() * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instants(mut schedule: Schedule, count: usize) -> Vec<u64> {
        (0..count)
            .map(|_| {
                let due = schedule.peek();
                schedule.advance();
                due
            })
            .collect()
    }

    #[test]
    fn constant_gaps_interleave_over_threads() {
        let a = instants(Schedule::new(1_000_000.0, 2, 0, false, 1), 4);
        let b = instants(Schedule::new(1_000_000.0, 2, 1, false, 1), 4);
        assert_eq!(a, [0, 2000, 4000, 6000]);
        assert_eq!(b, [1000, 3000, 5000, 7000]);
    }

    #[test]
    fn a_fractional_gap_does_not_drift() {
        let last = *instants(Schedule::new(300_000.0, 1, 0, false, 1), 300_001).last().expect("some");
        assert!((999_999_990..=1_000_000_010).contains(&last), "{last}");
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let due = instants(Schedule::new(1000.0, 1, 0, true, 9), 100_001);
        let gaps: Vec<f64> = due.windows(2).map(|w| (w[1] - w[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.02, "seed 9: mean {mean}");
        assert!((variance - 1.0).abs() < 0.05, "seed 9: variance {variance}");
        let longer = gaps.iter().filter(|g| **g > 1.0).count() as f64 / gaps.len() as f64;
        assert!((longer - (-1.0f64).exp()).abs() < 0.01, "seed 9: {longer}");
    }
}
