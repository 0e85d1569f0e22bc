//! FT.SEARCH.

use std::sync::Arc;

use martlet_command::{Acl, Error, Flags, Outcome, command};
use martlet_indexes::{Access, KeyIndex, Run};
use martlet_protocol::reply::Reply;
use martlet_search::merging::{Merging, Part};
use martlet_search::request::Search;
use martlet_search::searching::Context;

use super::{GROUP, context, limits, readable_index, time_limit};
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::search::job::{self, Job, TimeLimit};
use crate::search::nodes::{self, Nodes, PartOf, PartRequest};
use crate::search::parts;
use crate::search::reply::{Summary, write_around, write_around_with};

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&SEARCH, &SEARCH_PART];

static SEARCH: ServerCommand = command("ft.search", -3, search as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax(
        "index query ?NOCONTENT ?VERBATIM ?NOSTOPWORDS ?WITHSCORES ?WITHPAYLOADS ?WITHSORTKEYS \
         ?*+filter=FILTER(numeric_field min:d max:d) \
         ?geo_filter=GEOFILTER(geo_field lon:d lat:d radius:d radius_type(m|km|mi|ft)) \
         ?in_keys=INKEYS(count *key) ?in_fields=INFIELDS(count *field) \
         ?return=RETURN(count *identifier(identifier ?property=AS)) \
         ?summarize=SUMMARIZE(?fields=FIELDS(count *field) ?num:i=FRAGS ?fragsize:i=LEN ?separator=SEPARATOR) \
         ?highlight=HIGHLIGHT(?fields=FIELDS(count *field) ?tags=TAGS(open close)) ?slop:i=SLOP \
         ?timeout:i=TIMEOUT ?INORDER ?language=LANGUAGE ?expander=EXPANDER ?scorer=SCORER ?EXPLAINSCORE \
         ?payload=PAYLOAD ?sortby=SORTBY(sortby ?order(ASC|DESC)) ?limit=LIMIT(offset:i num:i) \
         ?params=PARAMS(nargs:i *values(name value)) ?dialect:i=DIALECT",
    )
    .doc(GROUP, "1.0.0", "O(N)", "Searches an index.");

/// A node's part of FT.SEARCH, for the node that a client has asked: its first rows, as [`parts`] has them.
static SEARCH_PART: ServerCommand = command("_ft.search", -6, search_part as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("slots:i protocol:i rows:i index query ?*option")
    .doc(GROUP, "8.0.0", "O(N)", "Searches a node's part of an index, for another node.");

fn search(call: &mut Call<'_>) -> Outcome {
    let words: Vec<&[u8]> = call.args.iter().collect();
    let (index, request) = parse(call, words[1], &words[2..])?;
    let (run, limit) = plan(call, index, request)?;
    if let Some(nodes) = Nodes::of(call)? {
        let asked = AskedSearch::new(call, &run);
        let own = [nodes::protocol(call), &asked.rows_of_part()];
        let request = PartRequest::new(SEARCH_PART.spec.name, &own, call, asked.request.query.timeout_ms);
        nodes.answer_parts(call, request, parts::decode, move |parts, reply| {
            let whole = asked.merge(parts);
            asked.write(&whole, reply);
        });
        return Ok(());
    }
    job::run(call, run, limit)
}

/// The index of a name, and the request of the words from the query on.
///
/// # Errors
/// RediSearch's, for the words and for an index that is not there.
pub(super) fn parse(
    call: &mut Call<'_>,
    name: &[u8],
    words: &[&[u8]],
) -> Result<(Arc<KeyIndex>, Search), Error> {
    let index = readable_index(call, name)?;
    let request = Search::parse(words, &limits(call)).map_err(error)?;
    let name = String::from_utf8_lossy(name);
    let index = index.ok_or_else(|| Error::Text(format!("{name}: no such index")))?;
    index.count_dialect(request.query.dialect);
    Ok((index, request))
}

/// The run of a request, and its time limit.
///
/// # Errors
/// RediSearch's, for the query.
pub(super) fn plan(
    call: &Call<'_>,
    index: Arc<KeyIndex>,
    request: Search,
) -> Result<(Run, TimeLimit), Error> {
    let limit = time_limit(call, request.query.timeout_ms);
    Ok((Run::new(index, request, context(call)).map_err(error)?, limit))
}

fn error(error: martlet_search::Error) -> Error {
    Error::Text(error.to_string())
}

fn search_part(call: &mut Call<'_>) -> Outcome {
    let part = PartOf::check(call)?;
    let (is_resp3, rows) = (call.int(2)? == 3, call.int(3)?);
    let words: Vec<&[u8]> = call.args.iter().skip(4).collect();
    let (run, limit) = plan_part(call, &words, rows, is_resp3)?;
    job::run(call, part.job(PartRun { run, is_resp3 }), limit)
}

/// The run of a node's part of a search, with its first `rows`, and its time limit. The words are the index,
/// the query and the options.
///
/// # Errors
/// RediSearch's, and [`nodes::OTHER_INDEXES`].
pub(super) fn plan_part(
    call: &Call<'_>,
    words: &[&[u8]],
    rows: i64,
    is_resp3: bool,
) -> Result<(Run, TimeLimit), Error> {
    let [name, words @ ..] = words else { return Err(Error::unknown_command(&call.args)) };
    let mut request = Search::parse(words, &limits(call)).map_err(error)?;
    if !request.count_only {
        (request.arrange.offset, request.arrange.count) = (0, u64::try_from(rows).unwrap_or(0));
    }
    let index = call.worker.shared.indexes.find(name).ok_or(nodes::OTHER_INDEXES)?;
    let run = Run::new(index, request, Context { is_resp3, ..context(call) }).map_err(error)?;
    let limit = time_limit(call, run.request().query.timeout_ms);
    Ok((run, limit))
}

/// A search of all nodes.
pub(super) struct AskedSearch {
    pub(super) request: Search,
    merging: Merging,
    kept: u64,
}

impl AskedSearch {
    pub(super) fn new(call: &Call<'_>, run: &Run) -> AskedSearch {
        let request = run.request().clone();
        let kept = if request.count_only { 0 } else { request.arrange.kept(limits(call).search_results) };
        AskedSearch { request, merging: run.merging(), kept }
    }

    /// How many rows each node has to send.
    pub(super) fn rows_of_part(&self) -> String {
        self.merging.rows_of_part(self.kept).to_string()
    }

    /// The results of these parts; one that has not come in time is missing.
    pub(super) fn merge(&self, parts: Vec<Option<Part>>) -> Part {
        let late = || Part { is_partial: true, ..Part::default() };
        let parts = parts.into_iter().map(|part| part.unwrap_or_else(late)).collect();
        self.merging.merge(parts, self.request.arrange.offset, self.kept)
    }

    pub(super) fn write(&self, whole: &Part, reply: &mut Reply) {
        write_around(&self.request, summary(whole), reply, |reply| write_rows(whole, reply));
    }

    /// As [`AskedSearch::write`] in RESP3, with a further pair that `more` writes.
    pub(super) fn write_with(&self, whole: &Part, reply: &mut Reply, more: impl FnOnce(&mut Reply)) {
        write_around_with(&self.request, summary(whole), reply, |reply| write_rows(whole, reply), more);
    }
}

fn summary(whole: &Part) -> Summary {
    Summary { total: whole.total, rows: whole.rows.len(), is_partial: whole.is_partial }
}

fn write_rows(whole: &Part, reply: &mut Reply) {
    whole.rows.iter().for_each(|row| reply.raw().extend_from_slice(&row.body));
}

/// A node's part of a search.
struct PartRun {
    run: Run,
    is_resp3: bool,
}

impl Job for PartRun {
    fn leaves_at_once(&self) -> bool {
        self.run.has_long_steps()
    }

    fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        self.run.step(access, now_ms)
    }

    fn end_early(&mut self) {
        self.run.end_early();
    }

    fn finish(self, reply: &mut Reply) {
        let request = self.run.request().clone();
        reply.bulk(&parts::encode(&request, &self.run.into_results(), self.is_resp3));
    }
}

impl Job for Run {
    fn leaves_at_once(&self) -> bool {
        self.has_long_steps()
    }

    fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        Run::step(self, access, now_ms)
    }

    fn end_early(&mut self) {
        Run::end_early(self);
    }

    fn finish(self, reply: &mut Reply) {
        let request = self.request().clone();
        let results = self.into_results();
        crate::search::reply::write(&request, &results, reply);
    }
}
