//! Definitions and indexes for tests.

use std::sync::Arc;

use martlet_base::random::Random;
use martlet_engine::{Engine, Keys, View};
use martlet_json::document::Document;
use martlet_keyspace::{Key, Object};
use martlet_search::definition::{Context, create};
use martlet_search::schema::Definition;
use martlet_types::element::Element;
use martlet_types::hash::{FieldExpiry, Hash, HashLimits};
use martlet_values::Json;

use crate::catalogue::Catalogue;
use crate::index::KeyIndex;

/// The definition that arguments of FT.CREATE give.
pub(crate) fn definition(arguments: &str) -> Definition {
    let arguments: Vec<&[u8]> = arguments.split(' ').map(str::as_bytes).collect();
    create(&arguments, Context { memory_bytes: 1 << 30, is_path: |_| true }).unwrap()
}

/// An index by the arguments of FT.CREATE.
pub(crate) fn index(arguments: &str) -> Arc<KeyIndex> {
    Arc::new(KeyIndex::new(definition(arguments), 2).unwrap())
}

/// Keys with an index over them.
pub(crate) struct Store {
    pub(crate) catalogue: &'static Catalogue,
    pub(crate) keys: Keys,
}

impl Store {
    pub(crate) fn new(schema: &str) -> Store {
        let engine: &'static Engine = Box::leak(Box::new(Engine::new(1).unwrap()));
        let catalogue: &'static Catalogue = Box::leak(Box::new(Catalogue::new(engine, 2)));
        assert!(engine.set_follower(catalogue));
        catalogue.create(definition(schema)).unwrap();
        let mut keys = Keys::new(engine, 0, Random::from_entropy());
        keys.see(View { now_ms: 1, ..keys.view() });
        Store { catalogue, keys }
    }

    pub(crate) fn with_key(&mut self, name: &str, work: impl FnOnce(&mut Keys, &Key<'_>)) {
        let key = Key::new(name.as_bytes());
        let gate = &self.keys.engine().gate;
        gate.enter(0);
        self.keys.lock_shard(key.shard());
        work(&mut self.keys, &key);
        self.keys.release();
        gate.leave(0);
    }

    pub(crate) fn set(&mut self, name: &str, fields: &[(&str, &str)]) {
        self.with_key(name, |keys, key| {
            let mut hash = keys.create::<Hash>(key).unwrap();
            for (field, value) in fields {
                let value = Element::parse(value.as_bytes());
                hash.set(field.as_bytes(), value, FieldExpiry::Keep, HashLimits::default(), 1);
            }
        });
    }

    pub(crate) fn set_json(&mut self, name: &str, text: &str) {
        let value = martlet_json::text::parse(text.as_bytes(), None).unwrap();
        let document = Document::new(value).unwrap();
        self.with_key(name, |keys, key| {
            keys.set_value(key, Json(document).into_value(), None);
        });
    }
}
