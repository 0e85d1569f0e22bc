//! A server process for the length of a test: started on a free port, in its own directory, killed when
//! dropped.

use martlet_client::blocking::Client;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take until it answers PING.
const START_LIMIT: Duration = Duration::from_secs(120);
/// How long a line of the log is waited for.
const LOG_LIMIT: Duration = Duration::from_secs(10);

/// What has all of a Martlet's threads serve, for tests that say how many there are: its load would hardly
/// ever need the second.
fn active_threads(arguments: &[impl AsRef<OsStr>]) -> Vec<&OsStr> {
    let words: Vec<&OsStr> = arguments.iter().map(AsRef::as_ref).collect();
    let of = |name: &str| words.iter().position(|word| *word == name);
    let is_martlet = words.first().is_some_and(|word| *word == "server");
    match of("--io-threads").and_then(|at| words.get(at + 1)) {
        Some(threads) if is_martlet && of("--martlet-active-threads").is_none() => {
            vec![OsStr::new("--martlet-active-threads"), threads]
        }
        _ => Vec::new(),
    }
}

/// A running server; dropping it kills the process and removes its directory.
pub struct Server {
    child: Child,
    port: ReservedPort,
    log: PathBuf,
    /// Removed with the server.
    _directory: Option<tempfile::TempDir>,
}

impl Server {
    /// Starts `program` with `arguments` followed by `--port`, `--dir` and `--save ""`, and waits until it
    /// answers.
    pub fn start(program: &Path, arguments: &[impl AsRef<OsStr>]) -> io::Result<Server> {
        let directory = tempfile::tempdir()?;
        let mut all: Vec<&OsStr> = arguments.iter().map(AsRef::as_ref).collect();
        all.extend(["--save", ""].map(OsStr::new));
        let mut server = Server::start_in(directory.path(), program, &all)?;
        server._directory = Some(directory);
        Ok(server)
    }

    /// Starts `program` with `arguments` followed by `--port` and `--dir` in a directory that outlives it,
    /// and waits until it answers.
    pub fn start_in(directory: &Path, program: &Path, arguments: &[impl AsRef<OsStr>]) -> io::Result<Server> {
        let mut started = Server::start_at(ReservedPort::take()?, directory, program, arguments);
        for _ in 0..PORTS_TRIED {
            match &started {
                Err(error) if error.to_string().contains(PORT_IN_USE) => {}
                _ => break,
            }
            started = Server::start_at(ReservedPort::take()?, directory, program, arguments);
        }
        started
    }

    /// Kills the process, if it still runs, and starts another at the same port.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn restart_in(
        mut self,
        directory: &Path,
        program: &Path,
        arguments: &[impl AsRef<OsStr>],
    ) -> io::Result<Server> {
        self.kill();
        let port = std::mem::replace(&mut self.port, ReservedPort::take()?);
        Server::start_at(port, directory, program, arguments)
    }

    /// Kills the process; the server's port and directory stay.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn start_at(
        port: ReservedPort,
        directory: &Path,
        program: &Path,
        arguments: &[impl AsRef<OsStr>],
    ) -> io::Result<Server> {
        let path = directory.join("server.log");
        let log = std::fs::File::create(&path)?;
        let child = Command::new(program)
            .args(arguments)
            .args(active_threads(arguments))
            .args(["--port", &port.number().to_string(), "--dir"])
            .arg(directory)
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log)
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))?;
        let mut server = Server { child, port, log: path, _directory: None };
        server.await_ready()?;
        Ok(server)
    }

    /// Waits until the process has ended on its own: whether it did so in order.
    pub fn wait(mut self) -> io::Result<bool> {
        Ok(self.child.wait()?.success())
    }

    /// Waits until the process has ended on its own: its status, and its output.
    pub fn end(mut self) -> io::Result<(ExitStatus, String)> {
        Ok((self.child.wait()?, self.log()))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.number()))
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard output and error so far.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How often its output has `text`, once that is at least `times`, or after some seconds. A line is
    /// written by a thread of its own: it may come after the reply to the request that logs it.
    pub fn logged(&self, text: &str, times: usize) -> usize {
        let deadline = Instant::now() + LOG_LIMIT;
        loop {
            let count = self.log().matches(text).count();
            if count >= times || Instant::now() > deadline {
                return count;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether the process has ended on its own.
    pub fn has_exited(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    fn await_ready(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if let Ok(mut client) = Client::connect(self.address())
                && client.command(&["PING"]).is_ok_and(|reply| !reply.is_error())
            {
                // CLIENT LIST then shows only the test's own connections.
                client.command(&["QUIT"])?;
                return client.read_to_end().map(drop);
            }
            if self.has_exited() || Instant::now() > deadline {
                return Err(io::Error::other(format!(
                    "the server does not answer; it said:\n{}",
                    self.log()
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Further ports that a server is started at.
const PORTS_TRIED: usize = 3;
/// The words of a server whose port has another listener.
const PORT_IN_USE: &str = "Address already in use";

/// A TCP port that the system gives to no other process while this exists, but for a listener with
/// SO_REUSEADDR that takes any port, rarely. Connections to it are refused until a server listens there.
pub struct ReservedPort {
    /// Bound, and not listening: so others may bind to it by its number, with SO_REUSEADDR as servers have
    /// it.
    _socket: OwnedFd,
    number: u16,
}

impl ReservedPort {
    /// Takes one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take() -> io::Result<ReservedPort> {
        let socket =
            rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let address = SocketAddrV4::try_from(rustix::net::getsockname(&socket)?)?;
        Ok(ReservedPort { _socket: socket, number: address.port() })
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

/// How long the threads of a process may take until a stop signal holds them.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// Between two looks at them.
const STOP_LOOK: Duration = Duration::from_millis(1);

/// Stops a process, and returns once none of its threads runs: on a busy machine the signal takes effect
/// late, and a request sent after it would still be served.
///
/// # Errors
/// There is no such process, or its threads keep running.
pub fn stop(process: Pid) -> io::Result<()> {
    kill_process(process, Signal::STOP)?;
    let deadline = Instant::now() + STOP_LIMIT;
    while !stands_still(process)? {
        if Instant::now() > deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(STOP_LOOK);
    }
    Ok(())
}

/// Whether the kernel has stopped each thread of a process (proc_pid_stat(5): the state is `T`).
fn stands_still(process: Pid) -> io::Result<bool> {
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        // A thread that has ended since is none that runs.
        let Ok(stat) = std::fs::read_to_string(thread?.path().join("stat")) else { continue };
        let state = stat.rsplit_once(") ").and_then(|(_, fields)| fields.chars().next());
        if state != Some('T') {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_process_stands_still_until_it_is_continued() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("sleep");
        let process = Pid::from_child(&child);
        assert!(!stands_still(process).expect("it runs"));
        stop(process).expect("it stops");
        assert!(stands_still(process).expect("it is there"));
        kill_process(process, Signal::CONT).expect("continued");
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert!(stop(process).is_err());
    }
}
