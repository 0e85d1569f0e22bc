//! Paths: both dialects of ReJSON, parsed once and evaluated on any document.
//!
//! A path that begins with `$` (alone, or before `.`, `[` or `~`) is a JSONPath and leads to any number of
//! places; every other one is legacy, means the first place, and is a JSONPath with `$` or `$.` before it.
//! Since Redis 8.10 a path may also be an expression of paths (`$.a + 1`, `$.list.length()`, `avg($.x)`),
//! which only reads.
//!
//! A parsed path has no reference to a document and is `Send + Sync`, so that it can be cached. Work is
//! bounded: see [`crate::limits`].

mod eval;
mod function;
mod parse;
mod term;

use crate::error::{Error, Result};
use crate::value::{Node, Value};
use function::Function;
use regex::Regex;
use triomphe::Arc;

/// The document's root, in both dialects.
const ROOT: &str = "$";
const LEGACY_ROOT: &str = ".";

/// A parsed path. A clone shares the parsed form.
#[derive(Clone, Debug)]
pub struct Path {
    /// None for the root.
    parsed: Option<Arc<Parsed>>,
    is_legacy: bool,
}

#[derive(Debug)]
struct Parsed {
    original: Box<str>,
    /// The `$` form of a legacy path.
    rooted: Option<Box<str>>,
    query: Query,
}

#[derive(Clone, Debug)]
enum Query {
    Steps(Vec<Step>),
    Expression(Expr),
}

/// A step from a value to some below it.
#[derive(Clone, Debug)]
enum Step {
    Child(Box<str>),
    Children(Vec<Box<str>>),
    Elements(Vec<i64>),
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        step: usize,
    },
    All,
    Filter(Box<Expr>),
    /// The value itself and everything below it.
    Descend,
}

/// An expression: a filter's condition or operand, or a whole path.
#[derive(Clone, Debug)]
enum Expr {
    Literal(Value),
    /// A path from the value that a filter looks at (`@`).
    Current(Vec<Step>),
    /// A path from the document's root (`$`).
    Root(Vec<Step>),
    Call(Function, Vec<Expr>),
    Arithmetic(Arithmetic, Box<Expr>, Box<Expr>),
    Negative(Box<Expr>),
    Positive(Box<Expr>),
    Compare(Comparison, Box<Expr>, Box<Expr>),
    /// `=~` with a literal pattern; none if the pattern is no regular expression, which matches nothing.
    Matches(Box<Expr>, Option<Box<Regex>>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Matches,
    In,
    NotIn,
    SubsetOf,
    AnyOf,
    NoneOf,
    Size,
    Empty,
}

/// A step of a [`Place`].
#[derive(Clone, Debug, PartialEq)]
pub enum PlaceStep {
    /// A member's name, a string.
    Name(Value),
    /// An element's index.
    Index(usize),
}

/// Where in a document a value stands.
pub type Place = Vec<PlaceStep>;

/// The last step of a path that adds.
pub(crate) enum Last<'p> {
    Name(&'p str),
    Index,
    Other,
}

/// The result of reading a path.
pub enum Found<'d> {
    /// The values at a path, in order; a value can be there more than once.
    Nodes(Vec<Node<'d>>),
    /// The values of an expression, usually one.
    Computed(Vec<Value>),
}

impl Path {
    /// Parses a path of either dialect.
    ///
    /// # Errors
    /// The text is not UTF-8, no path, or beyond a limit.
    pub fn parse(text: &[u8]) -> Result<Path> {
        let original = std::str::from_utf8(text).map_err(|_| Error::NotUtf8)?;
        match original {
            ROOT => return Ok(Path::root().into_jsonpath()),
            LEGACY_ROOT => return Ok(Path::root()),
            _ => {}
        }
        let is_legacy = !parse::is_jsonpath(original);
        let rooted: Option<Box<str>> = match original {
            _ if !is_legacy => None,
            _ if original.starts_with('.') => Some(["$", original].concat().into()),
            _ => Some(["$.", original].concat().into()),
        };
        let query = parse::parse(rooted.as_deref().unwrap_or(original))?;
        Ok(Path { parsed: Some(Arc::new(Parsed { original: original.into(), rooted, query })), is_legacy })
    }

