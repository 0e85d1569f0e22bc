//! Servers that replicate, the wires between them, and the time that passes there.

use martlet_replication::acks::ReplicaAck;
use martlet_replication::failover::{State, Step};

use super::client::{Client, Op, Reply};
use super::data::{Command, Data, Entry, Truth};
use super::net::{Net, Node};
use super::server::{Held, Link, Server, Session, Stage, WireId};
use super::{Faults, Options, Summary};

/// Interval at which servers do their due work, in milliseconds.
pub(super) const TICK_MS: i64 = 100;
/// Between two PINGs, two acknowledgements and two attempts, in milliseconds.
const PERIOD_MS: i64 = 1_000;
/// `repl-timeout`, in milliseconds.
const TIMEOUT_MS: i64 = 6_000;
/// `repl-backlog-ttl`, in milliseconds.
const BACKLOG_TTL_MS: i64 = 20_000;

/// A replica's message.
#[derive(Debug)]
pub(super) enum Said {
    Psync {
        resume: Option<(String, u64)>,
        fails_over: bool,
    },
    Ack(u64),
    /// It is there, and loads the data set that it received.
    Alive,
    Closed,
}

/// A primary's answer.
#[derive(Debug)]
pub(super) enum Told {
    Full {
        id: String,
        offset: u64,
        data: Data,
    },
    Continue(String),
    Refused,
    /// What ends in a piece of the stream, which may end within a command.
    Stream(Vec<Entry>),
    Closed,
}

#[derive(Debug)]
pub(super) enum Event {
    Tick,
    Said(WireId, Said),
    Told(WireId, Told),
    /// A full sync has been sent.
    Sent(usize, WireId),
    /// A full sync has been loaded.
    Loaded(usize, WireId, String, u64, Data),
    /// A replica's connection that was to end has ended.
    Reap(usize, WireId),
    Client(usize),
    Request(usize, usize),
    Reply(usize, Reply),
}

/// A connection of a replica to its primary, each in one of its lives.
struct Wire {
    replica: usize,
    replica_life: u64,
    primary: usize,
    primary_life: u64,
    /// Nothing comes through any more, and neither end notices.
    is_stuck: bool,
    is_closed: bool,
    /// Messages on their way are lost.
    is_broken: bool,
    last_ms: [i64; 2],
}

/// See the [module docs](self).
pub(super) struct Group {
    pub servers: Vec<Server>,
    pub clients: Vec<Client>,
    pub ops: Vec<Op>,
    pub truth: Truth,
    pub out: Vec<(i64, Event)>,
    /// Clients ask for something.
    pub is_busy: bool,
    pub faults: Faults,
    pub sync_replicas: usize,
    wires: Vec<Wire>,
}

impl Group {
    pub fn new(options: &Options, net: &mut Net, ips: Vec<String>) -> Group {
        let first = ips[0].clone();
        let make = |(index, ip): (usize, String)| {
            let primary = (index > 0).then(|| first.clone());
            Server::new(index, ip, primary, net.new_id(), options.sync_replicas)
        };
        let servers = ips.into_iter().enumerate().map(make).collect();
        let clients = (0..options.clients).map(|_| Client::default()).collect();
        let (ops, out, wires) = (Vec::new(), vec![(TICK_MS, Event::Tick)], Vec::new());
        let (faults, sync_replicas) = (options.faults, options.sync_replicas);
        let truth = Truth::default();
        Group { servers, clients, ops, truth, out, is_busy: false, faults, sync_replicas, wires }
    }

    /// Which node an event waits for, if that stands still.
    pub fn actor(&self, net: &Net, event: &Event) -> Option<Node> {
        let server = match event {
            Event::Said(wire, _) => self.wires[*wire].primary,
            Event::Told(wire, _) => self.wires[*wire].replica,
            Event::Sent(server, _) | Event::Loaded(server, ..) | Event::Reap(server, _) => *server,
            Event::Request(server, _) => *server,
            Event::Tick | Event::Client(_) | Event::Reply(..) => return None,
        };
        Some(net.servers + server)
    }

