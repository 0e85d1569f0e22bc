//! One Lua state that compiles and runs scripts.
//!
//! Invariant: between two scripts the state's stack holds the same four values: the real globals, the handler
//! of errors, and of EVAL's scripts the names `KEYS` and `ARGV`, of libraries the globals while one is loaded
//! and those that it sees.

use std::ffi::c_int;

use martlet_bytecode::{Failure, Machine, Outcome, Program, Unsupported};
use martlet_lua as lua;
use martlet_lua::lua_State;
use martlet_protocol::reply::Reply;

use crate::api::{self, Product};
use crate::context::{Compiled, Context, Ended, Registered};
use crate::convert::write_returned;
use crate::debugger;
use crate::debugger::state::{Debugger, last_lines};
use crate::door::entry;
use crate::host::Host;
use crate::json::JsonSettings;
use crate::library;
use crate::memory::allocate;
use crate::native::{NativeServer, Repeated, RunPath};
use crate::stack::{Kind, Raise, Results, Stack};
use crate::translation::Translation;
use crate::{bits, cjson, cmsgpack, native, sandbox, structs};

const GLOBALS: c_int = 1;
const HANDLER: c_int = 2;
const KEYS: c_int = 3;
const ARGV: c_int = 4;
const LOADING_GLOBALS: c_int = 3;
const SEEN_GLOBALS: c_int = 4;
/// Values on the stack while no script runs.
const FIXED: c_int = 4;

/// A state of less garbage and all else, in bytes, is small.
const SMALL_BYTES: usize = 1 << 20;
/// The size of a state at which the next collection begins, in percent of the last one's remainder: a small
/// one, and others (Lua's own default).
const PAUSE_SMALL_PERCENT: c_int = 400;
const PAUSE_PERCENT: c_int = 200;

/// Pushes a library's table.
type Library = fn(&mut Stack<'_>);

/// Libraries beside Lua's own.
const LIBRARIES: &[(&str, Library)] =
    &[("cjson", cjson::push), ("cmsgpack", cmsgpack::push), ("struct", structs::push), ("bit", bits::push)];

/// The use of a state.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Engine {
    /// EVAL's scripts.
    Eval,
    /// Libraries of functions.
    Functions,
}

/// An error with which a script has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The reply, its code included.
    pub text: Vec<u8>,
    /// A command has answered it: it has been counted.
    pub is_counted: bool,
}

/// How a script has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// Its reply has been written.
    Replied,
    /// With an error.
    Failed(ScriptError),
    /// Its host could not continue.
    Abandoned,
}

/// The inputs of a script.
#[derive(Copy, Clone, Debug)]
pub struct Inputs<'a, 'k> {
    /// The name that errors tell: its digest.
    pub name: &'a str,
    /// `KEYS`
    pub keys: &'a [&'k [u8]],
    /// `ARGV`
    pub args: &'a [&'k [u8]],
}

/// See the [module docs](self).
pub struct Interpreter {
    state: *mut lua_State,
    context: *mut Context,
    engine: Engine,
    /// Whether it has less than [`SMALL_BYTES`].
    is_small: bool,
    /// Runs scripts without Lua.
    machine: Machine,
    /// Whether it may.
    allows_native: bool,
    run_path: RunPath,
}

// SAFETY: a state and its context belong to no thread; only the owner of the interpreter reaches them.
unsafe impl Send for Interpreter {}

impl Drop for Interpreter {
    fn drop(&mut self) {
        // SAFETY: no script runs, and no other code has the state or the context any more.
        unsafe {
            (*self.context).memory.set_bounded(false);
            lua::lua_close(self.state);
            drop(Box::from_raw(self.context));
        }
    }
}

