//! CLIENT: connected clients, and a client's requests about itself and others.

mod filter;
mod tracking;

use std::sync::atomic::Ordering;

use martlet_base::sync::lock;
use martlet_command::{Acl, Error, Flags, Group, Outcome, Tip, command, container};
use martlet_spec::handshake::{INVALID_NAME, is_valid_name};
use martlet_spec::tracking::parse_pause;

use super::{Call, ServerCommand, ServerHandler};
use crate::clients::Disconnects as _;
use crate::clients::{ClientInfo, flag};
use crate::connection::Connection;
use crate::connection::ReplyMode;
use crate::runtime::Mail;
use crate::runtime::Worker;
use crate::slow_path::SessionFlags;
use crate::waits::WaitEnd;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&CLIENT];

static CLIENT: ServerCommand = container(
    "client",
    -2,
    &[
        &tracking::CACHING,
        &CAPA,
        &GETNAME,
        &tracking::GETREDIR,
        &ID,
        &IMPORT_SOURCE,
        &INFO,
        &KILL,
        &LIST,
        &NO_EVICT,
        &NO_TOUCH,
        &PAUSE,
        &REPLY,
        &SETINFO,
        &SETNAME,
        &tracking::TRACKING,
        &tracking::TRACKINGINFO,
        &UNBLOCK,
        &UNPAUSE,
        &HELP,
    ],
)
.flags(Flags::KEEPS_CACHING)
.doc(Group::Connection, "2.4.0", "Depends on subcommand", "A container for client connection commands.");

const CONTROL: Flags = HELPS.with(Flags::NOSCRIPT);
const HELPS: Flags = Flags::KEEPS_CACHING.with(Flags::LOADING).with(Flags::STALE);
const ADMIN: Flags = CONTROL.with(Flags::ADMIN);

static CAPA: ServerCommand = command("client|capa", -3, capa as ServerHandler)
    .flags(CONTROL)
    .acl(Acl::CONNECTION)
    .syntax("*capability")
    .doc(Group::Connection, "8.0.0", "O(1)", "Announces the client's capabilities to the server.");

fn capa(call: &mut Call<'_>) -> Outcome {
    // An unknown word means nothing.
    if call.args.has_word(2, b"redirect") {
        set_flag(call, flag::FOLLOWS_REDIRECTS, true);
    }
    call.reply.ok();
    Ok(())
}

static ID: ServerCommand = command("client|id", 2, id as ServerHandler)
    .in_valkey(Flags::ALLOW_BUSY, &[])
    .flags(CONTROL)
    .acl(Acl::CONNECTION)
    .doc(Group::Connection, "5.0.0", "O(1)", "Returns the connection's number.");

fn id(call: &mut Call<'_>) -> Outcome {
    call.reply.int(call.connection.info.id as i64);
    Ok(())
}

static GETNAME: ServerCommand = command("client|getname", 2, getname as ServerHandler)
    .in_valkey(Flags::ALLOW_BUSY, &[])
    .flags(CONTROL)
    .acl(Acl::CONNECTION)
    .doc(Group::Connection, "2.6.9", "O(1)", "Returns the connection's name.");

fn getname(call: &mut Call<'_>) -> Outcome {
    let details = lock(&call.connection.info.details);
    if details.name.is_empty() {
        call.reply.null()
    } else {
        call.reply.bulk(&details.name)
    }
    Ok(())
}

static SETNAME: ServerCommand = command("client|setname", 3, setname as ServerHandler)
    .in_valkey(Flags::ALLOW_BUSY, &[])
    .flags(CONTROL)
    .acl(Acl::CONNECTION)
    .syntax("connection-name")
    .doc(Group::Connection, "2.6.9", "O(1)", "Names the connection.")
    .tips(&[Tip::REQUEST_ALL_NODES, Tip::RESPONSE_ALL_SUCCEEDED]);

fn setname(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(2);
    if !is_valid_name(name) {
        return Err(INVALID_NAME);
    }
    lock(&call.connection.info.details).name = name.to_vec();
    call.reply.ok();
    Ok(())
}

static SETINFO: ServerCommand = command("client|setinfo", 4, setinfo as ServerHandler)
    .in_valkey(Flags::ALLOW_BUSY, &[])
    .flags(CONTROL)
    .acl(Acl::CONNECTION)
    .syntax("attr(libname=LIB-NAME|libver=LIB-VER)")
    .doc(Group::Connection, "7.2.0", "O(1)", "Announces the client's library to the server.")
    .tips(&[Tip::REQUEST_ALL_NODES, Tip::RESPONSE_ALL_SUCCEEDED]);

