//! The ring itself, on whatever atomics and memory the module above provides.

use std::ops::Deref;

use martlet_base::copy;

use super::atomic::{AtomicU64, Ordering, relax};
use super::memory::Memory;

/// A place in the journal: bytes of the ring since its beginning. Positions only grow; they are no offsets of
/// any file.
pub type Position = u64;

/// The record is whole: its first word is never 0 then.
const WHOLE: u64 = 1 << 63;
/// The payload is the address and the length of the bytes.
const OUTSIDE: u64 = 1 << 62;
const WORD: u64 = 8;

/// Memory that a ring has used so far is given back beyond this, in bytes, once it is empty.
pub const KEPT_BYTES: u64 = 2 << 20;

/// Longer payloads lie outside the ring, in bytes.
const INSIDE_MAX_BYTES: u64 = 64 << 10;

/// See the [module docs](self).
pub struct Ring {
    memory: Memory,
    /// Bytes; a power of two.
    capacity: u64,
    /// Longer payloads lie outside.
    inside_max: u64,
    head: Line,
    tail: Line,
    /// Bytes of payloads outside.
    outside: Line,
}

/// Facts about an appended record.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its end.
    pub end: Position,
    /// Bytes that wait for the reader, about: other threads' appends in the same moment may count or not.
    pub backlog: u64,
}

/// On separate cache lines.
#[repr(align(128))]
struct Line(AtomicU64);

impl Line {
    fn new(value: u64) -> Line {
        Line(AtomicU64::new(value))
    }
}

/// Bytes that a record with a payload of `len` bytes takes, if that lies inside.
pub fn record_bytes(len: usize) -> u64 {
    WORD + padded(len)
}

fn padded(len: usize) -> u64 {
    (len as u64).next_multiple_of(WORD)
}

impl Ring {
    /// An empty ring over `memory` of `capacity` zeroes, a power of two.
    pub fn new(memory: Memory, capacity: u64) -> Ring {
        assert!(capacity.is_power_of_two() && capacity >= 4 * WORD);
        Ring {
            memory,
            capacity,
            inside_max: (capacity / 4 - WORD).min(INSIDE_MAX_BYTES),
            head: Line::new(0),
            tail: Line::new(0),
            outside: Line::new(0),
        }
    }

    /// The end of all records that have room so far, whole or not.
    #[inline]
    pub fn head(&self) -> Position {
        self.head.0.load(Ordering::SeqCst)
    }

    /// Bytes that wait for the reader.
    pub fn backlog(&self) -> u64 {
        self.head().saturating_sub(self.tail.0.load(Ordering::Acquire))
            + self.outside.0.load(Ordering::Relaxed)
    }

    /// Appends a record with a tag of 24 bits. The callers see to it that there is room: without any, it is
    /// waited for.
    #[inline]
    pub fn append(&self, tag: u32, payload: &[u8]) -> Appended {
        if payload.len() as u64 > self.inside_max {
            return self.append_outside(tag, payload);
        }
        self.put(u64::from(tag), payload)
    }

    #[inline]
    fn put(&self, kind_and_tag: u64, payload: &[u8]) -> Appended {
        let bytes = record_bytes(payload.len());
        let begin = self.head.0.fetch_add(bytes, Ordering::SeqCst);
        let end = begin + bytes;
        let mut tail = self.tail.0.load(Ordering::Acquire);
        let mut tries = 0;
        while end > tail + self.capacity {
            relax(tries);
            tries += 1;
            tail = self.tail.0.load(Ordering::Acquire);
        }
        let mask = self.capacity - 1;
        let offset = (begin + WORD) & mask;
        let first = (self.capacity - offset).min(payload.len() as u64) as usize;
        // SAFETY: `begin..end` was reserved by this thread, lies above `tail` by less than a lap, and the
        // reader does not go beyond its first word, which is 0.
        unsafe {
            self.memory.write(offset as usize, &payload[..first]);
            if first < payload.len() {
                self.memory.write(0, &payload[first..]);
            }
        }
        let word = WHOLE | kind_and_tag << 32 | payload.len() as u64;
        self.memory.word((begin & mask) as usize).store(word, Ordering::Release);
        Appended { end, backlog: end.saturating_sub(tail) }
    }

    #[cold]
    fn append_outside(&self, tag: u32, payload: &[u8]) -> Appended {
        let bytes = payload.len() as u64;
        let outside = self.outside.0.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let address = Box::into_raw(Box::<[u8]>::from(payload)).cast::<u8>() as u64;
        let mut place = [0; 16];
        place[..8].copy_from_slice(&address.to_le_bytes());
        place[8..].copy_from_slice(&bytes.to_le_bytes());
        let inside = self.put(OUTSIDE >> 32 | u64::from(tag), &place);
        Appended { backlog: inside.backlog + outside, ..inside }
    }

