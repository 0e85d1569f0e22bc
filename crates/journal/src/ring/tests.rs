//! The ring under loom, which tries the interleavings of small scenes, and with real threads and real memory.

use super::{Memory, Reader, Ring};

/// What `modelled` is built on.
mod atomic {
    pub use loom::sync::atomic::{AtomicU64, Ordering};

    pub fn relax(_: u32) {
        loom::thread::yield_now();
    }
}

/// Memory whose every word is an atomic of loom's: a read that nothing orders after its write finds an older
/// content.
mod memory {
    use loom::sync::atomic::{AtomicU64, Ordering};

    pub struct Memory {
        words: Vec<AtomicU64>,
        /// What slices are made of, for the one reader.
        copy: std::cell::UnsafeCell<Vec<u8>>,
    }

    // SAFETY: `copy` is the reader's alone.
    unsafe impl Sync for Memory {}

    impl Memory {
        pub fn new(bytes: usize) -> Memory {
            Memory { words: (0..bytes / 8).map(|_| AtomicU64::new(0)).collect(), copy: Vec::new().into() }
        }

        pub fn word(&self, offset: usize) -> &AtomicU64 {
            &self.words[offset / 8]
        }

        pub unsafe fn write(&self, offset: usize, bytes: &[u8]) {
            for (i, chunk) in bytes.chunks(8).enumerate() {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                self.words[offset / 8 + i].store(u64::from_le_bytes(word), Ordering::Relaxed);
            }
        }

        pub unsafe fn read(&self, offset: usize, len: usize) -> &[u8] {
            // SAFETY: the reader does not keep a slice while it asks for another.
            let copy = unsafe { &mut *self.copy.get() };
            copy.clear();
            for i in 0..len.div_ceil(8) {
                copy.extend(self.words[offset / 8 + i].load(Ordering::Relaxed).to_le_bytes());
            }
            copy.truncate(len);
            copy
        }

        pub unsafe fn zero(&self, offset: usize, len: usize) {
            (0..len / 8).for_each(|i| self.words[offset / 8 + i].store(0, Ordering::Relaxed));
        }

        pub unsafe fn discard(&self, offset: usize, len: usize) {
            for i in 0..len / 8 {
                assert_eq!(self.words[offset / 8 + i].load(Ordering::Relaxed), 0, "was still used");
            }
        }
    }
}

#[allow(clippy::duplicate_mod, dead_code, clippy::missing_safety_doc)]
#[path = "queue.rs"]
mod modelled;

/// Threads append while the reader tries `tries` times to take a record, rewinding where it can; without a
/// limit until it has all. Each thread's records come out in order.
fn scene(capacity: u64, each: u64, writers: u64, tries: Option<usize>) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let ring =
            loom::sync::Arc::new(modelled::Ring::new(memory::Memory::new(capacity as usize), capacity));
        let threads: Vec<_> = (1..=writers)
            .map(|writer| {
                let ring = ring.clone();
                loom::thread::spawn(move || {
                    for i in 1..=each {
                        ring.append(writer as u32, &(writer << 8 | i).to_le_bytes());
                    }
                })
            })
            .collect();
        // SAFETY: there is no other.
        let mut reader = unsafe { modelled::Reader::new(&*ring) };
        let mut seen = [0; 3];
        let mut take = |reader: &mut modelled::Reader<&modelled::Ring>| {
            let Some((tag, payload)) = reader.next(|record| (record.tag, record.payload.to_vec())) else {
                return false;
            };
            let value = u64::from_le_bytes(payload.try_into().unwrap());
            assert_eq!(value >> 8, u64::from(tag), "a record is whole");
            assert_eq!(value & 0xff, seen[tag as usize] + 1, "and in its thread's order");
            seen[tag as usize] += 1;
            reader.give_back();
            reader.rewind();
            true
        };
        let mut taken = 0;
        let mut tried = 0;
        while taken < writers * each && tries.is_none_or(|tries| tried < tries) {
            tried += 1;
            match take(&mut reader) {
                true => taken += 1,
                false => atomic::relax(0),
            }
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        while taken < writers * each {
            assert!(take(&mut reader), "a record is lost");
            taken += 1;
        }
        assert!(!reader.is_behind());
    });
}

#[test]
fn no_interleaving_loses_or_tears_a_record() {
    // A record has two words.
    scene(128, 1, 2, Some(2));
    scene(128, 3, 1, Some(3));
    // Two records fill the ring.
    scene(32, 3, 1, None);
}

fn take_all(reader: &mut Reader<&Ring>, mut f: impl FnMut(u32, &[u8])) -> usize {
    let mut taken = 0;
    while reader.next(|record| f(record.tag, record.payload)).is_some() {
        taken += 1;
    }
    reader.give_back();
    taken
}

#[test]
fn records_of_all_sizes_come_out_as_they_went_in() {
    const CAPACITY: u64 = 1 << 16;
    let ring = Ring::new(Memory::new(CAPACITY as usize).unwrap(), CAPACITY);
    // SAFETY: there is no other.
    let mut reader = unsafe { Reader::new(&ring) };
    let payload = |i: usize| vec![i as u8; (i * 7919) % 40_000];
    for i in 0..2000 {
        let end = ring.append(i as u32, &payload(i)).end;
        let mut seen = Vec::new();
        assert_eq!(take_all(&mut reader, |tag, bytes| seen.push((tag, bytes.to_vec()))), 1);
        assert_eq!(seen, [(i as u32, payload(i))]);
        assert_eq!(reader.position(), end);
        if i % 3 == 0 {
            reader.rewind();
        }
        assert_eq!((ring.backlog(), reader.is_behind()), (0, false));
    }
}

#[test]
fn what_nobody_took_is_freed() {
    const CAPACITY: u64 = 1 << 16;
    let ring = Ring::new(Memory::new(CAPACITY as usize).unwrap(), CAPACITY);
    ring.append(1, &vec![1; 30_000]);
    ring.append(1, b"");
    assert!(ring.backlog() >= 30_000);
}

#[test]
fn threads_wait_for_room_and_lose_nothing() {
    const CAPACITY: u64 = 1 << 16;
    const EACH: u64 = 20_000;
    let ring = Ring::new(Memory::new(CAPACITY as usize).unwrap(), CAPACITY);
    std::thread::scope(|scope| {
        for writer in 0..3_u64 {
            let ring = &ring;
            scope.spawn(move || {
                for i in 0..EACH {
                    let mut payload = i.to_le_bytes().to_vec();
                    payload.resize(8 + (i % 90) as usize * if i % 1000 == 0 { 400 } else { 1 }, writer as u8);
                    ring.append(writer as u32, &payload);
                }
            });
        }
        // SAFETY: there is no other.
        let mut reader = unsafe { Reader::new(&ring) };
        let mut next = [0_u64; 3];
        while next.iter().sum::<u64>() < 3 * EACH {
            take_all(&mut reader, |tag, payload| {
                let (number, fill) = payload.split_at(8);
                assert_eq!(u64::from_le_bytes(number.try_into().unwrap()), next[tag as usize]);
                assert!(fill.iter().all(|&byte| u32::from(byte) == tag));
                next[tag as usize] += 1;
            });
            reader.rewind();
        }
    });
}
