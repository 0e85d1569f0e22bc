//! Expiry times of fields and members in the RDB format: Unix milliseconds, 0 for none, or as much later than
//! the earliest of the value, plus one.

use martlet_rdb::Error;
use martlet_types::element::Element;
use martlet_types::hash::NO_EXPIRY;

/// Redis refuses times beyond (`EB_EXPIRE_TIME_MAX`).
const EXPIRY_MAX_MS: u64 = (1 << 48) - 2;

const OUT_OF_RANGE: Error = Error::Corrupt("expiry time of a field or member out of range");

/// The time that a file has as a number.
pub(crate) fn absolute(at_ms: u64) -> Result<i64, Error> {
    match at_ms {
        0 => Ok(NO_EXPIRY),
        1..=EXPIRY_MAX_MS => Ok(at_ms as i64),
        _ => Err(OUT_OF_RANGE),
    }
}

/// The time that a file has as a distance from the earliest.
pub(crate) fn relative(distance: u64, earliest_ms: u64) -> Result<i64, Error> {
    absolute(if distance > 0 { earliest_ms.saturating_add(distance - 1) } else { 0 })
}

/// The time that a listpack has as an element.
pub(crate) fn of_element(element: Element<'_>) -> Result<i64, Error> {
    let at_ms = element.as_int().and_then(|at_ms| u64::try_from(at_ms).ok());
    absolute(at_ms.ok_or(OUT_OF_RANGE)?)
}

/// The inverse of [`relative`].
pub(crate) fn distance(expire_at_ms: i64, earliest_ms: i64) -> u64 {
    match expire_at_ms {
        NO_EXPIRY => 0,
        at_ms => at_ms.saturating_sub(earliest_ms).max(0) as u64 + 1,
    }
}

/// The inverse of [`of_element`].
pub(crate) fn element(expire_at_ms: i64) -> Element<'static> {
    Element::Int(if expire_at_ms == NO_EXPIRY { 0 } else { expire_at_ms })
}

/// The earliest of the times.
pub(crate) fn earliest_ms(times: impl Iterator<Item = i64>) -> i64 {
    times.min().unwrap_or(NO_EXPIRY).max(0)
}
