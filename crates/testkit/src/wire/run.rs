//! Runs cases against a server, and says precisely where a server differs.

use super::case::{Action, Case, CaseFile, Step, version_of};
use super::pattern::{Bindings, Pattern, Protocol, render};
use super::target::{Target, TargetKind};
use super::words;
use martlet_client::blocking::{Client, is_closed};
use martlet_client::resp::{Reply, encode_request};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

/// How long a polled reply or a blocked client may take to appear.
const POLL_LIMIT: Duration = Duration::from_secs(60);
/// Pause between polls.
const POLL_PAUSE: Duration = Duration::from_millis(2);
/// Requests longer than this are sent whole when a case is replayed in fragments.
const MOST_FRAGMENTED_BYTES: usize = 4096;

/// How requests reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Each in one write.
    Whole,
    /// A byte at a time.
    Fragments,
    /// All of a connection's requests in one write.
    OneWrite,
}

/// A reply that was not the expected one.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The case's name.
    pub case: String,
    /// `file:line`.
    pub place: String,
    /// The case, protocol and delivery.
    pub context: String,
    /// Expected and received.
    pub reason: String,
}

/// The findings of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// Replies that were as expected.
    pub passed: usize,
    /// Cases that are not for this server.
    pub skipped: usize,
    /// Cases that stopped at a difference.
    pub failures: Vec<Failure>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})\n    {}", self.place, self.context, self.reason.replace('\n', "\n    "))
    }
}

impl Target {
    /// Reads the server's product and version from its INFO.
    pub fn probe(address: SocketAddr) -> io::Result<Target> {
        let mut client = Client::connect(address)?;
        let mut info = |section| {
            let info = client.command(&["INFO", section])?;
            io::Result::Ok(String::from_utf8_lossy(info.text().unwrap_or_default()).into_owned())
        };
        let (info, modules) = (info("server")?, info("modules")?);
        let name = |line: &str| line.strip_prefix("module:name=")?.split(',').next().map(str::to_owned);
        let modules = modules.lines().filter_map(name).collect();
        let field = |name: &str| {
            info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let version = |name| field(name).and_then(|text| version_of(text).ok()).unwrap_or((0, 0));
        let (kind, version) = match field("server_name") {
            Some("martlet") => (TargetKind::Martlet, version("martlet_version")),
            Some("valkey") => (TargetKind::Valkey, version("valkey_version")),
            _ => (TargetKind::Redis, version("redis_version")),
        };
        Ok(Target { kind, version, modules })
    }
}

/// Runs every case of a file in every protocol and delivery that it admits.
pub fn run_file(address: SocketAddr, target: &Target, file: &CaseFile) -> Report {
    let mut report = Report::default();
    for case in &file.cases {
        if !case.applies_to(target) {
            report.skipped += 1;
            continue;
        }
        for (protocol, delivery) in variants(case) {
            match run_case(address, case, protocol, delivery) {
                Ok(passed) => report.passed += passed,
                Err((line, reason)) => {
                    report.failures.push(Failure {
                        case: case.name.clone(),
                        place: format!("{}:{line}", file.path.display()),
                        context: format!("{}, {protocol:?}, {delivery:?}", case.name),
                        reason,
                    });
                    break;
                }
            }
        }
    }
    report
}

fn variants(case: &Case) -> Vec<(Protocol, Delivery)> {
    let protocols = match case.protocol {
        Some(protocol) => vec![protocol],
        None => vec![Protocol::Resp2, Protocol::Resp3],
    };
    let mut variants: Vec<_> = protocols.iter().map(|&protocol| (protocol, Delivery::Whole)).collect();
    if !case.serial && case.steps.iter().all(|step| step.connection == 1 && is_plain(&step.action)) {
        variants.push((protocols[0], Delivery::Fragments));
        variants.push((protocols[0], Delivery::OneWrite));
    }
    variants
}

/// Whether the statement means the same however requests are cut or joined.
fn is_plain(action: &Action) -> bool {
    match action {
        Action::Send(text) => !text.contains("${"),
        Action::Expect(pattern, _) => *pattern != Pattern::Eof,
        Action::SendRaw(_) | Action::ExpectRaw(_) => true,
        _ => false,
    }
}

/// Where and why a case stopped.
type Stop = (usize, String);

/// Runs one case; gives the number of expectations met, or the line and reason of the first that was not.
pub fn run_case(
    address: SocketAddr,
    case: &Case,
    protocol: Protocol,
    delivery: Delivery,
) -> Result<usize, (usize, String)> {
    let at_start = |error: io::Error| (case.line, format!("setting the case up: {error}"));
    let mut control = Client::connect(address).map_err(at_start)?;
    control.command(&["CLIENT", "UNPAUSE"]).map_err(at_start)?;
    control.command(&["FLUSHALL"]).map_err(at_start)?;
    let mut saved = Vec::new();
    for (name, value) in &case.config {
        let old = control.command(&["CONFIG", "GET", name]).map_err(at_start)?;
        let old =
            old.items().and_then(|items| items.get(1)).and_then(Reply::text).unwrap_or_default().to_vec();
        let set = control.command(&["CONFIG", "SET", name, value]).map_err(at_start)?;
        if set.is_error() {
            return Err((case.line, format!("CONFIG SET {name} {value}: {}", render(&set))));
        }
        saved.push((name, old));
    }
    let mut session = Session {
        address,
        protocol,
        control,
        connections: BTreeMap::new(),
        bindings: Bindings::new(),
        passed: 0,
    };
    let outcome = match delivery {
        Delivery::OneWrite => session.in_one_write(case),
        _ => session.step_by_step(case, delivery),
    };
    for (name, old) in saved {
        let _ = session.control.command(&[&b"CONFIG"[..], b"SET", name.as_bytes(), &old]);
    }
    let passed = session.end();
    outcome.map(|()| passed)
}

struct Connection {
    client: Client,
    sent: usize,
    received: usize,
    /// Raw bytes were sent, or the connection ended: its further replies are unknown.
    opaque: bool,
}

struct Session {
    address: SocketAddr,
    protocol: Protocol,
    control: Client,
    connections: BTreeMap<usize, Connection>,
    bindings: Bindings,
    passed: usize,
}

impl Session {
    /// Waits until the server has noticed the end of all connections, so that the next case finds none of
    /// them; the expectations met.
    fn end(self) -> usize {
        let connections = self.connections.into_values().map(|connection| connection.client);
        for mut client in connections.chain([self.control]) {
            // One that has ended already is as good.
            let _ = client.stream().shutdown(Shutdown::Write);
            let _ = client.read_to_end();
        }
        self.passed
    }