    pub fn happen(&mut self, net: &mut Net, event: Event, summary: &mut Summary) {
        if let Event::Said(wire, _) | Event::Told(wire, _) = &event
            && self.wires[*wire].is_broken
            && !matches!(event, Event::Said(_, Said::Closed) | Event::Told(_, Told::Closed))
        {
            return;
        }
        match event {
            Event::Tick => self.tick(net, summary),
            Event::Said(wire, said) => self.said(net, wire, said, summary),
            Event::Told(wire, told) => self.told(net, wire, told),
            Event::Sent(server, wire) => self.sent(net, server, wire),
            Event::Loaded(server, wire, id, offset, data) => self.loaded(net, server, wire, id, offset, data),
            Event::Reap(server, wire) => self.reap(net, server, wire),
            Event::Client(_) => {}
            Event::Request(server, op) => self.request(net, server, op),
            Event::Reply(op, reply) => self.reply(net, op, reply),
        }
    }

    fn later(&mut self, ms: i64, event: Event) {
        self.out.push((ms, event));
    }

    /// Sends something over a wire, in order; at a partition it is lost.
    fn transmit(&mut self, net: &mut Net, wire: WireId, event: Event) {
        let at_ms = net.arrival_ms();
        let way = usize::from(matches!(event, Event::Told(..)));
        let known = &mut self.wires[wire];
        known.is_stuck |= !net.reaches(net.servers + known.replica, net.servers + known.primary);
        if known.is_stuck || known.is_closed {
            return;
        }
        let at_ms = at_ms.max(known.last_ms[way]);
        known.last_ms[way] = at_ms;
        self.later(at_ms, event);
    }

    /// Ends a connection; the other end hears of it if it can.
    fn close(&mut self, net: &mut Net, wire: WireId) {
        self.transmit(net, wire, Event::Said(wire, Said::Closed));
        self.transmit(net, wire, Event::Told(wire, Told::Closed));
        self.wires[wire].is_closed = true;
    }

    /// Breaks a connection, with all that is on its way.
    pub fn cut(&mut self, net: &mut Net, server: usize) {
        if let Some(wire) = self.servers[server].link.as_ref().map(|link| link.wire) {
            self.close(net, wire);
            self.wires[wire].is_broken = true;
        }
    }

    /// Follows another server, or none.
    pub fn follow(&mut self, net: &mut Net, server: usize, primary: Option<String>, summary: &mut Summary) {
        if self.servers[server].primary == primary {
            return;
        }
        if let Some(link) = &self.servers[server].link {
            let wire = link.wire;
            self.close(net, wire);
        }
        let (id, one) = (net.new_id(), &mut self.servers[server]);
        one.follow(primary, id, &mut self.truth, net.now_ms);
        if one.primary.is_none() {
            summary.promotions += 1;
            summary.lost_at_promotion += self.truth.lost(&self.servers[server].data).len() as u64;
            self.disconnect_all(net, server);
        }
    }

    /// Ends the connections of a server's replicas, soon.
    fn disconnect_all(&mut self, net: &mut Net, server: usize) {
        let wires: Vec<_> = self.servers[server].replicas.iter().map(|session| session.wire).collect();
        wires.into_iter().for_each(|wire| self.disconnect(net, server, wire));
    }

    fn disconnect(&mut self, net: &mut Net, server: usize, wire: WireId) {
        let mut replicas = self.servers[server].replicas.iter_mut();
        let Some(session) = replicas.find(|session| session.wire == wire) else { return };
        if !std::mem::replace(&mut session.standing.is_leaving, true) {
            let at_ms = net.now_ms + 1 + net.random.below(60) as i64;
            self.later(at_ms, Event::Reap(server, wire));
        }
    }

    fn reap(&mut self, net: &mut Net, server: usize, wire: WireId) {
        self.servers[server].replicas.retain(|session| session.wire != wire);
        if self.servers[server].replicas.is_empty() {
            self.servers[server].alone_since_ms = net.now_ms;
        }
        self.close(net, wire);
    }

