//! A thread's interpreters for scripts and functions, and the messages of the script that runs.

use crate::pubsub::hub::HeldMessage;
use crate::scripting::compiled::Scripting;
use crate::scripting::loaded::Functions;

/// See the [module docs](self).
#[derive(Default)]
pub(crate) struct ScriptRuntime {
    /// State for scripts, once one has run; taken out while one does.
    scripting: Option<Box<Scripting>>,
    /// The same for functions.
    functions: Option<Box<Functions>>,
    /// Messages of the script that runs.
    held: Option<Vec<HeldMessage>>,
}

impl ScriptRuntime {
    /// Takes out the state for scripts.
    pub fn take_scripting(&mut self) -> Option<Box<Scripting>> {
        self.scripting.take()
    }

    /// Puts it back, or drops it.
    pub fn set_scripting(&mut self, scripting: Option<Box<Scripting>>) {
        self.scripting = scripting;
    }

    /// Takes out the state for functions.
    pub fn take_functions(&mut self) -> Option<Box<Functions>> {
        self.functions.take()
    }

    /// Puts it back.
    pub fn put_functions(&mut self, functions: Box<Functions>) {
        self.functions = Some(functions);
    }

    /// The messages that the running script has published, if one runs.
    pub fn held(&mut self) -> Option<&mut Vec<HeldMessage>> {
        self.held.as_mut()
    }

    /// Holds messages from now on (`Some`), or not; returns those held before.
    pub fn hold(&mut self, messages: Option<Vec<HeldMessage>>) -> Option<Vec<HeldMessage>> {
        std::mem::replace(&mut self.held, messages)
    }
}
