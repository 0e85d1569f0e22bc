//! What bad input and broken servers get: a message that names the argument or the reply, the part that was
//! measured, marked as partial in every form, and an exit code that is not 0. The servers here are of the
//! test's own and misbehave on purpose.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How a server answers its requests, all of which are PINGs of 14 bytes.
#[derive(Clone, Copy)]
enum Answers {
    /// `+PONG` to all.
    Well,
    /// `+PONG` to this number over all connections, then an error to every one.
    ErrorsAfter(u64),
    /// An error to every n-th.
    ErrorEach(u64),
    /// `+PONG` to this number, then every connection is closed and no further one is accepted.
    DiesAfter(u64),
    /// Bytes that are no reply.
    Nonsense,
    /// `+PONG`, but nothing for this long before the hundredth.
    Stalls(Duration),
    /// Nothing at all.
    Silence,
}

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const REFUSAL: &[u8] = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n";

/// A server on its own port, as long as the test runs.
struct Stub {
    port: String,
    served: Arc<AtomicU64>,
}

impl Stub {
    fn start(answers: Answers) -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port().to_string();
        let served = Arc::new(AtomicU64::new(0));
        let counted = served.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if matches!(answers, Answers::DiesAfter(n) if counted.load(Ordering::SeqCst) > n) {
                    return;
                }
                let served = counted.clone();
                std::thread::spawn(move || serve(stream, answers, &served));
            }
        });
        Stub { port, served }
    }
}

/// Answers one connection; a request other than PING belongs to the control connection and gets an error.
fn serve(mut stream: TcpStream, answers: Answers, served: &AtomicU64) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        let data = &buffer[..count];
        let mut out = Vec::new();
        if !data.starts_with(PING) {
            out.extend_from_slice(b"-ERR unknown command\r\n");
        }
        for _ in 0..data.len() / PING.len() * usize::from(data.starts_with(PING)) {
            let number = served.fetch_add(1, Ordering::SeqCst) + 1;
            match answers {
                Answers::DiesAfter(n) if number > n => return,
                Answers::Silence => {}
                Answers::Stalls(time) => {
                    if number == 100 {
                        std::thread::sleep(time);
                    }
                    out.extend_from_slice(b"+PONG\r\n");
                }
                Answers::Nonsense => out.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n"),
                Answers::ErrorsAfter(n) if number > n => out.extend_from_slice(REFUSAL),
                Answers::ErrorEach(n) if number.is_multiple_of(n) => out.extend_from_slice(REFUSAL),
                _ => out.extend_from_slice(b"+PONG\r\n"),
            }
        }
        if stream.write_all(&out).is_err() {
            return;
        }
    }
}

fn command(port: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_martlet-bench"));
    command.args(["-p", port, "-c", "4"]).args(arguments).stdin(Stdio::null());
    command
}

fn bench(port: &str, arguments: &[&str]) -> Output {
    command(port, arguments).output().expect("runs")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs with all files written; checks that text and files have the expected parts and call the result
/// partial. Returns the JSON.
fn partial(port: &str, arguments: &[&str], reason: &str) -> serde_json::Value {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let names = ["run.json", "run.html", "run.csv", "run.hgrm"].map(file);
    let mut all = arguments.to_vec();
    for (option, name) in ["--json", "--html", "--csv-file", "--hgrm"].iter().zip(&names) {
        all.extend([option, name.as_str()]);
    }
    let output = bench(port, &all);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", said(&output));
    assert_partial(&said(&output), directory.path(), reason)
}

fn assert_partial(text: &str, directory: &Path, reason: &str) -> serde_json::Value {
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).expect(name);
    assert!(text.contains("PARTIAL RESULT: ") && text.contains(reason), "{text}");
    let json: serde_json::Value = serde_json::from_str(&read("run.json")).expect("JSON");
    assert!(json["partial"].as_str().is_some_and(|p| p.contains(reason)), "{}", json["partial"]);
    assert!(read("run.html").contains(&json["partial"].to_string().replace("</", "<\\/")));
    assert!(read("run.csv").contains("\npartial,,"));
    assert!(read("run.hgrm").contains("#[Partial = "));
    json
}

#[test]
fn errors_in_the_middle_are_counted_shown_and_in_no_latency() {
    for (answers, errors) in
        [(Answers::ErrorsAfter(300), 700), (Answers::ErrorEach(10), 100), (Answers::ErrorsAfter(0), 1000)]
    {
        let stub = Stub::start(answers);
        let json = partial(
            &stub.port,
            &["-n", "1000", "--command", "PING"],
            "replies were errors, such as: OOM command",
        );
        assert_eq!((json["requests"].as_u64(), json["errors"].as_u64()), (Some(1000 - errors), Some(errors)));
        let counted: u64 = json["commands"][0]["histogram"]
            .as_array()
            .map_or(0, |pairs| pairs.iter().filter_map(|pair| pair[1].as_u64()).sum());
        assert_eq!(counted, 1000 - errors, "latencies are those of answered requests");
        assert_eq!(json["error_texts"][0][1].as_u64(), Some(errors));
    }
}

