//! R1: the guide to redis-benchmark. Its command lines, its statements on sockets, sizes, connections,
//! MONITOR and INFO, and the one core that its server had.

use crate::claims::{Bound, Claim, Kind, number, quotient};
use crate::experiment::Experiment;
use crate::page::{Entry, Section, View};
use crate::rows::Values;
use crate::scale::Cost;
use crate::scale::Scale;
use crate::servers::{NOTHING_KEPT, Running};
use crate::trial::{Beside, Lab, Load, Trial};
use martlet_bench::cli::classic::templates_of;
use martlet_bench::template::DIMENSION;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    id: "R1",
    title: "The redis-benchmark guide",
    source: "the guide's worked examples: an Intel Xeon E5520, a 2011 laptop, redis-benchmark on the same host",
    trials,
    section,
};

/// `-r 1000000 -n 2000000 -t get,set,lpush,lpop`: test, requests/s without and with `-P 16`.
const XEON: [(&str, f64, f64); 4] = [
    ("set", 122_556.0, 552_028.0),
    ("get", 123_601.0, 707_463.0),
    ("lpush", 136_752.0, 767_459.0),
    ("lpop", 132_424.0, 770_119.0),
];
/// `-n 1000000 -t set,get -P 16 -q`, all on one key.
const LAPTOP: [(&str, &str); 2] = [("set", "403,063"), ("get", "508,388")];
/// 256 bytes: test, requests/s by the unix socket and by TCP.
const SOCKET: [(&str, &str, &str); 4] = [
    ("set", "198,412", "142,653"),
    ("mset", "78,064", "65,487"),
    ("lrange_100", "42,123", "29,577"),
    ("lrange_600", "7,548", "5,296"),
];
/// Bytes of a value, below the frame.
const SIZES: [usize; 3] = [10, 100, 1000];
/// Few and many connections.
const FEW: u64 = 100;
const MANY: [u64; 2] = [30_000, 60_000];
/// Requests of each connection for which such a row has time, requests/s and connections/s that it is planned
/// with.
const ROUNDS: f64 = 3.0;
const MANY_RATE: f64 = 20_000.0;
const CONNECTING_RATE: f64 = 4_000.0;
/// The tests that run when none is named.
const ALL: [&str; 20] = [
    "ping_inline",
    "ping_mbulk",
    "set",
    "get",
    "incr",
    "lpush",
    "rpush",
    "lpop",
    "rpop",
    "sadd",
    "hset",
    "spop",
    "zadd",
    "zpopmin",
    "lrange_100",
    "lrange_300",
    "lrange_500",
    "lrange_600",
    "mset",
    "xadd",
];
/// Any command can be the test.
const ANY_COMMAND: &str = "script load \"redis.call('set','foo','bar')\"";
/// `-t set -r 100000 -n 1000000`: keys drawn from, requests, and what DBSIZE read then.
const DRAWN: (u64, u64, &str) = (100_000, 1_000_000, "99,993");
/// A request that keeps a server busy, and its client not.
const HEAVY: &str = "BITCOUNT bits:{key uniform 64}";
const HEAVY_FILL: &str = "SETBIT bits:{key sequence 64} 524287 1";

/// A test's request, and the keys that it reads.
fn test(name: &str, bytes: usize, keys: u64, scale: &Scale) -> Load {
    let mut templates = templates_of(name, bytes, DIMENSION, keys);
    let load = Load::of(templates.pop().unwrap_or_default());
    let drawn = scale.count(1_000_000);
    match name {
        "get" => load.filled(format!("SET key:{{rand_int {keys}}} {{value {bytes}}}"), drawn.min(keys)),
        "lpop" | "rpop" => load.filled(format!("LPUSH mylist {{value {bytes}}}"), drawn).at_most(drawn),
        "spop" => load.filled(format!("SADD myset element:{{rand_int {keys}}}"), drawn).at_most(drawn),
        "zpopmin" => load
            .filled(format!("ZADD myzset {{rand 1000}} element:{{rand_int {keys}}}"), drawn)
            .at_most(drawn),
        name if name.starts_with("lrange") => load.filled(format!("RPUSH mylist {{value {bytes}}}"), 1000),
        _ => load,
    }
}

