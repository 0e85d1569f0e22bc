//! `./x valkey`: the Tcl suite of a Valkey or Redis source tree against a running server, file by file, in
//! its external mode; with `--peer-port` against the real server too, so that only what that itself passes
//! counts against us. With `--native` the suite starts and configures servers itself, which tests marked
//! `external:skip` need. The tree, built, is the caller's (`--suite-dir` or `MARTLET_VALKEY_DIR`): nothing is
//! fetched.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::run::{Outcome, root, step};

/// The files that are run, where the tree has them, unless others are named. In Redis' tree `valkey` is
/// `redis` in their names.
const UNITS: &[&str] = &[
    "unit/type/string",
    "unit/type/incr",
    "unit/type/list",
    "unit/type/list-2",
    "unit/type/list-3",
    "unit/type/set",
    "unit/type/zset",
    "unit/type/hash",
    "unit/type/stream",
    "unit/type/stream-cgroups",
    "unit/type/hash-field-expire",
    "unit/hashexpire",
    "unit/keyspace",
    "unit/expire",
    "unit/scan",
    "unit/info",
    "unit/info-keysizes",
    "unit/auth",
    "unit/pubsub",
    "unit/pubsubshard",
    "unit/tracking",
    "unit/pause",
    "unit/multi",
    "unit/sort",
    "unit/bitops",
    "unit/bitfield",
    "unit/geo",
    "unit/hyperloglog",
    "unit/dump",
    "unit/scripting",
    "unit/functions",
    "unit/acl",
    "unit/acl-v2",
    "unit/maxmemory",
    "unit/client-eviction",
    "unit/tls",
    "unit/wait",
    "unit/protocol",
    "unit/querybuf",
    "unit/introspection",
    "unit/introspection-2",
    "unit/latency-monitor",
    "unit/slowlog",
    "unit/lazyfree",
    "unit/obuf-limits",
    "unit/replybufsize",
    "unit/info-command",
    "unit/other",
    "unit/quit",
    "unit/violations",
    "unit/limits",
    "unit/memefficiency",
    "unit/networking",
    "unit/oom-score-adj",
    "unit/shutdown",
    "integration/valkey-cli",
    "integration/valkey-benchmark",
    "integration/dismiss-mem",
];
/// The files that start every server themselves, so that they are run with `--native` only.
const NATIVE_UNITS: &[&str] = &[
    "unit/aofrw",
    "integration/aof",
    "integration/aof-multi-part",
    "integration/aof-race",
    "integration/rdb",
    "integration/convert-zipmap-hash-on-load",
    "integration/convert-ziplist-hash-on-load",
    "integration/convert-ziplist-zset-on-load",
    "integration/shutdown",
    "integration/logging",
    "integration/replication",
    "integration/replication-2",
    "integration/replication-3",
    "integration/replication-4",
    "integration/replication-psync",
    "integration/replication-buffer",
    "integration/psync2",
    "integration/psync2-reg",
    "integration/psync2-pingoff",
    "integration/psync2-master-restart",
    "integration/block-repl",
    "integration/failover",
    "unit/cluster/links",
    "unit/cluster/replica-in-sync",
];
/// Tags of tests that need more than a small machine has.
const DENIED_TAGS: &str = "-largemem";
/// Tags of tests that need a server of their own, or one that is no cluster.
const DENIED_EXTERNALLY: &str = " -external:skip -cluster:only";
/// A file that takes longer has hung.
const UNIT_LIMIT_SECONDS: &str = "600";

/// Which tree, which servers, which files.
#[derive(clap::Args)]
pub struct Options {
    /// A built source tree of Valkey or Redis.
    #[arg(long, env = "MARTLET_VALKEY_DIR")]
    suite_dir: PathBuf,
    /// The server's port; everything on it is flushed. With `--native`, the first of 100 ports for servers.
    #[arg(long)]
    port: u16,
    /// Let the suite start servers of this binary, on ports from `--port` on; with `--peer-port`, the tree's
    /// from there on.
    #[arg(long, value_name = "BINARY")]
    native: Option<PathBuf>,
    /// The port of a real server of the tree's version, for comparison.
    #[arg(long)]
    peer_port: Option<u16>,
    /// These files instead of all, such as unit/type/list.
    units: Vec<String>,
}

/// The result of one file.
struct Result {
    passed: usize,
    failed: BTreeSet<String>,
    /// Why the file ended early, if it did.
    stopped: Option<String>,
}

/// Prints a table of files; fails when a test fails here that passes on the peer.
pub fn run(options: &Options) -> Outcome {
    let brand = brand_of(&options.suite_dir);
    let skips = skip_file(brand)?;
    let suite = suite_for(options, options.native.as_deref(), brand, "suite")?;
    let peer_suite = match options.native {
        Some(_) => suite_for(options, None, brand, "peer-suite")?,
        None => suite.clone(),
    };
    let native = options.native.is_some();
    println!("{:42} {:>6} {:>6}   {:>6} {:>6}", "file", "passed", "failed", "peer +", "peer -");
    let mut ours_alone = 0;
    let all =
        UNITS.iter().chain(NATIVE_UNITS.iter().filter(|_| native)).map(|unit| unit.replace("valkey", brand));
    let in_tree = all.filter(|unit| suite.join(format!("tests/{unit}.tcl")).exists());
    let units = if options.units.is_empty() { in_tree.collect() } else { options.units.clone() };
    for unit in &units {
        let ours = unit_on(&suite, unit, options.port, native, &skips)?;
        let peer = match options.peer_port {
            Some(port) => Some(unit_on(&peer_suite, unit, port, native, &skips)?),
            None => None,
        };
        let shown = peer.as_ref().map(|peer| format!("{:>6} {:>6}", peer.passed, peer.failed.len()));
        println!("{unit:42} {:>6} {:>6}   {}", ours.passed, ours.failed.len(), shown.unwrap_or_default());
        let peer_failed = peer.as_ref().map(|peer| peer.failed.clone()).unwrap_or_default();
        for test in ours.failed.difference(&peer_failed) {
            println!("    {test}");
            ours_alone += 1;
        }
        if let Some(why) = &ours.stopped {
            println!("    stopped early: {why}");
            ours_alone += usize::from(peer.is_none_or(|peer| peer.stopped.is_none()));
        }
    }
    if ours_alone == 0 {
        Ok(())
    } else {
        Err(format!("{ours_alone} failures that the peer does not show").into())
    }
}

