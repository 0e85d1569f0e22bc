//! Saved forms: round trips, older versions, and fields that lie.

use martlet_base::random::Random;

use super::*;
use crate::series::label;

const ALL: SaveOptions = SaveOptions { version: VERSION_NEWEST, has_references: true };

/// A series with everything that is saved, and several chunks.
fn series(encoding: Encoding, count: u64) -> Series {
    let settings = Settings {
        retention_ms: 1 << 40,
        chunk_bytes: 128,
        policy: Some(DuplicatePolicy::Max),
        ignore_time_ms: 3,
        ignore_value: 0.5,
        labels: vec![label(b"a", b"1").unwrap(), label(b"b", b"two").unwrap()].into(),
    };
    let mut series = Series::new(encoding, settings).unwrap();
    for aggregator in Aggregator::ALL {
        series.add_rule(Rule::new(aggregator.name().as_bytes(), aggregator, Buckets::new(100, 7).unwrap()));
    }
    for index in 0..count {
        let sample = Sample::new(1000 + index * 10 + index % 3, (index % 17) as f64 / 4.0);
        series.add(sample, None, DuplicatePolicy::Block, &mut Vec::new()).unwrap();
    }
    series
}

fn round_trip(series: &Series, options: SaveOptions) -> Series {
    let fields = encode(b"key", series, options);
    let loaded = decode(fields.clone(), options.version).unwrap();
    assert_eq!(loaded.key, b"key");
    assert_eq!(encode(b"key", &loaded.series, options), fields);
    loaded.series
}

#[test]
fn a_series_goes_round_and_goes_on() {
    for encoding in [Encoding::Compressed, Encoding::Uncompressed] {
        for count in [0, 1, 2, 50, 1000] {
            let mut series = series(encoding, count);
            let mut loaded = round_trip(&series, ALL);
            loaded.store().check();
            assert_eq!(loaded.settings(), series.settings());
            // Both write the same from there on.
            for index in 0..200 {
                let sample = Sample::new(20_000 + index * 9, index as f64);
                let (mut one, mut other) = (Vec::new(), Vec::new());
                series.add(sample, None, DuplicatePolicy::Block, &mut one).unwrap();
                loaded.add(sample, None, DuplicatePolicy::Block, &mut other).unwrap();
                assert_eq!(one, other);
            }
            assert_eq!(encode(b"", &series, ALL), encode(b"", &loaded, ALL));
        }
    }
}

#[test]
fn references_are_left_out_of_dumps() {
    let mut series = series(Encoding::Compressed, 10);
    let dumped = SaveOptions { version: VERSION_COMMON, has_references: false };
    assert!(round_trip(&series, dumped).rules().is_empty());
    while let Some(rule) = series.rules().first() {
        let destination = rule.destination.clone();
        series.remove_rule(&destination).unwrap();
    }
    series.set_source(Some(b"source"));
    assert_eq!(round_trip(&series, dumped).source(), None);
    assert_eq!(round_trip(&series, ALL).source(), Some(&b"source"[..]));
}

