//! Unreachable nodes: suspicion, reports of primaries, FAIL, and the way back.

use super::gossip::UNWELL;
use super::{Cluster, Node, NodeKey, Time};
use crate::flags::NodeFlags;
use crate::packet::{Body, PingKind};

/// A report counts for this number of node timeouts.
const REPORT_VALIDITY: i64 = 2;
/// A primary that is back, and whose slots were not taken, stays FAIL for this number of node timeouts.
const FAIL_UNDO: i64 = 2;
/// How many nodes are looked at for the one whose pong is oldest.
const PING_SAMPLE: usize = 5;

/// Findings of one pass over all nodes, for replicas that might migrate.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// Primaries with slots that have lost all their replicas.
    pub count: usize,
    /// Most replicas that work, of any primary.
    pub max_replicas: usize,
    /// Replicas that work, of the own primary.
    pub own_replicas: usize,
}

impl Cluster {
    /// Once a second: pings the one of a few whose pong is oldest.
    pub(super) fn ping_oldest(&mut self) {
        let keys = self.table.keys();
        let mut oldest: Option<NodeKey> = None;
        for _ in 0..PING_SAMPLE {
            let key = keys[self.random.below(keys.len() as u64) as usize];
            let node = &self.table[key];
            let is_busy = node.link.is_none() || node.ping_sent.is_some();
            if is_busy || key == self.myself || node.is_in_handshake() {
                continue;
            }
            let pong_ms = |key: NodeKey| self.table[key].pong_received.map(|at| at.mono_ms);
            if oldest.is_none_or(|oldest| pong_ms(oldest) > pong_ms(key)) {
                oldest = Some(key);
            }
        }
        if let Some(link) = oldest.and_then(|key| self.table[key].link) {
            self.send_ping(link, PingKind::Ping);
        }
    }

    /// Looks at all nodes: pings those that were not for long, renews connections that are silent, suspects
    /// those that do not answer.
    pub(super) fn check_nodes(&mut self) -> Orphans {
        let unknown = NodeFlags::MYSELF.with(NodeFlags::NO_ADDRESS).with(NodeFlags::HANDSHAKE);
        let known = || self.table.iter().filter(|(_, node)| !node.flags.has(unknown));
        let mut orphans = Orphans::default();
        if self.table[self.myself].is_replica() {
            known().for_each(|(key, _)| self.count_orphan(key, &mut orphans));
        }
        // Few of many: they are looked at ten times a second.
        let due: Vec<NodeKey> =
            known().filter(|(key, node)| self.is_due(*key, node)).map(|(key, _)| key).collect();
        due.into_iter().for_each(|key| self.check_node(key));
        orphans
    }

    /// Whether [`Cluster::check_node`] may find something to do.
    fn is_due(&self, key: NodeKey, node: &Node) -> bool {
        let is_long_ago = |time: Time| self.now.mono_ms - time.mono_ms > self.ping_interval_ms();
        node.ping_sent.is_some()
            || node.pong_received.is_none_or(is_long_ago)
            || self.manual.as_ref().is_some_and(|manual| manual.replica == Some(key))
    }

    /// For how long a node is not pinged after it has answered.
    fn ping_interval_ms(&self) -> i64 {
        match self.settings.ping_interval_ms {
            0 => self.settings.node_timeout_ms / 2,
            interval_ms => interval_ms,
        }
    }

    /// Adds a node's facts that a migrating replica needs.
    fn count_orphan(&self, key: NodeKey, orphans: &mut Orphans) {
        let (own, node) = (&self.table[self.myself], &self.table[key]);
        if !node.is_primary() || node.is_failed() {
            return;
        }
        let working = self.working_replicas(key);
        if working == 0 && node.slot_count() > 0 && node.flags.has(NodeFlags::MIGRATE_TO) {
            orphans.count += 1;
        }
        orphans.max_replicas = orphans.max_replicas.max(working);
        if own.primary == Some(key) {
            orphans.own_replicas = working;
        }
    }

    /// Replicas of a node that do not fail.
    pub(super) fn working_replicas(&self, key: NodeKey) -> usize {
        self.table[key].replicas.iter().filter(|replica| !self.table[**replica].is_failed()).count()
    }

