//! The grammar of floating point text, shared by doubles and long doubles.
//!
//! Invariant: a text that scans has no byte left over, and its exponent is clamped to a range
//! in which sums of exponents cannot overflow.

/// Exponents are clamped here: far outside of what any type can hold, far inside of `i64`.
const EXPONENT_LIMIT: i64 = 1 << 40;

/// A number as text says it, before it is rounded to any type.
pub(super) struct Scanned<'a> {
    pub negative: bool,
    pub magnitude: Magnitude<'a>,
}

/// The absolute value that a text names.
pub(super) enum Magnitude<'a> {
    Infinity,
    Zero,
    /// A hexadecimal number: `bits * 2^exponent` with `bits` not zero; `inexact` when digits beyond the
    /// first thirty were dropped and not all of them zero.
    Binary {
        bits: u128,
        exponent: i64,
        inexact: bool,
    },
    Decimal(Decimal<'a>),
}

/// A decimal number that is not zero: `digits` are all digits without the point.
#[derive(Clone, Copy)]
pub(super) struct Decimal<'a> {
    body: &'a [u8],
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// The number's text without its sign, in the form that Rust's own parser reads.
    pub fn text(&self) -> Option<&'a str> {
        std::str::from_utf8(self.body).ok()
    }

    /// All digits in order, as values from 0 to 9.
    pub fn digits(&self) -> impl Iterator<Item = u32> + 'a {
        self.whole.iter().chain(self.fraction).map(|&byte| u32::from(byte - b'0'))
    }

    /// How many digits there are, leading zeros included.
    pub fn digit_count(&self) -> usize {
        self.whole.len() + self.fraction.len()
    }

    /// The power of ten of the last digit.
    pub fn power(&self) -> i64 {
        self.exponent - self.fraction.len() as i64
    }
}

/// Takes a whole text apart. `None` for a malformed number, and for NaN.
pub(super) fn scan(text: &[u8]) -> Option<Scanned<'_>> {
    let (negative, body) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let magnitude = match body {
        [b'0', b'x' | b'X', rest @ ..] => scan_hexadecimal(rest)?,
        [b'0'..=b'9' | b'.', ..] => scan_decimal(body)?,
        _ if body.eq_ignore_ascii_case(b"inf") || body.eq_ignore_ascii_case(b"infinity") => {
            Magnitude::Infinity
        }
        _ => return None,
    };
    Some(Scanned { negative, magnitude })
}

fn scan_decimal(body: &[u8]) -> Option<Magnitude<'_>> {
    let (whole, rest) = split_while(body, |byte| byte.is_ascii_digit());
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => split_while(rest, |byte| byte.is_ascii_digit()),
        _ => (&[][..], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let exponent = match rest {
        [] => 0,
        [b'e' | b'E', rest @ ..] => scan_exponent(rest)?,
        _ => return None,
    };
    if whole.iter().chain(fraction).all(|&byte| byte == b'0') {
        return Some(Magnitude::Zero);
    }
    Some(Magnitude::Decimal(Decimal { body, whole, fraction, exponent }))
}

fn scan_hexadecimal(body: &[u8]) -> Option<Magnitude<'_>> {
    let (whole, rest) = split_while(body, |byte| byte.is_ascii_hexdigit());
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => split_while(rest, |byte| byte.is_ascii_hexdigit()),
        _ => (&[][..], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut exponent = match rest {
        [] => 0,
        [b'p' | b'P', rest @ ..] => scan_exponent(rest)?,
        _ => return None,
    };
    let (mut bits, mut inexact) = (0u128, false);
    exponent -= 4 * fraction.len() as i64;
    for &byte in whole.iter().chain(fraction) {
        let digit = (byte as char).to_digit(16)?;
        if bits >> 120 == 0 {
            bits = (bits << 4) | u128::from(digit);
        } else {
            inexact |= digit != 0;
            exponent += 4;
        }
    }
    Some(if bits == 0 { Magnitude::Zero } else { Magnitude::Binary { bits, exponent, inexact } })
}

fn scan_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let mut exponent = 0i64;
    for &byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        exponent = (exponent * 10 + i64::from(byte - b'0')).min(EXPONENT_LIMIT);
    }
    Some(if negative { -exponent } else { exponent })
}

fn split_while(text: &[u8], keep: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let length = text.iter().position(|&byte| !keep(byte)).unwrap_or(text.len());
    text.split_at(length)
}

/// Rounds `bits` (not zero) to its `precision` highest bits, ties to even; `inexact` says that the true
/// number is a little larger than `bits`. The result may be `2^precision`. Shorter numbers are filled up
/// with zeros. `None` where `precision` is negative, or above 64.
pub(super) fn round_to(bits: u128, inexact: bool, precision: i64) -> Option<u128> {
    let length = 128 - i64::from(bits.leading_zeros());
    if !(0..=64).contains(&precision) {
        return None;
    }
    let drop = length - precision;
    if drop <= 0 {
        return bits.checked_shl(drop.unsigned_abs() as u32);
    }
    let kept = bits.checked_shr(drop as u32).unwrap_or(0);
    let half = 1u128 << (drop - 1);
    let rest = bits & (half | (half - 1));
    let up = rest > half || (rest == half && (inexact || kept & 1 == 1));
    Some(kept + u128::from(up))
}