    /// The path of commands that are given none: the root, in the legacy dialect.
    pub fn root() -> Path {
        Path { parsed: None, is_legacy: true }
    }

    /// Whether a path of this text is of the dialect of JSONPath, well-formed or not.
    pub fn is_jsonpath(text: &str) -> bool {
        parse::is_jsonpath(text)
    }

    /// The same path in the other dialect, if it is legacy: it leads to all places.
    pub fn into_jsonpath(self) -> Path {
        Path { is_legacy: false, ..self }
    }

    /// The path as it was given.
    pub fn original(&self) -> &str {
        match &self.parsed {
            _ if !self.is_legacy => self.text(),
            Some(parsed) => &parsed.original,
            None => LEGACY_ROOT,
        }
    }

    /// The path in its `$` form.
    pub fn text(&self) -> &str {
        let parsed = self.parsed.as_deref();
        parsed.map_or(ROOT, |parsed| parsed.rooted.as_deref().unwrap_or(&parsed.original))
    }

    /// Whether the path is of the legacy dialect.
    pub fn is_legacy(&self) -> bool {
        self.is_legacy
    }

    /// Whether the path is the document's root.
    pub fn is_root(&self) -> bool {
        self.steps().is_ok_and(<[Step]>::is_empty)
    }

    /// Whether the path is an expression, which no command writes to.
    pub fn is_expression(&self) -> bool {
        self.steps().is_err()
    }

    /// Whether the parsed form takes little memory for the path's length: it has no filter and no expression,
    /// which may have regular expressions.
    pub fn is_plain(&self) -> bool {
        let is_plain = |step: &Step| !matches!(step, Step::Filter(_));
        self.steps().is_ok_and(|steps| steps.iter().all(is_plain))
    }

    /// Whether the path leads to at most one place in any document.
    pub(crate) fn is_static(&self) -> bool {
        let is_single = |step: &Step| match step {
            Step::Child(_) => true,
            Step::Elements(indices) => indices.len() == 1,
            _ => false,
        };
        self.steps().is_ok_and(|steps| steps.iter().all(is_single))
    }

    /// The last step.
    pub(crate) fn last(&self) -> Option<Last<'_>> {
        let step = self.steps().ok()?.last()?;
        Some(match step {
            Step::Child(name) => Last::Name(name),
            Step::Elements(_) => Last::Index,
            _ => Last::Other,
        })
    }

    fn query(&self) -> Option<&Query> {
        self.parsed.as_ref().map(|parsed| &parsed.query)
    }

    fn steps(&self) -> Result<&[Step]> {
        match self.query() {
            Some(Query::Steps(steps)) => Ok(steps),
            Some(Query::Expression(_)) => Err(Error::Expression),
            None => Ok(&[]),
        }
    }

    /// Evaluates the path on the document at `root`.
    ///
    /// # Errors
    /// The evaluation is beyond a limit.
    pub fn read<'d>(&'d self, root: Node<'d>) -> Result<Found<'d>> {
        match self.query() {
            Some(Query::Expression(expression)) => eval::compute(expression, root).map(Found::Computed),
            _ => self.nodes(root).map(Found::Nodes),
        }
    }

    /// The values that the path leads to.
    ///
    /// # Errors
    /// The path is an expression, or the evaluation is beyond a limit.
    pub fn nodes<'d>(&'d self, root: Node<'d>) -> Result<Vec<Node<'d>>> {
        eval::nodes(self.steps()?, root)
    }

    /// The values that the path leads to, with where they stand.
    ///
    /// # Errors
    /// The path is an expression, or the evaluation is beyond a limit.
    pub fn places<'d>(&'d self, root: Node<'d>) -> Result<Vec<(Node<'d>, Place)>> {
        eval::places(self.steps()?, root)
    }

    /// The places that the path without its last step leads to.
    pub(crate) fn parents<'d>(&'d self, root: Node<'d>) -> Result<Vec<(Node<'d>, Place)>> {
        let steps = self.steps()?;
        eval::places(&steps[..steps.len().saturating_sub(1)], root)
    }
}

#[cfg(test)]
mod tests;
