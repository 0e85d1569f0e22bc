//! `./x tools`: Redis' own tools and resp-benchmark against a server: every mode of redis-cli and
//! redis-benchmark that needs neither scripts, replication nor a cluster, and the white paper's command
//! lines. A check passes when the tool ends well with the output that it has against Redis. Everything on the
//! server is flushed.

use crate::clients::for_each_configuration;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use xtask::run::{Outcome, is_installed, root, step};

/// Which server.
#[derive(clap::Args)]
pub struct Options {
    /// The port of a running server; without it our own is toured in each of its configurations.
    #[arg(long)]
    port: Option<u16>,
    /// Only checks whose line contains this.
    only: Option<String>,
}

/// One run of a tool: its command line after host and port, its input, and required parts of its output.
struct Check {
    program: &'static str,
    line: &'static str,
    input: &'static str,
    /// Interrupted (SIGINT) after this many seconds, once the required output is there; 0 if it ends by
    /// itself.
    seconds: u32,
    expects: &'static [&'static str],
}

/// A redis-cli run that ends by itself.
const fn cli(line: &'static str, expects: &'static [&'static str]) -> Check {
    Check { program: "redis-cli", line, input: "", seconds: 0, expects }
}

/// A redis-cli run that reads its standard input.
const fn piped(line: &'static str, input: &'static str, expects: &'static [&'static str]) -> Check {
    Check { program: "redis-cli", line, input, seconds: 0, expects }
}

