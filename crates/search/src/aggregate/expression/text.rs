//! The functions of text.
//!
//! A result has at most [`RESULT_MAX_BYTES`]: repeated doubling of a text ends in an error.

use super::Row;
use super::call::{Arguments, check_count, number_argument, text_argument};
use crate::Error;
use crate::aggregate::value::Value;
use martlet_base::number::NumberBuffer;
use memchr::memmem;

/// Longest text that a function makes, in bytes.
const RESULT_MAX_BYTES: usize = 16 << 20;
/// The most parts that `split` makes.
const SPLIT_MAX: usize = 1024;
/// The most terms of `matched_terms`.
const TERMS_MAX: usize = 100;

/// `lower` and `upper`: of ASCII only.
pub(super) fn change_case(
    name: &str,
    arguments: &Arguments<'_, '_>,
    change: fn(&u8) -> u8,
) -> Result<Value, Error> {
    check_count(name, arguments, 1, 1)?;
    Ok(match arguments.get(0).as_text() {
        Some(text) => Value::Text(text.iter().map(change).collect()),
        None => Value::Null,
    })
}

/// `substr(text, offset, length)`: an offset below 0 counts from the end; a length below 0 leaves off as
/// many bytes.
pub(super) fn substring(arguments: &Arguments<'_, '_>) -> Result<Value, Error> {
    check_count("substr", arguments, 3, 3)?;
    let integer = |index| number_argument("substr", arguments, index).map(to_i32);
    let (offset, length) = (integer(1)?, integer(2)?);
    let Some(text) = arguments.get(0).as_text() else {
        return Err(Error::new("Invalid type for substr. Expected string"));
    };
    let size = text.len() as i64;
    let offset = if offset < 0 { size + offset } else { offset };
    // Below the beginning RediSearch takes the offset for a large one.
    let offset = if offset < 0 { size } else { offset.min(size) };
    let length = if length < 0 { (size - offset + length).max(0) } else { length.min(size - offset) };
    Ok(text.get(offset as usize..(offset + length) as usize).unwrap_or_default().into())
}

/// A number as C converts it to 32 bits, where that is defined.
fn to_i32(number: f64) -> i64 {
    i64::from(if (-2_147_483_649.0..2_147_483_648.0).contains(&number) { number as i32 } else { i32::MIN })
}

/// `to_number(value)`
pub(super) fn to_number(arguments: &Arguments<'_, '_>) -> Result<Value, Error> {
    check_count("to_number", arguments, 1, 1)?;
    let value = arguments.get(0);
    value.to_number().map(Value::Number).ok_or_else(|| {
        let text = String::from_utf8_lossy(value.as_text().unwrap_or(b"(null)"));
        Error::new(format!("to_number: cannot convert string '{text}'"))
    })
}

/// `to_str(value)`
pub(super) fn to_string(arguments: &Arguments<'_, '_>) -> Result<Value, Error> {
    check_count("to_str", arguments, 1, 1)?;
    Ok(match arguments.get(0) {
        Value::Text(text) => Value::Text(text.clone()),
        other => other.to_text(&mut NumberBuffer::new()).into(),
    })
}

/// `format(text, …)`: `%s` is the next argument, `%%` is `%`.
pub(super) fn format(arguments: &Arguments<'_, '_>) -> Result<Value, Error> {
    if arguments.len() == 0 {
        return Err(Error::new("Need at least one argument for format"));
    }
    let template = text_argument("format", arguments, 0)?;
    let (mut made, mut next) = (Vec::with_capacity(template.len()), 1);
    let mut parts = template.iter().copied();
    while let Some(byte) = parts.next() {
        if byte != b'%' {
            made.push(byte);
            continue;
        }
        match parts.next() {
            None => return Err(Error::new("Bad format string!")),
            Some(b'%') => made.push(b'%'),
            Some(_) if next >= arguments.len() => return Err(Error::new("Not enough arguments for format")),
            Some(b's') => {
                match arguments.get(next) {
                    Value::Null => made.extend_from_slice(b"(null)"),
                    value => made.extend_from_slice(value.to_text(&mut NumberBuffer::new())),
                }
                next += 1;
            }
            Some(_) => return Err(Error::new("Unknown format specifier passed")),
        }
        if made.len() > RESULT_MAX_BYTES {
            return Err(Error::new("format: the result is too long"));
        }
    }
    Ok(Value::Text(made.into()))
}

/// `split(text [, separators [, stripped]])`: the parts between separators, each without the stripped bytes
/// at its ends; empty parts are left out.
pub(super) fn split(arguments: &Arguments<'_, '_>) -> Result<Value, Error> {
    if !(1..=3).contains(&arguments.len()) {
        return Err(Error::new("Invalid number of arguments for split"));
    }
    let text = text_argument("split", arguments, 0)?;
    let option = |index: usize, default: &'static [u8]| match index < arguments.len() {
        true => text_argument("split", arguments, index),
        false => Ok(default),
    };
    let (separators, stripped) = (option(1, b",")?, option(2, b" ")?);
    let parts = text.split(|byte| separators.contains(byte)).filter_map(|part| {
        let from = part.iter().position(|byte| !stripped.contains(byte))?;
        let to = part.iter().rposition(|byte| !stripped.contains(byte))?;
        part.get(from..=to).map(Value::from)
    });
    Ok(parts.take(SPLIT_MAX).collect::<Vec<_>>().into())
}

