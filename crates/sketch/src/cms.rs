//! `CountMin`: the Count-Min sketch of CMS.*: `depth` rows of `width` counters of 32 bits.
//!
//! An item has a counter in each row, at its MurmurHash2 with the row's number as seed; its count is the
//! lowest of them. Counters stop at 4,294,967,295, which CMS.INCRBY reports as an overflow though the row has
//! kept it.
//!
//! Invariant: the table has `width * depth` slots, at least one.

#[cfg(test)]
mod tests;

use martlet_base::prefetch::PrefetchQueue;

use crate::debris::Debris;
use crate::field::{DecodeError, FieldSink, FieldSource, ModuleType, load_slots, save_slots};
use crate::hash::each_row;
use crate::pages::{CACHED_MAX_BYTES, PAGE_BYTES, Pages, Run};
use crate::{ROWS_MAX, TABLE_MAX_BYTES};

/// The type's name, and the version that is written.
pub const TYPE: ModuleType = ModuleType { name: "CMSk-TYPE", version: 0 };

/// Counters of a page.
const PAGE: usize = PAGE_BYTES / 4;

/// Why a sketch cannot be made, counted in or merged. It prints Redis' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CmsError {
    /// The width is below 1.
    #[error("CMS: invalid width")]
    Width,
    /// The depth is below 1.
    #[error("CMS: invalid depth")]
    Depth,
    /// The overestimation is not between 0 and 1.
    #[error("CMS: invalid overestimation value")]
    Overestimation,
    /// The probability is not between 0 and 1.
    #[error("CMS: invalid prob value")]
    Probability,
    /// Width and depth do not multiply, or the probabilities give none.
    #[error("CMS: invalid init arguments")]
    Dimensions,
    /// The table would be above [`crate::TABLE_MAX_BYTES`], or its rows above [`crate::ROWS_MAX`].
    #[error("CMS: Insufficient memory to create the key")]
    Memory,
    /// A counter has reached the highest count; all of the item's counters were raised all the same.
    #[error("CMS: INCRBY overflow")]
    IncrByOverflow,
    /// Sketches of different dimensions cannot be merged.
    #[error("CMS: width/depth is not equal")]
    Unequal,
    /// A merged count would be negative or too high.
    #[error("CMS: MERGE overflow")]
    MergeOverflow,
}

/// See the [module docs](self).
#[derive(Clone)]
pub struct CountMin {
    width: u64,
    depth: u64,
    counter: u64,
    table: Pages<u32, PAGE>,
}

/// A number that C converts to an unsigned integer, or `None` if it has none.
fn to_dimension(value: f64) -> Option<i64> {
    (value >= 1.0 && value < i64::MAX as f64).then_some(value as i64)
}

impl CountMin {
    /// An empty sketch of these dimensions (CMS.INITBYDIM).
    ///
    /// # Errors
    /// If they are out of range.
    pub fn by_dimensions(width: i64, depth: i64) -> Result<CountMin, CmsError> {
        if width < 1 {
            return Err(CmsError::Width);
        }
        if depth < 1 {
            return Err(CmsError::Depth);
        }
        if width > i64::MAX / depth {
            return Err(CmsError::Dimensions);
        }
        let (width, depth) = (width as u64, depth as u64);
        if width * depth > TABLE_MAX_BYTES / 4 || depth > ROWS_MAX {
            return Err(CmsError::Memory);
        }
        Ok(CountMin { width, depth, counter: 0, table: Pages::zeroed(width * depth) })
    }

    /// An empty sketch whose counts are too high by at most `overestimation` of all that was counted, except
    /// with this probability (CMS.INITBYPROB).
    ///
    /// # Errors
    /// If one is not between 0 and 1, or the dimensions are out of range.
    pub fn by_probability(overestimation: f64, probability: f64) -> Result<CountMin, CmsError> {
        if !(overestimation > 0.0 && overestimation < 1.0) {
            return Err(CmsError::Overestimation);
        }
        if !(probability > 0.0 && probability < 1.0) {
            return Err(CmsError::Probability);
        }
        let width = (2.0 / overestimation).ceil();
        // Logarithms and quotient are floats in RedisBloom.
        let depth = f64::from((probability as f32).log10() / 0.5_f32.log10()).ceil();
        let (Some(width), Some(depth)) = (to_dimension(width), to_dimension(depth)) else {
            return Err(CmsError::Dimensions);
        };
        CountMin::by_dimensions(width, depth)
    }

    /// Calls `visit` with the slot of an item in each row.
    #[inline]
    fn each_slot(item: &[u8], width: u64, depth: u64, mut visit: impl FnMut(u64)) {
        let narrow = u32::try_from(width).ok();
        each_row(item, depth, |row, hash| {
            let column = narrow.map_or(hash, |width| hash % width);
            visit(u64::from(column) + row * width);
        });
    }

    /// Counts an item `value` times more; its count then.
    ///
    /// # Errors
    /// [`CmsError::IncrByOverflow`] if it is as high as a count can be. It has been counted all the same.
    #[inline]
    pub fn incr_by(&mut self, item: &[u8], value: u64) -> Result<u32, CmsError> {
        let mut count = u32::MAX;
        let table = &mut self.table;
        CountMin::each_slot(item, self.width, self.depth, |slot| {
            let counter = table.get_mut(slot);
            // The increment enters a counter of 32 bits by its low half, but is compared as a whole.
            *counter = counter.wrapping_add(value as u32);
            if u64::from(*counter) < value {
                *counter = u32::MAX;
            }
            count = count.min(*counter);
        });
        self.counter = self.counter.wrapping_add(value);
        if count == u32::MAX { Err(CmsError::IncrByOverflow) } else { Ok(count) }
    }

