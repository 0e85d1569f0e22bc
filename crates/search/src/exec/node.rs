//! A plan's nodes, bound to a partition: names have become numbers of lists.

use martlet_types::geo::Area;

use super::plan::Order;
use crate::index::DocId;
use crate::index::bits::Bits;
use crate::index::dictionary::Dictionary;
use crate::index::numbers::Range;
use crate::index::partition::Partition;
use crate::index::postings::{Layout, Postings};

/// A node with its documents of the current window.
#[derive(Debug)]
pub(super) struct Node {
    pub kind: Kind,
    pub bits: Option<Bits>,
}

#[derive(Debug)]
pub(super) enum Kind {
    All,
    Nothing,
    /// Terms (without a field) or tags.
    Lists {
        field: Option<usize>,
        lists: Vec<List>,
        mask: u128,
        weight: f64,
        /// Whether it is one name and not one of several.
        is_single: bool,
        /// Its place among the leaves.
        leaf: usize,
    },
    /// Numbers or points; the ids, if they are few.
    Column {
        field: usize,
        what: Where,
        few: Option<Vec<DocId>>,
        weight: f64,
    },
    Missing {
        field: usize,
    },
    Ids(Vec<DocId>),
    /// The same of shapes and of vectors, which count for no score.
    Unscored(Vec<DocId>),
    Not(Box<Node>),
    Optional(Box<Node>),
    And {
        children: Vec<Node>,
        order: Option<Order>,
        weight: f64,
    },
    Or {
        children: Vec<Node>,
        weight: f64,
    },
}

/// The documents of one name.
#[derive(Copy, Clone, Debug)]
pub(super) struct List {
    pub number: u32,
    /// In how many documents of the index the name stands.
    pub documents: u64,
}

#[derive(Debug)]
pub(super) enum Where {
    Range(Range),
    Area(Box<Area>),
}

/// The dictionary of terms, or of a field's tags.
pub(super) fn names_of(partition: &Partition, field: Option<usize>) -> Option<&Dictionary<Postings>> {
    match field {
        None => Some(partition.terms()),
        Some(field) => partition.tags(field),
    }
}

/// What lists of terms, or of tags, keep.
pub(super) fn layout_of(partition: &Partition, field: Option<usize>) -> Layout {
    if field.is_none() { partition.layout() } else { Layout::IDS }
}