#[test]
fn older_versions_are_read() {
    use Field::{Double, String, Unsigned};
    let text = |text: &str| String(text.as_bytes().to_vec());
    let head = |chunk| vec![text("k"), Unsigned(500), Unsigned(chunk)];
    let labels = [Unsigned(1), text("l"), text("v")];
    let samples = [Unsigned(2), Unsigned(10), Double(1.5), Unsigned(20), Double(2.5)];
    // Version 0: samples one by one, the size of chunks in samples.
    let zero = [head(8), labels.to_vec(), vec![Unsigned(0)], samples.to_vec()].concat();
    let loaded = decode(zero.clone(), 0).unwrap();
    assert_eq!(loaded.series.store().encoding(), Encoding::Uncompressed);
    assert_eq!((loaded.series.settings().chunk_bytes, loaded.series.store().total()), (128, 2));
    assert_eq!(loaded.series.last(), Some(Sample::new(20, 2.5)));
    // Version 1 has options.
    let one = [head(8), vec![Unsigned(2)], labels.to_vec(), vec![Unsigned(0)], samples.to_vec()].concat();
    assert_eq!(decode(one, 1).unwrap().series.store().encoding(), Encoding::Compressed);
    // From 2 on there are chunks; contexts of rules differ up to 7.
    let mut chunk = Vec::new();
    encode_chunk(&Chunk::from_samples(&[Sample::new(10, 1.5)], 128), Encoding::Compressed, &mut chunk);
    for version in 2..=9 {
        let since = |first: u64, fields: Vec<Field>| if version >= first { fields } else { Vec::new() };
        let rule = |aggregator: u64, context: Vec<Field>| {
            let alignment = since(6, vec![Unsigned(3)]);
            let is_valid = since(9, vec![Unsigned(1)]);
            [
                vec![text("d"), Unsigned(10)],
                alignment,
                vec![Unsigned(aggregator), Unsigned(10)],
                is_valid,
                context,
            ]
            .concat()
        };
        let flagged =
            if (3..7).contains(&version) { vec![Double(4.0), Unsigned(0)] } else { vec![Double(4.0)] };
        let string = if version < 6 { vec![text("x")] } else { Vec::new() };
        let fields = [
            head(128),
            vec![Unsigned(2), Unsigned(10), Double(1.5), Unsigned(1)],
            since(3, vec![Unsigned(4)]),
            vec![Unsigned(0)],
            since(8, vec![Unsigned(7), Double(0.5)]),
            labels.to_vec(),
            vec![Unsigned(5)],
            rule(1, [vec![Double(1.0), Double(2.0)], string].concat()),
            rule(3, flagged.clone()),
            rule(7, flagged),
            rule(6, [vec![Double(1.0)], since(3, vec![Unsigned(0)])].concat()),
            rule(4, [vec![Double(1.0), Double(2.0)], since(4, vec![Unsigned(0)])].concat()),
            vec![Unsigned(1)],
            chunk.clone(),
        ]
        .concat();
        let loaded = decode(fields, version).unwrap_or_else(|error| panic!("{version}: {error}"));
        assert_eq!(loaded.series.rules().len(), 5);
        let values: Vec<f64> =
            loaded.series.rules().iter().map(|rule| rule.latest().unwrap().value).collect();
        assert_eq!(values, [2.0, 4.0, 4.0, 1.0, 0.5], "{version}");
        let policy = if version >= 3 { Some(DuplicatePolicy::Min) } else { None };
        assert_eq!(loaded.series.settings().policy, policy);
    }
    assert_eq!(decode(zero, 10).err(), Some(SavedError::Version(10)));
}

/// Samples are added to open buckets and close them, and are deleted, whatever the buckets were said to have.
fn goes_on(mut series: Series) {
    let start = series.last_timestamp();
    for later in [1, 2, 3, 1 << 20, 1 << 40] {
        let sample = Sample::new(start.saturating_add(later), later as f64);
        let _ = series.add(sample, None, DuplicatePolicy::Last, &mut Vec::new());
        let latest = series.rules().iter().filter_map(Rule::latest);
        assert!(latest.count() <= series.rules().len());
    }
    let _ = series.add(Sample::new(start / 2, f64::NAN), None, DuplicatePolicy::Last, &mut Vec::new());
    let _ = series.delete(0, start / 2, &mut Vec::new());
    series.store().check();
}

#[test]
fn fields_that_lie_are_refused() {
    use Field::Unsigned;
    let fields = encode(b"k", &series(Encoding::Compressed, 30), ALL);
    for end in 0..fields.len() {
        assert!(decode(fields[..end].to_vec(), 9).is_err(), "{end}");
    }
    let more = [&fields[..], &[Unsigned(0)]].concat();
    assert_eq!(decode(more, 9).err(), Some(SavedError::Trailing));
    // Numbers of everything: none is believed.
    for place in 0..fields.len() {
        for number in [u64::MAX, u64::MAX - 1, 1 << 63, 1 << 40, 0] {
            if matches!(fields[place], Unsigned(_)) {
                let mut wrong = fields.clone();
                wrong[place] = Unsigned(number);
                if let Ok(loaded) = decode(wrong, 9) {
                    loaded.series.store().check();
                    goes_on(loaded.series);
                }
            }
        }
    }
}

#[test]
fn mutated_fields_load_whole_or_not_at_all() {
    let seed = 0x6d75_7461;
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let mut accepted = 0;
    for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
        let encoding = [Encoding::Compressed, Encoding::Uncompressed][random.below(2) as usize];
        let count = random.below(60);
        let mut fields = encode(b"k", &series(encoding, count), ALL);
        for _ in 0..1 + random.below(2) {
            let place = random.below(fields.len() as u64) as usize;
            match &mut fields[place] {
                Field::Unsigned(number) => *number ^= 1 << random.below(64),
                Field::Double(number) => *number = f64::from_bits(random.next_u64()),
                Field::String(text) if !text.is_empty() => {
                    let at = random.below(text.len() as u64) as usize;
                    text[at] ^= 1 << random.below(8);
                }
                _ => {}
            }
        }
        if let Ok(loaded) = decode(fields, 9) {
            loaded.series.store().check();
            round_trip(&loaded.series, ALL);
            goes_on(loaded.series);
            accepted += 1;
        }
    }
    assert!(cfg!(miri) || accepted > 1000, "{accepted}");
}
