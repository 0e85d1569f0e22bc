//! The state machine of a Sentinel: time, messages and requests in, messages out.
//!
//! Invariants: no socket, file, thread or clock is used but through [`World`] and the `now_ms` of each call,
//! so that a seed replays a run. Facts that others may rely on (a vote, an epoch, a switch) are saved before
//! any [`Output`] carries them. Time is the wall clock's, as in Redis: votes and delays outlive a restart,
//! and a jump is handled by [`tilt`](Sentinel::tick).

mod admin;
mod configure;
mod down;
mod election;
mod events;
mod failover;
mod hello;
mod info;
mod instances;
mod links;
mod requests;
mod script_runs;
mod set;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::IpAddr;

use martlet_base::random::Random;

pub use admin::{AdminError, GlobalOption, Quorum};
pub use instances::CreateError;
pub use set::SetError;

use crate::address::Address;
use crate::config::rewrite::Line;
use crate::events::Level;
use crate::instance::{Instance, InstanceId, Role};
use crate::link::{ConnectionId, Link, LinkId};
use crate::scripts::{JobId, ScriptQueue};
use crate::timing::Timing;

/// The channel of hello messages.
pub const HELLO_CHANNEL: &str = "__sentinel__:hello";

/// Services of the surroundings whose outcome a Sentinel needs at once.
pub trait World {
    /// Keeps the configuration, so that it survives a crash of the machine.
    ///
    /// # Errors
    /// When it may not be kept.
    fn save(&mut self, lines: &[Line]) -> io::Result<()>;
    /// The address of a host name.
    fn resolve(&mut self, host: &str) -> Option<IpAddr>;
    /// Whether a script can be run.
    fn is_executable(&self, path: &str) -> bool;
}

/// An output, to be carried out in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Open a connection.
    Connect {
        /// Its number.
        connection: ConnectionId,
        /// An IP address.
        ip: String,
        /// A port.
        port: u16,
    },
    /// Close a connection; nothing more is expected of it.
    Close(ConnectionId),
    /// Send a request.
    Send(ConnectionId, Vec<Vec<u8>>),
    /// Publish an event to clients.
    Publish {
        /// The event's name.
        channel: String,
        /// What happened.
        message: String,
    },
    /// Write to the log.
    Log(Level, String),
    /// Run a script.
    RunScript(JobId, Vec<String>),
    /// Kill a script that runs for too long.
    KillScript(u32),
    /// End the process, as SENTINEL SIMULATE-FAILURE requested. Later outputs are dropped.
    Crash,
}

/// Settings of the Sentinel as a whole.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens; 0 for nowhere.
    pub port: u16,
    /// Where it listens for connections with TLS; 0 for nowhere.
    pub tls_port: u16,
    /// Connections to instances and other Sentinels use TLS, and so do theirs.
    pub is_tls_outgoing: bool,
    /// The announced address, rather than that of the connection.
    pub announce_ip: Option<String>,
    /// The announced port; 0 for the port where it listens.
    pub announce_port: u16,
    /// Scripts may not be changed by clients.
    pub deny_scripts_reconfig: bool,
    /// The user to log in as at other Sentinels.
    pub sentinel_user: Option<Vec<u8>>,
    /// The password there.
    pub sentinel_pass: Option<Vec<u8>>,
    /// The password that this one requires, and takes to be the others' where there is no `sentinel_pass`.
    pub requirepass: Option<Vec<u8>>,
    /// Host names are resolved.
    pub resolve_hostnames: bool,
    /// Clients see host names.
    pub announce_hostnames: bool,
    /// The lowest level that is logged.
    pub log_level: Level,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            port: 26_379,
            tls_port: 0,
            is_tls_outgoing: false,
            announce_ip: None,
            announce_port: 0,
            deny_scripts_reconfig: true,
            sentinel_user: None,
            sentinel_pass: None,
            requirepass: None,
            resolve_hostnames: false,
            announce_hostnames: false,
            log_level: Level::Notice,
        }
    }
}

