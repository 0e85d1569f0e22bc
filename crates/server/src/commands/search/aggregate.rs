//! FT.AGGREGATE, and FT.CURSOR for the rest of its rows.

use martlet_base::number::parse_i64;
use martlet_command::{Acl, Error, Flags, Outcome, command};
use martlet_indexes::{Access, Aggregation};
use martlet_protocol::reply::Reply;
use martlet_search::aggregate::pipeline::Options;
use martlet_search::aggregate::request::Aggregate;
use martlet_search::request::Format;

use super::{GROUP, context, limits, readable_index, time_limit};
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::runtime::Shared;
use crate::search::cursors::{Cursor, TooMany};
use crate::search::job::{self, Job};
use crate::search::rows::{self, Shape};
use crate::search::settings::cursors_max;

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&AGGREGATE, &CURSOR];

/// Bytes that the rows, groups and results of an aggregation may take.
const MEMORY_MAX_BYTES: usize = 1 << 30;

static AGGREGATE: ServerCommand = command("ft.aggregate", -3, aggregate as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax(
        "index query ?VERBATIM ?load=LOAD(count *field) ?timeout:i=TIMEOUT \
         ?*+groupby=GROUPBY(nargs:i *property ?*+reduce=REDUCE(function nargs:i *arg ?name=AS)) \
         ?sortby=SORTBY(nargs:i *property(property ?order(ASC|DESC)) ?num:i=MAX) \
         ?*+apply=APPLY(expression name=AS) ?limit=LIMIT(offset:i num:i) ?filter=FILTER \
         ?cursor=WITHCURSOR(?read_size:i=COUNT ?idle_time:i=MAXIDLE) ?params=PARAMS(nargs:i *values(name value)) \
         ?ADDSCORES ?dialect:i=DIALECT",
    )
    .doc(GROUP, "1.1.0", "O(1)", "Runs a search and computes over its results.");

static CURSOR: ServerCommand = command("ft.cursor", -4, cursor as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("action(READ|DEL|GC) index cursor_id:i ?read_size:i=COUNT")
    .doc(GROUP, "1.1.0", "O(1)", "Reads further rows of an aggregation, or ends it.");

fn aggregate(call: &mut Call<'_>) -> Outcome {
    let words: Vec<&[u8]> = call.args.iter().collect();
    let index = readable_index(call, words[1])?;
    let text = |error: martlet_search::Error| Error::Text(error.to_string());
    let limits = limits(call);
    let request = Aggregate::parse(&words[2..], &limits).map_err(text)?;
    let name = String::from_utf8_lossy(words[1]);
    let index = index.ok_or_else(|| Error::Text(format!("{name}: no such index")))?;
    let options = Options {
        yielded: Vec::new(),
        results_max: limits.aggregate_results,
        memory_max_bytes: MEMORY_MAX_BYTES,
        seed: call.worker.now_ms as u64,
    };
    let aggregation = Aggregation::new(index.clone(), &request, context(call), options).map_err(text)?;
    let (shared, now_ms) = (call.worker.shared, call.worker.now_ms);
    let cursor = match request.cursor {
        None => None,
        Some(cursor) => {
            let id = shared
                .cursors
                .reserve(&index, cursors_max(call.worker.config()), now_ms)
                .map_err(|TooMany| TOO_MANY)?;
            Some((id, cursor.count as usize, i64::from(cursor.idle_ms)))
        }
    };
    let shape = Shape { is_expanded: request.query.format == Format::Expand };
    let limit = time_limit(call, request.query.timeout_ms);
    job::run(call, Reading { shared, aggregation, cursor, shape, failure: None, is_partial: false }, limit)
}

/// RediSearch's words.
const TOO_MANY: Error = Error::Fixed("Too many cursors allocated for index");
const NOT_FOUND: Error = Error::Fixed("Cursor not found");

fn cursor(call: &mut Call<'_>) -> Outcome {
    let words: Vec<&[u8]> = call.args.iter().collect();
    let (action, shared, now_ms) = (words[1].to_ascii_uppercase(), call.worker.shared, call.worker.now_ms);
    let index = readable_index(call, words[2])?;
    let id = parse_i64(words[3]).ok_or(Error::Fixed("Bad cursor ID"))?;
    let id = u64::try_from(id).unwrap_or(0);
    match action.as_slice() {
        b"READ" => {
            let count = match words.get(4..) {
                Some([]) | None => None,
                Some([word, count]) if word.eq_ignore_ascii_case(b"COUNT") => {
                    let count = parse_i64(count).and_then(|count| usize::try_from(count).ok());
                    Some(count.ok_or(Error::Fixed("Bad value for COUNT"))?)
                }
                Some([word, ..]) => {
                    return Err(Error::quoting("Unknown argument `", word, "`"));
                }
            };
            let index = index.ok_or(NOT_FOUND)?;
            let Cursor { aggregation, count: own, idle_ms, shape } =
                shared.cursors.take(&index, id, now_ms).ok_or(NOT_FOUND)?;
            let count = count.filter(|count| *count > 0).unwrap_or(own);
            let limit = time_limit(call, limits(call).timeout_ms);
            let cursor = Some((id, count, idle_ms));
            job::run(
                call,
                Reading { shared, aggregation, cursor, shape, failure: None, is_partial: false },
                limit,
            )
        }
        b"DEL" => {
            if !index.is_some_and(|index| shared.cursors.remove(&index, id)) {
                return Err(Error::Fixed("Cursor does not exist"));
            }
            call.reply.ok();
            Ok(())
        }
        b"GC" => {
            let ended = shared.cursors.end_idle(now_ms, |_| true);
            // RediSearch's reply when nothing is to be ended.
            call.reply.int(if ended == 0 { -1 } else { ended as i64 });
            Ok(())
        }
        _ => Err(Error::Fixed("Unknown subcommand")),
    }
}

/// An aggregation of which some rows, or all, are replied.
struct Reading {
    shared: &'static Shared,
    aggregation: Aggregation,
    /// The cursor's id, rows of a reply, and its time, milliseconds.
    cursor: Option<(u64, usize, i64)>,
    shape: Shape,
    failure: Option<martlet_search::Error>,
    is_partial: bool,
}

impl Job for Reading {
    fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        let wanted = self.cursor.map_or(usize::MAX, |(_, count, _)| count);
        match self.aggregation.step(access, now_ms, wanted) {
            _ if self.is_partial => true,
            Ok(is_done) => is_done,
            Err(error) => {
                self.failure = Some(error);
                true
            }
        }
    }

    fn end_early(&mut self) {
        self.is_partial = true;
    }

    fn finish(mut self, reply: &mut Reply) {
        let index = self.aggregation.index().clone();
        if let Some(error) = &self.failure {
            if let Some((id, ..)) = self.cursor {
                self.shared.cursors.remove(&index, id);
            }
            return reply.error(error.to_string());
        }
        let Some((id, count, idle_ms)) = self.cursor else {
            return rows::write(&mut self.aggregation, usize::MAX, self.shape, self.is_partial, reply);
        };
        reply.array(2);
        rows::write(&mut self.aggregation, count, self.shape, self.is_partial, reply);
        if self.aggregation.is_done() && self.aggregation.ready() == 0 || self.is_partial {
            self.shared.cursors.remove(&index, id);
            return reply.int(0);
        }
        let cursor = Cursor { aggregation: self.aggregation, count, idle_ms, shape: self.shape };
        self.shared.cursors.put_back(id, cursor, self.shared.clock.unix_ms());
        reply.int(id as i64);
    }
}
