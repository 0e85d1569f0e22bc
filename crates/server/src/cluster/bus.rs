//! The thread `cluster`: the bus' sockets, its file and its clock. It sees no key and never enters the gate.

use std::collections::{BTreeSet, HashMap};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use martlet_base::disk::{RealDisk, error_text};
use martlet_base::sync::lock;
use martlet_cluster::conf;
use martlet_cluster::machine::{Action, Cluster, LinkId, Replication, Time};
use martlet_cluster::packet::Published;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::inbound::Inbound;
use super::link::Link;
use super::node::ClusterNode;
use super::settings;
use crate::config::{ClusterConfigSaveBehavior, Config};
use crate::outgoing::begin_bus;
use crate::pubsub::hub::Kind;
use crate::runtime::Worker;
use crate::runtime::{Mail, Shared};

/// Interval of the machine's ticks.
const TICK_MS: i64 = 100;
/// Connections that are accepted before others get their turn.
const ACCEPTED_MAX: usize = 64;
/// Sockets that are looked at in one turn, at most.
const READY_MAX: usize = 256;
/// Numbers of descriptors other than connections in epoll's events; connections are numbered from 0.
const WAKEUP: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

/// Listens for other nodes.
///
/// # Errors
/// A line for the log.
pub(super) fn listen(config: &Config) -> Result<Vec<OwnedFd>, String> {
    let port = settings::bus_port(config).ok_or(
        "Redis port number too high for cluster mode. The cluster bus port number is calculated by adding 10000 to the port number you are using for normal clients, so the port number can't be higher than 55535.",
    )?;
    let listeners = crate::listeners::bus(config, port)?;
    Ok(listeners.into_iter().map(|listener| listener.socket).collect())
}

/// The thread's loop, until the server ends.
pub(super) fn run(shared: &'static Shared, listeners: Vec<OwnedFd>) {
    crate::process::guard_thread();
    let Some(node) = shared.cluster() else { return };
    let listeners: Vec<_> = listeners.into_iter().map(TcpListener::from).collect();
    let mut bus = match watch(node, &listeners) {
        Ok(epoll) => Bus {
            shared,
            node,
            listeners,
            epoll,
            ready: Vec::with_capacity(READY_MAX),
            links: HashMap::new(),
            touched: Vec::new(),
            pending: BTreeSet::new(),
            next_tick_ms: 0,
            refused: Refused::default(),
            inbound: Inbound::default(),
        },
        Err(error) => {
            tracing::error!("The cluster bus cannot be waited for: {}", error_text(&error));
            std::process::exit(1);
        }
    };
    while !shared.stopping.load(Ordering::Relaxed) {
        bus.turn();
    }
}

/// An epoll that waits for other threads and for incoming connections.
fn watch(node: &ClusterNode, listeners: &[TcpListener]) -> std::io::Result<OwnedFd> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &node.wakeup, EventData::new_u64(WAKEUP), EventFlags::IN)?;
    for listener in listeners {
        epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    }
    Ok(epoll)
}

struct Bus {
    shared: &'static Shared,
    node: &'static ClusterNode,
    listeners: Vec<TcpListener>,
    epoll: OwnedFd,
    /// The events of the last wait.
    ready: Vec<epoll::Event>,
    links: HashMap<LinkId, Link>,
    /// Those that epoll may have to wait for otherwise.
    touched: Vec<LinkId>,
    /// Those that have something to be sent.
    pending: BTreeSet<LinkId>,
    /// In the machine's time.
    next_tick_ms: i64,
    refused: Refused,
    inbound: Inbound,
}

/// TLS handshakes that have failed, and the log's entry about them.
#[derive(Default)]
struct Refused {
    /// When it was logged last, in the machine's time.
    logged_ms: Option<i64>,
    /// How many there have been since.
    untold: u64,
}

/// Between two lines in the log about them: nodes try again ten times a second.
const REFUSED_PERIOD_MS: i64 = 10_000;

