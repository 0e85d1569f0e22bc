//! CLIENT TRACKING, CACHING, TRACKINGINFO, GETREDIR: caching on the client's side.

use martlet_command::{Acl, Error, Group, Outcome, command};
use martlet_protocol::request::Args;

use super::CONTROL;
use crate::clients::flag;
use crate::runtime::call::{Call, ServerCommand, ServerHandler};
use crate::tracking::table::Options;

pub(super) static TRACKING: ServerCommand = command("client|tracking", -3, tracking as ServerHandler)
    .flags(CONTROL)
    .acl(Acl::CONNECTION)
    .undeclared_keys_if(is_broadcast)
    .syntax("status(ON|OFF) ?client-id:i=REDIRECT ?*+prefix=PREFIX ?BCAST ?OPTIN ?OPTOUT ?NOLOOP")
    .doc(
        Group::Connection,
        "6.0.0",
        "O(1), more with some options",
        "Chooses whether the connection is notified when keys that it has read change.",
    );

/// With BCAST all shards report every change.
fn is_broadcast(args: &Args<'_>) -> bool {
    args.iter().skip(3).any(|arg| arg.eq_ignore_ascii_case(b"bcast"))
}

fn tracking(call: &mut Call<'_>) -> Outcome {
    let (options, mut prefixes) = parse(call)?;
    if super::on_or_off(call)? {
        check(call, &options, &prefixes)?;
        if options.bcast && prefixes.is_empty() {
            prefixes.push(Vec::new());
        }
        call.worker.start_tracking(call.connection, options, prefixes);
    } else {
        call.worker.stop_tracking(call.connection);
    }
    call.reply.ok();
    Ok(())
}

fn parse(call: &Call<'_>) -> Result<(Options, Vec<Vec<u8>>), Error> {
    let mut options = Options::default();
    let mut prefixes = Vec::new();
    let mut rest = call.rest(3);
    loop {
        if rest.option("redirect", 1) {
            if options.redirect.is_some() {
                return Err(Error::Fixed("ERR A client can only redirect to a single other client"));
            }
            let id = rest.int()?;
            if call.worker.shared.clients.get(id as u64).is_none() {
                return Err(Error::Fixed("ERR The client ID you want redirect to does not exist"));
            }
            options.redirect = Some(id as u64);
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

/// Whether the options fit each other and the client's earlier settings.
fn check(call: &Call<'_>, options: &Options, prefixes: &[Vec<u8>]) -> Outcome {
    let state = call.connection.session.tracking.as_deref();
    let before = state.map(|state| state.tracker.options);
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
    check_overlap(prefixes, state.map_or(&[], |state| &state.prefixes))
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

pub(super) static CACHING: ServerCommand = command("client|caching", 3, caching as ServerHandler)
    .flags(CONTROL)
    .acl(Acl::CONNECTION)
    .syntax("mode(YES|NO)")
    .doc(Group::Connection, "6.0.0", "O(1)", "Sets whether the next command's keys are tracked.");

fn caching(call: &mut Call<'_>) -> Outcome {
    let mode = call.rest(2).one_of(&[("yes", true), ("no", false)]);
    let Some(state) = &mut call.connection.session.tracking else {
        return Err(Error::Fixed(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    match (mode, state.tracker.options) {
        (Some(true), options) if !options.optin => {
            return Err(Error::Fixed(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            ));
        }
        (Some(false), options) if !options.optout => {
            return Err(Error::Fixed(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            ));
        }
        (None, _) => return Err(Error::Syntax),
        _ => state.caching = true,
    }
    call.reply.ok();
    Ok(())
}

pub(super) static GETREDIR: ServerCommand = command("client|getredir", 2, getredir as ServerHandler)
    .flags(CONTROL)
    .acl(Acl::CONNECTION)
    .doc(Group::Connection, "6.0.0", "O(1)", "Returns the connection that tracking notices are sent to.");

fn getredir(call: &mut Call<'_>) -> Outcome {
    let redirect = redirect_of(call);
    call.reply.int(redirect);
    Ok(())
}

/// The client that gets invalidations in this one's place; 0 for none, -1 if it does not track.
fn redirect_of(call: &Call<'_>) -> i64 {
    let state = call.connection.session.tracking.as_ref();
    state.map_or(-1, |state| state.tracker.options.redirect.unwrap_or(0) as i64)
}

pub(super) static TRACKINGINFO: ServerCommand =
    command("client|trackinginfo", 2, trackinginfo as ServerHandler).flags(CONTROL).acl(Acl::CONNECTION).doc(
        Group::Connection,
        "6.2.0",
        "O(1)",
        "Returns how the connection tracks keys.",
    );

fn trackinginfo(call: &mut Call<'_>) -> Outcome {
    let redirect = redirect_of(call);
    let flags = call.connection.info.flags.load(std::sync::atomic::Ordering::Relaxed);
    let mut words = Vec::new();
    let mut prefixes: &[Vec<u8>] = &[];
    match &call.connection.session.tracking {
        None => words.push("off"),
        Some(state) => {
            let options = state.tracker.options;
            let is_broken = flags & flag::TRACKING_BROKEN != 0;
            let told = [
                (true, "on"),
                (options.bcast, "bcast"),
                (options.optin, "optin"),
                (options.optin && state.caching, "caching-yes"),
                (options.optout, "optout"),
                (options.optout && state.caching, "caching-no"),
                (options.noloop, "noloop"),
                (is_broken, "broken_redirect"),
            ];
            words.extend(told.iter().filter(|(is, _)| *is).map(|(_, word)| *word));
            prefixes = &state.prefixes;
        }
    }
    let reply = &mut *call.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(words.len());
    words.iter().for_each(|word| reply.bulk(word.as_bytes()));
    reply.bulk(b"redirect");
    reply.int(redirect);
    reply.bulk(b"prefixes");
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(())
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
