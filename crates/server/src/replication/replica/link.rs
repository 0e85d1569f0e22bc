//! The thread `replica`: connects to the primary, receives a snapshot or continues with the stream, and
//! acknowledges its offset. It sees no key, and is outside the gate while it waits for the network.
//!
//! Invariant: it works for the generation that it has begun with, and ends its work as soon as that is over.

use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use martlet_base::disk::error_text;
use martlet_base::sync::lock;
use martlet_client::address::Address;
use martlet_client::resp::encode_request;
use martlet_client::stream::Stream;
use martlet_engine::Outside;
use martlet_persistence::load::Source;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::apply::ApplyQueue;
use super::gather::{Gathered, MainChannel};
use super::handshake::{Greeting, Handshake, Progress, Refused};
use super::transfer::Transfer;
use super::{LinkState, Replica, diskless, load};
use crate::clients::{ClientDetails, ClientInfo, flag};
use crate::config::{Primary, REDIS_VERSION};
use crate::connection::{Connection, Session};
use crate::outgoing;
use crate::replication::failover::State;
use crate::shared::Shared;

/// The version that a cluster's node sends: Valkey 9 sends older ones no data set as long as slots are on
/// their way to it.
const CLUSTER_VERSION: &str = "9.1.0";

/// Between two attempts, and between two messages that tell how far this server has come.
pub(super) const PERIOD: Duration = Duration::from_secs(1);
/// How soon a stream that could not be applied is tried again.
pub(super) const PATIENCE: Duration = Duration::from_millis(10);

/// The line for the log when a snapshot stops.
pub(super) const SILENT: &str = "Timeout receiving bulk data from MASTER... If the problem persists try to set the 'repl-timeout' parameter in redis.conf to a larger value.";

/// Whether something can be read without waiting, be it the end.
pub(super) fn is_readable(socket: &impl AsFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&now)).is_ok_and(|count| count > 0)
}

/// Ends the sleep of the thread.
#[derive(Default)]
pub struct Wakeup {
    event: OnceLock<OwnedFd>,
    is_started: AtomicBool,
}

impl Wakeup {
    /// Has the thread look for work.
    pub fn wake(&self) {
        if let Some(event) = self.event.get() {
            // It fails only when as many wake it as a counter of 64 bits can tell.
            let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
        }
    }
}

/// Starts the thread, unless it runs.
pub fn start(shared: &'static Shared) {
    let link = &shared.replication.replica.link;
    if link.is_started.swap(true, Ordering::SeqCst) {
        return;
    }
    let started = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(io::Error::from)
        .and_then(|event| {
            let _ = link.event.set(event);
            std::thread::Builder::new().name("replica".into()).spawn(move || run(shared))
        });
    if let Err(error) = started {
        tracing::error!("No thread for replication: {error}");
        link.is_started.store(false, Ordering::SeqCst);
    }
}

/// Why a link has ended.
pub(super) enum Ended {
    /// The primary is another now, or the server ends.
    Changed,
    /// Something went wrong: a line for the log.
    Broken(String),
}

impl From<Refused> for Ended {
    fn from(refused: Refused) -> Ended {
        Ended::Broken(refused.0)
    }
}

pub(super) fn broken(text: impl Into<String>) -> Ended {
    Ended::Broken(text.into())
}

/// The thread's loop.
fn run(shared: &'static Shared) {
    crate::process::guard_thread();
    let replica = &shared.replication.replica;
    while !shared.stopping.load(Ordering::Relaxed) {
        let (generation, primary) = replica.task();
        let Some(primary) = primary else {
            replica.sleep(generation, Duration::MAX);
            continue;
        };
        let ended = follow(shared, generation, &primary);
        replica.update(|status| {
            if status.generation == generation {
                if status.state == LinkState::Connected {
                    status.down_since_s = Some(shared.clock.unix_ms() / 1000);
                }
                status.state = LinkState::Connect;
            }
        });
        if let Err(Ended::Broken(why)) = ended {
            tracing::warn!("{why}");
            replica.sleep(generation, PERIOD);
        }
    }
}

