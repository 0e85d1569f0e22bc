//! The raw-wire suite against our server: each I/O backend, one thread and four. Files about connections,
//! waiting and messages run in all four configurations. A handler knows neither backend nor threads, so the
//! other files run in two that have each backend and each number of threads. All files run once more against
//! a server that presents itself as Valkey, as on Valkey 9.1. One test per file of `tests/wire/` and
//! configuration; `cargo test --test wire -- string` selects by name.

use libtest_mimic::{Arguments, Failed, Trial};
use martlet_testkit::peers;
use martlet_testkit::server::Server;
use martlet_testkit::wire::{CaseFile, Target, load_directory, run_file};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A configuration of the server.
struct Configuration {
    backend: &'static str,
    threads: &'static str,
    presents_as: &'static str,
    /// Whether files of commands alone run there, too.
    has_all: bool,
}

const CONFIGURATIONS: &[Configuration] = &[
    Configuration { backend: "uring", threads: "1", presents_as: "redis", has_all: false },
    Configuration { backend: "uring", threads: "4", presents_as: "redis", has_all: true },
    Configuration { backend: "epoll", threads: "1", presents_as: "redis", has_all: true },
    Configuration { backend: "epoll", threads: "4", presents_as: "redis", has_all: false },
    Configuration { backend: "epoll", threads: "2", presents_as: "valkey", has_all: true },
];
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
/// Cases of Valkey that do not hold for this server in its place: there are commands of Redis besides.
const OF_VALKEY_ALONE: &[&str] = &["the categories, before there were arrays"];
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
        for (configuration, server) in CONFIGURATIONS.iter().zip(&servers) {
            if !(is_everywhere || configuration.has_all) {
                continue;
            }
            let (mut file, server) = (Arc::clone(file), Arc::clone(server));
            let Configuration { backend, threads, presents_as, .. } = configuration;
            if *presents_as == "valkey" {
                Arc::make_mut(&mut file).cases.retain(|case| !OF_VALKEY_ALONE.contains(&&*case.name));
            }
            let title = match *presents_as {
                "redis" => format!("{backend}_{threads}::{name}"),
                other => format!("{other}::{name}"),
            };
            let trial = Trial::test(title, move || run(&server, configuration, &file));
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

fn run(server: &Mutex<Option<Server>>, configuration: &Configuration, file: &CaseFile) -> Result<(), Failed> {
    let mut slot = server.lock().map_err(|_| "another file of this configuration panicked")?;
    if slot.as_mut().is_none_or(Server::has_exited) {
        *slot = Some(start(configuration)?);
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

fn start(configuration: &Configuration) -> std::io::Result<Server> {
    let Configuration { backend, threads, presents_as, .. } = configuration;
    let arguments = [
        "server",
        "--io-backend",
        backend,
        "--io-threads",
        threads,
        "--martlet-presents-as",
        presents_as,
        "--enable-debug-command",
        "yes",
    ];
    Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &arguments)
}

/// Containers often forbid io_uring: its tests are then shown as ignored.
fn is_uring_allowed() -> bool {
    let allowed =
        CONFIGURATIONS.iter().find(|one| one.backend == "uring").is_some_and(|one| start(one).is_ok());
    if !allowed {
        peers::skip("io_uring is not allowed here: its configurations are ignored");
    }
    allowed
}
