//! The size of the experiments: the largest that the time, the memory and the limits of this machine allow.

use std::time::Duration;

/// The time in which everything runs at its full size.
pub const FULL_BUDGET: Duration = Duration::from_secs(30 * 60);
/// The time of `--quick`.
pub const QUICK_BUDGET: Duration = Duration::from_secs(3 * 60);
/// Below it, rows that only confirm others are left out.
const BRIEF_BUDGET: Duration = Duration::from_secs(10 * 60);
/// Memory that the full size needs: the largest data set, its copies while it is saved, a replica.
const FULL_MEMORY_BYTES: u64 = 6 << 30;
/// Files beside connections that a server has open.
const SPARE_FILES: u64 = 500;
/// Bounds of a timed row's measured time.
const UNIT_LEAST_S: f64 = 0.05;
const UNIT_MOST_S: f64 = 5.0;
/// Part of the budget that is planned; the rest is for what takes longer.
const PLANNED_SHARE: f64 = 0.85;
/// Fewest keys or requests of a row.
const COUNT_LEAST: u64 = 1000;

/// What each row takes beside its load: connecting, reading the accounts.
const ROW_S: f64 = 0.03;

/// Requests per second that loading is planned with.
const LOADING_RATE: f64 = 250_000.0;

/// The planned cost of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Timed parts, in units of the scale.
    pub units: f64,
    /// Requests whose number is given.
    pub requests: u64,
    /// Starts of servers and the like.
    pub fixed_s: f64,
}

impl Cost {
    /// Seconds, for a unit of this length.
    pub fn seconds(&self, unit: Duration) -> f64 {
        self.units * unit.as_secs_f64() + self.requests as f64 / LOADING_RATE + self.fixed_s + ROW_S
    }
}

/// The sizes of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Measured time of a timed row.
    pub unit: Duration,
    /// Part of the full numbers of keys and requests.
    pub share: f64,
    /// Rows that only confirm others are left out.
    pub brief: bool,
    /// Most connections that one process can have here.
    pub connections_most: u64,
}

impl Scale {
    /// Sizes for a budget on this machine; the unit is set when the rows are known.
    pub fn of(budget: Duration, available_bytes: u64, connections_most: u64) -> Scale {
        let by_time = budget.as_secs_f64() / FULL_BUDGET.as_secs_f64();
        let by_memory = available_bytes as f64 / FULL_MEMORY_BYTES as f64;
        Scale {
            unit: Duration::ZERO,
            share: by_time.min(by_memory).min(1.0),
            brief: budget < BRIEF_BUDGET,
            connections_most,
        }
    }

    /// A number of keys or requests, given that of the full size; two digits of it count.
    pub fn count(&self, full: u64) -> u64 {
        let exact = (full as f64 * self.share).round() as u64;
        let unit = 10u64.pow(exact.max(1).ilog10().saturating_sub(1));
        (exact / unit * unit).max(COUNT_LEAST.min(full))
    }

    /// The same of connections: as many as asked for, but not more than this machine has, or the time allows.
    pub fn connections(&self, asked: u64) -> u64 {
        asked.min(self.connections_most).min(self.count(asked.saturating_mul(20)))
    }

    /// The unit with which rows of these costs take the budget.
    pub fn unit_for(budget: Duration, costs: &[Cost]) -> Duration {
        let units: f64 = costs.iter().map(|cost| cost.units).sum();
        let fixed: f64 = costs.iter().map(|cost| cost.seconds(Duration::ZERO)).sum();
        let left = budget.as_secs_f64() * PLANNED_SHARE - fixed;
        Duration::from_secs_f64((left / units.max(1.0)).clamp(UNIT_LEAST_S, UNIT_MOST_S))
    }
}

/// Bytes of memory of this machine, all and available.
pub fn memory() -> (u64, u64) {
    let field = |name| martlet_bench::process::named_bytes("/proc/meminfo", name);
    (field("MemTotal:"), field("MemAvailable:"))
}

/// Most connections that a process can have here.
pub fn connections_most() -> u64 {
    // SAFETY: plain data passed by pointer to a call that only fills it.
    let limit = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 { limit.rlim_max } else { 1024 }
    };
    limit.saturating_sub(SPARE_FILES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLENTY: u64 = 1 << 40;

    #[test]
    fn the_full_budget_has_the_full_size() {
        let scale = Scale::of(FULL_BUDGET, PLENTY, 100_000);
        assert_eq!(
            (scale.count(4_000_000), scale.connections(30_000), scale.brief),
            (4_000_000, 30_000, false)
        );
        let quick = Scale::of(QUICK_BUDGET, PLENTY, 19_500);
        assert_eq!((quick.count(4_000_000), quick.connections(30_000), quick.brief), (400_000, 19_500, true));
    }

    #[test]
    fn memory_and_the_least_size_bound_it() {
        let small = Scale::of(FULL_BUDGET, FULL_MEMORY_BYTES / 4, 1000);
        assert_eq!((small.count(1_000_000), small.connections(30_000)), (250_000, 1000));
        let tiny = Scale::of(Duration::from_secs(1), PLENTY, 1000);
        assert_eq!((tiny.count(10_000), tiny.count(4_000_000), tiny.count(100)), (1000, 2200, 100));
    }

    #[test]
    fn the_unit_fills_what_fixed_costs_leave() {
        let costs = [Cost { units: 10.0, requests: 0, fixed_s: 2.0 }; 4];
        let unit = Scale::unit_for(Duration::from_secs(100), &costs).as_secs_f64();
        assert!(
            (unit - (100.0 * PLANNED_SHARE - 4.0 * costs[0].seconds(Duration::ZERO)) / 40.0).abs() < 1e-6,
            "{unit}"
        );
        assert_eq!(Scale::unit_for(Duration::from_secs(1), &costs).as_secs_f64(), UNIT_LEAST_S);
        assert_eq!(Scale::unit_for(Duration::from_secs(9999), &costs).as_secs_f64(), UNIT_MOST_S);
    }
}
