//! A connection to the primary: what it receives and sends, and why it ends.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use martlet_base::disk::error_text;
use martlet_base::sync::lock;
use martlet_client::address::Address;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::apply::ApplyQueue;
use super::gathered::Gathered;
use super::handshake::{Greeting, Refused};
use super::incoming::Incoming;
use super::state::{LinkState, Replica, Unloadable};
use crate::config::Primary;
use crate::outgoing::{self, is_readable};
use crate::persistence::settings::repl_codec;
use crate::replication::failover_state::State;
use crate::runtime::Shared;

/// The release of Valkey whose data sets this server reads, which its primary learns. To older ones Valkey 9
/// sends version 11 of the RDB format, which holds no fields that expire, and no data set as long as slots
/// are on their way to it.
const VALKEY_VERSION: &str = "9.1.0";

/// Between two attempts, and between two messages that tell how far this server has come.
pub(super) const PERIOD: Duration = Duration::from_secs(1);
/// How soon a stream that could not be applied is tried again.
pub(super) const PATIENCE: Duration = Duration::from_millis(10);

/// The line for the log when a snapshot stops.
pub(super) const SILENT: &str = "Timeout receiving bulk data from MASTER... If the problem persists try to set the 'repl-timeout' parameter in redis.conf to a larger value.";

/// Why a link has ended.
pub(super) enum Ended {
    /// The primary is another now, or the server ends.
    Changed,
    /// Something went wrong: a line for the log.
    Broken(String),
    /// A data set came that cannot be loaded, which the next could not either.
    Unloadable {
        /// The reason.
        why: String,
        /// The source, as the log names it.
        from: &'static str,
    },
}

impl From<Refused> for Ended {
    fn from(refused: Refused) -> Ended {
        Ended::Broken(refused.0)
    }
}

pub(super) fn broken(text: impl Into<String>) -> Ended {
    Ended::Broken(text.into())
}

fn unreadable(error: io::Error) -> Ended {
    broken(format!("I/O error reading from master: {}", error_text(&error)))
}

