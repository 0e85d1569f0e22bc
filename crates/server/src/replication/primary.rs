//! A primary's replicas: their addresses, their offsets, and the time of their full syncs.
//!
//! Invariant: a replica is in the list from its PSYNC until its connection ends. Only the thread of its
//! connection changes its [`Phase`], but for the step from [`Phase::Waits`] to [`Phase::Cut`], by the thread
//! that begins the sync, and that to [`Phase::Online`] of one whose data set comes by another connection, by
//! that connection's thread once it has sent all.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use martlet_base::sync::lock;
use martlet_journal::stream::Reader;
use martlet_persistence::Codec;
use martlet_persistence::save::Contents;
use martlet_replication::acks::{self, ReplicaAck};
use martlet_replication::pauses::Pauses;
use martlet_values::Readable;

use crate::clients::{ClientInfo, Disconnects};
use crate::config::Config;
use crate::persistence::settings::{repl_codec, settings};

/// How far a replica is.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// It is in its handshake.
    Handshake,
    /// It is to open a second connection for its data set.
    AwaitsChannel,
    /// It waits for a full sync to begin.
    Waits,
    /// The data set that it gets is being written, for a diskless sync to its connection.
    Cut,
    /// It is sent a file.
    Bulk,
    /// It is sent the stream, and its data set by another connection.
    BulkAndStream,
    /// It follows the stream.
    Online,
}

impl Phase {
    const ALL: [Phase; 7] = [
        Phase::Handshake,
        Phase::AwaitsChannel,
        Phase::Waits,
        Phase::Cut,
        Phase::Bulk,
        Phase::BulkAndStream,
        Phase::Online,
    ];

    /// As INFO names it.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Handshake | Phase::AwaitsChannel | Phase::Waits | Phase::Cut => "wait_bgsave",
            Phase::Bulk => "send_bulk",
            Phase::BulkAndStream => "send_bulk_and_stream",
            Phase::Online => "online",
        }
    }
}

/// A replica's capabilities (REPLCONF capa).
pub mod capability {
    /// Reads a data set of unknown length.
    pub const EOF: u32 = 1;
    /// Knows that a partial sync may give it a new replication id.
    pub const PSYNC2: u32 = 2;
    /// Takes the data set by a separate connection, as Redis does.
    pub const RDB_CHANNEL: u32 = 4;
    /// Takes the data set by a separate connection, as Valkey does.
    pub const DUAL_CHANNEL: u32 = 8;
    /// Reads every version of the RDB format that this server writes: it is one of its kind.
    pub const MARTLET: u32 = 16;
    /// Wants data sets that LZ4 has compressed as a whole.
    pub const LZ4: u32 = 32;
    /// Wants data sets that Zstd has compressed as a whole.
    pub const ZSTD: u32 = 64;
    /// Reads a stream of commands in compressed frames.
    pub const FRAMES: u32 = 128;
    /// What holds for all connections of one replica.
    pub const OF_SERVER: u32 = MARTLET | LZ4 | ZSTD;

    /// That of a codec.
    pub fn of_codec(codec: martlet_persistence::Codec) -> u32 {
        match codec {
            martlet_persistence::Codec::Lz4 => LZ4,
            martlet_persistence::Codec::Zstd => ZSTD,
        }
    }
}

/// Why a replica waits although a full sync could begin: it reads no version of the RDB format that holds the
/// data.
#[derive(Default)]
pub struct Unreadable {
    /// The line that the log has; `None` if a data set could be sent, as far as known.
    pub why: Option<String>,
    pauses: Pauses,
    /// When it is tried again, Unix milliseconds.
    until_ms: i64,
}

