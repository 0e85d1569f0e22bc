//! A document's way into an index: its fields' values become terms, tags, numbers and vectors.
//!
//! A document of which one field cannot be indexed is not indexed at all, as in RediSearch. Of a text that is
//! no shape only the field is left out.

use std::borrow::Cow;
use std::sync::Arc;

use martlet_base::hash::hash_bytes;
use martlet_types::geo::Point;

use crate::error::Error;
use crate::geometry::Shape;
use crate::index::content::Content;
use crate::index::sortables::Sortable;
use crate::index::vectors;
use crate::number::parse_c;
use crate::schema::{
    Coordinates, Definition, Element, Field, FieldKind, Language, Source, Tag, Text, Vector,
};
use crate::synonyms::Synonyms;
use crate::text::fold::folded;
use crate::text::stopwords::Stopwords;
use crate::text::{Analyser, Rules};

/// Positions between two values of one field, so that no phrase goes from one into the other (RediSearch's
/// MULTI_TEXT_SLOP).
const BETWEEN_VALUES: u32 = 100;

/// The weight of a word's stem, as a part of the word's.
const STEM_WEIGHT: f64 = 0.2;

/// A field's value in a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// The document does not have it, or it is JSON's null.
    Missing,
    /// A hash's value, or a string.
    Text(Cow<'a, [u8]>),
    /// A number.
    Number(f64),
    /// A truth value.
    Bool(bool),
    /// An array, or the matches of a path that has several.
    Several(Vec<Value<'a>>),
    /// A JSON object.
    Object,
}

/// A document whose fields can be asked for.
pub trait Document {
    /// The value of a field, by its identifier.
    fn value(&self, identifier: &[u8]) -> Value<'_>;
}

/// Why a document is not indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The number of the field; `None` if it is none of the schema's.
    pub field: Option<usize>,
    /// RediSearch's words.
    pub error: Error,
}

/// A thread's means to analyse documents.
#[derive(Default)]
pub struct Analysis {
    analyser: Analyser,
    content: Content,
}

impl Analysis {
    /// Analyses a document for an index without synonyms.
    ///
    /// # Errors
    /// A field of it cannot be indexed.
    pub fn of(
        &mut self,
        definition: &Definition,
        stopwords: &Stopwords,
        key: &[u8],
        document: &dyn Document,
    ) -> Result<&mut Content, Failure> {
        self.with_synonyms(definition, stopwords, &Synonyms::default(), key, document)
    }

    /// Analyses a document for an index with synonyms.
    ///
    /// # Errors
    /// A field of it cannot be indexed.
    pub fn with_synonyms(
        &mut self,
        definition: &Definition,
        stopwords: &Stopwords,
        synonyms: &Synonyms,
        key: &[u8],
        document: &dyn Document,
    ) -> Result<&mut Content, Failure> {
        self.content.clear();
        self.content.fingerprint = synonyms.fingerprint();
        self.content.key.extend_from_slice(key);
        let language = language_of(definition, document);
        if let Some(Value::Text(name)) = definition.language_field.as_ref().map(|field| document.value(field))
        {
            self.content.fingerprint ^= hash_bytes(&name);
        }
        self.score_and_payload(definition, document);
        let mut reader = Reader {
            analyser: &mut self.analyser,
            content: &mut self.content,
            stopwords,
            synonyms: Some(synonyms).filter(|synonyms| !synonyms.is_empty()),
            language,
            is_json: definition.source == Source::Json,
            position: 0,
            text_field: 0,
            field: 0,
        };
        for (number, field) in definition.fields.iter().enumerate() {
            reader.field = number;
            let value = document.value(&field.identifier);
            reader.note(&value);
            reader.read(field, &value).map_err(|error| Failure { field: Some(number), error })?;
            reader.text_field += u32::from(matches!(field.kind, FieldKind::Text(_)));
        }
        Ok(&mut self.content)
    }

