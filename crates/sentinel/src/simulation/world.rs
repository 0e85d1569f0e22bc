//! Sentinels, servers, the network between them, disks and clocks, and their faults.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;

use martlet_base::random::Random;
use martlet_client::resp::{Reply, decode};
use martlet_protocol::request::OwnedArgs;
use martlet_replication::failover::Request;

use super::group::{self, Group};
use super::net::{Net, Node};
use super::server::{Effect, Server};
use super::{Faults, Options, Summary};
use crate::commands::{Access, Core, Facts};
use crate::config::load::Config;
use crate::config::rewrite::{Line, rewrite};
use crate::instance::{DOWN, Flags, Role};
use crate::link::ConnectionId;
use crate::machine::{Output, Sentinel, Settings};

const START_UNIX_MS: i64 = 1_700_000_000_000;
const SERVER_PORT: u16 = 6_379;
const NAME: &str = "mymaster";

/// A Sentinel with its disk and its clock.
struct Watcher {
    core: Option<Core>,
    life: u64,
    ip: String,
    disk: Rc<RefCell<Vec<u8>>>,
    /// How far its clock is off, in milliseconds.
    skew_ms: i64,
    next_session: u64,
}

/// A disk that keeps the saved file.
struct SimDisk(Rc<RefCell<Vec<u8>>>);

impl crate::machine::World for SimDisk {
    fn save(&mut self, lines: &[Line]) -> io::Result<()> {
        let text = rewrite(&self.0.borrow(), lines);
        *self.0.borrow_mut() = text;
        Ok(())
    }

    fn resolve(&mut self, _: &str) -> Option<IpAddr> {
        None
    }

    fn is_executable(&self, _: &str) -> bool {
        false
    }
}

/// A connection of a Sentinel to a node.
struct Conn {
    from: Node,
    from_life: u64,
    id: ConnectionId,
    to: Node,
    to_life: u64,
    /// At another Sentinel, the session.
    session: Option<u64>,
    is_open: bool,
    /// A message was lost on it: nothing comes through any more, and neither end notices.
    is_stuck: bool,
    /// When the last message each way arrives.
    last_ms: [i64; 2],
}

#[derive(Debug)]
enum Event {
    Tick(Node, u64),
    Group(group::Event),
    Opened(usize),
    Request(usize, Vec<Vec<u8>>),
    Answer(usize, Reply),
    Closed(usize),
    Restart(Node),
    Rejoin,
}

/// See the [module docs](self).
pub(super) struct World {
    pub summary: Summary,
    pub violation: Option<String>,
    options: Options,
    watchers: Vec<Watcher>,
    pub group: Group,
    net: Net,
    conns: Vec<Conn>,
    events: BTreeMap<(i64, u64), Event>,
    next_event: u64,
    votes: BTreeMap<(Node, u64), String>,
    leaders: BTreeMap<u64, Node>,
    configs: BTreeMap<u64, String>,
}

impl World {
    pub fn new(options: &Options, seed: u64) -> World {
        let servers = options.sentinels;
        let clients = servers + options.servers;
        let nodes = clients + options.clients;
        let (sides, paused_ms) = (vec![0; nodes], vec![0; nodes]);
        let random = Random::seeded(seed);
        let mut net = Net { now_ms: 0, random, max_delay_ms: 5, sides, paused_ms, servers, clients };
        let group = Group::new(options, &mut net, (0..options.servers).map(server_ip).collect());
        let mut world = World {
            summary: Summary::default(),
            violation: None,
            options: options.clone(),
            watchers: Vec::new(),
            group,
            net,
            conns: Vec::new(),
            events: BTreeMap::new(),
            next_event: 0,
            votes: BTreeMap::new(),
            leaders: BTreeMap::new(),
            configs: BTreeMap::new(),
        };
        let text = format!(
            "sentinel monitor {NAME} {} {SERVER_PORT} {}\nsentinel down-after-milliseconds {NAME} 3000\nsentinel failover-timeout {NAME} 10000\n",
            server_ip(0),
            options.sentinels / 2 + 1
        );
        for index in 0..options.sentinels {
            world.watchers.push(Watcher {
                core: None,
                life: 0,
                ip: format!("10.0.1.{}", index + 1),
                disk: Rc::new(RefCell::new(text.clone().into_bytes())),
                skew_ms: 0,
                next_session: 0,
            });
            world.start(index);
        }
        (0..options.clients).for_each(|client| world.at(1, Event::Group(group::Event::Client(client))));
        world.take_events();
        world
    }