fn trials(scale: &Scale) -> Vec<Trial> {
    let mut trials = Vec::new();
    let keys = scale.count(1_000_000);
    for (name, ..) in XEON {
        for depth in [1, 16] {
            trials.push(Trial::load(xeon(name, depth), test(name, 3, keys, scale).pipeline(depth)));
        }
    }
    for (name, _) in LAPTOP {
        trials.push(Trial::load(format!("laptop {name}"), test(name, 3, 1, scale).pipeline(16)));
    }
    for (name, ..) in SOCKET {
        trials.push(by_tcp(name, test(name, 256, 1000, scale)));
        trials.push(by_socket(name, test(name, 256, 1000, scale)));
    }
    trials.push(by_tcp("set P16", test("set", 256, 1000, scale).pipeline(16)));
    trials.push(by_socket("set P16", test("set", 256, 1000, scale).pipeline(16)));
    for bytes in SIZES {
        trials.push(Trial::load(format!("size {bytes}"), test("set", bytes, 1000, scale)));
    }
    trials.extend(many_connections(scale));
    trials.extend(watched());
    trials.push(drawn(scale));
    let busy = Load { threads: 2, ..Load::of(HEAVY).filled(HEAVY_FILL, 64).pipeline(4) };
    trials.push(Trial::load("busy", busy));
    if !scale.brief {
        trials.extend(ALL.map(|name| Trial::load(format!("all {name}"), test(name, 3, keys, scale))));
        trials.push(Trial::load("all script load", Load::of(ANY_COMMAND)));
    }
    trials
}

fn xeon(name: &str, depth: usize) -> String {
    format!("xeon {name} P{depth}")
}

fn by_tcp(name: &str, load: Load) -> Trial {
    Trial::load(format!("tcp {name}"), load)
}

fn by_socket(name: &str, load: Load) -> Trial {
    Trial { needs_start: true, ..Trial::load(format!("socket {name}"), load.by_socket()) }
}

/// GETs over few and over many connections.
fn many_connections(scale: &Scale) -> Vec<Trial> {
    let possible = MANY.into_iter().filter(|asked| is_possible(*asked, scale));
    [FEW]
        .into_iter()
        .chain(possible)
        .map(|asked| {
            let clients = scale.connections(asked);
            let least = Duration::from_secs_f64(clients as f64 * ROUNDS / MANY_RATE);
            let load = test("get", 3, 1000, scale).clients(clients).at_least(least);
            let cost = load.cost();
            let cost = Cost { fixed_s: cost.fixed_s + 0.3 + clients as f64 / CONNECTING_RATE, ..cost };
            Trial::starting(format!("connections {asked}"), cost, move |lab| {
                let limit = (clients + 100).to_string();
                let server = lab.start(&[&NOTHING_KEPT[..], &["--maxclients", &limit]].concat())?;
                let mut values = load.measure(lab, &server)?;
                values.insert("connections".into(), clients as f64);
                Ok(values)
            })
        })
        .collect()
}

/// Whether a row with this number of connections means anything here: less than half of them would not.
fn is_possible(asked: u64, scale: &Scale) -> bool {
    asked <= MANY[0] || scale.connections_most >= asked
}

/// SETs alone, beside a MONITOR, and beside an occasional INFO.
fn watched() -> Vec<Trial> {
    let load = || Load::of("SET key:{rand_int 1000} {value 3}");
    let cost = load().cost();
    let beside = |name: &str, run: fn(&Lab<'_>, &Running, Load) -> Result<Values, String>| {
        Trial::plain(format!("watch {name}"), cost, move |lab, server| run(lab, server, load()))
    };
    vec![
        beside("nobody", |lab, server, load| load.measure(lab, server)),
        beside("MONITOR", |lab, server, load| with_monitor(lab, server, &load)),
        beside("INFO", |lab, server, load| {
            let mut control = server.control()?;
            let mut asked = 0.0;
            let ask = |_| asked += f64::from(u8::from(control.text(&["INFO"]).is_ok()));
            let interval = Some(Duration::from_secs(1).min(lab.scale.unit / 4));
            let mut beside = Beside { at_tick: Some(Box::new(ask)), interval, ..Beside::default() };
            let mut values = load.measure_beside(lab, server, &mut beside)?;
            drop(beside);
            values.insert("asked".into(), asked);
            Ok(values)
        }),
    ]
}

