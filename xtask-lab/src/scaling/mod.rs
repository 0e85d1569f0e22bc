//! `./x scaling`: predictions for many cores, made on two.
//!
//! Three measurements, none of which needs more cores than there are: the lines of memory that requests of
//! two threads share, from a trace of every access, and a model that replays them on up to 64 processors
//! (`model.rs`); the server with up to 64 threads on the cores that are here, which shows where it waits and
//! collapses; and the server's own counters of failed tries and messages between threads.

mod model;
mod oversubscribed;
mod trace;

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use martlet_client::blocking::Client;
use martlet_testkit::wait::until;
use xtask::run::{Outcome, built, in_root};

use model::{Costs, Point, Workload, scalability_law};
use trace::Traced;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Requests on the way on each connection.
const PIPELINE: usize = 16;
/// Keys of the spread workloads.
const KEYS: usize = 4096;
/// Processors that the model is asked for.
const PROCESSORS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Changes of hands that the way of a line is measured by.
const CHANGES: usize = 200_000;

/// What to measure, and the model's assumption.
#[derive(clap::Args)]
pub struct Options {
    /// Traced requests of each thread.
    #[arg(long, default_value_t = 1600)]
    requests: usize,
    /// The model's time for a line's way from one core to another, in nanoseconds.
    #[arg(long, default_value_t = 100.0)]
    transfer_ns: f64,
    /// Seconds of each run with more threads than cores.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Our server's program.
    #[arg(long, default_value_os_t = in_root("target/release/martlet"))]
    ours: PathBuf,
    /// Only the trace and the model.
    #[arg(long)]
    model_only: bool,
    /// Where the tables are written.
    #[arg(long, default_value_os_t = in_root("results/scaling.txt"))]
    output: PathBuf,
}

/// A workload of the model: its name, the server's further settings, and a request by its number.
struct Load {
    name: &'static str,
    settings: &'static [&'static str],
    request: fn(usize) -> Vec<String>,
    /// The template of `martlet bench`.
    template: &'static str,
}

const LOADS: [Load; 6] = [
    Load {
        name: "GET, spread",
        settings: &[],
        request: |number| words(&["GET", &key(number)]),
        template: "GET {key uniform 4096}",
    },
    Load {
        name: "SET, spread",
        settings: &[],
        request: |number| words(&["SET", &key(number), &"v".repeat(64)]),
        template: "SET {key uniform 4096} {value 64}",
    },
    Load {
        name: "SET, spread, appendonly",
        settings: &["--appendonly", "yes"],
        request: |number| words(&["SET", &key(number), &"v".repeat(64)]),
        template: "SET {key uniform 4096} {value 64}",
    },
    Load {
        name: "INCR, spread",
        settings: &[],
        request: |number| words(&["INCR", &format!("count:{}", number % KEYS)]),
        template: "INCR count:{rand 4096}",
    },
    Load {
        name: "GET, one key",
        settings: &[],
        request: |_| words(&["GET", &key(1)]),
        template: "GET key:1",
    },
    Load {
        name: "SET, one key",
        settings: &[],
        request: |_| words(&["SET", &key(1), &"v".repeat(64)]),
        template: "SET key:1 {value 64}",
    },
];

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn key(number: usize) -> String {
    format!("key:{}", number % KEYS)
}

/// Measures, and writes the tables.
pub fn run(options: &Options) -> Outcome {
    let ours = built(&options.ours)?;
    let mut text = head(options);
    for load in &LOADS {
        let part = of_load(options, &ours, load)?;
        print!("{part}");
        text.push_str(&part);
    }
    if !options.model_only {
        let part = oversubscribed::table(&ours, options.seconds)?;
        print!("{part}");
        text.push_str(&part);
    }
    std::fs::write(&options.output, text)?;
    Ok(())
}

fn head(options: &Options) -> String {
    let measured = line_way_ns().map_or_else(|| "not measured".into(), |ns| format!("{ns:.0} ns"));
    format!(
        "Many cores on two: ./x scaling.\n\
         Two I/O threads (epoll), two connections with {PIPELINE} requests on the way, every load and store of \
         {} requests of each traced\n\
         by valgrind. The model replays the requests on 1 to 64 processors; a line's way from core to core \
         takes {} ns\n\
         (measured between the two cores here: {measured}), a request on one core what it takes here. The \
         kernel's own lines, the memory's\n\
         bandwidth and the machine's sockets are not in it.\n\n",
        options.requests, options.transfer_ns
    )
}

/// The way of a line from one core to another and back, halved, in nanoseconds: two threads hand a word to
/// each other.
fn line_way_ns() -> Option<f64> {
    let turn = AtomicUsize::new(0);
    let pass = |own: usize| {
        for _ in 0..CHANGES {
            while turn.load(Ordering::Acquire) % 2 != own {
                std::hint::spin_loop();
            }
            turn.fetch_add(1, Ordering::AcqRel);
        }
    };
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        return None;
    }
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| pass(1));
        pass(0);
    });
    Some(begun.elapsed().as_nanos() as f64 / (2 * CHANGES) as f64)
}

