//! Prefetching memory that will be used soon: hints without effect on the program's meaning.

use crate::hash::hash_bytes;

/// Bytes that the processor loads at a time.
pub const CACHE_LINE_BYTES: usize = 64;
/// Lines of one thing that are prefetched: the processor foresees the next ones.
const LINES_MAX: usize = 4;

/// Asks for the line at `address`, which need not be valid.
#[inline(always)]
pub fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and never faults, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch(address.cast::<i8>(), std::arch::x86_64::_MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// A command's search in a collection.
#[derive(Clone, Copy, Debug)]
pub enum Name {
    /// A member or a field.
    Text {
        /// Its [`hash_bytes`].
        hash: u64,
        /// Its length in bytes.
        len: usize,
    },
    /// An element's place in a list, counted from the tail if it is negative.
    Index(i64),
}

/// One step of the probe for a name, before the command runs: it reads lines that the steps before it
/// prefetched, and queues lines that the next step or the command will read.
#[derive(Clone, Copy, Debug)]
pub struct ProbeStep {
    /// The searched name.
    pub name: Name,
    /// Whether the command may add the name.
    pub is_write: bool,
    /// How many steps came before.
    pub step: usize,
}

/// Whether another step would find more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// This was the last.
    Done,
    /// There is more behind the queued lines.
    More,
}

/// Addresses, to be prefetched together.
///
/// A processor without an address' translation at hand looks for that before it is done with a prefetch,
/// several at a time if it may; but a locked instruction waits for all before it, and lets nothing after it
/// begin. So addresses found under locks are queued here, and issued with no lock between: measured, that is
/// a third of HGET's cost where the data is spread over many pages.
#[derive(Debug, Default)]
pub struct PrefetchQueue(Vec<usize>);

impl Name {
    /// The name of a member or a field.
    #[inline]
    pub fn text(bytes: &[u8]) -> Name {
        Name::Text { hash: hash_bytes(bytes), len: bytes.len() }
    }
}

impl PrefetchQueue {
    /// Queues an address, which need not be valid.
    #[inline(always)]
    pub fn add(&mut self, address: *const u8) {
        self.0.push(address.addr());
    }

    /// Queues the lines that `len` bytes at an address are in, the first [`LINES_MAX`] of them.
    #[inline(always)]
    pub fn add_lines(&mut self, address: *const u8, len: usize) {
        let covered = address.addr() % CACHE_LINE_BYTES + len;
        for offset in (0..covered).step_by(CACHE_LINE_BYTES).take(LINES_MAX) {
            self.add(address.wrapping_add(offset));
        }
    }

    /// Queues all lines of an object.
    #[inline]
    pub fn add_all_lines<T>(&mut self, object: *const T) {
        let address = object.cast::<u8>();
        let covered = address.addr() % CACHE_LINE_BYTES + size_of::<T>();
        (0..covered).step_by(CACHE_LINE_BYTES).for_each(|offset| self.add(address.wrapping_add(offset)));
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many addresses it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Prefetches all of them, and is empty then.
    #[inline]
    pub fn issue(&mut self) {
        self.0.drain(..).for_each(|address| prefetch(std::ptr::without_provenance(address)));
    }
}

/// Prefetches all lines of an object.
#[inline]
pub fn prefetch_object<T>(object: *const T) {
    for offset in (0..size_of::<T>()).step_by(CACHE_LINE_BYTES) {
        prefetch(object.cast::<u8>().wrapping_add(offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_queued_once() {
        let lines = |at: usize, len: usize| -> Vec<usize> {
            let mut queue = PrefetchQueue::default();
            queue.add_lines(std::ptr::without_provenance(at), len);
            queue.0.iter().map(|address| address / CACHE_LINE_BYTES).collect()
        };
        for (at, len, expected) in [
            (640, 1, &[10][..]),
            (640, 64, &[10]),
            (640, 65, &[10, 11]),
            (703, 1, &[10]),
            (703, 2, &[10, 11]),
            (703, 66, &[10, 11, 12]),
            (640, 10_000, &[10, 11, 12, 13]),
        ] {
            assert_eq!(lines(at, len), expected, "{len} bytes at {at}");
        }
    }
}
