//! `--keystats`: the biggest keys by memory and by length, and how sizes are distributed.

use super::readable_bytes;
use super::screen::{self, Screen};
use super::walk::{Kind, Sample, Totals, Walk, Wanted, of_kind, percent, quoted};
use crate::settings::Settings;
use hdrhistogram::Histogram;
use martlet_spec::data_type::Length;
use std::fmt::Write as _;

/// The largest size with a class: 1 TB.
const SIZE_MAX_BYTES: u64 = 1 << 40;
const SIGNIFICANT_DIGITS: u8 = 4;
/// The lengths of names between which they are counted.
const NAME_BYTES: [u64; 7] = [1 << 5, 1 << 8, 1 << 16, 1 << 20, 16 << 20, 128 << 20, 512 << 20];

/// The findings so far.
struct Report {
    limit: usize,
    sampled: u64,
    memory_bytes: u64,
    by_memory: Vec<Totals>,
    by_length: Vec<Totals>,
    /// The keys with most memory, biggest first, with their kinds.
    top: Vec<(u64, usize, Vec<u8>)>,
    sizes: Histogram<u64>,
    names: Names,
}

/// How long the names of keys are.
#[derive(Default)]
struct Names {
    counts: [u64; NAME_BYTES.len() + 1],
    count: u64,
    total_bytes: u64,
    longest_bytes: u64,
}

/// Walks and reports.
pub fn run(settings: &Settings) -> Result<i32, String> {
    let wanted = Wanted { kind: true, length: true, memory: true, frequency: false };
    let mut walk = Walk::begin(settings, wanted)?;
    println!("\n# Scanning the entire keyspace to find the biggest keys and distribution information.");
    println!("# Use -i 0.1 to sleep 0.1 sec per 100 SCAN commands (not usually needed).");
    println!("# Use --cursor <n> to start the scan at the cursor <n> (usually after a Ctrl-C).");
    println!("# Use --top <n> to display <n> top key sizes (default is 10).");
    println!("# Ctrl-C to stop the scan.\n");
    let (mut report, mut screen) = (Report::new(settings.scan.top)?, Screen::new());
    while let Some(samples) = walk.next()? {
        samples.iter().for_each(|sample| report.add(sample));
        if screen.is_due() {
            screen.draw(&report.so_far(&walk, true));
        }
    }
    let so_far = report.so_far(&walk, screen.is_terminal);
    if screen.is_terminal {
        screen.end(&so_far);
    } else {
        print!("{so_far}");
    }
    print!("\n{}\n{}\n{}", report.sizes(), report.names.lines(), report.kinds(&walk.kinds));
    if walk.cursor() != 0 {
        println!("\nScan interrupted:");
        println!("Use 'redis-cli --keystats --cursor {}' to restart from the last cursor.", walk.cursor());
    }
    Ok(0)
}

impl Report {
    fn new(limit: usize) -> Result<Report, String> {
        let sizes = Histogram::new_with_bounds(1, SIZE_MAX_BYTES, SIGNIFICANT_DIGITS);
        Ok(Report {
            limit,
            sampled: 0,
            memory_bytes: 0,
            by_memory: Vec::new(),
            by_length: Vec::new(),
            top: Vec::new(),
            sizes: sizes.map_err(|error| error.to_string())?,
            names: Names::default(),
        })
    }

    fn add(&mut self, sample: &Sample) {
        let Some(kind) = sample.kind else { return };
        self.sampled += 1;
        self.memory_bytes += sample.memory;
        of_kind(&mut self.by_memory, kind).add(&sample.key, Some(sample.memory));
        of_kind(&mut self.by_length, kind).add(&sample.key, sample.length);
        let place = self.top.partition_point(|(size, ..)| *size >= sample.memory);
        if self.limit == 0 || place < self.limit {
            self.top.insert(place, (sample.memory, kind, sample.key.clone()));
        }
        if self.limit != 0 {
            self.top.truncate(self.limit);
        }
        self.sizes.saturating_record(sample.memory);
        self.names.add(sample.key.len() as u64);
    }

    fn so_far(&self, walk: &Walk, is_terminal: bool) -> String {
        let name = |kind: usize| walk.kinds.get(kind).map_or("?", |kind| kind.name.as_str());
        let mut out = screen::progress(is_terminal, self.sampled, walk.total_keys);
        let _ = writeln!(out, "Keys size:    {}\n", readable_bytes(self.memory_bytes));
        let _ = writeln!(out, "--- Top {} key sizes ---", self.limit);
        for (index, (size, kind, key)) in self.top.iter().enumerate() {
            let (size, key) = (readable_bytes(*size), quoted(key));
            let _ = writeln!(out, "{:3} {size:>8} {:<10} {key}", index + 1, name(*kind));
        }
        out.push_str("\n--- Top size per type ---\n");
        for (kind, totals) in self.by_memory.iter().enumerate() {
            if let Some(key) = &totals.biggest_key {
                let _ =
                    writeln!(out, "{:<10} {} is {}", name(kind), quoted(key), readable_bytes(totals.biggest));
            }
        }
        out.push_str("\n--- Top length and cardinality per type ---\n");
        for (kind, totals) in self.by_length.iter().enumerate() {
            if let (Some(key), Some(known)) = (&totals.biggest_key, walk.kinds.get(kind)) {
                let length = length(known, totals.biggest);
                let _ = writeln!(out, "{:<10} {} has {length}", known.name, quoted(key));
            }
        }
        out
    }

