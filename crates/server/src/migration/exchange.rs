//! The network's part of MIGRATE: portions of requests sent to another server, and its answers.
//!
//! It runs on separate threads, which know no keys, hold no lock of the keyspace and are not inside the gate.
//! However long the other server takes, only clients that need its answer wait.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use martlet_base::sync::lock;
use martlet_client::blocking::Client;
use martlet_client::resp::{Reply as Answer, encode_request};
use martlet_command::Error;
use martlet_tls::TlsSettings;

use crate::network_threads::NetworkThreads;
use crate::outgoing;

/// Connections that are kept, and for how long, in milliseconds (Redis: `MIGRATE_SOCKET_CACHE_ITEMS`,
/// `_TTL`).
const KEPT_MAX: usize = 64;
const KEPT_MS: i64 = 10_000;
/// Of an answer, no more than this is taken in: it is a line.
const ANSWER_MAX_BYTES: usize = 64 * 1024;

pub(super) const NO_CONNECTION: Error = Error::Fixed("IOERR error or timeout connecting to the client");
const NOT_SENT: Error = Error::Fixed("IOERR error or timeout writing to target instance");
const NO_ANSWER: Error = Error::Fixed("IOERR error or timeout reading to target instance");

/// Where keys go.
pub struct Destination {
    /// The host, as the client named it.
    pub host: Vec<u8>,
    /// The port.
    pub port: Vec<u8>,
    /// The database there.
    pub db: i64,
    /// Bounds each step of connecting, sending and receiving.
    pub timeout: Duration,
    /// AUTH's arguments; none if it is not sent.
    pub credentials: Vec<Vec<u8>>,
    /// For TLS, as `tls-cluster` asks for it.
    pub tls: Option<TlsSettings>,
}

/// A connection to another server.
pub struct Target {
    host: Vec<u8>,
    port: Vec<u8>,
    client: Client,
    /// The database that was selected last.
    db: i64,
    used_ms: i64,
}

/// Connections that may be used again.
#[derive(Default)]
pub struct KeptTargets(Mutex<Vec<Target>>);

impl KeptTargets {
    /// How many there are.
    pub fn count(&self) -> usize {
        lock(&self.0).len()
    }

    /// Closes those that have been unused for a while.
    pub fn close_old(&self, now_ms: i64) {
        lock(&self.0).retain(|target| now_ms - target.used_ms < KEPT_MS);
    }

    fn take(&self, to: &Destination) -> Option<Target> {
        let mut all = lock(&self.0);
        let at = all.iter().position(|target| target.serves(to))?;
        Some(all.swap_remove(at))
    }

    /// Keeps a connection on which nothing is under way.
    pub fn keep(&self, mut target: Target, now_ms: i64) {
        target.used_ms = now_ms;
        let mut all = lock(&self.0);
        if all.len() >= KEPT_MAX {
            all.swap_remove(0);
        }
        all.push(target);
    }
}

/// Why there are no more answers.
enum Failure {
    /// The connection was closed.
    Closed(Error),
    /// No answer in time, or none that is one.
    Broken(Error),
    /// The other server's own words.
    Refused(Error),
}

impl Failure {
    fn of(error: &io::Error, what: Error) -> Failure {
        match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::InvalidData => Failure::Broken(what),
            _ => Failure::Closed(what),
        }
    }
}

impl Target {
    fn connect(to: &Destination) -> Result<Target, Failure> {
        let text = |bytes| std::str::from_utf8(bytes).ok();
        let address = text(&to.host).zip(text(&to.port).and_then(|port| port.parse::<u16>().ok()));
        let address = address.ok_or(Failure::Broken(NO_CONNECTION))?;
        let mut client = outgoing::client(address, to.timeout, to.tls.as_ref())
            .map_err(|_| Failure::Broken(NO_CONNECTION))?;
        client.limit_replies(ANSWER_MAX_BYTES);
        // A new connection is in database 0.
        Ok(Target { host: to.host.clone(), port: to.port.clone(), client, db: 0, used_ms: 0 })
    }

    fn serves(&self, to: &Destination) -> bool {
        (&self.host, &self.port) == (&to.host, &to.port) && self.client.is_secure() == to.tls.is_some()
    }

