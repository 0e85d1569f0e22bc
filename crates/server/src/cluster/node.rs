//! The bus' machine behind its lock, and the queues of its actions.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use martlet_base::clock::Clock;
use martlet_base::publish::{Follower, Published};
use martlet_base::sync::lock;
use martlet_cluster::conf;
use martlet_cluster::machine::{Action, Cluster, LinkId, Time};
use martlet_cluster::slot_migration::SlotMigrations;

use super::peers::Peers;
use super::routes::Routes;
use super::slot_migration::state::Migrations;
use super::usage::SlotUse;

/// The machine, and the actions of its inputs.
pub(super) struct Machine {
    pub(super) cluster: Cluster,
    /// For the thread `cluster`.
    pub(super) outside: Vec<Action>,
    /// About the data set, for a worker that has it to itself.
    pub(super) decisions: Vec<Action>,
    /// The machine's revision that [`Routes`] were last built of.
    pub(super) seen_revision: u64,
    /// How often the file was to be written, and has been.
    pub(super) saves: Saves,
}

/// Called once the file has been written.
pub type WhenSaved = Box<dyn FnOnce() + Send>;

/// How far the writing of the file has come.
#[derive(Default)]
pub(super) struct Saves {
    pub(super) wanted: u64,
    pub(super) done: u64,
    /// Callbacks, each with the number of writes that it waits for.
    pub(super) waiting: Vec<(u64, WhenSaved)>,
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
    pub(super) machine: Mutex<Machine>,
    pub(super) routes: Published<Routes>,
    pub(super) clock: Clock,
    /// A raw reading of the clock, from which the machine's time counts.
    pub(super) began: u64,
    pub(super) wakeup: OwnedFd,
    /// The data set is there: decisions about it are carried out.
    pub(super) is_loaded: AtomicBool,
    /// A manual failover has writes wait.
    pub(super) holds_writes: AtomicBool,
    pub(super) waiting: Mutex<HashMap<LinkId, Waiting>>,
    /// The cost of the slots' commands.
    pub usage: SlotUse,
    /// Slots that leave or come all at once.
    pub(crate) migrations: Migrations,
    /// This node as a client of the others.
    pub(crate) peers: Peers,
    pub(super) file: PathBuf,
    /// Locked for as long as the process lives.
    pub(super) _lock: File,
    /// The file itself, locked as Redis does it; another after each write.
    pub(super) locked_file: Mutex<File>,
    /// Why the server ends, if it is for the file's sake.
    pub(super) failure: OnceLock<String>,
}

/// The work that a node's inputs leave to others.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) outside: bool,
    pub(super) data: bool,
}

impl ClusterNode {
    pub(super) fn now(&self) -> Time {
        let ns = self.clock.elapsed_ns(self.began, self.clock.raw());
        Time { mono_ms: (ns / 1_000_000) as i64, unix_ms: self.clock.unix_ms() }
    }

    /// Gives the machine an input, and sorts its actions.
    pub(super) fn input<R>(&self, input: impl FnOnce(&mut Cluster, Time) -> R) -> (R, Left) {
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

    /// Gives the machine an input from a worker. A worker that is alone does the work on the data set.
    pub fn with<R>(&self, input: impl FnOnce(&mut Cluster, Time) -> R) -> R {
        let (result, left) = self.input(input);
        if left.outside {
            self.wake();
        }
        result
    }

    /// Why the server has had to end, if it had to.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
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

    /// Locks the file that is about to take the place of the old one.
    pub(super) fn lock_new(&self, path: &Path) {
        if let Some(new) = conf::lock(path) {
            *lock(&self.locked_file) = new;
        }
    }

    /// The file has been written this many times.
    pub(super) fn saved(&self, count: u64) {
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
    pub(super) fn wake(&self) {
        // It fails only when as many wake it as a counter of 64 bits can tell.
        let _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
    }

    /// Gives the machine an input. A worker with exclusive access to the data set carries out the actions.
    pub(crate) fn migrate<R>(&self, input: impl FnOnce(&mut SlotMigrations, Time) -> R) -> R {
        let mut machine = lock(&self.migrations.machine);
        let result = input(&mut machine, self.now());
        let is_active = machine.is_active() || machine.has_actions();
        self.migrations.is_active.store(is_active, Ordering::Release);
        result
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

    /// The routes that requests are checked against at present.
    pub fn routes(&self) -> Arc<Routes> {
        self.routes.snapshot()
    }

    /// A worker's view of the routes.
    pub fn follow(&self) -> Follower<Routes> {
        Follower::new(&self.routes)
    }
}
