//! One thread of a run: its connections, its schedule and its figures.
//! The clock is read twice per loop: when the thread wakes, for all replies that have arrived, and just before it
//! hands its requests to the kernel. Per request it only patches, counts and records.

use super::connection::{Connection, InFlight, Phase};
use super::{INTERRUPTED, Shared};
use crate::latency::Latencies;
use crate::pacing::Schedule;
use crate::plan::{Pacing, Plan, Unit};
use crate::template::{Draw, MAX_VARIABLES, Patches};
use martlet_base::random::Random;
use martlet_client::mux::{Handler, Mux};
use martlet_client::scan::{ReplyKind, ReplySink};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Connections that may be in the middle of connecting at once, per thread: the listen backlog is bounded.
const OPENING_AT_ONCE: usize = 256;
/// Connections that share one loopback source address.
const CONNECTIONS_PER_SOURCE: usize = 20_000;
/// How often a thread looks at the time of day and publishes its figures.
const TICK: Duration = Duration::from_millis(100);
/// How long an open-loop run waits for replies after its end.
const GRACE: Duration = Duration::from_secs(10);
/// How long all connections together may take to open.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// In closed loop a wake-up waits for the replies of up to this share of the connections, or so many, but no longer
/// than this: within the tool's tolerance of 20 µs, and a fraction of the latency that so many connections cause.
const GATHER_SHARE: usize = 6;
const GATHER_MOST: usize = 8;
const GATHER_TIME: Duration = Duration::from_micros(20);
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

/// What a thread hands back at its end.
pub(super) struct Outcome {
    pub elapsed: Duration,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub disconnects: u64,
    pub lost: u64,
    pub send_lag: Latencies,
    pub error_texts: Vec<(String, u64)>,
    pub cpu: Duration,
}

/// Everything that a wait's events touch.
struct Core<'a> {
    plan: &'a Plan,
    shared: &'a Shared,
    connections: Vec<Connection>,
    tallies: Vec<Tally>,
    start: Instant,
    now_ns: u64,
    /// Latencies before this instant are warm-up.
    record_from_ns: u64,
    /// Connections that can take a request.
    ready: VecDeque<usize>,
    /// Connections to close and open anew.
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
    lost: u64,
    error_texts: Vec<(String, u64)>,
    decrypted: Vec<u8>,
    /// One request, one latency per batch: no record of single requests is needed.
    simple: bool,
    failed: bool,
}

/// Counts the replies of one chunk.
#[derive(Default)]
struct Chunk {
    values: u64,
    nulls: u64,
    errors: u64,
    kinds: Vec<ReplyKind>,
    keep_kinds: bool,
    texts: Vec<Vec<u8>>,
}

impl ReplySink for Chunk {
    #[inline]
    fn reply(&mut self, kind: ReplyKind, text: &[u8]) {
        match kind {
            ReplyKind::Value => self.values += 1,
            ReplyKind::Null => self.nulls += 1,
            ReplyKind::Error => {
                self.errors += 1;
                self.texts.push(text.to_vec());
            }
        }
        if self.keep_kinds {
            self.kinds.push(kind);
        }
    }
}

