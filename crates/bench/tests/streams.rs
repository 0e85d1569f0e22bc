//! Ctrl-C while the server answers nothing, and standard output that cannot be written: a tool ends soon,
//! with an exit code that is not 0, and without a panic.

use crate::common::{Stub, tool};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Until when a tool that is to end at once has ended: half as long as it would wait for the server.
const SOON: Duration = Duration::from_secs(5);

fn run(program: &str, port: &str, line: &[&str]) -> Command {
    let mut command = tool(program);
    let (tool_first, rest): (&[&str], &[&str]) = if ["resp", "report", "null", "calibrate"].contains(&line[0])
    {
        line.split_at(1)
    } else {
        (&[], line)
    };
    command.args(tool_first);
    if !["report", "calibrate", "null"].contains(&line[0]) {
        command.args(["-p", port, "-c", "2"]);
    }
    command.args(rest);
    command
}

fn wait(child: &mut Child, what: &str) -> Option<i32> {
    let limit = Instant::now() + SOON;
    loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            return status.code();
        }
        assert!(Instant::now() < limit, "{what} does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_interrupt_ends_a_wait_for_the_servers_answer() {
    for (program, line) in [
        // The first question of each is another: INFO, CONFIG, a GET, the handshake, the load itself.
        ("bench", &["--duration", "1s", "GET x"][..]),
        ("bench", &["-n", "10", "--rate", "10", "--command", "GET x"]),
        ("bench", &["--verify", "-n", "10"]),
        ("bench", &["--hot-key", "-n", "10"]),
        ("bench", &["--vs", "ITSELF", "--command", "PING"]),
        ("bench", &["--cluster", "--duration", "1s", "GET x"]),
        ("bench", &["-a", "secret", "--duration", "1s", "GET x"]),
        ("bench", &["--tls", "--insecure", "--duration", "1s", "GET x"]),
        ("bench", &["--sweep", "connections=1,2", "PING"]),
        ("redis-benchmark", &["-t", "set", "-q"]),
        ("redis-benchmark", &["--cluster", "-t", "set"]),
        ("redis-benchmark", &["--tls", "--insecure", "-t", "set"]),
        ("resp-benchmark", &["-s", "1", "PING"]),
    ] {
        let stub = Stub::silent();
        let itself = format!("127.0.0.1:{}", stub.port);
        let line: Vec<&str> =
            line.iter().map(|word| if *word == "ITSELF" { &itself } else { *word }).collect();
        let mut command = run(program, &stub.port, &line);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        while stub.received.load(Ordering::SeqCst) == 0 {
            assert!(matches!(child.try_wait(), Ok(None)), "{program} {line:?} ended by itself");
            std::thread::yield_now();
        }
        let done = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
        assert!(done.success());
        assert_eq!(wait(&mut child, &format!("{program} {line:?}")), Some(1), "{program} {line:?}");
    }
}

/// Runs that print something, each in its own way.
const PRINTING: [(&str, &[&str]); 14] = [
    ("bench", &["-n", "100", "--command", "PING"]),
    ("bench", &["-n", "100", "-q", "--command", "PING"]),
    ("bench", &["-n", "100", "--sweep", "connections=1,2", "--command", "PING"]),
    ("bench", &["-n", "100", "--verify"]),
    ("bench", &["-n", "100", "--hot-key"]),
    ("bench", &["--help"]),
    ("bench", &["--version"]),
    ("bench", &["report", "--help"]),
    ("bench", &["calibrate", "--help"]),
    ("bench", &["null", "-p", "0"]),
    ("redis-benchmark", &["-n", "100", "-t", "ping_mbulk"]),
    ("redis-benchmark", &["-n", "100", "-l", "-q", "-t", "ping_mbulk"]),
    ("redis-benchmark", &["--csv", "-n", "100", "PING"]),
    ("resp-benchmark", &["-n", "100", "PING"]),
];

/// Ends the tool soon if it can end at all, with 1, and returns its messages.
fn ended(mut command: Command, what: &str) -> String {
    let mut child = command.stderr(Stdio::piped()).spawn().expect("starts");
    drop(child.stdout.take());
    let code = wait(&mut child, what);
    let Output { stderr, .. } = child.wait_with_output().expect("ends");
    let text = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(code, Some(1), "{what}: {text}");
    assert!(!text.contains("panicked"), "{what}: {text}");
    text
}

#[test]
fn a_full_disk_is_named_once() {
    let stub = Stub::start(|_, _| "+PONG\r\n".into());
    for (program, line) in PRINTING {
        let what = format!("{program} {line:?}");
        let full = || OpenOptions::new().write(true).open("/dev/full").expect("there");
        let mut command = run(program, &stub.port, line);
        command.stdout(full());
        let text = ended(command, &what);
        assert_eq!(text.matches("No space left on device").count(), 1, "{what}: {text}");
        // Nor does it help to say so where nothing can be written either.
        let mut command = run(program, &stub.port, line);
        let mut child = command.stdout(full()).stderr(full()).spawn().expect("starts");
        assert_eq!(wait(&mut child, &what), Some(1), "{what}");
    }
}

#[test]
fn a_closed_pipe_ends_the_tool_quietly() {
    let stub = Stub::start(|_, _| "+PONG\r\n".into());
    for (program, line) in PRINTING {
        let what = format!("{program} {line:?}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = run(program, &stub.port, line);
        command.stdout(writer);
        let text = ended(command, &what);
        assert!(!text.contains("No space") && !text.contains("Broken pipe"), "{what}: {text}");
    }
    // As `head -1` does it, in the midst of a run that would not end by itself.
    let mut command = run("redis-benchmark", &stub.port, &["-n", "100", "-l", "-q", "-t", "ping_mbulk"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut first = String::new();
    let mut reader = BufReader::new(child.stdout.take().expect("piped"));
    reader.read_line(&mut first).expect("a line");
    drop(reader);
    assert_eq!(wait(&mut child, "-l"), Some(1), "{first}");
    let Output { stderr, .. } = child.wait_with_output().expect("ends");
    assert_eq!(String::from_utf8_lossy(&stderr), "WARNING: Could not fetch server CONFIG\n");
}
