//! The documents of a partition, by id and by name; which ids are live.
//!
//! Ids stand in pages of 1,024. A page without live documents is dropped; one in which few are left is
//! reported, so that its documents can be given new ids and the page goes too.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashTable;
use martlet_base::hash::hash_bytes;

use super::DocId;
use super::bits::{Bits, WINDOW};
use super::sortables::{Cell, Packed, Sortable, SortableRef, Texts};
use super::vectors::Place;

/// Ids of a page; a window is whole pages.
pub const PAGE: usize = 1024;
const PAGE_WORDS: usize = PAGE / 64;
/// A page in which fewer documents are live is worth emptying.
const SPARSE: usize = PAGE / 4;
const _: () = assert!(WINDOW.is_multiple_of(PAGE));

/// What an index keeps of a document beside its terms and values.
#[derive(Debug)]
pub struct Document {
    /// The key.
    pub key: Box<[u8]>,
    /// A hash of everything that was indexed: equal contents need not be indexed again.
    pub fingerprint: u64,
    /// The payload.
    pub payload: Option<Box<[u8]>>,
    /// Its vectors.
    pub vectors: Box<[VectorOf]>,
}

/// What the order of results depends on. Pages have these in a row: a query asks for those of all documents
/// that it finds, and for few of the documents themselves.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Rank {
    /// The number of its first appearance in the index: results of equal score come in this order.
    pub sequence: u64,
    /// Its own score, between 0 and 1.
    pub score: f32,
    /// How many terms it has, and how often its most frequent one stands in it.
    pub length: u32,
    /// See `length`.
    pub max_frequency: u32,
    /// How many of its fields have a vector.
    pub vector_fields: u32,
}

/// A vector of a document.
#[derive(Clone, Debug)]
pub struct VectorOf {
    /// The field.
    pub field: usize,
    /// The handle by which it is removed.
    pub handle: u32,
    /// The place by which it is found.
    pub place: Arc<Place>,
}

#[derive(Debug, Default)]
struct Page {
    live: [u64; PAGE_WORDS],
    count: u16,
    /// Empty once the page has no live document and will get no more.
    documents: Vec<Option<Box<Document>>>,
    ranks: Vec<Rank>,
    /// By sortable field the cells of the documents; the ones at the end that miss the field are left out.
    columns: Vec<Vec<Packed>>,
}

impl Page {
    fn heap_bytes(&self) -> usize {
        self.documents.capacity() * size_of::<Option<Box<Document>>>()
            + self.ranks.capacity() * size_of::<Rank>()
            + self.columns_bytes()
    }

    fn columns_bytes(&self) -> usize {
        self.columns.capacity() * size_of::<Vec<Packed>>()
            + self.columns.iter().map(|column| column.capacity() * size_of::<Packed>()).sum::<usize>()
    }
}

/// See the [module docs](self).
#[derive(Debug, Default)]
pub struct Documents {
    pages: VecDeque<Page>,
    /// The number of the first page that is still there.
    first: u64,
    next: DocId,
    by_key: HashTable<DocId>,
    total_length: u64,
    heap: usize,
    /// By sortable field the texts of its column.
    texts: Vec<Texts>,
}

impl Documents {
    /// How many documents are live.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The id that the next document gets: all ids are below.
    pub fn next_id(&self) -> DocId {
        self.next
    }

    /// The sum of all live documents' lengths.
    pub fn total_length(&self) -> u64 {
        self.total_length
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.heap
            + self.pages.capacity() * size_of::<Page>()
            + self.pages.iter().map(Page::heap_bytes).sum::<usize>()
            + self.texts.iter().map(Texts::heap_bytes).sum::<usize>()
            + self.key_table_bytes()
    }

    /// Bytes of [`Documents::heap_bytes`] that the values have by which results are sorted.
    pub fn sortable_bytes(&self) -> usize {
        self.texts.iter().map(Texts::heap_bytes).sum::<usize>()
            + self.pages.iter().map(Page::columns_bytes).sum::<usize>()
    }

    /// Bytes of [`Documents::heap_bytes`] that the table from key to document has.
    pub fn key_table_bytes(&self) -> usize {
        self.by_key.capacity() * (size_of::<DocId>() + 1)
    }

    fn page(&self, id: DocId) -> Option<&Page> {
        self.pages.get(usize::try_from((id / PAGE as u64).checked_sub(self.first)?).ok()?)
    }

    /// The document of an id, if it is live.
    #[inline]
    pub fn get(&self, id: DocId) -> Option<&Document> {
        self.page(id)?.documents.get(id as usize % PAGE)?.as_deref()
    }

    /// The rank of a live document's id.
    #[inline]
    pub fn rank(&self, id: DocId) -> Rank {
        self.page(id).and_then(|page| page.ranks.get(id as usize % PAGE)).copied().unwrap_or_default()
    }

