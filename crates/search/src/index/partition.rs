//! The part of an index that has a share of its documents. Another lock than the index's own guards each, so
//! that several threads write.

use super::DocId;
use super::content::Content;
use super::dictionary::Dictionary;
use super::documents::{Document, Documents, Rank, VectorOf};
use super::numbers::Numbers;
use super::postings::{Entry, Layout, Postings, encode_positions};
use super::shapes::Shapes;
use super::vectors::Place;
use crate::schema::{Definition, Field, FieldKind};
use std::sync::Arc;

/// A collection of dead entries begins when there are more dead documents than this, and than a quarter of
/// the live.
const DEAD_MIN: usize = 1024;

/// The structure of one field; all text fields share the terms.
#[derive(Debug)]
pub enum FieldIndex {
    /// Nothing: a text, or a field that is not indexed.
    None,
    /// Tags with their documents.
    Tags(Dictionary<Postings>),
    /// Numbers; of points the numbers of their cells.
    Numbers(Numbers),
    /// Shapes.
    Shapes(Shapes),
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct Partition {
    layout: Layout,
    terms: Dictionary<Postings>,
    fields: Vec<FieldIndex>,
    /// By field the documents without it, where they are asked for.
    missing: Vec<Postings>,
    documents: Documents,
    /// Documents that died since the last collection began.
    dead: usize,
    collection: Collection,
    /// How often names were removed from dictionaries: numbers of names hold as long as this stays.
    removals: u64,
    offsets: Offsets,
    collected_bytes: u64,
    positions: Vec<u8>,
    /// The numbers of a document's terms while it is added.
    located: Vec<u32>,
}

/// Sums over all documents that were added to a partition.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Offsets {
    /// Entries, those of tags and numbers included.
    pub records: u64,
    /// The places of terms in documents.
    pub places: u64,
    /// Bytes in which these are coded.
    pub bytes: u64,
}

/// How far a collection of dead entries has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Collection {
    Idle,
    /// In the terms, from a place on.
    Terms(usize),
    /// In a field, from a place on.
    Field(usize, usize),
}

fn index_of(field: &Field) -> FieldIndex {
    match field.kind {
        _ if field.no_index => FieldIndex::None,
        FieldKind::Tag(_) => FieldIndex::Tags(Dictionary::default()),
        FieldKind::Numeric | FieldKind::Geo => FieldIndex::Numbers(Numbers::default()),
        FieldKind::GeoShape(coordinates) => FieldIndex::Shapes(Shapes::new(coordinates)),
        FieldKind::Text(_) | FieldKind::Vector(_) => FieldIndex::None,
    }
}

impl Partition {
    /// An empty partition of an index.
    pub fn new(definition: &Definition) -> Partition {
        let options = &definition.options;
        let mut partition = Partition {
            layout: Layout {
                frequencies: !options.no_freqs,
                fields: !options.no_fields,
                positions: !options.no_offsets,
            },
            terms: Dictionary::default(),
            fields: Vec::new(),
            missing: Vec::new(),
            documents: Documents::default(),
            dead: 0,
            collection: Collection::Idle,
            removals: 0,
            offsets: Offsets::default(),
            collected_bytes: 0,
            positions: Vec::new(),
            located: Vec::new(),
        };
        partition.extend(definition);
        partition
    }

    /// Takes up fields that the definition has since gained.
    pub fn extend(&mut self, definition: &Definition) {
        for field in definition.fields.iter().skip(self.fields.len()) {
            self.fields.push(index_of(field));
            self.missing.push(Postings::default());
        }
    }

    /// What postings of terms keep.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The terms of all text fields.
    pub fn terms(&self) -> &Dictionary<Postings> {
        &self.terms
    }

    /// The tags of a field; none if it has no tags.
    pub fn tags(&self, field: usize) -> Option<&Dictionary<Postings>> {
        match self.fields.get(field)? {
            FieldIndex::Tags(tags) => Some(tags),
            _ => None,
        }
    }

    /// The numbers of a field; none if it has none.
    pub fn numbers(&self, field: usize) -> Option<&Numbers> {
        match self.fields.get(field)? {
            FieldIndex::Numbers(numbers) => Some(numbers),
            _ => None,
        }
    }

    /// The shapes of a field; none if it has none.
    pub fn shapes(&self, field: usize) -> Option<&Shapes> {
        match self.fields.get(field)? {
            FieldIndex::Shapes(shapes) => Some(shapes),
            _ => None,
        }
    }

