//! A cursor over a command's arguments, which reads numbers as RediSearch does.
//!
//! A cursor never advances past its end, and an argument that is refused has not been consumed.

use crate::Error;
use crate::number;

/// Why an argument was refused.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is no number of the wanted type.
    Parse,
    /// The arguments have ended.
    Missing,
    /// It is outside the bounds.
    Bounds,
}

impl Refused {
    /// RediSearch's words.
    pub fn text(self) -> &'static str {
        match self {
            Refused::Parse => "Could not convert argument to expected type",
            Refused::Missing => "Expected an argument, but none provided",
            Refused::Bounds => "Value is outside acceptable bounds",
        }
    }

    /// `Bad arguments for NAME: …`
    pub fn of(self, name: impl std::fmt::Display) -> Error {
        Error::new(format!("Bad arguments for {name}: {}", self.text()))
    }
}

/// How numbers are read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// As C: blanks may precede a number, and an empty text is 0 (FT.SEARCH, FT.AGGREGATE, FT.CREATE).
    C,
    /// As Redis (FT.ALTER).
    Redis,
}

/// The arguments that have not been read.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    rest: &'a [&'a [u8]],
    numbers: Numbers,
}

impl<'a> Cursor<'a> {
    /// All of `arguments`.
    pub fn new(arguments: &'a [&'a [u8]], numbers: Numbers) -> Self {
        Cursor { rest: arguments, numbers }
    }

    /// Whether nothing is left.
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many arguments are left.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The arguments that are left.
    pub fn rest(&self) -> &'a [&'a [u8]] {
        self.rest
    }

    /// The next argument, which stays.
    pub fn peek(&self) -> Option<&'a [u8]> {
        self.rest.first().copied()
    }

    /// The next argument.
    pub fn take_next(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// The next argument, or [`Refused::Missing`].
    pub fn string(&mut self) -> Result<&'a [u8], Refused> {
        self.take_next().ok_or(Refused::Missing)
    }

    /// Consumes the next argument if it is `word`, in any case.
    pub fn take(&mut self, word: &str) -> bool {
        let is_next = self.peek().is_some_and(|next| next.eq_ignore_ascii_case(word.as_bytes()));
        if is_next {
            self.take_next();
        }
        is_next
    }

    /// The next argument as an integer. `3.00` is 3; with `coalesce` `3.14` also.
    fn integer(&self, coalesce: bool) -> Result<i64, Refused> {
        let text = self.peek().ok_or(Refused::Missing)?;
        let integer = match self.numbers {
            Numbers::C => number::parse_c_integer(text),
            Numbers::Redis => martlet_base::number::parse_i64(text),
        };
        if let Some(integer) = integer {
            return Ok(integer);
        }
        let double = self.double_of(text)?;
        let integer = number::to_integer(double);
        if coalesce || integer as f64 == double { Ok(integer) } else { Err(Refused::Parse) }
    }

    fn double_of(&self, text: &[u8]) -> Result<f64, Refused> {
        let double = match self.numbers {
            Numbers::C => number::parse_c(text),
            Numbers::Redis => martlet_base::number::parse_f64(text),
        };
        double.filter(|double| self.numbers == Numbers::Redis || !double.is_infinite()).ok_or(Refused::Parse)
    }

    fn bounded(&mut self, least: i64, most: i64, coalesce: bool) -> Result<i64, Refused> {
        let integer = self.integer(coalesce)?;
        if integer < least || integer > most {
            return Err(Refused::Bounds);
        }
        self.take_next();
        Ok(integer)
    }

    /// An integer of 64 bits at or above `least`.
    pub fn i64(&mut self, least: i64) -> Result<i64, Refused> {
        self.bounded(least, i64::MAX, false)
    }

    /// An integer of 63 bits at or above `least`, which is not negative.
    pub fn u64(&mut self, least: u32) -> Result<u64, Refused> {
        self.bounded(i64::from(least), i64::MAX, false).map(|integer| integer as u64)
    }

    /// An integer of 32 bits at or above `least`, which is not negative.
    pub fn u32(&mut self, least: u32) -> Result<u32, Refused> {
        self.bounded(i64::from(least), i64::from(u32::MAX), false).map(|integer| integer as u32)
    }

    /// An integer of 32 bits with a sign; the fraction of a number is cut off.
    pub fn i32_coalesced(&mut self) -> Result<i32, Refused> {
        self.bounded(i64::from(i32::MIN), i64::from(i32::MAX), true).map(|integer| integer as i32)
    }

    /// A number; where there is no argument, [`Refused::Parse`], as RediSearch has it.
    pub fn f64(&mut self) -> Result<f64, Refused> {
        let double = self.double_of(self.peek().ok_or(Refused::Parse)?)?;
        self.take_next();
        Ok(double)
    }

    /// The next `count` arguments.
    pub fn slice(&mut self, count: usize) -> Result<Cursor<'a>, Refused> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Refused::Missing)?;
        self.rest = rest;
        Ok(Cursor { rest: taken, numbers: self.numbers })
    }

    /// A count and as many arguments. When there are fewer, only the count is consumed.
    pub fn counted(&mut self) -> Result<Cursor<'a>, Refused> {
        let count = self.u32(0)?;
        self.slice(count as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor<'a>(arguments: &'a [&'a [u8]], numbers: Numbers) -> Cursor<'a> {
        Cursor::new(arguments, numbers)
    }

    #[test]
    fn numbers_are_read_as_c_does_or_as_redis_does() {
        assert_eq!(cursor(&[b" 3"], Numbers::C).i64(0), Ok(3));
        assert_eq!(cursor(&[b""], Numbers::C).i64(0), Ok(0));
        assert_eq!(cursor(&[b"3.00"], Numbers::C).u32(0), Ok(3));
        assert_eq!(cursor(&[b"3.5"], Numbers::C).u32(0), Err(Refused::Parse));
        assert_eq!(cursor(&[b"-3.5"], Numbers::C).i32_coalesced(), Ok(-3));
        assert_eq!(cursor(&[b"-1"], Numbers::C).u32(0), Err(Refused::Bounds));
        assert_eq!(cursor(&[b"4294967296"], Numbers::C).u32(0), Err(Refused::Bounds));
        assert_eq!(cursor(&[b"inf"], Numbers::C).f64(), Err(Refused::Parse));
        assert_eq!(cursor(&[b" 3"], Numbers::Redis).i64(0), Err(Refused::Parse));
        assert_eq!(cursor(&[b""], Numbers::Redis).i64(0), Err(Refused::Parse));
        assert_eq!(cursor(&[], Numbers::C).i64(0), Err(Refused::Missing));
    }

    #[test]
    fn counted_arguments_are_as_many_as_counted() {
        let arguments: &[&[u8]] = &[b"2", b"a", b"b", b"c"];
        let mut all = cursor(arguments, Numbers::C);
        assert_eq!(all.counted().expect("there are two").rest(), &arguments[1..3]);
        assert!(all.take("C"));
        assert!(all.is_at_end() && all.is_empty() && !all.take("C"));
        let mut few = cursor(&[b"2", b"a"], Numbers::C);
        assert_eq!(few.counted().err(), Some(Refused::Missing));
        assert_eq!(few.peek(), Some(&b"a"[..]));
    }
}
