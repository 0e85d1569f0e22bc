//! Sentinels and the servers that they watch, by one seed: a network, disks and clocks with faults, and what
//! must hold.
//!
//! Invariant: the same options and seed give the same run. Time passes from event to event; nothing waits.

mod server;
mod world;

use martlet_base::random::Random;
use world::World;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sentinels, at least three.
    pub sentinels: usize,
    /// Servers, at least two.
    pub servers: usize,
    /// How long faults go on, in milliseconds.
    pub faults_ms: i64,
    /// How long it may take until all is well, at first and after the faults, in milliseconds.
    pub heal_ms: i64,
    /// Whether an operator asks for failovers. They need no votes, so that two may have one epoch.
    pub has_operator: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { sentinels: 3, servers: 3, faults_ms: 120_000, heal_ms: 300_000, has_operator: false }
    }
}

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Requests that arrived.
    pub requests: u64,
    /// Votes that were given.
    pub votes: u64,
    /// Elections that were won.
    pub elections: u64,
    /// Switches to another primary, over all Sentinels.
    pub switches: u64,
    /// Crashes with a restart from the file.
    pub restarts: u64,
    /// Times that a Sentinel did not trust its clock.
    pub tilts: u64,
    /// How long it took after the last fault until all was well, in milliseconds.
    pub healed_ms: i64,
}

/// Between two looks at whether all is well.
const CHECK_MS: i64 = 250;

/// Starts all, lets faults loose, ends them, and waits until all is well.
///
/// # Errors
/// What did not hold, with the seed.
pub fn run(options: &Options, seed: u64) -> Result<Summary, String> {
    let mut world = World::new(options, seed);
    let failed = |world: &World, text: String| Err(format!("seed {seed}: {text}\n{}", world.describe()));
    let mut faults = Random::seeded(seed ^ 0x5eed);
    let end_ms = world.now_ms() + options.heal_ms;
    if let Err(text) = settle(&mut world, end_ms) {
        return failed(&world, format!("at first: {text}"));
    }
    let end_ms = world.now_ms() + options.faults_ms;
    while world.now_ms() < end_ms && world.violation.is_none() {
        world.run_until(world.now_ms() + 200 + faults.below(4_000) as i64);
        world.fault(&mut faults);
    }
    world.heal();
    let healed_ms = world.now_ms();
    if let Err(text) = settle(&mut world, healed_ms + options.heal_ms) {
        return failed(&world, format!("after the faults: {text}"));
    }
    world.summary.healed_ms = world.now_ms() - healed_ms;
    Ok(world.summary)
}

/// Runs until all is well, and has been for a while.
fn settle(world: &mut World, end_ms: i64) -> Result<(), String> {
    let mut well_since_ms = None;
    let mut why = String::new();
    while world.now_ms() < end_ms {
        world.run_until(world.now_ms() + CHECK_MS);
        if let Some(violation) = world.violation.take() {
            return Err(violation);
        }
        match world.check() {
            Ok(()) if world.now_ms() - *well_since_ms.get_or_insert(world.now_ms()) > 5_000 => return Ok(()),
            Ok(()) => {}
            Err(text) => {
                well_since_ms = None;
                why = text;
            }
        }
    }
    Err(format!("not well in time: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(options: &Options, seeds: std::ops::Range<u64>) -> Summary {
        let mut sum = Summary::default();
        for seed in seeds {
            let summary = run(options, seed).unwrap_or_else(|text| panic!("{text}"));
            sum.elections += summary.elections;
            sum.restarts += summary.restarts;
            sum.switches += summary.switches;
            sum.tilts += summary.tilts;
        }
        sum
    }

    #[test]
    fn three_sentinels_survive_faults() {
        let sum = holds(&Options::default(), 1..7);
        assert!(sum.elections > 0 && sum.restarts > 0 && sum.switches > 0 && sum.tilts > 0, "{sum:?}");
    }

    #[test]
    fn five_sentinels_survive_faults() {
        holds(&Options { sentinels: 5, servers: 4, ..Options::default() }, 1..5);
    }

    #[test]
    fn operators_do_no_lasting_harm() {
        holds(&Options { has_operator: true, ..Options::default() }, 1..5);
    }

    #[test]
    fn a_seed_replays() {
        let options = Options { faults_ms: 30_000, ..Options::default() };
        assert_eq!(run(&options, 42), run(&options, 42));
    }
}
