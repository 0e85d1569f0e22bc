//! The door through which Lua calls functions written in Rust, and leaves them.
//!
//! Invariant: neither an error of Lua's nor a panic of Rust's passes a frame of the other. A function returns
//! its error, which is raised once nothing is left to drop; a panic waits until Lua's frames are gone.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use martlet_lua as lua;
use martlet_lua::lua_State;

use crate::context::Context;
use crate::memory::Memory;
use crate::stack::{Raise, Results, Stack};

/// A function that Lua can call.
pub type Function = fn(&mut Stack<'_>) -> Results;

/// Turns a [`Function`] into one that Lua can be given.
macro_rules! entry {
    ($function:path) => {{
        unsafe extern "C-unwind" fn entry(state: *mut martlet_lua::lua_State) -> std::ffi::c_int {
            // SAFETY: Lua calls it with a state of an `Interpreter`.
            unsafe { $crate::door::enter(state, $function) }
        }
        entry as martlet_lua::lua_CFunction
    }};
}
pub(crate) use entry;

/// Runs a function for Lua.
///
/// A panic must not unwind through Lua's frames: it is kept, raised as an error that no script can catch, and
/// resumed where the script was called from.
///
/// # Safety
/// `state` is one of an `Interpreter`, or a coroutine of it, in a call from Lua.
pub unsafe fn enter(state: *mut lua_State, function: Function) -> c_int {
    // SAFETY: the states of interpreters have their memory; see `Memory::of`.
    let memory = unsafe { Memory::of(state) };
    let was_bounded = memory.set_bounded(false);
    // SAFETY: the state is in a call.
    let run = AssertUnwindSafe(|| function(&mut unsafe { Stack::of(state) }));
    let outcome = catch_unwind(run).unwrap_or_else(|panic| {
        // SAFETY: the state is in a call.
        Err(Context::of(&unsafe { Stack::of(state) }).keep_panic(panic))
    });
    let raised = match outcome {
        Ok(count) => {
            memory.set_bounded(was_bounded);
            return count;
        }
        // SAFETY: the state is in a call.
        Err(raise) => prepare(&mut unsafe { Stack::of(state) }, raise),
    };
    memory.set_bounded(was_bounded);
    // SAFETY: the error is on the stack, and nothing is left to drop in this frame.
    unsafe {
        match raised {
            Raised::Top => {}
            Raised::Argument(number) => {
                lua::luaL_argerror(state, number, lua::lua_tolstring(state, -1, std::ptr::null_mut()));
            }
            Raised::Memory => lua::lua_raisememory(state),
        }
        lua::lua_error(state)
    }
}

/// What [`prepare`] has left to be raised.
enum Raised {
    /// The value on top.
    Top,
    /// The error of the argument of this number, with the text on top.
    Argument(c_int),
    /// The error of an allocation that failed.
    Memory,
}

/// Leaves nothing on the stack but the error. All else is removed first: a function may have filled the stack
/// to its end, and Lua pushes the error's place without asking for room.
fn prepare(stack: &mut Stack<'_>, raise: Raise) -> Raised {
    if let Raise::Top = raise {
        stack.insert(1);
        stack.set_top(1);
    } else {
        stack.set_top(0);
    }
    match raise {
        Raise::Top => Raised::Top,
        Raise::Memory => Raised::Memory,
        Raise::Error(text) => {
            stack.push_place(1);
            stack.push_bytes(&text);
            stack.concat(2);
            Raised::Top
        }
        Raise::Argument(number, text) => {
            stack.push_bytes(&text);
            Raised::Argument(number)
        }
    }
}
