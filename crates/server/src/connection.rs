//! A connection: its buffers and its session. Owned by one I/O thread.
//!
//! A connection at rest holds no buffers: input is parsed where the backend received it, and output buffers
//! are borrowed from the thread's pool.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_acl::{User, Users};
use martlet_base::limits::LONG_ARGUMENT_MIN_BYTES;
use martlet_base::publish::Follower;
use martlet_command::transaction::Queue;
use martlet_command::{Block, Fieldsets};
use martlet_engine::{Waiter, WatchFlag};
use martlet_journal::Position;
use martlet_net::{Buffer, Token};
use martlet_protocol::reply::SharedBulk;
use martlet_protocol::request::Partial;

use crate::batch::ParsedRequest;
use crate::clients::ClientInfo;
use crate::pubsub::subscriptions::Subscriptions;
use crate::registry::Entry;
use crate::replication::primary::Phase;
use crate::replication::source::{ReplicaLink, Taker};
use crate::scripting::debugging::state::{DebugMode, Debugged};
use crate::slow_path::SessionFlags;
use crate::tracking::table::TrackingState;

/// The buffers of a connection that the backend has.
#[derive(Default)]
pub struct InFlight {
    /// In order: the length, and the capacity unless others have it, too.
    buffers: VecDeque<(usize, Option<usize>)>,
    /// The sum of the lengths.
    pub bytes: usize,
    /// The sum of the capacities.
    capacity: usize,
    /// The sum of the lengths of those that others have.
    shared_bytes: usize,
}

impl InFlight {
    /// Notes one that the backend gets.
    pub fn push(&mut self, buffer: &Buffer) {
        let capacity = match buffer {
            Buffer::Owned(bytes) => Some(bytes.capacity()),
            Buffer::Shared(_) | Buffer::Part(_) => None,
        };
        self.buffers.push_back((buffer.len(), capacity));
        self.bytes += buffer.len();
        match capacity {
            Some(capacity) => self.capacity += capacity,
            None => self.shared_bytes += buffer.len(),
        }
    }

    /// Notes that the oldest was sent, or has failed.
    pub fn pop(&mut self) {
        let Some((bytes, capacity)) = self.buffers.pop_front() else { return };
        self.bytes -= bytes;
        match capacity {
            Some(capacity) => self.capacity -= capacity,
            None => self.shared_bytes -= bytes,
        }
    }
}

/// Replies up to this length count for no connection.
const SHARED_OUTPUT_MAX_BYTES: usize = 16 * 1024;

/// CLIENT REPLY.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// Replies are sent.
    #[default]
    On,
    /// They are not.
    Off,
    /// The next one is not.
    SkipNext,
    /// This one is not.
    SkipThis,
}

/// MULTI's queue.
#[derive(Default)]
pub struct Transaction {
    /// The queued commands.
    pub queue: Queue<&'static Entry>,
    /// A command could not be queued: EXEC will refuse.
    pub aborted: bool,
    /// Flags of the queued commands, or-ed.
    pub writes: bool,
    /// One of them is refused when memory is full.
    pub grows: bool,
    /// One of them runs a script.
    pub runs_scripts: bool,
    /// The database that the next command will work on, after the SELECTs of the queue.
    pub db: usize,
}

/// A watched key.
pub struct Watched {
    /// Its database.
    pub db: usize,
    /// Its name.
    pub key: Vec<u8>,
}

/// A client's own settings.
pub struct Session {
    /// Selected database.
    pub db: usize,
    /// Speaks RESP3.
    pub resp3: bool,
    /// The user that it is logged in as, or the default one.
    pub user: Arc<User>,
    /// The generation of the list of users that `user` is of.
    pub users_generation: u64,
    /// Has authenticated, or need not.
    pub authenticated: bool,
    /// CLIENT REPLY.
    pub reply_mode: ReplyMode,
    /// MULTI.
    pub transaction: Option<Transaction>,
    /// WATCHed keys.
    pub watched: Vec<Watched>,
    /// Raised when one of them changes.
    pub watch_flag: Arc<WatchFlag>,
    /// What requires checks of each request.
    pub flags: SessionFlags,
    /// ASKING has just been said: it holds for the request after it.
    pub has_just_asked: bool,
    /// Channels and patterns, once it has subscribed to one.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// CLIENT TRACKING, while it is on.
    pub tracking: Option<Box<TrackingState>>,
    /// Its prepared field sets for HIMPORT.
    pub fieldsets: Fieldsets,
    /// Replicas have the request that is run, as it has waited for.
    pub is_replicated: bool,
    /// SCRIPT DEBUG.
    pub debug_mode: DebugMode,
    /// The slots that it brings.
    pub import: Option<crate::cluster::slot_migration::state::Import>,
    /// It is a connection of another node of the cluster.
    pub peer: Option<Box<crate::cluster::slot_migration::state::NodePeer>>,
}

