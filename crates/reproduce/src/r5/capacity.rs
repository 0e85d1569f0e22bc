//! Memory of the data, memory of a save beside it, memory kept after deletions, and the behaviour at the
//! limit.

use crate::claims::{Bound, Claim, Kind, quotient};
use crate::page::{Entry, Table, View};
use crate::rows::Values;
use crate::scale::Cost;
use crate::scale::Scale;
use crate::servers::{NOTHING_KEPT, Running};
use crate::trial::{Beside, Lab, Load, Trial};
use martlet_bench::control::reply_text;
use martlet_client::resp::{self, Reply};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Keys of 21 bytes with values of 256.
const KEYS: u64 = 1_000_000;
/// With fewer, the server's own memory would show.
const KEYS_LEAST: u64 = 20_000;
const KEY_BYTES: f64 = 21.0;
const VALUE_BYTES: f64 = 256.0;
/// The source's figures for such a key, and for a string beyond its data.
const SOURCE_BYTES: &str = "367";
const SOURCE_BEYOND: &str = "90";
/// Part of the source's 90 bytes from which its claim stands.
const BEYOND_LEAST: f64 = 60.0;
/// Bytes beyond an empty server at which a policy is tried, and how much is written.
const LIMIT_BYTES: f64 = 16e6;
const WRITTEN_BYTES: f64 = 40e6;
/// Policies, whether the written keys have a time to live, and the source's statement.
const POLICIES: [(&str, bool, &str); 4] = [
    ("volatile-lru", true, "evicts"),
    ("allkeys-lru", false, "evicts"),
    ("volatile-ttl", true, "evicts"),
    ("noeviction", false, "refuses writes, answers reads"),
];
/// Entries up to which a hash has the compact encoding.
const COMPACT_ENTRIES: usize = 512;
const COMPACT: [&str; 2] = ["listpack", "ziplist"];
/// Requests of one write where replies are looked at.
const BATCH: usize = 100;

fn fill(keys: u64) -> Load {
    let load = Load::of(format!("SET source:{{key sequence {keys}}} {{value 256}}"));
    load.pipeline(64).units(0.0).at_most(keys)
}

pub fn trials(scale: &Scale) -> Vec<Trial> {
    let keys = scale.count(KEYS).max(KEYS_LEAST);
    let cost = |fixed_s| Cost { units: 0.0, requests: keys, fixed_s };
    let mut trials = vec![
        Trial::starting("memory", cost(0.6), move |lab| memory(lab, keys)),
        Trial::starting("save", Cost { units: 1.0, ..cost(0.3) }, move |lab| save(lab, keys)),
        Trial::plain("encodings", Cost::default(), |_, server| encodings(server)),
        Trial::starting("slow log", Cost { fixed_s: 0.1, ..Cost::default() }, |lab| {
            let server = lab.start(&NOTHING_KEPT)?;
            Ok(Values::from([
                ("us".to_string(), server.config("slowlog-log-slower-than")?),
                ("entries".into(), server.config("slowlog-max-len")?),
            ]))
        }),
    ];
    trials.extend(POLICIES.map(|(policy, expires, _)| {
        let cost = Cost { fixed_s: 0.8, ..Cost::default() };
        Trial::starting(policy_name(policy), cost, move |lab| at_the_limit(lab, policy, expires))
    }));
    trials
}

fn policy_name(policy: &str) -> String {
    format!("policy {policy}")
}

/// The memory of a key; then most keys are deleted at random.
fn memory(lab: &Lab<'_>, keys: u64) -> Result<Values, String> {
    let server = lab.start(&NOTHING_KEPT)?;
    let empty = server.info_number("used_memory")?;
    fill(keys).measure(lab, &server)?;
    let resident = settled(&server)?;
    let used = server.info_number("used_memory")? - empty;
    let delete = Load::of(format!("DEL source:{{key uniform {keys}}}")).pipeline(64);
    delete.units(0.0).at_most(keys).measure(lab, &server)?;
    let left = server.number(&["DBSIZE"])?;
    let left_resident = settled(&server)? / resident;
    let each = used / keys as f64;
    Ok(Values::from([
        ("bytes".to_string(), each),
        ("beyond".into(), each - KEY_BYTES - VALUE_BYTES),
        ("left_keys".into(), left / keys as f64),
        ("left_used".into(), (server.info_number("used_memory")? - empty) / used),
        ("left_resident".into(), left_resident),
        ("peak_mb".into(), server.info_number("used_memory_peak")? / 1e6),
    ]))
}

/// Resident bytes, once deferred frees are done, buffers of closed clients included.
fn settled(server: &Running) -> Result<f64, String> {
    std::thread::sleep(Duration::from_millis(250));
    Ok(martlet_bench::process::process_bytes(server.pid()?, "VmRSS:") as f64)
}

