//! The nodes that this one asks as their client, and its connections to them, which are kept between
//! requests.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};

use martlet_base::clock::monotonic;
use martlet_base::sync::lock;
use martlet_client::blocking::Client;
use martlet_cluster::id::NodeId;
use martlet_cluster::machine::Cluster;
use martlet_cluster::slots::SlotSet;

use crate::network_threads::NetworkThreads;

/// Kept connections to a node.
const KEPT_MAX: usize = 8;
/// How long a kept connection may be unused.
const KEPT: Duration = Duration::from_secs(60);
/// Noted nodes whose definitions were added.
const ADDED_MAX: usize = 4096;

/// Another node, or this one.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its name.
    pub id: NodeId,
    /// Its address for clients.
    pub host: String,
    /// Its port for clients.
    pub port: u16,
    /// See [`fingerprint`].
    pub slots: u64,
    /// Whether it has slots.
    pub has_slots: bool,
    /// Whether it is this node.
    pub is_me: bool,
}

/// Why a node has not answered.
#[derive(Debug)]
pub enum Failure {
    /// It cannot be reached, or has gone.
    Unreachable(String),
    /// Not in time.
    TimedOut,
}

struct Kept {
    address: (String, u16),
    client: Client,
    since: Instant,
}

/// The threads that ask other nodes, and their connections.
#[derive(Default)]
pub struct Peers {
    /// The threads.
    pub threads: NetworkThreads,
    /// One of them compares the nodes' definitions of indexes.
    pub is_looking: AtomicBool,
    /// How often it was time to.
    pub looks: AtomicU32,
    /// Nodes whose definitions were added to the cluster's, with the digests.
    added: Mutex<HashSet<(NodeId, u64)>>,
    kept: Mutex<HashMap<NodeId, Vec<Kept>>>,
}

impl Peers {
    /// Notes that a node's definitions are to be added to the cluster's; false if they have been.
    pub fn notes_definitions(&self, peer: &Peer, digest: u64) -> bool {
        let mut added = lock(&self.added);
        if added.len() >= ADDED_MAX {
            added.clear();
        }
        added.insert((peer.id, digest))
    }

    pub(super) fn take(&self, peer: &Peer) -> Option<Client> {
        let mut all = lock(&self.kept);
        let kept = all.get_mut(&peer.id)?;
        kept.retain(|kept| kept.since.elapsed() < KEPT && kept.address == (peer.host.clone(), peer.port));
        kept.pop().map(|kept| kept.client)
    }

    pub(super) fn keep(&self, peer: &Peer, client: Client) {
        let mut all = lock(&self.kept);
        all.retain(|_, kept| {
            kept.retain(|kept| kept.since.elapsed() < KEPT);
            !kept.is_empty()
        });
        let kept = all.entry(peer.id).or_default();
        if kept.len() < KEPT_MAX {
            kept.push(Kept { address: (peer.host.clone(), peer.port), client, since: monotonic() });
        }
    }
}

/// A number that two sets of slots share if they are equal, and hardly otherwise.
pub fn fingerprint(slots: &SlotSet) -> u64 {
    // FNV-1a over the ranges.
    let mix = |hash: u64, number: u16| (hash ^ u64::from(number)).wrapping_mul(0x0100_0000_01b3);
    slots.ranges().into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, (first, last)| mix(mix(hash, first), last))
}

/// All primaries that this node knows and that have not failed; those with slots also if they have.
pub fn primaries(cluster: &Cluster, has_tls: bool) -> Vec<Peer> {
    let is_asked = |node: &martlet_cluster::machine::Node| {
        let has_slots = node.slot_count() > 0;
        node.is_primary() && !node.is_in_handshake() && (has_slots || !node.is_failed())
    };
    let peer = |(key, node): (_, &martlet_cluster::machine::Node)| {
        let (address, is_me) = (&node.address, key == cluster.my_key());
        // A node learns its own address from others.
        let host = if address.host.is_empty() { "127.0.0.1" } else { &address.host };
        Peer {
            id: node.id,
            host: host.to_owned(),
            port: if has_tls { address.tls_port } else { address.tcp_port },
            slots: fingerprint(node.slots()),
            has_slots: node.slot_count() > 0,
            is_me,
        }
    };
    cluster.nodes().filter(|(_, node)| is_asked(node)).map(peer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_tell_sets_apart() {
        let set = |slots: &[u16]| {
            let mut set = SlotSet::default();
            slots.iter().for_each(|slot| {
                set.insert(*slot);
            });
            fingerprint(&set)
        };
        assert_eq!(set(&[1, 2, 3]), set(&[3, 2, 1]));
        let all = [set(&[]), set(&[1]), set(&[1, 2]), set(&[1, 3]), set(&[2]), set(&[0]), set(&[1, 2, 3])];
        let distinct: std::collections::HashSet<u64> = all.into_iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
