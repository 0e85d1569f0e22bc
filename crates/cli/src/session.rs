//! A session of a person or a script with a server: commands, one after the other, over a connection that is
//! made when it is needed.
//!
//! Invariant: a command's changes to the session (database, transaction, protocol, subscriptions) are read
//! off its reply, and are requested again on a new connection.

use crate::command_docs::Place;
use crate::connection::{Connection, Lost};
use crate::format::{Expected, Numbers, Output, Printer, ResultForm, Style, Tables, invalidated};
use crate::pager::{self, Pager};
use crate::settings::{Protocol, Settings};
use martlet_client::parts::{Aggregate, Null, Part, ReplyBuilder, Text};
use martlet_client::resp::Reply;
use std::path::PathBuf;

/// Bytes of output that are written at once.
const OUT_CHUNK_BYTES: usize = 64 * 1024;
/// How much of a reply's first string is kept: the kinds of pushes are short.
const FIRST_MAX_BYTES: usize = 64;

/// Why a command has no reply. The text is for the person.
#[derive(Debug)]
pub enum Failure {
    /// The server cannot be reached.
    Connect(String),
    /// The connection was lost.
    Lost(Lost),
    /// Everything is said already; the program ends with this status.
    Exit(i32),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Connect(text) => f.write_str(text),
            Failure::Lost(lost) => write!(f, "Error: {lost}"),
            Failure::Exit(_) => Ok(()),
        }
    }
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Failure {
        Failure::Lost(lost)
    }
}

/// Knowledge about a reply after it has been printed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    kind: Option<Kind>,
    elements: u64,
    /// The beginning of the first element, where that is a string; and whether it is past.
    first: Vec<u8>,
    is_past_first: bool,
}

/// The kind of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Error,
    Null,
    Aggregate(Aggregate),
    Other,
}

/// What happens to pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pushes {
    Print,
    Drop,
    /// They are replies: nothing else confirms a subscription.
    AreReplies,
}

/// A session.
pub struct Session<'a> {
    settings: &'a Settings,
    pub style: Style,
    pub pager: Pager,
    protocol: Protocol,
    connection: Option<Connection>,
    socket: Option<PathBuf>,
    pub host: String,
    pub port: u16,
    pub is_interactive: bool,
    /// The database that the connection is in, and the one that it shall be in.
    pub database: u64,
    wanted_database: u64,
    pub in_transaction: bool,
    database_before: u64,
    pub is_subscribed: bool,
    resp3: bool,
    monitors: bool,
    shuts_down: bool,
    pushes: Pushes,
    /// The last reply pointed to another node: the command is to be sent again, after ASKING or not.
    redirected: Option<Redirection>,
    out: Vec<u8>,
}

/// Where a cluster's node says that a slot is.
#[derive(Debug, PartialEq, Eq)]
struct Redirection {
    slot: u64,
    /// None: the same host.
    host: Option<String>,
    port: u16,
    asks: bool,
}

impl<'a> Session<'a> {
    /// A session that has no connection yet.
    pub fn new(settings: &'a Settings) -> Session<'a> {
        Session {
            settings,
            style: settings.style.clone(),
            pager: Pager::default(),
            protocol: settings.protocol,
            connection: None,
            socket: settings.socket.clone(),
            host: settings.host.clone(),
            port: settings.port,
            is_interactive: false,
            database: 0,
            wanted_database: settings.database,
            in_transaction: false,
            database_before: 0,
            is_subscribed: false,
            resp3: false,
            monitors: false,
            shuts_down: false,
            pushes: if settings.shows_pushes { Pushes::Print } else { Pushes::Drop },
            redirected: None,
            out: Vec::new(),
        }
    }

    /// The connection, for uses beyond commands.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut()
    }

    /// Whether there is a connection, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// Where the next connection goes.
    pub fn place(&self) -> Place {
        Place { socket: self.socket.clone(), host: self.host.clone(), port: self.port }
    }

