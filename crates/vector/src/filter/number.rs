//! Text to number by the rules of C's `strtod`, as Redis' filters read it: leading blanks, a sign, `inf`,
//! `nan` and hexadecimal are accepted; a text with anything behind the number is refused.

/// Longest text that is taken for a number, in bytes.
pub(super) const TEXT_MAX_BYTES: usize = 255;

/// The blanks of C's `isspace`.
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The number that the whole of `text` is; `None` when some of it is left over, or nothing was there.
pub(super) fn parse(text: &[u8]) -> Option<f64> {
    let start = text.iter().position(|byte| !is_blank(*byte))?;
    let (is_negative, digits) = match &text[start..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let magnitude = match digits {
        [b'0', b'x' | b'X', rest @ ..] => hexadecimal(rest)?,
        [b'0'..=b'9' | b'.', ..] => fast_float2::parse(digits).ok()?,
        _ if digits.eq_ignore_ascii_case(b"inf") || digits.eq_ignore_ascii_case(b"infinity") => f64::INFINITY,
        _ if digits.eq_ignore_ascii_case(b"nan") => f64::NAN,
        _ => return None,
    };
    Some(if is_negative { -magnitude } else { magnitude })
}

/// `1f.8p-3` behind `0x`; `None` unless all of it is used.
fn hexadecimal(text: &[u8]) -> Option<f64> {
    let end = text.iter().position(|byte| matches!(byte, b'p' | b'P')).unwrap_or(text.len());
    let (mantissa, exponent) = text.split_at(end);
    let mut power: i32 = match exponent {
        [] => 0,
        [_, digits @ ..] => {
            let text = std::str::from_utf8(digits).ok()?;
            text.parse::<i64>().ok()?.clamp(-5000, 5000) as i32
        }
    };
    let mut value = 0.0f64;
    let (mut digits, mut is_fraction) = (0, false);
    for byte in mantissa {
        match char::from(*byte).to_digit(16) {
            Some(digit) => {
                value = value * 16.0 + f64::from(digit);
                digits += 1;
                power -= if is_fraction { 4 } else { 0 };
            }
            None if *byte == b'.' && !is_fraction => is_fraction = true,
            None => return None,
        }
    }
    (digits > 0).then(|| value * 2f64.powi(power))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn what_strtod_reads_is_read() {
        for (text, value) in [
            ("5", 5.0),
            ("+5", 5.0),
            (" \t5", 5.0),
            ("-3.5", -3.5),
            ("5.", 5.0),
            (".5", 0.5),
            ("05", 5.0),
            ("1e3", 1000.0),
            ("0x10", 16.0),
            ("0x1.8p1", 3.0),
            ("1e999", f64::INFINITY),
            ("-inf", f64::NEG_INFINITY),
            ("Infinity", f64::INFINITY),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(value), "{text}");
        }
        assert!(parse(b"nan").unwrap().is_nan());
        for text in ["", " ", "-", "5 ", "1e", "1e+", "12abc", "--5", "+-5", "0x", "0xg", "infx", "."] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
