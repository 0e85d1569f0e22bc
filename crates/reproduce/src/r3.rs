//! R3: many clients on one key, what each way to persist costs a client that writes, and how long a server
//! takes to come back.

use crate::claims::{Bound, Claim, Kind, number, quotient};
use crate::experiment::Experiment;
use crate::page::{Entry, Plot, Section, View};
use crate::rows::Values;
use crate::scale::Cost;
use crate::scale::Scale;
use crate::servers::{NOTHING_KEPT, Running};
use crate::trial::{Beside, Lab, Load, Trial};
use std::cell::RefCell;
use std::time::{Duration, Instant};

pub const EXPERIMENT: Experiment = Experiment {
    id: "R3",
    title: "Hot key and persistence",
    source: "a report on a client with many threads, known by its INFO alone",
    trials,
    section,
};

/// Threads, milliseconds that each took for 100 INCRs, ops/s of the server (the source has none for 10
/// threads).
const HOT_KEY: [(u64, &str, Option<f64>); 5] = [
    (10, "140", Some(342.0)),
    (50, "560", Some(2_780.0)),
    (100, "1,050", Some(5_766.0)),
    (120, "1,400", Some(6_857.0)),
    (150, "1,570", Some(8_350.0)),
];
/// INCRs of each thread in the source; here each client does a multiple of it.
const INCREMENTS: u64 = 100;
/// Fields of INFO that describe a load.
const INFO_FIELDS: [&str; 3] =
    ["instantaneous_ops_per_sec", "instantaneous_input_kbps", "instantaneous_output_kbps"];
/// Key that all clients share.
const HOT: &str = "reproduce:hot";

/// A way to persist: its name, options, milliseconds of the source for 400,000 and for 2,000,000 writes.
struct Mode {
    name: &'static str,
    options: &'static [&'static str],
    source_ms: [&'static str; 2],
}

const RDB: [&str; 4] = ["--save", "900 1 300 10 60 10000", "--appendonly", "no"];
const REPLICA: &str = "one replica";
const RDB_PIPELINED: &str = "RDB, pipeline of 10,000";

const MODES: [Mode; 7] = [
    Mode { name: "none", options: &NOTHING_KEPT, source_ms: ["145,062", "746,384"] },
    Mode { name: "RDB", options: &RDB, source_ms: ["148,397", "750,721"] },
    Mode { name: REPLICA, options: &NOTHING_KEPT, source_ms: ["210,540", "–"] },
    Mode {
        name: "AOF everysec",
        options: &["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"],
        source_ms: ["158,809", "765,037"],
    },
    Mode {
        name: "AOF always",
        options: &["--save", "", "--appendonly", "yes", "--appendfsync", "always"],
        source_ms: ["583,053", "3,154,548"],
    },
    Mode {
        name: "AOF no",
        options: &["--save", "", "--appendonly", "yes", "--appendfsync", "no"],
        source_ms: ["152,612", "769,203"],
    },
    Mode { name: RDB_PIPELINED, options: &RDB, source_ms: ["1,429", "6,740"] },
];
/// Writes of the matrix, and the deepest pipeline in it.
const WRITES: u64 = 400_000;
const DEEP: usize = 10_000;
/// Time that a row of the matrix may take, in units.
const MATRIX_UNITS: f64 = 4.0;
/// Records that a server comes back with, and seconds that it took: from RDB, from an append-only file.
const RECORDS: u64 = 4_000_000;
const RECOVERY: [(&str, &str); 2] = [("RDB", "4.12"), ("AOF", "6.216")];

fn trials(scale: &Scale) -> Vec<Trial> {
    let hot = HOT_KEY.iter().map(|(clients, ..)| hot_key(*clients));
    let matrix = MODES.iter().map(|mode| persist(mode, scale));
    let recovery = RECOVERY.iter().map(|(kind, _)| recover(kind, scale));
    hot.chain(matrix).chain(recovery).collect()
}

fn hot_key_name(clients: u64) -> String {
    format!("hot key {clients}")
}

