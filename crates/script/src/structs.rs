//! `struct`: binary records by a format, as Roberto Ierusalimschy's library of that name has them.

use std::ffi::c_int;

use martlet_lua::lua_CFunction;

use crate::api::step;
use crate::door::entry;
use crate::output::Output;
use crate::stack::{Raise, Results, Stack, to_integer};

/// Longest integer, in bytes.
const INTEGER_MAX_BYTES: usize = 32;
/// Alignment that `!` alone asks for.
const ALIGNMENT: usize = 8;

/// Pushes the table.
pub fn push(stack: &mut Stack<'_>) {
    let functions: &[(&str, lua_CFunction)] =
        &[("pack", entry!(pack)), ("unpack", entry!(unpack)), ("size", entry!(size))];
    stack.push_table(0, functions.len());
    stack.set_functions(functions);
}

/// One item of a format.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Item {
    Integer {
        signed: bool,
        bytes: usize,
    },
    Padding,
    Float,
    Double,
    /// 0 bytes: as long as the value, or as an integer before it says.
    Chars(usize),
    /// Ends with a zero.
    Text,
    /// Nothing in the data.
    Nothing,
}

impl Item {
    /// Bytes that it takes, as far as the format says.
    fn bytes(self) -> usize {
        match self {
            Item::Integer { bytes, .. } | Item::Chars(bytes) => bytes,
            Item::Padding => 1,
            Item::Float => 4,
            Item::Double => 8,
            Item::Text | Item::Nothing => 0,
        }
    }

    /// Bytes before it, at `position`.
    fn padding(self, position: usize, alignment: usize) -> usize {
        let bytes = match self {
            Item::Chars(_) => 0,
            item => item.bytes().min(alignment),
        };
        if bytes == 0 { 0 } else { bytes.wrapping_sub(position & (bytes - 1)) & (bytes - 1) }
    }
}

/// A format that is read from its front.
struct Format<'t> {
    text: &'t [u8],
    at: usize,
    is_big: bool,
    alignment: usize,
    /// Only its size is asked for.
    is_measured: bool,
}

