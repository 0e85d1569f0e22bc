//! Expiry of fields: the earliest time at or below each slot, and collection of due ones.
//!
//! Recorded times are lower bounds: removing or prolonging an entry leaves them unchanged, and the next
//! collection corrects them.

use super::node::{Child, Node, Slot};
use super::{Entry, Kind, NO_EXPIRY, Table};

impl<K: Kind> Table<K> {
    /// Number of entries with an expiry time.
    #[inline]
    pub fn timed_len(&self) -> usize {
        self.timed
    }

    /// A time before which no entry expires; [`NO_EXPIRY`] if no entry has an expiry time.
    #[inline]
    pub fn next_expiry_ms(&self) -> i64 {
        if self.timed == 0 { NO_EXPIRY } else { self.earliest_expiry_ms }
    }

    /// Records an expiry time on the way to `hash`, whose nodes have one reference.
    pub(super) fn note_expiry(&mut self, hash: u64, expire_at_ms: i64) {
        if self.timed == 1 {
            // Whatever was recorded before is of entries that are gone.
            self.earliest_expiry_ms = expire_at_ms;
        }
        self.earliest_expiry_ms = self.earliest_expiry_ms.min(expire_at_ms);
        let mut slot = self.root;
        let mut above: Option<(Node, usize)> = None;
        let mut rest = hash;
        while let Child::Node(node) = slot.child() {
            let node = self.with_expiries(above, node);
            let index = node.index(rest);
            let start = node.run(index).0;
            node.set_expiry(start, node.expiry(start).min(expire_at_ms));
            rest <<= node.bits();
            above = Some((node, index));
            slot = node.slot(index);
        }
    }

    /// Removes entries whose time is `now_ms` or earlier, at most `limit`, and hands each to `f` before.
    /// Returns how many.
    pub fn collect_expired(&mut self, now_ms: i64, limit: usize, mut f: impl FnMut(Entry<'_>)) -> usize {
        let mut collected = 0;
        while collected < limit && self.next_expiry_ms() <= now_ms {
            if self.excess_expiry() <= now_ms {
                collected += self.collect_excess(now_ms, limit - collected, &mut f);
                continue;
            }
            let hash = first_due(self.root, now_ms);
            collected += self.collect_leaf(hash, now_ms, limit - collected, &mut f);
            self.refresh_earliest(hash);
            self.shrink(hash);
        }
        collected
    }

    /// Collects from the leaf of `hash`.
    fn collect_leaf(&mut self, hash: u64, now_ms: i64, limit: usize, f: &mut impl FnMut(Entry<'_>)) -> usize {
        let mut collected = 0;
        let mut from = 0;
        while let Some(mut spot) = self.spot(hash) {
            if spot.shared || !spot.leaf.is_unique() {
                self.make_writable(spot, hash);
                continue;
            }
            while collected < limit && spot.leaf.timed() > 0 {
                let Some((place, next)) = spot.leaf.next_place(from) else { break };
                from = next;
                let entry = spot.leaf.entry::<K>(place);
                if entry.expire_at_ms > now_ms {
                    continue;
                }
                f(entry);
                self.heap_bytes -= entry.blob_bytes();
                self.timed -= 1;
                self.len -= 1;
                collected += 1;
                let entry_hash = K::hash(entry.field);
                spot.leaf.erase::<K>(entry_hash, place);
            }
            break;
        }
        collected
    }

    /// Recomputes the recorded times on the way to `hash`, whose nodes have one reference, from the leaf up.
    fn refresh_earliest(&mut self, hash: u64) {
        let mut way: Vec<(Node, usize)> = Vec::new();
        let mut slot = self.root;
        let mut rest = hash;
        while let Child::Node(node) = slot.child() {
            let index = node.index(rest);
            way.push((node, index));
            rest <<= node.bits();
            slot = node.slot(index);
        }
        let mut earliest = match slot.child() {
            Child::Leaf(leaf) => leaf.earliest_expiry::<K>(),
            _ => NO_EXPIRY,
        };
        while let Some((node, index)) = way.pop() {
            if node.expiry(node.run(index).0) != earliest {
                node.set_expiry(node.run(index).0, earliest);
            }
            earliest = node.earliest_expiry();
        }
        self.earliest_expiry_ms = earliest.min(self.excess_expiry());
    }
}

/// A hash whose leaf may hold an entry that is due. Where a recorded time was too early, the way there is as
/// good as any: the collection puts it right.
fn first_due(root: Slot, now_ms: i64) -> u64 {
    let mut slot = root;
    let (mut hash, mut depth) = (0u64, 0);
    while let Child::Node(node) = slot.child() {
        let index = (0..node.len()).find(|&index| node.expiry(index) <= now_ms).unwrap_or(0);
        depth += node.bits();
        hash |= (index as u64) << (64 - depth);
        slot = node.slot(index);
    }
    hash
}
