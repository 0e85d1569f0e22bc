//! CONFIG GET and CONFIG SET over a store.
//!
//! Invariant: a set that fails changes nothing, neither the published configuration nor, as far as
//! hooks can undo it, the process; a set that succeeds is published once, after every hook agreed.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use martlet_base::glob;
use martlet_base::sync::{Outside, lock};

use super::index::{find, parameters};
use super::table::{DENY_LOADING, HIDDEN, IMMUTABLE, MULTI, PROTECTED, Parameter, REREAD};
use super::{Config, ConfigStore, ProtectedAction};

/// Applies the change from one configuration to another, or says in Redis' words why it cannot.
///
/// It runs while a set is under way: it must not call [`ConfigStore::set`] itself, and reads its two
/// arguments instead of the store, which still holds the old configuration.
pub type Hook = Box<dyn Fn(&Config, &Config) -> Result<(), String> + Send + Sync>;

/// Reads what a change needs of the disk, before the gate is closed; the arguments are those of a [`Hook`].
/// What it returns puts that to use, in place of a hook.
pub type Reader = Box<dyn Fn(&Outside, &Config, &Config) -> Result<Acquired, String> + Send + Sync>;

/// What a [`Reader`] has acquired; it is dropped if the change is refused by then.
pub struct Acquired {
    /// Puts it to use: runs behind the closed gate, and does not wait for the disk.
    pub apply: Box<dyn FnOnce() -> Result<(), String> + Send>,
    /// Undoes that.
    pub undo: Box<dyn FnOnce() + Send>,
}

impl Acquired {
    /// Nothing: that there is no refusal is enough.
    pub fn nothing() -> Acquired {
        Acquired { apply: Box::new(|| Ok(())), undo: Box::new(|| ()) }
    }
}

/// Takes up a change that every hook has agreed to and that is published: it cannot refuse any more. The
/// arguments are those of a [`Hook`], whose rules hold here, too.
pub type Follow = Box<dyn Fn(&Config, &Config) + Send + Sync>;

/// What runs when one of the named parameters changes.
type Of<F> = Vec<(&'static [&'static str], F)>;

/// The hooks of a store, and the lock that makes one set at a time.
#[derive(Default)]
pub(super) struct Hooks {
    readers: RwLock<Of<Reader>>,
    before: Mutex<Of<Hook>>,
    after: Mutex<Of<Follow>>,
}

/// The resources that a hook has acquired for a change that is not published yet: listening sockets,
/// certificates. A [`Follow`] puts them to use.
///
/// Invariant: it holds something only between a hook's agreement and the end of the same set.
#[derive(Debug)]
pub struct Prepared<T>(Mutex<Option<T>>);

impl<T> Default for Prepared<T> {
    fn default() -> Prepared<T> {
        Prepared(Mutex::new(None))
    }
}

impl<T> Prepared<T> {
    /// Called by the hook: keeps the result of `prepare`. If the hook runs in reverse, since a later one has
    /// refused, the kept resources are dropped instead.
    ///
    /// # Errors
    /// Those of `prepare`; nothing is kept then.
    pub fn prepare(&self, prepare: impl FnOnce() -> Result<T, String>) -> Result<(), String> {
        let mut prepared = lock(&self.0);
        if prepared.take().is_none() {
            *prepared = Some(prepare()?);
        }
        Ok(())
    }

    /// Keeps resources that were acquired before.
    pub fn keep(&self, value: T) {
        *lock(&self.0) = Some(value);
    }

    /// To be called after the publication.
    pub fn take(&self) -> Option<T> {
        lock(&self.0).take()
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooks")
    }
}

/// The client that sets, and the time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setter {
    /// The client is connected from this machine.
    pub is_local: bool,
    /// The data set is being loaded.
    pub is_loading: bool,
}

/// A parameter that a set gave another value.
#[derive(Clone, Copy, Debug)]
pub struct Changed {
    /// Its entry.
    pub parameter: &'static Parameter,
}

