//! A consumer group: how far it has read, and which entries its consumers have not acknowledged yet.
//!
//! Invariant: an entry is pending in the group, under a consumer's number, exactly if it is in that
//! consumer's own set; all numbers are those of consumers. An entry that is pending without a consumer has a
//! turn among the released ones. Once there is an index by time, it holds all others.

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
    released: Released,
    /// What consumers have, from the one on that was delivered first. Nothing pays for it before it is first
    /// asked for.
    by_time: Option<OrderedMap<(i64, Id), ()>>,
}

/// Entries that consumers gave back unacknowledged, in the order in which they did.
#[derive(Clone, Default)]
struct Released {
    ids: OrderedMap<u64, Id>,
    turns: OrderedMap<Id, u64>,
}

impl Released {
    /// Puts an entry at the end.
    fn push(&mut self, id: Id) {
        let turn = self.ids.last().map_or(0, |(turn, _)| turn + 1);
        self.ids.insert(turn, id);
        self.turns.insert(id, turn);
    }

    fn remove(&mut self, id: Id) {
        if let Some(turn) = self.turns.remove(&id) {
            self.ids.remove(&turn);
        }
    }

    fn heap_bytes(&self) -> usize {
        self.ids.heap_bytes() + self.turns.heap_bytes()
    }
}

/// Facts about an entry that a consumer has got and not acknowledged.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The consumer's number; `None` if it was released and has none.
    pub consumer: Option<u32>,
    /// When it was delivered last, Unix milliseconds; 0 if it was released.
    pub delivered_ms: i64,
    /// How often.
    pub deliveries: u64,
}

impl Pending {
    /// The count of deliveries after one more: it stays within a signed integer.
    pub fn delivered_again(&self) -> u64 {
        if self.deliveries >= i64::MAX as u64 { self.deliveries } else { self.deliveries + 1 }
    }

