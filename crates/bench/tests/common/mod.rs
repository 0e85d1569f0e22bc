//! Questions of the suites to a running server, by redis-cli.

use std::process::Command;

/// What redis-cli prints for a command.
pub fn cli(port: &str, words: &[&str]) -> String {
    let output = Command::new("redis-cli").args(["-p", port]).args(words).output();
    String::from_utf8_lossy(&output.expect("redis-cli runs").stdout).trim().to_string()
}

/// How often the server has run a command, as it counts.
pub fn calls(port: &str, command: &str) -> u64 {
    let all = cli(port, &["info", "commandstats"]);
    let line = all.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|rest| rest.split(',').next()).map_or(0, |calls| calls.parse().expect("a number"))
}
