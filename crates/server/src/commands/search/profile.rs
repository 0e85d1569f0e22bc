//! FT.PROFILE: a search or an aggregation, and then what each part of its query finds by itself.

use std::time::{Duration, Instant};

use martlet_base::clock::monotonic;
use martlet_command::{Acl, Error, Flags, Outcome, command};
use martlet_indexes::{Access, Aggregation, Profiled, Results, Run};
use martlet_protocol::reply::Reply;
use martlet_search::aggregate::pipeline::Role;
use martlet_search::exec::profile::{Part, Parts, Profile};
use martlet_search::request::Search;

use super::{GROUP, aggregate, context, find, shards, text_line, time_limit};
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::search::job::{self, Job, TIMED_OUT};
use crate::search::nodes::{Nodes, PartOf};
use crate::search::{parts, reply, rows};

/// The error of a search without a profile.
const NO_PROFILE: &str = "ERR there is no profile";

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&PROFILE, &PROFILE_PART];

static PROFILE: ServerCommand = command("ft.profile", -5, profile as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("index querytype(SEARCH|AGGREGATE) ?LIMITED queryword=QUERY query")
    .doc(
        GROUP,
        "2.2.0",
        "O(N)",
        "Performs a `FT.SEARCH` or `FT.AGGREGATE` command and collects performance information",
    );

fn profile(call: &mut Call<'_>) -> Outcome {
    let (began, words) = (monotonic(), call.args.iter().collect::<Vec<&[u8]>>());
    let is = |at: usize, word: &str| {
        words.get(at).is_some_and(|given: &&[u8]| given.eq_ignore_ascii_case(word.as_bytes()))
    };
    if !is(2, "SEARCH") && !is(2, "AGGREGATE") {
        return Err(Error::Fixed("No `SEARCH` or `AGGREGATE` provided"));
    }
    let limited = is(3, "LIMITED");
    let at = if limited { 4 } else { 3 };
    if !is(at, "QUERY") {
        return Err(Error::Fixed("The QUERY keyword is expected"));
    }
    let has_cursor = words.iter().skip(at + 2).any(|word| word.eq_ignore_ascii_case(b"WITHCURSOR"));
    if has_cursor {
        return Err(Error::Fixed("FT.PROFILE does not support cursor"));
    }
    let rest = &words[at + 1..];
    let mut clock = Clock::new(began, call);
    if is(2, "AGGREGATE") {
        return profile_aggregate(call, (words[1], rest), limited, clock);
    }
    let (index, request) = find::parse(call, words[1], rest)?;
    clock.parsing = began.elapsed();
    let (run, limit) = find::plan(call, index, request)?;
    if let Some(nodes) = Nodes::of(call)? {
        shards::ask(call, nodes, &run, limited, at + 1);
        return Ok(());
    }
    job::run(call, Profiling::new(run, limited, clock), limit)
}

/// A node's part of FT.PROFILE, for the node that a client has asked: a [`shards::Answer`].
static PROFILE_PART: ServerCommand = command(shards::PART, -7, profile_part as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("slots:i protocol:i rows:i limited:i index query ?*option")
    .doc(GROUP, "8.0.0", "O(N)", "Searches and measures a node's part of an index, for another node.");

fn profile_aggregate(
    call: &mut Call<'_>,
    (name, words): (&[u8], &[&[u8]]),
    limited: bool,
    mut clock: Clock,
) -> Outcome {
    let (index, request) = aggregate::parse(call, name, words)?;
    clock.parsing = clock.began.elapsed();
    let (means, limit) = (aggregate::means(call), time_limit(call, request.query.timeout_ms));
    let aggregation = Aggregation::new(index, request, context(call), means, Role::Whole);
    let mut aggregation = aggregation.map_err(aggregate::text)?;
    clock.planning = clock.began.elapsed().saturating_sub(clock.parsing);
    aggregation.measure();
    job::run(call, ProfilingAggregate { aggregation, parts: None, limited, is_late: false, clock }, limit)
}

/// The times of a request.
struct Clock {
    began: Instant,
    /// The time in which the arguments were read.
    parsing: Duration,
    /// The time in which the query became a plan.
    planning: Duration,
    /// The time of the whole search.
    total: Duration,
    is_shown: bool,
}

impl Clock {
    fn new(began: Instant, call: &Call<'_>) -> Clock {
        let is_shown = call.worker.config().search.print_profile_clock;
        Clock { began, parsing: Duration::ZERO, planning: Duration::ZERO, total: Duration::ZERO, is_shown }
    }
}

/// A search that is measured, and then its parts.
struct Profiling {
    run: Run,
    /// There once the search is over.
    profiled: Option<Profiled>,
    /// The time limit is reached: parts of the query that are left are not looked at.
    is_late: bool,
    clock: Clock,
}

impl Profiling {
    /// A search that has not begun, planned just now.
    fn new(mut run: Run, limited: bool, mut clock: Clock) -> Profiling {
        clock.planning = clock.began.elapsed().saturating_sub(clock.parsing);
        run.profile(limited);
        Profiling { run, profiled: None, is_late: false, clock }
    }

    /// Gives `write` the search with its results and its profile; `None` if there is no profile.
    fn show(self, write: impl FnOnce(&Search, &Results, &Shown)) -> Option<()> {
        let request = self.run.request().clone();
        let results = self.run.into_results();
        let mut profiled = self.profiled?;
        let shown = Shown {
            parts: profiled.take_parts(),
            processors: Processor::of_search(&profiled),
            times: self.clock.times(),
            is_partial: results.is_partial,
            shows_clock: self.clock.is_shown,
        };
        write(&request, &results, &shown);
        Some(())
    }
}

impl Job for Profiling {
    fn leaves_at_once(&self) -> bool {
        self.run.has_long_steps()
    }

    fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        if let Some(profiled) = &mut self.profiled {
            return self.is_late || profiled.step();
        }
        if self.run.step(access, now_ms) {
            self.clock.total = self.clock.began.elapsed();
            self.profiled = self.run.take_profiled();
        }
        false
    }

    fn end_early(&mut self) {
        self.run.end_early();
        self.is_late = self.profiled.is_some();
    }

    fn finish(self, reply: &mut Reply) {
        let shown = self.show(|request, results, shown| {
            if reply.is_resp3() {
                reply::write_with(request, results, reply, |reply| {
                    reply.simple("profile");
                    shown.write_map(reply);
                });
            } else {
                reply.array(2);
                reply::write(request, results, reply);
                reply.array(shown.items());
                shown.write_items(reply);
            }
        });
        if shown.is_none() {
            reply.error(NO_PROFILE);
        }
    }
}

fn profile_part(call: &mut Call<'_>) -> Outcome {
    let began = monotonic();
    let part = PartOf::check(call)?;
    let (is_resp3, rows, limited) = (call.int(2)? == 3, call.int(3)?, call.int(4)? != 0);
    let words: Vec<&[u8]> = call.args.iter().skip(5).collect();
    let mut clock = Clock::new(began, call);
    clock.parsing = began.elapsed();
    let (run, limit) = find::plan_part(call, &words, rows, is_resp3)?;
    let profiling = Profiling::new(run, limited, clock);
    job::run(call, part.job(PartRun { profiling, is_resp3 }), limit)
}

/// A node's part.
struct PartRun {
    profiling: Profiling,
    is_resp3: bool,
}

impl Job for PartRun {
    fn leaves_at_once(&self) -> bool {
        self.profiling.leaves_at_once()
    }

    fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        self.profiling.step(access, now_ms)
    }

    fn end_early(&mut self) {
        self.profiling.end_early();
    }

    fn finish(self, reply: &mut Reply) {
        let is_resp3 = self.is_resp3;
        let shown = self.profiling.show(|request, results, shown| {
            let part = parts::encode(request, results, is_resp3);
            let mut profile = Reply::new(Vec::new(), is_resp3);
            if is_resp3 {
                shown.write_map(&mut profile);
            } else {
                shown.write_items(&mut profile);
            }
            let items = if is_resp3 { 1 } else { shown.items() };
            reply.bulk(&shards::Answer::encode(&part, items, &profile.into_bytes()));
        });
        if shown.is_none() {
            reply.error(NO_PROFILE);
        }
    }
}

