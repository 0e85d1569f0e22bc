//! The debugger's commands.
//!
//! Invariant: a command changes nothing of the script but by code that the client has evaluated.

use std::ffi::{CStr, c_int};

use martlet_base::number::parse_i64;
use martlet_lua as lua;
use martlet_lua::{lua_Debug, lua_State};

use super::Level;
use super::shown::with;
use super::state::{BREAKPOINTS_MAX, Debugger, SHOWN_BYTES_MIN};
use crate::api;
use crate::context::Context;
use crate::door::entry;
use crate::stack::{Kind, Raise, Results, Stack};

const HELP: &[&str] = &[
    "Redis Lua debugger help:",
    "[h]elp               Show this help.",
    "[s]tep               Run current line and stop again.",
    "[n]ext               Alias for step.",
    "[c]ontinue           Run till next breakpoint.",
    "[l]ist               List source code around current line.",
    "[l]ist [line]        List source code around [line].",
    "                     line = 0 means: current position.",
    "[l]ist [line] [ctx]  In this form [ctx] specifies how many lines",
    "                     to show before/after [line].",
    "[w]hole              List all source code. Alias for 'list 1 1000000'.",
    "[p]rint              Show all the local variables.",
    "[p]rint <var>        Show the value of the specified variable.",
    "                     Can also show global vars KEYS and ARGV.",
    "[b]reak              Show all breakpoints.",
    "[b]reak <line>       Add a breakpoint to the specified line.",
    "[b]reak -<line>      Remove breakpoint from the specified line.",
    "[b]reak 0            Remove all breakpoints.",
    "[t]race              Show a backtrace.",
    "[e]val <code>        Execute some Lua code (in a different callframe).",
    "[r]edis <cmd>        Execute a Redis command.",
    "[m]axlen [len]       Trim logged Redis replies and Lua var dumps to len.",
    "                     Specifying zero as <len> means unlimited.",
    "[a]bort              Stop the execution of the script. In sync",
    "                     mode dataset changes will be retained.",
    "",
    "Debugger functions you can call from Lua scripts:",
    "redis.debug()        Produce logs in the debugger console.",
    "redis.breakpoint()   Stop execution like if there was a breakpoint in the",
    "                     next line of code.",
];

/// What follows a command.
pub enum Next {
    /// The script goes on.
    Resume,
    /// It ends.
    Abort,
    /// The client gets its answer, and is asked again.
    Stay,
}

/// Runs a command of the client, and leaves its answer among the lines.
///
/// # Errors
/// If the script is to end.
pub fn run(stack: &mut Stack<'_>, words: &[Vec<u8>]) -> Result<Next, Raise> {
    let (name, rest) = words.split_first().map_or((&[][..], words), |(name, rest)| (name.as_slice(), rest));
    let is = |short: &str, long: &str| {
        name.eq_ignore_ascii_case(short.as_bytes()) || name.eq_ignore_ascii_case(long.as_bytes())
    };
    if is("s", "step") || is("n", "next") {
        with(stack, |debugger| debugger.steps = true);
        return Ok(Next::Resume);
    }
    if is("c", "continue") {
        return Ok(Next::Resume);
    }
    if is("a", "abort") {
        return Ok(Next::Abort);
    }
    if is("h", "help") {
        with(stack, |debugger| HELP.iter().for_each(|line| debugger.say(*line)));
    } else if is("t", "trace") {
        trace(stack);
    } else if is("m", "maxlen") {
        with(stack, |debugger| set_shown_bytes(debugger, rest));
    } else if is("b", "break") {
        with(stack, |debugger| change_breakpoints(debugger, rest));
    } else if is("e", "eval") {
        eval(stack, &rest.join(&b' '));
        // The evaluated code may have run into the script's end.
        api::raise_if_ended(stack)?;
    } else if (is("r", "redis") || name.eq_ignore_ascii_case(b"server")) && !rest.is_empty() {
        call(stack, rest);
        api::raise_if_ended(stack)?;
    } else if is("p", "print") {
        match rest {
            [name] => print(stack, name),
            _ => print_all(stack),
        }
    } else if is("l", "list") {
        let number = |at: usize| rest.get(at).map(|text| leading_number(text));
        let around = number(0).filter(|line| *line > 0);
        with(stack, |debugger| list(debugger, around.unwrap_or(debugger.line), number(1).unwrap_or(5)));
    } else if is("w", "whole") {
        with(stack, |debugger| list(debugger, 1, 1_000_000));
    } else {
        let product = if Context::of(stack).is_valkey.get() { "" } else { "Redis Lua " };
        let text = format!("<error> Unknown {product}debugger command or wrong number of arguments.");
        with(stack, |debugger| debugger.say(text));
    }
    Ok(Next::Stay)
}

