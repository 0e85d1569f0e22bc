//! Path hashes, as Valkey 9.2 has them.
//!
//! ```text
//! 23  count | (path | count, not 0 | (field | value)…)…       from Valkey's version 81 on; paths in order
//! ```
//! Redis' versions have no such type. A data set with types that only they have writes its path hashes as
//! values of a module's type `path-hash`, which no other server knows: the same as items.
//!
//! ```text
//! 7  id | 2 count | (5 path | 2 count | (5 field | 5 value)…)… | 0
//! ```

use martlet_rdb::input::Input;
use martlet_rdb::module::{ItemReader, ItemWriter, ModuleId};
use martlet_rdb::{
    Error, Writer, read_bytes, read_count, skip_bytes, write_bytes, write_element, write_length,
};
use martlet_spec::data_type::{self, TypeView};
use martlet_types::element::{Element, IntBuffer};
use martlet_types::hash::{FieldExpiry, Hash, HashLimits};
use martlet_types::path_hash::PathHash;

use crate::commands::{Commands, number, text};
use crate::descriptor::{DataType, Descriptor, Encoded, RdbType, Requirement};
use crate::digest::Digest;
use crate::export::Export;
use crate::form::{MODULE, VERSION_PATH_HASHES};

const PATH_HASH: u8 = 23;

/// The id of the form in Redis' versions.
const ID: ModuleId = ModuleId::new(b"path-hash", 1);

/// Fields that one command of the append-only base sets.
const FIELDS: usize = 64;

pub(crate) static DESCRIPTOR: Descriptor = Descriptor::of::<PathHash>();

impl DataType for PathHash {
    const RDB_TYPES: &'static [RdbType] = &[RdbType { byte: PATH_HASH, since: VERSION_PATH_HASHES }];
    const REQUIREMENTS: &'static [Requirement] =
        &[Requirement { version: VERSION_PATH_HASHES, in_valkey: true, values: "path hashes" }];
    // Valkey has none.
    const KEYSIZES: Option<&'static str> = None;
    const VIEW: Option<&'static TypeView> = Some(&data_type::PATH_HASH);

    fn rdb_type(&self, version: u16) -> u8 {
        if version >= VERSION_PATH_HASHES { PATH_HASH } else { MODULE }
    }

    fn write(&self, out: &mut Writer<'_>, byte: u8, compress: bool) {
        if byte == MODULE {
            return write_items(ItemWriter::new(out, ID, compress), self);
        }
        write_length(out, self.len() as u64);
        let mut paths = self.paths();
        while let Some((path, hash)) = paths.next() {
            write_bytes(out, path, compress);
            write_length(out, hash.len() as u64);
            for field in hash.iter() {
                write_element(out, field.name, compress);
                write_element(out, field.value, compress);
            }
        }
    }

    fn read(input: &mut (impl Input + ?Sized), encoded: Encoded<'_>) -> Result<PathHash, Error> {
        let (mut builder, mut scratch) = (Builder::new(encoded.limits.hash), Vec::new());
        for _ in 0..read_count(input)? {
            builder.path(read_bytes(input, &mut scratch)?)?;
            for _ in 0..read_count(input)? {
                builder.name(read_bytes(input, &mut scratch)?);
                builder.value(read_bytes(input, &mut scratch)?)?;
            }
            builder.end_path()?;
        }
        Ok(builder.paths)
    }

    fn skip(input: &mut &[u8], _byte: u8, _version: u16) -> Result<(), Error> {
        for _ in 0..read_count(input)? {
            skip_bytes(input)?;
            for _ in 0..read_count(input)? {
                skip_bytes(input)?;
                skip_bytes(input)?;
            }
        }
        Ok(())
    }

