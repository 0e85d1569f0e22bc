//! resp-benchmark 0.1.7's command line and output, and its automatic number of connections.

pub use super::options::cores;
use super::options::{Settings, between};
use super::target;
use crate::engine::{self, INTERRUPTED, Observer, Progress, Recorder, RunResult};
use crate::plan::{MAX_CONNECTIONS, MAX_PIPELINE, Plan};
use crate::template::Template;
use crate::{errln, out, outln, output};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::time::Duration;

const DEFAULT_COMMAND: &str = "SET {key uniform 100000} {value 64}";
/// How long each step of the search for a number of connections takes.
const SEARCH_STEP: Duration = Duration::from_millis(700);
/// A doubling of connections that gains less than this ends the search.
const SEARCH_GAIN: f64 = 1.1;
const MAX_AUTO_CONNECTIONS: usize = 512;
/// Connections of a load phase that names none.
const LOAD_CONNECTIONS: usize = 128;

const HELP: &str = "Usage: resp-benchmark [OPTIONS] [COMMAND]

  COMMAND          request to test (SET {key uniform 100000} {value 64})
  -h HOST          server (127.0.0.1)
  -p PORT          port (6379)
  -u USER          user to authenticate as; needs -a
  -a PASSWORD      password
  -c CLIENTS       connections; 0 searches for the best number (0)
  --cores LIST     cores to use, as 0,2-4 (all)
  --cluster        cluster mode
  -n REQUESTS      requests in total; 0 for no limit (0)
  -s SECONDS       time in seconds; 0 for no limit (0)
  -P DEPTH         pipeline (1)
  --load           only load data
  -v, --version    version
  --help           this text
";

/// What resp-benchmark's command line, or the Python class, asks for.
#[derive(Clone, Debug)]
pub struct RespSettings {
    /// Server's name or address.
    pub host: String,
    /// Server's port.
    pub port: u16,
    /// User to authenticate as; empty for none.
    pub username: Vec<u8>,
    /// Password; empty for none.
    pub password: Vec<u8>,
    /// Route requests over a cluster.
    pub cluster: bool,
    /// Cores to use, one thread on each; empty for all.
    pub cores: Vec<usize>,
    /// The request, in the template language.
    pub command: Vec<u8>,
    /// Connections; 0 for as many as raise the rate.
    pub connections: usize,
    /// Requests in flight per connection.
    pub pipeline: usize,
    /// Requests in total; 0 for no limit.
    pub count: u64,
    /// Seconds; 0 for no limit.
    pub seconds: u64,
    /// Load data: every request once, errors end it.
    pub load: bool,
    /// Print nothing.
    pub quiet: bool,
}

impl Default for RespSettings {
    fn default() -> Self {
        RespSettings {
            host: "127.0.0.1".into(),
            port: 6379,
            username: Vec::new(),
            password: Vec::new(),
            cluster: false,
            cores: Vec::new(),
            command: DEFAULT_COMMAND.into(),
            connections: 0,
            pipeline: 1,
            count: 0,
            seconds: 0,
            load: false,
            quiet: false,
        }
    }
}

/// The result of the Python class.
#[derive(Clone, Debug, Default)]
pub struct RespResult {
    /// Requests per second.
    pub qps: f64,
    /// Mean latency.
    pub avg_latency_ms: f64,
    /// 99th percentile of latency.
    pub p99_latency_ms: f64,
    /// Connections, as given or found.
    pub connections: usize,
}

fn parse(arguments: &[OsString]) -> Result<Option<RespSettings>, String> {
    let mut settings = RespSettings::default();
    let mut command = None;
    let mut rest = arguments.iter().map(|argument| argument.as_bytes());
    while let Some(argument) = rest.next() {
        let shown = String::from_utf8_lossy(argument);
        let mut value = || rest.next().ok_or_else(|| format!("argument {shown}: expected one argument"));
        let mut text = || {
            let bytes = value()?;
            let wrong = || format!("argument {shown}: '{}' is not UTF-8", String::from_utf8_lossy(bytes));
            std::str::from_utf8(bytes).map_err(|_| wrong())
        };
        fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
            text.parse().map_err(|_| format!("argument {name}: invalid int value: '{text}'"))
        }
        let within = |name: &str, text: &str, low, high| {
            between(text, low, high).map_err(|error| format!("argument {name}: {error}"))
        };
        match argument {
            b"-h" => settings.host = text()?.into(),
            b"-p" => settings.port = number("-p", text()?)?,
            b"-u" => settings.username = value()?.to_vec(),
            b"-a" => settings.password = value()?.to_vec(),
            b"-c" => settings.connections = within("-c", text()?, 0, MAX_CONNECTIONS)?,
            b"--cores" => settings.cores = cores(text()?)?,
            b"--cluster" => settings.cluster = true,
            b"-n" => settings.count = number("-n", text()?)?,
            b"-s" => settings.seconds = number("-s", text()?)?,
            b"-P" => settings.pipeline = within("-P", text()?, 1, MAX_PIPELINE)?,
            b"--load" => settings.load = true,
            b"--help" => {
                out!("{HELP}");
                return Ok(None);
            }
            b"-v" | b"--version" => {
                outln!("{}", env!("CARGO_PKG_VERSION"));
                return Ok(None);
            }
            other if other.starts_with(b"-") && other.len() > 1 => {
                return Err(format!("unrecognized arguments: {shown}"));
            }
            other if command.is_none() => command = Some(other.to_vec()),
            _ => return Err(format!("unrecognized arguments: {shown}")),
        }
    }
    if let Some(command) = command {
        settings.command = command;
    }
    Ok(Some(settings))
}

