//! `./x search-cost`: indexes and queries, ours beside a peer with RediSearch's commands, one core each.
//!
//! Both servers are pinned to a core with one I/O thread and get the same documents from a seed; queries take
//! turns (A B A B…). A figure is CPU time of the server process from the kernel's accounts. Vectors are
//! searched with the parameter EF at which each server's recall, against the exact answer, is the same.

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use xtask::run::{Outcome, built, in_root};

use crate::cost::process::{Measured, pin_load, raise_open_files};

mod alone;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Requests on the way while documents are written.
const PIPELINE: usize = 64;
/// Queries on the way, so that it is they that are measured and not how a sleeping server is woken.
const QUERIES_AT_A_TIME: u32 = 8;
/// Words of the language, of which few are frequent.
const VOCABULARY: f64 = 50_000.0;
const DIMENSIONS: usize = 64;
/// Queries whose nearest vectors are compared with the exact ones.
const RECALL_QUERIES: u64 = 100;

/// The measurements to take and their size.
#[derive(clap::Args)]
pub struct Options {
    /// Documents.
    #[arg(long, default_value_t = 200_000)]
    documents: u64,
    /// Words of each.
    #[arg(long, default_value_t = 100)]
    words: u64,
    /// Documents with vectors.
    #[arg(long, default_value_t = 20_000)]
    vectors: u64,
    /// Readings of each server in a row; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of load in a reading.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Our server's program.
    #[arg(long, default_value_os_t = in_root("target/release/martlet"))]
    ours: PathBuf,
    /// The peer's program.
    #[arg(long, default_value = "redis-stack-server")]
    peer: PathBuf,
    /// Core of the servers.
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    /// Core of the load.
    #[arg(long, default_value_t = 1)]
    load_core: usize,
    /// What indexes cost others, and how they use several threads, in place of a comparison.
    #[arg(long)]
    alone: bool,
    /// The table is written here.
    #[arg(long, default_value_os_t = in_root("results/search-cost.txt"))]
    output: PathBuf,
}

const INDEX: &str = "FT.CREATE i PREFIX 1 d: SCHEMA body TEXT tag TAG price NUMERIC category TAG SORTABLE";

/// A query by its number in the sequence, which is the same for both servers.
type Make = fn(&mut Random) -> Vec<Vec<u8>>;

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split('|').map(|word| word.as_bytes().to_vec()).collect()
}

/// The name of a row, and its queries.
const QUERIES: &[(&str, Make)] = &[
    ("tag and number", |random| {
        let (tag, price) = (random.below(100), random.below(9000));
        words(&format!(
            "FT.SEARCH|i|@tag:{{t{tag}}} @price:[{price} {}]|SCORER|TFIDF|LIMIT|0|10",
            price + 1000
        ))
    }),
    ("two terms", |random| {
        let (a, b) = (word(random.below(200)), word(200 + random.below(1000)));
        words(&format!("FT.SEARCH|i|{a} {b}|SCORER|TFIDF|LIMIT|0|10"))
    }),
    ("phrase", |random| {
        let (a, b) = (word(random.below(50)), word(random.below(50)));
        words(&format!("FT.SEARCH|i|\"{a} {b}\"|SCORER|TFIDF|LIMIT|0|10"))
    }),
    ("prefix", |random| {
        let text = word(200 + random.below(5000));
        words(&format!("FT.SEARCH|i|{}*|SCORER|TFIDF|LIMIT|0|10", &text[..3]))
    }),
    ("sorted by number", |random| {
        let tag = random.below(100);
        words(&format!("FT.SEARCH|i|@tag:{{t{tag}}}|SORTBY|price|LIMIT|0|10"))
    }),
    ("groupby", |_| words("FT.AGGREGATE|i|*|GROUPBY|1|@category|REDUCE|COUNT|0|AS|count")),
    ("filter, load, groupby", |random| {
        let tag = random.below(100);
        words(&format!(
            "FT.AGGREGATE|i|@tag:{{t{tag}}}|LOAD|1|@price|GROUPBY|1|@category|REDUCE|AVG|1|@price|AS|mean"
        ))
    }),
];

