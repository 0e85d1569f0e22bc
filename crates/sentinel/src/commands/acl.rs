//! ACL: users and their rules, and the log of what was refused.

use martlet_acl::{DEFAULT_USER, LogEntry, Selector, Table, User, Users, is_valid_name};
use martlet_base::number::parse_i64;
use martlet_base::random::fill_secret;
use martlet_command::{Error, Flags, Group, Outcome, command, container};
use martlet_protocol::reply::Reply;

use super::{Call, Handler, SentinelCommand, registry, write_help};

/// The family.
pub static COMMANDS: &[&SentinelCommand] = &[&ACL];

static ACL: SentinelCommand = container(
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
        return Err(Error::Fixed("ERR Usernames can't contain spaces or null characters"));
    }
    let access = &mut call.core.access;
    let rules = access.rules();
    let user = access.users.get(name).map_or_else(|| User::new(name, &rules), |user| (**user).clone());
    let user = user.with_rules(&rules, call.args.iter().skip(3)).map_err(|error| error.reply())?;
    access.users.insert(user);
    call.core.users_changed();
    call.reply.ok();
    Ok(())
}

static DELUSER: SentinelCommand =
    entry("acl|deluser", -3, deluser, ADMIN, "Removes users and closes their connections.")
        .syntax("*username");

fn deluser(call: &mut Call<'_>) -> Outcome {
    let args = call.args;
    let names = || args.iter().skip(2);
    if names().any(|name| name == DEFAULT_USER) {
        return Err(Error::Fixed("ERR The 'default' user cannot be removed"));
    }
    let users = &mut call.core.access.users;
    let count = names().filter(|name| users.remove(name)).count();
    call.core.users_changed();
    // Who removes itself gets the reply.
    let session = call.session();
    session.is_closing |= std::mem::take(&mut session.is_killed);
    call.reply.count(count);
    Ok(())
}

static GETUSER: SentinelCommand =
    entry("acl|getuser", 3, getuser, ADMIN, "Answers all that makes a user.").syntax("username");

fn getuser(call: &mut Call<'_>) -> Outcome {
    let Some(user) = call.core.access.users.get(call.arg(2)) else {
        call.reply.null();
        return Ok(());
    };
    let reply = &mut *call.reply;
    reply.map(6);
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
        reply.map(3);
        write_selector(reply, selector);
    }
    Ok(())
}

fn write_selector(reply: &mut Reply, selector: &Selector) {
    let fields = [
        ("commands", selector.describe_commands()),
        ("keys", selector.describe_keys()),
        ("channels", selector.describe_channels()),
    ];
    for (name, value) in fields {
        reply.bulk(name.as_bytes());
        reply.bulk(&value);
    }
}

static LIST: SentinelCommand = entry("acl|list", 2, list, ADMIN, "Answers all users, as lines of a file.");

fn list(call: &mut Call<'_>) -> Outcome {
    let users = &call.core.access.users;
    call.reply.array(users.iter().len());
    users.iter().for_each(|user| call.reply.bulk(&user.line()));
    Ok(())
}

static USERS: SentinelCommand = entry("acl|users", 2, users, ADMIN, "Answers the names of all users.");

fn users(call: &mut Call<'_>) -> Outcome {
    let users = &call.core.access.users;
    call.reply.array(users.iter().len());
    users.iter().for_each(|user| call.reply.bulk(&user.name));
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
            let commands: Vec<_> = call.core.access.table.in_category(category).collect();
            call.reply.array(commands.len());
            commands.iter().for_each(|(_, name)| call.reply.bulk(name.as_bytes()));
        }
        _ => return Err(Error::Arity(call.entry.spec.full_name)),
    }
    Ok(())
}

static GENPASS: SentinelCommand =
    entry("acl|genpass", -2, genpass, OPEN, "Makes a password that nobody can guess.").syntax("?bits:i");

