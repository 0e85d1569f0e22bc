//! The thread of an import that this node has asked for (CLUSTER MIGRATION IMPORT): makes two connections to
//! the source, keeps the changes that come by the first while the snapshot comes by the second, and hands
//! both on to a connection of an I/O thread, which runs them as it does an import of Valkey's kind.
//!
//! Invariant: whole requests are handed on, the snapshot's before the changes, each in its order; the source
//! hears of no change as applied before it is.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use martlet_base::disk::error_text;
use martlet_base::sync::lock;
use martlet_client::address::Address;
use martlet_client::resp::encode_request;
use martlet_client::stream::Stream;
use martlet_cluster::machine::Time;
use martlet_cluster::slot_migration::{Job, JobId, SlotMigrations, Step};
use martlet_protocol::request::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::link::PullLink;
use super::requests::Requests;
use crate::cluster::node::ClusterNode;
use crate::outgoing;
use crate::runtime::{Mail, Shared, Worker};

/// Most bytes that are on their way to the connection which runs them.
const PIECE_BYTES: usize = 256 << 10;
/// An answer of the source is a line.
const ANSWER_MAX_BYTES: usize = 16 << 10;
/// Between two acknowledgements, while nothing new has been applied.
const ACK_PERIOD: Duration = Duration::from_secs(1);
/// The same while something has.
const ACK_NEWS_PERIOD: Duration = Duration::from_millis(100);
/// Until the kept changes have been applied, that is looked at this often.
const DRAIN_LOOK: Duration = Duration::from_millis(5);
/// The user that nodes log in as, with the cluster's secret.
pub const INTERNAL_USER: &[u8] = b"internal connection";

/// Why the thread ends.
enum Ended {
    /// The job is over.
    Closed,
    /// It cannot continue; the job's message.
    Failed(String),
}

impl From<String> for Ended {
    fn from(why: String) -> Ended {
        Ended::Failed(why)
    }
}

/// Starts the thread of a job.
pub(super) fn start(shared: &'static Shared, node: &'static ClusterNode, job: JobId) {
    let Some(of) = node.migrate(|machine, _| machine.job(job).cloned()) else { return };
    let started = PullLink::new(job).and_then(|link| {
        let link = Arc::new(link);
        lock(&node.migrations.pulls).insert(job, link.clone());
        let body = move || run(shared, node, &link, &of);
        std::thread::Builder::new().name("slot-import".into()).spawn(body)
    });
    if let Err(error) = started {
        let text = format!("Main channel - Failed to connect to source node: {}", error_text(&error));
        node.migrate(|machine, now| machine.fail(now, job, &text));
    }
}

fn run(shared: &'static Shared, node: &'static ClusterNode, link: &Arc<PullLink>, job: &Job) {
    crate::process::guard_thread();
    let pull = Pull { shared, node, link: link.clone() };
    let Err(ended) = pull.bring(job);
    let id = link.job;
    if let Ended::Failed(why) = ended {
        node.migration_event(shared, |machine, now| machine.fail(now, id, &why));
    }
}

/// A connection to the source.
struct Channel {
    name: &'static str,
    stream: Stream,
    received: Vec<u8>,
}

#[derive(Clone)]
struct Pull {
    shared: &'static Shared,
    node: &'static ClusterNode,
    link: Arc<PullLink>,
}

impl Pull {
    fn event(&self, input: impl FnOnce(&mut SlotMigrations, Time, JobId)) {
        let job = self.link.job;
        self.node.migration_event(self.shared, |machine, now| input(machine, now, job));
    }

    fn check(&self) -> Result<(), Ended> {
        let is_over =
            self.link.is_closed.load(Ordering::SeqCst) || self.shared.stopping.load(Ordering::Relaxed);
        if is_over { Err(Ended::Closed) } else { Ok(()) }
    }

    /// Connects to the source, as a node of this cluster.
    fn connect(&self, job: &Job, name: &'static str, connected: impl FnOnce()) -> Result<Channel, Ended> {
        let config = self.shared.config.snapshot();
        let failed =
            |why: &str| Ended::Failed(format!("{name} channel - Failed to connect to source node: {why}"));
        let refused = |error: io::Error| failed(&error_text(&error));
        let (address, secret) = self.node.read(|cluster| {
            let key = job.nodes.and_then(|(source, _)| cluster.find(source.as_bytes()));
            (key.map(|key| cluster.node(key).address.clone()), *cluster.secret())
        });
        let address = address.ok_or_else(|| failed("it is not known"))?;
        let port = if config.tls_replication { address.tls_port } else { address.tcp_port };
        let target = Address::resolve(&address.host, port).map_err(refused)?;
        let stream = outgoing::connect(&config, &target, &address.host).map_err(refused)?;
        stream.set_read_timeout(Some(Duration::from_secs(1))).map_err(refused)?;
        lock(&self.link.sockets).push(stream.as_fd().try_clone_to_owned().map_err(refused)?);
        let mut channel = Channel { name, stream, received: Vec::new() };
        connected();
        let answer = self.ask(&mut channel, &[b"AUTH", INTERNAL_USER, &secret])?;
        if answer != "+OK" {
            return Err(channel.refused(&format!("Error reply to AUTH from the source: {answer}")));
        }
        Ok(channel)
    }

