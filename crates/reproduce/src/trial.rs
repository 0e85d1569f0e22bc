//! One row: its measurement, its cost, and the load that most rows are.

use crate::rows::Values;
use crate::scale::{Cost, Scale};
use crate::servers::{Contender, NOTHING_KEPT, Running};
use martlet_bench::engine::{INTERRUPTED, Observer, Progress, Recorder};
use martlet_bench::job::{Job, Measured};
use martlet_bench::workload::LoadPhase;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Pipeline of the loading before a row.
const FILL_PIPELINE: usize = 64;

type Run = Box<dyn Fn(&mut Lab<'_>) -> Result<Values, String>>;

/// One row of an experiment, for each server that it fits.
pub struct Trial {
    /// Its name within the experiment.
    pub name: String,
    pub cost: Cost,
    /// It needs a server started with its own options.
    pub needs_start: bool,
    /// It is measured against the null responder, too.
    pub with_null: bool,
    pub run: Run,
}

impl Trial {
    /// A row that starts its servers itself; `fixed_s` is the time for that.
    pub fn starting(
        name: impl Into<String>,
        cost: Cost,
        run: impl Fn(&mut Lab<'_>) -> Result<Values, String> + 'static,
    ) -> Trial {
        Trial { name: name.into(), cost, needs_start: true, with_null: false, run: Box::new(run) }
    }

    /// A row on a server that keeps nothing and is empty at first.
    pub fn plain(
        name: impl Into<String>,
        cost: Cost,
        run: impl Fn(&Lab<'_>, &Running) -> Result<Values, String> + 'static,
    ) -> Trial {
        Trial {
            needs_start: false,
            ..Trial::starting(name, cost, move |lab| {
                let server = lab.take_plain()?;
                let values = run(lab, &server);
                lab.give_back(server);
                values
            })
        }
    }

    /// A load on such a server.
    pub fn load(name: impl Into<String>, load: Load) -> Trial {
        Trial::plain(name, load.cost(), move |lab, server| load.measure(lab, server))
    }

    /// Whether it can be measured with this server.
    pub fn fits(&self, contender: &Contender) -> bool {
        match contender {
            Contender::Command { .. } => true,
            Contender::Address { .. } => !self.needs_start,
            Contender::Null { .. } => self.with_null,
        }
    }
}

/// Where rows are measured: one server, and its process that several rows share.
pub struct Lab<'a> {
    pub contender: &'a Contender,
    pub scale: Scale,
    pub seed: u64,
    plain: Option<Running>,
}

impl<'a> Lab<'a> {
    /// One in which nothing runs yet.
    pub fn new(contender: &'a Contender, scale: Scale, seed: u64) -> Lab<'a> {
        Lab { contender, scale, seed, plain: None }
    }

    /// Starts the server with these options; it ends with the value.
    pub fn start(&self, options: &[&str]) -> Result<Running, String> {
        self.contender.start(options)
    }

    /// The command line of a server that is started here.
    pub fn line(&self) -> Result<&str, String> {
        match self.contender {
            Contender::Command { line, .. } => Ok(line),
            other => Err(format!("{} is not started by this run", other.name())),
        }
    }

    /// The server that keeps nothing; it is empty.
    fn take_plain(&mut self) -> Result<Running, String> {
        let server = match self.plain.take() {
            Some(server) => server,
            None => self.start(&NOTHING_KEPT)?,
        };
        if !matches!(self.contender, Contender::Null { .. }) {
            server.command(&["FLUSHALL"])?;
        }
        Ok(server)
    }

    /// Keeps it for the next row; one that is not ours is left empty.
    fn give_back(&mut self, server: Running) {
        let is_well = match self.contender {
            Contender::Null { .. } => true,
            _ => server.command(&["FLUSHALL"]).is_ok(),
        };
        self.plain = is_well.then_some(server);
    }
}

/// A load: requests from templates, the data loaded before, the number of clients.
#[derive(Clone, Debug)]
pub struct Load {
    pub templates: Vec<String>,
    /// Templates that load the data, each with its number of requests.
    pub fill: Vec<(String, u64)>,
    pub clients: u64,
    pub threads: usize,
    pub pipeline: usize,
    /// It ends after this number of requests, if that is before its time.
    pub requests: Option<u64>,
    /// Its time.
    pub units: f64,
    /// Its time if that is longer.
    pub least: Duration,
    /// By the unix socket.
    pub by_socket: bool,
}

impl Load {
    /// One request over 50 connections, without a pipeline, for one unit.
    pub fn of(template: impl Into<String>) -> Load {
        Load::mix(vec![template.into()])
    }

    /// The same with several requests.
    pub fn mix(templates: Vec<String>) -> Load {
        Load {
            templates,
            fill: Vec::new(),
            clients: 50,
            threads: 1,
            pipeline: 1,
            requests: None,
            units: 1.0,
            least: Duration::ZERO,
            by_socket: false,
        }
    }

    pub fn clients(self, clients: u64) -> Load {
        Load { clients, ..self }
    }

    pub fn pipeline(self, pipeline: usize) -> Load {
        Load { pipeline, ..self }
    }

    pub fn units(self, units: f64) -> Load {
        Load { units, ..self }
    }

    /// It takes this time where its units are shorter.
    pub fn at_least(self, least: Duration) -> Load {
        Load { least, ..self }
    }

    /// It ends after this number of requests, or its time.
    pub fn at_most(self, requests: u64) -> Load {
        Load { requests: Some(requests), ..self }
    }

    pub fn by_socket(self) -> Load {
        Load { by_socket: true, ..self }
    }

    pub fn filled(mut self, template: impl Into<String>, requests: u64) -> Load {
        self.fill.push((template.into(), requests));
        self
    }

    /// Its planned cost.
    pub fn cost(&self) -> Cost {
        let filled = self.fill.iter().map(|(_, requests)| requests).sum();
        Cost { units: self.units, requests: filled, fixed_s: self.least.as_secs_f64() }
    }

    /// Loads and measures.
    pub fn measure(&self, lab: &Lab<'_>, server: &Running) -> Result<Values, String> {
        self.measure_beside(lab, server, &mut Beside::default())
    }

    /// The same, with something done during the load.
    pub fn measure_beside(
        &self,
        lab: &Lab<'_>,
        server: &Running,
        beside: &mut Beside<'_>,
    ) -> Result<Values, String> {
        let mut settings = server.settings.clone();
        if self.by_socket {
            settings.socket = Some(server.socket().ok_or("the server has no unix socket")?);
        }
        settings.templates = self.templates.iter().map(|text| text.as_bytes().to_vec()).collect();
        (settings.clients, settings.threads) = (self.clients as usize, Some(self.threads));
        (settings.pipeline, settings.requests) = (self.pipeline, self.requests);
        settings.seed = Some(lab.seed);
        if self.units > 0.0 {
            settings.duration = Some(lab.scale.unit.mul_f64(self.units).max(self.least));
        }
        let mut job = Job::new(&settings)?;
        let phase = |(template, requests): &(String, u64)| LoadPhase {
            template: template.clone(),
            requests: *requests,
            pipeline: FILL_PIPELINE,
        };
        job.file.load = self.fill.iter().map(phase).collect();
        job.load(&job.target)?;
        let plan = job.plan(&job.target)?;
        let measured = job.measure(&plan, beside)?;
        if INTERRUPTED.load(Ordering::Relaxed) {
            return Err("interrupted".into());
        }
        // Error replies make a run partial, too.
        match &measured.result.partial {
            Some(reason) => Err(reason.clone()),
            None => Ok(values(&measured)),
        }
    }
}

/// The work beside a load.
#[derive(Default)]
pub struct Beside<'a> {
    /// When the measured time begins.
    pub at_start: Option<Box<dyn FnMut() + 'a>>,
    /// Now and then; its argument is the time since.
    pub at_tick: Option<Box<dyn FnMut(Duration) + 'a>>,
    /// Time between two such calls; a quarter of a second unless it is set.
    pub interval: Option<Duration>,
}

impl Observer for Beside<'_> {
    fn tick(&mut self, _: &Progress, elapsed: Duration, _: &Recorder) {
        if let Some(at_tick) = &mut self.at_tick {
            at_tick(elapsed);
        }
    }

    fn measuring(&mut self) {
        if let Some(at_start) = &mut self.at_start {
            at_start();
        }
    }

    fn interval(&self) -> Duration {
        self.interval.unwrap_or(Duration::from_millis(250))
    }
}

/// The figures of a run.
fn values(measured: &Measured) -> Values {
    let (result, all) = (&measured.result, measured.result.all_latencies());
    let seconds = result.elapsed.as_secs_f64();
    let mut values = Values::from([
        ("rate".to_string(), result.rate()),
        ("requests".into(), result.requests() as f64),
        ("seconds".into(), seconds),
        ("avg_ms".into(), all.mean_ms()),
        ("p50_ms".into(), all.percentile_ms(50.0)),
        ("p99_ms".into(), all.percentile_ms(99.0)),
        ("sent_mb_s".into(), result.sent_bytes as f64 / 1e6 / seconds.max(1e-9)),
    ]);
    if let Some(cost) = measured.cost {
        values.extend([
            ("cpu_us".to_string(), cost.user_us + cost.system_us),
            ("system_us".into(), cost.system_us),
            ("cores".into(), cost.cores),
            ("client_us".into(), cost.client_us),
        ]);
    }
    if result.commands.len() > 1 {
        let rate = |count: u64| count as f64 / seconds.max(1e-9);
        let each = result.commands.iter().map(|c| (format!("rate {}", c.name), rate(c.in_time())));
        values.extend(each);
    }
    values
}
