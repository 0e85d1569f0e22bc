//! What a plan needs to know of all partitions before it runs through one.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::node::names_of;
use super::plan::Plan;
use crate::index::DocId;
use crate::index::partition::Partition;
use crate::index::postings::Postings;

/// Figures of all partitions, gathered before a plan is bound to one of them.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// The number of documents of each term.
    pub(super) terms: HashMap<Box<[u8]>, u64>,
    /// The number of documents of each tag, by field.
    pub(super) tags: HashMap<(usize, Box<[u8]>), u64>,
    /// The names of each [`Expansion`](super::Expansion) with the number of their documents.
    pub(super) expansions: Vec<BTreeMap<Box<[u8]>, u64>>,
    /// The vectors of each [`Plan::Near`], by partition and id.
    pub(super) near: Vec<HashMap<(usize, DocId), f32>>,
    /// The documents of each [`Plan::Shapes`], by partition, ascending.
    pub(super) shapes: Vec<Vec<Vec<DocId>>>,
}

impl Prepared {
    /// Adds what `plan` asks of a partition. To be called once for every partition before the first run is
    /// made.
    pub fn add(&mut self, plan: &Plan, partition: &Partition) {
        let mut names = HashSet::new();
        plan.names(&mut names);
        for (field, name) in names {
            let postings = names_of(partition, field).and_then(|names| names.get(name));
            let count = postings.map_or(0, |postings| postings.len() as u64);
            *match field {
                None => self.terms.entry(name.into()).or_default(),
                Some(field) => self.tags.entry((field, name.into())).or_default(),
            } += count;
        }
    }

    /// The names of an expansion.
    pub(super) fn expansion_mut(&mut self, number: usize) -> &mut BTreeMap<Box<[u8]>, u64> {
        if self.expansions.len() <= number {
            self.expansions.resize_with(number + 1, BTreeMap::new);
        }
        &mut self.expansions[number]
    }

    fn get(&self, field: Option<usize>, name: &[u8]) -> u64 {
        let known = match field {
            None => self.terms.get(name),
            Some(field) => self.tags.get(&(field, name.into())),
        };
        known.copied().unwrap_or(0)
    }

    /// In how many documents of the index a name stands that stands in `here`.
    pub(super) fn of(&self, field: Option<usize>, name: &[u8], here: &Postings) -> u64 {
        self.get(field, name).max(here.len() as u64)
    }

    /// Whether a name stands in any document.
    pub(super) fn knows(&self, field: Option<usize>, name: &[u8]) -> bool {
        self.get(field, name) > 0
    }
}