    fn connection(&mut self, number: usize) -> io::Result<&mut Connection> {
        if !self.connections.contains_key(&number) {
            let mut client = Client::connect(self.address)?;
            if self.protocol == Protocol::Resp3 {
                client.command(&["HELLO", "3"])?;
            }
            self.connections.insert(number, Connection { client, sent: 0, received: 0, opaque: false });
        }
        self.connections.get_mut(&number).ok_or_else(|| io::Error::other("no such connection"))
    }

    fn step_by_step(&mut self, case: &Case, delivery: Delivery) -> Result<(), Stop> {
        let mut steps = case.steps.iter().peekable();
        while let Some(step) = steps.next() {
            if let Action::Poll(text) = &step.action {
                let expected = steps.next().ok_or((step.line, "a poll without its reply".to_string()))?;
                self.poll(step, text, expected)?;
            } else {
                self.step(step, delivery).map_err(|reason| (step.line, reason))?;
            }
        }
        self.nothing_left(case)
    }

    fn step(&mut self, step: &Step, delivery: Delivery) -> Result<(), String> {
        let text_of = |error: io::Error| error.to_string();
        match &step.action {
            Action::Send(_) | Action::SendRaw(_) => {
                let request = self.request(&step.action)?;
                let connection = self.connection(step.connection).map_err(text_of)?;
                connection.sent += 1;
                connection.opaque |= matches!(step.action, Action::SendRaw(_));
                deliver(&mut connection.client, &request, delivery).map_err(text_of)
            }
            Action::Expect(pattern, only) => self
                .expect(step.connection, pattern, *only)
                .map_err(|reason| format!("expected {}\n{reason}", step.source)),
            Action::ExpectRaw(bytes) => self.expect_raw(step.connection, bytes),
            Action::Close => {
                self.connections.remove(&step.connection);
                Ok(())
            }
            Action::HalfClose => {
                let connection = self.connection(step.connection).map_err(text_of)?;
                connection.opaque = true;
                connection.client.stream().shutdown(std::net::Shutdown::Write).map_err(text_of)
            }
            Action::AwaitBlocked(count) => self.await_blocked(*count),
            Action::Poll(_) => Err("a poll cannot be a single step".into()),
        }
    }

    fn in_one_write(&mut self, case: &Case) -> Result<(), Stop> {
        let mut all = Vec::new();
        for step in &case.steps {
            if matches!(step.action, Action::Send(_) | Action::SendRaw(_)) {
                all.extend(self.request(&step.action).map_err(|reason| (step.line, reason))?);
            }
        }
        let connection = self.connection(1).map_err(|error| (case.line, error.to_string()))?;
        connection.opaque = true;
        connection.client.send_raw(&all).map_err(|error| (case.line, error.to_string()))?;
        for step in &case.steps {
            match &step.action {
                Action::Expect(pattern, only) => self
                    .expect(1, pattern, *only)
                    .map_err(|reason| format!("expected {}\n{reason}", step.source)),
                Action::ExpectRaw(bytes) => self.expect_raw(1, bytes),
                _ => Ok(()),
            }
            .map_err(|reason| (step.line, reason))?;
        }
        Ok(())
    }

