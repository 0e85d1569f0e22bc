//! Expansion: beside each term of a query, its synonyms, its sound and its stem.
//!
//! Terms in quotes, numbers, and terms below a negation or an option stay alone, as in RediSearch.

use super::Options;
use super::ast::{ALL_FIELDS, FieldMask, Intersect, Kind, Node, Term};
use crate::Error;
use crate::schema::{FieldKind, Language};
use crate::text::chinese;
use crate::text::stem::{STEM_PREFIX, stem_of};

/// Which of the expansions a query asks for (EXPANDER).
#[derive(Copy, Clone)]
struct Expander {
    synonyms: bool,
    phonetics: bool,
    /// Whether phonetics heed fields and attributes.
    heeds_fields: bool,
    stems: bool,
}

impl Expander {
    /// None: no expander has this name, and terms stay as they are.
    fn of(name: Option<&[u8]>) -> Option<Expander> {
        let none = Expander { synonyms: false, phonetics: false, heeds_fields: false, stems: false };
        match name {
            None | Some(b"DEFAULT") => {
                Some(Expander { synonyms: true, phonetics: true, heeds_fields: true, stems: true })
            }
            Some(b"SBSTEM") => Some(Expander { stems: true, ..none }),
            Some(b"SYNONYM") => Some(Expander { synonyms: true, ..none }),
            Some(b"PHONETIC") => Some(Expander { phonetics: true, ..none }),
            Some(_) => None,
        }
    }
}

/// Expands the terms of a tree.
pub(super) fn expand(node: &mut Node, options: &Options<'_>) -> Result<(), Error> {
    match Expander::of(options.expander) {
        Some(expander) => expand_node(node, expander, options),
        None => Ok(()),
    }
}

fn expand_node(node: &mut Node, expander: Expander, options: &Options<'_>) -> Result<(), Error> {
    if node.verbatim {
        return Ok(());
    }
    match &mut node.kind {
        // A token of Chinese is the phrase of its words, as in the index.
        Kind::Term(term)
            if options.language == Language::Chinese && chinese::words(&term.text).count() > 1 =>
        {
            let words = chinese::words(&term.text).map(|(_, word)| {
                let term = Term { text: word.into(), expanded: true };
                Node { fields: node.fields, ..Node::new(Kind::Term(term)) }
            });
            node.kind = Kind::Intersect(Intersect { children: words.collect(), exact: true });
        }
        Kind::Term(term) if !term.text.is_empty() => {
            let text = std::mem::take(&mut term.text);
            let added = expansions(node, &text, expander, options)?;
            if let Kind::Term(term) = &mut node.kind {
                term.text = text;
            }
            add(node, added);
        }
        Kind::Union(children) | Kind::Intersect(Intersect { children, exact: false }) => {
            children.iter_mut().try_for_each(|child| expand_node(child, expander, options))?;
        }
        _ => {}
    }
    Ok(())
}

/// Puts terms beside one that was a node.
fn add(node: &mut Node, terms: Vec<Vec<u8>>) {
    if terms.is_empty() {
        return;
    }
    let fields = node.fields;
    let original = std::mem::replace(node, Node::new(Kind::Union(Vec::new())));
    node.fields = fields;
    if let Kind::Union(children) = &mut node.kind {
        children.push(original);
        children.extend(terms.into_iter().map(|text| {
            let mut term = Node::new(Kind::Term(Term { text: text.into(), expanded: true }));
            term.fields = fields;
            term
        }));
    }
}

fn expansions(
    node: &Node,
    text: &[u8],
    expander: Expander,
    options: &Options<'_>,
) -> Result<Vec<Vec<u8>>, Error> {
    let mut found = Vec::new();
    if expander.synonyms
        && let Some(synonyms) = options.synonyms
    {
        found.extend(synonyms.groups(text).map(<[u8]>::to_vec));
    }
    if expander.phonetics && (!expander.heeds_fields || wants_phonetics(node, options)?) {
        found.extend(crate::text::phonetic::code_of(text));
    }
    if expander.stems && options.language != Language::Chinese {
        stems(text, options.language, &mut found);
    }
    Ok(found)
}

/// The stem as the index marks it, and the stem as a word if it is another one.
fn stems(text: &[u8], language: Language, found: &mut Vec<Vec<u8>>) {
    if let Some(stem) = stem_of(language, text) {
        found.push([&[STEM_PREFIX], &*stem].concat());
        if stem != text {
            found.push(stem);
        }
    }
}

/// Whether a term's sound is sought: as its attribute says, else if one of its fields is phonetic.
fn wants_phonetics(node: &Node, options: &Options<'_>) -> Result<bool, Error> {
    let is_phonetic = |fields: FieldMask| {
        let mut text = options.text_fields().filter(|(bit, _)| fields & bit != 0);
        text.any(|(_, field)| matches!(field.kind, FieldKind::Text(text) if text.phonetic.is_some()))
    };
    match node.attributes.phonetic {
        Some(_) if !is_phonetic(node.fields) => Err(Error::new("field does not support phonetics")),
        Some(wants) => Ok(wants),
        // A term in no field is expanded as one in all, as RediSearch's EXPLAIN shows.
        None => Ok(is_phonetic(if node.fields == 0 { ALL_FIELDS } else { node.fields })),
    }
}
