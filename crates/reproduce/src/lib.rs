//! `martlet bench reproduce`: the experiments of five published reports on one machine, one row after the
//! other, each against every server in turn, and two pages of the results.
//!
//! Invariant: every figure on the pages is a measured row of the run's file, or marked as the source's own.

mod claims;
mod experiment;
mod markdown;
mod options;
mod page;
mod progress;
mod r1;
mod r2;
mod r3;
mod r4;
mod r5;
mod reports;
mod rows;
mod scale;
mod servers;
mod trial;

use experiment::Experiment;
use martlet_bench::engine::INTERRUPTED;
use martlet_bench::report::html;
use martlet_bench::{errln, outln, output};
use options::Asked;
use page::{Page, View};
use progress::Progress;
use reports::EXPERIMENTS;
use rows::{Journal, Row, Rows, Setup};
use scale::Scale;
use servers::Contender;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use trial::{Lab, Trial};

const ROWS_FILE: &str = "rows.jsonl";
const HTML_TEMPLATE: &str = include_str!("experiments.html");
const HTML_FILE: &str = "experiments.html";
const MARKDOWN_FILE: &str = "experiments.md";
/// How often a row is tried: on a busy machine a short one may see no reply in its time.
const TRIES: usize = 3;

/// Runs or resumes; gives the exit code: 0 when every row was measured.
pub fn main(arguments: &[OsString]) -> i32 {
    martlet_bench::cli::prepare();
    output::exit_code(reproduce(arguments))
}

fn reproduce(arguments: &[OsString]) -> i32 {
    let parsed = martlet_bench::cli::as_texts(arguments).and_then(|arguments| options::parse(&arguments));
    let asked = match parsed {
        Ok(Some(asked)) => asked,
        Ok(None) => {
            outln!("{}", options::HELP);
            return 0;
        }
        Err(error) => {
            errln!("{error}\n\n{}", options::HELP);
            return 1;
        }
    };
    match run(&asked) {
        Ok(is_whole) => i32::from(!is_whole),
        Err(error) => {
            errln!("{error}");
            1
        }
    }
}

/// A run: its options, its rows, and the files that it writes.
struct Session {
    setup: Setup,
    contenders: Vec<Contender>,
    rows: Rows,
    journal: Journal,
}

impl Session {
    /// Begins a run in a directory, or continues the one that is there.
    fn open(asked: &Asked) -> Result<Session, String> {
        let path = asked.output.join(ROWS_FILE);
        if path.exists() {
            let (journal, setup, rows) = Journal::open(&path)?;
            asked.check_same(&setup).map_err(|error| format!("{}: {error}", path.display()))?;
            let contenders = options::contenders_of(&setup)?;
            outln!("{}: going on after {} rows", path.display(), rows.measured().count());
            return Ok(Session { setup, contenders, rows, journal });
        }
        if asked.must_exist {
            return Err(format!("{} is not there: no run to continue", path.display()));
        }
        let contenders = asked.contenders()?;
        let setup = options::setup(asked, &contenders)?;
        std::fs::create_dir_all(&asked.output).map_err(|e| format!("{}: {e}", asked.output.display()))?;
        let journal = Journal::create(&path, &setup)?;
        Ok(Session { setup, contenders, rows: Rows::default(), journal })
    }

    fn scale(&self) -> Scale {
        let budget = Duration::from_secs_f64(self.setup.budget_s);
        Scale {
            unit: Duration::from_secs_f64(self.setup.unit_s),
            share: self.setup.share,
            ..Scale::of(budget, 0, self.setup.connections_most)
        }
    }