#[test]
fn a_server_that_dies_leaves_what_was_measured() {
    for arguments in [
        &["-n", "100000", "--command", "PING"][..],
        &["-n", "100000", "-P", "4", "--command", "PING"],
        &["-n", "100000", "--epoll", "--command", "PING"],
        &["--rate", "5000", "--duration", "30s", "--command", "PING"],
        // It is looked for until the end.
        &["--reconnect", "--duration", "1s", "--command", "PING"],
        // Or for as long as is said: without a duration nothing else would end the run.
        &["--reconnect", "--give-up", "200ms", "-n", "100000", "--command", "PING"],
        &["--reconnect", "--give-up", "200ms", "-n", "100000", "--epoll", "--command", "PING"],
        &["--reconnect", "--give-up", "200ms", "--rate", "5000", "--duration", "1h", "--command", "PING"],
        &["-n", "100000", "--sweep", "connections=2", "--command", "PING"],
        &["--rate", "5000", "--slo", "p99<1h", "--duration", "30s", "--command", "PING"],
    ] {
        let stub = Stub::start(Answers::DiesAfter(500));
        let json = partial(&stub.port, arguments, &stub.port);
        let requests = json["requests"].as_u64().unwrap_or(0);
        assert!((1..=500).contains(&requests), "{arguments:?}: {requests}");
    }
}

/// Requests that had to wait for a connection while the server stalled are late by the server's fault: the
/// stall is in their latency, and no warning says that the client sent them late.
#[test]
fn a_stall_is_charged_to_the_server() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("run.json").to_string_lossy().into_owned();
    let capture = directory.path().join("capture.txt").to_string_lossy().into_owned();
    let line = |n: u32| format!("{}.{:06} [0 127.0.0.1:{}] \"PING\"\n", n / 1000, n % 1000 * 1000, n % 4);
    std::fs::write(&capture, (0..1500).map(line).collect::<String>()).expect("written");
    for arguments in [&["--rate", "1000", "-n", "1500", "--command", "PING"][..], &["--replay", &capture]] {
        let stub = Stub::start(Answers::Stalls(Duration::from_millis(1500)));
        let output = bench(&stub.port, &[&["-c", "1", "--json", &json], arguments].concat());
        assert!(output.status.success(), "{}", said(&output));
        let report: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
        let longest =
            report["commands"][0]["histogram"].as_array().and_then(|pairs| pairs.last()?[0].as_f64());
        assert!(longest.is_some_and(|ns| ns > 1490e6), "{longest:?}");
        let warning = report["warning"].as_str().unwrap_or_default();
        let late_ms =
            warning.split_once("left the client ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        // Not even half of it, whatever else held the client up.
        assert!(late_ms.is_none_or(|ms: f64| ms < 700.0), "{warning}");
    }
}

