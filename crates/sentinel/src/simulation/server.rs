//! A server: its data set, its stream and its replicas by the rules of `martlet_replication`, and what
//! Sentinels see of it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use martlet_client::resp::Reply;
use martlet_replication::acks::{self, Getack, GetackRound, ReplicaAck};
use martlet_replication::failover::{Failover, State};
use martlet_replication::history::History;

use super::data::{Backlog, Command, Data, Entry, Truth};

/// How long a replica may have been silent to be relied on, in milliseconds.
const MOST_LAG_MS: i64 = 10_000;

/// A connection of a Sentinel.
pub(super) type Peer = usize;
/// A connection of a replica to its primary.
pub(super) type WireId = usize;

/// A replica as its primary sees it.
pub(super) struct Session {
    pub wire: WireId,
    pub ip: String,
    pub standing: ReplicaAck,
    /// It waits for a full sync to begin.
    pub waits: bool,
    /// The stream waits until it says that it has its data set.
    pub awaits_ack: bool,
    /// Up to where it was sent the stream.
    pub at: u64,
    pub heard_ms: i64,
}

/// How far the link to the primary has come.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Handshake,
    Sync,
    Stream,
}

/// The link to the primary.
pub(super) struct Link {
    pub wire: WireId,
    pub stage: Stage,
    pub heard_ms: i64,
    pub told_ms: i64,
    /// Received entries that are not applied yet.
    pub waiting: Vec<Entry>,
}

/// A file that was saved.
#[derive(Clone)]
pub(super) struct File {
    pub data: Data,
    pub place: Option<(String, u64)>,
}

/// A reply that waits for replicas.
#[derive(Copy, Clone, Debug)]
pub(super) struct Held {
    pub position: u64,
    pub op: usize,
    /// The result of a read.
    pub found: Option<usize>,
}

/// See the [module docs](self).
pub(super) struct Server {
    pub index: usize,
    pub ip: String,
    pub is_up: bool,
    pub life: u64,
    /// The server that it follows; kept over a restart.
    pub primary: Option<String>,
    pub subscribers: BTreeSet<Peer>,
    pub history: History,
    pub data: Data,
    pub backlog: Backlog,
    /// The stream is recorded for replicas.
    pub is_followed: bool,
    pub replicas: Vec<Session>,
    pub link: Option<Link>,
    pub retry_ms: i64,
    link_lost_ms: Option<i64>,
    pub alone_since_ms: i64,
    pub pinged_ms: i64,
    pub files: Vec<File>,
    /// Counts recorded entries, as the stream's offset does, but never restarts.
    pub position: u64,
    pub confirmed: u64,
    questions: GetackRound,
    pub held: Vec<Held>,
    pub failover: Failover<String>,
    sync_replicas: usize,
}

/// An effect of a Sentinel's request.
pub(super) enum Effect {
    /// Nothing but the reply.
    None,
    /// A message to all subscribers.
    Publish(Vec<u8>),
    /// Other connections are closed.
    CloseOthers,
    /// It is to follow another server, or none.
    Follow(Option<String>),
}

impl Server {
    pub fn new(
        index: usize,
        ip: String,
        primary: Option<String>,
        id: String,
        sync_replicas: usize,
    ) -> Server {
        Server {
            index,
            ip,
            is_up: true,
            life: 1,
            primary,
            subscribers: BTreeSet::new(),
            history: History::new(id),
            data: Data::default(),
            backlog: Backlog::default(),
            is_followed: false,
            replicas: Vec::new(),
            link: None,
            retry_ms: 0,
            link_lost_ms: None,
            alone_since_ms: 0,
            pinged_ms: 0,
            files: Vec::new(),
            position: 0,
            confirmed: 0,
            questions: GetackRound::default(),
            held: Vec::new(),
            failover: Failover::default(),
            sync_replicas,
        }
    }

    pub fn offset(&self) -> u64 {
        self.backlog.end
    }

