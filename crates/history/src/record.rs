//! The record of a history: each operation's client, node, times, call and outcome. All times are
//! nanoseconds of one clock.

use std::collections::{BTreeMap, BTreeSet};

/// The kind of an object; it decides which calls exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// One value, absent at first.
    Register,
    /// A number, 0 at first.
    Counter,
    /// Members without order, empty at first.
    Set,
    /// A queue: pushes at the tail, pops at the head.
    List,
    /// Balances of several accounts, 0 at first, which moves leave equal in sum.
    Transfer,
}

/// A client's call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Sets a register.
    Write(String),
    /// Reads a whole object of any kind.
    Read,
    /// Sets a register if it has the expected value (`None`: if it is absent).
    CompareAndSet {
        /// The value that the register must have.
        expected: Option<String>,
        /// The value it then gets.
        new: String,
    },
    /// Adds to a counter.
    Increment(i64),
    /// Adds a member to a set.
    Add(String),
    /// Removes a member from a set.
    Remove(String),
    /// Appends an item to a list.
    Push(String),
    /// Takes the first item of a list.
    Pop,
    /// Sets all balances of a group of accounts.
    Open(BTreeMap<String, i64>),
    /// Moves an amount between two accounts.
    Move {
        /// The account that loses the amount.
        from: String,
        /// The account that gains it.
        to: String,
        /// The amount.
        amount: i64,
    },
}

/// The reply of a completed operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// Success without further information.
    Done,
    /// A register's value or a popped item; `None` if there was none.
    Value(Option<String>),
    /// Whether the call changed the object (compare-and-set, add, remove).
    Changed(bool),
    /// A counter's value (after the call), or a list's length after a push.
    Number(i64),
    /// A set's members.
    Members(BTreeSet<String>),
    /// A list's items, head first.
    Items(Vec<String>),
    /// The balances; an account that is missing has 0.
    Balances(BTreeMap<String, i64>),
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// It completed with a reply.
    Replied {
        /// When the reply arrived.
        at_ns: u64,
        /// The reply.
        reply: Reply,
    },
    /// It certainly has no effect.
    Failed,
    /// No completion arrived: it may take effect at any later time, or never.
    Unknown,
}

/// One operation of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// The object's key (the name of the group, for transfers).
    pub key: String,
    /// The client's number.
    pub client: u64,
    /// The node that the client asked; empty if it is not known.
    pub node: String,
    /// The call.
    pub call: Call,
    /// When the client sent the call.
    pub invoked_ns: u64,
    /// How it ended.
    pub ending: Ending,
}

impl Operation {
    /// The reply, if one arrived.
    pub fn reply(&self) -> Option<&Reply> {
        match &self.ending {
            Ending::Replied { reply, .. } => Some(reply),
            Ending::Failed | Ending::Unknown => None,
        }
    }

    /// When the reply arrived; `u64::MAX` if none did.
    pub fn completed_ns(&self) -> u64 {
        match self.ending {
            Ending::Replied { at_ns, .. } => at_ns,
            Ending::Failed | Ending::Unknown => u64::MAX,
        }
    }

    /// Whether this operation completed before `other` was invoked.
    pub fn precedes(&self, other: &Operation) -> bool {
        self.completed_ns() < other.invoked_ns
    }

    /// Whether the reply arrived (and was no failure).
    pub fn is_acknowledged(&self) -> bool {
        self.reply().is_some()
    }

    /// Whether the operation certainly has no effect.
    pub fn is_failed(&self) -> bool {
        self.ending == Ending::Failed
    }

    /// The value that a register has after the call, if the call wrote one or may have.
    pub fn written(&self) -> Option<&str> {
        match &self.call {
            Call::Write(value) => Some(value),
            Call::CompareAndSet { new, .. } if self.reply() != Some(&Reply::Changed(false)) => Some(new),
            _ => None,
        }
    }

    /// The value of a register that the reply is evidence of: a read's, or that a compare-and-set found.
    pub fn seen(&self) -> Option<Option<&str>> {
        match (&self.call, self.reply()) {
            (Call::Read, Some(Reply::Value(value))) => Some(value.as_deref()),
            (Call::CompareAndSet { expected, .. }, Some(Reply::Changed(true))) => Some(expected.as_deref()),
            _ => None,
        }
    }

    /// Whether the call and the reply belong to the kind of the object.
    pub fn is_well_formed(&self) -> bool {
        let call = matches!(
            (self.kind, &self.call),
            (_, Call::Read)
                | (ObjectKind::Register, Call::Write(_) | Call::CompareAndSet { .. })
                | (ObjectKind::Counter, Call::Increment(_))
                | (ObjectKind::Set, Call::Add(_) | Call::Remove(_))
                | (ObjectKind::List, Call::Push(_) | Call::Pop)
                | (ObjectKind::Transfer, Call::Open(_) | Call::Move { .. })
        );
        let Some(reply) = self.reply() else { return call };
        let reply = matches!(
            (self.kind, &self.call, reply),
            (ObjectKind::Register, Call::Read, Reply::Value(_))
                | (ObjectKind::Counter, Call::Read, Reply::Number(_))
                | (ObjectKind::Set, Call::Read, Reply::Members(_))
                | (ObjectKind::List, Call::Read, Reply::Items(_))
                | (ObjectKind::Transfer, Call::Read, Reply::Balances(_))
                | (_, Call::Write(_) | Call::Open(_) | Call::Move { .. }, Reply::Done)
                | (_, Call::CompareAndSet { .. }, Reply::Changed(_))
                | (_, Call::Increment(_) | Call::Push(_), Reply::Done | Reply::Number(_))
                | (_, Call::Add(_) | Call::Remove(_), Reply::Done | Reply::Changed(_))
                | (_, Call::Pop, Reply::Value(_))
        );
        call && reply && self.invoked_ns <= self.completed_ns()
    }
}
