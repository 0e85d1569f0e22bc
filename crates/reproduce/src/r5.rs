//! R5: notes on performance and capacity. A primary that appends, with a replica that appends and saves; what
//! tuning gives; and below this file what memory does, and how a cluster redirects.

mod capacity;
mod redirects;

use crate::claims::{Bound, Claim, Kind, number};
use crate::experiment::Experiment;
use crate::page::{Entry, Section, Table, View};
use crate::r3::replica_of;
use crate::rows::Values;
use crate::scale::Cost;
use crate::scale::Scale;
use crate::trial::{Lab, Load, Trial};
use std::path::Path;
use std::time::{Duration, Instant};

pub const EXPERIMENT: Experiment = Experiment {
    id: "R5",
    title: "Performance and capacity",
    source: "operators' notes: 2 × 6-core Xeon 2.0 GHz, AOF on, one replica with AOF and RDB, -c 100 -d 256",
    trials,
    section,
};

const PRIMARY: [&str; 8] =
    ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0"];
const REPLICA: [&str; 6] =
    ["--save", "900 1 300 10 60 10000", "--appendonly", "yes", "--appendfsync", "everysec"];
/// `-r 10000000`, a tenth of it at full size.
const KEYS: u64 = 1_000_000;
/// Bytes of a value, and those that filled the card.
const BYTES: usize = 256;
const LARGE_BYTES: usize = 4096;
/// Clients, and the source's statement about them.
const CLIENTS: [(u64, &str); 4] = [(1, "6,000"), (50, "as 100"), (100, "45,000"), (200, "slightly more")];
/// Items of one request where several go into one.
const ITEMS: usize = 10;
/// Ways to write several items: name, request of one item or more, pipeline.
const TUNING: [&str; 6] = ["SET", "MSET", "LPUSH", "ZADD", "pipeline", "Lua"];

fn trials(scale: &Scale) -> Vec<Trial> {
    let keys = scale.count(KEYS);
    let set = |bytes: usize| format!("SET key:{{rand_int {keys}}} {{value {bytes}}}");
    let get = format!("GET key:{{rand_int {keys}}}");
    let load = |template: String| Load::of(template).clients(100);
    let mut trials = vec![
        pair("GET", load(get.clone()).filled(set(BYTES), keys)),
        pair("INCR", load(format!("INCR counter:{{rand_int {keys}}}"))),
        pair(
            "mixed",
            Load::mix(vec![format!("25:{}", set(BYTES)), format!("30:{get}")])
                .clients(100)
                .filled(set(BYTES), keys),
        ),
        pair("4096", load(set(LARGE_BYTES))),
    ];
    trials.extend(
        CLIENTS.iter().map(|(clients, _)| pair(&set_name(*clients), load(set(BYTES)).clients(*clients))),
    );
    trials.push(rewrite(scale));
    trials.extend(TUNING.iter().map(|name| tuned(name)));
    trials.extend(capacity::trials(scale));
    trials.push(redirects::trial());
    trials
}

fn set_name(clients: u64) -> String {
    format!("SET {clients}")
}

fn pair_name(name: &str) -> String {
    format!("pair {name}")
}

/// A load on a primary that appends, with a replica that appends and saves.
fn pair(name: &str, load: Load) -> Trial {
    let cost = Cost { fixed_s: 0.5, ..load.cost() };
    Trial::starting(pair_name(name), cost, move |lab| {
        let primary = lab.start(&PRIMARY)?;
        let replica = replica_of(lab, &primary, &REPLICA)?;
        let appended = bytes_below(primary.directory());
        let mut values = load.measure(lab, &primary)?;
        let appended = bytes_below(primary.directory()).saturating_sub(appended);
        // Data loaded before is in it, so that only a load without any shows the bytes that its writes
        // append.
        if load.fill.is_empty() {
            let seconds = values.get("seconds").copied().unwrap_or_default();
            values.insert("appended_mb_s".into(), appended as f64 / 1e6 / seconds.max(1e-9));
        }
        // The replica has all of it before it counts as one.
        let offset = primary.info("master_repl_offset")?;
        let limit = Duration::from_secs(60);
        let is_level = || {
            let behind = replica.info_number("slave_repl_offset")? < offset.parse().unwrap_or(f64::MAX);
            Ok(!behind)
        };
        replica.await_that(limit, "the replica's offset", is_level)?;
        let keys = [primary.number(&["DBSIZE"])?, replica.number(&["DBSIZE"])?];
        values.insert("replica_lacks".into(), keys[0] - keys[1]);
        Ok(values)
    })
}

