//! Chores behind `./x`: each is a subcommand, and `./x ci` is what `.ci/run` runs. A name that is none of the
//! gates below is a chore of `xtask-lab`.

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use xtask::{checks, ci, crash, docs, failovers, fuzz, lab, man, miri, quick, run, sim, tidy};

/// The project's chores.
#[derive(Parser)]
#[command(name = "x", bin_name = "x", after_help = lab::list())]
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
    /// Everything that a change must pass.
    Ci,
    /// Checks that every crate has a page, and that generated tables agree with their figures.
    Docs,
    /// Sizes, openings, SAFETY lines, edges between crates.
    Tidy,
    /// Fuzz targets: their seeds on the stable toolchain, then libFuzzer.
    Fuzz(fuzz::Options),
    /// Unit tests of the crates with unsafe code, under Miri.
    Miri(miri::Options),
    /// Simulations of many nodes by seeds, with faults: invariants are checked all the time.
    Sim(sim::Options),
    /// Kills servers under load and checks the data that is left.
    Crash(crash::Options),
    /// Replicas of a cluster take over under load: every acknowledged write must be there afterwards.
    Failovers(failovers::Options),
    /// Manual pages and completions for shells, from each tool's --help.
    Man(man::Options),
    #[command(external_subcommand)]
    Lab(Vec<OsString>),
}

/// The words of a chore of the lab: `CHORE …`, or `help CHORE`.
fn of_the_lab(words: &[OsString]) -> Option<Vec<OsString>> {
    let is_lab = |word: &OsString| word.to_str().is_some_and(lab::has);
    match words {
        [chore, ..] if is_lab(chore) => Some(words.to_vec()),
        [help, chore, ..] if help == "help" && is_lab(chore) => Some(vec![chore.clone(), "--help".into()]),
        _ => None,
    }
}

fn main() {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let outcome = match of_the_lab(&words) {
        Some(words) => lab::become_chore(&words),
        None => run_gate(Arguments::parse().chore),
    };
    if let Err(error) = outcome {
        eprintln!("x: {error}");
        std::process::exit(1);
    }
}

fn run_gate(chore: Chore) -> run::Outcome {
    match chore {
        Chore::Check => checks::check(),
        Chore::Quick(options) => quick::run(&options),
        Chore::Test => run::cargo(&["test", "--workspace"]),
        Chore::Ci => ci::run(),
        Chore::Docs => docs::run(),
        Chore::Tidy => tidy::run(),
        Chore::Fuzz(options) => fuzz::run(&options),
        Chore::Miri(options) => miri::run(&options),
        Chore::Sim(options) => sim::run(&options),
        Chore::Crash(options) => crash::run(&options),
        Chore::Failovers(options) => failovers::run(&options),
        Chore::Man(options) => man::run(&options),
        Chore::Lab(words) => Err(format!("there is no chore {words:?}: ./x help").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn unknown_values_are_refused() {
        for (line, unknown) in
            [("x miri --package martlet-nothing", "martlet-nothing"), ("x fuzz nothing", "nothing")]
        {
            let error = Arguments::try_parse_from(line.split(' ')).err().expect(line).to_string();
            assert!(error.contains(&format!("'{unknown}'")) && error.contains("possible values"), "{error}");
        }
        assert!(Arguments::try_parse_from(["x", "miri", "--package", "martlet-types"]).is_ok());
    }

    #[test]
    fn chores_of_the_lab_are_passed_on() {
        assert_eq!(of_the_lab(&words("bench-cost --quick")), Some(words("bench-cost --quick")));
        assert_eq!(of_the_lab(&words("help wire")), Some(words("wire --help")));
        assert_eq!(of_the_lab(&words("tidy")), None);
        assert_eq!(of_the_lab(&words("help tidy")), None);
    }

    #[test]
    fn a_name_is_a_chore_of_one_program_only() {
        use clap::CommandFactory;
        let gates = Arguments::command();
        assert_eq!(
            gates.get_subcommands().find(|gate| lab::has(gate.get_name())).map(|gate| gate.get_name()),
            None
        );
    }
}
