//! The one table of options of `martlet bench`: redis-benchmark's, each with its meaning there, and ours.
//! Parser and help are derived from it.

pub use super::settings::Settings;
use crate::errln;
use crate::plan::{MAX_CONNECTIONS, MAX_DATA_BYTES, MAX_PIPELINE, MAX_THREADS};
use crate::process::process_cpu;
use crate::template::parse_dimension;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

/// A parsed command line.
pub enum Parsed {
    /// A run.
    Run(Box<Settings>),
    /// The help text.
    Help,
    /// The version.
    Version,
}

enum Take {
    Flag(fn(&mut Settings)),
    Value(&'static str, fn(&mut Settings, &str) -> Result<(), String>),
    /// Bytes for the server, unchanged.
    Bytes(&'static str, fn(&mut Settings, Vec<u8>)),
    File(&'static str, fn(&mut Settings, PathBuf)),
}

struct Option_ {
    name: &'static str,
    take: Take,
    doc: &'static str,
}

const fn flag(name: &'static str, take: fn(&mut Settings), doc: &'static str) -> Option_ {
    Option_ { name, take: Take::Flag(take), doc }
}

const fn value(
    name: &'static str,
    metavar: &'static str,
    take: fn(&mut Settings, &str) -> Result<(), String>,
    doc: &'static str,
) -> Option_ {
    Option_ { name, take: Take::Value(metavar, take), doc }
}

const fn bytes(
    name: &'static str,
    metavar: &'static str,
    take: fn(&mut Settings, Vec<u8>),
    doc: &'static str,
) -> Option_ {
    Option_ { name, take: Take::Bytes(metavar, take), doc }
}

const fn file(
    name: &'static str,
    metavar: &'static str,
    take: fn(&mut Settings, PathBuf),
    doc: &'static str,
) -> Option_ {
    Option_ { name, take: Take::File(metavar, take), doc }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number it can take"))
}

pub(super) fn between(text: &str, low: usize, high: usize) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(value) if (low..=high).contains(&value) => Ok(value),
        _ => Err(format!("'{text}' is not a number from {low} to {high}")),
    }
}

/// As redis-benchmark, reads values below 1 as 1; values above `high` are refused.
fn up_to(text: &str, high: usize) -> Result<usize, String> {
    match text.parse::<i64>() {
        Ok(..1) => Ok(1),
        _ => between(text, 1, high),
    }
}

/// `10s`, `500ms`, `2m`, or seconds without a unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let factor = match unit {
        "" | "s" => 1.0,
        "us" => 1e-6,
        "ms" => 1e-3,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("'{text}': not a unit; units are us, ms, s, m, h")),
    };
    match digits.parse::<f64>() {
        Ok(value) if value >= 0.0 && value * factor < 1e8 => Ok(Duration::from_secs_f64(value * factor)),
        _ => Err(format!("'{text}' is not a duration")),
    }
}

/// Whether a duration would be taken as seconds where they are hardly meant.
pub fn lacks_unit(text: &str) -> bool {
    text.ends_with(|c: char| c.is_ascii_digit())
}

/// `0,2-4` as 0, 2, 3, 4.
pub fn cores(text: &str) -> Result<Vec<usize>, String> {
    let mut all = Vec::new();
    for range in text.split(',').filter(|r| !r.is_empty()) {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let bad = || format!("Invalid cores range: {text}.");
        let (low, high): (usize, usize) = (low.parse().map_err(|_| bad())?, high.parse().map_err(|_| bad())?);
        if high >= 4096 {
            return Err(bad());
        }
        all.extend(low..=high);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

fn above_zero(text: &str) -> Result<u64, String> {
    number(text).ok().filter(|n| *n > 0).ok_or_else(|| format!("'{text}' is not a number above 0"))
}

/// A duration that something can be measured in.
pub fn run_time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.is_zero() { Err(format!("'{text}' leaves no time to measure in")) } else { Ok(time) }
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value),
        _ => Err(format!("'{text}' is no speed: a factor such as 2, or 0 for as fast as replies come")),
    }
}

/// Whether a rate can be kept at all.
pub fn is_possible_rate(rate: f64) -> bool {
    rate > 0.0 && rate <= 1e8
}