/// A load while a client reads what MONITOR shows.
fn with_monitor(lab: &Lab<'_>, server: &Running, load: &Load) -> Result<Values, String> {
    let address = (server.settings.host.as_str(), server.settings.port);
    let mut stream = std::net::TcpStream::connect(address).map_err(|e| e.to_string())?;
    std::io::Write::write_all(&mut stream, b"MONITOR\r\n").map_err(|e| e.to_string())?;
    stream.set_read_timeout(Some(Duration::from_millis(20))).map_err(|e| e.to_string())?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut buffer, mut seen) = (vec![0; 64 * 1024], 0u64);
            while !done.load(Ordering::Relaxed) {
                seen += stream.read(&mut buffer).unwrap_or(0) as u64;
            }
            seen
        });
        let measured = load.measure(lab, server);
        done.store(true, Ordering::Relaxed);
        let seen = reader.join().map_err(|_| "the thread that reads MONITOR panicked")?;
        let mut values = measured?;
        values.insert("monitored_mb".into(), seen as f64 / 1e6);
        Ok(values)
    })
}

/// SETs on random keys, and how many keys there are then.
fn drawn(scale: &Scale) -> Trial {
    let (full_keys, full_requests, _) = DRAWN;
    let keys = scale.count(full_keys);
    let requests = keys * (full_requests / full_keys);
    let load = Load::of(format!("SET key:{{rand_int {keys}}} {{value 3}}"));
    let load = load.pipeline(16).units(0.0).at_most(requests);
    Trial::plain("drawn", Cost { requests, ..Cost::default() }, move |lab, server| {
        let mut values = load.measure(lab, server)?;
        let found = server.number(&["DBSIZE"])?;
        values.extend([("keys".to_string(), keys as f64), ("dbsize".into(), found)]);
        Ok(values)
    })
}

fn section(view: &View<'_>) -> Section {
    let rate = [("requests/s", "rate")];
    let ratio = Some(("rate", false));
    let xeon_entries: Vec<Entry> = XEON
        .iter()
        .flat_map(|(name, single, piped)| {
            [(1, single), (16, piped)].map(|(depth, source)| {
                let label = format!("{}, -P {depth}", name.to_uppercase());
                Entry::named(&label, &xeon(name, depth), &[&number(*source)])
            })
        })
        .collect();
    let bars: Vec<(String, Option<f64>, String)> =
        XEON.iter().map(|(name, _, piped)| (name.to_uppercase(), Some(*piped), xeon(name, 16))).collect();
    let bars: Vec<(&str, Option<f64>, String)> =
        bars.iter().map(|(label, source, trial)| (label.as_str(), *source, trial.clone())).collect();
    let laptop: Vec<Entry> = LAPTOP
        .iter()
        .map(|(name, source)| Entry::named(&name.to_uppercase(), &format!("laptop {name}"), &[source]))
        .collect();
    let socket: Vec<Entry> = SOCKET
        .iter()
        .flat_map(|(name, socket, tcp)| {
            [("unix socket", "socket", socket), ("TCP", "tcp", tcp)].map(|(shown, way, source)| {
                Entry::named(
                    &format!("{}, {shown}", name.to_uppercase()),
                    &format!("{way} {name}"),
                    &[source],
                )
            })
        })
        .collect();
    let source = ["requests/s"];
    let mut tables = vec![
        view.table(
            "-r 1000000 -n 2000000 -t get,set,lpush,lpop",
            ("test", &source),
            &xeon_entries,
            &rate,
            ratio,
        ),
        view.table("-n 1000000 -t set,get -P 16, one key", ("test", &source), &laptop, &rate, ratio),
        view.table("Values of 256 bytes: unix socket and TCP", ("test", &source), &socket, &rate, ratio),
        others(view),
    ];
    if !view.scale.brief {
        tables.push(all(view));
    }
    Section {
        method: vec![format!(
            "50 connections unless a row says otherwise. Keys are drawn from {}; the numbers of requests give way to \
             a time per row.",
            number(view.scale.count(1_000_000) as f64)
        )],
        claims: claims(view),
        tables,
        plots: vec![view.bars("Pipeline of 16", "requests/s", &bars, "rate")],
        left_out: left_out(&view.scale),
        ..Section::default()
    }
}

