//! Forms of a report, and the merging of several.

use super::*;

pub(super) fn sample(requests: u64) -> Report {
    let mut latencies = Latencies::new();
    (1..=requests).for_each(|n| latencies.record(n * 10_000, 1));
    let command =
        CommandReport { name: "GET".into(), requests, histogram: latencies.pairs(), ..Default::default() };
    let row =
        SecondRow { requests, mean_ms: 1.0, percentiles_ms: [1.0, 2.0, 3.0, 4.0, 5.0], ..Default::default() };
    Report {
        schema: SCHEMA,
        elapsed_s: 1.0,
        requests,
        rate: requests as f64,
        commands: vec![command],
        seconds: vec![row],
        ..Default::default()
    }
}

#[test]
fn json_keeps_everything_and_merging_adds() {
    let one = sample(100);
    let copy: Report = serde_json::from_str(&one.json().expect("writes")).expect("reads");
    assert_eq!(copy.commands[0].histogram, one.commands[0].histogram);
    let merged = Report::merge(&[one, sample(300)]).expect("two");
    assert_eq!((merged.requests, merged.rate, merged.seconds[0].requests), (400, 400.0, 400));
    assert_eq!(merged.all_latencies().count(), 400);
}

#[test]
fn late_replies_are_in_no_rate_of_any_form() {
    let late = |requests, late| {
        let mut report = sample(requests);
        (report.late, report.commands[0].late, report.rate) = (late, late, (requests - late) as f64);
        report
    };
    let merged = Report::merge(&[late(100, 25), late(300, 75)]).expect("two");
    assert_eq!((merged.requests, merged.late, merged.rate), (400, 100, 300.0));
    assert_eq!((merged.commands[0].late, merged.all_latencies().count()), (100, 400));
    let text = merged.text();
    assert!(text.contains("GET                300.0 "), "{text}");
    assert!(text.contains("late: 100 requests, answered after the end"), "{text}");
    assert!(merged.brief(false).starts_with("GET: 300.00 requests per second"), "{}", merged.brief(false));
    // A file of an earlier version has no such field.
    let mut old = serde_json::to_value(sample(10)).expect("JSON");
    old.as_object_mut().expect("fields").remove("late");
    old["commands"][0].as_object_mut().expect("fields").remove("late");
    assert_eq!(serde_json::from_value::<Report>(old).map(|report| report.late).ok(), Some(0));
}

/// Of latencies from microseconds to an hour, beside rates of millions and a cost.
#[test]
fn the_text_fits_eighty_columns() {
    let mut report = sample(10);
    report.environment.server = "martlet 0.1.0".into();
    (report.connections, report.threads, report.lost, report.late) = (1000, 16, 1_000_000, 5);
    report.asked_rate = Some(50_000.0);
    let mut latencies = Latencies::new();
    (0..36u32).for_each(|n| latencies.record(100 * 2u64.pow(n), 1_000_000));
    report.commands = ["GET", "cart/2 HSET"]
        .map(|name| CommandReport {
            name: name.into(),
            requests: 3_000_000,
            errors: 1_234_567,
            histogram: latencies.pairs(),
            ..Default::default()
        })
        .into();
    for cost in [None, Some(Cost { user_us: 1234.5, system_us: 1234.5, client_us: 99.9, ..Cost::default() })]
    {
        report.cost = cost;
        let text = report.text();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("requests/s") && text.contains(" 1234567\n"), "{text}");
    }
    let forms = [0.0005, 99.999, 100.0, 999.99, 1000.0, 9999.9, 3_600_000.0].map(milliseconds);
    assert_eq!(forms, ["0.001", "99.999", "100.00", "999.99", "1000.0", "9999.9", "3600000"]);
}

