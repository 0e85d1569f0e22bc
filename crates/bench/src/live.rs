//! The terminal's view of a run in progress: a bar (indicatif), or with `--live` the whole screen (ratatui).
//! Both are on standard error and only where that is a terminal, so that reports stay unchanged.

use crate::engine::{Observer, Progress, Recorder, SecondRow};
use crate::plan::Plan;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style};
use ratatui::widgets::{Block, Gauge, Row, Sparkline, Table};
use std::io::{IsTerminal, Stderr, stderr};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Seconds that the plots of the live view show.
const SHOWN_SECONDS: usize = 120;

/// The share of a run that is done, from 0 to 1; `None` for a run without an end.
fn done(plan: &Plan, requests: u64, elapsed: Duration) -> Option<f64> {
    let by_time = plan.duration.map(|d| elapsed.as_secs_f64() / (plan.warmup + d).as_secs_f64().max(1e-9));
    let by_count = (plan.requests > 0).then(|| requests as f64 / plan.requests as f64);
    Some(
        by_time
            .into_iter()
            .chain(by_count)
            .fold(None, |most: Option<f64>, d| Some(most.map_or(d, |m| m.max(d))))?
            .clamp(0.0, 1.0),
    )
}

/// The progress bar of our runs. It is gone when dropped.
pub struct Line<'a> {
    bar: ProgressBar,
    plan: &'a Plan,
    last: (u64, Duration),
}

impl<'a> Line<'a> {
    /// A bar for a run of this plan.
    pub fn new(label: &str, plan: &'a Plan) -> Line<'a> {
        // Hidden where standard error is no terminal.
        let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix}{bar:24} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(if label.is_empty() { String::new() } else { format!("{label} ") });
        Line { bar, plan, last: (0, Duration::ZERO) }
    }
}

impl Observer for Line<'_> {
    fn tick(&mut self, progress: &Progress, elapsed: Duration, recorder: &Recorder) {
        let requests = progress.requests.load(Ordering::Relaxed);
        let rate = (requests - self.last.0) as f64 / (elapsed - self.last.1).as_secs_f64().max(1e-9);
        self.last = (requests, elapsed);
        let p99 = recorder.last_rows(1).last().map_or(0.0, |row| row.percentiles_ms[2]);
        self.bar.set_position((done(self.plan, requests, elapsed).unwrap_or(0.0) * 1000.0) as u64);
        self.bar.set_message(format!(
            "{:.0} s  {rate:.0} requests/s  p99 {p99:.3} ms  errors {}",
            elapsed.as_secs_f64(),
            progress.errors.load(Ordering::Relaxed)
        ));
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The live view. The screen is as it was when this is dropped.
pub struct Live<'a> {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    plan: &'a Plan,
}

impl<'a> Live<'a> {
    /// Takes the screen; `None` without a terminal.
    pub fn start(plan: &'a Plan) -> Option<Live<'a>> {
        if !stderr().is_terminal() {
            return None;
        }
        let terminal = Terminal::new(CrosstermBackend::new(stderr())).ok()?;
        execute!(stderr(), EnterAlternateScreen).ok()?;
        Some(Live { terminal, plan })
    }
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing restored.
        let _ = execute!(stderr(), LeaveAlternateScreen);
        let _ = self.terminal.show_cursor();
    }
}

impl Observer for Live<'_> {
    fn tick(&mut self, progress: &Progress, elapsed: Duration, recorder: &Recorder) {
        let commands = &self.plan.workload.commands;
        let requests = progress.requests.load(Ordering::Relaxed);
        let rows = recorder.last_rows(SHOWN_SECONDS * commands.len().max(1));
        let screen = Screen {
            commands,
            rows: &rows,
            elapsed,
            requests,
            errors: progress.errors.load(Ordering::Relaxed),
            connections: progress.connections.load(Ordering::Relaxed),
            done: done(self.plan, requests, elapsed),
        };
        // A failed drawing is repeated by the next tick.
        let _ = self.terminal.draw(|frame| screen.draw(frame));
    }
}

/// The content of the live view.
struct Screen<'a> {
    commands: &'a [String],
    /// The last seconds, in order.
    rows: &'a [SecondRow],
    elapsed: Duration,
    requests: u64,
    errors: u64,
    connections: u64,
    done: Option<f64>,
}

