//! The filter's saved form: RDB's `MBbloom--`, versions 0 to 4.

use super::link::{Header, Link};
use super::{Bloom, CAPACITY_IS_BITS, HASH_64, LINKS_MAX, NO_ROUND, NO_SCALING};
use crate::field::{DecodeError, FieldSink, FieldSource, ModuleType, load_slots, narrow, save_bytes};

/// The type's name, and the version that is written.
pub const TYPE: ModuleType = ModuleType { name: "MBbloom--", version: 4 };

/// The first version with bits apart from the capacity.
const WITH_BITS: u16 = 1;
/// The first version with options.
const WITH_OPTIONS: u16 = 2;
/// The first version with a growth factor.
const WITH_GROWTH: u16 = 4;

const ALL_OPTIONS: u32 = NO_ROUND | CAPACITY_IS_BITS | HASH_64 | NO_SCALING;

impl Bloom {
    /// Saves the filter.
    pub fn encode(&self, sink: &mut dyn FieldSink) {
        sink.unsigned(self.size);
        sink.unsigned(self.links.len() as u64);
        sink.unsigned(u64::from(self.options));
        sink.unsigned(u64::from(self.growth));
        for link in &self.links {
            sink.unsigned(link.header.entries);
            sink.double(link.header.error);
            sink.unsigned(u64::from(link.header.hashes));
            sink.double(link.header.bits_per_entry);
            sink.unsigned(link.header.bits);
            sink.unsigned(u64::from(link.header.log2_bits));
            save_bytes(sink, &link.table);
            sink.unsigned(link.header.size);
        }
    }

    /// Reads a filter that was saved in this version.
    ///
    /// # Errors
    /// If the fields are no filter.
    pub fn decode(version: u16, source: &mut dyn FieldSource) -> Result<Bloom, DecodeError> {
        if version > TYPE.version {
            return Err(DecodeError::Version);
        }
        let size = source.unsigned()?;
        let links = source.unsigned()?;
        let options = if version >= WITH_OPTIONS { narrow(source.unsigned()?, "options")? } else { 0 };
        let growth = if version >= WITH_GROWTH { narrow(source.unsigned()?, "growth")? } else { 2 };
        if !(1..=LINKS_MAX as u64).contains(&links) {
            return Err(DecodeError::Range("the number of links"));
        }
        let mut bloom = Bloom { size, options, growth, links: Vec::new() };
        for _ in 0..links {
            let link = decode_link(version, source)?;
            bloom.links.push(link);
        }
        bloom.check()
    }

    /// The chain, if its parts belong together.
    pub(super) fn check(mut self) -> Result<Bloom, DecodeError> {
        let sizes = self.links.iter().try_fold(0_u64, |sum, link| sum.checked_add(link.header.size));
        if self.options & !ALL_OPTIONS != 0 || sizes != Some(self.size) {
            return Err(DecodeError::Range("the chain"));
        }
        self.links.shrink_to_fit();
        Ok(self)
    }
}

fn decode_link(version: u16, source: &mut dyn FieldSource) -> Result<Link, DecodeError> {
    let entries = source.unsigned()?;
    let error = source.double()?;
    let hashes = narrow(source.unsigned()?, "hashes")?;
    let bits_per_entry = source.double()?;
    let (bits, log2_bits) = if version >= WITH_BITS {
        (source.unsigned()?, narrow(source.unsigned()?, "bits")?)
    } else {
        ((entries as f64 * bits_per_entry) as u64, 0)
    };
    let mut header = Header { entries, error, bits_per_entry, hashes, log2_bits, bits, size: 0 };
    let table = {
        let bytes = source.string()?;
        if !header.is_sound(bytes.len() as u64) {
            return Err(DecodeError::Range("a link"));
        }
        load_slots(&bytes, bytes.len() as u64, |[byte]: [u8; 1]| byte)?
    };
    header.size = source.unsigned()?;
    Ok(Link::with_table(header, table))
}
