//! `--watch KEY`, `--watch info:FIELD`: a value again and again; at a terminal with a plot of it.
//!
//! Invariant: only the samples that a plot can show are kept, however long it runs.

use super::{ask_for_ever, connect};
use crate::connection::plain;
use crate::interrupt;
use crate::session::Session;
use crate::settings::{Settings, Watched};
use martlet_client::resp::Reply;
use martlet_spec::data_type::data_type;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{self, IsTerminal, Stdout};
use std::time::{Duration, Instant};

/// Samples that a plot shows.
const SHOWN_MAX: usize = 600;
/// Between two samples.
const INTERVAL: Duration = Duration::from_secs(1);
/// A string that is no longer may be a number.
const NUMBER_MAX_BYTES: i64 = 32;

/// The samples.
#[derive(Default)]
struct Samples {
    /// Seconds since the beginning, and the value.
    points: VecDeque<(f64, f64)>,
    count: u64,
    min: f64,
    max: f64,
}

impl Samples {
    fn add(&mut self, at: f64, value: f64) {
        if self.points.len() == SHOWN_MAX {
            self.points.pop_front();
        }
        self.points.push_back((at, value));
        (self.min, self.max) =
            if self.count == 0 { (value, value) } else { (self.min.min(value), self.max.max(value)) };
        self.count += 1;
    }

    /// Growth of the value per second, over the shown samples.
    fn rate(&self) -> f64 {
        match (self.points.front(), self.points.back()) {
            (Some((begun, first)), Some((ended, last))) if ended > begun => (last - first) / (ended - begun),
            _ => 0.0,
        }
    }

    /// The last value, and a summary of the samples.
    fn summary(&self, name: &str) -> String {
        let Some((_, value)) = self.points.back() else { return format!("{name}: nothing yet") };
        format!(
            "{name}: {}  min {}  max {}  {:+.2}/s",
            decimal(*value),
            decimal(self.min),
            decimal(self.max),
            self.rate()
        )
    }
}

/// Without a fraction if it is whole.
fn decimal(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

/// Samples until the user presses Ctrl-C.
pub fn run(settings: &Settings, watched: &Watched) -> Result<i32, String> {
    let mut session = connect(settings)?;
    let interval = if settings.interval.is_zero() { INTERVAL } else { settings.interval };
    let name = match watched {
        Watched::Key(key) => String::from_utf8_lossy(key).into_owned(),
        Watched::Field(field) => field.clone(),
    };
    interrupt::catch();
    // The first one shows whether there is anything to see, before the screen is taken.
    let mut value = sample(&mut session, watched)?;
    let mut plot = if io::stdout().is_terminal() { Some(Plot::new()?) } else { None };
    let (begun, mut samples) = (Instant::now(), Samples::default());
    loop {
        let at = begun.elapsed().as_secs_f64();
        samples.add(at, value);
        match &mut plot {
            Some(plot) => plot.draw(&name, &samples)?,
            None => println!("{at:.3} {}", decimal(value)),
        }
        if is_interrupted_within(interval) {
            break;
        }
        value = sample(&mut session, watched)?;
    }
    if plot.take().is_some() {
        println!("{}", samples.summary(&name));
    }
    Ok(0)
}

/// Waits; whether Ctrl-C has ended it.
fn is_interrupted_within(time: Duration) -> bool {
    let (Some(wake), Ok(time)) = (interrupt::wake(), Timespec::try_from(time)) else { return true };
    // A signal that is another one ends the wait as well: the next sample comes early.
    let _ = poll(&mut [PollFd::from_borrowed_fd(wake, PollFlags::IN)], Some(&time));
    interrupt::take()
}

fn sample(session: &mut Session, watched: &Watched) -> Result<f64, String> {
    match watched {
        Watched::Key(key) => of_key(session, key),
        Watched::Field(field) => {
            let info = ask(session, &[b"INFO", b"everything"])?;
            let info = String::from_utf8_lossy(info.text().unwrap_or_default()).into_owned();
            of_field(&info, field)
        }
    }
}

fn ask(session: &mut Session, words: &[&[u8]]) -> Result<Reply, String> {
    match ask_for_ever(session, words) {
        Reply::Error(text) => Err(String::from_utf8_lossy(&text).into_owned()),
        reply => Ok(reply),
    }
}

fn integer(reply: &Reply) -> i64 {
    if let Reply::Int(number) = reply { *number } else { 0 }
}

/// The number in a string; else the length of the key's value, or its bytes.
fn of_key(session: &mut Session, key: &[u8]) -> Result<f64, String> {
    let kind = ask(session, &[b"TYPE", key])?;
    let kind = String::from_utf8_lossy(kind.text().unwrap_or_default()).into_owned();
    if kind == "none" {
        return Ok(0.0);
    }
    let Some(length) = data_type(&kind).and_then(|view| view.length.as_ref()) else {
        return Ok(integer(&ask(session, &[b"MEMORY", b"USAGE", key])?) as f64);
    };
    let is_text = length.is_size();
    let length = integer(&ask(session, &[length.command.as_bytes(), key])?);
    if is_text && length <= NUMBER_MAX_BYTES {
        let value = ask(session, &[b"GET", key])?;
        let number = value.text().and_then(|text| std::str::from_utf8(text).ok()?.trim().parse().ok());
        if let Some(number) = number.filter(|number: &f64| number.is_finite()) {
            return Ok(number);
        }
    }
    Ok(length as f64)
}

/// A field of INFO, or the part of one after a dot: `db0.keys`, `cmdstat_get.calls`.
fn of_field(info: &str, field: &str) -> Result<f64, String> {
    let (name, part) = field.split_once('.').map_or((field, None), |(name, part)| (name, Some(part)));
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = value.and_then(|value| match part {
        None => Some(value),
        Some(part) => value.split(',').find_map(|one| one.strip_prefix(part)?.strip_prefix('=')),
    });
    let value = value.ok_or_else(|| format!("INFO has no field '{field}'."))?;
    let number = value.trim().trim_end_matches('%').parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| format!("The field '{field}' is no number: {}", value.trim()))
}

