//! VSIM.

use martlet_base::number::parse_f64_saturating;
use martlet_protocol::reply::Reply;
use martlet_spec::{Command, Cursor, Error, Flags, Outcome, command};
use martlet_vector::element::Element;
use martlet_vector::filter::Filter;
use martlet_vector::graph::{Graph, Hit, SearchOptions, StoredVector};
use martlet_vector::quantise::Projection;
use martlet_vector::set::VectorSet;
use std::sync::Arc;

use super::{EF_MAX, GROUP, INVALID_VECTOR, KEY, exploration, read, vector};
use crate::Handler;
use crate::context::{Block, Computation, Context, TimeoutReply, Wait};

/// Redis' defaults.
const COUNT_DEFAULT: usize = 10;
const EF_DEFAULT: usize = 100;
/// Elements that a filtered search looks at for each wanted result, unless FILTER-EF says otherwise.
const EXAMINED_PER_RESULT: usize = 100;

pub(super) static VSIM: Command<Handler> = command("vsim", -4, vsim as Handler)
    .flags(Flags::READONLY)
    .keys(KEY)
    .syntax(
        "key:k0 format(ELE|FP32|VALUES) vector_or_element ?WITHSCORES ?WITHATTRIBS ?count:i=COUNT \
         ?max_distance:d=EPSILON ?search-exploration-factor:i=EF ?expression=FILTER \
         ?max-filtering-effort:i=FILTER-EF ?TRUTH ?NOTHREAD",
    )
    .doc(
        GROUP,
        "8.0.0",
        "O(log(N)), N being the number of elements in the vector set",
        "Returns the elements of a vector set that are the most similar to a vector or to an element.",
    );

/// A vector of another dimension than a set's.
pub(super) fn dimension_mismatch(given: usize, dimension: usize) -> Error {
    Error::Text(format!("ERR Vector dimension mismatch - got {given} but set has {dimension}"))
}

/// A vector of another dimension than the input of a set's projection.
pub(super) fn input_mismatch(given: usize, projection: &Projection) -> Error {
    let input = projection.input();
    Error::Text(format!(
        "ERR Input dimension mismatch for projection - got {given} but projection expects {input}"
    ))
}

/// What a search is for, and how its results are shown.
struct Search {
    graph: Arc<Graph<Element>>,
    query: StoredVector,
    options: Options,
}

/// The options of VSIM.
struct Options {
    with_scores: bool,
    with_attributes: bool,
    count: usize,
    distance_max: f32,
    ef: Option<usize>,
    filter: Option<Filter>,
    examined_max: Option<usize>,
    is_exact: bool,
    /// The search is not left to another thread.
    is_inline: bool,
}

impl Options {
    fn parse(mut rest: Cursor<'_>) -> Result<Options, Error> {
        let mut options = Options {
            with_scores: false,
            with_attributes: false,
            count: COUNT_DEFAULT,
            distance_max: f32::INFINITY,
            ef: None,
            filter: None,
            examined_max: None,
            is_exact: false,
            is_inline: false,
        };
        while rest.left() > 0 {
            if rest.word("WITHSCORES") {
                options.with_scores = true;
            } else if rest.word("WITHATTRIBS") {
                options.with_attributes = true;
            } else if rest.word("TRUTH") {
                options.is_exact = true;
            } else if rest.option("COUNT", 1) {
                options.count = positive(&mut rest, i64::MAX, "ERR invalid COUNT")?;
            } else if rest.option("EPSILON", 1) {
                let epsilon = parse_f64_saturating(rest.value()?).filter(|epsilon| *epsilon > 0.0);
                // A score falls from 1 by half of the distance.
                let epsilon = epsilon.ok_or(Error::Fixed("ERR invalid EPSILON"))?;
                options.distance_max = (epsilon * 2.0) as f32;
            } else if rest.option("EF", 1) {
                options.ef = Some(exploration(&mut rest)?);
            } else if rest.option("FILTER", 1) {
                let text = rest.value()?;
                let filter = Filter::compile(text);
                let filter =
                    filter.map_err(|error| Error::Bytes([b"ERR ", &*error.message(text)].concat()))?;
                options.filter = Some(filter);
            } else if rest.option("FILTER-EF", 1) {
                options.examined_max = Some(positive(&mut rest, i64::MAX, "ERR invalid FILTER-EF")?);
            } else if rest.word("NOTHREAD") {
                options.is_inline = true;
            } else {
                return Err(Error::Fixed("ERR syntax error in VSIM command"));
            }
        }
        Ok(options)
    }
}

/// A number from 1 to `most`.
fn positive(rest: &mut Cursor<'_>, most: i64, error: &'static str) -> Result<usize, Error> {
    let number = rest.int().ok().filter(|number| (1..=most).contains(number));
    number.and_then(|number| usize::try_from(number).ok()).ok_or(Error::Fixed(error))
}

