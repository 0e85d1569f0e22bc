//! What the replies about one object are evidence of. An update that left no evidence may be taken out of a
//! history: if there was an order of its operations, there still is.

use crate::record::{Call, ObjectKind, Operation, Reply};
use std::collections::HashSet;

/// The evidence in the replies of one object's operations.
pub(crate) struct Evidence<'a> {
    /// Values, members and items that a reply shows.
    shown: HashSet<&'a str>,
    /// Members that an operation adds.
    added: HashSet<&'a str>,
    /// A compare-and-set found another value than it expected.
    has_mismatch: bool,
    /// A push reported the list's length.
    has_length: bool,
    /// When the last reply that says more than success arrived.
    last_ns: u64,
}

/// Whether the reply says more than success.
pub(crate) fn is_informative(operation: &Operation) -> bool {
    !matches!(operation.reply(), None | Some(Reply::Done))
}

impl<'a> Evidence<'a> {
    /// The evidence in the replies of `operations`, which are of one object.
    pub(crate) fn of(operations: &[&'a Operation]) -> Evidence<'a> {
        let mut evidence = Evidence {
            shown: HashSet::new(),
            added: HashSet::new(),
            has_mismatch: false,
            has_length: false,
            last_ns: 0,
        };
        for operation in operations {
            evidence.include(operation);
        }
        evidence
    }

    fn include(&mut self, operation: &'a Operation) {
        if let Call::Add(member) = &operation.call {
            self.added.insert(member);
        }
        if is_informative(operation) {
            self.last_ns = self.last_ns.max(operation.completed_ns());
        }
        if let Some(Some(seen)) = operation.seen() {
            self.shown.insert(seen);
        }
        match (&operation.call, operation.reply()) {
            (Call::CompareAndSet { .. }, Some(Reply::Changed(false))) => self.has_mismatch = true,
            // One of unknown outcome may have found the value, and what it wrote may be shown.
            (Call::CompareAndSet { expected: Some(expected), .. }, None) => _ = self.shown.insert(expected),
            (Call::Push(_), Some(Reply::Number(_))) => self.has_length = true,
            (Call::Add(member), Some(Reply::Changed(false)))
            | (Call::Remove(member), Some(Reply::Changed(true))) => {
                self.shown.insert(member);
            }
            (_, Some(Reply::Members(members))) => self.shown.extend(members.iter().map(String::as_str)),
            (_, Some(Reply::Items(items))) => self.shown.extend(items.iter().map(String::as_str)),
            (Call::Pop, Some(Reply::Value(Some(item)))) => _ = self.shown.insert(item),
            _ => {}
        }
    }

    /// Whether the operation may change the object, and no reply depends on whether it did.
    pub(crate) fn lacks(&self, operation: &Operation) -> bool {
        if operation.invoked_ns > self.last_ns {
            return true;
        }
        match (operation.kind, &operation.call) {
            (ObjectKind::Register, _) => {
                !self.has_mismatch && operation.written().is_some_and(|value| !self.shown.contains(value))
            }
            (_, Call::Add(member)) => !self.shown.contains(member.as_str()),
            (_, Call::Remove(member)) => !self.added.contains(member.as_str()),
            (_, Call::Push(item)) => !self.has_length && !self.shown.contains(item.as_str()),
            _ => false,
        }
    }
}
