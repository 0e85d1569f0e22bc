//! A search for shapes: the ids, in each partition, of the documents whose shapes stand to the query's as it
//! asks.
//!
//! Boxes are asked for candidates under the partition's lock; their shapes are compared without it, in
//! steps of bounded work. A document that comes later is not found.

use std::sync::Arc;

use super::planner::ShapeQuery;
use crate::geometry::{Relating, Shape, Subject};
use crate::index::DocId;
use crate::index::whole::Index;

/// The work of one step, in boxes of edges: some 500 µs.
const WORK: usize = 16_384;
/// Shapes that are taken at once while the partition is locked.
const BATCH: usize = 64;
/// The work of a candidate apart from its edges.
const WORK_OF_SHAPE: usize = 16;

/// See the [module docs](self).
#[derive(Debug)]
pub(super) struct ShapeSearch {
    subject: Subject,
    /// Found, by partition; the last one is under way.
    found: Vec<Vec<DocId>>,
    /// Candidates of that partition that are still to be compared.
    unsure: std::vec::IntoIter<DocId>,
    batch: Vec<(DocId, Arc<Shape>)>,
    current: Option<(DocId, Relating)>,
}

impl ShapeSearch {
    pub fn new(query: &ShapeQuery) -> ShapeSearch {
        ShapeSearch {
            subject: Subject::new(&query.shape, query.coordinates, query.relation),
            found: Vec::new(),
            unsure: Vec::new().into_iter(),
            batch: Vec::new(),
            current: None,
        }
    }

    /// A step. At the end of the search the ids that were found, ascending, by partition.
    pub fn step(&mut self, query: &ShapeQuery, index: &Index) -> Option<Vec<Vec<DocId>>> {
        let mut work = WORK;
        loop {
            if let Some((id, relating)) = &mut self.current {
                let is_found = relating.step(&self.subject, &mut work)?;
                if is_found && let Some(found) = self.found.last_mut() {
                    found.push(*id);
                }
                self.current = None;
            }
            if work == 0 {
                return None;
            }
            if self.batch.is_empty() && !self.fill(query, index) {
                return Some(std::mem::take(&mut self.found));
            }
            if let Some((id, shape)) = self.batch.pop() {
                work = work.saturating_sub(WORK_OF_SHAPE + shape.len());
                self.current = Some((id, Relating::new(&self.subject, &shape, query.coordinates)));
            } else {
                // A partition has been asked for candidates.
                return None;
            }
        }
    }

    /// Takes the next shapes, or else asks the next partition; false at the end.
    fn fill(&mut self, query: &ShapeQuery, index: &Index) -> bool {
        if self.unsure.len() == 0 {
            if let Some(found) = self.found.last_mut() {
                found.sort_unstable();
            }
            let Some(partition) = index.partition(self.found.len()) else { return false };
            let bounds = query.shape.bounds(query.coordinates);
            let (found, unsure) = partition
                .shapes(query.field)
                .map(|shapes| shapes.candidates(&bounds, query.relation))
                .unwrap_or_default();
            self.found.push(found);
            self.unsure = unsure.into_iter();
            return true;
        }
        let Some(partition) = index.partition(self.found.len().saturating_sub(1)) else { return false };
        let shapes = partition.shapes(query.field);
        let batch = self.unsure.by_ref().take(BATCH);
        self.batch.extend(batch.filter_map(|id| Some((id, Arc::clone(shapes?.get(id)?)))));
        true
    }
}