/// The product after which the tree's programs, configuration file and test files are named.
fn brand_of(tree: &Path) -> &'static str {
    if tree.join("redis.conf").exists() { "redis" } else { "valkey" }
}

/// The list of tests that are left out, in the suite's own format: those of both brands and those of this
/// one.
fn skip_file(brand: &str) -> std::result::Result<PathBuf, std::io::Error> {
    let mut names = String::new();
    for list in ["skip.txt".to_string(), format!("skip-{brand}.txt")] {
        let text = std::fs::read_to_string(root().join("tests/valkey").join(list))?;
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            names.push_str(line);
            names.push('\n');
        }
    }
    let path = root().join(format!("target/{brand}-skip.txt"));
    std::fs::write(&path, names.trim_end())?;
    Ok(path)
}

/// A copy of the tree's tests whose harness does not fail on a server without FUNCTION and SCRIPT, which it
/// flushes before each file, and which starts `server` where there is one.
fn suite_for(
    options: &Options,
    server: Option<&Path>,
    brand: &str,
    name: &str,
) -> std::result::Result<PathBuf, Box<dyn std::error::Error>> {
    let copy = root().join(format!("target/{brand}-{name}"));
    let program = format!("{brand}-server");
    let _ = std::fs::remove_dir_all(&copy);
    std::fs::create_dir_all(copy.join("src"))?;
    let suite = options.suite_dir.canonicalize()?;
    step(Command::new("cp").arg("-r").arg(suite.join("tests")).arg(suite.join("runtest")).arg(&copy))?;
    for shared in ["utils".to_string(), format!("{brand}.conf")] {
        std::os::unix::fs::symlink(suite.join(&shared), copy.join(&shared))?;
    }
    for file in std::fs::read_dir(suite.join("src"))? {
        let file = file?;
        if server.is_none() || file.file_name() != *program {
            std::os::unix::fs::symlink(file.path(), copy.join("src").join(file.file_name()))?;
        }
    }
    if let Some(server) = server {
        // By this name it is the server.
        std::os::unix::fs::symlink(server.canonicalize()?, copy.join("src").join(program))?;
    }
    let harness = copy.join("tests/support/server.tcl");
    let mut text = std::fs::read_to_string(&harness)?;
    for flush in ["r function flush", "r script flush"] {
        text = text.replace(flush, &format!("catch {{{flush}}}"));
    }
    std::fs::write(&harness, text)?;
    Ok(copy)
}

fn unit_on(
    suite: &Path,
    unit: &str,
    port: u16,
    native: bool,
    skips: &Path,
) -> std::result::Result<Result, std::io::Error> {
    let mut command = Command::new("timeout");
    command.args([UNIT_LIMIT_SECONDS, "./runtest"]);
    let port = port.to_string();
    let mut tags = DENIED_TAGS.to_string();
    if native {
        command.args(["--baseport", &port, "--portcount", "100", "--clients", "1", "--durable"]);
    } else {
        command.args(["--host", "127.0.0.1", "--port", &port]);
        tags.push_str(DENIED_EXTERNALLY);
        command.args(["--ignore-encoding", "--ignore-digest"]);
    }
    let output = command
        .args(["--single", unit, "--no-latency", "--tags", &tags])
        .arg("--skipfile")
        .arg(skips)
        .current_dir(suite)
        .output()?;
    let text = without_colours(&String::from_utf8_lossy(&output.stdout));
    let named = |line: &str, mark: &str| line.strip_prefix(mark).map(|rest| rest.trim().to_string());
    let failed: BTreeSet<String> =
        text.lines().filter_map(|line| named(line, "[err]:").or_else(|| named(line, "[timeout]:"))).collect();
    let passed = text.lines().filter(|line| line.starts_with("[ok]:")).count();
    let ended = text.contains("The End") || !failed.is_empty() && text.contains("[1/1 done]");
    let last = text
        .lines()
        .rev()
        .find(|line| line.contains("exception") || line.contains("ERR"))
        .unwrap_or_default();
    let stopped = (!ended).then(|| format!("{} {last}", output.status));
    // The text behind the file's name and line differs from server to server.
    let failed =
        failed.into_iter().map(|name| name.split(" in tests/").next().unwrap_or(&name).to_string()).collect();
    Ok(Result { passed, failed, stopped })
}

/// The text without terminal colours.
fn without_colours(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        out.push_str(&rest[..at]);
        rest = rest[at..].find('m').map_or("", |end| &rest[at + end + 1..]);
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn colours_are_removed() {
        assert_eq!(super::without_colours("[\x1b[0;32mok\x1b[0m]: x"), "[ok]: x");
    }
}