    /// The text before a typed line.
    pub fn prompt(&self) -> String {
        if self.connection.is_none() {
            return "not connected> ".into();
        }
        let mut prompt = match &self.socket {
            Some(socket) => format!("redis {}", socket.display()),
            None if self.host.contains(':') => format!("[{}]:{}", self.host, self.port),
            None => format!("{}:{}", self.host, self.port),
        };
        if self.database != 0 {
            prompt.push_str(&format!("[{}]", self.database));
        }
        if self.in_transaction {
            prompt.push_str("(TX)");
        }
        if self.is_subscribed {
            prompt.push_str("(subscribed mode)");
        }
        prompt + "> "
    }

    /// The connection, for uses without a session.
    pub fn into_connection(self) -> Option<Connection> {
        self.connection
    }

    /// Names another server, to which the next connection goes.
    pub fn turn_to(&mut self, host: String, port: u16) {
        (self.host, self.port, self.socket) = (host, port, None);
    }

    /// Drops the connection and its state.
    pub fn disconnect(&mut self) {
        self.connection = None;
        (self.database, self.in_transaction, self.is_subscribed) = (0, false, false);
        (self.resp3, self.monitors) = (false, false);
    }

    /// Connects again, authenticates, selects the database and the protocol. The server's refusals are
    /// printed on standard error and leave the connection as it is; only where it is unreachable there is
    /// none.
    pub fn connect(&mut self) -> Result<(), Failure> {
        self.disconnect();
        let opened = Connection::open(self.settings, self.socket.as_deref(), &self.host, self.port);
        let mut connection = opened.map_err(Failure::Connect)?;
        if self.is_interactive {
            connection.let_interrupts_end_waits();
        }
        self.connection = Some(connection);
        self.pushes = if self.settings.shows_pushes { Pushes::Print } else { Pushes::Drop };
        if let Some(password) = &self.settings.password {
            let user = self.settings.user.as_deref();
            let words: Vec<&[u8]> =
                std::iter::once(&b"AUTH"[..]).chain(user).chain([password.as_slice()]).collect();
            if !self.ask("AUTH", &words)? {
                return Ok(());
            }
        }
        if !self.select()? {
            return Ok(());
        }
        self.switch_protocol()
    }

    /// Sends one of a session's first requests; returns whether the server agrees, and prints a refusal.
    fn ask(&mut self, name: &str, words: &[&[u8]]) -> Result<bool, Failure> {
        let Some(connection) = &mut self.connection else { return Ok(false) };
        match connection.command(words) {
            Ok(Reply::Error(text)) => {
                eprintln!("{name} failed: {}", String::from_utf8_lossy(&text));
                Ok(false)
            }
            Ok(_) => Ok(true),
            Err(lost) => {
                self.disconnect();
                Err(lost.into())
            }
        }
    }

    fn select(&mut self) -> Result<bool, Failure> {
        if self.database == self.wanted_database {
            return Ok(true);
        }
        let number = self.wanted_database.to_string();
        let agrees = self.ask(&format!("SELECT {number}"), &[b"SELECT", number.as_bytes()])?;
        if agrees {
            self.database = self.wanted_database;
        }
        Ok(agrees)
    }

    fn switch_protocol(&mut self) -> Result<(), Failure> {
        if matches!(self.protocol, Protocol::Resp3 | Protocol::Resp3IfKnown) {
            self.resp3 = self.ask("HELLO 3", &[b"HELLO", b"3"])?;
        }
        Ok(())
    }

    /// Prefers RESP3 from now on: only there a list of maps can be recognised.
    pub fn prefer_resp3(&mut self) -> Result<(), Failure> {
        self.protocol = Protocol::Resp3IfKnown;
        let is_free = !self.in_transaction && !self.is_subscribed && !self.resp3;
        if is_free { self.switch_protocol() } else { Ok(()) }
    }

    /// Runs a command `repeat` times and prints its replies; follows a cluster's redirections.
    pub fn run<A: AsRef<[u8]>>(&mut self, words: &[A], repeat: i64) -> Result<(), Failure> {
        loop {
            if self.connection.is_none() {
                self.connect()?;
            }
            if let Some(redirection) = self.redirected.take() {
                self.follow(redirection)?;
            }
            if let Err(failure) = self.run_here(words, repeat) {
                self.connection = None;
                return Err(failure);
            }
            if self.redirected.is_none() {
                return Ok(());
            }
        }
    }

