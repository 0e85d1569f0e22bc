//! Sentinels, the servers that they watch and their clients, by one seed: a network, disks and clocks with
//! faults, and conditions that must hold. Sentinels are whole; servers replicate a few keys by the server's
//! own rules (`martlet_replication`).
//!
//! Invariant: the same options and seed give the same run. Time passes from event to event; nothing waits.

mod client;
mod clients;
mod data;
mod group;
mod net;
mod server;
mod world;

use std::ops::AddAssign;

use martlet_base::random::Random;
use world::World;

/// Which faults there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Faults {
    /// All, and servers start from their last save, from an older file, or from nothing.
    #[default]
    All,
    /// All, but no server ever has less than it had.
    Gentle,
    /// As many servers as replies wait for, the primary included, are killed at once, and start from any
    /// file, a primary once no replica follows it any more; the next follow when all is well.
    Kills,
}

/// The simulated setting.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sentinels, at least three.
    pub sentinels: usize,
    /// Servers, at least two.
    pub servers: usize,
    /// Clients that write and read.
    pub clients: usize,
    /// `martlet-sync-replicas`.
    pub sync_replicas: usize,
    /// Which faults there are.
    pub faults: Faults,
    /// Duration of the faults, in milliseconds.
    pub faults_ms: i64,
    /// How long it may take until all is well, at first and after the faults, in milliseconds.
    pub heal_ms: i64,
    /// Whether an operator asks for failovers. They need no votes, so that two may have one epoch.
    pub has_operator: bool,
    /// Whether an operator has primaries and replicas change roles (FAILOVER), without any Sentinel's
    /// knowledge.
    pub has_failovers: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            sentinels: 3,
            servers: 3,
            clients: 2,
            sync_replicas: 0,
            faults: Faults::All,
            faults_ms: 120_000,
            heal_ms: 300_000,
            has_operator: false,
            has_failovers: false,
        }
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
    /// Servers that became primaries.
    pub promotions: u64,
    /// Full syncs.
    pub full_syncs: u64,
    /// Partial ones.
    pub partial_syncs: u64,
    /// Writes that were acknowledged.
    pub acked: u64,
    /// Those of them that were gone in the end.
    pub lost: u64,
    /// Acknowledged writes that servers lacked when they became primaries.
    pub lost_at_promotion: u64,
    /// Reads that were answered by a primary which had been replaced, with older data.
    pub stale: u64,
    /// How long it took at most after the last fault until all was well, in milliseconds.
    pub healed_ms: i64,
}

impl AddAssign for Summary {
    fn add_assign(&mut self, other: Summary) {
        self.requests += other.requests;
        self.votes += other.votes;
        self.elections += other.elections;
        self.switches += other.switches;
        self.restarts += other.restarts;
        self.tilts += other.tilts;
        self.promotions += other.promotions;
        self.full_syncs += other.full_syncs;
        self.partial_syncs += other.partial_syncs;
        self.acked += other.acked;
        self.lost += other.lost;
        self.lost_at_promotion += other.lost_at_promotion;
        self.stale += other.stale;
        self.healed_ms = self.healed_ms.max(other.healed_ms);
    }
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
    world.group.is_busy = true;
    let end_ms = world.now_ms() + options.faults_ms;
    while world.now_ms() < end_ms && world.violation.is_none() {
        world.run_until(world.now_ms() + 200 + faults.below(4_000) as i64);
        world.fault(&mut faults);
        if options.faults == Faults::Kills {
            world.run_until(world.now_ms() + 1_000);
            let end_ms = world.now_ms() + options.heal_ms;
            if let Err(text) = settle(&mut world, end_ms) {
                return failed(&world, format!("after a kill: {text}"));
            }
        }
    }
    world.heal();
    world.group.is_busy = false;
    let healed_ms = world.now_ms();
    if let Err(text) = settle(&mut world, healed_ms + options.heal_ms) {
        return failed(&world, format!("after the faults: {text}"));
    }
    world.summary.healed_ms = world.now_ms() - healed_ms;
    let mut summary = world.summary;
    match world.group.judge(&mut summary) {
        Ok(()) => Ok(summary),
        Err(text) => failed(&world, text),
    }
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
            sum += run(options, seed).unwrap_or_else(|text| panic!("{text}"));
        }
        sum
    }

    #[test]
    fn three_sentinels_survive_faults() {
        let sum = holds(&Options::default(), 1..7);
        assert!(sum.elections > 0 && sum.restarts > 0 && sum.switches > 0 && sum.tilts > 0, "{sum:?}");
        assert!(sum.full_syncs > 0 && sum.partial_syncs > 0 && sum.acked > 0, "{sum:?}");
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
    fn replies_that_wait_for_a_replica_tell_of_what_it_has() {
        let sum = holds(&Options { sync_replicas: 1, has_failovers: true, ..Options::default() }, 1..5);
        assert!(sum.acked > 0, "{sum:?}");
    }

    #[test]
    fn what_all_replicas_had_is_not_lost_while_nobody_forgets() {
        let faults = Faults::Gentle;
        let sum =
            holds(&Options { sync_replicas: 2, faults, has_failovers: true, ..Options::default() }, 1..5);
        assert!(sum.acked > 0 && sum.promotions > 0, "{sum:?}");
    }

    #[test]
    fn what_enough_replicas_had_survives_kills() {
        for (servers, sync_replicas) in [(3, 1), (4, 2)] {
            let faults = Faults::Kills;
            let sum = holds(&Options { servers, sync_replicas, faults, ..Options::default() }, 1..4);
            assert!(sum.acked > 0 && sum.promotions > 0, "{sum:?}");
        }
    }

    /// The clock was set back, so that no PING was due while the connection hung and filled up.
    #[test]
    fn a_connection_that_hangs_while_no_ping_is_due_is_given_up() {
        holds(&Options { sync_replicas: 1, has_operator: true, ..Options::default() }, 127..128);
    }

    #[test]
    fn a_seed_replays() {
        let options = Options { faults_ms: 30_000, ..Options::default() };
        assert_eq!(run(&options, 42), run(&options, 42));
    }
}
