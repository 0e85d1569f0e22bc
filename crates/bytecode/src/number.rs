//! Numbers as Lua reads and writes them.

use martlet_base::number::{NumberBuffer, format_f64_shortest, format_f64_significant, format_i64};

use crate::stop::{Reason, Stop};

/// x86's conversion of a double to an integer: towards zero; a double without one becomes the least.
#[inline]
pub fn to_integer(number: f64) -> i64 {
    if number >= -(2f64.powi(63)) && number < 2f64.powi(63) { number as i64 } else { i64::MIN }
}

/// A number as an argument of a command: an integer's digits, or as few as tell it from others; what is no
/// number with its sign, as `tostring` writes it.
#[inline]
pub fn push_argument(out: &mut Vec<u8>, number: f64) {
    let mut buffer = NumberBuffer::new();
    let integer = to_integer(number);
    if integer as f64 == number && integer != i64::MIN {
        out.extend_from_slice(format_i64(integer, &mut buffer));
    } else {
        if number.is_nan() && number.is_sign_negative() {
            out.push(b'-');
        }
        out.extend_from_slice(format_f64_shortest(number, &mut buffer));
    }
}

/// Appends a number as `tostring` writes it, C's `%.14g`.
#[inline]
pub(crate) fn push_text(out: &mut Vec<u8>, number: f64) -> Result<(), Stop> {
    const PLAIN_END: f64 = 1e14;
    let mut buffer = NumberBuffer::new();
    let integer = number as i64;
    if integer as f64 == number && number.abs() < PLAIN_END && (integer != 0 || number.is_sign_positive()) {
        out.extend_from_slice(format_i64(integer, &mut buffer));
    } else if number.is_nan() {
        return Err(Stop::Leave(Reason::Number));
    } else {
        out.extend_from_slice(format_f64_significant(number, 14, &mut buffer));
    }
    Ok(())
}

fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The number that a text spells; none if it spells none.
///
/// # Errors
/// Only C knows.
#[inline]
pub(crate) fn parse(text: &[u8]) -> Result<Option<f64>, Stop> {
    // Up to this many digits are exact.
    if let [b'1'..=b'9', rest @ ..] = text
        && text.len() <= 15
        && rest.iter().all(u8::is_ascii_digit)
    {
        let value = text.iter().fold(0u64, |value, digit| value * 10 + u64::from(digit - b'0'));
        return Ok(Some(value as f64));
    }
    parse_any(text)
}

fn parse_any(text: &[u8]) -> Result<Option<f64>, Stop> {
    const LEN_MAX: usize = 1 << 10;
    if text.len() > LEN_MAX {
        return Err(Stop::Leave(Reason::Number));
    }
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    let body = &text[start..end];
    let digits = |from: usize| body[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = usize::from(matches!(body.first(), Some(b'+' | b'-')));
    // Hexadecimal numbers, infinities, what is no number, and strings that end within.
    let begins = |word: &[u8]| body[at..].get(..word.len()).is_some_and(|it| it.eq_ignore_ascii_case(word));
    if begins(b"0x") || begins(b"inf") || begins(b"nan") || text.contains(&0) {
        return Err(Stop::Leave(Reason::Number));
    }
    let whole = digits(at);
    at += whole;
    let mut fraction = 0;
    if body.get(at) == Some(&b'.') {
        fraction = digits(at + 1);
        at += 1 + fraction;
    }
    if whole + fraction == 0 {
        return Ok(None);
    }
    if matches!(body.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(body.get(at + 1), Some(b'+' | b'-')));
        let exponent = if at + 1 + sign <= body.len() { digits(at + 1 + sign) } else { 0 };
        if exponent > 0 {
            at += 1 + sign + exponent;
        }
    }
    if at != body.len() {
        return Ok(None);
    }
    let number = std::str::from_utf8(body).ok().and_then(|body| body.parse().ok());
    number.map(Some).ok_or(Stop::Leave(Reason::Number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_arguments_as_real_servers_write_them() {
        for (number, expected) in [
            (-f64::NAN.abs(), "-nan"),
            (f64::NAN.abs(), "nan"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (3.0, "3"),
            (-0.0, "0"),
            (0.1, "0.1"),
        ] {
            let mut text = Vec::new();
            push_argument(&mut text, number);
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }

    #[test]
    fn texts_are_numbers_as_far_as_c_reads_them() {
        let read = |text: &str| parse(text.as_bytes());
        for (text, expected) in [
            ("12", Some(12.0)),
            (" 12 ", Some(12.0)),
            ("-0", Some(-0.0)),
            ("1.", Some(1.0)),
            (".5", Some(0.5)),
            ("+1e3", Some(1000.0)),
            ("007", Some(7.0)),
            ("1e999", Some(f64::INFINITY)),
            ("1e", None),
            ("1 2", None),
            ("", None),
            (".", None),
            ("-", None),
            ("abc", None),
            ("1x", None),
            ("-x", None),
        ] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        for text in ["0x10", "inf\n", "nan", "1\0"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
