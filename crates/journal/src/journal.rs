//! The journal of a server: the ring, its followers and listeners, and the progress of the disk.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use martlet_base::sync::lock;

use crate::ring::{self, Memory, Position, Ring};
use crate::stream::{Audience, Cut, FellBehind, Place, Pumped, Reader, Stream};

/// Bytes of addresses that the ring has; it takes memory as far as the reader is behind.
const CAPACITY_BYTES: u64 = 256 << 20;
/// With more bytes that wait for the reader the journal is full. The rest of the ring is for threads that
/// were about to append when it filled up: a record takes at most 64 KB of it, and no thread begins another
/// command that writes before there is room.
const FULL_BYTES: u64 = CAPACITY_BYTES / 2;
/// With fewer it has room again.
const ROOM_BYTES: u64 = CAPACITY_BYTES / 4;

/// Records wait for readers that may not lose anything if those are this many bytes of commands behind.
const MOST_AHEAD_BYTES: u64 = 16 << 20;

/// The followers of the journal: recording is on while there is any.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Follower {
    /// The append-only file.
    File = 1,
    /// Replicas, or the backlog for those to come.
    Replicas = 2,
}

/// Beside the followers: replies leave when earlier records are on disk.
const HOLDS_REPLIES: u8 = 4;
/// Beside them: replicas get another server's stream, not this server's effects.
const RELAYS: u8 = 8;

/// The reader works, or will look again by itself.
const AWAKE: u8 = 0;
/// It sleeps until something is appended.
const ASLEEP: u8 = 1;
/// It sleeps until it is nudged.
const WAITS: u8 = 2;

/// Called when the journal fills up (`true`), maybe by a thread that has locked shards, and when there is
/// room again (`false`).
type Listener = Box<dyn Fn(bool) + Send + Sync>;

/// See the [module docs](self).
#[derive(Default)]
pub struct Journal {
    ring: OnceLock<Arc<Ring>>,
    stream: OnceLock<Stream>,
    /// The followers, and [`HOLDS_REPLIES`].
    followed: AtomicU8,
    /// Everything up to here is on disk.
    durable: CachePadded<AtomicU64>,
    sleep: CachePadded<AtomicU8>,
    sleeper: Mutex<Option<Thread>>,
    opening: Mutex<()>,
    is_full: AtomicBool,
    /// Locked to change `is_full`.
    listener: Mutex<Option<Listener>>,
}

impl Journal {
    /// Makes its ring and its stream, unless they are there.
    ///
    /// # Errors
    /// When the operating system has no memory.
    pub fn open(&self) -> io::Result<()> {
        let _opening = lock(&self.opening);
        if self.stream.get().is_some() {
            return Ok(());
        }
        let ring = Arc::new(Ring::new(Memory::new(CAPACITY_BYTES as usize)?, CAPACITY_BYTES));
        // SAFETY: only the thread with `opening` comes here, once, and the ring is new.
        let reader = unsafe { ring::Reader::new(ring.clone()) };
        self.stream.get_or_init(|| Stream::new(reader));
        self.ring.get_or_init(|| ring);
        Ok(())
    }