/// A replica as every thread sees it.
pub struct Replica {
    /// Its connection.
    pub client: Arc<ClientInfo>,
    /// Where it listens, as it says.
    pub port: AtomicU32,
    /// Its address, if it says so.
    pub address: Mutex<Option<String>>,
    /// Its capabilities.
    pub capabilities: AtomicU32,
    /// Its version, `0xMMmmpp`; 0 if it does not say.
    pub version: AtomicU32,
    /// It has connected again; this connection has not ended yet.
    is_superseded: AtomicBool,
    /// It wants the data set and not the stream.
    pub is_rdb_only: AtomicBool,
    /// It is a connection for a replica's data set.
    pub is_channel: AtomicBool,
    /// It is the connection for the data set of the replica whose client has this id; 0 for none, or if that
    /// one names this one.
    pub main_client: AtomicU64,
    /// Its data set comes by the connection whose client has this id; 0 for none, or if that one names this
    /// one.
    pub channel_client: AtomicU64,
    /// All of the data set was sent.
    has_sent_all: AtomicBool,
    /// It wants the data set's libraries only, or not even them (REPLCONF rdb-filter-only).
    contents: Mutex<Contents>,
    /// See [`Unreadable`].
    pub unreadable: Mutex<Unreadable>,
    /// It has sent SYNC: it does not learn where in the stream it begins.
    pub has_said_sync: AtomicBool,
    phase: AtomicU8,
    /// Since when it waits for a full sync, Unix milliseconds.
    pub waits_since_ms: AtomicI64,
    /// The replication offset that it has come to.
    pub acked: AtomicU64,
    /// The one up to which its append-only file is on its disk.
    pub acked_on_disk: AtomicU64,
    /// When it said so, or took in something last, Unix milliseconds.
    pub acked_ms: AtomicI64,
}

impl Replica {
    /// One that has just begun to speak.
    pub fn new(client: Arc<ClientInfo>) -> Replica {
        Replica {
            client,
            port: AtomicU32::new(0),
            address: Mutex::default(),
            capabilities: AtomicU32::new(0),
            version: AtomicU32::new(0),
            is_superseded: AtomicBool::new(false),
            is_rdb_only: AtomicBool::new(false),
            is_channel: AtomicBool::new(false),
            main_client: AtomicU64::new(0),
            channel_client: AtomicU64::new(0),
            has_sent_all: AtomicBool::new(false),
            contents: Mutex::new(Contents::ALL),
            unreadable: Mutex::default(),
            has_said_sync: AtomicBool::new(false),
            phase: AtomicU8::new(Phase::Handshake as u8),
            waits_since_ms: AtomicI64::new(0),
            acked: AtomicU64::new(0),
            acked_on_disk: AtomicU64::new(0),
            acked_ms: AtomicI64::new(0),
        }
    }

