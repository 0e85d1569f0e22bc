//! The row `always`: throughput with `appendfsync always`, beside what the disk does at most.

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

/// Clients that each wait for the reply to `pipeline` writes cannot be answered faster than the disk is forced to take such groups.
pub(super) fn measure(setup: &Setup<'_>) -> Result<()> {
    let directories = [tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?];
    let mut servers = Vec::new();
    let arguments = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
    let arguments = [&arguments[..], &["--auto-aof-rewrite-percentage", "0"]].concat();
    for (name, directory) in ["peer", "ours"].into_iter().zip(&directories) {
        servers.push(setup.start_with(name, directory.path(), &arguments)?);
    }
    for pipeline in [1, 16] {
        for round in 0..setup.options.rounds {
            let probe = Probe { group_bytes: CLIENTS * pipeline * WRITE_BYTES };
            for (server, reserves) in [("disk", false), ("disk-reserved", true)] {
                let per_s = Some(probe.run(&directories[2].path().join(server), reserves)?);
                let reading = Reading {
                    row: "always".into(),
                    round,
                    pipeline: Some(pipeline),
                    per_s,
                    ..Reading::default()
                };
                setup.append_of(server, String::new(), reading)?;
            }
            for server in &servers {
                load(setup, server, round, pipeline)?;
            }
        }
    }
    Ok(())
}

fn load(setup: &Setup<'_>, server: &Measured, round: usize, pipeline: usize) -> Result<()> {
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
    let (p99_ms, max_ms, writes) = quantile(&std::fs::read_to_string(report.path())?, 100)?;
    let reading = Reading {
        row: "always".into(),
        round,
        size: writes,
        pipeline: Some(pipeline),
        per_s: Some(writes as f64 / SECONDS as f64),
        p99_ms: Some(p99_ms),
        max_ms: Some([max_ms; 2]),
        cpu_s: Some(server.cpu_time()?.since(before) as f64 / 1e9),
        ..Reading::default()
    };
    setup.append(server, reading)
}

/// Nothing but groups appended to a file, each forced to disk.
struct Probe {
    group_bytes: usize,
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
            file.write_all(&group)?;
            file.sync_data()?;
            groups += 1;
        }
        Ok(f64::from(groups) / began.elapsed().as_secs_f64())
    }
}
