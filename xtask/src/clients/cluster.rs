//! A cluster of ours, three primaries with a replica each, that changes while a client library tours it.
//! Slots move key by key and all at once, a replica takes over. No acknowledged INCR may be lost or done
//! twice.

use crate::run::{Outcome, root, step};
use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::{ReservedPort, Server};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A condition that does not come true in this time never will.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at whether it has.
const LOOK: Duration = Duration::from_millis(50);
/// Keys that the tour has set before anything moves.
const KEYS_OF_A_TOUR: i64 = 200;
/// A library learns of a failover by redirections: it goes on for a while.
const REQUESTS_AFTER_FAILOVER: u64 = 500;

type Error = Box<dyn std::error::Error>;

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
        let reply = Client::connect(self.server.address())?.command(words)?;
        told(&reply).map_err(|error| format!("{words:?}: {error}").into())
    }

    /// What CLUSTER NODES says of itself.
    fn own_line(&self) -> Result<String, Error> {
        let nodes = self.ask(&["CLUSTER", "NODES"])?;
        Ok(nodes.lines().find(|line| line.contains("myself")).ok_or("no line of its own")?.to_owned())
    }

    /// How many commands it has processed.
    fn commands(&self) -> Result<u64, Error> {
        let info = self.ask(&["INFO", "stats"])?;
        let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
        Ok(line.ok_or("no such field")?.trim().parse()?)
    }
}

/// A reply as one line, or the error's text.
fn told(reply: &Reply) -> Result<String, String> {
    match reply {
        Reply::Error(text) => Err(String::from_utf8_lossy(text).into_owned()),
        Reply::Int(number) => Ok(number.to_string()),
        Reply::Array(parts) => Ok(parts.iter().map(told).collect::<Result<Vec<_>, _>>()?.join(" ")),
        other => Ok(other.text().map_or(String::new(), |text| String::from_utf8_lossy(text).into_owned())),
    }
}

fn until(what: &str, mut holds: impl FnMut() -> Result<bool, Error>) -> Outcome {
    let end = Instant::now() + PATIENCE;
    while !holds()? {
        if Instant::now() > end {
            return Err(format!("never: {what}").into());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
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

/// Has a library's program tour a new cluster; it ends once the file `TOUR_END` is there.
pub fn tour(mut program: Command) -> Outcome {
    let nodes = create()?;
    let folder = tempfile::tempdir()?;
    let end = folder.path().join("end");
    let port = nodes[0].server.address().port().to_string();
    let mut running = program.env("REDIS_PORT", port).env("TOUR_END", &end).spawn()?;
    let changed = change(&nodes, &mut running);
    std::fs::write(&end, "")?;
    let status = running.wait()?;
    changed?;
    if status.success() { Ok(()) } else { Err(format!("the tour: {status}").into()) }
}

/// Moves slots and roles under a running tour, which is there to the end.
fn change(nodes: &[Node], running: &mut Child) -> Outcome {
    let mut wait = |what: &str, holds: &dyn Fn() -> Result<bool, Error>| {
        until(what, || match running.try_wait()? {
            Some(status) => Err(format!("the tour ended early: {status}").into()),
            None => holds(),
        })
    };
    let ids = nodes.iter().map(|node| node.ask(&["CLUSTER", "MYID"])).collect::<Result<Vec<_>, _>>()?;
    wait("the tour's counters", &|| {
        let sizes = nodes[..3].iter().map(|node| Ok(node.ask(&["DBSIZE"])?.parse::<i64>()?));
        Ok(sizes.sum::<Result<i64, Error>>()? > KEYS_OF_A_TOUR)
    })?;
    reshard(&nodes[0], &ids[0], &ids[1])?;
    reshard(&nodes[0], &ids[1], &ids[2])?;
    // What was the first primary's goes back to it, all at once.
    let line = nodes[2].own_line()?;
    let range = line.split(' ').nth(8).ok_or("no slots")?;
    let (first, last) = range.split_once('-').ok_or("no range")?;
    nodes[2].ask(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", first, last, "NODE", &ids[0]])?;
    wait("slots moved at once", &|| Ok(!nodes[2].own_line()?.split(' ').any(|word| word == range)))?;
    nodes[3].ask(&["CLUSTER", "FAILOVER"])?;
    wait("a failover", &|| Ok(nodes[3].ask(&["INFO", "replication"])?.contains("role:master")))?;
    let before = nodes[3].commands()?;
    wait("requests to the new primary", &|| Ok(nodes[3].commands()? > before + REQUESTS_AFTER_FAILOVER))
}

/// Has redis-cli move slots from one node to another.
fn reshard(any: &Node, from: &str, to: &str) -> Outcome {
    let words = ["--cluster", "reshard", &any.address(), "--cluster-from", from, "--cluster-to", to];
    let mut command = Command::new("redis-cli");
    command.args(words).args(["--cluster-slots", "300", "--cluster-yes"]);
    step(command.stdout(std::process::Stdio::null()))
}
