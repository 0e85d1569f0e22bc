//! MIGRATE: keys to another server, by what DUMP makes of them here and RESTORE there.
//!
//! The shards of the keys are held until the other server has answered, so nobody changes a key that is under
//! way; how long that takes the command's timeout bounds, for each step of connecting, sending and receiving.

use std::io::{self, ErrorKind};
use std::sync::Mutex;
use std::time::Duration;

use martlet_client::blocking::Client;
use martlet_client::resp::{Reply as Answer, encode_request};
use martlet_command::generic::encodable;
use martlet_command::{Acl, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use martlet_engine::EventClass;
use martlet_keyspace::Key;
use martlet_protocol::request::Args;
use martlet_rdb::payload;

use super::{Call, ServerCommand, ServerHandler};
use crate::shared::lock;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&MIGRATE];

/// Connections that are kept, and for how long, in milliseconds (Redis: `MIGRATE_SOCKET_CACHE_ITEMS`,
/// `_TTL`).
const KEPT_MAX: usize = 64;
const KEPT_MS: i64 = 10_000;
/// Keys are sent in portions of about so many bytes, each answered before the next.
const PORTION_BYTES: usize = 1024 * 1024;
/// Of an answer, no more than this is taken in: it is a line.
const ANSWER_MAX_BYTES: usize = 64 * 1024;
/// What a timeout of 0 stands for.
const DEFAULT_TIMEOUT_MS: i64 = 1000;

const NO_CONNECTION: Error = Error::Fixed("IOERR error or timeout connecting to the client");
const NOT_SENT: Error = Error::Fixed("IOERR error or timeout writing to target instance");
const NO_ANSWER: Error = Error::Fixed("IOERR error or timeout reading to target instance");

const KEY_FLAGS: KeyFlags = KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE);

static MIGRATE: ServerCommand = command("migrate", -6, migrate as ServerHandler)
    .flags(Flags::WRITE)
    .keys(&[KeyPart::one(3, KEY_FLAGS), KeyPart::after("KEYS", -2, KEY_FLAGS.with(KeyFlags::INCOMPLETE))])
    .find_keys(find_keys)
    .acl(Acl::KEYSPACE.with(Acl::DANGEROUS))
    .doc(
        Group::Generic,
        "2.6.0",
        "O(N) for the size of the values, here and at the other server",
        "Moves keys to another server.",
    );

/// Connections to other servers that may be used again.
#[derive(Default)]
pub struct KeptConnections(Mutex<Vec<Target>>);

/// A connection to another server.
struct Target {
    host: Vec<u8>,
    port: Vec<u8>,
    client: Client,
    /// The database that was selected last.
    db: i64,
    used_ms: i64,
}

impl KeptConnections {
    /// How many there are.
    pub fn count(&self) -> usize {
        lock(&self.0).len()
    }

    /// Closes those that nobody has used for a while.
    pub fn close_old(&self, now_ms: i64) {
        lock(&self.0).retain(|target| now_ms - target.used_ms < KEPT_MS);
    }

    fn take(&self, host: &[u8], port: &[u8]) -> Option<Target> {
        let mut all = lock(&self.0);
        let at = all.iter().position(|target| target.host == host && target.port == port)?;
        Some(all.swap_remove(at))
    }

    fn keep(&self, target: Target) {
        let mut all = lock(&self.0);
        if all.len() >= KEPT_MAX {
            all.swap_remove(0);
        }
        all.push(target);
    }
}

/// The arguments that an option takes.
fn operands(option: &[u8]) -> usize {
    match option {
        _ if option.eq_ignore_ascii_case(b"auth") => 1,
        _ if option.eq_ignore_ascii_case(b"auth2") => 2,
        _ => 0,
    }
}

/// Where the options are. Behind KEYS, which is one, are keys.
fn options<'a>(args: &'a Args<'_>) -> impl Iterator<Item = usize> + 'a {
    let option = |at: usize| (at < args.len()).then_some(at);
    std::iter::successors(option(6), move |&at| option(at + 1 + operands(args.at(at))))
}

fn is_keys(args: &Args<'_>, at: usize) -> bool {
    args.at(at).eq_ignore_ascii_case(b"keys")
}

