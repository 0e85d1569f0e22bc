//! Connections that others have made to the bus: how many there may be, and how long each may be silent.
//!
//! Any host that reaches the port can connect, and a node speaks first: its PING or MEET follows at once. A
//! connection without a whole packet is a *stranger*. Invariant: there are at most [`STRANGERS_MAX`]
//! strangers and [`HEARD_MAX`] others; of too many, the one goes that has been silent for longest, so that a
//! node always gets in.

use std::collections::{HashMap, VecDeque};

use martlet_cluster::machine::LinkId;

/// Most connections without a whole packet.
const STRANGERS_MAX: usize = 256;
/// Most connections with one: some for each of the 1,000 nodes that a cluster may have.
const HEARD_MAX: usize = 4096;
/// How long the handshake of TLS and the first packet may take.
const FIRST_PACKET_MAX_MS: i64 = 10_000;
/// How long a connection may be silent at least; nodes send a ping twice within `cluster-node-timeout`.
const SILENCE_MIN_MS: i64 = 60_000;

/// See the [module docs](self). Times are the machine's monotonic ones, in milliseconds.
#[derive(Default)]
pub(super) struct Inbound {
    /// The oldest first, with the times at which they came.
    strangers: VecDeque<(LinkId, i64)>,
    /// Times of their last packets.
    heard_ms: HashMap<LinkId, i64>,
}

impl Inbound {
    /// A connection has come. Returns the one that has to go for it.
    pub fn accepted(&mut self, id: LinkId, now_ms: i64) -> Option<LinkId> {
        self.strangers.push_back((id, now_ms));
        let is_surplus = self.strangers.len() > STRANGERS_MAX;
        is_surplus.then(|| self.strangers.pop_front()).flatten().map(|(id, _)| id)
    }

    /// A packet has come over a connection, perhaps one that this node has made. Returns the one that has to
    /// go.
    pub fn heard(&mut self, id: LinkId, now_ms: i64) -> Option<LinkId> {
        if let Some(last_ms) = self.heard_ms.get_mut(&id) {
            *last_ms = now_ms;
            return None;
        }
        let place = self.strangers.iter().position(|(stranger, _)| *stranger == id)?;
        self.strangers.remove(place);
        self.heard_ms.insert(id, now_ms);
        if self.heard_ms.len() <= HEARD_MAX {
            return None;
        }
        let (&silent, _) = self.heard_ms.iter().min_by_key(|(id, last_ms)| (**last_ms, id.0))?;
        self.heard_ms.remove(&silent);
        Some(silent)
    }

    /// A connection is closed.
    pub fn closed(&mut self, id: LinkId) {
        self.strangers.retain(|(stranger, _)| *stranger != id);
        self.heard_ms.remove(&id);
    }

    /// Connections that have been silent for too long.
    pub fn overdue(&self, now_ms: i64, node_timeout_ms: u64) -> Vec<LinkId> {
        let silence_ms =
            i64::try_from(node_timeout_ms).unwrap_or(i64::MAX).saturating_mul(4).max(SILENCE_MIN_MS);
        let strangers =
            self.strangers.iter().take_while(|(_, came_ms)| now_ms - came_ms > FIRST_PACKET_MAX_MS);
        let silent = self.heard_ms.iter().filter(|(_, last_ms)| now_ms - **last_ms > silence_ms);
        strangers.map(|(id, _)| *id).chain(silent.map(|(id, _)| *id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_make_place_for_those_that_come_later() {
        let mut inbound = Inbound::default();
        assert!((0..STRANGERS_MAX as u64).all(|id| inbound.accepted(LinkId(id), 0).is_none()));
        assert_eq!(inbound.accepted(LinkId(1000), 1), Some(LinkId(0)));
        assert_eq!(inbound.heard(LinkId(1000), 2), None);
        // A node that has spoken stays, however many come.
        for id in 2000..4000 {
            assert_ne!(inbound.accepted(LinkId(id), 3), Some(LinkId(1000)));
        }
        assert_eq!(inbound.strangers.len(), STRANGERS_MAX);
    }

    #[test]
    fn the_longest_silent_goes_when_too_many_have_spoken() {
        let mut inbound = Inbound::default();
        for id in 0..HEARD_MAX as u64 {
            inbound.accepted(LinkId(id), 0);
            assert_eq!(inbound.heard(LinkId(id), 1 + id as i64), None);
        }
        assert_eq!(inbound.heard(LinkId(0), 9000), None);
        inbound.accepted(LinkId(9000), 9000);
        assert_eq!(inbound.heard(LinkId(9000), 9001), Some(LinkId(1)));
        assert_eq!(inbound.heard_ms.len(), HEARD_MAX);
    }

    #[test]
    fn silence_has_an_end_with_and_without_a_first_packet() {
        let mut inbound = Inbound::default();
        inbound.accepted(LinkId(1), 0);
        inbound.accepted(LinkId(2), 0);
        inbound.heard(LinkId(2), 5000);
        // One that this node has made is not counted.
        assert_eq!(inbound.heard(LinkId(3), 5000), None);
        assert_eq!(inbound.overdue(FIRST_PACKET_MAX_MS, 15_000), []);
        assert_eq!(inbound.overdue(FIRST_PACKET_MAX_MS + 1, 15_000), [LinkId(1)]);
        inbound.closed(LinkId(1));
        assert_eq!(inbound.overdue(5000 + SILENCE_MIN_MS, 15_000), []);
        assert_eq!(inbound.overdue(5001 + SILENCE_MIN_MS, 15_000), [LinkId(2)]);
        assert_eq!(inbound.overdue(5001 + SILENCE_MIN_MS, 30_000), []);
        assert_eq!(inbound.overdue(i64::MAX, u64::MAX), []);
        inbound.closed(LinkId(2));
        assert!(inbound.heard_ms.is_empty());
    }
}
