//! The `redis` table: what scripts ask of the server.

use std::ffi::c_int;

use martlet_bytecode::error_reply_text;
use martlet_bytecode::number::{push_argument, to_integer};
use martlet_lua::lua_CFunction;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::{Args, Span};
use sha1::{Digest, Sha1};

use crate::context::{Buffers, Context, Ended};
use crate::convert::{is_error, push_error, push_field, push_reply};
use crate::debugger::shown;
use crate::door::entry;
use crate::host::{Called, LogLevel, Verdict, propagate};
use crate::output::{Held, Output};
use crate::stack::{Kind, Raise, Results, Stack};

/// Instructions between two questions to a script's host whether it may continue.
pub const INTERRUPT_INSTRUCTIONS: c_int = 100_000;

/// The server's version as scripts see it.
#[derive(Copy, Clone, Debug)]
pub struct Version {
    /// `redis.REDIS_VERSION`
    pub text: &'static str,
    /// `redis.REDIS_VERSION_NUM`
    pub number: u32,
}

/// The product that scripts see.
#[derive(Copy, Clone, Debug)]
pub struct Product {
    /// The version of Redis that it says it is, or is compatible with.
    pub redis: Version,
    /// The version of Valkey that it says it is: its errors are then Valkey's, which name the table `server`
    /// and no script.
    pub valkey: Option<Version>,
}

impl From<Version> for Product {
    fn from(redis: Version) -> Product {
        Product { redis, valkey: None }
    }
}

/// Pushes the table that running scripts see.
pub fn push(stack: &mut Stack<'_>, product: Product) {
    let functions: &[(&str, lua_CFunction)] = &[
        ("call", entry!(call)),
        ("pcall", entry!(pcall)),
        ("log", entry!(log)),
        ("setresp", entry!(setresp)),
        ("sha1hex", entry!(sha1hex)),
        ("error_reply", entry!(error_reply)),
        ("status_reply", entry!(status_reply)),
        ("set_repl", entry!(set_repl)),
        ("acl_check_cmd", entry!(acl_check_cmd)),
    ];
    let targets = [
        ("REPL_NONE", 0),
        ("REPL_AOF", propagate::LOG),
        ("REPL_SLAVE", propagate::REPLICAS),
        ("REPL_REPLICA", propagate::REPLICAS),
        ("REPL_ALL", propagate::LOG | propagate::REPLICAS),
    ];
    stack.push_table(0, 32);
    stack.set_functions(functions);
    set_numbers(stack, &targets);
    add_constants(stack, product);
}

/// Pushes the table that a library sees while it is loaded, but for what registers functions.
pub fn push_for_loading(stack: &mut Stack<'_>, product: Product) {
    stack.push_table(0, 8);
    stack.set_functions(&[("log", entry!(log))]);
    add_constants(stack, product);
}

fn set_numbers(stack: &mut Stack<'_>, numbers: &[(&str, i64)]) {
    for (name, number) in numbers {
        stack.push_number(*number as f64);
        stack.set_field(-2, name);
    }
}

/// Adds the levels of `redis.log` and the version to the table on top.
fn add_constants(stack: &mut Stack<'_>, product: Product) {
    let levels = [("LOG_DEBUG", 0), ("LOG_VERBOSE", 1), ("LOG_NOTICE", 2), ("LOG_WARNING", 3)];
    set_numbers(stack, &levels);
    add_version(stack, "REDIS_VERSION", "REDIS_VERSION_NUM", product.redis);
    if let Some(version) = product.valkey {
        add_version(stack, "VALKEY_VERSION", "VALKEY_VERSION_NUM", version);
        stack.push_bytes(b"valkey");
        stack.set_field(-2, "SERVER_NAME");
    }
}

fn add_version(stack: &mut Stack<'_>, text: &str, number: &str, version: Version) {
    set_numbers(stack, &[(number, i64::from(version.number))]);
    stack.push_bytes(version.text.as_bytes());
    stack.set_field(-2, text);
}

/// Adds what only EVAL's scripts have to the table on top.
pub fn add_debugging(stack: &mut Stack<'_>) {
    stack.set_functions(&[
        ("breakpoint", entry!(shown::breakpoint)),
        ("debug", entry!(shown::debug)),
        ("replicate_commands", entry!(replicate_commands)),
    ]);
}

