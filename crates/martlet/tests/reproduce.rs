//! `martlet bench reproduce`, made as small as it can be: experiments run against this program's own
//! server, the pages hold what was measured, and a run that was cut short goes on where it stopped.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn reproduce(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_martlet"));
    command.args(["bench", "reproduce"]).args(arguments).stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn read(directory: &Path, name: &str) -> String {
    std::fs::read_to_string(directory.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The measured rows of a run's file: experiment, trial, server, values.
fn rows(directory: &Path) -> Vec<serde_json::Value> {
    let lines = read(directory, "rows.jsonl");
    let rows =
        lines.lines().skip(1).map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    rows.map(|line| line["row"].clone()).collect()
}

fn value(rows: &[serde_json::Value], experiment: &str, trial: &str, name: &str) -> f64 {
    let row = rows.iter().find(|row| row["experiment"] == experiment && row["trial"] == trial);
    let value = row.and_then(|row| row["values"][name].as_f64());
    value.unwrap_or_else(|| panic!("{experiment} {trial} has no {name}: {row:?}"))
}

#[test]
fn all_experiments_run_and_the_pages_hold_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = directory.path().join("run");
    let shown = output.to_string_lossy().into_owned();
    let options = ["--output", &shown, "--budget", "5s", "--seed", "7"];
    let run = reproduce(&options).output().expect("it runs");
    assert!(run.status.success(), "{}", text(&run));
    let measured = rows(&output);
    assert!(measured.iter().all(|row| row["failed"].is_null()), "{}", text(&run));
    for experiment in ["R1", "R2", "R3", "R4", "R5"] {
        assert!(measured.iter().any(|row| row["experiment"] == experiment), "{experiment}");
    }
    // What must be exact on any machine.
    assert_eq!(
        value(&measured, "R3", "hot key 150", "sum"),
        value(&measured, "R3", "hot key 150", "requests")
    );
    for kind in ["recovery RDB", "recovery AOF"] {
        assert_eq!(value(&measured, "R3", kind, "found"), value(&measured, "R3", kind, "records"), "{kind}");
    }
    assert_eq!(value(&measured, "R5", "pair SET 100", "replica_lacks"), 0.0);
    assert_eq!(value(&measured, "R5", "rewrite", "lacks"), 0.0);
    for seen in ["moved", "present", "ask", "asking", "arrived", "moved_after"] {
        assert_eq!(value(&measured, "R5", "redirects", seen), 1.0, "{seen}");
    }
    assert!(value(&measured, "R5", "policy noeviction", "refused") > 0.0);
    assert_eq!(value(&measured, "R5", "policy noeviction", "reads"), 1.0);
    assert!(value(&measured, "R5", "policy allkeys-lru", "evicted") > 0.0);

    let page = read(&output, "experiments.md");
    for title in [
        "# Five reports, measured again",
        "## R1. The redis-benchmark guide",
        "## R2. Connections, payload, pipeline",
        "## R3. Hot key and persistence",
        "## R4. The white paper",
        "## R5. Performance and capacity",
        "| claim | judged by | verdict |",
        "Left out:",
    ] {
        assert!(page.contains(title), "{title:?} is not in {page}");
    }
    assert!(!page.contains("Not whole") && !page.contains("could not be measured"), "{page}");
    // A figure that was measured stands beside the source's.
    let row = page.lines().find(|line| line.starts_with("| 20, -P 8 | 534,759 | "));
    let figure = row.and_then(|row| row.split(" | ").nth(2)).unwrap_or_else(|| panic!("{page}"));
    let rate = value(&measured, "R2", "pipeline 100 8", "rate");
    let shown_rate: f64 = figure.replace(',', "").parse().unwrap_or_else(|_| panic!("{figure}"));
    assert!((shown_rate - rate).abs() <= 0.5, "{figure} is not {rate}");
    let html = read(&output, "experiments.html");
    assert!(html.contains("R5") && !html.contains("/*REPORT*/") && !html.contains("https://"), "{html}");

    // Torn in its last row, the run measures that row again and no other.
    let file = output.join("rows.jsonl");
    let bytes = std::fs::read(&file).expect("rows");
    std::fs::write(&file, &bytes[..bytes.len() - 9]).expect("torn");
    let again = reproduce(&options).output().expect("it runs");
    let told = text(&again);
    assert!(again.status.success(), "{told}");
    assert!(told.contains(&format!("going on after {} rows", measured.len() - 1)), "{told}");
    assert!(told.contains("\n1/1 R5 "), "{told}");
    assert_eq!(rows(&output).len(), measured.len());
    let other = reproduce(&["--output", &shown, "--quick"]).output().expect("it runs");
    assert!(!other.status.success() && text(&other).contains("a run with other options is there"));
}

#[test]
fn an_interrupted_run_keeps_what_it_has_and_goes_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = directory.path().join("run");
    let shown = output.to_string_lossy().into_owned();
    let child = reproduce(&["--output", &shown, "--budget", "5s", "--only", "R2"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let limit = Instant::now() + Duration::from_secs(60);
    let lines = || std::fs::read_to_string(output.join("rows.jsonl")).map_or(0, |text| text.lines().count());
    while lines() < 4 {
        assert!(Instant::now() < limit, "no row in a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let ended = child.wait_with_output().expect("it ends");
    let told = text(&ended);
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains(&format!("martlet bench reproduce --resume {shown}")), "{told}");
    let first = rows(&output);
    assert!(read(&output, "experiments.md").contains("**Not whole: "));
    let again = reproduce(&["--resume", &shown]).output().expect("it runs");
    assert!(again.status.success(), "{}", text(&again));
    let all = rows(&output);
    assert_eq!(all[..first.len()], first[..], "rows that were there are as they were");
    assert_eq!(all.len(), 22, "each row once: {all:?}");
    assert!(!read(&output, "experiments.md").contains("Not whole"));
}
