//! The chores of `./x` that measure a server, compare it with peers, or package it. `xtask` has the gates
//! that every change passes, and starts this program for all other names.

mod apps;
mod browser;
mod client_cpu;
mod clients;
mod commands;
mod cost;
mod dashboard;
mod durability;
mod fairness;
mod hit_rates;
mod liveness;
mod memory_limit;
mod memory_shapes;
mod packages;
mod python;
mod report_page;
mod scaling;
mod search_cost;
mod smoke;
mod tools;
mod valkey;
mod wire;

use clap::{Parser, Subcommand};

/// The project's chores that need a server.
#[derive(Parser)]
#[command(name = "x", bin_name = "x")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Client libraries tour a server's commands: ours in every configuration, or a running one.
    Clients(clients::Options),
    /// Applications that run on Redis (job queues, locks, caches) on redis-server and on ours.
    Apps(apps::Options),
    /// redis-cli, redis-benchmark and resp-benchmark in all modes, on redis-server and on Martlet.
    Tools(tools::Options),
    /// Valkey's or Redis' own Tcl suite against a running server, or one that it starts.
    Valkey(valkey::Options),
    /// The raw-wire suite against a running server, or the recording of a server's replies.
    Wire(wire::Options),
    /// Checks that the server takes load and the measuring tools run.
    BenchSmoke(smoke::Options),
    /// Server CPU per request and memory, against a peer.
    BenchCost(cost::Options),
    /// Server CPU per request of every command that a peer has too.
    CommandsBesideRedis(commands::Options),
    /// The load tester's HTML report, in headless Chromium.
    BenchReport(browser::Options),
    /// The load tester's Python wheel: built, installed, compared with resp-benchmark's class.
    BenchPython(python::Options),
    /// The load tester's own cost of a request, against other testers and the kernel's share.
    BenchClient(client_cpu::Options),
    /// Sends and receives batches and does nothing else: the kernel's share in `bench-client`.
    #[command(hide = true)]
    BenchFloor(client_cpu::floor::Options),
    /// The page about a server, in headless Chromium.
    Dashboard(browser::Options),
    /// Saving and loading RDB files against a peer: time, CPU, memory, latency of others.
    PersistenceCost(durability::Options),
    /// Waits of polite clients beside greedy ones, against a peer.
    Fairness(fairness::Options),
    /// Hit rates of a cache at its limit, by eviction policy, against a peer.
    HitRates(hit_rates::Options),
    /// Resident memory of a cache at its limit, with large values, against a peer.
    MemoryLimit(memory_limit::Options),
    /// Resident memory per element by shape of the data, against peers.
    MemoryShapes(memory_shapes::Options),
    /// Indexes and queries, against a peer with RediSearch's commands.
    SearchCost(search_cost::Options),
    /// Lines of memory that threads share, a model of them on many cores, more threads than cores.
    Scaling(scaling::Options),
    /// A release: archives of programs for each machine, the Debian package, the source, checksums.
    Dist(packages::DistOptions),
    /// The Debian package installed, started, upgraded and removed in a clean root.
    DebTest(packages::DebOptions),
    /// The unit, the rotation of logs and the chart, checked by the programs that read them.
    Packaging(packages::FilesOptions),
    /// The core's tests and the raw-wire suite on emulated aarch64.
    Arm(packages::ArmOptions),
    /// The other targets of a release, compiled: a part of `check`.
    #[command(hide = true)]
    CheckTargets,
    /// Random requests in any context against real processes: a part of `fuzz`.
    #[command(hide = true)]
    Liveness(liveness::Options),
}

fn main() {
    let outcome = match Arguments::parse().chore {
        Chore::Clients(options) => clients::run(&options),
        Chore::Apps(options) => apps::run(&options),
        Chore::Tools(options) => tools::run(&options),
        Chore::Valkey(options) => valkey::run(&options),
        Chore::Wire(options) => wire::run(&options),
        Chore::BenchSmoke(options) => smoke::run(&options),
        Chore::BenchCost(options) => cost::run(&options),
        Chore::CommandsBesideRedis(options) => commands::run(&options),
        Chore::BenchReport(options) => report_page::run(&options),
        Chore::BenchPython(options) => python::run(&options),
        Chore::BenchClient(options) => client_cpu::run(&options),
        Chore::BenchFloor(options) => client_cpu::floor::run(&options),
        Chore::Dashboard(options) => dashboard::run(&options),
        Chore::PersistenceCost(options) => durability::run(&options),
        Chore::Fairness(options) => fairness::run(&options),
        Chore::HitRates(options) => hit_rates::run(&options),
        Chore::MemoryLimit(options) => memory_limit::run(&options),
        Chore::MemoryShapes(options) => memory_shapes::run(&options),
        Chore::SearchCost(options) => search_cost::run(&options),
        Chore::Scaling(options) => scaling::run(&options),
        Chore::Dist(options) => packages::dist(&options),
        Chore::DebTest(options) => packages::deb_test(&options),
        Chore::Packaging(options) => packages::files(&options),
        Chore::Arm(options) => packages::arm(&options),
        Chore::CheckTargets => packages::check_targets(),
        Chore::Liveness(options) => liveness::run(&options),
    };
    if let Err(error) = outcome {
        eprintln!("x: {error}");
        std::process::exit(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn unknown_values_are_refused() {
        for line in ["x clients redis-py nothing", "x apps rq nothing"] {
            let error = Arguments::try_parse_from(line.split(' ')).err().expect(line).to_string();
            assert!(error.contains("'nothing'") && error.contains("possible values"), "{error}");
        }
    }

    #[test]
    fn help_lists_the_chores_of_this_program() {
        let command = Arguments::command();
        let shown = command.get_subcommands().filter(|chore| !chore.is_hide_set());
        let about = |chore: &clap::Command| chore.get_about().map(ToString::to_string).unwrap_or_default();
        let shown: Vec<(String, String)> =
            shown.map(|chore| (chore.get_name().to_owned(), about(chore))).collect();
        let listed: Vec<(String, String)> =
            xtask::lab::CHORES.iter().map(|(name, about)| ((*name).into(), (*about).into())).collect();
        assert_eq!(shown, listed);
    }
}
