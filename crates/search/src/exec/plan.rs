//! A query without a partition: names of terms, ranges, and how they are joined.

use std::collections::HashSet;

use martlet_types::geo::Area;

use crate::index::numbers::Range;
use crate::query::pattern::TermPattern;

/// A query. Fields are numbers in the schema, masks have a bit for each text field.
#[derive(Debug)]
pub enum Plan {
    /// All documents.
    All,
    /// None.
    Nothing,
    /// Documents with a term.
    Term {
        /// The term.
        name: Box<[u8]>,
        /// In which text fields.
        mask: u128,
        /// The factor of its score.
        weight: f64,
    },
    /// Documents with one of several terms.
    Terms {
        /// Which.
        which: Expansion,
        /// In which text fields.
        mask: u128,
        /// The factor of their scores.
        weight: f64,
    },
    /// Documents with a tag.
    Tag {
        /// The field.
        field: usize,
        /// The tag.
        name: Box<[u8]>,
        /// The factor of its score.
        weight: f64,
    },
    /// Documents with one of several tags.
    Tags {
        /// The field.
        field: usize,
        /// Which.
        which: Expansion,
        /// The factor of their scores.
        weight: f64,
    },
    /// Documents with a number in a range.
    Numbers {
        /// The field.
        field: usize,
        /// The range.
        range: Range,
        /// The factor of their scores.
        weight: f64,
    },
    /// Documents with a point in an area.
    Points {
        /// The field.
        field: usize,
        /// The area.
        area: Box<Area>,
        /// The factor of their scores.
        weight: f64,
    },
    /// Documents without a field.
    Missing {
        /// The field.
        field: usize,
    },
    /// Documents whose vectors have been looked for: see [`Prepared`].
    Near {
        /// Their number there.
        number: usize,
    },
    /// Documents whose shapes have been looked for: see [`Prepared`].
    Shapes {
        /// Their number there.
        number: usize,
    },
    /// The documents of these keys.
    Keys(Vec<Box<[u8]>>),
    /// Documents that are not found.
    Not(Box<Plan>),
    /// All documents; those that are found score higher.
    Optional(Box<Plan>),
    /// Documents that all children find.
    And {
        /// The children.
        children: Children,
        /// How near to each other they must find them.
        order: Option<Order>,
        /// The factor of their sum.
        weight: f64,
    },
    /// Documents that at least one child finds.
    Or {
        /// The children.
        children: Children,
        /// The factor of their sum.
        weight: f64,
    },
}

/// The children of a node.
pub type Children = Vec<Plan>;

/// Names that a pattern stands for.
#[derive(Clone, Debug)]
pub struct Expansion {
    /// Its number among those of the plan, from 0 on.
    pub number: usize,
    /// The pattern.
    pub pattern: TermPattern,
    /// How many names are taken at most, in their order.
    pub max: usize,
}

/// How near to each other the terms of an intersection must stand.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// How many other terms may stand between them; none: any number.
    pub slop: Option<u32>,
    /// Whether they must stand in the query's order.
    pub in_order: bool,
}

impl Order {
    /// The words of an exact phrase.
    pub const PHRASE: Order = Order { slop: Some(0), in_order: true };
}

impl Plan {
    /// Adds the expansions of the plan, each with the field of its tags; terms have none.
    pub fn expansions<'p>(&'p self, found: &mut Vec<(Option<usize>, &'p Expansion)>) {
        match self {
            Plan::Terms { which, .. } => found.push((None, which)),
            Plan::Tags { field, which, .. } => found.push((Some(*field), which)),
            Plan::Not(child) | Plan::Optional(child) => child.expansions(found),
            Plan::And { children, .. } | Plan::Or { children, .. } => {
                children.iter().for_each(|child| child.expansions(found));
            }
            _ => {}
        }
    }

    /// Adds the names of the plan: terms, and tags with their fields.
    pub(super) fn names<'p>(&'p self, found: &mut HashSet<(Option<usize>, &'p [u8])>) {
        match self {
            Plan::Term { name, .. } => drop(found.insert((None, name))),
            Plan::Tag { field, name, .. } => drop(found.insert((Some(*field), name))),
            Plan::Not(child) | Plan::Optional(child) => child.names(found),
            Plan::And { children, .. } | Plan::Or { children, .. } => {
                children.iter().for_each(|child| child.names(found));
            }
            _ => {}
        }
    }

    /// Whether the query has terms. Without them scores differ by the documents alone.
    pub fn has_terms(&self) -> bool {
        match self {
            Plan::Term { .. } | Plan::Terms { .. } | Plan::Tag { .. } | Plan::Tags { .. } => true,
            Plan::Optional(child) => child.has_terms(),
            Plan::And { children, .. } | Plan::Or { children, .. } => children.iter().any(Plan::has_terms),
            _ => false,
        }
    }
}
