//! Runs that redis-benchmark does not know: mixes, sessions, replay, open loop, comparisons, sweeps, targets.

use crate::cli::options::{Settings, duration};
use crate::cli::target;
use crate::cost::{Cost, Meter};
use crate::engine::{self, INTERRUPTED, Observer, RunResult};
use crate::live::{Line, Live};
use crate::plan::{Pacing, Plan, Target, Workload};
use crate::replay::Capture;
use crate::report::Report;
use crate::workload::{self, WorkloadFile};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Runs without a number or a time last so long.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// One measured run.
pub struct Measured {
    pub result: RunResult,
    pub cost: Option<Cost>,
    pub warning: Option<String>,
}

/// What the command line and the workload file ask for, ready to make plans.
pub struct Job<'a> {
    pub settings: Settings,
    pub file: WorkloadFile,
    pub target: Target,
    pub original: &'a Settings,
}

fn read(path: &std::path::Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}

impl<'a> Job<'a> {
    /// Reads files and resolves the server.
    pub fn new(original: &'a Settings) -> Result<Job<'a>, String> {
        let mut settings = original.clone();
        let mut file = WorkloadFile::default();
        if let Some(path) = &settings.workload {
            let text = String::from_utf8_lossy(&read(path)?).into_owned();
            file = workload::parse_file(&text).map_err(|e| format!("{}: {e}", path.display()))?;
            // What the file says holds where the command line says nothing.
            if let Some(connections) = file.connections.filter(|_| !settings.clients_given) {
                settings.clients = connections;
            }
            settings.threads = settings.threads.or(file.threads);
            settings.pipeline =
                if settings.pipeline == 1 { file.pipeline.unwrap_or(1) } else { settings.pipeline };
            settings.requests = settings.requests.or(file.requests);
            settings.rate = settings.rate.or(file.rate);
            settings.poisson |= file.poisson.unwrap_or(false);
            settings.seed = settings.seed.or(file.seed);
            if settings.churn == 0 {
                settings.churn = file.churn.unwrap_or(0);
            }
            if let (None, Some(text)) = (settings.duration, &file.duration) {
                settings.duration = Some(duration(text)?);
            }
            if let (true, Some(text)) = (settings.warmup.is_zero(), &file.warmup) {
                settings.warmup = duration(text)?;
            }
        }
        if settings.clients == 0 || settings.pipeline == 0 {
            return Err("connections and pipeline must be above 0".into());
        }
        settings.seed = Some(settings.seed.unwrap_or_else(crate::run::fresh_seed));
        let mut target = target::resolve(&settings)?;
        if settings.cluster {
            target::spread(&mut target)?;
        }
        Ok(Job { settings, file, target, original })
    }

    fn workload(&self) -> Result<Workload, String> {
        let settings = &self.settings;
        if let Some(path) = &settings.replay {
            let speed = settings.speed.filter(|s| *s > 0.0).unwrap_or(1.0);
            let capture =
                Capture::parse(&read(path)?, speed).map_err(|e| format!("{}: {e}", path.display()))?;
            return Ok(workload::from_capture(capture));
        }
        if settings.workload.is_some() {
            return workload::from_file(&self.file);
        }
        if !settings.templates.is_empty() {
            return workload::from_templates(&settings.templates);
        }
        let text = match settings.command.as_slice() {
            [] => {
                let named = settings.tests.clone().unwrap_or_else(|| vec!["set".into()]);
                let templates: Result<Vec<String>, String> =
                    named.iter().map(|name| self.test(name)).collect();
                return workload::from_templates(&templates?);
            }
            [one] => one.clone(),
            words => words
                .iter()
                .map(|w| if w.contains(' ') && !w.contains('{') { format!("\"{w}\"") } else { w.clone() })
                .collect::<Vec<_>>()
                .join(" "),
        };
        workload::from_templates(&[text])
    }

    /// The request of one of the classic tests; several make a mix.
    fn test(&self, name: &str) -> Result<String, String> {
        let keys = self.settings.keyspace.unwrap_or(100_000).max(1);
        Ok(match name {
            "set" => format!("SET {{key uniform {keys}}} {{value {}}}", self.settings.data_bytes),
            "get" => format!("GET {{key uniform {keys}}}"),
            "incr" => format!("INCR {{key uniform {keys}}}"),
            "ping" | "ping_mbulk" => "PING".into(),
            other => {
                return Err(format!(
                    "-t {other}: give the request itself, as --command 'GET {{key uniform 1000}}'"
                ));
            }
        })
    }

    /// A plan of the settings against `target`.
    pub fn plan(&self, target: &Target) -> Result<Plan, String> {
        let settings = &self.settings;
        let workload = self.workload()?;
        let mut plan = Plan::single(target.clone(), "", crate::template::Template::raw(b""));
        plan.pacing = match (settings.rate, &workload.replay) {
            (Some(rate), None) => Pacing::Open { rate, poisson: settings.poisson },
            // A replay at the capture's speed is open loop with instants of its own.
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
        let from_options =
            self.settings.load.iter().map(|t| (t.as_str(), self.settings.keyspace.unwrap_or(100_000), 16));
        let from_file = self.file.load.iter().map(|l| (l.template.as_str(), l.requests, l.pipeline.max(1)));
        for (template, requests, pipeline) in from_options.chain(from_file) {
            let mut plan = self.plan(target)?;
            plan.workload = workload::from_templates(&[template.to_string()])?;
            (plan.pacing, plan.duration, plan.warmup) = (Pacing::Closed, None, Duration::ZERO);
            (plan.requests, plan.pipeline, plan.stop_on_error) = (requests, pipeline, true);
            let result = engine::run(&plan, &mut engine::Silent)?;
            if let Some(reason) = result.partial {
                return Err(format!("load phase '{template}': {reason}"));
            }
        }
        Ok(())
    }

    /// Runs a plan between two readings of the server's accounting.
    pub fn measure(&self, plan: &Plan, observer: &mut dyn Observer) -> Result<Measured, String> {
        let meter = Meter::new(&plan.target, self.settings.server_pid);
        let before = meter.read();
        let result = engine::run(plan, observer)?;
        let cost = before.zip(meter.read()).map(|(before, after)| meter.cost(before, after, &result));
        let warning = engine::client_limit(plan, &result);
        Ok(Measured { result, cost, warning })
    }
}

/// Runs what the settings ask for; gives the exit code.
pub fn main(settings: &Settings) -> i32 {
    match dispatch(settings) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

fn dispatch(settings: &Settings) -> Result<i32, String> {
    let job = Job::new(settings)?;
    if settings.hot_key {
        return crate::check::hot_key(&job);
    }
    if settings.verify {
        return crate::check::verify(&job);
    }
    if settings.vs.is_some() || settings.vs_start.is_some() {
        return crate::compare::main(&job);
    }
    if !settings.sweeps.is_empty() {
        return crate::explore::sweep(&job);
    }
    if !settings.slo.is_empty() {
        return crate::explore::slo(&job);
    }
    let plan = job.plan(&job.target)?;
    job.load(&job.target)?;
    let measured = match settings.live.then(|| Live::start(&plan)).flatten() {
        Some(mut screen) => job.measure(&plan, &mut screen)?,
        None => job.measure(&plan, &mut Line::new("", &plan))?,
    };
    let report = Report::of(&job, &plan, &measured);
    print!("{}", report.text());
    report.write_files(&job.settings)?;
    Ok(exit_code(&measured))
}

/// 0 for a whole run without errors.
pub fn exit_code(measured: &Measured) -> i32 {
    let interrupted = INTERRUPTED.load(Ordering::Relaxed);
    i32::from(interrupted || measured.result.partial.is_some() || measured.result.errors() > 0)
}
