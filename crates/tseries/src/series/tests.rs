//! Series against a naive model: a sorted map of samples, and buckets computed from it at the end.

use std::collections::BTreeMap;

use martlet_base::random::Random;

use super::*;
use crate::aggregate::Aggregator;
use crate::rule::{Action, Buckets};

const MS: DuplicatePolicy = DuplicatePolicy::Block;

fn naive_value(aggregator: Aggregator, samples: &[(u64, f64)]) -> f64 {
    let values: Vec<f64> = samples.iter().map(|(_, value)| *value).collect();
    let (count, sum) = (values.len() as f64, values.iter().sum::<f64>());
    let squares: f64 = values.iter().map(|value| value * value).sum();
    let variance = squares / count - (sum / count).powi(2);
    match aggregator {
        Aggregator::Min => values.iter().copied().fold(f64::MAX, f64::min),
        Aggregator::Max => values.iter().copied().fold(f64::MIN, f64::max),
        Aggregator::Sum => sum,
        Aggregator::Avg => sum / count,
        Aggregator::First => values[0],
        Aggregator::Last => values[values.len() - 1],
        Aggregator::Range => naive_value(Aggregator::Max, samples) - naive_value(Aggregator::Min, samples),
        Aggregator::VarP => variance,
        Aggregator::VarS if count == 1.0 => 0.0,
        Aggregator::VarS => variance * count / (count - 1.0),
        Aggregator::StdP => variance.max(0.0).sqrt(),
        Aggregator::StdS => naive_value(Aggregator::VarS, samples).max(0.0).sqrt(),
        _ => count,
    }
}

fn is_near(one: f64, other: f64) -> bool {
    one == other || (one - other).abs() < 1e-4 * (1.0 + one.abs())
}

/// A source, its destinations and the samples that there should be.
struct Bench {
    source: Series,
    destinations: Vec<Series>,
    model: BTreeMap<u64, f64>,
    random: Random,
    last: u64,
}

impl Bench {
    fn new(seed: u64) -> Bench {
        let mut random = Random::seeded(seed);
        let encoding = [Encoding::Compressed, Encoding::Uncompressed][random.below(2) as usize];
        let chunk_bytes = [48, 128, 4096][random.below(3) as usize];
        let mut source = Series::new(encoding, Settings { chunk_bytes, ..Settings::default() }).unwrap();
        let mut destinations = Vec::new();
        for index in 0..random.below(4) {
            let aggregators = Aggregator::ALL.map(|aggregator| aggregator);
            let wanted = |aggregator: &&Aggregator| {
                !matches!(aggregator, Aggregator::Twa | Aggregator::CountNan | Aggregator::CountAll)
            };
            let all: Vec<&Aggregator> = aggregators.iter().filter(wanted).collect();
            let buckets = Buckets::new([10, 64, 1000][random.below(3) as usize], random.below(7)).unwrap();
            let aggregator = *all[random.below(all.len() as u64) as usize];
            let mut destination = Series::new(encoding, Settings::default()).unwrap();
            let key = [index as u8];
            assert_eq!(Series::check_rule(b"s", &source, &key, &destination), Ok(()));
            source.add_rule(Rule::new(&key, aggregator, buckets));
            destination.set_source(Some(b"s"));
            destinations.push(destination);
        }
        Bench { source, destinations, model: BTreeMap::new(), random, last: 100 }
    }

    fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let answer = self.destinations[effect.destination[0] as usize].apply(&effect.action);
            if matches!(effect.action, Action::Reopen(_)) {
                self.source.reopen(&effect.destination, answer);
            }
        }
    }

    fn step(&mut self) {
        let mut effects = Vec::new();
        match self.random.below(20) {
            0 => {
                let from = self.last.saturating_sub(self.random.below(600));
                let to = from + self.random.below(200);
                let expected = self.model.range(from..=to).count() as u64;
                assert_eq!(self.source.delete(from, to, &mut effects), Ok(expected));
                self.model.retain(|time, _| !(from..=to).contains(time));
            }
            1..4 => {
                let time = self.last.saturating_sub(self.random.below(500));
                let policy = DuplicatePolicy::ALL[self.random.below(6) as usize];
                let value = self.random.below(1000) as f64 / 8.0;
                let old = self.model.get(&time).copied();
                let expected = old.map_or(Some(value), |old| policy.resolve(old, value));
                let added = self.source.add(Sample::new(time, value), Some(policy), MS, &mut effects);
                assert_eq!(added.is_ok(), expected.is_some());
                self.model.extend(expected.map(|value| (time, value)));
            }
            4 => {
                let last = self.model.last_key_value().map_or((0, 0.0), |(time, value)| (*time, *value));
                let time = last.0 + self.random.below(2);
                self.source.increment(time, 2.5, &mut effects).unwrap();
                self.model.insert(time, last.1 + 2.5);
            }
            _ => {
                let reach = if self.random.below(20) == 0 { 2000 } else { 20 };
                self.last = self.last.max(self.model.last_key_value().map_or(0, |(time, _)| *time));
                self.last += 1 + self.random.below(reach);
                let sample = Sample::new(self.last, self.random.below(1000) as f64 / 8.0);
                self.source.add(sample, None, MS, &mut effects).unwrap();
                self.model.insert(sample.timestamp, sample.value);
            }
        }
        self.apply(effects);
    }

    fn check(&self) {
        self.source.store().check();
        let samples: Vec<(u64, f64)> = self.model.iter().map(|(time, value)| (*time, *value)).collect();
        assert_eq!(pairs(&self.source), samples);
        assert_eq!(self.source.last().map(|last| (last.timestamp, last.value)), samples.last().copied());
        for rule in self.source.rules() {
            let destination = &self.destinations[rule.destination[0] as usize];
            destination.store().check();
            let mut buckets: Vec<(u64, f64)> = samples
                .chunk_by(|one, other| rule.buckets().span(one.0) == rule.buckets().span(other.0))
                .map(|run| (rule.buckets().span(run[0].0).0, naive_value(rule.aggregator(), run)))
                .collect();
            let open = buckets.pop();
            let found = pairs(destination);
            assert_eq!(found.len(), buckets.len(), "{:?}", rule.aggregator());
            for (one, other) in found.iter().zip(&buckets) {
                assert!(
                    one.0 == other.0 && is_near(one.1, other.1),
                    "{one:?} {other:?} {:?}",
                    rule.aggregator()
                );
            }
            match (self.source.latest(&rule.destination), open) {
                (Some(latest), Some(open)) => {
                    assert!(
                        latest.timestamp == open.0 && is_near(latest.value, open.1),
                        "{latest:?} {open:?}"
                    );
                }
                (latest, open) => assert!(latest.is_none() && open.is_none(), "{latest:?} {open:?}"),
            }
        }
    }
}

