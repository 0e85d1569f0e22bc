//! Replies of the bitmap commands, and bits against a naive model.

use proptest::prelude::*;

use super::bits;
use super::field::{Action, Field, Operation, Overflow};
use super::op::{self, combine};
use crate::testing::Fixture;

fn check(t: &mut Fixture, cases: &[(&str, &str)]) {
    for (request, reply) in cases {
        assert_eq!(t.run(request), *reply, "{request}");
    }
}

#[test]
fn single_bits() {
    let mut t = Fixture::new();
    let bad = "-ERR bit offset is not an integer or out of range";
    check(
        &mut t,
        &[
            ("SETBIT k 7 1", ":0"),
            ("SETBIT k 7 1", ":1"),
            ("GETBIT k 7", ":1"),
            ("GETBIT k 100", ":0"),
            ("GET k", "\"\\x01\""),
            ("SETBIT k -1 1", bad),
            ("SETBIT k 4294967296 1", bad),
            ("GETBIT k x", bad),
            ("SETBIT k 1 2", "-ERR bit is not an integer or out of range"),
            ("SETBIT k 1 x", "-ERR bit is not an integer or out of range"),
            ("SET n 1", "+OK"),
            ("GETBIT n 2", ":1"),
            ("SETBIT n 6 1", ":0"),
            ("GET n", "\"3\""),
            ("OBJECT ENCODING n", "\"raw\""),
        ],
    );
    t.run("SETBIT k 7 1");
    assert_eq!(t.dirty, 0);
    t.run("SETBIT k 8 0");
    assert_eq!((t.dirty, t.events()), (1, &["setbit k".to_string()][..]));
}

#[test]
fn counts_and_positions() {
    let mut t = Fixture::new();
    check(
        &mut t,
        &[
            ("BITCOUNT none", ":0"),
            ("BITPOS none 0", ":0"),
            ("BITPOS none 1", ":-1"),
            ("BITPOS none 1 0 -1 BIT", ":-1"),
            ("SET k foobar", "+OK"),
            ("BITCOUNT k", ":26"),
            ("BITCOUNT k 0 0", ":4"),
            ("BITCOUNT k 1", "-ERR syntax error"),
            ("BITCOUNT k 5 30 BIT", ":17"),
            ("BITCOUNT k 5 30 BYTES", "-ERR syntax error"),
            ("BITCOUNT k 1 1 BIT BIT", "-ERR syntax error"),
            ("BITCOUNT k -1 -3", ":0"),
            ("SET k \"\\xff\\xf0\\x00\"", "+OK"),
            ("BITPOS k 0", ":12"),
            ("BITPOS k 1 2", ":-1"),
            ("BITPOS k 0 0 0", ":-1"),
            ("BITPOS k 1 7 -1 BIT", ":7"),
            ("BITPOS k 2", "-ERR The bit argument must be 1 or 0."),
            ("BITPOS k 1 0 1 BITS", "-ERR syntax error"),
            ("SET k \"\\xff\\xff\"", "+OK"),
            ("BITPOS k 0", ":16"),
            ("BITPOS k 0 1", ":16"),
            ("BITPOS k 0 0 -1", ":-1"),
            ("SET e \"\"", "+OK"),
            ("BITPOS e 0", ":-1"),
            ("BITCOUNT e", ":0"),
        ],
    );
}

#[test]
fn operations() {
    let mut t = Fixture::new();
    check(
        &mut t,
        &[
            ("BITOP NAND d a b", "-ERR syntax error"),
            ("BITOP NOT d a b", "-ERR BITOP NOT must be called with a single source key."),
            ("BITOP diff1 d a", "-ERR BITOP DIFF1 must be called with at least two source keys."),
            ("BITOP AND d a b", ":0"),
            ("MSET a \"\\x0f\\xf0\\xff\" b \"\\x3c\" n 1", "+OK"),
            ("BITOP AND d a b", ":3"),
            ("GET d", "\"\\x0c\\x00\\x00\""),
            ("BITOP OR d a b", ":3"),
            ("GET d", "\"?\\xf0\\xff\""),
            ("BITOP XOR d a b n", ":3"),
            ("GET d", "\"\\x02\\xf0\\xff\""),
            ("BITOP NOT d b", ":1"),
            ("GET d", "\"\\xc3\""),
            ("BITOP DIFF d a b", ":3"),
            ("GET d", "\"\\x03\\xf0\\xff\""),
            ("BITOP DIFF1 d a b", ":3"),
            ("GET d", "\"0\\x00\\x00\""),
            ("BITOP ANDOR d a b", ":3"),
            ("GET d", "\"\\x0c\\x00\\x00\""),
            ("BITOP ONE d a b a", ":3"),
            ("GET d", "\"0\\x00\\x00\""),
            ("BITOP OR d none", ":0"),
            ("EXISTS d", ":0"),
        ],
    );
}

