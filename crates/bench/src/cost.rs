//! What a request costs the server: CPU time and memory, from the process accounting where the server is on
//! this machine, and from INFO where it is not. A cluster's cost is the sum over its primaries.

use crate::cli::target;
use crate::control::info_field;
use crate::plan::Target;
use martlet_client::address::Address;

/// CPU time and memory of a server process at one instant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU seconds in user mode.
    pub user_s: f64,
    /// CPU seconds in the kernel.
    pub system_s: f64,
    /// Resident bytes.
    pub resident_bytes: u64,
    /// Bytes that the server says it uses.
    pub used_bytes: u64,
}

/// What a run cost, per answered request.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Cost {
    /// Server CPU, user mode, microseconds per request.
    pub user_us: f64,
    /// Server CPU, kernel, microseconds per request.
    pub system_us: f64,
    /// Server CPU in cores: CPU seconds per second.
    pub cores: f64,
    /// Resident bytes at the end.
    pub resident_bytes: u64,
    /// Growth of the server's own count of memory, bytes per request.
    pub memory_bytes: f64,
    /// Bytes sent per request.
    pub sent_bytes: f64,
    /// Bytes received per request.
    pub received_bytes: f64,
    /// This program's CPU, microseconds per request.
    pub client_us: f64,
    /// The server's figures are from its process, not from INFO.
    pub from_process: bool,
}

/// Reads the accounting of a target's nodes.
pub struct Meter {
    nodes: Vec<Metered>,
}

/// One node: how to ask it, and its process when that is here.
struct Metered {
    target: Target,
    pid: Option<u32>,
}

impl Meter {
    /// Finds out how the servers can be measured; `pid` overrides where there is one node.
    pub fn new(target: &Target, pid: Option<u32>) -> Meter {
        let single = target.nodes.len() == 1;
        let metered = |node: &crate::plan::Node| {
            let target = Target { nodes: vec![node.clone()], ..target.clone() };
            let pid = pid.filter(|_| single).or_else(|| local_pid(&target));
            Metered { target, pid }
        };
        Meter { nodes: target.nodes.iter().map(metered).collect() }
    }

    /// The first node's process, when it is on this machine.
    pub fn pid(&self) -> Option<u32> {
        self.nodes.first()?.pid
    }

    /// The first node's INFO text.
    pub fn info(&self) -> Option<String> {
        self.nodes.first()?.info()
    }

    /// The accounting now, over all nodes; `None` if one cannot be asked.
    pub fn read(&self) -> Option<Usage> {
        self.nodes.iter().map(Metered::read).try_fold(Usage::default(), |sum, usage| {
            let usage = usage?;
            Some(Usage {
                user_s: sum.user_s + usage.user_s,
                system_s: sum.system_s + usage.system_s,
                resident_bytes: sum.resident_bytes + usage.resident_bytes,
                used_bytes: sum.used_bytes + usage.used_bytes,
            })
        })
    }

    /// The cost of a run between two readings.
    pub fn cost(&self, before: Usage, after: Usage, result: &crate::engine::RunResult) -> Cost {
        let requests = (result.requests() + result.errors()).max(1) as f64;
        let (user, system) = (after.user_s - before.user_s, after.system_s - before.system_s);
        let client = result.client_cpu.0 + result.client_cpu.1;
        Cost {
            user_us: user * 1e6 / requests,
            system_us: system * 1e6 / requests,
            cores: (user + system) / result.elapsed.as_secs_f64().max(1e-9),
            resident_bytes: after.resident_bytes,
            memory_bytes: (after.used_bytes as f64 - before.used_bytes as f64) / requests,
            sent_bytes: result.sent_bytes as f64 / requests,
            received_bytes: result.received_bytes as f64 / requests,
            client_us: client.as_secs_f64() * 1e6 / requests,
            from_process: self.nodes.iter().all(|node| node.pid.is_some()),
        }
    }
}

impl Metered {
    fn info(&self) -> Option<String> {
        target::control(&self.target).ok()?.text(&["INFO"]).ok()?
    }