fn rate(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1e3),
        None => match text.strip_suffix(['m', 'M']) {
            Some(digits) => (digits, 1e6),
            None => (text, 1.0),
        },
    };
    match digits.parse::<f64>() {
        Ok(value) if is_possible_rate(value * factor) => Ok(value * factor),
        _ => Err(format!("'{text}' is no rate that can be kept: above 0 and at most 100,000,000 requests/s")),
    }
}

static OPTIONS: &[Option_] = &[
    value(
        "-h",
        "HOST",
        |s, v| {
            (s.host, s.address_given) = (v.into(), true);
            Ok(())
        },
        "server's name or address (127.0.0.1)",
    ),
    value(
        "-p",
        "PORT",
        |s, v| {
            s.port = number(v).map_err(|_| "Invalid server port.".to_string())?;
            s.address_given = true;
            Ok(())
        },
        "server's port (6379)",
    ),
    file(
        "-s",
        "SOCKET",
        |s, v| (s.socket, s.address_given) = (Some(v), true),
        "server's unix socket, instead of host and port",
    ),
    bytes("-a", "PASSWORD", |s, v| s.password = Some(v), "password to authenticate with"),
    bytes("--user", "NAME", |s, v| s.user = Some(v), "user to authenticate as; needs -a"),
    value("-u", "URI", super::target::apply_uri, "redis://USER:PASSWORD@HOST:PORT/DB; rediss:// for TLS"),
    value(
        "-c",
        "CLIENTS",
        |s, v| {
            (s.clients, s.clients_given) = (between(v, 1, MAX_CONNECTIONS)?, true);
            Ok(())
        },
        "connections (50)",
    ),
    value(
        "-n",
        "REQUESTS",
        |s, v| {
            s.requests = Some(above_zero(v)?);
            Ok(())
        },
        "requests (100000)",
    ),
    value(
        "-d",
        "BYTES",
        |s, v| {
            s.data_bytes = up_to(v, MAX_DATA_BYTES)?;
            Ok(())
        },
        "size of values (3)",
    ),
    value(
        "--dbnum",
        "DB",
        |s, v| {
            s.database = number(v)?;
            Ok(())
        },
        "database to select (0)",
    ),
    flag("-3", |s| s.resp3 = true, "speak RESP3"),
    value(
        "--threads",
        "N",
        |s, v| {
            let asked = number::<usize>(v)?;
            if asked > MAX_THREADS {
                errln!("WARNING: Too many threads, limiting threads to {MAX_THREADS}.");
            }
            s.threads = Some(asked.min(MAX_THREADS));
            Ok(())
        },
        "client threads (1)",
    ),
    flag(
        "--cluster",
        |s| s.cluster = true,
        "spread over a cluster's primaries; {tag} in a key is replaced by a tag of the node",
    ),
    flag("--enable-tracking", |s| s.tracking = true, "CLIENT TRACKING on, on each connection"),
    value(
        "-k",
        "BOOL",
        |s, v| {
            s.keep_alive = number::<i64>(v)? != 0;
            Ok(())
        },
        "1 keep connections, 0 reconnect after each reply (1)",
    ),
    value(
        "-r",
        "KEYS",
        |s, v| {
            s.keyspace = Some(number::<i64>(v)?.max(0) as u64);
            Ok(())
        },
        "replace __rand_int__ by 12 digits below KEYS",
    ),
    value(
        "-P",
        "DEPTH",
        |s, v| {
            s.pipeline = up_to(v, MAX_PIPELINE)?;
            Ok(())
        },
        "requests in flight per connection (1)",
    ),
    flag("-q", |s| s.quiet = true, "one line per test"),
    value(
        "--precision",
        "DIGITS",
        |s, v| {
            // As redis-benchmark.
            s.precision = match number::<i64>(v)? {
                ..0 => 3,
                digits => digits.clamp(1, 4) as u8,
            };
            Ok(())
        },
        "significant digits of latencies in the classic report (3)",
    ),
    flag("--csv", |s| s.csv = true, "CSV"),
    flag("-l", |s| s.repeat = true, "repeat until stopped"),
    value(
        "-t",
        "TESTS",
        |s, v| {
            s.tests = Some(v.to_lowercase().split(',').map(Into::into).collect());
            Ok(())
        },
        "comma-separated names of the tests to run",
    ),
    value(
        "--dimension",
        "N",
        |s, v| {
            s.dimension = parse_dimension(v)?;
            Ok(())
        },
        "components of the vectors of the tests vadd, vsim and those of search (128)",
    ),
    flag("-I", |s| s.idle = true, "only open connections and keep them"),
    flag("-x", |s| s.last_from_stdin = true, "read the last argument from standard input"),
    value(
        "--seed",
        "N",
        |s, v| {
            s.seed = Some(number(v)?);
            Ok(())
        },
        "seed of all random choices",
    ),
    flag(
        "--sequential",
        |s| s.sequential = true,
        "numbers below -r follow each other instead of being random",
    ),
    value(
        "--rps",
        "N",
        |s, v| {
            s.limit = if v == "0" { None } else { Some(rate(v)?) };
            Ok(())
        },
        "requests per second in total, as --rate, with the classic report (0: no limit)",
    ),
    flag(
        "-e",
        |_| {
            errln!(
                "WARNING: -e option has no effect. We now immediately exit on error to avoid false results."
            )
        },
        "ignored, as in redis-benchmark",
    ),
    flag("--tls", |s| s.tls = true, "TLS"),
    value(
        "--sni",
        "HOST",
        |s, v| {
            s.tls_options.sni = Some(v.into());
            Ok(())
        },
        "TLS: server name to ask for",
    ),
    file("--cacert", "FILE", |s, v| s.tls_options.ca_file = Some(v), "TLS: trusted roots"),
    file(
        "--cacertdir",
        "DIR",
        |s, v| s.tls_options.ca_directory = Some(v),
        "TLS: directory of trusted roots",
    ),
    flag("--insecure", |s| s.tls_options.insecure = true, "TLS: accept any certificate"),
    file("--cert", "FILE", |s, v| s.tls_options.certificate = Some(v), "TLS: client certificate"),
    file("--key", "FILE", |s, v| s.tls_options.key = Some(v), "TLS: client key"),
    value(
        "--tls-ciphers",
        "LIST",
        |s, v| {
            s.tls_options.ciphers = Some(v.into());
            Ok(())
        },
        "TLS 1.2 ciphers, by their OpenSSL names",
    ),
    value(
        "--tls-ciphersuites",
        "LIST",
        |s, v| {
            s.tls_options.cipher_suites = Some(v.into());
            Ok(())
        },
        "TLS 1.3 cipher suites",
    ),
    bytes(
        "--command",
        "[WEIGHT:]TEMPLATE",
        |s, v| s.templates.push(v),
        "a request such as 'SET {key zipfian 1000 0.99} {value 64}'; several make a mix",
    ),
    bytes("--load", "TEMPLATE", |s, v| s.load.push(v), "run this before, once over its sequence, unmeasured"),
    file("--workload", "FILE", |s, v| s.workload = Some(v), "TOML file of mixes, sessions and load phases"),
    file("--replay", "FILE", |s, v| s.replay = Some(v), "replay a MONITOR capture"),
    value(
        "--speed",
        "FACTOR",
        |s, v| {
            s.speed = Some(speed(v)?);
            Ok(())
        },
        "replay: times the capture's speed (1); 0 as fast as replies come",
    ),
    value(
        "--duration",
        "TIME",
        |s, v| {
            s.duration = Some(run_time(v)?);
            Ok(())
        },
        "run for a time such as 30s",
    ),
    value(
        "--warmup",
        "TIME",
        |s, v| {
            s.warmup = duration(v)?;
            Ok(())
        },
        "time at the start that is not measured",
    ),
    value(
        "--rate",
        "N",
        |s, v| {
            s.rate = Some(rate(v)?);
            Ok(())
        },
        "open loop: requests per second in total, 50k for 50,000; latency runs from when each is due",
    ),
    flag("--poisson", |s| s.poisson = true, "open loop: random instead of equal gaps"),
    value(
        "--spin",
        "TIME",
        |s, v| {
            let spin = duration(v)?;
            if !spin.is_zero() && lacks_unit(v) {
                return Err(format!("'{v}' needs a unit, as in '{v}us'"));
            }
            s.spin = Some(spin);
            Ok(())
        },
        "open loop: poll instead of sleeping this long before a request is due (60us, at most a quarter of the gap)",
    ),
    value(
        "--cores",
        "LIST",
        |s, v| {
            s.cores = cores(v)?;
            Ok(())
        },
        "cores to pin client threads to, as 0,2-4",
    ),
    value(
        "--source",
        "IPS",
        |s, v| {
            s.sources = v.split(',').map(number).collect::<Result<_, _>>()?;
            Ok(())
        },
        "addresses to connect from, in turn",
    ),
    flag("--epoll", |s| s.epoll = true, "do not use io_uring"),
    value(
        "--churn",
        "N",
        |s, v| {
            s.churn = number(v)?;
            Ok(())
        },
        "reconnect after N requests",
    ),
    flag("--reconnect", |s| s.survive = true, "open broken connections again and continue"),
    value(
        "--give-up",
        "TIME",
        |s, v| {
            s.give_up = Some(duration(v)?);
            Ok(())
        },
        "with --reconnect: end when no connection can be opened for this time (10s)",
    ),
    value(
        "--vs",
        "HOST:PORT",
        |s, v| {
            s.vs = Some(v.into());
            Ok(())
        },
        "compare with another server, A B A B",
    ),
    value(
        "--vs-start",
        "COMMAND",
        |s, v| {
            s.vs_start = Some(v.into());
            Ok(())
        },
        "compare with a server started for it, with the same configuration",
    ),
    value(
        "--rounds",
        "N",
        |s, v| {
            s.rounds = Some(between(v, 2, 1000)?);
            Ok(())
        },
        "pairs of a comparison (5)",
    ),
    value(
        "--require",
        "CONDITION",
        |s, v| {
            s.require.push(v.into());
            Ok(())
        },
        "fail unless it holds, as 'cpu_ratio>=1.4'",
    ),
    value(
        "--sweep",
        "NAME=LIST",
        |s, v| {
            s.sweeps.push(v.into());
            Ok(())
        },
        "repeat over connections, pipeline, payload or threads, as pipeline=1,8,16",
    ),
    value(
        "--slo",
        "CONDITION",
        |s, v| {
            s.slo.push(v.into());
            Ok(())
        },
        "find the highest rate that holds it, as 'p99<1ms'",
    ),
    flag("--verify", |s| s.verify = true, "check that reads return the last write"),
    flag("--hot-key", |s| s.hot_key = true, "all clients INCR one key -n times in total; the sum is checked"),
    file("--json", "FILE", |s, v| s.json = Some(v), "write the result as JSON"),
    file("--csv-file", "FILE", |s, v| s.csv_file = Some(v), "write seconds and commands as CSV"),
    file(
        "--hgrm",
        "FILE",
        |s, v| s.hgrm = Some(v),
        "write the latency distribution for HdrHistogram's plotter",
    ),
    file("--html", "FILE", |s, v| s.html = Some(v), "write one page with plots"),
    flag("--live", |s| s.live = true, "live view"),
    value(
        "--server-pid",
        "PID",
        |s, v| {
            let pid = number(v)?;
            if process_cpu(pid).is_none() {
                return Err(format!("there is no process {pid} on this machine"));
            }
            s.server_pid = Some(pid);
            Ok(())
        },
        "process to charge, when INFO does not tell",
    ),
];

