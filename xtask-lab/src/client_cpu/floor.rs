//! The kernel's share of a load tester's work: 50 connections, one send and one receive per batch, one wait
//! for all that are ready. Batches are built before, with scattered keys so that the server has the same
//! work; replies are counted by their bytes and never looked at: no client that speaks to a server by these
//! system calls can do less.

use martlet_client::address::Address;
use martlet_client::mux::{Handler, Mux, UringMux};
use rustix::event::epoll;
use rustix::io::Errno;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use xtask::run::Outcome;

/// As redis-benchmark's default.
const CONNECTIONS: usize = 50;
/// Bytes of the reply `+OK`.
const REPLY_BYTES: usize = 5;
/// Batches that are built, and sent in turn.
const BATCHES: usize = 256;
/// As the rows' `-r`.
const KEYS: usize = 100_000;
/// Knuth's multiplier: spreads consecutive numbers over all keys.
const SPREAD: usize = 2_654_435_761;

/// The load to send.
#[derive(clap::Args)]
pub struct Options {
    /// Port on this machine, or the path of a unix socket.
    server: String,
    pipeline: usize,
    requests: usize,
    /// Speak by io_uring as the load tester does, not by read and write.
    #[arg(long)]
    io_uring: bool,
}

/// Sends SETs of 64 bytes as redis-benchmark would, to its 50 connections in turn.
pub fn run(options: &Options) -> Outcome {
    let address = match options.server.parse() {
        Ok(port) => Address::resolve("127.0.0.1", port)?,
        Err(_) => Address::Unix(options.server.clone().into()),
    };
    let mut batches = vec![Vec::new(); BATCHES];
    for (index, batch) in batches.iter_mut().enumerate() {
        for place in 0..options.pipeline {
            let key = (index * options.pipeline + place).wrapping_mul(SPREAD) % KEYS;
            write!(batch, "*3\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n$64\r\n{}\r\n", "x".repeat(64))?;
        }
    }
    let batches = batches.iter().map(Vec::as_slice).cycle();
    let replies_bytes = options.pipeline * REPLY_BYTES;
    let count = Count {
        batches: options.requests / options.pipeline,
        replies_bytes,
        missing_bytes: [replies_bytes; CONNECTIONS],
    };
    if options.io_uring {
        by_io_uring(&address, batches, count)
    } else {
        by_read_and_write(&address, batches, count)
    }
}

/// The requests still to come, over all connections and on each of them.
struct Count {
    batches: usize,
    replies_bytes: usize,
    missing_bytes: [usize; CONNECTIONS],
}

impl Count {
    /// Takes bytes of replies; whether a batch is answered, so that the next may leave.
    fn take(&mut self, index: usize, bytes: usize) -> bool {
        let Some(missing_bytes) = self.missing_bytes.get_mut(index) else { return false };
        *missing_bytes = missing_bytes.saturating_sub(bytes);
        if *missing_bytes > 0 {
            return false;
        }
        *missing_bytes = self.replies_bytes;
        self.batches = self.batches.saturating_sub(1);
        true
    }
}

fn connect(address: &Address) -> io::Result<OwnedFd> {
    match address {
        Address::Tcp(address) => {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            Ok(stream.into())
        }
        Address::Unix(path) => UnixStream::connect(path).map(OwnedFd::from),
    }
}

fn by_read_and_write<'a>(
    address: &Address,
    mut batches: impl Iterator<Item = &'a [u8]>,
    mut count: Count,
) -> Outcome {
    let (poll, mut streams) = (epoll::create(epoll::CreateFlags::CLOEXEC)?, Vec::new());
    for index in 0..CONNECTIONS {
        let stream = std::fs::File::from(connect(address)?);
        epoll::add(&poll, &stream, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
        streams.push(stream);
    }
    for stream in &mut streams {
        stream.write_all(batches.next().unwrap_or_default())?;
    }
    let (mut buffer, mut events) = (vec![0; 64 * 1024], Vec::with_capacity(streams.len()));
    while count.batches > 0 {
        events.clear();
        match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None) {
            Err(Errno::INTR) => continue,
            waited => waited?,
        };
        for event in &events {
            let index = event.data.u64() as usize;
            let Some(stream) = streams.get_mut(index) else { continue };
            let bytes = stream.read(&mut buffer)?;
            if bytes == 0 {
                return Err("the server closed the connection".into());
            }
            if count.take(index, bytes) {
                stream.write_all(batches.next().unwrap_or_default())?;
            }
        }
    }
    Ok(())
}

/// The result of one wait of the ring: the connections whose next batch may leave.
struct Answered {
    count: Count,
    slots: Vec<usize>,
    closed: Option<String>,
}

impl Handler for Answered {
    fn woken(&mut self) {}

    fn connected(&mut self, slot: usize) {
        self.slots.push(slot);
    }

    fn data(&mut self, slot: usize, data: &[u8]) {
        if self.count.take(slot, data.len()) {
            self.slots.push(slot);
        }
    }

    fn sent(&mut self, _slot: usize) {}

    fn closed(&mut self, _slot: usize, error: Option<io::Error>) {
        let reason = error.map_or("the server closed the connection".into(), |error| error.to_string());
        self.closed.get_or_insert(reason);
    }
}

fn by_io_uring<'a>(address: &Address, mut batches: impl Iterator<Item = &'a [u8]>, count: Count) -> Outcome {
    let mut mux = UringMux::new(CONNECTIONS)?;
    for slot in 0..CONNECTIONS {
        mux.open(slot, address, None)?;
    }
    let mut answered = Answered { count, slots: Vec::new(), closed: None };
    while answered.count.batches > 0 {
        mux.wait(None, &mut answered)?;
        if let Some(reason) = answered.closed {
            return Err(reason.into());
        }
        for slot in answered.slots.drain(..) {
            if let Some(buffer) = mux.buffer(slot) {
                buffer.clear();
                buffer.extend_from_slice(batches.next().unwrap_or_default());
            }
            mux.send(slot, false);
        }
    }
    Ok(())
}
