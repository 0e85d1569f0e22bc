//! The indexes of a server by their names and aliases, and its dictionaries.
//!
//! Readers, which are all writers of keys, see them published as a whole; changes of the catalogue come one
//! after another.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, Guard};
use martlet_base::sync::lock;
use martlet_engine::Engine;
use martlet_search::Error;
use martlet_search::definition::Altered;
use martlet_search::dictionaries::Dictionaries;
use martlet_search::schema::Definition;
use martlet_search::synonyms::Update;

use crate::access::Access;
use crate::agreement::Agreement;
use crate::collect::Collections;
use crate::index::KeyIndex;
use crate::prefixes::Prefixes;
use crate::scan::{Scans, Waker};
use crate::shared_map::SharedMap;

/// The most indexes of a server.
pub const INDEXES_MAX: usize = 16_384;

/// The most aliases of a server.
const ALIASES_MAX: usize = 4 * INDEXES_MAX;

/// The most prefixes of which the engine knows the beginnings.
const PREFIXES_MAX: usize = 1024;

/// The most temporary indexes that end together.
const OVERDUE_MAX: usize = 16;

/// What readers see.
///
/// A change copies it; copies share their parts, so that many indexes cost no more than their number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    by_name: SharedMap<Arc<KeyIndex>>,
    /// The index of each alias.
    aliases: SharedMap<Box<[u8]>>,
    pub(crate) prefixes: Prefixes,
    /// Temporary indexes.
    temporary: usize,
}

/// An alias and the name of its index.
type Alias = (Box<[u8]>, Box<[u8]>);

/// All indexes and aliases.
pub(crate) struct Named {
    pub(crate) indexes: Vec<Arc<KeyIndex>>,
    pub(crate) aliases: Vec<Alias>,
}

/// See the [module docs](self). One per server.
pub struct Catalogue {
    published: ArcSwap<Published>,
    /// Held by the thread that changes the catalogue, for which no shard is waited.
    turn: Mutex<()>,
    /// Words of spell checking, of no index.
    dictionaries: Mutex<Dictionaries>,
    pub(crate) agreement: Agreement,
    scans: Scans,
    collections: Collections,
    engine: &'static Engine,
    /// Partitions of a new index.
    partitions: usize,
}

impl std::fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalogue").field("published", &*self.published()).finish_non_exhaustive()
    }
}

impl Catalogue {
    /// An empty catalogue over an engine's keys, whose indexes have this number of partitions each. It is to
    /// be set as the engine's follower.
    pub fn new(engine: &'static Engine, partitions: usize) -> Catalogue {
        Catalogue {
            published: ArcSwap::default(),
            turn: Mutex::default(),
            dictionaries: Mutex::default(),
            agreement: Agreement::default(),
            scans: Scans::default(),
            collections: Collections::default(),
            engine,
            partitions,
        }
    }

    pub(crate) fn published(&self) -> Guard<Arc<Published>> {
        self.published.load()
    }

    /// The index of a name or of an alias.
    pub fn find(&self, name: &[u8]) -> Option<Arc<KeyIndex>> {
        self.published().find(name).cloned()
    }

    /// Whether there is any index.
    pub fn has_any(&self) -> bool {
        !self.published().by_name.is_empty()
    }

    /// All indexes, by name.
    pub fn indexes(&self) -> Vec<Arc<KeyIndex>> {
        self.published().indexes()
    }

    /// All indexes and aliases at one moment, by name.
    pub(crate) fn named(&self) -> Named {
        let published = self.published();
        let aliases = published.aliases.sorted();
        let aliases = aliases.into_iter().map(|(alias, index)| (alias.into(), index.clone()));
        Named { indexes: published.indexes(), aliases: aliases.collect() }
    }

    /// Whether there is an index of this name; an alias is none.
    pub(crate) fn has_index(&self, name: &[u8]) -> bool {
        self.published().by_name.contains(name)
    }

    /// Whether there is this alias.
    pub(crate) fn has_alias(&self, alias: &[u8]) -> bool {
        self.published().aliases.contains(alias)
    }

    /// The aliases of an index.
    pub fn aliases_of(&self, index: &[u8]) -> Vec<Box<[u8]>> {
        let published = self.published();
        published.aliases_of(index)
    }

    /// Creates an index, and orders the scan of the keys unless the definition says otherwise.
    ///
    /// # Errors
    /// There is one of that name, FILTER is no expression, or there are as many indexes as there may be.
    pub fn create(&self, definition: Definition) -> Result<(), Error> {
        let scans = !definition.options.skip_initial_scan;
        self.add(definition, scans)
    }

    /// As [`Catalogue::create`], with a scan if `scans`.
    pub(crate) fn add(&self, definition: Definition, scans: bool) -> Result<(), Error> {
        let _turn = lock(&self.turn);
        let published = self.published.load_full();
        if published.by_name.contains(&definition.name) {
            return Err(Error::new("Index already exists"));
        }
        if published.by_name.len() >= INDEXES_MAX {
            return Err(Error::new(format!("The server has {INDEXES_MAX} indexes already")));
        }
        let index = Arc::new(KeyIndex::new(definition, self.partitions)?);
        self.publish(published.with(&index), scans.then_some(&index));
        Ok(())
    }

