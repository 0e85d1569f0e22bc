//! `Sample`, and the policies for a sample whose timestamp is taken.
//!
//! Invariant: a timestamp is at most `i64::MAX` milliseconds.

/// The bit pattern under which every NaN is kept: equal values have equal bits, and compress.
pub const CANONICAL_NAN: u64 = 0x7ff8_0000_0000_0000;

/// NaN as it is stored and answered.
pub(crate) fn nan() -> f64 {
    f64::from_bits(CANONICAL_NAN)
}

/// The greatest timestamp: what `+` stands for.
pub const TIMESTAMP_MAX: u64 = i64::MAX as u64;

/// One measurement.
#[derive(Copy, Clone, Debug, Default)]
pub struct Sample {
    /// Milliseconds since 1970, at most [`TIMESTAMP_MAX`].
    pub timestamp: u64,
    /// Any double; NaN only as [`CANONICAL_NAN`] once it is stored.
    pub value: f64,
}

impl Sample {
    /// A sample whose NaN is canonical.
    #[inline]
    pub fn new(timestamp: u64, value: f64) -> Sample {
        let value = if value.is_nan() { nan() } else { value };
        Sample { timestamp, value }
    }
}

/// Equal timestamps and equal bits, so that NaN equals itself and the zeros differ.
impl PartialEq for Sample {
    fn eq(&self, other: &Sample) -> bool {
        self.timestamp == other.timestamp && self.value.to_bits() == other.value.to_bits()
    }
}

/// DUPLICATE_POLICY: how a sample whose timestamp is taken is resolved. The numbers are those of the saved
/// form, where 0 means that the series has none of its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DuplicatePolicy {
    /// An error.
    Block = 1,
    /// The new value replaces the old one.
    Last = 2,
    /// The old value stays.
    First = 3,
    /// The smaller value.
    Min = 4,
    /// The greater value.
    Max = 5,
    /// The sum of both.
    Sum = 6,
}

impl DuplicatePolicy {
    /// Every policy.
    pub const ALL: [DuplicatePolicy; 6] = [
        DuplicatePolicy::Block,
        DuplicatePolicy::Last,
        DuplicatePolicy::First,
        DuplicatePolicy::Min,
        DuplicatePolicy::Max,
        DuplicatePolicy::Sum,
    ];

    /// The policy of a name in any case.
    pub fn from_name(name: &[u8]) -> Option<DuplicatePolicy> {
        DuplicatePolicy::ALL.into_iter().find(|policy| policy.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// As TS.INFO names it.
    pub fn name(self) -> &'static str {
        match self {
            DuplicatePolicy::Block => "block",
            DuplicatePolicy::Last => "last",
            DuplicatePolicy::First => "first",
            DuplicatePolicy::Min => "min",
            DuplicatePolicy::Max => "max",
            DuplicatePolicy::Sum => "sum",
        }
    }

    /// The policy of a number of the saved form; the error is the number of none. 0 is a series without one.
    pub fn from_saved(number: u64) -> Result<Option<DuplicatePolicy>, u64> {
        if number == 0 {
            return Ok(None);
        }
        let found = DuplicatePolicy::ALL.into_iter().find(|policy| *policy as u64 == number);
        found.map(Some).ok_or(number)
    }

    /// The value that is kept when `new` arrives where `old` is; `None` if the policy refuses it. A number
    /// takes the place of NaN under `Last` and `First`, and under `Min`, `Max` and `Sum` the two do not mix.
    pub fn resolve(self, old: f64, new: f64) -> Option<f64> {
        if self == DuplicatePolicy::Block {
            return None;
        }
        if old.is_nan() || new.is_nan() {
            let mixes = matches!(self, DuplicatePolicy::Last | DuplicatePolicy::First);
            if old.is_nan() != new.is_nan() && !mixes {
                return None;
            }
            return Some(if new.is_nan() { old } else { new });
        }
        match self {
            DuplicatePolicy::Block => None,
            DuplicatePolicy::First => Some(old),
            DuplicatePolicy::Last => Some(new),
            DuplicatePolicy::Min => Some(if old < new { old } else { new }),
            DuplicatePolicy::Max => Some(if old > new { old } else { new }),
            DuplicatePolicy::Sum => Some(new + old),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_resolve_as_redis_resolves_them() {
        use DuplicatePolicy::*;
        for (policy, expected) in [
            (Block, None),
            (Last, Some(1.0)),
            (First, Some(2.0)),
            (Min, Some(1.0)),
            (Max, Some(2.0)),
            (Sum, Some(3.0)),
        ] {
            assert_eq!(policy.resolve(2.0, 1.0), expected, "{policy:?}");
            assert_eq!(DuplicatePolicy::from_name(policy.name().to_uppercase().as_bytes()), Some(policy));
            assert_eq!(DuplicatePolicy::from_saved(policy as u64), Ok(Some(policy)));
        }
        assert_eq!(DuplicatePolicy::from_saved(7), Err(7));
        assert_eq!(DuplicatePolicy::from_name(b"none"), None);
    }

    #[test]
    fn a_number_takes_the_place_of_nan_where_the_policy_lets_it() {
        use DuplicatePolicy::*;
        assert_eq!(First.resolve(f64::NAN, 1.0), Some(1.0));
        assert_eq!(Last.resolve(1.0, f64::NAN), Some(1.0));
        for policy in [Min, Max, Sum, Block] {
            assert_eq!(policy.resolve(f64::NAN, 1.0), None, "{policy:?}");
        }
        assert!(Min.resolve(f64::NAN, f64::NAN).is_some_and(f64::is_nan));
    }
}