impl Screen<'_> {
    fn draw(&self, frame: &mut ratatui::Frame<'_>) {
        let table_lines = self.commands.len() as u16 + 3;
        let parts = Layout::vertical([
            Constraint::Length(3),
            Constraint::Length(table_lines),
            Constraint::Min(4),
            Constraint::Min(4),
        ]);
        let [head, table, rate, latency] = parts.areas(frame.area());
        let label = format!(
            "{:.0} s, {} requests, {} errors, {} connections",
            self.elapsed.as_secs_f64(),
            self.requests,
            self.errors,
            self.connections
        );
        let gauge = Gauge::default().block(Block::bordered().title("martlet bench")).label(label);
        frame.render_widget(
            gauge.gauge_style(Style::new().fg(Color::Blue)).ratio(self.done.unwrap_or(0.0)),
            head,
        );
        frame.render_widget(self.table(), table);
        let rates = self.by_second(|row| row.requests);
        let last = rates.last().copied().unwrap_or(0);
        let plot = |title: String, data: Vec<u64>, color| {
            Sparkline::default()
                .block(Block::bordered().title(title))
                .data(data)
                .style(Style::new().fg(color))
        };
        frame.render_widget(plot(format!("requests per second: {last}"), rates, Color::Green), rate);
        let worst = self.by_second_max(|row| (row.percentiles_ms[2] * 1000.0) as u64);
        let last = worst.last().copied().unwrap_or(0);
        frame.render_widget(plot(format!("p99, us: {last}"), worst, Color::Magenta), latency);
    }

    /// The last second of each command.
    fn table(&self) -> Table<'static> {
        let rows = self.commands.iter().enumerate().map(|(index, name)| {
            let row = self.rows.iter().rev().find(|row| row.command as usize == index);
            let mut cells = vec![name.clone()];
            cells.push(row.map_or(String::new(), |row| row.requests.to_string()));
            cells.extend(
                (0..5).map(|i| row.map_or(String::new(), |row| format!("{:.3}", row.percentiles_ms[i]))),
            );
            cells.push(row.map_or(String::new(), |row| row.errors.to_string()));
            Row::new(cells)
        });
        let widths = [20, 12, 10, 10, 10, 10, 10, 8].map(Constraint::Length);
        let head = ["command", "requests/s", "p50 ms", "p95", "p99", "p99.9", "max", "errors"];
        Table::new(rows, widths).header(Row::new(head)).block(Block::bordered().title("last second"))
    }

    fn by_second(&self, value: fn(&SecondRow) -> u64) -> Vec<u64> {
        self.fold(value, |a, b| a + b)
    }

    fn by_second_max(&self, value: fn(&SecondRow) -> u64) -> Vec<u64> {
        self.fold(value, u64::max)
    }

    /// One value per second out of those of all commands.
    fn fold(&self, value: fn(&SecondRow) -> u64, join: fn(u64, u64) -> u64) -> Vec<u64> {
        let mut seconds = std::collections::BTreeMap::new();
        for row in self.rows {
            let of_second = seconds.entry(row.second).or_insert(0);
            *of_second = join(*of_second, value(row));
        }
        seconds.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::backend::TestBackend;

    #[test]
    fn the_screen_shows_every_command_and_both_plots() {
        let row = |second, command, requests| SecondRow {
            second,
            command,
            requests,
            errors: 3,
            mean_ms: 0.2,
            percentiles_ms: [0.1, 0.2, 0.305, 0.4, 0.5],
        };
        let rows = [row(0, 0, 1000), row(0, 1, 50), row(1, 0, 1200), row(1, 1, 60)];
        let screen = Screen {
            commands: &["GET".into(), "SET".into()],
            rows: &rows,
            elapsed: Duration::from_secs(2),
            requests: 2310,
            errors: 6,
            connections: 50,
            done: Some(0.25),
        };
        let mut terminal = Terminal::new(TestBackend::new(100, 24)).expect("draws into memory");
        terminal.draw(|frame| screen.draw(frame)).expect("draws into memory");
        let text: String = terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect();
        for expected in [
            "2 s, 2310 requests, 6 errors, 50 connections",
            "GET",
            "SET",
            "1200",
            "requests per second: 1260",
            "p99, us: 305",
        ] {
            assert!(text.contains(expected), "{expected} is not in {text}");
        }
    }
}
