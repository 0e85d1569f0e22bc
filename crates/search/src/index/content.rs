//! A document after its analysis, before it goes into a partition: nothing of it is locked.

use std::sync::Arc;

use hashbrown::HashTable;
use martlet_base::hash::hash_bytes;

use super::sortables::Sortable;
use crate::error::Error;
use crate::geometry::Shape;

/// A document's terms: how often each stands in it, in which fields, where. It is filled, read and cleared,
/// and keeps its memory.
#[derive(Debug, Default)]
pub struct Terms {
    names: Vec<u8>,
    terms: Vec<Term>,
    table: HashTable<u32>,
    /// The places of all terms in the order in which they were added: term, position.
    places: Vec<(u32, u32)>,
    /// The same by term.
    grouped: Vec<u32>,
    length: u64,
}

#[derive(Clone, Debug)]
struct Term {
    name: std::ops::Range<usize>,
    hash: u64,
    frequency: u32,
    mask: u128,
    places: u32,
}

/// A term of a document.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TermOf<'a> {
    /// The term.
    pub name: &'a [u8],
    /// The sum of its places' weights.
    pub frequency: u32,
    /// A bit for each field that has it.
    pub mask: u128,
    /// Where, ascending.
    pub positions: &'a [u32],
}

impl Terms {
    /// Forgets the terms.
    pub fn clear(&mut self) {
        self.names.clear();
        self.terms.clear();
        self.table.clear();
        self.places.clear();
        self.length = 0;
    }

    /// Adds a place of a term: its field's bit, its position (which rises from call to call, but for terms
    /// that share one), and its weight. A word counts towards the document's length; its stem or sound does
    /// not.
    pub fn add(&mut self, name: &[u8], field: u32, position: u32, weight: u32, is_word: bool) {
        let hash = hash_bytes(name);
        let is_it = |&at: &u32| self.terms[at as usize].name_in(&self.names) == name;
        let at = match self.table.find(hash, is_it) {
            Some(&at) => at,
            None => {
                let at = self.terms.len() as u32;
                let begin = self.names.len();
                self.names.extend_from_slice(name);
                let name = begin..self.names.len();
                self.terms.push(Term { name, hash, frequency: 0, mask: 0, places: 0 });
                let terms = &self.terms;
                self.table.insert_unique(hash, at, |&at| terms[at as usize].hash);
                at
            }
        };
        let term = &mut self.terms[at as usize];
        term.frequency = term.frequency.saturating_add(weight);
        term.mask |= 1u128.checked_shl(field).unwrap_or(0);
        term.places += 1;
        self.places.push((at, position));
        if is_word {
            self.length += u64::from(weight);
        }
    }

    /// The sum of the weights of all words.
    pub fn length(&self) -> u32 {
        u32::try_from(self.length).unwrap_or(u32::MAX)
    }

    /// The largest frequency.
    pub fn max_frequency(&self) -> u32 {
        self.terms.iter().map(|term| term.frequency).max().unwrap_or(0)
    }

    /// How many terms there are.
    pub fn len(&self) -> usize {
        self.terms.len()
    }

    /// Whether the document has no term.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The hashes of all terms, in the order of [`Terms::each`].
    pub fn hashes(&self) -> impl Iterator<Item = u64> + '_ {
        self.terms.iter().map(|term| term.hash)
    }

    /// Calls `each` with every term.
    pub fn each(&mut self, mut each: impl FnMut(TermOf<'_>)) {
        // Places by term, in their order: a counting sort.
        let mut begin = 0;
        let mut begins: Vec<u32> = Vec::with_capacity(self.terms.len());
        for term in &self.terms {
            begins.push(begin);
            begin += term.places;
        }
        self.grouped.clear();
        self.grouped.resize(self.places.len(), 0);
        for &(term, position) in &self.places {
            let at = &mut begins[term as usize];
            self.grouped[*at as usize] = position;
            *at += 1;
        }
        for (term, end) in self.terms.iter().zip(begins) {
            each(TermOf {
                name: term.name_in(&self.names),
                frequency: term.frequency,
                mask: term.mask,
                positions: &self.grouped[(end - term.places) as usize..end as usize],
            });
        }
    }
}

impl Term {
    fn name_in<'a>(&self, names: &'a [u8]) -> &'a [u8] {
        &names[self.name.clone()]
    }
}

/// A document as its analysis found it. Fields are numbers in the schema.
#[derive(Debug, Default)]
pub struct Content {
    /// The key.
    pub key: Vec<u8>,
    /// The document's own score.
    pub score: f32,
    /// Its payload.
    pub payload: Option<Box<[u8]>>,
    /// A hash of all values that were looked at.
    pub fingerprint: u64,
    /// The terms of all text fields.
    pub terms: Terms,
    /// Tags by field.
    pub tags: Vec<(usize, Box<[u8]>)>,
    /// Numbers by field, those of one field in a row; points as the numbers of their cells.
    pub numbers: Vec<(usize, f64)>,
    /// The components of vectors by field.
    pub vectors: Vec<(usize, Vec<f32>)>,
    /// Shapes by field.
    pub shapes: Vec<(usize, Arc<Shape>)>,
    /// Fields whose values are no shapes: they alone are not indexed.
    pub failures: Vec<(usize, Error)>,
    /// Fields that the document does not have, of those that index this.
    pub missing: Vec<usize>,
    /// The values of the sortable fields.
    pub sortables: Vec<Sortable>,
}

impl Content {
    /// How many fields have a vector.
    pub fn vector_fields(&self) -> u32 {
        self.vectors.chunk_by(|one, next| one.0 == next.0).count() as u32
    }

    /// Forgets the document.
    pub fn clear(&mut self) {
        self.key.clear();
        self.score = 1.0;
        self.payload = None;
        self.fingerprint = 0;
        self.terms.clear();
        self.tags.clear();
        self.numbers.clear();
        self.vectors.clear();
        self.shapes.clear();
        self.failures.clear();
        self.missing.clear();
        self.sortables.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_gathered_with_their_places() {
        let mut terms = Terms::default();
        for _ in 0..2 {
            terms.clear();
            terms.add(b"hello", 0, 1, 5, true);
            terms.add(b"world", 0, 2, 5, true);
            terms.add(b"+hello", 0, 1, 5, false);
            terms.add(b"hello", 1, 7, 1, true);
            assert_eq!((terms.len(), terms.length(), terms.max_frequency()), (3, 11, 6));
            let mut found = Vec::new();
            terms.each(|t| found.push((t.name.to_vec(), t.frequency, t.mask, t.positions.to_vec())));
            assert_eq!(
                found,
                [
                    (b"hello".to_vec(), 6, 3, vec![1, 7]),
                    (b"world".to_vec(), 5, 1, vec![2]),
                    (b"+hello".to_vec(), 5, 1, vec![1])
                ]
            );
        }
    }
}