fn pairs(series: &Series) -> Vec<(u64, f64)> {
    let samples = series.store().chunks().flat_map(|chunk| chunk.to_samples());
    samples.map(|sample| (sample.timestamp, sample.value)).collect()
}

#[test]
fn series_and_rules_are_what_the_model_says() {
    let seeds = if cfg!(miri) { 1 } else { 60 };
    for seed in 1..=seeds {
        println!("seed {seed}");
        let mut bench = Bench::new(seed);
        for step in 0..if cfg!(miri) { 50 } else { 800 } {
            bench.step();
            if step % 50 == 0 {
                bench.check();
            }
        }
        bench.check();
        // A clone keeps its samples.
        let (clone, before) = (bench.source.clone(), pairs(&bench.source));
        bench.source.delete(0, u64::MAX, &mut Vec::new()).unwrap();
        assert_eq!((pairs(&clone), bench.source.store().total()), (before, 0));
        let mut debris = clone.into_debris();
        while !debris.free_some(1) {}
    }
}

#[test]
fn retention_counts_from_the_last_sample() {
    let settings = Settings { retention_ms: 100, chunk_bytes: 48, ..Settings::default() };
    let mut series = Series::new(Encoding::Uncompressed, settings).unwrap();
    let mut add = |time: u64| series.add(Sample::new(time, 1.0), None, MS, &mut Vec::new());
    for time in (10..=500).step_by(10) {
        assert!(add(time).is_ok());
    }
    assert_eq!(add(399), Err(Error::OlderThanRetention));
    assert!(add(401).is_ok());
    let info = series.info();
    assert_eq!((info.total_samples, info.first_timestamp, info.last_timestamp), (12, 400, 500));
    // Whole chunks go, when one is begun.
    assert!(series.store().total() < 20, "{}", series.store().total());
}

#[test]
fn a_refused_write_changes_nothing() {
    let mut series = Series::new(Encoding::Compressed, Settings::default()).unwrap();
    series.add(Sample::new(10, 1.0), None, MS, &mut Vec::new()).unwrap();
    let clone = series.clone();
    assert_eq!(series.add(Sample::new(10, 2.0), None, MS, &mut Vec::new()), Err(Error::Duplicate));
    assert_eq!(series.increment(9, 1.0, &mut Vec::new()), Err(Error::TimestampInPast));
    assert!(Arc::ptr_eq(&series.inner, &clone.inner), "nothing was copied");
    let wrong = Settings { chunk_bytes: 50, ..Settings::default() };
    assert_eq!(series.alter(wrong.clone()), Err(Error::ChunkSize));
    assert_eq!(Series::new(Encoding::Compressed, wrong).err(), Some(Error::ChunkSize));
    series.add(Sample::new(20, f64::NAN), None, MS, &mut Vec::new()).unwrap();
    assert_eq!(series.increment(21, 1.0, &mut Vec::new()), Err(Error::IncrementOfNan));
}

#[test]
fn ignore_drops_what_is_close_under_the_policy_last() {
    let settings = Settings { ignore_time_ms: 10, ignore_value: 1.0, ..Settings::default() };
    let mut series = Series::new(Encoding::Compressed, settings).unwrap();
    let mut add =
        |time, value, policy| series.add(Sample::new(time, value), Some(policy), MS, &mut Vec::new());
    let dropped = |timestamp| Ok(Added { timestamp, is_stored: false });
    let stored = |timestamp| Ok(Added { timestamp, is_stored: true });
    assert_eq!(add(100, 1.0, DuplicatePolicy::Last), stored(100));
    assert_eq!(add(110, 2.0, DuplicatePolicy::Last), dropped(100));
    assert_eq!(add(110, 2.5, DuplicatePolicy::Last), stored(110));
    assert_eq!(add(111, 2.5, DuplicatePolicy::First), stored(111));
    assert_eq!(add(122, 2.5, DuplicatePolicy::Last), stored(122));
}

#[test]
fn heap_bytes_are_those_of_the_allocator_in_order() {
    let mut series = Series::new(Encoding::Compressed, Settings::default()).unwrap();
    let empty = series.heap_bytes();
    for second in 0..100_000u64 {
        let value = 20.0 + (second * 7 % 50) as f64 / 10.0;
        series.add(Sample::new(second * 1000, value), None, MS, &mut Vec::new()).unwrap();
    }
    let per_sample = (series.heap_bytes() - empty) as f64 / 100_000.0;
    assert!((0.5..3.0).contains(&per_sample), "{per_sample}");
    series.delete(0, u64::MAX, &mut Vec::new()).unwrap();
    assert!(series.heap_bytes() < empty + 4096, "{}", series.heap_bytes());
}
