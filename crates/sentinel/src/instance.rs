//! A Sentinel's knowledge of one instance: a primary, one of its replicas, or another Sentinel that watches
//! the same primary.
//!
//! Invariant: plain state. The machine changes it; nothing here acts.

use std::collections::BTreeMap;

use crate::address::Address;
pub use crate::ids::InstanceId;
use crate::ids::LinkId;

/// What an instance is in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A monitored primary.
    Primary,
    /// A replica of a monitored primary.
    Replica,
    /// Another Sentinel.
    Sentinel,
}

impl Role {
    /// The word in events and replies.
    pub fn word(self) -> &'static str {
        match self {
            Role::Primary => "master",
            Role::Replica => "slave",
            Role::Sentinel => "sentinel",
        }
    }
}

/// A set of states of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// Down, as far as this Sentinel can tell.
    pub const SUBJECTIVELY_DOWN: Flags = Flags(1);
    /// Down, as enough Sentinels say.
    pub const OBJECTIVELY_DOWN: Flags = Flags(1 << 1);
    /// Of a Sentinel: it says that its primary is down.
    pub const SAYS_PRIMARY_DOWN: Flags = Flags(1 << 2);
    /// Of a primary: a failover of it is under way.
    pub const FAILOVER_IN_PROGRESS: Flags = Flags(1 << 3);
    /// Of a replica: it is the one that is promoted.
    pub const PROMOTED: Flags = Flags(1 << 4);
    /// Of a replica: REPLICAOF for the promoted one was sent.
    pub const RECONFIGURE_SENT: Flags = Flags(1 << 5);
    /// Of a replica: it says that it follows the promoted one.
    pub const RECONFIGURE_IN_PROGRESS: Flags = Flags(1 << 6);
    /// Of a replica: its link to the promoted one is up.
    pub const RECONFIGURE_DONE: Flags = Flags(1 << 7);
    /// Of a primary: the failover was asked for by an operator.
    pub const FORCE_FAILOVER: Flags = Flags(1 << 8);
    /// A script that blocks the instance was to be killed.
    pub const SCRIPT_KILL_SENT: Flags = Flags(1 << 9);
    /// Of a primary: it has started again, and does not answer PING with PONG yet.
    pub const PRIMARY_REBOOT: Flags = Flags(1 << 10);

    /// In Redis' order, the role between the second and the third.
    const WORDS: [(Flags, &'static str); 11] = [
        (Flags::SUBJECTIVELY_DOWN, "s_down"),
        (Flags::OBJECTIVELY_DOWN, "o_down"),
        (Flags::SAYS_PRIMARY_DOWN, "master_down"),
        (Flags::FAILOVER_IN_PROGRESS, "failover_in_progress"),
        (Flags::PROMOTED, "promoted"),
        (Flags::RECONFIGURE_SENT, "reconf_sent"),
        (Flags::RECONFIGURE_IN_PROGRESS, "reconf_inprog"),
        (Flags::RECONFIGURE_DONE, "reconf_done"),
        (Flags::FORCE_FAILOVER, "force_failover"),
        (Flags::SCRIPT_KILL_SENT, "script_kill_sent"),
        (Flags::PRIMARY_REBOOT, "master_reboot"),
    ];

    /// Both sets.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether one of these is set.
    pub fn any(self, flags: Flags) -> bool {
        self.0 & flags.0 != 0
    }

    /// Sets these.
    pub fn set(&mut self, flags: Flags) {
        self.0 |= flags.0;
    }

    /// Clears these.
    pub fn clear(&mut self, flags: Flags) {
        self.0 &= !flags.0;
    }

    /// As SENTINEL MASTER shows them, with the role and whether the link is down.
    pub fn text(self, role: Role, is_disconnected: bool) -> String {
        let words = |range: std::ops::Range<usize>| {
            Flags::WORDS[range].iter().filter(|(flag, _)| self.any(*flag)).map(|(_, word)| *word)
        };
        let link = is_disconnected.then_some("disconnected");
        let all = words(0..2).chain([role.word()]).chain(link).chain(words(2..Flags::WORDS.len()));
        all.collect::<Vec<_>>().join(",")
    }
}

/// Subjectively or objectively down.
pub const DOWN: Flags = Flags::SUBJECTIVELY_DOWN.with(Flags::OBJECTIVELY_DOWN);

/// How far a failover has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailoverState {
    /// No failover is under way.
    #[default]
    None,
    /// Waits to be elected.
    WaitStart,
    /// Selects a replica.
    SelectReplica,
    /// REPLICAOF NO ONE is sent to the chosen replica.
    SendReplicaOfNoOne,
    /// Waits until it is.
    WaitPromotion,
    /// REPLICAOF for the promoted one is sent to the others.
    ReconfigureReplicas,
    /// The configuration is changed next.
    UpdateConfig,
}

impl FailoverState {
    /// The word that SENTINEL MASTER shows.
    pub fn word(self) -> &'static str {
        match self {
            FailoverState::None => "none",
            FailoverState::WaitStart => "wait_start",
            FailoverState::SelectReplica => "select_slave",
            FailoverState::SendReplicaOfNoOne => "send_slaveof_noone",
            FailoverState::WaitPromotion => "wait_promotion",
            FailoverState::ReconfigureReplicas => "reconf_slaves",
            FailoverState::UpdateConfig => "update_config",
        }
    }
}