impl<'t> Format<'t> {
    /// The first argument.
    fn argument(stack: &mut Stack<'t>) -> Result<Format<'t>, Raise> {
        // SAFETY: the first argument stays where it is: values are pushed and taken above it.
        let text = unsafe { stack.anchored_argument(1)? };
        // A string of C's ends at its first zero.
        let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(Format { text, at: 0, is_big: false, alignment: 1, is_measured: false })
    }

    /// The number at this place, or `default` if absent.
    fn number(&mut self, default: usize) -> Result<usize, Raise> {
        let mut number: Option<i32> = None;
        while let Some(digit) = self.text.get(self.at).filter(|byte| byte.is_ascii_digit()) {
            let digit = i32::from(digit - b'0');
            let next = number.unwrap_or(0).checked_mul(10).and_then(|tens| tens.checked_add(digit));
            number = Some(next.ok_or_else(|| Raise::error("integral size overflow"))?);
            self.at += 1;
        }
        Ok(number.map_or(default, |number| number as usize))
    }

    fn integer(&mut self, signed: bool) -> Result<Item, Raise> {
        let bytes = self.number(4)?;
        if bytes > INTEGER_MAX_BYTES {
            let text = format!("integral size {bytes} is larger than limit of {INTEGER_MAX_BYTES}");
            return Err(Raise::error(text));
        }
        Ok(Item::Integer { signed, bytes })
    }

    /// Whether a letter is next that takes no data.
    fn is_at_control(&self) -> bool {
        self.text.get(self.at).is_some_and(|letter| !b"bBhHlLTiIxfdcs".contains(letter))
    }

    /// The next item, at the end `None`.
    fn next(&mut self) -> Result<Option<Item>, Raise> {
        let Some(&letter) = self.text.get(self.at) else { return Ok(None) };
        self.at += 1;
        let signed = letter.is_ascii_lowercase();
        Ok(Some(match letter {
            b'b' | b'B' => Item::Integer { signed, bytes: 1 },
            b'h' | b'H' => Item::Integer { signed, bytes: 2 },
            b'l' | b'L' | b'T' => Item::Integer { signed, bytes: 8 },
            b'i' | b'I' => self.integer(signed)?,
            b'x' => Item::Padding,
            b'f' => Item::Float,
            b'd' => Item::Double,
            b'c' => Item::Chars(self.number(1)?),
            b's' => Item::Text,
            other => {
                // Only the size of letters that mean nothing is asked for in vain.
                if !(self.is_measured && other.is_ascii_alphanumeric()) {
                    self.control(other)?;
                }
                Item::Nothing
            }
        }))
    }

    fn control(&mut self, letter: u8) -> Result<(), Raise> {
        match letter {
            b' ' => {}
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => {
                let alignment = self.number(ALIGNMENT)?;
                if !alignment.is_power_of_two() {
                    return Err(Raise::error(format!("alignment {alignment} is not a power of 2")));
                }
                self.alignment = alignment;
            }
            other => {
                return Err(Raise::argument(
                    1,
                    [b"invalid format option '".as_slice(), &[other], b"'"].concat(),
                ));
            }
        }
        Ok(())
    }

    /// Puts bytes, least significant first, into the format's order.
    fn order(&self, bytes: &mut [u8]) {
        if self.is_big {
            bytes.reverse();
        }
    }
}

/// The bits of a number as C converts it to an integer of 64 bits.
fn to_bits(number: f64) -> u64 {
    const HALF: f64 = (1u64 << 63) as f64;
    if number >= HALF { to_integer(number - HALF) as u64 ^ 1 << 63 } else { to_integer(number) as u64 }
}

fn pack(stack: &mut Stack<'_>) -> Results {
    let mut format = Format::argument(stack)?;
    // Behind the arguments there is something, but not a value.
    stack.push_nil();
    let (mut out, mut argument, mut steps) = (Output::new(stack), 1, 0);
    while let Some(item) = format.next()? {
        step(stack, &mut steps)?;
        for _ in 0..item.padding(out.len(), format.alignment) {
            out.push(0)?;
        }
        if !matches!(item, Item::Padding | Item::Nothing) {
            argument += 1;
        }
        pack_item(stack, &format, item, argument, &mut out)?;
    }
    stack.push_bytes(out.as_bytes());
    Ok(1)
}

fn pack_item(
    stack: &mut Stack<'_>,
    format: &Format<'_>,
    item: Item,
    argument: c_int,
    out: &mut Output<'_>,
) -> Result<(), Raise> {
    let begin = out.len();
    match item {
        Item::Integer { bytes, .. } => {
            let value = to_bits(stack.number_argument(argument)?).to_le_bytes();
            for at in 0..bytes {
                out.push(value.get(at).copied().unwrap_or(0))?;
            }
            format.order(&mut out.as_mut_bytes()[begin..]);
        }
        Item::Padding => out.push(0)?,
        Item::Float => {
            out.extend(&(stack.number_argument(argument)? as f32).to_le_bytes())?;
            format.order(&mut out.as_mut_bytes()[begin..]);
        }
        Item::Double => {
            out.extend(&stack.number_argument(argument)?.to_le_bytes())?;
            format.order(&mut out.as_mut_bytes()[begin..]);
        }
        Item::Chars(wanted) => {
            let text = stack.bytes_argument(argument)?;
            let wanted = if wanted == 0 { text.len() } else { wanted };
            let Some(text) = text.get(..wanted) else {
                return Err(Raise::argument(argument + 1, "string too short"));
            };
            out.extend(text)?;
        }
        Item::Text => {
            out.extend(stack.bytes_argument(argument)?)?;
            out.push(0)?;
        }
        Item::Nothing => {}
    }
    Ok(())
}

fn unpack(stack: &mut Stack<'_>) -> Results {
    let mut format = Format::argument(stack)?;
    // SAFETY: the second argument stays where it is: values are pushed and taken above it.
    let data = unsafe { stack.anchored_argument(2)? };
    let position = stack.optional_integer(3, 1)?;
    // A negative one is beyond any string.
    let Some(mut position) = (position as usize).checked_sub(1) else {
        return Err(Raise::argument(3, "offset must be 1 or greater"));
    };
    let before = stack.top();
    let too_short = || Raise::argument(2, "data string too short");
    loop {
        if format.is_at_control() {
            // These checks are made of every letter, before its meaning.
            if position > data.len() {
                return Err(too_short());
            }
            if !stack.reserve(2) {
                return Err(Raise::error("stack overflow (too many results)"));
            }
        }
        let Some(item) = format.next()? else { break };
        position = position.saturating_add(item.padding(position, format.alignment));
        if !fits(data, position, item.bytes()) {
            return Err(too_short());
        }
        if !stack.reserve(2) {
            return Err(Raise::error("stack overflow (too many results)"));
        }
        position += unpack_item(stack, &format, item, data, position, before)?;
    }
    stack.push_number((position + 1) as f64);
    Ok(stack.top() - before)
}

fn fits(data: &[u8], position: usize, bytes: usize) -> bool {
    position.checked_add(bytes).is_some_and(|end| end <= data.len())
}

/// Pushes an item's value; how many bytes it takes. Values lie on the stack above `before`.
fn unpack_item(
    stack: &mut Stack<'_>,
    format: &Format<'_>,
    item: Item,
    data: &[u8],
    position: usize,
    before: c_int,
) -> Result<usize, Raise> {
    let bytes = item.bytes();
    let field = data.get(position..position + bytes).unwrap_or_default();
    // Of a number, the bytes with the least significant first.
    let mut number = [0; INTEGER_MAX_BYTES];
    let number = &mut number[..bytes.min(INTEGER_MAX_BYTES)];
    number.copy_from_slice(field.get(..number.len()).unwrap_or_default());
    format.order(number);
    match item {
        Item::Integer { signed, .. } => stack.push_number(integer(number, signed)),
        Item::Float => {
            let value = number.first_chunk().map_or(0.0, |bytes| f32::from_le_bytes(*bytes));
            stack.push_number(f64::from(value));
        }
        Item::Double => {
            stack.push_number(number.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes)));
        }
        Item::Chars(0) => {
            if stack.top() == before || !stack.is_numeric(-1) {
                return Err(Raise::error("format 'c0' needs a previous size"));
            }
            let bytes = to_bits(stack.number(-1)) as usize;
            stack.pop(1);
            if !fits(data, position, bytes) {
                return Err(Raise::argument(2, "data string too short"));
            }
            stack.try_push_bytes(data.get(position..position + bytes).unwrap_or_default())?;
            return Ok(bytes);
        }
        Item::Chars(_) => stack.try_push_bytes(field)?,
        Item::Text => {
            let rest = data.get(position..).unwrap_or_default();
            let Some(len) = rest.iter().position(|&byte| byte == 0) else {
                return Err(Raise::error("unfinished string in data"));
            };
            stack.try_push_bytes(&rest[..len])?;
            return Ok(len + 1);
        }
        Item::Padding | Item::Nothing => {}
    }
    Ok(bytes)
}

/// The integer that bytes are, least significant first; beyond 64 bits they count for nothing.
fn integer(bytes: &[u8], signed: bool) -> f64 {
    let value = bytes.iter().take(8).rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    if !signed {
        return value as f64;
    }
    let unused = 64 - 8 * bytes.len().min(8) as u32;
    let extended = if unused == 64 { 0 } else { ((value << unused) as i64) >> unused };
    extended as f64
}

fn size(stack: &mut Stack<'_>) -> Results {
    let mut format = Format { is_measured: true, ..Format::argument(stack)? };
    let mut position = 0usize;
    while let Some(item) = format.next()? {
        match item {
            Item::Text => return Err(Raise::argument(1, "option 's' has no fixed size")),
            Item::Chars(0) => return Err(Raise::argument(1, "option 'c0' has no fixed size")),
            _ => {}
        }
        position = position.saturating_add(item.padding(position, format.alignment) + item.bytes());
    }
    stack.push_number(position as f64);
    Ok(1)
}