    /// Whether effects are recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        let followed = self.followed.load(Ordering::Acquire);
        followed & Follower::File as u8 != 0
            || followed & (Follower::Replicas as u8 | RELAYS) == Follower::Replicas as u8
    }

    /// Whether what replicas get is another server's stream.
    pub fn relays(&self) -> bool {
        self.followed.load(Ordering::Acquire) & RELAYS != 0
    }

    /// Sets whether from here on replicas get another server's stream, which is recorded as
    /// [`REPLICAS`](crate::REPLICAS), while effects are for the append-only file alone. With `offset` the
    /// replication offset continues from there, and earlier parts are not there for replicas any more. Only
    /// while no thread appends, and once it is open; it holds as soon as [`Journal::pump`] has come to the
    /// cut.
    pub fn relay(&self, relays: bool, offset: Option<u64>) -> Cut {
        self.set(RELAYS, relays);
        self.tell_stream(offset)
    }

    /// Informs the stream whether effects are for replicas, too, from here on.
    fn tell_stream(&self, offset: Option<u64>) -> Cut {
        let followed = self.followed.load(Ordering::Acquire);
        let for_all = followed & (Follower::Replicas as u8 | RELAYS) == Follower::Replicas as u8;
        let position = self.end();
        self.stream.get().map_or(Cut::default(), |stream| stream.turn(position, for_all, offset))
    }

    /// Whether replies wait for the disk.
    #[inline]
    pub fn holds_replies(&self) -> bool {
        self.followed.load(Ordering::Acquire) & HOLDS_REPLIES != 0
    }

    /// Sets whether `follower` wants effects recorded. Only while no thread appends, and once it is open.
    pub fn follow(&self, follower: Follower, follows: bool) {
        assert!(!follows || self.stream.get().is_some());
        self.set(follower as u8, follows);
        if follower == Follower::Replicas {
            self.tell_stream(None);
        }
    }

    /// Whether `follower` wants it.
    pub fn is_followed_by(&self, follower: Follower) -> bool {
        self.followed.load(Ordering::Acquire) & follower as u8 != 0
    }

    /// Says whether replies wait for the disk.
    pub fn hold_replies(&self, holds: bool) {
        self.set(HOLDS_REPLIES, holds);
    }

    fn set(&self, bits: u8, on: bool) {
        if on {
            self.followed.fetch_or(bits, Ordering::SeqCst);
        } else {
            self.followed.fetch_and(!bits, Ordering::SeqCst);
        }
    }

    /// Appends a record while its keys are locked; returns its end. The caller does not wait here: while the
    /// journal [is full](Journal::is_full), commands that write are not begun.
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

    /// By how much a record moves the end of the journal.
    pub fn record_bytes(payload: &[u8]) -> u64 {
        ring::record_bytes(payload.len())
    }

    /// Whether so much waits for the reader that nothing more is to be appended than has begun.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::SeqCst)
    }

    /// Has `listener` called when the journal fills up and when there is room again.
    pub fn listen(&self, listener: impl Fn(bool) + Send + Sync + 'static) {
        *lock(&self.listener) = Some(Box::new(listener));
    }

    #[cold]
    fn note_full(&self) {
        if !self.is_full() {
            self.settle_fullness();
        }
    }

    /// The ring has got room back.
    fn note_room(&self) {
        // The thread that fills the journal says so before it looks once more; the reader looks after it gave
        // back.
        fence(Ordering::SeqCst);
        if self.is_full() {
            self.settle_fullness();
        }
    }

    /// Makes `is_full` agree with the waiting bytes, and calls the listener for each change.
    fn settle_fullness(&self) {
        let listener = lock(&self.listener);
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

    /// The end of the last record.
    #[inline]
    pub fn end(&self) -> Position {
        self.ring.get().map_or(0, |ring| ring.head())
    }

    /// Bytes that wait for the reader.
    pub fn backlog(&self) -> u64 {
        self.ring.get().map_or(0, |ring| ring.backlog())
    }

    // ---- the stream ----

    /// A reader of the stream from `at` on, as its kind counts bytes, or from the end. Unread bytes are kept
    /// for it; with `most_behind` only that many, and then it may learn that it fell behind.
    ///
    /// # Errors
    /// [`FellBehind`] if that place is not there any more, or never was.
    pub fn attach(
        &self,
        audience: Audience,
        at: Option<u64>,
        most_behind: Option<u64>,
    ) -> Result<Reader<'_>, FellBehind> {
        self.stream.get().ok_or(FellBehind)?.attach(audience, at, most_behind)
    }

    /// Makes commands of the records that end at or before `end`, for the stream's readers; returns whether
    /// that was all. Any thread may call it, and does not wait for any reader.
    pub fn pump(&self, end: Position) -> bool {
        while self.pump_some(end, MOST_AHEAD_BYTES) == Pumped::Some {}
        self.taken() >= end
    }

    pub(crate) fn pump_some(&self, end: Position, most_ahead: u64) -> Pumped {
        let Some(stream) = self.stream.get() else { return Pumped::Nothing };
        let pumped = stream.pump(end, most_ahead);
        if pumped == Pumped::Some {
            self.note_room();
        }
        pumped
    }

    /// The end of the records that commands have been made of.
    pub fn taken(&self) -> Position {
        self.stream.get().map_or(0, Stream::taken)
    }

    /// Marks a moment: commands after it select their database again, so that a reader can begin here. Called
    /// while no thread appends.
    pub fn cut(&self) -> Cut {
        self.cut_at(false)
    }

    /// As [`Journal::cut`], and the append-only file continues in another one, or ends.
    pub fn cut_file(&self) -> Cut {
        self.cut_at(true)
    }

    fn cut_at(&self, ends_file: bool) -> Cut {
        let position = self.end();
        self.stream.get().map_or(Cut::default(), |stream| stream.cut(position, ends_file))
    }

    /// The place in the stream behind the records that end at `position`: exactly at a cut and at the end,
    /// else up to a few kilobytes further. `None` before [`Journal::pump`] has come there.
    pub fn place_of(&self, position: Position) -> Option<Place> {
        self.stream.get()?.place_of(position)
    }

    /// The end of the stream.
    pub fn stream_end(&self) -> Place {
        self.stream.get().map_or(Place::default(), Stream::end)
    }

    /// The replication offsets that are there for replicas that come back.
    pub fn backlog_offsets(&self) -> std::ops::Range<u64> {
        self.stream.get().map_or(0..0, Stream::backlog)
    }

    /// Bytes of memory of the stream that is kept for the backlog and for replicas that have not read it yet.
    pub fn stream_bytes(&self) -> u64 {
        self.stream.get().map_or(0, Stream::memory_bytes)
    }

    /// Keeps this many bytes of the stream for replicas that come back (`repl-backlog-size`).
    pub fn set_backlog(&self, bytes: u64) {
        self.stream.get().into_iter().for_each(|stream| stream.set_backlog(bytes));
    }

    /// Notes the time in the file between commands from now on, in Unix seconds, or no more.
    pub(crate) fn note_time(&self, time_s: Option<i64>) {
        self.stream.get().into_iter().for_each(|stream| stream.note_time(time_s));
    }

    // ---- the disk ----

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
            let sleeper = lock(&self.sleeper);
            sleeper.iter().for_each(Thread::unpark);
        }
    }

    /// Puts the reader's thread to sleep until it is nudged, at most for this time; with `until_appended`
    /// also until something is appended, if nothing is there yet. `has_work` is asked once more when every
    /// other thread can see the sleep.
    pub fn sleep(&self, until_appended: bool, most: Duration, has_work: impl FnOnce() -> bool) {
        *lock(&self.sleeper) = Some(std::thread::current());
        self.sleep.store(if until_appended { ASLEEP } else { WAITS }, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !has_work() {
            std::thread::park_timeout(most);
        }
        self.sleep.store(AWAKE, Ordering::SeqCst);
    }
}
