//! A vector set: named elements with a vector each, in one graph, and in the order of their names.
//!
//! # Always
//!
//! - Every node of the graph is an element of the names, with the same payload, and the other way round.
//! - A clone shares everything until one of the two changes; a change then costs a reference for each page of
//!   the graph and each chunk of the names, once, and copies of the pages that it touches.
//! - Searches go through [`VectorSet::graph`], and may go on beside changes of the set.

mod names;

use crate::element::Element;
use crate::graph::{Config, Graph, Neighbours, StoredVector, VectorError};
use crate::quantise::Projection;
use crate::saved::{self, Field, Saved, SavedError};
use names::Names;
use std::borrow::Cow;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the [module docs](self).
#[derive(Clone)]
pub struct VectorSet(Arc<Content>);

struct Content {
    graph: Arc<Graph<Element>>,
    names: Names,
    projection: Option<Arc<Projection>>,
    uid: u64,
    /// Elements that have an attribute.
    attributes: usize,
}

impl Clone for Content {
    /// Another graph with the same nodes, for changes that the other content does not see.
    fn clone(&self) -> Content {
        Content {
            graph: Arc::new(self.graph.snapshot().to_graph()),
            names: self.names.clone(),
            projection: self.projection.clone(),
            uid: fresh_uid(),
            attributes: self.attributes,
        }
    }
}

impl std::fmt::Debug for VectorSet {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("VectorSet").field("config", self.config()).field("len", &self.len()).finish()
    }
}

/// A number that no set of this process has had.
fn fresh_uid() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// An inserted element's attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute<'a> {
    /// The one that the element has, if it is there.
    Kept,
    /// This text; none if it is empty.
    Text(&'a [u8]),
}

/// A vector that is to be inserted into a set: encoded, and beside which elements, if that was looked for.
pub struct Insertion {
    graph: Arc<Graph<Element>>,
    vector: StoredVector,
    neighbours: Option<Neighbours>,
}

impl Insertion {
    /// Looks for the vector's neighbours. The set may be changed beside that, by others.
    pub fn find_neighbours(&mut self, ef: usize) {
        self.neighbours = self.graph.neighbours(&self.vector, ef);
    }
}

impl VectorSet {
    /// A set without elements; `None` when the configuration is out of its limits, or its dimension is not
    /// the projection's.
    pub fn new(config: Config, projection: Option<Projection>) -> Option<VectorSet> {
        if projection.as_ref().is_some_and(|projection| projection.output() != config.dimension) {
            return None;
        }
        let graph = Arc::new(Graph::new(config)?);
        Some(VectorSet::of(graph, Names::default(), projection, 0))
    }

    fn of(
        graph: Arc<Graph<Element>>,
        names: Names,
        projection: Option<Projection>,
        attributes: usize,
    ) -> VectorSet {
        let (projection, uid) = (projection.map(Arc::new), fresh_uid());
        VectorSet(Arc::new(Content { graph, names, projection, uid, attributes }))
    }

    /// A number that no other set of this process has, clones that were changed included.
    pub fn uid(&self) -> u64 {
        self.0.uid
    }

    /// The graph, for searches.
    pub fn graph(&self) -> &Arc<Graph<Element>> {
        &self.0.graph
    }

    /// The graph's configuration.
    pub fn config(&self) -> &Config {
        self.0.graph.config()
    }