    fn commands(&self, key: &[u8], out: &mut Commands<'_>) {
        if self.is_empty() {
            // Nothing else makes an empty one.
            out.put(&[b"PHSET", key, b"", b"FIELDS", b"1", b"", b""]);
            out.put(&[b"PHDEL", key, b""]);
        }
        let mut paths = self.paths();
        while let Some((path, hash)) = paths.next() {
            let fields: Vec<_> = hash.iter().map(|field| [text(field.name), text(field.value)]).collect();
            for some in fields.chunks(FIELDS) {
                let count = number(some.len());
                let head: [&[u8]; 5] = [b"PHSET", key, path, b"FIELDS", &count];
                let pairs = some.iter().flatten().map(Vec::as_slice);
                out.put(&head.into_iter().chain(pairs).collect::<Vec<_>>());
            }
        }
    }

    fn digest(&self, digest: &mut Digest) {
        let mut paths = self.paths();
        while let Some((path, hash)) = paths.next() {
            for field in hash.iter() {
                digest.xor_element(|element| {
                    element.mix(path);
                    element.mix_element(field.name);
                    element.mix_element(field.value);
                });
            }
        }
    }

    fn export(&self, out: &mut Export<'_>) {
        out.array(|out| {
            let mut paths = self.paths();
            while let Some((path, hash)) = paths.next() {
                out.array(|out| {
                    out.text(path);
                    hash.export(out);
                });
            }
        });
    }
}

fn write_items(mut items: ItemWriter<'_, '_>, value: &PathHash) {
    items.unsigned(value.len() as u64);
    let mut paths = value.paths();
    while let Some((path, hash)) = paths.next() {
        items.string(path);
        items.unsigned(hash.len() as u64);
        for field in hash.iter() {
            items.string(field.name.as_bytes(&mut IntBuffer::new()));
            items.string(field.value.as_bytes(&mut IntBuffer::new()));
        }
    }
    items.end();
}

/// Whether a module's value with this id is a path hash.
pub(crate) fn is_meant_by(id: ModuleId) -> bool {
    id == ID
}

/// Reads the form in Redis' versions, behind its id.
///
/// # Errors
/// [`Error`].
pub(crate) fn read_items(
    mut input: &mut (impl Input + ?Sized),
    limits: HashLimits,
) -> Result<PathHash, Error> {
    let mut items = ItemReader::new(&mut input);
    let mut builder = Builder::new(limits);
    // Counts are not trusted: each path and field takes an item.
    for _ in 0..items.unsigned()? {
        builder.path(items.string()?)?;
        for _ in 0..items.unsigned()? {
            builder.name(items.string()?);
            builder.value(items.string()?)?;
        }
        builder.end_path()?;
    }
    items.end()?;
    Ok(builder.paths)
}

/// A path hash that is being read.
struct Builder {
    limits: HashLimits,
    paths: PathHash,
    path: Vec<u8>,
    hash: Hash,
    name: Vec<u8>,
}

impl Builder {
    fn new(limits: HashLimits) -> Builder {
        let paths = PathHash::new();
        Builder { limits, paths, path: Vec::new(), hash: Hash::new(), name: Vec::new() }
    }

    fn path(&mut self, path: &[u8]) -> Result<(), Error> {
        if self.paths.get(path).is_some() {
            return Err(Error::Corrupt("Duplicate pathhash path"));
        }
        self.path.clear();
        self.path.extend_from_slice(path);
        Ok(())
    }

    fn name(&mut self, name: &[u8]) {
        self.name.clear();
        self.name.extend_from_slice(name);
    }

    fn value(&mut self, value: &[u8]) -> Result<(), Error> {
        let (value, expiry) = (Element::parse(value), FieldExpiry::Clear);
        let is_new = self.hash.set(&self.name, value, expiry, self.limits, 0);
        if is_new { Ok(()) } else { Err(Error::Corrupt("Duplicate pathhash payload field")) }
    }

    fn end_path(&mut self) -> Result<(), Error> {
        if self.hash.is_empty() {
            return Err(Error::Corrupt("Path hash path with empty payload"));
        }
        let hash = std::mem::take(&mut self.hash);
        self.paths.create(&self.path, |place| *place = hash);
        Ok(())
    }
}
