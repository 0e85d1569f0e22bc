//! Ranges against a naive model, whole and in slices.

use martlet_base::random::Random;

use super::merge::{Pivot, Reduce};
use super::*;
use crate::sample::{DuplicatePolicy, TIMESTAMP_MAX, nan};
use crate::series::Settings;
use crate::store::Encoding;

fn series_of(samples: &[(u64, f64)]) -> Series {
    let settings = Settings { chunk_bytes: 128, ..Settings::default() };
    let mut series = Series::new(Encoding::Compressed, settings).unwrap();
    for (timestamp, value) in samples {
        series.add(Sample::new(*timestamp, *value), None, DuplicatePolicy::Block, &mut Vec::new()).unwrap();
    }
    series
}

fn random_samples(random: &mut Random, count: u64) -> Vec<(u64, f64)> {
    let mut timestamp = random.below(50);
    let with_nan = random.below(3) == 0;
    let sample = |_| {
        let reach = if random.below(25) == 0 { 500 } else { 9 };
        timestamp += 1 + random.below(reach);
        let is_nan = with_nan && random.below(4) == 0;
        (timestamp, if is_nan { f64::NAN } else { random.below(100) as f64 - 30.0 })
    };
    (0..count).map(sample).collect()
}

/// The expected answer of a range, from a list of samples.
fn naive(samples: &[(u64, f64)], options: &RangeOptions) -> Vec<(u64, Vec<f64>)> {
    let admits = |sample: &&(u64, f64)| {
        (options.from..=options.to).contains(&sample.0) && options.admits(Sample::new(sample.0, sample.1))
    };
    let kept: Vec<(u64, f64)> = samples.iter().filter(admits).copied().collect();
    let mut rows: Vec<(u64, Vec<f64>)> = match &options.aggregation {
        None => kept.iter().map(|(timestamp, value)| (*timestamp, vec![*value])).collect(),
        Some(asked) => naive_buckets(&kept, asked),
    };
    if options.is_reverse {
        rows.reverse();
    }
    rows.truncate(options.count.map_or(usize::MAX, |count| count as usize));
    rows
}

fn naive_buckets(kept: &[(u64, f64)], asked: &AggregationOptions) -> Vec<(u64, Vec<f64>)> {
    let mut rows: Vec<(u64, Vec<f64>)> = Vec::new();
    let mut carried = nan();
    let mut end = None;
    for run in kept.chunk_by(|one, other| asked.buckets.span(one.0) == asked.buckets.span(other.0)) {
        let span = asked.buckets.span(run[0].0);
        let value = |aggregator: &Aggregator, run: &[(u64, f64)], carried: f64| {
            let values: Vec<f64> =
                run.iter().map(|(_, value)| *value).filter(|value| aggregator.takes(*value)).collect();
            match aggregator {
                Aggregator::Count | Aggregator::CountNan | Aggregator::CountAll => values.len() as f64,
                // The empty sum of `sum` is -0.
                Aggregator::Sum => values.iter().fold(0.0, |sum, value| sum + value),
                Aggregator::Last => values.last().copied().unwrap_or(carried),
                _ if values.is_empty() => nan(),
                Aggregator::Max => values.iter().copied().fold(f64::MIN, f64::max),
                _ => values.iter().sum::<f64>() / values.len() as f64,
            }
        };
        while let Some(next) = end.filter(|next| *next < span.0 && asked.has_empty) {
            rows.push((
                next,
                asked.aggregators.iter().map(|aggregator| value(aggregator, &[], carried)).collect(),
            ));
            end = Some(next + asked.buckets.duration());
        }
        end = Some(span.1);
        let is_valid = run.iter().any(|(_, value)| asked.aggregators.iter().any(|of| of.takes(*value)));
        if is_valid || asked.has_empty {
            rows.push((
                span.0,
                asked.aggregators.iter().map(|aggregator| value(aggregator, run, carried)).collect(),
            ));
        }
        carried = value(&Aggregator::Last, run, carried);
    }
    let shift = match asked.timestamp {
        BucketTimestamp::Start => 0,
        BucketTimestamp::Mid => asked.buckets.duration() / 2,
        BucketTimestamp::End => asked.buckets.duration(),
    };
    rows.iter_mut().for_each(|row| row.0 += shift);
    rows
}

