//! `./x search-cost --alone`: what indexes cost others on our server, and how they use several threads.

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use xtask::run::{Outcome, built};

use super::{INDEX, Options, PIPELINE, Result, ask, document, encode, median, send_all, words};
use crate::cost::process::{Measured, pin_load, raise_open_files};

/// Connections that write documents.
const WRITERS: u64 = 4;
/// A query over all documents that computes for each.
const LONG_QUERY: &str =
    "FT.AGGREGATE|i|*|LOAD|1|@body|APPLY|upper(@body)|AS|u|GROUPBY|0|REDUCE|COUNT_DISTINCT|1|@u";

/// Measures and writes the table.
pub fn run(options: &Options) -> Outcome {
    raise_open_files();
    let ours = built(&options.ours)?;
    let mut table = format!(
        "Indexes of Martlet by themselves, by `./x search-cost --alone --documents {} --words {} --rounds {}`: two \
         cores, which the load shares.\n\n",
        options.documents, options.words, options.rounds
    );
    let mut add = |line: String| {
        println!("{line}");
        let _ = writeln!(table, "{line}");
    };
    // Processes that are started inherit where the load is pinned.
    threads(options, &ours, &mut add)?;
    rebuilding(options, &ours, &mut add)?;
    beside_a_query(options, &ours, &mut add)?;
    pin_load(options.load_core)?;
    beside_ten_indexes(options, &ours, &mut add)?;
    std::fs::write(&options.output, table)?;
    Ok(())
}

fn start(program: &std::path::Path, threads: &str, core: Option<usize>) -> Result<Measured> {
    let arguments = ["server", "--io-threads", threads, "--save", "", "--appendonly", "no"];
    match core {
        Some(core) => Measured::start("ours", program, &arguments, core),
        None => {
            let directory = tempfile::tempdir()?;
            Measured::start_in("ours", program, &arguments, directory.path())
        }
    }
}

/// The requests that write documents, by connection some at a time: made before, so that the load is light.
fn requests(options: &Options) -> Vec<Vec<Vec<u8>>> {
    let of_writer = |writer: u64| -> Vec<Vec<u8>> {
        let own: Vec<u64> = (0..options.documents).filter(|number| number % WRITERS == writer).collect();
        let batches = own.chunks(PIPELINE).map(|numbers| {
            let mut batch = Vec::new();
            numbers.iter().for_each(|number| encode(&document(options, *number), &mut batch));
            batch
        });
        batches.collect()
    };
    (0..WRITERS).map(of_writer).collect()
}

/// Writes documents over several connections; the seconds that it took.
fn write(requests: &[Vec<Vec<u8>>], documents: u64, address: SocketAddr) -> Result<f64> {
    let began = Instant::now();
    std::thread::scope(|scope| -> Result<()> {
        let writers: Vec<_> = (0..)
            .zip(requests)
            .map(|(writer, batches)| {
                scope.spawn(move || -> std::result::Result<(), String> {
                    let mut client = Client::connect(address).map_err(|error| error.to_string())?;
                    let mut left = (0..documents).filter(|number| number % WRITERS == writer).count();
                    for batch in batches {
                        client.send_raw(batch).map_err(|error| error.to_string())?;
                        for _ in 0..left.min(PIPELINE) {
                            client.read_reply().map_err(|error| error.to_string())?;
                        }
                        left = left.saturating_sub(PIPELINE);
                    }
                    Ok(())
                })
            })
            .collect();
        for writer in writers {
            writer.join().map_err(|_| "a writer ended")??;
        }
        Ok(())
    })?;
    Ok(began.elapsed().as_secs_f64())
}

/// Indexing by one thread and by two. Both cores are the server's with two; the load takes a part of them.
fn threads(options: &Options, ours: &std::path::Path, add: &mut impl FnMut(String)) -> Result<()> {
    let requests = requests(options);
    let mut rates = [Vec::new(), Vec::new()];
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..options.rounds {
        for (at, threads) in ["1", "2"].into_iter().enumerate() {
            let server = start(ours, threads, None)?;
            ask(&mut server.client()?, &words(&INDEX.replace(' ', "|")))?;
            let before = server.cpu_time()?;
            let seconds = write(&requests, options.documents, server.address())?;
            let cpu_us = server.cpu_time()?.since(before) as f64 / 1000.0;
            rates[at].push(options.documents as f64 / seconds);
            costs[at].push(cpu_us / options.documents as f64);
        }
    }
    let [one, two] = rates.map(median);
    let [cost_of_one, cost_of_two] = costs.map(median);
    add(format!(
        "indexing, one and two threads: {one:.0} and {two:.0} documents a second ({:.2} times); {cost_of_one:.1} and \
         {cost_of_two:.1} us of CPU a document ({:.2} times the work of a second)",
        two / one,
        2.0 * cost_of_one / cost_of_two
    ));
    Ok(())
}