#[test]
fn fields() {
    let mut t = Fixture::new();
    let bad =
        "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
    check(
        &mut t,
        &[
            ("BITFIELD k", "[]"),
            ("BITFIELD k GET u8 0", "[:0]"),
            ("EXISTS k", ":0"),
            ("BITFIELD k SET i8 0 -1 GET u4 #1 INCRBY u8 0 1", "[:0 :15 :0]"),
            ("BITFIELD k OVERFLOW SAT INCRBY u2 100 3 INCRBY u2 100 1", "[:3 :3]"),
            ("BITFIELD k OVERFLOW FAIL INCRBY u2 100 1 OVERFLOW WRAP INCRBY u2 100 1", "[nil :0]"),
            ("BITFIELD k SET u64 0 1", bad),
            ("BITFIELD k SET i65 0 1", bad),
            ("BITFIELD k GET x8 0", bad),
            ("BITFIELD k OVERFLOW none", "-ERR Invalid OVERFLOW type specified"),
            ("BITFIELD k GET u8", "-ERR syntax error"),
            ("BITFIELD k GET u8 #4294967296", "-ERR bit offset is not an integer or out of range"),
            ("BITFIELD_RO k SET u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand"),
            ("SET n 1", "+OK"),
            ("BITFIELD_RO n GET u8 0 GET i64 0", "[:49 :3530822107858468864]"),
            (
                "BITFIELD n SET i64 0 9223372036854775807 INCRBY i64 0 1",
                "[:3530822107858468864 :-9223372036854775808]",
            ),
        ],
    );
    t.run("BITFIELD k SET u8 0 0");
    assert_eq!(t.dirty, 0);
    t.run("BITFIELD k SET u8 0 1 SET u8 0 2");
    assert_eq!(t.dirty, 1);
}

fn bit(bytes: &[u8], at: u64) -> bool {
    bytes.get((at / 8) as usize).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1)
}

/// An operation bit by bit, from how many sources have the bit and whether the first one has it.
fn combined(operation: op::Operation, first: bool, others: usize) -> bool {
    let count = others + usize::from(first);
    match operation {
        op::Operation::And => unreachable!("needs the number of sources"),
        op::Operation::Or => count > 0,
        op::Operation::Xor => count % 2 == 1,
        op::Operation::Not => !first,
        op::Operation::Diff => first && others == 0,
        op::Operation::Diff1 => !first && others > 0,
        op::Operation::AndOr => first && others > 0,
        op::Operation::One => count == 1,
    }
}

/// A string with long runs of equal bytes, which the fast paths skip.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => Just(0u8), 3 => Just(0xffu8), 1 => any::<u8>()];
    proptest::collection::vec((byte, 1usize..20), 0..6)
        .prop_map(|runs| runs.into_iter().flat_map(|(byte, len)| std::iter::repeat_n(byte, len)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn counting_and_finding(bytes in text(), a in any::<u64>(), b in any::<u64>(), wanted in any::<bool>()) {
        let bits = bytes.len() as u64 * 8;
        prop_assume!(bits > 0);
        let (a, b) = (a % bits, b % bits);
        let (begin, end) = (a.min(b), a.max(b) + 1);
        let set = (begin..end).filter(|at| bit(&bytes, *at)).count() as u64;
        prop_assert_eq!(bits::count_range(&bytes, begin, end), set);
        prop_assert_eq!(bits::find(&bytes, wanted, begin, end), (begin..end).find(|at| bit(&bytes, *at) == wanted));
    }

    #[test]
    fn combining(sources in proptest::collection::vec(text(), 2..5)) {
        let slices: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
        use op::Operation::*;
        for operation in [And, Or, Xor, Not, Diff, Diff1, AndOr, One] {
            let slices = if operation == Not { &slices[..1] } else { &slices[..] };
            let result = combine(operation, slices);
            prop_assert_eq!(result.len(), slices.iter().map(|s| s.len()).max().unwrap());
            for at in 0..result.len() as u64 * 8 {
                let others = slices[1..].iter().filter(|s| bit(s, at)).count();
                let first = bit(slices[0], at);
                let expected = match operation {
                    And => first && others == slices.len() - 1,
                    other => combined(other, first, others),
                };
                prop_assert_eq!(bit(&result, at), expected, "{:?} at {}", operation, at);
            }
        }
    }

    #[test]
    fn fields_hold_what_is_written(
        mut bytes in proptest::collection::vec(any::<u8>(), 24),
        signed in any::<bool>(),
        width in 1u32..=64,
        offset in 0u64..120,
        value in any::<i64>(),
    ) {
        let field = Field { signed, bits: if signed { width } else { width.min(63) } };
        let before = bytes.clone();
        let operation = |action| Operation { field, offset, action };
        operation(Action::Set(value, Overflow::Wrap)).run(&mut bytes);
        let end = offset + u64::from(field.bits);
        for at in 0..bytes.len() as u64 * 8 {
            let expected = if (offset..end).contains(&at) { value >> (end - 1 - at) & 1 == 1 } else { bit(&before, at) };
            prop_assert_eq!(bit(&bytes, at), expected);
        }
        let shift = 64 - field.bits;
        let read = field.read(&bytes, offset);
        let expected = if signed { value << shift >> shift } else { ((value as u64) << shift >> shift) as i64 };
        prop_assert_eq!(read, expected);
        // Adding and taking away again, saturating or not, stays within the field's range.
        for overflow in [Overflow::Wrap, Overflow::Saturate, Overflow::Fail] {
            let added = operation(Action::Add(value, overflow)).run(&mut bytes.clone()).reply;
            let exact = i128::from(read) + i128::from(value);
            let (low, high) = if signed { (-(1i128 << (field.bits - 1)), (1i128 << (field.bits - 1)) - 1) }
                else { (0, (1i128 << field.bits) - 1) };
            let expected = match overflow {
                _ if (low..=high).contains(&exact) => Some(exact),
                Overflow::Fail => None,
                Overflow::Saturate => Some(exact.clamp(low, high)),
                Overflow::Wrap => Some((exact - low).rem_euclid(high - low + 1) + low),
            };
            prop_assert_eq!(added.map(i128::from), expected);
        }
    }
}
