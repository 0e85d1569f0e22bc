//! `Series`: a time series: its samples, settings, labels, the rules that read it and the source that fills
//! it.
//!
//! A clone shares everything and costs the same for any size; the first write to either copies the head and
//! one chunk. Changes of other series are effects that the caller applies.
//!
//! Invariant: a series that has rules has no source. An operation that returns an error has changed nothing.

mod rules;
#[cfg(test)]
mod tests;

use std::ops::Deref;

use martlet_base::prefetch::{PrefetchQueue, Progress};
use martlet_types::size_class::allocated_bytes;
use triomphe::Arc;

use crate::error::Error;
use crate::rule::{Effect, Rule};
use crate::sample::{DuplicatePolicy, Sample};
use crate::store::{Encoding, Store, check_chunk_bytes};

/// The size of chunks unless it is given.
pub const CHUNK_BYTES_DEFAULT: u64 = 4096;

/// A label: its name and its value.
pub type Label = (Box<[u8]>, Box<[u8]>);

/// The labels of a series, which its copies and an index share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels(Option<Arc<[Label]>>);

impl Labels {
    /// A number that stands for these labels as long as one of their copies exists; 0 without any.
    pub fn stamp(&self) -> u64 {
        self.0.as_ref().map_or(0, |labels| labels[..].as_ptr() as u64)
    }

    fn heap_bytes(&self) -> usize {
        let bytes = |labels: &Arc<[Label]>| allocated_bytes(size_of::<usize>() + size_of_val(&labels[..]));
        self.0.as_ref().map_or(0, bytes)
    }
}

impl From<Vec<Label>> for Labels {
    fn from(labels: Vec<Label>) -> Labels {
        Labels((!labels.is_empty()).then(|| labels.into()))
    }
}

impl Deref for Labels {
    type Target = [Label];

    fn deref(&self) -> &[Label] {
        self.0.as_deref().unwrap_or_default()
    }
}

/// The settings of TS.CREATE and TS.ALTER.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How much older than the last sample a sample may be, in milliseconds; 0 for any age.
    pub retention_ms: u64,
    /// Bytes of a chunk in the saved form.
    pub chunk_bytes: u64,
    /// The policy for a sample whose timestamp is taken; without one, the caller's.
    pub policy: Option<DuplicatePolicy>,
    /// IGNORE: under the policy LAST a sample is dropped that is at most so many milliseconds after the last
    /// one and differs from it by at most that value.
    pub ignore_time_ms: u64,
    /// See `ignore_time_ms`.
    pub ignore_value: f64,
    /// Labels in the order in which they were given.
    pub labels: Labels,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            retention_ms: 0,
            chunk_bytes: CHUNK_BYTES_DEFAULT,
            policy: None,
            ignore_time_ms: 0,
            ignore_value: 0.0,
            labels: Labels::default(),
        }
    }
}

/// A label from its texts: neither is empty, and the value has no parenthesis or comma, which filters need.
pub fn label(name: &[u8], value: &[u8]) -> Result<Label, Error> {
    let is_right = !name.is_empty() && !value.is_empty() && !value.iter().any(|byte| b"(),".contains(byte));
    if is_right { Ok((name.into(), value.into())) } else { Err(Error::Labels) }
}

/// The outcome of a write.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// The timestamp to answer: the sample's, or the last one where the sample was dropped.
    pub timestamp: u64,
    /// False if IGNORE dropped the sample.
    pub is_stored: bool,
}

/// The facts of TS.INFO.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Samples that have not expired.
    pub total_samples: u64,
    /// The first timestamp that has not expired; 0 without samples.
    pub first_timestamp: u64,
    /// The last timestamp; 0 without samples.
    pub last_timestamp: u64,
    /// Number of chunks.
    pub chunk_count: usize,
    /// Bytes of a chunk in the saved form.
    pub chunk_bytes: u64,
    /// How chunks are saved.
    pub encoding: Encoding,
}

/// See the [module docs](self).
#[derive(Clone, Debug)]
pub struct Series {
    inner: Arc<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    store: Store,
    settings: Settings,
    rules: Vec<Rule>,
    source: Option<Box<[u8]>>,
}

impl Series {
    /// A series without samples.
    pub fn new(encoding: Encoding, settings: Settings) -> Result<Series, Error> {
        check_chunk_bytes(settings.chunk_bytes)?;
        Ok(Series::with_store(Store::new(encoding, settings.chunk_bytes), settings))
    }