/// Takes the vector to search for.
fn query(rest: &mut Cursor<'_>, set: &VectorSet) -> Result<StoredVector, Error> {
    if rest.option("ELE", 1) {
        // As in Redis by what VEMB answers, encoded once more.
        let found = set.get(rest.value()?).and_then(|(slot, _)| set.graph().components(slot));
        let components = found.ok_or(Error::Fixed("ERR element not found in set"))?;
        return set.graph().encode(&components).map_err(|_| INVALID_VECTOR);
    }
    let components = vector(rest)?;
    let (given, dimension) = (components.len(), set.config().dimension);
    let encoded = match set.projection() {
        Some(projection) if given != dimension && given != projection.input() => {
            return Err(input_mismatch(given, projection));
        }
        None if given != dimension => return Err(dimension_mismatch(given, dimension)),
        // Components of the set's dimension are taken as they are, as in Redis.
        Some(_) if given != dimension => set.encode(&components),
        _ => set.graph().encode(&components),
    };
    encoded.map_err(|_| INVALID_VECTOR)
}

impl Search {
    fn parse(ctx: &mut Context<'_>) -> Result<Option<Search>, Error> {
        let mut rest = ctx.rest(2);
        let Some(set) = read(ctx)? else { return Ok(None) };
        let query = query(&mut rest, set)?;
        let graph = Arc::clone(set.graph());
        Ok(Some(Search { graph, query, options: Options::parse(rest)? }))
    }

    /// Candidates that the walk keeps.
    fn ef(&self) -> usize {
        let Options { count, ef, .. } = self.options;
        ef.unwrap_or(EF_DEFAULT).max(count.min(EF_MAX as usize))
    }

    /// Nodes to which a filtered walk goes.
    fn examined_max(&self) -> usize {
        let Options { count, examined_max, .. } = self.options;
        examined_max.unwrap_or(count.saturating_mul(EXAMINED_PER_RESULT))
    }

    /// An estimate of the time that the search takes, in nanoseconds: of the distances that it computes, each
    /// with a miss of the caches and work for its components.
    fn estimate_ns(&self) -> usize {
        const MISS_NS: usize = 60;
        const COMPONENTS_PER_NS: usize = 16;
        let (config, len) = (self.graph.config(), self.graph.len());
        let nodes = match (&self.options.filter, self.options.is_exact) {
            (_, true) => len,
            (None, false) => self.ef(),
            (Some(_), false) => self.ef().saturating_add(self.examined_max()),
        };
        let distances = nodes.min(len).saturating_mul(if self.options.is_exact { 1 } else { config.m });
        distances.min(len).saturating_mul(MISS_NS + config.dimension / COMPONENTS_PER_NS)
    }

    fn run(&self) -> Vec<Hit<Element>> {
        let Options { count, distance_max, is_exact, .. } = self.options;
        let filter = self.options.filter.as_ref();
        let accepts = |element: &Element| filter.is_some_and(|filter| element.matches(filter));
        self.graph.search(
            &self.query,
            &SearchOptions {
                count,
                ef: self.ef(),
                distance_max,
                filter: filter.is_some().then_some(&accepts),
                examined_max: self.examined_max(),
                is_exact,
            },
        )
    }

    fn write(&self, hits: &[Hit<Element>], reply: &mut Reply) {
        let Options { with_scores, with_attributes, .. } = self.options;
        match (with_scores, with_attributes) {
            (false, false) => reply.array(hits.len()),
            _ if reply.is_resp3() => reply.map(hits.len()),
            (true, true) => reply.array(3 * hits.len()),
            _ => reply.array(2 * hits.len()),
        }
        for hit in hits {
            reply.bulk(&hit.payload.name);
            if with_scores && with_attributes && reply.is_resp3() {
                reply.array(2);
            }
            if with_scores {
                reply.double(hit.score());
            }
            if with_attributes {
                reply.bulk_or_null(hit.payload.attribute.as_deref());
            }
        }
    }
}

/// Searches that may take longer leave the client's thread and the key's shard.
const INLINE_NS: usize = 500_000;

fn vsim(ctx: &mut Context<'_>) -> Outcome {
    let Some(search) = Search::parse(ctx)? else {
        ctx.reply.array(0);
        return Ok(());
    };
    let is_inline = ctx.deny_blocking || ctx.settings.vector_sets_inline || search.options.is_inline;
    if is_inline || search.estimate_ns() <= INLINE_NS {
        search.write(&search.run(), ctx.reply);
        return Ok(());
    }
    let computation = Computation::new(move |_, reply| search.write(&search.run(), reply));
    ctx.block_on(Block::new(Wait::Computed(computation), None, TimeoutReply::Null))
}
