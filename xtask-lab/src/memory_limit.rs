//! `./x memory-limit`: resident memory of a cache at its limit, with values of up to 8 MB, beside a peer.
//!
//! Each server gets the same load in turn: some clients that SET random keys to values of random sizes, from
//! seeds. Ten times a second the kernel is asked for the process' resident memory, and INFO for what the
//! server knows of it; the first third, in which the memory fills, does not count.

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_testkit::server::Server;
use std::error::Error;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use xtask::run::{Outcome, in_root};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Keys that are set.
const KEYS: u64 = 200;
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// After the load, so that memory which is given back with a delay counts apart.
const REST: Duration = Duration::from_secs(5);

/// The measurements to take.
#[derive(clap::Args)]
pub struct Options {
    /// `maxmemory`, in MB.
    #[arg(long, default_value_t = 150)]
    limit_mb: u64,
    /// The largest value, in KB; the least has one byte.
    #[arg(long, default_value_t = 8192)]
    value_kb: u64,
    /// Clients.
    #[arg(long, default_value_t = 4)]
    clients: u64,
    /// Seconds of load for each server.
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// Fail when ours has more than this part of the peer's resident memory.
    #[arg(long)]
    require: Option<f64>,
    /// Our server's program.
    #[arg(long, default_value_os_t = in_root("target/release/martlet"))]
    ours: PathBuf,
    /// The peer's program.
    #[arg(long, default_value = "redis-server")]
    peer: PathBuf,
    /// The table is written here.
    #[arg(long, default_value_os_t = in_root("results/memory-limit.md"))]
    output: PathBuf,
}

/// The fields of INFO that are shown, in MB.
const FIELDS: &[&str] = &["used_memory", "allocator_active", "allocator_resident", "mem_clients_normal"];

/// One look at a server, in bytes.
struct Sample {
    resident: u64,
    /// [`FIELDS`].
    fields: Vec<u64>,
}

/// A server's figures under load, in bytes.
struct Figures {
    name: String,
    requests_per_s: u64,
    resident_mean: u64,
    resident_most: u64,
    /// [`FIELDS`], on average.
    fields: Vec<u64>,
    /// [`REST`] after the load.
    resident_at_rest: u64,
}

/// Measures and writes the table.
pub fn run(options: &Options) -> Outcome {
    let peer = measure(options, &options.peer, false).map_err(|error| error.to_string())?;
    let ours = measure(options, &options.ours, true).map_err(|error| error.to_string())?;
    let ratio = ours.resident_mean as f64 / peer.resident_mean.max(1) as f64;
    let mut text = title(options);
    for figures in [&peer, &ours] {
        let mb = |bytes: &u64| (bytes >> 20).to_string();
        let fields: Vec<String> = figures.fields.iter().map(mb).collect();
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            figures.name,
            mb(&figures.resident_mean),
            mb(&figures.resident_most),
            fields.join(" | "),
            mb(&figures.resident_at_rest),
            figures.requests_per_s,
        )?;
    }
    writeln!(text, "\nOurs has {ratio:.2} of the peer's resident memory.")?;
    print!("{text}");
    std::fs::write(&options.output, text)?;
    match options.require {
        Some(most) if ratio > most => {
            Err(format!("{ratio:.2} of the peer's resident memory; {most} is allowed").into())
        }
        _ => Ok(()),
    }
}

fn title(options: &Options) -> String {
    let Options { limit_mb, value_kb, clients, seconds, .. } = options;
    format!(
        "# Resident memory of a cache at its limit\n\nWritten by `./x memory-limit --limit-mb {limit_mb} --value-kb \
         {value_kb} --clients {clients} --seconds {seconds}`: SETs of random sizes up to that,\nof {KEYS} keys, under \
         `maxmemory-policy allkeys-lru`. Figures in MB; means of the last two thirds of the run.\n\n| server | resident | \
         at most | {} | resident after {} s of rest | SETs a second |\n|---|---|---|{}---|---|\n",
        FIELDS.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(" | "),
        REST.as_secs(),
        "---|".repeat(FIELDS.len()),
    )
}

fn measure(options: &Options, program: &Path, is_ours: bool) -> Result<Figures> {
    let limit = format!("{}mb", options.limit_mb);
    let first: &[&str] = if is_ours { &["server"] } else { &[] };
    let settings = ["--maxmemory", &limit, "--maxmemory-policy", "allkeys-lru", "--save", ""];
    let server = Server::start(program, &[first, &settings].concat())?;
    let mut client = Client::connect(server.address())?;
    let (is_over, requests) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut samples: Vec<Sample> = Vec::new();
    let began = Instant::now();
    std::thread::scope(|scope| -> Result<()> {
        let load = |seed| {
            let (is_over, requests, address) = (&is_over, &requests, server.address());
            move || set_until(is_over, requests, address, seed, options.value_kb << 10)
        };
        let threads: Vec<_> = (0..options.clients).map(|seed| scope.spawn(load(seed))).collect();
        let mut sample = || -> Result<()> {
            while began.elapsed() < Duration::from_secs(options.seconds) {
                std::thread::sleep(SAMPLE_INTERVAL);
                samples.push(Sample { resident: resident_bytes(server.pid())?, fields: info(&mut client)? });
            }
            Ok(())
        };
        let sampled = sample();
        is_over.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().map_err(|_| "a client panicked")??;
        }
        sampled
    })?;
    let seconds = began.elapsed().as_secs().max(1);
    std::thread::sleep(REST);
    let counted = samples.get(samples.len() / 3..).unwrap_or_default();
    let mean = |figure: &dyn Fn(&Sample) -> u64| {
        counted.iter().map(figure).sum::<u64>() / counted.len().max(1) as u64
    };
    Ok(Figures {
        name: program.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        requests_per_s: requests.load(Ordering::Relaxed) / seconds,
        resident_mean: mean(&|sample| sample.resident),
        resident_most: counted.iter().map(|sample| sample.resident).max().unwrap_or_default(),
        fields: (0..FIELDS.len()).map(|at| mean(&|sample| sample.fields[at])).collect(),
        resident_at_rest: resident_bytes(server.pid())?,
    })
}

/// SETs, one after the other, until the time is over.
fn set_until(
    is_over: &AtomicBool,
    requests: &AtomicU64,
    address: SocketAddr,
    seed: u64,
    value_bytes: u64,
) -> Result<()> {
    let mut client = Client::connect(address)?;
    let mut random = Random::seeded(seed);
    let value = vec![b'v'; value_bytes as usize];
    while !is_over.load(Ordering::Relaxed) {
        let key = format!("key:{}", random.below(KEYS));
        let bytes = 1 + random.below(value_bytes) as usize;
        let reply = client.command(&[b"SET", key.as_bytes(), value.get(..bytes).unwrap_or(&value)])?;
        if reply.is_error() {
            return Err(format!("{reply:?}").into());
        }
        requests.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// [`FIELDS`].
fn info(client: &mut Client) -> Result<Vec<u64>> {
    let reply = client.command(&["INFO", "memory"])?;
    let text = String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned();
    let field = |name: &&str| -> Result<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(*name)?.strip_prefix(':'));
        Ok(line.ok_or_else(|| format!("no {name} in INFO"))?.parse()?)
    };
    FIELDS.iter().map(field).collect()
}

fn resident_bytes(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(kilobytes.ok_or("no VmRSS")? << 10)
}
