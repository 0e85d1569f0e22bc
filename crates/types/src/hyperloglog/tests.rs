//! A HyperLogLog against its registers in a plain array.

use super::*;
use proptest::prelude::*;

/// Additions one after another, and the registers that they give.
fn add_all(elements: &[Vec<u8>], max_bytes: usize) -> (Vec<u8>, Registers) {
    let (mut bytes, mut registers) = (empty(), Registers::default());
    for element in elements {
        let seen = Observation::of(element);
        let place = &mut registers.0[seen.index];
        assert_eq!(add(&mut bytes, seen, max_bytes), Ok(*place < seen.value));
        *place = seen.value.max(*place);
    }
    (bytes, registers)
}

fn registers_of(bytes: &[u8]) -> Registers {
    let mut registers = Registers::default();
    registers.merge(bytes).unwrap();
    registers
}

#[test]
fn hashes_are_those_of_murmur_hash() {
    // As redis-server answers PFDEBUG DECODE after PFADD of each alone. The last one has a word and a rest.
    let expected = [("", 5938, 2), ("a", 12_711, 2), ("foo", 7348, 5), ("hello world", 9399, 4)];
    for (element, index, value) in expected {
        let seen = Observation::of(element.as_bytes());
        assert_eq!((seen.index, seen.value), (index, value), "{element}");
    }
}

#[test]
fn what_is_no_hyperloglog_is_none() {
    let sparse = empty();
    assert_eq!(encoding(&sparse), Some(Encoding::Sparse));
    assert_eq!(sparse.len(), 18);
    let mut dense = sparse.clone();
    assert_eq!(make_dense(&mut dense), Ok(true));
    assert_eq!(encoding(&dense), Some(Encoding::Dense));
    assert_eq!(make_dense(&mut dense), Ok(false));
    dense.push(0);
    assert_eq!(encoding(&dense), None);
    assert_eq!(encoding(&sparse[..15]), None);
    assert_eq!(encoding(b"HYLX\x01\0\0\0\0\0\0\0\0\0\0\0"), None);
    let mut other = sparse;
    other[ENCODING_AT] = 2;
    assert_eq!(encoding(&other), None);
}

#[test]
fn runs_that_are_not_all_registers_are_refused() {
    let seen = Observation { index: 100, value: 3 };
    let high = Observation { index: 100, value: 33 };
    let whole = empty();
    let cut = &whole[..HEADER_BYTES];
    for damaged in [cut, &whole[..17], &[&whole[..], &[0]].concat(), &[cut, &[0x40, 99]].concat()] {
        let mut bytes = damaged.to_vec();
        assert_eq!(count(&bytes), Err(Corrupt));
        assert_eq!(make_dense(&mut bytes), Err(Corrupt));
        assert_eq!(add(&mut bytes, high, 3000), Err(Corrupt));
        assert_eq!(Registers::default().merge(&bytes), Err(Corrupt));
        assert!(!is_whole(&bytes));
        assert_eq!(bytes, damaged);
    }
    // The register's run is there, so an addition does not see that others are missing.
    let mut short = [cut, &[0x40, 199]].concat();
    assert_eq!(add(&mut short, seen, 3000), Ok(true));
    assert_eq!(add(&mut short, Observation { index: 200, value: 1 }, 3000), Err(Corrupt));
}

#[test]
fn equal_neighbours_are_joined() {
    let mut bytes = empty();
    for index in [10, 12, 11, 13, 14] {
        add(&mut bytes, Observation { index, value: 7 }, 3000).unwrap();
    }
    let written: Vec<_> = runs(&bytes).map(|run| (run.value, run.registers.len())).collect();
    assert_eq!(written, [(0, 10), (7, 4), (7, 1), (0, REGISTERS - 15)]);
    // A run of four that is split in its midst.
    add(&mut bytes, Observation { index: 11, value: 9 }, 3000).unwrap();
    let written: Vec<_> = runs(&bytes).map(|run| (run.value, run.registers.len())).collect();
    assert_eq!(written, [(0, 10), (7, 1), (9, 1), (7, 3), (0, REGISTERS - 15)]);
}

#[test]
fn the_cached_count_is_kept_until_registers_change() {
    let mut bytes = empty();
    assert_eq!(cached_count(&bytes), Some(0));
    add(&mut bytes, Observation::of(b"x"), 3000).unwrap();
    assert_eq!(cached_count(&bytes), None);
    set_cached_count(&mut bytes, 1);
    assert_eq!(cached_count(&bytes), Some(1));
    add(&mut bytes, Observation::of(b"x"), 3000).unwrap();
    assert_eq!(cached_count(&bytes), Some(1));
    make_dense(&mut bytes).unwrap();
    assert_eq!(cached_count(&bytes), Some(1));
    forget_count(&mut bytes);
    assert_eq!(cached_count(&bytes), None);
}

#[test]
fn estimates_are_close() {
    let (mut bytes, mut added) = (empty(), 0_u64);
    for checkpoint in [1, 10, 100, 1000, 10_000, 100_000] {
        for number in added..checkpoint {
            add(&mut bytes, Observation::of(&number.to_le_bytes()), 3000).unwrap();
        }
        added = checkpoint;
        let estimate = count(&bytes).unwrap();
        let error = estimate.abs_diff(checkpoint) as f64 / checkpoint as f64;
        assert!(error < 0.03, "{estimate} for {checkpoint}");
        assert_eq!(registers_of(&bytes).count(), estimate);
    }
    assert_eq!(encoding(&bytes), Some(Encoding::Dense));
    assert_eq!(count(&empty()), Ok(0));
}

proptest! {
    #[test]
    fn any_additions_give_their_registers(
        numbers in prop::collection::vec(0_u32..20_000, 0..400),
        high in prop::collection::vec((0..REGISTERS, 1_u8..=51), 0..60),
        max_bytes in prop::sample::select(vec![0_usize, 20, 100, 300, 3000]),
    ) {
        let elements: Vec<_> = numbers.iter().map(|number| number.to_string().into_bytes()).collect();
        let (mut bytes, mut expected) = add_all(&elements, max_bytes);
        for (index, value) in high {
            let is_below = expected.0[index] < value;
            prop_assert_eq!(add(&mut bytes, Observation { index, value }, max_bytes), Ok(is_below));
            expected.0[index] = value.max(expected.0[index]);
        }
        prop_assert!(is_whole(&bytes));
        prop_assert_eq!(registers_of(&bytes).0, expected.0);
        prop_assert_eq!(count(&bytes).unwrap(), expected.count());
        for Observation { index, value } in expected.observations() {
            prop_assert_eq!(add(&mut bytes, Observation { index, value }, max_bytes), Ok(false));
        }
        if encoding(&bytes) == Some(Encoding::Sparse) {
            prop_assert!(bytes.len() <= max_bytes.max(empty().len()));
            prop_assert_eq!(make_dense(&mut bytes), Ok(true));
            prop_assert_eq!(registers_of(&bytes).0, expected.0);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_have_all_registers(tail in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = [&empty()[..HEADER_BYTES], &tail].concat();
        let whole = is_whole(&bytes);
        prop_assert_eq!(count(&bytes).is_ok(), whole);
        for index in [0, 1, 5, 1000, REGISTERS - 1] {
            let outcome = add(&mut bytes, Observation { index, value: 20 }, 3000);
            prop_assert!(outcome.is_ok() || !whole);
        }
        prop_assert_eq!(is_whole(&bytes), whole);
    }
}