/// Traces a workload and runs the model on it.
fn of_load(options: &Options, ours: &Path, load: &Load) -> Result<String> {
    let request_ns = oversubscribed::request_ns(ours, load.settings, load.template)?;
    let traced = record(options, ours, load)?;
    let costs = Costs { request_ns, transfer_ns: options.transfer_ns };
    let points: Vec<Point> = PROCESSORS.iter().map(|n| traced.workload.run(*n, costs)).collect();
    let mut text = format!(
        "{}: {request_ns:.0} ns a request, {:.2} writes to lines that both threads use\n",
        load.name,
        traced.workload.shared_writes()
    );
    for (hot, place) in traced.workload.hottest(3).into_iter().zip(&traced.places) {
        let _ = writeln!(text, "  written by {:5.1} % of the requests: {place}", hot.part * 100.0);
    }
    let _ = writeln!(
        text,
        "  messages between threads {:.4}, failed tries of locks {:.4} a request",
        traced.messages, traced.failed_tries
    );
    text.push_str("  processors   million/s   of one   lines fetched   ns queued\n");
    let one = points.first().map_or(1.0, |point| point.rate);
    for point in &points {
        let _ = writeln!(
            text,
            "  {:10}   {:9.2}   {:6.2}   {:13.2}   {:9.0}",
            point.processors,
            point.rate / 1e6,
            point.rate / one,
            point.transfers,
            point.queued_ns
        );
    }
    let (contention, coherency) = scalability_law(&points);
    let _ =
        writeln!(text, "  Universal Scalability Law: contention {contention:.4}, coherency {coherency:.6}\n");
    Ok(text)
}

/// A traced workload, and the server's counters per request.
struct Recorded {
    workload: Workload,
    /// Where the hottest lines are written.
    places: Vec<String>,
    messages: f64,
    failed_tries: f64,
}

fn record(options: &Options, ours: &Path, load: &Load) -> Result<Recorded> {
    let port = martlet_testkit::server::ReservedPort::take()?;
    let number = port.number().to_string();
    let mut arguments = vec!["server", "--port", &number, "--save", "", "--io-threads", "2"];
    arguments.extend(["--io-backend", "epoll", "--martlet-active-threads", "2"]);
    arguments.extend_from_slice(load.settings);
    let traced = Traced::start(ours, &arguments)?;
    let address = ("127.0.0.1", port.number());
    until("the traced server", || {
        Client::connect(address).is_ok_and(|mut client| client.command(&["PING"]).is_ok())
    });
    let mut clients = [Client::connect(address)?, Client::connect(address)?];
    let requests = options.requests.next_multiple_of(PIPELINE);
    for number in (0..KEYS).step_by(PIPELINE) {
        let set = |number: usize| words(&["SET", &key(number), &"v".repeat(64)]);
        exchange(&mut clients[0], number, set)?;
    }
    beside_each_other(&mut clients, KEYS, load.request)?;
    let before = counters(&mut clients[0])?;
    traced.keep(true);
    beside_each_other(&mut clients, requests, load.request)?;
    traced.keep(false);
    let after = counters(&mut clients[0])?;
    let base = traced.text_base(ours);
    let mut threads: Vec<_> = traced.end()?.into_values().collect();
    threads.sort_unstable_by_key(|accesses| std::cmp::Reverse(accesses.len()));
    if threads.len() < 2 {
        return Err("the trace has fewer than two threads".into());
    }
    let background = threads.split_off(2);
    let workload = Workload::new(&threads, &background, requests);
    let places = workload.hottest(3).into_iter().map(|hot| place(ours, base, hot.code)).collect();
    let per_request = |at: usize| after[at].saturating_sub(before[at]) as f64 / (2 * requests) as f64;
    Ok(Recorded { workload, places, messages: per_request(0), failed_tries: per_request(1) })
}

/// The function of an instruction, with those that it is inlined into.
fn place(program: &Path, base: Option<u64>, code: u64) -> String {
    let address = format!("{:#x}", code.saturating_sub(base.unwrap_or(0)));
    let output =
        Command::new("addr2line").args(["-i", "-f", "-C", "-s", "-e"]).arg(program).arg(&address).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let functions = lines.chunks(2).filter_map(|pair| Some(format!("{} ({})", pair.first()?, pair.get(1)?)));
    functions.take(6).collect::<Vec<_>>().join(" < ")
}

/// Messages between threads, failed tries of locks and the gate.
fn counters(client: &mut Client) -> Result<[u64; 2]> {
    let reply = client.command(&["INFO", "threads"])?;
    let text = String::from_utf8_lossy(reply.text().ok_or("INFO is a text")?).into_owned();
    let field = |name: &str| -> u64 {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    Ok([field("messages_between_threads"), field("shard_lock_failed_tries") + field("gate_failed_tries")])
}

/// Both clients send this number of requests each, at the same time.
fn beside_each_other(
    clients: &mut [Client; 2],
    requests: usize,
    request: fn(usize) -> Vec<String>,
) -> Result<()> {
    let results: Vec<_> = std::thread::scope(|scope| {
        let run = |(half, client): (usize, &mut Client)| -> std::io::Result<()> {
            (0..requests)
                .step_by(PIPELINE)
                .try_for_each(|at| exchange(client, at * 7 + half * KEYS / 2, request))
        };
        let begin = |one| scope.spawn(move || run(one));
        let running: Vec<_> = clients.iter_mut().enumerate().map(begin).collect();
        running.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    for result in results {
        result.map_err(|_| "a client has failed")??;
    }
    Ok(())
}

/// One pipeline.
fn exchange(
    client: &mut Client,
    first: usize,
    request: impl Fn(usize) -> Vec<String>,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    for number in first..first + PIPELINE {
        let words = request(number);
        bytes.extend(format!("*{}\r\n", words.len()).bytes());
        words.iter().for_each(|word| bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes()));
    }
    client.send_raw(&bytes)?;
    (0..PIPELINE).try_for_each(|_| client.read_reply().map(drop))
}