/// Parses the arguments that follow the tool's name, `program`.
pub fn parse(program: &str, arguments: &[OsString]) -> Result<Parsed, String> {
    let valkey = program == "valkey-benchmark";
    let mut settings = Settings { valkey, sequence: valkey, ..Settings::default() };
    let mut rest = arguments.iter().map(|argument| argument.as_bytes());
    while let Some(argument) = rest.next() {
        match argument {
            b"--help" => return Ok(Parsed::Help),
            b"-v" | b"--version" => return Ok(Parsed::Version),
            b"--" => {
                settings.sequence = true;
                settings.command.extend(rest.map(<[u8]>::to_vec));
                break;
            }
            _ => {}
        }
        let (name, attached) =
            match memchr::memchr(b'=', argument).and_then(|at| argument.split_at_checked(at)) {
                Some((name, attached)) if name.starts_with(b"--") => (name, attached.get(1..)),
                _ => (argument, None),
            };
        let shown = String::from_utf8_lossy(argument);
        let invalid = || format!("Invalid option \"{shown}\" or option argument missing");
        let Some(option) = OPTIONS.iter().find(|option| option.name.as_bytes() == name) else {
            if argument.starts_with(b"-") {
                return Err(invalid());
            }
            settings.command.push(argument.to_vec());
            settings.command.extend(rest.map(<[u8]>::to_vec));
            break;
        };
        if let Take::Flag(take) = option.take {
            if attached.is_some() {
                return Err(invalid());
            }
            take(&mut settings);
            continue;
        }
        let value = attached.or_else(|| rest.next()).ok_or_else(invalid)?;
        take_value(&mut settings, option, value).map_err(|error| format!("{}: {error}", option.name))?;
    }
    check(&settings)?;
    Ok(Parsed::Run(Box::new(settings)))
}

