//! The server is killed under load, and restarted on its files: everything that it promised is there, nothing
//! that was never requested is, and the data is that of one moment.
//!
//! `MARTLET_CRASH_ROUNDS` is the number of rounds, `MARTLET_CRASH_SEED` the seed of the first; each round has
//! its own. `./x crash` sets both. The moments of the kills are counted in replies, so that a seed gives the
//! same load, though threads interleave as they like.

mod client;
mod model;
mod observe;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use client::{Actor, PATIENCE, Watch, now_ms};
use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::{ReservedPort, Server};
use model::Value;

/// What `everysec` may lose, in milliseconds by the clients' clocks: a second, and some for getting there.
pub const LAG_MS: i64 = 1500;
/// Rounds when nothing else is said.
const ROUNDS: u64 = 4;
/// Items in the lists that clients share.
const ITEMS: u64 = 12;

/// Answered requests, and how many of them were not there after a crash, which `everysec` and a switched-off
/// file allow.
static ANSWERED: AtomicU64 = AtomicU64::new(0);
static LOST: AtomicU64 = AtomicU64::new(0);
static KILLS: AtomicU64 = AtomicU64::new(0);

/// Counts, for the line at the end.
pub fn note(answered: usize, lost: usize) {
    ANSWERED.fetch_add(answered as u64, Ordering::Relaxed);
    LOST.fetch_add(lost as u64, Ordering::Relaxed);
}

/// How a round's server is configured.
#[derive(Debug)]
struct Setting {
    always: bool,
    arguments: Vec<String>,
}

impl Setting {
    fn draw(random: &mut Random) -> Setting {
        let always = random.below(3) > 0;
        let mut one_of = |values: &[&str]| values[random.below(values.len() as u64) as usize].to_owned();
        let mut arguments: Vec<String> = Vec::new();
        for (name, value) in [
            ("--appendonly", "yes".to_owned()),
            ("--save", String::new()),
            ("--enable-debug-command", "yes".to_owned()),
            ("--appendfsync", if always { "always" } else { "everysec" }.to_owned()),
            ("--io-threads", one_of(&["1", "2", "3"])),
            ("--aof-use-rdb-preamble", one_of(&["yes", "yes", "no"])),
            ("--aof-timestamp-enabled", one_of(&["yes", "no"])),
            ("--no-appendfsync-on-rewrite", one_of(&["no", "no", "yes"])),
            ("--auto-aof-rewrite-min-size", one_of(&["64mb", "64mb", "20kb"])),
            ("--hz", one_of(&["10", "100"])),
        ] {
            arguments.extend([name.to_owned(), value]);
        }
        Setting { always, arguments }
    }

    fn start(&self, directory: &Path) -> Result<Server, String> {
        let mut all = vec!["server".to_owned()];
        all.extend(self.arguments.iter().cloned());
        let program = Path::new(env!("CARGO_BIN_EXE_martlet"));
        let server = Server::start_in(directory, program, &all).map_err(|error| error.to_string())?;
        for sign in ["commands of ", "failed:", "panicked", "Error ", "Fatal"] {
            if let Some(line) = server.log().lines().find(|line| line.contains(sign)) {
                return Err(format!("the log says: {line}"));
            }
        }
        Ok(server)
    }

