//! Exactly-once adding: each producer's named additions, for a while.
//!
//! A producer names each message that it adds; a recorded name is answered with the entry's id, and nothing
//! is added again. A record is as old as the millisecond of its entry's id, and needs no separate time.
//! Records are limited by number for each producer, by time for all.
//!
//! Invariant: a name is in its producer's `ids` exactly if its turn is in `turns`; no producer is without
//! records; each is in `due` under the millisecond of its first record; counts and bytes are those of all.

use std::fmt;

use triomphe::Arc;

use crate::ordered::OrderedMap;
use crate::stream::Id;

/// For how long, and how much of each producer is remembered.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyLimits {
    /// Seconds for which a record is kept.
    pub duration_s: u32,
    /// Most records of one producer; its oldest goes.
    pub max_records: u32,
}

impl Default for IdempotencyLimits {
    /// Redis' defaults of `stream-idmp-duration` and `stream-idmp-maxsize`.
    fn default() -> IdempotencyLimits {
        IdempotencyLimits { duration_s: 100, max_records: 100 }
    }
}

/// See the [module docs](self).
#[derive(Clone, Default)]
pub struct Idempotency {
    producers: OrderedMap<Arc<[u8]>, Producer>,
    /// Producers by the millisecond of their first record.
    due: OrderedMap<(u64, Arc<[u8]>), ()>,
    records: usize,
    /// What producers have allocated.
    producer_bytes: usize,
    /// Records that were ever made.
    pub added: u64,
    /// Requests that were answered from a record.
    pub duplicates: u64,
}

/// The records of a producer.
#[derive(Clone)]
struct Producer {
    name: Arc<[u8]>,
    ids: OrderedMap<Arc<[u8]>, Record>,
    /// Names in the order in which they came.
    turns: OrderedMap<u64, Arc<[u8]>>,
    /// What names take.
    name_bytes: usize,
}

#[derive(Copy, Clone)]
struct Record {
    id: Id,
    turn: u64,
}

/// Bytes of a shared name.
fn shared_bytes(name: &[u8]) -> usize {
    name.len() + size_of::<usize>()
}

impl Producer {
    fn new(name: Arc<[u8]>) -> Producer {
        Producer { name, ids: OrderedMap::new(), turns: OrderedMap::new(), name_bytes: 0 }
    }

    /// The millisecond of the first record.
    fn first_ms(&self) -> Option<u64> {
        let (_, name) = self.turns.first()?;
        self.ids.get(name).map(|record| record.id.ms)
    }

    fn heap_bytes(&self) -> usize {
        let maps = self.ids.heap_bytes() + self.turns.heap_bytes();
        maps + self.name_bytes + shared_bytes(&self.name)
    }

    fn insert(&mut self, name: &[u8], id: Id, max_records: usize) {
        if let Some(before) = self.ids.remove(name) {
            self.turns.remove(&before.turn);
            self.name_bytes -= shared_bytes(name);
        }
        let turn = self.turns.last().map_or(0, |(turn, _)| turn + 1);
        let name: Arc<[u8]> = Arc::from(name.to_vec());
        self.name_bytes += shared_bytes(&name);
        self.ids.insert(name.clone(), Record { id, turn });
        self.turns.insert(turn, name);
        while self.turns.len() > max_records && self.forget_first() {}
    }

    /// Forgets the first record, if there is one.
    fn forget_first(&mut self) -> bool {
        let Some((&turn, _)) = self.turns.first() else { return false };
        if let Some(name) = self.turns.remove(&turn) {
            self.ids.remove(&*name);
            self.name_bytes -= shared_bytes(&name);
        }
        true
    }
}

impl Idempotency {
    /// Number of producers.
    pub fn producer_count(&self) -> usize {
        self.producers.len()
    }

    /// Number of records of all producers.
    pub fn record_count(&self) -> usize {
        self.records
    }

    /// About the bytes allocated.
    pub fn heap_bytes(&self) -> usize {
        self.producers.heap_bytes() + self.due.heap_bytes() + self.producer_bytes
    }

    /// The entry that a producer has added under a name.
    pub fn get(&self, producer: &[u8], name: &[u8]) -> Option<Id> {
        self.producers.get(producer)?.ids.get(name).map(|record| record.id)
    }

    /// Names of producers, in order, and numbers of their records.
    pub fn producers(&self) -> impl Iterator<Item = (&[u8], usize)> {
        self.producers.iter().map(|(name, producer)| (&**name, producer.turns.len()))
    }

    /// A producer's additions, in their order: names and entries' ids.
    pub fn records(&self, producer: &[u8]) -> impl Iterator<Item = (&[u8], Id)> {
        let producer = self.producers.get(producer);
        let turns = producer
            .into_iter()
            .flat_map(|producer| producer.turns.iter().map(move |(_, name)| (producer, name)));
        turns.filter_map(|(producer, name)| Some((&**name, producer.ids.get(name)?.id)))
    }

    /// The millisecond of the record that is the next to be forgotten for its age.
    pub fn first_ms(&self) -> Option<u64> {
        self.due.first().map(|((ms, _), ())| *ms)
    }

    /// Remembers an entry under a name, and forgets the producer's oldest if those are more than
    /// `max_records`. The name's record, if there is one, is replaced.
    pub fn insert(&mut self, producer: &[u8], name: &[u8], id: Id, max_records: u32) {
        if self.producers.get(producer).is_none() {
            let of = Producer::new(Arc::from(producer.to_vec()));
            self.producer_bytes += of.heap_bytes();
            self.producers.insert(of.name.clone(), of);
        }
        self.change(producer, |of| of.insert(name, id, max_records as usize));
        self.added += 1;
    }

