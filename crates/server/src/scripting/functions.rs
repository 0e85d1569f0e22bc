//! Functions as one thread runs them.
//!
//! Invariant: a thread's loaded libraries are those of the list of its generation.

use std::hash::RandomState;
use std::sync::Arc;

use hashbrown::HashMap;
use martlet_command::{Error, Outcome};
use martlet_script::{Compiled, Engine, Inputs, Interpreter, ScriptFlags};

use super::libraries::{Library, LibraryList, LoadHost, folded};
use super::{MEMORY_MAX_BYTES, SCRIPT_VERSION, ScriptRun, check_before, reply_to};
use crate::commands::Call;
use crate::worker::Worker;

const NOT_FOUND: Error = Error::Fixed("ERR Function not found");

/// A function that a thread has loaded.
struct Local {
    origin: Arc<Library>,
    flags: ScriptFlags,
    name: String,
    compiled: Compiled,
}

/// One thread's state for functions.
pub(crate) struct Functions {
    interpreter: Interpreter,
    /// That of the list.
    generation: u64,
    list: Arc<LibraryList>,
    /// By [`folded`] names.
    local: HashMap<Vec<u8>, Local, RandomState>,
}

impl Functions {
    fn new(generation: u64, list: Arc<LibraryList>) -> Functions {
        let interpreter = Interpreter::new(Engine::Functions, SCRIPT_VERSION, MEMORY_MAX_BYTES);
        Functions { interpreter, generation, list, local: HashMap::default() }
    }

    /// Switches to another list: libraries that are no longer in it are dropped.
    fn take_up(&mut self, generation: u64, list: Arc<LibraryList>) {
        let is_current =
            |library: &Arc<Library>| list.libraries.iter().any(|known| Arc::ptr_eq(known, library));
        for (_, stale) in self.local.extract_if(|_, local| !is_current(&local.origin)) {
            self.interpreter.forget(stale.compiled);
        }
        (self.generation, self.list) = (generation, list);
    }

    /// Makes sure that this thread has loaded the function of a [`folded`] name.
    fn find(&mut self, name: &[u8], clock: &martlet_base::clock::Clock) -> Outcome {
        if self.local.contains_key(name) {
            return Ok(());
        }
        let library = self.list.find(name).ok_or(NOT_FOUND)?.clone();
        let mut host = LoadHost::of_accepted(clock.clone());
        let registered = library.load_into(&mut self.interpreter, &mut host);
        let registered = registered.map_err(|text| Error::Bytes([b"ERR ", text.as_slice()].concat()))?;
        for function in registered {
            let name = String::from_utf8_lossy(&function.name).into_owned();
            let (flags, compiled) = (function.flags, function.function);
            let local = Local { origin: library.clone(), flags, name, compiled };
            if let Some(before) = self.local.insert(folded(&function.name).into_owned(), local) {
                self.interpreter.forget(before.compiled);
            }
        }
        Ok(())
    }
}

impl Worker {
    /// The thread's state for functions, as of the last change of the libraries.
    fn take_functions(&mut self) -> Box<Functions> {
        let libraries = &self.shared.libraries;
        let generation = libraries.generation();
        match self.functions.take() {
            Some(functions) if functions.generation == generation => functions,
            Some(mut functions) => {
                functions.take_up(generation, libraries.list());
                functions
            }
            None => Box::new(Functions::new(generation, libraries.list())),
        }
    }
}

/// Runs a function that FCALL calls. Its declared keys are locked.
pub(crate) fn fcall(call: &mut Call<'_>, is_read_only: bool) -> Outcome {
    call.worker.show_to_monitors(call.connection, call.entry, &call.args);
    let began = call.worker.mark;
    let mut functions = call.worker.take_functions();
    let outcome = run_found(call, &mut functions, is_read_only);
    let bytes = functions.interpreter.used_bytes();
    call.worker.shared.scripts.running(call.worker.thread).end(Engine::Functions, bytes);
    call.worker.functions = Some(functions);
    // It takes as long as all that it runs.
    call.worker.mark = began;
    outcome
}

fn run_found(call: &mut Call<'_>, functions: &mut Functions, is_read_only: bool) -> Outcome {
    let name = folded(call.arg(1));
    functions.find(&name, &call.worker.shared.clock)?;
    let numkeys = call.int(2).map_err(|_| Error::Fixed("ERR Bad number of keys provided"))?;
    if numkeys > call.argc() as i64 - 3 {
        return Err(Error::Fixed("ERR Number of keys can't be greater than number of args"));
    }
    let Ok(numkeys) = usize::try_from(numkeys) else {
        return Err(Error::Fixed("ERR Number of keys can't be negative"));
    };
    let Functions { interpreter, local, .. } = functions;
    let Some(Local { flags, name, compiled, .. }) = local.get(&*name) else { return Err(NOT_FOUND) };
    check_before(call, *flags, is_read_only)?;
    let words: Vec<&[u8]> = call.args.iter().skip(3).collect();
    let (keys, args) = words.split_at(numkeys);
    let mut run = ScriptRun {
        engine: Engine::Functions,
        interpreter,
        compiled,
        inputs: Inputs { name, keys, args },
        request: call.args,
        flags: *flags,
        is_read_only: is_read_only || flags.has(ScriptFlags::NO_WRITES),
    };
    let outcome = run.until_done(call)?;
    reply_to(call, outcome)
}
