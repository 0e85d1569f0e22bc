//! A graph of vectors for approximate nearest-neighbour search (HNSW: Malkov and Yashunin, 2016), for many
//! threads.
//!
//! # Locks
//!
//! | lock | taken | guards |
//! |---|---|---|
//! | `core` | shared by insert and search, exclusively by remove, payloads, snapshots and growth of the table | that no node disappears, no payload changes and no page is freed |
//! | a page's lock | by inserts, up to three pages at a time, in ascending order | the links of 64 nodes |
//! | `entry_lock` | by an insert that begins the graph or raises its level | the entry point's writes |
//! | `slots`, `retired` | as the last, alone | the free slots; pages that have left the table |
//!
//! They are taken in this order. Searches take none but `core`, shared: they read links, and the entry
//! point, as atomics while inserts change them. A closure that is called during a search must not call into
//! the same graph.
//!
//! # Always
//!
//! - Links are reciprocal whenever no insert is at work, and lead to nodes that are there.
//! - A node is published (its level set, then linked, from layer 0 upwards) after its vector and payload
//!   are written; they do not change until `core` is locked exclusively.
//! - Pages of another generation than the graph's are never written: snapshots share them (`page.rs`).

mod layer;
mod link;
mod neighbours;
mod page;
mod queue;
mod repair;
mod restore;
mod search;
mod shape;
mod snapshot;
mod store;

pub use neighbours::Neighbours;
pub use restore::{GraphBuilder, RestoreError, RestoredNode};
pub use shape::{Config, LEVEL_MAX, M_MAX, M_MIN, Metric, StoredVector};
pub use snapshot::{FreeSlices, NodeView, SavedLayer, Snapshot};

use martlet_base::sync::lock;

use crate::quantise;
use link::Pressure;
use page::PAGE_SLOTS;
use queue::{Candidate, SLOTS_MAX};
use repair::EntryPoint;
use search::{Filtered, with_scratch};
use shape::Shape;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use store::{Entry, Retired, View, Writer};

/// The value that a node carries beside its vector.
pub trait Payload: Send + Sync {
    /// Bytes on the heap, the value itself apart.
    fn heap_bytes(&self) -> usize;
}

impl Payload for u64 {
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// Why a vector was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorError {
    /// It has the wrong number of components, or one that is not finite.
    NotAVector,
    /// The graph has as many slots as it can have.
    Full,
}

/// A result of a search.
#[derive(Clone, Debug)]
pub struct Hit<T> {
    /// Where the node is, until it is removed.
    pub slot: u32,
    /// By the graph's metric.
    pub distance: f32,
    /// The node's payload.
    pub payload: Arc<T>,
}

impl<T> Hit<T> {
    /// VSIM's score of a cosine distance: 1 for equal directions, 0 for opposite ones.
    pub fn score(&self) -> f64 {
        1.0 - f64::from(self.distance) / 2.0
    }

    /// VLINKS' score, which Redis computes in single precision.
    pub fn link_score(&self) -> f64 {
        f64::from(1.0 - self.distance / 2.0)
    }
}

/// The wishes and the bounds of a search.
pub struct SearchOptions<'a, T> {
    /// Results at most.
    pub count: usize,
    /// Candidates that the walk keeps; at least `count` are kept.
    pub ef: usize,
    /// The largest distance of a result.
    pub distance_max: f32,
    /// Which nodes may be results.
    pub filter: Option<&'a dyn Fn(&T) -> bool>,
    /// Nodes to which a filtered walk goes at most; 0 for no bound.
    pub examined_max: usize,
    /// Looks at all nodes instead of walking.
    pub is_exact: bool,
}

impl<T> SearchOptions<'_, T> {
    /// The nearest `count` by a walk with `ef` candidates.
    pub fn nearest(count: usize, ef: usize) -> Self {
        SearchOptions {
            count,
            ef,
            distance_max: f32::INFINITY,
            filter: None,
            examined_max: 0,
            is_exact: false,
        }
    }
}

/// The table, which changes its length only while it is locked exclusively.
struct Core<T> {
    table: Vec<Entry<T>>,
    generation: u64,
}

/// Free slots: those of removed nodes, and all from `used` on.
#[derive(Debug, Default)]
struct Slots {
    removed: Vec<u32>,
    used: usize,
}

/// The entry point of a graph without nodes.
const NO_ENTRY: u64 = u64::MAX;
/// Pages and layers that may wait for an exclusive lock to be freed.
const RETIRED_MAX: usize = 1024;

/// A graph of vectors with payloads of type `T`.
pub struct Graph<T> {
    shape: Shape,
    core: RwLock<Core<T>>,
    /// The slot of the entry point, its level in the upper half.
    entry: AtomicU64,
    entry_lock: Mutex<()>,
    slots: Mutex<Slots>,
    retired: Mutex<Vec<Retired<T>>>,
    count: AtomicUsize,
    last_id: AtomicU64,
    /// Levels that were drawn before their node had an id.
    drawn: AtomicU64,
    bytes: AtomicUsize,
}

