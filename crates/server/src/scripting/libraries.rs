//! The libraries of functions: one list that is never changed, but replaced by another as a whole.
//!
//! Threads take the list when its generation differs from their own, and load each library into a private
//! state when one of its functions is first called there. A library is checked beforehand in a state without
//! other users, so a refused one leaves nothing behind.
//!
//! Invariant: no name of a library or a function stands twice in a list. It changes behind the closed gate,
//! or while data is being loaded: no function runs then.

use std::borrow::Cow;
use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use hashbrown::HashMap;
use martlet_base::clock::Clock;
use martlet_base::sync::lock;
use martlet_command::{Cursor, Error, LibraryChange, Presentation};
use martlet_persistence::Publish;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_script::library::{BAD_NAME, is_name};
use martlet_script::{Called, Engine, Host, Interpreter, LogLevel, Registered, ScriptFlags, Verdict};
use martlet_values::payload;

use super::compiled::{MEMORY_MAX_BYTES, script_product};
use crate::config::words;

/// A library that a client sends is refused if it runs for longer while it is loaded (Redis:
/// `LOAD_TIMEOUT_MS`).
const LOAD_MAX_MS: u64 = 500;
/// The same for a library that a server has accepted before: it comes from a file, from the primary, or from
/// the list, and this machine may be slower or busier than the one that accepted it. Redis has no limit here,
/// so that a library without an end holds up its start for good.
const ACCEPTED_LOAD_MAX_MS: u64 = 5 * LOAD_MAX_MS;

/// One function of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: Vec<u8>,
    /// The library's description of it.
    pub description: Option<Vec<u8>>,
    /// Its flags.
    pub flags: ScriptFlags,
}

/// One library.
#[derive(Debug)]
pub struct Library {
    /// Its name.
    pub name: Vec<u8>,
    /// Its source, the first line included.
    pub code: Arc<[u8]>,
    /// Length of that line, which is not Lua.
    first_line_len: usize,
    /// Its registered functions, in that order.
    pub functions: Vec<Function>,
}

impl Library {
    /// Loads it into a state.
    ///
    /// # Errors
    /// As Redis says it, without a code.
    pub fn load_into(
        &self,
        interpreter: &mut Interpreter,
        host: &mut dyn Host,
    ) -> Result<Vec<Registered>, Vec<u8>> {
        load(interpreter, &self.code[self.first_line_len..], host)
    }

    fn bytes(&self) -> usize {
        let functions = self.functions.iter();
        let bytes = |function: &Function| {
            size_of::<Function>() + function.name.len() + function.description.as_ref().map_or(0, Vec::len)
        };
        size_of::<Library>() + self.name.len() + self.code.len() + functions.map(bytes).sum::<usize>()
    }
}

fn load(interpreter: &mut Interpreter, lua: &[u8], host: &mut dyn Host) -> Result<Vec<Registered>, Vec<u8>> {
    let compiled =
        interpreter.compile(lua).map_err(|text| [b"Error compiling function: ", text.as_slice()].concat())?;
    interpreter
        .load_library(compiled, host)
        .map_err(|error| [b"Error registering functions: ", error.text.as_slice()].concat())
}

/// The surroundings of a library that is being loaded: time, which may be up, and nothing else.
pub struct LoadHost {
    clock: Clock,
    began: u64,
    max_ms: u64,
}

impl LoadHost {
    /// For a library that a client sends; its time begins now.
    pub fn new(clock: Clock) -> LoadHost {
        LoadHost { began: clock.raw(), clock, max_ms: LOAD_MAX_MS }
    }

    /// For a library that some server has accepted before.
    pub fn of_accepted(clock: Clock) -> LoadHost {
        LoadHost { max_ms: ACCEPTED_LOAD_MAX_MS, ..LoadHost::new(clock) }
    }
}

impl Host for LoadHost {
    fn call(&mut self, _: &Args<'_>, _: &mut Reply) -> Called {
        Called::Abandon
    }

