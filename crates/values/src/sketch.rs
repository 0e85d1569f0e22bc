//! Redis 8's sketches as values of keys: [`Sketch`] around a structure of the crate `sketch`, whose saved
//! fields are the items of a module's value.
//!
//! What always holds: a field that was read has been checked by the structure's decoder, and a clone shares
//! every page with its original until one of the two is changed.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut, RangeInclusive};

use martlet_keyspace::{ModuleObject, ModuleValue};
use martlet_rdb::Error;
use martlet_rdb::module::{ItemReader, ItemWriter, NAME_CHARACTERS};
use martlet_sketch::field::{DecodeError, Field, FieldSink, FieldSource};
use martlet_sketch::{Bloom, Chunk, CountMin, Cuckoo, TDigest, TopK, bloom, cms, cuckoo, tdigest, topk};
use martlet_spec::data_type::{self, TypeView};

use crate::commands::{Commands, number};
use crate::digest::Digest;
use crate::export::Export;
use crate::module::{ModuleDescriptor, ModuleType, restore};

/// Bytes that freeing one block gives back, roughly.
const BLOCK_BYTES: usize = 8192;

/// A sketch in a key.
#[derive(Clone)]
pub struct Sketch<T>(pub T);

impl<T> Deref for Sketch<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Sketch<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Structure> fmt::Debug for Sketch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::TYPE.name)
    }
}

/// What a structure of the crate `sketch` says of itself as a value.
pub trait Structure: Clone + Send + Sync + 'static {
    /// The name in the type's id.
    const NAME: &'static [u8; NAME_CHARACTERS];
    /// The same with the version that is written.
    const TYPE: martlet_sketch::field::ModuleType;
    /// The tools' view of it.
    const VIEW: &'static TypeView;

    /// Bytes of all that it has allocated.
    fn heap_bytes(&self) -> usize;
    /// Blocks that it has besides those of its tables.
    fn small_blocks(&self) -> usize {
        0
    }
    /// Saves it.
    fn encode(&self, sink: &mut dyn FieldSink);
    /// Reads it.
    ///
    /// # Errors
    /// If the fields are no such sketch.
    fn decode(version: u16, source: &mut dyn FieldSource) -> Result<Self, DecodeError>;
    /// The command that loads a piece of it, and all pieces in their order; empty for types that are
    /// restored as a whole, or where the pieces would not make it.
    fn pieces(&self) -> (&'static [u8], Vec<Chunk>) {
        (b"", Vec::new())
    }
    /// Writes its content as JSON: by default an array of the saved fields.
    fn export(&self, out: &mut Export<'_>) {
        let mut fields: Vec<Field> = Vec::new();
        self.encode(&mut fields);
        out.array(|out| {
            for field in &fields {
                match field {
                    Field::Unsigned(value) => out.int(*value),
                    Field::Double(value) => out.float(*value),
                    Field::Float(value) => out.float(f64::from(*value)),
                    Field::String(bytes) => out.text(bytes),
                }
            }
        });
    }
}

/// All pieces of a filter, each got from the position behind the one before it.
fn all_pieces(mut piece_at: impl FnMut(i64) -> Option<Chunk>) -> Vec<Chunk> {
    let (mut pieces, mut position) = (Vec::new(), 0);
    while let Some(piece) = piece_at(position).filter(|piece| piece.next > position) {
        position = piece.next;
        pieces.push(piece);
    }
    pieces
}

/// The parts of [`Structure`] that the structures have as methods.
macro_rules! structure {
    ($module:ident, $name:literal, $view:ident) => {
        const NAME: &'static [u8; NAME_CHARACTERS] = $name;
        const TYPE: martlet_sketch::field::ModuleType = $module::TYPE;
        const VIEW: &'static TypeView = &data_type::$view;

        fn heap_bytes(&self) -> usize {
            self.heap_bytes()
        }
        fn encode(&self, sink: &mut dyn FieldSink) {
            self.encode(sink);
        }
        fn decode(version: u16, source: &mut dyn FieldSource) -> Result<Self, DecodeError> {
            Self::decode(version, source)
        }
    };
}

impl Structure for Bloom {
    structure!(bloom, b"MBbloom--", BLOOM);

    fn pieces(&self) -> (&'static [u8], Vec<Chunk>) {
        (b"BF.LOADCHUNK", all_pieces(|position| Some(self.scan_dump(position))))
    }
}

impl Structure for Cuckoo {
    structure!(cuckoo, b"MBbloomCF", CUCKOO);

    fn pieces(&self) -> (&'static [u8], Vec<Chunk>) {
        (b"CF.LOADCHUNK", all_pieces(|position| self.scan_dump(position)))
    }
}

impl Structure for CountMin {
    structure!(cms, b"CMSk-TYPE", COUNT_MIN);
}

impl Structure for TopK {
    structure!(topk, b"TopK-TYPE", TOP_K);