/// Runs the command line; gives the exit code.
pub fn main(arguments: &[OsString]) -> i32 {
    let settings = match parse(arguments) {
        Ok(Some(settings)) => settings,
        Ok(None) => return 0,
        Err(error) => {
            errln!("{HELP}resp-benchmark: error: {error}");
            return 2;
        }
    };
    match benchmark(&settings) {
        Ok((_, None)) => 0,
        Ok((result, Some(reason))) => {
            errln!("{reason}");
            errln!("PARTIAL RESULT: measured until then: {:.0} requests/s", result.qps);
            1
        }
        Err(error) => {
            errln!("{error}");
            1
        }
    }
}

fn plan(settings: &RespSettings, connections: usize) -> Result<Plan, String> {
    let mut target = target::resolve(&connection(settings))?;
    if settings.cluster {
        target::spread(&mut target)?;
    }
    let template = Template::parse(&settings.command, &[]).map_err(|e| format!("Invalid command: {e}"))?;
    let name = crate::workload::command_name(&settings.command);
    let mut plan = Plan::single(target, &name, template);
    let all_cores = std::thread::available_parallelism().map_or(1, usize::from);
    plan.cores = settings.cores.clone();
    plan.threads = if plan.cores.is_empty() { all_cores } else { plan.cores.len() };
    plan.connections = connections;
    plan.pipeline = settings.pipeline;
    plan.requests = settings.count;
    plan.duration = (settings.seconds > 0).then(|| Duration::from_secs(settings.seconds));
    plan.stop_on_error = true;
    if settings.cluster {
        plan.spread();
    }
    plan.seed = crate::plan::fresh_seed();
    Ok(plan)
}

/// Sends one command; the text of its reply.
///
/// # Errors
/// When the server cannot be reached, or answers an error: its text.
pub fn send(settings: &RespSettings, command: &[String]) -> Result<String, String> {
    let target = target::resolve(&connection(settings))?;
    let reply = target::control(&target)?.command(command).map_err(|e| e.to_string())?;
    match reply.is_error() {
        true => Err(crate::control::reply_text(&reply)),
        false => Ok(reply.text().map_or(String::new(), |text| String::from_utf8_lossy(text).into_owned())),
    }
}

/// The server part of the settings.
fn connection(settings: &RespSettings) -> Settings {
    Settings {
        host: settings.host.clone(),
        port: settings.port,
        user: Some(settings.username.clone()).filter(|u| !u.is_empty()),
        password: Some(settings.password.clone()).filter(|p| !p.is_empty()),
        cluster: settings.cluster,
        ..Settings::default()
    }
}

/// Runs one benchmark or load; the second value says why it ended before its time.
pub fn benchmark(settings: &RespSettings) -> Result<(RespResult, Option<String>), String> {
    // Bad input is named before anything is printed.
    let mut connections = settings.connections;
    if connections == 0 && settings.load {
        connections = LOAD_CONNECTIONS;
    }
    plan(settings, connections.max(1))?;
    if settings.load && settings.count == 0 {
        return Err("count must be greater than 0 to load data: give -n".into());
    }
    let mut view = View::new(settings);
    view.header(settings, connections);
    if connections == 0 {
        connections = search(settings, &mut view)?;
    }
    let plan = plan(settings, connections)?;
    (view.connections, view.overall) = (connections, true);
    view.restart();
    let result = engine::run(&plan, &mut view)?;
    view.final_line(&result);
    if let Some(warning) = engine::server_warnings(&plan, &result).filter(|_| !settings.quiet) {
        errln!("WARNING: {warning}");
    }
    let all = result.all_latencies();
    let summary = RespResult {
        qps: result.rate(),
        avg_latency_ms: all.mean_ms(),
        p99_latency_ms: all.percentile_ms(99.0),
        connections,
    };
    let reason = result.partial.or_else(|| {
        result.error_texts.first().map(|(text, count)| format!("{count} error replies, as: {text}"))
    });
    Ok((summary, reason))
}

/// Doubles the connections as long as that gains.
fn search(settings: &RespSettings, view: &mut View) -> Result<usize, String> {
    let (mut best, mut connections) = ((0.0, 1), 1);
    while connections <= MAX_AUTO_CONNECTIONS && !INTERRUPTED.load(Ordering::Relaxed) {
        let mut plan = plan(settings, connections)?;
        (plan.requests, plan.duration) = (0, Some(SEARCH_STEP));
        (view.connections, view.overall) = (connections, false);
        view.restart();
        let result = engine::run(&plan, view)?;
        if let Some(reason) = result.partial {
            return Err(reason);
        }
        let rate = result.rate();
        let gained = rate > best.0 * SEARCH_GAIN;
        if rate > best.0 {
            best = (rate, connections);
        }
        if !gained {
            break;
        }
        connections *= 2;
    }
    Ok(best.1)
}

