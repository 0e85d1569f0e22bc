//! Any request in any context, with one question: does the process live, and is the next client answered?
//!
//! Requests are drawn from the server's own command table (COMMAND and COMMAND DOCS), so that no command can
//! be forgotten, and sent to real processes over several connections that track keys, queue transactions, run
//! scripts, follow a primary and so on. Replies are read and not looked at.
//!
//! Invariant: a plan follows from its seed and the table alone; what servers answer decides nothing.

mod draw;
mod plan;
mod sequence;
mod setup;
mod shrink;
mod table;
mod trial;
mod values;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

pub use plan::{Plan, Profile, Step};
pub use table::{Argument, Command, Kind, Table};
pub use trial::{Finding, Limits};

use martlet_base::random::Random;

/// Duration, seed and limits of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The first round's seed; the next ones' follow from it.
    pub seed: u64,
    /// When no further round begins.
    pub time: Duration,
    /// Steps of a round.
    pub steps: usize,
    /// When an answer is late.
    pub limits: Limits,
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Rounds.
    pub rounds: usize,
    /// Steps sent.
    pub steps: usize,
    /// Those that were answered with an error.
    pub refused: usize,
    /// What went wrong, each place once, with the shortest sequence that shows it.
    pub findings: Vec<String>,
}

/// The seed of the round after the one with `seed`.
fn next_seed(seed: u64) -> u64 {
    Random::seeded(seed).next_u64() >> 16
}

/// Runs rounds until the time is over, each on fresh servers; `report` gets a line for each round and the
/// text of each finding.
///
/// # Errors
/// When a server does not start, or its table cannot be read.
pub fn run(program: &Path, options: &Options, mut report: impl FnMut(&str)) -> io::Result<Outcome> {
    let table = table_of(program)?;
    let began = Instant::now();
    let mut outcome = Outcome::default();
    let mut known = BTreeSet::new();
    let mut seed = options.seed;
    while outcome.rounds == 0 || began.elapsed() < options.time {
        let plan = Plan::draw(&table, seed, options.steps);
        report(&format!("liveness: seed {seed}, {} steps, {}", plan.steps.len(), plan.profile));
        outcome.rounds += 1;
        let ran = trial::run(program, &plan, options.limits)?;
        outcome.steps += plan.steps.len();
        outcome.refused += ran.refused;
        if let Some(finding) = ran.finding {
            if known.insert(finding.kind()) {
                let shortest = shrink::shorten(program, &plan, &finding, options.limits);
                let text = finding.text(seed, &shortest);
                report(&text);
                outcome.findings.push(text);
            } else {
                report(&format!("liveness: seed {seed} met {} again", finding.place));
            }
        }
        seed = next_seed(seed);
    }
    Ok(outcome)
}

/// Runs a recorded sequence and returns its finding, if there is one.
///
/// # Errors
/// When it cannot be read, or a server does not start.
pub fn replay(program: &Path, text: &str, limits: Limits) -> io::Result<Option<Finding>> {
    let plan = sequence::read(text).map_err(io::Error::other)?;
    Ok(trial::run(program, &plan, limits)?.finding)
}

/// The command table of a program, and what else requests are drawn from.
///
/// # Errors
/// When the server does not start, or does not tell.
pub fn table_of(program: &Path) -> io::Result<Table> {
    let mut trial = trial::Trial::start(program, &Profile::default(), Limits::default())?;
    Table::read(trial.client())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_comes_back() {
        let steps = vec![
            Step {
                connection: 0,
                words: vec![b"SET".to_vec(), b"a \"\r\n\0".to_vec(), Vec::new()],
                joins: false,
            },
            Step { connection: 3, words: vec![b"GET".to_vec(), vec![255; 40]], joins: true },
            Step { connection: 3, words: Vec::new(), joins: false },
        ];
        let plan = Plan { profile: Profile { cluster: true, aof: true, ..Profile::default() }, steps };
        let text = sequence::write(&plan);
        let again = sequence::read(&text).unwrap();
        assert_eq!((again.profile, again.steps), (plan.profile, plan.steps), "{text}");
        assert!(sequence::read("@server nothing\n0 PING").is_err());
        assert!(sequence::read("0 PING").is_err());
    }
}