fn take_value(settings: &mut Settings, option: &Option_, value: &[u8]) -> Result<(), String> {
    match option.take {
        Take::Flag(take) => take(settings),
        Take::Bytes(_, take) => take(settings, value.to_vec()),
        Take::File(_, take) => take(settings, OsStr::from_bytes(value).into()),
        Take::Value(_, take) => {
            let text = std::str::from_utf8(value);
            let text = text.map_err(|_| format!("'{}' is not UTF-8", String::from_utf8_lossy(value)))?;
            return take(settings, text);
        }
    }
    Ok(())
}

/// Refuses options behind the command: they would be sent.
fn check_order(s: &Settings) -> Result<(), String> {
    if let [command, rest @ ..] = s.command.as_slice() {
        let is_template = command.iter().any(u8::is_ascii_whitespace);
        let is_option = |word: &[u8]| {
            word.starts_with(b"--") && OPTIONS.iter().any(|option| option.name.as_bytes() == word)
        };
        // Of the classic tool's words all that follow the command are its arguments.
        if let Some(misplaced) = rest.iter().find(|word| is_template || s.is_own() && is_option(word)) {
            return Err(format!(
                "'{}' comes after the command '{}': options belong before it",
                String::from_utf8_lossy(misplaced),
                String::from_utf8_lossy(command)
            ));
        }
    }
    Ok(())
}