/// All keys are overwritten during a save.
fn save(lab: &Lab<'_>, keys: u64) -> Result<Values, String> {
    let server = lab.start(&NOTHING_KEPT)?;
    fill(keys).measure(lab, &server)?;
    let pid = server.pid()?;
    let before = martlet_bench::process::family_memory(pid);
    let (most, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let overwrite = Load::of(format!("SET source:{{key uniform {keys}}} {{value 256}}")).pipeline(16);
    let mut values = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(martlet_bench::process::family_memory(pid), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let mut control = server.control()?;
        let start = Box::new(move || drop(control.command(&["BGSAVE"])));
        let mut beside = Beside { at_start: Some(start), ..Beside::default() };
        let measured = overwrite.measure_beside(lab, &server, &mut beside).and_then(|values| {
            server.await_info("rdb_bgsave_in_progress", "0", Duration::from_secs(120))?;
            Ok(values)
        });
        done.store(true, Ordering::Relaxed);
        sampler.join().map_err(|_| "the thread that reads memory panicked")?;
        measured
    })?;
    if server.info("rdb_last_bgsave_status")? != "ok" || server.info_number("rdb_saves")? < 1.0 {
        return Err("the save failed".into());
    }
    values.insert("before_mb".into(), before as f64 / 1e6);
    values.insert("most_mb".into(), most.into_inner() as f64 / 1e6);
    values.insert("fork_us".into(), server.info_number("latest_fork_usec")?);
    Ok(values)
}

/// Writes more than there is room for, and reads.
fn at_the_limit(lab: &Lab<'_>, policy: &str, expires: bool) -> Result<Values, String> {
    let server = lab.start(&[&NOTHING_KEPT[..], &["--maxmemory-policy", policy]].concat())?;
    let limit = server.info_number("used_memory")? + LIMIT_BYTES;
    server.command(&["CONFIG", "SET", "maxmemory", &(limit as u64).to_string()])?;
    let mut control = server.control()?;
    let value = "v".repeat(VALUE_BYTES as usize);
    let writes = (WRITTEN_BYTES / (KEY_BYTES + VALUE_BYTES)) as usize;
    let mut refused = 0.0;
    for first in (0..writes).step_by(BATCH) {
        let mut batch = Vec::new();
        for number in first..first + BATCH {
            let key = format!("source:key_{number:010}");
            match expires {
                true => resp::encode_request(
                    &["SET", &key, &value, "EX", &(1000 + number).to_string()],
                    &mut batch,
                ),
                false => resp::encode_request(&["SET", &key, &value], &mut batch),
            }
        }
        control.write(&batch).map_err(|e| e.to_string())?;
        for _ in 0..BATCH {
            match control.read_reply().map_err(|e| e.to_string())? {
                Reply::Error(text) if text.starts_with(b"OOM ") => refused += 1.0,
                reply if reply.is_error() => return Err(reply_text(&reply)),
                _ => {}
            }
        }
    }
    let key = server.command(&["RANDOMKEY"])?;
    let key = String::from_utf8_lossy(key.text().unwrap_or_default()).into_owned();
    let read = server.command(&["GET", &key])?;
    Ok(Values::from([
        ("used".to_string(), server.info_number("used_memory")? / limit),
        ("refused".into(), refused),
        ("evicted".into(), server.info_number("evicted_keys")?),
        ("reads".into(), f64::from(u8::from(read.text() == Some(value.as_bytes())))),
    ]))
}

/// A hash with as many entries as the compact encoding takes, and one more.
fn encodings(server: &Running) -> Result<Values, String> {
    let mut values = Values::new();
    for (name, entries) in [("small", COMPACT_ENTRIES), ("large", COMPACT_ENTRIES + 1)] {
        let mut words = vec!["HSET".to_string(), name.into()];
        words.extend((0..entries).flat_map(|entry| [format!("field:{entry:04}"), "v".repeat(64)]));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        server.command(&words)?;
        let encoding = server.command(&["OBJECT", "ENCODING", name])?;
        let encoding = String::from_utf8_lossy(encoding.text().unwrap_or_default()).into_owned();
        let is_compact = COMPACT.contains(&encoding.as_str());
        values.insert(format!("{name}_compact"), f64::from(u8::from(is_compact)));
        let bytes = server.number(&["MEMORY", "USAGE", name, "SAMPLES", "0"])?;
        values.insert(format!("{name}_bytes"), bytes / entries as f64);
    }
    Ok(values)
}

