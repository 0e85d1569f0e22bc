//! A newcomer's first run: the load tester without a server named and with none on the default port.

use std::net::TcpStream;
use std::process::{Command, Stdio};

/// Whether any process has these words in its command line.
fn is_running(words: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("Linux").flatten();
    processes
        .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(words))
}

#[test]
fn without_a_server_one_is_started_shown_and_ended() {
    if TcpStream::connect(("127.0.0.1", 6379)).is_ok() {
        eprintln!("there is a server on port 6379: the demonstration is NOT tested");
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_martlet"))
        .arg("bench")
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    let port: u16 = text
        .split_once("No server on port 6379: starting one on port ")
        .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("{text}"));
    assert!(!is_running(&format!("--port\0{port}\0")), "its server is gone");
    for workload in ["SET ", "GET ", "SET, pipeline 64", "GET, pipeline 64", "9 GET : 1 SET, pipeline 16"] {
        let row = text.lines().find(|line| line.starts_with(workload)).unwrap_or_else(|| panic!("{text}"));
        let figures: Vec<f64> = row[28..].split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert_eq!(figures.len(), 5, "requests/s, p50, p99, server's and client's CPU: {row}");
        assert!(figures.iter().all(|figure| *figure > 0.0) && figures[1] <= figures[2], "{row}");
    }
    assert!(text.trim_end().ends_with("Next: martlet bench --help, or docs/bench.md"), "{text}");
}
