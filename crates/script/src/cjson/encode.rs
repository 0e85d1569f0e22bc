//! Lua values as JSON.

use std::ffi::c_int;

use super::{array, settings};
use crate::api::step;
use crate::json::{Invalid, JsonSettings};
use crate::output::Output;
use crate::stack::{Kind, Raise, Results, Stack};

/// `cjson.encode`
pub fn encode(stack: &mut Stack<'_>) -> Results {
    if stack.top() != 1 {
        return Err(Raise::argument(1, "expected 1 argument"));
    }
    let settings = settings::get(stack);
    let mut out = Output::new(stack);
    write_document(stack, &settings, &mut out)?;
    stack.push_bytes(out.as_bytes());
    Ok(1)
}

fn refuse(stack: &Stack<'_>, index: c_int, reason: &str) -> Raise {
    Raise::error(format!("Cannot serialise {}: {reason}", stack.type_name(index)))
}

/// A table that is being written.
enum Open {
    /// An array's next element, and its last.
    Array(i64, i64),
    /// Where an object begins.
    Object(usize),
}

/// Writes the value on top, which stays. It is a loop, as the C stack would not hold what Lua's does: of an
/// array that is open the table is on the stack, of an object the table and the last key.
fn write_document(stack: &mut Stack<'_>, settings: &JsonSettings, out: &mut Output<'_>) -> Result<(), Raise> {
    let (mut open, mut steps) = (Vec::new(), 0);
    loop {
        step(stack, &mut steps)?;
        match begin_value(stack, settings, out, open.len())? {
            Some(table) => open.push(table),
            None if open.is_empty() => return Ok(()),
            None => stack.pop(1),
        }
        while let Some(table) = open.last_mut() {
            if next_value(stack, settings, out, table)? {
                break;
            }
            open.pop();
            if open.is_empty() {
                return Ok(());
            }
            stack.pop(1);
        }
    }
}

/// Writes the value on top, or the beginning of the table that it is.
fn begin_value(
    stack: &mut Stack<'_>,
    settings: &JsonSettings,
    out: &mut Output<'_>,
    depth: usize,
) -> Result<Option<Open>, Raise> {
    match stack.kind(-1) {
        Kind::String => write_string(out, stack.bytes(-1).unwrap_or_default())?,
        Kind::Number => write_number(stack, settings, out, -1)?,
        Kind::Boolean => out.extend(if stack.truth(-1) { b"true" } else { b"false" })?,
        Kind::Nil => out.extend(b"null")?,
        Kind::Light if stack.identity(-1).is_null() => out.extend(b"null")?,
        Kind::Table => {
            let depth = depth as i64 + 1;
            if depth > settings.encode_max_depth || !stack.reserve(5) {
                return Err(Raise::error(format!("Cannot serialise, excessive nesting ({depth})")));
            }
            if array::is_marked(stack, -1) {
                out.push(b'[')?;
                return Ok(Some(Open::Array(1, stack.raw_len(-1) as i64)));
            }
            if let Some(len @ 1..) = array_length(stack, settings)? {
                out.push(b'[')?;
                return Ok(Some(Open::Array(1, len)));
            }
            out.push(b'{')?;
            stack.push_nil();
            return Ok(Some(Open::Object(out.len())));
        }
        _ => return Err(refuse(stack, -1, "type not supported")),
    }
    Ok(None)
}

/// Pushes the next value of a table, after its key has been written; false after the end of the table has
/// been, when the table is on top.
fn next_value(
    stack: &mut Stack<'_>,
    settings: &JsonSettings,
    out: &mut Output<'_>,
    table: &mut Open,
) -> Result<bool, Raise> {
    match table {
        Open::Array(next, last) => {
            if next > last {
                out.push(b']')?;
                return Ok(false);
            }
            if *next > 1 {
                out.push(b',')?;
            }
            stack.get_element(-1, *next as c_int);
            *next += 1;
        }
        Open::Object(begin) => {
            if !stack.next(-2) {
                out.push(b'}')?;
                return Ok(false);
            }
            if out.len() > *begin {
                out.push(b',')?;
            }
            write_key(stack, settings, out)?;
        }
    }
    Ok(true)
}

