//! Connections to the server that is shown, each logged in as some user.

use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use martlet_base::clock::monotonic;
use martlet_base::sync::lock;
use martlet_client::resp::{self, Reply};
use martlet_client::stream::Stream;

use crate::shown::lossy;

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most of replies to one page that is kept.
const REPLIES_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Idle connections that are kept, and how old they may become: after that a changed password is asked for
/// again.
const KEPT_MAX: usize = 4;
const KEPT: Duration = Duration::from_secs(60);
/// How long a periodic question is not repeated that the server has refused, and how many are remembered.
const REFUSED: Duration = Duration::from_secs(600);
const REFUSED_MAX: usize = 64;
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
    /// Periodic questions that the server has refused.
    refused: Mutex<Vec<Refused>>,
}

/// A question that the server has refused to a user.
struct Refused {
    login: Login,
    command: Vec<Vec<u8>>,
    /// Its words.
    reply: Reply,
    since: Instant,
}

impl Source {
    /// A source whose connections do not log in when a request names no user.
    pub fn new(open: Open) -> Source {
        Source { open, login: Login::default(), kept: Mutex::default(), refused: Mutex::default() }
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
        if let Some(mut session) = self.take_kept(login) {
            if let Ok(replies) = session.ask(database, commands) {
                self.keep(login, session);
                return Ok(replies);
            }
            // It has been closed since, and another server may be there, which knows other commands.
            lock(&self.refused).clear();
        }
        let mut session = self.begin(login)?;
        let replies = session.ask(database, commands).map_err(|why| Failure::Unreachable(why.to_string()))?;
        let wants_password =
            |reply: &Reply| matches!(reply, Reply::Error(text) if text.starts_with(b"NOAUTH"));
        if let Some(Reply::Error(text)) = replies.iter().find(|reply| wants_password(reply)) {
            return Err(Failure::Unauthorized(lossy(text)));
        }
        self.keep(login, session);
        Ok(replies)
    }

    /// As [`Source::ask`], for periodic questions. The server counts each refusal as an error (an unknown
    /// command, a missing right), so a refused question is repeated after ten minutes only, and has the old
    /// reply until then. The first `always` questions are sent each time.
    pub(crate) fn ask_periodically(
        &self,
        login: Option<&Login>,
        always: usize,
        commands: &[Vec<&[u8]>],
    ) -> Result<Vec<Reply>, Failure> {
        let user = login.unwrap_or(&self.login);
        let known = commands.iter().enumerate().map(|(at, command)| match at < always {
            true => None,
            false => self.refusal(user, command),
        });
        let known: Vec<Option<Reply>> = known.collect();
        let sent = commands.iter().zip(&known).filter(|(_, known)| known.is_none());
        let sent: Vec<Vec<&[u8]>> = sent.map(|(command, _)| command.clone()).collect();
        if sent.is_empty() {
            return Ok(known.into_iter().flatten().collect());
        }
        let replies = self.ask(login, 0, &sent)?;
        sent.iter().zip(&replies).for_each(|(command, reply)| self.note_refusal(user, command, reply));
        let mut replies = replies.into_iter();
        Ok(known.into_iter().filter_map(|known| known.or_else(|| replies.next())).collect())
    }

    fn refusal(&self, login: &Login, command: &[&[u8]]) -> Option<Reply> {
        let mut refused = lock(&self.refused);
        refused.retain(|refused| refused.since.elapsed() < REFUSED);
        let is_meant = |refused: &&Refused| refused.login == *login && refused.command == command;
        refused.iter().find(is_meant).map(|refused| refused.reply.clone())
    }

    fn note_refusal(&self, login: &Login, command: &[&[u8]], reply: &Reply) {
        // Other errors pass: LOADING, BUSY, MASTERDOWN.
        let lasts =
            matches!(reply, Reply::Error(text) if text.starts_with(b"ERR ") || text.starts_with(b"NOPERM"));
        if lasts {
            let mut refused = lock(&self.refused);
            if refused.len() == REFUSED_MAX {
                refused.remove(0);
            }
            let command = command.iter().map(|word| word.to_vec()).collect();
            refused.push(Refused { login: login.clone(), command, reply: reply.clone(), since: monotonic() });
        }
    }

    /// As [`Source::ask`], over a connection of its own: for requests that may change something, the
    /// connection included.
    pub(crate) fn ask_apart(
        &self,
        login: Option<&Login>,
        database: usize,
        command: Vec<&[u8]>,
    ) -> Result<Option<Reply>, Failure> {
        let mut session = self.begin(login.unwrap_or(&self.login))?;
        let replies = session.ask(database, &[command]);
        replies.map(|mut replies| replies.pop()).map_err(|why| Failure::Unreachable(why.to_string()))
    }

    fn begin(&self, login: &Login) -> Result<Session, Failure> {
        let begun = Session::begin(&self.open, login);
        if matches!(begun, Err(Failure::Unreachable(_))) {
            // The next server may know what this one did not.
            lock(&self.refused).clear();
        }
        begun
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
            Some(Reply::Error(text)) if login.password.is_some() => Err(Failure::Unauthorized(lossy(text))),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// A server that knows INFO and little else, with the number of its refusals.
    fn ignorant() -> (Source, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let refused = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = std::sync::Arc::clone(&refused);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let (mut received, mut chunk) = (Vec::new(), [0; 4096]);
                while let Ok(read @ 1..) = stream.read(&mut chunk) {
                    received.extend_from_slice(&chunk[..read]);
                    while let Ok(Some((request, len))) = resp::decode(&received) {
                        received.drain(..len);
                        let first = request.items().and_then(|words| words.first()?.text());
                        let reply: &[u8] = match first {
                            Some(b"INFO") => b"+fine\r\n",
                            Some(b"CLIENT") => b"+OK\r\n",
                            Some(b"BUSY") => b"-BUSY at work\r\n",
                            _ => {
                                counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                                b"-ERR unknown command\r\n"
                            }
                        };
                        if stream.write_all(reply).is_err() {
                            return;
                        }
                    }
                }
            }
        });
        let open = move || {
            let address = martlet_client::address::Address::resolve("127.0.0.1", address.port())?;
            Stream::connect(&address, Some(Duration::from_secs(10)))
        };
        (Source::new(Box::new(open)), refused)
    }

    #[test]
    fn a_periodic_question_is_refused_once() {
        let (source, refused) = ignorant();
        let commands: [Vec<&[u8]>; 4] =
            [vec![b"INFO"], vec![b"LATENCY", b"HISTOGRAM"], vec![b"BUSY"], vec![b"INFO"]];
        for _ in 0..3 {
            let replies = source.ask_periodically(None, 1, &commands).expect("answered");
            assert_eq!(replies.len(), 4);
            assert_eq!(replies[0].text(), Some(&b"fine"[..]));
            assert_eq!(replies[1], Reply::Error(b"ERR unknown command".to_vec()));
            assert_eq!(replies[2], Reply::Error(b"BUSY at work".to_vec()));
            assert_eq!(replies[3].text(), Some(&b"fine"[..]));
        }
        assert_eq!(refused.load(std::sync::atomic::Ordering::SeqCst), 1);
        // A person's question is sent each time.
        source.ask(None, 0, &[vec![b"LATENCY", b"HISTOGRAM"]]).expect("answered");
        assert_eq!(refused.load(std::sync::atomic::Ordering::SeqCst), 2);
    }
}