impl Core<'_> {
    fn fail(&mut self, reason: String) {
        self.failed = true;
        self.shared.fail(reason);
    }

    fn node_of(&self, slot: usize, index: usize, threads: usize) -> usize {
        (slot * threads + index) % self.plan.target.nodes.len().max(1)
    }

    fn make_ready(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot)
            && !connection.listed
            && !connection.sending
            && connection.phase == Phase::Ready
        {
            connection.listed = true;
            self.ready.push_back(slot);
        }
    }

    fn note_errors(&mut self, texts: Vec<Vec<u8>>) {
        for text in texts {
            let text = String::from_utf8_lossy(&text).into_owned();
            match self.error_texts.iter().position(|(t, _)| *t == text) {
                Some(at) => self.error_texts[at].1 += 1,
                None if self.error_texts.len() < MAX_ERROR_TEXTS => self.error_texts.push((text.clone(), 1)),
                None => {}
            }
            if self.plan.stop_on_error {
                self.fail(format!("Error from server: {text}"));
            }
        }
    }

    /// Takes decrypted bytes of a connection.
    fn take(&mut self, slot: usize, data: &[u8]) {
        let simple = self.simple;
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let mut chunk = Chunk { keep_kinds: !simple, ..Chunk::default() };
        let scanned = connection.scanner.feed(data, &mut chunk);
        let mut total = chunk.values + chunk.nulls + chunk.errors;
        if let Phase::Prelude(missing) = connection.phase {
            // The prelude is answered before the first request is sent: all these replies are its own.
            let rest = missing.saturating_sub(total as u32);
            connection.phase = if rest == 0 { Phase::Ready } else { Phase::Prelude(rest) };
            if let Some(text) = chunk.texts.first() {
                let text = String::from_utf8_lossy(text).into_owned();
                return self.fail(format!("Error from server: {text}"));
            }
            if rest == 0 {
                self.now_open(slot);
            }
            total = 0;
        }
        if total > 0 {
            self.count(slot, chunk, total);
        }
        if let Err(error) = scanned {
            self.fail(format!(
                "{error} from {}",
                self.plan.target.nodes.first().map_or(String::new(), |n| n.address.to_string())
            ));
        }
    }

    fn count(&mut self, slot: usize, mut chunk: Chunk, total: u64) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if total > u64::from(connection.outstanding) {
            return self.fail("the server sent a reply that no request asked for".into());
        }
        connection.outstanding -= total as u32;
        connection.served += total;
        self.outstanding -= total;
        let recording = self.now_ns >= self.record_from_ns;
        if self.simple {
            let latency = self.now_ns.saturating_sub(connection.since_ns);
            if let Some(tally) = self.tallies.first_mut().filter(|_| recording) {
                let answered = chunk.values + chunk.nulls;
                if answered > 0 {
                    tally.latencies.record(latency, answered);
                }
                tally.nulls += chunk.nulls;
                tally.errors += chunk.errors;
                self.done_requests += answered;
                self.done_errors += chunk.errors;
                self.done_latency_ns += latency * answered;
            }
        } else {
            for kind in chunk.kinds.drain(..) {
                let Some(request) = connection.in_flight.pop_front() else { break };
                let Some(tally) = self.tallies.get_mut(usize::from(request.command)).filter(|_| recording)
                else {
                    continue;
                };
                if kind == ReplyKind::Error {
                    tally.errors += 1;
                    self.done_errors += 1;
                    continue;
                }
                let latency = self.now_ns.saturating_sub(request.since_ns);
                tally.latencies.record(latency, 1);
                tally.nulls += u64::from(kind == ReplyKind::Null);
                self.done_requests += 1;
                self.done_latency_ns += latency;
            }
        }
        self.after_replies(slot);
        if !chunk.texts.is_empty() {
            self.note_errors(chunk.texts);
        }
    }

    /// Decides what a connection does next, some of its replies being in.
    fn after_replies(&mut self, slot: usize) {
        let open_loop =
            matches!(self.plan.pacing, Pacing::Open { .. }) || self.plan.workload.replay.is_some();
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let idle = connection.outstanding == 0;
        let every = self.plan.reconnect_every;
        if idle && connection.session.is_none() && every > 0 && connection.served >= every {
            self.reopen.push(slot);
        } else if idle || (open_loop && connection.session.is_none()) {
            self.make_ready(slot);
        }
    }

    /// A connection is through with connecting and its prelude.
    fn now_open(&mut self, slot: usize) {
        self.opening = self.opening.saturating_sub(1);
        self.open += 1;
        self.shared.progress.connections.fetch_add(1, Ordering::Relaxed);
        self.make_ready(slot);
    }

    /// The transport is up: the prelude is next.
    fn begin_prelude(&mut self, slot: usize) {
        let replies = self.plan.target.prelude_replies;
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if replies == 0 {
            connection.phase = Phase::Ready;
            return self.now_open(slot);
        }
        connection.phase = Phase::Prelude(replies);
        connection.plain.extend_from_slice(&self.plan.target.prelude);
        self.flush.push(slot);
    }

    fn take_encrypted(&mut self, slot: usize, data: &[u8]) {
        let mut decrypted = std::mem::take(&mut self.decrypted);
        decrypted.clear();
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some(session) = connection.tls.as_mut() else { return };
        let result = session.receive(data, &mut decrypted);
        let (handshaking, wants_write) = (session.is_handshaking(), session.wants_write());
        let opening = connection.phase == Phase::Opening;
        if wants_write {
            self.flush.push(slot);
        }
        if let Err(error) = result {
            return self.fail(format!("Could not negotiate a TLS connection: {error}"));
        }
        if opening && !handshaking {
            self.begin_prelude(slot);
        }
        if !decrypted.is_empty() {
            self.take(slot, &decrypted);
        }
        self.decrypted = decrypted;
    }
}

