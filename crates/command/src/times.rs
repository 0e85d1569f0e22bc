//! What the commands for the expiry times of fields (HEXPIRE …) and of members (SEXPIRE …) have in common:
//! units of times, conditions and answers.

use martlet_base::number::parse_i64;
use martlet_spec::Error;
use martlet_types::hash::NO_EXPIRY;

/// The latest time that a field or member may expire, Unix milliseconds (Redis: `HFE_MAX_ABS_TIME_MSEC`).
const LATEST_MS: i64 = (1 << 46) - 1;

/// There is no such field or member.
pub(crate) const NO_PART: i64 = -2;
/// It does not expire.
pub(crate) const NO_TIME: i64 = -1;
/// It keeps its time.
pub(crate) const CONDITION_NOT_MET: i64 = 0;
/// Its time was set or removed.
pub(crate) const DONE: i64 = 1;
/// It was deleted, since its new time has passed.
pub(crate) const DELETED: i64 = 2;

/// The unit of a time argument, and its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeUnit {
    pub seconds: bool,
    pub relative: bool,
}

impl TimeUnit {
    pub const EX: TimeUnit = TimeUnit { seconds: true, relative: true };
    pub const PX: TimeUnit = TimeUnit { seconds: false, relative: true };
    pub const EXAT: TimeUnit = TimeUnit { seconds: true, relative: false };
    pub const PXAT: TimeUnit = TimeUnit { seconds: false, relative: false };
    pub const WORDS: &'static [(&'static str, TimeUnit)] =
        &[("ex", TimeUnit::EX), ("px", TimeUnit::PX), ("exat", TimeUnit::EXAT), ("pxat", TimeUnit::PXAT)];

    /// The time that an argument means, Unix milliseconds.
    pub fn parse(self, text: &[u8], now_ms: i64, command: &str) -> Result<i64, Error> {
        let number = parse_i64(text).ok_or(Error::NotInteger)?;
        if number < 0 {
            return Err(Error::Fixed("ERR invalid expire time, must be >= 0"));
        }
        let ms = if self.seconds { number.checked_mul(1000) } else { Some(number) };
        let base_ms = if self.relative { now_ms } else { 0 };
        ms.and_then(|ms| ms.checked_add(base_ms))
            .filter(|at_ms| *at_ms <= LATEST_MS)
            .ok_or_else(|| Error::Text(format!("ERR invalid expire time in '{command}' command")))
    }

    /// The answer to when a part expires; none: there is no such part.
    pub fn answer(self, expiry: Option<i64>, now_ms: i64) -> i64 {
        let base_ms = if self.relative { now_ms } else { 0 };
        match expiry {
            None => NO_PART,
            Some(NO_EXPIRY) => NO_TIME,
            Some(at_ms) if self.seconds => (at_ms - base_ms + 999) / 1000,
            Some(at_ms) => at_ms - base_ms,
        }
    }
}

/// When HEXPIRE, SEXPIRE and their like set a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Always,
    NoTimeYet,
    HasTime,
    Later,
    Earlier,
}

impl Condition {
    pub const WORDS: &'static [(&'static str, Condition)] = &[
        ("nx", Condition::NoTimeYet),
        ("xx", Condition::HasTime),
        ("gt", Condition::Later),
        ("lt", Condition::Earlier),
    ];

    /// Whether a part with the old time gets the new one. No time counts as infinitely late.
    pub fn is_met(self, old_ms: i64, new_ms: i64) -> bool {
        match self {
            Condition::Always => true,
            Condition::NoTimeYet => old_ms == NO_EXPIRY,
            Condition::HasTime => old_ms != NO_EXPIRY,
            Condition::Later => new_ms > old_ms,
            Condition::Earlier => new_ms < old_ms,
        }
    }
}
