//! A round on real servers: its steps are sent in order, and in between clients of their own ask whether the
//! processes still answer.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use martlet_client::blocking::{Client, is_closed};
use martlet_client::resp::encode_request;

use super::plan::{CONNECTIONS, Plan, Profile, Step};
use super::{sequence, setup};
use crate::server::Server;

/// A step's answer is waited for as long; what takes longer waits for something.
const STEP_WAIT: Duration = Duration::from_millis(4);
/// How long answers are waited for at the end.
const SETTLE_WAIT: Duration = Duration::from_millis(500);
/// Longest answer that is read; a connection with a longer one is closed.
const READ_MAX: usize = 32 << 20;
/// Steps between two looks at the servers.
const STEPS_PER_LOOK: usize = 16;
/// Clients that ask each server: more than it has threads, so that each of them is asked.
const PROBES: usize = 3;
/// Lines of a log in a finding.
const EXCERPT_LINES: usize = 60;
/// How long a process that has closed its connections may take to end, with its report.
const END_WAIT: Duration = Duration::from_secs(25);

/// When an answer is late.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Processor time that the server may use before it answers.
    pub cpu: Duration,
    /// Time in which it must answer even where it gets no processor.
    pub wall: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { cpu: Duration::from_secs(2), wall: Duration::from_secs(60) }
    }
}

/// A failure of a server.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its identity: the place of the panic, or the missing answer.
    pub place: String,
    /// The end of the server's log.
    pub log: String,
    /// How many steps had been sent.
    pub sent: usize,
}

impl Finding {
    /// The place without numbers, which differ from time to time.
    pub fn kind(&self) -> String {
        self.place.chars().filter(|char| !char.is_ascii_digit()).collect()
    }

    /// The finding with all that reproduces it.
    pub fn text(&self, seed: u64, shortest: &Plan) -> String {
        format!(
            "FINDING seed {seed}: {}\nafter {} steps; the shortest sequence that showed it:\n{}the log's end:\n{}\n",
            self.place,
            self.sent,
            sequence::write(shortest),
            self.log
        )
    }
}

/// Servers, with the connections to them.
pub struct Trial {
    servers: Vec<Server>,
    probes: Vec<Option<Client>>,
    connections: Vec<Option<TcpStream>>,
    /// Requests that leave with the connection's next one.
    joined: Vec<Vec<u8>>,
    limits: Limits,
    /// Connections whose last request has had no answer yet.
    unanswered: Vec<bool>,
    /// Steps that were answered with an error.
    refused: usize,
}

impl Trial {
    /// Starts and fills them.
    ///
    /// # Errors
    /// When a server does not start.
    pub fn start(program: &Path, profile: &Profile, limits: Limits) -> io::Result<Trial> {
        let first = Server::start(program, &profile.arguments())?;
        let mut trial = Trial {
            servers: vec![first],
            probes: Vec::new(),
            connections: (0..CONNECTIONS).map(|_| None).collect(),
            joined: vec![Vec::new(); CONNECTIONS],
            unanswered: vec![false; CONNECTIONS],
            limits,
            refused: 0,
        };
        if profile.replica {
            let second = Server::start(program, &profile.arguments())?;
            let mut client = Client::connect(second.address())?;
            let port = trial.servers[0].address().port().to_string();
            // In a cluster's node this is refused: then there are two primaries.
            client.command(&["REPLICAOF", "127.0.0.1", &port])?;
            client.command(&["CONFIG", "SET", "replica-read-only", "no"])?;
            trial.servers.push(second);
        }
        for server in &trial.servers {
            for _ in 0..PROBES {
                trial.probes.push(Some(Client::connect(server.address())?));
            }
        }
        setup::fill(trial.client(), profile.cluster)?;
        Ok(trial)
    }

    /// A client of the first server.
    pub fn client(&mut self) -> &mut Client {
        self.probes[0].as_mut().expect("a client that has just connected")
    }

    fn address(&self, connection: usize) -> SocketAddr {
        self.servers[connection % self.servers.len()].address()
    }

    fn connect(&mut self, connection: usize) -> io::Result<&mut TcpStream> {
        if self.connections[connection].is_none() {
            let stream = TcpStream::connect_timeout(&self.address(connection), self.limits.wall)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(STEP_WAIT))?;
            stream.set_write_timeout(Some(Duration::from_millis(200)))?;
            self.connections[connection] = Some(stream);
        }
        self.connections[connection].as_mut().ok_or_else(|| io::Error::other("no connection"))
    }

    /// Sends a step. A broken connection is dropped; the next step on it opens another.
    fn send(&mut self, step: &Step) {
        let number = step.connection;
        self.unanswered[number] = false;
        if step.words.is_empty() {
            self.connections[number] = None;
            self.joined[number].clear();
            return;
        }
        encode_request(&step.words, &mut self.joined[number]);
        if step.joins {
            return;
        }
        let bytes = std::mem::take(&mut self.joined[number]);
        let exchange = self.connect(number).and_then(|stream| {
            stream.write_all(&bytes)?;
            drain(stream)
        });
        match exchange {
            Ok(answer) => {
                self.unanswered[number] = answer.is_none();
                self.refused += usize::from(answer == Some(true));
            }
            Err(_) => self.connections[number] = None,
        }
    }

    /// Waits until the server has run what it was sent: a busy machine may not have come to it when other
    /// connections are answered. Requests that wait for something (BLPOP) are given up after [`SETTLE_WAIT`].
    fn settle(&mut self) {
        let until = Instant::now() + SETTLE_WAIT;
        for (stream, unanswered) in self.connections.iter_mut().zip(&mut self.unanswered) {
            let left = until.saturating_duration_since(Instant::now());
            let (Some(stream), true, false) = (stream, std::mem::take(unanswered), left.is_zero()) else {
                continue;
            };
            if stream.set_read_timeout(Some(left)).is_ok() {
                let _ = stream.read(&mut [0; 1]);
                let _ = stream.set_read_timeout(Some(STEP_WAIT));
            }
        }
    }

    /// Sends PING to each server on several connections; a description of the failure if one is not answered.
    fn look(&mut self) -> Option<String> {
        for (server, probes) in self.servers.iter_mut().zip(self.probes.chunks_mut(PROBES)) {
            for probe in probes {
                let place = ask(server, probe, self.limits);
                if place.is_some() {
                    return place;
                }
            }
        }
        self.servers.iter().find_map(|server| cause_in(&server.log()))
    }

    /// The end of the log of the server that has died, or of the first.
    fn log(&mut self) -> String {
        let failed = |server: &mut Server| server.has_exited() || cause_in(&server.log()).is_some();
        let at = self.servers.iter_mut().position(failed).unwrap_or(0);
        self.servers[at].log()
    }
}