/// Why CONFIG SET changed nothing; displayed as the reply, without the leading dash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// No such parameter.
    Unknown(Vec<u8>),
    /// The data set is being loaded.
    Loading,
    /// The parameter and its value's fault.
    Refused(Vec<u8>, String),
}

impl SetError {
    /// The reply's bytes, without the leading dash: names are shown as the client sent them.
    pub fn reply(&self) -> Vec<u8> {
        match self {
            Self::Unknown(name) => {
                [b"ERR Unknown option or number of arguments for CONFIG SET - '", name.as_slice(), b"'"]
                    .concat()
            }
            Self::Loading => b"LOADING Redis is loading the dataset in memory".into(),
            Self::Refused(name, why) => [
                b"ERR CONFIG SET failed (possibly related to argument '",
                name.as_slice(),
                b"') - ",
                why.as_bytes(),
            ]
            .concat(),
        }
    }
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.reply()))
    }
}

impl std::error::Error for SetError {}

/// The parameters that match any of the patterns, each once, with their values.
///
/// A name without wildcards is answered as it was written; a pattern is answered by every name and alias that
/// it matches, in the table's order, hidden ones aside.
pub fn get(config: &Config, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    let mut add = |name: &[u8], parameter: &Parameter| {
        if seen.insert(name.to_vec()) {
            found.push((name.to_vec(), parameter.get(config)));
        }
    };
    for pattern in patterns {
        if !pattern.iter().any(|byte| b"[*?".contains(byte)) {
            if let Some(parameter) = find(pattern) {
                add(pattern, parameter);
            }
            continue;
        }
        for parameter in parameters().filter(|parameter| !parameter.has(HIDDEN)) {
            for name in std::iter::once(&parameter.name).chain(parameter.aliases) {
                if glob::matches(pattern, name.as_bytes(), true) {
                    add(name.as_bytes(), parameter);
                }
            }
        }
    }
    found
}

/// The parameters that are set to another value than their default, as lines; no secrets.
pub fn parameters_set(config: &Config) -> String {
    let default = Config::default();
    let set = parameters().filter(|parameter| !parameter.is_same(config, &default));
    let line = |parameter: &Parameter| match parameter.has(super::table::SENSITIVE) {
        true => format!("{} (redacted)\n", parameter.name),
        false => format!("{} {}\n", parameter.name, String::from_utf8_lossy(&parameter.get(config))),
    };
    set.map(line).collect()
}

/// Whether a value of that parameter must not be shown in logs: CONFIG SET's argument after it is redacted.
pub fn is_sensitive(name: &[u8]) -> bool {
    find(name).is_some_and(|parameter| parameter.has(super::table::SENSITIVE))
}