/// The number that a text begins with, as C's `atoi`; 0 without one.
pub fn leading_number(text: &[u8]) -> i64 {
    let text = text.trim_ascii_start();
    let (is_negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        Some((b'+', digits)) => (false, digits),
        _ => (false, text),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit()).take(10);
    let number = digits.fold(0i64, |number, digit| number * 10 + i64::from(digit - b'0'));
    if is_negative { -number } else { number }
}

fn list(debugger: &mut Debugger, around: i64, context: i64) {
    for number in 1..=debugger.source.len() as i64 {
        if around == 0 || (around - number).abs() <= context {
            debugger.say_source(number);
        }
    }
}

fn set_shown_bytes(debugger: &mut Debugger, words: &[Vec<u8>]) {
    if let [text] = words {
        debugger.has_hinted = true;
        debugger.shown_bytes = match leading_number(text) {
            0 => 0,
            bytes => usize::try_from(bytes).unwrap_or_default().max(SHOWN_BYTES_MIN),
        };
    }
    debugger.say(match debugger.shown_bytes {
        0 => "<value> replies are unlimited.".to_owned(),
        bytes => format!("<value> replies are truncated at {bytes} bytes."),
    });
}

fn change_breakpoints(debugger: &mut Debugger, words: &[Vec<u8>]) {
    if words.is_empty() {
        return show_breakpoints(debugger);
    }
    for word in words {
        match parse_i64(word) {
            None => debugger.say([b"Invalid argument:'".as_slice(), word, b"'"].concat()),
            Some(0) => {
                debugger.breakpoints.clear();
                debugger.say("All breakpoints removed.");
            }
            Some(line) if line > 0 => add_breakpoint(debugger, line),
            Some(line) => {
                let found = debugger.breakpoints.iter().position(|at| Some(*at) == line.checked_neg());
                let text = match found.map(|index| debugger.breakpoints.remove(index)) {
                    Some(_) => "Breakpoint removed.",
                    None => "No breakpoint in the specified line.",
                };
                debugger.say(text);
            }
        }
    }
}

fn show_breakpoints(debugger: &mut Debugger) {
    let breakpoints = debugger.breakpoints.clone();
    if breakpoints.is_empty() {
        return debugger.say("No breakpoints set. Use 'b <line>' to add one.");
    }
    debugger.say(format!("{} breakpoints set:", breakpoints.len()));
    breakpoints.into_iter().for_each(|line| debugger.say_source(line));
}

fn add_breakpoint(debugger: &mut Debugger, line: i64) {
    if debugger.breakpoints.len() >= BREAKPOINTS_MAX {
        debugger.say("Too many breakpoints set.");
    } else if line > debugger.source.len() as i64 || debugger.breakpoints.contains(&line) {
        debugger.say("Wrong line number.");
    } else {
        debugger.breakpoints.push(line);
        list(debugger, line, 1);
    }
}

fn trace(stack: &Stack<'_>) {
    let mut number = 0;
    while let Some(level) = Level::of(stack, number) {
        if level.is_of_script() {
            let name = level.name().unwrap_or_else(|| b"top level".to_vec());
            let place = if number == 0 { b"In ".as_slice() } else { b"From " };
            with(stack, |debugger| {
                debugger.say([place, &name, b":"].concat());
                debugger.say_source(level.line());
            });
        }
        number += 1;
    }
    if number == 0 {
        with(stack, |debugger| debugger.say("<error> Can't retrieve Lua stack."));
    }
}

/// Pushes a local variable of a level; its name, or `None` and nothing behind the last.
fn push_local(stack: &mut Stack<'_>, record: &lua_Debug, number: c_int) -> Option<Vec<u8>> {
    stack.room();
    // SAFETY: the record is of a level of the stack as it is, and there is room for the value.
    let name = unsafe { lua::lua_getlocal(stack.state(), record, number) };
    // SAFETY: it is absent or a string of Lua's, which lives as long as the function.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_bytes().to_vec())
}

/// Shows a variable of the innermost function that has one of this name, or `KEYS` or `ARGV`.
fn print(stack: &mut Stack<'_>, wanted: &[u8]) {
    let mut number = 0;
    while let Some(level) = Level::of(stack, number) {
        number += 1;
        for at in 1.. {
            let Some(name) = push_local(stack, &level.record, at) else { break };
            if name == wanted {
                say_top(stack, b"<value> ");
                return stack.pop(1);
            }
            stack.pop(1);
        }
    }
    let name = match wanted {
        b"KEYS" => c"KEYS",
        b"ARGV" => c"ARGV",
        _ => {
            with(stack, |debugger| debugger.say("No such variable."));
            return;
        }
    };
    stack.room();
    // SAFETY: there is room, and the globals that scripts see lead to these without a function of Lua's.
    unsafe { lua::lua_getfield_(stack.state(), lua::LUA_GLOBALSINDEX, name.as_ptr()) };
    say_top(stack, b"<value> ");
    stack.pop(1);
}