    fn check_node(&mut self, key: NodeKey) {
        let (now, timeout_ms) = (self.now.mono_ms, self.settings.node_timeout_ms);
        let since = |time: Option<i64>| time.map_or(i64::MAX, |time| now - time);
        let mono = |time: Option<Time>| time.map(|time| time.mono_ms);
        let node = &self.table[key];
        let (ping_ms, data_ms) = (since(mono(node.ping_sent)), since(node.data_received_ms));
        let has_ping = node.ping_sent.is_some();
        if let Some(link) = node.link
            && self.links.get(&link).is_some_and(|link| now - link.created_ms > timeout_ms)
            && has_ping
            && ping_ms > timeout_ms / 2
            && data_ms > timeout_ms / 2
        {
            self.close_link(link);
        }
        let node = &self.table[key];
        if let Some(link) = node.link {
            if !has_ping && since(mono(node.pong_received)) > self.ping_interval_ms() {
                self.send_ping(link, PingKind::Ping);
                return;
            }
            let own = &self.table[self.myself];
            if own.is_primary() && self.manual.as_ref().is_some_and(|manual| manual.replica == Some(key)) {
                self.send_ping(link, PingKind::Ping);
                return;
            }
        }
        // Whatever it sends shows that it lives.
        if has_ping && ping_ms.min(data_ms) > timeout_ms && !self.table[key].flags.has(UNWELL) {
            self.table[key].flags.set(NodeFlags::PFAIL, true);
            self.todo.state = true;
            if self.size == 1 && self.table[self.myself].is_voter() {
                self.fail_if_agreed(key);
            }
        }
    }

    /// A primary says that it cannot reach a node.
    pub(super) fn report_failure(&mut self, key: NodeKey, reporter: NodeKey) {
        let now = self.now.mono_ms;
        let reports = &mut self.table[key].reports;
        match reports.iter_mut().find(|(of, _)| *of == reporter) {
            Some((_, time)) => *time = now,
            None => {
                reports.push((reporter, now));
                self.log_report(key, reporter, "as not reachable");
            }
        }
        self.fail_if_agreed(key);
    }

    /// A primary says that it reaches a node.
    pub(super) fn withdraw_report(&mut self, key: NodeKey, reporter: NodeKey) {
        let reports = &mut self.table[key].reports;
        let before = reports.len();
        reports.retain(|(of, _)| *of != reporter);
        if reports.len() < before {
            self.log_report(key, reporter, "is back online");
        }
    }

    /// What one node says of another, in Redis' words.
    fn log_report(&mut self, key: NodeKey, reporter: NodeKey, what: &str) {
        let shown =
            |key: NodeKey| format!("{} ({})", self.table[key].id, self.table[key].announced.node_name);
        let text = format!("Node {} reported node {} {what}.", shown(reporter), shown(key));
        self.log(text);
    }

    /// Forgets reports that are too old.
    pub(super) fn clean_reports(&mut self, key: NodeKey) {
        let oldest = self.now.mono_ms - self.settings.node_timeout_ms * REPORT_VALIDITY;
        self.table[key].reports.retain(|(_, time)| *time >= oldest);
    }

    /// How many primaries have reported a node, and still count.
    pub fn failure_reports(&self, key: NodeKey) -> usize {
        let oldest = self.now.mono_ms - self.settings.node_timeout_ms * REPORT_VALIDITY;
        self.table[key].reports.iter().filter(|(_, time)| *time >= oldest).count()
    }

    /// How many primaries must agree.
    pub(super) fn quorum(&self) -> usize {
        self.size / 2 + 1
    }

    /// Flags a node as failing when it cannot be reached from here and most primaries say the same.
    fn fail_if_agreed(&mut self, key: NodeKey) {
        let node = &self.table[key];
        if !node.is_suspected() || node.is_failed() {
            return;
        }
        self.clean_reports(key);
        let own_vote = usize::from(self.table[self.myself].is_voter());
        if self.table[key].reports.len() + own_vote < self.quorum() {
            return;
        }
        let id = self.table[key].id;
        self.log(format!("Marking node {id} as failing (quorum reached)."));
        self.mark_failed(key);
        self.broadcast(self.header(), Body::Fail(id));
    }

    /// Flags a node as failing.
    pub(super) fn mark_failed(&mut self, key: NodeKey) {
        let node = &mut self.table[key];
        node.flags.set(NodeFlags::PFAIL, false);
        node.flags.set(NodeFlags::FAIL, true);
        node.failed_ms = Some(self.now.mono_ms);
        self.save(false);
        self.todo.state = true;
    }

    /// A node has answered: it is not suspected any more, nor failing if that was of no use.
    pub(super) fn answered(&mut self, key: NodeKey) {
        let (time, now) = (self.now, self.now.mono_ms);
        let undo_ms = self.settings.node_timeout_ms * FAIL_UNDO;
        let node = &mut self.table[key];
        node.pong_received = Some(time);
        node.ping_sent = None;
        // A voter stays failing for a while, so that others may take its slots.
        let is_lasting = node.is_voter() && node.failed_ms.is_some_and(|failed| now - failed <= undo_ms);
        if node.is_suspected() {
            node.flags.set(NodeFlags::PFAIL, false);
        } else if node.is_failed() && !is_lasting {
            node.flags.set(NodeFlags::FAIL, false);
            let text = format!("Clear FAIL state for node {}: it is reachable again.", node.id);
            self.log(text);
        } else {
            return;
        }
        self.save(false);
        self.todo.state = true;
    }
}
