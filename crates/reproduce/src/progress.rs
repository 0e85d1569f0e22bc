//! How far a run is: a bar where standard error is a terminal, and a line for each row.

use crate::claims::number;
use crate::rows::Row;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use martlet_bench::outln;
use std::time::Duration;

/// Planned seconds from which on what rows really took corrects the plan.
const TRUSTED_S: f64 = 3.0;

/// The bar and its estimates. It disappears when dropped.
pub struct Progress {
    bar: ProgressBar,
    planned_s: f64,
    done: Done,
    rows: usize,
}

/// The rows measured in this run.
#[derive(Clone, Copy, Default)]
struct Done {
    rows: usize,
    /// Seconds that its rows were planned to take, and did.
    planned_s: f64,
    took_s: f64,
}

impl Done {
    /// Seconds that are left of a plan, corrected by the times of the rows so far.
    fn left_s(&self, planned_s: f64) -> f64 {
        let correction = if self.planned_s < TRUSTED_S { 1.0 } else { self.took_s / self.planned_s };
        (planned_s - self.planned_s).max(0.0) * correction
    }
}

impl Progress {
    /// A run of `rows` rows.
    pub fn new(planned_s: f64, rows: usize) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(rows as u64), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let progress = Progress { bar, planned_s, done: Done::default(), rows };
        progress.say(&format!("{rows} rows, {}", progress.left()));
        progress
    }

    fn left(&self) -> String {
        let seconds = self.done.left_s(self.planned_s);
        match seconds {
            90.0.. => format!("some {} min left", (seconds / 60.0).round()),
            _ => format!("some {} s left", seconds.ceil()),
        }
    }

    /// A row begins.
    pub fn begin(&self, experiment: &str, trial: &str, server: &str) {
        self.bar.set_message(format!("{experiment} {trial}, {server}; {}", self.left()));
        self.bar.tick();
    }

    /// A row has been measured.
    pub fn done(&mut self, row: &Row, planned_s: f64) {
        self.done.rows += 1;
        self.done.planned_s += planned_s;
        self.done.took_s += row.took_s;
        self.bar.inc(1);
        let found = match (&row.failed, row.values.get("rate"), row.values.iter().next()) {
            (Some(error), ..) => format!("FAILED: {error}"),
            (None, Some(rate), _) => format!("{} requests/s", number(*rate)),
            (None, None, Some((name, value))) => format!("{name} {}", number(*value)),
            (None, None, None) => String::new(),
        };
        let (place, left) = (format!("{}/{}", self.done.rows, self.rows), self.left());
        self.say(&format!("{place} {} {}, {}: {found}; {left}", row.experiment, row.trial, row.server));
    }

    /// Prints a line above the bar.
    fn say(&self, line: &str) {
        self.bar.suspend(|| outln!("{line}"));
        self.bar.enable_steady_tick(Duration::from_secs(1));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rows_took_corrects_the_time_that_is_left() {
        assert_eq!(Done::default().left_s(100.0), 100.0);
        let early = Done { rows: 1, planned_s: 1.0, took_s: 5.0 };
        assert_eq!(early.left_s(101.0), 100.0);
        let slow = Done { rows: 9, planned_s: 20.0, took_s: 30.0 };
        assert_eq!(slow.left_s(100.0), 120.0);
        assert_eq!(Done { planned_s: 120.0, ..slow }.left_s(100.0), 0.0);
    }
}