/// The text shows the same parts as the page.
#[test]
fn a_report_as_text_has_comparison_sweep_and_check() {
    let figures = |rate| comparison::Figures { rate, p99_ms: 1.0, ..Default::default() };
    let pairs = vec![comparison::Pair { a: figures(2000.0), b: figures(1000.0) }; 3];
    let mut report = sample(10);
    let mut comparison = comparison::Comparison::new("one".into(), "two".into(), pairs);
    comparison.requirements = [("throughput_ratio>=9", false), ("throughput_ratio>1", true)]
        .map(|(condition, holds)| comparison::Requirement { condition: condition.into(), holds })
        .into();
    report.comparison = Some(comparison);
    report.sweep = [("pipeline", 8.0), ("pipeline", 16.0), ("rate", 500.0)]
        .map(|(name, value)| Point { name: name.into(), value, rate: 7.0 * value, ..Default::default() })
        .into();
    let verdict = "verified 5 writes and 6 reads over 2 connections in 1.0 s: 0 wrong";
    report.check = Some(Check {
        kind: "verify".into(),
        expected: 11,
        found: 11,
        verdict: verdict.into(),
        first_wrong: None,
    });
    // Read back from its file, as `martlet bench report` does.
    let report: Report = serde_json::from_str(&report.json().expect("writes")).expect("reads");
    let text = report.whole_text();
    for expected in [
        "A: one\nB: two\n",
        "throughput_ratio   2.000 (2.000 - 2.000)",
        "verdict: throughput: A is better by 2.00x",
        "require throughput_ratio>=9: FAILS",
        "require throughput_ratio>1: holds",
        "A alone, in the last pair:",
        "GET ",
        "    pipeline   requests/s",
        "          16          112",
        "       asked   requests/s",
        "         500         3500",
        verdict,
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let page = report.html().expect("renders");
    for expected in [verdict, "throughput_ratio>=9", "\"holds\":false"] {
        assert!(page.contains(expected), "{expected}");
    }
    // Of a file without words, the figures.
    let wordless = Check { kind: "hot-key".into(), expected: 5, found: 4, ..Check::default() };
    assert_eq!(wordless.text(), "hot-key: 5 expected, 4 found\n");
    let wrong = Check { first_wrong: Some("k: got x".into()), verdict: "1 wrong".into(), ..wordless };
    assert_eq!(wrong.text(), "1 wrong\nfirst wrong reply: k: got x\n");
}

/// A comparison that broke off after one pair has no interval; its file can be read again.
#[test]
fn one_pair_makes_no_verdict() {
    let figures = comparison::Figures { rate: 1.0, ..Default::default() };
    let pairs = vec![comparison::Pair { a: figures, b: figures }];
    let mut report = sample(10);
    report.comparison = Some(comparison::Comparison::new("a".into(), "b".into(), pairs));
    let report: Report = serde_json::from_str(&report.json().expect("writes")).expect("reads");
    let text = report.whole_text();
    assert!(text.contains("verdict: none: fewer than two pairs of runs were finished"), "{text}");
}

/// A run of `seconds` with one command, every second alike.
fn run_of(seconds: u32, name: &str, per_second: u64, error: &str) -> Report {
    let mut report = sample(per_second * u64::from(seconds));
    report.elapsed_s = f64::from(seconds);
    report.commands[0].name = name.into();
    let row = SecondRow { requests: per_second, ..report.seconds[0].clone() };
    report.seconds = (0..seconds).map(|second| SecondRow { second, ..row.clone() }).collect();
    report.error_texts = vec![(error.into(), 1)];
    report
}

#[test]
fn runs_of_different_lengths_merge() {
    let runs = [run_of(2, "GET", 50, "ERR a"), run_of(5, "SET", 10, "ERR b"), run_of(3, "GET", 100, "ERR a")];
    let merged = Report::merge(&runs).expect("three");
    assert_eq!((merged.elapsed_s, merged.requests, merged.rate), (5.0, 450, 90.0));
    let rows: Vec<_> = merged
        .seconds
        .iter()
        .map(|row| {
            let name = merged.commands[row.command as usize].name.as_str();
            (row.second, name, row.requests)
        })
        .collect();
    let expected = [
        (0, "GET", 150),
        (0, "SET", 10),
        (1, "GET", 150),
        (1, "SET", 10),
        (2, "GET", 100),
        (2, "SET", 10),
        (3, "SET", 10),
        (4, "SET", 10),
    ];
    assert_eq!(rows, expected);
    assert_eq!(merged.error_texts, [("ERR a".to_string(), 2), ("ERR b".to_string(), 1)]);
    // As if one histogram had taken everything: GET has 10 µs, 20 µs, … to 1 ms and to 3 ms.
    let mut all = Latencies::new();
    [100, 300].iter().for_each(|count| (1..=*count).for_each(|n: u64| all.record(n * 10_000, 1)));
    let get = merged.commands.iter().find(|c| c.name == "GET").expect("GET").latencies();
    for percent in [1.0, 50.0, 75.0, 90.0, 99.0, 99.9, 100.0] {
        assert_eq!(get.percentile_ms(percent), all.percentile_ms(percent), "p{percent}");
    }
    assert_eq!(merged.commands.iter().map(|c| c.requests).sum::<u64>(), 450);
}

#[test]
fn what_is_of_one_run_alone_is_not_lost_in_a_merge() {
    let plain = sample(10);
    let mut checked = sample(10);
    checked.command_line = vec!["bench".into(), "--verify".into()];
    checked.check = Some(Check::default());
    assert!(Report::merge(std::slice::from_ref(&checked)).is_ok());
    let refusal = Report::merge(&[plain, checked]).err();
    let expected = "a check is of one run alone, it cannot be merged: bench --verify";
    assert_eq!(refusal.as_deref(), Some(expected));
}

#[test]
fn a_run_is_not_counted_twice() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, report: Report| {
        let path = directory.path().join(name);
        std::fs::write(&path, report.json().expect("writes")).expect("written");
        path.into_os_string()
    };
    let (one, copy, other) = (file("one", sample(10)), file("copy", sample(10)), file("other", sample(20)));
    for again in [&one, &copy] {
        let expected = format!("{} and {}", one.display(), again.display());
        let error = render(&[one.clone(), other.clone(), again.clone()]).expect_err("twice");
        assert_eq!(error, format!("{expected} are the same run: give it once"));
    }
    assert_eq!(render(&[one, other]), Ok(()));
}