/// Pushes an error with the code ERR and raises it.
pub fn refuse(stack: &mut Stack<'_>, text: &str) -> Results {
    push_own_error(stack, text);
    Err(Raise::Top)
}

/// Pushes an error of the functions that scripts see, in the words of the product; a debugger shows it.
fn push_own_error(stack: &mut Stack<'_>, text: &str) {
    if shown::shows_calls(stack) {
        shown::show_error(stack, text.as_bytes());
    }
    let text = match text {
        text if !Context::of(stack).is_valkey.get() => text.into(),
        NO_ARGUMENTS => "Please specify at least one argument for this call".into(),
        NO_STRINGS => "Command arguments must be strings or integers".into(),
        text => text.replace("redis.", "server."),
    };
    push_error(stack, format!("ERR {text}").as_bytes(), false);
}

/// Raises the error with which the script is to end, if it is.
pub fn raise_if_ended(stack: &mut Stack<'_>) -> Result<(), Raise> {
    match Context::of(stack).ended.get() {
        None => Ok(()),
        Some(Ended::Killed(text)) => refuse(stack, text).map(|_| ()),
        Some(Ended::Abandoned | Ended::Panicked) => refuse(stack, "the script cannot continue").map(|_| ()),
    }
}

/// Takes all arguments off the stack into the buffers; false if one is neither string nor number.
fn take_arguments(stack: &mut Stack<'_>, buffers: &mut Buffers) -> Result<bool, Raise> {
    let Buffers { arguments, spans, .. } = buffers;
    arguments.clear();
    spans.clear();
    let count = stack.top();
    let mut fits = true;
    for index in 1..=count {
        let start = arguments.len();
        match stack.kind(index) {
            Kind::String => {
                let bytes = stack.bytes(index).unwrap_or_default();
                if arguments.capacity() - arguments.len() < bytes.len() {
                    // Growing may double it, and the old buffer stays until it is copied.
                    stack.need(3 * (arguments.len() + bytes.len()))?;
                }
                martlet_base::copy::extend(arguments, bytes);
            }
            Kind::Number => push_argument(arguments, stack.number(index)),
            _ => fits = false,
        }
        // Offsets are 32 bits wide.
        fits &= arguments.len() < u32::MAX as usize;
        spans.push(Span { start: start as u32, end: arguments.len() as u32 });
    }
    stack.set_top(0);
    Ok(fits)
}

const NO_ARGUMENTS: &str = "Please specify at least one argument for this redis lib call";
const NO_STRINGS: &str = "Lua redis lib command arguments must be strings or integers";

pub fn call(stack: &mut Stack<'_>) -> Results {
    if run(stack)? { Err(Raise::Top) } else { Ok(1) }
}

fn pcall(stack: &mut Stack<'_>) -> Results {
    run(stack).map(|_| 1)
}

/// Runs the command that the arguments are and pushes its reply; whether that is an error.
fn run(stack: &mut Stack<'_>) -> Result<bool, Raise> {
    raise_if_ended(stack)?;
    if stack.top() == 0 {
        push_own_error(stack, NO_ARGUMENTS);
        return Ok(true);
    }
    let context = Context::of(stack);
    let mut buffers = context.buffers.take();
    if !take_arguments(stack, &mut buffers)? {
        context.buffers.replace(buffers);
        push_own_error(stack, NO_STRINGS);
        return Ok(true);
    }
    let mut out = std::mem::take(&mut buffers.reply);
    out.clear();
    let mut reply = Reply::new(out, context.is_resp3.get());
    // Half of the remaining bytes, since the other half is for the values made of it.
    reply.set_limit((stack.memory().left_bytes().saturating_sub(buffers.arguments.len()) / 2).max(1));
    let args = Args::new(&buffers.arguments, &buffers.spans);
    let is_shown = shown::shows_calls(stack);
    if is_shown {
        shown::show_call(stack, &args);
    }
    let called = context.with_host(|host| host.call(&args, &mut reply));
    let is_full = reply.is_full();
    buffers.reply = reply.into_bytes();
    if is_shown && let Some(called) = called {
        shown::show_answer(stack, called, &buffers.reply);
    }
    let failed = match called {
        Some(Called::Replied | Called::Refused) => {
            if is_full {
                return Err(Raise::Memory);
            }
            let held = Held::new(stack, buffers.arguments.len() + buffers.reply.len())?;
            push_reply(stack, &buffers.reply)?;
            drop(held);
            is_error(&buffers.reply)
        }
        Some(Called::Abandon) => {
            context.ended.set(Some(Ended::Abandoned));
            end_at_every_line(stack);
            false
        }
        None => {
            push_own_error(stack, "redis.call can only be called inside a script invocation");
            true
        }
    };
    buffers.shrink();
    context.buffers.replace(buffers);
    raise_if_ended(stack)?;
    Ok(failed)
}

