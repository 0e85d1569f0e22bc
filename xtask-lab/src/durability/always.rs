//! The row `always`: throughput with `appendfsync always`, beside its bounds: the rate at which the disk can
//! be forced to take a file, and the servers' rate when they do not wait for it. On the disk as it is, and as
//! if it took longer (`DEBUG AOF-FLUSH-SLEEP`).

use super::{Reading, Result, Setup, quantile};
use crate::cost::process::Measured;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CLIENTS: usize = 50;
/// A write as the file has it: `*3 $3 SET $16 key $64 value`.
const WRITE_BYTES: usize = 115;
const SECONDS: u64 = 4;
/// What each synchronisation takes longer than the disk needs.
const DELAYS_MS: [u64; 3] = [0, 5, 20];

/// Clients that each wait for the reply to `pipeline` writes cannot be answered faster than the disk is
/// forced to take such groups.
pub(super) fn measure(setup: &Setup<'_>) -> Result<()> {
    let directories = [tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?];
    let mut servers = Vec::new();
    let arguments =
        ["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"];
    let arguments = [&arguments[..], &["--auto-aof-rewrite-percentage", "0"]].concat();
    for (name, directory) in ["peer", "ours"].into_iter().zip(&directories) {
        servers.push(setup.start_with(name, directory.path(), &arguments)?);
    }
    for (round, pipeline) in (0..setup.options.rounds).flat_map(|round| [(round, 1), (round, 16)]) {
        let of_row =
            || Reading { row: "always".into(), round, pipeline: Some(pipeline), ..Reading::default() };
        for delay_ms in DELAYS_MS {
            let of_row = || Reading { delay_ms: Some(delay_ms), ..of_row() };
            let probe = Probe {
                group_bytes: CLIENTS * pipeline * WRITE_BYTES,
                delay: Duration::from_millis(delay_ms),
            };
            for (server, reserves) in [("disk", false), ("disk-reserved", true)] {
                let per_s = Some(probe.run(&directories[2].path().join(server), reserves)?);
                setup.append_of(server, String::new(), Reading { per_s, ..of_row() })?;
            }
            for server in &servers {
                ask(server, &["DEBUG", "AOF-FLUSH-SLEEP", &(delay_ms * 1000).to_string()])?;
                load(setup, server, pipeline, of_row())?;
            }
        }
        for server in &servers {
            ask(server, &["DEBUG", "AOF-FLUSH-SLEEP", "0"])?;
            ask(server, &["CONFIG", "SET", "appendfsync", "no"])?;
            load(setup, server, pipeline, Reading { row: "always-not".into(), ..of_row() })?;
            ask(server, &["CONFIG", "SET", "appendfsync", "always"])?;
        }
    }
    Ok(())
}

fn ask(server: &Measured, request: &[&str]) -> Result<()> {
    let reply = server.client()?.command(request)?;
    if reply.is_error() { Err(format!("{request:?}: {reply:?}").into()) } else { Ok(()) }
}

fn load(setup: &Setup<'_>, server: &Measured, pipeline: usize, of_row: Reading) -> Result<()> {
    let report = tempfile::NamedTempFile::new()?;
    let before = server.cpu_time()?;
    let status = Command::new(&setup.ours)
        .args(["bench", "-p", &server.address().port().to_string(), "-c", &CLIENTS.to_string()])
        .args(["-P", &pipeline.to_string(), "--duration", &format!("{SECONDS}s")])
        .args(["--command", "SET {key uniform 100000} {value 64}", "--json"])
        .arg(report.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        return Err("the load tester has failed".into());
    }
    let text = std::fs::read_to_string(report.path())?;
    let (p99_ms, max_ms, writes) = quantile(&text, 100)?;
    let rate = serde_json::from_str::<serde_json::Value>(&text)?["rate"].as_f64();
    let reading = Reading {
        size: writes,
        per_s: rate,
        p99_ms: Some(p99_ms),
        max_ms: Some([max_ms; 2]),
        cpu_s: Some(server.cpu_time()?.since(before) as f64 / 1e9),
        ..of_row
    };
    setup.append(server, reading)
}

/// Nothing but groups appended to a file, each forced to disk.
struct Probe {
    group_bytes: usize,
    delay: Duration,
}

impl Probe {
    /// Groups per second.
    fn run(&self, path: &Path, reserves: bool) -> Result<f64> {
        use martlet_base::disk::DiskFile;
        let mut file = File::create(path)?;
        if reserves {
            file.reserve(0, 256 << 20)?;
            file.sync_all()?;
        }
        let group = vec![b'x'; self.group_bytes];
        let (began, mut groups) = (Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(SECONDS) {
            std::thread::sleep(self.delay);
            file.write_all(&group)?;
            file.sync_data()?;
            groups += 1;
        }
        Ok(f64::from(groups) / began.elapsed().as_secs_f64())
    }
}
