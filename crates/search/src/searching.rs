//! FT.SEARCH over an index: from a request to its best matches, by steps of bounded length.
//!
//! Errors come in RediSearch's order. No key is known here: where results are ordered by a field whose values
//! the index does not keep, the caller gets the matches of a step, and offers them with their values.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::Error;
use crate::exec::profile::Profile;
use crate::exec::{
    Best, Bounds, DistanceField, Evaluation, Hit, KeyFilter, MatchedTerms, Plan, Planned, Planner, Ranking,
    Scorer, Scores,
};
use crate::highlighting;
use crate::index::numbers::Range;
use crate::index::sortables::Sortable;
use crate::index::whole::{Index, Rules};
use crate::merging::Merging;
use crate::query::ast::{FieldMask, Near, Node};
use crate::query::{Options, Params, parse};
use crate::request::{GeoFilter, NumericFilter, Query, Search};
use crate::schema::{Definition, FieldKind, Language};
use martlet_types::geo::{Area, Point, Shape};
use std::ops::Bound;

/// The server's part in a search.
#[derive(Clone, Default)]
pub struct Context {
    /// How patterns are bounded.
    pub bounds: Bounds,
    /// The most results (MAXSEARCHRESULTS).
    pub results_max: u64,
    /// The scorer of queries that name none.
    pub scorer: Scorer,
    /// Whether the reply is RESP3.
    pub is_resp3: bool,
    /// The documents that count, if not all do.
    pub key_filter: Option<KeyFilter>,
}

/// A field by whose values the caller orders the matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedKey {
    /// The number of the field in the schema.
    pub field: usize,
    /// Whether the greatest comes first.
    pub descending: bool,
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct Searching {
    evaluation: Evaluation,
    best: Best,
    offset: usize,
    loaded: Option<LoadedKey>,
    unordered: Vec<Hit>,
    distance_fields: Vec<DistanceField>,
    merging: Merging,
}

/// What a search has found.
#[derive(Debug)]
pub struct Found {
    /// How many documents match.
    pub total: usize,
    /// Those that LIMIT asks for, in order.
    pub hits: Vec<Hit>,
    /// The names under which a result has the distances of its vectors.
    pub distance_fields: Vec<DistanceField>,
    /// Says which terms of the query a hit has.
    pub matched_terms: MatchedTerms,
}

impl Searching {
    /// A search that has not begun.
    ///
    /// # Errors
    /// RediSearch's, for the query and for options that this index does not have.
    pub fn new(index: Arc<Index>, request: &Search, context: Context) -> Result<Searching, Error> {
        let rules = index.rules();
        let definition = &rules.definition;
        let options = &definition.options;
        if (options.no_offsets || options.no_highlight) && request.returned.is_highlighted() {
            return Err(Error::new(
                "Cannot use highlight/summarize because NOOFSETS was specified at index level",
            ));
        }
        let filters = Filters { numbers: &request.filters, area: request.geo_filter.as_ref() };
        let (planned, scorer) = plan(&rules, &request.query, filters, &context)?;
        let distance_fields = planned.distance_fields();
        let (ranking, loaded) = ranking(definition, request, &distance_fields)?;
        highlighting::check(definition, request, &distance_fields)?;
        let is_by_distance = planned.nearest.is_some() && matches!(ranking, Ranking::Distance { .. });
        let wants_scores =
            (request.with_scores && !is_by_distance) || loaded.is_none() && ranking == Ranking::Score;
        let scores = wants_scores.then(|| Scores {
            scorer,
            payload: request.query.payload.clone(),
            explain: request.explain_score,
            with_terms: false,
            by_texts: false,
        });
        let most = if request.count_only { 0 } else { request.arrange.kept(context.results_max) };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let nearest = planned.nearest.as_ref().and_then(|query| match query.near {
            Near::Nearest(count) => Some(count),
            Near::Within(_) => None,
        });
        Ok(Searching {
            evaluation: Evaluation::new(index, planned, scores)?.among_keys(context.key_filter),
            merging: Merging { ranking, nearest },
            best: Best::new(ranking, most, request.with_payloads).normalised(scorer.is_normalised()),
            offset: usize::try_from(request.arrange.offset).unwrap_or(usize::MAX),
            loaded,
            unordered: Vec::new(),
            distance_fields,
        })
    }

    /// The field whose values order the matches, if the caller has to load them.
    pub fn loaded_key(&self) -> Option<&LoadedKey> {
        self.loaded.as_ref()
    }

    /// How the results of this search in several parts of the documents become one.
    pub fn merging(&self) -> Merging {
        self.merging
    }

