//! One thread of a run: its connections, its schedule and its figures. The clock is read twice per loop: when
//! the thread wakes, for all replies that have arrived, and just before it hands its requests to the kernel.
//! Per request it only patches, counts and records.

mod fill;
mod replies;
mod route;

use super::connection::{Connection, InFlight, Phase};
use super::{INTERRUPTED, Shared, ThreadTime};
use crate::control::plain_error;
use crate::latency::Latencies;
use crate::pacing::Schedule;
use crate::plan::{DEFAULT_SPIN, Pacing, Plan, Unit};
use crate::template::{Draw, Drawn, MAX_VARIABLES, Patches, Pool};
use martlet_base::random::Random;
use martlet_base::sync::lock;
use martlet_client::mux::{Handler, Mux};
use martlet_client::scan::{ReplyKind, ReplySink};
use route::Router;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Connections that may be in the middle of connecting at once, over all threads: the listen backlog is
/// bounded.
const OPENING_AT_ONCE: usize = 256;
/// Connections that one loopback source address can have at most. Up to here there is only one: servers may
/// refuse others.
const MOST_PER_SOURCE: usize = 20_000;
/// Connections of each address where there are several: the kernel searches long for a port once half of them
/// are taken.
const CONNECTIONS_PER_SOURCE: usize = 10_000;
/// How often a thread looks at the time of day and publishes its figures.
const TICK: Duration = Duration::from_millis(100);
/// How long a run waits after its end for replies to earlier requests: as long as it took, within these
/// bounds.
const GRACE: std::ops::RangeInclusive<Duration> = Duration::from_secs(3)..=Duration::from_secs(10);
/// How long all connections together may take to open.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// A run that has brought nothing but errors ends after this part of its measured time.
const ERRORS_ALONE: Duration = Duration::from_secs(1);
/// Different error texts that are kept.
const MAX_ERROR_TEXTS: usize = 32;

/// One command's figures of the current second.
#[derive(Default)]
pub(super) struct Tally {
    pub latencies: Latencies,
    pub errors: u64,
    pub nulls: u64,
}

impl Tally {
    pub fn clear(&mut self) {
        self.latencies.clear();
        (self.errors, self.nulls) = (0, 0);
    }
}

/// How long a run of the plan waits for replies after its end.
pub(super) fn grace(plan: &Plan) -> Duration {
    plan.duration.unwrap_or_default().clamp(*GRACE.start(), *GRACE.end())
}

/// The result of a thread.
pub(super) struct Outcome {
    pub elapsed: Duration,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub disconnects: u64,
    pub lost: u64,
    pub unanswered: u64,
    pub redirects: u64,
    pub send_lag: Latencies,
    pub error_texts: Vec<(String, u64)>,
    pub time: ThreadTime,
}

/// Everything that a wait's events touch.
struct Core<'a> {
    plan: &'a Plan,
    shared: &'a Shared,
    connections: Vec<Connection>,
    tallies: Vec<Tally>,
    /// The figures of replies that came after the end; empty until the first.
    late: Vec<Tally>,
    start: Instant,
    now_ns: u64,
    /// When the measured time is over; [`u64::MAX`] without a time.
    end_ns: u64,
    /// When the last reply came.
    last_reply_ns: u64,
    /// Latencies before this instant are warm-up.
    record_from_ns: u64,
    /// Connections that can take a request.
    ready: VecDeque<usize>,
    /// Connections to close and open again.
    reopen: Vec<usize>,
    /// Connections with bytes of the TLS layer, or the prelude, to be sent.
    flush: Vec<usize>,
    opening: usize,
    open: usize,
    outstanding: u64,
    done_requests: u64,
    done_latency_ns: u64,
    done_errors: u64,
    received_bytes: u64,
    disconnects: u64,
    /// Why the last attempt to open a connection again failed; absent once one has succeeded.
    unreachable: Option<String>,
    /// When a connection was last seen open.
    seen_open_ns: u64,
    lost: u64,
    error_texts: Vec<(String, u64)>,
    decrypted: Vec<u8>,
    /// One request, one latency per batch: no record of single requests is needed.
    simple: bool,
    /// In cluster mode, where requests go.
    router: Option<Router>,
    failed: bool,
    /// This thread's number, and how many there are.
    index: usize,
    threads: usize,
}