fn setinfo(call: &mut Call<'_>) -> Outcome {
    let value = call.arg(3);
    let option = call.arg(2);
    let is_name = call.rest(2).one_of(&[("lib-name", true), ("lib-ver", false)]);
    let is_name = is_name.ok_or_else(|| Error::quoting("ERR Unrecognized option '", option, "'"))?;
    if !is_valid_name(value) {
        let after = " cannot contain spaces, newlines or special characters.";
        return Err(Error::quoting("ERR ", option, after));
    }
    let mut details = lock(&call.connection.info.details);
    if is_name {
        details.lib_name = value.to_vec();
    } else {
        details.lib_version = value.to_vec();
    }
    call.reply.ok();
    Ok(())
}

static INFO: ServerCommand = command("client|info", 2, info as ServerHandler)
    .flags(CONTROL)
    .acl(Acl::CONNECTION)
    .doc(Group::Connection, "6.2.0", "O(1)", "Returns the connection's properties.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn info(call: &mut Call<'_>) -> Outcome {
    let mut line = client_line(call.worker, &call.connection.info);
    line.push(b'\n');
    call.reply.verbatim("txt", &line);
    Ok(())
}

static LIST: ServerCommand = command("client|list", -2, client_list as ServerHandler)
    .flags(ADMIN)
    .acl(Acl::CONNECTION)
    .syntax(
        "?client-type=TYPE(NORMAL|MASTER|REPLICA|PUBSUB)^5.0.0 ?*client-id:i=ID^6.2.0 ?username=USER^8.1.0 \
         ?addr/ip:port=ADDR^8.1.0 ?laddr/ip:port=LADDR^8.1.0 ?skipme=SKIPME(YES|NO)^8.1.0 ?maxage:i=MAXAGE^8.1.0 \
         ?name=NAME^9.0.0 ?idle:i=IDLE^9.0.0 ?flags=FLAGS^9.0.0 ?lib-name=LIB-NAME^9.0.0 ?lib-ver=LIB-VER^9.0.0 \
         ?db:i=DB^9.0.0 ?capa=CAPA^9.0.0 ?ip=IP^9.0.0 \
         ?not-client-type=NOT-TYPE(NORMAL|MASTER|REPLICA|PUBSUB)^9.0.0 ?*not-client-id:i=NOT-ID^9.0.0 \
         ?not-username=NOT-USER^9.0.0 ?not-addr/ip:port=NOT-ADDR^9.0.0 ?not-laddr/ip:port=NOT-LADDR^9.0.0 \
         ?not-name=NOT-NAME^9.0.0 ?not-flags=NOT-FLAGS^9.0.0 ?not-lib-name=NOT-LIB-NAME^9.0.0 \
         ?not-lib-ver=NOT-LIB-VER^9.0.0 ?not-db:i=NOT-DB^9.0.0 ?not-capa=NOT-CAPA^9.0.0 ?not-ip=NOT-IP^9.0.0",
    )
    .doc(Group::Connection, "2.4.0", "O(N) for N clients", "Lists the connected clients.")
    .history(&[
        ("2.8.12", "Field `id`, which no other client ever has."),
        ("5.0.0", "Filter `TYPE`."),
        ("6.0.0", "Field `user`."),
        ("6.2.0", "Fields `argv-mem`, `tot-mem`, `laddr` and `redir`, and the filter `ID`."),
        ("7.0.0", "Fields `resp`, `multi-mem`, `rbs` and `rbp`."),
        ("7.0.3", "Field `ssub`."),
        ("7.2.0", "Fields `lib-name` and `lib-ver`."),
        ("7.4.0", "Field `watch`."),
        ("8.0.0", "Field `io-thread`."),
        ("8.1.0", "Filters `USER`, `ADDR`, `LADDR`, `SKIPME` and `MAXAGE`."),
        ("9.0.0", "Filters `NAME`, `IDLE`, `FLAGS`, `LIB-NAME`, `LIB-VER`, `DB`, `CAPA` and `IP`, and their negations."),
    ])
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn client_list(call: &mut Call<'_>) -> Outcome {
    let clients = filter::listed(call)?;
    let mut text = Vec::new();
    for client in clients {
        text.extend(client_line(call.worker, &client));
        text.push(b'\n');
    }
    call.reply.verbatim("txt", &text);
    Ok(())
}