#[test]
fn a_comparison_keeps_its_whole_pairs() {
    let (well, dies) = (Stub::start(Answers::Well), Stub::start(Answers::DiesAfter(250)));
    let other = format!("127.0.0.1:{}", dies.port);
    let arguments = ["-n", "100", "--rounds", "5", "--vs", &other, "--command", "PING"];
    let json = partial(&well.port, &arguments, "pair 3, server B");
    assert_eq!(json["comparison"]["pairs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn the_classic_report_ends_at_the_first_error_or_loss() {
    for (answers, reason) in [
        (Answers::ErrorsAfter(300), "Error from server: OOM command not allowed"),
        (Answers::DiesAfter(300), "Server closed the connection"),
    ] {
        let stub = Stub::start(answers);
        let output = bench(&stub.port, &["-n", "100000", "-t", "ping_mbulk", "-q"]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(
            text.contains(reason) && text.contains("PARTIAL RESULT: ") && text.contains("PING_MBULK: "),
            "{text}"
        );
    }
}

#[test]
fn what_is_no_server_is_named() {
    let stub = Stub::start(Answers::Nonsense);
    let output = bench(&stub.port, &["-n", "100", "--command", "PING"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("malformed reply: HTTP/1.1 400 Bad Request"), "{}", said(&output));
    let stub = Stub::start(Answers::Silence);
    let output = bench(&stub.port, &["--duration", "200ms", "--command", "PING"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("answered no request"), "{}", said(&output));
    let port = martlet_testkit::server::ReservedPort::take().expect("a port");
    let refused = port.number().to_string();
    let directory = tempfile::tempdir().expect("a directory");
    let [kept, none] =
        ["kept", "none"].map(|name| directory.path().join(name).to_string_lossy().into_owned());
    std::fs::write(&kept, "an earlier report").expect("written");
    for arguments in
        [&["-t", "ping"][..], &["--command", "PING"], &["--verify"], &["--slo", "p99<1ms", "PING"]]
    {
        let output = bench(&refused, &[&["--json", &none, "--html", &kept], arguments].concat());
        assert!(!Path::new(&none).exists(), "{arguments:?} left an empty report");
        assert_eq!(std::fs::read_to_string(&kept).expect("there"), "an earlier report");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let expected = format!("Could not connect to server at 127.0.0.1:{refused}: Connection refused");
        assert!(said(&output).contains(&expected), "{}", said(&output));
    }
}

/// Interrupts a run once its server has answered this number of requests; returns its output.
fn interrupted(stub: &Stub, mut command: Command, answered: u64) -> Output {
    let mut child: Child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    while stub.served.load(Ordering::SeqCst) < answered {
        assert!(matches!(child.try_wait(), Ok(None)), "it ended by itself");
        std::thread::yield_now();
    }
    let done = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(done.success());
    child.wait_with_output().expect("ends")
}

#[test]
fn an_interrupt_prints_what_was_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let stub = Stub::start(Answers::Well);
    let names = ["run.json", "run.html", "run.csv", "run.hgrm"].map(file);
    let mut own = command(&stub.port, &["--duration", "1h", "--command", "PING"]);
    for (option, name) in ["--json", "--html", "--csv-file", "--hgrm"].iter().zip(&names) {
        own.args([option, name.as_str()]);
    }
    let output = interrupted(&stub, own, 2000);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let json = assert_partial(&said(&output), directory.path(), "interrupted");
    assert!(json["requests"].as_u64().is_some_and(|n| n >= 1000), "{}", json["requests"]);

    let stub = Stub::start(Answers::Well);
    let output =
        interrupted(&stub, command(&stub.port, &["-l", "-n", "10000000", "-t", "ping_mbulk", "-q"]), 2000);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(
        said(&output).contains("PARTIAL RESULT: ") && said(&output).contains("PING"),
        "{}",
        said(&output)
    );
}

#[test]
fn bad_arguments_are_named_before_anything_is_sent() {
    let directory = tempfile::tempdir().expect("a directory");
    let toml = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_string_lossy().into_owned()
    };
    let malformed = toml("malformed.toml", "[[command]\ntemplate = ");
    let unknown = toml("unknown.toml", "conections = 5");
    let rate = toml("rate.toml", "rate = -1.0\n[[command]]\ntemplate = \"PING\"");
    let template = toml("template.toml", "[[command]]\ntemplate = \"GET {key unifrom 5}\"");
    let empty = toml("empty.toml", "");
    let capture = toml("capture.txt", "OK\nnot a capture\n");
    let stub = Stub::start(Answers::Well);
    for (arguments, expected) in [
        (&["--foo"][..], "Invalid option \"--foo\""),
        (&["--rate", "0", "PING"], "--rate: '0' is no rate"),
        (&["--rate", "1e12", "PING"], "--rate: '1e12' is no rate"),
        (&["--command", "GET {key uniform"], "a { is never closed"),
        (&["--command", "GET {kye uniform 5}"], "placeholder {kye uniform 5}"),
        (&["--command", "GET {key zipfian 5 -1}"], "'-1' is not a zipf exponent"),
        (&["--command", "SET a {value 5-1}"], "the range is empty"),
        (&["--workload", &malformed], "malformed.toml: "),
        (&["--workload", &unknown], "conections"),
        (&["--workload", &rate], "rate.toml: rate: -1 is no rate"),
        (&["--workload", &template], "template.toml: template 'GET {key unifrom 5}': placeholder"),
        (&["--workload", &empty], "empty.toml: the workload has no request"),
        (&["--workload", "/nonexistent.toml"], "/nonexistent.toml"),
        (&["--replay", &capture], "line 2 is not of a MONITOR capture"),
        (&["--json", "/nonexistent/run.json", "PING"], "/nonexistent/run.json"),
        (&["--sweep", "foo=1", "PING"], "'foo' is not one of"),
        (&["--slo", "p99", "PING"], "'p99' is not of the form"),
        (&["--slo", "p99<1", "PING"], "'p99<1' needs a unit"),
        (&["--vs", "127.0.0.1:x", "PING"], "'127.0.0.1:x' is not HOST:PORT"),
        (&["--vs", "127.0.0.1:1", "--require", "foo>1", "PING"], "--require: "),
        (&["-t", "nothing", "--duration", "1s"], "-t nothing: there is no such test"),
        (&["-c", "900000", "--epoll", "--command", "PING"], "open files"),
        (&["--cores", "4095", "--command", "PING"], "--cores: a thread cannot be pinned to core 4095"),
        (&["--source", "192.0.2.1", "--command", "PING"], "source address is not of this machine"),
    ] {
        let output = bench(&stub.port, arguments);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_martlet-bench"))
        .args(["resp", "-p", &stub.port, "-n", "5", "GET {key foo 5}"])
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("Invalid command: placeholder {key foo 5}: unknown distribution 'foo'"));
    for tool in ["null", "calibrate"] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_martlet-bench")).args([tool, "--foo"]).output().expect("runs");
        assert_eq!(output.status.code(), Some(1), "{tool}");
        assert!(said(&output).contains("Invalid option \"--foo\""), "{}", said(&output));
    }
    assert_eq!(stub.served.load(Ordering::SeqCst), 0, "nothing was sent");
}
