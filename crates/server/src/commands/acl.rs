//! ACL: users and their rules, and the log of what was refused.

use std::convert::Infallible;

use martlet_acl::{DEFAULT_USER, LogEntry, Selector, Table, User, is_valid_name};
use martlet_base::random::fill_secret;
use martlet_command::{Error, Flags, Group, Outcome, Tip, command, container};
use martlet_protocol::request::Args;

use super::{Call, ServerCommand, ServerHandler, wrong_subcommand_arguments};
use crate::access::{self, UsersChange, revoke, rules};
use crate::shared::lock;

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
        &CAT, &DELUSER, &DRYRUN, &GENPASS, &GETUSER, &HELP, &LIST, &LOAD, &LOG, &SAVE, &SETUSER, &USERS,
        &WHOAMI,
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
        return Err(Error::Fixed("ERR Usernames can't contain spaces or null characters"));
    }
    let access = &call.worker.shared.access;
    let rules = rules(access.table(), call.worker.config());
    let change = access.change(|users| {
        let user = users.get(name).map_or_else(|| User::new(name, &rules), |user| (**user).clone());
        users.insert(user.with_rules(&rules, call.args.iter().skip(3)).map_err(|error| error.reply())?);
        Ok::<(), Error>(())
    })?;
    revoke(call, &change);
    call.reply.ok();
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
        return Err(Error::Fixed("ERR The 'default' user cannot be removed"));
    }
    let mut count = 0;
    let Ok(change) = call.worker.shared.access.change(|users| {
        count = names().filter(|name| users.remove(name)).count();
        Ok::<(), Infallible>(())
    });
    revoke(call, &change);
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
    let Some(user) = users.get(call.arg(2)) else {
        call.reply.null();
        return Ok(());
    };
    let reply = &mut *call.reply;
    reply.map(3 + selector_fields(user.root()));
    reply.bulk(b"flags");
    reply.set(user.flags().count());
    user.flags().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords().len());
    user.passwords().iter().for_each(|password| reply.bulk(password.hex().as_bytes()));
    write_selector(reply, user.root());
    reply.bulk(b"selectors");
    reply.array(user.selectors().len());
    for selector in user.selectors() {
        reply.map(selector_fields(selector));
        write_selector(reply, selector);
    }
    Ok(())
}

/// Number of fields that [`write_selector`] writes: databases are told of only where they are rules.
fn selector_fields(selector: &Selector) -> usize {
    3 + usize::from(selector.describe_databases().is_some())
}

fn write_selector(reply: &mut martlet_protocol::reply::Reply, selector: &Selector) {
    let fields = [
        ("commands", Some(selector.describe_commands())),
        ("keys", Some(selector.describe_keys())),
        ("channels", Some(selector.describe_channels())),
        ("databases", selector.describe_databases().map(String::into_bytes)),
    ];
    for (name, value) in fields {
        let Some(value) = value else { continue };
        reply.bulk(name.as_bytes());
        reply.bulk(&value);
    }
}

static LIST: ServerCommand = command("acl|list", 2, list as ServerHandler).flags(ADMIN).doc(
    Group::Server,
    "6.0.0",
    "O(N) for N users",
    "Answers all users, as lines of a file.",
);