impl Interpreter {
    /// A state whose scripts can have so much memory together.
    pub fn new(engine: Engine, product: impl Into<Product>, memory_max_bytes: usize) -> Interpreter {
        let product = product.into();
        let context = Box::into_raw(Box::new(Context::new(memory_max_bytes)));
        // SAFETY: the context begins with the memory that `allocate` wants.
        let state = unsafe { lua::lua_newstate(allocate, context.cast()) };
        assert!(!state.is_null(), "memory is unbounded");
        let mut interpreter = Interpreter {
            state,
            context,
            engine,
            is_small: false,
            machine: Machine::default(),
            allows_native: true,
            run_path: RunPath::Lua,
        };
        interpreter.set_hook();
        let mut stack = interpreter.stack();
        Context::of(&stack).is_valkey.set(product.valkey.is_some());
        stack.room_for_fixed();
        sandbox::open_libraries(&mut stack, GLOBALS);
        for (name, push) in LIBRARIES {
            push(&mut stack);
            stack.set_field(GLOBALS, name);
        }
        api::push(&mut stack, product);
        if engine == Engine::Eval {
            api::add_debugging(&mut stack);
        }
        // Valkey's name for it.
        stack.push_copy(-1);
        stack.set_field(GLOBALS, "server");
        stack.set_field(GLOBALS, "redis");
        stack.push_function(entry!(place_error));
        match engine {
            Engine::Eval => {
                stack.push_copy(-1);
                stack.set_field(GLOBALS, "__redis__err__handler");
                stack.push_bytes(b"KEYS");
                stack.push_bytes(b"ARGV");
                sandbox::protect_globals(&mut stack, GLOBALS);
            }
            Engine::Functions => {
                library::push_globals(&mut stack, product);
                sandbox::protect_globals(&mut stack, GLOBALS);
                stack.push_copy(SEEN_GLOBALS);
            }
        }
        // SAFETY: a table is on top; from here on compiled code looks for its globals there.
        unsafe { lua::lua_replace(state, lua::LUA_GLOBALSINDEX) };
        debug_assert_eq!(stack.top(), FIXED);
        interpreter
    }

    /// Bytes that the state uses.
    pub fn used_bytes(&self) -> usize {
        self.context().memory.used_bytes() + self.machine.used_bytes()
    }

    /// Says whether scripts may run without Lua, where they can.
    pub fn allow_native(&mut self, allows: bool) {
        self.allows_native = allows;
    }

    /// How the last script has been run.
    pub fn run_path(&self) -> RunPath {
        self.run_path
    }

    /// Why a script cannot run without Lua, if so.
    pub fn unsupported(&mut self, script: &Compiled) -> Option<Unsupported> {
        self.translate(script).err()
    }

    fn translate(&mut self, script: &Compiled) -> Result<Program, Unsupported> {
        let mut stack = self.stack();
        push_function(&mut stack, script);
        let program = native::translate(&mut stack);
        stack.set_top(FIXED);
        program
    }

    fn context(&self) -> &Context {
        // SAFETY: it lives as long as the interpreter, and all that is in it can be changed while shared.
        unsafe { &*self.context }
    }