/// An aggregation that is measured, and then its parts.
struct ProfilingAggregate {
    aggregation: Aggregation,
    /// There once the aggregation is over.
    parts: Option<Profile>,
    limited: bool,
    /// The time limit is reached: parts of the query that are left are not looked at.
    is_late: bool,
    clock: Clock,
}

impl Job for ProfilingAggregate {
    fn leaves_at_once(&self) -> bool {
        self.aggregation.has_long_steps()
    }

    fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        if let Some(parts) = &mut self.parts {
            return self.is_late || parts.step();
        }
        if !self.aggregation.step(access, now_ms, usize::MAX) {
            return false;
        }
        self.clock.total = self.clock.began.elapsed();
        self.parts = self.aggregation.profile(self.limited);
        self.parts.is_none()
    }

    fn end_early(&mut self) {
        self.is_late = self.parts.is_some();
        if !self.is_late {
            self.aggregation.end_early();
        }
    }

    fn finish(mut self, reply: &mut Reply) {
        let failure = self.aggregation.take_failure().map(|error| error.to_string());
        if let Some(failure) = failure.as_ref().filter(|_| self.aggregation.ready() == 0) {
            return reply.error(failure);
        }
        let is_partial = self.aggregation.take_is_partial();
        let shown = Shown {
            parts: self.parts.map(Profile::into_parts).unwrap_or_default(),
            processors: Processor::of_aggregation(&self.aggregation),
            times: self.clock.times(),
            is_partial,
            shows_clock: self.clock.is_shown,
        };
        let warning = failure.as_deref().or(is_partial.then_some(TIMED_OUT));
        if reply.is_resp3() {
            rows::write_with(&mut self.aggregation, warning, reply, |reply| {
                reply.simple("profile");
                shown.write_map(reply);
            });
        } else {
            reply.array(2);
            rows::write(&mut self.aggregation, usize::MAX, warning, reply);
            reply.array(shown.items());
            shown.write_items(reply);
        }
    }
}

