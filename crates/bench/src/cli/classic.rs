//! redis-benchmark's tests and output: the same list and order, the same text, `-q` and `--csv`.

use super::options::Settings;
use super::target;
use crate::engine::{self, INTERRUPTED, Observer, Progress, Recorder, RunResult};
use crate::index::{self, INDEX};
use crate::plan::{MAX_PIPELINE, Pacing, Plan, Target};
use crate::template::{self, Template, VECTOR, Words};
use crate::{errln, interrupt, outln, output};
use martlet_client::resp::Reply;
use std::io::Read;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bounds of the classic histogram, microseconds.
const LOWEST_US: u64 = 10;
const HIGHEST_US: u64 = 3_000_000;

/// One test of the list.
struct Test {
    /// Names that select it, besides its own.
    selectors: &'static [&'static str],
    title: &'static str,
    /// Its arguments; `@` stands for the cluster tag, `$` alone for the value, `?` for a score, `~` for a
    /// sample's value.
    arguments: &'static [&'static str],
}

const LRANGES: &[&str] = &["lrange", "lrange_100", "lrange_300", "lrange_500", "lrange_600"];

static TESTS: &[Test] = &[
    Test { selectors: &["ping_inline", "ping"], title: "PING_INLINE", arguments: &[] },
    Test { selectors: &["ping_mbulk", "ping"], title: "PING_MBULK", arguments: &["PING"] },
    Test { selectors: &["set"], title: "SET", arguments: &["SET", "key@:__rand_int__", "$"] },
    Test { selectors: &["get"], title: "GET", arguments: &["GET", "key@:__rand_int__"] },
    Test { selectors: &["incr"], title: "INCR", arguments: &["INCR", "counter@:__rand_int__"] },
    Test { selectors: &["lpush"], title: "LPUSH", arguments: &["LPUSH", "mylist@", "$"] },
    Test { selectors: &["rpush"], title: "RPUSH", arguments: &["RPUSH", "mylist@", "$"] },
    Test { selectors: &["lpop"], title: "LPOP", arguments: &["LPOP", "mylist@"] },
    Test { selectors: &["rpop"], title: "RPOP", arguments: &["RPOP", "mylist@"] },
    Test { selectors: &["sadd"], title: "SADD", arguments: &["SADD", "myset@", "element:__rand_int__"] },
    Test {
        selectors: &["hset"],
        title: "HSET",
        arguments: &["HSET", "myhash@", "element:__rand_int__", "$"],
    },
    Test { selectors: &["spop"], title: "SPOP", arguments: &["SPOP", "myset@"] },
    Test {
        selectors: &["zadd"],
        title: "ZADD",
        arguments: &["ZADD", "myzset@", "?", "element:__rand_int__"],
    },
    Test { selectors: &["zpopmin"], title: "ZPOPMIN", arguments: &["ZPOPMIN", "myzset@"] },
    Test {
        selectors: LRANGES,
        title: "LPUSH (needed to benchmark LRANGE)",
        arguments: &["LPUSH", "mylist@", "$"],
    },
    Test {
        selectors: &["lrange", "lrange_100"],
        title: "LRANGE_100 (first 100 elements)",
        arguments: &["LRANGE", "mylist@", "0", "99"],
    },
    Test {
        selectors: &["lrange", "lrange_300"],
        title: "LRANGE_300 (first 300 elements)",
        arguments: &["LRANGE", "mylist@", "0", "299"],
    },
    Test {
        selectors: &["lrange", "lrange_500"],
        title: "LRANGE_500 (first 500 elements)",
        arguments: &["LRANGE", "mylist@", "0", "499"],
    },
    Test {
        selectors: &["lrange", "lrange_600"],
        title: "LRANGE_600 (first 600 elements)",
        arguments: &["LRANGE", "mylist@", "0", "599"],
    },
    Test {
        selectors: &["mset"],
        title: "MSET (10 keys)",
        arguments: &[
            "MSET",
            "key@:__rand_int__",
            "$",
            "key@:__rand_int__",
            "$",
            "key@:__rand_int__",
            "$",
            "key@:__rand_int__",
            "$",
            "key@:__rand_int__",
            "$",
            "key@:__rand_int__",
            "$",
            "key@:__rand_int__",
            "$",
            "key@:__rand_int__",
            "$",
            "key@:__rand_int__",
            "$",
            "key@:__rand_int__",
            "$",
        ],
    },
    Test { selectors: &["xadd"], title: "XADD", arguments: &["XADD", "mystream@", "*", "myfield", "$"] },
];