    fn stack(&mut self) -> Stack<'_> {
        // SAFETY: no script runs, so that memory is unbounded and no other code works on the state.
        unsafe { Stack::of(self.state) }
    }

    fn set_hook(&mut self) {
        api::set_hook(&self.stack());
    }

    /// Compiles a script.
    ///
    /// # Errors
    /// What Lua says is wrong with it.
    pub fn compile(&mut self, source: &[u8]) -> Result<Compiled, Vec<u8>> {
        let name = match self.engine {
            Engine::Eval => c"@user_script",
            Engine::Functions => c"@user_function",
        };
        let bytes = source.as_ptr().cast();
        self.context().memory.set_bounded(true);
        // SAFETY: the name ends with a zero, and loading catches its errors.
        let status = unsafe { lua::luaL_loadbuffer(self.state, bytes, source.len(), name.as_ptr()) };
        self.context().memory.set_bounded(false);
        let mut stack = self.stack();
        if status != lua::LUA_OK {
            let text = stack.text(-1).unwrap_or_default().to_vec();
            stack.set_top(FIXED);
            return Err(text);
        }
        // SAFETY: a function is on top, which is taken.
        let reference = unsafe { lua::luaL_ref(self.state, lua::LUA_REGISTRYINDEX) };
        Ok(Compiled { reference, translation: Some(Translation::default()) })
    }

    /// Forgets a script that this state has compiled.
    pub fn forget(&mut self, script: Compiled) {
        // SAFETY: a reference is given back once, since it cannot be copied.
        unsafe { lua::luaL_unref(self.state, lua::LUA_REGISTRYINDEX, script.reference) };
    }

    /// Runs a script that this state has compiled, and writes its reply.
    ///
    /// # Panics
    /// With the panic of a function that the script has called; the state is as after any other script.
    pub fn run(
        &mut self,
        script: &Compiled,
        inputs: Inputs<'_, '_>,
        host: &mut dyn Host,
        reply: &mut Reply,
    ) -> Run {
        self.run_path = RunPath::Lua;
        if !self.has_room_for(inputs) {
            return Run::Failed(without_place(inputs.name, NO_MEMORY));
        }
        if let Some(run) = self.run_native(script, inputs, host, reply) {
            return run;
        }
        if self.run_path != RunPath::Left {
            return self.run_in_lua(script, inputs, host, reply);
        }
        let machine = std::mem::take(&mut self.machine);
        let mut host = Repeated { host, machine: &machine, calls: 0, lines: 0 };
        let run = self.run_in_lua(script, inputs, &mut host, reply);
        self.machine = machine;
        self.machine.forget();
        run
    }

    /// Runs a script without Lua, if it can; none if Lua has to run it.
    fn run_native(
        &mut self,
        script: &Compiled,
        inputs: Inputs<'_, '_>,
        host: &mut dyn Host,
        reply: &mut Reply,
    ) -> Option<Run> {
        let translation = script.translation.as_ref()?;
        if !self.allows_native || self.context().is_debugged.get() {
            return None;
        }
        let program = translation.program(|| self.translate(script).ok().map(Box::new))?;
        let given = martlet_bytecode::Inputs {
            keys: inputs.keys,
            args: inputs.args,
            reply_max_bytes: (self.context().memory.left_bytes() / 2).max(1),
            has_plain_json: self.context().json.get() == JsonSettings::default(),
        };
        let mut server = NativeServer { host, state: self.state, globals: GLOBALS };
        let outcome = program.run(&mut self.machine, given, &mut server, reply);
        translation.note(matches!(outcome, Outcome::Left(_)));
        self.run_path = RunPath::Native;
        Some(match outcome {
            Outcome::Replied => Run::Replied,
            Outcome::Failed(failure) => Run::Failed(self.placed(failure, inputs.name)),
            Outcome::Abandoned => Run::Abandoned,
            Outcome::Left(_) => {
                self.run_path = RunPath::Left;
                return None;
            }
        })
    }

    /// The error with which a program has ended, as it is answered.
    fn placed(&self, failure: Failure, name: &str) -> ScriptError {
        let Failure { mut text, is_counted, line } = failure;
        if let Some(line) = line {
            let line = line.to_string();
            append_place(
                &mut text,
                self.context().is_valkey.get(),
                name,
                self.source_name(),
                line.as_bytes(),
            );
        }
        ScriptError { text, is_counted }
    }

    /// The name that errors tell of a chunk.
    fn source_name(&self) -> &'static [u8] {
        match self.engine {
            Engine::Eval => b"@user_script",
            Engine::Functions => b"@user_function",
        }
    }

    fn run_in_lua(
        &mut self,
        script: &Compiled,
        inputs: Inputs<'_, '_>,
        host: &mut dyn Host,
        reply: &mut Reply,
    ) -> Run {
        let engine = self.engine;
        let mut stack = self.stack();
        if engine == Engine::Eval {
            set_inputs(&mut stack, inputs);
        }
        push_function(&mut stack, script);
        if engine == Engine::Functions {
            push_values(&mut stack, inputs.keys);
            push_values(&mut stack, inputs.args);
        }
        let status = self.call(host, if engine == Engine::Functions { 2 } else { 0 });
        let ended = self.take_ended();
        let is_resp3 = self.context().is_resp3.take();
        let mut stack = self.stack();
        let run = match (ended, status) {
            (Some(Ended::Abandoned), _) => Run::Abandoned,
            // A function of Lua's that catches errors, as `load` does, was the last that it called.
            (Some(Ended::Killed(text)), lua::LUA_OK) => {
                Run::Failed(ScriptError { text: [b"ERR ", text.as_bytes()].concat(), is_counted: false })
            }
            (_, lua::LUA_OK) => {
                let answered = match returned_error(&mut stack) {
                    Ok(None) => write_returned(&mut stack, reply, is_resp3).map(|()| Run::Replied),
                    Ok(Some(error)) => Ok(Run::Failed(error)),
                    Err(raise) => Err(raise),
                };
                answered.unwrap_or_else(|_| Run::Failed(without_place(inputs.name, NO_MEMORY)))
            }
            _ => Run::Failed(uncaught_error(&mut stack, inputs.name)),
        };
        stack.set_top(FIXED);
        self.pace_collection();
        self.collect_if_full();
        run
    }

    /// As [`Interpreter::run`] with the debugger, for which the host has a client. At the end that is sent
    /// `<endsession>`.
    ///
    /// # Panics
    /// As [`Interpreter::run`].
    pub fn debug(
        &mut self,
        script: &Compiled,
        inputs: Inputs<'_, '_>,
        source: &[u8],
        host: &mut dyn Host,
        reply: &mut Reply,
    ) -> Run {
        self.context().debugger.replace(Some(Box::new(Debugger::new(source))));
        self.context().is_debugged.set(true);
        debugger::set_hook(self.state);
        let run = self.run(script, inputs, host, reply);
        self.context().is_debugged.set(false);
        if let Some(mut debugger) = self.context().debugger.take() {
            host.debug_send(&last_lines(&mut debugger));
        }
        self.set_hook();
        run
    }

    /// Runs a library that this state has compiled; the functions that it has registered.
    ///
    /// # Errors
    /// The error with which it has ended; nothing of it stays.
    pub fn load_library(
        &mut self,
        library: Compiled,
        host: &mut dyn Host,
    ) -> Result<Vec<Registered>, ScriptError> {
        self.context().registered.replace(Some(Vec::new()));
        let mut stack = self.stack();
        let_see(&mut stack, LOADING_GLOBALS);
        push_function(&mut stack, &library);
        let status = self.call(host, 0);
        self.take_ended();
        self.context().is_resp3.take();
        let registered = self.context().registered.take().unwrap_or_default();
        let mut stack = self.stack();
        let error = (status != lua::LUA_OK).then(|| raised_error(&mut stack));
        stack.set_top(FIXED);
        let_see(&mut stack, GLOBALS);
        self.forget(library);
        let outcome = match error {
            None => Ok(registered),
            Some(error) => {
                registered.into_iter().for_each(|registered| self.forget(registered.function));
                Err(error)
            }
        };
        self.collect_if_full();
        outcome
    }

    /// Whether the inputs fit into what scripts can have, perhaps once garbage is collected.
    fn has_room_for(&mut self, inputs: Inputs<'_, '_>) -> bool {
        const VALUE_BYTES: usize = 64;
        let all = inputs.keys.iter().chain(inputs.args);
        let bytes = all.map(|input| input.len() + VALUE_BYTES).sum();
        if !self.context().memory.has_room(bytes) {
            // SAFETY: no finalizer runs, since there is no userdata.
            unsafe { lua::lua_gc(self.state, lua::LUA_GCCOLLECT, 0) };
        }
        self.context().memory.has_room(bytes)
    }

    /// How the script was ended, if it was; the next one is not.
    fn take_ended(&mut self) -> Option<Ended> {
        let ended = self.context().ended.take();
        if ended.is_some() {
            self.set_hook();
        }
        ended
    }

    /// Calls the function below `arguments` arguments on top; below it is the handler of errors.
    fn call(&mut self, host: &mut dyn Host, arguments: c_int) -> c_int {
        let context = self.context();
        // SAFETY: arguments are on top, a function and the handler below them; errors end here.
        let call = || unsafe { lua::lua_pcall(self.state, arguments, 1, -2 - arguments) };
        let status = context.with_lent_host(host, call);
        if let Some(panic) = context.take_panic() {
            self.take_ended();
            self.context().is_resp3.take();
            self.context().registered.take();
            self.stack().set_top(FIXED);
            std::panic::resume_unwind(panic);
        }
        status
    }

    /// While there is little in the state, garbage is collected the more rarely: a cycle goes through all of
    /// it, however little a script has left.
    fn pace_collection(&mut self) {
        let is_small = self.used_bytes() < SMALL_BYTES;
        if self.is_small != is_small {
            self.is_small = is_small;
            let percent = if is_small { PAUSE_SMALL_PERCENT } else { PAUSE_PERCENT };
            // SAFETY: the state is one of an interpreter.
            unsafe { lua::lua_gc(self.state, lua::LUA_GCSETPAUSE, percent) };
        }
    }

    /// A script may have stopped the collection of garbage, or left most of the memory in use.
    fn collect_if_full(&mut self) {
        if self.context().memory.is_half_full() {
            // SAFETY: no finalizer runs, since there is no userdata.
            unsafe {
                lua::lua_gc(self.state, lua::LUA_GCRESTART, 0);
                lua::lua_gc(self.state, lua::LUA_GCCOLLECT, 0);
            }
        }
    }
}

