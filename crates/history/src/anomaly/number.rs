//! Anomalies of counters and of balances: reads outside the bounds that the order of time sets.

use super::{Anomaly, AnomalyKind, Indexed, distinct, push};
use crate::record::{Call, Reply};
use std::collections::{BTreeMap, BTreeSet};

/// A change of a number by an operation.
type Change<'a> = (Indexed<'a>, i128);

/// A number that a read shows.
type Sight<'a> = (Indexed<'a>, i128);

/// The anomalies of a counter.
pub(super) fn counter_anomalies(operations: &[Indexed<'_>]) -> Vec<Anomaly> {
    let changes: Vec<Change<'_>> = operations
        .iter()
        .filter_map(|one| match one.operation.call {
            Call::Increment(by) => Some((*one, i128::from(by))),
            _ => None,
        })
        .collect();
    let sights: Vec<Sight<'_>> = operations
        .iter()
        .filter_map(|one| match one.operation.reply() {
            Some(Reply::Number(number)) => Some((*one, i128::from(*number))),
            _ => None,
        })
        .collect();
    let mut found = Vec::new();
    report_outside("the counter", 0, &changes, &sights, &mut found);
    found
}

/// The anomalies of a group of accounts; none if it was opened more than once, or while other operations
/// ran.
pub(super) fn transfer_anomalies(operations: &[Indexed<'_>]) -> Vec<Anomaly> {
    let opens: Vec<_> = operations.iter().filter(|one| matches!(one.operation.call, Call::Open(_))).collect();
    let opening = match opens[..] {
        [] => None,
        [open] => Some(*open),
        _ => return Vec::new(),
    };
    let is_after = |one: &Indexed<'_>| {
        opening.is_none_or(|open| open.index == one.index || open.operation.precedes(one.operation))
    };
    if !operations.iter().all(is_after) {
        return Vec::new();
    }
    let empty = BTreeMap::new();
    let opened = opening.map_or(&empty, |open| match &open.operation.call {
        Call::Open(balances) => balances,
        _ => &empty,
    });
    let mut found = Vec::new();
    let total: i128 = opened.values().map(|balance| i128::from(*balance)).sum();
    let mut accounts: BTreeSet<&str> = opened.keys().map(String::as_str).collect();
    let mut reads = Vec::new();
    for one in operations {
        match (&one.operation.call, one.operation.reply()) {
            (Call::Move { from, to, .. }, _) => accounts.extend([from.as_str(), to]),
            (_, Some(Reply::Balances(balances))) => {
                accounts.extend(balances.keys().map(String::as_str));
                reads.push((*one, balances));
                let sum: i128 = balances.values().map(|balance| i128::from(*balance)).sum();
                if sum != total {
                    let index = one.index;
                    let sentence =
                        format!("Operation {index} shows balances of sum {sum}; all moves leave {total}.");
                    let operations = [index].into_iter().chain(opening.map(|open| open.index)).collect();
                    push(&mut found, Anomaly { kind: AnomalyKind::UnbalancedRead, operations, sentence });
                }
            }
            _ => {}
        }
    }
    for account in accounts {
        let sights: Vec<_> = reads
            .iter()
            .map(|(one, balances)| (*one, i128::from(balances.get(account).copied().unwrap_or_default())))
            .collect();
        let base = i128::from(opened.get(account).copied().unwrap_or_default());
        report_outside(
            &format!("account {account:?}"),
            base,
            &changes_of(account, operations),
            &sights,
            &mut found,
        );
    }
    found
}

fn changes_of<'a>(account: &str, operations: &[Indexed<'a>]) -> Vec<Change<'a>> {
    let moves = operations.iter().filter_map(|one| match &one.operation.call {
        Call::Move { from, to, amount } => {
            let gain = |of: &str| if of == account { i128::from(*amount) } else { 0 };
            Some((*one, gain(to) - gain(from)))
        }
        _ => None,
    });
    moves.filter(|(_, change)| *change != 0).collect()
}

/// Sums of changes up to a time: all, the increases, the decreases.
struct Sums {
    times_ns: Vec<u64>,
    sums: Vec<[i128; 2]>,
}

impl Sums {
    fn new(mut changes: Vec<(u64, i128)>) -> Sums {
        changes.sort_unstable();
        let mut sum = [0, 0];
        let mut sums = vec![sum];
        for (_, change) in &changes {
            sum[usize::from(*change < 0)] += change;
            sums.push(sum);
        }
        Sums { times_ns: changes.into_iter().map(|(at_ns, _)| at_ns).collect(), sums }
    }

    /// Increases and decreases of the changes whose times `is_within` holds for, which are the first ones.
    fn until(&self, is_within: impl Fn(u64) -> bool) -> [i128; 2] {
        self.sums[self.times_ns.partition_point(|at_ns| is_within(*at_ns))]
    }
}

