//! `--latency`, `--latency-history`, `--latency-dist`: how long a PING takes, again and again.
//! `--intrinsic-latency`: how long the system keeps a program from running.

use super::{ask_for_ever, connect, screen};
use crate::format::Output;
use crate::interrupt;
use crate::session::Session;
use crate::settings::Settings;
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// Between two PINGs.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// A line of the history covers so much.
const HISTORY_INTERVAL: Duration = Duration::from_secs(15);
/// Interval of lines where the output is not a terminal, and of drawings of a spectrum.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Spectra between two legends.
const SPECTRA_PER_LEGEND: u64 = 20;

/// The longest sample that percentiles tell from others, microseconds; as redis-cli has it.
const PERCENTILES_MAX_US: u64 = 3_000_000;

/// Samples of one range, in microseconds.
#[derive(Default)]
struct Range {
    min: u64,
    max: u64,
    total: u64,
    count: u64,
    /// The samples, if percentiles are wanted.
    histogram: Option<Histogram<u64>>,
}

impl Range {
    /// An empty one, of which these percentiles may be asked for.
    fn new(percentiles: &[(String, f64)]) -> Range {
        let histogram = Histogram::new_with_bounds(1, PERCENTILES_MAX_US, 3).ok();
        Range { histogram: histogram.filter(|_| !percentiles.is_empty()), ..Range::default() }
    }

    fn add(&mut self, sample_us: u64) {
        self.min = if self.count == 0 { sample_us } else { self.min.min(sample_us) };
        self.max = self.max.max(sample_us);
        self.total += sample_us;
        self.count += 1;
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(sample_us);
        }
    }

    /// In milliseconds, as redis-cli shows them.
    fn line(&self, output: Output, percentiles: &[(String, f64)]) -> String {
        let mean = if self.count == 0 { 0.0 } else { self.total as f64 / self.count as f64 / 1000.0 };
        if let Some(histogram) = &self.histogram {
            return self.line_with(histogram, mean, output, percentiles);
        }
        let (min, max, count) = (self.min / 1000, self.max / 1000, self.count);
        match output {
            Output::Standard => format!("min: {min}, max: {max}, avg: {mean:.2} ({count} samples)"),
            Output::Csv => format!("{min},{max},{mean:.2},{count}\n"),
            Output::Raw => format!("{min} {max} {mean:.2} {count}\n"),
            Output::Json | Output::QuotedJson => {
                format!("{{\"min\": {min}, \"max\": {max}, \"avg\": {mean:.2}, \"count\": {count}}}\n")
            }
        }
    }

    /// With percentiles all figures are shown to the microsecond (redis/redis #15352).
    fn line_with(
        &self,
        histogram: &Histogram<u64>,
        mean: f64,
        output: Output,
        percentiles: &[(String, f64)],
    ) -> String {
        let ms = |us: u64| us as f64 / 1000.0;
        let (min, max, count) = (ms(self.min), ms(self.max), self.count);
        let each = |show: &dyn Fn(&str, f64) -> String, between: &str| {
            let value = |percentile: f64| ms(histogram.value_at_percentile(percentile).min(self.max));
            let all = percentiles.iter().map(|(name, percentile)| show(name, value(*percentile)));
            all.collect::<Vec<_>>().join(between)
        };
        let plain = |_: &str, value: f64| format!("{value:.3}");
        match output {
            Output::Standard => {
                let all = each(&|name, value| format!("p{name}: {value:.3}"), ", ");
                format!("min: {min:.3}, max: {max:.3}, avg: {mean:.3} ({count} samples), {all}")
            }
            Output::Csv => format!("{min:.3},{max:.3},{mean:.3},{count},{}\n", each(&plain, ",")),
            Output::Raw => format!("{min:.3} {max:.3} {mean:.3} {count} {}\n", each(&plain, " ")),
            Output::Json | Output::QuotedJson => {
                let all = each(&|name, value| format!("\"{name}\": {value:.3}"), ", ");
                format!(
                    "{{\"min\": {min:.3}, \"max\": {max:.3}, \"avg\": {mean:.3}, \"count\": {count}, \"percentiles\": {{{all}}}}}\n"
                )
            }
        }
    }
}

fn or(time: Duration, default: Duration) -> Duration {
    if time.is_zero() { default } else { time }
}

