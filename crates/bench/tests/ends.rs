//! The end of a run and its figures: late and absent replies, runs of misses or of errors alone. The servers
//! are the tests' own, so that the right figures are known.

use crate::common::{Answer, Stub, report, said, tool};
use serde_json::Value;
use std::time::Duration;

const PONG: &str = "+PONG\r\n";

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Requests of all pairs of the first command's histogram, and its longest latency in milliseconds.
fn latencies(report: &Value) -> (u64, f64) {
    let pairs = report["commands"][0]["histogram"].as_array().cloned().unwrap_or_default();
    let longest = pairs.last().and_then(|pair| pair[0].as_f64()).unwrap_or_default();
    (pairs.iter().map(|pair| whole(&pair[1])).sum(), longest / 1e6)
}

/// A server that takes longer for one request than the run has left: replies that it delays come after the
/// end. They are in the latencies, and in neither the rate nor the seconds.
#[test]
fn replies_that_come_after_the_end_are_in_no_rate() {
    let directory = tempfile::tempdir().expect("a directory");
    let capture = directory.path().join("capture.txt").to_string_lossy().into_owned();
    let line = |n: u32| format!("{}.{:06} [0 127.0.0.1:9] \"PING\"\n", n / 1000, n % 1000 * 1000);
    std::fs::write(&capture, (0..3000).map(line).collect::<String>()).expect("written");
    // The requests that are due within the time, where the plan decides that.
    for (arguments, due) in [
        (&["--rate", "1000", "-c", "1", "--command", "PING"][..], Some(500)),
        (&["--rate", "1000", "-c", "1", "-P", "8", "--command", "PING"], Some(500)),
        (&["--rate", "1000", "-c", "1", "--epoll", "--command", "PING"], Some(500)),
        (&["--rate", "1000", "-c", "1", "--warmup", "5ms", "--command", "PING"], None),
        (&["--rate", "1000", "-c", "2", "--threads", "2", "--command", "PING"], Some(500)),
        (&["-c", "1", "--replay", &capture], Some(500)),
        (&["-c", "1", "--command", "PING"], None),
        (&["-c", "4", "-P", "2", "--threads", "2", "--command", "PING"], None),
    ] {
        let stub = Stub::start(|_, number| match number {
            20 => Answer::After(Duration::from_millis(1500), PONG.into()),
            _ => PONG.into(),
        });
        let (code, text, json) = report(&[&["-p", &stub.port, "--duration", "500ms"], arguments].concat());
        assert_eq!(code, Some(0), "{arguments:?}: {text}");
        let (requests, late, lost) = (whole(&json["requests"]), whole(&json["late"]), whole(&json["lost"]));
        let in_seconds: u64 =
            json["seconds"].as_array().into_iter().flatten().map(|row| whole(&row["requests"])).sum();
        let (counted, longest_ms) = latencies(&json);
        assert!(late > 0 && text.contains(&format!("late: {late} requests")), "{arguments:?}: {text}");
        assert_eq!((counted, in_seconds), (requests, requests - late), "{arguments:?}: {text}");
        assert_eq!(json["commands"][0]["late"], late, "{arguments:?}");
        assert_eq!(json["elapsed_s"], 0.5, "{arguments:?}");
        let rate = json["rate"].as_f64().unwrap_or_default();
        assert!((rate * 0.5 - (requests - late) as f64).abs() < 1e-6, "{arguments:?}: {rate}");
        assert!(longest_ms > 1400.0, "{arguments:?}: {longest_ms} ms");
        assert!(due.is_none_or(|due| requests + lost == due), "{arguments:?}: {requests} and {lost}");
        let one_connection = arguments.windows(2).any(|pair| pair == ["-c", "1"]);
        if due.is_some() && one_connection && !arguments.contains(&"--replay") {
            let warning = json["warning"].as_str().unwrap_or_default();
            assert!(warning.contains("the rate was not kept"), "{arguments:?}: {warning}");
        }
    }
}

/// The same report by `-q`: its rate is the one of the file.
#[test]
fn the_brief_forms_have_the_rate_of_the_measured_time() {
    let stub = Stub::start(|_, number| match number {
        20 => Answer::After(Duration::from_millis(1500), PONG.into()),
        _ => PONG.into(),
    });
    let line =
        ["-p", &stub.port, "-q", "--duration", "500ms", "--rate", "1000", "-c", "1", "--command", "PING"];
    let (_, text, json) = report(&line);
    let rate = json["rate"].as_f64().unwrap_or_default();
    assert!(text.contains(&format!("PING: {rate:.2} requests per second")), "{rate}: {text}");
}