    /// Sends a request, and waits for the line that answers it.
    fn ask(&self, channel: &mut Channel, words: &[&[u8]]) -> Result<String, Ended> {
        let mut bytes = Vec::new();
        encode_request(words, &mut bytes);
        channel.stream.send(&bytes).map_err(|error| channel.refused(&error_text(&error)))?;
        loop {
            self.check()?;
            if let Some(end) = channel.received.windows(2).position(|end| end == b"\r\n") {
                let line: Vec<u8> = channel.received.drain(..end + 2).collect();
                return Ok(String::from_utf8_lossy(&line).trim().to_owned());
            }
            // The source keeps a connection alive with empty lines.
            if channel.received.len() > ANSWER_MAX_BYTES {
                return Err(channel.refused("the answer is too long"));
            }
            match channel.stream.read_some(&mut channel.received) {
                Ok(0) => return Err(channel.refused("Source node closed the connection")),
                Err(error) if !is_pause(&error) => return Err(channel.refused(&error_text(&error))),
                _ => {}
            }
        }
    }

    fn bring(&self, job: &Job) -> Result<std::convert::Infallible, Ended> {
        let main = self.ask_for_slots(job)?;
        self.event(|machine, _, id| {
            machine.reached(id, Step::InitRdbChannel);
            machine.channel_reached(id, Step::Connecting);
        });
        let authenticates = || self.event(|machine, _, id| machine.channel_reached(id, Step::AuthReply));
        let mut rdb = self.connect(job, "RDB", authenticates)?;
        self.event(|machine, _, id| machine.channel_reached(id, Step::RdbChannelReply));
        let answer = self.ask(&mut rdb, &[b"CLUSTER", b"SYNCSLOTS", b"RDBCHANNEL", job.name.as_bytes()])?;
        if !answer.starts_with("+SLOTSSNAPSHOT") {
            let text = format!("Error reply to CLUSTER SYNCSLOTS RDBCHANNEL from the source: {answer}");
            return Err(rdb.refused(&text));
        }
        self.event(|machine, now, id| machine.snapshot_comes(now, id));
        let pair = self.become_client().map_err(|error| error_text(&error))?;
        Transfer::new(self, main, rdb, pair).run()
    }

    /// The handshake of the first connection.
    fn ask_for_slots(&self, job: &Job) -> Result<Channel, Ended> {
        let authenticates = || self.event(|machine, _, id| machine.reached(id, Step::AuthReply));
        let mut main = self.connect(job, "Main", authenticates)?;
        self.event(|machine, _, id| machine.reached(id, Step::HandshakeReply));
        let me = self.node.read(|cluster| cluster.myself().id);
        let answer = self.ask(&mut main, &[b"CLUSTER", b"SYNCSLOTS", b"CONF", b"NODE-ID", me.as_bytes()])?;
        if answer != "+OK" {
            let text = format!("Error reply to CLUSTER SYNCSLOTS CONF from the source: {answer}");
            return Err(main.refused(&text));
        }
        let mut words = ["CLUSTER", "SYNCSLOTS", "SYNC", job.name.as_str()].map(str::to_owned).to_vec();
        words.extend(job.ranges.iter().flat_map(|(first, last)| [first.to_string(), last.to_string()]));
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        loop {
            self.event(|machine, _, id| machine.reached(id, Step::SyncslotsReply));
            let answer = self.ask(&mut main, &words)?;
            if answer.starts_with("+RDBCHANNELSYNCSLOTS") {
                return Ok(main);
            }
            if !answer.starts_with("-NOTREADY") {
                let text = format!("Error reply to CLUSTER SYNCSLOTS SYNC from the source: {answer}");
                return Err(main.refused(&text));
            }
            self.event(|machine, _, id| machine.reached(id, Step::SendSyncslots));
            self.sleep(ACK_PERIOD)?;
        }
    }

    fn sleep(&self, time: Duration) -> Result<(), Ended> {
        let mut waited = [PollFd::new(&self.link.event, PollFlags::IN)];
        let time = Timespec::try_from(time).ok();
        let _ = poll(&mut waited, time.as_ref());
        self.check()
    }

