//! This server as a node of a cluster.
//!
//! The bus' state machine stands behind one lock. The thread that gives it an input, `cluster` (packets,
//! time) or a worker (CLUSTER's subcommands, PUBLISH), holds the lock for as long as the machine takes, never
//! over network or disk, and sorts the actions into two queues under the same lock: that thread's outside
//! work (the file, packets), and decisions about the data set. Decisions are taken from their queue behind
//! the closed gate only, by whichever worker is there, and together with them the table that requests are
//! checked against ([`routes`]) is published. So both queues are worked off in the machine's order.
//!
//! Invariant: no thread waits for network or disk with the machine's lock, a shard's lock, or inside the
//! gate.

mod bus;
pub(crate) mod check;
mod decisions;
mod inbound;
mod link;
pub mod routes;
mod settings;
pub(crate) mod slot_migration;
pub(crate) mod usage;

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use martlet_base::clock::Clock;
use martlet_base::publish::{Follower, Published};
use martlet_base::random::Random;
use martlet_cluster::conf;
use martlet_cluster::machine::{Action, Cluster, LinkId, Time};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{FlockOperation, flock};

use crate::config::{Config, Primary, ReplicaOf};
use crate::shared::{Mail, Shared};
use crate::slow_path::SlowPathReason;
use crate::worker::Worker;
use martlet_base::disk::error_text;
use martlet_base::sync::lock;

pub use routes::Routes;
use usage::SlotUse;

/// The machine, and the actions of its inputs.
struct Machine {
    cluster: Cluster,
    /// For the thread `cluster`.
    outside: Vec<Action>,
    /// About the data set, for a worker that has it to itself.
    decisions: Vec<Action>,
    /// The machine's revision that [`Routes`] were last built of.
    seen_revision: u64,
    /// How often the file was to be written, and has been.
    saves: Saves,
}

/// Called once the file has been written.
type WhenSaved = Box<dyn FnOnce() + Send>;

/// How far the writing of the file has come.
#[derive(Default)]
struct Saves {
    wanted: u64,
    done: u64,
    /// Callbacks, each with the number of writes that it waits for.
    waiting: Vec<(u64, WhenSaved)>,
}

/// How much waits to be sent on a connection of the bus, in bytes.
#[derive(Copy, Clone, Debug, Default)]
pub struct Waiting {
    /// Unsent bytes.
    pub used: usize,
    /// Bytes allocated for them.
    pub allocated: usize,
}

/// See the [module docs](self). One per server that is a node.
pub struct ClusterNode {
    machine: Mutex<Machine>,
    routes: Published<Routes>,
    clock: Clock,
    /// A raw reading of the clock, from which the machine's time counts.
    began: u64,
    wakeup: OwnedFd,
    /// The data set is there: decisions about it are carried out.
    is_loaded: AtomicBool,
    /// A manual failover has writes wait.
    holds_writes: AtomicBool,
    waiting: Mutex<HashMap<LinkId, Waiting>>,
    /// The cost of the slots' commands.
    pub usage: SlotUse,
    /// Slots that leave or come all at once.
    pub(crate) migrations: slot_migration::Migrations,
    file: PathBuf,
    /// Locked for as long as the process lives.
    _lock: File,
}

/// The work that a node's inputs leave to others.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
struct Left {
    outside: bool,
    data: bool,
}

impl ClusterNode {
    fn now(&self) -> Time {
        let ns = self.clock.elapsed_ns(self.began, self.clock.raw());
        Time { mono_ms: (ns / 1_000_000) as i64, unix_ms: self.clock.unix_ms() }
    }

    /// Gives the machine an input, and sorts its actions.
    fn input<R>(&self, input: impl FnOnce(&mut Cluster, Time) -> R) -> (R, Left) {
        let mut machine = lock(&self.machine);
        let result = input(&mut machine.cluster, self.now());
        for action in machine.cluster.take_actions() {
            machine.saves.wanted += u64::from(matches!(action, Action::SaveConf { .. }));
            match action {
                Action::SaveConf { .. }
                | Action::Connect { .. }
                | Action::Send { .. }
                | Action::Close(_)
                | Action::Deliver(_)
                | Action::Log(_) => machine.outside.push(action),
                action => machine.decisions.push(action),
            }
        }
        let has_other_routes = machine.seen_revision != machine.cluster.revision();
        let left = Left {
            outside: !machine.outside.is_empty(),
            data: has_other_routes || !machine.decisions.is_empty(),
        };
        (result, left)
    }

    /// Gives the machine an input from a worker. [`Worker::follow_cluster`] does the work on the data set.
    pub fn with<R>(&self, input: impl FnOnce(&mut Cluster, Time) -> R) -> R {
        let (result, left) = self.input(input);
        if left.outside {
            self.wake();
        }
        result
    }

    /// Whether the file is still to be written.
    pub fn must_save(&self) -> bool {
        let saves = &lock(&self.machine).saves;
        saves.done < saves.wanted
    }

    /// Calls `work` once the file has the machine's present knowledge.
    pub fn when_saved(&self, work: WhenSaved) {
        let mut machine = lock(&self.machine);
        let saves = &mut machine.saves;
        if saves.done < saves.wanted {
            return saves.waiting.push((saves.wanted, work));
        }
        drop(machine);
        work();
    }

    /// The file has been written this many times.
    fn saved(&self, count: u64) {
        let mut machine = lock(&self.machine);
        let saves = &mut machine.saves;
        saves.done = count;
        let is_over = |waiting: &mut (u64, WhenSaved)| waiting.0 <= count;
        let over: Vec<_> = saves.waiting.extract_if(.., is_over).collect();
        drop(machine);
        over.into_iter().for_each(|(_, work)| work());
    }

