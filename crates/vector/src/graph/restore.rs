//! A graph from saved nodes, with the links that it had: nothing is searched for or linked again. What
//! always holds: `finish` gives a graph only if every link leads to a node that was added, is in both
//! directions, and is on a layer that both nodes have; before that, no link is followed.

use super::layer::{CAPACITY_MAX, Layer};
use super::page::PAGE_SLOTS;
use super::queue::SLOTS_MAX;
use super::repair::EntryPoint;
use super::shape::{Config, LEVEL_MAX, StoredVector};
use super::store::Writer;
use super::{Graph, Payload, SavedLayer, lock, payload_bytes};
use martlet_base::hash::hash_bytes;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Why saved nodes make no graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// The configuration is out of its limits.
    Config,
    /// A node's id is 0, or another node has it.
    Id,
    /// A vector has the wrong length.
    Vector,
    /// A node has more layers than a graph can have.
    Level,
    /// A layer has more links than room, too much room, a link to its own node, or two to the same one.
    Links,
    /// A link leads to no node, or only in one direction.
    NotReciprocal,
    /// There are more nodes than a graph can have.
    Full,
}

/// A node as it was saved.
#[derive(Clone, Debug)]
pub struct RestoredNode<'a> {
    /// The node's id, not 0.
    pub id: u64,
    /// The stored vector.
    pub vector: &'a [u8],
    /// The range of a quantised vector.
    pub range: f32,
    /// The vector's length before it was normalised.
    pub length: f32,
    /// The layers, from 0 upwards.
    pub layers: &'a [SavedLayer],
}

/// Neighbouring ids whose slots stand together.
const CHUNK: u64 = 32;

/// Slots by id, of nodes that were added or linked to. Saved ids are nearly without gaps, and are looked up
/// at random, once for each link: a table of chunks stays in the processor's caches where one of ids does
/// not. The most that a file gets for an id is a chunk.
#[derive(Debug, Default)]
struct SlotsById {
    chunks: HashMap<u64, u32, BuildHasherDefault<IdHasher>>,
    slots: Vec<[u32; CHUNK as usize]>,
    len: usize,
}

impl SlotsById {
    /// A slot that no node has.
    const NONE: u32 = u32::MAX;

    /// The slot of an id; the next free one for an id that is new.
    fn slot_of(&mut self, id: u64) -> u32 {
        let fresh = self.slots.len() as u32;
        let chunk = *self.chunks.entry(id / CHUNK).or_insert(fresh);
        if chunk == fresh {
            self.slots.push([Self::NONE; CHUNK as usize]);
        }
        let place = self.slots.get_mut(chunk as usize).and_then(|slots| slots.get_mut((id % CHUNK) as usize));
        // Every chunk has its slots.
        let Some(slot) = place else { return Self::NONE };
        if *slot == Self::NONE {
            *slot = self.len as u32;
            self.len += 1;
        }
        *slot
    }
}

/// Hashes a number by the process' key, so that no file can be made to collide.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 ^= hash_bytes(bytes);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Makes a graph from saved nodes.
pub struct GraphBuilder<T> {
    graph: Graph<T>,
    slots: SlotsById,
    /// Links from lower to higher slots less those from higher to lower ones, hashed: zero when all are
    /// reciprocal.
    balance: [u64; 2],
    /// The most distant link is still to be found on these layers.
    without_worst: Vec<(u32, usize)>,
    entry: Option<EntryPoint>,
}

impl<T: Payload> GraphBuilder<T> {
    /// A builder of a graph.
    ///
    /// # Errors
    /// [`RestoreError::Config`].
    pub fn new(config: Config) -> Result<GraphBuilder<T>, RestoreError> {
        let graph = Graph::new(config).ok_or(RestoreError::Config)?;
        Ok(GraphBuilder {
            graph,
            slots: SlotsById::default(),
            balance: [0; 2],
            without_worst: Vec::new(),
            entry: None,
        })
    }

