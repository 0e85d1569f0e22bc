//! A selector: commands, keys, channels and databases that go together.
//!
//! Invariant: the command rules that it keeps make the same set of commands again when they are applied in
//! their order to all commands, or to none.

use std::collections::{BTreeMap, BTreeSet};

use martlet_base::glob;
use martlet_base::number::parse_i64;
use martlet_spec::{Channels, Databases, KeyFlags};

use crate::bits::Bits;
use crate::error::{Denial, RuleError};
use crate::ordered::Ordered;
use crate::request::{Request, Rules, has_spaces};
use crate::table::Table;

/// The highest number of a database that rules may name, as in Valkey.
const DATABASE_MAX: usize = i32::MAX as usize;

/// Operations that are allowed on the keys of a pattern.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Read them.
    pub read: bool,
    /// Change them.
    pub write: bool,
}

impl Access {
    const ALL: Access = Access { read: true, write: true };

    /// The access that a command with these flags needs.
    fn needed(flags: KeyFlags) -> Access {
        let changes = [KeyFlags::INSERT, KeyFlags::DELETE, KeyFlags::UPDATE];
        let write = changes.iter().any(|change| flags.has(*change));
        Access { read: flags.has(KeyFlags::ACCESS), write }
    }

    fn includes(self, needed: Access) -> bool {
        (self.read || !needed.read) && (self.write || !needed.write)
    }

    fn with(self, other: Access) -> Access {
        Access { read: self.read || other.read, write: self.write || other.write }
    }

    /// How a pattern of such keys begins.
    fn prefix(self) -> &'static str {
        match self {
            Access { read: true, write: true } => "~",
            Access { read: true, write: false } => "%R~",
            _ => "%W~",
        }
    }
}

/// See the [module docs](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    commands: Bits,
    /// Begins with all commands, those that are yet to come included.
    begins_with_all: bool,
    /// What followed, as `+get`, `-@write`: what follows the sign, in lower case, and whether it allows.
    command_rules: Ordered<Vec<u8>, bool>,
    /// First arguments, in lower case, with which a command is allowed that otherwise is not.
    first_arguments: BTreeMap<usize, BTreeSet<Vec<u8>>>,
    /// Patterns and what may be done with such keys. None for all keys.
    keys: Option<Ordered<Vec<u8>, Access>>,
    /// Patterns. None for all channels.
    channels: Option<Ordered<Vec<u8>, ()>>,
    /// None for all databases.
    databases: Option<BTreeSet<usize>>,
}

impl Selector {
    /// One that allows nothing, but channels where the configuration does.
    pub(crate) fn new(rules: &Rules<'_>) -> Selector {
        Selector {
            commands: Bits::new(rules.table.len()),
            begins_with_all: false,
            command_rules: Ordered::new(),
            first_arguments: BTreeMap::new(),
            keys: Some(Ordered::new()),
            channels: if rules.all_channels { None } else { Some(Ordered::new()) },
            databases: None,
        }
    }

    /// Whether it allows everything.
    pub(crate) fn allows_all(&self) -> bool {
        self.keys.is_none() && self.channels.is_none() && self.databases.is_none() && self.commands.is_full()
    }

