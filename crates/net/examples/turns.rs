//! The cost of a backend's turn, by the processor time of its thread: clients and server take turns on one
//! thread, so no thread is ever woken and a busy machine disturbs little. It shows the work of receiving and
//! sending, without that of sleeping.
//!
//! `cargo run --release -p martlet-net --example turns -- [ROUNDS]`; figures in `docs/internals/net.md`.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use martlet_net::{Backend, Buffer, Kind, Sink, Token};
use rustix::time::{ClockId, clock_gettime};

const REQUEST: &[u8] = b"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000000\r\n$64\r\n\
    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n";
const REPLY: &[u8] = b"+OK\r\n";

#[derive(Default)]
struct Server {
    accepted: Vec<OwnedFd>,
    /// Bytes received and not answered, by connection.
    pending: Vec<usize>,
    dirty: Vec<Token>,
    received: usize,
    spare: Vec<Vec<u8>>,
}

impl Sink for Server {
    fn accepted(&mut self, _tag: u32, socket: OwnedFd) {
        self.accepted.push(socket);
    }

    fn received(&mut self, token: Token, data: &[u8]) -> bool {
        // Touches the data as a parser would.
        let lines = data.iter().filter(|byte| **byte == b'\n').count();
        let pending = &mut self.pending[token.index()];
        if *pending == 0 {
            self.dirty.push(token);
        }
        *pending += lines;
        self.received += data.len();
        true
    }

    fn sent(&mut self, _token: Token, buffer: Buffer, result: io::Result<()>) {
        result.expect("the peer is in this process");
        if let Buffer::Owned(buffer) = buffer {
            self.spare.push(buffer);
        }
    }

    fn closed(&mut self, _token: Token, _reason: Option<io::Error>) {}

    fn woken(&mut self) {}
}

impl Server {
    fn answer(&mut self, backend: &mut dyn Backend) {
        for token in self.dirty.drain(..) {
            let mut reply = self.spare.pop().unwrap_or_default();
            reply.clear();
            for _ in 0..self.pending[token.index()] / 7 {
                reply.extend_from_slice(REPLY);
            }
            self.pending[token.index()] = 0;
            backend.send(token, reply.into());
        }
    }
}

fn thread_nanoseconds() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Nanoseconds per request: `batch` connections at a time send `pipeline` requests each.
fn measure(kind: Kind, batch: usize, pipeline: usize, rounds: usize) -> io::Result<f64> {
    let mut backend = kind.open()?;
    let mut server = Server::default();
    let listener = martlet_net::listen_tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 511)?;
    let address: SocketAddr = rustix::net::getsockname(&listener)?.try_into()?;
    backend.listen(listener, 0)?;
    let groups = (100 / batch).max(2);
    let mut clients = Vec::new();
    for index in 0..groups * batch {
        clients.push(TcpStream::connect(address)?);
        clients[index].set_nodelay(true)?;
        while server.accepted.is_empty() {
            backend.poll(None, &mut server)?;
        }
        server.pending.push(0);
        backend.adopt(server.accepted.pop().expect("just checked"), Token::new(index as u32, 1))?;
    }
    let requests = REQUEST.repeat(pipeline);
    let mut replies = vec![0; REPLY.len() * pipeline];
    let mut costs = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let now = round % groups * batch;
        for client in &mut clients[now..now + batch] {
            client.write_all(&requests)?;
        }
        server.received = 0;
        let start = thread_nanoseconds();
        while server.received < requests.len() * batch {
            backend.poll(Some(Duration::from_secs(1)), &mut server)?;
        }
        server.answer(&mut *backend);
        costs.push(thread_nanoseconds() - start);
        // This turn's replies leave with the next turn's enter, or have left; read those of the turn before.
        let before = (round + groups - 1) % groups * batch;
        if round > 0 {
            for client in &mut clients[before..before + batch] {
                client.read_exact(&mut replies)?;
            }
        }
    }
    let clock = {
        let start = thread_nanoseconds();
        for _ in 0..100 {
            std::hint::black_box(thread_nanoseconds());
        }
        (thread_nanoseconds() - start) / 101
    };
    costs.sort_unstable();
    Ok((costs[costs.len() / 2] - clock) as f64 / (batch * pipeline) as f64)
}

fn main() -> io::Result<()> {
    let rounds =
        std::env::args().nth(1).map_or(Ok(3000), |rounds| rounds.parse()).map_err(io::Error::other)?;
    println!("ns per request     io_uring   epoll");
    for (batch, pipeline) in [(1, 1), (3, 1), (10, 1), (50, 1), (10, 16), (50, 16), (10, 64), (50, 64)] {
        let mut medians = [Vec::new(), Vec::new()];
        for _ in 0..5 {
            for (kind, medians) in [Kind::Uring, Kind::Epoll].into_iter().zip(&mut medians) {
                medians.push(measure(kind, batch, pipeline, rounds / (batch * pipeline).isqrt().max(1))?);
            }
        }
        let [uring, epoll] = medians.map(|mut medians| {
            medians.sort_by(f64::total_cmp);
            medians[2]
        });
        println!("batch {batch:<2}  P={pipeline:<3}  {uring:9.0} {epoll:8.0}");
    }
    Ok(())
}
