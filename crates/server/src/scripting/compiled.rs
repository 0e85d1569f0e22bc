//! One thread's state for scripts: its interpreter, and the compiled scripts.

use std::sync::Arc;

use hashbrown::HashMap;
use martlet_command::{Error, Presentation};
use martlet_script::{Compiled, Engine, Interpreter, Product, Version};
use martlet_spec::presentation::{VALKEY_VERSION, VALKEY_VERSION_NUMBER};

use super::cache::{Digest, Script};

/// The server as scripts see it.
pub(super) fn script_product(presentation: Presentation) -> Product {
    let valkey = Version { text: VALKEY_VERSION, number: VALKEY_VERSION_NUMBER };
    Product {
        redis: Version { text: presentation.redis_version(), number: presentation.redis_version_number() },
        valkey: presentation.is_valkey().then_some(valkey),
    }
}

/// Memory that the scripts of one thread can have together.
pub(super) const MEMORY_MAX_BYTES: usize = 1 << 30;

/// A thread looks for scripts of its own that have left the cache when it has this many more than the cache.
pub(super) const STALE_SCRIPTS_MAX: usize = 256;

/// A script that a thread has compiled.
pub(super) struct Local {
    pub(super) script: Arc<Script>,
    pub(super) compiled: Compiled,
}

/// One thread's state for scripts.
pub struct Scripting {
    pub(super) interpreter: Interpreter,
    /// That of the cache when the state was made.
    pub(super) generation: u64,
    pub(super) local: HashMap<Digest, Local>,
    /// The digest that was named last, and its bytes.
    pub(super) last: ([u8; 40], Digest),
}

impl Scripting {
    pub(super) fn new(generation: u64, presentation: Presentation) -> Scripting {
        Scripting {
            interpreter: Interpreter::new(Engine::Eval, script_product(presentation), MEMORY_MAX_BYTES),
            generation,
            local: HashMap::new(),
            // The next request with this digest gets the same answer: there is no such script.
            last: ([0; 40], Digest::default()),
        }
    }

    /// Compiles a script, unless this thread has it.
    pub(super) fn compile(
        &mut self,
        digest: Digest,
        script: Arc<Script>,
        cached: usize,
    ) -> Result<(), Error> {
        if self.local.len() > cached + STALE_SCRIPTS_MAX {
            for (_, stale) in self.local.extract_if(|_, local| local.script.is_gone()) {
                self.interpreter.forget(stale.compiled);
            }
        }
        let compiled = self.interpreter.compile(script.lua()).map_err(|text| {
            Error::Bytes([b"ERR Error compiling script (new function): ", text.as_slice()].concat())
        })?;
        if let Some(before) = self.local.insert(digest, Local { script, compiled }) {
            self.interpreter.forget(before.compiled);
        }
        Ok(())
    }

    /// Whether this thread has compiled a script that is still in the cache.
    #[inline]
    pub(super) fn has(&self, digest: &Digest) -> bool {
        self.local.get(digest).is_some_and(|local| !local.script.is_gone())
    }
}
