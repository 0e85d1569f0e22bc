//! The arguments of CLIENT TRACKING, CACHING and PAUSE, for servers and Sentinels: parsing, checks of options
//! against each other, and the flags that CLIENT TRACKINGINFO shows.

use martlet_base::number::parse_i64;

use crate::cursor::Cursor;
use crate::error::{Error, Outcome};

/// CLIENT TRACKING's options.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackingOptions {
    /// Gets notices for all keys with its prefixes, read or not.
    pub bcast: bool,
    /// Reads count only after CLIENT CACHING YES.
    pub optin: bool,
    /// Reads count unless after CLIENT CACHING NO.
    pub optout: bool,
    /// Gets no notices of its own changes.
    pub noloop: bool,
    /// The client that gets the notices in its place.
    pub redirect: Option<u64>,
}

/// A client that tracks: its options, and the prefixes of BCAST.
pub type Tracked<'a> = Option<(TrackingOptions, &'a [Vec<u8>])>;

/// Reads the options behind ON or OFF, and the prefixes.
///
/// # Errors
/// The first word that is wrong; among them, a redirection to a client that `is_client` does not know.
pub fn parse_tracking(
    mut rest: Cursor<'_>,
    is_client: impl Fn(u64) -> bool,
) -> Result<(TrackingOptions, Vec<Vec<u8>>), Error> {
    let mut options = TrackingOptions::default();
    let mut prefixes = Vec::new();
    loop {
        if rest.option("redirect", 1) {
            if options.redirect.is_some() {
                return Err(Error::Fixed("ERR A client can only redirect to a single other client"));
            }
            let id = rest.int()? as u64;
            if !is_client(id) {
                return Err(Error::Fixed("ERR The client ID you want redirect to does not exist"));
            }
            options.redirect = Some(id);
        } else if rest.option("prefix", 1) {
            prefixes.push(rest.value()?.to_vec());
        } else if rest.word("bcast") {
            options.bcast = true;
        } else if rest.word("optin") {
            options.optin = true;
        } else if rest.word("optout") {
            options.optout = true;
        } else if rest.word("noloop") {
            options.noloop = true;
        } else {
            rest.finish()?;
            return Ok((options, prefixes));
        }
    }
}

/// Whether the options fit each other and the client's earlier ones.
///
/// # Errors
/// Why not.
pub fn check_tracking(options: &TrackingOptions, prefixes: &[Vec<u8>], tracked: Tracked<'_>) -> Outcome {
    let before = tracked.map(|(options, _)| options);
    if !options.bcast && !prefixes.is_empty() {
        return Err(Error::Fixed("ERR PREFIX option requires BCAST mode to be enabled"));
    }
    if before.is_some_and(|before| before.bcast != options.bcast) {
        return Err(Error::Fixed(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
        ));
    }
    if options.bcast && (options.optin || options.optout) {
        return Err(Error::Fixed("ERR OPTIN and OPTOUT are not compatible with BCAST"));
    }
    if options.optin && options.optout {
        return Err(Error::Fixed("ERR You can't specify both OPTIN mode and OPTOUT mode"));
    }
    if before.is_some_and(|b| (options.optin && b.optout) || (options.optout && b.optin)) {
        return Err(Error::Fixed(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.",
        ));
    }
    check_overlap(prefixes, tracked.map_or(&[], |(_, prefixes)| prefixes))
}

