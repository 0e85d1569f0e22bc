//! Connection: PING, AUTH, HELLO; and ROLE and SHUTDOWN.

use martlet_acl::{DEFAULT_USER, Reason};
use martlet_spec::handshake::{self, Hello};
use martlet_spec::{Acl, Error, Flags, Group, Outcome, Tip, command};

use super::{Call, Handler, REDIS_VERSION, SentinelCommand};

/// The family.
pub static COMMANDS: &[&SentinelCommand] = &[&AUTH, &HELLO, &PING, &ROLE, &SHUTDOWN];

static PING: SentinelCommand = command("ping", -1, ping as Handler)
    .flags(Flags::FAST.with(Flags::SUBSCRIBED))
    .acl(Acl::CONNECTION)
    .syntax("?message")
    .doc(Group::Connection, "1.0.0", "O(1)", "Answers PONG, or the given message.")
    .tips(&[Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_ALL_SUCCEEDED]);

fn ping(call: &mut Call<'_>) -> Outcome {
    let session = call.session();
    let expects_messages = session.is_subscriber() && !session.is_resp3;
    match call.argc() {
        1 | 2 if expects_messages => {
            call.reply.array(2);
            call.reply.bulk(b"pong");
            call.reply.bulk(call.args.at(1));
        }
        1 => call.reply.simple("PONG"),
        2 => call.reply.bulk(call.args.at(1)),
        _ => return Err(Error::Arity(call.entry.spec.full_name)),
    }
    Ok(())
}

const OPEN: Flags = Flags::NOSCRIPT
    .with(Flags::LOADING)
    .with(Flags::STALE)
    .with(Flags::FAST)
    .with(Flags::NO_AUTH)
    .with(Flags::ALLOW_BUSY);

static AUTH: SentinelCommand = command("auth", -2, auth as Handler)
    .flags(OPEN)
    .acl(Acl::CONNECTION)
    .syntax("?username^6.0.0 password")
    .doc(Group::Connection, "1.0.0", "O(N) for N passwords of the user", "Authenticates the connection.")
    .history(&[("6.0.0", "Takes a user's name before the password.")]);

fn auth(call: &mut Call<'_>) -> Outcome {
    let needs_none = call.core.access.users.default_user().needs_no_password;
    let (user, password) = handshake::credentials(&call.args, needs_none)?;
    authenticate(call, user.unwrap_or(DEFAULT_USER), password)?;
    call.reply.ok();
    Ok(())
}

fn authenticate(call: &mut Call<'_>, name: &[u8], password: &[u8]) -> Outcome {
    let Some(user) = call.core.access.users.authenticate(name, password).cloned() else {
        let object = call.arg(0).to_vec();
        call.core.note_refusal(call.id, Reason::Auth, object, name.to_vec());
        return Err(handshake::WRONG_PASSWORD);
    };
    let session = call.session();
    session.user = user;
    session.is_authenticated = true;
    Ok(())
}

static HELLO: SentinelCommand = command("hello", -1, hello as Handler)
    .flags(OPEN)
    .acl(Acl::CONNECTION)
    .syntax("?arguments(protover:i ?auth=AUTH(username password) ?clientname=SETNAME)")
    .doc(
        Group::Connection,
        "6.0.0",
        "O(1)",
        "Chooses the protocol version and returns the server's properties.",
    )
    .history(&[("6.2.0", "`protover` may be left out: then it only returns the connection's properties.")]);

fn hello(call: &mut Call<'_>) -> Outcome {
    let Hello { is_resp3, credentials, name } = Hello::parse(&call.args)?;
    let is_resp3 = is_resp3.unwrap_or(call.reply.is_resp3());
    if let Some((user, password)) = credentials {
        authenticate(call, user, password)?;
    }
    if !call.session().is_authenticated {
        return Err(handshake::NOT_AUTHENTICATED);
    }
    if let Some(name) = name {
        call.session().name = <[u8]>::to_vec(name);
    }
    call.reply.set_resp3(is_resp3);
    write_hello(call);
    Ok(())
}

fn write_hello(call: &mut Call<'_>) {
    let reply = &mut *call.reply;
    // A Sentinel has no role.
    reply.map(6);
    for (field, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.int(if reply.is_resp3() { 3 } else { 2 });
    reply.bulk(b"id");
    reply.int(call.id as i64);
    reply.bulk(b"mode");
    reply.bulk(b"sentinel");
    reply.bulk(b"modules");
    reply.array(0);
}

static ROLE: SentinelCommand = command("role", 1, role as Handler)
    .flags(Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE).with(Flags::FAST))
    .acl(Acl::ADMIN.with(Acl::DANGEROUS))
    .doc(
        Group::Server,
        "2.8.12",
        "O(N) for N primaries",
        "Returns the role, and the names of the watched primaries.",
    );

fn role(call: &mut Call<'_>) -> Outcome {
    let primaries = call.core.sentinel.primaries();
    call.reply.array(2);
    call.reply.bulk(b"sentinel");
    call.reply.array(primaries.len());
    primaries.for_each(|(_, primary)| call.reply.bulk(primary.name.as_bytes()));
    Ok(())
}

static SHUTDOWN: SentinelCommand = command("shutdown", -1, shutdown as Handler)
    .flags(
        Flags::ADMIN
            .with(Flags::NOSCRIPT)
            .with(Flags::LOADING)
            .with(Flags::STALE)
            .with(Flags::NO_MULTI)
            .with(Flags::ALLOW_BUSY),
    )
    .syntax("?save-selector(nosave=NOSAVE|save=SAVE) ?now=NOW ?force=FORCE ?abort=ABORT")
    .doc(Group::Server, "1.0.0", "O(1)", "Ends the Sentinel.");

fn shutdown(call: &mut Call<'_>) -> Outcome {
    let known = ["nosave", "save", "now", "force"];
    if call.args.iter().skip(1).any(|word| !known.iter().any(|one| word.eq_ignore_ascii_case(one.as_bytes())))
    {
        let is_abort = call.argc() == 2 && call.arg(1).eq_ignore_ascii_case(b"abort");
        return Err(if is_abort { Error::Fixed("ERR No shutdown in progress.") } else { Error::Syntax });
    }
    call.core.is_shutting_down = true;
    Ok(())
}
