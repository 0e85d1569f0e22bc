//! Number text against what C's own functions answer, and against Rust's parser.

use super::*;
use proptest::prelude::*;
use std::ffi::CString;

fn text_f64(value: f64) -> String {
    String::from_utf8(format_f64(value, &mut NumberBuffer::new()).to_vec()).expect("ASCII")
}

/// What Redis does with `strtod`.
fn c_parse_f64(text: &[u8]) -> Option<f64> {
    if text.first().is_none_or(|byte| byte.is_ascii_whitespace() || *byte == 0x0b) {
        return None;
    }
    let c_text = CString::new(text).ok()?;
    let mut end = std::ptr::null_mut();
    // SAFETY: the text ends in NUL, `end` is written before it is read and points into the text, and
    // `errno` is this thread's own.
    let (value, used, error) = unsafe {
        *libc::__errno_location() = 0;
        let value = libc::strtod(c_text.as_ptr(), &mut end);
        (value, end.offset_from(c_text.as_ptr()) as usize, *libc::__errno_location())
    };
    let out_of_range = error == libc::ERANGE && (value == 0.0 || value.is_infinite());
    (used == text.len() && !value.is_nan() && !out_of_range).then_some(value)
}

#[test]
fn lengths_are_those_of_the_text() {
    let powers = (0..19).map(|i| 10i64.pow(i));
    let values = powers.flat_map(|p| [p - 1, p, p + 1, -p, 1 - p, -p - 1]).chain([i64::MIN, i64::MAX]);
    for value in values {
        assert_eq!(decimal_len(value), value.to_string().len(), "{value}");
    }
}

#[test]
fn integers_are_canonical() {
    for (text, value) in [
        ("0", Some(0)),
        ("-1", Some(-1)),
        ("9223372036854775807", Some(i64::MAX)),
        ("-9223372036854775808", Some(i64::MIN)),
        ("9223372036854775808", None),
        ("-9223372036854775809", None),
        ("99999999999999999999", None),
        ("", None),
        ("-", None),
        ("-0", None),
        ("+1", None),
        ("01", None),
        ("1 ", None),
        (" 1", None),
        ("1.0", None),
        ("0x1", None),
    ] {
        assert_eq!(parse_i64(text.as_bytes()), value, "{text:?}");
    }
}

#[test]
fn doubles_are_written_as_redis_does() {
    for (value, text) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (3.0, "3"),
        (-17.0, "-17"),
        (0.1, "0.1"),
        (10.6, "10.6"),
        (1.5e-5, "0.000015"),
        (1e-7, "1e-7"),
        (1.25e-9, "1.25e-9"),
        (1e17, "100000000000000000"),
        (1e21, "1e+21"),
        (1.2345678901234567e22, "12345678901234568000000"),
        (1.25e22, "1.25e+22"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (5e-324, "5e-324"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN, "nan"),
        (123456.789, "123456.789"),
        (-1234567890123.4567, "-1234567890123.4568"),
    ] {
        assert_eq!(text_f64(value), text);
    }
}

#[test]
fn doubles_are_read_as_strtod_does() {
    for text in [
        "1",
        "+1",
        "-1",
        "1.",
        ".5",
        ".",
        "-.",
        "1e5",
        "1e",
        "1e+",
        "e5",
        "1e400",
        "-1e400",
        "1e-400",
        "4.9e-324",
        "2e-324",
        "0e999999999999999999999",
        "0x10",
        "0x",
        "0x.8",
        "0x1p-1074",
        "0x1.8p-1075",
        "0x1p-1075",
        "0x1p1024",
        "0x1.fffffffffffff8p1023",
        "0X1P+3",
        "inf",
        "-Inf",
        "infinity",
        "+INFINITY",
        "infinit",
        "nan",
        "nan(1)",
        "-nan",
        " 1",
        "1 ",
        "1_0",
        "--1",
        "+-1",
        "",
        "0x1.00000000000008000000001",
        "9007199254740993",
        "9007199254740992.5",
        "0.1e1",
        "123456789012345678901234567890",
    ] {
        let (ours, theirs) = (parse_f64(text.as_bytes()), c_parse_f64(text.as_bytes()));
        assert_eq!(ours.map(f64::to_bits), theirs.map(f64::to_bits), "{text:?}");
    }
    assert_eq!(parse_f64(b"0x1p-1076"), None);
    assert_eq!(parse_f64(b"1\0"), None);
}

