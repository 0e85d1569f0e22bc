//! Runs a plan: starts the threads, collects their figures, and ends them. A request is counted once: as
//! answered (with a latency), as an error, or as lost. Measurements before a run broke off are kept and
//! marked as partial.

mod connection;
mod limit;
mod worker;

pub use crate::interrupt::{INTERRUPTED, interruption};
pub use limit::{KEPT, server_warnings, warnings};

use martlet_base::sync::lock;

use crate::latency::Latencies;
use crate::plan::Plan;
use martlet_client::mux::{EpollMux, UringMux, uring_works};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

/// Figures of one command.
#[derive(Clone, Default)]
pub struct CommandResult {
    /// Its name.
    pub name: String,
    /// Latencies of answered requests.
    pub latencies: Latencies,
    /// Null replies among them.
    pub nulls: u64,
    /// Those among them whose replies came after the end of the measured time: they are in the latencies, and
    /// in no rate.
    pub late: u64,
    /// Error replies.
    pub errors: u64,
}

impl CommandResult {
    /// Requests that were answered within the measured time.
    pub fn in_time(&self) -> u64 {
        self.latencies.count() - self.late
    }
}

/// One second of a run.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct SecondRow {
    /// Seconds since the measured time began.
    pub second: u32,
    /// Index of the command.
    pub command: u32,
    /// Requests answered.
    pub requests: u64,
    /// Error replies.
    pub errors: u64,
    /// Mean latency, milliseconds.
    pub mean_ms: f64,
    /// Percentiles 50, 95, 99 and 99.9 and the maximum, milliseconds.
    pub percentiles_ms: [f64; 5],
}

/// A thread's time, as shares of the measured time.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadTime {
    /// On a CPU.
    pub busy: f64,
    /// Able to run, but without a core to run on.
    pub waited: f64,
}

/// The measurements of a run.
#[derive(Clone, Default)]
pub struct RunResult {
    /// Per command.
    pub commands: Vec<CommandResult>,
    /// Per second and command.
    pub seconds: Vec<SecondRow>,
    /// The instant that open loop counts from.
    pub began: Option<Instant>,
    /// The measured time.
    pub elapsed: Duration,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Connections that broke or were refused during the run and were opened again.
    pub disconnects: u64,
    /// Replies that pointed to another node of a cluster; their requests went there.
    pub redirects: u64,
    /// Requests that were due or sent but had no reply when the run ended.
    pub lost: u64,
    /// Those among them whose connections brought no reply for as long as a run waits after its end.
    pub unanswered: u64,
    /// Open loop: how late requests left this program although a connection was free for them.
    pub send_lag: Latencies,
    /// Texts of error replies, with their numbers.
    pub error_texts: Vec<(String, u64)>,
    /// Why the run ended before its time.
    pub partial: Option<String>,
    /// CPU time of this process, user and system.
    pub client_cpu: (Duration, Duration),
    /// What each thread made of the measured time.
    pub threads: Vec<ThreadTime>,
    /// "io_uring" or "epoll".
    pub io: &'static str,
}

impl RunResult {
    /// Requests answered, over all commands.
    pub fn requests(&self) -> u64 {
        self.commands.iter().map(|c| c.latencies.count()).sum()
    }

    /// Error replies, over all commands.
    pub fn errors(&self) -> u64 {
        self.commands.iter().map(|c| c.errors).sum()
    }

    /// Requests answered after the end of the measured time, over all commands.
    pub fn late(&self) -> u64 {
        self.commands.iter().map(|c| c.late).sum()
    }

    /// Requests answered within the measured time, over all commands.
    pub fn in_time(&self) -> u64 {
        self.commands.iter().map(CommandResult::in_time).sum()
    }

    /// Requests that were sent or due: answered, refused or without a reply.
    pub fn due(&self) -> u64 {
        self.requests() + self.errors() + self.lost
    }

