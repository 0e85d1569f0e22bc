//! What each kind of workload does to a real redis-server, seen from the server's side: its counters, keys,
//! times to live and connections. Without Redis' programs these tests say so and pass.

use crate::common;
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::Server;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const OURS: &str = env!("CARGO_BIN_EXE_martlet-bench");

/// A server, and a directory for files.
struct Bed {
    server: Server,
    directory: tempfile::TempDir,
}

fn bed() -> Option<Bed> {
    if !["redis-server", "redis-cli"].into_iter().all(is_installed) {
        return None;
    }
    let server = Server::start(Path::new("redis-server"), &[] as &[&str]).expect("redis-server starts");
    Some(Bed { server, directory: tempfile::tempdir().expect("a directory") })
}

impl Bed {
    fn port(&self) -> String {
        self.server.address().port().to_string()
    }

    fn cli(&self, words: &[&str]) -> String {
        common::cli(&self.port(), words)
    }

    fn calls(&self, command: &str) -> u64 {
        common::calls(&self.port(), command)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "120", OURS, "-p", &self.port()]).args(arguments);
        command.output().expect("starts")
    }

    /// Runs with `--json`; returns the written file.
    fn report(&self, arguments: &[&str]) -> Value {
        let file = self.directory.path().join("run.json");
        let output = self.run(&[&["--json", &file.to_string_lossy()], arguments].concat());
        let shown = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {shown}");
        serde_json::from_slice(&std::fs::read(file).expect("written")).expect("JSON")
    }
}

fn requests(report: &Value, command: &str) -> u64 {
    let commands = report["commands"].as_array().expect("a list");
    let found = commands.iter().find(|c| c["name"] == command);
    found.unwrap_or_else(|| panic!("no {command} in {commands:?}"))["requests"].as_u64().expect("a number")
}

#[test]
fn a_file_of_load_mix_and_session_is_sent_as_it_says() {
    let Some(bed) = bed() else { return };
    let file = bed.directory.path().join("shop.toml");
    let text = r#"
requests = 3000
connections = 10
seed = 5
[[load]]
template = "SET {key sequence 500} {value 10-20}"
requests = 500
[[command]]
template = "GET {key zipfian 500}"
weight = 8
[[session]]
name = "cart"
weight = 1
variables = { user = "uniform 50" }
steps = ["GET key_0000000001", "HSET cart:{user} {rand 10} {value 20}", "EXPIRE cart:{user} {ttl 60 600}"]
"#;
    std::fs::write(&file, text).expect("written");
    let report = bed.report(&["--workload", &file.to_string_lossy()]);
    let counted: u64 = report["commands"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|c| c["requests"].as_u64().unwrap_or(0))
        .sum();
    assert_eq!(Some(counted), report["requests"].as_u64());
    // Sessions that have begun may be finished: each connection can be two steps beyond.
    assert!((3000..=3020).contains(&counted), "{counted} of 3000");
    // Requests of the load phase are in no figure.
    assert_eq!(
        (bed.calls("set"), bed.calls("get") + bed.calls("hset") + bed.calls("expire")),
        (500, counted)
    );
    let length: u64 = bed.cli(&["strlen", "key_0000000499"]).parse().expect("a number");
    assert!((10..=20).contains(&length), "{length}");
    // Eight requests to each session of three: a share of 8/11; every session but those at the end is whole.
    let (sets, expires) = (bed.calls("hset"), bed.calls("expire"));
    assert!((150..400).contains(&sets) && sets - expires <= 10, "seed 5: {sets} and {expires}");
    let carts = bed.cli(&["keys", "cart:*"]);
    let ttl: i64 = bed.cli(&["ttl", carts.lines().next().expect("a cart")]).parse().expect("a number");
    assert!((50..=600).contains(&ttl), "{ttl}");
    let names: Vec<&str> =
        report["commands"].as_array().expect("a list").iter().filter_map(|c| c["name"].as_str()).collect();
    assert!(names.len() == 4 && names.iter().filter(|name| name.contains("cart")).count() == 3, "{names:?}");
}

#[test]
fn weights_databases_and_churn_reach_the_server() {
    let Some(bed) = bed() else { return };
    let report = bed.report(&[
        "-n",
        "2000",
        "-c",
        "5",
        "--churn",
        "10",
        "-3",
        "--dbnum",
        "2",
        "--seed",
        "1",
        "--command",
        "9:GET {key uniform 100}",
        "--command",
        "1:SET {key uniform 100} {value 8}",
    ]);
    let (gets, sets) = (requests(&report, "GET"), requests(&report, "SET"));
    assert_eq!((bed.calls("get"), bed.calls("set"), gets + sets), (gets, sets, 2000));
    assert!((130..280).contains(&sets), "seed 1: {sets} of 2000");
    let stats = bed.cli(&["info", "stats"]);
    let received = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    let received: u64 = received.expect("told").trim().parse().expect("a number");
    assert!(received >= 200, "{received} connections for 2,000 requests, ten each");
    assert!(bed.calls("hello") >= 200);
    assert!(bed.cli(&["info", "keyspace"]).contains("db2:keys="));
}

#[test]
fn a_seed_decides_how_many_requests_a_poisson_second_has() {
    let Some(bed) = bed() else { return };
    let line = ["--rate", "500", "--poisson", "--duration", "500ms", "--seed", "7", "PING"];
    let [one, two] = [bed.report(&line), bed.report(&line)].map(|report| report["requests"].as_u64());
    assert_eq!(one, two);
    assert!(one.is_some_and(|n| (190..310).contains(&n)), "seed 7: {one:?}");
}

#[test]
fn what_is_checked_is_right_on_a_right_server() {
    let Some(bed) = bed() else { return };
    for (kind, line) in [
        ("verify", &["--verify", "-c", "4", "-P", "8", "--duration", "300ms"][..]),
        ("hot-key", &["--hot-key", "-c", "20", "-n", "2000"][..]),
    ] {
        let report = bed.report(line);
        let check = &report["check"];
        assert_eq!(check["kind"], kind);
        assert_eq!(check["expected"], check["found"]);
        assert!(check["expected"].as_u64().is_some_and(|n| n > 0), "{check}");
    }
}

#[test]
fn a_comparison_decides_the_exit_code() {
    let Some(bed) = bed() else { return };
    let line = |condition: &'static str| {
        [
            "--vs-start",
            "redis-server",
            "--rounds",
            "3",
            // Enough for the kernel's account of processor time, which has steps of 10 ms.
            "-n",
            "20000",
            "-c",
            "5",
            "--require",
            condition,
            "PING",
        ]
    };
    let output = bed.run(&line("throughput_ratio>=0.0001"));
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("cpu_ratio"), "{text}");
    assert_eq!(bed.run(&line("throughput_ratio>=10000")).status.code(), Some(1));
}

#[test]
fn what_a_request_costs_is_the_servers_and_the_clients() {
    let Some(bed) = bed() else { return };
    let report = bed.report(&["-n", "40000", "-P", "4", "SET {key uniform 1000} {value 64}"]);
    let cost = &report["cost"];
    assert_eq!(cost["from_process"], true);
    let figure = |name: &str| cost[name].as_f64().unwrap_or(-1.0);
    assert!(figure("user_us") + figure("system_us") > 0.0 && figure("client_us") > 0.0, "{cost}");
    // *3 SET key_ten_digits value: 14 and 64 bytes and their frames; `+OK` comes back.
    assert_eq!((figure("sent_bytes"), figure("received_bytes")), (105.0, 5.0), "{cost}");
    assert!(figure("resident_bytes") > 1e6, "{cost}");
}
