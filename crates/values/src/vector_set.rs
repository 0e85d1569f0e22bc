//! Vector sets: in files a module's type, with the graph's links, so that nothing is linked again.
//!
//! ```text
//! items: see `martlet_vector::saved`
//! ```

use std::borrow::Cow;
use std::ops::{Bound, Deref, DerefMut};

use martlet_keyspace::ModuleObject;
use martlet_rdb::Error;
use martlet_rdb::module::{Item, ItemReader, ItemWriter};
use martlet_spec::data_type::{self, TypeView};
use martlet_vector::saved::{Field, SavedError};
use martlet_vector::set::VectorSet;

use crate::digest::Digest;
use crate::export::Export;
use crate::module::{ModuleDescriptor, ModuleType};

/// A vector set as a value of the keyspace.
#[derive(Clone, Debug)]
pub struct Vectors(pub VectorSet);

impl Deref for Vectors {
    type Target = VectorSet;

    fn deref(&self) -> &VectorSet {
        &self.0
    }
}

impl DerefMut for Vectors {
    fn deref_mut(&mut self) -> &mut VectorSet {
        &mut self.0
    }
}

impl ModuleObject for Vectors {
    fn type_name(&self) -> &str {
        data_type::VECTOR_SET.name
    }

    fn element_count(&self) -> usize {
        self.0.len()
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

pub(crate) static DESCRIPTOR: ModuleDescriptor = ModuleDescriptor::of::<Vectors>();

/// Nodes that are inserted into a loaded graph get their levels by it; which one it is makes no difference.
const LEVEL_SEED: u64 = 0x5eed;

impl ModuleType for Vectors {
    const NAME: &'static [u8; 9] = b"vectorset";
    const ENCODING_VERSIONS: std::ops::RangeInclusive<u16> = 0..=0;
    const VIEW: Option<&'static TypeView> = Some(&data_type::VECTOR_SET);

    fn save(&self, items: &mut ItemWriter<'_, '_>) {
        self.0.save(|field| match field {
            Field::Unsigned(value) => items.unsigned(value),
            Field::Double(value) => items.double(value),
            Field::String(text) => items.string(&text),
        });
    }

    fn load(items: &mut ItemReader<'_>, _version: u16) -> Result<Vectors, Error> {
        let mut failed = None;
        let next = || match items.item() {
            Ok(Item::Unsigned(value)) => Some(Field::Unsigned(value)),
            Ok(Item::String(text)) => Some(Field::String(Cow::Owned(text.to_vec()))),
            Ok(_) => None,
            Err(error) => {
                failed = Some(error);
                None
            }
        };
        let loaded = VectorSet::load(LEVEL_SEED, next);
        loaded.map(Vectors).map_err(|error| failed.unwrap_or(Error::Corrupt(reason(error))))
    }

    fn digest(&self, digest: &mut Digest) {
        let graph = self.0.graph();
        for element in self.0.range(Bound::Unbounded, Bound::Unbounded) {
            let vector = self.0.get(&element.name).and_then(|(slot, _)| graph.stored(slot));
            let (bytes, range, length) = vector.unwrap_or_default();
            digest.mix(&element.name);
            digest.mix(&bytes);
            digest.mix(&range.to_le_bytes());
            digest.mix(&length.to_le_bytes());
            digest.mix(element.attribute.as_deref().unwrap_or_default());
        }
    }

    fn export(&self, out: &mut Export<'_>) {
        let graph = self.0.graph();
        out.array(|out| {
            for element in self.0.range(Bound::Unbounded, Bound::Unbounded) {
                let slot = self.0.get(&element.name).map(|(slot, _)| slot);
                let components = slot.and_then(|slot| graph.components(slot)).unwrap_or_default();
                out.array(|out| {
                    out.text(&element.name);
                    out.array(|out| components.iter().for_each(|value| out.float(f64::from(*value))));
                    out.text(element.attribute.as_deref().unwrap_or_default());
                });
            }
        });
    }
}

/// The reason for which the items are no vector set.
fn reason(error: SavedError) -> &'static str {
    match error {
        SavedError::Field => "another item than a vector set has there",
        SavedError::Head => "a vector set's head is out of its limits",
        SavedError::Projection => "a vector set's projection has a wrong size",
        SavedError::Parameters => "a vector set's node has wrong parameters",
        SavedError::Name => "two elements of a vector set have one name",
        SavedError::Graph(_) => "a vector set's nodes make no graph",
    }
}