static KILL: ServerCommand = command("client|kill", -3, kill as ServerHandler)
    .flags(ADMIN)
    .acl(Acl::CONNECTION)
    .syntax("filter(old-format/ip:port!2.8.12|*new-format(?client-id:i=ID^2.8.12|?client-type=TYPE(NORMAL|MASTER^3.2.0|SLAVE|REPLICA^5.0.0|PUBSUB)^2.8.12|?username=USER|?addr/ip:port=ADDR|?laddr/ip:port=LADDR^6.2.0|?skipme=SKIPME(YES|NO)|?maxage:i=MAXAGE^7.4.0|?name=NAME^9.0.0|?idle:i=IDLE^9.0.0|?flags=FLAGS^9.0.0|?lib-name=LIB-NAME^9.0.0|?lib-ver=LIB-VER^9.0.0|?db:i=DB^9.0.0|?capa=CAPA^9.0.0|?ip=IP^9.0.0|?not-client-type=NOT-TYPE(NORMAL|MASTER|SLAVE|REPLICA|PUBSUB)^9.0.0|?*not-client-id:i=NOT-ID^9.0.0|?not-username=NOT-USER^9.0.0|?not-addr/ip:port=NOT-ADDR^9.0.0|?not-laddr/ip:port=NOT-LADDR^9.0.0|?not-name=NOT-NAME^9.0.0|?not-flags=NOT-FLAGS^9.0.0|?not-lib-name=NOT-LIB-NAME^9.0.0|?not-lib-ver=NOT-LIB-VER^9.0.0|?not-db:i=NOT-DB^9.0.0|?not-capa=NOT-CAPA^9.0.0|?not-ip=NOT-IP^9.0.0))")
    .doc(Group::Connection, "2.4.0", "O(N) for N clients", "Closes connections.")
    .history(&[("2.8.12", "Filters, each a name and a value."),
            ("2.8.12", "Filter `ID`."),
            ("3.2.0", "Type `master` of the filter `TYPE`."),
            ("5.0.0", "Type `replica` of the filter `TYPE`, for which `slave` still stands."),
            ("6.2.0", "Filter `LADDR`."),
            ("7.4.0", "Filter `MAXAGE`."),
            ("9.0.0", "Filters `NAME`, `IDLE`, `FLAGS`, `LIB-NAME`, `LIB-VER`, `DB`, `CAPA` and `IP`, their negations, and several ids.")]);

fn kill(call: &mut Call<'_>) -> Outcome {
    let filter = filter::parse_kill(call)?;
    let mut killed = 0;
    for client in call.worker.shared.clients.all() {
        if filter.matches(&client, call.connection.info.id)
            && close_client(call.worker, call.connection, &client)
        {
            killed += 1;
        }
    }
    if !filter.is_old_style {
        call.reply.int(killed);
    } else if killed > 0 {
        call.reply.ok();
    } else {
        return Err(Error::Fixed("ERR No such client"));
    }
    Ok(())
}

/// The client's line of CLIENT LIST, without a line break.
pub fn client_line(worker: &Worker, client: &ClientInfo) -> Vec<u8> {
    let shared = worker.shared;
    crate::clients::line::line(&shared.clock, shared.registry, worker.presentation(), client)
}

/// Closes a client's connection; whether that was not under way already.
pub fn close_client(worker: &Worker, connection: &mut Connection, client: &ClientInfo) -> bool {
    if client.killed.swap(true, Ordering::AcqRel) {
        return false;
    }
    if client.id == connection.info.id {
        // It still gets its reply.
        connection.closing = true;
    } else {
        worker.shared.disconnect(client);
    }
    true
}

static UNBLOCK: ServerCommand = command("client|unblock", -3, unblock as ServerHandler)
    .flags(ADMIN)
    .acl(Acl::CONNECTION)
    .syntax("client-id:i ?unblock-type(TIMEOUT|ERROR)")
    .doc(Group::Connection, "5.0.0", "O(log N) for N clients", "Ends another client's wait.");

