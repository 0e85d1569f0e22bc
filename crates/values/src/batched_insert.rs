//! Entries that were read and are added to a collection together: in a large one each touches memory that is
//! in no cache, and what several will touch is asked for while none of them waits for it.

use martlet_base::prefetch::{Name, PrefetchQueue, ProbeStep, Progress};

use martlet_rdb::Error;

/// Entries that are added together.
const ENTRIES: usize = 32;
/// Fewer, if they have this many bytes.
const TEXT_BYTES: usize = 16 << 10;
/// Probe steps for one of them, at most.
const PROBE_STEPS_MAX: usize = 8;
/// A collection of fewer entries stays in the caches while it is built.
const WORTHWHILE: usize = 4096;

/// See the [module docs](self). An entry is a name, a value that may be empty, and what else there is to it.
pub(crate) struct BatchedInsert<T> {
    texts: Vec<u8>,
    entries: Vec<Waiting<T>>,
    names: Vec<Name>,
    queue: PrefetchQueue,
    prefetches: bool,
}

struct Waiting<T> {
    name_end: usize,
    value_end: usize,
    rest: T,
}

impl<T> BatchedInsert<T> {
    /// For a collection that will have `count` entries.
    pub fn new(count: usize) -> BatchedInsert<T> {
        BatchedInsert {
            texts: Vec::new(),
            entries: Vec::new(),
            names: Vec::new(),
            queue: PrefetchQueue::default(),
            prefetches: count >= WORTHWHILE,
        }
    }

    /// Takes in a name, or the value that follows it, and says where it ends.
    pub fn text(&mut self, bytes: &[u8]) -> usize {
        self.texts.extend_from_slice(bytes);
        self.texts.len()
    }

    /// Ends an entry, whose name and value end there.
    pub fn push(&mut self, name_end: usize, value_end: usize, rest: T) {
        self.entries.push(Waiting { name_end, value_end, rest });
    }

    /// Whether they should be added now.
    pub fn is_full(&self) -> bool {
        !self.prefetches || self.entries.len() >= ENTRIES || self.texts.len() >= TEXT_BYTES
    }

    /// Adds all that wait to `collection`.
    pub fn add<C>(
        &mut self,
        collection: &mut C,
        queue_probe: impl Fn(&C, ProbeStep, &mut PrefetchQueue) -> Progress,
        mut add: impl FnMut(&mut C, &[u8], &[u8], T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.prefetches {
            self.prefetch(|probe, queue| queue_probe(collection, probe, queue));
        }
        let mut start = 0;
        for Waiting { name_end, value_end, rest } in self.entries.drain(..) {
            let (name, value) = (&self.texts[start..name_end], &self.texts[name_end..value_end]);
            add(collection, name, value, rest)?;
            start = value_end;
        }
        self.texts.clear();
        Ok(())
    }

    fn prefetch(&mut self, queue_probe: impl Fn(ProbeStep, &mut PrefetchQueue) -> Progress) {
        let mut start = 0;
        self.names.clear();
        for entry in &self.entries {
            self.names.push(Name::text(&self.texts[start..entry.name_end]));
            start = entry.value_end;
        }
        for step in 0..PROBE_STEPS_MAX {
            let queue = &mut self.queue;
            self.names.retain(|name| {
                queue_probe(ProbeStep { name: *name, is_write: true, step }, queue) == Progress::More
            });
            queue.issue();
            if self.names.is_empty() {
                break;
            }
        }
    }
}