    /// Puts a payload that goes around the ring's end into `scratch`.
    #[cold]
    fn join(&self, scratch: &mut Vec<u8>, offset: usize, first: usize, len: usize) {
        scratch.clear();
        // SAFETY: only the reader comes here, with a record that is whole; see `Reader::next`.
        unsafe {
            copy::extend(scratch, self.memory.read(offset, first));
            copy::extend(scratch, self.memory.read(0, len - first));
        }
    }

    /// The bytes outside that a record has the address of, which is taken once.
    #[cold]
    fn fetch_outside(&self, scratch: &mut Vec<u8>, offset: usize, len: usize) -> Box<[u8]> {
        let first = (self.capacity as usize - offset).min(len);
        self.join(scratch, offset, first, len);
        let mut words = scratch.chunks_exact(8).map(|word| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            u64::from_le_bytes(bytes)
        });
        let (address, bytes) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
        // SAFETY: `append_outside` made the address from a box of this length, and this is the only time that
        // the record is taken.
        unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(address as *mut u8, bytes as usize)) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the ring is exclusive, and so there is no other reader.
        let mut reader = unsafe { Reader::new(&*self) };
        while reader.next(|_| ()).is_some() {}
    }
}

/// A record as its reader sees it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where it begins.
    pub begin: Position,
    /// Its tag.
    pub tag: u32,
    /// Its payload.
    pub payload: &'a [u8],
}

/// Takes records out in their order.
pub struct Reader<R> {
    ring: R,
    position: Position,
    /// A payload that goes around the ring's end.
    scratch: Vec<u8>,
    /// Bytes of memory that may have been touched since the last was given back.
    used: u64,
}

impl<R: Deref<Target = Ring>> Reader<R> {
    /// The one reader of `ring`.
    ///
    /// # Safety
    /// There may be no other.
    pub unsafe fn new(ring: R) -> Reader<R> {
        let (position, used) = (ring.tail.0.load(Ordering::Acquire), ring.capacity);
        Reader { ring, position, scratch: Vec::new(), used }
    }

    /// The end of the taken records.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Whether something waits, or will in a moment.
    pub fn is_behind(&self) -> bool {
        self.ring.head() != self.position
    }

    /// Hands over the next record if it is whole, and then takes it out. Its room is given back by
    /// [`Reader::give_back`].
    pub fn next<T>(&mut self, f: impl FnOnce(Record<'_>) -> T) -> Option<T> {
        let Reader { ring, position, scratch, used } = self;
        let ring: &Ring = ring;
        let mask = ring.capacity - 1;
        let word = ring.memory.word((*position & mask) as usize).load(Ordering::Acquire);
        if word == 0 {
            return None;
        }
        let len = word as u32 as usize;
        let tag = (word >> 32) as u32 & 0xff_ffff;
        let begin = *position;
        let offset = ((begin + WORD) & mask) as usize;
        let first = (ring.capacity as usize - offset).min(len);
        let record = |payload| Record { begin, tag, payload };
        let result = if word & OUTSIDE != 0 {
            let payload = ring.fetch_outside(scratch, offset, len);
            ring.outside.0.fetch_sub(payload.len() as u64, Ordering::Relaxed);
            f(record(&payload))
        } else if first == len {
            // SAFETY: the record is complete, and no thread writes to it until its room is given back.
            f(record(unsafe { ring.memory.read(offset, len) }))
        } else {
            ring.join(scratch, offset, first, len);
            f(record(scratch))
        };
        let bytes = WORD + padded(len);
        let start = (begin & mask) as usize;
        let first = (ring.capacity as usize - start).min(bytes as usize);
        // SAFETY: as for a record inside; threads that append look for room in `tail`, which has not moved.
        unsafe {
            ring.memory.zero(start, first);
            ring.memory.zero(0, bytes as usize - first);
        }
        if start as u64 + bytes >= ring.capacity {
            *used = ring.capacity;
        }
        *position += bytes;
        Some(result)
    }

    /// Gives the room of taken records back to the appending threads.
    pub fn give_back(&mut self) {
        self.ring.tail.0.store(self.position, Ordering::Release);
    }

    /// Goes back to the ring's start if nothing waits, so that a small part of its memory is used over and
    /// over; whether it did. Everything that was taken must have been given back.
    pub fn rewind(&mut self) -> bool {
        let ring = &*self.ring;
        let offset = self.position & (ring.capacity - 1);
        let lap = self.position + (ring.capacity - offset);
        if offset < KEPT_BYTES.min(ring.capacity / 4) || self.is_behind() {
            return false;
        }
        // Until the rest of the memory has been given back, appending threads get no more than the kept part.
        let kept = KEPT_BYTES.min(ring.capacity / 4);
        ring.tail.0.store(lap + kept - ring.capacity, Ordering::SeqCst);
        let moved =
            ring.head.0.compare_exchange(self.position, lap, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if moved {
            self.used = self.used.max(offset);
            if self.used > 2 * kept {
                // SAFETY: nothing is beyond `kept`: all was taken, and later records wait for more room.
                unsafe { ring.memory.discard(kept as usize, (ring.capacity - kept) as usize) };
                self.used = 0;
            }
            self.position = lap;
        }
        self.give_back();
        moved
    }
}