    /// A series of samples that were saved.
    pub(crate) fn with_store(store: Store, settings: Settings) -> Series {
        Series { inner: Arc::new(Inner { store, settings, rules: Vec::new(), source: None }) }
    }

    /// One step of asking for memory ahead of a command that reads the last sample or appends one: the head,
    /// then where the last samples lie.
    pub fn queue_step(&self, step: usize, queue: &mut PrefetchQueue) -> Progress {
        if step == 0 {
            queue.add_all_lines(Arc::as_ptr(&self.inner));
            return Progress::More;
        }
        self.inner.store.queue_end(queue);
        Progress::Done
    }

    /// The settings of TS.CREATE and TS.ALTER.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Changes settings; chunks that exist keep their size (TS.ALTER).
    pub fn alter(&mut self, settings: Settings) -> Result<(), Error> {
        check_chunk_bytes(settings.chunk_bytes)?;
        let inner = self.inner_mut();
        inner.store.set_chunk_bytes(settings.chunk_bytes);
        inner.settings = settings;
        Ok(())
    }

    /// The samples.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The rules that read this series, in the order in which they were made.
    pub fn rules(&self) -> &[Rule] {
        &self.inner.rules
    }

    /// The key of the series that fills this one by a rule.
    pub fn source(&self) -> Option<&[u8]> {
        self.inner.source.as_deref()
    }

    /// Sets the source, where a rule was made, or it was renamed or removed.
    pub fn set_source(&mut self, source: Option<&[u8]>) {
        self.inner_mut().source = source.map(Into::into);
    }

    /// Gives up source and rules.
    pub fn cut_links(&mut self) {
        if self.source().is_some() || !self.rules().is_empty() {
            let inner = self.inner_mut();
            (inner.source, inner.rules) = (None, Vec::new());
        }
    }

    fn inner_mut(&mut self) -> &mut Inner {
        Arc::make_mut(&mut self.inner)
    }

    /// The last timestamp; 0 without samples.
    #[inline]
    pub fn last_timestamp(&self) -> u64 {
        self.last().map_or(0, |last| last.timestamp)
    }

    /// The last sample (TS.GET).
    #[inline]
    pub fn last(&self) -> Option<Sample> {
        self.inner.store.last()
    }

    /// The earliest timestamp that has not expired. Retention counts from the last sample, not from the
    /// clock, so that a series is never due by itself.
    pub fn oldest(&self) -> u64 {
        match self.inner.settings.retention_ms {
            0 => 0,
            retention => self.last_timestamp().saturating_sub(retention),
        }
    }

    /// Adds a sample (TS.ADD, TS.MADD). `given` is the command's own policy, `fallback` the server's. Effects
    /// are appended to `effects`.
    pub fn add(
        &mut self,
        sample: Sample,
        given: Option<DuplicatePolicy>,
        fallback: DuplicatePolicy,
        effects: &mut Vec<Effect>,
    ) -> Result<Added, Error> {
        let sample = Sample::new(sample.timestamp, sample.value);
        let settings = &self.inner.settings;
        let retention = settings.retention_ms;
        let policy = given.or(settings.policy).unwrap_or(fallback);
        if let Some(last) = self.last() {
            let age = last.timestamp.saturating_sub(sample.timestamp);
            if retention > 0 && age > retention {
                return Err(Error::OlderThanRetention);
            }
            if policy == DuplicatePolicy::Last && is_close(last, sample, settings) {
                return Ok(Added { timestamp: last.timestamp, is_stored: false });
            }
            if sample.timestamp <= last.timestamp {
                self.upsert(sample, policy, effects)?;
                return Ok(Added { timestamp: sample.timestamp, is_stored: true });
            }
        }
        self.append(sample, effects);
        Ok(Added { timestamp: sample.timestamp, is_stored: true })
    }

    fn append(&mut self, sample: Sample, effects: &mut Vec<Effect>) {
        // When a chunk is begun, those go that expired before: the sample that begins it counts afterwards.
        let oldest = self.oldest();
        let inner = self.inner_mut();
        if inner.store.append(sample) && inner.settings.retention_ms > 0 {
            inner.store.expire(oldest);
        }
        for rule in &mut inner.rules {
            if let Some(closed) = rule.feed(sample) {
                let destination = rule.destination.clone();
                effects.push(Effect { destination, action: crate::rule::Action::Close(closed) });
            }
        }
    }

