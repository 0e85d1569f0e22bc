//! The values of properties as aggregations have them, read from a key.

use std::sync::Arc;

use hashbrown::HashMap;
use martlet_json::path::Path;
use martlet_json::text::to_text;
use martlet_json::value::{Node, View};
use martlet_keyspace::Entry;
use martlet_search::aggregate::batch::Batch;
use martlet_search::aggregate::pipeline::{Input, Property, Schema, SlotOf};
use martlet_search::aggregate::value::{PathValue, Value};
use martlet_search::index::whole::Rules;
use martlet_search::number;
use martlet_search::schema::{Definition, FieldKind, Source as DocumentSource};
use martlet_types::hash::Hash;
use martlet_values::Json;

/// The property that is a document's name.
const KEY: &[u8] = b"__key";
/// The dialect from which on paths give all of their values.
const DIALECT_OF_SEVERAL_VALUES: u32 = 3;

/// The fields of an index as properties.
pub(crate) struct Fields<'a>(pub(crate) &'a Definition);

impl Schema for Fields<'_> {
    fn property(&self, name: &[u8]) -> Option<Property> {
        let field = self.0.fields.iter().find(|field| *field.name == *name)?;
        Some(Property { path: field.identifier.clone(), is_sortable: field.sortable })
    }
}

/// Reads the inputs of a pipeline from hashes or JSON documents.
#[derive(Debug)]
pub(crate) struct RowValues {
    source: DocumentSource,
    /// The fields of the schema by where they stand in documents.
    known: HashMap<Box<[u8]>, Known>,
    gives_several: bool,
}

#[derive(Copy, Clone, Debug, Default)]
struct Known {
    is_number: bool,
    /// A sortable field has one value in every dialect.
    has_one_value: bool,
}

/// How an input is read.
pub(crate) struct Reading {
    slot: usize,
    from: From,
}

enum From {
    Key,
    HashField { identifier: Box<[u8]>, is_number: bool },
    Path { path: Path, has_one_value: bool },
    Nowhere,
}

impl RowValues {
    /// Reads documents of an index for queries of this dialect.
    pub(crate) fn new(rules: &Rules, dialect: u32) -> RowValues {
        let fields = rules.definition.fields.iter().map(|field| {
            let is_number = matches!(field.kind, FieldKind::Numeric);
            (field.identifier.clone(), Known { is_number, has_one_value: field.sortable })
        });
        RowValues {
            source: rules.definition.source,
            known: fields.collect(),
            gives_several: dialect >= DIALECT_OF_SEVERAL_VALUES,
        }
    }

    /// How the inputs of a pipeline are read.
    pub(crate) fn readings(&self, inputs: &[Input]) -> Vec<Reading> {
        let reading = |input: &Input| {
            let known = self.known.get(&input.path).copied().unwrap_or_default();
            let from = match self.source {
                _ if *input.path == *KEY => From::Key,
                DocumentSource::Hash => {
                    From::HashField { identifier: input.path.clone(), is_number: known.is_number }
                }
                DocumentSource::Json => match Path::parse(&input.path) {
                    Ok(path) => From::Path { path: path.into_jsonpath(), has_one_value: known.has_one_value },
                    Err(_) => From::Nowhere,
                },
            };
            Reading { slot: input.slot, from }
        };
        inputs.iter().map(reading).collect()
    }

    /// Fills a row from its key's value, and with `all` adds every field; false if the key holds no document
    /// of the index any more.
    pub(crate) fn fill(
        &self,
        key: &[u8],
        entry: &Entry<'_>,
        now_ms: i64,
        inputs: &[Reading],
        all: Option<SlotOf<'_>>,
        (batch, row): (&mut Batch, usize),
    ) -> bool {
        let (hash, json) = match self.source {
            DocumentSource::Hash => (entry.object::<Hash>(), None),
            DocumentSource::Json => (None, entry.object::<Json>().map(|json| json.0.root())),
        };
        if hash.is_none() && json.is_none() {
            return false;
        }
        if let Some(slot_of) = all {
            let mut take = |name: &[u8], value: Value| match slot_of(name) {
                Some(slot) => set(batch.row_mut(row), slot, Some(value)),
                None => batch.push_extra(row, name.into(), value),
            };
            for field in hash.iter().flat_map(|hash| hash.iter()).filter(|field| field.is_live(now_ms)) {
                take(&field.name.to_vec(), Value::from(&*field.value.to_vec()));
            }
            if let Some(value) = json.and_then(|root| self.json_value(&[root], false)) {
                take(b"$", value);
            }
        }
        for Reading { slot, from } in inputs {
            let value = match from {
                From::Key => Some(Value::from(key)),
                From::HashField { identifier, is_number } => hash
                    .and_then(|hash| hash.get(identifier, now_ms))
                    .map(|field| field_value(&field.value.to_vec(), *is_number)),
                From::Path { path, has_one_value } => json
                    .and_then(|root| self.json_value(&path.nodes(root).unwrap_or_default(), *has_one_value)),
                From::Nowhere => None,
            };
            if value.is_some() {
                set(batch.row_mut(row), *slot, value);
            }
        }
        true
    }

    /// The values that a path leads to as one; none if it leads nowhere.
    fn json_value(&self, nodes: &[Node<'_>], has_one_value: bool) -> Option<Value> {
        let first = *nodes.first()?;
        if self.gives_several && !has_one_value {
            let texts: Vec<Vec<u8>> = nodes.iter().map(|node| to_text(*node)).collect();
            let text = [b"[".as_slice(), &texts.join(&b','), b"]"].concat().into();
            // The first value of an array is that of its first element.
            let first = match first.view() {
                View::Array(elements) => elements.iter().next().map_or(Value::Null, node_value),
                _ => node_value(first),
            };
            return Some(Value::Path(Arc::new(PathValue { first, text })));
        }
        Some(node_value(first))
    }
}

/// The value of a node of a document.
fn node_value(node: Node<'_>) -> Value {
    match node.view() {
        View::Null => Value::Null,
        View::Bool(bool) => Value::Number(f64::from(u8::from(bool))),
        View::Number(number) => Value::Number(number.as_f64()),
        View::Text(text) => Value::from(text.as_bytes()),
        View::Array(_) | View::Object(_) => Value::from(&*to_text(node)),
    }
}

fn set(row: &mut [Option<Value>], slot: usize, value: Option<Value>) {
    if let Some(place) = row.get_mut(slot) {
        *place = value;
    }
}

fn field_value(text: &[u8], is_number: bool) -> Value {
    match number::parse_c(text) {
        Some(number) if is_number => Value::Number(number),
        _ => Value::from(text),
    }
}