/// A generation that no graph of this process has had.
fn fresh_generation() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl<T: Payload> Graph<T> {
    /// A graph without nodes; `None` when the configuration is out of its limits.
    pub fn new(config: Config) -> Option<Graph<T>> {
        config.is_valid().then(|| Graph {
            shape: Shape::new(config),
            core: RwLock::new(Core { table: Vec::new(), generation: fresh_generation() }),
            entry: AtomicU64::new(NO_ENTRY),
            entry_lock: Mutex::new(()),
            slots: Mutex::new(Slots::default()),
            retired: Mutex::new(Vec::new()),
            count: AtomicUsize::new(0),
            last_id: AtomicU64::new(0),
            drawn: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
        })
    }

    /// The configuration that the graph was made with.
    pub fn config(&self) -> &Config {
        &self.shape.config
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The largest id that a node has had. Ids are given in ascending order, from 1 on.
    pub fn last_id(&self) -> u64 {
        self.last_id.load(Ordering::Acquire)
    }

    /// The level of the entry point; 0 for a graph without nodes.
    pub fn level_max(&self) -> u32 {
        self.entry_point().map_or(0, |entry| entry.level)
    }

    /// Bytes on the heap, as they were asked of the allocator: pages, links, vectors, payloads, the table.
    /// Pages that only a snapshot still has are not among them.
    pub fn heap_bytes(&self) -> usize {
        let removed = lock(&self.slots).removed.capacity() * size_of::<u32>();
        let retired = lock(&self.retired).capacity() * size_of::<Retired<T>>();
        self.bytes.load(Ordering::Acquire) + removed + retired
    }

    fn read(&self) -> RwLockReadGuard<'_, Core<T>> {
        self.core.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks exclusively, and frees the pages that have left the table.
    fn write(&self) -> RwLockWriteGuard<'_, Core<T>> {
        let core = self.core.write().unwrap_or_else(PoisonError::into_inner);
        let retired = std::mem::take(&mut *lock(&self.retired));
        drop(retired);
        core
    }

    fn view<'a>(&'a self, core: &'a Core<T>) -> View<'a, T> {
        View { shape: &self.shape, table: &core.table }
    }

    fn writer<'a>(&'a self, core: &'a Core<T>) -> Writer<'a, T> {
        Writer {
            view: self.view(core),
            generation: core.generation,
            retired: &self.retired,
            bytes: &self.bytes,
        }
    }

    fn entry_point(&self) -> Option<EntryPoint> {
        let entry = self.entry.load(Ordering::Acquire);
        (entry != NO_ENTRY).then_some(EntryPoint { slot: entry as u32, level: (entry >> 32) as u32 })
    }

    fn set_entry_point(&self, entry: Option<EntryPoint>) {
        let word = entry.map_or(NO_ENTRY, |entry| u64::from(entry.level) << 32 | u64::from(entry.slot));
        self.entry.store(word, Ordering::Release);
    }

    /// Makes components ready for searches: normalised and quantised as the graph's own vectors.
    ///
    /// # Errors
    /// [`VectorError::NotAVector`].
    pub fn encode(&self, components: &[f32]) -> Result<StoredVector, VectorError> {
        self.shape.encode(components).ok_or(VectorError::NotAVector)
    }

    /// Inserts a vector, beside other inserts and searches; returns its slot. `ef` is the number of
    /// candidates that the search for neighbours keeps.
    ///
    /// # Errors
    /// Any of [`VectorError`]; nothing has changed then.
    pub fn insert(&self, components: &[f32], payload: T, ef: usize) -> Result<u32, VectorError> {
        let vector = self.encode(components)?;
        self.insert_encoded(&vector, payload, ef, None)
    }

    /// As [`Graph::insert`], of a vector that [`Graph::encode`] has made ready, and beside `neighbours` if
    /// they were found before and most of them are still there.
    ///
    /// # Errors
    /// [`VectorError::Full`].
    pub fn insert_encoded(
        &self,
        vector: &StoredVector,
        payload: T,
        ef: usize,
        neighbours: Option<&Neighbours>,
    ) -> Result<u32, VectorError> {
        if vector.as_bytes().len() != self.shape.stored_bytes() {
            return Err(VectorError::NotAVector);
        }
        let slot = self.take_slot()?;
        let core = self.read();
        let writer = self.writer(&core);
        let id = self.last_id.fetch_add(1, Ordering::AcqRel) + 1;
        let found = neighbours.and_then(|found| found.present(writer.view, self.entry_point()));
        let level = found.as_ref().map_or_else(|| self.shape.level_of(id), |(level, _)| *level);
        self.bytes.fetch_add(payload_bytes(&payload), Ordering::Relaxed);
        writer.fill(slot, id, level, vector, Arc::new(payload));
        self.count.fetch_add(1, Ordering::AcqRel);
        let new = EntryPoint { slot, level };
        if let Some(entry) = self.entry_or_begin(new) {
            let query = writer.view.operand(slot);
            let look = || with_scratch(|scratch| writer.view.neighbours(query, level, entry, ef, scratch));
            self.link_new(&writer, slot, &found.map_or_else(look, |(_, layers)| layers));
            self.raise_entry(new);
        }
        drop(core);
        if lock(&self.retired).len() > RETIRED_MAX {
            drop(self.write());
        }
        Ok(slot)
    }

    /// The entry point, or `None` if the graph had none: then `new` is it.
    fn entry_or_begin(&self, new: EntryPoint) -> Option<EntryPoint> {
        self.entry_point().or_else(|| {
            let _locked = lock(&self.entry_lock);
            let entry = self.entry_point();
            if entry.is_none() {
                self.set_entry_point(Some(new));
            }
            entry
        })
    }

    fn raise_entry(&self, new: EntryPoint) {
        if new.level > self.level_max() {
            let _locked = lock(&self.entry_lock);
            if new.level > self.level_max() {
                self.set_entry_point(Some(new));
            }
        }
    }

    /// Links a new node, from layer 0 upwards: a walk that meets it above can continue from it below.
    fn link_new(&self, writer: &Writer<'_, T>, slot: u32, layers: &[Vec<Candidate>]) {
        let view = writer.view;
        let m = self.shape.config.m;
        for (level, candidates) in layers.iter().enumerate() {
            writer.connect(slot, level, candidates, m, Pressure::None);
            if level == 0 && view.layer(slot, 0).count() < m / 2 {
                writer.connect(slot, 0, candidates, m, Pressure::Some);
                if view.layer(slot, 0).count() < (m / 4).max(1) {
                    writer.connect(slot, 0, candidates, (m / 4).max(1), Pressure::High);
                }
                if view.layer(slot, 0).count() == 0 {
                    writer.adopt(slot, candidates);
                }
            }
        }
    }

    /// A free slot within the table, which grows if it has none.
    fn take_slot(&self) -> Result<u32, VectorError> {
        let (slot, wanted) = {
            let mut slots = lock(&self.slots);
            if let Some(slot) = slots.removed.pop() {
                return Ok(slot);
            }
            if slots.used >= SLOTS_MAX {
                return Err(VectorError::Full);
            }
            slots.used += 1;
            ((slots.used - 1) as u32, slots.used.div_ceil(PAGE_SLOTS))
        };
        if self.read().table.len() < wanted {
            let mut core = self.write();
            self.grow_table(&mut core, wanted);
        }
        Ok(slot)
    }

    fn grow_table(&self, core: &mut Core<T>, pages: usize) {
        if core.table.len() >= pages {
            return;
        }
        // By an eighth: an entry is small beside its page, and each growth stops the graph for a moment.
        let length = pages.max(core.table.len() + core.table.len() / 8);
        let before = core.table.capacity();
        core.table.reserve_exact(length - core.table.len());
        core.table.resize_with(length, Entry::empty);
        let added = (core.table.capacity() - before) * size_of::<Entry<T>>();
        self.bytes.fetch_add(added, Ordering::Relaxed);
    }

    /// The nearest nodes, the nearest first, beside inserts and other searches. The options' filter is
    /// called while the graph is locked.
    pub fn search(&self, query: &StoredVector, options: &SearchOptions<'_, T>) -> Vec<Hit<T>> {
        let core = self.read();
        let view = self.view(&core);
        let (Some(entry), operand) = (self.entry_point(), query.as_operand()) else { return Vec::new() };
        if options.count == 0 || operand.bytes.len() != self.shape.stored_bytes() {
            return Vec::new();
        }
        let count = options.count.min(self.len());
        let ef = options.ef.max(count).min(self.len().max(1));
        let filtered = options.filter.map(|accepts| Filtered { accepts, examined_max: options.examined_max });
        with_scratch(|scratch| {
            if options.is_exact {
                view.scan(operand, count, filtered.as_ref(), scratch);
            } else {
                let start = view.descend(operand, entry.slot, entry.level, 0, scratch);
                match &filtered {
                    None => view.walk(operand, start, ef, 0, scratch),
                    Some(filtered) => view.walk_filtered(operand, start, ef, 0, filtered, scratch),
                }
            }
            let near = scratch.found.iter().take_while(|found| found.distance() <= options.distance_max);
            let hit = |found: &Candidate| {
                let payload = Arc::clone(view.payload(found.slot())?);
                Some(Hit { slot: found.slot(), distance: found.distance(), payload })
            };
            near.take(count).filter_map(hit).collect()
        })
    }

    /// Removes a node and links its neighbours among each other; returns its payload. Waits for inserts and
    /// searches to end.
    pub fn remove(&self, slot: u32) -> Option<Arc<T>> {
        let core = self.write();
        let writer = self.writer(&core);
        let level = writer.view.level(slot)?;
        let layers = writer.unlink(slot, level);
        // SAFETY: the graph is locked exclusively.
        let payload = unsafe { writer.clear(slot) };
        self.count.fetch_sub(1, Ordering::AcqRel);
        if self.entry_point().is_some_and(|entry| entry.slot == slot) {
            self.set_entry_point(find_entry(writer.view, &layers));
        }
        if let Some(entry) = self.entry_point() {
            with_scratch(|scratch| {
                for (level, nodes) in layers.iter().enumerate() {
                    writer.reconnect(nodes, level, entry, scratch);
                }
            });
        }
        lock(&self.slots).removed.push(slot);
        let bytes = payload.as_deref().map_or(0, payload_bytes);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        payload
    }

    /// Replaces a node's payload; returns the former one. Waits for inserts and searches to end.
    pub fn set_payload(&self, slot: u32, payload: T) -> Option<Arc<T>> {
        let core = self.write();
        let bytes = payload_bytes(&payload);
        // SAFETY: the graph is locked exclusively.
        let old = unsafe { self.writer(&core).set_payload(slot, Arc::new(payload)) }?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_sub(payload_bytes(&*old), Ordering::Relaxed);
        Some(old)
    }

    /// A node's payload.
    pub fn payload(&self, slot: u32) -> Option<Arc<T>> {
        let core = self.read();
        self.view(&core).payload(slot).cloned()
    }

    /// VEMB: the components of a node's vector, as near to the inserted ones as the encoding allows.
    pub fn components(&self, slot: u32) -> Option<Vec<f32>> {
        let core = self.read();
        let view = self.view(&core);
        view.level(slot)?;
        let (operand, config) = (view.operand(slot), &self.shape.config);
        let values = quantise::reconstruct(
            config.encoding,
            operand.bytes,
            config.dimension,
            operand.range,
            view.length(slot),
        );
        Some(values)
    }

    /// VEMB RAW: the stored bytes, the range, and the length before the vector was normalised.
    pub fn stored(&self, slot: u32) -> Option<(Vec<u8>, f32, f32)> {
        let core = self.read();
        let view = self.view(&core);
        view.level(slot)?;
        let operand = view.operand(slot);
        Some((operand.bytes.to_vec(), operand.range, view.length(slot)))
    }

    /// VLINKS: the neighbours of a node with their distances, in the order of the links, by layer from 0
    /// upwards.
    pub fn links(&self, slot: u32) -> Option<Vec<Vec<Hit<T>>>> {
        let core = self.read();
        let view = self.view(&core);
        let level = view.level(slot)?;
        let hit = |linked: u32| {
            let payload = Arc::clone(view.payload(linked)?);
            Some(Hit { slot: linked, distance: view.distance(slot, linked), payload })
        };
        let layer = |level: u32| view.layer(slot, level as usize).slots().filter_map(hit).collect();
        Some((0..=level).map(layer).collect())
    }

    /// A node chosen at random, each with the same chance; `random` gives numbers below its argument.
    pub fn random(&self, mut random: impl FnMut(u64) -> u64) -> Option<(u32, Arc<T>)> {
        /// Attempts to hit a slot with a node before the next one is taken.
        const ATTEMPTS: usize = 64;
        let core = self.read();
        let view = self.view(&core);
        let used = lock(&self.slots).used as u64;
        let hit = |slot: u32| view.payload(slot).map(|payload| (slot, Arc::clone(payload)));
        let mut last = 0;
        for _ in 0..ATTEMPTS {
            last = random(used) as u32;
            if let Some(found) = hit(last) {
                return Some(found);
            }
        }
        let later = view.slots().find(|slot| *slot > last);
        later.or_else(|| view.slots().next()).and_then(hit)
    }
}

/// Bytes of a payload on the heap, with the counts that it is shared by.
fn payload_bytes<T: Payload>(payload: &T) -> usize {
    payload.heap_bytes() + size_of::<T>() + 2 * size_of::<usize>()
}

/// Where searches begin when the entry point is gone: at a neighbour on its highest layer that had one, or
/// else at the highest node of all.
fn find_entry<T>(view: View<'_, T>, neighbours: &[Vec<u32>]) -> Option<EntryPoint> {
    let near = neighbours.iter().rev().find_map(|layer| layer.first().copied());
    let highest = || view.slots().max_by_key(|slot| view.level(*slot));
    let slot = near.or_else(highest)?;
    Some(EntryPoint { slot, level: view.level(slot)? })
}

#[cfg(test)]
mod tests;
