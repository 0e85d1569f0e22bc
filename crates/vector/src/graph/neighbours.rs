//! The neighbours among which a new node chooses its links; they may be found before it is inserted, while
//! the graph changes.
//!
//! Invariant: neighbours that were found before are used only where they still are: their slots have the
//! nodes of then.

use super::queue::Candidate;
use super::repair::EntryPoint;
use super::search::{Scratch, with_scratch};
use super::shape::{Operand, StoredVector};
use super::store::View;
use super::{Graph, Payload};
use std::sync::atomic::Ordering;

/// A layer's candidates, the nearest first, and their nodes' ids.
type Layer = Vec<(Candidate, u64)>;

/// The neighbours of a vector that is to be inserted; see [`Graph::neighbours`].
#[derive(Debug)]
pub struct Neighbours {
    /// The level of the node to be.
    level: u32,
    /// The level of the entry point.
    entry_level: u32,
    /// From layer 0 upwards.
    layers: Vec<Layer>,
}

impl Neighbours {
    /// The node's level and the neighbours that are still there; `None` if these are less than three quarters
    /// on layer 0, or the graph has got another level.
    pub(super) fn present<T>(
        &self,
        view: View<'_, T>,
        entry: Option<EntryPoint>,
    ) -> Option<(u32, Vec<Vec<Candidate>>)> {
        if entry?.level != self.entry_level {
            return None;
        }
        let is_there = |found: &&(Candidate, u64)| view.id(found.0.slot()) == Some(found.1);
        let present = |layer: &Layer| layer.iter().filter(is_there).map(|found| found.0).collect();
        let layers: Vec<Vec<Candidate>> = self.layers.iter().map(present).collect();
        let (before, now) = (self.layers.first()?.len(), layers.first()?.len());
        (now > 0 && now >= before - before / 4).then_some((self.level, layers))
    }
}

impl<T> View<'_, T> {
    /// The candidates for the links of a node of `level`, from layer 0 upwards.
    pub(super) fn neighbours(
        self,
        query: Operand<'_>,
        level: u32,
        entry: EntryPoint,
        ef: usize,
        scratch: &mut Scratch,
    ) -> Vec<Vec<Candidate>> {
        let top = level.min(entry.level);
        let mut nearest = self.descend(query, entry.slot, entry.level, top, scratch);
        let mut layers: Vec<Vec<Candidate>> = Vec::with_capacity(top as usize + 1);
        for level in (0..=top as usize).rev() {
            self.walk(query, nearest, ef.max(1), level, scratch);
            nearest = scratch.found.first().map_or(nearest, |found| found.slot());
            layers.push(scratch.found.clone());
        }
        layers.reverse();
        layers
    }
}

impl<T: Payload> Graph<T> {
    /// Finds neighbours for a later insertion of a vector, beside inserts and searches; `ef` as for
    /// [`Graph::insert`]. `None` for a graph without nodes.
    pub fn neighbours(&self, vector: &StoredVector, ef: usize) -> Option<Neighbours> {
        let core = self.read();
        let (view, entry) = (self.view(&core), self.entry_point()?);
        if vector.as_bytes().len() != self.shape.stored_bytes() {
            return None;
        }
        // Ids ascend from 0: these numbers are no id's.
        let level = self.shape.level_of(!self.drawn.fetch_add(1, Ordering::Relaxed));
        let query = vector.as_operand();
        let found = with_scratch(|scratch| view.neighbours(query, level, entry, ef, scratch));
        let with_ids = |layer: Vec<Candidate>| {
            let ids = layer.into_iter().filter_map(|found| Some((found, view.id(found.slot())?)));
            ids.collect::<Layer>()
        };
        let layers = found.into_iter().map(with_ids).collect();
        Some(Neighbours { level, entry_level: entry.level, layers })
    }
}
