//! A thread's machine, and the state of a run on it.
//!
//! Invariant: a run leaves nothing in its machine but the answers to its calls, and room for the next run.

use martlet_protocol::request::Span;

use crate::Inputs;
use crate::number;
use crate::program::{Function, IS_CONSTANT, Operand, Program};
use crate::server::Called;
use crate::server::Server;
use crate::stop::{Reason, Stop};
use crate::table::{Key, Table, Tables};
use crate::value::{Text, Texts, Value};

/// Operations between two questions to the server whether the script may continue: as often as Lua asks.
pub const INTERRUPT_OPERATIONS: u32 = 100_000;

/// Values that a call may pass or return, beyond a function's registers.
pub(crate) const VALUES_MAX: usize = 1000;
/// Bytes of texts.
const ARENA_MAX_BYTES: usize = 32 << 20;
/// Memory of each buffer that stays for the next run.
const KEPT_BYTES: usize = 64 << 10;

/// A call of a command that a run has made.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Recorded {
    /// Where the reply is in the arena.
    pub start: u32,
    pub end: u32,
    pub called: Called,
    /// It would have taken more memory than scripts have.
    pub is_full: bool,
    /// Number of arguments, and their bytes.
    pub arguments: u32,
    pub argument_bytes: u32,
}

/// A function of the script as a value.
#[derive(Debug)]
pub(crate) struct Closure {
    pub function: u32,
    /// Its first upvalue's place among all.
    pub first: u32,
}

/// An upvalue.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Upvalue {
    /// A register that is in use, by its place on the stack.
    Open(u32),
    Closed(Value),
}

/// A function that waits for one that it has called.
#[derive(Debug)]
pub(crate) struct Frame {
    pub function: u32,
    pub pc: u32,
    pub base: u32,
    pub closure: u32,
    /// Arguments beyond the parameters.
    pub extra: u32,
    /// Where the called function was, and its results go.
    pub at: u32,
    pub wanted: u16,
    /// It was called by `pcall`.
    pub is_protected: bool,
}

/// One thread's machine: room for runs.
#[derive(Debug, Default)]
pub struct Machine {
    pub(crate) stack: Vec<Value>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) closures: Vec<Closure>,
    /// The upvalues of closures, one behind the other.
    pub(crate) captured: Vec<u32>,
    pub(crate) upvalues: Vec<Upvalue>,
    pub(crate) open: Vec<u32>,
    pub(crate) tables: Tables,
    arena: Vec<u8>,
    pub(crate) arguments: Vec<u8>,
    pub(crate) spans: Vec<Span>,
    pub(crate) recorded: Vec<Recorded>,
    pub(crate) logged: usize,
}

impl Machine {
    /// Bytes that it keeps between runs.
    pub fn used_bytes(&self) -> usize {
        self.stack.capacity() * size_of::<Value>() + self.arena.capacity() + self.arguments.capacity()
    }

    /// Forgets the run, but for some memory.
    pub(crate) fn clear(&mut self) {
        self.tables.clear();
        self.frames.clear();
        self.closures.clear();
        self.captured.clear();
        self.upvalues.clear();
        self.open.clear();
        self.recorded.clear();
        self.logged = 0;
        for buffer in [&mut self.arena, &mut self.arguments] {
            buffer.clear();
            if buffer.capacity() > KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
        if self.stack.len() > KEPT_BYTES / size_of::<Value>() {
            self.stack = Vec::new();
        }
        if self.spans.capacity() > KEPT_BYTES / size_of::<Span>() {
            self.spans = Vec::new();
        }
        if self.recorded.capacity() > KEPT_BYTES / size_of::<Recorded>() {
            self.recorded = Vec::new();
        }
    }

    /// The texts that the run has made, among them the replies to its calls.
    pub(crate) fn arena(&self) -> &[u8] {
        &self.arena
    }
}

/// A run.
pub(crate) struct Run<'r> {
    pub program: &'r Program,
    pub server: &'r mut dyn Server,
    pub texts: Texts<'r>,
    pub machine: &'r mut Machine,
    /// The function that runs, its number, and the closure that it is.
    pub function: &'r Function,
    pub number: u32,
    pub closure: u32,
    pub base: usize,
    pub pc: usize,
    pub extra: usize,
    /// The end of values whose number was open.
    pub top: usize,
    pub ticks: u32,
    pub keys: Option<u32>,
    pub argv: Option<u32>,
    /// Calls by `pcall` that have not returned.
    pub protected: usize,
    /// Bytes that a reply may have.
    pub reply_max_bytes: usize,
    /// Whether `cjson` has the settings that it begins with.
    pub has_plain_json: bool,
}