/// A redis-cli run that lasts until it is interrupted.
const fn watched(line: &'static str, expects: &'static [&'static str]) -> Check {
    Check { program: "redis-cli", line, input: "", seconds: 2, expects }
}

/// A redis-benchmark run.
const fn load(line: &'static str, expects: &'static [&'static str]) -> Check {
    Check { program: "redis-benchmark", line, input: "", seconds: 0, expects }
}

/// A resp-benchmark run.
const fn resp(line: &'static str, expects: &'static [&'static str]) -> Check {
    Check { program: "resp-benchmark", line, input: "", seconds: 0, expects }
}

const PIPED_PROTOCOL: &str = "*3\r\n$3\r\nSET\r\n$2\r\npk\r\n$1\r\n1\r\n*2\r\n$4\r\nINCR\r\n$2\r\npk\r\n";
const SESSION: &str =
    "set a b\nget a\nmulti\nset x y\nget x\nexec\nselect 3\ndbsize\nhello 3\nhset h f v\nhgetall h\n";

/// redis-cli in all its modes.
const CLI: &[Check] = &[
    cli("flushall", &["OK"]),
    cli("debug populate 1000 key 10", &["OK"]),
    cli("rpush list 1 2 3 4 5", &["5"]),
    cli("hset hash a 1 b 2", &["2"]),
    cli("sadd set a b c", &["3"]),
    cli("zadd zset 1 a 2 b", &["2"]),
    watched("--stat -i 0.5", &["keys", "requests", "1004"]),
    cli(
        "--bigkeys",
        &[
            "Sampled 1004 keys",
            "Biggest   list found '\"list\"' has 5 items",
            "1000 strings with 10000 bytes",
        ],
    ),
    cli("--memkeys", &["Sampled 1004 keys", "Biggest   list found '\"list\"' has"]),
    cli("config set maxmemory-policy allkeys-lfu", &["OK"]),
    cli("--hotkeys", &["Sampled 1004 keys"]),
    cli("config set maxmemory-policy noeviction", &["OK"]),
    cli("--scan --pattern *se*", &["set", "zset"]),
    cli("--scan --pattern key:1", &["key:1\n"]),
    watched("--latency --raw", &["."]),
    watched("--latency-history -i 1", &["0."]),
    watched("--latency-dist -i 1", &["From 0 to 100%"]),
    piped("--pipe", PIPED_PROTOCOL, &["errors: 0, replies: 2"]),
    piped("--pipe", "SET a b\r\nSET c d\r\n", &["errors: 0, replies: 2"]),
    cli("-r 3 -i 0.05 incr counter", &["1\n2\n3\n"]),
    piped("-x set fed", "from standard input", &["OK"]),
    piped("-X TAG set tagged TAG", "by its tag", &["OK"]),
    cli("mget fed tagged", &["from standard input\nby its tag\n"]),
    cli("--csv lrange list 0 2", &["\"1\",\"2\",\"3\""]),
    cli("--json hgetall hash", &["{\"a\":\"1\",\"b\":\"2\"}"]),
    cli("-3 --no-raw zrange zset 0 -1 withscores", &["1) 1) \"a\"\n   2) (double) 1"]),
    cli("-d | --raw lrange list 0 2", &["1|2|3"]),
    cli("-n 3 set k v", &["OK"]),
    cli("-n 3 dbsize", &["1"]),
    piped("", SESSION, &["OK\nb\nOK\nQUEUED\nQUEUED\nOK\ny\nOK\n1\n", "f v"]),
    watched("monitor", &["OK"]),
    cli("role", &["master"]),
    cli("lolwut", &["Redis ver."]),
    cli("cluster info", &["ERR This instance has cluster support disabled"]),
];

/// The tests that redis-benchmark 7.0 runs when none is named.
const ALL_TESTS: &[&str] = &[
    "PING_INLINE",
    "PING_MBULK",
    "SET",
    "GET",
    "INCR",
    "LPUSH",
    "RPUSH",
    "LPOP",
    "RPOP",
    "SADD",
    "HSET",
    "SPOP",
    "ZADD",
    "ZPOPMIN",
    "LPUSH (needed to benchmark LRANGE)",
    "LRANGE_100",
    "LRANGE_300",
    "LRANGE_500",
    "LRANGE_600",
    "MSET (10 keys)",
];
const RATE: &[&str] = &["requests per second"];

/// redis-benchmark in all its modes.
const LOAD: &[Check] = &[
    load("-n 1000 -q", ALL_TESTS),
    load("-n 2000 -q -P 16 -r 1000", ALL_TESTS),
    load("-n 2000 --csv --threads 2", ALL_TESTS),
    load("-n 1000 -q -3", ALL_TESTS),
    load("-n 1000 -q -k 0 -t ping,set,get", &["PING_INLINE", "SET", "GET"]),
    load("-n 2000 -q -d 5000 -t set,get", RATE),
    load("-n 1000 -q --dbnum 3 -t set", RATE),
    load("-n 2000 -q -c 1000 -t set", RATE),
    load("-n 2000 -q -r 1000 -P 4 --threads 2 hset h__rand_int__ f v", RATE),
    load("-n 1000 -t set,get --precision 3", &["latency summary (msec)", "50 parallel clients"]),
    load("-n 1000 -q --enable-tracking -t get", RATE),
    Check { input: "value", ..load("-n 1000 -q -x set k", RATE) },
    Check { seconds: 2, ..load("-I -c 500", &["Creating 500 idle connections"]) },
    Check { seconds: 2, ..load("-n 2000 -l -q -t set", RATE) },
];

/// The white paper's lines, a second each; their data was loaded by the line before.
const WHITE_PAPER: &[Check] = &[
    resp("--load -c 256 -P 10 -n 10000 SET {key uniform 10000000} {value 64}", &["Data loaded"]),
    resp("-s 1 SET {key uniform 10000000} {value 64}", &["qps"]),
    resp("--load -c 256 -P 10 -n 10000 SET {key sequence 10000000} {value 64}", &["Data loaded"]),
    resp("-s 1 GET {key uniform 10000000}", &["qps"]),
    cli("flushall", &["OK"]),
    resp(
        "--load -c 256 -P 10 -n 10000 ZADD {key sequence 1000} {rand 70000} {key sequence 10007}",
        &["Data loaded"],
    ),
    resp("-s 1 ZADD {key uniform 1000} {rand 70000} {key uniform 10000}", &["qps"]),
    resp("-s 1 ZSCORE {key uniform 1000} {key uniform 10007}", &["qps"]),
    cli("flushall", &["OK"]),
    resp(
        "--load -c 256 -P 10 -n 10000 HSET {key sequence 1000} {key sequence 10007} {value 64}",
        &["Data loaded"],
    ),
    resp("-s 1 HSET {key uniform 1000} {key uniform 10000} {value 64}", &["qps"]),
    resp("-s 1 HGET {key uniform 1000} {key uniform 10007}", &["qps"]),
    cli("flushall", &["OK"]),
    resp("--load -c 256 -P 10 -n 10000 LPUSH {key uniform 1000} {value 64}", &["Data loaded"]),
    resp("-s 1 LPUSH {key uniform 1000} {value 64}", &["qps"]),
    resp("-s 1 LINDEX {key uniform 1000} {rand 10000}", &["qps"]),
    cli("flushall", &["OK"]),
    resp("--load -c 256 -P 10 -n 10000 SADD {key sequence 1000} {key sequence 10007}", &["Data loaded"]),
    resp("-s 1 SADD {key uniform 1000} {value 64}", &["qps"]),
    resp("-s 1 SISMEMBER {key uniform 1000} {key uniform 10007}", &["qps"]),
    cli("flushall", &["OK"]),
];

/// All tools, against the given server or against ours in every configuration.
pub fn run(options: &Options) -> Outcome {
    let mut checks: Vec<&Check> = CLI.iter().chain(LOAD).collect();
    if prepare_resp_benchmark()? {
        checks.extend(WHITE_PAPER);
    }
    if let Some(only) = &options.only {
        checks.retain(|check| format!("{} {}", check.program, check.line).contains(only.as_str()));
        if checks.is_empty() {
            return Err(format!("no check has '{only}' in its line").into());
        }
    }
    if let Some(port) = options.port {
        return run_checks(&checks, &port.to_string());
    }
    for_each_configuration(|port| run_checks(&checks, port))
}

/// What `./x ci` runs: redis-cli and redis-benchmark.
pub fn quick(port: &str) -> Outcome {
    run_checks(&CLI.iter().chain(LOAD).collect::<Vec<_>>(), port)
}

/// Installs resp-benchmark 0.1.7 below `target/`; false, with a word, where there is no Python.
pub fn prepare_resp_benchmark() -> Result<bool, Box<dyn std::error::Error>> {
    if !is_installed("python3", "--version") {
        eprintln!("x: python3 is NOT installed; resp-benchmark is left out");
        return Ok(false);
    }
    let environment = tools_environment();
    if !environment.join("bin/resp-benchmark").exists() {
        step(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        let pip = environment.join("bin/pip");
        step(Command::new(pip).args(["install", "-q", "resp-benchmark==0.1.7"]))?;
    }
    Ok(true)
}

/// Where it is installed.
pub fn tools_environment() -> PathBuf {
    root().join("target/tools")
}

/// Runs the checks in order; one that fails does not keep the others from running.
fn run_checks(checks: &[&Check], port: &str) -> Outcome {
    let mut failed = 0;
    for check in checks {
        if !is_installed("redis-cli", "--version") && check.program != "resp-benchmark" {
            return Err("Redis' tools are not installed (apt-get install redis-tools)".into());
        }
        let output = run_check(check, port)?;
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let missing: Vec<_> = check.expects.iter().filter(|expected| !text.contains(**expected)).collect();
        let ended_well = output.status.success() || check.seconds > 0;
        if ended_well && missing.is_empty() {
            println!("ok      {} {}", check.program, check.line);
        } else {
            failed += 1;
            println!(
                "FAILED  {} {}: {}; not in its output: {missing:?}\n{text}",
                check.program, check.line, output.status
            );
        }
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} of {} checks failed", checks.len()).into()) }
}

/// Runs a tool to its end, or until it is interrupted.
fn run_check(check: &Check, port: &str) -> std::io::Result<Output> {
    let program = match check.program {
        "resp-benchmark" => tools_environment().join("bin/resp-benchmark"),
        name => PathBuf::from(name),
    };
    let mut command = match check.seconds {
        0 => Command::new("timeout"),
        // Its output must be written before it ends.
        _ => Command::new("stdbuf"),
    };
    command.arg(if check.seconds == 0 { "120" } else { "-o0" }).arg(program).args(["-p", port]);
    if check.program == "resp-benchmark" {
        // The template is one argument.
        let at = check.line.find(|c: char| c.is_ascii_uppercase() && c != 'P').unwrap_or(check.line.len());
        command.args(check.line[..at].split_whitespace()).arg(&check.line[at..]);
    } else {
        command.args(check.line.split_whitespace());
    }
    if check.seconds > 0 {
        return watch(&mut command, check);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A tool that reads nothing may be gone already.
        let _ = input.write_all(check.input.as_bytes());
    }
    child.wait_with_output()
}

/// Runs a tool that does not end by itself: for the check's seconds, and on until the required output is
/// there, a minute at most. A tool that does not end soon after the interrupt is killed.
fn watch(command: &mut Command, check: &Check) -> std::io::Result<Output> {
    let (most, end, step) = (Duration::from_secs(60), Duration::from_secs(2), Duration::from_millis(20));
    let path = root().join("target/watched.txt");
    let file = File::create(&path)?;
    let mut child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?;
    let began = Instant::now();
    let mut interrupted: Option<Instant> = None;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let said = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        let is_due = began.elapsed() >= Duration::from_secs(check.seconds.into())
            && check.expects.iter().all(|expected| said.contains(expected));
        if began.elapsed() > most || interrupted.is_some_and(|at| at.elapsed() > end) {
            child.kill()?;
        } else if is_due && interrupted.is_none() {
            kill_process(Pid::from_child(&child), Signal::INT)?;
            interrupted = Some(Instant::now());
        }
        std::thread::sleep(step);
    };
    Ok(Output { status, stdout: std::fs::read(&path)?, stderr: Vec::new() })
}
