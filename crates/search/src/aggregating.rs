//! The rows of FT.AGGREGATE: what an index knows of the documents that a query finds, by steps of bounded
//! length.
//!
//! A few documents come in the order in which the index has come to know them, as in RediSearch; many come as
//! they are found, so that none waits for all. Between two steps no partition is locked. A row names its
//! document by a number, and a document that has changed since is gone.

use std::sync::Arc;

use martlet_base::hash::hash_bytes;

use crate::Error;
use crate::aggregate::batch::Batch;
use crate::aggregate::expression::Slot;
use crate::aggregate::pipeline::{Input, InputSource, Options, Pipeline, Property, Schema};
use crate::aggregate::request::Aggregate;
use crate::aggregate::value::Value;
use crate::exec::{Evaluation, Match, Scores};
use crate::index::DocId;
use crate::index::documents::{Document, Sortable};
use crate::index::partition::Partition;
use crate::index::whole::Index;
use crate::number;
use crate::schema::{Definition, FieldKind, Source};
use crate::searching::{Context, Filters, distance_field, plan};

/// Up to so many documents are put into order.
const ORDERED_MAX: usize = 10_000;
/// The bits of a row's number that name its document in a partition.
const ID_BITS: u32 = 48;
/// Texts that are kept for rows with the same.
const KEPT_TEXTS: usize = 256;
/// The longest text that is kept.
const KEPT_TEXT_BYTES: usize = 64;

/// Limits of an aggregation, and its chance.
#[derive(Copy, Clone, Debug)]
pub struct Means {
    /// MAXAGGREGATERESULTS
    pub results_max: u64,
    /// Bytes that rows, groups and results may take.
    pub memory_max_bytes: usize,
    /// The seed of RANDOM_SAMPLE.
    pub seed: u64,
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct Aggregating {
    index: Arc<Index>,
    evaluation: Evaluation,
    found: Vec<Found>,
    /// How many of them have become rows.
    passed: usize,
    /// Nothing has become a row yet: there may be few, to be put into order.
    is_ordering: bool,
    columns: Vec<(Slot, Origin)>,
    terms_slot: Option<Slot>,
    texts: Texts,
}

/// A document that was found.
#[derive(Debug)]
struct Found {
    sequence: u64,
    document: u64,
    score: f64,
    distance: Option<f32>,
    terms: Vec<Box<[u8]>>,
}

/// Where a row's value comes from.
#[derive(Copy, Clone, Debug)]
enum Origin {
    Score,
    Distance,
    /// The numbers of a field.
    Number(usize),
    /// The value of a document at a place among those that are kept with it.
    Kept(usize),
}

/// The fields of an index as properties.
pub struct Fields<'a>(pub &'a Definition);

impl Schema for Fields<'_> {
    fn property(&self, name: &[u8]) -> Option<Property> {
        let field = self.0.fields.iter().find(|field| *field.name == *name)?;
        Some(Property { path: field.identifier.clone(), is_sortable: field.sortable })
    }
}

impl Aggregating {
    /// An aggregation that has not begun, and the pipeline that its rows are for.
    ///
    /// # Errors
    /// RediSearch's, for the query first and then for properties and expressions.
    pub fn new(
        index: Arc<Index>,
        request: &Aggregate,
        context: Context,
        means: Means,
    ) -> Result<(Aggregating, Pipeline), Error> {
        let rules = index.rules();
        let (planned, scorer) = plan(&rules, &request.query, Filters::default(), &context)?;
        let distance = distance_field(&planned);
        let options = Options {
            loads_names: rules.definition.source == Source::Hash,
            yielded: distance.iter().cloned().collect(),
            results_max: means.results_max,
            memory_max_bytes: means.memory_max_bytes,
            seed: means.seed,
        };
        let pipeline = Pipeline::new(request, &Fields(&rules.definition), &options)?;
        let origin = |input: &Input| {
            let is_distance = distance.as_ref() == Some(&input.name);
            Some((input.slot, origin(&rules.definition, input, is_distance)?))
        };
        let terms_slot = pipeline.terms_slot();
        let wants_scores = request.add_scores || request.with_scores || terms_slot.is_some();
        let scores = wants_scores.then(|| Scores {
            scorer,
            payload: request.query.payload.clone(),
            explain: false,
            with_terms: terms_slot.is_some(),
        });
        let aggregating = Aggregating {
            columns: pipeline.scanned().iter().filter_map(origin).collect(),
            evaluation: Evaluation::new(Arc::clone(&index), planned, scores)?.among_keys(context.key_filter),
            index,
            found: Vec::new(),
            passed: 0,
            is_ordering: true,
            terms_slot,
            texts: Texts::default(),
        };
        Ok((aggregating, pipeline))
    }

    /// See [`Evaluation::has_long_steps`].
    pub fn has_long_steps(&self) -> bool {
        self.evaluation.has_long_steps()
    }