fn random_options(random: &mut Random, last: u64) -> RangeOptions {
    let is_whole = random.below(2) == 0;
    let from = if is_whole { 0 } else { random.below(last) };
    let to = if is_whole { TIMESTAMP_MAX } else { from + random.below(last) };
    let mut options = RangeOptions::new(from, to);
    options.is_reverse = random.below(2) == 0;
    if random.below(4) == 0 {
        options.values = Some((-10.0, 50.0));
    }
    if random.below(4) == 0 {
        let timestamps: Vec<u64> = (0..100).map(|_| random.below(last)).collect();
        options.set_timestamps(&timestamps);
    }
    if random.below(3) == 0 {
        options.count = Some(random.below(10));
    }
    if random.below(4) > 0 {
        let all = [
            Aggregator::Avg,
            Aggregator::Sum,
            Aggregator::Max,
            Aggregator::Count,
            Aggregator::CountNan,
            Aggregator::CountAll,
            Aggregator::Last,
        ];
        let count = 1 + random.below(3);
        // In reverse, `last` of a bucket of NaN is the value of the later bucket: the model has the earlier
        // one.
        let choices = all.len() as u64 - u64::from(options.is_reverse);
        let aggregators = (0..count).map(|_| all[random.below(choices) as usize]).collect();
        let align = [Align::Zero, Align::Start, Align::At(random.below(40))][random.below(3) as usize];
        let duration = [1, 5, 16, 100, 5000][random.below(5) as usize];
        let mut asked = AggregationOptions::new(aggregators, duration, align, from, to).unwrap();
        // At a part's ends, and from the end on, neighbours beyond come in: see the test below.
        let is_plain = is_whole && (!options.is_reverse || !asked.aggregators.contains(&Aggregator::Last));
        asked.has_empty = is_plain && random.below(2) == 0;
        asked.timestamp =
            [BucketTimestamp::Start, BucketTimestamp::Mid, BucketTimestamp::End][random.below(3) as usize];
        options.aggregation = Some(asked);
    }
    options
}

fn shown(rows: &Rows) -> Vec<(u64, Vec<u64>)> {
    let width = if rows.is_empty() { 1 } else { rows.values.len() / rows.len() };
    let values =
        rows.values.chunks_exact(width).map(|values| values.iter().map(|value| value.to_bits()).collect());
    rows.timestamps.iter().copied().zip(values).collect()
}

#[test]
fn ranges_are_what_the_model_says_whole_and_in_slices() {
    let seed = 0x7261_6e67;
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    for _ in 0..if cfg!(miri) { 3 } else { 150 } {
        let count = 1 + random.below(700);
        let samples = random_samples(&mut random, count);
        let series = series_of(&samples);
        for _ in 0..40 {
            let options = random_options(&mut random, samples[samples.len() - 1].0 + 20);
            let expected: Vec<(u64, Vec<u64>)> = naive(&samples, &options)
                .into_iter()
                .map(|(timestamp, values)| (timestamp, values.into_iter().map(f64::to_bits).collect()))
                .collect();
            let whole = RangeQuery::run(options.clone(), &series, None);
            assert_eq!(shown(&whole), expected, "{options:?}");
            let (mut query, mut rows) = (RangeQuery::new(options.clone(), None), Rows::default());
            let mut steps = 0;
            while !query.step(&series, 1 + random.below(60) as usize, &mut rows) {
                steps += 1;
                assert!(steps < 200_000, "{options:?}");
            }
            assert_eq!(shown(&rows), expected, "{options:?}");
        }
    }
}

#[test]
fn slices_of_every_aggregator_are_the_whole() {
    let seed = 0x736c_6963;
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    for _ in 0..if cfg!(miri) { 2 } else { 300 } {
        let samples = random_samples(&mut random, 300);
        let series = series_of(&samples);
        let last = samples[samples.len() - 1].0;
        let (from, to) = (random.below(last), last / 2 + random.below(last));
        let duration = 1 + random.below(60);
        let aggregator = Aggregator::ALL[random.below(15) as usize];
        let aggregators = vec![aggregator, Aggregator::Twa];
        let mut asked = AggregationOptions::new(aggregators, duration, Align::At(3), from, to).unwrap();
        asked.has_empty = random.below(2) == 0;
        let options = RangeOptions {
            is_reverse: random.below(2) == 0,
            aggregation: Some(asked),
            ..RangeOptions::new(from, to)
        };
        let whole = RangeQuery::run(options.clone(), &series, None);
        let (mut query, mut rows) = (RangeQuery::new(options.clone(), None), Rows::default());
        while !query.step(&series, 1 + random.below(20) as usize, &mut rows) {}
        assert_eq!(shown(&rows), shown(&whole), "{options:?}");
        assert!(whole.timestamps.is_sorted_by(|one, other| (one < other) != options.is_reverse));
    }
}

fn row_values(options: RangeOptions, series: &Series) -> Vec<(u64, f64)> {
    let rows = RangeQuery::run(options, series, None);
    rows.timestamps.into_iter().zip(rows.values).collect()
}

