//! Number text: how integers and floating point numbers are read from and written to the wire.
//!
//! Invariant: a text is a number here exactly when Redis takes it for one, and a number is
//! written as Redis 7.2 and later write it. Nothing in this file allocates, except for numbers of more
//! than nineteen digits.

mod long_double;
mod scan;
// They ask C, which Miri cannot run; there is no unsafe code here.
#[cfg(all(test, not(miri)))]
mod tests;

pub use long_double::LongDouble;
use scan::{Magnitude, Scanned};

/// Longest text of an `i64`, in bytes (`-9223372036854775808`).
pub const I64_TEXT_MAX_BYTES: usize = 20;

/// Longest text that [`format_f64`] writes, in bytes.
pub const F64_TEXT_MAX_BYTES: usize = 32;

/// Room for the text of one number; reusable, and meant to live on the stack.
#[derive(Clone)]
pub struct NumberBuffer {
    integer: itoa::Buffer,
    shortest: ryu::Buffer,
    text: [u8; F64_TEXT_MAX_BYTES],
}

impl Default for NumberBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl NumberBuffer {
    /// An empty buffer; costs nothing, since its bytes are written before they are read.
    #[inline]
    pub fn new() -> Self {
        NumberBuffer {
            integer: itoa::Buffer::new(),
            shortest: ryu::Buffer::new(),
            text: [0; F64_TEXT_MAX_BYTES],
        }
    }
}

/// Writes `value` in decimal.
#[inline]
pub fn format_i64(value: i64, buffer: &mut NumberBuffer) -> &[u8] {
    buffer.integer.format(value).as_bytes()
}

/// Writes `value` in decimal.
#[inline]
pub fn format_u64(value: u64, buffer: &mut NumberBuffer) -> &[u8] {
    buffer.integer.format(value).as_bytes()
}

/// Number of bytes that [`format_i64`] writes.
#[inline]
pub fn decimal_len(value: i64) -> usize {
    const POWERS: [u64; 20] = {
        let mut powers = [1; 20];
        let mut i = 1;
        while i < powers.len() {
            powers[i] = powers[i - 1] * 10;
            i += 1;
        }
        powers
    };
    let magnitude = value.unsigned_abs() | 1;
    // 1,233 / 4,096 is the logarithm of 2; the result is one too few where the power is reached.
    let least = ((u64::BITS - magnitude.leading_zeros()) * 1233 / 4096) as usize;
    least + usize::from(magnitude >= POWERS[least]) + usize::from(value < 0)
}

/// Reads a canonical decimal integer: no sign but a leading `-`, no leading zero, no blank, no `-0`,
/// within the range of `i64`. Every text accepted is the one that [`format_i64`] writes.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut value: u64 = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // Nineteen digits stay below 10^19, which is below 2^64.
        value = value * 10 + u64::from(digit);
    }
    if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

/// Reads a floating point number as C's `strtod` does in the C locale, and refuses the same texts as Redis:
/// an empty text, leading blanks, anything left over, NaN, and numbers too large or too small to be
/// distinguished from infinity or zero. Accepts `inf` and `infinity` in any case, with a sign, and
/// hexadecimal numbers (`0x1.8p3`). The nearest double is returned, ties to even.
#[inline]
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    match parse_short_decimal(text) {
        Some(value) => Some(value),
        None => parse_f64_any(text),
    }
}

/// Decimal numbers whose digits fit 2^53 and whose power of ten is exact in a double: one division or
/// multiplication of two exact numbers gives the correctly rounded result (Clinger's fast path).
/// `None` means only that the general way must decide.
#[inline]
fn parse_short_decimal(text: &[u8]) -> Option<f64> {
    const POWERS: [f64; 17] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16];
    if text.len() > 17 {
        return None;
    }
    let (negative, body) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let mut digits: u64 = 0;
    let mut fraction_digits: Option<usize> = None;
    let mut any = false;
    for &byte in body {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            digits = digits * 10 + u64::from(digit);
            any = true;
            if let Some(count) = &mut fraction_digits {
                *count += 1;
            }
        } else if byte == b'.' && fraction_digits.is_none() {
            fraction_digits = Some(0);
        } else {
            return None;
        }
    }
    if !any || digits > 1 << 53 {
        return None;
    }
    let value = digits as f64 / POWERS.get(fraction_digits.unwrap_or(0))?;
    Some(if negative { -value } else { value })
}