fn list(call: &mut Call<'_>) -> Outcome {
    let users = call.worker.shared.access.users();
    call.reply.array(users.iter().len());
    users.iter().for_each(|user| call.reply.bulk(&user.line()));
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
    call.reply.array(users.iter().len());
    users.iter().for_each(|user| call.reply.bulk(&user.name));
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

/// Bytes of a category's name that the error repeats.
const ECHOED_BYTES: usize = 128;

fn cat(call: &mut Call<'_>) -> Outcome {
    match call.argc() {
        2 => {
            let names = martlet_command::Acl::NAMES;
            call.reply.array(names.len());
            names.iter().for_each(|(_, name)| call.reply.bulk(name.as_bytes()));
        }
        3 => {
            let name = call.arg(2);
            let shown = &name[..name.len().min(ECHOED_BYTES)];
            let category =
                Table::category(name).ok_or_else(|| Error::quoting("ERR Unknown category '", shown, "'"))?;
            let commands: Vec<_> = call.worker.shared.access.table().in_category(category).collect();
            call.reply.array(commands.len());
            commands.iter().for_each(|(_, name)| call.reply.bulk(name.as_bytes()));
        }
        _ => return Err(wrong_subcommand_arguments(call)),
    }
    Ok(())
}

static GENPASS: ServerCommand = command("acl|genpass", -2, genpass as ServerHandler)
    .flags(OPEN)
    .syntax("?bits:i")
    .doc(Group::Server, "6.0.0", "O(1)", "Makes a password that nobody can guess.");

const PASSWORD_BITS: i64 = 256;
const PASSWORD_MAX_BITS: i64 = 4096;

fn genpass(call: &mut Call<'_>) -> Outcome {
    let bits = match call.argc() {
        2 => PASSWORD_BITS,
        3 => call.int(2)?,
        _ => return Err(wrong_subcommand_arguments(call)),
    };
    if !(1..=PASSWORD_MAX_BITS).contains(&bits) {
        return Err(Error::Fixed(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ));
    }
    let digits = (bits as usize).div_ceil(4);
    let mut secret = vec![0; digits.div_ceil(2)];
    fill_secret(&mut secret).map_err(|error| Error::Text(format!("ERR No randomness: {error}")))?;
    let text: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    call.reply.bulk(&text.as_bytes()[..digits]);
    Ok(())
}

static LOG: ServerCommand = command("acl|log", -2, log as ServerHandler)
    .flags(ADMIN)
    .syntax("?operation(count:i|RESET)")
    .doc(Group::Server, "6.0.0", "O(N) for N entries", "Answers, or forgets, what was refused lately.")
    .history(&[("7.2.0", "Each entry's id, and when it was made and changed.")]);

/// Entries that are answered unless it is said how many.
const LOG_ENTRIES: usize = 10;

fn log(call: &mut Call<'_>) -> Outcome {
    let log = &call.worker.shared.access.log;
    let count = match call.argc() {
        2 => LOG_ENTRIES,
        3 if call.rest(2).word("reset") => {
            lock(log).clear();
            call.reply.ok();
            return Ok(());
        }
        3 => usize::try_from(call.int(2)?).unwrap_or(0),
        _ => return Err(wrong_subcommand_arguments(call)),
    };
    let now_ms = call.worker.now_ms;
    let entries: Vec<LogEntry> = lock(log).iter().take(count).cloned().collect();
    call.reply.array(entries.len());
    for entry in &entries {
        write_entry(call.reply, entry, now_ms);
    }
    Ok(())
}

fn write_entry(reply: &mut martlet_protocol::reply::Reply, entry: &LogEntry, now_ms: i64) {
    let LogEntry { event, count, id, created_ms, updated_ms } = entry;
    reply.map(10);
    reply.bulk(b"count");
    reply.int(*count as i64);
    let texts: [(&str, &[u8]); 4] = [
        ("reason", event.reason.name().as_bytes()),
        ("context", event.origin.name().as_bytes()),
        ("object", &event.object),
        ("username", &event.user),
    ];
    for (name, value) in texts {
        reply.bulk(name.as_bytes());
        reply.bulk(value);
    }
    reply.bulk(b"age-seconds");
    reply.double((now_ms - updated_ms) as f64 / 1000.0);
    reply.bulk(b"client-info");
    reply.bulk(&event.client);
    for (name, value) in [
        ("entry-id", *id as i64),
        ("timestamp-created", *created_ms),
        ("timestamp-last-updated", *updated_ms),
    ] {
        reply.bulk(name.as_bytes());
        reply.int(value);
    }
}

static DRYRUN: ServerCommand = command("acl|dryrun", -4, dryrun as ServerHandler)
    .flags(ADMIN)
    .syntax("username command ?*arg")
    .doc(Group::Server, "7.0.0", "O(1)", "Tells whether a user may run a command, without running it.");

fn dryrun(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(2);
    let users = call.worker.shared.access.users();
    let user = users.get(name).ok_or_else(|| Error::quoting("ERR User '", name, "' not found"))?;
    let args = call.args.from(3);
    let entry = call.worker.shared.registry.resolve(&args);
    let entry = entry.filter(|entry| crate::checks::names_command(entry, &args));
    let entry = entry.ok_or_else(|| Error::quoting("ERR Command '", args.at(0), "' not found"))?;
    if !entry.spec.takes(args.len()) {
        return Err(Error::Arity(entry.spec.full_name));
    }
    let command = call.worker.told_name(entry);
    match user.check(&access::request(entry, &args, call.connection.session.db)) {
        Ok(()) => call.reply.ok(),
        Err(denial) => call.reply.bulk(&denial.verbose(&user.name, command, denial.object(command, &args))),
    }
    Ok(())
}

/// The error of LOAD and SAVE where users have no file.
const NO_FILE: Error = Error::Fixed(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.",
);

static LOAD: ServerCommand = command("acl|load", 2, load as ServerHandler)
    .flags(ADMIN.with(Flags::EXCLUSIVE))
    .doc(Group::Server, "6.0.0", "O(N) for N users", "Takes up the users of the file.");

fn load(call: &mut Call<'_>) -> Outcome {
    let config = call.worker.config().clone();
    if config.aclfile.as_os_str().is_empty() {
        return Err(NO_FILE);
    }
    let access = &call.worker.shared.access;
    let change: UsersChange = access.change(|users| {
        *users = access.read_file(&config).map_err(|why| Error::Bytes([b"ERR ", &why[..]].concat()))?;
        Ok::<(), Error>(())
    })?;
    revoke(call, &change);
    call.reply.ok();
    Ok(())
}

static SAVE: ServerCommand = command("acl|save", 2, save as ServerHandler)
    .flags(ADMIN)
    .doc(Group::Server, "6.0.0", "O(N) for N users", "Writes the users to the file.")
    .tips(&[Tip::REQUEST_ALL_NODES, Tip::RESPONSE_ALL_SUCCEEDED]);

fn save(call: &mut Call<'_>) -> Outcome {
    let config = call.worker.config();
    if config.aclfile.as_os_str().is_empty() {
        return Err(NO_FILE);
    }
    let shared = call.worker.shared;
    if let Err(error) = shared.access.save_file(&shared.config) {
        tracing::warn!("Writing ACL file for ACL SAVE: {}", crate::config::error_text(&error));
        return Err(Error::Fixed(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        ));
    }
    call.reply.ok();
    Ok(())
}

static HELP: ServerCommand = command("acl|help", 2, help as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE))
    .doc(Group::Server, "6.0.0", "O(1)", "Lists the subcommands.");

fn help(call: &mut Call<'_>) -> Outcome {
    super::write_help(call, "ACL");
    Ok(())
}