    /// Whether its link to its primary is up.
    pub fn is_linked(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.stage == Stage::Stream)
    }

    /// Whether the stream is kept for replicas that ask for it.
    pub fn is_kept(&self) -> bool {
        self.is_followed || self.primary.is_some()
    }

    /// How many replicas replies wait for.
    pub fn wanted(&self) -> usize {
        if self.primary.is_none() { self.sync_replicas } else { 0 }
    }

    /// Whether writes are refused for lack of replicas.
    pub fn has_few_replicas(&self, now_ms: i64) -> bool {
        let is_good = |one: &&Session| one.standing.is_served() && now_ms - one.heard_ms <= MOST_LAG_MS;
        self.replicas.iter().filter(is_good).count() < self.wanted()
    }

    /// Records and applies what happens here.
    pub fn record(&mut self, command: Command, truth: &mut Truth) {
        self.position += command.bytes();
        if self.is_kept() {
            self.backlog.append(command);
        }
        self.take(command, truth);
    }

    /// Applies the primary's entries up to this number.
    pub fn apply(&mut self, count: usize, truth: &mut Truth) {
        let Some(link) = self.link.as_mut().filter(|link| link.stage == Stage::Stream) else { return };
        let count = count.min(link.waiting.len());
        let entries: Vec<Entry> = link.waiting.drain(..count).collect();
        for Entry { end, command } in entries {
            self.position += command.bytes();
            self.backlog.append(command);
            if end != self.backlog.end {
                truth.violate(format!("{} is at {} and gets what ends at {end}", self.ip, self.backlog.end));
            }
            self.take(command, truth);
        }
    }

    fn take(&mut self, command: Command, truth: &mut Truth) {
        self.data.apply(command, truth);
        if let Command::Write(number) = command {
            truth.note_had(self.index, number);
        }
        self.note_name(truth);
    }

    /// Has the state compared with all others of this name.
    pub fn note_name(&self, truth: &mut Truth) {
        if self.primary.is_none() && self.is_followed || self.history.has_place() {
            truth.note_name(&self.ip, &self.history, self.offset(), &self.data);
        }
    }

    /// Follows another server, or none, from now on; received entries are applied first.
    pub fn follow(&mut self, primary: Option<String>, new_id: String, truth: &mut Truth, now_ms: i64) {
        self.apply(usize::MAX, truth);
        match (&primary, &self.primary) {
            (Some(_), before) => self.history.follow(before.is_none(), true),
            (None, Some(_)) => {
                self.alone_since_ms = now_ms;
                self.history.promote(new_id, self.offset());
            }
            (None, None) => {}
        }
        self.primary = primary;
        self.drop_link(now_ms);
        self.link_lost_ms = None;
        self.retry_ms = now_ms;
        self.questions.forget();
        if self.primary.is_some() {
            // Their connections end without a reply.
            self.held.clear();
        }
        self.note_name(truth);
    }

    /// The link has ended, however.
    pub fn drop_link(&mut self, now_ms: i64) {
        if self.link.take().is_some_and(|link| link.stage == Stage::Stream) {
            self.link_lost_ms = Some(now_ms);
        }
    }

    /// The data set is the primary's, of this place.
    pub fn arrive(&mut self, id: String, offset: u64, data: Data, truth: &mut Truth) {
        self.data = data;
        self.backlog = Backlog::at(offset);
        self.is_followed = true;
        self.history.arrive(id);
        for number in &self.data.writes {
            truth.note_had(self.index, *number);
        }
        self.note_name(truth);
    }

    /// Asks replicas whether they have everything, if a client waits for that.
    pub fn ask(&mut self, truth: &mut Truth) {
        let may_ask = self.questions.may_ask(self.wanted(), self.confirmed, self.position);
        if self.held.is_empty() || !may_ask || !self.is_kept() {
            return;
        }
        let offset = self.offset();
        self.record(Command::Ask, truth);
        self.questions.ask(Getack { position: self.position, offset });
    }

    /// A replica has said how far it is.
    pub fn note_ack(&mut self, wire: WireId, offset: u64, now_ms: i64) {
        let Some(session) = self.replicas.iter_mut().find(|session| session.wire == wire) else { return };
        session.standing.acked = session.standing.acked.max(offset);
        session.awaits_ack = false;
        session.heard_ms = now_ms;
        let acked = acks::acked_by(self.standings(), self.wanted());
        if let Some(confirmed) = self.questions.answer(acked) {
            self.confirmed = self.confirmed.max(confirmed);
        }
    }

    /// A replica is there.
    pub fn note_alive(&mut self, wire: WireId, now_ms: i64) {
        let its = self.replicas.iter_mut().filter(|session| session.wire == wire);
        its.for_each(|session| session.heard_ms = now_ms);
    }

    fn standings(&self) -> impl Iterator<Item = ReplicaAck> {
        self.replicas.iter().map(|session| session.standing)
    }

    /// A replica that may take over and has all.
    pub fn synced_target(&self) -> Option<String> {
        let is_wanted = |session: &&Session| self.failover.accepts(|target| *target == session.ip);
        let mut wanted = self.replicas.iter().filter(is_wanted);
        wanted.find(|session| session.standing.has(self.offset())).map(|session| session.ip.clone())
    }

    /// Saves what there is.
    pub fn save(&mut self) {
        let has_place = if self.primary.is_some() { self.history.has_place() } else { self.is_followed };
        let place = has_place.then(|| (self.history.id().to_owned(), self.offset()));
        self.files.push(File { data: self.data.clone(), place });
    }

    /// Ends, and forgets all but its files.
    pub fn crash(&mut self) {
        self.is_up = false;
        self.subscribers.clear();
        self.replicas.clear();
        self.held.clear();
        self.link = None;
        self.failover = Failover::default();
    }

    /// Starts from a file, or from nothing.
    pub fn start(&mut self, file: Option<File>, new_id: String, truth: &mut Truth, now_ms: i64) {
        self.is_up = true;
        self.life += 1;
        self.history = History::new(new_id);
        self.questions.forget();
        // Loaded data needs confirmation, too.
        self.confirmed = self.position;
        self.position += 1;
        self.link_lost_ms = None;
        self.retry_ms = now_ms;
        self.alone_since_ms = now_ms;
        let File { data, place } = file.unwrap_or(File { data: Data::default(), place: None });
        self.data = data;
        self.is_followed = place.is_some();
        let (id, offset) = place.unwrap_or_default();
        self.backlog = Backlog::at(offset);
        if self.is_followed {
            self.history.resume(id, offset, self.primary.is_some());
        }
        self.note_name(truth);
    }

    /// Answers a request of a Sentinel.
    pub fn answer(&mut self, peer: Peer, request: &[Vec<u8>], now_ms: i64) -> (Reply, Effect) {
        let ok = || Reply::Simple(b"OK".to_vec());
        let word = |index: usize| request.get(index).map(|word| String::from_utf8_lossy(word).into_owned());
        match word(0).unwrap_or_default().as_str() {
            "PING" => (Reply::Simple(b"PONG".to_vec()), Effect::None),
            "INFO" => (Reply::Bulk(self.info(now_ms).into_bytes()), Effect::None),
            "PUBLISH" => (Reply::Int(1), Effect::Publish(request.get(2).cloned().unwrap_or_default())),
            "SUBSCRIBE" => {
                self.subscribers.insert(peer);
                let parts = [b"subscribe".to_vec(), request.get(1).cloned().unwrap_or_default()];
                let mut parts: Vec<Reply> = parts.into_iter().map(Reply::Bulk).collect();
                parts.push(Reply::Int(1));
                (Reply::Array(parts), Effect::None)
            }
            "SLAVEOF" if self.failover.state() != State::None => {
                (Reply::Error(b"ERR REPLICAOF not allowed while failing over.".to_vec()), Effect::None)
            }
            "SLAVEOF" => (ok(), Effect::Follow(word(1).filter(|host| host != "NO"))),
            "EXEC" => (Reply::Array(Vec::new()), Effect::CloseOthers),
            _ => (ok(), Effect::None),
        }
    }

    fn info(&self, now_ms: i64) -> String {
        let mut text = format!("# Server\r\nrun_id:{:040x}\r\n# Replication\r\n", self.run_number());
        match &self.primary {
            None => {
                text.push_str("role:master\r\n");
                for (index, Session { ip, .. }) in self.replicas.iter().enumerate() {
                    let _ = write!(text, "slave{index}:ip={ip},port=6379,state=online\r\n");
                }
            }
            Some(primary) => {
                let is_linked = self.is_linked();
                let status = if is_linked { "up" } else { "down" };
                let _ = write!(
                    text,
                    "role:slave\r\nmaster_host:{primary}\r\nmaster_port:6379\r\nmaster_link_status:{status}\r\n"
                );
                if !is_linked {
                    let seconds = self.link_lost_ms.map_or(-1, |lost_ms| (now_ms - lost_ms) / 1_000);
                    let _ = write!(text, "master_link_down_since_seconds:{seconds}\r\n");
                }
                let offset = if self.history.has_place() { self.offset() } else { 0 };
                let _ = write!(text, "slave_repl_offset:{offset}\r\nslave_priority:100\r\n");
            }
        }
        text
    }

    /// Each life has its own run id.
    fn run_number(&self) -> u64 {
        ((self.index + 1) as u64) << 32 | self.life
    }
}