#[cold]
#[inline(never)]
fn parse_f64_any(text: &[u8]) -> Option<f64> {
    convert(scan::scan(text)?).ok()
}

/// As [`parse_f64`], but a number too large is infinite, and one too small is zero.
pub fn parse_f64_saturating(text: &[u8]) -> Option<f64> {
    Some(convert(scan::scan(text)?).unwrap_or_else(|beyond| beyond))
}

/// The nearest double; as an error, infinity or zero for a number too large or too small to be distinguished
/// from it.
fn convert(scanned: Scanned<'_>) -> Result<f64, f64> {
    let sign = if scanned.negative { -1.0 } else { 1.0 };
    match scanned.magnitude {
        Magnitude::Infinity => Ok(sign * f64::INFINITY),
        Magnitude::Zero => Ok(sign * 0.0),
        Magnitude::Binary { bits, exponent, inexact } => match double_from_bits(bits, exponent, inexact) {
            Some(value) => Ok(sign * value),
            None if exponent > 0 => Err(sign * f64::INFINITY),
            None => Err(sign * 0.0),
        },
        Magnitude::Decimal(decimal) => {
            let value = decimal.text().and_then(|text| text.parse().ok()).unwrap_or(0.0);
            if value == 0.0 || value == f64::INFINITY { Err(sign * value) } else { Ok(sign * value) }
        }
    }
}

/// The double nearest to `bits * 2^exponent`; `inexact` says that the true number is a little larger.
/// `None` where the result would be infinite or zero.
fn double_from_bits(bits: u128, exponent: i64, inexact: bool) -> Option<f64> {
    let length = 128 - i64::from(bits.leading_zeros());
    let top = exponent.saturating_add(length - 1);
    if !(-1080..=1023).contains(&top) {
        return None;
    }
    // Below 2^-1022 the precision shrinks, down to no bit at all.
    let precision = if top >= -1022 { 53 } else { 53 + 1022 + top };
    let mantissa = u64::try_from(scan::round_to(bits, inexact, precision)?).ok()?;
    let encoded = if top >= -1022 { (((top + 1022) as u64) << 52).checked_add(mantissa)? } else { mantissa };
    let value = f64::from_bits(encoded);
    (value.is_finite() && value != 0.0).then_some(value)
}

/// Writes a double as Redis 7.2 and later do in replies: integers below 2^62 in full, everything else
/// with the fewest digits that read back as the same number, in scientific notation only where it is
/// far shorter; `inf`, `-inf`, `nan`, and `-0` keeps its sign.
///
/// Redis finds its digits with Grisu2, which in about one of a thousand random doubles is one digit longer
/// than needed; here they are always the shortest. Both texts read back as the same double.
#[inline]
pub fn format_f64(value: f64, buffer: &mut NumberBuffer) -> &[u8] {
    const INTEGER_LIMIT: f64 = (i64::MAX / 2) as f64;
    if value.abs() <= INTEGER_LIMIT {
        let integer = value as i64;
        if integer as f64 == value && (integer != 0 || value.is_sign_positive()) {
            return format_i64(integer, buffer);
        }
    }
    format_f64_fraction(value, buffer)
}

/// Writes a double with seventeen significant digits, trailing zeros removed, as C's `%.17g` and as Redis
/// does in ZSCAN for large sorted sets.
pub fn format_f64_seventeen(value: f64, buffer: &mut NumberBuffer) -> &[u8] {
    format_f64_significant(value, 17, buffer)
}

/// Writes a double with `precision` significant digits, trailing zeros removed, as C's `%.*g` does; NaN has
/// no sign. The precision is between 1 and 17.
pub fn format_f64_significant(value: f64, precision: usize, buffer: &mut NumberBuffer) -> &[u8] {
    let precision = precision.clamp(1, 17);
    if !value.is_finite() || value == 0.0 {
        return format_f64(value, buffer);
    }
    // One digit before the point and the others after it, then the exponent.
    let text = format!("{:.*e}", precision - 1, value.abs());
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: Vec<u8> = digits.bytes().filter(|byte| *byte != b'.').collect();
    let count = digits.iter().rposition(|digit| *digit != b'0').map_or(1, |last| last + 1);
    let digits = digits.get(..count).unwrap_or(&[]);
    let mut writer = Writer { text: &mut buffer.text, length: 0 };
    if value < 0.0 {
        writer.push(b'-');
    }
    if (-4..precision as i32).contains(&exponent) {
        writer.plain(digits, exponent - count as i32 + 1);
    } else {
        writer.scientific(digits, exponent, 2);
    }
    let length = writer.length;
    buffer.text.get(..length).unwrap_or(&[])
}

