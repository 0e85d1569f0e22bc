//! Keys' values as documents.

use std::borrow::Cow;

use hashbrown::HashMap;
use martlet_json::path::Path;
use martlet_json::value::{Node, View};
use martlet_search::analysis::{Document, Value};
use martlet_types::element::Element;
use martlet_types::hash::Hash;

/// A hash at a time.
pub(crate) struct HashDocument<'a> {
    pub(crate) hash: &'a Hash,
    pub(crate) now_ms: i64,
}

impl Document for HashDocument<'_> {
    fn value(&self, identifier: &[u8]) -> Value<'_> {
        match self.hash.get(identifier, self.now_ms).map(|field| field.value) {
            None => Value::Missing,
            Some(Element::Bytes(bytes)) => Value::Text(Cow::Borrowed(bytes)),
            Some(number @ Element::Int(_)) => Value::Text(Cow::Owned(number.to_vec())),
        }
    }
}

/// The paths of an index over JSON, by the identifiers of its fields.
#[derive(Debug, Default)]
pub(crate) struct Paths(HashMap<Box<[u8]>, Path>);

impl Paths {
    /// Takes up identifiers that are paths; others lead to no value.
    pub(crate) fn of<'a>(identifiers: impl IntoIterator<Item = &'a [u8]>) -> Paths {
        let parsed =
            |identifier: &[u8]| Some((identifier.into(), Path::parse(identifier).ok()?.into_jsonpath()));
        Paths(identifiers.into_iter().filter_map(parsed).collect())
    }
}

/// A JSON document.
pub(crate) struct JsonDocument<'a> {
    pub(crate) root: Node<'a>,
    pub(crate) paths: &'a Paths,
}

impl Document for JsonDocument<'_> {
    fn value(&self, identifier: &[u8]) -> Value<'_> {
        // A path that leads too far, as beyond a limit of the evaluation, leads to no value.
        let nodes = self.paths.0.get(identifier).and_then(|path| path.nodes(self.root).ok());
        match nodes.as_deref() {
            None | Some([]) => Value::Missing,
            Some([node]) => value_of(*node),
            Some(nodes) => Value::Several(nodes.iter().map(|node| value_of(*node)).collect()),
        }
    }
}

fn value_of(node: Node<'_>) -> Value<'_> {
    match node.view() {
        View::Null => Value::Missing,
        View::Bool(bool) => Value::Bool(bool),
        View::Number(number) => Value::Number(number.as_f64()),
        View::Text(text) => Value::Text(Cow::Borrowed(text.as_bytes())),
        View::Array(elements) => Value::Several(elements.iter().map(value_of).collect()),
        View::Object(_) => Value::Object,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use martlet_json::document;
    use martlet_types::hash::{FieldExpiry, HashLimits};

    #[test]
    fn a_hash_has_its_live_fields() {
        let mut hash = Hash::new();
        for (name, value, expiry) in [
            (b"t".as_slice(), Element::Bytes(b"text"), FieldExpiry::Keep),
            (b"n", Element::Int(-5), FieldExpiry::Keep),
            (b"e", Element::Bytes(b"gone"), FieldExpiry::At(100)),
        ] {
            hash.set(name, value, expiry, HashLimits::default(), 1);
        }
        let at = |now_ms| {
            let document = HashDocument { hash: &hash, now_ms };
            [b"t", b"n", b"e", b"x"].map(|name| match document.value(name) {
                Value::Text(text) => String::from_utf8(text.into_owned()).unwrap(),
                other => format!("{other:?}"),
            })
        };
        assert_eq!(at(99), ["text", "-5", "gone", "Missing"]);
        assert_eq!(at(100), ["text", "-5", "Missing", "Missing"]);
    }

    #[test]
    fn a_json_document_has_what_its_paths_lead_to() {
        let text = br#"{"a":"x","n":[1,2.5],"o":{"b":true},"l":[{"v":1},{"v":"w"}],"z":null}"#;
        let value = martlet_json::text::parse(text, None).unwrap();
        let document = document::Document::new(value).unwrap();
        let identifiers = ["$.a", "$.n", "$.o", "$.o.b", "$.l[*].v", "$.z", "$.none", "$..v", "no path["];
        let paths = Paths::of(identifiers.iter().map(|path| path.as_bytes()));
        let json = JsonDocument { root: document.root(), paths: &paths };
        let text = |text: &'static str| Value::Text(Cow::Borrowed(text.as_bytes()));
        let wanted = [
            text("x"),
            Value::Several(vec![Value::Number(1.0), Value::Number(2.5)]),
            Value::Object,
            Value::Bool(true),
            Value::Several(vec![Value::Number(1.0), text("w")]),
            Value::Missing,
            Value::Missing,
            Value::Several(vec![Value::Number(1.0), text("w")]),
            Value::Missing,
        ];
        for (identifier, wanted) in identifiers.iter().zip(wanted) {
            assert_eq!(json.value(identifier.as_bytes()), wanted, "{identifier}");
        }
    }
}
