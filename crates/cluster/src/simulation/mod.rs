//! A whole cluster by one seed: nodes, connections and disks on one clock, with faults, and conditions that
//! must hold.
//!
//! Invariant: the same options and seed give the same run. Time passes from event to event; nothing waits.

mod check;
mod world;

use martlet_base::random::Random;
use world::World;

/// The simulated setting.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nodes, at least three.
    pub nodes: usize,
    /// Primaries among them, at least three.
    pub primaries: usize,
    /// Duration of the faults, in milliseconds.
    pub faults_ms: i64,
    /// Whether an operator takes over without votes, and moves slots, whatever the state. Both take epochs
    /// without agreement, so that two nodes may have one until they notice.
    pub has_operator: bool,
    /// How long the cluster may take to be whole, at first and after the faults, in milliseconds.
    pub heal_ms: i64,
}

impl Options {
    /// A cluster of this size, a third of it primaries.
    pub fn of_nodes(nodes: usize) -> Options {
        Options {
            nodes,
            primaries: (nodes / 3).max(3),
            faults_ms: 60_000,
            has_operator: false,
            heal_ms: 120_000,
        }
    }
}

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packets that arrived.
    pub packets: u64,
    /// Votes that were given.
    pub votes: u64,
    /// Replicas that became primaries.
    pub promotions: u64,
    /// Crashes with a restart from the file.
    pub restarts: u64,
    /// How long it took after the last fault until all was well, in milliseconds.
    pub healed_ms: i64,
}

/// Node timeout in simulations, in milliseconds.
const NODE_TIMEOUT_MS: i64 = 2_000;
/// How often the invariants are looked at, in milliseconds.
const CHECK_MS: i64 = 250;

/// Forms a cluster, lets faults loose on it, ends them, and waits until it is whole.
///
/// # Errors
/// Which invariant does not hold, and when.
pub fn run(options: &Options, seed: u64) -> Result<Summary, String> {
    let mut world = World::new(options, seed);
    let mut random = Random::seeded(seed ^ 0x5eed);
    let outcome = go_through(&mut world, options, &mut random);
    outcome.map_err(|text| format!("seed {seed}, at {} ms: {text}", world.now_ms()))?;
    Ok(world.summary)
}

fn go_through(world: &mut World, options: &Options, random: &mut Random) -> Result<(), String> {
    world.form()?;
    until_whole(world, options.heal_ms)?;
    let end_ms = world.now_ms() + options.faults_ms;
    while world.now_ms() < end_ms {
        let pause_ms = 200 + random.below(3_000) as i64;
        world.fault(random);
        pass(world, pause_ms)?;
    }
    world.end_faults();
    if options.has_operator {
        // Slots whose move was cut off by a failover may have no owner: the protocol leaves them to
        // operators.
        pass(world, 10 * NODE_TIMEOUT_MS)?;
        world.fix_slots();
    }
    let healed_ms = until_whole(world, options.heal_ms)?;
    world.summary.healed_ms = healed_ms;
    // It stays so.
    pass(world, 2 * NODE_TIMEOUT_MS)?;
    world.is_whole()
}

fn pass(world: &mut World, ms: i64) -> Result<(), String> {
    let end_ms = world.now_ms() + ms;
    while world.now_ms() < end_ms {
        world.run_until((world.now_ms() + CHECK_MS).min(end_ms));
        world.check()?;
    }
    Ok(())
}

/// Lets time pass until all is well, and returns how long that was.
fn until_whole(world: &mut World, patience_ms: i64) -> Result<i64, String> {
    let start_ms = world.now_ms();
    loop {
        pass(world, CHECK_MS)?;
        let passed_ms = world.now_ms() - start_ms;
        match world.is_whole() {
            Ok(()) => return Ok(passed_ms),
            Err(text) if passed_ms > patience_ms => {
                return Err(format!("not whole after {passed_ms} ms: {text}"));
            }
            Err(_) => {}
        }
    }
}