    /// Adds at most `most` rows, after a step of the search if none is left from the one before. Returns
    /// whether there may be others.
    pub fn fill(&mut self, batch: &mut Batch, most: usize) -> bool {
        if self.passed == self.found.len() || self.is_ordering {
            self.search();
        }
        if self.is_ordering {
            return true;
        }
        let index = Arc::clone(&self.index);
        let end = self.found.len().min(self.passed.saturating_add(most));
        while let Some(first) = self.found.get(self.passed).filter(|_| self.passed < end) {
            let number = partition_of(first.document);
            let Some(partition) = index.partition(number) else { break };
            while let Some(found) = self.found.get(self.passed).filter(|_| self.passed < end) {
                if partition_of(found.document) != number {
                    break;
                }
                add_row(batch, &partition, found, &self.columns, self.terms_slot, &mut self.texts);
                self.passed += 1;
            }
        }
        self.passed < self.found.len() || !self.evaluation.is_done()
    }

    /// A step of the search.
    fn search(&mut self) {
        if self.passed == self.found.len() {
            self.found.clear();
            self.passed = 0;
        }
        let found = &mut self.found;
        self.evaluation.step(&mut |one: Match<'_>| {
            found.push(Found {
                sequence: one.rank.sequence,
                document: (one.partition as u64) << ID_BITS | one.id,
                score: one.score,
                distance: one.distance,
                terms: one.notes.terms,
            });
        });
        if self.is_ordering && (self.evaluation.is_done() || self.found.len() > ORDERED_MAX) {
            self.is_ordering = false;
            self.found.sort_unstable_by_key(|one| one.sequence);
        }
    }

    /// Calls `each` with the key of each of the documents, in their order; `None` for one that has gone.
    pub fn keys(&self, documents: &[u64], mut each: impl FnMut(Option<&[u8]>)) {
        for of_partition in documents.chunk_by(|one, two| partition_of(*one) == partition_of(*two)) {
            let partition = of_partition.first().and_then(|first| self.index.partition(partition_of(*first)));
            for document in of_partition {
                let known =
                    partition.as_ref().and_then(|partition| partition.documents().get(id_of(*document)));
                each(known.map(|document| &*document.key));
            }
        }
    }
}

fn partition_of(document: u64) -> usize {
    (document >> ID_BITS) as usize
}

fn id_of(document: u64) -> DocId {
    document & ((1 << ID_BITS) - 1)
}

/// Where an input of the pipeline comes from.
fn origin(definition: &Definition, input: &Input, is_distance: bool) -> Option<Origin> {
    match input.source {
        InputSource::Document => None,
        InputSource::Query if is_distance => Some(Origin::Distance),
        InputSource::Query => Some(Origin::Score),
        InputSource::Sorted => {
            let at = definition.fields.iter().position(|field| field.name == input.name)?;
            let (before, field) = (definition.fields.get(..at)?, definition.fields.get(at)?);
            // A hash has one number, which stands in a row with others.
            let is_number = matches!(field.kind, FieldKind::Numeric) && !field.no_index;
            if is_number && definition.source == Source::Hash {
                return Some(Origin::Number(at));
            }
            Some(Origin::Kept(before.iter().filter(|field| field.sortable).count()))
        }
    }
}

fn add_row(
    batch: &mut Batch,
    partition: &Partition,
    found: &Found,
    columns: &[(Slot, Origin)],
    terms_slot: Option<Slot>,
    texts: &mut Texts,
) {
    let id = id_of(found.document);
    let documents = partition.documents();
    if !documents.is_live(id) {
        return;
    }
    let row = batch.push(found.document);
    let mut document: Option<&Document> = None;
    for (slot, origin) in columns {
        let value = match *origin {
            Origin::Score => Some(Value::Number(found.score)),
            Origin::Distance => found.distance.map(|distance| Value::Number(f64::from(distance))),
            Origin::Number(field) => {
                partition.numbers(field).and_then(|numbers| numbers.get(id).next()).map(Value::Number)
            }
            Origin::Kept(place) => {
                document = document.or_else(|| documents.get(id));
                match document.and_then(|document| document.sortables.get(place)) {
                    Some(Sortable::Number(number)) => Some(Value::Number(*number)),
                    Some(Sortable::Text(text)) => Some(texts.value(text)),
                    Some(Sortable::Missing) | None => None,
                }
            }
        };
        if let Some(place) = row.get_mut(*slot) {
            *place = value;
        }
    }
    if let Some(place) = terms_slot.and_then(|slot| row.get_mut(slot)) {
        let terms: Vec<Value> = found.terms.iter().map(|term| Value::from(&**term)).collect();
        *place = Some(terms.into());
    }
}

/// Short texts that were seen last, so that rows with equal ones share them.
#[derive(Debug, Default)]
pub struct Texts(Vec<Option<Arc<[u8]>>>);

impl Texts {
    /// The value of a text.
    pub fn value(&mut self, text: &[u8]) -> Value {
        if text.len() > KEPT_TEXT_BYTES {
            return text.into();
        }
        self.0.resize(KEPT_TEXTS, None);
        let at = hash_bytes(text) as usize % KEPT_TEXTS;
        let Some(kept) = self.0.get_mut(at) else { return text.into() };
        match kept {
            Some(kept) if **kept == *text => Value::Text(Arc::clone(kept)),
            _ => Value::Text(Arc::clone(kept.insert(text.into()))),
        }
    }

    /// The value of a text that is a number if it reads as one.
    pub fn number_or_text(&mut self, text: &[u8]) -> Value {
        number::parse_c(text).map_or_else(|| self.value(text), Value::Number)
    }
}

#[cfg(test)]
mod tests;
