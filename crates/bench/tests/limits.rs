//! Limits of the load tester itself: memory with ten thousand connections, and its messages where the system
//! has no room for more. Without redis-server these tests say so and pass.

use io_uring::{opcode, types};
use martlet_testkit::peers::{self, is_installed};
use martlet_testkit::server::Server;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const OURS: &str = env!("CARGO_BIN_EXE_martlet-bench");
const CONNECTIONS: usize = 10_000;
const MANY: usize = 60_000;
/// Most memory of a run of any length with that many.
const MOST_MEMORY_KB: u64 = 200 * 1024;

/// The most files that a process may open here.
fn file_limit() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").expect("Linux");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    line.split_whitespace().nth(4).and_then(|hard| hard.parse().ok()).unwrap_or(usize::MAX)
}

/// A process' peak of resident memory so far; `None` once it has ended.
fn peak_kb(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Runs it to its end: its output with its exit status, the text of both outputs, and its peak of resident
/// memory in kB.
fn run_measured(command: &mut Command) -> (Output, String, u64) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut peak = 0;
    while child.try_wait().expect("waits").is_none() {
        peak = peak_kb(child.id()).unwrap_or(peak).max(peak);
    }
    let output = child.wait_with_output().expect("ends");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output, text, peak)
}

#[test]
fn ten_thousand_connections_fit_into_200_mb() {
    if file_limit() < CONNECTIONS + 1000 {
        return peers::skip("too few files may be opened");
    }
    if !is_installed("redis-server") {
        return;
    }
    let clients = (CONNECTIONS + 100).to_string();
    for io in [&[][..], &["--epoll"]] {
        // One each: the first run's connections may not all be closed there when the second begins.
        let server = Server::start(Path::new("redis-server"), &["--maxclients", &clients]).expect("starts");
        let port = server.address().port().to_string();
        // Two commands with a pipeline: requests in flight are kept one by one. The rows of seconds have a
        // test of their own.
        let (output, text, peak) = run_measured(
            Command::new(OURS)
                .args(["-p", &port, "-c", &CONNECTIONS.to_string(), "-P", "8", "-n", "400000"])
                .args(["--command", "SET {key uniform 1000} {value 10-100}", "--command", "PING"])
                .args(io),
        );
        assert!(output.status.success() && text.contains("10000 connections"), "{text}");
        println!("{peak} kB");
        assert!((1000..MOST_MEMORY_KB).contains(&peak), "{peak} kB");
    }
}

/// A server that accepts this number of connections, none of which is a descriptor of this process, and keeps
/// them: rings of `RING_FILES` each. The first connection, which is the tool's control connection, gets an
/// error to every request.
fn keeper(connections: usize) -> (String, std::thread::JoinHandle<Vec<io_uring::IoUring>>) {
    const RING_FILES: usize = 10_000;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port().to_string();
    // SAFETY: a system call without pointers: a longer backlog than the standard library's, as servers have.
    unsafe { libc::listen(listener.as_raw_fd(), 511) };
    let thread = std::thread::spawn(move || {
        let (mut control, _) = listener.accept().expect("a connection");
        let mut request = [0; 1024];
        while let Ok(1..) = control.read(&mut request) {
            control.write_all(b"-ERR no\r\n").expect("the tool reads");
        }
        let accept = || {
            opcode::Accept::new(types::Fd(listener.as_raw_fd()), std::ptr::null_mut(), std::ptr::null_mut())
                .file_index(Some(types::DestinationSlot::auto_target()))
                .build()
        };
        let mut rings = Vec::new();
        for taken in (0..connections).step_by(RING_FILES) {
            let mut ring = io_uring::IoUring::new(64).expect("a ring");
            let room = RING_FILES.min(connections - taken);
            ring.submitter().register_files_sparse(room as u32).expect("a table");
            for _ in 0..room {
                // SAFETY: the request points to nothing.
                unsafe { ring.submission().push(&accept()) }.expect("the queue is empty");
                ring.submit_and_wait(1).expect("waits");
                let result = ring.completion().next().map(|completion| completion.result());
                assert!(result.is_some_and(|result| result >= 0), "{result:?}");
            }
            rings.push(ring);
        }
        rings
    });
    (port, thread)
}

/// More than a process may have files, and more than one source address has ports.
#[test]
fn sixty_thousand_idle_connections_fit_into_200_mb() {
    if !martlet_client::mux::uring_works() {
        return peers::skip("there is no io_uring");
    }
    let (port, server) = keeper(MANY);
    let (output, text, peak) = run_measured(Command::new(OURS).args([
        "-p",
        &port,
        "-I",
        "-c",
        &MANY.to_string(),
        "--duration",
        "500ms",
    ]));
    assert!(output.status.success() && text.contains(&format!("clients: {MANY}")), "{text}");
    assert_eq!(server.join().map(|rings| rings.len()).expect("all were taken"), 6);
    println!("{peak} kB");
    assert!((1000..MOST_MEMORY_KB).contains(&peak), "{peak} kB");
}

#[test]
fn a_server_that_takes_no_more_connections_is_quoted() {
    if !is_installed("redis-server") {
        return;
    }
    let server = Server::start(Path::new("redis-server"), &["--maxclients", "20"]).expect("starts");
    let port = server.address().port().to_string();
    for arguments in [&["-I"][..], &["-t", "set", "-q"], &["--duration", "1h", "--command", "PING"]] {
        let output =
            Command::new(OURS).args(["-p", &port, "-c", "50"]).args(arguments).output().expect("runs");
        let text =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(text.contains("max number of clients reached"), "{arguments:?}: {text}");
    }
}

#[test]
fn too_many_connections_are_refused_with_the_limit() {
    let limit = file_limit();
    if limit >= 900_000 {
        return;
    }
    let output = Command::new(OURS)
        .args(["-p", "1", "-c", "950000", "--epoll", "--command", "PING"])
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(&format!("this process may have {limit} (ulimit -n)")), "{text}");
    assert!(text.contains("root can allow it more (ulimit -n 950100)"), "{text}");
}
