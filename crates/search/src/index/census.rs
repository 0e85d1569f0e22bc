//! The sizes of an index, counted by steps of bounded length (FT.INFO).
//!
//! A step locks one partition, for some thousand terms. The index may change between two steps, and the sum
//! is then not that of a single moment.

use std::sync::Arc;

use super::names::{Names, Walk};
use super::partition::Partition;
use super::whole::Index;

/// Terms or tags that a step counts.
const CHUNK: usize = 4096;

/// The counts; sizes are bytes on the heap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sizes {
    /// Live documents.
    pub documents: u64,
    /// Ids given so far.
    pub ids: u64,
    /// Terms of all text fields.
    pub terms: u64,
    /// Entries of terms, tags and numbers.
    pub records: u64,
    /// Blocks in which they stand.
    pub blocks: u64,
    /// The entries.
    pub inverted_bytes: u64,
    /// The part of the entries that places of terms have: their share so far, of the present entries.
    pub offset_bytes: u64,
    /// The places per entry.
    pub offsets_per_record: f64,
    /// Bits per place.
    pub offset_bits: f64,
    /// Documents, their table and their sortable values apart.
    pub document_bytes: u64,
    /// Values by which results are sorted.
    pub sortable_bytes: u64,
    /// The tables from key to document.
    pub key_table_bytes: u64,
    /// The dictionaries of tags.
    pub tag_bytes: u64,
    /// The dictionary of terms, and the synonyms.
    pub text_bytes: u64,
    /// The vectors with their graphs.
    pub vector_bytes: u64,
    /// Bytes that collections have freed.
    pub collected_bytes: u64,
    /// Whether a collection is under way.
    pub is_collecting: bool,
}

/// Where the count is.
#[derive(Debug)]
enum Phase {
    /// In a partition: the terms from a place on.
    Terms(usize, usize),
    /// In a partition: a field, the tags from a place on.
    Field(usize, usize, usize),
    /// At the terms' number, of which several partitions may have the same.
    Names(Walk),
    Done,
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct Census {
    index: Arc<Index>,
    phase: Phase,
    sizes: Sizes,
    added: super::partition::Offsets,
}

impl Census {
    /// A count that has not begun.
    pub fn new(index: Arc<Index>) -> Census {
        let sizes = Sizes::default();
        Census { index, phase: Phase::Terms(0, 0), sizes, added: Default::default() }
    }

    /// A step; whether the count has come to its end.
    pub fn step(&mut self) -> bool {
        let index = Arc::clone(&self.index);
        let phase = std::mem::replace(&mut self.phase, Phase::Done);
        self.phase = match phase {
            Phase::Terms(number, place) => match index.partition(number) {
                Some(partition) => self.terms(&partition, number, place),
                None => Phase::Names(Walk::new(Names::Terms)),
            },
            Phase::Field(number, field, place) => match index.partition(number) {
                Some(partition) => self.field(&partition, (number, field, place)),
                None => Phase::Done,
            },
            Phase::Names(mut walk) => {
                let terms = &mut self.sizes.terms;
                match index.partitions() == 1 || walk.step(&index, &mut |_| *terms += 1) {
                    true => self.finish(),
                    false => Phase::Names(walk),
                }
            }
            Phase::Done => Phase::Done,
        };
        matches!(self.phase, Phase::Done)
    }

    fn count(&mut self, postings: &super::postings::Postings) {
        self.sizes.records += postings.len() as u64;
        self.sizes.blocks += postings.blocks() as u64;
        self.sizes.inverted_bytes += postings.heap_bytes() as u64;
    }

    fn terms(&mut self, partition: &Partition, number: usize, place: usize) -> Phase {
        if place == 0 {
            let (documents, sizes) = (partition.documents(), &mut self.sizes);
            let (sortables, keys) = (documents.sortable_bytes(), documents.key_table_bytes());
            sizes.documents += documents.len() as u64;
            sizes.ids += documents.next_id();
            sizes.sortable_bytes += sortables as u64;
            sizes.key_table_bytes += keys as u64;
            sizes.document_bytes += documents.heap_bytes().saturating_sub(sortables + keys) as u64;
            sizes.text_bytes += partition.terms().heap_bytes() as u64;
            sizes.collected_bytes += partition.collected_bytes();
            sizes.is_collecting |= partition.is_collecting();
            let added = partition.offsets();
            self.added.records += added.records;
            self.added.places += added.places;
            self.added.bytes += added.bytes;
        }
        let (values, next) = partition.terms().values(place, CHUNK);
        values.for_each(|postings| self.count(postings));
        match next {
            Some(next) => Phase::Terms(number, next),
            None => Phase::Field(number, 0, 0),
        }
    }

    fn field(&mut self, partition: &Partition, (number, field, place): (usize, usize, usize)) -> Phase {
        let Some(missing) = partition.missing(field) else { return Phase::Terms(number + 1, 0) };
        if let Some(tags) = partition.tags(field) {
            let (values, next) = tags.values(place, CHUNK);
            values.for_each(|postings| self.count(postings));
            if let Some(next) = next {
                return Phase::Field(number, field, next);
            }
            self.sizes.tag_bytes += tags.heap_bytes() as u64;
        }
        if let Some(numbers) = partition.numbers(field) {
            self.sizes.records += numbers.len() as u64;
            self.sizes.blocks += numbers.blocks() as u64;
            self.sizes.inverted_bytes += numbers.heap_bytes() as u64;
        }
        self.count(missing);
        Phase::Field(number, field + 1, 0)
    }

    fn finish(&mut self) -> Phase {
        let (index, sizes) = (&self.index, &mut self.sizes);
        if index.partitions() == 1 {
            sizes.terms = index.partition(0).map_or(0, |partition| partition.terms().len() as u64);
        }
        let rules = index.rules();
        sizes.vector_bytes = rules.vectors.iter().flatten().map(|vectors| vectors.heap_bytes() as u64).sum();
        sizes.text_bytes += rules.synonyms.heap_bytes() as u64;
        let share = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 / of as f64 };
        sizes.offsets_per_record = share(self.added.places, self.added.records);
        sizes.offset_bits = 8.0 * share(self.added.bytes, self.added.places);
        sizes.offset_bytes = (share(self.added.bytes, self.added.records) * sizes.records as f64) as u64;
        // The places stand within the entries.
        sizes.inverted_bytes = sizes.inverted_bytes.saturating_sub(sizes.offset_bytes);
        Phase::Done
    }

    /// The counts, once the last step is done.
    pub fn into_sizes(self) -> Sizes {
        self.sizes
    }
}

#[cfg(test)]
mod tests;
