//! VSIM's FILTER expressions: a text is compiled once into a short program for a stack of values, which
//! then runs over the JSON text of one element's attribute at a time, without building a tree.
//!
//! The language is Redis' (behaviour observed on 8.2.3 and 8.6.2): operators have no short circuit, a
//! selector that finds nothing makes the whole expression false, and a syntax error is placed where Redis
//! places it. Compilation is linear in the text; a run is linear in the program and the attribute. Arrays
//! nest to `json::DEPTH_MAX` levels.

mod json;
mod lexer;
mod number;
mod program;

pub use program::Filter;

/// Bytes that an expression may have.
pub const FILTER_BYTES_MAX: usize = 1 << 20;
/// Values and operators that an expression may have; the elements of one tuple count as one value.
pub const FILTER_INSTRUCTIONS_MAX: usize = 4096;

/// Why an expression was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// Where in the expression: Redis' reply quotes the text from here on.
    pub offset: usize,
}

impl FilterError {
    /// Redis' words, after `ERR `; `expression` is the text that was compiled.
    pub fn message(&self, expression: &[u8]) -> Vec<u8> {
        let text = expression.split(|byte| *byte == 0).next().unwrap_or_default();
        let near = text.get(self.offset..).unwrap_or_default();
        [b"syntax error in FILTER expression near: ", near].concat()
    }
}

#[cfg(test)]
mod tests;
