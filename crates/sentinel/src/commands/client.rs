//! CLIENT: names, lists and closes connections.

use martlet_base::number::parse_i64;
use martlet_spec::handshake::{INVALID_NAME, is_valid_name};
use martlet_spec::tracking::parse_pause;
use martlet_spec::{Acl, Error, Flags, Group, Outcome, command, container};

use super::core::ReplyMode;
use super::tracking::{CACHING, GETREDIR, TRACKING, TRACKINGINFO};
use super::{Call, Handler, OPEN, SentinelCommand, Session, about, write_help};

/// The family.
pub static COMMANDS: &[&SentinelCommand] = &[&CLIENT];

static CLIENT: SentinelCommand = container(
    "client",
    -2,
    &[
        &CACHING,
        &GETNAME,
        &GETREDIR,
        &HELP,
        &ID,
        &INFO,
        &KILL,
        &LIST,
        &NO_EVICT,
        &PAUSE,
        &REPLY,
        &SETINFO,
        &SETNAME,
        &TRACKING,
        &TRACKINGINFO,
        &UNBLOCK,
        &UNPAUSE,
    ],
)
.doc(Group::Connection, "2.4.0", "Depends on subcommand", "A container for commands about connections.");

const ADMIN: Flags = OPEN.with(Flags::ADMIN);

static GETNAME: SentinelCommand = about(
    command("client|getname", 2, getname as Handler).flags(OPEN),
    "2.6.9",
    "Answers the connection's name.",
);

fn getname(call: &mut Call<'_>) -> Outcome {
    let name = call.session().name.clone();
    call.reply.bulk_or_null(Some(&name[..]).filter(|name| !name.is_empty()));
    Ok(())
}

static SETNAME: SentinelCommand = about(
    command("client|setname", 3, setname as Handler).flags(OPEN).syntax("connection-name"),
    "2.6.9",
    "Names the connection.",
);

fn setname(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(2);
    if !is_valid_name(name) {
        return Err(INVALID_NAME);
    }
    call.session().name = name.to_vec();
    call.reply.ok();
    Ok(())
}

static SETINFO: SentinelCommand = about(
    command("client|setinfo", 4, setinfo as Handler)
        .flags(OPEN)
        .syntax("attr(libname=LIB-NAME|libver=LIB-VER)"),
    "7.2.0",
    "Notes which client library the connection uses.",
);

fn setinfo(call: &mut Call<'_>) -> Outcome {
    let (name, value) = (call.arg(2), call.arg(3));
    let names = ["lib-name", "lib-ver"];
    let known = names.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes()));
    let known = known.ok_or_else(|| Error::quoting("ERR Unrecognized option '", name, "'"))?;
    if !is_valid_name(value) {
        return Err(Error::Text(format!(
            "ERR {} cannot contain spaces, newlines or special characters.",
            names[known]
        )));
    }
    call.session().client_library[known] = value.to_vec();
    call.reply.ok();
    Ok(())
}

static ID: SentinelCommand =
    about(command("client|id", 2, id as Handler).flags(OPEN), "5.0.0", "Answers the connection's number.");

fn id(call: &mut Call<'_>) -> Outcome {
    call.reply.int(call.id as i64);
    Ok(())
}

static INFO: SentinelCommand =
    about(command("client|info", 2, info as Handler).flags(OPEN), "6.2.0", "Describes the connection.");

fn info(call: &mut Call<'_>) -> Outcome {
    let mut text = call.core.client_line(call.id);
    text.push(b'\n');
    call.reply.verbatim("txt", &text);
    Ok(())
}

static REPLY: SentinelCommand = about(
    command("client|reply", 3, reply as Handler).flags(OPEN).syntax("action(on=ON|off=OFF|skip=SKIP)"),
    "3.2.0",
    "Has replies sent or not.",
);

fn reply(call: &mut Call<'_>) -> Outcome {
    let mode = match call.arg(2).to_ascii_lowercase().as_slice() {
        b"on" => ReplyMode::On,
        b"off" => ReplyMode::Off,
        b"skip" => ReplyMode::SkipNext,
        _ => return Err(Error::Syntax),
    };
    call.session().reply_mode = mode;
    if mode == ReplyMode::On {
        call.reply.ok();
    }
    Ok(())
}

