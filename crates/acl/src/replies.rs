//! What ACL's subcommands answer, to a server's clients and to a Sentinel's.

use martlet_base::random::fill_secret;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_spec::{Acl, Error, Presentation};

use crate::role::role_name_fault;
use crate::{LogEntry, Role, Selector, Table, User, Users};

/// The error of LOAD and SAVE where users have no file.
pub const NO_FILE: Error = Error::Fixed(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.",
);
/// The error of SAVE where the file cannot be written.
pub const NOT_SAVED: Error = Error::Fixed(
    "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
);
/// SETUSER's error for an invalid name.
pub const NO_NAME: Error = Error::Fixed("ERR Usernames can't contain spaces or null characters");
/// The error of DELUSER for the user that is always there.
pub const NOT_REMOVED: Error = Error::Fixed("ERR The 'default' user cannot be removed");
/// DELROLE's error for a role that a user has.
pub fn role_is_held(name: &[u8]) -> Error {
    Error::quoting("ERR Role '", name, "' is assigned to one or more users. Remove it from them first.")
}

/// Checks the name of SETROLE's role.
///
/// # Errors
/// Why no role can be called so.
pub fn check_role_name(name: &[u8]) -> Result<(), Error> {
    role_name_fault(name).map_or(Ok(()), |fault| Err(Error::Text(format!("ERR {fault}"))))
}

/// The places of SETROLE's arguments that look like passwords, which belong to users only.
pub fn role_secrets(args: &Args<'_>) -> Vec<usize> {
    let is_password = |place: &usize| matches!(args.at(*place).first(), Some(b'>' | b'<' | b'#' | b'!'));
    (3..args.len()).filter(is_password).collect()
}

/// Entries of the log that are answered unless it is said how many.
pub const LOG_ENTRIES: usize = 10;
/// Bits of a password unless it is said how many.
pub const PASSWORD_BITS: i64 = 256;

const PASSWORD_MAX_BITS: i64 = 4096;
/// Bytes of a category's name that the error repeats.
const ECHOED_BYTES: usize = 128;

/// GETUSER. Valkey shows the databases of each user, and no flags about payloads. Roles, which neither Redis
/// nor Valkey 9.1 has, appear for users that have some.
pub fn write_user(reply: &mut Reply, user: &User, presentation: Presentation) {
    let shows_databases = presentation.is_valkey();
    let is_shown = |flag: &&str| !(presentation.is_valkey() && flag.ends_with(SANITIZES));
    let shows_roles = !user.roles().is_empty();
    reply.map(3 + usize::from(shows_roles) + selector_fields(user.root(), shows_databases));
    reply.bulk(b"flags");
    reply.set(user.flags().filter(is_shown).count());
    user.flags().filter(is_shown).for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    let passwords = user.passwords();
    reply.array(passwords.len());
    passwords.iter().for_each(|password| reply.bulk(password.hex().as_bytes()));
    write_selector(reply, user.root(), shows_databases);
    write_selectors(reply, user.selectors(), shows_databases);
    if shows_roles {
        reply.bulk(b"roles");
        reply.array(user.roles().len());
        user.roles().iter().for_each(|role| reply.bulk(&role.name));
    }
}

/// GETROLE: a role, and the users that have it. Its databases appear always, for the command is Valkey's.
pub fn write_role(reply: &mut Reply, role: &Role, users: &Users) {
    reply.map(2 + selector_fields(role.root(), true));
    write_selector(reply, role.root(), true);
    write_selectors(reply, role.selectors(), true);
    reply.bulk(b"users");
    reply.array(users.holders(&role.name).count());
    users.holders(&role.name).for_each(|user| reply.bulk(&user.name));
}

/// The field of the selectors in parentheses.
fn write_selectors(reply: &mut Reply, selectors: &[Selector], shows_databases: bool) {
    reply.bulk(b"selectors");
    reply.array(selectors.len());
    for selector in selectors {
        reply.map(selector_fields(selector, shows_databases));
        write_selector(reply, selector, shows_databases);
    }
}