struct Worker<'a, M> {
    mux: M,
    core: Core<'a>,
    random: Random,
    pool: Pool,
    scratch: Vec<u8>,
    patches: Option<Patches>,
    schedule: Option<Schedule>,
    replay: Option<crate::replay::Cursor>,
    /// Replay: requests that are due, by the connection whose last reply they wait for.
    delayed: Vec<VecDeque<usize>>,
    total_weight: u64,
    /// Connections that were filled in this loop.
    launched: Vec<usize>,
    /// Connections that wait until a reconnect may be tried again.
    retry: VecDeque<(Instant, usize)>,
    sent_bytes: u64,
    send_lag: Latencies,
    /// Open loop: how long before a request is due the thread polls instead of sleeping.
    spin_ns: u64,
    /// How long after its end the run waits for replies.
    grace_ns: u64,
    /// All requests of the plan are drawn.
    exhausted: bool,
    /// Sends must tell when they are done.
    notify: bool,
    /// Since the warm-up: before, requests count neither as measured nor towards a number that was asked for.
    measuring: bool,
    clock: ThreadClock,
}

/// Runs one thread to the end of the plan.
pub(super) fn run<M: Mux>(plan: &Plan, shared: &Shared, index: usize, threads: usize, pool: Pool) -> Outcome {
    if let Some(core) = plan.cores.get(index % plan.cores.len().max(1))
        && let Err(error) = pin(*core)
    {
        shared.fail(format!("--cores: a thread cannot be pinned to core {core}: {}", plain_error(&error)));
    }
    let own = plan.connections / threads + usize::from(index < plan.connections % threads);
    let mut worker = match Worker::<M>::new(plan, shared, index, threads, pool, own) {
        Ok(worker) => worker,
        Err(error) => {
            shared.fail(format!("Cannot set up {own} connections: {error}"));
            shared.ready.wait();
            shared.ready.wait();
            return Outcome::nothing();
        }
    };
    worker.open_all();
    shared.ready.wait();
    shared.ready.wait();
    worker.begin();
    worker.work();
    worker.finish()
}

