//! Measures the graph: inserts and searches per second of CPU time, recall, bytes per element, and how both
//! scale with threads; with `saved`, how long the saved form takes. With `commands` it writes the same
//! vectors and queries as RESP, to run them on another server.
//!
//! ```text
//! reach measure ELEMENTS DIMENSION f32|q8|bin THREADS
//! reach saved ELEMENTS DIMENSION f32|q8|bin THREADS
//! reach commands ELEMENTS DIMENSION f32|q8|bin FOLDER
//! ```

use martlet_base::random::Random;
use martlet_vector::element::Element;
use martlet_vector::graph::{Config, Graph, Metric, SearchOptions};
use martlet_vector::kernels::Kernels;
use martlet_vector::quantise::Encoding;
use martlet_vector::saved::{Field, decode, encode};
use std::io::Write;
use std::sync::Mutex;
use std::time::Instant;

const SEED: u64 = 40;
const QUERIES: usize = 1000;
const COUNT: usize = 10;
/// The defaults of VADD and VSIM.
const EF_INSERT: usize = 200;
const EF_SEARCH: usize = 100;

/// Vectors of uniform components, from -1 to 1.
fn vectors(count: usize, dimension: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut random = Random::seeded(seed);
    let mut vector = || (0..dimension).map(|_| (random.unit_f64() * 2.0 - 1.0) as f32).collect();
    (0..count).map(|_| vector()).collect()
}

/// Nanoseconds that this thread has had of a processor.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Runs a share of the work on each thread; the sum of their CPU seconds, and the seconds that passed.
fn timed(threads: usize, work: impl Fn(usize) + Sync) -> (f64, f64) {
    let start = Instant::now();
    let cpu: u64 = std::thread::scope(|scope| {
        let run = |thread: usize| {
            let work = &work;
            scope.spawn(move || {
                let before = cpu_ns();
                work(thread);
                cpu_ns() - before
            })
        };
        let handles: Vec<_> = (0..threads).map(run).collect();
        handles.into_iter().map(|handle| handle.join().expect("the thread ended")).sum()
    });
    (cpu as f64 / 1e9, start.elapsed().as_secs_f64())
}

/// The indexes of the nearest vectors to each query by cosine, exactly.
fn truth(all: &[Vec<f32>], queries: &[Vec<f32>]) -> Vec<Vec<usize>> {
    let kernels = Kernels::best();
    let nearest = |query: &Vec<f32>| {
        let distance = |vector: &Vec<f32>| kernels.cosine_f32(query, vector).distance();
        let mut all: Vec<(f32, usize)> =
            all.iter().enumerate().map(|(index, vector)| (distance(vector), index)).collect();
        all.select_nth_unstable_by(COUNT - 1, |a, b| a.0.total_cmp(&b.0));
        all.truncate(COUNT);
        all.into_iter().map(|(_, index)| index).collect()
    };
    queries.iter().map(nearest).collect()
}

fn measure(count: usize, dimension: usize, encoding: Encoding, threads: usize) {
    let (all, queries) = (vectors(count, dimension, SEED), vectors(QUERIES, dimension, SEED + 1));
    let config = Config { dimension, encoding, metric: Metric::Cosine, m: 16, seed: SEED };
    let graph: Graph<Element> = Graph::new(config).expect("the configuration is valid");
    let (cpu, wall) = timed(threads, |thread| {
        for index in (thread..count).step_by(threads) {
            let element = Element::new(format!("e{index}").as_bytes(), None);
            graph.insert(&all[index], element, EF_INSERT).expect("the vector fits");
        }
    });
    let (per_cpu, per_wall) = (count as f64 / cpu, count as f64 / wall);
    println!(
        "insert {count}x{dimension} {} threads {threads}: {per_cpu:.0}/s of CPU, {per_wall:.0}/s, {:.1} us",
        encoding.name(),
        1e6 / per_cpu
    );
    println!("bytes per element: {:.0}", graph.heap_bytes() as f64 / count as f64);
    let truth = truth(&all, &queries);
    let names = |query: &Vec<f32>| -> Vec<String> {
        let query = graph.encode(query).expect("the query fits");
        let hits = graph.search(&query, &SearchOptions::nearest(COUNT, EF_SEARCH));
        hits.iter().map(|hit| String::from_utf8_lossy(&hit.payload.name).into_owned()).collect()
    };
    let found: usize = queries
        .iter()
        .zip(&truth)
        .map(|(query, truth)| {
            let names = names(query);
            truth.iter().filter(|index| names.contains(&format!("e{index}"))).count()
        })
        .sum();
    let rounds = 10;
    let (cpu, wall) = timed(threads, |thread| {
        for _ in 0..rounds {
            queries.iter().skip(thread).step_by(threads).for_each(|query| {
                names(query);
            });
        }
    });
    let searches = (QUERIES * rounds) as f64;
    println!(
        "search: {:.0}/s of CPU, {:.0}/s, {:.1} us, recall@{COUNT} {:.4}",
        searches / cpu,
        searches / wall,
        cpu / searches * 1e6,
        found as f64 / (QUERIES * COUNT) as f64
    );
}

