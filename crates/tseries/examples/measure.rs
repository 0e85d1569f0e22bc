//! Bytes and nanoseconds a sample on gauges of several kinds, with `HOST:PORT` of a RedisTimeSeries beside
//! it.
//!
//! `cargo run --release -p martlet-tseries --example measure [HOST:PORT]`. Ours is one thread's time, the
//! best of three runs; the server's is its main thread's CPU as INFO tells it, over the same samples and
//! queries.

use martlet_base::random::Random;
use martlet_tseries::aggregate::Aggregator;
use martlet_tseries::query::{AggregationOptions, Align, RangeOptions, RangeQuery};
use martlet_tseries::sample::{DuplicatePolicy, Sample, TIMESTAMP_MAX};
use martlet_tseries::saved::{SaveOptions, VERSION_COMMON, decode, encode};
use martlet_tseries::series::{Series, Settings};
use martlet_tseries::store::Encoding;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const SAMPLES: usize = 100_000;
const QUERIES: u32 = 200;
const AGGREGATORS: [Aggregator; 8] = [
    Aggregator::Avg,
    Aggregator::Sum,
    Aggregator::Max,
    Aggregator::Range,
    Aggregator::Count,
    Aggregator::StdP,
    Aggregator::Last,
    Aggregator::Twa,
];

/// A gauge: values with so many decimals, a walk of steps or anything up to a bound, and how far its
/// timestamps are off a second.
struct Gauge {
    name: &'static str,
    decimals: i32,
    step: f64,
    jitter_ms: u64,
}

const GAUGES: [Gauge; 6] = [
    Gauge { name: "whole numbers, a walk", decimals: 0, step: 1.0, jitter_ms: 0 },
    Gauge { name: "whole numbers, a walk, +-3 ms", decimals: 0, step: 1.0, jitter_ms: 3 },
    Gauge { name: "0 to 4095, +-3 ms", decimals: 0, step: f64::INFINITY, jitter_ms: 3 },
    Gauge { name: "one decimal, a walk", decimals: 1, step: 0.2, jitter_ms: 0 },
    Gauge { name: "two decimals, a walk, +-3 ms", decimals: 2, step: 0.05, jitter_ms: 3 },
    Gauge { name: "any double", decimals: 17, step: 1.0, jitter_ms: 0 },
];

impl Gauge {
    fn samples(&self) -> Vec<Sample> {
        let mut random = Random::seeded(1);
        let mut value = 50.0f64;
        let power = 10f64.powi(self.decimals);
        (0..SAMPLES as u64)
            .map(|second| {
                let jitter = random.below(self.jitter_ms * 2 + 1);
                value = match self.step {
                    f64::INFINITY => random.below(4096) as f64,
                    step => (value + (random.unit_f64() * 2.0 - 1.0) * step).clamp(0.0, 100.0),
                };
                let shown = if self.decimals > 15 { value } else { (value * power).round() / power };
                Sample::new(1_700_000_000_000 + second * 1000 + jitter, shown)
            })
            .collect()
    }
}

fn best(mut run: impl FnMut()) -> Duration {
    (0..3)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .min()
        .unwrap_or_default()
}

fn per_sample(time: Duration, rounds: u32) -> f64 {
    time.as_nanos() as f64 / f64::from(rounds) / SAMPLES as f64
}

fn filled(samples: &[Sample]) -> Series {
    let mut series = Series::new(Encoding::Compressed, Settings::default()).expect("default settings");
    for sample in samples {
        series.add(*sample, None, DuplicatePolicy::Block, &mut Vec::new()).expect("samples ascend");
    }
    series
}

fn aggregation(aggregator: Aggregator, duration: u64) -> RangeOptions {
    let asked = AggregationOptions::new(vec![aggregator], duration, Align::Zero, 0, TIMESTAMP_MAX);
    let mut options = RangeOptions::new(0, TIMESTAMP_MAX);
    options.aggregation = asked.ok();
    options
}

/// A server, as far as this needs one.
struct Server(BufReader<TcpStream>);

impl Server {
    fn send(&mut self, words: &[String]) {
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
        self.0.get_mut().write_all(request.as_bytes()).expect("the server reads");
    }

