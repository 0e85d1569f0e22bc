//! The journal of a server: the ring, who is told of what, and how far the disk has come.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::ring::{Memory, Position, Reader, Ring};

/// Bytes of addresses that the ring has; it takes memory as far as the reader is behind.
const CAPACITY_BYTES: u64 = 256 << 20;
/// With more bytes that wait for the reader the journal is full. The rest of the ring is for those who were
/// about to append when it filled up: a record takes at most 64 KB of it, and no thread begins another
/// command that writes before there is room.
const FULL_BYTES: u64 = CAPACITY_BYTES / 2;
/// With fewer it has room again.
const ROOM_BYTES: u64 = CAPACITY_BYTES / 4;

/// What is expected of a journal.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Nobody reads it: nothing is recorded.
    Off,
    /// Effects are recorded.
    On,
    /// Replies leave when what was recorded before them is on disk.
    Held,
}

/// The reader works, or will look again by itself.
const AWAKE: u8 = 0;
/// It sleeps until something is appended.
const ASLEEP: u8 = 1;
/// It sleeps until it is nudged.
const WAITS: u8 = 2;

/// Is told when the journal fills up (`true`), maybe by a thread that has locked shards, and when there is
/// room again (`false`).
type Listener = Box<dyn Fn(bool) + Send + Sync>;

/// See the module's page.
#[derive(Default)]
pub struct Journal {
    ring: OnceLock<Ring>,
    has_reader: AtomicBool,
    mode: AtomicU8,
    /// Everything up to here is on disk.
    durable: CachePadded<AtomicU64>,
    sleep: CachePadded<AtomicU8>,
    sleeper: Mutex<Option<Thread>>,
    is_full: AtomicBool,
    /// Locked by whoever changes `is_full`.
    listener: Mutex<Option<Listener>>,
}

impl Journal {
    /// Makes its ring, if there is none yet, and hands out the one reader it may have.
    ///
    /// # Errors
    /// When the operating system has no memory, or there is a reader already.
    pub fn open(&self) -> io::Result<Reader<'_>> {
        if self.has_reader.swap(true, Ordering::SeqCst) {
            return Err(io::Error::other("the journal is being read already"));
        }
        let ring = match self.ring.get() {
            Some(ring) => ring,
            None => {
                let ring = Ring::new(Memory::new(CAPACITY_BYTES as usize)?, CAPACITY_BYTES);
                self.ring.get_or_init(|| ring)
            }
        };
        // SAFETY: `has_reader` lets one caller come here.
        Ok(unsafe { ring.reader() })
    }

    /// Whether effects are recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.mode.load(Ordering::Acquire) != Mode::Off as u8
    }

    /// Whether replies wait for the disk.
    #[inline]
    pub fn holds_replies(&self) -> bool {
        self.mode.load(Ordering::Acquire) == Mode::Held as u8
    }

    /// Says what is expected. From or to [`Mode::Off`] only while nobody appends, and with a ring.
    pub fn set_mode(&self, mode: Mode) {
        assert!(mode == Mode::Off || self.ring.get().is_some());
        self.mode.store(mode as u8, Ordering::Release);
    }

    /// Appends a record while what it tells of is held; its end. Nobody waits here: while the journal
    /// [is full](Journal::is_full), commands that write are not begun.
    #[inline]
    pub fn append(&self, tag: u32, payload: &[u8]) -> Position {
        let Some(ring) = self.ring.get() else { return 0 };
        let appended = ring.append(tag, payload);
        if self.sleep.load(Ordering::SeqCst) == ASLEEP {
            self.wake(ASLEEP);
        }
        if appended.backlog > FULL_BYTES {
            self.note_full();
        }
        appended.end
    }

    /// Whether so much waits for the reader that nothing more is to be appended than has begun.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::SeqCst)
    }

    /// Has `listener` told when the journal fills up and when there is room again.
    pub fn listen(&self, listener: impl Fn(bool) + Send + Sync + 'static) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(listener));
    }

    #[cold]
    fn note_full(&self) {
        if !self.is_full() {
            self.settle_fullness();
        }
    }

    /// The reader has given room back.
    pub(crate) fn note_room(&self) {
        // Whoever fills the journal says so before it looks once more; the reader looks after it gave back.
        fence(Ordering::SeqCst);
        if self.is_full() {
            self.settle_fullness();
        }
    }

    /// Brings `is_full` in line with what waits, and tells the listener of each change.
    fn settle_fullness(&self) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let is_full = self.is_full();
            let limit = if is_full { ROOM_BYTES } else { FULL_BYTES };
            if (self.backlog() > limit) == is_full {
                return;
            }
            self.is_full.store(!is_full, Ordering::SeqCst);
            listener.iter().for_each(|tell| tell(!is_full));
            fence(Ordering::SeqCst);
        }
    }

    /// The end of what has been recorded.
    #[inline]
    pub fn end(&self) -> Position {
        self.ring.get().map_or(0, Ring::head)
    }

    /// Bytes that wait for the reader.
    pub fn backlog(&self) -> u64 {
        self.ring.get().map_or(0, Ring::backlog)
    }

    /// Everything before this is on disk.
    #[inline]
    pub fn durable(&self) -> Position {
        self.durable.load(Ordering::Acquire)
    }

    /// Says that everything up to `position` is on disk.
    pub fn set_durable(&self, position: Position) {
        self.durable.fetch_max(position, Ordering::SeqCst);
    }

    /// Whether something was recorded that is not on disk yet.
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.durable() < self.end()
    }

    /// Lets the reader look now, if it sleeps.
    #[inline]
    pub fn nudge(&self) {
        fence(Ordering::SeqCst);
        let state = self.sleep.load(Ordering::SeqCst);
        if state != AWAKE {
            self.wake(state);
        }
    }

    #[cold]
    fn wake(&self, state: u8) {
        if self.sleep.compare_exchange(state, AWAKE, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            let sleeper = self.sleeper.lock().unwrap_or_else(PoisonError::into_inner);
            sleeper.iter().for_each(Thread::unpark);
        }
    }

    /// Puts the reader's thread to sleep until it is nudged, at most for so long; with `until_appended` also
    /// until something is appended, if nothing is there yet. `has_work` is asked once more when nobody can
    /// miss the sleep any more.
    pub fn sleep(&self, until_appended: bool, most: Duration, has_work: impl FnOnce() -> bool) {
        *self.sleeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current());
        self.sleep.store(if until_appended { ASLEEP } else { WAITS }, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !has_work() {
            std::thread::park_timeout(most);
        }
        self.sleep.store(AWAKE, Ordering::SeqCst);
    }
}