/// Bytes of all files below a directory.
fn bytes_below(directory: Option<&Path>) -> u64 {
    let Some(entries) = directory.and_then(|path| std::fs::read_dir(path).ok()) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes_below(Some(&entry.path())),
        Ok(about) => about.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// An append-only file is rewritten, and a server loads it.
fn rewrite(scale: &Scale) -> Trial {
    let keys = scale.count(KEYS);
    let cost = Cost { units: 0.0, requests: keys, fixed_s: 1.0 + keys as f64 / 400_000.0 };
    Trial::starting("rewrite", cost, move |lab| {
        let mut server = lab.start(&PRIMARY)?;
        let fill = Load::of(format!("SET key:{{key sequence {keys}}} {{value {BYTES}}}"));
        fill.pipeline(64).units(0.0).at_most(keys).measure(lab, &server)?;
        let pid = server.pid()?;
        let cpu = || martlet_bench::process::family_cpu(pid).ok_or("the server's process is gone");
        let (before, began) = (cpu()?, Instant::now());
        server.command(&["BGREWRITEAOF"])?;
        let rewrites = || {
            Ok(server.info("aof_rewrite_in_progress")? == "0" && server.info("aof_rewrite_scheduled")? == "0")
        };
        server.await_that(Duration::from_secs(120), "the end of the rewrite", rewrites)?;
        let seconds = began.elapsed().as_secs_f64();
        let cores = (cpu()? - before) / seconds.max(1e-9);
        let megabytes = bytes_below(server.directory()) as f64 / 1e6;
        let loading = server.restart(lab.line()?, "NOSAVE", &PRIMARY)?;
        let found = server.number(&["DBSIZE"])?;
        Ok(Values::from([
            ("seconds".to_string(), seconds),
            ("cores".into(), cores),
            ("mb".into(), megabytes),
            ("mb_s".into(), megabytes / seconds.max(1e-9)),
            ("loading_mb_s".into(), megabytes / loading.max(1e-9)),
            ("lacks".into(), keys as f64 - found),
        ]))
    })
}

fn tuning_name(name: &str) -> String {
    format!("tuning {name}")
}

/// Several items in one request, or in one batch.
fn tuned(name: &str) -> Trial {
    let many = |item: &str| [item; ITEMS].join(" ");
    let (template, items, pipeline) = match name {
        "MSET" => (format!("MSET {}", many("key:{rand_int 100000} {value 64}")), ITEMS, 1),
        "LPUSH" => (format!("LPUSH list:{{rand 1000}} {}", many("{value 64}")), ITEMS, 1),
        "ZADD" => (format!("ZADD zset:{{rand 1000}} {}", many("{rand 70000} {key uniform 10000}")), ITEMS, 1),
        "Lua" => {
            let script = "for i=1,#KEYS do redis.call('SET',KEYS[i],ARGV[1]) end return 1";
            (format!("EVAL \"{script}\" {ITEMS} {} {{value 64}}", many("key:{rand_int 100000}")), ITEMS, 1)
        }
        "pipeline" => ("SET key:{rand_int 100000} {value 64}".into(), 1, ITEMS),
        _ => ("SET key:{rand_int 100000} {value 64}".into(), 1, 1),
    };
    let load = Load::of(template).pipeline(pipeline);
    Trial::plain(tuning_name(name), load.cost(), move |lab: &Lab<'_>, server| {
        let mut values = load.measure(lab, server)?;
        let rate = values.get("rate").copied().unwrap_or_default();
        values.insert("items".into(), rate * items as f64);
        Ok(values)
    })
}

fn section(view: &View<'_>) -> Section {
    let bars: Vec<(&str, Option<f64>, String)> =
        TUNING.iter().map(|name| (*name, None, tuning_name(name))).collect();
    let mut claims = claims(view);
    claims.extend(capacity::claims(view));
    claims.extend(redirects::claims(view));
    let mut tables = vec![pairs(view), rewriting(view), tuning(view)];
    tables.extend(capacity::tables(view));
    tables.push(redirects::table(view));
    Section {
        method: vec![format!(
            "Primary and replica are two processes on this machine, {} keys; the client is the third.",
            number(view.scale.count(KEYS) as f64)
        )],
        claims,
        tables,
        plots: vec![view.bars("Tuning", "items/s", &bars, "items")],
        left_out: left_out(),
        ..Section::default()
    }
}

