//! A query over all partitions of an index, in steps of bounded length.
//!
//! Between two steps no partition is locked. Each live document that matches is reported once, in no order.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::expand::Walk;
use super::matched::MatchedTerms;
use super::plan::Plan;
use super::planner::{Planned, ShapeQuery};
use super::prepared::Prepared;
use super::run::Run;
use super::run::profile::Profile;
use super::score::{Notes, Scorer, Scoring};
use super::shapes::ShapeSearch;
use crate::Error;
use crate::index::DocId;
use crate::index::bits::Bits;
use crate::index::documents::{Document, Rank};
use crate::index::partition::Partition;
use crate::index::sortables::SortableRef;
use crate::index::statistics::Statistics;
use crate::index::vectors::{Place, Vectors};
use crate::index::whole::{Index, Rules};
use crate::query::ast::{Near, VectorQuery};

/// A step that passes this many components of vectors takes half a millisecond or so.
const LONG_COMPONENTS: usize = 1 << 21;
/// Names of dictionaries that one step looks at for patterns.
const NAMES: usize = 4096;

/// How scores are made; see [`Scoring`].
#[derive(Clone, Debug, Default)]
pub struct Scores {
    /// The formula.
    pub scorer: Scorer,
    /// The query's payload.
    pub payload: Option<Box<[u8]>>,
    /// Whether scores come with their explanations.
    pub explain: bool,
    /// Whether they come with the terms of the query that a document has.
    pub with_terms: bool,
    /// See [`Scoring::by_texts`].
    pub by_texts: bool,
}

impl Scores {
    fn scoring<'a>(&'a self, statistics: Statistics, neighbours: Option<&'a Bits>) -> Scoring<'a> {
        Scoring {
            scorer: self.scorer,
            by_texts: self.by_texts,
            statistics,
            payload: self.payload.as_deref(),
            explain: self.explain,
            with_terms: self.with_terms,
            neighbours,
        }
    }
}

/// Which documents of an index count, by their keys: the others are as if they were not there.
#[derive(Clone)]
pub struct KeyFilter(Arc<Admits>);

type Admits = dyn Fn(&[u8]) -> bool + Send + Sync;

impl KeyFilter {
    /// The filter that admits the keys for which `admits` is true; called with a partition locked.
    pub fn new(admits: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> KeyFilter {
        KeyFilter(Arc::new(admits))
    }
}

impl std::fmt::Debug for KeyFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyFilter")
    }
}

/// How far a document's vectors are from those of the query's vector clauses: of the nearest neighbours
/// first, if they are asked for, then of each range; none for a range that the document is not in.
pub type Distances = SmallVec<[Option<f32>; 2]>;

/// A document that matches.
#[derive(Debug)]
pub struct Match<'a> {
    /// The partition, which is locked while this is reported.
    pub within: &'a Partition,
    /// The document's place among all.
    pub rank: Rank,
    /// Its partition.
    pub partition: usize,
    /// Its id there.
    pub id: DocId,
    /// Its score; 0 if scores are not asked for.
    pub score: f64,
    /// What else is asked for.
    pub notes: Notes,
    /// The distances of the vectors by which it was found.
    pub distances: Distances,
}

impl<'a> Match<'a> {
    /// The document.
    pub fn document(&self) -> Option<&'a Document> {
        self.within.documents().get(self.id)
    }

    /// The value of the sortable field at this place among those.
    pub fn sortable(&self, place: usize) -> SortableRef<'a> {
        self.within.documents().sortable(self.id, place)
    }

    /// The first number of a field of the document.
    pub fn number(&self, field: usize) -> Option<f64> {
        self.within.numbers(field)?.get(self.id).next()
    }
}

