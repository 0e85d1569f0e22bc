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

pub(crate) mod asking;
mod bus;
mod decisions;
mod follow;
mod inbound;
mod link;
pub mod node;
pub(crate) mod peers;
pub mod routes;
mod settings;
pub(crate) mod slot_migration;
pub(crate) mod usage;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use martlet_base::disk::error_text;
use martlet_base::publish::Published;
use martlet_base::random::{Random, fill_secret};
use martlet_cluster::conf;
use martlet_cluster::machine::{Cluster, Time};
use martlet_cluster::packet::{SECRET_BYTES, Secret};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{FlockOperation, flock};

use crate::config::{Config, Primary, ReplicaOf};
use crate::runtime::{Mail, Shared, Worker};
use crate::slow_path::SlowPathReason;
use node::{ClusterNode, Machine, Saves};
use peers::Peers;
use routes::Routes;
use slot_migration::state::Migrations;
use usage::SlotUse;

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
    let (lock_file, locked_file) = lock_files(&file)?;
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
    let mut cluster = cluster;
    cluster.set_secret(new_secret()?);
    if let Some(primary) = primary_of(&cluster, config) {
        let mut config = config.clone();
        config.replicaof = ReplicaOf(Some(primary));
        shared.config.publish(config);
    }
    let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(|error| format!("No event for the cluster bus: {error}"))?;
    let is_primary = cluster.myself().is_primary();
    let node = ClusterNode {
        migrations: Migrations::new(config, is_primary),
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
        locked_file: Mutex::new(locked_file),
        peers: Peers::default(),
        failure: OnceLock::new(),
    };
    node.with(|_, _| ());
    let _ = shared.cluster.set(node);
    shared.slow_path_reasons.hold(SlowPathReason::Cluster);
    Ok(listeners)
}

/// Digits of chance, from which a node's secret is made.
fn new_secret() -> Result<Secret, String> {
    let mut bytes = [0; SECRET_BYTES];
    fill_secret(&mut bytes).map_err(|error| format!("No randomness: {error}"))?;
    Ok(bytes.map(|byte| b"0123456789abcdef"[usize::from(byte & 15)]))
}

/// The server whose replica the node is, if its address is known.
fn primary_of(cluster: &Cluster, config: &Config) -> Option<Primary> {
    let address = &cluster.node(cluster.myself().primary?).address;
    let port = if config.tls_replication { address.tls_port } else { address.tcp_port };
    (!address.host.is_empty()).then(|| Primary { host: address.host.clone(), port })
}

/// Locks the file's place by a file beside it, as each write puts another file in its place; and the file
/// itself, which is what a node of Redis locks.
fn lock_files(file: &Path) -> Result<(File, File), String> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    let beside = file.with_file_name(name);
    let lock = |path: &Path| {
        let opened = File::options().create(true).append(true).open(path);
        let opened = opened.map_err(|error| {
            format!("Can't open {} in order to acquire a lock: {}", path.display(), error_text(&error))
        })?;
        flock(&opened, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            format!(
                "Sorry, the cluster configuration file {} is already used by a different Redis Cluster node. Please make sure that different nodes use different cluster configuration files.",
                file.display()
            )
        })?;
        Ok::<_, String>(opened)
    };
    Ok((lock(&beside)?, lock(file)?))
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
