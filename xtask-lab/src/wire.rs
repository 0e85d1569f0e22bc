//! `./x wire`: the raw-wire suite against whatever listens, ours or the real thing.

use martlet_testkit::wire::{Target, load_directory, record, run_file};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use xtask::run::{Outcome, root};

/// How the suite is run.
#[derive(clap::Args)]
pub struct Options {
    /// The server's host.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// The server's port.
    #[arg(long, default_value_t = 6379)]
    port: u16,
    /// Fill the replies of this server into the cases of these files that expect nothing yet.
    #[arg(long)]
    record: bool,
    /// Write the cases that fail to tests/wire/pending.txt, which `cargo test` leaves out.
    #[arg(long)]
    write_pending: bool,
    /// Case files; all of tests/wire when none is given.
    files: Vec<PathBuf>,
}

/// Runs all of it against a server that is there.
pub fn suite(address: SocketAddr) -> Outcome {
    let (host, port) = (address.ip().to_string(), address.port());
    run(&Options { host, port, record: false, write_pending: false, files: Vec::new() })
}

/// Runs or records.
pub fn run(options: &Options) -> Outcome {
    let address = (options.host.as_str(), options.port);
    let address = address.to_socket_addrs()?.next().ok_or("the host has no address")?;
    if options.record {
        for path in &options.files {
            let text = std::fs::read_to_string(path)?;
            std::fs::write(path, record(address, path, &text)?)?;
        }
        return Ok(());
    }
    let target = Target::probe(address)?;
    println!("{target:?} at {address}");
    let (mut passed, mut failed, mut pending) = (0, 0, String::new());
    for file in load_directory(&root().join("tests/wire"))? {
        let chosen = options.files.iter().any(|path| path.file_name() == file.path.file_name());
        if !options.files.is_empty() && !chosen {
            continue;
        }
        let report = run_file(address, &target, &file);
        let name = file.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        println!(
            "{name:14} {:5} replies as expected, {} cases failed, {} not for this server",
            report.passed,
            report.failures.len(),
            report.skipped
        );
        for failure in &report.failures {
            println!("  {failure}");
            pending.push_str(&format!("{name}: {}\n", failure.case));
        }
        passed += report.passed;
        failed += report.failures.len();
    }
    if options.write_pending {
        std::fs::write(root().join("tests/wire/pending.txt"), pending)?;
    }
    println!("{passed} replies as expected, {failed} cases failed");
    if failed == 0 { Ok(()) } else { Err("the server differs from the expected replies".into()) }
}
