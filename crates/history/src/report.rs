//! The report on a history, for programs and, by `Display`, for people.

use crate::anomaly::{Anomaly, AnomalyKind};
use crate::record::{Call, Ending, ObjectKind, Operation, Reply};
use crate::search::{LimitReached, Verdict};
use crate::text::{call_name, kind_name};
use std::fmt::{self, Display, Formatter};

/// The report on one object.
#[derive(Clone, Debug)]
pub struct ObjectReport {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its key.
    pub key: String,
    /// Whether its operations are linearizable.
    pub verdict: Verdict,
    /// Its anomalies that have a name.
    pub anomalies: Vec<Anomaly>,
    /// Calls that the search tried.
    pub steps: u64,
}

/// A small part of a history that is not linearizable.
#[derive(Clone, Debug)]
pub struct Offence {
    /// The object's kind.
    pub kind: ObjectKind,
    /// The object's key.
    pub key: String,
    /// The operations with their indices in the history, by invocation.
    pub operations: Vec<(usize, Operation)>,
    /// The contradiction, in a sentence.
    pub sentence: String,
}

/// The report on a history.
#[derive(Clone, Debug)]
pub struct Report {
    /// All objects, by kind and key.
    pub objects: Vec<ObjectReport>,
    /// Operations that were acknowledged.
    pub acknowledged: usize,
    /// Operations that failed.
    pub failed: usize,
    /// Operations of unknown outcome.
    pub unknown: usize,
    /// The earliest object that is not linearizable, by the time at which its contradiction was complete.
    pub offence: Option<Offence>,
}

impl Report {
    /// How many anomalies of a kind were found.
    pub fn count(&self, kind: AnomalyKind) -> usize {
        self.objects
            .iter()
            .flat_map(|object| &object.anomalies)
            .filter(|anomaly| anomaly.kind == kind)
            .count()
    }

    /// How many objects have a verdict that `is_counted` holds for.
    pub fn count_objects(&self, is_counted: impl Fn(Verdict) -> bool) -> usize {
        self.objects.iter().filter(|object| is_counted(object.verdict)).count()
    }

    /// Whether every object is linearizable; an undecided one is not taken for that.
    pub fn is_linearizable(&self) -> bool {
        self.objects.iter().all(|object| object.verdict == Verdict::Linearizable)
    }
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Report { acknowledged, failed, unknown, .. } = self;
        writeln!(
            out,
            "operations: {acknowledged} acknowledged, {failed} failed, {unknown} of unknown outcome"
        )?;
        let bad = self.count_objects(|verdict| verdict == Verdict::NotLinearizable);
        writeln!(out, "objects: {}, not linearizable: {bad}", self.objects.len())?;
        let counts = AnomalyKind::ALL.map(|kind| format!("{}: {}", kind.plural(), self.count(kind)));
        writeln!(out, "{}", counts.join(", "))?;
        for object in &self.objects {
            if let Verdict::Undecided(limit) = object.verdict {
                let limit = match limit {
                    LimitReached::Steps => "calls tried",
                    LimitReached::Configurations => "configurations remembered",
                    LimitReached::Time => "time",
                };
                writeln!(
                    out,
                    "undecided: {} {:?}, by the limit of {limit}",
                    kind_name(object.kind),
                    object.key
                )?;
            }
        }
        self.offence.as_ref().map_or(Ok(()), |offence| write!(out, "\n{offence}"))
    }
}

/// Lines of operations at the beginning and at the end of a long part.
const SHOWN_EDGE_LINES: usize = 20;

impl Display for Offence {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "{} {:?} is not linearizable:", kind_name(self.kind), self.key)?;
        let count = self.operations.len();
        for (position, (index, operation)) in self.operations.iter().enumerate() {
            if position < SHOWN_EDGE_LINES || position + SHOWN_EDGE_LINES >= count {
                writeln!(out, "  [{index}] {}", Line(operation))?;
            } else if position == SHOWN_EDGE_LINES {
                writeln!(out, "  … {} more …", count - 2 * SHOWN_EDGE_LINES)?;
            }
        }
        writeln!(out, "{}", self.sentence)
    }
}

/// An operation in a line: times in milliseconds, client, node, call, reply.
struct Line<'a>(&'a Operation);

impl Display for Line<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Line(operation) = self;
        write!(out, "{} to ", Milliseconds(operation.invoked_ns))?;
        match operation.ending {
            Ending::Replied { at_ns, .. } => write!(out, "{} ms", Milliseconds(at_ns))?,
            Ending::Failed | Ending::Unknown => write!(out, "?")?,
        }
        write!(out, "  client {}", operation.client)?;
        if !operation.node.is_empty() {
            write!(out, " at {}", operation.node)?;
        }
        write!(out, ": {}", call_name(&operation.call))?;
        match &operation.call {
            Call::Write(text) | Call::Add(text) | Call::Remove(text) | Call::Push(text) => {
                write!(out, " {text:?}")?
            }
            Call::CompareAndSet { expected: Some(expected), new } => {
                write!(out, " from {expected:?} to {new:?}")?
            }
            Call::CompareAndSet { expected: None, new } => write!(out, " from nothing to {new:?}")?,
            Call::Increment(by) => write!(out, " by {by}")?,
            Call::Open(balances) => write!(out, " {balances:?}")?,
            Call::Move { from, to, amount } => write!(out, " {amount} from {from:?} to {to:?}")?,
            Call::Read | Call::Pop => {}
        }
        match &operation.ending {
            Ending::Failed => write!(out, " → failed"),
            Ending::Unknown => write!(out, " → outcome unknown"),
            Ending::Replied { reply, .. } => match reply {
                Reply::Done => write!(out, " → done"),
                Reply::Value(None) => write!(out, " → nothing"),
                Reply::Value(Some(value)) => write!(out, " → {value:?}"),
                Reply::Changed(true) => write!(out, " → changed"),
                Reply::Changed(false) => write!(out, " → not changed"),
                Reply::Number(number) => write!(out, " → {number}"),
                Reply::Members(members) => write!(out, " → {members:?}"),
                Reply::Items(items) => write!(out, " → {items:?}"),
                Reply::Balances(balances) => write!(out, " → {balances:?}"),
            },
        }
    }
}

/// Nanoseconds, shown in milliseconds without loss.
struct Milliseconds(u64);

impl Display for Milliseconds {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let text = format!("{whole}.{rest:06}");
        write!(out, "{}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}
