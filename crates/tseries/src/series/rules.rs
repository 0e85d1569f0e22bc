//! Rules after samples out of order and deletions; adding and removing rules.
//!
//! Buckets that are closed are computed again from the samples that there are, and replaced in the
//! destination; the open one is computed again in the rule.

use super::Series;
use crate::aggregate::{Accumulator, Aggregator};
use crate::chunk::Batch;
use crate::error::Error;
use crate::rule::{Action, Buckets, Effect, Rule};
use crate::sample::{DuplicatePolicy, Sample};

impl Series {
    /// Whether `source` (at `source_key`) may have a rule that fills `destination`.
    pub fn check_rule(
        source_key: &[u8],
        source: &Series,
        destination_key: &[u8],
        destination: &Series,
    ) -> Result<(), Error> {
        if source_key == destination_key {
            return Err(Error::RuleToItself);
        }
        if source.source().is_some() {
            return Err(Error::SourceIsDestination);
        }
        if !destination.rules().is_empty() {
            return Err(Error::DestinationIsSource);
        }
        if destination.source().is_some() {
            return Err(Error::DestinationIsTaken);
        }
        Ok(())
    }

    /// Adds a rule (TS.CREATERULE), which sees the samples from now on. The caller calls
    /// [`check_rule`](Series::check_rule) before, and [`set_source`](Series::set_source) of the destination.
    pub fn add_rule(&mut self, rule: Rule) {
        self.inner_mut().rules.push(rule);
    }

    /// Removes the rule to a destination (TS.DELETERULE).
    pub fn remove_rule(&mut self, destination: &[u8]) -> Result<(), Error> {
        let place = self.rules().iter().position(|rule| *rule.destination == *destination);
        let place = place.ok_or(Error::NoSuchRule)?;
        self.inner_mut().rules.remove(place);
        Ok(())
    }

    /// Renames the destination of a rule.
    pub fn rename_destination(&mut self, from: &[u8], to: &[u8]) {
        let rules = &mut self.inner_mut().rules;
        rules
            .iter_mut()
            .filter(|rule| *rule.destination == *from)
            .for_each(|rule| rule.destination = to.into());
    }

    /// The open bucket of the rule to `destination` as it stands (LATEST). None without samples.
    pub fn latest(&self, destination: &[u8]) -> Option<Sample> {
        let rule = self.rules().iter().find(|rule| *rule.destination == *destination)?;
        rule.latest().filter(|_| self.store().total() > 0)
    }

    /// Applies a rule's change to this destination. For [`Action::Reopen`] the answer is for
    /// [`reopen`](Series::reopen) of the source. A sample that this series' retention refuses is dropped.
    pub fn apply(&mut self, action: &Action) -> Option<u64> {
        let last = DuplicatePolicy::Last;
        match *action {
            Action::Close(sample) => {
                let _ = self.add(sample, Some(last), last, &mut Vec::new());
                None
            }
            Action::Replace(sample) => {
                let store = &mut self.inner_mut().store;
                if store.total() == 0 {
                    store.append(sample);
                } else {
                    // The policy LAST refuses nothing.
                    let _ = store.upsert(sample, last);
                }
                None
            }
            Action::Delete(from, to) => {
                self.inner_mut().store.delete(from, to);
                None
            }
            Action::Reopen(before) => {
                let found = self.store().find(0, before.checked_sub(1)?, true)?.timestamp;
                self.inner_mut().store.delete(found, found);
                Some(found)
            }
        }
    }

    /// Makes the bucket of `closed`, which the destination has given up, the open one of the rule; without
    /// one the bucket of time 0.
    pub fn reopen(&mut self, destination: &[u8], closed: Option<u64>) {
        let Some(place) = self.rules().iter().position(|rule| *rule.destination == *destination) else {
            return;
        };
        let rule = &self.rules()[place];
        let (start, _) = rule.buckets.span(closed.unwrap_or(0));
        let end = start.saturating_add(rule.buckets.duration());
        let (accumulator, is_empty) = self.fold(rule.aggregator(), start, end);
        let rule = &mut self.inner_mut().rules[place];
        (rule.accumulator, rule.has_samples) = (accumulator, !is_empty);
        rule.open = (!is_empty).then_some(start);
    }

