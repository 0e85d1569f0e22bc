//! One index over keys: its structures, and how a key's value is read for it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use martlet_base::clock::monotonic;
use martlet_base::sync::lock;
use martlet_keyspace::{Entry, Key};
use martlet_search::Error;
use martlet_search::aggregate::expression::Scratch;
use martlet_search::analysis::{Analysis, Document, language_of};
use martlet_search::index::content::Content;
use martlet_search::index::whole::{Index, Rules};
use martlet_search::schema::{Definition, Language, Source};
use martlet_types::hash::Hash;
use martlet_values::Json;

use crate::document::{HashDocument, JsonDocument, Paths};
use crate::filter::Filter;
use crate::prefix_set::PrefixSet;
use crate::progress::{Progress, Scan};

/// See the [module docs](self). An altered index is another one of these with the same structures.
#[derive(Debug)]
pub struct KeyIndex {
    index: Arc<Index>,
    name: Box<[u8]>,
    prefixes: PrefixSet,
    paths: Paths,
    filter: Option<Filter>,
    scan: Mutex<Option<Arc<Scan>>>,
    /// A collection is ordered, or under way.
    is_collected: AtomicBool,
    usage: Arc<Usage>,
    /// TEMPORARY: how long it stays without use, milliseconds.
    idle_max_ms: Option<i64>,
}

/// How an index was used.
#[derive(Debug, Default)]
struct Usage {
    uses: AtomicU64,
    /// By dialect, from 1, whether a query was in it.
    dialects: [AtomicBool; DIALECTS],
    /// Of a temporary index: it was not used since the last look.
    is_idle: AtomicBool,
    /// Of a temporary index: the time of the last look at which it had been used, Unix milliseconds.
    used_ms: AtomicI64,
}

/// How many dialects the query language has.
pub const DIALECTS: usize = 4;

/// A thread's means to read documents.
#[derive(Default)]
struct Means {
    analysis: Analysis,
    scratch: Scratch,
}

thread_local! {
    static MEANS: RefCell<Means> = RefCell::default();
}

impl KeyIndex {
    /// An empty index in as many partitions.
    ///
    /// # Errors
    /// FILTER is no expression.
    pub(crate) fn new(definition: Definition, partitions: usize) -> Result<KeyIndex, Error> {
        let filter = Filter::of(&definition)?;
        KeyIndex::over(Arc::new(Index::new(definition, partitions)), filter, Arc::default())
    }

    /// The same index with a definition that has more fields.
    ///
    /// # Errors
    /// FILTER is no expression.
    pub(crate) fn altered(&self, definition: Definition) -> Result<KeyIndex, Error> {
        let filter = Filter::of(&definition)?;
        self.index.extend(definition);
        KeyIndex::over(Arc::clone(&self.index), filter, Arc::clone(&self.usage))
    }

    /// The same index without documents.
    ///
    /// # Errors
    /// FILTER is no expression.
    pub(crate) fn emptied(&self) -> Result<KeyIndex, Error> {
        let filter = Filter::of(&self.index.rules().definition)?;
        KeyIndex::over(Arc::new(self.index.emptied()), filter, Arc::clone(&self.usage))
    }

    fn over(index: Arc<Index>, filter: Option<Filter>, usage: Arc<Usage>) -> Result<KeyIndex, Error> {
        let Rules { definition, .. } = &*index.rules();
        let paths = match definition.source {
            Source::Hash => Paths::default(),
            Source::Json => {
                let fields = definition.fields.iter().map(|field| &*field.identifier);
                let own = [&definition.language_field, &definition.score_field, &definition.payload_field];
                let own = own.into_iter().flatten().map(|field| &**field);
                Paths::of(fields.chain(own).chain(filter.iter().flat_map(Filter::identifiers)))
            }
        };
        let (name, prefixes) = (definition.name.clone(), PrefixSet::of(&definition.prefixes));
        let idle_max_ms = definition.options.temporary.map(|seconds| (seconds * 1000.0) as i64);
        Ok(KeyIndex {
            name,
            prefixes,
            index,
            paths,
            filter,
            scan: Mutex::default(),
            is_collected: AtomicBool::default(),
            usage,
            idle_max_ms,
        })
    }

    /// Counts a command that has asked for the index by its name or alias.
    pub fn count_use(&self) {
        self.usage.uses.fetch_add(1, Ordering::Relaxed);
        self.note_use();
    }

    /// Begins a temporary index's time anew.
    fn note_use(&self) {
        if self.is_temporary() && self.usage.is_idle.load(Ordering::Relaxed) {
            self.usage.is_idle.store(false, Ordering::Relaxed);
        }
    }

    /// Whether the index is dropped once it was not used for some time.
    pub(crate) fn is_temporary(&self) -> bool {
        self.idle_max_ms.is_some()
    }