    fn follow(&mut self, to: Redirection) -> Result<(), Failure> {
        let host = to.host.unwrap_or(self.host.clone());
        if self.is_interactive {
            println!("-> Redirected to slot [{}] located at {host}:{}", to.slot, to.port);
        }
        self.turn_to(host, to.port);
        self.connect()?;
        if to.asks {
            self.ask("ASKING", &[b"ASKING"])?;
        }
        Ok(())
    }

    fn run_here<A: AsRef<[u8]>>(&mut self, words: &[A], mut left: i64) -> Result<(), Failure> {
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        let command = Command::new(&words);
        self.shuts_down = command.is("shutdown");
        while left != 0 {
            left -= i64::from(left > 0);
            let Some(connection) = &mut self.connection else { return Ok(()) };
            connection.send(&words)?;
            if command.is("monitor") {
                return self.print_for_ever(command.expected());
            }
            self.read_replies(&command)?;
            if self.redirected.is_some() {
                break;
            }
            std::thread::sleep(self.settings.interval);
        }
        Ok(())
    }

    /// MONITOR: the reply has no end, unless it is an error.
    fn print_for_ever(&mut self, expected: Expected) -> Result<(), Failure> {
        self.monitors = true;
        while self.monitors {
            if self.print_reply(expected)?.is_error() {
                self.monitors = false;
            }
        }
        Ok(())
    }

    /// Reads what answers a command: one reply, or of a subscription one for each channel.
    fn read_replies(&mut self, command: &Command) -> Result<(), Failure> {
        let mut confirmations = 0;
        if command.is_subscription() {
            confirmations = (command.words.len() - 1).max(1);
            self.pushes = Pushes::AreReplies;
        }
        loop {
            let seen = match self.print_reply(command.expected()) {
                Err(Failure::Lost(_)) if self.shuts_down => {
                    self.disconnect();
                    return Ok(());
                }
                seen => seen?,
            };
            if self.is_subscribed || confirmations > 0 {
                if seen.is_message(self.resp3) {
                    if confirmations == 0 || !seen.first.eq_ignore_ascii_case(command.name()) {
                        continue;
                    }
                    self.is_subscribed |= command.subscribes();
                    confirmations -= 1;
                    if confirmations > 0 {
                        continue;
                    }
                } else if seen.kind == Some(Kind::Aggregate(Aggregate::Push)) {
                    continue;
                }
            }
            return self.note(command, &seen);
        }
    }

    /// Records a command's changes to the session.
    fn note(&mut self, command: &Command, seen: &Seen) -> Result<(), Failure> {
        let refused = seen.is_error();
        let alone = command.words.len() == 1;
        if command.is("select") && command.words.len() == 2 && !refused {
            self.set_database(command.number(1));
        } else if command.is("auth") && matches!(command.words.len(), 2 | 3) {
            self.select()?;
        } else if command.is("multi") && alone && !refused {
            self.in_transaction = true;
            self.database_before = self.database;
        } else if command.is("exec") && alone && self.in_transaction {
            self.in_transaction = false;
            if refused || seen.kind == Some(Kind::Null) {
                self.set_database(self.database_before);
            }
        } else if command.is("discard") && alone && !refused {
            self.in_transaction = false;
            self.set_database(self.database_before);
        } else if command.is("reset") && alone && !refused {
            self.set_database(0);
            (self.in_transaction, self.is_subscribed, self.resp3) = (false, false, false);
            self.restore_pushes();
        } else if command.is("hello") {
            match seen.kind {
                Some(Kind::Aggregate(Aggregate::Map)) => self.resp3 = true,
                Some(Kind::Aggregate(Aggregate::Array)) => self.resp3 = false,
                _ => {}
            }
        } else if command.is_subscription() && !self.is_subscribed {
            self.restore_pushes();
        }
        Ok(())
    }

    fn restore_pushes(&mut self) {
        self.pushes = if self.settings.shows_pushes { Pushes::Print } else { Pushes::Drop };
    }

    fn set_database(&mut self, database: u64) {
        (self.database, self.wanted_database) = (database, database);
    }

