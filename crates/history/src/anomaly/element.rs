//! Anomalies of sets' members and lists' items that are never taken out, or were never put in.

use super::{Anomaly, AnomalyKind, Fact, Indexed, push, report_phantom};
use crate::record::{Call, Ending, Operation, Reply};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Elements times reads that are compared; larger objects are left to the search.
const COMPARISONS_MAX: usize = 4_000_000;

/// The anomalies of a set or a list.
pub(super) fn anomalies(operations: &[Indexed<'_>]) -> Vec<Anomaly> {
    let mut writers: BTreeMap<&str, Vec<Indexed<'_>>> = BTreeMap::new();
    for one in operations {
        if let Call::Add(element) | Call::Push(element) = &one.operation.call {
            writers.entry(element).or_default().push(*one);
        }
    }
    let mut found = Vec::new();
    // The first writer that is certain stands for an element.
    let mut facts: BTreeMap<&str, Fact<'_>> = BTreeMap::new();
    for (element, writers) in &writers {
        let first =
            writers.iter().min_by_key(|one| (one.operation.is_failed(), one.operation.completed_ns()));
        facts.extend(first.map(|first| (*element, Fact::new(*first))));
    }
    for read in operations {
        for element in shown(read.operation) {
            let all = writers.get(element).map_or(&[][..], Vec::as_slice);
            let is_possible = |one: &Indexed<'_>| {
                one.index != read.index
                    && !one.operation.is_failed()
                    && !read.operation.precedes(one.operation)
            };
            if !all.iter().any(is_possible) {
                report_phantom(&format!("{element:?}"), *read, all.first().copied(), &mut found);
            } else if let Some(fact) = facts.get_mut(element) {
                fact.shown_by.push(*read);
            }
        }
    }
    report_missing(operations, &facts, &mut found);
    report_taken_twice(operations, &writers, &mut found);
    found
}

/// The elements that the reply shows to have been there.
fn shown(operation: &Operation) -> Vec<&str> {
    match (&operation.call, operation.reply()) {
        (_, Some(Reply::Members(members))) => members.iter().map(String::as_str).collect(),
        (_, Some(Reply::Items(items))) => items.iter().map(String::as_str).collect(),
        (Call::Pop, Some(Reply::Value(Some(item)))) => vec![item],
        (Call::Remove(member), Some(Reply::Changed(true))) => vec![member],
        (Call::Add(member), Some(Reply::Changed(false))) => vec![member],
        _ => Vec::new(),
    }
}

/// Reports reads that miss an element which was certain before they began and which no operation took out.
fn report_missing(operations: &[Indexed<'_>], facts: &BTreeMap<&str, Fact<'_>>, found: &mut Vec<Anomaly>) {
    let mut taken_out_ns: HashMap<&str, u64> = HashMap::new();
    let mut any_taken_out_ns = u64::MAX;
    for one in operations.iter().filter(|one| !one.operation.is_failed()) {
        let element = match (&one.operation.call, &one.operation.ending) {
            (Call::Remove(member), _) => member,
            (Call::Pop, Ending::Replied { reply: Reply::Value(Some(item)), .. }) => item,
            (Call::Pop, Ending::Unknown) => {
                any_taken_out_ns = any_taken_out_ns.min(one.operation.invoked_ns);
                continue;
            }
            _ => continue,
        };
        let first = taken_out_ns.entry(element).or_insert(u64::MAX);
        *first = one.operation.invoked_ns.min(*first);
    }
    let is_read = |one: &&Indexed<'_>| one.operation.call == Call::Read && one.operation.is_acknowledged();
    let reads: Vec<_> = operations.iter().filter(is_read).collect();
    if reads.len().saturating_mul(facts.len()) > COMPARISONS_MAX {
        return;
    }
    let certain: Vec<_> = facts
        .iter()
        .filter(|(_, fact)| !fact.writer.operation.is_failed())
        .filter_map(|(element, fact)| Some((*element, fact, fact.witness()?.operation.completed_ns())))
        .collect();
    for read in reads {
        let present: HashSet<&str> = shown(read.operation).into_iter().collect();
        for (element, fact, at_ns) in &certain {
            let out_ns = taken_out_ns.get(element).copied().unwrap_or(u64::MAX).min(any_taken_out_ns);
            let is_kept = *at_ns < read.operation.invoked_ns && out_ns > read.operation.completed_ns();
            if is_kept && !present.contains(element) {
                fact.report_missing(&format!("{element:?}"), *read, found);
            }
        }
    }
}

/// Reports pops of an item that another pop had taken, if it was pushed once.
fn report_taken_twice(
    operations: &[Indexed<'_>],
    writers: &BTreeMap<&str, Vec<Indexed<'_>>>,
    found: &mut Vec<Anomaly>,
) {
    let mut taken: HashMap<&str, Indexed<'_>> = HashMap::new();
    for pop in operations {
        let (Call::Pop, Some(Reply::Value(Some(item)))) = (&pop.operation.call, pop.operation.reply()) else {
            continue;
        };
        if let Some(first) = taken.insert(item, *pop)
            && let Some([writer]) = writers.get(item.as_str()).map(Vec::as_slice)
        {
            let sentence = format!(
                "Operations {} and {} both took {item:?}, which operation {} pushed once.",
                first.index, pop.index, writer.index
            );
            let operations = vec![pop.index, first.index, writer.index];
            push(found, Anomaly { kind: AnomalyKind::PhantomRead, operations, sentence });
        }
    }
}
