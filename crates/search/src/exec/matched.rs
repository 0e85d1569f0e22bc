//! The terms of a query that single documents have, asked for once the evaluation is over.

use std::sync::Arc;

use super::plan::Plan;
use super::prepared::Prepared;
use super::run::Run;
use super::score::MatchedTerm;
use crate::index::statistics::Statistics;
use crate::index::whole::Index;

/// Says which terms of an evaluated query a document has.
#[derive(Debug)]
pub struct MatchedTerms {
    index: Arc<Index>,
    plan: Arc<Plan>,
    prepared: Arc<Prepared>,
    statistics: Statistics,
    /// By partition the plan bound to it.
    runs: Vec<Option<Run>>,
}

impl MatchedTerms {
    pub(super) fn new(
        index: Arc<Index>,
        plan: Arc<Plan>,
        prepared: Arc<Prepared>,
        statistics: Statistics,
    ) -> MatchedTerms {
        let runs = (0..index.partitions()).map(|_| None).collect();
        MatchedTerms { index, plan, prepared, statistics, runs }
    }

    /// The terms of the query that the key's document has now, in whatever fields, in the order in which the
    /// query is evaluated. Of the names that a pattern stands for it is the first, as in RediSearch. None if
    /// the query does not find the document any more.
    pub fn of(&mut self, partition: usize, key: &[u8]) -> Vec<MatchedTerm> {
        let (Some(locked), Some(run)) = (self.index.partition(partition), self.runs.get_mut(partition))
        else {
            return Vec::new();
        };
        let Some(id) = locked.documents().find(key) else { return Vec::new() };
        let run = run.get_or_insert_with(|| {
            Run::new(Arc::clone(&self.plan), Arc::clone(&self.prepared), &locked, partition, true)
        });
        run.matched_terms(&locked, id, self.statistics)
    }
}
