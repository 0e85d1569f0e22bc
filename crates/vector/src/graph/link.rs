//! How a node gets its links: from candidates, nearest first, the ones that are nearer to the node than to
//! any neighbour it has already; in both directions, so that every link is reciprocal. The rules are those
//! of Redis' graph, since they decide its recall and the shape of its saved form.
//!
//! A link, or the exchange of one for another, changes up to three nodes; their pages are locked together,
//! in ascending order, and the decision is made again under the locks.

use super::layer::CAPACITY_MAX;
use super::queue::Candidate;
use super::store::Writer;

/// How hard a node presses for links. Layers above 0 never go beyond the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressure {
    /// Only diverse links, and only where the neighbour gains by the exchange.
    None,
    /// Any candidate; a neighbour may lose a more useful link.
    Some,
    /// As before; a neighbour may also drop a link that is not its worst, or get more room.
    High,
}

/// Attempts to exchange a link that other threads change at the same time.
const EXCHANGE_ATTEMPTS: usize = 4;

/// The result of an attempt to link.
enum Outcome {
    Done,
    /// The neighbour has no room.
    Full,
}

impl<T> Writer<'_, T> {
    /// Links `node` on `level` with candidates, the nearest first, until it has `wanted` links.
    pub(super) fn connect(
        &self,
        node: u32,
        level: usize,
        candidates: &[Candidate],
        wanted: usize,
        pressure: Pressure,
    ) {
        for candidate in candidates {
            let (neighbour, distance) = (candidate.slot(), candidate.distance());
            let layer = self.view.layer(node, level);
            if layer.count() >= wanted.min(layer.capacity()) {
                return;
            }
            if neighbour == node
                || (pressure == Pressure::None && !self.is_diverse(node, neighbour, level, distance))
            {
                continue;
            }
            if let Outcome::Full = self.link_if_room(node, neighbour, level, distance) {
                self.exchange(node, neighbour, level, distance, pressure);
            }
        }
    }

    /// Whether the node is nearer to the neighbour than all neighbours that it has.
    fn is_diverse(&self, node: u32, neighbour: u32, level: usize, distance: f32) -> bool {
        let operand = self.view.operand(neighbour);
        let mut linked = self.view.layer(node, level).slots();
        linked.all(|other| self.view.shape.distance(operand, self.view.operand(other)) >= distance)
    }

    /// Adds the link in both directions, unless it exists or the node has no room left.
    pub(super) fn link_if_room_for_both(&self, a: u32, b: u32, level: usize, distance: f32) -> bool {
        let _locked = self.lock([a, b]);
        let (one, other) = (self.view.layer(a, level), self.view.layer(b, level));
        let has_room = one.count() < one.capacity() && other.count() < other.capacity();
        a != b && has_room && one.position(b).is_none() && one.push(b, distance) && other.push(a, distance)
    }

    fn link_if_room(&self, node: u32, neighbour: u32, level: usize, distance: f32) -> Outcome {
        let _locked = self.lock([node, neighbour]);
        let (own, theirs) = (self.view.layer(node, level), self.view.layer(neighbour, level));
        if own.count() >= own.capacity() || own.position(neighbour).is_some() || theirs.capacity() == 0 {
            return Outcome::Done;
        }
        if theirs.count() >= theirs.capacity() {
            return Outcome::Full;
        }
        if theirs.push(node, distance) {
            own.push(neighbour, distance);
        }
        Outcome::Done
    }

    /// Takes the place of one of the neighbour's links, if the pressure allows it.
    fn exchange(&self, node: u32, neighbour: u32, level: usize, distance: f32, pressure: Pressure) {
        for _ in 0..EXCHANGE_ATTEMPTS {
            let Some((index, dropped)) = self.dispensable(neighbour, level, distance, pressure) else {
                if pressure == Pressure::High {
                    let m = self.view.shape.config.m;
                    let limit = if level == 0 { m * 3 } else { m * 2 };
                    self.link_with_growth(node, neighbour, level, distance, limit);
                }
                return;
            };
            let _locked = self.lock([node, neighbour, dropped]);
            let (own, theirs) = (self.view.layer(node, level), self.view.layer(neighbour, level));
            if own.count() >= own.capacity() || own.position(neighbour).is_some() || dropped == node {
                return;
            }
            if theirs.count() < theirs.capacity() {
                if theirs.push(node, distance) {
                    own.push(neighbour, distance);
                }
                return;
            }
            if theirs.link(index) != Some(dropped) {
                continue;
            }
            self.unlink_one_way(dropped, neighbour, level);
            theirs.replace(index, node);
            self.find_worst(neighbour, level);
            own.push(neighbour, distance);
            return;
        }
    }

    /// The link that a full neighbour can spare for a node at `distance`: its index and its slot.
    fn dispensable(
        &self,
        neighbour: u32,
        level: usize,
        distance: f32,
        pressure: Pressure,
    ) -> Option<(usize, u32)> {
        let layer = self.view.layer(neighbour, level);
        let (worst, worst_distance) = layer.worst();
        if pressure == Pressure::None && distance >= worst_distance {
            return None;
        }
        let m = self.view.shape.config.m;
        let links_of = |slot: u32| self.view.layer(slot, level).count();
        let needed = if pressure == Pressure::None { m / 2 } else { m / 4 };
        if let Some(slot) = layer.link(worst).filter(|slot| links_of(*slot) > needed) {
            return Some((worst, slot));
        }
        if pressure != Pressure::High {
            return None;
        }
        // The farthest of those that stay well connected.
        let spared = layer.slots().enumerate().filter(|(_, slot)| links_of(*slot) > m / 4);
        let farthest = spared.map(|(index, slot)| (self.view.distance(neighbour, slot), index, slot));
        farthest.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, index, slot)| (index, slot))
    }

    /// Links a node that has found no neighbour at all with the nearest candidate, whatever room that has.
    pub(super) fn adopt(&self, node: u32, candidates: &[Candidate]) {
        if let Some(nearest) = candidates.iter().find(|candidate| candidate.slot() != node) {
            self.link_with_growth(node, nearest.slot(), 0, nearest.distance(), CAPACITY_MAX);
        }
    }

    /// Links with a neighbour that can spare none of its links, by giving it room for one more, up to a
    /// limit.
    fn link_with_growth(&self, node: u32, neighbour: u32, level: usize, distance: f32, limit: usize) {
        let _locked = self.lock([node, neighbour]);
        let (own, theirs) = (self.view.layer(node, level), self.view.layer(neighbour, level));
        let can_link = own.count() < own.capacity() && own.position(neighbour).is_none();
        if !can_link || theirs.capacity() == 0 {
            return;
        }
        if theirs.count() >= theirs.capacity() {
            if theirs.capacity() >= limit {
                return;
            }
            self.grow(neighbour, level, theirs.capacity() + 1);
        }
        // The layer has moved if it grew.
        if self.view.layer(neighbour, level).push(node, distance) {
            own.push(neighbour, distance);
        }
    }

    /// Removes the link from `slot` to `to`. The page of `slot` is locked.
    pub(super) fn unlink_one_way(&self, slot: u32, to: u32, level: usize) {
        let layer = self.view.layer(slot, level);
        if let Some(index) = layer.position(to)
            && layer.remove(index)
        {
            self.find_worst(slot, level);
        }
    }

    /// Finds out again which link is the most distant one. The slot's page is locked.
    pub(super) fn find_worst(&self, slot: u32, level: usize) {
        let layer = self.view.layer(slot, level);
        let distances = layer.slots().map(|linked| self.view.distance(slot, linked)).enumerate();
        let worst = distances.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let (index, distance) = worst.unwrap_or((0, 0.0));
        layer.set_worst(index, distance);
    }
}
