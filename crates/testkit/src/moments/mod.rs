//! Histories of requests that change many keys and of replies that report on all of them, and the check that
//! each reply describes one moment.
//!
//! A **history** has writers, which send one request at a time, and reads of any number of clients. A writer
//! owns some keys, so that the states which these went through are known; only when it went from one to the
//! next is not, but it was between request and reply. `check.rs` looks for a moment of each read at which all
//! writers' keys were as the reply says. `run.rs` makes histories on a real server: `writer.rs`
//! has what writers send, `reader.rs` what reads say.
//!
//! Keys are counted by **elements**: names that every request makes or deletes together. A state is a bit for
//! each element and database.

mod check;
mod digest;
mod reader;
mod run;
mod stopwatch;
mod writer;

pub use check::{Violation, check};
pub use digest::Digests;
pub use run::{Plan, run};
pub use writer::Kind;

/// Databases that histories use.
pub const DATABASES: usize = 2;

/// Elements, a bit for each.
pub type Elements = u64;

/// Which elements each database has.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State(pub [Elements; DATABASES]);

impl State {
    /// What either of them has, where two writers own different elements.
    fn with(self, other: State) -> State {
        State(std::array::from_fn(|db| self.0[db] | other.0[db]))
    }
}

/// Names that are made and deleted together.
#[derive(Clone, Debug)]
pub struct Element {
    /// What violations call it.
    pub label: String,
    /// Its names.
    pub names: Vec<String>,
}

impl Element {
    /// A key by itself.
    pub fn single(name: impl Into<String>) -> Element {
        let label: String = name.into();
        Element { names: vec![label.clone()], label }
    }

    /// `count` keys.
    pub fn group(label: impl Into<String>, count: usize) -> Element {
        let label: String = label.into();
        Element { names: (0..count).map(|number| format!("{label}:{number}")).collect(), label }
    }
}

/// The time in which something happened: between a request's sending and its reply, nanoseconds.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Before the request was sent.
    pub began_ns: u64,
    /// After the reply was read.
    pub ended_ns: u64,
}

/// A request that has changed a writer's keys.
#[derive(Clone, Debug)]
pub struct Write {
    /// When.
    pub span: Span,
    /// The request, for people.
    pub request: String,
    /// The state of the writer's elements after it.
    pub after: State,
}

/// A client that changes keys, one request after the other.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    /// Its elements before the first of its requests.
    pub begin: State,
    /// Its requests in order.
    pub writes: Vec<Write>,
}

/// A reply, in terms of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Of those asked for, the database has these and no others (KEYS; SCAN of all in one call).
    Names {
        /// The database.
        db: usize,
        /// Elements that match the pattern.
        asked: Elements,
        /// Elements of which all names were there.
        whole: Elements,
        /// Elements of which at least one was.
        some: Elements,
    },
    /// The database has these (a call of SCAN).
    Among(usize, Elements),
    /// An iteration of SCAN from its begin to its end.
    Iteration {
        /// The database.
        db: usize,
        /// Elements of which all names were returned.
        whole: Elements,
        /// Elements of which at least one was.
        some: Elements,
    },
    /// Number of keys of a database (DBSIZE).
    Count(usize, usize),
    /// Number of keys of all databases together (MEMORY STATS).
    Total(usize),
    /// Number of keys of each database (INFO).
    Counts([usize; DATABASES]),
    /// A key of this database, or none (RANDOMKEY).
    Random(usize, Option<Elements>),
    /// DEBUG DIGEST.
    Digest(String),
    /// Something that no state can be the reason of, as the text says.
    Impossible(String),
}

/// A reply about the whole keyspace.
#[derive(Clone, Debug)]
pub struct Read {
    /// When.
    pub span: Span,
    /// The request, for people.
    pub request: String,
    /// The reply.
    pub seen: Seen,
}

/// See the [module docs](self).
#[derive(Clone, Debug, Default)]
pub struct History {
    /// By their bits.
    pub elements: Vec<Element>,
    /// Clients that change keys, of which no two own the same element.
    pub writers: Vec<Writer>,
    /// Replies, in any order.
    pub reads: Vec<Read>,
    /// What DEBUG DIGEST answers for each state.
    pub digests: Option<Digests>,
}