    /// How far it is.
    pub fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.phase.load(Ordering::Acquire)) % Phase::ALL.len()]
    }

    /// Says how far it is.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// The weight of its acknowledgements.
    pub fn ack(&self) -> ReplicaAck {
        ReplicaAck {
            is_online: self.phase() == Phase::Online,
            is_leaving: self.client.killed.load(Ordering::Acquire),
            is_superseded: self.is_superseded.load(Ordering::Acquire),
            acked: self.acked.load(Ordering::Acquire),
        }
    }

    /// Whether it is a connection for another one's data set.
    pub fn is_rdb_channel(&self) -> bool {
        self.is_channel.load(Ordering::Relaxed) || self.names_main()
    }

    /// Whether it has said whose data set it is for.
    pub fn names_main(&self) -> bool {
        self.main_client.load(Ordering::Relaxed) != 0
    }

    /// Whether its data set comes by another connection, and is not there yet.
    pub fn is_main_channel(&self) -> bool {
        matches!(self.phase(), Phase::AwaitsChannel | Phase::BulkAndStream)
    }

    /// What of the data set it wants.
    pub fn contents(&self) -> Contents {
        *lock(&self.contents)
    }

    /// Says what of the data set it wants.
    pub fn set_contents(&self, contents: Contents) {
        *lock(&self.contents) = contents;
    }

    /// Whether it can do that.
    pub fn can(&self, capability: u32) -> bool {
        self.capabilities.load(Ordering::Relaxed) & capability != 0
    }

    /// How its data set is compressed on its way: the strongest that it wants, up to `strongest`.
    pub fn codec(&self, strongest: Option<Codec>) -> Option<Codec> {
        let weaker = strongest.filter(|codec| *codec == Codec::Zstd).map(|_| Codec::Lz4);
        [strongest, weaker].into_iter().flatten().find(|codec| self.can(capability::of_codec(*codec)))
    }

    /// How the stream of commands is compressed on its way: as its data set, if it reads frames.
    pub fn stream_codec(&self, strongest: Option<Codec>) -> Option<Codec> {
        self.codec(strongest).filter(|_| self.can(capability::FRAMES))
    }

    /// Whether it reads a file that is compressed so.
    pub fn reads_file(&self, codec: Option<Codec>) -> bool {
        codec.is_none_or(|codec| self.can(capability::MARTLET | capability::of_codec(codec)))
    }

    /// Whether it has sent SYNC alone: it is a tool rather than a server.
    pub fn has_said_nothing(&self) -> bool {
        self.has_said_sync.load(Ordering::Relaxed)
            && [&self.capabilities, &self.version, &self.port]
                .iter()
                .all(|of| of.load(Ordering::Relaxed) == 0)
    }

    /// The versions of the RDB format that it reads.
    pub fn readable(&self) -> Readable {
        match self.can(capability::MARTLET) {
            true => Readable::Any,
            false => Readable::of_release(self.version.load(Ordering::Relaxed)),
        }
    }

    /// There is no version of the format for it, for this reason: it waits longer each time. The log has each
    /// reason once.
    pub fn wait_for_readable(&self, why: &str, now_ms: i64) {
        let mut unreadable = lock(&self.unreadable);
        if unreadable.why.as_deref() != Some(why) {
            tracing::warn!("No full sync for replica {}, which waits: {why}", self.name());
        }
        unreadable.why = Some(why.into());
        unreadable.until_ms = now_ms + unreadable.pauses.grow().as_millis() as i64;
    }

    /// Whether it waits for data that it can read.
    fn is_postponed(&self, now_ms: i64) -> bool {
        let unreadable = lock(&self.unreadable);
        unreadable.why.is_some() && now_ms < unreadable.until_ms
    }

    /// Its address as clients should use it.
    pub fn host(&self) -> String {
        let announced = lock(&self.address).clone();
        announced.unwrap_or_else(|| crate::address::host_of(&self.client.peer).to_owned())
    }

    /// Whether clients reach it there.
    pub fn is_at(&self, host: &str, port: u16) -> bool {
        self.port.load(Ordering::Relaxed) == u32::from(port) && self.host().eq_ignore_ascii_case(host)
    }

    /// Whether both are one server, as far as known: a replica that does not send its port is a server by
    /// itself.
    fn is_same(&self, other: &Replica) -> bool {
        u16::try_from(other.port.load(Ordering::Relaxed))
            .is_ok_and(|port| port != 0 && self.is_at(&other.host(), port))
    }

    /// As the log names it: where it listens, or its peer's address.
    pub fn name(&self) -> String {
        match self.port.load(Ordering::Relaxed) {
            0 => self.client.peer.clone(),
            port => format!("{}:{port}", self.host()),
        }
    }

    /// Whether both are one replica's connections, of which `channel` is for the data set.
    fn is_main_of(&self, channel: &Replica) -> bool {
        channel.main_client.load(Ordering::Relaxed) == self.client.id
            || self.channel_client.load(Ordering::Relaxed) == channel.client.id
    }

    /// Once it has all of the data set, which goes by another connection, it follows the stream like any
    /// other; whether it does so from now on.
    pub fn has_data_set(&self, now_ms: i64) -> bool {
        self.acked_ms.store(now_ms, Ordering::Relaxed);
        let (from, to) = (Phase::BulkAndStream as u8, Phase::Online as u8);
        let has_changed = self.phase.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if has_changed {
            tracing::info!("Synchronization with replica {} succeeded", self.name());
        }
        has_changed
    }

    /// Ends its connection.
    pub fn disconnect(&self, end: &impl Disconnects) {
        if !self.client.killed.swap(true, Ordering::AcqRel) {
            end.disconnect(&self.client);
        }
    }

    /// Seconds since it was heard of.
    pub fn lag_s(&self, now_ms: i64) -> i64 {
        (now_ms - self.acked_ms.load(Ordering::Relaxed)).max(0) / 1000
    }
}