/// The failover of a primary.
#[derive(Clone, Debug, Default)]
pub struct Failover {
    /// How far it has got.
    pub state: FailoverState,
    /// Since when.
    pub changed_ms: i64,
    /// When this Sentinel last tried, or voted for another that does.
    pub started_ms: i64,
    /// The `started_ms` for which it was logged that the next attempt has to wait.
    pub delay_logged_ms: i64,
    /// The epoch that it is done in.
    pub epoch: u64,
    /// The replica that becomes the primary.
    pub promoted: Option<InstanceId>,
}

/// A vote for a leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vote {
    /// The candidate that it is for.
    pub leader: Option<String>,
    /// In which epoch.
    pub epoch: u64,
}

/// What of a primary its users set.
#[derive(Clone, Debug)]
pub struct PrimarySettings {
    /// Sentinels that have to say that it is down.
    pub quorum: u32,
    /// Replicas that are reconfigured for a promoted one at once.
    pub parallel_syncs: i64,
    /// `failover-timeout`.
    pub failover_timeout_ms: i64,
    /// `master-reboot-down-after-period`; 0 for none.
    pub reboot_down_after_ms: i64,
    /// `auth-user`.
    pub auth_user: Option<Vec<u8>>,
    /// `auth-pass`.
    pub auth_pass: Option<Vec<u8>>,
    /// `notification-script`.
    pub notification_script: Option<String>,
    /// `client-reconfig-script`.
    pub client_reconfig_script: Option<String>,
    /// `rename-command`, by the name in upper case.
    pub renamed_commands: BTreeMap<String, String>,
}

/// What an instance says of itself in INFO.
#[derive(Clone, Debug)]
pub struct Reported {
    /// When it last did; `None` when it never has.
    pub refreshed_ms: Option<i64>,
    /// The last INFO, for SENTINEL INFO-CACHE.
    pub text: Option<Vec<u8>>,
    /// Whether it is a primary or a replica; `None` if it said neither.
    pub role: Option<Role>,
    /// Since when.
    pub role_since_ms: i64,
    /// When its primary's address last changed.
    pub primary_since_ms: i64,
    /// How long its link to its primary has been down.
    pub link_down_ms: i64,
    /// Whether that link is up.
    pub is_link_up: bool,
    /// Its primary's host.
    pub primary_host: Option<String>,
    /// Its primary's port.
    pub primary_port: i64,
    /// Its priority; 0 says never to promote it.
    pub priority: i64,
    /// Bytes of its primary's stream that it has processed.
    pub offset: u64,
    /// Whether clients see it.
    pub is_announced: bool,
}

/// See the [module docs](self).
#[derive(Clone, Debug)]
pub struct Instance {
    /// Its role.
    pub role: Role,
    /// A primary's name, a replica's address, a Sentinel's id.
    pub name: String,
    /// Its run id; a Sentinel's id.
    pub run_id: Option<String>,
    /// Where it is.
    pub address: Address,
    /// The link to it, which Sentinels of several primaries share.
    pub link: LinkId,
    /// The primary, for a replica or a Sentinel.
    pub primary: Option<InstanceId>,
    /// Its states.
    pub flags: Flags,
    /// `down-after-milliseconds`.
    pub down_after_ms: i64,
    /// Since when it is subjectively down, or last was.
    pub subjectively_down_ms: Option<i64>,
    /// Since when it is objectively down, or last was.
    pub objectively_down_ms: Option<i64>,
    /// When it was found to have started again.
    pub reboot_ms: i64,
    /// When a hello message was last published at it.
    pub published_ms: i64,
    /// Of a Sentinel: when it last said hello.
    pub hello_ms: i64,
    /// Of a Sentinel: when it last said whether the primary is down.
    pub asked_ms: i64,
    /// Its statements about itself.
    pub reported: Reported,
    /// Of a replica: when REPLICAOF for the promoted one was sent.
    pub reconfigure_sent_ms: i64,
    /// Of a primary: this Sentinel's vote; of a Sentinel: its vote.
    pub vote: Vote,
    /// Of a primary: the epoch of its configuration.
    pub config_epoch: u64,
    /// Of a primary: its users' settings.
    pub settings: PrimarySettings,
    /// Of a primary: its failover.
    pub failover: Failover,
    /// Of a primary: its replicas by name.
    pub replicas: BTreeMap<String, InstanceId>,
    /// Of a primary: other Sentinels by id.
    pub sentinels: BTreeMap<String, InstanceId>,
}

impl Instance {
    /// Whether it was not down within the last `ms`.
    pub fn was_up_for(&self, ms: i64, now_ms: i64) -> bool {
        let last = self.subjectively_down_ms.max(self.objectively_down_ms);
        last.is_none_or(|since_ms| now_ms - since_ms > ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_told_in_redis_order() {
        let mut flags = Flags::default();
        assert_eq!(flags.text(Role::Replica, false), "slave");
        flags.set(DOWN.with(Flags::FAILOVER_IN_PROGRESS).with(Flags::FORCE_FAILOVER));
        let expected = "s_down,o_down,master,disconnected,failover_in_progress,force_failover";
        assert_eq!(flags.text(Role::Primary, true), expected);
        flags.clear(DOWN);
        assert!(!flags.any(DOWN) && flags.any(Flags::FORCE_FAILOVER));
    }
}
