//! `Chunk`: a run of samples, most of them in blocks, the last ones plain.
//!
//! Invariant: timestamps ascend strictly; the plain tail holds at most [`BLOCK_SAMPLES`] samples, and at
//! least one if the chunk is open and has any, so that the last sample is never behind a decoder.

use martlet_base::prefetch::PrefetchQueue;
use martlet_types::size_class::allocated_bytes;

use crate::block::{BLOCK_SAMPLES, Block, PADDING_BYTES};
use crate::sample::Sample;

/// Decoded samples: one block's, or a tail's.
pub struct Batch {
    /// Timestamps, of which `len` are set.
    pub timestamps: [u64; BLOCK_SAMPLES],
    /// Values, of which `len` are set.
    pub values: [f64; BLOCK_SAMPLES],
    /// How many.
    pub len: usize,
}

impl Batch {
    /// Room for a block; about 2 KB.
    pub fn new() -> Batch {
        Batch { timestamps: [0; BLOCK_SAMPLES], values: [0.0; BLOCK_SAMPLES], len: 0 }
    }

    /// The samples in order.
    pub fn samples(&self) -> impl DoubleEndedIterator<Item = Sample> + ExactSizeIterator + '_ {
        let pairs = self.timestamps.iter().zip(&self.values).take(self.len);
        pairs.map(|(timestamp, value)| Sample { timestamp: *timestamp, value: *value })
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

/// See the [module docs](self).
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    blocks: Vec<Block>,
    bytes: Vec<u8>,
    tail: Vec<Sample>,
    len: u64,
    /// Bytes that the chunk may take in the saved form.
    pub capacity_bytes: u64,
}

impl Chunk {
    /// An empty chunk.
    pub fn new(capacity_bytes: u64) -> Chunk {
        Chunk { capacity_bytes, ..Chunk::default() }
    }

