//! Deletion: a node's neighbours lose their links to it, and get links among each other in its place, in
//! pairs that are near and that leave the others good partners (Redis' weights); a node without a partner
//! looks in the wider graph. All of this runs while the graph is locked exclusively.

use super::link::Pressure;
use super::queue::Candidate;
use super::search::Scratch;
use super::store::Writer;

/// Weights of a pair's nearness, and of the distance of the partners that the two give up.
const NEARNESS_WEIGHT: f32 = 0.7;
const LOSS_WEIGHT: f32 = 0.3;
/// Candidates of the search for a node that found no partner.
const REPAIR_EF: usize = 200;
/// Neighbours that are paired at a time; a node has more only when a file says so.
const GROUP_MAX: usize = 128;

/// Where searches begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryPoint {
    pub(super) slot: u32,
    pub(super) level: u32,
}

impl<T> Writer<'_, T> {
    /// Removes every link to the node; returns its former neighbours by layer.
    pub(super) fn unlink(&self, slot: u32, level: u32) -> Vec<Vec<u32>> {
        let neighbours = |layer: u32| -> Vec<u32> { self.view.layer(slot, layer as usize).slots().collect() };
        let layers: Vec<Vec<u32>> = (0..=level).map(neighbours).collect();
        for (level, linked) in layers.iter().enumerate() {
            for neighbour in linked {
                let _locked = self.lock([*neighbour]);
                self.unlink_one_way(*neighbour, slot, level);
            }
        }
        layers
    }

    /// Gives the former neighbours of a removed node new links on a layer.
    pub(super) fn reconnect(&self, nodes: &[u32], level: usize, entry: EntryPoint, scratch: &mut Scratch) {
        for group in nodes.chunks(GROUP_MAX) {
            let distances = Distances::of(self, group);
            let left = self.pair(group, level, &distances);
            for index in left {
                self.reconnect_one(group, index, level, &distances, entry, scratch);
            }
        }
    }

    /// Links nodes in pairs, the best first; the indexes of those without a partner.
    fn pair(&self, nodes: &[u32], level: usize, distances: &Distances) -> Vec<usize> {
        let is_linked = |a: usize, b: usize| self.view.layer(nodes[a], level).position(nodes[b]).is_some();
        let mut pairs: Vec<(f32, usize, usize)> = Vec::new();
        for a in 0..nodes.len() {
            for b in a + 1..nodes.len() {
                if nodes[a] != nodes[b] && !is_linked(a, b) {
                    pairs.push((distances.score(a, b), a, b));
                }
            }
        }
        pairs.sort_by(|x, y| y.0.total_cmp(&x.0));
        let mut is_paired = vec![false; nodes.len()];
        for (_, a, b) in pairs {
            let is_open = !is_paired[a] && !is_paired[b];
            if is_open && self.link_if_room_for_both(nodes[a], nodes[b], level, distances.get(a, b)) {
                (is_paired[a], is_paired[b]) = (true, true);
            }
        }
        (0..nodes.len()).filter(|index| !is_paired[*index]).collect()
    }

    fn reconnect_one(
        &self,
        nodes: &[u32],
        index: usize,
        level: usize,
        distances: &Distances,
        entry: EntryPoint,
        scratch: &mut Scratch,
    ) {
        let (node, m) = (nodes[index], self.view.shape.config.m);
        let layer = self.view.layer(node, level);
        let (count, wanted) = (layer.count(), layer.count() + 1);
        if count >= layer.capacity() {
            return;
        }
        let has_room = |slot: u32| {
            let layer = self.view.layer(slot, level);
            layer.count() < layer.capacity()
        };
        let others = (0..nodes.len()).filter(|other| *other != index && has_room(nodes[*other]));
        let mut local: Vec<Candidate> =
            others.map(|other| Candidate::new(nodes[other], distances.get(index, other))).collect();
        local.sort_unstable();
        self.connect(node, level, &local, wanted, Pressure::Some);
        if self.view.layer(node, level).count() >= wanted || entry.level < level as u32 {
            return;
        }
        let query = self.view.operand(node);
        let start = self.view.descend(query, entry.slot, entry.level, level as u32, scratch);
        self.view.walk(query, start, REPAIR_EF, level, scratch);
        let pressure = if count > m / 2 { Pressure::Some } else { Pressure::High };
        self.connect(node, level, &scratch.found, wanted, pressure);
    }
}

/// The distances of some nodes from each other.
struct Distances {
    count: usize,
    rows: Vec<f32>,
    sums: Vec<f32>,
}

impl Distances {
    fn of<T>(writer: &Writer<'_, T>, nodes: &[u32]) -> Distances {
        let count = nodes.len();
        let mut rows = vec![0.0; count * count];
        for a in 0..count {
            for b in a + 1..count {
                let distance = writer.view.distance(nodes[a], nodes[b]);
                (rows[a * count + b], rows[b * count + a]) = (distance, distance);
            }
        }
        let sums = rows.chunks_exact(count.max(1)).map(|row| row.iter().sum()).collect();
        Distances { count, rows, sums }
    }

    fn get(&self, a: usize, b: usize) -> f32 {
        self.rows[a * self.count + b]
    }

    /// How good it is to link a pair: the nearer they are, and the farther their other partners would be,
    /// the better.
    fn score(&self, a: usize, b: usize) -> f32 {
        let distance = self.get(a, b);
        let others = self.count.saturating_sub(2);
        let mean =
            |index: usize| if others > 0 { (self.sums[index] - distance) / others as f32 } else { 0.0 };
        NEARNESS_WEIGHT * (2.0 - distance) + LOSS_WEIGHT * (mean(a) + mean(b)) / 2.0
    }
}