static NO_EVICT: SentinelCommand = about(
    command("client|no-evict", 3, no_evict as Handler).flags(ADMIN).syntax("enabled(on=ON|off=OFF)"),
    "7.0.0",
    "Accepted: a Sentinel closes no client for its memory but by its output.",
);

fn no_evict(call: &mut Call<'_>) -> Outcome {
    match call.arg(2).to_ascii_lowercase().as_slice() {
        b"on" | b"off" => call.reply.ok(),
        _ => return Err(Error::Syntax),
    }
    Ok(())
}

static PAUSE: SentinelCommand = about(
    command("client|pause", -3, pause as Handler).flags(ADMIN).syntax("timeout:i ?mode(WRITE|ALL)^6.2.0"),
    "3.0.0",
    "Holds commands of all clients for a while.",
);

fn pause(call: &mut Call<'_>) -> Outcome {
    if call.argc() > 4 {
        return Err(Error::subcommand_syntax(&call.args));
    }
    let (until_ms, all) = parse_pause(call.core.now_ms, call.arg(2), call.args.get(3))?;
    call.core.pause(until_ms, all);
    call.reply.ok();
    Ok(())
}

static UNPAUSE: SentinelCommand = about(
    command("client|unpause", 2, unpause as Handler).flags(ADMIN),
    "6.2.0",
    "Ends CLIENT PAUSE WRITE; that of all commands holds this one, too.",
);

fn unpause(call: &mut Call<'_>) -> Outcome {
    call.core.unpause();
    call.reply.ok();
    Ok(())
}

static UNBLOCK: SentinelCommand = about(
    command("client|unblock", -3, unblock as Handler)
        .flags(ADMIN)
        .syntax("client-id:i ?unblock-type(TIMEOUT|ERROR)"),
    "5.0.0",
    "Ends another client's wait: no command of a Sentinel waits.",
);

fn unblock(call: &mut Call<'_>) -> Outcome {
    let is_reason =
        |word: &[u8]| [b"timeout".as_slice(), b"error"].iter().any(|of| word.eq_ignore_ascii_case(of));
    match call.argc() {
        3 => {}
        4 if is_reason(call.arg(3)) => {}
        4 => return Err(Error::Fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
        _ => return Err(Error::subcommand_syntax(&call.args)),
    }
    call.int(2, "ERR value is not an integer or out of range")?;
    call.reply.int(0);
    Ok(())
}

static LIST: SentinelCommand = command("client|list", -2, list as Handler)
    .flags(ADMIN)
    .acl(Acl::CONNECTION)
    .syntax("?client-type=TYPE(normal=NORMAL|pubsub=PUBSUB) ?id=ID(*client-id:i)")
    .doc(Group::Connection, "2.4.0", "O(N) for N clients", "Lists the clients.");

fn list(call: &mut Call<'_>) -> Outcome {
    let mut kind = None;
    let mut ids: Vec<u64> = call.core.sessions.keys().copied().collect();
    if call.argc() > 2 {
        let (option, rest) = (call.arg(2), call.args.from(3));
        if option.eq_ignore_ascii_case(b"type") && rest.len() == 1 {
            kind = Some(client_kind(rest.at(0))?);
        } else if option.eq_ignore_ascii_case(b"id") && !rest.is_empty() {
            let wanted: Option<Vec<i64>> = rest.iter().map(parse_i64).collect();
            let wanted = wanted.ok_or(Error::Fixed("ERR Invalid client ID"))?;
            ids = wanted.into_iter().filter_map(|id| u64::try_from(id).ok()).collect();
        } else {
            return Err(Error::Syntax);
        }
    }
    let mut text = Vec::new();
    for id in ids {
        let Some(session) = call.core.sessions.get(&id) else { continue };
        if !session.is_killed && kind.is_none_or(|kind| kind == kind_of(session)) {
            text.extend(call.core.client_line(id));
            text.push(b'\n');
        }
    }
    call.reply.verbatim("txt", &text);
    Ok(())
}

/// The kinds of clients that TYPE distinguishes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Pubsub,
    /// A Sentinel has none of these.
    Link,
}

fn client_kind(name: &[u8]) -> Result<Kind, Error> {
    match name.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(Kind::Normal),
        b"pubsub" => Ok(Kind::Pubsub),
        b"slave" | b"replica" | b"master" | b"primary" => Ok(Kind::Link),
        _ => Err(Error::quoting("ERR Unknown client type '", name, "'")),
    }
}