    fn may_call(&mut self, _: &Args<'_>) -> Option<bool> {
        None
    }

    fn interrupt(&mut self) -> Verdict {
        let ms = self.clock.elapsed_ns(self.began, self.clock.raw()) / 1_000_000;
        if ms > self.max_ms { Verdict::Kill("FUNCTION LOAD timeout") } else { Verdict::Continue }
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        log(level, text);
    }

    fn set_propagation(&mut self, _: i64) {}
}

/// See the [module docs](self).
#[derive(Clone, Debug, Default)]
pub struct LibraryList {
    /// The libraries, the oldest first.
    pub libraries: Vec<Arc<Library>>,
    by_name: HashMap<Vec<u8>, Arc<Library>, RandomState>,
    /// By [`folded`] names of functions.
    by_function: HashMap<Vec<u8>, Arc<Library>, RandomState>,
}

/// A function's name as it is looked for: without regard to the case of letters.
#[inline]
pub fn folded(name: &[u8]) -> Cow<'_, [u8]> {
    if name.iter().any(u8::is_ascii_uppercase) { name.to_ascii_lowercase().into() } else { name.into() }
}

impl LibraryList {
    /// The library with the function of this [`folded`] name.
    pub fn find(&self, function: &[u8]) -> Option<&Arc<Library>> {
        self.by_function.get(function)
    }

    /// The flags of the function with this [`folded`] name.
    pub fn flags_of(&self, function: &[u8]) -> Option<ScriptFlags> {
        let mut functions = self.find(function)?.functions.iter();
        functions.find(|known| *folded(&known.name) == *function).map(|known| known.flags)
    }

    /// Number of functions.
    pub fn function_count(&self) -> usize {
        self.libraries.iter().map(|library| library.functions.len()).sum()
    }

    /// Bytes that the libraries take, without the states that run them.
    pub fn bytes(&self) -> usize {
        self.libraries.iter().map(|library| library.bytes()).sum()
    }

    fn remove(&mut self, name: &[u8]) -> bool {
        let Some(removed) = self.by_name.remove(name) else { return false };
        self.libraries.retain(|library| library.name != name);
        for function in &removed.functions {
            self.by_function.remove(&*folded(&function.name));
        }
        true
    }

    /// Adds a library in place of the one of its name.
    ///
    /// # Errors
    /// Another library has one of its functions; nothing has changed.
    fn add(&mut self, library: Arc<Library>) -> Result<(), Vec<u8>> {
        let is_known = |function: &&Function| {
            self.find(&folded(&function.name)).is_some_and(|known| known.name != library.name)
        };
        if let Some(known) = library.functions.iter().find(is_known) {
            return Err(already_exists("Function ", &known.name, ""));
        }
        self.remove(&library.name);
        let entry = |function: &Function| (folded(&function.name).into_owned(), library.clone());
        let names = library.functions.iter().map(entry);
        self.by_function.extend(names);
        self.by_name.insert(library.name.clone(), library.clone());
        self.libraries.push(library);
        Ok(())
    }

    /// Checks a library that is to be added.
    fn check(
        &self,
        presentation: Presentation,
        code: &[u8],
        replaces: bool,
        host: &mut dyn Host,
    ) -> Result<Arc<Library>, Vec<u8>> {
        let (name, first_line_len) = read_first_line(code)?;
        if self.by_name.contains_key(&name) && !replaces {
            return Err(already_exists("Library '", &name, "'"));
        }
        let mut interpreter =
            Interpreter::new(Engine::Functions, script_product(presentation), MEMORY_MAX_BYTES);
        let registered = load(&mut interpreter, &code[first_line_len..], host)?;
        if registered.is_empty() {
            return Err(b"No functions registered".to_vec());
        }
        let function = |Registered { name, description, flags, .. }| Function { name, description, flags };
        let functions = registered.into_iter().map(function).collect();
        Ok(Arc::new(Library { name, code: code.into(), first_line_len, functions }))
    }