    fn upsert(
        &mut self,
        sample: Sample,
        policy: DuplicatePolicy,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        // A refusal must not copy a shared head, so the policy is asked before.
        if policy == DuplicatePolicy::Block {
            let taken = self.inner.store.find(sample.timestamp, sample.timestamp, false);
            if taken.is_some() {
                return Err(Error::Duplicate);
            }
        }
        let stored = self.inner_mut().store.upsert(sample, policy)?;
        self.recompute(stored.timestamp, effects);
        Ok(())
    }

    /// Adds to the last value, or subtracts from it with a negative `by` (TS.INCRBY, TS.DECRBY).
    pub fn increment(&mut self, timestamp: u64, by: f64, effects: &mut Vec<Effect>) -> Result<Added, Error> {
        let last = self.last().unwrap_or_default();
        if timestamp < last.timestamp {
            return Err(Error::TimestampInPast);
        }
        if last.value.is_nan() {
            return Err(Error::IncrementOfNan);
        }
        let policy = DuplicatePolicy::Last;
        self.add(Sample::new(timestamp, last.value + by), Some(policy), policy, effects)
    }

    /// Removes the samples from `from` to `to`, both included: how many (TS.DEL).
    pub fn delete(&mut self, from: u64, to: u64, effects: &mut Vec<Effect>) -> Result<u64, Error> {
        self.check_delete(from)?;
        if from > to {
            return Ok(0);
        }
        let last = self.last_timestamp();
        let deleted = self.inner_mut().store.delete(from, to);
        self.recompute_deleted(from, to, last, effects);
        Ok(deleted)
    }

    /// A deletion must not reach into buckets of which samples have expired: they could not be computed
    /// again.
    fn check_delete(&self, from: u64) -> Result<(), Error> {
        let retention = self.inner.settings.retention_ms;
        let last = self.last_timestamp();
        if retention == 0 || self.inner.rules.is_empty() || last <= retention {
            return Ok(());
        }
        let starts = self.inner.rules.iter().map(|rule| rule.buckets.span(from).0);
        let earliest = starts.chain([from]).min().unwrap_or(from);
        if earliest < last - retention { Err(Error::DeleteBeyondRetention) } else { Ok(()) }
    }

    /// The facts of TS.INFO.
    pub fn info(&self) -> Info {
        let (store, oldest) = (&self.inner.store, self.oldest());
        Info {
            total_samples: store.total() - store.count_before(oldest),
            first_timestamp: store.find(oldest, u64::MAX, false).map_or(0, |sample| sample.timestamp),
            last_timestamp: self.last_timestamp(),
            chunk_count: store.chunk_count(),
            chunk_bytes: store.chunk_bytes(),
            encoding: store.encoding(),
        }
    }

    /// Bytes that the allocator has given, for all that clones share.
    pub fn heap_bytes(&self) -> usize {
        let inner = &*self.inner;
        let labels = &inner.settings.labels;
        let texts: usize = labels
            .iter()
            .map(|(name, value)| allocated_bytes(name.len()) + allocated_bytes(value.len()))
            .sum();
        allocated_bytes(size_of::<Inner>() + size_of::<usize>())
            + inner.store.heap_bytes()
            + labels.heap_bytes()
            + texts
            + allocated_bytes(inner.rules.capacity() * size_of::<Rule>())
            + inner.rules.iter().map(Rule::heap_bytes).sum::<usize>()
            + inner.source.as_ref().map_or(0, |source| allocated_bytes(source.len()))
    }

    /// Gives the series up, to be freed in slices.
    pub fn into_debris(self) -> Debris {
        Debris { series: Some(self) }
    }
}

fn is_close(last: Sample, sample: Sample, settings: &Settings) -> bool {
    sample.timestamp >= last.timestamp
        && sample.timestamp - last.timestamp <= settings.ignore_time_ms
        // NaN is close to nothing.
        && (sample.value - last.value).abs() <= settings.ignore_value
}

/// A series that is being freed.
pub struct Debris {
    series: Option<Series>,
}

impl Debris {
    /// Frees up to `budget` chunks; true when nothing is left. What clones share stays theirs.
    pub fn free_some(&mut self, budget: usize) -> bool {
        let Some(series) = &mut self.series else { return true };
        if !series.inner.is_unique() {
            self.series = None;
            return true;
        }
        let store = &mut series.inner_mut().store;
        let is_empty = (0..budget).any(|_| store.free_chunk().is_none());
        if is_empty {
            self.series = None;
        }
        is_empty
    }
}