    /// The share of them that was answered within the measured time.
    pub fn in_time_share(&self) -> f64 {
        self.in_time() as f64 / self.due().max(1) as f64
    }

    /// Requests per second that were answered within the measured time.
    pub fn rate(&self) -> f64 {
        self.in_time() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Latencies of all commands together.
    pub fn all_latencies(&self) -> Latencies {
        let mut all = Latencies::new();
        for command in &self.commands {
            all.add(&command.latencies);
        }
        all
    }
}

/// Figures of a run in progress.
#[derive(Default)]
pub struct Progress {
    /// Requests answered so far, warm-up not counted.
    pub requests: AtomicU64,
    /// Sum of their latencies in nanoseconds.
    pub latency_ns: AtomicU64,
    /// Error replies so far.
    pub errors: AtomicU64,
    /// Connections open.
    pub connections: AtomicU64,
    /// The measured time has begun.
    pub started: AtomicBool,
}

/// Callbacks during a run.
pub trait Observer {
    /// Called about every `interval` from the calling thread; the `Recorder` has the seconds so far.
    fn tick(&mut self, progress: &Progress, elapsed: Duration, recorder: &Recorder);
    /// The measured time begins: connections are open and the warm-up is over.
    fn measuring(&mut self) {}
    /// Time between two calls.
    fn interval(&self) -> Duration {
        Duration::from_millis(250)
    }
}

/// Observes nothing.
pub struct Silent;
impl Observer for Silent {
    fn tick(&mut self, _: &Progress, _: Duration, _: &Recorder) {}
}

/// Most rows of seconds that a run keeps: some 20 MB, or two days of one command.
const MAX_ROWS: usize = 200_000;

/// Collects seconds from all threads. A second is closed, and its histogram freed, when every thread has left
/// it.
pub struct Recorder {
    inner: Mutex<Collected>,
    threads: usize,
}

#[derive(Default)]
struct Collected {
    open: Vec<OpenSecond>,
    rows: Vec<SecondRow>,
    totals: Vec<CommandResult>,
    /// The second that each thread is in.
    thread_seconds: Vec<u32>,
}

struct OpenSecond {
    second: u32,
    commands: Vec<(Latencies, u64)>,
}

impl Recorder {
    fn new(names: &[String], threads: usize) -> Recorder {
        let totals = names.iter().map(|n| CommandResult { name: n.clone(), ..Default::default() }).collect();
        let collected = Collected { totals, thread_seconds: vec![0; threads], ..Default::default() };
        Recorder { inner: Mutex::new(collected), threads }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Collected> {
        lock(&self.inner)
    }

    /// Takes a thread's figures of `second` and empties them; the thread continues in `next`.
    fn take(&self, thread: usize, second: u32, next: u32, commands: &mut [worker::Tally]) {
        let mut inner = self.lock();
        let count = commands.len();
        for (total, tally) in inner.totals.iter_mut().zip(commands.iter()) {
            total.latencies.add(&tally.latencies);
            total.errors += tally.errors;
            total.nulls += tally.nulls;
        }
        let at = match inner.open.iter().position(|o| o.second == second) {
            Some(at) => at,
            None => {
                let commands = vec![(Latencies::new(), 0); count];
                inner.open.push(OpenSecond { second, commands });
                inner.open.len() - 1
            }
        };
        if let Some(open) = inner.open.get_mut(at) {
            for ((latencies, errors), tally) in open.commands.iter_mut().zip(commands.iter_mut()) {
                latencies.add(&tally.latencies);
                *errors += tally.errors;
                tally.clear();
            }
        }
        if let Some(place) = inner.thread_seconds.get_mut(thread) {
            *place = next;
        }
        let oldest = inner.thread_seconds.iter().copied().min().unwrap_or(0);
        inner.close_before(oldest);
    }

    /// The last `count` closed seconds.
    pub fn last_rows(&self, count: usize) -> Vec<SecondRow> {
        let inner = self.lock();
        inner.rows.get(inner.rows.len().saturating_sub(count)..).unwrap_or_default().to_vec()
    }

    /// Totals so far, to the last closed second of each thread.
    pub fn totals(&self) -> Vec<CommandResult> {
        self.lock().totals.clone()
    }

    /// Adds replies that came after the end of the measured time to the totals; no second contains them.
    fn add_late(&self, commands: &[worker::Tally]) {
        let mut inner = self.lock();
        for (total, tally) in inner.totals.iter_mut().zip(commands) {
            total.latencies.add(&tally.latencies);
            total.late += tally.latencies.count();
            total.errors += tally.errors;
            total.nulls += tally.nulls;
        }
    }

    fn finish(&self) -> (Vec<CommandResult>, Vec<SecondRow>) {
        let mut inner = self.lock();
        inner.thread_seconds = vec![u32::MAX; self.threads];
        inner.close_before(u32::MAX);
        (std::mem::take(&mut inner.totals), std::mem::take(&mut inner.rows))
    }
}

impl Collected {
    fn close_before(&mut self, second: u32) {
        self.open.sort_by_key(|o| o.second);
        let keep = self.open.iter().position(|o| o.second >= second).unwrap_or(self.open.len());
        for open in self.open.drain(..keep) {
            for (command, (latencies, errors)) in open.commands.iter().enumerate() {
                let p = |percent| latencies.percentile_ms(percent);
                self.rows.push(SecondRow {
                    second: open.second,
                    command: command as u32,
                    requests: latencies.count(),
                    errors: *errors,
                    mean_ms: latencies.mean_ms(),
                    percentiles_ms: [p(50.0), p(95.0), p(99.0), p(99.9), latencies.max_ms()],
                });
            }
        }
        if self.rows.len() > MAX_ROWS {
            thin(&mut self.rows);
        }
    }
}

/// Drops every other second of the older half, so that a run of any length keeps a series of bounded size:
/// coarse where it is old. What remains is as it was measured, and totals do not come from it.
fn thin(rows: &mut Vec<SecondRow>) {
    let middle = rows.get(rows.len() / 2).map_or(0, |row| row.second);
    let (mut last, mut keep) = (None, false);
    rows.retain(|row| {
        if last != Some(row.second) {
            (last, keep) = (Some(row.second), !keep);
        }
        keep || row.second >= middle
    });
}

/// What all threads of a run share.
struct Shared {
    progress: Progress,
    recorder: Recorder,
    /// Requests handed out, for runs of a fixed number.
    issued: AtomicU64,
    stop: AtomicBool,
    failure: Mutex<Option<String>>,
    ready: Barrier,
    start: Mutex<Option<Instant>>,
}

impl Shared {
    /// Ends the run; the first reason is kept.
    fn fail(&self, reason: String) {
        lock(&self.failure).get_or_insert(reason);
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn rusage(who: libc::c_int) -> (Duration, Duration) {
    // SAFETY: rusage is plain data, zeroes are valid; getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &raw mut usage);
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    (time(usage.ru_utime), time(usage.ru_stime))
}

/// This process' CPU time so far, user and system.
pub fn own_cpu() -> (Duration, Duration) {
    rusage(libc::RUSAGE_SELF)
}

/// Files that a process has open beside its connections, at most.
const SPARE_FILES: u64 = 100;

/// How many files this process may have open.
fn open_file_limit() -> u64 {
    // SAFETY: rlimit is plain data, zeroes are valid; getrlimit fills it.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur
    }
}

/// How many threads a plan gets. With epoll each connection is an open file of this process, so that their
/// limit bounds the sum; with io_uring it is the size of one thread's table, so that more connections take
/// more threads.
fn threads_for(plan: &Plan, use_epoll: bool, open_files: u64) -> Result<usize, String> {
    let connections = plan.connections as u64;
    if use_epoll && connections + SPARE_FILES > open_files {
        return Err(format!(
            "{connections} connections by epoll need as many open files, and this process may have {open_files} (ulimit -n): \
             root can allow it more (ulimit -n {}), and by io_uring connections are not bounded by it",
            connections + SPARE_FILES
        ));
    }
    let tables = connections.div_ceil(open_files.max(1)) as usize;
    Ok(plan.threads.max(tables).clamp(1, plan.connections.max(1)))
}

/// Runs the plan to its end. An error means that it never began; later trouble is in `RunResult::partial`.
pub fn run(plan: &Plan, observer: &mut dyn Observer) -> Result<RunResult, String> {
    let use_epoll = plan.epoll || !uring_works();
    let threads = threads_for(plan, use_epoll, open_file_limit())?;
    let shared = Shared {
        progress: Progress::default(),
        recorder: Recorder::new(&plan.workload.commands, threads),
        issued: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        failure: Mutex::new(None),
        ready: Barrier::new(threads + 1),
        start: Mutex::new(None),
    };
    let pool = crate::template::value_pool(plan.seed);
    let mut result = RunResult { io: if use_epoll { "epoll" } else { "io_uring" }, ..Default::default() };
    let (mut outcomes, mut cpu_start) = (Vec::new(), Default::default());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|index| {
                let (shared, pool) = (&shared, pool.clone());
                scope.spawn(move || match use_epoll {
                    true => worker::run::<EpollMux>(plan, shared, index, threads, pool),
                    false => worker::run::<UringMux>(plan, shared, index, threads, pool),
                })
            })
            .collect();
        // All connections are open, or one has failed.
        shared.ready.wait();
        if plan.warmup.is_zero() {
            observer.measuring();
            cpu_start = own_cpu();
        }
        let start = Instant::now();
        result.began = Some(start);
        *lock(&shared.start) = Some(start);
        shared.ready.wait();
        shared.progress.started.store(true, Ordering::Relaxed);
        let finished = || workers.iter().all(|w| w.is_finished());
        if !plan.warmup.is_zero() {
            watch(&shared, observer, start, &|| start.elapsed() >= plan.warmup || finished());
            observer.measuring();
            cpu_start = own_cpu();
        }
        watch(&shared, observer, start, &finished);
        for worker in workers {
            match worker.join() {
                Ok(outcome) => outcomes.push(outcome),
                Err(_) => shared.fail("a worker thread panicked".into()),
            }
        }
    });
    let cpu_end = own_cpu();
    result.client_cpu = (cpu_end.0.saturating_sub(cpu_start.0), cpu_end.1.saturating_sub(cpu_start.1));
    result.partial = lock(&shared.failure).clone();
    (result.commands, result.seconds) = shared.recorder.finish();
    collect(&mut result, outcomes);
    result.partial = result.partial.take().or_else(interruption);
    judge(result, plan)
}

