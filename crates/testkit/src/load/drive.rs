//! Many connections on one thread, each with one pipeline under way.

use super::count::Counter;
use super::template::Template;
use rustix::event::epoll;
use rustix::io::Errno;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Room for replies, per connection and read.
const READ_BYTES: usize = 64 * 1024;
/// A server that sends nothing for this time has failed.
const STALL_LIMIT: Duration = Duration::from_secs(60);

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After this many requests.
    Requests(u64),
    /// After this time; pipelines under way are waited for.
    Elapsed(Duration),
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Requests that were answered.
    pub requests: u64,
    /// Error replies among them.
    pub errors: u64,
    /// From the first request to the last reply.
    pub elapsed: Duration,
}

struct Connection {
    stream: TcpStream,
    counter: Counter,
    /// Bytes of an unfinished reply line.
    tail: Vec<u8>,
    unsent: Vec<u8>,
    sent: usize,
    awaited: u64,
}

/// Open connections, ready to be loaded again and again.
pub struct Load {
    connections: Vec<Connection>,
    poll: rustix::fd::OwnedFd,
    pipeline: u64,
    buffer: Vec<u8>,
}

impl Load {
    /// Opens `connections` of them; each run sends `pipeline` requests at a time on each.
    pub fn connect(address: SocketAddr, connections: usize, pipeline: u64) -> io::Result<Load> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut load = Load { connections: Vec::new(), poll, pipeline, buffer: vec![0; READ_BYTES] };
        for index in 0..connections {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&load.poll, &stream, data, epoll::EventFlags::IN)?;
            load.connections.push(Connection {
                stream,
                counter: Counter::default(),
                tail: Vec::new(),
                unsent: Vec::new(),
                sent: 0,
                awaited: 0,
            });
        }
        Ok(load)
    }

    /// Loads the server until the end that is asked for and every reply has come.
    pub fn run(&mut self, template: &mut Template, until: Until) -> io::Result<Outcome> {
        let start = Instant::now();
        let mut outcome = Outcome::default();
        let mut started = 0_u64;
        let mut awaited_connections = 0;
        for index in 0..self.connections.len() {
            let batch = self.next_batch(until, start, started);
            if batch > 0 {
                started += batch;
                awaited_connections += 1;
                self.begin(index, batch, template)?;
            }
        }
        let mut events = Vec::with_capacity(self.connections.len());
        while awaited_connections > 0 {
            let limit = rustix::time::Timespec { tv_sec: STALL_LIMIT.as_secs() as i64, tv_nsec: 0 };
            match epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), Some(&limit)) {
                // A process that is stopped and continued gets this error, whatever the signal's disposition.
                Err(Errno::INTR) => continue,
                waited => waited?,
            };
            if events.is_empty() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the server answers nothing"));
            }
            for event in events.drain(..) {
                let index = event.data.u64() as usize;
                if !self.progress(index, &mut outcome)? {
                    continue;
                }
                let batch = self.next_batch(until, start, started);
                if batch == 0 {
                    awaited_connections -= 1;
                } else {
                    started += batch;
                    self.begin(index, batch, template)?;
                }
            }
        }
        outcome.elapsed = start.elapsed();
        Ok(outcome)
    }

    fn next_batch(&self, until: Until, start: Instant, started: u64) -> u64 {
        match until {
            Until::Requests(total) => (total - started.min(total)).min(self.pipeline),
            Until::Elapsed(limit) if start.elapsed() < limit => self.pipeline,
            Until::Elapsed(_) => 0,
        }
    }

    fn begin(&mut self, index: usize, batch: u64, template: &mut Template) -> io::Result<()> {
        let connection = &mut self.connections[index];
        connection.unsent.clear();
        connection.sent = 0;
        (0..batch).for_each(|_| template.append(&mut connection.unsent));
        connection.awaited = batch;
        connection.flush()?;
        self.watch(index)
    }

    fn watch(&self, index: usize) -> io::Result<()> {
        let connection = &self.connections[index];
        if connection.sent == connection.unsent.len() {
            return Ok(());
        }
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT;
        Ok(epoll::modify(&self.poll, &connection.stream, epoll::EventData::new_u64(index as u64), flags)?)
    }

    /// Reads and writes as much as possible; returns whether the connection's pipeline is answered.
    fn progress(&mut self, index: usize, outcome: &mut Outcome) -> io::Result<bool> {
        let connection = &mut self.connections[index];
        if connection.sent < connection.unsent.len() {
            connection.flush()?;
            if connection.sent == connection.unsent.len() {
                let data = epoll::EventData::new_u64(index as u64);
                epoll::modify(&self.poll, &connection.stream, data, epoll::EventFlags::IN)?;
            }
        }
        let connection = &mut self.connections[index];
        loop {
            let room = self.buffer.len();
            let count = match connection.stream.read(&mut self.buffer) {
                Ok(0) => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the server closed a connection",
                    ));
                }
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            };
            connection.received(&self.buffer[..count], outcome);
            if connection.awaited == 0 {
                return Ok(true);
            }
            if count < room {
                return Ok(false);
            }
        }
    }
}

impl Connection {
    fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.unsent.len() {
            match self.stream.write(&self.unsent[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn received(&mut self, bytes: &[u8], outcome: &mut Outcome) {
        let counted = if self.tail.is_empty() {
            let counted = self.counter.read(bytes);
            self.tail.extend_from_slice(&bytes[counted.consumed..]);
            counted
        } else {
            self.tail.extend_from_slice(bytes);
            let counted = self.counter.read(&self.tail);
            self.tail.drain(..counted.consumed);
            counted
        };
        outcome.requests += counted.replies;
        outcome.errors += counted.errors;
        self.awaited = self.awaited.saturating_sub(counted.replies);
    }
}
