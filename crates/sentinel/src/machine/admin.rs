//! Requests of operators: monitor, remove, reset, fail over, check the quorum, change general settings.
//!
//! Invariant: a request's fault is found before anything changes.

use martlet_base::glob;

use super::instances::CreateError;
use super::{Sentinel, SimulatedFailures};
use crate::events::Level;
use crate::instance::{DOWN, Flags, Instance, InstanceId, Role};
use crate::limits::WORD_MAX_BYTES;

/// Why a request is refused, in Redis' words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// There is no such primary.
    #[error("ERR No such master with that name")]
    NoSuchPrimary,
    /// The configuration file could not be written.
    #[error("ERR Failed to save config file. Check server logs.")]
    NotSaved,
    /// It cannot be monitored.
    #[error("ERR {0}")]
    Create(#[from] CreateError),
    /// The host does not resolve.
    #[error("ERR Invalid IP address or hostname specified")]
    BadHost,
    /// A name that a file or a hello message could not hold.
    #[error("ERR Invalid master name")]
    BadName,
    /// A failover is under way.
    #[error("INPROG Failover already in progress")]
    InProgress,
    /// No replica can be promoted.
    #[error("NOGOODSLAVE No suitable replica to promote")]
    NoGoodReplica,
}

/// Whether Sentinels that are up suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorum {
    /// Sentinels that are up, with this one.
    pub usable: usize,
    /// They suffice to say that the primary is down.
    pub has_quorum: bool,
    /// They are a majority, and can elect a leader.
    pub has_majority: bool,
}

/// What SENTINEL CONFIG SET sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GlobalOption {
    /// `announce-ip`
    AnnounceIp(String),
    /// `announce-port`
    AnnouncePort(u16),
    /// `sentinel-user`
    SentinelUser(Vec<u8>),
    /// `sentinel-pass`
    SentinelPass(Vec<u8>),
    /// `resolve-hostnames`
    ResolveHostnames(bool),
    /// `announce-hostnames`
    AnnounceHostnames(bool),
    /// `loglevel`
    LogLevel(Level),
}

impl Sentinel {
    /// The primary of this name, or the error for an unknown one.
    pub fn find(&self, name: &[u8]) -> Result<(InstanceId, &Instance), AdminError> {
        let name = std::str::from_utf8(name).map_err(|_| AdminError::NoSuchPrimary)?;
        self.primary(name).ok_or(AdminError::NoSuchPrimary)
    }

    /// SENTINEL MONITOR.
    pub fn monitor(
        &mut self,
        now_ms: i64,
        name: &[u8],
        host: &str,
        port: i64,
        quorum: u32,
    ) -> Result<(), AdminError> {
        self.now_ms = now_ms;
        let name = std::str::from_utf8(name).ok().filter(|name| is_name(name)).ok_or(AdminError::BadName)?;
        if self.resolve(host).is_none() {
            return Err(AdminError::BadHost);
        }
        let id = self.create_primary(name, host, port, quorum)?;
        let is_saved = self.save();
        self.event(Level::Warning, "+monitor", id, &format!(" quorum {quorum}"));
        if is_saved { Ok(()) } else { Err(AdminError::NotSaved) }
    }

    /// SENTINEL REMOVE.
    pub fn unmonitor(&mut self, now_ms: i64, name: &[u8]) -> Result<(), AdminError> {
        self.now_ms = now_ms;
        let (id, _) = self.find(name)?;
        self.event(Level::Warning, "-monitor", id, "");
        self.remove(id);
        if self.save() { Ok(()) } else { Err(AdminError::NotSaved) }
    }

    /// SENTINEL RESET: how many primaries the pattern matches.
    pub fn reset_matching(&mut self, now_ms: i64, pattern: &[u8]) -> usize {
        self.now_ms = now_ms;
        let mut ids = self.primary_ids();
        ids.retain(|id| glob::matches(pattern, self.get(*id).name.as_bytes(), false));
        for id in &ids {
            self.reset(*id, false);
            self.event(Level::Warning, "+reset-master", *id, "");
        }
        ids.len()
    }

