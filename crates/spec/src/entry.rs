//! A command's entry: name, arity, flags, the places of its keys, ACL categories, arguments, documentation.
//!
//! Dispatch, arity checks, key routing, COMMAND and its subcommands, ACL and the documentation are derived
//! from these entries; no other place has facts about a command.

use martlet_protocol::request::Args;

use crate::about::{Change, Deprecation, Tip};
use crate::flags::{Acl, Flags, KeyFlags};
use crate::module::Module;
use crate::syntax::{self, Argument};
use crate::words::{InValkey, Words};

/// The group that a command's documentation is in.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// `array`
    Array,
    /// `bitmap`
    Bitmap,
    /// `cluster`
    Cluster,
    /// `connection`
    Connection,
    /// `generic`
    Generic,
    /// `geo`
    Geo,
    /// `hash`
    Hash,
    /// `hyperloglog`
    Hyperloglog,
    /// `list`
    List,
    /// `module`, and which one
    Module(&'static Module),
    /// `pathhash`
    PathHash,
    /// `pubsub`
    Pubsub,
    /// `scripting`
    Scripting,
    /// `server`
    Server,
    /// `set`
    Set,
    /// `sorted-set`
    SortedSet,
    /// `stream`
    Stream,
    /// `string`
    String,
    /// `transactions`
    Transactions,
}

impl Group {
    /// The name that COMMAND DOCS gives.
    pub fn name(self) -> &'static str {
        match self {
            Group::Array => "array",
            Group::Bitmap => "bitmap",
            Group::Cluster => "cluster",
            Group::Connection => "connection",
            Group::Generic => "generic",
            Group::Geo => "geo",
            Group::Hash => "hash",
            Group::Hyperloglog => "hyperloglog",
            Group::List => "list",
            Group::Module(_) => "module",
            Group::PathHash => "pathhash",
            Group::Pubsub => "pubsub",
            Group::Scripting => "scripting",
            Group::Server => "server",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Stream => "stream",
            Group::String => "string",
            Group::Transactions => "transactions",
        }
    }

    /// The module that has the command in Redis, if clients are shown it.
    pub fn module(self) -> Option<&'static Module> {
        match self {
            Group::Module(module) => Some(module).filter(|module| module.version > 0),
            _ => None,
        }
    }

    /// Whether the command is a module's in Redis.
    pub const fn is_module(self) -> bool {
        matches!(self, Group::Module(_))
    }
}

/// Where a part of the keys begins.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this argument.
    Index(usize),
    /// After the first such word from an argument on; if that is negative, it counts from the end, and the
    /// search runs backwards. That is the form for clients; the command's [`Spec::find_keys`] is exact
    /// (MIGRATE's KEYS, GEORADIUS' STORE).
    FirstKeyword(&'static str, isize),
    /// After the last such word, wherever it stands, so that clients see `unknown` (SORT's STORE).
    Keyword(&'static str),
    /// Not in the arguments (SORT's GET patterns).
    Unknown,
}

/// How the keys of a part follow from where it begins.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Find {
    /// Every `step`-th argument up to `last`, which is relative to the beginning or, if negative, to the end.
    /// With a `limit` of n > 1, only the first 1/n of the rest counts.
    Range {
        /// The last key's index.
        last: isize,
        /// The distance of keys.
        step: usize,
        /// The divisor of the rest.
        limit: usize,
    },
    /// A count at `count` after the beginning, and as many keys from `first` after it.
    Count {
        /// Index of the number of keys.
        count: usize,
        /// Index of the first key.
        first: usize,
        /// The distance of keys.
        step: usize,
    },
    /// Not in the arguments.
    Unknown,
}

/// One part of a command's key spec.
#[derive(Copy, Clone, Debug)]
pub struct KeyPart {
    /// Where it begins.
    pub begin: Begin,
    /// How its keys are found.
    pub find: Find,
    /// The operations on them.
    pub flags: KeyFlags,
    /// Further remarks for clients; empty without any.
    pub notes: &'static str,
}

