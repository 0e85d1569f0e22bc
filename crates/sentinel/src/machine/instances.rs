//! Instances come and go.
//!
//! Invariant: an instance is in the table of its kind (primaries, or its primary's replicas or Sentinels) as
//! long as it is there, and its link counts it.

use std::collections::BTreeMap;

use super::Sentinel;
use crate::address::{Address, AddressError, literal_ip};
use crate::events::Level;
use crate::instance::{Failover, Flags, Instance, InstanceId, PrimarySettings, Reported, Role, Vote};
use crate::limits::{PRIMARIES_MAX, REPLICAS_MAX, SENTINELS_MAX};
use crate::link::{Link, LinkId};

const DEFAULT_PRIORITY: i64 = 100;

/// Why an instance cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// There is one of the same name, address or id.
    #[error("{}", duplicate_text(*.0))]
    Duplicate(Role),
    /// Where it would be.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// There are too many.
    #[error("Too many instances.")]
    TooMany,
}

fn duplicate_text(role: Role) -> &'static str {
    match role {
        Role::Primary => "Duplicate master name.",
        Role::Replica => "Duplicate hostname and port for replica.",
        Role::Sentinel => "Duplicate runid for sentinel.",
    }
}

impl Sentinel {
    /// The address of a host and a port; a name that does not resolve is taken if `accepts_unresolved`.
    pub(super) fn address_of(
        &mut self,
        host: &str,
        port: i64,
        accepts_unresolved: bool,
    ) -> Result<Address, AddressError> {
        let port = u16::try_from(port).map_err(|_| AddressError::InvalidPort)?;
        let ip = self.resolve(host);
        if ip.is_none() {
            self.log(Level::Warning, format!("Failed to resolve hostname '{host}'"));
        }
        match ip {
            Some(ip) => Ok(Address { host: host.into(), ip, port }),
            None if self.settings.resolve_hostnames && accepts_unresolved => {
                Ok(Address { host: host.into(), ip: String::new(), port })
            }
            None => Err(AddressError::Unresolved),
        }
    }

    /// The IP address of a host.
    pub(super) fn resolve(&mut self, host: &str) -> Option<String> {
        match literal_ip(host) {
            None if self.settings.resolve_hostnames => self.world.resolve(host).map(|ip| ip.to_string()),
            literal => literal,
        }
    }

    /// Whether an address has this host.
    pub(super) fn has_host(&mut self, address: &Address, host: &str) -> bool {
        match self.resolve(host) {
            Some(ip) => address.ip.eq_ignore_ascii_case(&ip),
            None if self.settings.resolve_hostnames => address.host.eq_ignore_ascii_case(host),
            None => address.ip.eq_ignore_ascii_case(host),
        }
    }

    /// Makes a primary.
    pub(super) fn create_primary(
        &mut self,
        name: &str,
        host: &str,
        port: i64,
        quorum: u32,
    ) -> Result<InstanceId, CreateError> {
        let address = self.address_of(host, port, true)?;
        if self.primaries.contains_key(name) {
            return Err(CreateError::Duplicate(Role::Primary));
        }
        if self.primaries.len() >= PRIMARIES_MAX {
            return Err(CreateError::TooMany);
        }
        let id = self.insert(Role::Primary, name.into(), address, quorum, None);
        self.primaries.insert(name.into(), id);
        Ok(id)
    }

    /// Makes a replica of a primary.
    pub(super) fn create_replica(
        &mut self,
        primary: InstanceId,
        host: &str,
        port: i64,
    ) -> Result<InstanceId, CreateError> {
        let address = self.address_of(host, port, true)?;
        let name = address.announced_with_port(self.settings.announce_hostnames);
        let known = &self.get(primary).replicas;
        if known.contains_key(&name) {
            return Err(CreateError::Duplicate(Role::Replica));
        }
        if known.len() >= REPLICAS_MAX {
            return Err(CreateError::TooMany);
        }
        let id = self.insert(Role::Replica, name.clone(), address, 0, Some(primary));
        self.get_mut(primary).replicas.insert(name, id);
        Ok(id)
    }

    /// Makes another Sentinel of a primary, which shares the link of the same Sentinel of another primary.
    pub(super) fn create_sentinel(
        &mut self,
        primary: InstanceId,
        sentinel_id: &str,
        host: &str,
        port: i64,
    ) -> Result<InstanceId, CreateError> {
        let address = self.address_of(host, port, true)?;
        let known = &self.get(primary).sentinels;
        if known.contains_key(sentinel_id) {
            return Err(CreateError::Duplicate(Role::Sentinel));
        }
        if known.len() >= SENTINELS_MAX {
            return Err(CreateError::TooMany);
        }
        let id = self.insert(Role::Sentinel, sentinel_id.into(), address, 0, Some(primary));
        self.get_mut(id).run_id = Some(sentinel_id.into());
        self.share_link(id);
        self.get_mut(primary).sentinels.insert(sentinel_id.into(), id);
        Ok(id)
    }

    /// Has a Sentinel use the link that the same Sentinel has as another primary's: one connection and one
    /// PING serve all.
    fn share_link(&mut self, id: InstanceId) {
        let instance = self.get(id);
        let (own, name, primary) = (instance.link, instance.name.clone(), instance.primary);
        let others = self.primaries.values().filter(|other| Some(**other) != primary);
        let same = others.filter_map(|other| self.instances[other].sentinels.get(&name)).next().copied();
        let Some(shared) = same.map(|same| self.get(same).link) else { return };
        self.release_link(own);
        if let Some(link) = self.links.get_mut(&shared) {
            link.users += 1;
            self.get_mut(id).link = shared;
        }
    }

