//! The Sentinel with its sessions and users, without sockets: requests are checked and run, events delivered.
//!
//! Invariant: a session that is marked `is_closing` gets its output, and nothing of it is read any more.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use martlet_acl::{Event, Log, Origin, Reason, Request, Rules, Table, User, Users};
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_spec::tracking::TrackingOptions;
use martlet_spec::{Error, Flags, Outcome};

use super::{Call, Entry, registry};
use crate::limits::CLIENT_OUTPUT_MAX_BYTES;
use crate::machine::{Output, Sentinel};

/// CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// Replies are sent.
    #[default]
    On,
    /// None is.
    Off,
    /// That of the next request is not.
    SkipNext,
}

/// How a client tracks keys.
#[derive(Clone, Debug, Default)]
pub struct Tracking {
    /// Its options.
    pub options: TrackingOptions,
    /// BCAST's prefixes.
    pub prefixes: Vec<Vec<u8>>,
    /// CLIENT CACHING holds for the next command.
    pub caching: bool,
}

/// A client's connection.
pub struct Session {
    /// Its address.
    pub peer: String,
    /// This side's.
    pub local: String,
    /// The socket's number.
    pub fd: i32,
    /// When it was accepted.
    pub created_ms: i64,
    /// When it last asked for something.
    pub active_ms: i64,
    /// CLIENT SETNAME.
    pub name: Vec<u8>,
    /// CLIENT SETINFO.
    pub client_library: [Vec<u8>; 2],
    /// Whose rights it has.
    pub user: Arc<User>,
    /// It logged in, or needs not to.
    pub is_authenticated: bool,
    /// It speaks RESP3.
    pub is_resp3: bool,
    /// Channels that it is subscribed to.
    pub channels: BTreeSet<Vec<u8>>,
    /// Patterns of channels.
    pub patterns: BTreeSet<Vec<u8>>,
    /// Whether it gets replies.
    pub reply_mode: ReplyMode,
    /// Bytes for it.
    pub out: Vec<u8>,
    /// It is closed as soon as it has its output.
    pub is_closing: bool,
    /// It is closed at once.
    pub is_killed: bool,
    /// The last command that ran.
    pub last_command: &'static str,
    /// Requests so far.
    pub requests: u64,
    /// Bytes that came.
    pub input_bytes: u64,
    /// Bytes that left.
    pub output_bytes: u64,
    /// Bytes of a request that is not complete, or that waits.
    pub pending_bytes: usize,
    /// CLIENT TRACKING.
    pub tracking: Option<Tracking>,
}

impl Session {
    /// Whether it is subscribed to anything.
    pub fn is_subscriber(&self) -> bool {
        !self.channels.is_empty() || !self.patterns.is_empty()
    }
}

/// Users, and refusals.
pub struct Access {
    /// The commands that rules may name.
    pub table: Table,
    /// The users.
    pub users: Users,
    /// The refusals.
    pub log: Log,
    /// Entries that the log keeps.
    pub log_max: usize,
    /// Users have a file of their own.
    pub file: Option<PathBuf>,
}

impl Access {
    /// The default user alone, with a password if one is required.
    pub fn new(requirepass: Option<&[u8]>) -> Access {
        let table = registry().acl_table();
        let rules = Rules { table: &table, all_channels: false };
        let mut users = Users::new(&rules);
        if requirepass.is_some() {
            let user = users.default_user().with_password(requirepass);
            users.insert(user);
        }
        Access { table, users, log: Log::default(), log_max: 128, file: None }
    }

    /// What rules are understood by.
    pub fn rules(&self) -> Rules<'_> {
        Rules { table: &self.table, all_channels: false }
    }

    /// The `role` and `user` lines of the configuration file; none where users have a file of their own.
    pub fn config_lines(&self) -> Vec<Vec<u8>> {
        if self.file.is_some() {
            return Vec::new();
        }
        let roles = self.users.roles().iter().map(|role| role.line());
        roles.chain(self.users.iter().map(|user| user.line())).collect()
    }
}

/// INFO's constant fields.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The configuration file.
    pub config_file: PathBuf,
    /// The program.
    pub executable: PathBuf,
    /// The process.
    pub pid: u32,
    /// Since when it runs.
    pub started_ms: i64,
    /// A number that names this run.
    pub run_id: String,
    /// Clients that it takes.
    pub clients_max: usize,
    /// Seconds of processor time in the kernel, and outside.
    pub cpu_seconds: fn() -> [f64; 2],
}

/// What INFO counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused.
    pub rejected: u64,
    /// Requests.
    pub requests: u64,
    /// Error replies.
    pub errors: u64,
    /// Bytes from clients.
    pub input_bytes: u64,
    /// Bytes to clients.
    pub output_bytes: u64,
}