    /// [`CountMin::incr_by`] of several items in order, their counters prefetched together.
    pub fn incr_all(&mut self, items: &[(&[u8], u64)]) -> Vec<Result<u32, CmsError>> {
        items.iter().for_each(|(item, _)| self.prefetch(item));
        items.iter().map(|(item, value)| self.incr_by(item, *value)).collect()
    }

    /// An item's count, never below the real one.
    #[inline]
    pub fn query(&self, item: &[u8]) -> u32 {
        let mut count = u32::MAX;
        CountMin::each_slot(item, self.width, self.depth, |slot| {
            count = count.min(self.table.get(slot).copied().unwrap_or(0));
        });
        count
    }

    /// [`CountMin::query`] of several items, their counters prefetched together.
    pub fn query_all(&self, items: &[&[u8]]) -> Vec<u32> {
        items.iter().for_each(|item| self.prefetch(item));
        items.iter().map(|item| self.query(item)).collect()
    }

    fn prefetch(&self, item: &[u8]) {
        if self.table.len() * 4 > CACHED_MAX_BYTES {
            CountMin::each_slot(item, self.width, self.depth, |slot| self.table.prefetch(slot));
        }
    }

    /// Queues the cache lines that a command about this item will read.
    pub fn queue_probes(&self, item: &[u8], queue: &mut PrefetchQueue) {
        CountMin::each_slot(item, self.width, self.depth, |slot| self.table.queue(slot, queue));
    }

    /// Replaces all counts by the sum of the sources', each times its weight (CMS.MERGE). A clone costs
    /// nothing, so the caller may pass one of the destination itself.
    ///
    /// # Errors
    /// [`CmsError::Unequal`] or [`CmsError::MergeOverflow`]; nothing has changed then.
    pub fn merge(&mut self, sources: &[(CountMin, i64)]) -> Result<(), CmsError> {
        if sources.iter().any(|(source, _)| (source.width, source.depth) != (self.width, self.depth)) {
            return Err(CmsError::Unequal);
        }
        let overflow = CmsError::MergeOverflow;
        let mut merged = Pages::zeroed(self.table.len());
        let mut sums = Vec::new();
        let mut page = Vec::new();
        for start in (0..self.table.len()).step_by(PAGE) {
            sums.clear();
            sums.resize(PAGE.min((self.table.len() - start) as usize), 0_i64);
            for (source, weight) in sources {
                let Some(Run::Slots(slots)) = source.table.runs(start..start + PAGE as u64).next() else {
                    continue;
                };
                for (sum, slot) in sums.iter_mut().zip(slots) {
                    let product = i64::from(*slot).checked_mul(*weight).ok_or(overflow)?;
                    *sum = sum.checked_add(product).ok_or(overflow)?;
                }
            }
            page.clear();
            for sum in &sums {
                page.push(u32::try_from(*sum).map_err(|_| overflow)?);
            }
            merged.write(start, &page);
        }
        let mut counter = 0_i64;
        for (source, weight) in sources {
            let product = i128::from(source.counter) * i128::from(*weight);
            let product = i64::try_from(product).map_err(|_| overflow)?;
            counter = counter.checked_add(product).ok_or(overflow)?;
        }
        self.counter = u64::try_from(counter).map_err(|_| overflow)?;
        self.table = merged;
        Ok(())
    }

    /// Counters in a row.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// Rows.
    pub fn depth(&self) -> u64 {
        self.depth
    }

    /// The sum of all that was counted.
    pub fn count(&self) -> u64 {
        self.counter
    }

    /// Bytes that the sketch's blocks were allocated with, those that clones share included.
    pub fn heap_bytes(&self) -> usize {
        self.table.heap_bytes()
    }

    /// Leaves the table to be freed in slices.
    pub fn into_debris(self, debris: &mut Debris) {
        self.table.into_debris(debris);
    }

    /// Saves the sketch.
    pub fn encode(&self, sink: &mut dyn FieldSink) {
        sink.unsigned(self.width);
        sink.unsigned(self.depth);
        sink.unsigned(self.counter);
        save_slots(sink, &self.table, |counter| counter.to_le_bytes());
    }

    /// Reads a sketch that was saved in this version.
    ///
    /// # Errors
    /// If the fields are no sketch.
    pub fn decode(version: u16, source: &mut dyn FieldSource) -> Result<CountMin, DecodeError> {
        if version > TYPE.version {
            return Err(DecodeError::Version);
        }
        let (width, depth, counter) = (source.unsigned()?, source.unsigned()?, source.unsigned()?);
        let slots = width.checked_mul(depth).filter(|slots| (1..=TABLE_MAX_BYTES / 4).contains(slots));
        let slots = slots.ok_or(DecodeError::Range("the dimensions"))?;
        let table = load_slots(&source.string()?, slots, u32::from_le_bytes)?;
        Ok(CountMin { width, depth, counter, table })
    }
}
