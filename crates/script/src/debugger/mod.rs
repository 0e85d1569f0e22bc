//! The debugger of EVAL's scripts, as Redis' `SCRIPT DEBUG` has it: where a script stops, and what its client
//! asks there. Its words, commands and limits are those of Redis 7.0's.
//!
//! Invariant: a script that is debugged runs with [`line_hook`] in place of the hook of others. The state of
//! the debugger is borrowed for moments only, as what the client has evaluated may call `redis.debug`.

mod commands;
pub mod shown;
pub mod state;
mod text;

use std::ffi::{CStr, c_int};

use martlet_lua as lua;
use martlet_lua::{lua_Debug, lua_State};

use crate::api;
use crate::context::Context;
use crate::convert::push_error;
use crate::host::DebugInput;
use crate::stack::{Raise, Results, Stack};
use commands::Next;
use shown::with;

/// Sends the lines that wait.
fn send(stack: &Stack<'_>) {
    let lines = with(stack, |debugger| {
        debugger.lines_bytes = 0;
        std::mem::take(&mut debugger.lines)
    });
    if let Some(lines) = lines {
        Context::of(stack).with_host(|host| host.debug_send(&lines));
    }
}

/// Has a state call the debugger at each line.
pub fn set_hook(state: *mut lua_State) {
    let events = lua::LUA_MASKLINE | lua::LUA_MASKCOUNT;
    // SAFETY: the state is one of an interpreter.
    unsafe { lua::lua_sethook(state, Some(line_hook), events, api::INTERRUPT_INSTRUCTIONS) };
}

/// What Lua calls at each line of a script that is debugged, and from time to time.
///
/// # Safety
/// `state` is one of an `Interpreter`, or a coroutine of it.
unsafe extern "C-unwind" fn line_hook(state: *mut lua_State, record: *mut lua_Debug) {
    // SAFETY: Lua calls it within a function of this state, with a record of the event. `enter` returns only
    // without an error.
    unsafe {
        let is_count = (*record).event == lua::LUA_HOOKCOUNT;
        crate::door::enter(state, if is_count { at_count } else { at_line });
    }
}

fn at_line(stack: &mut Stack<'_>) -> Results {
    api::raise_if_ended(stack)?;
    stop_if_due(stack, false)
}

fn at_count(stack: &mut Stack<'_>) -> Results {
    api::check(stack)?;
    let has_reason = with(stack, |debugger| debugger.reason(false).is_some()).unwrap_or_default();
    let is_overdue =
        !has_reason && Context::of(stack).with_host(|host| host.is_debug_overdue()).unwrap_or_default();
    if has_reason || is_overdue { stop_if_due(stack, is_overdue) } else { Ok(0) }
}

/// Where the function at a level of calls is; `None` beyond the last.
struct Level {
    record: lua_Debug,
}

impl Level {
    fn of(stack: &Stack<'_>, level: c_int) -> Option<Level> {
        // SAFETY: zeroes are valid, and Lua fills it in.
        let mut record: lua_Debug = unsafe { std::mem::zeroed() };
        // SAFETY: the record is of the state's stack as it is.
        let is_there = unsafe {
            lua::lua_getstack(stack.state(), level, &mut record) != 0
                && lua::lua_getinfo(stack.state(), c"Snl".as_ptr(), &mut record) != 0
        };
        is_there.then_some(Level { record })
    }

    /// Whether it is code of the script, rather than text that the script has loaded.
    fn is_of_script(&self) -> bool {
        // SAFETY: the array is filled in, and ends with a zero.
        let name = unsafe { CStr::from_ptr(self.record.short_src.as_ptr()) };
        name.to_bytes().windows(11).any(|part| part == b"user_script")
    }

    fn line(&self) -> i64 {
        i64::from(self.record.currentline)
    }

    /// How it was called, if Lua knows.
    fn name(&self) -> Option<Vec<u8>> {
        // SAFETY: it is absent or a string of Lua's, which lives as long as the function.
        let name = unsafe { self.record.name.as_ref().map(|name| CStr::from_ptr(name)) };
        name.map(|name| name.to_bytes().to_vec())
    }
}

/// Stops the script if it is to, until its client lets it go on.
fn stop_if_due(stack: &mut Stack<'_>, is_overdue: bool) -> Results {
    let Some(level) = Level::of(stack, 0) else { return Ok(0) };
    let reason = with(stack, |debugger| {
        debugger.line = level.line();
        debugger.reason(is_overdue).filter(|_| level.is_of_script())
    });
    let Some(Some(reason)) = reason else { return Ok(0) };
    with(stack, |debugger| {
        (debugger.steps, debugger.breaks) = (false, false);
        debugger.say(format!("* Stopped at {}, stop reason = {reason}", debugger.line));
        debugger.say_source(debugger.line);
    });
    send(stack);
    loop {
        match Context::of(stack).with_host(|host| host.debug_receive()).unwrap_or(DebugInput::Gone) {
            DebugInput::Command(words) => match commands::run(stack, &words)? {
                Next::Resume => return Ok(0),
                Next::Abort => return fail(stack, "script aborted for user request"),
                Next::Stay => send(stack),
            },
            DebugInput::Unreadable(why) => return fail(stack, why),
            DebugInput::Gone => {
                // The script goes on without a client; one that would go on for ever ends.
                with(stack, |debugger| {
                    debugger.steps = false;
                    debugger.breakpoints.clear();
                });
                api::check(stack)?;
                if is_overdue {
                    return fail(stack, "timeout during Lua debugging with client closing connection");
                }
                return Ok(0);
            }
        }
    }
}

/// Ends the script with an error of the debugger.
fn fail(stack: &mut Stack<'_>, why: &str) -> Results {
    push_error(stack, format!("ERR {why}").as_bytes(), false);
    Err(Raise::Top)
}

#[cfg(test)]
mod tests;
