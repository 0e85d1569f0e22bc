//! Clusters of whole processes: ours alone, and ours with real ones, made and changed by redis-cli and by
//! CLUSTER's subcommands. Without redis-server and redis-cli the tests that need them say so and pass.

mod conf;
mod debug;
mod detach;
mod losses;
mod mixed;
mod moves;
mod routes;
mod scan;
mod search;
mod setslot;
mod slot_import;
mod slot_migration;
mod slot_modules;
mod slot_series;
mod slot_tasks;
mod strangers;
mod tls;
mod usage;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::{ReservedPort, Server};
use martlet_testkit::wait::until;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");
const PEER: &str = "redis-server";
const CLI: &str = "redis-cli";
/// No node fails while none dies, however busy the machine.
const NODE_TIMEOUT: &str = "20000";
/// From [`expect_death`] on.
const NODE_TIMEOUT_OF_DYING: &str = "3000";
/// A condition that does not come true in this time never will.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at whether it has.
const LOOK: Duration = Duration::from_millis(20);

/// What only ours understand: news spreads as fast as with a short timeout, an agreed failover may take long.
const OWN_OPTIONS: &[&str] = &[
    "server",
    "--io-threads",
    "2",
    "--cluster-ping-interval",
    "500",
    "--cluster-manual-failover-timeout",
    "60000",
];

/// Whether real ones are installed; says so if they are not.
fn has_peer() -> bool {
    is_installed(PEER) && is_installed(CLI)
}

/// A node, and the port of its bus.
struct Node {
    server: Server,
    bus: ReservedPort,
}

/// The options of all of them.
fn options(first: &[&str], bus: &ReservedPort, more: &[&str]) -> Vec<String> {
    let port = bus.number().to_string();
    let mut all = first.to_vec();
    all.extend(["--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT]);
    all.extend(["--cluster-port", &port, "--save", "", "--repl-diskless-sync-delay", "0"]);
    all.extend(more);
    all.into_iter().map(str::to_owned).collect()
}

impl Node {
    fn start(program: &str, first: &[&str], more: &[&str]) -> Node {
        let bus = ReservedPort::take().unwrap();
        let server = Server::start(Path::new(program), &options(first, &bus, more)).unwrap();
        Node { server, bus }
    }

    /// A Martlet node whose file outlives it.
    fn ours_in(directory: &Path, more: &[&str]) -> Node {
        let bus = ReservedPort::take().unwrap();
        let all = options(OWN_OPTIONS, &bus, more);
        Node { server: Server::start_in(directory, Path::new(OURS), &all).unwrap(), bus }
    }

    /// Starts it again at the addresses that it had.
    fn restart(self, directory: &Path, more: &[&str]) -> Node {
        let all = options(OWN_OPTIONS, &self.bus, more);
        let server = self.server.restart_in(directory, Path::new(OURS), &all).unwrap();
        Node { server, bus: self.bus }
    }

    fn ours(more: &[&str]) -> Node {
        Node::start(OURS, OWN_OPTIONS, more)
    }

    fn real() -> Node {
        Node::start(PEER, &[], &[])
    }

    fn address(&self) -> SocketAddr {
        self.server.address()
    }

    fn connect(&self) -> Client {
        Client::connect(self.address()).unwrap()
    }

    /// The answer's text, or `-` and the error's.
    fn ask(&self, words: &[&str]) -> String {
        told(&self.connect().command(words).unwrap())
    }

    fn id(&self) -> String {
        self.ask(&["CLUSTER", "MYID"])
    }

    fn meet(&self, other: &Node) {
        let (port, bus) = (other.address().port().to_string(), other.bus.number().to_string());
        assert_eq!(self.ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]), "OK");
    }
}

/// A reply on one line.
fn told(reply: &Reply) -> String {
    match reply {
        Reply::Error(text) => format!("-{}", String::from_utf8_lossy(text)),
        Reply::Int(number) => number.to_string(),
        Reply::Array(parts) => parts.iter().map(told).collect::<Vec<_>>().join(" "),
        other => other.text().map_or("nil".into(), |text| String::from_utf8_lossy(text).into_owned()),
    }
}

/// Has nodes meet, and waits until all know each other.
fn introduce(nodes: &[&Node]) {
    nodes.iter().skip(1).for_each(|node| nodes[0].meet(node));
    let expected = format!("cluster_known_nodes:{}", nodes.len());
    until("every node knows every other", || {
        let knows = |node: &&Node| {
            let has_handshake = node.ask(&["CLUSTER", "NODES"]).contains("handshake");
            node.ask(&["CLUSTER", "INFO"]).contains(&expected) && !has_handshake
        };
        nodes.iter().all(knows)
    });
}