    pub fn crash(&mut self, net: &mut Net, server: usize) {
        if self.faults == Faults::Gentle {
            self.servers[server].files.clear();
            self.servers[server].save();
        }
        self.servers[server].crash();
        let is_its = |wire: &Wire| !wire.is_closed && (wire.replica == server || wire.primary == server);
        let wires: Vec<_> = (0..self.wires.len()).filter(|wire| is_its(&self.wires[*wire])).collect();
        wires.into_iter().for_each(|wire| self.close(net, wire));
    }

    pub fn restart(&mut self, net: &mut Net, server: usize) {
        let one = &mut self.servers[server];
        // The newest file, an older one, or none.
        let back = if self.faults == Faults::Gentle { 0 } else { net.random.below(3) as usize };
        let count = one.files.len();
        one.files.truncate(count.saturating_sub(back));
        let file = if back == 2 { None } else { one.files.last().cloned() };
        one.start(file, net.new_id(), &mut self.truth, net.now_ms);
    }

    fn tick(&mut self, net: &mut Net, summary: &mut Summary) {
        for server in 0..self.servers.len() {
            if self.servers[server].is_up && !net.is_paused(net.servers + server) {
                self.tick_primary(net, server, summary);
                self.tick_replica(net, server);
                self.tick_failover(net, server, summary);
                if net.one_in(60) {
                    self.servers[server].save();
                }
                self.flush(net, server);
            }
        }
        self.later(net.now_ms + TICK_MS, Event::Tick);
    }

    fn tick_primary(&mut self, net: &mut Net, server: usize, summary: &mut Summary) {
        let (now_ms, new_id) = (net.now_ms, net.new_id());
        let one = &mut self.servers[server];
        let silent = one.replicas.iter().filter(|session| now_ms - session.heard_ms > TIMEOUT_MS);
        let silent: Vec<_> = silent.map(|session| session.wire).collect();
        if one.replicas.iter().any(|session| session.waits) {
            if !one.is_kept() {
                one.history.begin_anew(new_id);
                one.is_followed = true;
                one.note_name(&mut self.truth);
            }
            self.begin_full_sync(net, server, summary);
        } else if one.primary.is_none() && one.is_followed {
            let is_alone = one.replicas.is_empty() && now_ms - one.alone_since_ms > BACKLOG_TTL_MS;
            if is_alone {
                one.is_followed = false;
                one.history.begin_anew(new_id);
            } else if now_ms - one.pinged_ms >= PERIOD_MS && one.failover.state() == State::None {
                one.pinged_ms = now_ms;
                one.record(Command::Ping, &mut self.truth);
            }
        }
        silent.into_iter().for_each(|wire| self.disconnect(net, server, wire));
    }

    /// Sends all that wait for one a full sync of now.
    fn begin_full_sync(&mut self, net: &mut Net, server: usize, summary: &mut Summary) {
        let one = &mut self.servers[server];
        let (id, offset, data) = (one.history.id().to_owned(), one.offset(), one.data.clone());
        let waiting = one.replicas.iter_mut().filter(|session| session.waits && !session.standing.is_leaving);
        let begin = |session: &mut Session| {
            (session.waits, session.at) = (false, offset);
            session.wire
        };
        let wires: Vec<WireId> = waiting.map(begin).collect();
        for wire in wires {
            summary.full_syncs += 1;
            self.later(net.now_ms + 200 + net.random.below(1_500) as i64, Event::Sent(server, wire));
            let arrival_ms = net.now_ms + net.random.below(1_500) as i64;
            let last_ms = &mut self.wires[wire].last_ms[1];
            *last_ms = arrival_ms.max(*last_ms);
            let told = Told::Full { id: id.clone(), offset, data: data.clone() };
            self.transmit(net, wire, Event::Told(wire, told));
        }
    }