/// Takes what a step finds.
pub trait Found {
    /// A match.
    fn one(&mut self, found: Match<'_>);

    /// The documents of a window of a partition, of which neither scores nor distances are asked.
    fn window(&mut self, within: &Partition, number: usize, found: Bits) {
        for id in found.iter() {
            let (rank, notes) = (within.documents().rank(id), Notes::default());
            self.one(Match {
                within,
                rank,
                partition: number,
                id,
                score: 0.0,
                notes,
                distances: Distances::default(),
            });
        }
    }
}

struct Each<'a>(&'a mut dyn FnMut(Match<'_>));

impl Found for Each<'_> {
    fn one(&mut self, found: Match<'_>) {
        (self.0)(found);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The vectors of a range are looked for.
    Range(usize),
    /// The shapes of a query are looked for.
    Shapes(usize),
    /// The names of the plan are counted in a partition.
    Count(usize),
    /// The names that patterns stand for are looked for.
    Expand,
    /// The plan runs through a partition.
    Run(usize),
    /// The nearest vectors among the documents that were found are looked for.
    Nearest,
    /// Their documents are scored, from one of them on.
    Neighbours(usize),
    Done,
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct Evaluation {
    index: Arc<Index>,
    rules: Arc<Rules>,
    plan: Arc<Plan>,
    prepared: Arc<Prepared>,
    ranges: Vec<VectorQuery>,
    shapes: Vec<ShapeQuery>,
    nearest: Option<VectorQuery>,
    scores: Option<Scores>,
    statistics: Statistics,
    stage: Stage,
    shape_search: Option<ShapeSearch>,
    walk: Walk,
    run: Option<Run>,
    /// The documents among which the nearest are looked for, by partition; empty if all are.
    among: Vec<Vec<Bits>>,
    /// The nearest that are to be scored, by partition and id.
    neighbours: Vec<Neighbour>,
    key_filter: Option<KeyFilter>,
}

/// A document whose vector is among the nearest.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    partition: usize,
    id: DocId,
    distance: f32,
}

impl Evaluation {
    /// An evaluation of a plan, which was made for the index. Without `scores` all scores are 0.
    ///
    /// # Errors
    /// A vector of the query has the wrong length.
    pub fn new(index: Arc<Index>, planned: Planned, scores: Option<Scores>) -> Result<Evaluation, Error> {
        let rules = index.rules();
        for query in planned.ranges.iter().chain(&planned.nearest) {
            query_vector(&rules, query)?;
        }
        Ok(Evaluation {
            statistics: index.statistics(),
            rules,
            plan: Arc::new(planned.plan),
            prepared: Arc::default(),
            ranges: planned.ranges,
            shapes: planned.shapes,
            nearest: planned.nearest,
            scores,
            stage: Stage::Range(0),
            shape_search: None,
            walk: Walk::new(),
            run: None,
            among: Vec::new(),
            neighbours: Vec::new(),
            key_filter: None,
            index,
        })
    }

    /// The same evaluation of the documents that a filter admits.
    #[must_use]
    pub fn among_keys(self, key_filter: Option<KeyFilter>) -> Evaluation {
        Evaluation { key_filter, ..self }
    }

    /// Whether a step may take long: one that looks for vectors among many.
    pub fn has_long_steps(&self) -> bool {
        self.ranges.iter().chain(&self.nearest).any(|query| {
            let found = query_vector(&self.rules, query);
            found.is_ok_and(|(vectors, _)| vectors.components_passed(query.ef_runtime) > LONG_COMPONENTS)
        })
    }

    /// The parts of an evaluation that has ended, which took `time` and found `found` documents.
    pub fn profile(&self, limited: bool, time: Duration, found: u64) -> Profile {
        let nearest = self.nearest.is_some().then_some((time, found));
        Profile::new(
            Arc::clone(&self.index),
            Arc::clone(&self.plan),
            Arc::clone(&self.prepared),
            nearest,
            limited,
        )
    }

    /// Whether scores are made.
    pub fn has_scores(&self) -> bool {
        self.scores.is_some()
    }

    /// Whether the evaluation has ended.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// The terms that the evaluation, which has ended, has found, document by document.
    pub fn into_matched_terms(self) -> MatchedTerms {
        MatchedTerms::new(self.index, self.plan, self.prepared, self.statistics)
    }

    /// A step; `each` gets the matches that it found.
    pub fn step(&mut self, each: &mut dyn FnMut(Match<'_>)) {
        self.step_into(&mut Each(each));
    }

    /// As [`Evaluation::step`], with a place for documents of which nothing is asked but which they are.
    pub fn step_into(&mut self, each: &mut dyn Found) {
        self.stage = match self.stage {
            Stage::Range(number) => self.look_for_range(number),
            Stage::Shapes(number) => self.look_for_shapes(number),
            Stage::Count(partition) => self.count(partition),
            Stage::Expand => self.expand(),
            Stage::Run(partition) => self.go_on(partition, each),
            Stage::Nearest => self.look_for_nearest(each),
            Stage::Neighbours(from) => self.score_neighbours(from, each),
            Stage::Done => Stage::Done,
        };
    }

    fn prepared_mut(&mut self) -> &mut Prepared {
        // Nothing else holds it before the first run.
        if Arc::get_mut(&mut self.prepared).is_none() {
            self.prepared = Arc::default();
        }
        Arc::make_mut(&mut self.prepared)
    }

    fn look_for_range(&mut self, number: usize) -> Stage {
        let Some(query) = self.ranges.get(number) else { return Stage::Shapes(0) };
        let mut near = HashMap::new();
        if let (Ok((vectors, components)), Near::Within(radius)) =
            (query_vector(&self.rules, query), query.near)
        {
            for one in vectors.within(&components, radius as f32, None) {
                if let Some(id) = one.place.id() {
                    near.insert((one.place.partition, id), one.distance);
                }
            }
        }
        self.prepared_mut().near.push(near);
        Stage::Range(number + 1)
    }

    fn look_for_shapes(&mut self, number: usize) -> Stage {
        let Some(query) = self.shapes.get(number) else { return Stage::Count(0) };
        let search = self.shape_search.get_or_insert_with(|| ShapeSearch::new(query));
        let Some(found) = search.step(query, &self.index) else { return Stage::Shapes(number) };
        self.shape_search = None;
        self.prepared_mut().shapes.push(found);
        Stage::Shapes(number + 1)
    }

    fn count(&mut self, partition: usize) -> Stage {
        let (index, plan) = (Arc::clone(&self.index), Arc::clone(&self.plan));
        let Some(locked) = index.partition(partition) else { return Stage::Expand };
        self.prepared_mut().add(&plan, &locked);
        Stage::Count(partition + 1)
    }

    fn expand(&mut self) -> Stage {
        let (index, plan) = (Arc::clone(&self.index), Arc::clone(&self.plan));
        let mut walk = std::mem::replace(&mut self.walk, Walk::new());
        let locked = index.partition(walk.partition());
        let is_done = walk.step(&plan, locked.as_deref(), self.prepared_mut(), NAMES);
        self.walk = walk;
        match is_done {
            false => Stage::Expand,
            true if self.nearest.is_some() && !self.is_filtered() => Stage::Nearest,
            true => Stage::Run(0),
        }
    }

    /// One window of a partition.
    fn go_on(&mut self, number: usize, each: &mut dyn Found) -> Stage {
        let index = Arc::clone(&self.index);
        let Some(partition) = index.partition(number) else {
            return if self.nearest.is_some() { Stage::Nearest } else { Stage::Done };
        };
        let wants_scores = self.scores.is_some() && self.nearest.is_none();
        let run = self.run.get_or_insert_with(|| {
            let (plan, prepared) = (Arc::clone(&self.plan), Arc::clone(&self.prepared));
            Run::new(plan, prepared, &partition, number, wants_scores)
        });
        let within: &Partition = &partition;
        let near = &self.prepared.near;
        let admits = |id| match &self.key_filter {
            None => true,
            Some(KeyFilter(admits)) => {
                within.documents().get(id).is_some_and(|document| admits(&document.key))
            }
        };
        let mut report = |id, rank, score, notes| {
            if !admits(id) {
                return;
            }
            let distances = near.iter().map(|near| near.get(&(number, id)).copied()).collect();
            each.one(Match { within, rank, partition: number, id, score, notes, distances });
        };
        let has_more = match &self.scores {
            Some(scores) if wants_scores => {
                run.scores(within, &scores.scoring(self.statistics, None), report)
            }
            _ => match run.window(within) {
                None => false,
                Some(mut found) if self.nearest.is_some() => {
                    if self.key_filter.is_some() {
                        found.retain(admits);
                    }
                    if !found.is_empty() {
                        self.among.resize_with(number + 1, Vec::new);
                        self.among[number].push(found);
                    }
                    true
                }
                Some(mut found) if near.is_empty() => {
                    if self.key_filter.is_some() {
                        found.retain(admits);
                    }
                    each.window(within, number, found);
                    true
                }
                Some(found) => {
                    found
                        .iter()
                        .for_each(|id| report(id, within.documents().rank(id), 0.0, Notes::default()));
                    true
                }
            },
        };
        if has_more {
            return Stage::Run(number);
        }
        self.run = None;
        Stage::Run(number + 1)
    }

    /// Whether the nearest are looked for among some of the documents only.
    fn is_filtered(&self) -> bool {
        self.key_filter.is_some() || !matches!(*self.plan, Plan::All)
    }

    fn look_for_nearest(&mut self, each: &mut dyn Found) -> Stage {
        let Some(query) = &self.nearest else { return Stage::Done };
        let Ok((vectors, components)) = query_vector(&self.rules, query) else { return Stage::Done };
        let Near::Nearest(count) = query.near else { return Stage::Done };
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(vectors.len());
        let among = &self.among;
        let admits = |place: &Place| {
            let windows = among.get(place.partition);
            place.id().is_some_and(|id| {
                let windows = windows.map_or(&[][..], Vec::as_slice);
                let at = windows.partition_point(|window| window.end() <= id);
                windows.get(at).is_some_and(|window| window.contains(id))
            })
        };
        let is_filtered = self.is_filtered();
        let admits: Option<&dyn Fn(&Place) -> bool> = if is_filtered { Some(&admits) } else { None };
        let candidates: usize = among.iter().flatten().map(Bits::count).sum();
        let is_exact = is_filtered && candidates.saturating_mul(10) < vectors.len();
        let nearest = vectors.nearest(&components, count, query.ef_runtime, is_exact, admits);
        let neighbours: Vec<Neighbour> = nearest
            .into_iter()
            .filter_map(|near| {
                let partition = near.place.partition;
                Some(Neighbour { partition, id: near.place.id()?, distance: near.distance })
            })
            .collect();
        // Without a filter no term counts.
        let is_all = matches!(*self.plan, Plan::All);
        if self.scores.as_ref().is_some_and(|scores| !is_all || !scores.scorer.wants_terms()) {
            self.neighbours = neighbours;
            self.neighbours.sort_unstable_by_key(|one| (one.partition, one.id));
            return Stage::Neighbours(0);
        }
        for one in neighbours {
            let Some(partition) = self.index.partition(one.partition) else { continue };
            self.report_neighbour(&partition, one, 0.0, Notes::default(), each);
        }
        Stage::Done
    }

    fn report_neighbour(
        &self,
        within: &Partition,
        one: Neighbour,
        score: f64,
        notes: Notes,
        each: &mut dyn Found,
    ) {
        let Neighbour { partition, id, distance } = one;
        if !within.documents().is_live(id) {
            return;
        }
        let of_ranges = self.prepared.near.iter().map(|range| range.get(&(partition, id)).copied());
        each.one(Match {
            within,
            rank: within.documents().rank(id),
            partition,
            id,
            score,
            notes,
            distances: std::iter::once(Some(distance)).chain(of_ranges).collect(),
        });
    }

    /// The neighbours of one window, by what the filter finds in them beside their vectors.
    fn score_neighbours(&mut self, from: usize, each: &mut dyn Found) -> Stage {
        let index = Arc::clone(&self.index);
        let (Some(first), Some(scores)) = (self.neighbours.get(from).copied(), &self.scores) else {
            return Stage::Done;
        };
        let Some(partition) = index.partition(first.partition) else { return Stage::Done };
        let (plan, prepared) = (Arc::clone(&self.plan), Arc::clone(&self.prepared));
        let mut run = match self.run.take() {
            Some(run) if from > 0 && self.neighbours[from - 1].partition == first.partition => run,
            _ => Run::new(plan, prepared, &partition, first.partition, true),
        };
        let mut window = run.skip_to(first.id);
        let is_within = |one: &&Neighbour| one.partition == first.partition && one.id < window.end();
        let count = self.neighbours[from..].iter().take_while(is_within).count().max(1);
        let neighbours = &self.neighbours[from..from + count];
        neighbours.iter().for_each(|one| window.insert(one.id));
        run.scores(&partition, &scores.scoring(self.statistics, Some(&window)), |id, _, score, notes| {
            let at = neighbours.partition_point(|one| one.id < id);
            if let Some(one) = neighbours.get(at) {
                self.report_neighbour(&partition, *one, score, notes, each);
            }
        });
        self.run = Some(run);
        Stage::Neighbours(from + count)
    }
}

/// The field's vectors, and the query's as they have it.
fn query_vector<'r>(rules: &'r Rules, query: &VectorQuery) -> Result<(&'r Vectors, Vec<f32>), Error> {
    let field = rules.definition.fields.iter().position(|field| field.name == query.field);
    let vectors = field
        .and_then(|field| rules.vectors.get(field)?.as_deref())
        .ok_or_else(|| Error::new(format!("Unknown field `{}`", String::from_utf8_lossy(&query.field))))?;
    let wanted = vectors.bytes();
    if query.vector.len() != wanted {
        return Err(Error::new(format!(
            "Error parsing vector similarity query: query vector blob size ({}) does not match index's expected \
             size ({wanted}).",
            query.vector.len()
        )));
    }
    Ok((vectors, vectors.decode(&query.vector)?))
}

#[cfg(test)]
mod tests;