pub fn tables(view: &View<'_>) -> Vec<Table> {
    let policies: Vec<Entry> = POLICIES
        .iter()
        .map(|(policy, _, source)| Entry::named(policy, &policy_name(policy), &[source]))
        .collect();
    vec![
        view.table(
            "Memory of a 21-byte key with a 256-byte value",
            ("", &["bytes", "bytes beyond the data"]),
            &[Entry::named("string", "memory", &[SOURCE_BYTES, SOURCE_BEYOND])],
            &[
                ("bytes", "bytes"),
                ("beyond the data", "beyond"),
                ("keys left after deletions", "left_keys"),
                ("memory left", "left_used"),
                ("resident left", "left_resident"),
            ],
            Some(("bytes", true)),
        ),
        view.table(
            "Memory during a save while all keys are overwritten",
            ("", &["MB"]),
            &[Entry::named("BGSAVE", "save", &["up to twice"])],
            &[
                ("MB before", "before_mb"),
                ("MB at most", "most_mb"),
                ("fork µs", "fork_us"),
                ("SET/s", "rate"),
            ],
            Some(("most_mb", true)),
        ),
        view.table(
            "At maxmemory",
            ("policy", &["does"]),
            &policies,
            &[
                ("used by limit", "used"),
                ("refused", "refused"),
                ("evicted", "evicted"),
                ("reads answered", "reads"),
            ],
            None,
        ),
        view.table(
            "Encodings and the slow log",
            ("", &["says"]),
            &[
                Entry::named("hash of 512 entries", "encodings", &["compact"]),
                Entry::named("slow log", "slow log", &["10,000 µs, 128 entries"]),
            ],
            &[
                ("512 compact", "small_compact"),
                ("513 compact", "large_compact"),
                ("bytes/entry, 512", "small_bytes"),
                ("bytes/entry, 513", "large_bytes"),
                ("µs", "us"),
                ("entries", "entries"),
            ],
            None,
        ),
    ]
}

pub fn claims(view: &View<'_>) -> Vec<Claim> {
    let mut claims = claims_on_slow_log(view);
    claims.extend(claims_on_memory(view));
    claims.extend(claims_on_limit(view));
    claims.extend(claims_on_encodings(view));
    claims
}

/// A figure of a trial, server by server.
fn figure<'a>(view: &'a View<'a>, trial: &'a str, name: &'a str) -> impl Fn(&str) -> Option<f64> + 'a {
    move |server| view.value(trial, server, name)
}

fn claims_on_slow_log(view: &View<'_>) -> Vec<Claim> {
    use Kind::Law;
    vec![
        view.claim(
            Law,
            "SLOWLOG's default is 10 ms",
            ("microseconds", Bound::Between(10_000.0, 10_000.0)),
            figure(view, "slow log", "us"),
        ),
        view.claim(
            Law,
            "… and 128 entries",
            ("entries", Bound::Between(128.0, 128.0)),
            figure(view, "slow log", "entries"),
        ),
    ]
}

fn claims_on_memory(view: &View<'_>) -> Vec<Claim> {
    use Kind::Limit;
    vec![
        view.claim(
            Limit,
            "A string costs 90 bytes beyond its data",
            ("bytes beyond key and value", Bound::AtLeast(BEYOND_LEAST)),
            figure(view, "memory", "beyond"),
        ),
        view.claim(
            Limit,
            "The allocator keeps what is freed",
            ("resident, after deletions by before", Bound::AtLeast(0.75)),
            figure(view, "memory", "left_resident"),
        ),
        view.claim(
            Limit,
            "A save can need twice the memory",
            ("at most by before", Bound::AtLeast(1.5)),
            |server| quotient(view.value("save", server, "most_mb"), view.value("save", server, "before_mb")),
        ),
    ]
}

fn claims_on_limit(view: &View<'_>) -> Vec<Claim> {
    use Kind::Law;
    let refusing = policy_name("noeviction");
    // The most that any policy which evicts lets be used.
    let used = |server: &str| {
        let evicting = POLICIES.iter().filter(|(name, ..)| *name != "noeviction");
        let used: Option<Vec<f64>> =
            evicting.map(|(name, ..)| view.value(&policy_name(name), server, "used")).collect();
        used?.into_iter().reduce(f64::max)
    };
    vec![
        view.claim(
            Law,
            "maxmemory is kept by the policies that evict",
            ("memory used by the limit, at most", Bound::AtMost(1.05)),
            used,
        ),
        view.claim(
            Law,
            "noeviction refuses writes",
            ("writes refused", Bound::AtLeast(1.0)),
            figure(view, &refusing, "refused"),
        ),
        view.claim(
            Law,
            "… and still answers reads",
            ("reads answered", Bound::AtLeast(1.0)),
            figure(view, &refusing, "reads"),
        ),
    ]
}

fn claims_on_encodings(view: &View<'_>) -> Vec<Claim> {
    use Kind::Law;
    vec![
        view.claim(
            Law,
            "A hash of 512 entries of 64 bytes is compact",
            ("compact", Bound::AtLeast(1.0)),
            figure(view, "encodings", "small_compact"),
        ),
        view.claim(
            Law,
            "… and one of 513 is not",
            ("compact", Bound::AtMost(0.0)),
            figure(view, "encodings", "large_compact"),
        ),
    ]
}