    /// The value by which a live document is sorted, of the sortable field at this place among those.
    #[inline]
    pub fn sortable(&self, id: DocId, place: usize) -> SortableRef<'_> {
        match self.cell(id, place) {
            Cell::Missing => SortableRef::Missing,
            Cell::Number(number) => SortableRef::Number(number),
            Cell::Text(code) => match self.texts.get(place).and_then(|texts| texts.get(code)) {
                Some(text) => SortableRef::Text(text),
                None => SortableRef::Missing,
            },
        }
    }

    /// As [`Documents::sortable`], with a text as its code.
    #[inline]
    pub fn cell(&self, id: DocId, place: usize) -> Cell {
        let column = self.page(id).and_then(|page| page.columns.get(place));
        column.and_then(|column| column.get(id as usize % PAGE)).map_or(Cell::Missing, |cell| cell.cell())
    }

    /// The texts of the sortable field at this place among those; none if no document has had one.
    pub fn texts(&self, place: usize) -> Option<&Texts> {
        self.texts.get(place)
    }

    /// The id of a key's document.
    pub fn find(&self, key: &[u8]) -> Option<DocId> {
        let is_it = |&id: &DocId| self.get(id).is_some_and(|document| *document.key == *key);
        self.by_key.find(hash_bytes(key), is_it).copied()
    }

    /// Adds a document, whose key has none, and returns its id. `sortables` are in the order of the schema's
    /// sortable fields.
    pub fn add(&mut self, document: Document, rank: Rank, sortables: &[Sortable]) -> DocId {
        let id = self.next;
        self.next += 1;
        if id.is_multiple_of(PAGE as u64) {
            if self.pages.is_empty() {
                self.first = id / PAGE as u64;
            }
            self.pages.push_back(Page::default());
        }
        self.total_length += u64::from(rank.length);
        self.heap += heap_of(&document);
        self.texts.resize_with(self.texts.len().max(sortables.len()), Texts::default);
        let hash = hash_bytes(&document.key);
        if let Some(page) = self.pages.back_mut() {
            let at = id as usize % PAGE;
            page.live[at / 64] |= 1 << (at % 64);
            page.count += 1;
            page.documents.push(Some(Box::new(document)));
            page.ranks.push(rank);
            page.columns.resize_with(page.columns.len().max(sortables.len()), Vec::new);
            for ((column, texts), value) in page.columns.iter_mut().zip(&mut self.texts).zip(sortables) {
                if *value != Sortable::Missing {
                    column.resize(at, Packed::MISSING);
                    column.push(texts.add(value));
                }
            }
        }
        let (pages, first) = (&self.pages, self.first);
        self.by_key.insert_unique(hash, id, |&id| key_hash(pages, first, id));
        id
    }

    /// Takes a live document out; its id is dead from then on.
    pub fn remove(&mut self, id: DocId) -> Option<Document> {
        let index = usize::try_from((id / PAGE as u64).checked_sub(self.first)?).ok()?;
        let hash = key_hash(&self.pages, self.first, id);
        let page = self.pages.get_mut(index)?;
        let at = id as usize % PAGE;
        let document = *page.documents.get_mut(at)?.take()?;
        let length = page.ranks.get(at).map_or(0, |rank| rank.length);
        page.live[at / 64] &= !(1 << (at % 64));
        page.count -= 1;
        for (column, texts) in page.columns.iter_mut().zip(&mut self.texts) {
            if let Some(cell) = column.get_mut(at) {
                texts.release(std::mem::replace(cell, Packed::MISSING));
            }
        }
        let is_over = page.count == 0 && index + 1 < self.pages.len();
        if let Some(page) = self.pages.get_mut(index).filter(|_| is_over) {
            (page.documents, page.ranks, page.columns) = (Vec::new(), Vec::new(), Vec::new());
        }
        if let Ok(entry) = self.by_key.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
        self.total_length -= u64::from(length);
        self.heap -= heap_of(&document);
        while self.pages.len() > 1 && self.pages.front().is_some_and(|page| page.count == 0) {
            self.pages.pop_front();
            self.first += 1;
        }
        Some(document)
    }

    /// Whether an id is live.
    #[inline]
    pub fn is_live(&self, id: DocId) -> bool {
        let at = id as usize % PAGE;
        self.page(id).is_some_and(|page| page.live[at / 64] >> (at % 64) & 1 == 1)
    }

    /// Adds the live ids of a window.
    pub fn live(&self, window: &mut Bits) {
        for page in 0..WINDOW / PAGE {
            if let Some(found) = self.page(window.base() + (page * PAGE) as u64) {
                window.insert_words(page * PAGE_WORDS, &found.live);
            }
        }
    }

    /// The first id that may be live.
    pub fn first_id(&self) -> DocId {
        self.first * PAGE as u64
    }

    /// All live documents, ascending by id.
    pub fn iter(&self) -> impl Iterator<Item = (DocId, &Document)> {
        (self.first..).zip(&self.pages).flat_map(|(number, page)| {
            let ids = number * PAGE as u64..;
            ids.zip(&page.documents).filter_map(|(id, document)| Some((id, document.as_deref()?)))
        })
    }

    /// Keys of up to `count` documents in pages in which few are left; they should be added again.
    pub fn scattered(&self, count: usize) -> Vec<Box<[u8]>> {
        let full = self.pages.len().saturating_sub(1);
        self.pages
            .iter()
            .take(full)
            .filter(|page| page.count > 0 && usize::from(page.count) < SPARSE)
            .flat_map(|page| page.documents.iter().flatten())
            .take(count)
            .map(|document| document.key.clone())
            .collect()
    }
}

