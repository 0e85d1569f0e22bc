//! Fewer operations that still contradict each other. Only operations are taken out that a linearizable
//! history can spare: reads and other evidence, and updates without evidence ([`crate::observe`]).

use crate::observe::{Evidence, is_informative};
use crate::record::{Call, ObjectKind, Operation, Reply};
use crate::search::{Limits, Verdict, search};
use std::collections::HashSet;

/// The positions of a small part of `operations` that is not linearizable, in their order. `operations` are
/// not linearizable; `suspects` are the positions of an anomaly, tried first. Within limits the part is
/// minimal: without any one of its operations it is linearizable, or has lost what explains a read.
pub(crate) fn shrink(operations: &[&Operation], suspects: &[usize], limits: &Limits) -> Vec<usize> {
    let limits = Limits { steps: limits.steps.min(400_000), ..*limits };
    let mut shrinking = Shrinking { operations, limits, visits: 0 };
    let mut kept: Vec<usize> = (0..operations.len()).collect();
    if !suspects.is_empty() {
        let evidence = |index: &usize| suspects.contains(index) || !is_spare_evidence(operations[*index]);
        let fewer = kept.iter().copied().filter(evidence).collect();
        shrinking.keep_if_broken(&mut kept, fewer);
    }
    shrinking.cut_after(&mut kept);
    while shrinking.pass(&mut kept) {}
    kept
}

/// Operations that may always be taken out: they change nothing.
fn is_spare_evidence(operation: &Operation) -> bool {
    operation.call == Call::Read
        || operation.is_failed()
        || matches!(
            (&operation.call, operation.reply()),
            (Call::Pop, Some(Reply::Value(None))) | (_, Some(Reply::Changed(false)))
        )
}

struct Shrinking<'a> {
    operations: &'a [&'a Operation],
    limits: Limits,
    /// Operations that the trials have looked at.
    visits: usize,
}

/// Operations that the trials of one shrinking look at, about.
const VISITS_MAX: usize = 2_000_000;

impl Shrinking<'_> {
    /// Replaces `kept` by `fewer` if these are not linearizable.
    fn keep_if_broken(&mut self, kept: &mut Vec<usize>, fewer: Vec<usize>) -> bool {
        if fewer.len() >= kept.len() || self.visits >= VISITS_MAX {
            return false;
        }
        self.visits += 5 * fewer.len();
        let part: Vec<&Operation> = fewer.iter().map(|index| self.operations[*index]).collect();
        let is_broken = search(&part, &self.limits).verdict == Verdict::NotLinearizable;
        if is_broken {
            *kept = fewer;
        }
        is_broken
    }

    /// Takes out the reads that complete after a time, the earliest that leaves a contradiction.
    fn cut_after(&mut self, kept: &mut Vec<usize>) {
        let mut times_ns: Vec<u64> = kept
            .iter()
            .filter(|index| is_spare_evidence(self.operations[**index]))
            .map(|index| self.operations[*index].completed_ns())
            .collect();
        times_ns.sort_unstable();
        times_ns.dedup();
        let (mut low, mut high) = (0, times_ns.len());
        while low < high {
            let middle = (low + high) / 2;
            let is_early = |index: &usize| {
                let operation = self.operations[*index];
                !is_spare_evidence(operation) || operation.completed_ns() <= times_ns[middle]
            };
            let fewer: Vec<usize> = kept.iter().copied().filter(is_early).collect();
            if fewer.len() == kept.len() || self.keep_if_broken(kept, fewer) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
    }

    /// Tries to take out runs of operations, from long ones to single ones; whether it took out any.
    fn pass(&mut self, kept: &mut Vec<usize>) -> bool {
        let before = kept.len();
        let mut run = kept.len().div_ceil(2).max(1);
        loop {
            let mut end = kept.len();
            while end > 0 && self.visits < VISITS_MAX {
                self.visits += kept.len();
                let start = end.saturating_sub(run);
                let fewer = self.without(kept, start..end);
                self.keep_if_broken(kept, fewer);
                end = start.min(kept.len());
            }
            if run == 1 {
                return kept.len() < before && self.visits < VISITS_MAX;
            }
            run = run.div_ceil(2);
        }
    }

    /// `kept` without those of a run that may be taken out together.
    fn without(&self, kept: &[usize], run: std::ops::Range<usize>) -> Vec<usize> {
        let is_in_run = |position: usize| run.contains(&position);
        let remaining = |(position, index): (usize, &usize)| {
            (!(is_in_run(position) && is_spare_evidence(self.operations[*index]))).then_some(*index)
        };
        let mut fewer: Vec<usize> = kept.iter().enumerate().filter_map(remaining).collect();
        let candidates: HashSet<usize> = kept[run.clone()].iter().copied().collect();
        self.take_out_pairs(&mut fewer, &candidates);
        let part: Vec<&Operation> = fewer.iter().map(|index| self.operations[*index]).collect();
        let evidence = Evidence::of(&part);
        // An update of which only its own reply is evidence stays, as that reply may be what contradicts.
        fewer.retain(|index| {
            let operation = self.operations[*index];
            let is_spare = evidence.lacks(operation)
                && (!is_informative(operation) || operation.kind == ObjectKind::Register);
            !(candidates.contains(index) && is_spare)
        });
        fewer
    }

    /// Takes out pushes of the run together with the pops that returned their items, if nothing else shows
    /// these.
    fn take_out_pairs(&self, kept: &mut Vec<usize>, candidates: &HashSet<usize>) {
        let mut shown: HashSet<&str> = HashSet::new();
        let mut popped: Vec<&str> = Vec::new();
        for index in &*kept {
            match self.operations[*index].reply() {
                Some(Reply::Items(items)) => shown.extend(items.iter().map(String::as_str)),
                Some(Reply::Number(_)) if self.operations[*index].kind == ObjectKind::List => return,
                Some(Reply::Value(Some(item))) if self.operations[*index].call == Call::Pop => {
                    popped.push(item)
                }
                _ => {}
            }
        }
        let mut once = HashSet::new();
        let twice: HashSet<&str> = popped.iter().filter(|item| !once.insert(**item)).copied().collect();
        let pushed_in_run: HashSet<&str> = kept
            .iter()
            .filter(|index| candidates.contains(index))
            .filter_map(|index| match &self.operations[*index].call {
                Call::Push(item) if !shown.contains(item.as_str()) && !twice.contains(item.as_str()) => {
                    Some(item.as_str())
                }
                _ => None,
            })
            .filter(|item| once.contains(item))
            .collect();
        kept.retain(|index| match (&self.operations[*index].call, self.operations[*index].reply()) {
            (Call::Push(item), _) | (Call::Pop, Some(Reply::Value(Some(item)))) => {
                !pushed_in_run.contains(item.as_str())
            }
            _ => true,
        });
    }
}
