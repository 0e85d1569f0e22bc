//! The one way in which options are read: a cursor over the arguments.
//!
//! A parser takes the options that it knows, in a loop, as long as one of them comes next; the rest is then
//! refused by [`Cursor::finish`].
//!
//! ```ignore
//! let mut rest = ctx.rest(2);
//! loop {
//!     if rest.option("COUNT", 1) {
//!         count = rest.int()?;
//!     } else if rest.word("WITHSCORES") {
//!         with_scores = true;
//!     } else {
//!         break rest.finish()?;
//!     }
//! }
//! ```
//!
//! Invariant: an argument that is not an option stays where it is, and no read goes past the last argument.

use martlet_base::number::{parse_f64, parse_i64};
use martlet_protocol::request::Args;

use crate::error::{Error, Outcome};

/// See the [module docs](self).
#[derive(Copy, Clone)]
pub struct Cursor<'a> {
    args: Args<'a>,
    at: usize,
    /// The argument at `at`, which a parser compares with one word after another.
    next: Option<&'a [u8]>,
}

impl<'a> Cursor<'a> {
    /// A cursor on the argument at `index`.
    pub fn new(args: Args<'a>, index: usize) -> Cursor<'a> {
        let at = index.min(args.len());
        Cursor { args, at, next: args.get(at) }
    }

    fn advance(&mut self, count: usize) {
        self.at += count;
        self.next = self.args.get(self.at);
    }

    /// The index of the argument that comes next; the number of arguments at the end.
    pub fn index(&self) -> usize {
        self.at
    }

    /// How many arguments are left.
    pub fn left(&self) -> usize {
        self.args.len() - self.at
    }

    /// The arguments that are left.
    pub fn args(&self) -> Args<'a> {
        self.args.from(self.at)
    }

    /// The argument that comes next, which is not taken.
    pub fn peek(&self) -> Option<&'a [u8]> {
        self.next
    }

    /// Whether this word comes next, in any case of letters; it is not taken.
    #[inline]
    pub fn is_at(&self, word: &str) -> bool {
        self.next.is_some_and(|next| next.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Takes this word, in any case of letters, if it comes next.
    #[inline]
    pub fn word(&mut self, word: &str) -> bool {
        self.option(word, 0)
    }

    /// Takes this word if it comes next and at least this number of values follow it.
    #[inline]
    pub fn option(&mut self, word: &str, values: usize) -> bool {
        let is_here = self.is_at(word) && self.left() > values;
        if is_here {
            self.advance(1);
        }
        is_here
    }

    /// Takes one of these words, if one comes next; returns its meaning.
    pub fn one_of<T: Copy>(&mut self, words: &[(&str, T)]) -> Option<T> {
        let next = self.next?;
        let (_, meaning) = words.iter().find(|(word, _)| next.eq_ignore_ascii_case(word.as_bytes()))?;
        self.advance(1);
        Some(*meaning)
    }

    /// Takes the next argument.
    ///
    /// # Errors
    /// [`Error::Syntax`] if absent.
    pub fn value(&mut self) -> Result<&'a [u8], Error> {
        let value = self.next.ok_or(Error::Syntax)?;
        self.advance(1);
        Ok(value)
    }

    /// Passes over the next `count` arguments, or as many as there are.
    pub fn skip(&mut self, count: usize) {
        self.advance(count.min(self.left()));
    }

    /// Takes the next argument, an integer.
    ///
    /// # Errors
    /// [`Error::NotInteger`], or that it is absent.
    pub fn int(&mut self) -> Result<i64, Error> {
        parse_i64(self.value()?).ok_or(Error::NotInteger)
    }

    /// Takes the next argument, an integer that is at least `least`.
    ///
    /// # Errors
    /// `error` for any other text, or that it is absent.
    pub fn at_least(&mut self, least: i64, error: &'static str) -> Result<i64, Error> {
        parse_i64(self.value()?).filter(|number| *number >= least).ok_or(Error::Fixed(error))
    }

    /// Takes the next argument, a number.
    ///
    /// # Errors
    /// [`Error::NotFloat`], also for NaN, or that it is absent.
    pub fn float(&mut self) -> Result<f64, Error> {
        parse_f64(self.value()?).filter(|number| !number.is_nan()).ok_or(Error::NotFloat)
    }

    /// Takes the next `count` arguments: their indexes.
    ///
    /// # Errors
    /// [`Error::Syntax`] if there are fewer.
    pub fn span(&mut self, count: i64) -> Result<std::ops::Range<usize>, Error> {
        let count = usize::try_from(count).ok().filter(|count| *count <= self.left()).ok_or(Error::Syntax)?;
        self.advance(count);
        Ok(self.at - count..self.at)
    }

    /// Ends the arguments.
    ///
    /// # Errors
    /// [`Error::Syntax`] if anything is left.
    pub fn finish(self) -> Outcome {
        if self.left() == 0 { Ok(()) } else { Err(Error::Syntax) }
    }
}

#[cfg(test)]
mod tests {
    use super::Cursor;
    use crate::error::Error;
    use martlet_protocol::request::OwnedArgs;

    fn owned(line: &str) -> OwnedArgs {
        OwnedArgs::from_slices(line.split(' ').map(str::as_bytes))
    }

    #[test]
    fn options_are_taken_whole_or_left() {
        let args = owned("XRANGE k Count 5 LIMIT 7 asc");
        let mut rest = Cursor::new(args.view(), 2);
        assert!(!rest.word("asc") && !rest.option("COUNT", 5));
        assert!(rest.option("count", 1) && rest.int() == Ok(5));
        assert!(!rest.option("limit", 3) && rest.is_at("limit") && rest.left() == 3);
        assert!(rest.option("limit", 2) && rest.finish() == Err(Error::Syntax));
        assert_eq!((rest.index(), rest.at_least(8, "ERR few")), (5, Err(Error::Fixed("ERR few"))));
        assert_eq!(rest.one_of(&[("desc", 1), ("ASC", 2)]), Some(2));
        assert_eq!((rest.finish(), rest.left(), rest.peek()), (Ok(()), 0, None));
    }

    #[test]
    fn no_read_goes_past_the_end() {
        let args = owned("C a b");
        let mut rest = Cursor::new(args.view(), 9);
        assert_eq!((rest.index(), rest.left(), rest.finish()), (3, 0, Ok(())));
        assert!(!rest.word("") && rest.one_of(&[("", ())]).is_none());
        assert_eq!((rest.value(), rest.int()), (Err(Error::Syntax), Err(Error::Syntax)));
        assert!(rest.float() == Err(Error::Syntax) && rest.span(1).is_err());
        let mut rest = Cursor::new(args.view(), 1);
        assert!([3, -1, i64::MIN, i64::MAX].iter().all(|count| rest.span(*count).is_err()));
        assert_eq!((rest.span(2), rest.span(0)), (Ok(1..3), Ok(3..3)));
    }

    #[test]
    fn numbers_have_the_texts_of_redis() {
        let args = owned("C 1.5 x nan 1.5");
        let mut rest = Cursor::new(args.view(), 1);
        assert_eq!((rest.int(), rest.int()), (Err(Error::NotInteger), Err(Error::NotInteger)));
        assert_eq!((rest.float(), rest.float()), (Err(Error::NotFloat), Ok(1.5)));
    }
}
