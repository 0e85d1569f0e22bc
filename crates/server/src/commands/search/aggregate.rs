//! FT.AGGREGATE and FT.CURSOR.

use std::sync::Arc;

use martlet_client::resp::Reply as Answer;
use martlet_command::{Acl, Error, Flags, Outcome, command};
use martlet_indexes::{Access, Aggregation, KeyIndex};
use martlet_protocol::reply::Reply;
use martlet_search::aggregate::pipeline::Role;
use martlet_search::aggregate::request::Aggregate;
use martlet_search::aggregate::rows::Reading as PartRows;
use martlet_search::aggregating::Means;
use martlet_search::searching::Context;

use super::{DENIED, GROUP, context, limits, may_use, readable_index, time_limit};
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::search::cursors::{Lease, Terms, is_in};
use crate::search::job::{self, Job, TIMED_OUT};
use crate::search::nodes::{self, Nodes, PartOf, UNREADABLE, part_request};
use crate::search::rows;
use crate::search::settings::{self, cursors_max};

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&AGGREGATE, &AGGREGATE_PART, &CURSOR];

/// Bytes that the rows, groups and results of one aggregation may take.
const MEMORY_MAX: usize = 1 << 30;

static AGGREGATE: ServerCommand = command("ft.aggregate", -3, aggregate as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax(
        "index query ?VERBATIM ?load=LOAD(count *field) ?timeout:i=TIMEOUT \
         ?*+groupby=GROUPBY(nargs:i *property ?*+reduce=REDUCE(function nargs:i *arg ?name=AS)) \
         ?sortby=SORTBY(nargs:i *fields(property direction(ASC|DESC)) ?num:i=MAX) \
         ?*+apply=APPLY(expression name=AS) ?limit=LIMIT(offset:i num:i) ?filter=FILTER \
         ?cursor=WITHCURSOR(?read_size:i=COUNT ?idle_time:i=MAXIDLE) ?params=PARAMS(nargs:i *values(name value)) \
         ?ADDSCORES ?dialect:i=DIALECT",
    )
    .doc(GROUP, "1.1.0", "O(1)", "Run a search query on an index and perform aggregate transformations on the results");

/// A node's part of FT.AGGREGATE, for the node that a client has asked: rows as [`PartRows`] reads them.
static AGGREGATE_PART: ServerCommand = command("_ft.aggregate", -5, aggregate_part as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("slots:i protocol:i index query ?*option")
    .doc(GROUP, "8.0.0", "O(N)", "Aggregates a node's part of an index, for another node.");

static CURSOR: ServerCommand = command("ft.cursor", -4, cursor as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("subcommand(READ|DEL|GC) index cursor_id:i ?read_size:i=COUNT")
    .doc(
        GROUP,
        "1.1.0",
        "O(1)",
        "Reads from a cursor, deletes it, or ends those that have been idle for too long",
    );

fn aggregate(call: &mut Call<'_>) -> Outcome {
    let words: Vec<&[u8]> = call.args.iter().collect();
    let (index, request) = parse(call, words[1], &words[2..])?;
    let means = means(call);
    let limit = time_limit(call, request.query.timeout_ms);
    let terms = request.cursor.map(|cursor| Terms { count: cursor.count as usize, idle_ms: cursor.idle_ms });
    let nodes = Nodes::of(call)?;
    let role = if nodes.is_some() { Role::Rest } else { Role::Whole };
    let aggregation = Aggregation::new(index, request, context(call), means, role).map_err(text)?;
    let cursors = &call.worker.shared.cursors;
    let most = cursors_max(call.worker.config());
    let lease = terms.map(|terms| cursors.open(aggregation.index(), most, terms)).transpose()?;
    let now_ms = call.worker.now_ms;
    let reading = Reading { aggregation, lease, is_resumed: false, now_ms };
    if let Some(nodes) = nodes {
        let asked = AskedAggregate::new(nodes, call, reading);
        nodes.answer(call, move |has_thread, reply| asked.answer(has_thread, reply));
        return Ok(());
    }
    job::run(call, reading, limit)
}

/// The index of a name, and the request of the words from the query on.
///
/// # Errors
/// RediSearch's, for the words and for an index that is not there.
pub(super) fn parse(
    call: &mut Call<'_>,
    name: &[u8],
    words: &[&[u8]],
) -> Result<(Arc<KeyIndex>, Aggregate), Error> {
    let index = readable_index(call, name)?;
    let request = Aggregate::parse(words, &limits(call)).map_err(text)?;
    let name = String::from_utf8_lossy(name);
    let index = index.ok_or_else(|| Error::Text(format!("{name}: no such index")))?;
    index.count_dialect(request.query.dialect);
    Ok((index, request))
}

/// The limits of an aggregation, and its chance.
pub(super) fn means(call: &mut Call<'_>) -> Means {
    Means {
        results_max: limits(call).aggregate_results,
        memory_max_bytes: MEMORY_MAX,
        seed: call.worker.keys.random.next_u64(),
    }
}

pub(super) fn text(error: martlet_search::Error) -> Error {
    Error::Text(error.to_string())
}

fn aggregate_part(call: &mut Call<'_>) -> Outcome {
    let part = PartOf::check(call)?;
    let is_resp3 = call.int(2)? == 3;
    let words: Vec<&[u8]> = call.args.iter().skip(3).collect();
    let request = Aggregate::parse(&words[1..], &limits(call)).map_err(text)?;
    let index = call.worker.shared.indexes.find(words[0]).ok_or(nodes::OTHER_INDEXES)?;
    let (context, means) = (Context { is_resp3, ..context(call) }, means(call));
    let aggregation = Aggregation::new(index, request, context, means, Role::Part).map_err(text)?;
    let limit = time_limit(call, aggregation.request().query.timeout_ms);
    job::run(call, part.job(PartRun(aggregation)), limit)
}

/// FT.AGGREGATE of all nodes.
struct AskedAggregate {
    nodes: Nodes,
    /// The protocol, the index, the query and the options, as the client has sent them.
    words: Vec<Vec<u8>>,
    reading: Reading,
    fails_late: bool,
}

impl AskedAggregate {
    fn new(nodes: Nodes, call: &Call<'_>, reading: Reading) -> AskedAggregate {
        let protocol = if call.reply.is_resp3() { b"3" } else { b"2" };
        let own = call.args.iter().skip(1).map(<[u8]>::to_vec);
        let words = std::iter::once(protocol.to_vec()).chain(own).collect();
        AskedAggregate { nodes, words, reading, fails_late: settings::fails_late(call.worker.config()) }
    }

    fn answer(mut self, has_thread: bool, reply: &mut Reply) {
        if !has_thread {
            return reply.error(nodes::NO_THREAD);
        }
        match self.take_parts() {
            Ok(()) => {
                let Reading { aggregation, lease, now_ms, .. } = &mut self.reading;
                while !aggregation.step_of_parts(wanted(lease.as_ref())) {}
                *now_ms = self.nodes.shared().clock.unix_ms();
                self.reading.finish(reply);
            }
            Err(error) => reply.error(error),
        }
    }

    fn take_parts(&mut self) -> Result<(), Vec<u8>> {
        let aggregation = &mut self.reading.aggregation;
        let (timeout_ms, name) = (aggregation.request().query.timeout_ms, AGGREGATE_PART.spec.name);
        let answers = self.nodes.ask(timeout_ms, |peer| part_request(name, peer, &self.words))?;
        let mut parts = Vec::with_capacity(answers.len());
        for answer in answers {
            match answer {
                Some(Answer::Bulk(bytes)) => parts.push(PartRows::new(bytes).ok_or(UNREADABLE)?),
                Some(_) => return Err(UNREADABLE.to_vec()),
                None if self.fails_late => return Err(TIMED_OUT.into()),
                None => aggregation.end_early(),
            }
        }
        aggregation.take_parts(parts);
        Ok(())
    }
}

/// A node's part.
struct PartRun(Aggregation);

impl Job for PartRun {
    fn leaves_at_once(&self) -> bool {
        self.0.has_long_steps()
    }

    fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        self.0.step(access, now_ms, usize::MAX)
    }

    fn end_early(&mut self) {
        self.0.end_early();
    }

    fn finish(mut self, reply: &mut Reply) {
        match self.0.take_failure().map_or_else(|| self.0.encode(), Err) {
            Ok(bytes) => reply.bulk(&bytes),
            Err(error) => reply.error(error.to_string()),
        }
    }
}

fn cursor(call: &mut Call<'_>) -> Outcome {
    let words: Vec<&[u8]> = call.args.iter().collect();
    let id: Option<i64> = std::str::from_utf8(words[3]).ok().and_then(|word| word.parse().ok());
    let id = id.ok_or(Error::Fixed("Bad cursor ID"))? as u64;
    let is = |name: &str| words[1].eq_ignore_ascii_case(name.as_bytes());
    let shared = call.worker.shared;
    if is("READ") {
        return read(call, id, &words[4..]);
    }
    if is("DEL") {
        let index = shared.cursors.index_of(id, call.worker.now_ms);
        if index.is_some_and(|index| !may_use(call, &index, false)) {
            return Err(DENIED);
        }
        if !shared.cursors.delete(id) {
            return Err(Error::Fixed("Cursor does not exist"));
        }
        call.reply.ok();
        return Ok(());
    }
    if is("GC") {
        let ended = shared.cursors.end_due(shared.indexes, call.worker.now_ms);
        // As in RediSearch: cursors that are idle, but not yet for too long.
        let is_early = ended == 0 && shared.cursors.has_idle();
        call.reply.int(if is_early { -1 } else { ended as i64 });
        return Ok(());
    }
    Err(Error::Fixed("Unknown subcommand"))
}

/// FT.CURSOR READ, whose `options` RediSearch does not look at but for COUNT with a value.
fn read(call: &mut Call<'_>, id: u64, options: &[&[u8]]) -> Outcome {
    let mut count = 0;
    if let [word, value, ..] = options
        && word.eq_ignore_ascii_case(b"COUNT")
    {
        let number: Option<i64> = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
        let number = number.ok_or(Error::Fixed("Bad value for COUNT"))?;
        count = usize::try_from(number).unwrap_or(0);
    }
    const NOT_FOUND: Error = Error::Fixed("Cursor not found");
    let shared = call.worker.shared;
    call.worker.keys.report_changes();
    const DROPPED: Error = Error::Fixed("The index was dropped while the cursor was idle");
    if shared.cursors.forget_orphan(id) {
        return Err(DROPPED);
    }
    let index = shared.cursors.index_of(id, call.worker.now_ms).ok_or(NOT_FOUND)?;
    if !may_use(call, &index, false) {
        return Err(DENIED);
    }
    let (aggregation, mut lease) = shared.cursors.take(id).ok_or(NOT_FOUND)?;
    if !is_in(shared.indexes, &index) {
        return Err(DROPPED);
    }
    if count > 0 {
        lease.set_count(count);
    }
    let limit = time_limit(call, aggregation.request().query.timeout_ms);
    let is_resumed = aggregation.looks_at_keys();
    let now_ms = call.worker.now_ms;
    job::run(call, Reading { aggregation, lease: Some(lease), is_resumed, now_ms }, limit)
}

/// The rows of one reply on their way.
struct Reading {
    aggregation: Aggregation,
    /// The cursor's place, if there is to be one.
    lease: Option<Lease>,
    is_resumed: bool,
    now_ms: i64,
}

/// How many rows a reply has at most.
fn wanted(lease: Option<&Lease>) -> usize {
    lease.map_or(usize::MAX, Lease::count)
}

impl Job for Reading {
    fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        self.now_ms = now_ms;
        self.aggregation.step(access, now_ms, wanted(self.lease.as_ref()))
    }

    fn leaves_at_once(&self) -> bool {
        self.is_resumed || self.aggregation.has_long_steps()
    }

    fn end_early(&mut self) {
        self.aggregation.end_early();
    }

    fn finish(mut self, reply: &mut Reply) {
        let failure = self.aggregation.take_failure().map(|error| error.to_string());
        if let Some(failure) = failure.as_ref().filter(|_| self.aggregation.ready() == 0) {
            reply.error(failure);
            return;
        }
        let partial = self.aggregation.take_is_partial().then_some(TIMED_OUT);
        let warning = failure.as_deref().or(partial);
        let Some(lease) = self.lease.take() else {
            rows::write(&mut self.aggregation, usize::MAX, warning, reply);
            return;
        };
        let (begin, count) = (reply.len(), lease.count());
        let goes_on = self.aggregation.ready() >= count;
        reply.array(2);
        rows::write(&mut self.aggregation, count, warning, reply);
        let id = if goes_on { lease.leave(self.aggregation, self.now_ms) } else { Ok(0) };
        match id {
            Ok(id) => reply.unsigned(id),
            Err(error) => {
                reply.truncate(begin);
                reply.error(error.to_string());
            }
        }
    }
}