/// Saves a graph as fields, and makes a graph of them again.
fn saved(count: usize, dimension: usize, encoding: Encoding, threads: usize) {
    /// Links need not be good ones.
    const EF: usize = 20;
    let all = vectors(count, dimension, SEED);
    let config = Config { dimension, encoding, metric: Metric::Cosine, m: 16, seed: SEED };
    let graph: Graph<Element> = Graph::new(config).expect("the configuration is valid");
    timed(threads, |thread| {
        for index in (thread..count).step_by(threads) {
            let element = Element::new(format!("e{index}").as_bytes(), None);
            graph.insert(&all[index], element, EF).expect("the vector fits");
        }
    });
    let fields = Mutex::new(Vec::new());
    let (cpu, _) = timed(1, |_| {
        let mut fields = fields.lock().expect("no thread has panicked");
        encode(&graph.snapshot(), None, |field| {
            fields.push(match field {
                Field::Unsigned(value) => Field::Unsigned(value),
                Field::Double(value) => Field::Double(value),
                Field::String(text) => Field::String(text.into_owned().into()),
            });
        });
    });
    println!("save: {:.2} us of CPU per element", cpu / count as f64 * 1e6);
    let (cpu, _) = timed(1, |_| {
        let mut fields = std::mem::take(&mut *fields.lock().expect("no thread has panicked")).into_iter();
        assert_eq!(decode(SEED, || fields.next()).expect("it was saved").graph.len(), count);
    });
    println!("load: {:.2} us of CPU per element", cpu / count as f64 * 1e6);
}

fn request(out: &mut impl Write, arguments: &[&[u8]]) -> std::io::Result<()> {
    write!(out, "*{}\r\n", arguments.len())?;
    for argument in arguments {
        write!(out, "${}\r\n", argument.len())?;
        out.write_all(argument)?;
        out.write_all(b"\r\n")?;
    }
    Ok(())
}

fn commands(count: usize, dimension: usize, encoding: Encoding, folder: &str) -> std::io::Result<()> {
    let (all, queries) = (vectors(count, dimension, SEED), vectors(QUERIES, dimension, SEED + 1));
    let blob = |vector: &[f32]| -> Vec<u8> { vector.iter().flat_map(|value| value.to_le_bytes()).collect() };
    let mode: &[u8] = match encoding {
        Encoding::F32 => b"NOQUANT",
        Encoding::Q8 => b"Q8",
        Encoding::Bin => b"BIN",
    };
    let mut out = std::io::BufWriter::new(std::fs::File::create(format!("{folder}/vadd.resp"))?);
    for (index, vector) in all.iter().enumerate() {
        let name = format!("e{index}");
        request(&mut out, &[b"VADD", b"v", b"FP32", &blob(vector), name.as_bytes(), mode])?;
    }
    let mut out = std::io::BufWriter::new(std::fs::File::create(format!("{folder}/vsim.resp"))?);
    for query in &queries {
        request(&mut out, &[b"VSIM", b"v", b"FP32", &blob(query), b"COUNT", b"10", b"NOTHREAD"])?;
    }
    let mut out = std::io::BufWriter::new(std::fs::File::create(format!("{folder}/truth.txt"))?);
    for nearest in truth(&all, &queries) {
        let names: Vec<String> = nearest.iter().map(|index| format!("e{index}")).collect();
        writeln!(out, "{}", names.join(" "))?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, count, dimension, encoding, last] = &arguments[..] else {
        return Err("usage: reach measure|saved|commands ELEMENTS DIMENSION f32|q8|bin THREADS|FOLDER".into());
    };
    let encoding = match encoding.as_str() {
        "f32" => Encoding::F32,
        "q8" => Encoding::Q8,
        _ => Encoding::Bin,
    };
    if mode == "measure" {
        measure(count.parse()?, dimension.parse()?, encoding, last.parse()?);
        return Ok(());
    }
    if mode == "saved" {
        saved(count.parse()?, dimension.parse()?, encoding, last.parse()?);
        return Ok(());
    }
    Ok(commands(count.parse()?, dimension.parse()?, encoding, last)?)
}
