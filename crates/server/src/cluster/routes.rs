//! The node that answers for each slot, as requests are checked against it: a table that is built of the bus'
//! state, published as a whole, and never changed.
//!
//! Invariant: another table is published only behind the closed gate. So a thread that is inside sees one
//! table from the check of a request to its end, and the check under a shard's lock concerns the present keys
//! of an open slot, nothing else.

use std::collections::BTreeMap;

use martlet_cluster::machine::Cluster;
use martlet_cluster::node::{Address, Announced};
use martlet_cluster::slots::SLOTS;

use super::peers::fingerprint;
use crate::config::{ClusterPreferredEndpointType, Config};

/// The place of this node in the table's list.
const MYSELF: u16 = 0;
/// In place of a slot's owner: none.
const NOBODY: u16 = u16::MAX;

/// Where a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    address: Address,
    announced: Announced,
}

/// See the [module docs](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// Of each slot.
    owners: Vec<u16>,
    /// Slots of this shard that go to another.
    migrating: BTreeMap<u16, u16>,
    /// Slots that come here from another.
    importing: BTreeMap<u16, u16>,
    /// This node, then all others.
    places: Vec<Place>,
    /// Whose replica this node is.
    primary: Option<u16>,
    is_replica: bool,
    is_down: bool,
    /// The fingerprint of this node's slots; see [`fingerprint`].
    own_slots: u64,
    /// Whether all slots are this node's.
    has_all_slots: bool,
    /// A bit per slot: see [`Routes::is_served`].
    served: [u64; SLOTS as usize / 64],
}

/// The parts of a request that decide which node answers.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The slot of its keys; `None` if it has none.
    pub slot: Option<u16>,
    /// Its keys are of several slots.
    pub crosses_slots: bool,
    /// It names more than one key.
    pub has_several: bool,
    /// Keys that are there, and keys that are not: asked for only where the slot is open.
    pub existing: usize,
    /// Keys that are not here.
    pub missing: usize,
    /// It writes.
    pub writes: bool,
    /// It is about shard channels.
    pub is_sharded_pubsub: bool,
    /// It moves keys between nodes.
    pub moves_keys: bool,
    /// The client has said ASKING, or the command implies it.
    pub is_asking: bool,
    /// The client has said READONLY.
    pub is_readonly: bool,
}

/// Why a request is not run here.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// Keys of several slots.
    CrossSlot,
    /// Keys of a slot under way, some here and some there.
    TryAgain,
    /// The slot has no owner.
    Unbound,
    /// The cluster is down.
    Down,
    /// The cluster is down, and the request writes.
    DownForWrites,
    /// The slot is that node's.
    Moved(u16, u16),
    /// The key is at that node already, or is to be created there.
    Ask(u16, u16),
}

/// The client to redirect.
#[derive(Copy, Clone, Debug, Default)]
pub struct Client {
    /// It came by TLS.
    pub has_tls: bool,
    /// It came by IPv6.
    pub is_ipv6: bool,
}

impl Routes {
    /// The table of the bus' knowledge.
    pub fn new(cluster: &Cluster) -> Routes {
        let me = cluster.my_key();
        let others = cluster.nodes().filter(|(key, _)| *key != me);
        let nodes: Vec<_> = std::iter::once((me, cluster.myself())).chain(others).collect();
        let by_key: BTreeMap<_, u16> = nodes.iter().zip(0..NOBODY).map(|((key, _), at)| (*key, at)).collect();
        let place = |key| by_key.get(&key).copied().unwrap_or(NOBODY);
        let mut owners = vec![NOBODY; usize::from(SLOTS)];
        for ((_, node), at) in nodes.iter().zip(0..NOBODY) {
            for (first, last) in node.slots().ranges() {
                owners[usize::from(first)..=usize::from(last)].fill(at);
            }
        }
        let routes = Routes {
            owners,
            migrating: cluster.migrating().map(|(slot, to)| (slot, place(to))).collect(),
            importing: cluster.importing().map(|(slot, from)| (slot, place(from))).collect(),
            places: nodes
                .iter()
                .map(|(_, node)| Place { address: node.address.clone(), announced: node.announced.clone() })
                .collect(),
            primary: cluster.myself().primary.map(place),
            is_replica: cluster.myself().is_replica(),
            is_down: cluster.is_down(),
            own_slots: fingerprint(cluster.myself().slots()),
            has_all_slots: cluster.myself().slot_count() == usize::from(SLOTS),
            served: [0; _],
        };
        routes.with_served()
    }

