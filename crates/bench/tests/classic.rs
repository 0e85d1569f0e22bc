//! The classic command line beside redis-benchmark itself, against a real redis-server: one parser reads the
//! output of both, and its results must be the same but for the numbers. Without Redis' programs these tests
//! say so and pass.

use crate::common::{self, calls};
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::Server;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const OURS: &str = env!("CARGO_BIN_EXE_martlet-bench");
const THEIRS: &str = "redis-benchmark";

fn server() -> Option<Server> {
    let installed = is_installed("redis-server") && is_installed(THEIRS);
    installed.then(|| Server::start(Path::new("redis-server"), &[] as &[&str]).expect("redis-server starts"))
}

fn run(program: &str, address: &[&str], line: &str, input: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "120", program]).args(address).args(line.split_whitespace());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    // A tool that reads nothing may be gone already.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    child.wait_with_output().expect("ends")
}

/// One test of a run, however it was printed.
#[derive(Debug, Default, PartialEq)]
struct Parsed {
    title: String,
    rate: f64,
    /// Names and milliseconds, where the form has them.
    latencies: Vec<(String, f64)>,
    /// The report's lines, each number made `#`, repeated shapes left out.
    shape: Vec<String>,
}

/// Reads `-q`, `--csv` and the long report.
fn parse(output: &str) -> Vec<Parsed> {
    let mut all: Vec<Parsed> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    // Text before a carriage return was overwritten on the terminal.
    for line in output.split('\n').map(|line| line.rsplit('\r').next().unwrap_or(line).trim_end()) {
        if let Some((title, rest)) = line.trim_start().split_once(": ")
            && let Some((rate, p50)) = rest.split_once(" requests per second, p50=")
        {
            let p50 = p50.strip_suffix(" msec").expect("milliseconds").parse().expect("a number");
            let latencies = vec![("p50".to_string(), p50)];
            all.push(Parsed { title: title.into(), rate: number(rate), latencies, ..Parsed::default() });
        } else if line.starts_with("\"test\",\"rps\"") {
            names = line.split(',').skip(2).map(|name| name.trim_matches('"').into()).collect();
        } else if line.starts_with('"') {
            let fields: Vec<&str> = line.trim_matches('"').split("\",\"").collect();
            assert_eq!(fields.len(), names.len() + 2, "{line}");
            let latencies =
                names.iter().cloned().zip(fields[2..].iter().map(|field| number(field))).collect();
            all.push(Parsed {
                title: fields[0].into(),
                rate: number(fields[1]),
                latencies,
                ..Parsed::default()
            });
        } else if let Some(title) = line.trim_start().strip_prefix("====== ") {
            let title = title.strip_suffix(" ======").expect("closed").into();
            all.push(Parsed { title, ..Parsed::default() });
        } else if let Some(last) = all.last_mut().filter(|_| names.is_empty()) {
            read_report_line(line, last);
        }
    }
    all
}

fn read_report_line(line: &str, report: &mut Parsed) {
    let words: Vec<&str> = line.split_whitespace().collect();
    if let ["throughput", "summary:", rate, ..] = words[..] {
        report.rate = number(rate);
    } else if report.shape.last().is_some_and(|before| before.contains("avg")) && words.len() == 6 {
        let names = ["avg", "min", "p50", "p95", "p99", "max"];
        report.latencies = names.iter().map(|n| n.to_string()).zip(words.iter().map(|w| number(w))).collect();
    }
    let shape: Vec<String> = words
        .iter()
        .map(|word| {
            // redis-benchmark's rate of a run that took less than a millisecond is `inf`.
            let is_number = word.starts_with(|c: char| c.is_ascii_digit()) || *word == "inf";
            if is_number { "#".into() } else { word.to_string() }
        })
        .collect();
    let shape = shape.join(" ");
    // The blank line that ends the whole run belongs to no test.
    if !shape.is_empty() && report.shape.last() != Some(&shape) {
        report.shape.push(shape);
    }
}

fn number(text: &str) -> f64 {
    text.trim().parse().unwrap_or_else(|_| panic!("'{text}' is no number"))
}