    /// Adds the libraries of another list.
    fn join(&mut self, other: LibraryList, replaces: bool) -> Result<(), Vec<u8>> {
        for library in &other.libraries {
            if self.remove(&library.name) && !replaces {
                return Err(already_exists("Library ", &library.name, ""));
            }
        }
        other.libraries.into_iter().try_for_each(|library| self.add(library))
    }
}

fn already_exists(before: &str, name: &[u8], after: &str) -> Vec<u8> {
    [before.as_bytes(), name, after.as_bytes(), b" already exists"].concat()
}

/// The library's name, and the length of the line that has it.
fn read_first_line(code: &[u8]) -> Result<(Vec<u8>, usize), Vec<u8>> {
    let Some(line) = code.strip_prefix(b"#!") else { return Err(b"Missing library metadata".to_vec()) };
    let invalid = || b"Invalid library metadata".to_vec();
    let len = line.iter().position(|&byte| byte == b'\n').ok_or_else(invalid)?;
    let mut words = words::split(&code[..len + 2]).ok_or_else(invalid)?.into_iter();
    let engine = words.next().ok_or_else(invalid)?.split_off(2);
    let mut name = None;
    for word in words {
        let (Some(prefix), Some(value)) = (word.get(..5), word.get(5..)) else {
            return Err([b"Invalid metadata value given: ", word.as_slice()].concat());
        };
        if !prefix.eq_ignore_ascii_case(b"name=") {
            return Err([b"Invalid metadata value given: ", word.as_slice()].concat());
        }
        if name.replace(value.to_vec()).is_some() {
            return Err(b"Invalid metadata value, name argument was given multiple times".to_vec());
        }
    }
    let name = name.ok_or_else(|| b"Library name was not given".to_vec())?;
    if !is_name(&name) {
        return Err(BAD_NAME.as_bytes().to_vec());
    }
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err([b"Engine '", engine.as_slice(), b"' not found"].concat());
    }
    Ok((name, len + 2))
}

/// What RESTORE does with libraries that are there.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Policy {
    Flush,
    Append,
    Replace,
}

/// The list that is published; see the [module docs](self).
pub struct Libraries {
    list: Mutex<Arc<LibraryList>>,
    /// Rises with each change.
    generation: AtomicU64,
    clock: Clock,
    /// As what scripts see the server.
    presentation: Presentation,
}

impl Libraries {
    /// None.
    pub fn new(clock: Clock, presentation: Presentation) -> Libraries {
        Libraries { list: Mutex::default(), generation: AtomicU64::new(0), clock, presentation }
    }

    /// See the field.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The list as it is.
    pub fn list(&self) -> Arc<LibraryList> {
        lock(&self.list).clone()
    }

    /// Deletes all.
    pub fn clear(&self) {
        self.publish(LibraryList::default());
    }