/// The keys: those behind KEYS, or argument 3. An argument behind AUTH is none, whatever it is. As in Redis,
/// an only option is not KEYS.
fn find_keys(args: &Args<'_>, out: &mut Vec<usize>) -> bool {
    match options(args).find(|&at| args.len() > 7 && is_keys(args, at)) {
        Some(at) if args.at(3).is_empty() => out.extend(at + 1..args.len()),
        Some(_) => return false,
        None => out.push(3),
    }
    true
}

/// The arguments that name a user or a password, which logs must not show, in their order.
pub fn credentials(args: &Args<'_>) -> Vec<usize> {
    let before_keys = options(args).take_while(|&at| !is_keys(args, at));
    before_keys.flat_map(|at| at + 1..args.len().min(at + 1 + operands(args.at(at)))).collect()
}

/// What the arguments ask for.
struct Request<'a> {
    host: &'a [u8],
    port: &'a [u8],
    db: i64,
    timeout: Duration,
    copy: bool,
    replace: bool,
    /// AUTH's arguments.
    credentials: Vec<&'a [u8]>,
    keys: Vec<&'a [u8]>,
}

impl<'a> Request<'a> {
    fn parse(call: &Call<'a>) -> Result<Request<'a>, Error> {
        let mut request = Request {
            host: call.arg(1),
            port: call.arg(2),
            db: 0,
            timeout: Duration::ZERO,
            copy: false,
            replace: false,
            credentials: Vec::new(),
            keys: vec![call.arg(3)],
        };
        let mut at = 6;
        while at < call.argc() {
            let left = call.argc() - at - 1;
            if call.is(at, "copy") {
                request.copy = true;
            } else if call.is(at, "replace") {
                request.replace = true;
            } else if let taken @ 1.. = operands(call.arg(at))
                && left >= taken
            {
                request.credentials = (at + 1..=at + taken).map(|index| call.arg(index)).collect();
                at += taken;
            } else if call.is(at, "keys") {
                if !call.arg(3).is_empty() {
                    return Err(Error::Fixed(
                        "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
                    ));
                }
                request.keys = (at + 1..call.argc()).map(|index| call.arg(index)).collect();
                break;
            } else {
                return Err(Error::Syntax);
            }
            at += 1;
        }
        let timeout_ms = call.int(5)?;
        request.db = call.int(4)?;
        let timeout_ms = if timeout_ms <= 0 { DEFAULT_TIMEOUT_MS } else { timeout_ms };
        request.timeout = Duration::from_millis(timeout_ms as u64);
        Ok(request)
    }

    fn connect(&self, now_ms: i64) -> Result<Target, Error> {
        let text = |bytes: &'a [u8]| std::str::from_utf8(bytes).map_err(|_| NO_CONNECTION);
        let (host, port) = (text(self.host)?, text(self.port)?.parse::<u16>().map_err(|_| NO_CONNECTION)?);
        let mut client = Client::connect_within((host, port), self.timeout).map_err(|_| NO_CONNECTION)?;
        client.limit_replies(ANSWER_MAX_BYTES);
        let (host, port) = (self.host.to_vec(), self.port.to_vec());
        // A new connection is in database 0.
        Ok(Target { host, port, client, db: 0, used_ms: now_ms })
    }
}

/// How far the keys have come.
#[derive(Default)]
struct Progress<'a> {
    /// The other server has answered for a key.
    is_answered: bool,
    /// Those that were deleted here.
    moved: Vec<&'a [u8]>,
}

/// Why nothing, or no more, was moved.
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

    fn refused(text: &[u8]) -> Failure {
        let text = String::from_utf8_lossy(text);
        Failure::Refused(Error::Text(format!("ERR Target instance replied with error: {text}")))
    }
}

impl Target {
    fn send(&mut self, requests: &[u8]) -> Result<(), Failure> {
        self.client.send_raw(requests).map_err(|error| Failure::of(&error, NOT_SENT))
    }

