//! Cluster mode against three real redis-servers. Without redis-server these tests say so and pass.

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::{ReservedPort, Server};
use std::path::Path;
use std::process::{Command, Output};

/// Slots of each of the three nodes, first and last.
const SLOTS: [[&str; 2]; 3] = [["0", "5460"], ["5461", "10922"], ["10923", "16383"]];

struct Cluster {
    nodes: Vec<Server>,
    /// Of the nodes' bus.
    _bus: Vec<ReservedPort>,
}

fn ask(node: &Server, words: &[&str]) -> String {
    let mut client = Client::connect(node.address()).expect("connects");
    let reply: Reply = client.command(words).expect("answers");
    assert!(!reply.is_error(), "{words:?}: {reply:?}");
    reply.text().map_or(String::new(), |text| String::from_utf8_lossy(text).into_owned())
}

fn info(node: &Server, name: &str) -> f64 {
    let text = ask(node, &["INFO"]);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("INFO has no {name}"))
}

/// How often a node was sent a command.
fn calls(node: &Server, command: &str) -> u64 {
    let text = ask(node, &["INFO", "commandstats"]);
    let calls = text.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    calls.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
}

impl Cluster {
    fn start() -> Option<Cluster> {
        if !is_installed("redis-server") {
            return None;
        }
        let bus: Vec<ReservedPort> = (0..3).map(|_| ReservedPort::take().expect("a port")).collect();
        let start = |port: &ReservedPort| {
            let arguments = ["--cluster-enabled", "yes", "--cluster-port", &port.number().to_string()];
            Server::start(Path::new("redis-server"), &arguments).expect("redis-server starts")
        };
        let nodes: Vec<Server> = bus.iter().map(start).collect();
        for ((node, [first, last]), bus) in nodes.iter().zip(SLOTS).zip(&bus) {
            ask(node, &["CLUSTER", "ADDSLOTSRANGE", first, last]);
            let port = node.address().port().to_string();
            ask(&nodes[0], &["CLUSTER", "MEET", "127.0.0.1", &port, &bus.number().to_string()]);
        }
        let is_whole = |node: &Server| {
            let info = ask(node, &["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        };
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !nodes.iter().all(is_whole) {
            assert!(std::time::Instant::now() < deadline, "the cluster does not form");
            std::thread::yield_now();
        }
        Some(Cluster { nodes, _bus: bus })
    }

    /// The load tester, given the address of the first node only.
    fn bench(&self, arguments: &[&str]) -> (Output, String) {
        let port = self.nodes[0].address().port().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_martlet-bench"));
        let output = command.args(["-p", &port, "--cluster"]).args(arguments).output().expect("runs");
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output, text)
    }

    fn keys(&self) -> Vec<f64> {
        self.nodes
            .iter()
            .map(|node| {
                Client::connect(node.address()).expect("connects").command(&["DBSIZE"]).expect("answers")
            })
            .map(|reply| reply.integer().unwrap_or(0) as f64)
            .collect()
    }

    fn cpu_s(&self) -> f64 {
        self.nodes.iter().map(|node| info(node, "used_cpu_user") + info(node, "used_cpu_sys")).sum()
    }
}

#[test]
fn the_cost_of_a_request_is_the_sum_over_the_nodes() {
    let Some(cluster) = Cluster::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("run.json").to_string_lossy().into_owned();
    let before = cluster.cpu_s();
    let (output, text) =
        cluster.bench(&["-n", "300000", "-P", "32", "--json", &json, "SET {key uniform 30000} {value 64}"]);
    let spent = cluster.cpu_s() - before;
    assert!(output.status.success(), "{text}");
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
    let cost = &report["cost"];
    assert_eq!(cost["from_process"], true);
    let field = |name: &str| cost[name].as_f64().unwrap_or_default();
    let told = (field("user_us") + field("system_us")) * 0.3;
    // The kernel's account for a process has steps of 10 ms, two for each node; INFO's also holds the
    // connections' beginning.
    assert!((told - spent).abs() <= 0.06 + 0.25 * spent, "told {told} s, spent {spent} s\n{text}");
    assert_eq!((report["requests"].as_u64(), report["errors"].as_u64()), (Some(300_000), Some(0)));
    let keys = cluster.keys();
    assert!(keys.iter().all(|keys| (8000.0..12_000.0).contains(keys)), "spread over all nodes: {keys:?}");
}

#[test]
fn every_way_to_load_reaches_the_right_nodes() {
    let Some(cluster) = Cluster::start() else { return };
    let (output, text) = cluster.bench(&["-n", "3000", "-t", "set,get,lpush,mset,xadd", "-r", "1000", "-q"]);
    assert!(output.status.success() && text.contains("Cluster has 3 primary nodes:"), "{text}");
    assert!(cluster.keys().iter().all(|keys| *keys > 100.0), "{:?}", cluster.keys());
    for arguments in [
        &["-n", "2000", "-c", "6", "--verify"][..],
        &["-n", "2000", "-c", "6", "--hot-key"],
        &["-n", "2000", "--rate", "20k", "GET {key uniform 1000}"],
        &["-n", "2000", "-t", "set,zadd,lrange_100", "--threads", "2", "--duration", "10s"],
    ] {
        let (output, text) = cluster.bench(arguments);
        assert!(output.status.success(), "{arguments:?}: {text}");
    }
}

/// A slot moves while requests for its key are under way: ASK and MOVED are followed and counted, no request
/// is lost.
#[test]
fn a_slot_that_moves_is_followed() {
    let Some(cluster) = Cluster::start() else { return };
    let [from, to, _] = &cluster.nodes[..] else { panic!("three nodes") };
    let [from_id, to_id] = [from, to].map(|node| ask(node, &["CLUSTER", "MYID"]));
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("run.json").to_string_lossy().into_owned();
    let (output, text) = std::thread::scope(|scope| {
        // The slot of this key is the first node's; it never exists, so that a slot on its way answers ASK.
        let arguments = ["-n", "30000", "--rate", "10k", "--json", &json, "--command", "GET hello"];
        let cluster = &cluster;
        let run = scope.spawn(move || cluster.bench(&arguments));
        while calls(from, "get") < 1000 {
            assert!(!run.is_finished(), "it ended early");
        }
        ask(to, &["CLUSTER", "SETSLOT", "866", "IMPORTING", &from_id]);
        ask(from, &["CLUSTER", "SETSLOT", "866", "MIGRATING", &to_id]);
        while calls(to, "asking") < 1000 {
            assert!(!run.is_finished(), "too little was asked of the node that the slot goes to");
        }
        for node in &cluster.nodes {
            ask(node, &["CLUSTER", "SETSLOT", "866", "NODE", &to_id]);
        }
        run.join().expect("ends")
    });
    assert!(output.status.success(), "{text}");
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
    assert_eq!((report["requests"].as_u64(), report["lost"].as_u64()), (Some(30_000), Some(0)), "{text}");
    assert!(report["redirects"].as_u64().is_some_and(|n| n > 1000), "{text}");
}
