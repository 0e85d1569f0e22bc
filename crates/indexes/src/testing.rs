//! Definitions and indexes for tests.

use std::sync::Arc;

use martlet_search::definition::{Context, create};
use martlet_search::schema::Definition;

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