impl Session {
    /// The database that the next request will work on: within MULTI, the one that the queue selects.
    pub fn upcoming_db(&self) -> usize {
        self.transaction.as_ref().map_or(self.db, |transaction| transaction.db)
    }

    /// The session of a new connection.
    pub fn new(users: &Follower<Users>) -> Session {
        let user = users.default_user();
        let authenticated = user.is_open();
        let mut session = Session {
            db: 0,
            resp3: false,
            user: user.clone(),
            users_generation: users.generation(),
            authenticated,
            reply_mode: ReplyMode::On,
            transaction: None,
            watched: Vec::new(),
            watch_flag: Arc::default(),
            flags: if authenticated { SessionFlags::default() } else { SessionFlags::UNAUTHENTICATED },
            has_just_asked: false,
            subscriptions: None,
            tracking: None,
            fieldsets: Fieldsets::default(),
            is_replicated: false,
            debug_mode: DebugMode::Off,
            import: None,
            peer: None,
        };
        session.become_user(user.clone());
        session
    }

    /// Has the user's rights from now on.
    pub fn become_user(&mut self, user: Arc<User>) {
        self.flags.set(SessionFlags::RESTRICTED, !user.is_unrestricted());
        self.user = user;
    }

    /// Whether the reply to the command that has just run is to be sent (CLIENT REPLY). To be asked once for
    /// each.
    pub fn shows_reply(&mut self) -> bool {
        match self.reply_mode {
            ReplyMode::On => return true,
            ReplyMode::Off => {}
            // This was CLIENT REPLY SKIP itself.
            ReplyMode::SkipNext => self.reply_mode = ReplyMode::SkipThis,
            ReplyMode::SkipThis => {
                self.reply_mode = ReplyMode::On;
                self.flags.set(SessionFlags::REPLY_MODE, false);
            }
        }
        false
    }
}

/// A blocked client's state.
pub struct Blocked {
    /// Its place in the queues.
    pub waiter: Arc<Waiter>,
    /// Its pending wait.
    pub block: Box<Block>,
    /// The command.
    pub command: usize,
    /// How long its request had run until it waited, in nanoseconds.
    pub ns: u64,
}

/// Why nothing is read from a connection's input for now.
pub enum Suspended {
    /// A blocking command waits.
    Blocked(Box<Blocked>),
    /// The request runs again later: CLIENT PAUSE, or a key that is under way to another server.
    Paused,
    /// MIGRATE waits for the other server. Its request has run for `ns` nanoseconds.
    Migrating {
        /// The time.
        ns: u64,
    },
    /// Only until mail has been read: the input continues in the same loop.
    Yields,
    /// Only until the poll is over, or the thread is back at the gate: the request runs again in the same
    /// loop.
    Deferred,
    /// The debugger of its script reads its input.
    Debugging(Box<Debugged>),
}

