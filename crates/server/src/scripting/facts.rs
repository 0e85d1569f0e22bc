//! Flags of the script that a command runs, and the error replies while a script is busy.

use martlet_command::{Control, Error, ScriptSource};
use martlet_protocol::request::Args;
use martlet_script::{Engine, ScriptFlags};

use super::cache::parse_digest;
use super::libraries::folded;
use crate::registry::Entry;
use crate::shared::Shared;

const BUSY_EVAL: Error =
    Error::Fixed("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.");

const BUSY_FUNCTION: Error =
    Error::Fixed("BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.");

/// The answer to most commands while something is busy.
pub fn busy(engine: Engine) -> Error {
    if engine == Engine::Eval { BUSY_EVAL } else { BUSY_FUNCTION }
}

/// Whether a command runs a script or function that says it writes nothing.
pub fn promises_no_writes<W>(shared: &Shared<W>, entry: &Entry, args: &Args<'_>) -> bool {
    flags_of(shared, entry, args).is_some_and(|flags| flags.has(ScriptFlags::NO_WRITES))
}

/// The flags of the script or function that a command runs, if known.
pub fn flags_of<W>(shared: &Shared<W>, entry: &Entry, args: &Args<'_>) -> Option<ScriptFlags> {
    let Control::RunScript(source) = entry.spec.control else { return None };
    let named = args.at(1);
    match source {
        ScriptSource::Text => martlet_script::flags::parse_eval(named).ok().map(|(flags, _)| flags),
        ScriptSource::Digest => {
            parse_digest(named).and_then(|digest| shared.scripts.find(&digest)).map(|script| script.flags)
        }
        ScriptSource::Function => shared.libraries.list().flags_of(&folded(named)),
    }
}