    /// Reads the machine's state.
    pub fn read<R>(&self, look: impl FnOnce(&Cluster) -> R) -> R {
        look(&lock(&self.machine).cluster)
    }

    /// Ends the sleep of the thread `cluster`.
    fn wake(&self) {
        // It fails only when as many wake it as a counter of 64 bits can tell.
        let _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
    }

    /// How much waits to be sent on each connection.
    pub fn waiting(&self) -> HashMap<LinkId, Waiting> {
        lock(&self.waiting).clone()
    }

    /// Takes up the newest routes.
    #[inline]
    pub fn refresh(&self, routes: &mut Follower<Routes>) {
        routes.refresh(&self.routes);
    }

    /// A worker's view of the routes.
    pub fn follow(&self) -> Follower<Routes> {
        Follower::new(&self.routes)
    }
}

impl Shared {
    /// This node, if the server is one of a cluster.
    #[inline]
    pub fn cluster(&self) -> Option<&ClusterNode> {
        self.cluster.get()
    }
}

/// Has keys hashed with their slots, if the server is a node: before there is any key.
pub fn choose_hash(config: &Config) {
    if config.cluster_enabled {
        martlet_base::hash::use_slots();
    }
}

/// Becomes the node of its file, or a new one, before there are workers; returns the sockets on which it
/// listens for other nodes.
///
/// # Errors
/// Why the server must not start.
pub fn prepare(shared: &Shared, config: &Config) -> Result<Vec<OwnedFd>, String> {
    if !config.cluster_enabled {
        return Ok(Vec::new());
    }
    let listeners = bus::listen(config)?;
    let file = config.cluster_config_file.clone();
    let lock_file = lock_file(&file)?;
    let known = conf::load(&file).map_err(|error| format!("Unrecoverable error {error}"))?;
    let clock = shared.clock.clone();
    let began = clock.raw();
    let now = Time { mono_ms: 0, unix_ms: clock.unix_ms() };
    let (settings, random) = (settings::of(config), Random::from_entropy());
    let cluster = match known {
        Some(conf) => {
            let cluster = Cluster::from_conf(settings, random, now, &conf);
            tracing::info!("Node configuration loaded, I'm {}", cluster.myself().id.as_str());
            cluster
        }
        None => {
            let cluster = Cluster::new(settings, random, now);
            tracing::info!("No cluster configuration found, I'm {}", cluster.myself().id.as_str());
            cluster
        }
    };
    if let Some(primary) = primary_of(&cluster, config) {
        let mut config = config.clone();
        config.replicaof = ReplicaOf(Some(primary));
        shared.config.publish(config);
    }
    let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(|error| format!("No event for the cluster bus: {error}"))?;
    let is_primary = cluster.myself().is_primary();
    let node = ClusterNode {
        migrations: slot_migration::Migrations::new(config, is_primary),
        routes: Published::new(Routes::new(&cluster)),
        machine: Mutex::new(Machine {
            cluster,
            outside: Vec::new(),
            decisions: Vec::new(),
            seen_revision: 0,
            saves: Saves::default(),
        }),
        clock,
        began,
        wakeup,
        is_loaded: AtomicBool::new(false),
        holds_writes: AtomicBool::new(false),
        waiting: Mutex::default(),
        usage: SlotUse::new(shared.thread_count()),
        file,
        _lock: lock_file,
    };
    node.with(|_, _| ());
    let _ = shared.cluster.set(node);
    shared.slow_path_reasons.hold(SlowPathReason::Cluster);
    Ok(listeners)
}

/// The server whose replica the node is, if its address is known.
fn primary_of(cluster: &Cluster, config: &Config) -> Option<Primary> {
    let address = &cluster.node(cluster.myself().primary?).address;
    let port = if config.tls_replication { address.tls_port } else { address.tcp_port };
    (!address.host.is_empty()).then(|| Primary { host: address.host.clone(), port })
}

/// Locks the file's place. The lock is on a file beside it, as each write puts another file in its place.
fn lock_file(file: &std::path::Path) -> Result<File, String> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    let path = file.with_file_name(name);
    let opened = File::options().create(true).append(true).open(&path);
    let opened = opened.map_err(|error| {
        format!("Can't open {} in order to acquire a lock: {}", path.display(), error_text(&error))
    })?;
    flock(&opened, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        format!(
            "Sorry, the cluster configuration file {} is already used by a different Redis Cluster node. Please make sure that different nodes use different cluster configuration files.",
            file.display()
        )
    })?;
    Ok(opened)
}

/// Starts the bus; clients are served already, or the data set is still being loaded.
///
/// # Errors
/// Why the server must not start.
pub fn start(shared: &'static Shared, listeners: Vec<OwnedFd>) -> Result<(), String> {
    if shared.cluster().is_none() {
        return Ok(());
    }
    settings::install(shared);
    let body = move || bus::run(shared, listeners);
    std::thread::Builder::new()
        .name("cluster".into())
        .spawn(body)
        .map(drop)
        .map_err(|error| format!("Can't start the thread of the cluster bus: {error}"))
}

/// The data set is there.
pub fn begin(shared: &'static Shared) {
    let Some(node) = shared.cluster() else { return };
    node.is_loaded.store(true, Ordering::SeqCst);
    let begin = |worker: &mut Worker| {
        worker.alone(|worker| {
            worker.end_found_imports();
            worker.claim_found_slots();
            worker.follow_cluster();
        });
    };
    shared.send(0, Mail::Run(Box::new(begin)));
}
