//! A full sync on its way from its writer to its replicas: every block is kept until the slowest has taken
//! it, and the writer waits while too much is.
//!
//! Invariant: every taker gets all blocks in order, and then the end; or it has left.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use martlet_base::sync::{lock, wait_while};
use martlet_engine::HeldBytes;

/// Bytes of a block.
const BLOCK_BYTES: usize = 64 << 10;
/// Most blocks that wait for the slowest replica.
const MOST_BLOCKS: usize = 64;

/// A block, which all takers share.
pub type Block = triomphe::Arc<Vec<u8>>;

/// A taker's next finding.
#[derive(Debug)]
pub enum Next {
    /// The next block.
    Block(Block),
    /// Nothing yet.
    Nothing,
    /// That was all; whether it is whole.
    End(bool),
}

#[derive(Default)]
struct State {
    blocks: VecDeque<Block>,
    /// The number of the first that is kept.
    first: u64,
    /// The next block of each taker, as long as it is there.
    takers: Vec<Option<u64>>,
    /// Whether all that came is whole, once nothing more comes.
    end: Option<bool>,
    /// The flag to set when the last taker leaves early.
    cancels: Option<Arc<AtomicBool>>,
    /// The blocks' part of what no key is evicted for.
    held: HeldBytes,
}

impl State {
    fn trim(&mut self) {
        let end = self.first + self.blocks.len() as u64;
        let first = self.takers.iter().flatten().min().copied().unwrap_or(end);
        self.blocks.drain(..(first - self.first) as usize);
        self.first = first;
        self.count_held();
    }

    fn count_held(&mut self) {
        self.held.set(self.blocks.len() * BLOCK_BYTES);
    }

    /// Ends the writing if no taker is left.
    fn cancel_if_abandoned(&mut self) {
        if self.end.is_none()
            && self.takers.iter().all(Option::is_none)
            && let Some(cancels) = self.cancels.take()
        {
            tracing::info!("Diskless rdb transfer, last replica dropped, killing fork child.");
            cancels.store(true, Ordering::Relaxed);
        }
    }
}

/// See the [module docs](self).
pub struct Feed {
    state: Mutex<State>,
    room: Condvar,
    /// Wakes the takers' threads for more.
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Feed {
    /// A feed for `takers` takers, whose threads are woken by `wake`; its blocks are counted in `held`.
    pub fn new(takers: usize, held: HeldBytes, wake: impl Fn() + Send + Sync + 'static) -> Feed {
        let state = State { takers: vec![Some(0); takers], held, ..State::default() };
        Feed { state: Mutex::new(state), room: Condvar::new(), wake: Box::new(wake) }
    }

    /// The next block for a taker.
    pub fn next(&self, taker: usize) -> Next {
        let mut state = lock(&self.state);
        let Some(Some(at)) = state.takers.get(taker).copied() else { return Next::End(false) };
        let Some(block) = state.blocks.get((at - state.first) as usize).cloned() else {
            return state.end.map_or(Next::Nothing, Next::End);
        };
        if let Some(place) = state.takers.get_mut(taker) {
            *place = Some(at + 1);
        }
        state.trim();
        drop(state);
        self.room.notify_all();
        Next::Block(block)
    }

    /// A taker wants no more.
    pub fn leave(&self, taker: usize) {
        let mut state = lock(&self.state);
        if let Some(place) = state.takers.get_mut(taker) {
            *place = None;
        }
        state.trim();
        state.cancel_if_abandoned();
        drop(state);
        self.room.notify_all();
    }

    /// Has `is_cancelled` set when no taker is left before the end.
    pub fn cancel_when_abandoned(&self, is_cancelled: Arc<AtomicBool>) {
        let mut state = lock(&self.state);
        state.cancels = Some(is_cancelled);
        state.cancel_if_abandoned();
    }

    /// Adds a block, once there is room.
    ///
    /// # Errors
    /// No taker is left.
    fn push(&self, block: Vec<u8>) -> io::Result<()> {
        let mut state = wait_while(&self.room, lock(&self.state), |state| {
            state.blocks.len() >= MOST_BLOCKS && state.takers.iter().any(Option::is_some)
        });
        if !state.takers.iter().any(Option::is_some) {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "no replica is left"));
        }
        state.blocks.push_back(Block::new(block));
        state.count_held();
        drop(state);
        (self.wake)();
        Ok(())
    }

    /// Ends the feed; `is_whole` if all blocks came.
    pub fn end(&self, is_whole: bool) {
        lock(&self.state).end.get_or_insert(is_whole);
        (self.wake)();
    }
}