/// Rows of which the source says something, but gives no table.
fn others(view: &View<'_>) -> crate::page::Table {
    let mut entries: Vec<Entry> = SIZES
        .map(|bytes| {
            Entry::named(&format!("SET of {bytes} bytes"), &format!("size {bytes}"), &["about the same"])
        })
        .into();
    let many = MANY.into_iter().filter(|asked| is_possible(*asked, &view.scale));
    let said = |asked| match asked {
        FEW => "all",
        30_000 => "half",
        _ => "50,000",
    };
    entries.extend([FEW].into_iter().chain(many).map(|asked| {
        let label = format!("GET over {} connections", number(view.scale.connections(asked) as f64));
        Entry::named(&label, &format!("connections {asked}"), &[said(asked)])
    }));
    for (label, name, said) in [
        ("SET", "nobody", "all"),
        ("SET beside MONITOR", "MONITOR", "half"),
        ("SET beside INFO", "INFO", "all"),
    ] {
        entries.push(Entry::named(label, &format!("watch {name}"), &[said]));
    }
    entries.push(Entry::named("BITCOUNT of 64 KB, 2 client threads", "busy", &["–"]));
    view.table(
        "Sizes, connections, observers, cores",
        ("row", &["says"]),
        &entries,
        &[("requests/s", "rate"), ("server's cores", "cores")],
        Some(("rate", false)),
    )
}

fn all(view: &View<'_>) -> crate::page::Table {
    let names = ALL.iter().copied().chain(["script load"]);
    let entries: Vec<Entry> =
        names.map(|name| Entry::named(&name.to_uppercase(), &format!("all {name}"), &[])).collect();
    let figures = [("requests/s", "rate"), ("p50 ms", "p50_ms"), ("server CPU µs", "cpu_us")];
    view.table("All tests, -q", ("test", &[]), &entries, &figures, Some(("rate", false)))
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    let mut claims = claims_on_requests(view);
    claims.extend(claims_on_connections(view));
    claims.extend(claims_on_cores(view));
    claims
}

/// How a request travels, and how large it is.
fn claims_on_requests(view: &View<'_>) -> Vec<Claim> {
    use Kind::Law;
    let gain = |server: &str, name: &str| {
        view.ratio(server, (&format!("socket {name}"), &format!("tcp {name}")), "rate")
    };
    let spread = |server: &str| {
        let rates: Option<Vec<f64>> =
            SIZES.iter().map(|bytes| view.value(&format!("size {bytes}"), server, "rate")).collect();
        let rates = rates?;
        quotient(rates.iter().copied().reduce(f64::min), rates.iter().copied().reduce(f64::max))
    };
    vec![
        view.claim(
            Law,
            "A unix socket gives up to 50 % more than TCP",
            ("unix socket by TCP, SET", Bound::AtLeast(1.1)),
            |s| gain(s, "set"),
        ),
        view.claim(
            Law,
            "… and less so when pipelined",
            ("gain with a pipeline of 16 by the gain without", Bound::AtMost(1.0)),
            |s| quotient(gain(s, "set P16"), gain(s, "set")),
        ),
        view.claim(
            Law,
            "Values of 10, 100 and 1,000 bytes cost about the same",
            ("slowest by fastest", Bound::AtLeast(0.75)),
            spread,
        ),
    ]
}

