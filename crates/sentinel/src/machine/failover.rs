//! A failover, step by step: wait for the election, select a replica, promote it, have the others follow it,
//! change the configuration.
//!
//! Invariant: until the promoted replica says that it is a primary the failover can be given up; from then on
//! the epoch of the election is the configuration's, is saved, and the failover ends, if need be by timeout.

use super::{Output, Sentinel};
use crate::address::Address;
use crate::events::Level;
use crate::instance::{FailoverState, Flags, Instance, InstanceId};
use std::cmp::Ordering;

impl Sentinel {
    /// Begins a failover with a new epoch.
    pub(super) fn start_failover(&mut self, id: InstanceId) {
        self.current_epoch += 1;
        let (epoch, now_ms, started_ms) = (self.current_epoch, self.now_ms, self.desynced_ms());
        let primary = self.get_mut(id);
        primary.flags.set(Flags::FAILOVER_IN_PROGRESS);
        primary.failover.state = FailoverState::WaitStart;
        primary.failover.epoch = epoch;
        primary.failover.started_ms = started_ms;
        primary.failover.changed_ms = now_ms;
        self.text_event(Level::Warning, "+new-epoch", id, &epoch.to_string());
        self.event(Level::Warning, "+try-failover", id, "");
    }

    /// Begins a failover of a primary that is down, unless one is under way or was a moment ago.
    pub(super) fn start_failover_if_needed(&mut self, id: InstanceId) -> bool {
        let primary = self.get(id);
        let is_down = primary.flags.any(Flags::OBJECTIVELY_DOWN);
        if !is_down || primary.flags.any(Flags::FAILOVER_IN_PROGRESS) {
            return false;
        }
        let (started_ms, logged_ms) = (primary.failover.started_ms, primary.failover.delay_logged_ms);
        let next_ms = started_ms.saturating_add(primary.settings.failover_timeout_ms.saturating_mul(2));
        if self.now_ms < next_ms {
            if logged_ms != started_ms {
                self.get_mut(id).failover.delay_logged_ms = started_ms;
                let wait_ms = next_ms - self.now_ms;
                let text = format!("Next failover delay: I will not start a failover before {wait_ms} ms");
                self.log(Level::Notice, text);
            }
            return false;
        }
        self.start_failover(id);
        true
    }

    /// Takes the next step, if it is time.
    pub(super) fn continue_failover(&mut self, id: InstanceId) {
        let primary = self.get(id);
        if !primary.flags.any(Flags::FAILOVER_IN_PROGRESS) {
            return;
        }
        match primary.failover.state {
            FailoverState::WaitStart => self.await_election(id),
            FailoverState::SelectReplica => self.select(id),
            FailoverState::SendReplicaOfNoOne => self.promote(id),
            FailoverState::WaitPromotion => {
                if self.is_step_late(id) {
                    self.abort(id, "-failover-abort-slave-timeout");
                }
            }
            FailoverState::ReconfigureReplicas => {
                self.reconfigure_next(id);
                self.check_end(id);
            }
            FailoverState::None | FailoverState::UpdateConfig => {}
        }
    }

    fn enter(&mut self, id: InstanceId, state: FailoverState) {
        let now_ms = self.now_ms;
        let failover = &mut self.get_mut(id).failover;
        failover.state = state;
        failover.changed_ms = now_ms;
    }

    fn is_step_late(&self, id: InstanceId) -> bool {
        let primary = self.get(id);
        self.now_ms - primary.failover.changed_ms > primary.settings.failover_timeout_ms
    }

    pub(super) fn abort(&mut self, id: InstanceId, event: &str) {
        self.event(Level::Warning, event, id, "");
        self.enter(id, FailoverState::None);
        let primary = self.get_mut(id);
        primary.flags.clear(Flags::FAILOVER_IN_PROGRESS.with(Flags::FORCE_FAILOVER));
        if let Some(promoted) = primary.failover.promoted.take() {
            self.get_mut(promoted).flags.clear(Flags::PROMOTED);
        }
    }

