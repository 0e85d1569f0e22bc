//! `watchdog-period`: when a thread that serves clients has been busy for longer, the log shows where it and
//! all others are.
//!
//! Invariant: each time that a thread is busy is reported once at most. There is no thread for this
//! until a period is set.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use martlet_base::sync::lock;

use crate::config::Config;
use crate::process::alarm;
use crate::runtime::Shared;
use crate::stats::ThreadStats;

/// How often it looks in a period: so much later than after the period a thread is met at most.
const LOOKS: u32 = 8;

/// The last observation of a thread.
#[derive(Clone, Copy, Debug)]
struct Observed {
    /// Its count of turns ([`ThreadStats::turns`]).
    turns: u64,
    /// When that count was first seen.
    since: Instant,
    is_reported: bool,
}

impl Observed {
    fn new(turns: u64, since: Instant) -> Observed {
        Observed { turns, since, is_reported: false }
    }

    /// Looks at the thread; whether it has been busy with the same for a period and is to be reported.
    fn look(&mut self, turns: u64, now: Instant, period: Duration) -> bool {
        if turns != self.turns {
            *self = Observed::new(turns, now);
        }
        let is_busy = turns % 2 == 1;
        let is_due = is_busy && !self.is_reported && now.duration_since(self.since) >= period;
        self.is_reported |= is_due;
        is_due
    }
}

/// Watches as `watchdog-period` says, now and whenever it is changed.
pub fn install(shared: &'static Shared) {
    let thread = std::sync::Mutex::new(None::<Sender<u32>>);
    let apply = move |config: &Config| -> Result<(), String> {
        let mut thread = lock(&thread);
        if thread.is_none() && config.watchdog_period_ms > 0 {
            *thread = Some(start(shared).map_err(|error| format!("Can't start the watchdog: {error}"))?);
        }
        if let Some(sender) = &*thread {
            // It lives as long as the process.
            let _ = sender.send(config.watchdog_period_ms);
        }
        Ok(())
    };
    if let Err(error) = apply(&shared.config.snapshot()) {
        tracing::warn!("{error}");
    }
    shared.config.on_change(&["watchdog-period", "hz"], Box::new(move |_, new| apply(new)));
}

fn start(shared: &'static Shared) -> std::io::Result<Sender<u32>> {
    let (sender, periods) = channel();
    std::thread::Builder::new().name("watchdog".into()).spawn(move || watch(shared, &periods))?;
    Ok(sender)
}

fn watch(shared: &Shared, periods: &Receiver<u32>) {
    let mut period_ms = 0;
    let mut observed: Vec<Observed> = Vec::new();
    loop {
        let next = match period_ms {
            0 => periods.recv().map_err(|_| RecvTimeoutError::Disconnected),
            ms => periods.recv_timeout(Duration::from_millis(u64::from(ms)) / LOOKS),
        };
        let now = martlet_base::clock::monotonic();
        let turns = |thread: &ThreadStats| thread.turns.load(Ordering::Relaxed);
        match next {
            Ok(ms) => {
                period_ms = ms;
                observed = shared.threads.iter().map(|thread| Observed::new(turns(thread), now)).collect();
            }
            Err(RecvTimeoutError::Timeout) => {
                let period = Duration::from_millis(u64::from(period_ms));
                for (observed, thread) in observed.iter_mut().zip(shared.threads.iter()) {
                    if observed.look(turns(thread), now, period) {
                        alarm(thread.kernel_id.load(Ordering::Relaxed));
                    }
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_that_a_thread_is_busy_is_reported_once_and_rest_never() {
        let began = Instant::now();
        let period = Duration::from_millis(200);
        let at = |ms: u64| began + Duration::from_millis(ms);
        let mut observed = Observed::new(0, began);
        // It rests for long.
        assert!(!observed.look(0, at(500), period));
        // Busy from 500 on at the earliest, as far as is seen since 510.
        assert!(!observed.look(1, at(510), period));
        assert!(!observed.look(1, at(700), period));
        assert!(observed.look(1, at(710), period));
        assert!(!observed.look(1, at(2000), period));
        // Another time, however short the rest between.
        assert!(!observed.look(3, at(2010), period));
        assert!(!observed.look(5, at(2210), period));
        assert!(observed.look(5, at(2410), period));
    }
}