impl ConfigStore {
    /// Runs `hook` whenever one of the named parameters changes; hooks run in the order in which they were
    /// added.
    pub fn on_change(&self, names: &'static [&'static str], hook: Hook) {
        debug_assert!(
            names.iter().all(|name| find(name.as_bytes()).is_some()),
            "hook on an unknown parameter"
        );
        lock(&self.hooks.before).push((names, hook));
    }

    /// Runs `follow` whenever a change of one of the named parameters has been published. Changes that cannot
    /// be undone belong here: every other parameter has been accepted by then.
    pub fn on_published(&self, names: &'static [&'static str], follow: Follow) {
        debug_assert!(
            names.iter().all(|name| find(name.as_bytes()).is_some()),
            "hook on an unknown parameter"
        );
        lock(&self.hooks.after).push((names, follow));
    }

    /// Runs `reader` before each change of one of the named parameters, which [`ConfigStore::prepare`] then
    /// has to begin.
    pub fn on_read(&self, names: &'static [&'static str], reader: Reader) {
        debug_assert!(
            names.iter().all(|name| find(name.as_bytes()).is_some()),
            "reader of an unknown parameter"
        );
        self.hooks.readers.write().unwrap_or_else(PoisonError::into_inner).push((names, reader));
    }

    /// Whether a change of these parameters waits for the disk.
    pub fn reads_disk<'n>(&self, mut names: impl Iterator<Item = &'n [u8]>) -> bool {
        let readers = self.hooks.readers.read().unwrap_or_else(PoisonError::into_inner);
        names.any(|name| {
            find(name).is_some_and(|parameter| readers.iter().any(|(of, _)| of.contains(&parameter.name)))
        })
    }

    /// CONFIG GET over the current configuration: see [`get`].
    pub fn get(&self, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
        get(&self.snapshot(), patterns)
    }

    /// CONFIG SET: all of the pairs or none. Answers the parameters whose value is another one now. Not of
    /// parameters that [read the disk](ConfigStore::reads_disk).
    pub fn set(&self, pairs: &[(&[u8], &[u8])], setter: Setter) -> Result<Vec<Changed>, SetError> {
        let hooks = lock(&self.hooks.before);
        let change = Change::parse(self.snapshot(), pairs, setter)?;
        self.publish_change(&hooks, change)
    }

    /// Parses the pairs of a CONFIG SET and reads what it needs of the disk.
    ///
    /// # Errors
    /// Why it is refused; nothing has changed.
    pub fn prepare<N: AsRef<[u8]>>(
        &self,
        outside: &Outside,
        pairs: &[(N, N)],
        setter: Setter,
    ) -> Result<Change, SetError> {
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
        let mut change = Change::parse(self.snapshot(), &pairs, setter)?;
        for (names, reader) in &*self.hooks.readers.read().unwrap_or_else(PoisonError::into_inner) {
            let Some(parameter) = change.cause(names) else { continue };
            let acquired = reader(outside, &change.old, &change.new);
            let acquired = acquired.map_err(|why| SetError::Refused(parameter.name.into(), why))?;
            change.acquired.push((parameter, acquired));
        }
        Ok(change)
    }

    /// Carries out a prepared change; `None`, and nothing is done, if the configuration has become another
    /// since.
    pub fn commit(&self, change: Change) -> Option<Result<Vec<Changed>, SetError>> {
        let hooks = lock(&self.hooks.before);
        let is_current = Arc::ptr_eq(&change.old, &self.snapshot());
        is_current.then(|| self.publish_change(&hooks, change))
    }

    fn publish_change(&self, hooks: &Of<Hook>, change: Change) -> Result<Vec<Changed>, SetError> {
        let Change { old, new, changed, acquired } = change;
        let mut undo: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        let mut applied = Ok(());
        for (parameter, acquired) in acquired {
            applied = (acquired.apply)().map_err(|why| SetError::Refused(parameter.name.into(), why));
            if applied.is_err() {
                break;
            }
            undo.push(acquired.undo);
        }
        if let Err(refusal) = applied.and_then(|()| apply(hooks, &changed, &old, &new)) {
            undo.into_iter().rev().for_each(|undo| undo());
            return Err(refusal);
        }
        if !changed.is_empty() {
            self.publish(new);
            let (new, follows) = (self.snapshot(), self.hooks.after.lock());
            for (names, follow) in follows.unwrap_or_else(PoisonError::into_inner).iter() {
                if changed.iter().any(|parameter| names.contains(&parameter.name)) {
                    follow(&old, &new);
                }
            }
        }
        Ok(changed.into_iter().map(|parameter| Changed { parameter }).collect())
    }
}

