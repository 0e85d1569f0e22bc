//! `reshard`: a number of slots from some nodes to another one.

use super::moving::How;
use super::plan::reshard::table;
use super::slots::SlotSet;
use super::topology::Cluster;
use super::{Failed, Manager, Outcome, log};
use martlet_base::slot::SLOT_COUNT;

/// `reshard`
pub fn run(manager: &Manager) -> Outcome {
    let (host, port) = manager.given_address(manager.arguments)?;
    let mut cluster = manager.load(&host, port)?;
    // Its findings are printed and counted.
    let _ = manager.check(&mut cluster, true);
    if cluster.problems > 0 {
        return manager.refuse("*** Please fix your cluster problems before resharding");
    }
    let count = manager.slots_to_move()?;
    let target = manager.target(&cluster)?;
    let sources = manager.sources(&cluster, target)?;
    println!("\nReady to move {count} slots.\n  Source nodes:");
    for source in &sources {
        println!("{}", cluster.nodes[*source].description(4));
    }
    println!("  Destination node:\n{}", cluster.nodes[target].description(4));
    let sets: Vec<&SlotSet> = sources.iter().map(|source| &cluster.nodes[*source].slots).collect();
    let plan: Vec<(usize, u16)> =
        table(&sets, count).into_iter().map(|(place, slot)| (sources[place], slot)).collect();
    println!("  Resharding plan:");
    for (source, slot) in &plan {
        println!("    Moving slot {slot} from {}", cluster.nodes[*source].id);
    }
    let question = "Do you want to proceed with the proposed reshard plan (yes/no)? ";
    if !manager.options.is_confirmed && log::ask(question).as_deref() != Some("yes") {
        return Err(Failed);
    }
    manager.carry_out(&mut cluster, &plan, target)
}

impl Manager<'_> {
    fn slots_to_move(&self) -> Result<usize, Failed> {
        if self.options.slots > 0 {
            return Ok(self.options.slots);
        }
        loop {
            let question = format_args!("How many slots do you want to move (from 1 to {SLOT_COUNT})? ");
            let answer = log::ask(question).ok_or(Failed)?;
            match answer.trim().parse() {
                Ok(count) if (1..=SLOT_COUNT).contains(&count) => return Ok(count),
                _ => {}
            }
        }
    }

    fn target(&self, cluster: &Cluster) -> Result<usize, Failed> {
        let mut id = self.options.to.clone().unwrap_or_default();
        while id.is_empty() {
            id = log::ask("What is the receiving node ID? ").ok_or(Failed)?;
        }
        self.primary_by_id(cluster, &id)
    }

    fn primary_by_id(&self, cluster: &Cluster, id: &str) -> Result<usize, Failed> {
        match cluster.by_id(id).filter(|index| !cluster.nodes[*index].is_replica) {
            Some(index) => Ok(index),
            None => {
                self.log.error(format_args!(
                    "*** The specified node ({id}) is not known or not a {}, please retry.\n",
                    self.words.primary
                ));
                Err(Failed)
            }
        }
    }

    /// The nodes that give slots.
    fn sources(&self, cluster: &Cluster, target: usize) -> Result<Vec<usize>, Failed> {
        let mut sources = Vec::new();
        let has_all = match &self.options.from {
            Some(ids) => self.listed_sources(cluster, target, ids, &mut sources)?,
            None => self.typed_sources(cluster, target, &mut sources)?,
        };
        if has_all {
            sources = cluster.primaries().into_iter().filter(|index| *index != target).collect();
        }
        if sources.is_empty() {
            self.refuse("*** No source nodes given, operation aborted.")?;
        }
        Ok(sources)
    }

    /// Adds the sources of a list with commas; returns whether `all` is among them.
    fn listed_sources(
        &self,
        cluster: &Cluster,
        target: usize,
        ids: &str,
        sources: &mut Vec<usize>,
    ) -> Result<bool, Failed> {
        for id in ids.split(',').filter(|id| !id.is_empty()) {
            if id == "all" {
                return Ok(true);
            }
            self.add_source(cluster, target, id, sources)?;
        }
        Ok(false)
    }

    /// The same, asked for one by one.
    fn typed_sources(
        &self,
        cluster: &Cluster,
        target: usize,
        sources: &mut Vec<usize>,
    ) -> Result<bool, Failed> {
        println!(
            "Please enter all the source node IDs.\n  Type 'all' to use all the nodes as source nodes for the \
            hash slots.\n  Type 'done' once you entered all the source nodes IDs."
        );
        loop {
            let question = format_args!("Source node #{}: ", sources.len() + 1);
            match log::ask(question).ok_or(Failed)?.as_str() {
                "done" => return Ok(false),
                "all" => return Ok(true),
                id => self.add_source(cluster, target, id, sources)?,
            }
        }
    }

    fn add_source(&self, cluster: &Cluster, target: usize, id: &str, sources: &mut Vec<usize>) -> Outcome {
        let source = self.primary_by_id(cluster, id)?;
        if source == target {
            self.log.error(format_args!("*** It is not possible to use the target node as source node.\n"));
        } else if !sources.contains(&source) {
            sources.push(source);
        }
        Ok(())
    }

    fn carry_out(&self, cluster: &mut Cluster, plan: &[(usize, u16)], target: usize) -> Outcome {
        if self.moves_atomically(cluster) {
            return self.move_atomically(cluster, plan, target, true);
        }
        let how = How { shows_keys: true, is_cold: false };
        for (source, slot) in plan {
            if let Err(failure) = self.move_slot(cluster, *source, target, *slot, how) {
                self.log.error(format_args!("clusterManagerMoveSlot failed: {}\n", failure.text));
                return Err(Failed);
            }
        }
        Ok(())
    }
}
