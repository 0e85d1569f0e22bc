//! Connections to the server that is shown, each logged in as some user.

use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use martlet_base::clock::monotonic;
use martlet_base::sync::lock;
use martlet_client::resp::{self, Reply};
use martlet_client::stream::Stream;

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most of replies to one page that is kept.
const REPLIES_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Idle connections that are kept, and how old they may become: after that a changed password is asked for
/// again.
const KEPT_MAX: usize = 4;
const KEPT: Duration = Duration::from_secs(60);
/// The connections' name in CLIENT LIST.
const NAME: &str = "martlet-metrics";

/// Opens a connection to the server.
pub type Open = Box<dyn Fn() -> io::Result<Stream> + Send + Sync>;

/// The user of a request. Without a password it is the user of a connection that has not authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Login {
    pub user: String,
    pub password: Option<String>,
}

/// Why the server gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server wants a password, or another one. With its words.
    Unauthorized(String),
    /// There is no connection, or no longer. With the reason.
    Unreachable(String),
    /// It refused a command. With its words.
    Refused(String),
}

/// The server that is shown.
pub struct Source {
    open: Open,
    /// The user for HTTP requests that name none.
    login: Login,
    kept: Mutex<Vec<(Login, Session)>>,
}

impl Source {
    /// A source whose connections do not log in when a request names no user.
    pub fn new(open: Open) -> Source {
        Source { open, login: Login::default(), kept: Mutex::new(Vec::new()) }
    }

    /// Logs in as this user where the HTTP request names none.
    pub fn with_login(mut self, user: Option<String>, password: Option<String>) -> Source {
        self.login = Login { user: user.unwrap_or_default(), password };
        self
    }

    /// Asks as `login`, or as the source's own; several commands at once, one reply each. A command that was
    /// refused has an error for a reply.
    pub(crate) fn ask(
        &self,
        login: Option<&Login>,
        database: usize,
        commands: &[Vec<&[u8]>],
    ) -> Result<Vec<Reply>, Failure> {
        let login = login.unwrap_or(&self.login);
        if let Some(mut session) = self.take_kept(login)
            && let Ok(replies) = session.ask(database, commands)
        {
            self.keep(login, session);
            return Ok(replies);
        }
        // A kept connection may have been closed since.
        let mut session = Session::begin(&self.open, login)?;
        let replies = session.ask(database, commands).map_err(|why| Failure::Unreachable(why.to_string()))?;
        let wants_password =
            |reply: &Reply| matches!(reply, Reply::Error(text) if text.starts_with(b"NOAUTH"));
        if let Some(Reply::Error(text)) = replies.iter().find(|reply| wants_password(reply)) {
            return Err(Failure::Unauthorized(shown(text)));
        }
        self.keep(login, session);
        Ok(replies)
    }

    /// As [`Source::ask`], over a connection of its own: for requests that may change something, the
    /// connection included.
    pub(crate) fn ask_apart(
        &self,
        login: Option<&Login>,
        database: usize,
        command: Vec<&[u8]>,
    ) -> Result<Option<Reply>, Failure> {
        let mut session = Session::begin(&self.open, login.unwrap_or(&self.login))?;
        let replies = session.ask(database, &[command]);
        replies.map(|mut replies| replies.pop()).map_err(|why| Failure::Unreachable(why.to_string()))
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(Login, Session)>> {
        lock(&self.kept)
    }

    fn take_kept(&self, login: &Login) -> Option<Session> {
        let mut kept = self.kept();
        kept.retain(|(_, session)| session.begun.elapsed() < KEPT);
        let at = kept.iter().position(|(of, _)| of == login)?;
        Some(kept.swap_remove(at).1)
    }

    fn keep(&self, login: &Login, session: Session) {
        let mut kept = self.kept();
        if kept.len() == KEPT_MAX {
            kept.remove(0);
        }
        kept.push((login.clone(), session));
    }
}

/// A connection that is logged in.
struct Session {
    stream: Stream,
    received: Vec<u8>,
    database: usize,
    begun: Instant,
}

impl Session {
    fn begin(open: &Open, login: &Login) -> Result<Session, Failure> {
        let unreachable = |why: io::Error| Failure::Unreachable(why.to_string());
        let stream = open().map_err(unreachable)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(unreachable)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(unreachable)?;
        let mut session = Session { stream, received: Vec::new(), database: 0, begun: monotonic() };
        let mut first: Vec<Vec<&[u8]>> = Vec::new();
        let password = login.password.as_deref().unwrap_or_default().as_bytes();
        match (login.password.is_some(), login.user.is_empty()) {
            (false, _) => {}
            (true, true) => first.push(vec![b"AUTH", password]),
            (true, false) => first.push(vec![b"AUTH", login.user.as_bytes(), password]),
        }
        first.push(vec![b"CLIENT", b"SETNAME", NAME.as_bytes()]);
        // Looking at a key does not count as using it. Old servers do not know the command.
        first.push(vec![b"CLIENT", b"NO-TOUCH", b"ON"]);
        let replies = session.exchange(&first).map_err(unreachable)?;
        match replies.first() {
            Some(Reply::Error(text)) if login.password.is_some() => Err(Failure::Unauthorized(shown(text))),
            _ => Ok(session),
        }
    }

    fn ask(&mut self, database: usize, commands: &[Vec<&[u8]>]) -> io::Result<Vec<Reply>> {
        if database != self.database {
            let number = database.to_string();
            if let Some(Reply::Error(text)) = self.exchange(&[vec![b"SELECT", number.as_bytes()]])?.first() {
                return Ok(commands.iter().map(|_| Reply::Error(text.clone())).collect());
            }
            self.database = database;
        }
        self.exchange(commands)
    }

    fn exchange(&mut self, commands: &[Vec<&[u8]>]) -> io::Result<Vec<Reply>> {
        let mut request = Vec::new();
        commands.iter().for_each(|command| resp::encode_request(command, &mut request));
        self.stream.send(&request)?;
        let (mut replies, mut bytes) = (Vec::new(), 0);
        while replies.len() < commands.len() {
            match resp::decode(&self.received).map_err(io::Error::other)? {
                Some((reply, len)) => {
                    self.received.drain(..len);
                    bytes += len;
                    replies.push(reply);
                }
                None if bytes + self.received.len() > REPLIES_MAX_BYTES => {
                    return Err(io::Error::other("a reply is too long to be shown"));
                }
                None => self.receive()?,
            }
        }
        Ok(replies)
    }

    fn receive(&mut self) -> io::Result<()> {
        match self.stream.read_some(&mut self.received) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::TimedOut.into()),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}

/// Bytes as text for people.
pub(crate) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
