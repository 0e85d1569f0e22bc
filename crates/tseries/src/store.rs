//! `Store`: the samples of a series in chunks, which are cut exactly where RedisTimeSeries cuts them.
//!
//! Sealed chunks lie in a map in order of their first timestamps; the last chunk is open, and a [`Meter`]
//! counts the bits that it takes in the saved form, which decide when it is full. A clone shares the sealed
//! chunks and costs the same for any number of them; a write copies one chunk.
//!
//! Invariant: timestamps ascend strictly over all chunks, no sealed chunk is empty, and `total` counts the
//! samples.

use martlet_base::prefetch::PrefetchQueue;
use martlet_types::ordered::OrderedMap;
use triomphe::Arc;

use crate::chunk::{Batch, Chunk};
use crate::error::Error;
use crate::gorilla::Meter;
use crate::sample::{DuplicatePolicy, Sample};

/// Bytes of a sample in an uncompressed chunk.
pub const SAMPLE_BYTES: u64 = 16;
/// By how much a compressed chunk grows in the saved form when a sample in its middle does not fit.
const GROWTH_BYTES: u64 = 32;
/// The smallest chunk size.
pub const CHUNK_BYTES_MIN: u64 = 48;
/// The greatest chunk size.
pub const CHUNK_BYTES_MAX: u64 = 1 << 20;

/// How chunks are saved, which decides when they are full.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// A stream of bits.
    #[default]
    Compressed,
    /// 16 bytes a sample.
    Uncompressed,
}

/// See the [module docs](self).
#[derive(Clone, Debug)]
pub struct Store {
    sealed: OrderedMap<u64, Arc<Chunk>>,
    open: Chunk,
    /// The bits of the open chunk; of a compressed one only.
    meter: Meter,
    /// The same without its last sample, whose value is replaced more often than any other's.
    meter_before_last: Meter,
    total: u64,
    encoding: Encoding,
    chunk_bytes: u64,
}

/// Measures samples for a chunk of a size that grows as it must: the meters with and without the last sample,
/// and the size.
fn measure(samples: &[Sample], mut capacity_bytes: u64) -> (Meter, Meter, u64) {
    let (mut meter, mut before) = (Meter::default(), Meter::default());
    for sample in samples {
        before = meter;
        while !meter.push(*sample, capacity_bytes * 8) {
            capacity_bytes += GROWTH_BYTES;
        }
    }
    (meter, before, capacity_bytes)
}

/// The size to which a compressed chunk is trimmed after a split.
fn trimmed(capacity_bytes: u64, bits: u64) -> u64 {
    let excess = (capacity_bytes * 8).saturating_sub(bits) / 8;
    if excess <= 1 {
        return capacity_bytes;
    }
    let bytes = capacity_bytes - excess + 1;
    bytes + 8 - bytes % 8
}

impl Store {
    /// No samples. `chunk_bytes` is what [`check_chunk_bytes`] lets pass.
    pub fn new(encoding: Encoding, chunk_bytes: u64) -> Store {
        Store {
            sealed: OrderedMap::new(),
            open: Chunk::new(chunk_bytes),
            meter: Meter::default(),
            meter_before_last: Meter::default(),
            total: 0,
            encoding,
            chunk_bytes,
        }
    }

    /// How chunks are saved.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The size of chunks to come, in bytes of the saved form.
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// Changes the size of chunks to come.
    pub fn set_chunk_bytes(&mut self, chunk_bytes: u64) {
        self.chunk_bytes = chunk_bytes;
    }

    /// Number of samples.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Number of chunks; a series without samples has one.
    pub fn chunk_count(&self) -> usize {
        self.sealed.len() + 1
    }

    /// The last sample.
    pub fn last(&self) -> Option<Sample> {
        self.open.last_sample().or_else(|| self.sealed.last().and_then(|(_, chunk)| chunk.last_sample()))
    }

    /// Queues the lines of the last sample and the next one.
    pub fn queue_end(&self, queue: &mut PrefetchQueue) {
        self.open.queue_end(queue);
    }