impl KeyPart {
    /// One key, the first argument: its value is returned, and changed.
    pub const UPDATED: KeyPart = KeyPart::one(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE));

    /// Keys that are found so.
    pub const fn new(begin: Begin, find: Find, flags: KeyFlags) -> KeyPart {
        KeyPart { begin, find, flags, notes: "" }
    }

    /// Adds remarks for clients.
    pub const fn notes(mut self, notes: &'static str) -> KeyPart {
        self.notes = notes;
        self
    }

    /// One key, at argument `index`.
    pub const fn one(index: usize, flags: KeyFlags) -> KeyPart {
        KeyPart::range(index, 0, 1, flags)
    }

    /// Keys from argument `first`, every `step`-th one, to `last`: relative to `first`, or to the end if
    /// negative.
    pub const fn range(first: usize, last: isize, step: usize, flags: KeyFlags) -> KeyPart {
        KeyPart::new(Begin::Index(first), Find::Range { last, step, limit: 0 }, flags)
    }

    /// All arguments after the first `word`; see [`Begin::FirstKeyword`].
    pub const fn after(word: &'static str, from: isize, flags: KeyFlags) -> KeyPart {
        KeyPart::new(Begin::FirstKeyword(word, from), Find::Range { last: -1, step: 1, limit: 0 }, flags)
    }

    /// The argument after the first `word`; see [`Begin::FirstKeyword`].
    pub const fn behind(word: &'static str, from: isize, flags: KeyFlags) -> KeyPart {
        KeyPart::new(Begin::FirstKeyword(word, from), Find::Range { last: 0, step: 1, limit: 0 }, flags)
    }

    /// A count at argument `index`, followed by as many keys.
    pub const fn counted(index: usize, flags: KeyFlags) -> KeyPart {
        KeyPart::new(Begin::Index(index), Find::Count { count: 0, first: 1, step: 1 }, flags)
    }

    /// Whether the request ends where a part up to its end would begin: there are no such keys, which COMMAND
    /// GETKEYS does not allow, and PFMERGE without a source does.
    pub fn is_left_out(&self, args: &Args<'_>) -> bool {
        let is_to_end = matches!(self.find, Find::Range { last: ..0, .. });
        is_to_end && self.begin == Begin::Index(args.len())
    }

    /// Whether the arguments say that there are 0 of them.
    fn is_counted_as_none(&self, args: &Args<'_>) -> bool {
        let (Begin::Index(begin), Find::Count { count, .. }) = (self.begin, self.find) else { return false };
        args.get(begin + count).and_then(martlet_base::number::parse_i64) == Some(0)
    }

    /// Appends the indexes of the keys in `args`; false when the arguments do not fit the spec.
    pub fn find_in(&self, args: &Args<'_>, out: &mut Vec<usize>) -> bool {
        let argc = args.len();
        let begin = match self.begin {
            Begin::Index(index) => index,
            Begin::Unknown => return true,
            Begin::Keyword(word) | Begin::FirstKeyword(word, _) => match find_keyword(args, self.begin, word)
            {
                Some(at) => at + 1,
                None => return true,
            },
        };
        if begin >= argc {
            return false;
        }
        match self.find {
            Find::Unknown => true,
            Find::Range { last, step, limit } => {
                let last = match (last, limit) {
                    (0.., _) => begin + last as usize,
                    (_, 0 | 1) => argc.saturating_sub(last.unsigned_abs()),
                    (_, limit) => begin + ((argc - begin) / limit).saturating_sub(last.unsigned_abs()),
                };
                if last >= argc || last < begin {
                    return false;
                }
                out.extend((begin..=last).step_by(step));
                true
            }
            Find::Count { count, first, step } => {
                let number = args.get(begin + count).and_then(martlet_base::number::parse_i64);
                let Some(number @ 1..) = number else { return false };
                let from = begin + first;
                let Some(room) = argc.checked_sub(from) else { return false };
                let number = number as usize;
                if number.checked_mul(step).is_none_or(|n| n + 1 - step > room) {
                    return false;
                }
                out.extend((0..number).map(|i| from + i * step));
                true
            }
        }
    }
}

/// Where `word` stands with an argument behind it.
fn find_keyword(args: &Args<'_>, begin: Begin, word: &str) -> Option<usize> {
    let is = |at: &usize| args.at(*at).eq_ignore_ascii_case(word.as_bytes());
    let last = args.len().checked_sub(2)?;
    match begin {
        Begin::FirstKeyword(_, from @ 0..) => (from as usize..=last).find(is),
        Begin::FirstKeyword(_, from) => (1..=args.len().checked_add_signed(from)?).rev().find(is),
        _ => (1..=last).rev().find(is),
    }
}

/// Which arguments are channels that the command publishes to or subscribes to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Channels {
    /// None.
    None,
    /// The first.
    First,
    /// All.
    All,
    /// All, and they are patterns of channels.
    Patterns,
}

