//! `martlet bench reproduce` at its smallest: one experiment runs against this program's own server, the
//! pages hold the measured rows, and a run that was cut short continues where it stopped. All five run in
//! `./x bench-report`.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Rows of R2, each cheap.
const ROWS: usize = 22;
/// On a busy machine a row of this run may see no reply in its time, and fails: this is the limit of its
/// repetitions.
const RESUMES_MOST: usize = 10;

/// A run in a directory that goes with it.
struct Run {
    _directory: tempfile::TempDir,
    output: PathBuf,
}

impl Run {
    fn new() -> Run {
        let directory = tempfile::tempdir().expect("a directory");
        let output = directory.path().join("run");
        Run { _directory: directory, output }
    }

    fn shown(&self) -> String {
        self.output.to_string_lossy().into_owned()
    }

    /// The command that begins it, or continues it.
    fn begin(&self) -> Command {
        reproduce(&["--output", &self.shown(), "--budget", "1s", "--only", "R2", "--seed", "7"])
    }

    fn resume(&self) -> Output {
        reproduce(&["--resume", &self.shown()]).output().expect("it runs")
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.output.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Lines of the run's file, whole or not.
    fn lines(&self) -> usize {
        std::fs::read_to_string(self.output.join("rows.jsonl")).map_or(0, |text| text.lines().count())
    }

    /// All rows of the run's file, those that failed too.
    fn rows(&self) -> Vec<Value> {
        let lines = self.read("rows.jsonl");
        let rows = lines.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        rows.map(|line| line["row"].clone()).collect()
    }

    fn measured(&self) -> Vec<Value> {
        self.rows().into_iter().filter(|row| row["failed"].is_null()).collect()
    }
}

fn reproduce(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_martlet"));
    command.args(["bench", "reproduce"]).args(arguments).stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn an_interrupted_run_keeps_what_it_has_and_goes_on() {
    let run = Run::new();
    interrupt(&run);
    let first = run.rows();
    assert!(run.read("experiments.md").contains("**Not whole: "));
    let mut resumes = 0;
    while run.measured().len() < ROWS {
        assert!(resumes < RESUMES_MOST, "rows fail again and again: {:?}", run.rows());
        let before = run.measured().len();
        let again = run.resume();
        let told = text(&again);
        assert!(told.contains(&format!("going on after {before} rows")), "{told}");
        assert_eq!(again.status.success(), run.measured().len() == ROWS, "{told}");
        resumes += 1;
    }
    assert_eq!(run.rows()[..first.len()], first[..], "rows that were there are as they were");
    let measured = run.measured();
    assert_eq!(measured.len(), ROWS, "each row once: {measured:?}");
    check_pages(&run, &measured);
    tear(&run);
}

/// Begins a run, and ends it as Ctrl-C does when it has a few rows.
fn interrupt(run: &Run) {
    let child = run.begin().stdout(Stdio::piped()).spawn().expect("it starts");
    let limit = Instant::now() + Duration::from_secs(60);
    while run.lines() < 3 {
        assert!(Instant::now() < limit, "no row in a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let ended = child.wait_with_output().expect("it ends");
    let told = text(&ended);
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains(&format!("martlet bench reproduce --resume {}", run.shown())), "{told}");
}

/// The pages of a complete run have the measured rows beside the source's figures.
fn check_pages(run: &Run, measured: &[Value]) {
    let page = run.read("experiments.md");
    for part in [
        "# Five reports, measured again",
        "## R2. Connections, payload, pipeline",
        "| claim | judged by | verdict |",
        "Left out:",
    ] {
        assert!(page.contains(part), "{part:?} is not in {page}");
    }
    assert!(!page.contains("Not whole") && !page.contains("could not be measured"), "{page}");
    assert!(!page.contains("## R1."), "only R2 was asked for: {page}");
    let line = page.lines().find(|line| line.starts_with("| 20, -P 8 | 534,759 | "));
    let figure = line.and_then(|line| line.split(" | ").nth(2)).unwrap_or_else(|| panic!("{page}"));
    let row = measured.iter().find(|row| row["trial"] == "pipeline 100 8").expect("a row");
    let rate = row["values"]["rate"].as_f64().expect("a rate");
    let shown_rate: f64 = figure.replace(',', "").parse().unwrap_or_else(|_| panic!("{figure}"));
    assert!((shown_rate - rate).abs() <= 0.5, "{figure} is not {rate}");
    let html = run.read("experiments.html");
    assert!(html.contains("R2") && !html.contains("/*REPORT*/") && !html.contains("https://"), "{html}");
}

/// Torn in its last row, the run measures that row again and no other; with other options it does nothing.
fn tear(run: &Run) {
    let file = run.output.join("rows.jsonl");
    let (bytes, lines) = (std::fs::read(&file).expect("rows"), run.lines());
    std::fs::write(&file, &bytes[..bytes.len() - 9]).expect("torn");
    let told = text(&run.begin().output().expect("it runs"));
    assert!(told.contains(&format!("going on after {} rows", ROWS - 1)), "{told}");
    assert!(told.contains("\n1/1 R2 "), "{told}");
    assert_eq!(run.lines(), lines);
    let rows = run.read("rows.jsonl");
    let other = reproduce(&["--output", &run.shown(), "--quick"]).output().expect("it runs");
    assert!(!other.status.success() && text(&other).contains("a run with other options is there"));
    assert_eq!(run.read("rows.jsonl"), rows);
}

#[test]
fn only_a_run_that_is_there_is_resumed() {
    let run = Run::new();
    let ended = run.resume();
    let told = text(&ended);
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("is not there: no run to continue"), "{told}");
    assert!(!run.output.exists());
}
