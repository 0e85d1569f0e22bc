//! The names that patterns stand for, in all partitions of an index, before a plan is bound.

use super::node::names_of;
use super::plan::{Expansion, Plan};
use super::prepared::Prepared;
use crate::index::partition::Partition;
use crate::query::pattern::{Step, TermPattern, successor};

/// A walk through one partition's names for one expansion of a plan.
#[derive(Debug)]
pub(super) struct Walk {
    /// Which expansion of the plan.
    number: usize,
    partition: usize,
    /// The pattern with its state, and the name at which the walk goes on.
    at: Option<(TermPattern, Vec<u8>)>,
    /// How many more names the walk may take.
    left: usize,
}

impl Walk {
    /// The walk for the first expansion, in the first partition.
    pub(super) fn new() -> Walk {
        Walk { number: 0, partition: 0, at: None, left: 0 }
    }

    /// The partition to look at next.
    pub(super) fn partition(&self) -> usize {
        self.partition
    }

    /// Goes on in that partition, if there is one: looks at up to `budget` names. Returns whether all
    /// expansions are known.
    pub(super) fn step(
        &mut self,
        plan: &Plan,
        partition: Option<&Partition>,
        prepared: &mut Prepared,
        budget: usize,
    ) -> bool {
        let mut expansions = Vec::new();
        plan.expansions(&mut expansions);
        let Some(&(field, which)) = expansions.get(self.number) else { return true };
        let Some(partition) = partition else {
            // All partitions: the first names of all are those of the index.
            let known = prepared.expansion_mut(which.number);
            while known.len() > which.max {
                known.pop_last();
            }
            *self = Walk { number: self.number + 1, ..Walk::new() };
            return false;
        };
        let (mut pattern, from) = self.at.take().unwrap_or_else(|| {
            self.left = which.max;
            (which.pattern.clone(), which.pattern.prefix().to_vec())
        });
        match self.walk(field, which, &mut pattern, from, partition, prepared, budget) {
            Some(from) => self.at = Some((pattern, from)),
            None => self.partition += 1,
        }
        false
    }

    /// Looks at names from `from` on; the name at which to go on, or none at the end.
    #[allow(clippy::too_many_arguments, reason = "the parts of one walk")]
    fn walk(
        &mut self,
        field: Option<usize>,
        which: &Expansion,
        pattern: &mut TermPattern,
        mut from: Vec<u8>,
        partition: &Partition,
        prepared: &mut Prepared,
        mut budget: usize,
    ) -> Option<Vec<u8>> {
        let names = names_of(partition, field)?;
        let known = prepared.expansion_mut(which.number);
        loop {
            let mut skipped = None;
            let prefix = which.pattern.prefix();
            for (name, number) in names.from(&from).take_while(|(name, _)| name.starts_with(prefix)) {
                if self.left == 0 {
                    return None;
                }
                if budget == 0 {
                    return Some(name.to_vec());
                }
                budget -= 1;
                match pattern.step(name) {
                    Step::Match => {
                        let documents = names.at(number).map_or(0, |(_, postings)| postings.len());
                        *known.entry(name.into()).or_default() += documents as u64;
                        self.left -= 1;
                    }
                    Step::Pass => {}
                    Step::Skip(length) => {
                        skipped = name.get(..length).map(<[u8]>::to_vec);
                        break;
                    }
                }
            }
            if !successor(&skipped?, &mut from) {
                return None;
            }
        }
    }
}

#[cfg(test)]
impl Prepared {
    /// Looks at all partitions at once: their names are counted, and expansions made.
    #[cfg(test)]
    pub(crate) fn of_all(plan: &Plan, partitions: &[&Partition]) -> Prepared {
        let mut prepared = Prepared::default();
        partitions.iter().for_each(|partition| prepared.add(plan, partition));
        let mut walk = Walk::new();
        while !walk.step(plan, partitions.get(walk.partition()).copied(), &mut prepared, 3) {}
        prepared
    }
}