    /// Bytes that the shapes of all fields take.
    pub fn shape_bytes(&self) -> usize {
        (0..self.fields.len()).filter_map(|field| self.shapes(field)).map(Shapes::heap_bytes).sum()
    }

    /// The documents without a field.
    pub fn missing(&self, field: usize) -> Option<&Postings> {
        self.missing.get(field)
    }

    /// The documents.
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// While this stays equal, a number of a term or tag means the same name.
    pub fn removals(&self) -> u64 {
        self.removals
    }

    /// Sums over all documents that were added so far.
    pub fn offsets(&self) -> Offsets {
        self.offsets
    }

    /// Bytes that collections have freed.
    pub fn collected_bytes(&self) -> u64 {
        self.collected_bytes
    }

    /// Whether a collection is under way.
    pub fn is_collecting(&self) -> bool {
        self.collection != Collection::Idle
    }

    /// Whether a live document has one of these postings.
    pub fn has_live(&self, layout: Layout, postings: &Postings) -> bool {
        let documents = &self.documents;
        let mut is_live = postings.last().is_some_and(|id| documents.is_live(id));
        if !is_live {
            postings.all(layout, |entry| is_live |= documents.is_live(entry.doc));
        }
        is_live
    }

    /// Whether a key's document has this fingerprint: equal contents need not be indexed again.
    pub fn is_same(&self, key: &[u8], fingerprint: u64) -> bool {
        let documents = &self.documents;
        let old = documents.find(key).and_then(|id| documents.get(id));
        old.is_some_and(|document| document.fingerprint == fingerprint)
    }

    /// Indexes a document instead of the one that its key had, which is returned. `vectors` have been added
    /// to the index already. `sequence` gives the document's number if the key is new.
    pub fn put(
        &mut self,
        content: &mut Content,
        vectors: Vec<VectorOf>,
        sequence: impl FnOnce() -> u64,
    ) -> Option<Document> {
        let old = self.documents.find(&content.key);
        let sequence = old.map_or_else(sequence, |id| self.documents.rank(id).sequence);
        let old = old.and_then(|id| self.take(id));
        self.add(content, vectors, sequence);
        old
    }

    /// Gives a document a new id, so that the page of its old one can go. Its contents are the same.
    /// False if it has none.
    pub fn move_up(&mut self, content: &mut Content) -> bool {
        let Some(id) = self.documents.find(&content.key) else { return false };
        let sequence = self.documents.rank(id).sequence;
        let Some(document) = self.take(id) else { return false };
        self.add(content, document.vectors.into_vec(), sequence);
        true
    }

    /// Removes a key's document.
    pub fn remove(&mut self, key: &[u8]) -> Option<Document> {
        self.documents.find(key).and_then(|id| self.take(id))
    }

    fn take(&mut self, id: DocId) -> Option<Document> {
        let document = self.documents.remove(id)?;
        for field in &mut self.fields {
            match field {
                FieldIndex::Numbers(numbers) => {
                    numbers.remove(id);
                    numbers.drop_pages(self.documents.first_id());
                }
                FieldIndex::Shapes(shapes) => shapes.remove(id),
                FieldIndex::None | FieldIndex::Tags(_) => {}
            }
        }
        document.vectors.iter().for_each(|vector| vector.place.unsettle());
        self.dead += 1;
        Some(document)
    }

