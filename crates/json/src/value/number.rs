//! Numbers as ReJSON keeps them: integers stay integers, everything else is a double.

use std::cmp::Ordering;

/// A JSON number. A `UInt` is above `i64::MAX`, a `Float` is finite.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// An integer within `i64`.
    Int(i64),
    /// An integer above `i64::MAX`.
    UInt(u64),
    /// Any other number, also one that was written with a point or an exponent.
    Float(f64),
}

impl Number {
    /// An unsigned integer in its normal form.
    pub fn from_u64(value: u64) -> Number {
        i64::try_from(value).map_or(Number::UInt(value), Number::Int)
    }

    /// A double, or none if it is not finite.
    pub fn from_f64(value: f64) -> Option<Number> {
        value.is_finite().then_some(Number::Float(value))
    }

    /// An integer of any size that has a form, or none.
    pub fn from_i128(value: i128) -> Option<Number> {
        i64::try_from(value).map(Number::Int).ok().or_else(|| u64::try_from(value).ok().map(Number::UInt))
    }

    /// The number as a double, rounded if it is a large integer.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::UInt(value) => value as f64,
            Number::Float(value) => value,
        }
    }

    /// Whether the number was written as an integer: TYPE answers `integer` then.
    pub fn is_integer(self) -> bool {
        !matches!(self, Number::Float(_))
    }

    /// Order by numeric value; exact for two integers of `i64`, by double otherwise, as ReJSON compares.
    pub fn compare(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => a.cmp(&b),
            (Number::UInt(a), Number::UInt(b)) => a.cmp(&b),
            // `total_cmp` would tell -0.0 from 0.0; there are no NaNs here.
            (a, b) => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
        }
    }

    /// Appends the number's text: integers in decimal, doubles as the shortest text that reads back equal.
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Number::Int(value) => out.extend(itoa::Buffer::new().format(value).as_bytes()),
            Number::UInt(value) => out.extend(itoa::Buffer::new().format(value).as_bytes()),
            Number::Float(value) => out.extend(ryu::Buffer::new().format_finite(value).as_bytes()),
        }
    }
}

/// Equal as ReJSON's values are: an integer never equals a double. (`UInt` counts as a double there.)
impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => a == b,
            (Number::UInt(a), Number::UInt(b)) => a == b,
            (Number::Int(_), _) | (_, Number::Int(_)) => false,
            (a, b) => a.as_f64() == b.as_f64(),
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = Vec::with_capacity(24);
        self.write(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}
