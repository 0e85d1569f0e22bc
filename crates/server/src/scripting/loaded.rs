//! One thread's state for functions: its interpreter, and the loaded libraries.
//!
//! Invariant: a thread's loaded libraries are those of the list of its generation.

use std::hash::RandomState;
use std::sync::Arc;

use hashbrown::HashMap;
use martlet_command::{Error, Outcome, Presentation};
use martlet_script::{Compiled, Engine, Interpreter, ScriptFlags};

use super::compiled::{MEMORY_MAX_BYTES, script_product};
use super::libraries::{Library, LibraryList, LoadHost, folded};

pub(super) const NOT_FOUND: Error = Error::Fixed("ERR Function not found");

/// A function that a thread has loaded.
pub(super) struct Local {
    pub(super) origin: Arc<Library>,
    pub(super) flags: ScriptFlags,
    pub(super) name: String,
    pub(super) compiled: Compiled,
}

/// One thread's state for functions.
pub struct Functions {
    pub(super) interpreter: Interpreter,
    /// That of the list.
    pub(super) generation: u64,
    pub(super) list: Arc<LibraryList>,
    /// By [`folded`] names.
    pub(super) local: HashMap<Vec<u8>, Local, RandomState>,
}

impl Functions {
    pub(super) fn new(generation: u64, list: Arc<LibraryList>, presentation: Presentation) -> Functions {
        let product = script_product(presentation);
        let interpreter = Interpreter::new(Engine::Functions, product, MEMORY_MAX_BYTES);
        Functions { interpreter, generation, list, local: HashMap::default() }
    }

    /// Switches to another list: libraries that are no longer in it are dropped.
    pub(super) fn take_up(&mut self, generation: u64, list: Arc<LibraryList>) {
        let is_current =
            |library: &Arc<Library>| list.libraries.iter().any(|known| Arc::ptr_eq(known, library));
        for (_, stale) in self.local.extract_if(|_, local| !is_current(&local.origin)) {
            self.interpreter.forget(stale.compiled);
        }
        (self.generation, self.list) = (generation, list);
    }

    /// Makes sure that this thread has loaded the function of a [`folded`] name.
    pub(super) fn find(&mut self, name: &[u8], clock: &martlet_base::clock::Clock) -> Outcome {
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
