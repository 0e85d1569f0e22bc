//! `cmsgpack`: MessagePack, as Salvatore Sanfilippo's library of that name reads and writes it.

use std::ffi::c_int;

use martlet_lua::lua_CFunction;

use crate::api::step;
use crate::door::entry;
use crate::output::Output;
use crate::stack::{Kind, Raise, Results, Stack};

/// Tables nested deeper are written as nil, so that circles end.
const NESTED_MAX: usize = 16;

/// Pushes the table.
pub fn push(stack: &mut Stack<'_>) {
    let functions: &[(&str, lua_CFunction)] = &[
        ("pack", entry!(pack)),
        ("unpack", entry!(unpack)),
        ("unpack_one", entry!(unpack_one)),
        ("unpack_limit", entry!(unpack_limit)),
    ];
    let texts = [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ];
    stack.push_table(0, functions.len() + texts.len());
    stack.set_functions(functions);
    for (name, text) in texts {
        stack.push_bytes(text.as_bytes());
        stack.set_field(-2, name);
    }
}

fn pack(stack: &mut Stack<'_>) -> Results {
    let count = stack.top();
    if count == 0 {
        return Err(Raise::argument(0, "MessagePack pack needs input."));
    }
    if !stack.reserve(count) {
        return Err(Raise::argument(0, "Too many arguments for MessagePack pack."));
    }
    let (mut out, mut steps) = (Output::new(stack), 0);
    for index in 1..=count {
        stack.push_copy(index);
        write_value(stack, &mut out, &mut steps, 0)?;
    }
    stack.push_bytes(out.as_bytes());
    Ok(1)
}

/// Writes the value on top and drops it.
fn write_value(
    stack: &mut Stack<'_>,
    out: &mut Output<'_>,
    steps: &mut u32,
    depth: usize,
) -> Result<(), Raise> {
    step(stack, steps)?;
    match stack.kind(-1) {
        Kind::String => {
            let bytes = stack.bytes(-1).unwrap_or_default();
            match bytes.len() {
                len @ ..32 => out.push(0xa0 | len as u8)?,
                len => write_length(out, len, [Some(0xd9), Some(0xda), Some(0xdb)])?,
            }
            out.extend(bytes)?;
        }
        Kind::Boolean => out.push(if stack.truth(-1) { 0xc3 } else { 0xc2 })?,
        Kind::Number => write_number(out, stack.number(-1))?,
        Kind::Table if depth < NESTED_MAX => {
            if !stack.reserve(5) {
                return Err(Raise::error("stack overflow (in function mp_encode_lua_table)"));
            }
            write_table(stack, out, steps, depth)?;
        }
        _ => out.push(0xc0)?,
    }
    stack.pop(1);
    Ok(())
}

/// Writes a length of 8, 16 or 32 bits behind the code for it.
fn write_length(out: &mut Output<'_>, len: usize, codes: [Option<u8>; 3]) -> Result<(), Raise> {
    match (len, codes) {
        (..=0xff, [Some(code), ..]) => out.extend(&[code, len as u8]),
        (..=0xffff, [_, Some(code), _]) => {
            out.push(code)?;
            out.extend(&(len as u16).to_be_bytes())
        }
        (_, [.., code]) => {
            code.map_or(Ok(()), |code| out.push(code))?;
            out.extend(&(len as u32).to_be_bytes())
        }
    }
}

fn write_number(out: &mut Output<'_>, number: f64) -> Result<(), Raise> {
    let integer = crate::stack::to_integer(number);
    if integer as f64 == number {
        return write_integer(out, integer);
    }
    let single = number as f32;
    if f64::from(single) == number {
        out.push(0xca)?;
        out.extend(&single.to_be_bytes())
    } else {
        out.push(0xcb)?;
        out.extend(&number.to_be_bytes())
    }
}

fn write_integer(out: &mut Output<'_>, integer: i64) -> Result<(), Raise> {
    let (code, bytes) = match integer {
        -32..=127 => return out.push(integer as u8),
        128..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -0x80..=-33 => (0xd0, 1),
        -0x8000..=-0x81 => (0xd1, 2),
        -0x8000_0000..=-0x8001 => (0xd2, 4),
        ..=-0x8000_0001 => (0xd3, 8),
    };
    out.push(code)?;
    out.extend(&integer.to_be_bytes()[8 - bytes..])
}

