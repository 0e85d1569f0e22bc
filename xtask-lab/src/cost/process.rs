//! A server under measurement: where it runs, what CPU time it has used, what memory it holds.

use martlet_client::blocking::Client;
use martlet_testkit::server::Server;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

/// Ticks per second of the times in /proc; Linux fixes it for user space.
const TICKS_PER_SECOND: u64 = 100;

/// A server pinned to one core.
pub struct Measured {
    server: Server,
    /// `peer` or `ours`.
    pub name: &'static str,
}

/// CPU time by both of the kernel's accounts.
#[derive(Clone, Copy)]
pub struct CpuTime {
    /// Time on a core, from each thread's schedstat.
    pub on_core_ns: u64,
    /// User and system time of the process, in steps of a tick.
    pub stat_ns: u64,
}

impl Measured {
    /// Starts a server on `core`.
    pub fn start(
        name: &'static str,
        program: &Path,
        arguments: &[&str],
        core: usize,
    ) -> Result<Measured, Box<dyn Error>> {
        let core = core.to_string();
        let program = program.to_string_lossy().into_owned();
        let mut line = vec!["-c", &core, &program];
        line.extend_from_slice(arguments);
        Ok(Measured { server: Server::start(Path::new("taskset"), &line)?, name })
    }

    /// Starts a server on any core, in a directory that outlives it.
    pub fn start_in(
        name: &'static str,
        program: &Path,
        arguments: &[&str],
        directory: &Path,
    ) -> Result<Measured, Box<dyn Error>> {
        Ok(Measured { server: Server::start_in(directory, program, arguments)?, name })
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        self.server.log()
    }

    /// Where it listens.
    pub fn address(&self) -> std::net::SocketAddr {
        self.server.address()
    }

    /// A connection for the measuring side's own requests.
    pub fn client(&self) -> Result<Client, Box<dyn Error>> {
        let mut client = Client::connect(self.address())?;
        client.set_timeout(Duration::from_secs(120));
        Ok(client)
    }

    /// CPU time since the start.
    pub fn cpu_time(&self) -> Result<CpuTime, Box<dyn Error>> {
        let pid = self.server.pid();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let after_name = stat.rsplit_once(')').ok_or("a process without its name")?.1;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let stat_ns = (ticks(11) + ticks(12)) * 1_000_000_000 / TICKS_PER_SECOND;
        let mut on_core_ns = 0;
        for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            let text = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            on_core_ns +=
                text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(CpuTime { on_core_ns, stat_ns })
    }

    /// The process' CPU clock in nanoseconds: all of its threads, those that have ended too, up to now.
    pub fn process_clock_ns(&self) -> Result<u64, Box<dyn Error>> {
        let mut clock: libc::clockid_t = 0;
        // SAFETY: the pointer is to a live variable, which the call writes.
        let failed = unsafe { libc::clock_getcpuclockid(self.server.pid().cast_signed(), &raw mut clock) };
        if failed != 0 {
            return Err(std::io::Error::from_raw_os_error(failed).into());
        }
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: as above.
        if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        Ok(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
    }

    /// Resident bytes.
    pub fn resident_bytes(&self) -> Result<u64, Box<dyn Error>> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kilobytes * 1024)
    }
}

impl Measured {
    /// Resident bytes, and those of other processes that it has started as far as they are not shared with
    /// it.
    pub fn resident_with_children(&self) -> Result<u64, Box<dyn Error>> {
        let pid = self.server.pid();
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let private = children.split_whitespace().filter_map(|child| {
            // The child may have ended since.
            let text = std::fs::read_to_string(format!("/proc/{child}/smaps_rollup")).ok()?;
            let lines = text.lines().filter(|line| line.starts_with("Private_"));
            let kilobytes = lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
            Some(kilobytes.sum::<u64>() * 1024)
        });
        Ok(self.resident_bytes()? + private.sum::<u64>())
    }
}

impl CpuTime {
    /// That of a process that has just started.
    pub const ZERO: CpuTime = CpuTime { on_core_ns: 0, stat_ns: 0 };

    /// The time between two readings, in nanoseconds: the finer account where the kernel keeps it.
    pub fn since(self, earlier: CpuTime) -> u64 {
        let fine = self.on_core_ns.saturating_sub(earlier.on_core_ns);
        if fine > 0 { fine } else { self.stat_ns.saturating_sub(earlier.stat_ns) }
    }
}

/// Pins this process, which is the load, to a core.
pub fn pin_load(core: usize) -> Result<(), Box<dyn Error>> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Lets this process and the servers that it starts open as many sockets as the system allows.
pub fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