/// Writes a double with the fewest digits that read back as the same number, large integers in scientific
/// notation too, as Redis' `fpconv_dtoa` does.
pub fn format_f64_shortest(value: f64, buffer: &mut NumberBuffer) -> &[u8] {
    if value == 0.0 && value.is_sign_positive() {
        return b"0";
    }
    format_f64_fraction(value, buffer)
}

/// Writes a double as RedisTimeSeries does in RESP2: with the fewest digits, plain from 1 to below 2^52, and
/// below 2^56 unless the digits end in a zero; else as `1.5E-3`.
///
/// It decides by the exponent that the algorithm Dragonbox finds first, which follows from the distance of
/// neighbouring doubles.
pub fn format_f64_capital(value: f64, buffer: &mut NumberBuffer) -> &[u8] {
    const FRACTIONS_END: f64 = (1u64 << 52) as f64;
    const UNITS_END: f64 = (1u64 << 56) as f64;
    let magnitude = value.abs();
    if magnitude < FRACTIONS_END && (magnitude >= 1.0 || value == 0.0) {
        if value.fract() == 0.0 && (value != 0.0 || value.is_sign_positive()) {
            return format_i64(value as i64, buffer);
        }
        if let Some(length) = format_short_decimal(value, &mut buffer.text) {
            return buffer.text.get(..length).unwrap_or(&[]);
        }
    }
    if !value.is_finite() {
        return if value.is_nan() {
            b"NaN"
        } else if value > 0.0 {
            b"Infinity"
        } else {
            b"-Infinity"
        };
    }
    if value == 0.0 {
        return b"-0";
    }
    let shortest = buffer.shortest.format_finite(value).as_bytes();
    let (digits, count, power) = split_shortest(shortest);
    let digits = digits.get(..count).unwrap_or(&[]);
    let mut writer = Writer { text: &mut buffer.text, length: 0 };
    if value < 0.0 {
        writer.push(b'-');
    }
    let is_plain = match magnitude {
        ..1.0 => false,
        ..FRACTIONS_END => true,
        ..UNITS_END => power <= 0,
        _ => false,
    };
    if is_plain {
        writer.plain(digits, power);
    } else {
        writer.capital(digits, power + count as i32 - 1);
    }
    let length = writer.length;
    buffer.text.get(..length).unwrap_or(&[])
}

#[inline(never)]
fn format_f64_fraction(value: f64, buffer: &mut NumberBuffer) -> &[u8] {
    if value.is_nan() {
        return b"nan";
    }
    if value.is_infinite() {
        return if value > 0.0 { b"inf" } else { b"-inf" };
    }
    if value == 0.0 {
        return b"-0";
    }
    if let Some(length) = format_short_decimal(value, &mut buffer.text) {
        return buffer.text.get(..length).unwrap_or(&[]);
    }
    let shortest = buffer.shortest.format_finite(value).as_bytes();
    let (digits, count, power) = split_shortest(shortest);
    let mut writer = Writer { text: &mut buffer.text, length: 0 };
    if value < 0.0 {
        writer.push(b'-');
    }
    writer.decimal(digits.get(..count).unwrap_or(&[]), power);
    let length = writer.length;
    buffer.text.get(..length).unwrap_or(&[])
}

