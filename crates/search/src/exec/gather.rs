//! The entries of a query's terms in the documents of a window; those of one document as a tree.

use super::node::{Kind, Node, layout_of, names_of};
use super::score::Found;
use crate::index::DocId;
use crate::index::bits::Bits;
use crate::index::partition::Partition;
use crate::index::postings::positions;

/// A name of a leaf in a document.
#[derive(Copy, Clone, Debug)]
struct Match<'p> {
    doc: DocId,
    name: &'p [u8],
    documents: u64,
    frequency: u32,
    places: &'p [u8],
}

/// The names of each leaf in the documents of a window, ascending. Documents must be asked for in ascending
/// order.
#[derive(Debug)]
pub(super) struct Gathered<'p> {
    leaves: Vec<Leaf<'p>>,
    positions: bool,
}

#[derive(Clone, Debug, Default)]
struct Leaf<'p> {
    matches: Vec<Match<'p>>,
    at: usize,
    has_places: bool,
}

impl<'p> Gathered<'p> {
    /// Nothing of `leaves` leaves. `positions` says whether positions will be asked for.
    pub(super) fn new(leaves: usize, positions: bool) -> Gathered<'p> {
        Gathered { leaves: vec![Leaf::default(); leaves], positions }
    }

    /// Takes the entries that the leaves below `node` have of the documents in `wanted`.
    pub(super) fn gather(&mut self, node: &Node, partition: &'p Partition, wanted: &Bits) {
        match &node.kind {
            Kind::Lists { field, lists, mask, leaf, .. } => {
                let Some(names) = names_of(partition, *field) else { return };
                let layout = layout_of(partition, *field);
                let leaf = &mut self.leaves[*leaf];
                leaf.has_places = field.is_none();
                for list in lists {
                    let Some((name, postings)) = names.at(list.number) else { continue };
                    postings.entries(layout, wanted, |entry| {
                        if entry.mask & mask != 0 {
                            leaf.matches.push(Match {
                                doc: entry.doc,
                                name,
                                documents: list.documents,
                                frequency: entry.frequency,
                                places: entry.positions,
                            });
                        }
                    });
                }
                if lists.len() > 1 {
                    leaf.matches.sort_by_key(|one| one.doc);
                }
            }
            Kind::Optional(child) => self.gather(child, partition, wanted),
            Kind::And { children, .. } | Kind::Or { children, .. } => {
                children.iter().for_each(|child| self.gather(child, partition, wanted));
            }
            _ => {}
        }
    }

    /// The part of the query below `node` that the document satisfies. The node has found the document.
    pub(super) fn found(&mut self, node: &Node, id: DocId, wants_terms: bool) -> Found<'p> {
        if !wants_terms {
            return Found::Other { weight: 1.0, frequency: 1 };
        }
        match &node.kind {
            Kind::All | Kind::Nothing | Kind::Missing { .. } | Kind::Ids(_) => {
                Found::Other { weight: 1.0, frequency: 1 }
            }
            Kind::Column { weight, .. } => Found::Other { weight: *weight, frequency: 1 },
            Kind::Not(_) => Found::Other { weight: 1.0, frequency: 0 },
            Kind::Optional(child) => {
                if child.bits.as_ref().is_some_and(|bits| bits.contains(id)) {
                    self.found(child, id, wants_terms)
                } else {
                    Found::Other { weight: 0.0, frequency: 1 }
                }
            }
            Kind::Lists { leaf, weight, is_single, .. } => self.of_leaf(*leaf, id, *weight, *is_single),
            Kind::And { children, weight, .. } => {
                let parts = children.iter().map(|child| self.found(child, id, wants_terms)).collect();
                Found::Many { weight: *weight, parts, is_union: false }
            }
            Kind::Or { children, weight } => {
                let finds = |child: &&Node| child.bits.as_ref().is_some_and(|bits| bits.contains(id));
                let parts =
                    children.iter().filter(finds).map(|child| self.found(child, id, wants_terms)).collect();
                Found::Many { weight: *weight, parts, is_union: true }
            }
        }
    }

    fn of_leaf(&mut self, leaf: usize, id: DocId, weight: f64, is_single: bool) -> Found<'p> {
        let positions_wanted = self.positions;
        let leaf = &mut self.leaves[leaf];
        while leaf.matches.get(leaf.at).is_some_and(|one| one.doc < id) {
            leaf.at += 1;
        }
        let has_places = leaf.has_places && positions_wanted;
        let of = |one: &Match<'p>, weight| Found::Term {
            name: one.name,
            weight,
            frequency: one.frequency,
            documents: one.documents,
            places: has_places.then(|| positions(one.places).collect()),
        };
        let here = leaf.matches[leaf.at..].iter().take_while(|one| one.doc == id);
        if is_single {
            let first = here.map(|one| of(one, weight)).next();
            return first.unwrap_or(Found::Other { weight, frequency: 0 });
        }
        // As in RediSearch, the first name alone counts.
        Found::Many { weight, parts: here.take(1).map(|one| of(one, 1.0)).collect(), is_union: true }
    }
}