/// Refuses a result in which no request was answered, and says of another whether it is partial.
fn judge(mut result: RunResult, plan: &Plan) -> Result<RunResult, String> {
    if result.requests() + result.errors() == 0 {
        if let Some(reason) = result.partial.take() {
            return Err(reason);
        }
        if !plan.idle {
            let seconds = result.elapsed.as_secs_f64();
            return Err(format!("the server answered no request in {seconds:.1} s"));
        }
    }
    if result.partial.is_none() && result.unanswered > 0 {
        let seconds = worker::grace(plan).as_secs_f64();
        result.partial = Some(format!(
            "the server stopped answering: {} requests had no reply {seconds:.1} s after the end",
            result.unanswered
        ));
    }
    if result.partial.is_none() {
        result.partial = error_replies(&result, plan);
    }
    Ok(result)
}

/// Error replies make a result partial: their cost is in no latency.
fn error_replies(result: &RunResult, plan: &Plan) -> Option<String> {
    let (text, _) = result.error_texts.iter().max_by_key(|(_, count)| *count)?;
    let (errors, answered) = (result.errors(), result.requests());
    let is_cut = answered == 0 && plan.duration.is_some_and(|time| result.elapsed < time);
    let end = if is_cut { "; further ones would measure nothing" } else { "" };
    let share =
        if answered == 0 { format!("all {errors}") } else { format!("{errors} of {}", answered + errors) };
    let text = with_advice(text, plan.route);
    (errors > 0).then(|| format!("{share} replies were errors, such as: {text}{end}"))
}

