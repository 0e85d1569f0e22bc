//! Writers with their own keys, while primaries are killed and restarted empty, or replicas take over. With
//! `martlet-sync-replicas 1` no acknowledged write may be gone; without it, losses are counted.
//!
//! `MARTLET_FAILOVER_ROUNDS` is the number of failovers of a cluster, `MARTLET_FAILOVER_SEED` the seed.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use tempfile::TempDir;

use super::{NODE_TIMEOUT_OF_DYING, Node, attach, expect_death, form, told, until, until_known, until_up};

const ROUNDS: u64 = 2;
const WRITERS: usize = 3;
/// Writes of each that are acknowledged between two failovers.
const WRITES_BETWEEN: u64 = 100;
/// A node that does not answer for this time is left out.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// Between two tries of a write that no node took.
const PAUSE: Duration = Duration::from_millis(20);

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Connections to the nodes of a cluster, wherever a key is.
struct Router {
    clients: HashMap<SocketAddr, Client>,
    nodes: Vec<SocketAddr>,
    /// The node that is asked first.
    likely: HashMap<u16, SocketAddr>,
}

impl Router {
    fn new(nodes: Vec<SocketAddr>) -> Router {
        Router { clients: HashMap::new(), nodes, likely: HashMap::new() }
    }

    fn ask(&mut self, address: SocketAddr, words: &[&str]) -> Option<String> {
        let client = match self.clients.remove(&address) {
            Some(client) => Some(client),
            None => Client::connect_within(address, ANSWER_LIMIT).ok(),
        };
        let mut client = client?;
        let reply = client.command(words).ok()?;
        self.clients.insert(address, client);
        Some(told(&reply))
    }

    /// The answer of the key's owner; `None` without one. A request that may have run is not repeated.
    fn request(&mut self, words: &[&str]) -> Option<String> {
        let slot = martlet_base::slot::slot_of(words[1].as_bytes());
        let first = self.likely.get(&slot).copied();
        let mut asked: Vec<SocketAddr> = self.nodes.iter().copied().chain(first).collect();
        for _ in 0..self.nodes.len() * 2 {
            let address = asked.pop()?;
            let answer = self.ask(address, words);
            match answer {
                Some(answer) if answer.starts_with("-MOVED") => {
                    asked.extend(answer.rsplit(' ').next().and_then(|to| to.parse::<SocketAddr>().ok()));
                }
                Some(answer) if answer.starts_with('-') => return None,
                Some(answer) => {
                    self.likely.insert(slot, address);
                    return Some(answer);
                }
                None => {
                    self.likely.remove(&slot);
                }
            }
        }
        None
    }
}

/// Writes one key after another until the end is signalled; returns the acknowledged ones.
fn write(number: usize, nodes: Vec<SocketAddr>, is_over: &AtomicBool, count: &AtomicU64) -> Vec<String> {
    let (mut router, mut acknowledged) = (Router::new(nodes), Vec::new());
    for at in 0..u64::MAX {
        if is_over.load(Ordering::SeqCst) {
            break;
        }
        let key = format!("{number}:{at}");
        if router.request(&["SET", &key, &key]).is_some_and(|answer| answer == "OK") {
            acknowledged.push(key);
            count.fetch_add(1, Ordering::SeqCst);
        } else {
            std::thread::sleep(PAUSE);
        }
    }
    acknowledged
}

/// A node, and the directory in which its file lies.
struct Member {
    directory: TempDir,
    node: Option<Node>,
    options: Vec<&'static str>,
}