    /// Aggregates the samples from `start` to before `end`, with the neighbours that a time-weighted mean
    /// needs; and whether no sample counts.
    fn fold(&self, aggregator: Aggregator, start: u64, end: u64) -> (Accumulator, bool) {
        let (store, oldest) = (self.store(), self.oldest());
        let mut accumulator = Accumulator::new(aggregator, false);
        if let Some(twa) = accumulator.twa_mut() {
            twa.set_edges(start, end);
            let before = start.checked_sub(1).and_then(|before| store.find(oldest, before, true));
            if let Some(before) = before {
                twa.set_before(before);
            }
        }
        let from = start.max(oldest);
        let to = end.saturating_sub(1);
        let mut batch = Batch::new();
        let mut is_empty = true;
        for part in store.scan(from, to, false) {
            part.decode(&mut batch);
            let samples = batch.samples().filter(|sample| (from..=to).contains(&sample.timestamp));
            for sample in samples.filter(|sample| aggregator.takes(sample.value)) {
                accumulator.add(sample);
                is_empty = false;
            }
        }
        if let Some(twa) = accumulator.twa_mut()
            && let Some(after) = store.find(end.max(oldest), u64::MAX, false)
        {
            twa.set_after(after);
        }
        (accumulator, is_empty)
    }

    /// Computes the bucket of an upserted sample again, in every rule.
    pub(super) fn recompute(&mut self, timestamp: u64, effects: &mut Vec<Effect>) {
        let last = self.last_timestamp();
        for place in 0..self.rules().len() {
            let rule = &self.rules()[place];
            let (open_start, open_end) = rule.buckets.span(last);
            if timestamp >= open_start {
                self.recompute_open(place, open_start, open_end);
                continue;
            }
            let (start, end) = rule.buckets.span(timestamp);
            let (accumulator, is_empty) = self.fold(rule.aggregator(), start, end);
            if !is_empty {
                let sample = Sample::new(start, accumulator.value());
                effects
                    .push(Effect { destination: rule.destination.clone(), action: Action::Replace(sample) });
            }
        }
    }

    /// Computes the open bucket again: whether it is empty.
    fn recompute_open(&mut self, place: usize, start: u64, end: u64) -> bool {
        let (accumulator, is_empty) = self.fold(self.rules()[place].aggregator(), start, end);
        let rule = &mut self.inner_mut().rules[place];
        (rule.accumulator, rule.has_samples) = (accumulator, !is_empty);
        is_empty
    }

    /// Computes the buckets at both ends of a deletion again, in every rule, and deletes those between.
    /// `last` was the last timestamp before.
    pub(super) fn recompute_deleted(&mut self, from: u64, to: u64, last: u64, effects: &mut Vec<Effect>) {
        for place in 0..self.rules().len() {
            let buckets = self.rules()[place].buckets;
            let (open_start, open_end) = buckets.span(last);
            let mut is_open_empty = false;
            if to >= open_start {
                is_open_empty = self.recompute_open(place, open_start, open_end);
            }
            if from < open_start {
                self.recompute_closed(place, from, to, open_start, effects);
            }
            if is_open_empty {
                let destination = self.rules()[place].destination.clone();
                effects.push(Effect { destination, action: Action::Reopen(last) });
            }
        }
    }

    fn recompute_closed(&self, place: usize, from: u64, to: u64, open_start: u64, effects: &mut Vec<Effect>) {
        let rule = &self.rules()[place];
        let mut push = |action| effects.push(Effect { destination: rule.destination.clone(), action });
        let buckets = rule.buckets;
        let closed = |start, end| {
            let (accumulator, is_empty) = self.fold(rule.aggregator(), start, end);
            (!is_empty).then(|| Sample::new(start, accumulator.value()))
        };
        let (first_start, first_end) = buckets.span(from);
        let first = closed(first_start, first_end);
        let delete_from = if first.is_some() { first_end } else { first_start };
        first.into_iter().for_each(|sample| push(Action::Replace(sample)));
        let (last_start, last_end) = buckets.span(to);
        let before_last = last_before(buckets, to);
        let delete_to = if to >= open_start {
            before_last
        } else {
            match closed(last_start, last_end) {
                None => last_start,
                Some(sample) => {
                    push(Action::Replace(sample));
                    before_last
                }
            }
        };
        if delete_to >= delete_from {
            push(Action::Delete(delete_from, delete_to));
        }
    }
}

/// The beginning of the bucket before that of a time; 0 if there is none.
fn last_before(buckets: Buckets, time: u64) -> u64 {
    u64::try_from(buckets.start(time) - i128::from(buckets.duration())).unwrap_or(0)
}