    fn read(&self) -> Option<Usage> {
        let info = self.info();
        let number = |name: &str| {
            info.as_deref().and_then(|i| info_field(i, name)).and_then(|v| v.parse::<f64>().ok())
        };
        let used_bytes = number("used_memory").unwrap_or(0.0) as u64;
        if let Some(pid) = self.pid {
            let (user_s, system_s) = process_cpu(pid)?;
            return Some(Usage {
                user_s,
                system_s,
                resident_bytes: process_bytes(pid, "VmRSS:"),
                used_bytes,
            });
        }
        Some(Usage {
            user_s: number("used_cpu_user")?,
            system_s: number("used_cpu_sys")?,
            resident_bytes: number("used_memory_rss").unwrap_or(0.0) as u64,
            used_bytes,
        })
    }
}

/// The server's process, if it runs here: what INFO says, else the owner of the listening socket.
fn local_pid(target: &Target) -> Option<u32> {
    let address = &target.nodes.first()?.address;
    if !address.is_local() {
        return None;
    }
    let info = target::control(target).ok()?.text(&["INFO", "server"]).ok()?;
    let told = info.as_deref().and_then(|i| info_field(i, "process_id")).and_then(|p| p.parse::<u32>().ok());
    let owner = match address {
        Address::Tcp(address) => listening_inode(address.port()).and_then(socket_owner),
        Address::Unix(_) => None,
    };
    // The number that INFO tells means another process when the server is in a container.
    match (told, owner) {
        (_, Some(owner)) => Some(owner),
        (Some(told), None) if process_cpu(told).is_some() => Some(told),
        _ => None,
    }
}

/// The inode of the socket that listens on a port.
fn listening_inode(port: u16) -> Option<u64> {
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (Some(local), Some(&"0A"), Some(inode)) = (words.get(1), words.get(3), words.get(9)) else {
                continue;
            };
            if local.rsplit_once(':').and_then(|(_, p)| u16::from_str_radix(p, 16).ok()) == Some(port) {
                return inode.parse().ok();
            }
        }
    }
    None
}

/// A process that holds a socket.
fn socket_owner(inode: u64) -> Option<u32> {
    let wanted = format!("socket:[{inode}]");
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        let Ok(descriptors) = std::fs::read_dir(entry.path().join("fd")) else { continue };
        if descriptors
            .flatten()
            .any(|fd| std::fs::read_link(fd.path()).is_ok_and(|l| l.as_os_str() == wanted.as_str()))
        {
            return Some(pid);
        }
    }
    None
}

/// CPU seconds of a process, user and system, all its threads.
pub fn process_cpu(pid: u32) -> Option<(f64, f64)> {
    let [user, system, ..] = cpu_times(pid)?;
    Some((user, system))
}

/// CPU seconds of a process and of its children that have ended.
pub fn family_cpu(pid: u32) -> Option<f64> {
    Some(cpu_times(pid)?.iter().sum())
}

/// Bytes of memory of a process and its children; what they share counts once.
pub fn family_memory(pid: u32) -> u64 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let all = children.split_whitespace().filter_map(|word| word.parse().ok()).chain([pid]);
    all.map(|pid| named_bytes(&format!("/proc/{pid}/smaps_rollup"), "Pss:")).sum()
}

/// CPU seconds of a process in user mode and in the kernel, and the same of its children that have ended.
fn cpu_times(pid: u32) -> Option<[f64; 4]> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, spaces and brackets included: fields count from its last bracket.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    // SAFETY: a system call without pointers.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    let seconds = |index: usize| fields.get(index).and_then(|f| f.parse::<f64>().ok()).map(|t| t / ticks);
    Some([seconds(11)?, seconds(12)?, seconds(13)?, seconds(14)?])
}

/// A size that the kernel tells of a process, such as `VmRSS:`, in bytes; 0 if it does not.
pub fn process_bytes(pid: u32, name: &str) -> u64 {
    named_bytes(&format!("/proc/{pid}/status"), name)
}

/// A size that a file of the kernel's gives by name in kilobytes, in bytes; 0 if it does not.
pub fn named_bytes(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_process_can_be_read() {
        let pid = std::process::id();
        assert!(process_cpu(pid).is_some());
        assert!(process_bytes(pid, "VmRSS:") > 1 << 20);
        assert!(family_cpu(pid) >= process_cpu(pid).map(|(user, system)| user + system));
        assert!(family_memory(pid) > 1 << 20);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        assert_eq!(listening_inode(port).and_then(socket_owner), Some(pid));
    }
}
