//! A Martlet cluster, three primaries with a replica each, that changes while a client library tours it.
//! Slots move key by key and all at once, a replica takes over. No acknowledged INCR may be lost or done
//! twice.

use super::running::{Error, Tour, ask, commands, until};
use martlet_testkit::server::{ReservedPort, Server};
use std::process::Command;
use xtask::run::{Outcome, root, step};

/// Keys that the tour has set before anything moves.
const KEYS_OF_A_TOUR: i64 = 200;
/// A library learns of a failover by redirections: it continues for a while.
const REQUESTS_AFTER_FAILOVER: u64 = 500;

/// A node, and the port of its bus for as long as it lives.
struct Node {
    server: Server,
    _bus: ReservedPort,
}

impl Node {
    fn start() -> Result<Node, Error> {
        let bus = ReservedPort::take()?;
        let number = bus.number().to_string();
        let program = root().join("target/debug/martlet");
        // A replica whose offset is 0 is not in CLUSTER SLOTS: pings soon make it more.
        let words = "server --cluster-enabled yes --repl-diskless-sync-delay 0 --repl-ping-replica-period 1";
        let arguments = words.split(' ').chain(["--cluster-port", &number]).collect::<Vec<_>>();
        let server = Server::start(&program, &arguments)?;
        Ok(Node { server, _bus: bus })
    }

    fn address(&self) -> String {
        self.server.address().to_string()
    }

    fn ask(&self, words: &[&str]) -> Result<String, Error> {
        ask(self.server.address(), words)
    }

    /// What CLUSTER NODES says of itself.
    fn own_line(&self) -> Result<String, Error> {
        let nodes = self.ask(&["CLUSTER", "NODES"])?;
        Ok(nodes.lines().find(|line| line.contains("myself")).ok_or("no line of its own")?.to_owned())
    }
}

/// Three primaries, then their replicas; the program has been built.
fn create() -> Result<Vec<Node>, Error> {
    let nodes = (0..6).map(|_| Node::start()).collect::<Result<Vec<_>, _>>()?;
    let addresses: Vec<String> = nodes.iter().map(Node::address).collect();
    step(
        Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(&addresses)
            .args(["--cluster-replicas", "1", "--cluster-yes"])
            .stdout(std::process::Stdio::null()),
    )?;
    for node in &nodes {
        until("a cluster of six", || {
            let is_whole = node.ask(&["CLUSTER", "INFO"])?.contains("cluster_state:ok");
            Ok(is_whole && node.ask(&["CLUSTER", "SLOTS"])?.matches("127.0.0.1").count() == 6)
        })?;
    }
    for node in &nodes[3..] {
        until("replicas", || Ok(node.ask(&["INFO", "replication"])?.contains("master_link_status:up")))?;
    }
    Ok(nodes)
}

/// Has a library's program tour a new cluster.
pub fn tour(program: Command) -> Outcome {
    let nodes = create()?;
    let port = nodes[0].server.address().port().to_string();
    let mut tour = Tour::start(program, "REDIS_PORT", &port)?;
    let changed = change(&nodes, &mut tour);
    tour.end(changed)
}

/// Moves slots and roles under a running tour.
fn change(nodes: &[Node], tour: &mut Tour) -> Outcome {
    let ids = nodes.iter().map(|node| node.ask(&["CLUSTER", "MYID"])).collect::<Result<Vec<_>, _>>()?;
    tour.until("the tour's counters", || {
        let sizes = nodes[..3].iter().map(|node| Ok(node.ask(&["DBSIZE"])?.parse::<i64>()?));
        Ok(sizes.sum::<Result<i64, Error>>()? > KEYS_OF_A_TOUR)
    })?;
    reshard(&nodes[0], &ids[0], &ids[1])?;
    reshard(&nodes[0], &ids[1], &ids[2])?;
    // The first primary's slots return to it, all at once.
    let line = nodes[2].own_line()?;
    let range = line.split(' ').nth(8).ok_or("no slots")?;
    let (first, last) = range.split_once('-').ok_or("no range")?;
    nodes[2].ask(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", first, last, "NODE", &ids[0]])?;
    tour.until("slots moved at once", || Ok(!nodes[2].own_line()?.split(' ').any(|word| word == range)))?;
    nodes[3].ask(&["CLUSTER", "FAILOVER"])?;
    tour.until("a failover", || Ok(nodes[3].ask(&["INFO", "replication"])?.contains("role:master")))?;
    let before = commands(nodes[3].server.address())?;
    tour.until("requests to the new primary", || {
        Ok(commands(nodes[3].server.address())? > before + REQUESTS_AFTER_FAILOVER)
    })
}

/// Has redis-cli move slots from one node to another.
fn reshard(any: &Node, from: &str, to: &str) -> Outcome {
    let words = ["--cluster", "reshard", &any.address(), "--cluster-from", from, "--cluster-to", to];
    let mut command = Command::new("redis-cli");
    command.args(words).args(["--cluster-slots", "300", "--cluster-yes"]);
    step(command.stdout(std::process::Stdio::null()))
}