    /// How sizes are distributed.
    fn sizes(&self) -> String {
        let mut out = "Key size Percentile Total keys\n-------- ---------- -----------\n".to_string();
        let (mut keys, mut shown) = (0, 0);
        for step in self.sizes.iter_quantiles(1) {
            keys += step.count_since_last_iteration();
            if keys == shown {
                continue;
            }
            let percentile =
                if keys == self.sizes.len() { 100.0 } else { 100.0 * step.quantile_iterated_to() };
            let size = readable_bytes(step.value_iterated_to());
            let _ = writeln!(out, "{size:>8} {percentile:9.4}% {keys:11}");
            shown = keys;
        }
        let (mean, deviation) = (self.sizes.mean() as u64, self.sizes.stdev() as u64);
        let _ = writeln!(
            out,
            "Note: 0.01% size precision, Mean: {}, StdDeviation: {}",
            readable_bytes(mean),
            readable_bytes(deviation)
        );
        out
    }

    /// A line for each type.
    fn kinds(&self, kinds: &[Kind]) -> String {
        let mut out = "Type        Total keys  Keys % Tot size Avg size  Total length/card Avg ln/card\n\
             --------- ------------ ------- -------- -------- ------------------ -----------\n"
            .to_string();
        for ((kind, memory), lengths) in kinds.iter().zip(&self.by_memory).zip(&self.by_length) {
            if memory.count == 0 {
                continue;
            }
            let (total, mean) = match kind.length {
                None => (" - ".into(), " - ".into()),
                Some(length) if length.is_size() => {
                    (readable_bytes(lengths.total), readable_bytes(lengths.mean().round() as u64))
                }
                Some(_) => (length(kind, lengths.total), format!("{:.2}", lengths.mean())),
            };
            let _ = writeln!(
                out,
                "{:<10} {:11} {:6.2}% {:>8} {:>8} {total:>18} {mean:>11}",
                kind.name,
                memory.count,
                percent(memory.count, self.sampled),
                readable_bytes(memory.total),
                readable_bytes(memory.mean() as u64),
            );
        }
        out
    }
}

/// A length with its unit.
fn length(kind: &Kind, length: u64) -> String {
    if kind.length.is_some_and(Length::is_size) {
        readable_bytes(length)
    } else {
        format!("{length} {}", kind.unit())
    }
}

impl Names {
    fn add(&mut self, bytes: u64) {
        let class = NAME_BYTES.partition_point(|limit| *limit < bytes);
        self.counts[class] += 1;
        self.count += 1;
        self.total_bytes += bytes;
        self.longest_bytes = self.longest_bytes.max(bytes);
    }

    fn lines(&self) -> String {
        let mut out =
            "Key name length Percentile Total keys\n--------------- ---------- -----------\n".to_string();
        let mut keys = 0;
        for (limit, count) in NAME_BYTES.iter().zip(self.counts) {
            if count > 0 {
                keys += count;
                let size = readable_bytes(self.longest_bytes.min(*limit));
                let _ = writeln!(out, "{size:>15} {:9.4}% {keys:11}", percent(keys, self.count));
            }
        }
        if keys < self.count {
            let _ = writeln!(out, "{:>15} {:9.4}% {:11}", "inf", 100.0, self.count);
        }
        let mean = self.total_bytes.checked_div(self.count).map_or("0".into(), readable_bytes);
        let _ = writeln!(out, "Total key length is {} ({mean} avg)", readable_bytes(self.total_bytes));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_is_bounded_and_sorted() {
        let mut report = Report::new(3).expect("bounds");
        for (index, memory) in [5, 9, 1, 9, 7].into_iter().enumerate() {
            let key = index.to_string().into_bytes();
            report.add(&Sample { key, kind: Some(0), memory, ..Sample::default() });
        }
        let top: Vec<_> = report.top.iter().map(|(size, _, key)| (*size, key.as_slice())).collect();
        assert_eq!(top, [(9, &b"1"[..]), (9, b"3"), (7, b"4")]);
        assert_eq!((report.sampled, report.memory_bytes), (5, 31));
    }

    #[test]
    fn sizes_end_at_a_hundred_percent() {
        let mut report = Report::new(1).expect("bounds");
        for size in [56, 56, 72, 4096] {
            report.sizes.saturating_record(size);
        }
        let lines = report.sizes();
        let last = lines.lines().rev().nth(1).expect("a line");
        assert_eq!(last, "   4.00K  100.0000%           4");
    }

    #[test]
    fn names_are_counted_by_length() {
        let mut names = Names::default();
        [3, 32, 33, 600 << 20].into_iter().for_each(|bytes| names.add(bytes));
        let lines = names.lines();
        let figures: Vec<&str> = lines.lines().skip(2).collect();
        assert_eq!(
            figures,
            [
                "            32B   50.0000%           2",
                "           256B   75.0000%           3",
                "            inf  100.0000%           4",
                "Total key length is 600.00M (150.00M avg)"
            ]
        );
        assert!(Names::default().lines().ends_with("Total key length is 0B (0 avg)\n"));
    }
}