/// Refuses options that mean nothing without another one: given alone, they would silently do nothing.
fn check(s: &Settings) -> Result<(), String> {
    check_order(s)?;
    let compared = s.vs.is_some() || s.vs_start.is_some();
    let paced = s.rate.is_some() || s.workload.is_some() || !s.slo.is_empty();
    for (given, met, name, needed) in [
        (!s.require.is_empty(), compared, "--require", "--vs or --vs-start"),
        (s.rounds.is_some(), compared, "--rounds", "--vs or --vs-start"),
        (s.poisson, paced, "--poisson", "--rate"),
        (s.spin.is_some(), paced || s.replay.is_some(), "--spin", "--rate"),
        (s.speed.is_some(), s.replay.is_some(), "--speed", "--replay"),
        (s.sequential, s.keyspace.is_some(), "--sequential", "-r"),
        (s.give_up.is_some(), s.survive, "--give-up", "--reconnect"),
        (s.churn > 0, s.keep_alive, "--churn", "-k 1"),
    ] {
        if given && !met {
            return Err(format!("{name} means nothing without {needed}"));
        }
    }
    if s.valkey && s.requests.is_some() && s.duration.is_some() {
        return Err("Options -n and --duration are mutually exclusive".into());
    }
    if s.is_own() && (s.limit.is_some() || s.sequential) {
        let name = if s.sequential { "--sequential" } else { "--rps" };
        return Err(format!(
            "{name} belongs to the classic report: beside our own options there are --rate and {{key sequence N}}"
        ));
    }
    if s.is_own() && s.sequence && s.command.iter().any(|word| word == b";") {
        return Err("';' separates commands in the classic report only: give --command several times".into());
    }
    let paces = [(s.replay.is_some(), "--replay"), (s.verify, "--verify"), (s.hot_key, "--hot-key")];
    if let Some((_, name)) = paces.iter().find(|(given, _)| *given && s.rate.is_some()) {
        return Err(format!("--rate means nothing with {name}, which sets the pace itself"));
    }
    let kinds = [
        (s.verify, "--verify"),
        (s.hot_key, "--hot-key"),
        (compared, "--vs"),
        (!s.sweeps.is_empty(), "--sweep"),
        (!s.slo.is_empty(), "--slo"),
    ];
    let mut chosen = kinds.iter().filter(|(given, _)| *given).map(|(_, name)| *name);
    if let (Some(one), Some(other)) = (chosen.next(), chosen.next()) {
        return Err(format!("{one} and {other} are runs of different kinds: give one of them"));
    }
    let sources = [
        (s.workload.is_some(), "--workload"),
        (s.replay.is_some(), "--replay"),
        (!s.templates.is_empty(), "--command"),
        (!s.command.is_empty() && s.is_own(), "a command at the end"),
        // These two bring requests of their own.
        (s.verify, "--verify"),
        (s.hot_key, "--hot-key"),
    ];
    let mut chosen = sources.iter().filter(|(given, _)| *given).map(|(_, name)| *name);
    if let (Some(one), Some(other)) = (chosen.next(), chosen.next()) {
        return Err(format!("{one} and {other} both set the requests: give one of them"));
    }
    Ok(())
}

