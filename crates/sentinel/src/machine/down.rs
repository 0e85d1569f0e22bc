//! Instances that are down: as far as this Sentinel sees, and as enough Sentinels agree.

use martlet_client::resp::Reply;

use super::Sentinel;
use crate::events::Level;
use crate::instance::{FailoverState, Flags, InstanceId, Role};
use crate::link::Awaited;

impl Sentinel {
    /// Whether an instance is down from here: it does not answer, or is a primary that says it is a replica
    /// for longer than a failover of others takes, or that started again and does not serve yet.
    pub(super) fn check_subjectively_down(&mut self, id: InstanceId) {
        let silent_ms = self.silent_ms(id);
        self.close_idle_connections(id);
        let (now_ms, info_period_ms) = (self.now_ms, self.timing.info_period_ms);
        let instance = self.get(id);
        let down_after_ms = instance.down_after_ms;
        let is_demoted = instance.role == Role::Primary
            && instance.reported.role == Some(Role::Replica)
            && now_ms - instance.reported.role_since_ms > down_after_ms + info_period_ms * 2;
        let is_rebooting = instance.flags.any(Flags::PRIMARY_REBOOT)
            && now_ms - instance.reboot_ms > instance.settings.reboot_down_after_ms;
        let is_down = silent_ms > down_after_ms || is_demoted || is_rebooting;
        let was_down = instance.flags.any(Flags::SUBJECTIVELY_DOWN);
        if is_down && !was_down {
            self.event(Level::Warning, "+sdown", id, "");
            let instance = self.get_mut(id);
            instance.subjectively_down_ms = Some(now_ms);
            instance.flags.set(Flags::SUBJECTIVELY_DOWN);
        } else if was_down && !is_down {
            self.event(Level::Warning, "-sdown", id, "");
            self.get_mut(id).flags.clear(Flags::SUBJECTIVELY_DOWN.with(Flags::SCRIPT_KILL_SENT));
        }
    }

    /// How long an instance has not answered.
    fn silent_ms(&self, id: InstanceId) -> i64 {
        let link = self.link_of(id);
        match link.active_ping_ms {
            Some(sent_ms) => self.now_ms - sent_ms,
            None if link.is_disconnected => self.now_ms - link.available_ms,
            None => 0,
        }
    }

    /// Whether enough Sentinels say that a primary is down. They need not say so at the same moment.
    pub(super) fn check_objectively_down(&mut self, id: InstanceId) {
        let primary = self.get(id);
        let says_down = |sentinel: &InstanceId| self.get(*sentinel).flags.any(Flags::SAYS_PRIMARY_DOWN);
        let count = 1 + primary.sentinels.values().filter(|sentinel| says_down(sentinel)).count();
        let quorum = primary.settings.quorum;
        let is_down = primary.flags.any(Flags::SUBJECTIVELY_DOWN) && count >= quorum as usize;
        let was_down = primary.flags.any(Flags::OBJECTIVELY_DOWN);
        if is_down && !was_down {
            self.event(Level::Warning, "+odown", id, &format!(" #quorum {count}/{quorum}"));
            let now_ms = self.now_ms;
            let primary = self.get_mut(id);
            primary.flags.set(Flags::OBJECTIVELY_DOWN);
            primary.objectively_down_ms = Some(now_ms);
        } else if was_down && !is_down {
            self.event(Level::Warning, "-odown", id, "");
            self.get_mut(id).flags.clear(Flags::OBJECTIVELY_DOWN);
        }
    }

    /// Asks the other Sentinels whether a primary that seems down is, and for their votes if this one tries a
    /// failover; `is_forced` asks also those that were asked a moment ago. Old answers are dropped.
    pub(super) fn ask_other_sentinels(&mut self, id: InstanceId, is_forced: bool) {
        let (now_ms, period_ms) = (self.now_ms, self.timing.ask_period_ms);
        let is_down = self.get(id).flags.any(Flags::SUBJECTIVELY_DOWN);
        let request = is_down.then(|| self.state_request(id));
        for sentinel in self.sentinels_of(id) {
            let elapsed_ms = now_ms - self.get(sentinel).asked_ms;
            if elapsed_ms > period_ms * 5 {
                let instance = self.get_mut(sentinel);
                instance.flags.clear(Flags::SAYS_PRIMARY_DOWN);
                instance.vote.leader = None;
            }
            let is_due = is_forced || elapsed_ms >= period_ms;
            if let Some(request) = request.as_ref().filter(|_| is_due)
                && !self.link_of(sentinel).is_disconnected
            {
                self.send(sentinel, Awaited::PrimaryState, request.clone());
            }
        }
    }

    fn state_request(&self, id: InstanceId) -> Vec<Vec<u8>> {
        let primary = self.get(id);
        // Votes are wanted for the epoch of the failover, as long as it waits for them.
        let (candidate, epoch) = match primary.failover.state {
            FailoverState::WaitStart => (self.id.as_str(), primary.failover.epoch),
            _ => ("*", self.current_epoch),
        };
        let port = primary.address.port.to_string();
        let epoch = epoch.to_string();
        let words = ["is-master-down-by-addr", self.announced(&primary.address), &port, &epoch, candidate];
        let mut request = vec![self.command_word(id, "SENTINEL")];
        request.extend(words.iter().map(|word| word.as_bytes().to_vec()));
        request
    }

    /// What another Sentinel answers: whether the primary is down, and its vote.
    pub(super) fn receive_primary_state(&mut self, id: InstanceId, reply: &Reply) {
        let Reply::Array(parts) = reply else { return };
        let [Reply::Int(is_down), Reply::Bulk(leader), Reply::Int(epoch)] = &parts[..] else { return };
        let leader = String::from_utf8_lossy(leader).into_owned();
        let (now_ms, epoch) = (self.now_ms, (*epoch).max(0) as u64);
        let instance = self.get_mut(id);
        instance.asked_ms = now_ms;
        match is_down {
            1 => instance.flags.set(Flags::SAYS_PRIMARY_DOWN),
            _ => instance.flags.clear(Flags::SAYS_PRIMARY_DOWN),
        }
        if leader == "*" {
            return;
        }
        let is_other_epoch = instance.vote.epoch != epoch;
        let name = instance.name.clone();
        instance.vote = crate::instance::Vote { leader: Some(leader.clone()), epoch };
        if is_other_epoch {
            self.log(Level::Notice, format!("{name} voted for {leader} {epoch}"));
        }
    }

    /// What this Sentinel answers when asked: whether the primary at an address is down, and its vote if
    /// `candidate` is no `*`.
    pub fn is_primary_down(
        &mut self,
        now_ms: i64,
        host: &str,
        port: i64,
        epoch: u64,
        candidate: &str,
    ) -> (bool, crate::instance::Vote) {
        self.now_ms = now_ms;
        let nothing = (false, crate::instance::Vote::default());
        let Ok(address) = self.address_of(host, port, true) else { return nothing };
        let mut primaries = self.primaries.values();
        let Some(id) = primaries.find(|id| self.get(**id).address.is_same(&address)).copied() else {
            return nothing;
        };
        let is_down = self.tilt_since_ms.is_none() && self.get(id).flags.any(Flags::SUBJECTIVELY_DOWN);
        match candidate {
            "*" => (is_down, crate::instance::Vote::default()),
            _ => (is_down, self.vote(id, epoch, candidate)),
        }
    }
}