    /// Makes the connection which runs what the source sends, on the thread that has the fewest.
    fn become_client(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        theirs.set_nonblocking(true)?;
        ours.set_nonblocking(true)?;
        lock(&self.link.sockets).push(ours.as_fd().try_clone_to_owned()?);
        let (shared, job) = (self.shared, self.link.job);
        let thread = shared.clients.least_loaded(shared.thread_count());
        shared.clients.assigned(thread, 1);
        let theirs: OwnedFd = theirs.into();
        let adopt = move |worker: &mut Worker| worker.adopt_import(theirs, job);
        shared.send(thread, Mail::Run(Box::new(adopt)));
        Ok(ours)
    }
}

impl Channel {
    /// A failure of the handshake.
    fn refused(&self, why: &str) -> Ended {
        Ended::Failed(format!("{} channel - Failed to sync with the source node: {why}", self.name))
    }

    /// Reads available bytes.
    fn read(&mut self) -> Result<(), Ended> {
        match self.stream.read_some(&mut self.received) {
            Ok(0) => Err(Ended::Failed(format!("{} channel - Connection is closed", self.name))),
            Err(error) if !is_pause(&error) => {
                Err(Ended::Failed(format!("{} channel - Read error: {}", self.name, error_text(&error))))
            }
            _ => Ok(()),
        }
    }
}

/// Whether it is worth another try.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// What the two connections bring, on its way.
struct Transfer<'p> {
    pull: &'p Pull,
    main: Channel,
    /// Until the snapshot is here.
    rdb: Option<Channel>,
    pair: UnixStream,
    /// Whole requests that the connection which runs them has not taken yet, from this place on.
    out: Vec<u8>,
    taken: usize,
    /// Changes that wait, in the order of their arrival.
    kept: VecDeque<Vec<u8>>,
    kept_limit: u64,
    snapshot: Requests,
    changes: Requests,
    /// Bytes of changes that were handed on.
    handed: u64,
    /// The last acknowledgement: when, as a raw reading of the clock, and of how many bytes.
    acked: (u64, u64),
    has_drained: bool,
}

fn is_snapshot_end(args: &Args<'_>) -> bool {
    args.len() == 3
        && args.at(1).eq_ignore_ascii_case(b"syncslots")
        && args.at(2).eq_ignore_ascii_case(b"snapshot-eof")
}

