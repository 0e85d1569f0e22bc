//! What AROP needs of a [`LongDouble`] besides: doubles, order, the integer part, and the text of C's
//! `%.17Lg`.

use std::cmp::Ordering;

use super::{Kind, Large, LongDouble, rounded};

/// Significant digits of a text.
const DIGITS: usize = 17;

impl LongDouble {
    /// The number that a double is; `None` for NaN.
    pub fn from_f64(value: f64) -> Option<LongDouble> {
        let bits = value.abs().to_bits();
        let (exponent, fraction) = ((bits >> 52) as i64, bits & ((1 << 52) - 1));
        let kind = match exponent {
            0x7ff if fraction != 0 => return None,
            0x7ff => Kind::Infinite,
            0 => rounded(u128::from(fraction), -1074, false),
            _ => rounded(u128::from(fraction | 1 << 52), exponent - 1075, false),
        };
        Some(LongDouble { negative: value.is_sign_negative(), kind })
    }

    /// The sum, of infinities too; `None` for that of opposite ones.
    pub fn add_infinite(self, other: LongDouble) -> Option<LongDouble> {
        match (self.kind, other.kind) {
            (Kind::Infinite, Kind::Infinite) => (self.negative == other.negative).then_some(self),
            (Kind::Infinite, _) => Some(self),
            (_, Kind::Infinite) => Some(other),
            _ => {
                let negative = self.negative || self.kind == Kind::Zero && other.negative;
                Some(self.checked_add(other).unwrap_or(LongDouble { negative, kind: Kind::Infinite }))
            }
        }
    }

    /// The number without its fraction, if it lies between the least and the largest `i64`.
    pub fn truncated(self) -> Option<i64> {
        let (mantissa, exponent) = match self.kind {
            Kind::Zero => return Some(0),
            Kind::Infinite => return None,
            Kind::Finite { mantissa, exponent } => (mantissa, exponent),
        };
        if exponent <= -64 {
            return Some(0);
        }
        let shift = u32::try_from(-exponent).ok()?;
        let magnitude = mantissa >> shift;
        let has_fraction = magnitude << shift != mantissa;
        match self.negative {
            true if magnitude == 1 << 63 => (!has_fraction).then_some(i64::MIN),
            true => i64::try_from(magnitude).ok().map(|magnitude| -magnitude),
            false => i64::try_from(magnitude).ok().filter(|&whole| whole < i64::MAX || !has_fraction),
        }
    }

    /// The text with up to seventeen significant digits, in scientific notation where the number is below a
    /// ten thousandth or has more digits than that before its point.
    pub fn to_general_text(self) -> Vec<u8> {
        let sign = if self.negative { "-" } else { "" };
        let (mantissa, exponent) = match self.kind {
            Kind::Zero => return format!("{sign}0").into_bytes(),
            Kind::Infinite => return format!("{sign}inf").into_bytes(),
            Kind::Finite { mantissa, exponent } => (mantissa, exponent),
        };
        let (digits, power) = significant_digits(mantissa, exponent);
        let shown = digits.trim_end_matches('0');
        let text = if (-4..DIGITS as i64).contains(&power) {
            plain(shown, power)
        } else {
            let (first, rest) = shown.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            let sign = if power < 0 { '-' } else { '+' };
            format!("{first}{point}{rest}e{sign}{:02}", power.abs())
        };
        format!("{sign}{text}").into_bytes()
    }
}

/// The digits, the first of which stands for 10 to the `power`, without an exponent.
fn plain(digits: &str, power: i64) -> String {
    if power < 0 {
        return format!("0.{}{digits}", "0".repeat((-power - 1) as usize));
    }
    let whole = power as usize + 1;
    if digits.len() <= whole {
        return format!("{digits}{}", "0".repeat(whole - digits.len()));
    }
    let (whole, fraction) = digits.split_at(whole);
    format!("{whole}.{fraction}")
}

/// The first seventeen digits of `mantissa * 2^exponent`, rounded, ties to even, and the power of ten of the
/// first of them.
fn significant_digits(mantissa: u64, exponent: i64) -> (String, i64) {
    let mut large = Large::default();
    large.multiply_add(1, (mantissa >> 32) as u32);
    large.shift_left(32);
    large.add(mantissa as u32);
    // x / 2^n is x * 5^n / 10^n.
    let mut point = 0;
    if exponent >= 0 {
        large.shift_left(exponent.unsigned_abs());
    } else {
        let mut left = exponent.unsigned_abs();
        point = left as i64;
        while left > 0 {
            let some = left.min(13);
            large.multiply_add(5_u32.pow(some as u32), 0);
            left -= some;
        }
    }
    let all = String::from_utf8(large.text()).unwrap_or_default();
    let power = all.len() as i64 - 1 - point;
    let Some((kept, cut)) = all.split_at_checked(DIGITS).filter(|(_, cut)| !cut.is_empty()) else {
        return (all, power);
    };
    let mut value: u64 = kept.parse().unwrap_or(0);
    let half = format!("5{}", "0".repeat(cut.len() - 1));
    let rounds_up = match cut.cmp(half.as_str()) {
        Ordering::Greater => true,
        Ordering::Equal => value % 2 == 1,
        Ordering::Less => false,
    };
    value += u64::from(rounds_up);
    let text = value.to_string();
    let carried = text.len() as i64 - DIGITS as i64;
    (text, power + carried)
}

