//! `LongDouble`: the 80-bit floating point number of the x87, in which Redis computes INCRBYFLOAT and
//! HINCRBYFLOAT on x86. The digits that a client reads there depend on its rounding (`10.5 + 0.1` is `10.6`
//! only because the sum has 64 bits of mantissa and is written with seventeen decimals), so it is computed
//! here in integers, on every machine alike.
//!
//! Invariant: a finite number is `mantissa * 2^exponent` with the mantissa's top bit set, or zero. Numbers
//! below the smallest normal one keep all 64 bits, which no text with seventeen decimals can show.

mod general;

use std::cmp::Ordering;

use super::scan::{self, Decimal, Magnitude, Scanned};

/// Redis reads no long double whose text is longer than this.
const TEXT_MAX_BYTES: usize = 5 * 1024 - 1;

/// The exponent of the highest bit of the largest finite number.
const TOP_MAX: i64 = 16383;

/// The exponent of the lowest bit of all: half of it and less rounds to zero.
const BOTTOM_MIN: i64 = -16445;

/// Decimals that a text shows at most.
const DECIMALS: usize = 17;

/// A number of 64 bits of mantissa, as the x87 computes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Zero,
    Finite { mantissa: u64, exponent: i64 },
    Infinite,
}

impl From<i64> for LongDouble {
    fn from(value: i64) -> Self {
        let kind = rounded(u128::from(value.unsigned_abs()), 0, false);
        LongDouble { negative: value < 0, kind }
    }
}

impl LongDouble {
    /// Zero, the value of a key or field that does not exist.
    pub const ZERO: LongDouble = LongDouble { negative: false, kind: Kind::Zero };

    /// The largest finite number.
    pub const MAX: LongDouble =
        LongDouble { negative: false, kind: Kind::Finite { mantissa: u64::MAX, exponent: TOP_MAX - 63 } };

    /// Reads a text as C's `strtold` does, within what Redis takes for a number: see
    /// [`parse_f64`](super::parse_f64). Infinity is a number here; see [`is_infinite`](Self::is_infinite).
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() > TEXT_MAX_BYTES {
            return None;
        }
        let Scanned { negative, magnitude } = scan::scan(text)?;
        let kind = match magnitude {
            Magnitude::Zero => Kind::Zero,
            Magnitude::Infinity => Kind::Infinite,
            Magnitude::Binary { bits, exponent, inexact } => in_range(rounded(bits, exponent, inexact))?,
            Magnitude::Decimal(decimal) => in_range(from_decimal(&decimal)?)?,
        };
        Some(LongDouble { negative, kind })
    }

    /// Whether the number is infinite, in either direction.
    pub fn is_infinite(&self) -> bool {
        self.kind == Kind::Infinite
    }

    /// Whether the number is below zero, or the zero below zero.
    pub fn is_negative(&self) -> bool {
        self.negative
    }

    /// The number with the other sign.
    pub fn negated(self) -> LongDouble {
        LongDouble { negative: !self.negative, ..self }
    }

    /// The order of two numbers; both zeros are alike.
    pub fn compare(&self, other: &LongDouble) -> Ordering {
        let size = |number: &LongDouble| match number.kind {
            Kind::Zero => (i64::MIN, 0),
            Kind::Finite { mantissa, exponent } => (exponent, mantissa),
            Kind::Infinite => (i64::MAX, 0),
        };
        let sizes = size(self).cmp(&size(other));
        match (self.negative && self.kind != Kind::Zero, other.negative && other.kind != Kind::Zero) {
            (false, false) => sizes,
            (true, true) => sizes.reverse(),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }

    /// The sum, rounded to 64 bits, ties to even; `None` where Redis answers that the increment would
    /// produce NaN or infinity.
    pub fn checked_add(self, other: LongDouble) -> Option<LongDouble> {
        let (Kind::Finite { .. } | Kind::Zero, Kind::Finite { .. } | Kind::Zero) = (self.kind, other.kind)
        else {
            return None;
        };
        let sum = match (self.kind, other.kind) {
            (_, Kind::Zero) => self,
            (Kind::Zero, _) => other,
            _ => add_finite(self, other),
        };
        (!sum.is_infinite()).then_some(sum)
    }

    /// The number in plain decimal notation with at most seventeen decimals, trailing zeros removed, as
    /// Redis stores the result of INCRBYFLOAT. Up to 4,952 bytes for the largest number there is.
    pub fn to_text(self) -> Vec<u8> {
        let (mantissa, exponent) = match self.kind {
            Kind::Zero => return b"0".to_vec(),
            Kind::Infinite => return if self.negative { b"-inf".to_vec() } else { b"inf".to_vec() },
            Kind::Finite { mantissa, exponent } => (mantissa, exponent),
        };
        let (whole, decimals) = if exponent >= 0 {
            (large_integer_text(mantissa, exponent), 0)
        } else {
            split_fraction(mantissa, exponent.unsigned_abs())
        };
        let mut text = Vec::with_capacity(whole.len() + DECIMALS + 2);
        if self.negative && (decimals != 0 || whole != b"0") {
            text.push(b'-');
        }
        text.extend_from_slice(&whole);
        if decimals != 0 {
            let padded = format!("{decimals:0width$}", width = DECIMALS);
            text.push(b'.');
            text.extend_from_slice(padded.trim_end_matches('0').as_bytes());
        }
        text
    }
}

