//! Input of the stream by the first connection while a full sync's data set comes by the second.
//!
//! Invariant: no more is kept than `replica-full-sync-buffer-limit` allows; beyond that the connection is not
//! read, so that the primary keeps it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};

use super::channel::{ChannelHandshake, Dialect, Resumption};
use super::link::{Ended, Link, PATIENCE, PERIOD};
use super::{LinkState, Replica};
use crate::config::{Config, OutputClass, Primary};

/// Bytes that are kept in one piece of memory.
const BLOCK_BYTES: usize = 256 << 10;
/// Most bytes of one read.
const READ_BYTES: usize = 96 << 10;

/// INFO's figures on [`Gathered`].
#[derive(Default)]
pub struct GatheredFigures {
    /// Bytes of memory that it has.
    pub bytes: AtomicU64,
    /// The most that it ever had.
    pub peak_bytes: AtomicU64,
}

/// A part of the stream that has been received and waits, in order.
pub(super) struct Gathered {
    figures: &'static GatheredFigures,
    blocks: VecDeque<Vec<u8>>,
    limit_bytes: u64,
}

impl Gathered {
    fn new(figures: &'static GatheredFigures, config: &Config) -> Gathered {
        let inherited = config.client_output_buffer_limits[OutputClass::Replica as usize].hard_bytes;
        let limit_bytes = match (config.replica_full_sync_buffer_limit_bytes, inherited) {
            (0, 0) => u64::MAX,
            (0, inherited) => inherited,
            (limit, _) => limit,
        };
        Gathered { figures, blocks: VecDeque::new(), limit_bytes }
    }

    /// Whether the next read finds room.
    fn has_room(&self) -> bool {
        let fits = |block: &Vec<u8>| block.len() + READ_BYTES <= BLOCK_BYTES;
        let with_another = self.figures.bytes.load(Ordering::Relaxed) + BLOCK_BYTES as u64;
        self.blocks.back().is_some_and(fits) || with_another <= self.limit_bytes
    }

    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        match self.blocks.back_mut() {
            Some(block) if block.len() + bytes.len() <= block.capacity() => block.extend_from_slice(bytes),
            _ if bytes.is_empty() => {}
            _ => {
                let mut block = Vec::with_capacity(bytes.len().max(BLOCK_BYTES));
                block.extend_from_slice(bytes);
                let bytes = self.figures.bytes.fetch_add(block.capacity() as u64, Ordering::Relaxed);
                self.figures.peak_bytes.fetch_max(bytes + block.capacity() as u64, Ordering::Relaxed);
                self.blocks.push_back(block);
            }
        }
    }

    /// Takes the first bytes.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        let block = self.blocks.pop_front()?;
        self.figures.bytes.fetch_sub(block.capacity() as u64, Ordering::Relaxed);
        Some(block)
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Bytes of the stream that it has.
    pub fn len(&self) -> u64 {
        self.blocks.iter().map(|block| block.len() as u64).sum()
    }
}

impl Drop for Gathered {
    fn drop(&mut self) {
        while self.pop().is_some() {}
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
    fn new(mut link: Link) -> MainChannel {
        let figures = &link.replica.gathered;
        let mut gathered = Gathered::new(figures, &link.shared.config.snapshot());
        gathered.push(&std::mem::take(&mut link.received));
        MainChannel { gathered, link, failure: None, has_reached_limit: false }
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
    /// Has the data set come by a second connection, and continues with the stream that comes by this one.
    pub(super) fn synchronize_by_channel(self, primary: &Primary, dialect: Dialect) -> Result<(), Ended> {
        let mut main = self;
        let mut channel = Link::open(main.shared, main.generation, primary)?;
        let mut out = Vec::new();
        let mut handshake = ChannelHandshake::begin(dialect, &main.greeting(), &mut out);
        let begun = channel.converse(&mut out, |bytes, out| handshake.receive(bytes, out))?;
        channel.received = handshake.into_rest();
        if let Some(client) = begun.client {
            let mut resumption = Resumption::begin(client, &begun.id, begun.offset, &mut out);
            main.converse(&mut out, |bytes, out| {
                resumption.receive(bytes, out).map(|goes_on| goes_on.then_some(()))
            })?;
            main.received = resumption.into_rest();
        }
        tracing::info!("Starting to receive RDB and replication stream in parallel.");
        main.set_state(LinkState::Sync);
        channel.main = Some(Box::new(MainChannel::new(main)));
        channel.synchronize(Some((begun.id, begun.offset)))?;
        let Some(main) = channel.main.take() else { return Err(Ended::Changed) };
        drop(channel);
        let MainChannel { mut link, gathered, failure, .. } = *main;
        tracing::info!(
            "MASTER <-> REPLICA sync: Starting to stream replication buffer into the db ({} bytes).",
            gathered.len()
        );
        link.stream(primary, Some(gathered), failure)
    }

    /// Receives and sends until `answer`, which gets the received bytes and appends output, comes to a
    /// result.
    fn converse<T, E: Into<Ended>>(
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

impl Replica {
    /// Bytes of memory that the stream has which has been received during a full sync and waits.
    pub fn gathered_bytes(&self) -> u64 {
        self.gathered.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(limit_bytes: u64) -> Gathered {
        let config = Config { replica_full_sync_buffer_limit_bytes: limit_bytes, ..Config::default() };
        Gathered::new(Box::leak(Box::default()), &config)
    }

    #[test]
    fn all_comes_out_in_order_and_its_memory_is_counted() {
        let mut gathered = gathered(0);
        assert_eq!(gathered.limit_bytes, 256 << 20);
        let stream: Vec<u8> = (0..2_000_000_u32).map(|i| (i % 251) as u8).collect();
        for (number, piece) in stream.chunks(61_000).enumerate() {
            assert!(gathered.has_room());
            gathered.push(&piece[..number % piece.len()]);
            gathered.push(&piece[number % piece.len()..]);
        }
        assert_eq!(gathered.len(), stream.len() as u64);
        let figures = gathered.figures;
        let bytes = figures.bytes.load(Ordering::Relaxed);
        assert!(bytes >= stream.len() as u64 && bytes < stream.len() as u64 * 3 / 2, "{bytes}");
        let mut all = Vec::new();
        while let Some(block) = gathered.pop() {
            all.extend(block);
        }
        assert!(all == stream);
        gathered.push(b"x");
        drop(gathered);
        let [left, peak] = [&figures.bytes, &figures.peak_bytes].map(|of| of.load(Ordering::Relaxed));
        assert_eq!((left, peak), (0, bytes));
    }

    #[test]
    fn no_more_is_kept_than_the_limit_allows() {
        for limit in [1, BLOCK_BYTES as u64, 3 << 20, (3 << 20) + 1] {
            let mut gathered = gathered(limit);
            let mut reads = 0;
            while gathered.has_room() {
                gathered.push(&[0; READ_BYTES]);
                reads += 1;
            }
            let bytes = gathered.figures.bytes.load(Ordering::Relaxed);
            assert!(bytes <= limit && bytes + BLOCK_BYTES as u64 > limit, "{limit}: {bytes}");
            assert_eq!(reads > 0, limit >= BLOCK_BYTES as u64);
        }
    }
}