/// Whether an error reply points to another node of a cluster. Its text differs for each slot.
fn is_redirect(text: &str) -> bool {
    text.starts_with("MOVED ") || text.starts_with("ASK ")
}

/// An error reply's text, with what there is to be done about it. `routed`: its redirections were followed.
pub fn with_advice(text: &str, routed: bool) -> String {
    match is_redirect(text) && !routed {
        true => format!("{text} (the server is a node of a cluster: --cluster follows its redirections)"),
        false => text.to_string(),
    }
}

/// Counts error replies of one text; all redirections are of one kind.
fn count_error(known: &mut Vec<(String, u64)>, text: String, count: u64, limit: usize) {
    let alike = |other: &str| *other == *text || is_redirect(other) && is_redirect(&text);
    if let Some((_, total)) = known.iter_mut().find(|(other, _)| alike(other)) {
        *total += count;
    } else if known.len() < limit {
        known.push((text, count));
    }
}

/// Calls the observer until `finished`, waking often enough to be exact about that.
fn watch(shared: &Shared, observer: &mut dyn Observer, start: Instant, finished: &dyn Fn() -> bool) {
    let mut next = Instant::now() + observer.interval();
    while !finished() {
        let now = Instant::now();
        if INTERRUPTED.load(Ordering::Relaxed) {
            shared.stop.store(true, Ordering::Relaxed);
        }
        if now >= next {
            observer.tick(&shared.progress, now - start, &shared.recorder);
            next += observer.interval();
        }
        std::thread::park_timeout(next.saturating_duration_since(now).min(Duration::from_millis(20)));
    }
}

