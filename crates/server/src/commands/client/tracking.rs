//! CLIENT TRACKING, CACHING, TRACKINGINFO, GETREDIR: caching on the client's side.

use martlet_command::{Acl, Flags, Group, Outcome, command};
use martlet_protocol::request::Args;
use martlet_spec::tracking::{check_caching, check_tracking, parse_tracking, tracking_flags};

use super::CONTROL;
use crate::clients::flag;
use crate::runtime::call::{Call, ServerCommand, ServerHandler};

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
    let clients = &call.worker.shared.clients;
    let (options, mut prefixes) = parse_tracking(call.rest(3), |id| clients.get(id).is_some())?;
    if super::on_or_off(call)? {
        let state = call.connection.session.tracking.as_deref();
        check_tracking(&options, &prefixes, state.map(|state| (state.tracker.options, &state.prefixes[..])))?;
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

pub(super) static CACHING: ServerCommand = command("client|caching", 3, caching as ServerHandler)
    .in_valkey(Flags::ALLOW_BUSY, &[])
    .flags(CONTROL)
    .acl(Acl::CONNECTION)
    .syntax("mode(YES|NO)")
    .doc(Group::Connection, "6.0.0", "O(1)", "Sets whether the next command's keys are tracked.");

fn caching(call: &mut Call<'_>) -> Outcome {
    let mode = call.rest(2).one_of(&[("yes", true), ("no", false)]);
    let state = &mut call.connection.session.tracking;
    check_caching(mode, state.as_deref().map(|state| state.tracker.options))?;
    state.iter_mut().for_each(|state| state.caching = true);
    call.reply.ok();
    Ok(())
}

pub(super) static GETREDIR: ServerCommand = command("client|getredir", 2, getredir as ServerHandler)
    .in_valkey(Flags::ALLOW_BUSY, &[])
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
    let state = call.connection.session.tracking.as_deref();
    let is_broken = flags & flag::TRACKING_BROKEN != 0;
    let options = state.map(|state| state.tracker.options);
    let words = tracking_flags(options, state.is_some_and(|state| state.caching), is_broken);
    let prefixes: &[Vec<u8>] = state.map_or(&[], |state| &state.prefixes);
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
