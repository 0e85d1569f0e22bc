//! The latency monitor: per event, the last 160 samples above `latency-monitor-threshold`.
use martlet_base::sync::lock;

use std::collections::BTreeMap;
use std::sync::Mutex;

/// Samples kept per event (Redis: `LATENCY_TS_LEN`).
pub const SAMPLES: usize = 160;

/// One event's samples.
#[derive(Clone, Debug, Default)]
pub struct EventSeries {
    /// Pairs of Unix seconds and milliseconds, oldest first.
    pub samples: Vec<(i64, u64)>,
    /// Longest ever, in milliseconds.
    pub max_ms: u64,
}

/// See the [module docs](self).
#[derive(Default)]
pub struct LatencyMonitor(Mutex<BTreeMap<String, EventSeries>>);

impl LatencyMonitor {
    /// Notes that `event` took `ms`; within one second only the longest is kept.
    pub fn add(&self, event: &str, at_s: i64, ms: u64) {
        let mut events = lock(&self.0);
        let series = events.entry(event.to_owned()).or_default();
        series.max_ms = series.max_ms.max(ms);
        match series.samples.last_mut() {
            Some((second, longest)) if *second == at_s => *longest = ms.max(*longest),
            _ => {
                if series.samples.len() == SAMPLES {
                    series.samples.remove(0);
                }
                series.samples.push((at_s, ms));
            }
        }
    }

    /// All events, by name.
    pub fn events(&self) -> Vec<(String, EventSeries)> {
        lock(&self.0).iter().map(|(name, series)| (name.clone(), series.clone())).collect()
    }

    /// One event.
    pub fn event(&self, name: &str) -> Option<EventSeries> {
        lock(&self.0).get(name).cloned()
    }

    /// Forgets the events for which `which` holds; how many those were.
    pub fn reset(&self, which: impl Fn(&str) -> bool) -> usize {
        let mut events = lock(&self.0);
        let before = events.len();
        events.retain(|name, _| !which(name));
        before - events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sample_a_second_and_at_most_160() {
        let monitor = LatencyMonitor::default();
        monitor.add("command", 1, 5);
        monitor.add("command", 1, 9);
        monitor.add("command", 1, 7);
        assert_eq!(monitor.event("command").unwrap().samples, [(1, 9)]);
        for second in 2..400 {
            monitor.add("command", second, 1);
        }
        let series = monitor.event("command").unwrap();
        assert_eq!((series.samples.len(), series.max_ms), (SAMPLES, 9));
        assert_eq!(monitor.reset(|name| name == "other"), 0);
        assert_eq!(monitor.reset(|_| true), 1);
    }
}
