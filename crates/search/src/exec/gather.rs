//! The entries of a query's terms in the documents of a window; those of one document as a tree.

use super::node::{Kind, List, Node, layout_of, names_of};
use super::score::{Found, Scoring, Term};
use crate::index::DocId;
use crate::index::bits::{Bits, WINDOW};
use crate::index::partition::Partition;
use crate::index::postings::positions;

/// A name of a leaf in a document.
#[derive(Copy, Clone, Debug)]
struct Match<'p> {
    doc: DocId,
    /// Which of the leaf's names.
    name: u32,
    frequency: u32,
    places: &'p [u8],
}

/// The names of each leaf in the documents of a window. Documents must be asked for in ascending order.
#[derive(Debug)]
pub(super) struct Gathered<'p> {
    leaves: Vec<Leaf<'p>>,
    positions: bool,
}

#[derive(Clone, Debug, Default)]
struct Leaf<'p> {
    /// Names with their inverse document frequencies.
    names: Vec<(&'p [u8], f64)>,
    /// One for each document: of the first of its names.
    matches: Vec<Match<'p>>,
    /// Of a leaf with one name: the next match to be asked for.
    at: usize,
    /// Of a leaf with several: one more than the place among the matches, by document; else empty.
    places: Vec<u32>,
    has_positions: bool,
}

impl<'p> Leaf<'p> {
    /// Takes the entries of `lists` in the documents of `wanted`.
    fn gather(
        &mut self,
        (field, lists, mask): (Option<usize>, &[List], u128),
        partition: &'p Partition,
        wanted: &Bits,
        idf: impl Fn(u64) -> f64,
    ) {
        let Some(names) = names_of(partition, field) else { return };
        let layout = layout_of(partition, field);
        self.has_positions = field.is_none();
        if lists.len() > 1 {
            self.places = vec![0; WINDOW];
        }
        for list in lists {
            let Some((name, postings)) = names.at(list.number) else { continue };
            let number = self.names.len() as u32;
            self.names.push((name, idf(list.documents)));
            let (matches, places) = (&mut self.matches, &mut self.places);
            postings.entries(layout, wanted, |entry| {
                if entry.mask & mask == 0 {
                    return;
                }
                if let Some(place) = places.get_mut(entry.doc as usize % WINDOW) {
                    // As in RediSearch, the first name alone counts.
                    if *place > 0 {
                        return;
                    }
                    *place = matches.len() as u32 + 1;
                }
                let (doc, frequency, places) = (entry.doc, entry.frequency, entry.positions);
                matches.push(Match { doc, name: number, frequency, places });
            });
        }
    }

    fn get(&mut self, id: DocId) -> Option<Match<'p>> {
        if let Some(&place) = self.places.get(id as usize % WINDOW) {
            return self.matches.get((place as usize).checked_sub(1)?).copied();
        }
        while self.matches.get(self.at).is_some_and(|one| one.doc < id) {
            self.at += 1;
        }
        self.matches.get(self.at).filter(|one| one.doc == id).copied()
    }
}

/// Whether a node's documents are those of its lists alone.
fn is_of_lists(node: &Node) -> bool {
    match &node.kind {
        Kind::Lists { .. } => true,
        Kind::Or { children, .. } => children.iter().all(is_of_lists),
        _ => false,
    }
}

impl<'p> Gathered<'p> {
    /// Nothing of `leaves` leaves. `positions` says whether positions will be asked for.
    pub(super) fn new(leaves: usize, positions: bool) -> Gathered<'p> {
        Gathered { leaves: vec![Leaf::default(); leaves], positions }
    }

    /// Takes the entries that the leaves below `node` have of the documents in `wanted`.
    pub(super) fn gather(
        &mut self,
        node: &Node,
        partition: &'p Partition,
        wanted: &Bits,
        scoring: &Scoring<'_>,
    ) {
        match &node.kind {
            Kind::Lists { field, lists, mask, leaf, .. } => {
                let idf = |documents| scoring.idf(documents);
                self.leaves[*leaf].gather((*field, lists, *mask), partition, wanted, idf);
            }
            Kind::Optional(child) => self.gather(child, partition, wanted, scoring),
            Kind::And { children, .. } | Kind::Or { children, .. } => {
                children.iter().for_each(|child| self.gather(child, partition, wanted, scoring));
            }
            _ => {}
        }
    }

    /// As filling the window and gathering after it, at once, if the node is of lists alone; else `None`.
    pub(super) fn fill(
        &mut self,
        node: &mut Node,
        partition: &'p Partition,
        wanted: &Bits,
        scoring: &Scoring<'_>,
    ) -> Option<Bits> {
        if !is_of_lists(node) {
            return None;
        }
        self.gather(node, partition, wanted, scoring);
        Some(self.bits(node, wanted.base()))
    }

    /// The documents of a node of lists alone; those of its parts are kept for [`Gathered::found`].
    fn bits(&self, node: &mut Node, base: DocId) -> Bits {
        let mut bits = Bits::empty(base);
        match &mut node.kind {
            Kind::Lists { leaf, .. } => {
                self.leaves[*leaf].matches.iter().for_each(|one| bits.insert(one.doc));
            }
            Kind::Or { children, .. } => {
                for child in children {
                    let own = self.bits(child, base);
                    bits.or(&own);
                    child.bits = Some(own);
                }
            }
            _ => {}
        }
        bits
    }

    /// The part of the query below `node` that the document satisfies. The node has found the document.
    pub(super) fn found(&mut self, node: &Node, id: DocId, wants_terms: bool) -> Found<'p> {
        if !wants_terms {
            return Found::Other { weight: 1.0, frequency: 1 };
        }
        match &node.kind {
            Kind::All => Found::Every,
            Kind::Nothing | Kind::Missing { .. } | Kind::Ids(_) => Found::Other { weight: 1.0, frequency: 1 },
            Kind::Unscored(_) => Found::Other { weight: 0.0, frequency: 0 },
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
        let own = if is_single { weight } else { 1.0 };
        let term = leaf.get(id).map(|one| {
            let (name, idf) = leaf.names.get(one.name as usize).copied().unwrap_or_default();
            let places = (leaf.has_positions && positions_wanted).then_some(one.places);
            Term { name, weight: own, frequency: one.frequency, idf, places }
        });
        match term {
            term if !is_single => Found::First { weight, term },
            Some(term) => Found::Term(term),
            None => Found::Other { weight, frequency: 0 },
        }
    }

    /// The positions of what a node finds in a document, into `places`; whether it is of a kind that has any.
    pub(super) fn places(&mut self, node: &Node, id: DocId, places: &mut Vec<u32>) -> bool {
        places.clear();
        if let Kind::Lists { leaf, is_single: true, .. } = &node.kind {
            let leaf = &mut self.leaves[*leaf];
            let own = leaf.get(id).filter(|one| leaf.has_positions && !one.places.is_empty());
            places.extend(own.into_iter().flat_map(|one| positions(one.places)));
            return own.is_some();
        }
        let found = self.found(node, id, true).places();
        let has_some = found.is_some();
        places.extend(found.into_iter().flatten());
        has_some
    }
}