/// How the flags end that say whether a user's payloads are checked.
const SANITIZES: &str = "sanitize-payload";

/// Number of fields that [`write_selector`] writes: databases appear where they are rules, or always.
fn selector_fields(selector: &Selector, shows_databases: bool) -> usize {
    3 + usize::from(databases(selector, shows_databases).is_some())
}

/// The rule about databases; Valkey's field has an empty string for none at all.
fn databases(selector: &Selector, is_always_shown: bool) -> Option<Vec<u8>> {
    if is_always_shown && selector.allows_no_database() {
        return Some(Vec::new());
    }
    let rule = selector.describe_databases().map(String::into_bytes);
    rule.or_else(|| is_always_shown.then(|| b"alldbs".to_vec()))
}

fn write_selector(reply: &mut Reply, selector: &Selector, shows_databases: bool) {
    let fields = [
        ("commands", Some(selector.describe_commands())),
        ("keys", Some(selector.describe_keys())),
        ("channels", Some(selector.describe_channels())),
        ("databases", databases(selector, shows_databases)),
    ];
    for (name, value) in fields {
        let Some(value) = value else { continue };
        reply.bulk(name.as_bytes());
        reply.bulk(&value);
    }
}

/// LIST: roles, then users.
pub fn write_lines(reply: &mut Reply, users: &Users, presentation: Presentation) {
    reply.array(users.roles().iter().len() + users.iter().len());
    users.roles().iter().for_each(|role| reply.bulk(&role.line()));
    let is_shown = |flag: &str| !(presentation.is_valkey() && flag.ends_with(SANITIZES));
    users.iter().for_each(|user| reply.bulk(&user.line_with(is_shown)));
}

/// USERS.
pub fn write_names(reply: &mut Reply, users: &Users) {
    reply.array(users.iter().len());
    users.iter().for_each(|user| reply.bulk(&user.name));
}

/// ROLES.
pub fn write_role_names(reply: &mut Reply, users: &Users) {
    reply.array(users.roles().iter().len());
    users.roles().iter().for_each(|role| reply.bulk(&role.name));
}

/// CAT: the categories, or the commands of one.
///
/// # Errors
/// There is no such category.
pub fn write_category(reply: &mut Reply, table: &Table, name: Option<&[u8]>) -> Result<(), Error> {
    let Some(name) = name else {
        reply.array(Acl::NAMES.len());
        Acl::NAMES.iter().for_each(|(_, name)| reply.bulk(name.as_bytes()));
        return Ok(());
    };
    let shown = &name[..name.len().min(ECHOED_BYTES)];
    let category =
        Table::category(name).ok_or_else(|| Error::quoting("ERR Unknown category '", shown, "'"))?;
    let commands: Vec<_> = table.in_category(category).collect();
    reply.array(commands.len());
    commands.iter().for_each(|(_, name)| reply.bulk(name.as_bytes()));
    Ok(())
}

/// GENPASS.
///
/// # Errors
/// The number of bits is out of range, or the kernel has no randomness.
pub fn write_password(reply: &mut Reply, bits: i64) -> Result<(), Error> {
    if !(1..=PASSWORD_MAX_BITS).contains(&bits) {
        return Err(Error::Fixed(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ));
    }
    let digits = (bits as usize).div_ceil(4);
    let mut secret = vec![0; digits.div_ceil(2)];
    fill_secret(&mut secret).map_err(|error| Error::Text(format!("ERR No randomness: {error}")))?;
    let text: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    reply.bulk(&text.as_bytes()[..digits]);
    Ok(())
}

/// LOG.
pub fn write_log(reply: &mut Reply, entries: &[LogEntry], now_ms: i64) {
    reply.array(entries.len());
    for LogEntry { event, count, id, created_ms, updated_ms } in entries {
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
        let times = [
            ("entry-id", *id as i64),
            ("timestamp-created", *created_ms),
            ("timestamp-last-updated", *updated_ms),
        ];
        for (name, value) in times {
            reply.bulk(name.as_bytes());
            reply.int(value);
        }
    }
}
