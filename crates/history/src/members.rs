//! A look ahead for sets: whether a state can still become what the reads that are left show, member by
//! member.

use crate::model::State;
use crate::record::{Call, Operation, Reply};
use std::collections::{BTreeSet, HashMap};

/// The reads of a set and the changes of each member.
pub(crate) struct MemberOutlook<'a> {
    /// Reads by completion: its time, the operation's index, the members.
    reads: Vec<(u64, usize, &'a BTreeSet<String>)>,
    /// For each member the additions and the removals, by invocation.
    changes: HashMap<&'a str, [Vec<usize>; 2]>,
}

impl<'a> MemberOutlook<'a> {
    /// The outlook on operations in the order of their invocations; nothing of objects that are no sets.
    pub(crate) fn new(operations: &[&'a Operation]) -> MemberOutlook<'a> {
        let mut outlook = MemberOutlook { reads: Vec::new(), changes: HashMap::new() };
        for (index, operation) in operations.iter().enumerate() {
            match (&operation.call, operation.reply()) {
                (_, Some(Reply::Members(members))) => {
                    outlook.reads.push((operation.completed_ns(), index, members));
                }
                (Call::Add(member), _) => outlook.changes.entry(member).or_default()[0].push(index),
                (Call::Remove(member), _) => outlook.changes.entry(member).or_default()[1].push(index),
                _ => {}
            }
        }
        outlook.reads.sort_by_key(|read| (read.0, read.1));
        outlook
    }

    /// Whether no read that is left contradicts the member that operation `changed` has just changed: one
    /// that completes before the member can change again must show it as it is. `first` is the first
    /// operation left.
    pub(crate) fn is_open(
        &self,
        state: &State,
        changed: usize,
        first: usize,
        operations: &[&Operation],
        has_effect: &[bool],
    ) -> bool {
        let State::Set(members) = state else { return true };
        let (Call::Add(member) | Call::Remove(member)) = &operations[changed].call else { return true };
        let is_present = members.contains(member);
        let Some(changes) = self.changes.get(member.as_str()) else { return true };
        let next = changes[usize::from(is_present)].iter().find(|index| !has_effect[**index]);
        let until_ns = next.map_or(u64::MAX, |next| operations[*next].invoked_ns);
        let Some(first) = operations.get(first) else { return true };
        let start = self.reads.partition_point(|read| read.0 < first.invoked_ns);
        let binding = self.reads[start..].iter().take_while(|read| read.0 < until_ns);
        let mut binding = binding.filter(|(_, index, _)| !has_effect[*index]);
        binding.all(|(_, _, seen)| seen.contains(member) == is_present)
    }
}
