//! Top-K against exact counters, where chance decides; the heap's order; bad input.

use super::*;
use crate::field::{Field, Fields};
use martlet_base::random::Random;
use std::collections::HashMap;

fn fields(sketch: &TopK) -> Vec<Field> {
    let mut fields = Vec::new();
    sketch.encode(&mut fields);
    fields
}

fn sketch(k: i64, width: i64, decay: f64) -> TopK {
    TopK::new(Options { k, width, depth: 5, decay }).unwrap()
}

/// Item `n` of 2000 comes about `1 / n` as often as the first.
fn stream(random: &mut Random) -> u64 {
    (2000.0_f64.powf(random.unit_f64())) as u64
}

#[test]
fn the_frequent_items_are_listed_with_counts_below_the_real_ones() {
    for (seed, decay) in [(1, 0.9), (2, 0.95), (3, 0.8)] {
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let mut topk = sketch(20, 300, decay);
        let mut model: HashMap<u64, u32> = HashMap::new();
        for _ in 0..40_000 {
            let item = stream(&mut random);
            *model.entry(item).or_default() += 1;
            topk.add(&item.to_le_bytes(), 1);
        }
        let list = topk.list();
        assert!(list.is_sorted_by(|left, right| left.1 >= right.1));
        for (item, count) in &list {
            let item = u64::from_le_bytes(item[..].try_into().unwrap());
            assert!(*count <= model[&item], "{item}: {count} of {}", model[&item]);
            assert!(topk.contains(&item.to_le_bytes()));
        }
        // A count above 1000 loses next to nothing to decay.
        for (item, count) in model.iter().filter(|(_, count)| **count > 1000) {
            let found = topk.count(&item.to_le_bytes());
            assert!(found * 20 >= count * 19, "{item}: {found} of {count}");
            assert!(topk.contains(&item.to_le_bytes()), "{item} of {count}");
        }
    }
}

#[test]
fn many_chances_at_once_decay_as_they_do_one_by_one() {
    let mut topk = sketch(1, 1, 0.9);
    let mut random = Random::seeded(9);
    let rounds = 20_000;
    let mean = |values: &[u32]| f64::from(values.iter().sum::<u32>()) / values.len() as f64;
    for (count, chances) in [(1, 3), (5, 4), (20, 30), (300, 50)] {
        let at_once: Vec<u32> = (0..rounds).map(|_| topk.decay(count, chances).0).collect();
        let singly = |random: &mut Random| {
            let mut left = count;
            for _ in 0..chances {
                left -= u32::from(left > 0 && random.unit_f64() < topk.chance(left));
            }
            left
        };
        let one_by_one: Vec<u32> = (0..rounds).map(|_| singly(&mut random)).collect();
        let difference = mean(&at_once) - mean(&one_by_one);
        assert!(difference.abs() < 0.05, "{count} after {chances}: {difference}");
    }
}

#[test]
fn the_lowest_count_is_first_and_leaves_first() {
    let mut topk = sketch(3, 2000, 1.0);
    for (item, count) in [(&b"a"[..], 5), (b"b", 3), (b"c", 4)] {
        assert!(topk.add(item, count).is_none());
    }
    assert_eq!(topk.count_at(0), 3);
    assert_eq!(topk.add(b"d", 2), None);
    assert!(!topk.contains(b"d"));
    assert_eq!(topk.add(b"e", 9).as_deref(), Some(&b"b"[..]));
    let list: Vec<_> = topk.list().into_iter().map(|(item, count)| (item.to_vec(), count)).collect();
    assert_eq!(list, [(b"e".to_vec(), 9), (b"a".to_vec(), 5), (b"c".to_vec(), 4)]);
    let frozen = topk.clone();
    let saved = fields(&topk);
    topk.add(b"f", 50);
    assert_eq!(fields(&frozen), saved);
}

#[test]
fn options_are_checked_before_memory() {
    let new = |options| TopK::new(options).map(|_| ()).unwrap_err();
    let options = Options::with_k(10);
    assert_eq!(new(Options { k: 0, ..options }), TopKError::K);
    assert_eq!(new(Options { width: 1 << 32, ..options }), TopKError::Width);
    assert_eq!(new(Options { depth: -1, ..options }), TopKError::Depth);
    assert_eq!(new(Options { decay: 0.0, ..options }), TopKError::Decay);
    assert_eq!(new(Options { decay: f64::NAN, ..options }), TopKError::Decay);
    assert_eq!(new(Options { k: u32::MAX.into(), ..options }), TopKError::Memory);
    assert_eq!(new(Options { width: 1 << 20, depth: 1 << 20, ..options }), TopKError::Memory);
    assert_eq!(TopK::check_increment(100_001), Err(TopKError::Increment));
    assert_eq!(TopK::check_increment(100_000), Ok(100_000));
    let sparse = TopK::new(Options::with_k(1 << 31)).unwrap();
    assert!(sparse.heap_bytes() < 1 << 20, "{}", sparse.heap_bytes());
}

#[test]
fn saved_items_may_have_zeros_and_be_empty() {
    let mut topk = sketch(4, 200, 1.0);
    for item in [&b"a\0b"[..], b"", b"\0"] {
        topk.add(item, 3);
    }
    let read = TopK::decode(0, &mut Fields::new(&fields(&topk))).unwrap();
    assert!([&b"a\0b"[..], b"", b"\0"].into_iter().all(|item| read.contains(item) && read.count(item) == 3));
    assert_eq!(fields(&read), fields(&topk));
    assert_eq!(read.item_bytes, topk.item_bytes);
}

#[test]
fn lying_fields_are_refused() {
    let mut topk = sketch(3, 4, 0.9);
    topk.add(b"a", 3);
    let good = fields(&topk);
    for (at, value) in [(0, 0), (0, 4), (0, 1 << 40), (1, 5), (1, 0), (2, u64::MAX), (2, 1 << 31)] {
        let mut fields = good.clone();
        fields[at] = Field::Unsigned(value);
        assert!(TopK::decode(0, &mut Fields::new(&fields)).is_err(), "field {at} as {value}");
    }
    for (at, field) in [
        (3, Field::Double(1.5)),
        (4, Field::String(vec![])),
        (5, Field::String(vec![0; 71])),
        (6, Field::String(vec![])),
    ] {
        let mut fields = good.clone();
        fields[at] = field;
        assert!(TopK::decode(0, &mut Fields::new(&fields)).is_err(), "field {at}");
    }
    for len in 0..good.len() {
        assert!(TopK::decode(0, &mut Fields::new(&good[..len])).is_err());
    }
}

#[test]
fn equal_histories_decay_equally_also_after_a_load() {
    for seed in [11, 12] {
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let mut topk = sketch(5, 4, 0.8);
        let add = |topk: &mut TopK, item: u64| topk.add(&item.to_le_bytes(), 1 + (item % 3) as u32);
        (0..500).for_each(|_| drop(add(&mut topk, stream(&mut random))));
        let mut copy = topk.clone();
        let mut loaded = TopK::decode(TYPE.version, &mut Fields::new(&fields(&topk))).unwrap();
        for _ in 0..500 {
            let item = stream(&mut random);
            let expelled = add(&mut topk, item);
            assert_eq!(add(&mut copy, item), expelled);
            assert_eq!(add(&mut loaded, item), expelled);
        }
        assert_eq!(fields(&topk), fields(&copy));
        assert_eq!(fields(&topk), fields(&loaded));
        assert_ne!(topk.draws.0, 0);
    }
}
