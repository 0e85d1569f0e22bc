//! Single nodes, and pairs by hand; whole clusters are `simulation`'s.

use super::*;
use crate::packet::{Body, Extension, Gossip, Header, Packet, PingKind};
use crate::slots::SLOTS;

const TICK: i64 = 100;

fn time(ms: i64) -> Time {
    Time { mono_ms: ms, unix_ms: 1_700_000_000_000 + ms }
}

fn node(seed: u64) -> Cluster {
    let mut cluster = Cluster::new(Settings::default(), Random::seeded(seed), time(0));
    cluster.take_actions();
    cluster
}

/// Nodes that are connected without delay.
struct Net {
    nodes: Vec<Cluster>,
    conns: Vec<[(usize, LinkId); 2]>,
    now: i64,
    log: Vec<(usize, Action)>,
}

impl Net {
    fn new(count: u64) -> Net {
        Net {
            nodes: (0..count).map(|seed| node(seed + 1)).collect(),
            conns: Vec::new(),
            now: 0,
            log: Vec::new(),
        }
    }

    fn host(index: usize) -> String {
        format!("10.0.0.{}", index + 1)
    }

    /// Carries out what nodes want until none wants anything.
    fn settle(&mut self) {
        loop {
            let wanted: Vec<(usize, Action)> = (0..self.nodes.len())
                .flat_map(|index| {
                    self.nodes[index].take_actions().into_iter().map(move |action| (index, action))
                })
                .collect();
            if wanted.is_empty() {
                return;
            }
            for (index, action) in wanted {
                self.carry_out(index, action);
            }
        }
    }

    fn carry_out(&mut self, index: usize, action: Action) {
        let now = time(self.now);
        match &action {
            Action::Connect { link, host, .. } => {
                let to = (0..self.nodes.len()).find(|to| Net::host(*to) == *host);
                let Some(to) = to else { return self.nodes[index].closed(now, *link) };
                let accepted = self.nodes[to].accepted(now, &Net::host(index), host);
                self.conns.push([(index, *link), (to, accepted)]);
                self.nodes[index].connected(now, *link, host, &Net::host(index));
            }
            Action::Send { link, packet } => {
                if let Some((to, link)) = self.other_end(index, *link) {
                    self.nodes[to].received(now, link, packet);
                }
            }
            Action::Close(link) => {
                if let Some((to, other)) = self.other_end(index, *link) {
                    self.nodes[to].closed(now, other);
                    self.conns.retain(|ends| !ends.contains(&(index, *link)));
                }
            }
            Action::PauseWrites(_) => {
                let offset = self.nodes[index].offset(self.nodes[index].my_key());
                self.nodes[index].writes_paused(now, offset);
            }
            _ => {}
        }
        self.log.push((index, action));
    }

    fn other_end(&self, index: usize, link: LinkId) -> Option<(usize, LinkId)> {
        let ends = self.conns.iter().find(|ends| ends.contains(&(index, link)))?;
        Some(if ends[0] == (index, link) { ends[1] } else { ends[0] })
    }

    fn pass(&mut self, ms: i64) {
        for _ in 0..ms / TICK {
            self.now += TICK;
            for index in 0..self.nodes.len() {
                self.nodes[index].tick(time(self.now));
                self.settle();
            }
        }
    }

    /// Three primaries, and a replica of the first.
    fn with_replica() -> Net {
        let mut net = Net::cluster(3);
        net.nodes.push(node(9));
        net.nodes[0].meet(time(net.now), &Net::host(3), 6379, 16379).unwrap();
        net.pass(5_000);
        let primary = net.nodes[0].myself().id;
        net.nodes[3].replicate(time(net.now), primary.as_bytes(), false).unwrap();
        net.pass(3_000);
        net
    }

    /// As many primaries that know each other and share all slots.
    fn cluster(count: u64) -> Net {
        let mut net = Net::new(count);
        for index in 0..net.nodes.len() {
            let part = SLOTS / count as u16;
            let first = index as u16 * part;
            let last = if index as u64 + 1 == count { SLOTS - 1 } else { first + part - 1 };
            net.nodes[index].add_slots(time(0), &[(first, last)]).unwrap();
            net.nodes[0].meet(time(0), &Net::host(index), 6379, 16379).unwrap();
        }
        net.pass(10_000);
        net
    }
}