    fn publish(&self, list: LibraryList) {
        *lock(&self.list) = Arc::new(list);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Checks a library and adds it; its name. The list is copied only if some thread has it.
    fn add(&self, code: &[u8], replaces: bool, host: &mut dyn Host) -> Result<Vec<u8>, Vec<u8>> {
        let library = self.list().check(self.presentation, code, replaces, host)?;
        let name = library.name.clone();
        Arc::make_mut(&mut *lock(&self.list)).add(library)?;
        self.generation.fetch_add(1, Ordering::AcqRel);
        Ok(name)
    }

    /// Runs a command that changes the list; the name of the library that LOAD has loaded.
    ///
    /// # Errors
    /// As Redis says it; nothing has changed.
    pub fn change(&self, change: LibraryChange, args: &Args<'_>) -> Result<Option<Vec<u8>>, Error> {
        self.change_by(change, args, LoadHost::new)
    }

    /// [`Libraries::change`] for a command that some server has run before: of a file or of the primary.
    ///
    /// # Errors
    /// As there.
    pub fn change_again(&self, change: LibraryChange, args: &Args<'_>) -> Result<Option<Vec<u8>>, Error> {
        self.change_by(change, args, LoadHost::of_accepted)
    }

    fn change_by(
        &self,
        change: LibraryChange,
        args: &Args<'_>,
        host: fn(Clock) -> LoadHost,
    ) -> Result<Option<Vec<u8>>, Error> {
        let rest = Cursor::new(*args, 2);
        let mut list = LibraryList::default();
        match change {
            LibraryChange::Load => return self.load(rest, host).map(Some),
            LibraryChange::Delete => {
                list.clone_from(&self.list());
                if !list.remove(args.at(2)) {
                    return Err(Error::Fixed("ERR Library not found"));
                }
            }
            LibraryChange::Flush => {
                let mut rest = rest;
                if rest.left() > 0 && (rest.one_of(&[("sync", ()), ("async", ())]).is_none()) {
                    return Err(Error::Fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
                }
            }
            LibraryChange::Restore => {
                list.clone_from(&self.list());
                self.restore(&mut list, rest, host)?;
            }
        }
        self.publish(list);
        Ok(None)
    }

    fn load(&self, mut rest: Cursor<'_>, host: fn(Clock) -> LoadHost) -> Result<Vec<u8>, Error> {
        let mut replaces = false;
        while rest.left() > 1 {
            if !rest.word("REPLACE") {
                let option = rest.peek().unwrap_or_default();
                return Err(Error::Bytes([b"ERR Unknown option given: ", option].concat()));
            }
            replaces = true;
        }
        let code = rest.peek().ok_or(Error::Fixed("ERR Function code is missing"))?;
        self.add(code, replaces, &mut host(self.clock.clone())).map_err(with_code)
    }

    fn restore(
        &self,
        list: &mut LibraryList,
        mut rest: Cursor<'_>,
        host: fn(Clock) -> LoadHost,
    ) -> Result<(), Error> {
        let payload = rest.value()?;
        let policies = [("flush", Policy::Flush), ("append", Policy::Append), ("replace", Policy::Replace)];
        let policy = match rest.left() {
            0 => Policy::Append,
            _ => rest.one_of(&policies).ok_or(Error::Fixed(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ))?,
        };
        let codes = payload::libraries(payload).map_err(|refused| with_code(refused.to_string().into()))?;
        let mut restored = LibraryList::default();
        for code in codes {
            let code = code.map_err(|error| with_code(error.to_string().into()))?;
            let library = restored
                .check(self.presentation, &code, false, &mut host(self.clock.clone()))
                .map_err(with_code)?;
            restored.add(library).map_err(with_code)?;
        }
        if policy == Policy::Flush {
            *list = restored;
            return Ok(());
        }
        list.join(restored, policy == Policy::Replace).map_err(with_code)
    }
}

fn with_code(text: Vec<u8>) -> Error {
    Error::Bytes([b"ERR ", text.as_slice()].concat())
}

impl martlet_persistence::Libraries for Libraries {
    fn clear(&self) {
        Libraries::clear(self);
    }

    fn codes(&self) -> Vec<Arc<[u8]>> {
        self.list().libraries.iter().map(|library| library.code.clone()).collect()
    }

    fn add(&self, code: &[u8], replaces: bool) -> Result<(), String> {
        let added = Libraries::add(self, code, replaces, &mut LoadHost::of_accepted(self.clock.clone()));
        added.map(drop).map_err(|text| String::from_utf8_lossy(&text).into_owned())
    }

    fn prepare(&'static self, codes: &[Arc<[u8]>]) -> Result<Publish, String> {
        let mut list = LibraryList::default();
        for code in codes {
            let mut host = LoadHost::of_accepted(self.clock.clone());
            let added =
                list.check(self.presentation, code, false, &mut host).and_then(|library| list.add(library));
            added.map_err(|text| String::from_utf8_lossy(&text).into_owned())?;
        }
        Ok(Box::new(move || self.publish(list)))
    }

    fn replay(&self, change: LibraryChange, args: &Args<'_>) -> Result<(), String> {
        self.change_again(change, args).map(|_| ()).map_err(|error| error.to_string())
    }
}

/// Logs a line of a script.
pub(super) fn log(level: LogLevel, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    match level {
        LogLevel::Debug => tracing::trace!("{text}"),
        LogLevel::Verbose => tracing::debug!("{text}"),
        LogLevel::Notice => tracing::info!("{text}"),
        LogLevel::Warning => tracing::warn!("{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use martlet_persistence::Libraries as _;
    use martlet_protocol::request::OwnedArgs;

    const ENDLESS: &[u8] = b"#!lua name=endless\nwhile true do end\n";

    /// Whatever brings a library that never ends, it is refused in bounded time, and the list is as it was.
    #[test]
    fn a_library_without_an_end_is_refused_wherever_it_comes_from() {
        let payload = payload::dump_libraries([ENDLESS], false);
        let load = OwnedArgs::from_slices([b"FUNCTION".as_slice(), b"LOAD", ENDLESS]);
        let restore = OwnedArgs::from_slices([b"FUNCTION".as_slice(), b"RESTORE", &payload]);
        type Way<'a> = (&'a str, u64, Box<dyn Fn(&'static Libraries) -> String + Send + Sync + 'a>);
        let bytes = |error: Error| error.to_string();
        let ways: Vec<Way<'_>> = vec![
            (
                "a client's LOAD",
                LOAD_MAX_MS,
                Box::new(|list| list.change(LibraryChange::Load, &load.view()).map_err(bytes).unwrap_err()),
            ),
            (
                "a client's RESTORE",
                LOAD_MAX_MS,
                Box::new(|list| {
                    list.change(LibraryChange::Restore, &restore.view()).map_err(bytes).unwrap_err()
                }),
            ),
            (
                "an RDB file",
                ACCEPTED_LOAD_MAX_MS,
                Box::new(|list| martlet_persistence::Libraries::add(list, ENDLESS, true).unwrap_err()),
            ),
            (
                "LOAD in a file",
                ACCEPTED_LOAD_MAX_MS,
                Box::new(|list| list.replay(LibraryChange::Load, &load.view()).unwrap_err()),
            ),
            (
                "RESTORE in a file",
                ACCEPTED_LOAD_MAX_MS,
                Box::new(|list| list.replay(LibraryChange::Restore, &restore.view()).unwrap_err()),
            ),
            (
                "a primary's LOAD",
                ACCEPTED_LOAD_MAX_MS,
                Box::new(|list| {
                    list.change_again(LibraryChange::Load, &load.view()).map_err(bytes).unwrap_err()
                }),
            ),
            (
                "a full sync",
                ACCEPTED_LOAD_MAX_MS,
                Box::new(|list| list.prepare(&[ENDLESS.into()]).err().unwrap_or_default()),
            ),
        ];
        std::thread::scope(|scope| {
            for (name, max_ms, way) in &ways {
                scope.spawn(move || {
                    // The time is that of the clock by which the library is ended: two clocks may differ.
                    let clock = Clock::real();
                    let list: &'static Libraries =
                        Box::leak(Box::new(Libraries::new(clock.clone(), Presentation::Redis)));
                    let began = clock.raw();
                    let error = way(list);
                    let ms = clock.elapsed_ns(began, clock.raw()) / 1_000_000;
                    assert!(error.contains("FUNCTION LOAD timeout"), "{name}: {error}");
                    assert!(ms >= *max_ms, "{name} was refused after {ms} ms");
                    assert!(list.list().libraries.is_empty(), "{name}");
                });
            }
        });
    }
}