/// Up to this version, 7.2, replicas of Redis and Valkey refuse SETSLOT.
const NO_SLOT_CHANGES: u32 = 0x7_02ff;

/// How long the stream is kept for a replica that got its data set by another connection.
const RESERVED_MS: i64 = 60_000;

/// The stream from where a data set is on, for a replica that will ask for it by another connection.
struct Reserved {
    /// The client id of the connection that the data set goes by.
    channel: u64,
    reader: Reader<'static>,
    /// All of the data set was sent: until when it is kept, Unix milliseconds.
    until_ms: Option<i64>,
}

/// See the [module docs](self).
#[derive(Default)]
pub struct Primary {
    replicas: Mutex<Vec<Arc<Replica>>>,
    reserved: Mutex<Vec<Reserved>>,
    /// How many there are.
    count: AtomicUsize,
    /// The stream is kept for replicas, or there are some.
    pub is_active: AtomicBool,
    /// Since when there is no replica, Unix milliseconds.
    pub alone_since_ms: AtomicI64,
    /// The RDB file was written for replicas, and is to go once they have it (`rdb-del-sync-files`).
    pub has_sync_file: AtomicBool,
    /// When the stream had its last PING, Unix milliseconds.
    pub pinged_ms: AtomicI64,
    /// Replicas that have been heard of within `min-replicas-max-lag`.
    pub good: AtomicUsize,
    /// Bytes that replicas were sent.
    pub sent_bytes: AtomicU64,
}