/// See the [module docs](self).
pub struct Core {
    /// The state machine.
    pub sentinel: Sentinel,
    /// Clients by number.
    pub sessions: BTreeMap<u64, Session>,
    /// Users.
    pub access: Access,
    /// The constant fields.
    pub facts: Facts,
    /// The counters.
    pub stats: Stats,
    /// CLIENT PAUSE: until when, and whether for all commands.
    pause: Option<(i64, bool)>,
    /// SHUTDOWN was asked for.
    pub is_shutting_down: bool,
    /// The time of what runs.
    pub now_ms: i64,
    /// The roles' and users' lines of the configuration file, for the code that writes it.
    pub user_lines: Rc<RefCell<Vec<Vec<u8>>>>,
}

const NO_AUTH: Error = Error::Fixed("NOAUTH Authentication required.");

impl Core {
    /// Without sessions.
    pub fn new(sentinel: Sentinel, access: Access, facts: Facts) -> Core {
        Core {
            sentinel,
            sessions: BTreeMap::new(),
            access,
            facts,
            stats: Stats::default(),
            pause: None,
            is_shutting_down: false,
            now_ms: 0,
            user_lines: Rc::default(),
        }
    }

    /// Adds a session.
    pub fn open(&mut self, id: u64, peer: String, local: String, fd: i32) {
        let user = self.access.users.default_user().clone();
        let is_authenticated = user.is_open();
        self.stats.connections += 1;
        self.sessions.insert(
            id,
            Session {
                peer,
                local,
                fd,
                created_ms: self.now_ms,
                active_ms: self.now_ms,
                name: Vec::new(),
                client_library: Default::default(),
                user,
                is_authenticated,
                is_resp3: false,
                channels: BTreeSet::new(),
                patterns: BTreeSet::new(),
                reply_mode: ReplyMode::On,
                out: Vec::new(),
                is_closing: false,
                is_killed: false,
                last_command: "NULL",
                requests: 0,
                input_bytes: 0,
                output_bytes: 0,
                pending_bytes: 0,
                tracking: None,
            },
        );
    }

    /// CLIENT PAUSE. A pause that is longer, or of more commands, stays so.
    pub fn pause(&mut self, until_ms: i64, all: bool) {
        let (before_ms, before_all) = self.pause.unwrap_or((i64::MIN, false));
        self.pause = Some((until_ms.max(before_ms), all || before_all));
    }

    /// CLIENT UNPAUSE.
    pub fn unpause(&mut self) {
        self.pause = self.pause.map(|_| (i64::MIN, false));
    }

    /// Ends a pause that is over; whether requests that have waited may run now.
    pub fn end_pause(&mut self) -> bool {
        self.pause.take_if(|(until_ms, _)| *until_ms <= self.now_ms).is_some()
    }

    /// Whether a session's request waits for the end of a pause. What is refused is refused at once.
    pub fn must_wait(&self, id: u64, args: &Args<'_>) -> bool {
        let Some((_, all)) = self.pause.filter(|(until_ms, _)| *until_ms > self.now_ms) else { return false };
        let writes = || registry().resolve(args).is_some_and(|of| of.spec.flags.has(Flags::MAY_REPLICATE));
        self.sessions.get(&id).is_some_and(|session| session.is_authenticated) && (all || writes())
    }

