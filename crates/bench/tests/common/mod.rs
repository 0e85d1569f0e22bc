//! Shared by the suites: questions to a running server by redis-cli, servers of the tests' own, and runs of
//! the tool.

use martlet_client::resp::{Reply, decode};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What redis-cli prints for a command.
pub fn cli(port: &str, words: &[&str]) -> String {
    let output = Command::new("redis-cli").args(["-p", port]).args(words).output();
    String::from_utf8_lossy(&output.expect("redis-cli runs").stdout).trim().to_string()
}

/// How often the server has run a command, as it counts.
pub fn calls(port: &str, command: &str) -> u64 {
    let all = cli(port, &["info", "commandstats"]);
    let line = all.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|rest| rest.split(',').next()).map_or(0, |calls| calls.parse().expect("a number"))
}

/// A [`Stub`]'s reaction to a request.
pub enum Answer {
    /// Replies at once.
    Now(Vec<u8>),
    /// Replies after this time; the connection's further requests wait.
    After(Duration, Vec<u8>),
    /// Never replies on this connection again.
    Never,
}

impl From<&str> for Answer {
    fn from(reply: &str) -> Answer {
        Answer::Now(reply.as_bytes().to_vec())
    }
}

/// A server of the test's own, as long as the test runs. The tool's questions about the server (INFO, CONFIG)
/// get an error.
pub struct Stub {
    pub port: String,
    /// Bytes that it has received.
    pub received: Arc<AtomicU64>,
}

impl Stub {
    /// Answers each request by its arguments and its number, from 1, over all connections.
    pub fn start(answer: impl Fn(&[&[u8]], u64) -> Answer + Send + Sync + 'static) -> Stub {
        Stub::serve(Some(Arc::new(answer)))
    }

    /// Accepts connections and reads, and answers nothing at all.
    pub fn silent() -> Stub {
        Stub::serve(None)
    }

    fn serve(answer: Option<Arc<Answers>>) -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port().to_string();
        let (received, number) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let bytes = received.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (bytes, number, answer) = (bytes.clone(), number.clone(), answer.clone());
                std::thread::spawn(move || converse(stream, &bytes, &number, answer.as_deref()));
            }
        });
        Stub { port, received }
    }
}

type Answers = dyn Fn(&[&[u8]], u64) -> Answer + Send + Sync;

fn converse(mut stream: TcpStream, bytes: &AtomicU64, number: &AtomicU64, answer: Option<&Answers>) {
    let (mut received, mut buffer, mut is_open) = (Vec::new(), vec![0; 64 * 1024], answer.is_some());
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        bytes.fetch_add(count as u64, Ordering::SeqCst);
        let Some(answer) = answer.filter(|_| is_open) else { continue };
        received.extend_from_slice(&buffer[..count]);
        while let Some((request, used)) =
            decode(&received).expect("the tool sends requests").filter(|_| is_open)
        {
            let arguments: Vec<&[u8]> =
                request.items().unwrap_or_default().iter().filter_map(Reply::text).collect();
            let reply = match arguments.first() {
                Some(&(b"INFO" | b"CONFIG")) => "-ERR unknown command\r\n".into(),
                _ => answer(&arguments, number.fetch_add(1, Ordering::SeqCst) + 1),
            };
            let reply = match reply {
                Answer::Now(reply) => reply,
                Answer::After(time, reply) => {
                    std::thread::sleep(time);
                    reply
                }
                Answer::Never => {
                    is_open = false;
                    continue;
                }
            };
            if stream.write_all(&reply).is_err() {
                return;
            }
            received.drain(..used);
        }
    }
}

/// The load tester by the name of one of its links.
pub fn tool(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_martlet-bench"));
    command.arg0(name).stdin(Stdio::null());
    command
}

/// Everything that a run has printed.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs with `--json`; returns exit code, text and the written file.
pub fn report(arguments: &[&str]) -> (Option<i32>, String, Value) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("run.json");
    let output = tool("bench").arg("--json").arg(&file).args(arguments).output().expect("runs");
    let written = std::fs::read(file).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
    (output.status.code(), said(&output), serde_json::from_slice(&written).expect("JSON"))
}