impl Stack<'_> {
    /// Makes the real globals the first value of an empty stack.
    fn room_for_fixed(&mut self) {
        debug_assert_eq!(self.top(), 0);
        self.room();
        // SAFETY: there is room.
        unsafe { lua::lua_pushvalue(self.state(), lua::LUA_GLOBALSINDEX) };
    }
}

/// Pushes the handler of errors and a function.
fn push_function(stack: &mut Stack<'_>, function: &Compiled) {
    stack.push_copy(HANDLER);
    stack.room();
    // SAFETY: there is room, and the registry is a table.
    unsafe { lua::lua_rawgeti_(stack.state(), lua::LUA_REGISTRYINDEX, function.reference) };
}

fn push_values(stack: &mut Stack<'_>, values: &[&[u8]]) {
    stack.push_table(values.len(), 0);
    for (value, element) in values.iter().zip(1..) {
        stack.push_bytes(value);
        stack.set_element(-2, element);
    }
}

/// Makes `KEYS` and `ARGV`.
fn set_inputs(stack: &mut Stack<'_>, inputs: Inputs<'_, '_>) {
    for (name, values) in [(KEYS, inputs.keys), (ARGV, inputs.args)] {
        stack.push_copy(name);
        push_values(stack, values);
        stack.set(GLOBALS);
    }
}

