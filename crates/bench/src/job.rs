//! A job: the requests of the command line and the workload file, resolved, ready to make plans and run them.

use crate::cli::classic;
use crate::cli::options::{Settings, duration, run_time};
use crate::cli::target;
use crate::cost::{Cost, Meter, Usage};
use crate::engine::{self, INTERRUPTED, Observer, Progress, Recorder, RunResult};
use crate::environment::Environment;
use crate::errln;
use crate::index;
use crate::plan::{self, DEFAULT_PATIENCE, Pacing, Plan, Target, Workload};
use crate::replay::Capture;
use crate::template::{self, Template, Words};
use crate::workload::{self, WorkloadFile};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Length of runs without a number or a time.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
/// Keys where the command line says nothing.
const DEFAULT_KEYS: u64 = 100_000;

/// One measured run.
pub struct Measured {
    /// The engine's measurements.
    pub result: RunResult,
    /// The server's cost of a request, where its accounting can be read.
    pub cost: Option<Cost>,
    /// What limits the meaning of the figures.
    pub warning: Option<String>,
    /// The machine and the server, as they were before the run.
    pub environment: Environment,
}

/// The requests of the command line and the workload file, ready to make plans.
#[derive(Clone)]
pub struct Job {
    /// The command line, completed by the workload file.
    pub settings: Settings,
    /// The workload file; empty without one.
    pub file: WorkloadFile,
    /// The server.
    pub target: Target,
    /// What `-x` read: the command's last argument, as it is.
    last_argument: Option<Vec<u8>>,
    /// Its requests need the index of the tests of search.
    needs_index: bool,
}

