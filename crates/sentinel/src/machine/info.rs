//! Consequences of an instance's INFO.
//!
//! Invariant: its facts are always recorded; actions wait while the clock is not trusted.

use super::Sentinel;
use crate::events::Level;
use crate::info::{Report, SaidRole, parse};
use crate::instance::{FailoverState, Flags, InstanceId, Role};
use crate::limits::INFO_MAX_BYTES;

impl Sentinel {
    /// Takes in an INFO.
    pub(super) fn refresh_info(&mut self, id: InstanceId, text: &[u8]) {
        let report = parse(&String::from_utf8_lossy(text));
        let kept = text.get(..text.len().min(INFO_MAX_BYTES)).map(<[u8]>::to_vec);
        self.get_mut(id).reported.text = kept;
        self.note_run_id(id, &report);
        if self.get(id).role == Role::Primary {
            self.note_replicas(id, &report);
        }
        self.note_replica_fields(id, &report);
        let said = report.role.map(|role| match role {
            SaidRole::Primary => Role::Primary,
            SaidRole::Replica => Role::Replica,
        });
        self.note_role(id, said);
        if self.tilt_since_ms.is_some() || self.get(id).role != Role::Replica {
            // A primary that says it is a replica is found to be down in time.
            return;
        }
        match said {
            Some(Role::Primary) => self.replica_is_primary(id),
            Some(Role::Replica) => {
                self.fix_primary_of(id);
                self.note_reconfiguration(id);
            }
            _ => {}
        }
    }

    fn note_run_id(&mut self, id: InstanceId, report: &Report) {
        let Some(run_id) = report.run_id.clone() else { return };
        let now_ms = self.now_ms;
        if self.get(id).run_id.as_ref().is_some_and(|known| *known != run_id) {
            self.event(Level::Notice, "+reboot", id, "");
            let instance = self.get_mut(id);
            if instance.role == Role::Primary && instance.settings.reboot_down_after_ms != 0 {
                instance.flags.set(Flags::PRIMARY_REBOOT);
                instance.reboot_ms = now_ms;
            }
        }
        self.get_mut(id).run_id = Some(run_id);
    }

    fn note_replicas(&mut self, id: InstanceId, report: &Report) {
        for (host, port) in &report.replicas {
            let Ok(address) = self.address_of(host, *port, true) else { continue };
            let name = address.announced_with_port(self.settings.announce_hostnames);
            if self.get(id).replicas.contains_key(&name) {
                continue;
            }
            if let Ok(replica) = self.create_replica(id, host, *port) {
                self.event(Level::Notice, "+slave", replica, "");
                self.save();
            }
        }
    }

    fn note_replica_fields(&mut self, id: InstanceId, report: &Report) {
        let now_ms = self.now_ms;
        let reported = &mut self.get_mut(id).reported;
        reported.refreshed_ms = Some(now_ms);
        reported.link_down_ms = report.link_down_ms;
        if let Some(host) = &report.primary_host
            && !reported.primary_host.as_ref().is_some_and(|known| known.eq_ignore_ascii_case(host))
        {
            reported.primary_host = Some(host.clone());
            reported.primary_since_ms = now_ms;
        }
        if let Some(port) = report.primary_port.filter(|port| *port != reported.primary_port) {
            reported.primary_port = port;
            reported.primary_since_ms = now_ms;
        }
        reported.is_link_up = report.is_link_up.unwrap_or(reported.is_link_up);
        reported.priority = report.priority.unwrap_or(reported.priority);
        reported.offset = report.offset.unwrap_or(reported.offset);
        reported.is_announced = report.is_announced.unwrap_or(reported.is_announced);
    }

    fn note_role(&mut self, id: InstanceId, said: Option<Role>) {
        let now_ms = self.now_ms;
        let instance = self.get_mut(id);
        if instance.reported.role == said {
            return;
        }
        instance.reported.role = said;
        instance.reported.role_since_ms = now_ms;
        if said == Some(Role::Replica) {
            instance.reported.primary_since_ms = now_ms;
        }
        let name = if said == Some(instance.role) { "+role-change" } else { "-role-change" };
        let word = if said == Some(Role::Primary) { "master" } else { "slave" };
        self.event(Level::Verbose, name, id, &format!(" new reported role is {word}"));
    }

    /// A replica reports that it is a primary: the promotion worked, or another party made it one.
    fn replica_is_primary(&mut self, id: InstanceId) {
        let primary = self.primary_of(id);
        let is_promoted = self.get(id).flags.any(Flags::PROMOTED);
        let known = self.get(primary);
        if is_promoted
            && known.flags.any(Flags::FAILOVER_IN_PROGRESS)
            && known.failover.state == FailoverState::WaitPromotion
        {
            return self.promotion_worked(primary, id);
        }
        // Others may know better: there is time for their hello messages first.
        let wait_ms = self.timing.publish_period_ms * 4;
        let instance = self.get(id);
        let is_settled = instance.was_up_for(wait_ms, self.now_ms)
            && self.now_ms - instance.reported.role_since_ms > wait_ms;
        if !is_promoted && is_settled && self.looks_sane(primary) {
            let address = self.get(primary).address.clone();
            if self.send_replica_of(id, Some(&address)) {
                self.event(Level::Notice, "+convert-to-slave", id, "");
            }
        }
    }

    /// A replica that follows another server is sent back to its primary, after a while.
    fn fix_primary_of(&mut self, id: InstanceId) {
        let primary = self.primary_of(id);
        let address = self.get(primary).address.clone();
        let reported = &self.get(id).reported;
        let (host, port) = (reported.primary_host.clone().unwrap_or_default(), reported.primary_port);
        if port == i64::from(address.port) && self.has_host(&address, &host) {
            return;
        }
        let wait_ms = self.get(primary).settings.failover_timeout_ms;
        let instance = self.get(id);
        let is_settled = instance.was_up_for(wait_ms, self.now_ms)
            && self.now_ms - instance.reported.primary_since_ms > wait_ms;
        if is_settled && self.looks_sane(primary) && self.send_replica_of(id, Some(&address)) {
            self.event(Level::Notice, "+fix-slave-config", id, "");
        }
    }

    /// How far a replica is with following the promoted one.
    fn note_reconfiguration(&mut self, id: InstanceId) {
        let flags = self.get(id).flags;
        if !flags.any(Flags::RECONFIGURE_SENT.with(Flags::RECONFIGURE_IN_PROGRESS)) {
            return;
        }
        let Some(promoted) = self.get(self.primary_of(id)).failover.promoted else { return };
        let address = self.get(promoted).address.clone();
        let reported = self.get(id).reported.clone();
        if flags.any(Flags::RECONFIGURE_SENT)
            && let Some(host) = reported.primary_host
            && reported.primary_port == i64::from(address.port)
            && self.has_host(&address, &host)
        {
            let flags = &mut self.get_mut(id).flags;
            flags.clear(Flags::RECONFIGURE_SENT);
            flags.set(Flags::RECONFIGURE_IN_PROGRESS);
            self.event(Level::Notice, "+slave-reconf-inprog", id, "");
        }
        if self.get(id).flags.any(Flags::RECONFIGURE_IN_PROGRESS) && reported.is_link_up {
            let flags = &mut self.get_mut(id).flags;
            flags.clear(Flags::RECONFIGURE_IN_PROGRESS);
            flags.set(Flags::RECONFIGURE_DONE);
            self.event(Level::Notice, "+slave-reconf-done", id, "");
        }
    }
}