impl Settings {
    /// The port announced to other Sentinels.
    pub fn announced_port(&self) -> u16 {
        match self.announce_port {
            0 if self.is_tls_outgoing && self.tls_port != 0 => self.tls_port,
            0 => self.port,
            port => port,
        }
    }

    /// The port in INFO: the plain one, if there is one.
    pub fn shown_port(&self) -> u16 {
        if self.port == 0 { self.tls_port } else { self.port }
    }
}

/// Failures that SENTINEL SIMULATE-FAILURE asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulatedFailures {
    /// Crash when elected.
    pub after_election: bool,
    /// Crash when the promoted replica is a primary.
    pub after_promotion: bool,
}

impl SimulatedFailures {
    /// In INFO's numbers.
    pub fn bits(self) -> u32 {
        u32::from(self.after_election) | u32::from(self.after_promotion) << 1
    }
}

/// See the [module docs](self).
pub struct Sentinel {
    /// Settings of the Sentinel as a whole.
    pub settings: Settings,
    /// Periods and timeouts.
    pub timing: Timing,
    /// Failures to come.
    pub simulated: SimulatedFailures,
    id: String,
    current_epoch: u64,
    primaries: BTreeMap<String, InstanceId>,
    instances: BTreeMap<InstanceId, Instance>,
    links: BTreeMap<LinkId, Link>,
    connections: BTreeMap<ConnectionId, LinkId>,
    scripts: ScriptQueue,
    tilt_since_ms: Option<i64>,
    tilts: u64,
    last_tick_ms: i64,
    next_id: u64,
    now_ms: i64,
    random: Random,
    world: Box<dyn World>,
    outputs: VecDeque<Output>,
}

impl Sentinel {
    /// A Sentinel that watches nothing yet, and has no id.
    pub fn new(settings: Settings, random: Random, now_ms: i64, world: Box<dyn World>) -> Sentinel {
        Sentinel {
            settings,
            timing: Timing::default(),
            simulated: SimulatedFailures::default(),
            id: String::new(),
            current_epoch: 0,
            primaries: BTreeMap::new(),
            instances: BTreeMap::new(),
            links: BTreeMap::new(),
            connections: BTreeMap::new(),
            scripts: ScriptQueue::default(),
            tilt_since_ms: None,
            tilts: 0,
            last_tick_ms: now_ms,
            next_id: 0,
            now_ms,
            random,
            world,
            outputs: VecDeque::new(),
        }
    }

    /// Begins, once the configuration is read: takes an id if there is none, and announces the monitored
    /// primaries.
    pub fn start(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        if self.id.is_empty() {
            self.id = self.random_id();
            self.save();
        }
        self.log(Level::Notice, format!("Sentinel ID is {}", self.id));
        for id in self.primary_ids() {
            let quorum = self.instances[&id].settings.quorum;
            self.event(Level::Warning, "+monitor", id, &format!(" quorum {quorum}"));
        }
    }

    fn random_id(&mut self) -> String {
        (0..5).map(|_| format!("{:08x}", self.random.next_u64() as u32)).collect()
    }

    /// Takes the outputs that there are.
    pub fn take_outputs(&mut self) -> VecDeque<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// This Sentinel's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The newest epoch it knows of.
    pub fn current_epoch(&self) -> u64 {
        self.current_epoch
    }

    /// Since when the clock is not trusted, if it is not.
    pub fn tilt_since_ms(&self) -> Option<i64> {
        self.tilt_since_ms
    }

    /// How often the clock was not trusted.
    pub fn tilts(&self) -> u64 {
        self.tilts
    }

    /// The scripts that wait or run.
    pub fn scripts(&self) -> &ScriptQueue {
        &self.scripts
    }

    /// When [`Sentinel::tick`] is due next: after 50 to 100 ms. At random, so that Sentinels that were
    /// started together do not ask for votes together for ever.
    pub fn next_tick_ms(&mut self) -> i64 {
        self.now_ms + 1000 / (10 + self.random.below(10) as i64)
    }

