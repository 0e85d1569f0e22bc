//! Elections: a replica asks all primaries for their votes and takes its primary's slots once most have given
//! them; and manual failovers, for which the primary first pauses writes.
//!
//! Invariant: a node gives one vote an epoch at most, also over restarts, as the vote leaves after
//! `lastVoteEpoch` has reached the disk.

use super::links::LinkId;
use super::{Action, Cluster, Node, NodeKey, Time};
use crate::packet::{Body, Header, PingKind};

/// Votes must arrive within two node timeouts, and no less than this.
const VOTES_MIN_MS: i64 = 2_000;
/// Time for the news of a failure to reach all nodes; a random part of up to as much is added.
const FAIL_SPREAD_MS: i64 = 500;
/// So much later for each sibling with more data.
const RANK_DELAY_MS: i64 = 1_000;
/// So much later for each other failed primary that precedes the own one: elections at the same time share
/// the votes, and none may get enough (Valkey 8.1: the same).
const FAILED_PRIMARY_DELAY_MS: i64 = 500;
/// A replica asks a primary that does not pause again after this time: a primary that does not know yet whose
/// replica it is ignores the request.
const PAUSE_RETRY_MS: i64 = 1_000;
/// Multiple of the manual failover's timeout for which a primary pauses writes at its replica's request.
const PAUSE_FACTOR: i64 = 2;

/// An election of this node, planned or under way.
#[derive(Debug, Default)]
pub(super) struct Election {
    /// When votes are asked for.
    at_ms: Option<i64>,
    is_asked: bool,
    /// Part of the delay that is due to the others' ranks.
    rank_delay_ms: i64,
    epoch: u64,
    voters: Vec<NodeKey>,
}

impl Election {
    /// Forgets a voter.
    pub fn forget(&mut self, key: NodeKey) {
        self.voters.retain(|voter| *voter != key);
    }

    /// Cancels a planned election, which was about another primary.
    pub fn forget_plan(&mut self) {
        *self = Election { epoch: self.epoch, ..Election::default() };
    }
}

/// A manual failover.
#[derive(Debug, Default)]
pub(super) struct ManualFailover {
    /// When it is given up.
    pub until_ms: i64,
    /// Of a primary: the replica that takes over.
    pub replica: Option<NodeKey>,
    /// Of a primary: that writes wait, so that its offset stays.
    pub is_paused: bool,
    /// Of a replica: when it last asked the primary to pause.
    pub asked_ms: Option<i64>,
    /// Of a replica: the offset at which the primary paused.
    pub offset: Option<u64>,
    /// Of a replica: that the election may begin.
    pub can_start: bool,
}

/// Needs of a replica's vote request and of a primary's answer.
impl Cluster {
    /// A replica asks for a vote, by this connection.
    pub(super) fn consider_vote(&mut self, id: LinkId, sender: NodeKey, request: &Header) {
        let now = self.now.mono_ms;
        let node = &self.table[sender];
        let is_stale = request.current_epoch < self.current_epoch;
        let has_voted = self.last_vote_epoch == self.current_epoch;
        if !self.table[self.myself].is_voter() || is_stale || has_voted || node.is_primary() {
            return;
        }
        let Some(primary) = node.primary else { return };
        let of = &self.table[primary];
        // An operator's failover may follow another one at once; it would time out without votes.
        let is_soon = of.voted_ms.is_some_and(|voted| now - voted < self.settings.node_timeout_ms * 2);
        if !request.forces_vote && (is_soon || !of.is_failed()) {
            return;
        }
        let is_outdated = request.slots.iter().any(|slot| {
            let owner = self.table.owner(slot).filter(|_| !self.table.is_unclaimed(slot));
            owner.is_some_and(|owner| self.table[owner].config_epoch > request.config_epoch)
        });
        if is_outdated {
            return;
        }
        self.last_vote_epoch = self.current_epoch;
        if !request.forces_vote {
            self.table[primary].voted_ms = Some(now);
        }
        self.save(true);
        // There may be no own connection to it yet: a vote that is not heard is lost for two node timeouts.
        let own_link = self.table[sender].link.filter(|own| self.is_connected(*own));
        self.send(own_link.unwrap_or(id), self.header(), Body::Vote);
        let id = self.table[sender].id;
        self.log(format!("Failover auth granted to {id} for epoch {}", self.current_epoch));
    }

    /// A primary votes for this node.
    pub(super) fn count_vote(&mut self, voter: NodeKey, epoch: u64) {
        let is_new = !self.election.voters.contains(&voter);
        let is_asked = self.election.is_asked && epoch >= self.election.epoch;
        if is_asked && is_new && self.table[voter].is_voter() {
            self.election.voters.push(voter);
            self.todo.failover = true;
        }
    }