    /// The table, once it is known which slots are served in any case.
    fn with_served(mut self) -> Routes {
        let serves = !self.is_down && !self.has_open_slots();
        for (owners, bits) in self.owners.chunks(64).zip(&mut self.served) {
            let is_mine = |at: &usize| serves && owners[*at] == MYSELF;
            *bits = (0..owners.len()).filter(is_mine).fold(0, |bits, at| bits | 1 << at);
        }
        self
    }

    fn owner(&self, slot: u16) -> u16 {
        self.owners.get(usize::from(slot)).copied().unwrap_or(NOBODY)
    }

    /// Whether every request about a slot is run here, without another look.
    #[inline]
    pub fn is_served(&self, slot: u16) -> bool {
        self.served.get(usize::from(slot / 64)).is_some_and(|bits| bits >> (slot % 64) & 1 == 1)
    }

    /// Whether slots are under way, from here or to here.
    #[inline]
    pub fn has_open_slots(&self) -> bool {
        !self.migrating.is_empty() || !self.importing.is_empty()
    }

    /// Whether a slot is: then it matters which keys are there.
    pub fn is_open(&self, slot: u16) -> bool {
        self.is_migrating(slot) || self.importing.contains_key(&slot)
    }

    fn is_migrating(&self, slot: u16) -> bool {
        self.migrates_to(slot).is_some()
    }

    /// The node that a slot of this shard goes to, key by key.
    pub fn migrates_to(&self, slot: u16) -> Option<u16> {
        self.migrating.get(&slot).copied().filter(|_| self.is_shards(slot))
    }

    /// The last of the slots from this one on that its owner has without a gap.
    pub fn last_with_owner(&self, slot: u16) -> u16 {
        let owner = self.owner(slot);
        (slot..SLOTS).take_while(|other| self.owner(*other) == owner).last().unwrap_or(slot)
    }

    /// The fingerprint of this node's slots.
    pub fn own_slots(&self) -> u64 {
        self.own_slots
    }

    /// Whether all slots are this node's.
    pub fn has_all_slots(&self) -> bool {
        self.has_all_slots
    }

    /// Whether a slot has an owner.
    pub fn has_owners(&self) -> bool {
        self.owners.iter().any(|owner| *owner != NOBODY)
    }

    /// Whether this node orders the changes that concern all nodes, as the owner of the first slot that has
    /// one.
    pub fn leads(&self) -> bool {
        self.owners.iter().find(|owner| **owner != NOBODY).is_some_and(|owner| *owner == MYSELF)
    }

    /// Why a request that concerns all slots is not run, if it is not.
    ///
    /// # Errors
    /// The cluster is down.
    pub fn serves_all(&self, writes: bool, config: &Config) -> Result<(), Redirect> {
        match (self.is_down, config.cluster_allow_reads_when_down, writes) {
            (false, ..) | (true, true, false) => Ok(()),
            (true, true, true) => Err(Redirect::DownForWrites),
            (true, false, _) => Err(Redirect::Down),
        }
    }

    /// Whether a slot is this node's.
    pub fn is_mine(&self, slot: u16) -> bool {
        self.owner(slot) == MYSELF
    }

    /// Whether a slot is this shard's: this node's, or its primary's.
    pub fn is_shards(&self, slot: u16) -> bool {
        let owner = self.owner(slot);
        owner == MYSELF || owner != NOBODY && Some(owner) == self.primary
    }

    /// Slots that were announced as used here, or are, and have another owner than before.
    pub fn reowned(&self, before: &Routes) -> Vec<u16> {
        let is_same = self.owners == before.owners && self.primary == before.primary;
        let owner = |routes: &Routes, slot| (routes.is_mine(slot), routes.is_shards(slot));
        let slots = if is_same { 0..0 } else { 0..SLOTS };
        slots.filter(|slot| owner(self, *slot) != owner(before, *slot)).collect()
    }

    /// Whether the request is to be run here.
    ///
    /// # Errors
    /// Why not.
    pub fn decide(&self, wanted: &Wanted, config: &Config) -> Result<(), Redirect> {
        let Some(slot) = wanted.slot else { return Ok(()) };
        let owner = self.owner(slot);
        if owner == NOBODY {
            return Err(Redirect::Unbound);
        }
        if wanted.crosses_slots {
            return Err(Redirect::CrossSlot);
        }
        self.serves_while_down(wanted, config)?;
        let is_importing = self.importing.contains_key(&slot);
        if self.is_open(slot) && wanted.moves_keys {
            return Ok(());
        }
        let may_read_here = wanted.is_readonly || wanted.is_sharded_pubsub;
        let reads_replica = may_read_here && !wanted.writes && self.is_replica && self.is_shards(slot);
        let is_served = owner == MYSELF || reads_replica;
        if is_served && self.is_migrating(slot) && wanted.missing > 0 {
            return Err(match (wanted.existing, self.migrating.get(&slot)) {
                (0, Some(to)) => Redirect::Ask(slot, *to),
                _ => Redirect::TryAgain,
            });
        }
        if is_importing && wanted.is_asking {
            return if wanted.has_several && wanted.missing > 0 { Err(Redirect::TryAgain) } else { Ok(()) };
        }
        if is_served { Ok(()) } else { Err(Redirect::Moved(slot, owner)) }
    }

