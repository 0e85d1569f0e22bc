//! The command line of `martlet bench reproduce`, and the sizes that it derives from this machine.

use crate::reports::EXPERIMENTS;
use crate::rows::{Machine, SCHEMA, ServerSetup, Setup};
use crate::scale::Cost;
use crate::scale::{FULL_BUDGET, QUICK_BUDGET, Scale, connections_most, memory};
use crate::servers::{Contender, NOTHING_KEPT};
use martlet_bench::cli::options::run_time;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const HELP: &str = "\
Usage: martlet bench reproduce [OPTIONS]

Measures the experiments of five published reports on Redis again, R1 to R5, against this program's own server and
others, and writes experiments.html and experiments.md: the source's tables beside what was measured, plots, and each
claim with its verdict. What one machine cannot show is named with the reason.

  --output DIR         Where the pages and the rows go (default: reproduce). A run that is there already goes on
  --resume DIR         The same, where a run must be there; its options hold
  --quick              In some 3 minutes instead of 30: smaller, and less certain
  --budget TIME        In some other time, as 10m
  --only LIST          Some experiments, as R1,R4
  --server COMMAND     The server to measure instead of this program's own, as 'martlet server --io-threads 1'
  --vs-start COMMAND   Another server, started for it, as redis-server; may be given several times
  --vs HOST:PORT       Another server, which runs already and is empty: it is emptied again and again, and left empty
  --seed N             Seed of all random choices
  --help               This text

Ctrl-C keeps what is done. Each row is a line of rows.jsonl, so that only the row under way is lost.";

/// The options of a command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    pub output: PathBuf,
    /// The run must exist already; its options hold.
    pub must_exist: bool,
    pub budget: Option<Duration>,
    pub only: Vec<String>,
    pub server: Option<String>,
    pub starts: Vec<String>,
    pub addresses: Vec<(String, u16)>,
    pub seed: Option<u64>,
}

/// Reads a command line; `None` if it asks for help.
pub fn parse(arguments: &[String]) -> Result<Option<Asked>, String> {
    let mut asked = Asked { output: "reproduce".into(), ..Asked::default() };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().cloned().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "--output" => asked.output = value()?.into(),
            "--resume" => (asked.output, asked.must_exist) = (value()?.into(), true),
            "--quick" => asked.budget = Some(QUICK_BUDGET),
            "--budget" => {
                asked.budget = Some(run_time(&value()?).map_err(|error| format!("--budget: {error}"))?);
            }
            "--only" => asked.only = experiments(&value()?)?,
            "--server" => asked.server = Some(value()?),
            "--vs-start" => asked.starts.push(value()?),
            "--vs" => asked.addresses.push(address(&value()?)?),
            "--seed" => {
                let text = value()?;
                let seed = text.parse().map_err(|_| format!("--seed: '{text}' is not a number"))?;
                asked.seed = Some(seed);
            }
            other => return Err(format!("unknown option '{other}'")),
        }
    }
    if asked.must_exist
        && asked != (Asked { output: asked.output.clone(), must_exist: true, ..Asked::default() })
    {
        return Err("--resume takes the options of the earlier run: give no others".into());
    }
    Ok(Some(asked))
}

fn experiments(list: &str) -> Result<Vec<String>, String> {
    let named: Vec<String> = list.split(',').map(str::to_uppercase).collect();
    let known = EXPERIMENTS.map(|experiment| experiment.id);
    match named.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(format!("--only: '{name}' is not one of {}", known.join(", "))),
        None => Ok(known
            .iter()
            .filter(|id| named.iter().any(|name| name == *id))
            .map(|id| (*id).into())
            .collect()),
    }
}

fn address(text: &str) -> Result<(String, u16), String> {
    let parsed = text.rsplit_once(':').and_then(|(host, port)| Some((host.to_string(), port.parse().ok()?)));
    parsed.filter(|(host, _)| !host.is_empty()).ok_or(format!("--vs: '{text}' is not HOST:PORT"))
}

