//! Compiled chunks become programs, if the subset has all that they use.
//!
//! Invariant: an instruction that names something which is not there makes no program, so that running one
//! needs no check.

use std::fmt;

use crate::chunk::{self, Prototype};
use crate::library::{Field, Global, global};
use crate::program::{
    Arithmetic, Capture, ClosureSite, Constant, Function, IS_CONSTANT, Op, Operand, Program,
};
use crate::value::{Source, Text, Value, hash};

/// Why a chunk makes no program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// It is no chunk of Lua's compiler.
    Malformed,
    /// A global, or a field of one, that the subset does not have.
    Name(String),
    /// Assignment to a global.
    GlobalAssignment,
    /// The table `arg` of a function with `...`.
    ArgTable,
    /// Too large.
    Size,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsupported::Malformed => out.write_str("malformed"),
            Unsupported::Name(name) => write!(out, "uses {name}"),
            Unsupported::GlobalAssignment => out.write_str("assigns a global"),
            Unsupported::ArgTable => out.write_str("uses the table arg"),
            Unsupported::Size => out.write_str("is too large"),
        }
    }
}

/// Strings of a program's constants, in bytes.
const TEXTS_MAX_BYTES: usize = 16 << 20;

/// Makes a program of a chunk as `lua_dump` writes it.
///
/// # Errors
/// The part that the subset lacks.
pub fn translate(chunk: &[u8]) -> Result<Program, Unsupported> {
    let main = chunk::read(chunk).ok_or(Unsupported::Malformed)?;
    if main.upvalues > 0 {
        return Err(Unsupported::Name("an upvalue".into()));
    }
    let mut program = Program { functions: Vec::new(), texts: Vec::new() };
    add_function(&mut program, &main)?;
    Ok(program)
}

/// An instruction's parts.
#[derive(Copy, Clone)]
struct Instruction(u32);

impl Instruction {
    fn code(self) -> u32 {
        self.0 & 63
    }
    fn a(self) -> u8 {
        (self.0 >> 6) as u8
    }
    fn b(self) -> u16 {
        (self.0 >> 23) as u16
    }
    fn c(self) -> u16 {
        (self.0 >> 14) as u16 & 511
    }
    fn bx(self) -> u32 {
        self.0 >> 14
    }
    /// How far it jumps from the next instruction.
    fn jump(self) -> i64 {
        i64::from(self.bx()) - 131_071
    }
}

const OP_MOVE: u32 = 0;
const OP_GETUPVAL: u32 = 4;
const OP_GETTABLE: u32 = 6;
const OP_LEN: u32 = 20;
const OP_JMP: u32 = 22;
const OP_RETURN: u32 = 30;

/// A function that is being translated.
struct Translator<'p> {
    prototype: &'p Prototype,
    constants: Vec<Constant>,
    /// Numbers of the functions within it.
    children: Vec<u32>,
    closures: Vec<ClosureSite>,
    has_captures: bool,
}

type Translated<T> = Result<T, Unsupported>;

fn add_function(program: &mut Program, prototype: &Prototype) -> Translated<u32> {
    let number = program.functions.len();
    // A function that has `...` and does not use it makes the table `arg`.
    if prototype.vararg & 4 != 0 {
        return Err(Unsupported::ArgTable);
    }
    let is_sound = prototype.parameters <= prototype.max_stack
        && (2..=250).contains(&prototype.max_stack)
        && prototype.lines.len() == prototype.code.len()
        && prototype.code.last().is_some_and(|last| Instruction(*last).code() == OP_RETURN);
    if !is_sound {
        return Err(Unsupported::Malformed);
    }
    program.functions.push(Function {
        ops: Vec::new(),
        constants: Vec::new(),
        parameters: prototype.parameters,
        is_vararg: prototype.vararg & 2 != 0,
        max_stack: prototype.max_stack,
        has_captures: false,
        closures: Vec::new(),
        lines: prototype.lines.clone(),
    });
    let children = prototype.prototypes.iter().map(|child| add_function(program, child));
    let children = children.collect::<Translated<Vec<u32>>>()?;
    let constants = prototype.constants.iter().map(|constant| add_constant(program, constant));
    let constants = constants.collect::<Translated<Vec<Constant>>>()?;
    let mut translator =
        Translator { prototype, constants, children, closures: Vec::new(), has_captures: false };
    let ops = translator.ops(&program.texts)?;
    let Translator { constants, closures, has_captures, .. } = translator;
    let function = &mut program.functions[number];
    (function.ops, function.constants) = (ops, constants);
    (function.closures, function.has_captures) = (closures, has_captures);
    Ok(number as u32)
}

