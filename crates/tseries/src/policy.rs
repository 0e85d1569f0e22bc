//! Compaction policies: the rules that a series gets when it is created (`ts-compaction-policy`).
//!
//! ```text
//! aggregator:bucket:retention[:alignment];…     times as 10s: m milliseconds, s, M minutes, h, d
//! ```

use std::fmt::Write;

use crate::aggregate::Aggregator;
use crate::rule::Buckets;
use crate::sample::TIMESTAMP_MAX;

/// A rule, and the retention of the series that it fills.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CompactionPolicy {
    /// How buckets become values.
    pub aggregator: Aggregator,
    /// The buckets.
    pub buckets: Buckets,
    /// The destination's retention, milliseconds; 0 for none.
    pub retention_ms: u64,
}

/// The units and their milliseconds, the longest first.
const UNITS: [(char, u64); 5] = [('d', 86_400_000), ('h', 3_600_000), ('M', 60_000), ('s', 1000), ('m', 1)];

fn parse_time(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let unit = text.chars().last()?;
    let (_, unit_ms) = UNITS.into_iter().find(|(known, _)| *known == unit)?;
    let digits = text.get(..text.len() - 1)?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let time = if is_number { digits.parse::<u64>().ok()?.checked_mul(unit_ms)? } else { return None };
    (time <= TIMESTAMP_MAX).then_some(time)
}

fn parse_one(text: &str) -> Option<CompactionPolicy> {
    let mut parts = text.split(':').filter(|part| !part.is_empty());
    let aggregator = Aggregator::from_name(parts.next()?.as_bytes()).ok()?;
    let duration = parse_time(parts.next()?)?;
    let retention_ms = parse_time(parts.next()?)?;
    let alignment = parts.next().map_or(Some(0), parse_time)?;
    if parts.next().is_some() {
        return None;
    }
    Some(CompactionPolicy { aggregator, buckets: Buckets::new(duration, alignment).ok()?, retention_ms })
}

/// Reads policies; none from an empty text.
pub fn parse(text: &str) -> Option<Vec<CompactionPolicy>> {
    text.split(';').filter(|part| !part.is_empty()).map(parse_one).collect()
}

/// The text of policies, each time in its longest unit, as RedisTimeSeries writes it.
pub fn render(policies: &[CompactionPolicy]) -> String {
    let time = |ms: u64| {
        let fits = UNITS.into_iter().find(|(_, unit_ms)| ms.is_multiple_of(*unit_ms));
        let (unit, unit_ms) = fits.unwrap_or(('m', 1));
        format!("{}{unit}", ms / unit_ms)
    };
    let mut text = String::new();
    for policy in policies {
        let separator = if text.is_empty() { "" } else { ";" };
        let (name, buckets) = (policy.aggregator.name(), policy.buckets);
        let (bucket, retention) = (time(buckets.duration()), time(policy.retention_ms));
        // Writing to a string does not fail.
        let _ = write!(text, "{separator}{name}:{bucket}:{retention}");
        if buckets.alignment() > 0 {
            let _ = write!(text, ":{}", time(buckets.alignment()));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_go_round() {
        for (text, back) in [
            ("", ""),
            ("max:1M:1h", "max:1M:1h"),
            ("avg:60s:0", "avg:1M:0d"),
            ("MIN:10s:90m:500m;sum:24h:10d;", "min:10s:90m:500m;sum:1d:10d"),
            ("std.p:1m:1m:0m", "std.p:1m:1m"),
        ] {
            let policies = parse(text).unwrap();
            assert_eq!(render(&policies), back, "{text}");
            assert_eq!(parse(back), Some(policies));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "max",
            "max:1M",
            "max:0:1h",
            "max:0m:1h",
            "max:1x:1h",
            "max:1:1h",
            "max:-1s:1h",
            "max:s:1h",
            "max:1sx:1h",
            "nosuch:1s:1h",
            "max:1s:1h:1s:1s",
            "max:1s:1h;min",
            "max:9223372036854775808m:1h",
            "max:1s:999999999999d",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