fn write_table(
    stack: &mut Stack<'_>,
    out: &mut Output<'_>,
    steps: &mut u32,
    depth: usize,
) -> Result<(), Raise> {
    let table = stack.top();
    let (count, is_array) = measure(stack, table);
    if is_array {
        match count {
            ..16 => out.push(0x90 | count as u8)?,
            _ => write_length(out, count, [None, Some(0xdc), Some(0xdd)])?,
        }
        for element in 1..=count {
            stack.get_element(table, element as c_int);
            write_value(stack, out, steps, depth + 1)?;
        }
        return Ok(());
    }
    match count {
        ..16 => out.push(0x80 | count as u8)?,
        _ => write_length(out, count, [None, Some(0xde), Some(0xdf)])?,
    }
    stack.push_nil();
    while stack.next(table) {
        stack.push_copy(-2);
        write_value(stack, out, steps, depth + 1)?;
        write_value(stack, out, steps, depth + 1)?;
    }
    Ok(())
}

/// How many elements a table has, and whether their keys are 1 to that number.
fn measure(stack: &mut Stack<'_>, table: c_int) -> (usize, bool) {
    let (mut count, mut highest, mut is_array) = (0usize, 0f64, true);
    stack.push_nil();
    while stack.next(table) {
        stack.pop(1);
        let number = stack.number(-1);
        let is_index = stack.kind(-1) == Kind::Number && number > 0.0 && f64::from(number as i32) == number;
        is_array &= is_index;
        highest = highest.max(number);
        count += 1;
    }
    (count, is_array && highest == count as f64)
}

fn unpack(stack: &mut Stack<'_>) -> Results {
    read_all(stack, 0, 0)
}

fn unpack_one(stack: &mut Stack<'_>) -> Results {
    let offset = stack.optional_integer(2, 0)?;
    read_all(stack, 1, offset)
}

fn unpack_limit(stack: &mut Stack<'_>) -> Results {
    let limit = crate::stack::to_integer(stack.number_argument(2)?);
    let offset = stack.optional_integer(3, 0)?;
    read_all(stack, limit, offset)
}

/// The message of [`Malformed::Stack`].
const STACK_FULL: &str =
    "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)";

/// Why input cannot be read.
enum Malformed {
    Short,
    Format,
    /// There are too many values, or tables within each other.
    Stack,
    /// A key that no table can have.
    Key(&'static str),
    /// Something else is to be raised.
    Raised(Raise),
}

impl From<Raise> for Malformed {
    fn from(raise: Raise) -> Malformed {
        Malformed::Raised(raise)
    }
}

/// Pushes the values in the first argument; with a limit or an offset, at most that many values, behind the
/// next offset.
fn read_all(stack: &mut Stack<'_>, limit: i64, offset: i64) -> Results {
    // SAFETY: the first argument stays where it is: values are pushed and taken above it.
    let data = unsafe { stack.anchored_argument(1)? };
    let len = data.len();
    // Texts have 32 bits of it.
    let shown = offset as i32;
    if offset < 0 || limit < 0 {
        let text = format!("Invalid request to unpack with offset of {shown} and limit of {len}.");
        return Err(Raise::error(text));
    }
    let Some(mut rest) = data.get(offset as usize..) else {
        return Err(Raise::error(format!("Start offset {shown} greater than input length {len}.")));
    };
    let before = stack.top();
    let is_all = limit == 0 && offset == 0;
    let mut left = if is_all { i64::MAX } else { limit };
    let mut steps = 0;
    while !rest.is_empty() && left > 0 {
        let text = match read_value(stack, &mut rest, &mut steps) {
            Ok(()) => None,
            Err(Malformed::Raised(raise)) => return Err(raise),
            Err(Malformed::Short) => Some("Missing bytes in input."),
            Err(Malformed::Format) => Some("Bad data format in input."),
            Err(Malformed::Key(text)) => {
                stack.push_bytes(text.as_bytes());
                return Err(Raise::Top);
            }
            Err(Malformed::Stack) => Some(STACK_FULL),
        };
        if let Some(text) = text {
            return Err(Raise::error(text));
        }
        left -= 1;
    }
    if !is_all {
        let next = if rest.is_empty() { -1.0 } else { (len - rest.len()) as f64 };
        stack.push_number(next);
        stack.insert(before + 1);
    }
    Ok(stack.top() - before)
}

/// Takes this number of bytes.
fn take<'d>(rest: &mut &'d [u8], count: usize) -> Result<&'d [u8], Malformed> {
    let (taken, behind) = rest.split_at_checked(count).ok_or(Malformed::Short)?;
    *rest = behind;
    Ok(taken)
}

