//! The vectors of a field, of all partitions of an index: in rows that a query looks at one by one, or in a
//! graph.
//!
//! A vector has a place, which names its document. A vector is added before its document has an id, so that
//! no partition is locked meanwhile, and is found from the moment at which the place is settled.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use martlet_vector::convert::Component;
use martlet_vector::graph::{self, Config, Graph, Payload, SearchOptions};
use martlet_vector::kernels::Kernels;
use martlet_vector::quantise::{Encoding, normalise};

use super::DocId;
use crate::error::Error;
use crate::schema::{Algorithm, Element, Metric, Vector};

/// The document of a vector.
#[derive(Debug)]
pub struct Place {
    /// The number of its partition.
    pub partition: usize,
    /// Its id there, or [`UNSETTLED`].
    id: AtomicU64,
}

const UNSETTLED: DocId = DocId::MAX;

impl Place {
    /// The place of a document that has no id yet.
    pub fn new(partition: usize) -> Place {
        Place { partition, id: AtomicU64::new(UNSETTLED) }
    }

    /// The document's id; `None` before it has one.
    pub fn id(&self) -> Option<DocId> {
        Some(self.id.load(Ordering::Acquire)).filter(|&id| id != UNSETTLED)
    }

    /// Takes the vector out of what queries find, before it is removed.
    pub fn unsettle(&self) {
        self.settle(UNSETTLED);
    }

    /// Gives the document its id.
    pub fn settle(&self, id: DocId) {
        self.id.store(id, Ordering::Release);
    }
}

/// A node's payload.
struct Held(Arc<Place>);

impl Payload for Held {
    fn heap_bytes(&self) -> usize {
        size_of::<Place>()
    }
}

/// A vector that was found.
#[derive(Clone, Debug)]
pub struct Near {
    /// Its document.
    pub place: Arc<Place>,
    /// Its distance by the field's metric.
    pub distance: f32,
    /// Among equals the least is first: a number that rises from vector to vector unless some were removed.
    order: u32,
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct Vectors {
    vector: Vector,
    kernels: Kernels,
    store: Store,
}

enum Store {
    Rows(RwLock<Rows>),
    Graph(Graph<Held>),
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Store::Rows(_) => "Rows",
            Store::Graph(_) => "Graph",
        })
    }
}

/// Vectors one after the other. A removal puts the last one into the gap.
#[derive(Default)]
struct Rows {
    numbers: Vec<f32>,
    /// By row, the vector's handle and place.
    places: Vec<(u32, Arc<Place>)>,
    rows: HashMap<u32, usize>,
    last: u32,
}

impl Vectors {
    /// An empty field; `None` if a graph cannot be made of it.
    pub fn new(vector: &Vector) -> Option<Vectors> {
        let links = match vector.algorithm {
            Algorithm::Flat { .. } => None,
            Algorithm::Hnsw { m, .. } => Some(m),
            // Of a level above 0, which has half of them.
            Algorithm::Vamana { degree, .. } => Some(degree.div_ceil(2)),
        };
        let is_compressed = matches!(vector.algorithm, Algorithm::Vamana { compression: Some(_), .. });
        let store = match links {
            None => Store::Rows(RwLock::default()),
            Some(m) => Store::Graph(Graph::new(Config {
                dimension: vector.dimension,
                // Distances of bytes are cosines.
                encoding: match is_compressed && vector.metric == Metric::Cosine {
                    true => Encoding::Q8,
                    false => Encoding::F32,
                },
                metric: match vector.metric {
                    Metric::L2 => graph::Metric::L2,
                    Metric::InnerProduct => graph::Metric::InnerProduct,
                    Metric::Cosine => graph::Metric::Cosine,
                },
                m,
                seed: 1,
            })?),
        };
        Some(Vectors { vector: vector.clone(), kernels: Kernels::best(), store })
    }

    /// How many vectors there are.
    pub fn len(&self) -> usize {
        match &self.store {
            Store::Rows(rows) => rows.read().unwrap_or_else(PoisonError::into_inner).places.len(),
            Store::Graph(graph) => graph.len(),
        }
    }

