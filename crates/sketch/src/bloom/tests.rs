//! Bloom filters against exact sets, older saved versions, and bad input.

use super::*;
use crate::field::{DecodeError, Field, Fields};
use crate::{Chunk, TABLE_MAX_BYTES};
use martlet_base::random::Random;
use std::collections::HashSet;

fn fields(bloom: &Bloom) -> Vec<Field> {
    let mut fields = Vec::new();
    bloom.encode(&mut fields);
    fields
}

fn filter(error_rate: f64, capacity: u64) -> Bloom {
    Bloom::new(Options { error_rate, capacity, ..Options::default() }).unwrap()
}

#[test]
fn what_was_added_is_found_and_little_else_is() {
    for (error_rate, capacity, items) in [(0.01, 100, 2000_u64), (0.001, 2000, 2000), (0.2, 10, 500)] {
        let mut bloom = filter(error_rate, capacity);
        let mut model = HashSet::new();
        for at in 0..items {
            let item = at.to_le_bytes();
            let is_new = bloom.add(&item).unwrap();
            assert!(!model.contains(&item) || !is_new);
            model.extend(is_new.then_some(item));
        }
        assert_eq!(bloom.len(), model.len() as u64);
        assert!((0..items).all(|at| bloom.contains(&at.to_le_bytes())));
        let wrong = (items..items + 20_000).filter(|at| bloom.contains(&at.to_le_bytes())).count();
        // The links' rates halve, so their sum is below the filter's; three standard deviations are for luck.
        let bound = 20_000.0 * error_rate;
        assert!((wrong as f64) < bound + 3.0 * bound.sqrt(), "{wrong} of 20000 at {error_rate}");
    }
}

#[test]
fn batches_are_single_commands() {
    let mut random = Random::seeded(3);
    let mut single = filter(0.01, 40);
    let mut batched = single.clone();
    for _ in 0..40 {
        let items: Vec<Vec<u8>> =
            (0..random.below(40)).map(|_| random.below(500).to_le_bytes().to_vec()).collect();
        let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
        let expected: Vec<_> = items.iter().map(|item| single.add(item)).collect();
        assert_eq!(batched.add_all(&items), expected);
        assert_eq!(batched.contains_all(&items), vec![true; items.len()]);
    }
    assert_eq!(fields(&single), fields(&batched));
}

#[test]
fn probes_are_queued_where_there_are_pages() {
    let mut bloom = filter(0.01, 100_000);
    let mut queue = PrefetchQueue::default();
    bloom.queue_probes(b"a", &mut queue);
    assert!(queue.is_empty(), "no page exists");
    bloom.add(b"a").unwrap();
    bloom.queue_probes(b"a", &mut queue);
    let hashes = bloom.links().map(|link| link.hashes as usize).sum::<usize>();
    // Each bit's line, and the line of its page's reference count.
    assert!((hashes..=2 * hashes).contains(&queue.len()), "{} of {hashes}", queue.len());
}

#[test]
fn a_filter_that_does_not_scale_is_full() {
    let options = Options { capacity: 3, is_scaling: false, ..Options::default() };
    let mut bloom = Bloom::new(options).unwrap();
    let items: Vec<Vec<u8>> = (0..9_u8).map(|at| vec![at]).collect();
    let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
    assert_eq!(bloom.add_all(&items), [Ok(true), Ok(true), Ok(true), Err(BloomError::Full)]);
    assert_eq!(bloom.add(&[0]), Ok(false));
    assert_eq!(BloomError::Full.to_string(), "ERR non scaling filter is full");
    assert_eq!((bloom.len(), bloom.expansion(), bloom.links().len()), (3, None, 1));
}

#[test]
fn a_clone_is_frozen() {
    let mut bloom = filter(0.01, 100_000);
    (0..1000_u32).for_each(|at| assert!(bloom.add(&at.to_le_bytes()).is_ok()));
    let (frozen, saved) = (bloom.clone(), fields(&bloom));
    (1000..9000_u32).for_each(|at| assert!(bloom.add(&at.to_le_bytes()).is_ok()));
    assert_eq!(fields(&frozen), saved);
    assert_ne!(fields(&bloom), saved);
}

#[test]
fn absurd_filters_are_refused() {
    let options =
        |error_rate, capacity, expansion| Options { error_rate, capacity, expansion, is_scaling: true };
    assert_eq!(options(0.01, 1 << 31, 2).checked(), Err(BloomError::Capacity));
    assert_eq!(options(0.01, 0, 2).checked(), Err(BloomError::Capacity));
    assert_eq!(options(1.0, 1, 2).checked(), Err(BloomError::ErrorRate));
    assert_eq!(options(f64::NAN, 1, 2).checked(), Err(BloomError::ErrorRate));
    assert_eq!(options(0.01, 1, 32769).checked(), Err(BloomError::Expansion));
    assert_eq!(
        options(0.9, 1, 0).checked().map(|options| (options.error_rate, options.is_scaling)),
        Ok((0.25, false))
    );
    let refused = |options| Bloom::new(options).err();
    assert_eq!(refused(options(1e-300, 1 << 30, 2)), Some(BloomError::Memory));
    assert_eq!(refused(options(0.01, u64::MAX, 2)), Some(BloomError::Memory));
    assert_eq!(refused(options(0.01, 0, 2)), Some(BloomError::Invalid));
    // 1.9 GB are reserved, and none of them touched.
    let large = Bloom::new(options(0.001, 1 << 30, 2)).unwrap();
    assert!(large.redis_bytes() > 1 << 30 && large.heap_bytes() < 1 << 17);
}

