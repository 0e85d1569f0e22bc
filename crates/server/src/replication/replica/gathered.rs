//! A part of the stream that has been received and waits, in order, while a full sync's data set comes.
//!
//! Invariant: no more is kept than `replica-full-sync-buffer-limit` allows.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use super::state::GatheredFigures;
use crate::config::{Config, OutputClass};

/// Bytes that are kept in one piece of memory.
const BLOCK_BYTES: usize = 256 << 10;

/// Most bytes of one read.
const READ_BYTES: usize = 96 << 10;

/// A part of the stream that has been received and waits, in order.
pub(super) struct Gathered {
    figures: &'static GatheredFigures,
    blocks: VecDeque<Vec<u8>>,
    /// The most that it keeps.
    pub limit_bytes: u64,
}

/// Most bytes of changes that may be kept while a snapshot comes.
pub(crate) fn limit_bytes(config: &Config) -> u64 {
    let inherited = config.client_output_buffer_limits[OutputClass::Replica as usize].hard_bytes;
    match (config.replica_full_sync_buffer_limit_bytes, inherited) {
        (0, 0) => u64::MAX,
        (0, inherited) => inherited,
        (limit, _) => limit,
    }
}

impl Gathered {
    pub fn new(figures: &'static GatheredFigures, config: &Config) -> Gathered {
        Gathered { figures, blocks: VecDeque::new(), limit_bytes: limit_bytes(config) }
    }

    /// Whether the next read finds room.
    pub fn has_room(&self) -> bool {
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
