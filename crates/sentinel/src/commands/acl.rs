//! ACL: users and their rules, and the log of refusals.

use martlet_acl::{DEFAULT_USER, LogEntry, Users, is_valid_name, replies};
use martlet_base::number::parse_i64;
use martlet_spec::{Error, Flags, Group, Outcome, Presentation, command, container};

use super::{Call, Handler, SentinelCommand, registry, write_help};

/// The family.
pub static COMMANDS: &[&SentinelCommand] = &[&ACL];

static ACL: SentinelCommand = container(
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

const fn entry(
    name: &'static str,
    arity: i32,
    handler: Handler,
    flags: Flags,
    summary: &'static str,
) -> SentinelCommand {
    command(name, arity, handler).flags(flags).doc(Group::Server, "6.0.0", "O(N)", summary)
}

static SETUSER: SentinelCommand =
    entry("acl|setuser", -3, setuser, ADMIN, "Makes or changes a user.").syntax("username ?*rule");

fn setuser(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(2);
    if !is_valid_name(name) {
        return Err(replies::NO_NAME);
    }
    let mut users = call.core.access.users.clone();
    users
        .set_user(&call.core.access.rules(), name, call.args.iter().skip(3))
        .map_err(|error| error.reply())?;
    call.core.access.users = users;
    call.core.users_changed();
    call.reply.ok();
    Ok(())
}

static SETROLE: SentinelCommand =
    entry("acl|setrole", -3, setrole, ADMIN, "Makes or changes a role.").syntax("rolename ?*rule");

fn setrole(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(2);
    replies::check_role_name(name)?;
    let mut users = call.core.access.users.clone();
    let set = users.set_role(&call.core.access.rules(), name, call.args.iter().skip(3));
    set.map_err(|error| error.role_reply())?;
    call.core.access.users = users;
    call.core.users_changed();
    call.reply.ok();
    Ok(())
}

static DELROLE: SentinelCommand =
    entry("acl|delrole", -3, delrole, ADMIN, "Removes roles that no user has.").syntax("*rolename");

fn delrole(call: &mut Call<'_>) -> Outcome {
    let args = call.args;
    let names: Vec<&[u8]> = args.iter().skip(2).collect();
    let removed = call.core.access.users.remove_roles(&names);
    let count = removed.map_err(replies::role_is_held)?;
    call.core.users_changed();
    call.reply.count(count);
    Ok(())
}

static GETROLE: SentinelCommand =
    entry("acl|getrole", 3, getrole, ADMIN, "Answers all that makes a role.").syntax("rolename");

fn getrole(call: &mut Call<'_>) -> Outcome {
    let users = &call.core.access.users;
    match users.roles().get(call.arg(2)) {
        Some(role) => replies::write_role(call.reply, role, users),
        None => call.reply.null(),
    }
    Ok(())
}

static ROLES: SentinelCommand = entry("acl|roles", 2, roles, ADMIN, "Answers the names of all roles.");

fn roles(call: &mut Call<'_>) -> Outcome {
    replies::write_role_names(call.reply, &call.core.access.users);
    Ok(())
}

static DELUSER: SentinelCommand =
    entry("acl|deluser", -3, deluser, ADMIN, "Removes users and closes their connections.")
        .syntax("*username");

fn deluser(call: &mut Call<'_>) -> Outcome {
    let args = call.args;
    let names = || args.iter().skip(2);
    if names().any(|name| name == DEFAULT_USER) {
        return Err(replies::NOT_REMOVED);
    }
    let users = &mut call.core.access.users;
    let count = names().filter(|name| users.remove(name)).count();
    call.core.users_changed();
    // A client that removes itself gets the reply.
    let session = call.session();
    session.is_closing |= std::mem::take(&mut session.is_killed);
    call.reply.count(count);
    Ok(())
}

static GETUSER: SentinelCommand =
    entry("acl|getuser", 3, getuser, ADMIN, "Answers all that makes a user.").syntax("username");

fn getuser(call: &mut Call<'_>) -> Outcome {
    match call.core.access.users.get(call.arg(2)) {
        Some(user) => replies::write_user(call.reply, user, Presentation::Redis),
        None => call.reply.null(),
    }
    Ok(())
}

static LIST: SentinelCommand = entry("acl|list", 2, list, ADMIN, "Answers all users, as lines of a file.");

fn list(call: &mut Call<'_>) -> Outcome {
    replies::write_lines(call.reply, &call.core.access.users, Presentation::Redis);
    Ok(())
}

static USERS: SentinelCommand = entry("acl|users", 2, users, ADMIN, "Answers the names of all users.");

fn users(call: &mut Call<'_>) -> Outcome {
    replies::write_names(call.reply, &call.core.access.users);
    Ok(())
}

static WHOAMI: SentinelCommand =
    entry("acl|whoami", 2, whoami, OPEN, "Answers the name of the connection's user.");

fn whoami(call: &mut Call<'_>) -> Outcome {
    let user = call.session().user.clone();
    call.reply.bulk(&user.name);
    Ok(())
}

static CAT: SentinelCommand =
    entry("acl|cat", -2, cat, OPEN, "Lists the categories, or the commands of one.").syntax("?category");

fn cat(call: &mut Call<'_>) -> Outcome {
    let name = match call.argc() {
        2 => None,
        3 => Some(call.arg(2)),
        _ => return Err(Error::Arity(call.entry.spec.full_name)),
    };
    replies::write_category(call.reply, &call.core.access.table, name)
}

static GENPASS: SentinelCommand =
    entry("acl|genpass", -2, genpass, OPEN, "Makes a random password.").syntax("?bits:i");

fn genpass(call: &mut Call<'_>) -> Outcome {
    let bits = match call.argc() {
        2 => replies::PASSWORD_BITS,
        3 => parse_i64(call.arg(2)).ok_or(Error::NotInteger)?,
        _ => return Err(Error::Arity(call.entry.spec.full_name)),
    };
    replies::write_password(call.reply, bits)
}

static LOG: SentinelCommand = entry("acl|log", -2, log, ADMIN, "Lists, or forgets, the latest refusals.")
    .syntax("?operation(count:i|RESET)");

fn log(call: &mut Call<'_>) -> Outcome {
    let count = match call.argc() {
        2 => replies::LOG_ENTRIES,
        3 if call.arg(2).eq_ignore_ascii_case(b"reset") => {
            call.core.access.log.clear();
            call.reply.ok();
            return Ok(());
        }
        3 => usize::try_from(parse_i64(call.arg(2)).ok_or(Error::NotInteger)?).unwrap_or(0),
        _ => return Err(Error::Arity(call.entry.spec.full_name)),
    };
    let entries: Vec<LogEntry> = call.core.access.log.iter().take(count).cloned().collect();
    replies::write_log(call.reply, &entries, call.core.now_ms);
    Ok(())
}

static DRYRUN: SentinelCommand =
    entry("acl|dryrun", -4, dryrun, ADMIN, "Checks whether a user may run a command, without running it.")
        .syntax("username command ?*arg");

fn dryrun(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(2);
    let user = call.core.access.users.get(name);
    let user = user.ok_or_else(|| Error::quoting("ERR User '", name, "' not found"))?;
    let args = call.args.from(3);
    let entry = registry().resolve(&args);
    let entry = entry.ok_or_else(|| Error::quoting("ERR Command '", args.at(0), "' not found"))?;
    if !entry.spec.takes(args.len()) {
        return Err(Error::Arity(entry.spec.full_name));
    }
    let request = martlet_acl::Request { place: entry.id, spec: entry.spec, args, db: 0, databases: 1 };
    match user.check(&request) {
        Ok(()) => call.reply.ok(),
        Err(denial) => {
            let command = entry.spec.full_name;
            call.reply.bulk(&denial.verbose(&user.name, command, denial.object(command, &args)));
        }
    }
    Ok(())
}

static LOAD: SentinelCommand = entry("acl|load", 2, load, ADMIN, "Takes up the users of the file.");

fn load(call: &mut Call<'_>) -> Outcome {
    let path = call.core.access.file.clone().ok_or(replies::NO_FILE)?;
    let name = path.display().to_string();
    let text = std::fs::read(&path).map_err(|error| {
        let why = martlet_base::disk::error_text(&error);
        Error::Text(format!("ERR Error loading ACLs, opening file '{name}': {why}"))
    })?;
    let users = Users::from_text(&text, &name, &call.core.access.rules());
    call.core.access.users = users.map_err(|why| Error::Bytes([b"ERR ", &why[..]].concat()))?;
    call.core.users_changed();
    call.reply.ok();
    Ok(())
}

static SAVE: SentinelCommand = entry("acl|save", 2, save, ADMIN, "Writes the users to the file.");

fn save(call: &mut Call<'_>) -> Outcome {
    let path = call.core.access.file.clone().ok_or(replies::NO_FILE)?;
    let text = call.core.access.users.to_text();
    crate::config::replace_file(&path, &text).map_err(|_| replies::NOT_SAVED)?;
    call.reply.ok();
    Ok(())
}

static HELP: SentinelCommand =
    entry("acl|help", 2, help, Flags::LOADING.with(Flags::STALE), "Lists the subcommands.");

fn help(call: &mut Call<'_>) -> Outcome {
    write_help(call, "ACL")
}