impl Primary {
    /// All replicas, in the order in which they came.
    pub fn replicas(&self) -> Vec<Arc<Replica>> {
        lock(&self.replicas).clone()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// One more.
    pub fn add(&self, replica: Arc<Replica>, now_ms: i64) {
        // The first PING is due a period from now.
        let _ = self.pinged_ms.compare_exchange(0, now_ms, Ordering::Relaxed, Ordering::Relaxed);
        let mut replicas = lock(&self.replicas);
        let others = replicas.iter().filter(|older| !replica.is_rdb_channel() && older.is_same(&replica));
        others.for_each(|older| {
            older.is_superseded.store(true, Ordering::Release);
        });
        replicas.push(replica);
        self.count.store(replicas.len(), Ordering::Release);
        self.is_active.store(true, Ordering::Release);
    }

    /// Ends all replicas' connections: the stream has another name, or is another one.
    pub fn disconnect_all(&self, end: &impl Disconnects) {
        self.drop_reserved(|_| true);
        self.replicas().iter().for_each(|replica| replica.disconnect(end));
    }

    /// A replica's connection has ended.
    pub fn remove(&self, replica: &Arc<Replica>, now_ms: i64) {
        let mut replicas = lock(&self.replicas);
        replicas.retain(|other| !Arc::ptr_eq(other, replica));
        self.count.store(replicas.len(), Ordering::Release);
        if replicas.is_empty() {
            self.alone_since_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// The replica whose connection for the stream has this client id, if its data set has not come yet.
    pub fn main_channel(&self, client: u64) -> Option<Arc<Replica>> {
        let is_it = |of: &&Arc<Replica>| of.client.id == client && of.is_main_channel();
        lock(&self.replicas).iter().find(is_it).cloned()
    }

    /// The data set was sent whole by the connection `channel`. Where that has named the replica, it is taken
    /// to have it; else it will say so.
    pub fn sent_by_channel(&self, channel: &Replica, now_ms: i64) {
        channel.has_sent_all.store(true, Ordering::Release);
        if channel.names_main() {
            let main = self.main_channel(channel.main_client.load(Ordering::Relaxed));
            if let Some(main) = main {
                main.has_data_set(now_ms);
            }
        } else {
            let mut reserved = lock(&self.reserved);
            let of_channel = reserved.iter_mut().find(|of| of.channel == channel.client.id);
            of_channel.into_iter().for_each(|of| of.until_ms = Some(now_ms + RESERVED_MS));
        }
    }

    /// Keeps the stream from where the data set is on that goes by this client's connection.
    pub fn reserve(&self, channel: u64, reader: Reader<'static>) {
        lock(&self.reserved).push(Reserved { channel, reader, until_ms: None });
    }

    /// Whether the stream is kept for the replica that gets its data set by this client's connection.
    pub fn has_reserved(&self, channel: u64) -> bool {
        lock(&self.reserved).iter().any(|of| of.channel == channel)
    }

    /// For how many replicas the stream is kept until they ask for it.
    pub fn reserved_count(&self) -> usize {
        lock(&self.reserved).len()
    }

    /// Ends keeping the stream for the replica that gets its data set by this client's connection; returns
    /// whether it was kept.
    pub fn release(&self, channel: u64) -> bool {
        self.drop_reserved(|of| of.channel == channel) > 0
    }

    /// Ends keeping the stream for replicas that have not asked for it in time, or lost its beginning.
    pub fn release_late(&self, end: &impl Disconnects, now_ms: i64) {
        if self.reserved_count() == 0 {
            return;
        }
        let channels = |is_meant: &dyn Fn(&Reserved) -> bool| -> Vec<u64> {
            lock(&self.reserved).iter().filter(|of| is_meant(of)).map(|of| of.channel).collect()
        };
        for channel in channels(&|of| of.until_ms.is_some_and(|until_ms| until_ms <= now_ms)) {
            tracing::info!(
                "Replica main channel failed to establish PSYNC within the grace period ({} seconds). Freeing RDB client {channel}.",
                RESERVED_MS / 1000
            );
            self.release(channel);
        }
        let replicas = self.replicas();
        let connection_of = |channel| replicas.iter().find(|replica| replica.client.id == channel);
        // One may have ended just when its data set was about to begin.
        for channel in channels(&|of| of.until_ms.is_none() && connection_of(of.channel).is_none()) {
            self.release(channel);
        }
        for channel in channels(&|of| of.reader.next().is_err()) {
            tracing::warn!(
                "Client id={channel} scheduled to be closed ASAP for overcoming of output buffer limits."
            );
            self.release(channel);
            connection_of(channel).into_iter().for_each(|replica| replica.disconnect(end));
        }
    }

    fn drop_reserved(&self, is_meant: impl Fn(&Reserved) -> bool) -> usize {
        let mut reserved = lock(&self.reserved);
        let (gone, kept) = std::mem::take(&mut *reserved).into_iter().partition(|of| is_meant(of));
        *reserved = kept;
        drop(reserved);
        let gone: Vec<Reserved> = gone;
        gone.len()
    }

    /// The replica whose data set goes by the connection `channel` and has not all come.
    fn main_of(&self, channel: &Replica) -> Option<Arc<Replica>> {
        let is_it = |of: &&Arc<Replica>| of.is_main_channel() && of.is_main_of(channel);
        lock(&self.replicas).iter().find(is_it).cloned()
    }

    /// A replica whose data set is on its way by the connection `channel` was heard of.
    pub fn note_sign_of_life(&self, channel: &Replica, now_ms: i64) {
        let main = self.main_of(channel);
        main.into_iter().for_each(|main| main.acked_ms.store(now_ms, Ordering::Relaxed));
    }

    /// One of a replica's two connections has ended before all of the data set was sent: so does the other.
    pub fn end_other_channel(&self, end: &impl Disconnects, ended: &Replica) {
        if ended.has_sent_all.load(Ordering::Acquire) {
            return;
        }
        let other = if ended.is_rdb_channel() {
            self.release(ended.client.id);
            self.main_of(ended)
        } else {
            let is_channel = |of: &&Arc<Replica>| of.is_rdb_channel() && ended.is_main_of(of);
            lock(&self.replicas).iter().find(is_channel).cloned()
        };
        other.into_iter().for_each(|other| other.disconnect(end));
    }

    /// How many follow the stream and have come to `offset`, on disk if `on_disk`.
    pub fn count_with(&self, offset: Option<u64>, on_disk: bool) -> usize {
        let Some(offset) = offset else { return 0 };
        let ack = |replica: &Arc<Replica>| match on_disk {
            true => ReplicaAck { acked: replica.acked_on_disk.load(Ordering::Acquire), ..replica.ack() },
            false => replica.ack(),
        };
        acks::count_with(lock(&self.replicas).iter().map(ack), offset)
    }

    /// How many follow the stream and are of a version that takes cluster commands from it.
    pub fn count_slot_changers(&self) -> usize {
        let takes = |replica: &&Arc<Replica>| {
            replica.ack().is_served() && replica.version.load(Ordering::Relaxed) > NO_SLOT_CHANGES
        };
        lock(&self.replicas).iter().filter(takes).count()
    }

    /// The replication offset that `count` replicas which follow the stream have come to.
    pub fn acked_by(&self, count: usize) -> Option<u64> {
        acks::acked_by(lock(&self.replicas).iter().map(|replica| replica.ack()), count)
    }

    /// Counts the replicas with a recent acknowledgement.
    pub fn count_good(&self, most_lag_s: u32, now_ms: i64) -> usize {
        let is_good = |replica: &&Arc<Replica>| {
            replica.ack().is_served() && replica.lag_s(now_ms) <= i64::from(most_lag_s)
        };
        let good = lock(&self.replicas).iter().filter(is_good).count();
        self.good.store(good, Ordering::Relaxed);
        good
    }

    /// The replicas that get a full sync now, if it is time to begin one, and whether that goes without the
    /// disk; from then on they are [`Phase::Cut`]. All of one kind, and with one wish, and they read the same
    /// versions of the format: those that can do
    /// without the disk if that is wanted, else the others. The RDB file has the whole data set: a replica
    /// that wants a part does without it, and so does one that cannot read a file which is compressed as a
    /// whole.
    pub fn take_waiting(&self, config: &Config, now_ms: i64) -> Option<(Vec<Arc<Replica>>, bool)> {
        let replicas = lock(&self.replicas);
        let waits = |of: &&Arc<Replica>| of.phase() == Phase::Waits && !of.is_postponed(now_ms);
        let waiting: Vec<_> = replicas.iter().filter(waits).collect();
        if waiting.is_empty() {
            return None;
        }
        let file_codec = settings(config).codec;
        let is_diskless = |replica: &Replica| {
            let wants_part = replica.contents() != Contents::ALL || replica.is_rdb_channel();
            let needs_other = wants_part || !replica.reads_file(file_codec);
            (config.repl_diskless_sync || needs_other) && replica.can(capability::EOF)
        };
        let (mut diskless, mut others): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|of| is_diskless(of));
        let begins = |chosen: &[&Arc<Replica>], diskless: bool| {
            chosen.iter().for_each(|replica| replica.set_phase(Phase::Cut));
            Some((chosen.iter().map(|&replica| replica.clone()).collect(), diskless))
        };
        if let Some(readable) = others.first().map(|first| first.readable()) {
            let reads_file = others.iter().all(|replica| replica.reads_file(file_codec));
            others.retain(|of| of.readable() == readable && (reads_file || !of.reads_file(file_codec)));
            return begins(&others, false);
        }
        let waits_ms = |of: &&Arc<Replica>| now_ms - of.waits_since_ms.load(Ordering::Relaxed);
        let longest = *diskless.iter().max_by_key(|&of| waits_ms(of))?;
        let strongest = repl_codec(config);
        let wish = |of: &Replica| (of.contents(), of.readable(), of.codec(strongest));
        diskless.retain(|replica| wish(replica) == wish(longest));
        let most = config.repl_diskless_sync_max_replicas as usize;
        let is_due = !config.repl_diskless_sync
            || waits_ms(&longest) >= i64::from(config.repl_diskless_sync_delay_s) * 1000;
        if is_due || most > 0 && diskless.len() >= most { begins(&diskless, true) } else { None }
    }
}
