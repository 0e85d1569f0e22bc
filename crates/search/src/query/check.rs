//! Checks of a query against its definition, once its parameters have their values.

use super::Options;
use super::ast::{ALL_FIELDS, Intersect, Kind, Node, Tag};
use super::params::check_circle;
use super::vectors::{check_vector, name_distance};
use crate::Error;
use crate::schema::{Field, FieldKind};

/// Empty terms need a field that has them in its index.
pub(super) fn check_empty_terms(node: &Node, options: &Options<'_>) -> Result<(), Error> {
    match &node.kind {
        Kind::Tag(tag) => {
            let has_empty = options.field(&tag.field).is_some_and(|field| field.index_empty);
            let is_empty = |child: &Node| matches!(&child.kind, Kind::Term(term) if term.text.is_empty());
            if !has_empty && tag.children.iter().any(is_empty) {
                return Err(needs_empty());
            }
            Ok(())
        }
        Kind::Term(term) if term.text.is_empty() && node.fields != ALL_FIELDS => {
            let mut fields = options.text_fields().filter(|(bit, _)| node.fields & bit != 0).peekable();
            if fields.peek().is_some() && !fields.any(|(_, field)| field.index_empty) {
                return Err(needs_empty());
            }
            Ok(())
        }
        _ => node.children().iter().try_for_each(|child| check_empty_terms(child, options)),
    }
}

fn needs_empty() -> Error {
    Error::new("Use `INDEXEMPTY` in field creation in order to index and query for empty strings")
}

/// Refuses values that the index cannot answer, and gives the tags in a tree their fields' normal form.
pub(super) fn check_values(node: &mut Node, options: &Options<'_>) -> Result<(), Error> {
    match &mut node.kind {
        Kind::Geo(circle) => check_circle(circle)?,
        Kind::Missing(name) => {
            if options.field(name).is_some_and(|field| !field.index_missing) {
                let name = String::from_utf8_lossy(name);
                return Err(Error::new(format!(
                    "'ismissing' requires field '{name}' to be defined with 'INDEXMISSING'"
                )));
            }
        }
        Kind::Tag(tag) => normalise_tags(tag, options.field(&tag.field)),
        Kind::Vector(query) => {
            name_distance(query, options)?;
            if let Some(filter) = &mut query.filter {
                check_values(filter, options)?;
            }
            check_vector(query, options)?;
        }
        _ => node.children_mut().iter_mut().try_for_each(|child| check_values(child, options))?,
    }
    Ok(())
}

/// Brings the texts of tags into the form in which the field's index has them.
fn normalise_tags(tag: &mut Tag, field: Option<&Field>) {
    let kind = field.and_then(|field| match field.kind {
        FieldKind::Tag(tag) => Some(tag),
        _ => None,
    });
    for child in &mut tag.children {
        match (kind, &child.kind) {
            (Some(kind), _) => normalise(child, kind.case_sensitive),
            (None, Kind::Intersect(_)) => normalise(child, false),
            _ => {}
        }
    }
}

fn normalise(node: &mut Node, case_sensitive: bool) {
    let text = match &mut node.kind {
        Kind::Term(term) => &mut term.text,
        Kind::Affix(affix) => &mut affix.text,
        Kind::Wildcard(pattern) => pattern,
        Kind::Intersect(Intersect { children, .. }) => {
            children.iter_mut().for_each(|child| normalise(child, case_sensitive));
            return;
        }
        _ => return,
    };
    let unescaped = super::escape::unescaped(text);
    *text = if case_sensitive { unescaped.into() } else { unescaped.to_ascii_lowercase().into() };
}