    /// Whether the other server has done what the next answer is about, or its error.
    fn answer(&mut self) -> Result<(), Failure> {
        match self.client.read_reply() {
            Ok(Answer::Error(text)) => Err(Failure::refused(&text)),
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::of(&error, NO_ANSWER)),
        }
    }

    /// Makes the connection ready for keys.
    fn prepare(&mut self, request: &Request<'_>) -> Result<(), Failure> {
        self.client.limit_steps(request.timeout).map_err(|error| Failure::of(&error, NOT_SENT))?;
        if !request.credentials.is_empty() {
            let words: Vec<&[u8]> =
                [b"AUTH".as_slice()].into_iter().chain(request.credentials.iter().copied()).collect();
            self.ask(&words)?;
        }
        if self.db != request.db {
            self.ask(&[b"SELECT".as_slice(), request.db.to_string().as_bytes()])?;
            self.db = request.db;
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

fn migrate(call: &mut Call<'_>) -> Outcome {
    let request = Request::parse(call)?;
    let mut keys = request.keys.clone();
    keys.retain(|key| call.worker.keys.lookup(&Key::new(key)).is_some());
    if keys.is_empty() {
        call.reply.simple("NOKEY");
        return Ok(());
    }
    let (shared, now_ms) = (call.worker.shared, call.worker.now_ms);
    let mut progress = Progress::default();
    let mut kept = shared.migrations.take(request.host, request.port);
    let result = loop {
        let was_kept = kept.is_some();
        let mut target = match kept.take() {
            Some(target) => target,
            None => request.connect(now_ms)?,
        };
        let result = transfer(call, &request, &keys, &mut target, &mut progress);
        match result {
            // A connection that was kept may have been closed by the other side since.
            Err(Failure::Closed(_)) if was_kept && !progress.is_answered => continue,
            Ok(()) | Err(Failure::Refused(_)) => {
                target.used_ms = now_ms;
                shared.migrations.keep(target);
            }
            Err(_) => {}
        }
        break result;
    };
    let keys = &mut call.worker.keys;
    if !progress.moved.is_empty() {
        keys.effects.replace(keys.db, || [b"DEL".as_slice()].into_iter().chain(progress.moved));
    }
    keys.effects.request_ended(keys.db, &call.args, false);
    match result {
        Ok(()) => call.reply.ok(),
        Err(Failure::Closed(error) | Failure::Broken(error) | Failure::Refused(error)) => return Err(error),
    }
    Ok(())
}

/// Sends the keys and deletes those that have arrived, unless they are to be copied.
///
/// # Errors
/// The first that happened; keys that arrived all the same are deleted even so.
fn transfer<'a>(
    call: &mut Call<'_>,
    request: &Request<'_>,
    keys: &[&'a [u8]],
    target: &mut Target,
    progress: &mut Progress<'a>,
) -> Result<(), Failure> {
    target.prepare(request)?;
    let mut first_refusal = Ok(());
    let mut rest = keys;
    while !rest.is_empty() {
        let mut portion = Vec::new();
        let mut sent = Vec::new();
        while let [key, others @ ..] = rest
            && portion.len() < PORTION_BYTES
        {
            rest = others;
            if encode_restore(call, request, key, &mut portion) {
                sent.push(*key);
            }
        }
        target.send(&portion)?;
        for name in sent {
            let answer = target.answer();
            progress.is_answered |= matches!(answer, Ok(()) | Err(Failure::Refused(_)));
            match answer {
                Ok(()) if request.copy => {}
                Ok(()) => {
                    let (key, keys) = (Key::new(name), &mut call.worker.keys);
                    if keys.delete(&key) {
                        keys.changed(&key, EventClass::GENERIC, "del");
                        progress.moved.push(name);
                    }
                }
                Err(Failure::Refused(error)) => {
                    first_refusal = first_refusal.and(Err(Failure::Refused(error)))
                }
                Err(failure) => return Err(failure),
            }
        }
    }
    first_refusal
}

/// Appends the request that makes the key over there; false if it is gone.
fn encode_restore(call: &Call<'_>, request: &Request<'_>, name: &[u8], out: &mut Vec<u8>) -> bool {
    let (keys, compress) = (&call.worker.keys, call.worker.settings.rdb_compression);
    let Some(entry) = keys.get(&Key::new(name)) else { return false };
    let Some(value) = encodable(&entry) else { return false };
    let ttl_ms = entry.expiry_ms().map_or(0, |at_ms| (at_ms - keys.now_ms).max(1));
    let (ttl, payload) = (ttl_ms.to_string(), payload::dump(value, compress));
    let mut words: Vec<&[u8]> = vec![b"RESTORE", name, ttl.as_bytes(), &payload];
    if request.replace {
        words.push(b"REPLACE");
    }
    encode_request(&words, out);
    true
}