    /// How many siblings have more data, or as much and a smaller id.
    fn rank(&self) -> i64 {
        let own = &self.table[self.myself];
        let Some(primary) = own.primary else { return 0 };
        let is_ahead = |key: &&NodeKey| {
            let node = &self.table[**key];
            let is_eligible = **key != self.myself && !node.flags.has(crate::flags::NodeFlags::NO_FAILOVER);
            let (offset, own_offset) = (node.offset, self.replication.offset);
            is_eligible && (offset > own_offset || (offset == own_offset && node.id < own.id))
        };
        self.table[primary].replicas.iter().filter(is_ahead).count() as i64
    }

    /// How many other primaries have failed whose replicas are to be elected first: of those with replicas,
    /// the primaries with a smaller id. A failure from long ago does not count, as its replicas' data is old.
    pub(super) fn failed_primary_rank(&self) -> i64 {
        let Some(primary) = self.table[self.myself].primary else { return 0 };
        let id = self.table[primary].id;
        let factor = self.settings.replica_validity_factor;
        let valid_ms = self.settings.node_timeout_ms.saturating_mul(factor);
        let is_recent = |failed: i64| factor == 0 || self.now.mono_ms - failed <= valid_ms;
        let precedes = |node: &Node| {
            let has_election = node.is_failed() && node.is_voter() && !node.replicas.is_empty();
            has_election && node.id < id && node.failed_ms.is_some_and(is_recent)
        };
        self.table.iter().filter(|(_, node)| precedes(node)).count() as i64
    }

    fn rank_delay_ms(&self) -> i64 {
        self.rank() * RANK_DELAY_MS + self.failed_primary_rank() * FAILED_PRIMARY_DELAY_MS
    }

    /// On a replica whose primary fails, or that has to take over: plans an election, asks for votes, wins,
    /// or gives up.
    pub(super) fn go_on_with_election(&mut self) {
        let now = self.now.mono_ms;
        let own = &self.table[self.myself];
        let is_manual = self.manual.as_ref().is_some_and(|manual| manual.can_start);
        let Some(primary) = own.primary.filter(|_| own.is_replica()) else { return };
        let is_failed = self.table[primary].is_failed();
        let is_automatic = is_failed && !self.settings.has_no_failover && !self.is_data_old();
        if !is_automatic && !is_manual {
            return;
        }
        let votes_ms = (self.settings.node_timeout_ms * 2).max(VOTES_MIN_MS);
        let age_ms = self.election.at_ms.map(|at| now - at);
        if age_ms.is_none_or(|age| age > votes_ms * 2) {
            self.plan_election();
            return;
        }
        if !self.election.is_asked && self.manual.is_none() {
            let rank_delay_ms = self.rank_delay_ms();
            let added_ms = rank_delay_ms - self.election.rank_delay_ms;
            self.election.rank_delay_ms = rank_delay_ms;
            self.election.at_ms = self.election.at_ms.map(|at| at + added_ms);
        }
        let age_ms = self.election.at_ms.map_or(0, |at| now - at);
        if age_ms < 0 || age_ms > votes_ms {
            return;
        }
        if !self.election.is_asked {
            self.ask_for_votes();
        } else if self.election.voters.len() >= self.quorum() {
            let own = &mut self.table[self.myself];
            own.config_epoch = own.config_epoch.max(self.election.epoch);
            self.log(format!(
                "Failover election won for epoch {}: I'm the new primary.",
                self.election.epoch
            ));
            self.take_over();
        }
    }

    /// Whether the primary was silent for longer than data may be old. The time until it was found to fail
    /// does not count.
    fn is_data_old(&self) -> bool {
        let timeout_ms = self.settings.node_timeout_ms;
        let mut silent_ms = self.replication.silent_ms;
        if silent_ms > timeout_ms {
            silent_ms -= timeout_ms;
        }
        let factor = self.settings.replica_validity_factor;
        factor != 0 && silent_ms > self.settings.replication_ping_ms + timeout_ms.saturating_mul(factor)
    }

    fn plan_election(&mut self) {
        let now = self.now.mono_ms;
        let rank = if self.manual.is_some() { 0 } else { self.rank() };
        let rank_delay_ms = if self.manual.is_some() { 0 } else { self.rank_delay_ms() };
        let delay_ms = FAIL_SPREAD_MS + self.random.below(FAIL_SPREAD_MS as u64) as i64 + rank_delay_ms;
        let delay_ms = if self.manual.is_some() { 0 } else { delay_ms };
        self.election.forget_plan();
        self.election.at_ms = Some(now + delay_ms);
        self.election.rank_delay_ms = rank_delay_ms;
        self.log(format!(
            "Start of election delayed for {delay_ms} milliseconds (rank #{rank}, offset {}).",
            self.replication.offset
        ));
        self.pong_to_siblings();
        if self.manual.is_some() {
            self.ask_for_votes();
        }
    }

