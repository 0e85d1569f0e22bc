//! CLIENT TRACKING, CACHING, GETREDIR and TRACKINGINFO. A Sentinel has no keys and sends no notices; the
//! session keeps its options and shows them, as Redis' Sentinel does.

use martlet_spec::tracking::{check_caching, check_tracking, parse_tracking, tracking_flags};
use martlet_spec::{Cursor, Error, Outcome, command};

use super::{Call, Handler, OPEN, SentinelCommand, about};

pub(super) static TRACKING: SentinelCommand = about(
    command("client|tracking", -3, tracking as Handler)
        .flags(OPEN)
        .syntax("status(ON|OFF) ?client-id:i=REDIRECT ?*+prefix=PREFIX ?BCAST ?OPTIN ?OPTOUT ?NOLOOP"),
    "6.0.0",
    "Chooses whether the connection is notified when keys that it has read change, of which there are none.",
);

fn tracking(call: &mut Call<'_>) -> Outcome {
    let sessions = &call.core.sessions;
    let (options, mut prefixes) = parse_tracking(Cursor::new(call.args, 3), |id| sessions.contains_key(&id))?;
    let is_on = Cursor::new(call.args, 2).one_of(&[("on", true), ("off", false)]).ok_or(Error::Syntax)?;
    let session = call.session();
    if is_on {
        let before = session.tracking.as_ref();
        check_tracking(&options, &prefixes, before.map(|of| (of.options, &of.prefixes[..])))?;
        if options.bcast && prefixes.is_empty() {
            prefixes.push(Vec::new());
        }
        let known = session.tracking.get_or_insert_default();
        known.options = options;
        prefixes.retain(|prefix| !known.prefixes.contains(prefix));
        known.prefixes.append(&mut prefixes);
    } else {
        session.tracking = None;
    }
    call.reply.ok();
    Ok(())
}

pub(super) static CACHING: SentinelCommand = about(
    command("client|caching", 3, caching as Handler).flags(OPEN).syntax("mode(YES|NO)"),
    "6.0.0",
    "Sets whether the next command's keys are tracked.",
);

fn caching(call: &mut Call<'_>) -> Outcome {
    let mode = Cursor::new(call.args, 2).one_of(&[("yes", true), ("no", false)]);
    let session = call.session();
    check_caching(mode, session.tracking.as_ref().map(|tracking| tracking.options))?;
    session.tracking.iter_mut().for_each(|tracking| tracking.caching = true);
    call.reply.ok();
    Ok(())
}

pub(super) static GETREDIR: SentinelCommand = about(
    command("client|getredir", 2, getredir as Handler).flags(OPEN),
    "6.0.0",
    "Returns the connection that tracking notices are sent to.",
);

fn getredir(call: &mut Call<'_>) -> Outcome {
    let redirect = redirect_of(call);
    call.reply.int(redirect);
    Ok(())
}

/// The client that gets notices in this one's place; 0 for none, -1 if it does not track.
fn redirect_of(call: &mut Call<'_>) -> i64 {
    let tracking = call.session().tracking.as_ref();
    tracking.map_or(-1, |tracking| tracking.options.redirect.unwrap_or(0) as i64)
}

pub(super) static TRACKINGINFO: SentinelCommand = about(
    command("client|trackinginfo", 2, trackinginfo as Handler).flags(OPEN),
    "6.2.0",
    "Returns how the connection tracks keys.",
);

fn trackinginfo(call: &mut Call<'_>) -> Outcome {
    let redirect = redirect_of(call);
    let tracking = call.session().tracking.clone();
    let is_broken = redirect > 0 && !call.core.sessions.contains_key(&(redirect as u64));
    let caching = tracking.as_ref().is_some_and(|tracking| tracking.caching);
    let words = tracking_flags(tracking.as_ref().map(|tracking| tracking.options), caching, is_broken);
    let prefixes = tracking.map(|tracking| tracking.prefixes).unwrap_or_default();
    call.reply.map(3);
    call.reply.bulk(b"flags");
    call.reply.set(words.len());
    words.iter().for_each(|word| call.reply.bulk(word.as_bytes()));
    call.reply.bulk(b"redirect");
    call.reply.int(redirect);
    call.reply.bulk(b"prefixes");
    call.reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| call.reply.bulk(prefix));
    Ok(())
}