impl Asked {
    /// The servers, ours first, and the null responder last.
    pub fn contenders(&self) -> Result<Vec<Contender>, String> {
        let program = std::env::current_exe().map_err(|e| format!("this program cannot be found: {e}"))?;
        let own = self.server.clone().unwrap_or(format!("{} server", program.display()));
        let mut contenders = Vec::new();
        for line in [own].iter().chain(&self.starts) {
            let name = unused(&contenders, program_name(line));
            contenders.push(Contender::Command { name, line: line.clone() });
        }
        for (host, port) in &self.addresses {
            let name = unused(&contenders, format!("{host}:{port}"));
            contenders.push(Contender::Address { name, host: host.clone(), port: *port });
        }
        contenders.push(Contender::Null { line: format!("{} bench null", program.display()) });
        Ok(contenders)
    }

    /// Whether a run in the output directory is the one that is asked for.
    pub fn check_same(&self, setup: &Setup) -> Result<(), String> {
        if self.must_exist {
            return Ok(());
        }
        let budget = self.budget.unwrap_or(FULL_BUDGET).as_secs_f64();
        let servers: Vec<String> = self.contenders()?.iter().map(Contender::how).collect();
        let others: Vec<&String> = setup.servers.iter().map(|server| &server.how).collect();
        let different = [
            (budget != setup.budget_s, "its time"),
            (self.experiments() != setup.experiments, "its experiments"),
            (servers.iter().collect::<Vec<_>>() != others, "its servers"),
            (self.seed.is_some_and(|seed| seed != setup.seed), "its seed"),
        ];
        match different.into_iter().find(|(is_different, _)| *is_different) {
            Some((_, what)) => Err(format!(
                "a run with other options is there ({what}): continue it with --resume, or name another --output"
            )),
            None => Ok(()),
        }
    }

    fn experiments(&self) -> Vec<String> {
        match self.only.as_slice() {
            [] => EXPERIMENTS.iter().map(|experiment| experiment.id.to_string()).collect(),
            some => some.to_vec(),
        }
    }
}

/// The servers of a run that is continued.
pub fn contenders_of(setup: &Setup) -> Result<Vec<Contender>, String> {
    let contender = |server: &ServerSetup| {
        let (name, line) = (server.name.clone(), server.how.clone());
        match server.kind.as_str() {
            "started" => Ok(Contender::Command { name, line }),
            "null" => Ok(Contender::Null { line }),
            _ => address(&line).map(|(host, port)| Contender::Address { name, host, port }),
        }
    };
    setup.servers.iter().map(contender).collect()
}

/// Asks every server for its name and version, and fixes the sizes of the run.
pub fn setup(asked: &Asked, contenders: &[Contender]) -> Result<Setup, String> {
    let budget = asked.budget.unwrap_or(FULL_BUDGET);
    let (memory_bytes, available_bytes) = memory();
    let mut scale = Scale::of(budget, available_bytes, connections_most());
    let experiments = asked.experiments();
    let chosen = EXPERIMENTS.iter().filter(|experiment| experiments.iter().any(|id| id == experiment.id));
    let costs: Vec<Cost> = chosen
        .flat_map(|experiment| (experiment.trials)(&scale))
        .flat_map(|trial| vec![trial.cost; contenders.iter().filter(|one| trial.fits(one)).count()])
        .collect();
    scale.unit = Scale::unit_for(budget, &costs);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let (kernel, cpu, cores) = martlet_bench::environment::machine();
    Ok(Setup {
        schema: SCHEMA,
        tool: martlet_bench::report::tool(),
        time_unix_s: now.as_secs(),
        budget_s: budget.as_secs_f64(),
        unit_s: scale.unit.as_secs_f64(),
        share: scale.share,
        connections_most: scale.connections_most,
        seed: asked.seed.unwrap_or_else(martlet_bench::plan::fresh_seed),
        experiments,
        servers: contenders.iter().map(server_setup).collect::<Result<_, _>>()?,
        machine: Machine { kernel, cpu, cores, memory_bytes },
    })
}