    /// A chunk of samples that ascend strictly; open, so that more can be appended.
    pub fn from_samples(samples: &[Sample], capacity_bytes: u64) -> Chunk {
        let mut chunk = Chunk::new(capacity_bytes);
        samples.iter().for_each(|sample| chunk.push(*sample));
        chunk
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first timestamp.
    pub fn first(&self) -> Option<u64> {
        let tail = || self.tail.first().map(|sample| sample.timestamp);
        self.blocks.first().map(|block| block.first).or_else(tail)
    }

    /// The last timestamp.
    pub fn last(&self) -> Option<u64> {
        let block = || self.blocks.last().map(|block| block.last);
        self.tail.last().map(|sample| sample.timestamp).or_else(block)
    }

    /// The last sample.
    pub fn last_sample(&self) -> Option<Sample> {
        self.tail.last().copied().or_else(|| {
            let mut batch = Batch::new();
            self.decode(self.blocks.len().checked_sub(1)?, &mut batch);
            batch.samples().next_back()
        })
    }

    /// Queues the lines of the last sample of the tail and of the place behind it.
    pub fn queue_end(&self, queue: &mut PrefetchQueue) {
        let last = self.tail.len().saturating_sub(1);
        queue.add_lines(self.tail.as_ptr().wrapping_add(last).cast(), 2 * size_of::<Sample>());
    }

    /// Appends a sample that is later than all others.
    #[inline]
    pub fn push(&mut self, sample: Sample) {
        if self.tail.len() == BLOCK_SAMPLES {
            self.pack_tail();
        }
        self.tail.push(sample);
        self.len += 1;
    }

    /// Replaces the value of the last sample of an open chunk.
    pub fn set_last_value(&mut self, value: f64) {
        if let Some(last) = self.tail.last_mut() {
            last.value = value;
        }
    }

    /// Ends appending: all samples in blocks, no memory unused.
    pub fn seal(&mut self) {
        if !self.tail.is_empty() {
            self.pack_tail();
        }
        self.tail = Vec::new();
        self.blocks.shrink_to_fit();
        self.bytes.shrink_to_fit();
    }

    /// Lets samples be appended to a sealed chunk.
    pub fn reopen(&mut self) {
        if self.tail.is_empty() && !self.blocks.is_empty() {
            *self = Chunk::from_samples(&self.to_samples(), self.capacity_bytes);
        }
    }

    fn pack_tail(&mut self) {
        // A chunk's bytes are bounded by its capacity, far below what an offset reaches.
        if let Some(block) = Block::encode(&self.tail, &mut self.bytes) {
            self.blocks.push(block);
            self.tail.clear();
        }
    }

    /// Parts that are decoded at once: blocks, and the tail if there is one.
    #[inline]
    pub fn part_count(&self) -> usize {
        self.blocks.len() + usize::from(!self.tail.is_empty())
    }

    /// First and last timestamp, and number of samples, of a part.
    #[inline]
    pub fn part_span(&self, part: usize) -> Option<(u64, u64, usize)> {
        if let Some(block) = self.blocks.get(part) {
            return Some((block.first, block.last, block.len()));
        }
        let (first, last) = (self.tail.first()?, self.tail.last()?);
        (part == self.blocks.len()).then_some((first.timestamp, last.timestamp, self.tail.len()))
    }

    /// The first part whose last timestamp is at least `from`.
    pub fn part_from(&self, from: u64) -> usize {
        self.blocks.partition_point(|block| block.last < from)
    }

    /// The number of parts whose first timestamp is at most `to`.
    pub fn parts_to(&self, to: u64) -> usize {
        let blocks = self.blocks.partition_point(|block| block.first <= to);
        let tail = self.tail.first().is_some_and(|sample| sample.timestamp <= to);
        blocks + usize::from(tail && blocks == self.blocks.len())
    }

    /// Decodes a part; an unknown one is empty.
    #[inline]
    pub fn decode(&self, part: usize, batch: &mut Batch) {
        self.decode_timestamps(part, batch);
        self.decode_values(part, batch);
    }

    /// Decodes the timestamps of a part, and sets the batch's length.
    #[inline]
    pub fn decode_timestamps(&self, part: usize, batch: &mut Batch) {
        if let Some(block) = self.blocks.get(part) {
            block.timestamps(&self.bytes, &mut batch.timestamps);
            batch.len = block.len();
            return;
        }
        batch.len = if part == self.blocks.len() { self.tail.len().min(BLOCK_SAMPLES) } else { 0 };
        for (slot, sample) in batch.timestamps.iter_mut().zip(&self.tail) {
            *slot = sample.timestamp;
        }
    }

    /// Decodes the values of a part, and sets the batch's length.
    #[inline]
    pub fn decode_values(&self, part: usize, batch: &mut Batch) {
        if let Some(block) = self.blocks.get(part) {
            block.values(&self.bytes, &mut batch.values);
            batch.len = block.len();
            return;
        }
        batch.len = if part == self.blocks.len() { self.tail.len().min(BLOCK_SAMPLES) } else { 0 };
        for (slot, sample) in batch.values.iter_mut().zip(&self.tail) {
            *slot = sample.value;
        }
    }

    /// All samples.
    pub fn to_samples(&self) -> Vec<Sample> {
        let mut samples = Vec::with_capacity(self.len as usize);
        let mut batch = Batch::new();
        for part in 0..self.part_count() {
            self.decode(part, &mut batch);
            samples.extend(batch.samples());
        }
        samples
    }

    /// Bytes that the allocator has given.
    pub fn heap_bytes(&self) -> usize {
        allocated_bytes(self.blocks.capacity() * size_of::<Block>())
            + allocated_bytes(self.bytes.capacity())
            + allocated_bytes(self.tail.capacity() * size_of::<Sample>())
    }

    /// Panics if an invariant is broken.
    #[cfg(test)]
    pub fn check(&self) {
        let samples = self.to_samples();
        assert_eq!(samples.len() as u64, self.len);
        assert!(samples.windows(2).all(|pair| pair[0].timestamp < pair[1].timestamp));
        assert_eq!(self.first(), samples.first().map(|sample| sample.timestamp));
        assert_eq!(self.last_sample(), samples.last().copied());
        assert!(self.tail.len() <= BLOCK_SAMPLES);
        assert!(self.bytes.is_empty() || self.bytes.ends_with(&[0; PADDING_BYTES]));
    }
}

const _: () = assert!(PADDING_BYTES >= size_of::<u64>());

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(count: u64) -> Vec<Sample> {
        (0..count).map(|index| Sample::new(index * 10, index as f64 / 4.0)).collect()
    }

    #[test]
    fn parts_cover_all_samples_open_and_sealed() {
        for count in [0, 1, 127, 128, 129, 300] {
            let samples = samples(count);
            let mut chunk = Chunk::from_samples(&samples, 4096);
            chunk.check();
            assert_eq!(chunk.to_samples(), samples);
            chunk.seal();
            chunk.check();
            assert_eq!(chunk.to_samples(), samples);
            let sealed_bytes = chunk.heap_bytes();
            chunk.reopen();
            chunk.check();
            assert!(count == 0 || chunk.heap_bytes() > sealed_bytes);
            assert_eq!(chunk.to_samples(), samples);
        }
    }

    #[test]
    fn parts_are_found_by_time() {
        let chunk = Chunk::from_samples(&samples(300), 4096);
        assert_eq!(chunk.part_count(), 3);
        for (time, from, to) in
            [(0, 0, 1), (1270, 0, 1), (1271, 1, 1), (1280, 1, 2), (2560, 2, 3), (9999, 2, 3)]
        {
            assert_eq!((chunk.part_from(time), chunk.parts_to(time)), (from, to), "{time}");
        }
        assert_eq!(chunk.part_span(2), Some((2560, 2990, 44)));
        assert_eq!(chunk.part_span(3), None);
    }
}
