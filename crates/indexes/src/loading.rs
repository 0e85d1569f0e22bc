//! The fields of a result: which there are, in which order, and how they are read from its key.
//!
//! As in RediSearch the distance comes first, then the key of SORTBY, then what RETURN names in its order; a
//! result without RETURN has behind these the fields that SUMMARIZE and HIGHLIGHT name, then all of its
//! document, in the order in which the results have brought up fields so far.

mod order;

pub(crate) use order::FieldOrder;

use martlet_base::number::NumberBuffer;
use martlet_json::path::Path;
use martlet_json::text::to_text;
use martlet_json::value::{Node, Value, View};
use martlet_keyspace::Entry;
use martlet_search::exec::{DistanceField, Hit};
use martlet_search::index::sortables::Sortable;
use martlet_search::number;
use martlet_search::request::{Format, Search};
use martlet_search::schema::{Definition, Field, FieldKind, Source};
use martlet_types::element::Element;
use martlet_types::hash::Hash;
use martlet_values::Json;

/// The dialect from which on paths give all of their values.
pub(crate) const DIALECT_OF_SEVERAL_VALUES: u32 = 3;

/// A field's value as a result shows it.
#[derive(Clone, Debug, PartialEq)]
pub enum Loaded {
    /// JSON's null.
    Null,
    /// Text.
    Text(Vec<u8>),
    /// The values of a path, typed (FORMAT EXPAND).
    Expanded(Vec<Value>),
}

/// A field of a result with its name.
pub type NamedValue = (Box<[u8]>, Loaded);

/// What SUMMARIZE and HIGHLIGHT may do with a value.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Nature {
    /// A string: it is shortened, and its terms are marked.
    String,
    /// JSON's arrays and objects as text: it is shortened.
    Serialised,
    /// Numbers, and the values of a path: it stays.
    Other,
}

/// A field of a result as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The field's name in the result.
    pub name: Box<[u8]>,
    /// Its value.
    pub value: Loaded,
    /// Whether SUMMARIZE and HIGHLIGHT apply to it.
    pub nature: Nature,
}

/// Where a column's values come from.
#[derive(Debug)]
enum Origin {
    /// The distance at a place among those of the vectors by which a result was found.
    Distance(usize),
    /// A field of a hash; numbers are shown in their normal form.
    HashField { identifier: Box<[u8]>, is_number: bool },
    /// A path. A sortable field has one value in every dialect.
    Path { path: Path, has_one_value: bool },
}

#[derive(Debug)]
struct Column {
    name: Box<[u8]>,
    origin: Origin,
}

/// Reads the fields of a request's results.
#[derive(Debug)]
pub struct Loader {
    source: Source,
    columns: Vec<Column>,
    /// Whether results have all of their documents.
    has_all: bool,
    gives_several: bool,
    is_expanded: bool,
}

impl Loader {
    /// The loader of a request to an index of this definition. `distance_fields` are the names
    /// that the query gives its distances.
    pub fn new(definition: &Definition, request: &Search, distance_fields: &[DistanceField]) -> Loader {
        let returned = &request.returned;
        let mut loader = Loader {
            source: definition.source,
            columns: Vec::new(),
            has_all: !returned.is_explicit,
            gives_several: request.query.dialect >= DIALECT_OF_SEVERAL_VALUES,
            is_expanded: request.query.format == Format::Expand,
        };
        let is_wanted =
            |name: &[u8]| !returned.is_explicit || returned.fields.iter().any(|field| *field.name == *name);
        for DistanceField { name, place } in distance_fields.iter().filter(|field| is_wanted(&field.name)) {
            loader.columns.push(Column { name: name.clone(), origin: Origin::Distance(*place) });
        }
        let sort_key = request.arrange.sort.iter().flatten().next();
        if let Some(key) = sort_key.filter(|key| is_wanted(&key.name)) {
            loader.add(definition, &key.name, &key.name);
        }
        // Of a hash that is returned whole, fields that have another name in the schema are read for RETURN,
        // for SORTBY and if they are sortable.
        let is_read = |name: &[u8]| {
            let field = definition.fields.iter().find(|field| *field.name == *name);
            returned.is_explicit
                || field.is_none_or(|field| field.sortable || field.identifier == field.name)
                || definition.source == Source::Json
        };
        for field in returned.fields.iter().filter(|field| is_read(&field.name)) {
            loader.add(definition, &field.name, &field.path);
        }
        loader
    }

    /// Adds a column of this name for a field of the schema, or else of the hash or the JSON document.
    fn add(&mut self, definition: &Definition, name: &[u8], path: &[u8]) {
        if self.columns.iter().any(|column| *column.name == *name) {
            return;
        }
        let field = definition.fields.iter().find(|field| *field.name == *path);
        let identifier = field.map_or(path, |field| &field.identifier);
        let is = |is: fn(&Field) -> bool| field.is_some_and(is);
        let origin = match self.source {
            Source::Hash => Origin::HashField {
                identifier: identifier.into(),
                is_number: is(|field| matches!(field.kind, FieldKind::Numeric)),
            },
            Source::Json => match Path::parse(identifier) {
                Ok(path) => {
                    Origin::Path { path: path.into_jsonpath(), has_one_value: is(|field| field.sortable) }
                }
                // No document has values there.
                Err(_) => return,
            },
        };
        self.columns.push(Column { name: name.into(), origin });
    }

    /// The order of the fields of results that have all of their documents, which is not that of one
    /// document.
    pub(crate) fn field_order(&self) -> Option<FieldOrder> {
        let is_of_hashes = self.has_all && self.source == Source::Hash;
        is_of_hashes.then(|| FieldOrder::new(self.columns.iter().map(|column| column.name.clone())))
    }

