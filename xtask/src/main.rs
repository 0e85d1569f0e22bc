//! Chores behind `./x`: each is a subcommand, and `./x ci` is what `.ci/run` runs.

mod apps;
mod browser;
mod checks;
mod ci;
mod client_cpu;
mod clients;
mod cost;
mod crash;
mod dashboard;
mod docs;
mod durability;
mod failovers;
mod fairness;
mod fuzz;
mod hit_rates;
mod liveness;
mod man;
mod miri;
mod packages;
mod python;
mod quick;
mod report_page;
mod run;
mod sim;
mod tidy;
mod tools;
mod valkey;
mod wire;

use clap::{Parser, Subcommand};

/// The project's chores.
#[derive(Parser)]
#[command(name = "x")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Format, clippy with warnings denied, other targets and licences when what that needs is installed.
    Check,
    /// Between two commits: format, tidy, unit tests of the changed crates and of those that build on them.
    Quick(quick::Options),
    /// All tests, as the README says it: cargo test --workspace.
    Test,
    /// Client libraries tour the commands of a server: ours in every configuration, or a running one.
    Clients(clients::Options),
    /// Applications that run on Redis (job queues, locks, rate limiters, caches) on redis-server and on ours.
    Apps(apps::Options),
    /// redis-cli, redis-benchmark and resp-benchmark in all their modes, on redis-server and on Martlet.
    Tools(tools::Options),
    /// Valkey's or Redis' own Tcl suite against a running server, or one that it starts.
    Valkey(valkey::Options),
    /// Kills servers under load and checks the data that is left.
    Crash(crash::Options),
    /// Replicas of a cluster take over under load: every acknowledged write must be there afterwards.
    Failovers(failovers::Options),
    /// That the pages which are made from something agree with it.
    Docs,
    /// Everything that a change must pass.
    Ci,
    /// Fuzz targets: their seeds on the stable toolchain, then libFuzzer.
    Fuzz(fuzz::Options),
    /// Unit tests of the crates with unsafe code, under Miri.
    Miri(miri::Options),
    /// That the server takes load and the measuring tools run.
    BenchSmoke,
    /// Server CPU per request and memory, against a peer.
    BenchCost(cost::Options),
    /// The load tester's HTML report, in headless Chromium.
    BenchReport(browser::Options),
    /// The page about a server, in headless Chromium.
    Dashboard(browser::Options),
    /// The load tester's Python wheel: built, installed and compared with resp-benchmark's class.
    BenchPython(python::Options),
    /// The load tester's own cost of a request, against redis-benchmark, resp-benchmark and the kernel's
    /// share.
    BenchClient(client_cpu::Options),
    /// Sends and receives batches and does nothing else: the kernel's share in `bench-client`.
    #[command(hide = true)]
    BenchFloor(client_cpu::floor::Options),
    /// Saving and loading RDB files, against a peer: time, CPU, memory, latency of others.
    PersistenceCost(durability::Options),
    /// How long polite clients wait beside others that take all they can get, against a peer.
    Fairness(fairness::Options),
    /// Manual pages and completions for shells, from what each tool says of itself.
    Man(man::Options),
    /// How often a cache at its limit hits, by eviction policy, against a peer.
    HitRates(hit_rates::Options),
    /// Simulations of many nodes by seeds, with faults: invariants are checked all the time.
    Sim(sim::Options),
    /// Sizes, openings, SAFETY lines, edges between crates.
    Tidy,
    /// A release: archives of programs for each machine, the Debian package, the source, their checksums.
    Dist(packages::DistOptions),
    /// The Debian package installed, started, upgraded and removed in a clean root.
    DebTest(packages::DebOptions),
    /// The unit, the rotation of logs and the chart, looked at by what reads them.
    Packaging(packages::FilesOptions),
    /// The core's tests and the raw-wire suite on emulated aarch64.
    Arm(packages::ArmOptions),
    /// The raw-wire suite against a running server, or the recording of a server's replies.
    Wire(wire::Options),
}

fn main() {
    let outcome = match Arguments::parse().chore {
        Chore::Check => checks::check(),
        Chore::Quick(options) => quick::run(&options),
        Chore::Test => run::cargo(&["test", "--workspace"]),
        Chore::Clients(options) => clients::run(&options),
        Chore::Apps(options) => apps::run(&options),
        Chore::Tools(options) => tools::run(&options),
        Chore::Valkey(options) => valkey::run(&options),
        Chore::Crash(options) => crash::run(&options),
        Chore::Failovers(options) => failovers::run(&options),
        Chore::Docs => docs::check(),
        Chore::Ci => ci::run(),
        Chore::Fuzz(options) => fuzz::run(&options),
        Chore::Miri(options) => miri::run(&options),
        Chore::BenchSmoke => ci::bench_smoke(),
        Chore::BenchCost(options) => cost::run(&options),
        Chore::BenchReport(options) => report_page::run(&options),
        Chore::Dashboard(options) => dashboard::run(&options),
        Chore::BenchPython(options) => python::run(&options),
        Chore::BenchClient(options) => client_cpu::run(&options),
        Chore::BenchFloor(options) => client_cpu::floor::run(&options),
        Chore::PersistenceCost(options) => durability::run(&options),
        Chore::Fairness(options) => fairness::run(&options),
        Chore::Man(options) => man::run(&options),
        Chore::HitRates(options) => hit_rates::run(&options),
        Chore::Sim(options) => sim::run(&options),
        Chore::Tidy => tidy::run(),
        Chore::Dist(options) => packages::dist(&options),
        Chore::DebTest(options) => packages::deb_test(&options),
        Chore::Packaging(options) => packages::files(&options),
        Chore::Arm(options) => packages::arm(&options),
        Chore::Wire(options) => wire::run(&options),
    };
    if let Err(error) = outcome {
        eprintln!("x: {error}");
        std::process::exit(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_no_chore_that_passes() {
        for (line, unknown) in [
            ("x miri --package martlet-nothing", "martlet-nothing"),
            ("x fuzz nothing", "nothing"),
            ("x clients redis-py nothing", "nothing"),
            ("x apps rq nothing", "nothing"),
        ] {
            let error = Arguments::try_parse_from(line.split(' ')).err().expect(line).to_string();
            assert!(error.contains(&format!("'{unknown}'")) && error.contains("possible values"), "{error}");
        }
        assert!(Arguments::try_parse_from(["x", "miri", "--package", "martlet-types"]).is_ok());
    }
}