    fn score_and_payload(&mut self, definition: &Definition, document: &dyn Document) {
        let content = &mut self.content;
        content.score = definition.score as f32;
        if let Some(field) = &definition.score_field {
            let score = match document.value(field) {
                Value::Text(text) => parse_number(&text),
                Value::Number(number) => Some(number),
                _ => None,
            };
            if let Some(score) = score.filter(|score| (0.0..=1.0).contains(score)) {
                content.score = score as f32;
            }
        }
        content.fingerprint = mixed(content.fingerprint, u64::from(content.score.to_bits()));
        if let Some(field) = &definition.payload_field
            && let Value::Text(payload) = document.value(field)
        {
            content.fingerprint = mixed(content.fingerprint, hash_bytes(&payload));
            content.payload = Some(payload.into_owned().into_boxed_slice());
        }
    }
}

/// The language of a document's texts.
pub fn language_of(definition: &Definition, document: &dyn Document) -> Language {
    let own = definition.language.unwrap_or_default();
    match definition.language_field.as_ref().map(|field| document.value(field)) {
        Some(Value::Text(name)) => Language::parse(&name).unwrap_or(own),
        _ => own,
    }
}

fn mixed(hash: u64, with: u64) -> u64 {
    (hash.rotate_left(23) ^ with).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Reads the fields of one document.
struct Reader<'a> {
    analyser: &'a mut Analyser,
    content: &'a mut Content,
    stopwords: &'a Stopwords,
    /// The index's synonyms, if it has any.
    synonyms: Option<&'a Synonyms>,
    language: Language,
    is_json: bool,
    /// The last position of a term.
    position: u32,
    /// The number of the field among the text fields.
    text_field: u32,
    field: usize,
}