#[test]
fn nodes_meet_and_take_different_epochs() {
    let net = Net::cluster(4);
    let mut epochs: Vec<u64> = net.nodes.iter().map(|node| node.myself().config_epoch).collect();
    epochs.sort_unstable();
    epochs.dedup();
    assert_eq!(epochs.len(), 4);
    for node in &net.nodes {
        assert_eq!((node.nodes().count(), node.is_down(), node.size()), (4, false, 4));
        assert!((0..SLOTS).all(|slot| node.owner(slot).is_some()));
        // No node is met twice, though one was asked to meet itself.
        assert!(
            node.nodes().all(|(_, node)| !node.is_in_handshake() && node.address.host.starts_with("10.0.0."))
        );
        let text = node.conf().to_text();
        assert_eq!(Conf::parse(&text).unwrap().to_text(), text);
    }
}

#[test]
fn a_packet_that_is_refused_changes_nothing() {
    let mut net = Net::cluster(3);
    let link = net.nodes[0].links().next().unwrap().0;
    let before = (net.nodes[0].conf(), net.nodes[0].revision());
    for packet in [&b"RCmb"[..], &[0; 3000], b""] {
        net.nodes[0].received(time(net.now), link, packet);
    }
    assert_eq!(net.nodes[0].counters().refused, 3);
    assert_eq!((net.nodes[0].conf(), net.nodes[0].revision()), before);
    assert!(net.nodes[0].take_actions().is_empty());
    net.nodes[0].received(time(net.now), LinkId(99_999), b"RCmb");
    assert_eq!(net.nodes[0].counters().refused, 3);
}

#[test]
fn an_agreed_failover_pauses_writes_and_waits_for_the_offset() {
    let mut net = Net::with_replica();
    net.nodes[0].set_replication(Replication { offset: 500, silent_ms: 0 });
    net.pass(3_000);
    assert_eq!(net.nodes[3].failover(time(net.now), Failover::Agreed), Ok(()));
    net.settle();
    assert!(net.log.contains(&(0, Action::PauseWrites(10_000))));
    net.pass(300);
    assert!(net.nodes[3].myself().is_replica(), "it has not applied all");
    net.nodes[3].replicated_to(time(net.now), 500);
    net.settle();
    net.pass(200);
    assert!(net.nodes[3].myself().is_primary() && net.nodes[0].myself().is_replica());
    assert!(net.log.contains(&(3, Action::StopReplicating)) && net.log.contains(&(0, Action::ResumeWrites)));
    let (host, port) = (Net::host(3), 6379);
    assert!(net.log.contains(&(0, Action::Replicate { host, port, is_full_sync: false })));
    assert!(
        net.nodes.iter().all(|node| !node.is_down() && node.current_epoch() == net.nodes[0].current_epoch())
    );
}

#[test]
fn replicas_of_several_failed_primaries_are_elected_one_after_another() {
    let mut net = Net::cluster(4);
    for of in 0..3 {
        net.nodes.push(node(20 + of as u64));
        net.nodes[0].meet(time(net.now), &Net::host(4 + of), 6379, 16_379).unwrap();
        net.pass(3_000);
        let id = net.nodes[of].myself().id;
        net.nodes[4 + of].replicate(time(net.now), id.as_bytes(), false).unwrap();
    }
    net.pass(5_000);
    let mut by_id: Vec<(NodeId, usize)> = (0..3).map(|of| (net.nodes[of].myself().id, 4 + of)).collect();
    by_id.sort_unstable();
    let last = &mut net.nodes[by_id[2].1];
    assert_eq!(last.failed_primary_rank(), 0);
    for (rank, (id, _)) in by_id.iter().enumerate() {
        let key = last.find(id.as_bytes()).unwrap();
        last.mark_failed(key);
        assert_eq!(last.failed_primary_rank(), (rank as i64 + 1).min(2));
    }
    let delay_ms = |cluster: &mut Cluster| {
        cluster.tick(time(net.now));
        let actions = cluster.take_actions();
        let mut texts = actions.iter().filter_map(|action| match action {
            Action::Log(text) => text.strip_prefix("Start of election delayed for "),
            _ => None,
        });
        texts.next_back().and_then(|text| text.split(' ').next()?.parse::<i64>().ok()).unwrap()
    };
    assert!((1_500..2_000).contains(&delay_ms(last)), "half a second for each of two primaries");
    // Long ago: their replicas' data is too old.
    last.now = time(net.now + 15_000 * 10 + 1);
    assert_eq!(last.failed_primary_rank(), 0);
    let first = &mut net.nodes[by_id[0].1];
    for (id, _) in &by_id {
        let key = first.find(id.as_bytes()).unwrap();
        first.mark_failed(key);
    }
    assert!((500..1_000).contains(&delay_ms(first)));
}

