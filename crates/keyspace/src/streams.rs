//! The index of streams with rare features: idempotency records, ordered by the time at which the next one is
//! dropped, and how many streams only newer versions of the RDB format can hold.
//!
//! Invariant: between commands the index holds exactly the features that the streams themselves record
//! (`Stream::indexed`), and those are their features. A change of a stream that may change its [`Features`]
//! is followed by [`Db::index_stream`](crate::Db::index_stream).

use martlet_types::stream::Features;

use crate::expiry::ExpiryIndex;

/// See the [module docs](self).
#[derive(Default)]
pub(crate) struct StreamIndex {
    pub(crate) record_expiries: ExpiryIndex,
    pub(crate) counts: StreamCounts,
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
    pub(crate) fn change(&mut self, hash: u64, old: Features, new: Features) {
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