    fn insert(
        &mut self,
        role: Role,
        name: String,
        address: Address,
        quorum: u32,
        primary: Option<InstanceId>,
    ) -> InstanceId {
        let now_ms = self.now_ms;
        let link = LinkId(self.fresh_id());
        self.links.insert(link, Link::new(now_ms));
        let id = InstanceId(self.fresh_id());
        let inherited = primary.map(|primary| self.get(primary).down_after_ms);
        let down_after_ms = inherited.unwrap_or(self.timing.default_down_after_ms);
        let instance = Instance {
            role,
            name,
            run_id: None,
            address,
            link,
            primary,
            flags: Flags::default(),
            down_after_ms,
            subjectively_down_ms: None,
            objectively_down_ms: None,
            reboot_ms: 0,
            published_ms: now_ms,
            hello_ms: now_ms,
            asked_ms: now_ms,
            reported: fresh_report(role, now_ms),
            reconfigure_sent_ms: 0,
            vote: Vote::default(),
            config_epoch: 0,
            settings: self.default_settings(quorum),
            failover: Failover::default(),
            replicas: BTreeMap::new(),
            sentinels: BTreeMap::new(),
        };
        self.instances.insert(id, instance);
        id
    }

    fn default_settings(&self, quorum: u32) -> PrimarySettings {
        PrimarySettings {
            quorum,
            parallel_syncs: 1,
            failover_timeout_ms: self.timing.default_failover_timeout_ms,
            reboot_down_after_ms: 0,
            auth_user: None,
            auth_pass: None,
            notification_script: None,
            client_reconfig_script: None,
            renamed_commands: BTreeMap::new(),
        }
    }

    /// Forgets an instance, with all that belongs to it.
    pub(super) fn remove(&mut self, id: InstanceId) {
        let below = self.replicas_of(id).into_iter().chain(self.sentinels_of(id)).collect::<Vec<_>>();
        below.into_iter().for_each(|id| self.remove(id));
        let Some(instance) = self.instances.remove(&id) else { return };
        match instance.primary.and_then(|primary| self.instances.get_mut(&primary)) {
            None => {
                self.primaries.remove(&instance.name);
            }
            Some(primary) if instance.role == Role::Replica => {
                primary.replicas.remove(&instance.name);
                if primary.failover.promoted == Some(id) {
                    primary.failover.promoted = None;
                }
            }
            Some(primary) => {
                primary.sentinels.remove(&instance.name);
            }
        }
        self.release_link(instance.link);
    }

    fn release_link(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.users -= 1;
        if link.users == 0 {
            self.close_command(id);
            self.close_pubsub(id);
            self.links.remove(&id);
        }
    }

    /// Forgets the Sentinels that have this id.
    pub(super) fn remove_sentinel_of(&mut self, primary: InstanceId, sentinel_id: &str) -> bool {
        let known = self.get(primary).sentinels.get(sentinel_id).copied();
        known.inspect(|id| self.remove(*id)).is_some()
    }

    /// Drops the findings about a primary: its replicas, its Sentinels unless they are kept, its failover.
    pub(super) fn reset(&mut self, id: InstanceId, keeps_sentinels: bool) {
        self.replicas_of(id).into_iter().for_each(|replica| self.remove(replica));
        if !keeps_sentinels {
            self.sentinels_of(id).into_iter().for_each(|sentinel| self.remove(sentinel));
        }
        let (now_ms, link) = (self.now_ms, self.get(id).link);
        self.close_command(link);
        self.close_pubsub(link);
        self.link_mut(id).reset_times(now_ms);
        let instance = self.get_mut(id);
        instance.flags = Flags::default();
        instance.vote.leader = None;
        let epoch = instance.failover.epoch;
        instance.failover = Failover { epoch, ..Failover::default() };
        instance.run_id = None;
        instance.reported.primary_host = None;
        instance.reported.role = Some(Role::Primary);
        instance.reported.role_since_ms = now_ms;
    }

    /// As [`Sentinel::reset`], and the primary is at another address from now on. The old address becomes a
    /// replica, so that it is watched and reconfigured. False if the host does not resolve.
    pub(super) fn reset_to_address(&mut self, id: InstanceId, host: &str, port: i64) -> bool {
        let Ok(address) = self.address_of(host, port, false) else { return false };
        let old = self.get(id).address.clone();
        let replicas = self.replicas_of(id).into_iter().map(|replica| self.get(replica).address.clone());
        let mut others: Vec<Address> = replicas.filter(|other| !other.is_same(&address)).collect();
        if !old.is_same(&address) {
            others.push(old);
        }
        self.reset(id, true);
        let instance = self.get_mut(id);
        instance.address = address;
        instance.objectively_down_ms = None;
        instance.subjectively_down_ms = None;
        for other in others {
            if let Ok(replica) = self.create_replica(id, &other.host, i64::from(other.port)) {
                self.event(Level::Notice, "+slave", replica, "");
            }
        }
        self.save();
        true
    }
}

fn fresh_report(role: Role, now_ms: i64) -> Reported {
    Reported {
        refreshed_ms: None,
        text: None,
        role: Some(role).filter(|role| *role != Role::Sentinel),
        role_since_ms: now_ms,
        primary_since_ms: now_ms,
        link_down_ms: 0,
        is_link_up: false,
        primary_host: None,
        primary_port: 0,
        priority: DEFAULT_PRIORITY,
        offset: 0,
        is_announced: true,
    }
}