/// Reads the available answers; whether the first is an error, if there is one.
fn drain(stream: &mut TcpStream) -> io::Result<Option<bool>> {
    let mut buffer = vec![0; 64 << 10];
    let (mut total, mut is_error) = (0, false);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                is_error |= total == 0 && buffer[0] == b'-';
                if len < buffer.len() {
                    return Ok(Some(is_error));
                }
                total += len;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok((total > 0).then_some(is_error));
            }
            Err(error) => return Err(error),
        }
        if total > READ_MAX {
            return Err(io::Error::other("a long answer"));
        }
    }
}

/// Sends PING to a server on one connection, which is opened again where the server has closed it; a
/// description of the failure if there is no answer.
fn ask(server: &mut Server, probe: &mut Option<Client>, limits: Limits) -> Option<String> {
    let (began, cpu_before) = (Instant::now(), cpu_time(server.pid()));
    let mut last;
    let mut waits = false;
    loop {
        let result = match probe {
            Some(client) if waits => client.read_reply().map(drop),
            Some(client) => client.send(&["PING"]).and_then(|()| {
                client.set_timeout(Duration::from_millis(200));
                client.read_reply().map(drop)
            }),
            None => match Client::connect_within(server.address(), limits.wall) {
                Ok(client) => {
                    *probe = Some(client);
                    waits = false;
                    continue;
                }
                Err(error) => Err(error),
            },
        };
        match result {
            Ok(()) => return None,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                waits = true;
                last = "no answer".into();
            }
            // A client that was closed has been answered, if another can connect.
            Err(error) => {
                last = error.to_string();
                *probe = None;
                if is_closed(&error) || error.kind() == io::ErrorKind::ConnectionRefused {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
        if server.has_exited() {
            return Some(place_of(&server.log()));
        }
        let (wall, cpu) = (began.elapsed(), cpu_time(server.pid()).saturating_sub(cpu_before));
        if wall > limits.wall || cpu > limits.cpu {
            // A crash report takes its time.
            let until = Instant::now() + if last == "no answer" { Duration::ZERO } else { END_WAIT };
            while Instant::now() < until && !server.has_exited() {
                std::thread::sleep(Duration::from_millis(20));
            }
            return Some(match server.has_exited() {
                true => place_of(&server.log()),
                false => format!("{last} for {} ms, {} ms of CPU", wall.as_millis(), cpu.as_millis()),
            });
        }
    }
}

/// The processor time of a process so far; nothing where that cannot be read.
fn cpu_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// The line of a log that names the cause of a crash, or a contained panic.
fn cause_in(log: &str) -> Option<String> {
    const CAUSES: [&str; 5] =
        ["Guru Meditation", "==> ", "crashed by signal", "has overflowed its stack", "out of memory"];
    let line = log.lines().find(|line| CAUSES.iter().any(|cause| line.contains(cause)))?;
    let begin = CAUSES.iter().find_map(|cause| line.find(cause)).unwrap_or(0);
    Some(line[begin..].trim().to_owned())
}

fn place_of(log: &str) -> String {
    let last = || log.lines().last().unwrap_or_default().to_owned();
    format!("the process ended: {}", cause_in(log).unwrap_or_else(last))
}

/// The lines of a log from the cause on that say where it was.
fn excerpt(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let is_report = |line: &&str| line.contains("BUG REPORT START");
    let from = lines.iter().position(is_report).unwrap_or(lines.len().saturating_sub(EXCERPT_LINES));
    let is_shown = |line: &&&str| !line.starts_with("0x") || line.contains("martlet");
    let shown = lines[from..].iter().filter(is_shown).take(EXCERPT_LINES);
    shown.map(|line| line.chars().take(200).chain(['\n']).collect::<String>()).collect()
}

/// A round that has run.
pub struct Ran {
    /// The finding, if there is one.
    pub finding: Option<Finding>,
    /// How many steps were answered with an error.
    pub refused: usize,
}

/// Runs a plan on fresh servers.
///
/// # Errors
/// When a server does not start.
pub fn run(program: &Path, plan: &Plan, limits: Limits) -> io::Result<Ran> {
    let mut trial = Trial::start(program, &plan.profile, limits)?;
    for (number, step) in plan.steps.iter().enumerate() {
        trial.send(step);
        let is_last = number + 1 == plan.steps.len();
        if !is_last && (number + 1) % STEPS_PER_LOOK != 0 {
            continue;
        }
        if is_last {
            trial.settle();
        }
        if let Some(place) = trial.look() {
            let log = excerpt(&trial.log());
            let finding = Some(Finding { place, log, sent: number + 1 });
            return Ok(Ran { finding, refused: trial.refused });
        }
    }
    Ok(Ran { finding: None, refused: trial.refused })
}
