//! ACL: users and their rules and roles, and the log of refusals.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_acl::{DEFAULT_USER, Denial, LogEntry, User, is_valid_name, replies};
use martlet_base::sync::lock;
use martlet_command::{Error, Flags, Group, Outcome, Tip, command, container};
use martlet_protocol::request::Args;

use super::{Call, ServerCommand, ServerHandler};
use crate::access::{self, UsersChange, rules};
use crate::connection::Connection;
use crate::pubsub::hub::Kind;
use crate::runtime::Worker;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&ACL];

/// Users and their rules: all arguments.
fn all_arguments(args: &Args<'_>) -> Vec<usize> {
    (2..args.len()).collect()
}

static ACL: ServerCommand = container(
    "acl",
    -2,
    &[
        &CAT, &DELROLE, &DELUSER, &DRYRUN, &GENPASS, &GETROLE, &GETUSER, &HELP, &LIST, &LOAD, &LOG, &ROLES,
        &SAVE, &SETROLE, &SETUSER, &USERS, &WHOAMI,
    ],
)
.doc(Group::Server, "6.0.0", "Depends on subcommand", "A container for commands of access control.");

const OPEN: Flags = Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE);
const ADMIN: Flags = OPEN.with(Flags::ADMIN);

// Users change alone: what arrives on any thread after the reply runs under the new rules.
static SETUSER: ServerCommand = command("acl|setuser", -3, setuser as ServerHandler)
    .flags(ADMIN.with(Flags::EXCLUSIVE))
    .secrets(all_arguments)
    .syntax("username ?*rule")
    .doc(Group::Server, "6.0.0", "O(N) for N rules", "Makes or changes a user.")
    .history(&[("6.2.0", "Rules for channels."), ("7.0.0", "Selectors, and keys to read or write only.")])
    .tips(&[Tip::REQUEST_ALL_NODES, Tip::RESPONSE_ALL_SUCCEEDED]);

fn setuser(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(2);
    if !is_valid_name(name) {
        return Err(replies::NO_NAME);
    }
    let access = &call.worker.shared.access;
    let rules = rules(access.table(), call.worker.config());
    let change = access.change(|users| users.set_user(&rules, name, call.args.iter().skip(3)));
    let change = change.map_err(|error| error.reply())?;
    revoke(call.worker, call.connection, &change);
    call.reply.ok();
    Ok(())
}

static SETROLE: ServerCommand = command("acl|setrole", -3, setrole as ServerHandler)
    .flags(ADMIN.with(Flags::EXCLUSIVE))
    .secrets(replies::role_secrets)
    .syntax("rolename ?*rule")
    .doc(
        Group::Server,
        "9.2.0",
        "O(N + M * C) for N rules, M users that have the role, and C clients",
        "Makes or changes a role, a set of rules that users can have.",
    )
    .tips(&[Tip::REQUEST_ALL_NODES, Tip::RESPONSE_ALL_SUCCEEDED]);

fn setrole(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(2);
    replies::check_role_name(name)?;
    let access = &call.worker.shared.access;
    let rules = rules(access.table(), call.worker.config());
    let change = access.change(|users| users.set_role(&rules, name, call.args.iter().skip(3)));
    let change = change.map_err(|error| error.role_reply())?;
    revoke(call.worker, call.connection, &change);
    call.reply.ok();
    Ok(())
}

static DELROLE: ServerCommand = command("acl|delrole", -3, delrole as ServerHandler)
    .flags(ADMIN.with(Flags::EXCLUSIVE))
    .syntax("*rolename")
    .doc(Group::Server, "9.2.0", "O(N) for N roles", "Removes roles that no user has.")
    .tips(&[Tip::REQUEST_ALL_NODES, Tip::RESPONSE_ALL_SUCCEEDED]);

fn delrole(call: &mut Call<'_>) -> Outcome {
    let names: Vec<&[u8]> = call.args.iter().skip(2).collect();
    let mut count = 0;
    call.worker.shared.access.change(|users| {
        count = users.remove_roles(&names).map_err(replies::role_is_held)?;
        Ok::<(), Error>(())
    })?;
    call.reply.count(count);
    Ok(())
}

static GETROLE: ServerCommand =
    command("acl|getrole", 3, getrole as ServerHandler).flags(ADMIN).syntax("rolename").doc(
        Group::Server,
        "9.2.0",
        "O(N) for N patterns and rules, and O(U) for U users",
        "Answers all that makes a role, and the users that have it.",
    );

fn getrole(call: &mut Call<'_>) -> Outcome {
    let users = call.worker.shared.access.users();
    match users.roles().get(call.arg(2)) {
        Some(role) => replies::write_role(call.reply, role, &users),
        None => call.reply.null(),
    }
    Ok(())
}

static ROLES: ServerCommand = command("acl|roles", 2, roles as ServerHandler).flags(ADMIN).doc(
    Group::Server,
    "9.2.0",
    "O(N) for N roles",
    "Answers the names of all roles.",
);

fn roles(call: &mut Call<'_>) -> Outcome {
    let users = call.worker.shared.access.users();
    replies::write_role_names(call.reply, &users);
    Ok(())
}

