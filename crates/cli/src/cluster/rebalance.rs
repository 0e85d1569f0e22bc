//! `rebalance`: as many slots for each node as its weight says.

use super::moving::How;
use super::plan::balance::{Balance, Move, Share, balance};
use super::topology::Cluster;
use super::{Failed, Manager, Outcome, log};

/// `rebalance`
pub fn run(manager: &Manager) -> Outcome {
    let (host, port) = manager.given_address(manager.arguments)?;
    let mut cluster = manager.load(&host, port)?;
    let weights = manager.weights(&cluster)?;
    let involved: Vec<usize> = cluster
        .primaries()
        .into_iter()
        .filter(|index| manager.options.uses_empty_primaries || !cluster.nodes[*index].slots.is_empty())
        .collect();
    // Its findings are printed and counted.
    let _ = manager.check(&mut cluster, false);
    if cluster.problems > 0 {
        manager.log.error(format_args!("*** Please fix your cluster problems before rebalancing\n"));
        return Err(Failed);
    }
    let shares: Vec<Share> = involved
        .iter()
        .map(|index| Share { slots: cluster.nodes[*index].slots.len(), weight: weights[*index] })
        .collect();
    let threshold = manager.options.threshold_percent;
    let Some(plan) = balance(&shares, threshold) else {
        manager.log.warning(format_args!(
            "*** No rebalancing needed! All nodes are within the {threshold:.2}% threshold.\n"
        ));
        return Ok(());
    };
    let total: f32 = shares.iter().map(|share| share.weight).sum();
    manager
        .log
        .info(format_args!(">>> Rebalancing across {} nodes. Total weight = {total:.2}\n", involved.len()));
    manager.carry_out_balance(&mut cluster, &involved, &plan)
}

impl Manager<'_> {
    /// The weight of each node: 1 unless it is said.
    fn weights(&self, cluster: &Cluster) -> Result<Vec<f32>, Failed> {
        let mut weights = vec![1f32; cluster.nodes.len()];
        for text in &self.options.weights {
            let parts = text.split_once('=').and_then(|(id, weight)| {
                let weight: f32 = weight.parse().ok()?;
                Some((id, weight)).filter(|(_, weight)| weight.is_finite() && *weight >= 0.0)
            });
            let Some((id, weight)) = parts else {
                self.log.error(format_args!("*** invalid input {text}\n"));
                return Err(Failed);
            };
            let Some(index) = cluster.by_prefix(id) else {
                self.log.error(format_args!("*** No such {} node {id}\n", self.words.primary));
                return Err(Failed);
            };
            weights[index] = weight;
        }
        Ok(weights)
    }

    fn carry_out_balance(&self, cluster: &mut Cluster, involved: &[usize], plan: &Balance) -> Outcome {
        if self.settings.is_verbose {
            for (place, excess) in &plan.excess {
                println!("{} balance is {excess} slots", cluster.nodes[involved[*place]]);
            }
        }
        let is_atomic = !self.options.simulates && self.moves_atomically(cluster);
        for Move { from, to, count } in &plan.moves {
            let (from, to) = (involved[*from], involved[*to]);
            println!("Moving {count} slots from {} to {}", cluster.nodes[from], cluster.nodes[to]);
            let slots: Vec<u16> = cluster.nodes[from].slots.iter().take(*count).collect();
            if self.options.simulates {
                print!("{}", "#".repeat(slots.len()));
            } else if is_atomic {
                let moves: Vec<(usize, u16)> = slots.into_iter().map(|slot| (from, slot)).collect();
                self.move_atomically(cluster, &moves, to, false)?;
            } else {
                self.move_each(cluster, from, to, &slots)?;
            }
            println!();
        }
        Ok(())
    }

    fn move_each(&self, cluster: &mut Cluster, from: usize, to: usize, slots: &[u16]) -> Outcome {
        for slot in slots {
            if let Err(failure) = self.move_slot(cluster, from, to, *slot, How::default()) {
                self.log.error(format_args!("*** clusterManagerMoveSlot: {}\n", failure.text));
                return Err(Failed);
            }
            print!("#");
            log::flush();
        }
        Ok(())
    }
}
