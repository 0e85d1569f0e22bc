//! When a thread has to do what, whether or not anything arrives. Times are Unix milliseconds.
//!
//! Invariant: the thread wakes up no later than the first deadline, tick or cron.

use std::collections::BTreeSet;
use std::time::Duration;

use martlet_net::Token;

/// How often due keys are looked for by a thread that works, and at the latest by one that does not.
pub(super) const TICK_MS: i64 = 10;
const IDLE_TICK_MS: i64 = 1000;
/// Interval of the remaining periodic work, and that of a thread without connections.
const CRON_MS: i64 = 100;
const IDLE_CRON_MS: i64 = 1000;
const SECOND_MS: i64 = 1000;

/// See the [module docs](self).
#[derive(Default)]
pub(crate) struct Timers {
    /// Deadlines of blocked clients.
    pub deadlines: BTreeSet<(i64, Token)>,
    /// The wall clock as of this loop's last look.
    pub looked_ms: i64,
    /// Was inside the gate since the last look for due keys.
    pub has_worked: bool,
    next_tick_ms: i64,
    next_cron_ms: i64,
    next_second_ms: i64,
    /// Whether the server is idle; the first thread's matters.
    pub idle: Idle,
    /// When a client may first have been idle for `timeout`.
    pub next_idle_ms: i64,
}

/// Sees that no command has run for a second, the first time.
#[derive(Default)]
pub(crate) struct Idle {
    /// Commands that had run at the last look.
    commands: Option<u64>,
    has_been: bool,
}

impl Idle {
    /// Asked once a second with the number of commands so far; says so once. Later pauses are a part of a
    /// server's work: the first request behind one had better find the code where it was.
    pub fn has_begun(&mut self, commands: u64) -> bool {
        let is_idle = self.commands.replace(commands) == Some(commands);
        let is_first = is_idle && !self.has_been;
        self.has_been |= is_idle;
        is_first
    }
}

impl Timers {
    /// How long the thread may sleep.
    pub fn sleep(&self) -> Duration {
        let deadline_ms = self.deadlines.first().map_or(i64::MAX, |(at_ms, _)| *at_ms);
        let next_ms = self.next_tick_ms.min(self.next_cron_ms).min(deadline_ms);
        Duration::from_millis(next_ms.saturating_sub(self.looked_ms).clamp(0, 1000) as u64)
    }

    /// Whether a second has passed since this last said so.
    pub fn is_second_over(&mut self) -> bool {
        let (is_over, at_ms) = (self.looked_ms >= self.next_second_ms, self.looked_ms);
        if is_over || self.next_second_ms > at_ms + SECOND_MS {
            self.next_second_ms = at_ms + SECOND_MS;
        }
        is_over
    }

    /// Looks at the clock; whether a deadline has passed.
    pub fn look(&mut self, now_ms: i64) -> bool {
        self.looked_ms = now_ms;
        self.deadlines.first().is_some_and(|(at_ms, _)| *at_ms <= now_ms)
    }

    /// Whether a tick is due, and whether the cron is, as of the last look.
    pub fn due(&mut self) -> (bool, bool) {
        let now_ms = self.looked_ms;
        if self.has_worked || self.next_cron_ms > now_ms + IDLE_CRON_MS {
            // A thread that rested has work again, or the clock was set back.
            self.next_tick_ms = self.next_tick_ms.min(now_ms + TICK_MS);
            self.next_cron_ms = self.next_cron_ms.min(now_ms + CRON_MS);
        }
        (now_ms >= self.next_tick_ms, now_ms >= self.next_cron_ms)
    }

    /// Sets the next tick: when keys are due again, or before, the sooner if the thread works.
    pub fn tick_done(&mut self, due_ms: i64, had_worked: bool) {
        let latest_ms = if had_worked || self.has_worked { TICK_MS } else { IDLE_TICK_MS };
        self.next_tick_ms = due_ms.min(self.looked_ms + latest_ms);
    }

    /// Sets the next cron.
    pub fn cron_begins(&mut self, is_alone: bool) {
        self.next_cron_ms = self.looked_ms + if is_alone { IDLE_CRON_MS } else { CRON_MS };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_sleeps_until_the_first_thing_that_is_due() {
        let mut timers = Timers::default();
        assert!(!timers.look(1_000));
        assert_eq!(timers.due(), (true, true));
        timers.tick_done(i64::MAX, false);
        timers.cron_begins(true);
        assert_eq!(timers.sleep(), Duration::from_millis(1000));
        timers.deadlines.insert((1_300, Token::new(1, 1)));
        assert_eq!(timers.sleep(), Duration::from_millis(300));
        assert!(!timers.look(1_299) && timers.look(1_300));
    }

    #[test]
    fn one_that_works_looks_for_due_keys_soon() {
        let mut timers = Timers::default();
        timers.look(1_000);
        timers.tick_done(i64::MAX, false);
        timers.cron_begins(true);
        timers.has_worked = true;
        assert_eq!(timers.due(), (false, false));
        assert_eq!(timers.sleep(), Duration::from_millis(TICK_MS as u64));
        timers.look(1_000 + TICK_MS);
        assert_eq!(timers.due(), (true, false));
    }

    #[test]
    fn a_server_is_idle_for_the_first_time_once() {
        let mut idle = Idle::default();
        let begun: Vec<bool> = [1, 2, 3, 3, 3, 4, 4].map(|commands| idle.has_begun(commands)).into();
        assert_eq!(begun, [false, false, false, true, false, false, false]);
    }

    #[test]
    fn a_clock_that_was_set_back_delays_nothing() {
        let mut timers = Timers::default();
        timers.look(1_000_000);
        timers.tick_done(i64::MAX, true);
        timers.cron_begins(false);
        timers.look(1_000);
        timers.due();
        assert_eq!(timers.sleep(), Duration::from_millis(TICK_MS as u64));
    }
}
