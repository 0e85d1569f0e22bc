//! `bit`: operations on 32 bits, as those of BitOp.

use std::ffi::c_int;

use martlet_lua::lua_CFunction;

use crate::door::entry;
use crate::stack::{Kind, Raise, Results, Stack};

/// Pushes the table.
pub fn push(stack: &mut Stack<'_>) {
    let functions: &[(&str, lua_CFunction)] = &[
        ("tobit", entry!(tobit)),
        ("bnot", entry!(bnot)),
        ("band", entry!(band)),
        ("bor", entry!(bor)),
        ("bxor", entry!(bxor)),
        ("lshift", entry!(lshift)),
        ("rshift", entry!(rshift)),
        ("arshift", entry!(arshift)),
        ("rol", entry!(rol)),
        ("ror", entry!(ror)),
        ("bswap", entry!(bswap)),
        ("tohex", entry!(tohex)),
    ];
    stack.push_table(0, functions.len());
    stack.set_functions(functions);
}

/// An argument's low 32 bits: rounded to an integer, and wrapped.
fn bits(stack: &Stack<'_>, index: c_int) -> Result<u32, Raise> {
    /// Added to a double below 2^51, it leaves the integer in the mantissa's low bits.
    const SHIFT: f64 = (1u64 << 52) as f64 + (1u64 << 51) as f64;
    Ok((stack.number_argument(index)? + SHIFT).to_bits() as u32)
}

fn answer(stack: &mut Stack<'_>, bits: u32) -> Results {
    stack.push_number(f64::from(bits as i32));
    Ok(1)
}

fn tobit(stack: &mut Stack<'_>) -> Results {
    let bits = bits(stack, 1)?;
    answer(stack, bits)
}

fn bnot(stack: &mut Stack<'_>) -> Results {
    let bits = bits(stack, 1)?;
    answer(stack, !bits)
}

fn bswap(stack: &mut Stack<'_>) -> Results {
    let bits = bits(stack, 1)?;
    answer(stack, bits.swap_bytes())
}

/// All arguments put together, from the last to the first.
fn fold(stack: &mut Stack<'_>, operation: fn(u32, u32) -> u32) -> Results {
    let mut all = bits(stack, 1)?;
    for index in (2..=stack.top()).rev() {
        all = operation(all, bits(stack, index)?);
    }
    answer(stack, all)
}

fn band(stack: &mut Stack<'_>) -> Results {
    fold(stack, |a, b| a & b)
}

fn bor(stack: &mut Stack<'_>) -> Results {
    fold(stack, |a, b| a | b)
}

fn bxor(stack: &mut Stack<'_>) -> Results {
    fold(stack, |a, b| a ^ b)
}

fn shift(stack: &mut Stack<'_>, operation: fn(u32, u32) -> u32) -> Results {
    let (value, by) = (bits(stack, 1)?, bits(stack, 2)? & 31);
    answer(stack, operation(value, by))
}

fn lshift(stack: &mut Stack<'_>) -> Results {
    shift(stack, |value, by| value << by)
}

fn rshift(stack: &mut Stack<'_>) -> Results {
    shift(stack, |value, by| value >> by)
}

fn arshift(stack: &mut Stack<'_>) -> Results {
    shift(stack, |value, by| (value as i32 >> by) as u32)
}

fn rol(stack: &mut Stack<'_>) -> Results {
    shift(stack, u32::rotate_left)
}

fn ror(stack: &mut Stack<'_>) -> Results {
    shift(stack, u32::rotate_right)
}

fn tohex(stack: &mut Stack<'_>) -> Results {
    let value = bits(stack, 1)?;
    let digits = if stack.kind(2) == Kind::None { 8 } else { bits(stack, 2)? as i32 };
    let all = if digits < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    let shown = digits.unsigned_abs().min(8) as usize;
    stack.push_bytes(&all.as_bytes()[8 - shown..]);
    Ok(1)
}