/// Takes an unsigned number of this many bytes.
fn take_number(rest: &mut &[u8], bytes: usize) -> Result<u64, Malformed> {
    Ok(take(rest, bytes)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// An array or a map whose values are being read.
enum Open {
    /// An array's next element, and its last.
    Array(usize, usize),
    /// Pairs of a map that are left, and whether the next value is a key's.
    Map(usize, bool),
}

/// Pushes a value. It is a loop, as the C stack is smaller than Lua's: the open tables are on Lua's stack, a
/// map's key above its table.
fn read_value(stack: &mut Stack<'_>, rest: &mut &[u8], steps: &mut u32) -> Result<(), Malformed> {
    let mut open = Vec::new();
    loop {
        step(stack, steps)?;
        if let Some(table) = begin_value(stack, rest)? {
            open.push(table);
        } else if !end_value(stack, &mut open)? {
            return Ok(());
        }
        // A table that is empty, or whose last value has been read, is a value itself.
        while open.last().is_some_and(Open::is_complete) {
            open.pop();
            if !end_value(stack, &mut open)? {
                return Ok(());
            }
        }
    }
}

impl Open {
    fn is_complete(&self) -> bool {
        match self {
            Open::Array(next, last) => next > last,
            Open::Map(left, _) => *left == 0,
        }
    }
}

/// Puts the value on top into the innermost table, or leaves it as that table's next key; false if none is
/// open.
fn end_value(stack: &mut Stack<'_>, open: &mut [Open]) -> Result<bool, Malformed> {
    match open.last_mut() {
        None => return Ok(false),
        Some(Open::Array(next, _)) => {
            stack.try_set_element(-2, c_int::try_from(*next).map_err(|_| Raise::Memory)?)?;
            *next += 1;
        }
        Some(Open::Map(_, is_value @ false)) => *is_value = true,
        Some(Open::Map(left, is_value)) => {
            if stack.kind(-2) == Kind::Nil {
                return Err(Malformed::Key("table index is nil"));
            }
            if stack.kind(-2) == Kind::Number && stack.number(-2).is_nan() {
                return Err(Malformed::Key("table index is NaN"));
            }
            stack.try_set(-3)?;
            *left -= 1;
            *is_value = false;
        }
    }
    Ok(true)
}

/// Pushes a value, or the table of one that has values.
fn begin_value(stack: &mut Stack<'_>, rest: &mut &[u8]) -> Result<Option<Open>, Malformed> {
    if !stack.reserve(1) {
        return Err(Malformed::Stack);
    }
    let code = take_number(rest, 1)? as u8;
    match code {
        0x00..=0x7f => stack.push_number(f64::from(code)),
        0xe0..=0xff => stack.push_number(f64::from(code as i8)),
        0xa0..=0xbf => stack.try_push_bytes(take(rest, usize::from(code & 0x1f))?)?,
        0x90..=0x9f => return begin_array(stack, rest, usize::from(code & 0xf)),
        0x80..=0x8f => return begin_map(stack, rest, usize::from(code & 0xf)),
        0xc0 => stack.push_nil(),
        0xc2 => stack.push_bool(false),
        0xc3 => stack.push_bool(true),
        0xcc..=0xcf => {
            // Beyond 63 bits they wrap, as Lua 5.1 has no unsigned integers.
            let number = take_number(rest, 1 << (code - 0xcc))?;
            stack.push_number(number as i64 as f64);
        }
        0xd0..=0xd3 => {
            let bytes = 1 << (code - 0xd0);
            let unused = 64 - 8 * bytes as u32;
            let number = take_number(rest, bytes)?;
            stack.push_number((((number << unused) as i64) >> unused) as f64);
        }
        0xca => stack.push_number(f64::from(f32::from_bits(take_number(rest, 4)? as u32))),
        0xcb => stack.push_number(f64::from_bits(take_number(rest, 8)?)),
        0xd9..=0xdb => {
            let len = take_number(rest, 1 << (code - 0xd9))? as usize;
            stack.try_push_bytes(take(rest, len)?)?;
        }
        0xdc | 0xdd => {
            let len = take_number(rest, 2 << (code - 0xdc))? as usize;
            return begin_array(stack, rest, len);
        }
        0xde | 0xdf => {
            let len = take_number(rest, 2 << (code - 0xde))? as usize;
            return begin_map(stack, rest, len);
        }
        _ => return Err(Malformed::Format),
    }
    Ok(None)
}

fn begin_array(stack: &mut Stack<'_>, rest: &[u8], len: usize) -> Result<Option<Open>, Malformed> {
    // Each element takes a byte at least.
    stack.try_push_table(len.min(rest.len()), 0)?;
    Ok(Some(Open::Array(1, len)))
}

fn begin_map(stack: &mut Stack<'_>, rest: &[u8], len: usize) -> Result<Option<Open>, Malformed> {
    stack.try_push_table(0, len.min(rest.len()))?;
    Ok(Some(Open::Map(len, false)))
}