/// Tests that run only where they are named: servers before Redis 8 do not have these commands.
static OF_REDIS_8: &[Test] = &[
    Test { selectors: &["bf.add"], title: "BF.ADD", arguments: &["BF.ADD", "mybloom@", "item:__rand_int__"] },
    Test {
        selectors: &["bf.exists"],
        title: "BF.EXISTS",
        arguments: &["BF.EXISTS", "mybloom@", "item:__rand_int__"],
    },
    Test {
        selectors: &["cf.add"],
        title: "CF.ADD",
        arguments: &["CF.ADD", "mycuckoo@", "item:__rand_int__"],
    },
    Test {
        selectors: &["cf.exists"],
        title: "CF.EXISTS",
        arguments: &["CF.EXISTS", "mycuckoo@", "item:__rand_int__"],
    },
    Test {
        selectors: &["json.set"],
        title: "JSON.SET",
        arguments: &["JSON.SET", "json@:__rand_int__", ".", DOCUMENT],
    },
    Test {
        selectors: &["json.get"],
        title: "JSON.GET",
        arguments: &["JSON.GET", "json@:__rand_int__", "$.address.city"],
    },
    Test {
        selectors: &["ts.add"],
        title: "TS.ADD",
        // Two requests of one millisecond have the same timestamp.
        arguments: &["TS.ADD", "series@:__rand_int__", "*", "~", "ON_DUPLICATE", "LAST"],
    },
    Test {
        selectors: &["vadd"],
        title: "VADD",
        arguments: &["VADD", "myvectors@", "FP32", VECTOR, "element:__rand_int__"],
    },
    Test {
        selectors: &["vsim"],
        title: "VSIM",
        arguments: &["VSIM", "myvectors@", "FP32", VECTOR, "COUNT", "10"],
    },
    Test { selectors: &["ft.hset"], title: "HSET (indexed documents)", arguments: INDEXED },
    Test { selectors: SEARCHES, title: "HSET (needed to benchmark FT.SEARCH)", arguments: INDEXED },
    Test {
        selectors: &["ft.search", "ft.search.text"],
        title: "FT.SEARCH (two words)",
        arguments: &["FT.SEARCH", INDEX, "@title:(item __rand_int__)", "LIMIT", "0", "10"],
    },
    Test {
        selectors: &["ft.search", "ft.search.tag"],
        title: "FT.SEARCH (tag and number)",
        arguments: &["FT.SEARCH", INDEX, "@kind:{all} @price:[0 1000]", "LIMIT", "0", "10"],
    },
    Test {
        selectors: &["ft.search", "ft.search.knn"],
        title: "FT.SEARCH (10 nearest vectors)",
        arguments: &[
            "FT.SEARCH",
            INDEX,
            "*=>[KNN 10 @embedding $vector]",
            "PARAMS",
            "2",
            "vector",
            VECTOR,
            "RETURN",
            "1",
            "price",
            "DIALECT",
            "2",
        ],
    },
];

const SEARCHES: &[&str] = &["ft.search", "ft.search.text", "ft.search.tag", "ft.search.knn"];

/// A document of the index that [`index::create`] makes.
const INDEXED: &[&str] = &[
    "HSET",
    "doc@:__rand_int__",
    "title",
    "item __rand_int__ of a shop",
    "kind",
    "all,k__rand_int__",
    "price",
    "?",
    "embedding",
    VECTOR,
];

/// Whether a test needs the index of [`index::create`].
pub fn needs_index(name: &str) -> bool {
    name.starts_with("ft.")
}

/// Whether a test reads data that another of the list writes before; the template that does.
pub fn load_of(name: &str, data_bytes: usize, dimension: usize, keys: u64) -> Option<String> {
    if name.starts_with("lrange") {
        return Some(format!("RPUSH mylist {{value {data_bytes}}}"));
    }
    let needed = SEARCHES.contains(&name).then(|| templates_of("ft.hset", data_bytes, dimension, keys))?;
    needed.into_iter().next()
}

/// An argument with the cluster's tag for `@` behind a key's name; elsewhere that is a field of a query.
fn tagged(argument: &str, tag: &str) -> String {
    match argument.strip_suffix('@') {
        Some(name) => format!("{name}{tag}"),
        None => argument.replace("@:", &format!("{tag}:")),
    }
}

