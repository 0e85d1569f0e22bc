//! The index of streams with rare features: idempotency records, ordered by the time at which the next one is
//! dropped, and how many streams only newer versions of the RDB format can hold.
//!
//! Invariant: between commands the index holds exactly the features that the streams themselves record
//! ([`Stream::indexed`]), and those are their features. A change of a stream that may change its [`Features`]
//! is followed by [`Db::index_stream`].

use martlet_types::stream::{Features, Stream};

use crate::db::{Db, Key, key_hash};
use crate::entry::RawEntry;
use crate::expiry::ExpiryIndex;

/// See the [module docs](self).
#[derive(Default)]
pub(crate) struct StreamIndex {
    record_expiries: ExpiryIndex,
    counts: StreamCounts,
}

/// Numbers of streams with what not every version of the RDB format holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// With idempotency records, or limits for them of their own.
    pub with_idempotency: usize,
    /// With entries that are pending without a consumer.
    pub with_released: usize,
}

impl StreamIndex {
    fn change(&mut self, hash: u64, old: Features, new: Features) {
        if old.record_expiry_ms != new.record_expiry_ms {
            if let Some(at_ms) = old.record_expiry_ms {
                self.record_expiries.remove(at_ms, hash);
            }
            if let Some(at_ms) = new.record_expiry_ms {
                self.record_expiries.insert(at_ms, hash);
            }
        }
        let counts = &mut self.counts;
        for (count, was, is) in [
            (&mut counts.with_idempotency, old.has_idempotency, new.has_idempotency),
            (&mut counts.with_released, old.has_released, new.has_released),
        ] {
            *count = *count + usize::from(is) - usize::from(was);
        }
    }
}

impl Db {
    /// When the next idempotency record of a stream is to be forgotten.
    pub fn next_record_expiry_ms(&self) -> Option<i64> {
        self.figures.as_ref().and_then(|figures| figures.streams.record_expiries.next_ms())
    }

    /// See [`StreamCounts`].
    pub fn stream_counts(&self) -> StreamCounts {
        self.figures.as_ref().map_or_else(StreamCounts::default, |figures| figures.streams.counts)
    }

    /// Puts the key's stream in the index as it is now; when its next record is to be forgotten.
    pub fn index_stream(&mut self, key: &Key<'_>) -> Option<i64> {
        let entry = self.table.entry(self.spot(key)?);
        let stream = entry.object::<Stream>()?;
        let (old, new) = (stream.indexed(), stream.features());
        if old != new {
            self.figures_mut().streams.change(key.hash, old, new);
            stream.set_indexed(new);
        }
        new.record_expiry_ms
    }

    /// A key whose stream has records that are due by `now_ms`, as far as the index knows. It stays in the
    /// index until [`Db::index_stream`] is called.
    pub fn next_due_stream(&mut self, now_ms: i64) -> Option<Vec<u8>> {
        while let Some((at_ms, hash)) = self.figures.as_mut()?.streams.record_expiries.pop_due(now_ms) {
            let due = |entry: RawEntry| {
                entry
                    .object::<Stream>()
                    .is_some_and(|stream| stream.indexed().record_expiry_ms == Some(at_ms))
                    && key_hash(entry.key()) == hash
            };
            if let Some(spot) = self.table.find(hash, due) {
                self.figures_mut().streams.record_expiries.insert(at_ms, hash);
                return Some(self.table.entry(spot).key().to_vec());
            }
        }
        None
    }

    /// Puts an entry that comes into the table in the index if it is a stream.
    #[inline]
    pub(crate) fn note_stream(&mut self, key_hash: u64, entry: RawEntry) {
        if let Some(stream) = entry.object::<Stream>() {
            let features = stream.features();
            if features != Features::default() {
                self.figures_mut().streams.change(key_hash, Features::default(), features);
            }
            stream.set_indexed(features);
        }
    }

    /// Takes an entry that leaves the table out of the index.
    #[inline]
    pub(crate) fn forget_stream(&mut self, key_hash: u64, entry: RawEntry) {
        if let Some(stream) = entry.object::<Stream>()
            && stream.indexed() != Features::default()
        {
            self.figures_mut().streams.change(key_hash, stream.indexed(), Features::default());
            stream.set_indexed(Features::default());
        }
    }
}
