//! Replies about the whole keyspace are of one moment, whatever changes it: histories of real servers,
//! which [`martlet_testkit::moments`] checks. What SCAN promises beside RENAME, SWAPDB, FLUSHALL and EXEC
//! is held to in the same way.

use std::path::Path;

use martlet_base::random::Random;
use martlet_testkit::moments::{Kind, Plan, check, run};
use martlet_testkit::server::Server;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");
/// Violations that a failure shows.
const SHOWN_MAX: usize = 5;

/// Makes a history by this plan, and checks it.
fn hold(plan: &Plan, arguments: &[&str]) {
    let common = ["server", "--save", "", "--enable-debug-command", "local"];
    let server = Server::start(Path::new(OURS), &[&common, arguments].concat()).unwrap();
    let history = run(server.address(), plan).unwrap_or_else(|error| panic!("seed {}: {error}", plan.seed));
    let violations = check(&history);
    let shown: Vec<String> = violations.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
    assert!(
        violations.is_empty(),
        "seed {}: {} of {} reads\n{}",
        plan.seed,
        violations.len(),
        history.reads.len(),
        shown.join("\n")
    );
    assert!(history.reads.len() > plan.requests / 20, "seed {}: {} reads", plan.seed, history.reads.len());
}

fn plan(writers: &[Kind], bystanders: usize) -> Plan {
    Plan {
        seed: Random::from_entropy().next_u64(),
        writers: writers.to_vec(),
        bystanders,
        requests: 1_500,
        readers: 2,
        has_digests: !writers.contains(&Kind::Everything),
    }
}

#[test]
fn of_few_keys() {
    for kind in [Kind::Ring, Kind::Lone, Kind::Transfers] {
        hold(&plan(&[kind], 0), &["--io-threads", "2"]);
    }
    hold(&plan(&[Kind::Ring, Kind::Lone, Kind::Transfers], 0), &["--io-threads", "4"]);
}

#[test]
fn of_many_keys() {
    let writers = [Kind::Ring, Kind::Groups, Kind::Transfers, Kind::Lone];
    hold(&plan(&writers, 3_000), &["--io-threads", "4"]);
}

#[test]
fn beside_flushes_and_exchanges_of_databases() {
    for threads in ["2", "4"] {
        hold(&plan(&[Kind::Everything], 0), &["--io-threads", threads]);
    }
}