fn pairs(view: &View<'_>) -> Table {
    let mut entries: Vec<Entry> = CLIENTS
        .iter()
        .map(|(clients, source)| {
            Entry::named(&format!("SET, -c {clients}"), &pair_name(&set_name(*clients)), &[source, "–"])
        })
        .collect();
    for (label, name, source, bytes) in [
        ("GET", "GET", "60,000", "–"),
        ("INCR", "INCR", "60,000", "–"),
        ("25 SET : 30 GET", "mixed", "25,000 + 30,000", "15–20"),
        ("SET of 4 KB", "4096", "20,000", "99"),
    ] {
        entries.push(Entry::named(label, &pair_name(name), &[source, bytes]));
    }
    let figures = [
        ("requests/s", "rate"),
        ("p50 ms", "p50_ms"),
        ("MB/s in", "sent_mb_s"),
        ("MB/s appended", "appended_mb_s"),
        ("cores", "cores"),
    ];
    let source = ("load", &["requests/s", "MB/s in"][..]);
    view.table("A primary and its replica", source, &entries, &figures, Some(("rate", false)))
}

fn rewriting(view: &View<'_>) -> Table {
    let entries = [Entry::named("rewrite", "rewrite", &["0.5–0.7", "100"])];
    let figures = [
        ("cores", "cores"),
        ("MB/s rewritten", "mb_s"),
        ("MB/s loaded", "loading_mb_s"),
        ("MB", "mb"),
        ("seconds", "seconds"),
    ];
    let source = ("", &["cores", "MB/s"][..]);
    view.table("Rewriting the append-only file", source, &entries, &figures, Some(("seconds", true)))
}

fn tuning(view: &View<'_>) -> Table {
    let entries: Vec<Entry> = TUNING.iter().map(|name| Entry::named(name, &tuning_name(name), &[])).collect();
    let figures = [("requests/s", "rate"), ("items/s", "items")];
    let title = "Tuning: 10 items at once, 50 clients";
    view.table(title, ("form", &[]), &entries, &figures, Some(("items", false)))
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    use Kind::Law;
    let by = |above: u64, below: u64| {
        move |server: &str| {
            view.ratio(server, (&pair_name(&set_name(above)), &pair_name(&set_name(below))), "rate")
        }
    };
    let items = |name: &'static str| {
        move |server: &str| view.ratio(server, (&tuning_name(name), &tuning_name("SET")), "items")
    };
    vec![
        view.claim(
            Law,
            "One client reaches a fraction of what 100 do",
            ("1 client by 100", Bound::AtMost(0.6)),
            by(1, 100),
        ),
        view.claim(
            Law,
            "50 and 100 clients are alike",
            ("50 by 100", Bound::Between(0.75, 1.33)),
            by(50, 100),
        ),
        view.claim(
            Law,
            "200 clients give slightly more",
            ("200 by 100", Bound::Between(0.9, 1.5)),
            by(200, 100),
        ),
        view.claim(
            Law,
            "The replica has all that the primary has",
            ("keys that it lacks", Bound::Between(0.0, 0.0)),
            |server| view.value(&pair_name(&set_name(100)), server, "replica_lacks"),
        ),
        view.claim(
            Law,
            "Rewriting the append-only file takes half of another core or more",
            ("cores", Bound::AtLeast(0.5)),
            |server| view.value("rewrite", server, "cores"),
        ),
        view.claim(
            Law,
            "MSET of 10 gives more than single SETs",
            ("items/s by SET's", Bound::AtLeast(2.0)),
            items("MSET"),
        ),
        view.claim(
            Law,
            "… and so does a pipeline of 10",
            ("items/s by SET's", Bound::AtLeast(2.0)),
            items("pipeline"),
        ),
        view.claim(
            Law,
            "… and a script that sets 10",
            ("items/s by SET's", Bound::AtLeast(2.0)),
            items("Lua"),
        ),
    ]
}

fn left_out() -> Vec<(String, String)> {
    [
        ("About 1 ms over a LAN; a gigabit card filled by values of 4 KB", "it needs two hosts"),
        (
            "Disk at 15 MB/s appending, 100 MB/s rewriting, as the disk's limit",
            "this machine has another disk; its figures are in the tables",
        ),
        (
            "Throughput of sharding in the client, of Twemproxy and of a cluster",
            "several servers would share this machine's cores",
        ),
        (
            "Failover by Sentinel",
            "one machine fails as a whole; `./x sim` and the replication suites have it",
        ),
        ("Buffers for a rewrite and for each replica (256 MB)", "there is no slow replica here to fill them"),
    ]
    .map(|(what, why)| (what.to_string(), why.to_string()))
    .into()
}
