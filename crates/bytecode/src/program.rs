//! Programs, which compiled chunks become.
//!
//! Invariant: an operation has the index of the instruction that it was made of, so that jumps and lines are
//! those of the chunk. Every register, constant, upvalue, function and jump that an operation names is
//! there; [`crate::translate`] has checked it.

use crate::library::{Builtin, Library};
use crate::value::Value;

/// A translated script.
#[derive(Debug)]
pub struct Program {
    /// The first is the script.
    pub(crate) functions: Vec<Function>,
    /// The bytes of all constants that are strings.
    pub(crate) texts: Vec<u8>,
}

/// A function of a program.
#[derive(Debug)]
pub(crate) struct Function {
    pub ops: Vec<Op>,
    pub constants: Vec<Constant>,
    pub parameters: u8,
    /// Calls may pass more than its parameters, which it has as `...`.
    pub is_vararg: bool,
    pub max_stack: u8,
    /// Functions within it have some of its registers as upvalues.
    pub has_captures: bool,
    /// By [`Op::Closure`].
    pub closures: Vec<ClosureSite>,
    pub lines: Vec<u32>,
}

/// A constant, with its hash if it is a string.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Constant {
    pub value: Value,
    pub hash: u32,
}

/// Where a function becomes a value.
#[derive(Debug)]
pub(crate) struct ClosureSite {
    pub function: u32,
    pub captures: Vec<Capture>,
}

/// Where a function's upvalue comes from.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Capture {
    /// A register of the function around it.
    Register(u8),
    /// An upvalue of that function.
    Upvalue(u8),
}

/// A register, or a constant if [`IS_CONSTANT`] is set.
pub(crate) type Operand = u16;
pub(crate) const IS_CONSTANT: Operand = 256;

/// An operation of arithmetic.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Multiply,
    Divide,
    Modulo,
    Power,
}

/// An operation. The names of registers are those of Lua's instructions.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Op {
    Move {
        a: u8,
        b: u8,
    },
    Constant {
        a: u8,
        k: u32,
    },
    Boolean {
        a: u8,
        value: bool,
        skips: bool,
    },
    Nil {
        a: u8,
        b: u8,
    },
    Upvalue {
        a: u8,
        b: u8,
    },
    SetUpvalue {
        a: u8,
        b: u8,
    },
    /// `KEYS` or `ARGV` as a table.
    Inputs {
        a: u8,
        is_keys: bool,
    },
    /// An element of it, with the operation behind this one.
    Input {
        a: u8,
        is_keys: bool,
        index: u32,
    },
    /// Its length, with the operation behind this one.
    InputCount {
        a: u8,
        is_keys: bool,
    },
    Library {
        a: u8,
        library: Library,
    },
    Function {
        a: u8,
        function: Builtin,
    },
    /// A field of a library, with the operation behind this one.
    LibraryFunction {
        a: u8,
        function: Builtin,
    },
    Get {
        a: u8,
        b: u8,
        c: Operand,
    },
    Set {
        a: u8,
        b: Operand,
        c: Operand,
    },
    Table {
        a: u8,
        array: u16,
        nodes: u16,
    },
    Method {
        a: u8,
        b: u8,
        c: Operand,
    },
    Add {
        a: u8,
        b: Operand,
        c: Operand,
    },
    Subtract {
        a: u8,
        b: Operand,
        c: Operand,
    },
    Arithmetic {
        a: u8,
        b: Operand,
        c: Operand,
        how: Arithmetic,
    },
    Negate {
        a: u8,
        b: u8,
    },
    Not {
        a: u8,
        b: u8,
    },
    Len {
        a: u8,
        b: u8,
    },
    Concat {
        a: u8,
        b: u8,
        c: u8,
    },
    Jump {
        to: u32,
    },
    /// The jump behind it is taken if the comparison is as `wanted`.
    Equal {
        wanted: bool,
        b: Operand,
        c: Operand,
    },
    Less {
        wanted: bool,
        b: Operand,
        c: Operand,
    },
    LessOrEqual {
        wanted: bool,
        b: Operand,
        c: Operand,
    },
    Test {
        a: u8,
        wanted: bool,
    },
    TestSet {
        a: u8,
        b: u8,
        wanted: bool,
    },
    /// `b` is one more than the number of arguments, `c` of results; 0: up to the top.
    Call {
        a: u8,
        b: u16,
        c: u16,
    },
    Return {
        a: u8,
        b: u16,
    },
    ForPrepare {
        a: u8,
        to: u32,
    },
    ForLoop {
        a: u8,
        to: u32,
    },
    /// Calls the iterator.
    Iterate {
        a: u8,
        c: u8,
    },
    /// Goes back if that has found a value.
    IterateTest {
        a: u8,
        to: u32,
    },
    List {
        a: u8,
        b: u16,
        first: u32,
    },
    Close {
        a: u8,
    },
    Closure {
        a: u8,
        site: u16,
    },
    Vararg {
        a: u8,
        b: u16,
    },
    /// The data of the operation before it.
    Data,
}
