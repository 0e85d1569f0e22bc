//! The links of one node on one layer: a slice of words that readers walk without a lock while one writer,
//! who has the node's page locked, changes it.
//!
//! Word 0 is the number of links and, in its upper half, the index of the most distant one; word 1 is that
//! one's distance; the links, as slots, follow. Every word is at all times a number that was once right: a
//! reader may see a link twice, or one that was just removed, but never one that leads nowhere, since slots
//! are freed only while no reader is there.

use std::sync::atomic::{AtomicU32, Ordering};

/// Words before the links.
pub(super) const HEADER_WORDS: usize = 2;
/// The count of an inline layer whose links have moved to the node's spill.
pub(super) const SPILLED: u32 = 0xffff;
/// Links that a layer may have room for: what Redis accepts in a file (four times its largest M).
pub(super) const CAPACITY_MAX: usize = 4096 * 4;

/// A layer's words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer<'a> {
    words: &'a [AtomicU32],
}

/// Makes the words of an empty layer.
pub(super) fn new_words(capacity: usize) -> Box<[AtomicU32]> {
    (0..HEADER_WORDS + capacity).map(|_| AtomicU32::new(0)).collect()
}

impl<'a> Layer<'a> {
    /// `words` begin with the header.
    #[inline]
    pub(super) fn new(words: &'a [AtomicU32]) -> Layer<'a> {
        Layer { words }
    }

    #[inline]
    fn header(self) -> u32 {
        self.words.first().map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn set_header(self, count: usize, worst: usize) {
        if let Some(word) = self.words.first() {
            word.store(count as u32 | (worst as u32) << 16, Ordering::Release);
        }
    }

    fn set_worst_distance(self, distance: f32) {
        if let Some(word) = self.words.get(1) {
            word.store(distance.to_bits(), Ordering::Relaxed);
        }
    }

    /// Asks the processor for the words.
    #[inline]
    pub(super) fn prefetch(self) {
        use martlet_base::prefetch::{CACHE_LINE_BYTES, prefetch};
        let first = self.words.as_ptr().cast::<u8>();
        for line in 0..size_of_val(self.words).div_ceil(CACHE_LINE_BYTES).min(4) {
            prefetch(first.wrapping_add(line * CACHE_LINE_BYTES));
        }
    }

    /// Whether the links have moved to the node's spill.
    #[inline]
    pub(super) fn is_spilled(self) -> bool {
        self.header() & 0xffff == SPILLED
    }

    /// Sends readers to the node's spill.
    pub(super) fn mark_spilled(self) {
        self.set_header(SPILLED as usize, 0);
    }

    /// Makes the layer empty.
    pub(super) fn clear(self) {
        self.set_header(0, 0);
        self.set_worst_distance(0.0);
    }

    /// The number of links.
    #[inline]
    pub(super) fn count(self) -> usize {
        ((self.header() & 0xffff) as usize).min(self.capacity())
    }

    /// Links that there is room for.
    #[inline]
    pub(super) fn capacity(self) -> usize {
        self.words.len().saturating_sub(HEADER_WORDS)
    }

    /// The words of the links, as many as there are.
    #[inline]
    pub(super) fn links(self) -> &'a [AtomicU32] {
        &self.words[HEADER_WORDS..HEADER_WORDS + self.count()]
    }

    /// The slots that are linked to.
    #[inline]
    pub(super) fn slots(self) -> impl ExactSizeIterator<Item = u32> + 'a {
        self.links().iter().map(|word| word.load(Ordering::Acquire))
    }

    /// The link at `index`.
    pub(super) fn link(self, index: usize) -> Option<u32> {
        self.links().get(index).map(|word| word.load(Ordering::Acquire))
    }

    /// Where the link to `slot` is.
    pub(super) fn position(self, slot: u32) -> Option<usize> {
        self.slots().position(|linked| linked == slot)
    }

    /// The most distant link: its index and its distance. (0, 0) for an empty layer.
    pub(super) fn worst(self) -> (usize, f32) {
        let bits = self.words.get(1).map_or(0, |word| word.load(Ordering::Relaxed));
        ((self.header() >> 16) as usize, f32::from_bits(bits))
    }

    /// Records which link is the most distant one.
    pub(super) fn set_worst(self, index: usize, distance: f32) {
        self.set_worst_distance(distance);
        self.set_header(self.count(), index);
    }

    /// Adds a link; false when there is no room.
    pub(super) fn push(self, slot: u32, distance: f32) -> bool {
        let count = self.count();
        let Some(word) = self.words.get(HEADER_WORDS + count) else { return false };
        word.store(slot, Ordering::Release);
        let (worst, worst_distance) = self.worst();
        if count == 0 || distance > worst_distance {
            self.set_worst_distance(distance);
            self.set_header(count + 1, count);
        } else {
            self.set_header(count + 1, worst);
        }
        true
    }

    /// Puts `slot` in the place of the link at `index`. The caller sets the worst one again.
    pub(super) fn replace(self, index: usize, slot: u32) {
        if let Some(word) = self.links().get(index) {
            word.store(slot, Ordering::Release);
        }
    }

    /// Removes the link at `index`, keeping the others' order; true when it was the most distant one, which
    /// the caller then has to find again.
    pub(super) fn remove(self, index: usize) -> bool {
        let (links, count, (worst, _)) = (self.links(), self.count(), self.worst());
        for at in index..count.saturating_sub(1) {
            links[at].store(links[at + 1].load(Ordering::Relaxed), Ordering::Release);
        }
        let moved = if index < worst { worst - 1 } else { worst };
        self.set_header(count.saturating_sub(1), if index == worst { 0 } else { moved });
        index == worst
    }

    /// Copies `other`, which is no longer than this.
    pub(super) fn copy_from(self, other: Layer<'_>) {
        for (to, from) in self.words.iter().zip(other.words) {
            to.store(from.load(Ordering::Acquire), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_link_is_known_through_changes() {
        let words = new_words(4);
        let layer = Layer::new(&words);
        assert!(layer.push(7, 0.5) && layer.push(8, 0.9) && layer.push(9, 0.1));
        assert_eq!((layer.count(), layer.worst()), (3, (1, 0.9)));
        assert!(!layer.remove(0), "it was not the worst");
        assert_eq!(layer.worst(), (0, 0.9));
        assert!(layer.remove(0), "it was the worst");
        layer.set_worst(0, 0.1);
        assert_eq!(layer.slots().collect::<Vec<_>>(), [9]);
        assert!(layer.push(1, 0.2) && layer.push(2, 0.2) && layer.push(3, 0.1) && !layer.push(4, 0.0));
        assert_eq!(layer.worst(), (1, 0.2));
        assert_eq!(layer.position(3), Some(3));
        layer.mark_spilled();
        assert!(layer.is_spilled());
        layer.clear();
        assert_eq!((layer.count(), layer.worst()), (0, (0, 0.0)));
    }
}