fn add_constant(program: &mut Program, constant: &chunk::Constant) -> Translated<Constant> {
    let mut text_hash = 0;
    let value = match constant {
        chunk::Constant::Nil => Value::Nil,
        chunk::Constant::Boolean(value) => Value::Boolean(*value),
        chunk::Constant::Number(number) => Value::Number(*number),
        chunk::Constant::String(bytes) => {
            let start = program.texts.len();
            if start + bytes.len() > TEXTS_MAX_BYTES {
                return Err(Unsupported::Size);
            }
            program.texts.extend_from_slice(bytes);
            text_hash = hash(bytes);
            Value::Text(Text { source: Source::Constant, start: start as u32, len: bytes.len() as u32 })
        }
    };
    Ok(Constant { value, hash: text_hash })
}

impl Translator<'_> {
    fn instruction(&self, at: usize) -> Option<Instruction> {
        self.prototype.code.get(at).map(|code| Instruction(*code))
    }

    fn ops(&mut self, texts: &[u8]) -> Translated<Vec<Op>> {
        let mut ops = Vec::with_capacity(self.prototype.code.len());
        while let Some(instruction) = self.instruction(ops.len()) {
            self.add(&mut ops, instruction, texts)?;
        }
        Ok(ops)
    }

    /// A register, with `more` behind it, which must all be there.
    fn registers(&self, first: u16, more: u16) -> Translated<u8> {
        let last = first.checked_add(more).ok_or(Unsupported::Malformed)?;
        if last < u16::from(self.prototype.max_stack) { Ok(first as u8) } else { Err(Unsupported::Malformed) }
    }

    fn register(&self, register: u16) -> Translated<u8> {
        self.registers(register, 0)
    }

    fn operand(&self, operand: u16) -> Translated<Operand> {
        match operand & IS_CONSTANT != 0 {
            true => self.constant(u32::from(operand & !IS_CONSTANT)).map(|_| operand),
            false => self.register(operand).map(Operand::from),
        }
    }

    fn constant(&self, index: u32) -> Translated<u32> {
        if (index as usize) < self.constants.len() { Ok(index) } else { Err(Unsupported::Malformed) }
    }

    /// The bytes of a constant that is a string.
    fn name<'t>(&self, index: u32, texts: &'t [u8]) -> Translated<&'t [u8]> {
        match self.constants.get(index as usize).map(|constant| constant.value) {
            Some(Value::Text(text)) => Ok(&texts[text.start as usize..][..text.len as usize]),
            _ => Err(Unsupported::Malformed),
        }
    }

    /// Where a jump of an instruction at `at` leads.
    fn target(&self, at: usize, jump: i64) -> Translated<u32> {
        let to = at as i64 + 1 + jump;
        let code = &self.prototype.code;
        if to >= 0 && (to as usize) < code.len() { Ok(to as u32) } else { Err(Unsupported::Malformed) }
    }

    /// The instruction behind `at`, which must be a jump.
    fn jump_behind(&self, at: usize) -> Translated<Instruction> {
        let next = self.instruction(at + 1).filter(|next| next.code() == OP_JMP);
        next.ok_or(Unsupported::Malformed)
    }

    /// The number of values from `a` on that a count, one more than it, says; 0 is up to the top.
    fn values(&self, a: u8, count: u16) -> Translated<u16> {
        if count > 1 {
            self.registers(u16::from(a), count - 2)?;
        }
        Ok(count)
    }

    /// Translates the instruction that is next, with those that belong to it.
    fn add(&mut self, ops: &mut Vec<Op>, instruction: Instruction, texts: &[u8]) -> Translated<()> {
        let at = ops.len();
        let a = self.register(u16::from(instruction.a()));
        let (b, c) = (instruction.b(), instruction.c());
        let op = match instruction.code() {
            OP_MOVE => Op::Move { a: a?, b: self.register(b)? },
            1 => Op::Constant { a: a?, k: self.constant(instruction.bx())? },
            2 => {
                // The skipped instruction is of the same kind.
                self.target(at, i64::from(c != 0))?;
                Op::Boolean { a: a?, value: b != 0, skips: c != 0 }
            }
            3 => Op::Nil { a: a?, b: self.register(b)? },
            OP_GETUPVAL => Op::Upvalue { a: a?, b: self.upvalue(b)? },
            5 => self.global(at, a?, self.name(instruction.bx(), texts)?, texts)?,
            OP_GETTABLE => Op::Get { a: a?, b: self.register(b)?, c: self.operand(c)? },
            7 => return Err(Unsupported::GlobalAssignment),
            8 => Op::SetUpvalue { a: a?, b: self.upvalue(b)? },
            9 => Op::Set { a: a?, b: self.operand(b)?, c: self.operand(c)? },
            10 => Op::Table { a: a?, array: small(b)?, nodes: small(c)? },
            11 => {
                let a = self.registers(u16::from(a?), 1)?;
                Op::Method { a, b: self.register(b)?, c: self.operand(c)? }
            }
            code @ 12..=17 => self.arithmetic(code, a?, b, c)?,
            18 => Op::Negate { a: a?, b: self.register(b)? },
            19 => Op::Not { a: a?, b: self.register(b)? },
            OP_LEN => Op::Len { a: a?, b: self.register(b)? },
            21 if b <= c => Op::Concat { a: a?, b: self.register(b)?, c: self.register(c)? },
            OP_JMP => Op::Jump { to: self.target(at, instruction.jump())? },
            code @ 23..=27 => self.test(at, code, instruction)?,
            28 | 29 => self.call(a?, instruction)?,
            OP_RETURN => {
                Op::Return { a: self.first_of(instruction.a(), b)?, b: self.values(instruction.a(), b)? }
            }
            31 => {
                Op::ForLoop { a: self.registers(u16::from(a?), 3)?, to: self.target(at, instruction.jump())? }
            }
            32 => Op::ForPrepare {
                a: self.registers(u16::from(a?), 3)?,
                to: self.target(at, instruction.jump())?,
            },
            33 => return self.iterate(ops, instruction),
            34 => return self.list(ops, instruction),
            35 => Op::Close { a: a? },
            36 => return self.closure(ops, instruction),
            37 => Op::Vararg { a: a?, b: self.values(instruction.a(), b)? },
            _ => return Err(Unsupported::Malformed),
        };
        ops.push(op);
        Ok(())
    }

    /// The first register of results, which need not be there if there are none.
    fn first_of(&self, a: u8, count: u16) -> Translated<u8> {
        if count == 1 { Ok(a) } else { self.register(u16::from(a)) }
    }

    fn upvalue(&self, index: u16) -> Translated<u8> {
        let is_there = index < u16::from(self.prototype.upvalues);
        if is_there { Ok(index as u8) } else { Err(Unsupported::Malformed) }
    }

    /// A global, with the instruction behind it if that takes a part of it.
    fn global(&self, at: usize, a: u8, name: &[u8], texts: &[u8]) -> Translated<Op> {
        let Some(global) = global(name) else {
            return Err(Unsupported::Name(String::from_utf8_lossy(name).into_owned()));
        };
        // That the register is used once and replaced holds for the next instruction alone.
        let next = self.instruction(at + 1).filter(|next| next.a() == a && next.b() == u16::from(a));
        let part = next.filter(|next| next.code() == OP_GETTABLE && next.c() & IS_CONSTANT != 0);
        let is_len = next.is_some_and(|next| next.code() == OP_LEN);
        let part = part.map(|next| u32::from(next.c() & !IS_CONSTANT));
        Ok(match global {
            Global::Keys | Global::Argv => {
                let is_keys = global == Global::Keys;
                let value = part.and_then(|part| self.constants.get(part as usize));
                match value.map(|constant| constant.value) {
                    Some(Value::Number(index)) if index.fract() == 0.0 && (1.0..1e6).contains(&index) => {
                        Op::Input { a, is_keys, index: index as u32 }
                    }
                    _ if is_len => Op::InputCount { a, is_keys },
                    _ => Op::Inputs { a, is_keys },
                }
            }
            Global::Function(function) => Op::Function { a, function },
            Global::Library(library) => {
                let Some(part) = part else { return self.loaded_library(at, a, library, texts) };
                let name = self.name(part, texts)?;
                match library.field(name) {
                    Some(Field::Function(function)) => Op::LibraryFunction { a, function },
                    Some(_) => Op::Library { a, library },
                    None => return Err(unknown_field(library.name(), name)),
                }
            }
        })
    }

    /// A library that is put somewhere: its fields are looked up as the script runs. Those that the next
    /// instruction names must be there.
    fn loaded_library(
        &self,
        at: usize,
        a: u8,
        library: crate::library::Library,
        texts: &[u8],
    ) -> Translated<Op> {
        let next = self.instruction(at + 1).filter(|next| next.code() == OP_GETTABLE);
        if let Some(next) = next.filter(|next| next.b() == u16::from(a) && next.c() & IS_CONSTANT != 0) {
            let name = self.name(u32::from(next.c() & !IS_CONSTANT), texts)?;
            if library.field(name).is_none() {
                return Err(unknown_field(library.name(), name));
            }
        }
        Ok(Op::Library { a, library })
    }

    fn arithmetic(&self, code: u32, a: u8, b: u16, c: u16) -> Translated<Op> {
        let (b, c) = (self.operand(b)?, self.operand(c)?);
        let how = match code {
            12 => return Ok(Op::Add { a, b, c }),
            13 => return Ok(Op::Subtract { a, b, c }),
            14 => Arithmetic::Multiply,
            15 => Arithmetic::Divide,
            16 => Arithmetic::Modulo,
            _ => Arithmetic::Power,
        };
        Ok(Op::Arithmetic { a, b, c, how })
    }

    /// A comparison or test, behind which a jump stands.
    fn test(&self, at: usize, code: u32, instruction: Instruction) -> Translated<Op> {
        self.jump_behind(at)?;
        // The instruction behind the jump.
        self.target(at, 1)?;
        let (a, b, c) = (instruction.a(), instruction.b(), instruction.c());
        let wanted = a != 0;
        Ok(match code {
            23 => Op::Equal { wanted, b: self.operand(b)?, c: self.operand(c)? },
            24 => Op::Less { wanted, b: self.operand(b)?, c: self.operand(c)? },
            25 => Op::LessOrEqual { wanted, b: self.operand(b)?, c: self.operand(c)? },
            26 => Op::Test { a: self.register(u16::from(a))?, wanted: c != 0 },
            _ => Op::TestSet { a: self.register(u16::from(a))?, b: self.register(b)?, wanted: c != 0 },
        })
    }

    fn call(&self, a: u8, instruction: Instruction) -> Translated<Op> {
        let (b, c) = (instruction.b(), instruction.c());
        if b > 1 {
            self.registers(u16::from(a), b - 1)?;
        }
        Ok(Op::Call { a, b, c: self.values(a, c)? })
    }

    /// The call of an iterator, and the jump behind it.
    fn iterate(&self, ops: &mut Vec<Op>, instruction: Instruction) -> Translated<()> {
        let at = ops.len();
        let a = self.registers(u16::from(instruction.a()), 5)?;
        let c = instruction.c();
        if c == 0 {
            return Err(Unsupported::Malformed);
        }
        self.registers(u16::from(a) + 3, c - 1)?;
        let jump = self.jump_behind(at)?;
        self.target(at + 1, 0)?;
        ops.push(Op::Iterate { a, c: c as u8 });
        ops.push(Op::IterateTest { a, to: self.target(at + 1, jump.jump())? });
        Ok(())
    }

    /// Elements of a table's constructor; the number of the first may stand behind it.
    fn list(&self, ops: &mut Vec<Op>, instruction: Instruction) -> Translated<()> {
        const FIELDS_PER_FLUSH: u32 = 50;
        let (b, c) = (instruction.b(), instruction.c());
        let a = self.registers(u16::from(instruction.a()), b)?;
        let part = match c {
            0 => self.prototype.code.get(ops.len() + 1).copied().ok_or(Unsupported::Malformed)?,
            c => u32::from(c),
        };
        let first = part.checked_sub(1).and_then(|part| part.checked_mul(FIELDS_PER_FLUSH));
        ops.push(Op::List { a, b, first: first.filter(|first| *first < 1 << 20).ok_or(Unsupported::Size)? });
        if c == 0 {
            ops.push(Op::Data);
        }
        Ok(())
    }

    /// A function, and behind it where its upvalues come from.
    fn closure(&mut self, ops: &mut Vec<Op>, instruction: Instruction) -> Translated<()> {
        let (a, child) = (self.register(u16::from(instruction.a()))?, instruction.bx() as usize);
        let function = *self.children.get(child).ok_or(Unsupported::Malformed)?;
        let count = self.prototype.prototypes.get(child).map_or(0, |child| usize::from(child.upvalues));
        let mut captures = Vec::with_capacity(count);
        for behind in 1..=count {
            let source = self.instruction(ops.len() + behind).ok_or(Unsupported::Malformed)?;
            captures.push(match source.code() {
                OP_MOVE => Capture::Register(self.register(source.b())?),
                OP_GETUPVAL => Capture::Upvalue(self.upvalue(source.b())?),
                _ => return Err(Unsupported::Malformed),
            });
        }
        self.has_captures |= captures.iter().any(|capture| matches!(capture, Capture::Register(_)));
        let site = u16::try_from(self.closures.len()).map_err(|_| Unsupported::Size)?;
        self.closures.push(ClosureSite { function, captures });
        ops.push(Op::Closure { a, site });
        ops.extend((0..count).map(|_| Op::Data));
        Ok(())
    }
}

fn unknown_field(library: &str, name: &[u8]) -> Unsupported {
    Unsupported::Name(format!("{library}.{}", String::from_utf8_lossy(name)))
}

/// The size that a constructor's byte stands for: three bits of mantissa, the rest an exponent.
fn small(byte: u16) -> Translated<u16> {
    let exponent = u32::from(byte >> 3);
    let size = match exponent {
        0 => u32::from(byte),
        1..=12 => (u32::from(byte & 7) + 8) << (exponent - 1),
        _ => return Err(Unsupported::Size),
    };
    u16::try_from(size).map_err(|_| Unsupported::Size)
}