fn sum_text(a: &str, b: &str) -> Option<String> {
    let sum = LongDouble::parse(a.as_bytes())?.checked_add(LongDouble::parse(b.as_bytes())?)?;
    Some(String::from_utf8(sum.to_text()).expect("ASCII"))
}

#[test]
fn long_double_sums_are_those_of_redis() {
    // Every pair was answered by redis-server 7.0.15 on x86-64.
    for (a, b, sum) in [
        ("10.5", "0.1", "10.6"),
        ("3.0e3", "200", "3200"),
        ("5.0e3", "2.0e2", "5200"),
        ("0.1", "0.2", "0.3"),
        ("1", "-1", "0"),
        ("-0.1", "0.1", "0"),
        ("17179869184", "1.5", "17179869185.5"),
        ("1e-18", "0", "0"),
        ("-1e-18", "0", "0"),
        ("5.1e-18", "0", "0.00000000000000001"),
        ("-0", "-0", "0"),
    ] {
        assert_eq!(sum_text(a, b).as_deref(), Some(sum), "{a} + {b}");
    }
    assert_eq!(sum_text("inf", "1"), None);
    assert_eq!(sum_text("1", "-inf"), None);
    assert_eq!(sum_text("1.18e4932", "1.18e4932"), None);
    assert_eq!(LongDouble::parse(b"1.2e4932"), None);
    assert_eq!(LongDouble::parse(b"1e-5000"), None);
    assert!(LongDouble::parse(b"4e-4951").is_some());
    assert_eq!(LongDouble::parse(&[b'1'; 5120]), None);
}

#[test]
fn long_doubles_round_trip_exact_integers() {
    for power in 0..63u32 {
        for value in [1i64 << power, (1i64 << power) - 1, -(1i64 << power)] {
            let text = LongDouble::from(value).to_text();
            assert_eq!(text, value.to_string().as_bytes());
            assert_eq!(LongDouble::parse(&text), Some(LongDouble::from(value)));
        }
    }
}

fn decimal_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[+-]?[0-9]{1,25}",
        "[+-]?[0-9]{0,20}\\.[0-9]{0,25}",
        "[+-]?[0-9]{1,3}(\\.[0-9]{1,19})?[eE][+-]?[0-9]{1,3}",
        "[+-]?0[xX][0-9a-fA-F]{0,20}(\\.[0-9a-fA-F]{0,20})?([pP][+-]?[0-9]{1,4})?",
        "[+-]?[0-9a-fxnpeINF+.-]{0,8}",
    ]
}

#[test]
fn bounds_saturate() {
    for (text, value) in [
        ("1e400", Some(f64::INFINITY)),
        ("-1e400", Some(f64::NEG_INFINITY)),
        ("0x1p2000", Some(f64::INFINITY)),
        ("1e-400", Some(0.0)),
        ("-0x1p-2000", Some(0.0)),
        ("1.5", Some(1.5)),
        ("-inf", Some(f64::NEG_INFINITY)),
        ("nan", None),
        ("x", None),
    ] {
        assert_eq!(parse_f64_saturating(text.as_bytes()), value, "{text}");
    }
}

