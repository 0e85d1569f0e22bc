//! Histories of clients' operations, and whether they are linearizable. No sockets, no server: the caller
//! records [`Operation`]s or reads them from a text ([`parse`]), and [`check`] reports for each object a
//! verdict, the anomalies that have a name, and of the first offence a part that is as small as possible.

mod anomaly;
mod members;
mod model;
mod observe;
mod record;
mod report;
mod search;
mod shrink;
mod text;

pub use anomaly::{Anomaly, AnomalyKind};
pub use record::{Call, Ending, ObjectKind, Operation, Reply};
pub use report::{ObjectReport, Offence, Report};
pub use search::{LimitReached, Limits, Verdict};
pub use text::{LineError, ParseError, call_name, kind_name, line, parse, parse_line};

use anomaly::{Indexed, anomalies};
use std::collections::BTreeMap;

/// Checks every object of a history; `limits` are those of one object. An operation whose call or reply
/// does not belong to its kind ([`Operation::is_well_formed`]) makes its object not linearizable.
pub fn check(history: &[Operation], limits: &Limits) -> Report {
    let mut by_object: BTreeMap<(ObjectKind, &str), Vec<Indexed<'_>>> = BTreeMap::new();
    for (index, operation) in history.iter().enumerate() {
        by_object.entry((operation.kind, &operation.key)).or_default().push(Indexed { index, operation });
    }
    let mut first: Option<(u64, ObjectReport, &[Indexed<'_>])> = None;
    let mut objects = Vec::new();
    for ((kind, key), operations) in &by_object {
        let object = check_object(*kind, key, operations, limits);
        if object.verdict == Verdict::NotLinearizable {
            let at_ns = offence_ns(&object, operations);
            if first.as_ref().is_none_or(|(earliest, ..)| at_ns < *earliest) {
                first = Some((at_ns, object.clone(), operations));
            }
        }
        objects.push(object);
    }
    let failed = history.iter().filter(|operation| operation.is_failed()).count();
    let acknowledged = history.iter().filter(|operation| operation.is_acknowledged()).count();
    let offence = first.map(|(_, object, operations)| offence(&object, operations, limits));
    Report { objects, acknowledged, failed, unknown: history.len() - acknowledged - failed, offence }
}

fn check_object(kind: ObjectKind, key: &str, operations: &[Indexed<'_>], limits: &Limits) -> ObjectReport {
    let anomalies = anomalies(operations);
    let plain: Vec<&Operation> = operations.iter().map(|one| one.operation).collect();
    let (verdict, steps) = if anomalies.is_empty() {
        let search = search::search(&plain, limits);
        (search.verdict, search.steps)
    } else {
        (Verdict::NotLinearizable, 0)
    };
    ObjectReport { kind, key: key.to_owned(), verdict, anomalies, steps }
}

/// When the last operation of an anomaly completed. `operations` are in the order of their indices.
fn anomaly_ns(anomaly: &Anomaly, operations: &[Indexed<'_>]) -> u64 {
    let position = |index: &usize| operations.binary_search_by_key(index, |one| one.index).ok();
    let own = anomaly.operations.iter().filter_map(position).map(|position| operations[position].operation);
    own.filter(|one| one.is_acknowledged()).map(Operation::completed_ns).max().unwrap_or(0)
}

/// When the first contradiction with a name was complete; without one, when the last operation was.
fn offence_ns(object: &ObjectReport, operations: &[Indexed<'_>]) -> u64 {
    let named = object.anomalies.iter().map(|anomaly| anomaly_ns(anomaly, operations)).min();
    let acknowledged = operations.iter().filter(|one| one.operation.is_acknowledged());
    named.or_else(|| acknowledged.map(|one| one.operation.completed_ns()).max()).unwrap_or(0)
}

/// The small part of an object's operations that is shown, and its sentence.
fn offence(object: &ObjectReport, operations: &[Indexed<'_>], limits: &Limits) -> Offence {
    let plain: Vec<&Operation> = operations.iter().map(|one| one.operation).collect();
    let earliest = object.anomalies.iter().min_by_key(|anomaly| anomaly_ns(anomaly, operations));
    let named = earliest.map_or(&[][..], |anomaly| &anomaly.operations);
    let is_named = |one: &Indexed<'_>| named.contains(&one.index);
    let suspects: Vec<usize> = operations
        .iter()
        .enumerate()
        .filter(|(_, one)| is_named(one))
        .map(|(position, _)| position)
        .collect();
    let kept = shrink::shrink(&plain, &suspects, limits);
    let mut part: Vec<Indexed<'_>> = kept.iter().map(|position| operations[*position]).collect();
    // A named contradiction may be shown where the search finds a smaller one: its operations are all in
    // the part.
    part.extend(
        suspects.iter().filter(|position| !kept.contains(position)).map(|position| operations[*position]),
    );
    part.sort_by_key(|one| (one.operation.invoked_ns, one.index));
    let sentence = earliest.map_or_else(|| unnamed_sentence(&part), |anomaly| anomaly.sentence.clone());
    let operations = part.into_iter().map(|one| (one.index, one.operation.clone())).collect();
    Offence { kind: object.kind, key: object.key.clone(), operations, sentence }
}

/// The sentence of a contradiction without a name.
fn unnamed_sentence(part: &[Indexed<'_>]) -> String {
    let list = |is_listed: &dyn Fn(&Indexed<'_>) -> bool| {
        let all: Vec<String> =
            part.iter().filter(|one| is_listed(one)).map(|one| one.index.to_string()).collect();
        let shown = all[..all.len().min(12)].join(", ");
        if all.len() > 12 { format!("{shown} and {} more", all.len() - 12) } else { shown }
    };
    let replies = list(&|one| observe::is_informative(one.operation));
    let updates = list(&|one| !observe::is_informative(one.operation));
    if updates.is_empty() {
        return format!("No order of the operations explains the replies of {replies} together.");
    }
    format!(
        "No order of the operations {updates} and of {replies} that keeps to their times explains the replies of the latter."
    )
}
