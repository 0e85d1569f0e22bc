//! FT.SEARCH over keys, in steps between which others run: the evaluation, then the fields of its results.
//!
//! The index and the keys are looked at one after the other: a result shows what its key holds when it is
//! read. A key that has gone since it was found is a result without fields, as in RediSearch.

use std::sync::Arc;
use std::time::Duration;
use std::vec::IntoIter;

use martlet_base::clock::monotonic;
use martlet_search::Error;
use martlet_search::exec::Hit;
use martlet_search::exec::profile::{Part, Profile};
use martlet_search::highlighting::Highlighter;
use martlet_search::index::sortables::Sortable;
use martlet_search::merging::Merging;
use martlet_search::request::{Returned, Search};
use martlet_search::schema::Language;
use martlet_search::searching::{Context, Found, Searching};

use crate::access::Access;
use crate::aggregation::rows_of_step;
use crate::index::KeyIndex;
use crate::loading::{FieldOrder, Loaded, Loader, NamedValue, Nature, Read, SortReader};

/// How many results a step loads.
const LOADED_ROWS: usize = 64;
/// How many bytes of texts a step summarises or marks before it ends.
const SHAPED_BYTES: usize = 64 << 10;

/// See the [module docs](self).
#[derive(Debug)]
pub struct Run {
    index: Arc<KeyIndex>,
    request: Search,
    phase: Phase,
    merging: Merging,
    results: Results,
    profiled: Option<Profiled>,
}

/// The measurements of a run (FT.PROFILE).
#[derive(Debug)]
pub struct Profiled {
    /// LIMITED: the names of a pattern are only counted.
    limited: bool,
    /// The parts of the query, once it has run.
    parts: Option<Profile>,
    /// The steps from the index to the results, by RediSearch's names, with the number of documents that
    /// each has handed on.
    pub processors: Vec<(&'static str, usize)>,
    /// The time of the search.
    pub searching: Duration,
    /// The time in which the fields of the results were read.
    pub loading: Duration,
}

impl Profiled {
    /// Looks at a part of the query in a partition; whether that was the last.
    pub fn step(&mut self) -> bool {
        self.parts.as_mut().is_none_or(Profile::step)
    }

    /// The parts of the query, of which the first is the whole.
    pub fn take_parts(&mut self) -> Vec<Part> {
        self.parts.take().map(Profile::into_parts).unwrap_or_default()
    }
}

#[derive(Debug)]
enum Phase {
    Searching(Box<Searching>, Option<SortReader>),
    Loading { hits: IntoIter<Hit>, fields: Option<Box<Fields>> },
}

/// The means to get the fields of results.
#[derive(Debug)]
struct Fields {
    loader: Loader,
    order: Option<FieldOrder>,
    /// Of SUMMARIZE and HIGHLIGHT.
    highlighter: Option<Highlighter>,
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
#[derive(Debug, Default)]
pub struct Results {
    /// How many documents match.
    pub total: usize,
    /// Those that LIMIT asks for, in order.
    pub rows: Vec<Row>,
    /// The search was ended early.
    pub is_partial: bool,
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
        let merging = searching.merging();
        let phase = Phase::Searching(Box::new(searching), reader);
        Ok(Run { index, request, phase, merging, results: Results::default(), profiled: None })
    }

    /// Measures the run from now on. With `limited` the profile shows the number of a pattern's names, not
    /// the names.
    pub fn profile(&mut self, limited: bool) {
        self.profiled = Some(Profiled {
            limited,
            parts: None,
            processors: Vec::new(),
            searching: Duration::ZERO,
            loading: Duration::ZERO,
        });
    }

    /// The measurements of a finished run.
    pub fn take_profiled(&mut self) -> Option<Profiled> {
        self.profiled.take()
    }

    /// As [`Run::step`], with the time taken.
    fn measured_step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        let (began, is_loading) = (monotonic(), matches!(self.phase, Phase::Loading { .. }));
        let is_done = self.plain_step(access, now_ms);
        if let Some(profiled) = &mut self.profiled {
            let time = if is_loading { &mut profiled.loading } else { &mut profiled.searching };
            *time += began.elapsed();
        }
        is_done
    }

    /// Whether a step may take long.
    pub fn has_long_steps(&self) -> bool {
        matches!(&self.phase, Phase::Searching(searching, _) if searching.has_long_steps())
    }

