//! Two servers that run the same programs: the victim, whose end is a finding, and a real one to compare
//! with.
//!
//! Invariant: a server that ended or hangs is replaced by a fresh one, so that one finding does not hide the
//! next.

use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;

use super::{ENUMERATE, names};

/// How long a program may run before it is killed.
const PROGRAM_MAX: Duration = Duration::from_secs(2);
/// How long killing it may take.
const KILL_MAX: Duration = Duration::from_secs(20);
/// How long a server takes to start, at most.
const START_MAX: Duration = Duration::from_secs(30);

/// How a program went on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has answered.
    Answer(String),
    /// It ran for too long, and SCRIPT KILL ended it.
    Killed,
    /// Neither it nor SCRIPT KILL came to an end.
    Hangs,
    /// The process has ended, with this status.
    Ended(String),
}

/// A server in a separate folder.
pub struct Server {
    program: PathBuf,
    words: Vec<String>,
    folder: PathBuf,
    process: Child,
    port: u16,
    client: Client,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ignored: it may have ended before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts a program with these words before its parameters; its output goes to a file in `folder`.
    ///
    /// # Errors
    /// It cannot be started, or does not answer.
    pub fn start(program: PathBuf, words: Vec<String>, folder: PathBuf) -> io::Result<Server> {
        std::fs::create_dir_all(&folder)?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log"))?;
        let mut process = Command::new(&program)
            .args(&words)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--busy-reply-threshold", "500", "--dir", &folder.to_string_lossy()])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let begin = Instant::now();
        loop {
            if let Ok(mut client) = Client::connect(("127.0.0.1", port))
                && client.command(&["PING"]).is_ok()
            {
                client.limit_steps(PROGRAM_MAX)?;
                return Ok(Server { program, words, folder, process, port, client });
            }
            if begin.elapsed() > START_MAX || process.try_wait()?.is_some() {
                // Ignored: it may have ended.
                let _ = process.kill();
                return Err(io::Error::other(format!("{} does not answer", program.display())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts the same program again.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn replace(&mut self) -> io::Result<()> {
        *self = Server::start(self.program.clone(), self.words.clone(), self.folder.clone())?;
        Ok(())
    }

    /// The names of the functions in its sandbox.
    ///
    /// # Errors
    /// It does not answer the walk.
    pub fn names(&mut self) -> io::Result<Vec<String>> {
        match self.client.command(&["EVAL", ENUMERATE, "0"])? {
            Reply::Bulk(text) => Ok(names(&text)),
            other => Err(io::Error::other(format!("the walk was answered {other:?}"))),
        }
    }

    /// Runs a program on an empty data set.
    ///
    /// # Errors
    /// Connections cannot be made although the process lives.
    pub fn run(&mut self, program: &str) -> io::Result<Outcome> {
        let reply =
            self.client.command(&["FLUSHALL"]).and_then(|_| self.client.command(&["EVAL", program, "0"]));
        let reply = match reply {
            Ok(reply) => return Ok(Outcome::Answer(shown(&reply))),
            Err(error) => error,
        };
        if reply.kind() == io::ErrorKind::TimedOut || reply.kind() == io::ErrorKind::WouldBlock {
            let killed = self.kill_script()?;
            if killed {
                self.reconnect()?;
            }
            return Ok(if killed { Outcome::Killed } else { Outcome::Hangs });
        }
        // The connection has ended: the process does, too, or has a reason for closing it.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(5) {
            if let Some(status) = self.process.try_wait()? {
                return Ok(Outcome::Ended(status.to_string()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Outcome::Ended(format!("the connection: {reply}")))
    }

    /// Whether SCRIPT KILL ends what runs.
    fn kill_script(&mut self) -> io::Result<bool> {
        let begin = Instant::now();
        while begin.elapsed() < KILL_MAX {
            let mut client = Client::connect(("127.0.0.1", self.port))?;
            client.limit_steps(KILL_MAX)?;
            match client.command(&["SCRIPT", "KILL"]) {
                // It has ended if its reply is there.
                Ok(Reply::Error(text)) if text.starts_with(b"NOTBUSY") => {
                    return Ok(self.client.read_reply().is_ok());
                }
                // It has written: as on a real server, only the end of the process ends it.
                Ok(Reply::Error(text)) if text.starts_with(b"UNKILLABLE") => {
                    self.replace()?;
                    return Ok(true);
                }
                Ok(_) => std::thread::sleep(Duration::from_millis(100)),
                Err(_) => return Ok(false),
            }
        }
        Ok(false)
    }

    fn reconnect(&mut self) -> io::Result<()> {
        self.client = Client::connect(("127.0.0.1", self.port))?;
        self.client.limit_steps(PROGRAM_MAX)
    }

    /// The last lines of its log.
    pub fn last_words(&self) -> String {
        let log = std::fs::read(self.folder.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(2000)..]).into_owned()
    }
}

fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Error(text) => format!("-{}", String::from_utf8_lossy(text)),
        other => format!("{other:?}"),
    }
}

/// Without what differs from run to run: addresses and digests.
pub fn without_addresses(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("0x") {
        out.push_str(&rest[..at]);
        rest = rest[at + 2..].trim_start_matches(|c: char| c.is_ascii_hexdigit());
        out.push_str("0x");
    }
    out.push_str(rest);
    match out.split_once(" script: ") {
        Some((error, _)) if out.starts_with('-') => error.to_owned(),
        _ => out,
    }
}

/// Why an outcome may be another than a real server's.
pub type Reason = (&'static str, fn(ours: &str, theirs: &str, statement: &str) -> bool);

/// Functions whose results are the memory or the time that a process has taken.
pub const OWN: &[&str] = &["collectgarbage", "gcinfo", "os.clock"];

/// The outcomes of a program's statements.
pub fn outcomes(answer: &str) -> Vec<&str> {
    answer.split('\u{1e}').collect()
}

/// The reasons; each is about the outcome of one statement, or the error of a program.
pub const REASONS: &[Reason] = &[
    ("memory of scripts is bounded", |ours, _, _| ours.contains("not enough memory")),
    ("redis.set_repl wants one argument, and later servers say so", |ours, theirs, _| {
        ours.contains("redis.set_repl() requires one argument")
            && theirs.contains("redis.set_repl() requires two arguments")
    }),
    ("patterns nest less deeply, as threads have a stack of 2 MB", |ours, _, _| {
        ours.contains("pattern too complex")
    }),
    (
        "a library is a protected table, which is empty to functions that no guard shows the real one",
        |_, _, statement| {
            let libraries = ["(_G)", "(redis)", "(string)", "(cjson)", "(table)", "(getmetatable("];
            libraries.iter().any(|library| statement.contains(library))
        },
    ),
    ("the metatable of strings is protected, too", |_, theirs, statement| {
        theirs.contains("{__index=library}") && statement.contains("getmetatable")
    }),
    ("redis.log says what level is invalid, as later servers do", |ours, theirs, _| {
        ours.contains("Invalid log level.") && theirs.contains("Invalid debug level.")
    }),
];

/// The reason for which the outcomes of a statement may differ.
pub fn reason(ours: &str, theirs: &str, statement: &str) -> Option<&'static str> {
    REASONS.iter().find(|(_, holds)| holds(ours, theirs, statement)).map(|(text, _)| *text)
}
