//! The server with more threads than there are cores, all of them serving: a thread that waits for a lock
//! whose holder does not run waits long, so that a collapse with many cores shows here, too.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use martlet_testkit::server::Server;
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Numbers of threads that all serve; the others are compared with the first.
const THREADS: [usize; 6] = [1, 2, 8, 16, 32, 64];
const CONNECTIONS: &str = "128";

/// A request's figures in a run.
struct Run {
    /// Requests per second.
    rate: f64,
    /// The server's processor time of a request, in nanoseconds.
    cpu_ns: f64,
    p50_ms: f64,
    p999_ms: f64,
}

/// A request's processor time with one thread and a full pipeline, user and system, in nanoseconds.
pub fn request_ns(ours: &Path, settings: &[&str], template: &str) -> Result<f64> {
    let server = start(ours, 1, "1", settings)?;
    let rates = [(); 3].map(|()| bench(ours, &server, template, "16", "50", 1).map(|run| run.cpu_ns));
    let mut rates = rates.into_iter().collect::<Result<Vec<f64>>>()?;
    rates.sort_by(f64::total_cmp);
    Ok(rates[1])
}

/// Throughput and latency by the number of threads.
pub fn table(ours: &Path, seconds: u32) -> Result<String> {
    let mut text = format!(
        "More threads than cores, all of which serve (martlet-active-threads), {CONNECTIONS} connections, two cores \
         for server and load.\nThe last line of each is 64 threads of which as many serve as the load needs.\n\n"
    );
    let loads = [
        ("GET, spread, P=1", "GET {key uniform 100000}", "1", &[][..]),
        ("SET, spread, P=16", "SET {key uniform 100000} {value 64}", "16", &[][..]),
        ("INCR, one key, P=16", "INCR counter", "16", &[][..]),
        (
            "SET, spread, P=16, appendonly",
            "SET {key uniform 100000} {value 64}",
            "16",
            &["--appendonly", "yes"][..],
        ),
    ];
    for (name, template, pipeline, settings) in loads {
        let _ = writeln!(text, "{name}\n  threads   thousand/s   of one   server ns   p50 ms   p99.9 ms");
        let mut one = None;
        let cases = THREADS.iter().map(|threads| (*threads, threads.to_string(), threads.to_string()));
        for (threads, active, shown) in cases.chain([(64, "0".into(), "64 auto".into())]) {
            let server = start(ours, threads, &active, settings)?;
            bench(ours, &server, template, pipeline, CONNECTIONS, 1)?;
            let run = bench(ours, &server, template, pipeline, CONNECTIONS, seconds)?;
            let _ = writeln!(
                text,
                "  {shown:>7}   {:10.0}   {:6.2}   {:9.0}   {:6.2}   {:8.2}",
                run.rate / 1000.0,
                run.rate / *one.get_or_insert(run.rate),
                run.cpu_ns,
                run.p50_ms,
                run.p999_ms
            );
        }
        text.push('\n');
    }
    Ok(text)
}

fn start(ours: &Path, threads: usize, active: &str, settings: &[&str]) -> Result<Server> {
    let threads = threads.to_string();
    let mut arguments = vec!["server", "--io-threads", &threads, "--martlet-active-threads", active];
    arguments.extend_from_slice(settings);
    Ok(Server::start(ours, &arguments)?)
}

fn bench(
    ours: &Path,
    server: &Server,
    template: &str,
    pipeline: &str,
    connections: &str,
    seconds: u32,
) -> Result<Run> {
    let file = tempfile::NamedTempFile::new()?;
    let status = Command::new(ours)
        .args(["bench", "-q", "-p", &server.address().port().to_string(), "--command", template])
        .args(["-P", pipeline, "-c", connections, "--duration", &format!("{seconds}s")])
        .arg("--json")
        .arg(file.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()?;
    if !status.success() {
        return Err(format!("martlet bench has failed: {status}").into());
    }
    let report: Value = serde_json::from_slice(&std::fs::read(file.path())?)?;
    let number = |path: &str| report.pointer(path).and_then(Value::as_f64).ok_or(path.to_owned());
    let seconds = report.pointer("/seconds").and_then(Value::as_array).ok_or("no seconds")?;
    let percentile = |at: usize| {
        let of = |second: &Value| second.pointer("/percentiles_ms")?.get(at)?.as_f64();
        let mut values: Vec<f64> = seconds.iter().filter_map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    Ok(Run {
        rate: number("/rate")?,
        cpu_ns: (number("/cost/user_us")? + number("/cost/system_us")?) * 1000.0,
        p50_ms: percentile(0),
        p999_ms: percentile(3),
    })
}