pub(super) fn set_state(shared: &Shared, generation: u64, state: LinkState) {
    shared.replication.replica.update(|status| {
        if status.generation == generation {
            status.state = state;
            if state == LinkState::Connected {
                status.unloadable = Unloadable::default();
            }
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
    pub(super) stream: Arc<Mutex<Incoming>>,
    /// Its socket, to wait for.
    socket: OwnedFd,
    /// Where the stream of commands goes, once it has begun.
    pub(super) queue: Option<Arc<ApplyQueue>>,
    /// Received bytes that were not used yet.
    pub(super) received: Vec<u8>,
    /// When something was received last: a raw reading of the clock.
    pub(super) heard: u64,
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
        let (stream, received) = (Arc::new(Mutex::new(Incoming::new(stream))), Vec::new());
        Ok(Link { shared, replica, generation, stream, socket, queue: None, received, heard, main: None })
    }

    pub(super) fn set_state(&self, state: LinkState) {
        set_state(self.shared, self.generation, state);
    }

    /// Whether the link's generation is still the present one.
    pub(super) fn check(&self) -> Result<(), Ended> {
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
        let [main_has_frame, has_frame] = [
            main.is_some() && self.main.as_ref().is_some_and(|main| main.link.has_frame()),
            reads && self.has_frame(),
        ];
        let most = if main_has_frame || has_frame { Duration::ZERO } else { most };
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
        if (main_is_readable || main_has_frame)
            && let Some(main) = &mut self.main
        {
            main.receive();
        }
        if is_readable || has_frame { self.receive() } else { Ok(()) }
    }

    /// Takes in what there is to be received.
    pub(super) fn receive(&mut self) -> Result<(), Ended> {
        let mut stream = lock(&self.stream);
        if !stream.has_frame() && !is_readable(&self.socket) {
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
            Err(error) => return Err(unreadable(error)),
        }
        Ok(())
    }

    /// Whether more of the stream can be taken without the socket.
    fn has_frame(&self) -> bool {
        lock(&self.stream).has_frame()
    }

    /// What comes from here on is the stream of commands.
    pub(super) fn begin_stream(&mut self) -> Result<(), Ended> {
        let begun = lock(&self.stream).begin_stream(&mut self.received);
        begun.map_err(unreadable)
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
            version: VALKEY_VERSION,
            takes_channel: config.repl_rdb_channel,
            codec: repl_codec(&config),
            fails_over: self.shared.replication.failover.state() == State::InProgress,
            resume: self.shared.replication.history().request(self.shared.applied_offset()),
        }
    }

    /// Sends the primary a keepalive. If the primary is gone, the next read shows it.
    pub(super) fn send_keepalive(&mut self) {
        let stream = self.main.as_ref().map_or(&self.stream, |main| &main.link.stream);
        let _ = lock(stream).send(b"\n");
    }
}

/// The first connection, while the data set comes by another.
pub(super) struct MainChannel {
    pub gathered: Gathered,
    pub link: Link,
    /// Why no more input comes by it.
    pub failure: Option<String>,
    has_reached_limit: bool,
}

impl MainChannel {
    pub fn new(mut link: Link) -> Result<MainChannel, Ended> {
        link.begin_stream()?;
        let figures = &link.replica.gathered;
        let mut gathered = Gathered::new(figures, &link.shared.config.snapshot());
        gathered.push(&std::mem::take(&mut link.received));
        Ok(MainChannel { gathered, link, failure: None, has_reached_limit: false })
    }

    /// Whether its input is to be received.
    pub fn is_read(&self) -> bool {
        self.failure.is_none() && !self.has_reached_limit
    }

    /// Receives input.
    pub fn receive(&mut self) {
        if !self.gathered.has_room() {
            tracing::info!(
                "Replication buffer limit has been reached ({} bytes), stopped buffering replication stream. Further accumulation may occur on master side.",
                self.gathered.limit_bytes
            );
            self.has_reached_limit = true;
            return;
        }
        let received = self.link.receive();
        self.gathered.push(&std::mem::take(&mut self.link.received));
        if let Err(Ended::Broken(why)) = received {
            self.failure = Some(why);
        }
    }
}

impl Link {
    /// Receives and sends until `answer`, which gets the received bytes and appends output, comes to a
    /// result.
    pub(super) fn converse<T, E: Into<Ended>>(
        &mut self,
        out: &mut Vec<u8>,
        mut answer: impl FnMut(&[u8], &mut Vec<u8>) -> Result<Option<T>, E>,
    ) -> Result<T, Ended> {
        let mut result = None;
        loop {
            if !out.is_empty() {
                self.send(out)?;
                out.clear();
            }
            if let Some(result) = result {
                return Ok(result);
            }
            self.wait(true, PERIOD, "Timeout connecting to the MASTER...")?;
            result = answer(&std::mem::take(&mut self.received), out).map_err(E::into)?;
        }
    }

    /// Waits for the loading thread, which wakes this one; in that time receives the stream, and sends
    /// keepalives to the primary.
    pub(super) fn await_loaded<T>(&mut self, loading: &Receiver<Result<T, String>>) -> Result<T, String> {
        let clock = &self.shared.clock;
        let mut told = clock.raw();
        loop {
            match loading.try_recv() {
                Ok(loaded) => return loaded,
                Err(TryRecvError::Disconnected) => return Err("The thread that loads has failed.".into()),
                Err(TryRecvError::Empty) => {}
            }
            if clock.elapsed_ns(told, clock.raw()) >= PERIOD.as_nanos() as u64 {
                self.send_keepalive();
                told = clock.raw();
            }
            if self.poll(false, PERIOD).is_err() {
                std::thread::sleep(PATIENCE);
            }
        }
    }
}
