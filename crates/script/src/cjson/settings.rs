//! The settings of the library that a function of `cjson` belongs to: those of all scripts, or of an instance
//! that `cjson.new` has made.
//!
//! Invariant: an instance's functions share a table of numbers, which no script can reach.

use crate::context::Context;
use crate::json::{Invalid, JsonSettings};
use crate::stack::{Kind, Stack};

const FIELDS: usize = 10;

/// The settings of the function that runs.
pub fn get(stack: &mut Stack<'_>) -> JsonSettings {
    stack.push_upvalue();
    let settings = match stack.kind(-1) {
        Kind::Table => {
            let mut numbers = [0; FIELDS];
            for (number, element) in numbers.iter_mut().zip(1..) {
                stack.get_element(-1, element);
                *number = stack.number(-1) as i64;
                stack.pop(1);
            }
            from_numbers(numbers)
        }
        _ => Context::of(stack).json.get(),
    };
    stack.pop(1);
    settings
}

/// Sets them.
pub fn set(stack: &mut Stack<'_>, settings: JsonSettings) {
    stack.push_upvalue();
    match stack.kind(-1) {
        Kind::Table => write(stack, settings),
        _ => Context::of(stack).json.set(settings),
    }
    stack.pop(1);
}

/// Pushes the table of a new instance.
pub fn push_initial(stack: &mut Stack<'_>) {
    stack.push_table(FIELDS, 0);
    write(stack, JsonSettings::default());
}

fn write(stack: &mut Stack<'_>, settings: JsonSettings) {
    for (number, element) in to_numbers(settings).into_iter().zip(1..) {
        stack.push_number(number as f64);
        stack.set_element(-2, element);
    }
}

fn to_numbers(settings: JsonSettings) -> [i64; FIELDS] {
    [
        i64::from(settings.sparse_convert),
        settings.sparse_ratio,
        settings.sparse_safe,
        settings.encode_max_depth,
        settings.decode_max_depth,
        settings.precision,
        i64::from(settings.keep_buffer),
        match settings.encode_invalid {
            Invalid::Refused => 0,
            Invalid::Spelt => 1,
            Invalid::Null => 2,
        },
        i64::from(settings.decode_invalid),
        i64::from(settings.marks_arrays),
    ]
}

fn from_numbers(numbers: [i64; FIELDS]) -> JsonSettings {
    let [convert, ratio, safe, encode_depth, decode_depth, precision, buffer, invalid, decode_invalid, marks] =
        numbers;
    JsonSettings {
        sparse_convert: convert != 0,
        sparse_ratio: ratio,
        sparse_safe: safe,
        encode_max_depth: encode_depth,
        decode_max_depth: decode_depth,
        precision,
        keep_buffer: buffer != 0,
        encode_invalid: match invalid {
            0 => Invalid::Refused,
            1 => Invalid::Spelt,
            _ => Invalid::Null,
        },
        decode_invalid: decode_invalid != 0,
        marks_arrays: marks != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_as_they_were_written() {
        let settings = JsonSettings {
            sparse_convert: true,
            sparse_ratio: 3,
            sparse_safe: 4,
            encode_max_depth: 5,
            decode_max_depth: i64::from(i32::MAX),
            precision: 6,
            keep_buffer: false,
            encode_invalid: Invalid::Null,
            decode_invalid: false,
            marks_arrays: true,
        };
        for settings in [settings, JsonSettings::default()] {
            assert_eq!(from_numbers(to_numbers(settings)), settings);
        }
    }
}
