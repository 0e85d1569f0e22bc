//! The measured rows, as a file of JSON lines: the first describes the run, each further one is a row. A row
//! is on disk before the next is measured, so that an end of the run costs only the row under way.
//!
//! Invariant: a file is only ever appended to; a last line that has no end, or is of zeros, is cut off when
//! it is opened again, and kept beside it. Any other line that cannot be read refuses the file.

use martlet_base::disk::{RealDisk, remnant};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;

/// The measurements of one row, by name; units are in the names.
pub type Values = BTreeMap<String, f64>;

/// The options and the machine of a run: a run that is continued keeps both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Version of the file's form.
    pub schema: u32,
    /// This program and its version.
    pub tool: String,
    /// When the run began.
    pub time_unix_s: u64,
    /// Seconds that the whole is to take.
    pub budget_s: f64,
    /// Seconds that a timed row measures.
    pub unit_s: f64,
    /// Part of the full numbers of keys and requests.
    pub share: f64,
    /// Most connections that this machine lets one process have.
    pub connections_most: u64,
    /// Seed of every random choice.
    pub seed: u64,
    /// Experiments to run.
    pub experiments: Vec<String>,
    /// The servers, ours first.
    pub servers: Vec<ServerSetup>,
    /// The machine.
    pub machine: Machine,
}

/// One server of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerSetup {
    /// As the report names it.
    pub name: String,
    /// Name and version that the server reports.
    pub version: String,
    /// `started` by the run, at an `address`, or the `null` responder.
    pub kind: String,
    /// Its command line, or its address where it runs already.
    pub how: String,
}

/// The machine that a run is made on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub kernel: String,
    pub cpu: String,
    pub cores: usize,
    pub memory_bytes: u64,
}

/// Version of the file's form.
pub const SCHEMA: u32 = 1;

/// One measured row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The experiment, as `R1`.
    pub experiment: String,
    /// The row's name within it.
    pub trial: String,
    /// The server's name.
    pub server: String,
    /// Seconds that it took, loading and starting included.
    pub took_s: f64,
    /// The measurements; empty when it failed.
    #[serde(default)]
    pub values: Values,
    /// Why it could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Setup(Setup),
    Row(Row),
}

/// All rows of a run.
#[derive(Debug, Default)]
pub struct Rows(Vec<Row>);

impl Rows {
    /// Adds a row; a row that was measured again replaces the earlier one.
    pub fn add(&mut self, row: Row) {
        let is_same = |old: &Row| {
            old.experiment == row.experiment && old.trial == row.trial && old.server == row.server
        };
        self.0.retain(|old| !is_same(old));
        self.0.push(row);
    }

    /// A row.
    pub fn find(&self, experiment: &str, trial: &str, server: &str) -> Option<&Row> {
        self.0.iter().find(|r| r.experiment == experiment && r.trial == trial && r.server == server)
    }

    /// One value of a row that was measured.
    pub fn value(&self, experiment: &str, trial: &str, server: &str, name: &str) -> Option<f64> {
        self.find(experiment, trial, server)?.values.get(name).copied()
    }

    /// Rows that could not be measured.
    pub fn failed(&self) -> impl Iterator<Item = &Row> {
        self.0.iter().filter(|row| row.failed.is_some())
    }

    /// Rows that were measured.
    pub fn measured(&self) -> impl Iterator<Item = &Row> {
        self.0.iter().filter(|row| row.failed.is_none())
    }
}

/// The file, open to be appended to.
pub struct Journal(File);

impl Journal {
    /// Begins a file that is not there yet.
    pub fn create(path: &Path, setup: &Setup) -> Result<Journal, String> {
        let named = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = OpenOptions::new().append(true).create_new(true).open(path).map_err(named)?;
        let mut journal = Journal(file);
        journal.append(&Line::Setup(setup.clone())).map_err(named)?;
        Ok(journal)
    }

    /// Opens a file of an earlier run; gives what it holds. A last line without an end comes from a write
    /// that was cut short: it is removed, and kept beside the file.
    pub fn open(path: &Path) -> Result<(Journal, Setup, Rows), String> {
        let named = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file = OpenOptions::new().read(true).append(true).open(path).map_err(named)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(named)?;
        let (setup, rows, whole) = parse(&bytes).map_err(|e| format!("{}: {e}", path.display()))?;
        if whole < bytes.len() {
            remnant::cut_off(&RealDisk, path, whole as u64).map_err(named)?;
            file.seek(std::io::SeekFrom::End(0)).map_err(named)?;
        }
        Ok((Journal(file), setup, rows))
    }

    /// Writes a row; it is on disk when this returns.
    pub fn write(&mut self, row: &Row) -> Result<(), String> {
        self.append(&Line::Row(row.clone())).map_err(|e| format!("the row cannot be kept: {e}"))
    }

    fn append(&mut self, line: &Line) -> std::io::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.0.write_all(text.as_bytes())?;
        self.0.sync_data()
    }
}

/// Whether a line consists of zeros: the file system reserved its room and lost its content.
fn is_unwritten(line: &[u8]) -> bool {
    line.strip_suffix(b"\n").is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
}

