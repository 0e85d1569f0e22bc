//! Lines that are drawn again and again in the same place of a terminal.
//!
//! Invariant: after a drawing the cursor stands above the lines; after the last one, below them.

use std::io::Write;
use std::time::{Duration, Instant};

/// Between two drawings.
const REFRESH_INTERVAL: Duration = Duration::from_millis(300);
/// Columns of the bar.
const BAR_WIDTH: usize = 60;

/// A place of the terminal; without one nothing is drawn.
pub struct Screen {
    pub is_terminal: bool,
    drawn: Instant,
    lines: usize,
}

/// Writes at once, without the end of a line.
pub fn show(text: &str) {
    print!("{text}");
    // If the reader is gone, the next write fails.
    let _ = std::io::stdout().flush();
}

impl Screen {
    pub fn new() -> Screen {
        Screen { is_terminal: crate::to_terminal(), drawn: Instant::now(), lines: 0 }
    }

    /// Whether it is time to draw.
    pub fn is_due(&self) -> bool {
        self.is_terminal && self.drawn.elapsed() >= REFRESH_INTERVAL
    }

    /// Draws, and goes back to the first line.
    pub fn draw(&mut self, text: &str) {
        let mut out = String::new();
        for line in text.lines() {
            out.push_str(line);
            out.push_str("\x1b[K\n");
        }
        let lines = text.lines().count();
        // What an earlier drawing left below.
        for _ in lines..self.lines {
            out.push_str("\x1b[K\n");
        }
        let most = lines.max(self.lines);
        if most > 0 {
            out.push_str(&format!("\x1b[{most}A\r"));
        }
        show(&out);
        (self.lines, self.drawn) = (lines, Instant::now());
    }

    /// Draws for the last time and stays below.
    pub fn end(&mut self, text: &str) {
        self.draw("");
        print!("{text}");
    }
}

/// The part of `total` that `done` is.
fn part(done: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { (done as f64 / total as f64).min(1.0) }
}

/// A bar, or words where it would be none, with the number of keys.
pub fn progress(is_terminal: bool, sampled: u64, total: u64) -> String {
    let part = part(sampled, total);
    let bar = if is_terminal {
        let done = (BAR_WIDTH as f64 * part).round() as usize;
        let (done, left) = ("|".repeat(done), "-".repeat(BAR_WIDTH - done));
        format!("\x1b[32m{done}\x1b[31m{left}\x1b[39m")
    } else {
        "keys scanned".into()
    };
    format!("{:6.2}% {bar}\nKeys sampled: {sampled}\n", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_stays_within_its_bar() {
        assert_eq!(progress(false, 5, 20), " 25.00% keys scanned\nKeys sampled: 5\n");
        assert_eq!(progress(false, 0, 0), "  0.00% keys scanned\nKeys sampled: 0\n");
        let bar = progress(true, 30, 20);
        assert!(bar.starts_with("100.00% ") && bar.matches('|').count() == BAR_WIDTH, "{bar}");
    }
}