/// The word of a rank in the language: letters that make prefixes shared by a few.
fn word(rank: u64) -> String {
    let mut rest = rank.wrapping_mul(7919) % 50_021;
    let mut text = String::new();
    for letters in [b"bcdfghklmnprstvz".as_slice(), b"aeiou", b"bdglmnrst", b"aeiou", b"klmnrst"] {
        text.push(char::from(letters[(rest % letters.len() as u64) as usize]));
        rest /= letters.len() as u64;
    }
    format!("{text}{rest}")
}

fn document(options: &Options, number: u64) -> Vec<Vec<u8>> {
    let mut random = Random::seeded(number);
    let mut body = String::new();
    for _ in 0..options.words {
        let part = random.below(1 << 20) as f64 / f64::from(1 << 20);
        let _ = write!(body, "{} ", word((VOCABULARY * part * part * part) as u64));
    }
    let (tag, price, category) = (random.below(100), random.below(10_000), random.below(20));
    words(&format!("HSET|d:{number}|body|{body}|tag|t{tag}|price|{price}|category|c{category}"))
}

/// A point near one of some hundred, so that a graph has something to find.
fn vector(random: &mut Random) -> Vec<u8> {
    let mut centre = Random::seeded(1_000_000 + random.below(100));
    let part = |random: &mut Random| random.below(2000) as f32 / 1000.0 - 1.0;
    (0..DIMENSIONS).flat_map(|_| (part(&mut centre) + part(random) * 0.5).to_le_bytes()).collect()
}

