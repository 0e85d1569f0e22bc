//! The list of connected clients, as CLIENT LIST and CLIENT KILL see it from any thread.
//!
//! A client's own thread writes its [`ClientInfo`]; the others read it or send that thread mail.

pub mod line;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex};

use martlet_base::sync::lock;
use martlet_engine::Waiter;
use martlet_net::Token;

/// Approximate bytes of the name of a channel, key or prefix in the tables of clients.
const NAME_BYTES: usize = 64;

/// Facts that do not change often; behind a mutex.
#[derive(Clone, Debug, Default)]
pub struct ClientDetails {
    /// CLIENT SETNAME.
    pub name: Vec<u8>,
    /// CLIENT SETINFO lib-name.
    pub lib_name: Vec<u8>,
    /// CLIENT SETINFO lib-ver.
    pub lib_version: Vec<u8>,
    /// The user that it is logged in as.
    pub user: Vec<u8>,
}

/// Where a client is served. Whoever writes mail for it reads its thread first.
struct Place {
    thread: AtomicUsize,
    token: AtomicU64,
}

impl Place {
    /// No connection's.
    const UNDER_WAY: Token = Token(u64::MAX);
}

/// One client as others see it.
pub struct ClientInfo {
    /// Number, growing by one from 1.
    pub id: u64,
    place: Place,
    /// Address and port of the peer, or the path of the unix socket.
    pub peer: String,
    /// Address and port here.
    pub local: String,
    /// File descriptor.
    pub fd: i32,
    /// Came over a unix socket.
    pub is_unix: bool,
    /// When it connected, Unix milliseconds.
    pub created_ms: i64,
    /// Rarely changed attributes.
    pub details: Mutex<ClientDetails>,
    /// Last request, Unix milliseconds.
    pub last_active_ms: AtomicI64,
    /// Selected database.
    pub db: AtomicUsize,
    /// Protocol version.
    pub resp: AtomicU32,
    /// Bytes in the query buffer, and its capacity.
    pub query_bytes: AtomicUsize,
    /// Capacity of the query buffer, bytes.
    pub query_capacity: AtomicUsize,
    /// Bytes of replies that have not been sent.
    pub output_bytes: AtomicUsize,
    /// The client that gets invalidations in its place; 0 for none, -1 if it does not track.
    pub redirect: AtomicI64,
    /// Queued commands of MULTI; -1 outside.
    pub multi: AtomicI64,
    /// Bytes held by MULTI's queue.
    pub multi_bytes: AtomicUsize,
    /// Bytes of memory that the field sets take that it has prepared.
    pub fieldset_bytes: AtomicUsize,
    /// Watched keys.
    pub watching: AtomicUsize,
    /// Prefixes of CLIENT TRACKING.
    pub prefixes: AtomicUsize,
    /// Bytes of memory that it holds, as its thread last counted them.
    pub counted_bytes: AtomicUsize,
    /// Channels, patterns and shard channels that it is subscribed to.
    pub subscriptions: [AtomicUsize; 3],
    /// Id of the last command, plus one.
    pub last_command: AtomicUsize,
    /// Bytes received, bytes sent, commands run.
    pub net_input_bytes: AtomicU64,
    /// Bytes sent to it.
    pub net_output_bytes: AtomicU64,
    /// Commands that it has run.
    pub commands: AtomicU64,
    /// Flags, see [`flag`].
    pub flags: AtomicU32,
    /// It came from one of `priority-subnets`.
    pub is_prioritized: bool,
    /// CLIENT KILL has chosen it.
    pub killed: AtomicBool,
    /// The waiter of a blocked client, so that any thread can end the wait.
    pub waiter: Mutex<Option<Arc<Waiter>>>,
}

impl ClientInfo {
    /// A client that has just connected; `ends` are the peer's address, the own one, and whether it is a unix
    /// socket.
    pub fn new(
        id: u64,
        thread: usize,
        token: Token,
        ends: (String, String, bool),
        fd: i32,
        created_ms: i64,
        details: ClientDetails,
    ) -> ClientInfo {
        let (peer, local, is_unix) = ends;
        ClientInfo {
            id,
            place: Place { thread: AtomicUsize::new(thread), token: AtomicU64::new(token.0) },
            peer,
            local,
            fd,
            is_unix,
            created_ms,
            details: Mutex::new(details),
            last_active_ms: AtomicI64::new(created_ms),
            db: AtomicUsize::new(0),
            resp: AtomicU32::new(2),
            query_bytes: AtomicUsize::new(0),
            query_capacity: AtomicUsize::new(0),
            output_bytes: AtomicUsize::new(0),
            redirect: AtomicI64::new(-1),
            multi: AtomicI64::new(-1),
            multi_bytes: AtomicUsize::new(0),
            fieldset_bytes: AtomicUsize::new(0),
            watching: AtomicUsize::new(0),
            prefixes: AtomicUsize::new(0),
            counted_bytes: AtomicUsize::new(0),
            subscriptions: Default::default(),
            last_command: AtomicUsize::new(0),
            net_input_bytes: AtomicU64::new(0),
            net_output_bytes: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            flags: AtomicU32::new(0),
            is_prioritized: false,
            killed: AtomicBool::new(false),
            waiter: Mutex::default(),
        }
    }

    /// The I/O thread that owns it, or is about to.
    pub fn thread(&self) -> usize {
        self.place.thread.load(Ordering::SeqCst)
    }

    /// The connection in that thread, to be read after [`ClientInfo::thread`]. A client that has moved since,
    /// or is under way, is not at this place: that thread finds it by its id.
    pub fn token(&self) -> Token {
        Token(self.place.token.load(Ordering::SeqCst))
    }

