//! `Stream`: a Redis stream: entries in order of their ids, and the consumer groups that read them.
//!
//! Entries lie together in nodes ([`node`]), which a map in order of ids finds; trimming by whole nodes
//! follows Redis' rules for when a node is full, so its outcome is the same. A clone shares all of it and
//! costs the same for any size; writes to either copy copy the touched parts.
//!
//! Invariant: ids ascend and are not above the last id; `len` counts the entries; no node is empty.

mod group;
mod id;
mod idempotency;
mod log;
mod node;
#[cfg(test)]
mod tests;

use std::fmt;

use triomphe::Arc;

pub use group::{Consumer, Group, Pending};
pub use id::Id;
pub use idempotency::{Idempotency, IdempotencyLimits};
pub use log::{Log, NODE_BYTES_MAX, NodeView, Range, RangeBack, StreamLimits, Trim};
pub use node::{Entry, Fields};

use crate::ordered::{self, OrderedMap};

/// What removing an entry has to do with groups to which it is still to be delivered, or that wait for its
/// acknowledgement.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum References {
    /// Nothing (`KEEPREF`).
    #[default]
    Keep,
    /// No group waits for its acknowledgement any more (`DELREF`).
    Delete,
    /// It stays if there is such a group (`ACKED`).
    Acked,
}

/// See the [module docs](self).
#[derive(Clone)]
pub struct Stream {
    inner: Arc<Inner>,
}

#[derive(Clone, Default)]
struct Inner {
    log: Log,
    groups: Groups,
    idempotency_limits: IdempotencyLimits,
    /// There once the stream's own limits were set, or a producer has named an entry.
    idempotency: Option<Box<Idempotency>>,
    indexed: Features,
    /// An entry of a group may be pending without a consumer: asking all groups costs time.
    may_have_released: bool,
}

/// What of a stream the keyspace keeps an index of.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// When the next idempotency record is to be forgotten, Unix milliseconds.
    pub record_expiry_ms: Option<i64>,
    /// It has its own limits for such records, or has had records.
    pub has_idempotency: bool,
    /// Entries of a group are pending without a consumer.
    pub has_released: bool,
}

impl Stream {
    /// A stream without entries or groups.
    pub fn new() -> Stream {
        Stream { inner: Arc::new(Inner::default()) }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.inner.log.len() as usize
    }

