//! The fields of a schema.

use super::{Context, vector};
use crate::Error;
use crate::arguments::Cursor;
use crate::schema::{
    Coordinates, Definition, Field, FieldKind, MAX_FIELDS, MAX_TEXT_FIELDS, Phonetic, Source, Tag, Text,
};

/// Text fields of an index beyond which MAXTEXTFIELDS must have been given for others to be added.
const NARROW_TEXT_FIELDS: usize = 32;

/// Adds the fields that the rest of the arguments define. `is_new`: the index is being created.
pub(super) fn add(
    definition: &mut Definition,
    cursor: &mut Cursor<'_>,
    context: Context,
    is_new: bool,
) -> Result<(), Error> {
    if cursor.is_at_end() {
        return Err(Error::new("Fields arguments are missing"));
    }
    let mut text_fields = definition.fields.iter().filter(|field| has_text_bit(field)).count();
    while let Some(identifier) = cursor.take_next() {
        if definition.fields.len() >= MAX_FIELDS {
            return Err(Error::new(format!("Schema is limited to {MAX_FIELDS} fields")));
        }
        let name = match cursor.take("AS") {
            true => cursor.take_next().ok_or_else(|| Error::new("AS requires an argument"))?,
            false => identifier,
        };
        if definition.fields.iter().any(|field| *field.name == *name) {
            let name = String::from_utf8_lossy(name);
            return Err(Error::new(format!("Duplicate field in schema - {name}")));
        }
        let field = parse(definition, identifier, name, cursor, context)?;
        if has_text_bit(&field) {
            if text_fields >= MAX_TEXT_FIELDS {
                return Err(Error::new(format!("Schema is limited to {MAX_TEXT_FIELDS} TEXT fields")));
            }
            widen(definition, text_fields, is_new)?;
            text_fields += 1;
            let has_alias = field.name != field.identifier
                || definition.fields.iter().any(|field| field.name != field.identifier);
            if has_alias && !definition.options.no_offsets {
                check_path(definition, &field.identifier, &field.name, context)?;
            }
        }
        definition.fields.push(field);
    }
    Ok(())
}

/// Whether a field has a bit in the postings' masks.
fn has_text_bit(field: &Field) -> bool {
    matches!(field.kind, FieldKind::Text(_)) && !field.no_index
}

/// A text field behind those that a narrow mask has bits for.
fn widen(definition: &mut Definition, text_fields: usize, is_new: bool) -> Result<(), Error> {
    let options = &mut definition.options;
    if text_fields < NARROW_TEXT_FIELDS || options.no_fields || options.max_text_fields {
        return Ok(());
    }
    if !is_new {
        return Err(Error::new(
            "Cannot add more fields. Declare index with wide fields to allow adding unlimited fields",
        ));
    }
    options.max_text_fields = true;
    Ok(())
}

fn check_path(
    definition: &Definition,
    identifier: &[u8],
    name: &[u8],
    context: Context,
) -> Result<(), Error> {
    if definition.source == Source::Hash || (context.is_path)(identifier) {
        return Ok(());
    }
    let show = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    let (path, name, index) = (show(identifier), show(name), show(&definition.name));
    Err(Error::new(format!("Invalid JSONPath '{path}' in attribute '{name}' in index '{index}'")))
}

/// The options of fields of several types.
#[derive(Default)]
struct Common {
    suffixes: bool,
    index_empty: bool,
    index_missing: bool,
}

impl Common {
    fn take(&mut self, cursor: &mut Cursor<'_>) -> bool {
        if cursor.take("WITHSUFFIXTRIE") {
            self.suffixes = true;
        } else if cursor.take("INDEXEMPTY") {
            self.index_empty = true;
        } else if cursor.take("INDEXMISSING") {
            self.index_missing = true;
        } else {
            return false;
        }
        true
    }
}