/// Copies the primary until something ends that.
fn follow(shared: &'static Shared, generation: u64, primary: &Primary) -> Result<(), Ended> {
    set_state(shared, generation, LinkState::Connecting);
    let Primary { host, port } = primary;
    tracing::info!("Connecting to MASTER {host}:{port}");
    let mut link = Link::open(shared, generation, primary)?;
    tracing::info!("Non blocking connect for SYNC fired the event.");
    link.set_state(LinkState::Handshake);
    let progress = link.shake_hands()?;
    if shared.replication.failover.state() == State::InProgress {
        match &progress {
            Progress::Rejected(_) => load::abort_failover(shared, generation),
            _ => drop(shared.end_failover()),
        }
    }
    match progress {
        Progress::Rejected(why) => return Err(broken(why)),
        Progress::Partial { id } => {
            if !load::go_on(shared, generation, id) {
                return Err(Ended::Changed);
            }
            tracing::info!("MASTER <-> REPLICA sync: Master accepted a Partial Resynchronization.");
        }
        Progress::Full { id, offset } => {
            link.set_state(LinkState::Sync);
            link.synchronize(Some((id, offset)))?;
        }
        Progress::Legacy | Progress::More => {
            link.set_state(LinkState::Sync);
            link.synchronize(None)?;
        }
        Progress::Channel(dialect) => return link.synchronize_by_channel(primary, dialect),
    }
    link.stream(primary, None, None)
}

fn set_state(shared: &Shared, generation: u64, state: LinkState) {
    shared.replication.replica.update(|status| {
        if status.generation == generation {
            status.state = state;
        }
    });
}

/// A connection to the primary.
pub(super) struct Link {
    pub(super) shared: &'static Shared,
    pub(super) replica: &'static Replica,
    pub(super) generation: u64,
    /// A thread that changes the role reads from it, too, behind the closed gate: locked only to read
    /// available bytes, and to send.
    stream: Arc<Mutex<Stream>>,
    /// Its socket, to wait for.
    socket: OwnedFd,
    /// Where the stream of commands goes, once it has begun.
    queue: Option<Arc<ApplyQueue>>,
    /// Received bytes that were not used yet.
    pub(super) received: Vec<u8>,
    /// When something was received last: a raw reading of the clock.
    heard: u64,
    /// The connection of the stream in that time, if this one is for the data set only.
    pub(super) main: Option<Box<MainChannel>>,
}

impl Link {
    /// Connects to the primary.
    pub(super) fn open(shared: &'static Shared, generation: u64, primary: &Primary) -> Result<Link, Ended> {
        let Primary { host, port } = primary;
        let config = shared.config.snapshot();
        let address = Address::resolve(host, *port)
            .map_err(|error| broken(format!("Unable to connect to MASTER: {}", error_text(&error))))?;
        tracing::info!("MASTER <-> REPLICA sync started");
        let socket_error =
            |error: io::Error| broken(format!("Error condition on socket for SYNC: {}", error_text(&error)));
        let stream = outgoing::connect(&config, &address, host).map_err(socket_error)?;
        let heard = shared.clock.raw();
        let replica = &shared.replication.replica;
        let socket = stream.as_fd().try_clone_to_owned().map_err(socket_error)?;
        let (stream, received) = (Arc::new(Mutex::new(stream)), Vec::new());
        Ok(Link { shared, replica, generation, stream, socket, queue: None, received, heard, main: None })
    }

    pub(super) fn set_state(&self, state: LinkState) {
        set_state(self.shared, self.generation, state);
    }

    /// Whether the link's generation is still the present one.
    fn check(&self) -> Result<(), Ended> {
        let is_wanted =
            self.replica.generation() == self.generation && !self.shared.stopping.load(Ordering::Relaxed);
        if is_wanted { Ok(()) } else { Err(Ended::Changed) }
    }

    /// Waits until there is something to be received (unless `reads` is false), the thread is woken, or the
    /// time is up, and receives what there is. `what` is the line for the log when the primary has been
    /// silent for too long.
    pub(super) fn wait(&mut self, reads: bool, most: Duration, what: &str) -> Result<(), Ended> {
        self.check()?;
        let clock = &self.shared.clock;
        let limit = Duration::from_secs(u64::from(self.shared.config.snapshot().repl_timeout_s));
        if !reads {
            // It is not listened to.
            self.heard = clock.raw();
        } else if clock.elapsed_ns(self.heard, clock.raw()) as u128 > limit.as_nanos() {
            return Err(broken(what));
        }
        self.poll(reads, most)?;
        if let Some(why) = self.main.as_mut().and_then(|main| main.failure.take()) {
            return Err(broken(why));
        }
        self.check()
    }