fn pin(core: usize) -> io::Result<()> {
    // SAFETY: cpu_set_t is plain data; the call reads it during the call.
    let pinned = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        // A core beyond the set's size leaves it empty, which the kernel refuses.
        if core < libc::CPU_SETSIZE as usize {
            libc::CPU_SET(core, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if pinned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What this thread has run, and how long it could have but had no core, at an instant.
struct ThreadClock {
    at: Instant,
    cpu: Duration,
    waited: Duration,
}

impl ThreadClock {
    fn read() -> ThreadClock {
        let (user, system) = super::rusage(libc::RUSAGE_THREAD);
        // Nanoseconds run, nanoseconds waited, times scheduled; kernels without these accounts have no such
        // file.
        let accounts = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let waited_ns = accounts.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
        ThreadClock { at: Instant::now(), cpu: user + system, waited: Duration::from_nanos(waited_ns) }
    }

    /// The thread's shares of the time since this reading.
    fn shares(&self) -> ThreadTime {
        let now = ThreadClock::read();
        let wall = (now.at - self.at).as_secs_f64().max(1e-9);
        let share = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64() / wall;
        ThreadTime { busy: share(now.cpu, self.cpu), waited: share(now.waited, self.waited) }
    }
}

impl Outcome {
    fn nothing() -> Outcome {
        Outcome {
            elapsed: Duration::ZERO,
            sent_bytes: 0,
            received_bytes: 0,
            disconnects: 0,
            lost: 0,
            unanswered: 0,
            redirects: 0,
            send_lag: Latencies::new(),
            error_texts: Vec::new(),
            time: ThreadTime::default(),
        }
    }
}

/// Whether one request is sent again and again as fast as replies come.
fn is_simple(plan: &Plan) -> bool {
    let single = matches!(plan.workload.units.as_slice(), [Unit { steps, .. }] if steps.len() == 1);
    single && plan.pacing == Pacing::Closed && plan.workload.replay.is_none()
}

impl<'a> Core<'a> {
    fn new(plan: &'a Plan, shared: &'a Shared, index: usize, threads: usize, own: usize) -> Self {
        let router = Router::new(plan);
        Core {
            plan,
            shared,
            connections: std::iter::repeat_with(Connection::new).take(own).collect(),
            tallies: std::iter::repeat_with(Tally::default).take(plan.workload.commands.len()).collect(),
            late: Vec::new(),
            start: Instant::now(),
            now_ns: 0,
            end_ns: plan.duration.map_or(u64::MAX, |d| (plan.warmup + d).as_nanos() as u64),
            last_reply_ns: 0,
            record_from_ns: 0,
            ready: VecDeque::with_capacity(own),
            reopen: Vec::new(),
            flush: Vec::new(),
            opening: 0,
            open: 0,
            outstanding: 0,
            done_requests: 0,
            done_latency_ns: 0,
            done_errors: 0,
            received_bytes: 0,
            disconnects: 0,
            unreachable: None,
            seen_open_ns: 0,
            lost: 0,
            error_texts: Vec::new(),
            decrypted: Vec::new(),
            simple: is_simple(plan) && router.is_none(),
            router,
            failed: false,
            index,
            threads,
        }
    }
}

impl<'a, M: Mux> Worker<'a, M> {
    fn new(
        plan: &'a Plan,
        shared: &'a Shared,
        index: usize,
        threads: usize,
        pool: Pool,
        own: usize,
    ) -> io::Result<Self> {
        let units = &plan.workload.units;
        let core = Core::new(plan, shared, index, threads, own);
        let first = units.first().and_then(|unit| unit.steps.first()).filter(|_| core.simple);
        let patches = first.and_then(|step| step.template.patches(plan.pipeline));
        Ok(Worker {
            mux: M::new(own)?,
            core,
            random: Random::seeded(plan.seed.wrapping_mul(0x9E37_79B9).wrapping_add(index as u64)),
            pool,
            scratch: Vec::new(),
            patches,
            schedule: None,
            replay: plan.workload.replay.clone().map(|capture| capture.cursor(index, threads)),
            delayed: Vec::new(),
            total_weight: units.iter().map(|u| u.weight).sum(),
            launched: Vec::new(),
            retry: VecDeque::new(),
            sent_bytes: 0,
            send_lag: Latencies::new(),
            spin_ns: 0,
            grace_ns: grace(plan).as_nanos() as u64,
            exhausted: false,
            notify: plan.reconnect_every > 0
                || plan.survive_disconnects
                || plan.workload.replay.is_some()
                || (plan.pacing != Pacing::Closed && plan.pipeline > 1),
            measuring: false,
            clock: ThreadClock::read(),
        })
    }

    fn source_of(&self, slot: usize) -> Option<std::net::IpAddr> {
        let plan = self.core.plan;
        let number = slot * self.core.threads + self.core.index;
        match plan.sources.as_slice() {
            [] if plan.connections <= MOST_PER_SOURCE => None,
            [] => plan.target.nodes.first()?.address.loopback_source(number / CONNECTIONS_PER_SOURCE),
            sources => sources.get(number % sources.len()).copied(),
        }
    }

    fn open(&mut self, slot: usize) {
        let plan = self.core.plan;
        let node = self.core.node_of(slot);
        let Some(node) = plan.target.nodes.get(node) else { return };
        if let Some(connection) = self.core.connections.get_mut(slot) {
            connection.reset();
            connection.phase = Phase::Opening;
        }
        self.core.opening += 1;
        if let Err(error) = self.mux.open(slot, &node.address, self.source_of(slot)) {
            self.core.fail(replies::could_not_connect(&node.address, &plain_error(&error)));
        }
    }

    /// Opens all connections, some at a time.
    fn open_all(&mut self) {
        let (total, limit) = (self.core.connections.len(), Instant::now() + OPEN_TIMEOUT);
        let (mut next, at_once) = (0, (OPENING_AT_ONCE / self.core.threads).max(1));
        while self.core.open < total && !self.stopped() {
            while next < total && self.core.opening < at_once && !self.core.failed {
                self.open(next);
                next += 1;
            }
            self.wait(Some(TICK));
            self.flush();
            if Instant::now() > limit {
                let open = self.core.open;
                self.core.fail(format!("only {open} of {total} connections opened within {OPEN_TIMEOUT:?}"));
            }
        }
    }

    fn stopped(&self) -> bool {
        self.core.failed
            || self.core.shared.stop.load(Ordering::Relaxed)
            || INTERRUPTED.load(Ordering::Relaxed)
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.mux.wait(timeout, &mut self.core) {
            self.core.fail(format!("waiting for replies failed: {error}"));
        }
    }

    /// Sets the clock to the run's start.
    fn begin(&mut self) {
        let plan = self.core.plan;
        let start = *lock(&self.core.shared.start);
        self.core.start = start.unwrap_or_else(Instant::now);
        self.core.seen_open_ns = 0;
        self.core.record_from_ns = plan.warmup.as_nanos() as u64;
        if let Pacing::Open { rate, poisson } = plan.pacing {
            // The default slack of 50 µs would show in every latency.
            // SAFETY: a system call without pointers.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
            let gap = Duration::from_secs_f64(self.core.threads as f64 / rate);
            self.spin_ns = plan.spin.unwrap_or(DEFAULT_SPIN.min(gap / 4)).as_nanos() as u64;
            if self.replay.is_none() {
                self.schedule =
                    Some(Schedule::new(rate, self.core.threads, self.core.index, poisson, plan.seed));
            }
        }
        self.core.woken();
    }

    fn work(&mut self) {
        let (mut next_tick, mut second) = (0, 0);
        let tick_ns = TICK.as_nanos() as u64;
        loop {
            if self.core.now_ns >= next_tick {
                next_tick = self.core.now_ns + tick_ns;
                second = self.tick(second);
                if self.stopped() {
                    break;
                }
            }
            if self.core.failed || self.finished() {
                break;
            }
            if !self.measuring && self.core.now_ns >= self.core.record_from_ns {
                self.measuring = true;
                (self.sent_bytes, self.core.received_bytes) = (0, 0);
                self.clock = ThreadClock::read();
            }
            self.reconnect();
            let timeout = self.fill();
            self.flush();
            // That nothing is left to send may have come out just now: no event would end the wait.
            if self.finished() {
                break;
            }
            let timeout = timeout.min(Duration::from_nanos(self.next_look(next_tick) - self.core.now_ns));
            self.wait(Some(timeout));
        }
        self.publish();
        let core = &mut self.core;
        core.shared.recorder.take(core.index, second, u32::MAX, &mut core.tallies);
        core.shared.recorder.add_late(&core.late);
    }

    /// When the thread has to look at the time again, though nothing may have come: at the next tick, at the
    /// end of the warm-up and of the measured time, or when it stops waiting for replies; never before now.
    fn next_look(&self, next_tick: u64) -> u64 {
        let core = &self.core;
        [core.record_from_ns, core.end_ns, core.end_ns.saturating_add(self.grace_ns)]
            .into_iter()
            .filter(|instant| *instant > core.now_ns)
            .fold(next_tick.max(core.now_ns), u64::min)
    }

    /// Whether all work is done, or its time is over.
    fn finished(&mut self) -> bool {
        let (now, end) = (self.core.now_ns, self.core.end_ns);
        if self.core.outstanding == 0 {
            if self.closed_loop_is_over() {
                return true;
            }
            let requests = self.core.plan.requests;
            self.exhausted |= requests > 0 && self.core.shared.issued.load(Ordering::Relaxed) >= requests;
            let drained = self.schedule.as_ref().is_some_and(|schedule| schedule.peek() >= end);
            if (self.exhausted || drained)
                && self.core.router.as_ref().is_none_or(|router| router.waiting() == 0)
                && !self.core.connections.iter().any(|c| c.session.is_some())
            {
                return true;
            }
        }
        // Requests that were sent or due are waited for, within reason, so that a stall at the end counts,
        // too, and a server that has stopped answering does not look like one that is well.
        now >= end.saturating_add(self.grace_ns)
    }

    /// Whether the time of a closed loop is over: it sends nothing from then on.
    fn closed_loop_is_over(&self) -> bool {
        self.core.plan.pacing == Pacing::Closed && self.core.now_ns >= self.core.end_ns
    }

    /// Publishes the figures, closes a second when it is over; gives the current second.
    fn tick(&mut self, second: u32) -> u32 {
        self.publish();
        self.core.check_patience();
        // Replies after the end belong to no second.
        let now_ns = self.core.now_ns.min(self.core.end_ns.saturating_sub(1));
        let measured = now_ns.saturating_sub(self.core.record_from_ns);
        if Duration::from_nanos(measured) >= ERRORS_ALONE && self.has_errors_alone() {
            self.core.shared.stop.store(true, Ordering::Relaxed);
        }
        let current = (measured / 1_000_000_000) as u32;
        if current > second {
            let core = &mut self.core;
            core.shared.recorder.take(core.index, second, current, &mut core.tallies);
        }
        current
    }

    /// Whether all replies of the run are errors, so that there is nothing to measure. A server that is away
    /// for a while may begin with some.
    fn has_errors_alone(&self) -> bool {
        let progress = &self.core.shared.progress;
        let nothing_else = progress.requests.load(Ordering::Relaxed) == 0;
        nothing_else && progress.errors.load(Ordering::Relaxed) > 0 && !self.core.plan.survive_disconnects
    }

    fn publish(&mut self) {
        let core = &mut self.core;
        let progress = &core.shared.progress;
        progress.requests.fetch_add(std::mem::take(&mut core.done_requests), Ordering::Relaxed);
        progress.latency_ns.fetch_add(std::mem::take(&mut core.done_latency_ns), Ordering::Relaxed);
        progress.errors.fetch_add(std::mem::take(&mut core.done_errors), Ordering::Relaxed);
    }

    /// Closes and opens what asks for it.
    fn reconnect(&mut self) {
        if self.core.reopen.is_empty() && self.retry.is_empty() {
            return;
        }
        let now = Instant::now();
        for slot in std::mem::take(&mut self.core.reopen) {
            let was_open = self.core.connections.get(slot).is_some_and(|c| c.phase == Phase::Ready);
            if was_open {
                self.core.open -= 1;
                self.core.shared.progress.connections.fetch_sub(1, Ordering::Relaxed);
                self.mux.close(slot);
                self.open(slot);
            } else {
                // It broke: the server may need a moment.
                self.retry.push_back((now + TICK, slot));
            }
        }
        while let Some((_, slot)) = self.retry.pop_front_if(|(due, _)| *due <= now) {
            self.open(slot);
        }
    }

    fn finish(mut self) -> Outcome {
        let core = &mut self.core;
        if let Some(reason) = core.unreachable.take().filter(|_| core.open == 0) {
            core.fail(reason);
        }
        let now_ns = core.start.elapsed().as_nanos() as u64;
        // A number of requests ends with its last reply, whenever the thread has noticed that it was the
        // last.
        let whole = self.exhausted && core.outstanding == 0 && !core.failed && core.last_reply_ns > 0;
        let end_ns = core.end_ns.min(if whole { core.last_reply_ns } else { now_ns });
        let unsent = match (&self.schedule, core.plan.pacing) {
            (Some(schedule), Pacing::Open { rate, .. }) if core.end_ns < u64::MAX && !core.failed => {
                let gap_ns = core.threads as f64 * 1e9 / rate;
                (core.end_ns.min(now_ns).saturating_sub(schedule.peek()) as f64 / gap_ns).ceil() as u64
            }
            (None, Pacing::Open { .. }) => self.delayed.iter().map(|queue| queue.len() as u64).sum(),
            _ => 0,
        };
        let parked = core.router.as_ref().filter(|_| self.schedule.is_some()).map_or(0, Router::waiting);
        let silent = |c: &&Connection| {
            now_ns.saturating_sub(c.answered_ns.max(c.since_ns)) >= self.grace_ns && now_ns > core.end_ns
        };
        let unanswered = core.connections.iter().filter(silent).map(|c| u64::from(c.outstanding)).sum();
        Outcome {
            elapsed: Duration::from_nanos(end_ns).saturating_sub(core.plan.warmup),
            sent_bytes: self.sent_bytes,
            received_bytes: core.received_bytes,
            disconnects: core.disconnects,
            lost: core.lost + unsent + parked as u64 + core.outstanding,
            unanswered,
            redirects: core.router.as_ref().map_or(0, |router| router.redirects),
            send_lag: self.send_lag,
            error_texts: std::mem::take(&mut core.error_texts),
            time: self.clock.shares(),
        }
    }
}