proptest! {
    #[test]
    fn significant_digits_as_c_writes_them(bits: u64, small in -1_000_000i32..1_000_000, precision in 1usize..18) {
        for value in [f64::from_bits(bits), f64::from(small) / 1000.0] {
            prop_assume!(value.is_finite());
            let mut theirs = [0u8; 64];
            // SAFETY: the buffer is longer than any such text, and the format fits the arguments.
            let len = unsafe {
                let c_precision = precision as libc::c_int;
                libc::snprintf(theirs.as_mut_ptr().cast(), theirs.len(), c"%.*g".as_ptr(), c_precision, value)
            };
            let mut buffer = NumberBuffer::new();
            prop_assert_eq!(format_f64_significant(value, precision, &mut buffer), &theirs[..len as usize]);
        }
        let value = f64::from_bits(bits);
        let (mut one, mut two) = (NumberBuffer::new(), NumberBuffer::new());
        prop_assert_eq!(format_f64_seventeen(value, &mut one), format_f64_significant(value, 17, &mut two));
    }

    #[test]
    fn integer_text_round_trips(value: i64) {
        let mut buffer = NumberBuffer::new();
        prop_assert_eq!(parse_i64(format_i64(value, &mut buffer)), Some(value));
    }

    #[test]
    fn integer_text_is_exactly_the_canonical_one(text in "[-+]?[0-9]{0,21}") {
        let expected = text.parse::<i64>().ok().filter(|value| value.to_string() == text);
        prop_assert_eq!(parse_i64(text.as_bytes()), expected);
    }

    #[test]
    fn double_text_round_trips(bits: u64) {
        let value = f64::from_bits(bits);
        prop_assume!(!value.is_nan());
        prop_assert_eq!(parse_f64(text_f64(value).as_bytes()).map(f64::to_bits), Some(bits));
    }

    #[test]
    fn few_decimals_are_written_as_they_are_spelled(digits in -999_999_999_999_999i64..1_000_000_000_000_000, shift in 0u32..40, decimals in 0i32..7) {
        let value: f64 = format!("{}e-{decimals}", digits >> shift).parse().expect("a number");
        prop_assert_eq!(text_f64(value), value.to_string());
    }

    #[test]
    fn short_doubles_round_trip(digits in -1_000_000_000_000i64..1_000_000_000_000, power in -12i32..3) {
        let value: f64 = format!("{digits}e{power}").parse().expect("a number");
        prop_assert_eq!(parse_f64(text_f64(value).as_bytes()), Some(value));
    }

    #[test]
    fn doubles_read_as_c_does(text in decimal_text()) {
        let (ours, theirs) = (parse_f64(text.as_bytes()), c_parse_f64(text.as_bytes()));
        prop_assert_eq!(ours.map(f64::to_bits), theirs.map(f64::to_bits));
    }

    /// Both ways of reading a decimal number, the short one and the one for any size, agree.
    #[test]
    fn long_double_reading_does_not_depend_on_the_way(digits in 0u64..10_000_000_000, decimals in 0usize..19) {
        let text = format!("{digits}e-{decimals}");
        let long = format!("{digits}{}e-{}", "0".repeat(30), decimals + 30);
        prop_assert_eq!(LongDouble::parse(text.as_bytes()), LongDouble::parse(long.as_bytes()));
    }

    /// Small numbers of thirteen decimals come back as they went in.
    #[test]
    fn long_double_text_round_trips(whole in -9i64..10, decimals in 0u64..10_000_000_000_000) {
        let text = format!("{whole}.{decimals:013}");
        let expected = text.trim_end_matches('0').trim_end_matches('.').to_owned();
        prop_assume!(expected != "-0");
        let read = LongDouble::parse(text.as_bytes()).expect("a number");
        prop_assert_eq!(String::from_utf8(read.to_text()).expect("ASCII"), expected);
    }
}

#[test]
fn long_doubles_have_an_order() {
    let ascending =
        ["-inf", "-1e4931", "-2", "-1.5", "-1e-4000", "0", "1e-4000", "1", "1.5", "1e4931", "inf"];
    let numbers = ascending.map(|text| LongDouble::parse(text.as_bytes()).unwrap());
    for (i, a) in numbers.iter().enumerate() {
        assert_eq!((a.is_negative(), a.negated().negated()), (i < 5, *a), "{}", ascending[i]);
        for (j, b) in numbers.iter().enumerate() {
            assert_eq!(a.compare(b), i.cmp(&j), "{} and {}", ascending[i], ascending[j]);
            assert_eq!(b.negated().compare(&a.negated()), i.cmp(&j), "{} and {}", ascending[i], ascending[j]);
        }
    }
    assert!(LongDouble::ZERO.negated().compare(&LongDouble::ZERO).is_eq());
    assert!(LongDouble::MAX.compare(&numbers[9]).is_gt() && LongDouble::MAX.compare(&numbers[10]).is_lt());
    assert_eq!(LongDouble::MAX.checked_add(LongDouble::MAX), None);
}