impl PartialOrd for LongDouble {
    fn partial_cmp(&self, other: &LongDouble) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// As numbers: zeros of either sign are in one place.
impl Ord for LongDouble {
    fn cmp(&self, other: &LongDouble) -> Ordering {
        let size = |number: &LongDouble| match number.kind {
            Kind::Zero => (0, 0, 0),
            Kind::Finite { mantissa, exponent } => (1, exponent, mantissa),
            Kind::Infinite => (2, 0, 0),
        };
        let is_negative = |number: &LongDouble| number.negative && number.kind != Kind::Zero;
        match (is_negative(self), is_negative(other)) {
            (false, false) => size(self).cmp(&size(other)),
            (true, true) => size(other).cmp(&size(self)),
            (left, _) => {
                if left {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LongDouble;

    fn number(text: &str) -> LongDouble {
        LongDouble::parse(text.as_bytes()).unwrap()
    }

    /// What `printf("%.17Lg")` writes.
    #[test]
    fn texts_are_those_of_c() {
        let same = ["0", "-0", "1", "-2.5", "100", "0.5", "12345678901234567", "0.0001", "inf", "-inf"];
        for text in same {
            assert_eq!(number(text).to_general_text(), text.as_bytes());
        }
        let others = [
            ("0.1", "0.10000000000000000"),
            ("123456789012345678", "1.2345678901234568e+17"),
            ("0.00001", "1.0000000000000000e-05"),
            ("1e100", "1e+100"),
            ("18446744073709551615", "1.8446744073709552e+19"),
            ("99999999999999999.5", "99999999999999999.5"),
            ("1e-4900", "1e-4900"),
        ];
        for (text, expected) in others {
            let shown = String::from_utf8(number(text).to_general_text()).unwrap();
            let trimmed = match expected.split_once('e') {
                Some((digits, power)) if digits.contains('.') => {
                    format!("{}e{power}", digits.trim_end_matches('0').trim_end_matches('.'))
                }
                None if expected.contains('.') => expected.trim_end_matches('0').to_string(),
                _ => expected.to_string(),
            };
            let rounded = if text == "99999999999999999.5" { "1e+17".to_string() } else { trimmed };
            assert_eq!(shown, rounded, "{text}");
        }
    }

    #[test]
    fn doubles_are_what_they_are() {
        assert_eq!(LongDouble::from_f64(0.1).unwrap().to_general_text(), b"0.10000000000000001");
        assert_eq!(LongDouble::from_f64(-2.5).unwrap(), number("-2.5"));
        assert_eq!(LongDouble::from_f64(5e-324).unwrap().to_general_text(), b"4.9406564584124654e-324");
        assert!(LongDouble::from_f64(f64::NAN).is_none());
        let sum = LongDouble::from_f64(0.1).unwrap().add_infinite(LongDouble::from_f64(0.2).unwrap());
        assert_eq!(sum.unwrap().to_general_text(), b"0.30000000000000002");
        assert_eq!(number("0.1").add_infinite(number("0.2")).unwrap().to_general_text(), b"0.3");
        assert!(number("inf").add_infinite(number("-inf")).is_none());
        assert_eq!(number("inf").add_infinite(number("1")), Some(number("inf")));
    }

    #[test]
    fn integer_parts_stay_in_range() {
        for (text, whole) in [
            ("2.9", Some(2)),
            ("-2.9", Some(-2)),
            ("0.5", Some(0)),
            ("1e-30", Some(0)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775807.5", None),
            ("9223372036854775808", None),
            ("-9223372036854775808", Some(i64::MIN)),
            ("-9223372036854775809", None),
            ("1e30", None),
            ("inf", None),
            ("4611686018427387904.5", Some(1 << 62)),
        ] {
            assert_eq!(number(text).truncated(), whole, "{text}");
        }
    }

    #[test]
    fn order_is_that_of_numbers() {
        let ascending =
            ["-inf", "-1e300", "-2", "-1.5", "0", "1e-300", "1", "1.0000000001", "2", "1e300", "inf"];
        let numbers: Vec<LongDouble> = ascending.iter().map(|text| number(text)).collect();
        assert!(numbers.is_sorted());
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(number("-0").cmp(&number("0")), std::cmp::Ordering::Equal);
    }
}