    /// Starts a server and kills it while it loads, after this number of attempts to reach it.
    fn start_and_kill(&self, directory: &Path, attempts: u64) {
        let port = ReservedPort::take().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_martlet"))
            .arg("server")
            .args(&self.arguments)
            .args(["--port", &port.number().to_string(), "--dir"])
            .arg(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        for _ in 0..attempts {
            // Refused or not, it takes some time.
            let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
            if Client::connect(address).and_then(|mut client| client.command(&["PING"])).is_err() {
                std::thread::yield_now();
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        KILLS.fetch_add(1, Ordering::Relaxed);
    }
}

/// The event at some reply.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Rewrite,
    Save,
    Off,
    On,
    OnAndSettled,
    Everysec,
    Always,
    LogReload,
}

/// One life of a server: counts replies, and carries out due events.
struct Life {
    address: SocketAddr,
    server: Mutex<Option<Server>>,
    replies: AtomicU64,
    events: Mutex<VecDeque<(u64, Event)>>,
    /// After this number of replies it is killed.
    end: u64,
    is_on: AtomicBool,
    is_always: AtomicBool,
    killed_ms: AtomicU64,
    trouble: Mutex<Option<String>>,
}

impl Watch for Life {
    fn is_safe(&self) -> (bool, bool) {
        let is_on = self.is_on.load(Ordering::SeqCst);
        (is_on && self.is_always.load(Ordering::SeqCst), is_on)
    }

    fn replied(&self) {
        let count = self.replies.fetch_add(1, Ordering::SeqCst) + 1;
        if count == self.end {
            return self.kill();
        }
        // One after another, in their order, whichever clients they fall to; the kill may come in between.
        let Ok(mut events) = self.events.try_lock() else { return };
        if events.front().is_none_or(|(at, _)| *at > count) {
            return;
        }
        if let Some((_, event)) = events.pop_front()
            && let Err(error) = self.cause(event)
            && self.server.lock().unwrap().is_some()
        {
            *self.trouble.lock().unwrap() = Some(format!("{event:?}: {error}"));
        }
    }
}

impl Life {
    fn kill(&self) {
        // No further replies come after this.
        drop(self.server.lock().unwrap().take());
        self.killed_ms.store(now_ms() as u64, Ordering::SeqCst);
        KILLS.fetch_add(1, Ordering::Relaxed);
    }

    fn cause(&self, event: Event) -> std::io::Result<()> {
        let mut client = Client::connect(self.address)?;
        client.set_timeout(PATIENCE);
        let mut run = |line: &str| client.command(&line.split(' ').collect::<Vec<_>>());
        let good = |reply: Reply| match reply {
            Reply::Error(text) => Err(std::io::Error::other(String::from_utf8_lossy(&text).into_owned())),
            _ => Ok(()),
        };
        match event {
            // Another may be under way.
            Event::Rewrite => run("BGREWRITEAOF").map(drop),
            Event::Save => run("BGSAVE SCHEDULE").map(drop),
            Event::Off => {
                self.is_on.store(false, Ordering::SeqCst);
                good(run("CONFIG SET appendonly no")?)
            }
            Event::On => good(run("CONFIG SET appendonly yes")?),
            Event::OnAndSettled => {
                good(run("CONFIG SET appendonly yes")?)?;
                loop {
                    let info = run("INFO persistence")?;
                    let text = String::from_utf8_lossy(info.text().unwrap_or_default()).into_owned();
                    let has = |line: &str| text.lines().any(|other| other == line);
                    let idle = [
                        "aof_rewrite_in_progress:0",
                        "aof_rewrite_scheduled:0",
                        "aof_last_bgrewrite_status:ok",
                    ];
                    if has("aof_enabled:1") && idle.iter().all(|line| has(line)) {
                        break;
                    }
                }
                self.is_on.store(true, Ordering::SeqCst);
                Ok(())
            }
            Event::Everysec => {
                self.is_always.store(false, Ordering::SeqCst);
                good(run("CONFIG SET appendfsync everysec")?)
            }
            Event::Always => {
                good(run("CONFIG SET appendfsync always")?)?;
                self.is_always.store(true, Ordering::SeqCst);
                Ok(())
            }
            Event::LogReload => good(run("DEBUG LOADAOF")?),
        }
    }
}

/// The events of one life of `end` replies, by their count.
fn events(random: &mut Random, end: u64, always: bool) -> VecDeque<(u64, Event)> {
    let mut events = Vec::new();
    for _ in 0..random.below(4) {
        events.push((random.below(end), Event::Rewrite));
    }
    if random.below(2) == 0 {
        events.push((random.below(end), Event::Save));
    }
    if random.below(4) == 0 {
        let first = random.below(end);
        let second = first + random.below(end - first);
        events.push((first, Event::Off));
        events.push((second, if random.below(2) == 0 { Event::On } else { Event::OnAndSettled }));
    } else if random.below(4) == 0 {
        events.push((random.below(end), Event::LogReload));
    }
    if always && random.below(4) == 0 {
        let first = random.below(end);
        events.push((first, Event::Everysec));
        events.push((first + random.below(end - first), Event::Always));
    }
    events.sort_by_key(|event| event.0);
    events.into()
}

/// Reads a server's data, and has all clients find their states in it.
fn check(address: SocketAddr, actors: &mut [Actor], crash_ms: i64) -> Result<(), String> {
    let mut seen = observe::look(address);
    let seen_ms = now_ms();
    let mut transfers = 0;
    for actor in actors {
        let keys = seen.clients.remove(&actor.id).unwrap_or_default();
        actor.settle(&keys, crash_ms, seen_ms)?;
        if let Some((Value::Text(text), _)) = actor.keys.get("transfers") {
            transfers += text.parse::<i64>().unwrap_or(0);
        }
    }
    if !seen.clients.is_empty() {
        return Err(format!("keys of clients that there were not: {:?}", seen.clients));
    }
    observe::check_shared(&seen, transfers, ITEMS)
}

/// One life, from a server that has just been started and checked to its end; when that was.
fn live(server: Server, setting: &Setting, actors: &mut [Actor], random: &mut Random) -> Result<i64, String> {
    let most = [200, 2000, 6000][random.below(3) as usize];
    let end = 20 + random.below(most);
    let life = Life {
        address: server.address(),
        server: Mutex::new(Some(server)),
        replies: AtomicU64::new(0),
        events: Mutex::new(events(random, end, setting.always)),
        end,
        is_on: AtomicBool::new(true),
        is_always: AtomicBool::new(setting.always),
        killed_ms: AtomicU64::new(0),
        trouble: Mutex::new(None),
    };
    std::thread::scope(|scope| {
        for actor in actors.iter_mut() {
            scope.spawn(|| actor.run(life.address, &life));
        }
    });
    let killed_ms = life.killed_ms.load(Ordering::SeqCst);
    if killed_ms == 0 {
        let log = life.server.lock().unwrap().as_ref().map(Server::log);
        let left = life.events.lock().unwrap().clone();
        return Err(format!("the clients were left without a kill; to come: {left:?}; log: {log:?}"));
    }
    match life.trouble.lock().unwrap().take() {
        Some(trouble) => Err(trouble),
        None => Ok(killed_ms as i64),
    }
}

fn round(seed: u64, directory: &Path) -> Result<(), String> {
    let mut random = Random::seeded(seed);
    let setting = Setting::draw(&mut random);
    let mut actors: Vec<Actor> = (0..2 + random.below(5)).map(|id| Actor::new(seed, id)).collect();
    let mut server = setting.start(directory)?;
    let mut admin = Client::connect(server.address()).map_err(|error| error.to_string())?;
    observe::ask(&mut admin, &["CONFIG", "SET", "appendfsync", "always"]);
    observe::set_up(server.address(), ITEMS);
    if !setting.always {
        observe::ask(&mut admin, &["CONFIG", "SET", "appendfsync", "everysec"]);
    }
    for life in 0..1 + random.below(3) {
        let context = |error: String| format!("life {life} under {setting:?}: {error}");
        let crash_ms = live(server, &setting, &mut actors, &mut random).map_err(context)?;
        if random.below(3) == 0 {
            setting.start_and_kill(directory, random.below(60));
        }
        copy(directory, "crashed").map_err(|error| error.to_string())?;
        server = setting.start(directory).map_err(context)?;
        check(server.address(), &mut actors, crash_ms).map_err(context)?;
        if random.below(3) == 0 {
            let mut admin = Client::connect(server.address()).map_err(|error| error.to_string())?;
            observe::ask(&mut admin, &["DEBUG", "LOADAOF"]);
            let again = |error| context(format!("after DEBUG LOADAOF: {error}"));
            check(server.address(), &mut actors, crash_ms).map_err(again)?;
        }
    }
    Ok(())
}

/// Keeps the files after a crash, for the analysis of a failure.
fn copy(directory: &Path, name: &str) -> std::io::Result<()> {
    let copy = directory.join(name);
    let _ = std::fs::remove_dir_all(&copy);
    std::fs::create_dir(&copy)?;
    std::fs::copy(directory.join("server.log"), copy.join("server.log"))?;
    for entry in std::fs::read_dir(directory.join("appendonlydir"))? {
        let entry = entry?;
        std::fs::copy(entry.path(), copy.join(entry.file_name()))?;
    }
    Ok(())
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

#[test]
fn what_was_promised_is_there_after_a_kill() {
    let rounds = number("MARTLET_CRASH_ROUNDS").unwrap_or(ROUNDS);
    let first = number("MARTLET_CRASH_SEED").unwrap_or_else(|| Random::from_entropy().below(1 << 40));
    let mut failures = Vec::new();
    for seed in first..first.saturating_add(rounds) {
        let directory = tempfile::tempdir().unwrap();
        let failed = |error: String| {
            let error: String = error.chars().take(8000).collect();
            format!("MARTLET_CRASH_SEED={seed}: {error}")
        };
        let result = std::panic::catch_unwind(|| round(seed, directory.path()));
        let error = match result {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => failed(error),
            Err(_) => failed("panicked, as said above".into()),
        };
        println!("{error}\nthe files are left in {}", directory.keep().display());
        failures.push(seed);
    }
    println!(
        "{rounds} rounds from seed {first}: {} kills, {} requests answered, {} of them gone where that is allowed",
        KILLS.load(Ordering::Relaxed),
        ANSWERED.load(Ordering::Relaxed),
        LOST.load(Ordering::Relaxed)
    );
    assert!(failures.is_empty(), "MARTLET_CRASH_SEED={failures:?}");
}