    /// Notes that the client goes to `thread`, where it has no connection yet.
    pub fn leave_for(&self, thread: usize) {
        self.place.token.store(Place::UNDER_WAY.0, Ordering::SeqCst);
        self.place.thread.store(thread, Ordering::SeqCst);
    }

    /// Notes the client's connection in its new thread. Returns whether it was killed before others could
    /// know of that.
    #[must_use]
    pub fn arrive_as(&self, token: Token) -> bool {
        self.place.token.store(token.0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.killed.load(Ordering::SeqCst)
    }

    /// Bytes of memory that the client holds apart from its connection: MULTI's queue, field sets, and
    /// roughly its watched keys, prefixes and subscriptions.
    pub fn session_bytes(&self) -> usize {
        let channels: usize = self.subscriptions.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        let names = self.watching.load(Ordering::Relaxed) + self.prefixes.load(Ordering::Relaxed) + channels;
        let kept = self.multi_bytes.load(Ordering::Relaxed) + self.fieldset_bytes.load(Ordering::Relaxed);
        size_of::<ClientInfo>() + kept + names * NAME_BYTES
    }
}

/// Bits of [`ClientInfo::flags`].
pub mod flag {
    /// In MULTI.
    pub const MULTI: u32 = 1;
    /// Blocked.
    pub const BLOCKED: u32 = 1 << 1;
    /// A watched key has changed.
    pub const DIRTY_CAS: u32 = 1 << 2;
    /// Closes after its reply.
    pub const CLOSING: u32 = 1 << 3;
    /// MONITOR.
    pub const MONITOR: u32 = 1 << 4;
    /// CLIENT NO-EVICT.
    pub const NO_EVICT: u32 = 1 << 5;
    /// CLIENT NO-TOUCH.
    pub const NO_TOUCH: u32 = 1 << 6;
    /// Held by CLIENT PAUSE; counted among the blocked.
    pub const POSTPONED: u32 = 1 << 7;
    /// Has subscriptions.
    pub const PUBSUB: u32 = 1 << 8;
    /// CLIENT TRACKING.
    pub const TRACKING: u32 = 1 << 9;
    /// With BCAST.
    pub const TRACKING_BCAST: u32 = 1 << 10;
    /// The client that it redirects to is gone.
    pub const TRACKING_BROKEN: u32 = 1 << 11;
    /// A replica.
    pub const REPLICA: u32 = 1 << 12;
    /// The primary that this server copies.
    pub const PRIMARY: u32 = 1 << 13;
    /// CLIENT CAPA redirect: the client asks for the primary's address.
    pub const FOLLOWS_REDIRECTS: u32 = 1 << 14;
    /// READONLY: may read from a replica all the same.
    pub const READONLY: u32 = 1 << 15;
    /// CLIENT IMPORT-SOURCE.
    pub const IMPORT_SOURCE: u32 = 1 << 16;
    /// Brings slots of another node.
    pub const SLOT_IMPORT: u32 = 1 << 17;
    /// A replica's connection for its data set alone.
    pub const RDB_CHANNEL: u32 = 1 << 18;
}

/// See the [module docs](self).
pub struct Clients {
    next_id: AtomicU64,
    all: Mutex<BTreeMap<u64, Arc<ClientInfo>>>,
    /// Those from `priority-subnets`.
    prioritized: AtomicUsize,
    /// Connections per thread, those under way to it included.
    assigned: Box<[AtomicUsize]>,
}

impl Clients {
    /// No clients yet, on `threads` threads.
    pub fn new(threads: usize) -> Clients {
        Clients {
            next_id: AtomicU64::new(0),
            all: Mutex::default(),
            prioritized: AtomicUsize::new(0),
            assigned: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    /// The one with the fewest connections of the first `threads` threads.
    pub fn least_loaded(&self, threads: usize) -> usize {
        (0..threads).min_by_key(|&i| self.assigned[i].load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Notes that a thread has one connection more (1) or less (-1).
    pub fn assigned(&self, thread: usize, change: isize) {
        self.assigned[thread].fetch_add(change as usize, Ordering::Relaxed);
    }

    /// Connections of a thread.
    pub fn of_thread(&self, thread: usize) -> usize {
        self.assigned[thread].load(Ordering::Relaxed)
    }

    /// A fresh id.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Adds a client.
    pub fn add(&self, client: Arc<ClientInfo>) {
        self.prioritized.fetch_add(usize::from(client.is_prioritized), Ordering::Relaxed);
        lock(&self.all).insert(client.id, client);
    }

    /// Removes a client.
    pub fn remove(&self, id: u64) {
        let removed = lock(&self.all).remove(&id);
        let is_prioritized = removed.is_some_and(|client| client.is_prioritized);
        self.prioritized.fetch_sub(usize::from(is_prioritized), Ordering::Relaxed);
    }

    /// The client with this id.
    pub fn get(&self, id: u64) -> Option<Arc<ClientInfo>> {
        lock(&self.all).get(&id).cloned()
    }

    /// All clients by id.
    pub fn all(&self) -> Vec<Arc<ClientInfo>> {
        lock(&self.all).values().cloned().collect()
    }

    /// How many of them came from `priority-subnets`.
    pub fn prioritized_count(&self) -> usize {
        self.prioritized.load(Ordering::Relaxed)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        lock(&self.all).len()
    }
}

/// A server that can end clients' connections.
pub trait Disconnects {
    /// Ends the connection of a client that is marked as killed: from here on it is in no list and is not
    /// served; its thread closes the connection.
    fn disconnect(&self, client: &ClientInfo);
}
