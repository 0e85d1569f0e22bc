//! `fix`: slots that are under way, because a move was cut off or a node was restarted.

use super::moving::How;
use super::topology::Cluster;
use super::{Failed, Manager, Outcome};

/// The primaries' statements about an open slot.
struct OpenSlot {
    slot: u16,
    /// Those that own it, or have keys of it.
    owners: Vec<usize>,
    migrating: Vec<usize>,
    importing: Vec<usize>,
    /// The lists as they were found, for messages.
    migrating_text: String,
    importing_text: String,
}

impl Manager<'_> {
    /// Ends a slot's move: to the end where that is possible, back where not.
    pub fn fix_open_slot(&self, cluster: &mut Cluster, slot: u16) -> Outcome {
        self.refuse_unreachable(cluster, "open slots")?;
        self.log.info(format_args!(">>> Fixing open slot {slot}\n"));
        let mut open = self.look_at(cluster, slot)?;
        if !open.migrating_text.is_empty() {
            println!("Set as migrating in: {}", open.migrating_text);
        }
        if !open.importing_text.is_empty() {
            println!("Set as importing in: {}", open.importing_text);
        }
        let owner = match open.owners.as_slice() {
            [owner] => *owner,
            _ => self.choose_owner(cluster, &mut open)?,
        };
        if open.owners.len() > 1 {
            self.leave_one_owner(cluster, &mut open, owner)?;
        }
        match (open.migrating.as_slice(), open.importing.as_slice()) {
            (&[from], &[to]) => {
                self.log.info(format_args!(
                    ">>> Case 1: Moving slot {slot} from {} to {}\n",
                    cluster.nodes[from], cluster.nodes[to]
                ));
                self.move_slot_said(cluster, from, to, slot, How { shows_keys: true, is_cold: false })
            }
            ([], [_, ..]) => self.bring_home(cluster, &open, owner),
            (&[from], [_, _, ..]) => self.close_many(cluster, &open, owner, from),
            (&[from], []) => self.close_one(cluster, &open, owner, from),
            _ => self.cannot_fix(cluster, &open, owner),
        }
    }

    /// Asks all primaries.
    fn look_at(&self, cluster: &mut Cluster, slot: u16) -> Result<OpenSlot, Failed> {
        let mut owners = Vec::new();
        for index in cluster.primaries() {
            let node = &mut cluster.nodes[index];
            if !node.slots.contains(slot) {
                if node.count_keys(self.log, slot)? == 0 {
                    continue;
                }
                self.log
                    .warning(format_args!("*** Found keys about slot {slot} in non-owner node {node}!\n"));
            }
            owners.push(index);
        }
        let single = if let [owner] = owners.as_slice() { Some(*owner) } else { None };
        let (mut migrating, mut importing) = (Vec::new(), Vec::new());
        for index in cluster.primaries() {
            let node = &mut cluster.nodes[index];
            let is_in = |list: &[(u16, String)]| list.iter().any(|(open, _)| *open == slot);
            if is_in(&node.migrating) {
                migrating.push(index);
            } else if is_in(&node.importing) {
                importing.push(index);
            } else if Some(index) != single && node.count_keys(self.log, slot)? > 0 {
                self.log.warning(format_args!("*** Found keys about slot {slot} in node {node}!\n"));
                importing.push(index);
            }
        }
        let text = |list: &[usize]| {
            list.iter().map(|index| cluster.nodes[*index].to_string()).collect::<Vec<_>>().join(",")
        };
        let (migrating_text, importing_text) = (text(&migrating), text(&importing));
        Ok(OpenSlot { slot, owners, migrating, importing, migrating_text, importing_text })
    }

    /// Makes the primary with most keys the owner, where the owner is unclear.
    fn choose_owner(&self, cluster: &mut Cluster, open: &mut OpenSlot) -> Result<usize, Failed> {
        self.log.info(format_args!(
            ">>> No single clear owner for the slot, selecting an owner by # of keys...\n"
        ));
        let primaries = cluster.primaries();
        let Some(owner) = self.demand_most_keys(cluster, &primaries, open.slot).unwrap_or(None) else {
            self.log.error(format_args!("[ERR] Can't select a slot owner. Impossible to fix.\n"));
            return Err(Failed);
        };
        self.log.warning(format_args!("*** Configuring {} as the slot owner\n", cluster.nodes[owner]));
        self.close_slot(cluster, owner, open.slot)?;
        self.own(cluster, owner, open.slot, false)?;
        open.migrating.retain(|index| *index != owner);
        open.importing.retain(|index| *index != owner);
        Ok(owner)
    }

    /// Makes all owners but one importing nodes, whose keys are still to go to it.
    fn leave_one_owner(&self, cluster: &mut Cluster, open: &mut OpenSlot, owner: usize) -> Outcome {
        for &index in open.owners.iter().filter(|index| **index != owner) {
            self.disown(cluster, index, open.slot)?;
            cluster.nodes[index].slots.remove(open.slot);
            self.set_slot(cluster, index, open.slot, "NODE", owner)?;
            self.set_slot(cluster, index, open.slot, "IMPORTING", owner)?;
            open.importing.retain(|importing| *importing != index);
            open.importing.push(index);
            open.migrating.retain(|migrating| *migrating != index);
        }
        Ok(())
    }

    /// No node gives the slot away: its keys on importing nodes go to its owner.
    fn bring_home(&self, cluster: &mut Cluster, open: &OpenSlot, owner: usize) -> Outcome {
        let slot = open.slot;
        self.log.info(format_args!(
            ">>> Case 2: Moving all the {slot} slot keys to its owner {}\n",
            cluster.nodes[owner]
        ));
        for &index in open.importing.iter().filter(|index| **index != owner) {
            self.move_keys(cluster, index, owner, slot)?;
            self.log.info(format_args!(">>> Setting {slot} as STABLE in {}\n", cluster.nodes[index]));
            self.close_slot(cluster, index, slot)?;
        }
        for index in cluster.primaries().into_iter().filter(|index| *index != owner) {
            self.set_slot(cluster, index, slot, "NODE", owner)?;
        }
        Ok(())
    }

    /// One gives the slot away and several expect it, none of which has keys: the one that it goes to gets
    /// it.
    fn close_many(&self, cluster: &mut Cluster, open: &OpenSlot, owner: usize, from: usize) -> Outcome {
        let slot = open.slot;
        for &index in &open.importing {
            if cluster.nodes[index].count_keys(self.log, slot).unwrap_or(0) > 0 {
                return self.cannot_fix(cluster, open, owner);
            }
        }
        let target = cluster.nodes[from].migrating.iter().find(|(moving, _)| *moving == slot);
        let target = target.and_then(|(_, id)| cluster.by_id(id)).filter(|to| open.importing.contains(to));
        match target {
            Some(to) => {
                self.log.info(format_args!(
                    ">>> Case 3: Moving slot {slot} from {} to {} and closing it on all the other importing \
                    nodes.\n",
                    cluster.nodes[from], cluster.nodes[to]
                ));
                self.move_slot_said(cluster, from, to, slot, How { shows_keys: true, is_cold: false })?;
            }
            None => {
                self.log.info(format_args!(
                    ">>> Case 3: Closing slot {slot} on both migrating and importing nodes.\n"
                ));
                self.close_slot(cluster, from, slot)?;
            }
        }
        for &index in open.importing.iter().filter(|index| Some(**index) != target) {
            self.close_slot(cluster, index, slot)?;
        }
        Ok(())
    }

    /// No node expects the slot: it stays, if it is its owner's or has no keys.
    fn close_one(&self, cluster: &mut Cluster, open: &OpenSlot, owner: usize, from: usize) -> Outcome {
        let slot = open.slot;
        if from != owner && cluster.nodes[from].count_keys(self.log, slot)? > 0 {
            return self.cannot_fix(cluster, open, owner);
        }
        self.log.info(format_args!(">>> Case 4: Closing slot {slot} on {}\n", cluster.nodes[from]));
        self.close_slot(cluster, from, slot)
    }

    fn cannot_fix(&self, cluster: &Cluster, open: &OpenSlot, owner: usize) -> Outcome {
        self.log.error(format_args!(
            "[ERR] Sorry, {} can't fix this slot yet (work in progress). Slot is set as migrating in {}, as \
            importing in {}, owner is {}\n",
            self.words.program, open.migrating_text, open.importing_text, cluster.nodes[owner]
        ));
        Err(Failed)
    }
}