    /// Reads the next reply and prints it as it arrives.
    pub fn print_reply(&mut self, expected: Expected) -> Result<Seen, Failure> {
        // Endless output is shown as it arrives.
        self.pager.pause(self.monitors || self.is_subscribed || self.pushes == Pushes::AreReplies);
        let printed = self.print_parts(expected);
        self.pager.end();
        printed
    }

    fn print_parts(&mut self, expected: Expected) -> Result<Seen, Failure> {
        let Some(connection) = &mut self.connection else { return Err(Lost::Closed.into()) };
        let mut style = self.style.clone();
        if style.tables != Tables::None {
            style.width = pager::columns();
        }
        let mut reading = Reading::new(&style, expected, self.pushes, self.settings.cluster, &mut self.out);
        reading.exits_on_error = self.settings.fails_on_error && !self.is_interactive;
        loop {
            let is_whole = connection.read_some(&mut |part| reading.part(part))?;
            if reading.out.len() >= OUT_CHUNK_BYTES {
                self.pager.write(reading.out);
            }
            if is_whole && reading.is_reply_over() {
                break;
            }
        }
        self.pager.write(reading.out);
        let Reading { seen, redirection, fatal, .. } = reading;
        if let Some(text) = fatal {
            eprintln!("{}", String::from_utf8_lossy(&text));
            return Err(Failure::Exit(1));
        }
        self.redirected = redirection;
        Ok(seen)
    }
}

/// A reply that is being read: printed, looked at, and pushes before it dealt with.
struct Reading<'s> {
    style: &'s Style,
    printer: Box<dyn Printer + 's>,
    pushes: Pushes,
    follows_redirections: bool,
    exits_on_error: bool,
    out: &'s mut Vec<u8>,
    depth: usize,
    /// A push that is no reply.
    push: Option<ReplyBuilder>,
    in_text: bool,
    seen: Seen,
    redirection: Option<Redirection>,
    fatal: Option<Vec<u8>>,
}

impl<'s> Reading<'s> {
    fn new(
        style: &'s Style,
        expected: Expected,
        pushes: Pushes,
        follows_redirections: bool,
        out: &'s mut Vec<u8>,
    ) -> Reading<'s> {
        Reading {
            style,
            printer: style.printer(expected),
            pushes,
            follows_redirections,
            exits_on_error: false,
            out,
            depth: 0,
            push: None,
            in_text: false,
            seen: Seen::default(),
            redirection: None,
            fatal: None,
        }
    }

    fn part(&mut self, part: Part) {
        let at_top = self.depth == 0 && !self.in_text;
        match part {
            Part::Open(..) => self.depth += 1,
            Part::Close(_) => self.depth -= 1,
            Part::Text(..) => self.in_text = true,
            Part::EndText => self.in_text = false,
            _ => {}
        }
        if at_top && matches!(part, Part::Open(Aggregate::Push, _)) && self.pushes != Pushes::AreReplies {
            self.push = Some(ReplyBuilder::default());
        }
        if let Some(push) = &mut self.push {
            push.add(part);
            return;
        }
        if at_top && let Part::Error(text) = part {
            if self.follows_redirections
                && let Some(redirection) = redirection(text)
            {
                self.redirection = Some(redirection);
                return;
            }
            if self.exits_on_error {
                self.fatal = Some(text.to_vec());
                return;
            }
        }
        self.seen.look(&part, at_top, self.depth);
        self.printer.part(part, self.out);
    }

    /// After a complete reply: prints a push, if it was one. Returns whether it was the awaited reply.
    fn is_reply_over(&mut self) -> bool {
        if let Some(push) = self.push.take() {
            if let (Pushes::Print, Some(push)) = (self.pushes, push.finish()) {
                let line = if self.style.output == Output::Standard { invalidated(&push) } else { None };
                self.out.extend(line.unwrap_or_else(|| self.style.text(&push)));
            }
            return false;
        }
        if self.redirection.is_none() && self.fatal.is_none() {
            self.printer.end(self.out);
        }
        true
    }
}