    pub fn now_ms(&self) -> i64 {
        self.net.now_ms
    }

    fn at(&mut self, ms: i64, event: Event) {
        self.next_event += 1;
        self.events.insert((ms, self.next_event), event);
    }

    /// A Sentinel's wall clock.
    fn clock(&self, node: Node) -> i64 {
        START_UNIX_MS + self.net.now_ms + self.watchers[node].skew_ms
    }

    /// Starts a Sentinel from its file.
    fn start(&mut self, node: Node) {
        let (now_ms, random) = (self.clock(node), Random::seeded(self.net.random.next_u64()));
        let watcher = &mut self.watchers[node];
        let mut config = Config::default();
        let text = watcher.disk.borrow().clone();
        let read = config.read(&text).map_err(|error| error.message);
        let disk = Box::new(SimDisk(watcher.disk.clone()));
        let mut sentinel = Sentinel::new(Settings::default(), random, now_ms, disk);
        let configured = sentinel.configure(&config.sentinel).map_err(|(_, message)| message);
        if let Err(message) = read.and(configured) {
            self.violation = Some(format!("the file of Sentinel {node} does not read back: {message}"));
            return;
        }
        sentinel.start(now_ms);
        let mut core = Core::new(sentinel, Access::new(None), facts());
        core.now_ms = now_ms;
        watcher.core = Some(core);
        watcher.life += 1;
        let life = watcher.life;
        self.at(self.net.now_ms + 1, Event::Tick(node, life));
        self.carry_out(node);
    }

    fn is_up(&self, node: Node) -> bool {
        match node.checked_sub(self.watchers.len()) {
            None => self.watchers[node].core.is_some(),
            Some(server) => self.group.servers[server].is_up,
        }
    }

    fn life(&self, node: Node) -> u64 {
        match node.checked_sub(self.watchers.len()) {
            None => self.watchers[node].life,
            Some(server) => self.group.servers[server].life,
        }
    }

    fn node_at(&self, ip: &str) -> Option<Node> {
        let watcher = self.watchers.iter().position(|watcher| watcher.ip == ip);
        let server = self.group.servers.iter().position(|server| server.ip == ip);
        watcher.or(server.map(|server| server + self.watchers.len()))
    }