    /// SENTINEL FAILOVER.
    pub fn force_failover(&mut self, now_ms: i64, name: &[u8]) -> Result<(), AdminError> {
        self.now_ms = now_ms;
        let (id, primary) = self.find(name)?;
        if primary.flags.any(Flags::FAILOVER_IN_PROGRESS) {
            return Err(AdminError::InProgress);
        }
        self.best_replica(id).ok_or(AdminError::NoGoodReplica)?;
        let text = format!("Executing user requested FAILOVER of '{}'", self.get(id).name);
        self.log(Level::Notice, text);
        self.start_failover(id);
        self.get_mut(id).flags.set(Flags::FORCE_FAILOVER);
        Ok(())
    }

    /// SENTINEL CKQUORUM.
    pub fn check_quorum(&self, name: &[u8]) -> Result<Quorum, AdminError> {
        let (_, primary) = self.find(name)?;
        let sentinels = primary.sentinels.values();
        let usable = 1 + sentinels.filter(|sentinel| !self.get(**sentinel).flags.any(DOWN)).count();
        let voters = primary.sentinels.len() + 1;
        Ok(Quorum {
            usable,
            has_quorum: usable >= primary.settings.quorum as usize,
            has_majority: usable > voters / 2,
        })
    }

    /// SENTINEL FLUSHCONFIG.
    pub fn flush_config(&mut self, now_ms: i64) -> Result<(), AdminError> {
        self.now_ms = now_ms;
        if self.save() { Ok(()) } else { Err(AdminError::NotSaved) }
    }

    /// SENTINEL CONFIG SET. A change of the credentials for other Sentinels ends the connections to them.
    pub fn set_global(&mut self, now_ms: i64, options: Vec<GlobalOption>) -> Result<(), AdminError> {
        self.now_ms = now_ms;
        let mut drops_links = false;
        let unless_empty = |value: Vec<u8>| Some(value).filter(|value| !value.is_empty());
        for option in options {
            let settings = &mut self.settings;
            match option {
                GlobalOption::AnnounceIp(ip) => settings.announce_ip = Some(ip).filter(|ip| !ip.is_empty()),
                GlobalOption::AnnouncePort(port) => settings.announce_port = port,
                GlobalOption::ResolveHostnames(on) => settings.resolve_hostnames = on,
                GlobalOption::AnnounceHostnames(on) => settings.announce_hostnames = on,
                GlobalOption::LogLevel(level) => settings.log_level = level,
                GlobalOption::SentinelUser(user) => {
                    settings.sentinel_user = unless_empty(user);
                    drops_links = true;
                }
                GlobalOption::SentinelPass(pass) => {
                    settings.sentinel_pass = unless_empty(pass);
                    drops_links = true;
                }
            }
        }
        let is_saved = self.save();
        if drops_links {
            self.drop_sentinel_links();
        }
        if is_saved { Ok(()) } else { Err(AdminError::NotSaved) }
    }

    fn drop_sentinel_links(&mut self) {
        let all = self.instances.values();
        let links: Vec<_> = all.filter(|one| one.role == Role::Sentinel).map(|one| one.link).collect();
        links.into_iter().for_each(|link| self.close_command(link));
    }

    /// Closes the links to a primary and its replicas, which are opened again with another password.
    pub(super) fn drop_links_of(&mut self, id: InstanceId) {
        let all = [vec![id], self.replicas_of(id)].concat();
        for link in all.into_iter().map(|one| self.get(one).link).collect::<Vec<_>>() {
            self.close_command(link);
            self.close_pubsub(link);
        }
    }

    /// SENTINEL SIMULATE-FAILURE.
    pub fn simulate_failures(&mut self, now_ms: i64, failures: SimulatedFailures) {
        self.now_ms = now_ms;
        self.simulated = failures;
        let what = [
            (failures.after_election, "being successfully elected as failover leader"),
            (failures.after_promotion, "promoting the selected replica to master"),
        ];
        for (_, after) in what.into_iter().filter(|(is_on, _)| *is_on) {
            self.log(Level::Warning, format!("Failure simulation: this Sentinel will crash after {after}"));
        }
    }
}

/// Whether a primary may be called so: hello messages separate their fields by commas, files words by spaces.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b',' || !byte.is_ascii();
    !name.is_empty() && name.len() <= WORD_MAX_BYTES && name.bytes().all(is_plain)
}
