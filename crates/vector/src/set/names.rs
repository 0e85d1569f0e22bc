//! The elements of a vector set by name: ascending, in chunks that clones share until one of the two changes
//! them.
//!
//! Invariant: no chunk is empty or has more than [`CHUNK_MAX`] entries; names ascend within and across
//! chunks.

use crate::element::Element;
use std::ops::Bound;
use std::sync::Arc;

/// Entries of a chunk.
const CHUNK_MAX: usize = 128;

#[derive(Clone, Debug)]
struct Entry {
    element: Arc<Element>,
    slot: u32,
}

impl Entry {
    fn name(&self) -> &[u8] {
        &self.element.name
    }
}

/// See the [module docs](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    chunks: Vec<Arc<Vec<Entry>>>,
    len: usize,
    /// Entries for which all chunks have room.
    room: usize,
}

impl Names {
    /// From elements with their slots, ascending and each name once.
    pub(super) fn from_sorted(elements: Vec<(Arc<Element>, u32)>) -> Names {
        let len = elements.len();
        let mut chunks = Vec::with_capacity(len.div_ceil(CHUNK_MAX * 3 / 4));
        let mut entries = elements.into_iter().map(|(element, slot)| Entry { element, slot }).peekable();
        while entries.peek().is_some() {
            let mut chunk = Vec::with_capacity(CHUNK_MAX);
            chunk.extend(entries.by_ref().take(CHUNK_MAX * 3 / 4));
            chunks.push(Arc::new(chunk));
        }
        let room = chunks.iter().map(|chunk: &Arc<Vec<Entry>>| chunk.capacity()).sum();
        Names { chunks, len, room }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes on the heap, the elements apart.
    pub(super) fn heap_bytes(&self) -> usize {
        let header = size_of::<Vec<Entry>>() + 2 * size_of::<usize>();
        let entries = self.chunks.len() * header + self.room * size_of::<Entry>();
        self.chunks.capacity() * size_of::<Arc<Vec<Entry>>>() + entries
    }

    /// Changes a chunk, which is this one's own from now on.
    fn edit<R>(&mut self, number: usize, edit: impl FnOnce(&mut Vec<Entry>) -> R) -> Option<R> {
        let chunk = self.chunks.get_mut(number)?;
        self.room -= chunk.capacity();
        let chunk = Arc::make_mut(chunk);
        let result = edit(chunk);
        self.room += chunk.capacity();
        Some(result)
    }

    fn insert_chunk(&mut self, number: usize, chunk: Vec<Entry>) {
        self.room += chunk.capacity();
        self.chunks.insert(number, Arc::new(chunk));
    }

    fn remove_chunk(&mut self, number: usize) -> Arc<Vec<Entry>> {
        let chunk = self.chunks.remove(number);
        self.room -= chunk.capacity();
        chunk
    }

    /// The chunk that has the name if any does, and the place in it or where it belongs.
    fn find(&self, name: &[u8]) -> (usize, Result<usize, usize>) {
        let after =
            self.chunks.partition_point(|chunk| chunk.first().is_some_and(|entry| entry.name() <= name));
        let number = after.saturating_sub(1);
        let place = self
            .chunks
            .get(number)
            .map_or(Err(0), |chunk| chunk.binary_search_by(|entry| entry.name().cmp(name)));
        (number, place)
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<(u32, &Arc<Element>)> {
        let (number, place) = self.find(name);
        let entry = self.chunks.get(number)?.get(place.ok()?)?;
        Some((entry.slot, &entry.element))
    }

    /// Adds an element, or replaces the one of its name.
    pub(super) fn put(&mut self, element: Arc<Element>, slot: u32) {
        let (number, place) = self.find(&element.name);
        let entry = Entry { element, slot };
        if self.chunks.is_empty() {
            self.insert_chunk(0, vec![entry]);
            self.len = 1;
            return;
        }
        self.len += usize::from(place.is_err());
        let len = self.edit(number, |chunk| {
            match place {
                Ok(at) => chunk[at] = entry,
                Err(at) => chunk.insert(at, entry),
            }
            chunk.len()
        });
        if len.is_some_and(|len| len > CHUNK_MAX) {
            self.split(number);
        }
    }

    /// Halves a chunk; the last one keeps nearly all, for names that come in order.
    fn split(&mut self, number: usize) {
        let keep = if number + 1 == self.chunks.len() { CHUNK_MAX * 7 / 8 } else { CHUNK_MAX / 2 };
        let upper = self.edit(number, |chunk| {
            let upper = chunk.split_off(keep.min(chunk.len()));
            chunk.shrink_to(CHUNK_MAX);
            upper
        });
        upper.into_iter().for_each(|upper| self.insert_chunk(number + 1, upper));
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Option<(u32, Arc<Element>)> {
        let (number, place) = self.find(name);
        let at = place.ok()?;
        let (entry, left) = self.edit(number, |chunk| (chunk.remove(at), chunk.len()))?;
        self.len -= 1;
        if left == 0 {
            self.remove_chunk(number);
        } else if left < CHUNK_MAX / 4 {
            self.merge(number);
        }
        Some((entry.slot, entry.element))
    }

    /// Joins a sparse chunk with a neighbour, if both fit well into one.
    fn merge(&mut self, number: usize) {
        let first = if number + 1 < self.chunks.len() { number } else { number.saturating_sub(1) };
        let fits = |pair: &[Arc<Vec<Entry>>]| {
            pair.iter().map(|chunk| chunk.len()).sum::<usize>() <= CHUNK_MAX * 3 / 4
        };
        if self.chunks.get(first..first + 2).is_some_and(fits) {
            let upper = self.remove_chunk(first + 1);
            self.edit(first, |chunk| chunk.extend(upper.iter().cloned()));
        }
    }

    /// The elements between two names.
    pub(super) fn range<'a>(
        &'a self,
        from: Bound<&[u8]>,
        to: Bound<&'a [u8]>,
    ) -> impl Iterator<Item = &'a Arc<Element>> {
        let (number, at) = match from {
            Bound::Unbounded => (0, 0),
            Bound::Included(name) => {
                let (number, place) = self.find(name);
                (number, place.unwrap_or_else(|at| at))
            }
            Bound::Excluded(name) => {
                let (number, place) = self.find(name);
                (number, place.map_or_else(|at| at, |at| at + 1))
            }
        };
        let within = move |element: &&Arc<Element>| match to {
            Bound::Unbounded => true,
            Bound::Included(name) => *element.name <= *name,
            Bound::Excluded(name) => *element.name < *name,
        };
        let chunks = self.chunks.get(number..).unwrap_or_default();
        chunks.iter().flat_map(|chunk| chunk.iter()).skip(at).map(|entry| &entry.element).take_while(within)
    }
}