    /// The fields of a result, whose key's shard is locked; `None` if the key holds no document any more.
    pub fn load(&self, hit: &Hit, entry: &Entry<'_>, now_ms: i64) -> Option<Vec<Read>> {
        match self.source {
            Source::Hash => Some(self.of_hash(hit, entry.object::<Hash>()?, now_ms)),
            Source::Json => Some(self.of_json(hit, entry.object::<Json>()?.0.root())),
        }
    }

    fn of_hash(&self, hit: &Hit, hash: &Hash, now_ms: i64) -> Vec<Read> {
        let mut fields = Vec::new();
        for Column { name, origin } in &self.columns {
            let value = match origin {
                Origin::Distance(place) => distance(hit, *place),
                Origin::HashField { identifier, is_number } => hash
                    .get(identifier, now_ms)
                    .map(|field| field_value(field.value, *is_number && !self.has_all)),
                Origin::Path { .. } => None,
            };
            fields.extend(value.map(|(value, nature)| Read { name: name.clone(), value, nature }));
        }
        let named = fields.len();
        if self.has_all {
            for field in hash.iter().filter(|field| field.is_live(now_ms)) {
                let own = field.name.to_vec();
                if !fields.iter().take(named).any(|field| *field.name == *own) {
                    let value = Loaded::Text(field.value.to_vec());
                    fields.push(Read { name: own.into(), value, nature: Nature::String });
                }
            }
        }
        fields
    }

    fn of_json(&self, hit: &Hit, root: Node<'_>) -> Vec<Read> {
        let mut fields = Vec::new();
        for Column { name, origin } in &self.columns {
            let value = match origin {
                Origin::Distance(place) => distance(hit, *place),
                Origin::Path { path, has_one_value } => {
                    let nodes = path.nodes(root).unwrap_or_default();
                    self.json_values(&nodes, *has_one_value)
                }
                Origin::HashField { .. } => None,
            };
            fields.extend(value.map(|(value, nature)| Read { name: name.clone(), value, nature }));
        }
        if self.has_all {
            let value = self.json_values(&[root], false);
            let name = b"$".as_slice();
            fields.extend(value.map(|(value, nature)| Read { name: name.into(), value, nature }));
        }
        fields
    }

    /// The values that a path leads to as one; none if it leads nowhere.
    fn json_values(&self, nodes: &[Node<'_>], has_one_value: bool) -> Option<(Loaded, Nature)> {
        let first = *nodes.first()?;
        if self.is_expanded {
            let values = nodes.iter().map(|node| node.to_value()).collect();
            return Some((Loaded::Expanded(values), Nature::Other));
        }
        if self.gives_several && !has_one_value {
            let texts: Vec<Vec<u8>> = nodes.iter().map(|node| to_text(*node)).collect();
            let text = [b"[".as_slice(), &texts.join(&b','), b"]"].concat();
            return Some((Loaded::Text(text), Nature::Other));
        }
        Some(match first.view() {
            View::Null => (Loaded::Null, Nature::Other),
            View::Bool(bool) => (Loaded::Text(vec![b'0' + u8::from(bool)]), Nature::Other),
            View::Number(number) => number_text(number.as_f64()),
            View::Text(text) => (Loaded::Text(text.as_bytes().to_vec()), Nature::String),
            View::Array(_) | View::Object(_) => (Loaded::Text(to_text(first)), Nature::Serialised),
        })
    }
}

fn number_text(value: f64) -> (Loaded, Nature) {
    (Loaded::Text(number::format(value, &mut NumberBuffer::new()).to_vec()), Nature::Other)
}

fn distance(hit: &Hit, place: usize) -> Option<(Loaded, Nature)> {
    hit.distances.get(place).copied().flatten().map(|distance| number_text(f64::from(distance)))
}

fn field_value(value: Element<'_>, is_number: bool) -> (Loaded, Nature) {
    let text = value.to_vec();
    match number::parse_c(&text) {
        Some(value) if is_number => number_text(value),
        _ => (Loaded::Text(text), Nature::String),
    }
}

/// Reads the values of a field that orders results, for
/// [`Searching::offer`](martlet_search::searching::Searching::offer).
#[derive(Debug)]
pub struct SortReader {
    identifier: Box<[u8]>,
    path: Option<Path>,
    is_number: bool,
}

impl SortReader {
    /// The reader of a field of the schema.
    pub fn new(field: &Field) -> SortReader {
        SortReader {
            identifier: field.identifier.clone(),
            path: Path::parse(&field.identifier).ok().map(Path::into_jsonpath),
            is_number: matches!(field.kind, FieldKind::Numeric),
        }
    }

    /// The value in a key, whose shard is locked.
    pub fn read(&self, entry: &Entry<'_>, now_ms: i64) -> Sortable {
        if let Some(hash) = entry.object::<Hash>() {
            let field = hash.get(&self.identifier, now_ms);
            return field.map_or(Sortable::Missing, |field| self.of_text(field.value.to_vec()));
        }
        let nodes = match (entry.object::<Json>(), &self.path) {
            (Some(json), Some(path)) => path.nodes(json.0.root()).unwrap_or_default(),
            _ => Vec::new(),
        };
        match nodes.first().map(|node| node.view()) {
            Some(View::Number(number)) => Sortable::Number(number.as_f64()),
            Some(View::Text(text)) => self.of_text(text.as_bytes().to_vec()),
            Some(View::Bool(bool)) => Sortable::Number(f64::from(u8::from(bool))),
            _ => Sortable::Missing,
        }
    }

    fn of_text(&self, text: Vec<u8>) -> Sortable {
        match number::parse_c(&text) {
            Some(number) if self.is_number => Sortable::Number(number),
            _ => Sortable::Text(text.into()),
        }
    }
}

#[cfg(test)]
mod tests;