/// The words that call the tool by this name.
fn called(program: &str) -> &str {
    if program == "bench" { "martlet bench" } else { program }
}

/// How the tool is called, in short.
pub fn usage(program: &str) -> String {
    let program = called(program);
    format!("Usage: {program} [OPTIONS] [COMMAND ARGS...]   ({program} --help lists the options)")
}

/// The help text.
pub fn help(program: &str) -> String {
    let program = called(program);
    let mut text = format!(
        "Usage: {program} [OPTIONS] [COMMAND ARGS...]\n       martlet bench resp|report|null|calibrate|persistence|reproduce …   (each with --help)\n\nOptions:\n"
    );
    for option in OPTIONS {
        let left = match option.take {
            Take::Flag(_) => option.name.to_string(),
            Take::Value(metavar, _) | Take::Bytes(metavar, _) | Take::File(metavar, _) => {
                format!("{} {metavar}", option.name)
            }
        };
        text.push_str(&format!("  {left:<27} {}\n", option.doc));
    }
    text.push_str("  --help                      this text\n  --version                   the version\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_template_is_named() {
        let words = ["GET {key uniform 5}", "--json", "x"].map(OsString::from);
        assert!(parse("bench", &words).err().expect("bad").contains("'--json' comes after the command"));
        let misplaced = settings("--duration 1s PING --json x").expect_err("misplaced");
        assert!(misplaced.contains("'--json' comes after the command 'PING'"), "{misplaced}");
        assert!(settings("-n 5 SET a --csv").is_ok() && settings("--duration 1s SET a --").is_ok());
    }

    fn settings(line: &str) -> Result<Settings, String> {
        let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
        match parse("bench", &words)? {
            Parsed::Run(settings) => Ok(*settings),
            _ => Err("no run".into()),
        }
    }

    #[test]
    fn classic_lines_are_understood() {
        let s = settings("-h 10.0.0.1 -p 7 -t SET,lpush -n 100000 -r 5 -P 16 -q --csv -k 0").expect("valid");
        assert_eq!(
            (s.host.as_str(), s.port, s.requests, s.keyspace),
            ("10.0.0.1", 7, Some(100_000), Some(5))
        );
        assert_eq!(s.tests, Some(vec!["set".to_string(), "lpush".to_string()]));
        assert!(s.quiet && s.csv && !s.keep_alive && !s.is_own());
        let s = settings("-n 10 script load -q").expect("valid");
        assert_eq!(s.command, [&b"script"[..], b"load", b"-q"]);
    }

    /// Seen of redis-benchmark 7.0.15, which runs with each of these.
    #[test]
    fn numbers_that_redis_benchmark_corrects_are_corrected() {
        let s = settings("-P 0 -d -1 -r -1 --precision 9").expect("valid");
        assert_eq!((s.pipeline, s.data_bytes, s.keyspace, s.precision), (1, 1, Some(0), 4));
        assert_eq!(settings("--precision -2").expect("valid").precision, 3);
    }

    #[test]
    fn bad_arguments_are_named() {
        for (line, message) in [
            ("--foo", "Invalid option \"--foo\" or option argument missing"),
            ("-c", "Invalid option \"-c\" or option argument missing"),
            ("-c 0", "-c: '0' is not a number from 1 to"),
            ("-n x", "-n: 'x' is not"),
            ("-p 99999", "Invalid server port."),
            ("--rate 0", "--rate: '0' is no rate"),
            ("--rate -5", "is no rate"),
            ("--rate inf get", "is no rate"),
            ("-n 0", "-n: '0' is not a number above 0"),
            ("-P 100001", "-P: '100001' is not a number from 1 to 100000"),
            ("-d 1073741825", "-d: '1073741825' is not a number from 1 to 1073741824"),
            ("-P x", "-P: 'x' is not a number from 1 to 100000"),
            ("--give-up 5s get", "--give-up means nothing without --reconnect"),
            ("--churn 5 -k 0", "--churn means nothing without -k 1"),
            ("--duration 0", "--duration: '0' leaves no time"),
            ("--replay f --speed -1", "--speed: '-1' is no speed"),
            ("--speed 2", "--speed means nothing without --replay"),
            ("--poisson -t get", "--poisson means nothing without --rate"),
            ("--require cpu_ratio>=1", "--require means nothing without --vs"),
            ("--rounds 3 get", "--rounds means nothing without --vs"),
            ("--replay f --rate 5", "--rate means nothing with --replay"),
            ("--verify --rate 5", "--rate means nothing with --verify"),
            ("--hot-key --rate 5", "--rate means nothing with --hot-key"),
            ("--rate 5 --spin 5 get", "--spin: '5' needs a unit, as in '5us'"),
            ("--server-pid 0 get", "--server-pid: there is no process 0 on this machine"),
            ("--verify --hot-key", "--verify and --hot-key are runs of different kinds"),
            ("--hot-key GET k", "both set the requests"),
            ("--workload f --replay g", "--workload and --replay both set the requests"),
            ("--duration 5y", "unit"),
        ] {
            let error = settings(line).expect_err(line);
            assert!(error.contains(message), "{line}: {error}");
        }
    }

    /// Arguments for the server and names of files are bytes; options that need text refuse other bytes.
    #[test]
    fn arguments_are_bytes() {
        let os = |bytes: &[u8]| OsStr::from_bytes(bytes).to_os_string();
        let parsed = |words: &[&[u8]]| match parse("bench", &words.iter().map(|w| os(w)).collect::<Vec<_>>())
        {
            Ok(Parsed::Run(settings)) => Ok(*settings),
            Ok(_) => Err("no run".into()),
            Err(error) => Err(error),
        };
        let s = parsed(&[b"-a", b"\xfe", b"--user=\xfd", b"--json", b"\xff", b"SET", b"k\xff", b"\xc3"]);
        let s = s.expect("valid");
        assert_eq!((s.password, s.user), (Some(vec![0xfe]), Some(vec![0xfd])));
        assert_eq!(s.json, Some(PathBuf::from(os(b"\xff"))));
        assert_eq!(s.command, [&b"SET"[..], b"k\xff", b"\xc3"]);
        let s = parsed(&[b"--load", b"SET \xff x", b"--command=9:GET k\xff"]).expect("valid");
        assert_eq!((s.load, s.templates), (vec![b"SET \xff x".to_vec()], vec![b"9:GET k\xff".to_vec()]));
        let s = parsed(&[b"--", b"SET", b"\xff", b"v"]).expect("valid");
        assert_eq!(s.command, [&b"SET"[..], b"\xff", b"v"]);
        for name in ["-h", "-p", "-c", "--rate", "-t", "--sni", "--vs", "--slo"] {
            let error = parsed(&[name.as_bytes(), b"1\xff"]).expect_err(name);
            assert_eq!(error, format!("{name}: '1\u{fffd}' is not UTF-8"));
        }
        let error = parsed(&[b"-\xff"]).expect_err("no option");
        assert_eq!(error, "Invalid option \"-\u{fffd}\" or option argument missing");
    }

    #[test]
    fn durations_rates_and_cores() {
        assert_eq!(duration("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(rate("50k"), Ok(50_000.0));
        assert_eq!(cores("0,2-4"), Ok(vec![0, 2, 3, 4]));
        assert!(cores("a-b").is_err());
    }
}