impl Refused {
    /// One more, with the node at `peer`.
    fn note(&mut self, now_ms: i64, peer: &str, why: &str) {
        if self.logged_ms.is_some_and(|logged_ms| now_ms - logged_ms < REFUSED_PERIOD_MS) {
            self.untold += 1;
            return;
        }
        self.logged_ms = Some(now_ms);
        let others = match std::mem::take(&mut self.untold) {
            0 => String::new(),
            count => format!(" ({count} more since this was logged last)"),
        };
        tracing::warn!("The TLS handshake with {peer} on the cluster bus has failed: {why}{others}");
    }
}

/// What became of the sockets that were waited for.
#[derive(Default)]
struct Events {
    accepts: bool,
    /// Connections, and whether each can be read and written.
    links: Vec<(LinkId, bool, bool)>,
}

impl Bus {
    /// Waits for something to do, and does it.
    fn turn(&mut self) {
        let events = self.wait();
        if events.accepts {
            self.accept();
        }
        for (id, is_readable, is_writable) in events.links {
            if is_writable {
                self.write(id);
            }
            if is_readable {
                self.read(id);
            }
        }
        if self.node.now().mono_ms >= self.next_tick_ms {
            self.next_tick_ms = self.node.now().mono_ms + TICK_MS;
            self.tick();
        }
        self.carry_out();
    }

    fn wait(&mut self) -> Events {
        for id in std::mem::take(&mut self.touched) {
            let watched =
                self.links.get_mut(&id).map(|link| (link.watch(&self.epoll, id.0), link.wants_to_write()));
            match watched {
                Some((Ok(()), true)) => drop(self.pending.insert(id)),
                Some((Err(error), _)) => self.lose(id, &error),
                _ => drop(self.pending.remove(&id)),
            }
        }
        let left_ms = (self.next_tick_ms - self.node.now().mono_ms).clamp(0, TICK_MS);
        let timeout = Timespec::try_from(Duration::from_millis(left_ms as u64)).ok();
        self.ready.clear();
        if epoll::wait(&self.epoll, spare_capacity(&mut self.ready), timeout.as_ref()).is_err() {
            return Events::default();
        }
        let mut events = Events::default();
        let bad = EventFlags::ERR | EventFlags::HUP;
        for epoll::Event { flags, data } in self.ready.iter().copied() {
            match data.u64() {
                WAKEUP => {
                    let mut count = [0; 8];
                    let _ = rustix::io::read(self.node.wakeup.as_fd(), &mut count);
                }
                LISTENER => events.accepts = true,
                number => events.links.push((
                    LinkId(number),
                    flags.intersects(EventFlags::IN | bad),
                    flags.intersects(EventFlags::OUT | bad),
                )),
            }
        }
        events
    }

    fn input<R>(&self, input: impl FnOnce(&mut Cluster, Time) -> R) -> R {
        self.node.input(input).0
    }

    fn accept(&mut self) {
        let accepted: Vec<_> = (self.listeners.iter())
            .flat_map(|listener| std::iter::from_fn(|| listener.accept().ok()).take(ACCEPTED_MAX))
            .collect();
        for (stream, _) in accepted {
            let Ok(tls) = self.shared.tls.bus().map(|tls| tls.accept()).transpose() else { continue };
            let Ok(link) = Link::accepted(stream, tls) else { continue };
            let (peer, own) = link.ends();
            let id = self.input(|cluster, now| cluster.accepted(now, &peer, &own));
            self.insert(id, link);
            let surplus = self.inbound.accepted(id, self.node.now().mono_ms);
            self.end_inbound(surplus);
        }
    }

    /// Closes connections that others have made, and that are too many or too silent.
    fn end_inbound(&mut self, ids: impl IntoIterator<Item = LinkId>) {
        for id in ids {
            tracing::debug!("A connection to the cluster bus is closed: it is silent");
            self.remove(id);
            self.input(|cluster, now| cluster.closed(now, id));
        }
    }