    fn send(&mut self, requests: &[u8]) -> Result<(), Failure> {
        self.client.send_raw(requests).map_err(|error| Failure::of(&error, NOT_SENT))
    }

    /// Whether the other server has carried out the request of the next answer, or its error.
    fn answer(&mut self) -> Result<(), Failure> {
        match self.client.read_reply() {
            Ok(Answer::Error(text)) => {
                let text = String::from_utf8_lossy(&text);
                let text = format!("ERR Target instance replied with error: {text}");
                Err(Failure::Refused(Error::Text(text)))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::of(&error, NO_ANSWER)),
        }
    }

    /// Makes the connection ready for keys.
    fn prepare(&mut self, to: &Destination) -> Result<(), Failure> {
        self.client.limit_steps(to.timeout).map_err(|error| Failure::of(&error, NOT_SENT))?;
        if !to.credentials.is_empty() {
            let words = [b"AUTH".as_slice()].into_iter().chain(to.credentials.iter().map(Vec::as_slice));
            self.ask(&words.collect::<Vec<_>>())?;
        }
        if self.db != to.db {
            self.ask(&[b"SELECT".as_slice(), to.db.to_string().as_bytes()])?;
            self.db = to.db;
        }
        Ok(())
    }

    fn ask(&mut self, words: &[&[u8]]) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        encode_request(words, &mut bytes);
        self.send(&bytes)?;
        self.answer()
    }
}

/// A portion of requests for another server.
pub struct Exchange {
    /// Which server.
    pub destination: Arc<Destination>,
    /// The connection on which the portion before this one went; `None` for the first.
    pub target: Option<Target>,
    /// The requests.
    pub portion: Vec<u8>,
    /// How many they are.
    pub requests: usize,
}

/// What became of an [`Exchange`].
#[derive(Default)]
pub struct Answers {
    /// For each request that was answered, in order: it was done, or refused with this error.
    pub each: Vec<Result<(), Error>>,
    /// Why the others were not answered, if there are any.
    pub failure: Option<Error>,
    /// The connection, unless something is under way on it still.
    pub target: Option<Target>,
}

impl Exchange {
    /// Sends the requests and waits for all answers, or for the first that does not come.
    fn run(mut self, kept: &KeptTargets) -> Answers {
        let mut answers = Answers::default();
        loop {
            let old = self.target.is_none().then(|| kept.take(&self.destination)).flatten();
            let is_old = old.is_some();
            let ended = self.run_on(old, &mut answers);
            match ended {
                // The other side may have closed since it was kept.
                Err(Failure::Closed(_)) if is_old && answers.each.is_empty() => continue,
                Err(Failure::Closed(error) | Failure::Broken(error) | Failure::Refused(error)) => {
                    answers.failure = Some(error);
                }
                Ok(()) => {}
            }
            return answers;
        }
    }

    fn run_on(&mut self, old: Option<Target>, answers: &mut Answers) -> Result<(), Failure> {
        let mut target = match self.target.take() {
            Some(target) => target,
            None => {
                let mut target = old.map_or_else(|| Target::connect(&self.destination), Ok)?;
                let ready = target.prepare(&self.destination);
                if let Err(Failure::Refused(_)) = ready {
                    answers.target = Some(target);
                    return ready;
                }
                ready?;
                target
            }
        };
        target.send(&self.portion)?;
        for _ in 0..self.requests {
            match target.answer() {
                Err(Failure::Refused(error)) => answers.each.push(Err(error)),
                answer => answers.each.push(Ok(answer?)),
            }
        }
        answers.target = Some(target);
        Ok(())
    }
}

/// The threads that run exchanges.
#[derive(Default)]
pub struct Exchangers(NetworkThreads);

impl Exchangers {
    /// Runs an exchange on one of the threads, which then calls `done`; if there is no thread and none can be
    /// had, `done` is called at once, with a failure.
    pub fn run(
        &'static self,
        exchange: Exchange,
        kept: &'static KeptTargets,
        done: impl FnOnce(Answers) + Send + 'static,
    ) {
        self.0.run("migrate", move |has_thread| {
            done(match has_thread {
                true => exchange.run(kept),
                false => Answers { failure: Some(NO_CONNECTION), ..Answers::default() },
            });
        });
    }
}