    /// Runs events up to a time.
    pub fn run_until(&mut self, end_ms: i64) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end_ms) {
            let ((ms, number), event) = entry.remove_entry();
            self.net.now_ms = self.net.now_ms.max(ms);
            self.happen(number, event);
            self.take_events();
            if self.violation.is_some() {
                return;
            }
        }
        self.net.now_ms = end_ms;
    }

    fn happen(&mut self, number: u64, event: Event) {
        // A stopped node handles its events afterwards, in order.
        let actor = match &event {
            Event::Tick(node, _) => Some(*node),
            Event::Request(conn, _) => Some(self.conns[*conn].to),
            Event::Opened(conn) | Event::Answer(conn, _) | Event::Closed(conn) => {
                Some(self.conns[*conn].from)
            }
            Event::Group(event) => self.group.actor(&self.net, event),
            Event::Restart(_) | Event::Rejoin => None,
        };
        if let Some(until_ms) = actor.map(|node| self.net.paused_ms[node]).filter(|ms| *ms > self.net.now_ms)
        {
            self.events.insert((until_ms, number), event);
            return;
        }
        match event {
            Event::Tick(node, life) => self.tick(node, life),
            Event::Group(event) => self.happen_in_group(event),
            Event::Opened(conn) => self.opened(conn),
            Event::Request(conn, request) => self.request(conn, &request),
            Event::Answer(conn, reply) => self.answer(conn, reply),
            Event::Closed(conn) => self.closed(conn),
            Event::Restart(node) => self.restart(node),
            Event::Rejoin => self.net.sides.fill(0),
        }
    }

    /// Takes the servers' later events.
    fn take_events(&mut self) {
        for (ms, event) in std::mem::take(&mut self.group.out) {
            self.at(ms, Event::Group(event));
        }
        self.violation = self.violation.take().or(self.group.truth.violation.take());
    }

    fn happen_in_group(&mut self, event: group::Event) {
        let World { group, net, summary, .. } = self;
        if let group::Event::Client(client) = event {
            let primary = self.primary_for(client);
            return self.group.tick_client(&mut self.net, client, primary);
        }
        group.happen(net, event, summary);
    }

    /// The primary that some Sentinel reports to a client, if it reaches that one.
    fn primary_for(&mut self, client: usize) -> Option<usize> {
        let watcher = self.net.random.below(self.watchers.len() as u64) as Node;
        let core = self.watchers[watcher].core.as_ref()?;
        let (id, _) = core.sentinel.primary(NAME)?;
        let ip = &core.sentinel.current_address(id).ip;
        let is_near = self.net.reaches(self.net.clients + client, watcher) && !self.net.is_paused(watcher);
        self.group.servers.iter().position(|server| is_near && server.ip == *ip)
    }

    fn tick(&mut self, node: Node, life: u64) {
        let now_ms = self.clock(node);
        let watcher = &mut self.watchers[node];
        let Some(core) = watcher.core.as_mut().filter(|_| watcher.life == life) else { return };
        core.now_ms = now_ms;
        let tilts = core.sentinel.tilts();
        core.sentinel.tick(now_ms);
        self.summary.tilts += core.sentinel.tilts() - tilts;
        let next_ms = core.sentinel.next_tick_ms() - now_ms;
        self.at(self.net.now_ms + next_ms.max(1), Event::Tick(node, life));
        self.carry_out(node);
    }

    /// Carries out a Sentinel's outputs.
    fn carry_out(&mut self, node: Node) {
        loop {
            let Some(core) = self.watchers[node].core.as_mut() else { return };
            let outputs = core.sentinel.take_outputs();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                match output {
                    Output::Connect { connection, ip, port: _ } => self.connect(node, connection, &ip),
                    Output::Close(id) => {
                        if let Some(conn) = self.conn_of(node, id) {
                            self.conns[conn].is_open = false;
                        }
                    }
                    Output::Send(id, request) => {
                        if let Some(conn) = self.conn_of(node, id) {
                            self.transmit(conn, 0, Event::Request(conn, request));
                        }
                    }
                    Output::Publish { channel, message } => self.observe(node, &channel, &message),
                    Output::Log(..) | Output::RunScript(..) | Output::KillScript(_) | Output::Crash => {}
                }
            }
        }
    }

    fn conn_of(&self, node: Node, id: ConnectionId) -> Option<usize> {
        let is_it =
            |conn: &Conn| conn.from == node && conn.id == id && conn.from_life == self.watchers[node].life;
        self.conns.iter().rposition(is_it)
    }

    fn connect(&mut self, from: Node, id: ConnectionId, ip: &str) {
        let to = self.node_at(ip).unwrap_or(from);
        let conn = self.conns.len();
        self.conns.push(Conn {
            from,
            from_life: self.watchers[from].life,
            id,
            to,
            to_life: self.life(to),
            session: None,
            is_open: true,
            is_stuck: false,
            last_ms: [0; 2],
        });
        let refused = !self.is_up(to) && self.net.sides[from] == self.net.sides[to];
        let event = if refused { Event::Closed(conn) } else { Event::Opened(conn) };
        self.transmit(conn, 1, event);
    }

    /// Sends something over a connection, which comes in order, or gets lost at a partition.
    fn transmit(&mut self, conn: usize, way: usize, event: Event) {
        let at_ms = self.net.now_ms + 1 + self.net.random.below(self.net.max_delay_ms) as i64;
        let Conn { from, to, .. } = self.conns[conn];
        let is_parted = self.net.sides[from] != self.net.sides[to];
        let known = &mut self.conns[conn];
        known.is_stuck |= is_parted;
        if known.is_stuck || !known.is_open {
            return;
        }
        let at_ms = at_ms.max(known.last_ms[way]);
        known.last_ms[way] = at_ms;
        self.at(at_ms, event);
    }

    /// Whether both ends of a connection still live the life that it began in.
    fn is_alive(&self, conn: usize) -> bool {
        let Conn { from, from_life, to, to_life, is_open, .. } = self.conns[conn];
        is_open
            && self.watchers[from].life == from_life
            && self.watchers[from].core.is_some()
            && self.life(to) == to_life
            && self.is_up(to)
    }

    fn opened(&mut self, conn: usize) {
        let Conn { from, id, .. } = self.conns[conn];
        if !self.is_alive(conn) {
            return self.closed(conn);
        }
        let (now_ms, ip) = (self.clock(from), self.watchers[from].ip.clone());
        if let Some(core) = &mut self.watchers[from].core {
            core.sentinel.connected(now_ms, id, Some(ip));
        }
        self.carry_out(from);
    }

    fn closed(&mut self, conn: usize) {
        let Conn { from, from_life, id, is_open, .. } = self.conns[conn];
        self.conns[conn].is_open = false;
        let now_ms = self.clock(from);
        let watcher = &mut self.watchers[from];
        if let Some(core) = watcher.core.as_mut().filter(|_| is_open && watcher.life == from_life) {
            core.sentinel.closed(now_ms, id);
            self.carry_out(from);
        }
    }

    fn request(&mut self, conn: usize, request: &[Vec<u8>]) {
        if !self.is_alive(conn) {
            return self.transmit(conn, 1, Event::Closed(conn));
        }
        self.summary.requests += 1;
        let to = self.conns[conn].to;
        match to.checked_sub(self.watchers.len()) {
            None => self.ask_sentinel(conn, to, request),
            Some(server) => self.ask_server(conn, server, request),
        }
    }

    fn ask_sentinel(&mut self, conn: usize, node: Node, request: &[Vec<u8>]) {
        let now_ms = self.clock(node);
        let watcher = &mut self.watchers[node];
        let Some(core) = &mut watcher.core else { return };
        core.now_ms = now_ms;
        let session = *self.conns[conn].session.get_or_insert_with(|| {
            watcher.next_session += 1;
            core.open(watcher.next_session, String::new(), String::new(), 0);
            watcher.next_session
        });
        core.execute(session, OwnedArgs::from_slices(request.iter().map(Vec::as_slice)).view());
        let out = core.sessions.get_mut(&session).map(|session| std::mem::take(&mut session.out));
        let mut out = out.unwrap_or_default();
        while let Ok(Some((reply, length))) = decode(&out) {
            out.drain(..length);
            self.transmit(conn, 1, Event::Answer(conn, reply));
        }
        self.carry_out(node);
    }

    fn ask_server(&mut self, conn: usize, server: usize, request: &[Vec<u8>]) {
        let (reply, effect) = self.group.servers[server].answer(conn, request, self.net.now_ms);
        self.transmit(conn, 1, Event::Answer(conn, reply));
        let subscribers: Vec<usize> = self.group.servers[server].subscribers.iter().copied().collect();
        match effect {
            Effect::None => {}
            Effect::Follow(primary) => self.group.follow(&mut self.net, server, primary, &mut self.summary),
            Effect::Publish(text) => {
                for subscriber in subscribers {
                    let parts = [b"message".to_vec(), b"__sentinel__:hello".to_vec(), text.clone()];
                    let message = Reply::Array(parts.into_iter().map(Reply::Bulk).collect());
                    self.transmit(subscriber, 1, Event::Answer(subscriber, message));
                }
            }
            Effect::CloseOthers => {
                let node = server + self.watchers.len();
                let others =
                    (0..self.conns.len()).filter(|other| *other != conn && self.conns[*other].to == node);
                for other in others.collect::<Vec<_>>() {
                    self.transmit(other, 1, Event::Closed(other));
                }
                self.group.servers[server].subscribers.clear();
            }
        }
    }

    fn answer(&mut self, conn: usize, reply: Reply) {
        let Conn { from, from_life, id, is_open, .. } = self.conns[conn];
        let now_ms = self.clock(from);
        let watcher = &mut self.watchers[from];
        if let Some(core) = watcher.core.as_mut().filter(|_| is_open && watcher.life == from_life) {
            core.sentinel.received(now_ms, id, reply);
            self.carry_out(from);
        }
    }

    /// Checks a Sentinel's events: votes, elections and switches.
    fn observe(&mut self, node: Node, channel: &str, message: &str) {
        match channel {
            "+vote-for-leader" => {
                self.summary.votes += 1;
                let mut words = message.split(' ');
                let (Some(leader), Some(epoch)) = (words.next(), words.next()) else { return };
                let epoch = epoch.parse().unwrap_or(0);
                if let Some(other) = self.votes.insert((node, epoch), leader.into()) {
                    self.violation =
                        Some(format!("Sentinel {node} voted for {other} and {leader} in {epoch}"));
                }
            }
            "+elected-leader" => self.elected(node),
            "+switch-master" => self.summary.switches += 1,
            _ => {}
        }
    }

    fn elected(&mut self, node: Node) {
        let core = self.watchers[node].core.as_ref();
        let Some((_, primary)) = core.and_then(|core| core.sentinel.primary(NAME)) else { return };
        if primary.flags.any(Flags::FORCE_FAILOVER) {
            return;
        }
        self.summary.elections += 1;
        let epoch = primary.failover.epoch;
        if let Some(other) = self.leaders.insert(epoch, node) {
            self.violation = Some(format!("Sentinels {other} and {node} were both elected in epoch {epoch}"));
        }
    }

    /// Lets something go wrong.
    pub fn fault(&mut self, random: &mut Random) {
        let nodes = self.net.clients as u64;
        let node = random.below(nodes) as Node;
        let ms = 300 + random.below(9_000) as i64;
        if self.options.faults == Faults::Kills {
            for _ in 0..self.options.sync_replicas {
                let server = self.net.servers + random.below(nodes - self.net.servers as u64) as Node;
                self.crash(server, 2_000 + ms);
            }
            return;
        }
        let Options { has_operator, has_failovers, .. } = self.options;
        match random.below(7 + u64::from(has_operator) + u64::from(has_failovers)) {
            0 | 1 => self.crash(node, ms),
            2 => self.net.paused_ms[node] = self.net.paused_ms[node].max(self.net.now_ms + ms),
            3 => {
                self.net.sides.iter_mut().for_each(|side| *side = random.below(2) as u8);
                self.at(self.net.now_ms + ms, Event::Rejoin);
            }
            4 => {
                let watcher = node % self.watchers.len();
                self.watchers[watcher].skew_ms += random.below(40_000) as i64 - 20_000;
            }
            5 => self.net.max_delay_ms = [5, 50, 800][random.below(3) as usize],
            6 => {
                let server = random.below(self.group.servers.len() as u64) as usize;
                self.group.cut(&mut self.net, server);
            }
            7 if has_failovers => self.ask_for_failover(random),
            _ => {
                let watcher = node % self.watchers.len();
                let now_ms = self.clock(watcher);
                if let Some(core) = &mut self.watchers[watcher].core {
                    // It is refused without a replica to promote.
                    let _ = core.sentinel.force_failover(now_ms, NAME.as_bytes());
                    self.carry_out(watcher);
                }
            }
        }
        self.note_configs();
    }

    /// An operator has a primary change roles with a replica (FAILOVER).
    fn ask_for_failover(&mut self, random: &mut Random) {
        let now_ms = self.net.now_ms;
        let force = self.options.faults == Faults::All && random.below(3) == 0;
        let is_fit =
            |server: &&mut Server| server.is_up && server.primary.is_none() && !server.replicas.is_empty();
        if let Some(server) = self.group.servers.iter_mut().find(is_fit) {
            let target = force.then(|| server.replicas[0].ip.clone());
            server.failover.begin(Request { target, until_ms: Some(now_ms + 2_000), force });
        }
    }

    fn crash(&mut self, node: Node, ms: i64) {
        if !self.is_up(node) {
            return;
        }
        match node.checked_sub(self.watchers.len()) {
            None => self.watchers[node].core = None,
            Some(server) => {
                self.group.crash(&mut self.net, server);
            }
        }
        let conns =
            (0..self.conns.len()).filter(|conn| self.conns[*conn].to == node && self.conns[*conn].is_open);
        for conn in conns.collect::<Vec<_>>() {
            self.transmit(conn, 1, Event::Closed(conn));
        }
        self.at(self.net.now_ms + ms, Event::Restart(node));
    }

    fn restart(&mut self, node: Node) {
        if self.is_up(node) {
            return;
        }
        if self.options.faults == Faults::Kills && self.is_irreplaceable(node) {
            return self.at(self.net.now_ms + 1_000, Event::Restart(node));
        }
        self.summary.restarts += 1;
        match node.checked_sub(self.watchers.len()) {
            None => self.start(node),
            Some(server) => {
                self.group.restart(&mut self.net, server);
            }
        }
    }

    /// Whether some replica still regards a server that is down as its primary, and would continue with it.
    fn is_irreplaceable(&self, node: Node) -> bool {
        let Some(server) = node.checked_sub(self.net.servers) else { return false };
        let servers = &self.group.servers;
        let mut others = servers.iter().filter(|other| other.is_up);
        let is_followed = others.any(|other| other.primary.as_ref() == Some(&servers[server].ip));
        servers[server].primary.is_none() && is_followed
    }

    /// Ends all faults.
    pub fn heal(&mut self) {
        self.net.sides.fill(0);
        self.net.max_delay_ms = 5;
        (0..self.net.clients).for_each(|node| self.restart(node));
        for server in 0..self.group.servers.len() {
            self.group.abort_failover(&mut self.net, server, &mut self.summary);
        }
        self.take_events();
    }

    /// One epoch is one configuration, but where an operator took epochs without agreement.
    fn note_configs(&mut self) {
        for watcher in self.watchers.iter().filter(|_| !self.options.has_operator) {
            let Some(core) = &watcher.core else { continue };
            let Some((id, primary)) = core.sentinel.primary(NAME) else { continue };
            let ip = core.sentinel.current_address(id).ip.clone();
            let epoch = primary.config_epoch;
            let known = self.configs.entry(epoch).or_insert_with(|| ip.clone());
            if *known != ip {
                self.violation = Some(format!("epoch {epoch} is of {known} and of {ip}"));
            }
        }
    }

    /// Whether all is well: one primary that all Sentinels agree on, which all other servers follow.
    pub fn check(&mut self) -> Result<(), String> {
        self.note_configs();
        let mut agreed: Option<String> = None;
        for (node, watcher) in self.watchers.iter().enumerate() {
            let core = watcher.core.as_ref().ok_or("a Sentinel is down")?;
            let (_, primary) = core.sentinel.primary(NAME).ok_or("a primary is forgotten")?;
            let ip = &primary.address.ip;
            if agreed.get_or_insert_with(|| ip.clone()) != ip {
                return Err(format!("Sentinel {node} holds {ip} to be the primary"));
            }
            let busy = DOWN.with(Flags::FAILOVER_IN_PROGRESS);
            let below = primary.replicas.values().chain(primary.sentinels.values());
            let all = below.filter_map(|id| core.sentinel.instance(*id)).chain([primary]);
            if let Some(one) = all.into_iter().find(|one| one.flags.any(busy)) {
                return Err(format!("Sentinel {node}: {} is {}", one.name, one.flags.text(one.role, false)));
            }
            if primary.sentinels.len() + 1 != self.watchers.len()
                || primary.replicas.len() + 1 != self.group.servers.len()
                || primary.reported.role != Some(Role::Primary)
            {
                return Err(format!("Sentinel {node} does not know all"));
            }
        }
        for server in &self.group.servers {
            let is_primary = Some(&server.ip) == agreed.as_ref();
            let follows = server.primary == agreed && server.is_linked();
            if is_primary && server.primary.is_some() || !is_primary && !follows {
                return Err(format!("{} follows {:?}", server.ip, server.primary));
            }
        }
        self.group.check()
    }

    /// The state of all, for a run that failed.
    pub fn describe(&self) -> String {
        let mut text = format!("{} ms, {:?}\n", self.net.now_ms, self.summary);
        for server in &self.group.servers {
            text += &format!(
                "server {}: up {}, follows {:?}, {:?} at {}\n",
                server.ip,
                server.is_up,
                server.primary,
                server.history,
                server.offset()
            );
        }
        for watcher in &self.watchers {
            text +=
                &format!("Sentinel {}:\n{}\n", watcher.ip, String::from_utf8_lossy(&watcher.disk.borrow()));
        }
        text
    }
}

fn server_ip(index: usize) -> String {
    format!("10.0.2.{}", index + 1)
}

fn facts() -> Facts {
    Facts {
        config_file: Default::default(),
        executable: Default::default(),
        pid: 0,
        started_ms: 0,
        run_id: String::new(),
        clients_max: usize::MAX,
        cpu_seconds: || [0.0; 2],
    }
}