/// All clients increment one key; its value must be the sum.
fn hot_key(clients: u64) -> Trial {
    // Long enough for INFO's samples, in whole hundreds for each client.
    let cost = Cost { units: 1.0, ..Cost::default() };
    Trial::plain(hot_key_name(clients), cost, move |lab, server| {
        let expected_rate = 50_000.0;
        let hundreds =
            (expected_rate * lab.scale.unit.as_secs_f64() / (clients * INCREMENTS) as f64).max(1.0) as u64;
        let load = Load { threads: clients.min(2) as usize, ..Load::of(format!("INCR {HOT}")) };
        let load = load.clients(clients).units(0.0).at_most(clients * INCREMENTS * hundreds);
        let before = [server.info_number("used_cpu_sys")?, server.info_number("used_cpu_user")?];
        let told = RefCell::new(Values::new());
        let ask = |_| {
            for name in INFO_FIELDS {
                if let Ok(value) = server.info_number(name) {
                    told.borrow_mut().insert(name.into(), value);
                }
            }
        };
        let interval = Some(lab.scale.unit.mul_f64(0.4));
        let mut beside = Beside { at_tick: Some(Box::new(ask)), interval, ..Beside::default() };
        let mut values = load.measure_beside(lab, server, &mut beside)?;
        drop(beside);
        values.extend(told.into_inner());
        values.insert("used_cpu_sys".into(), server.info_number("used_cpu_sys")? - before[0]);
        values.insert("used_cpu_user".into(), server.info_number("used_cpu_user")? - before[1]);
        values.insert("sum".into(), server.number(&["GET", HOT])?);
        let seconds = values.get("seconds").copied().unwrap_or_default();
        values.insert("ms_per_hundred".into(), seconds * 1e3 / hundreds as f64);
        Ok(values)
    })
}

fn persist_name(mode: &str) -> String {
    format!("persist {mode}")
}

/// One client writes keys of 20 bytes; with RDB a save begins with it, as one did each minute in the source.
fn persist(mode: &'static Mode, scale: &Scale) -> Trial {
    let is_deep = mode.name == RDB_PIPELINED;
    let writes = scale.count(WRITES);
    // Such a key has 14 bytes.
    let load = Load::of(format!("SET bench:{{key sequence {writes}}} x")).clients(1).at_most(writes);
    let load = load.pipeline(if is_deep { DEEP } else { 1 }).units(MATRIX_UNITS);
    let cost = Cost { units: if is_deep { 0.2 } else { MATRIX_UNITS }, requests: 0, fixed_s: 0.3 };
    Trial::starting(persist_name(mode.name), cost, move |lab| {
        let server = lab.start(mode.options)?;
        let _replica =
            if mode.name == REPLICA { Some(replica_of(lab, &server, &NOTHING_KEPT)?) } else { None };
        let mut control = server.control()?;
        let mut beside = Beside::default();
        if mode.options == RDB {
            // A failure shows in the values of INFO.
            beside.at_start = Some(Box::new(move || drop(control.command(&["BGSAVE"]))));
        }
        let mut values = load.measure_beside(lab, &server, &mut beside)?;
        if mode.options == RDB {
            server.await_info("rdb_bgsave_in_progress", "0", Duration::from_secs(120))?;
            values.insert("fork_us".into(), server.info_number("latest_fork_usec")?);
        }
        values.insert("used_mb".into(), server.info_number("used_memory")? / 1e6);
        Ok(values)
    })
}