fn heap_of(document: &Document) -> usize {
    size_of::<Document>()
        + document.key.len()
        + document.payload.as_ref().map_or(0, |payload| payload.len())
        + size_of_val(&*document.vectors)
}

fn key_hash(pages: &VecDeque<Page>, first: u64, id: DocId) -> u64 {
    let index = (id / PAGE as u64).wrapping_sub(first) as usize;
    pages
        .get(index)
        .and_then(|page| page.documents.get(id as usize % PAGE)?.as_deref())
        .map_or(0, |document| hash_bytes(&document.key))
}

#[cfg(test)]
mod tests {
    use martlet_base::random::Random;

    use super::*;
    use std::collections::BTreeMap;

    fn document(key: &str) -> Document {
        Document { key: key.as_bytes().into(), fingerprint: 0, payload: None, vectors: Box::new([]) }
    }

    fn rank(length: u32) -> Rank {
        Rank { score: 1.0, length, max_frequency: 1, ..Rank::default() }
    }

    fn sortable(random: &mut Random) -> Sortable {
        match random.below(4) {
            0 => Sortable::Missing,
            1 => Sortable::Number(random.below(9) as f64),
            _ => Sortable::Text(format!("text {}", random.below(40)).into_bytes().into()),
        }
    }

    #[test]
    fn documents_are_found_by_id_and_key() {
        let seed = Random::from_entropy().next_u64();
        let mut random = Random::seeded(seed);
        let mut documents = Documents::default();
        let mut model = BTreeMap::<String, (DocId, u32, Vec<Sortable>)>::new();
        for round in 0..20_000 {
            let key = format!("k{}", random.below(if round < 12_000 { 3_000 } else { 40 }));
            let old = model.remove(&key);
            assert_eq!(documents.find(key.as_bytes()), old.as_ref().map(|(id, ..)| *id), "seed {seed}");
            if let Some((id, length, values)) = old {
                assert!(documents.is_live(id));
                for place in 0..3 {
                    let value = values.get(place).map_or(SortableRef::Missing, Sortable::as_ref);
                    assert_eq!(documents.sortable(id, place), value, "seed {seed}");
                }
                assert_eq!(documents.rank(id), rank(length));
                assert_eq!(*documents.remove(id).unwrap().key, *key.as_bytes());
                assert!(
                    !documents.is_live(id) && documents.get(id).is_none() && documents.remove(id).is_none()
                );
            }
            if random.below(4) > 0 {
                let length = random.below(100) as u32;
                let values: Vec<Sortable> = (0..random.below(3)).map(|_| sortable(&mut random)).collect();
                let id = documents.add(document(&key), rank(length), &values);
                model.insert(key, (id, length, values));
            }
        }
        assert_eq!(documents.len(), model.len());
        assert_eq!(
            documents.total_length(),
            model.values().map(|&(_, length, _)| u64::from(length)).sum::<u64>()
        );
        let mut ids: Vec<DocId> = model.values().map(|&(id, ..)| id).collect();
        ids.sort_unstable();
        assert!(documents.iter().map(|(id, _)| id).eq(ids.iter().copied()));
        let mut live = Vec::new();
        for base in (0..documents.next_id()).step_by(WINDOW) {
            let mut window = Bits::empty(base);
            documents.live(&mut window);
            live.extend(window.iter());
        }
        assert_eq!(live, ids, "seed {seed}");
        assert!(ids.first().is_none_or(|&id| id >= documents.first_id()));
    }

    #[test]
    fn documents_that_are_left_over_are_reported_and_their_pages_go() {
        let mut documents = Documents::default();
        for at in 0..10 * PAGE {
            documents.add(document(&at.to_string()), rank(1), &[Sortable::Number(at as f64)]);
        }
        for at in 0..9 * PAGE as u64 {
            if at % 100 != 0 {
                documents.remove(at);
            }
        }
        loop {
            let keys = documents.scattered(5);
            if keys.is_empty() {
                break;
            }
            for key in keys {
                let id = documents.find(&key).unwrap();
                let old = documents.remove(id).unwrap();
                documents.add(old, rank(1), &[]);
            }
        }
        assert_eq!(documents.len(), 9 * PAGE / 100 + 1 + PAGE);
        assert_eq!(documents.first_id(), 9 * PAGE as u64);
    }
}