fn read(path: &std::path::Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Applies the file's values where the command line has none.
fn apply_file(settings: &mut Settings, file: &WorkloadFile) -> Result<(), String> {
    file.check()?;
    if let Some(connections) = file.connections.filter(|_| !settings.clients_given) {
        settings.clients = connections;
    }
    settings.threads = settings.threads.or(file.threads);
    settings.pipeline = if settings.pipeline == 1 { file.pipeline.unwrap_or(1) } else { settings.pipeline };
    settings.requests = settings.requests.or(file.requests);
    settings.rate = settings.rate.or(file.rate);
    settings.poisson |= file.poisson.unwrap_or(false);
    settings.seed = settings.seed.or(file.seed);
    if settings.churn == 0 {
        settings.churn = file.churn.unwrap_or(0);
    }
    if let (None, Some(text)) = (settings.duration, &file.duration) {
        settings.duration = Some(run_time(text).map_err(|e| format!("duration: {e}"))?);
    }
    if let (true, Some(text)) = (settings.warmup.is_zero(), &file.warmup) {
        settings.warmup = duration(text).map_err(|e| format!("warmup: {e}"))?;
    }
    Ok(())
}

/// The requests of the classic tests that `-t` names: a mix of them, and the data that they need before.
fn tests(settings: &mut Settings) -> Result<Vec<String>, String> {
    let Some(names) = settings.tests.clone() else { return Ok(Vec::new()) };
    let named = !settings.templates.is_empty() || !settings.command.is_empty();
    if named || settings.workload.is_some() || settings.replay.is_some() {
        errln!("WARNING: Option -t is ignored.");
        return Ok(Vec::new());
    }
    let keys = *settings.keyspace.get_or_insert(DEFAULT_KEYS);
    let mut templates = Vec::new();
    for name in names {
        let found = classic::templates_of(&name, settings.data_bytes, settings.dimension, keys.max(1));
        if found.is_empty() {
            return Err(format!("-t {name}: there is no such test"));
        }
        templates.extend(found);
        let load = classic::load_of(&name, settings.data_bytes, settings.dimension, keys.max(1));
        settings.load.extend(load.map(String::into_bytes));
    }
    Ok(templates)
}

/// Makes redis-benchmark's `__rand_int__` a placeholder, everywhere.
fn expand(settings: &mut Settings, file: &mut WorkloadFile, keys: u64) {
    let (word, placeholder) = ("__rand_int__", format!("{{rand_int {keys}}}"));
    for text in settings.templates.iter_mut().chain(&mut settings.command).chain(&mut settings.load) {
        *text = template::replace_text(text, word, &placeholder);
    }
    let mixed = file.command.iter_mut().map(|entry| &mut entry.template);
    let steps = file.session.iter_mut().flat_map(|entry| &mut entry.steps);
    let loads = file.load.iter_mut().map(|load| &mut load.template);
    for text in mixed.chain(steps).chain(loads) {
        *text = text.replace(word, &placeholder);
    }
}

impl Job {
    /// Reads files and resolves the server.
    pub fn new(original: &Settings) -> Result<Job, String> {
        let mut settings = original.clone();
        let mut file = WorkloadFile::default();
        if let Some(path) = settings.workload.clone() {
            let text = String::from_utf8(read(&path)?).map_err(|e| format!("{}: {e}", path.display()))?;
            file = workload::parse_file(&text).map_err(|e| format!("{}: {e}", path.display()))?;
            apply_file(&mut settings, &file).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        settings.seed = Some(settings.seed.unwrap_or_else(plan::fresh_seed));
        let tests = tests(&mut settings)?;
        let named = settings.tests.iter().flatten();
        let needs_index = !tests.is_empty() && named.into_iter().any(|name| classic::needs_index(name));
        settings.templates.extend(tests.into_iter().map(String::into_bytes));
        if let Some(keys) = settings.keyspace {
            expand(&mut settings, &mut file, keys.max(1));
        }
        let last_argument = match settings.last_from_stdin && !settings.command.is_empty() {
            true => Some(classic::standard_input()?),
            false => None,
        };
        let mut target = target::resolve(&settings)?;
        if settings.cluster {
            target::spread(&mut target)?;
        }
        Ok(Job { settings, file, target, last_argument, needs_index })
    }

    fn workload(&self) -> Result<Workload, String> {
        let settings = &self.settings;
        if let Some(path) = &settings.replay {
            let speed = settings.speed.filter(|s| *s > 0.0).unwrap_or(1.0);
            let capture =
                Capture::parse(&read(path)?, speed).map_err(|e| format!("{}: {e}", path.display()))?;
            return Ok(workload::from_capture(capture));
        }
        if let Some(path) = &settings.workload {
            return workload::from_file(&self.file).map_err(|e| format!("{}: {e}", path.display()));
        }
        if !settings.templates.is_empty() {
            return workload::from_templates(&settings.templates);
        }
        if let Some(last) = &self.last_argument {
            let arguments: Vec<&[u8]> =
                settings.command.iter().map(Vec::as_slice).chain([last.as_slice()]).collect();
            let name = workload::command_name(settings.command.first().map_or(&[][..], Vec::as_slice));
            let template =
                Template::classic(&arguments, &Words { keyspace: settings.keyspace, ..Words::default() });
            return Ok(Workload::single(&name, template));
        }
        match settings.command.as_slice() {
            [] => {
                let keys = settings.keyspace.unwrap_or(DEFAULT_KEYS).max(1);
                workload::from_templates(&[format!(
                    "SET {{key uniform {keys}}} {{value {}}}",
                    settings.data_bytes
                )])
            }
            [one] => workload::from_templates(&[one]),
            words @ [first, ..] => {
                let shown = || String::from_utf8_lossy(&words.join(&b' ')).into_owned();
                let template =
                    Template::parse_words(words).map_err(|e| format!("template '{}': {e}", shown()))?;
                Ok(Workload::single(&workload::command_name(first), template))
            }
        }
    }

    /// A plan of the settings against `target`.
    pub fn plan(&self, target: &Target) -> Result<Plan, String> {
        let settings = &self.settings;
        let workload = self.workload()?;
        let mut plan = Plan::single(target.clone(), "", Template::raw(b""));
        plan.pacing = match (settings.rate, &workload.replay) {
            (Some(rate), None) => Pacing::Open { rate, poisson: settings.poisson },
            // A replay at the capture's speed is open loop with the capture's instants.
            (_, Some(capture)) if settings.speed != Some(0.0) => {
                let gap = capture.mean_gap().max(Duration::from_nanos(1));
                Pacing::Open { rate: gap.as_secs_f64().recip(), poisson: false }
            }
            _ => Pacing::Closed,
        };
        plan.requests = settings.requests.unwrap_or(0);
        plan.duration = settings.duration;
        if plan.requests == 0 && plan.duration.is_none() && workload.replay.is_none() {
            plan.duration = Some(DEFAULT_DURATION);
        }
        plan.workload = workload;
        plan.connections = settings.clients;
        plan.threads = settings.threads.unwrap_or(1).max(1);
        plan.pipeline = settings.pipeline;
        plan.warmup = settings.warmup;
        plan.reconnect_every = if settings.keep_alive { settings.churn } else { 1 };
        plan.survive_disconnects = settings.survive;
        plan.patience = settings.give_up.unwrap_or(DEFAULT_PATIENCE);
        plan.seed = settings.seed.unwrap_or(1);
        plan.cores = settings.cores.clone();
        plan.sources = settings.sources.clone();
        plan.epoll = settings.epoll;
        plan.spin = settings.spin;
        if settings.cluster {
            let single =
                plan.workload.replay.is_none() && plan.workload.units.iter().all(|u| u.steps.len() == 1);
            if !single {
                return Err(
                    "--cluster: sessions and replays stay on their connections, so they need one node".into(),
                );
            }
            plan.spread();
        }
        Ok(plan)
    }

    /// Runs the load phases against a target.
    pub fn load(&self, target: &Target) -> Result<(), String> {
        if self.needs_index {
            index::create(target, self.settings.dimension)?;
        }
        let from_options = self
            .settings
            .load
            .iter()
            .map(|t| (t.as_slice(), self.settings.keyspace.unwrap_or(DEFAULT_KEYS), 16));
        let from_file = self.file.load.iter().map(|l| (l.template.as_bytes(), l.requests, l.pipeline.max(1)));
        for (template, requests, pipeline) in from_options.chain(from_file) {
            let mut plan = self.plan(target)?;
            plan.workload = workload::from_templates(&[template])?;
            (plan.pacing, plan.duration, plan.warmup) = (Pacing::Closed, None, Duration::ZERO);
            (plan.requests, plan.pipeline, plan.stop_on_error) = (requests, pipeline, true);
            let result = engine::run(&plan, &mut engine::Silent)?;
            if let Some(reason) = result.partial {
                return Err(format!("load phase '{}': {reason}", String::from_utf8_lossy(template)));
            }
        }
        Ok(())
    }

    /// Runs a plan; the server's accounting is read when the measured time begins and when it is over.
    pub fn measure(&self, plan: &Plan, observer: &mut dyn Observer) -> Result<Measured, String> {
        let meter = Meter::new(&plan.target, self.settings.server_pid);
        let environment = meter.environment();
        let mut metering = Metering { meter: &meter, before: None, observer };
        let result = engine::run(plan, &mut metering)?;
        if result.unanswered > 0 {
            meter.give_up();
        }
        let cost =
            metering.before.zip(meter.read()).map(|(before, after)| meter.cost(before, after, &result));
        let warning = engine::warnings(plan, &result);
        Ok(Measured { result, cost, warning, environment })
    }
}

/// Reads the accounting when the measured time begins.
struct Metering<'a> {
    meter: &'a Meter,
    before: Option<Usage>,
    observer: &'a mut dyn Observer,
}

impl Observer for Metering<'_> {
    fn tick(&mut self, progress: &Progress, elapsed: Duration, recorder: &Recorder) {
        self.observer.tick(progress, elapsed, recorder);
    }

    fn measuring(&mut self) {
        self.before = self.meter.read();
        self.observer.measuring();
    }

    fn interval(&self) -> Duration {
        self.observer.interval()
    }
}

/// 0 for a whole run without errors.
pub fn exit_code(measured: &Measured) -> i32 {
    let interrupted = INTERRUPTED.load(Ordering::Relaxed);
    i32::from(interrupted || measured.result.partial.is_some() || measured.result.errors() > 0)
}