    fn experiments(&self) -> impl Iterator<Item = &'static Experiment> {
        EXPERIMENTS.iter().filter(|experiment| self.setup.experiments.iter().any(|id| id == experiment.id))
    }

    fn is_measured(&self, experiment: &str, trial: &str, server: &str) -> bool {
        self.rows.find(experiment, trial, server).is_some_and(|row| row.failed.is_none())
    }

    /// Measures what an experiment still lacks.
    fn measure(&mut self, experiment: &Experiment, progress: &mut Progress) -> Result<(), String> {
        let (scale, seed) = (self.scale(), self.setup.seed);
        let contenders = self.contenders.clone();
        let mut labs: Vec<Lab<'_>> = contenders.iter().map(|one| Lab::new(one, scale, seed)).collect();
        for trial in (experiment.trials)(&scale) {
            for lab in labs.iter_mut().filter(|lab| trial.fits(lab.contender)) {
                let server = lab.contender.name().to_string();
                if self.is_measured(experiment.id, &trial.name, &server) {
                    continue;
                }
                progress.begin(experiment.id, &trial.name, &server);
                let began = Instant::now();
                let result = tried(&trial, lab);
                if INTERRUPTED.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let (values, failed) = match result {
                    Ok(values) => (values, None),
                    Err(error) => (rows::Values::default(), Some(error)),
                };
                let took_s = began.elapsed().as_secs_f64();
                let row = Row {
                    experiment: experiment.id.into(),
                    trial: trial.name.clone(),
                    server,
                    took_s,
                    values,
                    failed,
                };
                self.journal.write(&row)?;
                progress.done(&row, trial.cost.seconds(scale.unit));
                self.rows.add(row);
            }
        }
        Ok(())
    }

    /// Seconds that the rows which are missing are planned to take, and their number.
    fn planned(&self) -> (f64, usize) {
        let scale = self.scale();
        let mut planned = (0.0, 0);
        for experiment in self.experiments() {
            for trial in (experiment.trials)(&scale) {
                let fitting = self.contenders.iter().filter(|one| trial.fits(one));
                for _ in fitting.filter(|one| !self.is_measured(experiment.id, &trial.name, one.name())) {
                    planned = (planned.0 + trial.cost.seconds(scale.unit), planned.1 + 1);
                }
            }
        }
        planned
    }

    /// The report of what there is.
    fn page(&self) -> Page {
        let scale = self.scale();
        let sections = self.experiments().map(|experiment| {
            let view = View::of(&self.rows, &self.setup, experiment.id, scale);
            let mut section = (experiment.section)(&view);
            (section.id, section.title) = (experiment.id.into(), experiment.title.into());
            section.source = experiment.source.into();
            section
        });
        let failure = |row: &Row| {
            let why = row.failed.as_deref().unwrap_or_default();
            format!("{} {}, {}: {why}", row.experiment, row.trial, row.server)
        };
        let (_, missing) = self.planned();
        let failed = self.rows.failed().count();
        Page {
            title: "Five reports, measured again".into(),
            about: about(&self.setup, &scale, &self.rows),
            partial: (missing > 0).then(|| format!("{missing} rows are missing, {failed} of them failed")),
            sections: sections.collect(),
            failures: self.rows.failed().map(failure).collect(),
            servers: self
                .setup
                .servers
                .iter()
                .map(|server| server.name.clone())
                .filter(|name| name != servers::NULL)
                .collect(),
        }
    }

    fn write_pages(&self, directory: &Path) -> Result<(), String> {
        let page = self.page();
        let write = |name: &str, text: String| {
            let path = directory.join(name);
            std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
        };
        write(HTML_FILE, html_page(&page)?)?;
        write(MARKDOWN_FILE, markdown::page(&page))
    }
}

/// The page for a browser.
fn html_page(page: &Page) -> Result<String, String> {
    let value = serde_json::to_value(page).map_err(|error| error.to_string())?;
    Ok(html::assembled(HTML_TEMPLATE, &value))
}

/// Measures a row; one that fails is tried again, unless the run has been interrupted.
fn tried(trial: &Trial, lab: &mut Lab<'_>) -> Result<rows::Values, String> {
    let mut result = (trial.run)(lab);
    for _ in 1..TRIES {
        if result.is_ok() || INTERRUPTED.load(Ordering::Relaxed) {
            break;
        }
        result = (trial.run)(lab);
    }
    result
}

/// Paragraphs on the machine, the servers and the scale.
fn about(setup: &Setup, scale: &Scale, rows: &Rows) -> Vec<String> {
    let machine = &setup.machine;
    let took: f64 = rows.measured().chain(rows.failed()).map(|row| row.took_s).sum();
    let number = claims::number;
    let mut about = vec![format!(
        "Machine: {} × {}, Linux {}, {} GB of memory. {}, seed {}. {} rows in {} minutes; {} were asked for.",
        machine.cores,
        machine.cpu,
        machine.kernel,
        number(machine.memory_bytes as f64 / 1e9),
        setup.tool,
        setup.seed,
        rows.measured().count(),
        number(took / 60.0),
        number(setup.budget_s / 60.0),
    )];
    let servers = setup.servers.iter().filter(|server| server.name != servers::NULL);
    let servers: Vec<String> = servers
        .map(|server| {
            format!("{}: {}, `{}`", server.name, server.version, options::without_folder(&server.how))
        })
        .collect();
    about.push(format!("Servers: {}.", servers.join("; ")));
    about.push(format!(
        "Scale: a timed row measures {} s; numbers of keys and requests are {} % of the full size that 30 minutes have. \
         Client and servers share this machine, over its loopback device.",
        number(scale.unit.as_secs_f64()),
        number(scale.share * 100.0)
    ));
    about.push(
        "Columns named “source” are the reports' own figures, on their hardware; all others are measured rows. A claim is \
         judged by a figure computed from rows, for each server; “limit” is the figure that a better server \
         breaks."
            .into(),
    );
    about
}

fn run(asked: &Asked) -> Result<bool, String> {
    let mut session = Session::open(asked)?;
    let (planned_s, rows) = session.planned();
    let mut progress = Progress::new(planned_s, rows);
    let experiments: Vec<&Experiment> = session.experiments().collect();
    for experiment in experiments {
        session.measure(experiment, &mut progress)?;
        // What ends the run later leaves these.
        session.write_pages(&asked.output)?;
        if INTERRUPTED.load(Ordering::Relaxed) {
            break;
        }
    }
    session.write_pages(&asked.output)?;
    drop(progress);
    let directory = asked.output.display();
    outln!("{directory}/{HTML_FILE}\n{directory}/{MARKDOWN_FILE}");
    let (_, missing) = session.planned();
    if INTERRUPTED.load(Ordering::Relaxed) {
        outln!("interrupted with {missing} rows to go: martlet bench reproduce --resume {directory}");
    }
    for row in session.rows.failed() {
        let why = row.failed.as_deref().unwrap_or_default();
        outln!("FAILED {} {}, {}: {why}", row.experiment, row.trial, row.server);
    }
    Ok(missing == 0)
}