/// A CONFIG SET that is parsed, and has read what it needs of the disk.
pub struct Change {
    old: Arc<Config>,
    new: Config,
    changed: Vec<&'static Parameter>,
    /// What was read, and because of which parameter.
    acquired: Vec<(&'static Parameter, Acquired)>,
}

impl Change {
    fn parse(old: Arc<Config>, pairs: &[(&[u8], &[u8])], setter: Setter) -> Result<Change, SetError> {
        let entries = entries(pairs, &old, setter)?;
        let mut new = (*old).clone();
        for ((name, value), parameter) in pairs.iter().zip(&entries) {
            assign(&mut new, parameter, value)
                .map_err(|why| SetError::Refused(own_name(parameter, name).into(), why))?;
        }
        new.normalise();
        new.raise_changed(&old);
        let changed: Vec<_> = (entries.into_iter())
            .filter(|parameter| parameter.has(REREAD) || !parameter.is_same(&old, &new))
            .collect();
        Ok(Change { old, new, changed, acquired: Vec::new() })
    }

    /// The changed parameter among these, if there is one.
    fn cause(&self, names: &[&str]) -> Option<&'static Parameter> {
        self.changed.iter().copied().find(|parameter| names.contains(&parameter.name))
    }
}

/// The name as the table writes it: the parameter's or the alias that was used.
fn own_name(parameter: &Parameter, written: &[u8]) -> &'static [u8] {
    let alias = parameter.aliases.iter().find(|alias| alias.as_bytes().eq_ignore_ascii_case(written));
    alias.unwrap_or(&parameter.name).as_bytes()
}

/// The entries that the pairs name, when the setter may change them all.
fn entries(
    pairs: &[(&[u8], &[u8])],
    config: &Config,
    setter: Setter,
) -> Result<Vec<&'static Parameter>, SetError> {
    let mut entries: Vec<&'static Parameter> = Vec::with_capacity(pairs.len());
    let may_change_protected = match config.enable_protected_configs {
        ProtectedAction::Yes => true,
        ProtectedAction::Local => setter.is_local,
        ProtectedAction::No => false,
    };
    for &(name, _) in pairs {
        let parameter = find(name).ok_or_else(|| SetError::Unknown(name.into()))?;
        let refused = |why: &str| Err(SetError::Refused(name.into(), why.into()));
        if parameter.has(IMMUTABLE) {
            return refused("can't set immutable config");
        }
        if parameter.has(PROTECTED) && !may_change_protected {
            return refused("can't set protected config");
        }
        if setter.is_loading && parameter.has(DENY_LOADING) {
            return Err(SetError::Loading);
        }
        if entries.iter().any(|entry| std::ptr::eq(*entry, parameter)) {
            return refused("duplicate parameter");
        }
        entries.push(parameter);
    }
    Ok(entries)
}

/// Gives a parameter the value that a text stands for.
pub(super) fn assign(config: &mut Config, parameter: &Parameter, value: &[u8]) -> Result<(), String> {
    let words: Vec<&[u8]> = match parameter.has(MULTI) {
        true => value.split(|&byte| byte == b' ').collect(),
        false => vec![value],
    };
    (parameter.parse)(config, &parameter.kind, &words, false)
}

/// Runs the hooks of the changed parameters; when one refuses, those that ran already are run the other way
/// round.
fn apply(
    hooks: &[(&'static [&'static str], Hook)],
    changed: &[&'static Parameter],
    old: &Config,
    new: &Config,
) -> Result<(), SetError> {
    let cause = |names: &[&str]| changed.iter().find(|parameter| names.contains(&parameter.name));
    let mut applied: Vec<&Hook> = Vec::new();
    for (names, hook) in hooks {
        let Some(parameter) = cause(names) else { continue };
        let Err(why) = hook(old, new) else {
            applied.push(hook);
            continue;
        };
        tracing::warn!(
            "Failed applying new configuration. Possibly related to new {} setting. Restoring previous settings.",
            parameter.name
        );
        for hook in applied.into_iter().rev() {
            if let Err(why) = hook(new, old) {
                tracing::warn!("Failed applying restored failed CONFIG SET command: {why}");
            }
        }
        return Err(SetError::Refused(parameter.name.into(), why));
    }
    Ok(())
}