impl<'r> Run<'r> {
    /// A run of the program's first function. `machine` has no other.
    pub fn new(
        program: &'r Program,
        machine: &'r mut Machine,
        inputs: Inputs<'r>,
        server: &'r mut dyn Server,
    ) -> Run<'r> {
        let texts = Texts {
            constants: &program.texts,
            keys: inputs.keys,
            args: inputs.args,
            arena: std::mem::take(&mut machine.arena),
        };
        Run {
            program,
            server,
            texts,
            machine,
            function: &program.functions[0],
            number: 0,
            closure: u32::MAX,
            base: 1,
            pc: 0,
            extra: 0,
            top: 0,
            ticks: INTERRUPT_OPERATIONS,
            keys: None,
            argv: None,
            protected: 0,
            reply_max_bytes: inputs.reply_max_bytes,
            has_plain_json: inputs.has_plain_json,
        }
    }

    /// Gives the texts back to the machine.
    pub fn end(self) {
        self.machine.arena = self.texts.arena;
    }

    /// Makes the stack at least this long.
    #[inline]
    pub fn reserve(&mut self, len: usize) {
        // A function of the library has room for some results.
        if self.machine.stack.len() < len + 24 {
            self.machine.stack.resize(len + 64, Value::Nil);
        }
    }

    #[inline]
    pub fn at(&self, place: usize) -> Value {
        self.machine.stack[place]
    }

    #[inline]
    pub fn put(&mut self, place: usize, value: Value) {
        self.machine.stack[place] = value;
    }

    #[inline]
    pub fn register(&self, register: u8) -> Value {
        self.machine.stack[self.base + usize::from(register)]
    }

    /// Sets a register.
    #[inline]
    pub fn set(&mut self, register: u8, value: Value) {
        self.machine.stack[self.base + usize::from(register)] = value;
    }

    #[inline]
    pub fn operand(&self, operand: Operand) -> Value {
        if operand & IS_CONSTANT != 0 {
            self.function.constants[usize::from(operand & !IS_CONSTANT)].value
        } else {
            self.machine.stack[self.base + usize::from(operand)]
        }
    }

    /// An operand as a key; constants know their hash.
    #[inline]
    pub fn key(&self, operand: Operand) -> Key {
        if operand & IS_CONSTANT != 0 {
            let constant = self.function.constants[usize::from(operand & !IS_CONSTANT)];
            Key { value: constant.value, hash: constant.hash }
        } else {
            Key::new(self.machine.stack[self.base + usize::from(operand)], &self.texts)
        }
    }

    /// Counts the bytes of a long text that an operation reads as operations, so that the server is asked as
    /// often in time whatever the texts' length.
    #[inline]
    pub fn spend_on(&mut self, value: Value) {
        const SHORT_MAX: u32 = 1 << 10;
        const BYTES_PER_OPERATION: u32 = 64;
        if let Value::Text(text) = value
            && text.len > SHORT_MAX
        {
            // The next operation asks at the latest.
            self.ticks = self.ticks.saturating_sub(text.len / BYTES_PER_OPERATION).max(1);
        }
    }

    /// Leaves what makes many texts to Lua, which collects its garbage.
    #[inline]
    pub fn check_memory(&self) -> Result<(), Stop> {
        if self.texts.arena.len() > ARENA_MAX_BYTES { Err(Stop::Leave(Reason::Memory)) } else { Ok(()) }
    }

    // ---- values ----

    /// The number of an operand of arithmetic.
    #[inline]
    pub fn number(&self, value: Value) -> Result<f64, Stop> {
        match value {
            Value::Number(number) => Ok(number),
            Value::Text(text) => number::parse(self.texts.bytes(text))?.ok_or(Stop::Leave(Reason::Type)),
            _ => Err(Stop::Leave(Reason::Type)),
        }
    }

    /// What `#` says.
    pub fn len(&self, value: Value) -> Result<usize, Stop> {
        match value {
            Value::Text(text) => Ok(text.len as usize),
            Value::Table(table) => self.machine.tables.at(table).len(&self.texts),
            _ => Err(Stop::Leave(Reason::Type)),
        }
    }

    /// The table of a value.
    #[inline]
    pub fn table(&self, value: Value) -> Result<&Table, Stop> {
        match value {
            Value::Table(table) => Ok(self.machine.tables.at(table)),
            _ => Err(Stop::Leave(Reason::Type)),
        }
    }

    /// Sets an element of a table.
    #[inline]
    pub fn set_field(&mut self, table: Value, key: Key, value: Value) -> Result<(), Stop> {
        let Value::Table(number) = table else { return Err(Stop::Leave(Reason::Type)) };
        let (table, cells) = self.machine.tables.at_mut(number);
        table.set(key, value, &self.texts, cells)
    }

    /// A table with a text by a name.
    pub fn named(&mut self, name: &[u8], text: Text) -> Result<u32, Stop> {
        let number = self.machine.tables.add(0, 1)?;
        let name = self.texts.push(name);
        let key = Key::new(Value::Text(name), &self.texts);
        self.set_field(Value::Table(number), key, Value::Text(text))?;
        Ok(number)
    }

    /// Appends a string or number to the arena, as `..` writes it.
    #[inline]
    pub fn append(&mut self, value: Value) -> Result<(), Stop> {
        match value {
            Value::Text(text) => {
                self.texts.append(text);
                Ok(())
            }
            Value::Number(number) => number::push_text(&mut self.texts.arena, number),
            _ => Err(Stop::Leave(Reason::Type)),
        }
    }

    /// Whether an error would be caught.
    pub fn is_protected(&self) -> bool {
        self.protected > 0
    }

    /// The line of the operation that runs.
    pub fn line(&self) -> u32 {
        self.function.lines.get(self.pc.saturating_sub(1)).copied().unwrap_or_default()
    }
}