    /// Applies a rule. On error nothing has changed.
    pub(crate) fn apply(&mut self, rules: &Rules<'_>, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => self.keys = None,
            b"resetkeys" => self.keys = Some(Ordered::new()),
            b"allchannels" | b"&*" => self.channels = None,
            b"resetchannels" => self.channels = Some(Ordered::new()),
            b"allcommands" | b"+@all" => self.set_all_commands(true),
            b"nocommands" | b"-@all" => self.set_all_commands(false),
            b"alldbs" => self.databases = None,
            b"resetdbs" => self.databases = Some(BTreeSet::new()),
            lower => match *rule {
                [b'~' | b'%', ..] => self.add_keys(rule)?,
                [b'&', ref pattern @ ..] => self.add_channels(pattern)?,
                [b'+', b'@', ref category @ ..] => self.set_category(rules.table, category, true)?,
                [b'-', b'@', ref category @ ..] => self.set_category(rules.table, category, false)?,
                [b'+', ref name @ ..] => self.allow(rules.table, name)?,
                [b'-', ref name @ ..] => self.forbid(rules.table, name)?,
                _ => self.set_databases(lower)?,
            },
        }
        Ok(())
    }

    fn set_all_commands(&mut self, allows: bool) {
        self.commands.set_all(allows);
        self.begins_with_all = allows;
        self.command_rules.clear();
        self.first_arguments.clear();
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let keys = self.keys.as_mut().ok_or(RuleError::AfterAllKeys)?;
        let (access, pattern) = key_pattern(rule).ok_or(RuleError::Syntax)?;
        let known = keys.get_or_add(pattern.into(), access);
        *known = known.with(access);
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        let channels = self.channels.as_mut().ok_or(RuleError::AfterAllChannels)?;
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        channels.get_or_add(pattern.into(), ());
        Ok(())
    }

    /// `db=1,2`: these databases and no others. The server need not have them: `databases` may grow.
    fn set_databases(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let list = rule.strip_prefix(b"db=").ok_or(RuleError::Syntax)?;
        let mut databases = BTreeSet::new();
        for word in list.split(|byte| *byte == b',') {
            let number = std::str::from_utf8(word).ok().and_then(|word| word.parse::<i64>().ok());
            let number = usize::try_from(number.ok_or(RuleError::Syntax)?);
            let database = number.ok().filter(|number| *number <= DATABASE_MAX);
            databases.insert(database.ok_or(RuleError::NoSuchDatabase)?);
        }
        self.databases = Some(databases);
        Ok(())
    }

    fn set_category(&mut self, table: &Table, name: &[u8], allows: bool) -> Result<(), RuleError> {
        let category = Table::category(name).ok_or(RuleError::Unknown)?;
        self.keep_rule(&[b"@", name].concat(), allows);
        for (place, _) in table.in_category(category) {
            self.set_command(table, place, allows);
        }
        Ok(())
    }

    /// Allows or forbids a command and its subcommands.
    fn set_command(&mut self, table: &Table, place: usize, allows: bool) {
        self.commands.set(place, allows);
        self.first_arguments.remove(&place);
        for &subcommand in table.get(place).map_or(&[][..], |command| &command.subcommands) {
            self.commands.set(subcommand, allows);
        }
    }

    fn forbid(&mut self, table: &Table, name: &[u8]) -> Result<(), RuleError> {
        let place = table.find(name).ok_or(RuleError::Unknown)?;
        self.set_command(table, place, false);
        self.keep_rule(name, false);
        Ok(())
    }

    /// `+get`, `+config|get`, or `+select|0`: a command with one first argument.
    fn allow(&mut self, table: &Table, name: &[u8]) -> Result<(), RuleError> {
        let Some(at) = name.iter().rposition(|byte| *byte == b'|') else {
            let place = table.find(name).ok_or(RuleError::Unknown)?;
            self.set_command(table, place, true);
            self.keep_rule(name, true);
            return Ok(());
        };
        let container = table.find(&name[..at]).ok_or(RuleError::Unknown)?;
        let known = table.get(container).ok_or(RuleError::Unknown)?;
        let argument = &name[at + 1..];
        if known.is_subcommand {
            return Err(RuleError::FirstArgumentOfSubcommand);
        }
        if argument.is_empty() || has_spaces(argument) {
            return Err(RuleError::Syntax);
        }
        if known.subcommands.is_empty() {
            self.first_arguments.entry(container).or_default().insert(argument.to_ascii_lowercase());
        } else {
            let place = table.find(name).ok_or(RuleError::Unknown)?;
            self.set_command(table, place, true);
        }
        self.keep_rule(name, true);
        Ok(())
    }

    /// Appends a rule about commands in the place of those that it makes void: one about the same, and those
    /// about parts of it.
    fn keep_rule(&mut self, name: &[u8], allows: bool) {
        let name = name.to_ascii_lowercase();
        let parts = |separator: u8| [&name[..], &[separator]].concat();
        self.command_rules.remove_range(parts(b'|')..parts(b'|' + 1));
        self.command_rules.remove(&name);
        self.command_rules.get_or_add(name, allows);
    }
}

/// A request's facts for selectors: shared by all selectors that check it.
pub(crate) struct Asked<'r, 'a> {
    pub request: &'r Request<'a>,
    /// The keys, once a selector has needed them.
    keys: Option<Vec<(usize, KeyFlags)>>,
}

impl<'r, 'a> Asked<'r, 'a> {
    pub fn new(request: &'r Request<'a>) -> Asked<'r, 'a> {
        Asked { request, keys: None }
    }

    /// The keys and their flags; none when the arguments do not fit, which the handler will report.
    fn keys(&mut self) -> &[(usize, KeyFlags)] {
        let Request { spec, args, .. } = self.request;
        self.keys.get_or_insert_with(|| spec.key_accesses(args).unwrap_or_default())
    }
}