    /// REDUCE's matrix.
    pub fn projection(&self) -> Option<&Projection> {
        self.0.projection.as_deref()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.0.names.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Elements that have an attribute.
    pub fn attributes(&self) -> usize {
        self.0.attributes
    }

    /// Bytes on the heap, those included that a clone shares.
    pub fn heap_bytes(&self) -> usize {
        let counts = 2 * size_of::<usize>();
        let projection = self
            .projection()
            .map_or(0, |projection| counts + size_of::<Projection>() + projection.heap_bytes());
        2 * counts
            + size_of::<Content>()
            + size_of::<Graph<Element>>()
            + self.0.graph.heap_bytes()
            + self.0.names.heap_bytes()
            + projection
    }

    /// The slot and the element of this name.
    pub fn get(&self, name: &[u8]) -> Option<(u32, &Arc<Element>)> {
        self.0.names.get(name)
    }

    /// The elements between two names, ascending.
    pub fn range<'a>(
        &'a self,
        from: Bound<&[u8]>,
        to: Bound<&'a [u8]>,
    ) -> impl Iterator<Item = &'a Arc<Element>> {
        self.0.names.range(from, to)
    }

    /// Components as they are stored and searched for: projected, if there is a projection and they have its
    /// input's dimension.
    pub fn prepare<'a>(&self, components: &'a [f32]) -> Cow<'a, [f32]> {
        let projected = self.projection().and_then(|projection| projection.apply(components));
        projected.map_or(Cow::Borrowed(components), Cow::Owned)
    }

    /// Makes components ready for a search.
    ///
    /// # Errors
    /// [`VectorError::NotAVector`].
    pub fn encode(&self, components: &[f32]) -> Result<StoredVector, VectorError> {
        self.0.graph.encode(&self.prepare(components))
    }

    /// The content for a change: this set's own from now on.
    fn change(&mut self) -> &mut Content {
        Arc::make_mut(&mut self.0)
    }

    /// The beginning of an insertion.
    ///
    /// # Errors
    /// [`VectorError::NotAVector`].
    pub fn insertion(&self, components: &[f32]) -> Result<Insertion, VectorError> {
        let (graph, vector) = (Arc::clone(&self.0.graph), self.encode(components)?);
        Ok(Insertion { graph, vector, neighbours: None })
    }

    /// Adds an element, or replaces its vector; whether it is new. `ef` is the number of candidates that the
    /// search for neighbours keeps.
    ///
    /// # Errors
    /// Any of [`VectorError`]; nothing has changed then.
    pub fn insert(
        &mut self,
        name: &[u8],
        components: &[f32],
        attribute: Attribute<'_>,
        ef: usize,
    ) -> Result<bool, VectorError> {
        let insertion = self.insertion(components)?;
        self.finish_insertion(name, &insertion, attribute, ef)
    }

    /// Ends an insertion as [`VectorSet::insert`] does. Neighbours of another set are ignored.
    ///
    /// # Errors
    /// Any of [`VectorError`]; nothing has changed then.
    pub fn finish_insertion(
        &mut self,
        name: &[u8],
        insertion: &Insertion,
        attribute: Attribute<'_>,
        ef: usize,
    ) -> Result<bool, VectorError> {
        let Insertion { graph, vector, neighbours } = insertion;
        if vector.len_bytes() != self.config().stored_bytes() {
            return Err(VectorError::NotAVector);
        }
        // A graph that a clone shares is copied by the change, with its slots and ids.
        let neighbours = neighbours.as_ref().filter(|_| Arc::ptr_eq(graph, &self.0.graph));
        let content = self.change();
        let old = content.names.get(name).map(|(slot, element)| (slot, Arc::clone(element)));
        let text = match (attribute, &old) {
            (Attribute::Text(text), _) => Some(text),
            (Attribute::Kept, Some((_, old))) => old.attribute.as_deref(),
            (Attribute::Kept, None) => None,
        };
        let element = Element::new(name, text);
        let has_attribute = element.attribute.is_some();
        if let Some((slot, _)) = &old {
            // A slot is free from here on: the insertion does not fail.
            content.graph.remove(*slot);
        }
        let slot = content.graph.insert_encoded(vector, element, ef, neighbours)?;
        if let Some(element) = content.graph.payload(slot) {
            content.names.put(element, slot);
        }
        content.attributes += usize::from(has_attribute);
        content.attributes -= usize::from(old.as_ref().is_some_and(|(_, old)| old.attribute.is_some()));
        Ok(old.is_none())
    }

    /// Removes an element; whether it was there.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        if self.get(name).is_none() {
            return false;
        }
        let content = self.change();
        let Some((slot, element)) = content.names.remove(name) else { return false };
        content.graph.remove(slot);
        content.attributes -= usize::from(element.attribute.is_some());
        true
    }

    /// Gives an element an attribute, or takes it away if the text is empty; whether the element is there.
    pub fn set_attribute(&mut self, name: &[u8], text: &[u8]) -> bool {
        if self.get(name).is_none() {
            return false;
        }
        let content = self.change();
        let Some((slot, old)) = content.names.get(name) else { return false };
        let had_attribute = old.attribute.is_some();
        content.graph.set_payload(slot, Element::new(name, Some(text)));
        if let Some(element) = content.graph.payload(slot) {
            content.names.put(element, slot);
        }
        content.attributes += usize::from(!text.is_empty());
        content.attributes -= usize::from(had_attribute);
        true
    }

    /// The saved form; see [`saved::encode`].
    pub fn save(&self, put: impl FnMut(Field<'_>)) {
        saved::encode(&self.0.graph.snapshot(), self.projection(), put);
    }

    /// A set from its saved form; see [`saved::decode`].
    ///
    /// # Errors
    /// [`SavedError`].
    pub fn load<'a>(seed: u64, next: impl FnMut() -> Option<Field<'a>>) -> Result<VectorSet, SavedError> {
        let Saved { graph, projection } = saved::decode(seed, next)?;
        let snapshot = graph.snapshot();
        let mut elements: Vec<(Arc<Element>, u32)> = snapshot
            .order()
            .into_iter()
            .filter_map(|slot| snapshot.payload(slot).map(|element| (Arc::clone(element), slot)))
            .collect();
        drop(snapshot);
        elements.sort_unstable_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        let attributes = elements.iter().filter(|(element, _)| element.attribute.is_some()).count();
        let names = Names::from_sorted(elements);
        Ok(VectorSet::of(Arc::new(graph), names, projection, attributes))
    }
}

#[cfg(test)]
mod tests;
