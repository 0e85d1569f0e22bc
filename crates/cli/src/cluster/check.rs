//! `info` and `check`: the shape of a cluster, and its faults.

use super::node::Refusal;
use super::topology::Cluster;
use super::{Failed, Manager, Outcome, slots};
use martlet_base::slot::SLOT_COUNT;
use std::collections::BTreeSet;

/// `info`
pub fn info(manager: &Manager) -> Outcome {
    let (host, port) = manager.given_address(manager.arguments)?;
    let mut cluster = manager.load(&host, port)?;
    manager.show_summary(&mut cluster);
    Ok(())
}

/// `check`, and `fix`.
pub fn run(manager: &Manager) -> Outcome {
    let (host, port) = manager.given_address(manager.arguments)?;
    let mut cluster = manager.load(&host, port)?;
    manager.show_summary(&mut cluster);
    manager.check(&mut cluster, true)
}

impl Manager<'_> {
    /// Keys, slots and replicas of each primary.
    fn show_summary(&self, cluster: &mut Cluster) {
        let (mut primaries, mut keys) = (0, 0);
        for index in cluster.primaries() {
            let id = &cluster.nodes[index].id;
            let is_its_replica =
                |other: &&super::node::Node| other.is_replica && other.primary.as_ref() == Some(id);
            let replicas = cluster.nodes.iter().filter(is_its_replica).count();
            let node = &mut cluster.nodes[index];
            let count = match node.ask("DBSIZE") {
                Ok(reply) => reply.integer().unwrap_or(0),
                Err(refusal) => return refusal.report(self.log, node),
            };
            println!(
                "{node} ({}...) -> {count} keys | {} slots | {replicas} {}.",
                node.id.get(..8).unwrap_or(&node.id),
                node.slots.len(),
                self.words.replicas
            );
            primaries += 1;
            keys += count;
        }
        self.log.ok(format_args!("[OK] {keys} keys in {primaries} {}.\n", self.words.primaries));
        println!("{:.2} keys per slot on average.", keys as f32 / SLOT_COUNT as f32);
    }

    pub fn show_nodes(&self, cluster: &Cluster) {
        cluster.nodes.iter().for_each(|node| println!("{}", node.description(0)));
    }

    /// Notes a problem, and says it.
    fn problem(&self, cluster: &mut Cluster, text: &str) {
        cluster.problems += 1;
        self.log.error(format_args!("{text}\n"));
    }

    /// Looks for faults, and mends them on request; fails if a fault remains.
    pub fn check(&self, cluster: &mut Cluster, shows_nodes: bool) -> Outcome {
        let Some(first) = cluster.nodes.first() else { return Err(Failed) };
        self.log.info(format_args!(">>> Performing Cluster Check (using node {first})\n"));
        if shows_nodes {
            self.show_nodes(cluster);
        }
        let mut is_well = cluster.agrees();
        if is_well {
            self.log.ok(format_args!("[OK] All nodes agree about slots configuration.\n"));
        } else {
            self.problem(cluster, "[ERR] Nodes don't agree about configuration!");
        }
        if let Some(mended) = self.check_open_slots(cluster) {
            is_well = mended;
        }
        if let Some(mended) = self.check_coverage(cluster)? {
            is_well = mended;
        }
        if self.options.searches_multiple_owners
            && let Some(mended) = self.check_owners(cluster)?
        {
            is_well = mended;
        }
        if is_well { Ok(()) } else { Err(Failed) }
    }

    /// Looks for slots under way; `None` without any, else whether all are closed now.
    fn check_open_slots(&self, cluster: &mut Cluster) -> Option<bool> {
        self.log.info(format_args!(">>> Check for open slots...\n"));
        let mut open = BTreeSet::new();
        for index in 0..cluster.nodes.len() {
            let node = &cluster.nodes[index];
            let lists = [(&node.migrating, "migrating"), (&node.importing, "importing")];
            let texts: Vec<String> = lists
                .into_iter()
                .filter(|(list, _)| !list.is_empty())
                .map(|(list, state)| {
                    open.extend(list.iter().map(|(slot, _)| *slot));
                    let slots = comma_separated(list.iter().map(|(slot, _)| *slot));
                    format!("[WARNING] Node {node} has slots in {state} state {slots}.")
                })
                .collect();
            texts.iter().for_each(|text| self.problem(cluster, text));
        }
        if open.is_empty() {
            return None;
        }
        let slots = comma_separated(open.iter().copied());
        self.log.error(format_args!("[WARNING] The following slots are open: {slots}.\n"));
        Some(self.fixes && open.into_iter().all(|slot| self.fix_open_slot(cluster, slot).is_ok()))
    }

    /// Looks for slots without an owner; `None` without any, else whether some have an owner now.
    fn check_coverage(&self, cluster: &mut Cluster) -> Result<Option<bool>, Failed> {
        self.log.info(format_args!(">>> Check slots coverage...\n"));
        let covered = cluster.covered();
        if covered.len() == SLOT_COUNT {
            self.log.ok(format_args!("[OK] All {SLOT_COUNT} slots covered.\n"));
            return Ok(None);
        }
        self.problem(cluster, &format!("[ERR] Not all {SLOT_COUNT} slots are covered by nodes.\n"));
        if !self.fixes {
            return Ok(Some(false));
        }
        let missing: Vec<u16> = slots::all().filter(|slot| !covered.contains(*slot)).collect();
        Ok(Some(self.fix_coverage(cluster, &missing)? > 0))
    }

    /// Looks for slots that several primaries own, or have keys of; `None` without any, else whether each has
    /// one owner now.
    fn check_owners(&self, cluster: &mut Cluster) -> Result<Option<bool>, Failed> {
        self.log.info(format_args!(">>> Check for multiple slot owners...\n"));
        let mut is_well = None;
        for slot in slots::all() {
            let mut owners = Vec::new();
            for index in cluster.primaries() {
                let node = &mut cluster.nodes[index];
                // A node with keys counts as an owner; a node that does not answer does not.
                if node.slots.contains(slot) || node.count_keys(self.log, slot).unwrap_or(0) > 0 {
                    owners.push(index);
                }
            }
            if owners.len() < 2 {
                continue;
            }
            self.log.error(format_args!("[WARNING] Slot {slot} has {} owners:\n", owners.len()));
            for owner in &owners {
                self.log.error(format_args!("    {}\n", cluster.nodes[*owner]));
            }
            is_well = Some(is_well.unwrap_or(true) && self.fixes);
            if self.fixes && self.fix_owners(cluster, slot, &owners).is_err() {
                self.log.error(format_args!("Failed to fix multiple owners for slot {slot}\n"));
                return Ok(Some(false));
            }
        }
        if is_well != Some(false) {
            self.log.ok(format_args!("[OK] No multiple owners found.\n"));
        }
        Ok(is_well)
    }

    /// Which primary has most keys of a slot, the first of several.
    pub fn with_most_keys(
        &self,
        cluster: &mut Cluster,
        among: &[usize],
        slot: u16,
    ) -> Result<Option<usize>, (usize, Refusal)> {
        let mut best: Option<(usize, i64)> = None;
        for &index in among.iter().filter(|index| !cluster.nodes[**index].is_replica).collect::<Vec<_>>() {
            let reply = cluster.nodes[index].ask(format!("CLUSTER COUNTKEYSINSLOT {slot}"));
            let count = reply.map_err(|refusal| (index, refusal))?.integer().unwrap_or(0);
            if best.is_none_or(|(_, most)| count > most) {
                best = Some((index, count));
            }
        }
        Ok(best.map(|(index, _)| index))
    }
}

fn comma_separated(slots: impl Iterator<Item = u16>) -> String {
    slots.map(|slot| slot.to_string()).collect::<Vec<_>>().join(",")
}