/// SET of keys that no index has, with ten indexes and without.
fn beside_ten_indexes(options: &Options, ours: &std::path::Path, add: &mut impl FnMut(String)) -> Result<()> {
    const WRITES: u64 = 1_000_000;
    let server = start(ours, "1", Some(options.server_core))?;
    let mut client = server.client()?;
    let cost = |client: &mut Client| -> Result<f64> {
        let before = server.cpu_time()?;
        let mut random = Random::seeded(1);
        let write = |_| words(&format!("SET|key:{}|value", random.below(100_000)));
        send_all(client, (0..WRITES).map(write))?;
        Ok(server.cpu_time()?.since(before) as f64 / WRITES as f64)
    };
    cost(&mut client)?;
    let (mut quotients, mut costs) = (Vec::new(), [Vec::new(), Vec::new()]);
    for _ in 0..options.rounds {
        let without = cost(&mut client)?;
        for index in 0..10 {
            ask(
                &mut client,
                &words(&format!("FT.CREATE|i{index}|PREFIX|1|p{index}:|SCHEMA|t|TEXT|n|NUMERIC")),
            )?;
        }
        let with = cost(&mut client)?;
        for index in 0..10 {
            ask(&mut client, &words(&format!("FT.DROPINDEX|i{index}")))?;
        }
        quotients.push(with / without);
        costs[0].push(without);
        costs[1].push(with);
    }
    let [without, with] = costs.map(median);
    add(format!(
        "SET of a key of no index, without indexes and beside ten: {without:.0} and {with:.0} ns of CPU ({:.3} times)",
        median(quotients)
    ));
    Ok(())
}

/// GET by one client, while another repeats a long query; one I/O thread.
fn beside_a_query(options: &Options, ours: &std::path::Path, add: &mut impl FnMut(String)) -> Result<()> {
    let server = start(ours, "1", None)?;
    let mut client = server.client()?;
    ask(&mut client, &words(&INDEX.replace(' ', "|")))?;
    send_all(&mut client, (0..options.documents).map(|number| document(options, number)))?;
    ask(&mut client, &words("SET|key|value"))?;
    let waits = |client: &mut Client| -> Result<Vec<f64>> {
        let mut waits = Vec::new();
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs_f64(options.seconds.max(1.0) * 10.0) {
            let sent = Instant::now();
            ask(client, &words("GET|key"))?;
            waits.push(sent.elapsed().as_secs_f64() * 1000.0);
        }
        waits.sort_by(f64::total_cmp);
        Ok(waits)
    };
    let alone = waits(&mut client)?;
    let (is_over, address) = (AtomicBool::new(false), server.address());
    let (beside, queries) = std::thread::scope(|scope| -> Result<_> {
        let queries = scope.spawn(|| -> std::result::Result<Vec<f64>, String> {
            let mut client = Client::connect(address).map_err(|error| error.to_string())?;
            client.set_timeout(Duration::from_secs(120));
            let mut times = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let sent = Instant::now();
                let query = words(&format!("{LONG_QUERY}|TIMEOUT|0"));
                ask(&mut client, &query).map_err(|error| error.to_string())?;
                times.push(sent.elapsed().as_secs_f64() * 1000.0);
            }
            Ok(times)
        });
        let beside = waits(&mut client);
        is_over.store(true, Ordering::Relaxed);
        let queries = queries.join().map_err(|_| "the queries ended")??;
        Ok((beside?, queries))
    })?;
    let part = |waits: &[f64], part: f64| waits[((waits.len() - 1) as f64 * part) as usize];
    add(format!(
        "GET alone: p50 {:.3}, p99.9 {:.3} ms; beside queries of {:.0} ms one after the other: p50 {:.3}, \
         p99.9 {:.3}, longest {:.3} ms",
        part(&alone, 0.5),
        part(&alone, 0.999),
        median(queries),
        part(&beside, 0.5),
        part(&beside, 0.999),
        part(&beside, 1.0)
    ));
    Ok(())
}

/// A restart from an RDB file: until all keys are there, and until all are indexed.
fn rebuilding(options: &Options, ours: &std::path::Path, add: &mut impl FnMut(String)) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let arguments = ["server", "--io-threads", "2", "--appendonly", "no", "--dbfilename", "dump.rdb"];
    {
        let server = Measured::start_in("ours", ours, &arguments, directory.path())?;
        ask(&mut server.client()?, &words(&INDEX.replace(' ', "|")))?;
        write(&requests(options), options.documents, server.address())?;
        ask(&mut server.client()?, &words("SAVE"))?;
    }
    let began = Instant::now();
    let server = Measured::start_in("ours", ours, &arguments, directory.path())?;
    let mut client = server.client()?;
    while ask(&mut client, &words("PING")).is_err() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let loaded = began.elapsed().as_secs_f64();
    while ask(&mut client, &words("FT.SEARCH|i|*|LIMIT|0|0"))?
        .items()
        .and_then(|items| items.first()?.integer())
        .is_none_or(|total| total < options.documents as i64)
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    let indexed = began.elapsed().as_secs_f64();
    add(format!(
        "restart with {} documents, two threads: loaded after {loaded:.2} s, indexed after {indexed:.2} s ({:.0} documents a \
         second); {:.1} s of CPU",
        options.documents,
        options.documents as f64 / (indexed - loaded),
        server.cpu_time()?.since(crate::cost::process::CpuTime::ZERO) as f64 / 1e9
    ));
    Ok(())
}
