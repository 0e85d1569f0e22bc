//! The merged command table: data commands and server commands, each with a number, found by name in constant
//! time.
//!
//! Built once at start (renames applied) and never changed afterwards.

use martlet_base::slot::slot_of;
use martlet_command::transaction::Resolves;
use martlet_command::{Command, Control, Flags, Handler, Spec};
use martlet_keyspace::key_hash;
use martlet_protocol::request::Args;
use martlet_spec::Module;

/// What runs a command.
#[derive(Copy, Clone)]
pub enum Run {
    /// Works on keys only.
    Data(Handler),
    /// Works on the server or the connection: the place of its handler among those of the families that the
    /// table was handed.
    Server(usize),
    /// Only a container of subcommands.
    Nothing,
}

/// A command or subcommand of the merged table.
pub struct Entry {
    /// Its place in the table: what statistics are kept by.
    pub id: usize,
    /// The entry that statistics and lists show in its place: of a subcommand of DEBUG, that of DEBUG.
    pub stats_id: usize,
    /// Its specification.
    pub spec: &'static Spec,
    /// What runs it.
    pub run: Run,
    /// Places of its subcommands.
    pub subcommands: Vec<usize>,
    /// The container's place, for a subcommand.
    pub parent: Option<usize>,
    /// [`Spec::single_key`], computed once.
    pub single_key: Option<usize>,
    /// The only key's argument, if the command runs with that key's shard held and nothing special: the path
    /// that the hot commands take.
    pub plain_key: Option<usize>,
    /// The argument whose memory is asked for ahead: the plain key, or where the first of the keys stands of
    /// which the arguments tell the number (scripts).
    pub first_key: Option<usize>,
}

impl Entry {
    /// Whether it has subcommands.
    #[inline]
    pub fn is_container(&self) -> bool {
        !self.subcommands.is_empty()
    }

    /// Whether it has arguments that name keys.
    pub fn has_keys(&self) -> bool {
        !self.spec.keys.is_empty() || self.spec.find_keys.is_some()
    }

    /// Whether a panic of its handler, before any key is changed, leaves the server unchanged: a handler of
    /// keys changes nothing else, and one of the server's has a flag for it. A script has Lua's frames on the
    /// stack, which are not unwound through; a transaction is as its commands are.
    pub fn is_unwindable(&self) -> bool {
        match (&self.run, self.spec.control) {
            (Run::Data(_), _) | (_, Control::ExecuteTransaction) => true,
            (_, Control::RunScript(_)) => false,
            _ => self.spec.flags.has(Flags::READONLY),
        }
    }

    /// The hash of the [`Entry::first_key`] among `args`, if there is one.
    #[inline]
    pub fn first_key_hash(&self, args: &Args<'_>) -> Option<u64> {
        self.first_key.map(|index| key_hash(args.at(index)))
    }
}

impl Resolves for &'static Entry {
    fn spec(&self) -> &'static Spec {
        self.spec
    }
}

/// See the [module docs](self).
pub struct Registry {
    entries: Vec<Entry>,
    /// Names as clients say them, after renames; open addressing by [`fold`].
    table: Vec<Option<(Box<[u8]>, usize)>>,
    modules: Vec<&'static Module>,
}

impl Entry {
    /// Its subcommands that clients see.
    pub fn visible_subcommands(&self) -> &[usize] {
        if self.spec.flags.has(Flags::DEBUG) { &[] } else { &self.subcommands }
    }
}

const TABLE_SIZE: usize = 2048;

/// A number that names which differ only in the case of letters share. Short names are read in two
/// overlapping words, since a copy of their bytes into one would have to be complete before it could be read.
#[inline]
fn fold(name: &[u8]) -> usize {
    let word = match *name {
        [a, b, c, d, .., w, x, y, z] => {
            u64::from(u32::from_le_bytes([a, b, c, d])) << 32 | u64::from(u32::from_le_bytes([w, x, y, z]))
        }
        [] => 0,
        [first, ..] => {
            let (middle, last) = (name[name.len() / 2], name[name.len() - 1]);
            u64::from(first) << 16 | u64::from(middle) << 8 | u64::from(last)
        }
    };
    let word = (word | 0x2020_2020_2020_2020) ^ (name.len() as u64) << 56;
    (word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 53) as usize
}