fn server_setup(contender: &Contender) -> Result<ServerSetup, String> {
    let name = contender.name().to_string();
    let kind = match contender {
        Contender::Command { .. } => "started",
        Contender::Address { .. } => "address",
        Contender::Null { .. } => "null",
    };
    let mut version = String::new();
    if !matches!(contender, Contender::Null { .. }) {
        let running = contender.start(&NOTHING_KEPT)?;
        let keys = running.number(&["DBSIZE"])?;
        if keys > 0.0 {
            return Err(format!("{name} holds {keys} keys and would be emptied: it must be empty"));
        }
        let info = running.control()?.text(&["INFO"]).map_err(|e| e.to_string())?.unwrap_or_default();
        version = martlet_bench::environment::server_name(&info);
    }
    Ok(ServerSetup { name, version, kind: kind.into(), how: contender.how() })
}

fn program_name(line: &str) -> String {
    let program = line.split_whitespace().next().unwrap_or(line);
    let name = Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| program.to_string())
}

/// A command line as a report shows it: where the program stands is this machine's affair.
pub fn without_folder(line: &str) -> String {
    let rest = line.split_once(' ').map(|(_, rest)| format!(" {rest}")).unwrap_or_default();
    program_name(line) + &rest
}

/// The name, with a number if it is taken.
fn unused(contenders: &[Contender], name: String) -> String {
    let is_taken = |name: &str| contenders.iter().any(|one| one.name() == name);
    let numbered = (2..).map(|number| format!("{name} ({number})"));
    std::iter::once(name.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<Asked>, String> {
        parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    fn asked(line: &str) -> Asked {
        parsed(line).expect("valid").expect("a run")
    }

    #[test]
    fn options_are_read_and_bad_ones_named() {
        let all = asked("--quick --only r4,R1 --vs-start redis-server --vs host:7 --output out --seed 5");
        assert_eq!((all.budget, all.only.join(" ")), (Some(QUICK_BUDGET), "R1 R4".into()));
        assert_eq!((all.starts.len(), all.addresses), (1, vec![("host".to_string(), 7)]));
        assert_eq!((all.output, all.seed, all.must_exist), (PathBuf::from("out"), Some(5), false));
        assert!(parsed("--help").expect("valid").is_none());
        for (line, error) in [
            ("--only R9", "'R9' is not one of R1, R2, R3, R4, R5"),
            ("--vs nowhere", "'nowhere' is not HOST:PORT"),
            ("--budget 0", "--budget: '0' leaves no time"),
            ("--output", "--output needs a value"),
            ("--nope", "unknown option '--nope'"),
            ("--resume out --quick", "--resume takes the options of the earlier run"),
        ] {
            let found = parsed(line).expect_err(line);
            assert!(found.contains(error), "{found}");
        }
    }

    #[test]
    fn servers_of_one_name_are_told_apart() {
        let asked = asked("--server /opt/martlet --vs-start martlet --vs-start redis-server");
        let contenders = asked.contenders().expect("servers");
        let names: Vec<&str> = contenders.iter().map(Contender::name).collect();
        assert_eq!(names, ["martlet", "martlet (2)", "redis-server", crate::servers::NULL]);
        assert_eq!(without_folder("/opt/a/martlet server --x 1"), "martlet server --x 1");
    }

    #[test]
    fn a_run_goes_on_only_on_its_own_terms() {
        let first = asked("--quick --server a --vs host:7");
        let server = |contender: &Contender| ServerSetup { how: contender.how(), ..ServerSetup::default() };
        let setup = Setup {
            budget_s: QUICK_BUDGET.as_secs_f64(),
            experiments: first.experiments(),
            servers: first.contenders().expect("servers").iter().map(server).collect(),
            seed: 3,
            ..Setup::default()
        };
        for (line, different) in [
            ("--quick --server a --vs host:7", None),
            ("--resume reproduce", None),
            ("--server a --vs host:7", Some("its time")),
            ("--quick --server a --vs host:7 --only R1", Some("its experiments")),
            ("--quick --server b --vs host:7", Some("its servers")),
            ("--quick --server a", Some("its servers")),
            ("--quick --server a --vs host:7 --seed 4", Some("its seed")),
        ] {
            let found = asked(line).check_same(&setup).err();
            match different {
                None => assert_eq!(found, None, "{line}"),
                Some(what) => {
                    assert!(found.as_deref().is_some_and(|text| text.contains(what)), "{line}: {found:?}")
                }
            }
        }
    }
}