/// What an error says of another node: `MOVED 3999 127.0.0.1:6381`.
fn redirection(error: &[u8]) -> Option<Redirection> {
    let text = std::str::from_utf8(error).ok()?;
    let mut words = text.split(' ');
    let asks = match words.next()? {
        "MOVED" => false,
        "ASK" => true,
        _ => return None,
    };
    let slot = words.next()?.parse().ok()?;
    let (host, port) = words.next()?.rsplit_once(':')?;
    let host = Some(host.to_string()).filter(|host| !host.is_empty());
    Some(Redirection { slot, host, port: port.parse().ok()?, asks })
}

impl Seen {
    /// Whether the reply is an error.
    pub fn is_error(&self) -> bool {
        self.kind == Some(Kind::Error)
    }

    fn look(&mut self, part: &Part, at_top: bool, depth: usize) {
        match part {
            Part::Error(_) | Part::Text(Text::Error, _) if at_top => self.kind = Some(Kind::Error),
            Part::Null(Null::Plain | Null::Bulk | Null::Array) if at_top => self.kind = Some(Kind::Null),
            Part::Open(kind, count) if at_top => {
                (self.kind, self.elements) = (Some(Kind::Aggregate(*kind)), *count);
            }
            _ if at_top => self.kind = Some(Kind::Other),
            _ => {}
        }
        if at_top || depth != 1 || self.is_past_first {
            return;
        }
        match part {
            Part::Text(..) => {}
            Part::Bytes(bytes) => {
                let room = FIRST_MAX_BYTES.saturating_sub(self.first.len());
                self.first.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
            }
            _ => self.is_past_first = true,
        }
    }

    /// Whether it is a message of a subscription, or confirms one.
    fn is_message(&self, resp3: bool) -> bool {
        let kind = if resp3 { Aggregate::Push } else { Aggregate::Array };
        self.kind == Some(Kind::Aggregate(kind))
            && self.elements >= 3
            && (self.first.ends_with(b"message") || self.first.ends_with(b"subscribe"))
    }
}

/// A command's words.
struct Command<'w> {
    words: &'w [&'w [u8]],
}

/// Commands whose replies are text for people, by their words; the last number is how many words there are, 0
/// for any.
const VERBATIM: &[(&str, &str, usize)] = &[
    ("info", "", 0),
    ("lolwut", "", 0),
    ("debug", "htstats", 0),
    ("debug", "htstats-key", 0),
    ("debug", "client-eviction", 0),
    ("memory", "malloc-stats", 0),
    ("memory", "doctor", 0),
    ("cluster", "nodes", 2),
    ("cluster", "info", 2),
    ("client", "list", 0),
    ("client", "info", 0),
    ("latency", "graph", 3),
    ("latency", "doctor", 2),
    ("proxy", "info", 0),
];

impl<'w> Command<'w> {
    fn new(words: &'w [&'w [u8]]) -> Command<'w> {
        Command { words }
    }

    fn name(&self) -> &[u8] {
        self.words.first().copied().unwrap_or_default()
    }

    fn is(&self, name: &str) -> bool {
        self.name().eq_ignore_ascii_case(name.as_bytes())
    }

    fn is_verbatim(&self) -> bool {
        let second = self.words.get(1).copied().unwrap_or_default();
        VERBATIM.iter().any(|(name, sub, count)| {
            self.is(name)
                && (sub.is_empty() || second.eq_ignore_ascii_case(sub.as_bytes()))
                && (*count == 0 || *count == self.words.len())
        })
    }

    fn expected(&self) -> Expected {
        Expected {
            is_verbatim: self.is_verbatim(),
            numbers: Numbers::of_reply(self.words),
            results: ResultForm::of_command(self.words),
        }
    }

    fn subscribes(&self) -> bool {
        ["subscribe", "psubscribe", "ssubscribe"].iter().any(|name| self.is(name))
    }

    fn is_subscription(&self) -> bool {
        self.subscribes() || ["unsubscribe", "punsubscribe", "sunsubscribe"].iter().any(|name| self.is(name))
    }

    /// A word as a number; 0 if it is not one.
    fn number(&self, index: usize) -> u64 {
        let word = self.words.get(index).and_then(|word| std::str::from_utf8(word).ok());
        word.and_then(|word| word.parse().ok()).unwrap_or(0)
    }
}
