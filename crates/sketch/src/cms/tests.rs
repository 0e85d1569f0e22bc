//! Count-Min against exact counters, and bad input.

use super::*;
use crate::field::{Field, Fields};
use martlet_base::random::Random;
use std::collections::HashMap;

fn fields(sketch: &CountMin) -> Vec<Field> {
    let mut fields = Vec::new();
    sketch.encode(&mut fields);
    fields
}

#[test]
fn counts_are_within_the_bound() {
    let (overestimation, probability) = (0.002, 0.01);
    let seed = 7;
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let mut sketch = CountMin::by_probability(overestimation, probability).unwrap();
    assert_eq!((sketch.width(), sketch.depth()), (1000, 7));
    let mut model: HashMap<u64, u64> = HashMap::new();
    for _ in 0..20_000 {
        let (item, count) = (random.below(1 + random.clone().below(3000)), random.below(4));
        sketch.incr_by(&item.to_le_bytes(), count).unwrap();
        *model.entry(item).or_default() += count;
    }
    assert_eq!(sketch.count(), model.values().sum::<u64>());
    let bound = (sketch.count() as f64 * overestimation) as u64;
    let excess = model.iter().map(|(item, count)| u64::from(sketch.query(&item.to_le_bytes())) - count);
    let beyond = excess.filter(|excess| *excess > bound).count();
    assert!(beyond as f64 <= model.len() as f64 * probability, "{beyond} of {}", model.len());
}

#[test]
fn counters_stop_at_the_highest_count() {
    let mut sketch = CountMin::by_dimensions(10, 2).unwrap();
    assert_eq!(sketch.incr_by(b"a", 4_294_967_294), Ok(4_294_967_294));
    assert_eq!(sketch.incr_by(b"a", 1), Err(CmsError::IncrByOverflow));
    assert_eq!(sketch.incr_by(b"a", 4_294_967_296), Err(CmsError::IncrByOverflow));
    assert_eq!((sketch.query(b"a"), sketch.count()), (u32::MAX, 8_589_934_591));
    assert_eq!(CmsError::IncrByOverflow.to_string(), "CMS: INCRBY overflow");
}

#[test]
fn merging_is_a_weighted_sum_or_nothing() {
    let mut left = CountMin::by_dimensions(2100, 3).unwrap();
    let mut right = left.clone();
    left.incr_by(b"a", 10).unwrap();
    right.incr_by(b"a", 4).unwrap();
    right.incr_by(b"b", 1).unwrap();
    let sources = |weights: [i64; 2]| [(left.clone(), weights[0]), (right.clone(), weights[1])];
    let mut merged = left.clone();
    merged.merge(&sources([2, -3])).unwrap_err();
    assert_eq!(fields(&merged), fields(&left));
    merged.merge(&sources([2, -5])).unwrap_err();
    merged.merge(&sources([1 << 40, 0])).unwrap_err();
    merged.merge(&sources([i64::MAX, i64::MAX])).unwrap_err();
    assert_eq!(fields(&merged), fields(&left));
    merged.merge(&sources([3, 2])).unwrap();
    assert_eq!((merged.query(b"a"), merged.query(b"b"), merged.count()), (38, 2, 40));
    // One that was merged into itself, as CMS.MERGE of a key with itself.
    let copy = merged.clone();
    merged.merge(&[(copy, 2)]).unwrap();
    assert_eq!(merged.query(b"a"), 76);
    let other = CountMin::by_dimensions(2100, 4).unwrap();
    assert_eq!(merged.merge(&[(other, 1)]), Err(CmsError::Unequal));
}

#[test]
fn absurd_dimensions_are_refused() {
    let by_dimensions = |width, depth| CountMin::by_dimensions(width, depth).err();
    assert_eq!(by_dimensions(0, 1), Some(CmsError::Width));
    assert_eq!(by_dimensions(1, -1), Some(CmsError::Depth));
    assert_eq!(by_dimensions(i64::MAX, 2), Some(CmsError::Dimensions));
    assert_eq!(by_dimensions(i64::MAX, 1), Some(CmsError::Memory));
    let by_probability = |error, probability| CountMin::by_probability(error, probability).err();
    assert_eq!(by_probability(0.0, 0.1), Some(CmsError::Overestimation));
    assert_eq!(by_probability(f64::NAN, 0.1), Some(CmsError::Overestimation));
    assert_eq!(by_probability(0.1, 1.0), Some(CmsError::Probability));
    assert_eq!(by_probability(0.1, 0.999_999_999_9), Some(CmsError::Dimensions));
    assert_eq!(by_probability(1e-300, 0.1), Some(CmsError::Dimensions));
    let sparse = CountMin::by_dimensions(1 << 32, 3).unwrap();
    assert!(sparse.heap_bytes() < 1 << 20);
    assert_eq!(sparse.query(b"a"), 0);
}

#[test]
fn lying_fields_are_refused() {
    let good = fields(&CountMin::by_dimensions(5, 3).unwrap());
    for (at, value) in [(0, 0), (0, 6), (1, 0), (0, u64::MAX), (1, 1 << 62)] {
        let mut fields = good.clone();
        fields[at] = Field::Unsigned(value);
        assert!(CountMin::decode(0, &mut Fields::new(&fields)).is_err(), "field {at} as {value}");
    }
    for len in 0..good.len() {
        assert!(CountMin::decode(0, &mut Fields::new(&good[..len])).is_err());
    }
    assert!(CountMin::decode(1, &mut Fields::new(&good)).is_err());
}