/// The setup, the rows, and how many bytes whole lines take.
fn parse(bytes: &[u8]) -> Result<(Setup, Rows, usize), String> {
    let (mut setup, mut rows, mut whole) = (None, Rows::default(), 0);
    let lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
    for (index, line) in lines.iter().enumerate() {
        let is_last = index + 1 == lines.len();
        match serde_json::from_slice(line) {
            _ if !line.ends_with(b"\n") => break,
            Ok(Line::Setup(read)) if setup.is_none() && read.schema == SCHEMA => setup = Some(read),
            Ok(Line::Setup(read)) if setup.is_none() => {
                return Err(format!("schema {} is not {SCHEMA}", read.schema));
            }
            Ok(Line::Row(row)) if setup.is_some() => rows.add(row),
            Ok(_) => return Err(format!("line {} does not belong there", index + 1)),
            Err(_) if is_last && setup.is_some() && is_unwritten(line) => break,
            Err(error) => return Err(format!("line {}: {error}", index + 1)),
        }
        whole += line.len();
    }
    Ok((setup.ok_or("no whole first line, which says of what run it is")?, rows, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(trial: &str, rate: f64) -> Row {
        Row {
            experiment: "R1".into(),
            trial: trial.into(),
            server: "martlet".into(),
            values: Values::from([("rate".to_string(), rate)]),
            ..Row::default()
        }
    }

    fn written(rows: &[Row]) -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("rows.jsonl");
        let setup = Setup { schema: SCHEMA, unit_s: 0.25, seed: 7, ..Setup::default() };
        let mut journal = Journal::create(&path, &setup).expect("created");
        rows.iter().for_each(|row| journal.write(row).expect("written"));
        (directory, path)
    }

    fn rate(rows: &Rows, trial: &str) -> Option<f64> {
        rows.value("R1", trial, "martlet", "rate")
    }

    #[test]
    fn a_run_that_goes_on_has_all_that_was_finished() {
        let (_directory, path) = written(&[row("set", 1.0), row("get", 2.0)]);
        let (mut journal, setup, rows) = Journal::open(&path).expect("opens");
        assert_eq!((setup.unit_s, setup.seed), (0.25, 7));
        assert_eq!(
            (rate(&rows, "set"), rate(&rows, "get"), rate(&rows, "incr")),
            (Some(1.0), Some(2.0), None)
        );
        journal.write(&row("incr", 3.0)).expect("written");
        let (_, _, rows) = Journal::open(&path).expect("opens");
        assert_eq!((rate(&rows, "get"), rate(&rows, "incr")), (Some(2.0), Some(3.0)));
    }

    #[test]
    fn a_torn_last_line_is_dropped_wherever_it_is_torn() {
        let (_directory, path) = written(&[row("set", 1.0), row("get", 2.0)]);
        let bytes = std::fs::read(&path).expect("reads");
        let last = bytes[..bytes.len() - 1].iter().rposition(|b| *b == b'\n').expect("lines") + 1;
        for cut in last..bytes.len() {
            std::fs::write(&path, &bytes[..cut]).expect("cut");
            let (mut journal, _, rows) = Journal::open(&path).expect("opens");
            assert_eq!((rate(&rows, "set"), rate(&rows, "get")), (Some(1.0), None), "cut at {cut}");
            journal.write(&row("get", 5.0)).expect("written");
            let kept = format!("rows.jsonl.cut-{}", cut - last);
            let is_kept = std::fs::read(path.with_file_name(kept)).is_ok_and(|end| end == bytes[last..cut]);
            assert_eq!(is_kept, cut > last, "cut at {cut}");
            let (_, _, rows) = Journal::open(&path).expect("what follows stands on a line of its own");
            assert_eq!((rate(&rows, "set"), rate(&rows, "get")), (Some(1.0), Some(5.0)), "cut at {cut}");
        }
    }

    #[test]
    fn a_line_that_was_never_written_out_is_dropped_as_well() {
        let (_directory, path) = written(&[row("set", 1.0)]);
        let mut bytes = std::fs::read(&path).expect("reads");
        bytes.extend_from_slice(b"\0\0\0\0\n");
        std::fs::write(&path, &bytes).expect("written");
        let (_, _, rows) = Journal::open(&path).expect("opens");
        assert_eq!(rate(&rows, "set"), Some(1.0));
    }

    #[test]
    fn what_is_broken_elsewhere_is_named() {
        let (_directory, path) = written(&[row("set", 1.0)]);
        let whole = String::from_utf8(std::fs::read(&path).expect("reads")).expect("text");
        let (first, second) = whole.split_once('\n').expect("two lines");
        for (text, error) in [
            (String::new(), "no whole first line"),
            (first.into(), "no whole first line"),
            (format!("{first}\nnonsense\n{second}"), "line 2: expected"),
            (format!("{second}{first}\n"), "line 1 does not belong there"),
            (format!("{first}\n{second}nonsense\n"), "line 3: expected"),
            (format!("{first}\n{}\n", &second[..second.len() / 2]), "line 2: EOF"),
            (format!("{first}\n{first}\n"), "line 2 does not belong there"),
            (format!("{}\n", first.replace("\"schema\":1", "\"schema\":9")), "schema 9 is not 1"),
        ] {
            std::fs::write(&path, &text).expect("written");
            let found = Journal::open(&path).err().expect(error);
            assert!(found.contains(error), "{found}");
            assert_eq!(std::fs::read_to_string(&path).expect("reads"), text, "it is as it was");
        }
    }

    #[test]
    fn what_is_measured_again_replaces_what_was() {
        let mut rows = Rows::default();
        rows.add(Row { failed: Some("no server".into()), values: Values::new(), ..row("set", 1.0) });
        assert_eq!((rows.failed().count(), rows.measured().count()), (1, 0));
        rows.add(row("set", 2.0));
        assert_eq!((rows.failed().count(), rate(&rows, "set")), (0, Some(2.0)));
    }
}
