//! Functions as one thread runs them.

use martlet_command::{Error, Outcome};
use martlet_script::{Engine, Inputs, ScriptFlags};

use super::libraries::folded;
use super::loaded::{Functions, Local, NOT_FOUND};
use super::{ScriptRun, check_before, reply_to};
use crate::runtime::Worker;
use crate::runtime::call::Call;

impl Worker {
    /// The thread's state for functions, as of the last change of the libraries.
    fn take_functions(&mut self) -> Box<Functions> {
        let libraries = &self.shared.libraries;
        let generation = libraries.generation();
        match self.scripts.take_functions() {
            Some(functions) if functions.generation == generation => functions,
            Some(mut functions) => {
                functions.take_up(generation, libraries.list());
                functions
            }
            None => Box::new(Functions::new(generation, libraries.list(), self.presentation())),
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
    call.worker.scripts.put_functions(functions);
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
