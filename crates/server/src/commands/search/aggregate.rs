//! FT.AGGREGATE and FT.CURSOR.

use martlet_command::{Acl, Error, Flags, Outcome, command};
use martlet_indexes::{Access, Aggregation};
use martlet_protocol::reply::Reply;
use martlet_search::aggregate::request::Aggregate;
use martlet_search::aggregating::Means;

use super::{DENIED, GROUP, context, limits, may_use, readable_index, time_limit};
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::search::cursors::{Lease, Terms, is_in};
use crate::search::job::{self, Job, TIMED_OUT};
use crate::search::rows;
use crate::search::settings::cursors_max;

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&AGGREGATE, &CURSOR];

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
    let index = readable_index(call, words[1])?;
    let text = |error: martlet_search::Error| Error::Text(error.to_string());
    let limits = limits(call);
    let request = Aggregate::parse(&words[2..], &limits).map_err(text)?;
    let name = String::from_utf8_lossy(words[1]);
    let index = index.ok_or_else(|| Error::Text(format!("{name}: no such index")))?;
    index.count_dialect(request.query.dialect);
    let means = Means {
        results_max: limits.aggregate_results,
        memory_max_bytes: MEMORY_MAX,
        seed: call.worker.keys.random.next_u64(),
    };
    let limit = time_limit(call, request.query.timeout_ms);
    let terms = request.cursor.map(|cursor| Terms { count: cursor.count as usize, idle_ms: cursor.idle_ms });
    let aggregation = Aggregation::new(index, request, context(call), means).map_err(text)?;
    let cursors = &call.worker.shared.cursors;
    let most = cursors_max(call.worker.config());
    let lease = terms.map(|terms| cursors.open(aggregation.index(), most, terms)).transpose()?;
    let now_ms = call.worker.now_ms;
    job::run(call, Reading { aggregation, lease, is_resumed: false, now_ms }, limit)
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

impl Job for Reading {
    fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        self.now_ms = now_ms;
        let wanted = self.lease.as_ref().map_or(usize::MAX, Lease::count);
        self.aggregation.step(access, now_ms, wanted)
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