/// Which databases the command uses besides the selected one.
#[derive(Copy, Clone)]
pub enum Databases {
    /// No other.
    Selected,
    /// Those that the arguments at these indexes name.
    Named(fn(&Args<'_>) -> Vec<usize>),
    /// All.
    All,
}

impl std::fmt::Debug for Databases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Databases::Selected => "Selected",
            Databases::Named(_) => "Named",
            Databases::All => "All",
        })
    }
}

/// A command's effect on the state in which later commands of a connection, or of an append-only file, run.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Nothing.
    None,
    /// From here on commands are queued.
    BeginTransaction,
    /// The queued commands run.
    ExecuteTransaction,
    /// The queued commands are forgotten.
    DiscardTransaction,
    /// Another database is selected.
    SelectDatabase,
    /// A script or function runs, which argument 1 names so.
    RunScript(ScriptSource),
    /// The libraries of functions change.
    ChangeLibraries(LibraryChange),
    /// It announces slots that are on their way to this node of a cluster.
    TrackSlots,
    /// The definitions of indexes change.
    ChangeIndexes,
}

/// The source of a script in a command.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ScriptSource {
    /// The script itself.
    Text,
    /// Its digest.
    Digest,
    /// The name of a function.
    Function,
}

/// How a command changes the libraries of functions.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum LibraryChange {
    /// One is added, or takes the place of another.
    Load,
    /// One is deleted.
    Delete,
    /// All are deleted.
    Flush,
    /// Those of a payload are added.
    Restore,
}

