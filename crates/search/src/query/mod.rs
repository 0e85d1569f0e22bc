//! The query language of dialects 1 to 4.
//!
//! A query is parsed in time and memory that its length bounds, on a stack of fixed size: deep nesting and
//! many clauses are errors. A tree that [`parse`] returns is whole: parameters have their values, terms their
//! expansions, tags their normal form.

pub mod ast;
mod attributes;
mod check;
mod escape;
mod expand;
mod explain;
mod lexer;
mod operands;
mod params;
mod parser;
pub mod pattern;
mod ranges;
#[cfg(test)]
mod tests;
mod vectors;

use crate::Error;
use crate::schema::{Definition, Field, FieldKind, Language};
use crate::synonyms::Synonyms;
use crate::text::stopwords::Stopwords;
use ast::{FieldMask, Kind, Node};
pub use explain::{explain, explain_lines};
pub use params::Params;
use parser::Parser;

/// Most nodes of a query.
pub const CLAUSES_MAX: usize = 1 << 18;
/// Most operators and values on the parser's stack (RediSearch's: 256 symbols).
const STACK_MAX: usize = 250;
/// Most levels of a tree: two for each place of the parser's stack, and those that expansion adds.
pub const DEPTH_MAX: usize = 2 * STACK_MAX + 8;

/// The settings with which a query's text is read.
#[derive(Copy, Clone)]
pub struct Options<'o> {
    /// The index that is asked.
    pub definition: &'o Definition,
    /// DIALECT: 1 to 4.
    pub dialect: u8,
    /// PARAMS
    pub params: &'o Params,
    /// The words that a query passes over; none: NOSTOPWORDS.
    pub stopwords: Option<&'o Stopwords>,
    /// LANGUAGE, or the index's own.
    pub language: Language,
    /// Whether terms are sought as they are (VERBATIM).
    pub verbatim: bool,
    /// EXPANDER
    pub expander: Option<&'o [u8]>,
    /// The index's synonyms.
    pub synonyms: Option<&'o Synonyms>,
}

impl<'o> Options<'o> {
    /// A query in dialect 1 of an index, with nothing else said.
    pub fn new(definition: &'o Definition, stopwords: &'o Stopwords, params: &'o Params) -> Self {
        Options {
            definition,
            dialect: 1,
            params,
            stopwords: Some(stopwords),
            language: definition.language.unwrap_or_default(),
            verbatim: false,
            expander: None,
            synonyms: None,
        }
    }

    /// The field of a name.
    fn field(&self, name: &[u8]) -> Option<&'o Field> {
        self.definition.fields.iter().find(|field| *field.name == *name)
    }

    /// The text fields, each with its bit.
    fn text_fields(&self) -> impl Iterator<Item = (FieldMask, &'o Field)> + use<'o> {
        let fields = self.definition.fields.iter().filter(|field| matches!(field.kind, FieldKind::Text(_)));
        fields.enumerate().map(|(place, field)| (1_u128.checked_shl(place as u32).unwrap_or(0), field))
    }

    /// The bit of the text field of a name; zero if no such field is indexed.
    pub fn field_mask(&self, name: &[u8]) -> FieldMask {
        let found = self.text_fields().find(|(_, field)| *field.name == *name && !field.no_index);
        found.map_or(0, |(bit, _)| bit)
    }
}

/// The tree of a query.
pub fn parse(query: &[u8], options: &Options<'_>) -> Result<Node, Error> {
    let root = Parser::new(query, options).parse()?;
    let mut root = root.unwrap_or_else(|| Node::new(Kind::Empty));
    params::resolve(&mut root, options.params)?;
    check::check_empty_terms(&root, options)?;
    if !options.verbatim {
        expand::expand(&mut root, options)?;
    }
    check::check_values(&mut root, options)?;
    vectors::check_distance_fields(&root, options)?;
    Ok(root)
}