    /// A failover that an operator wanted needs no election.
    fn await_election(&mut self, id: InstanceId) {
        let epoch = self.get(id).failover.epoch;
        let is_leader = self.leader(id, epoch).is_some_and(|leader| leader.eq_ignore_ascii_case(&self.id));
        let primary = self.get(id);
        if !is_leader && !primary.flags.any(Flags::FORCE_FAILOVER) {
            let timeout_ms = self.timing.election_timeout_ms.min(primary.settings.failover_timeout_ms);
            if self.now_ms - primary.failover.started_ms > timeout_ms {
                self.abort(id, "-failover-abort-not-elected");
            }
            return;
        }
        self.event(Level::Warning, "+elected-leader", id, "");
        if self.simulated.after_election {
            self.crash();
        }
        self.enter(id, FailoverState::SelectReplica);
        self.event(Level::Warning, "+failover-state-select-slave", id, "");
    }

    fn crash(&mut self) {
        self.log(Level::Warning, "Sentinel CRASH because of SENTINEL simulate-failure".into());
        self.output(Output::Crash);
    }

    fn select(&mut self, id: InstanceId) {
        let Some(replica) = self.best_replica(id) else {
            return self.abort(id, "-failover-abort-no-good-slave");
        };
        self.event(Level::Warning, "+selected-slave", replica, "");
        self.get_mut(replica).flags.set(Flags::PROMOTED);
        self.get_mut(id).failover.promoted = Some(replica);
        self.enter(id, FailoverState::SendReplicaOfNoOne);
        self.event(Level::Notice, "+failover-state-send-slaveof-noone", replica, "");
    }

    /// The replica to promote: of those that are reachable, fresh and were connected to the primary until it
    /// failed, the one of the lowest priority, then with the most of the stream, then of the first run id.
    pub(super) fn best_replica(&self, id: InstanceId) -> Option<InstanceId> {
        let primary = self.get(id);
        let is_down = primary.flags.any(Flags::SUBJECTIVELY_DOWN);
        let down_ms = primary.subjectively_down_ms.filter(|_| is_down).map_or(0, |at_ms| self.now_ms - at_ms);
        let link_down_max_ms = down_ms.saturating_add(primary.down_after_ms.saturating_mul(10));
        let info_max_ms = match is_down {
            true => self.timing.ping_period_ms * 5,
            false => self.timing.info_period_ms * 3,
        };
        let is_fit = |replica: &InstanceId| {
            let reported = &self.get(*replica).reported;
            let is_fresh = reported.refreshed_ms.is_some_and(|at_ms| self.now_ms - at_ms <= info_max_ms);
            self.is_reachable(*replica)
                && reported.priority != 0
                && is_fresh
                && reported.link_down_ms <= link_down_max_ms
        };
        let fit = primary.replicas.values().copied().filter(is_fit);
        fit.min_by(|first, second| compare_for_promotion(self.get(*first), self.get(*second)))
    }

    fn promote(&mut self, id: InstanceId) {
        let Some(promoted) = self.get(id).failover.promoted else { return };
        if self.link_of(promoted).is_disconnected {
            if self.is_step_late(id) {
                self.abort(id, "-failover-abort-slave-timeout");
            }
            return;
        }
        if self.send_replica_of(promoted, None) {
            self.event(Level::Notice, "+failover-state-wait-promotion", promoted, "");
            self.enter(id, FailoverState::WaitPromotion);
        }
    }

    /// The promoted replica says that it is a primary: the new configuration holds from here on.
    pub(super) fn promotion_worked(&mut self, id: InstanceId, promoted: InstanceId) {
        let primary = self.get_mut(id);
        primary.config_epoch = primary.failover.epoch;
        self.enter(id, FailoverState::ReconfigureReplicas);
        self.save();
        self.event(Level::Warning, "+promoted-slave", promoted, "");
        if self.simulated.after_promotion {
            self.crash();
        }
        self.event(Level::Warning, "+failover-state-reconf-slaves", id, "");
        let (from, to) = (self.get(id).address.clone(), self.get(promoted).address.clone());
        self.call_reconfig_script(id, "leader", &from, &to);
        self.hurry_hello(id);
    }

