//! The thread of an export: connects to the target, sends it the cut's keys, then what of the stream concerns
//! the slots. A target that has asked for the slots (a task) gets the keys by another of its connections, and
//! the stream by a feed of the one that it asked by. The thread sees bytes and no keys, and is never inside
//! the gate.
//!
//! Invariant: PAUSED, or STREAM-EOF, leaves after all of the stream up to the offset at which writes began to
//! wait.

use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use martlet_base::disk::error_text;
use martlet_base::sync::lock;
use martlet_client::address::Address;
use martlet_client::resp::encode_request;
use martlet_client::stream::Stream;
use martlet_cluster::machine::Time;
use martlet_cluster::slot_migration::{Job, JobId, Message, SlotMigrations};
use martlet_journal::stream::{FellBehind, Reader};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::encoded;
use super::filter::{Filter, Stop};
use super::link::ExportLink;
use super::requests::Requests;
use crate::cluster::node::ClusterNode;
use crate::outgoing;
use crate::replication::feed::{FeedWriter, Next};
use crate::replication::source::Taker;
use crate::runtime::Shared;

/// Most bytes of the stream that are filtered between two reads of the target's messages.
const PIECE_BYTES: usize = 256 << 10;
/// Of an answer, no more than this is taken in: it is a line.
const ANSWER_MAX_BYTES: usize = 16 << 10;
/// The longest sleep.
const SLEEP: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Why an export's thread ends.
enum Ended {
    /// The job has been cancelled.
    Closed,
    /// The connection is gone.
    Lost,
    /// It cannot continue; the job's message.
    Failed(String),
    /// All keys have been deleted.
    Flushed,
}

impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Ended {
        Ended::Lost
    }
}

impl From<Stop> for Ended {
    fn from(stop: Stop) -> Ended {
        match stop {
            Stop::Flushed => Ended::Flushed,
            Stop::Damaged(why) => Ended::Failed(why),
        }
    }
}

/// Starts the thread of a job.
pub(super) fn start(shared: &'static Shared, node: &'static ClusterNode, job: JobId) {
    let Some(of) = node.migrate(|machine, _| machine.job(job).cloned()) else { return };
    let started = ExportLink::new(job).and_then(|link| {
        let link = Arc::new(link);
        lock(&node.migrations.exports).insert(job, link.clone());
        let body = move || run(shared, node, link, &of);
        std::thread::Builder::new().name("slot-export".into()).spawn(body)
    });
    if let Err(error) = started {
        let text = format!("Unable to connect to target node: {}", error_text(&error));
        node.migrate(|machine, now| machine.fail(now, job, &text));
    }
}

fn run(shared: &'static Shared, node: &'static ClusterNode, link: Arc<ExportLink>, job: &Job) {
    crate::process::guard_thread();
    let id = link.job;
    let ended = Export::connect(shared, node, link, job).and_then(|mut export| {
        export.establish(job)?;
        export.serve(job)
    });
    let Err(ended) = ended;
    node.migration_event(shared, |machine, now| match &ended {
        Ended::Closed => {}
        Ended::Lost => machine.lost(now, id),
        Ended::Flushed => machine.flushed(now),
        Ended::Failed(why) => machine.fail(now, id, why),
    });
}

/// Starts the thread of a job whose target has made its connections; the stream for it goes into `feed`.
pub(super) fn start_for_target(
    shared: &'static Shared,
    node: &'static ClusterNode,
    link: Arc<ExportLink>,
    feed: FeedWriter,
) -> io::Result<()> {
    let body = move || {
        crate::process::guard_thread();
        let Some(job) = node.migrate(|machine, _| machine.job(link.job).cloned()) else { return };
        let peer = Peer::Feed(feed);
        let mut export =
            Export { shared, node, link, peer, received: Vec::new(), requests: Requests::default() };
        let Err(ended) = export.serve(&job);
        export.end(&ended);
    };
    std::thread::Builder::new().name("slot-export".into()).spawn(body).map(drop)
}

/// The other end.
enum Peer {
    /// A connection of this thread.
    Stream(Stream),
    /// A feed of a connection of an I/O thread, which takes in the other end's messages.
    Feed(FeedWriter),
}