impl Reader<'_> {
    /// Takes a value into the fingerprint.
    fn note(&mut self, value: &Value<'_>) {
        let hash = match value {
            Value::Missing => 1,
            Value::Object => 2,
            Value::Bool(bool) => 3 + u64::from(*bool),
            Value::Number(number) => mixed(5, number.to_bits()),
            Value::Text(text) => hash_bytes(text),
            Value::Several(values) => {
                values.iter().for_each(|value| self.note(value));
                mixed(6, values.len() as u64)
            }
        };
        self.content.fingerprint = mixed(self.content.fingerprint, hash);
    }

    fn read(&mut self, field: &Field, value: &Value<'_>) -> Result<(), Error> {
        if field.sortable {
            self.content.sortables.push(sortable(field, value));
        }
        if *value == Value::Missing {
            if field.index_missing {
                self.content.missing.push(self.field);
            }
            return Ok(());
        }
        if field.no_index {
            return Ok(());
        }
        match &field.kind {
            FieldKind::Text(text) => self.text(text, value, field.index_empty),
            FieldKind::Tag(tag) => self.tags(field, tag, value),
            FieldKind::Numeric => self.numbers(value),
            FieldKind::Geo => self.points(value),
            FieldKind::Vector(vector) => self.vector(vector, value),
            FieldKind::GeoShape(coordinates) => self.shape(*coordinates, value),
        }
    }

    fn text(&mut self, text: &Text, value: &Value<'_>, has_empty: bool) -> Result<(), Error> {
        match value {
            Value::Text(bytes) => self.one_text(text, bytes, has_empty),
            Value::Several(values) => {
                for (at, value) in values.iter().enumerate() {
                    match value {
                        Value::Missing => {}
                        Value::Text(bytes) => {
                            self.position += if at > 0 { BETWEEN_VALUES } else { 0 };
                            self.one_text(text, bytes, has_empty);
                        }
                        _ => return Err(Error::new("TEXT/TAG fields can only contain strings or nulls")),
                    }
                }
            }
            _ => return Err(unsupported(value, "TEXT")),
        }
        Ok(())
    }

    fn one_text(&mut self, text: &Text, bytes: &[u8], has_empty: bool) {
        let rules = Rules::of_field(text, self.language, self.stopwords);
        let weight = (text.weight.round() as u32).max(1);
        let stem_weight = ((text.weight * STEM_WEIGHT).round() as u32).max(1);
        let (terms, field, synonyms) = (&mut self.content.terms, self.text_field, self.synonyms);
        if bytes.is_empty() && has_empty {
            terms.add(b"", field, self.position, weight, true);
        }
        let count = self.analyser.analyse(bytes, rules, self.position, |token| {
            terms.add(token.term, field, token.position, weight, true);
            if let Some(stem) = token.stem {
                terms.add(stem, field, token.position, stem_weight, false);
            }
            if let Some(sound) = token.sound {
                terms.add(sound, field, token.position, weight, false);
            }
            if let Some(synonyms) = synonyms {
                for group in synonyms.groups(token.term) {
                    terms.add(group, field, token.position, weight, false);
                }
            }
        });
        self.position = self.position.saturating_add(count);
    }

    fn tags(&mut self, field: &Field, tag: &Tag, value: &Value<'_>) -> Result<(), Error> {
        match value {
            Value::Text(bytes) => self.one_text_of_tags(field, tag, bytes),
            Value::Bool(bool) if self.is_json => {
                self.one_tag(tag, if *bool { b"true" } else { b"false" });
            }
            Value::Several(values) => {
                for value in values {
                    match value {
                        Value::Missing => {}
                        Value::Text(_) | Value::Bool(_) => self.tags(field, tag, value)?,
                        _ => return Err(Error::new("TEXT/TAG fields can only contain strings or nulls")),
                    }
                }
            }
            _ => return Err(unsupported(value, "TAG")),
        }
        Ok(())
    }

    fn one_text_of_tags(&mut self, field: &Field, tag: &Tag, bytes: &[u8]) {
        if bytes.is_empty() {
            if field.index_empty {
                self.one_tag(tag, b"");
            }
            return;
        }
        let Some(separator) = tag.separator else { return self.one_tag(tag, bytes) };
        for part in bytes.split(|&byte| byte == separator) {
            let part = part.trim_ascii();
            if !part.is_empty() || field.index_empty {
                self.one_tag(tag, part);
            }
        }
    }

    fn one_tag(&mut self, tag: &Tag, bytes: &[u8]) {
        let name = if tag.case_sensitive { bytes.into() } else { boxed_fold(bytes) };
        self.content.tags.push((self.field, name));
    }

    fn numbers(&mut self, value: &Value<'_>) -> Result<(), Error> {
        match value {
            Value::Number(number) if self.is_json => self.content.numbers.push((self.field, *number)),
            Value::Text(text) if !self.is_json => {
                let number = parse_number(text).ok_or_else(|| {
                    Error::new(format!("Invalid numeric value: '{}'", String::from_utf8_lossy(text)))
                })?;
                self.content.numbers.push((self.field, number));
            }
            Value::Several(values) => {
                for value in values {
                    match value {
                        Value::Missing => {}
                        Value::Number(number) => self.content.numbers.push((self.field, *number)),
                        _ => return Err(Error::new("NUMERIC fields can only contain numbers or nulls")),
                    }
                }
            }
            _ => return Err(unsupported(value, "NUMERIC")),
        }
        Ok(())
    }

    fn points(&mut self, value: &Value<'_>) -> Result<(), Error> {
        match value {
            Value::Text(text) => {
                let point = parse_point(text)?;
                self.content.numbers.push((self.field, point.score() as f64));
            }
            Value::Several(values) => {
                for value in values {
                    match value {
                        Value::Missing => {}
                        Value::Text(_) => self.points(value)?,
                        _ => return Err(Error::new("GEO fields can only contain strings or nulls")),
                    }
                }
            }
            _ => return Err(unsupported(value, "GEO")),
        }
        Ok(())
    }

    /// A text that is no shape is noted, and the document indexed without it.
    fn shape(&mut self, coordinates: Coordinates, value: &Value<'_>) -> Result<(), Error> {
        match value {
            Value::Text(text) => match Shape::parse(text, coordinates) {
                Ok(shape) => self.content.shapes.push((self.field, Arc::new(shape))),
                Err(error) => {
                    let error = Error::new(format!("Error indexing geoshape: {}", error.text()));
                    self.content.failures.push((self.field, error));
                }
            },
            Value::Number(_) => {
                return Err(Error::new("Invalid JSON type: Numeric type can represent only NUMERIC field"));
            }
            Value::Bool(_) => {
                return Err(Error::new("Invalid JSON type: Boolean type can be represent only TAG field"));
            }
            Value::Several(_) => {
                return Err(Error::new("Invalid JSON type: Array type cannot represent GEOMETRY field"));
            }
            Value::Object | Value::Missing => return Err(unsupported(value, "GEOMETRY")),
        }
        Ok(())
    }

    fn vector(&mut self, vector: &Vector, value: &Value<'_>) -> Result<(), Error> {
        let components = match value {
            Value::Text(bytes) if !self.is_json => vectors::decode(vector.element, vector.dimension, bytes)?,
            Value::Several(values) => {
                let number = |value: &Value<'_>| match value {
                    Value::Number(number) => Some(as_element(vector.element, *number)),
                    _ => None,
                };
                let components: Option<Vec<f32>> = values.iter().map(number).collect();
                components
                    .filter(|components| components.len() == vector.dimension)
                    .ok_or_else(|| Error::new("Invalid vector length"))?
            }
            _ => return Err(unsupported(value, "VECTOR")),
        };
        self.content.vectors.push((self.field, components));
        Ok(())
    }
}

