//! Anomalies of registers whose values are written once each.

use super::{Anomaly, Fact, Indexed, report_phantom};
use std::collections::HashMap;

/// The anomalies of a register; none if a value is written twice.
pub(super) fn anomalies(operations: &[Indexed<'_>]) -> Vec<Anomaly> {
    let mut facts: HashMap<&str, Fact<'_>> = HashMap::new();
    for one in operations {
        if let Some(value) = one.operation.written()
            && facts.insert(value, Fact::new(*one)).is_some()
        {
            return Vec::new();
        }
    }
    let mut found = Vec::new();
    for read in operations {
        let Some(Some(value)) = read.operation.seen() else { continue };
        let fact = facts.get_mut(value);
        let writer = fact.as_ref().map(|fact| fact.writer);
        match fact {
            Some(fact) if is_possible(fact.writer, *read) => fact.shown_by.push(*read),
            _ => report_phantom(&format!("{value:?}"), *read, writer, &mut found),
        }
    }
    report_overwritten(operations, &facts, &mut found);
    found
}

fn is_possible(writer: Indexed<'_>, read: Indexed<'_>) -> bool {
    !writer.operation.is_failed() && !read.operation.precedes(writer.operation)
}

/// Reports reads of a value that another one had replaced before the read began.
fn report_overwritten(operations: &[Indexed<'_>], facts: &HashMap<&str, Fact<'_>>, found: &mut Vec<Anomaly>) {
    // By the time at which they are certain; each with the fact, up to it, that was written last.
    let certain_ns = |fact: &Fact<'_>| fact.witness().map(|witness| witness.operation.completed_ns());
    let mut certain: Vec<(u64, &str, &Fact<'_>)> =
        facts.iter().filter_map(|(value, fact)| Some((certain_ns(fact)?, *value, fact))).collect();
    certain.retain(|(_, _, fact)| !fact.writer.operation.is_failed());
    certain.sort_by_key(|(at_ns, value, _)| (*at_ns, *value));
    let mut latest = Vec::with_capacity(certain.len());
    for (_, value, fact) in &certain {
        let last: Option<&(&str, &Fact<'_>)> = latest.last();
        let replaces =
            last.is_none_or(|(_, last)| fact.writer.operation.invoked_ns > last.writer.operation.invoked_ns);
        let kept = if replaces { (*value, *fact) } else { last.map_or((*value, *fact), |last| *last) };
        latest.push(kept);
    }
    for read in operations {
        let Some(seen) = read.operation.seen() else { continue };
        let before = certain.partition_point(|(at_ns, _, _)| *at_ns < read.operation.invoked_ns);
        let Some((value, fact)) = before.checked_sub(1).and_then(|index| latest.get(index)) else { continue };
        let is_replaced = match seen {
            None => true,
            Some(seen) => facts
                .get(seen)
                .and_then(&certain_ns)
                .is_some_and(|at_ns| at_ns < fact.writer.operation.invoked_ns),
        };
        if is_replaced {
            fact.report_missing(&format!("{value:?}"), *read, found);
        }
    }
}
