//! The values of properties as aggregations have them, read from keys.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;
use martlet_json::path::Path;
use martlet_json::text::to_text;
use martlet_json::value::{Node, View};
use martlet_keyspace::Entry;
use martlet_search::aggregate::batch::Batch;
use martlet_search::aggregate::pipeline::{Input, SlotOf};
use martlet_search::aggregate::value::{PathValue, Value};
use martlet_search::aggregating::Texts;
use martlet_search::schema::{Definition, FieldKind, Source};
use martlet_types::element::Element;
use martlet_types::hash::Hash;
use martlet_values::Json;

use crate::access::Access;
use crate::loading::DIALECT_OF_SEVERAL_VALUES;

/// Names of fields whose order is kept.
const NAMES_MAX: usize = 1 << 16;
/// The property that is a document's key.
const KEY: &[u8] = b"__key";

/// What a property of a document is read from.
#[derive(Debug)]
enum Origin {
    Key,
    HashField {
        is_number: bool,
    },
    /// A sortable field has one value in every dialect.
    Path {
        path: Path,
        has_one_value: bool,
    },
    /// Nothing is there.
    Nowhere,
}

/// Reads the properties of rows from their documents.
#[derive(Debug)]
pub(crate) struct RowValues {
    source: Source,
    gives_several: bool,
    /// Identifiers of the schema's fields that are numbers or, of JSON, sortable.
    fields: Vec<(Box<[u8]>, bool)>,
    origins: HashMap<Box<[u8]>, Origin>,
    texts: Texts,
    /// LOAD * has filled the rows.
    has_all: bool,
    /// The order in which names of fields appeared.
    names: HashMap<Box<[u8]>, usize>,
}

/// The keys of rows.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    places: Vec<Option<Range<usize>>>,
}

impl Keys {
    /// Adds the key of the next row; `None` if its document has gone.
    pub(crate) fn push(&mut self, key: Option<&[u8]>) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(key.unwrap_or_default());
        self.places.push(key.map(|_| from..self.bytes.len()));
    }

    fn get(&self, row: usize) -> Option<&[u8]> {
        self.bytes.get(self.places.get(row)?.clone()?)
    }
}

impl RowValues {
    /// Reads documents of an index of this definition, for queries of this dialect.
    pub(crate) fn new(definition: &Definition, dialect: u32) -> RowValues {
        let source = definition.source;
        let is_own = |field: &martlet_search::schema::Field| match source {
            Source::Hash => matches!(field.kind, FieldKind::Numeric),
            Source::Json => field.sortable,
        };
        RowValues {
            source,
            gives_several: dialect >= DIALECT_OF_SEVERAL_VALUES,
            fields: definition.fields.iter().map(|field| (field.identifier.clone(), is_own(field))).collect(),
            origins: HashMap::new(),
            texts: Texts::default(),
            has_all: false,
            names: HashMap::new(),
        }
    }

    fn origin(&self, path: &[u8]) -> Origin {
        if path == KEY {
            return Origin::Key;
        }
        let is_own = self.fields.iter().any(|(identifier, is_own)| *is_own && **identifier == *path);
        match self.source {
            Source::Hash => Origin::HashField { is_number: is_own },
            // A name that is no path of the newer kind leads nowhere.
            Source::Json if !path.starts_with(b"$") => Origin::Nowhere,
            Source::Json => Path::parse(path).map_or(Origin::Nowhere, |path| Origin::Path {
                path: path.into_jsonpath(),
                has_one_value: is_own,
            }),
        }
    }

