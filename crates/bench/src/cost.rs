//! The server's cost of a request: CPU time and memory, from the process accounting where the server is on
//! this machine, and from INFO where it is not. A cluster's cost is the sum over its primaries.

use crate::cli::target;
use crate::control::info_field;
use crate::plan::Target;
use crate::process::{listening_inode, process_bytes, process_cpu, socket_owner};
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

/// The cost of a run, per answered request.
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
    // INFO's process id names another process when the server is in a container.
    match (told, owner) {
        (_, Some(owner)) => Some(owner),
        (Some(told), None) if process_cpu(told).is_some() => Some(told),
        _ => None,
    }
}