#[test]
fn open_and_closed_loop_are_not_merged() {
    let asking =
        |rate, replay| Report { asked_rate: rate, replay, command_line: vec!["bench".into()], ..sample(10) };
    let merged = Report::merge(&[asking(Some(5.0), false), asking(Some(7.0), false)]).expect("alike");
    assert_eq!(merged.asked_rate, Some(12.0));
    for (one, other, message) in [
        (asking(None, false), asking(Some(5.0), false), "closed loop and of open loop at 5 requests/s are"),
        (asking(Some(5.0), false), asking(None, false), "open loop at 5 requests/s and of closed loop are"),
        (asking(None, false), asking(None, true), "closed loop and of closed loop over a capture are"),
    ] {
        let error = Report::merge(&[one, other]).expect_err(message);
        assert!(error.contains(message) && error.ends_with("cannot be merged: bench"), "{error}");
    }
}

/// The paths of all values below `value`, as docs/bench.md writes them.
fn paths(value: &serde_json::Value, at: &str, out: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, inner) in fields {
                let name = if at.ends_with("ratios") { "*" } else { name };
                paths(inner, &format!("{at}{}{name}", if at.is_empty() { "" } else { "." }), out);
            }
        }
        serde_json::Value::Array(elements) => {
            assert!(!elements.is_empty(), "{at} has no element to look at");
            elements.iter().for_each(|inner| paths(inner, &format!("{at}[]"), out));
        }
        _ => drop(out.insert(at.into())),
    }
}

#[test]
fn every_field_is_documented_and_no_other() {
    let mut report = sample(10);
    report.cost = Some(Cost::default());
    report.command_line = vec!["bench".into()];
    report.error_texts = vec![("ERR".into(), 1)];
    report.sweep = vec![Default::default()];
    report.check = Some(Check::default());
    let figures = comparison::Figures { rate: 1.0, ..Default::default() };
    let pairs = vec![comparison::Pair { a: figures, b: figures }; 3];
    let mut comparison = comparison::Comparison::new("a".into(), "b".into(), pairs);
    comparison.requirements = vec![comparison::Requirement { condition: "p99_ratio>1".into(), holds: true }];
    report.comparison = Some(comparison);
    let mut written = std::collections::BTreeSet::new();
    paths(&serde_json::to_value(&report).expect("JSON"), "", &mut written);
    let page = include_str!("../../../../docs/bench.md");
    let table = page.split("### The JSON form").nth(1).and_then(|rest| rest.split("## ").next());
    let documented: std::collections::BTreeSet<String> = table
        .expect("the page has the table")
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(" | ").next())
        .flat_map(|cell| cell.split(", ").map(|path| path.trim_matches(['`', ' ', '|']).to_string()))
        .collect();
    assert_eq!(written, documented);
}

#[test]
fn other_forms_hold_the_figures() {
    let report = sample(1000);
    assert!(report.csv().contains("total,,GET,1000,0,"));
    assert!(report.hgrm().contains("Total count    =         1000"));
    assert!(report.text().contains("GET"));
    assert!(render(&["/nonexistent.json".into()]).expect_err("missing").contains("/nonexistent.json"));
}