    fn tick_replica(&mut self, net: &mut Net, server: usize) {
        let now_ms = net.now_ms;
        let one = &mut self.servers[server];
        one.apply(usize::MAX, &mut self.truth);
        let offset = one.offset();
        let Some(primary) = one.primary.clone() else { return };
        match &mut one.link {
            Some(link) if now_ms - link.heard_ms > TIMEOUT_MS => {
                let wire = link.wire;
                self.close(net, wire);
                self.end_link(net, server);
            }
            Some(link) if link.stage == Stage::Stream && now_ms - link.told_ms >= PERIOD_MS => {
                link.told_ms = now_ms;
                let wire = link.wire;
                self.transmit(net, wire, Event::Said(wire, Said::Ack(offset)));
            }
            Some(link) => {
                // A sign of life.
                let wire = link.wire;
                if link.stage == Stage::Sync && net.one_in(10) {
                    self.transmit(net, wire, Event::Said(wire, Said::Alive));
                }
            }
            None if one.retry_ms <= now_ms => self.connect(net, server, &primary),
            None => {}
        }
    }

    fn connect(&mut self, net: &mut Net, server: usize, primary: &str) {
        let now_ms = net.now_ms;
        let to = self.servers.iter().position(|other| other.ip == primary).filter(|to| *to != server);
        let reaches =
            |to: &usize| self.servers[*to].is_up && net.reaches(net.servers + server, net.servers + *to);
        let Some(to) = to.filter(reaches) else {
            self.servers[server].retry_ms = now_ms + PERIOD_MS;
            return;
        };
        let wire = self.wires.len();
        self.wires.push(Wire {
            replica: server,
            replica_life: self.servers[server].life,
            primary: to,
            primary_life: self.servers[to].life,
            is_stuck: false,
            is_closed: false,
            is_broken: false,
            last_ms: [0; 2],
        });
        let one = &mut self.servers[server];
        let stage = Stage::Handshake;
        one.link = Some(Link { wire, stage, heard_ms: now_ms, told_ms: now_ms, waiting: Vec::new() });
        let resume = one.history.request(one.offset());
        let fails_over = one.failover.state() == State::InProgress;
        self.transmit(net, wire, Event::Said(wire, Said::Psync { resume, fails_over }));
    }

    /// The link is over; received entries are applied.
    fn end_link(&mut self, net: &Net, server: usize) {
        let one = &mut self.servers[server];
        one.apply(usize::MAX, &mut self.truth);
        one.drop_link(net.now_ms);
        one.retry_ms = net.now_ms + PERIOD_MS;
    }

    fn tick_failover(&mut self, net: &mut Net, server: usize, summary: &mut Summary) {
        let one = &mut self.servers[server];
        let target = match one.failover.step(net.now_ms) {
            Step::Nothing => return,
            Step::Abort => return drop(one.failover.end()),
            Step::Force(target) => Some(target),
            Step::Await => one.synced_target(),
        };
        if let Some(target) = target
            && one.failover.proceed(target.clone())
        {
            self.follow(net, server, Some(target), summary);
        }
    }

    /// Ends a failover that does not come about.
    pub fn abort_failover(&mut self, net: &mut Net, server: usize, summary: &mut Summary) {
        if self.servers[server].failover.end().0 == State::InProgress {
            self.follow(net, server, None, summary);
        }
    }

    fn said(&mut self, net: &mut Net, wire: WireId, said: Said, summary: &mut Summary) {
        let Wire { primary, primary_life, .. } = self.wires[wire];
        let one = &mut self.servers[primary];
        if !one.is_up || one.life != primary_life {
            return;
        }
        match said {
            Said::Psync { resume, fails_over } => self.psync(net, wire, resume, fails_over, summary),
            Said::Ack(offset) => {
                one.note_ack(wire, offset, net.now_ms);
                self.flush(net, primary);
            }
            Said::Alive => one.note_alive(wire, net.now_ms),
            Said::Closed => self.reap(net, primary, wire),
        }
    }