/// Writes the key below the top.
fn write_key(stack: &mut Stack<'_>, settings: &JsonSettings, out: &mut Output<'_>) -> Result<(), Raise> {
    match stack.kind(-2) {
        Kind::Number => {
            out.push(b'"')?;
            write_number(stack, settings, out, -2)?;
            out.push(b'"')?;
        }
        Kind::String => write_string(out, stack.bytes(-2).unwrap_or_default())?,
        _ => return Err(refuse(stack, -2, "table key must be a number or string")),
    }
    out.push(b':')
}

/// The highest index of the table on top, if it is an array.
fn array_length(stack: &mut Stack<'_>, settings: &JsonSettings) -> Result<Option<i64>, Raise> {
    let (mut highest, mut items) = (0i64, 0i64);
    let table = stack.top();
    stack.push_nil();
    while stack.next(table) {
        let key = stack.number(-2);
        if stack.kind(-2) != Kind::Number || key.floor() != key || key < 1.0 {
            stack.set_top(table);
            return Ok(None);
        }
        highest = highest.max(key as i64);
        items += 1;
        stack.pop(1);
    }
    let is_sparse = settings.sparse_ratio > 0
        && highest > items.saturating_mul(settings.sparse_ratio)
        && highest > settings.sparse_safe;
    match (is_sparse, settings.sparse_convert) {
        (true, false) => Err(refuse(stack, -1, "excessively sparse array")),
        (true, true) => Ok(None),
        (false, _) => Ok(Some(highest)),
    }
}

fn write_number(
    stack: &Stack<'_>,
    settings: &JsonSettings,
    out: &mut Output<'_>,
    index: c_int,
) -> Result<(), Raise> {
    let number = stack.number(index);
    if number.is_finite() {
        return out.extend(general(number, settings.precision as usize).as_bytes());
    }
    match settings.encode_invalid {
        Invalid::Refused => Err(refuse(stack, index, "must not be NaN or Inf")),
        Invalid::Null => out.extend(b"null"),
        Invalid::Spelt if number.is_nan() => out.extend(b"nan"),
        Invalid::Spelt => out.extend(if number > 0.0 { b"inf" } else { b"-inf" }),
    }
}

/// A finite number as C's `%.{precision}g`.
fn general(number: f64, precision: usize) -> String {
    let integer = number as i64;
    if integer as f64 == number && integer.unsigned_abs() < 10u64.pow(precision as u32) && integer != 0 {
        return integer.to_string();
    }
    let precision = precision.max(1);
    let scientific = format!("{number:.*e}", precision - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs());
    }
    let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
    without_zeros(&format!("{number:.decimals$}"))
}

fn write_string(out: &mut Output<'_>, bytes: &[u8]) -> Result<(), Raise> {
    out.reserve(bytes.len() + 2)?;
    out.push(b'"')?;
    for &byte in bytes {
        match byte {
            b'"' => out.extend(b"\\\"")?,
            b'\\' => out.extend(b"\\\\")?,
            b'/' => out.extend(b"\\/")?,
            0x08 => out.extend(b"\\b")?,
            b'\t' => out.extend(b"\\t")?,
            b'\n' => out.extend(b"\\n")?,
            0x0c => out.extend(b"\\f")?,
            b'\r' => out.extend(b"\\r")?,
            0..0x20 | 0x7f => out.extend(format!("\\u{byte:04x}").as_bytes())?,
            _ => out.push(byte)?,
        }
    }
    out.push(b'"')
}

#[cfg(test)]
mod tests {
    use super::general;

    #[test]
    fn numbers_are_spelt_as_c_does() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (1e14, "1e+14"),
            (123456789012345.0, "1.2345678901234e+14"),
            (99999999999999.0, "99999999999999"),
            (1.5e-5, "1.5e-05"),
            (0.0001, "0.0001"),
            (1e100, "1e+100"),
            (1.0 / 3.0, "0.33333333333333"),
            (-2.5, "-2.5"),
            (std::f64::consts::PI, "3.1415926535898"),
        ];
        for (number, text) in cases {
            assert_eq!(general(number, 14), text);
        }
        assert_eq!(general(1234.5, 3), "1.23e+03");
    }
}