    /// See [`Evaluation::has_long_steps`].
    pub fn has_long_steps(&self) -> bool {
        self.evaluation.has_long_steps()
    }

    /// A step; whether the search has come to its end.
    pub fn step(&mut self) -> bool {
        let (best, unordered, is_loaded) = (&mut self.best, &mut self.unordered, self.loaded.is_some());
        self.evaluation.step(&mut |found| match is_loaded {
            true => unordered.push(best.hit(found)),
            false => best.add(found),
        });
        self.evaluation.is_done()
    }

    /// The matches of the steps since the last call, which the caller is to [offer](Searching::offer).
    pub fn take_unordered(&mut self) -> Vec<Hit> {
        std::mem::take(&mut self.unordered)
    }

    /// Takes a match with the value that orders it.
    pub fn offer(&mut self, mut hit: Hit, value: Sortable) {
        hit.sortable = Some(value);
        self.best.offer(hit);
    }

    /// The parts of a search that has come to its end, whose evaluation took `time`.
    pub fn profile(&self, limited: bool, time: Duration) -> Profile {
        self.evaluation.profile(limited, time, self.best.total() as u64)
    }

    /// RediSearch's names for the steps from the index to the order of the results.
    pub fn processors(&self) -> Vec<&'static str> {
        let processors = [
            (true, "Index"),
            (!self.distance_fields.is_empty(), "Metrics Applier"),
            (self.evaluation.has_scores(), "Scorer"),
            (self.loaded.is_some(), "Loader"),
            (true, "Sorter"),
        ];
        processors.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name).collect()
    }

    /// The results, once the search has come to its end.
    pub fn into_found(self) -> Found {
        let total = self.best.total();
        Found {
            total,
            hits: self.best.into_hits(self.offset),
            distance_fields: self.distance_fields,
            matched_terms: self.evaluation.into_matched_terms(),
        }
    }
}

fn params(query: &Query) -> Result<Params, Error> {
    let mut params = Params::default();
    for parameter in &query.parameters {
        params.insert(&parameter.name, &parameter.value)?;
    }
    Ok(params)
}

/// The settings with which a request's query is read.
fn options<'o>(
    rules: &'o Rules,
    query: &'o Query,
    language: Option<Language>,
    params: &'o Params,
) -> Options<'o> {
    let definition = &rules.definition;
    Options {
        dialect: query.dialect as u8,
        stopwords: (!query.no_stopwords).then_some(&rules.stopwords),
        language: language.or(definition.language).unwrap_or_default(),
        verbatim: query.verbatim,
        expander: query.expander.as_deref(),
        synonyms: Some(&rules.synonyms),
        ..Options::new(definition, &rules.stopwords, params)
    }
}

/// The tree of a query as FT.EXPLAIN prints it. INKEYS stands above it, with the numbers of the keys'
/// documents, from 1, in the order in which the index has come to know them.
///
/// # Errors
/// RediSearch's, for the query.
pub fn explain(index: &Index, query: &Query) -> Result<Vec<u8>, Error> {
    let (rules, language, params) = (index.rules(), query.language()?, params(query)?);
    query.scorer(Scorer::parse)?;
    let root = parse(&query.text, &options(&rules, query, language, &params))?;
    let tree = crate::query::explain(&root, &rules.definition);
    let Some(keys) = &query.keys else { return Ok(tree) };
    let mut ids = BTreeSet::new();
    for partition in (0..index.partitions()).filter_map(|number| index.partition(number)) {
        let documents = partition.documents();
        let found = keys.iter().filter_map(|key| documents.find(key));
        ids.extend(found.map(|id| documents.rank(id).sequence + 1));
    }
    let ids: String = ids.into_iter().map(|id| format!("{id},")).collect();
    let mut within = format!("INTERSECT {{\n  IDS {{{ids}}}\n").into_bytes();
    for line in tree.split_inclusive(|byte| *byte == b'\n') {
        within.extend_from_slice(b"  ");
        within.extend_from_slice(line);
    }
    within.extend_from_slice(b"}\n");
    Ok(within)
}

/// FILTER and GEOFILTER.
#[derive(Copy, Clone, Default)]
pub(crate) struct Filters<'a> {
    numbers: &'a [NumericFilter],
    area: Option<&'a GeoFilter>,
}

