//! What a database knows of its streams: see [`StreamIndex`](crate::streams::StreamIndex).

use martlet_types::stream::{Features, Stream};

use super::{Db, Key, key_hash};
use crate::entry::RawEntry;
use crate::streams::StreamCounts;

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
