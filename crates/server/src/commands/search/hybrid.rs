//! FT.HYBRID.

use std::sync::Arc;
use std::time::Instant;

use martlet_base::clock::monotonic;
use martlet_command::{Acl, Error, Flags, Outcome, command};
use martlet_indexes::{Access, Aggregation, EndedIn, HybridPart, HybridResults, HybridRun, KeyIndex};
use martlet_protocol::reply::Reply;
use martlet_search::aggregate::pipeline::Role;
use martlet_search::aggregate::rows::Reading as PartRows;
use martlet_search::hybrid::{Hybrid, aggregates};
use martlet_search::request::{Cursor, Format};
use martlet_search::searching::Context;

use super::aggregate::means;
use super::{GROUP, context, limits, readable_index, time_limit};
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::search::cursors::Terms;
use crate::search::job::{self, Job, TIMED_OUT};
use crate::search::nodes::{self, Nodes, PartOf, PartRequest};
use crate::search::settings::cursors_max;
use crate::search::{rows, settings};

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&HYBRID, &HYBRID_PART];

static HYBRID: ServerCommand = command("ft.hybrid", -3, hybrid as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax(
        "index search=SEARCH ?scorer=SCORER ?search_score=YIELD_SCORE_AS vsim=VSIM(field vector) \
         ?knn=KNN(count:i k:i=K ?ef_runtime:i=EF_RUNTIME) \
         ?range=RANGE(count:i radius:d=RADIUS ?epsilon:d=EPSILON) ?vector_score=YIELD_SCORE_AS \
         ?vector_filter=FILTER \
         ?combine=COMBINE(RRF(count:i ?constant:d=CONSTANT ?window:i=WINDOW)|\
         LINEAR(count:i ?alpha:d=ALPHA ?beta:d=BETA ?window:i=WINDOW)) ?combined_score=YIELD_SCORE_AS \
         ?limit=LIMIT(offset:i num:i) ?sorting(sortby=SORTBY(nargs:i *field(field ?order(ASC|DESC)))|NOSORT) \
         ?cursor=WITHCURSOR(?read_size:i=COUNT ?idle_time:i=MAXIDLE) \
         ?params=PARAMS(nargs:i *values(name value)) ?timeout:i=TIMEOUT ?format=FORMAT \
         ?*+load=LOAD(count *field) \
         ?groupby=GROUPBY(nargs:i *property ?*+reduce=REDUCE(function nargs:i *arg ?name=AS)) \
         ?*+apply=APPLY(expression ?name=AS) ?filter=FILTER",
    )
    .doc(GROUP, "8.4.0", "O(N)", "Searches an index by text and by vector, and fuses both lists of results.");

/// A node's part of FT.HYBRID, for the node that a client has asked: rows as [`HybridPart`] has them.
static HYBRID_PART: ServerCommand = command("_ft.hybrid", -5, hybrid_part as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("slots:i protocol:i index ?*option")
    .doc(
        GROUP,
        "8.4.0",
        "O(N)",
        "Searches a node's part of an index by text and by vector, for another node.",
    );

fn hybrid(call: &mut Call<'_>) -> Outcome {
    let began = monotonic();
    let words: Vec<&[u8]> = call.args.iter().collect();
    let index = readable_index(call, words[1])?;
    let name = String::from_utf8_lossy(words[1]);
    let index = index.ok_or_else(|| Error::Text(format!("No such index {name}")))?;
    let request = Hybrid::parse(&words[2..], &limits(call)).map_err(text)?;
    index.count_dialect(request.query.dialect);
    if let Some(cursor) = request.tail.cursor {
        return leave_to_cursors(call, &index, &request, cursor);
    }
    let format = request.query.format;
    let run = HybridRun::new(index, request, context(call)).map_err(text)?;
    if let Some(nodes) = Nodes::of(call)? {
        let request =
            PartRequest::new(HYBRID_PART.spec.name, &[nodes::protocol(call)], call, run.timeout_ms());
        let asked = AskedHybrid { run, fails_late: settings::fails_late(call.worker.config()) };
        let read = |bytes: &[u8]| PartRows::new(bytes.to_vec());
        nodes.answer_parts(call, request, read, move |parts, reply| match asked.results(parts) {
            Ok(results) => write(&results, format, began, reply),
            Err(error) => reply.error(error.to_string()),
        });
        return Ok(());
    }
    let limit = time_limit(call, run.timeout_ms());
    job::run(call, HybridJob { run, error: None, format, began }, limit)
}

/// WITHCURSOR: each search is one cursor's.
fn leave_to_cursors(call: &mut Call<'_>, index: &Arc<KeyIndex>, request: &Hybrid, cursor: Cursor) -> Outcome {
    if Nodes::of(call)?.is_some() {
        return Err(Error::Fixed("WITHCURSOR is not supported by FT.HYBRID of a cluster"));
    }
    let terms = Terms { count: cursor.count as usize, idle_ms: cursor.idle_ms };
    let [search, vector] = aggregates(request, &index.index().rules().definition).map_err(text)?;
    let mut open = |request| {
        let (context, means) = (context(call), means(call));
        let aggregation =
            Aggregation::new(Arc::clone(index), request, context, means, Role::Whole).map_err(text)?;
        let most = cursors_max(call.worker.config());
        let lease = call.worker.shared.cursors.open(aggregation.index(), most, terms)?;
        lease.leave(aggregation, call.worker.now_ms)
    };
    let search = open(search)?;
    let vector = open(vector);
    if vector.is_err() {
        call.worker.shared.cursors.delete(search);
    }
    let vector = vector?;
    call.reply.map(3);
    call.reply.simple("SEARCH");
    call.reply.unsigned(search);
    call.reply.simple("VSIM");
    call.reply.unsigned(vector);
    call.reply.simple("warnings");
    call.reply.array(0);
    Ok(())
}

fn text(error: martlet_search::Error) -> Error {
    Error::Text(error.to_string())
}

fn hybrid_part(call: &mut Call<'_>) -> Outcome {
    let part = PartOf::check(call)?;
    let is_resp3 = call.int(2)? == 3;
    let words: Vec<&[u8]> = call.args.iter().skip(3).collect();
    let request = Hybrid::parse(&words[1..], &limits(call)).map_err(text)?;
    let index = call.worker.shared.indexes.find(words[0]).ok_or(nodes::OTHER_INDEXES)?;
    let run = HybridRun::new(index, request, Context { is_resp3, ..context(call) }).map_err(text)?;
    let limit = time_limit(call, run.timeout_ms());
    job::run(call, part.job(PartRun(HybridPart::new(run))), limit)
}

/// FT.HYBRID of all nodes.
struct AskedHybrid {
    run: HybridRun,
    fails_late: bool,
}

impl AskedHybrid {
    /// The results of these parts; one that has not come in time is missing.
    fn results(mut self, parts: Vec<Option<PartRows>>) -> Result<HybridResults, martlet_search::Error> {
        let is_late = parts.iter().any(Option::is_none);
        if is_late && self.fails_late {
            return Err(martlet_search::Error::new(TIMED_OUT));
        }
        self.run.take_parts(parts.into_iter().flatten().collect(), is_late)?;
        while !self.run.step_of_parts()? {}
        Ok(self.run.into_results())
    }
}

/// A node's part.
struct PartRun(HybridPart);

impl Job for PartRun {
    fn leaves_at_once(&self) -> bool {
        self.0.has_long_steps()
    }

    fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        self.0.step(access, now_ms)
    }

    fn end_early(&mut self) {
        self.0.end_early();
    }

    fn finish(self, reply: &mut Reply) {
        match self.0.encode() {
            Ok(bytes) => reply.bulk(&bytes),
            Err(error) => reply.error(error.to_string()),
        }
    }
}

struct HybridJob {
    run: HybridRun,
    error: Option<martlet_search::Error>,
    format: Format,
    began: Instant,
}

impl Job for HybridJob {
    fn leaves_at_once(&self) -> bool {
        self.run.has_long_steps()
    }

    fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        match self.run.step(access, now_ms) {
            Ok(is_done) => is_done,
            Err(error) => {
                self.error = Some(error);
                true
            }
        }
    }

    fn end_early(&mut self) {
        self.run.end_early();
    }

    fn finish(self, reply: &mut Reply) {
        match self.error {
            Some(error) => reply.error(error.to_string()),
            None => write(&self.run.into_results(), self.format, self.began, reply),
        }
    }
}

fn write(results: &HybridResults, format: Format, began: Instant, reply: &mut Reply) {
    reply.map(4);
    reply.simple("total_results");
    reply.int(i64::try_from(results.total).unwrap_or(i64::MAX));
    reply.simple("results");
    reply.array(results.rows.len());
    for row in &results.rows {
        reply.map(row.len());
        for (name, value) in row {
            reply.bulk(name);
            rows::write_property(value, format, reply);
        }
    }
    reply.simple("warnings");
    let part = results.ended_in.map(|part| match part {
        EndedIn::Search => "SEARCH",
        EndedIn::Vectors => "VSIM",
        EndedIn::Pipeline => "POST PROCESSING",
    });
    reply.array(usize::from(part.is_some()));
    if let Some(part) = part {
        reply.simple(&format!("{TIMED_OUT} ({part})"));
    }
    reply.simple("execution_time");
    reply.double(began.elapsed().as_secs_f64() * 1000.0);
}
