//! FT.SEARCH over keys: the evaluation, in steps between which others run, and the fields of its results.
//!
//! The index and the keys are looked at one after the other: a result shows what its key holds when it is
//! read. A key that has gone since it was found is a result without fields, as in RediSearch.

use std::sync::Arc;

use martlet_search::Error;
use martlet_search::exec::Hit;
use martlet_search::index::documents::Sortable;
use martlet_search::request::Search;
use martlet_search::searching::{Context, Searching};

use crate::access::Access;
use crate::index::KeyIndex;
use crate::loading::{Loader, NamedValue, SortReader};

/// See the [module docs](self).
#[derive(Debug)]
pub struct Run {
    index: Arc<KeyIndex>,
    request: Search,
    searching: Searching,
    reader: Option<SortReader>,
}

/// A result.
#[derive(Debug)]
pub struct Row {
    /// The document as the index has found it.
    pub hit: Hit,
    /// Its fields; `None` if the key has gone, or if no fields are wanted.
    pub fields: Option<Vec<NamedValue>>,
}

/// The results of a run.
#[derive(Debug)]
pub struct Results {
    /// How many documents match.
    pub total: usize,
    /// Those that LIMIT asks for, in order.
    pub rows: Vec<Row>,
}

impl Run {
    /// A run that has not begun.
    ///
    /// # Errors
    /// Those of [`Searching::new`].
    pub fn new(index: Arc<KeyIndex>, request: Search, context: Context) -> Result<Run, Error> {
        let searching = Searching::new(Arc::clone(index.index()), &request, context)?;
        let rules = index.index().rules();
        let reader = searching.loaded_key().map(|key| SortReader::new(&rules.definition.fields[key.field]));
        Ok(Run { index, request, searching, reader })
    }

    /// A step; whether the run has come to its end.
    pub fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        let is_done = self.searching.step();
        if let Some(reader) = &self.reader {
            for hit in self.searching.take_unordered() {
                let value = access.with_key(&hit.key, now_ms, |entry| reader.read(entry, now_ms));
                self.searching.offer(hit, value.unwrap_or(Sortable::Missing));
            }
        }
        is_done
    }

    /// The request.
    pub fn request(&self) -> &Search {
        &self.request
    }

    /// The results, once the run has come to its end or is to end.
    pub fn into_results(self, access: &mut Access<'_>, now_ms: i64) -> Results {
        let found = self.searching.into_found();
        let rules = self.index.index().rules();
        let loader = (!self.request.no_content)
            .then(|| Loader::new(&rules.definition, &self.request, found.distance_field.as_deref()));
        let rows = found.hits.into_iter().map(|hit| {
            let loaded = loader.as_ref().and_then(|loader| {
                access.with_key(&hit.key, now_ms, |entry| loader.load(&hit, entry, now_ms))
            });
            Row { hit, fields: loaded.flatten() }
        });
        Results { total: found.total, rows: rows.collect() }
    }
}

#[cfg(test)]
mod tests;