    /// Forgets at most `limit` of the records whose entries' ids are of this millisecond or before; how many.
    /// One that came after a younger one of its producer stays with that.
    pub fn expire(&mut self, until_ms: u64, limit: usize) -> usize {
        let mut expired = 0;
        while expired < limit
            && let Some(((ms, producer), ())) = self.due.first()
            && *ms <= until_ms
        {
            let producer = producer.clone();
            self.change(&producer, |of| {
                while expired < limit && of.first_ms().is_some_and(|ms| ms <= until_ms) {
                    of.forget_first();
                    expired += 1;
                }
            });
        }
        expired
    }

    /// Drops all records; the counters stay.
    pub fn clear(&mut self) {
        *self = Idempotency { added: self.added, duplicates: self.duplicates, ..Idempotency::default() };
    }

    /// Changes a producer's records, and keeps the totals in step.
    fn change(&mut self, producer: &[u8], change: impl FnOnce(&mut Producer)) {
        let Some(of) = self.producers.get_mut(producer) else { return };
        let before = (of.first_ms(), of.turns.len(), of.heap_bytes());
        change(of);
        let (name, after) = (of.name.clone(), (of.first_ms(), of.turns.len(), of.heap_bytes()));
        self.records = self.records - before.1 + after.1;
        self.producer_bytes = self.producer_bytes - before.2 + after.2;
        if before.0 != after.0 {
            if let Some(ms) = before.0 {
                self.due.remove(&(ms, name.clone()));
            }
            if let Some(ms) = after.0 {
                self.due.insert((ms, name), ());
            }
        }
        if after.1 == 0 {
            self.producers.remove(producer);
            self.producer_bytes -= after.2;
        }
    }
}

impl fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let producers = self.producers().map(|(name, _)| (name, self.records(name).collect::<Vec<_>>()));
        let counts = (self.added, self.duplicates);
        f.debug_tuple("Idempotency").field(&counts).field(&producers.collect::<Vec<_>>()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Records of all producers, in the order in which they came.
    #[derive(Clone, Default)]
    struct Model(Vec<(u8, u8, Id)>);

    impl Model {
        fn of(&self, producer: u8) -> impl Iterator<Item = &(u8, u8, Id)> {
            self.0.iter().filter(move |record| record.0 == producer)
        }

        fn insert(&mut self, producer: u8, name: u8, id: Id, max: usize) {
            self.0.retain(|record| (record.0, record.1) != (producer, name));
            self.0.push((producer, name, id));
            while self.of(producer).count() > max {
                let first = self.0.iter().position(|record| record.0 == producer).unwrap();
                self.0.remove(first);
            }
        }

        fn expire(&mut self, until_ms: u64) -> usize {
            let before = self.0.len();
            for producer in 0..=u8::MAX {
                while let Some(first) = self.0.iter().position(|record| record.0 == producer)
                    && self.0[first].2.ms <= until_ms
                {
                    self.0.remove(first);
                }
            }
            before - self.0.len()
        }
    }

    fn same(table: &Idempotency, model: &Model) {
        assert_eq!(table.record_count(), model.0.len());
        let mut producers: Vec<u8> = model.0.iter().map(|record| record.0).collect();
        producers.sort_unstable();
        producers.dedup();
        assert!(table.producers().map(|(name, _)| name[0]).eq(producers.iter().copied()));
        for producer in producers {
            let records: Vec<(Vec<u8>, Id)> =
                table.records(&[producer]).map(|(name, id)| (name.to_vec(), id)).collect();
            assert!(records.iter().cloned().eq(model.of(producer).map(|(_, name, id)| (vec![*name], *id))));
            assert!(records.iter().all(|(name, id)| table.get(&[producer], name) == Some(*id)));
        }
        let first = |producer| model.of(producer).next().map(|record| record.2.ms);
        assert_eq!(table.first_ms(), (0..=u8::MAX).filter_map(first).min());
        let producers = table.producers.iter().map(|(_, of)| of.heap_bytes()).sum::<usize>();
        assert_eq!(table.producer_bytes, producers);
        assert_eq!(table.due.len(), table.producers.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 128 }))]

        #[test]
        fn as_a_plain_list(
            steps in prop::collection::vec((0..5_u8, 0..4_u8, 0..12_u8, 0..40_u64, 1..8_u32), 1..80),
        ) {
            let (mut table, mut model, mut clones) = (Idempotency::default(), Model::default(), Vec::new());
            for (what, producer, name, ms, max) in steps {
                match what {
                    0 => prop_assert_eq!(table.expire(ms, usize::MAX), model.expire(ms)),
                    1 if ms == 0 => {
                        table.clear();
                        model.0.clear();
                    }
                    1 => clones.push((table.clone(), model.clone())),
                    _ => {
                        let id = Id { ms, seq: u64::from(name) };
                        table.insert(&[producer], &[name], id, max);
                        model.insert(producer, name, id, max as usize);
                    }
                }
                same(&table, &model);
            }
            clones.iter().for_each(|(table, model)| same(table, model));
        }
    }

    #[test]
    fn expiring_stops_at_its_limit() {
        let mut table = Idempotency::default();
        for ms in 0..10 {
            table.insert(if ms % 2 == 0 { b"even" } else { b"odd" }, &[ms as u8], Id { ms, seq: 0 }, 100);
        }
        assert_eq!((table.expire(20, 3), table.record_count()), (3, 7));
        assert_eq!((table.expire(20, 100), table.producer_count(), table.added), (7, 0, 10));
        assert_eq!(table.heap_bytes(), 0);
    }
}