    /// Alters an index: `change` makes the new definition of the one that it is handed.
    ///
    /// # Errors
    /// There is no such index, or `change`'s.
    pub fn alter(
        &self,
        name: &[u8],
        change: impl FnOnce(&Definition) -> Result<Altered, Error>,
    ) -> Result<(), Error> {
        let _turn = lock(&self.turn);
        let published = self.published.load_full();
        let before = published.find(name).ok_or_else(|| Error::new("Unknown index name"))?;
        before.count_use();
        let altered = change(&before.index().rules().definition)?;
        // A scan that is under way is repeated for the whole definition.
        let scans = !altered.skip_initial_scan || !before.progress().is_done();
        let index = Arc::new(before.altered(altered.definition)?);
        before.set_scan(None);
        self.publish(published.with(&index), scans.then_some(&index));
        Ok(())
    }

    /// Drops an index with its aliases: the index, for its documents to be deleted.
    ///
    /// # Errors
    /// There is no such index.
    pub fn drop_index(&self, name: &[u8]) -> Result<Arc<KeyIndex>, Error> {
        let _turn = lock(&self.turn);
        let published = self.published.load_full();
        let index = published.find(name).ok_or_else(|| Error::new("Unknown Index name"))?;
        index.set_scan(None);
        let mut left = Published::clone(&published);
        left.take(index);
        for alias in published.aliases_of(index.name()) {
            left.aliases.remove(&alias);
        }
        self.publish(left, None);
        Ok(Arc::clone(index))
    }

    /// Gives an index an alias; with `moves` it may be another index's now.
    ///
    /// # Errors
    /// There is no such index, or the alias is there already.
    pub fn add_alias(&self, alias: &[u8], index: &[u8], moves: bool) -> Result<(), Error> {
        let _turn = lock(&self.turn);
        let published = self.published.load_full();
        let Some(own) = published.by_name.get(index) else {
            return Err(Error::new("Unknown index name (or name is an alias itself)"));
        };
        own.count_use();
        // As RediSearch counts: the alias is taken from one index, and given to one.
        if moves {
            published.find(alias).iter().for_each(|before| before.count_use());
        }
        if !moves && published.aliases.contains(alias) {
            return Err(Error::new("Alias already exists"));
        }
        if published.aliases.len() >= ALIASES_MAX {
            return Err(Error::new(format!("The server has {ALIASES_MAX} aliases already")));
        }
        let mut more = Published::clone(&published);
        more.aliases.insert(alias, index.into());
        self.publish(more, None);
        Ok(())
    }

    /// Removes an alias.
    ///
    /// # Errors
    /// There is no such alias.
    pub fn remove_alias(&self, alias: &[u8]) -> Result<(), Error> {
        let _turn = lock(&self.turn);
        let mut left = Published::clone(&self.published());
        left.find(alias).filter(|_| left.aliases.contains(alias)).iter().for_each(|of| of.count_use());
        left.aliases.remove(alias).ok_or_else(|| Error::new("Alias does not exist"))?;
        self.publish(left, None);
        Ok(())
    }

    /// Adds to an index's synonyms, and orders the scan of the keys unless the update says otherwise.
    ///
    /// # Errors
    /// There is no such index, or those of [`martlet_search::synonyms::Synonyms::add`].
    pub fn update_synonyms(&self, update: &Update<'_>) -> Result<(), Error> {
        let _turn = lock(&self.turn);
        let published = self.published.load_full();
        let index = published.find(update.index).ok_or_else(|| Error::new("Unknown index name"))?;
        index.index().add_synonyms(update.group, update.terms)?;
        if !update.skip_initial_scan {
            self.scans.order(index);
        }
        Ok(())
    }

    /// Runs `with` on the dictionaries; others wait until it ends.
    pub fn with_dictionaries<R>(&self, with: impl FnOnce(&Dictionaries) -> R) -> R {
        with(&lock(&self.dictionaries))
    }

    /// Changes dictionaries.
    pub(crate) fn change_dictionaries<R>(&self, change: impl FnOnce(&mut Dictionaries) -> R) -> R {
        let _turn = lock(&self.turn);
        let result = change(&mut lock(&self.dictionaries));
        self.follow(&self.published());
        result
    }

    /// Some of the temporary indexes that were not used for as long as they stay, as
    /// [`KeyIndex::is_overdue`].
    pub fn overdue(&self, now_ms: i64, holds: bool) -> Vec<Arc<KeyIndex>> {
        let published = self.published();
        if published.temporary == 0 {
            return Vec::new();
        }
        let overdue =
            published.by_name.iter().map(|(_, index)| index).filter(|index| index.is_overdue(now_ms, holds));
        overdue.take(OVERDUE_MAX).cloned().collect()
    }