    /// Adds a node; returns its slot.
    ///
    /// # Errors
    /// Any [`RestoreError`]; the builder is then of no use.
    pub fn add(&mut self, node: &RestoredNode<'_>, payload: Arc<T>) -> Result<u32, RestoreError> {
        let level = node.layers.len().checked_sub(1).ok_or(RestoreError::Level)? as u32;
        if level > LEVEL_MAX {
            return Err(RestoreError::Level);
        }
        if node.id == 0 {
            return Err(RestoreError::Id);
        }
        if node.vector.len() != self.graph.shape.stored_bytes() {
            return Err(RestoreError::Vector);
        }
        let slot = self.slot_of(node.id)?;
        {
            let mut core = self.graph.write();
            let pages = (slot as usize / PAGE_SLOTS + 1).max(core.table.len());
            self.graph.grow_table(&mut core, pages);
            let writer = self.graph.writer(&core);
            if writer.view.level(slot).is_some() {
                return Err(RestoreError::Id);
            }
            self.graph.bytes.fetch_add(payload_bytes(&*payload), Ordering::Relaxed);
            let vector = StoredVector::from_bytes(node.vector, node.range, node.length);
            writer.fill(slot, node.id, level, &vector, payload);
        }
        for (level, layer) in node.layers.iter().enumerate() {
            let linked = self.checked_links(slot, level, layer)?;
            self.set_layer(slot, level, layer, &linked);
        }
        self.graph.count.fetch_add(1, Ordering::AcqRel);
        self.graph.last_id.fetch_max(node.id, Ordering::AcqRel);
        if self.entry.is_none_or(|entry| level > entry.level) {
            self.entry = Some(EntryPoint { slot, level });
        }
        Ok(slot)
    }

    fn slot_of(&mut self, id: u64) -> Result<u32, RestoreError> {
        let is_full = self.slots.len >= SLOTS_MAX;
        let slot = self.slots.slot_of(id);
        if is_full { Err(RestoreError::Full) } else { Ok(slot) }
    }

    /// The slots that a layer links to.
    fn checked_links(
        &mut self,
        slot: u32,
        level: usize,
        layer: &SavedLayer,
    ) -> Result<Vec<u32>, RestoreError> {
        let worst_fits = layer
            .worst
            .is_none_or(|(index, _)| layer.links.is_empty() || (index as usize) < layer.links.len());
        if layer.links.len() > layer.capacity || layer.capacity > CAPACITY_MAX || !worst_fits {
            return Err(RestoreError::Links);
        }
        let mut linked = Vec::with_capacity(layer.links.len());
        for id in &layer.links {
            let other = if *id == 0 { return Err(RestoreError::Links) } else { self.slot_of(*id)? };
            if other == slot {
                return Err(RestoreError::Links);
            }
            self.note_link(slot, other, level);
            linked.push(other);
        }
        let mut sorted = linked.clone();
        sorted.sort_unstable();
        let is_unique = sorted.windows(2).all(|pair| pair[0] != pair[1]);
        if is_unique { Ok(linked) } else { Err(RestoreError::Links) }
    }

    /// The hashes are keyed by the process, so that no file can be made to cancel out.
    fn note_link(&mut self, from: u32, to: u32, level: usize) {
        let mut key = [0u8; 10];
        key[..4].copy_from_slice(&from.min(to).to_le_bytes());
        key[4..8].copy_from_slice(&from.max(to).to_le_bytes());
        key[8] = level as u8;
        for (index, balance) in self.balance.iter_mut().enumerate() {
            key[9] = index as u8;
            let hash = hash_bytes(&key);
            *balance = if from < to { balance.wrapping_add(hash) } else { balance.wrapping_sub(hash) };
        }
    }

    fn set_layer(&mut self, slot: u32, level: usize, layer: &SavedLayer, linked: &[u32]) {
        let core = self.graph.read();
        let writer: Writer<'_, T> = self.graph.writer(&core);
        let _locked = writer.lock([slot]);
        // Room beyond what links need, or an insert would ever make, is not kept: a file can ask for much
        // of it.
        let m = self.graph.shape.config.m;
        let usual = self.graph.shape.capacity(level);
        let kept = layer.capacity.min(if level == 0 { m * 3 } else { m * 2 });
        let capacity = usual.max(kept).max(linked.len());
        if capacity > usual {
            writer.grow(slot, level, capacity);
        }
        let layer_now: Layer<'_> = writer.view.layer(slot, level);
        linked.iter().for_each(|linked| {
            layer_now.push(*linked, 0.0);
        });
        match layer.worst {
            Some((index, distance)) if !linked.is_empty() => layer_now.set_worst(index as usize, distance),
            Some((_, distance)) => layer_now.set_worst(0, distance),
            None => self.without_worst.push((slot, level)),
        }
    }

    /// The graph.
    ///
    /// # Errors
    /// [`RestoreError::NotReciprocal`].
    pub fn finish(self) -> Result<Graph<T>, RestoreError> {
        let GraphBuilder { graph, slots, balance, without_worst, entry } = self;
        if balance != [0; 2] || slots.len != graph.len() {
            return Err(RestoreError::NotReciprocal);
        }
        {
            let core = graph.read();
            let writer = graph.writer(&core);
            for (slot, level) in without_worst {
                let _locked = writer.lock([slot]);
                writer.find_worst(slot, level);
            }
        }
        graph.set_entry_point(entry);
        lock(&graph.slots).used = slots.len;
        Ok(graph)
    }
}