    /// Whether the field has no vector.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        match &self.store {
            Store::Graph(graph) => graph.heap_bytes(),
            Store::Rows(rows) => {
                let rows = rows.read().unwrap_or_else(PoisonError::into_inner);
                rows.numbers.capacity() * size_of::<f32>()
                    + rows.places.capacity() * size_of::<(u32, Arc<Place>)>()
                    + rows.places.len() * size_of::<Place>()
                    + rows.rows.capacity() * size_of::<(u32, usize)>()
            }
        }
    }

    /// The components of a vector in the bytes of a document or of a query.
    ///
    /// # Errors
    /// See [`decode`].
    pub fn decode(&self, bytes: &[u8]) -> Result<Vec<f32>, Error> {
        decode(self.vector.element, self.vector.dimension, bytes)
    }

    /// Adds a vector; returns the handle by which it is removed. `None`: the components are not finite, or
    /// there are as many vectors as can be.
    pub fn add(&self, components: &[f32], place: Arc<Place>) -> Option<u32> {
        match &self.store {
            Store::Graph(graph) => {
                let (ef_construction, _) = self.vector.algorithm.windows()?;
                graph.insert(components, Held(place), ef_construction).ok()
            }
            Store::Rows(rows) => {
                if components.len() != self.vector.dimension || !components.iter().all(|x| x.is_finite()) {
                    return None;
                }
                let mut rows = rows.write().unwrap_or_else(PoisonError::into_inner);
                let row = rows.places.len();
                let handle = rows.last.checked_add(1)?;
                rows.last = handle;
                rows.numbers.extend_from_slice(components);
                if self.vector.metric == Metric::Cosine {
                    let begin = row * self.vector.dimension;
                    normalise(&mut rows.numbers[begin..]);
                }
                rows.places.push((handle, place));
                rows.rows.insert(handle, row);
                Some(handle)
            }
        }
    }

    /// Removes a vector.
    pub fn remove(&self, handle: u32) {
        let rows = match &self.store {
            Store::Graph(graph) => {
                graph.remove(handle);
                return;
            }
            Store::Rows(rows) => rows,
        };
        let mut rows = rows.write().unwrap_or_else(PoisonError::into_inner);
        let rows = &mut *rows;
        let Some(row) = rows.rows.remove(&handle) else { return };
        let dimension = self.vector.dimension;
        let last = rows.places.len() - 1;
        rows.numbers.copy_within(last * dimension.., row * dimension);
        rows.numbers.truncate(last * dimension);
        rows.places.swap_remove(row);
        if let Some((moved, _)) = rows.places.get(row) {
            rows.rows.insert(*moved, row);
        }
    }

    /// Bytes of a vector in a document.
    pub fn bytes(&self) -> usize {
        self.vector.dimension.saturating_mul(self.vector.element.bytes())
    }

    /// How many components a search for the nearest vectors passes, about.
    pub fn components_passed(&self, ef: Option<usize>) -> usize {
        /// Vectors that a walk measures for each of its candidates.
        const MEASURED: usize = 64;
        let all = self.len();
        let passed = match self.vector.algorithm.windows() {
            Some((_, ef_runtime)) => ef.unwrap_or(ef_runtime).saturating_mul(MEASURED).min(all),
            None => all,
        };
        passed.saturating_mul(self.vector.dimension)
    }

    /// The nearest `count` vectors whose places `admits` takes, the nearest first. `ef` is the number of
    /// candidates of a walk; the field's own without it. If `is_exact`, all are looked at.
    pub fn nearest(
        &self,
        query: &[f32],
        count: usize,
        ef: Option<usize>,
        is_exact: bool,
        admits: Option<&dyn Fn(&Place) -> bool>,
    ) -> Vec<Near> {
        match &self.store {
            Store::Graph(graph) => {
                let Some((_, ef_runtime)) = self.vector.algorithm.windows() else { return Vec::new() };
                let ef = ef.unwrap_or(ef_runtime).max(count);
                self.walk(graph, query, (count, ef, is_exact), f32::INFINITY, admits)
            }
            Store::Rows(_) => {
                let mut found = self.scan(query, f32::INFINITY, admits);
                if found.len() > count {
                    found.select_nth_unstable_by(count, by_distance);
                    found.truncate(count);
                }
                found.sort_by(by_distance);
                found
            }
        }
    }

    /// The vectors within `radius` whose places `admits` takes, the nearest first.
    pub fn within(&self, query: &[f32], radius: f32, admits: Option<&dyn Fn(&Place) -> bool>) -> Vec<Near> {
        let Store::Graph(graph) = &self.store else {
            let mut found = self.scan(query, radius, admits);
            found.sort_by(by_distance);
            return found;
        };
        // A walk finds the nearest few: more are asked for until one of them is too far.
        let mut count = 64;
        loop {
            let found = self.walk(graph, query, (count, count, false), radius, admits);
            if found.len() < count || count >= graph.len() {
                return found;
            }
            count *= 4;
        }
    }

    fn walk(
        &self,
        graph: &Graph<Held>,
        query: &[f32],
        (count, ef, is_exact): (usize, usize, bool),
        radius: f32,
        admits: Option<&dyn Fn(&Place) -> bool>,
    ) -> Vec<Near> {
        let Ok(query) = graph.encode(query) else { return Vec::new() };
        let filter = |held: &Held| held.0.id().is_some() && admits.is_none_or(|admits| admits(&held.0));
        let search = |filter| {
            let options = SearchOptions {
                count,
                ef,
                distance_max: radius,
                filter,
                examined_max: 0,
                is_exact: is_exact || count.saturating_mul(8) > graph.len(),
            };
            graph.search(&query, &options)
        };
        let is_settled = |hit: &graph::Hit<Held>| hit.payload.0.id().is_some();
        let near = |hit: graph::Hit<Held>| Near {
            place: Arc::clone(&hit.payload.0),
            distance: hit.distance,
            order: hit.slot,
        };
        if admits.is_none() {
            // Hardly ever is a document on its way into the index or out of it, and a walk that asks nothing
            // of the vectors that it passes costs half.
            let hits = search(None);
            if hits.iter().all(is_settled) {
                return hits.into_iter().map(near).collect();
            }
        }
        search(Some(&filter)).into_iter().map(near).collect()
    }

    /// All vectors within a distance, in no order.
    fn scan(&self, query: &[f32], radius: f32, admits: Option<&dyn Fn(&Place) -> bool>) -> Vec<Near> {
        let Store::Rows(rows) = &self.store else { return Vec::new() };
        if query.len() != self.vector.dimension {
            return Vec::new();
        }
        let mut query = query.to_vec();
        if self.vector.metric == Metric::Cosine {
            normalise(&mut query);
        }
        let rows = rows.read().unwrap_or_else(PoisonError::into_inner);
        let vectors = rows.numbers.chunks_exact(self.vector.dimension);
        vectors
            .zip(&rows.places)
            .filter(|(_, (_, place))| place.id().is_some() && admits.is_none_or(|admits| admits(place)))
            .filter_map(|(vector, (handle, place))| {
                let distance = match self.vector.metric {
                    Metric::L2 => self.kernels.l2_f32(&query, vector),
                    Metric::InnerProduct | Metric::Cosine => 1.0 - self.kernels.dot_f32(&query, vector),
                };
                (distance <= radius).then(|| Near { place: Arc::clone(place), distance, order: *handle })
            })
            .collect()
    }
}

