//! The values of properties as aggregations have them, read from a key.

use hashbrown::HashMap;
use martlet_json::path::Path;
use martlet_json::text::to_text;
use martlet_json::value::{Node, View};
use martlet_keyspace::Entry;
use martlet_search::aggregate::batch::Batch;
use martlet_search::aggregate::pipeline::{Input, SlotOf};
use martlet_search::aggregate::value::Value;
use martlet_types::hash::Hash;
use martlet_values::Json;

/// Reads the inputs of a pipeline from hashes or JSON documents. Paths are parsed once.
#[derive(Debug, Default)]
pub(crate) struct RowValues {
    paths: HashMap<Box<[u8]>, Option<Path>>,
    /// Whether a path gives all of its values, from dialect 3 on.
    gives_several: bool,
}

impl RowValues {
    /// A reader for queries of this dialect.
    pub(crate) fn new(dialect: u32) -> RowValues {
        RowValues { paths: HashMap::new(), gives_several: dialect >= 3 }
    }

    /// Fills the inputs of a row from its key's value, and with `all` adds every field. False: the key is
    /// of another type.
    pub(crate) fn fill(
        &mut self,
        entry: &Entry<'_>,
        now_ms: i64,
        inputs: &[Input],
        all: Option<SlotOf<'_>>,
        (batch, row): (&mut Batch, usize),
    ) -> bool {
        if let Some(hash) = entry.object::<Hash>() {
            for input in inputs {
                let field = hash.get(&input.path, now_ms);
                set(batch, row, input, field.map(|field| Value::from(&*field.value.to_vec())));
            }
            for field in hash.iter().filter(|field| all.is_some() && field.is_live(now_ms)) {
                let value = Value::from(&*field.value.to_vec());
                add(batch, row, &field.name.to_vec(), value, all);
            }
            return true;
        }
        let Some(json) = entry.object::<Json>() else { return false };
        for input in inputs {
            let value = self.at_path(json.0.root(), &input.path);
            set(batch, row, input, value);
        }
        if all.is_some() {
            add(batch, row, b"$", Value::from(&*to_text(json.0.root())), all);
        }
        true
    }

    fn at_path(&mut self, root: Node<'_>, text: &[u8]) -> Option<Value> {
        let path = match self.paths.get(text) {
            Some(path) => path,
            None => {
                let path = Path::parse(text).ok().map(Path::into_jsonpath);
                self.paths.entry(text.into()).insert(path).into_mut()
            }
        };
        let nodes = path.as_ref()?.nodes(root).unwrap_or_default();
        let first = *nodes.first()?;
        if self.gives_several {
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

fn set(batch: &mut Batch, row: usize, input: &Input, value: Option<Value>) {
    if let Some(slot) = batch.row_mut(row).get_mut(input.slot) {
        *slot = value;
    }
}

/// Puts a field into the slot that it has, or else beside the slots.
fn add(batch: &mut Batch, row: usize, name: &[u8], value: Value, slot_of: Option<SlotOf<'_>>) {
    match slot_of.and_then(|slot_of| slot_of(name)).and_then(|slot| batch.row_mut(row).get_mut(slot)) {
        Some(slot) => *slot = Some(value),
        None => batch.push_extra(row, name.into(), value),
    }
}