/// See [`Spec::secrets`].
pub type FindSecrets = fn(&Args<'_>) -> Vec<usize>;

/// See [`Spec::key_flags`].
pub type FindKeyFlags = fn(&Args<'_>) -> KeyFlags;

/// See [`Spec::find_keys`].
pub type FindKeys = fn(&Args<'_>, &mut Vec<usize>) -> bool;

/// Facts about a command besides its handler.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Name in lower case; of a subcommand, its own (`get` of `config|get`).
    pub name: &'static str,
    /// Name with the container's (`config|get`).
    pub full_name: &'static str,
    /// Number of arguments with the name (and the container's); at least as many if negative.
    pub arity: i32,
    /// Flags.
    pub flags: Flags,
    /// Where the keys are.
    pub keys: &'static [KeyPart],
    /// Appends the indexes of the keys, for a command whose options its key spec cannot tell from them; false
    /// when the arguments do not fit.
    pub find_keys: Option<FindKeys>,
    /// The operations on the keys, for a command with which they depend on the arguments.
    pub key_flags: Option<FindKeyFlags>,
    /// Channels among the arguments.
    pub channels: Channels,
    /// Databases besides the selected one.
    pub databases: Databases,
    /// Its effect on the connection's transaction or database.
    pub control: Control,
    /// The indexes of the arguments that no log may show, in their order.
    pub secrets: Option<FindSecrets>,
    /// True for arguments that tell a time relative to now.
    pub relative_time: Option<fn(&Args<'_>) -> bool>,
    /// Categories besides those that follow from the flags.
    acl: Acl,
    /// Group.
    pub group: Group,
    /// Version of Redis that first had it.
    pub since: &'static str,
    /// Complexity.
    pub complexity: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The arguments in the notation of [`crate::syntax`].
    pub syntax: &'static str,
    /// How it has changed since Redis first had it, the earliest version first.
    pub history: &'static [Change],
    /// Since when clients should not use it, and what took its place.
    pub deprecated: Option<Deprecation>,
    /// Rules for proxies and cluster clients.
    pub tips: &'static [Tip],
    /// True for arguments with which the command touches keys that it does not name: it then runs with all
    /// shards held.
    pub undeclared_keys: Option<fn(&Args<'_>) -> bool>,
    /// True for arguments with which the command may also need keys that the data of its keys names. It locks
    /// their shards itself (`Keys::lock_linked`); where several commands run under the same locks, the caller
    /// asks `martlet_command::reaches_beyond` first.
    pub follows_links: Option<fn(&Args<'_>) -> bool>,
    /// The argument that names the member, the field or the index that the command looks for, where asking
    /// for its memory ahead pays.
    pub member: Option<usize>,
    /// What differs while the server presents itself as Valkey.
    pub valkey: InValkey,
}

impl Spec {
    /// Its arguments, as [`Spec::syntax`] says them.
    pub fn arguments(&self) -> Vec<Argument> {
        syntax::parse(self.syntax)
    }

    /// The categories: those named, and those that follow from the flags as Redis derives them. A module
    /// names all categories of its commands.
    pub fn acl(&self) -> Acl {
        let mut acl = self.acl;
        if self.group.is_module() {
            return acl;
        }
        let implied = [
            (Flags::WRITE, Acl::WRITE),
            (Flags::ADMIN, Acl::ADMIN | Acl::DANGEROUS),
            (Flags::PUBSUB, Acl::PUBSUB),
            (Flags::FAST, Acl::FAST),
            (Flags::BLOCKING, Acl::BLOCKING),
        ];
        for (flag, category) in implied {
            if self.flags.has(flag) {
                acl = acl | category;
            }
        }
        // Commands that only read data are @read; those of scripting are neither.
        if self.flags.has(Flags::READONLY) && !acl.has(Acl::SCRIPTING) {
            acl = acl | Acl::READ;
        }
        if !acl.has(Acl::FAST) {
            acl = acl | Acl::SLOW;
        }
        acl
    }

    /// Whether this many arguments fit.
    #[inline]
    pub fn takes(&self, argc: usize) -> bool {
        if self.arity >= 0 { argc == self.arity as usize } else { argc >= self.arity.unsigned_abs() as usize }
    }

    /// The argument that is the command's only key, where that follows from the spec alone.
    #[inline]
    pub fn single_key(&self) -> Option<usize> {
        match self.keys {
            [KeyPart { begin: Begin::Index(index), find: Find::Range { last: 0, .. }, .. }] => Some(*index),
            _ => None,
        }
    }

    /// The argument that is the first key, where the arguments before it tell the number of keys.
    pub fn counted_key(&self) -> Option<usize> {
        match self.keys {
            [KeyPart { begin: Begin::Index(index), find: Find::Count { first, .. }, .. }, ..] => {
                Some(index + first)
            }
            _ => None,
        }
    }

    /// Appends the indexes of all keys, and of what finds a slot as a key does; false when the arguments do
    /// not fit the spec (the handler will say why).
    pub fn key_indexes(&self, args: &Args<'_>, out: &mut Vec<usize>) -> bool {
        let Some(find) = self.find_keys else {
            return self.keys.iter().all(|part| part.is_left_out(args) || part.find_in(args, out));
        };
        find(args, out)
    }

    /// Appends the indexes of the keys whose data the request works on while their shards are locked for it:
    /// none for a walk, which locks its shards one by one itself, nor where the parts only find a slot. False
    /// as [`Spec::key_indexes`].
    ///
    /// Whatever touches a shard because of a request that has run (tracking, times of a replica's own keys)
    /// asks here: a request locks at least the shards of these keys (`martlet_command::key_hashes`).
    pub fn data_keys(&self, args: &Args<'_>, out: &mut Vec<usize>) -> bool {
        !self.flags.has(Flags::WALK) && self.has_keys() && self.key_indexes(args, out)
    }

    /// The operations on the keys of a part, given the arguments.
    fn key_flags_of(&self, flags: KeyFlags, args: &Args<'_>) -> KeyFlags {
        let hidden = KeyFlags::VARIABLE_FLAGS | KeyFlags::INCOMPLETE;
        self.key_flags.map_or(flags, |find| find(args)).without(hidden)
    }

    /// The only key and the operations on it, where its place follows from the spec alone.
    pub fn single_key_access(&self, args: &Args<'_>) -> Option<(usize, KeyFlags)> {
        let (index, part) = (self.single_key()?, self.keys.first()?);
        let is_there = self.find_keys.is_none() && index < args.len();
        is_there.then(|| (index, self.key_flags_of(part.flags, args)))
    }

    /// The indexes of all keys and the operations on each; `None` when the arguments do not fit the spec.
    pub fn key_accesses(&self, args: &Args<'_>) -> Option<Vec<(usize, KeyFlags)>> {
        let (mut found, mut indexes) = (Vec::new(), Vec::new());
        for (place, part) in self.keys.iter().enumerate() {
            let is_none = part.is_left_out(args)
                || self.flags.has(Flags::NO_MANDATORY_KEYS) && part.is_counted_as_none(args);
            let fits = is_none || part.find_in(args, &mut indexes);
            if !fits && self.find_keys.is_none() {
                return None;
            }
            found.extend(indexes.drain(..).map(|index| (index, place)));
        }
        let Some(find) = self.find_keys else { return Some(self.with_flags(&found, args)) };
        if !find(args, &mut indexes) {
            return None;
        }
        // The parts only give the operations on the keys.
        found.retain(|(index, _)| indexes.contains(index));
        indexes.retain(|index| !found.iter().any(|(known, _)| known == index));
        let rest = self.key_flags_of(self.flags_besides(&found), args);
        let mut keys = self.with_flags(&found, args);
        keys.extend(indexes.into_iter().map(|index| (index, rest)));
        Some(keys)
    }

    /// Keys with the operations of the part that has found them.
    fn with_flags(&self, found: &[(usize, usize)], args: &Args<'_>) -> Vec<(usize, KeyFlags)> {
        let flags_of = |place: usize| self.keys.get(place).map_or(KeyFlags::NONE, |part| part.flags);
        found.iter().map(|&(index, place)| (index, self.key_flags_of(flags_of(place), args))).collect()
    }

    /// The operations to be expected on a key that no part finds: those of the parts without a key, as of the
    /// second of two STOREs, or of all if each has one.
    fn flags_besides(&self, found: &[(usize, usize)]) -> KeyFlags {
        let is_keyless = |place: usize| found.iter().all(|(_, other)| *other != place);
        let all_of = |takes: &dyn Fn(usize) -> bool| {
            let named = self.keys.iter().enumerate().filter(|(_, part)| part.find != Find::Unknown);
            let parts = named.filter(|(place, _)| takes(*place));
            parts.fold(KeyFlags::NONE, |all, (_, part)| all | part.flags)
        };
        match all_of(&is_keyless) {
            KeyFlags::NONE => all_of(&|_| true),
            flags => flags,
        }
    }

    /// Whether it names keys, rather than what only finds its slot as a key does.
    pub fn has_keys(&self) -> bool {
        self.keys.iter().any(|part| !part.flags.has(KeyFlags::NOT_KEY))
    }

    /// Whether it works on the data of the selected database.
    pub fn uses_selected_database(&self) -> bool {
        let is_data_command = self.flags.has(Flags::READONLY) || self.flags.has(Flags::WRITE);
        self.has_keys() || is_data_command && matches!(self.databases, Databases::Selected)
    }

    /// COMMAND's first key, last key and step, in its form for simple specs.
    pub fn legacy_range(&self) -> (i64, i64, i64) {
        let mut range: Option<(i64, i64, i64)> = None;
        for part in self.keys {
            let (Begin::Index(first), Find::Range { last, step, limit: 0 | 1 }) = (part.begin, part.find)
            else {
                continue;
            };
            let first = first as i64;
            let last = if last >= 0 { first + last as i64 } else { last as i64 };
            range = Some(match range {
                None => (first, last, step as i64),
                Some((f, l, s)) if l == first - s.max(1) || (l == first - 1 && last >= 0) => (f, last, s),
                Some(old) => old,
            });
        }
        range.unwrap_or((0, 0, 0))
    }
}

/// A command: its spec and what runs it. `H` is the type of handler, which differs between commands that work
/// on data and those that work on the server.
pub struct Command<H: 'static> {
    /// Its specification.
    pub spec: Spec,
    /// What runs it; `None` for a container that is nothing without a subcommand.
    pub handler: Option<H>,
    /// Subcommands of a container.
    pub subcommands: &'static [&'static Command<H>],
}

/// An entry of the table, to be completed by the methods of [`Command`].
pub const fn command<H: Copy>(name: &'static str, arity: i32, handler: H) -> Command<H> {
    Command { spec: blank(name, arity), handler: Some(handler), subcommands: &[] }
}

/// An entry that only holds subcommands (CONFIG, OBJECT).
pub const fn container<H: Copy>(
    name: &'static str,
    arity: i32,
    subcommands: &'static [&'static Command<H>],
) -> Command<H> {
    Command { spec: blank(name, arity), handler: None, subcommands }
}

const fn blank(full_name: &'static str, arity: i32) -> Spec {
    Spec {
        name: last_part(full_name),
        full_name,
        arity,
        flags: Flags::NONE,
        keys: &[],
        find_keys: None,
        key_flags: None,
        channels: Channels::None,
        databases: Databases::Selected,
        control: Control::None,
        secrets: None,
        relative_time: None,
        acl: Acl::NONE,
        group: Group::Generic,
        since: "",
        complexity: "",
        summary: "",
        syntax: "",
        history: &[],
        deprecated: None,
        tips: &[],
        undeclared_keys: None,
        follows_links: None,
        member: None,
        valkey: InValkey::NONE,
    }
}

const fn last_part(full_name: &'static str) -> &'static str {
    let bytes = full_name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'|' {
            return match std::str::from_utf8(bytes.split_at(at + 1).1) {
                Ok(name) => name,
                Err(_) => full_name,
            };
        }
        at += 1;
    }
    full_name
}

impl<H: Copy> Command<H> {
    /// Sets the flags.
    pub const fn flags(mut self, flags: Flags) -> Self {
        self.spec.flags = Flags(self.spec.flags.0 & Flags::MODULE.0).with(flags);
        self
    }

    /// Sets the flags that Valkey has besides, and the errors that it words in another way.
    pub const fn in_valkey(mut self, flags: Flags, words: &'static [Words]) -> Self {
        self.spec.valkey = InValkey { flags, words };
        self
    }

    /// Sets the key spec.
    pub const fn keys(mut self, keys: &'static [KeyPart]) -> Self {
        self.spec.keys = keys;
        self
    }

    /// See [`Spec::find_keys`].
    pub const fn find_keys(mut self, find: FindKeys) -> Self {
        self.spec.find_keys = Some(find);
        self
    }

    /// See [`Spec::key_flags`].
    pub const fn key_flags(mut self, find: FindKeyFlags) -> Self {
        self.spec.key_flags = Some(find);
        self
    }

    /// See [`Spec::channels`].
    pub const fn channels(mut self, channels: Channels) -> Self {
        self.spec.channels = channels;
        self
    }

    /// See [`Spec::databases`].
    pub const fn databases(mut self, databases: Databases) -> Self {
        self.spec.databases = databases;
        self
    }

    /// See [`Spec::control`].
    pub const fn control(mut self, control: Control) -> Self {
        self.spec.control = control;
        self
    }

    /// See [`Spec::secrets`].
    pub const fn secrets(mut self, find: FindSecrets) -> Self {
        self.spec.secrets = Some(find);
        self
    }

    /// See [`Spec::relative_time`].
    pub const fn relative_time_if(mut self, when: fn(&Args<'_>) -> bool) -> Self {
        self.spec.relative_time = Some(when);
        self
    }

    /// Sets the ACL categories that do not follow from the flags.
    pub const fn acl(mut self, acl: Acl) -> Self {
        self.spec.acl = acl;
        self
    }

    /// See [`Spec::member`].
    pub const fn member(mut self, index: usize) -> Self {
        self.spec.member = Some(index);
        self
    }

    /// Says for which arguments the command touches keys that it does not name.
    pub const fn undeclared_keys_if(mut self, when: fn(&Args<'_>) -> bool) -> Self {
        self.spec.undeclared_keys = Some(when);
        self
    }

    /// See [`Spec::follows_links`].
    pub const fn follows_links_if(mut self, when: fn(&Args<'_>) -> bool) -> Self {
        self.spec.follows_links = Some(when);
        self
    }

    /// As [`Command::follows_links_if`] for all arguments.
    pub const fn follows_links(self) -> Self {
        self.follows_links_if(|_| true)
    }

    /// Sets the documentation.
    pub const fn doc(
        mut self,
        group: Group,
        since: &'static str,
        complexity: &'static str,
        summary: &'static str,
    ) -> Self {
        if group.is_module() {
            self.spec.flags = self.spec.flags.with(Flags::MODULE);
        }
        self.spec.group = group;
        self.spec.since = since;
        self.spec.complexity = complexity;
        self.spec.summary = summary;
        self
    }

    /// See [`Spec::syntax`].
    pub const fn syntax(mut self, syntax: &'static str) -> Self {
        self.spec.syntax = syntax;
        self
    }

    /// See [`Spec::history`].
    pub const fn history(mut self, history: &'static [Change]) -> Self {
        self.spec.history = history;
        self
    }

    /// Says which version deprecated it, and what to use.
    pub const fn deprecated(mut self, since: &'static str, replacement: &'static str) -> Self {
        self.spec.deprecated = Some(Deprecation { since, replacement });
        self
    }

    /// See [`Spec::tips`].
    pub const fn tips(mut self, tips: &'static [Tip]) -> Self {
        self.spec.tips = tips;
        self
    }
}