    fn add(&mut self, content: &mut Content, vectors: Vec<VectorOf>, sequence: u64) {
        let places: Vec<Arc<Place>> = vectors.iter().map(|vector| Arc::clone(&vector.place)).collect();
        let document = Document {
            key: content.key.as_slice().into(),
            fingerprint: content.fingerprint,
            payload: content.payload.take(),
            vectors: vectors.into_boxed_slice(),
        };
        let rank = Rank {
            sequence,
            score: content.score,
            length: content.terms.length(),
            max_frequency: content.terms.max_frequency(),
            vector_fields: content.vector_fields(),
        };
        let id = self.documents.add(document, rank, &content.sortables);
        places.iter().for_each(|place| place.settle(id));
        let (layout, terms, positions) = (self.layout, &mut self.terms, &mut self.positions);
        terms.locate(content.terms.hashes(), &mut self.located);
        for &number in &self.located {
            if let Some((_, postings)) = terms.at(number) {
                postings.prefetch_tail();
            }
        }
        let mut located = self.located.iter();
        let offsets = &mut self.offsets;
        offsets.records += (content.tags.len() + content.numbers.len()) as u64;
        content.terms.each(|term| {
            positions.clear();
            offsets.records += 1;
            if layout.positions {
                encode_positions(positions, term.positions);
                offsets.places += term.positions.len() as u64;
                offsets.bytes += positions.len() as u64;
            }
            let number = terms.add_located(term.name, located.next().copied().unwrap_or(u32::MAX));
            if let Some(postings) = terms.at_mut(number) {
                let entry = Entry { doc: id, frequency: term.frequency, mask: term.mask, positions };
                postings.push(layout, entry);
            }
        });
        let alone = Entry { doc: id, frequency: 1, mask: u128::MAX, positions: &[] };
        for (field, tag) in &content.tags {
            if let Some(FieldIndex::Tags(tags)) = self.fields.get_mut(*field) {
                let number = tags.add(tag).0;
                if let Some(postings) = tags.at_mut(number)
                    && postings.last() != Some(id)
                {
                    postings.push(Layout::IDS, alone);
                }
            }
        }
        for run in content.numbers.chunk_by(|a, b| a.0 == b.0) {
            if let Some(FieldIndex::Numbers(numbers)) = run.first().and_then(|run| self.fields.get_mut(run.0))
            {
                match run {
                    [(_, value)] => numbers.add(id, &[*value]),
                    _ => numbers.add(id, &run.iter().map(|&(_, value)| value).collect::<Vec<_>>()),
                }
            }
        }
        self.add_shapes(id, content);
        for &field in &content.missing {
            if let Some(postings) = self.missing.get_mut(field) {
                postings.push(Layout::IDS, alone);
            }
        }
    }

    fn add_shapes(&mut self, id: DocId, content: &Content) {
        for (field, shape) in &content.shapes {
            if let Some(FieldIndex::Shapes(shapes)) = self.fields.get_mut(*field) {
                shapes.add(id, shape);
            }
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let dictionary = |names: &Dictionary<Postings>| {
            names.heap_bytes() + names.iter().map(|(_, postings)| postings.heap_bytes()).sum::<usize>()
        };
        let fields = self.fields.iter().map(|field| match field {
            FieldIndex::None => 0,
            FieldIndex::Tags(tags) => dictionary(tags),
            FieldIndex::Numbers(numbers) => numbers.heap_bytes(),
            FieldIndex::Shapes(shapes) => shapes.heap_bytes(),
        });
        dictionary(&self.terms)
            + fields.sum::<usize>()
            + self.missing.iter().map(Postings::heap_bytes).sum::<usize>()
            + self.documents.heap_bytes()
    }

    /// Whether a collection is due, by the number of dead documents, or under way.
    pub fn wants_collection(&self) -> bool {
        self.collection != Collection::Idle || self.dead > DEAD_MIN.max(self.documents.len() / 4)
    }

    /// Passes over about `count` terms or tags, and drops what dead documents have there. Returns whether the
    /// collection is over.
    pub fn collect(&mut self, count: usize) -> bool {
        if self.collection == Collection::Idle {
            self.dead = 0;
            self.collection = Collection::Terms(0);
        }
        let (documents, layout) = (&self.documents, self.layout);
        let (mut removals, mut collected_bytes) = (0, 0);
        let mut sweep = |names: &mut Dictionary<Postings>, place, layout| {
            names.sweep(place, count, |postings| {
                let before = postings.heap_bytes();
                postings.retain(layout, |id| documents.is_live(id));
                collected_bytes += before.saturating_sub(postings.heap_bytes()) as u64;
                removals += u64::from(postings.is_empty());
                !postings.is_empty()
            })
        };
        self.collection = match self.collection {
            Collection::Idle | Collection::Terms(_) => {
                let place = if let Collection::Terms(place) = self.collection { place } else { 0 };
                match sweep(&mut self.terms, place, layout) {
                    Some(place) => Collection::Terms(place),
                    None => Collection::Field(0, 0),
                }
            }
            Collection::Field(field, place) => match self.fields.get_mut(field) {
                None => Collection::Idle,
                Some(FieldIndex::Tags(tags)) => match sweep(tags, place, Layout::IDS) {
                    Some(place) => Collection::Field(field, place),
                    None => Collection::Field(field + 1, 0),
                },
                Some(_) => {
                    self.missing[field].retain(Layout::IDS, |id| documents.is_live(id));
                    Collection::Field(field + 1, 0)
                }
            },
        };
        self.removals += removals;
        self.collected_bytes += collected_bytes;
        self.collection == Collection::Idle
    }
}

#[cfg(test)]
pub(crate) mod tests;
