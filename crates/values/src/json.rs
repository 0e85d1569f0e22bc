//! JSON documents, Redis' module type `ReJSON-RL`.
//!
//! A document is written as text (version 3), which Redis Stack and Redis 8 read; one with arrays of short
//! floats (JSON.SET's FPHA) as CBOR (version 4), since text would lose their types.

use martlet_base::prefetch::{PrefetchQueue, ProbeStep, Progress};
use martlet_json::document::Document;
use martlet_json::serialised::{VERSION_CBOR, VERSION_TEXT, decode, encode_cbor, encode_text};
use martlet_json::text::to_text;
use martlet_keyspace::ModuleObject;
use martlet_rdb::Error;
use martlet_rdb::module::{ItemReader, ItemWriter};
use martlet_spec::data_type::{JSON, TypeView};

use crate::digest::Digest;
use crate::export::Export;
use crate::module::{ModuleDescriptor, ModuleType};

pub(crate) static DESCRIPTOR: ModuleDescriptor = ModuleDescriptor::of::<Json>();

/// Bytes of a document for which freeing it counts as one step more.
const BYTES_PER_STEP: usize = 64;

/// A JSON document as a key's value.
#[derive(Clone, Debug)]
pub struct Json(pub Document);

impl ModuleObject for Json {
    fn type_name(&self) -> &str {
        JSON.name
    }

    fn element_count(&self) -> usize {
        1
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn queue_probe(&self, probe: ProbeStep, queue: &mut PrefetchQueue) -> Progress {
        self.0.queue_step(probe.step, queue)
    }

    fn free_effort(&self) -> usize {
        self.0.heap_bytes() / BYTES_PER_STEP
    }
}

impl ModuleType for Json {
    const NAME: &'static [u8; 9] = b"ReJSON-RL";
    const ENCODING_VERSIONS: std::ops::RangeInclusive<u16> = VERSION_TEXT..=VERSION_CBOR;
    const VIEW: Option<&'static TypeView> = Some(&JSON);

    fn written_version(&self) -> u16 {
        if self.0.has_narrow_floats() { VERSION_CBOR } else { VERSION_TEXT }
    }

    fn save(&self, items: &mut ItemWriter<'_, '_>) {
        items.string(&match self.written_version() {
            VERSION_TEXT => encode_text(&self.0),
            _ => encode_cbor(&self.0),
        });
    }

    fn load(items: &mut ItemReader<'_>, version: u16) -> Result<Json, Error> {
        decode(version, items.string()?).map(Json).map_err(|_| Error::Corrupt("a damaged JSON document"))
    }

    fn digest(&self, digest: &mut Digest) {
        digest.mix(&to_text(self.0.root()));
    }

    fn export(&self, out: &mut Export<'_>) {
        out.json(&to_text(self.0.root()));
    }
}