    fn serves_while_down(&self, wanted: &Wanted, config: &Config) -> Result<(), Redirect> {
        let serves = match (wanted.is_sharded_pubsub, config.cluster_allow_reads_when_down) {
            _ if !self.is_down => true,
            (true, _) => config.cluster_allow_pubsubshard_when_down,
            (false, true) if wanted.writes => return Err(Redirect::DownForWrites),
            (false, allows_reads) => allows_reads,
        };
        if serves { Ok(()) } else { Err(Redirect::Down) }
    }

    /// Whether a client that waits for keys of a slot may continue.
    ///
    /// # Errors
    /// Why not.
    pub fn lets_wait(&self, slot: u16, is_reader: bool) -> Result<(), Redirect> {
        let owner = self.owner(slot);
        if self.is_down {
            return Err(Redirect::Down);
        }
        if owner == MYSELF || self.importing.contains_key(&slot) {
            return Ok(());
        }
        match owner {
            NOBODY => Err(Redirect::Unbound),
            _ if is_reader && self.is_replica && self.is_shards(slot) => Ok(()),
            _ => Err(Redirect::Moved(slot, owner)),
        }
    }

    /// The error for a client.
    pub fn text(&self, redirect: Redirect, client: Client, config: &Config) -> String {
        match redirect {
            Redirect::CrossSlot => "CROSSSLOT Keys in request don't hash to the same slot".into(),
            Redirect::TryAgain => "TRYAGAIN Multiple keys request during rehashing of slot".into(),
            Redirect::Unbound => "CLUSTERDOWN Hash slot not served".into(),
            Redirect::Down => "CLUSTERDOWN The cluster is down".into(),
            Redirect::DownForWrites => {
                "CLUSTERDOWN The cluster is down and only accepts read commands".into()
            }
            Redirect::Moved(slot, to) => format!("MOVED {slot} {}", self.endpoint(to, client, config)),
            Redirect::Ask(slot, to) => format!("ASK {slot} {}", self.endpoint(to, client, config)),
        }
    }