fn by_distance(a: &Near, b: &Near) -> std::cmp::Ordering {
    a.distance.total_cmp(&b.distance).then(a.order.cmp(&b.order))
}

/// The components of a vector in bytes, each element with its lowest byte first.
///
/// # Errors
/// The bytes are not of `dimension` elements, or one of them is not finite.
pub fn decode(element: Element, dimension: usize, bytes: &[u8]) -> Result<Vec<f32>, Error> {
    let wanted = dimension.saturating_mul(element.bytes());
    if bytes.len() != wanted {
        let got = bytes.len();
        return Err(Error::new(format!(
            "Could not add vector with blob size {got} (expected size {wanted})"
        )));
    }
    let component = match element {
        Element::Float32 => Component::F32,
        Element::Float64 => Component::F64,
        Element::Float16 => Component::F16,
        Element::Bfloat16 => Component::Bf16,
        Element::Int8 => return Ok(bytes.iter().map(|&byte| f32::from(byte as i8)).collect()),
        Element::Uint8 => return Ok(bytes.iter().map(|&byte| f32::from(byte)).collect()),
    };
    let mut components = Vec::with_capacity(dimension);
    match component.decode(bytes, &mut components) {
        Some(()) => Ok(components),
        None => Err(Error::new("Could not add vector with a component that is not finite")),
    }
}

#[cfg(test)]
mod tests {
    use martlet_base::random::Random;

    use super::*;

    fn vector(algorithm: Algorithm, metric: Metric) -> Vector {
        Vector { algorithm, element: Element::Float32, dimension: 8, metric, initial_capacity: None }
    }

    const HNSW: Algorithm = Algorithm::Hnsw { m: 16, ef_construction: 200, ef_runtime: 200, epsilon: 0.01 };

    const VAMANA: Algorithm = Algorithm::Vamana {
        degree: 32,
        construction_window: 200,
        search_window: 200,
        epsilon: 0.01,
        compression: None,
    };

    #[test]
    fn compressed_vectors_take_a_byte_a_component_and_are_found() {
        let seed = Random::from_entropy().next_u64();
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let compression =
            Some(crate::schema::Compression { name: "LVQ8", training_threshold: 1024, reduce: None });
        let Algorithm::Vamana { degree, construction_window, search_window, epsilon, .. } = VAMANA else {
            panic!()
        };
        let compressed =
            Algorithm::Vamana { degree, construction_window, search_window, epsilon, compression };
        let make = |algorithm| {
            let vector = Vector { dimension: 256, ..vector(algorithm, Metric::Cosine) };
            Vectors::new(&vector).unwrap()
        };
        let (small, large) = (make(compressed), make(VAMANA));
        let mut all = Vec::new();
        for id in 0..200 {
            let components: Vec<f32> = (0..256).map(|_| random.unit_f64() as f32 - 0.5).collect();
            for vectors in [&small, &large] {
                let place = Arc::new(Place::new(0));
                vectors.add(&components, Arc::clone(&place)).unwrap();
                place.settle(id);
            }
            all.push(components);
        }
        assert!(large.heap_bytes() > small.heap_bytes() + 200 * 256 * 2);
        for (id, components) in all.iter().enumerate().step_by(20) {
            let nearest = small.nearest(components, 1, None, false, None);
            assert_eq!(nearest[0].place.id(), Some(id as u64), "seed {seed}");
            assert!(nearest[0].distance < 0.01);
        }
    }