impl Handler for Core<'_> {
    fn woken(&mut self) {
        self.now_ns = self.start.elapsed().as_nanos() as u64;
    }

    fn connected(&mut self, slot: usize) {
        if let Some(settings) = &self.plan.target.tls {
            let session = settings.session();
            let Some(connection) = self.connections.get_mut(slot) else { return };
            match session {
                Ok(session) => connection.tls = Some(Box::new(session)),
                Err(error) => return self.fail(error.to_string()),
            }
            self.flush.push(slot);
        } else {
            self.begin_prelude(slot);
        }
    }

    #[inline]
    fn data(&mut self, slot: usize, data: &[u8]) {
        self.received_bytes += data.len() as u64;
        if self.plan.target.tls.is_some() {
            self.take_encrypted(slot, data);
        } else {
            self.take(slot, data);
        }
    }

    #[inline]
    fn sent(&mut self, slot: usize) {
        let open_loop =
            matches!(self.plan.pacing, Pacing::Open { .. }) || self.plan.workload.replay.is_some();
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.sending = false;
        if connection.phase != Phase::Ready {
            if !connection.plain.is_empty() || connection.tls.as_ref().is_some_and(|t| t.wants_write()) {
                self.flush.push(slot);
            }
        } else if connection.outstanding == 0 || (open_loop && connection.session.is_none()) {
            self.after_replies(slot);
        }
    }

    fn closed(&mut self, slot: usize, error: Option<io::Error>) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let phase = connection.phase;
        let lost = connection.reset();
        self.outstanding -= u64::from(lost);
        self.lost += u64::from(lost);
        let address = self.plan.target.nodes.first().map_or(String::new(), |n| n.address.to_string());
        let text = error.map_or("Server closed the connection".to_string(), |e| plain_error(&e));
        match phase {
            Phase::Ready => {
                self.open -= 1;
                self.shared.progress.connections.fetch_sub(1, Ordering::Relaxed);
                self.disconnects += 1;
                if self.plan.survive_disconnects {
                    self.reopen.push(slot);
                } else {
                    self.fail(format!("Error: {text} ({address})"));
                }
            }
            _ if self.plan.survive_disconnects && self.now_ns > 0 => {
                self.opening = self.opening.saturating_sub(1);
                self.disconnects += 1;
                self.reopen.push(slot);
            }
            _ => self.fail(format!("Could not connect to server at {address}: {text}")),
        }
    }
}

/// The message without Rust's " (os error N)".
fn plain_error(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}

struct Worker<'a, M> {
    mux: M,
    core: Core<'a>,
    index: usize,
    threads: usize,
    random: Random,
    pool: Arc<[u8]>,
    scratch: Vec<u8>,
    patches: Option<Patches>,
    schedule: Option<Schedule>,
    replay: Option<crate::replay::Cursor>,
    total_weight: u64,
    /// Connections that were filled in this loop.
    launched: Vec<usize>,
    /// Connections that wait until a reconnect may be tried again.
    retry: VecDeque<(Instant, usize)>,
    sent_bytes: u64,
    send_lag: Latencies,
    end_ns: Option<u64>,
    exhausted: bool,
    /// Sends must tell when they are done.
    notify: bool,
}