/// Shows the variables of the function that runs.
fn print_all(stack: &mut Stack<'_>) {
    let mut shown = 0;
    if let Some(level) = Level::of(stack, 0) {
        for at in 1.. {
            let Some(name) = push_local(stack, &level.record, at) else { break };
            if !name.windows(12).any(|part| part == b"(*temporary)") {
                shown += 1;
                say_top(stack, &[b"<value> ", name.as_slice(), b" = "].concat());
            }
            stack.pop(1);
        }
    }
    if shown == 0 {
        with(stack, |debugger| debugger.say("No local variables in the current context."));
    }
}

fn say_top(stack: &mut Stack<'_>, before: &[u8]) {
    let context = Context::of(stack);
    if let Some(debugger) = context.debugger.borrow_mut().as_deref_mut() {
        debugger.say_value(stack, before);
    }
}

/// Runs code in a coroutine, whose hook ends what takes too long: within a hook there are none.
fn eval(stack: &mut Stack<'_>, code: &[u8]) {
    let (state, before) = (stack.state(), stack.top());
    stack.room();
    // SAFETY: there is room, and memory is unbounded; the coroutine stays on the stack while it is used.
    let thread = unsafe { lua::lua_newthread(state) };
    // SAFETY: the coroutine is one of an interpreter's state.
    unsafe { lua::lua_sethook(thread, Some(eval_hook), lua::LUA_MASKCOUNT, api::INTERRUPT_INSTRUCTIONS) };
    let expression = [b"return ".as_slice(), code].concat();
    let memory = stack.memory();
    memory.set_bounded(true);
    let mut is_loaded = load(thread, &expression);
    if !is_loaded {
        is_loaded = load(thread, code);
    }
    // SAFETY: a function without arguments is on top; errors end here.
    let has_run = is_loaded && unsafe { lua::lua_pcall(thread, 0, 1, 0) } == lua::LUA_OK;
    memory.set_bounded(false);
    stack.room();
    // SAFETY: the coroutine has the result or the error on top, and there is room for it.
    unsafe { lua::lua_xmove(thread, state, 1) };
    if has_run {
        say_top(stack, b"<retval> ");
    } else {
        if stack.kind(-1) == Kind::Table {
            stack.get_field(-1, "err");
        }
        let text = stack.text(-1).unwrap_or(b"(null)").to_vec();
        with(stack, |debugger| debugger.say([b"<error> ", text.as_slice()].concat()));
    }
    stack.set_top(before);
    if memory.is_half_full() {
        // What it has left is not the script's to pay for.
        // SAFETY: no finalizer runs, since there is no userdata.
        unsafe { lua::lua_gc(state, lua::LUA_GCCOLLECT, 0) };
    }
}

/// Compiles code onto a coroutine's stack; otherwise the error is there if `code` was the last to be tried.
fn load(thread: *mut lua_State, code: &[u8]) -> bool {
    // SAFETY: the name ends with a zero, loading catches its errors, and what an earlier try left is dropped.
    unsafe {
        lua::lua_settop(thread, 0);
        lua::luaL_loadbuffer(thread, code.as_ptr().cast(), code.len(), c"@ldb_eval".as_ptr()) == lua::LUA_OK
    }
}

/// What Lua calls from time to time in code that the client has evaluated.
///
/// # Safety
/// `state` is a coroutine of an `Interpreter`.
unsafe extern "C-unwind" fn eval_hook(state: *mut lua_State, _: *mut lua_Debug) {
    // SAFETY: Lua calls it within a function of this state. `enter` returns only without an error.
    unsafe { crate::door::enter(state, end_if_overdue) };
}

fn end_if_overdue(stack: &mut Stack<'_>) -> Results {
    api::check(stack)?;
    match Context::of(stack).with_host(|host| host.is_debug_overdue()) {
        Some(true) => Err(Raise::error("timeout reached, infinite loop?")),
        _ => Ok(0),
    }
}

/// Calls a command as the script would, and shows it and its reply.
fn call(stack: &mut Stack<'_>, words: &[Vec<u8>]) {
    let before = stack.top();
    with(stack, |debugger| debugger.steps = true);
    stack.push_function(entry!(api::call));
    for word in words {
        stack.push_bytes(word);
    }
    // SAFETY: a function and its arguments are on top; errors end here.
    unsafe { lua::lua_pcall(stack.state(), words.len() as c_int, 1, 0) };
    with(stack, |debugger| debugger.steps = false);
    stack.set_top(before);
}

#[cfg(test)]
mod tests {
    use super::leading_number;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, number) in
            [("12", 12), (" -3x", -3), ("x", 0), ("", 0), ("+7", 7), ("99999999999", 9_999_999_999)]
        {
            assert_eq!(leading_number(text.as_bytes()), number);
        }
    }
}
