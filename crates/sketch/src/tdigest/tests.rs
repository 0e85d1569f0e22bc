//! The t-digest against sorted values, and bad input.

use super::*;
use crate::field::{DecodeError, Field, Fields};
use martlet_base::random::Random;

fn fields(digest: &TDigest) -> Vec<Field> {
    let mut fields = Vec::new();
    digest.encode(&mut fields);
    fields
}

fn digest_of(compression: i64, values: &[f64]) -> TDigest {
    let mut digest = TDigest::new(compression).unwrap();
    values.chunks(7).for_each(|values| digest.add_all(values).unwrap());
    digest
}

#[test]
fn quantiles_are_near_the_real_ones() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let value = |random: &mut Random| match seed % 3 {
            0 => random.unit_f64(),
            1 => random.unit_f64().ln(),
            _ => random.below(50) as f64,
        };
        let mut values: Vec<f64> = (0..20_000).map(|_| value(&mut random)).collect();
        let mut digest = digest_of(100, &values);
        assert!(digest.info().merged_nodes < 610);
        values.sort_by(f64::total_cmp);
        assert_eq!((digest.min(), digest.max()), (values[0], values[values.len() - 1]));
        let shares = [0.0, 0.001, 0.01, 0.2, 0.5, 0.77, 0.99, 0.999, 1.0];
        for (share, found) in shares.into_iter().zip(digest.quantiles(&shares).unwrap()) {
            let below = values.partition_point(|value| *value < found) as f64 / values.len() as f64;
            let at_most = values.partition_point(|value| *value <= found) as f64 / values.len() as f64;
            // The scale function lets a centroid have about `4 q (1 - q) / compression` of all values. Each
            // of 50 distinct values is a fiftieth of all; an interpolated value may lie on the wrong side of
            // one.
            let bound = 0.06 * share * (1.0 - share) + if seed % 3 == 2 { 0.02 } else { 0.0004 };
            assert!(
                below - bound <= share && share <= at_most + bound,
                "{share}: {found} is {below} to {at_most}"
            );
        }
    }
}

#[test]
fn a_digest_without_values_has_no_answers() {
    let mut digest = TDigest::new(100).unwrap();
    assert!(digest.min().is_nan() && digest.max().is_nan());
    assert!(digest.cdf(&[1.0])[0].is_nan() && digest.quantiles(&[0.5]).unwrap()[0].is_nan());
    assert!(
        digest.trimmed_mean(0.1, 0.9).unwrap().is_nan() && digest.by_ranks(&[0], false).unwrap()[0].is_nan()
    );
    assert_eq!(digest.ranks(&[1.0], false), [-2]);
    digest.add_all(&[5.0]).unwrap();
    assert_eq!((digest.min(), digest.max(), digest.size()), (5.0, 5.0, 1));
    digest.reset();
    assert!(digest.min().is_nan() && digest.info().observations == 0);
}

#[test]
fn arguments_are_checked_before_anything_changes() {
    let mut digest = digest_of(100, &[1.0, 2.0, 3.0]);
    let saved = fields(&digest);
    assert_eq!(digest.add_all(&[1.0, f64::NAN]), Err(TDigestError::NotANumber));
    assert_eq!(digest.add_all(&[1.0, f64::INFINITY]), Err(TDigestError::Infinite));
    assert_eq!(digest.quantiles(&[0.5, 1.1]), Err(TDigestError::Quantile));
    assert_eq!(digest.by_ranks(&[0, -1], true), Err(TDigestError::Rank));
    assert_eq!(digest.trimmed_mean(-0.1, 0.5), Err(TDigestError::Cut));
    assert_eq!(digest.trimmed_mean(0.5, 0.5), Err(TDigestError::CutOrder));
    assert_eq!(fields(&digest), saved);
    let new = |compression| TDigest::new(compression).map(|_| ()).unwrap_err();
    assert_eq!(new(0), TDigestError::Compression);
    assert_eq!(new(i64::MAX), TDigestError::Memory);
    assert_eq!(new(357_913_940), TDigestError::Memory);
    // Memory comes with the values.
    assert!(TDigest::new(357_913_939).unwrap().heap_bytes() < 100);
}

#[test]
fn merging_keeps_all_values() {
    let mut random = Random::seeded(8);
    let mut sources: Vec<TDigest> = (0..4)
        .map(|at| digest_of(50, &(0..500).map(|_| random.unit_f64() + at as f64).collect::<Vec<_>>()))
        .collect();
    let mut merged = TDigest::new(100).unwrap();
    sources.iter_mut().for_each(|source| merged.absorb(source).unwrap());
    assert_eq!(merged.size(), 2000);
    let median = merged.quantiles(&[0.5]).unwrap()[0];
    assert!((1.95..2.05).contains(&median), "{median}");
}

#[test]
fn a_clone_is_frozen_and_a_single_value_is_restored() {
    let mut digest = digest_of(10, &[2.5]);
    let restored = TDigest::decode(0, &mut Fields::new(&fields(&digest))).unwrap();
    assert_eq!(fields(&restored), fields(&digest));
    let frozen = digest.clone();
    let saved = fields(&digest);
    for mut other in [restored, digest.clone()] {
        other.add_all(&[3.5]).unwrap();
        assert_eq!(other.quantiles(&[0.0, 1.0]).unwrap(), [2.5, 3.5]);
    }
    digest.add_all(&[9.0; 200]).unwrap();
    assert_eq!(fields(&frozen), saved);
}

#[test]
fn weights_that_would_not_be_countable_are_refused() {
    let largest = (1_u64 << 62) as f64;
    let mut digest = digest_of(10, &[1.0, 2.0]);
    let mut fields = fields(&digest);
    let len = fields.len();
    fields[len - 1] = Field::Double(largest);
    fields[7] = Field::Double(largest + 1.0);
    let mut heavy = TDigest::decode(0, &mut Fields::new(&fields)).unwrap();
    digest.absorb(&mut heavy).unwrap();
    assert_eq!(digest.absorb(&mut heavy), Err(TDigestError::Overflow));
}

#[test]
fn lying_fields_are_refused() {
    let good = fields(&digest_of(10, &[1.0, 2.0, 3.0, 4.0]));
    let doubles = [
        (0, 0.0),
        (0, 10.5),
        (0, 1e300),
        (0, f64::NAN),
        (7, 5.0),
        (8, 1.0),
        (13, 0.0),
        (13, 1.5),
        (13, -1.0),
    ];
    let numbers = [(3, 71), (3, u64::MAX), (4, 71), (4, u64::MAX), (4, 3), (5, 1), (5, 2)];
    let lies = doubles.into_iter().map(|(at, value)| (at, Field::Double(value)));
    for (at, field) in lies.chain(numbers.map(|(at, value)| (at, Field::Unsigned(value)))) {
        let mut fields = good.clone();
        fields[at] = field.clone();
        assert!(TDigest::decode(0, &mut Fields::new(&fields)).is_err(), "field {at} as {field:?}");
    }
    for len in 0..good.len() {
        assert_eq!(TDigest::decode(0, &mut Fields::new(&good[..len])).err(), Some(DecodeError::Truncated));
    }
}