/// Writes a double that is a whole number of millionths, of up to fifteen digits, but not whole; how many
/// bytes. Of all decimals with as many digits no two are the nearest to one double, so the one found is the
/// shortest.
fn format_short_decimal(value: f64, text: &mut [u8; F64_TEXT_MAX_BYTES]) -> Option<usize> {
    const SCALE: f64 = 1e6;
    const DIGITS: usize = 6;
    let scaled = (value * SCALE).round();
    // Two exact numbers: the quotient is the double nearest to the decimal.
    if scaled.abs() >= 1e15 || scaled / SCALE != value {
        return None;
    }
    let millionths = (scaled as i64).unsigned_abs();
    let (whole, mut fraction) = (millionths / 1_000_000, millionths % 1_000_000);
    if fraction == 0 {
        return None;
    }
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (fraction % 10) as u8;
        fraction /= 10;
    }
    let count = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    let mut writer = Writer { text, length: 0 };
    if value < 0.0 {
        writer.push(b'-');
    }
    writer.extend(itoa::Buffer::new().format(whole).as_bytes());
    writer.push(b'.');
    writer.extend(digits.get(..count).unwrap_or(&[]));
    Some(writer.length)
}

/// Takes `1.25`, `125000.0` or `1.25e-7` apart: the significant digits, how many they are, and the
/// power of ten of the last one.
fn split_shortest(shortest: &[u8]) -> ([u8; 24], usize, i32) {
    let mut digits = [0u8; 24];
    let (mut count, mut power, mut fraction) = (0usize, 0i32, false);
    let mut bytes = shortest.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'0' if count == 0 => power -= i32::from(fraction),
            b'0'..=b'9' => {
                if let Some(slot) = digits.get_mut(count) {
                    *slot = byte;
                    count += 1;
                    power -= i32::from(fraction);
                }
            }
            b'.' => fraction = true,
            b'e' => {
                let (mut negative, mut exponent) = (false, 0i32);
                for byte in bytes.by_ref() {
                    match byte {
                        b'-' => negative = true,
                        _ => exponent = exponent * 10 + i32::from(byte.wrapping_sub(b'0')),
                    }
                }
                power += if negative { -exponent } else { exponent };
            }
            _ => {}
        }
    }
    while count > 1 && digits.get(count - 1) == Some(&b'0') {
        count -= 1;
        power += 1;
    }
    (digits, count, power)
}

/// Appends to a fixed array; bytes beyond it are left out, and no text written here is ever too long.
struct Writer<'a> {
    text: &'a mut [u8; F64_TEXT_MAX_BYTES],
    length: usize,
}

impl Writer<'_> {
    fn push(&mut self, byte: u8) {
        if let Some(slot) = self.text.get_mut(self.length) {
            *slot = byte;
            self.length += 1;
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.push(byte);
        }
    }

    fn zeros(&mut self, count: usize) {
        for _ in 0..count {
            self.push(b'0');
        }
    }

    /// Writes `digits * 10^power`, choosing between plain and scientific notation where Redis does.
    fn decimal(&mut self, digits: &[u8], power: i32) {
        let count = digits.len() as i32;
        let exponent = power + count - 1;
        let short = if power >= 0 { exponent.abs() < count + 7 } else { power > -7 || exponent.abs() < 4 };
        if short { self.plain(digits, power) } else { self.scientific(digits, exponent, 1) }
    }

    fn plain(&mut self, digits: &[u8], power: i32) {
        if power >= 0 {
            self.extend(digits);
            self.zeros(power as usize);
            return;
        }
        let point = digits.len() as i32 + power;
        if point <= 0 {
            self.extend(b"0.");
            self.zeros(point.unsigned_abs() as usize);
            self.extend(digits);
        } else {
            let (whole, fraction) = digits.split_at(point as usize);
            self.extend(whole);
            self.push(b'.');
            self.extend(fraction);
        }
    }

    /// Writes the digits with a point behind the first.
    fn pointed(&mut self, digits: &[u8]) {
        if let [first, rest @ ..] = digits {
            self.push(*first);
            if !rest.is_empty() {
                self.push(b'.');
                self.extend(rest);
            }
        }
    }

    fn capital(&mut self, digits: &[u8], exponent: i32) {
        self.pointed(digits);
        self.push(b'E');
        self.extend(itoa::Buffer::new().format(exponent).as_bytes());
    }

    fn scientific(&mut self, digits: &[u8], exponent: i32, exponent_digits: usize) {
        self.pointed(digits);
        self.push(b'e');
        self.push(if exponent < 0 { b'-' } else { b'+' });
        let mut exponent_text = itoa::Buffer::new();
        let exponent_text = exponent_text.format(exponent.unsigned_abs());
        self.zeros(exponent_digits.saturating_sub(exponent_text.len()));
        self.extend(exponent_text.as_bytes());
    }
}