/// The screen, which is as it was when this is dropped.
struct Plot(Terminal<CrosstermBackend<Stdout>>);

impl Plot {
    fn new() -> Result<Plot, String> {
        let failed = |error: io::Error| format!("Drawing: {}", plain(&error));
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout())).map_err(failed)?;
        execute!(io::stdout(), EnterAlternateScreen).map_err(failed)?;
        Ok(Plot(terminal))
    }

    fn draw(&mut self, name: &str, samples: &Samples) -> Result<(), String> {
        let drawn = self.0.draw(|frame| draw(frame, name, samples));
        drawn.map(drop).map_err(|error| format!("Drawing: {}", plain(&error)))
    }
}

impl Drop for Plot {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing restored.
        let _ = execute!(io::stdout(), LeaveAlternateScreen);
        let _ = self.0.show_cursor();
    }
}

fn draw(frame: &mut ratatui::Frame<'_>, name: &str, samples: &Samples) {
    let points: Vec<(f64, f64)> = samples.points.iter().copied().collect();
    let shown =
        |pick: fn(f64, f64) -> f64, start: f64| points.iter().fold(start, |so_far, (_, y)| pick(so_far, *y));
    let (mut low, mut high) = (shown(f64::min, f64::INFINITY), shown(f64::max, f64::NEG_INFINITY));
    if high <= low {
        (low, high) = (low - 1.0, high + 1.0);
    }
    let begun = points.first().map_or(0.0, |(at, _)| *at);
    let ended = points.last().map_or(0.0, |(at, _)| *at).max(begun + 1.0);
    let color = if crate::prompt::has_colors() { Color::Cyan } else { Color::Reset };
    let dataset = Dataset::default()
        .data(&points)
        .marker(Marker::Braille)
        .graph_type(GraphType::Line)
        .style(Style::new().fg(color));
    let seconds = [begun, ended].map(|at| format!("{at:.0} s"));
    let chart = Chart::new(vec![dataset])
        .block(Block::bordered().title(samples.summary(name)).title_bottom("Ctrl-C ends"))
        .x_axis(Axis::default().bounds([begun, ended]).labels(seconds))
        .y_axis(Axis::default().bounds([low, high]).labels([low, (low + high) / 2.0, high].map(decimal)));
    frame.render_widget(chart, frame.area());
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::backend::TestBackend;

    #[test]
    fn a_field_and_its_parts_are_numbers() {
        let info = "# Memory\r\nused_memory:1024\r\nused_memory_peak_perc:12.50%\r\nrole:master\r\n\
            db0:keys=7,expires=1,avg_ttl=0\r\n";
        assert_eq!(of_field(info, "used_memory"), Ok(1024.0));
        assert_eq!(of_field(info, "used_memory_peak_perc"), Ok(12.5));
        assert_eq!(of_field(info, "db0.keys"), Ok(7.0));
        assert_eq!(of_field(info, "used"), Err("INFO has no field 'used'.".into()));
        assert_eq!(of_field(info, "db0.nothing"), Err("INFO has no field 'db0.nothing'.".into()));
        assert_eq!(of_field(info, "role"), Err("The field 'role' is no number: master".into()));
    }

    #[test]
    fn samples_have_a_range_and_a_rate() {
        let mut samples = Samples::default();
        assert_eq!(samples.summary("k"), "k: nothing yet");
        for second in 0..2 * SHOWN_MAX {
            samples.add(second as f64, second as f64 * 2.5);
        }
        assert_eq!(samples.points.len(), SHOWN_MAX);
        assert_eq!(samples.summary("k"), "k: 2997.500  min 0  max 2997.500  +2.50/s");
    }

    #[test]
    fn a_plot_shows_the_line_and_its_bounds() {
        let mut terminal = Terminal::new(TestBackend::new(60, 12)).expect("a screen");
        let mut samples = Samples::default();
        (0..10).for_each(|second| samples.add(f64::from(second), f64::from(second * 100)));
        terminal.draw(|frame| draw(frame, "used", &samples)).expect("drawn");
        let text = terminal.backend().to_string();
        for shown in ["used: 900  min 0  max 900  +100.00/s", "900", "450", "9 s", "Ctrl-C ends"] {
            assert!(text.contains(shown), "{shown} in\n{text}");
        }
        assert!(text.chars().filter(|c| ('\u{2801}'..='\u{28ff}').contains(c)).count() > 20, "{text}");
    }
}
