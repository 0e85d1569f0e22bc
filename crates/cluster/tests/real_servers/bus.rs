//! A Martlet node with sockets: one thread that carries actions out, and one for each connection that reads.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use martlet_base::clock::Clock;
use martlet_base::disk::RealDisk;
use martlet_base::random::Random;
use martlet_cluster::conf;
use martlet_cluster::machine::{Action, Cluster, LinkId, Settings, Time};
use martlet_cluster::packet::Frames;

const TICK: Duration = Duration::from_millis(100);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

enum Event {
    Accepted(TcpStream),
    Connected(LinkId, std::io::Result<TcpStream>),
    Packet(LinkId, Vec<u8>),
    Closed(LinkId),
}

/// A node.
pub struct Bus {
    /// Its machine.
    pub cluster: Cluster,
    /// Its actions besides sending and saving.
    pub decisions: Vec<Action>,
    streams: HashMap<LinkId, TcpStream>,
    events: Receiver<Event>,
    sender: Sender<Event>,
    clock: Clock,
    began: Instant,
    conf: PathBuf,
}

impl Bus {
    /// Starts a node that keeps its file in `conf`.
    pub fn start(node_timeout_ms: i64, conf: PathBuf) -> Bus {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let settings = Settings { node_timeout_ms, tcp_port: port, bus_port: port, ..Settings::default() };
        let (sender, events) = channel();
        let accepted = sender.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if accepted.send(Event::Accepted(stream)).is_err() {
                    return;
                }
            }
        });
        let (clock, began) = (Clock::real(), Instant::now());
        let now = Time { mono_ms: 0, unix_ms: clock.unix_ms() };
        let random = Random::from_entropy();
        let cluster = match conf::load(&conf).expect("a file that was written") {
            Some(conf) => Cluster::from_conf(settings, random, now, &conf),
            None => Cluster::new(settings, random, now),
        };
        let decisions = Vec::new();
        let mut bus = Bus { cluster, decisions, streams: HashMap::new(), events, sender, clock, began, conf };
        bus.carry_out();
        bus
    }

    /// The time.
    pub fn now(&self) -> Time {
        Time { mono_ms: self.began.elapsed().as_millis() as i64, unix_ms: self.clock.unix_ms() }
    }

    /// Has the machine do something, and carries out its actions.
    pub fn with<T>(&mut self, work: impl FnOnce(&mut Cluster, Time) -> T) -> T {
        let now = self.now();
        let outcome = work(&mut self.cluster, now);
        self.carry_out();
        outcome
    }

    /// Runs until something holds, which is asked about at each tick; whether it did in time.
    pub fn run_until(&mut self, limit: Duration, mut holds: impl FnMut(&Bus) -> bool) -> bool {
        let end = Instant::now() + limit;
        let mut next_tick = Instant::now();
        loop {
            if Instant::now() >= next_tick {
                next_tick += TICK;
                self.with(Cluster::tick);
                if holds(self) {
                    return true;
                }
                if Instant::now() > end {
                    return false;
                }
            }
            match self.events.recv_timeout(next_tick.saturating_duration_since(Instant::now())) {
                Ok(event) => self.hear(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Accepted(stream) => {
                let (peer, own) = addresses(&stream);
                let link = self.with(|cluster, now| cluster.accepted(now, &peer, &own));
                self.read(link, stream);
            }
            Event::Connected(link, Ok(stream)) => {
                let (peer, own) = addresses(&stream);
                self.read(link, stream);
                self.with(|cluster, now| cluster.connected(now, link, &peer, &own));
            }
            Event::Packet(link, packet) => self.with(|cluster, now| cluster.received(now, link, &packet)),
            Event::Connected(link, Err(_)) | Event::Closed(link) => {
                self.streams.remove(&link);
                self.with(|cluster, now| cluster.closed(now, link));
            }
        }
    }

    fn read(&mut self, link: LinkId, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut input = stream.try_clone().expect("a second handle");
        self.streams.insert(link, stream);
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            let (mut frames, mut bytes) = (Frames::default(), [0; 16 * 1024]);
            while let Ok(count @ 1..) = input.read(&mut bytes) {
                frames.push(&bytes[..count]);
                while let Ok(Some(packet)) = frames.next_packet() {
                    let _ = sender.send(Event::Packet(link, packet.to_vec()));
                }
            }
            let _ = sender.send(Event::Closed(link));
        });
    }

    fn carry_out(&mut self) {
        for action in self.cluster.take_actions() {
            match action {
                Action::SaveConf { text, is_synced } => {
                    conf::save(&RealDisk, &self.conf, &text, is_synced, |_| ()).expect("the disk");
                }
                Action::Connect { link, host, port } => {
                    let address: SocketAddr = format!("{host}:{port}").parse().expect("an IP address");
                    let sender = self.sender.clone();
                    std::thread::spawn(move || {
                        let outcome = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT);
                        let _ = sender.send(Event::Connected(link, outcome));
                    });
                }
                Action::Send { link, packet } => {
                    if let Some(stream) = self.streams.get_mut(&link) {
                        let _ = stream.write_all(&packet);
                    }
                }
                Action::Close(link) => {
                    if let Some(stream) = self.streams.remove(&link) {
                        let _ = stream.shutdown(Shutdown::Both);
                    }
                }
                other => self.decisions.push(other),
            }
        }
    }
}

/// The addresses of the other end and of this one.
fn addresses(stream: &TcpStream) -> (String, String) {
    let text = |address: std::io::Result<SocketAddr>| address.map_or(String::new(), |of| of.ip().to_string());
    (text(stream.peer_addr()), text(stream.local_addr()))
}