static DELUSER: ServerCommand = command("acl|deluser", -3, deluser as ServerHandler)
    .flags(ADMIN.with(Flags::EXCLUSIVE))
    .secrets(all_arguments)
    .syntax("*username")
    .doc(
        Group::Server,
        "6.0.0",
        "O(1) for each user, and for each client",
        "Removes users and closes their connections.",
    )
    .tips(&[Tip::REQUEST_ALL_NODES, Tip::RESPONSE_ALL_SUCCEEDED]);

fn deluser(call: &mut Call<'_>) -> Outcome {
    let names = || call.args.iter().skip(2);
    if names().any(|name| name == DEFAULT_USER) {
        return Err(replies::NOT_REMOVED);
    }
    let mut count = 0;
    let Ok(change) = call.worker.shared.access.change(|users| {
        count = names().filter(|name| users.remove(name)).count();
        Ok::<(), Infallible>(())
    });
    revoke(call.worker, call.connection, &change);
    call.reply.count(count);
    Ok(())
}

static GETUSER: ServerCommand = command("acl|getuser", 3, getuser as ServerHandler)
    .flags(ADMIN)
    .secrets(all_arguments)
    .syntax("username")
    .doc(Group::Server, "6.0.0", "O(N) for N passwords, patterns and rules", "Answers all that makes a user.")
    .history(&[("6.2.0", "Channels."), ("7.0.0", "Selectors; keys and channels as their rules.")]);

fn getuser(call: &mut Call<'_>) -> Outcome {
    let users = call.worker.shared.access.users();
    match users.get(call.arg(2)) {
        Some(user) => replies::write_user(call.reply, user, call.worker.presentation()),
        None => call.reply.null(),
    }
    Ok(())
}

static LIST: ServerCommand = command("acl|list", 2, list as ServerHandler).flags(ADMIN).doc(
    Group::Server,
    "6.0.0",
    "O(N) for N users",
    "Answers all users, as lines of a file.",
);

fn list(call: &mut Call<'_>) -> Outcome {
    let users = call.worker.shared.access.users();
    replies::write_lines(call.reply, &users, call.worker.presentation());
    Ok(())
}

static USERS: ServerCommand = command("acl|users", 2, users as ServerHandler).flags(ADMIN).doc(
    Group::Server,
    "6.0.0",
    "O(N) for N users",
    "Answers the names of all users.",
);

fn users(call: &mut Call<'_>) -> Outcome {
    let users = call.worker.shared.access.users();
    replies::write_names(call.reply, &users);
    Ok(())
}

static WHOAMI: ServerCommand = command("acl|whoami", 2, whoami as ServerHandler).flags(OPEN).doc(
    Group::Server,
    "6.0.0",
    "O(1)",
    "Answers the name of the connection's user.",
);

fn whoami(call: &mut Call<'_>) -> Outcome {
    call.reply.bulk(&call.connection.session.user.name);
    Ok(())
}

static CAT: ServerCommand = command("acl|cat", -2, cat as ServerHandler).flags(OPEN).syntax("?category").doc(
    Group::Server,
    "6.0.0",
    "O(1)",
    "Lists the categories, or the commands of one.",
);

fn cat(call: &mut Call<'_>) -> Outcome {
    let name = match call.argc() {
        2 => None,
        3 => Some(call.arg(2)),
        _ => return Err(Error::subcommand_syntax(&call.args)),
    };
    replies::write_category(call.reply, call.worker.shared.access.table(), name)
}

static GENPASS: ServerCommand = command("acl|genpass", -2, genpass as ServerHandler)
    .flags(OPEN)
    .syntax("?bits:i")
    .doc(Group::Server, "6.0.0", "O(1)", "Makes a random password.");

fn genpass(call: &mut Call<'_>) -> Outcome {
    let bits = match call.argc() {
        2 => replies::PASSWORD_BITS,
        3 => call.int(2)?,
        _ => return Err(Error::subcommand_syntax(&call.args)),
    };
    replies::write_password(call.reply, bits)
}

static LOG: ServerCommand = command("acl|log", -2, log as ServerHandler)
    .flags(ADMIN)
    .syntax("?operation(count:i|RESET)")
    .doc(Group::Server, "6.0.0", "O(N) for N entries", "Lists, or forgets, the latest refusals.")
    .history(&[("7.2.0", "Each entry's id, and when it was made and changed.")]);

fn log(call: &mut Call<'_>) -> Outcome {
    let log = &call.worker.shared.access.log;
    let count = match call.argc() {
        2 => replies::LOG_ENTRIES,
        3 if call.rest(2).word("reset") => {
            lock(log).clear();
            call.reply.ok();
            return Ok(());
        }
        3 => usize::try_from(call.int(2)?).unwrap_or(0),
        _ => return Err(Error::subcommand_syntax(&call.args)),
    };
    let entries: Vec<LogEntry> = lock(log).iter().take(count).cloned().collect();
    replies::write_log(call.reply, &entries, call.worker.now_ms);
    Ok(())
}