    /// For how long a consumer has had it; `None` without one.
    pub fn idle_ms(&self, now_ms: i64) -> Option<i64> {
        self.consumer.map(|_| now_ms.saturating_sub(self.delivered_ms))
    }
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
        let own = self.pending.heap_bytes() + self.consumers.heap_bytes() + self.numbers.heap_bytes();
        let orders = self.released.heap_bytes() + self.by_time.as_ref().map_or(0, OrderedMap::heap_bytes);
        own + orders + consumers
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
            if let Some(pending) = self.pending.remove(id)
                && let Some(by_time) = &mut self.by_time
            {
                by_time.remove(&(pending.delivered_ms, *id));
            }
        }
        Some(consumer.pending.len())
    }

    /// Number of entries that wait for acknowledgement.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Facts about a pending entry.
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

    /// Number of entries that were released and have no consumer.
    pub fn released_count(&self) -> usize {
        self.released.ids.len()
    }

    /// The entries that were released, in the order in which they were.
    pub fn released(&self) -> impl Iterator<Item = Id> {
        self.released.ids.iter().map(|(_, id)| *id)
    }

    /// The pending entries in the order in which they may be claimed: those that were released, then those of
    /// consumers from the one on that was delivered first. The first call sorts them.
    pub fn claimable(&mut self) -> impl Iterator<Item = (Id, Pending)> {
        if self.by_time.is_none() {
            let owned = self.pending.iter().filter(|(_, pending)| pending.consumer.is_some());
            let mut times: Vec<(i64, Id)> = owned.map(|(id, pending)| (pending.delivered_ms, *id)).collect();
            times.sort_unstable();
            let mut by_time = OrderedMap::new();
            for key in times {
                by_time.insert(key, ());
            }
            self.by_time = Some(by_time);
        }
        let times = self.by_time.iter().flat_map(|by_time| by_time.iter());
        let ids = self.released().chain(times.map(|((_, id), ())| *id));
        ids.filter_map(|id| Some((id, *self.pending(id)?)))
    }

    /// Makes an entry pending, or another consumer's, which is one of the group; or without a consumer, at
    /// the end of the released ones.
    pub fn set_pending(&mut self, id: Id, pending: Pending) {
        let before = self.pending.insert(id, pending);
        if let Some(before) = before {
            if before.consumer == pending.consumer && pending.consumer.is_some() {
                if before.delivered_ms != pending.delivered_ms
                    && let Some(by_time) = &mut self.by_time
                {
                    by_time.remove(&(before.delivered_ms, id));
                    by_time.insert((pending.delivered_ms, id), ());
                }
                return;
            }
            self.detach(id, before);
        }
        match pending.consumer {
            None => self.released.push(id),
            Some(number) => {
                if let Some(by_time) = &mut self.by_time {
                    by_time.insert((pending.delivered_ms, id), ());
                }
                if let Some(consumer) = self.consumers.get_mut(&number) {
                    consumer.pending.insert(id, ());
                }
            }
        }
    }

    /// Takes an entry from its consumer.
    fn detach(&mut self, id: Id, pending: Pending) {
        let Some(number) = pending.consumer else { return self.released.remove(id) };
        if let Some(by_time) = &mut self.by_time {
            by_time.remove(&(pending.delivered_ms, id));
        }
        if let Some(consumer) = self.consumers.get_mut(&number) {
            consumer.pending.remove(&id);
        }
    }

    /// Acknowledges an entry; returns its facts if it was pending.
    pub fn acknowledge(&mut self, id: Id) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        self.detach(id, pending);
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
        let released = self.released().filter_map(|id| Some((id, self.pending(id)?.deliveries)));
        let released: Vec<_> = released.collect();
        let progress = (&self.last_id, &self.entries_read);
        f.debug_tuple("Group").field(&progress).field(&consumers).field(&released).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Pending entries with their consumers; a released one keeps the number of its step.
    type Model = BTreeMap<Id, (Option<u32>, i64, usize)>;

    fn same(group: &mut Group, model: &Model) {
        let mut released: Vec<(usize, Id)> = Vec::new();
        let mut owned: Vec<(i64, Id)> = Vec::new();
        for (id, (consumer, ms, step)) in model {
            match consumer {
                None => released.push((*step, *id)),
                Some(_) => owned.push((*ms, *id)),
            }
        }
        released.sort_unstable();
        owned.sort_unstable();
        let ids = released.iter().map(|(_, id)| *id);
        assert!(group.released().eq(ids.clone()) && group.released_count() == released.len());
        assert_eq!(group.pending_count(), model.len());
        let expected: Vec<Id> = ids.chain(owned.iter().map(|(_, id)| *id)).collect();
        let claimable: Vec<Id> = group.claimable().map(|(id, _)| id).collect();
        assert_eq!(claimable, expected);
        for (number, consumer) in group.consumers() {
            let own = model.iter().filter(|(_, (of, ..))| *of == Some(number)).map(|(id, _)| *id);
            assert!(consumer.pending_from(Id::MIN).eq(own));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 128 }))]

        /// In the order of claiming, whether the index by time is there from the beginning or is made late.
        #[test]
        fn claimable_as_sorted(
            steps in prop::collection::vec((0..10_u8, 0..20_u64, 0..3_u8, 0..30_i64), 1..80),
            sorted_early in any::<bool>(),
        ) {
            let (mut group, mut model) = (Group::new(Id::MIN, None), Model::new());
            for (step, (what, seq, name, ms)) in steps.into_iter().enumerate() {
                let id = Id { ms: 1, seq };
                match what {
                    0..=4 => {
                        let consumer = Some(group.add_consumer(&[name], 0));
                        group.set_pending(id, Pending { consumer, delivered_ms: ms, deliveries: 1 });
                        model.insert(id, (consumer, ms, step));
                    }
                    5 | 6 => {
                        group.set_pending(id, Pending { consumer: None, delivered_ms: 0, deliveries: 1 });
                        model.insert(id, (None, 0, step));
                    }
                    7 | 8 => prop_assert_eq!(group.acknowledge(id).is_some(), model.remove(&id).is_some()),
                    _ => {
                        let number = group.number_of(&[name]);
                        let removed = group.remove_consumer(&[name]);
                        let before = model.len();
                        model.retain(|_, (of, ..)| number.is_none() || *of != number);
                        prop_assert_eq!(removed.unwrap_or(0), before - model.len());
                    }
                }
                if sorted_early {
                    same(&mut group, &model);
                }
            }
            same(&mut group, &model);
        }
    }
}
