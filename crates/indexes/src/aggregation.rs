//! FT.AGGREGATE over keys: the rows of the index pass a pipeline, which has documents read where it needs more
//! of them than the index keeps. Between steps nothing is locked.

use std::sync::Arc;

use martlet_json::path::Path;
use martlet_json::text::to_text;
use martlet_json::value::{Node, View};
use martlet_keyspace::Entry;
use martlet_search::Error;
use martlet_search::aggregate::batch::Batch;
use martlet_search::aggregate::pipeline::{
    Input, Options, Pipeline, Progress, Property, Schema, Shown, SlotOf, Source,
};
use martlet_search::aggregate::request::Aggregate;
use martlet_search::aggregate::value::Value;
use martlet_search::aggregating::{Aggregating, Planned};
use martlet_search::number;
use martlet_search::schema::{Definition, FieldKind, Source as DocumentSource};
use martlet_search::searching::Context;
use martlet_types::hash::Hash;
use martlet_values::Json;

use crate::access::Access;
use crate::index::KeyIndex;

/// The property that is a document's name.
const KEY: &[u8] = b"__key";
/// The dialect from which on paths give all of their values.
const DIALECT_OF_SEVERAL_VALUES: u32 = 3;
/// Rows that a step reads or moves.
const ROWS: usize = 256;

/// See the [module docs](self).
#[derive(Debug)]
pub struct Aggregation {
    pipeline: Pipeline,
    rows: Aggregating,
    documents: Documents,
    /// The number of rows, once it is known.
    total: Option<u64>,
    is_done: bool,
}

/// How documents of the index are read.
#[derive(Debug)]
struct Documents {
    index: Arc<KeyIndex>,
    source: DocumentSource,
    gives_several: bool,
}

/// The fields of an index.
struct Fields<'a>(&'a Definition);

impl Schema for Fields<'_> {
    fn property(&self, name: &[u8]) -> Option<Property> {
        let field = self.0.fields.iter().find(|field| *field.name == *name)?;
        Some(Property { path: field.identifier.clone(), is_sortable: field.sortable })
    }
}

impl Aggregation {
    /// An aggregation that has not begun. `options` has no names that the query yields.
    ///
    /// # Errors
    /// RediSearch's.
    pub fn new(
        index: Arc<KeyIndex>,
        request: &Aggregate,
        context: Context,
        options: Options,
    ) -> Result<Aggregation, Error> {
        let planned = Planned::new(Arc::clone(index.index()), request, context)?;
        let rules = index.index().rules();
        let options = Options { yielded: planned.yielded.clone(), ..options };
        let pipeline = Pipeline::new(request, &Fields(&rules.definition), &options)?;
        let documents = Documents {
            source: rules.definition.source,
            gives_several: request.query.dialect >= DIALECT_OF_SEVERAL_VALUES,
            index,
        };
        Ok(Aggregation { rows: planned.begin(&pipeline), pipeline, documents, total: None, is_done: false })
    }

    /// A step towards `wanted` rows; whether they are there, or all are. After [`Access::gave_up`] nothing of
    /// the aggregation is of use.
    ///
    /// # Errors
    /// An expression, or a limit; the aggregation has ended.
    pub fn step(&mut self, access: &mut Access<'_>, now_ms: i64, wanted: usize) -> Result<bool, Error> {
        // As in RediSearch, rows are counted up to the first that leaves the pipeline.
        let counts = self.total.is_none() && !self.pipeline.is_blocking();
        let mut source = Rows { rows: &mut self.rows, documents: &self.documents, access, now_ms };
        let mut progress = Progress::Working;
        if counts || source.rows.is_gathering() {
            for _ in 0..ROWS {
                let gathers = source.rows.is_gathering();
                progress = self.pipeline.step(&mut source, if counts { 1 } else { wanted }, 1)?;
                if gathers || progress != Progress::Working {
                    break;
                }
            }
        } else {
            progress = self.pipeline.step(&mut source, wanted, ROWS)?;
        }
        if self.total.is_none() && progress != Progress::Working {
            self.total = Some(self.pipeline.total());
        }
        self.is_done = progress == Progress::Done;
        Ok(self.is_done || progress == Progress::Ready && self.pipeline.ready() >= wanted)
    }