impl Registry {
    /// The table of the data commands and of the server's `families`, with `renames` applied: a pair of old
    /// and new name; an empty new name removes the command.
    ///
    /// # Errors
    /// The message for a rename of an unknown command, or onto an existing one.
    pub fn new<H: Copy>(
        families: &[&[&'static Command<H>]],
        renames: &[(String, String)],
    ) -> Result<Registry, String> {
        let mut registry =
            Registry { entries: Vec::new(), table: vec![None; TABLE_SIZE], modules: Vec::new() };
        for command in martlet_command::FAMILIES.iter().flat_map(|family| family.iter()) {
            registry.add(command, &mut Run::Data);
        }
        let mut places = 0..;
        for command in families.iter().flat_map(|family| family.iter()) {
            registry.add(command, &mut |_| places.next().map_or(Run::Nothing, Run::Server));
        }
        for (old, new) in renames {
            let Some(id) = registry.remove(old.as_bytes()) else {
                return Err("No such command in rename-command".into());
            };
            if !new.is_empty() {
                if registry.find(new.as_bytes()).is_some() {
                    return Err("Target command name already exists".into());
                }
                registry.insert(new.as_bytes(), id);
            }
        }
        Ok(registry)
    }

    /// The modules of Redis that have any of these commands.
    pub fn modules(&self) -> &[&'static Module] {
        &self.modules
    }

    fn add<H: Copy>(&mut self, command: &'static Command<H>, wrap: &mut dyn FnMut(H) -> Run) {
        let id = self.push(command, wrap, None);
        for sub in command.subcommands {
            let sub_id = self.push(sub, wrap, Some(id));
            self.entries[id].subcommands.push(sub_id);
        }
        self.insert(command.spec.name.as_bytes(), id);
    }

    fn push<H: Copy>(
        &mut self,
        command: &'static Command<H>,
        wrap: &mut dyn FnMut(H) -> Run,
        parent: Option<usize>,
    ) -> usize {
        let id = self.entries.len();
        let spec = &command.spec;
        self.modules.extend(spec.group.module().filter(|module| !self.modules.contains(module)));
        let run = command.handler.map_or(Run::Nothing, wrap);
        let special = [Flags::EXCLUSIVE, Flags::WALK].iter().any(|flag| spec.flags.has(*flag));
        let plain_key = spec.single_key().filter(|_| {
            matches!(run, Run::Data(_))
                && command.subcommands.is_empty()
                && parent.is_none()
                && spec.undeclared_keys.is_none()
                && !special
        });
        self.entries.push(Entry {
            id,
            stats_id: parent.filter(|_| spec.flags.has(Flags::DEBUG)).unwrap_or(id),
            spec,
            run,
            subcommands: Vec::new(),
            parent,
            single_key: spec.single_key(),
            plain_key,
            first_key: plain_key.or_else(|| spec.counted_key()),
        });
        id
    }

    fn insert(&mut self, name: &[u8], id: usize) {
        let mut at = fold(name);
        while self.table[at].is_some() {
            at = (at + 1) % TABLE_SIZE;
        }
        self.table[at] = Some((name.into(), id));
    }

    /// Takes a name out; the table is rebuilt, since probing must not meet a hole.
    fn remove(&mut self, name: &[u8]) -> Option<usize> {
        let id = self.find(name)?.id;
        let all = std::mem::replace(&mut self.table, vec![None; TABLE_SIZE]);
        for (other, other_id) in all.into_iter().flatten() {
            if !other.eq_ignore_ascii_case(name) {
                self.insert(&other, other_id);
            }
        }
        Some(id)
    }

    /// The command of this name, in any case of letters.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&Entry> {
        let mut at = fold(name);
        loop {
            let (known, id) = self.table[at].as_ref()?;
            if known.eq_ignore_ascii_case(name) {
                return Some(&self.entries[*id]);
            }
            at = (at + 1) % TABLE_SIZE;
        }
    }

    /// The command or subcommand that the arguments call; of a container with an unknown subcommand, the
    /// container.
    #[inline]
    pub fn resolve(&self, args: &Args<'_>) -> Option<&Entry> {
        let entry = self.find(args.at(0))?;
        if !entry.is_container() {
            return Some(entry);
        }
        let Some(sub) = args.get(1) else { return Some(entry) };
        let of_name = entry.subcommands.iter().map(|&id| &self.entries[id]);
        Some(of_name.clone().find(|e| e.spec.name.as_bytes().eq_ignore_ascii_case(sub)).unwrap_or(entry))
    }

    /// The entry of this full name (`config|get`).
    pub fn find_full(&self, full_name: &[u8]) -> Option<&Entry> {
        match full_name.iter().position(|&b| b == b'|') {
            None => self.find(full_name),
            Some(at) => {
                let entry = self.find(&full_name[..at])?;
                let sub = &full_name[at + 1..];
                entry
                    .subcommands
                    .iter()
                    .map(|&id| &self.entries[id])
                    .find(|e| e.spec.name.as_bytes().eq_ignore_ascii_case(sub))
            }
        }
    }

    /// All entries, subcommands included; an entry's place is its id.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Commands as clients can call them: their names (after renames) and entries.
    pub fn commands(&self) -> impl Iterator<Item = (&[u8], &Entry)> {
        self.table.iter().flatten().map(|(name, id)| (&**name, &self.entries[*id]))
    }
}

/// Whether the words name the entry, and not a subcommand that its container lacks.
pub fn names_command(entry: &Entry, args: &Args<'_>) -> bool {
    entry.subcommands.is_empty() || !matches!(entry.run, Run::Nothing) || args.len() < 2
}

/// The slot of a request's first key.
pub fn slot_of_keys(entry: &Entry, args: &Args<'_>) -> Option<u16> {
    let mut indexes = Vec::new();
    let fits = entry.spec.key_indexes(args, &mut indexes);
    indexes.first().filter(|_| fits).map(|index| slot_of(args.at(*index)))
}

/// Whether a command's reply consists of messages, which CLIENT REPLY does not hold back.
pub fn answers_with_messages(entry: &Entry) -> bool {
    entry.spec.flags.has(Flags::PUBSUB) && entry.spec.flags.has(Flags::NOSCRIPT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{self, FAMILIES, HANDLERS};
    use crate::runtime::call::ServerCommand;

    #[test]
    fn names_are_found_in_any_case_and_renames_apply() {
        let registry = commands::registry(&[]).unwrap();
        assert_eq!(registry.find(b"gEt").unwrap().spec.name, "get");
        assert!(registry.find(b"nonsense").is_none());
        assert!(registry.find(b"").is_none());
        let renamed =
            commands::registry(&[("get".into(), "fetch".into()), ("ping".into(), String::new())]).unwrap();
        assert!(renamed.find(b"get").is_none());
        assert_eq!(renamed.find(b"FETCH").unwrap().spec.name, "get");
        assert!(renamed.find(b"ping").is_none());
        assert!(commands::registry(&[("nope".into(), "x".into())]).is_err());
        assert!(commands::registry(&[("get".into(), "ping".into())]).is_err());
    }

    /// The data commands' stand in their own crate's test.
    #[test]
    fn key_specs_of_server_commands_find_the_keys_of_the_syntax() {
        use martlet_base::random::Random;
        use martlet_command::KeyFlags;
        use martlet_command::testing::generate::key_disagreement;
        let seed = Random::from_entropy().below(u64::MAX);
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let registry = crate::commands::registry(&[]).unwrap();
        let server_commands = registry.entries().iter().filter(|entry| !matches!(entry.run, Run::Data(_)));
        // Channels and slots are found as keys are, and are none; DEBUG's arguments are not documented.
        let keyed = server_commands.filter(|entry| {
            let spec = entry.spec;
            let has_keys = spec.keys.iter().any(|part| !part.flags.has(KeyFlags::NOT_KEY));
            has_keys && spec.find_keys.is_none() && !spec.arguments().is_empty()
        });
        let failures: Vec<String> =
            keyed.filter_map(|entry| key_disagreement(entry.spec, &mut random)).collect();
        assert!(failures.is_empty(), "seed {seed}: {}", failures.join("\n"));
    }

    #[test]
    fn no_name_stands_twice() {
        let registry = commands::registry(&[]).unwrap();
        let mut names: Vec<&str> = registry.entries().iter().map(|e| e.spec.full_name).collect();
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before);
    }

    #[test]
    fn every_command_that_needs_arguments_says_which() {
        let registry = commands::registry(&[]).unwrap();
        for entry in registry.entries().iter().filter(|e| e.stats_id == e.id && e.subcommands.is_empty()) {
            let words = 1 + usize::from(entry.parent.is_some());
            let needs = entry.spec.arity.unsigned_abs() as usize > words;
            let name = entry.spec.full_name;
            assert!(!needs || !entry.spec.syntax.is_empty(), "{name}");
        }
    }

    #[test]
    fn the_history_of_a_command_begins_after_it() {
        let registry = commands::registry(&[]).unwrap();
        let number = |version: &str| -> Vec<u32> { version.split('.').map(|n| n.parse().unwrap()).collect() };
        for spec in registry.entries().iter().map(|entry| entry.spec) {
            assert!(spec.history.is_sorted_by_key(|change| number(change.0)), "{}", spec.full_name);
            let Some((first, _)) = spec.history.first() else { continue };
            // In Redis, too, 2.1.6 comes before the release that the command counts from.
            let is_early = number(first) < number(spec.since);
            assert_eq!(is_early, spec.full_name == "zrevrangebyscore", "{}", spec.full_name);
        }
    }

    #[test]
    fn what_holds_for_a_container_holds_for_its_subcommands() {
        let registry = commands::registry(&[]).unwrap();
        let inherited = Flags::DEBUG | Flags::KEEPS_CACHING | Flags::IGNORES_NO_TOUCH;
        let of = |entry: &Entry| Flags(entry.spec.flags.0 & inherited.0);
        for entry in registry.entries() {
            let container = entry.parent.map_or(entry, |parent| &registry.entries()[parent]);
            assert_eq!(of(entry), of(container), "{}", entry.spec.full_name);
        }
    }
    #[test]
    fn places_are_those_of_the_handlers() {
        let registry = commands::registry(&[]).unwrap();
        let with_subs =
            |one: &'static ServerCommand| std::iter::once(one).chain(one.subcommands.iter().copied());
        let all = FAMILIES.iter().flat_map(|family| family.iter().copied()).flat_map(with_subs);
        let mut places = 0;
        for (place, command) in all.filter(|command| command.handler.is_some()).enumerate() {
            let entry = registry.find_full(command.spec.full_name.as_bytes()).unwrap();
            assert!(matches!(entry.run, Run::Server(at) if at == place), "{}", command.spec.full_name);
            assert!(command.handler.is_some_and(|handler| std::ptr::fn_addr_eq(handler, HANDLERS[place])));
            places += 1;
        }
        assert_eq!(HANDLERS.len(), places);
    }
}