/// Whether CLIENT CACHING fits how the client tracks, if it does; `mode` is that of its word, if it is one.
///
/// # Errors
/// Why not.
pub fn check_caching(mode: Option<bool>, options: Option<TrackingOptions>) -> Outcome {
    let Some(options) = options else {
        return Err(Error::Fixed(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    match mode {
        Some(true) if !options.optin => {
            Err(Error::Fixed("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."))
        }
        Some(false) if !options.optout => {
            Err(Error::Fixed("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."))
        }
        None => Err(Error::Syntax),
        Some(_) => Ok(()),
    }
}

/// The flags that CLIENT TRACKINGINFO shows.
pub fn tracking_flags(options: Option<TrackingOptions>, caching: bool, is_broken: bool) -> Vec<&'static str> {
    let Some(options) = options else { return vec!["off"] };
    let flags = [
        (true, "on"),
        (options.bcast, "bcast"),
        (options.optin, "optin"),
        (options.optin && caching, "caching-yes"),
        (options.optout, "optout"),
        (options.optout && caching, "caching-no"),
        (options.noloop, "noloop"),
        (is_broken, "broken_redirect"),
    ];
    flags.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect()
}

/// When CLIENT PAUSE ends, Unix milliseconds, and whether it is for all commands.
///
/// # Errors
/// The word that is wrong. `mode` is the word behind the time.
pub fn parse_pause(now_ms: i64, timeout: &[u8], mode: Option<&[u8]>) -> Result<(i64, bool), Error> {
    let all = match mode {
        None => true,
        Some(mode) if mode.eq_ignore_ascii_case(b"all") => true,
        Some(mode) if mode.eq_ignore_ascii_case(b"write") => false,
        Some(_) => return Err(Error::Fixed("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let milliseconds =
        parse_i64(timeout).ok_or(Error::Fixed("ERR timeout is not an integer or out of range"))?;
    if milliseconds < 0 {
        return Err(Error::Fixed("ERR timeout is negative"));
    }
    let until_ms = now_ms.checked_add(milliseconds).ok_or(Error::Fixed("ERR timeout is out of range"))?;
    Ok((until_ms, all))
}

/// Of two prefixes of one client none may begin with the other: it would get two invalidations.
fn check_overlap(prefixes: &[Vec<u8>], existing: &[Vec<u8>]) -> Outcome {
    let overlap = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    let refuse = |prefix: &[u8], with: &str, other: &[u8]| {
        let end = b"'. Prefixes for a single client must not overlap.";
        let parts = [b"ERR Prefix '", prefix, b"' overlaps with ", with.as_bytes(), b" prefix '", other, end];
        Err(Error::of_parts(&parts))
    };
    let Some((prefix, after)) = first_overlapping(prefixes, existing) else { return Ok(()) };
    if let Some(other) = existing.iter().find(|other| overlap(other, prefix)) {
        return refuse(prefix, "an existing", other);
    }
    let other = after.iter().find(|other| overlap(other, prefix));
    other.map_or(Ok(()), |other| refuse(prefix, "another provided", other))
}

/// The first of `prefixes` that begins with another one, or with which another begins, and those after it.
///
/// In ascending order those that begin with a prefix follow it, so each is compared with the nearest before
/// it that it may begin with.
fn first_overlapping<'a>(
    prefixes: &'a [Vec<u8>],
    existing: &[Vec<u8>],
) -> Option<(&'a Vec<u8>, &'a [Vec<u8>])> {
    let existing = existing.iter().map(|prefix| (prefix, usize::MAX));
    let mut all: Vec<(&Vec<u8>, usize)> = prefixes.iter().zip(0..).chain(existing).collect();
    all.sort_unstable();
    let mut first = usize::MAX;
    let mut around: Vec<(&Vec<u8>, usize)> = Vec::new();
    for (prefix, index) in all {
        while around.pop_if(|(outer, _)| !prefix.starts_with(outer)).is_some() {}
        if let Some((_, outer)) = around.last() {
            first = first.min(index).min(*outer);
        }
        around.push((prefix, index));
    }
    prefixes.get(first..)?.split_first()
}

#[cfg(test)]
mod tests {
    use super::*;
    use martlet_base::random::Random;

    #[test]
    fn the_first_overlap_is_that_of_all_pairs() {
        let mut random = Random::seeded(11);
        let mut some = |most: u64| -> Vec<Vec<u8>> {
            let mut one = || (0..random.below(7)).map(|_| b'a' + random.below(3) as u8).collect();
            (0..most).map(|_| one()).collect()
        };
        for round in 0..2_000 {
            let (prefixes, mut existing) = (some(round % 6), some(round % 4));
            let overlap = |a: &Vec<u8>, b: &Vec<u8>| a.starts_with(b) || b.starts_with(a);
            // Those that a client has do not overlap.
            while let Some(at) = (1..existing.len())
                .find(|&at| existing[..at].iter().any(|other| overlap(other, &existing[at])))
            {
                existing.remove(at);
            }
            let expected = (0..prefixes.len()).find(|&at| {
                let others = prefixes.iter().enumerate().filter(|(other, _)| *other != at);
                others.map(|(_, other)| other).chain(&existing).any(|other| overlap(other, &prefixes[at]))
            });
            let found = first_overlapping(&prefixes, &existing);
            assert_eq!(
                found.map(|(_, after)| prefixes.len() - after.len() - 1),
                expected,
                "{prefixes:?} {existing:?}"
            );
        }
    }
}
