//! The machine and the server of a measurement, as a report names them.

use crate::control::info_field;
use serde::{Deserialize, Serialize};

/// The machine and the server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Environment {
    /// Release of the kernel.
    pub kernel: String,
    /// Model of the CPU.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Name and version of the server, from its INFO.
    pub server: String,
    /// The server's command line, its passwords replaced.
    pub server_command_line: String,
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Kernel, CPU and cores of this machine.
pub fn machine() -> (String, String, usize) {
    let cpuinfo = read("/proc/cpuinfo");
    let cpu = cpuinfo.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    (kernel.trim().into(), cpu.trim_start_matches([' ', '\t', ':']).into(), cores)
}

/// Name and version of a server, from its INFO.
pub fn server_name(info: &str) -> String {
    let field = |name| info_field(info, name).unwrap_or_default().to_string();
    let name = match field("server_name") {
        name if name.is_empty() => "redis".to_string(),
        name => name,
    };
    let version =
        ["martlet_version", "valkey_version", "redis_version"].into_iter().map(field).find(|v| !v.is_empty());
    format!("{name} {}", version.unwrap_or_default()).trim().into()
}

/// The words of a command line, passwords replaced: reports are passed on.
pub fn without_passwords(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut previous = String::new();
    let mut shown = Vec::new();
    for word in words {
        let hidden = match (previous.as_str(), word.split_once("://").zip(word.rsplit_once('@'))) {
            ("-a" | "--requirepass" | "requirepass" | "--masterauth" | "masterauth", _) => "***".to_string(),
            (_, Some(((scheme, _), (_, host)))) => format!("{scheme}://***@{host}"),
            _ => word.clone(),
        };
        shown.push(hidden);
        previous = word;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_hold_no_passwords() {
        let line = "bench -a secret -u redis://me:secret@host:1/2 --uri GET a@b";
        let shown = without_passwords(line.split(' ').map(str::to_string)).join(" ");
        assert_eq!(shown, "bench -a *** -u redis://***@host:1/2 --uri GET a@b");
    }
}