/// See the [module docs](self).
pub struct Connection {
    /// Its place.
    pub token: Token,
    /// As others see it.
    pub info: Arc<ClientInfo>,
    /// The client's settings.
    pub session: Session,
    /// Input that is not parsed yet, or belongs to an incomplete request.
    pub query: Vec<u8>,
    /// Bytes at the front of `query` that are done with; empty input has none.
    pub query_start: usize,
    /// Nothing is received for now, since requests arrive faster than they run.
    pub is_throttled: bool,
    /// Progress in the incomplete request at `query_start`.
    pub partial: Partial,
    /// The request there, if it was parsed and waits for the end of the poll.
    pub(crate) parsed: Option<Box<ParsedRequest>>,
    /// Replies not handed to the backend yet.
    pub out: Vec<u8>,
    /// Long bulk strings of `out`, in their order: they are not in it.
    pub shared: Vec<SharedBulk>,
    /// Replies handed to the backend.
    pub in_flight: InFlight,
    /// Is in the thread's list of connections to flush.
    pub is_dirty: bool,
    /// The end of its own requests' records.
    pub recorded: Position,
    /// The replication offset behind the records up to this position, once it was needed.
    pub replicated: (Position, Option<u64>),
    /// Bytes of output that have left `out`, so the place of its first byte in all that the client is sent.
    pub gone: u64,
    /// The place up to which output has waited for the disk, or waits.
    pub held: u64,
    /// The place up to which it may leave.
    pub released: u64,
    /// A command has run for it that reads or changes data, since its output waited for replicas last.
    pub reads_data: bool,
    /// A script has run for it in its last slice.
    pub runs_scripts: bool,
    /// Is in the thread's list of connections with input left to process.
    pub is_ready: bool,
    /// Why input waits.
    pub suspended: Option<Suspended>,
    /// Closes once its output has left.
    pub closing: bool,
    /// The peer will send nothing more.
    pub input_ended: bool,
    /// Since when the output has been above the soft limit, Unix milliseconds.
    pub soft_limit_since_ms: Option<i64>,
    /// Last traffic in either direction, Unix milliseconds.
    pub last_active_ms: i64,
    /// How far it had read at the last look, if it reads a long reply from a Unix socket
    /// (`Backend::output_mark`).
    pub output_mark: u64,
    /// The client's listener is a unix socket.
    pub is_unix: bool,
    /// Its TLS handshake is still to be done.
    pub is_handshaking: bool,
    /// Monitors, and so has the output limits of a replica.
    pub is_monitor: bool,
    /// It is a replica's, or about to be.
    pub replica: Option<Box<ReplicaLink>>,
    /// Slots that another node has asked for: the source of its output.
    pub slot_feed: Option<Taker>,
    /// Publishes faster than other threads can follow: continues when they have.
    pub is_flooding: bool,
}

impl Connection {
    /// Whether slots leave or come by it.
    pub fn moves_slots(&self) -> bool {
        self.session.import.is_some() || self.session.peer.is_some()
    }

    /// A request is over: ASKING held for it, unless it was ASKING itself, or is in a transaction.
    pub(crate) fn forget_asking(&mut self) {
        let is_waiting = matches!(self.suspended, Some(Suspended::Paused | Suspended::Deferred));
        let session = &mut self.session;
        if !std::mem::take(&mut session.has_just_asked) && session.transaction.is_none() && !is_waiting {
            session.flags.set(SessionFlags::ASKING, false);
        }
    }

    /// A connection that has just been accepted.
    pub fn new(token: Token, info: Arc<ClientInfo>, session: Session) -> Connection {
        Connection {
            token,
            last_active_ms: info.created_ms,
            output_mark: 0,
            is_unix: info.is_unix,
            info,
            session,
            query: Vec::new(),
            query_start: 0,
            is_throttled: false,
            partial: Partial::default(),
            out: Vec::new(),
            shared: Vec::new(),
            in_flight: InFlight::default(),
            is_dirty: false,
            recorded: 0,
            replicated: (0, Some(0)),
            gone: 0,
            held: 0,
            released: 0,
            reads_data: false,
            runs_scripts: false,
            parsed: None,
            is_ready: false,
            suspended: None,
            closing: false,
            input_ended: false,
            soft_limit_since_ms: None,
            is_handshaking: false,
            is_monitor: false,
            replica: None,
            slot_feed: None,
            is_flooding: false,
        }
    }

    /// The client, if the keys that its present request reads are to be remembered.
    pub(crate) fn tracked_reader(&self) -> Option<u64> {
        let state = self.session.tracking.as_ref()?;
        let options = state.tracker.options;
        let is_out = (options.optin && !state.caching) || (options.optout && state.caching);
        (!options.bcast && !is_out).then_some(self.info.id)
    }

    /// Whether the reply to the last request is still to come.
    pub fn awaits_reply(&self) -> bool {
        matches!(
            self.suspended,
            Some(
                Suspended::Blocked(_)
                    | Suspended::Migrating { .. }
                    | Suspended::Paused
                    | Suspended::Debugging(_)
            )
        )
    }

    /// Whether the connection is a replica's that has completed its handshake.
    pub fn is_replica(&self) -> bool {
        self.replica.as_ref().is_some_and(|link| link.replica.phase() > Phase::Handshake)
    }