/// A document of 100 bytes.
const DOCUMENT: &str =
    r#"{"name":"user:__rand_int__","age":30,"tags":["a","b","c"],"address":{"city":"Lucerne","zip":"6003"}}"#;
/// A sample's value: without random numbers, and with them, whose zeros in front are no number's for all
/// servers.
const SAMPLE: [&str; 2] = ["1.5", "1.__rand_int__"];

/// The requests of a test as templates: `keys` for `__rand_int__`, values of `data_bytes`, vectors of as many
/// components as `dimension` says. Empty if there is no such test. An inline PING is one as any other there,
/// and what only prepares LRANGE is left out.
pub fn templates_of(name: &str, data_bytes: usize, dimension: usize, keys: u64) -> Vec<String> {
    let number = format!("{{rand_int {keys}}}");
    let mut templates: Vec<String> = TESTS
        .iter()
        .chain(OF_REDIS_8)
        .filter(|test| test.selectors.contains(&name) && !test.title.contains("(needed"))
        .map(|test| {
            let words = test.arguments.iter().map(|argument| match *argument {
                "$" => format!("{{value {data_bytes}}}"),
                "?" => number.clone(),
                "~" => SAMPLE[1].replace("__rand_int__", &number),
                VECTOR => format!("{{vector {dimension}}}"),
                other => quoted(tagged(other, "").replace("__rand_int__", &number)),
            });
            words.collect::<Vec<_>>().join(" ")
        })
        .map(|words| if words.is_empty() { "PING".into() } else { words })
        .collect();
    templates.dedup();
    templates
}

/// An argument as one word of a template.
fn quoted(argument: String) -> String {
    if argument.contains(' ') && !argument.starts_with('{') { format!("'{argument}'") } else { argument }
}

/// What `-x` reads; it is there for each turn of `-l`.
pub fn standard_input() -> Result<Vec<u8>, String> {
    static READ: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(bytes) = READ.get() {
        return Ok(bytes.clone());
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).map_err(|e| format!("standard input: {e}"))?;
    Ok(READ.get_or_init(|| bytes).clone())
}

/// The lines of `--csv`.
pub const CSV_HEADER: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
                              \"p99_latency_ms\",\"max_latency_ms\"";

/// A line of `--csv`: mean, minimum, percentiles 50, 95, 99 and maximum in milliseconds.
pub fn csv_line(title: &str, rate: f64, [avg, min, p50, p95, p99, max]: [f64; 6]) -> String {
    format!(
        "\"{title}\",\"{rate:.2}\",\"{avg:.3}\",\"{min:.3}\",\"{p50:.3}\",\"{p95:.3}\",\"{p99:.3}\",\"{max:.3}\"\n"
    )
}

/// The line of `-q`.
pub fn quiet_line(title: &str, rate: f64, p50: f64) -> String {
    format!("{title}: {rate:.2} requests per second, p50={p50:.3} msec\n")
}

/// The bytes of a value: printable, always the same, as every classic test uses one value throughout.
fn test_data(bytes: usize) -> Vec<u8> {
    let mut state = 1234u32;
    (0..bytes)
        .map(|_| {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            b'0' + ((state >> 16) & 63) as u8
        })
        .collect()
}

/// Configuration that the report's first lines show.
struct ServerConfig {
    save: String,
    appendonly: String,
}

/// A benchmark session: the server, and what all its tests share.
pub struct Session<'a> {
    settings: &'a Settings,
    target: Target,
    configs: Vec<Option<ServerConfig>>,
    threads: usize,
    failed: bool,
    /// Tests of which a warning has been printed.
    warned: Vec<String>,
}

fn server_config(target: &Target, node: usize) -> Result<Option<ServerConfig>, String> {
    let Some(node) = target.nodes.get(node) else { return Ok(None) };
    let mut control = target::control_at(target, &node.address)?;
    let mut ask = |name| control.config(name).map_err(|e| e.to_string());
    let save = match ask("save")? {
        Ok(save) => save,
        Err(Reply::Error(text)) if text.starts_with(b"NOAUTH") => {
            return Err(format!(
                "Node {} replied with error:\n{}",
                node.address,
                String::from_utf8_lossy(&text)
            ));
        }
        // A server that takes no more connections answers this way, too: the run will say so.
        Err(_) => return Ok(None),
    };
    Ok(ask("appendonly")?.ok().map(|appendonly| ServerConfig { save, appendonly }))
}

