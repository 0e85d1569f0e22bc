//! Scripts that run without a Lua state: their link to the server and to Lua, and how Lua continues one that
//! the machine has left.
//!
//! Invariant: a script has one outcome. When Lua runs it from its beginning after the machine has left it,
//! its calls get the answers that the machine's calls got, and its lines of the log are not repeated.

use std::ffi::{c_int, c_void};

use martlet_bytecode::{LuaFunction, Machine, Program, Scalar, Server, Unsupported};
use martlet_lua as lua;
use martlet_lua::lua_State;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;

use crate::api;
use crate::context::Context;
use crate::host::{Called, DebugInput, Host, LogLevel, Verdict};
use crate::stack::{Kind, Stack};

/// How a script has been run.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum RunPath {
    /// By Lua alone.
    #[default]
    Lua,
    /// Without Lua.
    Native,
    /// It began without Lua, and Lua had to run it.
    Left,
}

/// The chunk of the function on top.
fn dump(stack: &mut Stack<'_>) -> Vec<u8> {
    unsafe extern "C-unwind" fn append(
        _: *mut lua_State,
        bytes: *const c_void,
        len: usize,
        out: *mut c_void,
    ) -> c_int {
        // SAFETY: Lua passes on the vector, and as many bytes as it says.
        let (out, bytes) =
            unsafe { (&mut *out.cast::<Vec<u8>>(), std::slice::from_raw_parts(bytes.cast::<u8>(), len)) };
        out.extend_from_slice(bytes);
        0
    }
    let mut chunk: Vec<u8> = Vec::new();
    // SAFETY: a function is on top, and the vector outlives the call.
    unsafe { lua::lua_dump_(stack.state(), append, (&raw mut chunk).cast()) };
    chunk
}

/// Translates the function on top.
///
/// # Errors
/// The part that the subset lacks.
pub(crate) fn translate(stack: &mut Stack<'_>) -> Result<Program, Unsupported> {
    let chunk = dump(stack);
    martlet_bytecode::translate(&chunk)
}

/// The server, and Lua's state, as a program that runs sees them.
pub(crate) struct NativeServer<'h> {
    pub host: &'h mut dyn Host,
    pub state: *mut lua_State,
    /// Where the real globals are on the state's stack.
    pub globals: c_int,
}

impl Server for NativeServer<'_> {
    fn call(&mut self, args: &Args<'_>, reply: &mut Reply) -> Called {
        self.host.call(args, reply)
    }

    fn may_continue(&mut self) -> bool {
        self.host.interrupt() == Verdict::Continue
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        self.host.log(level, text);
    }

    /// A function that has to end makes the run leave: Lua then asks again whether the script may continue.
    fn lua_function(&mut self, function: LuaFunction, args: &[Scalar]) -> Option<Vec<Scalar>> {
        // SAFETY: the state is alive, and no script runs in it.
        let mut stack = unsafe { Stack::of(self.state) };
        let before = stack.top();
        let results = self.call_function(&mut stack, function, args);
        stack.set_top(before);
        let context = Context::of(&stack);
        if context.ended.take().is_some() {
            api::set_hook(&stack);
        }
        if let Some(panic) = context.take_panic() {
            std::panic::resume_unwind(panic);
        }
        results
    }
}

impl NativeServer<'_> {
    fn call_function(
        &mut self,
        stack: &mut Stack<'_>,
        function: LuaFunction,
        args: &[Scalar],
    ) -> Option<Vec<Scalar>> {
        let below = stack.top();
        let text_bytes = |arg: &Scalar| if let Scalar::Text(text) = arg { text.len() } else { 0 };
        let bytes: usize = args.iter().map(text_bytes).sum();
        if !stack.memory().has_room(4 * bytes) {
            return None;
        }
        // The library is behind a table that scripts see.
        stack.get_field(self.globals, function.table);
        stack.get_metatable(-1);
        stack.get_field(-1, "__index");
        stack.get_field(-1, function.name);
        for arg in args {
            match arg {
                Scalar::Nil => stack.push_nil(),
                Scalar::Boolean(value) => stack.push_bool(*value),
                Scalar::Number(number) => stack.push_number(*number),
                Scalar::Text(text) => stack.push_bytes(text),
            }
        }
        let (state, arguments) = (stack.state(), args.len() as c_int);
        // SAFETY: a function and its arguments are on top; errors end here.
        let call = || unsafe { lua::lua_pcall(state, arguments, lua::LUA_MULTRET, 0) };
        if Context::of(stack).with_lent_host(&mut *self.host, call) != lua::LUA_OK {
            return None;
        }
        let first = below + 4;
        (first..=stack.top()).map(|index| scalar(stack, index)).collect()
    }
}

fn scalar(stack: &Stack<'_>, index: c_int) -> Option<Scalar> {
    Some(match stack.kind(index) {
        Kind::Nil => Scalar::Nil,
        Kind::Boolean => Scalar::Boolean(stack.truth(index)),
        Kind::Number => Scalar::Number(stack.number(index)),
        Kind::String => Scalar::Text(stack.bytes(index)?.to_vec()),
        _ => return None,
    })
}

/// The host of a script that a machine has begun and Lua runs from its beginning.
pub(crate) struct Repeated<'h> {
    pub host: &'h mut dyn Host,
    pub machine: &'h Machine,
    /// Calls and lines so far.
    pub calls: usize,
    pub lines: usize,
}

impl Host for Repeated<'_> {
    fn call(&mut self, args: &Args<'_>, reply: &mut Reply) -> Called {
        let Some(answer) = self.machine.answer(self.calls) else { return self.host.call(args, reply) };
        self.calls += 1;
        let bytes = args.iter().map(<[u8]>::len).sum::<usize>();
        debug_assert_eq!((args.len(), bytes), (answer.arguments, answer.argument_bytes));
        reply.raw().extend_from_slice(answer.reply);
        if answer.is_full {
            reply.raw().push(0);
            reply.set_limit(1);
        }
        answer.called
    }

    fn may_call(&mut self, args: &Args<'_>) -> Option<bool> {
        self.host.may_call(args)
    }

    fn interrupt(&mut self) -> Verdict {
        self.host.interrupt()
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        self.lines += 1;
        if self.lines > self.machine.logged() {
            self.host.log(level, text);
        }
    }

    fn set_propagation(&mut self, targets: i64) {
        self.host.set_propagation(targets);
    }

    fn debug_send(&mut self, lines: &[Vec<u8>]) {
        self.host.debug_send(lines);
    }

    fn debug_receive(&mut self) -> DebugInput {
        self.host.debug_receive()
    }

    fn is_debug_overdue(&mut self) -> bool {
        self.host.is_debug_overdue()
    }
}