    /// The chunks in order.
    pub fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.sealed.iter().map(|(_, chunk)| &**chunk).chain([&self.open])
    }

    /// Appends a sample that is later than all others. True if a chunk was begun.
    #[inline]
    pub fn append(&mut self, sample: Sample) -> bool {
        let fits = match self.encoding {
            Encoding::Compressed => {
                let before = self.meter;
                let fits = self.meter.push(sample, self.open.capacity_bytes * 8);
                if fits {
                    self.meter_before_last = before;
                }
                fits
            }
            Encoding::Uncompressed => self.open.len() < self.open.capacity_bytes / SAMPLE_BYTES,
        };
        if !fits {
            self.begin_chunk(sample);
        }
        self.open.push(sample);
        self.total += 1;
        !fits
    }

    #[cold]
    fn begin_chunk(&mut self, sample: Sample) {
        let full = std::mem::replace(&mut self.open, Chunk::new(self.chunk_bytes));
        self.insert_sealed(full);
        (self.meter, self.meter_before_last) = (Meter::default(), Meter::default());
        if self.encoding == Encoding::Compressed {
            self.meter.push(sample, 0);
        }
    }

    fn insert_sealed(&mut self, mut chunk: Chunk) {
        if let Some(first) = chunk.first() {
            chunk.seal();
            self.sealed.insert(first, Arc::new(chunk));
        }
    }

    /// Makes samples the open chunk, measured for a size that grows as it must.
    fn set_open(&mut self, samples: &[Sample], capacity_bytes: u64) {
        self.open = Chunk::from_samples(samples, capacity_bytes);
        if self.encoding == Encoding::Compressed {
            let (meter, before, capacity_bytes) = measure(samples, capacity_bytes);
            (self.meter, self.meter_before_last) = (meter, before);
            self.open.capacity_bytes = capacity_bytes;
        }
    }

    /// Puts a sample at a timestamp that is not later than the last one: the value that is stored, or
    /// [`Error::Duplicate`] if the policy refuses it, and nothing has changed.
    pub fn upsert(&mut self, sample: Sample, policy: DuplicatePolicy) -> Result<Sample, Error> {
        if let Some(last) = self.open.last_sample().filter(|last| last.timestamp == sample.timestamp) {
            let value = policy.resolve(last.value, sample.value).ok_or(Error::Duplicate)?;
            if !self.must_split(&self.open) {
                return Ok(self.replace_last(Sample::new(sample.timestamp, value)));
            }
        }
        let in_open =
            self.sealed.is_empty() || self.open.first().is_none_or(|first| sample.timestamp >= first);
        let (key, chunk) = match in_open {
            true => (None, &self.open),
            false => {
                let found = self.sealed.at_or_before(&sample.timestamp).or_else(|| self.sealed.first());
                let Some((key, chunk)) = found else { return Err(Error::Duplicate) };
                (Some(*key), &**chunk)
            }
        };
        let capacity_bytes = chunk.capacity_bytes;
        let splits = self.must_split(chunk) && chunk.len() > 1;
        let mut samples = chunk.to_samples();
        let old = if splits { samples.clone() } else { Vec::new() };
        let old_len = samples.len();
        let place = samples.partition_point(|other| other.timestamp < sample.timestamp);
        let mut stored = Sample::new(sample.timestamp, sample.value);
        match samples.get_mut(place).filter(|other| other.timestamp == sample.timestamp) {
            Some(other) => {
                let value = policy.resolve(other.value, sample.value).ok_or(Error::Duplicate)?;
                stored = Sample::new(sample.timestamp, value);
                *other = stored;
            }
            None => {
                samples.insert(place, stored);
                self.total += 1;
            }
        }
        if splits {
            // The cut is where it was before the sample came.
            let cut = old_len - old_len / 2;
            let is_new = samples.len() > old_len;
            let cut = (cut + usize::from(is_new && place <= cut)).min(samples.len());
            self.split_into(key, &samples, cut, &old, capacity_bytes);
        } else {
            let is_grown = samples.len() > old_len;
            self.replace_chunk(key, &samples, capacity_bytes, is_grown);
        }
        Ok(stored)
    }

    fn must_split(&self, chunk: &Chunk) -> bool {
        chunk.capacity_bytes as f64 > self.chunk_bytes as f64 * 1.2
    }

    fn replace_last(&mut self, sample: Sample) -> Sample {
        if self.encoding == Encoding::Compressed {
            let mut meter = self.meter_before_last;
            while !meter.push(sample, self.open.capacity_bytes * 8) {
                self.open.capacity_bytes += GROWTH_BYTES;
            }
            self.meter = meter;
        }
        self.open.set_last_value(sample.value);
        sample
    }

    /// Puts samples in the place of the chunk at `key`, the open one for `None`.
    fn replace_chunk(&mut self, key: Option<u64>, samples: &[Sample], capacity_bytes: u64, is_grown: bool) {
        let capacity_bytes = match self.encoding {
            Encoding::Compressed => capacity_bytes,
            // A full chunk grows by the sample.
            Encoding::Uncompressed if is_grown => capacity_bytes.max(samples.len() as u64 * SAMPLE_BYTES),
            Encoding::Uncompressed => capacity_bytes,
        };
        match key {
            None => self.set_open(samples, capacity_bytes),
            Some(key) => {
                self.sealed.remove(&key);
                let capacity_bytes = match self.encoding {
                    Encoding::Compressed => measure(samples, capacity_bytes).2,
                    Encoding::Uncompressed => capacity_bytes,
                };
                self.insert_sealed(Chunk::from_samples(samples, capacity_bytes));
            }
        }
    }

    /// As [`replace_chunk`](Store::replace_chunk), in two chunks. Their sizes are those of the halves of
    /// `old`, the samples before the change.
    fn split_into(
        &mut self,
        key: Option<u64>,
        samples: &[Sample],
        cut: usize,
        old: &[Sample],
        capacity_bytes: u64,
    ) {
        let (left, right) = samples.split_at(cut);
        let size = |half: &[Sample]| match self.encoding {
            Encoding::Uncompressed => half.len() as u64 * SAMPLE_BYTES,
            Encoding::Compressed => {
                let (meter, _, grown) = measure(half, capacity_bytes);
                trimmed(grown, meter.bits)
            }
        };
        let (old_left, old_right) = old.split_at(old.len() - old.len() / 2);
        let (left_bytes, right_bytes) = (size(old_left), size(old_right));
        self.replace_chunk(key, right, right_bytes, true);
        let left_bytes = match self.encoding {
            Encoding::Compressed => measure(left, left_bytes).2,
            Encoding::Uncompressed => left_bytes.max(left.len() as u64 * SAMPLE_BYTES),
        };
        self.insert_sealed(Chunk::from_samples(left, left_bytes));
    }

    /// Removes the samples from `from` to `to`, both included: how many.
    pub fn delete(&mut self, from: u64, to: u64) -> u64 {
        if from > to {
            return 0;
        }
        let mut deleted = 0;
        let start = self.sealed.at_or_before(&from).map_or(0, |(first, _)| *first);
        let touched: Vec<u64> =
            self.sealed.iter_from(&start).map(|(first, _)| *first).take_while(|first| *first <= to).collect();
        for key in touched {
            let Some(chunk) = self.sealed.get(&key) else { continue };
            let (Some(first), Some(last)) = (chunk.first(), chunk.last()) else { continue };
            if last < from {
                continue;
            }
            let (len, capacity_bytes) = (chunk.len(), chunk.capacity_bytes);
            if first >= from && last <= to {
                self.sealed.remove(&key);
                deleted += len;
                continue;
            }
            let kept = without(chunk, from, to);
            deleted += len - kept.len() as u64;
            self.replace_chunk(Some(key), &kept, capacity_bytes, false);
        }
        deleted += self.delete_in_open(from, to);
        self.total -= deleted;
        deleted
    }

    fn delete_in_open(&mut self, from: u64, to: u64) -> u64 {
        let (Some(first), Some(last)) = (self.open.first(), self.open.last()) else { return 0 };
        if first > to || last < from {
            return 0;
        }
        let kept = without(&self.open, from, to);
        let deleted = self.open.len() - kept.len() as u64;
        let last_sealed = self.sealed.last().map(|(first, chunk)| (*first, chunk.clone()));
        match last_sealed.filter(|_| kept.is_empty()) {
            Some((key, chunk)) => {
                self.sealed.remove(&key);
                self.set_open(&chunk.to_samples(), chunk.capacity_bytes);
            }
            None => self.set_open(&kept, self.open.capacity_bytes),
        }
        deleted
    }

    /// Drops the chunks whose last sample is before `oldest`, but for the open one.
    pub fn expire(&mut self, oldest: u64) {
        while let Some((first, chunk)) = self.sealed.first() {
            if chunk.last().is_none_or(|last| last >= oldest) {
                break;
            }
            let (first, len) = (*first, chunk.len());
            self.sealed.remove(&first);
            self.total -= len;
        }
    }

    /// Drops one sealed chunk, the first: how many samples it had. For freeing in slices.
    pub fn free_chunk(&mut self) -> Option<u64> {
        let (first, len) = self.sealed.first().map(|(first, chunk)| (*first, chunk.len()))?;
        self.sealed.remove(&first);
        self.total -= len;
        Some(len)
    }

    /// Appends a chunk that was saved, before any sample is appended. False if its samples are not later than
    /// all before.
    pub fn load_chunk(&mut self, samples: &[Sample], capacity_bytes: u64) -> bool {
        let ascends = samples.windows(2).all(|pair| pair[0].timestamp < pair[1].timestamp);
        let (last, first) = (self.open.last(), samples.first().map(|sample| sample.timestamp));
        if !ascends || (last.is_some() && first.is_some() && last >= first) {
            return false;
        }
        if first.is_some() || self.open.is_empty() {
            let empty = Chunk::new(self.chunk_bytes);
            let full = std::mem::replace(&mut self.open, empty);
            self.insert_sealed(full);
            self.set_open(samples, capacity_bytes);
            self.total += samples.len() as u64;
        }
        true
    }

    /// Walks the samples from `from` to `to`, both included.
    pub fn scan(&self, from: u64, to: u64, is_reverse: bool) -> Scan<'_> {
        Scan { store: self, chunk: None, part: 0, parts: 0, from, to, is_reverse, is_done: from > to }
    }

    /// The first sample from `from` to `to`, the last one if `is_reverse`.
    pub fn find(&self, from: u64, to: u64, is_reverse: bool) -> Option<Sample> {
        let mut batch = Batch::new();
        let part = self.scan(from, to, is_reverse).next()?;
        part.decode(&mut batch);
        let samples = &mut batch.samples().filter(|sample| (from..=to).contains(&sample.timestamp));
        if is_reverse { samples.next_back() } else { samples.next() }
    }

    /// Number of samples before a time.
    pub fn count_before(&self, time: u64) -> u64 {
        let Some(last) = time.checked_sub(1) else { return 0 };
        let mut batch = Batch::new();
        let mut count = 0;
        for part in self.scan(0, last, false) {
            if part.last <= last {
                count += part.len as u64;
            } else {
                part.decode(&mut batch);
                count += batch.samples().filter(|sample| sample.timestamp <= last).count() as u64;
            }
        }
        count
    }

    /// Bytes that the allocator has given, the store itself apart.
    pub fn heap_bytes(&self) -> usize {
        let chunk = martlet_types::size_class::allocated_bytes(size_of::<Chunk>() + size_of::<usize>());
        let sealed: usize = self.sealed.iter().map(|(_, sealed)| chunk + sealed.heap_bytes()).sum();
        self.sealed.heap_bytes() + sealed + self.open.heap_bytes()
    }

    /// Panics if an invariant is broken.
    #[cfg(test)]
    pub fn check(&self) {
        let mut last = None;
        let mut total = 0;
        for chunk in self.chunks() {
            chunk.check();
            for sample in chunk.to_samples() {
                assert!(last.is_none_or(|last| last < sample.timestamp));
                last = Some(sample.timestamp);
                total += 1;
            }
        }
        assert_eq!(total, self.total);
        for (first, chunk) in self.sealed.iter() {
            assert_eq!(chunk.first(), Some(*first));
        }
        if self.encoding == Encoding::Compressed {
            let (meter, before, bytes) = measure(&self.open.to_samples(), self.open.capacity_bytes);
            assert_eq!((meter, bytes), (self.meter, self.open.capacity_bytes));
            assert!(self.open.is_empty() || before == self.meter_before_last);
        }
    }
}