fn collect(result: &mut RunResult, outcomes: Vec<worker::Outcome>) {
    for outcome in outcomes {
        result.elapsed = result.elapsed.max(outcome.elapsed);
        result.sent_bytes += outcome.sent_bytes;
        result.received_bytes += outcome.received_bytes;
        result.disconnects += outcome.disconnects;
        result.redirects += outcome.redirects;
        result.lost += outcome.lost;
        result.unanswered += outcome.unanswered;
        result.send_lag.add(&outcome.send_lag);
        result.threads.push(outcome.time);
        for (text, count) in outcome.error_texts {
            count_error(&mut result.error_texts, text, count, usize::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The responder's plan: PINGs over `connections` connections and as many threads.
    fn plan(connections: usize) -> Plan {
        let port = crate::null::serve(0, crate::null::Behaviour::default()).expect("a port");
        let address = martlet_client::address::Address::Tcp(([127, 0, 0, 1], port).into());
        let node = crate::plan::Node { address, tags: [].into(), slots: [].into() };
        let target =
            crate::plan::Target { nodes: vec![node], prelude: Vec::new(), prelude_replies: 0, tls: None };
        let template = crate::template::Template::raw(b"*1\r\n$4\r\nPING\r\n");
        Plan { connections, threads: connections, ..Plan::single(target, "PING", template) }
    }

    /// A run of a number of requests ends with its last reply, also where no event follows that would wake a
    /// thread: with one connection, one for each thread, in open loop, and where sessions end. The threads'
    /// tick is 100 ms; the quickest of ten runs does not depend on how busy the machine is.
    #[test]
    fn a_number_of_requests_ends_with_its_last_reply() {
        use crate::plan::{Pacing, Step, Unit};
        let open = |rate| Pacing::Open { rate, poisson: false };
        for (connections, pipeline, pacing, epoll, steps) in [
            (1, 1, Pacing::Closed, false, 1),
            (1, 1, Pacing::Closed, true, 1),
            (1, 4, Pacing::Closed, false, 1),
            (2, 1, Pacing::Closed, false, 1),
            (3, 1, Pacing::Closed, false, 2),
            (1, 1, open(20_000.0), false, 1),
            (2, 1, open(20_000.0), true, 1),
        ] {
            let mut plan = plan(connections);
            (plan.pipeline, plan.pacing, plan.epoll, plan.requests) = (pipeline, pacing, epoll, 20);
            let template = crate::template::Template::raw(b"*1\r\n$4\r\nPING\r\n");
            let step = || Step { template: template.clone(), command: 0 };
            plan.workload.units = vec![Unit {
                steps: (0..steps).map(|_| step()).collect(),
                weight: 1,
                variables: Vec::new(),
                begun: AtomicU64::new(0),
            }];
            let runs = (0..10).map(|_| run(&plan, &mut Silent).expect("runs"));
            let runs: Vec<RunResult> = runs.collect();
            assert!(
                runs.iter().all(|run| (20..=23).contains(&run.requests()) && run.lost == 0),
                "{pacing:?}"
            );
            let quickest = runs.iter().map(|run| run.elapsed).min().unwrap_or_default();
            let what = format!("{connections} connections, {pacing:?}, epoll {epoll}: {quickest:?}");
            assert!(quickest < Duration::from_millis(60) && !quickest.is_zero(), "{what}");
        }
    }

    /// Threads that find no request left do not wait for the instant of one that they will not send.
    #[test]
    fn a_slow_schedule_does_not_lengthen_the_run() {
        use crate::plan::Pacing;
        let mut plan = plan(2);
        // Due at 0 and 5 s; each thread has one of the two instants.
        (plan.pacing, plan.requests) = (Pacing::Open { rate: 0.2, poisson: false }, 1);
        let began = Instant::now();
        let result = run(&plan, &mut Silent).expect("runs");
        assert_eq!((result.requests(), result.lost), (1, 0));
        assert!(result.elapsed < Duration::from_secs(1), "{:?}", result.elapsed);
        assert!(began.elapsed() < Duration::from_secs(4), "the thread waited for its instant");
    }

    /// A run of ten days, one command, two threads: histograms are freed as seconds close, rows stay bounded.
    #[test]
    fn memory_does_not_grow_with_the_length_of_a_run() {
        let recorder = Recorder::new(&["GET".into()], 2);
        let days = 10;
        {
            // Rows as `take` would make them; the histograms of that many seconds would take minutes.
            let mut inner = recorder.lock();
            for second in 0..days * 86_400 {
                inner.rows.push(SecondRow { second, requests: 1, ..Default::default() });
                if inner.rows.len() > MAX_ROWS {
                    thin(&mut inner.rows);
                }
            }
            assert!(inner.rows.len() <= MAX_ROWS);
            assert!(inner.rows.is_sorted_by(|a, b| a.second < b.second));
            let last: Vec<u32> = inner.rows.iter().rev().take(3).map(|row| row.second).collect();
            assert_eq!(last, [days * 86_400 - 1, days * 86_400 - 2, days * 86_400 - 3]);
        }
        for second in days * 86_400..days * 86_400 + 50 {
            for thread in 0..2 {
                let mut tally = [worker::Tally::default()];
                tally[0].latencies.record(1_000_000, 10);
                recorder.take(thread, second, second + 1, &mut tally);
                assert!(
                    recorder.lock().open.len() <= 2,
                    "at most the second that a slower thread is in stays open"
                );
            }
        }
        let (totals, rows) = recorder.finish();
        assert_eq!(totals[0].latencies.count(), 50 * 2 * 10);
        assert_eq!(rows.last().map(|row| (row.second, row.requests)), Some((days * 86_400 + 49, 20)));
    }
}