/// Runs the settings; returns the exit code.
pub fn main(settings: &Settings) -> i32 {
    match Session::open(settings).and_then(|mut session| session.run().map(|()| session.failed)) {
        Ok(failed) => i32::from(failed),
        Err(error) => {
            errln!("{error}");
            1
        }
    }
}

impl<'a> Session<'a> {
    fn open(settings: &'a Settings) -> Result<Session<'a>, String> {
        let mut target = target::resolve(settings)?;
        let mut threads = settings.threads.unwrap_or(0);
        let mut configs = Vec::new();
        if settings.cluster {
            let nodes = target::spread(&mut target)?;
            outln!("Cluster has {} primary nodes:\n", nodes.len());
            for (index, node) in nodes.iter().enumerate() {
                outln!("Primary {index}: {} {}", node.id, node.address);
                configs.push(server_config(&target, index)?);
                if configs.last().is_some_and(Option::is_none) {
                    errln!("WARNING: Could not fetch node CONFIG {}", node.address);
                }
            }
            outln!();
            threads = if threads == 0 { nodes.len() } else { threads };
        } else {
            configs.push(server_config(&target, 0)?);
            if configs.last().is_some_and(Option::is_none) {
                errln!("WARNING: Could not fetch server CONFIG");
            }
        }
        Ok(Session { settings, target, configs, threads, failed: false, warned: Vec::new() })
    }

    fn run(&mut self) -> Result<(), String> {
        let settings = self.settings;
        if !settings.keep_alive {
            errln!(
                "WARNING: Keepalive disabled. You probably need 'echo 1 > /proc/sys/net/ipv4/tcp_tw_reuse' for Linux and \
                 'sudo sysctl -w net.inet.tcp.msl=1000' for Mac OS X in order to use a lot of clients/requests"
            );
        }
        if !settings.command.is_empty() && settings.tests.is_some() {
            errln!("WARNING: Option -t is ignored.");
        }
        if settings.idle {
            return self.idle();
        }
        if settings.csv {
            outln!("{CSV_HEADER}");
        }
        loop {
            if settings.command.is_empty() {
                self.suite()?;
            } else {
                self.command()?;
            }
            if !settings.repeat || self.failed || INTERRUPTED.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }

    fn plan(&self, title: &str, template: Template) -> Result<Plan, String> {
        let settings = self.settings;
        let sequence = template.requests().max(1);
        let mut plan = Plan::single(self.target.clone(), title, template);
        plan.connections = settings.clients;
        plan.threads = self.threads.max(1);
        plan.pipeline = settings.pipeline * sequence;
        if plan.pipeline > MAX_PIPELINE {
            return Err(format!("{} requests at once are more than {MAX_PIPELINE}", plan.pipeline));
        }
        // Whole pipelines, as redis-benchmark sends them.
        if settings.duration.is_none() {
            plan.requests = settings.requests.unwrap_or(100_000).next_multiple_of(plan.pipeline as u64);
        }
        (plan.duration, plan.warmup) = (settings.duration, settings.warmup);
        if let Some(rate) = settings.limit {
            if sequence > 1 {
                return Err("--rps: a sequence of commands leaves at once, and cannot be paced".into());
            }
            plan.pacing = Pacing::Open { rate, poisson: false };
        }
        plan.reconnect_every = if settings.keep_alive { settings.churn } else { sequence as u64 };
        plan.stop_on_error = true;
        plan.seed = settings.seed.unwrap_or_else(crate::plan::fresh_seed);
        plan.cores = settings.cores.clone();
        plan.sources = settings.sources.clone();
        plan.epoll = settings.epoll;
        Ok(plan)
    }

    fn idle(&mut self) -> Result<(), String> {
        let until = match self.settings.duration {
            Some(time) => format!("for {time:?}"),
            None => "forever".into(),
        };
        outln!("Creating {} idle connections and waiting {until} (Ctrl+C when done)", self.settings.clients);
        let mut plan = self.plan("idle", Template::raw(b""))?;
        (plan.idle, plan.requests, plan.duration) = (true, 0, self.settings.duration);
        match engine::run(&plan, &mut IdleView) {
            Ok(_) => Ok(()),
            Err(_) if INTERRUPTED.load(Ordering::Relaxed) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn command(&mut self) -> Result<(), String> {
        let settings = self.settings;
        let title = String::from_utf8_lossy(&settings.command.join(&b' ')).into_owned();
        let mut commands = match settings.sequence {
            true => template::commands(&settings.command)?,
            false => vec![(1, settings.command.clone())],
        };
        if settings.last_from_stdin
            && let Some((_, arguments)) = commands.last_mut()
        {
            arguments.push(standard_input()?);
        }
        let total =
            commands.iter().map(|(times, _)| times).fold(0usize, |sum, times| sum.saturating_add(*times));
        if total > MAX_PIPELINE {
            return Err(format!("a sequence of {total} commands is longer than {MAX_PIPELINE}"));
        }
        let mut encoded = Vec::new();
        for (_, arguments) in &commands {
            martlet_client::resp::encode_request(arguments, &mut encoded);
        }
        let data = test_data(settings.data_bytes);
        let template = Template::sequence(&commands, &self.words(&data));
        self.test(&title, template, encoded.len())
    }

    fn words<'d>(&self, data: &'d [u8]) -> Words<'d> {
        let settings = self.settings;
        Words {
            keyspace: settings.keyspace,
            sequential: settings.sequential,
            cluster: settings.cluster,
            data,
            dimension: settings.tests.is_some().then_some(settings.dimension),
        }
    }

    fn suite(&mut self) -> Result<(), String> {
        let settings = self.settings;
        let data = test_data(settings.data_bytes);
        let tag = if settings.cluster { ":{tag}" } else { "" };
        let further = if settings.tests.is_some() { OF_REDIS_8 } else { &[] };
        let mut has_index = false;
        for test in TESTS.iter().chain(further) {
            let selected = match &settings.tests {
                None => true,
                Some(names) => test.selectors.iter().any(|s| names.iter().any(|name| name == s)),
            };
            if !selected {
                continue;
            }
            let score: &[u8] = match (settings.keyspace, settings.sequential) {
                (None, _) => b"0",
                (Some(_), false) => b"__rand_int__",
                // A separate counter, so that no member is left out.
                (Some(_), true) => b"__rand_1st__",
            };
            let arguments: Vec<Vec<u8>> = test
                .arguments
                .iter()
                .map(|argument| match *argument {
                    "$" => data.clone(),
                    "?" => score.to_vec(),
                    "~" => SAMPLE[usize::from(settings.keyspace.is_some())].into(),
                    other => tagged(other, tag).into_bytes(),
                })
                .collect();
            let template = match test.arguments {
                [] => Template::raw(b"PING\r\n"),
                _ => Template::classic(&arguments, &self.words(&data)),
            };
            if !has_index && test.selectors.iter().any(|name| needs_index(name)) {
                index::create(&self.target, settings.dimension)?;
                has_index = true;
            }
            self.test(test.title, template, settings.data_bytes)?;
            if self.failed || INTERRUPTED.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        if !settings.csv {
            outln!();
        }
        Ok(())
    }

    fn test(&mut self, title: &str, template: Template, payload: usize) -> Result<(), String> {
        let plan = self.plan(title, template)?;
        let mut view = View::new(title, self.settings.csv);
        let result = engine::run(&plan, &mut view)?;
        if result.requests() > 0 {
            self.report(title, payload, &result, view.last_bytes);
        }
        self.warn_once(title, engine::server_warnings(&plan, &result));
        if let Some(reason) = result.partial.as_ref().filter(|_| !interrupt::output_has_failed()) {
            let asked = match plan.requests {
                0 => String::new(),
                asked => format!(" of {asked}"),
            };
            errln!("{reason}\nPARTIAL RESULT: {}{asked} requests were measured.", result.requests());
        }
        self.failed |= result.partial.is_some();
        Ok(())
    }

    /// Prints what limits the meaning of a test's figures, the first time.
    fn warn_once(&mut self, title: &str, warning: Option<String>) {
        let Some(warning) = warning.filter(|_| !self.warned.iter().any(|warned| warned == title)) else {
            return;
        };
        errln!("WARNING: {warning}");
        self.warned.push(title.into());
    }

    fn report(&self, title: &str, payload: usize, result: &RunResult, last_bytes: usize) {
        let settings = self.settings;
        let classic = Classic::new(result, settings.precision);
        let mut text = String::new();
        if settings.csv {
            text = csv_line(title, result.rate(), classic.summary());
        } else {
            text.push_str(&format!("{:>last_bytes$}\r", " "));
            if settings.quiet {
                text.push_str(&quiet_line(title, result.rate(), classic.summary()[2]));
            } else {
                self.long_report(title, payload, result, &classic, &mut text);
            }
        }
        output::write(format_args!("{text}"), true);
    }

    fn long_report(
        &self,
        title: &str,
        payload: usize,
        result: &RunResult,
        classic: &Classic,
        text: &mut String,
    ) {
        use std::fmt::Write as _;
        let settings = self.settings;
        let mut line = |content: std::fmt::Arguments<'_>| {
            let _ = writeln!(text, "{content}");
        };
        line(format_args!("====== {title} ======"));
        line(format_args!(
            "  {} requests completed in {:.2} seconds",
            result.in_time(),
            result.elapsed.as_secs_f64()
        ));
        line(format_args!("  {} parallel clients", settings.clients));
        line(format_args!("  {payload} bytes payload"));
        line(format_args!("  keep alive: {}", i32::from(settings.keep_alive)));
        if settings.cluster {
            line(format_args!("  cluster mode: yes ({} primaries)", self.target.nodes.len()));
            for (index, config) in self.configs.iter().enumerate() {
                let Some(config) = config else { continue };
                line(format_args!("  node [{index}] configuration:"));
                line(format_args!(
                    "    save: {}",
                    if config.save.is_empty() { "NONE" } else { &config.save }
                ));
                line(format_args!("    appendonly: {}", config.appendonly));
            }
        } else if let Some(Some(config)) = self.configs.first() {
            line(format_args!("  host configuration \"save\": {}", config.save));
            line(format_args!("  host configuration \"appendonly\": {}", config.appendonly));
        }
        line(format_args!("  multi-thread: {}", if self.threads > 0 { "yes" } else { "no" }));
        if self.threads > 0 {
            line(format_args!("  threads: {}", self.threads));
        }
        line(format_args!("\nLatency by percentile distribution:"));
        for (percentile, value, count) in classic.percentiles() {
            line(format_args!("{percentile:.3}% <= {value:.3} milliseconds (cumulative count {count})"));
        }
        line(format_args!("\nCumulative distribution of latencies:"));
        for (percentile, value, count) in classic.cumulative() {
            line(format_args!("{percentile:.3}% <= {value:.3} milliseconds (cumulative count {count})"));
        }
        let [avg, min, p50, p95, p99, max] = classic.summary();
        line(format_args!("\nSummary:"));
        line(format_args!("  throughput summary: {:.2} requests per second", result.rate()));
        line(format_args!("  latency summary (msec):"));
        line(format_args!(
            "    {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "avg", "min", "p50", "p95", "p99", "max"
        ));
        line(format_args!("    {avg:9.3} {min:9.3} {p50:9.3} {p95:9.3} {p99:9.3} {max:9.3}"));
    }
}

/// The latencies as redis-benchmark keeps them: microseconds, with its bounds and digits.
struct Classic(hdrhistogram::Histogram<u64>);

impl Classic {
    fn new(result: &RunResult, precision: u8) -> Classic {
        let mut histogram =
            match hdrhistogram::Histogram::new_with_bounds(LOWEST_US, HIGHEST_US, precision.clamp(1, 4)) {
                Ok(histogram) => histogram,
                Err(error) => unreachable!("constant bounds are valid: {error}"),
            };
        for (ns, count) in result.all_latencies().pairs() {
            histogram.saturating_record_n((ns / 1000).min(HIGHEST_US), count);
        }
        Classic(histogram)
    }

    /// Mean, minimum, percentiles 50, 95, 99 and maximum in milliseconds.
    fn summary(&self) -> [f64; 6] {
        let h = &self.0;
        let p = |percent| h.value_at_percentile(percent) as f64 / 1000.0;
        let min = if h.is_empty() { 0.0 } else { h.min() as f64 / 1000.0 };
        [h.mean() / 1000.0, min, p(50.0), p(95.0), p(99.0), h.max() as f64 / 1000.0]
    }

    /// Percentile, value in milliseconds, requests up to it; percentiles halve their distance to 100.
    fn percentiles(&self) -> Vec<(f64, f64, u64)> {
        let (mut rows, mut before, mut cumulative) = (Vec::new(), None, 0);
        let total = self.0.len();
        for step in self.0.iter_quantiles(1) {
            cumulative += step.count_since_last_iteration();
            if before != Some(cumulative) || cumulative == total {
                let value = self.0.highest_equivalent(step.value_iterated_to()) as f64 / 1000.0;
                rows.push((step.quantile_iterated_to() * 100.0, value, cumulative));
            }
            before = Some(cumulative);
        }
        rows
    }

    /// The same in steps of 0.1 ms, of 1 ms above 2 ms.
    fn cumulative(&self) -> Vec<(f64, f64, u64)> {
        let h = &self.0;
        let total = h.len();
        let (mut rows, mut before, mut step, mut limit) = (Vec::new(), None, 100, 100);
        if total == 0 {
            return rows;
        }
        loop {
            let top = h.highest_equivalent(limit);
            let count = h.count_between(0, limit);
            if before != Some(count) || count == total {
                rows.push((count as f64 / total as f64 * 100.0, top as f64 / 1000.0, count));
            }
            before = Some(count);
            if count >= total {
                return rows;
            }
            if top > 2000 {
                step = 1000;
            }
            limit += step;
        }
    }
}

/// The progress line.
struct View<'a> {
    title: &'a str,
    csv: bool,
    last_bytes: usize,
    last: (u64, u64, Duration),
}

impl<'a> View<'a> {
    fn new(title: &'a str, csv: bool) -> View<'a> {
        View { title, csv, last_bytes: 0, last: (0, 0, Duration::ZERO) }
    }
}

impl Observer for View<'_> {
    fn tick(&mut self, progress: &Progress, elapsed: Duration, _: &Recorder) {
        if self.csv {
            return;
        }
        let now =
            (progress.requests.load(Ordering::Relaxed), progress.latency_ns.load(Ordering::Relaxed), elapsed);
        let (requests, latency) = (now.0 - self.last.0, now.1 - self.last.1);
        let seconds = (now.2 - self.last.2).as_secs_f64();
        let mean = |latency: u64, requests: u64| latency as f64 / requests.max(1) as f64 / 1e6;
        let line = format!(
            "{}: rps={:.1} (overall: {:.1}) avg_msec={:.3} (overall: {:.3})\r",
            self.title,
            requests as f64 / seconds.max(1e-9),
            now.0 as f64 / elapsed.as_secs_f64().max(1e-9),
            mean(latency, requests),
            mean(now.1, now.0),
        );
        output::write(format_args!("{:>width$}\r{line}", " ", width = self.last_bytes), true);
        (self.last, self.last_bytes) = (now, line.len());
    }
}

struct IdleView;
impl Observer for IdleView {
    fn tick(&mut self, progress: &Progress, _: Duration, _: &Recorder) {
        output::write(format_args!("clients: {}\r", progress.connections.load(Ordering::Relaxed)), true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::CommandResult;

    fn result(latencies_us: &[(u64, u64)]) -> RunResult {
        let mut command = CommandResult::default();
        for (us, count) in latencies_us {
            command.latencies.record(us * 1000, *count);
        }
        RunResult { commands: vec![command], elapsed: Duration::from_secs(1), ..Default::default() }
    }

    /// The values are redis-benchmark's own for such a run: steps of 8 µs, 0.1 ms rows up to 2 ms.
    #[test]
    fn rows_are_those_of_the_classic_histogram() {
        let classic = Classic::new(&result(&[(165, 1), (330, 49), (1555, 50)]), 3);
        let rows = classic.percentiles();
        assert_eq!(rows.first().map(|r| (r.0, r.1, r.2)), Some((0.0, 0.167, 1)));
        assert!(rows.iter().any(|r| r.0 == 50.0 && r.1 == 0.335 && r.2 == 50));
        assert_eq!(rows.last().map(|r| (r.0, r.1, r.2)), Some((100.0, 1.559, 100)));
        let rows = classic.cumulative();
        assert_eq!(
            rows.iter().map(|r| (r.1, r.2)).collect::<Vec<_>>(),
            [(0.103, 0), (0.207, 1), (0.407, 50), (1.607, 100)]
        );
    }

    #[test]
    fn the_value_is_as_long_as_asked_and_printable() {
        let data = test_data(1000);
        assert!(data.len() == 1000 && data.iter().all(|b| (b'0'..=b'o').contains(b)));
    }
}
