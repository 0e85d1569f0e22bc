//! An index: its definition, its partitions and its vectors.
//!
//! Locks are leaves, and none is held while another is taken, but for those of a vector field, which know no
//! others.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use martlet_base::clock::monotonic;

use super::content::Content;
use super::documents::{Document, VectorOf};
use super::partition::Partition;
use super::statistics::Statistics;
use super::vectors::{Place, Vectors};
use crate::analysis::Failure;
use crate::error::Error;
use crate::schema::{Definition, FieldKind};
use crate::synonyms::Synonyms;
use crate::text::stopwords::Stopwords;

/// A definition with its stopwords and the vectors of its fields.
#[derive(Debug)]
pub struct Rules {
    /// The definition.
    pub definition: Definition,
    /// Its stopwords.
    pub stopwords: Stopwords,
    /// Its synonyms.
    pub synonyms: Arc<Synonyms>,
    /// By field its vectors.
    pub vectors: Vec<Option<Arc<Vectors>>>,
}

/// Documents that could not be indexed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Failures {
    /// How many.
    pub count: u64,
    /// The last one's error and key.
    pub last: Option<(Error, Box<[u8]>)>,
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct Index {
    rules: RwLock<Arc<Rules>>,
    partitions: Box<[RwLock<Partition>]>,
    sequence: AtomicU64,
    /// By partition the time, nanoseconds, that documents have taken.
    indexing_ns: Box<[Spent]>,
    collections: Mutex<Collections>,
    /// Of the whole index, and by field.
    failures: Mutex<(Failures, Vec<Failures>)>,
    wants_collection: AtomicBool,
}

/// A time, nanoseconds. Each has its own cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Spent(AtomicU64);

/// Collections so far.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Collections {
    /// Steps that had something to collect.
    pub cycles: u64,
    /// The time that they took.
    pub total: Duration,
    /// The time of the last one.
    pub last: Duration,
}

impl Rules {
    /// The rules of a definition that has gained fields since `before`.
    fn new(definition: Definition, synonyms: Arc<Synonyms>, before: &[Option<Arc<Vectors>>]) -> Rules {
        let more = definition.fields.iter().skip(before.len()).map(|field| match &field.kind {
            FieldKind::Vector(vector) if !field.no_index => Vectors::new(vector).map(Arc::new),
            _ => None,
        });
        let vectors = before.iter().cloned().chain(more).collect();
        Rules { stopwords: Stopwords::of(definition.stopwords.as_deref()), synonyms, vectors, definition }
    }
}

impl Index {
    /// An empty index with this number of partitions.
    pub fn new(definition: Definition, partitions: usize) -> Index {
        let new = |_| RwLock::new(Partition::new(&definition));
        let indexing_ns = (0..partitions.max(1)).map(|_| Spent::default()).collect();
        let partitions = (0..partitions.max(1)).map(new).collect();
        let failures = (Failures::default(), vec![Failures::default(); definition.fields.len()]);
        Index {
            rules: RwLock::new(Arc::new(Rules::new(definition, Arc::default(), &[]))),
            partitions,
            sequence: AtomicU64::new(0),
            indexing_ns,
            collections: Mutex::default(),
            failures: Mutex::new(failures),
            wants_collection: AtomicBool::default(),
        }
    }

    /// An index with the same definition and synonyms, without documents.
    pub fn emptied(&self) -> Index {
        let Rules { definition, synonyms, .. } = &*self.rules();
        let empty = Index::new(definition.clone(), self.partitions.len());
        let rules = Rules::new(definition.clone(), Arc::clone(synonyms), &[]);
        Index { rules: RwLock::new(Arc::new(rules)), ..empty }
    }

    /// The definition, its stopwords and vectors.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts a definition in the place of the former, to which it has added fields. Documents that were
    /// indexed before must be indexed again.
    pub fn extend(&self, definition: Definition) {
        for partition in &self.partitions {
            partition.write().unwrap_or_else(PoisonError::into_inner).extend(&definition);
        }
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.1.resize(definition.fields.len(), Failures::default());
        let mut rules = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        *rules = Arc::new(Rules::new(definition, Arc::clone(&rules.synonyms), &rules.vectors));
    }