    fn psync(
        &mut self,
        net: &mut Net,
        wire: WireId,
        resume: Option<(String, u64)>,
        fails_over: bool,
        summary: &mut Summary,
    ) {
        let server = self.wires[wire].primary;
        if fails_over {
            let one = &self.servers[server];
            let is_right = resume.as_ref().is_some_and(|(id, _)| one.history.may_take_over(id));
            if one.primary.is_none() || !is_right {
                return self.transmit(net, wire, Event::Told(wire, Told::Refused));
            }
            self.follow(net, server, None, summary);
        }
        let ip = self.servers[self.wires[wire].replica].ip.clone();
        let one = &mut self.servers[server];
        if one.failover.state() != State::None || one.primary.is_some() && !one.is_linked() {
            return self.transmit(net, wire, Event::Told(wire, Told::Refused));
        }
        let place = resume.and_then(|(id, next)| one.history.place_of(id.as_bytes(), next as i64));
        let is_there = |at: &u64| (one.backlog.begin..=one.backlog.end).contains(at) && one.is_kept();
        let at = place.filter(is_there);
        let is_online = at.is_some();
        let standing = ReplicaAck { is_online, ..ReplicaAck::default() };
        let older = one.replicas.iter_mut().filter(|session| session.ip == ip);
        older.for_each(|session| session.standing.is_superseded = true);
        let (waits, at, heard_ms) = (!is_online, at.unwrap_or(0), net.now_ms);
        one.replicas.push(Session { wire, ip, standing, waits, awaits_ack: false, at, heard_ms });
        if is_online {
            summary.partial_syncs += 1;
            let id = one.history.id().to_owned();
            self.transmit(net, wire, Event::Told(wire, Told::Continue(id)));
            self.feed(net, server);
        }
    }

    /// A full sync has been sent: without the disk the stream waits for an acknowledgement.
    fn sent(&mut self, net: &mut Net, server: usize, wire: WireId) {
        let awaits_ack = net.one_in(2);
        let replicas = &mut self.servers[server].replicas;
        if let Some(session) = replicas.iter_mut().find(|session| session.wire == wire) {
            session.standing.is_online = true;
            session.awaits_ack = awaits_ack;
            session.heard_ms = net.now_ms;
        }
    }

    /// Hands replicas what there is for them, in pieces that end anywhere.
    fn feed(&mut self, net: &mut Net, server: usize) {
        let one = &mut self.servers[server];
        let (mut pieces, mut lost) = (Vec::new(), Vec::new());
        for session in one.replicas.iter_mut() {
            if !session.standing.is_served() || session.awaits_ack {
                continue;
            }
            if session.at < one.backlog.begin {
                lost.push(session.wire);
                continue;
            }
            while session.at < one.backlog.end && !net.one_in(6) {
                let to = one.backlog.end.min(session.at + 1 + net.random.below(300));
                pieces.push((session.wire, one.backlog.between(session.at, to)));
                session.at = to;
            }
        }
        for (wire, entries) in pieces {
            self.transmit(net, wire, Event::Told(wire, Told::Stream(entries)));
        }
        lost.into_iter().for_each(|wire| self.disconnect(net, server, wire));
    }

    /// Sends confirmed replies, asks replicas if more wait, and feeds them.
    pub fn flush(&mut self, net: &mut Net, server: usize) {
        self.release(net, server);
        self.servers[server].ask(&mut self.truth);
        self.feed(net, server);
    }

    fn told(&mut self, net: &mut Net, wire: WireId, told: Told) {
        let Wire { replica: server, replica_life, .. } = self.wires[wire];
        let new_primary = net.now_ms + PERIOD_MS;
        let one = &mut self.servers[server];
        let Some(link) = &mut one.link else { return };
        if link.wire != wire || one.life != replica_life {
            return;
        }
        link.heard_ms = net.now_ms;
        if link.stage == Stage::Handshake && one.failover.state() == State::InProgress {
            match told {
                Told::Full { .. } | Told::Continue(_) => drop(one.failover.end()),
                Told::Refused => return self.abort_failover(net, server, &mut Summary::default()),
                Told::Stream(_) | Told::Closed => {}
            }
        }
        match told {
            Told::Full { id, offset, data } => {
                link.stage = Stage::Sync;
                if self.faults != Faults::Gentle {
                    // The old data set goes before the other is loaded.
                    one.history.leave();
                    one.data = Data::default();
                    self.disconnect_all(net, server);
                }
                let at_ms = net.now_ms + 1 + net.random.below(500) as i64;
                self.later(at_ms, Event::Loaded(server, wire, id, offset, data));
            }
            Told::Continue(id) => {
                link.stage = Stage::Stream;
                let offset = one.offset();
                one.is_followed = true;
                let is_renamed = one.history.go_on(Some(id), offset);
                one.note_name(&mut self.truth);
                if is_renamed {
                    self.disconnect_all(net, server);
                }
                self.acknowledge(net, server);
            }
            Told::Refused => {
                self.close(net, wire);
                self.servers[server].drop_link(net.now_ms);
                self.servers[server].retry_ms = new_primary;
            }
            Told::Stream(entries) => self.receive(net, server, entries),
            Told::Closed => self.end_link(net, server),
        }
    }

