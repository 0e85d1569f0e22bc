//! Anomalies that have a name: lost writes, stale reads, phantom reads, unbalanced reads. Each is a
//! contradiction of a few operations, found without a search; an object without one may still not be
//! linearizable.

mod element;
mod number;
mod register;

use crate::record::{ObjectKind, Operation};

/// The name of an anomaly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AnomalyKind {
    /// The effect of an acknowledged operation is missing in a read that began later, and no read that
    /// completed after this one began shows it.
    LostWrite,
    /// A read misses an effect that preceded it, which a read that completed later shows.
    StaleRead,
    /// A read shows an effect that no operation had: never written, written by an operation that failed,
    /// not yet written, or of unknown outcome and gone in a later read.
    PhantomRead,
    /// The balances of a read have another sum than the accounts were opened with.
    UnbalancedRead,
}

impl AnomalyKind {
    /// All kinds.
    pub const ALL: [AnomalyKind; 4] = [
        AnomalyKind::LostWrite,
        AnomalyKind::StaleRead,
        AnomalyKind::PhantomRead,
        AnomalyKind::UnbalancedRead,
    ];

    /// The name for people, in the plural.
    pub fn plural(self) -> &'static str {
        match self {
            AnomalyKind::LostWrite => "lost writes",
            AnomalyKind::StaleRead => "stale reads",
            AnomalyKind::PhantomRead => "phantom reads",
            AnomalyKind::UnbalancedRead => "unbalanced reads",
        }
    }
}

/// One anomaly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Its name.
    pub kind: AnomalyKind,
    /// The operations that contradict each other, as indices of the history; the first is the one that is
    /// lost, stale, a phantom or unbalanced.
    pub operations: Vec<usize>,
    /// The contradiction in a sentence, which names operations by their indices.
    pub sentence: String,
}

/// An operation and its index in the history.
#[derive(Clone, Copy)]
pub(crate) struct Indexed<'a> {
    pub(crate) index: usize,
    pub(crate) operation: &'a Operation,
}

/// The anomalies of one object's operations.
pub(crate) fn anomalies(operations: &[Indexed<'_>]) -> Vec<Anomaly> {
    match operations.first().map(|one| one.operation.kind) {
        Some(ObjectKind::Register) => register::anomalies(operations),
        Some(ObjectKind::Set | ObjectKind::List) => element::anomalies(operations),
        Some(ObjectKind::Counter) => number::counter_anomalies(operations),
        Some(ObjectKind::Transfer) => number::transfer_anomalies(operations),
        None => Vec::new(),
    }
}

/// A fact (a value, a member, an item) with the operations that are evidence of it.
struct Fact<'a> {
    /// The operation that made it.
    writer: Indexed<'a>,
    /// The operations that show it.
    shown_by: Vec<Indexed<'a>>,
}

impl<'a> Fact<'a> {
    fn new(writer: Indexed<'a>) -> Fact<'a> {
        Fact { writer, shown_by: Vec::new() }
    }

    /// The operation after whose completion the fact is certain, if there is one.
    fn witness(&self) -> Option<Indexed<'a>> {
        let all = self.shown_by.iter().chain([&self.writer]);
        all.filter(|one| one.operation.is_acknowledged())
            .min_by_key(|one| one.operation.completed_ns())
            .copied()
    }

    /// Adds the anomaly of `read`, which misses the fact though it began after the fact was certain.
    fn report_missing(&self, name: &str, read: Indexed<'_>, found: &mut Vec<Anomaly>) {
        let (writer, reader) = (self.writer, read.operation);
        let later = self.shown_by.iter().find(|one| one.operation.completed_ns() > reader.invoked_ns);
        let Some(witness) = self.witness() else { return };
        let sentence = if let Some(later) = later {
            format!(
                "Operation {} misses {name}, which operation {} shows before it began, and operation {} after that.",
                read.index, witness.index, later.index
            )
        } else if writer.operation.precedes(reader) {
            format!(
                "Operation {} wrote {name} and was acknowledged before operation {} began, which misses it; no later \
                 read shows it.",
                writer.index, read.index
            )
        } else {
            let outcome = if writer.operation.is_acknowledged() { "not yet" } else { "never" };
            format!(
                "Operation {} shows {name}, which operation {} wrote and which was {outcome} acknowledged; operation \
                 {} began later and misses it.",
                witness.index, writer.index, read.index
            )
        };
        let (kind, first) = match later {
            Some(_) => (AnomalyKind::StaleRead, read.index),
            None if writer.operation.is_acknowledged() => (AnomalyKind::LostWrite, writer.index),
            None => (AnomalyKind::PhantomRead, witness.index),
        };
        let mut operations = vec![first, read.index, writer.index, witness.index];
        operations.extend(later.map(|later| later.index));
        push(found, Anomaly { kind, operations: distinct(&operations), sentence });
    }
}

/// Adds the anomaly of `read`, which shows `name` for no reason or one that is too late.
fn report_phantom(name: &str, read: Indexed<'_>, writer: Option<Indexed<'_>>, found: &mut Vec<Anomaly>) {
    let index = read.index;
    let sentence = match writer {
        None => format!("Operation {index} shows {name}, which no operation wrote."),
        Some(writer) if writer.operation.is_failed() => {
            format!(
                "Operation {index} shows {name}, which only operation {} wrote, and it failed.",
                writer.index
            )
        }
        Some(writer) => {
            format!(
                "Operation {index} shows {name} and completed before operation {} wrote it.",
                writer.index
            )
        }
    };
    let operations = [index].into_iter().chain(writer.map(|writer| writer.index)).collect();
    push(found, Anomaly { kind: AnomalyKind::PhantomRead, operations, sentence });
}

/// Adds an anomaly unless the same operation has one of the same kind.
fn push(found: &mut Vec<Anomaly>, anomaly: Anomaly) {
    let is_same =
        |other: &Anomaly| other.kind == anomaly.kind && other.operations[0] == anomaly.operations[0];
    if !found.iter().any(is_same) {
        found.push(anomaly);
    }
}

fn distinct(operations: &[usize]) -> Vec<usize> {
    let mut kept = Vec::new();
    operations.iter().for_each(|index| {
        if !kept.contains(index) {
            kept.push(*index);
        }
    });
    kept
}