/// The effects of the number of connections, and of observers.
fn claims_on_connections(view: &View<'_>) -> Vec<Claim> {
    use Kind::{Law, Limit};
    vec![
        view.claim_ratio(
            Limit,
            "30,000 connections give half of what 100 do",
            ("many connections by 100", Bound::AtMost(0.6)),
            ("connections 30000", "connections 100"),
            "rate",
        ),
        view.claim(
            Law,
            "60,000 connections still reach 50,000 requests/s",
            ("requests/s", Bound::AtLeast(50_000.0)),
            |s| view.value("connections 60000", s, "rate"),
        ),
        view.claim_ratio(
            Limit,
            "MONITOR halves throughput",
            ("with by without", Bound::AtMost(0.6)),
            ("watch MONITOR", "watch nobody"),
            "rate",
        ),
        view.claim_ratio(
            Law,
            "INFO does not",
            ("with by without", Bound::AtLeast(0.85)),
            ("watch INFO", "watch nobody"),
            "rate",
        ),
    ]
}

/// Which keys a run leaves, and which process its time goes to.
fn claims_on_cores(view: &View<'_>) -> Vec<Claim> {
    use Kind::{Law, Limit};
    let off = |server: &str| {
        let (keys, found) = (view.value("drawn", server, "keys")?, view.value("drawn", server, "dbsize")?);
        Some(found / expected_keys(keys, 10.0))
    };
    let client = |server: &str| {
        let trial = xeon("set", 16);
        quotient(view.value(&trial, server, "client_us"), view.value(&trial, server, "cpu_us"))
    };
    vec![
        view.claim(
            Law,
            "-t set -r 100000 -n 1000000 leaves 99,993 keys",
            ("DBSIZE by what chance gives", Bound::Between(0.999, 1.001)),
            off,
        ),
        view.claim(
            Law,
            "The client is often the bottleneck, not the server",
            ("client CPU by server CPU, SET, -P 16", Bound::AtLeast(1.0)),
            client,
        ),
        view.claim(
            Limit,
            "The server cannot use several cores",
            ("cores used, BITCOUNT", Bound::AtMost(1.1)),
            |s| view.value("busy", s, "cores"),
        ),
    ]
}

/// Expected number of different keys after `draws_per_key` random draws per key.
fn expected_keys(keys: f64, draws_per_key: f64) -> f64 {
    keys * (1.0 - (-draws_per_key).exp())
}

fn left_out(scale: &Scale) -> Vec<(String, String)> {
    let mut left_out = vec![
        (
            "Client and server on cores of their own".to_string(),
            "both servers run as they are installed, unpinned, beside the client; CPU time per request in R4 does not \
             depend on it"
                .to_string(),
        ),
        (
            "A comparison with a durable database".into(),
            "there is none here; R3 has both servers under every fsync policy".into(),
        ),
    ];
    if !is_possible(MANY[1], scale) {
        left_out.push((
            "60,000 connections".into(),
            format!("a process may have {} connections here", number(scale.connections_most as f64)),
        ));
    }
    if scale.brief {
        left_out.push(("The whole list of tests".into(), "the time asked for is too short".into()));
    }
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_gives_what_the_guide_found() {
        assert!((expected_keys(100_000.0, 10.0) - 99_995.5).abs() < 0.1);
    }

    #[test]
    fn many_connections_have_time_for_several_requests_each() {
        let scale = Scale::of(crate::scale::QUICK_BUDGET, 1 << 40, 19_500);
        let costs: Vec<f64> = many_connections(&scale).iter().map(|trial| trial.cost.fixed_s).collect();
        let expected = [100.0, 19_500.0].map(|clients| clients * 3.0 / 20_000.0 + 0.3 + clients / 4_000.0);
        assert_eq!(costs.len(), expected.len());
        for (cost, expected) in costs.iter().zip(expected) {
            assert!((cost - expected).abs() < 1e-6, "{cost} {expected}");
        }
    }

    #[test]
    fn every_test_has_a_request() {
        let scale = Scale::of(crate::scale::FULL_BUDGET, 1 << 40, 100_000);
        for name in ALL {
            assert!(!test(name, 3, 1000, &scale).templates.concat().is_empty(), "{name}");
        }
        let names: Vec<String> = trials(&scale).into_iter().map(|trial| trial.name).collect();
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
        assert!(distinct.contains(&"connections 60000".to_string()));
    }
}
