//! The server's cost of a request: CPU time and memory, from the process accounting where the server is on
//! this machine, and from INFO where it is not. A cluster's cost is the sum over its primaries.

use crate::cli::target;
use crate::control::info_field;
use crate::environment::{Environment, machine, server_name, without_passwords};
use crate::plan::Target;
use crate::process::{listening_inode, process_bytes, process_cpu, socket_owner};
use martlet_client::address::Address;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// CPU time and memory of a server process at one instant.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// That instant.
    pub at: Instant,
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
    /// It has not answered in time, and is not asked again: each question would wait as long.
    is_silent: AtomicBool,
}

impl Meter {
    /// Finds out how the servers can be measured; `pid` overrides where there is one node.
    pub fn new(target: &Target, pid: Option<u32>) -> Meter {
        let single = target.nodes.len() == 1;
        let metered = |node: &crate::plan::Node| {
            let target = Target { nodes: vec![node.clone()], ..target.clone() };
            let mut metered =
                Metered { target, pid: pid.filter(|_| single), is_silent: AtomicBool::new(false) };
            metered.pid = metered.pid.or_else(|| metered.local_pid());
            metered
        };
        Meter { nodes: target.nodes.iter().map(metered).collect() }
    }

    /// The machine, and the first node as it introduces itself.
    pub fn environment(&self) -> Environment {
        let (kernel, cpu, cores) = machine();
        let line = |pid| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words =
            without_passwords(self.pid().map(line).unwrap_or_default().split('\0').map(str::to_string));
        let server = server_name(&self.info().unwrap_or_default());
        Environment { kernel, cpu, cores, server, server_command_line: words.join(" ").trim().into() }
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
        let at = Instant::now();
        let none = Usage { at, user_s: 0.0, system_s: 0.0, resident_bytes: 0, used_bytes: 0 };
        self.nodes.iter().map(Metered::read).try_fold(none, |sum, usage| {
            let usage = usage?;
            Some(Usage {
                at: usage.at,
                user_s: sum.user_s + usage.user_s,
                system_s: sum.system_s + usage.system_s,
                resident_bytes: sum.resident_bytes + usage.resident_bytes,
                used_bytes: sum.used_bytes + usage.used_bytes,
            })
        })
    }

    /// Asks no more questions: the server has stopped answering.
    pub fn give_up(&self) {
        self.nodes.iter().for_each(|node| node.is_silent.store(true, Ordering::Relaxed));
    }

    /// The cost of a run between two readings.
    pub fn cost(&self, before: Usage, after: Usage, result: &crate::engine::RunResult) -> Cost {
        let requests = (result.requests() + result.errors()).max(1) as f64;
        let (user, system) = (after.user_s - before.user_s, after.system_s - before.system_s);
        let client = result.client_cpu.0 + result.client_cpu.1;
        Cost {
            user_us: user * 1e6 / requests,
            system_us: system * 1e6 / requests,
            // The readings are further apart than the measured time: replies are waited for after it.
            cores: (user + system) / after.at.saturating_duration_since(before.at).as_secs_f64().max(1e-9),
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
        self.ask(&["INFO"])
    }

    /// The reply to a question about the server; none if it does not answer, now or before.
    fn ask(&self, question: &[&str]) -> Option<String> {
        if self.is_silent.load(Ordering::Relaxed) {
            return None;
        }
        let answer =
            target::control(&self.target).and_then(|mut c| c.text(question).map_err(|e| e.to_string()));
        self.is_silent.store(answer.is_err(), Ordering::Relaxed);
        answer.ok()?
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
                at: Instant::now(),
                user_s,
                system_s,
                resident_bytes: process_bytes(pid, "VmRSS:"),
                used_bytes,
            });
        }
        Some(Usage {
            at: Instant::now(),
            user_s: number("used_cpu_user")?,
            system_s: number("used_cpu_sys")?,
            resident_bytes: number("used_memory_rss").unwrap_or(0.0) as u64,
            used_bytes,
        })
    }

    /// The server's process, if it runs here: what INFO says, else the owner of the listening socket.
    fn local_pid(&self) -> Option<u32> {
        let address = &self.target.nodes.first()?.address;
        if !address.is_local() {
            return None;
        }
        let info = self.ask(&["INFO", "server"]);
        let told =
            info.as_deref().and_then(|i| info_field(i, "process_id")).and_then(|p| p.parse::<u32>().ok());
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
}