/// Freezes all connections, or one, after some requests; every kind of run says so and fails.
#[test]
fn a_server_that_freezes_is_not_well() {
    let lines: [(&str, &[&str]); 11] = [
        ("bench", &["--duration", "300ms", "--command", "PING"]),
        ("bench", &["--duration", "300ms", "-P", "4", "--threads", "2", "--command", "PING"]),
        ("bench", &["--duration", "300ms", "--epoll", "--command", "PING"]),
        ("bench", &["--duration", "300ms", "--rate", "500", "--command", "PING"]),
        ("bench", &["--duration", "300ms", "--rate", "500", "-P", "16", "--poisson", "--command", "PING"]),
        ("bench", &["--duration", "300ms", "--sweep", "connections=2,4", "--command", "PING"]),
        ("bench", &["--duration", "300ms", "--slo", "p99<1h", "--rate", "500", "--command", "PING"]),
        ("bench", &["--duration", "300ms", "--vs", "127.0.0.1:1", "--command", "PING"]),
        ("valkey-benchmark", &["--duration", "1", "-t", "ping_mbulk", "-q"]),
        ("valkey-benchmark", &["--duration", "1", "--rps", "500", "PING"]),
        ("resp-benchmark", &["-s", "1", "PING"]),
    ];
    std::thread::scope(|scope| {
        for (program, line) in lines {
            for all in [true, false] {
                scope.spawn(move || {
                    let stub = Stub::start(move |_, number| match number {
                        ..50 => PONG.into(),
                        50 => Answer::Never,
                        _ if all => Answer::Never,
                        _ => PONG.into(),
                    });
                    let well = Stub::start(|_, _| PONG.into());
                    let (mut arguments, vs) = (line.to_vec(), format!("127.0.0.1:{}", stub.port));
                    let mut port = &stub.port;
                    if let Some(place) = arguments.iter().position(|word| *word == "127.0.0.1:1") {
                        // The second server is the one that freezes.
                        (arguments[place], port) = (&vs, &well.port);
                    }
                    let output =
                        tool(program).args(["-p", port, "-c", "4"]).args(&arguments).output().expect("runs");
                    let text = said(&output);
                    assert_eq!(output.status.code(), Some(1), "{program} {arguments:?}: {text}");
                    assert!(
                        text.contains("the server stopped answering: "),
                        "{program} {arguments:?}: {text}"
                    );
                });
            }
        }
    });
}

/// Nothing but errors: said once, and no hour is waited for more of them.
#[test]
fn a_run_of_errors_alone_ends_early_and_says_so_once() {
    for line in [
        &["--duration", "1h", "--command", "PING"][..],
        &["--duration", "1h", "--threads", "2", "-P", "4", "--command", "PING"],
        &["--duration", "1h", "--rate", "200", "--command", "PING"],
        &["--duration", "1h", "--warmup", "100ms", "--command", "PING"],
        &["--duration", "1h", "--vs", "127.0.0.1:1", "--command", "PING"],
    ] {
        let stub = Stub::start(|_, _| "-WRONGTYPE not of that kind\r\n".into());
        let vs = format!("127.0.0.1:{}", stub.port);
        let line: Vec<&str> =
            line.iter().map(|word| if *word == "127.0.0.1:1" { vs.as_str() } else { word }).collect();
        let (code, text, json) = report(&[&["-p", &stub.port, "-c", "2"], &line[..]].concat());
        assert_eq!((code, text.matches("WRONGTYPE").count()), (Some(1), 1), "{line:?}: {text}");
        assert!(text.contains(&format!("all {} replies were errors", json["errors"])), "{line:?}: {text}");
        assert!(json["elapsed_s"].as_f64().is_some_and(|seconds| seconds < 60.0), "{line:?}: {text}");
    }
    // Errors at the start only, as of a server that is loading, end nothing.
    let stub = Stub::start(|_, number| if number <= 5 { "-LOADING wait\r\n".into() } else { PONG.into() });
    let (code, text, json) = report(&["-p", &stub.port, "-c", "1", "-n", "200", "--command", "PING"]);
    assert_eq!((code, whole(&json["requests"]), whole(&json["errors"])), (Some(1), 195, 5), "{text}");
}