    /// Reads a reply: what is in it as lines.
    fn read(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the server answers");
        let length = line.get(1..).and_then(|rest| rest.trim().parse::<i64>().ok()).unwrap_or(0).max(0);
        match line.chars().next() {
            Some('*') => (0..length).map(|_| self.read()).collect(),
            Some('$') => {
                let mut text = vec![0; length as usize + 2];
                self.0.read_exact(&mut text).expect("a string");
                String::from_utf8_lossy(&text).into_owned()
            }
            _ => line,
        }
    }

    fn call(&mut self, text: &str) -> String {
        self.send(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        self.read()
    }

    /// Nanoseconds of its main thread.
    fn cpu(&mut self) -> f64 {
        let info = self.call("INFO CPU");
        let seconds = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|text| text.trim().parse::<f64>().ok()).unwrap_or(0.0)
        };
        (seconds("used_cpu_user_main_thread:") + seconds("used_cpu_sys_main_thread:")) * 1e9
    }

    fn fill(&mut self, samples: &[Sample]) -> (f64, f64) {
        self.call("FLUSHALL");
        self.call("TS.CREATE k");
        let before = self.cpu();
        for batch in samples.chunks(500) {
            for sample in batch {
                self.send(
                    &["TS.ADD", "k", &sample.timestamp.to_string(), &format!("{:?}", sample.value)]
                        .map(str::to_owned),
                );
            }
            batch.iter().for_each(|_| drop(self.read()));
        }
        let added = (self.cpu() - before) / SAMPLES as f64;
        let info = self.call("TS.INFO k");
        let memory = info.lines().skip_while(|line| !line.contains("memoryUsage")).nth(1);
        let bytes = memory.and_then(|line| line[1..].parse::<f64>().ok()).unwrap_or(0.0);
        (bytes / SAMPLES as f64, added)
    }

    fn aggregate(&mut self, aggregator: Aggregator, duration: u64) -> f64 {
        let before = self.cpu();
        let text = format!("TS.RANGE k - + AGGREGATION {} {duration}", aggregator.name());
        (0..QUERIES).for_each(|_| drop(self.call(&text)));
        (self.cpu() - before) / f64::from(QUERIES) / SAMPLES as f64
    }
}

fn main() {
    let address = std::env::args().nth(1);
    let mut server =
        address.map(|address| Server(BufReader::new(TcpStream::connect(address).expect("a server"))));
    for gauge in &GAUGES {
        let samples = gauge.samples();
        let series = filled(&samples);
        println!("\n{}, {SAMPLES} samples", gauge.name);
        let theirs = server.as_mut().map(|server| server.fill(&samples));
        let bytes = series.heap_bytes() as f64 / SAMPLES as f64;
        let show = |theirs: Option<f64>| theirs.map_or(String::new(), |value| format!(", theirs {value:.2}"));
        println!("  bytes a sample {bytes:.2}{}", show(theirs.map(|(bytes, _)| bytes)));
        let added = per_sample(best(|| drop(filled(&samples))), 1);
        println!(
            "  add {added:.1} ns (without a server), theirs with one {}",
            show(theirs.map(|(_, added)| added))
        );
        let options = SaveOptions { version: VERSION_COMMON, has_references: false };
        let saved = per_sample(best(|| drop(encode(b"k", &series, options))), 1);
        let fields = encode(b"k", &series, options);
        let loaded = per_sample(best(|| drop(decode(fields.clone(), VERSION_COMMON))), 1);
        println!("  save {saved:.1} ns, load {loaded:.1} ns");
        for aggregator in AGGREGATORS {
            let mut line = format!("  {:6}", aggregator.name());
            for (name, duration) in [("one bucket", 1 << 60), ("a minute", 60_000)] {
                let options = aggregation(aggregator, duration);
                let run = || {
                    for _ in 0..QUERIES {
                        std::hint::black_box(RangeQuery::run(options.clone(), &series, None));
                    }
                };
                let ours = per_sample(best(run), QUERIES);
                let theirs = server.as_mut().map(|server| server.aggregate(aggregator, duration));
                let times = theirs.map_or(String::new(), |theirs| format!(" ({:.1} times)", theirs / ours));
                line += &format!("  {name}: {ours:.2} ns{}{times}", show(theirs));
            }
            println!("{line}");
        }
    }
}