fn without(chunk: &Chunk, from: u64, to: u64) -> Vec<Sample> {
    let mut samples = chunk.to_samples();
    samples.retain(|sample| !(from..=to).contains(&sample.timestamp));
    samples
}

/// Whether a size of chunks is a multiple of 8 from [`CHUNK_BYTES_MIN`] to [`CHUNK_BYTES_MAX`].
pub fn check_chunk_bytes(chunk_bytes: u64) -> Result<u64, Error> {
    let is_right =
        (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&chunk_bytes) && chunk_bytes.is_multiple_of(8);
    if is_right { Ok(chunk_bytes) } else { Err(Error::ChunkSize) }
}

/// The parts of chunks that reach into a span of time, in order or from the last to the first.
pub struct Scan<'a> {
    store: &'a Store,
    /// The chunk, and its first timestamp; the open one's is `None`.
    chunk: Option<(Option<u64>, &'a Chunk)>,
    part: usize,
    parts: usize,
    from: u64,
    to: u64,
    is_reverse: bool,
    is_done: bool,
}

/// A block or a tail that a [`Scan`] has come to.
#[derive(Copy, Clone)]
pub struct Part<'a> {
    chunk: &'a Chunk,
    part: usize,
    /// The first timestamp.
    pub first: u64,
    /// The last timestamp.
    pub last: u64,
    /// Number of samples.
    pub len: usize,
}