/// Writes to a [`Feed`].
pub struct FeedWriter {
    feed: Arc<Feed>,
    block: Vec<u8>,
}

impl FeedWriter {
    /// A writer to `feed`; its owner ends the feed.
    pub fn new(feed: Arc<Feed>) -> FeedWriter {
        FeedWriter { feed, block: Vec::new() }
    }
}

impl Write for FeedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.block.capacity() == 0 {
            self.block.reserve_exact(BLOCK_BYTES);
        }
        let len = bytes.len().min(BLOCK_BYTES - self.block.len());
        self.block.extend_from_slice(&bytes[..len]);
        if self.block.len() >= BLOCK_BYTES {
            self.flush()?;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.block) {
            block if block.is_empty() => Ok(()),
            block => self.feed.push(block),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(feed: &Feed, taker: usize) -> (Vec<u8>, bool) {
        let mut all = Vec::new();
        loop {
            match feed.next(taker) {
                Next::Block(block) => all.extend_from_slice(&block),
                Next::Nothing => std::thread::yield_now(),
                Next::End(is_whole) => return (all, is_whole),
            }
        }
    }

    #[test]
    fn each_taker_gets_all_and_the_slowest_keeps_the_writer_waiting() {
        let feed = Arc::new(Feed::new(3, HeldBytes::default(), || ()));
        let sent: Vec<u8> = (0..BLOCK_BYTES * MOST_BLOCKS * 3 + 7).map(|i| (i % 251) as u8).collect();
        let writer = std::thread::spawn({
            let (feed, sent) = (feed.clone(), sent.clone());
            move || {
                let mut writer = FeedWriter::new(feed.clone());
                writer.write_all(&sent).unwrap();
                writer.flush().unwrap();
                feed.end(true);
            }
        });
        // The third never takes anything, and leaves once the first has come as far as that lets it.
        let mut first = Vec::new();
        while first.len() < BLOCK_BYTES * MOST_BLOCKS {
            match feed.next(0) {
                Next::Block(block) => first.extend_from_slice(&block),
                _ => std::thread::yield_now(),
            }
        }
        assert!(matches!(feed.next(0), Next::Nothing));
        feed.leave(2);
        let second = std::thread::spawn({
            let feed = feed.clone();
            move || take_all(&feed, 1)
        });
        let (rest, is_whole) = take_all(&feed, 0);
        first.extend(rest);
        assert!(is_whole && first == sent);
        assert!(second.join().unwrap() == (sent, true));
        writer.join().unwrap();
        assert!(lock(&feed.state).blocks.is_empty());
        assert!(matches!(feed.next(2), Next::End(false)));
    }

    #[test]
    fn what_nobody_is_left_to_take_is_cancelled() {
        let is_set = |of: &Arc<AtomicBool>| of.load(Ordering::Relaxed);
        let [in_time, too_late, ended] = [(); 3].map(|()| Arc::<AtomicBool>::default());
        let feed = Feed::new(2, HeldBytes::default(), || ());
        feed.cancel_when_abandoned(in_time.clone());
        feed.leave(0);
        assert!(!is_set(&in_time));
        feed.leave(1);
        assert!(is_set(&in_time));
        feed.cancel_when_abandoned(too_late.clone());
        assert!(is_set(&too_late));
        let feed = Feed::new(1, HeldBytes::default(), || ());
        feed.cancel_when_abandoned(ended.clone());
        feed.end(true);
        feed.leave(0);
        assert!(!is_set(&ended));
    }

    #[test]
    fn a_writer_whose_takers_have_left_is_told() {
        let feed = Arc::new(Feed::new(1, HeldBytes::default(), || ()));
        feed.leave(0);
        let mut writer = FeedWriter::new(feed);
        assert_eq!(writer.write(b"x").unwrap(), 1);
        assert_eq!(writer.flush().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