    fn ask_for_votes(&mut self) {
        self.current_epoch = self.current_epoch.saturating_add(1);
        self.election.epoch = self.current_epoch;
        self.election.is_asked = true;
        self.election.voters.clear();
        self.log(format!("Starting a failover election for epoch {}.", self.current_epoch));
        let mut header = self.header();
        header.forces_vote = self.manual.is_some();
        self.broadcast(header, Body::VoteRequest);
        self.save(true);
        self.todo.state = true;
    }

    /// Takes the place of the own primary. The epoch for that has been taken.
    pub(super) fn take_over(&mut self) {
        let Some(old) = self.table[self.myself].primary else { return };
        self.set_as_primary(self.myself);
        let slots: Vec<u16> = self.table[old].slots().iter().collect();
        for slot in slots {
            self.table.assign(slot, self.myself);
        }
        self.election.forget_plan();
        self.end_manual_failover();
        self.save(true);
        self.todo.state = true;
        self.todo.broadcast = true;
    }
}

/// Manual failovers.
impl Cluster {
    /// Ends a manual failover, whatever has become of it.
    pub(super) fn end_manual_failover(&mut self) {
        if self.manual.take().is_some_and(|manual| manual.replica.is_some()) {
            self.actions.push(Action::ResumeWrites);
        }
    }

    pub(super) fn check_manual_failover_time(&mut self) {
        if self.manual.as_ref().is_some_and(|manual| manual.until_ms < self.now.mono_ms) {
            self.log("Manual failover timed out.".into());
            self.end_manual_failover();
        }
    }

    /// Begins a manual failover; its end is set.
    pub(super) fn begin_manual_failover(&mut self) -> &mut ManualFailover {
        self.end_manual_failover();
        let until_ms = self.now.mono_ms + self.settings.manual_failover_timeout_ms;
        self.manual.insert(ManualFailover { until_ms, ..ManualFailover::default() })
    }

    /// Of a replica: asks the primary to pause.
    pub(super) fn ask_for_pause(&mut self) {
        let Some(primary) = self.table[self.myself].primary else { return };
        if let Some(manual) = &mut self.manual {
            manual.asked_ms = Some(self.now.mono_ms);
            self.send_to(primary, Body::ManualFailover);
        }
    }

    /// Asks the primary again to pause, if it has not.
    pub(super) fn ask_for_pause_again(&mut self) {
        let is_due = self.manual.as_ref().is_some_and(|manual| {
            let is_unheard = manual.offset.is_none() && !manual.can_start;
            is_unheard && manual.asked_ms.is_some_and(|asked| self.now.mono_ms - asked >= PAUSE_RETRY_MS)
        });
        if is_due {
            self.ask_for_pause();
        }
    }

    /// Of a primary: a replica wants to take over.
    pub(super) fn start_pause(&mut self, sender: NodeKey) {
        if self.table[sender].primary != Some(self.myself) {
            return;
        }
        self.begin_manual_failover().replica = Some(sender);
        self.actions.push(Action::PauseWrites(self.settings.manual_failover_timeout_ms * PAUSE_FACTOR));
        self.log(format!("Manual failover requested by replica {}.", self.table[sender].id));
    }

    /// [`Action::PauseWrites`] has been carried out: nothing is added to this offset any more, which the
    /// replica that takes over learns at once.
    pub fn writes_paused(&mut self, now: Time, offset: u64) {
        self.now = now;
        let Some(manual) = &mut self.manual else { return };
        let Some(replica) = manual.replica else { return };
        manual.is_paused = true;
        self.replication.offset = offset;
        if let Some(link) = self.table[replica].link {
            self.send_ping(link, PingKind::Ping);
        }
        self.finish();
    }

    /// Of a replica: the primary has paused at this offset.
    pub(super) fn hear_paused_offset(&mut self, offset: u64) {
        if let Some(manual) = self.manual.as_mut().filter(|manual| manual.offset.is_none()) {
            manual.offset = Some(offset);
            self.todo.manual_failover = true;
        }
    }

    /// Of a replica: begins the election once everything of the primary has been applied.
    pub(super) fn go_on_with_manual_failover(&mut self) {
        let applied = self.replication.offset;
        if let Some(manual) = &mut self.manual
            && !manual.can_start
            && manual.offset == Some(applied)
        {
            manual.can_start = true;
            self.todo.failover = true;
        }
    }

    /// Of a replica: the offset may have reached the primary's. Cheap when no manual failover waits for it.
    pub fn replicated_to(&mut self, now: Time, offset: u64) {
        self.replication.offset = offset;
        if self.manual.as_ref().is_some_and(|manual| !manual.can_start) {
            self.now = now;
            self.todo.manual_failover = true;
            self.finish();
        }
    }
}