#[test]
fn a_detached_replica_is_an_empty_primary_in_a_shard_of_its_own() {
    let mut net = Net::with_replica();
    let (id, shard) = (net.nodes[3].myself().id, net.nodes[0].myself().shard);
    assert_eq!(net.nodes[3].myself().shard, shard);
    net.log.clear();
    net.nodes[3].detach(time(net.now));
    net.pass(1_000);
    assert!(net.log.contains(&(3, Action::FlushData)) && net.log.contains(&(3, Action::StopReplicating)));
    assert!(net.log.iter().any(|(index, action)| {
        *index == 3 && matches!(action, Action::DropShardChannels(slots) if slots.len() == usize::from(SLOTS))
    }));
    for node in &net.nodes {
        let detached = node.node(node.find(id.as_bytes()).unwrap());
        assert!(detached.is_primary() && detached.slot_count() == 0 && detached.shard != shard);
        assert!(!node.is_down() && node.replicas_take_slot_changes(1));
    }
    // A primary stays as it is.
    let before = net.nodes[0].conf();
    net.nodes[0].detach(time(net.now));
    assert_eq!((net.nodes[0].conf(), net.nodes[0].take_actions()), (before, vec![]));
}

#[test]
fn another_primary_serves_other_shard_channels() {
    let mut net = Net::with_replica();
    net.log.clear();
    let other = net.nodes[1].myself().id;
    net.nodes[3].replicate(time(net.now), other.as_bytes(), false).unwrap();
    net.settle();
    let slots = (0..SLOTS).collect();
    assert!(net.log.contains(&(3, Action::DropShardChannels(slots))));
}

#[test]
fn a_reset_gives_another_shard() {
    for is_hard in [false, true] {
        let mut net = Net::with_replica();
        let shard = net.nodes[3].myself().shard;
        net.nodes[3].reset(time(net.now), is_hard, true).unwrap();
        let own = net.nodes[3].myself().shard;
        assert_ne!(own, shard);
        let mut alone = node(1);
        let before = alone.myself().shard;
        alone.reset(time(0), is_hard, false).unwrap();
        assert_ne!(alone.myself().shard, before);
    }
}

#[test]
fn manual_failovers_of_one_primary_need_not_be_two_node_timeouts_apart() {
    let mut net = Net::with_replica();
    let begin = net.now;
    for (taker, giver) in [(3, 0), (0, 3), (3, 0), (0, 3)] {
        net.nodes[taker].failover(time(net.now), Failover::Agreed).unwrap();
        net.settle();
        net.pass(3_000);
        assert!(net.nodes[taker].myself().is_primary() && net.nodes[giver].myself().is_replica());
    }
    assert!(net.now - begin < Settings::default().node_timeout_ms * 2);
}

#[test]
fn a_request_for_a_failover_that_nobody_heard_is_made_again() {
    let mut net = Net::cluster(3);
    net.nodes.push(node(9));
    let id = net.nodes[0].myself().id;
    net.nodes[0].meet(time(net.now), &Net::host(3), 6379, 16_379).unwrap();
    net.pass(3_000);
    net.nodes[3].replicate(time(net.now), id.as_bytes(), false).unwrap();
    net.pass(3_000);
    net.nodes[3].failover(time(net.now), Failover::Agreed).unwrap();
    // Packets sent at once are lost.
    net.nodes[3].take_actions();
    net.pass(900);
    assert!(net.nodes[3].myself().is_replica());
    net.pass(300);
    assert!(net.nodes[3].myself().is_primary() && net.nodes[0].myself().is_replica());
}

#[test]
fn the_file_is_written_before_the_vote_is_sent() {
    let mut net = Net::with_replica();
    net.nodes[3].failover(time(net.now), Failover::Forced).unwrap();
    let request = net.nodes[3].take_actions();
    let sends = request.iter().position(|action| matches!(action, Action::Send { .. })).unwrap();
    assert!(matches!(&request[0], Action::SaveConf { is_synced: true, .. }) && sends > 0);
    for action in request {
        net.carry_out(3, action);
    }
    for index in 0..3 {
        let actions = net.nodes[index].take_actions();
        let kind = |packet: &[u8]| Packet::decode(packet).unwrap().kind();
        let vote = actions
            .iter()
            .position(|action| matches!(action, Action::Send { packet, .. } if kind(packet) == Kind::Vote));
        let epoch = net.nodes[index].last_vote_epoch();
        let Action::SaveConf { text, is_synced: true } = &actions[0] else { panic!("{actions:?}") };
        assert!(vote.is_some() && text.ends_with(&format!("lastVoteEpoch {epoch}\n")));
        // Started again from that file, it does not vote in this epoch any more.
        let conf = Conf::parse(text).unwrap();
        let again = Cluster::from_conf(Settings::default(), Random::seeded(1), time(0), &conf);
        assert_eq!((again.last_vote_epoch(), again.current_epoch()), (epoch, epoch));
    }
}