    /// Sends REPLICAOF for the promoted one, to at most `parallel-syncs` replicas at once.
    fn reconfigure_next(&mut self, id: InstanceId) {
        let Some(promoted) = self.get(id).failover.promoted else { return };
        let address = self.get(promoted).address.clone();
        let under_way = Flags::RECONFIGURE_SENT.with(Flags::RECONFIGURE_IN_PROGRESS);
        let replicas = self.replicas_of(id);
        let mut count = replicas.iter().filter(|replica| self.get(**replica).flags.any(under_way)).count();
        let (now_ms, timeout_ms) = (self.now_ms, self.timing.reconfigure_timeout_ms);
        for replica in replicas {
            if count as i64 >= self.get(id).settings.parallel_syncs {
                break;
            }
            let instance = self.get(replica);
            let (flags, sent_ms) = (instance.flags, instance.reconfigure_sent_ms);
            if flags.any(Flags::PROMOTED.with(Flags::RECONFIGURE_DONE)) {
                continue;
            }
            if flags.any(Flags::RECONFIGURE_SENT) && now_ms - sent_ms > timeout_ms {
                // It does not hold up the others; that it follows the wrong one is found and mended later.
                self.event(Level::Notice, "-slave-reconf-sent-timeout", replica, "");
                let flags = &mut self.get_mut(replica).flags;
                flags.clear(Flags::RECONFIGURE_SENT);
                flags.set(Flags::RECONFIGURE_DONE);
                continue;
            }
            if !flags.any(under_way) && self.reconfigure(replica, &address, "+slave-reconf-sent") {
                count += 1;
            }
        }
    }

    /// Sends REPLICAOF for the promoted one to a replica; false if it is not connected.
    fn reconfigure(&mut self, replica: InstanceId, address: &Address, event: &str) -> bool {
        if self.link_of(replica).is_disconnected || !self.send_replica_of(replica, Some(address)) {
            return false;
        }
        let now_ms = self.now_ms;
        let instance = self.get_mut(replica);
        instance.flags.set(Flags::RECONFIGURE_SENT);
        instance.reconfigure_sent_ms = now_ms;
        self.event(Level::Notice, event, replica, "");
        true
    }

    /// The failover ends when every replica that is up follows the promoted one, or it is late.
    fn check_end(&mut self, id: InstanceId) {
        let Some(promoted) = self.get(id).failover.promoted else { return };
        if self.get(promoted).flags.any(Flags::SUBJECTIVELY_DOWN) {
            return;
        }
        let done = Flags::PROMOTED.with(Flags::RECONFIGURE_DONE).with(Flags::SUBJECTIVELY_DOWN);
        let is_late = self.is_step_late(id);
        let replicas = self.replicas_of(id);
        let is_complete = replicas.iter().all(|replica| self.get(*replica).flags.any(done));
        if is_late {
            self.event(Level::Warning, "+failover-end-for-timeout", id, "");
        }
        if is_complete || is_late {
            self.event(Level::Warning, "+failover-end", id, "");
            self.enter(id, FailoverState::UpdateConfig);
        }
        if is_late {
            let address = self.get(promoted).address.clone();
            let told = Flags::PROMOTED.with(Flags::RECONFIGURE_DONE).with(Flags::RECONFIGURE_SENT);
            for replica in replicas {
                if !self.get(replica).flags.any(told) {
                    self.reconfigure(replica, &address, "+slave-reconf-sent-be");
                }
            }
        }
    }

    /// Ends a failover that has got to its last step: the promoted replica takes the primary's place.
    pub(super) fn switch_if_promoted(&mut self, id: InstanceId) {
        let Some(primary) = self.instances.get(&id) else { return };
        if primary.failover.state != FailoverState::UpdateConfig {
            return;
        }
        let to = self.get(primary.failover.promoted.unwrap_or(id)).address.clone();
        let message = format!(
            "{} {} {} {} {}",
            primary.name,
            self.announced(&primary.address),
            primary.address.port,
            self.announced(&to),
            to.port
        );
        self.text_event(Level::Warning, "+switch-master", id, &message);
        self.reset_to_address(id, &to.host, i64::from(to.port));
    }
}

/// Which replica is promoted rather than the other: `Less` is the better. One without a run id comes last.
fn compare_for_promotion(first: &Instance, second: &Instance) -> Ordering {
    let run_id = |instance: &Instance| instance.run_id.as_ref().map(|id| id.to_ascii_lowercase());
    let by_priority = first.reported.priority.cmp(&second.reported.priority);
    let by_offset = second.reported.offset.cmp(&first.reported.offset);
    by_priority.then(by_offset).then_with(|| match (run_id(first), run_id(second)) {
        (Some(first), Some(second)) => first.cmp(&second),
        (first, second) => second.is_some().cmp(&first.is_some()),
    })
}
