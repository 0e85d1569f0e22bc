//! Data of one Lua state besides Lua's own: its memory, the host of the running script.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};

use martlet_lua::{lua_State, lua_getallocf};

use crate::debugger::state::Place;
use crate::flags::ScriptFlags;
use crate::host::Host;
use crate::json::{ArrayMark, JsonSettings};
use crate::memory::Memory;
use crate::random::Random;
use crate::stack::{Raise, Stack};
use crate::translation::Translation;

/// A script that a state has compiled; of use for that state only.
#[derive(Debug)]
pub struct Compiled {
    /// Where the state has it.
    pub(crate) reference: c_int,
    /// What it becomes without Lua; none of a function.
    pub(crate) translation: Option<Translation>,
}

/// A function that a library has registered; its code is of use for the state that has loaded it only.
#[derive(Debug)]
pub struct Registered {
    /// Its name.
    pub name: Vec<u8>,
    /// The library's description of it.
    pub description: Option<Vec<u8>>,
    /// Its flags.
    pub flags: ScriptFlags,
    /// Its code.
    pub function: Compiled,
}

/// How a script has been ended from outside.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its host could not continue it: it has no reply.
    Abandoned,
    /// It was killed, with this error.
    Killed(&'static str),
    /// A function in Rust has panicked.
    Panicked,
}

/// See the [module docs](self). Begins with the memory, as [`Memory::of`] wants.
#[repr(C)]
pub struct Context {
    pub(crate) memory: Memory,
    /// Of the script that runs; null if none does.
    host: Cell<Option<*mut dyn Host>>,
    /// `redis.setresp(3)` was called.
    pub(crate) is_resp3: Cell<bool>,
    /// See [`crate::Product::valkey`].
    pub(crate) is_valkey: Cell<bool>,
    /// The script must end.
    pub(crate) ended: Cell<Option<Ended>>,
    pub(crate) json: Cell<JsonSettings>,
    pub(crate) json_array: Cell<Option<ArrayMark>>,
    pub(crate) random: RefCell<Random>,
    pub(crate) buffers: RefCell<Buffers>,
    /// The functions registered by the library that is being loaded; `None` outside a load.
    pub(crate) registered: RefCell<Option<Vec<Registered>>>,
    /// The panic of a function that the script has called.
    panic: Cell<Option<Panic>>,
    /// Whether the script that runs has a debugger.
    pub(crate) is_debugged: Cell<bool>,
    /// That debugger.
    pub(crate) debugger: Place,
}

/// The payload of a panic.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Buffers that calls of commands use again and again.
#[derive(Default)]
pub(crate) struct Buffers {
    pub arguments: Vec<u8>,
    pub spans: Vec<martlet_protocol::request::Span>,
    pub reply: Vec<u8>,
}

impl Context {
    /// The context of a state of which scripts can have so much memory.
    pub fn new(memory_max_bytes: usize) -> Context {
        Context {
            memory: Memory::new(memory_max_bytes),
            host: Cell::new(None),
            is_resp3: Cell::new(false),
            is_valkey: Cell::new(false),
            ended: Cell::new(None),
            json: Cell::default(),
            json_array: Cell::default(),
            random: RefCell::default(),
            buffers: RefCell::default(),
            registered: RefCell::default(),
            panic: Cell::default(),
            is_debugged: Cell::new(false),
            debugger: Place::default(),
        }
    }

    /// Keeps the panic of a function; returns the error to raise instead.
    #[cold]
    pub(crate) fn keep_panic(&self, panic: Panic) -> Raise {
        self.panic.set(Some(panic));
        self.ended.set(Some(Ended::Panicked));
        Raise::error("a function of the server has failed")
    }

    /// The panic of a function that the script has called, if one has.
    pub(crate) fn take_panic(&self) -> Option<Panic> {
        self.panic.take()
    }

    /// The context of a state.
    #[inline]
    pub fn of<'s>(stack: &Stack<'s>) -> &'s Context {
        // SAFETY: `Interpreter` makes states with a pointer to their context, which outlives them.
        unsafe { &*Context::address(stack.state()) }
    }

    /// The address of the context of a state.
    ///
    /// # Safety
    /// The state is one of an `Interpreter`.
    unsafe fn address(state: *mut lua_State) -> *const Context {
        let mut data: *mut c_void = std::ptr::null_mut();
        // SAFETY: the state is alive; the function only writes the pointer that the state was made with.
        unsafe { lua_getallocf(state, &mut data) };
        data.cast()
    }

    /// Lends the host to the functions of the state for the time of `call`, in which scripts' limit on memory
    /// holds. `call` returns whatever happens in it.
    pub(crate) fn with_lent_host(&self, host: &mut dyn Host, call: impl FnOnce() -> c_int) -> c_int {
        let host: *mut (dyn Host + '_) = host;
        // SAFETY: only the lifetime changes; the host is taken back before this one ends.
        let host: *mut (dyn Host + 'static) = unsafe { std::mem::transmute(host) };
        let before = self.host.replace(Some(host));
        self.memory.set_bounded(true);
        let status = call();
        self.memory.set_bounded(false);
        self.host.set(before);
        status
    }

    /// Lets `work` use the host; `None` if no script runs, or within such work.
    #[inline]
    pub(crate) fn with_host<R>(&self, work: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
        let host = self.host.take()?;
        // SAFETY: it is lent by `with_lent_host`, and no other code can get it in this time, since it was
        // taken.
        let result = work(unsafe { &mut *host });
        self.host.set(Some(host));
        Some(result)
    }
}