    /// Whether the client is on this machine.
    pub fn is_local(&self) -> bool {
        let peer = &self.info.peer;
        self.is_unix || peer.starts_with("127.") || peer.starts_with("[::1]")
    }

    /// Bytes of input that wait to be parsed.
    pub fn query_bytes(&self) -> usize {
        self.query.len() - self.query_start + self.partial.long_bytes()
    }

    /// Bytes of memory that input takes.
    pub fn query_capacity(&self) -> usize {
        self.query.capacity() + self.partial.heap_bytes()
    }

    /// Has an argument of the request that `left` begins received apart, if it is long and incomplete; what
    /// of `left` belongs into the query buffer.
    pub fn set_long_apart<'d>(&mut self, left: &'d [u8]) -> &'d [u8] {
        let long = self.partial.pending().filter(|(len, _)| *len >= LONG_ARGUMENT_MIN_BYTES);
        let Some((before, present)) = long.and_then(|(_, at)| left.split_at_checked(at)) else { return left };
        self.partial.set_apart(present);
        before
    }

    /// The place behind the last byte of output, in all that the client is sent.
    pub fn output_end(&self) -> u64 {
        self.gone + self.out.len() as u64
    }

    /// Whether its output waits for replicas, if they lack something: a statement about data must not be
    /// taken back, and statements leave in their order.
    pub fn awaits_replicas(&self) -> bool {
        self.held > self.released || self.reads_data && self.replica.is_none()
    }

    /// Takes the output that need not wait, piece by piece.
    pub fn take_output(&mut self, mut send: impl FnMut(Buffer)) {
        let waiting =
            if self.held > self.released { self.output_end().saturating_sub(self.released) } else { 0 };
        let rest = self.out.split_off(self.out.len().saturating_sub(waiting as usize));
        let taken = std::mem::replace(&mut self.out, rest);
        self.gone += taken.len() as u64;
        let mut take = |buffer: Buffer| {
            if !buffer.is_empty() {
                self.in_flight.push(&buffer);
                send(buffer);
            }
        };
        if self.shared.is_empty() {
            return take(taken.into());
        }
        let mut begin = 0;
        let leaves = self.shared.partition_point(|bulk| bulk.at <= taken.len());
        for SharedBulk { at, bytes } in self.shared.drain(..leaves) {
            take(taken[begin..at].to_vec().into());
            take(Buffer::Shared(bytes));
            begin = at;
        }
        self.shared.iter_mut().for_each(|bulk| bulk.at -= taken.len());
        take(taken[begin..].to_vec().into());
    }

    /// Drops the output that was not handed to the backend yet.
    pub fn discard_output(&mut self) {
        self.gone = self.output_end();
        self.out = Vec::new();
        self.shared = Vec::new();
    }

    /// Bytes that wait to be sent.
    pub fn output_bytes(&self) -> usize {
        self.out.len() + self.shared_bytes() + self.in_flight.bytes
    }

    fn shared_bytes(&self) -> usize {
        self.shared.iter().map(|bulk| bulk.bytes.len()).sum()
    }

    /// Bytes of replies that lie where their values are stored, and are counted there.
    pub fn reply_bytes_elsewhere(&self) -> usize {
        self.shared_bytes() + self.in_flight.shared_bytes
    }

    /// Publishes the memory of the client's field sets, if that has changed.
    #[inline]
    pub fn count_fieldsets(&self) {
        let bytes = self.session.fieldsets.bytes();
        if self.info.fieldset_bytes.load(Ordering::Relaxed) != bytes {
            self.info.fieldset_bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// Bytes of memory that the connection holds: its own, input, replies unless they are few, and
    /// [`ClientInfo`]'s.
    pub fn heap_bytes(&self) -> usize {
        let replies = match self.output_bytes() {
            // They leave in a buffer that the thread's connections share.
            0..=SHARED_OUTPUT_MAX_BYTES => 0,
            _ => self.out.capacity() + self.in_flight.capacity,
        };
        size_of::<Connection>() + self.query_capacity() + replies + self.info.session_bytes()
    }
}

impl Connection {
    /// Whether it has any subscription.
    pub fn is_subscriber(&self) -> bool {
        self.session.subscriptions.is_some()
    }
}
