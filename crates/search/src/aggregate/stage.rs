//! The stages of a pipeline, and what they are built from.

use super::expression::{Program, Slot};
use super::group::Grouper;
use super::sort::Sorter;

/// The fields of an index.
pub trait Schema {
    /// The field of this name.
    fn property(&self, name: &[u8]) -> Option<Property>;
}

/// A field of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The field of a hash or the path of a JSON document.
    pub path: Box<[u8]>,
    /// Whether the index has its value.
    pub is_sortable: bool,
    /// Whether the index has the number that it is in every document.
    pub has_numbers: bool,
}

/// Limits of a pipeline, and the properties that its query adds.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether LOAD * adds each field by its name, as of hashes; of JSON it adds the document.
    pub loads_names: bool,
    /// The properties that the query yields, as the distances of a KNN.
    pub yielded: Vec<Box<[u8]>>,
    /// MAXAGGREGATERESULTS
    pub results_max: u64,
    /// Bytes that the rows, groups and results may take.
    pub memory_max_bytes: usize,
    /// The seed of RANDOM_SAMPLE.
    pub seed: u64,
}

/// Where an input's value comes from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum InputSource {
    /// The index, which keeps it with the document.
    Sorted,
    /// The document.
    Document,
    /// The query: a score or a distance.
    Query,
}

/// A value that a row gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The slot that it goes to.
    pub slot: Slot,
    /// The property's name.
    pub name: Box<[u8]>,
    /// The field of a hash, or the path in a JSON document. `__key` is the document's name.
    pub path: Box<[u8]>,
    /// Where it comes from.
    pub source: InputSource,
}

/// A stage.
#[derive(Debug)]
pub(super) enum Stage {
    Load {
        inputs: Vec<Input>,
        all: bool,
    },
    /// As `Load`, but fields that `all` adds have no slots, until `Place` gives them theirs.
    LoadAside {
        inputs: Vec<Input>,
        all: bool,
    },
    /// Puts the values of slots into others, and fields without slots into those of their names.
    Place {
        moves: Vec<(Slot, Slot)>,
        all: bool,
        /// A slot that has a value keeps it.
        keeps: bool,
    },
    Apply {
        program: Program,
        slot: Slot,
    },
    Filter(Program),
    Group(Box<Grouper>),
    Sort(Box<Sorter>),
    Limit {
        skipped: u64,
        left: u64,
    },
    /// Rows are counted only.
    Count,
}

impl Stage {
    /// Whether it lets rows go only when it has seen all.
    pub(super) fn is_blocking(&self) -> bool {
        matches!(self, Stage::Group(_) | Stage::Sort(_))
    }
}
