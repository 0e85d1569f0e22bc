//! What scripts can set about JSON.

use std::ffi::{c_int, c_void};

/// What `cjson.encode_…` and `cjson.decode_…` change, for all scripts of a state or an instance of `cjson`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct JsonSettings {
    /// Arrays with too many holes become objects.
    pub sparse_convert: bool,
    /// A table whose highest index is more than this many times its elements has too many holes; 0: none has.
    pub sparse_ratio: i64,
    /// Up to this index nothing does.
    pub sparse_safe: i64,
    /// Tables nested deeper are not written.
    pub encode_max_depth: i64,
    /// Nor read.
    pub decode_max_depth: i64,
    /// Significant digits of numbers.
    pub precision: i64,
    /// Whether a buffer is kept, which is no concern here.
    pub keep_buffer: bool,
    /// How infinities and NaN are written.
    pub encode_invalid: Invalid,
    /// Whether infinities, NaN and hexadecimal numbers are read.
    pub decode_invalid: bool,
    /// Arrays that are read are written as arrays again, also without elements.
    pub marks_arrays: bool,
}

/// How a number is written that JSON does not have.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// It is an error.
    Refused,
    /// As C spells it.
    Spelt,
    /// As `null`.
    Null,
}

impl Default for JsonSettings {
    fn default() -> JsonSettings {
        JsonSettings {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_max_depth: 1000,
            decode_max_depth: 1000,
            precision: 14,
            keep_buffer: true,
            encode_invalid: Invalid::Refused,
            decode_invalid: true,
            marks_arrays: false,
        }
    }
}

/// The metatable that marks arrays, and the table that scripts see in its place: references, and what
/// identifies each.
#[derive(Copy, Clone, Debug)]
pub struct ArrayMark {
    /// The metatable.
    pub metatable: (c_int, *const c_void),
    /// What scripts see.
    pub shown: (c_int, *const c_void),
}
