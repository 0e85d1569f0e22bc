//! R4: the white paper's eleven commands. The judged figure is the server's CPU time per request with a
//! pipeline of 64, both servers in turns; without a pipeline the null responder shows the kernel's share.

use crate::claims::{Bound, Claim, Kind, claim, median, number, quotient};
use crate::experiment::Experiment;
use crate::page::{Plot, Section, Series, Table, View};
use crate::scale::Scale;
use crate::servers::NULL;
use crate::trial::{Load, Trial};

pub const EXPERIMENT: Experiment = Experiment {
    id: "R4",
    title: "The white paper",
    source: "the white paper of an in-memory product (resp-benchmark 0.1.7; 8 GB instance)",
    trials,
    section,
};

/// A command: its name; the product's requests/s, the open-source server's, their ratio, its ARM build's.
struct Command {
    name: &'static str,
    source: [&'static str; 4],
    ratio: f64,
    /// The request; `N` stands for the key range of strings, `M` for the number of collections.
    request: &'static str,
    /// Request that loads the data before, a number of times per key of the range, or 10,007 per collection.
    fill: Option<&'static str>,
}

const fn row(
    name: &'static str,
    source: [&'static str; 4],
    ratio: f64,
    request: &'static str,
    fill: Option<&'static str>,
) -> Command {
    Command { name, source, ratio, request, fill }
}

const FILL_STRINGS: Option<&str> = Some("SET {key sequence N} {value 64}");
const COMMANDS: [Command; 11] = [
    row(
        "SET",
        ["282,656", "142,376", "1.99", "126,493"],
        1.99,
        "SET {key uniform N} {value 64}",
        FILL_STRINGS,
    ),
    row("GET", ["519,761", "204,690", "2.54", "201,492"], 2.54, "GET {key uniform N}", FILL_STRINGS),
    row(
        "ZADD",
        ["208,169", "113,135", "1.84", "90,046"],
        1.84,
        "ZADD {key uniform M} {rand 70000} {key uniform 10000}",
        None,
    ),
    row(
        "ZSCORE",
        ["463,904", "170,163", "2.73", "172,508"],
        2.73,
        "ZSCORE {key uniform M} {key uniform 10007}",
        Some("ZADD {key sequence M} {rand 70000} {key sequence 10007}"),
    ),
    row(
        "HSET",
        ["260,069", "124,613", "2.09", "116,706"],
        2.09,
        "HSET {key uniform M} {key uniform 10000} {value 64}",
        None,
    ),
    row(
        "HGET",
        ["494,603", "188,903", "2.62", "175,461"],
        2.62,
        "HGET {key uniform M} {key uniform 10007}",
        Some("HSET {key sequence M} {key sequence 10007} {value 64}"),
    ),
    row("LPUSH", ["286,324", "153,269", "1.87", "129,188"], 1.87, "LPUSH {key uniform M} {value 64}", None),
    row(
        "LINDEX",
        ["414,070", "157,568", "2.63", "154,444"],
        2.63,
        "LINDEX {key uniform M} {rand 10000}",
        Some("LPUSH {key sequence M} {value 64}"),
    ),
    row("SADD", ["292,738", "140,155", "2.09", "126,199"], 2.09, "SADD {key uniform M} {value 64}", None),
    row(
        "SISMEMBER",
        ["531,139", "181,492", "2.93", "211,807"],
        2.93,
        "SISMEMBER {key uniform M} {key uniform 10007}",
        Some("SADD {key sequence M} {key sequence 10007}"),
    ),
    row(
        "EVALSHA",
        ["214,303", "101,136", "2.12", "76,659"],
        2.12,
        "EVALSHA d8f2fad9f8e86a53d2a6ebd960b33c4972cacc37 1 {key uniform N} {value 64}",
        FILL_STRINGS,
    ),
];
/// The script that EVALSHA runs.
const SCRIPT: &str = "return redis.call('SET', KEYS[1], ARGV[1])";
/// Key range of strings, and number of collections, that the paper's commands name; here the first is a tenth
/// of it at full size.
const SOURCE_KEYS: u64 = 10_000_000;
const FULL_KEYS: u64 = SOURCE_KEYS / 10;
const FULL_COLLECTIONS: u64 = 100;
/// Elements of a collection that is loaded. It shares no factor with their number, so that a sequence over
/// both meets every pair.
const ELEMENTS: u64 = 10_007;
/// The pipeline that decides, and how often each row of it is measured.
const DEPTH: usize = 64;
const ROUNDS: usize = 3;
/// How close to the null responder a server without a pipeline should be.
const CLOSE_TO_NULL: f64 = 1.10;

/// Numbers of strings and of collections.
fn sizes(scale: &Scale) -> (u64, u64) {
    (scale.count(FULL_KEYS), ((FULL_COLLECTIONS as f64 * scale.share) as u64).max(1))
}

fn rounds(scale: &Scale) -> usize {
    if scale.brief { 1 } else { ROUNDS }
}

fn deep_name(command: &str, round: usize) -> String {
    format!("{command} P{DEPTH} #{}", round + 1)
}

fn single_name(command: &str) -> String {
    format!("{command} P1")
}

fn load(command: &Command, scale: &Scale) -> Load {
    let (keys, collections) = sizes(scale);
    let sized =
        |text: &str| text.replace(" N}", &format!(" {keys}}}")).replace(" M}", &format!(" {collections}}}"));
    let load = Load::of(sized(command.request));
    match command.fill {
        None => load,
        Some(fill) if fill.contains(" N}") => load.filled(sized(fill), keys),
        Some(fill) => load.filled(sized(fill), collections * ELEMENTS),
    }
}

fn trial(name: String, load: Load, needs_script: bool) -> Trial {
    Trial::plain(name, load.cost(), move |lab, server| {
        if needs_script {
            server.command(&["SCRIPT", "LOAD", SCRIPT])?;
        }
        load.measure(lab, server)
    })
}

fn trials(scale: &Scale) -> Vec<Trial> {
    let mut trials = Vec::new();
    for round in 0..rounds(scale) {
        for command in &COMMANDS {
            let load = load(command, scale).pipeline(DEPTH);
            trials.push(trial(deep_name(command.name, round), load, command.name == "EVALSHA"));
        }
    }
    for command in &COMMANDS {
        let with_null = ["SET", "GET"].contains(&command.name);
        let single = trial(single_name(command.name), load(command, scale), command.name == "EVALSHA");
        trials.push(Trial { with_null, ..single });
    }
    trials
}

/// The middle of a command's rounds.
fn deep(view: &View<'_>, server: &str, command: &str, figure: &str) -> Option<f64> {
    let all = (0..ROUNDS).filter_map(|round| view.value(&deep_name(command, round), server, figure));
    median(all.collect())
}

/// The peer's CPU time by ours, in the middle of the rounds that both have.
fn cpu_ratio(view: &View<'_>, peer: &str, command: &str) -> Option<f64> {
    let ours = view.servers.first()?;
    let ratio = |round| {
        let trial = deep_name(command, round);
        quotient(view.value(&trial, peer, "cpu_us"), view.value(&trial, ours, "cpu_us"))
    };
    median((0..ROUNDS).filter_map(ratio).collect())
}

fn peers<'a>(view: &'a View<'_>) -> &'a [&'a str] {
    view.servers.get(1..).unwrap_or_default()
}

fn section(view: &View<'_>) -> Section {
    let (keys, collections) = sizes(&view.scale);
    Section {
        method: vec![
            format!(
                "The paper's requests, with {} keys instead of {} and {} collections instead of 1,000; 50 connections, \
                 each row {} s long; rounds, in turns: {}. The ratio is that of CPU time per request, the middle of \
                 the rounds.",
                number(keys as f64),
                number(SOURCE_KEYS as f64),
                number(collections as f64),
                number(view.scale.unit.as_secs_f64()),
                rounds(&view.scale)
            ),
            "The null responder answers +OK to everything and is not a server; without a pipeline its cost is the \
             kernel's."
                .into(),
        ],
        claims: claims(view),
        tables: vec![deep_table(view), single_table(view)],
        plots: vec![bars(view)],
        left_out: vec![
            ("The product and its ARM build".into(), "they are not to be had here; their figures are the paper's".into()),
            (
                "All threads on, with a client that keeps up".into(),
                "it needs a machine with more cores than the client takes".into(),
            ),
        ],
        ..Section::default()
    }
}

fn deep_table(view: &View<'_>) -> Table {
    let mut head: Vec<String> =
        ["command", "source: product QPS", "source: open source", "source: ratio", "source: ARM"]
            .map(String::from)
            .into();
    for server in &view.servers {
        head.extend(["requests/s", "CPU µs"].map(|figure| format!("{server}: {figure}")));
    }
    let ours = view.servers.first().copied().unwrap_or_default();
    head.extend(peers(view).iter().map(|peer| format!("CPU: {peer} ÷ {ours}")));
    let shown = |value: Option<f64>| value.map_or("–".into(), number);
    let rows = COMMANDS
        .iter()
        .map(|command| {
            let mut cells = vec![command.name.to_string()];
            cells.extend(command.source.map(String::from));
            for server in &view.servers {
                let figures =
                    ["rate", "cpu_us"].map(|figure| shown(deep(view, server, command.name, figure)));
                cells.extend(figures);
            }
            cells.extend(peers(view).iter().map(|peer| shown(cpu_ratio(view, peer, command.name))));
            cells
        })
        .collect();
    Table { title: format!("-P {DEPTH}"), head, rows }
}

fn single_table(view: &View<'_>) -> Table {
    let with_null = View {
        servers: view.servers.iter().copied().chain([NULL]).collect(),
        ..View { servers: Vec::new(), ..*view }
    };
    let entries: Vec<crate::page::Entry> = COMMANDS
        .iter()
        .map(|command| crate::page::Entry::named(command.name, &single_name(command.name), &[]))
        .collect();
    let figures = [("requests/s", "rate"), ("avg ms", "avg_ms"), ("p99 ms", "p99_ms"), ("CPU µs", "cpu_us")];
    with_null.table("Without a pipeline", ("command", &[]), &entries, &figures, None)
}

/// The paper's ratio, and ours to each peer.
fn bars(view: &View<'_>) -> Plot {
    let line = |name: String, ratio: &dyn Fn(&Command) -> Option<f64>| Series {
        name,
        points: COMMANDS
            .iter()
            .enumerate()
            .filter_map(|(index, command)| Some((index as f64, ratio(command)?)))
            .collect(),
    };
    let mut series = vec![line("source: QPS".into(), &|command| Some(command.ratio))];
    for peer in peers(view) {
        series.push(line(format!("{peer} ÷ ours: CPU"), &|command| cpu_ratio(view, peer, command.name)));
    }
    series.retain(|line| !line.points.is_empty());
    Plot {
        title: "How many times better than the open-source server".into(),
        y: "ratio".into(),
        labels: COMMANDS.iter().map(|command| command.name.to_string()).collect(),
        series,
        ..Plot::default()
    }
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    let ours = view.servers.first().copied();
    let mut claims = Vec::new();
    for (command, peer) in
        COMMANDS.iter().flat_map(|command| peers(view).iter().map(move |peer| (command, peer)))
    {
        let text = format!("{}: the paper's ratio, against {peer}", command.name);
        let test = ("its CPU time per request by ours", Bound::AtLeast(command.ratio));
        claims.push(claim(Kind::Goal, &text, test, ours, |_| cpu_ratio(view, peer, command.name)));
    }
    for name in ["SET", "GET"] {
        let trial = single_name(name);
        let text = format!("{name}, unpipelined: within 10 % of the null responder");
        let test = ("CPU time per request by the null responder's", Bound::AtMost(CLOSE_TO_NULL));
        claims.push(claim(Kind::Goal, &text, test, ours, |server| {
            quotient(view.value(&trial, server, "cpu_us"), view.value(&trial, NULL, "cpu_us"))
        }));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_their_sizes() {
        let scale = Scale::of(crate::scale::FULL_BUDGET, 1 << 40, 1000);
        for command in &COMMANDS {
            let load = load(command, &scale);
            let texts = load.templates.iter().chain(load.fill.iter().map(|(text, _)| text));
            for text in texts {
                assert!(!text.contains(" N}") && !text.contains(" M}"), "{text}");
            }
            let ratio: f64 = command.source[2].parse().expect("a number");
            assert_eq!(ratio, command.ratio);
        }
        let zscore = load(&COMMANDS[3], &scale);
        assert_eq!(zscore.fill[0].1, 1_000_700);
    }
}