/// A replica of the same kind that has all of the primary's data.
pub fn replica_of(lab: &Lab<'_>, primary: &Running, options: &[&str]) -> Result<Running, String> {
    let port = primary.settings.port.to_string();
    let replica = lab.start(options)?;
    primary.command(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"])?;
    replica.command(&["REPLICAOF", "127.0.0.1", &port])?;
    replica.await_info("master_link_status", "up", Duration::from_secs(60))?;
    Ok(replica)
}

fn recovery_name(kind: &str) -> String {
    format!("recovery {kind}")
}

/// A server comes back with all records; then reads among all of them, and among few.
fn recover(kind: &'static str, scale: &Scale) -> Trial {
    let records = scale.count(RECORDS);
    let options: &[&str] = match kind {
        "RDB" => &RDB,
        _ => &[
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            "no",
            "--auto-aof-rewrite-percentage",
            "0",
        ],
    };
    let cost = Cost { units: 2.0, requests: records, fixed_s: 0.5 + records as f64 / 500_000.0 };
    Trial::starting(recovery_name(kind), cost, move |lab| {
        let mut server = lab.start(options)?;
        // Loading writes each key once, in their order.
        let fill = Load::of(format!("SET bench:{{key sequence {records}}} x"));
        fill.pipeline(64).units(0.0).at_most(records).measure(lab, &server)?;
        let keys = server.number(&["DBSIZE"])?;
        let how = if kind == "RDB" { "SAVE" } else { "NOSAVE" };
        let began = Instant::now();
        let seconds = server.restart(lab.line()?, how, options)?;
        let mut values = Values::from([
            ("recovery_s".to_string(), seconds),
            ("with_shutdown_s".into(), began.elapsed().as_secs_f64()),
            ("records".into(), keys),
            ("found".into(), server.number(&["DBSIZE"])?),
        ]);
        for (name, among) in [("among_all", records), ("among_few", 1000)] {
            let read = Load::of(format!("GET bench:{{key uniform {among}}}")).measure(lab, &server)?;
            values.extend(read.get("rate").map(|rate| (name.to_string(), *rate)));
        }
        Ok(values)
    })
}

fn section(view: &View<'_>) -> Section {
    let hot: Vec<Entry> = HOT_KEY
        .iter()
        .map(|(clients, ms, ops)| {
            let ops = ops.map_or("–".into(), number);
            Entry::named(&clients.to_string(), &hot_key_name(*clients), &[ms, &ops])
        })
        .collect();
    let matrix: Vec<Entry> =
        MODES.iter().map(|mode| Entry::named(mode.name, &persist_name(mode.name), &mode.source_ms)).collect();
    let recovery: Vec<Entry> =
        RECOVERY.iter().map(|(kind, source)| Entry::named(kind, &recovery_name(kind), &[source])).collect();
    let points: Vec<_> =
        HOT_KEY.iter().map(|(clients, _, ops)| (*clients as f64, *ops, hot_key_name(*clients))).collect();
    let hot_figures = [
        ("ms per 100", "ms_per_hundred"),
        ("INCR/s", "rate"),
        ("INFO ops/s", "instantaneous_ops_per_sec"),
        ("INFO in kB/s", "instantaneous_input_kbps"),
        ("INFO CPU sys s", "used_cpu_sys"),
        ("INFO CPU user s", "used_cpu_user"),
    ];
    let matrix_figures = [
        ("writes", "requests"),
        ("seconds", "seconds"),
        ("writes/s", "rate"),
        ("fork µs", "fork_us"),
        ("memory MB", "used_mb"),
    ];
    let recovery_figures = [
        ("seconds", "recovery_s"),
        ("records", "found"),
        ("GET/s among all", "among_all"),
        ("GET/s among 1,000", "among_few"),
    ];
    let faster = Some(("rate", false));
    Section {
        method: method(&view.scale),
        claims: claims(view),
        tables: vec![
            view.table("Hot key", ("clients", &["ms per thread", "ops/s"]), &hot, &hot_figures, faster),
            view.table(
                "Ways to persist, one client",
                ("mode", &["ms for 400,000", "ms for 2,000,000"]),
                &matrix,
                &matrix_figures,
                faster,
            ),
            view.table(
                "Recovery",
                ("from", &["seconds for 4,000,000"]),
                &recovery,
                &recovery_figures,
                Some(("recovery_s", true)),
            ),
        ],
        plots: vec![view.plot("INCRs of one key", ("clients", "requests/s"), &points, "rate"), bars(view)],
        left_out: vec![(
            "2,000,000 writes without a pipeline".into(),
            "each row has a time instead, and shows how many writes it did".into(),
        )],
        ..Section::default()
    }
}

fn bars(view: &View<'_>) -> Plot {
    let modes: Vec<(&str, Option<f64>, String)> =
        MODES.iter().map(|mode| (mode.name, None, persist_name(mode.name))).collect();
    view.bars("Ways to persist", "writes/s", &modes, "rate")
}

fn method(scale: &Scale) -> Vec<String> {
    vec![
        "Each client increments the key in whole hundreds; the time is that of one hundred.".into(),
        format!(
            "A row of the matrix ends after {} writes or {} s. Where a save belongs to a mode, one begins with the row.",
            number(scale.count(WRITES) as f64),
            number(scale.unit.as_secs_f64() * MATRIX_UNITS)
        ),
        format!("Recovery is of {} records.", number(scale.count(RECORDS) as f64)),
    ]
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    let mut claims = claims_on_hot_key(view);
    claims.extend(claims_on_persistence(view));
    claims.extend(claims_on_recovery(view));
    claims
}

fn claims_on_hot_key(view: &View<'_>) -> Vec<Claim> {
    use Kind::Law;
    let least_right = |server: &str| {
        let right = |clients: u64| {
            let trial = hot_key_name(clients);
            quotient(view.value(&trial, server, "sum"), view.value(&trial, server, "requests"))
        };
        let all: Option<Vec<f64>> = HOT_KEY.iter().map(|(clients, ..)| right(*clients)).collect();
        // How far the worst is from 1.
        all?.into_iter().map(|right| (right - 1.0).abs()).reduce(f64::max)
    };
    vec![
        view.claim(
            Law,
            "The final value equals the sum of all increments",
            ("largest deviation", Bound::AtMost(0.0)),
            least_right,
        ),
        view.claim_ratio(
            Law,
            "Write speed does not collapse under contention",
            ("INCR/s, 150 clients by 10", Bound::AtLeast(0.8)),
            (&hot_key_name(150), &hot_key_name(10)),
            "rate",
        ),
    ]
}

fn claims_on_persistence(view: &View<'_>) -> Vec<Claim> {
    use Kind::{Law, Limit};
    let by_none = |mode: &'static str| {
        move |server: &str| view.ratio(server, (&persist_name(mode), &persist_name("none")), "rate")
    };
    vec![
        view.claim(Law, "RDB rules cost little", ("by none", Bound::AtLeast(0.8)), by_none("RDB")),
        view.claim(Law, "everysec costs little", ("by none", Bound::AtLeast(0.8)), by_none("AOF everysec")),
        view.claim(
            Law,
            "always collapses throughput",
            ("by none", Bound::AtMost(0.5)),
            by_none("AOF always"),
        ),
        view.claim(Law, "Replication costs something", ("by none", Bound::AtMost(1.0)), by_none(REPLICA)),
        view.claim(
            Law,
            "Pipelining is worth two orders of magnitude",
            ("RDB with a pipeline by RDB without", Bound::AtLeast(10.0)),
            |server| view.ratio(server, (&persist_name(RDB_PIPELINED), &persist_name("RDB")), "rate"),
        ),
        view.claim(Limit, "fork is expensive", ("latest_fork_usec", Bound::AtLeast(100.0)), |server| {
            view.value(&persist_name("RDB"), server, "fork_us")
        }),
    ]
}

fn claims_on_recovery(view: &View<'_>) -> Vec<Claim> {
    use Kind::Law;
    let recovered = |server: &str| {
        let found = |kind| {
            let trial = recovery_name(kind);
            quotient(view.value(&trial, server, "found"), view.value(&trial, server, "records"))
        };
        Some(found("RDB")?.min(found("AOF")?))
    };
    vec![
        view.claim(
            Law,
            "A server comes back with all its records",
            ("found by kept", Bound::Between(1.0, 1.0)),
            recovered,
        ),
        view.claim(
            Law,
            "Recovery from RDB is faster than from an append-only file",
            ("AOF by RDB", Bound::AtLeast(1.0)),
            |server| view.ratio(server, (&recovery_name("AOF"), &recovery_name("RDB")), "recovery_s"),
        ),
        view.claim(
            Law,
            "Reading among 4 million records costs the same as among few",
            ("GET/s among all by among 1,000", Bound::AtLeast(0.8)),
            |server| {
                let trial = recovery_name("RDB");
                quotient(view.value(&trial, server, "among_all"), view.value(&trial, server, "among_few"))
            },
        ),
    ]
}
