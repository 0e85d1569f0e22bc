//! Values of modules that the server does not know: kept, saved, dumped and replicated as the bytes that they
//! came in.

use std::sync::Arc;

use martlet_keyspace::ModuleObject;
use martlet_rdb::input::Input;
use martlet_rdb::module::{ModuleId, copy_items};
use martlet_rdb::{Error, Sink, Writer, write_length};

/// A value of an unknown type; or of a known one in a version of its encoding that is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    id: ModuleId,
    name: Arc<str>,
    items: Arc<[u8]>,
}

impl Carried {
    /// Reads the items behind the id.
    pub(crate) fn read(input: &mut (impl Input + ?Sized), id: ModuleId) -> Result<Carried, Error> {
        let mut items = Vec::new();
        copy_items(input, &mut items)?;
        Ok(Carried { id, name: id.name().into(), items: items.into() })
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        write_length(out, self.id.0);
        out.put(&self.items);
    }

    /// The items, as they are encoded.
    pub fn items(&self) -> &[u8] {
        &self.items
    }
}

impl ModuleObject for Carried {
    fn type_name(&self) -> &str {
        &self.name
    }

    fn element_count(&self) -> usize {
        1
    }

    fn heap_bytes(&self) -> usize {
        self.name.len() + self.items.len()
    }
}
