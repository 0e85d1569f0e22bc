//! `fix`: slots without an owner, and slots with several.

use super::moving::How;
use super::node::Refusal;
use super::slots::SlotSet;
use super::topology::Cluster;
use super::{Failed, Manager, Outcome, log};
use martlet_base::random::Random;

/// Which commands of the transaction that makes a node a slot's owner may fail: all but ADDSLOTS.
const ADD_SLOTS_PLACE: usize = 1;

impl Manager<'_> {
    /// Stops where primaries are unreachable, unless that is accepted: their slots look unowned.
    pub fn refuse_unreachable(&self, cluster: &Cluster, what: &str) -> Outcome {
        let count = cluster.unreachable_primaries;
        if count == 0 || self.options.fixes_with_unreachable_primaries {
            return Ok(());
        }
        let (primaries, program) = (self.words.primaries, self.words.program);
        self.log.warning(format_args!(
            "*** Fixing {what} with {count} unreachable {primaries} is dangerous: {program} will assume that slots \
            about {primaries} that are not reachable are not covered, and will try to reassign them to the \
            reachable nodes. This can cause data loss and is rarely what you want to do. If you really want to \
            proceed use the --cluster-fix-with-unreachable-{primaries} option.\n"
        ));
        Err(Failed)
    }

    /// Gives owners to slots that have none; returns how many have one now.
    pub fn fix_coverage(&self, cluster: &mut Cluster, missing: &[u16]) -> Result<usize, Failed> {
        self.refuse_unreachable(cluster, "slots coverage")?;
        self.log.info(format_args!(">>> Fixing slots coverage...\n"));
        // By how many primaries have keys of them: none, one, several.
        let mut parts: [Vec<(u16, Vec<usize>)>; 3] = Default::default();
        for slot in missing {
            let mut holders = Vec::new();
            for index in cluster.primaries() {
                let ask = format!("CLUSTER GETKEYSINSLOT {slot} 1");
                let Ok(keys) = cluster.nodes[index].demand_line(self.log, ask) else { return Ok(0) };
                if keys.items().is_some_and(|keys| !keys.is_empty()) {
                    holders.push(index);
                }
            }
            parts[holders.len().min(2)].push((*slot, holders));
        }
        let [none, single, several] = parts;
        let mut fixed = 0;
        let covered = self.cover_empty(cluster, &none, &mut fixed).and_then(|()| {
            self.cover_held(cluster, &single, &mut fixed)?;
            self.gather(cluster, &several, &mut fixed)
        });
        Ok(if covered.is_ok() { fixed } else { 0 })
    }

    /// Asks whether some slots are to be covered; the answer is not taken from `--cluster-yes`.
    fn agrees_to(&self, slots: &[(u16, Vec<usize>)], what: &str, question: &str) -> bool {
        if slots.is_empty() {
            return false;
        }
        let set: SlotSet = slots.iter().map(|(slot, _)| *slot).collect();
        println!("The following uncovered slots have {what}:\n{set}");
        log::confirm(question)
    }

    fn cover_empty(&self, cluster: &mut Cluster, slots: &[(u16, Vec<usize>)], fixed: &mut usize) -> Outcome {
        let question = "Fix these slots by covering with a random node?";
        if !self.agrees_to(slots, "no keys across the cluster", question) {
            return Ok(());
        }
        let (mut random, primaries) = (Random::from_entropy(), cluster.primaries());
        for (slot, _) in slots {
            let drawn = random.below(primaries.len() as u64) as usize;
            let owner = *primaries.get(drawn).ok_or(Failed)?;
            self.cover(cluster, *slot, owner, fixed)?;
        }
        Ok(())
    }

    fn cover_held(&self, cluster: &mut Cluster, slots: &[(u16, Vec<usize>)], fixed: &mut usize) -> Outcome {
        let question = "Fix these slots by covering with those nodes?";
        if !self.agrees_to(slots, "keys in just one node", question) {
            return Ok(());
        }
        for (slot, holders) in slots {
            let owner = *holders.first().ok_or(Failed)?;
            self.cover(cluster, *slot, owner, fixed)?;
        }
        Ok(())
    }

    fn cover(&self, cluster: &mut Cluster, slot: u16, owner: usize, fixed: &mut usize) -> Outcome {
        self.log.info(format_args!(">>> Covering slot {slot} with {}\n", cluster.nodes[owner]));
        self.own(cluster, owner, slot, false)?;
        *fixed += 1;
        Ok(())
    }

    /// Gives slots of which several nodes have keys to the one with most, and moves the others' keys there.
    fn gather(&self, cluster: &mut Cluster, slots: &[(u16, Vec<usize>)], fixed: &mut usize) -> Outcome {
        let question = "Fix these slots by moving keys into a single node?";
        if !self.agrees_to(slots, "keys in multiple nodes", question) {
            return Ok(());
        }
        for (slot, holders) in slots {
            let owner = self.demand_most_keys(cluster, holders, *slot)?.ok_or(Failed)?;
            self.log.info(format_args!(">>> Covering slot {slot} moving keys to {}\n", cluster.nodes[owner]));
            self.own(cluster, owner, *slot, true)?;
            for &source in holders.iter().filter(|source| **source != owner) {
                self.set_slot(cluster, source, *slot, "NODE", owner)?;
                // So that MIGRATE is not redirected: the source takes part in a move.
                self.set_slot(cluster, source, *slot, "IMPORTING", owner)?;
                self.move_keys(cluster, source, owner, *slot)?;
                self.close_slot(cluster, source, *slot)?;
            }
            *fixed += 1;
        }
        Ok(())
    }

    /// Leaves one owner, which has most keys, of several; moves the others' keys to it.
    pub fn fix_owners(&self, cluster: &mut Cluster, slot: u16, owners: &[usize]) -> Outcome {
        self.log.info(format_args!(">>> Fixing multiple owners for slot {slot}...\n"));
        let most = self.demand_most_keys(cluster, owners, slot).unwrap_or(None);
        let owner = most.or(owners.first().copied()).ok_or(Failed)?;
        self.log.info(format_args!(">>> Setting slot {slot} owner: {}\n", cluster.nodes[owner]));
        self.own(cluster, owner, slot, false)?;
        for index in cluster.primaries().into_iter().filter(|index| *index != owner) {
            let keys = cluster.nodes[index].count_keys(self.log, slot)?;
            // A refusal is printed; the owner is announced in any case.
            let _ = self.disown(cluster, index, slot);
            self.set_slot(cluster, index, slot, "NODE", owner)?;
            if keys > 0 {
                self.move_keys(cluster, index, owner, slot)?;
            }
        }
        Ok(())
    }

    /// Which primary has most keys; a refusal is said.
    pub fn demand_most_keys(
        &self,
        cluster: &mut Cluster,
        among: &[usize],
        slot: u16,
    ) -> Result<Option<usize>, Failed> {
        self.with_most_keys(cluster, among, slot).map_err(|(index, refusal)| {
            refusal.report(self.log, &cluster.nodes[index]);
            Failed
        })
    }

    /// Moves the keys of a slot whose owner is known already.
    pub fn move_keys(&self, cluster: &mut Cluster, from: usize, to: usize, slot: u16) -> Outcome {
        let how = How { shows_keys: true, is_cold: true };
        self.move_slot_said(cluster, from, to, slot, how)
    }

    /// Moves a slot; a failure is said.
    pub fn move_slot_said(
        &self,
        cluster: &mut Cluster,
        from: usize,
        to: usize,
        slot: u16,
        how: How,
    ) -> Outcome {
        self.move_slot(cluster, from, to, slot, how).map_err(|failure| {
            failure.say(self, cluster);
            Failed
        })
    }

    /// Ends a slot's move at one node.
    pub fn close_slot(&self, cluster: &mut Cluster, at: usize, slot: u16) -> Outcome {
        let stable = format!("CLUSTER SETSLOT {slot} STABLE");
        cluster.nodes[at].demand_line(self.log, stable).map(drop)
    }

    /// Makes a node forget the owner of a slot, if it knows one.
    pub fn disown(&self, cluster: &mut Cluster, at: usize, slot: u16) -> Outcome {
        let node = &mut cluster.nodes[at];
        match node.ask(format!("CLUSTER DELSLOTS {slot}")) {
            Ok(_) => Ok(()),
            Err(Refusal::Error(text)) if text.ends_with("is already unassigned") => Ok(()),
            Err(refusal) => {
                refusal.report(self.log, node);
                Err(Failed)
            }
        }
    }

    /// Makes a node the owner of a slot, with an epoch above all others', in one transaction.
    pub fn own(&self, cluster: &mut Cluster, owner: usize, slot: u16, closes: bool) -> Outcome {
        let node = &mut cluster.nodes[owner];
        let mut lines =
            vec!["MULTI".to_string(), format!("CLUSTER DELSLOTS {slot}"), format!("CLUSTER ADDSLOTS {slot}")];
        if closes {
            lines.push(format!("CLUSTER SETSLOT {slot} STABLE"));
        }
        lines.push("CLUSTER BUMPEPOCH".into());
        for line in lines {
            node.demand_line(self.log, line)?;
        }
        let reply = node.demand_line(self.log, "EXEC")?;
        let added = reply.items().and_then(|replies| replies.get(ADD_SLOTS_PLACE));
        if let Some(martlet_client::resp::Reply::Error(text)) = added {
            let text = String::from_utf8_lossy(text).into_owned();
            Refusal::Error(text).report(self.log, node);
            return Err(Failed);
        }
        node.slots.insert(slot);
        added.map(drop).ok_or(Failed)
    }
}