/// Fields of versions before 4, from a filter without options: 32-bit hashes, and bits as they are.
fn old_fields(version: u16) -> Vec<Field> {
    let number = Field::Unsigned;
    let mut fields = vec![number(0), number(1)];
    fields.extend((version >= 2).then_some(number(0)));
    fields.extend([number(20), Field::Double(0.01), number(7), Field::Double(9.585058)]);
    let bits = (20.0 * 9.585058) as u64;
    fields.extend((version >= 1).then_some([number(bits), number(0)]).into_iter().flatten());
    fields.extend([Field::String(vec![0; bits.div_ceil(8) as usize]), number(0)]);
    fields
}

#[test]
fn older_versions_are_read() {
    for version in 0..4 {
        let fields = old_fields(version);
        let mut bloom = Bloom::decode(version, &mut Fields::new(&fields)).unwrap();
        assert_eq!(bloom.links().map(|link| (link.hash_width, link.bits)).collect::<Vec<_>>(), [(32, 191)]);
        let items: Vec<[u8; 2]> = (0..60_u16).map(u16::to_le_bytes).collect();
        items.iter().for_each(|item| assert!(bloom.add(item).is_ok()));
        assert!(items.iter().all(|item| bloom.contains(item)));
        // The links that follow round up to a power of two.
        assert!(bloom.links().len() > 1 && bloom.links().skip(1).all(|link| link.bits.is_power_of_two()));
        let saved = super::tests::fields(&bloom);
        let again = Bloom::decode(TYPE.version, &mut Fields::new(&saved)).unwrap();
        assert_eq!(super::tests::fields(&again), saved);
    }
    assert_eq!(Bloom::decode(5, &mut Fields::new(&[])).err(), Some(DecodeError::Version));
}

#[test]
fn lying_fields_are_refused() {
    let bloom = filter(0.01, 100);
    let good = fields(&bloom);
    let change = |at: usize, field: Field| {
        let mut fields = good.clone();
        fields[at] = field;
        Bloom::decode(4, &mut Fields::new(&fields)).err()
    };
    for (at, value) in
        [(0, 7), (1, 0), (1, 1 << 40), (2, 16), (6, 9), (6, 1 << 33), (8, 0), (8, 1 << 60), (9, 64), (11, 1)]
    {
        assert!(change(at, Field::Unsigned(value)).is_some(), "field {at} as {value}");
    }
    for (at, value) in [(5, 0.0), (5, f64::NAN), (7, 1e9), (7, f64::NAN), (7, -1.0)] {
        assert!(change(at, Field::Double(value)).is_some(), "field {at} as {value}");
    }
    assert!(change(10, Field::String(vec![0; 8])).is_some());
    for len in 0..good.len() {
        assert_eq!(Bloom::decode(4, &mut Fields::new(&good[..len])).err(), Some(DecodeError::Truncated));
    }
}

#[test]
fn headers_and_chunks_that_lie_change_nothing() {
    let mut bloom = filter(0.01, 100);
    (0..500_u32).for_each(|at| assert!(bloom.add(&at.to_le_bytes()).is_ok()));
    let Chunk { next: 1, bytes: header } = bloom.scan_dump(0) else { panic!("no header") };
    for at in 0..header.len() {
        assert_eq!(Bloom::from_header(&header[..at]).err(), Some(BloomError::BadData));
    }
    let mut huge = header.clone();
    huge[20..28].copy_from_slice(&(TABLE_MAX_BYTES + 8).to_le_bytes());
    huge[28..36].copy_from_slice(&((TABLE_MAX_BYTES + 8) * 8).to_le_bytes());
    assert_eq!(Bloom::from_header(&huge).err(), Some(BloomError::BadData));
    let saved = fields(&bloom);
    let end: i64 = bloom.links().map(|link| link.bytes as i64).sum();
    assert_eq!(bloom.load_chunk(0, b"a"), Err(BloomError::BadData));
    assert_eq!(bloom.load_chunk(1, b"ab"), Err(BloomError::BadData));
    assert_eq!(bloom.load_chunk(1, b"a"), Err(BloomError::NoLink));
    assert_eq!(bloom.load_chunk(end + 2, b"a"), Err(BloomError::NoLink));
    assert_eq!(bloom.load_chunk(end + 2, b"ab"), Err(BloomError::ChunkTooBig));
    assert_eq!(bloom.load_chunk(i64::MAX, b"a"), Err(BloomError::NoLink));
    assert_eq!(bloom.scan_dump(i64::MIN), Chunk { next: 0, bytes: Vec::new() });
    assert_eq!(fields(&bloom), saved);
}
