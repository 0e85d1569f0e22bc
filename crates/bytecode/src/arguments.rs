//! Arguments and results of the library's functions.

use crate::machine::Run;
use crate::number;
use crate::stop::{Reason, Stop};
use crate::value::{Text, Value};

/// A call with other arguments than the subset has.
pub(crate) const ARGUMENT: Stop = Stop::Leave(Reason::Argument);

/// The number of results, which begin at the place of the called function.
pub(crate) type Results = Result<usize, Stop>;

impl Run<'_> {
    /// Returns one value.
    #[inline]
    pub fn answer(&mut self, at: usize, value: Value) -> Results {
        self.put(at, value);
        Ok(1)
    }

    /// Returns the arguments from this one on.
    pub fn give_arguments(&mut self, at: usize, first: usize, argc: usize) -> Results {
        for argument in first..=argc {
            self.put(at + argument - first, self.at(at + argument));
        }
        Ok(argc + 1 - first)
    }

    /// An argument; `nil` if it is left out.
    #[inline]
    pub fn argument(&self, at: usize, argc: usize, index: usize) -> Value {
        if index <= argc { self.at(at + index) } else { Value::Nil }
    }

    /// An argument as C's `ptrdiff_t`, which may be left out.
    pub fn integer_or(&self, at: usize, argc: usize, index: usize, default: i64) -> Result<i64, Stop> {
        match self.argument(at, argc, index) {
            Value::Nil => Ok(default),
            value => self.number(value).map(number::to_integer),
        }
    }

    /// An argument as C's int, which may be left out.
    pub fn int_or(&self, at: usize, argc: usize, index: usize, default: i32) -> Result<i32, Stop> {
        self.integer_or(at, argc, index, i64::from(default)).map(|integer| integer as i32)
    }

    /// A string, or the text of a number.
    pub fn text(&mut self, value: Value) -> Result<Text, Stop> {
        match value {
            Value::Text(text) => Ok(text),
            Value::Number(_) => {
                let start = self.texts.arena.len();
                self.append(value)?;
                Ok(self.texts.since(start))
            }
            _ => Err(ARGUMENT),
        }
    }
}