/// The source of the sent bytes.
enum Source {
    Nothing,
    Snapshot(Taker, Reader<'static>),
    Stream(Reader<'static>),
}

struct Export {
    shared: &'static Shared,
    node: &'static ClusterNode,
    link: Arc<ExportLink>,
    peer: Peer,
    received: Vec<u8>,
    requests: Requests,
}

impl Export {
    fn connect(
        shared: &'static Shared,
        node: &'static ClusterNode,
        link: Arc<ExportLink>,
        job: &Job,
    ) -> Result<Export, Ended> {
        let config = shared.config.snapshot();
        let failed = |why: String| Ended::Failed(format!("Unable to connect to target node: {why}"));
        let refused = |error: io::Error| failed(error_text(&error));
        let address = node.read(|cluster| {
            let key = job.nodes.and_then(|(_, target)| cluster.find(target.as_bytes()))?;
            Some(cluster.node(key).address.clone())
        });
        let address = address.ok_or_else(|| failed("target node not found".into()))?;
        let port = if config.tls_replication { address.tls_port } else { address.tcp_port };
        tracing::info!("Connecting slot migration {} (ip: {}, port {port})", job.description(), address.host);
        let timeout = Duration::from_secs(u64::from(config.repl_timeout_s));
        let target = Address::resolve(&address.host, port).map_err(refused)?;
        let stream = outgoing::connect(&config, &target, &address.host).map_err(refused)?;
        stream.set_read_timeout(Some(timeout)).map_err(refused)?;
        lock(&link.orders).socket = Some(stream.as_fd().try_clone_to_owned().map_err(refused)?);
        let received = Vec::new();
        let peer = Peer::Stream(stream);
        Ok(Export { shared, node, link, peer, received, requests: Requests::default() })
    }

    /// The connection of a thread that made it.
    fn stream(&mut self) -> Result<&mut Stream, Ended> {
        match &mut self.peer {
            Peer::Stream(stream) => Ok(stream),
            Peer::Feed(_) => Err(Ended::Lost),
        }
    }

    fn end(&self, ended: &Ended) {
        self.event(|machine, now, id| match ended {
            Ended::Closed => {}
            Ended::Lost => machine.lost(now, id),
            Ended::Flushed => machine.flushed(now),
            Ended::Failed(why) => machine.fail(now, id, why),
        });
    }

    fn event(&self, input: impl FnOnce(&mut SlotMigrations, Time, JobId)) {
        let job = self.link.job;
        self.node.migration_event(self.shared, |machine, now| input(machine, now, job));
    }

    fn check(&self) -> Result<(), Ended> {
        let is_over =
            self.link.is_closed.load(Ordering::SeqCst) || self.shared.stopping.load(Ordering::Relaxed);
        if is_over { Err(Ended::Closed) } else { Ok(()) }
    }

    /// The target's answer to a request: a line with its end.
    fn answer(&mut self) -> Result<String, Ended> {
        while !self.received.ends_with(b"\r\n") {
            self.check()?;
            if self.received.len() > ANSWER_MAX_BYTES {
                return Err(Ended::Failed("Response to establish job is larger than buffer limit".into()));
            }
            let mut received = std::mem::take(&mut self.received);
            let read = self.stream()?.read_some(&mut received);
            self.received = received;
            match read {
                Ok(0) => return Err(Ended::Lost),
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(Ended::Lost),
                _ => {}
            }
        }
        Ok(String::from_utf8_lossy(&std::mem::take(&mut self.received)).into_owned())
    }

    /// Introduces this node, and the slots to come.
    fn establish(&mut self, job: &Job) -> Result<(), Ended> {
        let config = self.shared.config.snapshot();
        let authenticates = config.masterauth.is_some();
        self.event(|machine, now, id| machine.connected(now, id, authenticates));
        let mut bytes = Vec::new();
        if let Some(password) = &config.masterauth {
            let user = config.masteruser.as_ref().map(|user| user.as_bytes());
            let words: Vec<&[u8]> =
                [Some(b"AUTH".as_slice()), user, Some(password.as_ref())].into_iter().flatten().collect();
            encode_request(&words, &mut bytes);
            self.stream()?.send(&bytes)?;
            self.event(|machine, now, id| machine.auth_sent(now, id));
            let answer = self.answer()?;
            if answer.starts_with('-') {
                let answer = answer.trim_end();
                return Err(Ended::Failed(format!("Failed to AUTH to target node: {answer}")));
            }
            self.event(|machine, now, id| machine.authenticated(now, id));
            bytes.clear();
        }
        let (name, source) = (job.name.as_str(), job.nodes.map(|(source, _)| source));
        let source = source.as_ref().map_or("", |source| source.as_str());
        let mut words: Vec<String> =
            ["CLUSTER", "SYNCSLOTS", "ESTABLISH", "SOURCE", source, "NAME", name, "SLOTSRANGE"]
                .map(str::to_owned)
                .to_vec();
        words.extend(job.ranges.iter().flat_map(|(first, last)| [first.to_string(), last.to_string()]));
        encode_request(&words, &mut bytes);
        self.stream()?.send(&bytes)?;
        self.event(|machine, now, id| machine.establish_sent(now, id));
        let answer = self.answer()?;
        if answer.starts_with('-') {
            return Err(Ended::Failed(format!("Received error during handshake to target: {answer}")));
        }
        self.event(|machine, now, id| machine.established(now, id));
        Ok(())
    }

    /// Sends available data, and reads the target's messages, until an event ends that.
    fn serve(&mut self, job: &Job) -> Result<std::convert::Infallible, Ended> {
        let mut filter = Filter::new(self.shared.registry, job.slots());
        let mut source = Source::Nothing;
        loop {
            self.check()?;
            // Before the check for available data: a thread that adds to it then wakes this one.
            self.link.waits_for_stream.store(true, Ordering::SeqCst);
            let has_sent = self.send_messages()? | self.send_data(&mut source, &mut filter)?;
            self.hear(!has_sent)?;
        }
    }

    /// Sends pending messages, if all earlier data has been sent.
    fn send_messages(&mut self) -> Result<bool, Ended> {
        let sent = self.link.sent();
        let due: Vec<Message> = {
            let mut orders = lock(&self.link.orders);
            std::iter::from_fn(|| orders.messages.pop_front_if(|(after, _)| *after <= sent))
                .map(|(_, message)| message)
                .collect()
        };
        let job = self.link.job;
        for message in &due {
            let is_consent = *message == Message::StreamEof;
            if !is_consent || self.node.migrate(|machine, now| machine.consents(now, job)) {
                self.transmit(&encoded(*message))?;
            }
        }
        Ok(!due.is_empty())
    }

    fn transmit(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        match &mut self.peer {
            Peer::Stream(stream) => stream.send(bytes)?,
            Peer::Feed(feed) => feed.write_all(bytes).and_then(|()| feed.flush())?,
        }
        self.node.migrations.exported_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Sends some of the cut or of the stream; whether there was anything.
    fn send_data(&mut self, source: &mut Source, filter: &mut Filter) -> Result<bool, Ended> {
        match std::mem::replace(source, Source::Nothing) {
            Source::Nothing => {
                let begun = lock(&self.link.orders).begun.take();
                let is_begun = begun.is_some();
                *source = begun.map_or(Source::Nothing, |(taker, reader)| match taker {
                    Some(taker) => Source::Snapshot(taker, reader),
                    None => Source::Stream(reader),
                });
                Ok(is_begun)
            }
            Source::Snapshot(taker, reader) => {
                let next = taker.next();
                let is_nothing = matches!(next, Next::Nothing);
                match next {
                    Next::Block(block) => self.transmit(&block)?,
                    Next::End(false) => return Err(Ended::Failed("Failed to perform snapshot".into())),
                    Next::End(true) => {
                        self.transmit(&encoded(Message::SnapshotEof))?;
                        self.event(|machine, now, id| machine.snapshot_sent(now, id));
                        *source = Source::Stream(reader);
                        return Ok(true);
                    }
                    Next::Nothing => {}
                }
                *source = Source::Snapshot(taker, reader);
                Ok(!is_nothing)
            }
            Source::Stream(mut reader) => {
                let journal = &self.shared.engine.journal;
                journal.pump(journal.end());
                let next = reader.next();
                let has_more = match next {
                    Ok(Some(chunk)) => {
                        let (piece, mut out) = (chunk.part(0, PIECE_BYTES), Vec::new());
                        filter.take(&piece, &mut out)?;
                        self.transmit(&out)?;
                        self.link.filtered.fetch_add(out.len() as u64, Ordering::AcqRel);
                        reader.advance(piece.len());
                        self.link.sent.store(reader.at(), Ordering::Release);
                        true
                    }
                    Ok(None) => false,
                    Err(FellBehind) => return Err(Ended::Lost),
                };
                *source = Source::Stream(reader);
                Ok(has_more)
            }
        }
    }

    /// Reads the target's messages; sleeps until there is something to do, if it `may_sleep`.
    fn hear(&mut self, may_sleep: bool) -> Result<(), Ended> {
        let timeout = if may_sleep { SLEEP } else { Timespec { tv_sec: 0, tv_nsec: 0 } };
        let (is_woken, is_readable) = self.wait(&timeout)?;
        if is_woken {
            let _ = rustix::io::read(&self.link.event, &mut [0_u8; 8]);
        }
        if !is_readable {
            return Ok(());
        }
        let mut received = std::mem::take(&mut self.received);
        let read = self.stream()?.read_some(&mut received);
        self.received = received;
        match read {
            Ok(0) => return Err(Ended::Lost),
            Err(error) if !matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {
                return Err(error.into());
            }
            _ => {}
        }
        self.take_messages()
    }

    /// Sleeps; whether there are orders, and whether the target has said something.
    fn wait(&self, timeout: &Timespec) -> Result<(bool, bool), Ended> {
        let event = PollFd::new(&self.link.event, PollFlags::IN);
        let (mut both, mut one);
        let waited: &mut [PollFd<'_>] = match &self.peer {
            Peer::Stream(stream) => {
                both = [event, PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN)];
                &mut both
            }
            Peer::Feed(_) => {
                one = [event];
                &mut one
            }
        };
        match poll(waited, Some(timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let is_due = |at: usize| waited.get(at).is_some_and(|of| !of.revents().is_empty());
        Ok((is_due(0), is_due(1)))
    }

    fn take_messages(&mut self) -> Result<(), Ended> {
        let (received, mut requests) =
            (std::mem::take(&mut self.received), std::mem::take(&mut self.requests));
        let taken = requests.take(&received, |args, _| {
            let message = Message::named(args.at(2));
            self.event(|machine, now, id| machine.hear(now, id, message));
            Ok(())
        });
        self.requests = requests;
        taken.map_err(|_: String| Ended::Lost)
    }
}