static DRYRUN: ServerCommand = command("acl|dryrun", -4, dryrun as ServerHandler)
    .flags(ADMIN)
    .syntax("username command ?*arg")
    .doc(Group::Server, "7.0.0", "O(1)", "Checks whether a user may run a command, without running it.");

fn dryrun(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(2);
    let users = call.worker.shared.access.users();
    let user = users.get(name).ok_or_else(|| Error::quoting("ERR User '", name, "' not found"))?;
    let args = call.args.from(3);
    let entry = call.worker.shared.registry.resolve(&args);
    let entry = entry.filter(|entry| crate::registry::names_command(entry, &args));
    let entry = entry.ok_or_else(|| Error::quoting("ERR Command '", args.at(0), "' not found"))?;
    if !entry.spec.takes(args.len()) {
        return Err(Error::Arity(entry.spec.full_name));
    }
    let command = call.worker.public_name(entry);
    match user.check(&access::request(
        entry,
        &args,
        call.connection.session.upcoming_db(),
        call.worker.settings.databases,
    )) {
        Ok(()) => call.reply.ok(),
        Err(denial) => {
            // Valkey names the command of a database as it was given.
            let object = match denial {
                Denial::Database(None) => args.at(0),
                _ => denial.object(command, &args),
            };
            call.reply.bulk(&denial.verbose(&user.name, command, object));
        }
    }
    Ok(())
}

static LOAD: ServerCommand = command("acl|load", 2, load as ServerHandler).flags(ADMIN).doc(
    Group::Server,
    "6.0.0",
    "O(N) for N users",
    "Takes up the users of the file.",
);

fn load(call: &mut Call<'_>) -> Outcome {
    let config = call.worker.config().clone();
    if config.aclfile.as_os_str().is_empty() {
        return Err(replies::NO_FILE);
    }
    call.answer_outside(move |worker, connection| {
        let access = &worker.shared.access;
        let read = worker.outside(|outside| access.read_file(outside, &config));
        let read = read.map_err(|why| Error::Bytes([b"ERR ", &why[..]].concat()))?;
        // Alone, as every change of users.
        let has_run = worker.alone_for(connection, |worker, connection| {
            let Ok(change) = access.change(|users| {
                *users = read;
                Ok::<(), Infallible>(())
            });
            revoke(worker, connection, &change);
        });
        if has_run { Ok(()) } else { Err(worker.busy_error()) }
    });
    Ok(())
}

static SAVE: ServerCommand = command("acl|save", 2, save as ServerHandler)
    .flags(ADMIN)
    .doc(Group::Server, "6.0.0", "O(N) for N users", "Writes the users to the file.")
    .tips(&[Tip::REQUEST_ALL_NODES, Tip::RESPONSE_ALL_SUCCEEDED]);

fn save(call: &mut Call<'_>) -> Outcome {
    if call.worker.config().aclfile.as_os_str().is_empty() {
        return Err(replies::NO_FILE);
    }
    call.answer_outside(|worker, _| {
        let shared = worker.shared;
        worker.outside(|outside| shared.access.save_file(outside, &shared.config)).map_err(|error| {
            tracing::warn!("Writing ACL file for ACL SAVE: {}", martlet_base::disk::error_text(&error));
            replies::NOT_SAVED
        })
    });
    Ok(())
}

static HELP: ServerCommand = command("acl|help", 2, help as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE))
    .doc(Group::Server, "6.0.0", "O(1)", "Lists the subcommands.");

fn help(call: &mut Call<'_>) -> Outcome {
    super::write_help(call, "ACL");
    Ok(())
}

/// Closes the connections that a change of users concerns: those of users that are gone, and subscribers of
/// channels that their user may not use any more.
fn revoke(worker: &mut Worker, connection: &mut Connection, change: &UsersChange) {
    let UsersChange { before, after } = change;
    let shared = worker.shared;
    shared.access.refresh(&mut worker.users);
    worker.follow_user(connection);
    // Users that have lost a channel.
    let has_lost = |user: &Arc<User>| {
        after.get(&user.name).is_some_and(|now| !Arc::ptr_eq(now, user) && !now.keeps_channels_of(user))
    };
    let losers: Vec<&Arc<User>> = before.iter().filter(|user| has_lost(user)).collect();
    let mut refused = std::collections::HashSet::new();
    if !losers.is_empty() && shared.hub.clients.load(Ordering::Acquire) > 0 {
        shared.hub.for_each_subscription(|kind, channel, client| {
            let Some(info) = shared.clients.get(client) else { return };
            let name = lock(&info.details).user.clone();
            let user = losers.iter().find(|user| user.name == name).and_then(|_| after.get(&name));
            if user.is_some_and(|user| !user.allows_channel(channel, kind == Kind::Pattern)) {
                refused.insert(client);
            }
        });
    }
    let has_gone = before.iter().any(|user| after.get(&user.name).is_none());
    if !has_gone && refused.is_empty() {
        return;
    }
    for client in shared.clients.all() {
        let is_of_nobody = after.get(&lock(&client.details).user).is_none();
        if is_of_nobody || refused.contains(&client.id) {
            super::close_client(worker, connection, &client);
        }
    }
}