/// Runs one thread to the end of the plan.
pub(super) fn run<M: Mux>(
    plan: &Plan,
    shared: &Shared,
    index: usize,
    threads: usize,
    pool: Arc<[u8]>,
) -> Outcome {
    if let Some(core) = plan.cores.get(index % plan.cores.len().max(1)) {
        pin(*core);
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

fn pin(core: usize) {
    // SAFETY: cpu_set_t is plain data; the call reads it during the call. A core that does not exist is ignored.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if core < libc::CPU_SETSIZE as usize {
            libc::CPU_SET(core, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    }
}

fn thread_cpu() -> Duration {
    let (user, system) = super::rusage(libc::RUSAGE_THREAD);
    user + system
}

impl Outcome {
    fn nothing() -> Outcome {
        Outcome {
            elapsed: Duration::ZERO,
            sent_bytes: 0,
            received_bytes: 0,
            disconnects: 0,
            lost: 0,
            send_lag: Latencies::new(),
            error_texts: Vec::new(),
            cpu: Duration::ZERO,
        }
    }
}

impl<'a, M: Mux> Worker<'a, M> {
    fn new(
        plan: &'a Plan,
        shared: &'a Shared,
        index: usize,
        threads: usize,
        pool: Arc<[u8]>,
        own: usize,
    ) -> io::Result<Self> {
        let units = &plan.workload.units;
        let single = matches!(units.as_slice(), [Unit { steps, .. }] if steps.len() == 1);
        let simple = single && plan.pacing == Pacing::Closed && plan.workload.replay.is_none();
        let core = Core {
            plan,
            shared,
            connections: std::iter::repeat_with(Connection::new).take(own).collect(),
            tallies: std::iter::repeat_with(Tally::default).take(plan.workload.commands.len()).collect(),
            start: Instant::now(),
            now_ns: 0,
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
            lost: 0,
            error_texts: Vec::new(),
            decrypted: Vec::new(),
            simple,
            failed: false,
        };
        let patches = match (simple, units.first().and_then(|u| u.steps.first())) {
            (true, Some(step)) => step.template.patches(plan.pipeline),
            _ => None,
        };
        Ok(Worker {
            mux: M::new(own)?,
            core,
            index,
            threads,
            random: Random::seeded(plan.seed.wrapping_mul(0x9E37_79B9).wrapping_add(index as u64)),
            pool,
            scratch: Vec::new(),
            patches,
            schedule: None,
            replay: plan.workload.replay.clone().map(|capture| capture.cursor(index, threads)),
            total_weight: units.iter().map(|u| u.weight).sum(),
            launched: Vec::new(),
            retry: VecDeque::new(),
            sent_bytes: 0,
            send_lag: Latencies::new(),
            end_ns: plan.duration.map(|d| (plan.warmup + d).as_nanos() as u64),
            exhausted: false,
            notify: plan.reconnect_every > 0
                || plan.survive_disconnects
                || plan.workload.replay.is_some()
                || (plan.pacing != Pacing::Closed && plan.pipeline > 1),
        })
    }

    fn source_of(&self, slot: usize) -> Option<std::net::IpAddr> {
        let plan = self.core.plan;
        let number = slot * self.threads + self.index;
        match plan.sources.as_slice() {
            [] => plan.target.nodes.first()?.address.loopback_source(number / CONNECTIONS_PER_SOURCE),
            sources => sources.get(number % sources.len()).copied(),
        }
    }

    fn open(&mut self, slot: usize) {
        let plan = self.core.plan;
        let node = self.core.node_of(slot, self.index, self.threads);
        let Some(node) = plan.target.nodes.get(node) else { return };
        if let Some(connection) = self.core.connections.get_mut(slot) {
            connection.reset();
            connection.phase = Phase::Opening;
        }
        self.core.opening += 1;
        if let Err(error) = self.mux.open(slot, &node.address, self.source_of(slot)) {
            self.core.fail(format!(
                "Could not connect to server at {}: {}",
                node.address,
                plain_error(&error)
            ));
        }
    }

    /// Opens all connections, some at a time.
    fn open_all(&mut self) {
        let (total, limit) = (self.core.connections.len(), Instant::now() + OPEN_TIMEOUT);
        let mut next = 0;
        while self.core.open < total && !self.stopped() {
            while next < total && self.core.opening < OPENING_AT_ONCE && !self.core.failed {
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
        let start = *self.core.shared.start.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.core.start = start.unwrap_or_else(Instant::now);
        self.core.record_from_ns = plan.warmup.as_nanos() as u64;
        self.core.received_bytes = 0;
        if plan.pacing == Pacing::Closed && self.replay.is_none() {
            let events = (self.core.connections.len() / GATHER_SHARE).clamp(1, GATHER_MOST);
            self.mux.gather(events, GATHER_TIME);
        }
        if let Pacing::Open { rate, poisson } = plan.pacing
            && self.replay.is_none()
        {
            // The default slack of 50 µs would show in every latency.
            // SAFETY: a system call without pointers.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
            self.schedule = Some(Schedule::new(rate, self.threads, self.index, poisson, plan.seed));
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
            self.reconnect();
            let timeout = self.fill();
            self.flush();
            let timeout = timeout.min(Duration::from_nanos(next_tick.saturating_sub(self.core.now_ns)));
            self.wait(Some(timeout));
        }
        self.publish();
        let core = &mut self.core;
        core.shared.recorder.take(self.index, second, u32::MAX, &mut core.tallies);
    }

    /// Whether all work is done, or its time is over.
    fn finished(&mut self) -> bool {
        let now = self.core.now_ns;
        let over = self.end_ns.is_some_and(|end| now >= end);
        let open_loop = self.schedule.is_some() || self.replay.is_some();
        if over && !open_loop {
            return true;
        }
        let idle = self.core.outstanding == 0 && !self.core.connections.iter().any(|c| c.session.is_some());
        let drained = match (&self.schedule, self.end_ns) {
            (Some(schedule), Some(end)) => schedule.peek() >= end,
            _ => self.exhausted,
        };
        if (self.exhausted || drained) && idle {
            return true;
        }
        // Requests that were due are sent and waited for, within reason, so that a stall at the end counts too.
        over && now >= self.end_ns.unwrap_or(0) + GRACE.as_nanos() as u64
    }

    /// Publishes the figures, closes a second when it is over; gives the current second.
    fn tick(&mut self, second: u32) -> u32 {
        self.publish();
        let measured = self.core.now_ns.saturating_sub(self.core.record_from_ns);
        let current = (measured / 1_000_000_000) as u32;
        if current > second {
            let core = &mut self.core;
            core.shared.recorder.take(self.index, second, current, &mut core.tallies);
        }
        current
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

    /// Gives requests to connections; gives the time that the thread may sleep.
    fn fill(&mut self) -> Duration {
        let idle = TICK;
        let timeout = if self.core.plan.idle {
            idle
        } else if self.replay.is_some() {
            self.fill_replay()
        } else if self.schedule.is_some() {
            self.fill_open()
        } else {
            self.fill_closed();
            idle
        };
        self.launch();
        timeout.min(idle)
    }

    fn fill_closed(&mut self) {
        let plan = self.core.plan;
        while let Some(slot) = self.core.ready.pop_front() {
            let Some(connection) = self.core.connections.get_mut(slot) else { continue };
            connection.listed = false;
            if connection.phase != Phase::Ready || connection.sending {
                continue;
            }
            if connection.session.is_some() {
                self.append_unit(slot, None);
                continue;
            }
            let mut count = plan.pipeline as u64;
            if plan.requests > 0 {
                let before = self.core.shared.issued.fetch_add(count, Ordering::Relaxed);
                if before >= plan.requests {
                    self.exhausted = true;
                    continue;
                }
                count = count.min(plan.requests - before);
            }
            if self.core.simple {
                self.render(slot, count as usize);
            } else {
                for _ in 0..count {
                    self.append_unit(slot, None);
                    if self.core.connections.get(slot).is_some_and(|c| c.session.is_some()) {
                        break;
                    }
                }
            }
        }
    }

    /// The simple case: one template, a whole batch, patched where that is possible.
    fn render(&mut self, slot: usize, count: usize) {
        let plan = self.core.plan;
        let Some(step) = plan.workload.units.first().and_then(|u| u.steps.first()) else { return };
        let node = self.core.node_of(slot, self.index, self.threads);
        let Some(connection) = self.core.connections.get_mut(slot) else { return };
        let Some(buffer) = (match connection.tls {
            Some(_) => Some(&mut connection.plain),
            None => self.mux.buffer(slot),
        }) else {
            return;
        };
        let mut range_low = 0;
        let mut draw = Draw {
            random: &mut self.random,
            pool: &self.pool,
            variables: &[0; MAX_VARIABLES],
            tags: plan.target.nodes.get(node).map_or(&[], |n| &n.tags),
            range_low: &mut range_low,
        };
        let whole = count == plan.pipeline;
        match &self.patches {
            Some(patches) if connection.rendered && whole => step.template.patch(patches, buffer, &mut draw),
            _ => {
                buffer.clear();
                for _ in 0..count {
                    step.template.append(buffer, &mut self.scratch, &mut draw);
                }
                // With TLS the buffer is consumed by encryption.
                connection.rendered = whole && connection.tls.is_none();
            }
        }
        connection.outstanding += count as u32;
        self.core.outstanding += count as u64;
        self.launched.push(slot);
    }

    /// Appends the next request of a connection: its session's next step, or the first of a unit drawn by weight.
    /// `due_ns` is when it was due; without, its latency begins when it is sent.
    fn append_unit(&mut self, slot: usize, due_ns: Option<u64>) {
        let plan = self.core.plan;
        let units = &plan.workload.units;
        let node = self.core.node_of(slot, self.index, self.threads);
        let Some(connection) = self.core.connections.get_mut(slot) else { return };
        let Some(buffer) = (match connection.tls {
            Some(_) => Some(&mut connection.plain),
            None => self.mux.buffer(slot),
        }) else {
            return;
        };
        if !connection.dirty && connection.tls.is_none() {
            buffer.clear();
        }
        let (unit_index, step_index) = connection.session.take().unwrap_or_else(|| {
            let mut drawn = if units.len() > 1 { self.random.below(self.total_weight) } else { 0 };
            let chosen = units.iter().position(|u| {
                let hit = drawn < u.weight;
                drawn = drawn.saturating_sub(u.weight);
                hit
            });
            (chosen.unwrap_or(0), 0)
        });
        let Some(unit) = units.get(unit_index) else { return };
        let Some(step) = unit.steps.get(step_index) else { return };
        if step_index == 0 {
            for (variable, field) in connection.variables.iter_mut().zip(&unit.variables) {
                *variable = field.draw_number(&mut self.random);
            }
        }
        let mut range_low = 0;
        let mut draw = Draw {
            random: &mut self.random,
            pool: &self.pool,
            variables: &connection.variables,
            tags: plan.target.nodes.get(node).map_or(&[], |n| &n.tags),
            range_low: &mut range_low,
        };
        step.template.append(buffer, &mut self.scratch, &mut draw);
        if step_index + 1 < unit.steps.len() {
            connection.session = Some((unit_index, step_index + 1));
        }
        // u64::MAX: set when the request is handed to the kernel.
        let since_ns = due_ns.unwrap_or(u64::MAX);
        connection.in_flight.push_back(InFlight { since_ns, command: step.command as u16 });
        connection.outstanding += 1;
        self.core.outstanding += 1;
        if !connection.dirty {
            connection.dirty = true;
            self.launched.push(slot);
        }
    }

    /// Sends what was filled, with one reading of the clock.
    fn launch(&mut self) {
        if self.launched.is_empty() {
            return;
        }
        let now = self.core.start.elapsed().as_nanos() as u64;
        let mut launched = std::mem::take(&mut self.launched);
        for slot in launched.drain(..) {
            let Some(connection) = self.core.connections.get_mut(slot) else { continue };
            connection.since_ns = now;
            connection.dirty = false;
            if !self.core.simple {
                for request in connection.in_flight.iter_mut().rev() {
                    if request.since_ns != u64::MAX {
                        break;
                    }
                    request.since_ns = now;
                }
            }
            self.send(slot);
        }
        self.launched = launched;
    }

    fn send(&mut self, slot: usize) {
        let Some(connection) = self.core.connections.get_mut(slot) else { return };
        let Some(buffer) = self.mux.buffer(slot) else { return };
        if let Some(session) = connection.tls.as_mut() {
            buffer.clear();
            if let Err(error) = session.transmit(&connection.plain, buffer) {
                return self.core.fail(format!("TLS: {error}"));
            }
            connection.plain.clear();
        }
        if buffer.is_empty() {
            return;
        }
        self.sent_bytes += buffer.len() as u64;
        // Without a notice, a connection's buffer is free when all its replies are in.
        let notify = self.notify || connection.phase != Phase::Ready;
        connection.sending = !self.mux.send(slot, notify);
    }

    /// Sends bytes of preludes and TLS handshakes.
    fn flush(&mut self) {
        for slot in std::mem::take(&mut self.core.flush) {
            let Some(connection) = self.core.connections.get_mut(slot) else { continue };
            if connection.sending {
                continue;
            }
            let handshaking = connection.tls.as_ref().is_some_and(|t| t.is_handshaking());
            if connection.tls.is_none()
                && let Some(buffer) = self.mux.buffer(slot)
            {
                buffer.clear();
                buffer.append(&mut connection.plain);
                connection.rendered = false;
            }
            if handshaking {
                // What the application wrote waits until the handshake is over.
                let plain = std::mem::take(&mut connection.plain);
                self.send(slot);
                if let Some(connection) = self.core.connections.get_mut(slot) {
                    connection.plain = plain;
                }
            } else {
                self.send(slot);
            }
        }
    }

    /// Open loop: all requests that are due go to connections that have room.
    fn fill_open(&mut self) -> Duration {
        let plan = self.core.plan;
        self.continue_sessions();
        let now = self.core.start.elapsed().as_nanos() as u64;
        let Some(mut schedule) = self.schedule.take() else { return TICK };
        let mut blocked = false;
        loop {
            let due = schedule.peek();
            if due > now || self.end_ns.is_some_and(|end| due >= end) || self.exhausted {
                break;
            }
            let Some(slot) = self.next_connection() else {
                blocked = true;
                break;
            };
            if plan.requests > 0 && self.core.shared.issued.fetch_add(1, Ordering::Relaxed) >= plan.requests {
                self.exhausted = true;
                break;
            }
            // Waiting for a connection is the server's doing, waking late is ours.
            self.send_lag
                .record(now - due.max(self.core.connections.get(slot).map_or(0, |c| c.since_ns)).min(now), 1);
            self.append_unit(slot, Some(due));
            schedule.advance();
            self.relist(slot);
        }
        let next = schedule.peek();
        self.schedule = Some(schedule);
        if blocked {
            return TICK;
        }
        let spin = plan.spin.as_nanos() as u64;
        let gap = next.saturating_sub(self.core.start.elapsed().as_nanos() as u64);
        if gap <= spin { Duration::ZERO } else { Duration::from_nanos(gap - spin) }
    }

    /// Sends the next step of each session whose last one is answered.
    fn continue_sessions(&mut self) {
        let mut rest = VecDeque::with_capacity(self.core.ready.len());
        if !self.core.plan.workload.units.iter().any(|u| u.steps.len() > 1) {
            return;
        }
        while let Some(slot) = self.core.ready.pop_front() {
            let Some(connection) = self.core.connections.get_mut(slot) else { continue };
            if connection.session.is_some() && connection.outstanding == 0 {
                connection.listed = false;
                self.append_unit(slot, None);
            } else {
                rest.push_back(slot);
            }
        }
        self.core.ready = rest;
    }

    /// A connection with room for one more request.
    fn next_connection(&mut self) -> Option<usize> {
        while let Some(slot) = self.core.ready.pop_front() {
            let connection = self.core.connections.get_mut(slot)?;
            connection.listed = false;
            let room =
                (connection.outstanding as usize) < self.core.plan.pipeline && connection.session.is_none();
            if connection.phase == Phase::Ready && !connection.sending && room {
                return Some(slot);
            }
        }
        None
    }

    /// Lists a connection again if it can take more in this loop.
    fn relist(&mut self, slot: usize) {
        let room = self
            .core
            .connections
            .get(slot)
            .is_some_and(|c| (c.outstanding as usize) < self.core.plan.pipeline && c.session.is_none());
        if room {
            self.core.make_ready(slot);
        }
    }

    /// Replay: the capture's requests, each on the connection of the client that sent it.
    fn fill_replay(&mut self) -> Duration {
        let Some(mut cursor) = self.replay.take() else { return TICK };
        let open_loop = matches!(self.core.plan.pacing, Pacing::Open { .. });
        let now = self.core.start.elapsed().as_nanos() as u64;
        let own = self.core.connections.len().max(1);
        self.core.ready.clear();
        let mut timeout = TICK;
        while let Some(request) = cursor.peek() {
            if open_loop && request.due_ns > now {
                timeout = Duration::from_nanos(request.due_ns - now);
                break;
            }
            let slot = request.client % own;
            let Some(connection) = self.core.connections.get_mut(slot) else { break };
            connection.listed = false;
            let full = connection.outstanding as usize >= self.core.plan.pipeline;
            if full || connection.sending || connection.phase != Phase::Ready {
                break;
            }
            let Some(buffer) = (match connection.tls {
                Some(_) => Some(&mut connection.plain),
                None => self.mux.buffer(slot),
            }) else {
                break;
            };
            if !connection.dirty && connection.tls.is_none() {
                buffer.clear();
            }
            buffer.extend_from_slice(request.bytes);
            let since_ns = if open_loop { request.due_ns } else { u64::MAX };
            connection.in_flight.push_back(InFlight { since_ns, command: request.command });
            connection.outstanding += 1;
            self.core.outstanding += 1;
            if !connection.dirty {
                connection.dirty = true;
                self.launched.push(slot);
            }
            cursor.advance();
        }
        self.exhausted = cursor.peek().is_none();
        self.replay = Some(cursor);
        timeout
    }

    fn finish(mut self) -> Outcome {
        let core = &mut self.core;
        let now = core.start.elapsed();
        let end = self.end_ns.map_or(now, |end| now.min(Duration::from_nanos(end)));
        let unsent = match (&self.schedule, self.end_ns) {
            (Some(schedule), Some(end)) if !core.failed => {
                let gap = self.threads as f64 * 1e9
                    / match core.plan.pacing {
                        Pacing::Open { rate, .. } => rate,
                        Pacing::Closed => 1.0,
                    };
                (end.min(now.as_nanos() as u64).saturating_sub(schedule.peek()) as f64 / gap) as u64
            }
            _ => 0,
        };
        let in_flight = if self.schedule.is_some() || core.failed { core.outstanding } else { 0 };
        Outcome {
            elapsed: end.saturating_sub(core.plan.warmup),
            sent_bytes: self.sent_bytes,
            received_bytes: core.received_bytes,
            disconnects: core.disconnects,
            lost: core.lost + unsent + in_flight,
            send_lag: self.send_lag,
            error_texts: std::mem::take(&mut core.error_texts),
            cpu: thread_cpu(),
        }
    }
}
