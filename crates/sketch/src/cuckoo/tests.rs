//! Cuckoo filters against multisets, and bad input.

use super::*;
use crate::field::{DecodeError, Field, Fields};
use martlet_base::random::Random;
use std::collections::HashMap;

fn fields(cuckoo: &Cuckoo) -> Vec<Field> {
    let mut fields = Vec::new();
    cuckoo.encode(&mut fields);
    fields
}

#[test]
fn counts_are_never_below_the_model() {
    for (seed, (bucket_size, expansion, capacity)) in
        [(1, 1, 8), (2, 1, 1024), (3, 2, 60), (4, 0, 4096)].into_iter().enumerate()
    {
        println!("seed {seed}");
        let mut random = Random::seeded(seed as u64);
        let mut cuckoo =
            Cuckoo::new(Options { capacity, bucket_size, max_iterations: 20, expansion }).unwrap();
        let mut model: HashMap<[u8; 8], u64> = HashMap::new();
        for _ in 0..3000 {
            let item = random.below(700).to_le_bytes();
            // Only items that were added are deleted, or others would lose their fingerprints.
            if random.below(3) == 0 && model.get(&item).is_some_and(|count| *count > 0) {
                assert!(cuckoo.delete(&item));
                *model.entry(item).or_default() -= 1;
            } else if random.below(2) == 0 {
                cuckoo.add(&item).unwrap();
                *model.entry(item).or_default() += 1;
            } else if cuckoo.add_new(&item).unwrap() {
                assert_eq!(model.insert(item, 1).unwrap_or(0), 0);
            }
            assert_eq!(cuckoo.info().items, model.values().sum::<u64>());
        }
        cuckoo.compact();
        assert!(model.iter().all(|(item, count)| cuckoo.count(item) >= *count));
        assert!(model.iter().all(|(item, count)| *count == 0 || cuckoo.contains(item)));
    }
}

#[test]
fn a_filter_without_expansion_is_full_and_unchanged() {
    let mut cuckoo =
        Cuckoo::new(Options { capacity: 8, bucket_size: 2, max_iterations: 50, expansion: 0 }).unwrap();
    let mut at = 0_u32;
    while cuckoo.add(&at.to_le_bytes()).is_ok() {
        at += 1;
    }
    let saved = fields(&cuckoo);
    assert_eq!(cuckoo.add(&at.to_le_bytes()), Err(CuckooError::Full));
    assert_eq!(fields(&cuckoo), saved);
    assert_eq!(cuckoo.add_all(&[&at.to_le_bytes()], false), [Err(CuckooError::Full)]);
    assert!((0..at).all(|at| cuckoo.contains(&at.to_le_bytes())));
}

#[test]
fn options_are_checked_before_memory() {
    let new = |options| Cuckoo::new(options).map(|_| ()).unwrap_err();
    let options = Options::default();
    assert_eq!(new(Options { capacity: 3, ..options }), CuckooError::Capacity);
    assert_eq!(new(Options { capacity: 1 << 31, ..options }), CuckooError::Capacity);
    assert_eq!(new(Options { bucket_size: 256, ..options }), CuckooError::BucketSize);
    assert_eq!(new(Options { bucket_size: 0, ..options }), CuckooError::BucketSize);
    assert_eq!(new(Options { max_iterations: 0, ..options }), CuckooError::MaxIterations);
    assert_eq!(new(Options { max_iterations: 65536, ..options }), CuckooError::MaxIterations);
    assert_eq!(new(Options { expansion: 32769, ..options }), CuckooError::Expansion);
    assert_eq!(new(Options { expansion: -1, ..options }), CuckooError::Expansion);
    let largest = Cuckoo::new(Options { capacity: 1 << 30, ..options }).unwrap();
    assert!(largest.heap_bytes() < 1 << 16, "{}", largest.heap_bytes());
}

#[test]
fn lying_fields_are_refused() {
    let mut cuckoo = Cuckoo::new(Options { capacity: 8, ..Options::default() }).unwrap();
    (0..40_u32).for_each(|at| cuckoo.add(&at.to_le_bytes()).unwrap());
    let good = fields(&cuckoo);
    assert!(cuckoo.info().filters > 2);
    let lies = [
        (0, 0),
        (0, 70_000),
        (1, 3),
        (1, 0),
        (4, 0),
        (4, 256),
        (5, 0),
        (6, 3),
        (7, 3),
        (7, 1),
        (7, u64::MAX),
    ];
    for (at, value) in lies {
        let mut fields = good.clone();
        fields[at] = Field::Unsigned(value);
        assert!(Cuckoo::decode(4, &mut Fields::new(&fields)).is_err(), "field {at} as {value}");
    }
    for len in 0..good.len() {
        assert_eq!(Cuckoo::decode(4, &mut Fields::new(&good[..len])).err(), Some(DecodeError::Truncated));
    }
}

#[test]
fn version_three_has_no_options() {
    let mut cuckoo = Cuckoo::new(Options { capacity: 8, ..Options::default() }).unwrap();
    (0..5_u32).for_each(|at| cuckoo.add(&at.to_le_bytes()).unwrap());
    let Field::String(table) = fields(&cuckoo)[8].clone() else { panic!("no table") };
    let old = [Field::Unsigned(1), Field::Unsigned(4), Field::Unsigned(5), Field::String(table)];
    let read = Cuckoo::decode(3, &mut Fields::new(&old)).unwrap();
    assert_eq!(fields(&read), fields(&cuckoo));
}

#[test]
fn headers_and_chunks_that_lie_change_nothing() {
    let mut cuckoo = Cuckoo::new(Options { capacity: 8, ..Options::default() }).unwrap();
    assert_eq!(cuckoo.scan_dump(0), None);
    (0..40_u32).for_each(|at| cuckoo.add(&at.to_le_bytes()).unwrap());
    let header = cuckoo.scan_dump(0).unwrap().bytes;
    assert_eq!(Cuckoo::from_header(&header[1..]).err(), Some(CuckooError::HeaderLength));
    let change = |at: usize, bytes: &[u8]| {
        let mut header = header.clone();
        header[at..at + bytes.len()].copy_from_slice(bytes);
        Cuckoo::from_header(&header).err()
    };
    for (at, value) in [(8, 3_u64), (8, 1 << 56), (24, 0), (24, 1 << 33), (8, 1 << 40)] {
        assert_eq!(change(at, &value.to_le_bytes()), Some(CuckooError::Header), "{at} as {value}");
    }
    assert_eq!(change(32, &300_u16.to_le_bytes()), Some(CuckooError::Header));
    let saved = fields(&cuckoo);
    let end = cuckoo.table_bytes() as i64;
    for (position, bytes) in [
        (i64::MIN, &b"a"[..]),
        (0, b"a"),
        (1, b"a"),
        (2, b"ab"),
        (5, b""),
        (end + 2, b"a"),
        (end + 2, b"abc"),
    ] {
        assert_eq!(cuckoo.load_chunk(position, bytes), Err(CuckooError::Chunk), "{position}");
    }
    assert_eq!(cuckoo.scan_dump(i64::MIN), None);
    assert_eq!(cuckoo.scan_dump(end + 1), None);
    assert_eq!(fields(&cuckoo), saved);
}
