//! Which elements Redis holds as doubles, and how those are spelt.
//!
//! It does so where the double's text is the element's again, and the double's two lowest bits are zero,
//! whose place it needs. That shows in RDB files and in sums.

use martlet_base::number::{NumberBuffer, format_f64_shortest, format_i64, parse_f64};

/// Doubles below it in size that are whole are written as integers.
const WHOLE_MAX: f64 = ((1_u64 << 52) - 1) as f64;
/// Longest text of such an element.
const TEXT_MAX_BYTES: usize = 64;

fn text(value: f64, buffer: &mut NumberBuffer) -> &[u8] {
    let is_zero = value == 0.0 && value.is_sign_negative();
    if value.abs() <= WHOLE_MAX && value.trunc() == value && !is_zero {
        return format_i64(value as i64, buffer);
    }
    format_f64_shortest(value, buffer)
}

/// The double as which Redis holds an element of this text, if it does.
pub fn inline_float(spelt: &[u8]) -> Option<f64> {
    let digits = spelt.strip_prefix(b"-").unwrap_or(spelt);
    let points = digits.iter().filter(|byte| **byte == b'.').count();
    if points != 1
        || spelt.len() > TEXT_MAX_BYTES
        || !digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
    {
        return None;
    }
    let value = parse_f64(spelt).filter(|value| value.is_finite() && value.to_bits() & 3 == 0)?;
    let mut buffer = NumberBuffer::new();
    let shown = text(value, &mut buffer);
    (shown == spelt || Some(shown) == spelt.strip_suffix(b".0")).then_some(value)
}

/// The text of an element that is held as a double.
pub fn float_text(value: f64) -> Vec<u8> {
    let mut buffer = NumberBuffer::new();
    let mut text = text(value, &mut buffer).to_vec();
    if value.is_finite() && !text.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        text.extend_from_slice(b".0");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{float_text, inline_float};

    #[test]
    fn only_exact_texts_are_doubles() {
        for text in ["1.0", "-0.0", "2.5", "3.25", "-1024.0", "0.5", "100000.125"] {
            let value = inline_float(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(float_text(value), text.as_bytes());
        }
        for text in [
            "", "-", ".", "1", "1.", ".5", "0.10", "1.50", "0.1", "3.14", "1e5", "1.0e5", "inf", "01.5",
            "1.2.3", "+1.5",
        ] {
            assert_eq!(inline_float(text.as_bytes()), None, "{text}");
        }
        assert_eq!(float_text(1e300), b"1e+300");
        assert_eq!(float_text(f64::INFINITY), b"inf");
    }
}