    /// Fills the rows of a batch, and removes those whose documents have gone.
    pub(crate) fn load(
        &mut self,
        inputs: &[Input],
        all: Option<SlotOf<'_>>,
        batch: &mut Batch,
        keys: &Keys,
        (access, now_ms): (&mut Access<'_>, i64),
    ) {
        for input in inputs {
            if !self.origins.contains_key(&input.path) {
                let origin = self.origin(&input.path);
                self.origins.insert(input.path.clone(), origin);
            }
        }
        let mut there = Vec::with_capacity(batch.len());
        for row in 0..batch.len() {
            let is_read = keys.get(row).and_then(|key| {
                access.with_key(key, now_ms, |entry| {
                    let mut document = Opened { key, entry, now_ms };
                    document.read(self, inputs, all, batch, row)
                })
            });
            there.push(is_read.flatten().is_some());
        }
        self.has_all |= all.is_some();
        batch.retain(|row| there.get(row) == Some(&true));
    }

    /// The value of a node of a document.
    fn node_value(&mut self, node: Node<'_>) -> Value {
        match node.view() {
            View::Null => Value::Null,
            View::Bool(bool) => Value::Number(f64::from(u8::from(bool))),
            View::Number(number) => Value::Number(number.as_f64()),
            View::Text(text) => self.texts.value(text.as_bytes()),
            View::Array(_) | View::Object(_) => Value::from(&*to_text(node)),
        }
    }

    /// The values of a path as one; none if it leads nowhere.
    fn path_value(&mut self, nodes: &[Node<'_>], has_one_value: bool) -> Option<Value> {
        let first = *nodes.first()?;
        if !self.gives_several {
            return Some(self.node_value(first));
        }
        if has_one_value {
            return Some(match first.view() {
                View::Bool(bool) => Value::from(if bool { "true" } else { "false" }),
                _ => self.node_value(first),
            });
        }
        if matches!(first.view(), View::Array(elements) if elements.is_empty()) {
            return None;
        }
        let texts: Vec<Vec<u8>> = nodes.iter().map(|node| to_text(*node)).collect();
        let text = [b"[".as_slice(), &texts.join(&b','), b"]"].concat().into();
        // The first value of an array is that of its first element.
        let first = match first.view() {
            View::Array(elements) => elements.iter().next().map_or(Value::Null, |node| self.node_value(node)),
            _ => self.node_value(first),
        };
        Some(Value::Path(Arc::new(PathValue { first, text })))
    }

    /// The order in which a name has appeared.
    fn order_of(&mut self, name: &[u8]) -> usize {
        if let Some(order) = self.names.get(name) {
            return *order;
        }
        let order = self.names.len();
        if order < NAMES_MAX {
            self.names.insert(name.into(), order);
        }
        order
    }
}

/// The key of a row, whose shard is locked.
struct Opened<'a, 'e> {
    key: &'a [u8],
    entry: &'a Entry<'e>,
    now_ms: i64,
}

impl Opened<'_, '_> {
    /// Reads a row's properties; `None` if the key holds no document any more.
    fn read(
        &mut self,
        reader: &mut RowValues,
        inputs: &[Input],
        all: Option<SlotOf<'_>>,
        batch: &mut Batch,
        row: usize,
    ) -> Option<()> {
        let origins = std::mem::take(&mut reader.origins);
        let is_there = match reader.source {
            Source::Hash => self.entry.object::<Hash>().map(|hash| {
                for input in inputs {
                    let Some(origin) = origins.get(&input.path) else { continue };
                    // LOAD * has the field as it stands in the hash.
                    let is_filled = matches!(batch.row(row).get(input.slot), Some(Some(_)));
                    if !(is_filled && reader.has_all) {
                        set(batch, row, input, self.hash_value(reader, origin, hash, &input.path));
                    }
                }
                if let Some(slot_of) = all {
                    self.all_of_hash(reader, hash, slot_of, batch, row);
                }
            }),
            Source::Json => self.entry.object::<Json>().map(|json| {
                let root = json.0.root();
                for input in inputs {
                    let Some(origin) = origins.get(&input.path) else { continue };
                    set(batch, row, input, self.json_value(reader, origin, root));
                }
                if let Some(slot_of) = all {
                    let value = reader.path_value(&[root], false);
                    put(batch, row, slot_of, b"$", value);
                }
            }),
        };
        reader.origins = origins;
        is_there
    }

    fn hash_value(
        &self,
        reader: &mut RowValues,
        origin: &Origin,
        hash: &Hash,
        field: &[u8],
    ) -> Option<Value> {
        match origin {
            Origin::Key => Some(self.key.into()),
            Origin::HashField { is_number } => {
                let value = hash.get(field, self.now_ms)?.value;
                Some(match value {
                    Element::Int(number) if *is_number => Value::Number(number as f64),
                    Element::Bytes(text) if *is_number => reader.texts.number_or_text(text),
                    Element::Bytes(text) => reader.texts.value(text),
                    Element::Int(_) => reader.texts.value(&value.to_vec()),
                })
            }
            Origin::Path { .. } | Origin::Nowhere => None,
        }
    }

    fn json_value(&self, reader: &mut RowValues, origin: &Origin, root: Node<'_>) -> Option<Value> {
        match origin {
            Origin::Key => Some(self.key.into()),
            Origin::Path { path, has_one_value } => {
                reader.path_value(&path.nodes(root).unwrap_or_default(), *has_one_value)
            }
            Origin::HashField { .. } | Origin::Nowhere => None,
        }
    }

    /// All fields of a hash, in the order in which their names have first appeared.
    fn all_of_hash(
        &self,
        reader: &mut RowValues,
        hash: &Hash,
        slot_of: SlotOf<'_>,
        batch: &mut Batch,
        row: usize,
    ) {
        let mut fields: Vec<(usize, Vec<u8>, Value)> = Vec::new();
        for field in hash.iter().filter(|field| field.is_live(self.now_ms)) {
            let name = field.name.to_vec();
            fields.push((reader.order_of(&name), name, reader.texts.value(&field.value.to_vec())));
        }
        fields.sort_by_key(|(order, ..)| *order);
        for (_, name, value) in fields {
            put(batch, row, slot_of, &name, Some(value));
        }
    }
}

fn set(batch: &mut Batch, row: usize, input: &Input, value: Option<Value>) {
    if let Some(place) = batch.row_mut(row).get_mut(input.slot) {
        *place = value;
    }
}

/// Sets the property of a name, which may have no slot.
fn put(batch: &mut Batch, row: usize, slot_of: SlotOf<'_>, name: &[u8], value: Option<Value>) {
    let Some(value) = value else { return };
    match slot_of(name).and_then(|slot| batch.row_mut(row).get_mut(slot)) {
        Some(place) => *place = Some(value),
        None => batch.push_extra(row, name.into(), value),
    }
}
