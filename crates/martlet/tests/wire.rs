//! The raw-wire suite against our server: each I/O backend, one thread and four. Files about connections,
//! waiting and messages run in all four configurations. A handler knows neither backend nor threads, so the
//! other files run in two that have each backend and each number of threads. One test per file of
//! `tests/wire/` and configuration; `cargo test --test wire -- string` selects by name.

use libtest_mimic::{Arguments, Failed, Trial};
use martlet_testkit::peers;
use martlet_testkit::server::Server;
use martlet_testkit::wire::{CaseFile, Target, load_directory, run_file};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// I/O backend and threads, and whether files of commands alone run there, too.
const CONFIGURATIONS: &[(&str, &str, bool)] =
    &[("uring", "1", false), ("uring", "4", true), ("epoll", "1", true), ("epoll", "4", false)];
/// Files whose outcome may depend on backends and threads.
const ABOUT_CONNECTIONS: &[&str] = &[
    "acl",
    "admin",
    "blocking",
    "connection",
    "generic",
    "multi",
    "notifications",
    "protocol",
    "pubsub",
    "script",
    "stream-groups",
    "tracking",
];
/// Tests mostly wait for replies: more run at a time than there are cores.
const TESTS_AT_A_TIME: usize = 4;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(TESTS_AT_A_TIME));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = match load_directory(&root.join("tests/wire")) {
        Ok(files) => files.into_iter().map(|file| Arc::new(without_pending(&root, file))).collect::<Vec<_>>(),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    libtest_mimic::run(&arguments, trials(&files)).exit();
}

/// File by file, so that tests of different configurations run beside each other: those of one share a
/// server, one at a time, as each case flushes it.
fn trials(files: &[Arc<CaseFile>]) -> Vec<Trial> {
    let has_uring = is_uring_allowed();
    let servers: Vec<Arc<Mutex<Option<Server>>>> = CONFIGURATIONS.iter().map(|_| Arc::default()).collect();
    let mut trials = Vec::new();
    for file in files {
        let name = file.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_everywhere = ABOUT_CONNECTIONS.contains(&name.as_str()) || !has_uring;
        for ((backend, threads, has_all), server) in CONFIGURATIONS.iter().zip(&servers) {
            if !(is_everywhere || *has_all) {
                continue;
            }
            let (file, server) = (Arc::clone(file), Arc::clone(server));
            let trial = Trial::test(format!("{backend}_{threads}::{name}"), move || {
                run(&server, backend, threads, &file)
            });
            trials.push(trial.with_ignored_flag(*backend == "uring" && !has_uring));
        }
    }
    trials
}

/// Leaves out the cases of `tests/wire/pending.txt`: `FILE: CASE`, one a line, which the server does not pass
/// yet.
fn without_pending(root: &Path, mut file: CaseFile) -> CaseFile {
    let pending = std::fs::read_to_string(root.join("tests/wire/pending.txt")).unwrap_or_default();
    let stem = file.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    file.cases.retain(|case| !pending.lines().any(|line| line == format!("{stem}: {}", case.name)));
    file
}

fn run(server: &Mutex<Option<Server>>, backend: &str, threads: &str, file: &CaseFile) -> Result<(), Failed> {
    let mut slot = server.lock().map_err(|_| "another file of this configuration panicked")?;
    if slot.as_mut().is_none_or(Server::has_exited) {
        *slot = Some(start(backend, threads)?);
    }
    let Some(server) = slot.as_mut() else { return Err("no server".into()) };
    let report = run_file(server.address(), &Target::probe(server.address())?, file);
    if server.has_exited() {
        return Err(format!("the server ended; it said:\n{}", server.log()).into());
    }
    if report.failures.is_empty() {
        return Ok(());
    }
    let failures: Vec<String> = report.failures.iter().map(ToString::to_string).collect();
    Err(failures.join("\n").into())
}

fn start(backend: &str, threads: &str) -> std::io::Result<Server> {
    let arguments =
        ["server", "--io-backend", backend, "--io-threads", threads, "--enable-debug-command", "yes"];
    Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &arguments)
}

/// Containers often forbid io_uring: its tests are then shown as ignored.
fn is_uring_allowed() -> bool {
    let allowed = start("uring", "1").is_ok();
    if !allowed {
        peers::skip("io_uring is not allowed here: its configurations are ignored");
    }
    allowed
}
