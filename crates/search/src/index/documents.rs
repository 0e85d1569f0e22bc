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
    /// Values by which results are sorted, in the order of the schema's sortable fields.
    pub sortables: Box<[Sortable]>,
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

/// A value by which results are sorted.
#[derive(Clone, Debug, PartialEq)]
pub enum Sortable {
    /// The document does not have the field.
    Missing,
    /// A number.
    Number(f64),
    /// A text or tag; normalised unless the field is UNF.
    Text(Box<[u8]>),
}

#[derive(Debug, Default)]
struct Page {
    live: [u64; PAGE_WORDS],
    count: u16,
    /// Empty once the page has no live document and will get no more.
    documents: Vec<Option<Box<Document>>>,
    ranks: Vec<Rank>,
}

impl Page {
    fn heap_bytes(&self) -> usize {
        self.documents.capacity() * size_of::<Option<Box<Document>>>()
            + self.ranks.capacity() * size_of::<Rank>()
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
    /// The part of the heap that values have by which results are sorted.
    sortables: usize,
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
            + self.key_table_bytes()
    }

    /// Bytes of [`Documents::heap_bytes`] that the values have by which results are sorted.
    pub fn sortable_bytes(&self) -> usize {
        self.sortables
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

    /// The id of a key's document.
    pub fn find(&self, key: &[u8]) -> Option<DocId> {
        let is_it = |&id: &DocId| self.get(id).is_some_and(|document| *document.key == *key);
        self.by_key.find(hash_bytes(key), is_it).copied()
    }

    /// Adds a document, whose key has none, and returns its id.
    pub fn add(&mut self, document: Document, rank: Rank) -> DocId {
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
        self.sortables += sortables_of(&document);
        let hash = hash_bytes(&document.key);
        if let Some(page) = self.pages.back_mut() {
            let at = id as usize % PAGE;
            page.live[at / 64] |= 1 << (at % 64);
            page.count += 1;
            page.documents.push(Some(Box::new(document)));
            page.ranks.push(rank);
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
        if page.count == 0 && index + 1 < self.pages.len() {
            (self.pages[index].documents, self.pages[index].ranks) = (Vec::new(), Vec::new());
        }
        if let Ok(entry) = self.by_key.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
        self.total_length -= u64::from(length);
        self.heap -= heap_of(&document);
        self.sortables -= sortables_of(&document);
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

fn sortables_of(document: &Document) -> usize {
    let texts = document.sortables.iter().map(|value| match value {
        Sortable::Text(text) => text.len(),
        _ => 0,
    });
    size_of_val(&*document.sortables) + texts.sum::<usize>()
}

fn heap_of(document: &Document) -> usize {
    size_of::<Document>()
        + document.key.len()
        + sortables_of(document)
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
        Document {
            key: key.as_bytes().into(),
            fingerprint: 0,
            sortables: Box::new([]),
            payload: None,
            vectors: Box::new([]),
        }
    }

    fn rank(length: u32) -> Rank {
        Rank { sequence: 0, score: 1.0, length, max_frequency: 1 }
    }

    #[test]
    fn documents_are_found_by_id_and_key() {
        let seed = Random::from_entropy().next_u64();
        let mut random = Random::seeded(seed);
        let mut documents = Documents::default();
        let mut model = BTreeMap::<String, (DocId, u32)>::new();
        for round in 0..20_000 {
            let key = format!("k{}", random.below(if round < 12_000 { 3_000 } else { 40 }));
            let old = model.remove(&key);
            assert_eq!(documents.find(key.as_bytes()), old.map(|(id, _)| id), "seed {seed}");
            if let Some((id, length)) = old {
                assert!(documents.is_live(id));
                assert_eq!(documents.rank(id), rank(length));
                assert_eq!(*documents.remove(id).unwrap().key, *key.as_bytes());
                assert!(
                    !documents.is_live(id) && documents.get(id).is_none() && documents.remove(id).is_none()
                );
            }
            if random.below(4) > 0 {
                let length = random.below(100) as u32;
                let id = documents.add(document(&key), rank(length));
                model.insert(key, (id, length));
            }
        }
        assert_eq!(documents.len(), model.len());
        assert_eq!(
            documents.total_length(),
            model.values().map(|&(_, length)| u64::from(length)).sum::<u64>()
        );
        let mut ids: Vec<DocId> = model.values().map(|&(id, _)| id).collect();
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
            documents.add(document(&at.to_string()), rank(1));
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
                documents.add(old, rank(1));
            }
        }
        assert_eq!(documents.len(), 9 * PAGE / 100 + 1 + PAGE);
        assert_eq!(documents.first_id(), 9 * PAGE as u64);
    }
}