/// How long a PING took, in microseconds.
fn ping(session: &mut Session) -> u64 {
    let begun = Instant::now();
    ask_for_ever(session, &["PING"]);
    u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Measures until the user ends it; to a file or a pipe, one line.
pub fn run(settings: &Settings, history: bool) -> Result<i32, String> {
    let mut session = connect(settings)?;
    let output = settings.style.output;
    let is_shown = output == Output::Standard;
    let covered = or(settings.interval, if history { HISTORY_INTERVAL } else { REPORT_INTERVAL });
    let percentiles = &settings.percentiles;
    let (mut range, mut begun) = (Range::new(percentiles), Instant::now());
    loop {
        range.add(ping(&mut session));
        if is_shown {
            screen::show(&format!("\x1b[0G\x1b[2K{}", range.line(output, percentiles)));
        }
        if begun.elapsed() > covered && (history || !is_shown) {
            if !is_shown {
                screen::show(&range.line(output, percentiles));
            }
            if !history {
                return Ok(0);
            }
            if is_shown {
                println!(" -- {:.2} seconds range", begun.elapsed().as_secs_f64());
            }
            (range, begun) = (Range::new(percentiles), Instant::now());
        }
        std::thread::sleep(SAMPLE_INTERVAL);
    }
}

/// Upper ends of the spectrum's classes in microseconds, with their letters; the rest is `?`.
const CLASSES: &[(u64, char)] = &[
    (10, '.'),
    (125, '-'),
    (250, '*'),
    (500, '#'),
    (1_000, '1'),
    (2_000, '2'),
    (3_000, '3'),
    (4_000, '4'),
    (5_000, '5'),
    (6_000, '6'),
    (7_000, '7'),
    (8_000, '8'),
    (9_000, '9'),
    (10_000, 'A'),
    (20_000, 'B'),
    (30_000, 'C'),
    (40_000, 'D'),
    (50_000, 'E'),
    (100_000, 'F'),
    (200_000, 'G'),
    (300_000, 'H'),
    (400_000, 'I'),
    (500_000, 'J'),
    (1_000_000, 'K'),
    (2_000_000, 'L'),
    (4_000_000, 'M'),
    (8_000_000, 'N'),
    (16_000_000, 'O'),
    (30_000_000, 'P'),
    (60_000_000, 'Q'),
];
/// From no samples to all: black through grey and yellow to red.
const COLOURS: &[u8] = &[0, 233, 235, 237, 239, 241, 243, 245, 144, 143, 142, 184, 220, 214, 208, 202, 196];
const GREYS: &[u8] = &[0, 233, 235, 237, 239, 241, 243, 245, 247, 249, 251, 253, 255];

/// Draws a spectrum of latencies each second.
pub fn distribution(settings: &Settings) -> Result<i32, String> {
    let mut session = connect(settings)?;
    let palette = if settings.monochrome { GREYS } else { COLOURS };
    let covered = or(settings.interval, REPORT_INTERVAL);
    let (mut counts, mut begun) = (vec![0; CLASSES.len() + 1], Instant::now());
    let mut drawn = 0u64;
    loop {
        counts[class(ping(&mut session))] += 1;
        if begun.elapsed() > covered {
            if drawn.is_multiple_of(SPECTRA_PER_LEGEND) {
                println!("{}", legend(palette));
            }
            drawn += 1;
            println!("{}", spectrum(&counts, palette));
            counts.fill(0);
            begun = Instant::now();
        }
        std::thread::sleep(SAMPLE_INTERVAL);
    }
}

fn class(sample_us: u64) -> usize {
    CLASSES.partition_point(|(end, _)| *end < sample_us)
}

fn spectrum(counts: &[u64], palette: &[u8]) -> String {
    let total: u64 = counts.iter().sum::<u64>().max(1);
    let letters = CLASSES.iter().map(|(_, letter)| *letter).chain(['?']);
    let mut out = "\x1b[38;5;0m".to_string();
    for (letter, count) in letters.zip(counts) {
        let place = (*count * (palette.len() as u64 - 1)).div_ceil(total);
        let colour = palette.get(place as usize).copied().unwrap_or(0);
        out.push_str(&format!("\x1b[48;5;{colour}m{letter}"));
    }
    out + "\x1b[0m"
}

fn legend(palette: &[u8]) -> String {
    let rule = "-".repeat(45);
    let colours: String = palette.iter().map(|colour| format!("\x1b[48;5;{colour}m ")).collect();
    format!(
        "{rule}\n\
         . - * #          .01 .125 .25 .5 milliseconds\n\
         1,2,3,...,9      from 1 to 9     milliseconds\n\
         A,B,C,D,E        10,20,30,40,50  milliseconds\n\
         F,G,H,I,J        .1,.2,.3,.4,.5       seconds\n\
         K,L,M,N,O,P,Q,?  1,2,4,8,16,30,60,>60 seconds\n\
         From 0 to 100%: {colours}\x1b[0m\n{rule}"
    )
}

/// Some work that takes microseconds and that no compiler leaves out.
fn work() -> u64 {
    (0..1_000u64).fold(0, |sum, number| std::hint::black_box(sum.rotate_left(5) ^ number))
}

/// Runs for a time and reports how long the same work took at most.
pub fn intrinsic(time: Duration) -> Result<i32, String> {
    interrupt::catch();
    let (begun, mut runs, mut max_us) = (Instant::now(), 0u64, 0u128);
    loop {
        let before = Instant::now();
        std::hint::black_box(work());
        let took_us = before.elapsed().as_micros();
        runs += 1;
        if took_us > max_us {
            max_us = took_us;
            println!("Max latency so far: {max_us} microseconds.");
        }
        let elapsed = begun.elapsed();
        if elapsed >= time || interrupt::take() {
            let mean_us = elapsed.as_secs_f64() * 1e6 / runs as f64;
            let mean_ns = mean_us * 1e3;
            println!(
                "\n{runs} total runs (avg latency: {mean_us:.4} microseconds / {mean_ns:.2} nanoseconds per run)."
            );
            println!("Worst run took {:.0}x longer than the average latency.", max_us as f64 / mean_us);
            return Ok(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_printed_in_each_form() {
        let mut range = Range::default();
        [1_500, 900, 6_000].into_iter().for_each(|sample| range.add(sample));
        for (output, expected) in [
            (Output::Standard, "min: 0, max: 6, avg: 2.80 (3 samples)"),
            (Output::Csv, "0,6,2.80,3\n"),
            (Output::Raw, "0 6 2.80 3\n"),
            (Output::Json, "{\"min\": 0, \"max\": 6, \"avg\": 2.80, \"count\": 3}\n"),
        ] {
            assert_eq!(range.line(output, &[]), expected);
        }
    }

    #[test]
    fn percentiles_are_shown_to_the_microsecond() {
        let percentiles = [("50".to_owned(), 50.0), ("99.9".to_owned(), 99.9)];
        let mut range = Range::new(&percentiles);
        (1..=100).for_each(|sample| range.add(sample));
        range.add(u64::from(u32::MAX));
        for (output, expected) in [
            (
                Output::Standard,
                "min: 0.001, max: 4294967.295, avg: 42524.479 (101 samples), p50: 0.051, p99.9: 3000.319",
            ),
            (Output::Csv, "0.001,4294967.295,42524.479,101,0.051,3000.319\n"),
            (Output::Raw, "0.001 4294967.295 42524.479 101 0.051 3000.319\n"),
            (
                Output::Json,
                "{\"min\": 0.001, \"max\": 4294967.295, \"avg\": 42524.479, \"count\": 101, \"percentiles\": {\"50\": 0.051, \"99.9\": 3000.319}}\n",
            ),
        ] {
            assert_eq!(range.line(output, &percentiles), expected);
        }
        assert!(
            Range::new(&percentiles).line(Output::Raw, &percentiles).starts_with("0.000 0.000 0.000 0 0.000")
        );
    }

    #[test]
    fn samples_fall_into_their_class() {
        let letter = |sample| CLASSES.get(class(sample)).map_or('?', |(_, letter)| *letter);
        for (sample, expected) in
            [(0, '.'), (10, '.'), (11, '-'), (501, '1'), (60_000_000, 'Q'), (60_000_001, '?')]
        {
            assert_eq!(letter(sample), expected, "{sample}");
        }
        let mut counts = vec![0; CLASSES.len() + 1];
        counts[0] = 99;
        counts[1] = 1;
        let drawn = spectrum(&counts, &[0, 1, 2]);
        assert!(drawn.starts_with("\x1b[38;5;0m\x1b[48;5;2m.\x1b[48;5;1m-\x1b[48;5;0m*"), "{drawn:?}");
        assert!(drawn.ends_with("?\x1b[0m"));
    }
}