/// The 64-bit number nearest to `bits * 2^exponent`; `inexact` says that the truth is a little larger.
fn rounded(bits: u128, exponent: i64, inexact: bool) -> Kind {
    if bits == 0 {
        return Kind::Zero;
    }
    let length = 128 - i64::from(bits.leading_zeros());
    let exponent = exponent + length - 64;
    match scan::round_to(bits, inexact, 64).map(u64::try_from) {
        Some(Ok(mantissa)) => Kind::Finite { mantissa, exponent },
        // Rounded up to 2^64.
        _ => Kind::Finite { mantissa: 1 << 63, exponent: exponent + 1 },
    }
}

/// `None` for what `strtold` reports as out of range.
fn in_range(kind: Kind) -> Option<Kind> {
    match kind {
        Kind::Finite { mantissa, exponent } => {
            let top = exponent + 63;
            let vanishes = top < BOTTOM_MIN - 1 || (top == BOTTOM_MIN - 1 && mantissa == 1 << 63);
            (top <= TOP_MAX && !vanishes).then_some(kind)
        }
        _ => Some(kind),
    }
}

/// The sum of two finite numbers that are not zero.
fn add_finite(a: LongDouble, b: LongDouble) -> LongDouble {
    let (Kind::Finite { mantissa: am, exponent: ae }, Kind::Finite { mantissa: bm, exponent: be }) =
        (a.kind, b.kind)
    else {
        return a;
    };
    // `a` becomes the larger of the two in absolute value.
    if (be, bm) > (ae, am) {
        return add_finite(b, a);
    }
    // One bit above for the carry; 63 below, the lowest of which also stands for all that is shifted out.
    let high = u128::from(am) << 63;
    let shift = u32::try_from(ae - be).unwrap_or(u32::MAX);
    let full = u128::from(bm) << 63;
    let mut low = full.checked_shr(shift).unwrap_or(0);
    if low.checked_shl(shift).unwrap_or(0) != full {
        low |= 1;
    }
    let bits = if a.negative == b.negative { high + low } else { high - low };
    let kind = match rounded(bits, ae - 63, false) {
        Kind::Finite { exponent, .. } if exponent + 63 > TOP_MAX => Kind::Infinite,
        kind => kind,
    };
    LongDouble { negative: a.negative && kind != Kind::Zero, kind }
}

/// Rounds a decimal number to 64 bits; `None` where its size alone shows that it is out of range.
fn from_decimal(decimal: &Decimal<'_>) -> Option<Kind> {
    let power = decimal.power();
    let leading_zeros = decimal.digits().take_while(|&digit| digit == 0).count();
    let significant = decimal.digit_count() - leading_zeros;
    let top = power + significant as i64;
    if !(-5000..=5000).contains(&top) {
        return None;
    }
    let digits = decimal.digits().skip(leading_zeros);
    if significant <= 19 && (-18..=0).contains(&power) {
        let integer = digits.fold(0u64, |sum, digit| sum * 10 + u64::from(digit));
        let divisor = 10u128.pow(power.unsigned_abs() as u32);
        // At least 67 bits of quotient: the mantissa, the bit that rounds, and more.
        let shift = 64 + integer.leading_zeros();
        let dividend = u128::from(integer) << shift;
        let inexact = dividend % divisor != 0;
        return Some(rounded(dividend / divisor, -i64::from(shift), inexact));
    }
    let mut large = Large::default();
    for digit in digits {
        large.multiply_add(10, digit);
    }
    if power >= 0 {
        large.multiply_power_of_ten(power.unsigned_abs());
        return Some(large.rounded(0, false));
    }
    // 10^n has less than 3.33 n bits.
    let shift = 128 + power.unsigned_abs() * 10 / 3;
    large.shift_left(shift);
    let inexact = large.divide_power_of_ten(power.unsigned_abs());
    Some(large.rounded(-(shift as i64), inexact))
}