/// `matched_terms([most])`
pub(super) fn matched_terms<R: Row + ?Sized>(arguments: &Arguments<'_, '_>, row: &R) -> Value {
    let most = match arguments.get(0).to_number() {
        Some(number) if arguments.len() == 1 && number >= 1.0 => (number as usize).min(TERMS_MAX),
        _ => TERMS_MAX,
    };
    match row.matched_terms(most) {
        terms if terms.is_empty() => Value::Null,
        terms => terms.into(),
    }
}

/// `startswith(text, prefix)`
pub(super) fn starts_with(arguments: &Arguments<'_, '_>) -> Result<Value, Error> {
    check_count("startswith", arguments, 2, 2)?;
    let text = text_argument("startswith", arguments, 0)?;
    let prefix = text_argument("startswith", arguments, 1)?;
    Ok(Value::Number(f64::from(u8::from(text.starts_with(prefix)))))
}

/// `contains(text, part)`: how often, overlapping ones included.
pub(super) fn contains(arguments: &Arguments<'_, '_>) -> Result<Value, Error> {
    check_count("contains", arguments, 2, 2)?;
    let text = text_argument("contains", arguments, 0)?;
    let part = text_argument("contains", arguments, 1)?;
    if part.is_empty() {
        return Ok(Value::Number(text.len() as f64 + 1.0));
    }
    let finder = memmem::Finder::new(part);
    let (mut count, mut from) = (0.0, 0);
    while let Some(at) = finder.find(text.get(from..).unwrap_or_default()) {
        count += 1.0;
        from += at + 1;
    }
    Ok(Value::Number(count))
}

/// `strlen(text)`, in bytes.
pub(super) fn length(arguments: &Arguments<'_, '_>) -> Result<Value, Error> {
    check_count("strlen", arguments, 1, 1)?;
    Ok(Value::Number(text_argument("strlen", arguments, 0)?.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;

    #[test]
    fn text_is_cut_and_joined() {
        check(&[
            ("substr('hello',-3,2)", "ll"),
            ("substr('hello',10,2)", ""),
            ("substr('hello',2,100)", "llo"),
            ("substr('hello',-10,2)", ""),
            ("substr('hello',1,-10)", ""),
            ("substr('hello',0,-1)", "hell"),
            ("substr('hello',1.7,2.9)", "el"),
            ("substr('hello',3000000000,2)", ""),
            ("substr(1,0,1)", "ERR Invalid type for substr. Expected string"),
            ("substr('hello',1)", "ERR Invalid arguments for function 'substr'"),
            (
                "substr(@t,'0',1)",
                "ERR Invalid type (3) for argument 1 in function 'substr'. \
                 VALIDATE_ARG__TYPE(v, RSValue_Number) was false.",
            ),
            ("format('%s %s %%', @t, @x)", "Hello World 7 %"),
            ("format('%s', NULL)", "(null)"),
            ("format('%s', split('a'))", ""),
            ("format('%d', 1)", "ERR Unknown format specifier passed"),
            ("format('%s')", "ERR Not enough arguments for format"),
            ("format('%')", "ERR Bad format string!"),
            ("format()", "ERR Need at least one argument for format"),
            (
                "format(1)",
                "ERR Invalid type (1) for argument 0 in function 'format'. VALIDATE_ARG__STRING(v, 0) was false.",
            ),
        ]);
    }

    #[test]
    fn text_is_split_without_empty_parts() {
        check(&[
            ("split('a, b ,c')", "[a|b|c]"),
            ("split('')", "[]"),
            ("split('a;b', ';', 'a')", "[b]"),
            ("split('a','')", "[a]"),
            ("split('a,b','b')", "[a,]"),
            ("split('a b','x','')", "[a b]"),
            ("split()", "ERR Invalid number of arguments for split"),
        ]);
    }

    #[test]
    fn text_is_searched_and_converted() {
        check(&[
            ("contains('aaaa','aa')", "3"),
            ("contains('aaaa','')", "5"),
            ("startswith('abc','ab')", "1"),
            ("startswith('abc','b')", "0"),
            ("strlen('')", "0"),
            ("lower('\u{c0}B')", "\u{c0}b"),
            ("lower(1)", "null"),
            ("upper('a') == 'A'", "1"),
            ("upper()", "ERR Invalid arguments for function 'upper'"),
            ("to_str(1/3)", "0.333333333333"),
            ("to_number('5 ')", "ERR to_number: cannot convert string '5 '"),
            ("to_number(NULL)", "ERR to_number: cannot convert string '(null)'"),
            ("matched_terms()", "null"),
            ("log(0)", "-inf"),
            ("log()", "ERR Invalid number of arguments for log"),
            ("abs('-5')", "5"),
            ("ceil('a')", "nan"),
            ("sqrt(-1)", "-nan"),
        ]);
    }

    #[test]
    fn points_have_a_distance() {
        check(&[
            ("geodistance('1.5,2.5', 1, 2)", "78618.43"),
            ("geodistance('1 2', '3,4')", "314371.93"),
            ("geodistance(200,100,3,4)", "8502864.19"),
            ("geodistance(1,2,3)", "nan"),
            ("geodistance(NULL,'3,4')", "nan"),
            ("geodistance(1)", "ERR Invalid arguments for function 'geodistance'"),
            ("geodistance('x','1,2')", "ERR Invalid geo string"),
        ]);
    }
}
