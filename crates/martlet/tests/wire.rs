//! The raw-wire suite against our server in every configuration: each I/O backend, one thread and four.
//! One test per file of `tests/wire/` and configuration; `cargo test --test wire -- string` selects by name.

use libtest_mimic::{Arguments, Failed, Trial};
use martlet_testkit::server::Server;
use martlet_testkit::wire::{CaseFile, Target, load_directory, run_file};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// I/O backend and threads.
const CONFIGURATIONS: &[(&str, &str)] = &[("uring", "1"), ("uring", "4"), ("epoll", "1"), ("epoll", "4")];

fn main() {
    let arguments = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = match load_directory(&root.join("tests/wire")) {
        Ok(files) => files.into_iter().map(|file| Arc::new(without_pending(&root, file))).collect::<Vec<_>>(),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    let mut trials = Vec::new();
    for (backend, threads) in CONFIGURATIONS {
        let supported = *backend != "uring" || is_uring_allowed();
        // Files of one configuration share a server, one at a time: each case flushes it.
        let server: Arc<Mutex<Option<Server>>> = Arc::default();
        for file in &files {
            let (file, server) = (Arc::clone(file), Arc::clone(&server));
            let name = file.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let trial = Trial::test(format!("{backend}_{threads}::{name}"), move || {
                run(&server, backend, threads, &file)
            });
            trials.push(trial.with_ignored_flag(!supported));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
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
        eprintln!("io_uring is not allowed here: its configurations are IGNORED");
    }
    allowed
}