    /// Whether an index is temporary, and was not used for as long as it stays. To be asked again and again;
    /// `now_ms` is the time, Unix milliseconds. While `holds` its time does not pass.
    pub fn is_overdue(&self, now_ms: i64, holds: bool) -> bool {
        let (Some(idle_max_ms), usage) = (self.idle_max_ms, &*self.usage) else { return false };
        let was_used = !usage.is_idle.swap(true, Ordering::Relaxed);
        // The clock may have been set back.
        if was_used || holds || usage.used_ms.load(Ordering::Relaxed) > now_ms {
            usage.used_ms.store(now_ms, Ordering::Relaxed);
        }
        !holds && now_ms.saturating_sub(usage.used_ms.load(Ordering::Relaxed)) >= idle_max_ms
    }

    /// How many commands have asked for the index.
    pub fn uses(&self) -> u64 {
        self.usage.uses.load(Ordering::Relaxed)
    }

    /// Notes that a query of the index was in a dialect, 1 to 4.
    pub fn count_dialect(&self, dialect: u32) {
        let place = usize::try_from(dialect).ok().and_then(|dialect| dialect.checked_sub(1));
        if let Some(used) = place.and_then(|place| self.usage.dialects.get(place))
            && !used.load(Ordering::Relaxed)
        {
            used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether queries were in each of the dialects.
    pub fn dialects(&self) -> [bool; DIALECTS] {
        std::array::from_fn(|place| self.usage.dialects[place].load(Ordering::Relaxed))
    }

    /// The index itself.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The beginnings of its documents' names.
    pub(crate) fn prefixes(&self) -> &PrefixSet {
        &self.prefixes
    }

    /// How far the scan of the keys has come that were there before.
    pub fn progress(&self) -> Progress {
        lock(&self.scan).as_ref().map_or(Progress::DONE, |scan| scan.progress())
    }

    /// Puts a scan in the place of the one before, which ends.
    pub(crate) fn set_scan(&self, scan: Option<Arc<Scan>>) {
        let before = std::mem::replace(&mut *lock(&self.scan), scan);
        before.iter().for_each(|scan| scan.cancel());
    }

    /// Whether no collection was ordered, so that one is now.
    pub(crate) fn begin_collection(&self) -> bool {
        !self.is_collected.load(Ordering::Relaxed) && !self.is_collected.swap(true, Ordering::Relaxed)
    }

    /// Ends the collection.
    pub(crate) fn end_collection(&self) {
        self.is_collected.store(false, Ordering::Relaxed);
    }

    /// Brings the index up to date for a key, whose shard is locked. `entry` is the key's, if it is there.
    pub(crate) fn follow(&self, key: &Key<'_>, entry: Option<&Entry<'_>>, now_ms: i64) {
        let is_document = entry.is_some_and(|entry| {
            let began = monotonic();
            let is_document = self.with_document(key.bytes, entry, now_ms, |content| {
                match self.index.put(key.hash, content) {
                    Ok(_) => true,
                    Err(failure) => {
                        self.index.failed(key.bytes, failure);
                        false
                    }
                }
            });
            self.index.spent(key.hash, began.elapsed());
            is_document
        });
        if is_document {
            self.note_use();
        } else {
            self.index.remove(key.hash, key.bytes);
        }
    }

    /// Gives a key's document, whose shard is locked, a new place in the index; false if it has none.
    pub(crate) fn move_up(&self, name: &[u8], entry: &Entry<'_>, now_ms: i64) -> bool {
        let key = Key::new(name);
        self.with_document(name, entry, now_ms, |content| self.index.move_up(key.hash, content))
    }

    /// The language of a key's texts.
    pub(crate) fn language(&self, entry: &Entry<'_>, now_ms: i64) -> Language {
        let rules = self.index.rules();
        let definition = &rules.definition;
        if let Some(hash) = entry.object::<Hash>() {
            return language_of(definition, &HashDocument { hash, now_ms });
        }
        match entry.object::<Json>() {
            Some(json) => language_of(definition, &JsonDocument { root: json.0.root(), paths: &self.paths }),
            None => definition.language.unwrap_or_default(),
        }
    }

    /// Calls `with` with a key's document after its analysis; false if the index has no such documents.
    fn with_document(
        &self,
        key: &[u8],
        entry: &Entry<'_>,
        now_ms: i64,
        with: impl FnOnce(&mut Content) -> bool,
    ) -> bool {
        let rules = self.index.rules();
        match rules.definition.source {
            Source::Hash => entry
                .object::<Hash>()
                .is_some_and(|hash| self.analyse(&rules, key, &HashDocument { hash, now_ms }, with)),
            Source::Json => entry.object::<Json>().is_some_and(|json| {
                let document = JsonDocument { root: json.0.root(), paths: &self.paths };
                self.analyse(&rules, key, &document, with)
            }),
        }
    }

    fn analyse(
        &self,
        rules: &Rules,
        key: &[u8],
        document: &dyn Document,
        with: impl FnOnce(&mut Content) -> bool,
    ) -> bool {
        MEANS.with_borrow_mut(|Means { analysis, scratch }| {
            if self.filter.as_ref().is_some_and(|filter| !filter.admits(document, scratch)) {
                return false;
            }
            let Rules { definition, stopwords, synonyms, .. } = rules;
            match analysis.with_synonyms(definition, stopwords, synonyms, key, document) {
                Ok(content) => with(content),
                Err(failure) => {
                    self.index.failed(key, failure);
                    false
                }
            }
        })
    }
}