    fn random_vector(random: &mut Random) -> Vec<f32> {
        (0..8).map(|_| random.unit_f64() as f32 - 0.5).collect()
    }

    fn naive(metric: Metric, a: &[f32], b: &[f32]) -> f32 {
        let dot: f32 = a.iter().zip(b).map(|(a, b)| a * b).sum();
        let length = |v: &[f32]| v.iter().map(|x| x * x).sum::<f32>().sqrt();
        match metric {
            Metric::L2 => a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum(),
            Metric::InnerProduct => 1.0 - dot,
            Metric::Cosine => 1.0 - dot / length(a) / length(b),
        }
    }

    #[test]
    fn neighbours_are_those_of_a_look_at_all() {
        let seed = Random::from_entropy().next_u64();
        let mut random = Random::seeded(seed);
        for algorithm in [Algorithm::Flat { block_size: None }, HNSW, VAMANA] {
            for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
                let vectors = Vectors::new(&vector(algorithm, metric)).unwrap();
                let mut model: Vec<(u32, Vec<f32>, Arc<Place>)> = Vec::new();
                for id in 0..300 {
                    let components = random_vector(&mut random);
                    let place = Arc::new(Place::new(0));
                    let handle = vectors.add(&components, Arc::clone(&place)).unwrap();
                    if id % 10 > 0 {
                        place.settle(id);
                    }
                    model.push((handle, components, place));
                    if random.below(3) == 0 {
                        let (handle, ..) = model.swap_remove(random.below(model.len() as u64) as usize);
                        vectors.remove(handle);
                    }
                }
                assert_eq!(vectors.len(), model.len());
                let query = random_vector(&mut random);
                let odd = |place: &Place| place.id().is_some_and(|id| id % 2 == 1);
                let mut wanted: Vec<(f32, u64)> = model
                    .iter()
                    .filter(|(_, _, place)| odd(place))
                    .map(|(_, v, place)| (naive(metric, &query, v), place.id().unwrap()))
                    .collect();
                wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
                let ids = |near: Vec<Near>| near.iter().map(|n| n.place.id().unwrap()).collect::<Vec<_>>();
                let first: Vec<u64> = wanted.iter().take(5).map(|w| w.1).collect();
                assert_eq!(ids(vectors.nearest(&query, 5, None, false, Some(&odd))), first, "seed {seed}");
                let radius = (wanted[19].0 + wanted[20].0) / 2.0;
                let within: Vec<u64> = wanted.iter().take(20).map(|w| w.1).collect();
                assert_eq!(ids(vectors.within(&query, radius, Some(&odd))), within, "seed {seed}");
            }
        }
    }

    #[test]
    fn of_vectors_at_one_distance_the_first_is_nearest() {
        let vectors = Vectors::new(&vector(Algorithm::Flat { block_size: None }, Metric::L2)).unwrap();
        for number in 0..40 {
            // As documents of several partitions, whose ids say nothing of their order.
            let place = Arc::new(Place::new(number as usize % 3));
            place.settle(100 - number);
            vectors.add(&[1.0; 8], place).unwrap();
        }
        let near = vectors.nearest(&[0.0; 8], 5, None, false, None);
        assert_eq!(
            near.iter().map(|near| near.place.id().unwrap()).collect::<Vec<_>>(),
            [100, 99, 98, 97, 96]
        );
    }

    #[test]
    fn elements_of_every_type_are_read() {
        let bytes = [0, 0, 128, 63, 0, 0, 0, 192];
        assert_eq!(decode(Element::Float32, 2, &bytes).unwrap(), [1.0, -2.0]);
        assert_eq!(decode(Element::Float64, 1, &0.25f64.to_le_bytes()).unwrap(), [0.25]);
        assert_eq!(decode(Element::Float16, 1, &0x3c00u16.to_le_bytes()).unwrap(), [1.0]);
        assert_eq!(decode(Element::Bfloat16, 1, &0xbf80u16.to_le_bytes()).unwrap(), [-1.0]);
        assert_eq!(decode(Element::Int8, 2, &[255, 7]).unwrap(), [-1.0, 7.0]);
        assert_eq!(decode(Element::Uint8, 1, &[255]).unwrap(), [255.0]);
        assert!(decode(Element::Float32, 3, &bytes).is_err());
    }
}