impl Buffers {
    /// Gives memory back that few calls need.
    fn shrink(&mut self) {
        const KEPT_BYTES: usize = 64 << 10;
        for buffer in [&mut self.arguments, &mut self.reply] {
            if buffer.capacity() > KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
        if self.spans.capacity() > KEPT_BYTES / size_of::<Span>() {
            self.spans = Vec::new();
        }
    }
}

/// From here on every line ends the script again, so that it cannot catch its end.
fn end_at_every_line(stack: &Stack<'_>) {
    // SAFETY: the state is alive, and the hook one for states of interpreters.
    unsafe { martlet_lua::lua_sethook(stack.state(), Some(hook), martlet_lua::LUA_MASKLINE, 0) };
}

/// Has Lua ask from time to time whether the script may continue.
pub fn set_hook(stack: &Stack<'_>) {
    use martlet_lua::{LUA_MASKCOUNT, lua_sethook};
    // SAFETY: the state is alive, and the hook one for states of interpreters.
    unsafe { lua_sethook(stack.state(), Some(hook), LUA_MASKCOUNT, INTERRUPT_INSTRUCTIONS) };
}

/// What Lua calls from time to time.
///
/// # Safety
/// `state` is one of an `Interpreter`, or a coroutine of it.
pub unsafe extern "C-unwind" fn hook(state: *mut martlet_lua::lua_State, _: *mut martlet_lua::lua_Debug) {
    // SAFETY: Lua calls it within a function of this state. It returns only without an error.
    unsafe { crate::door::enter(state, check) };
}

/// Asks whether the script may continue, once per number of steps of a loop whose length depends on the
/// input.
#[inline]
pub fn step(stack: &mut Stack<'_>, steps: &mut u32) -> Result<(), Raise> {
    const STEPS: u32 = 1 << 16;
    *steps += 1;
    if *steps < STEPS {
        return Ok(());
    }
    *steps = 0;
    check(stack).map(|_| ())
}

/// Asks whether the script may continue.
pub fn check(stack: &mut Stack<'_>) -> Results {
    let context = Context::of(stack);
    if context.ended.get().is_none()
        && let Some(Verdict::Kill(text)) = context.with_host(|host| host.interrupt())
    {
        context.ended.set(Some(Ended::Killed(text)));
    }
    if context.ended.get().is_some() {
        end_at_every_line(stack);
    }
    raise_if_ended(stack).map(|()| 0)
}

fn sha1hex(stack: &mut Stack<'_>) -> Results {
    if stack.top() != 1 {
        return refuse(stack, "wrong number of arguments");
    }
    let digest = Sha1::digest(stack.text(1).unwrap_or_default());
    stack.push_bytes(format!("{digest:x}").as_bytes());
    Ok(1)
}

/// The only argument, which must be a string; otherwise the error is pushed.
fn only_text(stack: &mut Stack<'_>) -> Result<Option<Vec<u8>>, Raise> {
    let Some(text) = stack.bytes(1).filter(|_| stack.top() == 1) else {
        push_own_error(stack, "wrong number or type of arguments");
        return Ok(None);
    };
    // This copy, the one with a code, and Lua's.
    stack.need(3 * text.len())?;
    Ok(Some(text.to_vec()))
}

fn error_reply(stack: &mut Stack<'_>) -> Results {
    let Some(text) = only_text(stack)? else { return Ok(1) };
    let error = error_reply_text(&text);
    if shown::shows_calls(stack) {
        let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
        let text = text.strip_prefix(b"-").unwrap_or(text);
        shown::show_error(stack, &[b"-".as_slice(), text].concat());
    }
    push_error(stack, &error, false);
    Ok(1)
}

fn status_reply(stack: &mut Stack<'_>) -> Results {
    if let Some(text) = only_text(stack)? {
        push_field(stack, "ok", &text);
    }
    Ok(1)
}

fn log(stack: &mut Stack<'_>) -> Results {
    if stack.top() < 2 {
        return refuse(stack, "redis.log() requires two arguments or more.");
    }
    if !stack.is_numeric(1) {
        return refuse(stack, "First argument must be a number (log level).");
    }
    let Some(level) = LogLevel::of(to_integer(stack.number(1))) else {
        return refuse(stack, "Invalid log level.");
    };
    let mut text = Output::new(stack);
    for index in 2..=stack.top() {
        if let Some(part) = stack.text(index) {
            if text.len() > 0 {
                text.push(b' ')?;
            }
            text.extend(part)?;
        }
    }
    Context::of(stack).with_host(|host| host.log(level, text.as_bytes()));
    Ok(0)
}

/// The only argument as an integer, or the error for any other number of them.
fn only_integer(stack: &mut Stack<'_>, function: &str) -> Result<i64, Raise> {
    if stack.top() != 1 {
        refuse(stack, &format!("redis.{function}() requires one argument."))?;
    }
    Ok(to_integer(stack.number(1)))
}

fn setresp(stack: &mut Stack<'_>) -> Results {
    let version = only_integer(stack, "setresp")?;
    if version != 2 && version != 3 {
        return refuse(stack, "RESP version must be 2 or 3.");
    }
    Context::of(stack).is_resp3.set(version == 3);
    Ok(0)
}

fn set_repl(stack: &mut Stack<'_>) -> Results {
    let targets = only_integer(stack, "set_repl")?;
    if targets & !(propagate::LOG | propagate::REPLICAS) != 0 {
        return refuse(
            stack,
            "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        );
    }
    Context::of(stack).with_host(|host| host.set_propagation(targets));
    Ok(0)
}

fn acl_check_cmd(stack: &mut Stack<'_>) -> Results {
    if stack.top() == 0 {
        return refuse(stack, NO_ARGUMENTS);
    }
    let context = Context::of(stack);
    let mut buffers = context.buffers.take();
    if !take_arguments(stack, &mut buffers)? {
        return refuse(stack, NO_STRINGS);
    }
    let args = Args::new(&buffers.arguments, &buffers.spans);
    let may_call = context.with_host(|host| host.may_call(&args)).flatten();
    context.buffers.replace(buffers);
    match may_call {
        Some(may_call) => stack.push_bool(may_call),
        None => return refuse(stack, "Invalid command passed to redis.acl_check_cmd()"),
    }
    Ok(1)
}

/// Effects are all that is ever recorded.
fn replicate_commands(stack: &mut Stack<'_>) -> Results {
    stack.push_bool(true);
    Ok(1)
}

/// `math.random`, with a generator of our own.
pub fn math_random(stack: &mut Stack<'_>) -> Results {
    let unit = Context::of(stack).random.borrow_mut().next_unit();
    let interval = |index: c_int, low: f64, high: f64| {
        if low <= high {
            Ok((unit * (high - low + 1.0)).floor() + low)
        } else {
            Err(Raise::argument(index, "interval is empty"))
        }
    };
    let integer =
        |stack: &Stack<'_>, index| stack.number_argument(index).map(|n| f64::from(to_integer(n) as i32));
    let number = match stack.top() {
        0 => unit,
        1 => interval(1, 1.0, integer(stack, 1)?)?,
        2 => interval(2, integer(stack, 1)?, integer(stack, 2)?)?,
        _ => return Err(Raise::error("wrong number of arguments")),
    };
    stack.push_number(number);
    Ok(1)
}

/// `math.randomseed`
pub fn math_randomseed(stack: &mut Stack<'_>) -> Results {
    let seed = to_integer(stack.number_argument(1)?);
    Context::of(stack).random.borrow_mut().seed(seed as u32);
    Ok(0)
}