/// Runs both and compares: exit code, tests, shape; every number must be one that can be.
fn compare(address: &[&str], line: &str, input: &str) {
    let [theirs, ours] = [THEIRS, OURS].map(|program| run(program, address, line, input));
    let [theirs_text, ours_text] =
        [&theirs, &ours].map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let shown = || {
        format!("{line}\ntheirs: {theirs_text}\nours: {ours_text}{}", String::from_utf8_lossy(&ours.stderr))
    };
    assert_eq!(ours.status.code(), theirs.status.code(), "{}", shown());
    let (theirs, mut ours) = (parse(&theirs_text), parse(&ours_text));
    // A test that Debian's redis-benchmark does not have yet.
    ours.retain(|test| test.title != "XADD" || theirs.iter().any(|their| their.title == "XADD"));
    assert!(!ours.is_empty(), "{}", shown());
    assert_eq!(ours.len(), theirs.len(), "{}", shown());
    for (own, their) in ours.iter().zip(&theirs) {
        assert_eq!((&own.title, &own.shape), (&their.title, &their.shape), "{}", shown());
        let names = |parsed: &Parsed| parsed.latencies.iter().map(|l| l.0.clone()).collect::<Vec<_>>();
        assert_eq!(names(own), names(their), "{}", shown());
        assert!(own.rate > 0.0 && own.latencies.iter().all(|l| l.1 >= 0.0), "{}", shown());
    }
}

#[test]
fn every_option_prints_what_redis_benchmark_prints() {
    let Some(server) = server() else { return };
    let port = server.address().port().to_string();
    for line in [
        "-n 100 -q",
        "-n 100 --csv",
        "-n 100 -c 5",
        "-n 100 -q -P 4 -r 10",
        "-n 100 -t set,lpush -d 100",
        "-n 100 -t ping,set --threads 2",
        "-n 100 -t get -k 0",
        "-n 100 -t set -3 --dbnum 3",
        "-n 100 -t get -q --enable-tracking",
        "-n 100 -t get --precision 2",
        "-n 100 -t lrange_100,mset,PING_INLINE -q -e",
        "-n 100 -t lrange --csv",
        "-n 100 -q incr counter:__rand_int__",
        "-n 100 -r 50 lpush mylist __rand_int__",
        "-n 100 --csv script load return",
        "-n 100 -t nosuchtest,get -q",
    ] {
        compare(&["-h", "127.0.0.1", "-p", &port], line, "");
    }
    compare(&["-p", &port], "-n 100 -q -x set fed", "from standard input");
    let uri = format!("redis://127.0.0.1:{port}/2");
    compare(&["-u", &uri], "-n 100 -t set -q", "");
}

#[test]
fn a_unix_socket_and_a_password_serve_as_well() {
    if server().is_none() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("socket").to_string_lossy().into_owned();
    let arguments = ["--unixsocket", &socket, "--user", "me", "on", ">secret", "~*", "&*", "+@all"];
    let _server = Server::start(Path::new("redis-server"), &arguments).expect("redis-server starts");
    compare(&["-s", &socket], "-n 100 -t set,get -q", "");
    compare(&["-s", &socket], "-n 100 -t set -q --user me -a secret", "");
    for program in [THEIRS, OURS] {
        let output = run(program, &["-s", &socket], "-n 100 -t set -q --user me -a wrong", "");
        assert_eq!(output.status.code(), Some(1), "{program}");
        let text =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("WRONGPASS invalid username-password pair"), "{program}: {text}");
    }
}

#[test]
fn errors_and_exit_codes_are_the_same() {
    let Some(server) = server() else { return };
    let port = server.address().port().to_string();
    for (line, expected) in [
        ("-n 100 -q nosuchcommand", "unknown command 'nosuchcommand'"),
        ("-n 100 -q incr", "wrong number of arguments for 'incr' command"),
        ("-n 100 -q -t set --dbnum 99", "DB index is out of range"),
        ("--nosuchoption", "Invalid option \"--nosuchoption\" or option argument missing"),
        ("-c", "Invalid option \"-c\" or option argument missing"),
        ("-c 1 -n 1 -t ping_mbulk --threads 501", "WARNING: Too many threads, limiting threads to 500."),
        ("--help", "Usage: "),
    ] {
        let [theirs, ours] = [THEIRS, OURS].map(|program| run(program, &["-p", &port], line, ""));
        assert_eq!(ours.status.code(), theirs.status.code(), "{line}");
        for output in [&theirs, &ours] {
            let text = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            assert!(text.contains(expected), "{line}: {text}");
        }
    }
}

#[test]
fn the_tests_do_to_the_server_what_redis_benchmarks_do() {
    let Some(server) = server() else { return };
    let port = server.address().port().to_string();
    let mut seen = Vec::new();
    for program in [THEIRS, OURS] {
        let cli = |line: &str| common::cli(&port, &line.split(' ').collect::<Vec<_>>());
        cli("flushall");
        cli("config resetstat");
        let output = run(program, &["-p", &port], "-n 64 -P 4 -r 2 -d 10 -q", "");
        assert!(output.status.success());
        let calls: Vec<String> = cli("info commandstats")
            .lines()
            .filter(|line| !["config", "info", "flushall"].iter().any(|name| line.contains(name)))
            .map(|line| line.split(",usec").next().unwrap_or(line).to_string())
            .collect();
        let lengths: Vec<String> = [
            "type key:000000000001",
            "type counter:000000000001",
            "strlen key:000000000001",
            "type myhash",
            "type mystream",
            "xlen mystream",
        ]
        .map(cli)
        .into();
        seen.push((calls, lengths));
    }
    let ours = seen.pop().expect("two");
    // redis-benchmark 7.0 has no XADD test; this one cannot be compared.
    let without_xadd: Vec<&String> = ours.0.iter().filter(|line| !line.contains("xadd")).collect();
    assert_eq!(without_xadd, seen[0].0.iter().filter(|line| !line.contains("xadd")).collect::<Vec<_>>());
    assert_eq!(ours.1[..4], seen[0].1[..4]);
}

