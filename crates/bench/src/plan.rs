//! The plan of a run: the server, the requests, the load and its end. Everything is resolved and compiled
//! here, so that the engine only draws, sends and counts.

use crate::template::{Field, Template};
use martlet_client::address::Address;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// A seed that no other run is likely to have; below 2^53, so that every reader of JSON keeps all its digits.
pub fn fresh_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    ((now.as_nanos() as u64) ^ (u64::from(std::process::id()) << 40)) & ((1 << 53) - 1)
}

/// Most connections of a run, over all threads.
pub const MAX_CONNECTIONS: usize = 1_000_000;
/// Most threads of a run.
pub const MAX_THREADS: usize = 500;
/// Deepest pipeline.
pub const MAX_PIPELINE: usize = 100_000;
/// Most bytes of a value in the built-in tests.
pub const MAX_DATA_BYTES: usize = 1 << 30;

/// How long a server that is gone is waited for.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);
/// Typical lateness of a sleeping thread's wake-up, on virtual machines too: the thread polls for this time
/// instead.
pub const DEFAULT_SPIN: Duration = Duration::from_micros(60);

/// A server, and what each connection says before its first request.
#[derive(Clone, Debug)]
pub struct Target {
    /// The nodes that connections are spread over: one, or a cluster's primaries.
    pub nodes: Vec<Node>,
    /// Requests sent on each new connection, encoded; their number is `prelude_replies`.
    pub prelude: Vec<u8>,
    /// Replies that the prelude brings.
    pub prelude_replies: u32,
    /// TLS, where it is on.
    pub tls: Option<martlet_tls::TlsSettings>,
}

/// One server process.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it listens.
    pub address: Address,
    /// Tags of the slots that it holds, in cluster mode.
    pub tags: Arc<[[u8; 3]]>,
    /// Which slots it holds, in cluster mode; else empty.
    pub slots: Arc<[bool]>,
}

/// One request of a unit.
pub struct Step {
    /// Its bytes.
    pub template: Template,
    /// Index of the command that its figures are counted under.
    pub command: usize,
}

/// The unit of drawing: one request, or a session of several in order.
pub struct Unit {
    /// Its requests.
    pub steps: Vec<Step>,
    /// Share among all units.
    pub weight: u64,
    /// Fields drawn when a session starts, for its variables.
    pub variables: Vec<Field>,
    /// Sessions begun, over all threads.
    pub begun: AtomicU64,
}

/// A mix of units.
pub struct Workload {
    /// The units; never empty.
    pub units: Vec<Unit>,
    /// Names of commands, as reports show them.
    pub commands: Vec<String>,
    /// Requests with times of their own, instead of units.
    pub replay: Option<Arc<crate::replay::Capture>>,
}

impl Workload {
    /// One request, compiled already.
    pub fn single(name: &str, template: Template) -> Workload {
        let unit = Unit {
            steps: vec![Step { template, command: 0 }],
            weight: 1,
            variables: Vec::new(),
            begun: AtomicU64::new(0),
        };
        Workload { units: vec![unit], commands: vec![name.into()], replay: None }
    }
}

/// When the next request may go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pacing {
    /// A connection sends when it has all replies of its last batch.
    Closed,
    /// Requests are due at instants of their own, `rate` per second in total.
    Open {
        /// Requests per second over all threads.
        rate: f64,
        /// Exponential gaps instead of equal ones.
        poisson: bool,
    },
}

/// A whole run.
pub struct Plan {
    /// The server.
    pub target: Target,
    /// The requests.
    pub workload: Workload,
    /// Pacing of requests.
    pub pacing: Pacing,
    /// Connections over all threads.
    pub connections: usize,
    /// Worker threads.
    pub threads: usize,
    /// Requests in flight per connection.
    pub pipeline: usize,
    /// Requests after which the run ends; 0: no such limit.
    pub requests: u64,
    /// Time after which the run ends, warm-up not counted.
    pub duration: Option<Duration>,
    /// Time at the start that is not measured.
    pub warmup: Duration,
    /// Requests after which a connection is closed and opened again; 0: never.
    pub reconnect_every: u64,
    /// Connections that break are opened again and counted, instead of ending the run.
    pub survive_disconnects: bool,
    /// With it: how long a thread continues without any connection before the run ends.
    pub patience: Duration,
    /// The first error reply ends the run.
    pub stop_on_error: bool,
    /// Cluster: each request goes to the node that holds its key; see [`Plan::spread`].
    pub route: bool,
    /// Connections are only opened and kept.
    pub idle: bool,
    /// Seed of every random choice.
    pub seed: u64,
    /// Cores to pin threads to, in turn; empty: none.
    pub cores: Vec<usize>,
    /// Addresses to connect from, in turn; empty: the kernel's choice.
    pub sources: Vec<IpAddr>,
    /// Use epoll even where io_uring works.
    pub epoll: bool,
    /// Open loop: how long before a due instant the thread stops sleeping and polls; `None`:
    /// [`DEFAULT_SPIN`], but at most a quarter of the mean gap, so that three quarters of the core stay free.
    pub spin: Option<Duration>,
}

impl Plan {
    /// Sends each request to the node of a cluster that holds its key; every thread has a connection to each
    /// node.
    pub fn spread(&mut self) {
        self.route = true;
        self.connections = self.connections.max(self.target.nodes.len() * self.threads);
    }

    /// A plan with one request for one server and all else at its default.
    pub fn single(target: Target, name: &str, template: Template) -> Plan {
        Plan {
            target,
            workload: Workload::single(name, template),
            pacing: Pacing::Closed,
            connections: 50,
            threads: 1,
            pipeline: 1,
            requests: 0,
            duration: None,
            warmup: Duration::ZERO,
            reconnect_every: 0,
            survive_disconnects: false,
            patience: DEFAULT_PATIENCE,
            stop_on_error: false,
            idle: false,
            route: false,
            seed: 1,
            cores: Vec::new(),
            sources: Vec::new(),
            epoll: false,
            spin: None,
        }
    }
}
