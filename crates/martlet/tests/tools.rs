//! Which tool the binary is, by its arguments and by the name of a link to it.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// Exit status and all that was said.
fn run(program: &Path, arguments: &[&str], directory: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(directory).stdin(Stdio::null()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

const NAMES: [&str; 8] =
    ["server", "bench", "cli", "sentinel", "metrics", "check-aof", "check-rdb", "convert"];

#[test]
fn help_and_version_speak_of_martlet_and_a_links_of_redis() {
    let directory = tempfile::tempdir().unwrap();
    let martlet = Path::new(env!("CARGO_BIN_EXE_martlet"));
    let (status, help) = run(martlet, &["--help"], directory.path());
    assert_eq!(status, Some(0));
    for name in NAMES {
        assert!(help.lines().any(|line| line.trim_start().starts_with(name)), "{name} in {help}");
    }
    let (status, version) = run(martlet, &["--version"], directory.path());
    assert!(status == Some(0) && version.starts_with("Martlet "), "{version}");
    for link in ["redis-server", "valkey-server"] {
        let link = directory.path().join(link);
        symlink(martlet, &link).unwrap();
        let (status, version) = run(&link, &["--version"], directory.path());
        assert!(status == Some(0) && version.starts_with("Redis server v="), "{version}");
        let (status, said) = run(&link, &["bench"], directory.path());
        assert!(status == Some(1) && said.contains("can't open config file"), "{said}");
    }
    let (_, version) = run(martlet, &["server", "--version"], directory.path());
    assert!(version.starts_with("Redis server v="), "{version}");
}

#[test]
fn every_tool_says_what_it_is_called_and_takes() {
    let directory = tempfile::tempdir().unwrap();
    let martlet = Path::new(env!("CARGO_BIN_EXE_martlet"));
    for name in NAMES {
        let (status, help) = run(martlet, &[name, "--help"], directory.path());
        assert!(status == Some(0) && help.contains("Usage: martlet"), "{name}: {help}");
    }
    let (_, help) = run(martlet, &["metrics", "--help"], directory.path());
    assert!(help.contains("Usage: martlet metrics [OPTIONS]"), "{help}");
    let (_, help) = run(martlet, &["check-aof", "--help"], directory.path());
    assert!(help.contains("--fix") && help.contains("--truncate-to-timestamp TIME"), "{help}");
}

#[test]
fn a_word_that_is_no_tool_is_a_file_or_is_told_the_tools() {
    let directory = tempfile::tempdir().unwrap();
    let martlet = Path::new(env!("CARGO_BIN_EXE_martlet"));
    let (status, said) = run(martlet, &["bnech"], directory.path());
    assert_eq!(status, Some(1));
    assert!(said.starts_with("martlet: 'bnech' is not one of the tools (server, bench, "), "{said}");
    assert!(NAMES.iter().all(|name| said.contains(name)), "{said}");
    std::fs::write(directory.path().join("bnech"), "nonsense here\n").unwrap();
    let (status, said) = run(martlet, &["bnech"], directory.path());
    assert!(status == Some(1) && said.contains("Bad directive or wrong number of arguments"), "{said}");
}

/// As `… | head`: a write after the reader has gone is no panic.
#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let directory = tempfile::tempdir().unwrap();
    let martlet = Path::new(env!("CARGO_BIN_EXE_martlet"));
    std::fs::write(directory.path().join("empty.aof"), "").unwrap();
    std::fs::write(directory.path().join("whole.rdb"), b"REDIS0009\xff\0\0\0\0\0\0\0\0").unwrap();
    let mut cases = vec![vec!["--help"], vec!["--version"], vec!["check-aof", "empty.aof"]];
    cases.push(vec!["check-rdb", "whole.rdb"]);
    cases.push(vec!["convert", "whole.rdb", "--json"]);
    cases.extend(NAMES.iter().map(|name| vec![*name, "--help"]));
    cases.extend([vec!["server", "--version"], vec!["sentinel", "--version"]]);
    for arguments in cases {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(martlet);
        command.args(&arguments).current_dir(directory.path()).stdin(Stdio::null()).stdout(writer);
        let output = command.stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked") && output.status.code() != Some(101), "{arguments:?}: {said}");
    }
}
