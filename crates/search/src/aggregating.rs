//! The rows of FT.AGGREGATE's query: the matches of an evaluation with what the index keeps of them, by steps
//! of bounded length. No key is known here: what documents alone have, the caller reads.

use std::sync::Arc;

use crate::Error;
use crate::aggregate::batch::Batch;
use crate::aggregate::expression::Slot;
use crate::aggregate::pipeline::{Input, InputSource, Pipeline};
use crate::aggregate::request::Aggregate;
use crate::aggregate::value::Value;
use crate::exec::{Evaluation, Match, Scores};
use crate::index::DocId;
use crate::index::documents::Sortable;
use crate::index::whole::Index;
use crate::schema::{Definition, FieldKind};
use crate::searching::{Context, Filters, distance_field, plan};

/// Bits of a row's number that are its document's id; the partition stands above.
const ID_BITS: u32 = 48;

/// So many rows come in the order in which their documents came into the index; those of more come in no order.
const ORDERED_ROWS: usize = 1 << 16;

/// Where the value of a slot comes from.
#[derive(Clone, Debug)]
enum Origin {
    /// The sortable values of a document, by place.
    Sortable(usize),
    /// The numbers of a field.
    Number(usize),
    Score,
    Distance,
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct Aggregating {
    index: Arc<Index>,
    evaluation: Evaluation,
    origins: Vec<(Slot, Origin)>,
    terms_slot: Option<Slot>,
    /// Rows of the last step that have not been taken.
    rows: Batch,
    taken: usize,
    width: usize,
    /// The order of the rows, if they come as their documents came into the index: their numbers there, and
    /// their places.
    order: Option<Vec<(u64, usize)>>,
}

/// A query that is planned; [`Planned::begin`] makes it rows of a pipeline.
#[derive(Debug)]
pub struct Planned {
    index: Arc<Index>,
    evaluation: Evaluation,
    /// The nearest vectors come in their order.
    is_by_distance: bool,
    /// The names that the query gives the distances of its vectors.
    pub yielded: Vec<Box<[u8]>>,
}

impl Planned {
    /// Plans a request's query.
    ///
    /// # Errors
    /// RediSearch's.
    pub fn new(index: Arc<Index>, request: &Aggregate, context: Context) -> Result<Planned, Error> {
        let rules = index.rules();
        let (planned, scorer) = plan(&rules, &request.query, Filters::default(), &context)?;
        let is_by_distance = planned.nearest.is_some();
        let yielded = distance_field(&planned).into_iter().collect();
        let payload = request.query.payload.clone();
        let scores = Scores { scorer, payload, explain: false, with_terms: request.has_matched_terms() };
        let wants_scores = request.add_scores || request.with_scores || scores.with_terms;
        let scores = wants_scores.then_some(scores);
        let evaluation = Evaluation::new(Arc::clone(&index), planned, scores)?.among_keys(context.key_filter);
        Ok(Planned { index, evaluation, is_by_distance, yielded })
    }

    /// The rows of a pipeline that was made with the names in `yielded`.
    pub fn begin(self, pipeline: &Pipeline) -> Aggregating {
        let rules = self.index.rules();
        let origin = |input: &Input| Some((input.slot, origin(&rules.definition, input)?));
        let origins = pipeline
            .scanned()
            .iter()
            .filter_map(origin)
            .chain(pipeline.score_slot().map(|slot| (slot, Origin::Score)));
        Aggregating {
            origins: origins.collect(),
            terms_slot: pipeline.terms_slot(),
            rows: Batch::default(),
            taken: 0,
            width: pipeline.scanned_width(),
            order: (!self.is_by_distance && !pipeline.begins_with_groups()).then(Vec::new),
            evaluation: self.evaluation,
            index: self.index,
        }
    }
}

fn origin(definition: &Definition, input: &Input) -> Option<Origin> {
    if input.source == InputSource::Query {
        return Some(if *input.name == *b"__score" { Origin::Score } else { Origin::Distance });
    }
    let field = definition.fields.iter().position(|field| field.name == input.name)?;
    let own = &definition.fields[field];
    if matches!(own.kind, FieldKind::Numeric) && !own.no_index {
        return Some(Origin::Number(field));
    }
    let place = definition.fields[..field].iter().filter(|field| field.sortable).count();
    own.sortable.then_some(Origin::Sortable(place))
}

impl Aggregating {
    /// Adds at most `most` rows to `batch`; whether there may be others.
    pub fn fill(&mut self, batch: &mut Batch, most: usize) -> bool {
        if self.taken == self.rows.len() {
            self.taken = 0;
            self.rows.clear(self.width);
            self.order.iter_mut().for_each(Vec::clear);
            self.step();
        } else if self.taken == 0 && self.is_gathering() {
            self.step();
        }
        if self.is_gathering() {
            return true;
        }
        match &mut self.order {
            None => self.taken += batch.take_rows(&mut self.rows, self.taken, most),
            Some(order) => {
                if self.taken == 0 {
                    order.sort_unstable();
                }
                for &(_, row) in order.iter().skip(self.taken).take(most) {
                    self.taken += batch.take_rows(&mut self.rows, row, 1);
                }
            }
        }
        self.taken < self.rows.len() || !self.evaluation.is_done()
    }

    /// Whether rows are kept back until all of them, or as many as have an order, are there.
    pub fn is_gathering(&self) -> bool {
        self.order.is_some() && self.rows.len() < ORDERED_ROWS && !self.evaluation.is_done()
    }

    fn step(&mut self) {
        let (rows, origins, terms_slot) = (&mut self.rows, &self.origins, self.terms_slot);
        let order = &mut self.order;
        self.evaluation.step(&mut |found| {
            order.iter_mut().for_each(|order| order.push((found.rank.sequence, rows.len())));
            let row = rows.push((found.partition as u64) << ID_BITS | found.id);
            for (slot, origin) in origins {
                if let Some(place) = row.get_mut(*slot) {
                    *place = value(origin, &found);
                }
            }
            if let Some(place) = terms_slot.and_then(|slot| row.get_mut(slot)) {
                let terms = found.notes.terms.iter().map(|term| Value::from(&**term));
                *place = Some(Value::from(terms.collect::<Vec<_>>()));
            }
        });
    }

    /// The key of a row's document, unless it has gone.
    pub fn key(&self, row: u64) -> Option<Box<[u8]>> {
        let (partition, id): (usize, DocId) = ((row >> ID_BITS) as usize, row & ((1 << ID_BITS) - 1));
        let partition = self.index.partition(partition)?;
        Some(partition.documents().get(id)?.key.clone())
    }
}

fn value(origin: &Origin, found: &Match<'_>) -> Option<Value> {
    match origin {
        Origin::Score => Some(Value::Number(found.score)),
        Origin::Distance => found.distance.map(|distance| Value::Number(f64::from(distance))),
        Origin::Number(field) => found.number(*field).map(Value::Number),
        Origin::Sortable(place) => match found.document()?.sortables.get(*place)? {
            Sortable::Missing => None,
            Sortable::Number(number) => Some(Value::Number(*number)),
            Sortable::Text(text) => Some(Value::from(&**text)),
        },
    }
}