/// Redirections of a cluster's node have another text for each slot: they are one error, with the way out.
#[test]
fn redirections_that_are_not_followed_are_said_once() {
    for (program, line) in [
        ("bench", &["--duration", "300ms", "--command", "PING"][..]),
        ("bench", &["-n", "500", "--threads", "2", "--command", "PING"]),
        ("bench", &["-n", "500", "--rate", "5000", "--command", "PING"]),
        ("bench", &["-n", "500", "--verify", "-P", "8"]),
        ("bench", &["-n", "500", "--hot-key"]),
        ("redis-benchmark", &["-n", "500", "-q", "PING"]),
        ("resp-benchmark", &["-n", "500", "PING"]),
    ] {
        let stub = Stub::start(|_, number| {
            let word = if number.is_multiple_of(3) { "ASK" } else { "MOVED" };
            Answer::Now(format!("-{word} {} 127.0.0.1:1\r\n", number % 16384).into_bytes())
        });
        let output = tool(program).args(["-p", &stub.port, "-c", "4"]).args(line).output().expect("runs");
        let text = said(&output);
        let times = text.matches("MOVED ").count() + text.matches("ASK ").count();
        assert_eq!((output.status.code(), times), (Some(1), 1), "{program} {line:?}: {text}");
        assert!(text.contains("--cluster follows its redirections"), "{program} {line:?}: {text}");
    }
}

/// Reads of keys that are not there cost another thing than reads of keys: a run of nothing else says so,
/// once.
#[test]
fn a_run_of_misses_alone_says_so_once() {
    const NULL: &str = "every reply was null";
    let missing = || {
        Stub::start(|arguments, _| if arguments[0] == b"GET" { "$-1\r\n".into() } else { "+OK\r\n".into() })
    };
    for (program, line, commands) in [
        ("bench", &["-n", "200", "--command", "GET k"][..], "GET (200)"),
        ("bench", &["-n", "200", "--rate", "5000", "-q", "--command", "GET k"], "GET (200)"),
        ("bench", &["-n", "200", "--command", "GET k", "--command", "SET k v"], "GET ("),
        ("redis-benchmark", &["-n", "200", "-t", "set,get,incr", "-q"], "GET (200)"),
        ("redis-benchmark", &["-n", "200", "--csv", "GET", "k"], "GET k (200)"),
        ("resp-benchmark", &["-n", "200", "GET k"], "GET (200)"),
    ] {
        let stub = missing();
        let output = tool(program).args(["-p", &stub.port, "-c", "2"]).args(line).output().expect("runs");
        let text = said(&output);
        assert_eq!(
            (output.status.code(), text.matches(NULL).count()),
            (Some(0), 1),
            "{program} {line:?}: {text}"
        );
        assert!(text.contains(commands), "{program} {line:?}: {text}");
        assert!(!text.contains("SET ("), "{program} {line:?}: {text}");
    }
    // One hit is enough.
    let stub = Stub::start(|_, number| if number == 7 { "$1\r\nv\r\n".into() } else { "$-1\r\n".into() });
    let (code, text, _) = report(&["-p", &stub.port, "-n", "200", "--command", "GET k"]);
    assert!(code == Some(0) && !text.contains(NULL), "{text}");
}

/// A server of at most 500 requests/s: in open loop it answers what it is asked, later. A limit of latency
/// that is hours away does not make a rate of that.
#[test]
fn a_search_finds_no_rate_that_the_server_cannot_keep() {
    let stub = Stub::start(|_, _| Answer::After(Duration::from_millis(2), PONG.into()));
    let line = ["-c", "1", "--rate", "200", "--slo", "p99<1h", "--duration", "300ms", "PING"];
    let (_, text, json) = report(&[&["-p", &stub.port], &line[..]].concat());
    // On a busy machine fewer hold; more than the server answers never do.
    assert!(text.lines().any(|step| step.ends_with("broken")), "{text}");
    let found =
        text.split_once("highest rate that holds p99<1h: ").and_then(|(_, rest)| rest.split(' ').next());
    assert!(found.is_none_or(|rate| rate.parse::<f64>().is_ok_and(|rate| rate <= 511.0)), "{text}");
    let steps = json["sweep"].as_array().cloned().unwrap_or_default();
    assert!(steps.iter().all(|step| step["rate"].as_f64().is_some_and(|rate| rate <= 511.0)), "{text}");
}