/// Waits until all of them find that the cluster is up.
fn until_up(nodes: &[&Node]) {
    until("the cluster is up", || {
        nodes.iter().all(|node| node.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok"))
    });
}

/// Waits until all of them know one epoch of each node, and no two primaries have the same: until then epochs
/// change without a vote, and a candidate with an older epoch gets none.
fn until_settled(nodes: &[&Node]) {
    let epochs = |node: &Node| {
        let list = node.ask(&["CLUSTER", "NODES"]);
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut epochs: Vec<_> =
            list.lines().map(words).map(|line| (line[0].clone(), line[6].clone())).collect();
        epochs.sort();
        let primaries =
            list.lines().filter(|line| line.contains("master")).map(|line| words(line)[6].clone());
        let mut of_primaries: Vec<_> = primaries.collect();
        let count = of_primaries.len();
        of_primaries.sort();
        of_primaries.dedup();
        let info = node.ask(&["CLUSTER", "INFO"]);
        let current = info.lines().find(|line| line.starts_with("cluster_current_epoch")).map(str::to_owned);
        (of_primaries.len() == count).then_some((epochs, current))
    };
    until("the nodes agree about their epochs", || {
        let first = epochs(nodes[0]);
        first.is_some() && nodes.iter().all(|node| epochs(node) == first)
    });
}

/// Lets nodes find soon that another is dead.
fn expect_death(nodes: &[&Node]) {
    until_settled(nodes);
    for node in nodes {
        assert_eq!(node.ask(&["CONFIG", "SET", "cluster-node-timeout", NODE_TIMEOUT_OF_DYING]), "OK");
    }
}

/// Has a replica take over with its primary's help, and waits until it has. `all` are the cluster's nodes.
fn take_over(replica: &Node, all: &[&Node]) {
    until_known(replica, all);
    until_settled(all);
    let mut asked: Option<Instant> = None;
    until("the replica is a primary", || {
        // Real ones give it up after five seconds, which a busy machine may take.
        if asked.is_none_or(|asked| asked.elapsed() > Duration::from_secs(15)) {
            asked = Some(Instant::now());
            let answer = replica.ask(&["CLUSTER", "FAILOVER"]);
            // A busy machine's link to the primary may be made anew at this instant.
            let is_between_links = answer.contains("Master is down or failed");
            assert!(answer == "OK" || answer.contains("to a replica") || is_between_links, "{answer}");
            if is_between_links {
                asked = None;
            }
        }
        replica.ask(&["ROLE"]).starts_with("master")
    });
}

/// A cluster of primaries, each with a part of the slots.
fn form(nodes: &[&Node]) {
    introduce(nodes);
    let part = 16_384 / nodes.len();
    for (index, node) in nodes.iter().enumerate() {
        let last = if index + 1 == nodes.len() { 16_383 } else { (index + 1) * part - 1 };
        let (first, last) = ((index * part).to_string(), last.to_string());
        assert_eq!(node.ask(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]), "OK");
    }
    until_up(nodes);
}

/// Makes a node a replica of another, and waits until it has its data.
fn attach(replica: &Node, primary: &Node) {
    let id = primary.id();
    until("the replica knows its primary", || replica.ask(&["CLUSTER", "REPLICATE", &id]) == "OK");
    until("the link is up", || replica.ask(&["INFO", "replication"]).contains("master_link_status:up"));
    until_up(&[replica]);
}

/// Waits until these nodes know whose replica a node is: they vote for no other, and its primary pauses for
/// no other. (That it is a replica they hear before, from others.)
fn until_known(replica: &Node, nodes: &[&Node]) {
    let id = replica.id();
    let is_replica =
        |line: &str| line.starts_with(&id) && line.contains("slave") && !line.contains("slave -");
    let knows = |node: &&Node| node.ask(&["CLUSTER", "NODES"]).lines().any(is_replica);
    until("all know the replica", || nodes.iter().all(knows));
}

/// Waits until redis-cli finds that all nodes agree.
fn until_agreed(address: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let check = Command::new(CLI).args(["--cluster", "check", address]).output().unwrap();
        if check.status.success() {
            return;
        }
        let said = String::from_utf8_lossy(&check.stdout);
        assert!(Instant::now() < end, "the nodes do not agree: {said}");
        std::thread::sleep(LOOK);
    }
}

/// Runs `redis-cli --cluster`; returns its output.
fn manage(words: &[&str]) -> String {
    let output = Command::new(CLI).arg("--cluster").args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "redis-cli --cluster {words:?}: {text}");
    text
}