fn encode(request: &[Vec<u8>], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", request.len()).as_bytes());
    for argument in request {
        out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

fn ask(client: &mut Client, request: &[Vec<u8>]) -> Result<Reply> {
    match client.command(request)? {
        Reply::Error(error) => Err(String::from_utf8_lossy(&error).into_owned().into()),
        reply => Ok(reply),
    }
}

/// Sends requests, some at a time.
fn send_all(client: &mut Client, requests: impl Iterator<Item = Vec<Vec<u8>>>) -> Result<()> {
    let mut requests = requests.peekable();
    while requests.peek().is_some() {
        let (mut batch, mut count) = (Vec::new(), 0);
        for request in requests.by_ref().take(PIPELINE) {
            encode(&request, &mut batch);
            count += 1;
        }
        client.send_raw(&batch)?;
        for _ in 0..count {
            if let Reply::Error(error) = client.read_reply()? {
                return Err(String::from_utf8_lossy(&error).into_owned().into());
            }
        }
    }
    Ok(())
}

fn info(client: &mut Client, field: &str) -> Result<u64> {
    let reply = ask(client, &words("INFO"))?;
    let text = String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned();
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    Ok(value.ok_or_else(|| format!("no {field}"))?.parse()?)
}

struct Side {
    server: Measured,
    client: Client,
}

impl Side {
    fn start(name: &'static str, program: &Path, options: &Options) -> Result<Side> {
        let own: &[&str] = if name == "ours" { &["server", "--io-threads", "1"] } else { &[] };
        let arguments = [own, &["--save", "", "--appendonly", "no"]].concat();
        let server = Measured::start(name, program, &arguments, options.server_core)?;
        let client = server.client()?;
        Ok(Side { server, client })
    }

    /// CPU nanoseconds that the work takes.
    fn cost_ns(&mut self, work: impl FnOnce(&mut Client) -> Result<()>) -> Result<u64> {
        let before = self.server.cpu_time()?;
        work(&mut self.client)?;
        Ok(self.server.cpu_time()?.since(before))
    }

    /// CPU microseconds of a query.
    fn query_us(&mut self, mut make: impl FnMut() -> Vec<Vec<u8>>, span: Duration) -> Result<f64> {
        let mut count = 0_u32;
        let cost_ns = self.cost_ns(|client| {
            let began = Instant::now();
            while began.elapsed() < span {
                send_all(client, (0..QUERIES_AT_A_TIME).map(|_| make()))?;
                count += QUERIES_AT_A_TIME;
            }
            Ok(())
        })?;
        Ok(cost_ns as f64 / 1000.0 / f64::from(count.max(1)))
    }

    /// Bytes that the index takes: those that dropping it gives back.
    fn index_bytes(&mut self, index: &str) -> Result<u64> {
        let before = info(&mut self.client, "used_memory")?;
        ask(&mut self.client, &words(&format!("FT.DROPINDEX|{index}")))?;
        let mut after = before;
        // The peer frees beside its clients.
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(100));
            let now = info(&mut self.client, "used_memory")?;
            if now == after && now < before {
                break;
            }
            after = now;
        }
        Ok(before.saturating_sub(after))
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Measures and writes the table.
pub fn run(options: &Options) -> Outcome {
    if options.alone {
        return alone::run(options);
    }
    raise_open_files();
    pin_load(options.load_core)?;
    let mut ours = Side::start("ours", &built(&options.ours)?, options)?;
    let mut peer = Side::start("peer", &options.peer, options)?;
    let mut table = format!(
        "Indexes and queries beside Redis Stack, by `./x search-cost --documents {} --words {} --vectors {} \
         --rounds {} --seconds {}`:\nCPU time of the server on one core, times cheaper; medians of the \
         rounds (lowest - highest quotient).\n\nrow                     quotient              peer        ours\n",
        options.documents, options.words, options.vectors, options.rounds, options.seconds
    );
    let mut add = |name: &str, unit: &str, peer: Vec<f64>, ours: Vec<f64>| {
        let mut quotients: Vec<f64> = peer.iter().zip(&ours).map(|(peer, ours)| peer / ours).collect();
        quotients.sort_by(f64::total_cmp);
        let (low, high) = (quotients[0], quotients[quotients.len() - 1]);
        let line = format!(
            "{name:22} {:6.2} ({low:.2} - {high:.2}) {:10.1} {:10.1} {unit}\n",
            median(quotients),
            median(peer),
            median(ours)
        );
        print!("{line}");
        table.push_str(&line);
    };
    let mut costs = [0.0; 2];
    for (side, cost) in [&mut peer, &mut ours].into_iter().zip(&mut costs) {
        ask(&mut side.client, &words(&INDEX.replace(' ', "|")))?;
        let requests = (0..options.documents).map(|number| document(options, number));
        *cost = side.cost_ns(|client| send_all(client, requests))? as f64 / options.documents as f64 / 1000.0;
    }
    add("write and index", "us a document", vec![costs[0]], vec![costs[1]]);
    let span = Duration::from_secs_f64(options.seconds);
    for (name, make) in QUERIES {
        let first = make(&mut Random::seeded(0));
        if [&mut peer, &mut ours].into_iter().any(|side| ask(&mut side.client, &first).is_err()) {
            println!("{name}: not everywhere");
            continue;
        }
        let (mut of_peer, mut of_ours) = (Vec::new(), Vec::new());
        for round in 0..options.rounds as u64 {
            for (side, costs) in [(&mut peer, &mut of_peer), (&mut ours, &mut of_ours)] {
                let mut random = Random::seeded(round);
                costs.push(side.query_us(|| make(&mut random), span)?);
            }
        }
        add(name, "us a query", of_peer, of_ours);
    }
    let per_document = |bytes: u64| bytes as f64 / options.documents as f64;
    let (of_peer, of_ours) = (peer.index_bytes("i")?, ours.index_bytes("i")?);
    add("bytes of the index", "a document", vec![per_document(of_peer)], vec![per_document(of_ours)]);
    vectors(options, &mut peer, &mut ours, &mut add)?;
    std::fs::write(&options.output, table)?;
    Ok(())
}

fn nearest(vector: &[u8], ef: Option<u32>) -> Vec<Vec<u8>> {
    let index = if ef.is_some() { "v" } else { "exact" };
    let ef = ef.map_or(String::new(), |ef| format!(" EF_RUNTIME {ef}"));
    let query = format!("*=>[KNN 10 @v $b{ef}]");
    let mut request = words(&format!("FT.SEARCH|{index}|{query}|NOCONTENT|LIMIT|0|10|PARAMS|2|b"));
    request.push(vector.to_vec());
    request.extend(words("DIALECT|2"));
    request
}

fn keys(reply: &Reply) -> Vec<Vec<u8>> {
    reply.items().unwrap_or_default().iter().filter_map(|item| Some(item.text()?.to_vec())).collect()
}

/// The part of the exact answers that a server finds.
fn recall(side: &mut Side, ef: u32) -> Result<f64> {
    let (mut found, mut all) = (0, 0);
    for seed in 0..RECALL_QUERIES {
        let vector = vector(&mut Random::seeded(5_000_000 + seed));
        let exact = keys(&ask(&mut side.client, &nearest(&vector, None))?);
        let near = keys(&ask(&mut side.client, &nearest(&vector, Some(ef)))?);
        all += exact.len();
        found += near.iter().filter(|key| exact.contains(key)).count();
    }
    Ok(found as f64 / f64::from(all.max(1) as u32))
}

fn vectors(
    options: &Options,
    peer: &mut Side,
    ours: &mut Side,
    add: &mut impl FnMut(&str, &str, Vec<f64>, Vec<f64>),
) -> Result<()> {
    let mut costs = [0.0; 2];
    for (side, cost) in [&mut *peer, &mut *ours].into_iter().zip(&mut costs) {
        ask(&mut side.client, &words("FLUSHALL"))?;
        for (index, kind) in [("v", "HNSW"), ("exact", "FLAT")] {
            let line = format!(
                "FT.CREATE|{index}|PREFIX|1|{}:|SCHEMA|v|VECTOR|{kind}|6|TYPE|FLOAT32|DIM|{DIMENSIONS}|DISTANCE_METRIC|L2",
                if index == "v" { "v" } else { "" }
            );
            ask(&mut side.client, &words(&line.replace("PREFIX|1|:|", "")))?;
        }
        let requests = (0..options.vectors).map(|number| {
            let mut request = words(&format!("HSET|v:{number}|v"));
            request.push(vector(&mut Random::seeded(number)));
            request
        });
        *cost = side.cost_ns(|client| send_all(client, requests))? as f64 / options.vectors as f64 / 1000.0;
    }
    add("write a vector (HNSW and FLAT)", "us", vec![costs[0]], vec![costs[1]]);
    for goal in [0.9, 0.95, 0.99] {
        let mut efs = [0; 2];
        let mut recalls = [0.0; 2];
        for ((side, ef), own) in [&mut *peer, &mut *ours].into_iter().zip(&mut efs).zip(&mut recalls) {
            for tried in [10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320, 448, 640] {
                (*ef, *own) = (tried, recall(side, tried)?);
                if *own >= goal {
                    break;
                }
            }
        }
        let span = Duration::from_secs_f64(options.seconds);
        let (mut of_peer, mut of_ours) = (Vec::new(), Vec::new());
        for round in 0..options.rounds as u64 {
            for (side, ef, costs) in [(&mut *peer, efs[0], &mut of_peer), (&mut *ours, efs[1], &mut of_ours)]
            {
                let mut random = Random::seeded(9_000_000 + round);
                costs.push(side.query_us(|| nearest(&vector(&mut random), Some(ef)), span)?);
            }
        }
        let name = format!("KNN 10, recall {:.3}/{:.3}", recalls[0], recalls[1]);
        add(&name, &format!("us a query, EF {}/{}", efs[0], efs[1]), of_peer, of_ours);
    }
    Ok(())
}