fn kind_of(session: &Session) -> Kind {
    if session.is_subscriber() { Kind::Pubsub } else { Kind::Normal }
}

static KILL: SentinelCommand = command("client|kill", -3, kill as Handler)
    .flags(ADMIN)
    .acl(Acl::CONNECTION)
    .syntax("filter(old-format:s|new-format(*?client-id:i=ID))")
    .doc(Group::Connection, "2.4.0", "O(N) for N clients", "Closes connections.");

/// Conditions that must all hold.
#[derive(Default)]
struct Filter {
    id: Option<i64>,
    peer: Option<Vec<u8>>,
    local: Option<Vec<u8>>,
    user: Option<Vec<u8>>,
    kind: Option<Kind>,
    age_s: Option<i64>,
    spares_me: bool,
}

fn filter(call: &Call<'_>) -> Result<Filter, Error> {
    let mut filter = Filter { spares_me: true, ..Filter::default() };
    if !call.argc().is_multiple_of(2) {
        return Err(Error::Syntax);
    }
    for at in (2..call.argc()).step_by(2) {
        let value = call.arg(at + 1);
        match call.arg(at).to_ascii_lowercase().as_slice() {
            b"id" => {
                let id = parse_i64(value).filter(|id| *id > 0);
                filter.id = Some(id.ok_or(Error::Fixed("ERR client-id should be greater than 0"))?);
            }
            b"maxage" => {
                let age =
                    parse_i64(value).ok_or(Error::Fixed("ERR maxage is not an integer or out of range"))?;
                filter.age_s = Some(
                    Some(age)
                        .filter(|age| *age > 0)
                        .ok_or(Error::Fixed("ERR maxage should be greater than 0"))?,
                );
            }
            b"type" => filter.kind = Some(client_kind(value)?),
            b"addr" => filter.peer = Some(value.to_vec()),
            b"laddr" => filter.local = Some(value.to_vec()),
            b"user" => {
                let known = call.core.access.users.get(value);
                known.ok_or_else(|| Error::quoting("ERR No such user '", value, "'"))?;
                filter.user = Some(value.to_vec());
            }
            b"skipme" => {
                filter.spares_me = match value.to_ascii_lowercase().as_slice() {
                    b"yes" => true,
                    b"no" => false,
                    _ => return Err(Error::Syntax),
                }
            }
            _ => return Err(Error::Syntax),
        }
    }
    Ok(filter)
}

fn kill(call: &mut Call<'_>) -> Outcome {
    let is_old_style = call.argc() == 3;
    let filter = match is_old_style {
        true => Filter { peer: Some(call.arg(2).to_vec()), ..Filter::default() },
        false => filter(call)?,
    };
    let (me, now_ms) = (call.id, call.core.now_ms);
    let mut count = 0;
    for (id, session) in &mut call.core.sessions {
        let is_meant = !(session.is_killed || filter.spares_me && *id == me)
            && filter.id.is_none_or(|wanted| wanted == *id as i64)
            && filter.peer.as_ref().is_none_or(|peer| *peer == session.peer.as_bytes())
            && filter.local.as_ref().is_none_or(|local| *local == session.local.as_bytes())
            && filter.user.as_ref().is_none_or(|user| *user == session.user.name)
            && filter.kind.is_none_or(|kind| kind == kind_of(session))
            && filter.age_s.is_none_or(|age_s| (now_ms - session.created_ms) / 1000 >= age_s);
        if is_meant {
            count += 1;
            // A client that closes itself gets the reply.
            session.is_closing = *id == me;
            session.is_killed = *id != me;
        }
    }
    match (is_old_style, count) {
        (true, 0) => Err(Error::Fixed("ERR No such client")),
        (true, _) => {
            call.reply.ok();
            Ok(())
        }
        (false, count) => {
            call.reply.int(count);
            Ok(())
        }
    }
}

static HELP: SentinelCommand = about(
    command("client|help", 2, help as Handler).flags(Flags::LOADING.with(Flags::STALE)),
    "5.0.0",
    "Lists the subcommands.",
);

fn help(call: &mut Call<'_>) -> Outcome {
    write_help(call, "CLIENT")
}
