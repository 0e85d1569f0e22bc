//! `./x bench-report`: the load tester's HTML report in headless Chromium, offline. Reports are made against
//! a server of our own (a mix of commands, a sweep, a comparison, a search, checks, a merged one) and opened,
//! at a phone's width too; a page passes when its script has run to its end, it is no wider than its window,
//! the console has seen nothing, and every plot holds a line for each of its series, with the points of the
//! JSON beside it.

use crate::browser::{self, Options, Page, text};
use martlet_testkit::server::Server;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use xtask::run::{Outcome, built};

/// One report: its name, the load tester's arguments, and titles that its plots must have.
type Report = (&'static str, &'static [&'static str], &'static [&'static str]);

const REPORTS: &[Report] = &[
    (
        "mix",
        &[
            "--duration",
            "3s",
            "--command",
            "9:GET {key uniform 1000}",
            "--command",
            "1:SET {key uniform 1000} {value 64}",
        ],
        &["Throughput over time", "Latency over time: GET", "Latency over time: SET", "Latency distribution"],
    ),
    (
        "reads",
        &["--duration", "2s", "GET {key uniform 1000}"],
        &["Throughput over time", "Latency over time: GET", "Latency distribution"],
    ),
    (
        "sweep",
        &[
            "--duration",
            "500ms",
            "--sweep",
            "pipeline=1,8,16",
            "--sweep",
            "connections=1,10",
            "GET {key uniform 1000}",
        ],
        &["Sweep over pipeline", "Sweep over pipeline: latency", "Sweep over connections"],
    ),
    (
        "comparison",
        &[
            "--duration",
            "500ms",
            "--rounds",
            "3",
            "--require",
            "throughput_ratio>0.0001",
            "GET {key uniform 1000}",
        ],
        &["Latency distribution", " against B ("],
    ),
    ("verification", &["--verify", "-c", "5", "--duration", "300ms"], &["Latency distribution"]),
    ("hot-key", &["--hot-key", "-c", "5", "-n", "2000"], &["Latency distribution"]),
    (
        "search",
        &["--duration", "100ms", "--slo", "p99<1h", "GET {key uniform 1000}"],
        &["Search for the highest rate", "Search for the highest rate: latency"],
    ),
];

/// The reports that are merged into one more page, and that page's titles.
const MERGED: (&[&str], &[&str]) =
    (&["mix", "reads"], &["Throughput over time", "Latency over time: SET", "Latency distribution"]);

/// Makes the reports and looks at them; without a browser it says so and passes.
pub fn run(options: &Options) -> Outcome {
    let Some(browser) = browser::find() else {
        eprintln!("x: chromium is NOT installed; the HTML report has not been opened");
        return Ok(());
    };
    let program = built(&options.ours)?;
    let directory = match &options.keep {
        Some(directory) => directory.clone(),
        None => std::env::temp_dir().join(format!("martlet-report-{}", std::process::id())),
    };
    std::fs::create_dir_all(&directory)?;
    let servers = [Server::start(&program, &["server"])?, Server::start(&program, &["server"])?];
    let ports = servers.each_ref().map(|server| server.address().port().to_string());
    for (name, arguments, titles) in REPORTS {
        let page = directory.join(format!("{name}.html"));
        let json = directory.join(format!("{name}.json"));
        let mut command = Command::new(&program);
        command.args(["bench", "-p", &ports[0], "--html"]).arg(&page).arg("--json").arg(&json);
        if *name == "comparison" {
            command.args(["--vs", &format!("127.0.0.1:{}", ports[1])]);
        }
        command.args(*arguments);
        look(browser, name, &mut command, titles, &directory, options)?;
    }
    let (parts, titles) = MERGED;
    let mut command = Command::new(&program);
    command.args(["bench", "report"]).args(parts.iter().map(|name| directory.join(format!("{name}.json"))));
    command.arg("--html").arg(directory.join("merged.html")).arg("--json").arg(directory.join("merged.json"));
    look(browser, "merged", &mut command, titles, &directory, options)?;
    look_at_experiments(browser, &program, &directory, options)?;
    if options.keep.is_none() {
        std::fs::remove_dir_all(&directory)?;
    }
    Ok(())
}

/// Makes the page of the experiments, as small as they can be, and opens it, at a phone's width too.
fn look_at_experiments(browser: &str, program: &Path, directory: &Path, options: &Options) -> Outcome {
    let output = directory.join("experiments");
    let mut command = Command::new(program);
    command.args(["bench", "reproduce", "--budget", "5s", "--output"]).arg(&output);
    let made = command.output()?;
    if !made.status.success() {
        return Err(format!("experiments: {}{}", text(&made.stdout), text(&made.stderr)).into());
    }
    check_rows(&std::fs::read_to_string(output.join("rows.jsonl"))?)?;
    let page = std::fs::canonicalize(output.join("experiments.html"))?;
    for (name, size) in
        [("experiments", "--window-size=1160,9000"), ("experiments-phone", "--window-size=500,9000")]
    {
        let screenshot = options.keep.is_some().then(|| directory.join(format!("{name}.png")));
        let dom = browser::open(&Page {
            browser,
            address: &format!("file://{}", page.display()),
            profile: &directory.join(format!("{name}.profile")),
            screenshot: screenshot.as_deref(),
            arguments: &["--host-resolver-rules=MAP * ~NOTFOUND", size],
        })?;
        let plots = check_experiments(&dom).map_err(|error| format!("{name}: {error}"))?;
        println!("ok      {name}: {plots} plots drawn, nothing on the console");
    }
    Ok(())
}

/// Figures of the experiments that are the same on any machine: experiment, row, name, and its value.
const EXACT: &[(&str, &str, &str, Exact)] = &[
    ("R3", "hot key 150", "sum", Exact::As("requests")),
    ("R3", "recovery RDB", "found", Exact::As("records")),
    ("R3", "recovery AOF", "found", Exact::As("records")),
    ("R5", "pair SET 100", "replica_lacks", Exact::Number(0.0)),
    ("R5", "rewrite", "lacks", Exact::Number(0.0)),
    ("R5", "redirects", "moved", Exact::Number(1.0)),
    ("R5", "redirects", "present", Exact::Number(1.0)),
    ("R5", "redirects", "ask", Exact::Number(1.0)),
    ("R5", "redirects", "asking", Exact::Number(1.0)),
    ("R5", "redirects", "arrived", Exact::Number(1.0)),
    ("R5", "redirects", "moved_after", Exact::Number(1.0)),
    ("R5", "policy noeviction", "refused", Exact::Positive),
    ("R5", "policy noeviction", "reads", Exact::Number(1.0)),
    ("R5", "policy allkeys-lru", "evicted", Exact::Positive),
];

/// The required value of a figure.
#[derive(Clone, Copy)]
enum Exact {
    Number(f64),
    Positive,
    /// Another figure of its row.
    As(&'static str),
}

/// Whether the rows of the experiments have the figures that must be exact.
fn check_rows(lines: &str) -> Result<(), String> {
    let rows: Vec<Value> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for (experiment, trial, name, exact) in EXACT {
        let row = rows
            .iter()
            .map(|line| &line["row"])
            .rfind(|row| row["experiment"] == *experiment && row["trial"] == *trial);
        let value = |name: &str| row.and_then(|row| row["values"][name].as_f64());
        let found = value(name).ok_or(format!("{experiment} {trial} has no {name}"))?;
        let is_right = match exact {
            Exact::Number(number) => found == *number,
            Exact::Positive => found > 0.0,
            Exact::As(other) => Some(found) == value(other),
        };
        if !is_right {
            return Err(format!("{experiment} {trial}: {name} is {found}"));
        }
    }
    Ok(())
}

/// Whether the page of the experiments has each of them with its claims; gives the number of plots.
fn check_experiments(dom: &str) -> Result<usize, String> {
    if !dom.contains("data-ready=\"yes\"") {
        return Err("the page's script did not come to its end".into());
    }
    for id in ["R1", "R2", "R3", "R4", "R5"] {
        let section = dom.split_once(&format!("<h2 id=\"{id}\">")).map(|(_, rest)| rest);
        let section = section.and_then(|rest| rest.split("</section>").next()).unwrap_or_default();
        for part in ["class=\"claim\"", "class=\"chip ", "<table>", "Left out"] {
            if !section.contains(part) {
                return Err(format!("{id} has no {part}"));
            }
        }
    }
    let plots: Vec<(&str, Vec<usize>)> = dom.split("<svg").skip(1).map(plot).collect::<Result<_, _>>()?;
    match plots.iter().find(|(_, lines)| lines.is_empty() || lines.contains(&0)) {
        Some((name, lines)) => Err(format!("plot '{name}' has a line without points, or no line: {lines:?}")),
        None => Ok(plots.len()),
    }
}

/// Makes a report with `command` and opens its page.
fn look(
    browser: &str,
    name: &str,
    command: &mut Command,
    titles: &[&str],
    directory: &Path,
    options: &Options,
) -> Outcome {
    let made = command.output()?;
    if !made.status.success() {
        return Err(format!("{name}: {}{}", text(&made.stdout), text(&made.stderr)).into());
    }
    let page = directory.join(format!("{name}.html"));
    let address = format!("file://{}", std::fs::canonicalize(&page)?.display());
    let report: Value = serde_json::from_slice(&std::fs::read(directory.join(format!("{name}.json")))?)?;
    // The browser's window is never narrower than 500.
    for (form, size) in [("wide", "--window-size=1160,2600"), ("phone", "--window-size=500,4600")] {
        let screenshot = options.keep.is_some().then(|| page.with_extension(format!("{form}.png")));
        let dom = browser::open(&Page {
            browser,
            address: &address,
            profile: &page.with_extension(format!("{form}.profile")),
            screenshot: screenshot.as_deref(),
            arguments: &["--host-resolver-rules=MAP * ~NOTFOUND", size],
        })?;
        let plots = check(&dom, titles, &report).map_err(|error| format!("{name}, {form}: {error}"))?;
        println!("ok      {name}, {form}: {plots} plots drawn, nothing on the console");
    }
    Ok(())
}

/// Whether the page shows the report's content; returns the number of plots.
fn check(dom: &str, titles: &[&str], report: &Value) -> Result<usize, String> {
    if !dom.contains("data-ready=\"yes\"") {
        return Err("the page's script did not come to its end".into());
    }
    if attribute(dom, "data-overflow") != Some("0") {
        return Err("the page is wider than its window".into());
    }
    if let Some(verdict) = report["check"]["verdict"].as_str()
        && !dom.contains(&format!(">{verdict}<"))
    {
        return Err(format!("the page does not say '{verdict}'"));
    }
    let is_sweep = report["sweep"].as_array().is_some_and(|points| !points.is_empty());
    let comparison = &report["comparison"];
    let is_of_several = is_sweep || !comparison.is_null();
    if is_of_several && !dom.contains("<h2 id=\"whose\">") {
        return Err("the page does not say which of the runs its figures are of".into());
    }
    if !comparison.is_null() {
        check_opening(dom, comparison)?;
    }
    let plots: Vec<(&str, Vec<usize>)> = dom.split("<svg").skip(1).map(plot).collect::<Result<_, _>>()?;
    for title in titles {
        if !plots.iter().any(|(name, _)| name.contains(title)) {
            return Err(format!(
                "no plot '{title}'; there are {:?}",
                plots.iter().map(|p| p.0).collect::<Vec<_>>()
            ));
        }
    }
    for (name, lines) in &plots {
        if lines.is_empty() || lines.contains(&0) {
            return Err(format!("plot '{name}' has a line without points, or no line: {lines:?}"));
        }
    }
    // One point for each second of each command; a single second makes no line, and is left to the table.
    let rows = report["seconds"].as_array().map_or(&[][..], Vec::as_slice);
    let is_line = rows.iter().any(|row| row["second"] != rows[0]["second"]);
    let seconds = if is_line { rows.len() } else { 0 };
    let drawn: usize =
        plots.iter().filter(|(name, _)| *name == "Throughput over time").flat_map(|(_, lines)| lines).sum();
    if seconds != drawn {
        return Err(format!("{seconds} rows of seconds, but {drawn} points of throughput"));
    }
    for command in report["commands"].as_array().into_iter().flatten() {
        let name = command["name"].as_str().unwrap_or_default();
        if !dom.contains(&format!("<td>{name}</td>")) {
            return Err(format!("the table of commands lacks {name}"));
        }
    }
    Ok(plots.len())
}

/// Whether a comparison's page opens with the verdict and both servers, before any figure of one alone.
fn check_opening(dom: &str, comparison: &Value) -> Result<(), String> {
    let opening = dom.split("<h2 id=\"whose\">").next().unwrap_or_default();
    let name = |server: &str| comparison[server].as_str().unwrap_or_default().to_string();
    let requirements = comparison["requirements"].as_array().map_or(&[][..], Vec::as_slice);
    let required = requirements.iter().map(|required| {
        let holds = if required["holds"] == true { "holds" } else { "FAILS" };
        format!("--require {}: {holds}", required["condition"].as_str().unwrap_or_default())
    });
    let servers = [name("verdict"), format!("A: {}", name("a_name")), format!("B: {}", name("b_name"))];
    for expected in servers.into_iter().chain(required) {
        let expected = expected.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        if !opening.contains(&format!(">{expected}<")) {
            return Err(format!("the page does not open with '{expected}'"));
        }
    }
    Ok(())
}

/// A plot's title and the numbers of points of its lines.
fn plot(svg: &str) -> Result<(&str, Vec<usize>), String> {
    let svg = svg.split("</svg>").next().unwrap_or_default();
    let title = attribute(svg, "aria-label").ok_or("a plot without a title")?;
    let lines = svg.split("<polyline").skip(1).map(|line| {
        let points = attribute(line, "points").unwrap_or_default();
        let numbers: Result<Vec<f64>, _> =
            points.split([' ', ',']).filter(|n| !n.is_empty()).map(str::parse).collect();
        match numbers {
            Ok(numbers) if numbers.iter().all(|n| n.is_finite() && (-1.0..=1001.0).contains(n)) => {
                Ok(numbers.len() / 2)
            }
            _ => Err(format!("plot '{title}' has points outside of it: {points}")),
        }
    });
    Ok((title, lines.collect::<Result<_, _>>()?))
}

fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = element.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_must_be_whole() {
        let section = |id: &str| {
            format!(
                "<h2 id=\"{id}\"><div class=\"claim\"><span class=\"chip good\"><table><h3>Left out</h3></section>"
            )
        };
        let page: String = ["R1", "R2", "R3", "R4", "R5"].map(section).concat();
        let svg = "<svg aria-label=\"p\"><polyline points=\"1,2 3,4\"></polyline></svg>";
        let page = format!("<body data-ready=\"yes\">{page}{svg}");
        assert_eq!(check_experiments(&page), Ok(1));
        for (dom, fault) in [
            (page.replace("data-ready", "data-no"), "did not come to its end"),
            (page.replace("R4", "R7"), "R4 has no"),
            (page.replace("chip", "chop"), "R1 has no class=\"chip"),
            (page.replace("1,2 3,4", ""), "without points"),
        ] {
            let error = check_experiments(&dom).expect_err(fault);
            assert!(error.contains(fault), "{error}");
        }
    }

    #[test]
    fn exact_rows_are_checked() {
        let row = |experiment: &str, trial: &str, values: Value| serde_json::json!({ "row": { "experiment": experiment, "trial": trial, "values": values } });
        let all = [
            row("R3", "hot key 150", serde_json::json!({ "sum": 300.0, "requests": 300.0 })),
            row("R3", "recovery RDB", serde_json::json!({ "found": 7.0, "records": 7.0 })),
            row("R3", "recovery AOF", serde_json::json!({ "found": 7.0, "records": 7.0 })),
            row("R5", "pair SET 100", serde_json::json!({ "replica_lacks": 0.0 })),
            row("R5", "rewrite", serde_json::json!({ "lacks": 0.0 })),
            row(
                "R5",
                "redirects",
                serde_json::json!({
                    "moved": 1.0, "present": 1.0, "ask": 1.0, "asking": 1.0, "arrived": 1.0, "moved_after": 1.0
                }),
            ),
            row("R5", "policy noeviction", serde_json::json!({ "refused": 5.0, "reads": 1.0 })),
            row("R5", "policy allkeys-lru", serde_json::json!({ "evicted": 5.0 })),
        ];
        let lines: String = all.iter().map(|row| format!("{row}\n")).collect();
        assert_eq!(check_rows(&lines), Ok(()));
        for (from, to, fault) in [
            ("\"sum\":300.0", "\"sum\":299.0", "R3 hot key 150: sum is 299"),
            ("\"lacks\":0.0", "\"lacks\":2.0", "R5 rewrite: lacks is 2"),
            ("\"refused\":5.0", "\"refused\":0.0", "R5 policy noeviction: refused is 0"),
            ("\"moved_after\":1.0", "\"other\":1.0", "R5 redirects has no moved_after"),
            ("recovery AOF", "recovery", "R3 recovery AOF has no found"),
        ] {
            let torn = lines.replace(from, to);
            assert_ne!(torn, lines, "{from}");
            assert_eq!(check_rows(&torn), Err(fault.into()));
        }
    }

    #[test]
    fn pages_are_read_and_faults_named() {
        let page = |points: &str| {
            format!(
                "<body data-overflow=\"0\" data-ready=\"yes\"><td>GET</td><svg role=\"img\" aria-label=\"Throughput over time\"><polyline fill=\"none\" points=\"{points}\"></polyline></svg>"
            )
        };
        let report = serde_json::json!({ "seconds": [{ "second": 0 }, { "second": 1 }], "commands": [{ "name": "GET" }] });
        let titles = &["Throughput over time"];
        assert_eq!(check(&page("1.0,2.0 3.0,4.0"), titles, &report), Ok(1));
        for (dom, fault) in [
            ("<body>".to_string(), "did not come to its end"),
            (page("1.0,2.0"), "2 rows of seconds, but 1"),
            (page("1.0,NaN 2.0,3.0"), "outside"),
            (page(""), "without points"),
            (page("1.0,2.0 3.0,4.0").replace("GET", "SET"), "lacks GET"),
            (page("1.0,2.0 3.0,4.0").replace("\"0\"", "\"310\""), "wider than its window"),
            (page("1,2 3,4").replace("Throughput", "Through"), "no plot"),
        ] {
            let error = check(&dom, titles, &report).expect_err(fault);
            assert!(error.contains(fault), "{error}");
        }
        let mut checked = report.clone();
        checked["check"] = serde_json::json!({ "verdict": "7 writes: 0 wrong" });
        let silent = page("1.0,2.0 3.0,4.0");
        let error = check(&silent, titles, &checked).expect_err("no verdict");
        assert!(error.contains("does not say '7 writes: 0 wrong'"), "{error}");
        assert_eq!(check(&(silent + "<div>7 writes: 0 wrong</div>"), titles, &checked), Ok(1));
        let both =
            "<div>A is better</div><div>--require p99_ratio&gt;9: FAILS</div><th>A: one</th><th>B: two</th>";
        let said = |opening: &str| format!("{opening}<h2 id=\"whose\">{}", page("1.0,2.0 3.0,4.0"));
        let comparison = serde_json::json!({
            "verdict": "A is better", "a_name": "one", "b_name": "two",
            "requirements": [{ "condition": "p99_ratio>9", "holds": false }]
        });
        for (name, runs) in [("sweep", serde_json::json!([{}])), ("comparison", comparison)] {
            let mut report = report.clone();
            report[name] = runs;
            let error = check(&page("1.0,2.0 3.0,4.0"), titles, &report).expect_err(name);
            assert!(error.contains("which of the runs"), "{error}");
            assert_eq!(check(&said(both), titles, &report), Ok(1), "{name}");
            if name == "comparison" {
                let error = check(&(said("") + both), titles, &report).expect_err("A alone");
                assert!(error.contains("does not open with 'A is better'"), "{error}");
                let lacking = said(&both.replace("FAILS", "holds"));
                let error = check(&lacking, titles, &report).expect_err("a failed condition");
                assert!(error.contains("does not open with '--require p99_ratio&gt;9: FAILS'"), "{error}");
            }
        }
    }
}