impl Selector {
    /// Whether the request may run.
    pub(crate) fn check(&self, asked: &mut Asked<'_, '_>) -> Result<(), Denial> {
        self.check_databases(asked.request)?;
        self.check_command(asked.request)?;
        self.check_keys(asked)?;
        self.check_channels(asked.request)
    }

    fn check_command(&self, request: &Request<'_>) -> Result<(), Denial> {
        let is_open = request.spec.flags.has(martlet_spec::Flags::NO_AUTH);
        if is_open || self.commands.has(request.place) {
            return Ok(());
        }
        let allowed = self.first_arguments.get(&request.place).ok_or(Denial::Command)?;
        let first = request.args.get(1).ok_or(Denial::Command)?;
        let is_allowed = match first.iter().any(u8::is_ascii_uppercase) {
            true => allowed.contains(&first.to_ascii_lowercase()),
            false => allowed.contains(first),
        };
        if is_allowed { Ok(()) } else { Err(Denial::Command) }
    }

    fn check_keys(&self, asked: &mut Asked<'_, '_>) -> Result<(), Denial> {
        let Some(patterns) = &self.keys else { return Ok(()) };
        let Request { spec, args, .. } = asked.request;
        if spec.keys.is_empty() {
            return Ok(());
        }
        // Most requests have one key, which needs no list.
        let single = spec.single_key_access(args);
        let keys = single.as_ref().map_or_else(|| asked.keys(), std::slice::from_ref);
        for &(index, flags) in keys.iter().filter(|(_, flags)| !flags.has(KeyFlags::NOT_KEY)) {
            let (needed, key) = (Access::needed(flags), args.at(index));
            let allows = |(pattern, access): (&Vec<u8>, &Access)| {
                access.includes(needed) && glob::matches(pattern, key, false)
            };
            if !patterns.iter().any(allows) {
                return Err(Denial::Key(index));
            }
        }
        Ok(())
    }

    fn check_channels(&self, request: &Request<'_>) -> Result<(), Denial> {
        let count = request.args.len();
        let (indexes, is_pattern) = match request.spec.channels {
            Channels::None => return Ok(()),
            Channels::First => (1..count.min(2), false),
            Channels::All => (1..count, false),
            Channels::Patterns => (1..count, true),
        };
        for index in indexes {
            if !self.allows_channel(request.args.at(index), is_pattern) {
                return Err(Denial::Channel(index));
            }
        }
        Ok(())
    }

    /// Whether a key may be accessed so.
    pub(crate) fn allows_key(&self, key: &[u8], access: Access) -> bool {
        let Some(patterns) = &self.keys else { return true };
        patterns.iter().any(|(pattern, known)| known.includes(access) && glob::matches(pattern, key, false))
    }

    /// Whether a pattern covers all keys that begin so.
    pub(crate) fn allows_prefix(&self, prefix: &[u8], access: Access) -> bool {
        let Some(patterns) = &self.keys else { return true };
        patterns.iter().any(|(pattern, known)| known.includes(access) && glob::covers(pattern, prefix))
    }

    /// Whether a channel is allowed; a pattern of channels is if it is one of the selector's.
    pub(crate) fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let Some(channels) = &self.channels else { return true };
        match is_pattern {
            true => channels.has(channel),
            false => channels.iter().any(|(known, ())| glob::matches(known, channel, false)),
        }
    }

    fn check_databases(&self, request: &Request<'_>) -> Result<(), Denial> {
        let Some(allowed) = &self.databases else { return Ok(()) };
        if request.spec.uses_selected_database() && !allowed.contains(&request.db) {
            return Err(Denial::Database(None));
        }
        match request.spec.databases {
            Databases::Selected => Ok(()),
            Databases::All if (0..request.databases).all(|db| allowed.contains(&db)) => Ok(()),
            Databases::All => Err(Denial::Database(None)),
            Databases::Named(find) => {
                let number_at = |index: usize| {
                    let number = usize::try_from(parse_i64(request.args.at(index))?).ok();
                    Some((index, number.filter(|number| *number < request.databases)?))
                };
                // Of numbers that are no database's the handler reports the fault.
                let named: Option<Vec<_>> = find(&request.args).into_iter().map(number_at).collect();
                match named.unwrap_or_default().into_iter().find(|(_, number)| !allowed.contains(number)) {
                    Some((index, _)) => Err(Denial::Database(Some(index))),
                    None => Ok(()),
                }
            }
        }
    }

    /// Whether any key may be accessed so.
    pub(crate) fn allows_all_keys(&self, access: Access) -> bool {
        let Some(patterns) = &self.keys else { return true };
        patterns.iter().any(|(pattern, known)| pattern == b"*" && known.includes(access))
    }

    /// The patterns of channels, unless it allows all.
    pub(crate) fn channels(&self) -> Option<&Ordered<Vec<u8>, ()>> {
        self.channels.as_ref()
    }
}