    fn request(&self, action: &Action) -> Result<Vec<u8>, String> {
        let text = match action {
            Action::SendRaw(bytes) => return Ok(bytes.clone()),
            Action::Send(text) | Action::Poll(text) => text,
            _ => return Ok(Vec::new()),
        };
        let mut filled = text.clone();
        for (name, value) in &self.bindings {
            filled = filled.replace(&format!("${{{name}}}"), &words::escape(value));
        }
        let mut out = Vec::new();
        encode_request(&words::split(&filled)?, &mut out);
        Ok(out)
    }

    fn expect(&mut self, number: usize, pattern: &Pattern, only: Option<Protocol>) -> Result<(), String> {
        if only.is_some_and(|only| only != self.protocol) {
            return Ok(());
        }
        let protocol = self.protocol;
        let connection = self.connection(number).map_err(|error| error.to_string())?;
        if *pattern == Pattern::Eof {
            connection.opaque = true;
            return match connection.client.read_to_end() {
                Ok(left) if left.is_empty() => {
                    self.passed += 1;
                    Ok(())
                }
                Ok(left) => Err(format!("received {}", words::escape(&left))),
                Err(error) => Err(format!("received {error}")),
            };
        }
        let reply = connection.client.read_reply().map_err(|error| format!("received {error}"))?;
        connection.received += 1;
        if pattern.matches(&reply, protocol, &mut self.bindings) {
            self.passed += 1;
            Ok(())
        } else {
            Err(format!("received {}", render(&reply)))
        }
    }

    fn expect_raw(&mut self, number: usize, bytes: &[u8]) -> Result<(), String> {
        let connection = self.connection(number).map_err(|error| error.to_string())?;
        let got = connection.client.read_raw(bytes.len()).map_err(|error| error.to_string())?;
        if got == bytes {
            connection.received += 1;
            self.passed += 1;
            return Ok(());
        }
        Err(format!("expected {}\nreceived {}", words::escape(bytes), words::escape(&got)))
    }

    fn poll(&mut self, step: &Step, text: &str, expected: &Step) -> Result<(), Stop> {
        let deadline = Instant::now() + POLL_LIMIT;
        let Action::Expect(pattern, only) = &expected.action else {
            return Err((expected.line, "a poll needs a reply to wait for".into()));
        };
        loop {
            self.step(&Step { action: Action::Send(text.into()), ..step.clone() }, Delivery::Whole)
                .map_err(|reason| (step.line, reason))?;
            match self.expect(step.connection, pattern, *only) {
                Ok(()) => return Ok(()),
                Err(reason) if Instant::now() > deadline => {
                    return Err((expected.line, format!("expected {}\n{reason}", expected.source)));
                }
                Err(_) => std::thread::sleep(POLL_PAUSE),
            }
        }
    }

    fn await_blocked(&mut self, count: i64) -> Result<(), String> {
        let deadline = Instant::now() + POLL_LIMIT;
        loop {
            let info = self.control.command(&["INFO", "clients"]).map_err(|error| error.to_string())?;
            let info = String::from_utf8_lossy(info.text().unwrap_or_default()).into_owned();
            let blocked = info.lines().find_map(|line| line.strip_prefix("blocked_clients:"));
            if blocked.and_then(|text| text.trim().parse::<i64>().ok()) == Some(count) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("expected {count} blocked clients, INFO says {blocked:?}"));
            }
            std::thread::sleep(POLL_PAUSE);
        }
    }

    /// RESET is answered whatever state a connection is in; a reply before its own is unexpected.
    fn nothing_left(&mut self, case: &Case) -> Result<(), Stop> {
        for (number, connection) in &mut self.connections {
            if connection.opaque || case.unanswered {
                continue;
            }
            if connection.sent > connection.received {
                let (sent, received) = (connection.sent, connection.received);
                return Err((
                    case.line,
                    format!("connection {number} sent {sent} requests, expects {received} replies"),
                ));
            }
            let reply = connection.client.command(&["RESET"]);
            match reply {
                Ok(Reply::Simple(text)) if text == b"RESET" => {}
                Ok(reply) => {
                    return Err((
                        case.line,
                        format!("connection {number} received more: {}", render(&reply)),
                    ));
                }
                Err(error) if is_closed(&error) => {
                    return Err((case.line, format!("connection {number} was closed")));
                }
                Err(error) => return Err((case.line, format!("connection {number} at the end: {error}"))),
            }
        }
        Ok(())
    }
}

fn deliver(client: &mut Client, request: &[u8], delivery: Delivery) -> io::Result<()> {
    if delivery == Delivery::Fragments && request.len() <= MOST_FRAGMENTED_BYTES {
        return request.iter().try_for_each(|byte| client.send_raw(&[*byte]));
    }
    client.send_raw(request)
}
