//! A backend with a sink that writes everything down, and peers to talk to it.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use martlet_net::{Arrival, Backend, Buffer, Kind, Sink, Token, listen_tcp, probe};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How long nothing at all may happen before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether the backend can be tested here; says so when it cannot.
pub fn works(kind: Kind) -> bool {
    match (kind, if kind == Kind::Uring { probe() } else { Ok(()) }) {
        (_, Ok(())) => true,
        (_, Err(reason)) => {
            // Not `eprintln!`, which the test runner swallows.
            let _ =
                writeln!(io::stderr(), "\n*** SKIPPED the {} half of the suite: {reason} ***", kind.name());
            false
        }
    }
}

/// The calls that a sink received.
#[derive(Default)]
pub struct Recorder {
    pub accepted: Vec<(u32, OwnedFd)>,
    pub received: HashMap<Token, Vec<u8>>,
    pub total_received: usize,
    pub sent: Vec<(Token, Vec<u8>, io::Result<()>)>,
    pub closed: Vec<(Token, Option<io::ErrorKind>)>,
    pub released: Vec<(Token, OwnedFd)>,
    pub woken: u32,
    pub total_announced: usize,
    /// Announced and not received yet.
    announced: VecDeque<(Token, Vec<u8>)>,
    /// Received and not echoed yet.
    echo: Vec<(Token, Vec<u8>)>,
}

impl Recorder {
    pub fn received_from(&self, token: Token) -> &[u8] {
        self.received.get(&token).map_or(&[], Vec::as_slice)
    }

    pub fn bytes_received(&self, token: Token) -> usize {
        self.received_from(token).len()
    }
}

impl Sink for Recorder {
    fn accepted(&mut self, tag: u32, socket: OwnedFd) {
        self.accepted.push((tag, socket));
    }

    fn received(&mut self, token: Token, data: &[u8]) -> bool {
        assert!(!data.is_empty());
        assert!(!self.closed.iter().any(|(closed, _)| *closed == token), "data after the end");
        assert!(!self.released.iter().any(|(released, _)| *released == token), "data of a released one");
        if let Some(announced) = self.announced.pop_front() {
            assert!(announced == (token, data.to_vec()), "something else was announced");
        }
        self.received.entry(token).or_default().extend_from_slice(data);
        self.total_received += data.len();
        self.echo.push((token, data.to_vec()));
        true
    }

    fn will_receive(&mut self, arrivals: &[Arrival<'_>]) {
        assert!(arrivals.len() > 1);
        self.announced = arrivals.iter().map(|arrival| (arrival.token, arrival.data.to_vec())).collect();
        self.total_announced += arrivals.len();
    }

    fn sent(&mut self, token: Token, buffer: Buffer, result: io::Result<()>) {
        // A buffer shared with the test cannot be taken back.
        let Buffer::Owned(buffer) = buffer else { return };
        self.sent.push((token, buffer, result));
    }

    fn closed(&mut self, token: Token, reason: Option<io::Error>) {
        self.closed.push((token, reason.map(|error| error.kind())));
    }

    fn released(&mut self, token: Token, socket: OwnedFd) {
        self.released.push((token, socket));
    }

    fn woken(&mut self) {
        self.woken += 1;
    }
}

pub struct Harness {
    pub backend: Box<dyn Backend + Send>,
    pub recorder: Recorder,
    listener: Option<SocketAddr>,
    tokens: u32,
}

/// The tag of the listener that [`Harness::connect`] uses.
const OWN_TAG: u32 = 1000;

impl Harness {
    pub fn new(kind: Kind) -> Harness {
        let backend = kind.open().unwrap();
        assert_eq!(backend.name(), kind.name());
        Harness { backend, recorder: Recorder::default(), listener: None, tokens: 0 }
    }

    /// A listener on a free port.
    pub fn listen(&mut self, tag: u32) -> SocketAddr {
        let listener = listen_tcp("127.0.0.1:0".parse().unwrap(), 4096).unwrap();
        let address = address_of(&listener);
        self.backend.listen(listener, tag).unwrap();
        address
    }

    pub fn next_token(&mut self) -> Token {
        self.tokens += 1;
        Token::new(self.tokens - 1, 1)
    }

    /// A connection through a listener: the backend's end, adopted, and the peer's.
    pub fn connect(&mut self) -> (Token, TcpStream) {
        let token = self.next_token();
        self.connect_as(token)
    }

    pub fn connect_as(&mut self, token: Token) -> (Token, TcpStream) {
        let address = self.listener.unwrap_or_else(|| self.listen(OWN_TAG));
        self.listener = Some(address);
        let peer = TcpStream::connect(address).unwrap();
        peer.set_nodelay(true).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        self.until("the connection", |recorder| !recorder.accepted.is_empty());
        let (tag, socket) = self.recorder.accepted.pop().unwrap();
        assert_eq!(tag, OWN_TAG);
        self.backend.adopt(socket, token).unwrap();
        (token, peer)
    }

    /// Sleeps until something is reported; fails when nothing ever is.
    pub fn poll(&mut self) {
        self.backend.poll(Some(PATIENCE), &mut self.recorder).unwrap();
    }

    /// One poll without sleep.
    pub fn turn(&mut self) {
        self.backend.poll(Some(Duration::ZERO), &mut self.recorder).unwrap();
    }

    /// Polls until `condition`. It is asked every now and then even if nothing is reported.
    pub fn until(&mut self, what: &str, mut condition: impl FnMut(&Recorder) -> bool) {
        let start = Instant::now();
        while !condition(&self.recorder) {
            assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
            self.backend.poll(Some(Duration::from_millis(20)), &mut self.recorder).unwrap();
        }
    }

    /// One poll; returns its input, which is to be echoed.
    pub fn receive(&mut self) -> Vec<(Token, Vec<u8>)> {
        self.backend.poll(Some(Duration::from_millis(20)), &mut self.recorder).unwrap();
        std::mem::take(&mut self.recorder.echo)
    }

    /// One poll, echoing its input.
    pub fn echo(&mut self) {
        for (token, data) in self.receive() {
            self.backend.send(token, data.into());
        }
    }

    /// Echoes until `condition`; the received bytes are on their way back then.
    pub fn echo_until(&mut self, mut condition: impl FnMut(&Recorder) -> bool) {
        let start = Instant::now();
        while !condition(&self.recorder) {
            assert!(start.elapsed() < PATIENCE, "waited in vain for what is to be echoed");
            self.echo();
        }
        self.turn();
    }
}

pub fn address_of(socket: impl AsFd) -> SocketAddr {
    rustix::net::getsockname(socket).unwrap().try_into().unwrap()
}

/// `length` bytes that depend on `seed` and on their place.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Raises the limit of descriptors as far as it goes without privilege; returns it.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    limit.maximum.unwrap_or(u64::from(u32::MAX))
}

pub fn set_descriptor_limit(limit: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum }).unwrap();
}

pub fn descriptors_in_use() -> u64 {
    std::fs::read_dir("/proc/self/fd").unwrap().count() as u64
}

/// The lines a child prints.
pub struct Lines<R>(BufReader<R>);

impl<R: Read> Lines<R> {
    pub fn new(output: R) -> Lines<R> {
        Lines(BufReader::new(output))
    }

    /// Reads up to the line that has `label`; returns the text behind it.
    pub fn value_after(&mut self, label: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the child ended without {label:?}");
            if let Some((_, value)) = line.split_once(label) {
                return value.trim().into();
            }
        }
    }
}
