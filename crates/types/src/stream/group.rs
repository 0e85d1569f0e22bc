//! A consumer group: how far it has read, and which entries its consumers have not acknowledged yet.
//!
//! Invariant: an entry is pending in the group, under a consumer's number, exactly if it is in that
//! consumer's own set; all numbers are those of consumers.

use std::fmt;

use crate::ordered::OrderedMap;
use crate::stream::{Id, Log};

/// A consumer group.
#[derive(Clone, Default)]
pub struct Group {
    /// The last entry that was delivered as new.
    pub last_id: Id,
    /// How many entries had been added up to it, where that is known.
    pub entries_read: Option<u64>,
    pending: OrderedMap<Id, Pending>,
    consumers: OrderedMap<u32, Consumer>,
    numbers: OrderedMap<Box<[u8]>, u32>,
}

/// What is known of an entry that a consumer has got and not acknowledged.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The consumer's number.
    pub consumer: u32,
    /// When it was delivered last, Unix milliseconds.
    pub delivered_ms: i64,
    /// How often.
    pub deliveries: u64,
}

/// A consumer.
#[derive(Clone)]
pub struct Consumer {
    name: Box<[u8]>,
    /// When it was last seen, Unix milliseconds.
    pub seen_ms: i64,
    /// When it last got or claimed entries, Unix milliseconds; -1 if it never has.
    pub active_ms: i64,
    pending: OrderedMap<Id, ()>,
}

impl Consumer {
    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Number of its entries.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// The ids of its entries from `start` on.
    pub fn pending_from(&self, start: Id) -> impl Iterator<Item = Id> {
        self.pending.iter_from(&start).map(|(id, ())| *id)
    }

    fn heap_bytes(&self) -> usize {
        2 * self.name.len() + self.pending.heap_bytes()
    }
}

impl Group {
    /// A group that has read up to an id.
    pub fn new(last_id: Id, entries_read: Option<u64>) -> Group {
        Group { last_id, entries_read, ..Group::default() }
    }

    /// About the bytes allocated.
    pub fn heap_bytes(&self) -> usize {
        let consumers = self.consumers().map(|(_, consumer)| consumer.heap_bytes()).sum::<usize>();
        self.pending.heap_bytes() + self.consumers.heap_bytes() + self.numbers.heap_bytes() + consumers
    }

    /// Moves on to an entry that is delivered as new, the next one behind the last.
    pub fn advance(&mut self, log: &Log, id: Id) {
        self.entries_read = match self.entries_read {
            Some(read) if log.is_whole_from(self.last_id) => Some(read + 1),
            before if log.entries_added() == 0 => before,
            _ => log.entries_up_to(id),
        };
        self.last_id = id;
    }

    /// Number of consumers.
    pub fn consumer_count(&self) -> usize {
        self.numbers.len()
    }

    /// Numbers and consumers, in order of names.
    pub fn consumers(&self) -> impl Iterator<Item = (u32, &Consumer)> {
        self.numbers.iter().filter_map(|(_, number)| Some((*number, self.consumers.get(number)?)))
    }

    /// The number of the consumer of this name.
    pub fn number_of(&self, name: &[u8]) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// A consumer by its number.
    pub fn consumer(&self, number: u32) -> Option<&Consumer> {
        self.consumers.get(&number)
    }

    /// A consumer by its number, to be changed.
    pub fn consumer_mut(&mut self, number: u32) -> Option<&mut Consumer> {
        self.consumers.get_mut(&number)
    }

    /// Adds a consumer, unless there is one of this name; its number.
    pub fn add_consumer(&mut self, name: &[u8], seen_ms: i64) -> u32 {
        if let Some(number) = self.number_of(name) {
            return number;
        }
        let number = self.free_number();
        let pending = OrderedMap::new();
        self.consumers.insert(number, Consumer { name: name.into(), seen_ms, active_ms: -1, pending });
        self.numbers.insert(name.into(), number);
        number
    }

    /// A number that no consumer has: the next one, or the lowest that is free once those have run out.
    fn free_number(&self) -> u32 {
        let highest = self.consumers.last().map(|(number, _)| *number);
        let next = highest.map_or(Some(0), |highest| highest.checked_add(1));
        let free = || self.consumers.iter().zip(0..).find(|((taken, _), number)| **taken != *number);
        next.or_else(|| free().map(|(_, number)| number)).unwrap_or(u32::MAX)
    }

    /// Removes a consumer with its entries; how many these were, `None` if there is no such consumer.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let number = self.numbers.remove(name)?;
        let consumer = self.consumers.remove(&number)?;
        for (id, ()) in consumer.pending.iter() {
            self.pending.remove(id);
        }
        Some(consumer.pending.len())
    }

    /// Number of entries that wait for acknowledgement.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// What is known of a pending entry.
    pub fn pending(&self, id: Id) -> Option<&Pending> {
        self.pending.get(&id)
    }

    /// The pending entries from `start` on.
    pub fn pending_from(&self, start: Id) -> impl Iterator<Item = (Id, &Pending)> {
        self.pending.iter_from(&start).map(|(id, pending)| (*id, pending))
    }

    /// The highest id that is pending.
    pub fn last_pending(&self) -> Option<Id> {
        self.pending.last().map(|(id, _)| *id)
    }

    /// Makes an entry pending, or another consumer's. The consumer is one of the group.
    pub fn set_pending(&mut self, id: Id, pending: Pending) {
        let before = self.pending.insert(id, pending).map(|before| before.consumer);
        if before == Some(pending.consumer) {
            return;
        }
        if let Some(consumer) = before.and_then(|before| self.consumers.get_mut(&before)) {
            consumer.pending.remove(&id);
        }
        if let Some(consumer) = self.consumers.get_mut(&pending.consumer) {
            consumer.pending.insert(id, ());
        }
    }

    /// Acknowledges an entry; what was known of it if it was pending.
    pub fn acknowledge(&mut self, id: Id) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        if let Some(consumer) = self.consumers.get_mut(&pending.consumer) {
            consumer.pending.remove(&id);
        }
        Some(pending)
    }
}

/// Without consumers' numbers, so that groups look alike that are.
impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let consumers = self.consumers().map(|(_, consumer)| {
            let pending = consumer.pending.iter().filter_map(|(id, ())| {
                self.pending(*id).map(|pending| (*id, pending.delivered_ms, pending.deliveries))
            });
            (consumer.name(), consumer.seen_ms, consumer.active_ms, pending.collect::<Vec<_>>())
        });
        let consumers: Vec<_> = consumers.collect();
        f.debug_tuple("Group").field(&self.last_id).field(&self.entries_read).field(&consumers).finish()
    }
}