    fn insert(&mut self, id: LinkId, link: Link) {
        self.links.insert(id, link);
        self.touched.push(id);
    }

    fn remove(&mut self, id: LinkId) {
        self.links.remove(&id);
        self.inbound.closed(id);
        self.touched.push(id);
    }

    /// A connection, which may want to be waited for otherwise afterwards.
    fn touch(&mut self, id: LinkId) -> Option<&mut Link> {
        self.touched.push(id);
        self.links.get_mut(&id)
    }

    fn write(&mut self, id: LinkId) {
        let Some(link) = self.touch(id) else { return };
        let written = if link.is_connecting { link.finish_connecting() } else { link.flush() };
        match written {
            Ok(()) => self.tell_connected(id),
            Err(error) => self.lose(id, &error),
        }
    }

    /// Reports to the machine that a requested connection can be used.
    fn tell_connected(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if link.is_there_now() {
            let (peer, own) = link.ends();
            self.input(|cluster, now| cluster.connected(now, id, &peer, &own));
        }
    }

    fn read(&mut self, id: LinkId) {
        let Some(link) = self.touch(id).filter(|link| !link.is_connecting) else { return };
        let received = link.receive();
        self.tell_connected(id);
        let Some(link) = self.links.get_mut(&id) else { return };
        let mut surplus = None;
        loop {
            match link.frames.next_packet() {
                Ok(Some(packet)) => {
                    surplus = surplus.or(self.inbound.heard(id, self.node.now().mono_ms));
                    self.node.input(|cluster, now| cluster.received(now, id, packet));
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!("{error}");
                    self.remove(id);
                    return self.input(|cluster, now| cluster.closed(now, id));
                }
            }
        }
        self.end_inbound(surplus);
        match received {
            Ok(true) => {}
            Ok(false) => {
                self.note_refused(id, "the other end has closed the connection");
                self.remove(id);
                self.input(|cluster, now| cluster.closed(now, id));
            }
            Err(error) => self.lose(id, &error),
        }
    }

    /// Logs that a connection ends before hands are shaken, if that is so.
    fn note_refused(&mut self, id: LinkId, why: &str) {
        if let Some(link) = self.links.get(&id).filter(|link| !link.is_connecting && link.is_handshaking()) {
            self.refused.note(self.node.now().mono_ms, &link.ends().0, why);
        }
    }

    fn lose(&mut self, id: LinkId, error: &std::io::Error) {
        let why = error_text(error);
        self.note_refused(id, &why);
        tracing::debug!("I/O error on a link of the cluster bus: {why}");
        self.remove(id);
        self.input(|cluster, now| cluster.closed(now, id));
    }

    fn tick(&mut self) {
        let replication = Replication {
            offset: self.shared.told_offset(),
            silent_ms: self.shared.replication.replica.silent_ms(self.node.clock.unix_ms()),
        };
        self.input(|cluster, now| {
            cluster.set_replication(replication);
            cluster.tick(now);
        });
        self.node.migration_tick(self.shared);
        let pending = self.pending.iter().filter_map(|id| Some((*id, self.links.get(id)?.waiting())));
        *lock(&self.node.waiting) = pending.collect();
        let node_timeout_ms = self.shared.config.snapshot().cluster_node_timeout_ms;
        self.end_inbound(self.inbound.overdue(self.node.now().mono_ms, node_timeout_ms));
        self.limit_waiting();
    }

    /// Closes connections to nodes that take nothing.
    fn limit_waiting(&mut self) {
        let limit = self.shared.config.snapshot().cluster_link_sendbuf_limit_bytes;
        if limit == 0 {
            return;
        }
        let used = |link: &Link| (size_of::<Link>() + link.waiting().used) as u64;
        let is_over = |id: &LinkId| self.links.get(id).is_some_and(|link| used(link) > limit);
        // A limit below a connection's own size closes all, as in Redis.
        let over: Vec<LinkId> = match limit < size_of::<Link>() as u64 {
            true => self.links.keys().copied().collect(),
            false => self.pending.iter().copied().filter(is_over).collect(),
        };
        for id in over {
            tracing::warn!(
                "Freeing outbound cluster link due to exceeding send buffer memory limit ({limit} bytes)"
            );
            self.remove(id);
            self.input(|cluster, now| cluster.closed_over_limit(now, id));
        }
    }