fn parse(
    definition: &Definition,
    identifier: &[u8],
    name: &[u8],
    cursor: &mut Cursor<'_>,
    context: Context,
) -> Result<Field, Error> {
    let shown = || String::from_utf8_lossy(name);
    if cursor.is_at_end() {
        return Err(Error::new(format!("Field `{}` does not have a type", shown())));
    }
    let mut common = Common::default();
    let kind = if cursor.take("TEXT") {
        text(cursor, &mut common)?
    } else if cursor.take("TAG") {
        tag(definition.source, cursor, &mut common)?
    } else if cursor.take("GEOSHAPE") {
        let is_flat = cursor.take("FLAT");
        if !is_flat {
            cursor.take("SPHERICAL");
        }
        common.index_missing = cursor.take("INDEXMISSING");
        FieldKind::GeoShape(if is_flat { Coordinates::Flat } else { Coordinates::Spherical })
    } else if cursor.take("VECTOR") {
        check_path(definition, identifier, name, context)?;
        let kind = FieldKind::Vector(vector::parse(cursor, context.memory_bytes)?);
        common.index_missing = cursor.take("INDEXMISSING");
        kind
    } else if cursor.take("NUMERIC") {
        common.index_missing = cursor.take("INDEXMISSING");
        FieldKind::Numeric
    } else if cursor.take("GEO") {
        common.index_missing = cursor.take("INDEXMISSING");
        FieldKind::Geo
    } else {
        return Err(Error::new(format!("Invalid field type for field `{}`", shown())));
    };
    let mut field = Field {
        identifier: identifier.into(),
        name: name.into(),
        kind,
        sortable: false,
        unf: false,
        no_index: false,
        index_empty: common.index_empty,
        index_missing: common.index_missing,
    };
    if !matches!(field.kind, FieldKind::Vector(_)) {
        storage(definition.source, &mut field, cursor);
    }
    if field.no_index && field.index_missing {
        let text = format!("'Field `{}` cannot be defined with both `NOINDEX` and `INDEXMISSING`'", shown());
        return Err(Error::new(text));
    }
    Ok(field)
}

/// SORTABLE, UNF and NOINDEX.
fn storage(source: Source, field: &mut Field, cursor: &mut Cursor<'_>) {
    loop {
        if cursor.take("SORTABLE") {
            field.sortable = true;
            // These are never normalised.
            field.unf |= cursor.take("UNF")
                || source == Source::Json
                || match field.kind {
                    FieldKind::Numeric => true,
                    FieldKind::Tag(tag) => tag.case_sensitive,
                    _ => false,
                };
        } else if cursor.take("NOINDEX") {
            field.no_index = true;
        } else {
            break;
        }
    }
}

fn text(cursor: &mut Cursor<'_>, common: &mut Common) -> Result<FieldKind, Error> {
    let mut text = Text { weight: 1.0, no_stem: false, phonetic: None, suffixes: false };
    loop {
        if cursor.take("NOSTEM") {
            text.no_stem = true;
        } else if cursor.take("WEIGHT") {
            text.weight = cursor.f64().map_err(|refused| refused.of("weight"))?;
        } else if cursor.take("PHONETIC") {
            let matcher = cursor.take_next().ok_or_else(|| Error::new("PHONETIC requires an argument"))?;
            text.phonetic = Some(phonetic(matcher)?);
        } else if !common.take(cursor) {
            break;
        }
    }
    text.suffixes = common.suffixes;
    Ok(FieldKind::Text(text))
}

fn phonetic(matcher: &[u8]) -> Result<Phonetic, Error> {
    Ok(match matcher {
        b"dm:en" => Phonetic::English,
        b"dm:fr" => Phonetic::French,
        b"dm:pt" => Phonetic::Portuguese,
        b"dm:es" => Phonetic::Spanish,
        _ => {
            return Err(Error::new(
                "Matcher Format: <2 chars algorithm>:<2 chars language>. Support algorithms: double metaphone (dm). \
                 Supported languages: English (en), French (fr), Portuguese (pt) and Spanish (es)",
            ));
        }
    })
}

fn tag(source: Source, cursor: &mut Cursor<'_>, common: &mut Common) -> Result<FieldKind, Error> {
    let separator = match source {
        Source::Hash => Some(b','),
        Source::Json => None,
    };
    let mut tag = Tag { separator, case_sensitive: false, suffixes: false };
    loop {
        if cursor.take("SEPARATOR") {
            let text = cursor.take_next().ok_or_else(|| Error::new("SEPARATOR requires an argument"))?;
            let [byte] = text else {
                let text = String::from_utf8_lossy(text);
                return Err(Error::new(format!("Tag separator must be a single character. Got `{text}`")));
            };
            tag.separator = Some(*byte);
        } else if cursor.take("CASESENSITIVE") {
            tag.case_sensitive = true;
        } else if !common.take(cursor) {
            break;
        }
    }
    tag.suffixes = common.suffixes;
    Ok(FieldKind::Tag(tag))
}