    /// The number of rows as replies show it.
    pub fn total(&self) -> u64 {
        self.total.unwrap_or_else(|| self.pipeline.total())
    }

    /// Whether no further row comes.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// How many rows are there.
    pub fn ready(&self) -> usize {
        self.pipeline.ready()
    }

    /// Up to `most` of the rows that are there, for `show`; they are given up.
    pub fn take(&mut self, most: usize, show: impl FnMut(Shown<'_>)) {
        self.pipeline.take(most, show);
    }

    /// Whether rows have scores.
    pub fn has_scores(&self) -> bool {
        self.pipeline.score_slot().is_some()
    }

    /// The index.
    pub fn index(&self) -> &Arc<KeyIndex> {
        &self.documents.index
    }
}

/// The rows of the index with a thread's access to the keys.
struct Rows<'a, 'k> {
    rows: &'a mut Aggregating,
    documents: &'a Documents,
    access: &'a mut Access<'k>,
    now_ms: i64,
}

impl Source for Rows<'_, '_> {
    fn fill(&mut self, batch: &mut Batch, most: usize) -> Result<bool, Error> {
        Ok(self.rows.fill(batch, most))
    }

    fn load(&mut self, inputs: &[Input], all: Option<SlotOf<'_>>, batch: &mut Batch) -> Result<(), Error> {
        let inputs = self.documents.inputs(inputs);
        let mut kept = Vec::with_capacity(batch.len());
        for row in 0..batch.len() {
            let loaded = self.rows.key(batch.document(row)).and_then(|key| {
                self.access.with_key(&key, self.now_ms, |entry| {
                    self.documents.load(&key, entry, self.now_ms, &inputs, all, (batch, row))
                })?
            });
            kept.push(loaded.is_some());
        }
        batch.retain(|row| kept.get(row) == Some(&true));
        Ok(())
    }
}

/// How an input is read.
struct Reading {
    slot: usize,
    from: From,
}

enum From {
    Key,
    HashField { identifier: Box<[u8]>, is_number: bool },
    Path { path: Path, has_one_value: bool },
    Nowhere,
}

impl Documents {
    fn inputs(&self, inputs: &[Input]) -> Vec<Reading> {
        let rules = self.index.index().rules();
        let reading = |input: &Input| {
            let field = rules.definition.fields.iter().find(|field| field.identifier == input.path);
            let from = match self.source {
                _ if *input.path == *KEY => From::Key,
                DocumentSource::Hash => From::HashField {
                    identifier: input.path.clone(),
                    is_number: field.is_some_and(|field| matches!(field.kind, FieldKind::Numeric)),
                },
                DocumentSource::Json => match Path::parse(&input.path) {
                    Ok(path) => From::Path {
                        path: path.into_jsonpath(),
                        has_one_value: field.is_some_and(|field| field.sortable),
                    },
                    Err(_) => From::Nowhere,
                },
            };
            Reading { slot: input.slot, from }
        };
        inputs.iter().map(reading).collect()
    }

    /// Fills a row from its document; `None` if the key holds none any more.
    fn load(
        &self,
        key: &[u8],
        entry: &Entry<'_>,
        now_ms: i64,
        inputs: &[Reading],
        all: Option<SlotOf<'_>>,
        (batch, row): (&mut Batch, usize),
    ) -> Option<()> {
        let (hash, json) = match self.source {
            DocumentSource::Hash => (Some(entry.object::<Hash>()?), None),
            DocumentSource::Json => (None, Some(entry.object::<Json>()?.0.root())),
        };
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
        Some(())
    }

    /// The values that a path leads to as one; none if it leads nowhere.
    fn json_value(&self, nodes: &[Node<'_>], has_one_value: bool) -> Option<Value> {
        let first = *nodes.first()?;
        if self.gives_several && !has_one_value {
            let texts: Vec<Vec<u8>> = nodes.iter().map(|node| to_text(*node)).collect();
            return Some(Value::from(&*[b"[".as_slice(), &texts.join(&b','), b"]"].concat()));
        }
        Some(match first.view() {
            View::Null => Value::Null,
            View::Bool(bool) => Value::Number(f64::from(u8::from(bool))),
            View::Number(number) => Value::Number(number.as_f64()),
            View::Text(text) => Value::from(text.as_bytes()),
            View::Array(_) | View::Object(_) => Value::from(&*to_text(first)),
        })
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