    /// Carries out the machine's outside actions, and has a worker do the rest.
    fn carry_out(&mut self) {
        loop {
            let (actions, saves) = {
                let mut machine = lock(&self.node.machine);
                (std::mem::take(&mut machine.outside), machine.saves.wanted)
            };
            if actions.is_empty() {
                break;
            }
            if !self.save(&actions) {
                return self.shared.stop();
            }
            self.node.saved(saves);
            actions.into_iter().for_each(|action| self.act(action));
        }
        let ((), left) = self.node.input(|_, _| ());
        if left.data && self.node.needs_gate() {
            let follow = |worker: &mut Worker| {
                // Another worker may have done it since.
                if worker.shared.cluster().is_some_and(ClusterNode::needs_gate) {
                    worker.alone(Worker::follow_cluster);
                    worker.serve_ready();
                }
            };
            self.shared.send(0, Mail::Run(Box::new(follow)));
        }
    }

    /// Writes the last state of these, which is newer than any packet of them; returns whether the server may
    /// continue.
    fn save(&self, actions: &[Action]) -> bool {
        let mut saves = actions.iter().filter_map(|action| match action {
            Action::SaveConf { text, is_synced } => Some((text, *is_synced)),
            _ => None,
        });
        let Some(first) = saves.next() else { return true };
        let (text, is_synced) = saves.fold(first, |(_, synced), (text, is)| (text, synced || is));
        let lock_new = |path: &Path| self.node.lock_new(path);
        match conf::save(&RealDisk, &self.node.file, text, is_synced, lock_new) {
            Ok(()) => true,
            Err(error) => {
                let error = error_text(&error);
                match self.shared.config.snapshot().cluster_config_save_behavior {
                    ClusterConfigSaveBehavior::BestEffort => {
                        tracing::warn!("Could not update cluster config file: {error}. Going on without it.");
                        true
                    }
                    ClusterConfigSaveBehavior::Sync => {
                        // Logged when the server ends, with a status by which supervisors start it again.
                        let why = format!("Fatal: can't update cluster config file: {error}");
                        let _ = self.node.failure.set(why);
                        false
                    }
                }
            }
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Connect { link: id, host, port } => {
                let config = self.shared.config.snapshot();
                match begin_bus(&config, &self.shared.tls, &host, port) {
                    Ok(begun) => self.insert(id, Link::begun(begun)),
                    Err(error) => self.lose(id, &error),
                }
            }
            Action::Send { link: id, packet } => {
                let Some(link) = self.touch(id) else { return };
                link.send(packet);
                if !link.is_connecting
                    && let Err(error) = link.flush()
                {
                    self.lose(id, &error);
                }
            }
            Action::Close(id) => self.remove(id),
            Action::Deliver(published) => self.deliver(&published),
            Action::Log(text) => tracing::info!("{text}"),
            _ => {}
        }
    }

    fn deliver(&self, Published { channel, message, is_sharded }: &Published) {
        let kind = if *is_sharded { Kind::Shard } else { Kind::Channel };
        self.shared.hub.publish(kind, channel, message, |thread, delivery| {
            self.shared.send(thread, Mail::Message(delivery));
        });
    }
}

impl Shared {
    /// The replication offset that other nodes see.
    fn told_offset(&self) -> u64 {
        let journal = &self.engine.journal;
        if self.is_replica() {
            return self.replica_offset();
        }
        match journal.is_followed_by(martlet_journal::Follower::Replicas) {
            true => self.replication_offset(),
            false => journal.stream_end().offset,
        }
    }
}