fn unblock(call: &mut Call<'_>) -> Outcome {
    let with_error = match call.argc() {
        3 => Some(false),
        4 => call.rest(3).one_of(&[("timeout", false), ("error", true)]),
        _ => return Err(Error::subcommand_syntax(&call.args)),
    };
    let with_error =
        with_error.ok_or(Error::Fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"))?;
    let end = if with_error { WaitEnd::Unblocked } else { WaitEnd::Timeout };
    let id = call.int(2)?;
    let client = call.worker.shared.clients.get(id as u64);
    let waiter = client.as_ref().and_then(|c| lock(&c.waiter).clone());
    match (client, waiter) {
        // The thread that cancels has ended the wait: nothing can be served to the client after this.
        (Some(_), Some(waiter)) if waiter.cancel() => {
            call.worker.shared.send(waiter.thread, Mail::Unblock { waiter, end });
            call.reply.int(1);
        }
        _ => call.reply.int(0),
    }
    Ok(())
}

static PAUSE: ServerCommand = command("client|pause", -3, pause as ServerHandler)
    .flags(ADMIN)
    .acl(Acl::CONNECTION)
    .syntax("timeout:i ?mode(WRITE|ALL)^6.2.0")
    .doc(Group::Connection, "3.0.0", "O(1)", "Holds commands of all clients for a while.")
    .history(&[("6.2.0", "Argument `mode`, and with it `WRITE`.")]);

fn pause(call: &mut Call<'_>) -> Outcome {
    if call.argc() > 4 {
        return Err(Error::subcommand_syntax(&call.args));
    }
    let now_ms = call.worker.now_ms;
    let (until_ms, all) = parse_pause(now_ms, call.arg(2), call.args.get(3))?;
    call.worker.shared.begin_pause(until_ms, all, now_ms);
    call.reply.ok();
    Ok(())
}

static UNPAUSE: ServerCommand = command("client|unpause", 2, unpause as ServerHandler)
    .flags(ADMIN)
    .acl(Acl::CONNECTION)
    .doc(Group::Connection, "6.2.0", "O(N) for N paused clients", "Ends CLIENT PAUSE.");

fn unpause(call: &mut Call<'_>) -> Outcome {
    call.worker.shared.end_pause(None);
    call.reply.ok();
    Ok(())
}

static REPLY: ServerCommand = command("client|reply", 3, reply as ServerHandler)
    .in_valkey(Flags::ALLOW_BUSY.with(Flags::NO_MULTI), &[])
    .flags(CONTROL)
    .acl(Acl::CONNECTION)
    .syntax("action(ON|OFF|SKIP)")
    .doc(Group::Connection, "3.2.0", "O(1)", "Chooses whether replies are sent.");

fn reply(call: &mut Call<'_>) -> Outcome {
    let modes = [("on", ReplyMode::On), ("off", ReplyMode::Off), ("skip", ReplyMode::SkipNext)];
    let mode = call.rest(2).one_of(&modes).ok_or(Error::Syntax)?;
    let session = &mut call.connection.session;
    if mode == ReplyMode::On {
        call.reply.ok();
    }
    if mode != ReplyMode::SkipNext || session.reply_mode != ReplyMode::Off {
        session.reply_mode = mode;
    }
    session.flags.set(SessionFlags::REPLY_MODE, mode != ReplyMode::On);
    Ok(())
}

static NO_EVICT: ServerCommand = command("client|no-evict", 3, no_evict as ServerHandler)
    .in_valkey(Flags::ALLOW_BUSY, &[])
    .flags(ADMIN)
    .acl(Acl::CONNECTION)
    .syntax("enabled(ON|OFF)")
    .doc(Group::Connection, "7.0.0", "O(1)", "Protects the connection from client eviction.");

fn no_evict(call: &mut Call<'_>) -> Outcome {
    let on = on_or_off(call)?;
    set_flag(call, flag::NO_EVICT, on);
    call.reply.ok();
    Ok(())
}

static NO_TOUCH: ServerCommand = command("client|no-touch", 3, no_touch as ServerHandler)
    .in_valkey(Flags::ALLOW_BUSY, &[])
    .flags(CONTROL)
    .acl(Acl::CONNECTION)
    .syntax("enabled(ON|OFF)")
    .doc(Group::Connection, "7.2.0", "O(1)", "Keeps the connection's commands from counting as accesses.");

fn no_touch(call: &mut Call<'_>) -> Outcome {
    let on = on_or_off(call)?;
    set_flag(call, flag::NO_TOUCH, on);
    call.connection.session.flags.set(SessionFlags::NO_TOUCH, on);
    call.reply.ok();
    Ok(())
}

static IMPORT_SOURCE: ServerCommand = command("client|import-source", 3, import_source as ServerHandler)
    .flags(CONTROL)
    .acl(Acl::CONNECTION)
    .syntax("enabled(ON|OFF)")
    .doc(
        Group::Connection,
        "8.1.0",
        "O(1)",
        "Lets the connection see expired keys while the server is in import mode.",
    );

fn import_source(call: &mut Call<'_>) -> Outcome {
    let on = on_or_off(call);
    if !call.worker.config.current().import_mode && !matches!(on, Ok(false)) {
        return Err(Error::Fixed("ERR Server is not in import mode"));
    }
    let on = on?;
    set_flag(call, flag::IMPORT_SOURCE, on);
    call.connection.session.flags.set(SessionFlags::IMPORT_SOURCE, on);
    call.reply.ok();
    Ok(())
}

fn on_or_off(call: &Call<'_>) -> Result<bool, Error> {
    call.rest(2).one_of(&[("on", true), ("off", false)]).ok_or(Error::Syntax)
}

fn set_flag(call: &Call<'_>, bit: u32, on: bool) {
    let flags = &call.connection.info.flags;
    if on {
        flags.fetch_or(bit, Ordering::Relaxed);
    } else {
        flags.fetch_and(!bit, Ordering::Relaxed);
    }
}

static HELP: ServerCommand = command("client|help", 2, help as ServerHandler)
    .flags(HELPS)
    .acl(Acl::CONNECTION)
    .doc(Group::Connection, "5.0.0", "O(1)", "Lists the subcommands.");

fn help(call: &mut Call<'_>) -> Outcome {
    super::write_help(call, "CLIENT");
    Ok(())
}