#[test]
fn who_is_not_connected_to_the_candidate_votes_by_the_connection_that_asked() {
    let mut net = Net::with_replica();
    let is_to_candidate = |ends: &[(usize, LinkId); 2]| ends[0].0 < 3 && ends[1].0 == 3;
    let gone: Vec<_> = net.conns.iter().copied().filter(is_to_candidate).collect();
    assert_eq!(gone.len(), 3);
    net.conns.retain(|ends| !is_to_candidate(ends));
    for (index, link) in gone.into_iter().flatten() {
        net.nodes[index].closed(time(net.now), link);
    }
    net.nodes[3].failover(time(net.now), Failover::Forced).unwrap();
    net.settle();
    net.nodes[3].tick(time(net.now));
    assert!(net.nodes[3].myself().is_primary());
}

#[test]
fn a_light_packet_is_no_introduction() {
    let mut own = node(1);
    let link = own.accepted(time(0), "10.0.0.2", "10.0.0.1");
    let published = Published { channel: b"c".to_vec(), message: b"m".to_vec(), is_sharded: false };
    own.received(time(0), link, &Packet::Light(published).encode());
    assert_eq!(own.take_actions(), [Action::Close(link)]);
}

#[test]
fn what_is_not_to_be_heard_is_counted_and_dropped() {
    let published = || Packet::Light(Published { channel: vec![], message: vec![], is_sharded: false });
    for (kind, is_heard) in [(-1, true), (0, true), (4, false), (-2, false)] {
        let mut own = node(1);
        own.drop_packets(kind);
        let link = own.accepted(time(0), "10.0.0.2", "10.0.0.1");
        own.received(time(0), link, &published().encode());
        // A stranger's is heard, and closes the connection.
        assert_eq!(own.take_actions() == [Action::Close(link)], is_heard, "{kind}");
        assert_eq!(own.counters().received[Kind::Publish as usize], 1);
        own.close_on_drop(true);
        own.received(time(0), link, &published().encode());
        assert_eq!(own.take_actions().is_empty(), is_heard, "{kind}");
    }
}

#[test]
fn a_stranger_is_answered_and_not_believed() {
    let mut own = node(1);
    let stranger = node(2);
    let link = own.accepted(time(0), "10.0.0.2", "10.0.0.1");
    let header = Header { slots: (0..100).collect(), config_epoch: 9, current_epoch: 9, ..stranger.header() };
    for body in [
        Body::Ping { kind: PingKind::Ping, gossip: Vec::new(), extensions: Vec::new() },
        Body::Fail(own.myself().id),
        Body::VoteRequest,
        Body::Update { node: own.myself().id, config_epoch: 9, slots: (0..100).collect() },
    ] {
        own.received(time(0), link, &Packet::Full(Box::new(header.clone()), body).encode());
    }
    let sent = own.take_actions().into_iter().filter(|action| matches!(action, Action::Send { .. })).count();
    assert_eq!((sent, own.nodes().count(), own.current_epoch(), own.owner(1)), (1, 1, 0, None));
}

#[test]
fn errors_are_redis_own() {
    let mut net = Net::cluster(3);
    let now = time(net.now);
    let (own, other) = (net.nodes[0].myself().id, net.nodes[1].myself().id);
    let unknown = [b'0'; 40];
    let node = &mut net.nodes[0];
    let text = |outcome: Result<(), CommandError>| outcome.unwrap_err().0;
    for (outcome, expected) in [
        (node.meet(now, "localhost", 1, 2), "Invalid node address specified: localhost:1"),
        (node.meet(now, "10.0.0.9", 0, 2), "Invalid node address specified: 10.0.0.9:0"),
        (node.add_slots(now, &[(5, 5)]), "Slot 5 is already busy"),
        (node.add_slots(now, &[(6, 5)]), "start slot number 6 is greater than end slot number 5"),
        (node.delete_slots(now, &[(5, 6), (6, 6)]), "Slot 6 specified multiple times"),
        (node.flush_slots(now, true), "DB must be empty to perform CLUSTER FLUSHSLOTS."),
        (node.forget(now, own.as_bytes()), "I tried hard but I can't forget myself..."),
        (node.replicate(now, own.as_bytes(), false), "Can't replicate myself"),
        (
            node.replicate(now, other.as_bytes(), false),
            "To set a master the node must be empty and without assigned slots.",
        ),
        (node.failover(now, Failover::Forced), "You should send CLUSTER FAILOVER to a replica"),
        (node.reset(now, false, true), "CLUSTER RESET can't be called with master nodes containing keys"),
        (node.set_config_epoch(now, -1), "Invalid config epoch specified: -1"),
        (
            node.set_config_epoch(now, 1),
            "The user can assign a config epoch only when the node does not know any other node.",
        ),
        (
            node.set_slot(now, 16_383, SetSlot::Migrating(other.as_bytes()), false, false),
            "I'm not the owner of hash slot 16383",
        ),
        (
            node.set_slot(now, 0, SetSlot::Importing(other.as_bytes()), false, false),
            "I'm already the owner of hash slot 0",
        ),
        (node.set_slot(now, 0, SetSlot::Migrating(own.as_bytes()), false, false), "Target node is myself"),
        (
            node.set_slot(now, 16_383, SetSlot::Importing(own.as_bytes()), false, false),
            "Target node is myself",
        ),
        (
            node.set_slot(now, 0, SetSlot::Node(other.as_bytes()), false, true),
            "Can't assign hashslot 0 to a different node while I still hold keys for this hash slot.",
        ),
    ] {
        assert_eq!(text(outcome), expected);
    }
    let zeros = String::from_utf8_lossy(&unknown).into_owned();
    assert_eq!(text(node.forget(now, &unknown)), format!("Unknown node {zeros}"));
    let migrating = node.set_slot(now, 0, SetSlot::Migrating(&unknown), false, false);
    assert_eq!(text(migrating), format!("I don't know about node {zeros}"));
    assert_eq!(parse_slot(b"16383"), Ok(16_383));
    for wrong in [&b"16384"[..], b"-1", b"+1", b"", b"x"] {
        assert_eq!(parse_slot(wrong).unwrap_err().0, "Invalid or out of range slot");
    }
}