    fn receive(&mut self, net: &mut Net, server: usize, entries: Vec<Entry>) {
        let Some(link) = &mut self.servers[server].link else { return };
        let is_asked = entries.iter().any(|entry| entry.command == Command::Ask);
        link.waiting.extend(entries);
        if link.stage != Stage::Stream || net.one_in(4) {
            return;
        }
        let count = link.waiting.len();
        self.servers[server].apply(count, &mut self.truth);
        if is_asked {
            self.acknowledge(net, server);
        }
        self.feed(net, server);
    }

    fn acknowledge(&mut self, net: &mut Net, server: usize) {
        let offset = self.servers[server].offset();
        if let Some(wire) = self.servers[server].link.as_ref().map(|link| link.wire) {
            self.transmit(net, wire, Event::Said(wire, Said::Ack(offset)));
        }
    }

    fn loaded(&mut self, net: &mut Net, server: usize, wire: WireId, id: String, offset: u64, data: Data) {
        let one = &mut self.servers[server];
        let Some(link) = one.link.as_mut().filter(|link| link.wire == wire) else { return };
        link.stage = Stage::Stream;
        one.arrive(id, offset, data, &mut self.truth);
        self.disconnect_all(net, server);
        self.acknowledge(net, server);
    }

    /// Whether all servers have the primary's data, by the same name.
    pub fn check(&self) -> Result<(), String> {
        let first = &self.servers[0];
        for other in &self.servers {
            let is_equal = other.data.values == first.data.values && other.data.writes == first.data.writes;
            if !self.is_busy && !is_equal {
                return Err(format!("{} has other data than {}", other.ip, first.ip));
            }
            if other.history.id() != first.history.id() {
                return Err(format!("{} follows another stream than {}", other.ip, first.ip));
            }
        }
        Ok(())
    }

    /// Sends the replies that may leave.
    pub fn release(&mut self, net: &mut Net, server: usize) {
        let one = &mut self.servers[server];
        let has_few = one.has_few_replicas(net.now_ms);
        let (wanted, confirmed) = (one.wanted(), one.confirmed);
        let ops = &self.ops;
        let is_covered = |held: &Held| wanted == 0 || held.position <= confirmed;
        let may_leave = |held: &mut Held| is_covered(held) || has_few && ops[held.op].write.is_none();
        let leaving: Vec<Held> = one.held.extract_if(.., may_leave).collect();
        for held in leaving {
            let is_covered = wanted > 0 && is_covered(&held);
            if is_covered
                && let Some(number) = held.found
                && self.truth.copies(number, server) < wanted
            {
                let text =
                    format!("write {number} was told of with {} copies", self.truth.copies(number, server));
                self.truth.violate(text);
            }
            self.send_reply(net, held.op, Reply::Ok { found: held.found, is_covered });
        }
    }

    pub fn send_reply(&mut self, net: &mut Net, op: usize, reply: Reply) {
        let Op { client, server, .. } = self.ops[op];
        if net.reaches(net.clients + client, net.servers + server) {
            let at_ms = net.arrival_ms();
            self.out.push((at_ms, Event::Reply(op, reply)));
        }
    }
}