/// Has code find these globals behind those that it sees.
fn let_see(stack: &mut Stack<'_>, globals: c_int) {
    stack.get_metatable(SEEN_GLOBALS);
    stack.push_copy(globals);
    stack.set_field(-2, "__index");
    stack.pop(1);
}

/// The error that a script returned as a table, if it did.
fn returned_error(stack: &mut Stack<'_>) -> Result<Option<ScriptError>, Raise> {
    if stack.kind(-1) != Kind::Table {
        return Ok(None);
    }
    stack.get_field(-1, "err");
    let Some(text) = stack.bytes(-1) else {
        stack.pop(1);
        return Ok(None);
    };
    // This copy and the reply's.
    stack.need(3 * text.len())?;
    let text = text.to_vec();
    stack.get_field(-2, "ignore_error_stats_update");
    let is_counted = stack.truth(-1);
    stack.pop(2);
    Ok(Some(ScriptError { text, is_counted }))
}

/// What Lua says when an allocation fails.
const NO_MEMORY: &[u8] = b"not enough memory";

/// An error that no line of the script has raised.
fn without_place(name: &str, text: &[u8]) -> ScriptError {
    let text = [b"ERR Error running script ", name.as_bytes(), b", ", &text[..text.len().min(100)]].concat();
    ScriptError { text, is_counted: false }
}

/// Appends the place of an error to its text.
fn append_place(text: &mut Vec<u8>, is_valkey: bool, name: &str, source: &[u8], line: &[u8]) {
    let (name, comma) = if is_valkey { ("", "") } else { (name, ", ") };
    let place = [b" script: ", name.as_bytes(), comma.as_bytes(), b"on ", source, b":", line, b"."];
    text.extend_from_slice(&place.concat());
}

