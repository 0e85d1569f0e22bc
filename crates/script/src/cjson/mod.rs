//! `cjson`: JSON, as Mark Pulford's library of that name reads and writes it.

pub mod array;
mod decode;
mod encode;
mod settings;

use std::ffi::c_int;

use martlet_lua::lua_CFunction;

use crate::door::entry;
use crate::json::{Invalid, JsonSettings};
use crate::sandbox;
use crate::stack::{Kind, Raise, Results, Stack};

const FUNCTIONS: usize = 11;

fn functions() -> [(&'static str, lua_CFunction); FUNCTIONS] {
    [
        ("encode", entry!(encode::encode)),
        ("decode", entry!(decode::decode)),
        ("encode_sparse_array", entry!(encode_sparse_array)),
        ("encode_max_depth", entry!(encode_max_depth)),
        ("decode_max_depth", entry!(decode_max_depth)),
        ("encode_number_precision", entry!(encode_number_precision)),
        ("encode_keep_buffer", entry!(encode_keep_buffer)),
        ("encode_invalid_numbers", entry!(encode_invalid_numbers)),
        ("decode_invalid_numbers", entry!(decode_invalid_numbers)),
        ("decode_array_with_array_mt", entry!(decode_array_with_array_mt)),
        ("new", entry!(new)),
    ]
}

/// Pushes the table of all scripts, and notes the mark of arrays.
pub fn push(stack: &mut Stack<'_>) {
    stack.push_table(0, 1);
    stack.push_bool(true);
    stack.set_field(-2, "__is_cjson_array");
    stack.push_bool(false);
    stack.push_copy(-2);
    sandbox::protect(stack);
    array::keep(stack);
    stack.push_table(0, FUNCTIONS + 3);
    stack.set_functions(&functions());
    set_constants(stack);
}

/// `cjson.new`: pushes an instance, whose settings start with the defaults.
fn new(stack: &mut Stack<'_>) -> Results {
    // Its tables and functions.
    const INSTANCE_BYTES: usize = 4096;
    stack.need(INSTANCE_BYTES)?;
    settings::push_initial(stack);
    let settings = stack.top();
    stack.push_table(0, FUNCTIONS + 3);
    for (name, function) in functions() {
        stack.push_copy(settings);
        stack.push_closure(function);
        stack.set_field(-2, name);
    }
    set_constants(stack);
    Ok(1)
}

/// Adds the library's constants to the table on top.
fn set_constants(stack: &mut Stack<'_>) {
    stack.push_address(std::ptr::null_mut());
    stack.set_field(-2, "null");
    for (name, text) in [("_NAME", "cjson"), ("_VERSION", "2.1.0")] {
        stack.push_bytes(text.as_bytes());
        stack.set_field(-2, name);
    }
}

/// Refuses more arguments than `most`; those that are missing become `nil`.
fn at_most(stack: &mut Stack<'_>, most: c_int) -> Result<(), Raise> {
    if stack.top() > most {
        return Err(Raise::argument(most + 1, "found too many arguments"));
    }
    while stack.top() < most {
        stack.push_nil();
    }
    Ok(())
}

/// Sets a number, if an argument gives it, and pushes it.
fn integer_setting(
    stack: &mut Stack<'_>,
    index: c_int,
    least: i64,
    most: i64,
    field: fn(&mut JsonSettings) -> &mut i64,
) -> Result<(), Raise> {
    let mut settings = settings::get(stack);
    if !matches!(stack.kind(index), Kind::None | Kind::Nil) {
        // C's int: the lower 32 bits of the number.
        let value = i64::from(crate::stack::to_integer(stack.number_argument(index)?) as i32);
        if !(least..=most).contains(&value) {
            return Err(Raise::argument(index, format!("expected integer between {least} and {most}")));
        }
        *field(&mut settings) = value;
        settings::set(stack, settings);
    }
    stack.push_number(*field(&mut settings) as f64);
    Ok(())
}

/// Sets a flag, if an argument gives it, and pushes it.
fn flag_setting(
    stack: &mut Stack<'_>,
    index: c_int,
    field: fn(&mut JsonSettings) -> &mut bool,
) -> Result<(), Raise> {
    let mut settings = settings::get(stack);
    match option(stack, index, &["off", "on"])? {
        None => {}
        Some(choice) => {
            *field(&mut settings) = choice == 1;
            settings::set(stack, settings);
        }
    }
    stack.push_bool(*field(&mut settings));
    Ok(())
}

/// Which of the words an argument is; a boolean stands for the first or second.
fn option(stack: &mut Stack<'_>, index: c_int, words: &[&str]) -> Result<Option<usize>, Raise> {
    match stack.kind(index) {
        Kind::None | Kind::Nil => Ok(None),
        Kind::Boolean => Ok(Some(usize::from(stack.truth(index)))),
        _ => {
            let len = stack.bytes_argument(index)?.len();
            // Its copies on the way to the error's text.
            stack.need(8 * len)?;
            let text = stack.bytes_argument(index)?;
            let found = words.iter().position(|word| word.as_bytes() == text);
            // A string of C's ends at its first zero.
            let shown = text.split(|&byte| byte == 0).next().unwrap_or_default();
            let invalid = || [b"invalid option '", shown, b"'"].concat();
            found.map(Some).ok_or_else(|| Raise::argument(index, invalid()))
        }
    }
}

const INT_MAX: i64 = i32::MAX as i64;

fn encode_sparse_array(stack: &mut Stack<'_>) -> Results {
    at_most(stack, 3)?;
    flag_setting(stack, 1, |settings| &mut settings.sparse_convert)?;
    integer_setting(stack, 2, 0, INT_MAX, |settings| &mut settings.sparse_ratio)?;
    integer_setting(stack, 3, 0, INT_MAX, |settings| &mut settings.sparse_safe)?;
    Ok(3)
}

fn encode_max_depth(stack: &mut Stack<'_>) -> Results {
    at_most(stack, 1)?;
    integer_setting(stack, 1, 1, INT_MAX, |settings| &mut settings.encode_max_depth)?;
    Ok(1)
}

fn decode_max_depth(stack: &mut Stack<'_>) -> Results {
    at_most(stack, 1)?;
    integer_setting(stack, 1, 1, INT_MAX, |settings| &mut settings.decode_max_depth)?;
    Ok(1)
}

fn encode_number_precision(stack: &mut Stack<'_>) -> Results {
    at_most(stack, 1)?;
    integer_setting(stack, 1, 1, 14, |settings| &mut settings.precision)?;
    Ok(1)
}

fn encode_keep_buffer(stack: &mut Stack<'_>) -> Results {
    at_most(stack, 1)?;
    flag_setting(stack, 1, |settings| &mut settings.keep_buffer)?;
    Ok(1)
}

fn encode_invalid_numbers(stack: &mut Stack<'_>) -> Results {
    at_most(stack, 1)?;
    let mut settings = settings::get(stack);
    let choice = option(stack, 1, &["off", "on", "null"])?;
    if let Some(choice) = choice {
        settings.encode_invalid = [Invalid::Refused, Invalid::Spelt, Invalid::Null][choice];
        settings::set(stack, settings);
    }
    match settings.encode_invalid {
        Invalid::Refused => stack.push_bool(false),
        Invalid::Spelt => stack.push_bool(true),
        Invalid::Null => stack.push_bytes(b"null"),
    }
    Ok(1)
}

fn decode_array_with_array_mt(stack: &mut Stack<'_>) -> Results {
    at_most(stack, 1)?;
    flag_setting(stack, 1, |settings| &mut settings.marks_arrays)?;
    Ok(1)
}

fn decode_invalid_numbers(stack: &mut Stack<'_>) -> Results {
    at_most(stack, 1)?;
    flag_setting(stack, 1, |settings| &mut settings.decode_invalid)?;
    Ok(1)
}
