//! The filter's saved form: RDB's `MBbloomCF`, versions up to 4.

use super::filter::Filter;
use super::{BUCKETS_MAX, Cuckoo, FILTERS_MAX, Options};
use crate::field::{DecodeError, FieldSink, FieldSource, ModuleType, load_slots, narrow, save_bytes};

/// The type's name, and the version that is written.
pub const TYPE: ModuleType = ModuleType { name: "MBbloomCF", version: 4 };

/// The first version with options.
const WITH_OPTIONS: u16 = 4;

impl Cuckoo {
    /// Saves the filter.
    pub fn encode(&self, sink: &mut dyn FieldSink) {
        sink.unsigned(self.filters.len() as u64);
        sink.unsigned(self.buckets);
        sink.unsigned(self.items);
        sink.unsigned(self.deletes);
        sink.unsigned(u64::from(self.bucket_size));
        sink.unsigned(u64::from(self.max_iterations));
        sink.unsigned(u64::from(self.expansion));
        for filter in &self.filters {
            sink.unsigned(filter.buckets);
            save_bytes(sink, &filter.table);
        }
    }

    /// Reads a filter that was saved in this version.
    ///
    /// # Errors
    /// If the fields are no filter.
    pub fn decode(version: u16, source: &mut dyn FieldSource) -> Result<Cuckoo, DecodeError> {
        if version > TYPE.version {
            return Err(DecodeError::Version);
        }
        let (filters, buckets, items) = (source.unsigned()?, source.unsigned()?, source.unsigned()?);
        let mut cuckoo = Cuckoo {
            buckets,
            items,
            deletes: 0,
            bucket_size: Options::default().bucket_size as u8,
            max_iterations: Options::default().max_iterations as u16,
            expansion: Options::default().expansion as u16,
            filters: Vec::new(),
        };
        if version >= WITH_OPTIONS {
            cuckoo.deletes = source.unsigned()?;
            cuckoo.bucket_size = narrow(source.unsigned()?, "the bucket size")?;
            cuckoo.max_iterations = narrow(source.unsigned()?, "the iterations")?;
            cuckoo.expansion = narrow(source.unsigned()?, "the expansion")?;
        }
        if !(1..=FILTERS_MAX as u64).contains(&filters) || !cuckoo.has_sound_options() {
            return Err(DecodeError::Range("the options"));
        }
        let mut least = 1;
        for _ in 0..filters {
            let own = if version >= WITH_OPTIONS { source.unsigned()? } else { buckets };
            let slots = own.checked_mul(u64::from(cuckoo.bucket_size));
            let (true, Some(slots)) = (own.is_power_of_two() && own >= least, slots) else {
                return Err(DecodeError::Range("the buckets"));
            };
            let table = load_slots(&source.string()?, slots, |[byte]: [u8; 1]| byte)?;
            cuckoo.filters.push(Filter::with_table(own, cuckoo.bucket_size, table));
            least = own;
        }
        cuckoo.filters.shrink_to_fit();
        Ok(cuckoo)
    }

    /// Whether the options are such as CF.RESERVE takes.
    pub(super) fn has_sound_options(&self) -> bool {
        self.buckets.is_power_of_two()
            && self.buckets <= BUCKETS_MAX
            && self.bucket_size > 0
            && self.max_iterations > 0
            && (self.expansion == 0 || self.expansion.is_power_of_two())
    }
}