    fn small_blocks(&self) -> usize {
        self.k() as usize
    }

    fn export(&self, out: &mut Export<'_>) {
        out.array(|out| {
            for (item, count) in self.list() {
                out.array(|out| {
                    out.text(&item);
                    out.int(count);
                });
            }
        });
    }
}

impl Structure for TDigest {
    structure!(tdigest, b"TDIS-TYPE", T_DIGEST);
}

impl<T: Structure> ModuleObject for Sketch<T> {
    fn type_name(&self) -> &str {
        T::TYPE.name
    }

    // A sketch without items stays in its key.
    fn element_count(&self) -> usize {
        1
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn free_effort(&self) -> usize {
        self.0.heap_bytes() / BLOCK_BYTES + self.0.small_blocks()
    }
}

impl<T: Structure> ModuleType for Sketch<T> {
    const NAME: &'static [u8; NAME_CHARACTERS] = T::NAME;
    const ENCODING_VERSIONS: RangeInclusive<u16> = 0..=T::TYPE.version;
    const VIEW: Option<&'static TypeView> = Some(T::VIEW);

    fn save(&self, items: &mut ItemWriter<'_, '_>) {
        self.0.encode(&mut Sink(items));
    }

    fn load(items: &mut ItemReader<'_>, version: u16) -> Result<Self, Error> {
        let mut source = Source { items, error: None };
        let decoded = T::decode(version, &mut source);
        decoded.map(Sketch).map_err(|_| source.error.unwrap_or(Error::Corrupt("fields of a sketch")))
    }

    /// Filters come in pieces, as RESTORE takes no payload beyond `proto-max-bulk-len`.
    fn commands(&self, key: &[u8], out: &mut Commands<'_>) {
        let (command, pieces) = self.pieces();
        for piece in &pieces {
            out.put(&[command, key, &number(piece.next), &piece.bytes]);
        }
        if pieces.is_empty() {
            restore(&ModuleValue::new(self.clone()), key, out);
        }
    }

    fn digest(&self, digest: &mut Digest) {
        let mut fields: Vec<Field> = Vec::new();
        self.0.encode(&mut fields);
        for field in &fields {
            match field {
                Field::Unsigned(value) => digest.mix(&value.to_le_bytes()),
                Field::Double(value) => digest.mix(&value.to_le_bytes()),
                Field::Float(value) => digest.mix(&value.to_le_bytes()),
                Field::String(bytes) => digest.mix(bytes),
            }
        }
    }

    fn export(&self, out: &mut Export<'_>) {
        Structure::export(&self.0, out);
    }
}

/// The descriptors of all sketches.
pub(crate) static BLOOM: ModuleDescriptor = ModuleDescriptor::of::<Sketch<Bloom>>();
pub(crate) static CUCKOO: ModuleDescriptor = ModuleDescriptor::of::<Sketch<Cuckoo>>();
pub(crate) static COUNT_MIN: ModuleDescriptor = ModuleDescriptor::of::<Sketch<CountMin>>();
pub(crate) static TOP_K: ModuleDescriptor = ModuleDescriptor::of::<Sketch<TopK>>();
pub(crate) static T_DIGEST: ModuleDescriptor = ModuleDescriptor::of::<Sketch<TDigest>>();

/// Fields that become items.
struct Sink<'a, 'b, 'c>(&'a mut ItemWriter<'b, 'c>);

impl FieldSink for Sink<'_, '_, '_> {
    fn unsigned(&mut self, value: u64) {
        self.0.unsigned(value);
    }

    fn double(&mut self, value: f64) {
        self.0.double(value);
    }

    fn float(&mut self, value: f32) {
        self.0.float(value);
    }

    fn string(&mut self, len: u64, pieces: &mut dyn Iterator<Item = Cow<'_, [u8]>>) {
        self.0.string_in_pieces(len, pieces);
    }
}

/// Items that become fields; the first error of the input is kept.
struct Source<'a, 'b> {
    items: &'a mut ItemReader<'b>,
    error: Option<Error>,
}

/// Passes a field on, or keeps the error.
fn kept<T>(result: Result<T, Error>, error: &mut Option<Error>) -> Result<T, DecodeError> {
    result.map_err(|why| {
        *error = Some(why);
        DecodeError::Truncated
    })
}

impl FieldSource for Source<'_, '_> {
    fn unsigned(&mut self) -> Result<u64, DecodeError> {
        kept(self.items.unsigned(), &mut self.error)
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        kept(self.items.double(), &mut self.error)
    }

    fn float(&mut self) -> Result<f32, DecodeError> {
        kept(self.items.float(), &mut self.error)
    }

    fn string(&mut self) -> Result<Cow<'_, [u8]>, DecodeError> {
        let Source { items, error } = self;
        kept(items.string(), error).map(Cow::Borrowed)
    }
}