    /// Runs a request of a session.
    pub fn execute(&mut self, id: u64, args: Args<'_>) {
        let now_ms = self.now_ms;
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.active_ms = now_ms;
        session.requests += 1;
        self.stats.requests += 1;
        let is_silent = session.reply_mode != ReplyMode::On;
        if session.reply_mode == ReplyMode::SkipNext {
            session.reply_mode = ReplyMode::On;
        }
        let mut reply = Reply::new(std::mem::take(&mut session.out), session.is_resp3);
        let before = reply.len();
        if let Err(error) = self.checked(id, args, &mut reply) {
            reply.truncate(before);
            reply.error(error.to_bytes());
            self.stats.errors += 1;
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if is_silent || session.reply_mode == ReplyMode::Off {
            reply.truncate(before);
        }
        session.is_resp3 = reply.is_resp3();
        session.out = reply.into_bytes();
    }

    fn checked(&mut self, id: u64, args: Args<'_>, reply: &mut Reply) -> Outcome {
        let entry = registry().resolve(&args).ok_or_else(|| Error::unknown_command(&args))?;
        let is_subcommand_missing = entry.handler.is_none() && args.len() > 1;
        if is_subcommand_missing {
            return Err(Error::unknown_subcommand(&args));
        }
        let handler = entry.handler.filter(|_| entry.spec.takes(args.len()));
        let handler = handler.ok_or(Error::Arity(entry.spec.full_name))?;
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(()) };
        if !session.is_authenticated && !entry.spec.flags.has(Flags::NO_AUTH) {
            return Err(NO_AUTH);
        }
        session.last_command = entry.spec.full_name;
        if !entry.spec.flags.has(Flags::KEEPS_CACHING) {
            session.tracking.iter_mut().for_each(|tracking| tracking.caching = false);
        }
        let is_restricted = session.is_subscriber() && !session.is_resp3;
        self.permit(id, entry, args)?;
        if is_restricted && !entry.spec.flags.has(Flags::SUBSCRIBED) {
            return Err(Error::Text(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                entry.spec.full_name
            )));
        }
        handler(&mut Call { core: self, id, args, reply, entry })
    }

    fn permit(&mut self, id: u64, entry: &'static Entry, args: Args<'_>) -> Outcome {
        let Some(session) = self.sessions.get(&id) else { return Ok(()) };
        if session.user.is_unrestricted() || entry.spec.flags.has(Flags::NO_AUTH) {
            return Ok(());
        }
        let user = session.user.clone();
        let Err(denial) =
            user.check(&Request { place: entry.id, spec: entry.spec, args, db: 0, databases: 1 })
        else {
            return Ok(());
        };
        let object = denial.object(entry.spec.full_name, &args).to_vec();
        self.note_refusal(id, denial.into(), object, user.name.clone());
        Err(Error::Bytes([b"NOPERM ", &denial.text(&user.name, entry.spec.full_name)[..]].concat()))
    }

    /// A client as a line of CLIENT LIST, without a line break; empty if there is no such client.
    pub fn client_line(&self, id: u64) -> Vec<u8> {
        let Some(session) = self.sessions.get(&id) else { return Vec::new() };
        let seconds = |since_ms: i64| (self.now_ms - since_ms).max(0) / 1000;
        let Session { peer, local, fd, .. } = session;
        let mut out = format!("id={id} addr={peer} laddr={local} fd={fd} name=").into_bytes();
        out.extend(&session.name);
        let flags = match (session.is_subscriber(), session.is_closing) {
            (true, _) => "P",
            (_, true) => "c",
            _ => "N",
        };
        out.extend(
            format!(
                " age={} idle={} flags={flags} db=0 sub={} psub={} ssub=0 multi=-1 watch=0 qbuf={} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem={} tot-mem={} events=r cmd={} user={} redir=-1 resp={} lib-name=",
                seconds(session.created_ms),
                seconds(session.active_ms),
                session.channels.len(),
                session.patterns.len(),
                session.pending_bytes,
                session.out.len(),
                session.pending_bytes + session.out.capacity(),
                session.last_command,
                String::from_utf8_lossy(&session.user.name),
                if session.is_resp3 { 3 } else { 2 },
            )
            .bytes(),
        );
        out.extend(&session.client_library[0]);
        out.extend(b" lib-ver=");
        out.extend(&session.client_library[1]);
        out.extend(
            format!(
                " io-thread=0 tot-net-in={} tot-net-out={} tot-cmds={}",
                session.input_bytes, session.output_bytes, session.requests
            )
            .bytes(),
        );
        out
    }

    /// Notes in the log that something was refused.
    pub fn note_refusal(&mut self, id: u64, reason: Reason, object: Vec<u8>, user: Vec<u8>) {
        let client = self.client_line(id);
        let event = Event { reason, origin: Origin::Toplevel, object, user, client };
        self.access.log.add(event, self.access.log_max, self.now_ms);
    }

    /// Takes the state machine's outputs: events go to subscribers, the rest is returned, for the code that
    /// has the sockets.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        let mut rest = Vec::new();
        for output in self.sentinel.take_outputs() {
            match output {
                Output::Publish { channel, message } => self.publish(channel.as_bytes(), message.as_bytes()),
                other => rest.push(other),
            }
        }
        rest
    }

    /// Delivers an event.
    pub fn publish(&mut self, channel: &[u8], message: &[u8]) {
        for session in self.sessions.values_mut().filter(|session| session.is_subscriber()) {
            super::pubsub::deliver(session, channel, message);
            if session.out.len() > CLIENT_OUTPUT_MAX_BYTES {
                session.is_killed = true;
            }
        }
    }

    /// Closes the sessions of users that are gone, and gives the others their users' rights of now.
    pub fn users_changed(&mut self) {
        *self.user_lines.borrow_mut() = self.access.config_lines();
        for session in self.sessions.values_mut() {
            match self.access.users.get(&session.user.name) {
                Some(user) => session.user = user.clone(),
                None => session.is_killed = true,
            }
            let user = &session.user;
            let may = |channel: &Vec<u8>, is_pattern| user.allows_channel(channel, is_pattern);
            let keeps = session.channels.iter().all(|channel| may(channel, false))
                && session.patterns.iter().all(|pattern| may(pattern, true));
            session.is_killed |= !keeps;
        }
    }
}