/// A number as an element of a vector holds it.
fn as_element(element: Element, number: f64) -> f32 {
    match element {
        Element::Int8 => f32::from(number as i8),
        Element::Uint8 => f32::from(number as u8),
        _ => number as f32,
    }
}

fn unsupported(value: &Value<'_>, wanted: &str) -> Error {
    let got = match value {
        Value::Missing => "null",
        Value::Text(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "boolean",
        Value::Several(_) => "array",
        Value::Object => "object",
    };
    Error::new(format!("Invalid JSON type: {got} type can't be represented as {wanted}"))
}

/// See [`folded`].
fn boxed_fold(text: &[u8]) -> Box<[u8]> {
    folded(text).into_owned().into_boxed_slice()
}

/// A number as C reads it, the whole text: no NaN, and no number that is out of range.
pub fn parse_number(text: &[u8]) -> Option<f64> {
    let is_named = || text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'f'));
    parse_c(text).filter(|number| {
        !text.is_empty()
            && !number.is_nan()
            && (number.is_finite() || !text.iter().any(u8::is_ascii_digit) && is_named())
    })
}

/// A point from "longitude,latitude", or with a space between.
///
/// # Errors
/// The text has no two numbers, or they are beyond what a point may have.
pub fn parse_point(text: &[u8]) -> Result<Point, Error> {
    let at = text.iter().position(|&byte| byte == b',' || byte == b' ');
    let numbers = at.and_then(|at| {
        let (longitude, latitude) = (&text[..at], text[at + 1..].trim_ascii());
        Some((parse_number(longitude)?, parse_number(latitude)?))
    });
    let (longitude, latitude) = numbers.ok_or_else(|| Error::new("Invalid geo string"))?;
    Point::new(longitude, latitude)
        .ok_or_else(|| Error::new(format!("Invalid geo coordinates: {longitude:.6}, {latitude:.6}")))
}

/// The value by which results are sorted.
fn sortable(field: &Field, value: &Value<'_>) -> Sortable {
    match (&field.kind, value) {
        (FieldKind::Numeric, Value::Number(number)) => Sortable::Number(*number),
        (FieldKind::Numeric, Value::Text(text)) => {
            parse_number(text).map_or(Sortable::Missing, Sortable::Number)
        }
        (FieldKind::Text(_) | FieldKind::Tag(_), Value::Text(text)) if !field.unf => {
            Sortable::Text(boxed_fold(text))
        }
        (_, Value::Text(text)) => Sortable::Text((**text).into()),
        (_, Value::Number(number)) => Sortable::Number(*number),
        (_, Value::Bool(bool)) => Sortable::Text(if *bool { b"true".as_slice() } else { b"false" }.into()),
        (_, Value::Several(values)) => {
            values.first().map_or(Sortable::Missing, |first| sortable(field, first))
        }
        _ => Sortable::Missing,
    }
}

#[cfg(test)]
mod tests;
