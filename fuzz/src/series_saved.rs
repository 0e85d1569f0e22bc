//! The saved form of time series from any fields: it is refused, or the series goes round and can be used.

use martlet_tseries::aggregate::Aggregator;
use martlet_tseries::query::{RangeOptions, RangeQuery};
use martlet_tseries::rule::{Buckets, Rule};
use martlet_tseries::sample::{DuplicatePolicy, Sample};
use martlet_tseries::saved::{Field, SaveOptions, VERSION_NEWEST, decode, encode};
use martlet_tseries::series::{Series, Settings, label};
use martlet_tseries::store::Encoding;

/// The input is the encoding version, then fields: a tag and 8 bytes, or a string with its length in 2 bytes.
pub fn check(data: &[u8]) {
    let Some((version, rest)) = data.split_first() else { return };
    let Ok(mut loaded) = decode(fields(rest), u64::from(*version)) else { return };
    let options = SaveOptions { version: VERSION_NEWEST, has_references: true };
    let written = encode(&loaded.key, &loaded.series, options);
    let again = decode(written.clone(), options.version).expect("what was written is read");
    assert_eq!(encode(&again.key, &again.series, options), written);
    let rows = RangeQuery::run(RangeOptions::new(0, u64::MAX), &again.series, None);
    assert_eq!(rows.len() as u64, again.series.info().total_samples);
    let timestamp = loaded.series.last_timestamp().saturating_add(1);
    // The open buckets grow, and are closed.
    for later in [0, 1, 1 << 20, 1 << 40] {
        let sample = Sample::new(timestamp.saturating_add(later), 1.0);
        let _ = loaded.series.add(sample, None, DuplicatePolicy::Last, &mut Vec::new());
        let latest = loaded.series.rules().iter().filter_map(Rule::latest);
        assert!(latest.count() <= loaded.series.rules().len());
    }
    let _ = loaded.series.add(Sample::new(timestamp / 2, 1.0), None, DuplicatePolicy::Last, &mut Vec::new());
    let _ = loaded.series.delete(0, timestamp, &mut Vec::new());
}

fn fields(mut data: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    while let Some((tag, rest)) = data.split_first() {
        let (field, rest) = if *tag == 3 {
            let Some((length, rest)) = rest.split_at_checked(2) else { break };
            let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
            let (text, rest) = rest.split_at(length.min(rest.len()));
            (Field::String(text.to_vec()), rest)
        } else {
            let Some((word, rest)) = rest.split_first_chunk::<8>() else { break };
            let field = match tag % 3 {
                0 => Field::Unsigned(u64::from_le_bytes(*word)),
                1 => Field::Double(f64::from_le_bytes(*word)),
                _ => Field::Signed(i64::from_le_bytes(*word)),
            };
            (field, rest)
        };
        fields.push(field);
        data = rest;
    }
    fields
}

fn bytes(version: u64, fields: &[Field]) -> Vec<u8> {
    let mut data = vec![version as u8];
    for field in fields {
        match field {
            Field::Unsigned(number) => data.extend([&[0], &number.to_le_bytes()[..]].concat()),
            Field::Double(number) => data.extend([&[1], &number.to_le_bytes()[..]].concat()),
            Field::Signed(number) => data.extend([&[2], &number.to_le_bytes()[..]].concat()),
            Field::String(text) => {
                data.extend([&[3], &(text.len() as u16).to_le_bytes()[..], text].concat());
            }
        }
    }
    data
}

/// Series of both encodings, with and without samples, labels and rules.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (encoding, count, rules) in [
        (Encoding::Compressed, 0, 0),
        (Encoding::Compressed, 40, 0),
        (Encoding::Compressed, 20, 15),
        (Encoding::Uncompressed, 0, 1),
        (Encoding::Uncompressed, 20, 3),
    ] {
        let labels = vec![label(b"l", b"v").expect("a label")];
        let settings =
            Settings { chunk_bytes: 64, retention_ms: 10_000, labels: labels.into(), ..Settings::default() };
        let mut series = Series::new(encoding, settings).expect("settings");
        for aggregator in &Aggregator::ALL[..rules] {
            series.add_rule(Rule::new(b"d", *aggregator, Buckets::new(50, 3).expect("a duration")));
        }
        for index in 0..count {
            let sample = Sample::new(1000 + index * 10, index as f64 / 4.0);
            series.add(sample, None, DuplicatePolicy::Block, &mut Vec::new()).expect("it is later");
        }
        for version in [8, 9] {
            seeds.push(bytes(version, &encode(b"k", &series, SaveOptions { version, has_references: true })));
        }
    }
    // Version 0: samples one by one.
    let text = |text: &[u8]| Field::String(text.to_vec());
    let [none, one, ten] = [0, 1, 10].map(Field::Unsigned);
    let old = [text(b"k"), none.clone(), ten.clone(), none.clone(), none, one, ten, Field::Double(1.5)];
    seeds.push(bytes(0, &old));
    seeds
}
