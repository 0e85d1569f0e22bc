//! `--bigkeys` and `--memkeys`: the biggest key of each type, and the sums per type.

use super::screen::{self, Screen};
use super::walk::{Kind, Totals, Walk, Wanted, of_kind, percent, quoted};
use crate::settings::Settings;
use std::fmt::Write as _;

/// The measure of a key's size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Bytes of a string, elements of others.
    Length,
    /// Bytes of memory.
    Memory,
}

/// Keys between two lines of progress in a file.
const KEYS_BETWEEN_LINES: u64 = 1_000_000;

/// The findings so far.
struct Report<'s> {
    walk: Walk<'s>,
    measure: Measure,
    totals: Vec<Totals>,
    sampled: u64,
    key_bytes: u64,
}

/// Walks and reports.
pub fn run(settings: &Settings, measure: Measure) -> Result<i32, String> {
    let by_length = measure == Measure::Length;
    let wanted = Wanted { kind: true, length: by_length, memory: !by_length, frequency: false };
    let mut report = Report {
        walk: Walk::begin(settings, wanted)?,
        measure,
        totals: Vec::new(),
        sampled: 0,
        key_bytes: 0,
    };
    println!("\n# Scanning the entire keyspace to find biggest keys as well as");
    println!("# average sizes per key type.  You can use -i 0.1 to sleep 0.1 sec");
    println!("# per 100 SCAN commands (not usually needed).\n");
    let mut screen = Screen::new();
    while let Some(samples) = report.walk.next()? {
        let done = percent(report.sampled, report.walk.total_keys);
        for sample in samples {
            let Some(kind) = sample.kind else { continue };
            let size = if by_length { sample.length } else { Some(sample.memory) };
            report.sampled += 1;
            report.key_bytes += sample.key.len() as u64;
            let is_biggest = of_kind(&mut report.totals, kind).add(&sample.key, size);
            if screen.is_terminal {
                continue;
            }
            if is_biggest {
                let (name, key) = (report.name(kind), quoted(&sample.key));
                let (unit, size) = (report.unit(kind), size.unwrap_or(0));
                println!("[{done:05.2}%] Biggest {name:<6} found so far {key} with {size} {unit}");
            }
            if report.sampled.is_multiple_of(KEYS_BETWEEN_LINES) {
                println!("[{done:05.2}%] Sampled {} keys so far", report.sampled);
            }
        }
        if screen.is_due() {
            screen.draw(&report.so_far());
        }
    }
    if screen.is_terminal {
        screen.end(&screen::progress(true, report.sampled, report.walk.total_keys));
    }
    print!("{}", report.summary(screen.is_terminal));
    Ok(0)
}

impl Report<'_> {
    fn name(&self, kind: usize) -> &str {
        self.walk.kinds.get(kind).map_or("?", |kind| kind.name.as_str())
    }

    fn unit(&self, kind: usize) -> &str {
        match self.measure {
            Measure::Memory => "bytes",
            Measure::Length => self.walk.kinds.get(kind).map_or("?", Kind::unit),
        }
    }

    fn so_far(&self) -> String {
        let mut out = screen::progress(true, self.sampled, self.walk.total_keys);
        out.push('\n');
        for (kind, totals) in self.totals.iter().enumerate() {
            let Some(key) = &totals.biggest_key else { continue };
            let (name, unit) = (self.name(kind), self.unit(kind));
            let (key, biggest) = (quoted(key), totals.biggest);
            let _ = writeln!(out, "Biggest {name:<9} found so far {key} with {biggest} {unit}");
        }
        out
    }

    fn summary(&self, is_terminal: bool) -> String {
        let mut out = "\n-------- summary -------\n\n".to_string();
        if !is_terminal {
            if self.walk.is_interrupted {
                let _ = write!(out, "[{:05.2}%] ", percent(self.sampled, self.walk.total_keys));
            }
            let _ = writeln!(out, "Sampled {} keys in the keyspace!", self.sampled);
        }
        let mean = if self.sampled == 0 { 0.0 } else { self.key_bytes as f64 / self.sampled as f64 };
        let _ = writeln!(out, "Total key length in bytes is {} (avg len {mean:.2})\n", self.key_bytes);
        for (kind, totals) in self.totals.iter().enumerate() {
            if let Some(key) = &totals.biggest_key {
                let (name, unit) = (self.name(kind), self.unit(kind));
                let (key, biggest) = (quoted(key), totals.biggest);
                let _ = writeln!(out, "Biggest {name:>6} found {key} has {biggest} {unit}");
            }
        }
        out.push('\n');
        let nothing = Totals::default();
        for (kind, known) in self.walk.kinds.iter().enumerate() {
            let totals = self.totals.get(kind).unwrap_or(&nothing);
            let Totals { count, total, .. } = totals;
            if *count == 0 && !known.is_always_listed {
                continue;
            }
            let (name, unit) = (self.name(kind), self.unit(kind));
            let (share, mean) = (percent(*count, self.sampled), totals.mean());
            let _ = writeln!(
                out,
                "{count} {name}s with {total} {unit} ({share:05.2}% of keys, avg size {mean:.2})"
            );
        }
        out
    }
}
