//! Numbers as RediSearch reads and writes them.

use martlet_base::number::{NumberBuffer, format_f64_significant, format_i64, parse_f64};

/// Significant digits of a number that is no integer.
const PRECISION: usize = 12;

/// The blanks of C's `isspace`.
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The number that the whole of `text` is to C's `strtod`: blanks may precede it, `nan` is one, and the empty
/// text is 0. None: something is left over, or the number is too large or too small.
pub fn parse_c(text: &[u8]) -> Option<f64> {
    if let Some(number) = parse_f64(text) {
        return Some(number);
    }
    if text.is_empty() {
        return Some(0.0);
    }
    let digits = text.get(text.iter().position(|byte| !is_blank(*byte))?..)?;
    let (unsigned, is_negative) = match digits {
        [b'-', rest @ ..] => (rest, true),
        [b'+', rest @ ..] => (rest, false),
        _ => (digits, false),
    };
    if unsigned.eq_ignore_ascii_case(b"nan") {
        return Some(if is_negative { -f64::NAN } else { f64::NAN });
    }
    parse_f64(digits)
}

/// The integer that the whole of `text` is to C's `strtoll`; the empty text is 0. The least and the greatest
/// integer, by which C reports an overflow, are refused.
pub(crate) fn parse_c_integer(text: &[u8]) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let digits = text.get(text.iter().position(|byte| !is_blank(*byte))?..)?;
    let text = std::str::from_utf8(digits).ok()?;
    text.parse().ok().filter(|integer| *integer != i64::MIN && *integer != i64::MAX)
}

/// A double as an integer, its fraction cut off; numbers out of range are `i64::MIN`, as on x86-64.
pub fn to_integer(double: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&double) { double as i64 } else { i64::MIN }
}

/// Writes a number as replies show it: an integer of 64 bits in decimal, others with twelve digits.
pub fn format(number: f64, buffer: &mut NumberBuffer) -> &[u8] {
    let integer = to_integer(number);
    if integer as f64 == number {
        return format_i64(integer, buffer);
    }
    if number.is_nan() && number.is_sign_negative() {
        return b"-nan";
    }
    format_f64_significant(number, PRECISION, buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_strtod_does() {
        for (text, number) in [
            ("", Some(0.0)),
            (" 5", Some(5.0)),
            ("5 ", None),
            (" ", None),
            ("0x10", Some(16.0)),
            ("1e400", None),
            ("1e-400", None),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("+5", Some(5.0)),
            ("a", None),
        ] {
            assert_eq!(parse_c(text.as_bytes()), number, "{text}");
        }
        assert!(parse_c(b"nan").is_some_and(f64::is_nan));
        assert_eq!(parse_c_integer(b" +7"), Some(7));
        assert_eq!(parse_c_integer(b"7 "), None);
        assert_eq!(parse_c_integer(b"9223372036854775807"), None);
    }

    #[test]
    fn numbers_are_written_with_twelve_digits() {
        let mut buffer = NumberBuffer::new();
        for (number, text) in [
            (5.0, "5"),
            (-0.0, "0"),
            (0.1 + 0.2, "0.3"),
            (1.0 / 3.0, "0.333333333333"),
            (1e20, "1e+20"),
            (9_223_372_036_854_775_808.0, "9.22337203685e+18"),
            (-9_223_372_036_854_775_808.0, "-9223372036854775808"),
            (1e-7, "1e-07"),
            (1_234_567.891_234_567, "1234567.89123"),
            (1e18, "1000000000000000000"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(format(number, &mut buffer), text.as_bytes());
        }
    }
}