    /// Whether there is no entry; such a stream may stay, unlike other collections.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What OBJECT ENCODING answers.
    pub fn encoding(&self) -> &'static str {
        "stream"
    }

    /// Bytes that the allocator gave for the stream, about.
    pub fn heap_bytes(&self) -> usize {
        let groups = self.groups().map(|(name, group)| name.len() + group.heap_bytes()).sum::<usize>();
        let idempotency = self.idempotency().map_or(0, |of| size_of::<Idempotency>() + of.heap_bytes());
        size_of::<Inner>()
            + self.inner.log.heap_bytes()
            + self.inner.groups.heap_bytes()
            + groups
            + idempotency
    }

    /// For how long, and how much of each producer is remembered.
    pub fn idempotency_limits(&self) -> IdempotencyLimits {
        self.inner.idempotency_limits
    }

    /// The producers' named additions, if names were ever used.
    pub fn idempotency(&self) -> Option<&Idempotency> {
        self.inner.idempotency.as_deref()
    }

    /// The same, to be changed.
    pub fn idempotency_mut(&mut self) -> &mut Idempotency {
        Arc::make_mut(&mut self.inner).idempotency.get_or_insert_default()
    }

    /// Gives a stream that has just been made the limits that are configured.
    pub fn set_default_idempotency_limits(&mut self, limits: IdempotencyLimits) {
        if self.inner.idempotency_limits != limits {
            Arc::make_mut(&mut self.inner).idempotency_limits = limits;
        }
    }

    /// Gives the stream its own limits. All records are dropped if these differ from the present ones.
    pub fn set_idempotency_limits(&mut self, limits: IdempotencyLimits) -> bool {
        let differ = self.inner.idempotency_limits != limits;
        if differ {
            let inner = Arc::make_mut(&mut self.inner);
            inner.idempotency_limits = limits;
            inner.idempotency.get_or_insert_default().clear();
        }
        differ
    }

    /// The last millisecond whose entries' records are too old at a time.
    pub fn records_expired_until(&self, now_ms: i64) -> Option<u64> {
        let age_ms = i64::from(self.inner.idempotency_limits.duration_s) * 1000;
        u64::try_from(now_ms.saturating_sub(age_ms)).ok()
    }

    /// What there is of it to be indexed now.
    pub fn features(&self) -> Features {
        let age_ms = u64::from(self.inner.idempotency_limits.duration_s) * 1000;
        let first_ms = self.idempotency().and_then(Idempotency::first_ms);
        let expiry_ms = first_ms.map(|ms| i64::try_from(ms.saturating_add(age_ms)).unwrap_or(i64::MAX));
        Features {
            record_expiry_ms: expiry_ms,
            has_idempotency: self.idempotency().is_some(),
            has_released: self.inner.may_have_released
                && self.groups().any(|(_, group)| group.released_count() > 0),
        }
    }

    /// The features in the keyspace's index.
    #[inline]
    pub fn indexed(&self) -> Features {
        self.inner.indexed
    }

    /// Whether those are its features now.
    #[inline]
    pub fn is_indexed(&self) -> bool {
        match (&self.inner.idempotency, self.inner.may_have_released) {
            (None, false) => self.inner.indexed == Features::default(),
            _ => self.features() == self.inner.indexed,
        }
    }

    /// Records the features in the keyspace's index.
    pub fn set_indexed(&mut self, features: Features) {
        if self.inner.indexed != features || self.inner.may_have_released != features.has_released {
            let inner = Arc::make_mut(&mut self.inner);
            (inner.indexed, inner.may_have_released) = (features, features.has_released);
        }
    }

    /// To be called before an entry of a group is released.
    pub fn expect_released(&mut self) {
        Arc::make_mut(&mut self.inner).may_have_released = true;
    }

    /// The entries.
    #[inline]
    pub fn log(&self) -> &Log {
        &self.inner.log
    }

    /// The entries, to be changed.
    #[inline]
    pub fn log_mut(&mut self) -> &mut Log {
        &mut Arc::make_mut(&mut self.inner).log
    }

    /// Number of groups.
    pub fn group_count(&self) -> usize {
        self.inner.groups.len()
    }

    /// Names and groups, in order of names.
    pub fn groups(&self) -> impl Iterator<Item = (&[u8], &Group)> {
        let groups: ordered::Iter<'_, Box<[u8]>, Group> = self.inner.groups.iter();
        groups.map(|(name, group)| (&**name, group))
    }

    /// The group of this name.
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.inner.groups.get(name)
    }

    /// The entries, and the group of this name to be changed.
    pub fn group_mut(&mut self, name: &[u8]) -> Option<(&Log, &mut Group)> {
        self.group(name)?;
        let inner = Arc::make_mut(&mut self.inner);
        inner.groups.get_mut(name).map(|group| (&inner.log, group))
    }

    /// Adds a group; whether there was none of this name.
    pub fn add_group(&mut self, name: &[u8], group: Group) -> bool {
        if self.group(name).is_some() {
            return false;
        }
        let inner = Arc::make_mut(&mut self.inner);
        inner.may_have_released |= group.released_count() > 0;
        inner.groups.insert(name.into(), group);
        true
    }

    /// Whether a group has still to get this id, or waits for its acknowledgement.
    pub fn is_referenced(&self, id: Id) -> bool {
        is_referenced(&self.inner.groups, id)
    }

    /// Acknowledges an id in all groups; whether it was pending in any.
    pub fn delete_references(&mut self, id: Id) -> bool {
        let is_pending = self.groups().any(|(_, group)| group.pending(id).is_some());
        is_pending && delete_references(&mut Arc::make_mut(&mut self.inner).groups, id)
    }

    /// Removes the first entries, but those that have to stay; how many, and the lowest id behind those that
    /// were looked at. [`Log::trim`] is for where references are kept: it removes whole nodes.
    pub fn trim_by_references(&mut self, trim: Trim, limit: u64, references: References) -> (u64, Id) {
        let Inner { log, groups, .. } = Arc::make_mut(&mut self.inner);
        log.trim_some(trim, limit, |id| match references {
            References::Keep => true,
            References::Delete => {
                delete_references(groups, id);
                true
            }
            References::Acked => !is_referenced(groups, id),
        })
    }

    /// Removes a group; whether there was one.
    pub fn remove_group(&mut self, name: &[u8]) -> bool {
        self.group(name).is_some() && Arc::make_mut(&mut self.inner).groups.remove(name).is_some()
    }
}

type Groups = OrderedMap<Box<[u8]>, Group>;

fn is_referenced(groups: &Groups, id: Id) -> bool {
    groups.iter().any(|(_, group)| group.last_id < id || group.pending(id).is_some())
}

fn delete_references(groups: &mut Groups, id: Id) -> bool {
    let with_it = groups.iter().filter(|(_, group)| group.pending(id).is_some());
    let names: Vec<Box<[u8]>> = with_it.map(|(name, _)| name.clone()).collect();
    for name in &names {
        if let Some(group) = groups.get_mut(name) {
            group.acknowledge(id);
        }
    }
    !names.is_empty()
}

impl Default for Stream {
    fn default() -> Stream {
        Stream::new()
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: Vec<(&[u8], &Group)> = self.groups().collect();
        f.debug_struct("Stream")
            .field("log", self.log())
            .field("groups", &groups)
            .field("idempotency", &(self.idempotency_limits(), self.idempotency()))
            .finish()
    }
}
