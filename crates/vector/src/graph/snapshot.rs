//! A graph at one moment: its pages, shared until the graph changes them. A snapshot is read without any
//! lock, and never changes. Also the end of a graph in slices.

use super::page::PAGE_SLOTS;
use super::shape::{Config, Shape};
use super::store::{Entry, View};
use super::{Core, Graph, Payload, Slots, fresh_generation, lock};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// A graph as it was when [`Graph::snapshot`] was called.
pub struct Snapshot<T> {
    shape: Shape,
    table: Vec<Entry<T>>,
    entry: u64,
    count: usize,
    last_id: u64,
    bytes: usize,
    free: Slots,
}

/// The links of a node on one layer, as the saved form has them.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedLayer {
    /// Links for which there is room.
    pub capacity: usize,
    /// The neighbours' ids.
    pub links: Vec<u64>,
    /// Which link is the most distant one, and its distance; (0, 0) without links. `None` when a file does
    /// not say.
    pub worst: Option<(u32, f32)>,
}

/// One node of a snapshot.
#[derive(Clone, Debug)]
pub struct NodeView<'a, T> {
    /// The node's id.
    pub id: u64,
    /// The stored vector.
    pub vector: &'a [u8],
    /// The range of a quantised vector.
    pub range: f32,
    /// The vector's length before it was normalised.
    pub length: f32,
    /// The layers, from 0 upwards.
    pub layers: Vec<SavedLayer>,
    /// The node's payload.
    pub payload: &'a Arc<T>,
}

impl<T: Payload> Graph<T> {
    /// The graph as it is now, in time and memory per page. Waits for inserts and searches to end.
    pub fn snapshot(&self) -> Snapshot<T> {
        let mut core = self.write();
        core.generation = fresh_generation();
        let slots = lock(&self.slots);
        Snapshot {
            shape: self.shape,
            table: core.table.iter().map(Entry::share).collect(),
            entry: self.entry.load(Ordering::Acquire),
            count: self.len(),
            last_id: self.last_id(),
            bytes: self.bytes.load(Ordering::Acquire),
            free: Slots { removed: slots.removed.clone(), used: slots.used },
        }
    }

    /// Takes the graph apart, to be freed in slices.
    pub fn into_free_slices(self) -> FreeSlices<T> {
        FreeSlices { table: self.core.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).table }
    }
}

impl<T: Payload> Snapshot<T> {
    fn view(&self) -> View<'_, T> {
        View { shape: &self.shape, table: &self.table }
    }

    /// The configuration that the graph was made with.
    pub fn config(&self) -> &Config {
        &self.shape.config
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The slots of all nodes, in ascending order of their ids.
    pub fn order(&self) -> Vec<u32> {
        let view = self.view();
        let mut order: Vec<(u64, u32)> =
            view.slots().filter_map(|slot| view.id(slot).map(|id| (id, slot))).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, slot)| slot).collect()
    }

    /// A node's payload.
    pub fn payload(&self, slot: u32) -> Option<&Arc<T>> {
        self.view().payload(slot)
    }

    /// The nodes in these slots. Ids are looked up in a table of their own: those of links are at random, and
    /// their nodes' pages would be.
    pub fn nodes<'a>(
        &'a self,
        slots: impl Iterator<Item = u32> + 'a,
    ) -> impl Iterator<Item = NodeView<'a, T>> {
        let view = self.view();
        let mut ids = vec![0; self.table.len() * PAGE_SLOTS];
        for slot in view.slots() {
            if let (Some(place), Some(id)) = (ids.get_mut(slot as usize), view.id(slot)) {
                *place = id;
            }
        }
        slots.filter_map(move |slot| self.node_by(slot, |linked| ids.get(linked as usize).copied()))
    }

    /// The node in a slot.
    pub fn node(&self, slot: u32) -> Option<NodeView<'_, T>> {
        self.node_by(slot, |linked| self.view().id(linked))
    }

    fn node_by(&self, slot: u32, id_of: impl Fn(u32) -> Option<u64>) -> Option<NodeView<'_, T>> {
        let view = self.view();
        let level = view.level(slot)?;
        let layer = |level: u32| {
            let layer = view.layer(slot, level as usize);
            let (index, distance) = layer.worst();
            SavedLayer {
                capacity: layer.capacity(),
                links: layer.slots().filter_map(&id_of).collect(),
                worst: Some((index as u32, distance)),
            }
        };
        let operand = view.operand(slot);
        Some(NodeView {
            id: view.id(slot)?,
            vector: operand.bytes,
            range: operand.range,
            length: view.length(slot),
            layers: (0..=level).map(layer).collect(),
            payload: view.payload(slot)?,
        })
    }

    /// Another graph with the same nodes, which shares pages until either changes them.
    pub fn to_graph(&self) -> Graph<T> {
        let table: Vec<Entry<T>> = self.table.iter().map(Entry::share).collect();
        let table_bytes = |table: &Vec<Entry<T>>| table.capacity() * size_of::<Entry<T>>();
        Graph {
            shape: self.shape,
            bytes: AtomicUsize::new(self.bytes + table_bytes(&table) - self.table_bytes_then()),
            core: RwLock::new(Core { table, generation: fresh_generation() }),
            entry: AtomicU64::new(self.entry),
            entry_lock: Mutex::new(()),
            slots: Mutex::new(Slots { removed: self.free.removed.clone(), used: self.free.used }),
            retired: Mutex::new(Vec::new()),
            count: AtomicUsize::new(self.count),
            last_id: AtomicU64::new(self.last_id),
            drawn: AtomicU64::new(self.last_id),
        }
    }

    /// The bytes of the table in the graph's count: the table grows to its length exactly.
    fn table_bytes_then(&self) -> usize {
        self.table.len() * size_of::<Entry<T>>()
    }
}

/// A graph that is being freed.
pub struct FreeSlices<T> {
    table: Vec<Entry<T>>,
}

impl<T> FreeSlices<T> {
    /// Nodes that may be left.
    pub fn remaining(&self) -> usize {
        self.table.len() * PAGE_SLOTS
    }

    /// Frees up to `pages` pages; true when nothing is left.
    pub fn step(&mut self, pages: usize) -> bool {
        let keep = self.table.len().saturating_sub(pages.max(1));
        self.table.truncate(keep);
        self.table.is_empty()
    }
}
