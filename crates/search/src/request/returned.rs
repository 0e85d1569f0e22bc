//! RETURN, SUMMARIZE and HIGHLIGHT: which fields a result has, and how they are shown.

use crate::Error;
use crate::arguments::Cursor;
use std::collections::HashMap;

/// SUMMARIZE
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summarize {
    /// FRAGS: fragments at the most.
    pub fragments: u32,
    /// LEN: words of a fragment.
    pub words: u32,
    /// SEPARATOR: the text behind a fragment.
    pub separator: Box<[u8]>,
}

impl Default for Summarize {
    fn default() -> Self {
        Summarize { fragments: 3, words: 20, separator: Box::from(&b"... "[..]) }
    }
}

/// HIGHLIGHT
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Highlight {
    /// The text before a term.
    pub open: Box<[u8]>,
    /// The text behind a term.
    pub close: Box<[u8]>,
}

impl Default for Highlight {
    fn default() -> Self {
        Highlight { open: Box::from(&b"<b>"[..]), close: Box::from(&b"</b>"[..]) }
    }
}

/// A field of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnedField {
    /// The name under which it is returned.
    pub name: Box<[u8]>,
    /// The field or the path that is loaded.
    pub path: Box<[u8]>,
    /// Whether RETURN names it.
    pub is_explicit: bool,
    /// How it is summarised.
    pub summarize: Option<Summarize>,
    /// How its terms are marked.
    pub highlight: Option<Highlight>,
}

/// The fields of a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Returned {
    /// RETURN was given: only the fields are returned, else all of a document.
    pub is_explicit: bool,
    /// The fields, each name once.
    pub fields: Vec<ReturnedField>,
    /// How text fields are summarised that are not among the fields or say nothing of it.
    pub summarize: Option<Summarize>,
    /// How their terms are marked.
    pub highlight: Option<Highlight>,
}

impl Returned {
    /// Whether anything is summarised or marked.
    pub fn is_highlighted(&self) -> bool {
        let is_shaped = |field: &ReturnedField| field.summarize.is_some() || field.highlight.is_some();
        self.summarize.is_some() || self.highlight.is_some() || self.fields.iter().any(is_shaped)
    }

    /// How a field's text is summarised and marked. The settings without FIELDS complete those of a named
    /// field; where fields are named, others have no settings.
    pub fn shape_of(&self, name: &[u8]) -> (Option<&Summarize>, Option<&Highlight>) {
        let (summarize, highlight) = (self.summarize.as_ref(), self.highlight.as_ref());
        if self.fields.is_empty() {
            return (summarize, highlight);
        }
        match self.fields.iter().find(|field| *field.name == *name) {
            Some(field) => (field.summarize.as_ref().or(summarize), field.highlight.as_ref().or(highlight)),
            None => (None, None),
        }
    }

    /// The indexes of the fields of these names; those that are new are added.
    fn fields_of<'a>(&mut self, names: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<usize> {
        let known = self.fields.iter().enumerate();
        let mut index_of: HashMap<Box<[u8]>, usize> =
            known.map(|(index, field)| (field.name.clone(), index)).collect();
        let index = |(name, path): (&'a [u8], &'a [u8])| {
            *index_of.entry(name.into()).or_insert_with(|| {
                self.fields.push(ReturnedField {
                    name: name.into(),
                    path: path.into(),
                    is_explicit: false,
                    summarize: None,
                    highlight: None,
                });
                self.fields.len() - 1
            })
        };
        names.map(index).collect()
    }
}

/// RETURN: fields that only SUMMARIZE or HIGHLIGHT name are not returned.
pub(super) fn returned(mut arguments: Cursor<'_>, returned: &mut Returned) -> Result<(), Error> {
    let mut names = Vec::with_capacity(arguments.len());
    while let Some(path) = arguments.take_next() {
        let mut name = path;
        if arguments.take("AS") {
            let missing = || Error::new("RETURN path AS name - must be accompanied with NAME");
            name = arguments.take_next().ok_or_else(missing)?;
            if name.eq_ignore_ascii_case(b"AS") {
                return Err(Error::new("Alias for RETURN cannot be `AS`"));
            }
        }
        names.push((name, path));
    }
    for index in returned.fields_of(names.into_iter()) {
        if let Some(field) = returned.fields.get_mut(index) {
            field.is_explicit = true;
        }
    }
    returned.is_explicit = true;
    returned.fields.retain(|field| field.is_explicit);
    Ok(())
}

/// The fields behind FIELDS, if it is there; none: there are too few.
fn fields<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [&'a [u8]]> {
    match cursor.take("FIELDS") {
        true => Some(cursor.counted().ok()?.rest()),
        false => Some(&[]),
    }
}

/// SUMMARIZE; none: its arguments are wrong.
pub(super) fn summarize(cursor: &mut Cursor<'_>, returned: &mut Returned) -> Option<()> {
    let names = fields(cursor)?;
    let mut options = Summarize::default();
    loop {
        if cursor.take("LEN") {
            options.words = cursor.u32(0).ok()?;
        } else if cursor.take("FRAGS") {
            options.fragments = cursor.u32(0).ok()?;
        } else if cursor.take("SEPARATOR") {
            options.separator = cursor.take_next()?.into();
        } else {
            break;
        }
    }
    let indexes = returned.fields_of(names.iter().map(|name| (*name, *name)));
    if indexes.is_empty() {
        returned.summarize = Some(options);
        return Some(());
    }
    for index in indexes {
        returned.fields.get_mut(index)?.summarize = Some(options.clone());
    }
    Some(())
}

/// HIGHLIGHT; none: its arguments are wrong.
pub(super) fn highlight(cursor: &mut Cursor<'_>, returned: &mut Returned) -> Option<()> {
    let names = fields(cursor)?;
    let mut options = Highlight::default();
    while cursor.take("TAGS") {
        let mut tags = cursor.slice(2).ok()?;
        options.open = tags.take_next()?.into();
        options.close = tags.take_next()?.into();
    }
    let indexes = returned.fields_of(names.iter().map(|name| (*name, *name)));
    if indexes.is_empty() {
        returned.highlight = Some(options);
        return Some(());
    }
    for index in indexes {
        returned.fields.get_mut(index)?.highlight = Some(options.clone());
    }
    Some(())
}