#[test]
fn a_slot_is_moved_and_its_epoch_bumped() {
    let mut net = Net::cluster(3);
    let now = time(net.now);
    let ids: Vec<NodeId> = net.nodes.iter().map(|node| node.myself().id).collect();
    net.nodes[0].set_slot(now, 7, SetSlot::Migrating(ids[1].as_bytes()), false, false).unwrap();
    net.nodes[1].set_slot(now, 7, SetSlot::Importing(ids[0].as_bytes()), false, false).unwrap();
    assert!(net.nodes[0].conf().to_text().contains(&format!("[7->-{}]", ids[1])));
    assert!(net.nodes[1].migrating_to(7).is_none() && net.nodes[1].importing_from(7).is_some());
    net.nodes[1].set_slot(now, 7, SetSlot::Node(ids[1].as_bytes()), false, true).unwrap();
    net.settle();
    for node in &net.nodes {
        assert_eq!(node.owner(7).map(|owner| node.node(owner).id), Some(ids[1]));
        assert!(node.migrating_to(7).is_none() && node.importing_from(7).is_none());
    }
    let newest = net.nodes.iter().map(|node| node.myself().config_epoch).max();
    assert_eq!(newest, Some(net.nodes[1].myself().config_epoch));
    assert!(net.log.contains(&(0, Action::DeleteKeys([7].into_iter().collect()))));
}

/// A primary that gives its last slot away and may follow no node reports so, after SETSLOT or the new
/// owner's claim.
#[test]
fn a_primary_without_slots_says_so() {
    for is_told in [true, false] {
        let mut net = Net::cluster(3);
        let now = time(net.now);
        let to = net.nodes[1].myself().id;
        net.nodes[0].settings.allows_replica_migration = false;
        let mut slots: Vec<u16> = net.nodes[0].myself().slots().iter().collect();
        let last = slots.pop().unwrap();
        let keeper = net.nodes[2].myself().id;
        for slot in slots {
            net.nodes[0].set_slot(now, slot, SetSlot::Node(keeper.as_bytes()), false, false).unwrap();
        }
        net.settle();
        assert!(!net.log.iter().any(|(_, action)| is_log(action, "empty primary")));
        let from = net.nodes[0].myself().id;
        net.nodes[1].set_slot(now, last, SetSlot::Importing(from.as_bytes()), false, false).unwrap();
        let teller = usize::from(!is_told);
        net.nodes[teller].set_slot(now, last, SetSlot::Node(to.as_bytes()), false, false).unwrap();
        net.pass(1_000);
        let text = format!("My last slot went to node {to}. I am now an empty primary.");
        let said = net.log.iter().filter(|(index, action)| *index == 0 && is_log(action, &text));
        assert_eq!(said.count(), 1, "by SETSLOT: {is_told}");
        assert!(net.nodes[0].myself().is_primary());
    }
}

fn is_log(action: &Action, words: &str) -> bool {
    matches!(action, Action::Log(text) if text.contains(words))
}