impl Selector {
    fn command_words(&self) -> Vec<Vec<u8>> {
        let first = if self.begins_with_all { b"+@all" } else { b"-@all" };
        let sign = |allows: bool| if allows { b"+" } else { b"-" };
        let rules = self.command_rules.in_order().map(|(name, allows)| [&sign(*allows)[..], name].concat());
        std::iter::once(first.to_vec()).chain(rules).collect()
    }

    fn key_words(&self) -> Vec<Vec<u8>> {
        let Some(keys) = &self.keys else { return vec![b"~*".to_vec()] };
        keys.in_order().map(|(pattern, access)| [access.prefix().as_bytes(), pattern].concat()).collect()
    }

    fn channel_words(&self) -> Vec<Vec<u8>> {
        let Some(channels) = &self.channels else { return vec![b"&*".to_vec()] };
        channels.in_order().map(|(pattern, ())| [b"&", &pattern[..]].concat()).collect()
    }

    /// The rules about commands, as they could be given again.
    pub fn describe_commands(&self) -> Vec<u8> {
        self.command_words().join(&b' ')
    }

    /// The patterns of keys.
    pub fn describe_keys(&self) -> Vec<u8> {
        self.key_words().join(&b' ')
    }

    /// The patterns of channels.
    pub fn describe_channels(&self) -> Vec<u8> {
        self.channel_words().join(&b' ')
    }

    /// Whether it is confined to no database at all.
    pub(crate) fn allows_no_database(&self) -> bool {
        self.databases.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// The databases, if it is confined to some.
    pub fn describe_databases(&self) -> Option<String> {
        let databases = self.databases.as_ref()?;
        if databases.is_empty() {
            return Some("resetdbs".into());
        }
        let numbers: Vec<String> = databases.iter().map(usize::to_string).collect();
        Some(format!("db={}", numbers.join(",")))
    }

    /// All of its rules, as they could be given again.
    pub(crate) fn words(&self) -> Vec<Vec<u8>> {
        let resets = self.channels.as_ref().map(|_| b"resetchannels".to_vec());
        let databases = self.describe_databases().map(String::into_bytes);
        let channels = resets.into_iter().chain(self.channel_words());
        self.key_words().into_iter().chain(channels).chain(databases).chain(self.command_words()).collect()
    }

    /// As [`Selector::words`], between parentheses.
    pub(crate) fn describe_in_parentheses(&self) -> Vec<u8> {
        let words: Vec<_> = self.words().into_iter().map(quote).collect();
        [b"(", &words.join(&b' ')[..], b")"].concat()
    }
}

/// A word as it stands in parentheses: in quotes if it has one, or could be taken for the end.
fn quote(word: Vec<u8>) -> Vec<u8> {
    if !word.iter().any(|byte| matches!(byte, b'"' | b'\'' | b'\\' | b')')) {
        return word;
    }
    let escape = |byte: u8| match byte {
        b'"' | b'\\' => vec![b'\\', byte],
        _ => vec![byte],
    };
    [b"\"", &word.into_iter().flat_map(escape).collect::<Vec<_>>()[..], b"\""].concat()
}

/// Splits `~pattern`, `%R~pattern` and their kin.
fn key_pattern(rule: &[u8]) -> Option<(Access, &[u8])> {
    let (access, pattern) = match rule {
        [b'~', pattern @ ..] => (Access::ALL, pattern),
        [_, rest @ ..] => {
            // Without `~` the pattern is empty, as with nothing behind it.
            let at = rest.iter().position(|byte| *byte == b'~').unwrap_or(rest.len());
            let mut access = Access { read: false, write: false };
            for letter in &rest[..at] {
                let flag = match letter {
                    b'r' | b'R' => &mut access.read,
                    b'w' | b'W' => &mut access.write,
                    _ => return None,
                };
                if std::mem::replace(flag, true) {
                    return None;
                }
            }
            if !access.read && !access.write {
                return None;
            }
            (access, rest.get(at + 1..).unwrap_or_default())
        }
        [] => return None,
    };
    (!has_spaces(pattern)).then_some((access, pattern))
}