fn genpass(call: &mut Call<'_>) -> Outcome {
    const RANGE: Error = Error::Fixed(
        "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
    );
    let bits = match call.argc() {
        2 => 256,
        3 => parse_i64(call.arg(2)).ok_or(Error::NotInteger)?,
        _ => return Err(Error::Arity(call.entry.spec.full_name)),
    };
    let bits = usize::try_from(bits).ok().filter(|bits| (1..=4096).contains(bits)).ok_or(RANGE)?;
    let mut secret = vec![0; bits.div_ceil(8)];
    fill_secret(&mut secret).map_err(|error| Error::Text(format!("ERR No randomness: {error}")))?;
    let text: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    call.reply.bulk(text.as_bytes().get(..bits.div_ceil(4)).unwrap_or_default());
    Ok(())
}

static LOG: SentinelCommand =
    entry("acl|log", -2, log, ADMIN, "Answers, or forgets, what was refused lately.")
        .syntax("?operation(count:i|RESET)");

fn log(call: &mut Call<'_>) -> Outcome {
    let count = match call.argc() {
        2 => 10,
        3 if call.arg(2).eq_ignore_ascii_case(b"reset") => {
            call.core.access.log.clear();
            call.reply.ok();
            return Ok(());
        }
        3 => usize::try_from(parse_i64(call.arg(2)).ok_or(Error::NotInteger)?).unwrap_or(0),
        _ => return Err(Error::Arity(call.entry.spec.full_name)),
    };
    let entries: Vec<&LogEntry> = call.core.access.log.iter().take(count).collect();
    call.reply.array(entries.len());
    for LogEntry { event, count, id, created_ms, updated_ms } in entries {
        call.reply.map(10);
        call.reply.bulk(b"count");
        call.reply.int(*count as i64);
        let texts: [(&str, &[u8]); 4] = [
            ("reason", event.reason.name().as_bytes()),
            ("context", event.origin.name().as_bytes()),
            ("object", &event.object),
            ("username", &event.user),
        ];
        for (name, value) in texts {
            call.reply.bulk(name.as_bytes());
            call.reply.bulk(value);
        }
        call.reply.bulk(b"age-seconds");
        call.reply.double((call.core.now_ms - updated_ms) as f64 / 1000.0);
        call.reply.bulk(b"client-info");
        call.reply.bulk(&event.client);
        let times = [
            ("entry-id", *id as i64),
            ("timestamp-created", *created_ms),
            ("timestamp-last-updated", *updated_ms),
        ];
        for (name, value) in times {
            call.reply.bulk(name.as_bytes());
            call.reply.int(value);
        }
    }
    Ok(())
}

static DRYRUN: SentinelCommand =
    entry("acl|dryrun", -4, dryrun, ADMIN, "Tells whether a user may run a command, without running it.")
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
    let request = martlet_acl::Request { place: entry.id, spec: entry.spec, args, db: 0 };
    match user.check(&request) {
        Ok(()) => call.reply.ok(),
        Err(denial) => {
            let command = entry.spec.full_name;
            call.reply.bulk(&denial.verbose(&user.name, command, denial.object(command, &args)));
        }
    }
    Ok(())
}

/// The error of LOAD and SAVE where users have no file.
const NO_FILE: Error = Error::Fixed(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.",
);

static LOAD: SentinelCommand = entry("acl|load", 2, load, ADMIN, "Takes up the users of the file.");

fn load(call: &mut Call<'_>) -> Outcome {
    let path = call.core.access.file.clone().ok_or(NO_FILE)?;
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
    let path = call.core.access.file.clone().ok_or(NO_FILE)?;
    let text = call.core.access.users.to_text();
    crate::config::replace_file(&path, &text).map_err(|_| {
        Error::Fixed(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        )
    })?;
    call.reply.ok();
    Ok(())
}

static HELP: SentinelCommand =
    entry("acl|help", 2, help, Flags::LOADING.with(Flags::STALE), "Lists the subcommands.");

fn help(call: &mut Call<'_>) -> Outcome {
    write_help(call, "ACL")
}