impl Member {
    fn start(options: &[&'static str]) -> Member {
        let directory = tempfile::tempdir().unwrap();
        let node = Node::ours_in(directory.path(), options);
        Member { directory, node: Some(node), options: options.to_vec() }
    }

    fn node(&self) -> &Node {
        self.node.as_ref().unwrap()
    }

    /// Starts it again where it was, at the addresses that others know, and without data.
    fn restart(&mut self) {
        let Some(node) = self.node.take() else { return };
        let timeout = ["--cluster-node-timeout", NODE_TIMEOUT_OF_DYING];
        self.node = Some(node.restart(self.directory.path(), &[&self.options[..], &timeout].concat()));
    }
}

/// The failure of a shard.
#[derive(Clone, Copy, Debug)]
enum Failure {
    Killed,
    Agreed,
    Forced,
}

/// Each shard has a primary, and the primary a replica whose link is up.
fn until_whole(members: &[Member]) {
    let all: Vec<&Node> = members.iter().map(Member::node).collect();
    until("each primary has its replica", || {
        let is_whole = |node: &&Node| {
            let replication = node.ask(&["INFO", "replication"]);
            let is_primary = replication.contains("role:master") && replication.contains("state=online");
            is_primary || replication.contains("master_link_status:up")
        };
        all.iter().all(is_whole)
    });
    until_up(&all);
    for node in all.iter().filter(|node| node.ask(&["ROLE"]).starts_with("slave")) {
        until_known(node, &all);
    }
}

/// Has a replica take a primary's place.
fn fail(members: &mut [Member], random: &mut Random) -> Failure {
    let index = loop {
        let index = random.below(members.len() as u64) as usize;
        if members[index].node().ask(&["ROLE"]).starts_with("slave") {
            break index;
        }
    };
    let replica_of = |node: &Node| node.ask(&["INFO", "replication"]);
    let info = replica_of(members[index].node());
    let port = info.lines().find_map(|line| line.strip_prefix("master_port:")).unwrap_or_default().to_owned();
    let primary = members.iter().position(|member| member.node().address().port().to_string() == port);
    let primary = primary.expect("the primary is one of them");
    let failure = [Failure::Killed, Failure::Agreed, Failure::Forced][random.below(3) as usize];
    let has_taken_over = |member: &Member| member.node().ask(&["ROLE"]).starts_with("master");
    match failure {
        Failure::Killed => {
            members[primary].node.as_mut().unwrap().server.kill();
            until("the replica takes over", || has_taken_over(&members[index]));
            members[primary].restart();
        }
        Failure::Agreed | Failure::Forced => {
            let words: &[&str] = match failure {
                Failure::Agreed => &["CLUSTER", "FAILOVER"],
                _ => &["CLUSTER", "FAILOVER", "FORCE"],
            };
            members[index].node().ask(words);
            let mut looks = 0;
            until("the replica takes over", || {
                looks += 1;
                if looks % 250 == 0 {
                    members[index].node().ask(words);
                }
                has_taken_over(&members[index])
            });
        }
    }
    failure
}

/// A cluster's life; how many writes were acknowledged, and which are gone.
fn live(seed: u64, rounds: u64, options: &[&'static str]) -> (usize, Vec<String>) {
    let mut random = Random::seeded(seed);
    let mut members: Vec<Member> = (0..6).map(|_| Member::start(options)).collect();
    {
        let nodes: Vec<&Node> = members.iter().map(Member::node).collect();
        form(&nodes[..3]);
        nodes[3..].iter().for_each(|replica| nodes[0].meet(replica));
        (0..3).for_each(|at| attach(nodes[3 + at], nodes[at]));
        expect_death(&nodes);
    }
    let addresses: Vec<SocketAddr> = members.iter().map(|member| member.node().address()).collect();
    let (is_over, counts) =
        (AtomicBool::new(false), (0..WRITERS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
    let acknowledged = std::thread::scope(|scope| {
        let begin = |(number, count)| {
            let (nodes, is_over) = (addresses.clone(), &is_over);
            scope.spawn(move || write(number, nodes, is_over, count))
        };
        let writers: Vec<_> = counts.iter().enumerate().map(begin).collect();
        let run = || {
            for _ in 0..rounds {
                until_whole(&members);
                let before: Vec<u64> = counts.iter().map(|count| count.load(Ordering::SeqCst)).collect();
                let has_written = || {
                    let now = counts.iter().map(|count| count.load(Ordering::SeqCst));
                    now.zip(&before).all(|(now, before)| now - before >= WRITES_BETWEEN)
                };
                until("all have written", has_written);
                let failure = fail(&mut members, &mut random);
                println!("seed {seed}: {failure:?}");
            }
            until_whole(&members);
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        is_over.store(true, Ordering::SeqCst);
        let acknowledged: Vec<String> =
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        outcome.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
        acknowledged
    });
    let mut router = Router::new(addresses);
    let mut is_gone = |key: &&String| {
        let mut answer = None;
        until("the key is asked for", || {
            answer = router.request(&["GET", key.as_str()]);
            answer.is_some()
        });
        answer.as_deref() != Some(key.as_str())
    };
    let gone = acknowledged.iter().filter(&mut is_gone).cloned().collect();
    (acknowledged.len(), gone)
}

#[test]
fn what_was_acknowledged_outlives_failovers() {
    let rounds = number("MARTLET_FAILOVER_ROUNDS").unwrap_or(ROUNDS);
    let seed = number("MARTLET_FAILOVER_SEED").unwrap_or_else(|| Random::from_entropy().below(1 << 40));
    println!("MARTLET_FAILOVER_SEED={seed}");
    let sync = ["--martlet-sync-replicas", "1"];
    let (acknowledged, gone) = live(seed, rounds, &sync);
    println!("{rounds} failovers, {acknowledged} writes acknowledged once a replica had them");
    assert!(gone.is_empty(), "MARTLET_FAILOVER_SEED={seed}: {} are gone: {gone:?}", gone.len());
    if std::env::var_os("MARTLET_FAILOVER_ROUNDS").is_some() {
        let (acknowledged, gone) = live(seed, rounds, &[]);
        println!("{rounds} failovers, {acknowledged} writes acknowledged at once, {} gone", gone.len());
    }
}
