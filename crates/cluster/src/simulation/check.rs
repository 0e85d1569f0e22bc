//! Conditions that must hold at any time, and those that must hold once all faults are over.

use super::world::World;
use crate::id::NodeId;
use crate::slots::SLOTS;
use std::collections::BTreeMap;

impl World {
    /// At any time: no node has voted twice in an epoch, and no two running nodes own a slot with the same
    /// one (unless an operator has a hand in it).
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(text) = &self.violation {
            return Err(text.clone());
        }
        if self.options.has_operator {
            return Ok(());
        }
        let mut by_epoch: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            if let Some(cluster) = &node.cluster
                && cluster.myself().is_voter()
            {
                by_epoch.entry(cluster.myself().config_epoch).or_default().push(index);
            }
        }
        for (epoch, owners) in by_epoch.iter().filter(|(_, owners)| owners.len() > 1) {
            for (at, first) in owners.iter().enumerate() {
                for second in &owners[at + 1..] {
                    let set =
                        |index: &usize| self.nodes[*index].cluster.as_ref().map(|own| own.myself().slots());
                    if let (Some(a), Some(b)) = (set(first), set(second))
                        && let Some(slot) = a.iter().find(|slot| b.contains(*slot))
                    {
                        return Err(format!("nodes {first} and {second} own slot {slot} with epoch {epoch}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Once it is healed: all nodes run and know each other, agree on the owner of each slot, see it up, and
    /// no two primaries have one epoch.
    pub(super) fn is_whole(&self) -> Result<(), String> {
        let mut owners: Option<Vec<Option<NodeId>>> = None;
        let mut epochs: BTreeMap<u64, usize> = BTreeMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let Some(cluster) = &node.cluster else { return Err(format!("node {index} is down")) };
            if cluster.nodes().count() != self.nodes.len() {
                return Err(format!("node {index} knows {} nodes", cluster.nodes().count()));
            }
            if cluster.is_down() {
                return Err(format!("node {index} sees the cluster down"));
            }
            if let Some((_, unwell)) =
                cluster.nodes().find(|(_, node)| node.is_failed() || node.is_suspected())
            {
                return Err(format!("node {index} does not reach {}", unwell.id));
            }
            let own = cluster.myself();
            if own.is_primary()
                && let Some(other) = epochs.insert(own.config_epoch, index)
            {
                return Err(format!("nodes {other} and {index} have epoch {}", own.config_epoch));
            }
            if own.is_replica() && own.primary.is_none_or(|primary| cluster.node(primary).is_replica()) {
                return Err(format!("node {index} is a replica of no primary"));
            }
            let view: Vec<Option<NodeId>> =
                (0..SLOTS).map(|slot| cluster.owner(slot).map(|owner| cluster.node(owner).id)).collect();
            if let Some(slot) = view.iter().position(Option::is_none) {
                return Err(format!("node {index} knows no owner of slot {slot}"));
            }
            match &owners {
                Some(owners) if *owners != view => {
                    let slot =
                        owners.iter().zip(&view).position(|(owner, other)| owner != other).unwrap_or(0);
                    let (owner, other) = (owners[slot], view[slot]);
                    return Err(format!("node {index} says {other:?} owns slot {slot}, others {owner:?}"));
                }
                _ => owners = Some(view),
            }
        }
        let owners = owners.unwrap_or_default();
        for (index, node) in self.nodes.iter().enumerate() {
            let Some(cluster) = &node.cluster else { continue };
            let own = cluster.myself();
            let count = owners.iter().filter(|owner| **owner == Some(own.id)).count();
            if count != own.slot_count() {
                return Err(format!("node {index} owns {} slots, the others say {count}", own.slot_count()));
            }
        }
        Ok(())
    }
}
