//! One client's subscriptions.

use std::hash::RandomState;
use std::sync::Arc;

use hashbrown::HashSet;

use super::hub::Kind;

/// Names of channels, or patterns.
pub type Names = HashSet<Arc<[u8]>, RandomState>;

/// One client's subscriptions.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// SUBSCRIBE's channels.
    pub channels: Names,
    /// Patterns.
    pub patterns: Names,
    /// SSUBSCRIBE's channels.
    pub shards: Names,
}

impl Subscriptions {
    /// The names of one kind.
    pub fn of(&self, kind: Kind) -> &Names {
        match kind {
            Kind::Channel => &self.channels,
            Kind::Pattern => &self.patterns,
            Kind::Shard => &self.shards,
        }
    }

    pub(super) fn of_mut(&mut self, kind: Kind) -> &mut Names {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shards,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.patterns.is_empty() && self.shards.is_empty()
    }

    /// The number that confirmations tell: shard channels count apart from channels and patterns.
    pub(super) fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Shard => self.shards.len(),
            _ => self.channels.len() + self.patterns.len(),
        }
    }
}