/// Whole part and decimals, as an integer of seventeen digits, of `mantissa / 2^shift`, ties to even.
fn split_fraction(mantissa: u64, shift: u64) -> (Vec<u8>, u64) {
    const SCALE: u128 = 10u128.pow(DECIMALS as u32);
    // A shift of 64 or more has no whole part; from 122 on nothing is left of seventeen decimals.
    if shift >= 122 {
        return (b"0".to_vec(), 0);
    }
    let scaled_whole = u128::from(mantissa) >> shift;
    let fraction = u128::from(mantissa) - (scaled_whole << shift);
    let product = fraction * SCALE;
    let mut decimals = product >> shift;
    let rest = product - (decimals << shift);
    let half = 1u128 << (shift - 1);
    if rest > half || (rest == half && decimals & 1 == 1) {
        decimals += 1;
    }
    let whole = scaled_whole + decimals / SCALE;
    (whole.to_string().into_bytes(), (decimals % SCALE) as u64)
}

/// The decimal digits of `mantissa * 2^exponent`.
fn large_integer_text(mantissa: u64, exponent: i64) -> Vec<u8> {
    if exponent <= 64 {
        return (u128::from(mantissa) << exponent).to_string().into_bytes();
    }
    let mut large = Large::default();
    large.multiply_add(1, (mantissa >> 32) as u32);
    large.shift_left(32);
    large.add(mantissa as u32);
    large.shift_left(exponent.unsigned_abs());
    large.text()
}

/// An unsigned integer of any size: 32-bit limbs, lowest first, the highest one not zero.
#[derive(Default)]
struct Large {
    limbs: Vec<u32>,
}

impl Large {
    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for limb in &mut self.limbs {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry != 0 {
            self.limbs.push(carry as u32);
        }
    }

    fn add(&mut self, summand: u32) {
        self.multiply_add(1, summand);
    }

    fn multiply_power_of_ten(&mut self, power: u64) {
        for _ in 0..power / 9 {
            self.multiply_add(1_000_000_000, 0);
        }
        self.multiply_add(10u32.pow((power % 9) as u32), 0);
    }

    fn shift_left(&mut self, shift: u64) {
        self.multiply_add(1 << (shift % 32), 0);
        let limbs = (shift / 32) as usize;
        self.limbs.splice(0..0, std::iter::repeat_n(0, limbs));
    }

    /// Divides in place and returns the remainder.
    fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest = 0u64;
        for limb in self.limbs.iter_mut().rev() {
            rest = rest << 32 | u64::from(*limb);
            *limb = (rest / u64::from(divisor)) as u32;
            rest %= u64::from(divisor);
        }
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
        rest as u32
    }

    /// Divides in place, rounding down; whether anything was lost.
    fn divide_power_of_ten(&mut self, power: u64) -> bool {
        let mut inexact = false;
        for _ in 0..power / 9 {
            inexact |= self.divide(1_000_000_000) != 0;
        }
        inexact | (self.divide(10u32.pow((power % 9) as u32)) != 0)
    }

    fn rounded(&self, exponent: i64, inexact: bool) -> Kind {
        let mut high = self.limbs.iter().rev();
        let mut bits = 0u128;
        let mut taken = 0;
        for limb in high.by_ref().take(4) {
            bits = bits << 32 | u128::from(*limb);
            taken += 1;
        }
        let lost = high.any(|&limb| limb != 0);
        rounded(bits, exponent + 32 * (self.limbs.len() - taken) as i64, inexact | lost)
    }

    fn text(mut self) -> Vec<u8> {
        let mut groups = Vec::new();
        while !self.limbs.is_empty() {
            groups.push(self.divide(1_000_000_000));
        }
        let mut groups = groups.into_iter().rev();
        let mut text = groups.next().unwrap_or(0).to_string();
        for group in groups {
            text.push_str(&format!("{group:09}"));
        }
        text.into_bytes()
    }
}