/// A replica's stream may be there before the bus says whose replica it is.
#[test]
fn whose_replica_takes_setslot_is_known_before_the_bus_says_which_it_is() {
    let mut net = Net::cluster(3);
    assert!(net.nodes[0].replicas_take_slot_changes(1));
    // A replica that is not Valkey's might be it.
    let key = net.nodes[0].find(net.nodes[1].myself().id.as_bytes()).unwrap();
    net.nodes[0].table[key].flags.set(NodeFlags::LIGHT_HEADER, false);
    assert!(!net.nodes[0].replicas_take_slot_changes(1));
    let mut net = Net::with_replica();
    let key = net.nodes[0].find(net.nodes[1].myself().id.as_bytes()).unwrap();
    net.nodes[0].table[key].flags.set(NodeFlags::LIGHT_HEADER, false);
    assert!(net.nodes[0].replicas_take_slot_changes(1) && !net.nodes[0].replicas_take_slot_changes(2));
    let key = net.nodes[0].find(net.nodes[3].myself().id.as_bytes()).unwrap();
    net.nodes[0].table[key].flags.set(NodeFlags::LIGHT_HEADER, false);
    assert!(!net.nodes[0].replicas_take_slot_changes(1));
}

#[test]
fn who_is_forgotten_does_not_come_back_by_gossip() {
    let mut net = Net::cluster(4);
    let gone = net.nodes[3].myself().id;
    let now = time(net.now);
    net.nodes[0].forget(now, gone.as_bytes()).unwrap();
    // The others hear of it.
    net.pass(20_000);
    assert!(net.nodes[..3].iter().all(|node| node.find(gone.as_bytes()).is_none()));
    assert_eq!(net.nodes[0].forget(time(net.now), gone.as_bytes()), Ok(()));
    net.nodes[3].reset(time(net.now), true, false).unwrap();
    net.settle();
    assert_ne!(net.nodes[3].myself().id, gone);
    assert_eq!((net.nodes[3].nodes().count(), net.nodes[3].current_epoch()), (1, 0));
}

#[test]
fn clusters_of_nine_and_seven_survive_faults() {
    for (nodes, seeds) in [(9, 1..4), (7, 100..102)] {
        let mut options = crate::simulation::Options::of_nodes(nodes);
        options.faults_ms = 30_000;
        let outcomes: Vec<_> =
            seeds.clone().map(|seed| crate::simulation::run(&options, seed).unwrap()).collect();
        assert_eq!(crate::simulation::run(&options, seeds.start), Ok(outcomes[0]), "a seed is one run");
    }
}

/// Any packets of a few nodes, on any connections, between any operations: nothing panics, and the table
/// stays whole.
#[test]
fn a_node_survives_whatever_it_is_told() {
    let seeds = std::env::var("MARTLET_CLUSTER_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    for seed in 0..seeds {
        let mut liar = Liar::new(seed);
        for step in 0..400 {
            liar.step();
            check_table(&liar.own, &format!("seed {seed}, step {step}"));
        }
    }
}

/// Owners and replication agree from both sides, and the file can be read.
fn check_table(own: &Cluster, place: &str) {
    let mut owned = 0;
    for (key, node) in own.nodes() {
        assert_eq!(node.slots().len(), node.slot_count(), "{place}");
        assert!(node.slots().iter().all(|slot| own.owner(slot) == Some(key)), "{place}");
        owned += node.slot_count();
        assert!(node.primary.is_none_or(|primary| own.node(primary).replicas.contains(&key)), "{place}");
        assert!(node.replicas.iter().all(|replica| own.node(*replica).primary == Some(key)), "{place}");
        assert_eq!(own.find(node.id.as_bytes()), Some(key), "{place}");
        assert!(
            node.link.is_none_or(|link| own.links().any(|(id, of, ..)| (id, of) == (link, key))),
            "{place}"
        );
    }
    assert_eq!(owned, (0..SLOTS).filter(|slot| own.owner(*slot).is_some()).count(), "{place}");
    let me = own.myself();
    assert!(me.is_primary() != me.is_replica() && me.flags.has(NodeFlags::MYSELF), "{place}");
    assert!(me.is_primary() || me.slot_count() == 0, "{place}");
    assert!(own.nodes().filter(|(_, node)| node.flags.has(NodeFlags::MYSELF)).count() == 1, "{place}");
    let text = own.conf().to_text();
    assert_eq!(Conf::parse(&text).map(|conf| conf.to_text()).as_ref(), Ok(&text), "{place}");
}

/// A node, and a peer that sends it arbitrary claims.
struct Liar {
    own: Cluster,
    random: Random,
    ids: Vec<NodeId>,
    links: Vec<LinkId>,
    now: i64,
}