/// The error that [`place_error`] has left on top, as it is answered.
fn uncaught_error(stack: &mut Stack<'_>, name: &str) -> ScriptError {
    let table = stack.top();
    let mut error = raised_error(stack);
    if stack.kind(table) != Kind::Table {
        return without_place(name, error.text.strip_prefix(b"ERR ").unwrap_or_default());
    }
    stack.get_field(table, "source");
    stack.get_field(table, "line");
    let line = stack.text(-1).map(<[u8]>::to_vec);
    if let (Some(source), Some(line)) = (stack.bytes(-2), line) {
        append_place(&mut error.text, Context::of(stack).is_valkey.get(), name, source, &line);
    }
    error
}

/// The error that [`place_error`] has left on top, without its place.
fn raised_error(stack: &mut Stack<'_>) -> ScriptError {
    if stack.kind(-1) != Kind::Table {
        // Neither memory's end nor that of C's stack goes through the handler.
        let text = stack.text(-1).unwrap_or(b"execution failure");
        return ScriptError { text: [b"ERR ", text].concat(), is_counted: false };
    }
    let table = stack.top();
    stack.get_field(table, "err");
    let text = stack.bytes(-1).unwrap_or(b"ERR unknown error");
    // This copy, one with its place, and the reply's.
    let text = if stack.need(4 * text.len()).is_ok() { text } else { b"ERR not enough memory" };
    let text = text.to_vec();
    stack.get_field(table, "ignore_error_stats_update");
    let is_counted = stack.truth(-1);
    ScriptError { text, is_counted }
}

/// The handler of errors: makes of an error a table that says where it was raised.
fn place_error(stack: &mut Stack<'_>) -> Results {
    let place = place_of_caller(stack);
    stack.push_table(0, 4);
    let table = stack.top();
    if stack.kind(1) == Kind::Table {
        for name in ["err", "ignore_error_stats_update"] {
            stack.get_field(1, name);
            stack.set_field(table, name);
        }
    } else {
        let text = match stack.kind(1) {
            Kind::String | Kind::Number => {
                let len = stack.text(1).unwrap_or_default().len();
                // This copy, one with a code, and Lua's.
                stack.need(3 * len)?;
                stack.text(1).unwrap_or_default().to_vec()
            }
            Kind::Boolean => stack.truth(1).to_string().into_bytes(),
            Kind::Nil | Kind::None => b"nil".to_vec(),
            _ => format!("{}: {:p}", stack.type_name(1), stack.identity(1)).into_bytes(),
        };
        stack.push_bytes(&[b"ERR ", text.as_slice()].concat());
        stack.set_field(table, "err");
    }
    if let Some((source, line)) = place {
        stack.push_bytes(&source);
        stack.set_field(table, "source");
        stack.push_number(f64::from(line));
        stack.set_field(table, "line");
    }
    Ok(1)
}

/// Source and line of the function that has raised an error: of its caller, if it is not a Lua function.
fn place_of_caller(stack: &mut Stack<'_>) -> Option<(Vec<u8>, c_int)> {
    let mut found = None;
    for level in [1, 2] {
        // SAFETY: zeroes are valid, and Lua fills it in.
        let mut record: lua::lua_Debug = unsafe { std::mem::zeroed() };
        // SAFETY: the record is of the state's stack as it is.
        let there = unsafe {
            lua::lua_getstack(stack.state(), level, &mut record) != 0
                && lua::lua_getinfo(stack.state(), c"Sl".as_ptr(), &mut record) != 0
        };
        if !there {
            break;
        }
        // SAFETY: both are strings of Lua's, which live as long as the function.
        let (what, source) =
            unsafe { (std::ffi::CStr::from_ptr(record.what), std::ffi::CStr::from_ptr(record.source)) };
        found = Some((source.to_bytes().to_vec(), record.currentline));
        if what != c"C" {
            break;
        }
    }
    found
}