    /// A step; whether the run has come to its end. After [`Access::gave_up`] nothing of the run is of use.
    pub fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        match self.profiled {
            None => self.plain_step(access, now_ms),
            Some(_) => self.measured_step(access, now_ms),
        }
    }

    fn plain_step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        match &mut self.phase {
            Phase::Searching(searching, reader) => {
                let is_done = searching.step();
                if let Some(reader) = reader {
                    for hit in searching.take_unordered() {
                        let value = access.with_key(&hit.key, now_ms, |entry| reader.read(entry, now_ms));
                        searching.offer(hit, value.unwrap_or(Sortable::Missing));
                    }
                }
                if is_done {
                    self.begin_loading();
                }
                false
            }
            Phase::Loading { hits, fields } => {
                let mut shaped_bytes = 0;
                let rows = rows_of_step(LOADED_ROWS, self.request.returned.fields.len());
                for hit in hits.by_ref().take(rows) {
                    let fields = fields.as_mut();
                    let fields = fields.and_then(|fields| {
                        fields.of(
                            &self.index,
                            &self.request.returned,
                            &hit,
                            (access, now_ms),
                            &mut shaped_bytes,
                        )
                    });
                    self.results.rows.push(Row { hit, fields });
                    if shaped_bytes > SHAPED_BYTES {
                        break;
                    }
                }
                hits.len() == 0
            }
        }
    }

    /// Ends the search with the documents found so far.
    pub fn end_early(&mut self) {
        if let Phase::Searching(..) = self.phase {
            self.results.is_partial = true;
            self.begin_loading();
        }
    }

    fn begin_loading(&mut self) {
        let loading = Phase::Loading { hits: Vec::new().into_iter(), fields: None };
        let Phase::Searching(searching, _) = std::mem::replace(&mut self.phase, loading) else { return };
        if let Some(profiled) = &mut self.profiled {
            profiled.parts = Some(searching.profile(profiled.limited, profiled.searching));
        }
        let processors = self.profiled.is_some().then(|| searching.processors());
        let found = searching.into_found();
        if let (Some(profiled), Some(processors)) = (&mut self.profiled, processors) {
            profiled.processors = counted(&self.request, processors, &found);
        }
        let rules = self.index.index().rules();
        self.results.total = found.total;
        let hits = found.hits.into_iter();
        let fields = (!self.request.no_content).then(|| {
            let loader = Loader::new(&rules.definition, &self.request, &found.distance_fields);
            let is_highlighted = self.request.returned.is_highlighted();
            let highlighter = is_highlighted.then(|| Highlighter::new(rules, found.matched_terms));
            Box::new(Fields { order: loader.field_order(), loader, highlighter })
        });
        self.phase = Phase::Loading { hits, fields };
    }

    /// The request.
    pub fn request(&self) -> &Search {
        &self.request
    }

    /// How the results of this run in several parts of the documents become one.
    pub fn merging(&self) -> Merging {
        self.merging
    }

    /// The results of a run that has come to its end.
    pub fn into_results(self) -> Results {
        self.results
    }
}

/// The steps from the index to the results, each with the number of documents that it has handed on.
fn counted(request: &Search, processors: Vec<&'static str>, found: &Found) -> Vec<(&'static str, usize)> {
    if request.count_only {
        // The number of documents is the one row.
        return vec![("Index", found.total), ("Counter", 1)];
    }
    let rows = found.hits.len();
    let before = processors.into_iter().map(|name| match name {
        "Sorter" => (name, rows),
        _ => (name, found.total),
    });
    let after = [(!request.no_content, "Loader"), (request.returned.is_highlighted(), "Highlighter")];
    before.chain(after.into_iter().filter(|one| one.0).map(|one| (one.1, rows))).collect()
}

impl Fields {
    /// The fields of a hit; `None` if its key has gone. Texts are shaped once the key's shard is free again;
    /// their length is added to `shaped_bytes`.
    fn of(
        &mut self,
        index: &KeyIndex,
        returned: &Returned,
        hit: &Hit,
        (access, now_ms): (&mut Access<'_>, i64),
        shaped_bytes: &mut usize,
    ) -> Option<Vec<NamedValue>> {
        let Fields { loader, order, highlighter } = self;
        let is_highlighted = highlighter.is_some();
        let loaded = access.with_key(&hit.key, now_ms, |entry| {
            let language = if is_highlighted { index.language(entry, now_ms) } else { Language::default() };
            Some((loader.load(hit, entry, now_ms)?, language))
        });
        let (mut fields, language) = loaded.flatten()?;
        if let Some(order) = order {
            order.arrange(&mut fields);
        }
        if let Some(highlighter) = highlighter {
            highlighter.begin(hit, language);
            for Read { name, value, nature } in &mut fields {
                let Loaded::Text(text) = value else { continue };
                if *nature != Nature::Other {
                    *shaped_bytes += text.len();
                    let shaped = highlighter.shape(returned, name, text, *nature == Nature::String);
                    shaped.into_iter().for_each(|shaped| *text = shaped);
                }
            }
        }
        Some(fields.into_iter().map(|field| (field.name, field.value)).collect())
    }
}

#[cfg(test)]
pub(crate) mod tests;