struct View {
    quiet: bool,
    load: bool,
    count: u64,
    connections: usize,
    overall: bool,
    last: (u64, Duration),
}

/// Two decimals below 1 ms, one below 10, none above.
fn milliseconds(value: f64) -> String {
    match value {
        v if v < 0.995 => format!("{v:.2}ms"),
        v if v < 9.95 => format!("{v:.1}ms"),
        v => format!("{v:.0}ms"),
    }
}

impl View {
    fn new(settings: &RespSettings) -> View {
        View {
            quiet: settings.quiet,
            load: settings.load,
            count: settings.count,
            connections: 0,
            overall: false,
            last: (0, Duration::ZERO),
        }
    }

    fn restart(&mut self) {
        self.last = (0, Duration::ZERO);
    }

    fn header(&self, settings: &RespSettings, connections: usize) {
        if self.quiet {
            return;
        }
        let colour = std::io::stdout().is_terminal();
        let key = |name: &str| if colour { format!("\x1b[1;34m{name}\x1b[0m") } else { name.to_string() };
        let shown = String::from_utf8_lossy(&settings.command);
        let command = if colour { format!("\x1b[1;32m{shown}\x1b[0m") } else { shown.into_owned() };
        let connections = if connections == 0 { "auto".to_string() } else { connections.to_string() };
        outln!("{}: {command}", key("command"));
        outln!("{}: {connections}", key("connections"));
        outln!("{}: {}", key("count"), settings.count);
        outln!("{}: {}", key("seconds"), settings.seconds);
        outln!("{}: {}", key("pipeline"), settings.pipeline);
    }

    fn line(&self, text: &str) {
        if !self.quiet {
            output::write(format_args!("\x1b[F\x1b[2K{text}\n"), true);
        }
    }

    fn final_line(&self, result: &RunResult) {
        let all = result.all_latencies();
        if self.load {
            self.line(&format!(
                "Data loaded, qps: {:.0}, time elapsed: {:.2}s\n",
                result.rate(),
                result.elapsed.as_secs_f64()
            ));
            return;
        }
        self.line(&format!(
            "qps: {:.0}, conn: {}, cnt: {}, avg: {}, p99: {}\n",
            result.rate(),
            self.connections,
            result.requests(),
            milliseconds(all.mean_ms()),
            milliseconds(all.percentile_ms(99.0)),
        ));
    }
}

impl Observer for View {
    fn tick(&mut self, progress: &Progress, elapsed: Duration, recorder: &Recorder) {
        let requests = progress.requests.load(Ordering::Relaxed);
        let rate = (requests - self.last.0) as f64 / (elapsed - self.last.1).as_secs_f64().max(1e-9);
        self.last = (requests, elapsed);
        if self.load {
            let percent = requests as f64 / self.count.max(1) as f64 * 100.0;
            return self.line(&format!("Data loading qps: {rate:.0}, {percent:.2}%"));
        }
        if requests == 0 {
            return self.line(&format!("qps: 0(overall 0), conn: {}, no data", self.connections));
        }
        let overall = if self.overall { requests as f64 / elapsed.as_secs_f64().max(1e-9) } else { 0.0 };
        let mean = progress.latency_ns.load(Ordering::Relaxed) as f64 / requests as f64 / 1e6;
        let p99 = recorder.totals().first().map_or(0.0, |c| c.latencies.percentile_ms(99.0));
        self.line(&format!(
            "qps: {rate:.0}(overall {overall:.0}), conn: {}, cnt: {requests}, avg: {}, p99: {}",
            self.connections,
            milliseconds(mean),
            milliseconds(p99),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Option<RespSettings>, String> {
        parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_white_papers_lines_are_understood() {
        let s = parsed(&[
            "--load",
            "-c",
            "256",
            "-P",
            "10",
            "-n",
            "10007000",
            "ZADD {key sequence 1000} {rand 70000} {key sequence 10007}",
        ]);
        let s = s.expect("valid").expect("a run");
        assert_eq!((s.load, s.connections, s.pipeline, s.count), (true, 256, 10, 10_007_000));
        let s = parsed(&["-s", "20", "GET {key uniform 10000000}"]).expect("valid").expect("a run");
        assert_eq!((s.seconds, s.command.as_slice()), (20, &b"GET {key uniform 10000000}"[..]));
    }

    #[test]
    fn bad_arguments_are_named() {
        assert!(parsed(&["-n", "x"]).expect_err("bad").contains("argument -n: invalid int value: 'x'"));
        assert!(parsed(&["-n"]).expect_err("bad").contains("argument -n"));
        assert!(parsed(&["--foo"]).expect_err("bad").contains("unrecognized arguments: --foo"));
    }

    #[test]
    fn milliseconds_are_short() {
        assert_eq!(milliseconds(0.144), "0.14ms");
        assert_eq!(milliseconds(1.04), "1.0ms");
        assert_eq!(milliseconds(12.4), "12ms");
    }
}