/// Reports numbers that are less than the certain changes make, more than the possible ones do, or that
/// fall though nothing decreases them.
fn report_outside(
    name: &str,
    base: i128,
    changes: &[Change<'_>],
    sights: &[Sight<'_>],
    found: &mut Vec<Anomaly>,
) {
    let effective = || changes.iter().filter(|(one, _)| !one.operation.is_failed());
    let acknowledged = effective().filter(|(one, _)| one.operation.is_acknowledged());
    let certain = Sums::new(acknowledged.map(|(one, by)| (one.operation.completed_ns(), *by)).collect());
    let possible = Sums::new(effective().map(|(one, by)| (one.operation.invoked_ns, *by)).collect());
    for (read, number) in sights {
        let index = read.index;
        let [increase, decrease] = certain.until(|at_ns| at_ns < read.operation.invoked_ns);
        let [most, least] = possible.until(|at_ns| at_ns <= read.operation.completed_ns());
        let (lower, upper) = (base + increase + least, base + decrease + most);
        if *number < lower {
            let sentence = format!(
                "Operation {index} shows {name} at {number}; the operations acknowledged before it began make it at \
                 least {lower}."
            );
            push(found, missing(*read, lower, sights, &certain_changes(*read, changes), sentence));
        } else if *number > upper {
            let sentence = format!(
                "Operation {index} shows {name} at {number}; all operations that may have taken effect before it \
                 completed make it at most {upper}."
            );
            let operations = vec![index];
            push(found, Anomaly { kind: AnomalyKind::PhantomRead, operations, sentence });
        }
    }
    if effective().all(|(_, by)| *by >= 0) {
        report_falling(name, sights, found);
    }
}

/// The increases that were acknowledged before the read began, the last one first.
fn certain_changes(read: Indexed<'_>, changes: &[Change<'_>]) -> Vec<usize> {
    let certain = changes.iter().filter(|(one, by)| *by > 0 && one.operation.precedes(read.operation));
    let mut certain: Vec<_> = certain.map(|(one, _)| (one.operation.completed_ns(), one.index)).collect();
    certain.sort_unstable();
    certain.into_iter().rev().map(|(_, index)| index).take(1).collect()
}

/// The anomaly of a read that shows less than `lower`: stale if a later read shows that, otherwise
/// something is lost.
fn missing(
    read: Indexed<'_>,
    lower: i128,
    sights: &[Sight<'_>],
    writers: &[usize],
    sentence: String,
) -> Anomaly {
    let is_later = |one: &Indexed<'_>| one.operation.completed_ns() > read.operation.invoked_ns;
    let later =
        sights.iter().find(|(one, number)| one.index != read.index && *number >= lower && is_later(one));
    let (kind, first) = match (later, writers) {
        (None, [writer, ..]) => (AnomalyKind::LostWrite, *writer),
        (None, []) => (AnomalyKind::LostWrite, read.index),
        (Some(_), _) => (AnomalyKind::StaleRead, read.index),
    };
    let mut operations = vec![first, read.index];
    operations.extend(writers);
    Anomaly { kind, operations: distinct(&operations), sentence }
}

/// Reports numbers that are less than one which was shown before, if nothing decreases the number.
fn report_falling(name: &str, sights: &[Sight<'_>], found: &mut Vec<Anomaly>) {
    let mut completed: Vec<&Sight<'_>> = sights.iter().collect();
    completed.sort_by_key(|(one, _)| one.operation.completed_ns());
    let mut highest: Vec<&Sight<'_>> = Vec::with_capacity(completed.len());
    for sight in &completed {
        let last = highest.last().copied();
        highest.push(last.filter(|last| last.1 >= sight.1).unwrap_or(sight));
    }
    for (read, number) in sights {
        let before = completed.partition_point(|(one, _)| one.operation.precedes(read.operation));
        let Some((earlier, shown)) = before.checked_sub(1).and_then(|at| highest.get(at)).copied() else {
            continue;
        };
        if shown <= number {
            continue;
        }
        let sentence = format!(
            "Operation {} shows {name} at {shown}; operation {} began after that, shows it at {number}, and nothing \
             decreases it.",
            earlier.index, read.index
        );
        let is_later = |one: &Indexed<'_>| one.operation.completed_ns() > read.operation.invoked_ns;
        let recovers = sights.iter().any(|(one, number)| number >= shown && is_later(one));
        let (kind, first) = if recovers {
            (AnomalyKind::StaleRead, read.index)
        } else {
            (AnomalyKind::PhantomRead, earlier.index)
        };
        push(found, Anomaly { kind, operations: distinct(&[first, earlier.index, read.index]), sentence });
    }
}
