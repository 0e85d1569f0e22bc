//! Lua values as JSON.

use std::ffi::c_int;

use crate::context::Context;
use crate::json::{Invalid, JsonSettings};
use crate::stack::{Kind, Raise, Results, Stack};

/// However deep a script allows tables to be nested: Rust's stack has an end.
const NESTED_MAX: i64 = 5000;

/// `cjson.encode`
pub fn encode(stack: &mut Stack<'_>) -> Results {
    if stack.top() != 1 {
        return Err(Raise::Argument(1, "expected 1 argument".into()));
    }
    let settings = Context::of(stack).json.get();
    let mut out = Vec::new();
    write_value(stack, &settings, &mut out, 0)?;
    stack.push_bytes(&out);
    Ok(1)
}

fn refuse(stack: &Stack<'_>, index: c_int, reason: &str) -> Raise {
    Raise::error(format!("Cannot serialise {}: {reason}", stack.type_name(index)))
}

/// Writes the value on top, which stays.
fn write_value(
    stack: &mut Stack<'_>,
    settings: &JsonSettings,
    out: &mut Vec<u8>,
    depth: i64,
) -> Result<(), Raise> {
    match stack.kind(-1) {
        Kind::String => write_string(out, stack.bytes(-1).unwrap_or_default()),
        Kind::Number => write_number(stack, settings, out, -1)?,
        Kind::Boolean => out.extend_from_slice(if stack.truth(-1) { b"true" } else { b"false" }),
        Kind::Nil => out.extend_from_slice(b"null"),
        Kind::Light if stack.identity(-1).is_null() => out.extend_from_slice(b"null"),
        Kind::Table => {
            let depth = depth + 1;
            if depth > settings.encode_max_depth.min(NESTED_MAX) || !stack.reserve(5) {
                return Err(Raise::error(format!("Cannot serialise, excessive nesting ({depth})")));
            }
            match array_length(stack, settings)? {
                Some(len @ 1..) => write_array(stack, settings, out, depth, len)?,
                _ => write_object(stack, settings, out, depth)?,
            }
        }
        _ => return Err(refuse(stack, -1, "type not supported")),
    }
    Ok(())
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

fn write_array(
    stack: &mut Stack<'_>,
    settings: &JsonSettings,
    out: &mut Vec<u8>,
    depth: i64,
    len: i64,
) -> Result<(), Raise> {
    let table = stack.top();
    out.push(b'[');
    for element in 1..=len {
        if element > 1 {
            out.push(b',');
        }
        stack.get_element(table, element as c_int);
        write_value(stack, settings, out, depth)?;
        stack.set_top(table);
    }
    out.push(b']');
    Ok(())
}

fn write_object(
    stack: &mut Stack<'_>,
    settings: &JsonSettings,
    out: &mut Vec<u8>,
    depth: i64,
) -> Result<(), Raise> {
    let table = stack.top();
    let begin = out.len();
    out.push(b'{');
    stack.push_nil();
    while stack.next(table) {
        if out.len() > begin + 1 {
            out.push(b',');
        }
        match stack.kind(-2) {
            Kind::Number => {
                out.push(b'"');
                write_number(stack, settings, out, -2)?;
                out.extend_from_slice(b"\":");
            }
            Kind::String => {
                write_string(out, stack.bytes(-2).unwrap_or_default());
                out.push(b':');
            }
            _ => return Err(refuse(stack, -2, "table key must be a number or string")),
        }
        write_value(stack, settings, out, depth)?;
        stack.pop(1);
    }
    out.push(b'}');
    Ok(())
}

fn write_number(
    stack: &Stack<'_>,
    settings: &JsonSettings,
    out: &mut Vec<u8>,
    index: c_int,
) -> Result<(), Raise> {
    let number = stack.number(index);
    if number.is_finite() {
        out.extend_from_slice(general(number, settings.precision as usize).as_bytes());
        return Ok(());
    }
    match settings.encode_invalid {
        Invalid::Refused => return Err(refuse(stack, index, "must not be NaN or Inf")),
        Invalid::Null => out.extend_from_slice(b"null"),
        Invalid::Spelt if number.is_nan() => out.extend_from_slice(b"nan"),
        Invalid::Spelt => out.extend_from_slice(if number > 0.0 { b"inf" } else { b"-inf" }),
    }
    Ok(())
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

fn write_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'/' => out.extend_from_slice(b"\\/"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..0x20 | 0x7f => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
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