/// The plan of a query within filters, and its scorer.
///
/// # Errors
/// RediSearch's, in its order: language, scorer, format, parameters, query.
pub(crate) fn plan(
    rules: &Rules,
    query: &Query,
    filters: Filters<'_>,
    context: &Context,
) -> Result<(Planned, Scorer), Error> {
    let (language, scorer) = (query.language()?, query.scorer(Scorer::parse)?.unwrap_or(context.scorer));
    query.check_format(context.is_resp3, rules.definition.source == crate::schema::Source::Json)?;
    let params = params(query)?;
    let options = options(rules, query, language, &params);
    if let Some(filter) = filters.area {
        filter.check()?;
    }
    let root = parse(&query.text, &options)?;
    Ok((plan_within(rules, query, filters, &options, &root, context.bounds)?, scorer))
}

fn plan_within(
    rules: &Rules,
    query: &Query,
    filters: Filters<'_>,
    options: &Options<'_>,
    root: &Node,
    bounds: Bounds,
) -> Result<Planned, Error> {
    let slop = query.slop.and_then(|slop| u32::try_from(slop).ok());
    let mut planner = Planner::new(&rules.definition, bounds, slop, query.in_order);
    if !query.fields.is_empty() {
        let mask = query.fields.iter().fold(0, |mask: FieldMask, name| mask | options.field_mask(name));
        planner = planner.within(mask);
    }
    let mut planned = planner.plan(root)?;
    let Filters { numbers: ranges, area } = filters;
    let mut filters: Vec<Plan> = ranges.iter().map(|filter| numbers(&rules.definition, filter)).collect();
    filters.extend(area.iter().map(|filter| points(&rules.definition, filter)));
    filters.extend(query.keys.clone().map(Plan::Keys));
    if !filters.is_empty() {
        filters.push(std::mem::replace(&mut planned.plan, Plan::All));
        planned.plan = Plan::And { children: filters, order: None, weight: 1.0 };
    }
    Ok(planned)
}

fn field_of(definition: &Definition, name: &[u8], is_kind: impl Fn(&FieldKind) -> bool) -> Option<usize> {
    definition.fields.iter().position(|field| *field.name == *name && is_kind(&field.kind))
}

/// FILTER; of a field that is none of numbers it finds nothing, as in RediSearch.
fn numbers(definition: &Definition, filter: &NumericFilter) -> Plan {
    let Some(field) = field_of(definition, &filter.field, |kind| matches!(kind, FieldKind::Numeric)) else {
        return Plan::Nothing;
    };
    let end = |bound: crate::request::Bound| match bound.inclusive {
        true => Bound::Included(bound.number),
        false => Bound::Excluded(bound.number),
    };
    Plan::Numbers { field, range: Range { min: end(filter.min), max: end(filter.max) }, weight: 1.0 }
}

/// GEOFILTER, in the same way.
fn points(definition: &Definition, filter: &GeoFilter) -> Plan {
    let field = field_of(definition, &filter.field, |kind| matches!(kind, FieldKind::Geo));
    let (Some(field), Some(centre)) = (field, Point::new(filter.longitude, filter.latitude)) else {
        return Plan::Nothing;
    };
    let shape = Shape::Circle { radius: filter.radius };
    Plan::Points { field, area: Box::new(Area::new(centre, shape, filter.unit.metres())), weight: 1.0 }
}

/// By what the results are ordered.
fn ranking(
    definition: &Definition,
    request: &Search,
    distance_fields: &[DistanceField],
) -> Result<(Ranking, Option<LoadedKey>), Error> {
    let Some(key) = request.arrange.sort.as_ref().and_then(|keys| keys.first()) else {
        return Ok((Ranking::Score, None));
    };
    let descending = key.descending;
    if let Some(DistanceField { place, .. }) = distance_fields.iter().find(|field| field.name == key.name) {
        let ranking = match *place {
            0 => Ranking::Distance { descending },
            place => Ranking::FurtherDistance { place, descending },
        };
        return Ok((ranking, None));
    }
    let Some(field) = definition.fields.iter().position(|field| field.name == key.name) else {
        let name = String::from_utf8_lossy(&key.name);
        return Err(Error::new(format!("Property `{name}` not loaded nor in schema")));
    };
    let own = &definition.fields[field];
    if matches!(own.kind, FieldKind::Numeric) && !own.no_index {
        return Ok((Ranking::Number { field, descending }, None));
    }
    if own.sortable {
        let place = definition.fields[..field].iter().filter(|field| field.sortable).count();
        return Ok((Ranking::Sortable { place, descending }, None));
    }
    // The place is none of the documents' own: the value is offered.
    let place = usize::MAX;
    Ok((Ranking::Sortable { place, descending }, Some(LoadedKey { field, descending })))
}

#[cfg(test)]
mod tests;