impl Liar {
    fn new(seed: u64) -> Liar {
        let (own, mut random) = (node(seed), Random::seeded(seed ^ 0x11a6));
        let mut ids: Vec<NodeId> = (0..5).map(|_| NodeId::random(&mut random)).collect();
        ids.push(own.myself().id);
        Liar { own, random, ids, links: Vec::new(), now: 0 }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn id(&mut self) -> NodeId {
        let at = self.below(self.ids.len() as u64) as usize;
        self.ids[at]
    }

    fn slots(&mut self) -> SlotSet {
        {
            let count = self.below(4);
            (0..count).map(|_| self.below(12) as u16).collect()
        }
    }

    fn step(&mut self) {
        self.now += self.below(4_000) as i64;
        let now = time(self.now);
        match self.below(12) {
            0 => {
                let link = self.own.accepted(now, "10.0.0.9", "10.0.0.1");
                self.links.push(link);
            }
            1 | 2 => self.own.tick(now),
            3 => self.operate(now),
            4 => {
                if let Some(link) = self.link() {
                    self.own.closed(now, link);
                }
            }
            _ => {
                let (header, body) = (self.header(), self.body());
                let is_light = self.below(20) == 0;
                let packet = if is_light {
                    Packet::Light(published(false))
                } else {
                    Packet::Full(Box::new(header), body)
                };
                if let Some(link) = self.link() {
                    self.own.received(now, link, &packet.encode());
                }
            }
        }
        for action in self.own.take_actions() {
            match action {
                Action::Connect { link, .. } if self.below(3) > 0 => {
                    self.own.connected(now, link, "10.0.0.9", "10.0.0.1");
                    self.links.push(link);
                }
                Action::Connect { link, .. } => self.own.closed(now, link),
                Action::Send { packet, .. } => assert!(Packet::decode(&packet).is_ok()),
                _ => {}
            }
        }
    }

    fn link(&mut self) -> Option<LinkId> {
        let at = self.below(self.links.len() as u64) as usize;
        self.links.get(at).copied()
    }

    fn operate(&mut self, now: Time) {
        let (id, other) = (self.id(), self.id());
        let slot = self.below(12) as u16;
        let has_keys = self.below(2) == 0;
        // Most are refused, which changes nothing.
        let _ = match self.below(14) {
            0 => self.own.meet(now, "10.0.0.9", 6379, 16379),
            // Redis lets a replica do this, too; a server that does not want it asks before.
            1 if self.own.myself().is_primary() => self.own.add_slots(now, &[(slot, slot)]),
            1 => Ok(()),
            2 => self.own.delete_slots(now, &[(slot, slot)]),
            3 => self.own.set_slot(now, slot, SetSlot::Migrating(id.as_bytes()), false, has_keys),
            4 => self.own.set_slot(now, slot, SetSlot::Importing(id.as_bytes()), true, has_keys),
            5 => self.own.set_slot(now, slot, SetSlot::Node(id.as_bytes()), has_keys, false),
            6 => self.own.forget(now, id.as_bytes()),
            7 | 8 => self.own.replicate(now, other.as_bytes(), false),
            9 => self.own.failover(now, Failover::Takeover),
            10 => self.own.failover(now, Failover::Forced),
            11 => self.own.failover(now, Failover::Agreed),
            12 if self.below(4) == 0 => self.own.reset(now, has_keys, false),
            12 => self.own.flush_slots(now, false),
            _ => {
                self.own.publish(now, published(has_keys));
                self.own.bump(now);
                Ok(())
            }
        };
    }

    fn header(&mut self) -> Header {
        let primary = if self.below(2) == 0 { Some(self.id()) } else { None };
        let role = if primary.is_some() { NodeFlags::REPLICA } else { NodeFlags::PRIMARY };
        let epoch = if self.below(200) == 0 { u64::MAX } else { self.below(20) };
        Header {
            sender: self.id(),
            port: 6379,
            other_port: 0,
            bus_port: 16_379,
            current_epoch: epoch,
            config_epoch: self.below(20),
            offset: self.below(3),
            slots: self.slots(),
            primary,
            address: format!("10.0.0.{}", self.below(4)),
            flags: NodeFlags(role.0 | self.below(1 << 14) as u16 & !3),
            is_down: false,
            is_paused: self.below(4) == 0,
            forces_vote: self.below(2) == 0,
            knows_extensions: true,
            is_martlet: self.below(2) == 0,
        }
    }

    fn body(&mut self) -> Body {
        match self.below(12) {
            0 => Body::Fail(self.id()),
            1 => Body::VoteRequest,
            2 => Body::Vote,
            3 => Body::Update { node: self.id(), config_epoch: self.below(20), slots: self.slots() },
            4 => Body::ManualFailover,
            kind => {
                let kind = [PingKind::Ping, PingKind::Pong, PingKind::Meet][kind as usize % 3];
                let (gossips, extensions) = (self.below(3), self.below(3));
                let gossip = (0..gossips).map(|_| self.gossip()).collect();
                let extensions = (0..extensions).map(|_| self.extension()).collect();
                Body::Ping { kind, gossip, extensions }
            }
        }
    }

    fn gossip(&mut self) -> Gossip {
        Gossip {
            node: self.id(),
            ping_sent_s: 0,
            pong_received_s: self.below(u64::from(u32::MAX)) as u32,
            address: format!("10.0.0.{}", self.below(4)),
            port: 6379,
            other_port: 0,
            bus_port: 16_379,
            flags: NodeFlags(self.below(1 << 16) as u16),
        }
    }

    fn extension(&mut self) -> Extension {
        match self.below(3) {
            0 => Extension::ShardId(self.id()),
            1 => {
                let seconds = if self.below(2) == 0 { u64::MAX } else { 1 };
                Extension::Forgotten(self.id(), seconds)
            }
            _ => Extension::HostName("a.example".into()),
        }
    }
}

fn published(is_sharded: bool) -> Published {
    Published { channel: b"c".to_vec(), message: b"m".to_vec(), is_sharded }
}

#[test]
fn a_replica_of_another_history_has_nothing_to_offer() {
    let mut net = Net::cluster(3);
    net.nodes.push(node(9));
    net.nodes[0].meet(time(net.now), &Net::host(3), 6379, 16_379).unwrap();
    net.pass(3_000);
    let id = net.nodes[0].myself().id;
    let joining = &mut net.nodes[3];
    joining.set_replication(Replication { offset: 900, silent_ms: 0 });
    joining.replicate(time(net.now), id.as_bytes(), false).unwrap();
    assert_eq!(joining.offset(joining.my_key()), 0);
    let is_anew = |action: &Action| matches!(action, Action::Replicate { is_full_sync: true, .. });
    assert!(joining.take_actions().iter().any(is_anew));
}

#[test]
fn nodes_agree_on_the_smallest_secret_and_hear_none_from_strangers() {
    let mut net = Net::new(3);
    let secret = |digit: u8| [digit; 40];
    for (index, digit) in [b'c', b'a', b'b'].into_iter().enumerate() {
        net.nodes[index].set_secret(secret(digit));
    }
    for index in 0..3 {
        net.nodes[0].meet(time(0), &Net::host(index), 6379, 16379).unwrap();
    }
    net.pass(10_000);
    assert_eq!(net.nodes.iter().map(Cluster::secret).collect::<Vec<_>>(), [&secret(b'a'); 3]);
    // A connection that another has made, though it names a node, proves nothing.
    let mut header = net.nodes[1].header();
    header.knows_extensions = true;
    let extensions = vec![Extension::Secret(secret(b'0'))];
    let body = Body::Ping { kind: PingKind::Ping, gossip: Vec::new(), extensions };
    let link = net.nodes[0].accepted(time(net.now), "10.0.0.9", &Net::host(0));
    net.nodes[0].received(time(net.now), link, &Packet::Full(Box::new(header), body).encode());
    assert_eq!(net.nodes[0].secret(), &secret(b'a'));
}

#[test]
fn nodes_that_know_no_secret_are_sent_none() {
    let mut net = Net::cluster(2);
    let key = net.nodes[0].nodes().map(|(key, _)| key).find(|key| *key != net.nodes[0].my_key()).unwrap();
    let sends = |net: &mut Net| {
        let link = net.nodes[0].table[key].link.unwrap();
        net.nodes[0].send_ping(link, PingKind::Ping);
        let actions = net.nodes[0].take_actions();
        actions.iter().any(|action| match action {
            Action::Send { packet, .. } => {
                let Ok(Packet::Full(_, Body::Ping { extensions, .. })) = Packet::decode(packet) else {
                    panic!("no ping")
                };
                extensions.iter().any(|extension| matches!(extension, Extension::Secret(_)))
            }
            _ => false,
        })
    };
    assert!(sends(&mut net));
    net.nodes[0].table[key].shares_secret = false;
    assert!(!sends(&mut net));
}

/// The times of a node's line are those of its events, whatever the clock is set to later.
#[test]
fn a_time_that_happened_does_not_move_with_the_clock() {
    let mut net = Net::cluster(2);
    let me = net.nodes[0].my_key();
    let key = net.nodes[0].nodes().map(|(key, _)| key).find(|key| *key != me).unwrap();
    let pong = |net: &Net| net.nodes[0].entry(key).pong_received_ms;
    let before = pong(&net);
    assert!(before > 0);
    for unix_ms in [before + 1, 5, 10_000_000_000] {
        net.nodes[0].now = Time { mono_ms: net.now + 17, unix_ms };
        assert_eq!(pong(&net), before);
    }
}