impl Clock {
    fn times(&self) -> [(&'static str, Duration); 3] {
        [
            ("Total profile time", self.total),
            ("Parsing time", self.parsing),
            ("Pipeline creation time", self.planning),
        ]
    }
}

/// A step from the index to the results.
struct Processor {
    name: String,
    counter: u64,
    /// None: it is within the time of the step before.
    time: Option<Duration>,
}

impl Processor {
    /// Those of a search. Scores are made, and the best are kept, within the time of the first.
    fn of_search(profiled: &Profiled) -> Vec<Processor> {
        let last = profiled.processors.len().saturating_sub(1);
        let steps = profiled.processors.iter().enumerate().map(|(at, (name, counter))| Processor {
            name: (*name).to_owned(),
            counter: *counter as u64,
            time: match at {
                0 => Some(profiled.searching),
                _ if at == last && *name != "Sorter" => Some(profiled.loading),
                _ => None,
            },
        });
        steps.collect()
    }

    fn of_aggregation(aggregation: &Aggregation) -> Vec<Processor> {
        let steps = aggregation.processors().into_iter();
        let steps =
            steps.map(|step| Processor { name: step.name, counter: step.rows, time: Some(step.time) });
        steps.collect()
    }
}

/// A profile on the wire.
struct Shown {
    parts: Vec<Part>,
    processors: Vec<Processor>,
    times: [(&'static str, Duration); 3],
    is_partial: bool,
    shows_clock: bool,
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

impl Shown {
    /// As a value in the map of RESP3.
    fn write_map(&self, reply: &mut Reply) {
        reply.map(if self.shows_clock { 6 } else { 3 });
        if self.shows_clock {
            for (name, time) in self.times {
                reply.simple(name);
                reply.double(milliseconds(time));
            }
        }
        reply.simple("Warning");
        reply.simple(if self.is_partial { TIMED_OUT } else { "None" });
        reply.simple("Iterators profile");
        reply.array(1);
        self.part(0, reply);
        reply.simple("Result processors profile");
        reply.array(self.processors.len());
        self.processors(reply);
    }

    /// How many lists it is in RESP2.
    fn items(&self) -> usize {
        self.times.len() + 3
    }

    /// As lists that begin with their names.
    fn write_items(&self, reply: &mut Reply) {
        for (name, time) in self.times {
            reply.array(if self.shows_clock { 2 } else { 1 });
            reply.simple(name);
            if self.shows_clock {
                reply.double(milliseconds(time));
            }
        }
        reply.array(if self.is_partial { 2 } else { 1 });
        reply.simple("Warning");
        if self.is_partial {
            reply.simple(TIMED_OUT);
        }
        reply.array(2);
        reply.simple("Iterators profile");
        self.part(0, reply);
        reply.array(1 + self.processors.len());
        reply.simple("Result processors profile");
        self.processors(reply);
    }

    /// A part of the query with its parts. In RESP2 these follow their name without a list around them.
    fn part(&self, at: usize, reply: &mut Reply) {
        let Some(part) = self.parts.get(at) else { return reply.map(0) };
        let pairs = [part.detail.is_some(), self.shows_clock, part.size.is_some(), part.parts != Parts::None];
        let pairs = 2 + pairs.into_iter().filter(|is_there| *is_there).count();
        match &part.parts {
            Parts::Several(parts) if !reply.is_resp3() => reply.array(2 * pairs - 1 + parts.len()),
            _ => reply.map(pairs),
        }
        reply.simple("Type");
        reply.simple(part.kind);
        if let Some((name, value)) = &part.detail {
            reply.simple(name);
            text_line(reply, value);
        }
        if self.shows_clock {
            reply.simple("Time");
            reply.double(milliseconds(part.time));
        }
        reply.simple("Counter");
        reply.unsigned(part.counter);
        match &part.parts {
            Parts::None => {}
            Parts::One(only) => {
                reply.simple("Child iterator");
                self.part(*only, reply);
            }
            Parts::Several(parts) => {
                reply.simple("Child iterators");
                if reply.is_resp3() {
                    reply.array(parts.len());
                }
                parts.iter().for_each(|part| self.part(*part, reply));
            }
            Parts::Many(count) => {
                reply.simple("Child iterators");
                reply.simple(&format!("The number of iterators in the union is {count}"));
            }
        }
        if let Some(size) = part.size {
            reply.simple("Size");
            reply.unsigned(size);
        }
    }

    /// The steps to the results.
    fn processors(&self, reply: &mut Reply) {
        for Processor { name, counter, time } in &self.processors {
            let time = time.filter(|_| self.shows_clock);
            reply.map(if time.is_some() { 3 } else { 2 });
            reply.simple("Type");
            text_line(reply, name.as_bytes());
            if let Some(time) = time {
                reply.simple("Time");
                reply.double(milliseconds(time));
            }
            reply.simple("Counter");
            reply.unsigned(*counter);
        }
    }
}