    /// Adds terms to a group of synonyms; whether any of them is new there. Documents that were indexed
    /// before must be indexed again, unless the update has said otherwise; while nothing is new there is
    /// nothing to do.
    ///
    /// # Errors
    /// Those of [`Synonyms::add`]; nothing has changed then.
    pub fn add_synonyms(&self, group: &[u8], terms: &[&[u8]]) -> Result<bool, Error> {
        let hold = || self.rules.write().unwrap_or_else(PoisonError::into_inner);
        // Rules that no thread holds are changed in their place, in a time that the terms alone give.
        if let Some(rules) = Arc::get_mut(&mut hold())
            && let Some(synonyms) = Arc::get_mut(&mut rules.synonyms)
        {
            return synonyms.add(group, terms);
        }
        loop {
            // The copy is made without the lock, for which readers of the rules would wait.
            let before = self.rules();
            let mut synonyms = Synonyms::clone(&before.synonyms);
            if !synonyms.add(group, terms)? {
                return Ok(false);
            }
            let Rules { definition, vectors, .. } = &*before;
            let after = Arc::new(Rules::new(definition.clone(), Arc::new(synonyms), vectors));
            let mut rules = hold();
            if Arc::ptr_eq(&rules, &before) {
                *rules = after;
                return Ok(true);
            }
        }
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// A partition to read; writers wait until the guard is dropped.
    pub fn partition(&self, number: usize) -> Option<RwLockReadGuard<'_, Partition>> {
        Some(self.partitions.get(number)?.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn number_of(&self, key_hash: u64) -> usize {
        (key_hash >> 32) as usize % self.partitions.len()
    }

    /// Indexes a document instead of the one that its key had; whether anything changed.
    ///
    /// # Errors
    /// One of its vectors cannot be added; nothing has changed then.
    pub fn put(&self, key_hash: u64, content: &mut Content) -> Result<bool, Failure> {
        let number = self.number_of(key_hash);
        let partition = &self.partitions[number];
        let is_same = |partition: &Partition| partition.is_same(&content.key, content.fingerprint);
        if is_same(&partition.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(false);
        }
        let rules = self.rules();
        let mut vectors = Vec::with_capacity(content.vectors.len());
        for (field, components) in &content.vectors {
            let Some(store) = rules.vectors.get(*field).and_then(Option::as_ref) else { continue };
            let place = Arc::new(Place::new(number));
            let Some(handle) = store.add(components, Arc::clone(&place)) else {
                remove_vectors(&rules, &vectors);
                let error = Error::new("Could not add vector");
                return Err(Failure { field: Some(*field), error });
            };
            vectors.push(VectorOf { field: *field, handle, place });
        }
        let sequence = || self.sequence.fetch_add(1, Ordering::Relaxed);
        let old = {
            let mut partition = partition.write().unwrap_or_else(PoisonError::into_inner);
            let old = partition.put(content, vectors, sequence);
            self.note_dead(&partition);
            old
        };
        forget(&rules, old);
        for (field, error) in content.failures.drain(..) {
            self.failed(&content.key, Failure { field: Some(field), error });
        }
        Ok(true)
    }

    /// Whether a key has a document.
    pub fn has(&self, key_hash: u64, key: &[u8]) -> bool {
        let partition = self.partition(self.number_of(key_hash));
        partition.is_some_and(|partition| partition.documents().find(key).is_some())
    }

    /// Removes a key's document; whether there was one.
    pub fn remove(&self, key_hash: u64, key: &[u8]) -> bool {
        let partition = &self.partitions[self.number_of(key_hash)];
        if partition.read().unwrap_or_else(PoisonError::into_inner).documents().find(key).is_none() {
            return false;
        }
        let old = {
            let mut partition = partition.write().unwrap_or_else(PoisonError::into_inner);
            let old = partition.remove(key);
            self.note_dead(&partition);
            old
        };
        let was_there = old.is_some();
        forget(&self.rules(), old);
        was_there
    }

    fn note_dead(&self, partition: &Partition) {
        if partition.wants_collection() && !self.wants_collection() {
            self.wants_collection.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that a document could not be indexed.
    pub fn failed(&self, key: &[u8], failure: Failure) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, fields) = &mut *failures;
        let field = failure.field.and_then(|field| fields.get_mut(field));
        for one in std::iter::once(all).chain(field) {
            one.count += 1;
            one.last = Some((failure.error.clone(), key.into()));
        }
    }

    /// Counts the time that a document has taken, whose key has this hash.
    pub fn spent(&self, key_hash: u64, time: Duration) {
        if let Some(spent) = self.indexing_ns.get(self.number_of(key_hash)) {
            spent.0.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// The time that documents have taken so far.
    pub fn indexing_time(&self) -> Duration {
        Duration::from_nanos(self.indexing_ns.iter().map(|spent| spent.0.load(Ordering::Relaxed)).sum())
    }

    /// Bytes that collections have freed.
    pub fn collected_bytes(&self) -> u64 {
        self.sum(Partition::collected_bytes)
    }

    /// The collections so far.
    pub fn collections(&self) -> Collections {
        *self.collections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Documents that could not be indexed: of the whole index, and by field.
    pub fn failures(&self) -> (Failures, Vec<Failures>) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn sum(&self, of: impl Fn(&Partition) -> u64) -> u64 {
        let one =
            |partition: &RwLock<Partition>| of(&partition.read().unwrap_or_else(PoisonError::into_inner));
        self.partitions.iter().map(one).sum()
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.sum(|partition| partition.documents().len() as u64) as usize
    }

    /// Whether the index has no document.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The figures that scores depend on.
    pub fn statistics(&self) -> Statistics {
        let documents = self.len() as u64;
        let length = self.sum(|partition| partition.documents().total_length());
        let average_length = if documents == 0 { 0.0 } else { length as f64 / documents as f64 };
        Statistics { documents, average_length }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let vectors =
            self.rules().vectors.iter().flatten().map(|vectors| vectors.heap_bytes()).sum::<usize>();
        let synonyms = self.rules().synonyms.heap_bytes();
        self.sum(|partition| partition.heap_bytes() as u64) as usize + vectors + synonyms
    }

    /// Whether there is so much of dead documents that a collection is worth while. May be asked after every
    /// change.
    pub fn wants_collection(&self) -> bool {
        self.wants_collection.load(Ordering::Relaxed)
    }

    /// Gives a document that has the same content a new place; false if the key has none.
    pub fn move_up(&self, key_hash: u64, content: &mut Content) -> bool {
        let partition = &self.partitions[self.number_of(key_hash)];
        partition.write().unwrap_or_else(PoisonError::into_inner).move_up(content)
    }

    /// Keys of up to `count` documents that [`Index::move_up`] should move.
    pub fn scattered(&self, count: usize) -> Vec<Box<[u8]>> {
        let mut keys = Vec::new();
        for partition in &self.partitions {
            let partition = partition.read().unwrap_or_else(PoisonError::into_inner);
            keys.extend(partition.documents().scattered(count - keys.len()));
        }
        keys
    }

    /// Bytes that the shapes of all GEOSHAPE fields take; [`heap_bytes`](Index::heap_bytes) has them, too.
    pub fn shape_bytes(&self) -> usize {
        self.sum(|partition| partition.shape_bytes() as u64) as usize
    }

    /// Drops a part of what dead documents have left, if there is so much that it is worth while: about
    /// `count` terms of each partition. Returns whether there is more to do.
    pub fn collect(&self, count: usize) -> bool {
        self.wants_collection.store(false, Ordering::Relaxed);
        let (mut more, began) = (false, monotonic());
        let mut is_needed = false;
        for partition in &self.partitions {
            if partition.read().unwrap_or_else(PoisonError::into_inner).wants_collection() {
                is_needed = true;
                more |= !partition.write().unwrap_or_else(PoisonError::into_inner).collect(count);
            }
        }
        if is_needed {
            let mut collections = self.collections.lock().unwrap_or_else(PoisonError::into_inner);
            collections.cycles += 1;
            let last = began.elapsed();
            collections.last = last;
            collections.total += last;
        }
        more
    }
}

/// Removes the vectors of a document that has left its partition.
fn forget(rules: &Rules, document: Option<Document>) {
    if let Some(document) = document {
        remove_vectors(rules, &document.vectors);
    }
}

fn remove_vectors(rules: &Rules, vectors: &[VectorOf]) {
    for vector in vectors {
        if let Some(store) = rules.vectors.get(vector.field).and_then(Option::as_ref) {
            store.remove(vector.handle);
        }
    }
}

#[cfg(test)]
mod tests;