#[test]
fn empty_buckets_are_told_between_samples_also_beyond_the_range() {
    let series = series_of(&[(5, 1.0), (12, 2.0), (45, 5.0), (95, 10.0)]);
    let range = |from, to, aggregator, is_reverse| {
        let mut asked = AggregationOptions::new(vec![aggregator], 10, Align::Zero, from, to).unwrap();
        asked.has_empty = true;
        row_values(
            RangeOptions { is_reverse, aggregation: Some(asked), ..RangeOptions::new(from, to) },
            &series,
        )
    };
    // Documented for TS.RANGE: no bucket that ends before the first sample or begins after the last.
    assert_eq!(range(0, 30, Aggregator::Sum, false), [(0, 1.0), (10, 2.0), (20, 0.0), (30, 0.0)]);
    assert_eq!(
        range(20, 60, Aggregator::Count, false),
        [20, 30, 40, 50, 60].map(|at| (at, f64::from(at == 40)))
    );
    assert_eq!(range(90, 200, Aggregator::Sum, false), [(90, 10.0)]);
    assert_eq!(range(100, 200, Aggregator::Sum, false), []);
    assert_eq!(range(25, 38, Aggregator::Last, false), [(20, 2.0), (30, 2.0)]);
    assert_eq!(
        range(25, 60, Aggregator::Last, true),
        [(60, 5.0), (50, 5.0), (40, 5.0), (30, 2.0), (20, 2.0)]
    );
    // On the line from 2 at 12 to 5 at 45.
    let twa = range(20, 39, Aggregator::Twa, false);
    assert!((twa[0].1 - (2.0 + 13.0 / 11.0)).abs() < 1e-9 && twa[0].0 == 20, "{twa:?}");
}

#[test]
fn latest_joins_a_series_that_a_rule_fills() {
    let mut series = series_of(&[(10, 1.0), (20, 2.0)]);
    let latest = Some(Sample::new(30, 3.0));
    assert_eq!(RangeQuery::run(RangeOptions::new(0, 100), &series, latest).len(), 2, "without a source");
    series.set_source(Some(b"s"));
    assert_eq!(RangeQuery::run(RangeOptions::new(0, 100), &series, latest).timestamps, [10, 20, 30]);
    let reverse = RangeOptions { is_reverse: true, count: Some(2), ..RangeOptions::new(0, 100) };
    assert_eq!(RangeQuery::run(reverse, &series, latest).timestamps, [30, 20]);
    assert_eq!(RangeQuery::run(RangeOptions::new(0, 20), &series, latest).timestamps, [10, 20]);
    assert_eq!(RangeQuery::run(RangeOptions::new(0, 29), &series, latest).timestamps, [10, 20]);
}

#[test]
fn several_series_meet_at_their_timestamps() {
    let seed = 0x6d65_7267;
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    for _ in 0..if cfg!(miri) { 2 } else { 100 } {
        let lists: Vec<Vec<(u64, f64)>> = (0..1 + random.below(5))
            .map(|_| {
                let count = random.below(300);
                random_samples(&mut random, count).into_iter().filter(|(_, value)| !value.is_nan()).collect()
            })
            .collect();
        let series: Vec<Series> = lists.iter().map(|list| series_of(list)).collect();
        let series: Vec<&Series> = series.iter().collect();
        let mut times: Vec<u64> = lists.iter().flatten().map(|(timestamp, _)| *timestamp).collect();
        times.sort_unstable();
        times.dedup();
        let at = |list: &Vec<(u64, f64)>, time: u64| {
            list.binary_search_by_key(&time, |(timestamp, _)| *timestamp).ok().map(|place| list[place].1)
        };
        let options = RangeOptions::new(0, TIMESTAMP_MAX);
        let mut reduce = Reduce::new(&options, vec![None; series.len()], Aggregator::Sum);
        let mut rows = Rows::default();
        while !reduce.step(&series, 1 + random.below(400) as usize, &mut rows) {}
        let sums: Vec<f64> = times
            .iter()
            .map(|time| lists.iter().filter_map(|list| at(list, *time)).fold(0.0, |sum, value| sum + value))
            .collect();
        assert_eq!((rows.timestamps, rows.values), (times.clone(), sums));
        let is_reverse = random.below(2) == 0;
        if is_reverse {
            times.reverse();
        }
        let options = RangeOptions { is_reverse, ..options };
        let mut pivot = Pivot::new(vec![(options, None); series.len()]);
        let mut rows = Rows::default();
        while !pivot.step(&series, 1 + random.below(400) as usize, &mut rows) {}
        let expected: Vec<u64> = times
            .iter()
            .flat_map(|time| lists.iter().map(|list| at(list, *time).unwrap_or_else(nan).to_bits()))
            .collect();
        let values: Vec<u64> = rows.values.iter().map(|value| value.to_bits()).collect();
        assert_eq!((rows.timestamps, values), (times, expected));
    }
}