/// What Valkey's own suite asks of valkey-benchmark's newer words.
#[test]
fn valkey_benchmarks_words_do_what_its_suite_expects() {
    let Some(server) = server() else { return };
    let port = server.address().port().to_string();
    let cli = |line: &str| common::cli(&port, &line.split(' ').collect::<Vec<_>>());
    let bench = |line: &str| {
        cli("flushall");
        cli("config resetstat");
        let output = run(OURS, &["-p", &port, "-q"], line, "");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    };
    bench("-n 12 -- incr foo ; 3 incr bar");
    assert_eq!((cli("get foo"), cli("get bar"), calls(&port, "incr")), ("3".into(), "9".into(), 12));
    bench("-n 1 -d 42 -- set k value:__data__");
    assert_eq!(cli("strlen k"), "48");
    bench("-r 50 -t set -n 50 --sequential");
    assert_eq!((cli("dbsize"), calls(&port, "set")), ("50".into(), 50));
    bench("-r 50 -n 1000 --sequential -- set j__rand_int__ rain ; set k__rand_1st__ rain");
    assert_eq!((cli("dbsize"), calls(&port, "set")), ("100".into(), 1000));
    bench("-r 100 -n 100 --sequential -- set rain__rand_int__ rain__rand_int__");
    assert_eq!((cli("dbsize"), cli("get rain000000000042")), ("50".into(), "rain000000000043".into()));
    bench("-r 100 -n 100 -P 5 --threads 2 --sequential -- set rain__rand_1st__ rain__rand_1st__");
    assert_eq!((cli("dbsize"), cli("get rain000000000042")), ("100".into(), "rain000000000042".into()));
    bench("-r 50 -n 50 --sequential -t zadd");
    assert_eq!((cli("dbsize"), cli("zcard myzset"), calls(&port, "zadd")), ("1".into(), "50".into(), 50));
    bench("-n 8 -P 2 -- multi ; set a __data__ ; incr n ; exec");
    assert_eq!((cli("get n"), calls(&port, "exec")), ("2".into(), 2));
    bench("-n 8 -k 0 -- set a 1 ; incr a");
    assert_eq!(calls(&port, "incr"), 4);
}

#[test]
fn a_limited_rate_keeps_the_classic_report() {
    let Some(server) = server() else { return };
    let port = server.address().port().to_string();
    let limited = run(OURS, &["-p", &port], "-n 100 -t set --rps 200", "");
    let free = run(OURS, &["-p", &port], "-n 100 -t set", "");
    let [limited, free] = [limited, free].map(|output| parse(&String::from_utf8_lossy(&output.stdout)));
    assert_eq!(limited[0].shape, free[0].shape);
    // 100 requests at 200 per second: the last is due after 495 ms, however fast the server is.
    assert!(limited[0].rate < 203.0, "{}", limited[0].rate);
}

#[test]
fn called_valkey_benchmark_durations_are_classic() {
    let Some(server) = server() else { return };
    let port = server.address().port().to_string();
    let directory = tempfile::tempdir().expect("a directory");
    let link = directory.path().join("valkey-benchmark");
    std::os::unix::fs::symlink(OURS, &link).expect("a link");
    let link = link.to_string_lossy();
    let output = run(&link, &["-p", &port], "-t set,get --warmup 0.2 --duration 0.5", "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let seconds: Vec<f64> = text
        .lines()
        .filter_map(|line| line.trim().split_once(" requests completed in "))
        .map(|(_, rest)| number(rest.trim_end_matches(" seconds")))
        .collect();
    assert!(output.status.success() && seconds.len() == 2, "{text}");
    assert!(seconds.iter().all(|s| (0.4..5.0).contains(s)), "{seconds:?}");
    let output = run(&link, &["-p", &port], "-n 10 -q SET a 1 ; GET a", "");
    assert!(String::from_utf8_lossy(&output.stdout).contains("SET a 1 ; GET a: "), "{output:?}");
    let output = run(&link, &["-p", &port], "-n 5 --duration 1 -t set", "");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("Options -n and --duration are mutually exclusive")
    );
    assert_ne!(output.status.code(), Some(0));
}