    /// The work that is due as time passes.
    pub fn tick(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.check_tilt();
        for id in self.primary_ids() {
            self.tend(id);
            let (replicas, sentinels) = (self.replicas_of(id), self.sentinels_of(id));
            replicas.into_iter().chain(sentinels).for_each(|id| self.tend(id));
            self.switch_if_promoted(id);
        }
        self.run_scripts();
    }

    /// The clock is not trusted for a while after it jumped, or the process stood still: everything would
    /// seem to have timed out. Information is collected in that time, and no action taken.
    fn check_tilt(&mut self) {
        let elapsed_ms = self.now_ms - std::mem::replace(&mut self.last_tick_ms, self.now_ms);
        if elapsed_ms < 0 || elapsed_ms > self.timing.tilt_trigger_ms {
            self.tilt_since_ms = Some(self.now_ms);
            self.tilts += 1;
            self.global_event(Level::Warning, "+tilt", "#tilt mode entered");
        }
    }

    /// The work that is due for one instance.
    fn tend(&mut self, id: InstanceId) {
        if !self.instances.contains_key(&id) {
            return;
        }
        self.reconnect(id);
        self.send_periodic(id);
        if let Some(since_ms) = self.tilt_since_ms {
            if self.now_ms - since_ms < self.timing.tilt_period_ms {
                return;
            }
            self.tilt_since_ms = None;
            self.global_event(Level::Warning, "-tilt", "#tilt mode exited");
        }
        self.check_subjectively_down(id);
        if self.instances[&id].role == Role::Primary {
            self.check_objectively_down(id);
            if self.start_failover_if_needed(id) {
                self.ask_other_sentinels(id, true);
            }
            self.continue_failover(id);
            self.ask_other_sentinels(id, false);
        }
    }

    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn output(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    /// The primaries by name.
    pub fn primaries(&self) -> impl ExactSizeIterator<Item = (InstanceId, &Instance)> {
        self.primaries.values().map(|id| (*id, &self.instances[id]))
    }

    /// The primary of this name.
    pub fn primary(&self, name: &str) -> Option<(InstanceId, &Instance)> {
        let id = *self.primaries.get(name)?;
        Some((id, &self.instances[&id]))
    }

    /// An instance of those that are there.
    pub fn instance(&self, id: InstanceId) -> Option<&Instance> {
        self.instances.get(&id)
    }

    /// The link of an instance.
    pub fn link(&self, instance: &Instance) -> &Link {
        &self.links[&instance.link]
    }

    /// The host of an address that clients see.
    pub fn announced<'a>(&self, address: &'a Address) -> &'a str {
        address.announced(self.settings.announce_hostnames)
    }

    fn primary_ids(&self) -> Vec<InstanceId> {
        self.primaries.values().copied().collect()
    }

    fn replicas_of(&self, primary: InstanceId) -> Vec<InstanceId> {
        self.instances.get(&primary).map_or(Vec::new(), |known| known.replicas.values().copied().collect())
    }

    fn sentinels_of(&self, primary: InstanceId) -> Vec<InstanceId> {
        self.instances.get(&primary).map_or(Vec::new(), |known| known.sentinels.values().copied().collect())
    }

    /// An instance that is there: ids are taken from the tables, and removed from them with the instance.
    fn get(&self, id: InstanceId) -> &Instance {
        &self.instances[&id]
    }

    fn get_mut(&mut self, id: InstanceId) -> &mut Instance {
        self.instances.get_mut(&id).expect("instances that are in a table are there")
    }

    fn link_of(&self, id: InstanceId) -> &Link {
        &self.links[&self.instances[&id].link]
    }

    fn link_mut(&mut self, id: InstanceId) -> &mut Link {
        let link = self.instances[&id].link;
        self.links.get_mut(&link).expect("a link is there as long as one of its users")
    }

    /// The primary of an instance, or the instance if it is one.
    fn primary_of(&self, id: InstanceId) -> InstanceId {
        self.instances[&id].primary.unwrap_or(id)
    }
}