impl Part<'_> {
    /// Decodes all of it, including samples outside the span.
    #[inline]
    pub fn decode(&self, batch: &mut Batch) {
        self.chunk.decode(self.part, batch);
    }

    /// Decodes the values only.
    #[inline]
    pub fn decode_values(&self, batch: &mut Batch) {
        self.chunk.decode_values(self.part, batch);
    }
}

impl<'a> Scan<'a> {
    /// The chunk after the current one, or the first in the span.
    fn advance(&mut self) -> Option<(Option<u64>, &'a Chunk)> {
        let store = self.store;
        let sealed =
            |found: Option<(&'a u64, &'a Arc<Chunk>)>| found.map(|(first, chunk)| (Some(*first), &**chunk));
        let open = (None, &store.open);
        match (self.chunk, self.is_reverse) {
            (None, false) => {
                let start = store.sealed.at_or_before(&self.from).map_or(self.from, |(first, _)| *first);
                sealed(store.sealed.iter_from(&start).next()).or(Some(open))
            }
            (Some((Some(first), _)), false) => {
                let next = first.checked_add(1).and_then(|next| store.sealed.iter_from(&next).next());
                sealed(next).or(Some(open))
            }
            (Some((None, _)), false) => None,
            (None, true) if store.open.first().is_some_and(|first| first <= self.to) => Some(open),
            (None | Some((None, _)), true) => sealed(store.sealed.at_or_before(&self.to)),
            (Some((Some(first), _)), true) => {
                sealed(first.checked_sub(1).and_then(|before| store.sealed.at_or_before(&before)))
            }
        }
    }
}

impl<'a> Iterator for Scan<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        while !self.is_done {
            if self.part == self.parts {
                let Some((first, chunk)) = self.advance() else { break };
                self.chunk = Some((first, chunk));
                (self.part, self.parts) = (chunk.part_from(self.from), chunk.parts_to(self.to));
                if self.part >= self.parts {
                    // Nothing of this chunk is in the span; none further on is, once its samples are outside.
                    self.parts = self.part;
                    self.is_done = match self.is_reverse {
                        true => chunk.last().is_some_and(|last| last < self.from),
                        false => chunk.first().is_some_and(|first| first > self.to),
                    };
                    continue;
                }
            }
            let (_, chunk) = self.chunk?;
            let part = match self.is_reverse {
                true => {
                    self.parts -= 1;
                    self.parts
                }
                false => {
                    self.part += 1;
                    self.part - 1
                }
            };
            let (first, last, len) = chunk.part_span(part)?;
            if last >= self.from && first <= self.to {
                return Some(Part { chunk, part, first, last, len });
            }
        }
        self.is_done = true;
        None
    }
}