    fn endpoint(&self, to: u16, client: Client, config: &Config) -> String {
        let Some(Place { address, announced }) = self.places.get(usize::from(to)) else {
            return ":0".into();
        };
        let host = match config.cluster_preferred_endpoint_type {
            ClusterPreferredEndpointType::Ip => announced.client_host(address, client.is_ipv6),
            ClusterPreferredEndpointType::Hostname if announced.host_name.is_empty() => "?",
            ClusterPreferredEndpointType::Hostname => &announced.host_name,
            ClusterPreferredEndpointType::UnknownEndpoint => "",
        };
        format!("{host}:{}", announced.client_port(address, client.has_tls))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This node has slots 0 to 9, of which 5 goes to the other; that has 10 to 19, of which 15 comes here.
    fn routes() -> Routes {
        let mut owners = vec![NOBODY; usize::from(SLOTS)];
        owners[..10].fill(MYSELF);
        owners[10..20].fill(1);
        let place = |host: &str| Place {
            address: Address { host: host.into(), tcp_port: 6379, tls_port: 6380, bus_port: 16_379 },
            announced: Announced::default(),
        };
        Routes {
            owners,
            migrating: [(5, 1)].into(),
            importing: [(15, 1)].into(),
            places: vec![place("10.0.0.1"), place("10.0.0.2")],
            primary: None,
            is_replica: false,
            is_down: false,
            own_slots: 0,
            has_all_slots: false,
            served: [0; _],
        }
    }

    #[test]
    fn slots_are_served_without_another_look_while_nothing_is_under_way() {
        let served = |routes: Routes| {
            let routes = routes.with_served();
            (0..u16::MAX).filter(|slot| routes.is_served(*slot)).collect::<Vec<_>>()
        };
        let whole = || Routes { migrating: [].into(), importing: [].into(), ..routes() };
        assert_eq!(served(whole()), (0..10).collect::<Vec<_>>());
        assert!(served(Routes { is_down: true, ..whole() }).is_empty());
        assert!(served(Routes { migrating: [(5, 1)].into(), ..whole() }).is_empty());
        assert!(served(Routes { importing: [(15, 1)].into(), ..whole() }).is_empty());
        let mut last = whole();
        last.owners[usize::from(SLOTS) - 1] = MYSELF;
        assert_eq!(served(last).last(), Some(&(SLOTS - 1)));
    }

    fn wanted(slot: u16) -> Wanted {
        Wanted { slot: Some(slot), ..Wanted::default() }
    }

    #[test]
    fn requests_go_to_the_owner_of_their_slot() {
        let (routes, config) = (routes(), Config::default());
        let decide = |wanted: Wanted| routes.decide(&wanted, &config);
        assert_eq!(decide(Wanted::default()), Ok(()));
        assert_eq!(decide(wanted(3)), Ok(()));
        assert_eq!(decide(wanted(12)), Err(Redirect::Moved(12, 1)));
        assert_eq!(decide(wanted(99)), Err(Redirect::Unbound));
        assert_eq!(decide(Wanted { crosses_slots: true, ..wanted(3) }), Err(Redirect::CrossSlot));
        let text = |redirect, client| routes.text(redirect, client, &config);
        assert_eq!(text(Redirect::Moved(12, 1), Client::default()), "MOVED 12 10.0.0.2:6379");
        let by_tls = Client { has_tls: true, is_ipv6: false };
        assert_eq!(text(Redirect::Ask(5, 1), by_tls), "ASK 5 10.0.0.2:6380");
    }

    #[test]
    fn open_slots_are_served_by_who_has_the_keys() {
        let (routes, config) = (routes(), Config::default());
        let decide = |wanted: Wanted| routes.decide(&wanted, &config);
        assert_eq!(decide(Wanted { existing: 2, ..wanted(5) }), Ok(()));
        assert_eq!(decide(Wanted { missing: 2, ..wanted(5) }), Err(Redirect::Ask(5, 1)));
        assert_eq!(decide(Wanted { missing: 1, existing: 1, ..wanted(5) }), Err(Redirect::TryAgain));
        assert_eq!(decide(Wanted { missing: 1, moves_keys: true, ..wanted(5) }), Ok(()));
        assert_eq!(decide(Wanted { missing: 1, ..wanted(15) }), Err(Redirect::Moved(15, 1)));
        let asking = Wanted { missing: 1, is_asking: true, ..wanted(15) };
        assert_eq!(decide(asking), Ok(()));
        assert_eq!(decide(Wanted { has_several: true, ..asking }), Err(Redirect::TryAgain));
        assert_eq!(decide(Wanted { is_asking: true, ..wanted(12) }), Err(Redirect::Moved(12, 1)));
    }

    #[test]
    fn replicas_answer_readers() {
        let mut routes = routes();
        (routes.is_replica, routes.primary) = (true, Some(1));
        let config = Config::default();
        let reader = Wanted { is_readonly: true, ..wanted(12) };
        assert_eq!(routes.decide(&reader, &config), Ok(()));
        assert_eq!(routes.lets_wait(12, true), Ok(()));
        let writer = Wanted { writes: true, ..reader };
        assert_eq!(routes.decide(&writer, &config), Err(Redirect::Moved(12, 1)));
        assert_eq!(routes.decide(&wanted(12), &config), Err(Redirect::Moved(12, 1)));
        let subscriber = Wanted { is_sharded_pubsub: true, ..wanted(12) };
        assert_eq!(routes.decide(&subscriber, &config), Ok(()));
        // What leaves the primary may have left this node, too.
        routes.migrating = [(12, 0), (5, 1)].into();
        assert!(routes.migrates_to(12) == Some(0) && routes.migrates_to(99).is_none());
        let found = |existing, missing, from| routes.decide(&Wanted { existing, missing, ..from }, &config);
        assert_eq!(found(1, 0, reader), Ok(()));
        assert_eq!(found(0, 1, reader), Err(Redirect::Ask(12, 0)));
        assert_eq!(found(1, 1, reader), Err(Redirect::TryAgain));
        assert_eq!(found(0, 1, writer), Err(Redirect::Moved(12, 1)));
    }

    #[test]
    fn a_cluster_that_is_down_serves_what_the_configuration_allows() {
        let mut routes = routes();
        routes.is_down = true;
        let mut config = Config::default();
        assert_eq!(routes.decide(&wanted(3), &config), Err(Redirect::Down));
        assert_eq!(routes.lets_wait(3, false), Err(Redirect::Down));
        let message = Wanted { is_sharded_pubsub: true, ..wanted(3) };
        assert_eq!(routes.decide(&message, &config), Ok(()));
        config.cluster_allow_pubsubshard_when_down = false;
        assert_eq!(routes.decide(&message, &config), Err(Redirect::Down));
        config.cluster_allow_reads_when_down = true;
        assert_eq!(routes.decide(&wanted(3), &config), Ok(()));
        let write = Wanted { writes: true, ..wanted(3) };
        assert_eq!(routes.decide(&write, &config), Err(Redirect::DownForWrites));
    }
}