    /// As [`Link::wait`], whatever the primary has said so far.
    pub(super) fn poll(&mut self, reads: bool, most: Duration) -> Result<(), Ended> {
        let Some(event) = self.replica.link.event.get() else { return Err(Ended::Changed) };
        let main = self.main.as_ref().filter(|main| main.is_read()).map(|main| &main.link.socket);
        let own = reads.then_some(&self.socket);
        let sockets = [Some(event), main, own];
        let mut waited: Vec<_> =
            sockets.iter().flatten().map(|socket| PollFd::new(*socket, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
        match poll(&mut waited, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(broken(error_text(&error.into()))),
        }
        let mut found = waited.iter().map(|of| !of.revents().is_empty());
        let [woken, main_is_readable, is_readable] =
            sockets.map(|socket| socket.is_some() && found.next().unwrap_or_default());
        if woken {
            let _ = rustix::io::read(event, &mut [0_u8; 8]);
        }
        if main_is_readable && let Some(main) = &mut self.main {
            main.receive();
        }
        if is_readable { self.receive() } else { Ok(()) }
    }

    /// Takes in what there is to be received.
    pub(super) fn receive(&mut self) -> Result<(), Ended> {
        let mut stream = lock(&self.stream);
        if !is_readable(&self.socket) {
            // The thread that changes the role has taken it.
            return Ok(());
        }
        let got = stream.read_some(&mut self.received);
        if let Some(queue) = &self.queue {
            queue.push(&std::mem::take(&mut self.received));
        }
        drop(stream);
        match got {
            Ok(0) => return Err(broken("Connection with master lost.")),
            Ok(_) => {
                self.heard = self.shared.clock.raw();
                let now_ms = self.shared.clock.unix_ms();
                self.replica.update(|status| status.heard_ms = now_ms);
            }
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(error) => {
                return Err(broken(format!("I/O error reading from master: {}", error_text(&error))));
            }
        }
        Ok(())
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        let sent = lock(&self.stream).send(bytes);
        sent.map_err(|error| broken(format!("I/O error writing to master: {}", error_text(&error))))
    }

    pub(super) fn greeting(&self) -> Greeting {
        let config = self.shared.config.snapshot();
        let port = match config.replica_announce_port {
            0 => self.shared.port.load(Ordering::Relaxed),
            port => u32::from(port),
        };
        Greeting {
            user: config.masteruser.clone().map(String::into_bytes),
            password: config.masterauth.clone(),
            port,
            ip: config.replica_announce_ip.clone(),
            version: if config.cluster_enabled { CLUSTER_VERSION } else { REDIS_VERSION },
            takes_channel: config.repl_rdb_channel,
            fails_over: self.shared.replication.failover.state() == State::InProgress,
            resume: self.shared.replication.history().request(self.shared.applied_offset()),
        }
    }

    fn shake_hands(&mut self) -> Result<Progress, Ended> {
        let mut out = Vec::new();
        let mut handshake = Handshake::begin(self.greeting(), &mut out);
        loop {
            if !out.is_empty() {
                self.send(&out)?;
                out.clear();
            }
            self.wait(true, PERIOD, "Timeout connecting to the MASTER...")?;
            let progress = handshake.receive(&std::mem::take(&mut self.received), &mut out)?;
            if progress != Progress::More {
                self.received = handshake.into_rest();
                if !out.is_empty() {
                    self.send(&out)?;
                }
                return Ok(progress);
            }
        }
    }

    /// Receives a snapshot and loads it. `place` is where in the stream it is, if the primary has sent it.
    pub(super) fn synchronize(&mut self, place: Option<(String, u64)>) -> Result<(), Ended> {
        match self.way()? {
            diskless::Way::File => self.synchronize_by_file(place),
            way => self.synchronize_diskless(way, place),
        }
    }

    fn synchronize_by_file(&mut self, place: Option<(String, u64)>) -> Result<(), Ended> {
        let settings = crate::persistence::settings(&self.shared.config.snapshot());
        let refused = |error: io::Error| {
            broken(format!(
                "Opening the temp file needed for MASTER <-> REPLICA synchronization: {}",
                error_text(&error)
            ))
        };
        let outside = Outside::of_background_thread();
        let mut file = self.shared.storage().new_received_file(&outside, &settings).map_err(refused)?;
        self.receive_snapshot(&mut file)?;
        let published = file.sync().and_then(martlet_persistence::NewFile::publish);
        published.map_err(|error| {
            broken(format!(
                "Failed trying to rename the temp DB into {} in MASTER <-> REPLICA synchronization: {}",
                settings.dbfilename.display(),
                error_text(&error)
            ))
        })?;
        self.check()?;
        let path = settings.rdb_path();
        let opened = Source::open(&outside, &path).map_err(|error| broken(error_text(&error)))?;
        tracing::info!("MASTER <-> REPLICA sync: Flushing old data");
        let at_once = u64::from(self.shared.config.snapshot().loading_process_events_interval_bytes);
        let failure = match opened.len < at_once {
            true => load::replace(self.shared, self.generation, opened, place),
            false => self.replace_in_pieces(opened, place),
        };
        self.remove_received_file();
        let Some(failure) = failure else { return Err(Ended::Changed) };
        if let Err(why) = failure {
            tracing::warn!("Internal error in RDB reading: {why}");
            return Err(broken(
                "Failed trying to load the MASTER synchronization DB from disk, check server logs.",
            ));
        }
        tracing::info!("MASTER <-> REPLICA sync: Finished with success");
        Ok(())
    }

    /// Removes the file that was received, if nothing is to be left on the disk.
    fn remove_received_file(&self) {
        let config = self.shared.config.snapshot();
        if config.rdb_del_sync_files && !config.has_persistence() {
            tracing::info!(
                "Removing the RDB file obtained from the master. This replica has persistence disabled"
            );
            let settings = crate::persistence::settings(&config);
            self.shared.storage().remove_rdb_file(&Outside::of_background_thread(), &settings, || true);
        }
    }

    /// Loads a snapshot while clients get LOADING; `None` when the primary has become another.
    fn replace_in_pieces(
        &mut self,
        source: Source,
        place: Option<(String, u64)>,
    ) -> Option<Result<(), String>> {
        load::begin(self.shared, self.generation)?;
        tracing::info!("MASTER <-> REPLICA sync: Loading DB in memory");
        let loaded = self.load(source);
        let failure = loaded.as_ref().err().cloned();
        load::end(self.shared, self.generation, loaded.ok(), place)?;
        Some(failure.map_or(Ok(()), Err))
    }

    /// Receives a snapshot and writes it to `file`.
    fn receive_snapshot(&mut self, file: &mut impl Write) -> Result<(), Ended> {
        let mut transfer = Transfer::default();
        let (mut out, mut read_bytes, mut was_announced) = (Vec::new(), 0, false);
        loop {
            transfer.receive(&mut self.received, &mut out).map_err(broken)?;
            if transfer.has_begun() && !was_announced {
                was_announced = true;
                match transfer.total() {
                    Some(bytes) => {
                        tracing::info!("MASTER <-> REPLICA sync: receiving {bytes} bytes from master to disk")
                    }
                    None => tracing::info!(
                        "MASTER <-> REPLICA sync: receiving streamed RDB from master with EOF to disk"
                    ),
                }
            }
            read_bytes += out.len() as u64;
            file.write_all(&out).map_err(|error| {
                broken(format!(
                    "Write error or short write writing to the DB dump file needed for MASTER <-> REPLICA synchronization: {}",
                    error_text(&error)
                ))
            })?;
            out.clear();
            let total_bytes = transfer.total();
            self.replica.update(|status| status.receiving = super::Receiving { total_bytes, read_bytes });
            if transfer.has_ended() {
                return Ok(());
            }
            self.wait(true, PERIOD, SILENT)?;
        }
    }

    /// Loads a snapshot, telling the primary now and then that this server is there.
    fn load(&mut self, source: Source) -> Result<martlet_persistence::load::Loaded, String> {
        let (shared, wakeup) = (self.shared, &self.replica.link);
        std::thread::scope(|scope| {
            let (sender, loading) = sync_channel(1);
            scope.spawn(move || {
                let _ = sender.send(load::load(shared, source));
                wakeup.wake();
            });
            self.await_loaded(&loading)
        })
    }

    /// Sends the primary a keepalive. If the primary is gone, the next read shows it.
    pub(super) fn send_keepalive(&mut self) {
        let stream = self.main.as_ref().map_or(&self.stream, |main| &main.link.stream);
        let _ = lock(stream).send(b"\n");
    }

    /// Receives the stream and has it applied, behind its `gathered` part. With a `failure` no more input
    /// comes.
    pub(super) fn stream(
        &mut self,
        primary: &Primary,
        gathered: Option<Gathered>,
        failure: Option<String>,
    ) -> Result<(), Ended> {
        self.heard = self.shared.clock.raw();
        let connection = self.connection(primary);
        let info = connection.info.clone();
        self.shared.clients.add(info.clone());
        let queue = ApplyQueue::new(
            self.shared,
            self.generation,
            connection,
            || self.connection(primary),
            self.stream.clone(),
            gathered,
        );
        let begin = self.shared.applied_offset();
        queue.push(&std::mem::take(&mut self.received));
        self.queue = Some(queue.clone());
        *lock(&self.replica.received) = Some(queue.clone());
        // No sooner: once the link is up, a promotion finds the received bytes.
        self.set_state(LinkState::Connected);
        let ended = match failure {
            Some(why) => Err(broken(why)),
            None => self.stream_into(&queue, &info, begin),
        };
        if let Err(Ended::Broken(_)) = &ended {
            self.finish(&queue);
        }
        *lock(&self.replica.received) = None;
        queue.close();
        self.shared.clients.remove(info.id);
        if let Err(Ended::Broken(_)) = &ended {
            tracing::info!("Caching the disconnected master state.");
        }
        ended
    }

    /// Waits until input before the end has been applied: this server may be promoted. Where sending has
    /// shown the end, there may be more to read.
    fn finish(&mut self, queue: &Arc<ApplyQueue>) {
        queue.receive_rest();
        let waits = |link: &Link| link.shared.postpones(link.shared.clock.unix_ms()).is_none();
        while !queue.has_nothing_waiting() && queue.failure().is_none() && waits(self) {
            queue.ask();
            if self.wait(false, PATIENCE, SILENT).is_err() {
                break;
            }
        }
    }

    fn stream_into(&mut self, queue: &Arc<ApplyQueue>, info: &ClientInfo, begin: u64) -> Result<(), Ended> {
        let clock = &self.shared.clock;
        let (mut seen, mut told) = (0, None);
        loop {
            let received = queue.received_bytes();
            if received > seen {
                self.replica.read_offset.store(begin + received, Ordering::Relaxed);
                info.net_input_bytes.fetch_add(received - seen, Ordering::Relaxed);
                info.last_active_ms.store(clock.unix_ms(), Ordering::Relaxed);
                seen = received;
            }
            queue.ask();
            if let Some(why) = queue.failure() {
                return Err(broken(why));
            }
            if info.killed.load(Ordering::Acquire) {
                return Err(broken("Connection with master lost."));
            }
            let is_asked = self.replica.owes_answer.swap(false, Ordering::SeqCst);
            let is_due =
                told.is_none_or(|told| clock.elapsed_ns(told, clock.raw()) >= PERIOD.as_nanos() as u64);
            if is_asked || is_due {
                self.acknowledge(queue)?;
                told = Some(clock.raw());
            }
            let most = if queue.has_nothing_waiting() { PERIOD } else { PATIENCE };
            self.wait(!queue.is_full(), most, "MASTER timeout: no data nor PING received...")?;
        }
    }

    /// Acknowledges this server's offset to the primary.
    fn acknowledge(&mut self, queue: &ApplyQueue) -> Result<(), Ended> {
        let (offset, on_disk) = (self.shared.applied_offset().to_string(), queue.offset_on_disk());
        // Behind a change of the role the offset is of another stream, of which this primary knows nothing.
        self.check()?;
        let on_disk = on_disk.map(|offset| offset.to_string());
        let mut words: Vec<&[u8]> = vec![b"REPLCONF", b"ACK", offset.as_bytes()];
        if let Some(on_disk) = &on_disk {
            words.extend([b"FACK".as_slice(), on_disk.as_bytes()]);
        }
        let mut out = Vec::new();
        encode_request(&words, &mut out);
        self.send(&out)
    }

    /// The connection in whose name the primary's commands run: unrestricted.
    fn connection(&self, primary: &Primary) -> Box<Connection> {
        let shared = self.shared;
        let token = martlet_net::Token::new(u32::MAX, 0);
        let peer = format!("{}:{}", primary.host, primary.port);
        let info = Arc::new(ClientInfo::new(
            shared.clients.next_id(),
            shared.thread_count() - 1,
            token,
            (peer, String::new(), false),
            -1,
            shared.clock.unix_ms(),
            ClientDetails::default(),
        ));
        info.flags.fetch_or(flag::PRIMARY, Ordering::Relaxed);
        let mut session = Session::new(&shared.access.follow());
        session.become_user(shared.access.superuser(&shared.config.snapshot()));
        Box::new(Connection::new(token, info, session))
    }
}