impl<'p> Transfer<'p> {
    fn new(pull: &'p Pull, main: Channel, rdb: Channel, pair: UnixStream) -> Transfer<'p> {
        let config = pull.shared.config.snapshot();
        Transfer {
            pull,
            main,
            rdb: Some(rdb),
            pair,
            out: Vec::new(),
            taken: 0,
            kept: VecDeque::new(),
            kept_limit: crate::replication::replica::gathered::limit_bytes(&config),
            snapshot: Requests::default(),
            changes: Requests::default(),
            handed: 0,
            acked: (pull.shared.clock.raw(), 0),
            has_drained: false,
        }
    }

    fn kept_bytes(&self) -> u64 {
        self.pull.link.kept.load(Ordering::Relaxed)
    }

    fn run(mut self) -> Result<std::convert::Infallible, Ended> {
        self.keep();
        loop {
            self.pull.check()?;
            self.hand_on()?;
            self.acknowledge()?;
            self.wait()?;
        }
    }

    /// Moves what the first connection has brought to the kept changes.
    fn keep(&mut self) {
        let received = std::mem::take(&mut self.main.received);
        if !received.is_empty() {
            let kept = self.pull.link.kept.fetch_add(received.len() as u64, Ordering::Relaxed);
            let kept = kept + received.len() as u64;
            self.pull.node.migrations.kept_peak.fetch_max(kept, Ordering::Relaxed);
            self.kept.push_back(received);
        }
    }

    /// Hands requests on to the connection which runs them, as far as it takes them.
    fn hand_on(&mut self) -> Result<(), Ended> {
        loop {
            if self.out.len() - self.taken < PIECE_BYTES {
                self.next_requests()?;
            }
            let rest = self.out.get(self.taken..).unwrap_or_default();
            if rest.is_empty() {
                (self.out, self.taken) = (Vec::new(), 0);
                return Ok(());
            }
            match self.pair.write(rest) {
                Ok(count) => self.taken += count,
                Err(error) if is_pause(&error) => return Ok(()),
                Err(_) => return Err(Ended::Failed("Main channel - Failed to stream into the DB".into())),
            }
        }
    }

    /// Appends the next whole requests.
    fn next_requests(&mut self) -> Result<(), Ended> {
        self.out.drain(..self.taken);
        self.taken = 0;
        if let Some(rdb) = &mut self.rdb {
            let (received, out) = (std::mem::take(&mut rdb.received), &mut self.out);
            let mut is_whole = false;
            self.snapshot.take(&received, |args, bytes| {
                is_whole |= is_snapshot_end(args);
                out.extend_from_slice(bytes);
                Ok::<(), String>(())
            })?;
            if is_whole {
                self.rdb = None;
            }
            return Ok(());
        }
        let before = self.handed;
        while self.out.len() < PIECE_BYTES
            && let Some(block) = self.kept.pop_front()
        {
            self.pull.link.kept.fetch_sub(block.len() as u64, Ordering::Relaxed);
            let (out, handed) = (&mut self.out, &mut self.handed);
            self.changes.take(&block, |_, bytes| {
                out.extend_from_slice(bytes);
                *handed += bytes.len() as u64;
                Ok::<(), String>(())
            })?;
        }
        if self.handed > before {
            let handed = self.handed.to_string();
            encode_request(&["CLUSTER", "SYNCSLOTS", "APPLIED", &handed], &mut self.out);
        }
        Ok(())
    }

    /// Reports to the source how much has been applied.
    fn acknowledge(&mut self) -> Result<(), Ended> {
        let applied = self.pull.link.applied.load(Ordering::Acquire);
        let clock = &self.pull.shared.clock;
        let now = clock.raw();
        let (since, acked) = (Duration::from_nanos(clock.elapsed_ns(self.acked.0, now)), self.acked.1);
        let is_idle = self.rdb.is_none() && self.out.is_empty() && self.kept.is_empty();
        let drains = !self.has_drained && is_idle && applied == self.handed;
        if drains && self.pull.node.migrate(|machine, _| machine.has_snapshot(self.pull.link.job)) {
            self.has_drained = true;
            self.pull.event(|machine, _, id| machine.reached(id, Step::WaitStreamEof));
        } else if since < ACK_NEWS_PERIOD || applied == acked && since < ACK_PERIOD {
            return Ok(());
        }
        let step = match (&self.rdb, self.has_drained) {
            (Some(_), _) => Step::AccumulateBuffer,
            (None, false) => Step::StreamingBuffer,
            (None, true) => Step::WaitStreamEof,
        };
        let mut bytes = Vec::new();
        encode_request(&["CLUSTER", "SYNCSLOTS", "ACK", step.name(), &applied.to_string()], &mut bytes);
        self.acked = (now, applied);
        self.main.stream.send(&bytes).map_err(|error| {
            Ended::Failed(format!("Main channel - Failed to send ACK: {}", error_text(&error)))
        })
    }

    /// Sleeps until there is something to do, and reads what has come.
    fn wait(&mut self) -> Result<(), Ended> {
        let has_room = self.out.len() - self.taken < PIECE_BYTES;
        let keeps = self.kept_bytes() + (self.changes.kept_bytes() as u64) < self.kept_limit;
        let read = |is_wanted: bool| if is_wanted { PollFlags::IN } else { PollFlags::RDHUP };
        let writes = if self.out.len() > self.taken { PollFlags::OUT } else { PollFlags::empty() };
        let mut waited = vec![
            PollFd::new(&self.pull.link.event, PollFlags::IN),
            PollFd::new(&self.pair, writes),
            PollFd::from_borrowed_fd(self.main.stream.as_fd(), read(keeps)),
        ];
        // The source may end this connection once all is sent: that is noticed when it has been read.
        if let Some(rdb) = self.rdb.as_ref().filter(|_| has_room) {
            waited.push(PollFd::from_borrowed_fd(rdb.stream.as_fd(), PollFlags::IN));
        }
        let is_news = self.pull.link.applied.load(Ordering::Acquire) != self.acked.1;
        let time = match (is_news, self.has_drained || self.rdb.is_some()) {
            (_, false) => DRAIN_LOOK,
            (true, true) => ACK_NEWS_PERIOD,
            (false, true) => ACK_PERIOD,
        };
        match poll(&mut waited, Timespec::try_from(time).ok().as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Ended::Failed(error_text(&error.into()))),
        }
        let due: Vec<bool> = waited.iter().map(|of| !of.revents().is_empty()).collect();
        let is_due = |at: usize| due.get(at).copied().unwrap_or_default();
        let has_ended =
            waited.get(1).is_some_and(|of| of.revents().intersects(PollFlags::HUP | PollFlags::ERR));
        drop(waited);
        if is_due(0) {
            let _ = rustix::io::read(&self.pull.link.event, &mut [0_u8; 8]);
        }
        if has_ended {
            return Err(Ended::Failed("Main channel - Failed to stream into the DB".into()));
        }
        if is_due(2) {
            if !keeps {
                return Err(Ended::Failed("Main channel - Connection is closed".into()));
            }
            self.main.read()?;
            self.keep();
        }
        match &mut self.rdb {
            Some(rdb) if is_due(3) => rdb.read(),
            _ => Ok(()),
        }
    }
}