    /// Drops all indexes and dictionaries.
    pub fn clear(&self) {
        let _turn = lock(&self.turn);
        let dictionaries = std::mem::take(&mut *lock(&self.dictionaries));
        self.engine.lazy_free.free(0, Box::new(dictionaries));
        self.published().by_name.iter().for_each(|(_, index)| index.set_scan(None));
        self.publish(Published::default(), None);
    }

    /// Empties all indexes, and orders their scans: the keys are others.
    pub(crate) fn begin_anew(&self) {
        let _turn = lock(&self.turn);
        let mut anew = Published::clone(&self.published());
        let mut indexes = anew.indexes();
        for index in &mut indexes {
            index.set_scan(None);
            // The definition was taken once.
            if let Ok(empty) = index.emptied() {
                *index = Arc::new(empty);
            }
            anew.put(index);
        }
        self.publish(anew, &indexes);
    }

    /// Orders a scan for each index.
    pub(crate) fn scan_all(&self) {
        let _turn = lock(&self.turn);
        self.published().indexes().iter().for_each(|index| self.scans.order(index));
    }

    /// Orders scans for the indexes of these names.
    pub(crate) fn scan_named(&self, names: &HashSet<&[u8]>) {
        let _turn = lock(&self.turn);
        let published = self.published();
        let named = names.iter().filter_map(|name| published.by_name.get(name));
        named.for_each(|index| self.scans.order(index));
    }

    /// Publishes the catalogue, then orders scans: a key that changes while the scan is under way is reported
    /// to the published indexes.
    fn publish<'a>(&self, published: Published, scans: impl IntoIterator<Item = &'a Arc<KeyIndex>>) {
        // Before it is published: what changes then is reported to all indexes.
        self.follow(&published);
        let before = self.published.swap(Arc::new(published));
        self.agreement.note_change();
        // An index takes long to free, and a thread may hold shards here.
        self.engine.lazy_free.free(0, Box::new(before));
        scans.into_iter().for_each(|index| self.scans.order(index));
    }

    /// Has the engine report if there is anything that depends on the keys. Dictionaries go with all keys.
    fn follow(&self, published: &Published) {
        let has_dictionaries = lock(&self.dictionaries).iter().next().is_some();
        let begins = has_dictionaries || !published.by_name.is_empty();
        let prefixes = published.prefixes.all();
        // So many begin in every way; a set of them all would cost each change of the catalogue.
        match published.prefixes.len() > PREFIXES_MAX {
            true => self.engine.follow(begins, std::iter::once(&b""[..])),
            false => self.engine.follow(begins, prefixes),
        }
    }

    /// Scans a part of the keys for an index that waits for it, or drops a part of what gone documents have
    /// left; false if there is nothing to do. `now_ms` is the time, Unix milliseconds.
    pub fn work(&self, access: &mut Access<'_>, now_ms: &dyn Fn() -> i64) -> bool {
        let is_wanted = |index: &KeyIndex| {
            self.find(index.name()).is_some_and(|known| Arc::ptr_eq(known.index(), index.index()))
        };
        self.scans.work(access, now_ms) || self.collections.work(access, now_ms(), is_wanted)
    }

    /// Orders a collection of what gone documents have left in an index.
    #[cold]
    pub(crate) fn order_collection(&self, index: &Arc<KeyIndex>) {
        if self.collections.order(index) {
            self.scans.wake();
        }
    }

    /// Sets the callback of ordered scans; the first one stays.
    pub fn set_waker(&self, waker: Waker) {
        self.scans.set_waker(waker);
    }
}

impl Published {
    fn find(&self, name: &[u8]) -> Option<&Arc<KeyIndex>> {
        let by_alias = || self.by_name.get(self.aliases.get(name)?);
        self.by_name.get(name).or_else(by_alias)
    }

    /// All indexes, by name.
    fn indexes(&self) -> Vec<Arc<KeyIndex>> {
        self.by_name.sorted().into_iter().map(|(_, index)| Arc::clone(index)).collect()
    }

    /// The aliases of an index.
    fn aliases_of(&self, index: &[u8]) -> Vec<Box<[u8]>> {
        let mut own: Vec<Box<[u8]>> =
            self.aliases.iter().filter(|(_, of)| ***of == *index).map(|(alias, _)| alias.into()).collect();
        own.sort_unstable();
        own
    }

    /// The same with an index in the place of the one of its name.
    fn with(&self, index: &Arc<KeyIndex>) -> Published {
        let mut with = self.clone();
        with.put(index);
        with
    }

    /// Puts an index in the place of the one of its name.
    fn put(&mut self, index: &Arc<KeyIndex>) {
        let before = self.by_name.get(index.name()).cloned();
        before.iter().for_each(|before| self.take(before));
        self.by_name.insert(index.name(), Arc::clone(index));
        self.prefixes.add(index);
        self.temporary += usize::from(index.is_temporary());
    }

    /// Removes an index that is there; its aliases stay.
    fn take(&mut self, index: &Arc<KeyIndex>) {
        if self.by_name.remove(index.name()).is_some() {
            self.prefixes.remove(index);
            self.temporary -= usize::from(index.is_temporary());
        }
    }
}

#[cfg(test)]
mod tests;
